"""Gaussian objective perturbation on pooled data (Rajkumar and Agarwal 2012, Algorithm 4), the baseline for PSGD:

    w_gop = argmin J(w) + (1/N) w.eta + (Delta/2) ||w||^2,   eta ~ N(0, sigma^2 I)

For experiments only: docs/protocols/psgd.md says what a private release would add.
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
    """Minimise J + (Delta/2)||w||^2 + eta.w/N, with the exact gradient's norm certified to be at most `tolerance`.

    Args:
        X: (N, d), rows of norm at most 1.
        y: labels -1 and +1, (N,).
        ridge: lambda + Delta.
        eta: noise, (d,); zeros give the unperturbed minimiser.
        loss: a binary loss.
        tolerance: tau.
    """
    if not loss.binary:
        raise InvalidParameter(f"objective perturbation needs a binary loss, not {loss.name}")
    labels, noise, shape = np.asarray(y), np.asarray(eta, dtype=np.float64), np.shape(X)
    if labels.shape != shape[:1] or not np.isin(labels, (-1, 1)).all():
        raise DataError("labels must be -1 and +1, one per record")
    if noise.shape != shape[1:] or not np.isfinite(noise).all():
        raise InvalidParameter(f"eta must hold one finite number per feature, shape {shape[1:]}")
    targets = one_hot((labels > 0).astype(np.int64), 2)
    return minimise(X, targets, ridge, loss, tolerance=tolerance, tilt=noise / len(labels))
