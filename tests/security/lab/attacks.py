"""The site's page of attacks that do not succeed, from `attacks.toml`: `python -m tests.security.lab.attacks`."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

__all__ = ["attacks", "page"]

HEAD = """# Attacks that do not succeed

Tests show that each attack fails, with the error named; where the old behaviour can still be chosen (`--proofs none`,
Pathak's `printed` and `repaired`), that it works there.

| attack | what stops it | tests |
| --- | --- | --- |
"""


def attacks() -> list[dict[str, Any]]:
    """What, what stops it, and the files of tests, relative to `tests/`."""
    listed: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["attack"]
    return listed


def page() -> str:
    """Return the page."""
    rows = (
        f"| {one['what']} | {one['stopped_by']} | {', '.join(f'`tests/{path}`' for path in one['tests'])} |\n"
        for one in attacks()
    )
    return HEAD + "".join(rows)


if __name__ == "__main__":
    sys.stdout.write(page())
