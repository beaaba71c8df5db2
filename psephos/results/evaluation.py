"""What simulated classifiers are worth: each one on the test set, and all of them as an outcome tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.curator.hamm.labels import one_hot
from psephos.data.splits import Split
from psephos.parties.training import votes
from psephos.results import Accuracy

__all__ = ["Evaluation", "Score"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Score:
    """One classifier on the test set.

    Attributes:
        method: as in `psephos.results.METHODS`.
        epsilon, draw: at which it was released, and which release it is; None for what is not private.
        accuracy: the share of the samples that it recognises.
        recall: of the samples of each class, (K,); NaN where the test set has none.
        w: its weights, (d,) or (K, d), on scaled features; None where there is no one linear classifier.
    """

    method: str
    epsilon: float | None
    draw: int | None
    accuracy: float
    recall: Array
    w: Array | None = field(default=None, repr=False)

    @property
    def balanced(self) -> float:
        """The mean recall of the classes that the test set has."""
        return float(np.nanmean(self.recall))


@dataclass
class Evaluation:
    """What a simulation has besides its outcome, for whoever hands one in. Secrets.

    Attributes:
        measured: every classifier, one after the other.
        sums: what the curator opened, by what was summed; one entry for each sum that was taken.
        contributed: every sum that was taken: its name, its round, what the parties put in and, where all roles were in
            one run, the vector of each by its number.
        counts: votes per auxiliary sample and class, (N, K), where the curator is given them.
        dealt, scaler, test: who held what, how it was scaled, and the scaled test samples, float64 (T, d).
    """

    measured: list[Score] = field(default_factory=list, repr=False)
    sums: dict[str, list[Any]] = field(default_factory=dict, repr=False)
    contributed: list[tuple[str, Any, Any, Mapping[int, tuple[int, ...]]]] = field(default_factory=list, repr=False)
    counts: NDArray[np.int64] | None = field(default=None, repr=False)
    split: Split | None = field(default=None, repr=False)
    scaler: Any = None
    test: Array = field(default_factory=lambda: np.empty((0, 0)), repr=False)

    def begin(self, split: Split, scaler: Any, test: Array) -> None:
        """Before anything is measured, on `test` (T, d); keeps what always says the parties' most frequent class."""
        self.split, self.scaler, self.test = split, scaler, test
        if not self.measured:
            usual = np.bincount(split.dataset.y_train[np.concatenate(split.parties)]).argmax()
            self.shares("majority", self._one_hot(np.full(len(test), usual)))

    def classifier(self, method: str, w: Array, epsilon: float | None = None) -> None:
        """Keep linear weights w, (d,) or (K, d): without noise, or one more release at `epsilon`."""
        self.shares(method, self._one_hot(votes(w[None], self.test)[0]), epsilon=epsilon, w=w)

    def shares(
        self,
        method: str,
        shares: NDArray[Any],
        *,
        rows: Any = slice(None),
        epsilon: float | None = None,
        w: Array | None = None,
    ) -> None:
        """Keep the shares of votes, (T', K), that each class got on the test samples of these `rows`."""
        assert self.split is not None
        y = self.split.y_test[rows]
        right = shares[np.arange(len(y)), y]
        recall = [right[y == k].mean() if (y == k).any() else np.nan for k in range(shares.shape[1])]
        before = sum(one.method == method and one.epsilon == epsilon for one in self.measured)
        draw = None if epsilon is None else before
        accuracy = float(right.mean()) if len(y) else np.nan
        self.measured.append(Score(method, epsilon, draw, accuracy, np.array(recall), w))

    def _one_hot(self, labels: NDArray[np.integer]) -> Array:
        assert self.split is not None
        return one_hot(labels, len(self.split.dataset.classes))

    def accuracy(self, epsilon: float) -> dict[str, Accuracy]:
        """Of each method: without noise, and on average over its releases at `epsilon`; none without test samples."""
        if not len(self.test):
            return {one.method: Accuracy() for one in self.measured}
        return {name: self._accuracy(name, epsilon) for name in dict.fromkeys(one.method for one in self.measured)}

    def _accuracy(self, name: str, epsilon: float) -> Accuracy:
        bare = [one for one in self.measured if one.method == name and one.epsilon is None]
        drawn = [one for one in self.measured if one.method == name and one.epsilon == epsilon]
        private, shown = [one.accuracy for one in drawn], drawn or bare
        balanced, recall = [one.balanced for one in shown], np.array([one.recall for one in shown])
        several = len(drawn) > 1
        return Accuracy(
            nonprivate=bare[0].accuracy if bare else None,
            private=float(np.mean(private)) if private else None,
            private_std=float(np.std(private, ddof=1)) if several else None,
            balanced=float(np.mean(balanced)),
            balanced_std=float(np.std(balanced, ddof=1)) if several else None,
            recall=_numbers(recall.mean(axis=0)),
            recall_std=_numbers(recall.std(axis=0, ddof=1)) if several else [],
        )


def _numbers(values: Array) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
