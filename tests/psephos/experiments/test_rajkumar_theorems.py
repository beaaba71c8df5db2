"""Tests of the theorems of Rajkumar and Agarwal 2012, section 5, by sampling and by runs.

docs/protocols/psgd.md discusses them; no other code computes with them.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from psephos.curator.checks import check_count, check_positive
from psephos.curator.hamm.erm import risk
from psephos.curator.hamm.labels import one_hot
from psephos.curator.losses import Logistic
from psephos.curator.psgd import bounds as bounds
from psephos.curator.psgd.gop import perturbed_minimiser
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.privacy.mechanisms import check_delta, check_epsilon

# -- Theorem 5.1, Proposition 5.2, Theorem 5.3


def t_hat(dimension: int, sigma: float, confidence: float) -> float:
    """T^ of Theorem 5.1: P(||eta||^2 <= T^) = 1 - delta', `confidence` being delta'."""
    dimension, sigma = check_count(dimension, "the dimension"), check_positive(sigma, "sigma")
    return sigma * sigma * float(chi2.isf(check_delta(confidence), dimension))


def t_hat_bound(dimension: int, sigma: float, confidence: float) -> float:
    """Proposition 5.2 with its constants: T^ <= sigma^2 (d + 2 sqrt(d ln 1/delta') + 2 ln 1/delta')."""
    dimension, sigma = check_count(dimension, "the dimension"), check_positive(sigma, "sigma")
    log = math.log(1 / check_delta(confidence))
    return sigma * sigma * (dimension + 2 * math.sqrt(dimension * log) + 2 * log)


def theorem_5_1(
    dimension: int, sigma: float, confidence: float, *, records: int, lam: float, smoothness: float, ridge: float = 0.0
) -> float:
    """Theorem 5.1: J(w_gop) - J(w*) <= (c + lambda) T^/(2 N^2 lambda^2) with probability 1 - delta'."""
    if ridge != 0:
        raise InvalidParameter(
            "Theorem 5.1 is for Delta = 0; a larger epsilon, N or lambda makes computeSlack return 0"
        )
    n, lam, c = check_count(records, "N"), check_positive(lam, "lambda"), check_positive(smoothness, "c")
    return (c + lam) / (2 * n * n * lam * lam) * t_hat(dimension, sigma, confidence)


def theorem_5_1_sharper(dimension: int, sigma: float, confidence: float, *, records: int, lam: float) -> float:
    """T^/(2 N^2 lambda), ours: never above Theorem 5.1's and free of c."""
    n, lam = check_count(records, "N"), check_positive(lam, "lambda")
    return t_hat(dimension, sigma, confidence) / (2 * n * n * lam)


def theorem_5_3_samples(
    norm: float, excess: float, epsilon: float, confidence: float, *, t_hat: float, smoothness: float, kappa: float
) -> float:
    """Theorem 5.3's N > kappa max(||w0||^2 log(1/delta')/tau^2, c ||w0||^2/(tau epsilon), ||w0|| T^^(1/2)/tau)."""
    norm, tau = check_positive(norm, "the norm of w0"), check_positive(excess, "the excess risk tau")
    epsilon, kappa = check_epsilon(epsilon), check_positive(kappa, "kappa")
    terms = (
        norm**2 * math.log(1 / check_delta(confidence)) / tau**2,
        check_positive(smoothness, "c") * norm**2 / (tau * epsilon),
        norm * math.sqrt(check_positive(t_hat, "T^")) / tau,
    )
    return kappa * max(terms)


def theorem_5_3_explicit(
    norm: float, excess: float, epsilon: float, confidence: float, *, t_hat: float, smoothness: float
) -> tuple[float, float]:
    """An N that suffices for Theorem 5.3, and its lambda = tau/||w0||^2; with L = 1 and ||x|| <= 1."""
    norm, tau = check_positive(norm, "the norm of w0"), check_positive(excess, "the excess risk tau")
    lam = tau / norm**2
    statistical = 64 * (32 + math.log(1 / check_delta(confidence))) / (lam * tau)
    slack = check_positive(smoothness, "c") / (lam * math.expm1(check_epsilon(epsilon) / 4))
    noise = math.sqrt(4 * check_positive(t_hat, "T^") / (lam * tau))
    return max(statistical, slack, noise), lam


# -- Theorem 5.1, Proposition 5.2


@given(st.integers(1, 500), st.floats(0.1, 1000), st.floats(1e-12, 0.36))
def test_proposition_5_2(d: int, sigma: float, confidence: float) -> None:
    exact, bound = t_hat(d, sigma, confidence), t_hat_bound(d, sigma, confidence)
    assert exact <= bound
    assert bound <= 6 * exact / min(1.0, chi2.isf(confidence, d) / d)


@pytest.mark.parametrize("lam", [0.05, 0.5])
def test_theorem_5_1_holds_in_runs(lam: float) -> None:
    """The bound is exceeded with probability at most 0.1; 45 of 200 runs exceed it by chance once in 10^7 tests."""
    generator = np.random.default_rng(7)
    n, d, c, confidence, sigma = 300, 4, 0.25, 0.1, 12.0
    X = generator.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = np.where(X[:, 0] + 0.3 * generator.normal(size=n) > 0, 1, -1)
    targets, loss, zero = one_hot((y > 0).astype(np.int64), 2), Logistic(), np.zeros(d)
    best = perturbed_minimiser(X, y, ridge=lam, eta=zero, loss=loss).w
    least = risk(X, targets, best, lam, loss)
    bound = theorem_5_1(d, sigma, confidence, records=n, lam=lam, smoothness=c)
    sharper = theorem_5_1_sharper(d, sigma, confidence, records=n, lam=lam)
    excesses = []
    for _ in range(200):
        w = perturbed_minimiser(X, y, ridge=lam, eta=generator.normal(scale=sigma, size=d), loss=loss).w
        excesses.append(risk(X, targets, w, lam, loss) - least)
    assert sharper <= bound
    assert np.sum(np.array(excesses) > bound) < 45
    assert np.sum(np.array(excesses) > sharper) < 45
    assert max(excesses) > sharper / 20  # the bound is not vacuous


def test_theorem_5_1_is_rejected_for_a_positive_ridge() -> None:
    with pytest.raises(InvalidParameter, match="Delta = 0"):
        theorem_5_1(4, 1.0, 0.1, records=10, lam=0.1, smoothness=0.25, ridge=0.2)


def test_theorem_5_3_explicit_is_the_theorem_with_some_kappa() -> None:
    """Each term of the explicit N is a constant times the paper's term, whatever tau."""
    ratios = []
    for tau in (0.3, 0.03, 0.003):
        explicit, lam = theorem_5_3_explicit(1.5, tau, 0.5, 0.05, t_hat=900.0, smoothness=0.25)
        assert lam == pytest.approx(tau / 1.5**2)
        ratios.append(explicit / theorem_5_3_samples(1.5, tau, 0.5, 0.05, t_hat=900.0, smoothness=0.25, kappa=1.0))
    assert max(ratios) <= 64 * (1 + 32 / math.log(20))


def test_theorem_5_3_holds_in_runs() -> None:
    """N from the explicit form: the excess loss over w0 stays below tau in every one of 20 runs (2 delta' = 0.1
    of them may fail by the theorem, which is far from tight)."""
    generator = np.random.default_rng(3)
    d, tau, epsilon, delta, confidence = 3, 0.6, 1.0, 0.05, 0.05
    w0 = np.array([1.0, 0.0, 0.0])
    sigma = bounds.sigma_from_density_ratio(d, epsilon / 2, delta)
    samples, lam = theorem_5_3_explicit(
        1.0, tau, epsilon, confidence, t_hat=t_hat(d, sigma, confidence), smoothness=0.25
    )
    n, loss = math.ceil(samples), Logistic()

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
        w = perturbed_minimiser(X, y, ridge=lam, eta=eta, loss=loss).w
        assert expected(w) - expected(w0) <= tau
