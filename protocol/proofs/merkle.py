"""Merkle trees (Merkle 1987): commitments to a list of byte strings, some of which are opened later.

Leaves and inner nodes are hashed with different first bytes, as in RFC 9162. To commit to secrets, put random bytes
into each leaf, so that the root reveals nothing about leaves that are never opened. The leaves of a proof are the
columns of a matrix of field elements, each behind its salt. field.c hashes sixteen of them, or of the inner nodes, at a
time; without it hashlib does, one by one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.proofs.field import Words, aligned, native

HASH_BYTES = 32
"""Length of the hash of a node."""


class MerkleTree:
    """A Merkle tree over `leaves`, whose number must be a power of two."""

    def __init__(self, leaves: Sequence[bytes]) -> None:
        self._build(b"".join(_hash_leaf(leaf) for leaf in leaves))

    @classmethod
    def of_columns(cls, salts: bytes, columns: Words) -> Self:
        """Return the tree whose leaves are the columns of a matrix, each behind its salt.

        Args:
            salts: random bytes, equally many for each column, a multiple of four.
            columns: the matrix, (rows, columns); the number of columns is a power of two.
        """
        tree = cls.__new__(cls)
        tree._build(hash_columns(salts, columns))
        return tree

    def _build(self, hashes: bytes) -> None:
        """Compute all levels from the hashes of the leaves; raise InvalidParameter if there are not 2^i."""
        count = len(hashes) // HASH_BYTES
        if not count or count & (count - 1):
            raise InvalidParameter(f"a Merkle tree has a power of two leaves, not {count}")
        self._levels = [hashes]
        while len(below := self._levels[-1]) > HASH_BYTES:
            self._levels.append(_hash_pairs(below))

    @property
    def root(self) -> bytes:
        """The commitment, 32 bytes."""
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


def hash_columns(salts: bytes, columns: Words) -> bytes:
    """Return the hashes of leaves that are the columns of a matrix, (rows, columns), each behind its salt."""
    count = columns.shape[1]
    if not count or len(salts) % (4 * count):
        raise InvalidParameter(f"{len(salts)} bytes of salt are not a multiple of four for each of {count} columns")
    if kernel := native():
        hashes = bytearray(HASH_BYTES * count)
        kernel.hash_columns(hashes, salts, aligned(columns))
        return bytes(hashes)
    words = np.ascontiguousarray(columns.T).astype("<u8", copy=False).view(np.uint8)
    salted = np.frombuffer(salts, dtype=np.uint8).reshape(count, -1)
    return _hash_rows(np.concatenate([np.zeros((count, 1), dtype=np.uint8), salted, words], axis=1))


def opened_root(leaves: Mapping[int, bytes], size: int, path: Sequence[bytes]) -> bytes | None:
    """Compute the root of a tree from some of its leaves.

    Returns:
        The root, or None if the path has a wrong length.
    """
    hashes = b"".join([_hash_leaf(leaf) for leaf in leaves.values()])
    return _root(list(leaves), hashes, size, path)


def opened_columns_root(
    places: Sequence[int], salts: bytes, columns: Words, size: int, path: Sequence[bytes]
) -> bytes | None:
    """Compute the root of `MerkleTree.of_columns` from some of its columns.

    Args:
        columns: the opened columns, (rows, places).

    Returns:
        The root, or None if the path has a wrong length.
    """
    return _root(places, hash_columns(salts, columns), size, path)


def _root(places: Sequence[int], hashes: bytes, size: int, path: Sequence[bytes]) -> bytes | None:
    """Compute the root from the hashes of leaves at distinct places, in that order, and a path."""
    order = np.argsort(places)
    known = np.asarray(places, dtype=np.intp)[order]
    nodes = np.frombuffer(hashes, dtype=np.uint8).reshape(-1, HASH_BYTES)[order]
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
    return nodes.tobytes() if known.tolist() == [0] and not len(rest) else None


def _is_alone(places: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return for each place of an ascending list, (places,), whether the other child of its parent is not in it."""
    pairs = np.flatnonzero(places[:-1] ^ 1 == places[1:])
    alone = np.ones(len(places), dtype=np.bool_)
    alone[pairs] = alone[pairs + 1] = False
    return alone


def _hash_leaf(leaf: bytes) -> bytes:
    """Return the hash of a leaf."""
    return hashlib.sha256(b"\0" + leaf).digest()


def _hash_pairs(hashes: bytes) -> bytes:
    """Return the hashes of the parents of nodes, of each two that follow each other."""
    if kernel := native():
        parents = bytearray(len(hashes) // 2)
        kernel.hash_pairs(parents, hashes)
        return bytes(parents)
    pairs = np.frombuffer(hashes, dtype=np.uint8).reshape(-1, 2 * HASH_BYTES)
    return _hash_rows(np.concatenate([np.ones((len(pairs), 1), dtype=np.uint8), pairs], axis=1))


def _hash_rows(rows: NDArray[np.uint8]) -> bytes:
    """Return the SHA-256 hashes of the rows of an array of bytes."""
    data, length, sha256 = rows.tobytes(), rows.shape[1], hashlib.sha256
    return b"".join([sha256(data[at : at + length]).digest() for at in range(0, len(data), length)])
