"""One role on a machine of its own: reads the board, takes a step, and posts, again and again, whatever stops it when.

A step is one transaction: what was read, the role's next state, what it claims in its ledger, and the entries that it
is to post, signed, are on disk together or not at all. Entries are posted until they have been read back, with the same
bytes, so that a crash, or a board that forgets, leaves nothing undone and does nothing twice. docs/security/board.md.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from psephos.protocol.board import MOST_BYTES, Board
from psephos.protocol.board.client import BoardClient, BoardMembers, Checked, joined
from psephos.protocol.board.history import Head
from psephos.protocol.board.sealing import SealingKey
from psephos.protocol.errors import BoardError, EquivocationError, MessageError, PsephosError, bare
from psephos.protocol.roles import BOARD, Entry, Post, Role, Step
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import Store
from psephos.protocol.storage.values import decode, encode

__all__ = ["Agent", "Rejected"]

_log = logging.getLogger("psephos.agent")

_BATCH = 256
"""Entries of one transaction."""

_AGAIN = 30.0
"""Seconds after which an entry that was not read back is posted again."""


@dataclass(frozen=True)
class Rejected:
    """Something that was not taken: the entry's number on the board, its author as far as it is known, and why."""

    number: int
    author: str
    error: PsephosError


@dataclass
class _Outgoing:
    data: bytes = field(repr=False)
    posted: float = float("-inf")


class Agent:
    """Plays one role over a board, with a store of its own. Not to be used any more after an error."""

    def __init__(
        self,
        role: Role,
        members: BoardMembers,
        key: SigningKey,
        board: Board,
        store: Store,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            role: what it plays; its ledger is in the same store.
            members: who takes part in the study.
            key: the role's signing key.
            board: where everything is posted and read.
            store: of this role alone; on disk wherever it can be restarted.
            clock: seconds, for posting again.

        Raises UnknownPartyError for an identity that does not play this role, JournalError for a damaged store, and
        what the role raises when it starts.
        """
        self.role, self._board, self._store, self._clock = role, board, store, clock
        self.refused: list[Rejected] = []
        """What was not taken, by this process."""
        self._outbox: dict[int, _Outgoing] = {}
        with store.transaction():
            secret = store.get("seat", b"sealing")
            if secret is None:
                secret = SealingKey.generate().secret()
                store.put("seat", b"sealing", secret)
            self._seat = BoardClient(members, role.name, key, SealingKey(secret) if secret else None)
            for _, content in store.items("log"):
                self._seat.recall(decode(content))
            for name, data in store.items("outbox"):
                self._seat.place = int.from_bytes(name, "big") + 1
                if data:
                    self._outbox[self._seat.place - 1] = _Outgoing(data)
            kept = store.get("role", b"state")
            self.state: Any = None if kept is None else decode(kept)
            if kept is None:
                self._keep(Step(None, (Post(BOARD, joined(members.session, SealingKey(secret).public), "join"),)))
                self._keep(role.start())

    @property
    def head(self) -> Head:
        """Of the board, as far as it was read."""
        return self._seat.head

    @property
    def result(self) -> Any:
        """What the role came to; None when that is nothing, or not yet."""
        return self.role.result(self.state)

    @property
    def said(self) -> int:
        """Entries that it has signed."""
        return self._seat.place

    @property
    def waiting(self) -> int:
        """Entries that were not read back yet."""
        return len(self._outbox)

    def step(self) -> bool:
        """Post what is to be posted, read what is new, and act on it; whether there was anything.

        Read first: a store that was lost or set back is found out before anything is said on the strength of it.

        Raises BoardError when the board fails; everything is kept, and the next step goes on. Raises EquivocationError
        when the role has said more than this store knows of, and what the role raises when it cannot go on.
        """
        moved = False
        after = self._seat.head.size
        for entries in _batches(self._board.read(after), after):
            moved = True
            with self._store.transaction():
                self._act([entry for entry in map(self._taken, entries) if entry is not None])
        self._post()
        return moved

    def on_idle(self) -> bool:
        """Tell the role that nothing more is on its way; whether it moved."""
        with self._store.transaction():
            step = self.role.on_idle(self.state)
            if step is None:
                return False
            self._keep(step)
        self._post()
        return True

    def _taken(self, numbered: tuple[int, bytes]) -> Entry | None:
        number, data = numbered
        taken: Checked = self._seat.take(number, data)
        self._store.put("log", number.to_bytes(8, "big"), encode(taken.note))
        if taken.error is not None:
            self._refuse(number, taken.note.author, taken.error)
        if taken.note.author == self.role.name:
            own = self._outbox.get(taken.note.place)
            if taken.note.place >= self._seat.place or (own is not None and own.data != data):
                raise EquivocationError(
                    f"{self.role.name} has said more in this study than its store knows of (entry {number}): the store "
                    "was lost, or set back to an old copy. A role is not played twice: go on with the newest store, or "
                    "agree on another study"
                )
            if own is not None:
                del self._outbox[taken.note.place]
                self._store.put("outbox", taken.note.place.to_bytes(8, "big"), b"")
        entry = taken.entry
        return entry if entry is not None and self._reads(entry) else None

    def _reads(self, entry: Entry) -> bool:
        try:
            return entry.kind in self.role.reads or entry.receiver != BOARD
        except MessageError as error:
            self._refuse(entry.number, entry.sender, error)
            return False

    def _act(self, entries: list[Entry]) -> None:
        if not entries:
            return
        step = self.role.receive(self.state, entries)
        for refusal in step.refused:
            self._refuse(refusal.entry.number, refusal.entry.sender, refusal.error)
        self._keep(step)

    def _keep(self, step: Step) -> None:
        """The next state and the signed entries, in the transaction around it."""
        self.state = step.state
        self._store.put("role", b"state", encode(step.state))
        for post in step.posts:
            place, data = self._seat.place, self._seat.sign(post)
            self._store.put("outbox", place.to_bytes(8, "big"), data)
            self._outbox[place] = _Outgoing(data)
        if step.state is not None and not self.role.listens(step.state):
            self._store.put("seat", b"sealing", b"")
            self._seat.forget_secrets()

    def _post(self) -> None:
        for place, outgoing in sorted(self._outbox.items()):
            if self._clock() - outgoing.posted >= _AGAIN:
                self._board.post(outgoing.data)
                outgoing.posted = self._clock()
                _log.debug("posted", extra={"about": {"role": self.role.name, "place": place}})

    def _refuse(self, number: int, author: str, error: PsephosError) -> None:
        self.refused.append(Rejected(number, author, bare(error)))
        about = {"role": self.role.name, "entry": number, "author": author, "error": type(error).__name__}
        _log.info("refused", extra={"about": about})


def _batches(entries: Iterable[tuple[int, bytes]], after: int) -> Iterator[list[tuple[int, bytes]]]:
    """Of so many entries, or so many bytes: a member's longest entries must not fill the memory of everybody else.

    Raises BoardError for one that is not the next, before any of its batch is taken: the next look begins with them.
    """
    batch: list[tuple[int, bytes]] = []
    for place, entry in enumerate(entries, after + 1):
        if entry[0] != place:
            raise BoardError(f"entry {entry[0]} came after entry {place - 1}: the board leaves something out")
        batch.append(entry)
        if len(batch) == _BATCH or sum(len(data) for _, data in batch) >= MOST_BYTES:
            yield batch
            batch = []
    if batch:
        yield batch
