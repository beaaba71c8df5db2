"""The statistic release: exact integers, a certified sensitivity, post-processing, rules that see nothing private."""

import math

import numpy as np
import pytest

from psephos.curator.hamm import statistic as st
from psephos.curator.hamm.erm import minimise
from psephos.curator.losses import Logistic, Softmax
from psephos.parties.noise import PolyaShares, SkellamShares, contributors
from psephos.parties.statistic import entry_range, noisy_contribution
from psephos.protocol.errors import DataError, GridTooCoarseError, InvalidParameter
from psephos.protocol.privacy.mechanisms import DiscreteLaplace, Skellam
from psephos.protocol.randomness import SimulationRandomness


def problem(classes: int, parties: int, samples: int = 120, width: int = 4, seed: int = 0):
    """Features in the unit ball, every party's choices (M, N), and their counts."""
    generator = np.random.default_rng([seed, classes])
    centres = generator.normal(size=(classes, width))
    labels = generator.integers(classes, size=samples)
    X = centres[labels] + 0.5 * generator.normal(size=(samples, width))
    X /= np.linalg.norm(X, axis=1).max() * (1 + 1e-12)
    wrong = generator.random((parties, samples)) < 0.3
    choices = np.where(wrong, generator.integers(classes, size=(parties, samples)), labels)
    counts = np.eye(classes, dtype=np.int64)[choices].sum(axis=0)
    return X, labels, choices, counts


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_without_noise_it_is_algorithm_2(classes):
    """The summed statistic, that of alpha, and Hamm's weighted ERM: one classifier; the integer sums equal exactly."""
    X, _, choices, counts = problem(classes, 15)
    lam = 1e-2
    plan = st.plan_statistic(X, classes, 15, epsilon=None, coordinates="given", ridge=lam, feature_bits=40)
    total = [sum(column) for column in zip(*(noisy_contribution(plan.grid, c, None) for c in choices), strict=True)]
    assert total == plan.grid.total(counts)
    summed = st.fit_statistic(st.release_total(plan, total))
    counted = st.fit_statistic(st.release_statistic(counts, plan))
    assert np.array_equal(summed, counted)
    loss = Logistic() if classes == 2 else Softmax()
    reference = minimise(X, counts / 15, lam, loss).w
    assert counted.shape == reference.shape
    assert np.linalg.norm(counted - reference) < 1e-5 * np.linalg.norm(reference)


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("coordinates", ["given", "whitened"])
def test_no_change_of_one_party_exceeds_the_certified_sensitivity(classes, coordinates):
    generator = np.random.default_rng(classes)
    worst = {"l1": 0.0, "l2": 0.0}
    for trial in range(25):
        X = problem(classes, 1, samples=12, width=3, seed=trial)[0]
        if trial % 2:
            X = np.outer(np.sign(generator.normal(size=12)), X[0]) + 1e-9 * generator.normal(size=X.shape)
        plan = st.plan_statistic(X, classes, 5, epsilon=1.0, coordinates=coordinates)
        Z = plan.grid.points
        side = np.linalg.svd(Z.astype(float))[2][0] @ Z.T > 0
        pairs = [generator.integers(classes, size=(2, 12)) for _ in range(20)]
        pairs += [(np.where(side, a, b), np.where(side, b, a)) for a in range(classes) for b in range(a)]
        for one, two in pairs:
            change = [a - b for a, b in zip(plan.grid.contribution(one), plan.grid.contribution(two), strict=True)]
            worst["l1"] = max(worst["l1"], sum(abs(v) for v in change) / plan.l1.value)
            worst["l2"] = max(worst["l2"], math.sqrt(sum(v * v for v in change)) / plan.l2.value)
    assert 0.9 < worst["l2"] <= 1
    assert 0.5 < worst["l1"] <= 1


def test_sensitivity_is_close_to_the_table():
    X = problem(4, 1)[0]
    plan = st.plan_statistic(X, 4, 50, epsilon=1.0)
    assert plan.sensitivity.value == pytest.approx(math.sqrt(2) / 50, rel=1e-3)
    assert st.plan_statistic(X[:, :2], 2, 50, epsilon=1.0).sensitivity.value == pytest.approx(1 / 50, rel=1e-3)


def test_released_statistic_decodes_to_T():
    X, _, _, counts = problem(5, 20)
    plan = st.plan_statistic(X, 5, 20, epsilon=None)
    released = st.release_statistic(counts, plan)
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    T = (counts / 20).T @ (rows @ plan.transform) / len(X)
    assert np.allclose(released.T, T, atol=1e-4)
    assert np.allclose(released.T.sum(axis=0), (plan.grid.points * plan.pitch).mean(axis=0))
    assert not released.private


@pytest.mark.parametrize("mechanism", st.MECHANISMS)
def test_noise_is_what_the_plan_says(mechanism):
    """The noise of the decoded T has the energy of the law, spread over contrasts and none in the known row sums."""
    X, _, _, counts = problem(4, 1000)
    plan = st.plan_statistic(X, 4, 1000, epsilon=0.5, mechanism=mechanism)
    exact = st.plan_statistic(X, 4, 1000, epsilon=None)
    truth = st.release_statistic(counts, exact).T
    randomness = SimulationRandomness(1, mechanism)
    noise = np.array([st.release_statistic(counts, plan, randomness).T - truth for _ in range(300)])
    assert np.abs(noise.sum(axis=1)).max() < 1e-9
    unit = plan.sensitivity.value
    dimension = plan.dimension
    if mechanism == "spherical-laplace":
        energy = dimension * (dimension + 1) * (unit / 0.5) ** 2
    elif mechanism == "discrete-laplace":
        energy = dimension * 2 * (unit / 0.5) ** 2
    else:
        energy = dimension * (plan.mechanism.sigma * plan.unit) ** 2
    assert (noise**2).sum(axis=(1, 2)).mean() == pytest.approx(energy, rel=0.25)
    simulated = [st.simulate_release(counts, plan, np.random.default_rng(i)) for i in range(300)]
    assert np.mean([((r.T - truth) ** 2).sum() for r in simulated]) == pytest.approx(energy, rel=0.25)
    assert not simulated[0].private


def test_a_private_classifier_is_useful_and_invariant_to_the_features_scale():
    X, labels, _, counts = problem(3, 2000, samples=400)
    plan = st.plan_statistic(X, 3, 2000, epsilon=1.0)
    W = st.fit_statistic(st.release_statistic(counts, plan, SimulationRandomness(2)))
    assert (np.argmax(X @ W.T, axis=1) == labels).mean() > 0.8
    other = st.plan_statistic(X * 2.0**-4, 3, 2000, epsilon=1.0)
    assert np.array_equal(other.grid.points, plan.grid.points)
    assert other.mechanism == plan.mechanism


def test_rank_rule():
    """More noise, fewer coordinates; a function of public numbers alone."""
    ranks = [st.choose_rank(50, 6, 1000, e, 1e-6, "spherical-laplace") for e in (10, 3, 1, 0.3, 0.1)]
    assert ranks == sorted(ranks, reverse=True)
    assert ranks[0] == 50
    assert ranks[-1] >= 3
    assert st.choose_rank(2, 6, 1000, 0.01, 1e-6, "gaussian") == 2
    assert st.choose_rank(50, 6, 1000, 1.0, 1e-6, "gaussian") > st.choose_rank(
        50, 6, 1000, 1.0, 1e-6, "discrete-laplace"
    )


@pytest.mark.parametrize("mechanism", ["discrete-laplace", "gaussian"])
def test_joint_noise_end_to_end_on_integers(mechanism):
    X, _, choices, counts = problem(3, 40, samples=60)
    plan = st.plan_statistic(X, 3, 40, epsilon=2.0, mechanism=mechanism, joint=True)
    size = {"dimension": plan.dimension, "parties": 40, "contributors": contributors(40, 3, 2)}
    if isinstance(plan.mechanism, DiscreteLaplace):
        shares = PolyaShares(**size, scale_units=plan.mechanism.scale_units)
    else:
        assert isinstance(plan.mechanism, Skellam)
        shares = SkellamShares(**size, variance=plan.mechanism.variance)
    randomness = SimulationRandomness(3, mechanism)
    low, high = entry_range(plan.grid, shares)
    vectors = [noisy_contribution(plan.grid, c, shares, randomness) for c in choices]
    assert all(low <= v <= high for vector in vectors for v in vector)
    total = [sum(column) for column in zip(*vectors, strict=True)]
    assert total != plan.grid.total(counts)
    released = st.release_total(plan, total)
    assert released.private
    assert st.fit_statistic(released).shape == (3, 4)
    assert plan.event.epsilon == 2.0
    assert 0 < plan.event.delta <= (2.0**-64 if mechanism == "discrete-laplace" else 1e-6 * (1 + 1e-9))


def test_bad_input_is_named_before_anything_is_released():
    X, _, _, counts = problem(3, 10)
    plan = lambda **kw: st.plan_statistic(X, 3, 10, **{"epsilon": 1.0, **kw})  # noqa: E731
    for epsilon in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InvalidParameter, match="epsilon"):
            plan(epsilon=epsilon)
    with pytest.raises(InvalidParameter, match="delta"):
        plan(mechanism="gaussian", delta=0.0)
    with pytest.raises(InvalidParameter, match="mechanism"):
        plan(mechanism="uniform")
    with pytest.raises(InvalidParameter, match="coordinates"):
        plan(coordinates="polar")
    with pytest.raises(InvalidParameter, match="shares"):
        plan(joint=True)
    with pytest.raises(InvalidParameter, match="ridge"):
        plan(ridge=0.0)
    with pytest.raises(DataError, match="independent directions"):
        plan(rank=5)
    with pytest.raises(DataError, match="the same"):
        st.plan_statistic(np.ones((5, 2)), 2, 10, epsilon=1.0)
    deficient = np.outer(np.arange(1.0, 9.0), [1.0, 2.0, 3.0]) / 40
    with pytest.raises(DataError, match="lower the rank"):
        st.plan_statistic(deficient, 2, 10, epsilon=1.0, rank=3)
    with pytest.raises(GridTooCoarseError, match="feature bits"):
        st.plan_statistic(X, 3, 10**6, epsilon=1.0, feature_bits=8)
    with pytest.raises(DataError, match="finite"):
        st.plan_statistic(np.array([[math.nan, 1.0], [0.0, 1.0]]), 2, 10, epsilon=1.0)
    with pytest.raises(DataError, match="ballots"):
        st.release_statistic(counts + 1, plan())
    with pytest.raises(DataError):
        st.release_statistic(counts[:-1], plan())
    with pytest.raises(InvalidParameter, match="epsilon"):
        _ = plan(epsilon=None).event
    with pytest.raises(InvalidParameter, match="leave nobody"):
        contributors(10, 5, 4)
