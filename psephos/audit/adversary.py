"""Adversarial roles: what takes the place of honest roles in a run (`roles=` of every simulation, `replace_roles`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from psephos.protocol.roles import BOARD, DelegatingRole, Entry, Post, Role, Step
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind

Change = Callable[[Post, Sequence[Entry]], Iterable[Post]]
"""(a message that the honest role sends, what it has received) -> the messages that are sent in its place."""

Replacements = Mapping[str, Callable[[Role], Role]]
"""Name of a role -> function that makes its replacement from the honest role."""


@storable
@dataclass(frozen=True)
class TamperingState:
    """State of a `Tampering`: of the honest role, all entries received, and whether `idle` has returned messages."""

    inner: Any
    seen: tuple[Entry, ...] = ()
    idle_sent: bool = False


class Tampering(DelegatingRole):
    """An adversarial role that does what an honest role does, except for what a subclass overrides.

    `honest` is that role, with its keys and data; `also_reads` are kinds of messages that it reads on the board in
    addition. No subclass is needed where a function changes the messages: `Tampering(honest, change)`. What it has
    received so far is the argument `seen`.

        class Mute(Tampering):
            def send(self, post, seen):
                return []

        psephos.simulate(X, y, roles={"holder 1": Mute}, ...)
    """

    also_reads: frozenset[Kind] = frozenset()

    def __init__(self, honest: Role, change: Change | None = None) -> None:
        super().__init__(honest)
        self.honest, self.reads = honest, honest.reads | self.also_reads
        self._change = change

    def send(self, post: Post, seen: Sequence[Entry]) -> Iterable[Post]:
        """Return the messages, if any, that are sent in place of one; `seen`: all entries received so far."""
        return [post] if self._change is None else self._change(post, seen)

    def deliver(self, entry: Entry) -> Iterable[Entry]:
        """Return the messages, if any, that the honest role receives in place of one that arrived."""
        return [entry]

    def idle(self, seen: Sequence[Entry]) -> Iterable[Post]:
        """Return messages to send, once, when no message is on its way and the honest role has nothing to send."""
        return []

    def observe(self, step: Step) -> None:
        """Observe a step of the honest role, before its messages are changed."""

    def unwrap(self, state: TamperingState) -> Any:
        return state.inner

    def wrap(self, state: TamperingState | None, step: Step) -> Step:
        self.observe(step)
        before = TamperingState(None) if state is None else state
        posts = tuple(sent for post in step.posts for sent in self.send(post, before.seen))
        return replace(step, state=replace(before, inner=step.state), posts=posts)

    def receive(self, state: TamperingState, entries: Sequence[Entry]) -> Step:
        state = replace(state, seen=(*state.seen, *entries))
        changed = [other for entry in entries if self._for_honest(entry) for other in self.deliver(entry)]
        return super().receive(state, changed) if changed else Step(state)

    def on_idle(self, state: TamperingState) -> Step | None:
        step = super().on_idle(state)
        if step is not None:
            return step
        posts = () if state.idle_sent else tuple(self.idle(state.seen))
        return Step(replace(state, idle_sent=True), posts) if posts else None

    def _for_honest(self, entry: Entry) -> bool:
        return entry.receiver != BOARD or not any(entry.is_a(kind) for kind in self.also_reads - self.honest.reads)


class ScriptedRole(Role):
    """An adversarial role that sends given messages when the run starts and ignores what it receives."""

    def __init__(self, name: str, *messages: bytes, to: str = BOARD) -> None:
        self.name, self._posts = name, tuple(Post(to, data, "sent") for data in messages)

    def start(self) -> Step:
        return Step(None, self._posts)

    def receive(self, state: Any, entries: Sequence[Entry]) -> Step:
        return Step(None)


def tampering(change: Change, *names: str) -> Replacements:
    """Return replacements of the named roles that all apply the same change to what they send."""
    return dict.fromkeys(names, partial(Tampering, change=change))


def is_of_kind(post: Post, kind: Kind) -> bool:
    """Return whether a message that is to be sent is of a kind."""
    return Entry(0, "", "", post.data).is_a(kind)
