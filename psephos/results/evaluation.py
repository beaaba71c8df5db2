"""Test-set scores of the classifiers of a simulation, and their summary by method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.curator.hamm.labels import one_hot
from psephos.curator.remembered import remembered
from psephos.data.splits import Split
from psephos.parties.training import votes
from psephos.results.base import Accuracy, rare_class

Array = NDArray[np.float64]

TREE_ROWS, TREE_CELLS = 5_000, 1_000_000
"""Largest number of rows, and of their features together, on which trees are trained."""

_LARGEST = 1e30  # of a feature: trees of scikit-learn have single precision, and a private cell must not stop a run


@remembered
def _forest(seed: int, X: Array, y: NDArray[np.int64]) -> Any:
    """Fit a random forest to public rows."""
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(random_state=seed).fit(X, y)


@dataclass(frozen=True)
class Score:
    """Test-set performance of one classifier.

    `recall` is float64 (K,), NaN for a class without test samples; `w` float64 (d,) or (K, d), on scaled features, or
    None where the method is no single linear classifier. `epsilon` and `draw` are None without noise. `auroc` is NaN
    where no class is rare, or the method ranks no samples.
    """

    method: str
    epsilon: float | None
    draw: int | None
    accuracy: float
    recall: Array
    w: Array | None = field(default=None, repr=False)
    auroc: float = np.nan

    @property
    def balanced(self) -> float:
        """Balanced accuracy: mean recall over the classes that occur in the test set."""
        return float(np.nanmean(self.recall))


@dataclass
class Evaluation:
    """Values that a simulation computes besides those in the JSON of its result.

    All of them are secret: they are computed on private rows and no epsilon covers them. `sums` are the opened sums by
    phase; `contributions` has the phase, round, `PartyFactory` and, where one process runs all roles, the vectors of
    each sum; `counts` is int64 (N, K), or None where the curator does not learn them; `test` float64 (T, d), scaled;
    `rare`: whether a class is rare in the test samples (`rare_class`).
    """

    scores: list[Score] = field(default_factory=list, repr=False)
    sums: dict[str, list[Any]] = field(default_factory=dict, repr=False)
    contributions: list[tuple[str, Any, Any, Mapping[int, tuple[int, ...]]]] = field(default_factory=list, repr=False)
    counts: NDArray[np.int64] | None = field(default=None, repr=False)
    split: Split | None = field(default=None, repr=False)
    scaler: Any = None
    test: Array = field(default_factory=lambda: np.empty((0, 0)), repr=False)
    rare: bool = False

    def start(self, split: Split, scaler: Any, test: Array) -> None:
        """Set the data to evaluate on, and add the baseline "majority" once: the parties' most frequent class."""
        self.split, self.scaler, self.test = split, scaler, test
        self.rare = rare_class(self.class_shares)
        if not self.scores:
            labels = split.dataset.y_train[np.concatenate(split.parties)]
            majority = np.bincount(labels, minlength=len(split.dataset.classes)).argmax()  # of no rows the first class
            shares = one_hot(np.full(len(test), majority), len(split.dataset.classes))
            self.add_vote_shares("majority", shares, scores=shares)

    @property
    def class_shares(self) -> list[float]:
        """The share of each class in the test samples; empty without any."""
        assert self.split is not None
        counts = np.bincount(self.split.y_test, minlength=len(self.split.dataset.classes))
        return [] if not len(self.test) else list(map(float, counts / len(self.test)))

    def add_classifier(self, method: str, w: Array, epsilon: float | None = None) -> None:
        """Add the score of a linear classifier of weights (d,) or (K, d); `epsilon` None for one without noise."""
        assert self.split is not None
        shares = one_hot(votes(w[None], self.test)[0], len(self.split.dataset.classes))
        scores = self.test @ (np.stack([-w, w]) if w.ndim == 1 else w).T if self.rare else None
        self.add_vote_shares(method, shares, scores=scores, epsilon=epsilon, w=w)

    def add_trees(self, rows: NDArray[np.integer], seed: int) -> int:
        """Add "trees": gradient-boosted trees of these rows of the data set. Return how many were used."""
        from sklearn.ensemble import HistGradientBoostingClassifier  # imported here because it takes long

        trees = HistGradientBoostingClassifier(max_iter=50, early_stopping=False, random_state=seed)
        return self._add_fitted("trees", trees.fit, rows, seed)

    def add_forest(self, rows: NDArray[np.integer], seed: int) -> int:
        """Add "public-forest": a random forest of these public rows of the data set. Return how many were used."""
        return self._add_fitted("public-forest", partial(_forest, seed), rows, seed)

    def _add_fitted(
        self, method: str, fit: Callable[[Array, NDArray[np.int64]], Any], rows: NDArray[np.integer], seed: int
    ) -> int:
        """Fit a classifier to some of these rows, as they are where they are dense, and add its score."""
        assert self.split is not None
        data, classes = self.split.dataset, len(self.split.dataset.classes)
        most = min(TREE_ROWS, TREE_CELLS // data.features)
        if len(rows) > most:
            rows = np.random.default_rng(seed).permutation(rows)[:most]
        if not len(self.test) or len(np.unique(data.y_train[rows])) < 2:
            return 0
        X, test = data.X_train[rows], self.split.X_test
        if self.split.encoding is not None:  # the columns of the table, which come first
            X, test = (each[:, : len(self.split.encoding.inputs)] for each in (X, test))
        if not isinstance(X, np.ndarray):
            X, test = self.scaler.transform(X), self.test
        X, test = (np.clip(each, -_LARGEST, _LARGEST) for each in (X, test))
        chances = np.zeros((len(self.test), classes))
        classifier = fit(X, data.y_train[rows])
        chances[:, classifier.classes_] = classifier.predict_proba(test)
        self.add_vote_shares(method, one_hot(chances.argmax(axis=1), classes), scores=chances)
        return len(rows)

    def add_vote_shares(
        self,
        method: str,
        shares: NDArray[Any],
        *,
        scores: NDArray[Any] | None = None,
        rows: Any = slice(None),
        epsilon: float | None = None,
        w: Array | None = None,
    ) -> None:
        """Add the score of a method from its share of votes for each class, (T', K), on the test samples `rows`.

        A sample counts as correct by the share that its true class got. `scores`, (T', K), rank the classes of each
        sample; where a class is rare, they give the AUROC.
        """
        assert self.split is not None
        y = self.split.y_test[rows]
        correct = shares[np.arange(len(y)), y]
        recall = [correct[y == k].mean() if (y == k).any() else np.nan for k in range(shares.shape[1])]
        previous = sum(score.method == method and score.epsilon == epsilon for score in self.scores)
        draw = None if epsilon is None else previous
        accuracy = float(correct.mean()) if len(y) else np.nan
        ranked = auroc(scores, y) if scores is not None and self.rare else np.nan
        self.scores.append(Score(method, epsilon, draw, accuracy, np.array(recall), w, ranked))

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
        several, exact = len(releases) > 1, nonprivate[0] if nonprivate else None
        return Accuracy(
            nonprivate=None if exact is None else exact.accuracy,
            private=float(private.mean()) if releases else None,
            private_std=float(private.std(ddof=1)) if several else None,
            balanced=float(balanced.mean()),
            balanced_std=float(balanced.std(ddof=1)) if several else None,
            recall=_nan_to_none(recall.mean(axis=0)),
            recall_std=_nan_to_none(recall.std(axis=0, ddof=1)) if several else [],
            auroc=_number(float(np.mean([score.auroc for score in scores]))),
            nonprivate_balanced=None if exact is None else exact.balanced,
            nonprivate_auroc=None if exact is None else _number(exact.auroc),
        )


def auroc(scores: Array, y: NDArray[np.integer]) -> float:
    """Return the area under the ROC curve of each class against all others, from its margin, on average over classes.

    `scores`: (T, K); `y`: class numbers, (T,). NaN if there are not two classes. A tie counts one half.
    """
    from scipy.stats import rankdata  # imported here because it takes long

    areas = []
    for number in np.unique(y):
        positive = y == number
        ranks = rankdata(scores[:, number] - np.delete(scores, number, axis=1).max(axis=1))
        pairs = positive.sum() * (~positive).sum()
        if pairs:
            areas.append((ranks[positive].sum() - positive.sum() * (positive.sum() + 1) / 2) / pairs)
    return float(np.mean(areas)) if areas else np.nan


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value


def _nan_to_none(values: Array) -> list[float | None]:
    return [_number(float(value)) for value in values]
