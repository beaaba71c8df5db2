"""The sequence diagram, drawn from what was really sent: every message of the transcript is in exactly one arrow.

Few messages get an arrow each. Many are gathered, and the numbers on the arrows add up to the transcript: first the
messages of one phase that have the same kind and the same kinds of sender and receiver (25 ballots become one arrow),
then phases that repeat (200 steps of a gradient descent become one phase).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from markupsafe import Markup, escape

from psephos.report.document import Message

SINGLE = 12
"""Up to so many messages are drawn one by one."""

LANES = 7
"""Between at most so many roles: more do not fit a telephone or a page."""

REPEATS = 4
"""Phases that differ in their number only are gathered when there are more than so many."""

Look = Literal["sealed", "masked", "part", "open", "unknown"]


@dataclass(frozen=True)
class Contents:
    """What is inside a kind of message, for whoever receives it and looks.

    Attributes:
        look: sealed (ciphertext it cannot open alone), masked (a value hidden by one it does not know), part (a piece
            that means something only together with others), open (readable by every receiver).
        inside: the same in a sentence.
        together: what the receiver holds once it has put all of them together, where that is more than one of them
            tells; the diagram says it where it happens.
    """

    look: Look
    inside: str
    together: str = ""


LOOKS: Mapping[Look, str] = {
    "sealed": "ciphertext that nobody opens alone",
    "masked": "a value under a mask its receiver does not know",
    "part": "a piece that says something only with the others",
    "open": "readable by its receiver",
    "unknown": "not described",
}

_KINDS: Mapping[str, Contents] = {
    # the encrypted sum (votes, parameters, the statistic, gradients)
    "announcement": Contents("open", "What the next step is about: the current iterate, for everybody to read."),
    "ballot": Contents(
        "sealed",
        "Ciphertexts and a signature. Who sent one is public; what is in it, nobody sees alone.",
    ),
    "tally request": Contents(
        "open",
        "Which ballots were counted and the digest of their product: all from the board.",
    ),
    "partial decryption": Contents(
        "part",
        "One holder's part of opening the sum. Enough parts give the sum of all counted ballots, fewer give nothing.",
        "the sum of all counted ballots, once enough parts are there",
    ),
    # the ceremony that makes a key without a dealer
    "seed commitments": Contents("masked", "Hashes of a holder's contributions to the seeds, before any is shown."),
    "seed contributions": Contents("part", "Contributions to seeds that both holders are in: random alone."),
    "residue products": Contents("part", "A share of masked products of residues of the candidates' factors."),
    "residue differences": Contents("part", "A share of a random multiple of (a - 1)(b - 1), zero or uniform."),
    "modulus shares": Contents(
        "part", "A share of each candidate modulus.", "the candidate moduli, which are public, and not their factors"
    ),
    "commitment": Contents("masked", "A hash of shares of moduli or of test values, before any is shown."),
    "test values": Contents(
        "part", "A power of the test base for each candidate.", "which candidates are products of two primes"
    ),
    "opened candidates": Contents("open", "All about the rejected candidates, so that everybody can check them."),
    "exponent commitments": Contents("masked", "Powers of the verification base: the exponents below stay hidden."),
    "exponent share": Contents("part", "A share of the private exponent's summand: fewer than t say nothing."),
    "test decryption": Contents("part", "Partial decryptions of public ciphertexts whose plaintexts all know."),
    "opened seeds": Contents("open", "The seeds of a batch in which somebody lied: there will be no key of it."),
    # Pathak 2010, in the order of the protocol
    "proposal": Contents("open", "The terms of the run and the curator's public keys."),
    "group secret": Contents(
        "open",
        "The parties' permutation and the key that they share and the curator does not have. The curator "
        "never receives it.",
    ),
    "group key": Contents("open", "The public half of the parties' key."),
    "size share": Contents(
        "masked",
        "One additive share of a party's size in the clear, which says nothing alone; the other share sealed "
        "for the curator.",
    ),
    "indexed share": Contents(
        "sealed",
        "A share under the parties' key, at a permuted place; with it a share that the curator opens, uniform "
        "without the first.",
    ),
    "masked share": Contents(
        "masked",
        "A share of a size plus the curator's mask: the party that opens it sees a uniform number.",
    ),
    "questions": Contents("sealed", "Bits of the curator's share, encrypted bit by bit under the comparison key."),
    "opponents": Contents("open", "Whom to compare with, in permuted places."),
    "lent share": Contents("masked", "The low bits of a masked share: uniform to the party that receives them."),
    "answers": Contents(
        "masked",
        "Blinded answers: the curator opens whether one of them is zero, half of the comparison's result.",
        "half of each comparison's result, uniform without the other half",
    ),
    "selection": Contents(
        "sealed",
        "One ciphertext per party, one of them of 1, under the curator's key: no party sees which.",
    ),
    "rung vote": Contents("sealed", "One ciphertext per rung of the noise ladder, under the curator's key."),
    "rung selection": Contents("sealed", "The product of the rung votes: which noise scale it is stays sealed."),
    "noise factor": Contents("sealed", "A party's factor of the encrypted noise, re-randomised."),
    "masked noise": Contents(
        "masked",
        "Parameters, noise and P_1's mask in one ciphertext: the curator opens it and sees a uniform vector.",
        "a masked vector, uniform without P_1's mask",
    ),
    "reshare": Contents("part", "An additive share of what the sender holds: uniform without all the others."),
    "published share": Contents(
        "part",
        "A share of the noisy sum, for everybody. It means nothing without all the others.",
        "the noisy sum of the parameters: the release",
    ),
}


@dataclass(frozen=True)
class Arrow:
    """Some messages of one kind between two lanes.

    Attributes:
        sender, receiver: the lanes.
        kind: of the messages.
        count: how many.
        total: their bytes, together.
        smallest, largest: bytes of one.
    """

    sender: str
    receiver: str
    kind: str
    count: int
    total: int
    smallest: int
    largest: int


@dataclass(frozen=True)
class Block:
    """A phase, or several phases that differ in their number only (`times` of them)."""

    phase: str
    arrows: tuple[Arrow, ...] = field(default=())
    times: int = 1


def family(role: str) -> str:
    """A role without its number: "party 7" is one of the parties."""
    return re.sub(r"[ _]?\d+$", "", role)


def contents_of(kind: str) -> Contents:
    """What is inside messages of this kind; says so when nobody has written it down."""
    return _KINDS.get(kind, Contents("unknown", "Not described here; see the protocol's page in the documentation."))


def received(messages: Sequence[Message]) -> dict[str, list[str]]:
    """The kinds of message that each kind of role received, both in order of appearance."""
    kinds: dict[str, dict[str, None]] = {}
    for message in messages:
        kinds.setdefault(family(message.receiver), {})[message.kind] = None
    return {role: list(found) for role, found in kinds.items()}


def arrange(messages: Sequence[Message]) -> tuple[list[str], list[Block]]:
    """The lanes, in order of appearance, and what is drawn between them from top to bottom.

    The counts and bytes of all arrows add up to those of the messages.
    """
    roles = {role for message in messages for role in (message.sender, message.receiver)}
    one_by_one = len(messages) <= SINGLE and len(roles) <= LANES
    lane = str if one_by_one else family
    phases: list[tuple[str, list[Arrow]]] = []
    for message in messages:
        size = message.bytes
        arrow = Arrow(lane(message.sender), lane(message.receiver), message.kind, 1, size, size, size)
        if not phases or phases[-1][0] != message.phase:
            phases.append((message.phase, []))
        phases[-1][1].append(arrow)
    blocks = [Block(phase, tuple(arrows if one_by_one else _gather(arrows))) for phase, arrows in phases]
    blocks = _gather_phases(blocks)
    lanes: dict[str, None] = {}
    for block in blocks:
        for arrow in block.arrows:
            lanes |= {arrow.sender: None, arrow.receiver: None}
    return list(lanes), blocks


def _gather(arrows: Iterable[Arrow]) -> list[Arrow]:
    gathered: dict[tuple[str, str, str], Arrow] = {}
    for arrow in arrows:
        key = (arrow.sender, arrow.receiver, arrow.kind)
        before = gathered.get(key)
        gathered[key] = (
            arrow
            if before is None
            else replace(
                before,
                count=before.count + arrow.count,
                total=before.total + arrow.total,
                smallest=min(before.smallest, arrow.smallest),
                largest=max(before.largest, arrow.largest),
            )
        )
    return list(gathered.values())


def _gather_phases(blocks: Sequence[Block]) -> list[Block]:
    def general(phase: str) -> str:
        return re.sub(r"\d+", "n", phase)

    names = [general(block.phase) for block in blocks]
    often = {name for name in names if names.count(name) > REPEATS} if len(blocks) > REPEATS else set()
    gathered: dict[str, Block] = {}
    arranged: list[Block] = []
    for name, block in zip(names, blocks, strict=True):
        if name not in often:
            arranged.append(block)
            continue
        if name not in gathered:
            gathered[name] = Block(name, (), 0)
            arranged.append(gathered[name])
        before = gathered[name]
        after = Block(name, tuple(_gather((*before.arrows, *block.arrows))), before.times + 1)
        arranged[arranged.index(before)] = after
        gathered[name] = after
    return arranged


def size_text(size: int) -> str:
    """Bytes for people: 941 B, 23.5 kB, 3.2 GB (powers of 1000)."""
    value, unit = float(size), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{size} B" if unit == "B" else f"{value:.3g} {unit}"


_LANE = 96
_TOP = 58
_PAGE = 560  # units: with the width that the style gives a printed diagram, a page
_MARGIN = 50
_LINE = 14
_CHARACTER = 6.3  # a generous width of one character at 11 units, so that no label leaves the picture


def svg(lanes: Sequence[str], blocks: Sequence[Block], members: Mapping[str, int]) -> Markup:
    """The diagram as inline SVG; colours are the page's, so it follows light and dark.

    A long one is several pictures, each of which fits a printed page and names its lanes again. `members`: how many
    roles a lane stands for. Every arrow is a group with data-kind, data-count and data-bytes.
    """
    # Never narrower than a phone, so that two lanes leave room for their labels.
    step = max(_LANE, (400 - 2 * _MARGIN) // max(1, len(lanes) - 1))
    width = 2 * _MARGIN + step * max(1, len(lanes) - 1)
    at = {name: _MARGIN + step * place for place, name in enumerate(lanes)}
    pictures: list[tuple[list[Markup], int]] = []
    for block in blocks:
        drawn, end = _block(block, at, pictures[-1][1] if pictures else _TOP, width)
        if not pictures or end > _PAGE:
            drawn, end = _block(block, at, _TOP, width)
            pictures.append(([], end))
        pictures[-1] = ([*pictures[-1][0], *drawn], end)
    return Markup().join(
        Markup(
            '<svg class="sequence" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" role="img" '
            'style="max-width:{2}px;min-width:{3}px;--units:{0}" aria-labelledby="sequence-title-{4}">'
            '<title id="sequence-title-{4}">Who sent what to whom{5}</title>{6}{7}</svg>'
        ).format(
            width,
            bottom,
            round(width * 1.35),
            round(width * 0.9),
            number,
            f", part {number} of {len(pictures)}" if len(pictures) > 1 else "",
            Markup().join(_lane(name, members.get(name, 1), at[name], bottom) for name in lanes),
            Markup().join(parts),
        )
        for number, (parts, bottom) in enumerate(pictures, 1)
    )


def _block(block: Block, at: Mapping[str, int], y: int, width: int) -> tuple[list[Markup], int]:
    """A phase from `y` downwards, and where it ends."""
    times = f" ({block.times} times)" if block.times > 1 else ""
    parts = [
        Markup('<rect class="band" x="0" y="{}" width="{}" height="20"/><text class="phase" x="6" y="{}">{}</text>')
        .format(y, width, y + 14, block.phase + times)
    ]  # fmt: skip
    y += 24
    for arrow in block.arrows:
        drawn, y = _arrow(arrow, at, y, width)
        parts.append(drawn)
    for receiver, together in dict.fromkeys((a.receiver, contents_of(a.kind).together) for a in block.arrows):
        if together:
            drawn, y = _sees(receiver, together, at[receiver], y, width)
            parts.append(drawn)
    return parts, y + 6


def _sees(role: str, together: str, x: int, y: int, width: int) -> tuple[Markup, int]:
    """What a role holds in the end, beside a mark on its lane: inside of several messages, so it is no arrow."""
    who = "everybody sees" if role == "board" else "sees"
    lines = textwrap.wrap(f"{who} {together}", 40)
    longest = max(len(line) for line in lines) * _CHARACTER
    left, anchor = (x + 10, "start") if x + 10 + longest < width else (x - 10, "end")
    text = Markup().join(
        Markup('<text class="sum" text-anchor="{}" x="{}" y="{}">{}</text>').format(
            anchor, left, y + 11 + _LINE * n, line
        )
        for n, line in enumerate(lines)
    )
    mark = f"M{x} {y + 1}l6 6l-6 6l-6 -6z"
    drawn = Markup('<g class="sees" data-role="{}">{}<path class="head" d="{}"/></g>').format(role, text, mark)
    return drawn, y + _LINE * len(lines) + 8


def _lane(name: str, members: int, x: int, bottom: int) -> Markup:
    label = name if members == 1 else f"{_plural(name)} ({members:,})"
    lines = textwrap.wrap(label, 14)[:2]
    text = Markup().join(
        Markup('<text class="lane" x="{}" y="{}">{}</text>').format(x, 20 + _LINE * n, line)
        for n, line in enumerate(lines)
    )
    return Markup('<line class="life" x1="{0}" y1="44" x2="{0}" y2="{1}"/>{2}').format(x, bottom, text)


def _plural(name: str) -> str:
    return name[:-1] + "ies" if name.endswith("y") else name + "s"


def _arrow(arrow: Arrow, at: Mapping[str, int], y: int, width: int) -> tuple[Markup, int]:
    look = contents_of(arrow.kind).look
    times = f"{arrow.count:,} \N{MULTIPLICATION SIGN} " if arrow.count > 1 else ""
    if arrow.count == 1:
        size = size_text(arrow.total)
    elif arrow.smallest == arrow.largest:
        size = f"{size_text(arrow.smallest)} each, {size_text(arrow.total)}"
    else:
        size = f"{size_text(arrow.smallest)} to {size_text(arrow.largest)}, {size_text(arrow.total)}"
    left = min(at[arrow.sender], at[arrow.receiver])
    lines = [*textwrap.wrap(f"{times}{arrow.kind}", 58), f"{look} · {size}"]
    longest = max(len(line) for line in lines) * _CHARACTER
    x = max(4.0, min(left + 6.0, width - longest - 4))
    text = Markup().join(
        Markup('<text class="{}" x="{:.0f}" y="{}">{}</text>').format(
            "what" if n < len(lines) - 1 else "size", x, y + 11 + _LINE * n, line
        )
        for n, line in enumerate(lines)
    )
    y += _LINE * len(lines) + 8
    start, end = at[arrow.sender], at[arrow.receiver]
    if start == end:
        path, tip = f"M{start} {y - 4}h26v10h-20", (start + 4, y + 6, -1)
    else:
        side = 1 if end > start else -1
        path, tip = f"M{start} {y}H{end - 6 * side}", (end, y, side)
    head = f"M{tip[0]} {tip[1]}l{-8 * tip[2]} -4v8z"
    drawn = Markup(
        '<g class="arrow {look}" data-from="{sender}" data-to="{receiver}" data-kind="{kind}" data-count="{count}" '
        'data-bytes="{total}">{text}<path class="line" d="{path}"/><path class="head" d="{head}"/></g>'
    ).format(
        look=look,
        sender=arrow.sender,
        receiver=arrow.receiver,
        kind=escape(arrow.kind),
        count=arrow.count,
        total=arrow.total,
        text=text,
        path=path,
        head=head,
    )
    return drawn, y + 14
