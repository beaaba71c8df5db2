"""The rivals of `benchmarks.record_rivals` are estimators of libraries without noise; noise has its stated size.

All seeds are fixed, so that nothing fails by chance.
"""

from __future__ import annotations

import importlib.util
import math

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from benchmarks import record_rivals as rivals
from benchmarks.record_rivals import DELTA, Problem


def problem(rows: int = 400, width: int = 5) -> Problem:
    generator = np.random.default_rng(3)
    Z = generator.normal(size=(rows, width))
    Z /= np.linalg.norm(Z, axis=1, keepdims=True) * (1 + 1e-9)
    y = (Z @ np.arange(width) + generator.normal(size=rows) > 0).astype(float)
    none = np.zeros(rows)
    return Problem(Z, none, y, Z, none, Z)


def reference(each: Problem, ridge: float) -> np.ndarray:
    model = LogisticRegression(C=1 / ridge, fit_intercept=False, tol=1e-10, max_iter=10_000)
    return np.asarray(model.fit(each.Z, each.y).coef_[0])


def test_the_unperturbed_objective_is_that_of_ridge_logistic_regression() -> None:
    each = problem()
    w = rivals.minimise_perturbed(each, 0.7, np.zeros(5))
    assert np.allclose(w, reference(each, 0.7), atol=1e-5)
    large = rivals.objective(each, 60.0, DELTA, 0.05, np.random.default_rng(0))
    assert np.allclose(large, reference(each, rivals.SMOOTHNESS / math.expm1(3.0)), rtol=0.1, atol=0.2)


def test_a_perturbed_objective_has_its_stationary_point_where_the_noise_says() -> None:
    each, noise = problem(), np.arange(5) - 2.0
    w = rivals.minimise_perturbed(each, 0.7, noise)
    assert np.allclose(rivals.logistic_sum(w, each)[1] + 0.7 * w + noise, 0, atol=1e-5)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_noise_of_an_objective_has_the_tail_that_delta_allows(
    epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row in the direction of the noise changes the density by more than epsilon with probability delta."""
    noises = []
    monkeypatch.setattr(rivals, "minimise_perturbed", lambda problem, ridge, noise: noises.append((ridge, noise)))
    each = problem(width=2000, rows=2)
    rivals.objective(each, epsilon, DELTA, 0.25, np.random.default_rng(1))
    ridge, noise = noises[0]
    rest = 0.75 * epsilon
    assert math.log1p(rivals.SMOOTHNESS / ridge) + rest == pytest.approx(epsilon)
    quantile = norm.isf(DELTA / 2)
    sigma = (quantile + math.sqrt(quantile**2 + 2 * rest)) / (2 * rest)
    assert 2 * norm.sf(sigma * rest - 1 / (2 * sigma)) == pytest.approx(DELTA)
    assert np.std(noise) == pytest.approx(sigma, rel=0.1)


def test_statistics_without_noise_are_least_squares() -> None:
    each, c = problem(), rivals.quadratic_loss(3.0)
    w = rivals.statistics(each, math.inf, 3.0, np.random.default_rng(0))
    least = np.linalg.lstsq(each.Z, 2 * each.y - 1, rcond=None)[0]
    assert np.allclose(w * 4 * c, least)
    s = np.linspace(-3, 3, 7)
    assert np.abs(np.logaddexp(0, -s) - (math.log(2) - s / 2 + c * s**2)).max() < 0.2, "c is of the logistic loss"


def test_a_descent_without_noise_reaches_the_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    each = problem()
    monkeypatch.setattr(rivals, "ROWS", len(each.y))
    w = rivals.descent(each, math.inf, 3000, np.random.default_rng(0))
    assert np.allclose(rivals.logistic_sum(w, each)[1], 0, atol=1e-3)
    assert np.allclose(w, reference(each, 1e-6), atol=1e-2)


def test_adassp_without_noise_is_least_squares() -> None:
    each = problem()
    least = np.linalg.lstsq(each.Z, each.y, rcond=None)[0]
    assert np.allclose(rivals.adassp(each, math.inf, np.random.default_rng(0)), least)
    noisy = rivals.adassp(each, 0.01, np.random.default_rng(0))
    assert np.linalg.norm(noisy) < np.linalg.norm(least), "with noise it shrinks"


def test_noise_of_a_symmetric_matrix_has_its_sensitivity() -> None:
    """In the Frobenius norm each pair off the diagonal counts twice."""
    noise = rivals.symmetric_noise(200, 3.0, np.random.default_rng(0))
    assert np.array_equal(noise, noise.T)
    upper = noise[np.triu_indices(200, 1)]
    assert np.std(np.diag(noise)) == pytest.approx(3.0, rel=0.2)
    assert np.std(upper) == pytest.approx(3.0 / math.sqrt(2), rel=0.03)


def test_the_mechanism_of_diffprivlib_minimises_ridge_logistic_regression() -> None:
    if importlib.util.find_spec("diffprivlib") is None:
        pytest.skip("diffprivlib is not installed")
    each = problem()
    w = rivals.vector_mechanism(each, 1e5, 2.0, 0)
    assert np.allclose(w, reference(each, 0.5), atol=0.02)


def test_rows_of_a_problem_have_norm_at_most_one() -> None:
    class Grid:
        constant = 0.3

    rows = rivals.l2_clip(Grid(), np.random.default_rng(0).normal(size=(50, 4)) * 5)
    assert np.linalg.norm(rows, axis=1).max() <= 1
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=0.01), "all were longer than 1"


def test_a_table_has_the_setting_of_advance_and_the_best_of_all() -> None:
    cells = {f"{e:g}/{p}": [0.5 + p / 10, 0.6 + p / 10] for e in rivals.EPSILONS for p in range(3)}
    lines = [{"name": "adult", "rival": "statistics", "seed": seed, "measured": cells} for seed in range(2)]
    first, best = rivals.table(lines).splitlines()[2:4]
    assert first == "| statistics | 2 |" + " 0.500/0.600 |" * 4
    assert best == "| statistics, in hindsight | 2 |" + " 0.700/0.800 |" * 4
