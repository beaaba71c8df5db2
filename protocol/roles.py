"""What a role is: a state machine without input, output, clock or memory of its own.

A role is given its terms, its keys and its data when it is made. From then on `start`, `receive` and `on_idle` turn a
state, and the messages that came, into the next state and the messages to send; a state is a value (a frozen record)
that can be written down, and nothing else changes. So one role runs unchanged in a simulation, in a test, behind a
network, and again after a crash, and any role can be replaced by one that lies (`psephos.protocol.driver`).

Most roles are a `Machine`: one class that reads from its first message to its last, whose methods say in which state
they take which message. What the table does not name is refused by name. No paper behind it; docs/design.md, section 2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from psephos.protocol.errors import JournalError, MessageError, PsephosError, UnexpectedMessageError
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind, kind_of

__all__ = ["BOARD", "Entry", "Machine", "Missing", "Post", "Refusal", "Role", "Rule", "Step", "gathers", "takes"]

BOARD = "board"
"""The receiver of what everybody may read."""


@dataclass(frozen=True)
class Post:
    """A message that a role sends.

    Attributes:
        receiver: `BOARD`, or the name of the one role that may read it.
        data: what travels.
        phase: the part of the protocol it belongs to, for transcripts and timings.
        secret: whether nobody but the receiver may read it, where it has one.
    """

    receiver: str
    data: bytes = field(repr=False)
    phase: str = ""
    secret: bool = True


@storable
@dataclass(frozen=True)
class Entry:
    """A message that was sent: the order of their numbers is the same for everybody."""

    number: int
    sender: str
    receiver: str
    data: bytes = field(repr=False)

    @property
    def kind(self) -> Kind:
        """Raises MessageError for bytes that are no message of this version."""
        return kind_of(self.data)

    def is_a(self, kind: Kind) -> bool:
        """Whether it is a message, and of that kind."""
        try:
            return self.kind is kind
        except MessageError:
            return False


@dataclass(frozen=True)
class Refusal:
    """A message that a role did not take, and why."""

    entry: Entry
    error: PsephosError


@dataclass(frozen=True)
class Step:
    """What a role came to: its next state, what it sends, and what it refused."""

    state: Any
    posts: tuple[Post, ...] = ()
    refused: tuple[Refusal, ...] = ()


@dataclass(frozen=True)
class Missing:
    """Messages that somebody waits for."""

    kind: Kind
    senders: tuple[str, ...]

    def __str__(self) -> str:
        return f"the {self.kind.title} of {', '.join(self.senders)}"


class Role(ABC):
    """One participant of a protocol, by whatever it does when messages come.

    Attributes:
        name: "curator", "party 3", "holder 1", ...; unique in a run.
        reads: what it takes from the board. What is addressed to it reaches it anyway.
    """

    name: str
    reads: frozenset[Kind] = frozenset()

    @abstractmethod
    def start(self) -> Step:
        """Its first state and messages."""

    @abstractmethod
    def receive(self, state: Any, entries: Sequence[Entry]) -> Step:
        """What it does with messages, in the order of their numbers. A message that is refused changes nothing.

        Raises JournalError when its own store fails: nothing has happened, and it is started again from its store.
        """

    def on_idle(self, state: Any) -> Step | None:
        """What it does when nothing more is on its way (a deadline, in the world); None for nothing."""
        return None

    def is_ready(self, state: Any) -> bool:
        """Whether all that it waits for until it is quiet is there, so that there is nothing to wait for."""
        return False

    def done(self, state: Any) -> bool:
        """Whether it has come to its result and goes no further."""
        return self.result(state) is not None

    def listens(self, state: Any) -> bool:
        """Whether secret messages to it may still come; afterwards the key to them is forgotten."""
        return True

    def awaits(self, state: Any) -> Missing | None:
        """What it cannot go on without; None when it is done or can be left as it is."""
        return None

    def result(self, state: Any) -> Any:
        """What it came to; None when that is nothing, or not yet."""
        return None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


# -- roles as one table


@dataclass(frozen=True)
class Rule:
    """One line of a machine's table: in states of this type, messages of this kind go to this method."""

    state: type
    kind: Kind
    method: str = ""
    senders: Callable[[Any, Any], Iterable[str]] | None = None
    batch: bool = False


_LONGEST_EARLY = 1 << 16
"""Bytes of a message that is kept until it is due, where anybody may send it: state is written down at every step."""


@storable
@dataclass(frozen=True)
class _Held:
    """A machine's state, with the messages that it has not used yet."""

    state: Any
    arrived: tuple[Entry, ...] = ()
    early: tuple[Entry, ...] = ()


Method = TypeVar("Method", bound=Callable[..., Any])


def takes(state: type, kind: Kind, *, batch: bool = False) -> Callable[[Method], Method]:
    """Marks `method(self, state, entry) -> Step` as what happens to each message of this kind in this state.

    With `batch` the method is given all that came in a row, and names the refused ones in its `Step` itself.
    """
    return _ruled(Rule(state, kind, batch=batch))


def gathers(state: type, kind: Kind, senders: Callable[[Any, Any], Iterable[str]]) -> Callable[[Method], Method]:
    """Marks `method(self, state, messages) -> Step` as what happens when one message of this kind has come from each of
    `senders(self, state)`; `messages` are their bytes by sender, in the order of the senders."""
    return _ruled(Rule(state, kind, senders=senders))


def _ruled(rule: Rule) -> Callable[[Method], Method]:
    def mark(method: Method) -> Method:
        rules = getattr(method, "__rules__", ())
        method.__rules__ = (replace(rule, method=method.__name__), *rules)  # type: ignore[attr-defined]
        return method

    return mark


class Machine(Role):
    """A role as a table of states and messages, written as methods marked with `takes` and `gathers`.

    The methods stand in the order of the protocol, and so do the states they name. A message for a later state is kept
    until then (a faster sender's), one of each kind from each sender; a message for an earlier state, a second one, or
    one from somebody who has none to send, is refused with UnexpectedMessageError.
    """

    table: ClassVar[tuple[Rule, ...]] = ()
    """What it takes, line by line, in the order of the protocol."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = tuple(rule for member in vars(cls).values() for rule in getattr(member, "__rules__", ()))
        cls.table = (*cls.table, *own)

    def start(self) -> Step:
        """Return the first state and messages. Subclasses override `_start`."""
        return _wrapped(self._start())

    @abstractmethod
    def _start(self) -> Step:
        """Return the machine's first state and messages."""

    def receive(self, state: _Held, entries: Sequence[Entry]) -> Step:
        """As `Role.receive`, by the table."""
        held, waiting = state, list(entries)
        posts: list[Post] = []
        refused: list[Refusal] = []
        while waiting and not self.ended(held.state):
            run = [waiting.pop(0)]
            try:
                rule = self._rule(held, run[0])
                if rule is None:
                    held = replace(held, early=(*held.early, run[0]))
                    continue
                if rule.batch:
                    while waiting and waiting[0].is_a(rule.kind):
                        run.append(waiting.pop(0))
                step = self._apply(rule, held, run)
            except JournalError:
                raise  # its own store failed, which is nobody's message: refused, that would never be answered
            except PsephosError as error:
                refused.append(Refusal(run[-1], error))
                continue
            posts += step.posts
            refused += step.refused
            if type(step.state.state) is not type(held.state):
                waiting = [*step.state.early, *waiting]
                step = replace(step, state=replace(step.state, early=()))
            held = step.state
        return Step(held, tuple(posts), tuple(refused))

    def on_idle(self, state: _Held) -> Step | None:
        """Advance a machine when nothing more is on its way. Subclasses override `_on_idle`."""
        step = self._on_idle(state.state)
        if step is None:
            return None
        if type(step.state) is type(state.state):
            return replace(step, state=replace(state, state=step.state))
        early = self.receive(_Held(step.state), state.early)
        return replace(early, posts=(*step.posts, *early.posts), refused=(*step.refused, *early.refused))

    def admit(self, entry: Entry) -> None:
        """Raise for one of the messages that are gathered: found only with the last one, it would be the last one's."""

    def _on_idle(self, state: Any) -> Step | None:
        """Return the step to take when nothing more is on its way; None for none."""
        return None

    def is_ready(self, state: _Held) -> bool:
        """Return whether the machine has all that it waits for. Subclasses override `_is_ready`."""
        return self._is_ready(state.state)

    def _is_ready(self, state: Any) -> bool:
        """Return whether everything that the machine waits for has come."""
        return False

    def awaits(self, state: _Held) -> Missing | None:
        """The messages that have not come; of several kinds that a state gathers, those that are `due`."""
        due = self.due(state.state)
        for rule in reversed(self.table):
            if rule.state is type(state.state) and rule.senders is not None and due in (None, rule.kind):
                here = {entry.sender for entry in state.arrived if entry.kind is rule.kind}
                return Missing(rule.kind, tuple(s for s in rule.senders(self, state.state) if s not in here))
        return None

    def ended(self, state: Any) -> bool:
        """Whether nothing that comes matters any more; it is not read then."""
        return False

    def due(self, state: Any) -> Kind | None:
        """Of several kinds that a state gathers, the one it waits for; None for that of its last method."""
        return None

    def result(self, state: _Held) -> Any:
        """Return the machine's result. Subclasses override `_result`."""
        return self._result(state.state)

    def _result(self, state: Any) -> Any:
        """Return the result in this state; None when there is none yet."""
        return None

    def _rule(self, held: _Held, entry: Entry) -> Rule | None:
        """The line that takes this message now; None when a later one does."""
        order = list(dict.fromkeys(rule.state for rule in self.table))
        now = order.index(type(held.state)) if type(held.state) in order else len(order)
        later = False
        for rule in self.table:
            if rule.kind is entry.kind:
                if rule.state is type(held.state):
                    return rule
                later = later or order.index(rule.state) > now
        what = f"a {entry.kind.title} from {entry.sender}"
        if not later:
            raise UnexpectedMessageError(f"{self.name}: {what} came out of order, or to somebody who takes none")
        if len(entry.data) > _LONGEST_EARLY and not any(r.senders for r in self.table if r.kind is entry.kind):
            raise UnexpectedMessageError(f"{self.name}: {what} came before it was due, and is too long to be kept")
        if any((e.sender, e.kind) == (entry.sender, entry.kind) for e in held.early):
            raise UnexpectedMessageError(f"{self.name}: {what} came twice, before it was due")
        return None

    def _apply(self, rule: Rule, held: _Held, run: list[Entry]) -> Step:
        method = getattr(self, rule.method)
        if rule.senders is None:
            return _wrapped(method(held.state, tuple(run) if rule.batch else run[0]), held)
        entry, wanted = run[0], list(rule.senders(self, held.state))
        what = f"a {entry.kind.title} from {entry.sender}"
        if entry.sender not in wanted:
            raise UnexpectedMessageError(f"{self.name}: {what}, who has none to send")
        arrived: Mapping[str, bytes] = {e.sender: e.data for e in held.arrived if e.kind is entry.kind}
        if entry.sender in arrived:
            raise UnexpectedMessageError(f"{self.name}: {what} came twice: a replay")
        self.admit(entry)
        arrived = {**arrived, entry.sender: entry.data}
        if len(arrived) < len(wanted):
            return Step(replace(held, arrived=(*held.arrived, entry)))
        rest = replace(held, arrived=tuple(e for e in held.arrived if e.kind is not entry.kind))
        return _wrapped(method(held.state, {sender: arrived[sender] for sender in wanted}), rest)


def _wrapped(step: Step, held: _Held | None = None) -> Step:
    """A machine's own step as a role's; messages that came for another state stay."""
    same = held is not None and type(held.state) is type(step.state)
    arrived = held.arrived if held is not None and same else ()
    return replace(step, state=_Held(step.state, arrived, () if held is None else held.early))
