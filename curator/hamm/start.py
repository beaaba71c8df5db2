"""Hamm's weighted ERM around a model of labelled public rows: alpha moves the public model, noise does not drown it.

Where auxiliary samples have labels, a ridge softmax model u is fitted to them in the clear, and Algorithms 1 and 2
minimise the weighted risk with the ridge (lambda/2) ||w - u||^2 in place of (lambda/2) ||w||^2. The sensitivity is that
of u = 0 (`psephos.curator.hamm.sensitivity.centred_ridge`; docs/theory.md, "Sensitivities").
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from psephos.curator.checks import check_positive
from psephos.curator.hamm.rehearsal import fit_public, shrink
from psephos.curator.hamm.rehearsed import model_classifier, public_features
from psephos.curator.hamm.rules import HAMM_LAMBDA
from psephos.curator.hamm.sensitivity import Sensitivity
from psephos.protocol.encrypted_sum.own_data import contrast_basis
from psephos.protocol.errors import InvalidParameter

__all__ = ["CENTRED_TOLERANCE", "PublicStart", "public_start"]

Array = NDArray[np.float64]

CENTRED_TOLERANCE = 1e-7
"""tau of the solver: rounding errors grow with the length of the public model."""

_NOISE_SHARE = 0.1
"""Root mean square of the noise in a score, as a share of the public scores': chosen on the development half of
benchmarks/tables.md, where .3 and 1 lost up to .01 and .07 against the public model."""

_INSIDE = 0.95
"""Share of the public rows that are not clipped."""


@dataclass(frozen=True, eq=False)
class PublicStart:
    """A public model, and the public rows in the scale of its scores.

    Attributes:
        rows: float64 (N, d), public rows divided by their constant and by a public length, and clipped to norm 1. A
            classifier gives a row and its multiples the same class.
        w: the public model u of these rows, (d,) of logits for two classes, (K, d) for more.
        spread: root mean square of its scores on these rows, in contrasts of the classes.
    """

    rows: Array = field(repr=False)
    w: Array = field(repr=False)
    spread: float

    def ridge(self, sensitivity_at_one: Sensitivity, dimension: int, epsilon: float) -> float:
        """Choose lambda for a sensitivity of the form S(lambda) = S(1)/lambda, from public numbers only.

        The noise, of norm Gamma(D, S/epsilon) and a uniform direction, moves the score of a row of length r by
        r sqrt(D + 1) S/epsilon in the root mean square. The rule takes the smallest lambda, at least Hamm's 1e-4, at
        which that is `_NOISE_SHARE` of the spread of the public scores.

        Args:
            sensitivity_at_one: L2 sensitivity at lambda = 1.
            dimension: D, the dimension of the noise.
            epsilon: privacy parameter.

        Raises:
            InvalidParameter: the dimension is below 1, or epsilon is not positive.
        """
        if dimension < 1:
            raise InvalidParameter(f"the dimension of a release must be at least 1, not {dimension}")
        length = math.sqrt(float((self.rows**2).sum()) / len(self.rows))
        noise = length * math.sqrt(dimension + 1) * sensitivity_at_one.value / check_positive(epsilon, "epsilon")
        return max(HAMM_LAMBDA, noise / (_NOISE_SHARE * self.spread))

    def shrunken(self, w: Array, energy: float) -> Array:
        """Shrink the step of a noisy release from the public model, in principal directions of the public rows.

        Every octave of directions is multiplied by its estimated share of signal (`shrink`): post-processing.

        Args:
            w: the release, of the shape of the public model.
            energy: expected squared norm of its noise, whose direction is uniform.

        Returns:
            The classifier, (d,) or (K, d).
        """
        basis = contrast_basis(len(w)) if w.ndim == 2 else np.ones((1, 1))
        axes = np.linalg.svd(self.rows, full_matrices=True)[2].T
        steps = basis @ np.atleast_2d(w - self.w) @ axes
        shrunken = basis.T @ shrink(steps, math.sqrt(energy / steps.size)) @ axes.T
        return np.asarray(self.w + (shrunken if w.ndim == 2 else shrunken[0]))


def public_start(X: Array, labels: NDArray[np.integer], classes: int) -> PublicStart:
    """Fit the public model around which the ridge is centred.

    Args:
        X: float64 (N, d), the scaled public rows; the last feature is the constant of the scaling.
        labels: class numbers (N,), -1 where a public row has no label.
        classes: K.

    Raises:
        DataError: as `public_features` and `fit_public`.
    """
    features = public_features(X)
    model = model_classifier(fit_public(features, labels, classes))
    rows = np.column_stack([features, np.ones(len(features))])
    lengths = np.linalg.norm(rows, axis=1)
    length = float(np.quantile(lengths, _INSIDE)) * (1 + 2.0**-40)
    # A classifier of two classes is one contrast; the logit is the difference of two scores.
    w = (model * math.sqrt(2) if classes == 2 else model) * length
    rows = rows / np.maximum(lengths * (1 + 2.0**-40), length)[:, None]
    scores = rows @ np.atleast_2d(w).T
    squares = float((scores**2).sum()) / len(rows)  # over K - 1 contrasts; a logit is sqrt(2) times a contrast
    return PublicStart(rows, w, max(math.sqrt(squares / (classes - 1)), 1e-6))
