"""Leaks outside of the messages: planted, each is noticed by a measurement that passes without it."""

from __future__ import annotations

import pytest

from psephos.audit.mutants import edited
from tests.security.lab.parameters import prepare
from tests.security.lab.planted import PLANTED, Planted


@pytest.mark.mutant
@pytest.mark.parametrize("leak", PLANTED, ids=lambda leak: leak.name)
def test_a_planted_leak_is_noticed(leak: Planted) -> None:
    prepare()
    with edited(*leak.edit), pytest.raises(AssertionError):
        leak.measure()
