"""The comparison beside TNO's: right answers are asked for before anything is timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from psephos.experiments.bench.comparisons import MAKERS, comparison


def test_missing_libraries_are_reported() -> None:
    def absent(bits: int) -> Any:
        raise ModuleNotFoundError("No module named 'tno'")

    measured = comparison(512, 1, {**MAKERS, "tno.mpc": absent})
    assert measured.milliseconds.keys() == {"psephos"}
    assert measured.milliseconds["psephos"] > 0
    assert measured.times_faster_than_tno is None
    assert measured.not_measured == {"tno.mpc": "ModuleNotFoundError: No module named 'tno'"}


@pytest.mark.parametrize("answer", [True, False])
def test_a_library_with_wrong_results_is_not_timed(answer: bool) -> None:
    def careless(bits: int) -> tuple[Callable[[int, int], Callable[[], bool]], type[bool]]:
        return (lambda a, b: lambda: answer), bool

    assert "answered wrongly" in comparison(512, 1, {**MAKERS, "tno.mpc": careless}).not_measured["tno.mpc"]


def test_ratios_come_from_one_run() -> None:
    measured = comparison(512, 1, {**MAKERS, "tno.mpc": MAKERS["psephos"]})
    times = measured.milliseconds
    assert measured.times_faster_than_tno == pytest.approx(times["tno.mpc"] / times["psephos"])
