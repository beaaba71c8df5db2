"""Who learned what (docs/security): the verdicts that the analysis expects of a run's protocol, and their signs.

The verdicts of an audit come from its tests. A run does not repeat the tests: its report shows the verdicts that the
analysis expects of its protocol, from the same ideal functionalities, and says that they are expectations.
"""

from __future__ import annotations

from psephos.audit.matrix import EXPECTED, HIDDEN, LEAK, REVEALED
from psephos.results.base import Matrix, VerdictCell

VERDICTS = {
    HIDDEN: ("○", "the coalition learns nothing about it beyond what else it is shown to learn"),
    REVEALED: ("●", "the ideal functionality gives it to this coalition as well, or it lies outside the threat model"),
    LEAK: ("✖", "it comes through although the paper says that it should not"),
}
"""Sign and meaning of each verdict; always shown with its word."""


def expected_matrix(name: str | None) -> list[Matrix]:
    """Return the matrix of expected verdicts for the protocol `name`; an empty list if it has no analysis."""
    case = EXPECTED.get(name or "")
    if case is None:
        return []
    notes: dict[str, int] = {}
    rows = []
    for coalition in case.coalitions:
        reasons = [coalition.granted.get(secret) or coalition.known_leaks.get(secret) for secret in case.secrets]
        numbers = ["" if why is None else f"note {notes.setdefault(why, len(notes) + 1)}" for why in reasons]
        cells = [
            VerdictCell(coalition.expected(secret), evidence=number)
            for secret, number in zip(case.secrets, numbers, strict=True)
        ]
        rows.append((coalition.name, "", cells))
    return [Matrix(case.name, case.secrets, rows, tested=False, notes=list(notes))]
