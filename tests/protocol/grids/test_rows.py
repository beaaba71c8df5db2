"""What every grid refuses of a party's rows, and of its own public matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.error_evaluation import ErrorGrid
from psephos.protocol.grids.evaluation import ScoreGrid
from psephos.protocol.grids.local_step import LocalStepGrid
from psephos.protocol.grids.own_data import OwnDataGrid
from psephos.protocol.grids.record import NumericLabel, RecordGrid
from psephos.protocol.grids.rows import BLOCK, row_groups
from psephos.protocol.grids.vote_directions import VoteDirectionGrid

MATRIX = np.array([[1.0, 2.0], [0.5, -1.0], [2.0, 0.0]])
COLUMN = MATRIX[:, :1]
LABEL = NumericLabel(0.0, 2.0, 1.0)
BY_CLASS: dict[str, Any] = {
    "own data": OwnDataGrid(MATRIX, 2),
    "local step": LocalStepGrid(MATRIX, COLUMN, 2, 1.0, 2.0, 0.5),
    "record": RecordGrid(MATRIX, 1.0, COLUMN, 2),
    "evaluation": ScoreGrid(COLUMN, np.array([0.0]), 2),
}
BY_NUMBER: dict[str, Any] = {"numeric record": RecordGrid(MATRIX, 1.0, COLUMN, 1, label=LABEL)}
BY_NUMBER["errors"] = ErrorGrid(COLUMN, LABEL)
ROWS = np.array([[1.0, 2.0, 1.0], [0.0, 1.0, 1.0]])
LABELS = np.array([0, 1])


@pytest.mark.parametrize("name", [*BY_CLASS, *BY_NUMBER])
def test_rows_and_labels_that_do_not_fit_are_refused(name: str) -> None:
    grid = (BY_CLASS | BY_NUMBER)[name]
    assert grid.contribution(ROWS.tolist(), LABELS.tolist()) == grid.contribution(ROWS, LABELS.astype(np.uint8))
    wrong: list[tuple[Any, Any]] = [
        (ROWS[:, :2], LABELS),
        (ROWS[0], LABELS),
        (ROWS, LABELS[:1]),
        (ROWS, LABELS[:, None]),
        (np.full_like(ROWS, np.nan), LABELS),
        (np.full_like(ROWS, np.inf), LABELS),
        (ROWS, ["a", "b"]),
    ]
    wrong += [(ROWS, [0, 2]), (ROWS, [-1, 0]), (ROWS, [0.0, 1.0])] if name in BY_CLASS else [(ROWS, [0.0, np.nan])]
    for X, y in wrong:
        with pytest.raises(DataError):
            grid.contribution(X, y)


@pytest.mark.parametrize("name", ["record", "numeric record", "evaluation", "errors"])
def test_persons_are_integers_one_for_each_row(name: str) -> None:
    grid = (BY_CLASS | BY_NUMBER)[name]
    for persons in ([1], [[1, 2]], [0.0, 1.0]):
        with pytest.raises(DataError):
            grid.contribution(ROWS, LABELS, persons)


def test_rows_are_taken_in_blocks_or_by_person() -> None:
    width = BLOCK // 3
    for rows in (0, 1, 3, 4, 7):
        taken = [np.arange(rows)[group].tolist() for group in row_groups(None, rows, width)]
        assert [row for block in taken for row in block] == list(range(rows))
        assert all(len(block) <= 3 for block in taken)
    groups = [np.asarray(group).tolist() for group in row_groups(np.array([7, -1, 7, 3]), 4, width)]
    assert groups == [[1], [3], [0, 2]]


@pytest.mark.parametrize("matrix", [MATRIX[0], np.zeros((0, 2)), np.full((3, 1), np.nan), np.full((3, 1), np.inf)])
def test_public_matrices_are_finite_and_read_only(matrix: Any) -> None:
    for make in (
        lambda m: OwnDataGrid(m, 2),
        lambda m: VoteDirectionGrid(m, 2),
        lambda m: LocalStepGrid(MATRIX, m, 2, 1.0, 2.0, 0.5),
        lambda m: RecordGrid(m, 1.0, COLUMN, 2),
        lambda m: ScoreGrid(m, np.array([0.0]), 2),
        lambda m: ErrorGrid(m, LABEL),
    ):
        with pytest.raises(InvalidParameter):
            make(matrix)
        own = COLUMN.astype(np.float32)
        grid: Any = make(own)
        stored = [array for array in vars(grid).values() if isinstance(array, np.ndarray)]
        assert not any(array.flags.writeable or np.shares_memory(array, own) for array in stored)
        assert all(array.dtype == np.float64 for array in stored)
