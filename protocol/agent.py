"""An agent runs one role on a machine of its own, over a board, with a store on disk.

An agent repeats one step: it reads the new entries of the board, lets the role handle them, and posts the role's
messages. A step is one transaction of the store, and an entry is posted again until it was read back unchanged: neither
a crash nor a board that loses entries loses a message or sends two different ones (docs/protocols/board.md).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from psephos.protocol.board import MOST_BYTES, Board
from psephos.protocol.board.client import BoardClient, BoardMembers, LogRecord, join_message
from psephos.protocol.board.history import Head
from psephos.protocol.board.sealing import SealingKey
from psephos.protocol.errors import BoardError, EquivocationError, MessageError, PsephosError, without_traceback
from psephos.protocol.roles import BOARD, Entry, Post, Role, Step
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import Store
from psephos.protocol.storage.values import decode, encode

_log = logging.getLogger("psephos.agent")

_BATCH = 256
"""Entries that are handled in one transaction."""

_AGAIN = 30.0
"""Seconds after which an entry that was not read back is posted again."""


@dataclass(frozen=True)
class RejectedEntry:
    """An entry that was not accepted, by whom it was signed ("" if that is not known), and the reason."""

    number: int
    author: str
    error: PsephosError


@dataclass
class _Outgoing:
    """An own entry that was not read back yet, and the time at which it was last posted."""

    data: bytes = field(repr=False)
    posted_at: float = float("-inf")


class Agent:
    """Runs one role over a board, with a store of its own. An agent must not be used again after it raised an error."""

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
        """Start a role, or restore it from its store, which no other role uses."""
        self.role, self._board, self._store, self._clock = role, board, store, clock
        self.rejected: list[RejectedEntry] = []
        """The entries that were not accepted since this agent was constructed."""
        self._outbox: dict[int, _Outgoing] = {}
        with store.transaction():
            sealing_secret = store.get("seat", b"sealing")
            if sealing_secret is None:
                sealing_secret = SealingKey.generate().secret()
                store.put("seat", b"sealing", sealing_secret)
            # The secret is empty once the role no longer listens.
            sealing_key = SealingKey(sealing_secret) if sealing_secret else None
            self._client = BoardClient(members, role.name, key, sealing_key)
            for _, content in store.items("log"):
                self._client.restore(decode(content))
            for name, data in store.items("outbox"):
                place = int.from_bytes(name, "big")
                self._client.place = place + 1
                if data:  # empty: it was read back
                    self._outbox[place] = _Outgoing(data)
            stored_state = store.get("role", b"state")
            self.state: Any = None if stored_state is None else decode(stored_state)
            if stored_state is None:
                join = join_message(members.session, SealingKey(sealing_secret).public)
                self._commit(Step(None, (Post(BOARD, join, "join"),)))
                self._commit(role.start())

    @property
    def head(self) -> Head:
        return self._client.head

    @property
    def result(self) -> Any:
        """The role's result; None if it has none, or has none yet."""
        return self.role.result(self.state)

    @property
    def signed_entries(self) -> int:
        return self._client.place

    @property
    def unconfirmed(self) -> int:
        return len(self._outbox)

    def step(self) -> bool:
        """Read what is new on the board, let the role handle it, and post; return whether there were new entries.

        Reading comes first, so that a store that was lost or set back is detected before anything is posted. Raises
        BoardError, after which the next step continues; EquivocationError if the board has an entry of this role that
        its store does not have; or what the role raises.
        """
        has_news = False
        after = self._client.head.size
        for batch in _batches(self._board.read(after), after):
            has_news = True
            with self._store.transaction():
                messages = [self._check(number, data) for number, data in batch]
                if entries := [message for message in messages if message is not None]:
                    step = self.role.receive(self.state, entries)
                    for refusal in step.refused:
                        self._reject(refusal.entry.number, refusal.entry.sender, refusal.error)
                    self._commit(step)
        self._post()
        return has_news

    def on_idle(self) -> bool:
        """Tell the role that no more messages are on their way; return whether it took a step."""
        with self._store.transaction():
            step = self.role.on_idle(self.state)
            if step is None:
                return False
            self._commit(step)
        self._post()
        return True

    def _check(self, number: int, data: bytes) -> Entry | None:
        """Record an entry of the board; return its message if it is one that the role reads."""
        checked = self._client.check(number, data)
        record = checked.record
        self._store.put("log", number.to_bytes(8, "big"), encode(record))
        if checked.error is not None:
            self._reject(number, record.author, checked.error)
        if record.author == self.role.name:
            self._confirm(number, record, data)
        message = checked.entry
        return message if message is not None and self._is_read(message) else None

    def _confirm(self, number: int, record: LogRecord, data: bytes) -> None:
        """Remove an own entry that was read back from the outbox; raises EquivocationError."""
        own = self._outbox.get(record.place)
        if record.place >= self._client.place or (own is not None and own.data != data):
            raise EquivocationError(
                f"the board has an entry of {self.role.name} (number {number}) that this store does not have: the "
                "store was lost, or an old copy was restored. Continue with the newest store, or start another study"
            )
        if own is not None:
            del self._outbox[record.place]
            self._store.put("outbox", record.place.to_bytes(8, "big"), b"")

    def _is_read(self, entry: Entry) -> bool:
        try:
            return entry.kind in self.role.reads or entry.receiver != BOARD
        except MessageError as error:
            self._reject(entry.number, entry.sender, error)
            return False

    def _commit(self, step: Step) -> None:
        self.state = step.state
        self._store.put("role", b"state", encode(step.state))
        for post in step.posts:
            place, data = self._client.place, self._client.sign(post)
            self._store.put("outbox", place.to_bytes(8, "big"), data)
            self._outbox[place] = _Outgoing(data)
        if step.state is not None and not self.role.listens(step.state):
            self._store.put("seat", b"sealing", b"")
            self._client.forget_secrets()

    def _post(self) -> None:
        for place, outgoing in sorted(self._outbox.items()):
            if self._clock() - outgoing.posted_at >= _AGAIN:
                self._board.post(outgoing.data)
                outgoing.posted_at = self._clock()
                _log.debug("posted", extra={"about": {"role": self.role.name, "place": place}})

    def _reject(self, number: int, author: str, error: PsephosError) -> None:
        self.rejected.append(RejectedEntry(number, author, without_traceback(error)))
        about = {"role": self.role.name, "entry": number, "author": author, "error": type(error).__name__}
        _log.info("refused", extra={"about": about})


def _batches(entries: Iterable[tuple[int, bytes]], after: int) -> Iterator[list[tuple[int, bytes]]]:
    """Split entries into batches of limited count and size, for the sake of memory; raises BoardError for a gap."""
    batch: list[tuple[int, bytes]] = []
    for expected, entry in enumerate(entries, after + 1):
        if entry[0] != expected:
            raise BoardError(f"the board left out entries: entry {entry[0]} came after entry {expected - 1}")
        batch.append(entry)
        if len(batch) == _BATCH or sum(len(data) for _, data in batch) >= MOST_BYTES:
            yield batch
            batch = []
    if batch:
        yield batch
