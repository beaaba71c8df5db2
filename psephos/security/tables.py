"""The audit as Markdown, for docs/security/matrix.md: `python -m psephos.security.tables AUDIT.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from psephos.security.mutants import UNCAUGHT

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


def mutants(protocols: list[dict[str, Any]]) -> str:
    """Which check caught which mutant."""
    lines = ["| protocol | broken | caught by |", "| --- | --- | --- |"]
    for protocol in protocols:
        for mutant in protocol["mutants"]:
            lines.append(f"| {protocol['name']} | {mutant['name']} | {mutant['by'] or '**not caught**'} |")
    return "\n".join(lines)


def page(report: dict[str, Any]) -> str:
    """All tables of one audit."""
    parts = []
    for protocol in report["protocols"]:
        parts.append(f"## {protocol['name']}\n\n{matrix(protocol)}")
    parts.append(f"## Mutants\n\n{mutants(report['protocols'])}")
    uncaught = "\n".join(f"* **{what}**: {why}." for what, why in UNCAUGHT.items())
    parts.append(f"## What the analysis cannot catch\n\n{uncaught}")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
