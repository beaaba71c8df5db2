"""One role over a board: what it reads, posts, keeps and forgets, step by step; `tests.test_once` kills it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from psephos.audit.studies import trial
from psephos.protocol.agent import Agent
from psephos.protocol.board import MemoryBoard
from psephos.protocol.board.client import joined
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.board.history import Head
from psephos.protocol.board.sealing import SealingKey
from psephos.protocol.errors import (
    BoardError,
    EquivocationError,
    MessageError,
    UnexpectedMessageError,
    UnknownPartyError,
)
from psephos.protocol.roles import BOARD, Entry, Post, Refusal, Role, Step
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import Store
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind, frame

MADE = trial()
SESSION = MADE.study.digest
HELLO, THREE, QUIET = (frame(Kind.CONFIRMATION, SESSION, word) for word in (b"hello", b"three", b"quiet"))


@storable
@dataclass(frozen=True)
class Heard:
    """What it was shown, batch by batch, and whether it was quiet."""

    batches: tuple[tuple[Entry, ...], ...] = ()
    hushed: bool = False


class Listener(Role):
    """Reads ballots, answers the third, refuses those of party 4, and is done with secrets when it was quiet."""

    name, reads = "holder 1", frozenset({Kind.BALLOT})

    def start(self) -> Step:
        return Step(Heard(), (Post(BOARD, HELLO, "begin"),))

    def receive(self, state: Heard, entries: Sequence[Entry]) -> Step:
        taken = tuple(entry for entry in entries if entry.sender != "party 4")
        refused = tuple(Refusal(e, UnexpectedMessageError("not yours")) for e in entries if e not in taken)
        posts = (Post(BOARD, THREE, "answer"),) if sum(map(len, state.batches)) + len(taken) == 3 else ()
        return Step(Heard((*state.batches, taken), state.hushed), posts, refused)

    def on_idle(self, state: Heard) -> Step | None:
        return None if state.hushed else Step(Heard(state.batches, True), (Post(BOARD, QUIET, "end"),))

    def listens(self, state: Heard) -> bool:
        return not state.hushed

    def result(self, state: Heard) -> Any:
        return len(state.batches) or None


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Room:
    """A board with an agent at it, and other members who say things."""

    def __init__(self) -> None:
        self.board, self.store, self.clock = MemoryBoard(), Store(), Clock()
        self.secrets = {name: SealingKey.generate() for name in MADE.keys}
        self.seats = {name: MADE.seat(name) for name in MADE.keys}

    def agent(self, store: Store | None = None, role: Role | None = None) -> Agent:
        key = MADE.keys["holder 1"]
        store = self.store if store is None else store
        return Agent(role or Listener(), MADE.study.members, key, self.board, store, clock=self.clock)

    def says(self, name: str, data: bytes, receiver: str = BOARD, *, secret: bool = True) -> None:
        seat = self.seats[name]
        for number, entry in enumerate(self.board.entries[seat.head.size :], seat.head.size + 1):
            seat.take(number, entry)
        self.board.post(seat.sign(Post(receiver, data, "", secret)))

    def bodies(self) -> list[tuple[str, bytes]]:
        entries = map(SignedEntry.decode, self.board.entries)
        return [(entry.phase, entry.body) for entry in entries if entry.author == "holder 1"]


BALLOT = frame(Kind.BALLOT, SESSION, b"x")


def test_it_joins_begins_reads_answers_and_ends() -> None:
    room = Room()
    agent = room.agent()
    assert (agent.said, agent.waiting, agent.head, agent.result) == (2, 2, Head(), None)
    assert not agent.step(), "there was nothing to read"
    secret = room.store.get("seat", b"sealing")
    assert secret is not None
    assert room.bodies() == [("join", joined(SESSION, SealingKey(secret).public)), ("begin", HELLO)]
    assert agent.step()
    assert (agent.said, agent.waiting, agent.head.size) == (2, 0, 2)
    for name in ("party 2", "party 3", "party 4"):
        room.says(name, BALLOT)
    room.says("party 2", frame(Kind.CLOSE, SESSION, b""))  # nothing that it reads
    room.says("party 3", b"no message")
    assert agent.step()
    assert [(e.number, e.sender, e.data) for e in agent.state.batches[0]] == [
        (3, "party 2", BALLOT),
        (4, "party 3", BALLOT),
    ]
    assert [(told.number, told.author, type(told.error)) for told in agent.refused] == [
        (7, "party 3", MessageError),
        (5, "party 4", UnexpectedMessageError),
    ]
    assert agent.result == 1
    room.says("party 0", BALLOT)
    room.says("party 3", frame(Kind.CLOSE, SESSION, b""), "holder 1", secret=False)
    assert agent.step()
    assert room.bodies()[2:] == [("answer", THREE)]
    assert [len(batch) for batch in agent.state.batches] == [2, 1]
    assert isinstance(agent.refused[2].error, UnexpectedMessageError), "a close is for everybody"
    assert agent.on_idle()
    assert room.bodies()[3:] == [("end", QUIET)]
    assert not agent.on_idle()
    assert len(room.bodies()) == 4
    assert agent.step()
    assert (agent.said, agent.waiting) == (4, 0)
    assert not agent.step()


def test_what_is_sealed_to_it_is_read_until_it_listens_no_more() -> None:
    room = Room()
    agent = room.agent()
    agent.step()
    agent.step()
    sealed = frame(Kind.PARTIAL_DECRYPTION, SESSION, b"sealed")
    room.says("party 2", sealed, "holder 1")
    agent.step()
    assert [entry.data for entry in agent.state.batches[0]] == [sealed]
    again = room.agent()
    room.says("party 2", sealed, "holder 1")
    again.step()
    assert [entry.data for entry in again.state.batches[1]] == [sealed]
    assert room.store.get("seat", b"sealing")
    again.on_idle()
    assert room.store.get("seat", b"sealing") == b""
    for late in (again, room.agent()):
        room.says("party 2", sealed, "holder 1")
        late.step()
        assert len(late.state.batches) == 2


def test_an_entry_is_posted_again_half_a_minute_after_it_was_not_read_back() -> None:
    room = Room()
    agent = room.agent()
    agent.step()
    lost = list(room.board.entries)
    assert len(lost) == 2
    room.board.entries.clear()
    for seconds, there in ((0.0, 0), (29.0, 0), (0.999, 0), (0.001, 2)):
        room.clock.now += seconds
        agent.step()
        assert len(room.board.entries) == there
    assert room.board.entries == lost, "the same bytes"
    room.clock.now += 29.0
    agent.step()
    assert agent.waiting == 0
    room.clock.now += 60.0
    agent.step()
    assert room.board.entries == lost


def test_a_role_that_is_started_again_goes_on_where_it_was() -> None:
    room = Room()
    agent = room.agent()
    agent.step()
    agent.step()
    for name in ("party 2", "party 3", "party 0"):
        room.says(name, BALLOT)
    room.board.post = lambda data: None  # type: ignore[method-assign]  # it reads, and is gone before it posts
    agent.step()
    assert agent.waiting == 1
    del room.board.post
    again = room.agent()
    assert (again.state, again.head, again.said, again.waiting) == (agent.state, agent.head, 3, 1)
    assert again.refused == []
    again.step()
    assert room.bodies()[2:] == [("answer", THREE)]
    again.step()
    last = room.agent()
    assert (last.said, last.waiting, last.head) == (3, 0, again.head)
    assert last.step() is False
    assert len(room.bodies()) == 3


def test_its_own_words_that_it_does_not_know_stop_it() -> None:
    """In a place that it has not come to; and in one that it has, with other bytes."""
    for place in (1, 2):
        room = Room()
        agent = room.agent()
        twin = room.seats["holder 1"]
        twin.place = place
        room.board.post(twin.sign(Post(BOARD, b"somebody else's")))
        with pytest.raises(EquivocationError, match=r"holder 1 has said more in this study.*\(entry 1\)"):
            agent.step()
        assert len(room.board.entries) == 1, "nothing was posted on the strength of it"
        assert room.agent().head == Head(), "nor taken"


def test_its_own_words_said_twice_are_nothing_new() -> None:
    room = Room()
    agent = room.agent()
    agent.step()
    agent.step()
    room.board.post(room.board.entries[1])
    agent.step()
    assert (agent.refused, agent.waiting, agent.head.size) == ([], 0, 3)


def test_whose_key_it_is() -> None:
    with pytest.raises(UnknownPartyError):
        Agent(Listener(), MADE.study.members, SigningKey.generate(), MemoryBoard(), Store())


def test_a_board_that_repeats_an_entry_or_leaves_one_out() -> None:
    room = Room()
    agent = room.agent()
    for number in (0, 2):
        room.board.read = lambda after, number=number: [(number, b"x")]  # type: ignore[method-assign]
        with pytest.raises(BoardError, match=f"entry {number} came after entry 0"):
            agent.step()
    assert room.board.entries == []


class Silent(Listener):
    """Comes to nothing at once, and so never says whether it listens."""

    def start(self) -> Step:
        return Step(None)

    def listens(self, state: Any) -> bool:
        pytest.fail("it has no state")


def test_a_role_without_a_state_still_joins() -> None:
    room = Room()
    agent = room.agent(role=Silent())
    agent.step()
    assert [phase for phase, _ in room.bodies()] == ["join"]


def test_the_log_says_what_was_posted_and_refused(caplog: pytest.LogCaptureFixture) -> None:
    room = Room()
    with caplog.at_level(logging.DEBUG, logger="psephos.agent"):
        agent = room.agent()
        room.says("party 2", b"no message")
        agent.step()
    said = [(record.message, record.about) for record in caplog.records]  # type: ignore[attr-defined]
    assert said == [
        ("refused", {"role": "holder 1", "entry": 1, "author": "party 2", "error": "MessageError"}),
        ("posted", {"role": "holder 1", "place": 0}),
        ("posted", {"role": "holder 1", "place": 1}),
    ]
