"""Coalitions, secrets, checks and verdicts: the matrix that an audit fills in.

A check that secrets are hidden compares the coalition's real view with a simulated one, or two views with the same
ideal output, or tests that ciphertexts have fresh randomness: a difference is a leak. A check that a secret is revealed
computes it from the view. Whether a leak is expected depends on the ideal functionality alone (`Coalition.granted`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from psephos.audit.matrix import EXPECTED, HIDDEN, LEAK, REVEALED, Coalition, Verdict
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from psephos.results.base import AuditedCell
from psephos.results.security import AuditedCoalition, AuditedProtocol

T = TypeVar("T")


class AnalysisContext:
    """What all checks of one run of the analysis share: the number of views, the coins, and views already sampled."""

    def __init__(self, *, seed: int | None = None, views: int = 100, rate: float = 1e-4) -> None:
        """`seed`: of all coins, drawn by default; `views`: on each side of a test; `rate`: of false alarms."""
        self.views, self.rate = views, rate
        self.seed = int.from_bytes(SYSTEM.draw(6), "big") if seed is None else seed
        self._cache: dict[Hashable, Any] = {}

    def coins(self, *labels: int | str) -> Randomness:
        """Return the coins that belong to these labels, such as a role in one run."""
        return SimulationRandomness(self.seed, *labels)

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return `make()`, computed once per context and key: many checks look at the same views."""
        if key not in self._cache:
            self._cache[key] = make()
        result: T = self._cache[key]
        return result


@dataclass(frozen=True)
class CheckResult:
    """Whether the coalition learns the secrets of a check, and what was tested, in one sentence with numbers."""

    leaks: bool
    evidence: str


Run = Callable[[AnalysisContext], CheckResult]
"""Runs a check."""


@dataclass(frozen=True)
class Check:
    """A test, with a unique name, of whether some secrets leak to one coalition.

    `statistical`: whether it can raise a false alarm, with the rate of the context.
    """

    name: str
    coalition: str
    secrets: tuple[str, ...]
    run: Run = field(repr=False)
    statistical: bool = False


class Checks(list[Check]):
    """A list of checks that is built by `add`."""

    def add(self, what: str, coalition: str, secrets: tuple[str, ...], run: Run, *, statistical: bool = False) -> None:
        """Append the check named "WHAT, COALITION"; the other arguments are those of `Check`."""
        self.append(Check(f"{what}, {coalition}", coalition, secrets, run, statistical))


@dataclass(frozen=True)
class Case:
    """The analysis of one protocol: the columns and rows of its matrix, and at least one check for each cell."""

    name: str
    secrets: tuple[str, ...]
    coalitions: tuple[Coalition, ...]
    checks: tuple[Check, ...]


def case_of(name: str, checks: Iterable[Check]) -> Case:
    """Return the case of an audited protocol (`psephos.audit.matrix.EXPECTED`) with these checks."""
    return Case(*EXPECTED[name], tuple(checks))


def judge(case: Case, results: dict[str, CheckResult]) -> AuditedProtocol:
    """Return the matrix that follows from the results of all checks."""
    coalitions = []
    for coalition in case.coalitions:
        row: dict[str, AuditedCell] = {}
        for secret in case.secrets:
            checks = [c for c in case.checks if c.coalition == coalition.name and secret in c.secrets]
            if not checks:
                raise KeyError(f"no check of {case.name} looks at {secret} for {coalition.name}")
            leaking = [c for c in checks if results[c.name].leaks]
            verdict: Verdict = HIDDEN
            if leaking:
                verdict = REVEALED if secret in coalition.granted else LEAK
            evidence = "; ".join(f"{c.name}: {results[c.name].evidence}" for c in leaking or checks)
            reason = coalition.granted.get(secret) or coalition.known_leaks.get(secret)
            row[secret] = AuditedCell(
                verdict, coalition.expected(secret), f"{evidence} ({reason})" if reason else evidence
            )
        coalitions.append(AuditedCoalition(coalition.name, list(coalition.members), row))
    return AuditedProtocol(case.name, coalitions)
