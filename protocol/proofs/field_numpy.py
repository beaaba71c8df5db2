"""The functions of field.c by numpy and hashlib, for machines without a compiler: slower, and the same words.

Each writes into its first argument. Products are computed in pieces that stay in a core's cache.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

PRIME = 2**64 - 2**32 + 1
"""p, the size of the field."""

Words = NDArray[np.uint64]

_P = np.uint64(PRIME)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_PIECE = 1 << 12  # words
_TOGETHER = 1 << 15  # words of products or values that are computed at a time


def add(total: Words, a: Words, b: Words) -> None:
    """Write a + b: a less p - b, and p more if that is negative."""
    rest = _P - b
    below = np.less(a, rest)
    np.subtract(a, rest, out=total)
    total += np.multiply(below, _P, dtype=np.uint64)


def subtract(difference: Words, a: Words, b: Words) -> None:
    below = np.less(a, b)
    np.subtract(a, b, out=difference)
    difference += np.multiply(below, _P, dtype=np.uint64)


def multiply(product: Words, a: Words, b: Words) -> None:
    if product.size <= _PIECE:
        _multiply(product, a, b)
        return
    step = max(1, _PIECE * len(product) // product.size)
    for at in range(0, len(product), step):
        parts = (x[at : at + step] if x.ndim == product.ndim and len(x) > 1 else x for x in (a, b))
        _multiply(product[at : at + step], *parts)


def _multiply(product: Words, a: Words, b: Words) -> None:
    """Sum the products of halves without overflow, and reduce the result modulo p."""
    a, b = np.atleast_1d(a), np.atleast_1d(b)  # NumPy warns when a scalar wraps around
    a0, a1, b0, b1 = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    middle = a0 * b1 + (a0 * b0 >> _HALF)
    cross = a1 * b0 + (middle & _LOW)
    upper = a1 * b1 + (middle >> _HALF) + (cross >> _HALF)
    lower = a * b
    # With upper = t 2^32 + u the product is lower - t + u (2^32 - 1), as 2^64 = 2^32 - 1 and 2^96 = -1.
    top = upper >> _HALF
    below = lower < top
    lower -= top
    lower -= np.multiply(below, _LOW, dtype=np.uint64)
    product[...] = _sum_with_word(lower, (upper & _LOW) * _LOW)


def _sum_with_word(total: Words, word: Words) -> Words:
    """Return total + word modulo p, for a sum of at most 2^65 - 2^32."""
    total = total + word
    total += np.multiply(total < word, _LOW, dtype=np.uint64)
    least: Words = np.minimum(total, total - _P)  # a larger word, by wrap-around, where the total is below p
    return least


def column_sums(sums: Words, rows: Words, others: Words | None = None) -> None:
    """Write the sums over the first axis of rows, or of their products with others."""
    if others is not None:
        products = np.empty_like(rows)
        multiply(products, rows, others)
        rows = products
    low, high = (part.sum(axis=0, dtype=np.uint64, keepdims=True) for part in (rows & _LOW, rows >> _HALF))
    sums[...] = _sum_with_word(_sum_with_word(low, high << _HALF), (high >> _HALF) * _LOW)[0]


def inverses(result: Words, a: Words) -> None:
    result[...] = a
    for bit in f"{PRIME - 2:b}"[1:]:
        multiply(result, result, result)
        if bit == "1":
            multiply(result, result, a)


def product(result: Words, left: Words, right: Words, rows: int) -> None:
    factors = left.T[:, :, None]
    step = max(1, _TOGETHER // (rows * max(1, len(right))))
    for at in range(0, right.shape[1], step):
        some = right[:, None, at : at + step]
        products = np.empty((len(some), rows, some.shape[2]), dtype=np.uint64)
        multiply(products, factors, some)
        column_sums(result[:, at : at + step], products)


def transform(
    result: Words, polynomials: Words, twiddles: Words, scales: Words, columns: int, places: Any = slice(None)
) -> None:
    """Write values of polynomials with so many coefficients (Stockham's ordering of Cooley and Tukey 1965)."""
    length = 1 << (columns - 1).bit_length()
    scales = scales.reshape(-1, length)[:, :columns]
    step = max(1, _TOGETHER // scales.size)
    for first in range(0, len(result), step):
        some = polynomials[first : first + step, None]
        points = np.zeros((len(some), len(scales), length, 1), dtype=np.uint64)
        multiply(points[:, :, :columns, 0], some, scales)
        at = 0
        while (half := points.shape[2] // 2) > 0:
            left, right = points[:, :, :half], points[:, :, half:]
            points = np.empty((*left.shape[:3], 2, left.shape[3]), dtype=np.uint64)
            add(points[:, :, :, 0], left, right)
            difference = np.empty_like(left)
            subtract(difference, left, right)
            multiply(points[:, :, :, 1], difference, twiddles[at : at + half, None])
            points = points.reshape(len(some), len(scales), half, -1)
            at += half
        result[first : first + step] = (
            points.reshape(len(some), len(scales), length).swapaxes(1, 2).reshape(len(some), -1)[:, places]
        )


def hash_columns(hashes: bytearray, salts: bytes, columns: Words) -> None:
    """Write the SHA-256 of a zero byte, a salt and a column, for each column."""
    count = columns.shape[1]
    words = np.ascontiguousarray(columns.T).astype("<u8", copy=False).view(np.uint8)
    salted = np.frombuffer(salts, dtype=np.uint8).reshape(count, -1)
    hashes[:] = _hash_rows(np.concatenate([np.zeros((count, 1), dtype=np.uint8), salted, words], axis=1))


def hash_pairs(parents: bytearray, hashes: bytes) -> None:
    """Write the SHA-256 of a one byte and two hashes, for each two that follow each other."""
    pairs = np.frombuffer(hashes, dtype=np.uint8).reshape(-1, 64)
    parents[:] = _hash_rows(np.concatenate([np.ones((len(pairs), 1), dtype=np.uint8), pairs], axis=1))


def _hash_rows(rows: NDArray[np.uint8]) -> bytes:
    data, length, sha256 = rows.tobytes(), rows.shape[1], hashlib.sha256
    return b"".join([sha256(data[at : at + length]).digest() for at in range(0, len(data), length)])
