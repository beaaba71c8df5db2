"""Adversarial roles: what takes the place of honest roles in a run (`roles=` of every simulation, `driver.replaced`).

* `Tampering` is made from an honest role and changes what that sends or is shown. One that overrides nothing behaves as
  the honest role, and can be used to observe it.
* `ScriptedRole` has no honest role behind it: it sends given messages when the run starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from psephos.protocol.roles import BOARD, DelegatingRole, Entry, Post, Role, Step
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind

__all__ = ["Change", "Replacements", "ScriptedRole", "Tampering", "is_of_kind", "tampering"]

Change = Callable[[Post, Sequence[Entry]], Iterable[Post]]
"""(a message that would leave, what the role has received) -> the messages that leave in its place."""

Replacements = Mapping[str, Callable[[Role], Role]]
"""Name of a role -> what makes its replacement from the honest one."""


@storable
@dataclass(frozen=True)
class TamperingState:
    """State of a `Tampering`: the honest role's, all entries received, and whether `idle` has been asked."""

    inner: Any
    seen: tuple[Entry, ...] = ()
    spoke: bool = False


class Tampering(DelegatingRole):
    """An adversarial role that does what an honest role does, but for what a subclass overrides.

    Attributes:
        honest: the honest role, with its keys and data.
        also_reads: kinds of messages on the board that it reads and the honest role does not.

    A replacement that is a function needs no subclass: `Tampering(honest, change)`. As every role it keeps nothing in
    its attributes between messages; what it has received is the argument `seen`.

        class Mute(Tampering):
            def send(self, post, seen):
                return []

        psephos.simulate(X, y, roles={"holder 1": Mute}, ...)
    """

    also_reads: frozenset[Kind] = frozenset()

    def __init__(self, honest: Role, change: Change | None = None) -> None:
        """
        Args:
            honest: the role to replace; it keeps its name.
            change: what `send` does, where that is not overridden.
        """
        super().__init__(honest)
        self.honest, self.reads = honest, honest.reads | self.also_reads
        self._change = change

    def send(self, post: Post, seen: Sequence[Entry]) -> Iterable[Post]:
        """Return what leaves in place of a message of the honest role: nothing, another one, several."""
        return [post] if self._change is None else self._change(post, seen)

    def hear(self, entry: Entry) -> Iterable[Entry]:
        """Return what the honest role is shown in place of a message that came."""
        return [entry]

    def idle(self, seen: Sequence[Entry]) -> Iterable[Post]:
        """Return messages of its own, sent once, when neither the honest role nor anybody else has anything to send.

        They are not passed to `send`.
        """
        return []

    def observe(self, step: Step) -> None:
        """Look at a step of the honest role, before its messages are changed."""

    def unwrap(self, state: TamperingState) -> Any:
        return state.inner

    def wrap(self, state: TamperingState | None, step: Step) -> Step:
        self.observe(step)
        before = TamperingState(None) if state is None else state
        posts = tuple(sent for post in step.posts for sent in self.send(post, before.seen))
        return replace(step, state=replace(before, inner=step.state), posts=posts)

    def receive(self, state: TamperingState, entries: Sequence[Entry]) -> Step:
        state = replace(state, seen=(*state.seen, *entries))
        shown = [heard for entry in entries if self._for_honest(entry) for heard in self.hear(entry)]
        return super().receive(state, shown) if shown else Step(state)

    def on_idle(self, state: TamperingState) -> Step | None:
        step = super().on_idle(state)
        if step is not None:
            return step
        posts = () if state.spoke else tuple(self.idle(state.seen))
        return Step(replace(state, spoke=True), posts) if posts else None

    def _for_honest(self, entry: Entry) -> bool:
        return entry.receiver != BOARD or not any(entry.is_a(kind) for kind in self.also_reads - self.honest.reads)


class ScriptedRole(Role):
    """An adversarial role that sends given messages when the run starts and ignores what it receives."""

    def __init__(self, name: str, *messages: bytes, to: str = BOARD) -> None:
        """
        Args:
            name: of the role.
            messages: what it sends, in this order.
            to: who receives them.
        """
        self.name, self._posts = name, tuple(Post(to, data, "sent") for data in messages)

    def start(self) -> Step:
        return Step(None, self._posts)

    def receive(self, state: Any, entries: Sequence[Entry]) -> Step:
        return Step(None)


def tampering(change: Change, *names: str) -> Replacements:
    """Return replacements of the named roles that all apply one change to what they send."""
    return dict.fromkeys(names, partial(Tampering, change=change))


def is_of_kind(post: Post, kind: Kind) -> bool:
    """Whether a message to be sent is of a kind."""
    return Entry(0, "", "", post.data).is_a(kind)
