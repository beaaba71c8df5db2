"""Directions: a party's vector scaled to norm 1, checked on the integers that it sends."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from psephos.protocol.errors import DataError
from psephos.protocol.grids.directions import FIXED_POINT
from psephos.protocol.grids.fixed_point import FixedPoint
from psephos.protocol.grids.own_data import OwnDataGrid

L2 = OwnDataGrid(np.eye(30), 6)
L1 = replace(L2, norm="l1")
UNIT = 2**24


def test_the_integers_never_exceed_the_norm_whatever_the_matrix() -> None:
    """Any size, any number of entries, sparse or with entries that truncation favours: the bound holds exactly."""
    generator = np.random.default_rng(1)
    largest = {"l1": 0, "l2": 0}
    for trial in range(600):
        shape = (int(generator.integers(1, 9)), int(generator.integers(1, 200)))
        matrix = generator.normal(size=shape) ** int(generator.integers(1, 6))
        if trial % 3 == 0:
            matrix = np.rint(matrix)  # many zeros, and ratios that are exact
        matrix = matrix * 10.0 ** int(generator.integers(-60, 60))
        one, two = L1.direction(matrix), L2.direction(matrix)
        largest["l1"] = max(largest["l1"], sum(abs(unit) for unit in one))
        largest["l2"] = max(largest["l2"], sum(unit * unit for unit in two))
        for units in (one, two):
            assert len(units) == matrix.size
            assert all(unit * entry >= 0 for unit, entry in zip(units, matrix.ravel().tolist(), strict=True))
    assert largest["l1"] == UNIT  # attained, never exceeded
    assert UNIT**2 * (1 - 1e-6) < largest["l2"] <= UNIT**2


@pytest.mark.parametrize("matrix", [[[5e-324]], [[1.7e308, -1.7e308]], [[5e-324, 5e-324, 0.0]], [[1e-320, 1e300]]])
def test_extreme_entries_have_a_direction(matrix: list[list[float]]) -> None:
    units = L1.direction(np.array(matrix))
    assert UNIT - len(units) <= sum(map(abs, units)) <= UNIT


def test_a_direction_is_the_matrix_over_its_norm() -> None:
    matrix = np.array([[3.0, -1.0], [0.0, 4.0]])
    assert L1.direction(matrix) == [math.trunc(UNIT * entry / 8) for entry in (3, -1, 0, 4)]
    assert L2.direction(matrix) == [math.trunc(UNIT * entry / math.sqrt(26)) for entry in (3, -1, 0, 4)]
    for factor in (2.0**-10, 2.0**20):  # shorter than 1, and longer
        assert (L1.direction(factor * matrix), L2.direction(factor * matrix)) == (
            L1.direction(matrix),
            L2.direction(matrix),
        )
    assert L1.direction(-matrix) == [-unit for unit in L1.direction(matrix)]
    assert L1.direction(np.zeros((2, 2))) == L2.direction(np.zeros((2, 2))) == [0] * 4


def test_the_encoding_checks_the_l1_norm_on_integers() -> None:
    assert FixedPoint(4).encode([0.75, -0.25], 1.0, "l1") == [12, -4]
    assert FixedPoint(4).encode([0.75, -0.3], 1.0, "l1") == [12, -4]  # -0.3 is truncated
    with pytest.raises(DataError):
        FixedPoint(4).encode([0.75, -0.3125], 1.0, "l1")
    assert FixedPoint(4).encode([0.75, -0.3125], 1.0) == [12, -5]
    assert FIXED_POINT.encode([1.0], 1.0, "l1") == [UNIT]
