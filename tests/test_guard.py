"""The comparison that `make bench` makes: what is a loss, and what is not."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import scaling
from benchmarks.guard import MOST, commands, losses, summary


def results(faster: float = 100.0, over: float = 1.6, command: float = 0.5, seconds: float = 0.1) -> dict[str, Any]:
    return {
        "kernel": "gmpy2",
        "encryption": [{"key_bits": 2048, "times_faster_than_phe_per_ciphertext": {"half": faster}}],
        "addition": [{"key_bits": 2048, "like": "HAR", "over_bare_multiplications": over}],
        "commands": {"psephos": {"over_reference": command, "seconds": seconds, "limit": 0.3}},
    }


@pytest.mark.parametrize(
    ("worse", "name"),
    [
        ({"faster": 100 / MOST * 0.999}, "encryption, 2048 bits, half, over phe"),
        ({"over": 1.6 * MOST * 1.001}, "counting like HAR, 2048 bits, over multiplications"),
        ({"command": 0.5 * MOST * 1.001}, "psephos, over the reference program"),
        ({"seconds": 0.301}, "psephos, seconds"),
    ],
)
def test_a_loss_above_10_percent_or_a_limit_is_named(worse: dict[str, float], name: str) -> None:
    assert losses(results(), results(**worse)).keys() == {name}


def test_gains_and_small_losses_are_none() -> None:
    assert losses(results(), results(100 / 1.09, 1.6 * 1.09, 0.5 * 1.09, 0.29)) == {}
    assert losses(results(), results(200, 1.0, 0.1, 0.01)) == {}


def test_what_was_not_recorded_or_has_another_kernel_has_limits_only() -> None:
    assert losses({}, results(1, 99, 99)) == {}
    assert losses(results() | {"kernel": "ifma"}, results(1, 99, 99, 0.5)).keys() == {"psephos, seconds"}
    assert losses(results(), {"commands": {}}) == {}


def test_a_machine_of_half_the_speed_has_the_same_ratios() -> None:
    turns = [{"own": (3.0, 4.0), "beyond": (1.0, 1.0), "reference": (4.0, 5.0)}] * 3
    slow = [{name: (2 * cpu, 2 * clock) for name, (cpu, clock) in turn.items()} for turn in turns]
    assert summary(turns) == {"over_reference": 0.75, "seconds": 3.0}
    assert summary(slow) == {"over_reference": 0.75, "seconds": 6.0}


def test_one_disturbed_turn_of_three_does_not_count() -> None:
    turns = [{"own": (cpu, cpu), "reference": (2.0, 2.0)} for cpu in (1.0, 50.0, 1.0)]
    assert summary(turns) == {"over_reference": 0.5, "seconds": 1.0}


def test_the_figures_of_the_product_are_measured() -> None:
    limits = {name: command.limit for name, command in commands("data").items()}
    assert limits == {
        "psephos --version": 0.3,
        "import psephos.curator": 1.0,
        "psephos run": 6.0,
        "a rehearsal": 10.0,
        "a rehearsal on HAR": 30.0,
        "HAR, 1,000 parties": 30.0,
    }
    assert commands(None).keys() == limits.keys() - {"a rehearsal on HAR", "HAR, 1,000 parties"}


def test_without_a_folder_of_data_no_run_on_har_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        scaling, "_planned", lambda case, data_dir: {"dataset": case.get("dataset"), "folder": data_dir}
    )
    assert {row["dataset"] for row in scaling.plan_accuracy(None)} == {None}
    assert {row["dataset"] for row in scaling.plan_accuracy("data")} == {None, "har"}
    assert [row["folder"] for row in scaling.plan_accuracy("data")] == ["data"] * len(scaling.PLANNED)
