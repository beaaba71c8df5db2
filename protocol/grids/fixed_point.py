"""Fixed-point encoding of vectors of a public ball of radius C, so that they can be summed under encryption.

Every encoded vector lies in the ball of the agreed norm, so replacing one of M parties moves the average by at most
2 C/M in that norm, and no entry exceeds `FixedPoint.limit(C)`, which sizes the slots of a packing plan. Hamm 2016,
appendix B.4, compares with averaging; the projection is an addition of this library (docs/theory.md, "Sensitivities").
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.protocol.errors import DataError, InvalidParameter

Norm = Literal["l1", "l2"]
"""Norms in which vectors can be bounded: the sum of the entries' magnitudes, or the Euclidean length."""

_RADII = (2.0**-400, 2.0**400)


def _check_radius(radius: float) -> float:
    value = float(radius)
    if not _RADII[0] <= value <= _RADII[1]:
        raise InvalidParameter(f"the radius of the ball is {radius}; it must lie between 2^-400 and 2^400")
    return value


def project(vector: ArrayLike, radius: float) -> NDArray[np.float64]:
    """Project a vector, of any shape, onto the ball ||v||_2 <= radius; one inside it is returned unchanged.

    The result is the nearest point of the ball up to rounding, and always inside it: `math.hypot` errs by at most one
    unit in the last place, so the exact norm is at most n (1 + 2^-52) for the computed n. If n <= C (1 - 2^-50) the
    vector is inside. Otherwise every entry is multiplied by f = C (1 - 2^-48) / n, with three roundings of relative
    size 2^-53 each, and the norm becomes at most C (1 - 2^-48)(1 + 2^-52)(1 + 2^-51) < C (1 - 2^-49); an entry that
    underflows adds less than 2^-1074.
    """
    limit = _check_radius(radius)
    point = np.array(vector, dtype=np.float64)
    if not np.isfinite(point).all():
        raise DataError("a vector to be projected has NaN or infinite entries; check the training that produced it")
    if point.size and np.abs(point).max() > 2.0**500:  # far outside the ball; scaled down so that no square overflows
        point *= 2.0**-600
        norm = math.inf
    else:
        norm = math.hypot(*point.ravel().tolist())
    if norm <= limit * (1 - 2.0**-50):
        return point
    norm = math.hypot(*point.ravel().tolist())
    return point * (limit * (1 - 2.0**-48) / norm)


@dataclass(frozen=True)
class FixedPoint:
    """Encoding of real numbers as integer multiples of 2^-fraction_bits, 0 to 52 bits."""

    fraction_bits: int

    def __post_init__(self) -> None:
        if type(self.fraction_bits) is not int or not 0 <= self.fraction_bits <= 52:
            raise InvalidParameter(f"fraction_bits is a whole number from 0 to 52, not {self.fraction_bits!r}")

    def limit(self, radius: float) -> int:
        """Return floor(C 2^fraction_bits), the largest magnitude of an entry of an encoded vector of the ball."""
        return math.floor(Fraction(_check_radius(radius)) * (1 << self.fraction_bits))

    def square_limit(self, radius: float) -> int:
        """Return floor(C^2 4^fraction_bits), the largest sum of squares of an encoded vector of the ball.

        It can be above the square of `limit`: with C = 1.5 and no fraction bits, (1, 1) lies in the ball.
        """
        return math.floor((Fraction(_check_radius(radius)) * (1 << self.fraction_bits)) ** 2)

    def encode(self, vector: ArrayLike, radius: float, norm: Norm = "l2") -> list[int]:
        """Encode a vector of the ball, of any shape, rounding every entry towards zero, in units of 2^-fraction_bits.

        Rounding towards zero makes no entry larger, so a vector in the ball stays in it, which rounding to nearest
        would not guarantee; the error is below one unit per entry. The exact norm of the result is checked as well, on
        the integers.

        Examples:
            >>> FixedPoint(4).encode([0.5, -0.3], radius=1.0)
            [8, -4]
        """
        bound = Fraction(_check_radius(radius)) * 2**self.fraction_bits
        point = np.asarray(vector, dtype=np.float64).ravel()
        if not np.isfinite(point).all():
            raise DataError("a vector to be encoded has NaN or infinite entries")
        if point.size and np.abs(point).max() > radius:
            raise DataError("a vector to be encoded lies outside the agreed ball; call project first")
        # Scaling by a power of two is exact; int() truncates towards zero.
        units = [int(entry) for entry in np.ldexp(point, self.fraction_bits).tolist()]
        length, limit = (
            (sum(map(abs, units)), bound) if norm == "l1" else (sum(unit * unit for unit in units), bound * bound)
        )
        if length > limit:
            raise DataError("a vector to be encoded lies outside the agreed ball; call project first")
        return units

    def mean(self, sums: Sequence[int], addends: int) -> NDArray[np.float64]:
        """Decode the integer sum of encoded vectors into their average, float64 (D,), each entry correctly rounded."""
        if addends < 1:
            raise InvalidParameter(f"addends is {addends}; an average needs at least one vector")
        scale = int(addends) << self.fraction_bits
        return np.array([int(total) / scale for total in sums], dtype=np.float64)


FRACTION_BITS = 24
"""Fraction bits of encrypted classifier parameters: 2^-24 is far too small to change a classifier's decisions."""


def parameters_context(radius: float) -> bytes:
    """Return the 32-byte context of a round that sums parameters projected onto the ball of this radius."""
    return hashlib.sha256(f"psephos parameters {radius.hex()} {FRACTION_BITS}".encode()).digest()
