"""Planted values and what follows from them are in nothing that leaves a role (`tests.security.lab.canaries`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.security.lab import canaries


@pytest.mark.parametrize("name", canaries.RUNS)
def test_simulations_leak_no_canary(name: str, tmp_path: Path) -> None:
    canaries.simulations(name, tmp_path)


@pytest.mark.parametrize("name", ["alpha", "statistic", "psgd"])
def test_journals_leak_no_canary(name: str, tmp_path: Path) -> None:
    canaries.journals(name, tmp_path)


def test_the_main_job_leaks_no_canary(tmp_path: Path) -> None:
    canaries.job(tmp_path)


@pytest.mark.slow
def test_a_study_leaks_no_canary(tmp_path: Path) -> None:
    canaries.study(tmp_path)


def test_errors_about_gradients_leak_no_canary() -> None:
    canaries.gradient_errors()


@pytest.mark.parametrize(
    ("name", "every"),
    [
        *(("alpha", 19), ("statistic", 19), ("psgd", 29), ("public-bound", 37), ("repaired", 360)),
        *(
            pytest.param(name, every, marks=pytest.mark.soak)
            for name, every in (("alpha", 7), ("statistic", 7), ("psgd", 9), ("public-bound", 12), ("repaired", 120))
        ),
    ],
)
def test_errors_and_logs_about_messages_leak_no_canary(name: str, every: int) -> None:
    assert canaries.fault_messages(name, every) >= 1


def test_the_search_finds_planted_canaries() -> None:
    bank = canaries.Canaries({12.3456789: "a norm"}, {211: "a size"}, np.array([0.123456789]), ("Zürich",))
    for text in ("a norm of 12.3457", "n = 211", "x = 1.23456789e-01", "in Zürich", np.float64(12.3456789).tobytes()):
        with pytest.raises(AssertionError):
            bank.assert_absent(text, "this")
    for text in ("12.3", "2110", "0.1234", b"12.3456789"):
        bank.assert_absent(text, "this")
