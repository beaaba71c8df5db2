"""Directions: what a party computes from its data, a matrix of K - 1 contrasts and r coordinates, scaled to norm 1.

It lies in the unit ball exactly, so replacing one party moves the sum by at most 2 in its norm (docs/theory.md, "The
own-data statistic"): L2 for discrete Gaussian noise and the curator's, L1 for discrete Laplace noise.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from psephos.protocol.grids.fixed_point import FixedPoint, Norm, project

Array = NDArray[np.float64]

FIXED_POINT = FixedPoint(24)
"""The encoding of entries; rounding moves an entry by less than 2^-24, far below the noise of any release."""


class DirectionGrid(ABC):
    """The public terms under which parties send directions: K classes, and the norm that a vector has at most 1 of."""

    transform: Array
    classes: int
    norm: Norm

    @property
    def rank(self) -> int:
        """Number of coordinates per contrast, r: the columns of `transform`, or of the public points."""
        return int(self.transform.shape[1])

    @property
    @abstractmethod
    def digest(self) -> bytes:
        """SHA-256 of these terms, 32 bytes; parties and curator compare it before they start."""

    @property
    def length(self) -> int:
        """Number of entries of a party's vector: (K - 1) r."""
        return (self.classes - 1) * self.rank

    @property
    def maximum(self) -> int:
        """Largest value of an entry of one party's vector, in units of 2^-24."""
        return FIXED_POINT.limit(1.0)

    @property
    def minimum(self) -> int:
        """Smallest value of an entry of one party's vector, in units of 2^-24."""
        return -self.maximum

    def direction(self, contrasts: Array) -> list[int]:
        """Scale a matrix (K - 1, r) to norm 1 and encode it.

        The integers have norm at most 2^24. L1: `math.fsum` rounds the sum of magnitudes correctly and the division
        adds one rounding, so the scaled magnitudes sum to less than 1 + 2^-51; truncated to multiples of 2^-24 they sum
        to at most 1. L2: as `project`. `FixedPoint.encode` checks both on the integers.
        """
        if self.norm == "l2":
            length = float(np.linalg.norm(contrasts))
            return FIXED_POINT.encode(project(contrasts / length if length > 0 else contrasts, 1.0), 1.0)
        largest = float(np.abs(contrasts).max())
        if 0 < largest < math.inf:
            contrasts = contrasts / largest  # so that the sum neither overflows nor underflows
            contrasts = contrasts / math.fsum(np.abs(contrasts).ravel().tolist())
        return FIXED_POINT.encode(contrasts, 1.0, "l1")
