"""Scaling of rows into the unit ball, learned on public auxiliary samples only.

Every sensitivity in this library assumes ||x||_2 <= 1, exactly and not only up to rounding. The scaling must not depend
on private data, so `PublicScaler` is fitted on the auxiliary samples, and applied by every party to its own rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from psephos.protocol.errors import DataError, InvalidParameter

SCALINGS = ("max-norm", "unit-rows")
COLUMNS = (None, "standardise", "max-abs")
_DENSE_LIMIT = 1 << 28  # entries, 2 GiB


@dataclass(eq=False, repr=False, kw_only=True)
class PublicScaler(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Converts features (n, d) to float64 features with ||x||_2 <= 1 exactly, as learned on auxiliary rows only.

    The steps are applied in the order of the parameters below; each but the last is optional. Rows of a norm above 1
    after the last step, as private and test rows can have, are projected on the unit ball.

    Sparse input is accepted. Output is dense, without the columns that no auxiliary row uses. With `scaling`
    "unit-rows" and none of `margin`, `columns` and `components`, **nothing** is learned from the auxiliary rows,
    neither number nor shape, and every column is kept, as private auxiliary rows require.

    Args:
        margin: clip each feature to its range in the auxiliary rows, extended at both ends by this share of its width;
            None clips nothing. For dense input.
        columns: "standardise" subtracts each feature's auxiliary mean and divides by its standard deviation; "max-abs"
            divides by its largest auxiliary magnitude (by 1 where these are 0); None leaves features unchanged.
        components: number of principal components of the (centred) auxiliary rows; at most min(n, d).
        intercept: constant that is appended as a feature, since the models here have no intercept; 0 appends nothing.
        scaling: "max-norm" divides by the largest norm of an auxiliary row; "unit-rows" gives every row norm 1.

    Raises:
        InvalidParameter: an option is invalid; at `fit`.
        DataError: sparse features are too many to be made dense.
        ValueError: NaN, infinite or misshapen input; raised by scikit-learn.
    """

    scaling: str = "max-norm"
    columns: str | None = None
    components: int | None = None
    intercept: float = 0.0
    margin: float | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: None = None) -> PublicScaler:
        """Fit the scaler to the auxiliary rows X (n, d); y is ignored."""
        if self.scaling not in SCALINGS:
            raise InvalidParameter(f"scaling is one of {', '.join(SCALINGS)}; got {self.scaling!r}")
        if self.columns not in COLUMNS:
            raise InvalidParameter(f"columns is 'standardise', 'max-abs' or None; got {self.columns!r}")
        if not (np.isfinite(self.intercept) and self.intercept >= 0):
            raise InvalidParameter(f"intercept is a finite constant >= 0; got {self.intercept}")
        X = self._checked(X, reset=True)
        self.ranges_ = None if self.margin is None else _extended_ranges(X, self.margin)
        if self.components is not None and not 1 <= self.components <= min(X.shape):
            raise InvalidParameter(f"there are 1 to {min(X.shape)} components of these rows, not {self.components}")
        self.used_ = None
        learns = self.scaling != "unit-rows" or self.columns is not None or self.components is not None
        if learns and scipy.sparse.issparse(X):
            # Nothing can be learned from columns that no auxiliary row uses.
            self.used_ = np.unique(X.indices[X.data != 0])
        X = self._narrowed(X)
        self.mean_, self.deviation_ = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if self.columns is not None:
            largest = np.abs(X).max(axis=0)
            spread = largest
            if self.columns == "standardise":
                self.mean_ = _column_means(X)
                spread = np.sqrt(_column_means((X - self.mean_) ** 2))
            # A constant column's computed deviation can be rounding noise instead of 0.
            self.deviation_ = np.where(spread > 16 * np.finfo(float).eps * largest, spread, 1.0)
            X = (X - self.mean_) / self.deviation_
        self.pca_ = None
        if self.components is not None:
            self.pca_ = self._fit_pca(X)
        Z = self._append(X if self.pca_ is None else self.pca_.transform(X))
        norm = float(_norms(Z).max()) if self.scaling == "max-norm" else 1.0
        self.scale_ = norm if norm > 0 else 1.0
        self._n_features_out = Z.shape[1]
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the rows X (n, d) scaled, float64 (n, d'); the exact norm of every row is at most 1.

        There may be none: one private row must not decide whether a party can take part.
        """
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        if not X.shape[0]:
            return np.empty((0, self._n_features_out))
        X = self._narrowed(X)
        if self.ranges_ is not None:
            X = np.clip(X, *self.ranges_)
        if self.columns is not None:
            X = (X - self.mean_) / self.deviation_
        Z = self._append(X if self.pca_ is None else self.pca_.transform(X))
        if self.scaling == "unit-rows":
            norms = _norms(Z)[:, None]
            return project_on_unit_ball(np.divide(Z, norms, out=np.zeros_like(Z), where=norms > 0))
        return project_on_unit_ball(Z / self.scale_)

    def fold(self, w: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return coefficients (k, d) and intercepts (k,), for unscaled rows, of a classifier (k, d') of scaled rows.

        A row is divided by a positive number, its norm or the largest one, which changes no decision. Without PCA the
        result has the same bits on every machine: the operations are those of IEEE 754, and sums are rounded once.
        """
        check_is_fitted(self)
        width = w.shape[1] - (1 if self.intercept else 0)
        w, intercept = w[:, :width], w[:, width:].sum(axis=1) * self.intercept
        if self.pca_ is not None:
            w = w @ self.pca_.components_
            intercept = intercept - w @ self.pca_.mean_
        w = w / self.deviation_
        terms = np.column_stack([intercept, -w * self.mean_])
        intercept = np.array([math.fsum(row) for row in terms.tolist()])
        if self.used_ is not None:
            narrow, w = w, np.zeros((len(w), self.n_features_in_))
            w[:, self.used_] = narrow
        return w, intercept

    def unfold(self, w: NDArray[np.float64], intercepts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the classifier (k, d') of scaled rows of which `fold` makes this one, (k, d) and (k,).

        Raises InvalidParameter if the scaler reduces features, or has no intercept.
        """
        check_is_fitted(self)
        if self.pca_ is not None or self.used_ is not None or not self.intercept:
            raise InvalidParameter("a classifier is scaled only with an intercept, and where no feature is left out")
        constant = (intercepts + w @ self.mean_) / self.intercept
        return np.column_stack([w * self.deviation_, constant])

    def unscaled(self, places: Sequence[int]) -> NDArray[np.float64] | None:
        """Return unscaled columns as linear functions of scaled rows divided by their constant, (d', k); None for none.

        Raises as `unfold`.
        """
        if not places:
            return None
        chosen = np.zeros((len(places), self.n_features_in_))
        chosen[range(len(places)), places] = 1
        return self.unfold(chosen, np.zeros(len(places))).T

    def _checked(self, X: Any, reset: bool) -> Any:
        fewest = 1 if reset else 0
        return validate_data(self, X, reset=reset, accept_sparse="csr", dtype=np.float64, ensure_min_samples=fewest)

    def _narrowed(self, X: Any) -> Any:
        """Return the used columns of sparse X (all if `used_` is None), as a dense array unless PCA follows."""
        if self.used_ is not None:
            X = scipy.sparse.csr_array(X)[:, self.used_]
        if not scipy.sparse.issparse(X) or (self.components is not None and self.columns is None):
            return X
        if X.shape[0] * X.shape[1] > _DENSE_LIMIT:
            raise DataError(f"{X.shape} sparse features are too many: reduce them with `components`, without `columns`")
        return X.toarray()

    def _fit_pca(self, X: Any) -> Any:
        from sklearn.decomposition import PCA

        if not scipy.sparse.issparse(X):
            return PCA(self.components, svd_solver="full").fit(X)
        if self.components is not None and self.components >= min(X.shape):
            raise InvalidParameter(f"sparse rows have fewer than {min(X.shape)} components, not {self.components}")
        return PCA(self.components, svd_solver="arpack", random_state=0).fit(X)

    def _append(self, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        if not self.intercept:
            return Z
        return np.concatenate([Z, np.full((len(Z), 1), float(self.intercept))], axis=1)


def _column_means(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of each column; a sum is rounded once, so that all machines have the same bits."""
    return np.array([math.fsum(column) for column in X.T.tolist()]) / len(X)


def _extended_ranges(X: Any, margin: float) -> NDArray[np.float64]:
    """Return the range of each feature, extended at both ends, float64 (2, d), with the same bits on every machine."""
    if scipy.sparse.issparse(X) or not (np.isfinite(margin) and margin >= 0):
        raise InvalidParameter(f"the margin is a finite number >= 0, for dense features; it is {margin}")
    low, high = X.min(axis=0), X.max(axis=0)
    return np.stack([low - margin * (high - low), high + margin * (high - low)])


def project_on_unit_ball(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return X, float64 (n, d), with the rows of norm above 1 scaled to norm 1; the exact norms are at most 1.

    A computed sum of d squares is off by a relative (d + 1) 2^-53 at most, in whatever order it is summed; a row
    counts as inside only if its computed squared norm stays below 1 by twice that. Returns X if all rows are inside.
    """
    limit = 1 - (X.shape[1] + 4) * 2.0**-52
    squared = _squared_norms(X)
    outside = np.flatnonzero(squared > limit)
    if not len(outside):
        return X
    X = X.copy()
    aim = np.sqrt(limit) * (1 - 2.0**-52)
    while len(outside):
        # In two steps, so that no square overflows.
        rows = X[outside]
        rows = rows / np.maximum(1.0, np.abs(rows).max(axis=1, keepdims=True))
        norms = np.sqrt(_squared_norms(rows))[:, None]
        X[outside] = rows * np.minimum(1.0, aim / norms)
        outside = outside[_squared_norms(X[outside]) > limit]
        aim *= 1 - 2.0**-52
    return X


def _norms(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the norms of the rows, without overflow or underflow of the squares."""
    largest = np.abs(X).max(axis=1)
    largest[largest == 0] = 1
    return np.asarray(largest * np.sqrt(_squared_norms(X / largest[:, None])))


def _squared_norms(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the squared norms of the rows, (n,), each a function of its row alone, bit for bit on every machine."""
    total = np.zeros(len(X))
    with np.errstate(over="ignore"):
        for column in X.T:
            total += column * column
    return total


# Default parameters of `PublicScaler` for each data set. Hamm 2016 names PCA to 50 dimensions for HAR and URL, and no
# scaling at all; its HAR accuracies agree with max-norm, its KDD-99 ones with max-abs columns and unit rows.
DEFAULTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "breast-cancer": MappingProxyType({"columns": "standardise", "intercept": 1.0}),
        "digits": MappingProxyType({}),
        "adult": MappingProxyType({"intercept": 1.0}),
        "har": MappingProxyType({"components": 50}),
        "kdd99": MappingProxyType({"scaling": "unit-rows", "columns": "max-abs"}),
        "url": MappingProxyType({"components": 50}),
        "synthetic": MappingProxyType({}),
        "your own": MappingProxyType({"columns": "standardise", "intercept": 1.0}),
    }
)


RANGE_MARGIN = 0.5
"""Margin of `PublicScaler` if a linear function of the features predicts a number, as a share of a range's width.

Far from all public rows such a prediction would be worse than none."""


def default_scaler(name: str) -> PublicScaler:
    """Return the unfitted default scaler of the data set `name`; another name is a user's own table."""
    return PublicScaler(**DEFAULTS.get(name, DEFAULTS["your own"]))


def own_scaler(*, predicts_number: bool) -> PublicScaler:
    """Return the unfitted scaler of a study's rows to unit rows; `predicts_number`: whether a number is predicted."""
    scaler: PublicScaler = default_scaler("your own").set_params(scaling="unit-rows")
    return scaler.set_params(margin=RANGE_MARGIN) if predicts_number else scaler
