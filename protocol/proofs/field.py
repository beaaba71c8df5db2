"""Arithmetic modulo the prime p = 2^64 - 2^32 + 1 on whole arrays, and polynomials by values or by coefficients.

p - 1 is divisible by 2^32, so there are roots of unity of every order 2^i that a Reed-Solomon code needs; and 2^64 =
2^32 - 1 and 2^96 = -1 modulo p, so that a product of two words is reduced by shifts and additions. Everything works on
uint64 arrays with entries below p; numpy's words wrap around, which is meant. No paper behind it: the fast transform is
Cooley and Tukey's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

PRIME = 2**64 - 2**32 + 1
"""The field's size."""

GENERATOR = 7
"""Of the multiplicative group; also the shift of the coset that codewords are values on."""

Words = NDArray[np.uint64]

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_P = np.uint64(PRIME)


def add(a: Words, b: Words) -> Words:
    """a + b, entry by entry."""
    total = a + b
    total = np.where(total < a, total + _LOW, total)
    return np.where(total >= _P, total - _P, total)


def sub(a: Words, b: Words) -> Words:
    """a - b, entry by entry."""
    return np.where(a >= b, a - b, a + (_P - b))


def mul(a: Words, b: Words) -> Words:
    """a b, entry by entry."""
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
    """sum_r weights[r] rows[r], for weights (m,) and rows (m, n): (n,)."""
    return column_sum(mul(weights[:, None], rows))


def column_sum(rows: Words) -> Words:
    """The sum over the first axis: 32-bit halves, so that no word overflows."""
    low = (rows & _LOW).sum(axis=0, dtype=np.uint64)
    high = (rows >> _HALF).sum(axis=0, dtype=np.uint64)
    low, high = (half % _P for half in (low, high))
    return add(mul(high, np.full_like(high, 1 << 32)), low)


def product(left: Words, right: Words) -> Words:
    """The matrix product, (m, c) by (c, n): c products of 16-bit limbs add up exactly in floating point, c < 2^21."""
    shifts = [np.uint64(16 * place) for place in range(4)]
    above, beside = ([(x >> by & np.uint64(0xFFFF)).astype(np.float64) for by in shifts] for x in (left, right))
    limbs = np.concatenate(above) @ np.concatenate(beside, axis=1)
    parts = limbs.astype(np.uint64).reshape(4, len(left), 4, right.shape[1])
    total = np.zeros((len(left), right.shape[1]), dtype=np.uint64)
    for weight in reversed(range(7)):
        terms = [parts[place, :, weight - place] for place in range(max(0, weight - 3), min(4, weight + 1))]
        total = add(mul(total, np.array(1 << 16, dtype=np.uint64)), sum(terms[1:], terms[0]))
    return total


def values(polynomials: Words, size: int) -> Words:
    """Each row's polynomial at the `size` powers of a root of unity of that order; (m, c) -> (m, size), c <= size."""
    padded = np.zeros((len(polynomials), size), dtype=np.uint64)
    padded[:, : polynomials.shape[1]] = polynomials
    return _transform(padded, _root(size))


def coefficients(given: Words) -> Words:
    """The inverse of `values`: (m, n) -> (m, n)."""
    size = given.shape[1]
    scale = np.array(pow(size, PRIME - 2, PRIME), dtype=np.uint64)
    return mul(_transform(given, pow(_root(size), PRIME - 2, PRIME)), scale)


def coset_values(polynomials: Words, size: int) -> Words:
    """Each row's polynomial at g times those powers, g a generator: none of the points of `values` is among them."""
    return values(mul(polynomials, powers(GENERATOR, polynomials.shape[1])), size)


def coset_values_at(polynomials: Words, size: int, places: Sequence[int]) -> Words:
    """Only those of `coset_values` at these places: (m, c) -> (m, places); cheaper where they are few."""
    table = np.ones((1, len(places)), dtype=np.uint64)
    step = mul(powers(_root(size), size)[list(places)], np.array(GENERATOR, dtype=np.uint64))
    while len(table) < polynomials.shape[1]:
        table, step = np.concatenate([table, mul(table, step)]), mul(step, step)
    return product(polynomials, table[: polynomials.shape[1]])


def _root(size: int) -> int:
    return pow(GENERATOR, (PRIME - 1) // size, PRIME)


@lru_cache(maxsize=32)
def powers(base: int, count: int) -> Words:
    """1, base, base^2, ...: (count,)."""
    found = np.ones(1, dtype=np.uint64)
    while len(found) < count:
        found = np.concatenate([found, mul(found, np.array(pow(base, len(found), PRIME), dtype=np.uint64))])
    return found[:count]


def _transform(rows: Words, root: int) -> Words:
    """Decimation in frequency, stage by stage over all rows, then the order put right."""
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
    order = np.zeros(1, dtype=np.intp)
    while len(order) < size:
        order = np.concatenate([2 * order, 2 * order + 1])
    return order
