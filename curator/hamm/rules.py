"""Rules for the method and its parameters, from public quantities only (X, M, K, epsilon, learners).

* `RidgeRule.choose`: the lambda of vote and soft at which noisy scores are expected to correlate most with labels of a
  plausible size and shape; it never rises with epsilon (docs/theory.md, "The ridge of vote and soft").
* `choose_method` and `suggest_method`: docs/which-method.md, benchmarks/README.md.
* `averaging_radius`: C = R(lambda)/10; once parameters are projected on the ball, its radius hardly matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from psephos.curator.hamm.release import OutputNoise, mechanism_for
from psephos.curator.hamm.sensitivity import Sensitivity, radius
from psephos.curator.losses import Loss
from psephos.curator.signal import noise_energy
from psephos.protocol.errors import InvalidParameter

Array = NDArray[np.float64]

HAMM_LAMBDA = 1e-4
"""The lambda of all experiments in Hamm 2016, section 6."""

RIDGES = (HAMM_LAMBDA, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0)
"""The grid of `RidgeRule.choose`. Above 3, more than the rows' moments, lambda hardly turns the minimiser."""

NOISE_SHARE = 0.3
"""Expected length of the noise, as a multiple of the signal's, above which another method is suggested."""

_PLAUSIBLE = 0.25  # energy of plausible labels that linear scores explain, as a share of that of unanimous labels

FEW_PARTIES = 100
"""`choose_method` averages below this number of parties: chosen on the development half of benchmarks/accuracy.md."""

LONGEST_NOISE = 1.0
"""Expected norm of the noise of clipped averaging, as a multiple of its radius, up to which it is suggested."""

FEWEST_LABELLED = 20
"""Labelled public rows, of two classes or more, from which on `choose_method` takes the rehearsed step."""


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

    def noise_share(
        self, lam: float, sensitivity: float, epsilon: float, noise: OutputNoise, delta: float = 1e-6
    ) -> float:
        """Return the expected length of the noise in the scores at this L2 sensitivity, over that of the scores."""
        return sensitivity * math.sqrt(self._noise(epsilon, noise, delta) / self._signal(lam)[1])


def averaging_radius(lam: float, classes: int) -> float:
    """Return the radius C of clipped averaging, R(lambda)/10."""
    return radius(lam, classes) / 10


def choose_method(
    learners: Sequence[str], parties: int, labelled: int = 0
) -> Literal["rehearsed", "own-data", "whitened", "vote-directions"]:
    """Choose the release for `method="auto"`, before any private data is seen.

    It is "vote-directions" unless all learners are linear; then "rehearsed" for `FEWEST_LABELLED` labelled public rows
    of two classes, or more; then "whitened" for fewer than `FEW_PARTIES` parties, else "own-data".
    """
    if not learners:
        raise InvalidParameter("the list of learners is empty; name at least one")
    if not set(learners) <= {"logistic", "whitened"}:
        return "vote-directions"
    if labelled >= FEWEST_LABELLED:
        return "rehearsed"
    return "whitened" if parties < FEW_PARTIES else "own-data"


def average_noise_share(features: int, classes: int, parties: int, epsilon: float) -> float:
    """Return the expected norm of the noise of clipped averaging over its radius, 2 D/(M epsilon)."""
    return 2 * features * (1 if classes == 2 else classes) / (parties * epsilon)


def suggest_method(
    method: str,
    learners: Sequence[str],
    parties: int,
    noise_share: float,
    labelled: int = 0,
    average_share: float = math.inf,
) -> tuple[Literal["rehearsed", "own-data", "whitened", "statistic", "avg"], str] | None:
    """Suggest a method that suits a run better than the chosen one, with the reason as the end of a sentence; or None.

    `noise_share` is the expected length of the noise over that of the signal: `RidgeRule.noise_share` for soft and
    vote; `average_share` is `average_noise_share` for two classes, and infinite for more, for which averaging is not
    suggested.
    """
    if method != "rehearsed" and labelled >= FEWEST_LABELLED:
        return "rehearsed", (
            f"it starts from a model of the {labelled} labelled public rows, and asks the parties only where a private "
            "step is expected to improve it"
        )
    if average_share <= LONGEST_NOISE and method == "avg":
        return None
    if average_share <= LONGEST_NOISE and method == "statistic":
        return "avg", (
            "with so few features, its noise is small beside an average of linear classifiers, which keeps the shares "
            "of the classes; the curator then sees the exact average"
        )
    average: Literal["own-data", "whitened"] = "whitened" if parties < FEW_PARTIES else "own-data"
    linear = choose_method(learners, parties) != "vote-directions"
    if method == "avg":
        return average, "the noise is added to directions of norm 1, whatever the ridge, and no exact sum is opened"
    if method in ("soft", "vote") and noise_share > NOISE_SHARE:
        return "statistic", "it releases a linear statistic of the same votes, which needs less noise"
    if method == "statistic" and linear:
        return average, "all parties train linear classifiers, which are summed without opening any count of votes"
    if method == "statistic" and noise_share > NOISE_SHARE:
        return "whitened", "with so few parties at this epsilon an average of linear classifiers needs less noise"
    return None
