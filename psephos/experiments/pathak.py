"""Figure 2 of Pathak, Rane and Raj (2010): test errors on Adult against epsilon (`psephos reproduce pathak-adult`).

There are five parties, three splits by size, Laplace noise of the paper's scale on every coordinate, 200 executions,
and the two pooled baselines w* and w* + eta. The protocol does not affect the errors, so the noise is simulated in
floating point.

At the paper's lambda = 1 the pooled classifier of objective (2) always predicts "at most 50K", so the figure compares
a constant prediction with noise (docs/security/index.md, finding 7). Its rows have 11 to 14 ones each, so they are
outside the unit ball that the theorems assume. The experiment therefore has three settings: the paper's own, lambda = 1
with rows divided by sqrt(14), and a lambda at which the classifier predicts both classes. Each setting compares the
bounds of Theorems 4.2 and 4.3 with measurements, on the paper's splits and on one where the parties' label shares
differ.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.curator.pathak.bounds import counterexample, printed_epsilon, theorem_4_2, theorem_4_3
from psephos.data.datasets import Dataset, load
from psephos.options import Options, option
from psephos.parties.training import train_parties
from psephos.progress import Progress, silent
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.privacy.mechanisms import simulate_laplace
from psephos.results import PathakAdultResult
from psephos.results.base import timed
from psephos.results.papers import ErrorPoint, ExcessRisk, PaperSetting, Theorem, Theorems

Array = NDArray[np.float64]

SPLITS = {
    "even (20 %)": (6512, 6512, 6512, 6512, 6512),
    "15 %": (4884, 6512, 6512, 6512, 8141),
    "10 %": (3256, 6512, 6512, 6512, 9769),
}
"""Records of each of the five parties, by the share of the smallest party (Pathak 2010, section 5)."""

EPSILONS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Epsilons of the axis of Figure 2. The paper does not list its points, so these are our choice."""

DELTA = 0.05
"""Failure probability in Theorem 4.3."""

_TOLERANCE = 1e-9
_ADULT_ONES = 14
"""Most ones in a row of a9a, one for each of its 14 attributes. It is public, so rows may be scaled by it."""


@dataclass(frozen=True)
class _Setting:
    """A lambda of objective (2), and whether rows are scaled into the unit ball."""

    name: str
    lam: float
    unit_ball: bool


SETTINGS = (
    _Setting("as printed: lambda = 1, raw rows", 1.0, False),
    _Setting("lambda = 1, rows in the unit ball", 1.0, True),
    _Setting("lambda = 0.001, rows in the unit ball", 1e-3, True),
)


@dataclass(frozen=True, kw_only=True)
class AdultOptions(Options):
    """Options of `psephos reproduce pathak-adult`."""

    quick: bool = option(False, "Two deals of five draws: nothing to cite.")
    deals: int = option(10, "Random ways of dealing the rows to the parties.")
    draws: int = option(20, "Noise draws of each point, for each deal.")
    epsilons: tuple[float, ...] = option(EPSILONS, "The axis.")
    data_dir: str | None = option(None, "Where a9a lies.", group="Data", shown="$PSEPHOS_DATA, or the user's cache")
    seed: int = option(0, "Drives deals and noise.", group="Data")

    def check(self) -> None:
        """Check the options.

        Raises:
            InvalidParameter: a number is out of range.
        """
        if self.deals < 1 or self.draws < 1:
            raise InvalidParameter(f"deals and draws are at least 1, not {self.deals} and {self.draws}")
        if not self.epsilons or not all(e > 0 and math.isfinite(e) for e in self.epsilons):
            raise InvalidParameter("epsilons are positive finite numbers")


def reproduce_pathak_adult(
    options: AdultOptions,
    *,
    data: Dataset | None = None,
    splits: Mapping[str, tuple[int, ...]] = SPLITS,
    progress: Progress = silent,
) -> PathakAdultResult:
    """Measure the errors of Figure 2 and the quantities bounded by Theorems 4.2 and 4.3, in each setting.

    Args:
        options: options of the experiment.
        data: data set to use instead of Adult; its rows have at most 14 ones each.
        splits: records of each party, by name of the split: "even (20 %)" first, then two that are less and less even.
        progress: called with the name of the setting, the finished and the total number of its splits.

    Raises:
        InvalidParameter: a number is out of range.
        DataSetMissingError: the file a9a is missing.
    """
    options.check()
    if options.quick:
        options = replace(options, deals=min(2, options.deals), draws=min(5, options.draws))
    start = time.perf_counter()
    data = data or load("adult", options.data_dir)
    X, y = _dense(data.X_train), data.y_train
    X_test, y_test = _dense(data.X_test), np.asarray(data.y_test)
    majority = float(np.mean(y_test != np.bincount(y).argmax()))
    settings = []
    for setting in SETTINGS:
        scale = math.sqrt(_ADULT_ONES) if setting.unit_ball else 1.0
        settings.append(_Run(setting, X / scale, y, X_test / scale, y_test, options, splits, progress).result())
    example = counterexample(1000)
    return PathakAdultResult(
        experiment="pathak-adult",
        paper="Pathak, Rane, Raj 2010, section 5, Figure 2; it prints no numbers",
        claims=[
            "the even split is better than the uneven ones at every epsilon",
            "errors fall with epsilon, to the error of the pooled classifier",
            "the pooled classifier with noise is as good as without except at small epsilon",
        ],
        quick=options.quick,
        train=len(y),
        test=len(y_test),
        features=X.shape[1],
        ones_per_row=[int(X.sum(axis=1).min()), int(X.sum(axis=1).max())],
        majority_error=majority,
        epsilon_real_per_epsilon=printed_epsilon(epsilon=1.0, features=X.shape[1], parties=5),
        deals=options.deals,
        draws_per_point=options.deals * options.draws,
        settings=settings,
        counterexample={"copies": 1000, "distance": example.distance, "bound": example.bound},
        seed=options.seed,
        phases=timed({"total": round(time.perf_counter() - start, 1)}),
        options=asdict(options),
    )


def _dense(X: Any) -> Array:
    """Return a sparse or dense matrix as a dense float64 array."""
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, np.float64)


@dataclass
class _Run:
    """The measurements of one setting."""

    setting: _Setting
    X: Array
    y: NDArray[np.int64]
    X_test: Array
    y_test: NDArray[np.int64]
    options: AdultOptions
    splits: Mapping[str, tuple[int, ...]]
    progress: Progress

    def result(self) -> PaperSetting:
        """Measure every split of the setting."""
        lam = self.setting.lam
        pooled = self._train(np.arange(len(self.y)), (len(self.y),))[0]
        generator = np.random.default_rng([self.options.seed, 0])
        points = self._curve("pooled + noise", [pooled], len(self.y), generator)
        theorems = []
        total = len(self.splits) + 1
        for number, (name, sizes) in enumerate(self.splits.items()):
            generator = np.random.default_rng([self.options.seed, 1 + number])
            averages = [self._average(generator.permutation(len(self.y)), sizes) for _ in range(self.options.deals)]
            points += self._curve(name, averages, min(sizes), generator)
            theorems.append(self._theorems(name, averages, pooled, min(sizes), generator))
            self._report_progress(number + 1, total)
        sizes = self.splits["even (20 %)"]
        generator = np.random.default_rng([self.options.seed, 9])
        skewed = [self._average(np.argsort(self.y + 1.5 * generator.random(len(self.y))), sizes)]
        theorems.append(self._theorems("even, parties' label shares differ", skewed, pooled, min(sizes), generator))
        self._report_progress(total, total)
        error = self._errors(pooled[None])[0]
        return PaperSetting(
            name=self.setting.name,
            lam=lam,
            regulariser="lambda",
            rows_in_unit_ball=self.setting.unit_ball,
            pooled_error=error,
            pooled_always_says_majority=bool((self.X_test @ pooled <= 0).all() or (self.X_test @ pooled > 0).all()),
            points=points,
            claims=self._claims(points, error),
            theorems=theorems,
        )

    def _report_progress(self, done: int, total: int) -> None:
        self.progress(self.setting.name, done, total)

    def _train(self, rows: NDArray[np.intp], sizes: Sequence[int]) -> Array:
        """Return the minimiser of objective (2) for each party, (len(sizes), d); `rows` are split by `sizes`."""
        # Objective (2) has the penalty lambda ||w||^2, train_parties lambda/2 ||w||^2 and rows of the unit ball only.
        # With x' = x/c and w' = c w, the problem for lambda becomes that for lambda/c^2.
        c = 1.0 if self.setting.unit_ball else math.sqrt(_ADULT_ONES)
        lam = 2 * self.setting.lam / c**2
        weights = train_parties(self.X[rows] / c, self.y[rows], sizes, classes=2, lam=lam, tolerance=_TOLERANCE)
        scaled: Array = weights / c
        return scaled

    def _average(self, order: NDArray[np.intp], sizes: Sequence[int]) -> Array:
        """Return the mean of the parties' classifiers, (d,), when rows are assigned to parties in this order."""
        average: Array = self._train(order[: sum(sizes)], sizes).mean(axis=0)
        return average

    def _errors(self, W: Array) -> list[float]:
        """Return the test error of each row of W, (m, d)."""
        wrong = (self.X_test @ W.T > 0) != (self.y_test == 1)[:, None]
        return [float(e) for e in wrong.mean(axis=0)]

    def _noisy(
        self, classifiers: Sequence[Array], smallest: int, generator: np.random.Generator
    ) -> tuple[Array, Array]:
        """Return repeated classifiers and noise for epsilon = 1, of scale 2/(n lambda); both are (executions, d)."""
        repeated = np.repeat(np.array(classifiers), self.options.deals * self.options.draws // len(classifiers), axis=0)
        scale = 2 / (smallest * self.setting.lam)
        noise = simulate_laplace(repeated.size, scale, generator).reshape(repeated.shape)
        return repeated, noise

    def _curve(
        self, name: str, classifiers: Sequence[Array], smallest: int, generator: np.random.Generator
    ) -> list[ErrorPoint]:
        """Return the mean test error at each epsilon over the noise draws."""
        repeated, noise = self._noisy(classifiers, smallest, generator)
        points = []
        for epsilon in self.options.epsilons:
            errors = np.array(self._errors(repeated + noise / epsilon))
            std = float(errors.std(ddof=1)) if len(errors) > 1 else 0.0
            points.append(ErrorPoint(name, epsilon, float(errors.mean()), std, std / math.sqrt(len(errors))))
        return points

    def _claims(self, points: list[ErrorPoint], pooled: float) -> dict[str, bool]:
        """Test the paper's statements about its figure; a difference within two standard errors does not refute one."""
        by_point = {(p.series, p.epsilon): p for p in points}
        even, uneven, worst = self.splits

        def not_above(a: tuple[str, float], b: tuple[str, float]) -> bool:
            slack = 2 * math.hypot(by_point[a].standard_error, by_point[b].standard_error)
            return by_point[a].error <= by_point[b].error + slack

        first, last = min(self.options.epsilons), max(self.options.epsilons)
        return {
            "even split best at every epsilon": all(
                not_above((even, e), (other, e)) for e in self.options.epsilons for other in (uneven, worst)
            ),
            "errors fall with epsilon": all(
                not_above((s, b), (s, a))
                for s in self.splits
                for a, b in zip(self.options.epsilons, self.options.epsilons[1:], strict=False)
                if a < b
            ),
            "at the largest epsilon within 1 % of the pooled classifier": all(
                abs(by_point[s, last].error - pooled) < 0.01 for s in self.splits
            ),
            "pooled + noise beats the even split at the smallest epsilon": not_above(
                ("pooled + noise", first), (even, first)
            ),
        }

    def _theorems(
        self, name: str, averages: Sequence[Array], pooled: Array, smallest: int, generator: np.random.Generator
    ) -> Theorems:
        """Compare the bounds of Theorems 4.2 and 4.3 with the averages of one split."""
        lam, features = self.setting.lam, self.X.shape[1]
        distances = [float(np.linalg.norm(average - pooled)) for average in averages]
        bound = theorem_4_2(parties=5, smallest=smallest, lam=lam)
        repeated, noise = self._noisy(averages, smallest, generator)
        least = self._objective(pooled[None])[0]
        excess = []
        for epsilon in (self.options.epsilons[len(self.options.epsilons) // 2], self.options.epsilons[-1]):
            excess_bound = theorem_4_3(
                parties=5, smallest=smallest, lam=lam, features=features, epsilon=epsilon, delta=DELTA
            )
            step = max(1, len(repeated) // 20)
            measured = self._objective((repeated + noise / epsilon)[::step]) - least
            excess.append(
                ExcessRisk(
                    epsilon=epsilon,
                    bound=excess_bound,
                    measured_mean=float(measured.mean()),
                    measured_max=float(measured.max()),
                    above_bound=float(np.mean(measured > excess_bound)),
                    allowed=DELTA,
                )
            )
        no_noise = theorem_4_3(parties=5, smallest=smallest, lam=lam, features=features, epsilon=math.inf, delta=DELTA)
        without_noise = self._objective(np.array(averages)) - least
        return Theorems(
            split=name,
            hypotheses_hold=self.setting.unit_ball,
            distance_mean=float(np.mean(distances)),
            theorem_4_2=Theorem(bound, max(distances), max(distances) <= bound),
            equation_3=Theorem(no_noise, float(without_noise.max()), bool(without_noise.max() <= no_noise)),
            theorem_4_3=excess,
        )

    def _objective(self, W: Array) -> Array:
        """Return J of objective (2) on the pooled training data, (m,), for each row of W, (m, d)."""
        signs = 2.0 * self.y - 1
        values = [float(np.logaddexp(0, -signs * (self.X @ w)).mean() + self.setting.lam * w @ w) for w in W]
        return np.array(values)
