"""Arithmetic fine enough that what it rounds away cannot be told from the law it samples
(`psephos.protocol.privacy.mechanisms`).

No paper behind it: uniform variables are midpoints of cells of width 2^-640, and all that follows is MPFR at 768 bits.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import gmpy2

from psephos.protocol.randomness import Randomness

UNIFORM_BITS = 640
"""Random bits in one uniform variable."""

MPFR = gmpy2.context(precision=768)
"""Its methods compute at 768 bits. Python's operators do not: they, the unary minus too, round to gmpy2's 53."""


def midpoint(cell: int) -> Any:
    """(cell + 1/2) / 2^640 as an MPFR number: never 0 or 1 for a cell in [0, 2^640)."""
    return MPFR.div_2exp(gmpy2.mpfr(2 * cell + 1, MPFR.precision), UNIFORM_BITS + 1)


def uniforms(count: int, randomness: Randomness) -> list[Any]:
    """`count` independent uniform variables in (0, 1), MPFR numbers."""
    width = UNIFORM_BITS // 8
    block = randomness.draw(count * width)
    return [midpoint(int.from_bytes(block[i : i + width], "big")) for i in range(0, len(block), width)]


def rational(value: Fraction) -> Any:
    """A fraction, correctly rounded to an MPFR number."""
    return gmpy2.mpfr(gmpy2.mpq(value), MPFR.precision)
