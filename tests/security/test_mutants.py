"""Every broken protocol is noticed. `make test` breaks most protocols once, `pytest -m slow` the others,
`pytest -m mutants` each in every way listed.

The seed is fixed, so that a mutant that goes unnoticed is a change of the code and not of the coins; how often each is
caught under fresh ones: `python -m tests.security.lab.rates`.
"""

from __future__ import annotations

import pytest

from psephos.audit.model import AnalysisContext
from psephos.audit.run import CASES, PROTOCOLS, RATE
from psephos.protocol.errors import InvalidParameter
from tests.security.lab.edits import Mutant, caught_by, edited, for_protocol
from tests.security.lab.mutants import MUTANTS

SEED = 20260


FIRST = {mutant.protocol: mutant for mutant in reversed(MUTANTS)}
"""The first mutant of each protocol."""
SLOW = {"ceremony", "psgd", "statistic"}
"""Protocols whose audit takes seconds."""


def tier(mutant: Mutant) -> list[pytest.MarkDecorator]:
    """Return the mark of the test of a mutant."""
    if mutant is not FIRST[mutant.protocol]:
        return [pytest.mark.mutants]
    return [pytest.mark.slow] * (mutant.protocol in SLOW)


@pytest.mark.parametrize("mutant", [pytest.param(m, id=f"{m.protocol}: {m.name}", marks=tier(m)) for m in MUTANTS])
def test_mutants_are_detected(mutant: Mutant) -> None:
    by, result = caught_by(mutant, CASES[mutant.protocol], AnalysisContext(seed=SEED, rate=RATE))
    assert by is not None, result


def test_there_are_enough_mutants_and_their_names_differ() -> None:
    assert len(MUTANTS) >= 20
    assert len({(m.protocol, m.name) for m in MUTANTS}) == len(MUTANTS)
    assert {m.protocol for m in MUTANTS} == set(PROTOCOLS)


def test_an_edit_ends_with_its_block() -> None:
    import psephos.protocol.paillier.sharing
    import psephos.protocol.paillier.threshold

    before = psephos.protocol.paillier.sharing.deal_integer
    broken = edited(psephos.protocol.paillier.sharing, "deal_integer", "range(1, $holders + 1)", "range($holders)")
    with broken:
        assert (
            psephos.protocol.paillier.threshold.deal_integer
            is psephos.protocol.paillier.sharing.deal_integer
            is not before
        )
    assert psephos.protocol.paillier.threshold.deal_integer is psephos.protocol.paillier.sharing.deal_integer is before


def test_an_edited_method_that_was_inherited_is_inherited_again() -> None:
    class Base:
        def value(self) -> int:
            return 1

    class Inheriting(Base):
        pass

    with edited(Inheriting, "value", "1", "2"):
        assert (Inheriting().value(), Base().value()) == (2, 1)
    assert Inheriting().value() == 1
    with edited(Base, "value", "1", "3"):
        assert Inheriting().value() == 3


def test_a_function_with_variables_of_another_is_not_edited() -> None:
    """Its copy would fail only when it is called, and the mutant would pass for one that is noticed."""

    class Base:
        def value(self) -> int:
            return 1

    class Above(Base):
        def value(self) -> int:
            return super().value() + 1

    with pytest.raises(InvalidParameter, match="refers to __class__"), edited(Above, "value", "1", "2"):
        raise AssertionError


def test_a_mutant_of_another_name_is_not_left_out() -> None:
    (first, *_) = MUTANTS
    assert for_protocol(MUTANTS, "tally", first.name)
    with pytest.raises(InvalidParameter, match="no mutant the old name"):
        for_protocol(MUTANTS, "tally", first.name, "the old name")
