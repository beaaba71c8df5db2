"""The statistic release: exact integers, a certified sensitivity, post-processing, rules that see nothing private."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from psephos.curator.hamm import statistic as st
from psephos.curator.hamm.erm import minimise
from psephos.curator.losses import Logistic, Softmax
from psephos.parties.noise import PolyaShares, SkellamShares, contributors
from psephos.parties.statistic import entry_range, noisy_contribution, own_vector
from psephos.parties.training import WHITENED_RIDGE
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
def test_the_integer_sums_of_parties_and_of_counts_are_equal(classes):
    X, _, choices, counts = problem(classes, 15)
    plan = st.plan_statistic(X, classes, 15, epsilon=None)
    total = [sum(column) for column in zip(*(noisy_contribution(plan.grid, c, None) for c in choices), strict=True)]
    assert total == plan.grid.total(counts)
    summed = st.fit_statistic(st.release_total(plan, total))
    assert np.array_equal(summed, st.fit_statistic(st.release_statistic(counts, plan)))


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_without_noise_it_predicts_as_algorithm_2(classes):
    """The least-squares classifier of the votes against Hamm's weighted risk: at most one row in ten differs."""
    X, _, _, counts = problem(classes, 15, samples=400)
    X /= np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-12)
    W = st.fit_statistic(st.release_statistic(counts, st.plan_statistic(X, classes, 15, epsilon=None)))
    reference = minimise(X, counts / 15, 1e-4, Logistic() if classes == 2 else Softmax()).w
    assert W.shape == reference.shape
    one, two = ((X @ w > 0) if classes == 2 else (X @ w.T).argmax(axis=1) for w in (W, reference))
    assert np.mean(one == two) > 0.9


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_no_change_of_one_party_exceeds_the_certified_sensitivity(classes):
    generator = np.random.default_rng(classes)
    worst = {"l1": 0.0, "l2": 0.0}
    for trial in range(25):
        X = problem(classes, 1, samples=12, width=3, seed=trial)[0]
        if trial % 2:
            X = np.outer(np.sign(generator.normal(size=12)), X[0]) + 1e-9 * generator.normal(size=X.shape)
        plan = st.plan_statistic(X, classes, 5, epsilon=1.0)
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


@pytest.mark.parametrize("source", ["own-data", "whitened"])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_own_data_no_party_reaches_beyond_two_over_m_and_some_reach_it(classes, source):
    """Any rows, any labels, any number of them, none at all: attained over bound is at most 1, and 1 to rounding."""
    generator = np.random.default_rng(classes)
    X = problem(classes, 1, width=4)[0]
    plan = st.plan_statistic(X, classes, 7, epsilon=1.0, source=source)
    assert plan.sensitivity.value == pytest.approx(2 / 7, rel=1e-6)
    vectors = []
    for size in (0, 1, 1, 2, 5, 40) * 5:
        rows = generator.normal(size=(size, 4)) * 10.0 ** generator.integers(-150, 150)
        vectors.append(np.array(own_vector(plan.grid, rows, generator.integers(classes, size=size)), dtype=object))
    one_class = own_vector(plan.grid, X[:3], np.zeros(3, dtype=int))
    vectors += [np.array(one_class, dtype=object), np.array(own_vector(plan.grid, np.zeros((3, 4)), [0, 1, 0]))]
    vectors += [np.array(own_vector(plan.grid, -X[:3], np.zeros(3, dtype=int)), dtype=object)]
    worst1 = max(float(np.abs(a - b).sum()) / plan.l1.value for a in vectors for b in vectors)
    worst2 = max(math.sqrt(int(((a - b) ** 2).sum())) / plan.l2.value for a in vectors for b in vectors)
    assert 1 - 1e-6 < worst2 <= 1
    assert 0.5 < worst1 <= 1
    assert all(plan.grid.minimum <= v <= plan.grid.maximum for vector in vectors for v in vector)


def test_own_data_is_the_mean_of_unit_vectors_and_learns():
    """Against the definition in floating point; and a private classifier from two rows a party."""
    generator = np.random.default_rng(5)
    X, labels, _, _ = problem(3, 1, samples=4300)
    public, rows, y = X[:300], X[300:].reshape(2000, 2, 4), labels[300:].reshape(2000, 2)
    plan = st.plan_statistic(public, 3, 2000, epsilon=1.0, source="own-data")
    total = np.sum([np.array(plan.grid.contribution(a, b), dtype=object) for a, b in zip(rows, y, strict=True)], axis=0)
    exact = st.release_total(plan, list(total))
    Z = rows / np.linalg.norm(rows, axis=2, keepdims=True) @ plan.transform
    S = np.einsum("mik,mir->mkr", np.eye(3)[y] - 1 / 3, Z)
    expected = (S / np.linalg.norm(S.reshape(2000, -1), axis=1)[:, None, None]).mean(axis=0)
    assert np.allclose(exact.T, expected, atol=1e-6)
    released = st.release_sum(list(total), plan, SimulationRandomness(4))
    assert released.private
    assert not np.array_equal(released.T, exact.T)
    W = st.fit_statistic(released)
    assert (np.argmax(X[:300] @ W.T, axis=1) == labels[:300]).mean() > 0.8
    assert (
        plan.grid.digest
        != st.plan_statistic(generator.normal(size=(50, 4)), 3, 9, epsilon=1.0, source="own-data").grid.digest
    )


@pytest.mark.parametrize("classes", [2, 3])
def test_whitened_is_the_mean_of_unit_classifiers_trained_in_the_coordinates(classes):
    """Against scikit-learn's logistic regression, a party at a time; and other parties make another round."""
    X, labels, _, _ = problem(classes, 1, samples=700)
    plan = st.plan_statistic(X[:300], classes, 4, epsilon=1.0, source="whitened")
    assert plan.event.name == "whitened average"
    total, expected = np.zeros(plan.dimension, dtype=object), 0.0
    for rows, y in zip(np.split(X[300:], 4), np.split(labels[300:], 4), strict=True):
        Z = rows / np.linalg.norm(rows, axis=1, keepdims=True) @ plan.transform
        solver = LogisticRegression(C=1 / (WHITENED_RIDGE * len(Z)), fit_intercept=False, tol=1e-10, max_iter=5000)
        W = solver.fit(Z, y).coef_
        W = np.concatenate([-W, W]) if classes == 2 else W
        W -= W.mean(axis=0)
        expected = expected + W / np.linalg.norm(W) / 4
        total += np.array(own_vector(plan.grid, rows, y), dtype=object)
    assert np.allclose(st.release_total(plan, list(total)).T, expected, atol=1e-5)
    other = st.plan_statistic(X[:300], classes, 4, epsilon=1.0, source="own-data").grid
    assert other.digest != plan.grid.digest
    with pytest.raises(InvalidParameter, match="takes a classifier"):
        plan.grid.contribution(X[:3], labels[:3])
    with pytest.raises(InvalidParameter, match="takes no classifier"):
        other.contribution(X[:3], labels[:3], lambda Z, y: Z)


@pytest.mark.parametrize("mechanism", ["discrete-laplace", "gaussian"])
def test_own_data_joint_noise_covers_the_ball(mechanism):
    plan = st.plan_statistic(problem(3, 1)[0], 3, 40, epsilon=2.0, mechanism=mechanism, joint=True, source="own-data")
    if isinstance(plan.mechanism, DiscreteLaplace):
        assert float(plan.mechanism.scale_units) >= 2 * 2**24 * math.sqrt(plan.dimension) / 2.0 * (1 - 1e-9)
    else:
        assert isinstance(plan.mechanism, Skellam)
        assert float(plan.mechanism.variance) >= 4 * 2.0**48 / 2.0**2  # more than one standard deviation a diameter
    assert plan.event.epsilon == 2.0


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        ([[1.0, 2.0]], [0]),
        ([[1.0, 2, 3, 4]], [3]),
        ([[1.0, 2, 3, 4]], [0.5]),
        ([[math.nan, 2, 3, 4]], [0]),
        ([1.0], [0]),
    ],
)
def test_own_data_that_is_none(rows, labels):
    plan = st.plan_statistic(problem(3, 1)[0], 3, 7, epsilon=1.0, source="own-data")
    with pytest.raises(DataError):
        plan.grid.contribution(rows, labels)


def test_sensitivity_is_close_to_the_table():
    X = problem(4, 1)[0]
    plan = st.plan_statistic(X, 4, 50, epsilon=1.0)
    assert plan.sensitivity.value == pytest.approx(math.sqrt(2) / 50, rel=1e-3)
    assert st.plan_statistic(X[:, :2], 2, 50, epsilon=1.0).sensitivity.value == pytest.approx(
        math.sqrt(2) / 50, rel=1e-3
    )


def test_released_statistic_decodes_to_T():
    X, _, _, counts = problem(5, 20)
    plan = st.plan_statistic(X, 5, 20, epsilon=None)
    released = st.release_statistic(counts, plan)
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    T = (counts / 20 - 1 / 5).T @ (rows @ plan.transform) / len(X)
    assert np.allclose(released.T, T, atol=1e-4)
    assert np.abs(released.T.sum(axis=0)).max() < 1e-12
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


def test_simulated_noise_of_shares_has_the_energy_of_their_law():
    """A normal variable in the place of Skellam's: 6 standard deviations of the mean of 1800 squares."""
    X, _, _, counts = problem(3, 50)
    plan = st.plan_statistic(X, 3, 50, epsilon=0.5, delta=1e-6, mechanism="gaussian", joint=True)
    assert isinstance(plan.mechanism, Skellam)
    drawn = [st.simulate_release(counts, plan, np.random.default_rng(i)).T for i in range(300)]
    exact = st.release_statistic(counts, st.plan_statistic(X, 3, 50, epsilon=None, rank=plan.rank)).T
    noise = (np.array(drawn) - exact) / plan.unit
    assert (noise**2).sum() / (300 * plan.dimension) == pytest.approx(float(plan.mechanism.variance), rel=0.2)


def test_a_private_classifier_is_useful_and_invariant_to_the_features_scale():
    X, labels, _, counts = problem(3, 2000, samples=400)
    plan = st.plan_statistic(X, 3, 2000, epsilon=1.0)
    W = st.fit_statistic(st.release_statistic(counts, plan, SimulationRandomness(2)))
    assert (np.argmax(X @ W.T, axis=1) == labels).mean() > 0.8
    other = st.plan_statistic(X * 2.0**-4, 3, 2000, epsilon=1.0)
    assert np.array_equal(other.grid.points, plan.grid.points)
    assert other.mechanism == plan.mechanism


def test_rows_of_another_precision_are_the_same_rows():
    X = problem(3, 50)[0].astype(np.float32)
    narrow, wide = (st.plan_statistic(rows, 3, 50, epsilon=1.0) for rows in (X, X.astype(np.float64)))
    assert narrow.grid.digest == wide.grid.digest
    assert np.array_equal(narrow.transform, wide.transform)


def test_rank_rule():
    """More noise, fewer coordinates; a function of public numbers alone; never more than a tenth of the rows."""
    ranks = [st.choose_rank(50, 6, 1000, e, 1e-6, "spherical-laplace") for e in (10, 3, 1, 0.3, 0.1)]
    assert ranks == sorted(ranks, reverse=True)
    assert ranks[0] == 50
    assert ranks[-1] == 5
    assert st.choose_rank(50, 2, 1000, 0.01, 1e-6, "gaussian") == 3
    assert st.choose_rank(3, 6, 1000, 0.01, 1e-6, "gaussian") == 3
    assert st.choose_rank(50, 6, 1000, 1.0, 1e-6, "gaussian") > st.choose_rank(
        50, 6, 1000, 1.0, 1e-6, "discrete-laplace"
    )
    X = np.random.default_rng(0).normal(size=(60, 20))
    assert st.plan_statistic(X, 3, 10**6, epsilon=10.0).rank == 6
    assert st.plan_statistic(X[:9], 3, 10, epsilon=10.0).rank == 1


def test_the_student_is_a_discriminant_of_the_teacher_s_labels():
    """One lesson against the definition on raw rows."""
    X, _, _, counts = problem(4, 1000, samples=600)
    plan = st.plan_statistic(X, 4, 1000, epsilon=0.5, rank=3)
    W = st.release_statistic(counts, plan, SimulationRandomness(3)).T @ plan.transform.T
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    teacher, student = (rows @ W.T).argmax(axis=1), (rows @ plan.student.refit(W).T).argmax(axis=1)
    means = np.stack([rows[teacher == k].mean(axis=0) for k in range(4)])
    within = rows.T @ rows / 600 - 0.8 * sum(np.mean(teacher == k) * np.outer(means[k], means[k]) for k in range(4))
    assert np.mean(student == (rows @ np.linalg.solve(within, means.T)).argmax(axis=1)) > 0.97


def test_the_student_learns_where_classes_are_clusters_and_declines_where_they_are_not():
    """Noise at half the energy of the statistic, 40 draws: clusters are learned, halves of one cloud are left alone."""
    generator = np.random.default_rng(8)
    centres = 4 * np.linalg.qr(generator.normal(size=(12, 12)))[0][:3]
    y = generator.integers(3, size=900)
    clusters = centres[y] + generator.normal(size=(900, 12))
    # A long cloud; the classes are told apart by a short direction across it.
    cloud = generator.normal(size=(900, 12)) * np.array([6.0] + [1.0] * 11) + 2
    for X, labels, learns in ((clusters, y, True), (cloud, (cloud[:, 5] > cloud[:, 6]).astype(int), False)):
        classes = int(labels.max()) + 1
        plan = st.plan_statistic(X, classes, 10, epsilon=1.0)
        rows = st._public_rows(X)
        T = (np.eye(classes)[labels] - 1 / classes).T @ (rows @ plan.transform) / len(X)
        T -= T.mean(axis=0)
        noise, right, plain = float((T**2).sum()), [], []
        for _ in range(40):
            noisy = T + generator.normal(size=T.shape) * math.sqrt(noise / T.size)
            first = noisy @ plan.transform.T
            taught = plan.student.learn(noisy, plan.transform, noise)
            right.append(np.mean((rows @ taught.T).argmax(axis=1) == labels))
            plain.append(np.mean((rows @ first.T).argmax(axis=1) == labels))
        if learns:
            assert np.mean(right) > np.mean(plain) + 0.05
        else:
            assert np.mean(right) > np.mean(plain) - 0.02


def test_two_classes_are_not_trained_again():
    X, _, _, counts = problem(2, 200, samples=400)
    released = st.release_statistic(counts, st.plan_statistic(X, 2, 200, epsilon=1.0), SimulationRandomness(3))
    assert np.allclose(st.fit_statistic(released), (released.T[1] - released.T[0]) @ released.plan.transform.T)


def test_the_quieter_noise_is_pure_in_few_dimensions_only():
    X = np.random.default_rng(1).normal(size=(2000, 40))
    assert st.quieter_noise(X, 2, 100, epsilon=0.3, delta=1e-6) == "spherical-laplace"
    assert st.quieter_noise(X, 2, 100, epsilon=0.3, delta=1e-6, joint=True) == "discrete-laplace"
    assert st.quieter_noise(X, 10, 1000, epsilon=1.0, delta=1e-6) == "gaussian"
    assert st.quieter_noise(X, 2, 100, epsilon=0.3, delta=1e-2) == "gaussian"  # a larger delta, a smaller sigma


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
    with pytest.raises(InvalidParameter, match="source"):
        plan(source="gossip")
    with pytest.raises(InvalidParameter, match="own rows"):
        st.release_statistic(counts, plan(source="own-data"))
    with pytest.raises(InvalidParameter, match="shares"):
        plan(joint=True)
    with pytest.raises(DataError, match="independent directions"):
        plan(rank=5)
    with pytest.raises(DataError, match="the same"):
        st.plan_statistic(np.ones((5, 2)), 2, 10, epsilon=1.0)
    deficient = np.outer(np.arange(1.0, 9.0), [1.0, 2.0, 3.0]) / 40
    with pytest.raises(DataError, match="lower the rank"):
        st.plan_statistic(deficient, 2, 10, epsilon=1.0, rank=3)
    for source in st.SOURCE_OF.values():
        with pytest.raises(GridTooCoarseError, match="smaller epsilon"):
            st.plan_statistic(X, 3, 10**9, epsilon=1.0, source=source)
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
