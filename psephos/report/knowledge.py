"""Who learned what: the matrix of coalitions against secrets (docs/security).

The verdicts of an audit come from its tests. A run does not repeat them: its report shows what the analysis expects of
its protocol, from the same ideal functionalities, and says that it is that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psephos.security.audit import CASES
from psephos.security.model import HIDDEN, LEAK, REVEALED, Case, expected

__all__ = ["VERDICTS", "Cell", "Matrix", "matrices"]

VERDICTS = {
    HIDDEN: ("○", "the coalition learns nothing about it beyond what else it is shown to learn"),
    REVEALED: ("●", "the ideal functionality gives it to this coalition as well, or it lies outside the threat model"),
    LEAK: ("✖", "it comes through although the paper says that it should not"),
}
"""Sign and meaning of each verdict; always shown with its word."""


@dataclass(frozen=True)
class Cell:
    """One verdict. `wanted` is None where nothing was tested; `evidence` is a sentence."""

    verdict: str
    wanted: str | None = None
    evidence: str | None = None


@dataclass(frozen=True)
class Matrix:
    """One protocol: `rows` of (coalition, members, a cell for each of `secrets`), and `notes`, numbered from 1.

    A cell's evidence names the notes that hold for it: one test tells about several secrets.
    """

    name: str
    secrets: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[Cell, ...]], ...]
    tested: bool
    notes: tuple[str, ...] = ()


def matrices(result: Mapping[str, Any]) -> list[Matrix]:
    """Those of an audit ("protocols"), or what the analysis expects of a run's protocol; none when it is not known."""
    if result.get("protocols"):
        return [_audited(protocol) for protocol in result["protocols"]]
    case = CASES.get(str(result.get("protocol")))
    return [] if case is None else [_untested(case)]


def _untested(case: Case) -> Matrix:
    rows = []
    notes: dict[str, int] = {}
    for coalition in case.coalitions:
        cells = []
        for secret in case.secrets:
            why = coalition.granted.get(secret) or coalition.known_leaks.get(secret)
            note = None if why is None else f"note {notes.setdefault(why, len(notes) + 1)}"
            cells.append(Cell(expected(coalition, secret), evidence=note))
        rows.append((coalition.name, "", tuple(cells)))
    return Matrix(case.name, case.secrets, tuple(rows), tested=False, notes=tuple(notes))


def _audited(protocol: Mapping[str, Any]) -> Matrix:
    secrets: dict[str, None] = {}
    notes: dict[str, int] = {}
    for coalition in protocol.get("coalitions", []):
        secrets |= dict.fromkeys(coalition.get("cells", {}))
    rows = []
    for coalition in protocol.get("coalitions", []):
        members = coalition.get("members", "")
        cells = coalition.get("cells", {})
        rows.append(
            (
                str(coalition.get("name", "")),
                members if isinstance(members, str) else ", ".join(map(str, members)),
                tuple(_cell(cells.get(secret), notes) for secret in secrets),
            )
        )
    return Matrix(str(protocol.get("name", "")), tuple(secrets), tuple(rows), tested=True, notes=tuple(notes))


def _cell(cell: Mapping[str, Any] | None, notes: dict[str, int]) -> Cell:
    if cell is None:
        return Cell("not examined")
    # As `judge` joins them; a semicolon in brackets belongs to one of them.
    tests = [test for test in re.split(r"; (?![^(]*\))", str(cell.get("evidence") or "")) if test]
    numbers = [str(notes.setdefault(test, len(notes) + 1)) for test in tests]
    words = f"{'test' if len(numbers) == 1 else 'tests'} {', '.join(numbers)}" if numbers else None
    return Cell(str(cell.get("verdict", "not examined")), cell.get("expected"), words)
