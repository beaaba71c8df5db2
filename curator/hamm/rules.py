"""Rules for the method and its parameters, from public quantities only (X, M, K, epsilon, learners).

* `RidgeRule.choose`: the lambda of vote and soft at which noisy scores are expected to correlate most with labels of a
  plausible size and shape; it never rises with epsilon (docs/theory.md, "The ridge of vote and soft").
* `averaging_radius`: C = R(lambda)/10; once parameters are projected on the ball, its radius hardly matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from psephos.curator.hamm.release import OutputNoise, erm_bound, mechanism_for
from psephos.curator.hamm.sensitivity import Labels, Sensitivity, radius
from psephos.curator.losses import Loss
from psephos.curator.signal import noise_energy

Array = NDArray[np.float64]

HAMM_LAMBDA = 1e-4
"""The lambda of all experiments in Hamm 2016, section 6."""

RIDGES = (HAMM_LAMBDA, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0)
"""The grid of `RidgeRule.choose`. Above 3, more than the rows' moments, lambda hardly turns the minimiser."""

_PLAUSIBLE = 0.25  # energy of plausible labels that linear scores explain, as a share of that of unanimous labels

FEWEST_LABELLED = 20
"""Labelled public rows, of two classes or more, from which on a release is measured by the model of them."""


@dataclass(frozen=True, eq=False)
class RidgeRule:
    """The rule for the ridge of vote and soft: how they fit labels of a plausible size and shape. All of it is public.

    Attributes:
        moments: moments s_j of the public rows in principal directions, largest first.
        energies: energies e_j of the labels' linear statistic in these directions, whitened.
        curvature: c, the largest second derivative of the loss.
        contrasts, width: K - 1, d.
    """

    moments: Array
    energies: Array
    curvature: float
    contrasts: int
    width: int

    @classmethod
    def of(cls, features: Array, classes: int, loss: Loss, *, private: bool = False) -> Self:
        """Return the rule for public rows (N, d); where one is `private`, moments are 1/j up to a factor."""
        samples, width = features.shape
        if private:
            moments = 1 / np.arange(1, width + 1)
            moments /= moments.sum()
        else:
            moments = np.linalg.eigvalsh(features.T @ features / samples)[::-1]
            moments = moments[moments >= 1e-9 * moments[0]]
        energies = 1 / np.arange(1, len(moments) + 1)  # as in `signal_of` and `wiener_filter`
        unanimous = loss.derivative(np.zeros(1 if loss.binary else (1, classes)), np.eye(classes)[:1])
        energies *= _PLAUSIBLE * float((unanimous**2).sum()) / energies.sum()
        return cls(moments, energies, loss.smoothness, 1 if loss.binary else classes - 1, width)

    def _signal(self, lam: float) -> tuple[float, float]:
        """Return the covariance of the scores with the labels, and the energy of the scores, without noise."""
        gains = self.moments / (self.curvature * self.moments + lam)
        return float(self.energies @ gains), float(self.energies @ gains**2)

    def _noise(self, epsilon: float, noise: OutputNoise, delta: float) -> float:
        """Return the expected energy of the noise in the scores, at sensitivity 1."""
        dimension = self.contrasts * self.width
        mechanism, _ = mechanism_for((dimension,), 0.0, 1.0, Sensitivity(1.0), epsilon, noise=noise, delta=delta)
        return noise_energy(mechanism).mean / self.width * float(self.moments.sum())

    def choose(
        self,
        bound: Callable[[float], Sensitivity],
        epsilon: float | None,
        noise: OutputNoise = "spherical-laplace",
        delta: float = 1e-6,
    ) -> float:
        """Choose lambda, of `RIDGES`, for this L2 sensitivity by lambda: a function that does not rise with epsilon."""
        if epsilon is None:
            return HAMM_LAMBDA
        one = self._noise(epsilon, noise, delta)
        values = []
        for lam in RIDGES:
            covariance, energy = self._signal(lam)
            total = energy + one * bound(lam).value ** 2
            values.append(covariance / math.sqrt(total) if total else 0.0)  # rows of zeros have no scores
        best = max(values) * (1 - 1e-9)  # ties go to the larger lambda on every machine
        return max(lam for lam, value in zip(RIDGES, values, strict=True) if value >= best)


def erm_rule(
    labels: Labels, loss: Loss, features: Array, *, classes: int, parties: int, private: bool = False
) -> tuple[Callable[[float], Sensitivity], RidgeRule]:
    """Return the sensitivity of vote ("majority") or soft by lambda, as `erm_bound`, and the rule for their lambda."""
    bound = erm_bound(labels, loss, parties=parties, classes=classes, features=features, protect_auxiliary=private)
    return bound, RidgeRule.of(features, classes, loss, private=private)


def averaging_radius(lam: float, classes: int) -> float:
    """Return the radius C of clipped averaging, R(lambda)/10."""
    return radius(lam, classes) / 10
