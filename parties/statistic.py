"""A party's part of `--reveal statistic`: its own integer statistic plus its share of the noise, before encryption.

Why the sum is private, and against whom: docs/theory.md, "The statistic release" and "Joint noise".
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.parties.noise import Shares
from psephos.parties.party import Party, RoundParty, VectorParty
from psephos.parties.training import train_whitened
from psephos.protocol.encrypted_sum.own_data import Array, OwnDataGrid
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.statistic_grid import StatisticGrid
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.roles import Step


def entry_range(grid: StatisticGrid | OwnDataGrid, shares: Shares | None) -> tuple[int, int]:
    """The smallest and largest integer one party's vector can hold: what `PackingPlan` needs as minimum and maximum."""
    bound = 0 if shares is None else shares.bound
    return grid.minimum - bound, grid.maximum + bound


def noisy_contribution(
    grid: StatisticGrid, choices: NDArray[np.integer], shares: Shares | None, randomness: Randomness = SYSTEM
) -> list[int]:
    """What a party encrypts: its exact integer statistic for its class choices (N,), plus its share.

    `shares` None is for runs without noise. Raises DataError for choices that do not fit the grid, InvalidParameter for
    shares of another dimension. The result is as secret as the votes: one share alone hides little.
    """
    return with_share(grid.contribution(choices), shares, randomness)


def with_share(own: list[int], shares: Shares | None, randomness: Randomness = SYSTEM) -> list[int]:
    """A party's exact vector plus its share of the noise (None: no noise here, the curator adds it).

    Raises InvalidParameter for shares of another dimension.
    """
    if shares is None:
        return own
    if shares.dimension != len(own):
        raise InvalidParameter(f"shares of dimension {shares.dimension} do not fit a statistic of {len(own)} entries")
    return [value + noise for value, noise in zip(own, shares.share(randomness), strict=True)]


def own_vector(grid: OwnDataGrid, X: ArrayLike, y: ArrayLike) -> list[int]:
    """A party's exact vector, as the grid says: of its rows X (n, d) and labels y (n,) or of its classifier.

    The classifier is ridge logistic (K = 2) or softmax regression. Raises as `OwnDataGrid.contribution`, and
    ConvergenceError as `psephos.parties.training.train_parties`.
    """
    return grid.contribution(X, y, partial(_classifier, grid) if grid.source == "whitened" else None)


def _classifier(grid: OwnDataGrid, Z: Array, labels: NDArray[np.int64]) -> Array:
    W: Array = train_whitened(Z, labels, [len(Z)], classes=grid.classes, transform=grid.transform)[0]
    return W


class StatisticParty(RoundParty):
    """It posts its own statistic with its share of the noise; the noise makes it no claim that is made once."""

    kind = "statistic"

    def __init__(
        self,
        party: Party,
        round_: Round,
        auxiliary: ArrayLike | AuxiliarySet,
        grid: StatisticGrid,
        shares: Shares | None,
        *,
        randomness: Randomness = SYSTEM,
        **encryption: Any,
    ) -> None:
        """
        Args:
            party, round_: as in `RoundParty`.
            auxiliary: the public samples that its classifier votes on, float64 (N, d).
            grid, shares: as in `noisy_contribution`.
            randomness: of its share of the noise.
            encryption: as in `RoundParty`.
        """
        super().__init__(party, round_, **encryption)
        self._auxiliary, self._grid = AuxiliarySet.of(auxiliary), grid
        self._shares, self._randomness = shares, randomness

    def _start(self) -> Step:
        """Post the noisy statistic; raises what `noisy_contribution`, `Party.votes` and `Party.ballot` do."""
        votes = self.party.votes(self._auxiliary)
        values = noisy_contribution(self._grid, votes, self._shares, self._randomness)
        return self._posted(self._grid.digest, values, None)


class OwnDataParty(VectorParty):
    """It posts its `own_vector`: with its share of the noise, or exactly, which is a claim made once."""

    def __init__(
        self,
        party: Party,
        round_: Round,
        rows: tuple[ArrayLike, ArrayLike],
        grid: OwnDataGrid,
        shares: Shares | None,
        *,
        randomness: Randomness = SYSTEM,
        **encryption: Any,
    ) -> None:
        """
        Args:
            party, round_: as in `RoundParty`; a round of kind "statistic", or "parameters" where `shares` is None.
            rows: its samples, float64 (n, d), and their labels, class numbers (n,). Secrets.
            grid: what is summed.
            shares: of the noise; None leaves the noise to the curator, who then learns the exact sum.
            randomness: of its share of the noise.
            encryption: as in `RoundParty`.
        """
        super().__init__(party, round_, "parameters" if shares is None else "statistic", grid.digest, (), **encryption)
        self._rows, self._grid, self._shares, self._randomness = rows, grid, shares, randomness

    def _vector(self) -> list[int]:
        return with_share(own_vector(self._grid, *self._rows), self._shares, self._randomness)
