"""Merkle tree hash of a log, RFC 9162, section 2.1: readers with the same head have read the same entries in order.

Every entry contains, signed, the head up to which its author had read the board. A board that shows two readers
different logs is detected as soon as either is shown an entry that the other has signed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from psephos.protocol.storage.values import storable

EMPTY = hashlib.sha256().digest()
"""The root of a log without entries (RFC 9162, section 2.1.1)."""


@storable
@dataclass(frozen=True)
class Head:
    """A log as far as it was read: the number of entries, and their Merkle tree hash, 32 bytes."""

    size: int = 0
    root: bytes = field(default=EMPTY, repr=False)

    def __str__(self) -> str:
        return f"{self.size} entries, {self.root.hex()[:12]}"


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of one entry, 32 bytes (RFC 9162, section 2.1.1)."""
    return hashlib.sha256(b"\0" + data).digest()


class History:
    """The heads of a growing log, one for each length; takes 32 bytes of memory for each entry."""

    def __init__(self) -> None:
        self._subtrees: list[tuple[int, bytes]] = []  # complete subtrees, largest first: (number of leaves, root)
        self._roots = [EMPTY]

    def append(self, leaf: bytes) -> Head:
        size, node = 1, leaf
        while self._subtrees and self._subtrees[-1][0] == size:
            _, left = self._subtrees.pop()
            size, node = 2 * size, _node_hash(left, node)
        self._subtrees.append((size, node))
        root = self._subtrees[-1][1]
        for _, left in reversed(self._subtrees[:-1]):
            root = _node_hash(left, root)
        self._roots.append(root)
        return self.head

    @property
    def head(self) -> Head:
        return Head(len(self._roots) - 1, self._roots[-1])

    def extends(self, head: Head) -> bool:
        """Return whether the first `head.size` entries of this log have this head."""
        return head.size < len(self._roots) and self._roots[head.size] == head.root


def _node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()
