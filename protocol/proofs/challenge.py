"""Challenges by strong Fiat-Shamir (Bernhard, Pereira and Warinschi 2012): a hash of everything that is claimed.

Each part is hashed with its length before it, so that no two statements share their bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from gmpy2 import mpz

CHALLENGE_BITS = 128
"""A false statement is proved with probability about 2^-128 for each hash that a cheater computes."""

HIDING_BITS = 80
"""A mask is that many bits longer than what it hides: an answer is within 2^-80 of one that hides nothing."""


def digest(label: str, parts: Iterable[bytes]) -> bytes:
    """SHAKE-256 of a label and the parts, 32 bytes."""
    state = hashlib.shake_256(_prefixed(label.encode()))
    for part in parts:
        state.update(_prefixed(part))
    return state.digest(32)


def stream(label: str, parts: Iterable[bytes], count: int) -> bytes:
    """`count` bytes that nobody chose, for the statement that `parts` spell out."""
    return hashlib.shake_256(digest(label, parts)).digest(count)


def challenges(label: str, parts: Iterable[bytes], count: int) -> list[mpz]:
    """`count` independent challenges in [0, 2^128) for the statement that `parts` spell out."""
    size = CHALLENGE_BITS // 8
    drawn = stream(label, parts, size * count)
    return [mpz.from_bytes(drawn[at : at + size], "big") for at in range(0, len(drawn), size)]


def _prefixed(part: bytes) -> bytes:
    return len(part).to_bytes(8, "big") + part
