"""Who learned what: the matrix of coalitions against secrets.

The verdicts of an audit come from its tests. A run does not repeat them; for the counting protocols the report shows
what the analysis expects (docs/security), and says that it is that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["VERDICTS", "Cell", "Matrix", "matrices"]

VERDICTS = {
    "hidden": ("○", "the coalition learns nothing beyond what else it is shown to learn"),
    "revealed by design": ("●", "it is this coalition's output, or its own input"),
    "not private": ("◐", "revealed, and must not leave this coalition"),
    "trusted": ("▲", "it could find out, and is trusted not to"),
    "LEAK": ("✖", "learned against the protocol's purpose"),
}
"""Sign and meaning of each verdict; always shown with its word."""


@dataclass(frozen=True)
class Cell:
    """One verdict. `expected` is None where nothing was tested."""

    verdict: str
    expected: str | None = None
    evidence: str | None = None


@dataclass(frozen=True)
class Matrix:
    """One protocol: `rows` of (coalition, members, a cell for each of `secrets`)."""

    name: str
    secrets: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[Cell, ...]], ...]
    tested: bool


_HIDDEN, _GIVEN, _KEPT, _TRUSTED = "hidden", "revealed by design", "not private", "trusted"

_SECRETS = ("another party's data", "its classifier", "its votes", "alpha, the counts", "released classifier")

_EXPECTED: Mapping[str, tuple[tuple[str, str, tuple[str, ...]], ...]] = {
    "tally": (
        ("a party", "its own data and classifier, the board", (_HIDDEN, _HIDDEN, _HIDDEN, _HIDDEN, _GIVEN)),
        ("key holders", "fewer than the threshold, the board", (_HIDDEN, _HIDDEN, _HIDDEN, _HIDDEN, _GIVEN)),
        ("curator", "the board, the opened sum, its noise", (_HIDDEN, _HIDDEN, _HIDDEN, _KEPT, _GIVEN)),
        ("curator and holders", "fewer than the threshold", (_HIDDEN, _HIDDEN, _HIDDEN, _KEPT, _GIVEN)),
        ("public", "the board", (_HIDDEN, _HIDDEN, _HIDDEN, _HIDDEN, _GIVEN)),
        ("dealer of the key", "p and q, once", (_HIDDEN, _TRUSTED, _TRUSTED, _TRUSTED, _GIVEN)),
        ("holders, enough to open", "outside the model", (_HIDDEN, _TRUSTED, _TRUSTED, _TRUSTED, _GIVEN)),
    ),
    "statistic": (
        ("a party", "its own data and classifier, its own noise share", (_HIDDEN, _HIDDEN, _HIDDEN, _HIDDEN, _GIVEN)),
        ("parties, at most as agreed", "their own noise shares", (_HIDDEN, _HIDDEN, _HIDDEN, _HIDDEN, _GIVEN)),
        ("key holders", "fewer than the threshold, the board", (_HIDDEN, _HIDDEN, _HIDDEN, _HIDDEN, _GIVEN)),
        ("curator", "the board, the sum with everybody's noise", (_HIDDEN, _HIDDEN, _HIDDEN, _HIDDEN, _GIVEN)),
        ("public", "the board", (_HIDDEN, _HIDDEN, _HIDDEN, _HIDDEN, _GIVEN)),
        ("dealer of the key", "p and q, once", (_HIDDEN, _HIDDEN, _TRUSTED, _TRUSTED, _GIVEN)),
        ("holders, enough to open", "outside the model", (_HIDDEN, _HIDDEN, _TRUSTED, _TRUSTED, _GIVEN)),
    ),
}  # fmt: skip


def matrices(result: Mapping[str, Any]) -> list[Matrix]:
    """Those of an audit ("protocols"), or what the analysis expects of a run's protocol; none when it is not known."""
    if result.get("protocols"):
        return [_audited(protocol) for protocol in result["protocols"]]
    if result.get("matrix"):
        return [_audited(result["matrix"])]
    rows = _EXPECTED.get(str(result.get("protocol")))
    if rows is None:
        return []
    drawn = tuple((name, members, tuple(Cell(verdict) for verdict in verdicts)) for name, members, verdicts in rows)
    return [Matrix(str(result["protocol"]), _SECRETS, drawn, tested=False)]


def _audited(protocol: Mapping[str, Any]) -> Matrix:
    secrets: dict[str, None] = {}
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
                tuple(_cell(cells.get(secret)) for secret in secrets),
            )
        )
    return Matrix(str(protocol.get("name", "")), tuple(secrets), tuple(rows), tested=True)


def _cell(cell: Mapping[str, Any] | None) -> Cell:
    if cell is None:
        return Cell("not examined")
    return Cell(str(cell.get("verdict", "not examined")), cell.get("expected"), cell.get("evidence"))
