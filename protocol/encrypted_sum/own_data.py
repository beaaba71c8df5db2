"""The public lattice on which parties sum what their **own** rows say: a statistic of them, or a linear classifier.

A party with rows x_i and labels y_i, in the plan's public coordinates z_i = A' x_i/||x_i||, brings the direction of

    own-data:  S = sum_i (e_{y_i} - 1/K) (x) z_i,
    whitened:  the coefficients W (K, r) of the classifier that it trained on the z_i.

The matrix is taken in K - 1 orthonormal contrasts (a class's share in all of them changes no prediction), divided by
its norm and rounded towards zero in fixed point, so that whatever the party holds its vector lies in the unit ball,
exactly. Replacing one party therefore moves the sum by at most 2 in L2 (docs/theory.md, "The own-data statistic"). Both
are Pathak's averaging (2010) in coordinates where a noisy average is worth most; S is the cheapest linear classifier
there is.

No size, label or feature of a party decides whether it takes part: no rows at all give the zero vector.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.protocol.encrypted_sum.fixed_point import FixedPoint, project
from psephos.protocol.errors import DataError, InvalidParameter

Array = NDArray[np.float64]

Own = Literal["own-data", "whitened"]
OWN: tuple[Own, ...] = get_args(Own)
"""What the parties' own rows can bring into a sum."""

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
    """`transform`: float64 (d, r), the public coordinates z = x @ transform of rows at unit length. `classes`: K.

    `source`: what a party brings."""

    transform: Array
    classes: int
    source: Own = "own-data"

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

    def contribution(
        self, X: ArrayLike, y: ArrayLike, train: Callable[[Array, NDArray[np.int64]], Array] | None = None
    ) -> list[int]:
        """One party's vector: (K - 1) r integers, row-major by contrast, of norm at most 2^24.

        X: its rows, (n, d), of any norm. y: their labels (n,), class numbers in 0 .. K - 1. train: of a whitened
        average, and of no other: coefficients (K, r) from coordinates (n, r) and labels; a party without rows gives the
        zero vector. Raises DataError for rows of another width, NaN or infinite ones, and labels outside the agreed
        classes.
        """
        if (train is None) == (self.source == "whitened"):
            raise InvalidParameter(f"a sum of {self.source} takes {'no' if train else 'a'} classifier")
        rows, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
        if rows.ndim != 2 or rows.shape[1] != len(self.transform) or labels.shape != (len(rows),):
            raise DataError(f"rows of shape {rows.shape} and labels of shape {labels.shape} do not fit {self!r}")
        if not np.isfinite(rows).all():
            raise DataError("features are NaN or infinite")
        if labels.size and (labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= self.classes):
            raise DataError(f"labels must be integers in 0 .. {self.classes - 1}, the agreed classes")
        Z, labels = unit_rows(rows) @ self.transform, labels.astype(np.int64)
        if train is None or not len(Z):  # the contrasts of e_y - 1/K are those of e_y
            summed = contrast_basis(self.classes)[:, labels] @ Z
        else:
            summed = contrast_basis(self.classes) @ train(Z, labels)
        norm = float(np.linalg.norm(summed))
        return FIXED_POINT.encode(project(summed / norm if norm > 0 else summed, 1.0), 1.0)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of coordinates, classes and source: parties and curator compare it before they start."""
        head = repr((self.transform.shape, self.classes, self.source, FIXED_POINT.fraction_bits)).encode()
        return hashlib.sha256(b"psephos own data\0" + head + self.transform.tobytes()).digest()

    def __repr__(self) -> str:
        return f"<OwnDataGrid ({self.source}) of {self.transform.shape[0]} features, {self.classes} classes>"
