"""The arithmetic of `field` by numpy alone, for machines without its C extension.

Entries are computed in pieces that stay in a core's cache, in place, with few passes and without branches. What is
linear with constant coefficients (transforms, matrix products) is a product of float64 matrices, which BLAS computes
exactly: the entries of one factor are split into limbs of 22, 22 and 20 bits, the other factor is multiplied by the
weight of each limb beforehand and split into limbs of 21, 21 and 22 bits, and at most `MOST_TERMS` terms are summed,
so that no sum exceeds 2^53. A transform is made of transforms of at most 64 points (Cooley and Tukey 1965).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

PRIME = 2**64 - 2**32 + 1
"""p, the size of the field."""

PIECE = 1 << 12
"""Number of words that are computed at a time; with their scratch they take a third of a megabyte."""

MOST_TERMS = 64
"""Largest number of entries that one product of matrices sums: 64 (2^22 + 2^22 + 2^20) 2^22 < 2^53."""

FEW_PRODUCTS = 1 << 18
"""Largest number of multiplications in one call of BLAS: for larger ones OpenBLAS starts threads, which here cost more
than they do.
"""

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]

_P = np.uint64(PRIME)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)

_SPLIT = np.uint64(22)
"""Length of the limbs of one factor in bits, of weights 1, 2^22 and 2^44."""

_SPLIT_MASK = np.uint64((1 << 22) - 1)

_JOIN = np.uint64(21)
"""Length of the two lower limbs of the other factor, and so of the product."""

_JOIN_MASK = np.uint64((1 << 21) - 1)


def add(a: Words, b: Words) -> Words:
    """Return a + b, entry by entry."""
    return _in_pieces(_add, a, b)


def sub(a: Words, b: Words) -> Words:
    """Return a - b, entry by entry."""
    return _in_pieces(_subtract, a, b)


def mul(a: Words, b: Words) -> Words:
    """Return a * b, entry by entry."""
    return _in_pieces(_multiply, a, b)


def _in_pieces(compute: Callable[[Words, Words, Words], None], a: Words, b: Words) -> Words:
    """Return what `compute` writes into its first argument, for arrays of any shapes that broadcast."""
    shape = a.shape if a.shape == b.shape else np.broadcast_shapes(a.shape, b.shape)
    result = np.empty(shape, dtype=np.uint64)
    if result.size <= PIECE:
        compute(result if shape else result[None], a, b)
        return result
    step = max(1, PIECE * shape[0] // result.size)
    for at in range(0, shape[0], step):
        compute(result[at : at + step], *(_along(x, at, step, len(shape)) for x in (a, b)))
    return result


def _along(array: Words, at: int, step: int, dimensions: int) -> Words:
    """Return a part of the first of some axes; an array that is repeated along it is returned as it is."""
    return array[at : at + step] if array.ndim == dimensions and len(array) > 1 else array


def _add(total: Words, a: Words, b: Words) -> None:
    """Write a + b into another array: a less p - b, and p more if that is negative."""
    rest = _P - b
    below = np.less(a, rest)
    np.subtract(a, rest, out=total)
    total += np.multiply(below, _P, dtype=np.uint64)


def _subtract(difference: Words, a: Words, b: Words) -> None:
    """Write a - b into another array."""
    below = np.less(a, b)
    np.subtract(a, b, out=difference)
    difference += np.multiply(below, _P, dtype=np.uint64)


def _multiply(product: Words, a: Words, b: Words) -> None:
    """Write a * b into another array; a and b may be any words.

    With a = a0 + a1 2^32 and b likewise, the upper word of the product is
    a1 b1 + (a0 b1 + a1 b0 + a0 b0 / 2^32) / 2^32, rounded down. It is summed so that nothing overflows.
    """
    a0, a1, b0, b1 = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    middle, cross, upper = np.empty((3, *product.shape), dtype=np.uint64)
    np.multiply(a, b, out=product)
    np.multiply(a0, b0, out=middle)
    middle >>= _HALF
    middle += np.multiply(a0, b1, out=upper)
    np.multiply(a1, b0, out=cross)
    cross += np.bitwise_and(middle, _LOW, out=upper)
    np.multiply(a1, b1, out=upper)
    middle >>= _HALF
    upper += middle
    cross >>= _HALF
    upper += cross
    _reduce(product, upper, middle, cross)


def _reduce(lower: Words, upper: Words, scratch: Words, spare: Words) -> None:
    """Replace `lower` by lower + upper 2^64 modulo p, for upper words of products; the others are overwritten.

    With upper = t 2^32 + u that is lower - t + u (2^32 - 1), as 2^64 = 2^32 - 1 and 2^96 = -1. A borrow of the
    difference, as a carry of the sum, is 2^64.
    """
    np.bitwise_and(upper, _LOW, out=scratch)
    upper >>= _HALF
    below = np.less(lower, upper)
    lower -= upper
    lower -= np.multiply(below, _LOW, out=spare)
    scratch *= _LOW
    _add_word(lower, scratch, spare)


def _add_word(total: Words, word: Words, scratch: Words) -> None:
    """Replace the sum with a word by its remainder modulo p; it must be at most 2^65 - 2^32."""
    total += word
    carry = np.less(total, word)
    total += np.multiply(carry, _LOW, out=scratch)
    np.subtract(total, _P, out=scratch)  # a larger word, by wrap-around, where the total is below p
    np.minimum(total, scratch, out=total)


def column_sum(rows: Words) -> Words:
    """Sum over the first axis."""
    entries = int(np.prod(rows.shape[1:]))
    low, high = np.zeros((2, entries), dtype=np.uint64)
    step = max(1, PIECE // max(1, entries))
    for at in range(0, len(rows), step):  # in halves, so that no word overflows
        some = rows[at : at + step]
        some = some.reshape(len(some), entries)
        low += (some & _LOW).sum(axis=0, dtype=np.uint64)
        high += (some >> _HALF).sum(axis=0, dtype=np.uint64)
    scratch = np.empty_like(low)
    _add_word(low, high << _HALF, scratch)
    high >>= _HALF  # of weight 2^64 = 2^32 - 1
    high *= _LOW
    _add_word(low, high, scratch)
    return low.reshape(rows.shape[1:])


def inverse(a: Words) -> Words:
    """Return 1 / a, entry by entry, by one division for all of them (Montgomery 1987); the inverse of 0 is 0."""
    # Multiply in pairs until few entries are left, invert them, and go back.
    zero = a == 0
    levels = [np.where(zero, np.uint64(1), a).reshape(-1)]
    while len(levels[-1]) > 16:
        below = levels[-1]
        pairs = mul(below[: len(below) & ~1 : 2], below[1::2])
        levels.append(np.concatenate([pairs, below[len(below) & ~1 :]]))
    inverses = np.array([pow(int(one), -1, PRIME) for one in levels.pop()], dtype=np.uint64)
    for below in reversed(levels):
        even, last = len(below) & ~1, len(below) & 1
        pairs = inverses[: len(inverses) - last]
        swapped = below[:even].reshape(-1, 2)[:, ::-1]
        inverses = np.concatenate([mul(pairs[:, None], swapped).reshape(-1), inverses[len(pairs) :]])
    return np.where(zero, np.uint64(0), inverses.reshape(a.shape))


def powers(base: int, count: int) -> Words:
    """Return 1, base, base^2, ..., (count,)."""
    result = np.ones(1, dtype=np.uint64)
    while len(result) < count:
        step = np.array(pow(base, len(result), PRIME), dtype=np.uint64)
        result = np.concatenate([result, mul(result, step)])
    return result[:count]


def split(words: Words, limbs: tuple[Floats, Floats, Floats]) -> None:
    """Write the limbs of words, the lowest first, into three arrays of their shape."""
    scratch = np.bitwise_and(words, _SPLIT_MASK)
    low, middle, high = limbs
    low[...] = scratch.view(np.int64)  # signed integers are converted faster
    np.right_shift(words, _SPLIT, out=scratch)
    scratch &= _SPLIT_MASK
    middle[...] = scratch.view(np.int64)
    np.right_shift(words, 2 * _SPLIT, out=scratch)
    high[...] = scratch.view(np.int64)


def join(low: Floats, middle: Floats, high: Floats) -> Words:
    """Return low + 2^21 middle + 2^42 high modulo p, entry by entry, for integers from 0 to 2^53."""
    total, carry, top = (part.astype(np.int64).view(np.uint64) for part in (low, middle, high))
    carry += total >> _JOIN
    total &= _JOIN_MASK
    top += carry >> _JOIN
    carry &= _JOIN_MASK
    carry <<= _JOIN
    total |= carry
    total |= np.left_shift(top, 2 * _JOIN, out=carry)
    top >>= _SPLIT  # of weight 2^64 = 2^32 - 1
    top *= _LOW
    _add_word(total, top, carry)
    return total


def expand(matrix: Words) -> Floats:
    """Return what multiplies limbs (3 c, n) as a matrix (m, c) multiplies numbers (c, n), (3, m, 3 c).

    The three products are the arguments of `join`.
    """
    rows, columns = matrix.shape
    limbs = np.empty((3, rows, 3, columns))
    for place in range(3):
        scaled = mul(matrix, np.array(1 << 22 * place, dtype=np.uint64)) if place else matrix
        limbs[0, :, place] = (scaled & _JOIN_MASK).view(np.int64)
        limbs[1, :, place] = (scaled >> _JOIN & _JOIN_MASK).view(np.int64)
        limbs[2, :, place] = (scaled >> 2 * _JOIN).view(np.int64)
    return limbs.reshape(3, rows, 3 * columns)


def _products_with(matrix: Floats, limbs: Floats) -> Words:
    """Return the product of a matrix and numbers, (..., m, n)."""
    _, rows, terms = matrix.shape
    columns = limbs.shape[-1]
    sums = np.empty((*limbs.shape[:-2], 3, rows, columns))
    high = min(rows, 64)
    wide = max(1, FEW_PRODUCTS // (terms * max(1, high)))
    for top in range(0, rows, high or 1):
        for left in range(0, columns, wide):
            part = sums[..., top : top + high, left : left + wide]
            np.matmul(matrix[:, top : top + high], limbs[..., None, :, left : left + wide], out=part)
    return join(sums[..., 0, :, :], sums[..., 1, :, :], sums[..., 2, :, :])


def product(left: Words, right: Words) -> Words:
    """Return the matrix product of (m, c) and (c, n)."""
    if left.shape[1] != len(right):
        raise ValueError(f"shapes {left.shape} and {right.shape} have no matrix product")
    (rows, inner), columns = left.shape, right.shape[1]
    if rows > columns:  # the smaller factor is expanded
        return np.ascontiguousarray(product(right.T, left.T).T)
    total = np.zeros((rows, columns), dtype=np.uint64)
    for begin in range(0, inner, MOST_TERMS):
        terms = right[begin : begin + MOST_TERMS]
        matrix = expand(left[:, begin : begin + MOST_TERMS])
        step = max(1, 2 * PIECE // max(rows, len(terms)))
        for at in range(0, columns, step):
            some = terms[:, at : at + step]
            limbs = np.empty((3, *some.shape))
            split(some, (limbs[0], limbs[1], limbs[2]))
            sums = _products_with(matrix, limbs.reshape(3 * len(some), -1))
            total[:, at : at + step] = add(total[:, at : at + step], sums) if begin else sums
    return total


def transform(polynomials: Words, size: int, root: int, shift: int, scale: int) -> Words:
    """Evaluate polynomials at `shift` times the powers of a root of unity, and multiply the values by `scale`.

    The coefficient at the place B a + b and the value at the place e + E f, E = size / B, meet in the factor
    (shift^B root^(B e))^a (shift root^e)^b (root^E)^(b f): a transform of size E over a, a multiplication by the factor
    of b and e, and a transform of size B over b.

    Args:
        polynomials: coefficients, (m, c), one polynomial per row.

    Returns:
        Values, (m, size).
    """
    columns = polynomials.shape[1]
    if columns > size:
        raise ValueError(f"{columns} coefficients are more than the {size} points")
    result = np.zeros((len(polynomials), size), dtype=np.uint64)
    step = max(1, 2 * PIECE // size)
    some_rows = _two_steps
    if columns <= 8 or (columns <= MOST_TERMS and columns * size <= 1 << 13):
        some_rows, step = _direct, max(1, min(step, FEW_PRODUCTS // max(1, 3 * columns * size)))
    for at in range(0, len(result) if columns else 0, step):
        result[at : at + step] = some_rows(polynomials[at : at + step], size, root, shift, scale)
    return result


def _direct(polynomials: Words, size: int, root: int, shift: int, scale: int) -> Words:
    """Compute `transform` as one matrix product."""
    count, columns = polynomials.shape
    limbs = np.empty((count, 3, columns))
    split(polynomials, (limbs[:, 0], limbs[:, 1], limbs[:, 2]))
    return join(*(limbs.reshape(count, 3 * columns) @ _direct_table(columns, size, root, shift, scale)))


def _two_steps(polynomials: Words, size: int, root: int, shift: int, scale: int) -> Words:
    """Compute `transform` by its equation."""
    count, columns = polynomials.shape
    inner = min(64, 1 << (columns.bit_length() + 1) // 2)  # B
    outer, points = -(-columns // inner), size // inner
    rows = np.zeros((count, outer * inner), dtype=np.uint64)
    rows[:, :columns] = polynomials
    rows = np.ascontiguousarray(rows.reshape(count, outer, inner).swapaxes(1, 2)).reshape(-1, outer)
    partial = transform(rows, points, pow(root, inner, PRIME), pow(shift, inner, PRIME), 1)
    factors, matrix = _two_step_tables(inner, size, root, shift, scale)
    partial = mul(partial.reshape(count, inner, points), factors)
    limbs = np.empty((count, 3, inner, points))
    split(partial, (limbs[:, 0], limbs[:, 1], limbs[:, 2]))
    return _products_with(matrix, limbs.reshape(count, 3 * inner, points)).reshape(count, size)


@lru_cache(maxsize=64)
def _direct_table(columns: int, size: int, root: int, shift: int, scale: int) -> Floats:
    """Return the matrix of `_direct`, (3, 3 columns, size)."""
    places = np.outer(np.arange(size), np.arange(columns)) % size
    matrix = mul(powers(root, size)[places], mul(powers(shift, columns), np.array(scale, dtype=np.uint64)))
    return np.ascontiguousarray(expand(matrix).swapaxes(1, 2))


@lru_cache(maxsize=64)
def _two_step_tables(inner: int, size: int, root: int, shift: int, scale: int) -> tuple[Words, Floats]:
    """Return the factors of b and e, (inner, size / inner), and the matrix of the transform over b."""
    points = size // inner
    scales = mul(powers(shift, inner), np.array(scale, dtype=np.uint64))
    factors = mul(powers(root, size)[np.outer(np.arange(inner), np.arange(points))], scales[:, None])
    places = np.outer(np.arange(inner), np.arange(inner)) % inner
    return factors, expand(powers(pow(root, points, PRIME), inner)[places])
