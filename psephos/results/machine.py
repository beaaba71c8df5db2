"""The predicted cost of a run (`psephos plan`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from psephos.results.base import Count, Fact, Page, Result, Table, sentences
from psephos.results.trust import test_key_warning


@dataclass(frozen=True, kw_only=True)
class PlanResult(Result):
    """Predicted cost of a run.

    `seconds` are extrapolated from one timed sum on this machine. `bytes` is the size of one ballot, of all, of the
    opening and of what each observer of the board downloads; `bits_per_count` are on the wire for each summed number,
    of which a sum of M such numbers needs `floor_bits`.
    """

    kind: ClassVar[str] = "plan"

    protocol: str
    parties: Count
    auxiliary: Count
    classes: Count
    features: Count
    steps: Count
    key_bits: Count
    degree: Count
    randomness: str
    proofs: str
    workers: Count
    holders: Count
    threshold: Count
    slots_per_plaintext: Count
    ciphertexts_per_ballot: Count
    bytes: dict[str, Count]
    bits_per_count: float
    floor_bits: Count

    def page(self) -> Page:
        sizes = [[name.replace("_", " "), size] for name, size in self.bytes.items()]
        answer = (
            f"About {_duration(self.seconds['total'])} on this machine, key generation apart; "
            f"{self.bytes['ballots'] / 1e6:,.3g} MB of ballots."
        )
        return Page(
            title=f"Psephos: {self.protocol}, predicted",
            facts=[
                *sentences("answer", answer),
                *sentences("warning", test_key_warning(self.key_bits)),
                Fact("fact", "Parties", self.parties),
                Fact("fact", "Public auxiliary samples", self.auxiliary),
                Fact("fact", "Bits per summed number", self.bits_per_count, f", the floor is {self.floor_bits}"),
            ],
            tables=[
                Table("On the wire", ("what", "bytes"), sizes),
                Table("Seconds", ("phase", "about"), [[name, each] for name, each in self.seconds.items()]),
            ],
        )


def _duration(seconds: float | None) -> str:
    """Return a time with a suitable unit; "an unknown time" for None."""
    if seconds is None:
        return "an unknown time"
    for unit, length in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.2g} s"
