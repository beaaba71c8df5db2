"""Vectors that parties compute from their own rows: a statistic of them, or a linear classifier.

A party with rows x_i and labels y_i, in the plan's public coordinates z_i = A' x_i/||x_i||, contributes the direction
(`psephos.protocol.grids.directions`), in K - 1 orthonormal contrasts, of

    own-data:  S = sum_i (e_{y_i} - 1/K) (x) z_i,
    whitened:  the coefficients W (K, r) of the classifier that it trained on the z_i (Pathak's averaging, 2010).

Whether a party takes part does not depend on its data: a party without rows contributes the zero vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.directions import FIXED_POINT, DirectionGrid
from psephos.protocol.grids.fixed_point import Norm
from psephos.protocol.grids.rows import Array, checked_rows, digest_of, set_public_matrices

Own = Literal["own-data", "whitened"]
OWN: tuple[Own, ...] = get_args(Own)
"""Kinds of vectors that parties can compute from their own rows."""


def contrast_basis(classes: int) -> Array:
    """Return Helmert's orthonormal contrasts, float64 (K - 1, K); row j compares class j + 1 with classes 0 .. j."""
    if classes < 2:
        raise InvalidParameter(f"contrasts need at least two classes, not {classes}")
    basis = np.zeros((classes - 1, classes))
    for j in range(1, classes):
        length = math.sqrt(j * (j + 1))
        basis[j - 1, :j] = -1 / length
        basis[j - 1, j] = j / length
    return basis


def unit_rows(X: ArrayLike) -> Array:
    """Scale every row of X (n, d) to norm 1, or 0 if it is zero, with bit-identical results on every processor."""
    rows = np.asarray(X, dtype=np.float64)
    rows = _divided(rows, np.abs(rows).max(axis=1))  # so that no square overflows or underflows
    squared_norms = sum((column * column for column in rows.T), np.zeros(len(rows)))
    return _divided(rows, np.sqrt(squared_norms))


def _divided(rows: Array, lengths: Array) -> Array:
    """Return rows (n, d) divided by their lengths (n,); a row of length 0 is not changed."""
    divided: Array = rows / np.where(lengths > 0, lengths, 1.0)[:, None]
    return divided


@dataclass(frozen=True, eq=False)
class OwnDataGrid(DirectionGrid):
    """The public coordinates in which parties sum vectors of their own rows, with norm at most 1.

    A row x of unit length has the coordinates x @ transform, float64 (d, r), read-only; `source` says which vector.
    """

    transform: Array
    classes: int
    source: Own = "own-data"
    norm: Norm = "l2"

    def __post_init__(self) -> None:
        set_public_matrices(self, "transform")
        contrast_basis(self.classes)

    def contribution(
        self, X: ArrayLike, y: ArrayLike, train: Callable[[Array, NDArray[np.int64]], Array] | None = None
    ) -> list[int]:
        """Compute one party's vector from its rows (n, d), of any norm, and class numbers (n,).

        `train` is for a whitened average only: a function from coordinates (n, r) and labels to coefficients (K, r).
        """
        if (train is None) == (self.source == "whitened"):
            raise InvalidParameter(f"train is for whitened averages and no other source, and source is {self.source}")
        rows, labels = checked_rows(X, y, len(self.transform), self.classes)
        Z = unit_rows(rows) @ self.transform
        if train is None or not len(Z):  # e_y - 1/K and e_y have the same contrasts
            summed = contrast_basis(self.classes)[:, labels] @ Z
        else:
            summed = contrast_basis(self.classes) @ train(Z, labels)
        return self.direction(summed)

    @cached_property
    def digest(self) -> bytes:
        norm = ("l1",) if self.norm == "l1" else ()
        terms = (self.transform.shape, self.classes, self.source, FIXED_POINT.fraction_bits, *norm)
        return digest_of("own data", terms, self.transform)

    def __repr__(self) -> str:
        return f"<OwnDataGrid ({self.source}) of {self.transform.shape[0]} features, {self.classes} classes>"
