"""Vectors of a party's own rows: coordinates, contrasts, and rejected input."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.own_data import OwnDataGrid, contrast_basis, unit_rows
from psephos.protocol.grids.rows import in_coordinates

TRANSFORM = np.array([[1.0, 2.0], [0.0, -1.0], [3.0, 0.5]])
GRID = OwnDataGrid(TRANSFORM, 3)
WHITENED = replace(GRID, source="whitened")


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_contrasts_are_helmert_contrasts(classes: int) -> None:
    basis = contrast_basis(classes)
    assert basis.shape == (classes - 1, classes)
    assert np.allclose(basis @ basis.T, np.eye(classes - 1), atol=1e-15)
    assert np.allclose(basis.sum(axis=1), 0, atol=1e-15)
    for j, row in enumerate(basis, start=1):
        assert (row[:j] < 0).all()
        assert row[j] > 0
        assert not row[j + 1 :].any()


def test_rows_have_length_one_whatever_their_size() -> None:
    rows = np.array([[3.0, 4.0], [3e-200, 4e-200], [-3e200, 4e200], [0.0, 0.0], [0.0, 5e-324]])
    expected = [[0.6, 0.8], [0.6, 0.8], [-0.6, 0.8], [0.0, 0.0], [0.0, 1.0]]
    assert np.allclose(unit_rows(rows), expected, rtol=1e-15, atol=0)
    assert in_coordinates(np.array([[1.0, 2, 3], [0, 0, 1]]), TRANSFORM).tolist() == [[10.0, 1.5], [3.0, 0.5]]


def test_invalid_coordinates_and_classes_are_rejected() -> None:
    for bad in ([1.0, 2.0], np.zeros((2, 0)), np.zeros((0, 2)), [[math.nan]], [[math.inf]], np.zeros((1, 1, 1))):
        with pytest.raises(InvalidParameter):
            OwnDataGrid(np.array(bad), 2)
    for classes in (1, 0, -1):
        with pytest.raises(InvalidParameter):
            OwnDataGrid(TRANSFORM, classes)
    mine = TRANSFORM.copy()
    grid = OwnDataGrid(mine, 3)
    mine[:] = 0
    assert grid.transform.tolist() == TRANSFORM.tolist()
    with pytest.raises(ValueError, match="read-only"):
        grid.transform[0, 0] = 1
    assert (grid.length, grid.maximum, grid.minimum) == (4, 2**24, -(2**24))
    assert repr(grid) == "<OwnDataGrid (own-data) of 3 features, 3 classes>"


def test_different_grids_have_different_digests() -> None:
    others = [OwnDataGrid(TRANSFORM, 2), WHITENED, OwnDataGrid(TRANSFORM.T, 3), OwnDataGrid(2 * TRANSFORM, 3)]
    others.append(OwnDataGrid(TRANSFORM.reshape(2, 3), 3))
    assert len({GRID.digest, *(other.digest for other in others)}) == 6
    assert OwnDataGrid(np.asfortranarray(TRANSFORM), 3).digest == GRID.digest


def test_a_vector_is_the_direction_of_its_statistic() -> None:
    rows, labels = np.array([[2.0, 0, 0], [0, 0, 5], [0, 3, 0]]), np.array([0, 2, 2], dtype=np.uint8)
    Z = TRANSFORM[[0, 2, 1]]
    S = np.array([Z[0] - Z.sum(axis=0) / 3, -Z.sum(axis=0) / 3, Z[1] + Z[2] - Z.sum(axis=0) / 3])
    expected = contrast_basis(3) @ S
    expected = expected / np.linalg.norm(expected) * 2**24
    assert np.abs(np.array(GRID.contribution(rows, labels)) - expected.ravel()).max() <= 1
    small = replace(GRID, transform=TRANSFORM / 1024)  # only the direction counts
    assert small.contribution(rows, labels) == GRID.contribution(rows, labels)
    W = np.array([[1.0, 0.0], [0.0, 2.0], [-1.0, 1.0]])
    arguments: list[Any] = []

    def train(z: Any, y: Any) -> Any:
        arguments.extend((z, y))
        return W

    expected = contrast_basis(3) @ W
    expected = expected / np.linalg.norm(expected) * 2**24
    assert np.abs(np.array(WHITENED.contribution(rows, labels, train)) - expected.ravel()).max() <= 1
    assert np.allclose(arguments[0], Z)
    assert arguments[1].tolist() == [0, 2, 2]
    assert arguments[1].dtype == np.int64


def test_a_party_without_rows_contributes_zeros() -> None:
    def never(z: Any, y: Any) -> Any:
        raise AssertionError

    assert GRID.contribution(np.zeros((0, 3)), []) == [0] * 4
    assert WHITENED.contribution(np.zeros((0, 3)), [], never) == [0] * 4
    assert GRID.contribution(np.zeros((2, 3)), [0, 1]) == [0] * 4


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        ([1.0, 2, 3], [0]),
        ([[1.0, 2]], [0]),
        ([[1.0, 2, 3]], [0, 1]),
        ([[1.0, 2, 3]], [[0]]),
        ([[math.nan, 2, 3]], [0]),
        ([[-math.inf, 2, 3]], [0]),
        ([[1.0, 2, 3]], [3]),
        ([[1.0, 2, 3]], [-1]),
        ([[1.0, 2, 3]], [1.0]),
        ([[1.0, 2, 3]], [True]),
    ],
)
def test_invalid_rows_and_labels_are_rejected(rows: Any, labels: Any) -> None:
    for grid, train in ((GRID, None), (WHITENED, lambda z, y: np.eye(3, 2))):
        with pytest.raises(DataError):
            grid.contribution(rows, labels, train)
        assert len(grid.contribution([[1.0, 2, 3]] * 2, [0, 2], train)) == 4


def test_only_whitened_averages_train_a_classifier() -> None:
    with pytest.raises(InvalidParameter):
        GRID.contribution([[1.0, 2, 3]], [0], lambda z, y: z)
    with pytest.raises(InvalidParameter):
        WHITENED.contribution([[1.0, 2, 3]], [0])


def test_rows_of_single_precision_are_scaled_in_double_precision() -> None:
    single = np.random.default_rng(5).normal(size=(20, 7)).astype(np.float32)
    scaled = unit_rows(single)
    assert scaled.dtype == np.float64
    np.testing.assert_array_equal(scaled, unit_rows(single.astype(np.float64)))


def test_coordinates_of_any_type_are_kept_in_double_precision() -> None:
    """So that everybody who was given the same numbers has the same digest."""
    whole = OwnDataGrid(np.array([[1, 2], [0, -1], [3, 5]]), 3)
    for given in (whole.transform.astype(np.float32), np.asfortranarray(whole.transform), whole.transform.tolist()):
        grid = OwnDataGrid(given, 3)
        assert (grid.transform.dtype, grid.transform.flags.c_contiguous) == (np.float64, True)
        assert grid.digest == whole.digest
