"""The stages before and after a study's protocol, especially when a study ends without a key."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from psephos.audit.adversary import ScriptedRole
from psephos.audit.rounds import short_key
from psephos.audit.studies import trial
from psephos.protocol.board.client import join_message
from psephos.protocol.board.sealing import SealingKey
from psephos.protocol.ceremony.messages import failure
from psephos.protocol.errors import AgreementError, MessageError, UnexpectedMessageError, WrongRoundError
from psephos.protocol.paillier.private_key import generate_private_key
from psephos.protocol.paillier.threshold import ThresholdKey, deal
from psephos.protocol.roles import BOARD, Entry, MissingMessages, Post, Refusal, Role, Step
from psephos.protocol.storage.store import OnceLedger, Store
from psephos.protocol.study.stages import (
    AgreedKey,
    JoinedRoles,
    JoinStage,
    KeyStage,
    NoKey,
    PublishedResult,
    PublishStage,
    ResultWatcher,
    ResultWatcherState,
    StagedRole,
    StageState,
    decode_key,
    encode_key,
)
from psephos.protocol.study.study import Study
from psephos.protocol.wire import Kind, frame


@cache
def study_of(holders: int, threshold: int) -> Study:
    return trial(parties=6, holders=holders, threshold=threshold).study


def key_stage_after(study: Study, messages: Iterable[tuple[str, bytes]]) -> Step:
    """Return the step of a party without a share on these messages, given by sender and bytes."""
    role = KeyStage("party 5", study)
    entries = [Entry(number, name, BOARD, data) for number, (name, data) in enumerate(messages)]
    return role.receive(role.start().state, entries)


def failure_reports(study: Study, names: Iterable[str], why: str = "holder 1 lied") -> list[tuple[str, bytes]]:
    return [(name, failure(study.ceremony(), why)) for name in names]


@pytest.mark.parametrize(("holders", "threshold"), [(3, 2), (4, 2), (5, 2), (5, 3)])
def test_t_holders_end_a_study_and_fewer_do_not(holders: int, threshold: int) -> None:
    """t - 1 holders may lie: the study goes on, however often they, the curator and the parties report a failure."""
    study = study_of(holders, threshold)
    liars, others = study.holders[-threshold + 1 :], [n for n in study.members.keys if not n.startswith("holder")]
    lies = [*failure_reports(study, liars), *failure_reports(study, liars, "again"), *failure_reports(study, others)]
    key, _ = deal(generate_private_key(study.key_bits, test_key=True), holders=holders, threshold=threshold)
    step = key_stage_after(study, [*lies, *((name, encode_key(study, key)) for name in study.holders)])
    assert step.state.state.key == key
    assert len(step.refused) == len(liars) + len(others)
    step = key_stage_after(study, [*lies, *failure_reports(study, study.holders[:1], "holder 2 lied")])
    assert isinstance(step.state.state, NoKey)
    assert f'{" and ".join(liars)} ("holder 1 lied"), holder 1 ("holder 2 lied")' in step.state.state.why


@pytest.mark.parametrize("text", [b"", b"\xff", b"x" * 401, "\N{ESCAPE}[2J".encode(), b"two\nlines", None])
def test_reports_without_a_valid_reason_are_refused(text: bytes | None) -> None:
    """None: a report that is replayed from another study."""
    study = study_of(3, 2)
    terms = replace(study, title="Another").ceremony() if text is None else study.ceremony()
    data = frame(Kind.FAILED_CEREMONY, terms.digest, b"holder 1 lied" if text is None else text)
    step: Any = key_stage_after(study, [(name, data) for name in study.holders])
    assert not isinstance(step.state.state, NoKey)
    assert len(step.refused) == 3


# -- one stage after another


class CountingStage(Role):
    """Takes ballots until it has `wanted`. Its result is the results of the stages before, and its ballots."""

    reads = frozenset({Kind.BALLOT})

    def __init__(self, name: str, wanted: int, *before: Any) -> None:
        self.name, self.wanted, self.before = name, wanted, before

    def start(self) -> Step:
        return Step((), (Post(BOARD, f"begins with {self.before}".encode()),))

    def receive(self, state: Any, entries: Sequence[Entry]) -> Step:
        refused = tuple(Refusal(e, UnexpectedMessageError("no")) for e in entries if e.sender == "party 4")
        accepted = tuple(entry.number for entry in entries if entry.sender != "party 4")
        return Step((*state, accepted), (Post(BOARD, b"took %d" % len(accepted)),), refused)

    def on_idle(self, state: Any) -> Step | None:
        return None if len(state) > self.wanted else Step((*state, "idle"), (Post(BOARD, b"idle"),))

    def is_ready(self, state: Any) -> bool:
        return len(state) == 1

    def listens(self, state: Any) -> bool:
        return len(state) == 0

    def awaits(self, state: Any) -> MissingMessages | None:
        return MissingMessages(Kind.BALLOT, (f"{len(state)} of {self.wanted}",))

    def result(self, state: Any) -> Any:
        return (*self.before, state) if len(state) >= self.wanted else None


class KeyCountingStage(CountingStage):
    """Takes public keys instead."""

    reads = frozenset({Kind.PUBLIC_KEY})


def entry(number: int, kind: Kind, sender: str = "party 0", receiver: str = BOARD) -> Entry:
    return Entry(number, sender, receiver, frame(kind, bytes(32), bytes([number])))


def posted(step: Step) -> list[bytes]:
    return [post.data for post in step.posts]


def three_stages() -> StagedRole:
    return StagedRole(
        "x",
        lambda: CountingStage("x", 2),
        lambda first: KeyCountingStage("x", 1, first),
        lambda a, b: CountingStage("x", 9, a, b),
    )


def test_messages_of_one_kind_are_handled_together() -> None:
    role = StagedRole("x", lambda: CountingStage("x", 9), lambda first: CountingStage("x", 1, first))
    ballots = [entry(1, Kind.BALLOT), entry(2, Kind.BALLOT, "party 4"), entry(3, Kind.BALLOT)]
    alone = entry(4, Kind.CLOSE, receiver="x")
    step = role.receive(role.start().state, [*ballots, alone, entry(5, Kind.BALLOT), entry(6, Kind.CLOSE)])
    assert step.state == StageState(0, ((1, 3), (4,), (5,)))
    assert [refusal.entry.number for refusal in step.refused] == [2]
    assert posted(step) == [b"took 2", b"took 1", b"took 1"]
    last = StagedRole("x", lambda: CountingStage("x", 9))
    step = last.receive(last.start().state, [*ballots, alone, entry(5, Kind.BALLOT), Entry(6, "a", BOARD, b"junk")])
    assert step.state == StageState(0, ((1, 3, 4, 5),)), "the last stage handles all that it reads at once"
    assert last.receive(step.state, [entry(7, Kind.CLOSE)]) == Step(step.state)


def test_one_early_public_key_of_each_sender_is_kept() -> None:
    role = three_stages()
    keys = [entry(1, Kind.PUBLIC_KEY, "a"), entry(2, Kind.PUBLIC_KEY, "b"), entry(3, Kind.PUBLIC_KEY, "a")]
    step = role.receive(role.start().state, [*keys, entry(4, Kind.CLOSE), entry(5, Kind.BALLOT)])
    assert step.state == StageState(0, ((5,),), (), (keys[0], keys[1]))
    assert posted(step) == [b"took 1"]
    step = role.receive(step.state, [entry(6, Kind.BALLOT), entry(7, Kind.BALLOT, "party 4")])
    assert step.state.stage == 2
    assert step.state.before == (((5,), (6,)), ((1, 2),))
    assert step.state.early == ()
    assert [data[:6] for data in posted(step)] == [b"took 1", b"begins", b"took 2", b"begins"]
    assert step.refused[0].entry.number == 7


# -- joining, the key, the result


def joins(study: Study, name: str) -> Entry:
    return Entry(1, name, BOARD, join_message(study.digest, SealingKey.generate().public))


def test_join_stage_waits_for_the_required_roles() -> None:
    study = study_of(3, 2)
    role = JoinStage("party 0", study)
    state = role.start().state
    assert (role.name, state.state) == ("party 0", JoinedRoles(()))
    for name, missing in (
        ("holder 2", ("curator", "holder 1", "holder 3")),
        ("party 3", ("curator", "holder 1", "holder 3")),
        ("curator", ("holder 1", "holder 3")),
        ("holder 3", ("holder 1",)),
    ):
        assert role.result(state) is None
        state = role.receive(state, [joins(study, name)]).state
        assert role.awaits(state) == MissingMessages(Kind.JOINED, missing)
    state = role.receive(state, [joins(study, "holder 1")]).state
    assert role.awaits(state) is None
    assert role.result(state) == ("holder 2", "party 3", "curator", "holder 3", "holder 1")


def test_join_stage_refuses_other_studies_strangers_and_repetitions() -> None:
    study = study_of(3, 2)
    role = JoinStage("party 0", study)
    before = role.receive(role.start().state, [joins(study, "holder 1")]).state
    valid = joins(study, "holder 2")
    for message, error in (
        (joins(study_of(5, 3), "holder 2"), WrongRoundError),
        (replace(valid, data=valid.data[:-1]), MessageError),
        (joins(study, "holder 9"), UnexpectedMessageError),
        (joins(study, "holder 1"), UnexpectedMessageError),
    ):
        step = role.receive(before, [message])
        assert step.state == before
        assert [type(refusal.error) for refusal in step.refused] == [error]


def dealt_key(study: Study) -> ThresholdKey:
    key = short_key(bits=study.key_bits, degree=study.degree)
    return deal(key, holders=len(study.holders), threshold=study.threshold)[0]


def test_encoding_of_a_published_key() -> None:
    study = replace(study_of(3, 2), degree=2)
    key = dealt_key(study)
    size = 3 * 256 // 8
    numbers = (key.theta, key.verification_base, *key.verification_values)
    body = int(key.key.n).to_bytes(size, "big") + key.ceremony + b"".join(int(n).to_bytes(size, "big") for n in numbers)
    data = encode_key(study, key)
    assert data == frame(Kind.PUBLIC_KEY, study.digest, body)
    again = decode_key(study, data)
    assert again == key
    assert (again.key.form, again.key.degree, type(again.theta)) == ("psephos", 2, int)
    for wrong in (data[:-1], data + b"\0"):
        with pytest.raises(MessageError):
            decode_key(study, wrong)
    with pytest.raises(WrongRoundError):
        decode_key(study_of(3, 2), data)
    less, _ = deal(short_key(bits=254, degree=2), holders=3, threshold=2)
    numbers = (less.theta, less.verification_base, *less.verification_values)
    body = int(less.key.n).to_bytes(size, "big") + key.ceremony
    small = frame(Kind.PUBLIC_KEY, study.digest, body + b"".join(int(n).to_bytes(size, "big") for n in numbers))
    with pytest.raises(AgreementError):
        decode_key(study, small)


def test_key_stage_waits_for_one_key_of_all_holders() -> None:
    study = study_of(3, 2)
    key, other = dealt_key(study), dealt_key(study)
    message = encode_key(study, key)
    holder = KeyStage("holder 2", study, key)
    assert holder.start().posts == (Post(BOARD, message, "key"),)
    assert KeyStage("party 5", study).start() == Step(holder.start().state)
    assert [role.listens(None) for role in (holder, KeyStage("party 5", study))] == [False, True]
    keys = [Entry(n, name, BOARD, message) for n, name in enumerate(study.holders, 1)]
    for role in (holder, KeyStage("party 5", study)):
        held = role.receive(role.start().state, keys[:2]).state
        assert role.result(held) is None
        assert role.awaits(held) == MissingMessages(Kind.PUBLIC_KEY, ("holder 3",))
        held = role.receive(held, keys[2:]).state
        assert (held.state, role.result(held), role.done(held)) == (AgreedKey(key), key, True)
    assert key != other
    liar = KeyStage("holder 2", study, other)
    held = liar.receive(liar.start().state, keys).state
    assert isinstance(held.state, NoKey)
    assert "holder 2" in held.state.why
    assert liar.result(held) is None
    short = [replace(each, data=frame(Kind.PUBLIC_KEY, study.digest, b"short")) for each in keys]
    held = holder.receive(holder.start().state, short).state
    assert isinstance(held.state, NoKey)


def test_a_release_is_made_once_and_published() -> None:
    study, releases = study_of(3, 2), []

    def make() -> bytes:
        releases.append(b"content")
        return b"content"

    store = Store()
    for _ in range(2):
        role = PublishStage(study, make, OnceLedger(store, "curator"))
        step = role.start()
        assert step.posts == (Post(BOARD, frame(Kind.RESULT, study.digest, b"content"), "release"),)
        assert role.result(step.state) == PublishedResult(b"content")
    assert releases == [b"content"]
    assert (role.name, PublishedResult(b"content").digest) == ("curator", hashlib.sha256(b"content").digest())
    other = PublishStage(replace(study, title="Another"), make, OnceLedger(store, "curator"))
    other.start()
    assert len(releases) == 2, "one for each study"


def result_of(study: Study, number: int, content: bytes, sender: str = "curator") -> Entry:
    return Entry(number, sender, BOARD, frame(Kind.RESULT, study.digest, content))


def only_published(inner: Any) -> ResultWatcherState:
    return ResultWatcherState(inner, PublishedResult(b"content"))


def test_a_result_watcher_is_done_when_the_curator_has_published() -> None:
    study = study_of(3, 2)
    role = ResultWatcher(study, CountingStage("x", 1))
    assert (role.name, role.reads) == ("x", frozenset({Kind.BALLOT, Kind.RESULT}))
    step = role.start()
    assert (step.state, posted(step)) == (ResultWatcherState(()), [b"begins with ()"])
    assert role.awaits(step.state) == MissingMessages(Kind.BALLOT, ("0 of 1",))
    idle = role.on_idle(step.state)
    assert idle is not None
    assert (idle.state, posted(idle)) == (ResultWatcherState(("idle",)), [b"idle"])
    assert role.on_idle(ResultWatcherState(((1,), (2,)))) is None
    assert [role.is_ready(ResultWatcherState(state)) for state in ((), ((1,),))] == [False, True]
    assert [role.listens(ResultWatcherState(state)) for state in ((), ((1,),))] == [True, False]
    entries = [
        entry(1, Kind.BALLOT, "party 4"),
        result_of(study, 2, b"a lie", "party 3"),
        entry(3, Kind.BALLOT),
        Entry(4, "curator", BOARD, frame(Kind.RESULT, bytes(32), b"of another study")),
        result_of(study, 5, b"content"),
        result_of(study, 6, b"again"),
    ]
    after = role.receive(step.state, entries)
    assert after.state == ResultWatcherState(((3,),), PublishedResult(b"content"))
    assert [(refusal.entry.number, type(refusal.error)) for refusal in after.refused] == [
        (1, UnexpectedMessageError),
        (2, UnexpectedMessageError),
        (4, WrongRoundError),
        (6, UnexpectedMessageError),
    ]
    assert "party 3" in str(after.refused[1].error)
    assert posted(after) == [b"took 1"]
    assert role.result(after.state) == PublishedResult(b"content")
    assert role.result(step.state) is None
    assert role.awaits(after.state) is None
    assert not role.listens(ResultWatcherState((), PublishedResult(b"content")))
    later, idle = role.receive(after.state, [entry(7, Kind.BALLOT)]), role.on_idle(only_published(()))
    assert later.state == only_published(((3,), (7,)))
    assert idle is not None
    assert idle.state == only_published(("idle",)), "what follows it changes nothing of the result"
    only = role.receive(step.state, [result_of(study, 1, b"content")])
    assert (only.state, only.posts) == (ResultWatcherState((), PublishedResult(b"content")), ())


def test_a_result_watcher_waits_for_the_result_last() -> None:
    role = ResultWatcher(study_of(3, 2), ScriptedRole("x", b"y"))
    assert role.awaits(role.start().state) == MissingMessages(Kind.RESULT, ("curator",))
