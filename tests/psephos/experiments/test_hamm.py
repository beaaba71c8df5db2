"""Tests of the experiments of Hamm 2016 on a bundled data set, with few parties and few points."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psephos.cli.show import show
from psephos.experiments import hamm as module
from psephos.experiments.hamm import EXPERIMENTS, HammOptions, reproduce_hamm
from psephos.protocol.errors import InvalidParameter, JournalError
from psephos.results.base import Result
from psephos.results.papers import Mean, PaperResult

SMALL = HammOptions(name="hamm-har", trials=2, draws=2, inverse_epsilons=(0.1, 10.0), holders=3, threshold=2)

DIGITS = replace(EXPERIMENTS["hamm-har"], dataset="digits", parties=(40,), samples=12, auxiliary=300)


def run_small(options: HammOptions, **more: Any) -> PaperResult:
    return reproduce_hamm(options, experiment=DIGITS, **more)


def rows_of(result: PaperResult, title: str) -> list[dict[str, Any]]:
    """Return the rows of a table, each as a dictionary."""
    (table,) = (table for table in result.tables if table.title == title)
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def scores(clear: dict[str, Mean], curves: dict[str, list[Mean]], parties: int) -> Any:
    return module._Scores(parties, clear, dict.fromkeys(("stated", "exponential", "ours"), curves))


@pytest.fixture(scope="module")
def document() -> PaperResult:
    return run_small(SMALL)


def test_outcome_has_every_curve_and_round_trips_through_json(document: PaperResult) -> None:
    written = json.loads(json.dumps(document.as_json()))
    assert Result.from_json(written).as_json() == written
    facts = {label: (value, note) for label, value, note in document.facts}
    assert facts["Counts"] == ("taken in the clear, for speed", "")
    assert document.noise_source == "simulation"
    assert document.privacy["exponential"].said == "NONE: not private"
    assert (
        rows_of(document, "What was measured")[0] | {"parties": 40, "auxiliary": 300}
        == rows_of(document, "What was measured")[0]
    )
    families = (("stated", module.PRINTED), ("exponential", module.PRINTED), ("ours", module.OURS))
    for (family, names), panel in zip(families, document.panels, strict=True):
        assert family in panel.title
        assert [curve.algorithm for curve in panel.curves] == [*names, "batch", "indiv"]
        assert all(curve.x == [0.1, 10.0] for curve in panel.curves)
        batch, indiv = (curve.mean[0] for curve in panel.curves[-2:])
        assert batch > indiv > 0.2
    statements = rows_of(document, "Beside the paper")
    assert {row["what"].rpartition(" (")[2] for row in statements} >= {"stated)", "exponential)", "ours)"}
    assert all(row["verdict"] == "reproduces" or row["why"] for row in statements)


@pytest.mark.slow
def test_results_depend_on_the_seed_and_not_on_the_workers(document: PaperResult) -> None:
    again = run_small(replace(SMALL, workers=2))
    assert again.panels == document.panels
    other = run_small(replace(SMALL, seed=50, trials=1))
    assert other.panels[0].curves[-2] != document.panels[0].curves[-2]


def test_noise_norms_have_the_moments_of_their_distribution() -> None:
    generator = np.random.default_rng(0)
    dimension, scale, draws, zero = 50, 0.3, 4000, np.zeros(50)
    for norm, mean, variance in (("stated", dimension * scale, dimension * scale**2), ("exponential", scale, scale**2)):
        norms = np.array([np.linalg.norm(module._perturbed(zero, norm, scale, generator)) for _ in range(draws)])
        # 6 standard errors: fails by chance once in 5e8 runs.
        assert abs(norms.mean() - mean) < 6 * np.sqrt(variance / draws)
        assert abs(norms.var() / variance - 1) < 6 * np.sqrt(8 / draws)


@pytest.mark.slow
def test_encrypted_counts_equal_the_clear_ones_and_are_stored_in_the_journal(
    document: PaperResult, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = replace(SMALL, encrypted=True, key_bits=256, test_key=True, journal=str(tmp_path / "journal"), trials=1)
    steps: list[tuple[str, int, int]] = []
    first = run_small(options, progress=lambda *step: steps.append(step))
    assert ("encrypted ballots, M = 40, trial 0", 40, 40) in steps
    (encrypted,) = rows_of(first, "Encrypted counts")
    assert encrypted["equal"] is True
    assert first.exact is True
    show(first)
    text = " ".join(capsys.readouterr().out.split())
    assert "Counts: opened from encrypted ballots, equal to the clear ones" in text
    # The same split with clear counts gives the same classifiers.
    clear = run_small(replace(SMALL, trials=1))
    assert first.panels == clear.panels
    again = run_small(options)
    assert rows_of(again, "Encrypted counts")[0]["resumed"] == 40  # ballots
    with pytest.raises(JournalError, match="another run"):
        run_small(replace(options, threshold=1))


def test_a_difference_within_two_standard_errors_is_undecided() -> None:
    """Where soft and avg have the same distribution, "soft holds better than avg" would be decided by chance."""

    def row(soft: float, avg: float, spread: float) -> tuple[str, str]:
        curves = {name: [Mean(mean, spread)] * 2 for name, mean in (("soft", soft), ("avg", avg), ("vote", 0.5))}
        (statement,) = (claim for claim in EXPERIMENTS["hamm-kdd99"].claims if "better than avg" in claim.what)
        kdd = replace(EXPERIMENTS["hamm-kdd99"], claims=(statement,))
        clear = dict.fromkeys(("batch", "indiv"), Mean(0.5, 0.1))
        stated, *_ = module._published(SMALL, kdd, [scores(clear, curves, 20_000)])
        return stated[3], stated[4]

    # With 2 trials of 2 draws the standard error is half the standard deviation.
    assert row(0.60, 0.50, 0.05) == ("reproduces", "")
    for soft, avg in ((0.60, 0.50), (0.50, 0.60)):
        assert row(soft, avg, 0.20) == ("does not reproduce", "undecided: within two standard errors")
    assert row(0.50, 0.60, 0.05) == ("does not reproduce", EXPERIMENTS["hamm-kdd99"].claims[1].why_not)


@pytest.mark.slow
def test_an_interrupted_sweep_resumes_after_its_last_trial(document: PaperResult, tmp_path: Path) -> None:
    options = replace(SMALL, journal=str(tmp_path / "journal"))
    steps: list[tuple[str, int, int]] = []

    def stop_after_one(*step: Any) -> None:
        steps.append(step)
        if step[1] == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_small(options, progress=stop_after_one)
    assert steps == [("trials, M = 40", 0, 2), ("trials, M = 40", 1, 2)]
    steps.clear()
    resumed = run_small(options, progress=lambda *step: steps.append(step))
    assert steps == [("trials, M = 40", 1, 2), ("trials, M = 40", 2, 2)]
    assert resumed.panels == document.panels
    assert rows_of(resumed, "Beside the paper") == rows_of(document, "Beside the paper")
    with pytest.raises(JournalError):
        run_small(replace(options, draws=3))


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "hamm-mnist"}, {"trials": 0}, {"draws": 0}, {"workers": 0}, {"parties": (2,)}, {"parties": ()},
        {"inverse_epsilons": (0.0,)}, {"inverse_epsilons": ()}, {"inverse_epsilons": (float("nan"),)},
        {"randomness": "none"}, {"key_bits": 100, "test_key": False}, {"threshold": 0}, {"threshold": 9},
        {"stand_in": True}, {"parties": (1000,)},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_options_are_rejected(wrong: dict) -> None:
    with pytest.raises(InvalidParameter):
        run_small(replace(SMALL, **wrong))


def test_one_value_stands_for_a_list_of_one() -> None:
    assert HammOptions(parties=1000, inverse_epsilons=1).parties == (1000,)  # type: ignore[arg-type]
