"""Runs in a store: a killed run continues with the same messages, without second answers, to the same result."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from psephos.protocol.driver import Driver, StoredMessageBoard
from psephos.protocol.errors import InvalidParameter, JournalError
from psephos.protocol.roles import BOARD, Entry, Machine, Post, Role, Step, gathers, takes
from psephos.protocol.storage.store import OnceLedger, Store
from psephos.protocol.storage.values import storable
from psephos.protocol.transcript import Transcript
from psephos.protocol.wire import HEADER_BYTES, Kind, frame

SESSION = b"s" * 32
PARTIES = ("party 0", "party 1")
STEPS = 3


@storable
@dataclass(frozen=True)
class Answering:
    """The number of announcements that were answered."""

    answered: int = 0


@storable
@dataclass(frozen=True)
class Collecting:
    """The sums of the previous steps; the ballots of the next one are gathered."""

    sums: tuple[int, ...] = ()


@storable
@dataclass(frozen=True)
class Done:
    """The sums of all steps."""

    sums: tuple[int, ...]


class Party(Machine):
    """Answers every announcement with a random number, so a second answer would differ."""

    reads = frozenset({Kind.ANNOUNCEMENT})

    def __init__(self, number: int, store: Store | None) -> None:
        self.name = f"party {number}"
        self.ledger = OnceLedger(store, self.name)

    def _start(self) -> Step:
        return Step(Answering())

    @takes(Answering, Kind.ANNOUNCEMENT)
    def answer(self, state: Answering, entry: Entry) -> Step:
        number = self.ledger.do_once(entry.data, b"", self.draw)
        return Step(Answering(state.answered + 1), (Post("curator", frame(Kind.BALLOT, SESSION, number), "sum"),))

    def draw(self) -> bytes:
        event()
        return os.urandom(4)


class Curator(Machine):
    """Announces a step, adds up its ballots, and announces the next step."""

    name = "curator"

    def _start(self) -> Step:
        return Step(Collecting(), (self.announcement(0),))

    def announcement(self, step: int) -> Post:
        return Post(BOARD, frame(Kind.ANNOUNCEMENT, SESSION, bytes([step])), "announce")

    @gathers(Collecting, Kind.BALLOT, lambda self, state: PARTIES)
    def add(self, state: Collecting, ballots: Mapping[str, bytes]) -> Step:
        sums = (*state.sums, sum(number_of(data) for data in ballots.values()))
        if len(sums) == STEPS:
            return Step(Done(sums))
        return Step(Collecting(sums), (self.announcement(len(sums)),))

    def _result(self, state: Collecting | Done) -> tuple[int, ...] | None:
        return state.sums if isinstance(state, Done) else None


def number_of(data: bytes) -> int:
    return int.from_bytes(data[HEADER_BYTES:], "big")


def roles(store: Store | None) -> list[Role]:
    return [Curator(), Party(0, store), Party(1, store)]


# -- a process that is killed

_events_left = -1
"""The number of events until this process is killed; negative for never."""


def event() -> None:
    global _events_left
    if _events_left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    _events_left -= 1


class CountingStore(Store):
    """Counts an event before and after each write. Drawn numbers and posted messages are events as well."""

    def put(self, space: str, name: bytes, content: bytes) -> None:
        event()
        super().put(space, name, content)
        event()


def run(path: str, events: int) -> None:
    """Run the protocol in a process that is killed after this number of events; print the curator's result."""
    global _events_left
    store = CountingStore(path)
    _events_left = events
    print(json.dumps(Driver(roles(store), store=store, watch=lambda phase, entry: event()).run()["curator"]))


@pytest.mark.slow
def test_a_run_that_is_killed_repeatedly(tmp_path: Path) -> None:
    """Killed at random points: inside transactions, between them, while an answer is made."""
    program = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_stored_runs as t; t.run"
    draw, kills, before = random.Random(5), 0, list[Entry]()
    for turn in range(100):
        events = draw.randrange(25) if turn else 0
        command = [sys.executable, "-c", f"{program}({str(tmp_path / 'store')!r}, {events})"]
        completed = subprocess.run(command, capture_output=True, text=True, check=False)
        with Store(tmp_path / "store") as store:
            entries = list(StoredMessageBoard(store).read(0))
        assert entries[: len(before)] == before
        before = entries
        if completed.returncode == 0:
            break
        assert completed.returncode == -signal.SIGKILL, completed.stderr
        kills += 1
    assert kills > 3
    ballots = [entry for entry in before if entry.kind is Kind.BALLOT]
    assert [sorted(e.sender for e in ballots[2 * step : 2 * step + 2]) for step in range(STEPS)] == [[*PARTIES]] * STEPS
    sums = [sum(number_of(e.data) for e in ballots[2 * step : 2 * step + 2]) for step in range(STEPS)]
    assert json.loads(completed.stdout) == sums
    assert [e.number for e in before] == list(range(1, 3 * STEPS + 1))


# -- continuing


def test_a_run_in_a_store_equals_one_without() -> None:
    store = Store()
    driver, transcript = Driver(roles(store), store=store), Transcript()
    result = driver.run()
    again = Driver(roles(store), store=store, transcript=transcript)
    assert again.states == driver.states
    assert [(m.phase, m.sender, m.receiver) for m in transcript.messages][:3] == [
        ("announce", "curator", BOARD),
        ("sum", "party 0", "curator"),
        ("sum", "party 1", "curator"),
    ]
    assert again.run() == result
    assert len(transcript.messages) == 3 * STEPS
    plain = Driver(roles(None))
    plain.run()
    for phase in ("announce", "sum"):
        costs = [(d.phases[phase].messages, d.phases[phase].bytes) for d in (plain, driver, again)]
        assert costs == costs[:1] * 3


class FailingParty(Party):
    """Raises an error after its first three answers."""

    failures = 3

    def answer(self, state: Answering, entry: Entry) -> Step:  # the rule of the overridden method applies to it
        step: Step = super().answer(state, entry)
        if self.failures:
            type(self).failures -= 1
            raise ZeroDivisionError
        return step


def test_a_failed_step_is_rolled_back(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            Driver([Curator(), Party(0, store), FailingParty(1, store)], store=store).run()
        assert [e.sender for e in StoredMessageBoard(store).read(0)] == ["curator", "party 0"]
        assert not list(store.items("once party 1"))
    assert len(Driver([Curator(), Party(0, store), FailingParty(1, store)], store=store).run()["curator"]) == STEPS


def test_a_run_of_other_roles_is_refused() -> None:
    store = Store()
    Driver(roles(store), store=store).run()
    with pytest.raises(InvalidParameter):
        Driver(roles(store)[:2], store=store)


def test_states_of_another_version_are_refused() -> None:
    store = Store()
    Driver(roles(store), store=store).run()
    store.put("states", b"curator", store.get("states", b"curator").replace(b"Done", b"Gone"))  # type: ignore[union-attr]
    with pytest.raises(JournalError):
        Driver(roles(store), store=store)
