"""The privacy ledger: what a row says of a release, and what no row may say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from psephos.curator.hamm.sensitivity import Sensitivity
from psephos.curator.ledger import Release, ledger_entry, public_entry
from psephos.curator.signal import Signal
from psephos.protocol.privacy.accounting import PrivacyEvent


def test_an_epsilon_of_0_is_of_a_release_without_noise() -> None:
    free = public_entry({})
    with pytest.raises(ValueError, match="epsilon is 0"):
        replace(free, mechanism="spherical Laplace")
    assert replace(free, mechanism="spherical Laplace", epsilon=1e-9).epsilon == 1e-9
    assert replace(free, mechanism="spherical Laplace", epsilon=None).epsilon is None


def test_how_much_is_signal_is_said_where_it_is_known() -> None:
    free = public_entry({})
    assert free.worth == ""
    worth = replace(free, signal=Signal(0.25, 0.05, 0.875, 0.625, False)).worth
    assert [share for share in worth.split() if "%" in share] == ["25%", "5%)", "88%", "62%"]


def test_a_row_states_the_cost_and_the_sensitivity_of_its_release() -> None:
    event = PrivacyEvent("step", 2.0, 1e-6, multiplier=3.0, unit="record")
    entry = ledger_entry(event, Sensitivity(0.25, "l1", "record", "by hand"), "the noise", {"rows": 5})
    assert entry == Release("the noise", 2.0, 1e-6, "record", 0.25, "l1", "by hand", chosen={"rows": 5})
    free = public_entry({"gain": 0.0}, "record")
    assert (free.mechanism, free.epsilon, free.delta, free.unit, free.sensitivity) == ("none", 0.0, 0.0, "record", 0.0)
