"""Composition of privacy losses, rounded up: binary randomised responses and one Gaussian.

The privacy loss of a sequence of mechanisms, each chosen in view of the earlier results, is at most that of their
dominating pairs run independently (Zhu, Dong and Wang 2022, theorem 10). k epsilon-private mechanisms have the loss
(2 B - k) epsilon with B binomial(k, e^epsilon/(1 + e^epsilon)) (Kairouz, Oh and Viswanath 2015); Gaussians compose to
one of mu. With L the loss of all responses, delta is E[h(epsilon - L)], where h(x) is the delta of the Gaussian at x,
or max(0, 1 - e^x) without one: a finite sum. Too many values are moved to a grid that dominates them (Doroshenko,
Ghazi, Kamath, Kumar and Manurangsi 2022, "Connect the dots"). No approximation depends on delta.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_MOST_VALUES = 2**17
"""Values of a loss that are kept; a sum with more is moved to a grid."""

_GRID_POINTS = 2**15
"""Points of the grid."""

_FINEST_STEP = 2.0**-12
"""Distance of two points of the grid, at least."""

_ROUNDING = 2.0**-44
"""Bound of the relative error of a mass or term per response, and of a loss per unit of epsilon and sum (log-gamma of k
is below 2^5 k)."""

_TAIL = 2.0**-20
"""Share of delta that a sum may give up at either end of the losses; what is given up is charged."""

_OVERFLOW = -30.0
"""Where the delta of a Gaussian is replaced by its bound 1: far below, the scaled error function overflows."""

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class PrivacyLoss:
    """The distribution of a privacy loss: losses and their probabilities, (n,) each.

    The mass `infinite` is charged to delta whatever epsilon is.
    """

    values: Vector
    masses: Vector
    infinite: float = 0.0

    def add(self, other: PrivacyLoss, delta: float) -> PrivacyLoss:
        """Return the distribution of the sum with an independent loss; a small share of delta may be given up."""
        many, few = sorted((self.trimmed(delta), other.trimmed(delta)), key=lambda loss: -len(loss.values))
        infinite = many.infinite + few.infinite
        if len(many.values) * len(few.values) <= _MOST_VALUES:
            values = np.add.outer(many.values, few.values).ravel()
            return PrivacyLoss(values, np.multiply.outer(many.masses, few.masses).ravel(), infinite)
        return PrivacyLoss(*_sum_on_grid(many, few), infinite)

    def trimmed(self, delta: float) -> PrivacyLoss:
        """Return a loss that dominates this one, in ascending order, without its tails, of mass `_TAIL` delta."""
        order = np.argsort(self.values)
        values, masses = self.values[order], self.masses[order]
        above = np.cumsum(masses[::-1])[::-1]
        last = int(np.searchsorted(-above, -_TAIL * delta))
        first = min(int(np.searchsorted(np.cumsum(masses), _TAIL * delta)), last - 1)
        window = masses[first:last].copy()
        window[0] += masses[:first].sum()  # moved to a larger loss
        return PrivacyLoss(values[first:last], window, self.infinite + float(masses[last:].sum()))


def _sum_on_grid(many: PrivacyLoss, few: PrivacyLoss) -> tuple[Vector, Vector]:
    """Return values and masses of a loss on a grid that dominates the sum of two losses, each in ascending order."""
    start, end = many.values[0] + few.values[0], many.values[-1] + few.values[-1]
    step = max(_FINEST_STEP, float(end - start) / (_GRID_POINTS - 2))
    grid = np.zeros(_GRID_POINTS)
    for value, mass in zip(few.values, few.masses, strict=True):
        place = (many.values + value - start) / step
        below = np.clip(np.floor(place), 0, _GRID_POINTS - 2)
        lower = mass * many.masses * (np.expm1(np.clip(below + 1 - place, 0, 1) * step) / math.expm1(step))
        # Where rounding makes the rest negative, it is rounded up to 0: the distribution then has more mass, and since
        # no term of delta is negative, a larger delta.
        upper = np.maximum(mass * many.masses - lower, 0.0)
        at = below.astype(np.int64)
        grid += np.bincount(at, lower, _GRID_POINTS) + np.bincount(at + 1, upper, _GRID_POINTS)
    return start + step * np.arange(_GRID_POINTS), grid


def responses(epsilon: float, count: int) -> PrivacyLoss:
    from scipy.special import gammaln

    ones = np.arange(count + 1, dtype=np.float64)
    log_choose = gammaln(count + 1) - gammaln(ones + 1) - gammaln(count - ones + 1)
    # p = 1/(1 + e^-epsilon), 1 - p = e^-epsilon p
    masses = np.exp(log_choose - (count - ones) * epsilon - count * math.log1p(math.exp(-epsilon)))
    return PrivacyLoss(epsilon * (2 * ones - count), masses)


def gaussian_deltas(epsilon: Vector, mu: float) -> Vector:
    """Return the delta of Gaussian noise at each epsilon, rounded up; epsilon may be negative.

    It is phi(a) (R(a) - R(a + mu)) with a = epsilon/mu - mu/2 and R the ratio of Mills. The pair is symmetric, so below
    0 it is 1 - e^epsilon + e^epsilon delta(-epsilon).
    """
    from scipy.special import erfcx

    distance = np.abs(epsilon)
    a = np.maximum(distance / mu - mu / 2, _OVERFLOW)
    near, far = erfcx(a / math.sqrt(2)), erfcx((a + mu) / math.sqrt(2))
    delta = np.exp(-a * a / 2) / 2 * (near * (1 + _ROUNDING) - far)
    delta = np.where(a > _OVERFLOW, np.minimum(delta, 1.0), 1.0)
    below = np.minimum(epsilon, 0.0)
    return np.where(epsilon >= 0, delta, -np.expm1(below) + np.exp(below) * delta)


def composed_epsilon(counts: Mapping[float, int], mu: float, delta: float, most: float) -> float:
    """Return the least epsilon, rounded up, at which all mechanisms together are (epsilon, delta)-private.

    Args:
        counts: how many mechanisms there are of each pure epsilon.
        mu: of the Gaussians together: (sum of 1/multiplier^2)^(1/2); 0 if there are none.
        delta: above 0.
        most: beyond this epsilon the result is inf.
    """
    losses = PrivacyLoss(np.zeros(1), np.ones(1))
    for epsilon, count in sorted(counts.items()):
        losses = losses.add(responses(epsilon, count), delta)
    slack = _ROUNDING * (1 + sum(counts.values()))
    shift = _ROUNDING * (1 + len(counts) * math.fsum(epsilon * count for epsilon, count in counts.items()))
    losses = PrivacyLoss(losses.values + shift, losses.masses, losses.infinite)

    def holds(epsilon: float) -> bool:
        remaining = epsilon - losses.values
        terms = gaussian_deltas(remaining, mu) if mu else -np.expm1(np.minimum(remaining, 0.0))
        return (losses.infinite + float(np.dot(losses.masses, terms))) * (1 + slack) <= delta

    if holds(0.0):
        return 0.0
    if not holds(most):
        return math.inf
    low, high = 0.0, most
    while high - low > 2.0**-36 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
