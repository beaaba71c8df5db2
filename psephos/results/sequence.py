"""The sequence diagram of a transcript: every message is in one arrow, alone or with others of its kind and phase."""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import Any, Literal

from psephos.results.document import Message

SINGLE = 12
"""Most messages that are drawn one by one."""

LANES = 7
"""Most roles between which messages are drawn one by one: more lanes do not fit a telephone or a page."""

REPEATS = 4
"""Phases whose names differ only in a number are combined if there are more of them than this."""

Look = Literal["sealed", "masked", "part", "open", "unknown"]


@dataclass(frozen=True)
class MessageContents:
    """Contents of a kind of message, as its receiver sees them.

    `look`: sealed (ciphertext it cannot open alone), masked (a value hidden by one it does not know), part (means
    something only together with others), or open. `together`: what it learns from all of these messages, if that is
    more.
    """

    look: Look
    inside: str
    together: str = ""


@dataclass(frozen=True)
class Arrow:
    """Some messages of one kind between two lanes, and the bytes of each."""

    sender: str
    receiver: str
    kind: str
    sizes: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.sizes)

    @property
    def total(self) -> int:
        return sum(self.sizes)


@dataclass(frozen=True)
class PhaseBlock:
    """A phase, or `times` like ones; `notes` are pairs (lane, what the role does without a message)."""

    phase: str
    arrows: tuple[Arrow, ...] = field(default=())
    times: int = 1
    notes: tuple[tuple[str, str], ...] = ()


def family(role: str) -> str:
    """Return a role without its number: "party" for "party 7"."""
    return re.sub(r"[ _]?\d+$", "", role)


def contents_of(kind: str) -> MessageContents:
    """Return the contents of messages of a kind; of an unknown kind, contents that say that they are not described."""
    unknown = MessageContents("unknown", "Not described here; see the protocol's page in the documentation.")
    return _described().get(kind, unknown)


@cache
def _described() -> dict[str, MessageContents]:
    text = (files("psephos.results") / "templates" / "messages.toml").read_text(encoding="utf-8")
    return {kind: MessageContents(**words) for kind, words in tomllib.loads(text).items()}


def received(messages: Sequence[Message]) -> dict[str, list[str]]:
    """Return the kinds of message that each kind of role received, both in order of appearance."""
    kinds: dict[str, dict[str, None]] = {}
    for message in messages:
        kinds.setdefault(family(message.receiver), {})[message.kind] = None
    return {role: list(labels) for role, labels in kinds.items()}


def arrange(messages: Sequence[Message]) -> tuple[list[str], list[PhaseBlock]]:
    """Return the lanes, in order of appearance, and the phases drawn between them, from top to bottom."""
    roles = {role for message in messages for role in (message.sender, message.receiver)}
    one_by_one = len(messages) <= SINGLE and len(roles) <= LANES
    lane = str if one_by_one else family
    blocks = []
    for phase, group in groupby(messages, key=lambda message: message.phase):
        arrows = [Arrow(lane(one.sender), lane(one.receiver), one.kind, (one.bytes,)) for one in group]
        blocks.append(PhaseBlock(phase, tuple(arrows if one_by_one else _gather(arrows))))
    blocks = _gather_phases(blocks)
    drawn = [arrow for block in blocks for arrow in block.arrows]
    return list(dict.fromkeys(role for arrow in drawn for role in (arrow.sender, arrow.receiver))), blocks


def _gather(arrows: Iterable[Arrow]) -> list[Arrow]:
    sizes: dict[tuple[str, str, str], list[int]] = {}
    for arrow in arrows:
        sizes.setdefault((arrow.sender, arrow.receiver, arrow.kind), []).extend(arrow.sizes)
    return [Arrow(*key, tuple(lengths)) for key, lengths in sizes.items()]


def _gather_phases(blocks: Sequence[PhaseBlock]) -> list[PhaseBlock]:
    names = [re.sub(r"\d+", "n", block.phase) for block in blocks]
    gathered: dict[str, PhaseBlock] = {}
    for name, block in zip(names, blocks, strict=True):
        often = len(blocks) > REPEATS and names.count(name) > REPEATS
        # Phases that occur only a few times stay separate, under keys of their own.
        key = name if often else f"{len(gathered)} {block.phase}"
        before = gathered.get(key, PhaseBlock(name, (), 0))
        arrows = tuple(_gather((*before.arrows, *block.arrows)))
        gathered[key] = PhaseBlock(name, arrows, before.times + 1) if often else block
    return list(gathered.values())


def size_text(size: int) -> str:
    """Return a number of bytes as text with a unit, in powers of 1000."""
    value, unit = float(size), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{size} B" if unit == "B" else f"{value:.3g} {unit}"


_LANE = 96
_TOP = 58
_PAGE = 560  # height in units of a printed page, for the width that the style gives a diagram
_MARGIN = 50
_LINE = 14
_CHARACTER = 6.3  # a generous width of one character at 11 units, so that no label leaves the picture


@dataclass
class Picture:
    """Part of a diagram that fits a printed page: positions and texts for `sequence.svg.jinja`, from top to bottom."""

    width: int
    lanes: list[dict[str, Any]]
    parts: list[dict[str, Any]] = field(default_factory=list)
    bottom: int = _TOP


def pictures(lanes: Sequence[str], blocks: Sequence[PhaseBlock], members: Mapping[str, int]) -> list[Picture]:
    """Return the diagram as pictures; a long one has several. `members`: number of roles that each lane stands for."""
    # At least as wide as a phone, so that two lanes leave room for their labels.
    step = max(_LANE, (400 - 2 * _MARGIN) // max(1, len(lanes) - 1))
    width = 2 * _MARGIN + step * max(1, len(lanes) - 1)
    at = {name: _MARGIN + step * place for place, name in enumerate(lanes)}
    named = []
    for name in lanes:
        many, plural = members.get(name, 1), name[:-1] + "ies" if name.endswith("y") else name + "s"
        label = name if many == 1 else f"{plural} ({many:,})"
        named.append({"x": at[name], "lines": textwrap.wrap(label, 14)[:2]})
    pictures = [Picture(width, named)]
    for block in blocks:
        parts, end = _block(block, at, pictures[-1].bottom, width)
        if end > _PAGE and pictures[-1].parts:
            pictures.append(Picture(width, named))
            parts, end = _block(block, at, _TOP, width)
        pictures[-1].parts += parts
        pictures[-1].bottom = end
    return pictures


def _block(block: PhaseBlock, at: Mapping[str, int], y: int, width: int) -> tuple[list[dict[str, Any]], int]:
    """Return the parts of a phase that begins at height `y`, and the height at which it ends."""
    times = f" ({block.times} times)" if block.times > 1 else ""
    parts: list[dict[str, Any]] = [{"is": "phase", "y": y, "text": block.phase + times}]
    y += 24
    for arrow in block.arrows:
        parts.append(_arrow(arrow, at, y, width))
        y = parts[-1]["line"] + 14
    # What a role learns from several messages together, or does without a message: text beside a mark on its lane.
    together = dict.fromkeys((a.receiver, contents_of(a.kind).together) for a in block.arrows)
    marks = [
        ("sees", role, f"{'everybody sees' if role == 'board' else 'sees'} {what}") for role, what in together if what
    ]
    for kind, role, words in (*marks, *(("does", *note) for note in block.notes)):
        x = at[role]
        left, anchor, room = max((x + 10, "start", width - x - 14), (x - 10, "end", x - 14), key=lambda side: side[2])
        lines = textwrap.wrap(words, min(40, int(room / _CHARACTER)))
        longest = max(len(line) for line in lines) * _CHARACTER
        behind = (round(left if anchor == "start" else left - longest), round(longest))
        parts.append(
            {"is": kind, "role": role, "x": x, "y": y, "left": left, "anchor": anchor, "lines": lines, "behind": behind}
        )
        y += _LINE * len(lines) + 8
    return parts, y + 6


def _arrow(arrow: Arrow, at: Mapping[str, int], y: int, width: int) -> dict[str, Any]:
    look, least, most = contents_of(arrow.kind).look, min(arrow.sizes), max(arrow.sizes)
    times = f"{arrow.count:,} \N{MULTIPLICATION SIGN} " if arrow.count > 1 else ""
    each = f"{size_text(least)} each" if least == most else f"{size_text(least)} to {size_text(most)}"
    size = size_text(arrow.total) if arrow.count == 1 else f"{each}, {size_text(arrow.total)}"
    lines = [*textwrap.wrap(f"{times}{arrow.kind}", 58), f"{look} · {size}"]
    longest, left = max(len(line) for line in lines) * _CHARACTER, min(at[arrow.sender], at[arrow.receiver])
    x = round(max(4.0, min(left + 6.0, width - longest - 4)))
    return {
        "is": "arrow",
        "arrow": arrow,
        "look": look,
        "lines": lines,
        "x": x,
        "y": y,
        "behind": (x - 2, round(longest)),
        "line": y + _LINE * len(lines) + 8,
        "start": at[arrow.sender],
        "end": at[arrow.receiver],
    }
