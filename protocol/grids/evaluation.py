"""The integer vectors by which parties evaluate a public linear classifier on their own rows.

Privacy of a record: a row is counted in one entry of each block of the vector (`BlockLayout`), with public weights that
add up to `ROW`; so one row moves the sum by `ROW` in L1, whatever it is. The score of more than two classes is the
margin of the predicted class over the next. Privacy of a party: the vector is one number, `ShareGrid`.

The vector of a row is a function of that row alone, bit for bit: scores are summed in a fixed order, and never by a
matrix product, whose last bits could depend on the other rows (docs/theory.md, "Private evaluation").
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.error_evaluation import ErrorGrid
from psephos.protocol.grids.rows import (
    Array,
    RowSumGrid,
    checked_rows,
    digest_of,
    in_coordinates,
    set_public_matrices,
    set_read_only,
)

WEIGHT_BITS = 16
"""Bits of one unit of the weights, so that the average of a person's rows loses little when it is rounded down."""

WEIGHTS = {2: (2 << WEIGHT_BITS, 3 << WEIGHT_BITS, 0), 3: (2 << WEIGHT_BITS, 2 << WEIGHT_BITS, 1 << WEIGHT_BITS)}
"""Weights of outcome, histogram and confusion for two classes, and (under 3) for more."""

ROW = 5 << WEIGHT_BITS
"""L1 norm of every row's vector."""

TOTAL_BITS = 42
"""An entry of one party's vector is at most 2^42, which 2^24 rows do not exceed. Clipping moves no two sums apart."""

SHARE_BITS = 20
"""Fraction bits of a party's accuracy, where a party is protected."""


class BlockLayout(NamedTuple):
    """Places of a vector's blocks: of right and wrong; of the bins, row-major by bin, with classes 0 and 1 or wrong and
    right; and of the predicted class, row-major, with the row's class (empty for two classes).
    """

    outcome: slice
    histogram: slice
    confusion: slice


@dataclass(frozen=True, eq=False)
class ScoreGrid(RowSumGrid):
    """The classifier that is evaluated, and the bins of its scores.

    A row's last feature is a positive constant, by which the row is divided first.

    Attributes:
        weights: float64 (d, K') with K' = 1 for two classes, where a positive score means class 1, and K for more; its
            last row has the intercepts. Read-only.
        edges: float64 (B - 1,), ascending, between the bins of the score; an edge belongs to the bin below it. For two
            classes 0 is one of them, so that a bin has one predicted class. Read-only.
        classes: K.
    """

    weights: Array
    edges: Array
    classes: int

    minimum: ClassVar[int] = 0
    maximum: ClassVar[int] = 1 << TOTAL_BITS
    largest_norm: ClassVar[int] = ROW

    def __post_init__(self) -> None:
        set_public_matrices(self, "weights")
        edges = np.array(self.edges, dtype="<f8", order="C")
        scores = 1 if self.classes == 2 else self.classes
        if self.classes < 2 or self.weights.shape[1] != scores:
            raise InvalidParameter(f"{self.classes} classes have weights (d, {scores}), not {self.weights.shape}")
        if edges.ndim != 1 or not np.isfinite(edges).all() or np.any(np.diff(edges) <= 0):
            raise InvalidParameter("the edges of the bins must be finite and ascend")
        if self.classes == 2 and 0.0 not in edges:
            raise InvalidParameter("0, where the predicted class changes, must be an edge of the bins")
        set_read_only(self, "edges", edges)

    @property
    def bins(self) -> int:
        """Number of bins, B."""
        return len(self.edges) + 1

    @property
    def blocks(self) -> BlockLayout:
        """Places of the blocks."""
        end = 2 + 2 * self.bins
        return BlockLayout(slice(0, 2), slice(2, end), slice(end, end + (self.classes**2 if self.classes > 2 else 0)))

    @property
    def block_weights(self) -> tuple[int, int, int]:
        """What a row adds to its entry of each block; together `ROW`."""
        return WEIGHTS[min(self.classes, 3)]

    @property
    def length(self) -> int:
        """Number of entries of a party's vector."""
        return int(self.blocks.confusion.stop)

    def checked(self, X: ArrayLike, y: ArrayLike) -> tuple[Array, NDArray[Any]]:
        return checked_rows(X, y, len(self.weights), self.classes)

    def scores(self, X: ArrayLike) -> Array:
        """Return the scores of rows X (n, d), float64 (n, K'); each is a function of its row alone."""
        rows = np.asarray(X, dtype=np.float64)
        with np.errstate(all="ignore"):
            scores: Array = in_coordinates(rows / rows[:, -1:], self.weights)
        return scores

    def place(self, scores: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the predicted class and the bin of each row of `scores`, int64 (n,) each."""
        if self.classes == 2:
            decisive = scores[:, 0]
            predicted = np.greater(decisive, 0).astype(np.int64)
        else:
            predicted = np.argmax(scores, axis=1).astype(np.int64)
            largest = np.partition(scores, self.classes - 2, axis=1)
            decisive = largest[:, -1] - largest[:, -2]
        return predicted, np.searchsorted(self.edges, decisive, side="left").astype(np.int64)

    def row_places(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the entries that each row is counted in, int64 (n, blocks), and which rows count, bool (n,).

        A row whose scores are not finite counts nowhere.
        """
        scores, labels = self.scores(X), np.asarray(y)
        finite = np.asarray(np.isfinite(scores).all(axis=1))
        predicted, bins = self.place(np.where(finite[:, None], scores, 0.0))
        wrong = np.not_equal(predicted, labels)
        column = labels if self.classes == 2 else 1 - wrong
        blocks = self.blocks
        places = [wrong, blocks.histogram.start + 2 * bins + column]
        if self.classes > 2:
            places.append(blocks.confusion.start + self.classes * predicted + labels)
        return np.column_stack(places).astype(np.int64), finite

    def row_sum(self, X: Array, y: NDArray[Any], further_bits: int) -> NDArray[np.int64]:
        places, valid = self.row_places(X, y)
        total = np.zeros(self.length, dtype=np.int64)
        for column, weight in enumerate(self.block_weights[: places.shape[1]]):
            total += weight * np.bincount(places[valid, column], minlength=self.length)
        return total

    def share(self, X: ArrayLike, y: ArrayLike) -> tuple[int, int]:
        """Return how many of rows X (n, d) are classified correctly, and how many are scored."""
        places, valid = self.row_places(*self.checked(X, y))
        return int((places[valid, 0] == 0).sum()), int(valid.sum())

    @cached_property
    def digest(self) -> bytes:
        terms = (self.weights.shape, self.edges.shape, self.classes, self.block_weights, TOTAL_BITS)
        return digest_of("score grid", terms, self.weights, self.edges)

    def __repr__(self) -> str:
        return f"<ScoreGrid of {len(self.weights)} features, {self.classes} classes, {self.bins} bins>"


@dataclass(frozen=True, eq=False)
class ShareGrid:
    """What is evaluated where a party is protected: the vector is one share.

    The share is that of right predictions, or the mean absolute error as a share of the largest one that counts.
    """

    scores: ScoreGrid | ErrorGrid

    length: ClassVar[int] = 1
    minimum: ClassVar[int] = 0
    maximum: ClassVar[int] = 1 << SHARE_BITS
    largest_norm: ClassVar[int] = maximum

    def contribution(self, X: ArrayLike, y: ArrayLike, persons: ArrayLike | None = None) -> list[int]:
        """Compute a party's share, in units of 2^-20, rounded down; a party without rows contributes one half.

        `persons` is ignored, since all rows of a party are protected together.
        """
        part, whole = self.scores.share(X, y)
        return [(self.maximum * part) // whole if whole else self.maximum // 2]

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of everything a party's number depends on, 32 bytes."""
        return hashlib.sha256(b"psephos share grid\0" + bytes([SHARE_BITS]) + self.scores.digest).digest()
