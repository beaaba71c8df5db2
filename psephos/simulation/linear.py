"""Linear classifiers as simulated parties vote with them, and what such votes add up to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.parties.training import votes

__all__ = ["LinearVoter", "LinearVoters", "count_votes"]


@dataclass(frozen=True)
class LinearVoter:
    """A linear classifier w as a party votes with it: shape (d,) for two classes, (K, d) for more."""

    w: NDArray[np.float64] = field(repr=False)

    def predict_votes(self, X: NDArray[np.float64]) -> NDArray[np.integer]:
        """Class indices, shape (N,)."""
        return np.asarray(votes(self.w[None], X)[0])


class LinearVoters(Sequence[LinearVoter]):
    """The parties whose parameters are the rows of `w`, (M, d) or (M, K, d): objects for a million are a gigabyte."""

    def __init__(self, w: NDArray[np.float64]) -> None:
        self._w = w

    def __len__(self) -> int:
        return len(self._w)

    def __getitem__(self, at: Any) -> Any:
        return [LinearVoter(w) for w in self._w[at]] if isinstance(at, slice) else LinearVoter(self._w[at])


def count_votes(blocks: Iterable[NDArray[np.integer]], samples: int, classes: int) -> NDArray[np.int64]:
    """Votes per sample and class, int64 (N, K), of `blocks` of class indices (parties in the block, N)."""
    counts = np.zeros((samples, classes), dtype=np.int64)
    for block in blocks:
        for label in range(classes):
            counts[:, label] += (block == label).sum(axis=0)
    return counts
