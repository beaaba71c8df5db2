"""Gaussian objective perturbation on pooled data (Rajkumar and Agarwal 2012, Algorithm 4): what PSGD is compared with.

    w_gop = argmin J(w) + (1/N) w.eta + (Delta/2) ||w||^2,   eta ~ N(0, sigma^2 I)

Theorem 4.1 is about the exact minimiser of an objective with real-number noise. Neither exists in a computer: what is
found here is within tau/(lambda + Delta) of it, tau being the certified gradient norm. For experiments only; what a
release would add to be private as it stands is in docs/rajkumar.md, and in the tests.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from psephos.curator.hamm.erm import DEFAULT_TOLERANCE, Minimiser, minimise
from psephos.curator.hamm.labels import one_hot
from psephos.curator.losses import Loss
from psephos.protocol.errors import DataError, InvalidParameter


def perturbed_minimiser(
    X: ArrayLike,
    y: ArrayLike,
    *,
    ridge: float,
    eta: ArrayLike,
    loss: Loss,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Minimiser:
    """The minimiser of J + (Delta/2)||w||^2 + eta.w/N, with the exact gradient's norm certified to be <= tolerance.

    Args:
        X: (N, d), rows of norm at most 1. y: (N,), labels -1 and +1.
        ridge: lambda + Delta.
        eta: (d,); zeros give the unperturbed minimiser.
        tolerance: tau.

    Raises DataError, NormError or InvalidParameter for inputs that cannot be used, as `psephos.curator.hamm.erm`.
    """
    if not loss.binary:
        raise InvalidParameter(f"objective perturbation is for binary losses here, not {loss.name}")
    labels, noise, shape = np.asarray(y), np.asarray(eta, dtype=np.float64), np.shape(X)
    if labels.shape != shape[:1] or not np.isin(labels, (-1, 1)).all():
        raise DataError("labels are -1 and +1 here, one per record")
    if noise.shape != shape[1:] or not np.isfinite(noise).all():
        raise InvalidParameter(f"eta is one finite number for each of the features, of shape {shape[1:]}")
    targets = one_hot((labels > 0).astype(np.int64), 2)
    return minimise(X, targets, ridge, loss, tolerance=tolerance, tilt=noise / len(labels))
