"""PATE and the two direct releases: the noise is what the accounting says, and it answers well where it should."""

import math

import numpy as np
import pytest
from scipy import stats

from psephos.curator.hamm import pate
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.privacy.mechanisms import DiscreteLaplace, RoundedGaussian, gaussian_delta
from psephos.protocol.randomness import SimulationRandomness
from tests.curator.hamm import direct


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


def test_flip_rate_of_one_query_is_the_laws():
    """Two classes, margin 3, LNMax: the answer flips when a difference of two discrete Laplace variables is over 3."""
    plan = pate.plan_pate(1, 2, 11, epsilon=1.0, aggregator="lnmax", queries=1)
    randomness = SimulationRandomness(2)
    flips = sum(int(pate.release_pate(np.array([[4, 7]]), plan, randomness).answers[0] == 0) for _ in range(4000))
    k = np.arange(-200, 201)
    mass = np.exp(-np.abs(k) / 2)
    mass /= mass.sum()
    difference = np.convolve(mass, mass)
    chance = float(difference[np.arange(-400, 401) >= 3].sum())  # a tie goes to class 0
    assert stats.binomtest(flips, 4000, chance).pvalue > 1e-6


def test_query_rule():
    wanted = [pate.choose_queries(1352, 6, 1000, e, 1e-6, "gnmax") for e in (10, 1, 0.3, 0.1, 0.001)]
    assert wanted == sorted(wanted, reverse=True)
    assert wanted[0] == 1352
    assert wanted[-1] == 12


def test_noisy_majority_spends_over_all_queries():
    _, truth, counts = votes(3, 5000, 40)
    answers, event = direct.noisy_majority(counts, 5000, 1.0, SimulationRandomness(3))
    assert event.epsilon == 1.0
    assert (answers == truth).mean() > 0.9
    _, truth, counts = votes(3, 50, 40)
    answers, _ = direct.noisy_majority(counts, 50, 1.0, SimulationRandomness(4))
    assert (answers == truth).mean() < 0.8


def test_all_classifiers_are_projected_and_perturbed():
    parameters = np.array([[30.0, 40.0], [0.3, 0.4]])
    randomness = SimulationRandomness(5)
    noisy = np.array([direct.all_classifiers(parameters, 1.0, 5.0, randomness)[0] for _ in range(1500)])
    norms = np.linalg.norm(noisy[:, 1] - parameters[1], axis=1)
    assert stats.kstest(norms, stats.gamma(2, scale=2 / 5).cdf).pvalue > 1e-6
    norms = np.linalg.norm(noisy[:, 0] - parameters[0] / 50, axis=1)
    assert stats.kstest(norms, stats.gamma(2, scale=2 / 5).cdf).pvalue > 1e-6
    assert direct.all_classifiers_event(5.0).epsilon == 5.0


def test_enormous_parameters_keep_their_direction():
    """Squares of 1e200 overflow, but the nearest point of the ball is there all the same."""
    noisy, _ = direct.all_classifiers(np.array([[3e200, 4e200]]), 1e3, 64.0, SimulationRandomness(5))
    assert noisy[0] == pytest.approx([600, 800], rel=0.2)


def test_bad_input():
    with pytest.raises(InvalidParameter, match="aggregator"):
        pate.plan_pate(10, 2, 5, epsilon=1.0, aggregator="max")
    with pytest.raises(InvalidParameter, match="queries"):
        pate.plan_pate(10, 2, 5, epsilon=1.0, queries=11)
    with pytest.raises(InvalidParameter, match="epsilon"):
        pate.plan_pate(10, 2, 5, epsilon=math.nan)
    with pytest.raises(InvalidParameter, match="delta"):
        pate.plan_pate(10, 2, 5, epsilon=1.0, delta=2.0)
    plan = pate.plan_pate(10, 2, 5, epsilon=1.0, queries=10)
    with pytest.raises(DataError, match="fit"):
        pate.release_pate(np.full((9, 2), [5, 0]), plan)
    with pytest.raises(DataError, match="ballots"):
        pate.release_pate(np.zeros((10, 2), dtype=int), plan)
    with pytest.raises(DataError, match="negative"):
        pate.release_pate(np.full((10, 2), [6, -1]), plan)
    with pytest.raises(DataError):
        direct.noisy_majority(np.zeros((0, 2), dtype=int), 5, 1.0)
    with pytest.raises(DataError, match="finite"):
        direct.all_classifiers(np.array([[math.nan]]), 1.0, 1.0)
    with pytest.raises(InvalidParameter, match="radius"):
        direct.all_classifiers(np.ones((2, 2)), 0.0, 1.0)
