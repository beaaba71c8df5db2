"""Whether two samples of views have the same distribution, and what is compared of a protocol.

`two_sample` combines Kolmogorov and Smirnov's test on each feature (Bonferroni over features) with a classifier that is
trained on one half to tell the samples apart and evaluated on the other (Lopez-Paz and Oquab 2017). If they have the
same law, the number of right answers is a sum of independent Bernoulli variables whose mean is at most half of the
rows, and the binomial tail bounds its tail (Hoeffding 1956, theorem 4). Both p-values are valid at any sample size.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray
from scipy.stats import beta, binom, ks_2samp
from sklearn.ensemble import ExtraTreesClassifier

from psephos.audit.matrix import HONEST, Members
from psephos.audit.model import AnalysisContext, CheckResult
from psephos.audit.view_checks import ViewCiphertext, related_randomness
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.keys import PublicKey

Array = NDArray[np.float64]
Sealed = Sequence[ViewCiphertext]


@dataclass(frozen=True)
class TwoSampleResult:
    differ: bool
    p_value: float
    accuracy: float
    column: str


def two_sample(left: Array, right: Array, *, rate: float, names: list[str], seed: int) -> TwoSampleResult:
    if left.shape != right.shape:
        raise InvalidParameter(f"two samples must have the same shape, not {left.shape} and {right.shape}")
    rows, columns = left.shape
    with warnings.catch_warnings():  # of p-values that are 1, which it cannot compute exactly
        warnings.simplefilter("ignore", RuntimeWarning)
        ks = ks_2samp(left, right, axis=0, method="exact").pvalue
    worst = int(np.argmin(ks))
    p_ks = min(1.0, 2 * columns * float(ks[worst]))
    order = np.random.default_rng(seed).permutation(rows)
    train, test = order[: rows // 2], order[rows // 2 :]
    forest = ExtraTreesClassifier(60, min_samples_leaf=3, random_state=seed % 2**32, n_jobs=1)
    forest.fit(np.vstack([left[train], right[train]]), np.repeat([0, 1], len(train)))
    guesses = forest.predict(np.vstack([left[test], right[test]]))
    correct = int((guesses == np.repeat([0, 1], len(test))).sum())
    p_forest = min(1.0, 2 * float(binom.sf(correct - 1, 2 * len(test), 0.5)))
    p_value = min(p_ks, p_forest)
    return TwoSampleResult(p_value <= rate, p_value, correct / (2 * len(test)), names[worst])


def compare_samples(context: AnalysisContext, sides: Sequence[Sequence[Mapping[str, float]]], what: str) -> CheckResult:
    """Compare two samples of views by `two_sample`, and say the result in words."""
    names = list(dict.fromkeys(name for side in sides for row in side for name in row))
    left, right = (np.array([[row.get(name, -1.0) for name in names] for row in side], dtype=float) for side in sides)
    largest = np.maximum(np.abs(left).max(axis=0), np.abs(right).max(axis=0)).clip(1e-300)
    left, right = left / largest, right / largest  # the forest computes in float32
    test = two_sample(left, right, rate=context.rate, names=names, seed=context.seed)
    evidence = f"{what}: {len(left)} + {len(right)} views, {len(names)} features"
    evidence += f", p = {test.p_value:.2g}, classifier {test.accuracy:.2f}"
    if test.differ:
        evidence += f" (they differ, most in {test.column})"
    return CheckResult(test.differ, evidence)


class ViewAnalysis(ABC):
    """What is compared of a protocol: real runs with simulated ones, or runs on two inputs with one ideal output."""

    @abstractmethod
    def run(self, context: AnalysisContext, number: int, inputs: str, members: Members) -> Any:
        """Return one run of the real protocol on the `inputs` of this name; lying members deviate in it."""

    @abstractmethod
    def simulate(self, context: AnalysisContext, number: int, members: Members) -> Any:
        """Return one run, simulated from the coalition's inputs and the ideal output."""

    @abstractmethod
    def row(self, context: AnalysisContext, run: Any, members: Members) -> Iterable[tuple[str, float]]:
        """Return the features of a coalition's view of one run, (name, number)."""

    def sealed(self, run: Any, members: Members) -> Iterable[tuple[PublicKey, Sealed, Sealed]]:
        """Return the ciphertexts that a coalition cannot open, and those that it made or can open, for each key."""
        return ()

    def difference(self, runs: Sequence[Any], members: Members) -> str:
        """Return what must be equal in all runs and is not."""
        return ""

    def real(self, context: AnalysisContext, inputs: str = "honest", members: Members = HONEST) -> list[Any]:
        """Return as many runs of the real protocol as the context has views."""
        who, runs = members if members.lying else HONEST, range(context.views)
        return context.cached((self, inputs, who), lambda: [self.run(context, i, inputs, who) for i in runs])

    def simulated(self, context: AnalysisContext, members: Members) -> list[Any]:
        make = partial(self.simulate, context, members=members)
        return context.cached((self, "simulated", members), lambda: [make(i) for i in range(context.views)])

    def simulation(self, members: Members, context: AnalysisContext, but: str | None = None) -> CheckResult:
        """Compare the real view with the simulated one, without the features with `but` in their names."""
        sides = [self.real(context, "honest", members), self.simulated(context, members)]
        return self._compare(context, sides, members, "real against simulated", but)

    def same_output(self, members: Members, left: str, right: str, what: str, context: AnalysisContext) -> CheckResult:
        sides = [self.real(context, inputs, members) for inputs in (left, right)]
        return self._compare(context, sides, members, what)

    def freshness(self, members: Members, context: AnalysisContext) -> CheckResult:
        """Check that every ciphertext that a coalition cannot open has randomness of its own."""
        owners: dict[mpz, str] = {}
        for number, run in enumerate(self.real(context)):
            for key, sealed, own in self.sealed(run, members):
                for item in sealed:
                    residue = item.value % key.modulus
                    if residue in owners:
                        return CheckResult(True, f"the randomness of {item.where} is that of {owners[residue]}")
                    owners[residue] = item.where
                relation = related_randomness(key, sealed, own) if number < 5 else None
                if relation:
                    return CheckResult(True, relation)
        if not owners:
            raise InvalidParameter("this coalition can open everything that it receives: there is nothing to check")
        return CheckResult(False, f"{len(owners)} ciphertexts: no two with the same or with related randomness")

    def _compare(
        self, context: AnalysisContext, sides: list[list[Any]], members: Members, what: str, but: str | None = None
    ) -> CheckResult:
        if difference := self.difference([run for side in sides for run in side], members):
            return CheckResult(True, f"{what}: {difference}")
        rows = [[dict(self.row(context, run, members)) for run in side] for side in sides]
        if but is not None:
            rows = [[{name: row[name] for name in row if but not in name} for row in side] for side in rows]
        return compare_samples(context, rows, what)


def compare_noise(
    context: AnalysisContext, real: Callable[[int], Any], ideal: Callable[[], Any], what: str
) -> CheckResult:
    """Compare draws of noise, integers (D,) or (T, D), with draws of the law; `real`: takes the number of the draw."""
    runs = range(12 * context.views)
    sides = [noise_features(np.array(real(run))) for run in runs], [noise_features(np.array(ideal())) for _ in runs]
    return compare_samples(context, sides, what)


def noise_features(noise: NDArray[np.int64]) -> dict[str, float]:
    """Return entries, magnitudes and L1 norm of one draw of noise, and of the changes from step to step."""
    changes = {"change ": np.diff(noise, axis=0)} if noise.ndim > 1 else {}
    features: dict[str, float] = {}
    for name, values in {"": noise, **changes}.items():
        features |= {f"{name}{place}": float(e) for place, e in np.ndenumerate(values)}
        features |= {f"|{name}{place}|": float(abs(e)) for place, e in np.ndenumerate(values)}
        features[f"the L1 norm {name}"] = float(np.abs(values).sum())
    return features


def detectable_accuracy(rows: int, *, rate: float, power: float = 0.99) -> float:
    """Return the smallest true accuracy of a classifier that `two_sample` detects with probability `power`."""
    test_rows = 2 * (rows - rows // 2)
    needed = int(binom.isf(rate / 2, test_rows, 0.5)) + 1
    return float(beta.ppf(power, needed, test_rows - needed + 1)) if needed <= test_rows else 1.0
