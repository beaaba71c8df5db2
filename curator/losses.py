"""Loss functions of the global classifier, with the constants that sensitivities and the solver need.

Hamm 2016, section 2.2, asks of a binary loss l(t), t = w.x for the positive class, that it is convex and continuously
differentiable, that |l'| <= 1 and that l' is c-Lipschitz. A soft label a weighs the two classes: a l(t) + (1 - a) l(-t)
(equation 14). Softmax (appendix B) has one score per class: log(sum_k exp z_k) - sum_k alpha_k z_k.

A `Loss` has

* `binary`: whether there is one score per sample (two classes), (N,), rather than one per class, (N, K);
* `smoothness`, c: the derivative with respect to the scores is c-Lipschitz in L2, so with ||x|| <= 1 the risk is
c-smooth;
* `lipschitz`: the largest L2 norm of the derivative with respect to one sample's scores;
* `at_zero`: the loss of all-zero scores, which is the same for every target;
* `value` (N,) and `derivative`, of the scores' shape, for targets (N, K), rows summing to 1;
* `curvature`: of a binary loss the second derivative, (N,), either one-sided value where the Huber loss has none; of
  softmax p, (N, K), whose second derivative is diag(p) - p p^T.

Nothing overflows for finite scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from psephos.curator.checks import check_count, check_positive
from psephos.protocol.errors import InvalidParameter

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Logistic:
    """Logistic loss l(t) = log(1 + exp(-t)).

    |l'| <= 1 and c = 1/4. Its sensitivity follows from the identity l'(t) + l'(-t) = -1.
    """

    name = "logistic"
    binary = True
    smoothness = 0.25
    lipschitz = 1.0

    def at_zero(self, classes: int) -> float:
        return math.log(2)

    def value(self, scores: Array, targets: Array) -> Array:
        loss: Array = np.logaddexp(0.0, scores) - targets[:, 1] * scores
        return loss

    def derivative(self, scores: Array, targets: Array) -> Array:
        # a l'(t) - (1 - a) l'(-t) with l'(t) = -sigma(-t) is sigma(t) - a.
        residual: Array = scipy.special.expit(scores) - targets[:, 1]
        return residual

    def curvature(self, scores: Array, targets: Array) -> Array:
        weight: Array = scipy.special.expit(scores) * scipy.special.expit(-scores)
        return weight


@dataclass(frozen=True)
class Huber:
    """Approximate hinge (Chaudhuri, Monteleoni and Sarwate 2011): a quadratic of half width h joins two lines.

        l(t) = 0 for t > 1 + h,   (1 + h - t)^2 / (4h) for |1 - t| <= h,   1 - t for t < 1 - h.

    |l'| <= 1 and c = 1/(2h).

    Attributes:
        half_width: h.
    """

    half_width: float = 0.5

    name = "huber"
    binary = True
    lipschitz = 1.0

    def __post_init__(self) -> None:
        check_positive(self.half_width, "the half width of the approximate hinge")

    @property
    def smoothness(self) -> float:
        return 1 / (2 * self.half_width)

    def at_zero(self, classes: int) -> float:
        return float(self._hinge(np.zeros(1))[0])

    def _hinge(self, t: Array) -> Array:
        h = self.half_width
        middle = np.clip(1 + h - t, 0.0, 2 * h)
        # Left of the quadratic piece the line continues with slope -1 from the value h at t = 1 - h.
        hinge: Array = middle**2 / (4 * h) + np.maximum(1 - h - t, 0.0)
        return hinge

    def _slope(self, t: Array) -> Array:
        h = self.half_width
        slope: Array = -np.clip(1 + h - t, 0.0, 2 * h) / (2 * h)
        return slope

    def _bend(self, t: Array) -> Array:
        return (np.abs(1 - t) <= self.half_width) / (2 * self.half_width)

    def value(self, scores: Array, targets: Array) -> Array:
        loss: Array = targets[:, 1] * self._hinge(scores) + targets[:, 0] * self._hinge(-scores)
        return loss

    def derivative(self, scores: Array, targets: Array) -> Array:
        residual: Array = targets[:, 1] * self._slope(scores) - targets[:, 0] * self._slope(-scores)
        return residual

    def curvature(self, scores: Array, targets: Array) -> Array:
        weight: Array = targets[:, 1] * self._bend(scores) + targets[:, 0] * self._bend(-scores)
        return weight


@dataclass(frozen=True)
class Softmax:
    """Multiclass logistic loss (Hamm 2016, equations 40 and 55), for two classes or more.

    The derivative is p - alpha, of L2 norm at most sqrt(2); its Jacobian diag(p) - p p^T has norm at most 1/2
    (v^T (diag(p) - p p^T) v is the variance of a variable of range max v - min v <= sqrt(2) ||v||, at most range^2/4).
    """

    name = "softmax"
    binary = False
    smoothness = 0.5
    lipschitz = math.sqrt(2)

    def at_zero(self, classes: int) -> float:
        return math.log(classes)

    def value(self, scores: Array, targets: Array) -> Array:
        loss: Array = scipy.special.logsumexp(scores, axis=1) - np.einsum("ik,ik->i", scores, targets)
        return loss

    def derivative(self, scores: Array, targets: Array) -> Array:
        residual: Array = scipy.special.softmax(scores, axis=1) - targets
        return residual

    def curvature(self, scores: Array, targets: Array) -> Array:
        probabilities: Array = scipy.special.softmax(scores, axis=1)
        return probabilities


Loss = Logistic | Huber | Softmax


def loss_named(name: str, classes: int, *, half_width: float = 0.5) -> Loss:
    """Return 'logistic' (softmax for more than two classes), 'softmax', or 'huber' with h the `half_width`."""
    check_count(classes, "the number of classes", 2)
    if name == "softmax" or (name == "logistic" and classes > 2):
        return Softmax()
    if name == "logistic":
        return Logistic()
    if name == "huber":
        if classes > 2:
            raise InvalidParameter(f"the hinge is for two classes, and there are {classes}: use loss='logistic'")
        return Huber(half_width)
    raise InvalidParameter(f"unknown loss {name!r}; choose 'logistic', 'huber' or 'softmax'")
