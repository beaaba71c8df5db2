"""What the papers leave wrong or open (docs/security/findings.md), worked out again without the library's own formulas.

Findings 4, 5 and 6 are attacks (test_attacks.py), 9 is also in test_psgd_attacks.py; 7 needs the Adult data and is in
`psephos reproduce pathak-adult`.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammaln, lambertw
from scipy.stats import chi2

from curator import sensitivity
from curator.rajkumar_bounds import pure_composition, sigma_as_printed, sigma_from_density_ratio
from parties.training import train_parties
from protocol.noise import simulate_spherical_laplace


def test_1_the_norm_of_theorem_3s_noise_is_gamma_and_an_exponential_norm_is_not_private() -> None:
    D, b = 300, 1.0
    generator = np.random.default_rng(1)
    norms = [np.linalg.norm(simulate_spherical_laplace(D, b, generator)) for _ in range(400)]
    assert np.mean(norms) == pytest.approx(D * b, rel=5 / math.sqrt(400 * D))
    # Exponential norm: P(||o - f|| < r) = 1 - e^(-r/b) under f. Under f' at distance S = b (epsilon = 1) the same ball
    # is reached with a density of at most e^(-(S - r)/b) / (b A (S - r)^(D - 1)), A the area of the unit sphere.
    S, r = b, 0.25 * b
    log_ball = D / 2 * math.log(math.pi) - gammaln(D / 2 + 1) + D * math.log(r)
    log_area = math.log(2) + D / 2 * math.log(math.pi) - gammaln(D / 2)
    log_other = log_ball - (S - r) / b - math.log(b) - log_area - (D - 1) * math.log(S - r)
    loss = math.log(-math.expm1(-r / b)) - log_other
    assert loss > 300  # epsilon = 1 was claimed


def test_2_no_logistic_ridge_minimiser_is_longer_than_r_of_lambda() -> None:
    lam = 1e-4
    R = math.sqrt(lambertw(1 / math.e).real / lam)
    assert pytest.approx(math.sqrt(0.2785 / lam), rel=1e-3) == R
    # Stationarity times w: lambda ||w||^2 = mean of t/(1 + e^t), at most W0(1/e), reached at t = 1 + W0(1/e).
    margin = 1 + lambertw(1 / math.e).real
    w = train_parties(np.array([[margin / R, 0.0]]), np.array([1]), [1], classes=2, lam=lam)[0]
    assert np.linalg.norm(w) == pytest.approx(R, rel=1e-6)
    generator = np.random.default_rng(2)
    for n in (2, 10, 50):
        X = generator.normal(size=(n, 3)) * generator.uniform(0, 0.05, size=(n, 1))
        w = train_parties(X, generator.integers(0, 2, size=n), [n], classes=2, lam=lam)[0]
        assert np.linalg.norm(w) <= R * (1 + 1e-9)
    M = 1000
    hamm, ours = 2 / (M * lam), sensitivity.average(R, M).value
    assert pytest.approx(ours, rel=1e-6) == 2 * R / M
    assert 15 < hamm / ours < 200


def test_3_theorem_4_1_gives_another_epsilon() -> None:
    # Objective (2) is 2 lambda-strongly convex: L2 sensitivity 1/(n lambda), L1 at most sqrt(d) times that, 1/K of it
    # in the average; one Laplace variable of scale 2/(n epsilon lambda) per coordinate.
    def real(epsilon: float, d: int, K: int) -> float:
        return math.sqrt(d) / K / (2 / epsilon)

    assert real(1.0, 123, 5) == pytest.approx(1.109, abs=5e-4)
    assert 2 * real(1.0, 123, 5) == pytest.approx(2.218, abs=1e-3)  # (lambda/2) ||w||^2
    assert real(1.0, 10, 15) == pytest.approx(0.105, abs=1e-3)  # about ten times more noise than needed


def test_8_sigma_as_printed_is_not_private() -> None:
    d, epsilon, delta = 10, 0.1, 0.05
    q = chi2.ppf(1 - delta, d)
    printed = 2 / (epsilon + 2 * math.sqrt(q))
    derived = brentq(lambda s: chi2.cdf(((s**2 * epsilon - 2) / (2 * s)) ** 2, d) - (1 - delta), 30, 500)
    assert printed == pytest.approx(0.23, abs=0.005) == sigma_as_printed(d, epsilon, delta)
    assert derived == pytest.approx(85.8, abs=0.05) == sigma_from_density_ratio(d, epsilon, delta)
    # The loss of densities at b ~ N(0, sigma^2 I), b' = b + 2 e: (||b'||^2 - ||b||^2) / (2 sigma^2).
    b = np.random.default_rng(8).normal(size=(20_000, d))
    for sigma, exceeded in ((printed, 1.0), (derived, 0.0)):
        away = b * sigma / np.linalg.norm(b * sigma, axis=1, keepdims=True)  # the worst direction
        loss = (np.sum((b * sigma + 2 * away) ** 2, axis=1) - np.sum((b * sigma) ** 2, axis=1)) / (2 * sigma**2)
        assert np.mean(loss > epsilon) == pytest.approx(exceeded, abs=delta + 0.01)


def test_9_noisy_sums_compose() -> None:
    """T releases of epsilon each: T epsilon purely, and far above epsilon at any delta."""
    for steps in (10, 1000):
        composed = pure_composition(0.1, steps, 1e-6)
        assert 0.1 * 3 < composed <= 0.1 * steps * (1 + 1e-9)
    assert pure_composition(0.1, 10_000, 0.05) == pytest.approx(65, abs=2)


def test_10_theorem_4_2_is_false() -> None:
    lam, first, second = 0.01, (1.0, 1.0), (0.1, -1.0)

    def minimiser(points: list[tuple[float, float]]) -> float:
        def objective(w: float) -> float:
            return float(np.mean([np.logaddexp(0, -y * w * x) for x, y in points]) + lam * w * w)

        return float(minimize_scalar(objective, bounds=(-50, 50), method="bounded", options={"xatol": 1e-10}).x)

    averaged = (minimiser([first]) + minimiser([second])) / 2
    for copies in (1, 10, 1000):  # n does not matter: the objective is a mean
        pooled = minimiser([first] * copies + [second] * copies)
        assert abs(averaged - pooled) == pytest.approx(1.599, abs=1e-3)
    bound = (2 - 1) / (1000 * lam)
    assert bound == pytest.approx(100 / 1000)
    assert abs(averaged - pooled) > 10 * bound
