"""High-precision arithmetic for samplers; `psephos.protocol.privacy.mechanisms` has the error bound."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import gmpy2

from psephos.protocol.randomness import Randomness

UNIFORM_BITS = 640
"""Number of random bits of a uniform variable."""

MPFR = gmpy2.context(precision=768)
"""Context whose methods compute at 768 bits. Python's operators, even unary minus, round to gmpy2's default of 53."""


def midpoint(cell: int) -> Any:
    """Return (cell + 1/2) / 2^640 as an MPFR number, which lies strictly between 0 and 1."""
    return MPFR.div_2exp(gmpy2.mpfr(2 * cell + 1, MPFR.precision), UNIFORM_BITS + 1)


def uniforms(count: int, randomness: Randomness) -> list[Any]:
    """Draw `count` independent uniform variables in (0, 1) as MPFR numbers."""
    width = UNIFORM_BITS // 8
    block = randomness.draw(count * width)
    return [midpoint(int.from_bytes(block[i : i + width], "big")) for i in range(0, len(block), width)]


def rational(value: Fraction) -> Any:
    return gmpy2.mpfr(gmpy2.mpq(value), MPFR.precision)


def rounded_up(value: float) -> float:
    """Return a positive number, rounded up to 30 significant bits.

    Results of floating-point functions differ in their last bits between processors; rounded up, everybody who plans
    the same noise gets the same number.
    """
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.ceil(math.ldexp(mantissa, 30)), exponent - 30)
