"""Whether two samples of opened views could come from one distribution.

Three instruments. What is discrete and small is compared *exactly*: `outcomes` walks through every result of a
function's coin tosses and gives its distribution in fractions. Everything else is sampled and put to `two_sample`,
which is two tests in one: Kolmogorov and Smirnov's on each feature, and a classifier that tries to tell the two
samples apart (Lopez-Paz and Oquab 2017). Both give valid p-values at any sample size:

* the Kolmogorov-Smirnov p-value is exact for continuous features and conservative under ties; Bonferroni over features;
* the classifier is trained on one half and judged on the other. If the samples have one law, each held-out row is right
  or wrong by a coin toss of its own, and the number of right ones is a sum of independent Bernoulli variables with mean
  at most half of the rows; the binomial tail bounds its tail (Hoeffding 1956, theorem 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom
from sklearn.ensemble import ExtraTreesClassifier

from psephos.audit.model import CheckResult, Context
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.randomness import Randomness

Array = NDArray[np.float64]

_LARGEST_TREE = 200_000


class EnumeratedRandomness(Randomness):
    """Answers every `below` and `bits` from a script, so that a driver can walk through all of them.

    Raw bytes are zeros: they only feed group elements, which the functions enumerated here blind away, and which other
    checks look at.
    """

    def __init__(self, script: list[int]) -> None:
        self.script = script
        self.bounds: list[int] = []

    def draw(self, count: int) -> bytes:
        return bytes(count)

    def below(self, bound: int) -> int:
        place = len(self.bounds)
        self.bounds.append(bound)
        if place == len(self.script):
            self.script.append(0)
        return self.script[place]

    def bits(self, count: int) -> int:
        return self.below(1 << count)


def outcomes(run: Callable[[Randomness], Hashable]) -> dict[Hashable, Fraction]:
    """The exact distribution of `run` over all its coin tosses. OverflowError where these are too many to try."""
    distribution: dict[Hashable, Fraction] = {}
    script: list[int] = []
    for _ in range(_LARGEST_TREE):
        coins = EnumeratedRandomness(script)
        outcome = run(coins)
        chance = Fraction(1)
        for bound in coins.bounds:
            chance /= bound
        distribution[outcome] = distribution.get(outcome, Fraction(0)) + chance
        script = script[: len(coins.bounds)]
        while script and script[-1] == coins.bounds[len(script) - 1] - 1:
            script.pop()
        if not script:
            return distribution
        script[-1] += 1
    raise OverflowError("too many coin tosses to enumerate; take a smaller case")


@dataclass(frozen=True)
class TwoSampleResult:
    """What a two-sample test found.

    Attributes:
        differ: whether one law is rejected at the stated rate.
        rate: the false-alarm rate of the whole test.
        p_value: Bonferroni-corrected over its parts; at most `rate` when `differ`.
        accuracy: of the classifier on held-out rows.
        column: the feature with the smallest Kolmogorov-Smirnov p-value.
    """

    differ: bool
    rate: float
    p_value: float
    accuracy: float
    column: str


def two_sample(left: Array, right: Array, *, rate: float, names: list[str], seed: int) -> TwoSampleResult:
    """Compare two samples, float64 (views, features) each: rows are independent views.

    Raises InvalidParameter when their shapes differ.
    """
    if left.shape != right.shape:
        raise InvalidParameter(f"two samples of one shape are compared, not of {left.shape} and {right.shape}")
    rows, columns = left.shape
    ks = [_ks(left[:, c], right[:, c]) for c in range(columns)]
    worst = int(np.argmin(ks))
    p_ks = min(1.0, 2 * columns * ks[worst])
    order = np.random.default_rng(seed).permutation(rows)
    train, held = order[: rows // 2], order[rows // 2 :]
    forest = ExtraTreesClassifier(60, min_samples_leaf=3, random_state=seed % 2**32, n_jobs=1)
    forest.fit(np.vstack([left[train], right[train]]), np.repeat([0, 1], len(train)))
    guesses = forest.predict(np.vstack([left[held], right[held]]))
    right_ones = int((guesses == np.repeat([0, 1], len(held))).sum())
    p_forest = min(1.0, 2 * float(binom.sf(right_ones - 1, 2 * len(held), 0.5)))
    p_value = min(p_ks, p_forest)
    return TwoSampleResult(p_value <= rate, rate, p_value, right_ones / (2 * len(held)), names[worst])


def compare_samples(context: Context, sides: Sequence[Sequence[Mapping[str, float]]], what: str) -> CheckResult:
    """Two samples of views, each a row of named numbers, in words; -1 where a view has no such number."""
    names = list(dict.fromkeys(name for side in sides for row in side for name in row))
    left, right = (np.array([[row.get(name, -1.0) for name in names] for row in side], dtype=float) for side in sides)
    found = two_sample(left, right, rate=context.rate, names=names, seed=context.seed)
    told = f"{what}: {len(left)} + {len(right)} views, {len(names)} features"
    told += f", p = {found.p_value:.2g}, classifier {found.accuracy:.2f}"
    if found.differ:
        told += f" (they differ, most in {found.column})"
    return CheckResult(found.differ, told, found.p_value)


def _ks(left: Array, right: Array) -> float:
    """The exact p-value for two samples of one size (conservative under ties)."""
    points = np.concatenate([left, right])
    below = [np.searchsorted(np.sort(side), points, side="right") for side in (left, right)]
    return _ks_tail(len(left), int(np.abs(below[0] - below[1]).max()))


@lru_cache(maxsize=4096)
def _ks_tail(rows: int, gap: int) -> float:
    """P(n D >= gap) by reflection: 2 sum_j (-1)^(j - 1) C(2n, n - j gap) / C(2n, n)."""
    if gap == 0:
        return 1.0
    terms = ((-1) ** (j - 1) * math.comb(2 * rows, rows - j * gap) for j in range(1, rows // gap + 1))
    return min(1.0, float(Fraction(2 * sum(terms), math.comb(2 * rows, rows))))


def detectable_accuracy(rows: int, *, rate: float, power: float = 0.99) -> float:
    """The smallest true accuracy of a classifier that the test above notices with that probability."""
    held = 2 * (rows - rows // 2)
    needed = int(binom.isf(rate / 2, held, 0.5)) + 1
    low, high = 0.5, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if binom.sf(needed - 1, held, middle) >= power else (middle, high)
    return high
