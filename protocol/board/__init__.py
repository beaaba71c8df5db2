"""A public, ordered, append-only log of signed entries: the only channel between roles on separate machines.

A `Board` orders bytes and is trusted with nothing else. What its readers hold it to is in `entries` (who says what),
`history` (that it is one log) and `seat` (what one role has read of it). docs/security/board.md says what follows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from psephos.protocol.errors import MessageError

__all__ = ["MOST_BYTES", "Board", "MemoryBoard", "check_size"]

MOST_BYTES = 1 << 26
"""No entry is longer: 64 MiB, several times the longest message of a ceremony among nine holders."""


def check_size(data: bytes) -> None:
    """Raise MessageError for an entry that is too long for any board."""
    if len(data) > MOST_BYTES:
        raise MessageError(f"an entry of {len(data)} bytes is too long for a board: none has more than {MOST_BYTES}")


class Board(Protocol):
    """Where entries are posted and read, whatever carries them.

    Entries are numbered 1, 2, 3, ... in the order in which everybody reads them.
    """

    def post(self, data: bytes) -> None:
        """Append an entry; the same bytes a second time may be dropped.

        Raises BoardError when it was not taken, MessageError when it never will be (`check_size`).
        """

    def read(self, after: int) -> Iterable[tuple[int, bytes]]:
        """Entries with a larger number, in order, as far as they are there.

        Raises BoardError when they cannot be read, or when the board has fewer than `after`: it was set back.
        """

    def close(self) -> None:
        """Let go of it."""


class MemoryBoard:
    """A board within one process."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []

    def post(self, data: bytes) -> None:
        """Append an entry."""
        check_size(data)
        self.entries.append(data)

    def read(self, after: int) -> Iterable[tuple[int, bytes]]:
        """Entries with a larger number."""
        return list(enumerate(self.entries[after:], start=after + 1))

    def close(self) -> None:
        """Nothing to do."""
