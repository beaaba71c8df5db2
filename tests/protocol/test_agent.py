"""`Agent`: what it reads, posts, stores and erases, step by step. `tests.test_once` kills agents at any time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from psephos.audit.studies import trial
from psephos.protocol.agent import Agent
from psephos.protocol.board import MemoryBoard
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.board.history import Head
from psephos.protocol.board.sealing import SealingKey
from psephos.protocol.errors import (
    EquivocationError,
    UnexpectedMessageError,
)
from psephos.protocol.roles import BOARD, Entry, Post, Refusal, Role, Step
from psephos.protocol.storage.store import Store
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind, frame

MADE = trial()
SESSION = MADE.study.digest
HELLO, THREE, QUIET = (frame(Kind.CONFIRMATION, SESSION, word) for word in (b"hello", b"three", b"quiet"))


@storable
@dataclass(frozen=True)
class ListenerState:
    """The messages that the listener received, batch by batch, and whether `on_idle` was called."""

    batches: tuple[tuple[Entry, ...], ...] = ()
    idle: bool = False


class Listener(Role):
    """Reads ballots, answers the third, refuses those of party 4, and stops listening after `on_idle`."""

    name, reads = "holder 1", frozenset({Kind.BALLOT})

    def start(self) -> Step:
        return Step(ListenerState(), (Post(BOARD, HELLO, "begin"),))

    def receive(self, state: ListenerState, entries: Sequence[Entry]) -> Step:
        accepted = tuple(entry for entry in entries if entry.sender != "party 4")
        refused = tuple(Refusal(e, UnexpectedMessageError("not yours")) for e in entries if e not in accepted)
        count = sum(map(len, state.batches)) + len(accepted)
        posts = (Post(BOARD, THREE, "answer"),) if count == 3 else ()
        return Step(ListenerState((*state.batches, accepted), state.idle), posts, refused)

    def on_idle(self, state: ListenerState) -> Step | None:
        return None if state.idle else Step(ListenerState(state.batches, True), (Post(BOARD, QUIET, "end"),))

    def listens(self, state: ListenerState) -> bool:
        return not state.idle

    def result(self, state: ListenerState) -> Any:
        return len(state.batches) or None


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Room:
    """A board with an agent, and other members who post."""

    def __init__(self) -> None:
        self.board, self.store, self.clock = MemoryBoard(), Store(), Clock()
        self.secrets = {name: SealingKey.generate() for name in MADE.keys}
        self.clients = {name: MADE.board_client(name) for name in MADE.keys}

    def agent(self, store: Store | None = None, role: Role | None = None) -> Agent:
        key = MADE.keys["holder 1"]
        store = self.store if store is None else store
        return Agent(role or Listener(), MADE.study.members, key, self.board, store, clock=self.clock)

    def post(self, name: str, data: bytes, receiver: str = BOARD, *, secret: bool = True) -> None:
        client = self.clients[name]
        for number, entry in enumerate(self.board.entries[client.head.size :], client.head.size + 1):
            client.check(number, entry)
        self.board.post(client.sign(Post(receiver, data, "", secret)))

    def bodies(self) -> list[tuple[str, bytes]]:
        entries = map(SignedEntry.decode, self.board.entries)
        return [(entry.phase, entry.body) for entry in entries if entry.author == "holder 1"]


BALLOT = frame(Kind.BALLOT, SESSION, b"x")


def test_encrypted_messages_are_read_until_the_role_stops_listening() -> None:
    room = Room()
    agent = room.agent()
    agent.step()
    agent.step()
    sealed = frame(Kind.PARTIAL_DECRYPTION, SESSION, b"sealed")
    room.post("party 2", sealed, "holder 1")
    agent.step()
    assert [entry.data for entry in agent.state.batches[0]] == [sealed]
    again = room.agent()
    room.post("party 2", sealed, "holder 1")
    again.step()
    assert [entry.data for entry in again.state.batches[1]] == [sealed]
    assert room.store.get("seat", b"sealing")
    again.on_idle()
    assert room.store.get("seat", b"sealing") == b""
    for late in (again, room.agent()):
        room.post("party 2", sealed, "holder 1")
        late.step()
        assert len(late.state.batches) == 2


def test_an_entry_that_is_not_read_back_is_posted_again_after_half_a_minute() -> None:
    room = Room()
    agent = room.agent()
    agent.step()
    lost = list(room.board.entries)
    assert len(lost) == 2
    room.board.entries.clear()
    for seconds, count in ((0.0, 0), (29.0, 0), (0.999, 0), (0.001, 2)):
        room.clock.now += seconds
        agent.step()
        assert len(room.board.entries) == count
    assert room.board.entries == lost, "the same bytes"
    room.clock.now += 29.0
    agent.step()
    assert agent.unconfirmed == 0
    room.clock.now += 60.0
    agent.step()
    assert room.board.entries == lost


def test_a_restarted_agent_continues_where_it_was() -> None:
    room = Room()
    agent = room.agent()
    agent.step()
    agent.step()
    for name in ("party 2", "party 3", "party 0"):
        room.post(name, BALLOT)
    room.board.post = lambda data: None  # type: ignore[method-assign]  # it reads, and is killed before it posts
    agent.step()
    assert agent.unconfirmed == 1
    del room.board.post
    again = room.agent()
    assert (again.state, again.head, again.signed_entries, again.unconfirmed) == (agent.state, agent.head, 3, 1)
    assert again.rejected == []
    again.step()
    assert room.bodies()[2:] == [("answer", THREE)]
    again.step()
    last = room.agent()
    assert (last.signed_entries, last.unconfirmed, last.head) == (3, 0, again.head)
    assert last.step() is False
    assert len(room.bodies()) == 3


def test_an_own_entry_that_the_store_does_not_have_is_an_error() -> None:
    """In a place that it has not used yet, and in one that it has used for other bytes."""
    for place in (1, 2):
        room = Room()
        agent = room.agent()
        twin = room.clients["holder 1"]
        twin.place = place
        room.board.post(twin.sign(Post(BOARD, b"somebody else's")))
        with pytest.raises(EquivocationError):
            agent.step()
        assert len(room.board.entries) == 1, "nothing was posted after it"
        assert room.agent().head == Head(), "nor stored"


def test_a_repeated_own_entry_is_ignored() -> None:
    room = Room()
    agent = room.agent()
    agent.step()
    agent.step()
    room.board.post(room.board.entries[1])
    agent.step()
    assert (agent.rejected, agent.unconfirmed, agent.head.size) == ([], 0, 3)
