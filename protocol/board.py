"""The public board: what is posted on it, every observer sees, in the same order."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Board"]

Observer = Callable[[bytes], object]


class Board:
    """An in-memory board.

    Observers see each message as it is posted. A board keeps its messages for latecomers unless told not to, which
    a run of many parties does: its observers forget ballots as they multiply them.
    """

    def __init__(self, *, keep: bool = True) -> None:
        self._keep = keep
        self._observers: list[Observer] = []
        self.messages: list[bytes] = []
        self.posted = 0
        self.bytes_posted = 0

    def watch(self, observer: Observer) -> None:
        """Show every message so far kept, and all later ones, to `observer`."""
        for message in self.messages:
            observer(message)
        self._observers.append(observer)

    def post(self, message: bytes) -> None:
        """Publish an encoded message."""
        self.posted += 1
        self.bytes_posted += len(message)
        if self._keep:
            self.messages.append(message)
        for observer in self._observers:
            observer(message)
