"""Batched local training against scipy and scikit-learn, one party at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import lambertw, logsumexp

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


# -- one step of Newton's method on a batch, against each party by itself


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


def test_failure_to_converge_raises() -> None:
    """A gradient of exactly zero in every entry is out of reach of rounding, on any machine."""
    X, y, _ = population([13], 8, 4, 26)
    targets, weights = np.eye(4)[y][None], np.full((1, 13), 1 / 13)
    with pytest.raises(ConvergenceError):
        training._newton(X[None], targets, weights, 0.1, tolerance=0.0)
