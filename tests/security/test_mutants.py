"""Every broken protocol is noticed. `make test` breaks most protocols once, `pytest -m slow` the others,
`pytest -m mutants` each in every way listed.

The seed is fixed, so that a mutant that goes unnoticed is a change of the code and not of the coins; how often each is
caught under fresh ones: `python -m tests.security.lab.detection`.
"""

from __future__ import annotations

import pytest

from psephos.audit.model import AnalysisContext
from psephos.audit.mutants import Mutant, caught_by, edited
from psephos.audit.run import CASES, PROTOCOLS, RATE
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
