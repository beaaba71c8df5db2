"""The integer vectors by which parties evaluate a public prediction of a number on their own rows.

A label counts as the nearer end of public bounds, an error as at most a public bound C. A row adds, each times a public
weight:

* rows: 1;
* squared: the squared error, in units of C^2;
* absolute: the absolute error, in units of C;
* spread: the squared distance of the label from the middle of the bounds, in units of half their width squared;
* deviation: that distance with its sign, in units of half the width;
* clipped: 1 where the label is outside the bounds, or the error is above C.

The weights add up to `ERROR_ROW`, the most by which one row moves the sum in L1, whether it is added, removed or
replaced: a replaced row leaves the number of rows as it was, and moves the deviation by twice its weight, which is that
of the rows (docs/theory.md, "Private evaluation").
"""

from __future__ import annotations

import hashlib
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.record import NumericLabel
from psephos.protocol.grids.rows import (
    Array,
    checked_numbers,
    checked_persons,
    divided,
    in_coordinates,
    row_groups,
    set_public_matrices,
)

ERROR_BITS = 20
"""Bits of one unit of the weights: a row's errors are truncated to integers of this precision."""


class ErrorSums(NamedTuple):
    """One value for each entry of a vector, in the order of the entries."""

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
class ErrorGrid:
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
    minimum: ClassVar[int] = -maximum
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

    def predict(self, X: ArrayLike) -> Array:
        """Return the predictions for rows X (n, d), float64 (n,); each is a function of its row alone, bit for bit.

        A prediction that would be NaN, because infinite terms of both signs occur in it, is the middle of the bounds.
        """
        rows = np.asarray(X, dtype=np.float64)
        with np.errstate(all="ignore"):
            scores = in_coordinates(rows / rows[:, -1:], self.weights)[:, 0] + self.label.middle
        scores = np.where(np.isnan(scores), self.label.middle, scores)
        predictions: Array = np.clip(scores, self.label.low, self.label.high)
        return predictions

    def row_vectors(self, X: ArrayLike, y: ArrayLike) -> NDArray[np.int64]:
        """Compute the vector of each row, int64 (n, length); a function of that row alone, truncated towards zero.

        Args:
            X: rows, (n, d). y: finite numbers, (n,), already checked.
        """
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

    def contribution(self, X: ArrayLike, y: ArrayLike, persons: ArrayLike | None = None) -> list[int]:
        """Compute one party's vector: the sum of its rows' vectors.

        Args:
            X: the party's rows, (n, d); the last feature is a positive constant.
            y: their labels, (n,), finite numbers.
            persons: whose row it is, (n,), integers; the vectors of a person's rows are averaged, and truncated towards
                zero, so that a person counts as one row. None: every row is a person's only one.
        """
        rows, labels = checked_numbers(X, y, len(self.weights))
        owners = checked_persons(persons, labels.shape)
        total = np.zeros(self.length, dtype=np.int64)
        for own in row_groups(owners, *rows.shape):
            vectors = self.row_vectors(rows[own], labels[own])
            summed = vectors.sum(axis=0)
            total += summed if owners is None else divided(summed, len(vectors))
        return [int(entry) for entry in np.clip(total, self.minimum, self.maximum)]

    def share(self, X: ArrayLike, y: ArrayLike) -> tuple[int, int]:
        """Return the sum of the absolute errors of rows X (n, d), and the most that it could be.

        Arguments and errors are those of `contribution`.
        """
        rows, labels = checked_numbers(X, y, len(self.weights))
        place = ErrorSums._fields.index("absolute")
        groups = row_groups(None, *rows.shape)
        part = sum(int(self.row_vectors(rows[own], labels[own])[:, place].sum()) for own in groups)
        return part, len(rows) * int(ERROR_WEIGHTS.absolute)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of everything a row's vector depends on, 32 bytes; parties and curator compare it beforehand."""
        numbers = [float.hex(value) for value in astuple(self.label)]
        head = repr((self.weights.shape, numbers, tuple(ERROR_WEIGHTS), ERROR_TOTAL_BITS)).encode()
        return hashlib.sha256(b"psephos error grid\0" + head + self.weights.tobytes()).digest()

    def __repr__(self) -> str:
        return f"<ErrorGrid of {len(self.weights)} features>"
