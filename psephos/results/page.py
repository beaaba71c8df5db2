"""The page: one HTML file with its style and its pictures inside, and no script, so that nothing it shows can change.

It shows the page of a result and knows no kind of result. Every number stands in a
`<data value="...">` element: people read it rounded, programs and tests exactly.
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
from psephos.results.base import Page
from psephos.results.charts import BARS, bytes_by_phase
from psephos.results.document import Document, Message
from psephos.results.knowledge import VERDICTS, expected_matrix
from psephos.results.palette import DARK, LIGHT
from psephos.results.sequence import PhaseBlock, arrange, contents_of, family, pictures, received, size_text

LISTED = 2000
"""A longer transcript is listed up to here; report.json has the rest."""


def render(document: Document, figures: Mapping[str, Markup]) -> str:
    """The page of a document and its figures' inline markup, by name."""
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
        pictures=pictures(lanes, _framed(page, lanes, blocks), _members(lanes, transcript)) if transcript else [],
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
    """A value as people read it, with its exact JSON beside it for programs."""
    if isinstance(value, bool):
        text = "yes" if value else "no"
    elif value is None:
        text = "none"
    elif isinstance(value, int):
        text = f"{value:,}"
    elif isinstance(value, float):
        text = repr(value) if digits >= 17 else f"{value:.{digits}g}"
    else:
        text = str(value) or "(empty)"
    return Markup('<data value="{}">{}</data>').format(json.dumps(value), text)


def code(text: str) -> Markup:
    """Words in which `this` is code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped first


def share(value: float) -> Markup:
    """A share between 0 and 1 with three decimals, with its exact JSON beside it."""
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


def _framed(page: Page, lanes: Sequence[str], blocks: Sequence[PhaseBlock]) -> list[PhaseBlock]:
    """The blocks between what roles do before the first message and after the last, where their lanes are drawn."""

    def done(phase: str, steps: Sequence[tuple[str, str]]) -> list[PhaseBlock]:
        at = {family(lane): lane for lane in reversed(lanes)}
        notes = tuple((at[role], words) for role, words in steps if role in at)
        return [PhaseBlock(phase, notes=notes)] if notes else []

    return [*done("key", page.before), *blocks, *done("release", page.after)]


def _phases(document: Document) -> dict[str, tuple[float | None, int, int]]:
    """Seconds, messages and bytes of each phase: the transcript's, or what the result says where there is none."""
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
    roles = {role for message in messages or [] for role in (message.sender, message.receiver)}
    return {lane: 1 if lane in roles else sum(family(role) == lane for role in roles) for lane in lanes}


def _flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number and word of the result, with its path; long lists are in report.json only."""
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
