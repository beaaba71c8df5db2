"""Roles that do not keep to the protocol, made from honest ones (`roles=` of the simulations)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from psephos.audit import Adversary
from psephos.protocol.roles import Entry, Post, Role

Change = Callable[[str, Post], Iterable[Post]]
"""(sender, what it would send) -> what it sends instead: nothing, something else, or it twice."""


def tampering(change: Change, *names: str) -> dict[str, Callable[[Role], Role]]:
    """Puppets for `roles=`: each of the named ones, with one change."""

    class Tampering(Adversary):
        def send(self, post: Post, seen: Sequence[Entry]) -> Iterable[Post]:
            return change(self.name, post)

    return dict.fromkeys(names, Tampering)
