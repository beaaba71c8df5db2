"""The benchmarks measure what the commands release: the noise that they draw at once is the sum of the parties' shares.

False alarms: each chi-square test fails for 1 of 10^10 seeds, and the seeds are fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from benchmarks.accuracy import COLLUDERS, _own_sum, accuracy, joint_at, joint_noise, prepare
from benchmarks.validity import vote_costs
from psephos.audit.rounds import short_key
from psephos.curator.hamm.statistic import SOURCE_OF, fit_statistic, plan_statistic, release_sum
from psephos.parties.noise import DiscreteGaussianShares, PolyaShares, Shares, contributors
from psephos.parties.training import WHITENED_RIDGE
from psephos.protocol.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, NoiseMechanism
from psephos.protocol.proofs import field
from psephos.protocol.randomness import Randomness, SimulationRandomness
from psephos.simulation.job import Job, JobOptions
from tests.statistical import FALSE_ALARM

PARTIES, ENTRIES, SCALE, VARIANCE = 12, 9_000, Fraction(5, 2), Fraction(180)
NOISY = contributors(PARTIES, COLLUDERS)
SUPPORT = np.arange(-120, 121)

LAWS: dict[str, tuple[NoiseMechanism, Shares]] = {
    "pure": (DiscreteLaplace(ENTRIES, SCALE), PolyaShares(ENTRIES, PARTIES, NOISY, SCALE)),
    "gaussian": (DiscreteGaussian(ENTRIES, VARIANCE), DiscreteGaussianShares(ENTRIES, PARTIES, NOISY, VARIANCE)),
}


def masses(law: str, surplus: float) -> NDArray[np.float64]:
    """The law of the sum on `SUPPORT`, where `surplus` times the noise that is needed is added."""
    if law == "gaussian":
        weights = np.exp(-(SUPPORT**2) / (2 * surplus * float(VARIANCE)))
        return np.asarray(weights / weights.sum())
    one = stats.nbinom.pmf(np.arange(400), surplus, -np.expm1(-1 / float(SCALE)))
    difference = np.convolve(one, one[::-1])
    return difference[len(one) - 1 + SUPPORT]


def drawn_at_once(law: str, randomness: Randomness) -> list[int]:
    return joint_noise(*LAWS[law], randomness)


def share_by_share(law: str, randomness: Randomness) -> list[int]:
    shares = LAWS[law][1]
    return [sum(entry) for entry in zip(*(shares.share(randomness) for _ in range(PARTIES)), strict=True)]


def p_value(sample: list[int], expected: NDArray[np.float64]) -> float:
    """Of Pearson's test, on the integers of which at least twenty are expected and two bins for the rest."""
    bulk = np.flatnonzero(expected * len(sample) >= 20)
    low, high = SUPPORT[bulk[0]], SUPPORT[bulk[-1]]
    observed = np.bincount(np.clip(sample, low - 1, high + 1) - (low - 1), minlength=len(bulk) + 2)
    below = expected[: bulk[0]].sum()
    wanted = np.array([below, *expected[bulk], 1 - below - expected[bulk].sum()]) * len(sample)
    return float(stats.chisquare(observed, wanted).pvalue)


@pytest.mark.parametrize("draw", [drawn_at_once, pytest.param(share_by_share, marks=pytest.mark.slow)])
@pytest.mark.parametrize("law", LAWS)
def test_noise_drawn_at_once_has_the_law_of_the_summed_shares(
    law: str, draw: Callable[[str, Randomness], list[int]]
) -> None:
    sample = draw(law, SimulationRandomness(28, f"{law} {draw.__name__}"))
    assert p_value(sample, masses(law, PARTIES / NOISY)) > FALSE_ALARM
    for wrong in (1.0, PARTIES / contributors(PARTIES, 0)):  # nothing beyond the law; colluders forgotten
        assert p_value(sample, masses(law, wrong)) < FALSE_ALARM


def test_wide_noise_has_the_variance_of_the_summed_shares() -> None:
    variance = Fraction(2**90)
    shares = DiscreteGaussianShares(ENTRIES, PARTIES, NOISY, variance)
    noise = joint_noise(DiscreteGaussian(ENTRIES, variance), shares, SimulationRandomness(28, "wide"))
    for surplus, fits in ((PARTIES / NOISY, True), (1.0, False), (PARTIES / contributors(PARTIES, 0), False)):
        squares = sum((entry / (surplus * 2**90) ** 0.5) ** 2 for entry in noise)
        tail = 2 * min(stats.chi2.cdf(squares, ENTRIES), stats.chi2.sf(squares, ENTRIES))
        assert (tail > FALSE_ALARM) == fits


def test_shares_are_sized_for_the_colluders_of_run() -> None:
    assert JobOptions(parties=PARTIES, method="own-data").coalition == COLLUDERS


@pytest.mark.slow
@pytest.mark.parametrize("method", ["own-data", pytest.param("whitened", marks=pytest.mark.soak)])
def test_the_benchmark_sums_and_plans_what_run_does(method: str, tmp_path: Path) -> None:
    problem = prepare("digits", 0, tmp_path, trained=False)  # digits are bundled
    ours = joint_at(problem, "pure", 1.0, method)
    choices: dict[str, Any] = {"dataset": "digits", "parties": problem["parties"], "method": method}
    outcome = Job(JobOptions(**choices, key_bits=512, test_key=True, simulate_noise=True)).run()
    theirs, without_noise = outcome.privacy[method], outcome.accuracy[method].nonprivate
    assert (ours.ledger_entry.epsilon, ours.ledger_entry.sensitivity) == (theirs.epsilon, theirs.sensitivity)
    assert ours.chosen["rank"] == theirs.chosen["rank"]
    everything = plan_statistic(problem["auxiliary"], 10, problem["parties"], epsilon=None, source=SOURCE_OF[method])
    exact = fit_statistic(release_sum(_own_sum(problem, everything, WHITENED_RIDGE), everything))
    assert accuracy(problem, exact) == pytest.approx(without_noise, abs=1e-4)


def test_the_costs_of_valid_ballots_have_a_row_for_each_kernel() -> None:
    costs = vote_costs(short_key().public_key, samples=20, classes=3, parties=5, repetitions=1)
    assert list(costs) == list(field.KERNELS)
    assert all(prove > 0 and check > 0 and size > 0 for prove, check, size in costs.values())
