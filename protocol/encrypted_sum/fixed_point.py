"""Bounded real vectors as integer vectors, so that a sum of them can be taken under encryption.

A party brings its vector into the ball of a public radius C (`project`) and encodes it with a public number of
fraction bits (`FixedPoint.encode`); the sum of the integers is decoded into the average. Two facts matter to privacy
and are held here, not assumed: every encoded vector, read as a real vector, lies in the ball, so that replacing one
of M parties moves the average by at most 2 C/M in L2; and no entry exceeds `FixedPoint.limit(C)`, which sizes the
slots of a packing plan. (Averaging is what Hamm 2016, appendix B.4, compares with; the ball is ours, docs/theory.md,
"The table".)
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.protocol.errors import DataError, InvalidParameter

_RADII = (2.0**-400, 2.0**400)


def _check_radius(radius: float) -> float:
    value = float(radius)
    if not _RADII[0] <= value <= _RADII[1]:
        raise InvalidParameter(f"the radius of the ball is {radius}; it must be a positive finite number of sane size")
    return value


def project(vector: ArrayLike, radius: float) -> NDArray[np.float64]:
    """The nearest point of the ball ||v||_2 <= radius, to rounding, and certainly inside it: float64, same shape.

    A vector clearly inside is returned as it is. Raises DataError for NaN or infinite entries and InvalidParameter
    for a radius that is none.

    Why inside: `math.hypot` errs by at most one unit in the last place, so the exact norm is at most n (1 + 2^-52) for
    the computed n. If n <= C (1 - 2^-50) the vector is inside. Otherwise every entry is multiplied by
    f = C (1 - 2^-48) / n, with three roundings of relative size 2^-53 each, and the norm becomes at most
    C (1 - 2^-48)(1 + 2^-52)(1 + 2^-51) < C (1 - 2^-49); an entry that underflows adds less than 2^-1074.
    """
    limit = _check_radius(radius)
    point = np.array(vector, dtype=np.float64)
    if not np.isfinite(point).all():
        raise DataError("a vector to be projected holds NaN or infinite entries; the training that made it has failed")
    if point.size and np.abs(point).max() > 2.0**500:  # far outside; brought where no square overflows
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
    """Numbers as whole multiples of 2^-fraction_bits; raises InvalidParameter unless 0 <= fraction_bits <= 52."""

    fraction_bits: int

    def __post_init__(self) -> None:
        if isinstance(self.fraction_bits, bool) or not isinstance(self.fraction_bits, int):
            raise InvalidParameter("the number of fraction bits must be an integer")
        if not 0 <= self.fraction_bits <= 52:
            raise InvalidParameter(f"{self.fraction_bits} fraction bits were asked for; choose from 0 to 52")

    def limit(self, radius: float) -> int:
        """The largest magnitude of an entry of an encoded vector of the ball: floor(C 2^fraction_bits).

        Raises InvalidParameter for a radius that is none.
        """
        return math.floor(Fraction(_check_radius(radius)) * (1 << self.fraction_bits))

    def encode(self, vector: ArrayLike, radius: float) -> list[int]:
        """The entries of `vector`, of any shape (flattened), in units of 2^-fraction_bits, rounded towards zero.

        Rounding towards zero makes no entry larger, so a vector in the ball stays in it, which rounding to nearest
        would not grant; the price is an error of up to one unit per entry. The exact norm is checked all the same.
        Raises DataError for NaN, infinite entries or a vector outside the ball (`project` it first), InvalidParameter
        for a radius that is none.

        Examples:
            >>> FixedPoint(4).encode([0.5, -0.3], radius=1.0)
            [8, -4]
        """
        bound = Fraction(_check_radius(radius)) * 2**self.fraction_bits
        point = np.asarray(vector, dtype=np.float64).ravel()
        if not np.isfinite(point).all():
            raise DataError("a vector to be encoded holds NaN or infinite entries")
        if point.size and np.abs(point).max() > radius:
            raise DataError("a vector to be encoded lies outside the agreed ball; project it first")
        # Scaling by a power of two is exact; int() truncates towards zero.
        units = [int(entry) for entry in np.ldexp(point, self.fraction_bits).tolist()]
        if sum(unit * unit for unit in units) > bound * bound:
            raise DataError("a vector to be encoded lies outside the agreed ball; project it first")
        return units

    def mean(self, sums: Sequence[int], addends: int) -> NDArray[np.float64]:
        """The average of `addends` encoded vectors from their integer sum: float64, each entry correctly rounded.

        Its shape is (D,) for a sum of D entries. Raises InvalidParameter when addends < 1.
        """
        if addends < 1:
            raise InvalidParameter(f"an average of {addends} vectors does not exist; at least one is needed")
        scale = int(addends) << self.fraction_bits
        return np.array([int(total) / scale for total in sums], dtype=np.float64)


FRACTION_BITS = 24
"""Of the fixed point that parameters travel in: 2^-24 is far below what changes any classifier's decisions."""


def parameters_context(radius: float) -> bytes:
    """The context of a round that sums parameters projected on the ball of this radius, 32 bytes."""
    return hashlib.sha256(f"psephos parameters {radius.hex()} {FRACTION_BITS}".encode()).digest()
