"""The public lattice on which parties sum statistics of their **own** rows.

A party with rows x_i and labels y_i brings the direction of

    S = sum_i (e_{y_i} - 1/K) (x) z_i,     z_i = A' x_i/||x_i||,

with A the plan's public coordinates. S is taken in K - 1 orthonormal contrasts (its rows sum to 0), divided by its norm
and rounded towards zero in fixed point, so that whatever the party holds its vector lies in the unit ball, exactly.
Replacing one party therefore moves the sum by at most 2 in L2 (docs/theory.md, "The own-data statistic"). It is
Pathak's averaging (2010) of the cheapest linear classifiers there are, in coordinates where a noisy average is worth
most.

No size, label or feature of a party decides whether it takes part: no rows at all give the zero vector.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.protocol.encrypted_sum.fixed_point import FixedPoint, project
from psephos.protocol.errors import DataError, InvalidParameter

Array = NDArray[np.float64]

FIXED_POINT = FixedPoint(24)
"""Rounding moves an entry by 2^-24, far below the noise of any release."""


def contrast_basis(classes: int) -> Array:
    """Helmert's orthonormal rows, shape (K - 1, K), each summing to 0: row j compares class j + 1 with those before.

    Raises InvalidParameter for fewer than two classes.
    """
    if classes < 2:
        raise InvalidParameter(f"{classes} class(es) have no contrasts; at least two are needed")
    basis = np.zeros((classes - 1, classes))
    for j in range(1, classes):
        length = math.sqrt(j * (j + 1))
        basis[j - 1, :j] = -1 / length
        basis[j - 1, j] = j / length
    return basis


def unit_rows(X: ArrayLike) -> Array:
    """The rows of X (n, d) at norm 1, float64, to the same bits on every processor; a row of zeros stays one."""
    rows = np.asarray(X, dtype=np.float64)
    rows = _divided(rows, np.abs(rows).max(axis=1))  # so that no square overflows or vanishes
    return _divided(rows, np.sqrt(sum((column * column for column in rows.T), np.zeros(len(rows)))))


def _divided(rows: Array, lengths: Array) -> Array:
    divided: Array = rows / np.where(lengths > 0, lengths, 1.0)[:, None]
    return divided


def in_coordinates(rows: Array, transform: Array) -> Array:
    """rows @ transform, (n, r), added up in one order, hence to the same bits on every processor."""
    return sum(
        (np.outer(x, a) for x, a in zip(rows.T, transform, strict=True)), np.zeros((len(rows), len(transform[0])))
    )


@dataclass(frozen=True, eq=False)
class OwnDataGrid:
    """`transform`: float64 (d, r), the public coordinates z = x @ transform of rows at unit length. `classes`: K."""

    transform: Array
    classes: int

    def __post_init__(self) -> None:
        transform = np.array(self.transform, dtype="<f8", order="C")
        if transform.ndim != 2 or transform.size == 0 or not np.isfinite(transform).all():
            raise InvalidParameter("the coordinates must be a non-empty finite matrix (features, coordinates)")
        contrast_basis(self.classes)
        transform.setflags(write=False)
        object.__setattr__(self, "transform", transform)

    @property
    def length(self) -> int:
        """Entries of the statistic: (K - 1) r."""
        return (self.classes - 1) * int(self.transform.shape[1])

    @property
    def maximum(self) -> int:
        """Of one entry of one party's vector, in units of 2^-24."""
        return FIXED_POINT.limit(1.0)

    @property
    def minimum(self) -> int:
        """As `maximum`, below zero."""
        return -self.maximum

    def contribution(self, X: ArrayLike, y: ArrayLike) -> list[int]:
        """One party's vector: (K - 1) r integers, row-major by contrast, of norm at most 2^24.

        X: its rows, (n, d), of any norm. y: their labels (n,), class numbers in 0 .. K - 1. Raises DataError for rows
        of another width, NaN or infinite ones, and labels outside the agreed classes.
        """
        rows, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
        if rows.ndim != 2 or rows.shape[1] != len(self.transform) or labels.shape != (len(rows),):
            raise DataError(f"rows of shape {rows.shape} and labels of shape {labels.shape} do not fit {self!r}")
        if not np.isfinite(rows).all():
            raise DataError("features are NaN or infinite")
        if labels.size and (labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= self.classes):
            raise DataError(f"labels must be integers in 0 .. {self.classes - 1}, the agreed classes")
        # The contrasts of e_y - 1/K are those of e_y.
        summed = contrast_basis(self.classes)[:, labels.astype(np.int64)] @ (unit_rows(rows) @ self.transform)
        norm = float(np.linalg.norm(summed))
        return FIXED_POINT.encode(project(summed / norm if norm > 0 else summed, 1.0), 1.0)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of coordinates and classes: parties and curator compare it before they start."""
        head = repr((self.transform.shape, self.classes, FIXED_POINT.fraction_bits)).encode()
        return hashlib.sha256(b"psephos own data\0" + head + self.transform.tobytes()).digest()

    def __repr__(self) -> str:
        return f"<OwnDataGrid of {self.transform.shape[0]} features, {self.classes} classes>"
