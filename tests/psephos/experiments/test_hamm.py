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
from psephos.results import HammResult, Mean, Result
from psephos.results.papers import PaperStatement

SMALL = HammOptions("hamm-har", trials=2, draws=2, inverse_epsilons=(0.1, 10.0), holders=3, threshold=2)

DIGITS = replace(EXPERIMENTS["hamm-har"], dataset="digits", parties=(40,), samples=12, auxiliary=300)


def run_small(options: HammOptions, **more: Any) -> HammResult:
    return reproduce_hamm(options, experiment=DIGITS, **more)


@pytest.fixture(scope="module")
def document() -> HammResult:
    return run_small(SMALL)


def test_outcome_has_every_curve_and_round_trips_through_json(document: HammResult) -> None:
    written = json.loads(json.dumps(document.as_json()))
    assert Result.from_json(written).as_json() == written
    assert document.counts == "taken in the clear, for speed"
    assert document.noise_source == "simulation"
    assert "NOT epsilon-private" in document.families["exponential"]
    assert document.inverse_epsilons == [0.0, 0.1, 10.0]
    (panel,) = document.sizes
    assert panel.parties == 40
    assert panel.auxiliary == 300
    assert panel.curves.keys() == {"stated", "exponential", "ours"}
    for family, names in (("stated", module.PRINTED), ("exponential", module.PRINTED), ("ours", module.OURS)):
        assert set(panel.curves[family]) == set(names)
        assert all(len(points) == 2 for points in panel.curves[family].values())
    assert panel.batch.mean > panel.indiv.mean > 0.2
    assert panel.nonprivate["soft"].mean > 0.5
    assert {row.family for row in document.published} == {"none", "stated", "exponential", "ours"}
    assert all(row.reproduces or row.why for row in document.published)


@pytest.mark.slow
def test_results_depend_on_the_seed_and_not_on_the_workers(document: HammResult) -> None:
    again = run_small(replace(SMALL, workers=2))
    assert [p.curves for p in again.sizes] == [p.curves for p in document.sizes]
    other = run_small(replace(SMALL, seed=50, trials=1))
    assert other.sizes[0].batch != document.sizes[0].batch


def test_noise_norms_have_the_moments_of_their_distribution() -> None:
    generator = np.random.default_rng(0)
    dimension, scale, draws = 50, 0.3, 4000
    for norm, mean, variance in (("stated", dimension * scale, dimension * scale**2), ("exponential", scale, scale**2)):
        norms = np.array([np.linalg.norm(module._noise(norm, dimension, scale, generator)) for _ in range(draws)])
        # 6 standard errors: fails by chance once in 5e8 runs.
        assert abs(norms.mean() - mean) < 6 * np.sqrt(variance / draws)
        assert abs(norms.var() / variance - 1) < 6 * np.sqrt(8 / draws)


@pytest.mark.slow
def test_encrypted_counts_equal_the_clear_ones_and_are_stored_in_the_journal(
    document: HammResult, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = replace(SMALL, encrypted=True, key_bits=256, test_key=True, journal=str(tmp_path / "journal"), trials=1)
    steps: list[tuple[str, int, int]] = []
    first = run_small(options, progress=lambda *step: steps.append(step))
    assert ("encrypted ballots, M = 40, trial 0", 40, 40) in steps
    (encrypted,) = first.sizes[0].encrypted
    assert encrypted.equals_plaintext is True
    assert first.counts == "opened from encrypted ballots"
    show(first)
    text = " ".join(capsys.readouterr().out.split())
    assert "Counts: opened from encrypted ballots, equal to the clear ones" in text
    # The same split with clear counts gives the same classifiers.
    clear = run_small(replace(SMALL, trials=1))
    assert first.sizes[0].curves == clear.sizes[0].curves
    again = run_small(options)
    assert again.sizes[0].encrypted[0].continued_from == 40
    with pytest.raises(JournalError, match="another run"):
        run_small(replace(options, threshold=1))


def test_statements_are_tested_only_at_the_papers_number_of_parties(document: HammResult) -> None:
    claims = [row for row in document.published if row.family == "exponential"]
    assert not any("not tested" in row.why for row in claims)
    elsewhere = module._published(SMALL, DIGITS, [replace(document.sizes[0], parties=41)])
    assert len(elsewhere) == len(document.published)
    assert all(row.why.startswith("not tested") and not row.reproduces for row in elsewhere)


def test_a_difference_within_two_standard_errors_is_undecided(document: HammResult) -> None:
    """Where soft and avg have the same distribution, "soft holds better than avg" would be decided by chance."""

    def row(soft: float, avg: float, spread: float) -> PaperStatement:
        curves = {
            name: [Mean(mean, spread)] * len(SMALL.inverse_epsilons)
            for name, mean in (("soft", soft), ("avg", avg), ("vote", 0.5))
        }
        panel = replace(document.sizes[0], parties=20_000, curves=dict.fromkeys(document.sizes[0].curves, curves))
        (statement,) = (claim for claim in EXPERIMENTS["hamm-kdd99"].claims if "better than avg" in claim.what)
        kdd = replace(EXPERIMENTS["hamm-kdd99"], claims=(statement,))
        return next(row for row in module._published(SMALL, kdd, [panel]) if row.family == "stated")

    # With 2 trials of 2 draws the standard error is half the standard deviation.
    assert (row(0.60, 0.50, 0.05).reproduces, row(0.60, 0.50, 0.05).why) == (True, "")
    assert (row(0.60, 0.50, 0.20).reproduces, row(0.60, 0.50, 0.20).why[:9]) == (False, "undecided")
    assert (row(0.50, 0.60, 0.20).reproduces, row(0.50, 0.60, 0.20).why[:9]) == (False, "undecided")
    assert (row(0.50, 0.60, 0.05).reproduces, "same noise" in row(0.50, 0.60, 0.05).why) == (False, True)


@pytest.mark.slow
def test_an_interrupted_sweep_resumes_after_its_last_trial(document: HammResult, tmp_path: Path) -> None:
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
    assert resumed.sizes[0].curves == document.sizes[0].curves
    assert resumed.published == document.published
    for change in ({"draws": 3}, {"seed": 1}, {"inverse_epsilons": (1.0,)}, {"quick": True}):
        with pytest.raises(JournalError, match="another run"):
            run_small(replace(options, **change))
    (file,) = (path for path in (tmp_path / "journal").iterdir() if not path.name.endswith("-journal"))
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(JournalError, match="damaged"):
        run_small(options)


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
