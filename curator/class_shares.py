"""Announced class shares: the intercept of a released classifier follows from a public statement, at no privacy cost.

The scores of the public rows, scaled to a public standard deviation, are taken for logarithms of class probabilities
but for an offset of each class, with which the mean probabilities are the announced shares (docs/theory.md,
"Announced class shares"). A classifier whose predictions on the public rows do not contradict them is left as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from psephos.curator.checks import public_features
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.local_step import softmax
from psephos.protocol.grids.own_data import contrast_basis

Array = NDArray[np.float64]

_EVIDENCE = 6.25
"""Least chi-square for each degree of freedom at which an intercept is changed: 2.5 standard errors for two classes."""

_SPREAD = 1 / 0.3
"""Standard deviation, over rows and classes, of the scores that are taken for logarithms of class probabilities."""

_TOLERANCE = 0.02  # by how much announced shares may miss 1 in sum, because they are rounded
_PRECISION = 1e-7  # largest difference of a mean probability from its announced share


def check_shares(shares: Sequence[float]) -> Array:
    """Return announced class shares as float64 (K,) that sum to 1; raises InvalidParameter for others."""
    announced = np.array(shares, dtype=np.float64)
    if announced.ndim != 1 or len(announced) < 2 or not np.all((announced > 0) & (announced < 1)):
        raise InvalidParameter(f"each of two classes or more has a share between 0 and 1, not {list(shares)}")
    if abs(float(announced.sum()) - 1) > _TOLERANCE:
        raise InvalidParameter(f"the shares of all classes sum to 1, not {announced.sum():g}")
    return np.asarray(announced / announced.sum())


def with_class_shares(w: Array, X: Array, shares: Sequence[float]) -> Array:
    """Return a released classifier with the intercept that announced class shares give it.

    Args:
        w: the classifier of scaled rows, float64 (d,) for two classes, (K, d) for more.
        X: scaled public rows, float64 (N, d); the last feature is the constant of the scaling.
        shares: of the K classes, as they were announced.
    """
    expected = check_shares(shares)
    W = np.stack([-w / 2, w / 2]) if w.ndim == 1 else w - w.mean(axis=0)
    if len(W) != len(expected):
        raise InvalidParameter(f"there are {len(W)} classes and {len(expected)} announced shares")
    if X.ndim != 2 or X.shape[1] != W.shape[1]:
        raise DataError(f"a classifier of {W.shape[1]} features does not fit public rows of shape {X.shape}")
    scores = public_features(X) @ W[:, :-1].T + W[:, -1]
    predicted = np.bincount(scores.argmax(axis=1), minlength=len(W)) / len(X)
    chi_square = len(X) * float(((predicted - expected) ** 2 / expected).sum())
    if chi_square <= _EVIDENCE * (len(W) - 1):
        return w
    centre = scores.mean(axis=0)
    unit = math.sqrt(float(scores.var(axis=0).sum())) / _SPREAD or 1.0
    change = unit * share_offsets((scores - centre) / unit, expected) - centre
    adjusted = w.copy()
    if w.ndim == 1:
        adjusted[-1] += change[1] - change[0]
    else:
        adjusted[:, -1] += change
    return adjusted


def share_offsets(scores: Array, shares: Array) -> Array:
    """Return the offsets (K,) with which the mean probabilities of rows of scores (N, K) are the shares (K,)."""
    basis = contrast_basis(len(shares))

    @lru_cache(maxsize=1)  # the curvature is that of the last loss
    def odds_and_chances(b: bytes) -> tuple[Array, Array]:
        odds = scores + np.frombuffer(b) @ basis
        return odds, softmax(odds)

    def loss(b: Array) -> tuple[float, Array]:
        odds, chances = odds_and_chances(b.tobytes())
        surprise = (odds.max(axis=1) - np.log(chances.max(axis=1))).mean() - shares @ (b @ basis)
        return float(surprise), np.asarray(basis @ (chances.mean(axis=0) - shares))

    def curvature(b: Array) -> Array:
        _, chances = odds_and_chances(b.tobytes())
        moment = np.diag(chances.mean(axis=0)) - chances.T @ chances / len(chances)
        return np.asarray(basis @ moment @ basis.T)

    start = basis @ np.log(shares)
    minimum = scipy.optimize.minimize(
        loss, start, jac=True, hess=curvature, method="trust-exact", options={"gtol": _PRECISION}
    )
    return np.asarray(minimum.x @ basis)
