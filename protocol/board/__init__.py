"""Boards: a public, ordered, append-only log of signed entries, the only channel between roles on separate machines.

A `Board` orders bytes and is trusted with nothing else: its readers check it (docs/protocols/board.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from psephos.protocol.errors import MessageError

MOST_BYTES = 1 << 26
"""The greatest length of an entry: 64 MiB, several times the longest message of key generation with nine holders."""


def check_size(data: bytes) -> None:
    if len(data) > MOST_BYTES:
        raise MessageError(f"an entry of {len(data)} bytes is too long for a board: the limit is {MOST_BYTES}")


class Board(Protocol):
    """Where entries are posted and read. They are numbered 1, 2, 3, ... in the order in which all readers see them."""

    def post(self, data: bytes) -> None:
        """Append an entry. A board may drop an entry that it has already; raises BoardError or MessageError."""

    def read(self, after: int) -> Iterable[tuple[int, bytes]]:
        """Return the entries with a number above `after` that the board has now, in order; raises BoardError."""

    def close(self) -> None:
        """Release the file or the connection."""


class MemoryBoard:
    """A board in the memory of one process."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []

    def post(self, data: bytes) -> None:
        check_size(data)
        self.entries.append(data)

    def read(self, after: int) -> Iterable[tuple[int, bytes]]:
        return list(enumerate(self.entries[after:], start=after + 1))

    def close(self) -> None:
        """Do nothing; there is nothing to release."""
