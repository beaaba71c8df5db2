"""Renders the page: one HTML file that contains its style and figures, and no script, so that its contents are fixed.

The page is the same for every kind of result. Every number is in a `<data value="...">` element: people read it
rounded, programs and tests read its exact value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from psephos.results import ALPHA_NOTICE, METHODS
from psephos.results.base import Fact, Page, shown
from psephos.results.charts import BARS, bytes_by_phase
from psephos.results.document import Document, Message
from psephos.results.knowledge import VERDICTS, expected_matrix
from psephos.results.palette import DARK, LIGHT
from psephos.results.sequence import PhaseBlock, arrange, contents_of, family, pictures, received, size_text

LISTED = 2000
"""Most messages of a transcript that the page lists; report.json has the rest."""


def render(document: Document, figures: Mapping[str, Markup]) -> str:
    """Return the HTML page of a document, with the inline markup of its figures, by name."""
    result, transcript, page = document.result, document.transcript, document.result.page()
    lanes, blocks = arrange(transcript) if transcript else ([], [])
    algorithms = dict.fromkeys(curve.algorithm for panel in page.panels for curve in panel.curves)
    text: str = _template().render(
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
        matrices=page.matrices or expected_matrix(page.case),
        verdicts=VERDICTS,
        flat=list(_flatten(result.as_json())),
        listed=LISTED,
        bars=BARS,
        alpha_notice=ALPHA_NOTICE,
        light=LIGHT,
        dark=DARK,
    )
    return text


def number(value: Any, digits: int = 4) -> Markup:
    """Return a value as markup: rounded for people, with its exact JSON as an attribute for programs."""
    text = "none" if value is None else repr(value) if digits >= 17 and isinstance(value, float) else shown(value)
    return Markup('<data value="{}">{}</data>').format(json.dumps(value), text or "\N{EN DASH}")


def code(text: str) -> Markup:
    """Return escaped text in which words between backquotes are marked as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped first


def share(value: float) -> Markup:
    """Return a share between 0 and 1 as markup: with three decimals, and its exact JSON as an attribute."""
    return Markup('<data value="{}">{:.3f}</data>').format(json.dumps(value), value)


@cache
def _template() -> Any:
    environment = Environment(
        loader=PackageLoader("psephos.results"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"code": code, "number": number, "share": share, "size": size_text}
    return environment.get_template("report.html.jinja")


def _add_notes(page: Page, lanes: Sequence[str], blocks: Sequence[PhaseBlock]) -> list[PhaseBlock]:
    """Return the blocks, with notes on what roles that have a lane do before the first message and after the last."""

    def note_blocks(phase: str, steps: Sequence[Fact]) -> list[PhaseBlock]:
        at = {family(lane): lane for lane in reversed(lanes)}
        notes = tuple((at[role], words) for _, role, words, _ in steps if role in at)
        return [PhaseBlock(phase, notes=notes)] if notes else []

    return [*note_blocks("key", page.about("before")), *blocks, *note_blocks("release", page.about("after"))]


def _phases(document: Document) -> dict[str, tuple[float | None, int, int]]:
    """Return seconds, messages and bytes of each phase."""
    known = document.result.phases
    if not document.transcript:
        return {
            name: (phase.seconds, phase.messages, phase.bytes)
            for name, phase in known.items()
            if phase.messages is not None and phase.bytes is not None
        }
    sizes = bytes_by_phase(document.transcript)
    return {name: (known[name].seconds if name in known else None, *pair) for name, pair in sizes.items()}


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
