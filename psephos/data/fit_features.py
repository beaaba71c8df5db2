"""Fitting of public feature maps (`psephos.data.feature_map`) to public rows, and the choice among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from psephos.curator.checks import folds_of
from psephos.curator.remembered import remembered
from psephos.data.feature_map import (
    MOST_COLUMNS,
    MOST_LEVELS,
    MOST_NUMBERS,
    MOST_TREES,
    UNIT,
    Block,
    FeatureMap,
    Forest,
    Fourier,
    Landmarks,
    Products,
    Tree,
    grown_rows,
)
from psephos.protocol.errors import InvalidParameter

Array = NDArray[np.float64]

Features = Literal["auto", "linear", "forest", "landmarks", "products", "fourier"]

FEWEST_FOREST = 40
"""The fewest labelled public rows that a forest is grown on."""

FEATURES_HELP = (
    "What is computed of the columns, by a map fitted to public rows, before a linear model is: nothing more "
    "(linear), the shares in the trees of a forest (forest, for which public rows need labels), Gaussian kernels "
    "at public rows (landmarks), products of pairs of columns (products), or random Fourier features (fourier). "
    f"auto: the log odds of a forest where {FEWEST_FOREST} public rows or more have labels, with one of the latter "
    "where that is clearly better on them; otherwise linear."
)

FEWEST_COMPARED = 100
"""The fewest labelled public rows on which `auto` compares other blocks."""

MARGIN = 2.0
"""Standard errors of the cross-validated log loss by which `auto` prefers another block beside the log odds."""

_TREES, _LEAVES, _SMALLEST_LEAF = MOST_TREES, 128, 2  # of the forest whose log odds are one column
_SHOWN_TREES, _SHOWN_LEAVES, _SMALLEST_SHOWN_LEAF = 80, 16, 4  # of that with one column for each tree
_LANDMARKS, _WAVES, _COMPONENTS = 150, 60, 10
_MOST_ROWS = 1000  # public rows that bandwidths are measured on and maps are compared on
_REGULARISATION = (0.003, 0.03, 0.3)  # of the logistic regressions that compare maps
_BANDWIDTHS = (0.1, 0.3, 1.0)  # squares, as shares of the median squared distance of two public rows
_LEAST_DEVIATION = 1e-100  # columns with less are constant
_STREAM = 53  # the key of the Philox stream that waves and samples of public rows are drawn from


@dataclass(frozen=True)
class FittedMap:
    """A map, and what the public rows become.

    Attributes:
        map: None where the columns alone are features.
        rows: the mapped public rows, (N, d + e), as by `FeatureMap.apply_to_public`.
        note: what was chosen and why, one line; "" if nothing had to be chosen.
    """

    map: FeatureMap | None
    rows: Array
    note: str = ""


def fit_features(features: Features, X: Array, y: NDArray[Any], classes: int) -> FittedMap:
    """Fit a map to public rows, the same for the same rows and versions of NumPy and scikit-learn.

    `auto` takes the log odds of a forest where `FEWEST_FOREST` rows of two classes have labels; with it, from
    `FEWEST_COMPARED` on, trees, products, Fourier features or landmarks where the cross-validated log loss of a
    logistic regression is smaller by `MARGIN` of its standard errors; otherwise nothing.

    Args:
        X: encoded public rows, float64 (N, d).
        y: their class numbers, int64 (N,), -1 for none. With `classes` 0 numbers, which no map looks at.

    Raises:
        InvalidParameter: a forest was asked for, and too few rows have labels.
    """
    known = grown_rows(np.flatnonzero(y >= 0)) if classes else np.empty(0, dtype=np.intp)
    labelled = len(known) >= FEWEST_FOREST and len(np.unique(y[known])) > 1
    few = f"fewer than {FEWEST_FOREST} public rows have labels, or all have the same, so no forest can be grown"
    if features == "forest" and not labelled:
        raise InvalidParameter(f"{few}: choose another of --features, or label public rows")
    if features == "linear":
        return FittedMap(None, X)
    if features == "auto" and not labelled:
        return FittedMap(
            None, X, f"{few}: the model is linear (--features products, landmarks or fourier need no labels)"
        )
    return _fit(features, X, y, known if labelled else known[:0], classes)


@remembered
def _fit(features: Features, X: Array, y: NDArray[Any], known: NDArray[np.intp], classes: int) -> FittedMap:
    fitter = _Fitter(X, y, known, classes)
    return fitter.chosen() if features == "auto" else fitter.fitted([fitter.fits[features]()])


def kind_of_map(stated: FeatureMap) -> Features:
    """Return what was asked for where a map was fitted."""
    tag: Any = stated.blocks[0].__struct_config__.tag
    kind: Features = "auto" if stated.log_odds else tag
    return kind


class _Fitter:
    """Fits blocks to the public rows; `known` are the places of those whose labels are used.

    Attributes:
        fits: what fits each kind of block, in the order in which they are compared.
        comparable: whether two classes are outside every fold of the rows that maps are compared on.
    """

    def __init__(self, X: Array, y: NDArray[Any], known: NDArray[np.intp], classes: int) -> None:
        means, deviations = X.mean(axis=0), X.std(axis=0)
        constant = deviations <= np.maximum(16 * np.finfo(float).eps * np.abs(X).max(axis=0), _LEAST_DEVIATION)
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
        self.comparable = np.sort(np.bincount(self.labels[self.compared], minlength=2))[-2] > 1
        self.fits: dict[str, Callable[[], Block]] = {
            "forest": self.trees,
            "products": self.products,
            "fourier": self.fourier,
            "landmarks": self.landmarks,
        }

    def fitted(self, blocks: list[Block], why: str = "") -> FittedMap:
        """Return the map of these blocks."""
        fitted = FeatureMap(*self.scale, blocks=tuple(blocks))
        note = why and f"the columns and {fitted.summary}, {why}"
        return FittedMap(fitted, fitted.apply_to_public(self.X, self.known), note)

    # -- the choice

    def chosen(self) -> FittedMap:
        """Return the log odds of a forest, with another block where that is better by a clear margin."""
        rows = self.rows[self.known][self.compared]
        blocks: list[Block] = [self.log_odds()]
        if self.comparable and len(rows) >= FEWEST_COMPARED:
            columns = np.concatenate([rows / UNIT, self.columns(blocks[0])], axis=1)
            losses, best = self.losses(columns), 0.0
            for fit in self.fits.values():
                block = fit()
                gain = losses - self.losses(np.concatenate([columns, self.columns(block)], axis=1))
                if gain.mean() > max(best, MARGIN * gain.std() / np.sqrt(len(gain))):
                    best, blocks = float(gain.mean()), [blocks[0], block]
        return self.fitted(blocks, "chosen on the public rows alone (--features auto)")

    def columns(self, block: Block) -> Array:
        """Return a block's columns of the compared rows, (n, e)."""
        rows = self.rows[self.known]
        return block.unseen(rows)[self.compared] if isinstance(block, Forest) else block.apply(rows[self.compared])

    def losses(self, columns: Array) -> Array:
        """Return the log loss of each compared row by a logistic regression on the others' folds, (n,), with the
        regularisation that has the least mean loss.
        """
        return min((self._losses(columns, strength) for strength in _REGULARISATION), key=np.mean)

    def _losses(self, columns: Array, strength: float) -> Array:
        from sklearn.linear_model import LogisticRegression

        labels, losses = self.labels[self.compared], np.empty(len(columns))
        by_class = np.argsort(np.argsort(labels, kind="stable"), kind="stable")  # each class is in all folds
        for out in folds_of(len(labels)):
            train, test = ~out[by_class], out[by_class]
            mean, spread = columns[train].mean(axis=0), columns[train].std(axis=0) + 1e-9
            scaled, shares = (columns - mean) / spread, np.zeros((test.sum(), self.classes))
            model = LogisticRegression(C=strength, tol=1e-3, max_iter=300).fit(scaled[train], labels[train])
            shares[:, model.classes_] = model.predict_proba(scaled[test])
            losses[test] = -np.log(np.maximum(shares[np.arange(len(shares)), labels[test]], 1e-4))
        return losses

    # -- forests

    def log_odds(self) -> Block:
        """Return a forest that gives its log odds."""
        return self._forest("log-odds", _TREES, _LEAVES, _SMALLEST_LEAF)

    def trees(self) -> Block:
        """Return a smaller forest that gives the shares in each tree."""
        trees = max(1, min(_SHOWN_TREES, MOST_COLUMNS // 2 // self.classes))
        return self._forest("trees", trees, _SHOWN_LEAVES, _SMALLEST_SHOWN_LEAF)

    def _forest(self, gives: Literal["log-odds", "trees"], trees: int, leaves: int, smallest: int) -> Forest:
        from sklearn.ensemble import RandomForestClassifier

        most = max(2, MOST_NUMBERS // (2 * trees * (3 + self.classes)))  # half the numbers of a map
        model = RandomForestClassifier(
            trees,
            max_depth=MOST_LEVELS,
            max_leaf_nodes=min(leaves, most),
            min_samples_leaf=smallest,
            random_state=0,
            n_jobs=1,
        ).fit(self.rows[self.known], self.labels)
        width = 1 if self.classes == 2 else self.classes
        exported = (_exported(one.tree_, model.classes_, self.classes, width) for one in model.estimators_)
        drawn = (f"{sum(1 << int(k) for k in np.unique(rows)):x}" for rows in model.estimators_samples_)
        return Forest(gives, width, tuple(exported), tuple(drawn))

    # -- functions of the columns alone

    def landmarks(self) -> Block:
        """Return Gaussian kernels at public rows: of the bandwidth with the least log loss, or of the median one."""
        median = self._median_distance()
        points = tuple(map(tuple, self.points.tolist()))
        candidates = [Landmarks(points, 1 / (share * median)) for share in _BANDWIDTHS]
        if not self.comparable:
            return candidates[-1]
        rows = self.rows[self.known][self.compared]
        losses = [float(self.losses(np.c_[rows / UNIT, one.apply(rows)]).mean()) for one in candidates]
        return candidates[int(np.argmin(losses))]

    def fourier(self) -> Block:
        """Return random Fourier features of the Gaussian kernel with the median bandwidth."""
        spread = np.sqrt(2 / self._median_distance()) / (2 * np.pi)
        waves = min(_WAVES, self.most)
        directions = self.stream.standard_normal((waves, self.rows.shape[1])) * spread
        phases = self.stream.randint(0, UNIT**2, size=waves)
        return Fourier(_whole(directions), tuple(phases.tolist()))

    def products(self) -> Block:
        """Return products of the columns, or of their leading principal components where there are many."""
        width = self.rows.shape[1]
        if width <= _COMPONENTS:
            return Products(_whole(np.eye(width)))
        rows = self.rows / UNIT
        _, values, axes = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
        deviations = np.maximum(values[:_COMPONENTS] / np.sqrt(len(rows)), 0.01)
        axes = axes[:_COMPONENTS]
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
