"""Who learned what (docs/security): the verdicts that the analysis expects of a run's protocol, and their signs.

The verdicts of an audit come from its tests. A run does not repeat the tests: its report shows the verdicts that the
analysis expects of its protocol, from the same ideal functionalities, and says that they are expectations.
"""

from __future__ import annotations

from psephos.audit.matrix import EXPECTED, HIDDEN, LEAK, REVEALED
from psephos.results.base import AuditedCell, Matrix
from psephos.results.security import AuditedCoalition, AuditedProtocol

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
    coalitions = []
    for coalition in case.coalitions:
        why = coalition.known_leaks | coalition.granted
        cells = {secret: AuditedCell(coalition.expected(secret), None, why.get(secret, "")) for secret in case.secrets}
        coalitions.append(AuditedCoalition(coalition.name, [], cells))
    return [AuditedProtocol(case.name, coalitions).matrix(tested=False)]
