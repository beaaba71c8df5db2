"""The site's page of the fields of a study, from the docstring of `Study`: `python docs/config/study_page.py`."""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
from collections.abc import Iterator

from psephos.audit.studies import trial
from psephos.protocol.study.study import FORMAT, Study

HEAD = """# The fields of a study

Of `study.toml`, which all members sign ([a study](study.md)). The digest covers the canonical form: comments and layout
do not count, everything else does. A field that is missing, unknown or of another type is an error that names it.

| field | meaning |
| --- | --- |
"""

ATTRIBUTES = {"key.bits": "key_bits", "curator.name": "curator_name", "curator.key": "curator"}
"""Fields whose attribute has another name."""

OTHERS = {
    "psephos_study": f"the version of this format, {FORMAT}; Psephos 0.2 reads 1.",
    "party.name": "a party's name.",
    "party.key": "its public key.",
    "party.holder": "its number as a key holder, from 1, or 0.",
}
"""Fields that are no attribute of `Study`."""


def names(table: dict[str, object], prefix: str = "") -> Iterator[str]:
    """Return the names of a study's fields, with those of their tables before them."""
    for name, value in table.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield from names(value[0], f"{name}.")
        elif isinstance(value, dict) and name != "parameters":
            yield from names(value, f"{name}.")
        else:
            yield prefix + name


def page() -> str:
    """Return the page."""
    _, _, listed = inspect.cleandoc(Study.__doc__ or "").partition("Attributes:\n")
    listed = listed.partition("\n\n")[0]
    found = re.finditer(r"^    (\w+): (.*(?:\n {8}.*)*)", listed, re.M)
    meanings = {match[1]: " ".join(match[2].split()) for match in found}
    rows = []
    for name in names(tomllib.loads(trial().study.text())):
        meaning = OTHERS.get(name) or meanings[ATTRIBUTES.get(name, name.split(".")[-1])]
        rows.append(f"| `{name}` | {meaning} |\n")
    return HEAD + "".join(rows)


if __name__ == "__main__":
    sys.stdout.write(page())
