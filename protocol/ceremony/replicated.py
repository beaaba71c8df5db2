"""Replicated secret sharing (Ito, Saito and Nishizeki 1987), pseudo-random (Cramer, Damgard and Ishai 2005).

A secret is a sum of pieces, one for every set A of n - tau holders, known to the holders in A; any tau holders do not
know the piece of the set of all others. The holders of A have a common seed, so random pieces need no messages.

Two sets intersect, so some holder knows x_A and y_B and adds x_A y_B to its share of x y. A sharing of zero is added to
a share before it is published.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from psephos.protocol.ceremony.terms import CeremonyTerms

SEED_BYTES = 32
"""Length of seeds and commitments."""


def derive(label: str, *parts: bytes) -> bytes:
    """Derive a seed: SHA-256 of a label and parts of fixed length, 32 bytes."""
    return hashlib.sha256(b"psephos ceremony: " + label.encode() + b"\0" + b"".join(parts)).digest()


def commitment(seed: bytes, *where: int) -> bytes:
    """Commit to a 32-byte seed of full entropy; `where` identifies its use."""
    return derive("commitment", *(number.to_bytes(8, "big") for number in where), seed)


def stream(seed: bytes, label: str, count: int) -> bytes:
    """Return `count` pseudo-random bytes by AES-256 in counter mode, under a key derived from seed and label."""
    key = derive(label, seed)
    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(count))


def home(terms: CeremonyTerms, subset: int) -> int:
    """Return the holder that uses the piece of set number `subset` where exactly one has to."""
    members = terms.subsets[subset]
    return members[subset % len(members)]


@lru_cache
def _table(terms: CeremonyTerms) -> tuple[list[tuple[list[int], list[int]]], ...]:
    """Return for holder j, at place j - 1, pairs (sets A, sets B) such that j multiplies all x_A with all y_B.

    Holder j is the first member that A and B have in common: B contains no member of A before j. Sets A with the same
    members before j therefore have the same sets B, and j multiplies the sum of their pieces.
    """
    table = []
    for j in range(1, terms.holders + 1):
        mine = [s for s, members in enumerate(terms.subsets) if j in members]
        firsts: dict[frozenset[int], list[int]] = {}
        for a in mine:
            firsts.setdefault(frozenset(i for i in terms.subsets[a] if i < j), []).append(a)
        table.append(
            [(group, [b for b in mine if not before & set(terms.subsets[b])]) for before, group in firsts.items()]
        )
    return tuple(table)


def product_share(terms: CeremonyTerms, holder: int, x: Mapping[int, Any], y: Mapping[int, Any]) -> Any:
    """Return this holder's unmasked share of x y from the pieces of both by set (integers, or arrays of them)."""
    return sum(sum(x[a] for a in some) * sum(y[b] for b in others) for some, others in _table(terms)[holder - 1])


def zero_share(terms: CeremonyTerms, holder: int, draw: Callable[[int, int], Any]) -> Any:
    """Return this holder's share of zero; `draw(A, i)` is the i-th mask that the holders of A have in common.

    The i-th holder of A adds the i-th mask and subtracts the next one. The shares of any holders of A except all of
    them are independent, and a coalition of tau holders does not know any mask of the set of all others.
    """
    share: Any = 0
    for a, members in enumerate(terms.subsets):
        if holder in members:
            place = members.index(holder)
            share = share + draw(a, place) - draw(a, (place + 1) % len(members))
    return share
