"""Steps from a public model: what parties compute from their own rows where public rows have labels.

With a public score t(x) for each of K - 1 contrasts, and public coordinates z of a row, a party computes the step

    B = argmin  (1/n) sum_i loss(t(x_i) + B z_i, y_i) + (ridge/2) |B|^2

of the softmax loss, by a fixed number of steps with Boehning's (1992) bound of the second derivative, or one gradient
step where the ridge is infinite. It sends B divided by the larger of its norm and a public radius, so replacing one
party moves the sum by at most 2 in the norm of the noise (docs/theory.md, "The rehearsed step").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.directions import FIXED_POINT, DirectionGrid
from psephos.protocol.grids.fixed_point import Norm
from psephos.protocol.grids.own_data import contrast_basis
from psephos.protocol.grids.rows import Array, checked_rows, digest_of, set_public_matrices

ITERATIONS = 8
"""Steps of a party's solver; fixed, so that nothing depends on when it would have converged."""


def local_steps(Z: Array, labels: NDArray[np.integer], offset: Array, ridge: float) -> Array:
    """Compute the steps (m, K - 1, r) of m parties, of coordinates (m, n, r), labels (m, n), scores (m, n, K - 1)."""
    basis = contrast_basis(offset.shape[2] + 1)
    targets = basis.T[labels]
    transposed = Z.transpose(0, 2, 1)

    def gradient(scores: Array) -> Array:
        residual = softmax(scores @ basis) @ basis.T - targets
        return np.asarray(np.matmul(residual.transpose(0, 2, 1), Z) / Z.shape[1])

    if math.isinf(ridge):
        return -2 * gradient(offset)
    second = np.matmul(transposed, Z) / (2 * Z.shape[1])
    second[:, range(Z.shape[2]), range(Z.shape[2])] += ridge
    inverse = np.linalg.inv(second)
    steps = np.zeros((len(Z), offset.shape[2], Z.shape[2]))
    for _ in range(ITERATIONS):
        slope = gradient(offset + np.matmul(Z, steps.transpose(0, 2, 1))) + ridge * steps
        steps = steps - np.matmul(slope, inverse)
    return steps


def softmax(scores: Array) -> Array:
    """Return the class probabilities of scores, float64 (n, K) or with more axes in front."""
    largest = reduce(np.maximum, np.moveaxis(scores, -1, 0))  # several times as fast as `max` over a short axis
    exponentials = np.exp(scores - largest[..., None])
    exponentials /= exponentials.sum(axis=-1, keepdims=True)
    return np.asarray(exponentials)


def clip_rows(Z: Array, limit: float) -> Array:
    """Return coordinates, float64 (n, r) or with more axes in front, each row divided by max(1, |z|/limit)."""
    lengths = np.sqrt((Z * Z).sum(axis=-1, keepdims=True))
    return np.asarray(Z / np.maximum(lengths / limit, 1.0))


def vector_norms(steps: Array, norm: Norm) -> Array:
    """Return the norms (m,) of steps (m, K - 1, r)."""
    flat = steps.reshape(len(steps), -1)
    return np.asarray(np.abs(flat).sum(axis=1) if norm == "l1" else np.linalg.norm(flat, axis=1))


@dataclass(frozen=True, eq=False)
class LocalStepGrid(DirectionGrid):
    """The public terms of one step from a public model. A row is divided by its last feature, the constant, first.

    Attributes:
        transform: float64 (d, r), read-only; x/x_d times it are the coordinates, the constant one included.
        offset: float64 (d, K - 1), read-only; x/x_d times it is the public score.
        classes, norm: K, and the norm that a party's vector has at most 1 of.
        ridge: of a party's step, positive; infinite for one gradient step.
        limit: length to which a row's coordinates are clipped.
        radius: norm of a party's step above which it is scaled to norm 1; shorter ones are divided by it.
    """

    transform: Array
    offset: Array
    classes: int
    ridge: float
    limit: float
    radius: float
    norm: Norm = "l2"

    def __post_init__(self) -> None:
        set_public_matrices(self, "transform", "offset")
        expected = (len(self.transform), len(contrast_basis(self.classes)))
        if self.offset.shape != expected:
            raise InvalidParameter(f"the offset of a step has shape {self.offset.shape}, and must have {expected}")
        if not (self.ridge > 0 and 0 < self.limit < math.inf and 0 <= self.radius < math.inf):
            numbers = (self.ridge, self.limit, self.radius)
            raise InvalidParameter(f"a step has a positive ridge and limit and a radius of at least 0, not {numbers}")
        if self.norm not in ("l1", "l2"):
            raise InvalidParameter(f"the norm of a step is l1 or l2, not {self.norm!r}")

    def contribution(self, X: ArrayLike, y: ArrayLike) -> list[int]:
        """Compute one party's vector from its rows (n, d), with the constant last, and class numbers (n,)."""
        rows, labels = checked_rows(X, y, len(self.transform), self.classes)
        if not len(rows):
            return [0] * self.length
        with np.errstate(all="ignore"):
            rows = rows / rows[:, -1:]
            Z = clip_rows(rows @ self.transform, self.limit)
            try:
                step = local_steps(Z[None], labels[None], (rows @ self.offset)[None], self.ridge)[0]
            except np.linalg.LinAlgError:  # singular: coordinates of equal rows, and a ridge that is lost in rounding
                return [0] * self.length  # whether a party answers must not depend on its rows
        return self._bounded(step) if np.isfinite(step).all() else [0] * self.length

    def _bounded(self, step: Array) -> list[int]:
        """Encode a finite step (K - 1, r) divided by the larger of its norm and the radius."""
        if self.radius == 0 or float(vector_norms(step[None], self.norm)[0]) >= self.radius * (1 - 2.0**-40):
            return self.direction(step)
        return FIXED_POINT.encode(step / self.radius, 1.0, self.norm)

    @cached_property
    def digest(self) -> bytes:
        numbers = [float(number).hex() for number in (self.ridge, self.limit, self.radius)]
        bits = (FIXED_POINT.fraction_bits, ITERATIONS)
        terms = (self.transform.shape, self.classes, self.norm, numbers, bits)
        return digest_of("local step", terms, self.transform, self.offset)

    def __repr__(self) -> str:
        return f"<LocalStepGrid of {len(self.transform)} features, {self.classes} classes>"
