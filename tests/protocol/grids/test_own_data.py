"""Vectors of a party's own rows: coordinates, contrasts, and rejected input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

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
