"""Renders the page: one HTML file without scripts; exact numbers are in `<data value="...">`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from psephos.audit.matrix import EXPECTED, HIDDEN, LEAK, REVEALED
from psephos.results.base import ALPHA_NOTICE, METHODS, AuditedCell, Fact, Matrix, Page
from psephos.results.charts import BARS
from psephos.results.document import Document, Message
from psephos.results.html import template
from psephos.results.security import AuditedCoalition, AuditedProtocol
from psephos.results.sequence import PhaseBlock, arrange, contents_of, family, pictures, received

LISTED = 2000
"""Most messages of a transcript that the page lists; report.json has the rest."""


VERDICTS = {
    HIDDEN: ("○", "the coalition learns nothing about it beyond what else it is shown to learn"),
    REVEALED: ("●", "the ideal functionality gives it to this coalition as well, or it lies outside the threat model"),
    LEAK: ("✖", "it comes through although the paper says that it should not"),
}
"""Sign and meaning of each verdict; always shown with its word."""


def render(document: Document, figures: Mapping[str, Markup]) -> str:
    """Return the HTML page of a document, with the inline markup of its figures, by name."""
    result, transcript, page = document.result, document.transcript, document.result.page()
    lanes, blocks = arrange(transcript) if transcript else ([], [])
    algorithms = dict.fromkeys(curve.algorithm for panel in page.panels for curve in panel.curves)
    text: str = template("report.html.jinja").render(
        document=document,
        result=result,
        page=page,
        figures=figures,
        methods=METHODS,
        curves=[(name, METHODS[name]) for name in algorithms if name in METHODS and not page.accuracies],
        pictures=pictures(lanes, _add_notes(page, lanes, blocks), _members(lanes, transcript)) if transcript else [],
        inside=[
            (role, [(kind, contents_of(kind)) for kind in kinds]) for role, kinds in received(transcript or []).items()
        ],
        phases=_phases(document),
        matrices=page.matrices or _expected_matrix(page.case),
        verdicts=VERDICTS,
        flat=list(_flatten(result.as_json())),
        listed=LISTED,
        bars=BARS,
        alpha_notice=ALPHA_NOTICE,
    )
    return text


def _add_notes(page: Page, lanes: Sequence[str], blocks: Sequence[PhaseBlock]) -> list[PhaseBlock]:
    """Return the blocks, with notes on what roles that have a lane do before the first message and after the last."""

    def note_blocks(phase: str, steps: Sequence[Fact]) -> list[PhaseBlock]:
        at = {family(lane): lane for lane in reversed(lanes)}
        notes = tuple((at[role], words) for _, role, words, _ in steps if role in at)
        return [PhaseBlock(phase, notes=notes)] if notes else []

    return [*note_blocks("key", page.about("before")), *blocks, *note_blocks("release", page.about("after"))]


def _phases(document: Document) -> dict[str, tuple[float | None, int, int]]:
    """Return seconds, messages and bytes of each phase; of more than 12 those that differ in a number are combined."""
    known = document.result.phases
    if not document.transcript:
        return {
            name: (phase.seconds, phase.messages, phase.bytes)
            for name, phase in known.items()
            if phase.messages is not None and phase.bytes is not None
        }
    several = len({message.phase for message in document.transcript}) > 12
    phases: dict[str, tuple[float | None, int, int]] = {}
    for message in document.transcript:
        name = re.sub(r"\d+", "n", message.phase) if several else message.phase
        seconds = known[name].seconds if name in known else None
        _, count, total = phases.get(name, (None, 0, 0))
        phases[name] = (seconds, count + 1, total + message.bytes)
    return phases


def _members(lanes: Sequence[str], messages: Sequence[Message] | None) -> dict[str, int]:
    """Return the number of roles that each lane stands for."""
    roles = {role for message in messages or [] for role in (message.sender, message.receiver)}
    return {lane: 1 if lane in roles else sum(family(role) == lane for role in roles) for lane in lanes}


def _flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path and value of every number and text of the result; long lists are in report.json only."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flatten(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and len(value) > 64:
        yield path, f"a list of {len(value):,} entries (in report.json)"
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _flatten(inner, f"{path}[{place}]")
    else:
        yield path, value


def _expected_matrix(name: str | None) -> list[Matrix]:
    """Return the matrix of expected verdicts for the protocol `name`; an empty list if it has no analysis."""
    case = EXPECTED.get(name or "")
    if case is None:
        return []
    coalitions = []
    for coalition in case.coalitions:
        why = coalition.known_leaks | coalition.granted
        cells = {secret: AuditedCell(coalition.expected(secret), None, why.get(secret, "")) for secret in case.secrets}
        coalitions.append(AuditedCoalition(coalition.name, [], cells))
    return [AuditedProtocol(case.name, coalitions).matrix(tested=False)]
