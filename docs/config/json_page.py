"""The site's page of the JSON, from the types of the results: `python docs/config/json_page.py` prints it."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from psephos.results.base import FORMAT, IN_MEMORY, KINDS

HEAD = f"""# The JSON of every command

With `--json` a command writes one object: `format` ({FORMAT}; refuse any other number), `kind`, and the fields below. A
*derived* field follows from the others; readers ignore it. `psephos.results.base.Result.from_json` reads every kind.
`report.json` has `kind` "report", the result under `result`, and also `environment`, `command` and `transcript`.

The first field is `notice` where a run used rows of your own: its accuracies are measured on private rows, no epsilon
covers them, and the JSON is [not for publication](report.md#who-may-see-it).

A type with `?` may be null. Shares and accuracies lie in [0, 1], times are in seconds, sizes in bytes; a number that is
not finite is null. With several epsilons, accuracy and privacy are those of the first, and `by_epsilon` has every
accuracy.
"""

PARTS: dict[str, type[Any]] = {}


def type_text(hint: Any) -> str:
    """Name a type in the words of JSON, and add the dataclasses that it names to PARTS."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return type_text(inner[0])
    if origin in (typing.Union, types.UnionType):
        present = [type_text(one) for one in inner if one is not type(None)]
        return " or ".join(present) + ("?" if len(present) < len(inner) else "")
    if origin is typing.Literal:
        return " or ".join(f'"{value}"' for value in inner)
    if origin in (list, tuple, Sequence):
        return f"list of {type_text(inner[0])}"
    if origin in (dict, Mapping):
        return f"object of {type_text(inner[1])}"
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        PARTS[hint.__name__] = hint
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    names = {int: "integer", float: "number", str: "text", bool: "boolean"}
    return names.get(hint, "anything")


def described(one: type[Any]) -> dict[str, str]:
    """Return the description of each field, from the docstrings of a type and its bases."""
    descriptions: dict[str, str] = {}
    for base in reversed(one.__mro__):
        text = inspect.cleandoc(base.__doc__ or "")
        _, _, listed = text.partition("Attributes:\n")
        for match in re.finditer(r"^    ([\w, ]+): (.*(?:\n {8}.*)*)", listed, re.M):
            for name in match[1].split(", "):
                descriptions[name] = " ".join(match[2].split())
    return descriptions


def own_fields(one: type[Any], bases: list[type[Any]]) -> list[str]:
    """Return the names of the fields that no base has, or that are of another type or described otherwise there."""
    hints, words = typing.get_type_hints(one, include_extras=True), described(one)
    same = {
        field.name
        for base in bases
        for field in dataclasses.fields(base)
        if typing.get_type_hints(base, include_extras=True)[field.name] == hints[field.name]
        and described(base).get(field.name) == words.get(field.name)
    }
    return [field.name for field in dataclasses.fields(one) if field.name not in same and field.metadata != IN_MEMORY]


Field = tuple[str, str, str]
"""Name, type and description of a field."""


def fields_of(one: type[Any], bases: list[type[Any]]) -> list[Field]:
    """Return the fields of a type that its bases do not have, and its derived fields."""
    hints, words = typing.get_type_hints(one, include_extras=True), described(one)
    fields = [(name, type_text(hints[name]), words.get(name, "")) for name in own_fields(one, bases)]
    inherited = {name for base in bases for name in getattr(base, "derived", ())}
    for name in getattr(one, "derived", ()):
        if name not in inherited:
            text = inspect.getdoc(getattr(one, name)) or ""
            fields.append((name, "*derived*", " ".join(text.split())))
    return fields


def listed(fields: list[Field], elsewhere: dict[Field, str]) -> list[str]:
    """Return a line for each description; a field that stands alike in a section above refers to it.

    Fields that are described together share a line.
    """
    together: dict[str, dict[str, list[str]]] = {}
    for name, kind, words in fields:
        section = elsewhere.get((name, kind, words))
        text = f"as in [{section}](#{section.lower()})." if section and words else words
        together.setdefault(text, {}).setdefault(kind, []).append(f"`{name}`")
    lines = []
    for text, by_type in together.items():
        names = "; ".join(f"{', '.join(names)}, {kind}" for kind, names in by_type.items())
        lines.append(f"* {names}: {text}" if text else f"* {names}")
    return lines


def shared() -> list[type[Any]]:
    """Return the types with fields that several kinds inherit, the most general first."""
    counts: dict[type[Any], int] = {}
    for kind in KINDS.values():
        for base in kind.__mro__[1:]:
            if dataclasses.is_dataclass(base) and dataclasses.fields(base):
                counts[base] = counts.get(base, 0) + 1
    return sorted((base for base, count in counts.items() if count > 1), key=lambda base: len(base.__mro__))


def section(one: type[Any], heading: str, bases: list[type[Any]], elsewhere: dict[Field, str]) -> list[str]:
    """Return a heading, the first sentence of the type's docstring, and its fields.

    Args:
        one: the type. bases: those of its bases that have a section.
        elsewhere: the section above that describes a field.
    """
    first = " ".join((inspect.getdoc(one) or "").partition("\n\n")[0].split())
    links = f" Also the fields of [{bases[0].__name__}](#{bases[0].__name__.lower()})." if bases else ""
    return [f"\n{heading}\n", f"{first}{links}\n", *listed(fields_of(one, bases), elsewhere), ""]


def page() -> str:
    """Return the whole page."""
    common = shared()
    parts: list[str] = [HEAD]
    elsewhere: dict[Field, str] = {}
    for name, one in [*((base.__name__, base) for base in common), *KINDS.items()]:
        bases = [base for base in one.__mro__[1:] if base in common]
        parts += section(one, f"## {name}", bases, elsewhere)
        for field in fields_of(one, bases):
            elsewhere.setdefault(field, name)
    parts.append("\n## Parts\n")
    done: set[str] = set()
    while rest := [name for name in PARTS if name not in done]:
        for name in rest:
            done.add(name)
            parts += section(PARTS[name], f"### {name}", [], {})
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
