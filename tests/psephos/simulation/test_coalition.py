"""Joint noise holds against the coalition that is promised: t - 1 key holders, who know their own noise shares."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from psephos.curator.hamm.statistic import StatisticPlan, plan_statistic
from psephos.curator.psgd.agreement import agree
from psephos.job import Job, JobOptions
from psephos.parties.noise import PolyaShares, SkellamShares
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.privacy.mechanisms import gaussian_delta
from psephos.simulation.psgd import PsgdOptions
from psephos.simulation.tally import TallyOptions, shares_of
from psephos.study.protocols import coalition_of
from tests.psephos.study.cast import Cast

SCALE = 20
"""Of the discrete Laplace law whose epsilon is computed, in lattice units."""

ROSTERS = [(4, 4, 3), (5, 5, 3), (11, 5, 3), (25, 5, 3), (25, 9, 5), (100, 5, 3)]
"""Parties, key holders, and how many of these open a sum."""


def epsilon_left(shares: PolyaShares, known: int) -> float:
    """The largest log ratio, over a shift of `SCALE` units, of the noise that is left to whoever knows some shares.

    A share is a difference of two negative binomial variables of shape 1/contributors; 1 is what the whole law has.
    """
    shape, q = (shares.parties - known) / shares.contributors, np.exp(-1 / SCALE)
    pmf = stats.nbinom.pmf(np.arange(1500), shape, 1 - q)
    law = np.log(np.convolve(pmf, pmf[::-1])[1499 - 200 : 1499 + 201])  # of -200 .. 200
    return float(np.abs(law[SCALE:] - law[:-SCALE]).max())


def small(shares: Any) -> PolyaShares:
    assert isinstance(shares, PolyaShares)
    return replace(shares, dimension=1, scale_units=Fraction(SCALE))


def plan_of(parties: int, mechanism: Any) -> StatisticPlan:
    X = np.linalg.qr(np.random.default_rng(0).normal(size=(30, 4)))[0]
    return plan_statistic(X, 2, parties, epsilon=1.0, delta=1e-6, mechanism=mechanism, joint=True)


def options(parties: int, holders: int, threshold: int, **more: Any) -> TallyOptions:
    return TallyOptions(parties=parties, holders=holders, threshold=threshold, reveal="statistic", **more)


def test_the_epsilon_that_is_left_is_measured_rightly() -> None:
    """One share short of the law, and the whole law."""
    assert epsilon_left(PolyaShares(1, 25, 24, Fraction(SCALE)), 1) == pytest.approx(1.0, abs=1e-9)
    assert epsilon_left(PolyaShares(1, 25, 24, Fraction(SCALE)), 2) > 1.05
    assert epsilon_left(PolyaShares(1, 5, 4, Fraction(SCALE)), 2) > 1.3


@pytest.mark.parametrize(("parties", "holders", "threshold"), ROSTERS)
def test_laplace_noise_of_a_run_keeps_its_epsilon(parties: int, holders: int, threshold: int) -> None:
    asked = options(parties, holders, threshold)
    asked.check()
    shares = small(shares_of(plan_of(parties, "discrete-laplace"), colluders=asked.coalition or 0))
    assert asked.coalition == threshold - 1
    assert epsilon_left(shares, threshold - 1) <= 1 + 1e-9


@pytest.mark.parametrize(("parties", "holders", "threshold"), ROSTERS)
def test_gaussian_noise_of_a_run_keeps_its_delta(parties: int, holders: int, threshold: int) -> None:
    """Skellam noise of a large variance has the Gaussian's delta, to three digits."""
    asked, plan = options(parties, holders, threshold, mechanism="gaussian"), plan_of(parties, "gaussian")
    shares = shares_of(plan, colluders=asked.coalition or 0)
    assert isinstance(shares, SkellamShares)
    left = float(shares.variance) / shares.contributors * (parties - (threshold - 1))
    assert gaussian_delta(float(plan.l2.value), 1.0, left**0.5) <= 1.001e-6


@pytest.mark.parametrize("method", ["own-data", "whitened", "statistic"])
def test_the_main_job_sizes_its_noise_for_the_key_holders(method: Any) -> None:
    asked = JobOptions(dataset="synthetic", parties=11, method=method, reveal="statistic", key_bits=512, test_key=True)
    outcome = Job(replace(asked, workers=1)).run()
    assert outcome.colluders == asked.threshold - 1 == 2
    assert outcome.privacy[method].chosen["contributors"] == 11 - 2 - 1


def test_a_study_sizes_its_noise_for_the_key_holders() -> None:
    cast = Cast("statistic, own data")
    study, shares = cast.made.study, small(cast.play.shares)  # type: ignore[attr-defined]
    assert "colluders" not in study.parameters
    assert coalition_of(study) == study.threshold - 1 >= 1
    assert epsilon_left(shares, study.threshold - 1) <= 1 + 1e-9


@pytest.mark.parametrize("variant", ["gaussian", "paper"])
def test_gradient_descent_sizes_its_noise_for_the_key_holders(variant: Any) -> None:
    asked = PsgdOptions(parties=9, holders=5, threshold=3, variant=variant, steps=2)
    assert asked.coalition == 2
    found, bare = (agree(one, [30] * 9, 5) for one in (asked, replace(asked, colluders=0)))
    if variant == "gaussian":
        whole = bare.series.step_scale * 8  # the variance that all but the party itself make up without colluders
        assert found.series.step_scale * (9 - 2) >= whole
    else:
        assert found.series.fixed_sigmas[0] ** 2 * (9 - 2) >= bare.sigma**2 * (1 - 1e-12)


def test_too_few_parties_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="colluders"):
        options(2, 2, 2).check()
    options(2, 2, 2, colluders=0).check()
    options(3, 3, 2).check()
