"""A run of every protocol at test size, with every call of every role recorded.

`RUNS` is the only place that says how a run is made. A run is a study in memory: its roles are those of a real one, its
keys are short, and the key holders of every protocol but "ceremony" have shares that were dealt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from psephos.protocol.agent import Agent
from psephos.protocol.board import Board, MemoryBoard
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.roles import DelegatingRole, Entry, Post, Role, Step
from psephos.protocol.storage.store import Store
from psephos.protocol.study.study import CURATOR
from tests.psephos.study.cast import ALL, Cast, Dealt

RUNS = {**{what: (Dealt, what) for what in ALL}, "ceremony": (Cast, "average")}
"""How the run of each protocol is made: the class, and what it is called there."""


@dataclass(frozen=True)
class Call:
    """One message that a role received, and what it did with it."""

    role: str
    state: Any
    entry: Entry
    step: Step


class RecordingRole(DelegatingRole):
    """Hands messages to the inner role one by one, and records each call."""

    def __init__(self, inner: Role, calls: list[Call], posts: list[tuple[str, Post]]) -> None:
        super().__init__(inner)
        self._calls, self._posts = calls, posts

    def wrap(self, state: Any, step: Step) -> Step:
        self._posts += [(self.name, post) for post in step.posts]
        return step

    def receive(self, state: Any, entries: Sequence[Entry]) -> Step:
        together = Step(state)
        for entry in entries:
            step = super().receive(together.state, [entry])
            self._calls.append(Call(self.name, together.state, entry, step))
            together = Step(step.state, together.posts + step.posts, together.refused + step.refused)
        return together


class Run:
    """A study of one protocol that was run to its end, and what is left of it."""

    def __init__(self, protocol: str) -> None:
        make, what = RUNS[protocol]
        self.cast: Cast = make(what)
        self.calls: list[Call] = []
        self.posts: list[tuple[str, Post]] = []
        self.stores = {name: Store() for name in self.cast.names}
        board = MemoryBoard()
        agents = {
            name: Agent(
                RecordingRole(self.role(name), self.calls, self.posts),
                self.cast.made.study.members,
                self.cast.made.keys[name],
                board,
                self.stores[name],
            )
            for name in self.cast.names
        }
        run_to_the_end(self.cast, agents.__getitem__)
        self.states = {name: agent.state for name, agent in agents.items()}

    def role(self, name: str) -> Role:
        """The role once more, with what its store holds."""
        return self.cast.role(name, self.stores[name])


@cache
def run_of(protocol: str) -> Run:
    """The run of a protocol; all tests of a process share it."""
    return Run(protocol)


def run_to_the_end(cast: Cast, agent_of: Callable[[str], Agent]) -> None:
    """Let everybody take steps until all have the result; the curator closes the vote when it is ready to.

    Args:
        cast: the study.
        agent_of: the agent of a role, perhaps made again for each step.

    Raises:
        AssertionError: somebody still waits.
    """
    while True:
        if any([moved(agent_of(name).step) for name in cast.names]):  # noqa: C419 - all of them take a turn
            continue
        agents = {name: agent_of(name) for name in cast.names}
        waiting = {name: agent.role.awaits(agent.state) for name, agent in agents.items() if agent.result is None}
        if not waiting:
            return
        assert agents[CURATOR].role.is_ready(agents[CURATOR].state), waiting
        assert moved(agents[CURATOR].on_idle), waiting


def moved(act: Callable[[], bool]) -> bool:
    """Whether an agent did something, if only to die."""
    try:
        return act()
    except Crash:
        return True


class Crash(Exception):
    """The process of an agent dies."""


class CrashBoard:
    """One agent's way to the board: the agent dies at its first attempt to post an entry, before the board has it and
    at the second attempt after the board has it.

    Attributes:
        attempts: the bytes of every attempt, by author and place.
    """

    def __init__(self, board: Board) -> None:
        self._board = board
        self.attempts: dict[tuple[str, int], list[bytes]] = {}

    def post(self, data: bytes) -> None:
        entry = SignedEntry.decode(data)
        attempts = self.attempts.setdefault((entry.author, entry.place), [])
        attempts.append(data)
        if len(attempts) > 1:
            self._board.post(data)
        if len(attempts) <= 2:
            raise Crash

    def read(self, after: int) -> Iterable[tuple[int, bytes]]:
        return self._board.read(after)

    def close(self) -> None:
        self._board.close()
