"""No check is one that cannot fail: each kind is seen to change its mind about a protocol that was broken for it."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from psephos.audit.model import AnalysisContext
from psephos.audit.run import CASES, RATE
from tests.security.lab.breaks import BREAKS, Break
from tests.security.lab.edits import edited
from tests.security.lab.mutants import MUTANTS


def kind(protocol_: str, check: str) -> tuple[str, str]:
    """Cases of one family share their checks' code: (family, the check's name without its coalition)."""
    family = protocol_.split("-")[0]
    if family in ("record", "whitened", "rehearsed", "evaluation"):
        family = "own"
    return family, check.split(", ")[0]


def run(broken: Break) -> bool:
    return CASES[broken.protocol].check(broken.check).run(AnalysisContext(seed=31, views=broken.views, rate=RATE)).leaks


FIRST = {broken.protocol: broken for broken in reversed(BREAKS)}
SLOW = {"pathak-printed", "psgd"}
"""Protocols whose audit takes seconds."""


def tier(broken: Break) -> list[pytest.MarkDecorator]:
    """Return the mark of the test of a broken protocol."""
    if broken is not FIRST[broken.protocol]:
        return [pytest.mark.mutants]
    return [pytest.mark.slow] * (broken.protocol in SLOW)


@pytest.mark.parametrize("broken", [pytest.param(b, id=f"{b.protocol}: {b.check}", marks=tier(b)) for b in BREAKS])
def test_a_broken_protocol_changes_the_verdict(broken: Break) -> None:
    granted = {c.name: {*c.granted, *c.known_leaks} for c in CASES[broken.protocol].coalitions}
    check = CASES[broken.protocol].check(broken.check)
    reveals = bool(set(check.secrets) & granted[check.coalition])
    with ExitStack() as stack:
        for edit in broken.edits:
            stack.enter_context(edited(*edit))
        assert run(broken) is not reveals


def test_every_kind_of_check_has_a_failing_example() -> None:
    every = {kind(name, check.name) for name, case in CASES.items() for check in case.checks}
    seen = {kind(m.protocol, m.check) for m in MUTANTS} | {kind(b.protocol, b.check) for b in BREAKS}
    assert every == seen
