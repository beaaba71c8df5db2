"""The tables after the introduction of docs/security/matrix.md: `python -m tests.security.lab.tables`.

The verdicts are the expected ones, and the mutants' checks the ones that catch them; the suite holds both.
"""

from __future__ import annotations

import sys

from psephos.audit.model import HIDDEN, LEAK, REVEALED, Case, expected_verdict
from psephos.audit.run import CASES, NOT_EXAMINED, PROTOCOLS
from tests.security.lab.mutants import EQUIVALENT, MUTANTS

__all__ = ["page"]

_MARKS = {HIDDEN: "hidden", REVEALED: "by design", LEAK: "**LEAK**"}


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _matrix(case: Case) -> str:
    """What each coalition learns; coalitions that learn the same share a row, and all other secrets are hidden."""
    coalitions: dict[tuple[str, ...], list[str]] = {}
    for coalition in case.coalitions:
        verdicts = tuple(_MARKS[expected_verdict(coalition, secret)] for secret in case.secrets)
        coalitions.setdefault(verdicts, []).append(coalition.name)
    rows = [_row("coalition", _MARKS[REVEALED], _MARKS[LEAK]), "| --- | --- | --- |"]
    for verdicts, names in coalitions.items():
        learned = [
            ", ".join(secret for secret, verdict in zip(case.secrets, verdicts, strict=True) if verdict == mark) or "-"
            for mark in (_MARKS[REVEALED], _MARKS[LEAK])
        ]
        rows.append(_row("; ".join(names), *learned))
    return f"Secrets: {', '.join(case.secrets)}.\n\n" + "\n".join(rows)


def page() -> str:
    """All tables."""
    parts = [f"## {case.name}\n\n{_matrix(case)}" for case in CASES.values()]
    ordered = sorted(MUTANTS, key=lambda mutant: PROTOCOLS.index(mutant.protocol))
    protocols: dict[tuple[str, str], list[str]] = {}
    for mutant in ordered:
        protocols.setdefault((mutant.name, mutant.check), []).append(mutant.protocol)
    rows = [_row("broken", "caught by", "protocols"), "| --- | --- | --- |"]
    rows += [_row(name, check, ", ".join(names)) for (name, check), names in protocols.items()]
    parts.append("## Mutants\n\n" + "\n".join(rows))
    for title, told in (("Not examined", NOT_EXAMINED), ("Changes that leak nothing", EQUIVALENT)):
        parts.append(f"## {title}\n\n" + "\n".join(f"* **{what}**: {why}." for what, why in told.items()))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
