"""The integer statistic: a sum over parties and a function of the counts are the same integers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.protocol.encrypted_sum.statistic_grid import StatisticGrid
from psephos.protocol.errors import DataError, InvalidParameter


def make(seed: int, samples: int = 7, width: int = 3, classes: int = 4, size: int = 2**30) -> StatisticGrid:
    generator = np.random.default_rng(seed)
    contrast = generator.integers(-(2**16), 2**16, size=(classes - 1, classes))
    return StatisticGrid(generator.integers(-size, size, size=(samples, width)), contrast)


@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(2, 5), st.integers(1, 6))
def test_sum_of_contributions_is_the_total_of_the_counts(seed: int, samples: int, classes: int, parties: int) -> None:
    grid = make(seed, samples=samples, classes=classes)
    choices = np.random.default_rng(seed).integers(classes, size=(parties, samples))
    counts = np.eye(classes, dtype=np.int64)[choices].sum(axis=0)
    parts = [grid.contribution(c) for c in choices]
    assert [sum(column) for column in zip(*parts, strict=True)] == grid.total(counts)
    low, high = grid.bounds
    for part in parts:
        assert all(a <= v <= b for a, v, b in zip(low, part, high, strict=True))
        assert grid.minimum <= min(part)
        assert max(part) <= grid.maximum


def test_bounds_are_attained() -> None:
    grid = make(3, samples=4, width=1, classes=3)
    every = [grid.contribution(np.array(c)) for c in np.ndindex(3, 3, 3, 3)]
    low, high = grid.bounds
    assert [min(column) for column in zip(*every, strict=True)] == low
    assert [max(column) for column in zip(*every, strict=True)] == high


def test_counts_beyond_int64_products_stay_exact() -> None:
    grid = StatisticGrid(np.full((4, 1), 2**58), np.array([[0, 1]]))
    counts = np.array([[0, 1000]] * 4)
    assert grid.total(counts) == [4 * 1000 * 2**58]


def test_digest_tells_grids_apart() -> None:
    assert make(1).digest == make(1).digest
    assert make(1).digest != make(2).digest


def test_bad_input() -> None:
    grid = make(0)
    for bad in (np.zeros(6, dtype=int), np.zeros(7), np.full(7, 4), np.full(7, -1)):
        with pytest.raises(DataError):
            grid.contribution(bad)
    with pytest.raises(DataError):
        grid.total(np.zeros((7, 3), dtype=int))
    with pytest.raises(InvalidParameter):
        StatisticGrid(np.zeros((0, 3), dtype=int), np.array([[0, 1]]))
    with pytest.raises(InvalidParameter):
        StatisticGrid(np.zeros((2, 3)), np.array([[0, 1]]))
    with pytest.raises(InvalidParameter):
        StatisticGrid(np.ones((2, 3), dtype=int), np.array([[0, 1, 2]]))
    with pytest.raises(InvalidParameter, match="too fine"):
        StatisticGrid(np.full((5, 1), 2**60), np.array([[0, 1]]))


def test_a_grid_is_its_own_and_of_64_bits() -> None:
    """Small integers would wrap, and who made it may go on with the arrays."""
    points, contrast = np.full((5, 2), 100, dtype=np.int8), np.array([[-100, 100]], dtype=np.int8)
    grid = StatisticGrid(points, contrast)
    choices = np.ones(5, dtype=np.int64)
    before = grid.contribution(choices)
    points[:], contrast[:] = 1, 1
    assert before == grid.contribution(choices) == [50_000, 50_000]
