"""Runs roles over a board until they are done. It knows no protocol.

    Driver([party, ..., curator, holder, ...]).run()["curator"]

Every message goes to the board; a role is shown what is addressed to it and the public kinds that it reads, all in the
order of the board. When nothing is on its way any more, roles are told that it is quiet, one after the other, until one
of them moves on. When none does, the run is over; a role that still cannot go on without something is then an error
that names what never came. No paper behind it; docs/design.md, section 2.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from psephos.protocol.errors import InvalidParameter, PartyVanishedError
from psephos.protocol.roles import BOARD, Entry, Post, Refusal, Role, Step
from psephos.protocol.transcript import Transcript
from psephos.protocol.wire import Kind

__all__ = ["Board", "Driver", "MemoryBoard", "Phase", "replaced"]


class Board(Protocol):
    """An append-only, ordered log."""

    def post(self, sender: str, post: Post) -> Entry:
        """Append a message."""

    def read(self, after: int) -> Iterable[Entry]:
        """Everything with a larger number, in order."""


class MemoryBoard:
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


@dataclass
class Phase:
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
        board: Board | None = None,
        states: Mapping[str, Any] | None = None,
        transcript: Transcript | None = None,
        strict: bool = True,
        watch: Callable[[str, Entry], object] = lambda phase, entry: None,
    ) -> None:
        """
        Args:
            roles: who takes part here.
            board: where messages go; one in memory by default.
            states: of roles that have started already, by name.
            transcript: notes every message.
            strict: raise the first error for which a role refused a message; otherwise see `refused`.
            watch: called with the phase and every entry as it is posted, for progress.

        Raises InvalidParameter when two roles have one name, or a state is nobody's.
        """
        self.roles: dict[str, Role] = {}
        for role in roles:
            if role.name in self.roles:
                raise InvalidParameter(f"two roles are called {role.name}")
            self.roles[role.name] = role
        self.states: dict[str, Any] = dict(states or {})
        if strangers := self.states.keys() - self.roles.keys():
            raise InvalidParameter(f"there is no {min(strangers)} in this run; it has {', '.join(self.roles)}")
        self.refused: list[tuple[str, Refusal]] = []
        self.phases: dict[str, Phase] = {}
        self._board: Board = MemoryBoard() if board is None else board
        self._transcript = Transcript() if transcript is None else transcript
        self._strict, self._watch = strict, watch
        self._readers: dict[Kind, list[str]] = {}
        for role in self.roles.values():
            for kind in role.reads:
                self._readers.setdefault(kind, []).append(role.name)
        self._inbox: dict[str, list[Entry]] = {}
        self._cursor = 0
        self._phase = ""

    def run(self) -> dict[str, Any]:
        """Until nobody moves any more; returns what each role came to, by name, where that is something.

        Raises PartyVanishedError when a role waits for what never comes, and whatever a role raises.
        """
        for name, role in self.roles.items():
            if name not in self.states:
                self._take(name, role.start)
        while self._deliver() or self._hush():
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
            readers = self._readers.get(entry.kind, []) if entry.receiver == BOARD else [entry.receiver]
            for name in readers:
                if name in self.roles:
                    self._inbox.setdefault(name, []).append(entry)
        inbox, self._inbox = self._inbox, {}
        for name, role in self.roles.items():
            if entries := inbox.get(name):
                self._take(name, lambda role=role, name=name, entries=entries: role.receive(self.states[name], entries))  # type: ignore[misc]
        return bool(inbox)

    def _hush(self) -> bool:
        """Tell roles that it is quiet, until one of them moves."""
        for name, role in self.roles.items():
            if self._take(name, lambda role=role, name=name: role.quiet(self.states[name])):  # type: ignore[misc]
                return True
        return False

    def _take(self, name: str, work: Callable[[], Step | None]) -> bool:
        begun = time.perf_counter()
        step = work()
        if step is None:
            return False
        self.states[name] = step.state
        if step.posts:
            self._phase = step.posts[0].phase
        self.phases.setdefault(self._phase, Phase()).seconds += time.perf_counter() - begun
        for refusal in step.refused:
            if self._strict:
                raise refusal.error
            self.refused.append((name, refusal))
        for post in step.posts:
            entry = self._board.post(name, post)
            self._transcript.send(post.phase, name, post.receiver, entry.kind.title, post.data)
            phase = self.phases.setdefault(post.phase, Phase())
            phase.messages += 1
            phase.bytes += len(post.data)
            self._watch(post.phase, entry)
        return True


def replaced(roles: Iterable[Role], puppets: Mapping[str, Callable[[Role], Role]]) -> list[Role]:
    """The same roles, but for those that somebody else plays: `puppets` makes each from the honest one.

    Raises InvalidParameter for the name of a role that does not exist.
    """
    honest = {role.name: role for role in roles}
    if unknown := puppets.keys() - honest.keys():
        raise InvalidParameter(f"there is no {min(unknown)} in this run; its roles are {', '.join(honest)}")
    return [puppets[name](role) if name in puppets else role for name, role in honest.items()]
