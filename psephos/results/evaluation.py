"""Test-set scores of the classifiers of a simulation, and their summary by method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.curator.hamm.labels import one_hot
from psephos.data.splits import Split
from psephos.parties.training import votes
from psephos.results.base import Accuracy

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Score:
    """Test-set performance of one classifier.

    `recall` is float64 (K,), NaN for a class without test samples; `w` float64 (d,) or (K, d), on scaled features, or
    None where the method is no single linear classifier. `epsilon` and `draw` are None without noise.
    """

    method: str
    epsilon: float | None
    draw: int | None
    accuracy: float
    recall: Array
    w: Array | None = field(default=None, repr=False)

    @property
    def balanced(self) -> float:
        """Balanced accuracy: mean recall over the classes that occur in the test set."""
        return float(np.nanmean(self.recall))


@dataclass
class Evaluation:
    """Values that a simulation computes besides those in the JSON of its result.

    All of them are secret: they are computed on private rows and no epsilon covers them. `sums` are the opened sums by
    phase; `contributions` has the phase, round, `PartyFactory` and, where one process runs all roles, the vectors of
    each sum; `counts` is int64 (N, K), or None where the curator does not learn them; `test` float64 (T, d), scaled.
    """

    scores: list[Score] = field(default_factory=list, repr=False)
    sums: dict[str, list[Any]] = field(default_factory=dict, repr=False)
    contributions: list[tuple[str, Any, Any, Mapping[int, tuple[int, ...]]]] = field(default_factory=list, repr=False)
    counts: NDArray[np.int64] | None = field(default=None, repr=False)
    split: Split | None = field(default=None, repr=False)
    scaler: Any = None
    test: Array = field(default_factory=lambda: np.empty((0, 0)), repr=False)

    def start(self, split: Split, scaler: Any, test: Array) -> None:
        """Set the data to evaluate on, and add the baseline "majority" once: the parties' most frequent class."""
        self.split, self.scaler, self.test = split, scaler, test
        if not self.scores:
            labels = split.dataset.y_train[np.concatenate(split.parties)]
            majority = np.bincount(labels, minlength=len(split.dataset.classes)).argmax()  # of no rows the first class
            self.add_vote_shares("majority", one_hot(np.full(len(test), majority), len(split.dataset.classes)))

    def add_classifier(self, method: str, w: Array, epsilon: float | None = None) -> None:
        """Add the score of a linear classifier of weights (d,) or (K, d); `epsilon` None for one without noise."""
        assert self.split is not None
        shares = one_hot(votes(w[None], self.test)[0], len(self.split.dataset.classes))
        self.add_vote_shares(method, shares, epsilon=epsilon, w=w)

    def add_vote_shares(
        self,
        method: str,
        shares: NDArray[Any],
        *,
        rows: Any = slice(None),
        epsilon: float | None = None,
        w: Array | None = None,
    ) -> None:
        """Add the score of a method from its share of votes for each class, (T', K), on the test samples `rows`.

        A sample counts as correct by the share that its true class got.
        """
        assert self.split is not None
        y = self.split.y_test[rows]
        correct = shares[np.arange(len(y)), y]
        recall = [correct[y == k].mean() if (y == k).any() else np.nan for k in range(shares.shape[1])]
        previous = sum(score.method == method and score.epsilon == epsilon for score in self.scores)
        draw = None if epsilon is None else previous
        accuracy = float(correct.mean()) if len(y) else np.nan
        self.scores.append(Score(method, epsilon, draw, accuracy, np.array(recall), w))

    def accuracy(self, epsilon: float) -> dict[str, Accuracy]:
        """Return the accuracy of each method, private ones as means at `epsilon`; empty without test samples."""
        methods = dict.fromkeys(score.method for score in self.scores)
        if not len(self.test):
            return {method: Accuracy() for method in methods}
        return {method: self._accuracy(method, epsilon) for method in methods}

    def _accuracy(self, method: str, epsilon: float) -> Accuracy:
        nonprivate = [score for score in self.scores if score.method == method and score.epsilon is None]
        releases = [score for score in self.scores if score.method == method and score.epsilon == epsilon]
        private, scores = np.array([score.accuracy for score in releases]), releases or nonprivate
        balanced, recall = np.array([score.balanced for score in scores]), np.array([score.recall for score in scores])
        several = len(releases) > 1
        return Accuracy(
            nonprivate=nonprivate[0].accuracy if nonprivate else None,
            private=float(private.mean()) if releases else None,
            private_std=float(private.std(ddof=1)) if several else None,
            balanced=float(balanced.mean()),
            balanced_std=float(balanced.std(ddof=1)) if several else None,
            recall=_nan_to_none(recall.mean(axis=0)),
            recall_std=_nan_to_none(recall.std(axis=0, ddof=1)) if several else [],
        )


def _nan_to_none(values: Array) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
