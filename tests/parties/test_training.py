"""Batched local training against scipy and scikit-learn, one party at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from scipy.special import lambertw, logsumexp
from sklearn.linear_model import LogisticRegression

from psephos.parties import training
from psephos.parties.training import train_parties, train_whitened, votes, votes_in_blocks
from psephos.protocol.errors import ConvergenceError, DataError, InvalidParameter, NormError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def population(sizes: list[int], d: int, classes: int, seed: int = 0) -> tuple[Floats, Integers, list[int]]:
    """Parties with samples in the unit ball and labels that depend on them."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(sum(sizes), d))
    X /= 1.0001 * np.linalg.norm(X, axis=1, keepdims=True)
    X *= generator.random((len(X), 1))
    y = (X @ generator.normal(size=(d, classes)) + 0.2 * generator.normal(size=(len(X), classes))).argmax(axis=1)
    return X, y, sizes


def minimiser(X: Floats, y: Integers, classes: int, lam: float) -> Floats:
    """One party's, by scipy, from the objective as the papers write it."""
    n, d = X.shape

    def softmax_risk(w: Floats) -> tuple[float, Floats]:
        W = w.reshape(classes, d)
        Z = X @ W.T
        P = np.exp(Z - logsumexp(Z, axis=1, keepdims=True))
        P[np.arange(n), y] -= 1
        risk = (logsumexp(Z, axis=1) - Z[np.arange(n), y]).mean() + lam / 2 * w @ w
        return risk, (P.T @ X / n + lam * W).ravel()

    def logistic_risk(w: Floats) -> tuple[float, Floats]:
        t = (2 * y - 1) * (X @ w)
        slope = -(2 * y - 1) * np.exp(-np.logaddexp(0, t))
        return np.logaddexp(0, -t).mean() + lam / 2 * w @ w, X.T @ slope / n + lam * w

    risk, size = (logistic_risk, d) if classes == 2 else (softmax_risk, classes * d)
    minimum = minimize(risk, np.zeros(size), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000}).x
    assert np.linalg.norm(risk(minimum)[1]) < 1e-7
    return minimum if classes == 2 else minimum.reshape(classes, d)


def gradient_norms(W: Floats, X: Floats, y: Integers, sizes: list[int], *, classes: int, lam: float) -> Floats:
    """Of each party's gradient at its row of W, one party at a time."""
    norms, start = [], 0
    for w, size in zip(W, sizes, strict=True):
        rows, labels = X[start : start + size], y[start : start + size]
        if classes == 2:
            gradient = rows.T @ (1 / (1 + np.exp(-rows @ w)) - labels) / size + lam * w
        else:
            Z = rows @ w.T
            P = np.exp(Z - logsumexp(Z, axis=1, keepdims=True)) - np.eye(classes)[labels]
            gradient = P.T @ rows / size + lam * w
        norms.append(np.linalg.norm(gradient))
        start += size
    return np.array(norms)


@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize(("sizes", "d"), [([4, 4, 4], 9), ([12, 12], 5), ([1, 7, 30, 2, 2, 7], 6)])
@pytest.mark.parametrize("lam", [1.0, 1e-3])
def test_agrees_with_scipy(sizes: list[int], d: int, classes: int, lam: float) -> None:
    X, y, _ = population(sizes, d, classes)
    W = train_parties(X, y, sizes, classes=classes, lam=lam)
    assert W.shape == ((len(sizes), d) if classes == 2 else (len(sizes), classes, d))
    start = 0
    for size, ours in zip(sizes, W, strict=True):
        theirs = minimiser(X[start : start + size], y[start : start + size], classes, lam)
        # Both are within gradient norm / lam of the minimiser.
        assert np.linalg.norm(ours - theirs) < 1e-8 / lam + 1e-7 / lam
        start += size


def test_agrees_with_scikit_learn() -> None:
    X, y, sizes = population([40], 5, 3)
    lam = 1e-2
    oracle = LogisticRegression(C=1 / (lam * 40), fit_intercept=False, tol=1e-10, max_iter=5000).fit(X, y)
    assert set(y) == {0, 1, 2}
    assert np.allclose(train_parties(X, y, sizes, classes=3, lam=lam)[0], oracle.coef_, atol=1e-6)
    binary = LogisticRegression(C=1 / (lam * 40), fit_intercept=False, tol=1e-10, max_iter=5000).fit(X, y > 0)
    assert np.allclose(train_parties(X, (y > 0).astype(int), sizes, classes=2, lam=lam)[0], binary.coef_[0], atol=1e-6)


@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=12),
    d=st.integers(1, 9),
    classes=st.integers(2, 5),
    lam=st.sampled_from([10.0, 1e-1, 1e-4, 1e-6]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=100, deadline=None)
def test_gradient_vanishes(sizes: list[int], d: int, classes: int, lam: float, seed: int) -> None:
    X, y, _ = population(sizes, d, classes, seed)
    W = train_parties(X, y, sizes, classes=classes, lam=lam)
    assert gradient_norms(W, X, y, sizes, classes=classes, lam=lam).max() <= 1e-8
    if classes > 2:
        # Stationarity: the rows of W sum to 0, up to the gradient left over.
        assert np.abs(W.sum(axis=1)).max() <= 1e-7 / lam


def test_gradient_norms_see_a_wrong_minimiser() -> None:
    X, y, sizes = population([5, 5], 4, 3)
    W = train_parties(X, y, sizes, classes=3, lam=0.1)
    W[1, 0, 0] += 1e-3
    first, second = gradient_norms(W, X, y, sizes, classes=3, lam=0.1)
    assert first <= 1e-8
    assert second > 1e-5


@pytest.mark.parametrize("classes", [2, 6])
@pytest.mark.parametrize("lam", [1e-1, 1e-4])
def test_a_party_with_a_single_class(classes: int, lam: float) -> None:
    X, _, sizes = population([6, 6], 8, classes)
    y = np.repeat([0, classes - 1], 6)
    W = train_parties(X, y, sizes, classes=classes, lam=lam)
    assert np.isfinite(W).all()
    assert gradient_norms(W, X, y, sizes, classes=classes, lam=lam).max() <= 1e-8
    bound = np.sqrt(lambertw((classes - 1) / np.e).real / lam)
    assert np.linalg.norm(W.reshape(2, -1), axis=1).max() <= bound


def test_longest_possible_minimiser_meets_its_bound() -> None:
    """R(lambda) (docs/design.md, section 4): one sample of norm 1, one class, is the longest there is for K = 2."""
    for lam in (1.0, 1e-2, 1e-4):
        w = train_parties(np.ones((1, 1)), np.array([1]), [1], classes=2, lam=lam)[0, 0]
        assert w <= np.sqrt(lambertw(1 / np.e).real / lam)


def test_parties_do_not_depend_on_each_other() -> None:
    sizes = [3, 17, 4, 4, 9, 1, 3, 3]
    X, y, _ = population(sizes, 6, 3)
    together = train_parties(X, y, sizes, classes=3, lam=1e-3)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    for j, size in enumerate(sizes):
        rows = slice(starts[j], starts[j + 1])
        alone = train_parties(X[rows], y[rows], [size], classes=3, lam=1e-3)
        assert np.allclose(together[j], alone[0], atol=2e-8 / 1e-3)


def test_conjugate_gradients_find_the_same_minimiser() -> None:
    """Columns of zeros change no minimiser, but beyond 1500 unknowns no system is factorised, and a batch is full with
    one party.
    """
    X, y, sizes = population([380, 379], 8, 4)
    direct = train_parties(X, y, sizes, classes=4, lam=1e-4, tolerance=1e-10)
    wide = np.pad(X, ((0, 0), (0, 380 - 8)))
    inexact = train_parties(wide, y, sizes, classes=4, lam=1e-4, tolerance=1e-10)
    assert gradient_norms(inexact, wide, y, sizes, classes=4, lam=1e-4).max() <= 1e-10
    assert not np.array_equal(direct, inexact[:, :, :8])
    assert np.allclose(direct, inexact[:, :, :8], atol=2e-10 / 1e-4)


@pytest.mark.parametrize(
    ("features", "unused"), [(375, "_conjugate_step"), (376, "_direct_step")], ids=["1500 unknowns", "1504"]
)
def test_systems_of_more_than_1500_unknowns_are_not_factorised(
    features: int, unused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four classes of as many samples as features: the memory of a system grows with the square of its unknowns."""
    X, y, sizes = population([380], 8, 4)
    wide = np.pad(X, ((0, 0), (0, features - 8)))

    def fail(*arguments: object) -> Floats:
        raise AssertionError(f"{unused} was called")

    monkeypatch.setattr(training, unused, fail)
    W = train_parties(wide, y, sizes, classes=4, lam=1e-1)
    assert gradient_norms(W, wide, y, sizes, classes=4, lam=1e-1).max() <= 1e-8


def test_norms_of_single_precision_rows_are_computed_in_double_precision() -> None:
    """Rows of norm 1, rounded to float32: a sum of squares in float32 would refuse rows inside, and accept others."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(400, 50))
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    exact, rough = (np.einsum("ij,ij->i", X, X, dtype=dtype) for dtype in (np.float64, np.float32))
    outside = exact > 1 + 1e-9
    assert (outside & (rough <= 1)).any()
    assert (~outside & (rough > 1)).any()
    for rows, refused in ((X[outside & (rough <= 1)], True), (X[~outside & (rough > 1)], False)):
        y, sizes = np.arange(len(rows)) % 2, [len(rows)]
        if refused:
            with pytest.raises(NormError):
                train_parties(rows, y, sizes, classes=2, lam=1.0)
        else:
            train_parties(rows, y, sizes, classes=2, lam=1.0)


def test_repeated_and_zero_rows() -> None:
    X = np.zeros((12, 20))
    X[:6, 3] = 1.0
    y = np.array([0, 1, 1, 1, 1, 1, 0, 1, 0, 1, 0, 1])
    W = train_parties(X, y, [6, 6], classes=2, lam=1e-4)
    assert gradient_norms(W, X, y, [6, 6], classes=2, lam=1e-4).max() <= 1e-8
    assert not W[1].any()


def test_single_precision_samples_are_trained_in_double() -> None:
    X, y, sizes = population([5, 5], 4, 2)
    X = X.astype(np.float32)
    W = train_parties(X, y, sizes, classes=2, lam=1e-3)
    assert W.dtype == np.float64
    assert gradient_norms(W, X.astype(np.float64), y, sizes, classes=2, lam=1e-3).max() <= 1e-8


# -- one step of Newton's method on a batch, against each party by itself


def batch(classes: int) -> tuple[Floats, Floats, Floats]:
    """Three parties of 5 samples each, stacked."""
    X, y, sizes = population([5, 5, 5], 3, classes, seed=4)
    starts = np.array([0, 5, 10])
    stacked, targets, weights = training._stack(X, y, starts, 5, 1 if classes == 2 else classes)
    for at, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        assert np.array_equal(stacked[at], X[start : start + size])
        assert np.array_equal(targets[at, :, -1], y[start : start + size] == classes - 1)
        assert weights[at].tolist() == [1 / size] * size
    return stacked, targets, weights


def risk(X: Floats, targets: Floats, weights: Floats, lam: float, V: Floats) -> float:
    """Of one party, with coefficients (C, d)."""
    Z = X @ V.T
    if len(V) == 1:
        losses = np.logaddexp(0, Z[:, 0]) - targets[:, 0] * Z[:, 0]
    else:
        losses = logsumexp(Z, axis=1) - (targets * Z).sum(axis=1)
    return float(weights @ losses + lam / 2 * (V**2).sum())


@pytest.mark.parametrize("classes", [2, 3])
def test_steps_are_halved_by_armijos_rule(classes: int) -> None:
    """Armijo's rule for each party by itself: the first of 1, 1/2, 1/4, ... at which it holds."""
    X, targets, weights = batch(classes)
    lam, columns = 0.05, targets.shape[2]
    V = np.random.default_rng(5).normal(size=(3, columns, 3))
    scores = X @ V.transpose(0, 2, 1)
    gradient = training._gradient(X, targets, weights, lam, V, scores)
    # The second party's step leads down by half of what the rule asks.
    of, slope = (X[1], targets[1], weights[1], lam), float((gradient[1] ** 2).sum())
    least = brentq(lambda t: risk(*of, V[1] - t * gradient[1]) - risk(*of, V[1]) + 0.5e-4 * t * slope, 1.0, 1e3)
    step = -gradient * np.array([0.1, least, 1e4])[:, None, None]
    along = X @ step.transpose(0, 2, 1)
    lengths = training._backtrack(targets, weights, lam, V, scores, step, along, gradient)
    values = training._values(targets, weights, lam, V, scores)
    for at in range(3):
        of = X[at], targets[at], weights[at], lam
        before, slope = risk(*of, V[at]), float((gradient[at] * step[at]).sum())
        assert values[at] == pytest.approx(before)

        def falls(length: float) -> bool:
            return risk(*of, V[at] + length * step[at]) <= before + 1e-4 * length * slope  # noqa: B023

        expected = next(0.5**k for k in range(60) if falls(0.5**k))
        assert lengths[at] == expected
    assert lengths[0] == 1 > lengths[1] > lengths[2]


@pytest.mark.parametrize("classes", [2, 3])
def test_both_solvers_solve_the_newton_system(classes: int) -> None:
    """One exactly, one up to the forcing term; the Hessian is that of the objective, by differences of its gradient."""
    X, targets, weights = batch(classes)
    lam, columns = 0.05, targets.shape[2]
    V = np.random.default_rng(6).normal(size=(3, columns, 3))

    def gradient_at(V: Floats) -> Floats:
        return training._gradient(X, targets, weights, lam, V, X @ V.transpose(0, 2, 1))

    P, gradient = training._probabilities(X @ V.transpose(0, 2, 1)), gradient_at(V)
    assert np.allclose(P.sum(axis=2), 1) or columns == 1
    for find, exact in ((training._direct_step, True), (training._conjugate_step, False)):
        step = find(X, P, weights, lam, gradient)
        curved = (gradient_at(V + 1e-5 * step) - gradient_at(V - 1e-5 * step)) / 2e-5
        for at in range(3):
            left, size = (float((each[at] ** 2).sum()) for each in (curved + gradient, gradient))
            assert left <= (1e-14 if exact else 1.01 * size * min(1e-4, np.sqrt(size)))


@given(
    sizes=st.lists(st.integers(1, 3000), min_size=1, max_size=40),
    features=st.sampled_from([1, 8, 600]),
    columns=st.sampled_from([1, 3, 40]),
)
def test_every_party_is_in_one_batch(sizes: list[int], features: int, columns: int) -> None:
    """Parties of one size together, nothing padded; no arrays larger than a batch's, but for one party."""
    counts, seen, previous = np.array(sizes), list[int](), 0
    for members in training._batches(counts, features, columns):
        size = sizes[members[0]]
        assert {sizes[j] for j in members} == {size}
        entries = max(size * features, size * columns**2, min(columns * min(size, features), 1500) ** 2)
        assert len(members) == 1 or len(members) * entries <= 1 << 22
        again = size in {sizes[j] for j in seen}
        assert not again or previous == max(1, (1 << 22) // entries), "the batches before are full"
        previous = len(members)
        seen += members.tolist()
    assert sorted(seen) == list(range(len(sizes)))


@given(
    sizes=st.lists(st.integers(1, 6), min_size=2, max_size=8),
    classes=st.sampled_from([2, 3]),
    lam=st.sampled_from([1e-6, 1e-2]),
    seed=st.integers(0, 1 << 16),
)
def test_a_party_is_bitwise_independent_of_the_others(sizes: list[int], classes: int, lam: float, seed: int) -> None:
    X, y, _ = population(sizes, 4, classes, seed=seed)
    together = train_parties(X, y, sizes, classes=classes, lam=lam)
    starts = np.cumsum([0, *sizes])
    for number, size in enumerate(sizes):
        own = slice(starts[number], starts[number] + size)
        alone = train_parties(X[own], y[own], [size], classes=classes, lam=lam)
        np.testing.assert_array_equal(together[number], alone[0])


def test_a_singular_system_of_one_party_changes_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The party whose Hessian cannot be factorised takes conjugate gradients; the others' steps stay bit for bit."""
    X, targets, weights = batch(3)
    V = np.random.default_rng(6).normal(size=(3, 3, 3))
    P = training._probabilities(X @ V.transpose(0, 2, 1))
    gradient = training._gradient(X, targets, weights, 0.05, V, X @ V.transpose(0, 2, 1))
    expected = training._direct_step(X, P, weights, 0.05, gradient)
    solve = np.linalg.solve

    def refuses_the_second(system: Floats, right: Floats) -> Floats:
        if any(np.array_equal(one.ravel(), gradient[1].ravel()) for one in right):
            raise np.linalg.LinAlgError
        return solve(system, right)

    monkeypatch.setattr(np.linalg, "solve", refuses_the_second)
    step = training._direct_step(X, P, weights, 0.05, gradient)
    np.testing.assert_array_equal(step[[0, 2]], expected[[0, 2]])
    at = slice(1, 2)
    np.testing.assert_array_equal(step[at], training._conjugate_step(X[at], P[at], weights[at], 0.05, gradient[at]))


# -- votes


@pytest.mark.parametrize("classes", [2, 5])
def test_votes(classes: int) -> None:
    generator = np.random.default_rng(0)
    W = generator.normal(size=(7, 4) if classes == 2 else (7, classes, 4))
    X = generator.normal(size=(11, 4))
    expected = [[int(w @ x > 0) if classes == 2 else int(np.argmax(w @ x)) for x in X] for w in W]
    assert votes(W, X).tolist() == expected
    assert votes(W, X).dtype == np.uint8
    blocks = list(votes_in_blocks(W, X, max_bytes=8 * (1 if classes == 2 else classes) * 11 * 3))
    assert [(parties.start, parties.stop) for parties, _ in blocks] == [(0, 3), (3, 6), (6, 7)]
    assert [len(block) for _, block in blocks] == [3, 3, 1]
    assert votes(W, X, max_bytes=1).tolist() == expected
    assert np.array_equal(np.concatenate([block for _, block in blocks]), expected)
    assert [block.shape for _, block in votes_in_blocks(W, X, max_bytes=1)] == [(1, 11)] * 7
    assert votes(W, X[:0]).shape == (7, 0)


def test_ties_go_to_the_lower_class() -> None:
    assert votes(np.zeros((1, 2)), np.ones((3, 2))).tolist() == [[0, 0, 0]]
    assert votes(np.array([[[0.0], [1.0], [1.0]]]), np.ones((1, 1))).tolist() == [[1]]


def test_votes_on_misshapen_input_are_refused() -> None:
    with pytest.raises(DataError):
        votes(np.ones((2, 3)), np.ones((4, 2)))
    with pytest.raises(DataError):
        votes(np.ones(3), np.ones((4, 3)))
    with pytest.raises(InvalidParameter):
        votes(np.ones((1, 257, 2)), np.ones((4, 2)))
    assert votes(np.arange(512.0).reshape(1, 256, 2), np.ones((1, 2))).tolist() == [[255]]
    with pytest.raises(DataError):
        votes(np.ones((1, 2)), np.ones(2))
    with pytest.raises(DataError):
        votes(np.ones((1, 1, 1, 2)), np.ones((1, 2)))
    with pytest.raises(DataError):
        votes(np.ones((1, 3, 1)), np.ones((4, 2)))


def test_limits_of_norms_and_tolerances() -> None:
    """The squared norm of a row may exceed 1 by 1e-9, the rounding of whoever scaled it; a gradient norm be 1e-12."""
    fine = {"classes": 2, "lam": 0.1}
    for square, accepted in ((1 + 0.9e-9, True), (1 + 1.1e-9, False)):
        rows = np.array([[np.sqrt(square)], [0.5]])
        if accepted:
            assert train_parties(rows, np.array([0, 1]), [1, 1], **fine).shape == (2, 1)  # type: ignore[arg-type]
        else:
            with pytest.raises(NormError):
                train_parties(rows, np.array([0, 1]), [1, 1], **fine)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter):
        train_parties(np.eye(2) / 2, np.array([0, 1]), [2], tolerance=0.99e-12, **fine)  # type: ignore[arg-type]
    with pytest.raises(DataError):
        train_parties(np.ones((2, 0)), np.array([0, 1]), [2], **fine)  # type: ignore[arg-type]
    with pytest.raises(DataError):
        train_parties(np.eye(2) / 2, np.array([[0], [1]]), [2], **fine)  # type: ignore[arg-type]
    with pytest.raises(DataError):
        train_parties(np.eye(2) / 2, np.array([0, 1]), [[2]], **fine)  # type: ignore[arg-type,list-item]


@pytest.mark.parametrize("classes", [2, 3])
def test_whitened_training_is_the_same_objective_in_other_coordinates(classes: int) -> None:
    """Also where z is longer than 1: one score a class, opposite ones for two; all times the longest that z can be."""
    X, y, sizes = population([20, 30], 3, classes)
    transform = np.diag([1.0, 10.0, 0.1])
    W = train_whitened(X @ transform, y, sizes, classes=classes, transform=transform, lam=0.02)
    assert W.shape == (2, classes, 3)
    for ours, rows in zip(W, (slice(0, 20), slice(20, 50)), strict=True):
        theirs = minimiser(X[rows] @ transform, y[rows], classes, 0.02)
        expected = np.stack([-theirs, theirs]) if classes == 2 else theirs
        assert np.allclose(ours / (10 * (1 + 1e-9)), expected, atol=1e-5)


# -- bad input


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"lam": 0.0}, InvalidParameter),
        ({"lam": -1.0}, InvalidParameter),
        ({"lam": float("nan")}, InvalidParameter),
        ({"lam": float("inf")}, InvalidParameter),
        ({"classes": 1}, InvalidParameter),
        ({"tolerance": 0.0}, InvalidParameter),
        ({"tolerance": 1e-17}, InvalidParameter),
        ({"tolerance": float("nan")}, InvalidParameter),
        ({"sizes": [2, 1]}, DataError),
        ({"sizes": [4, 0]}, DataError),
        ({"sizes": [5, -1]}, DataError),
        ({"sizes": []}, DataError),
        ({"X": np.ones((3, 2)) / 2}, DataError),
        ({"X": np.ones(4)}, DataError),
        ({"X": np.full((4, 2), np.nan)}, DataError),
        ({"X": np.full((4, 2), np.inf)}, DataError),
        ({"X": np.full((4, 2), 0.8)}, NormError),
        ({"y": np.array([0, 1, 2, 1])}, DataError),
        ({"y": np.array([0, 1, -1, 1])}, DataError),
        ({"y": np.array([0.0, 1.0, 0.0, 1.0])}, DataError),
    ],
)
def test_bad_input(changes: dict[str, object], error: type[Exception]) -> None:
    good: dict[str, object] = {
        "X": np.full((4, 2), 0.5),
        "y": np.array([0, 1, 0, 1]),
        "sizes": [2, 2],
        "classes": 2,
        "lam": 0.1,
        "tolerance": 1e-8,
    }
    arguments = {**good, **changes}
    positional = [arguments.pop(name) for name in ("X", "y", "sizes")]
    with pytest.raises(error):
        train_parties(*positional, **arguments)  # type: ignore[arg-type]


def test_the_error_does_not_quote_the_longest_row() -> None:
    """It is an extreme of private data, and errors end in logs."""
    rows = np.array([[1.234567, 0.0], [0.5, 0.5]])
    with pytest.raises(NormError) as caught:
        train_parties(rows, np.array([0, 1]), [2], classes=2, lam=0.1)
    assert "1.23" not in str(caught.value)


def test_a_hessian_that_cannot_be_factorised_falls_back_to_conjugate_gradients() -> None:
    X, y, sizes = population([27], 16, 2)
    X[:, 3:] *= 1e-12
    X[:, 1] = X[:, 0] / 2
    weights = train_parties(X, y, sizes, classes=2, lam=1e-200, tolerance=1e-12)
    assert gradient_norms(weights, X, y, sizes, classes=2, lam=1e-200).max() <= 1e-12


def test_failure_to_converge_raises() -> None:
    """A gradient of exactly zero in every entry is out of reach of rounding, on any machine."""
    X, y, _ = population([13], 8, 4, 26)
    targets, weights = np.eye(4)[y][None], np.full((1, 13), 1 / 13)
    with pytest.raises(ConvergenceError):
        training._newton(X[None], targets, weights, 0.1, tolerance=0.0)
