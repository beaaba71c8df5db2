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
    marks = [mark for mark in (REVEALED, LEAK) if any(_MARKS[mark] in verdicts for verdicts in coalitions)]
    rows = [_row("coalition", *(_MARKS[mark] for mark in marks)), "| --- " * (1 + len(marks)) + "|"]
    for verdicts, names in coalitions.items():
        learned = [
            ", ".join(secret for secret, verdict in zip(case.secrets, verdicts, strict=True) if verdict == _MARKS[mark])
            for mark in marks
        ]
        rows.append(_row("; ".join(names), *(text or "-" for text in learned)))
    secrets = f"Secrets: {', '.join(case.secrets)}."
    if not marks:
        return f"{secrets} All hidden from: {'; '.join(coalition.name for coalition in case.coalitions)}."
    return f"{secrets}\n\n" + "\n".join(rows)


def page() -> str:
    """All tables; protocols with the same matrix share one, and mutants that one check catches share a row."""
    matrices: dict[str, list[str]] = {}
    for case in CASES.values():
        matrices.setdefault(_matrix(case), []).append(case.name)
    parts = [f"## {', '.join(names)}\n\n{text}" for text, names in matrices.items()]
    ordered = sorted(MUTANTS, key=lambda mutant: PROTOCOLS.index(mutant.protocol))
    protocols: dict[tuple[str, str], list[str]] = {}
    for mutant in ordered:
        protocols.setdefault((mutant.name, mutant.check), []).append(mutant.protocol)
    broken: dict[tuple[str, str], list[str]] = {}
    for (name, check), names in protocols.items():
        broken.setdefault((check, ", ".join(names)), []).append(name)
    rows = [_row("caught by", "protocols", "broken"), "| --- | --- | --- |"]
    rows += [_row(check, names, "; ".join(mutants)) for (check, names), mutants in broken.items()]
    parts.append("## Mutants\n\n" + "\n".join(rows))
    for title, reasons in (("Not examined", NOT_EXAMINED), ("Changes that leak nothing", EQUIVALENT)):
        parts.append(f"## {title}\n\n" + "\n".join(f"* **{what}**: {why}." for what, why in reasons.items()))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
