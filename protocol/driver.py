"""Runs roles over a board until they are done. It knows no protocol.

    Driver([party, ..., curator, holder, ...]).run()["curator"]

Every message goes to the board; a role is shown what is addressed to it and the public kinds that it reads, all in the
order of the board. When nothing is on its way any more, roles are told that it is quiet, one after the other, until one
of them moves on. When none does, the run is over; a role that still cannot go on without something is then an error
that names what never came. With a store, every step of a role is one transaction: a run that was killed goes on where
it was. No paper behind it; docs/design.md, section 2.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from psephos.protocol.errors import InvalidParameter, MessageError, PartyVanishedError
from psephos.protocol.roles import BOARD, Entry, Post, Refusal, Role, Step
from psephos.protocol.storage.store import Store
from psephos.protocol.storage.values import decode, encode
from psephos.protocol.transcript import Transcript
from psephos.protocol.wire import Kind

_log = logging.getLogger("psephos.driver")


class MessageBoard(Protocol):
    """An append-only, ordered log."""

    def post(self, sender: str, post: Post) -> Entry:
        """Append a message."""

    def read(self, after: int) -> Iterable[Entry]:
        """Everything with a larger number, in order."""


class MemoryMessageBoard:
    """A board within one process. What everybody in it has read is dropped, so that it does not grow."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._posted = 0

    def post(self, sender: str, post: Post) -> Entry:
        """Append a message."""
        self._posted += 1
        entry = Entry(self._posted, sender, post.receiver, post.data)
        self._entries.append(entry)
        return entry

    def read(self, after: int) -> Iterable[Entry]:
        """Everything with a larger number; what lies before is forgotten."""
        self._entries = [entry for entry in self._entries if entry.number > after]
        return list(self._entries)


class StoredMessageBoard:
    """A board that is kept, with the phase of every message."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def post(self, sender: str, post: Post) -> Entry:
        """Append a message, in the transaction around it; raises JournalError when it cannot be written."""
        with self._store.transaction():
            number = int.from_bytes(self._store.last("board") or b"", "big") + 1
            content = encode((sender, post.receiver, post.data, post.phase))
            self._store.put("board", number.to_bytes(8, "big"), content)
        return Entry(number, sender, post.receiver, post.data)

    def read(self, after: int) -> Iterable[Entry]:
        """Everything with a larger number, in order; raises JournalError when the store is damaged."""
        return (entry for _, entry in self.history(after))

    def history(self, after: int = 0) -> Iterator[tuple[str, Entry]]:
        """The same with the phases."""
        for number, content in self._store.items("board", after.to_bytes(8, "big")):
            sender, receiver, data, phase = decode(content)
            yield phase, Entry(int.from_bytes(number, "big"), sender, receiver, data)


@dataclass
class PhaseCosts:
    """What one part of a protocol cost: wall-clock seconds of the roles that worked in it, messages and bytes."""

    seconds: float = 0.0
    messages: int = 0
    bytes: int = 0


class Driver:
    """One run, or one machine's part of it."""

    def __init__(
        self,
        roles: Iterable[Role],
        *,
        board: MessageBoard | None = None,
        states: Mapping[str, Any] | None = None,
        store: Store | None = None,
        transcript: Transcript | None = None,
        strict: bool = True,
        watch: Callable[[str, Entry], object] = lambda phase, entry: None,
    ) -> None:
        """
        Args:
            roles: who takes part here.
            board: where messages go; one in memory by default.
            states: of roles that have started already, by name.
            store: keeps states and messages, in place of `board` and `states`; a run that is in it already goes on.
            transcript: notes every message.
            strict: raise the first error for which a role refused a message; otherwise see `refused`.
            watch: called with the phase and every entry as it is posted, for progress.

        Raises InvalidParameter when two roles have one name, a state is nobody's, or a store is given besides them;
        JournalError when what the store keeps cannot be read.
        """
        self.roles: dict[str, Role] = {}
        for role in roles:
            if role.name in self.roles:
                raise InvalidParameter(f"two roles are called {role.name}")
            self.roles[role.name] = role
        if store is not None and (board is not None or states):
            raise InvalidParameter("a run that is kept in a store has its board and its states there")
        self.states: dict[str, Any] = dict(states or {})
        self._store, self._read = store, dict.fromkeys(self.roles, 0)
        if store is not None:
            board = StoredMessageBoard(store)
            for name, content in store.items("states"):
                self._read[name.decode()], self.states[name.decode()] = decode(content)
        if strangers := self.states.keys() - self.roles.keys():
            raise InvalidParameter(f"there is no {min(strangers)} in this run; it has {', '.join(self.roles)}")
        self.refused: list[tuple[str, Refusal]] = []
        self.phases: dict[str, PhaseCosts] = {}
        self.clock: dict[str, float] = dict.fromkeys(self.roles, 0.0)
        """Seconds that each role has worked."""
        self._board: MessageBoard = MemoryMessageBoard() if board is None else board
        self._transcript = Transcript() if transcript is None else transcript
        self._transcript.roles |= self.roles.keys()
        self._strict, self._watch = strict, watch
        self._readers: dict[Kind, list[str]] = {}
        for role in self.roles.values():
            for kind in role.reads:
                self._readers.setdefault(kind, []).append(role.name)
        self._inbox: dict[str, list[Entry]] = {}
        self._cursor = min(self._read.values(), default=0)
        self._phase = ""
        if isinstance(board, StoredMessageBoard):
            for phase, entry in board.history():
                self._note(phase, entry)

    def run(self) -> dict[str, Any]:
        """Until nobody moves any more; returns what each role came to, by name, where that is something.

        Raises PartyVanishedError when a role waits for what never comes, and whatever a role raises.
        """
        for name, role in self.roles.items():
            if name not in self.states:
                self._take(name, role.start)
        while self._deliver() or self._on_idle():
            pass
        waits = [(found, name) for name, role in self.roles.items() if (found := role.awaits(self.states[name]))]
        if waits:
            # Kinds are numbered in the order of their protocol, so what is missing first is what held up the others.
            missing, name = min(waits, key=lambda wait: wait[0].kind)
            raise PartyVanishedError(
                f"{name} waits for {missing}, which never came. The run stops and nothing is published; start another "
                "one without whoever vanished"
            )
        return self.results()

    def results(self) -> dict[str, Any]:
        """What each role has come to so far, by name, where that is something."""
        found = {name: role.result(self.states[name]) for name, role in self.roles.items() if name in self.states}
        return {name: result for name, result in found.items() if result is not None}

    def _deliver(self) -> bool:
        """Show everybody what was posted since the last time."""
        for entry in self._board.read(self._cursor):
            self._cursor = entry.number
            for name in self._readers_of(entry):
                if name in self.roles and entry.number > self._read[name]:
                    self._inbox.setdefault(name, []).append(entry)
        inbox, self._inbox = self._inbox, {}
        for name, role in self.roles.items():
            if entries := inbox.get(name):
                self._take(name, lambda role=role, name=name, entries=entries: role.receive(self.states[name], entries))  # type: ignore[misc]
        return bool(inbox)

    def _readers_of(self, entry: Entry) -> Iterable[str]:
        """Of what is no message everybody who reads the board, to refuse it."""
        if entry.receiver != BOARD:
            return [entry.receiver]
        try:
            return self._readers.get(entry.kind, [])
        except MessageError:
            return [name for name, role in self.roles.items() if role.reads]

    def _on_idle(self) -> bool:
        """Tell roles that it is quiet, until one of them moves."""
        for name, role in self.roles.items():
            if self._take(name, lambda role=role, name=name: role.on_idle(self.states[name])):  # type: ignore[misc]
                return True
        return False

    def _take(self, name: str, work: Callable[[], Step | None]) -> bool:
        begun = time.perf_counter()
        with nullcontext() if self._store is None else self._store.transaction():
            step = work()
            if step is None:
                return False
            if self._strict and step.refused:
                raise step.refused[0].error
            entries = [self._board.post(name, post) for post in step.posts]
            if self._store is not None:
                self._store.put("states", name.encode(), encode((self._cursor, step.state)))
        self.states[name] = step.state
        self.refused += [(name, refusal) for refusal in step.refused]
        if step.posts:
            self._phase = step.posts[0].phase
        taken = time.perf_counter() - begun
        self.clock[name] += taken
        self.phases.setdefault(self._phase, PhaseCosts()).seconds += taken
        for refusal in step.refused:
            _log.info("refused", extra={"about": {"role": name, "error": type(refusal.error).__name__}})
        for post, entry in zip(step.posts, entries, strict=True):
            self._note(post.phase, entry)
            self._watch(post.phase, entry)
        return True

    def _note(self, phase: str, entry: Entry) -> None:
        try:
            title = entry.kind.title
        except MessageError:
            title = "no message"
        self._transcript.record(phase, entry.sender, entry.receiver, title, entry.data)
        # What travels is never logged, only that it does.
        sent = {"phase": phase, "sender": entry.sender, "receiver": entry.receiver, "kind": title}
        _log.debug("posted", extra={"about": sent | {"bytes": len(entry.data)}})
        counted = self.phases.setdefault(phase, PhaseCosts())
        counted.messages += 1
        counted.bytes += len(entry.data)


def replace_roles(roles: Iterable[Role], puppets: Mapping[str, Callable[[Role], Role]]) -> list[Role]:
    """The same roles, but for those that somebody else plays: `puppets` makes each from the honest one.

    Raises InvalidParameter for the name of a role that does not exist.
    """
    honest = {role.name: role for role in roles}
    if unknown := puppets.keys() - honest.keys():
        raise InvalidParameter(f"there is no {min(unknown)} in this run; its roles are {', '.join(honest)}")
    return [puppets[name](role) if name in puppets else role for name, role in honest.items()]
