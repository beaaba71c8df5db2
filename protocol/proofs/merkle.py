"""Merkle trees (Merkle 1987): commitments to a list of byte strings, some of which are opened later.

Leaves and inner nodes are hashed with different first bytes, as in RFC 9162. To commit to secrets, put random bytes
into each leaf, so that the root reveals nothing about leaves that are never opened.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

HASH_BYTES = 32
"""Length of the hash of a node."""


class MerkleTree:
    """A Merkle tree over `leaves`, whose number must be a power of two."""

    def __init__(self, leaves: Sequence[bytes]) -> None:
        self._levels = [[hashlib.sha256(b"\0" + leaf).digest() for leaf in leaves]]
        while len(below := self._levels[-1]) > 1:
            pairs = zip(below[::2], below[1::2], strict=True)
            self._levels.append([hashlib.sha256(b"\1" + left + right).digest() for left, right in pairs])

    @property
    def root(self) -> bytes:
        """The commitment, 32 bytes."""
        return self._levels[-1][0]

    def path(self, places: Sequence[int]) -> list[bytes]:
        """Return the hashes that `opened_root` needs in addition to the leaves at these places."""
        hashes = []
        known = sorted(set(places))
        for level in self._levels[:-1]:
            missing = sorted({place ^ 1 for place in known} - set(known))
            hashes += [level[place] for place in missing]
            known = sorted({place >> 1 for place in known})
        return hashes


def opened_root(leaves: Mapping[int, bytes], size: int, path: Sequence[bytes]) -> bytes | None:
    """Compute the root of a tree from some of its leaves.

    Args:
        leaves: opened leaves by place.
        size: number of leaves of the tree, a power of two.
        path: the hashes from `MerkleTree.path` for these places.

    Returns:
        The root, or None if the path has a wrong length.
    """
    nodes = {place: hashlib.sha256(b"\0" + leaf).digest() for place, leaf in leaves.items()}
    rest = list(reversed(path))
    while size > 1:
        missing = sorted({place ^ 1 for place in nodes} - set(nodes))
        if len(missing) > len(rest):
            return None
        nodes |= {place: rest.pop() for place in missing}
        pairs = sorted({place >> 1 for place in nodes})
        nodes = {p: hashlib.sha256(b"\1" + nodes[2 * p] + nodes[2 * p + 1]).digest() for p in pairs}
        size //= 2
    return nodes.get(0) if not rest else None
