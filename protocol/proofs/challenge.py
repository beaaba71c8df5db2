"""Challenges by the strong Fiat-Shamir transform (Bernhard, Pereira and Warinschi 2012): a hash of the whole statement.

Every part is hashed with its length in front, so that different statements never give the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from gmpy2 import mpz

from psephos.protocol.errors import CiphertextError, ProofError
from psephos.protocol.paillier.ciphertexts import check_ciphertexts
from psephos.protocol.paillier.keys import PublicKey

CHALLENGE_BITS = 128
"""Length of a challenge: a false statement is proved with probability about 2^-128 per computed hash."""

HIDING_BITS = 80
"""How many bits longer a mask is than the value it hides; a response is then within 2^-80 of one that does not depend
on the value.
"""


def digest(label: str, parts: Iterable[bytes]) -> bytes:
    state = hashlib.shake_256(_prefixed(label.encode()))
    for part in parts:
        state.update(_prefixed(part))
    return state.digest(32)


def stream(label: str, parts: Iterable[bytes], count: int) -> bytes:
    return hashlib.shake_256(digest(label, parts)).digest(count)


def challenges(label: str, parts: Iterable[bytes], count: int) -> list[mpz]:
    """Return `count` challenges in [0, 2^128) that depend on every part of the statement."""
    size = CHALLENGE_BITS // 8
    output = stream(label, parts, size * count)
    return [mpz.from_bytes(output[at : at + size], "big") for at in range(0, len(output), size)]


def check_announcements(key: PublicKey, *announcements: mpz) -> None:
    try:
        check_ciphertexts(key, announcements)
    except CiphertextError as error:
        raise ProofError(f"an announcement of a proof is not a unit: {error}") from None


def read_numbers(data: bytes, sizes: Sequence[int]) -> list[mpz]:
    """Decode little-endian numbers of these lengths; raise ProofError unless the bytes are as long as all together."""
    if len(data) != sum(sizes):
        raise ProofError(f"a proof has {len(data)} bytes of numbers, not {sum(sizes)}")
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
    return [mpz.from_bytes(data[end - size : end], "little") for size, end in zip(sizes, ends, strict=True)]


def _prefixed(part: bytes) -> bytes:
    return len(part).to_bytes(8, "big") + part
