"""Linear classifiers with which simulated parties vote, and the counts of their votes in the clear."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.parties.training import class_probabilities, votes


@dataclass(frozen=True)
class LinearVoter:
    """A linear classifier that predicts class indices: weights (d,) for two classes, (K, d) for more. Secret."""

    w: NDArray[np.float64] = field(repr=False)

    def predict_votes(self, X: NDArray[np.float64]) -> NDArray[np.integer]:
        """Return the class index of each sample, shape (N,), for samples of shape (N, d)."""
        return np.asarray(votes(self.w[None], X)[0])

    def predict_probabilities(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability of every class for each sample, shape (N, K), for samples of shape (N, d)."""
        return class_probabilities(self.w, X)


class LinearVoters(Sequence[LinearVoter]):
    """The classifiers of all parties, made when they are read, since a million objects take a gigabyte.

    `w`: the parties' weights, (M, d) or (M, K, d).
    """

    def __init__(self, w: NDArray[np.float64]) -> None:
        self._w = w

    def __len__(self) -> int:
        return len(self._w)

    def __getitem__(self, at: Any) -> Any:
        return [LinearVoter(w) for w in self._w[at]] if isinstance(at, slice) else LinearVoter(self._w[at])


def count_votes(blocks: Iterable[NDArray[np.integer]], samples: int, classes: int) -> NDArray[np.int64]:
    """Count the votes of blocks of parties, (parties in the block, N) each, for each sample and class: int64 (N, K)."""
    counts = np.zeros((samples, classes), dtype=np.int64)
    for block in blocks:
        for label in range(classes):
            counts[:, label] += (block == label).sum(axis=0)
    return counts
