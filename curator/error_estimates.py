"""Errors and R^2 of a public prediction of a number, from noisy sums over the parties' rows.

Everything here is a function of the noisy sum and of public values. Estimates are quotients of sums whose noise is
independent, so their standard errors follow from the noise to first order (docs/theory.md, "Private evaluation").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.protocol.grids.error_evaluation import ERROR_WEIGHTS, ErrorSums
from psephos.protocol.grids.record import NumericLabel

Array = NDArray[np.float64]

CERTAIN = 3.0
"""A number is divided by where it is at least this many standard errors."""

NEAR = 5.0
"""Below this many, an estimate may be shown only since noise has raised that number: its error is stated larger."""

_SELECTED = 3.0
"""What the standard error is multiplied by then: the root mean square of a normal variable that is above its 95th
percentile is 2.1."""


@dataclass(frozen=True)
class Estimate:
    """An estimated number and its standard error from noise and bins; null where the noise hides them."""

    value: float | None
    error: float | None


@dataclass(frozen=True)
class ErrorEstimate:
    """The errors of predictions of a number, in the label's unit.

    Attributes:
        low, high: bounds of the label: labels outside count as the nearer one.
        largest: the largest error that counts: larger ones count as it.
        mae: mean absolute error; the mean of the parties' where a party is protected.
        rmse: root mean squared error; null where a party is protected.
        r2: coefficient of determination; null where a party is protected.
        clipped: share of rows whose label is outside the bounds or whose error is above the largest one; null where a
            party is protected.
    """

    low: float
    high: float
    largest: float
    mae: Estimate
    rmse: Estimate | None = None
    r2: Estimate | None = None
    clipped: Estimate | None = None


_HIDDEN = Estimate(None, None)  # what the noise hides


def shown(one: Estimate, *divisors: tuple[float, float]) -> Estimate:
    """Return an estimate as it is stated: hidden where a divisor is not certain, with a larger error where it is near.

    `divisors` are pairs of a number that it is divided by, and its standard error.
    """
    if any(value < CERTAIN * error for value, error in divisors):
        return _HIDDEN
    near = any(value < NEAR * error for value, error in divisors)
    return Estimate(one.value, _SELECTED * one.error) if near and one.error is not None else one


def share_estimate(value: float, error: float) -> Estimate:
    """Return an estimate of a number between 0 and 1."""
    return Estimate(min(max(value, 0.0), 1.0), error)


def estimate_errors(
    label: NumericLabel, deviation: float, values: Array, shared: Estimate | None
) -> tuple[Estimate | None, ErrorEstimate]:
    """Estimate the number of rows, None where a party is protected, and the errors of a prediction.

    Args:
        label: the bounds of the label, and as its threshold the largest error that counts, C.
        deviation: standard deviation of the noise in an entry of the sum, in lattice units.
        values: the noisy sum, float64 (length,), in lattice units.
        shared: the mean absolute error in units of C, where a party is protected; None for a record.
    """
    largest, half = label.threshold, (label.high - label.low) / 2
    bounds: Any = {"low": label.low, "high": label.high, "largest": largest}
    if shared is not None:
        return None, ErrorEstimate(**bounds, mae=_scaled(shared, largest))
    # Of a row, of C^2, C, half^2 and half, and of a row: numbers that no range of the label makes too large.
    weights = np.array(ERROR_WEIGHTS, dtype=np.float64)
    sums, noise = ErrorSums(*(values / weights).tolist()), ErrorSums(*(deviation / weights).tolist())
    rows = Estimate(max(sums.rows, 0.0), noise.rows)
    if sums.rows < CERTAIN * noise.rows:
        return rows, ErrorEstimate(**bounds, mae=_HIDDEN, rmse=_HIDDEN, r2=_HIDDEN, clipped=_HIDDEN)
    counted = sums.rows, noise.rows
    squared, absolute, clipped = (
        (total / sums.rows, math.hypot(error, total / sums.rows * noise.rows) / sums.rows)
        for total, error in (
            (sums.squared, noise.squared),
            (sums.absolute, noise.absolute),
            (sums.clipped, noise.clipped),
        )
    )
    return rows, ErrorEstimate(
        **bounds,
        mae=_scaled(shown(share_estimate(*absolute), counted), largest),
        rmse=_scaled(shown(_root(*squared), counted), largest),
        r2=_determination(sums, noise, (largest / half) ** 2),
        clipped=shown(share_estimate(*clipped), counted),
    )


def _root(value: float, error: float) -> Estimate:
    """Return the root of an estimate; its error is half the length of the interval of roots within one standard error.

    It is never hidden: the noise of the squares would decide, and roots that are shown since it is large are too large.
    """
    low, middle, high = (math.sqrt(max(value + step * error, 0.0)) for step in (-1, 0, 1))
    return share_estimate(middle, (high - low) / 2 or math.sqrt(error) / 2)


def _scaled(one: Estimate, unit: float) -> Estimate:
    """Return an estimate in units of the label."""
    return one if one.value is None or one.error is None else Estimate(unit * one.value, unit * one.error)


def _determination(sums: ErrorSums, noise: ErrorSums, unit: float) -> Estimate:
    """Return R^2 = 1 - S/T; hidden where T is not above its error."""
    mean = sums.deviation / sums.rows
    total = sums.spread - sums.deviation * mean
    slopes = np.array([mean**2, 1.0, -2 * mean])
    total_error = float(np.linalg.norm(slopes * [noise.rows, noise.spread, noise.deviation]))
    if total <= 0:
        return _HIDDEN
    ratio = unit * sums.squared / total
    one = Estimate(min(1 - ratio, 1.0), math.hypot(unit * noise.squared, ratio * total_error) / total)
    return shown(one, (sums.rows, noise.rows), (total, total_error))
