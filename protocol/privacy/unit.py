"""The unit of privacy of a release, and which releases protect what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Changes = Literal["any", "replace"]
"""How neighbours differ in one unit: replaced, added or removed; or replaced, where numbers of rows are public."""


@dataclass(frozen=True)
class PrivacyUnit:
    """What neighbouring inputs of a release differ in.

    Attributes:
        kind: "party" (all that one party holds), "shard" (the rows that one of several parties was dealt at random),
            "person" (all rows of one person at one party), "record" (one row), or "unknown", as in files that do not
            say it.
        of: what tells units of one kind apart: the column that names the parties or the persons ("" for a party that
            holds all rows of the file), or an identifier of the dealing, "" where that is secret or unknown.
        neighbours: "any" (replaced, added or removed), or "replace" (numbers of rows are public).
        at: of a person, the column that names the parties; "" where a party holds all rows of the file.
    """

    kind: Literal["party", "shard", "person", "record", "unknown"] = "unknown"
    of: str = ""
    neighbours: Changes = "any"
    at: str = ""

    def covers(self, other: PrivacyUnit) -> bool:
        """Return whether a release that is private for this unit is as private for the other one.

        A party's release protects each of its rows and persons. A shard's does not protect a row, since an added row
        changes how all rows are dealt, and what is unknown protects nothing, not even itself.
        """
        if self.neighbours not in ("any", other.neighbours):
            return False
        if self.kind == "party":
            parties = {"party": other.of, "person": other.at}
            return other.kind == "record" or (other.kind in parties and self.of in ("", parties[other.kind]))
        if self.kind == "person":
            return (other.kind, other.of) == ("person", self.of) and self.at in ("", other.at)
        known = self.kind == "record" or (self.kind == "shard" and self.of != "")
        return known and (self.kind, self.of) == (other.kind, other.of)

    def __str__(self) -> str:
        of = f"{self.of} at one {self.at}" if self.at else self.of
        what = f" (dealing {of})" if self.kind == "shard" and of else f" ({of})" if of else ""
        return f"{self.kind}{what}{', replaced' if self.neighbours == 'replace' else ''}"
