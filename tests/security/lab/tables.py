"""The audit as Markdown, for docs/security/matrix.md: `python -m tests.security.lab.tables AUDIT.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from psephos.security.audit import PROTOCOLS
from tests.security.lab.mutants import EQUIVALENT, MUTANTS

__all__ = ["matrix", "mutants"]

_MARKS = {"hidden": "hidden", "revealed by design": "*by design*", "LEAK": "**LEAK**"}


def matrix(protocol: dict[str, Any]) -> str:
    """Coalitions against secrets."""
    secrets = list(protocol["coalitions"][0]["cells"])
    lines = [f"| coalition | {' | '.join(secrets)} |", "| --- " * (len(secrets) + 1) + "|"]
    for coalition in protocol["coalitions"]:
        cells = [_MARKS[coalition["cells"][secret]["verdict"]] for secret in secrets]
        lines.append(f"| {coalition['name']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def mutants() -> str:
    """Which check catches which mutant; the suite holds that it does."""
    lines = ["| protocol | broken | caught by |", "| --- | --- | --- |"]
    lines += [
        f"| {mutant.protocol} | {mutant.name} | {mutant.check} |"
        for mutant in sorted(MUTANTS, key=lambda mutant: PROTOCOLS.index(mutant.protocol))
    ]
    return "\n".join(lines)


def page(report: dict[str, Any]) -> str:
    """All tables of one audit."""
    parts = [f"## {protocol['name']}\n\n{matrix(protocol)}" for protocol in report["protocols"]]
    parts.append(f"## Mutants\n\n{mutants()}")
    for title, told in (("What was not looked at", report["not_examined"]), ("Breaks that leak nothing", EQUIVALENT)):
        parts.append(f"## {title}\n\n" + "\n".join(f"* **{what}**: {why}." for what, why in told.items()))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
