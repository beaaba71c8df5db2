"""The public board: what is posted on it, every observer sees, in the same order.

No paper behind it: that there is such a board is an assumption of the protocols (docs/security/index.md), and this one
serves runs within one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from psephos.protocol.errors import PsephosError

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

    def watch(self, observer: Observer) -> list[PsephosError]:
        """Show every message so far kept, and all later ones, to `observer`; returns its refusals of those kept."""
        self._observers.append(observer)
        return [refusal for message in self.messages for refusal in _show(message, [observer])]

    def post(self, message: bytes) -> list[PsephosError]:
        """Publish an encoded message; returns the refusals. An observer that refuses hides nothing from others."""
        self.posted += 1
        self.bytes_posted += len(message)
        if self._keep:
            self.messages.append(message)
        return _show(message, self._observers)


def _show(message: bytes, observers: Iterable[Observer]) -> list[PsephosError]:
    refusals: list[PsephosError] = []
    for observer in observers:
        try:
            observer(message)
        except PsephosError as refusal:
            refusals.append(refusal)
    return refusals
