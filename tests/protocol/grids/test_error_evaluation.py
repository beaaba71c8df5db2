"""The integer vectors of rows whose number is predicted: their norms, what they depend on, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.protocol.grids.error_evaluation import ERROR_ROW, ERROR_WEIGHTS, ErrorGrid, ErrorSums
from psephos.protocol.grids.evaluation import SHARE_BITS, ShareGrid
from psephos.protocol.grids.record import NumericLabel

LABEL = NumericLabel(-3.0, 5.0, 2.0)
GRID = ErrorGrid(np.array([[2.0], [-1.0], [0.5]]), LABEL)


def rows_of(generator: np.random.Generator, count: int) -> tuple[Any, Any]:
    """Return rows and labels of any length, many of them at the bounds or outside."""
    X = np.column_stack(
        [generator.normal(size=(count, 2)) * 10.0 ** generator.integers(-3, 300), generator.uniform(0.1, 3, size=count)]
    )
    labels = generator.normal(1, 3, size=count) * 10.0 ** generator.integers(-1, 250, size=count)
    ends = generator.choice([LABEL.low, LABEL.middle, LABEL.high], size=count)
    return X, np.where(generator.random(count) < 0.5, ends, labels)


def vector(grid: ErrorGrid | ShareGrid, *data: Any) -> Any:
    return np.array(grid.contribution(*data), dtype=object)


@given(seed=st.integers(0, 2**32), count=st.integers(0, 12))
@settings(max_examples=200)
def test_no_added_removed_or_replaced_row_moves_the_sum_by_more_than_the_sensitivity(seed: int, count: int) -> None:
    generator = np.random.default_rng(seed)
    X, y = rows_of(generator, count + 2)
    base, one, other = vector(GRID, X[:-2], y[:-2]), vector(GRID, X[:-1], y[:-1]), vector(GRID, X[1:], y[1:])
    assert np.abs(one - base).sum() <= ERROR_ROW
    assert np.abs(other - one).sum() <= ERROR_ROW
    assert one[0] - base[0] == ERROR_WEIGHTS.rows  # whatever it holds, a row counts once


def test_an_added_row_reaches_the_sensitivity_and_a_search_finds_no_larger_replacement() -> None:
    """The largest distance of two rows' vectors: 6 + 2 + 1 of errors, and 16/3 of labels at one end and beyond."""
    worst = vector(GRID, [[100.0, 0.0, 1.0]], [LABEL.low])
    assert np.abs(worst).sum() == ERROR_ROW == sum(ERROR_WEIGHTS)
    assert worst.tolist() == [w * (-1 if name == "deviation" else 1) for name, w in ERROR_WEIGHTS._asdict().items()]
    labels = np.linspace(LABEL.low, LABEL.high, 481)
    wrong = GRID.row_vectors(np.tile([[100.0, 0.0, 1.0]], (481, 1)), labels)
    exact = GRID.row_vectors(np.column_stack([(labels - LABEL.middle - 0.5) / 2, np.zeros(481), np.ones(481)]), labels)
    both = np.concatenate([wrong, exact])
    largest = max(int(np.abs(both - one).sum(axis=1).max()) for one in both)
    assert largest == pytest.approx((9 + 16 / 3) * 2**20, abs=2**8)
    assert largest <= ERROR_ROW


@given(seed=st.integers(0, 2**32))
@settings(max_examples=60)
def test_all_rows_of_a_person_move_the_sum_by_at_most_one_row(seed: int) -> None:
    generator = np.random.default_rng(seed)
    X, y = rows_of(generator, 20)
    persons = generator.integers(4, size=20)
    before = vector(GRID, X, y, persons)
    without = vector(GRID, X[persons > 0], y[persons > 0], persons[persons > 0])
    assert np.abs(before - without).sum() <= ERROR_ROW
    assert before[0] == ERROR_WEIGHTS.rows * len(np.unique(persons))
    X[persons == 0], y[persons == 0] = rows_of(generator, int((persons == 0).sum()))
    assert np.abs(vector(GRID, X, y, persons) - before).sum() <= ERROR_ROW


def test_the_vector_is_the_sum_of_the_rows_vectors_bit_for_bit() -> None:
    generator = np.random.default_rng(1)
    X, y = rows_of(generator, 300)
    X[:, :2] = generator.normal(size=(300, 2))
    alone = sum(vector(GRID, X[[row]], y[[row]]) for row in range(300))
    order = generator.permutation(300)
    assert (vector(GRID, X, y) == alone).all()
    assert (vector(GRID, X[order], y[order]) == alone).all()


def test_entries_are_bounded_errors_and_labels() -> None:
    X = [[0.5, 0.0, 1.0], [1.0, 0.0, 2.0], [0.0, 0.0, 1.0], [9.0, 0.0, 1.0], [0.5, 0.0, 1.0]]
    y = [2.0, 3.5, 7.0, 5.0, 0.0]  # predicted 2.5 twice, 1.5, 5 at the upper bound, and 2.5; 7 counts as 5
    counts = ErrorSums(*(vector(GRID, X, y) / np.array(ERROR_WEIGHTS)))
    assert counts.rows == 5
    assert counts.squared == pytest.approx((0.25 + 1 + 4 + 0 + 4) / 4, abs=1e-6)
    assert counts.absolute == pytest.approx((0.5 + 1 + 2 + 0 + 2) / 2, abs=1e-6)
    assert counts.spread == pytest.approx((1 + 2.5**2 + 16 + 16 + 1) / 16, abs=1e-6)
    assert counts.deviation == pytest.approx((1 + 2.5 + 4 + 4 - 1) / 4, abs=1e-6)
    assert counts.clipped == 2
    below = ErrorSums(*(vector(GRID, [[0.0, 0.0, 1.0]], [LABEL.low]) / np.array(ERROR_WEIGHTS)))
    assert (below.deviation, below.clipped) == (-1, 1)


def test_a_prediction_that_is_no_number_is_the_middle() -> None:
    grid = replace(GRID, weights=[[1e308], [1e308], [0.0]])
    assert grid.predict([[1e308, -1e308, 1.0], [1e308, 1.0, 1.0]]).tolist() == [LABEL.middle, LABEL.high]
    assert vector(grid, [[1e308, -1e308, 1.0]], [LABEL.middle]).tolist() == [ERROR_WEIGHTS.rows, 0, 0, 0, 0, 0]


def test_a_party_contributes_its_mean_absolute_error() -> None:
    grid = ShareGrid(GRID)
    X = [[0.5, 0.0, 1.0], [0.5, 0.0, 1.0]]  # predicted 2.5
    assert grid.contribution(X, [3.0, 2.5]) == [1 << (SHARE_BITS - 3)]
    assert grid.contribution(X, [-3.0, 900.0]) == [grid.maximum]
    assert grid.contribution(np.empty((0, 3)), np.empty(0)) == [1 << (SHARE_BITS - 1)]


NEXT = float(np.nextafter(1.0, 2.0))
