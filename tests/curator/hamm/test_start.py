"""Hamm's weighted ERM around a public model: its sensitivity, searched for counterexamples, and its release."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from psephos.curator.hamm.erm import minimise
from psephos.curator.hamm.labels import alpha, majority, one_hot
from psephos.curator.hamm.methods import ReleaseRequest, erm_method
from psephos.curator.hamm.rehearsal import fit_public
from psephos.curator.hamm.rehearsed import model_classifier
from psephos.curator.hamm.sensitivity import binary_majority, centred_ridge, radius, rho
from psephos.curator.hamm.start import CENTRED_TOLERANCE, PublicStart, public_start
from psephos.curator.losses import loss_named
from psephos.protocol.encrypted_sum.own_data import contrast_basis
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


@pytest.mark.parametrize("classes", [2, 3])
def test_the_public_start_by_its_definition(classes: int) -> None:
    """The model in the scale of the stored rows classifies raw rows as before, and its spread is that of contrasts."""
    X, y, _, _ = scene(classes, samples=200)
    start = public_start(7.0 * X, y, classes)
    features = X[:, :-1] / X[:, -1:]
    constant = np.column_stack([features, np.ones(len(X))])
    lengths = np.linalg.norm(constant, axis=1)
    # 95 % of the rows are divided by one length, and the others by their own.
    length = np.quantile(lengths, 0.95)
    assert np.allclose(start.rows, constant / np.maximum(lengths, length)[:, None], rtol=1e-9)
    norms = np.linalg.norm(start.rows, axis=1)
    assert norms.max() <= 1
    assert int((norms > 1 - 1e-9).sum()) == 10
    inside = lengths < length
    model = model_classifier(fit_public(features, y, classes))
    scores = constant @ np.atleast_2d(model).T
    # A classifier of two classes is one contrast; a logit is the difference of two scores, sqrt(2) contrasts.
    kept = scores * math.sqrt(2) if classes == 2 else scores
    assert start.w.shape == ((7,) if classes == 2 else (classes, 7))
    assert np.allclose((start.rows @ np.atleast_2d(start.w).T)[inside], kept[inside], rtol=1e-9)
    ours = start.rows @ np.atleast_2d(start.w).T
    contrasts = ours if classes == 2 else ours @ contrast_basis(classes).T
    assert start.spread == pytest.approx(math.sqrt(float((contrasts**2).mean())), rel=1e-9)


def test_the_ridge_by_its_definition() -> None:
    """Noise of norm Gamma(D, S/epsilon) in a uniform direction: its score has a tenth of the spread, measured."""
    X, y, _, _ = scene(3)
    start, dimension, epsilon = public_start(X, y, 3), 2, 0.5
    one = centred_ridge(1.0, 10, 3)
    lam = start.ridge(one, dimension, epsilon)
    generator = np.random.default_rng(0)
    directions = generator.normal(size=(20_000, dimension))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    noise = directions * generator.gamma(dimension, one.value / lam / epsilon, size=(20_000, 1))
    length = math.sqrt(float((start.rows**2).sum(axis=1).mean()))
    scores = noise[:, 0] * length  # of a row in any direction
    assert float(np.sqrt((scores**2).mean())) == pytest.approx(0.1 * start.spread, rel=0.03)


def test_a_public_model_without_scores_has_the_least_spread() -> None:
    """Each row with both labels: the spread divides the ridge, and stays positive."""
    rows = np.column_stack([np.repeat([1.0, -1.0], 40), np.ones(80)])
    start = public_start(rows, np.arange(80) % 2, 2)
    assert not start.w.any()
    assert start.spread == 1e-6


def test_a_step_is_shrunken_by_octaves_of_principal_directions() -> None:
    """Without noise it is kept, under much noise nothing of it is, and otherwise it is the octaves' share of signal."""
    for classes in (2, 3):
        X, y, _, _ = scene(classes)
        start = public_start(X, y, classes)
        basis = contrast_basis(classes) if classes > 2 else np.ones((1, 1))
        generator = np.random.default_rng(classes)
        contrasts = basis.T @ generator.normal(size=(len(basis), 7))
        w = start.w + (contrasts[0] if classes == 2 else contrasts)
        assert np.allclose(start.shrunken(w, 0.0), w)
        assert np.allclose(start.shrunken(w, 1e9), start.w)
        energy = 0.3 * float((contrasts**2).sum())
        axes = np.linalg.svd(start.rows)[2].T
        steps = basis @ contrasts @ axes
        for first, last in ((0, 1), (1, 2), (2, 4), (4, 7)):
            part = steps[:, first:last]
            share = 1 - energy / steps.size * part.size / float((part**2).sum())
            steps[:, first:last] = part * max(0.0, share)
        expected = basis.T @ steps @ axes.T
        assert np.allclose(start.shrunken(w, energy), start.w + (expected[0] if classes == 2 else expected))


def test_the_ridge_needs_numbers_in_range() -> None:
    X, y, _, _ = scene(2)
    start = public_start(X, y, 2)
    one = centred_ridge(1.0, 10, 2)
    assert start.ridge(one, 7, 0.1) == pytest.approx(10 * start.ridge(one, 7, 1.0))
    assert start.ridge(one, 7, 1e6) == 1e-4
    for dimension in (0, -1):
        with pytest.raises(InvalidParameter, match="dimension"):
            start.ridge(one, dimension, 1.0)
    for epsilon in (0.0, -1.0, math.nan):
        with pytest.raises(InvalidParameter, match=r"^epsilon"):
            start.ridge(one, 7, epsilon)
    assert start.ridge(one, 1, 1.0) > 0
    with pytest.raises(InvalidParameter):
        centred_ridge(1.0, 10, 1)


def test_a_step_keeps_directions_in_which_no_public_row_lies() -> None:
    """Three rows of seven features: the other four directions are the last octave."""
    generator = np.random.default_rng(1)
    start = PublicStart(generator.normal(size=(3, 7)) / 10, generator.normal(size=7), 1.0)
    w = generator.normal(size=7)
    assert np.allclose(start.shrunken(w, 0.0), w)
    axes = np.linalg.svd(start.rows)[2]
    steps = axes @ (w - start.w)
    for first, last in ((0, 1), (1, 2), (2, 4), (4, 7)):
        part = steps[first:last]
        steps[first:last] = part * max(0.0, 1 - 0.5 / 7 * (last - first) / float(part @ part))
    assert np.allclose(start.shrunken(w, 0.5), start.w + axes.T @ steps)
