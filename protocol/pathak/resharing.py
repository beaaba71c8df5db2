"""Additive sharing of integer vectors modulo 2^m (Pathak 2010, Stage 3), for honest-but-curious participants.

Any proper subset of the published shares is uniform; all of them add up to the sum of the vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

from psephos.protocol.randomness import SYSTEM, Randomness


def split_vector(
    vector: Sequence[int], parts: int, modulus_bits: int, randomness: Randomness = SYSTEM
) -> list[list[int]]:
    mask = (1 << modulus_bits) - 1
    random_shares = [[randomness.bits(modulus_bits) for _ in vector] for _ in range(parts - 1)]
    last = [
        (entry - sum(column)) & mask for entry, column in zip(vector, zip(*random_shares, strict=True), strict=True)
    ]
    return [*random_shares, last]


def add_shares(shares: Sequence[Sequence[int]], modulus_bits: int) -> list[int]:
    mask = (1 << modulus_bits) - 1
    return [sum(column) & mask for column in zip(*shares, strict=True)]


def open_shares(shares: Sequence[Sequence[int]], modulus_bits: int) -> list[int]:
    """Return the vector that all shares together represent, as integers in [-2^(m-1), 2^(m-1))."""
    half = 1 << (modulus_bits - 1)
    return [entry - 2 * half if entry >= half else entry for entry in add_shares(shares, modulus_bits)]
