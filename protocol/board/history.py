"""One log, seen from its end: the Merkle tree hash of everything that stands on a board (RFC 9162, section 2.1).

Two readers who know the same head (number of entries, root) have read the same entries in the same order. Every entry
names the head that its author had read up to, under the author's signature, so that a board which shows two readers
different logs is found out by the next entry of either that the other is shown.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from psephos.protocol.storage.values import storable

__all__ = ["Head", "History", "leaf_hash"]

EMPTY = hashlib.sha256().digest()
"""The root of no entries (RFC 9162, section 2.1.1)."""


@storable
@dataclass(frozen=True)
class Head:
    """A log as far as somebody has read it: how many entries, and their Merkle tree hash, 32 bytes."""

    size: int = 0
    root: bytes = field(default=EMPTY, repr=False)

    def __str__(self) -> str:
        return f"{self.size} entries, {self.root.hex()[:12]}"


def leaf_hash(data: bytes) -> bytes:
    """Of one entry (RFC 9162, section 2.1.1)."""
    return hashlib.sha256(b"\0" + data).digest()


class History:
    """The heads of a log that grows, one after each entry: 32 bytes an entry."""

    def __init__(self) -> None:
        self._peaks: list[tuple[int, bytes]] = []  # full subtrees, largest first: (leaves, root)
        self._roots = [EMPTY]

    def append(self, leaf: bytes) -> Head:
        """The head with one entry more, given its `leaf_hash`."""
        size, node = 1, leaf
        while self._peaks and self._peaks[-1][0] == size:
            _, left = self._peaks.pop()
            size, node = 2 * size, _joined(left, node)
        self._peaks.append((size, node))
        root = self._peaks[-1][1]
        for _, left in reversed(self._peaks[:-1]):
            root = _joined(left, root)
        self._roots.append(root)
        return self.head

    @property
    def head(self) -> Head:
        """After the last entry."""
        return Head(len(self._roots) - 1, self._roots[-1])

    def extends(self, head: Head) -> bool:
        """Whether this log began as the one of that head."""
        return head.size < len(self._roots) and self._roots[head.size] == head.root


def _joined(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()
