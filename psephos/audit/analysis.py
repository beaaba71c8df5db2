"""A coalition's views, and the advantage of a distinguisher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from scipy.stats import binomtest

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from psephos.protocol.transcript import Transcript, View

T = TypeVar("T")


def views(transcript: Transcript, *coalition: str) -> dict[str, View]:
    """Return the view of each role of a coalition, of a transcript with secrets; raises InvalidParameter."""
    return {role: transcript.view(role) for role in coalition}


@dataclass(frozen=True)
class Advantage:
    """The distinguishing advantage 2 Pr[right guess] - 1, observed in `trials`, in [-1, 1].

    `low` and `high` are the ends of an exact confidence interval (Clopper and Pearson 1934).
    """

    value: float
    low: float
    high: float
    confidence: float
    right: int
    trials: int


def advantage(
    observe: Callable[[int, Randomness], T],
    guess: Callable[[T], int],
    *,
    trials: int = 200,
    confidence: float = 0.99,
    seed: int | None = None,
) -> Advantage:
    """Estimate the distinguishing advantage of an adversary; in each trial a coin chooses one of two settings.

    Args:
        observe: (setting 0 or 1, coins of the trial) -> what the adversary sees.
        guess: what the adversary sees -> its guess of the setting.
        trials: number of independent trials.
        confidence: level of the interval for the true advantage of this adversary.
        seed: of all coins; None uses the operating system's randomness.

    Raises:
        InvalidParameter: fewer than one trial, a confidence outside (0, 1), or a guess other than 0 and 1.
    """
    if trials < 1 or not 0 < confidence < 1:
        raise InvalidParameter(f"give at least one trial and a confidence in (0, 1), not {trials} and {confidence}")
    right = 0
    for number in range(trials):
        coins = SYSTEM if seed is None else SimulationRandomness(seed, "advantage", number)
        setting = coins.below(2)
        answer = guess(observe(setting, coins))
        if answer not in (0, 1):
            raise InvalidParameter(f"`guess` must return 0 or 1, not {answer!r}")
        right += answer == setting
    interval = binomtest(right, trials).proportion_ci(confidence, method="exact")
    value, low, high = (2 * float(share) - 1 for share in (right / trials, interval.low, interval.high))
    return Advantage(value, low, high, confidence, right, trials)
