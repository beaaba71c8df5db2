"""Every role of every protocol refuses messages that are repeated, forged, early or of another session, and its states
can be stored. `tests.conformance.runs` makes the runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise
from typing import Any

import pytest

from psephos.protocol.errors import PsephosError
from psephos.protocol.roles import Entry, Role, Step
from psephos.protocol.storage.values import decode, encode
from psephos.protocol.study.study import CURATOR
from psephos.protocol.wire import DIGEST_BYTES, HEADER_BYTES, Kind, kind_of
from tests.conformance.runs import EVERY_RUN, Call, Run, protocol_of, run_of

pytestmark = pytest.mark.parametrize("protocol", EVERY_RUN)

LONG_VALUE = re.compile(r"\d{17}|array\(|mpz\(|(\d+, ){9}")
"""In a text: digits of a large number, an array, or many numbers. Whole digests may be there."""

STRANGER = "party 99"
"""A name that no role of the study has."""

SENT_ONCE = ("tally", "average", "psgd", "ceremony")
"""Protocols whose parties send a value in one round only."""


def changes_nothing(state: object, step: Step) -> bool:
    """Return whether a step sends nothing and leaves the state as it was."""
    return step.posts == () and encode(step.state) == encode(state)


def handled(run: Run) -> Iterator[Call]:
    """Yield the calls whose message had an effect."""
    for call in run.calls:
        if not changes_nothing(call.state, call.step):
            yield call


def first_of_each_kind(run: Run) -> Iterator[Call]:
    """Yield of those the first for each role, kind and sender; a ceremony has many more."""
    seen = set[tuple[str, str, Kind]]()
    for call in handled(run):
        key = (call.role, call.entry.sender, call.entry.kind)
        if key not in seen:
            seen.add(key)
            yield call


def by_role(run: Run) -> dict[str, list[Call]]:
    """Return the handled calls of every role, in order."""
    calls: dict[str, list[Call]] = {name: [] for name in run.cast.names}
    for call in handled(run):
        calls[call.role].append(call)
    return calls


def test_no_message_of_an_honest_run_is_refused(protocol: str) -> None:
    assert [refusal for call in run_of(protocol).calls for refusal in call.step.refused] == []


def test_a_repeated_message_has_no_second_effect(protocol: str) -> None:
    """It is refused or ignored, or answered with the bytes of the first answer. A message that may belong to a later
    round is kept once, and nothing is sent."""
    run = run_of(protocol)
    roles = {name: run.role(name) for name in run.cast.names}
    for call in first_of_each_kind(run):
        role, what = roles[call.role], (call.role, call.entry.kind)
        again = role.receive(call.step.state, [call.entry])
        if again.posts:
            assert call.entry.kind is Kind.TALLY_REQUEST, what
            assert again.posts == call.step.posts, what
            assert encode(again.state) == encode(call.step.state), what
        elif encode(again.state) != encode(call.step.state):
            assert not again.refused, what
            assert changes_nothing(again.state, role.receive(again.state, [call.entry])), what


def test_a_message_from_a_role_that_sends_none_of_its_kind_is_refused(protocol: str) -> None:
    """The sender is replaced by a party, a holder and the curator, if they send no message of the kind, and by a
    stranger.

    A ballot is an exception: its party signs it, so a copy that another role posts is the same ballot.
    """
    run = run_of(protocol)
    roles = {name: run.role(name) for name in run.cast.names}
    for call in first_of_each_kind(run):
        if call.entry.kind is Kind.BALLOT:
            step = roles[call.role].receive(call.state, [replace(call.entry, sender=CURATOR)])
            assert encode(step.state) == encode(call.step.state)
            continue
        senders = {each.entry.sender for each in run.calls if each.entry.kind is call.entry.kind}
        others = {name.split()[0]: name for name in run.cast.names if name not in senders}
        for sender in (*others.values(), STRANGER):
            step = roles[call.role].receive(call.state, [replace(call.entry, sender=sender)])
            assert step.refused, (call.role, call.entry.kind, sender)
            assert changes_nothing(call.state, step), (call.role, call.entry.kind, sender)


def test_a_message_of_another_session_is_refused_or_ends_the_run(protocol: str) -> None:
    """The session of the first message of each kind that a role uses is changed. Messages that are used together are
    refused when the last of them has arrived; a public key of another study ends the study without a result."""
    run = run_of(protocol)
    for name, own in by_role(run).items():
        role, kinds = run.role(name), set[Kind]()
        for place, call in enumerate(own):
            if call.entry.kind not in kinds:
                kinds.add(call.entry.kind)
                data = bytearray(call.entry.data)
                data[HEADER_BYTES - DIGEST_BYTES] ^= 1
                forged = replace(call.entry, data=bytes(data))
                rest = [forged, *(later.entry for later in own[place + 1 :])]
                assert is_without_effect(role, call.state, rest), (name, call.entry.kind)


def is_without_effect(role: Role, state: Any, entries: Sequence[Entry]) -> bool:
    """Return whether the first entry is refused, at once or with others of its kind, or the role gets no result."""
    for entry in entries:
        try:
            step = role.receive(state, [entry])
        except PsephosError:
            return True
        if any(refusal.entry.kind is entries[0].kind for refusal in step.refused):
            return True
        state = step.state
    return role.result(state) is None


def test_an_early_message_is_refused_or_kept(protocol: str) -> None:
    """Each two consecutive messages are exchanged. A message that is kept has the same effect as in order."""
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
    """Return the kinds of the messages that a step sends."""
    return [kind_of(post.data) for post in step.posts]


def test_a_message_of_the_protocol_before_the_last_public_key_is_ignored(protocol: str) -> None:
    """No honest role sends one, since it takes part only after it has read all keys on the board, whose order is the
    same for everybody. So every role ignores the message, and the run continues as if it had not been posted."""
    run = run_of(protocol)
    if not run.cast.made.study.uses_key:
        pytest.skip("this protocol has no key")
    for name, own in by_role(run).items():
        place = max(number for number, call in enumerate(own) if call.entry.kind is Kind.PUBLIC_KEY)
        role, last_key, after = run.role(name), own[place], own[place + 1]
        early = role.receive(last_key.state, [after.entry])
        assert changes_nothing(last_key.state, early), (name, after.entry.kind)


def test_every_state_is_stored_and_restored(protocol: str) -> None:
    run = run_of(protocol)
    for call in run.calls:
        stored = encode(call.step.state)
        assert encode(decode(stored)) == stored
        assert decode(stored) == call.step.state, call.role


def records(parts: Iterable[object]) -> Iterator[object]:
    """Yield the dataclasses among some values, and those in their fields: a field may hide what another shows."""
    for part in parts:
        if is_dataclass(part):
            yield part
            yield from records(getattr(part, one.name) for one in fields(part))


def test_no_state_or_message_shows_a_long_value(protocol: str) -> None:
    """A `repr` ends up in logs: of vectors, shares, masks, ciphertexts, proofs and nonces it has nothing."""
    for call in run_of(protocol).calls:
        for part in records((call.state, call.step.state, call.entry, *call.step.posts)):
            assert LONG_VALUE.search(text := repr(part)) is None, (call.role, type(part).__name__, text[:300])


def test_what_a_role_does_once_is_in_its_store(protocol: str) -> None:
    """So that it does not do it again in another round, even if its state is lost. A ballot with a share of the noise
    may be sent in another round, at another cost."""
    run = run_of(protocol)
    noisy = protocol_of(protocol) not in SENT_ONCE
    owners = {name for name in run.cast.names if not (noisy and name.startswith("party"))}
    assert {name for name, store in run.stores.items() if list(store.items(f"once {name}"))} == owners
