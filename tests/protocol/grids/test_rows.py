"""What every grid refuses of a party's rows, and of its own public matrices."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.error_evaluation import ErrorGrid
from psephos.protocol.grids.evaluation import ScoreGrid
from psephos.protocol.grids.local_step import LocalStepGrid
from psephos.protocol.grids.own_data import OwnDataGrid
from psephos.protocol.grids.record import NumericLabel, PartyBall, RecordGrid
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


HALVES = {"weights": MATRIX / 2, "transform": MATRIX / 2, "offset": COLUMN / 2, "points": MATRIX / 2}
CHANGES: list[tuple[Any, dict[str, Any]]] = [
    (OwnDataGrid(MATRIX, 2), {"transform": MATRIX.T, "classes": 3, "source": "whitened", "norm": "l1"}),
    (VoteDirectionGrid(MATRIX, 2), {"points": MATRIX.T, "classes": 3, "norm": "l1"}),
    (BY_CLASS["local step"], {"offset": COLUMN / 2, "ridge": math.inf, "limit": 3.0, "radius": 1.0, "norm": "l1"}),
    (BY_CLASS["record"], {"offset": COLUMN / 2, "constant": 0.5, "norm": "l1"}),
    (BY_NUMBER["numeric record"], {"label": NumericLabel(0.0, 2.0, 1.5), "ball": PartyBall(np.zeros(9, int), 1)}),
    (BY_CLASS["evaluation"], {"edges": np.array([0.0, 1.0])}),
    (BY_NUMBER["errors"], {"weights": COLUMN / 2, "label": NumericLabel(-1.0, 2.0, 1.0)}),
    (BY_NUMBER["errors"], {"label": NumericLabel(0.0, 3.0, 1.0)}),
    (BY_NUMBER["errors"], {"label": NumericLabel(0.0, 2.0, 1.5)}),
]


@pytest.mark.parametrize(("grid", "changes"), CHANGES, ids=lambda value: type(value).__name__)
def test_a_digest_names_everything_that_a_vector_depends_on(grid: Any, changes: dict[str, Any]) -> None:
    matrices = {name: value for name, value in HALVES.items() if hasattr(grid, name) and name not in changes}
    matrices = {name: np.asarray(getattr(grid, name)) / 2 for name in matrices}
    others = [replace(grid, **{name: value}) for name, value in (changes | matrices).items()]
    assert len({grid.digest, *(other.digest for other in others)}) == 1 + len(others)
    copies = {name: np.asfortranarray(getattr(grid, name)) for name in HALVES if hasattr(grid, name)}
    assert replace(grid, **copies).digest == grid.digest


@pytest.mark.parametrize("name", ["record", "numeric record", "evaluation", "errors"])
def test_entries_of_a_party_are_clipped_to_their_bounds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clipping is monotone and moves no two sums apart, so it costs no sensitivity; the range sizes the slots."""
    grid = (BY_CLASS | BY_NUMBER)[name]
    rows, labels = np.tile(ROWS, (500, 1)), np.arange(1000) // 2 % 2
    exact = np.array(grid.contribution(rows, labels))
    assert grid.maximum > 1 << 41 > exact.max()
    bound = int(np.abs(exact).max()) // 2
    monkeypatch.setattr(type(grid), "maximum", bound)
    monkeypatch.setattr(type(grid), "minimum", low := min(0, -bound if exact.min() < 0 else 0))
    assert grid.contribution(rows, labels) == np.clip(exact, low, bound).tolist() != exact.tolist()


WRONG: list[tuple[Any, dict[str, Any]]] = [
    *((BY_CLASS["record"], {"offset": np.zeros(shape)}) for shape in ((2, 1), (3, 2))),
    *((BY_CLASS["record"], {"classes": classes}) for classes in (0, 1, 3)),
    *((BY_CLASS["record"], {"constant": bad}) for bad in (0.0, -1.0, math.inf, math.nan)),
    *((BY_CLASS[name], {"norm": "l3"}) for name in ("record", "local step")),
    *((BY_NUMBER["numeric record"], {"ball": PartyBall(np.zeros(length, int), 1)}) for length in (8, 10)),
    (BY_CLASS["record"], {"label": LABEL}),
    (BY_NUMBER["numeric record"], {"label": None}),
    *((BY_CLASS["local step"], {"ridge": bad}) for bad in (0.0, -1.0, math.nan)),
    *((BY_CLASS["local step"], {"limit": bad}) for bad in (0.0, -1.0, math.inf, math.nan)),
    *((BY_CLASS["local step"], {"radius": bad}) for bad in (-1e-300, math.inf, math.nan)),
    *((BY_CLASS["local step"], {"offset": np.zeros(shape)}) for shape in ((3, 2), (2, 1))),
    *((BY_CLASS["local step"], {"classes": classes}) for classes in (1, 3)),
    *((BY_CLASS["evaluation"], {"classes": classes}) for classes in (1, 3)),
    *((BY_CLASS["evaluation"], {"edges": np.array(bad)}) for bad in ([0.0, 0.0], [0.0, -1.0], [0.0, np.inf])),
    *((BY_CLASS["evaluation"], {"edges": np.array(bad)}) for bad in ([0.0, np.nan], [[0.0, 1.0]], 0.0, [1.0], [])),
    (BY_NUMBER["errors"], {"weights": MATRIX}),
    (BY_NUMBER["errors"], {"label": NumericLabel(0.0, 2.0, float(np.nextafter(2.0, 3.0)))}),
    (BY_NUMBER["errors"], {"label": NumericLabel(0.0, 5e-324, 5e-324)}),
    (BY_NUMBER["errors"], {"label": NumericLabel(1.0, float(np.nextafter(1.0, 2.0)), 1e-20)}),
]


@pytest.mark.parametrize(("grid", "change"), WRONG, ids=str)
def test_a_grid_that_cannot_be_is_refused(grid: Any, change: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        replace(grid, **change)


@pytest.mark.parametrize(
    "numbers",
    [(1, 1, 1), (2, 1, 1), (0, 1, 0), (0, math.inf, 1), (0, 1, math.nan), (-1.7e308, 1.7e308, 1)],
)
def test_bounds_of_a_number_are_apart_and_finite(numbers: tuple[float, float, float]) -> None:
    with pytest.raises(InvalidParameter):
        NumericLabel(*numbers)


def test_only_whitened_averages_train_a_classifier() -> None:
    for source, train in (("own-data", lambda z, y: z), ("whitened", None)):
        with pytest.raises(InvalidParameter):
            OwnDataGrid(MATRIX, 2, source).contribution(ROWS, LABELS, train)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [*BY_CLASS, *BY_NUMBER])
def test_a_party_without_rows_sends_zeros_whatever_the_type_of_its_labels(name: str) -> None:
    grid = (BY_CLASS | BY_NUMBER)[name]
    assert grid.contribution(np.zeros((0, 3)), []) == [0] * grid.length
