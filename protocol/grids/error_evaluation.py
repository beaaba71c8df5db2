"""The integer vectors by which parties evaluate a public prediction of a number on their own rows.

A label counts as the nearer end of public bounds, an error as at most a public bound C; what a row adds to each entry
is in `ErrorSums`, times a public weight. The weights add up to `ERROR_ROW`, the most by which one row moves the sum in
L1, whether it is added, removed or replaced: a replaced row leaves the number of rows as it was, and moves the
deviation by twice its weight, which is that of the rows (docs/theory.md, "Private evaluation").
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.record import NumericLabel
from psephos.protocol.grids.rows import (
    Array,
    RowSumGrid,
    checked_numbers,
    digest_of,
    in_coordinates,
    row_groups,
    set_public_matrices,
)

ERROR_BITS = 20
"""Bits of one unit of the weights: a row's errors are truncated to integers of this precision."""


class ErrorSums(NamedTuple):
    """What a row adds to each entry, in the order of the entries.

    Attributes:
        rows: 1.
        squared: the squared error, in units of C^2.
        absolute: the absolute error, in units of C.
        spread: the squared distance of the label from the middle of the bounds, in units of half their width squared.
        deviation: that distance with its sign, in units of half the width.
        clipped: 1 where the label is outside the bounds, or the error is above C.
    """

    rows: float
    squared: float
    absolute: float
    spread: float
    deviation: float
    clipped: float


ERROR_WEIGHTS = ErrorSums(
    2 << ERROR_BITS, 6 << ERROR_BITS, 2 << ERROR_BITS, 3 << ERROR_BITS, 2 << ERROR_BITS, 1 << ERROR_BITS
)
"""What a row adds to each entry at most. The squared errors, on which R^2 and RMSE depend most, have the largest."""

ERROR_ROW = 16 << ERROR_BITS
"""Most by which one row moves the sum in L1."""

ERROR_TOTAL_BITS = 47
"""An entry of one party's vector is at most 2^47, which 2^24 rows do not exceed. Clipping moves no two sums apart."""


@dataclass(frozen=True, eq=False)
class ErrorGrid(RowSumGrid):
    """The prediction that is evaluated, and the bounds of labels and errors.

    A row's last feature is a positive constant, by which the row is divided first.

    Attributes:
        weights: float64 (d, 1), of the prediction before it is clipped to the bounds, relative to their middle; its
            last row has the intercept. Read-only.
        label: the bounds of labels and predictions, and as its threshold C, the largest error that counts.
    """

    weights: Array
    label: NumericLabel

    length: ClassVar[int] = len(ERROR_WEIGHTS)
    maximum: ClassVar[int] = 1 << ERROR_TOTAL_BITS
    largest_norm: ClassVar[int] = ERROR_ROW

    def __post_init__(self) -> None:
        set_public_matrices(self, "weights")
        if self.weights.shape[1] != 1:
            raise InvalidParameter(f"a prediction of a number has weights (features, 1), not {self.weights.shape}")
        width = self.label.high - self.label.low
        if not self.label.low < self.label.middle < self.label.high:
            raise InvalidParameter(f"the bounds {self.label.low} and {self.label.high} of the label are too close")
        if self.label.threshold > width:
            raise InvalidParameter(
                f"no error is larger than the bounds of the label are apart, {width:g}: the largest error that counts "
                f"is at most that, not {self.label.threshold:g}"
            )

    def checked(self, X: ArrayLike, y: ArrayLike) -> tuple[Array, NDArray[Any]]:
        return checked_numbers(X, y, len(self.weights))

    def predict(self, X: ArrayLike) -> Array:
        """Return the predictions for rows X (n, d), float64 (n,); each is a function of its row alone, bit for bit.

        A prediction that would be NaN, because infinite terms of both signs occur in it, is the middle of the bounds.
        """
        rows = np.asarray(X, dtype=np.float64)
        with np.errstate(all="ignore"):
            scores = in_coordinates(rows / rows[:, -1:], self.weights)[:, 0]
        return self.label.clip(np.where(np.isnan(scores), 0.0, scores))

    def row_vectors(self, X: ArrayLike, y: ArrayLike) -> NDArray[np.int64]:
        """Compute the vector of each row, int64 (n, length); a function of that row alone, truncated towards zero."""
        numbers, half = np.asarray(y, dtype=np.float64), (self.label.high - self.label.low) / 2
        labels = np.clip(numbers, self.label.low, self.label.high)
        with np.errstate(over="ignore"):
            size = np.abs(self.predict(X) - labels) / self.label.threshold
        error = np.minimum(size, 1.0)
        deviation = np.clip((labels - self.label.middle) / half, -1.0, 1.0)
        clipped = (labels != numbers) | (size > 1)
        entries = np.ones(len(numbers)), error * error, error, deviation * deviation, deviation, clipped
        vectors: NDArray[np.int64] = np.trunc(np.column_stack(entries) * ERROR_WEIGHTS).astype(np.int64)
        return vectors

    def row_sum(self, X: Array, y: NDArray[Any], further_bits: int) -> NDArray[np.int64]:
        total: NDArray[np.int64] = self.row_vectors(X, y).sum(axis=0)
        return total

    def share(self, X: ArrayLike, y: ArrayLike) -> tuple[int, int]:
        """Return the sum of the absolute errors of rows X (n, d), and the most that it could be."""
        rows, labels = self.checked(X, y)
        place = ErrorSums._fields.index("absolute")
        groups = row_groups(None, *rows.shape)
        part = sum(int(self.row_vectors(rows[own], labels[own])[:, place].sum()) for own in groups)
        return part, len(rows) * int(ERROR_WEIGHTS.absolute)

    @cached_property
    def digest(self) -> bytes:
        numbers = [float.hex(value) for value in astuple(self.label)]
        terms = (self.weights.shape, numbers, tuple(ERROR_WEIGHTS), ERROR_TOTAL_BITS)
        return digest_of("error grid", terms, self.weights)

    def __repr__(self) -> str:
        return f"<ErrorGrid of {len(self.weights)} features>"
