"""The arithmetic of Algorithm 1 (Rajkumar and Agarwal 2012), as functions of already computed sums.

w_{t+1} = w_t - z_t ((1/N) S_t + (lambda + Delta) w_t),    projected onto a public ball that contains every minimiser

All roles compute the points for themselves and compare them bit by bit, so powers and roots are correctly rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import gmpy2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.protocol.errors import DivergenceError, InvalidParameter

Array = NDArray[np.float64]

_DOUBLE = gmpy2.context(precision=53)
"""Arithmetic in double precision, correctly rounded on every machine (MPFR)."""


def _positive(record: object, name: str, description: str) -> None:
    """Store a positive finite field as a float, so that equal records have equal digests."""
    value = getattr(record, name)
    if not 0 < value < math.inf:
        raise InvalidParameter(f"{description} must be positive and finite, not {value}")
    object.__setattr__(record, name, float(value))


def _norm(vector: Array) -> float:
    """Return ||vector||, each step correctly rounded, unlike NumPy's."""
    return float(_DOUBLE.sqrt(_DOUBLE.fsum([_DOUBLE.square(gmpy2.mpfr(x)) for x in vector.tolist()])))


@dataclass(frozen=True)
class StepSizes:
    """Step sizes z_t = first / (1 + t/offset)^power, t = 0, 1, ..., 1/2 < power <= 1 (Robbins and Monro 1951)."""

    first: float
    offset: float
    power: float = 1.0

    def __post_init__(self) -> None:
        _positive(self, "first", "the first step size")
        _positive(self, "offset", "the offset of the step sizes")
        _positive(self, "power", "the power of the step sizes")
        if not 0.5 < self.power <= 1:
            raise InvalidParameter(f"the power of step sizes must be above 1/2 and at most 1, not {self.power}")

    def __call__(self, t: int) -> float:
        return self.first / float(_DOUBLE.pow(1 + t / self.offset, self.power))

    @classmethod
    def default(cls, ridge: float, smoothness: float) -> StepSizes:
        """Return z_t = 2/(r (t + 2 (c + r)/r)), from 1/(c + r) to 2/(r t) asymptotically, for r = lambda + Delta.

        Without step noise, ||w_t - w~|| falls like 1/t^2 (z_t h - 1 >= the rate 2/t for every curvature h >= r).
        """
        total = smoothness + ridge
        return cls(1 / total, 2 * total / ridge)


@dataclass(frozen=True)
class StoppingRule:
    """Stop when the iterate moved by at most `tolerance` times its norm during the last `window` steps; 0 never stops.

    The privacy guarantee is still that of all agreed steps, because the stopping time depends on the noise.
    """

    tolerance: float = 0.0
    window: int = 50

    def __post_init__(self) -> None:
        if not 0 <= self.tolerance < math.inf or self.window < 1:
            raise InvalidParameter("a stopping rule has a tolerance of at least 0 and a window of at least 1 step")

    @property
    def looks_back(self) -> int:
        return self.window if self.tolerance else 0

    def __call__(self, points: Sequence[ArrayLike]) -> bool:
        """Return whether to stop after these points, (n, d), the latest last."""
        if not self.tolerance or len(points) <= self.window:
            return False
        first, last = np.asarray(points[-1 - self.window]), np.asarray(points[-1])
        return _norm(last - first) <= self.tolerance * _norm(last)


@dataclass(frozen=True)
class Descent:
    """The public rule by which points follow from sums, for N records.

    Attributes:
        ridge: lambda + Delta.
        smoothness: c, the largest curvature of the loss.
        radius: of the ball that iterates are projected onto.
    """

    records: int
    ridge: float
    smoothness: float
    radius: float
    step_sizes: StepSizes
    stopping: StoppingRule = StoppingRule()

    def __post_init__(self) -> None:
        _positive(self, "ridge", "lambda + Delta")
        _positive(self, "radius", "the radius of the projection")
        limit = 2 / (self.smoothness + self.ridge)
        if self.step_sizes.first > limit:
            raise DivergenceError(f"a first step of {self.step_sizes.first:g} diverges; stay below {limit:g}")

    def step(self, w: Array, noisy_sum: Array, t: int) -> Array:
        """Compute the next point w_{t+1}, (d,), from w_t and the noisy sum S_t."""
        moved = w - self.step_sizes(t) * (noisy_sum / self.records + self.ridge * w)
        norm = _norm(moved)
        moved = moved if norm <= self.radius else moved * (self.radius / norm)
        if not np.isfinite(moved).all():
            raise DivergenceError(f"the iterate is no longer finite after step {t + 1}; use smaller steps")
        return moved
