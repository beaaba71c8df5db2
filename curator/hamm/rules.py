"""Choosing without looking: how method and parameters follow from public quantities alone (X, M, K, epsilon, learners).

A parameter tuned on private accuracy would be a release of its own. The rules here use what everybody knows.

* **Ridge of vote and soft** (`ridge`). The released vector is a minimiser of norm at most R(lambda) plus noise of mean
  norm D S(lambda)/epsilon. The rule takes the smallest lambda at which the noise is expected to be at most 0.3 of that
  norm, D S(lambda)/epsilon <= 0.3 R(lambda): less ridge drowns the classifier, more only shrinks both and flattens the
  fit towards the mean of each class. It never goes below Hamm's lambda = 1e-4, nor above 0.03, where the
  flattening costs more than the noise. Without noise it is 1e-4.
* **Method** (`choose_method`). The own-data statistic where what the parties agreed to learn is linear, since their own
  rows say more than their votes, and the whitened average where parties are few, so that each has rows enough for a
  classifier of its own; the statistic of votes for every other kind of classifier, which only votes can carry.
* **Averaging** (`averaging_radius`). Only the direction of a linear classifier matters to its predictions, and once
  every party is projected on the ball, the noise over the average no longer depends on the radius C. So C is small
  enough for that, R(lambda)/10, with the parties' own lambda at Hamm's 1e-4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from psephos.curator.hamm.sensitivity import Sensitivity, radius
from psephos.protocol.errors import InvalidParameter

HAMM_LAMBDA = 1e-4
"""The one lambda of Hamm 2016, section 6."""

LARGEST_RIDGE = 0.03
"""Above it the flattening of the fit costs more than the noise: measured, not derived from any paper."""

NOISE_SHARE = 0.3
"""Of R(lambda), that the noise may be expected to reach."""


FEW_PARTIES = 100
"""Below it classifiers are averaged, not directions: chosen on the development half of docs/accuracy.md."""


def ridge(sensitivity_at_one: Sensitivity, dimension: int, classes: int, epsilon: float | None) -> float:
    """lambda of Algorithm 1 or 2 for a sensitivity of the form S(lambda) = S(1)/lambda.

    Args:
        sensitivity_at_one: L2, at lambda = 1.
        dimension: D of the noise.
        classes: K.
        epsilon: None for no noise.

    From D S(1)/(lambda epsilon) = 0.3 R(1)/sqrt(lambda). Raises InvalidParameter for a dimension below 1.
    """
    if dimension < 1:
        raise InvalidParameter(f"a release has at least one dimension, not {dimension}")
    if epsilon is None:
        return HAMM_LAMBDA
    wanted = (dimension * sensitivity_at_one.value / (epsilon * NOISE_SHARE * radius(1.0, classes))) ** 2
    return min(max(wanted, HAMM_LAMBDA), LARGEST_RIDGE)


def averaging_radius(lam: float, classes: int) -> float:
    """C of clipped averaging: a tenth of R(lambda); raises InvalidParameter for a lambda or K out of range."""
    return radius(lam, classes) / 10


def choose_method(learners: Sequence[str], parties: int) -> Literal["own-data", "whitened", "statistic"]:
    """`method="auto"`: what to release, before any data is seen, for so many parties that agreed on these learners.

    Raises InvalidParameter when there are none.
    """
    if not learners:
        raise InvalidParameter("no learner was agreed on; name at least one")
    if not set(learners) <= {"logistic", "whitened"}:
        return "statistic"
    return "whitened" if parties < FEW_PARTIES else "own-data"
