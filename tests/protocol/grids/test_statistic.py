"""The integer statistic: the sum over parties equals the function of the counts, exactly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.statistic import StatisticGrid


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
    wide, tall = (StatisticGrid(np.array(points), np.array([[0, 1]])) for points in ([[1, 2]], [[1], [2]]))
    assert wide.digest != tall.digest
    assert wide.digest != StatisticGrid(np.array([[1, 2]]), np.array([[1, 0]])).digest


def test_grids_whose_sums_could_overflow_are_rejected() -> None:
    for points, contrast in (([[2**62 - 1]], [[0, 1]]), ([[1 - 2**61], [5]], [[0, 1 - 2**31]])):
        StatisticGrid(np.array(points), np.array(contrast))
    for points, contrast in (
        ([[2**62]], [[0, 1]]),
        ([[2**61], [0]], [[0, 1]]),
        ([[-(2**61)], [0]], [[0, 1]]),
        ([[1]], [[0, 2**31]]),
        ([[1]], [[0, -(2**31)]]),
        ([[1], [-(2**63)]], [[0, 1]]),
        ([[1]], [[0, -(2**63)]]),
    ):
        with pytest.raises(InvalidParameter):
            StatisticGrid(np.array(points), np.array(contrast))


def test_invalid_points_and_contrasts_are_rejected() -> None:
    good, contrast = np.array([[1, 2]]), np.array([[0, 1]])
    for bad in (np.array([1, 2]), good[None], np.array([[1.0, 2]]), good.astype(np.uint8), good[:0]):
        with pytest.raises(InvalidParameter):
            StatisticGrid(bad, contrast)
    wrong = [np.array([0, 1]), contrast[None], contrast.astype(float), contrast.T, np.array([[0, 1], [1, 0]])]
    for bad in (*wrong, np.zeros((0, 1), int)):
        with pytest.raises(InvalidParameter):
            StatisticGrid(good, bad)
    grid = StatisticGrid(good, contrast)
    assert (grid.samples, grid.classes, grid.length) == (1, 2, 2)
    for array in (grid.points, grid.contrast):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1


def test_choices_that_do_not_fit_are_refused() -> None:
    for bad in (np.zeros(6, dtype=int), np.zeros(7), np.full(7, 4), np.full(7, -1), np.zeros((7, 1), dtype=int)):
        with pytest.raises(DataError):
            make(0).contribution(bad)
