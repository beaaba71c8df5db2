"""Coalitions, secrets, checks and verdicts: the matrix that an audit fills in.

A `Check` asks one question about one coalition: *does this leak?* It answers with evidence. A check that hides
something compares the coalition's real view with a simulated one, or two views of inputs with equal ideal output, or
looks at ciphertexts for freshness; it leaks when it finds a difference. A check that reveals something computes the
secret from the view; it leaks when it succeeds. Which leaks are meant is the ideal functionality's word, not the
check's.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from psephos.results import AuditedCell

Verdict = Literal["hidden", "revealed by design", "LEAK"]
HIDDEN: Verdict = "hidden"
"""No check that could have told the secret did."""
REVEALED: Verdict = "revealed by design"
"""What the coalition is given by the protocol, or holds the keys for; said so, and not a leak."""
LEAK: Verdict = "LEAK"
"""The coalition learned what its ideal functionality does not give it."""

T = TypeVar("T")


class Context:
    """One run of the analysis: how many views are sampled, and where coins come from.

    With a seed everything is repeatable, which is what keeps a test stable; without one each run tests anew, and the
    stated false-alarm rates are over fresh coins.
    """

    def __init__(self, *, seed: int | None = None, views: int = 100, rate: float = 1e-4) -> None:
        """`views`: sampled per side of a two-sample test. `rate`: the false-alarm rate of each test."""
        self.views, self.rate = views, rate
        self.seed = int.from_bytes(SYSTEM.draw(6), "big") if seed is None else seed
        self._cache: dict[Hashable, Any] = {}

    def coins(self, *labels: int | str) -> Randomness:
        """A role's coins in one run."""
        return SimulationRandomness(self.seed, *labels)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """`make()`, computed once per context: many checks look at the same views."""
        if key not in self._cache:
            self._cache[key] = make()
        result: T = self._cache[key]
        return result


@dataclass(frozen=True)
class CheckResult:
    """What a check found.

    Attributes:
        leaks: whether the secrets it is about come through to the coalition.
        evidence: what was looked at and found, one sentence, with numbers.
        p_value: of a statistical check.
    """

    leaks: bool
    evidence: str
    p_value: float | None = None


Run = Callable[[Context], CheckResult]
"""What answers a check's question."""


@dataclass(frozen=True)
class Members:
    """Who pools their views. `opens`: can decrypt single ballots (dealer, t holders). `lying`: parties that deviate."""

    curator: bool = False
    parties: tuple[int, ...] = ()
    holders: tuple[int, ...] = ()
    opens: bool = False
    lying: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """As in transcripts; who opens ballots without shares of the key is the dealer."""
        numbered = [f"party {p}" for p in self.parties] + [f"holder {h}" for h in self.holders]
        return (*["curator"] * self.curator, *numbered, *["dealer"] * (self.opens and not self.holders))


@dataclass(frozen=True)
class Check:
    """One question about one coalition.

    Attributes:
        name: unique in its protocol.
        coalition: whose view.
        secrets: what comes through if it leaks.
        run: answers it.
        statistical: then its false-alarm rate is the context's.
    """

    name: str
    coalition: str
    secrets: tuple[str, ...]
    run: Run = field(repr=False)
    statistical: bool = False


class Checks(list[Check]):
    """A case's checks as they are written down."""

    def add(self, what: str, coalition: str, secrets: tuple[str, ...], run: Run, *, statistical: bool = False) -> None:
        """One check, named by what it does and whose view it looks at."""
        self.append(Check(f"{what}, {coalition}", coalition, secrets, run, statistical))


@dataclass(frozen=True)
class Coalition:
    """Who pools their views.

    Attributes:
        name: as in the matrix.
        members: roles.
        granted: secret -> why the coalition has it in the ideal world as well.
        known_leaks: secret -> what comes through though the paper says it should not.
    """

    name: str
    members: tuple[str, ...]
    granted: dict[str, str] = field(default_factory=dict)
    known_leaks: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One protocol's analysis."""

    name: str
    secrets: tuple[str, ...]
    coalitions: tuple[Coalition, ...]
    checks: tuple[Check, ...]

    def check(self, name: str) -> Check:
        """A check by name; raises KeyError."""
        return {check.name: check for check in self.checks}[name]


def expected(coalition: Coalition, secret: str) -> Verdict:
    """What a cell should say."""
    if secret in coalition.granted:
        return REVEALED
    return LEAK if secret in coalition.known_leaks else HIDDEN


def judge(case: Case, results: dict[str, CheckResult]) -> dict[str, dict[str, AuditedCell]]:
    """coalition -> secret -> cell, from the checks' results.

    A cell with no check behind it is not "hidden": it is an error of the case, and raises KeyError.
    """
    matrix: dict[str, dict[str, AuditedCell]] = {}
    for coalition in case.coalitions:
        row: dict[str, AuditedCell] = {}
        for secret in case.secrets:
            about = [c for c in case.checks if c.coalition == coalition.name and secret in c.secrets]
            if not about:
                raise KeyError(f"no check of {case.name} looks at {secret} for {coalition.name}")
            found = [c for c in about if results[c.name].leaks]
            wanted = expected(coalition, secret)
            verdict: Verdict = HIDDEN
            if found:
                verdict = REVEALED if secret in coalition.granted else LEAK
            shown = found or about
            evidence = "; ".join(f"{c.name}: {results[c.name].evidence}" for c in shown)
            reason = coalition.granted.get(secret) or coalition.known_leaks.get(secret)
            row[secret] = AuditedCell(verdict, wanted, f"{evidence} ({reason})" if reason else evidence)
        matrix[coalition.name] = row
    return matrix
