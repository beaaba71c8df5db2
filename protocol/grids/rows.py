"""What grids share: read-only matrices of public terms, their digest, checks of a party's rows, and sums over them."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.protocol.errors import DataError, InvalidParameter

Array = NDArray[np.float64]

BLOCK = 1 << 18
"""Numbers in one block of rows: arrays of 2 MB, which stay in the cache."""


def set_public_matrices(grid: object, *names: str) -> None:
    """Replace fields of a frozen grid by read-only float64 copies; raise InvalidParameter unless finite matrices."""
    for name in names:
        matrix = np.array(getattr(grid, name), dtype="<f8", order="C")
        if matrix.ndim != 2 or matrix.size == 0 or not np.isfinite(matrix).all():
            raise InvalidParameter(f"the {name} of a {type(grid).__name__} must be a non-empty finite matrix")
        set_read_only(grid, name, matrix)


def set_read_only(grid: object, name: str, array: NDArray[Any]) -> None:
    """Store an array in a field of a frozen grid, read-only."""
    array.setflags(write=False)
    object.__setattr__(grid, name, array)


def digest_of(kind: str, terms: object, *arrays: NDArray[Any]) -> bytes:
    """Return SHA-256 of all that a party's vector depends on, which parties and curator compare beforehand."""
    body = b"".join(array.tobytes() for array in arrays)
    return hashlib.sha256(f"psephos {kind}\0{terms!r}".encode() + body).digest()


def checked_table(X: ArrayLike, y: ArrayLike, features: int) -> tuple[Array, NDArray[Any]]:
    """Return a party's rows (n, d) and labels (n,) as arrays."""
    rows, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
    if rows.ndim != 2 or rows.shape[1] != features or labels.shape != (len(rows),):
        raise DataError(f"the rows must be a table of {features} features, with one label for each row")
    if not np.isfinite(rows).all():
        raise DataError("the features have NaN or infinite entries")
    return rows, labels


def checked_rows(X: ArrayLike, y: ArrayLike, features: int, classes: int) -> tuple[Array, NDArray[np.int64]]:
    """Return a party's rows (n, d) and class numbers (n,) as arrays."""
    rows, labels = checked_table(X, y, features)
    if labels.size and (labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= classes):
        raise DataError(f"labels must be integers in 0 .. {classes - 1}, the agreed classes")
    return rows, labels.astype(np.int64)


def checked_numbers(X: ArrayLike, y: ArrayLike, features: int) -> tuple[Array, Array]:
    """Return a party's rows (n, d) and numeric labels, float64 (n,)."""
    rows, labels = checked_table(X, y, features)
    if labels.size and (labels.dtype.kind not in "iuf" or not np.isfinite(labels).all()):
        raise DataError("labels must be finite numbers")
    return rows, labels.astype(np.float64)


def checked_persons(persons: ArrayLike | None, shape: tuple[int, ...]) -> NDArray[np.integer] | None:
    """Return whose each row is, (n,), or None; raises DataError unless they are integers of this shape."""
    owners = None if persons is None else np.asarray(persons)
    if owners is not None and (owners.shape != shape or (owners.size and owners.dtype.kind not in "iu")):
        raise DataError(f"persons must be integers of shape {shape}, one per row, not {owners.shape}")
    return owners


def row_groups(owners: NDArray[np.integer] | None, rows: int, width: int) -> Iterator[NDArray[np.intp] | slice]:
    """Yield the places of the rows of each person; without persons, blocks of rows of `width` numbers."""
    if owners is None:
        size = max(1, BLOCK // max(1, width))
        yield from (slice(start, start + size) for start in range(0, rows, size))
        return
    order = np.argsort(owners, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(owners[order])) + 1) if rows else ()


def in_coordinates(rows: Array, transform: Array) -> Array:
    """Return rows @ transform, (n, r), summed in a fixed order, so bit-identical on every processor."""
    return sum(
        (np.outer(x, a) for x, a in zip(rows.T, transform, strict=True)), np.zeros((len(rows), len(transform[0])))
    )


def divided(total: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return a vector of integers divided by a positive integer, truncated towards zero."""
    result: NDArray[np.int64] = np.sign(total) * (np.abs(total) // count)
    return result


class RowSumGrid(ABC):
    """Base of the grids under which a party sends the sum of its rows' vectors, clipped to public bounds."""

    person_bits: ClassVar[int] = 0
    """Further fraction bits at which the vectors of a person's rows are averaged."""

    @property
    @abstractmethod
    def length(self) -> int:
        """Number of entries of a party's vector."""

    @property
    @abstractmethod
    def maximum(self) -> int:
        """Largest value of an entry of one party's vector."""

    @property
    def minimum(self) -> int:
        """Smallest value of an entry of one party's vector."""
        return -self.maximum

    @abstractmethod
    def row_sum(self, X: Array, y: NDArray[Any], further_bits: int) -> NDArray[np.int64]:
        """Return the sum, (length,), of the vectors of checked rows, in units that are finer by `further_bits`."""

    @abstractmethod
    def checked(self, X: ArrayLike, y: ArrayLike) -> tuple[Array, NDArray[Any]]:
        """Return a party's rows (n, d) and labels (n,) as arrays; raises DataError for others."""

    def contribution(self, X: ArrayLike, y: ArrayLike, persons: ArrayLike | None = None) -> list[int]:
        """Compute one party's vector: the sum of its rows' vectors, each entry clipped to its bounds.

        Args:
            X: the party's rows, (n, d); the last feature is a positive constant.
            y: their labels, (n,): class numbers in 0 .. K - 1, or finite numbers.
            persons: whose row it is, (n,), integers; the vectors of a person's rows are averaged, and truncated once,
                so that two persons move apart by no more than two rows do. None: every row is a person's only one.
        """
        rows, labels = self.checked(X, y)
        owners = checked_persons(persons, labels.shape)
        total = np.zeros(self.length, dtype=np.int64)
        for own in row_groups(owners, len(rows), max(rows.shape[1], self.length)):
            if owners is None:
                total += self.row_sum(rows[own], labels[own], 0)
            else:
                summed = self.row_sum(rows[own], labels[own], self.person_bits)
                total += divided(summed, len(rows[own]) << self.person_bits)
        return self.bounded(total, len(rows))

    def bounded(self, total: NDArray[np.int64], rows: int) -> list[int]:
        """Return the sum over a party's rows within the bounds of its entries."""
        return [int(entry) for entry in np.clip(total, self.minimum, self.maximum)]
