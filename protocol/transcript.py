"""What happened in a run: who sent what to whom, and each role's view of it.

A role's *view* is its inputs, its coin tosses and every message it received; it is what the security analysis works
on, and it holds secrets. A transcript therefore keeps digests and sizes only, unless it is asked for the secrets by
name; a report sees nothing but the redacted form either way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.randomness import SYSTEM, Randomness, RecordedRandomness

BOARD = "board"
"""The receiver of what is public: every role sees it."""


@dataclass(frozen=True, slots=True)
class SentMessage:
    """One message as it travelled.

    Attributes:
        phase: the part of the protocol it belongs to.
        sender, receiver: roles; the receiver may be the board.
        kind: the message's type.
        size: bytes.
        digest: SHA-256 of the bytes, hexadecimal.
        data: the bytes themselves; None in a redacted transcript.
    """

    phase: str
    sender: str
    receiver: str
    kind: str
    size: int
    digest: str
    data: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class View:
    """Everything one role saw. A secret."""

    role: str
    inputs: dict[str, Any] = field(repr=False)
    tape: bytes = field(repr=False)
    received: tuple[SentMessage, ...] = field(repr=False)


class Transcript:
    """Watches a run."""

    def __init__(self, *, secrets: bool = False) -> None:
        """`secrets` keeps inputs, coin tosses and message bytes as well: for the security analysis."""
        self.keeps_secrets = secrets
        self.messages: list[SentMessage] = []
        self.roles: set[str] = set()
        """Who took part in the runs that it watched."""
        self._inputs: dict[str, dict[str, Any]] = {}
        self._coins: dict[str, RecordedRandomness] = {}

    def record(self, phase: str, sender: str, receiver: str, kind: str, data: bytes) -> bytes:
        """Note a message and pass it on."""
        digest = hashlib.sha256(data).hexdigest()
        kept = data if self.keeps_secrets else None
        self.messages.append(SentMessage(phase, sender, receiver, kind, len(data), digest, kept))
        return data

    def record_input(self, role: str, name: str, value: Any) -> None:
        """Note a role's private input; nothing of its value is kept unless secrets are."""
        self._inputs.setdefault(role, {})[name] = value if self.keeps_secrets else None

    def coins(self, role: str, source: Randomness = SYSTEM) -> Randomness:
        """A role's randomness, recorded when secrets are kept."""
        if not self.keeps_secrets:
            return source
        return self._coins.setdefault(role, RecordedRandomness(source))

    def extend(self, messages: Sequence[SentMessage]) -> None:
        """Take in the messages that another process of the same run noted."""
        self.messages.extend(messages)

    def view(self, role: str) -> View:
        """A role's view; raises InvalidParameter when the transcript kept no secrets, or there is no such role."""
        if not self.keeps_secrets:
            raise InvalidParameter("this transcript is redacted; record with secrets=True to look at views")
        known = {*self.roles, *self._inputs, *self._coins, *(m.sender for m in self.messages)}
        if role not in known:
            raise InvalidParameter(f"no {role} took part in this run; there were {', '.join(sorted(known))}")
        received = tuple(m for m in self.messages if m.receiver in (role, BOARD))
        coins = self._coins.get(role)
        return View(role, dict(self._inputs.get(role, {})), coins.tape() if coins else b"", received)

    def redacted(self) -> list[dict[str, str | int]]:
        """The messages without their bytes, ready for JSON."""
        return [
            {"phase": m.phase, "from": m.sender, "to": m.receiver, "kind": m.kind, "bytes": m.size, "sha256": m.digest}
            for m in self.messages
        ]

    def __repr__(self) -> str:
        return f"<Transcript of {len(self.messages)} messages, {'with secrets' if self.keeps_secrets else 'redacted'}>"
