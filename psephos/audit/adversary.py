"""A role that does not keep to the protocol, made from the honest one: for `roles=` of every simulation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from psephos.protocol.roles import BOARD, Entry, Missing, Post, Role, Step
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind

__all__ = ["Adversary"]


@storable
@dataclass(frozen=True)
class Posing:
    """The honest role's state, everything that was heard, and whether it has spoken up."""

    inner: Any
    seen: tuple[Entry, ...] = ()
    spoke: bool = False


class Adversary(Role):
    """Does what the honest role does, but for the methods that a subclass overrides.

        class Mute(Adversary):
            def send(self, post, seen):
                return []

        psephos.simulate(X, y, roles={"holder 1": Mute}, ...)

    What it knows is in `honest` (its keys and data) and in what it has `seen`; like every role it changes no attribute.
    """

    also_reads: frozenset[Kind] = frozenset()
    """What it looks at on the board that the honest role does not read."""

    def __init__(self, honest: Role) -> None:
        self.honest, self.name, self.reads = honest, honest.name, honest.reads | self.also_reads

    def send(self, post: Post, seen: Sequence[Entry]) -> Iterable[Post]:
        """In place of what the honest role would send: nothing, another message, several; `post` itself by default."""
        return [post]

    def hear(self, entry: Entry) -> Iterable[Entry]:
        """What the honest role is shown in place of a message that came; `entry` itself by default."""
        return [entry]

    def idle(self, seen: Sequence[Entry]) -> Iterable[Post]:
        """What it sends of its own, once, when the honest role has nothing to say and it is quiet; nothing by default.

        What is sent here is not shown to `send`.
        """
        return []

    def start(self) -> Step:
        return self._posing(Posing(None), self.honest.start())

    def receive(self, state: Posing, entries: Sequence[Entry]) -> Step:
        state = replace(state, seen=(*state.seen, *entries))
        shown = [heard for entry in entries if self._for_honest(entry) for heard in self.hear(entry)]
        return self._posing(state, self.honest.receive(state.inner, shown)) if shown else Step(state)

    def on_idle(self, state: Posing) -> Step | None:
        step = self.honest.on_idle(state.inner)
        if step is not None:
            return self._posing(state, step)
        posts = () if state.spoke else tuple(self.idle(state.seen))
        return Step(replace(state, spoke=True), posts) if posts else None

    def awaits(self, state: Posing) -> Missing | None:
        return self.honest.awaits(state.inner)

    def result(self, state: Posing) -> Any:
        return self.honest.result(state.inner)

    def _posing(self, state: Posing, step: Step) -> Step:
        posts = tuple(sent for post in step.posts for sent in self.send(post, state.seen))
        return replace(step, state=replace(state, inner=step.state), posts=posts)

    def _for_honest(self, entry: Entry) -> bool:
        return entry.receiver != BOARD or not any(entry.is_a(kind) for kind in self.also_reads - self.honest.reads)
