"""The site's page of who learns what, with the expected verdicts: `python -m tests.security.lab.tables` prints it."""

from __future__ import annotations

import sys

from psephos.audit.matrix import EXPECTED, HIDDEN, LEAK, REVEALED, Expected
from psephos.audit.run import NOT_EXAMINED

HEAD = """# The matrix

Which coalition learns which secret, as `psephos audit --json` must find it; the JSON names the checks behind each
verdict.

* *By design*: the ideal output gives the secret as well, and a check reads it from the view.
* **LEAK**: a check finds what the ideal output does not give.
* All other secrets are hidden from the coalition: no check found a way from the view to the secret.

`tests/security/lab/faults.toml` names the checks that notice each broken protocol.
"""

_MARKS = {HIDDEN: "hidden", REVEALED: "by design", LEAK: "**LEAK**"}


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _matrix(case: Expected) -> str:
    """What each coalition learns; coalitions that learn the same share a row, and all other secrets are hidden."""
    coalitions: dict[tuple[str, ...], list[str]] = {}
    for coalition in case.coalitions:
        verdicts = tuple(_MARKS[coalition.expected(secret)] for secret in case.secrets)
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
    """The matrices, protocols with the same one together, and what no check examines."""
    matrices: dict[str, list[str]] = {}
    for case in EXPECTED.values():
        matrices.setdefault(_matrix(case), []).append(case.name)
    parts = [HEAD.rstrip(), *(f"## {', '.join(names)}\n\n{text}" for text, names in matrices.items())]
    parts.append(f"## Not examined\n\n{_list(NOT_EXAMINED)}")
    return "\n\n".join(parts) + "\n"


def _list(reasons: dict[str, str]) -> str:
    return "\n".join(f"* **{what}**: {why}." for what, why in reasons.items())


if __name__ == "__main__":
    sys.stdout.write(page())
