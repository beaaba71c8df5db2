"""Templates of the pages that are written, and how they show values."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from psephos.results.base import shown
from psephos.results.palette import DARK, LIGHT
from psephos.results.sequence import size_text


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
