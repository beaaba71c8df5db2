"""A regression in simulated worlds, in the clear, from public values alone.

In each world the true prediction is that of the public rows and an error, which is drawn from its posterior; labels
have the residuals of cross-validation. In half of the worlds the parties' labels differ.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from psephos.curator.checks import public_features
from psephos.curator.record import RecordPlan, fit_records, numeric_score
from psephos.curator.rehearsal import Noise, principal_rows, public_digest, simulated_rows

Array = NDArray[np.float64]

WORLDS = 24
"""Simulated worlds of a regression."""

_ROWS, _PARTIES = 5000, 50  # most simulated rows of all parties, and most simulated parties
_TEST = 1000  # simulated rows on which predictions are compared
_RIDGE = 0.3  # in the posterior of the error of the public rows' prediction, besides directions over rows
_SKEW = 2.0  # standard deviations of the labels by which they are mixed up, in worlds that deal them unevenly


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator] # several add in another order
def simulated_gains(plan: RecordPlan, X: Array, labels: Array, rows: int) -> Array:
    """Return what a release by a plan adds to R^2 in each world, (WORLDS,), where all parties have `rows` together.

    X, labels: the public rows, as `plan_records` takes them.
    """
    worlds = _Worlds(plan, X, labels)
    return np.array([worlds.gain(rows, number) for number in range(WORLDS)])


class _Worlds:
    """Simulated worlds of one regression."""

    def __init__(self, plan: RecordPlan, X: Array, labels: Array) -> None:
        features = public_features(X)
        known = np.isfinite(labels)
        middle = labels[known].mean()
        self._residuals = labels[known] - middle - numeric_score(features[known], labels[known] - middle)[1][:, 0]
        self._mean, self._spread, self._axes, self._variances, self._table = principal_rows(features)
        self._digest = public_digest(np.column_stack([features, labels]), np.zeros(0, np.int64))
        self._constant, self._plan = X[0, -1], plan
        scale = float((self._residuals**2).mean()) / len(self._residuals)
        ridge = _RIDGE + len(self._variances) / len(self._residuals)  # for the mean loss of standardised rows
        self._slopes = np.sqrt(scale / (self._variances + ridge))
        self._shift = math.sqrt(scale)

    def gain(self, rows: int, number: int) -> float:
        """Return what the release adds to R^2 in a world."""
        plan, grid, parties = self._plan, self._plan.grid, self._plan.parties
        generator = np.random.default_rng([number, *self._digest])
        distinct = min(parties, _PARTIES)
        each = max(1, min(rows // parties, _ROWS // distinct))
        count = distinct * each
        X, truth = self._drawn(count + _TEST, generator)
        y = truth + generator.choice(self._residuals, len(truth))
        order = np.arange(count)
        if number % 2:
            order = np.argsort(y[:count] + _SKEW * y.std() * generator.standard_normal(count))
        sums = sum(np.array(grid.contribution(X[own], y[own])) for own in order.reshape(distinct, each))
        times = parties / distinct if plan.unit == "party" else rows / count
        noise = Noise(grid.norm, math.sqrt(plan.noise_variance), plan.inflation)
        total = sums * times + noise.draw((grid.length,), generator)
        weights = fit_records(plan, [round(entry) for entry in total])
        released, start = (
            float(((grid.predict(w, X[count:]) - truth[count:]) ** 2).mean()) for w in (weights, grid.offset[:, 0])
        )
        return (start - released) / float(y.var())

    def _drawn(self, count: int, generator: np.random.Generator) -> tuple[Array, Array]:
        """Draw rows (count, d + 1) and their true predictions (count,)."""
        rows = simulated_rows(self._table, self._variances, count, generator)
        X = np.column_stack([(rows @ self._axes.T) * self._spread + self._mean, np.ones(count)]) * self._constant
        error = rows @ (self._slopes * generator.standard_normal(len(self._slopes)))
        error += self._shift * generator.standard_normal()
        return X, self._plan.grid.predict(self._plan.grid.offset[:, 0], X) + error
