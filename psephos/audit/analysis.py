"""What a coalition saw, how well it guesses from that, and whether a protocol of one's own passes the analysis."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from scipy.stats import binomtest

from psephos.audit.model import Case, Context
from psephos.audit.mutants import Mutant, caught_by
from psephos.audit.run import RATE, run_audit
from psephos.progress import Progress, silent
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from psephos.protocol.transcript import Transcript, View
from psephos.results import AuditResult

__all__ = ["Advantage", "CaseAudit", "advantage", "audit_case", "views"]

T = TypeVar("T")


def views(transcript: Transcript, *coalition: str) -> dict[str, View]:
    """What each member saw: its inputs, its coin tosses, every message that it received.

    `transcript`: of a run, with `secrets=True`. Raises InvalidParameter for a transcript without, and for the name of a
    role that took no part.
    """
    return {role: transcript.view(role) for role in coalition}


@dataclass(frozen=True)
class Advantage:
    """How much better than guessing: 2 Pr[right] - 1, with a confidence interval that holds at any number of trials.

    Attributes:
        value: as observed. low, high: of the interval, at level `confidence` (Clopper and Pearson 1934: exact, so if
            anything too wide).
        right, trials: guesses.
    """

    value: float
    low: float
    high: float
    confidence: float
    right: int
    trials: int


def advantage(
    play: Callable[[int, Randomness], T],
    guess: Callable[[T], int],
    *,
    trials: int = 200,
    confidence: float = 0.99,
    seed: int | None = None,
) -> Advantage:
    """The distinguishing advantage of an adversary: in each trial a coin chooses one of two worlds.

    Args:
        play: (setting 0 or 1, coins of the trial) -> what the adversary sees.
        guess: that -> the setting.
        trials: independent ones.
        confidence: that the true advantage of this guesser lies in the interval.
        seed: of all coins; None takes the operating system's.

    Raises InvalidParameter for less than a trial, a confidence outside (0, 1), or a guess that is neither 0 nor 1.
    """
    if trials < 1 or not 0 < confidence < 1:
        raise InvalidParameter(f"give at least one trial and a confidence in (0, 1), not {trials} and {confidence}")
    right = 0
    for number in range(trials):
        coins = SYSTEM if seed is None else SimulationRandomness(seed, "advantage", number)
        setting = coins.below(2)
        guessed = guess(play(setting, coins))
        if guessed not in (0, 1):
            raise InvalidParameter(f"a guess is 0 or 1, not {guessed!r}")
        right += guessed == setting
    interval = binomtest(right, trials).proportion_ci(confidence, method="exact")
    value, low, high = (2 * float(share) - 1 for share in (right / trials, interval.low, interval.high))
    return Advantage(value, low, high, confidence, right, trials)


@dataclass(frozen=True)
class CaseAudit:
    """What the analysis found.

    Attributes:
        outcome: of the protocol: verdicts, evidence, power; as `psephos audit` prints it.
        unnoticed: names of the mutants that their checks let pass.
    """

    outcome: AuditResult
    unnoticed: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether every verdict is the expected one, and every mutant was caught."""
        return self.outcome.as_expected and not self.unnoticed


def audit_case(
    case: Case,
    mutants: Iterable[Mutant] = (),
    *,
    views: int = 80,
    seed: int | None = None,
    progress: Progress = silent,
) -> CaseAudit:
    """Every check of a case of one's own, and its mutants, each of which its check must notice.

    `views`: per side of a two-sample test; a mutant has its own number. `seed`: makes it repeatable. Raises KeyError
    for a cell that no check looks at, InvalidParameter for a mutant whose line has changed.
    """
    outcome = run_audit(case, progress=progress, views=views, seed=seed)
    context = Context(seed=seed, views=views, rate=RATE)
    return CaseAudit(outcome, tuple(m.name for m in mutants if caught_by(m, case, context)[0] is None))
