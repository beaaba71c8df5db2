"""Heads: whatever weights a party brings, its integers lie in the ball, and no replaced party moves the sum further."""

from __future__ import annotations

import math

import numpy as np
import pytest

from psephos.curator.statistic import grid_sensitivity
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.head import HeadGrid

UNIT = 2**24
EDGES = np.array([0.0, 1.0, -1.0, 3.0, 1e9, -1e9, 1e150, -1e150, 1.7e308, -1.7e308, 5e-324])
"""Weights that make sums of squares overflow, vanish or cancel."""


@pytest.mark.parametrize("radius", [2.0**-20, 0.3, 1.0, 1.5, 1e3, 2.0**20])
@pytest.mark.parametrize("classes", [2, 3, 7])
def test_no_weights_leave_the_ball(classes: int, radius: float) -> None:
    grid, generator, largest = HeadGrid(9, classes, radius), np.random.default_rng(1), 0
    for trial in range(300):
        weights = generator.normal(size=(classes, 9)) * 10.0 ** int(generator.integers(-9, 300))
        if trial % 3 == 0:
            weights = generator.choice(EDGES, size=(classes, 9))
        vector = grid.contribution(weights)
        assert len(vector) == grid.length == (classes - 1) * 9
        largest = max(largest, sum(unit * unit for unit in vector))
    assert UNIT**2 * (1 - 1e-5) < largest <= UNIT**2  # attained, never exceeded


@pytest.mark.parametrize("classes", [2, 4])
def test_no_replaced_head_moves_the_sum_further_than_the_certified_sensitivity(classes: int) -> None:
    grid, generator = HeadGrid(6, classes, 0.7), np.random.default_rng(2)
    bound, furthest = grid_sensitivity(grid)[1].value, 0.0
    for _ in range(200):
        weights = generator.normal(size=(classes, 6)) * 10.0 ** int(generator.integers(-1, 4))
        others = (-1000 * weights, np.zeros_like(weights), generator.normal(size=weights.shape))
        first = np.array(grid.contribution(weights), dtype=object)
        furthest = max(furthest, *(math.sqrt(sum((first - grid.contribution(other)) ** 2)) for other in others))
    assert bound * (1 - 1e-6) < furthest <= bound


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_a_head_inside_the_ball_is_unchanged_but_for_what_decides_nothing(classes: int) -> None:
    """What all classes share is taken out; of two classes the score of the second remains."""
    grid, weights = HeadGrid(4, classes, 8.0), np.random.default_rng(3).normal(size=(classes, 4))
    head = grid.head(np.array(grid.contribution(weights)) / UNIT)
    meant = weights[1] - weights[0] if classes == 2 else weights - weights.mean(axis=0)
    assert np.abs(head - meant).max() < 8.0 * 2.0**-22
    if classes == 2:
        assert grid.contribution(meant) == grid.contribution(weights)


def test_a_head_outside_is_clipped_to_the_radius_in_its_direction() -> None:
    grid = HeadGrid(2, 2, 5.0)
    assert np.abs(grid.head(np.array(grid.contribution([300.0, 400.0])) / UNIT) - [3.0, 4.0]).max() < 1e-5


@pytest.mark.parametrize("weights", [[math.nan, 0.0], [math.inf, 0.0], [1.0], [[1.0, 2.0]] * 3, 1.0])
def test_what_is_no_head_is_refused(weights: object) -> None:
    with pytest.raises(DataError):
        HeadGrid(2, 2, 1.0).contribution(weights)  # type: ignore[arg-type]


def test_every_term_is_in_the_digest() -> None:
    grids = [HeadGrid(2, 3, 1.0), HeadGrid(3, 2, 1.0), HeadGrid(2, 3, 1.5), HeadGrid(3, 3, 1.0)]
    assert len({grid.digest for grid in grids}) == len(grids)
    with pytest.raises(InvalidParameter):
        HeadGrid(2, 2, math.nan)
