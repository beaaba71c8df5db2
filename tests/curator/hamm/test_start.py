"""Hamm's weighted ERM around a public model: its sensitivity, searched for counterexamples, and its release."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from psephos.curator.hamm.erm import minimise
from psephos.curator.hamm.labels import alpha, majority, one_hot
from psephos.curator.hamm.methods import ReleaseRequest, erm_method
from psephos.curator.hamm.sensitivity import binary_majority, centred_ridge, radius, rho
from psephos.curator.hamm.start import CENTRED_TOLERANCE, public_start
from psephos.curator.losses import loss_named
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.randomness import SimulationRandomness

REQUEST = ReleaseRequest(1.0, 1e-6, "spherical-laplace", None, "certified", False)


def unit_rows(generator: np.random.Generator, samples: int, width: int) -> NDArray[np.float64]:
    X = generator.normal(size=(samples, width)) + generator.normal(size=width)
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True) / (1 + 1e-12))


def neighbours(generator: np.random.Generator, X: NDArray[np.float64], parties: int, classes: int) -> Any:
    """Return two tables of votes that differ in one party, which votes by a half-space or the other way round."""
    samples = len(X)
    others = generator.multinomial(parties - 1, generator.dirichlet(np.ones(classes)), size=samples)
    top = np.linalg.svd(X)[2][0]
    direction = top if generator.random() < 0.5 else generator.normal(size=X.shape[1])
    side = (X @ direction > 0).astype(int)
    pair = generator.permutation(classes)[:2]
    first, second = np.eye(classes, dtype=int)[pair[side]], np.eye(classes, dtype=int)[pair[1 - side]]
    return others + first, others + second


def centre(generator: np.random.Generator, classes: int, width: int) -> NDArray[np.float64]:
    """Return a public model of any length; of several classes one whose rows sum to 0."""
    u = generator.normal(size=width if classes == 2 else (classes, width)) * 10 ** generator.uniform(-1, 1.5)
    return np.asarray(u if classes == 2 else u - u.mean(axis=0))


def moved(X: Any, counts: Any, lam: float, u: Any, labels: str) -> float:
    """Return how far the minimiser moves between two tables of votes."""
    loss, minimisers = loss_named("logistic", counts[0].shape[1]), []
    for table in counts:
        targets = alpha(table) if labels == "soft" else one_hot(majority(table), table.shape[1])
        minimisers.append(minimise(X, targets, lam, loss, tilt=-lam * u, tolerance=CENTRED_TOLERANCE).w)
    return float(np.linalg.norm(minimisers[0] - minimisers[1])) - 2 * CENTRED_TOLERANCE / lam


@pytest.mark.parametrize("labels", ["soft", "majority"])
@pytest.mark.parametrize("classes", [2, 3])
def test_no_neighbours_move_the_minimiser_further(classes: int, labels: str) -> None:
    """Far from zero the loss is flat, so that the bound is nearly attained."""
    generator, largest = np.random.default_rng(classes), 0.0
    for _ in range(150):
        width, parties = int(generator.integers(1, 6)), int(generator.integers(1, 8))
        X = unit_rows(generator, int(generator.integers(1, 9)), width)
        lam = float(10 ** generator.uniform(-2, 1))
        u = centre(generator, classes, width)
        counts = neighbours(generator, X, parties if labels == "soft" else 1, classes)
        bound = centred_ridge(lam, parties if labels == "soft" else 1, classes, rho(X)).value
        largest = max(largest, moved(X, counts, lam, u, labels) / bound)
    assert 0.9 < largest <= 1 + 1e-9


def test_the_bound_for_zero_does_not_hold_around_a_public_model() -> None:
    """2 R bounds minimisers around zero; at a small lambda labels move the one around a large u by more."""
    X, lam, u = np.array([[1.0]]), 0.05, np.array([0.0])
    around_zero = binary_majority(lam).value
    assert around_zero == pytest.approx(2 * radius(lam), rel=1e-9)
    counts = (np.array([[1, 0]]), np.array([[0, 1]]))
    assert moved(X, counts, lam, u, "majority") <= around_zero
    assert max(moved(X, counts, lam, np.array([far]), "majority") for far in (5.0, 10.0, 20.0)) > around_zero
    assert centred_ridge(lam, 1, 2).value == pytest.approx(1 / lam)


@pytest.mark.parametrize("classes", [2, 3])
def test_no_minimiser_is_longer_than_its_limit(classes: int) -> None:
    generator, loss = np.random.default_rng(0), loss_named("logistic", classes)
    for _ in range(100):
        X = unit_rows(generator, 5, 3)
        lam = float(10 ** generator.uniform(-3, 1))
        u = centre(generator, classes, 3)
        targets = one_hot(generator.integers(0, classes, 5), classes)
        minimiser = minimise(X, targets, lam, loss, tilt=-lam * u, tolerance=1e-5)
        assert np.linalg.norm(minimiser.w) <= minimiser.norm_limit


def scene(classes: int, samples: int = 80) -> tuple[Any, Any, Any, Any]:
    """Labelled public rows, and test rows, of unit norm with a constant."""
    generator = np.random.default_rng(1)
    centres = generator.normal(size=(classes, 6))
    y = generator.integers(0, classes, samples + 2000)
    X = np.column_stack([centres[y] + generator.normal(size=(len(y), 6)), np.ones(len(y))])
    X /= np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-9)
    return X[:samples], y[:samples], X[samples:], y[samples:]


def right(w: Any, X: Any, y: Any) -> float:
    chosen = (X @ w > 0).astype(int) if w.ndim == 1 else (X @ w.T).argmax(axis=1)
    return float((chosen == y).mean())


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("labels", ["soft", "majority"])
def test_a_release_is_near_the_public_model_under_much_noise_and_near_alpha_under_little(
    classes: int, labels: Any
) -> None:
    X, y, T, answers = scene(classes)
    start, loss = public_start(X, np.where(np.arange(len(y)) % 4 == 0, -1, y), classes), loss_named("logistic", classes)
    counts = 50 * one_hot(y, classes).astype(int)
    public, coins = right(start.w, T, answers), SimulationRandomness(3, "start")
    assert public > 0.6
    assert np.linalg.norm(start.rows, axis=1).max() <= 1
    hidden = erm_method(labels, counts, X, loss, replace(REQUEST, epsilon=0.01), start=start)
    accuracies = [right(hidden.draw(coins), T, answers) for _ in range(20)]
    assert np.mean(accuracies) > public - 0.01
    assert hidden.chosen["start"] == "public model"
    assert hidden.event is not None
    assert hidden.event.epsilon == 0.01
    assert hidden.sensitivity is not None
    lam = hidden.chosen["lam"]
    bound = centred_ridge(lam, 50 if labels == "soft" else 1, classes, rho(start.rows)).value
    assert bound < hidden.sensitivity.value < bound * 1.01 + 1e-3
    clear = ReleaseRequest(64.0, 1e-6, "spherical-laplace", 1e-3, "certified", False)
    exact = erm_method("soft", 1_000_000 * counts, X, loss, clear, start=start)
    w = minimise(start.rows, alpha(counts), 1e-3, loss, tilt=-1e-3 * start.w, tolerance=CENTRED_TOLERANCE).w
    assert np.allclose(exact.draw(coins), w, atol=1e-2 * np.abs(w).max())


def test_the_ridge_needs_numbers_in_range() -> None:
    X, y, _, _ = scene(2)
    start = public_start(X, y, 2)
    one = centred_ridge(1.0, 10, 2)
    assert start.ridge(one, 7, 0.1) == pytest.approx(10 * start.ridge(one, 7, 1.0))
    assert start.ridge(one, 7, 1e6) == 1e-4
    with pytest.raises(InvalidParameter):
        start.ridge(one, 0, 1.0)
    with pytest.raises(InvalidParameter):
        centred_ridge(1.0, 10, 1)
