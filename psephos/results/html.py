"""Templates of the pages that are written, how they show values, and their colours.

The colours have the contrasts of WCAG 2.1 level AA; no meaning depends on colour alone.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from psephos.results.base import shown
from psephos.results.sequence import size_text

# For a light screen and for paper.
LIGHT = {
    "paper": "#ffffff",
    "raised": "#f3f5f7",
    "ink": "#1b2026",
    "quiet": "#535b65",
    "rule": "#828b96",
    "faint": "#d5dae0",
    "blue": "#0b5cad",
    "orange": "#a84300",
    "green": "#0d6b47",
    "violet": "#7440a3",
    "rose": "#a82458",
    "olive": "#665700",
}

# For a dark screen.
DARK = {
    "paper": "#14171b",
    "raised": "#1f242a",
    "ink": "#e8ebee",
    "quiet": "#aab3bd",
    "rule": "#7f8995",
    "faint": "#39414a",
    "blue": "#78b4f5",
    "orange": "#f2a36b",
    "green": "#5fcf9f",
    "violet": "#c7a2f0",
    "rose": "#f58fb4",
    "olive": "#d6c25a",
}


def _number(value: Any, digits: int = 4) -> Markup:
    """Return a value as markup: rounded for people, with its exact JSON as an attribute for programs."""
    text = "none" if value is None else repr(value) if digits >= 17 and isinstance(value, float) else shown(value)
    return Markup('<data value="{}">{}</data>').format(json.dumps(value), text or "\N{EN DASH}")


def _code(text: str) -> Markup:
    """Return escaped text in which words between backquotes are marked as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped first


def _share(value: float) -> Markup:
    """Return a share between 0 and 1 as markup: with three decimals, and its exact JSON as an attribute."""
    return Markup('<data value="{}">{:.3f}</data>').format(json.dumps(value), value)


@cache
def template(name: str) -> Template:
    """Return a template, with the colours of the pages."""
    environment = Environment(
        loader=PackageLoader("psephos.results"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"code": _code, "number": _number, "share": _share, "size": size_text}
    environment.globals |= {"light": LIGHT, "dark": DARK}
    return environment.get_template(name)
