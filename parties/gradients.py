"""Gradient of a party's own cumulative loss (Rajkumar and Agarwal 2012, equation 8).

    G_k(w) = sum_j phi(y_j w.x_j),   grad G_k(w) = sum_j phi'(y_j w.x_j) y_j x_j

over its own records, ||x_j|| <= 1 and y_j in {-1, +1}. Both losses have |phi'| <= 1, so replacing a record changes the
sum by at most 2 in the L2 norm (Proposition 3.1); `psephos.curator.psgd.agreement` adds what rounding allows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from psephos.protocol.errors import DataError, InvalidParameter, NormError

Floats = NDArray[np.float64]

_ROW_SLACK = 2.0**-40  # room for the rounding of a division by the norm


def margin_slope(loss: str = "logistic") -> Callable[[Floats], Floats]:
    """Return phi' as a function of the margins t = y_j w.x_j, float64 (n,), which returns float64 (n,)."""
    if loss == "logistic":
        return lambda t: -scipy.special.expit(-t)
    if loss == "huber":  # of half width 1/2
        return lambda t: -np.clip(1.5 - t, 0.0, 1.0)
    raise InvalidParameter(f"unknown loss {loss!r} for PSGD; choose 'logistic' or 'huber'")


class LocalLoss:
    """Cumulative loss G_k of a party's records. The records are a secret, which `repr` does not show."""

    def __init__(self, X: ArrayLike, y: ArrayLike, loss: str = "logistic") -> None:
        """Check rows (n, d) of norm at most 1, and labels -1 and +1, (n,)."""
        rows, labels = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[0] < 1 or rows.shape[1] < 1:
            raise DataError("X must have shape (n, d), with at least one record and one feature")
        if labels.shape != rows.shape[:1]:
            raise DataError("y must have shape (n,), one label for each of the n records of X")
        if not np.isfinite(rows).all():
            raise DataError("a record has a NaN or infinite feature")
        if not np.isin(labels, (-1.0, 1.0)).all():
            raise DataError("labels must be -1 and +1; map the two classes to them with signed_labels")
        if np.linalg.norm(rows, axis=1).max() > 1 + _ROW_SLACK:
            raise NormError("a record has norm above 1; scale the rows with public constants")
        self.X, self.y, self._slope = rows, labels, margin_slope(loss)

    @property
    def dimension(self) -> int:
        return int(self.X.shape[1])

    def gradient(self, w: ArrayLike) -> Floats:
        total: Floats = (self._slope(self.y * (self.X @ np.asarray(w))) * self.y) @ self.X
        return total


def signed_labels(y: ArrayLike) -> NDArray[np.int64]:
    """Map class numbers 0 and 1, (n,), to -1 and +1, the labels of Rajkumar and Agarwal 2012."""
    labels = np.asarray(y)
    if not np.isin(labels, (0, 1)).all():
        raise DataError("PSGD is for two classes, so labels must be 0 and 1")
    return 2 * labels.astype(np.int64) - 1
