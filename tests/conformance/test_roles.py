"""What every role of every protocol does with a message that is repeated, forged, out of place or of another run, and
after a crash. `tests.conformance.runs` makes the runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from psephos.protocol.errors import PsephosError
from psephos.protocol.roles import Entry, Role, Step
from psephos.protocol.storage.values import decode, encode
from psephos.protocol.study.study import CURATOR
from psephos.protocol.wire import DIGEST_BYTES, HEADER_BYTES, Kind, kind_of
from tests.conformance.runs import RUNS, Call, Run, run_of

pytestmark = pytest.mark.parametrize("protocol", RUNS)


def changes_nothing(state: object, step: Step) -> bool:
    """Whether a role sends nothing and is in the same state as before."""
    return step.posts == () and encode(step.state) == encode(state)


def handled(run: Run) -> Iterator[Call]:
    """The calls whose message was used or kept: it changed the state."""
    for call in run.calls:
        if not changes_nothing(call.state, call.step):
            yield call


def first_of_each_way(run: Run) -> Iterator[Call]:
    """Of those calls, the first that each role has of each kind from each sender: a ceremony has many more."""
    seen = set[tuple[str, str, Kind]]()
    for call in handled(run):
        way = (call.role, call.entry.sender, call.entry.kind)
        if way not in seen:
            seen.add(way)
            yield call


def by_role(run: Run) -> dict[str, list[Call]]:
    """The handled calls of every role, in their order."""
    calls: dict[str, list[Call]] = {name: [] for name in run.cast.names}
    for call in handled(run):
        calls[call.role].append(call)
    return calls


def test_no_message_of_an_honest_run_is_refused(protocol: str) -> None:
    assert [refusal for call in run_of(protocol).calls for refusal in call.step.refused] == []


def test_a_repeated_message_has_no_second_effect(protocol: str) -> None:
    """It is refused or ignored, or answered with the bytes of the first answer. What may belong to a later round is
    kept, once, and nothing is sent. The board's client refuses an entry of JOINED that is posted again."""
    run = run_of(protocol)
    roles = {name: run.role(name) for name in run.cast.names}
    for call in (call for call in first_of_each_way(run) if call.entry.kind is not Kind.JOINED):
        role, what = roles[call.role], (call.role, call.entry.kind)
        again = role.receive(call.step.state, [call.entry])
        if again.posts:
            assert call.entry.kind is Kind.TALLY_REQUEST, what
            assert again.posts == call.step.posts, what
            assert encode(again.state) == encode(call.step.state), what
        elif encode(again.state) != encode(call.step.state):
            assert not again.refused, what
            assert changes_nothing(again.state, role.receive(again.state, [call.entry])), what


def test_a_message_in_the_name_of_another_role_is_refused(protocol: str) -> None:
    """Of a party, of a holder and of the curator, where they send no message of the kind.

    Two kinds do not depend on who posts them: every role joins, and a ballot is signed by its party, so that a copy of
    it is the same ballot.
    """
    run = run_of(protocol)
    roles = {name: run.role(name) for name in run.cast.names}
    for call in first_of_each_way(run):
        if call.entry.kind is Kind.BALLOT:
            step = roles[call.role].receive(call.state, [replace(call.entry, sender=CURATOR)])
            assert encode(step.state) == encode(call.step.state)
            continue
        senders = {each.entry.sender for each in run.calls if each.entry.kind is call.entry.kind}
        others = {name.split()[0]: name for name in run.cast.names if name not in senders}
        for sender in others.values():
            step = roles[call.role].receive(call.state, [replace(call.entry, sender=sender)])
            assert step.refused, (call.role, call.entry.kind, sender)
            assert changes_nothing(call.state, step), (call.role, call.entry.kind, sender)


def test_a_message_of_another_session_is_refused_or_ends_the_run(protocol: str) -> None:
    """The first of each kind that a role uses. Messages that are used together are refused together, when the last of
    them is there; a public key of another study ends the study without a result. What joins is of the session in the
    entry of the board, which the board's client compares (tests/protocol/board/test_client.py)."""
    run = run_of(protocol)
    for name, own in by_role(run).items():
        role, kinds = run.role(name), {Kind.JOINED}
        for place, call in enumerate(own):
            if call.entry.kind not in kinds:
                kinds.add(call.entry.kind)
                data = bytearray(call.entry.data)
                data[HEADER_BYTES - DIGEST_BYTES] ^= 1
                forged = replace(call.entry, data=bytes(data))
                rest = [forged, *(later.entry for later in own[place + 1 :])]
                assert is_without_effect(role, call.state, rest), (name, call.entry.kind)


def is_without_effect(role: Role, state: Any, entries: Sequence[Entry]) -> bool:
    """Whether the first of these entries is refused, at once or with those of its kind, or the role gets no result."""
    for entry in entries:
        try:
            step = role.receive(state, [entry])
        except PsephosError:
            return True
        if any(refusal.entry.kind is entries[0].kind for refusal in step.refused):
            return True
        state = step.state
    return role.result(state) is None


def test_a_message_before_its_time_is_refused_or_kept(protocol: str) -> None:
    """Every message comes before the one that preceded it. Whatever a role keeps, it uses with the message after it."""
    run = run_of(protocol)
    for name, own in by_role(run).items():
        role = run.role(name)
        for first, second in pairwise(own):
            early = role.receive(first.state, [second.entry])
            if early.refused:
                assert changes_nothing(first.state, early), (name, second.entry.kind)
            elif second.entry.kind is not Kind.CLOSE and not changes_nothing(first.state, early):
                late = role.receive(early.state, [first.entry])
                assert not late.refused, (name, first.entry.kind, second.entry.kind)
                sent = sorted(kinds_of(early) + kinds_of(late))
                assert sent == sorted(kinds_of(first.step) + kinds_of(second.step)), (name, second.entry.kind)


def test_a_ballot_after_the_close_is_refused(protocol: str) -> None:
    run = run_of(protocol)
    ballots = {call.entry.sender: call.entry for call in run.calls if call.entry.kind is Kind.BALLOT}
    for call in handled(run):
        if call.entry.kind is Kind.CLOSE:
            for ballot in ballots.values():
                step = run.role(call.role).receive(call.step.state, [ballot])
                assert step.refused
                assert changes_nothing(call.step.state, step)


def kinds_of(step: Step) -> list[Kind]:
    """The kinds of the messages that a step sends."""
    return [kind_of(post.data) for post in step.posts]


def test_every_state_is_stored_and_restored(protocol: str) -> None:
    run = run_of(protocol)
    for call in run.calls:
        stored = encode(call.step.state)
        assert encode(decode(stored)) == stored
        assert decode(stored) == call.step.state, call.role
