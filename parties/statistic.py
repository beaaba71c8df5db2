"""What a party adds to a sum over rows: an exact vector and, where the parties add the noise, its share of that."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.parties.noise import Shares
from psephos.parties.training import train_whitened
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.directions import DirectionGrid
from psephos.protocol.grids.error_evaluation import ErrorGrid
from psephos.protocol.grids.evaluation import ScoreGrid, ShareGrid
from psephos.protocol.grids.local_step import LocalStepGrid
from psephos.protocol.grids.own_data import OwnDataGrid
from psephos.protocol.grids.record import RecordGrid
from psephos.protocol.grids.rows import Array
from psephos.protocol.grids.statistic import StatisticGrid
from psephos.protocol.paillier.packing import IntegerVector
from psephos.protocol.randomness import SYSTEM, Randomness

RowGrid = RecordGrid | ScoreGrid | ErrorGrid | ShareGrid
"""Grids under which a party's vector is computed from its rows, and from whose they are where persons are protected."""


def entry_range(grid: StatisticGrid | DirectionGrid | RowGrid, shares: Shares | None) -> tuple[int, int]:
    """Return the smallest and largest possible entry of one party's vector, for a `PackingPlan`."""
    bound = 0 if shares is None else shares.bound
    return grid.minimum - bound, grid.maximum + bound


def with_share(own: IntegerVector, shares: Shares | None, randomness: Randomness = SYSTEM) -> IntegerVector:
    """Add a share of the noise to a party's exact vector; with None, return the vector unchanged."""
    if shares is None:
        return own
    if shares.dimension != len(own):
        raise InvalidParameter(f"shares of dimension {shares.dimension} do not fit a statistic of {len(own)} entries")
    return [int(value) + noise for value, noise in zip(own, shares.share(randomness), strict=True)]


def own_vector(
    grid: OwnDataGrid | RowGrid | LocalStepGrid, X: ArrayLike, y: ArrayLike, persons: ArrayLike | None = None
) -> list[int]:
    """Compute a party's exact vector from its own rows or, for a "whitened" grid, from a classifier trained on them.

    Args:
        X, y: its rows, float64 (n, d), and their class numbers (n,).
        persons: for a `RowGrid` only: whose each row is, integers (n,).
    """
    if isinstance(grid, RowGrid):
        return grid.contribution(X, y, persons)
    if isinstance(grid, LocalStepGrid):
        return grid.contribution(X, y)
    return grid.contribution(X, y, partial(_classifier, grid) if grid.source == "whitened" else None)


def _classifier(grid: OwnDataGrid, Z: Array, labels: NDArray[np.int64]) -> Array:
    W: Array = train_whitened(Z, labels, [len(Z)], classes=grid.classes, transform=grid.transform)[0]
    return W
