"""The constants of Rajkumar 2012 against their definitions, against sampling, and against runs."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chi2

from psephos.curator.psgd import bounds as bounds
from psephos.protocol.privacy.accounting import compose, pure_event

EPSILONS = st.floats(1e-3, 10)
DELTAS = st.floats(1e-8, 0.5)


# -- sigma


@given(st.integers(1, 200), EPSILONS, DELTAS, st.floats(0.1, 100))
def test_sigma_solves_the_density_ratio(d: int, epsilon: float, delta: float, sensitivity: float) -> None:
    """P(U <= ((2 sigma^2 epsilon - S^2)/(2 S sigma))^2) = 1 - delta: (sigma^2 epsilon - 2)^2/(4 sigma^2) at S = 2."""
    sigma = bounds.sigma_from_density_ratio(d, epsilon, delta, sensitivity=sensitivity)
    root = (2 * sigma**2 * epsilon - sensitivity**2) / (2 * sensitivity * sigma)
    assert root > 0
    assert chi2.sf(root**2, d) == pytest.approx(delta, rel=1e-6)


def _worst_loss_exceeds(sigma: float, d: int, epsilon: float, seed: int, samples: int) -> float:
    """How often the worst neighbour's log density ratio is above epsilon: b' = b - 2 b/||b|| (towards 0)."""
    norms = sigma * np.sqrt(np.random.default_rng(seed).chisquare(d, samples))
    # log mu(b)/mu(b') is (||b'||^2 - ||b||^2)/(2 sigma^2), largest for b' away from 0.
    loss = ((norms + 2) ** 2 - norms**2) / (2 * sigma**2)
    return float(np.mean(loss > epsilon))


@pytest.mark.parametrize(("d", "epsilon", "delta"), [(10, 0.1, 0.05), (30, 0.2, 0.05), (1, 1.0, 0.01)])
def test_sigma_bounds_the_privacy_loss_exactly(d: int, epsilon: float, delta: float) -> None:
    """Sampled with a fixed seed: the loss exceeds epsilon with probability delta, within seven standard deviations."""
    n = 545_000
    sigma = bounds.sigma_from_density_ratio(d, epsilon, delta)
    slack = 7 * math.sqrt(delta / n)
    assert abs(_worst_loss_exceeds(sigma, d, epsilon, 0, n) - delta) < slack
    # As printed, the loss exceeds epsilon always.
    assert _worst_loss_exceeds(bounds.sigma_as_printed(d, epsilon, delta), d, epsilon, 1, 1000) == 1.0


# -- computeSlack


@given(st.floats(1e-3, 5), st.floats(1e-6, 10), st.integers(1, 10_000), st.floats(0.01, 4))
def test_slack_pays_for_the_determinant(epsilon: float, lam: float, n: int, c: float) -> None:
    """What is left and what the determinant costs, with the ridge in place, make up epsilon at most."""
    slack = bounds.compute_slack(epsilon, lam, n, c)
    cost = 2 * math.log1p(c / (n * (lam + slack.ridge)))
    assert slack.epsilon > 0
    assert slack.ridge >= 0
    assert slack.epsilon + cost == pytest.approx(epsilon, rel=1e-6), "and no less: nothing is thrown away"


def test_determinant_bound_holds_on_real_hessians() -> None:
    """Replacing a record never changes the log-determinant by more than the slack charges."""
    generator = np.random.default_rng(1)
    n, d, c, lam = 40, 5, 0.25, 0.02
    slack = bounds.compute_slack(10.0, lam, n, c)
    assert slack.ridge == 0
    charged = 10.0 - slack.epsilon
    worst = 0.0
    for _ in range(300):
        X = generator.normal(size=(n, d))
        X /= np.linalg.norm(X, axis=1)[:, None]
        bends, other = c * generator.random(n), c * generator.integers(0, 2, n)
        Y = X.copy()
        Y[:1] = np.roll(X[:1], 1, axis=1)
        bent = bends.copy()
        bent[:1] = other[:1]
        first, second = ((A.T * b) @ A + n * lam * np.eye(d) for A, b in ((X, bends), (Y, bent)))
        worst = max(worst, abs(np.linalg.slogdet(first)[1] - np.linalg.slogdet(second)[1]))
    assert 0 < worst <= charged


# -- footnote 4


def test_footnote_four_protects_the_smallest_party() -> None:
    sizes = (10, 290, 700)
    sigmas, _ = bounds.footnote_four(0.5, 0.05, 0.1, sizes, 0.25, 10)
    for size, sigma in zip(sizes, sigmas, strict=True):
        slack = bounds.compute_slack(0.5, 0.1, size, 0.25)
        assert sigma >= bounds.sigma_from_density_ratio(10, slack.epsilon, 0.05)
    assert sigmas[0] > sigmas[2]
    pooled = bounds.sigma_from_density_ratio(10, bounds.compute_slack(0.5, 0.1, 1000, 0.25).epsilon, 0.05)
    assert math.hypot(*sigmas) > math.sqrt(3) * pooled


# -- composition


def _exact_randomised_response(epsilon: float, k: int, delta: float) -> float:
    """The least epsilon of k-fold randomised response at `delta`, by bisection on its exact hockey stick."""
    ones = np.arange(k + 1)
    loss, p = (2 * ones - k) * epsilon, binom.pmf(ones, k, math.exp(epsilon) / (1 + math.exp(epsilon)))
    low, high = 0.0, k * epsilon
    for _ in range(200):
        middle = (low + high) / 2
        value = float(np.sum(p * np.maximum(0, -np.expm1(middle - loss))))
        low, high = (middle, high) if value > delta else (low, middle)
    return high


@pytest.mark.parametrize(
    ("epsilon", "k", "delta"), [(0.1, 200, 0.05), (1.0, 5, 1e-5), (0.5, 1, 0.01), (0.03, 900, 1e-6)]
)
def test_pure_composition_equals_randomised_response(epsilon: float, k: int, delta: float) -> None:
    composed = bounds.pure_composition(epsilon, k, delta)
    assert composed <= k * epsilon
    exact = _exact_randomised_response(epsilon, k, delta)
    assert composed == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "k", "delta"), [(0.01, 2000, 1e-15), (0.01, 2000, 1e-40), (0.1, 1000, 1e-15), (3.0, 5, 1e-9)]
)
def test_pure_composition_is_exact_for_small_deltas_too(epsilon: float, k: int, delta: float) -> None:
    """The hockey stick in 60 decimal digits: dp-accounting's tails, cut at 1e-15, made it up to 21 times too small."""
    composed = bounds.pure_composition(epsilon, k, delta)
    with localcontext(prec=60):
        e, t = Decimal(epsilon), Decimal(composed)
        p = e.exp() / (1 + e.exp())
        total = sum(
            math.comb(k, i) * p**i * (1 - p) ** (k - i) * (1 - (t - (2 * i - k) * e).exp())
            for i in range(k // 2, k + 1)
            if (2 * i - k) * e > t
        )
        assert 1 - Decimal("1e-5") < total / Decimal(delta) <= 1


def test_pure_composition_agrees_with_the_accountant() -> None:
    events = [pure_event("sum", 0.2)] * 30
    assert bounds.pure_composition(0.2, 30, 0.01) == pytest.approx(compose(events, 0.01), rel=1e-2)
