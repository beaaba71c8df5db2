"""Transcripts: who sent which message to whom in a run, and each role's view of it.

A role's *view* consists of its inputs, its coin tosses and the messages that it received. The security analysis works
on views, which contain secrets. A transcript therefore records digests and sizes only, unless it is constructed with
`secrets=True`. Reports use the redacted form in either case.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.randomness import SYSTEM, Randomness, RecordedRandomness

BOARD = "board"
"""The receiver of a public message, which every role sees."""


@dataclass(frozen=True, slots=True)
class SentMessage:
    """One message that was sent.

    Attributes:
        phase: the part of the protocol that it belongs to.
        sender: the name of a role.
        receiver: the name of a role, or the board.
        kind: the type of the message.
        size: its length in bytes.
        digest: its SHA-256, hexadecimal.
        data: its bytes; None in a redacted transcript.
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
    """Everything that one role saw; secret.

    Attributes:
        role: the role's name.
        inputs: its private inputs by name.
        tape: its coin tosses.
        received: the messages that it received, including public ones.
    """

    role: str
    inputs: dict[str, Any] = field(repr=False)
    tape: bytes = field(repr=False)
    received: tuple[SentMessage, ...] = field(repr=False)


class Transcript:
    """A record of a run.

    Attributes:
        keeps_secrets: whether inputs, coin tosses and the messages' bytes are recorded.
        messages: the messages in order.
        roles: the names of the roles that took part.
    """

    def __init__(self, *, secrets: bool = False) -> None:
        """
        Args:
            secrets: record inputs, coin tosses and the messages' bytes as well, for the security analysis.
        """
        self.keeps_secrets = secrets
        self.messages: list[SentMessage] = []
        self.roles: set[str] = set()
        self._inputs: dict[str, dict[str, Any]] = {}
        self._coins: dict[str, RecordedRandomness] = {}

    def record(self, phase: str, sender: str, receiver: str, kind: str, data: bytes) -> bytes:
        """Record a message and return its bytes."""
        digest = hashlib.sha256(data).hexdigest()
        recorded_data = data if self.keeps_secrets else None
        self.messages.append(SentMessage(phase, sender, receiver, kind, len(data), digest, recorded_data))
        return data

    def record_input(self, role: str, name: str, value: Any) -> None:
        """Record a private input of a role; without secrets, its name only."""
        self._inputs.setdefault(role, {})[name] = value if self.keeps_secrets else None

    def coins(self, role: str, source: Randomness = SYSTEM) -> Randomness:
        """Return a role's randomness, which is recorded if the transcript keeps secrets.

        Args:
            role: the role's name.
            source: where the randomness comes from. For a role that has a recorded source already, that one is
                returned.
        """
        if not self.keeps_secrets:
            return source
        return self._coins.setdefault(role, RecordedRandomness(source))

    def extend(self, messages: Sequence[SentMessage]) -> None:
        """Append messages that another process of the same run recorded."""
        self.messages.extend(messages)

    def view(self, role: str) -> View:
        """Return a role's view.

        Raises:
            InvalidParameter: the transcript keeps no secrets, or no such role took part.
        """
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
        """Return the messages without their bytes, ready for JSON."""
        return [
            {"phase": m.phase, "from": m.sender, "to": m.receiver, "kind": m.kind, "bytes": m.size, "sha256": m.digest}
            for m in self.messages
        ]

    def __repr__(self) -> str:
        return f"<Transcript of {len(self.messages)} messages, {'with secrets' if self.keeps_secrets else 'redacted'}>"
