"""A party in a round that sums statistics: its own integer statistic plus, for joint noise, its share of the noise."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.parties.noise import Shares
from psephos.parties.party import Party, RoundParty, VectorParty
from psephos.parties.training import train_whitened
from psephos.protocol.encrypted_sum.rounds import Round, RoundKind
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.directions import DirectionGrid
from psephos.protocol.grids.error_evaluation import ErrorGrid
from psephos.protocol.grids.evaluation import ScoreGrid, ShareGrid
from psephos.protocol.grids.local_step import LocalStepGrid
from psephos.protocol.grids.own_data import OwnDataGrid
from psephos.protocol.grids.record import RecordGrid
from psephos.protocol.grids.rows import Array
from psephos.protocol.grids.statistic import StatisticGrid
from psephos.protocol.grids.vote_directions import VoteDirectionGrid
from psephos.protocol.randomness import SYSTEM, Randomness

RowGrid = RecordGrid | ScoreGrid | ErrorGrid | ShareGrid
"""Grids under which a party's vector is computed from its rows, and from whose they are where persons are protected."""


def entry_range(grid: StatisticGrid | DirectionGrid | RowGrid, shares: Shares | None) -> tuple[int, int]:
    """Return the smallest and largest possible entry of one party's vector, for a `PackingPlan`."""
    bound = 0 if shares is None else shares.bound
    return grid.minimum - bound, grid.maximum + bound


def with_share(own: list[int], shares: Shares | None, randomness: Randomness = SYSTEM) -> list[int]:
    """Add a share of the noise to a party's exact vector; with None, return the vector unchanged."""
    if shares is None:
        return own
    if shares.dimension != len(own):
        raise InvalidParameter(f"shares of dimension {shares.dimension} do not fit a statistic of {len(own)} entries")
    return [value + noise for value, noise in zip(own, shares.share(randomness), strict=True)]


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


class StatisticParty(RoundParty):
    """A party that posts its statistic of votes, or the direction of its votes, plus its share of the noise."""

    def __init__(
        self,
        party: Party,
        round_: Round,
        auxiliary: ArrayLike | AuxiliarySet,
        grid: StatisticGrid | VoteDirectionGrid,
        shares: Shares | None,
        *,
        randomness: Randomness = SYSTEM,
        **encryption: Any,
    ) -> None:
        """Create the role; `shares` is None where the round's key holders add the noise."""
        super().__init__(party, round_, "statistic", grid.digest, **encryption)
        self._auxiliary, self._grid = AuxiliarySet.of(auxiliary), grid
        self._shares, self._randomness = shares, randomness

    def _vector(self) -> list[int]:
        soft = isinstance(self._grid, VoteDirectionGrid)
        labels = self.party.labels(self._auxiliary) if soft else self.party.votes(self._auxiliary)
        return with_share(self._grid.contribution(labels), self._shares, self._randomness)


class OwnDataParty(VectorParty):
    """A party that posts its `own_vector` plus its share of the noise; in a sum without noise it may do so once."""

    def __init__(
        self,
        party: Party,
        round_: Round,
        rows: tuple[ArrayLike, ...],
        grid: OwnDataGrid | RowGrid | LocalStepGrid,
        shares: Shares | None,
        *,
        randomness: Randomness = SYSTEM,
        **encryption: Any,
    ) -> None:
        kind: RoundKind = "parameters" if shares is None and not round_.holder_noise else "statistic"
        super().__init__(party, round_, kind, grid.digest, (), **encryption)
        self._rows, self._grid, self._shares, self._randomness = rows, grid, shares, randomness

    def _vector(self) -> list[int]:
        return with_share(own_vector(self._grid, *self._rows), self._shares, self._randomness)
