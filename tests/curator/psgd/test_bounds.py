"""The constants of Rajkumar 2012 against their definitions, against sampling, and against runs."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ive
from scipy.stats import binom, chi2

from psephos.curator.hamm.labels import one_hot
from psephos.curator.losses import Logistic
from psephos.curator.psgd import bounds as bounds
from psephos.curator.psgd.gop import perturbed_minimiser, perturbed_risk
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.privacy.accounting import compose, pure_event
from psephos.protocol.privacy.mechanisms import gaussian_sigma

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


def test_sigma_of_the_papers_setting() -> None:
    assert bounds.sigma_from_density_ratio(10, 0.1, 0.05) == pytest.approx(85.8, abs=0.05)
    assert bounds.sigma_as_printed(10, 0.1, 0.05) == pytest.approx(0.231, abs=5e-4)


def _worst_loss_exceeds(sigma: float, d: int, epsilon: float, seed: int, samples: int) -> float:
    """How often the worst neighbour's log density ratio is above epsilon: b' = b - 2 b/||b|| (towards 0)."""
    norms = sigma * np.sqrt(np.random.default_rng(seed).chisquare(d, samples))
    # log mu(b)/mu(b') is (||b'||^2 - ||b||^2)/(2 sigma^2), largest for b' away from 0.
    loss = ((norms + 2) ** 2 - norms**2) / (2 * sigma**2)
    return float(np.mean(loss > epsilon))


@pytest.mark.parametrize(("d", "epsilon", "delta"), [(10, 0.1, 0.05), (30, 0.2, 0.05), (1, 1.0, 0.01)])
def test_sigma_bounds_the_privacy_loss_exactly(d: int, epsilon: float, delta: float) -> None:
    """Sampled: the loss exceeds epsilon with probability delta. The seed makes it stable; six deviations around it."""
    n = 400_000
    sigma = bounds.sigma_from_density_ratio(d, epsilon, delta)
    slack = 6 * math.sqrt(delta / n)
    assert abs(_worst_loss_exceeds(sigma, d, epsilon, 0, n) - delta) < slack
    # As printed, the loss exceeds epsilon always.
    assert _worst_loss_exceeds(bounds.sigma_as_printed(d, epsilon, delta), d, epsilon, 1, 1000) == 1.0


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, 1e-320, 100.0])
def test_no_sigma_for_such_an_epsilon(epsilon: float) -> None:
    with pytest.raises(InvalidParameter):
        bounds.sigma_from_density_ratio(10, epsilon, 0.05)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, math.nan])
def test_no_sigma_for_such_a_delta(delta: float) -> None:
    with pytest.raises(InvalidParameter):
        bounds.sigma_from_density_ratio(10, 0.1, delta)


# -- computeSlack


@given(st.floats(1e-3, 5), st.floats(1e-6, 10), st.integers(1, 10_000), st.floats(0.01, 4))
def test_slack_pays_for_the_determinant(epsilon: float, lam: float, n: int, c: float) -> None:
    """What is left and what the determinant costs, with the ridge in place, make up epsilon at most."""
    slack = bounds.compute_slack(epsilon, lam, n, c)
    cost = 2 * math.log1p(c / (n * (lam + slack.ridge)))
    assert slack.epsilon > 0
    assert slack.ridge >= 0
    assert slack.epsilon + cost <= epsilon * (1 + 1e-9)


@given(st.floats(1e-3, 5), st.floats(1e-6, 10), st.integers(1, 1000), st.floats(0.01, 4), st.integers(1, 50))
def test_party_level_slack(epsilon: float, lam: float, n: int, c: float, d: int) -> None:
    m = max(1, n // 3)
    slack = bounds.compute_slack_party(epsilon, lam, n, c, party_records=m, dimension=d)
    rank = min(m, d)
    assert slack.epsilon > 0
    assert slack.epsilon + rank * math.log1p(m * c / (rank * n * (lam + slack.ridge))) <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("m", [1, 3, 8])
def test_determinant_bound_holds_on_real_hessians(m: int) -> None:
    """Replacing m records never changes the log-determinant by more than the party-level slack charges."""
    generator = np.random.default_rng(m)
    n, d, c, lam = 40, 5, 0.25, 0.02
    slack = bounds.compute_slack_party(10.0, lam, n, c, party_records=m, dimension=d)
    assert slack.ridge == 0
    charged = 10.0 - slack.epsilon
    worst = 0.0
    for _ in range(300):
        X = generator.normal(size=(n, d))
        X /= np.linalg.norm(X, axis=1)[:, None]
        bends, other = c * generator.random(n), c * generator.integers(0, 2, n)
        Y = X.copy()
        Y[:m] = np.roll(X[:m], 1, axis=1)
        bent = bends.copy()
        bent[:m] = other[:m]
        first, second = ((A.T * b) @ A + n * lam * np.eye(d) for A, b in ((X, bends), (Y, bent)))
        worst = max(worst, abs(np.linalg.slogdet(first)[1] - np.linalg.slogdet(second)[1]))
    assert 0 < worst <= charged


# -- footnote 4, the first attempt


def test_footnote_four_protects_the_smallest_party() -> None:
    sizes = (10, 290, 700)
    own = bounds.footnote_four(0.5, 0.05, 0.1, sizes, 0.25, 10)
    for size, sigma in zip(sizes, own.sigmas, strict=True):
        slack = bounds.compute_slack(0.5, 0.1, size, 0.25)
        assert sigma >= bounds.sigma_from_density_ratio(10, slack.epsilon, 0.05)
    assert own.sigmas[0] > own.sigmas[2]
    pooled = bounds.sigma_from_density_ratio(10, bounds.compute_slack(0.5, 0.1, 1000, 0.25).epsilon, 0.05)
    assert own.total_sigma > math.sqrt(3) * pooled


def test_halving_never_spends_more_than_epsilon() -> None:
    spent = [bounds.epsilon_schedule_halving(0.7, t) for t in range(1, 60)]
    assert math.fsum(spent) <= 0.7
    assert all(a == 2 * b for a, b in pairwise(spent))
    with pytest.raises(InvalidParameter):
        bounds.epsilon_schedule_halving(0.7, 0)


# -- Theorem 5.1, Proposition 5.2


@given(st.integers(1, 500), st.floats(0.1, 1000), st.floats(1e-12, 0.36))
def test_proposition_5_2(d: int, sigma: float, confidence: float) -> None:
    exact, bound = bounds.t_hat(d, sigma, confidence), bounds.t_hat_bound(d, sigma, confidence)
    assert exact <= bound
    assert bound <= 6 * exact / min(1.0, chi2.isf(confidence, d) / d)


@pytest.mark.parametrize("lam", [0.05, 0.5])
def test_theorem_5_1_holds_in_runs(lam: float) -> None:
    """At most a share delta' = 0.1 of 200 runs may exceed it; 45 would be seen by chance once in 10^7 times."""
    generator = np.random.default_rng(7)
    n, d, c, confidence, sigma = 300, 4, 0.25, 0.1, 12.0
    X = generator.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = np.where(X[:, 0] + 0.3 * generator.normal(size=n) > 0, 1, -1)
    targets, loss, zero = one_hot((y > 0).astype(np.int64), 2), Logistic(), np.zeros(d)
    best, _ = perturbed_minimiser(X, y, ridge=lam, eta=zero, loss=loss)
    least = perturbed_risk(X, targets, best, lam, zero, loss)
    bound = bounds.theorem_5_1(d, sigma, confidence, records=n, lam=lam, smoothness=c)
    sharper = bounds.theorem_5_1_sharper(d, sigma, confidence, records=n, lam=lam)
    excesses = []
    for _ in range(200):
        w, _ = perturbed_minimiser(X, y, ridge=lam, eta=generator.normal(scale=sigma, size=d), loss=loss)
        excesses.append(perturbed_risk(X, targets, w, lam, zero, loss) - least)
    assert sharper <= bound
    assert np.sum(np.array(excesses) > bound) < 45
    assert np.sum(np.array(excesses) > sharper) < 45
    assert max(excesses) > sharper / 20  # the bound is about something


def test_theorem_5_1_needs_no_ridge() -> None:
    with pytest.raises(InvalidParameter, match="Delta = 0"):
        bounds.theorem_5_1(4, 1.0, 0.1, records=10, lam=0.1, smoothness=0.25, ridge=0.2)


def test_theorem_5_3_explicit_is_the_theorem_with_some_kappa() -> None:
    """Each term of the explicit N is a constant times the paper's term, whatever tau."""
    ratios = []
    for tau in (0.3, 0.03, 0.003):
        explicit, lam = bounds.theorem_5_3_explicit(1.5, tau, 0.5, 0.05, t_hat=900.0, smoothness=0.25)
        assert lam == pytest.approx(tau / 1.5**2)
        ratios.append(
            explicit / bounds.theorem_5_3_samples(1.5, tau, 0.5, 0.05, t_hat=900.0, smoothness=0.25, kappa=1.0)
        )
    assert max(ratios) <= 64 * (1 + 32 / math.log(20))


def test_theorem_5_3_holds_in_runs() -> None:
    """N from the explicit form: the excess loss over w0 stays below tau in every one of 20 runs (2 delta' = 0.1
    of them may fail by the theorem, which is far from tight)."""
    generator = np.random.default_rng(3)
    d, tau, epsilon, delta, confidence = 3, 0.6, 1.0, 0.05, 0.05
    w0 = np.array([1.0, 0.0, 0.0])
    sigma = bounds.sigma_from_density_ratio(d, epsilon / 2, delta)
    needed, lam = bounds.theorem_5_3_explicit(
        1.0, tau, epsilon, confidence, t_hat=bounds.t_hat(d, sigma, confidence), smoothness=0.25
    )
    n, loss = math.ceil(needed), Logistic()

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        X = generator.normal(size=(count, d))
        X /= np.linalg.norm(X, axis=1)[:, None]
        return X, np.where(X[:, 0] > 0, 1, -1)

    X_test, y_test = draw(200_000)

    def expected(w: np.ndarray) -> float:
        return float(np.logaddexp(0, -y_test * (X_test @ w)).mean())

    slack = bounds.compute_slack(epsilon, lam, n, 0.25)
    assert slack.ridge == 0
    assert slack.epsilon >= epsilon / 2
    for _ in range(20):
        X, y = draw(n)
        eta = generator.normal(scale=sigma, size=d)
        w, _ = perturbed_minimiser(X, y, ridge=lam, eta=eta, loss=loss)
        assert expected(w) - expected(w0) <= tau


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
def test_pure_composition_is_that_of_randomised_response(epsilon: float, k: int, delta: float) -> None:
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
        found = sum(
            math.comb(k, i) * p**i * (1 - p) ** (k - i) * (1 - (t - (2 * i - k) * e).exp())
            for i in range(k // 2, k + 1)
            if (2 * i - k) * e > t
        )
        assert 1 - Decimal("1e-5") < found / Decimal(delta) <= 1


def test_pure_composition_agrees_with_the_accountant() -> None:
    events = [pure_event("sum", 0.2)] * 30
    assert bounds.pure_composition(0.2, 30, 0.01) == pytest.approx(compose(events, 0.01), rel=1e-2)


@pytest.mark.parametrize("variance", [0.7, 5.0, 300.0])
@pytest.mark.parametrize("shift", [1, 3])
@pytest.mark.parametrize("order", [2, 3, 8])
def test_skellam_renyi_bound(variance: float, shift: int, order: int) -> None:
    """The published bound against the divergence summed from Bessel functions."""
    reach = int(60 * math.sqrt(variance)) + 60 + 10 * order * shift
    k = np.arange(-reach, reach + 1)
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(ive(np.abs(k), variance)), np.log(ive(np.abs(k - shift), variance))
    keep = (log_p > -700) & (log_q > -700)
    terms = order * log_p[keep] - (order - 1) * log_q[keep]
    exact = (terms.max() + math.log(np.exp(terms - terms.max()).sum())) / (order - 1)
    bound = bounds.skellam_rdp(order, variance, shift, shift)
    assert exact <= bound * (1 + 1e-9)
    assert variance < 1 or exact > 0.2 * bound  # the bound is published for large variances


def test_skellam_variance_is_the_least() -> None:
    variance = bounds.skellam_variance(1.0, 1e-5, 4000.0, 1000.0, 100)
    assert bounds.skellam_epsilon(variance, 4000.0, 1000.0, 100, 1e-5) <= 1.0
    assert bounds.skellam_epsilon(variance * 0.999, 4000.0, 1000.0, 100, 1e-5) > 1.0
    # Close to the Gaussian: 100 steps of multiplier s are one of s/10.
    gaussian = gaussian_sigma(1000.0 * 10, 1.0, 1e-5)
    assert 1 < math.sqrt(variance) / gaussian < 1.2
