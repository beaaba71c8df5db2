"""The gradient of a party's own cumulative loss (Rajkumar and Agarwal 2012, equation 8).

    G_k(w) = sum_j phi(y_j w.x_j),   grad G_k(w) = sum_j phi'(y_j w.x_j) y_j x_j

over the party's own records, ||x_j|| <= 1 and y_j in {-1, +1}. Both losses have |phi'| <= 1, so no record moves the sum
by more than 2 (Proposition 3.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from psephos.protocol.errors import DataError, InvalidParameter, NormError

Floats = NDArray[np.float64]

_ROW_SLACK = 2.0**-40  # room for the rounding of a division by the norm


def margin_slope(loss: str = "logistic", *, half_width: float = 0.5) -> Callable[[Floats], Floats]:
    """phi' as a function of the margins, for `logistic`, log(1 + e^-t), or `huber`, the approximate hinge.

    Raises InvalidParameter for another loss: |phi'| <= 1 and a bounded phi'' are what every guarantee here needs.
    """
    if loss == "logistic":
        return lambda t: -expit(-t)
    if loss == "huber":
        if not (math.isfinite(half_width) and half_width > 0):
            raise InvalidParameter(f"the half width of the approximate hinge is positive and finite, not {half_width}")
        return lambda t: -np.clip((1 + half_width - t) / (2 * half_width), 0.0, 1.0)
    raise InvalidParameter(f"gradient descent knows the losses 'logistic' and 'huber', not {loss!r}")


class LocalLoss:
    """G_k: a party's records and their loss. Both are its secret."""

    def __init__(self, X: ArrayLike, y: ArrayLike, loss: str = "logistic", *, half_width: float = 0.5) -> None:
        """`X`: (n, d), rows of norm at most 1. `y`: (n,), labels -1 and +1. `loss`, `half_width`: see `margin_slope`.

        Raises DataError (empty, NaN, misshapen, labels other than -1 and +1) or NormError (a row longer than 1).
        """
        rows, labels = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[0] < 1 or rows.shape[1] < 1:
            raise DataError(f"records form an array (n, d) with n >= 1, not one of shape {rows.shape}")
        if labels.shape != rows.shape[:1]:
            raise DataError(f"{rows.shape[0]} records need as many labels, not an array of shape {labels.shape}")
        if not np.isfinite(rows).all():
            raise DataError("a record has a NaN or infinite feature")
        if not np.isin(labels, (-1.0, 1.0)).all():
            raise DataError("labels are -1 and +1 here; map the two classes to them first")
        if np.linalg.norm(rows, axis=1).max() > 1 + _ROW_SLACK:
            raise NormError(
                "a record is longer than 1, which the sensitivity 2L assumes away; scale with public constants"
            )
        self.X, self.y, self._slope = rows, labels, margin_slope(loss, half_width=half_width)

    @property
    def dimension(self) -> int:
        """d, the number of features."""
        return int(self.X.shape[1])

    def gradient(self, w: ArrayLike) -> Floats:
        """grad G_k(w), shape (d,), for w of shape (d,)."""
        total: Floats = (self._slope(self.y * (self.X @ np.asarray(w))) * self.y) @ self.X
        return total

    def __repr__(self) -> str:
        return "<LocalLoss>"


def signed_labels(y: ArrayLike) -> NDArray[np.int64]:
    """Classes 0 and 1 as -1 and +1, the labels of Rajkumar and Agarwal 2012: int64 of y's shape, (n,).

    Raises DataError for any other label.
    """
    labels = np.asarray(y)
    if not np.isin(labels, (0, 1)).all():
        raise DataError("PSGD is binary: labels are the classes 0 and 1")
    return 2 * labels.astype(np.int64) - 1
