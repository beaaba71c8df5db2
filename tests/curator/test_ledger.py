"""The privacy ledger: what a row says of a release, and what no row may say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from psephos.curator.hamm.sensitivity import Sensitivity
from psephos.curator.ledger import Release, ledger_entry, public_entry
from psephos.curator.signal import Signal
from psephos.protocol.privacy.accounting import PrivacyEvent


def test_a_row_states_the_cost_and_the_sensitivity_of_its_release() -> None:
    event = PrivacyEvent("step", 2.0, 1e-6, multiplier=3.0, unit="record")
    entry = ledger_entry(event, Sensitivity(0.25, "l1", "record", "by hand"), "the noise", {"rows": 5})
    assert entry == Release(
        mechanism="the noise",
        epsilon=2.0,
        delta=1e-6,
        unit="record",
        sensitivity=0.25,
        norm="l1",
        source="by hand",
        said="",
        chosen={"rows": 5},
        signal=None,
    )


@pytest.mark.parametrize("unit", ["party", "record"])
def test_a_classifier_for_which_nobody_was_asked_costs_nothing(unit: str) -> None:
    assert public_entry({"gain": 0.0}, unit) == Release(
        mechanism="none",
        epsilon=0.0,
        delta=0.0,
        unit=unit,
        sensitivity=0.0,
        norm="l2",
        source="a function of public rows alone",
        chosen={"gain": 0.0},
    )
    assert public_entry({}).unit == "party"


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
