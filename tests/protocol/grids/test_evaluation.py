"""The integer vectors of scored rows: their norms, what they depend on, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.protocol.grids.evaluation import ROW, SHARE_BITS, WEIGHTS, ScoreGrid, ShareGrid

FEATURES = 3


def grid_of(classes: int, bins: int = 5) -> ScoreGrid:
    weights = np.random.default_rng(classes).normal(size=(FEATURES + 1, 1 if classes == 2 else classes))
    edges = np.linspace(-1, 1, bins - 1) if classes == 2 else np.linspace(0.2, 2, bins - 1)
    if classes == 2:
        edges[np.argmin(np.abs(edges))] = 0.0
    return ScoreGrid(weights, edges, classes)


def rows_of(generator: np.random.Generator, count: int, classes: int) -> tuple[Any, Any]:
    X = np.column_stack(
        [generator.normal(size=(count, FEATURES)) * 10.0 ** generator.integers(-3, 300), np.ones(count)]
    )
    return X, generator.integers(classes, size=count)


def vector(grid: ScoreGrid | ShareGrid, *data: Any) -> Any:
    return np.array(grid.contribution(*data), dtype=object)


@pytest.mark.parametrize("classes", [2, 3, 5])
@given(seed=st.integers(0, 2**32), count=st.integers(0, 12))
@settings(max_examples=60)
def test_one_row_moves_the_sum_by_the_sensitivity_and_no_search_by_more(classes: int, seed: int, count: int) -> None:
    """One row is added, removed or replaced in a table of any size, with rows of any length."""
    grid, generator = grid_of(classes), np.random.default_rng(seed)
    X, y = rows_of(generator, count + 2, classes)
    base, one, other = vector(grid, X[:-2], y[:-2]), vector(grid, X[:-1], y[:-1]), vector(grid, X[1:], y[1:])
    added = one - base
    assert np.abs(added).sum() in (0, ROW)  # 0 where a score is not finite
    assert np.abs(other - one).sum() <= 2 * ROW


def test_a_replaced_row_reaches_the_bound() -> None:
    grid = ScoreGrid(np.array([[1.0], [0.0]]), np.array([0.0]), 2)
    right, wrong = vector(grid, [[5.0, 1.0]], [1]), vector(grid, [[-5.0, 1.0]], [1])
    assert np.abs(right - wrong).sum() == 2 * ROW
    assert all(sum(weights) == ROW for weights in WEIGHTS.values())


@pytest.mark.parametrize("classes", [2, 4])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=40)
def test_all_rows_of_a_person_move_the_sum_by_at_most_one_row(classes: int, seed: int) -> None:
    grid, generator = grid_of(classes), np.random.default_rng(seed)
    X, y = rows_of(generator, 20, classes)
    persons = generator.integers(4, size=20)
    before, without = vector(grid, X, y, persons), vector(grid, X[persons > 0], y[persons > 0], persons[persons > 0])
    assert np.abs(before - without).sum() <= ROW
    X[persons == 0], y[persons == 0] = rows_of(generator, int((persons == 0).sum()), classes)
    assert np.abs(vector(grid, X, y, persons) - before).sum() <= 2 * ROW


@pytest.mark.parametrize("classes", [2, 3])
def test_the_vector_is_the_sum_of_the_rows_vectors_bit_for_bit(classes: int) -> None:
    """Rows at the edges of bins: no other row, and no order, changes where a row is counted."""
    grid, generator = grid_of(classes), np.random.default_rng(1)
    X, y = rows_of(generator, 400, classes)
    X[:, :FEATURES] = generator.normal(size=(400, FEATURES))
    if classes == 2:  # move the scores to within a few last bits of an edge
        w = grid.weights[:, 0]
        X[:, 0] += (generator.choice(grid.edges, size=400) - grid.scores(X)[:, 0]) / w[0]
    alone = sum(vector(grid, X[[row]], y[[row]]) for row in range(400))
    order = generator.permutation(400)
    assert (vector(grid, X, y) == alone).all()
    assert (vector(grid, X[order], y[order]) == alone).all()


def test_entries_count_rows_by_outcome_bin_and_class() -> None:
    grid = ScoreGrid(np.array([[1.0], [0.0]]), np.array([-1.0, 0.0, 1.0]), 2)
    X = np.array([[-2.0, 1.0], [-0.5, 1.0], [0.0, 1.0], [0.5, 1.0], [4.0, 2.0]])
    y = np.array([0, 1, 0, 1, 0])
    outcome, histogram, _ = WEIGHTS[2]
    expected = np.array([3 * outcome, 2 * outcome, 1, 0, 1, 1, 0, 1, 1, 0])
    expected[2:] *= histogram
    assert vector(grid, X, y).tolist() == expected.tolist()


def test_more_than_two_classes_count_margins_and_confusion() -> None:
    grid = ScoreGrid(np.vstack([np.eye(3), np.zeros((1, 3))]), np.array([1.0]), 3)
    X = np.array([[3.0, 0, 0, 1], [0, 1.5, 1.0, 1], [0, 0, 2.0, 1]])
    y = np.array([0, 2, 1])
    outcome, histogram, confusion = WEIGHTS[3]
    counts = vector(grid, X, y)
    assert counts[:2].tolist() == [outcome, 2 * outcome]
    assert counts[2:6].tolist() == [histogram, 0, histogram, histogram]  # wrong and right, by bin
    assert np.flatnonzero(counts[6:]).tolist() == [0, 3 * 1 + 2, 3 * 2 + 1]
    assert set(counts[6:].tolist()) == {0, confusion}


def test_a_party_contributes_its_share_of_right_predictions() -> None:
    grid = ShareGrid(ScoreGrid(np.array([[1.0], [0.0]]), np.array([0.0]), 2))
    X = np.array([[1.0, 1.0], [2.0, 1.0], [-1.0, 1.0]])
    assert grid.contribution(X, [1, 0, 0]) == [(2 << SHARE_BITS) // 3]
    assert grid.contribution(np.empty((0, 2)), np.empty(0, int)) == [1 << (SHARE_BITS - 1)]
    assert grid.contribution(X, [1, 1, 0]) == [grid.maximum]
