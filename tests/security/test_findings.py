"""What the papers leave wrong or open (docs/security/index.md), worked out again without the library's own formulas.

Findings 4, 5 and 6 are attacks (test_attacks.py), 9 is also in test_psgd_attacks.py. 7 is tested on rows of Adult's
shape, and on Adult itself where PSEPHOS_DATA names a folder with it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.special import gammaln, lambertw
from scipy.stats import chi2

from psephos.curator.hamm import sensitivity
from psephos.curator.psgd.bounds import pure_composition, sigma_as_printed, sigma_from_density_ratio
from psephos.data.datasets import Dataset
from psephos.experiments.pathak import SPLITS, AdultOptions, reproduce_pathak_adult
from psephos.parties.training import train_parties
from psephos.protocol.privacy.mechanisms import simulate_spherical_laplace


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
    # One record less in the smallest data set and the scale is another: the log-ratio of two Laplace densities of
    # different scale has no bound, so there is no pure epsilon under adding or removing.
    ratios = [abs(x) / (2 / 10) - abs(x) / (2 / 9) for x in (1.0, 10.0, 100.0)]
    assert ratios[2] > 10 * ratios[0] > 0
    assert ratios[2] > 30


def _objective_two(X: NDArray[np.float64], y: NDArray[np.int64], lam: float) -> NDArray[np.float64]:
    """The minimiser of Pathak's objective (2), mean log-loss plus lambda ||w||^2, straight from scipy."""
    signs = 2.0 * y - 1

    def value(w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margins = signs * (X @ w)
        slope = -(X.T @ (signs * np.exp(-np.logaddexp(0, margins)))) / len(y) + 2 * lam * w
        return float(np.logaddexp(0, -margins).mean() + lam * w @ w), slope

    minimum = minimize(value, np.zeros(X.shape[1]), jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9})
    return np.asarray(minimum.x)


def _of_adults_shape(seed: int, rows: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Up to 14 attributes, one-hot, three of them sometimes missing; about a quarter of the rows positive."""
    generator = np.random.default_rng(seed)
    values, X = 6, np.zeros((rows, 14 * 6))
    effects = np.random.default_rng(0).normal(scale=0.8, size=(14, values))  # the same in training and test
    score = np.full(rows, -1.6)
    for attribute in range(14):
        chosen = generator.integers(values, size=rows)
        present = generator.random(rows) > (0.05 if attribute < 3 else 0)
        X[np.arange(rows)[present], (attribute * values + chosen)[present]] = 1
        score += np.where(present, effects[attribute, chosen], 0) / 2
    return X, (generator.random(rows) < 1 / (1 + np.exp(-score))).astype(np.int64)


def _check_finding_7(result: dict[str, Any], data: Dataset, majority: float) -> None:
    X, X_test = (np.asarray(m.toarray() if hasattr(m, "toarray") else m, float) for m in (data.X_train, data.X_test))
    facts = {label: value for label, value, _ in result["facts"]}
    assert facts["Error of always predicting the majority class"] == pytest.approx(majority, abs=5e-4)
    assert facts["Ones in a row"] == "11 to 14"
    assert np.linalg.norm(X, axis=1).max() == pytest.approx(14**0.5)  # 3.7, where 1 is assumed
    as_printed, unit_ball, smaller = (float(panel["note"].split()[-1]) for panel in result["panels"])
    reasons = [row[-1] for row in result["tables"][0]["rows"]]
    of_settings = (as_printed, 1.0, 1.0, True), (unit_ball, 1.0, 14**0.5, True), (smaller, 1e-3, 14**0.5, False)
    for number, (shown, lam, scale, says_majority) in enumerate(of_settings):
        positive = X_test @ _objective_two(X / scale, data.y_train, lam) > 0
        assert shown == pytest.approx(np.mean(positive != (data.y_test == 1)), abs=2e-3)
        assert says_majority == (not positive.any()) == bool(reasons[4 * number])
    assert as_printed == unit_ball == pytest.approx(majority, abs=1e-3)
    assert smaller < majority - 0.02


def test_7_at_lambda_1_the_pooled_classifier_predicts_the_majority() -> None:
    (X, y), (X_test, y_test) = _of_adults_shape(1, 4000), _of_adults_shape(2, 2000)
    data = Dataset("adult", X, y, X_test, y_test, ("<=50K", ">50K"), "made up")
    options, splits = AdultOptions(deals=1, draws=1, epsilons=(1.0,)), dict.fromkeys(SPLITS, (800,) * 5)
    result = reproduce_pathak_adult(options, data=data, splits=splits).as_json()
    _check_finding_7(result, data, float(y_test.mean()))


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
