"""Merkle trees (Merkle 1987) over the columns of a matrix of field elements, some of which are opened later.

Leaves and inner nodes are hashed with different first bytes, as in RFC 9162. A leaf is a column behind its salt, so
that the root reveals nothing about columns that are never opened.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from psephos.protocol.proofs.field import Words, aligned, kernel

HASH_BYTES = 32
"""Length of the hash of a node."""


class MerkleTree:
    """A Merkle tree over the salted columns of a matrix, (rows, columns), whose number is a power of two."""

    def __init__(self, salts: bytes, columns: Words) -> None:
        self._levels = [_hash_columns(salts, columns)]
        while len(below := self._levels[-1]) > HASH_BYTES:
            self._levels.append(_hash_pairs(below))

    @property
    def root(self) -> bytes:
        return self._levels[-1]

    def path(self, places: Sequence[int]) -> list[bytes]:
        """Return the hashes that `opened_root` needs in addition to the leaves at these places."""
        hashes: list[bytes] = []
        known = np.unique(np.asarray(places, dtype=np.intp))
        for level in self._levels[:-1]:
            missing = (known[_is_alone(known)] ^ 1).tolist()
            hashes += [level[HASH_BYTES * place : HASH_BYTES * (place + 1)] for place in missing]
            known = np.unique(known >> 1)
        return hashes


def opened_root(places: Sequence[int], salts: bytes, columns: Words, size: int, path: Sequence[bytes]) -> bytes | None:
    """Compute the root of a tree from its columns at distinct places, (rows, places); None if the path does not fit."""
    order = np.argsort(places)
    known = np.asarray(places, dtype=np.intp)[order]
    nodes = np.frombuffer(_hash_columns(salts, columns), dtype=np.uint8).reshape(-1, HASH_BYTES)[order]
    rest = np.frombuffer(b"".join(path), dtype=np.uint8).reshape(-1, HASH_BYTES)
    while size > 1:
        alone = _is_alone(known)
        count = int(alone.sum())
        if count > len(rest):
            return None
        starts = alone | (known & 1 == 0)  # the first known child of each parent
        parents, at = known[starts] >> 1, np.cumsum(starts) - 1
        pairs = np.empty((len(parents), 2, HASH_BYTES), dtype=np.uint8)
        pairs[at, known & 1] = nodes
        pairs[at[alone], known[alone] & 1 ^ 1] = rest[:count]
        nodes = np.frombuffer(_hash_pairs(pairs.tobytes()), dtype=np.uint8).reshape(-1, HASH_BYTES)
        known, rest, size = parents, rest[count:], size // 2
    return nodes.tobytes() if not len(rest) else None


def _is_alone(places: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return for each place of an ascending list whether the other child of its parent is not in it."""
    pairs = np.flatnonzero(places[:-1] ^ 1 == places[1:])
    alone = np.ones(len(places), dtype=np.bool_)
    alone[pairs] = alone[pairs + 1] = False
    return alone


def _hash_columns(salts: bytes, columns: Words) -> bytes:
    hashes = bytearray(HASH_BYTES * columns.shape[1])
    kernel().hash_columns(hashes, salts, aligned(columns))
    return bytes(hashes)


def _hash_pairs(hashes: bytes) -> bytes:
    parents = bytearray(len(hashes) // 2)
    kernel().hash_pairs(parents, hashes)
    return bytes(parents)
