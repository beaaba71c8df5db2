"""What must happen once happens once: whichever statement SQLite dies at, whoever asks again, by whatever name.

Everything that a role may give away once is asked for here under several names, from two objects on one file, while the
file's process dies, or its disk fails, at every statement in turn.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from psephos.audit.studies import trial
from psephos.parties.holder import KeyHolder
from psephos.parties.party import Party, VectorParty, VotingParty
from psephos.parties.psgd import GradientParty, LocalLoss, SeriesHolder
from psephos.protocol.agent import Agent
from psephos.protocol.board import MemoryBoard
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.encrypted_sum.messages import TallyRequest
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.votes import vote_round
from psephos.protocol.errors import AlreadyDoneError, BoardError, BudgetExceededError, EquivocationError, JournalError
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.psgd.series import Announcement, SeriesTerms
from psephos.protocol.roles import BOARD, Entry, Machine, Post, Role, Step, gathers, takes
from psephos.protocol.storage.store import OnceLedger, Store
from psephos.protocol.storage.values import storable
from psephos.protocol.study.stages import PublishStage
from psephos.protocol.wire import HEADER_BYTES, Kind, frame
from psephos.simulation.key_setup import setup_keys
from tests.protocol.psgd.test_series import DESCENT, SERIES


class ProcessKilled(BaseException):
    """The process is gone: nothing of it runs any more."""


@dataclass
class Fault:
    """At the `statement`-th statement from now the disk fails, or the process dies before or after it is executed."""

    statement: int
    kind: str

    def met(self, executed: bool) -> None:
        if self.statement == 0 and executed == (self.kind == "dies after"):
            self.statement = -1
            raise JournalError("the disk failed") if self.kind == "fails" else ProcessKilled


class FailingStore(Store):
    """A store with at most one fault ahead of it."""

    fault: Fault | None = None

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(path)

    def _run(self, statement: str, *values: str | bytes) -> list[Any]:
        if self.fault is None:
            return super()._run(statement, *values)
        self.fault.statement -= 1
        self.fault.met(executed=False)
        rows = super()._run(statement, *values)
        self.fault.met(executed=True)
        return rows


# -- what may be had once, each under several names


Ask = Callable[[FailingStore, int], bytes]
"""What a role says, restarted with this store, when it is asked by the name of that number."""

_CLASSES = ("a", "b")
_GENERATOR = np.random.default_rng(1)
_AUXILIARY = _GENERATOR.normal(size=(3, 2))


class Votes:
    """A classifier that was trained before."""

    def predict_votes(self, X: Any) -> Any:
        return np.zeros(len(X), dtype=np.int64)


def said_by(role: Role, *heard: tuple[str, bytes]) -> bytes:
    """The last message of a role that starts anew and hears these; raises why it refused."""
    step = role.start()
    posts = list(step.posts)
    for number, (sender, data) in enumerate(heard, 1):
        step = role.receive(step.state, [Entry(number, sender, BOARD, data)])
        for refusal in step.refused:
            raise refusal.error
        posts += step.posts
    return posts[-1].data


@pytest.fixture(scope="module")
def asks() -> dict[str, Ask]:
    ceremony = setup_keys(3, key_bits=512, holders=3, threshold=2, test_key=True)
    key, roster = ceremony.threshold_key, ceremony.roster
    rounds = [vote_round(key, roster, _AUXILIARY, _CLASSES, minimum_ballots=2, test_key=True) for _ in range(3)]
    plan = PackingPlan.for_key(key.key, length=2, addends=3, minimum=0, maximum=9)
    sums = [Round.create("parameters", key, plan, roster, context=bytes([n]) * 32, test_key=True) for n in range(3)]
    terms = SeriesTerms(replace(SERIES, minimum_ballots=2), DESCENT, key, roster, test_key=True)
    steps = [Announcement.create(terms, 1, (0.0, 0.0)) for _ in range(2)]
    study = trial(parties=3, public_table=_AUXILIARY.tobytes()[:32]).study

    def party(number: int, store: Store | None = None) -> Party:
        once = None if store is None else OnceLedger(store, f"party {number}")
        return Party(number, ceremony.signing_keys[number], classes=_CLASSES, voter=Votes(), once=once)

    def owner(number: int, store: Store | None = None) -> GradientParty:
        once = None if store is None else OnceLedger(store, f"party {number}")
        local = LocalLoss(np.array([[0.6, 0.8]]), np.array([1]))
        return GradientParty(number, ceremony.signing_keys[number], local, terms, once=once)

    ballots = [said_by(VotingParty(party(n), rounds[0], _AUXILIARY)) for n in range(3)]
    gradients = [[said_by(owner(n), ("curator", step.encode())) for n in range(3)] for step in steps]

    def request(round_: Round, cast: list[bytes]) -> bytes:
        product, _ = BallotProduct(round_).add_all(cast)
        return TallyRequest(round_.digest, product.members, product.digest).encode(round_)

    def chosen(cast: list[bytes], name: int) -> list[bytes]:
        return cast if name == 0 else [ballot for place, ballot in enumerate(cast) if place != name - 1]

    def ledger(store: FailingStore, name: int) -> bytes:
        return OnceLedger(store).do_once(b"claim", bytes([name]), lambda: os.urandom(8))

    def votes(store: FailingStore, name: int) -> bytes:
        return said_by(VotingParty(party(0, store), rounds[name % 3], _AUXILIARY))

    def parameters(store: FailingStore, name: int) -> bytes:
        round_ = sums[name % 3]
        return said_by(VectorParty(party(0, store), round_, "parameters", round_.context, [1, name % 3]))

    def opening(store: FailingStore, name: int) -> bytes:
        cast = chosen(ballots, name % 4)
        heard = [*(("somebody", ballot) for ballot in cast), ("curator", request(rounds[0], cast))]
        return said_by(KeyHolder(ceremony.shares[0], rounds[0], openings=OnceLedger(store, "holder 1")), *heard)

    def fixed_noise(store: FailingStore, name: int) -> bytes:
        return repr(owner(0, store)._start().state.eta).encode()

    def gradient(store: FailingStore, name: int) -> bytes:
        return said_by(owner(0, store), ("curator", steps[name % 2].encode()))

    def step_opening(store: FailingStore, name: int) -> bytes:
        step, cast = steps[name % 2], chosen(gradients[name % 2], name // 2 % 4)
        round_ = terms.round(step)
        messages = ("curator", step.encode()), *(("a party", g) for g in cast), ("curator", request(round_, cast))
        return said_by(SeriesHolder(ceremony.shares[0], terms, once=OnceLedger(store, "holder 1")), *messages)

    def release(store: FailingStore, name: int) -> bytes:
        return said_by(PublishStage(study, lambda: os.urandom(8), OnceLedger(store, "curator")))

    return {
        ask.__name__: ask for ask in (ledger, votes, parameters, opening, fixed_noise, gradient, step_opening, release)
    }


_KINDS = ("fails", "dies before", "dies after")
_NAMES = ("ledger", "votes", "parameters", "opening", "fixed_noise", "gradient", "step_opening", "release")


def answer_of(ask: Ask, store: FailingStore, name: int, fault: Fault | None = None) -> bytes | None:
    """The answer, or None for a refusal or a failure; after a death nobody may use the store any more."""
    store.fault = fault
    try:
        return ask(store, name)
    except (AlreadyDoneError, BudgetExceededError, JournalError):
        return None
    finally:
        store.fault = None


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("what", _NAMES)
def test_once_holds_whichever_statement_fails(asks: dict[str, Ask], what: str, kind: str, tmp_path: Path) -> None:
    """The first to ask meets a fault; then all names are tried, by it or its successor and by another object."""
    for statement in range(1, 100):
        place = tmp_path / str(statement)
        place.mkdir(mode=0o700)
        path = place / "store"
        fault = Fault(statement, kind)
        answers: set[bytes | None] = set()
        with FailingStore(path) as other:
            store = FailingStore(path)
            with suppress(ProcessKilled):
                answers.add(answer_of(asks[what], store, 0, fault))
            if kind != "fails":
                store.close()
                store = FailingStore(path)
            for name in (1, 0, 2, 3, 0):
                answers |= {answer_of(asks[what], store, name), answer_of(asks[what], other, name)}
            store.close()
        answers.discard(None)
        assert len(answers) == 1, f"statement {statement}: {len(answers)} answers"
        if fault.statement > 0:
            assert statement > 3, "there was nothing to fail"
            return
    pytest.fail("it goes on for ever")


# -- a role on its own machine: its store dies, is copied and set back, and its board fails


@storable
@dataclass(frozen=True)
class Asking:
    """The curator has announced so many steps, and has these sums."""

    sums: tuple[int, ...] = ()


class Announcer(Machine):
    """The curator: announces a step, adds up its ballots, announces the next."""

    name = "curator"
    reads = frozenset({Kind.BALLOT})

    def _start(self) -> Step:
        return Step(Asking(), (self._announcement(0),))

    def _announcement(self, step: int) -> Post:
        return Post(BOARD, frame(Kind.ANNOUNCEMENT, bytes(32), bytes([step])), "announce")

    @gathers(Asking, Kind.BALLOT, lambda self, state: ("party 0", "party 1"))
    def add(self, state: Asking, ballots: Mapping[str, bytes]) -> Step:
        sums = (*state.sums, sum(number_in(data) for data in ballots.values()))
        return Step(Asking(sums), (self._announcement(len(sums)),) if len(sums) < _STEPS else ())

    def _result(self, state: Asking) -> tuple[int, ...] | None:
        return state.sums if len(state.sums) == _STEPS else None


class Answerer(Machine):
    """A party: answers an announcement with a number of its own, which it draws once."""

    reads = frozenset({Kind.ANNOUNCEMENT})

    def __init__(self, number: int, store: Store) -> None:
        self.name, self._once = f"party {number}", OnceLedger(store)

    def _start(self) -> Step:
        return Step(Asking())

    @takes(Asking, Kind.ANNOUNCEMENT)
    def answer(self, state: Asking, entry: Entry) -> Step:
        number = self._once.do_once(entry.data, b"", lambda: entry.data[-1:] + os.urandom(3))
        return Step(state, (Post(BOARD, frame(Kind.BALLOT, bytes(32), number), "answer"),))


_STEPS = 3
_TRIAL = trial(parties=3)
_ROLES = ("curator", "party 0", "party 1")


def number_in(data: bytes) -> int:
    return int.from_bytes(data[HEADER_BYTES + 1 :], "big")


class FailingBoard(MemoryBoard):
    """Does not take the next entry, or takes it and says that it did not."""

    failure: str | None = None

    def post(self, data: bytes) -> None:
        failure, self.failure = self.failure, None
        if failure != "before":
            super().post(data)
        if failure is not None:
            raise BoardError("the board failed")


class Machines(RuleBasedStateMachine):
    """Three roles, each an agent with a store on disk. On the board there is never a second answer to anything."""

    def __init__(self) -> None:
        super().__init__()
        self.folder, self.board = Path(tempfile.mkdtemp()), FailingBoard()
        self.agents: dict[str, tuple[Agent, FailingStore]] = {}
        self.time = 0.0

    def agent(self, name: str, fault: Fault | None = None) -> Agent:
        if name not in self.agents:
            store = FailingStore(self.folder / name)
            store.fault = fault
            role = Announcer() if name == "curator" else Answerer(int(name[-1]), store)
            try:
                self.agents[name] = (
                    Agent(role, _TRIAL.study.members, _TRIAL.keys[name], self.board, store, clock=self.clock),
                    store,
                )
            except BaseException:
                store.close()
                raise
        self.agents[name][1].fault = fault
        return self.agents[name][0]

    def clock(self) -> float:
        """Whatever was not read back is posted again."""
        self.time += 60.0
        return self.time

    def leave(self, name: str) -> None:
        if name in self.agents:
            self.agents.pop(name)[1].close()

    def turn(self, name: str, fault: Fault | None = None) -> None:
        try:
            self.agent(name, fault).step()
        except (ProcessKilled, JournalError, BoardError):
            self.leave(name)

    @rule(name=st.sampled_from(_ROLES), again=st.integers(1, 3))
    def works(self, name: str, again: int) -> None:
        for _ in range(again):
            self.turn(name)

    @rule(name=st.sampled_from(_ROLES), kind=st.sampled_from(_KINDS), statement=st.integers(1, 40))
    def fails(self, name: str, kind: str, statement: int) -> None:
        self.turn(name, Fault(statement, kind))

    @rule(name=st.sampled_from(_ROLES), failure=st.sampled_from(["before", "after"]))
    def loses_the_board(self, name: str, failure: str) -> None:
        self.board.failure = failure
        self.turn(name)

    @rule(name=st.sampled_from(_ROLES))
    def is_copied(self, name: str) -> None:
        self.leave(name)
        if (self.folder / name).exists():
            shutil.copy2(self.folder / name, self.folder / f"{name} copy")

    @rule(name=st.sampled_from(_ROLES))
    def is_set_back(self, name: str) -> None:
        """It finds that it has said more, and says nothing: and goes on with its newest store; or nothing was lost."""
        copy, newest = self.folder / f"{name} copy", self.folder / f"{name} newest"
        if not copy.exists():
            return
        self.turn(name)  # everything that it has said is on the board
        count = self.said_by(name)
        self.leave(name)
        shutil.copy2(self.folder / name, newest)
        shutil.copy2(copy, self.folder / name)
        with closing(Store(self.folder / name)) as store:
            lost = store.get("role", b"state") is None  # from before its start: it starts again, and says other things
        try:
            behind = self.agent(name).signed_entries < count or (lost and count > 0)
            with pytest.raises(EquivocationError) if behind else nullcontext():
                self.agent(name).step()
        finally:
            self.leave(name)
        if behind:
            assert self.said_by(name) == count
            shutil.copy2(newest, self.folder / name)

    def said_by(self, name: str) -> int:
        """How many entries of a role are on the board; no place has two, nor has a question two answers."""
        entries: dict[int, bytes] = {}
        answers: dict[int, bytes] = {}
        for data in self.board.entries:
            signed = SignedEntry.decode(data)
            if signed.author == name:
                assert entries.setdefault(signed.place, data) == data, f"{name} has said two things in one place"
                if Entry(1, name, BOARD, signed.body).kind == Kind.BALLOT:
                    answer = signed.body[HEADER_BYTES:]
                    assert answers.setdefault(answer[0], answer) == answer, f"{name} has given two answers"
        return len(entries)

    @invariant()
    def nothing_is_said_twice(self) -> None:
        for name in _ROLES:
            self.said_by(name)

    def teardown(self) -> None:
        """Whatever has happened, it comes to its end, and to the sum of what is on the board."""
        try:
            for _ in range(40):
                for name in _ROLES:
                    self.turn(name)
            bodies = {SignedEntry.decode(data).body for data in self.board.entries}
            answers = [body for body in bodies if Entry(1, "", BOARD, body).kind == Kind.BALLOT]
            sums = tuple(sum(number_in(a) for a in answers if a[HEADER_BYTES] == step) for step in range(_STEPS))
            assert self.agent("curator").result == sums
        finally:
            for name in _ROLES:
                self.leave(name)
            shutil.rmtree(self.folder)


def test_a_store_set_back_to_its_start_is_detected() -> None:
    """As `Machines` would find it, now and then."""
    machines = Machines()
    machines.fails("curator", "fails", 1)
    machines.is_copied("curator")
    machines.is_set_back("curator")
    machines.teardown()


TestMachines = Machines.TestCase
TestMachines.settings = settings(max_examples=20, stateful_step_count=16, deadline=None)
