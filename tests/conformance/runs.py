"""A run of every protocol at test size, with every call of every role recorded: a study in memory with the roles of a
real one and short keys, which a dealer shares but in the run "ceremony"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from psephos.protocol.agent import Agent
from psephos.protocol.board import Board, MemoryBoard
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.ceremony.terms import SMALLEST_CEREMONY
from psephos.protocol.roles import DelegatingRole, Entry, Post, Role, Step
from psephos.protocol.storage.store import Store
from psephos.protocol.study.study import CURATOR
from psephos.specs.registry import SPECS
from tests.psephos.study.cast import ALL, Cast, DealtCast


def protocol_of(study: str) -> str:
    """Return the protocol of a study, whose name is "protocol" or "protocol, variant"."""
    return study.split(",")[0]


@dataclass
class CeremonyCast(Cast):
    """A study whose holders generate the shortest key that a ceremony makes."""

    key_bits: int | None = SMALLEST_CEREMONY


RUNS: dict[str, tuple[type[Cast], str]] = {
    **{study: (DealtCast, study) for study in ALL},
    "ceremony": (CeremonyCast, "average"),
}
"""The class of the study of each run, and its name."""

VARIANTS = set(RUNS) - {*SPECS, "ceremony"}
"""Runs whose roles are those of another run."""

IN_SOAK = VARIANTS - {"statistic, noise of holders", "record, three classes"} | {"record"}
"""Runs that `make test` leaves out: it has one of each protocol, the smaller of records, and noise of the holders."""


def tier(name: str) -> list[pytest.MarkDecorator]:
    """Return the mark of a run: the search for a key takes a second or more."""
    return [pytest.mark.soak] * (name in IN_SOAK) + [pytest.mark.slow] * (name == "ceremony")


EVERY_RUN = [pytest.param(name, marks=tier(name)) for name in RUNS]
"""All runs, as parameters of a test."""


@dataclass(frozen=True)
class Call:
    """One message that a role received, the state before it and the step that was returned."""

    role: str
    state: Any
    entry: Entry
    step: Step


class RecordingRole(DelegatingRole):
    """Passes messages to the inner role one by one, and records each call and each message that the role sends."""

    def __init__(self, inner: Role, calls: list[Call], posts: list[tuple[str, Post]]) -> None:
        super().__init__(inner)
        self._calls, self._posts = calls, posts

    def wrap(self, state: Any, step: Step) -> Step:
        self._posts += [(self.name, post) for post in step.posts]
        return step

    def receive(self, state: Any, entries: Sequence[Entry]) -> Step:
        total = Step(state)
        for entry in entries:
            step = super().receive(total.state, [entry])
            self._calls.append(Call(self.name, total.state, entry, step))
            total = Step(step.state, total.posts + step.posts, total.refused + step.refused)
        return total


class Run:
    """A study that was run to its end: each message that a role received, each that one sent after its start with the
    sender's name, the stores and the last states."""

    def __init__(self, cast: Cast) -> None:
        self.cast = cast
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
        """Construct a role again, with its store."""
        return self.cast.role(name, self.stores[name])


@cache
def run_of(protocol: str) -> Run:
    """Return a run of `RUNS`; all tests of a process share it."""
    make, study = RUNS[protocol]
    return Run(make(study))


def run_to_the_end(cast: Cast, agent_of: Callable[[str], Agent]) -> None:
    """Let all agents take steps until each has the result, and the curator close the vote when it is ready; `agent_of`
    may construct an agent again for each step."""
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
    """Return whether an agent did something; a crash counts."""
    try:
        return act()
    except Crash:
        return True


class Crash(Exception):
    """The simulated death of an agent's process."""


class CrashBoard:
    """A board at which every agent crashes twice for each entry: before the entry is posted, and after it is posted.
    Every attempt to post one is kept by author and place."""

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
