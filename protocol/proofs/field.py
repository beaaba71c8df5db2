"""Array arithmetic modulo the prime p = 2^64 - 2^32 + 1, and the transform between coefficients and values.

All functions work on uint64 arrays with entries below p. p - 1 is divisible by 2^32, so roots of unity exist for every
order that a Reed-Solomon code needs (Cooley and Tukey 1965). field.c computes if it was built, else `field_numpy`,
which gives identical words; numpy also if "gmpy2" is selected (`psephos.protocol.paillier.kernel`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.protocol.paillier.kernel import compiled
from psephos.protocol.proofs import field_numpy
from psephos.protocol.proofs.field_numpy import PRIME as PRIME
from psephos.protocol.proofs.field_numpy import Words as Words

try:
    from psephos.protocol.proofs import _field  # type: ignore[attr-defined]
except ImportError:  # installed without a compiler
    _field = None

GENERATOR = 7
"""A generator of the multiplicative group; also the shift of the coset on which codewords are evaluated."""

NONRESIDUE = 7
"""A number that is no square: X^2 - 7 is irreducible, and pairs (a0, a1) stand for a0 + a1 X modulo it."""


def kernel() -> Any:
    """Return what computes: the C extension, or its functions in numpy."""
    return _field if _field is not None and compiled() else field_numpy


def aligned(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of any shape, or a copy of it, as field.c reads it: contiguous, and aligned for words."""
    array = np.asarray(array, order="C")
    return array if array.flags.aligned else np.array(array, order="C")


def _words(array: Words) -> Words:
    return aligned(np.asarray(array, dtype=np.uint64))


def _entrywise(compute: Any, a: Words, b: Words) -> Words:
    """Return what a kernel computes entry by entry. The second array is repeated, but not copied."""
    a, b = _words(a), _words(b)
    shape = a.shape if a.shape == b.shape else np.broadcast_shapes(a.shape, b.shape)
    if a.shape != shape:
        a = _words(np.broadcast_to(a, shape))
    if b.size != 1 and b.shape != shape[len(shape) - b.ndim :]:
        b = _words(np.broadcast_to(b, shape))
    result = np.empty(shape, dtype=np.uint64)
    compute(result, a, b)
    return result


def add(a: Words, b: Words) -> Words:
    return _entrywise(kernel().add, a, b)


def sub(a: Words, b: Words) -> Words:
    return _entrywise(kernel().subtract, a, b)


def mul(a: Words, b: Words) -> Words:
    return _entrywise(kernel().multiply, a, b)


def column_sum(rows: Words, *others: Words) -> Words:
    """Return the sum over the first axis of rows, or of their products with others."""
    sums = np.empty(rows.shape[1:], dtype=np.uint64)
    kernel().column_sums(sums, _words(rows), *map(_words, others))
    return sums


def ext_inverse(a: Words) -> Words:
    """Return 1 / a in the field of p^2 elements, entry by entry, (2, ...); the inverse of 0 is 0."""
    norm = sub(mul(a[0], a[0]), mul(mul(a[1], a[1]), np.array(NONRESIDUE, dtype=np.uint64)))
    scale = np.empty(norm.shape, dtype=np.uint64)
    kernel().inverses(scale, norm)
    return np.stack([mul(a[0], scale), mul(sub(np.zeros_like(a[1]), a[1]), scale)])


def product(left: Words, right: Words) -> Words:
    result = np.empty((len(left), right.shape[1]), dtype=np.uint64)
    if result.size:
        kernel().product(result, _words(left), _words(right), len(left))
    return result


def values(polynomials: Words, size: int) -> Words:
    """Evaluate polynomials, coefficients (m, c), at the powers of a root of unity, (m, size)."""
    return _evaluated(polynomials, size, 1)


def coefficients(evaluations: Words) -> Words:
    """Interpolate: the inverse of `values`, (m, n) -> (m, n)."""
    result, size = np.empty(evaluations.shape, dtype=np.uint64), evaluations.shape[1]
    if result.size:
        kernel().transform(result, _words(evaluations), *_inverse_tables(size), size)
    return result


def coset_values(polynomials: Words, size: int, places: Sequence[int] | None = None) -> Words:
    """Evaluate polynomials at the generator times the powers of `values`, a coset disjoint from those, or at some."""
    return _evaluated(polynomials, size, GENERATOR, None if places is None else np.array(places, dtype=np.int64))


def _evaluated(polynomials: Words, size: int, shift: int, places: NDArray[np.int64] | None = None) -> Words:
    """Evaluate polynomials at `shift` times the powers of a root of order `size`, coset by coset, or at some."""
    count, columns = polynomials.shape
    if columns > size:
        raise ValueError(f"{columns} coefficients are more than the {size} points")
    result = np.zeros((count, size if places is None else len(places)), dtype=np.uint64)
    if result.size and columns:
        tables = _tables(1 << (columns - 1).bit_length(), size, shift)
        kernel().transform(result, _words(polynomials), *tables, columns, *(() if places is None else (places,)))
    return result


@lru_cache(maxsize=32)
def _tables(length: int, size: int, shift: int) -> tuple[Words, Words]:
    root = _root(size)
    cosets = range(size // length)
    scales = [powers(shift * pow(root, coset, PRIME) % PRIME, length) for coset in cosets]
    return _twiddles(_root(length), length), np.concatenate(scales)


@lru_cache(maxsize=32)
def _inverse_tables(length: int) -> tuple[Words, Words]:
    scale = np.array([pow(length, PRIME - 2, PRIME)], dtype=np.uint64)
    return _twiddles(pow(_root(length), PRIME - 2, PRIME), length), np.repeat(scale, length)


def _twiddles(root: int, length: int) -> Words:
    table = powers(root, max(1, length // 2))
    stages = [table[:: 1 << stage] for stage in range(length.bit_length() - 1)]
    return np.concatenate([np.zeros(0, dtype=np.uint64), *stages])


def _root(size: int) -> int:
    return pow(GENERATOR, (PRIME - 1) // size, PRIME)


@lru_cache(maxsize=32)
def powers(base: int, count: int) -> Words:
    result = np.ones(1, dtype=np.uint64)
    while len(result) < count:
        step = np.array(pow(base, len(result), PRIME), dtype=np.uint64)
        result = np.concatenate([result, mul(result, step)])
    return result[:count]
