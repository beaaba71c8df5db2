"""Run the roles of a protocol in one process until they are done. The driver knows no protocol.

    results = Driver([party, ..., curator, holder, ...]).run()

docs/design.md, section 2, describes the model. With a store, every step of a role is one transaction, and a run that
was killed continues where it was.
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

NO_MESSAGE = "no message"
"""The kind, in a transcript, of bytes that are not a message."""


class MessageBoard(Protocol):
    """An append-only, ordered log of messages in one process. Unlike on a `psephos.protocol.board`, none is signed."""

    def post(self, sender: str, post: Post) -> Entry:
        """Append a message and return it as an entry."""

    def read(self, after: int) -> Iterable[Entry]:
        """Return the entries with a number above `after`, in order."""


class MemoryMessageBoard:
    """A board in memory. Entries that were read are dropped, so that it does not grow."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._posted = 0

    def post(self, sender: str, post: Post) -> Entry:
        self._posted += 1
        entry = Entry(self._posted, sender, post.receiver, post.data)
        self._entries.append(entry)
        return entry

    def read(self, after: int) -> Iterable[Entry]:
        self._entries = [entry for entry in self._entries if entry.number > after]
        return list(self._entries)


class StoredMessageBoard:
    def __init__(self, store: Store) -> None:
        self._store = store

    def post(self, sender: str, post: Post) -> Entry:
        with self._store.transaction():
            number = int.from_bytes(self._store.last("board") or b"", "big") + 1
            content = encode((sender, post.receiver, post.data, post.phase))
            self._store.put("board", number.to_bytes(8, "big"), content)
        return Entry(number, sender, post.receiver, post.data)

    def read(self, after: int) -> Iterable[Entry]:
        return (entry for _, entry in self.history(after))

    def history(self, after: int = 0) -> Iterator[tuple[str, Entry]]:
        """Yield the phases and entries with a number above `after`, in order; raises JournalError."""
        for number, content in self._store.items("board", after.to_bytes(8, "big")):
            sender, receiver, data, phase = decode(content)
            yield phase, Entry(int.from_bytes(number, "big"), sender, receiver, data)


@dataclass
class PhaseCosts:
    """The costs of one part of a protocol: seconds of the roles that worked in it, number and bytes of messages."""

    seconds: float = 0.0
    messages: int = 0
    bytes: int = 0


class Driver:
    """One run of a protocol: roles, states and seconds of work (`clock`) by name, refused messages, costs by phase."""

    def __init__(
        self,
        roles: Iterable[Role],
        *,
        board: MessageBoard | None = None,
        store: Store | None = None,
        transcript: Transcript | None = None,
        strict: bool = True,
        watch: Callable[[str, Entry], object] = lambda phase, entry: None,
    ) -> None:
        """
        Args:
            roles: the roles to run.
            board: where messages are posted; in memory by default.
            store: keeps states and messages, instead of `board`. A run that is in it continues.
            transcript: records every message.
            strict: raise the first error for which a role refuses a message, instead of collecting it in `refused`.
            watch: called with the phase and the entry of every message that is posted, to show progress.

        Raises InvalidParameter, or JournalError if the store cannot be read.
        """
        self.roles: dict[str, Role] = {}
        for role in roles:
            if role.name in self.roles:
                raise InvalidParameter(f"two roles are called {role.name}; names must be unique in a run")
            self.roles[role.name] = role
        if store is not None and board is not None:
            raise InvalidParameter("a store contains the board; leave out `board`")
        self.states: dict[str, Any] = {}
        self._store = store
        self._last_read = dict.fromkeys(self.roles, 0)
        if store is not None:
            board = StoredMessageBoard(store)
            for name, content in store.items("states"):
                self._last_read[name.decode()], self.states[name.decode()] = decode(content)
        if unknown := self.states.keys() - self.roles.keys():
            raise InvalidParameter(f"there is no {min(unknown)} in this run; it has {', '.join(self.roles)}")
        self.refused: list[tuple[str, Refusal]] = []
        self.phases: dict[str, PhaseCosts] = {}
        self.clock: dict[str, float] = dict.fromkeys(self.roles, 0.0)
        self._board: MessageBoard = MemoryMessageBoard() if board is None else board
        self._transcript = Transcript() if transcript is None else transcript
        self._transcript.roles |= self.roles.keys()
        self._strict, self._watch = strict, watch
        self._readers: dict[Kind, list[str]] = {}
        for role in self.roles.values():
            for kind in role.reads:
                self._readers.setdefault(kind, []).append(role.name)
        self._inbox: dict[str, list[Entry]] = {}
        self._cursor = min(self._last_read.values(), default=0)
        self._phase = ""
        if isinstance(board, StoredMessageBoard):
            for phase, entry in board.history():
                self._record(phase, entry)

    def run(self) -> dict[str, Any]:
        """Run until no role takes a step any more; return the results of the roles that have one, by name.

        Raises PartyVanishedError, whatever a role raises, and with `strict` the first refusal.
        """
        for name, role in self.roles.items():
            if name not in self.states:
                self._take_step(name, role.start)
        while self._deliver() or self._on_idle():
            pass
        self._check_that_nothing_is_missing()
        return self.results()

    def results(self) -> dict[str, Any]:
        results = {name: role.result(self.states[name]) for name, role in self.roles.items() if name in self.states}
        return {name: result for name, result in results.items() if result is not None}

    def _check_that_nothing_is_missing(self) -> None:
        waiting = []
        for name, role in self.roles.items():
            missing = role.awaits(self.states[name])
            if missing is not None:
                waiting.append((missing, name))
        if waiting:
            # Kinds are numbered in the order of their protocol, so the first missing message held up all others.
            missing, name = min(waiting, key=lambda wait: wait[0].kind)
            raise PartyVanishedError(
                f"{name} waits for {missing}, which never came. The run stops and nothing is published; start another "
                "one without the roles that vanished"
            )

    def _deliver(self) -> bool:
        for entry in self._board.read(self._cursor):
            self._cursor = entry.number
            for name in self._readers_of(entry):
                if name in self.roles and entry.number > self._last_read[name]:
                    self._inbox.setdefault(name, []).append(entry)
        inbox, self._inbox = self._inbox, {}
        for name, role in self.roles.items():
            if entries := inbox.get(name):
                self._take_step(
                    name,
                    lambda role=role, name=name, entries=entries: role.receive(self.states[name], entries),  # type: ignore[misc]
                )
        return bool(inbox)

    def _readers_of(self, entry: Entry) -> Iterable[str]:
        """Return the names of an entry's readers; of public bytes that are not a message, all roles that read any."""
        if entry.receiver != BOARD:
            return [entry.receiver]
        try:
            return self._readers.get(entry.kind, [])
        except MessageError:
            return [name for name, role in self.roles.items() if role.reads]

    def _on_idle(self) -> bool:
        """Tell one role after another that no message is on its way; return whether one of them took a step."""
        for name, role in self.roles.items():
            if self._take_step(name, lambda role=role, name=name: role.on_idle(self.states[name])):  # type: ignore[misc]
                return True
        return False

    def _take_step(self, name: str, work: Callable[[], Step | None]) -> bool:
        """Let a role work, and store its state and post its messages in one transaction; return whether it did."""
        start = time.perf_counter()
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
        seconds = time.perf_counter() - start
        self.clock[name] += seconds
        self.phases.setdefault(self._phase, PhaseCosts()).seconds += seconds
        for refusal in step.refused:
            _log.info("refused", extra={"about": {"role": name, "error": type(refusal.error).__name__}})
        for post, entry in zip(step.posts, entries, strict=True):
            self._record(post.phase, entry)
            self._watch(post.phase, entry)
        return True

    def _record(self, phase: str, entry: Entry) -> None:
        try:
            title = entry.kind.title
        except MessageError:
            title = NO_MESSAGE
        self._transcript.record(phase, entry.sender, entry.receiver, title, entry.data)
        # The log never contains the message itself, which may be secret.
        about = {"phase": phase, "sender": entry.sender, "receiver": entry.receiver, "kind": title}
        _log.debug("posted", extra={"about": about | {"bytes": len(entry.data)}})
        costs = self.phases.setdefault(phase, PhaseCosts())
        costs.messages += 1
        costs.bytes += len(entry.data)


def replace_roles(roles: Iterable[Role], replacements: Mapping[str, Callable[[Role], Role]]) -> list[Role]:
    """Replace some roles of a run, by functions of the honest ones; raises InvalidParameter for an unknown name."""
    honest = {role.name: role for role in roles}
    if unknown := replacements.keys() - honest.keys():
        raise InvalidParameter(f"there is no {min(unknown)} in this run; its roles are {', '.join(honest)}")
    return [replacements[name](role) if name in replacements else role for name, role in honest.items()]
