"""Leaks outside of the messages: planted, each is noticed by a measurement that passes without it."""

from __future__ import annotations

import pytest

from psephos.audit.mutants import edited
from tests.security.lab.parameters import prepare
from tests.security.lab.planted import PLANTED, Planted

LONG = ("shares of noise sized for everybody", "shares of noise sized without the colluders")


@pytest.mark.parametrize(
    "leak",
    [pytest.param(leak, id=leak.name, marks=[pytest.mark.mutants] * (leak.name in LONG)) for leak in PLANTED],
)
def test_a_planted_leak_is_detected(leak: Planted) -> None:
    prepare()
    with edited(*leak.edit), pytest.raises(AssertionError):
        leak.measure()
