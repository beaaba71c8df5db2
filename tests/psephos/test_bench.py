"""The comparison beside TNO's: right answers are asked for before anything is timed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from psephos.bench import comparisons as module
from psephos.bench.comparisons import comparison


def test_ours_is_measured_and_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(bits: int) -> None:
        raise ModuleNotFoundError("No module named 'tno'")

    monkeypatch.setitem(module._MAKERS, "tno.mpc", absent)
    measured = comparison(512, 1)
    assert measured["milliseconds"].keys() == {"psephos"}
    assert measured["milliseconds"]["psephos"] > 0
    assert measured["times_faster_than_tno"] is None
    assert measured["not_measured"] == {"tno.mpc": "ModuleNotFoundError: No module named 'tno'"}


@pytest.mark.parametrize("answer", [True, False])
def test_a_library_that_answers_wrongly_is_not_timed(answer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(bits: int) -> tuple[Callable[[int, int], Callable[[], bool]], type[bool]]:
        return (lambda a, b: lambda: answer), bool

    monkeypatch.setitem(module._MAKERS, "tno.mpc", careless)
    assert "answered wrongly" in comparison(512, 1)["not_measured"]["tno.mpc"]


def test_the_ratio_is_of_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(module._MAKERS, "tno.mpc", module._ours)
    measured = comparison(512, 1)
    times = measured["milliseconds"]
    assert measured["times_faster_than_tno"] == pytest.approx(times["tno.mpc"] / times["psephos"])
