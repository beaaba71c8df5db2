"""`Role`, `DelegatingRole` and `Machine`: the defaults, and which messages a machine uses, keeps and refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from psephos.protocol.errors import JournalError, MessageError, PsephosError, UnexpectedMessageError
from psephos.protocol.roles import (
    BOARD,
    Entry,
    Machine,
    MachineState,
    MissingMessages,
    Post,
    Step,
    gathers,
    takes,
)
from psephos.protocol.wire import HEADER_BYTES, Kind, frame

SESSION = b"s" * 32


# -- a role that delegates


# -- a machine


@dataclass(frozen=True)
class First:
    """Gathers two kinds of messages, in any order."""

    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Second:
    """Takes results one by one, and gathers closes."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class Last:
    """Takes ballots in batches."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class Unlisted:
    """A state without rules."""

    words: tuple[str, ...] = ()


BOTH = ("a", "b")


class Clerk(Machine):
    """Records the messages in the order in which it uses them."""

    name = "clerk"

    def _start(self) -> Step:
        return Step(First())

    @gathers(First, Kind.PUBLIC_KEY, lambda self, state: BOTH)
    def keys(self, state: First, messages: Mapping[str, bytes]) -> Step:
        return Step(First((*state.words, f"keys of {', '.join(messages)}")), (Post(BOARD, b"", "keys"),))

    @gathers(First, Kind.JOINED, lambda self, state: BOTH if state.words is not None else ())
    def join(self, state: First, messages: Mapping[str, bytes]) -> Step:
        return Step(Second((*state.words, f"joined {', '.join(messages)}")), (Post(BOARD, b"", "joined"),))

    @takes(Second, Kind.RESULT)
    def note(self, state: Second, entry: Entry) -> Step:
        if entry.sender == "broken":
            raise JournalError("no room")
        if body(entry) == b"lie":
            raise MessageError("a lie")
        return Step(Second((*state.words, entry.sender)), (Post(BOARD, entry.data, "noted"),))

    @gathers(Second, Kind.CLOSE, lambda self, state: BOTH)
    def close(self, state: Second, messages: Mapping[str, bytes]) -> Step:
        return Step(Last(state.words))

    @takes(Last, Kind.BALLOT, batch=True)
    def count(self, state: Last, entries: tuple[Entry, ...]) -> Step:
        if any(body(entry) == b"lie" for entry in entries):
            raise MessageError("a lie")
        return Step(Last((*state.words, "".join(entry.sender for entry in entries))))

    def check_message(self, entry: Entry) -> None:
        if body(entry) == b"lie":
            raise MessageError("a lie")

    def _on_idle(self, state: Any) -> Step | None:
        if isinstance(state, First):
            return Step(Second((*state.words, "idle")), (Post(BOARD, b"", "idle"),))
        return Step(Second((*state.words, "idle"))) if isinstance(state, Second) else None

    def due_kind(self, state: Any) -> Kind | None:
        return Kind.PUBLIC_KEY if state == First() else None

    def is_over(self, state: Any) -> bool:
        return bool("over" in state.words)

    def _is_ready(self, state: Any) -> bool:
        return isinstance(state, Second)

    def _result(self, state: Any) -> Any:
        return state.words if isinstance(state, Last) else None


def body(entry: Entry) -> bytes:
    return entry.data[HEADER_BYTES:]


_number = 0


def message(sender: str, kind: Kind, content: bytes = b"") -> Entry:
    global _number
    _number += 1
    return Entry(_number, sender, "clerk", frame(kind, SESSION, content))


def receives(state: Any, *entries: Entry) -> Step:
    """Return the step; no message was refused."""
    step = Clerk().receive(state, entries)
    assert step.refused == ()
    return step


def refuses(state: Any, entry: Entry, match: str, error: type[PsephosError] = UnexpectedMessageError) -> None:
    """Check that the message is refused, does not change the state, and is not answered."""
    step = Clerk().receive(state, [entry])
    (refusal,) = step.refused
    assert (refusal.entry, step.state, step.posts) == (entry, state, ())
    with pytest.raises(error, match=match):
        raise refusal.error


START = Clerk().start().state
JOINED = [message(name, Kind.JOINED) for name in BOTH]
SECOND = receives(START, *JOINED).state
CLOSED = [message(name, Kind.CLOSE) for name in BOTH]
LAST = receives(SECOND, *CLOSED).state


def test_early_messages_are_used_before_later_ones() -> None:
    """Messages for a later state are used when it is reached, before those that follow, and once only."""
    waiting = receives(START, message("x", Kind.RESULT), message("y", Kind.RESULT), *CLOSED).state
    assert [entry.sender for entry in waiting.early] == ["x", "y", "a", "b"]
    step = Clerk().receive(
        waiting,
        [
            message("c", Kind.JOINED),
            *JOINED,
            message("z", Kind.RESULT),
            message("p", Kind.BALLOT),
            message("q", Kind.BALLOT),
        ],
    )
    assert [refusal.entry.sender for refusal in step.refused] == ["c", "z"]
    assert [type(refusal.error) for refusal in step.refused] == [UnexpectedMessageError] * 2
    assert [post.phase for post in step.posts] == ["joined", "noted", "noted"]
    assert (step.state.early, step.state.arrived) == ((), ())
    assert Clerk().result(step.state) == ("joined a, b", "x", "y", "pq")
    assert receives(step.state, message("r", Kind.BALLOT)).state.state.words[-1] == "r"


def test_gathered_messages_are_in_the_order_of_the_senders() -> None:
    second, first = message("b", Kind.PUBLIC_KEY), message("a", Kind.PUBLIC_KEY)
    one = receives(START, JOINED[0], second).state
    assert one.arrived == (JOINED[0], second)
    refuses(one, second, "a public key from b came twice")
    refuses(one, message("c", Kind.PUBLIC_KEY), "a public key from c")
    refuses(one, message("a", Kind.PUBLIC_KEY, b"lie"), "a lie", MessageError)
    keys = receives(one, first)
    assert keys.state.state == First(("keys of a, b",))
    assert keys.state.arrived == (JOINED[0],), "messages of the other kind are kept"
    assert receives(keys.state, JOINED[1]).state.state.words == ("keys of a, b", "joined a, b")
    assert receives(keys.state, JOINED[1]).state.arrived == ()
    assert receives(START, first, *JOINED).state.arrived == (), "messages for the state before are dropped"


def test_awaited_senders() -> None:
    assert Clerk().awaits(START) == MissingMessages(Kind.PUBLIC_KEY, BOTH), "the due kind"
    one = receives(START, JOINED[1], message("a", Kind.PUBLIC_KEY)).state
    assert Clerk().awaits(one) == MissingMessages(Kind.PUBLIC_KEY, ("b",))
    keys = receives(one, message("b", Kind.PUBLIC_KEY)).state
    assert Clerk().awaits(keys) == MissingMessages(Kind.JOINED, ("a",)), "without a due kind, that of the last rule"
    assert Clerk().awaits(SECOND) == MissingMessages(Kind.CLOSE, BOTH)
    assert Clerk().awaits(LAST) is None
    assert [Clerk().is_ready(state) for state in (START, SECOND, LAST)] == [False, True, False]
    assert [Clerk().result(state) for state in (START, SECOND, LAST)] == [None, None, ("joined a, b",)]
    assert [Clerk().done(state) for state in (START, SECOND, LAST)] == [False, False, True]


def test_only_short_messages_are_kept_until_they_are_due() -> None:
    room = (1 << 16) - HEADER_BYTES
    long = message("x", Kind.RESULT, bytes(room))
    assert receives(START, long).state.early == (long,)
    refuses(START, message("x", Kind.RESULT, bytes(room + 1)), "too long")
    assert len(receives(START, message("a", Kind.CLOSE, bytes(room + 1))).state.early) == 1, "its senders are limited"
    full = receives(START, long, message("x", Kind.CLOSE), message("y", Kind.RESULT)).state
    refuses(full, message("x", Kind.RESULT), "a result from x came twice")


def test_messages_that_no_later_state_handles_are_refused() -> None:
    refuses(SECOND, JOINED[0], "a joined from a came out of order")
    refuses(START, message("a", Kind.OPPONENTS), "from a")
    unlisted = MachineState(Unlisted())
    for kind in (Kind.JOINED, Kind.BALLOT):
        refuses(unlisted, message("a", kind), "out of order")


def test_a_refused_batch_is_attributed_to_its_last_sender() -> None:
    batch = [message("p", Kind.BALLOT), message("q", Kind.BALLOT, b"lie"), message("r", Kind.BALLOT)]
    step = Clerk().receive(LAST, [*batch, message("a", Kind.CLOSE), message("s", Kind.BALLOT)])
    assert [refusal.entry.sender for refusal in step.refused] == ["r", "a"]
    assert Clerk().result(step.state) == ("joined a, b", "s")


def test_a_failing_store_is_not_a_refusal() -> None:
    with pytest.raises(JournalError):
        Clerk().receive(SECOND, [message("broken", Kind.RESULT)])


def test_no_message_is_read_after_the_end() -> None:
    step = receives(SECOND, message("over", Kind.RESULT), message("x", Kind.RESULT), message("y", Kind.JOINED))
    assert step.state.state.words == ("joined a, b", "over")


def test_on_idle_uses_early_messages() -> None:
    """Messages for the state that is left are dropped, those for later states are kept."""
    before = receives(
        START, JOINED[0], message("z", Kind.RESULT, b"lie"), message("x", Kind.RESULT), message("y", Kind.BALLOT)
    ).state
    step = Clerk().on_idle(before)
    assert step is not None
    assert [refusal.entry.sender for refusal in step.refused] == ["z"]
    assert [post.phase for post in step.posts] == ["idle", "noted"]
    assert (step.state.state, step.state.arrived) == (Second(("idle", "x")), ())
    assert [entry.sender for entry in step.state.early] == ["y"]
    one = receives(step.state, CLOSED[0]).state
    again = Clerk().on_idle(one)
    assert again is not None
    assert again.state.state.words == ("idle", "x", "idle")
    assert (again.state.early, again.state.arrived) == (step.state.early, (CLOSED[0],))
    assert Clerk().on_idle(LAST) is None
