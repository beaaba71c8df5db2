"""What a role does unless it says otherwise, and a machine's table to the letter: what waits, for how long, in what
order it comes up again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from psephos.protocol.driver import Driver
from psephos.protocol.errors import JournalError, MessageError, PsephosError, UnexpectedMessageError
from psephos.protocol.roles import BOARD, Entry, Machine, Missing, Post, Role, Step, _Held, gathers, takes
from psephos.protocol.wire import HEADER_BYTES, Kind, frame

SESSION = b"s" * 32


class Plain(Role):
    """Says nothing about itself."""

    name = "plain"

    def start(self) -> Step:
        return Step("begun")

    def receive(self, state: str, entries: Sequence[Entry]) -> Step:
        return Step(state)


def test_what_a_role_is_that_says_nothing_about_itself() -> None:
    role = Plain()
    assert [role.on_idle(1), role.awaits(1), role.result(1), role.reads] == [None, None, None, frozenset()]
    assert [role.is_ready(1), role.done(1), role.listens(1)] == [False, False, True]
    assert repr(role) == "<Plain plain>"
    assert Driver([role]).run() == Driver([]).run() == {}
    assert (Post("b", b"").phase, Post("b", b"").secret) == ("", True)
    assert str(Missing(Kind.SIZE_SHARE, ("a", "b"))) == "the size share of a, b"


class Bare(Machine):
    """A table without lines, and nothing besides."""

    name = "bare"

    def _start(self) -> Step:
        return Step(1)


def test_what_a_machine_is_that_says_nothing_about_itself() -> None:
    role, state = Bare(), Bare().start().state
    assert [role.on_idle(state), role.awaits(state), role.result(state), role.due(1), role.table] == [None] * 4 + [()]
    assert [role.is_ready(state), role.done(state), role.listens(state), role.ended(1)] == [False, False, True, False]


# -- a machine


@dataclass(frozen=True)
class First:
    """Two kinds are gathered, in any order."""

    said: tuple[str, ...] = ()


@dataclass(frozen=True)
class Second:
    """Results come one by one, until somebody closes."""

    said: tuple[str, ...]


@dataclass(frozen=True)
class Last:
    """Ballots come in a row."""

    said: tuple[str, ...]


@dataclass(frozen=True)
class Nowhere:
    """In no line of the table."""

    said: tuple[str, ...] = ()


BOTH = ("a", "b")


class Clerk(Machine):
    """Notes what it is told, in the order in which it uses it."""

    name = "clerk"

    def _start(self) -> Step:
        return Step(First())

    @gathers(First, Kind.PUBLIC_KEY, lambda self, state: BOTH)
    def keys(self, state: First, messages: Mapping[str, bytes]) -> Step:
        return Step(First((*state.said, f"keys of {', '.join(messages)}")), (Post(BOARD, b"", "keys"),))

    @gathers(First, Kind.JOINED, lambda self, state: BOTH if state.said is not None else ())
    def join(self, state: First, messages: Mapping[str, bytes]) -> Step:
        return Step(Second((*state.said, f"joined {', '.join(messages)}")), (Post(BOARD, b"", "joined"),))

    @takes(Second, Kind.RESULT)
    def note(self, state: Second, entry: Entry) -> Step:
        if entry.sender == "broken":
            raise JournalError("no room")
        if body(entry) == b"lie":
            raise MessageError("a lie")
        return Step(Second((*state.said, entry.sender)), (Post(BOARD, entry.data, "noted"),))

    @gathers(Second, Kind.CLOSE, lambda self, state: BOTH)
    def close(self, state: Second, messages: Mapping[str, bytes]) -> Step:
        return Step(Last(state.said))

    @takes(Last, Kind.BALLOT, batch=True)
    def count(self, state: Last, entries: tuple[Entry, ...]) -> Step:
        if any(body(entry) == b"lie" for entry in entries):
            raise MessageError("a lie")
        return Step(Last((*state.said, "".join(entry.sender for entry in entries))))

    def admit(self, entry: Entry) -> None:
        if body(entry) == b"lie":
            raise MessageError("a lie")

    def _on_idle(self, state: Any) -> Step | None:
        if isinstance(state, First):
            return Step(Second((*state.said, "hushed")), (Post(BOARD, b"", "hushed"),))
        return Step(Second((*state.said, "hushed"))) if isinstance(state, Second) else None

    def due(self, state: Any) -> Kind | None:
        return Kind.PUBLIC_KEY if state == First() else None

    def ended(self, state: Any) -> bool:
        return bool("over" in state.said)

    def _is_ready(self, state: Any) -> bool:
        return isinstance(state, Second)

    def _result(self, state: Any) -> Any:
        return state.said if isinstance(state, Last) else None


def body(entry: Entry) -> bytes:
    return entry.data[HEADER_BYTES:]


_number = 0


def told(sender: str, kind: Kind, content: bytes = b"") -> Entry:
    global _number
    _number += 1
    return Entry(_number, sender, "clerk", frame(kind, SESSION, content))


def hears(state: Any, *entries: Entry) -> Step:
    """The whole step; nothing was refused."""
    step = Clerk().receive(state, entries)
    assert step.refused == ()
    return step


def refused(state: Any, entry: Entry, match: str, error: type[PsephosError] = UnexpectedMessageError) -> None:
    """That the one message is refused, changes nothing and says nothing."""
    step = Clerk().receive(state, [entry])
    (refusal,) = step.refused
    assert (refusal.entry, step.state, step.posts) == (entry, state, ())
    with pytest.raises(error, match=match):
        raise refusal.error


START = Clerk().start().state
JOINED = [told(name, Kind.JOINED) for name in BOTH]
SECOND = hears(START, *JOINED).state
CLOSED = [told(name, Kind.CLOSE) for name in BOTH]
LAST = hears(SECOND, *CLOSED).state


def test_all_that_several_messages_come_to_is_kept_in_order() -> None:
    """What waited comes up before what came with the message that it waited for, and no second time."""
    waiting = hears(START, told("x", Kind.RESULT), told("y", Kind.RESULT), *CLOSED).state
    assert [entry.sender for entry in waiting.early] == ["x", "y", "a", "b"]
    step = Clerk().receive(
        waiting,
        [told("c", Kind.JOINED), *JOINED, told("z", Kind.RESULT), told("p", Kind.BALLOT), told("q", Kind.BALLOT)],
    )
    assert [(str(refusal.error), refusal.entry.sender) for refusal in step.refused] == [
        ("clerk: a joined from c, who has none to send", "c"),
        ("clerk: a result from z came out of order, or to somebody who takes none", "z"),
    ]
    assert [post.phase for post in step.posts] == ["joined", "noted", "noted"]
    assert (step.state.early, step.state.arrived) == ((), ())
    assert Clerk().result(step.state) == ("joined a, b", "x", "y", "pq")
    assert hears(step.state, told("r", Kind.BALLOT)).state.state.said[-1] == "r"


def test_what_is_gathered_is_used_in_the_order_of_those_who_send() -> None:
    second, first = told("b", Kind.PUBLIC_KEY), told("a", Kind.PUBLIC_KEY)
    one = hears(START, JOINED[0], second).state
    assert one.arrived == (JOINED[0], second)
    refused(one, second, "a public key from b came twice: a replay")
    refused(one, told("c", Kind.PUBLIC_KEY), "a public key from c, who has none to send")
    refused(one, told("a", Kind.PUBLIC_KEY, b"lie"), "a lie", MessageError)
    keys = hears(one, first)
    assert keys.state.state == First(("keys of a, b",))
    assert keys.state.arrived == (JOINED[0],), "of the other kind, what came stays"
    assert hears(keys.state, JOINED[1]).state.state.said == ("keys of a, b", "joined a, b")
    assert hears(keys.state, JOINED[1]).state.arrived == ()
    assert hears(START, first, *JOINED).state.arrived == (), "nothing for a state that is left"


def test_who_is_waited_for() -> None:
    assert Clerk().awaits(START) == Missing(Kind.PUBLIC_KEY, BOTH), "what is due"
    one = hears(START, JOINED[1], told("a", Kind.PUBLIC_KEY)).state
    assert Clerk().awaits(one) == Missing(Kind.PUBLIC_KEY, ("b",))
    keys = hears(one, told("b", Kind.PUBLIC_KEY)).state
    assert Clerk().awaits(keys) == Missing(Kind.JOINED, ("a",)), "otherwise its last line"
    assert Clerk().awaits(SECOND) == Missing(Kind.CLOSE, BOTH)
    assert Clerk().awaits(LAST) is None
    assert [Clerk().is_ready(state) for state in (START, SECOND, LAST)] == [False, True, False]
    assert [Clerk().result(state) for state in (START, SECOND, LAST)] == [None, None, ("joined a, b",)]
    assert [Clerk().done(state) for state in (START, SECOND, LAST)] == [False, False, True]


def test_how_long_a_message_may_be_that_is_kept_until_it_is_due() -> None:
    room = (1 << 16) - HEADER_BYTES
    long = told("x", Kind.RESULT, bytes(room))
    assert hears(START, long).state.early == (long,)
    refused(START, told("x", Kind.RESULT, bytes(room + 1)), "too long to be kept")
    assert len(hears(START, told("a", Kind.CLOSE, bytes(room + 1))).state.early) == 1, "senders are named"
    kept = hears(START, long, told("x", Kind.CLOSE), told("y", Kind.RESULT)).state
    refused(kept, told("x", Kind.RESULT), "a result from x came twice, before it was due")


def test_what_no_later_state_takes_is_refused() -> None:
    refused(SECOND, JOINED[0], "a joined from a came out of order")
    refused(START, told("a", Kind.OPPONENTS), "out of order, or to somebody who takes none")
    nowhere = _Held(Nowhere())
    for kind in (Kind.JOINED, Kind.BALLOT):
        refused(nowhere, told("a", kind), "out of order")


def test_a_row_is_refused_whole_in_the_name_of_its_last() -> None:
    row = [told("p", Kind.BALLOT), told("q", Kind.BALLOT, b"lie"), told("r", Kind.BALLOT)]
    step = Clerk().receive(LAST, [*row, told("a", Kind.CLOSE), told("s", Kind.BALLOT)])
    assert [refusal.entry.sender for refusal in step.refused] == ["r", "a"]
    assert Clerk().result(step.state) == ("joined a, b", "s")


def test_a_store_that_fails_is_nobodys_refusal() -> None:
    with pytest.raises(JournalError, match="no room"):
        Clerk().receive(SECOND, [told("broken", Kind.RESULT)])


def test_nothing_is_read_after_the_end() -> None:
    step = hears(SECOND, told("over", Kind.RESULT), told("x", Kind.RESULT), told("y", Kind.JOINED))
    assert step.state.state.said == ("joined a, b", "over")


def test_the_quiet_brings_up_what_waited() -> None:
    """What comes for a state that is left goes with it; for one that stays, it stays."""
    before = hears(
        START, JOINED[0], told("z", Kind.RESULT, b"lie"), told("x", Kind.RESULT), told("y", Kind.BALLOT)
    ).state
    step = Clerk().on_idle(before)
    assert step is not None
    assert [refusal.entry.sender for refusal in step.refused] == ["z"]
    assert [post.phase for post in step.posts] == ["hushed", "noted"]
    assert (step.state.state, step.state.arrived) == (Second(("hushed", "x")), ())
    assert [entry.sender for entry in step.state.early] == ["y"]
    one = hears(step.state, CLOSED[0]).state
    again = Clerk().on_idle(one)
    assert again is not None
    assert again.state.state.said == ("hushed", "x", "hushed")
    assert (again.state.early, again.state.arrived) == (step.state.early, (CLOSED[0],))
    assert Clerk().on_idle(LAST) is None
