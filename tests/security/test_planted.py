"""Leaks outside of the messages: planted, each is noticed by a measurement that passes without it."""

from __future__ import annotations

import pytest

from tests.security.lab.edits import edited
from tests.security.lab.parameters import prepare
from tests.security.lab.planted import PLANTED, Planted

LONG = ("shares of noise sized for everybody", "shares of noise sized without the colluders")


def tier(place: int, leak: Planted) -> list[pytest.MarkDecorator]:
    """Return the mark of a leak's test: one of three is in `make test`."""
    return [pytest.mark.mutants] * (leak.name in LONG) + [pytest.mark.slow] * (place % 3 > 0)


@pytest.mark.parametrize(
    "leak",
    [pytest.param(leak, id=leak.name, marks=tier(place, leak)) for place, leak in enumerate(PLANTED)],
)
def test_a_planted_leak_is_detected(leak: Planted) -> None:
    prepare()
    with edited(*leak.edit), pytest.raises(AssertionError):
        leak.measure()
