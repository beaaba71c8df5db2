"""Roles that do not keep to the protocol, made from honest ones (`roles=` of the simulations)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from psephos.protocol.roles import Entry, Missing, Post, Role, Step

__all__ = ["Change", "Tampering", "tampering"]

Change = Callable[[str, Post], Iterable[Post]]
"""(sender, what it would send) -> what it sends instead: nothing, something else, or it twice."""


class Tampering(Role):
    """An honest role, but for what leaves it."""

    def __init__(self, inner: Role, change: Change) -> None:
        self.inner, self.change = inner, change
        self.name, self.reads = inner.name, inner.reads

    def start(self) -> Step:
        return self._changed(self.inner.start())

    def receive(self, state: Any, entries: Sequence[Entry]) -> Step:
        return self._changed(self.inner.receive(state, entries))

    def quiet(self, state: Any) -> Step | None:
        step = self.inner.quiet(state)
        return None if step is None else self._changed(step)

    def awaits(self, state: Any) -> Missing | None:
        return self.inner.awaits(state)

    def result(self, state: Any) -> Any:
        return self.inner.result(state)

    def _changed(self, step: Step) -> Step:
        return replace(step, posts=tuple(sent for post in step.posts for sent in self.change(self.name, post)))


def tampering(change: Change, *names: str) -> dict[str, Callable[[Role], Role]]:
    """Puppets for `roles=`: each of the named ones, with one change."""
    return {name: lambda honest: Tampering(honest, change) for name in names}
