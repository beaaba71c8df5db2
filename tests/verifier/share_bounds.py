"""Bounds of shares of noise, by section 8.3 of docs/wire.md: how large an entry is, and how long a share."""

from __future__ import annotations

import math
from fractions import Fraction


def rounded_up(value: float) -> float:
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.ceil(math.ldexp(mantissa, 30)), exponent - 30)


def _within(norm: int, dimension: int, bound: int) -> int:
    return min(norm, 1 + math.isqrt(dimension * bound**2))


def gaussian_length(dimension: int, variance: float, shares: int) -> int:
    """What no share of discrete Gaussian noise is longer than."""
    tail = math.log(shares) - math.log(2.0**-162)
    square = dimension + 2 * math.sqrt(dimension * tail) + 2 * tail
    return math.ceil(rounded_up(math.sqrt(variance * square) * (1 + 1e-9)))


def gaussian_share(dimension: int, variance: Fraction, shares: int) -> tuple[int, int]:
    """The largest entry and the largest length of a share of this variance."""
    tail = math.log(2 * shares * dimension) - math.log(2.0**-161)
    bound = math.ceil(math.sqrt(2 * float(variance) * tail) * (1 + 1e-9))
    return bound, _within(gaussian_length(dimension, float(variance), shares), dimension, bound)


def laplace_share(dimension: int, scale: Fraction, shares: int, contributors: int) -> tuple[int, int]:
    """The largest entry and the largest length of a share of discrete Laplace noise of this scale."""
    tail = math.log(2 * shares * dimension) - math.log(2.0**-161)
    bound = math.ceil(Fraction(tail * (1 + 1e-9)) * scale)
    unit, shape = float(scale), 2 * dimension / contributors
    least = math.inf
    for u in [2.0**-i for i in range(1, 40)] + [1 - 2.0**-i for i in range(2, 12)]:
        ratio = math.log(math.expm1(-1 / unit) / math.expm1(-u / unit))
        least = min(least, (math.log(shares) - math.log(2.0**-162) + shape * ratio) * unit / (1 - u))
    return bound, _within(math.ceil(rounded_up(least * (1 + 1e-9))), dimension, bound)
