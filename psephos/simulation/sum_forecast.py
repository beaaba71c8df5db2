"""What one sum is expected to be worth, before anything is encrypted, opened or charged.

A regression is made in simulated worlds, in the clear. An evaluation is made of the public rows, in the place of the
parties' ones. The noise of a mean of heads is compared with the longest head. All are given public values and nothing
else, as `psephos.simulation.forecast` is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from psephos.curator.checks import public_features
from psephos.curator.record import ROWS_PER_PARTY, numeric_score
from psephos.curator.rehearsal import principal_rows, public_digest, simulated_rows
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.errors import UselessReleaseError
from psephos.simulation.forecast import ASSUMED_ROWS, EPSILONS, PUBLIC_RELEASED, drawn_noise
from psephos.specs.head import HeadSpec
from psephos.specs.registry import spec_class, spec_of
from psephos.specs.rows import EvaluationSpec, RegressionSpec
from psephos.specs.terms import PublicTerms, StudyTerms

Array = NDArray[np.float64]

WORLDS = 24
"""Simulated worlds of a regression."""

WIDEST = 0.125
"""Largest standard error of an evaluation, of accuracy, R^2 or a mean error: four of them are half of [0, 1]."""

LONGEST = 1.5
"""Largest root mean square length of the noise in a mean of heads, as a multiple of the radius of their ball.

Measured on `docs/examples/heads.py` (heads of norm 0.9, radius 1) with 4,000 draws: the mean is right on 0.970 of rows,
the most frequent class on 0.760. Noise of length 1 leaves 0.955, of 1.5 0.918, of 2 0.871 and of 3 0.791; it makes the
mean worse than the most frequent class in 0, 4, 13 and 30 % of the draws.
"""

_ROWS, _PARTIES = 5000, 50  # most simulated rows of all parties, and most simulated parties
_TEST = 1000  # simulated rows on which predictions are compared
_RIDGE = 0.3  # in the posterior of the error of the public rows' prediction, besides directions over rows
_SKEW = 2.0  # standard deviations of the labels by which they are mixed up, in worlds that deal them unevenly
_LEAST_GAIN = 0.001  # mean gain of R^2 below which no privacy is spent
_LOSS, _LOST = -0.01, 1  # a gain that is a loss, and most worlds with one in which privacy is still spent


@dataclass(frozen=True)
class SumForecast:
    """The decision about one sum over the rows, a function of public values; `decision` as in `Forecast`.

    `useful`: whether the answer is expected to be worth its cost; `expectation`: what is expected, in a sentence.
    """

    decision: Literal["release", "public", "stop"]
    useful: bool
    expectation: str

    @property
    def reason(self) -> str:
        """What was decided, and why, in one line."""
        decided = {
            "release": f"Released{'' if self.useful else ', although it is not expected to be worth its cost'}",
            "public": PUBLIC_RELEASED,
            "stop": "Nothing was encrypted or charged, because it is not expected to be worth its cost",
        }[self.decision]
        return f"{decided}. {self.expectation}"


class Expectation(NamedTuple):
    """Whether an answer is worth its cost, why, and what would change that, besides epsilon."""

    useful: bool
    words: str
    changes: tuple[str, ...] = ()


def decided(
    expected: Callable[[float], Expectation], epsilon: float, *, anyway: bool = False, writes: bool = False
) -> SumForecast:
    """Decide by what is `expected` at an epsilon.

    `writes`: whether the prediction of the public rows can be written instead; otherwise raises UselessReleaseError
    where the answer is not worth its cost, and the options do not insist.
    """
    useful, words, changes = expected(epsilon)
    if useful or anyway or writes:
        return SumForecast("release" if useful or anyway else "public", useful, words)
    larger = [f"--epsilon {value:g}" for value in EPSILONS if value > epsilon and expected(value).useful][:1]
    found = [*larger, *changes] or ["nothing that was tried"]
    raise UselessReleaseError(SumForecast("stop", useful, words).reason, found)


# -- a regression


def expected_regression(spec: RegressionSpec, public: PublicTerms) -> Expectation:
    """Return what a regression is expected to be worth: its gain of R^2 over the public rows' prediction.

    In each simulated world the true prediction is that of the public rows and an error, which is drawn from its
    posterior; labels have the residuals of cross-validation.
    """
    with threadpool_limits(limits=1):  # as `forecast`
        stage = _Stage(public)
        gains = np.array([stage.gain(spec, number) for number in range(WORLDS)])
    words = (
        f"In simulated worlds of {public.parties} parties with about {stage.rows} rows together, the release adds "
        f"{gains.mean():+.3f} (standard deviation {gains.std():.3f}) to the R² of the public rows' prediction, at "
        f"epsilon {spec.release_plan.epsilon:g} per {spec.release_plan.unit}."
    )
    return Expectation(bool(gains.mean() > _LEAST_GAIN and (gains < _LOSS).sum() <= _LOST), words)


class _Stage:
    """Simulated worlds of one regression."""

    def __init__(self, public: PublicTerms) -> None:
        features, labels = public_features(public.samples), np.asarray(public.labels, dtype=np.float64)
        known = np.isfinite(labels)
        middle = labels[known].mean()
        self._residuals = labels[known] - middle - numeric_score(features[known], labels[known] - middle)[1][:, 0]
        self._mean, self._spread, self._axes, self._variances, self._table = principal_rows(features)
        self._digest = public_digest(np.column_stack([features, labels]), np.zeros(0, np.int64))
        self._constant = public.samples[0, -1]
        most = min(public.parties * ROWS_PER_PARTY, ASSUMED_ROWS * len(features))
        self.rows, self._public = most if public.rows is None else public.rows, public
        scale = float((self._residuals**2).mean()) / len(self._residuals)
        ridge = _RIDGE + len(self._variances) / len(self._residuals)  # for the mean loss of standardised rows
        self._slopes = np.sqrt(scale / (self._variances + ridge))
        self._shift = math.sqrt(scale)

    def gain(self, spec: RegressionSpec, number: int) -> float:
        """Return what the release adds to R^2 in a world."""
        generator, parties = np.random.default_rng([number, *self._digest]), self._public.parties
        distinct = min(parties, _PARTIES)
        each = max(1, min(self.rows // parties, _ROWS // distinct))
        grid, count = spec.release_plan.grid, distinct * each
        X, truth = self._drawn(spec, count + _TEST, generator)
        y = truth + generator.choice(self._residuals, len(truth))
        order = np.arange(count)
        if number % 2:
            order = np.argsort(y[:count] + _SKEW * y.std() * generator.standard_normal(count))
        sums = sum(np.array(grid.contribution(X[own], y[own])) for own in order.reshape(distinct, each))
        times = parties / distinct if spec.release_plan.unit == "party" else self.rows / count
        total = sums * times + drawn_noise(spec, parties, (grid.length,), generator)
        weights = spec.fitted(OpenedSum(tuple(round(entry) for entry in total), tuple(range(parties))))
        released, start = (
            float(((grid.predict(w, X[count:]) - truth[count:]) ** 2).mean()) for w in (weights, grid.offset[:, 0])
        )
        return (start - released) / float(y.var())

    def _drawn(self, spec: RegressionSpec, count: int, generator: np.random.Generator) -> tuple[Array, Array]:
        """Draw rows (count, d + 1) and their true predictions (count,)."""
        rows = simulated_rows(self._table, self._variances, count, generator)
        X = np.column_stack([(rows @ self._axes.T) * self._spread + self._mean, np.ones(count)]) * self._constant
        error = rows @ (self._slopes * generator.standard_normal(len(self._slopes)))
        error += self._shift * generator.standard_normal()
        return X, spec.release_plan.grid.predict(spec.release_plan.grid.offset[:, 0], X) + error


# -- an evaluation


def expected_evaluation(spec: EvaluationSpec, public: PublicTerms, share: float = 1.0) -> Expectation:
    """Return what an evaluation is expected to be worth: the standard error that its noise will have.

    It is that of an evaluation of the public rows, as if a share of the parties' rows were they, many times. No number
    of rows is announced, so that it is the usual one.
    """
    rows = share * public.parties * ROWS_PER_PARTY
    grid, plan, X = spec.grid, spec.release_plan, public.samples
    if (errors := plan.predictions) is not None:
        labels = np.full(len(X), np.nan) if public.labels is None else np.asarray(public.labels, dtype=np.float64)
        labels = np.where(np.isfinite(labels), labels, errors.predict(X))
    else:
        labels = np.zeros(len(X), np.int64) if public.labels is None else np.maximum(public.labels, 0)
    times = public.parties if plan.unit == "party" else rows / len(X)
    total = tuple(round(entry * times) for entry in grid.contribution(X, labels))
    estimate = spec.estimate(OpenedSum(total, tuple(range(public.parties))))
    if estimate.errors is None:
        name, one, unit = "accuracy", estimate.accuracy, 1.0
    elif estimate.errors.r2 is not None:
        name, one, unit = "R²", estimate.errors.r2, 1.0
    else:
        name, one, unit = "mean error, in units of the largest one", estimate.errors.mae, estimate.errors.largest
    error = math.inf if one is None or one.error is None else float(one.error / unit)
    parties, more = public.parties, error / WIDEST
    many = f"{parties} parties" if plan.unit == "party" else f"{parties} parties with about {rows:.0f} rows together"
    words = (
        f"With {many}, at epsilon {plan.epsilon:g} per {plan.unit}, the {name} would have a standard error of "
        f"{error:.3f} from the noise, and is useful at {WIDEST:g} or less."
    )
    enough = f"{math.ceil(parties * more)} parties" if plan.unit == "party" else f"{rows * more:.0f} rows"
    return Expectation(error <= WIDEST, words, (enough,) if math.isfinite(more) else ("more rows",))


# -- a mean of heads


def expected_head(spec: HeadSpec, public: PublicTerms) -> Expectation:
    """Return what a mean of heads is expected to be worth: how long its noise is, beside the longest head."""
    plan = spec.counting(public.parties)
    length = plan.deviation * math.sqrt(plan.dimension) / plan.grid.radius
    words = (
        f"With {plan.parties} parties, at epsilon {plan.epsilon:g} per party, the noise of the mean would be "
        f"{length:.2f} times as long as the longest head, and the mean is useful at {LONGEST:g} or less."
    )
    return Expectation(length <= LONGEST, words, (f"{math.ceil(plan.parties * length / LONGEST)} parties",))


# -- studies


_EXPECTED: Mapping[type, Callable[[Any, PublicTerms], Expectation]] = {
    RegressionSpec: expected_regression,
    EvaluationSpec: expected_evaluation,
    HeadSpec: expected_head,
}


def forecast_study(terms: StudyTerms, *, anyway: bool) -> SumForecast | None:
    """Decide about a study of a regression, an evaluation or a mean of heads; None for another. Raises as `decided`."""
    worth = _EXPECTED.get(spec_class(terms.study.protocol))
    if worth is None:
        return None

    def expected(epsilon: float) -> Expectation:
        spec: Any = spec_of(replace(terms, study=replace(terms.study, epsilon=epsilon)))
        return worth(spec, terms.public_terms(spec.parameters))

    return decided(expected, terms.study.epsilon, anyway=anyway)
