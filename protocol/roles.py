"""Roles: the participants of a protocol as state machines.

A role does no input or output, reads no clock and changes no attribute: `start`, `receive` and `on_idle` turn a state
and the messages that arrived into a `Step`. Most roles are a `Machine`. docs/design.md, section 2, describes the model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from psephos.protocol.errors import JournalError, MessageError, PsephosError, UnexpectedMessageError
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind, kind_of

BOARD = "board"
"""The receiver of a public message."""


@dataclass(frozen=True)
class Post:
    """A message that a role sends to `BOARD` or to another role, for which a board encrypts it if it is secret."""

    receiver: str
    data: bytes = field(repr=False)
    phase: str = ""
    secret: bool = True


@storable
@dataclass(frozen=True)
class Entry:
    """A message that was sent; `number` is its place in the order that all roles see, from 1."""

    number: int
    sender: str
    receiver: str
    data: bytes = field(repr=False)

    @property
    def kind(self) -> Kind:
        return kind_of(self.data)

    def is_a(self, kind: Kind) -> bool:
        try:
            return self.kind is kind
        except MessageError:
            return False


@dataclass(frozen=True)
class Refusal:
    """A message that a role did not accept, and the reason."""

    entry: Entry
    error: PsephosError


@dataclass(frozen=True)
class Step:
    """The result of one call of a role: its next state, the messages to send and the messages that it refused."""

    state: Any
    posts: tuple[Post, ...] = ()
    refused: tuple[Refusal, ...] = ()


@dataclass(frozen=True)
class MissingMessages:
    """Messages that a role waits for: their kind and the roles that have to send one."""

    kind: Kind
    senders: tuple[str, ...]

    def __str__(self) -> str:
        return f"the {self.kind.title} of {', '.join(self.senders)}"


class Role(ABC):
    """One participant of a protocol.

    Attributes:
        name: "curator", "party 3", "holder 1", ...; unique in a run.
        reads: the kinds of public messages that the role receives. It receives all messages addressed to it as well.
    """

    name: str
    reads: frozenset[Kind] = frozenset()

    @abstractmethod
    def start(self) -> Step:
        """Return the first state and the first messages."""

    @abstractmethod
    def receive(self, state: Any, entries: Sequence[Entry]) -> Step:
        """Handle messages, in the order of their numbers. A refused message does not change the state."""

    def on_idle(self, state: Any) -> Step | None:
        """Return the step to take when no more messages are on their way (in a study: at a deadline), if any."""
        return None

    def is_ready(self, state: Any) -> bool:
        """Return whether every message that the role would wait for until `on_idle` has arrived."""
        return False

    def done(self, state: Any) -> bool:
        """Return whether the role has its result and takes no further step."""
        return self.result(state) is not None

    def listens(self, state: Any) -> bool:
        """Return whether encrypted messages to this role may still arrive. Its decryption key is erased afterwards."""
        return True

    def awaits(self, state: Any) -> MissingMessages | None:
        """Return the messages without which the role cannot continue; None if it is done or need not continue."""
        return None

    def result(self, state: Any) -> Any:
        return None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class PublicReader(Role):
    """A role that takes no part: it judges, as everybody can who reads the board, what the others have sent."""

    @abstractmethod
    def heard(self, state: Any) -> dict[Kind, set[str]]:
        """Return the senders of the messages that were accepted, by kind."""

    @abstractmethod
    def lacks(self, state: Any) -> str:
        """Return why there can be no result yet; empty if there can be."""


class DelegatingRole(Role):
    """A role that passes every call on to `inner`; one whose state contains more overrides `unwrap` and `wrap`."""

    def __init__(self, inner: Role) -> None:
        self.inner, self.name, self.reads = inner, inner.name, inner.reads

    def unwrap(self, state: Any) -> Any:
        return state

    def wrap(self, state: Any, step: Step) -> Step:
        """Turn a step of the inner role into one of this role, whose state was `state`; None for `start`."""
        return step

    def start(self) -> Step:
        return self.wrap(None, self.inner.start())

    def receive(self, state: Any, entries: Sequence[Entry]) -> Step:
        return self.wrap(state, self.inner.receive(self.unwrap(state), entries))

    def on_idle(self, state: Any) -> Step | None:
        step = self.inner.on_idle(self.unwrap(state))
        return None if step is None else self.wrap(state, step)

    def is_ready(self, state: Any) -> bool:
        return self.inner.is_ready(self.unwrap(state))

    def done(self, state: Any) -> bool:
        return self.inner.done(self.unwrap(state))

    def listens(self, state: Any) -> bool:
        return self.inner.listens(self.unwrap(state))

    def awaits(self, state: Any) -> MissingMessages | None:
        return self.inner.awaits(self.unwrap(state))

    def result(self, state: Any) -> Any:
        return self.inner.result(self.unwrap(state))


# -- roles whose transitions are a table


@dataclass(frozen=True)
class Rule:
    """A line of a machine's table (`takes`, `gathers`): a method handles messages of a kind in states of a type."""

    state: type
    kind: Kind
    method: str = ""
    senders: Callable[[Any, Any], Iterable[str]] | None = None
    batch: bool = False


@storable
@dataclass(frozen=True)
class MachineState:
    """A machine's state, with the messages that it has not used yet: those that it gathers, and early ones."""

    state: Any
    arrived: tuple[Entry, ...] = ()
    early: tuple[Entry, ...] = ()


Method = TypeVar("Method", bound=Callable[..., Any])


def takes(state: type, kind: Kind, *, batch: bool = False) -> Callable[[Method], Method]:
    """Mark `method(self, state, entry) -> Step` as the handler of each message of a kind in a type of state.

    With `batch` it is given all messages of this kind that follow one another, as a tuple, and lists those that it
    refuses in its `Step` instead of raising an error.
    """
    return _with_rule(Rule(state, kind, batch=batch))


def gathers(state: type, kind: Kind, senders: Callable[[Any, Any], Iterable[str]]) -> Callable[[Method], Method]:
    """Mark `method(self, state, messages) -> Step` as the handler of one message from each of several senders.

    It is called when the last of them has arrived. `messages` maps each sender to its message's bytes, in the order of
    `senders(machine, state)`.
    """
    return _with_rule(Rule(state, kind, senders=senders))


def _with_rule(rule: Rule) -> Callable[[Method], Method]:
    def mark(method: Method) -> Method:
        rules = getattr(method, "__rules__", ())
        method.__rules__ = (replace(rule, method=method.__name__), *rules)  # type: ignore[attr-defined]
        return method

    return mark


class Machine(Role):
    """A role as a table of states and messages: methods marked with `takes` and `gathers`, in the order of the
    protocol.

    A message for a later state (from a faster sender) is kept until then, one of each kind from each sender. One for an
    earlier state, a second one, or one from a role that has none to send is refused with UnexpectedMessageError.
    Subclasses override the methods with an underscore, which work on the machine's own states.
    """

    table: ClassVar[tuple[Rule, ...]] = ()
    """All rules, in the order of the protocol."""
    longest_early: ClassVar[int] = 1 << 16
    """The longest message, in bytes, that is kept where any role may send one: states are stored at every step."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = tuple(rule for member in vars(cls).values() for rule in getattr(member, "__rules__", ()))
        cls.table = (*cls.table, *own)

    # -- what subclasses override

    @abstractmethod
    def _start(self) -> Step:
        """Return the machine's first state and messages."""

    def _on_idle(self, state: Any) -> Step | None:
        return None

    def _is_ready(self, state: Any) -> bool:
        return False

    def _result(self, state: Any) -> Any:
        return None

    def check_message(self, entry: Entry) -> None:
        """Raise the error of a gathered message as it arrives: later it would be attributed to the last sender."""

    def is_over(self, state: Any) -> bool:
        return False

    def due_kind(self, state: Any) -> Kind | None:
        """Return which of the kinds that a state gathers the machine waits for; None for that of its last method."""
        return None

    # -- the role

    def start(self) -> Step:
        return _wrap(self._start())

    def receive(self, state: MachineState, entries: Sequence[Entry]) -> Step:
        pending = list(entries)
        posts: list[Post] = []
        refused: list[Refusal] = []
        while pending and not self.is_over(state.state):
            batch = [pending.pop(0)]
            try:
                rule = self._find_rule(state, batch[0])
                if rule is None:
                    state = replace(state, early=(*state.early, batch[0]))
                    continue
                if rule.batch:
                    while pending and pending[0].is_a(rule.kind):
                        batch.append(pending.pop(0))
                step = self._apply(rule, state, batch)
            except JournalError:
                # The machine's own store failed. Refusing the message would drop it, and it would never be answered.
                raise
            except PsephosError as error:
                refused.append(Refusal(batch[-1], error))
                continue
            posts += step.posts
            refused += step.refused
            if type(step.state.state) is not type(state.state):
                pending = [*step.state.early, *pending]
                step = replace(step, state=replace(step.state, early=()))
            state = step.state
        return Step(state, tuple(posts), tuple(refused))

    def on_idle(self, state: MachineState) -> Step | None:
        step = self._on_idle(state.state)
        if step is None:
            return None
        if type(step.state) is type(state.state):
            return replace(step, state=replace(state, state=step.state))
        after_early = self.receive(MachineState(step.state), state.early)
        return replace(
            after_early,
            posts=(*step.posts, *after_early.posts),
            refused=(*step.refused, *after_early.refused),
        )

    def is_ready(self, state: MachineState) -> bool:
        return self._is_ready(state.state)

    def awaits(self, state: MachineState) -> MissingMessages | None:
        """Return the missing messages that the state gathers, of `due_kind` where it gathers several kinds."""
        due = self.due_kind(state.state)
        for rule in reversed(self.table):
            if rule.state is type(state.state) and rule.senders is not None and due in (None, rule.kind):
                arrived = {entry.sender for entry in state.arrived if entry.kind is rule.kind}
                senders = rule.senders(self, state.state)
                return MissingMessages(rule.kind, tuple(sender for sender in senders if sender not in arrived))
        return None

    def result(self, state: MachineState) -> Any:
        return self._result(state.state)

    def _find_rule(self, state: MachineState, entry: Entry) -> Rule | None:
        """Return the rule for a message, None for one of a later state; raises UnexpectedMessageError."""
        order = list(dict.fromkeys(rule.state for rule in self.table))
        now = order.index(type(state.state)) if type(state.state) in order else len(order)
        is_for_later = False
        for rule in self.table:
            if rule.kind is entry.kind:
                if rule.state is type(state.state):
                    return rule
                is_for_later = is_for_later or order.index(rule.state) > now
        message = f"{self.name}: a {entry.kind.title} from {entry.sender}"
        if not is_for_later:
            raise UnexpectedMessageError(f"{message} came out of order, or this role does not handle such messages")
        gathered = any(rule.senders for rule in self.table if rule.kind is entry.kind)
        if len(entry.data) > self.longest_early and not gathered:
            raise UnexpectedMessageError(f"{message} came too early and is too long to be kept until it is due")
        if any((other.sender, other.kind) == (entry.sender, entry.kind) for other in state.early):
            raise UnexpectedMessageError(f"{message} came twice before it was due")
        return None

    def _apply(self, rule: Rule, state: MachineState, batch: list[Entry]) -> Step:
        method = getattr(self, rule.method)
        if rule.senders is None:
            return _wrap(method(state.state, tuple(batch) if rule.batch else batch[0]), state)
        entry, senders = batch[0], list(rule.senders(self, state.state))
        message = f"{self.name}: a {entry.kind.title} from {entry.sender}"
        if entry.sender not in senders:
            raise UnexpectedMessageError(f"{message}, which has none to send")
        arrived: Mapping[str, bytes] = {e.sender: e.data for e in state.arrived if e.kind is entry.kind}
        if entry.sender in arrived:
            raise UnexpectedMessageError(f"{message} came twice: it is a replay")
        self.check_message(entry)
        arrived = {**arrived, entry.sender: entry.data}
        if len(arrived) < len(senders):
            return Step(replace(state, arrived=(*state.arrived, entry)))
        others = replace(state, arrived=tuple(e for e in state.arrived if e.kind is not entry.kind))
        return _wrap(method(state.state, {sender: arrived[sender] for sender in senders}), others)


def _wrap(step: Step, before: MachineState | None = None) -> Step:
    early = () if before is None else before.early
    arrived: tuple[Entry, ...] = ()
    if before is not None and type(before.state) is type(step.state):
        arrived = before.arrived
    return replace(step, state=MachineState(step.state, arrived, early))
