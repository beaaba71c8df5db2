"""Transcripts: who sent which message to whom in a run, and each role's view of it.

A role's *view* consists of its inputs, its coin tosses and the messages that it received. A transcript records digests
and sizes only, unless it is constructed with `secrets=True`, for the security analysis.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.randomness import SYSTEM, Randomness, RecordedRandomness
from psephos.protocol.roles import BOARD


@dataclass(frozen=True, slots=True)
class SentMessage:
    """One message that was sent: its phase, roles, type, length in bytes and SHA-256 (hexadecimal).

    `data` has its bytes; None in a redacted transcript.
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
    """Everything that one role saw, secret: private inputs by name, coin tosses, received and public messages."""

    role: str
    inputs: dict[str, Any] = field(repr=False)
    tape: bytes = field(repr=False)
    received: tuple[SentMessage, ...] = field(repr=False)


class Transcript:
    """A record of a run: its messages in order, and the names of the roles that took part."""

    def __init__(self, *, secrets: bool = False) -> None:
        self.keeps_secrets = secrets
        self.messages: list[SentMessage] = []
        self.roles: set[str] = set()
        self._inputs: dict[str, dict[str, Any]] = {}
        self._coins: dict[str, RecordedRandomness] = {}

    def record(self, phase: str, sender: str, receiver: str, kind: str, data: bytes) -> None:
        digest = hashlib.sha256(data).hexdigest()
        recorded_data = data if self.keeps_secrets else None
        self.messages.append(SentMessage(phase, sender, receiver, kind, len(data), digest, recorded_data))

    def record_input(self, role: str, name: str, value: Any) -> None:
        """Record a private input of a role; without secrets, its name only."""
        self._inputs.setdefault(role, {})[name] = value if self.keeps_secrets else None

    def coins(self, role: str, source: Randomness = SYSTEM) -> Randomness:
        """Return a role's randomness, from its first source; it is recorded if the transcript keeps secrets."""
        if not self.keeps_secrets:
            return source
        return self._coins.setdefault(role, RecordedRandomness(source))

    def view(self, role: str) -> View:
        if not self.keeps_secrets:
            raise InvalidParameter("this transcript has no views; construct it with secrets=True")
        known = {*self.roles, *self._inputs, *self._coins, *(m.sender for m in self.messages)}
        if role not in known:
            raise InvalidParameter(f"no {role} took part in this run; its roles are {', '.join(sorted(known))}")
        received = tuple(m for m in self.messages if m.receiver in (role, BOARD))
        coins = self._coins.get(role)
        tape = coins.tape() if coins else b""
        return View(role, dict(self._inputs.get(role, {})), tape, received)

    def redacted(self) -> list[dict[str, str | int]]:
        return [
            {"phase": m.phase, "from": m.sender, "to": m.receiver, "kind": m.kind, "bytes": m.size, "sha256": m.digest}
            for m in self.messages
        ]
