"""Results of experiments: a paper's, with its numbers beside ours (`psephos reproduce`), and the cost of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from msgspec import Meta

from psephos.curator.ledger import Release
from psephos.results.base import Count, Curve, Fact, Page, Panel, Result, Share, Table, sentences
from psephos.results.trust import DIFFERS, SEEDED, test_key_warning

FactRow: TypeAlias = tuple[str, float | int | str, str]
"""A label, its value, and what is shown after the value."""


@dataclass(frozen=True)
class Mean:
    """A mean over repetitions and its standard deviation; 0 where there was one repetition."""

    mean: Share
    std: Annotated[float, Meta(ge=0)] = 0.0

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Return the mean of values."""
        return cls(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0)

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.std:.3f}"


def curve(algorithm: str, x: Sequence[float], means: Sequence[Mean]) -> Curve:
    """Return a curve through the means at `x`, with their standard deviations."""
    return Curve(algorithm, list(x), [point.mean for point in means], [point.std for point in means])


def beside(rows: Sequence[tuple[str, str, str, str, str]]) -> list[Table]:
    """Return the table of the paper's numbers and statements, of rows (what, paper, here, verdict, why)."""
    return [Table("Beside the paper", ("what", "paper", "here", "verdict", "why"), rows)] if rows else []


@dataclass(frozen=True, kw_only=True)
class PaperResult(Result):
    """An experiment of a paper, repeated.

    `facts` are rows (label, value, what is shown after it), `panels` its figures, whose curves have every number,
    `tables` the paper's numbers beside ours. `quick` has fewer trials and points than the paper. `key_bits` is 0, and
    `sums_equal_reference` null, where nothing was encrypted.
    """

    kind: ClassVar[str] = "paper"

    experiment: str
    paper: str
    quick: bool = False
    draws_per_point: Count
    test: Count
    seed: int
    options: dict[str, Any] = field(default_factory=dict)
    facts: list[FactRow]
    panels: list[Panel]
    privacy: dict[str, Release]
    tables: list[Table]
    key_bits: Count = 0
    sums_equal_reference: bool | None = None
    noise_source: Literal["simulation"] = "simulation"

    @property
    def exact(self) -> bool | None:
        return self.sums_equal_reference

    def page(self) -> Page:
        quick = "Run with --quick: fewer trials and points than the paper's. Do not cite these numbers."
        lead = (
            "An experiment of a paper, repeated. It shows what privacy costs in accuracy. The messages of the protocol "
            "and who learns what from them are in the reports of `psephos run` and `psephos audit`."
        )
        note = (
            "Each point of a curve is a separate release. An experiment draws thousands of them from the same data, "
            "and no guarantee covers all of them together: use it with public data only."
        )
        repeat = (
            f"Seed {self.seed} drives splits, training and noise, so a repetition gives the same numbers, except for "
            "the times."
        )
        warnings = [SEEDED, quick * self.quick, DIFFERS * (self.exact is False), test_key_warning(self.key_bits)]
        return Page(
            title=f"Psephos: {self.experiment}",
            facts=[
                *sentences("warning", *warnings),
                *sentences("lead", lead),
                Fact("fact", "Paper", self.paper),
                Fact("fact", "Test samples", self.test),
                Fact("fact", "Noise draws per point", self.draws_per_point),
                *(Fact("fact", *row) for row in self.facts),
                *sentences("note", note),
                *sentences("repeat", repeat),
            ],
            panels=self.panels,
            releases=self.privacy,
            tables=self.tables,
        )


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
