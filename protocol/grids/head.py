"""Heads: the parameters of linear classifiers that parties bring, each clipped to a ball of a public radius.

A party with weights W (K, d) sends the difference of the two classes' weights, or for more classes the K - 1 contrasts
of `contrast_basis`, which decide alike: projected on the ball ||.||_2 <= radius, and divided by the radius. The vector
lies in the unit ball exactly, so replacing one party moves the sum by at most 2, and the mean of M heads by at most
2 radius/M.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.directions import FIXED_POINT, Array, DirectionGrid
from psephos.protocol.grids.fixed_point import Norm, project
from psephos.protocol.grids.own_data import contrast_basis
from psephos.protocol.grids.rows import digest_of

RADII = (2.0**-20, 2.0**20)
"""The least and the largest radius: far from both ends of float64."""

_FINITE = 2.0**100  # the norm to which weights are clipped before they are added


@dataclass(frozen=True)
class HeadGrid(DirectionGrid):
    """The public terms of heads over d features, the constant included, and K classes, in a ball of this radius."""

    features: int
    classes: int
    radius: float
    norm: Norm = field(default="l2", init=False)

    def __post_init__(self) -> None:
        if self.features < 1 or self.classes < 2:
            raise InvalidParameter(f"a head has features and two classes, not {self.features} and {self.classes}")
        if not RADII[0] <= self.radius <= RADII[1]:
            raise InvalidParameter(f"the radius of the heads' ball is from 2^-20 to 2^20, not {self.radius}")

    @property
    def rank(self) -> int:
        return self.features

    def contribution(self, weights: ArrayLike) -> list[int]:
        """Encode one party's head, (K, d) or, for two classes, (d,): the score of the second one.

        Raises DataError for another shape, or numbers that are not finite; larger ones are clipped.
        """
        W = np.asarray(weights, dtype=np.float64)
        if W.shape not in ((self.classes, self.features), (self.features,) * (self.classes == 2)):
            raise DataError(
                f"a head has the shape {(self.classes, self.features)} of classes and features, not {W.shape}"
            )
        W = project(W, _FINITE)
        if W.ndim == 2:
            W = W[1] - W[0] if self.classes == 2 else contrast_basis(self.classes) @ W
        return FIXED_POINT.encode(project(project(W, self.radius) / self.radius, 1.0), 1.0)

    def head(self, vector: Array) -> Array:
        """Return the head, (d,) or (K, d), of a vector of the unit ball, float64 (length,)."""
        contrasts = vector.reshape(self.classes - 1, self.features) * self.radius
        return contrasts[0] if self.classes == 2 else contrast_basis(self.classes).T @ contrasts

    @cached_property
    def digest(self) -> bytes:
        return digest_of("head", (self.features, self.classes, float(self.radius).hex(), FIXED_POINT.fraction_bits))
