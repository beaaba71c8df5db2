"""The vector of a row in a record step: what it is, that it is one row's alone, and that no row's is too long."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.own_data import contrast_basis
from psephos.protocol.grids.record import (
    ENTRY_BITS,
    LARGEST_SCORE,
    PERSON_BITS,
    RESIDUAL_BITS,
    SCORE_STEPS,
    SOFTMAX,
    TABLES,
    Norm,
    NumericLabel,
    PartyBall,
    RecordGrid,
)

FEATURES = 4
UNIT = 2.0**ENTRY_BITS
NUMERIC = NumericLabel(-3.0, 4.0, 0.7)
GRIDS = [(classes, norm) for classes in (2, 3, 6) for norm in ("l1", "l2")]


def grid_of(classes: int = 2, norm: Norm = "l2", *, rank: int = 3, seed: int = 0) -> RecordGrid:
    """Return a grid of `FEATURES` features and the constant."""
    generator = np.random.default_rng([seed, classes])
    transform = generator.normal(size=(FEATURES + 1, rank))
    offset = generator.normal(size=(FEATURES + 1, max(1, classes - 1)))
    return RecordGrid(transform, 0.4, offset, classes, norm)


def rows_of(seed: int, count: int, classes: int = 2) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return rows of many sizes, scaled by different constants, and their labels."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(count, FEATURES)) * 10.0 ** generator.uniform(-3, 2, size=(count, 1))
    X = np.column_stack([X, np.ones(count)]) * generator.uniform(0.1, 2, size=(count, 1))
    return X, generator.integers(classes, size=count)


def extreme_rows(classes: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return rows at the edges of float64 and of the clipping, each with every label."""
    numbers = [0.0, -0.0, 5e-324, 1e-300, 1e-9, 1.0, -1.0, 1e9, 1e200, -1e300, 1.7976931348623157e308]
    rows = [[a] * FEATURES + [c] for a in numbers for c in (1.0, 1e-300, 1e300, 5e-324, 0.0, -1.0)]
    rows += [[a if place == f else 0.0 for f in range(FEATURES)] + [1.0] for a in numbers for place in range(FEATURES)]
    return np.repeat(np.array(rows), classes, axis=0), np.tile(np.arange(classes), len(rows))


def largest_norm(classes: int, norm: Norm) -> float:
    """Return the bound of the norm of one row's integers, from the tables themselves."""
    one = 2.0**-RESIDUAL_BITS
    s, k = (TABLES.above * one, TABLES.curvature * one) if classes == 2 else (np.ones(1), np.ones(1))
    return UNIT * float((s + k).max() if norm == "l1" else np.sqrt(s * s + k * k).max())


def norms(vectors: NDArray[np.int64], norm: Norm) -> list[float]:
    """Return the norms of integer vectors (n, D), computed in integers."""
    if norm == "l1":
        return [float(sum(abs(v) for v in row)) for row in vectors.tolist()]
    return [math.sqrt(sum(v * v for v in row)) for row in vectors.tolist()]


@pytest.mark.parametrize(("classes", "norm"), GRIDS)
def test_no_row_is_longer_than_the_bound(classes: int, norm: Norm) -> None:
    bound = largest_norm(classes, norm)
    for seed in range(20):
        grid = grid_of(classes, norm, seed=seed)
        for X, y in (rows_of(seed, 60, classes), extreme_rows(classes)):
            assert max(norms(grid.row_vectors(X, y), norm)) <= bound


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_bound_of_a_row_is_attained_within_a_thousandth(norm: Norm, sign: int) -> None:
    """A row in the direction of one coordinate, far outside, with the worst score and the wrong label."""
    one = 2.0**-RESIDUAL_BITS
    s, k = TABLES.above * one, TABLES.curvature * one
    score = sign * float(np.argmax(s + k if norm == "l1" else s * s + k * k)) / SCORE_STEPS
    transform, offset = np.eye(FEATURES + 1)[:, :FEATURES], np.zeros((FEATURES + 1, 1))
    offset[-1] = score
    grid = RecordGrid(transform, 1e-4, offset, 2, norm)
    vectors = grid.row_vectors(np.array([[1e6, 0, 0, 0, 1.0]]), np.array([int(sign < 0)]))
    assert norms(vectors, norm)[0] >= 0.999 * largest_norm(2, norm)


@pytest.mark.parametrize(("classes", "norm"), GRIDS)
def test_a_row_has_the_same_vector_among_any_others(classes: int, norm: Norm) -> None:
    """Bit for bit: alone, in another order, in a subset, in another memory layout, and next to extreme rows."""
    grid = grid_of(classes, norm, rank=11)
    X, y = rows_of(1, 37, classes)
    together = grid.row_vectors(X, y)
    order = np.random.default_rng(2).permutation(len(y))
    assert np.array_equal(grid.row_vectors(X[order], y[order]), together[order])
    assert np.array_equal(grid.row_vectors(np.asfortranarray(X), y), together)
    assert np.array_equal(grid.row_vectors(X[::3], y[::3]), together[::3])
    for number in range(len(y)):
        assert np.array_equal(grid.row_vectors(X[[number]], y[[number]])[0], together[number])
    other, labels = extreme_rows(classes)
    mixed = grid.row_vectors(np.vstack([other, X]), np.concatenate([labels, y]))
    assert np.array_equal(mixed[len(other) :], together)


@pytest.mark.parametrize(("classes", "norm"), GRIDS)
def test_the_vector_is_the_gradient_and_the_bound_of_the_second_derivative(classes: int, norm: Norm) -> None:
    """Compared with the formulas in floating point, for scores, or differences of scores, as in the tables."""
    grid = grid_of(classes, norm, rank=3)
    X, y = rows_of(4, 200, classes)
    U = X / X[:, -1:]
    z, order = U @ grid.transform, 1 if norm == "l1" else 2
    z = np.column_stack([z / np.maximum(1, np.linalg.norm(z, order, axis=1))[:, None], np.full(len(z), 0.4)])
    z /= 1.4 if norm == "l1" else math.hypot(1, 0.4)
    basis = np.array([[0.0, 1.0]]) if classes == 2 else contrast_basis(classes)
    scores = U @ grid.offset @ basis
    gaps = np.round((scores - scores.max(axis=1, keepdims=True)) * SCORE_STEPS) / SCORE_STEPS
    gaps = np.maximum(gaps, -LARGEST_SCORE)
    p = np.exp(gaps)
    p /= p.sum(axis=1, keepdims=True)
    distances = [np.linalg.norm(basis[:, i] - basis[:, j], order) for i in range(classes) for j in range(i)]
    psi = (p - np.eye(classes)[y]) @ basis.T / max(distances)
    q, others = p.max(axis=1), np.sort(p, axis=1)[:, :-1].sum(axis=1)
    t = np.maximum(np.log(q / np.maximum(others, 2.0**-16 if classes > 2 else 0)), 1e-9)
    jaakkola_jordan = 2 * np.tanh(t / 2) / t
    curvature = jaakkola_jordan if classes == 2 else np.maximum(4 * q * others, jaakkola_jordan / 2 * (q >= 0.5))
    i, j = np.triu_indices(4)
    off = np.where(i == j, 1, 2 if norm == "l1" else math.sqrt(2))
    gradient = (psi[:, :, None] * z[:, None, :]).reshape(len(z), -1)
    expected = np.hstack([gradient, curvature[:, None] * z[:, i] * z[:, j] * off])
    difference = np.abs(grid.row_vectors(X, y) / UNIT - expected)
    if classes > 2:  # probabilities of a few units of 2^-16 are read as half as likely
        assert difference[:, : grid.gradient_length].max() < 2.0**-12
        assert (difference[:, grid.gradient_length :] < 0.08 * np.abs(expected[:, grid.gradient_length :]) + 1e-5).all()
    assert difference[others > 2.0**-8].max() < (2.0**-14 if classes == 2 else 2.0**-9)


@pytest.mark.parametrize("classes", [3, 4, 11, 200])
def test_no_residual_of_several_classes_is_longer_than_its_curvature_allows(classes: int) -> None:
    """What the sensitivity follows from (docs/theory.md), on the integers, and it is attained.

    A most probable class with odds o >= 1 has |psi|^2 <= 1 - o/(1 + o)^2, where k falls with o; another 3/4.
    """
    grid, basis, one = grid_of(classes), contrast_basis(classes), 1 << RESIDUAL_BITS
    generator = np.random.default_rng(classes)
    tied = np.zeros((5, classes))  # two to all classes share the probability
    for row, ties in enumerate((2, 2, 3, classes - 1, classes)):
        tied[row, :ties] = (20.0, 1e300)[row == 1]
    drawn = generator.normal(size=(3000, classes)) * 10.0 ** generator.uniform(-3, 4, size=(3000, 1))
    two = np.zeros((200, classes))  # two classes at all distances of their scores
    two[:, 0], two[:, 1] = 40, 40 - np.linspace(0, 13, 200)
    scores = np.vstack([tied, two, drawn, drawn * 1e290]) @ basis.T
    labels = np.concatenate([np.full(205, classes - 1), generator.integers(classes, size=6000)])
    psi, k, _ = grid._residuals(scores, labels)
    odds, curvature = SOFTMAX
    assert (np.diff(curvature) <= 0).all()
    last = np.maximum(np.searchsorted(-curvature, -k, side="right") - 1, 0)  # the longest residual with this k or more
    squares = np.array([sum(int(e) ** 2 for e in row) for row in psi]) / float(one**2)
    allowed = np.where(k < curvature[-1], 0.75, 1 - odds[last] / (1 + odds[last]) ** 2)
    assert (squares <= allowed).all()
    assert (squares[5:205] > 0.995 * allowed[5:205]).all()
    assert squares[0] > 0.9999 * allowed[0]
    assert (k.max(), k.min() <= curvature[-1]) == (one, True)


def test_a_row_without_finite_coordinates_contributes_zeros() -> None:
    grid = grid_of()
    X = np.array([[1.0, 2, 3, 4, 0.0], [0.0, 0, 0, 0, 0.0], [1e300, -1e300, 1e300, 1e300, 1e-300]])
    assert not grid.row_vectors(X, np.array([0, 1, 1])).any()


def test_a_person_counts_as_one_row_whatever_the_number_of_rows() -> None:
    grid = grid_of()
    X, y = rows_of(8, 30)
    alone = grid.contribution(X, y, np.arange(30))
    assert alone == grid.contribution(X, y)
    repeated = grid.contribution(np.repeat(X[:1], 50, axis=0), np.repeat(y[:1], 50), np.zeros(50, np.int64))
    assert repeated == grid.contribution(X[:1], y[:1])
    one_person = grid.contribution(X, y, np.full(30, 7))
    mean = grid.row_vectors(X, y, PERSON_BITS).sum(axis=0) / (30 << PERSON_BITS)
    assert one_person == np.trunc(mean).astype(int).tolist()
    assert norms(np.array([one_person]), "l2")[0] <= largest_norm(2, "l2")
    order = np.random.default_rng(1).permutation(30)
    owners = np.arange(30) // 4
    assert grid.contribution(X[order], y[order], owners[order]) == grid.contribution(X, y, owners)


def grown(grid: RecordGrid, one: Any, other: Any) -> float:
    """By how much truncation moves two persons apart at most in an entry, exactly."""
    places = [list(map(Fraction, grid.contribution(*rows, np.zeros(len(rows[1]), int)))) for rows in (one, other)]
    # 32 further bits: the entries are the products of the integers, exactly.
    exact = [[Fraction(int(e), len(rows[1]) << 32) for e in grid.row_vectors(*rows, 32).sum(axis=0)]
             for rows in (one, other)]  # fmt: skip
    return float(max(abs(a - b) - abs(c - d) for a, b, c, d in zip(*places, *exact, strict=True)))


def test_truncation_moves_two_persons_apart_by_as_little_as_two_rows() -> None:
    """By less than 1 + 2^-15 of a unit in an entry."""
    grid = RecordGrid(np.eye(2, 1), 1.0, np.zeros((2, 1)), 1, label=NumericLabel(-1.0, 1.0, 1.0))
    unit, count = grid.radius / 2**18, 1000

    def person(sign: int, first: float) -> Any:
        """Rows of just below one unit of this sign, and one of `first` units, in the first entry of the gradient."""
        X, y = np.full((count, 2), 1.5 * unit), np.full(count, -sign * (2**14 - 0.5) / 2**16)
        X[:, 1], X[0, 0], y[0] = 1.0, (first + 0.5) * unit, -(2**14 + 0.5) / 2**16
        return X, y

    worst = grown(grid, person(-1, 10.0 * count), person(1, count - 1.0))
    assert 0.9 < worst < 1 + 2**-15
    for seed in range(20):
        persons = [(rows_of(seed + at, 3)[0][:, -2:], numeric_labels(seed + at, 3)) for at in (0, 100)]
        assert grown(grid, *persons) < 1 + 2**-15
    (X, y), _ = persons
    for place in range(3):  # a person of one row is that row, bit for bit
        row = X[place : place + 1], y[place : place + 1]
        assert grid.contribution(*row, np.zeros(1, int)) == grid.contribution(*row)


# -- numeric labels

"""Finite bounds whose distance is not finite."""


def numeric_grid(norm: Norm = "l2", *, rank: int = 3) -> RecordGrid:
    """Return a grid of a numeric label."""
    return replace(grid_of(2, norm, rank=rank), classes=1, label=NUMERIC)


def numeric_labels(seed: int, count: int) -> NDArray[np.float64]:
    """Return labels near the threshold, far away, at the edges of float64, and 0."""
    generator = np.random.default_rng(seed)
    edges = np.array([0.0, -0.0, 5e-324, 1e-300, 1e9, -1e9, 1.7976931348623157e308, -1.7976931348623157e308])
    return np.where(generator.random(count) < 0.7, generator.normal(size=count) * 2, generator.choice(edges, count))


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_no_row_of_a_numeric_label_is_longer_than_the_bound(norm: Norm) -> None:
    grid, bound = numeric_grid(norm), UNIT * (2 if norm == "l1" else math.sqrt(2))
    X, _ = rows_of(1, 400)
    extreme, _ = extreme_rows(1)
    for rows in (X, extreme):
        vectors = grid.row_vectors(rows, numeric_labels(2, len(rows)))
        assert max(norms(vectors, norm)) <= bound
    free = RecordGrid(np.eye(3)[:, :1], 1e-4, np.zeros((3, 1)), 1, norm, NUMERIC)
    longest = free.row_vectors(np.array([[1e6, 0.0, 1.0]]), np.array([NUMERIC.middle + 0.7]))
    assert norms(longest, norm)[0] >= 0.999 * bound


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_vector_of_a_numeric_label_is_hubers_gradient_and_weight(norm: Norm) -> None:
    grid = numeric_grid(norm)
    X, _ = rows_of(3, 300)
    y = np.random.default_rng(4).normal(size=300) * 3
    z = grid.clip(grid.locate(X)[0])
    ratio = (np.clip(grid.locate(X)[1][:, 0] + NUMERIC.middle, NUMERIC.low, NUMERIC.high) - y) / NUMERIC.threshold
    psi, weights = np.clip(ratio, -1, 1), np.maximum(np.minimum(1, 1 / np.abs(ratio)), 1 - math.sqrt(0.5))
    i, j = grid.pairs
    off = np.where(i == j, 1, 2 if norm == "l1" else math.sqrt(2))
    expected = np.hstack([psi[:, None] * z, weights[:, None] * z[:, i] * z[:, j] * off])
    assert np.abs(grid.row_vectors(X, y) / UNIT - expected).max() < 2.0**-14


def test_predictions_are_clipped_to_the_bounds_of_the_label() -> None:
    grid = numeric_grid()
    X, _ = rows_of(9, 50)
    predictions = grid.predict(grid.offset[:, 0], X)
    assert (predictions.min(), predictions.max()) == (NUMERIC.low, NUMERIC.high)
    inside = (predictions > NUMERIC.low) & (predictions < NUMERIC.high)
    assert np.allclose(predictions[inside], grid.locate(X)[1][inside, 0] + NUMERIC.middle)
    assert np.array_equal(grid.public_predictions(X)[~inside], predictions[~inside])
    assert not grid.row_vectors(X, grid.public_predictions(X))[:, : grid.gradient_length].any()
    with pytest.raises(InvalidParameter):
        grid_of().public_predictions(X)
    with pytest.raises(InvalidParameter):
        grid_of().predict(grid.offset[:, 0], X)


# -- a party's ball

RADIUS = (1 << ENTRY_BITS) // 50


def ball_grid(norm: Norm = "l2", radius: int = RADIUS, *, rank: int = 3) -> RecordGrid:
    """Return a grid that protects a party, with a centre that is no row's vector."""
    grid = numeric_grid(norm, rank=rank)
    centre = np.random.default_rng(1).integers(-(1 << 17), 1 << 17, size=grid.length)
    return replace(grid, ball=PartyBall(centre, radius))


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_no_rows_of_a_party_leave_its_ball(norm: Norm) -> None:
    """Whatever two parties hold, also nothing, their vectors are at most the diameter apart."""
    grid = ball_grid(norm, RADIUS)
    generator, vectors = np.random.default_rng(2), [grid.contribution(np.empty((0, FEATURES + 1)), np.empty(0))]
    assert not any(vectors[0])
    for seed in range(12):
        rows = int(generator.integers(1, 40))
        X = (rows_of(seed, rows) if seed % 2 else extreme_rows(1))[0]
        vectors.append(grid.contribution(X, numeric_labels(seed, len(X))))
    assert max(norms(np.array(vectors), norm)) <= RADIUS
    assert max(norms(np.array(vectors), norm)) > 0.999 * RADIUS
    differences = np.array(vectors)[:, None, :] - np.array(vectors)[None, :, :]
    assert max(norms(differences.reshape(-1, grid.length), norm)) <= 2 * RADIUS


def test_a_party_sends_the_average_of_its_rows_less_the_centre() -> None:
    grid = ball_grid(radius=4 << ENTRY_BITS)
    assert grid.ball is not None
    X, _ = rows_of(3, 21)
    y = numeric_labels(4, 21)
    vectors = grid.row_vectors(X, y)
    assert np.array_equal(grid.row_vectors(X, y), replace(grid, ball=None).row_vectors(X, y))
    moved = np.array(grid.contribution(X, y)) + grid.ball.centre
    assert np.abs(moved - vectors.mean(axis=0)).max() < 1
    assert grid.contribution(np.tile(X, (5, 1)), np.tile(y, 5)) == grid.contribution(X, y)
    small = replace(grid, ball=replace(grid.ball, radius=2 * RADIUS))
    clipped, whole = np.array(small.contribution(X, y)), np.array(grid.contribution(X, y))
    assert np.abs(clipped - whole * (2 * RADIUS / norms(whole[None], "l2")[0])).max() < 1.001
    assert (small.minimum, small.maximum) == (-2 * RADIUS, 2 * RADIUS)


@pytest.mark.parametrize(
    ("norm", "inside", "outside"),
    [("l1", [[4.0, 0], [-2.0, 2]], [[4.0, 1], [-2.0, -3]]), ("l2", [[4.0, 0], [2.0, -3]], [[4.0, 1], [-3.0, 3]])],
)
def test_a_row_or_an_average_that_is_too_long_is_seen_on_the_integers(
    norm: Norm, inside: list[list[float]], outside: list[list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last check before anything is sent, which needs a wrong factor to fail."""
    grid = numeric_grid(norm)
    assert grid._inside(np.array(inside + outside), 2).tolist() == [True] * 2 + [False] * 2
    monkeypatch.setattr("psephos.protocol.grids.record._INSIDE", 1.5)
    ball = PartyBall(np.zeros(grid.length, int), 4)
    for entries in inside + outside:
        total = np.array([*map(int, entries)] + [0] * (grid.length - 2))
        assert grid._inside_ball(ball, 3 * total, 3) == (total.tolist() if entries in inside else [0] * grid.length)
