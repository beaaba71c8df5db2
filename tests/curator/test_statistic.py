"""The statistic release: exact integers, a certified sensitivity, post-processing, rules that see nothing private."""

import math

import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.linear_model import LogisticRegression

from benchmarks.splits import LAWS, SHAPES, bias
from psephos.curator import statistic as st
from psephos.curator.signal import noise_energy
from psephos.parties.statistic import own_vector
from psephos.parties.training import WHITENED_RIDGE
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.own_data import contrast_basis
from psephos.protocol.grids.statistic import StatisticGrid
from psephos.protocol.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, RoundedGaussian, SphericalLaplace
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
    total = [sum(column) for column in zip(*(plan.grid.contribution(c) for c in choices), strict=True)]
    assert total == plan.grid.total(counts)
    summed = st.fit_statistic(st.release_total(plan, total))
    assert np.array_equal(summed, st.fit_statistic(st.release_statistic(counts, plan)))


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


@pytest.mark.parametrize("mechanism", ["spherical-laplace", "discrete-laplace"])
@pytest.mark.parametrize("source", ["own-data", "whitened"])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_the_own_data_sensitivity_two_over_m_holds_and_is_attained(classes, source, mechanism):
    """Any rows, any labels, any number of them, none at all: attained over bound is at most 1, and 1 to rounding."""
    generator = np.random.default_rng(classes)
    X = problem(classes, 1, width=4)[0]
    plan = st.plan_statistic(X, classes, 7, epsilon=1.0, source=source, mechanism=mechanism)
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
    attained, other = (worst1, worst2) if mechanism == "discrete-laplace" else (worst2, worst1)
    assert 1 - 1e-6 < attained <= 1
    assert 0.2 < other <= 1
    assert all(plan.grid.minimum <= v <= plan.grid.maximum for vector in vectors for v in vector)


@pytest.mark.parametrize(("mechanism", "norm"), [("discrete-laplace", 1), ("gaussian", 2)])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_the_sensitivity_of_vote_directions_holds_and_is_attained(classes, mechanism, norm):
    """Any votes and any probabilities: constant, sure of one sample, of one class, at odds with all other parties."""
    generator = np.random.default_rng(classes)
    X = problem(classes, 1, samples=60)[0]
    plan = st.plan_statistic(X, classes, 7, epsilon=1.0, source="vote-directions", mechanism=mechanism, joint=True)
    assert plan.sensitivity.value == pytest.approx(2 / 7, rel=1e-6)
    assert plan.sensitivity.norm == f"l{norm}"
    assert plan.event.name == "vote directions"
    uniform = np.full((60, classes), 1 / classes)
    one = np.eye(classes)[generator.integers(classes, size=60)]
    sides = [one, uniform, *(uniform + size * (one - uniform) for size in (1e-300, 1e-12, 0.5))]
    sides += [uniform + sign * (one - uniform) / classes for sign in (1, -1)]  # opposite vectors
    sides += [generator.dirichlet(np.full(classes, a), size=60) for a in (0.1, 1.0, 10.0) * 5]
    side = np.sign(plan.grid.points[:, 0]) > 0
    sides += [np.eye(classes)[np.where(side == upper, 0, 1)] for upper in (True, False)]
    sides += [np.eye(classes)[np.full(60, k)] for k in range(classes)]
    vectors = [np.array(plan.grid.contribution(p), dtype=object) for p in sides]
    vectors += [np.array(plan.grid.contribution(generator.integers(classes, size=60)), dtype=object) for _ in range(9)]
    lengths = [np.abs(v).sum() if norm == 1 else math.sqrt(int((v**2).sum())) for v in vectors]
    assert max(lengths) <= 2**24
    changes = [a - b for a in vectors for b in vectors]
    moved = max(np.abs(c).sum() if norm == 1 else math.sqrt(int((c**2).sum())) for c in changes)
    bound = (plan.l1 if norm == 1 else plan.l2).value
    assert bound * (1 - 1e-6) < moved <= bound


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
    with pytest.raises(InvalidParameter, match="train"):
        plan.grid.contribution(X[:3], labels[:3])
    with pytest.raises(InvalidParameter, match="train"):
        other.contribution(X[:3], labels[:3], lambda Z, y: Z)


@pytest.mark.parametrize("mechanism", ["discrete-laplace", "gaussian"])
def test_own_data_joint_noise_covers_the_ball(mechanism):
    plan = st.plan_statistic(problem(3, 1)[0], 3, 40, epsilon=2.0, mechanism=mechanism, joint=True, source="own-data")
    if isinstance(plan.mechanism, DiscreteLaplace):
        assert plan.grid.norm == "l1"
        assert 2 * 2**24 / 2.0 <= float(plan.mechanism.scale_units) <= 2 * 2**24 / 2.0 * (1 + 1e-9)
    else:
        assert isinstance(plan.mechanism, DiscreteGaussian)
        assert float(plan.mechanism.variance) >= 4 * 2.0**48 / 2.0**2  # more than one standard deviation a diameter
    assert plan.event.epsilon == 2.0


@pytest.mark.parametrize("mechanism", st.MECHANISMS)
def test_noise_has_the_planned_energy(mechanism):
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


def cloud(rows, seed=8):
    """One long cloud (rows, 12); two classes are told apart by a short direction across it."""
    X = np.random.default_rng(seed).normal(size=(rows, 12)) * np.array([6.0] + [1.0] * 11) + 2
    return X, (X[:, 5] > X[:, 6]).astype(int)


def test_bad_input_is_refused_before_anything_is_released():
    X, _, _, counts = problem(3, 10)
    deficient = np.outer(np.arange(1.0, 9.0), [1.0, 2.0, 3.0]) / 40
    plan = lambda X=X, parties=10, **kw: st.plan_statistic(X, 3, parties, **{"epsilon": 1.0, **kw})  # noqa: E731
    for bad in (*({"epsilon": epsilon} for epsilon in (0.0, -1.0, math.nan, math.inf)), {"joint": True}):
        with pytest.raises(InvalidParameter):
            plan(**bad)
    for bad in ({"mechanism": "gaussian", "delta": 0.0}, {"mechanism": "uniform"}, {"source": "gossip"}):
        with pytest.raises(InvalidParameter):
            plan(**bad)
    nan = np.array([[math.nan, 1.0], [0.0, 1.0]])
    for bad in ({"rank": 5}, {"rank": 0}, {"X": np.ones((5, 2))}, {"X": deficient, "rank": 3}, {"X": nan}):
        with pytest.raises(DataError):
            plan(**bad)
    for source in st.SOURCE_OF.values():
        with pytest.raises(InvalidParameter):
            plan(parties=10**9, source=source)
    for wrong in (counts + 1, counts[:-1]):
        with pytest.raises(DataError):
            st.release_statistic(wrong, plan())
    with pytest.raises(InvalidParameter):
        st.release_statistic(counts, plan(source="own-data"))
    with pytest.raises(InvalidParameter):
        _ = plan(epsilon=None).event
    with pytest.raises(DataError):
        st.release_total(plan(), [0])


# -- by their definitions


def whitened(rows):
    """The eigenvectors of the rows' second moment over the roots of the moments, raised as Ledoit and Wolf say."""
    moments, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    share = ledoit_wolf_shrinkage(rows, assume_centered=True)
    raised = np.maximum(moments, (1 - share) * moments + share * moments.mean())
    largest_first = np.argsort(-moments)
    vectors = (
        vectors[:, largest_first] * np.sign(vectors[np.abs(vectors).argmax(axis=0), range(len(moments))])[largest_first]
    )
    return vectors / np.sqrt(raised[largest_first])


@pytest.mark.parametrize("samples", [15, 400])
def test_the_coordinates_are_whitened_principal_directions(samples):
    """Of few rows, where shrinking shows, and of many; a direction that no row has is left out."""
    X = np.random.default_rng(3).normal(size=(samples, 6)) * [3.0, 1.0, 1.0, 0.5, 0.1, 0.0] + 0.2
    X[:, 5] = X[:, 0] - X[:, 1]
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert st.plan_statistic(X, 2, 10, epsilon=None, rank=5).transform == pytest.approx(whitened(rows)[:, :5])
    with pytest.raises(DataError):
        st.plan_statistic(X, 2, 10, epsilon=None, rank=6)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("law", LAWS)
def test_a_split_release_judges_nearly_without_bias(shape, law):
    """Within 0.25 standard deviations of the noise; one vector for all, as it was, is off by up to 1.4."""
    dimension = shape[0] * shape[1]
    vectors = list(st.public_splits(shape, laplace=law == "discrete laplace").reshape(-1, dimension))
    assert abs(bias(vectors, law, dimension, samples=4000)) < 0.25
    assert len(vectors) == 4
    assert np.mean(np.square(vectors)) == pytest.approx(1.0)


def test_the_splits_are_the_same_everywhere():
    gaussian, laplace = (st.public_splits((2, 3), laplace=law)[0].ravel()[:2] for law in (False, True))
    np.testing.assert_allclose(gaussian, [-1.7577189291498487, 0.34047376822166736], rtol=1e-9)
    np.testing.assert_allclose(laplace, [-1.9027322730491503, 0.23336932093748902], rtol=1e-9)


@pytest.mark.parametrize("ballots", [1, 13, 19, 20])
@pytest.mark.parametrize("mechanism", [*st.MECHANISMS, "joint gaussian", "joint discrete-laplace"])
def test_the_noise_and_sensitivity_of_a_mean_over_present_parties(mechanism, ballots):
    """The sum, its sensitivity and its noise are those of the plan; T is divided by the ballots."""
    X = problem(3, 20)[0]
    joint = mechanism in ("joint gaussian", "joint discrete-laplace")
    law = {"joint gaussian": "gaussian", "joint discrete-laplace": "discrete-laplace"}.get(mechanism, mechanism)
    plan = st.plan_statistic(X, 3, 20, epsilon=1.0, mechanism=law, source="own-data", joint=joint)
    few = st.for_ballots(st.with_joint_noise(plan, 8) if joint else plan, ballots)
    assert (few.mechanism, few.l1, few.l2, few.epsilon) == (plan.mechanism, plan.l1, plan.l2, plan.epsilon)
    assert few.event == plan.event
    assert few.sensitivity.value == pytest.approx(plan.sensitivity.value * 20 / ballots)
    # The variance of the law in lattice units, times the unit's square, is the energy that the fit counts on.
    shares = ballots / 8 if joint else 1.0
    of_law, of_ballots = noise_energy(plan.mechanism, plan.unit), noise_energy(plan.mechanism, few.unit, shares)
    assert few.noise / plan.noise == pytest.approx(of_ballots.mean / of_law.mean, rel=1e-9)
    assert plan.noise == pytest.approx(of_law.mean, rel=1e-5)
    total = [1000 * k for k in range(plan.dimension)]
    T = st.release_total(plan, total).T
    np.testing.assert_allclose(st.release_total(few, total).T, T * 20 / ballots, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("ballots", [0, 21])
def test_a_mean_over_no_party_or_too_many_is_refused(ballots):
    plan = st.plan_statistic(problem(3, 20)[0], 3, 20, epsilon=1.0)
    with pytest.raises(InvalidParameter):
        st.for_ballots(plan, ballots)


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_a_grids_sensitivity_is_the_longest_contrast_times_its_points(classes):
    """In L2 by singular values, in L1 the smaller of two bounds: both occur."""
    generator, smaller = np.random.default_rng(classes), set()
    contrast = np.rint(np.random.default_rng(0).normal(size=(classes - 1, classes)) * 100).astype(np.int64)
    for points in (generator.integers(-50, 50, size=(9, 3)), np.tile(generator.integers(1, 50, size=(1, 3)), (9, 1))):
        l1, l2 = st.grid_sensitivity(StatisticGrid(points, contrast))
        steps = [contrast[:, a] - contrast[:, b] for a in range(classes) for b in range(classes) if a != b]
        exact = max(np.linalg.norm(step) for step in steps) * 3 * np.linalg.norm(points.astype(float), 2)
        direct, spread = max(np.abs(step).sum() for step in steps) * np.abs(points).sum(), math.sqrt(3 * classes - 3)
        assert l1.value == pytest.approx(min(direct, spread * exact), rel=1e-8)
        assert l2.value == pytest.approx(min(exact, l1.value), rel=1e-8)
        assert l2.value >= min(exact, direct) * (1 - 1e-14)
        smaller.add(direct < spread * exact)
    assert smaller


def test_agreed_coordinates_are_used_unchanged():
    X = problem(3, 1)[0]
    agreed = np.random.default_rng(0).normal(size=(4, 2))
    plan = st.plan_statistic(X, 3, 10, epsilon=1.0, transform=agreed)
    assert np.array_equal(plan.transform, agreed)
    assert (plan.rank, plan.dimension, plan.classes, plan.parties) == (2, 4, 3, 10)
    assert plan.self_training.transform.shape == (4, 4)
    for wrong in (agreed[0], agreed[:3], np.zeros((5, 2))):
        with pytest.raises(DataError, match="transform"):
            st.plan_statistic(X, 3, 10, epsilon=1.0, transform=wrong)


@pytest.mark.parametrize("source", st.SOURCE_OF.values())
def test_a_plan_by_hand(source):
    """Points in units of 2^-24 of the power of two above 1 or the largest of them, contrasts of 2^-16."""
    X = problem(3, 1)[0]
    plan = st.plan_statistic(X, 3, 10, epsilon=1.0, source=source, rank=2, delta=0.0)
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert (plan.source, plan.epsilon, plan.delta, plan.joint) == (source, 1.0, 0.0, False)
    if source == "votes":
        Z = rows @ plan.transform
        pitch = 2.0 ** (min(0, math.frexp(np.abs(Z).max())[1]) - 24)
        assert np.abs(plan.grid.points - Z / pitch).max() <= 0.5 + 1e-6
        assert np.abs(plan.grid.contrast - contrast_basis(3) * 2**16).max() <= 0.5
        assert plan.unit == pitch / (2**16 * len(X) * 10)
    else:
        assert plan.unit == 1 / (2**24 * 10)
    assert [bound.value for bound in st.grid_sensitivity(plan.grid)] <= [plan.l1.value, plan.l2.value]
    assert (plan.l1.norm, plan.l2.norm) == ("l1", "l2")
    assert plan.sensitivity.value == plan.l2.value * plan.unit
    assert plan.mechanism == SphericalLaplace.for_epsilon(plan.l2.value, 1.0, 4, 1.0)
    assert plan.noise == pytest.approx(4 * 5 * plan.sensitivity.value**2)
    discrete = st.plan_statistic(X, 3, 10, epsilon=1.0, source=source, rank=2, mechanism="discrete-laplace")
    # Directions are then of L1 norm 1, so that the sensitivity is the diameter of that ball in either norm.
    l1 = plan.l1.value if source == "votes" else plan.l2.value
    assert (discrete.l1.value, discrete.l2.value) == (l1, plan.l2.value)
    assert discrete.mechanism == DiscreteLaplace.for_epsilon(l1, 1.0, 4, 1.0)
    assert discrete.sensitivity.value == l1 * plan.unit
    assert discrete.noise == pytest.approx(4 * 2 * discrete.sensitivity.value**2)
    gaussian = st.plan_statistic(X, 3, 10, epsilon=1.0, source=source, rank=2, mechanism="gaussian")
    assert gaussian.mechanism == RoundedGaussian.for_epsilon_delta(plan.l2.value, 1.0, 1e-6, 4, 1.0)
    assert gaussian.delta == 1e-6
    bare = st.plan_statistic(X, 3, 10, epsilon=None, source=source)
    assert (bare.mechanism, bare.noise, bare.epsilon, bare.rank) == (None, 0.0, None, 4)


@pytest.mark.parametrize("epsilon", [0.25, 4.0])
def test_a_grid_is_too_coarse_when_a_pitch_is_more_than_the_noise(epsilon):
    """Own data's pitch is 2^-24 of a vector, its noise about 2/(M epsilon): they are alike at M = 2^25/epsilon."""
    X = problem(2, 1)[0]
    most = int(2**24 / epsilon)
    assert st.plan_statistic(X, 2, most, epsilon=epsilon, source="own-data").parties == most
    with pytest.raises(InvalidParameter):
        st.plan_statistic(X, 2, 4 * most, epsilon=epsilon, source="own-data")
    assert st.plan_statistic(X, 2, 4 * most, epsilon=None, source="own-data").parties == 4 * most


# -- wiring


def test_the_energy_of_noise_in_shares_and_of_absent_parties():
    """Twelve shares of a law that eight make up; of key holders' noise the whole energy is divided by the ballots."""
    X = problem(3, 20)[0]
    plan = st.plan_statistic(X, 3, 20, epsilon=1.0, mechanism="discrete-laplace", joint=True)
    assert st.with_joint_noise(plan, 8, 12).noise == pytest.approx(plan.noise * 12 / 8)
    for holder_noise, share in ((False, 20 / 13), (True, (20 / 13) ** 2)):
        few = st.for_ballots(plan, 13, holder_noise=holder_noise)
        assert few.noise == pytest.approx(plan.noise * share)
        assert few.parties == 13


def test_a_direction_has_the_sign_of_its_first_largest_entry():
    """Entries that are alike but for rounding are the same: another machine may round them the other way."""
    alike = 1 + 2.0**-40
    columns = np.array([[0.5, -0.5, 0.1, -0.9], [-0.5 * alike, 0.5 * alike, -0.8, 0.2], [0.1, 0.2, 0.8 * alike, 0.3]])
    assert st.direction_signs(columns).tolist() == [1.0, -1.0, -1.0, -1.0]


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_the_fitted_classifier_is_self_trained_where_that_is_accepted_and_filtered_elsewhere(classes):
    """Of clusters it is accepted, of a release that is mostly noise it is not; it never has fewer right labels."""
    X, labels, _, counts = problem(classes, 60, samples=300)
    accepted = []
    for epsilon in (None, 0.3, 2.0, 8.0):
        plan = st.plan_statistic(X, classes, 60, epsilon=epsilon)
        released = st.release_statistic(counts, plan, SimulationRandomness(5))
        noise = 0.0 if epsilon is None else plan.noise
        trained = plan.self_training.learn(released.T, plan.transform, noise) if classes > 2 else None
        filtered = st.wiener_filter(released.T, noise) @ plan.transform.T
        expected = filtered if trained is None else trained
        fitted = st.fit_statistic(released)
        assert np.array_equal(fitted, expected[1] - expected[0] if classes == 2 else expected)
        if trained is not None and epsilon in (2.0, 8.0):
            right, before = (np.mean(np.argmax(X @ W.T, axis=1) == labels) for W in (trained, filtered))
            assert right > before - 0.05
        accepted.append(trained is not None)
    assert accepted[0] == (classes > 2)


def test_self_training_on_one_cloud_is_accepted_or_rejected_by_the_noise():
    """The same release, said to have more and more noise in it; a release of zeros is no obstacle."""
    X, labels = cloud(400)
    plan = st.plan_statistic(X, 2, 500, epsilon=1.0, rank=6)
    T = (np.eye(2)[labels] - 1 / 2).T @ (st.unit_rows(X) @ plan.transform) / 400
    noise = np.random.default_rng(3).normal(size=T.shape)
    noisy = T + 0.8 * np.linalg.norm(T) * (noise - noise.mean(axis=0))
    energies = np.geomspace(1e-3, 10, 25) * np.sum(T**2)
    verdicts = {plan.self_training.learn(noisy, plan.transform, energy) is not None for energy in energies}
    assert verdicts == {True, False}
    assert np.isfinite(plan.self_training.learn(0 * T, plan.transform, 1.0)).all()
