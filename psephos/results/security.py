"""Results of the security analysis (`psephos audit`): who learned what, and lower bounds of epsilon."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from msgspec import Meta

from psephos.results.base import AuditedCell, Count, Fact, Matrix, Page, Positive, Result, Share, Table, sentences


@dataclass(frozen=True)
class AuditedCoalition:
    """A row of the matrix: roles that pool their views, and a cell for each secret."""

    name: str
    members: list[str]
    cells: dict[str, AuditedCell]


@dataclass(frozen=True)
class AuditedProtocol:
    """One protocol's matrix."""

    name: str
    coalitions: list[AuditedCoalition]

    def matrix(self, *, tested: bool = True) -> Matrix:
        """Return the matrix for a page, with numbers for texts of evidence, which may stand behind several cells."""
        secrets = list(dict.fromkeys(secret for coalition in self.coalitions for secret in coalition.cells))
        notes: dict[str, int] = {}

        def cell(audited: AuditedCell) -> AuditedCell:
            # A semicolon in brackets belongs to one test.
            texts = re.split(r"; (?![^(]*\))", audited.evidence) if tested else [audited.evidence]
            numbers = [str(notes.setdefault(text, len(notes) + 1)) for text in texts if text]
            word = f"test{'s' * (len(numbers) > 1)}" if tested else "note"
            return replace(audited, evidence=f"{word} {', '.join(numbers)}" if numbers else "")

        missing = AuditedCell("not examined")
        rows = [
            (c.name, ", ".join(c.members), [cell(c.cells.get(secret, missing)) for secret in secrets])
            for c in self.coalitions
        ]
        return Matrix(self.name, secrets, rows, tested, list(notes))


@dataclass(frozen=True, kw_only=True)
class AuditResult(Result):
    """Secrets that coalitions of roles learned in each protocol.

    `false_alarm_rate` bounds the probability that a sound protocol fails any check; `power` is the accuracy of a
    classifier that the two-sample tests notice with probability 0.99 (0.5 is guessing), with `views` on each side.
    """

    kind: ClassVar[str] = "audit"

    protocols: list[AuditedProtocol]
    as_expected: bool
    false_alarm_rate: Share
    power: Share
    views: Count
    seed: int
    not_examined: dict[str, str] = field(default_factory=dict)

    @property
    def exact(self) -> bool | None:
        return self.as_expected

    def page(self) -> Page:
        one = f" in {self.protocols[0].name}" if len(self.protocols) == 1 else ""
        lead = (
            "The security analysis: each role's and each coalition's view was compared with what a simulator makes "
            "from the coalition's input and output alone, and attacked. Views hold secrets, so there are verdicts here "
            "and no messages; `psephos run --report DIR` draws those."
        )
        repeat = (
            f"Seed {self.seed} drives the views that are compared and the tests. The command takes fresh coins each "
            "time; `psephos.audit.run_audit(..., seed=...)` repeats this very run."
        )
        noticed = f"a leak that lets a classifier be right in {self.power:.1%} of cases"
        rows = list(self.not_examined.items())
        return Page(
            title=f"Psephos: who learned what{one}",
            facts=[
                *_outcome(self.as_expected),
                *sentences("lead", lead),
                Fact("fact", "Probability of a false alarm, all tests together", self.false_alarm_rate),
                Fact("fact", "Views on each side of a comparison", self.views),
                Fact("fact", "Noticed with probability 0.99", noticed),
                *sentences("repeat", repeat),
            ],
            matrices=[protocol.matrix() for protocol in self.protocols],
            tables=[Table("What was not examined", ("what", "why"), rows, detail=True)] if rows else [],
        )


@dataclass(frozen=True)
class Mechanism:
    """One mechanism on a worst-case pair: `epsilon` is claimed, `lower_bound` holds with `confidence`."""

    name: str
    dimension: Count
    epsilon: Positive
    delta: Share
    lower_bound: Annotated[float, Meta(ge=0)]
    samples: Count
    confidence: Share

    @property
    def passed(self) -> bool:
        """Whether the lower bound is at most the claim; if not, privacy is worse than claimed."""
        return self.lower_bound <= self.epsilon


@dataclass(frozen=True)
class AttackedRelease(Mechanism):
    """A release of `dimension` entries, attacked `samples` times.

    `success` is the share of right guesses; `allowed` is their largest probability under the claim.
    """

    success: Share
    allowed: Share


@dataclass(frozen=True)
class Finding:
    """Something that a release's epsilon does not cover: the check that failed, and a sentence with its numbers."""

    check: str
    said: str


@dataclass(frozen=True)
class ComparedRun:
    """One command, run on a table and on a neighbour of it.

    `ratio` is the largest of measured to claimed changes; None if nothing that may differ was compared.
    """

    pipeline: str
    neighbour: str
    findings: list[Finding] = field(default_factory=list)
    ratio: Annotated[float, Meta(ge=0)] | None = None


@dataclass(frozen=True, kw_only=True)
class PrivacyAuditResult(Result):
    """Audit of noise mechanisms, of attacked releases, and of every command on neighbouring tables."""

    kind: ClassVar[str] = "privacy-audit"
    derived: ClassVar[tuple[str, ...]] = ("as_expected",)

    mechanisms: list[Mechanism]
    attacked: list[AttackedRelease] = field(default_factory=list)
    runs: list[ComparedRun] = field(default_factory=list)

    @property
    def as_expected(self) -> bool:
        """Whether no lower bound exceeds its claim, and no run has a finding."""
        bounds = (*self.mechanisms, *self.attacked)
        return all(one.passed for one in bounds) and not any(one.findings for one in self.runs)

    @property
    def exact(self) -> bool | None:
        return self.as_expected

    def page(self) -> Page:
        lead = (
            "Every noise mechanism, sampled, and whole commands on tables that differ in one party's rows. The tables "
            "are made up unless one was named, and keys are short. Who learns what from messages is not in this "
            "report; `psephos audit` without --privacy makes that one."
        )
        repeat = (
            "No seed for the mechanisms: outputs are drawn from the operating system's randomness, as releases are, so "
            "the bounds differ a little each time. The runs on neighbouring tables repeat."
        )
        facts = [*_outcome(self.as_expected), *sentences("lead", lead), *sentences("repeat", repeat)]
        for one in self.mechanisms[:1]:
            facts.append(Fact("fact", "Outputs an input", one.samples))
            facts.append(Fact("fact", "Confidence of each bound", one.confidence))
        if self.runs:
            wrong = sum(bool(one.findings) for one in self.runs)
            label = "Runs on neighbouring tables, and those with a finding"
            facts.append(Fact("fact", label, f"{len(self.runs)}, {wrong}"))
        parts = (self.mechanisms, self._mechanisms), (self.attacked, self._attacked), (self.runs, self._runs)
        tables = [table() for audited, table in parts if audited]
        return Page(title="Psephos: audit of the privacy of releases", facts=facts, tables=tables)

    def _mechanisms(self) -> Table:
        columns = ("mechanism", "dimensions", "epsilon claimed", "epsilon at least", "verdict", "at delta")
        rows = [
            [one.name, one.dimension, one.epsilon, one.lower_bound, "holds" if one.passed else "VIOLATED", one.delta]
            for one in self.mechanisms
        ]
        about = (
            "Each mechanism was run on two neighbouring inputs, and epsilon bounded from below by how well their "
            "outputs can be told apart. A bound above the claim convicts the mechanism. One below it proves nothing: "
            "the audit would see a gross mistake, not a small one."
        )
        return Table("Audited mechanisms", columns, rows, about)

    def _attacked(self) -> Table:
        columns = (
            "release",
            "epsilon claimed",
            "epsilon at least",
            "attack success",
            "allowed",
            "verdict",
            "at delta",
            "releases",
        )
        rows = [
            [
                one.name,
                one.epsilon,
                one.lower_bound,
                f"{one.success:.1%}",
                f"{one.allowed:.1%}",
                "holds" if one.passed else "VIOLATED",
                one.delta,
                one.samples,
            ]
            for one in self.attacked
        ]
        about = (
            "Every party of a release held one of two opposite contents, by a fair coin. The attacker knows the noise "
            "that the claim does not count on, and guesses all coins from the noisy sum. Nothing is assumed of the "
            "law of the noise."
        )
        return Table("Attacked releases", columns, rows, about)

    def _runs(self) -> Table:
        columns = ("command", "what differs", "finding", "largest moved/claimed")
        rows = [
            [
                one.pipeline,
                one.neighbour,
                "; ".join(f"{finding.check}: {finding.said}" for finding in one.findings) or "none",
                "nothing to compare" if one.ratio is None else one.ratio,
            ]
            for one in self.runs
        ]
        about = (
            "Each command was run on a table and on a neighbour of it. What the other parties computed and encrypted, "
            "the messages, the public terms and the public files must be the same, but for what is a function of the "
            "noisy result; what the changed party encrypted, and the sum, may move by what the noise is sized for. "
            "Where a run is refused for the party's own rows, or both are refused alike, there is nothing to compare."
        )
        return Table("Commands on neighbouring tables", columns, rows, about)


def _outcome(as_expected: bool) -> list[Fact]:
    """Return the fact whether everything is as expected."""
    if as_expected:
        return sentences("answer", "Every verdict is the expected one.")
    return sentences("warning", "Not everything is as expected: something leaks, or an epsilon does not hold.")
