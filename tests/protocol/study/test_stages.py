"""What everybody goes through before a study's protocol: above all, when it is over because there is no key."""

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
from psephos.protocol.ceremony.messages import failure
from psephos.protocol.errors import AgreementError, MessageError, UnexpectedMessageError, WrongRoundError
from psephos.protocol.paillier.private_key import generate_private_key
from psephos.protocol.paillier.threshold import ThresholdKey, deal
from psephos.protocol.roles import BOARD, Entry, Missing, Post, Refusal, Role, Step
from psephos.protocol.storage.store import OnceLedger, Store
from psephos.protocol.study.stages import (
    AgreedKey,
    ComparingKeys,
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
    initial_stages,
)
from psephos.protocol.study.study import Study
from psephos.protocol.wire import Kind, frame


@cache
def study_of(holders: int, threshold: int) -> Study:
    return trial(parties=6, holders=holders, threshold=threshold).study


def heard(study: Study, said: Iterable[tuple[str, bytes]]) -> Step:
    """What a party makes of it that holds nothing."""
    role = KeyStage("party 5", study)
    return role.receive(role.start().state, [Entry(n, name, BOARD, data) for n, (name, data) in enumerate(said)])


def failing(study: Study, names: Iterable[str], why: str = "holder 1 lied") -> list[tuple[str, bytes]]:
    return [(name, failure(study.ceremony(), why)) for name in names]


@pytest.mark.parametrize(("holders", "threshold"), [(3, 2), (3, 3), (5, 3), (5, 4)])
def test_a_failed_ceremony_is_believed_of_t_holders_and_of_nobody_else(holders: int, threshold: int) -> None:
    """t - 1 of them may lie: however often they say so, and the curator and every party too, the study goes on."""
    study = study_of(holders, threshold)
    liars, others = study.holders[-threshold + 1 :], [n for n in study.members.keys if not n.startswith("holder")]
    lies = [*failing(study, liars), *failing(study, liars, "again"), *failing(study, others)]
    key, _ = deal(generate_private_key(study.key_bits, test_key=True), holders=holders, threshold=threshold)
    step = heard(study, [*lies, *((name, encode_key(study, key)) for name in study.holders)])
    assert step.state.state.key == key
    assert len(step.refused) == len(liars) + len(others)
    step = heard(study, [*lies, *failing(study, study.holders[:1], "holder 2 lied")])
    assert isinstance(step.state.state, NoKey)
    assert step.state.state.why == (
        f'the ceremony has failed, according to {" and ".join(liars)} ("holder 1 lied"), holder 1 ("holder 2 lied")'
    )


@pytest.mark.parametrize("said", [b"", b"\xff", b"x" * 401, "\N{ESCAPE}[2J".encode(), b"two\nlines", None])
def test_what_is_no_reason_is_not_believed_of_anybody(said: bytes | None) -> None:
    """None: of another study's ceremony, replayed here."""
    study = study_of(3, 2)
    terms = replace(study, title="Another").ceremony() if said is None else study.ceremony()
    data = frame(Kind.FAILED_CEREMONY, terms.digest, b"holder 1 lied" if said is None else said)
    step: Any = heard(study, [(name, data) for name in study.holders])
    assert not isinstance(step.state.state, NoKey)
    assert len(step.refused) == 3


# -- one stage after another


class Stage(Role):
    """Takes ballots until it has `wanted`, then comes to what it was made from and those; says so when it begins."""

    reads = frozenset({Kind.BALLOT})

    def __init__(self, name: str, wanted: int, *before: Any) -> None:
        self.name, self.wanted, self.before = name, wanted, before

    def start(self) -> Step:
        return Step((), (Post(BOARD, f"begins with {self.before}".encode()),))

    def receive(self, state: Any, entries: Sequence[Entry]) -> Step:
        refused = tuple(Refusal(e, UnexpectedMessageError("no")) for e in entries if e.sender == "party 4")
        taken = tuple(entry.number for entry in entries if entry.sender != "party 4")
        return Step((*state, taken), (Post(BOARD, b"took %d" % len(taken)),), refused)

    def on_idle(self, state: Any) -> Step | None:
        return None if len(state) > self.wanted else Step((*state, "quiet"), (Post(BOARD, b"hushed"),))

    def is_ready(self, state: Any) -> bool:
        return len(state) == 1

    def listens(self, state: Any) -> bool:
        return len(state) == 0

    def awaits(self, state: Any) -> Missing | None:
        return Missing(Kind.BALLOT, (f"{len(state)} of {self.wanted}",))

    def result(self, state: Any) -> Any:
        return (*self.before, state) if len(state) >= self.wanted else None


class Keys(Stage):
    """The same of public keys."""

    reads = frozenset({Kind.PUBLIC_KEY})


def entry(number: int, kind: Kind, sender: str = "party 0", receiver: str = BOARD) -> Entry:
    return Entry(number, sender, receiver, frame(kind, bytes(32), bytes([number])))


def said(step: Step) -> list[bytes]:
    return [post.data for post in step.posts]


def two() -> StagedRole:
    return StagedRole("x", lambda: Stage("x", 2), lambda first: Keys("x", 1, first), lambda a, b: Stage("x", 9, a, b))


def test_each_stage_is_made_from_what_the_ones_before_came_to() -> None:
    role = two()
    assert (role.name, role.reads) == ("x", frozenset(Kind))
    step = role.start()
    assert (step.state, said(step)) == (StageState(0, ()), [b"begins with ()"])
    assert role.stage(step.state).before == ()  # type: ignore[attr-defined]
    step = role.receive(step.state, [entry(1, Kind.BALLOT), entry(2, Kind.CLOSE), entry(3, Kind.BALLOT)])
    assert step.state == StageState(1, (), (((1,), (3,)),))
    assert said(step) == [b"took 1", b"took 1", b"begins with ((((1,), (3,)),),)"]
    assert role.result(step.state) is None
    again = two()  # of a state that was written down
    assert (again.stage(step.state).before) == ((((1,), (3,)),),)  # type: ignore[attr-defined]
    last = again.receive(step.state, [entry(4, Kind.PUBLIC_KEY)])
    assert last.state.stage == 2
    assert again.stage(last.state).before == ((((1,), (3,)),), (((((1,), (3,)),)), ((4,),)))  # type: ignore[attr-defined]
    assert two().result(StageState(2, ((1,),) * 9, last.state.before)) is not None
    assert two().result(StageState(0, ((1,),) * 9)) is None, "not that of another stage"


def test_entries_alike_in_a_row_are_given_together_and_refusals_are_kept() -> None:
    role = StagedRole("x", lambda: Stage("x", 9), lambda first: Stage("x", 1, first))
    ballots = [entry(1, Kind.BALLOT), entry(2, Kind.BALLOT, "party 4"), entry(3, Kind.BALLOT)]
    alone = entry(4, Kind.CLOSE, receiver="x")
    step = role.receive(role.start().state, [*ballots, alone, entry(5, Kind.BALLOT), entry(6, Kind.CLOSE)])
    assert step.state == StageState(0, ((1, 3), (4,), (5,)))
    assert [refusal.entry.number for refusal in step.refused] == [2]
    assert said(step) == [b"took 2", b"took 1", b"took 1"]
    last = StagedRole("x", lambda: Stage("x", 9))
    step = last.receive(last.start().state, [*ballots, alone, entry(5, Kind.BALLOT), Entry(6, "a", BOARD, b"junk")])
    assert step.state == StageState(0, ((1, 3, 4, 5),)), "the last stage is given all that it reads at once"
    assert last.receive(step.state, [entry(7, Kind.CLOSE)]) == Step(step.state)


def test_public_keys_that_come_early_are_kept_once_for_each_sender() -> None:
    role = two()
    keys = [entry(1, Kind.PUBLIC_KEY, "a"), entry(2, Kind.PUBLIC_KEY, "b"), entry(3, Kind.PUBLIC_KEY, "a")]
    step = role.receive(role.start().state, [*keys, entry(4, Kind.CLOSE), entry(5, Kind.BALLOT)])
    assert step.state == StageState(0, ((5,),), (), (keys[0], keys[1]))
    assert said(step) == [b"took 1"]
    step = role.receive(step.state, [entry(6, Kind.BALLOT), entry(7, Kind.BALLOT, "party 4")])
    assert step.state.stage == 2
    assert step.state.before == (((5,), (6,)), ((1, 2),))
    assert step.state.early == ()
    assert [data[:6] for data in said(step)] == [b"took 1", b"begins", b"took 2", b"begins"]
    assert step.refused[0].entry.number == 7


def test_a_stage_that_refuses_what_came_early_says_so() -> None:
    role = StagedRole("x", lambda: Stage("x", 1), lambda first: Keys("x", 2, first), lambda *before: Stage("x", 9))
    early = [entry(1, Kind.PUBLIC_KEY, "party 4"), entry(2, Kind.PUBLIC_KEY)]
    step = role.receive(role.start().state, [*early, entry(3, Kind.BALLOT)])
    assert (step.state.stage, step.state.state, step.state.early) == (1, ((2,),), ())
    assert [refusal.entry.number for refusal in step.refused] == [1]


def test_what_a_stage_is_asked_is_what_its_role_says() -> None:
    role = two()
    begun, later = StageState(0, ()), StageState(1, (), (((1,), (3,)),))
    assert [role.listens(at) for at in (begun, StageState(0, ((1,),)))] == [True, False]
    assert [role.is_ready(at) for at in (begun, StageState(0, ((1,),)))] == [False, True]
    assert role.awaits(later) == Missing(Kind.BALLOT, ("0 of 1",))
    hushed = role.on_idle(begun)
    assert hushed is not None
    assert (hushed.state, said(hushed)) == (StageState(0, ("quiet",)), [b"hushed"])
    hushed = two().on_idle(StageState(0, ("quiet",)))
    assert hushed is not None
    assert hushed.state == StageState(1, (), (("quiet", "quiet"),)), "on to the next stage"
    assert said(hushed) == [b"hushed", b"begins with ((('quiet', 'quiet'),),)"]
    assert two().on_idle(StageState(2, ((),) * 10, (((1,), (3,)), ((4,),)))) is None


def test_a_state_shows_where_it_is_and_nothing_of_it() -> None:
    assert repr(StageState(1, "state", ("before",), (entry(1, Kind.BALLOT),))) == "StageState(stage=1)"
    assert "content" not in repr(PublishedResult(b"secret"))
    assert repr(ResultWatcherState("state")) == "ResultWatcherState(published=None)"


# -- joining, the key, the result


def test_who_has_joined_and_who_is_waited_for() -> None:
    role = JoinStage("x", ["b", "a", "c"])
    held = role.start().state
    assert (role.name, held.state) == ("x", JoinedRoles(()))
    for number, name, left in ((1, "b", "a, c"), (2, "stranger", "a, c"), (3, "a", "c")):
        assert role.result(held) is None
        held = role.receive(held, [entry(number, Kind.JOINED, name)]).state
        assert role.awaits(held) == Missing(Kind.JOINED, tuple(left.split(", ")))
    held = role.receive(held, [entry(4, Kind.JOINED, "c")]).state
    assert role.awaits(held) is None
    assert role.result(held) == ("b", "stranger", "a", "c")


def dealt(study: Study) -> ThresholdKey:
    key = short_key(bits=study.key_bits, degree=study.degree)
    return deal(key, holders=len(study.holders), threshold=study.threshold)[0]


def test_a_key_is_published_as_its_numbers_one_after_another() -> None:
    study = replace(study_of(3, 2), degree=2)
    key = dealt(study)
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
    with pytest.raises(AgreementError, match="another size"):
        decode_key(study, small)


def test_holders_publish_one_key_and_everybody_waits_for_it() -> None:
    study = study_of(3, 2)
    key, other = dealt(study), dealt(study)
    said = encode_key(study, key)
    holder = KeyStage("holder 2", study, key)
    assert holder.start().posts == (Post(BOARD, said, "key"),)
    assert KeyStage("party 5", study).start() == Step(holder.start().state)
    assert [role.listens(None) for role in (holder, KeyStage("party 5", study))] == [False, True]
    keys = [Entry(n, name, BOARD, said) for n, name in enumerate(study.holders, 1)]
    for role in (holder, KeyStage("party 5", study)):
        held = role.receive(role.start().state, keys[:2]).state
        assert role.result(held) is None
        assert role.awaits(held) == Missing(Kind.PUBLIC_KEY, ("holder 3",))
        held = role.receive(held, keys[2:]).state
        assert (held.state, role.result(held), role.done(held)) == (AgreedKey(key), key, True)
    assert key != other
    liar = KeyStage("holder 2", study, other)
    held = liar.receive(liar.start().state, keys).state
    assert held.state == NoKey(
        "the holders do not publish the one key of this study: not the one that holder 2 has a share of"
    )
    assert liar.result(held) is None
    short = [replace(each, data=frame(Kind.PUBLIC_KEY, study.digest, b"short")) for each in keys]
    held = holder.receive(holder.start().state, short).state
    assert held.state.why.startswith("the holders do not publish the one key of this study: ")


def test_in_which_words_a_ceremony_failed() -> None:
    told = ComparingKeys((("holder 1", "one"), ("holder 2", "two"), ("holder 3", "one"))).told()
    assert told == 'the ceremony has failed, according to holder 1 and holder 3 ("one"), holder 2 ("two")'
    study = study_of(3, 2)
    step = heard(study, failing(study, ["party 1", "holder 1", "holder 1"]))
    assert [str(refusal.error) for refusal in step.refused] == [
        f"party 5: {name} says a ceremony failed, as holders may, once" for name in ("party 1", "holder 1")
    ]
    assert step.state.state == ComparingKeys((("holder 1", "holder 1 lied"),))


def test_the_stages_of_whoever_holds_no_share() -> None:
    study = study_of(3, 2)
    joining, keyed = initial_stages("party 5", study)
    assert isinstance(joining(), JoinStage)
    assert joining().name == "party 5"
    assert joining().awaits(joining().start().state) == Missing(Kind.JOINED, tuple(sorted(study.must_join)))  # type: ignore[attr-defined]
    role = keyed(("all",))
    assert isinstance(role, KeyStage)
    assert (role.name, role.study, role.listens(None)) == ("party 5", study, True)
    parties = tuple(replace(member, holder=0) for member in study.parties)
    none: dict[str, Any] = {"key_bits": 0, "threshold": 0, "confirmations": 0, "parties": parties}
    assert len(initial_stages("party 5", replace(study, protocol="pathak", **none))) == 1


def test_a_release_is_made_once_and_published() -> None:
    study, made = study_of(3, 2), []

    def make() -> bytes:
        made.append(b"content")
        return b"content"

    store = Store()
    for _ in range(2):
        role = PublishStage(study, make, OnceLedger(store, "curator"))
        step = role.start()
        assert step.posts == (Post(BOARD, frame(Kind.RESULT, study.digest, b"content"), "release"),)
        assert role.result(step.state) == PublishedResult(b"content")
    assert made == [b"content"]
    assert (role.name, PublishedResult(b"content").digest) == ("curator", hashlib.sha256(b"content").digest())
    other = PublishStage(replace(study, title="Another"), make, OnceLedger(store, "curator"))
    other.start()
    assert len(made) == 2, "of one study each"


def result_of(study: Study, number: int, content: bytes, sender: str = "curator") -> Entry:
    return Entry(number, sender, BOARD, frame(Kind.RESULT, study.digest, content))


def test_a_role_is_done_when_the_curator_has_published() -> None:
    study = study_of(3, 2)
    role = ResultWatcher(study, Stage("x", 1))
    assert (role.name, role.reads) == ("x", frozenset({Kind.BALLOT, Kind.RESULT}))
    step = role.start()
    assert (step.state, said(step)) == (ResultWatcherState(()), [b"begins with ()"])
    assert role.awaits(step.state) == Missing(Kind.BALLOT, ("0 of 1",))
    hushed = role.on_idle(step.state)
    assert hushed is not None
    assert (hushed.state, said(hushed)) == (ResultWatcherState(("quiet",)), [b"hushed"])
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
    assert str(after.refused[1].error) == "x: party 3 published a result, and is not the curator"
    assert str(after.refused[3].error) == "x: the curator published a second result"
    assert said(after) == [b"took 1"]
    assert role.result(after.state) == PublishedResult(b"content")
    assert role.result(step.state) is None
    assert role.awaits(after.state) is None
    assert not role.listens(ResultWatcherState((), PublishedResult(b"content")))
    only = role.receive(step.state, [result_of(study, 1, b"content")])
    assert (only.state, only.posts) == (ResultWatcherState((), PublishedResult(b"content")), ())


def test_what_is_waited_for_last_is_the_result() -> None:
    role = ResultWatcher(study_of(3, 2), ScriptedRole("x", b"y"))
    assert role.awaits(role.start().state) == Missing(Kind.RESULT, ("curator",))
