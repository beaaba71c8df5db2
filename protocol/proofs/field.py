"""Array arithmetic modulo the prime p = 2^64 - 2^32 + 1, and the transform between coefficients and values.

p - 1 is divisible by 2^32, so roots of unity exist for every order 2^i that a Reed-Solomon code needs. Modulo p,
2^64 = 2^32 - 1 and 2^96 = -1, so a product of two words is reduced by shifts and additions. All functions work on
uint64 arrays with entries below p and rely on numpy's wrap-around of words. The fast transform is that of Cooley and
Tukey (1965).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

PRIME = 2**64 - 2**32 + 1
"""p, the size of the field."""

GENERATOR = 7
"""A generator of the multiplicative group; also the shift of the coset on which codewords are evaluated."""

Words = NDArray[np.uint64]

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_P = np.uint64(PRIME)


def add(a: Words, b: Words) -> Words:
    """Return a + b, entry by entry."""
    total = a + b
    total = np.where(total < a, total + _LOW, total)
    return np.where(total >= _P, total - _P, total)


def sub(a: Words, b: Words) -> Words:
    """Return a - b, entry by entry."""
    return np.where(a >= b, a - b, a + (_P - b))


def mul(a: Words, b: Words) -> Words:
    """Return a * b, entry by entry."""
    a0, a1, b0, b1 = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    low = a0 * b0
    middle = a0 * b1 + (low >> _HALF)
    cross = a1 * b0 + (middle & _LOW)
    low = (cross << _HALF) | (low & _LOW)
    high = a1 * b1 + (middle >> _HALF) + (cross >> _HALF)
    top, bottom = high >> _HALF, high & _LOW
    reduced = low - top
    reduced = np.where(low < top, reduced - _LOW, reduced)
    lifted = bottom * _LOW
    total = reduced + lifted
    total = np.where(total < lifted, total + _LOW, total)
    product: Words = np.where(total >= _P, total - _P, total)
    return product


def dot(weights: Words, rows: Words) -> Words:
    """Return sum_r weights[r] rows[r], (n,), for weights (m,) and rows (m, n)."""
    return column_sum(mul(weights[:, None], rows))


def column_sum(rows: Words) -> Words:
    """Sum over the first axis, in 32-bit halves so that no word overflows."""
    low = (rows & _LOW).sum(axis=0, dtype=np.uint64)
    high = (rows >> _HALF).sum(axis=0, dtype=np.uint64)
    low, high = (half % _P for half in (low, high))
    return add(mul(high, np.full_like(high, 1 << 32)), low)


def product(left: Words, right: Words) -> Words:
    """Return the matrix product of (m, c) and (c, n), exactly: c < 2^21 products of 16-bit limbs fit in float64."""
    shifts = [np.uint64(16 * place) for place in range(4)]
    left_limbs = [(left >> shift & np.uint64(0xFFFF)).astype(np.float64) for shift in shifts]
    right_limbs = [(right >> shift & np.uint64(0xFFFF)).astype(np.float64) for shift in shifts]
    limbs = np.concatenate(left_limbs) @ np.concatenate(right_limbs, axis=1)
    parts = limbs.astype(np.uint64).reshape(4, len(left), 4, right.shape[1])
    total = np.zeros((len(left), right.shape[1]), dtype=np.uint64)
    for weight in reversed(range(7)):
        terms = [parts[place, :, weight - place] for place in range(max(0, weight - 3), min(4, weight + 1))]
        total = add(mul(total, np.array(1 << 16, dtype=np.uint64)), sum(terms[1:], terms[0]))
    return total


def values(polynomials: Words, size: int) -> Words:
    """Evaluate polynomials at the powers of a root of unity.

    Args:
        polynomials: coefficients, (m, c), one polynomial per row.
        size: order of the root, a power of two, at least c.

    Returns:
        Values, (m, size).
    """
    padded = np.zeros((len(polynomials), size), dtype=np.uint64)
    padded[:, : polynomials.shape[1]] = polynomials
    return _transform(padded, _root(size))


def coefficients(evaluations: Words) -> Words:
    """Interpolate: the inverse of `values`, (m, n) -> (m, n)."""
    size = evaluations.shape[1]
    scale = np.array(pow(size, PRIME - 2, PRIME), dtype=np.uint64)
    return mul(_transform(evaluations, pow(_root(size), PRIME - 2, PRIME)), scale)


def coset_values(polynomials: Words, size: int) -> Words:
    """Evaluate polynomials at the generator times the powers of `values`, a coset disjoint from those powers."""
    return values(mul(polynomials, powers(GENERATOR, polynomials.shape[1])), size)


def coset_values_at(polynomials: Words, size: int, places: Sequence[int]) -> Words:
    """Return the columns `places` of `coset_values`, (m, places); cheaper when there are few."""
    table = np.ones((1, len(places)), dtype=np.uint64)
    step = mul(powers(_root(size), size)[list(places)], np.array(GENERATOR, dtype=np.uint64))
    while len(table) < polynomials.shape[1]:
        table, step = np.concatenate([table, mul(table, step)]), mul(step, step)
    return product(polynomials, table[: polynomials.shape[1]])


def _root(size: int) -> int:
    """Return a root of unity of order `size`."""
    return pow(GENERATOR, (PRIME - 1) // size, PRIME)


@lru_cache(maxsize=32)
def powers(base: int, count: int) -> Words:
    """Return 1, base, base^2, ..., (count,)."""
    result = np.ones(1, dtype=np.uint64)
    while len(result) < count:
        step = np.array(pow(base, len(result), PRIME), dtype=np.uint64)
        result = np.concatenate([result, mul(result, step)])
    return result[:count]


def _transform(rows: Words, root: int) -> Words:
    """Number-theoretic transform of every row: decimation in frequency, followed by the bit-reversal permutation."""
    work = rows.copy()
    count, size = work.shape
    twiddles = powers(root, size // 2)
    half, stride = size // 2, 1
    while half:
        blocks = work.reshape(count, -1, 2, half)
        upper, lower = blocks[:, :, 0], blocks[:, :, 1]
        total, difference = add(upper, lower), mul(sub(upper, lower), twiddles[::stride][:half])
        blocks[:, :, 0], blocks[:, :, 1] = total, difference
        half, stride = half // 2, stride * 2
    return work[:, _reversed(size)]


@lru_cache(maxsize=32)
def _reversed(size: int) -> NDArray[np.intp]:
    """Return the bit-reversal permutation of 0 .. size - 1."""
    order = np.zeros(1, dtype=np.intp)
    while len(order) < size:
        order = np.concatenate([2 * order, 2 * order + 1])
    return order
