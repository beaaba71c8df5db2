"""Laws of noise and bounds of its shares, by section 8.3 of docs/wire.md: how large an entry is, how long a share."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import gmpy2


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


def _gaussian_delta(sigma: float, epsilon: float) -> float:
    """The delta of Gaussian noise for sensitivity 1, rounded up."""
    with gmpy2.context(gmpy2.get_context(), precision=128):
        ratio = 1 / gmpy2.mpfr(sigma)
        root = gmpy2.sqrt(gmpy2.mpfr(2))
        above = gmpy2.erfc((epsilon / ratio - ratio / 2) / root)
        below = gmpy2.exp(gmpy2.mpfr(epsilon)) * gmpy2.erfc((epsilon / ratio + ratio / 2) / root)
        return math.nextafter(float((above - below) / 2), 1.0)


@lru_cache(maxsize=256)
def _unit_sigma(epsilon: float, delta: float) -> float:
    low = high = 2.0**-10
    while _gaussian_delta(high, epsilon) > delta:
        low, high = high, 2 * high
    low = 0.0 if low == high else low
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if _gaussian_delta(middle, epsilon) <= delta else (middle, high)
    return high


def gaussian_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    return math.nextafter(sensitivity * _unit_sigma(epsilon, delta) * (1 + 2.0**-50), math.inf)


def gaussian_variance(l2: float, epsilon: float, delta: float, releases: int = 1) -> Fraction:
    """The variance of discrete Gaussian noise, in units of the sum."""
    sigma = gaussian_sigma(l2 * math.sqrt(releases) * (1 + 2.0**-48), epsilon, delta)
    return Fraction(math.ceil(Fraction(sigma) ** 2) + 9)
