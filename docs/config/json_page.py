"""docs/json.md from the types of the outcomes: `python docs/config/json_page.py > docs/json.md`."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import types
import typing
from typing import Any

from psephos.results import FORMAT, KINDS

HEAD = f"""# The JSON of every command

Written by `python docs/config/json_page.py` from the types in `psephos.results`; a test compares them.

With `--json` a command writes one object: `format` ({FORMAT} today; another number means that a reader must not
guess), `kind`, and the fields below. A field that is marked *derived* follows from the others and is written for
whoever reads the object without this program; reading ignores it. `psephos.results.Outcome.from_json` reads every
kind, and refuses by name what is missing, unknown, of another type or out of range. A report's own JSON
(`report.json`) has `kind` "report", the outcome under `result`, and beside it `environment`, `command` and
`transcript`.

`notice` stands first in the JSON of a run on rows of a user's own (a table of `--data`, or arrays), as in a report
of one: it has accuracies measured on private rows, and `alpha` where counts were opened, which no epsilon covers, so
it is not for publication. Files that Psephos writes of such a run (`result.json`, `report.html`, `report.json`, the
figures) are readable by their owner only; a file that a shell makes of `--json` has the mode that the shell's umask
allows. Runs on the published data sets that Psephos knows by name have no notice: their rows are public. Reading
ignores the field.

Shares and accuracies lie in [0, 1], times are seconds, sizes are bytes, and no number is infinite: what is not finite
is null. In `accuracy.NAME` there is `nonprivate`, `private` and `private_std`, null where there is no such number.
With several epsilons what is said of accuracy and privacy is that of the first, and `by_epsilon` has every accuracy.
"""

PARTS: dict[str, type[Any]] = {}


def type_text(hint: Any) -> str:
    """A type in the words of JSON; notes the dataclasses that it names."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return type_text(inner[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(type_text(one) for one in inner)
    if origin is typing.Literal:
        return " or ".join(f'"{value}"' for value in inner)
    if origin is list:
        return f"list of {type_text(inner[0])}"
    if origin is dict:
        return f"object of {type_text(inner[1])}"
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        PARTS[hint.__name__] = hint
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    names = {int: "integer", float: "number", str: "text", bool: "true or false", type(None): "null"}
    return names.get(hint, "anything")


def described(one: type[Any]) -> dict[str, str]:
    """What the docstrings of a type and its bases say of each field."""
    told: dict[str, str] = {}
    for base in reversed(one.__mro__):
        text = inspect.cleandoc(base.__doc__ or "")
        _, _, listed = text.partition("Attributes:\n")
        for match in re.finditer(r"^    ([\w, ]+): (.*(?:\n {8}.*)*)", listed, re.M):
            for name in match[1].split(", "):
                told[name] = " ".join(match[2].split())
    return told


def table(one: type[Any]) -> list[str]:
    """The fields of a type."""
    hints, told = typing.get_type_hints(one, include_extras=True), described(one)
    lines = ["| field | type | what it is |", "| --- | --- | --- |"] if told else ["| field | type |", "| --- | --- |"]
    for field in dataclasses.fields(one):
        said = [told.get(field.name, "")] if told else []
        lines.append(f"| {' | '.join((f'`{field.name}`', type_text(hints[field.name]), *said))} |")
    for name in getattr(one, "derived", ()):
        words = inspect.getdoc(getattr(one, name)) or ""
        lines.append(f"| `{name}` | *derived* | {' '.join(words.split())} |")
    return lines


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for kind, one in KINDS.items():
        first = " ".join((inspect.getdoc(one) or "").partition("\n\n")[0].split())
        parts += [f"\n## {kind}\n\n{first}\n", *table(one), ""]
    parts.append("\n## Parts\n")
    done: set[str] = set()
    while rest := [name for name in PARTS if name not in done]:
        for name in rest:
            done.add(name)
            first = " ".join((inspect.getdoc(PARTS[name]) or "").partition("\n\n")[0].split())
            parts += [f"\n### {name}\n\n{first}\n", *table(PARTS[name]), ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
