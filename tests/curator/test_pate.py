"""PATE and the two direct releases: the noise is what the accounting says, and it answers well where it should."""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression

from psephos.curator import pate
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.privacy.mechanisms import DiscreteLaplace, RoundedGaussian, gaussian_delta
from psephos.protocol.randomness import SimulationRandomness
from tests.statistical import FALSE_ALARM


def votes(classes: int, parties: int, samples: int, seed: int = 0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(samples, 3))
    truth = np.argmax(X @ generator.normal(size=(3, classes)), axis=1)
    cast = np.where(
        generator.random((parties, samples)) < 0.4, generator.integers(classes, size=(parties, samples)), truth
    )
    return X / 10, truth, np.eye(classes, dtype=np.int64)[cast].sum(axis=0)


@pytest.mark.parametrize("aggregator", ["gnmax", "lnmax"])
@pytest.mark.parametrize("classes", [2, 4])
def test_answers_and_student(aggregator, classes):
    X, truth, counts = votes(classes, 3000, 300)
    plan = pate.plan_pate(300, classes, 3000, epsilon=2.0, aggregator=aggregator)
    released = pate.release_pate(counts, plan, SimulationRandomness(1))
    assert released.answers.shape == plan.queries.shape
    assert (released.answers == truth[plan.queries]).mean() > 0.9
    W = pate.fit_student(X, released)
    predicted = (X @ W > 0).astype(int) if classes == 2 else np.argmax(X @ W.T, axis=1)
    assert (predicted == truth).mean() > 0.75


def test_noise_is_calibrated_to_all_queries_together():
    plan = pate.plan_pate(500, 3, 100, epsilon=1.0, delta=1e-5, queries=80)
    assert isinstance(plan.mechanism, RoundedGaussian)
    assert gaussian_delta(math.sqrt(160), 1.0, plan.mechanism.sigma) <= 1e-5
    assert gaussian_delta(math.sqrt(160), 1.0, plan.mechanism.sigma * 0.999) > 1e-5
    assert plan.event.delta <= 1e-5
    laplace = pate.plan_pate(500, 3, 100, epsilon=1.0, aggregator="lnmax", queries=80)
    assert isinstance(laplace.mechanism, DiscreteLaplace)
    assert float(laplace.mechanism.scale_units) == pytest.approx(160, rel=1e-5)
    assert laplace.event.delta == 0.0


def test_the_flip_rate_of_one_query_follows_the_law():
    """Two classes, margin 3, LNMax: the answer flips when a difference of two discrete Laplace variables is over 3."""
    plan = pate.plan_pate(1, 2, 11, epsilon=1.0, aggregator="lnmax", queries=1)
    randomness = SimulationRandomness(2)
    flips = sum(int(pate.release_pate(np.array([[4, 7]]), plan, randomness).answers[0] == 0) for _ in range(7200))
    k = np.arange(-200, 201)
    mass = np.exp(-np.abs(k) / 2)
    mass /= mass.sum()
    difference = np.convolve(mass, mass)
    chance = float(difference[np.arange(-400, 401) >= 3].sum())  # a tie goes to class 0
    assert stats.binomtest(flips, 7200, chance).pvalue > FALSE_ALARM


@pytest.mark.parametrize("classes", [2, 3])
def test_the_student_is_ridge_regression_on_unit_rows(classes):
    """Against scikit-learn; a row of zeros is no obstacle. For two classes w = 2 v makes the ridge half of it."""
    X, truth, _ = votes(classes, 1, 60)
    X[3] = 0
    plan = pate.plan_pate(60, classes, 50, epsilon=2.0, queries=40)
    assert 3 in plan.queries
    W = pate.fit_student(X, pate.PateRelease(plan, truth[plan.queries]), 0.01)
    Z = X[plan.queries] / np.maximum(np.linalg.norm(X[plan.queries], axis=1, keepdims=True), 1e-9)
    strength = 1 / (40 * (0.005 if classes == 2 else 0.01))
    solver = LogisticRegression(C=strength, fit_intercept=False, tol=1e-10, max_iter=10_000)
    reference = solver.fit(Z, truth[plan.queries]).coef_
    np.testing.assert_allclose(W, reference[0] if classes == 2 else reference, atol=1e-3)
    usual = pate.fit_student(X, pate.PateRelease(plan, truth[plan.queries]))
    assert np.array_equal(usual, pate.fit_student(X, pate.PateRelease(plan, truth[plan.queries]), 1e-3))


def test_answers_are_the_largest_noisy_counts():
    """Of the same coins: count times steps plus noise, and of two alike the lower class."""
    _, _, counts = votes(3, 30, 25)
    plan = pate.plan_pate(25, 3, 30, epsilon=4.0, queries=20)
    noise = plan.mechanism.sample(SimulationRandomness(8))
    noisy = np.array(noise, dtype=float).reshape(20, 3) * plan.mechanism.pitch + counts[plan.queries]
    released = pate.release_pate(counts, plan, SimulationRandomness(8))
    assert released.answers.tolist() == noisy.argmax(axis=1).tolist() != counts[plan.queries].argmax(axis=1).tolist()
    assert (released.answers.dtype, released.plan) == (np.int64, plan)


@pytest.mark.parametrize(
    "change",
    [
        {"aggregator": "max"},
        {"epsilon": math.nan},
        {"delta": 2.0},
        *({"queries": number} for number in (0, 11)),
        *({name: 0} for name in ("samples", "classes", "parties")),
    ],
    ids=str,
)
def test_terms_out_of_range_are_refused(change):
    with pytest.raises(InvalidParameter):
        pate.plan_pate(**{"samples": 10, "classes": 2, "parties": 5, "epsilon": 1.0} | change)


@pytest.mark.parametrize("counts", [np.full((9, 2), [5, 0]), np.full((10, 3), [5, 0, 0]), np.full((10, 2), [6, -1])])
def test_counts_that_do_not_fit_the_plan_are_refused(counts):
    with pytest.raises(DataError):
        pate.release_pate(counts, pate.plan_pate(10, 2, 5, epsilon=1.0, queries=10))
