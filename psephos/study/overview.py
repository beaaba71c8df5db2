"""What anybody who has the study can see of it on its board."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from psephos.protocol.board import Board
from psephos.protocol.board.history import Head
from psephos.protocol.board.seat import Onlooker
from psephos.protocol.errors import PsephosError
from psephos.protocol.roles import BOARD
from psephos.protocol.study.study import CURATOR, Study
from psephos.protocol.wire import Kind, Reader
from psephos.study.identity import fingerprint

__all__ = ["Overview", "as_record", "as_text", "overview"]

_STEPS = {
    Kind.JOINED: "joined",
    Kind.PUBLIC_KEY: "key made",
    Kind.BALLOT: "voted",
    Kind.CLOSE: "vote closed",
    Kind.CONFIRMATION: "confirmed",
    Kind.PARTIAL_DECRYPTION: "opened",
    Kind.RESULT: "result published",
}
"""Messages that say where a role stands."""


@dataclass
class Overview:
    """A board as far as it was read.

    Attributes:
        head: of the log. size: of all entries, bytes.
        said: by role, the kinds of its public messages, counted; of sealed ones only that there were any.
        refused: entries that nobody in the study takes, by number, with the reason.
        result: what the curator published; empty while there is nothing.
    """

    head: Head = field(default_factory=Head)
    size: int = 0
    said: dict[str, Counter[str]] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    result: bytes = field(default=b"", repr=False)


def overview(study: Study, board: Board) -> Overview:
    """Read a whole board as an onlooker; raises BoardError when it cannot be read."""
    onlooker, seen = Onlooker(study.members), Overview()
    seen.said = {name: Counter() for name in study.members.keys}
    for number, data in board.read(0):
        taken = onlooker.take(number, data)
        seen.size += len(data)
        if taken.error is not None:
            seen.refused[number] = str(taken.error)
        elif taken.entry is not None and taken.entry.receiver == BOARD:
            entry = taken.entry
            try:
                seen.said[entry.sender][entry.kind.title] += 1
                if entry.kind is Kind.RESULT and entry.sender == CURATOR and not seen.result:
                    seen.result = Reader(entry.data, Kind.RESULT, study.digest).rest()
            except PsephosError as error:
                seen.refused[number] = str(error)
        elif taken.note.author:
            seen.said[taken.note.author]["sealed"] += 1
    seen.head = onlooker.head
    return seen


def _steps(said: Counter[str]) -> list[str]:
    return [step for kind, step in _STEPS.items() if said[kind.title]]


def as_record(study: Study, seen: Overview) -> dict[str, Any]:
    """For scripts."""
    return {
        "study": study.digest.hex(),
        "title": study.title,
        "trial": study.trial,
        "entries": seen.head.size,
        "bytes": seen.size,
        "head": seen.head.root.hex(),
        "roles": {name: _steps(said) for name, said in seen.said.items()},
        "refused": {str(number): why for number, why in seen.refused.items()},
        "result": hashlib.sha256(seen.result).hexdigest() if seen.result else None,
    }


def as_text(study: Study, seen: Overview) -> str:
    """For people."""
    owners = {member.key: member.name for member in study.parties}
    lines = [f"{study.title}, study {fingerprint(study.digest)}" + (", a TRIAL" if study.trial else "")]
    lines.append(f"board: {seen.head}, {seen.size:,} bytes, {len(seen.refused)} refused")
    for name, key in study.members.keys.items():
        lines.append(f"  {name:<10} {owners.get(key, ''):<30} {', '.join(_steps(seen.said[name])) or 'has not joined'}")
    for number, why in list(seen.refused.items())[:20]:
        lines.append(f"  refused: entry {number}: {why}")
    result = hashlib.sha256(seen.result).hexdigest()[:16] if seen.result else ""
    lines.append(f"result: SHA-256 {result}..., {len(seen.result):,} bytes" if result else "no result yet")
    return "\n".join(lines) + "\n"
