"""Fitting of public feature maps (`psephos.data.feature_map`) to public rows, and the choice among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from psephos.data.feature_map import (
    MOST_NUMBERS,
    UNIT,
    Block,
    FeatureMap,
    Forest,
    Fourier,
    Landmarks,
    Products,
    Tree,
    log_odds,
)
from psephos.protocol.errors import InvalidParameter

Array = NDArray[np.float64]

Features = Literal["auto", "linear", "forest", "landmarks", "products", "fourier"]

FEWEST_FOREST = 40
"""The fewest labelled public rows that a forest is grown on."""

MARGIN = 2.0
"""Standard errors of the cross-validated log loss by which `auto` prefers another block beside the log odds."""

_TREES, _LEAVES, _SMALLEST_LEAF = 200, 128, 2  # of the forest whose log odds are one column
_SHOWN_TREES, _SHOWN_LEAVES, _SMALLEST_SHOWN_LEAF = 80, 16, 4  # of that with one column for each tree
_LANDMARKS, _WAVES, _COMPONENTS = 150, 60, 10
_MOST_ROWS = 1000  # public rows that bandwidths are measured on and maps are compared on
_FOLDS, _REGULARISATION = 5, 0.3  # of the logistic regressions that compare maps
_BANDWIDTHS = (0.1, 0.3, 1.0)  # squares, as shares of the median squared distance of two public rows
_STREAM = 53  # the key of the Philox stream that waves and samples of public rows are drawn from


@dataclass(frozen=True)
class FittedMap:
    """A map, and what the public rows become.

    Attributes:
        map: None where the columns alone are features.
        rows: the mapped public rows, (N, d + e): as `FeatureMap.apply`, except that the log odds of a row that the
            forest was grown on are those of the trees grown without it.
        note: what was chosen and why, one line; "" if nothing had to be chosen.
    """

    map: FeatureMap | None
    rows: Array
    note: str = ""


def fit_features(features: Features, X: Array, y: NDArray[Any], classes: int) -> FittedMap:
    """Fit a map to public rows, the same for the same rows and versions of NumPy and scikit-learn.

    `auto` takes the log odds of a forest where `FEWEST_FOREST` rows of two classes have labels, and with it products,
    Fourier features or landmarks where the cross-validated log loss of a logistic regression is smaller by `MARGIN` of
    its standard errors; otherwise nothing.

    Args:
        X: encoded public rows, float64 (N, d).
        y: their class numbers, int64 (N,), -1 for none. With `classes` 0 numbers, which no map looks at.

    Raises:
        InvalidParameter: a forest was asked for, and too few rows have labels.
    """
    known = np.flatnonzero(y >= 0) if classes else np.empty(0, dtype=np.intp)
    labelled = len(known) >= FEWEST_FOREST and len(np.unique(y[known])) > 1
    if features == "forest" and not labelled:
        raise InvalidParameter(
            f"a forest is grown on {FEWEST_FOREST} public rows or more whose labels are of two classes or more: choose "
            "another of --features, or label public rows"
        )
    if features == "linear":
        return FittedMap(None, X)
    if features == "auto" and not labelled:
        missing = f"fewer than {FEWEST_FOREST} public rows have labels" if classes else "the label is a number"
        note = f"{missing}, so no forest can be grown: the model is linear; --features products, landmarks or fourier"
        return FittedMap(None, X, f"{note} can be asked for")
    fitter = _Fitter(X, y, known if labelled else known[:0], classes)
    if features == "auto":
        return fitter.chosen()
    fits: dict[str, Callable[[], Block]] = {
        "forest": fitter.trees,
        "landmarks": fitter.landmarks,
        "products": fitter.products,
        "fourier": fitter.fourier,
    }
    return fitter.fitted([fits[features]()])


class _Fitter:
    """Fits blocks to the public rows; `known` are the places of those whose labels are used."""

    def __init__(self, X: Array, y: NDArray[Any], known: NDArray[np.intp], classes: int) -> None:
        means, deviations = X.mean(axis=0), X.std(axis=0)
        constant = deviations <= 16 * np.finfo(float).eps * np.abs(X).max(axis=0)
        self.scale = tuple(means.tolist()), tuple(np.where(constant, 1.0, deviations).tolist())
        self.X, self.known, self.classes = X, known, classes
        self.rows = FeatureMap(*self.scale, blocks=(Products(((0,) * X.shape[1],)),)).integers(X)
        self.labels = np.asarray(y[known], dtype=np.int64)
        self.stream = np.random.RandomState(np.random.Philox(_STREAM))  # whose draws no version of NumPy changes
        order = self.stream.permutation(len(X))
        self.sample = self.rows[np.sort(order[:_MOST_ROWS])]
        self.most = MOST_NUMBERS // 2 // X.shape[1]  # points or directions of a block
        self.points = self.rows[np.sort(order[: min(_LANDMARKS, self.most)])]
        self.compared = np.sort(self.stream.permutation(len(known))[:_MOST_ROWS])

    def fitted(self, blocks: list[Block], votes: Array | None = None, note: str = "") -> FittedMap:
        """Return the map of these blocks; `votes`: what the first gives for the rows that the forest was grown on."""
        fitted = FeatureMap(*self.scale, blocks=tuple(blocks))
        rows = fitted.apply(self.X)
        if votes is not None:
            width = self.X.shape[1]
            rows[self.known, width : width + votes.shape[1]] = votes
        return FittedMap(fitted, rows, note)

    # -- the choice

    def chosen(self) -> FittedMap:
        """Return the log odds of a forest, with another block where that is better by a clear margin."""
        forest, votes = self.log_odds()
        rows = self.rows[self.known][self.compared]
        columns = np.concatenate([rows / UNIT, votes[self.compared]], axis=1)
        least = self.losses(columns)
        best: tuple[float, Block | None] = 0.0, None
        fits: list[Callable[[], Block]] = [self.products, self.fourier, self.landmarks]
        for fit in fits:
            block = fit()
            gain = least - self.losses(np.concatenate([columns, block.apply(rows)], axis=1))
            if gain.mean() > MARGIN * gain.std() / np.sqrt(len(gain)) and gain.mean() > best[0]:
                best = float(gain.mean()), block
        blocks: list[Block] = [forest] if best[1] is None else [forest, best[1]]
        note = "chosen on the public rows alone (--features auto): the columns, and "
        return self.fitted(blocks, votes, note + FeatureMap(*self.scale, blocks=tuple(blocks)).summary)

    def losses(self, columns: Array) -> Array:
        """Return the log loss of each compared row by a logistic regression on the others' folds, (n,)."""
        from sklearn.linear_model import LogisticRegression

        labels, losses = self.labels[self.compared], np.empty(len(columns))
        folds = np.argsort(np.argsort(labels, kind="stable"), kind="stable") % _FOLDS  # each class in all folds
        for fold in range(_FOLDS):
            train, test = folds != fold, folds == fold
            mean, spread = columns[train].mean(axis=0), columns[train].std(axis=0) + 1e-9
            scaled, shares = (columns - mean) / spread, np.zeros((test.sum(), self.classes))
            model = LogisticRegression(C=_REGULARISATION, max_iter=300).fit(scaled[train], labels[train])
            shares[:, model.classes_] = model.predict_proba(scaled[test])
            losses[test] = -np.log(np.maximum(shares[np.arange(len(shares)), labels[test]], 1e-4))
        return losses

    # -- forests

    def log_odds(self) -> tuple[Forest, Array]:
        """Return a forest that gives its log odds, and those of the rows that it was grown on, out of bag, (n, k)."""
        model = self._grown(_TREES, _LEAVES, _SMALLEST_LEAF)
        forest = self._forest(model, "log-odds")
        rows = self.rows[self.known]
        votes, trees = np.zeros((len(rows), forest.width), dtype=np.int64), np.zeros((len(rows), 1), dtype=np.int64)
        for tree, drawn in zip(forest.trees, model.estimators_samples_, strict=True):
            without = np.setdiff1d(np.arange(len(rows)), drawn)
            votes[without] += tree.leaves(rows[without], forest.width)
            trees[without] += 1
        never = trees[:, 0] == 0  # a row that every tree has drawn: the frequencies of the classes
        shares = np.bincount(self.labels, minlength=self.classes) / len(rows)
        votes[never], trees[never] = np.rint(UNIT * shares[-forest.width :]), 1
        return forest, log_odds(votes, trees)

    def trees(self) -> Forest:
        """Return a smaller forest that gives the shares in each tree."""
        return self._forest(self._grown(_SHOWN_TREES, _SHOWN_LEAVES, _SMALLEST_SHOWN_LEAF), "trees")

    def _grown(self, trees: int, leaves: int, smallest: int) -> Any:
        """Return scikit-learn's forest, of at most half the numbers that a map may have."""
        from sklearn.ensemble import RandomForestClassifier

        most = max(2, MOST_NUMBERS // (2 * trees * (3 + self.classes)))
        return RandomForestClassifier(
            trees, max_leaf_nodes=min(leaves, most), min_samples_leaf=smallest, random_state=0, n_jobs=1
        ).fit(self.rows[self.known], self.labels)

    def _forest(self, model: Any, gives: Literal["log-odds", "trees"]) -> Forest:
        width = 1 if self.classes == 2 else self.classes
        trees = tuple(_exported(one.tree_, model.classes_, self.classes, width) for one in model.estimators_)
        return Forest(gives, width, trees)

    # -- functions of the columns alone

    def landmarks(self) -> Landmarks:
        """Return Gaussian kernels at public rows: of the bandwidth with the least log loss, or of the median one."""
        median = self._median_distance()
        points = tuple(map(tuple, self.points.tolist()))
        candidates = [Landmarks(points, 1 / (share * median)) for share in _BANDWIDTHS]
        if not len(self.known):
            return candidates[-1]
        rows = self.rows[self.known][self.compared]
        losses = [float(self.losses(np.c_[rows / UNIT, one.apply(rows)]).mean()) for one in candidates]
        return candidates[int(np.argmin(losses))]

    def fourier(self) -> Fourier:
        """Return random Fourier features of the Gaussian kernel with the median bandwidth."""
        spread = np.sqrt(2 / self._median_distance()) / (2 * np.pi)
        waves = min(_WAVES, self.most)
        directions = self.stream.standard_normal((waves, self.rows.shape[1])) * spread
        phases = self.stream.randint(0, UNIT**2, size=waves)
        return Fourier(_whole(directions), tuple(phases.tolist()))

    def products(self) -> Products:
        """Return products of the columns, or of their leading principal components where there are many."""
        width = self.rows.shape[1]
        if width <= _COMPONENTS:
            return Products(_whole(np.eye(width)))
        rows = self.rows / UNIT
        _, values, axes = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
        kept = values[:_COMPONENTS] > 1e-9 * values[0]
        deviations = values[:_COMPONENTS][kept] / np.sqrt(len(rows))
        axes = axes[:_COMPONENTS][kept]
        signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])  # which an SVD leaves open
        return Products(_whole(axes * (signs / deviations)[:, None]))

    def _median_distance(self) -> float:
        """Return the median of the squared distances of two sampled public rows, in squared deviations."""
        rows = self.sample / UNIT
        squares = (rows**2).sum(axis=1)
        distances = squares[:, None] + squares - 2 * rows @ rows.T
        return max(float(np.median(distances[np.triu_indices(len(rows), 1)])), 1e-3)


def _whole(numbers: Array) -> tuple[tuple[int, ...], ...]:
    """Return numbers (k, d) in multiples of 1 / `UNIT`."""
    return tuple(map(tuple, np.rint(numbers * UNIT).astype(np.int64).tolist()))


def _exported(tree: Any, known: NDArray[Any], classes: int, width: int) -> Tree:
    """Return a tree of scikit-learn; entries of rows are whole numbers, so that its thresholds can be rounded down."""
    columns, thresholds, values = [], [], []
    waiting = [0]
    while waiting:
        node = waiting.pop()
        if tree.children_left[node] < 0:
            columns.append(-1)
            shares = np.zeros(classes)
            shares[known] = tree.value[node, 0] / tree.value[node, 0].sum()
            values += np.rint(UNIT * shares[-width:]).astype(np.int64).tolist()
        else:
            columns.append(int(tree.feature[node]))
            thresholds.append(int(np.floor(tree.threshold[node])))
            waiting += [tree.children_right[node], tree.children_left[node]]
    return Tree(tuple(columns), tuple(thresholds), tuple(values))
