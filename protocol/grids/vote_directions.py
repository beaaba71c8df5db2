"""Directions of votes: what parties compute from public points that their own classifiers have labelled.

A party whose classifier gives the public point z_i the label y_i, a class or a probability p_i of every class,
contributes the direction of sum_i (e_{y_i} - 1/K) (x) z_i, or of sum_i (p_i - 1/K) (x) z_i, in K - 1 orthonormal
contrasts, so no count of votes follows from the sum (docs/theory.md, "Directions of votes").
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from psephos.protocol.errors import DataError
from psephos.protocol.grids.directions import FIXED_POINT, DirectionGrid
from psephos.protocol.grids.fixed_point import Norm
from psephos.protocol.grids.own_data import contrast_basis
from psephos.protocol.grids.rows import Array, digest_of, set_public_matrices


def are_probabilities(labels: ArrayLike, shape: tuple[int, int]) -> bool:
    """Return whether something is an array (N, K) of real numbers, at least 0, in rows that sum to 1."""
    try:
        numbers = np.asarray(labels)
    except ValueError:  # rows of different lengths
        return False
    if numbers.shape != shape or numbers.dtype.kind not in "fiub":
        return False
    sums = numbers.sum(axis=1, dtype=np.float64)
    return bool((numbers >= 0).all() and (np.abs(sums - 1) < 1e-6).all())


@dataclass(frozen=True, eq=False)
class VoteDirectionGrid(DirectionGrid):
    """The public points, float64 (N, r), whose labels parties sum directions of, with norm at most 1."""

    points: Array
    classes: int
    norm: Norm = "l2"

    def __post_init__(self) -> None:
        set_public_matrices(self, "points")
        contrast_basis(self.classes)

    @property
    def samples(self) -> int:
        """N, the number of public points."""
        return len(self.points)

    @property
    def rank(self) -> int:
        return int(self.points.shape[1])

    def contribution(self, labels: ArrayLike) -> list[int]:
        """Compute one party's vector.

        `labels`, a secret, are what its classifier says of the points: class indices, (N,), or the probability of every
        class, (N, K).
        """
        labels, basis = np.asarray(labels), contrast_basis(self.classes)
        if labels.shape == (self.samples,) and labels.dtype.kind in "iu":
            if labels.min() < 0 or labels.max() >= self.classes:
                raise DataError(f"a label lies outside the agreed classes 0 to {self.classes - 1}")
            return self.direction(basis[:, labels] @ self.points)
        if not are_probabilities(labels, (self.samples, self.classes)):
            shape = (self.samples, self.classes)
            raise DataError(f"labels are {self.samples} class indices, or probabilities {shape}, not {labels.shape}")
        return self.direction(basis @ labels.T @ self.points)

    @cached_property
    def digest(self) -> bytes:
        terms = (self.points.shape, self.classes, self.norm, FIXED_POINT.fraction_bits)
        return digest_of("vote directions", terms, self.points)

    def __repr__(self) -> str:
        return f"<VoteDirectionGrid of {self.samples} points, {self.classes} classes>"
