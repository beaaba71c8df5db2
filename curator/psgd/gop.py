"""Gaussian objective perturbation on pooled data (Rajkumar and Agarwal 2012, Algorithm 4): what PSGD is compared with.

    w_gop = argmin J(w) + (1/N) w.eta + (Delta/2) ||w||^2,   eta ~ N(0, sigma^2 I)

Theorem 4.1 is about the exact minimiser of an objective with real-number noise. Neither exists in a computer: what is
found here is within tau/(lambda + Delta) of it, tau being the certified gradient norm. For experiments only; what a
release would add to be private as it stands is in docs/rajkumar.md, and in the tests.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve

from psephos.curator.checks import check_positive
from psephos.curator.hamm.erm import DEFAULT_TOLERANCE, check_auxiliary, rounding_floor
from psephos.curator.hamm.labels import one_hot
from psephos.curator.losses import Loss
from psephos.protocol.errors import ConvergenceError, DataError, InvalidParameter

__all__ = ["perturbed_gradient", "perturbed_minimiser", "perturbed_risk"]

Array = NDArray[np.float64]

_UNIT = 2.0**-53
_MAX_STEPS = 10_000


def perturbed_risk(X: Array, targets: Array, w: Array, ridge: float, eta: Array, loss: Loss) -> float:
    """J(w) + (Delta/2) ||w||^2 + eta.w/N, `ridge` being lambda + Delta: what Algorithm 4 minimises, a float.

    `X`: (N, d). `targets`: (N, 2), one-hot. `w`, `eta`: (d,). Nothing is checked here.
    """
    return float(loss.value(X @ w, targets).mean() + ridge / 2 * (w @ w) + eta @ w / len(X))


def perturbed_gradient(X: Array, targets: Array, w: Array, ridge: float, eta: Array, loss: Loss) -> Array:
    """The gradient of `perturbed_risk` at w, (d,); arguments as there."""
    total: Array = (loss.derivative(X @ w, targets) @ X + eta) / len(X) + ridge * w
    return total


def _certified(X: Array, targets: Array, w: Array, ridge: float, eta: Array, loss: Loss) -> tuple[Array, float]:
    """The computed gradient and an upper bound of the exact one's norm."""
    computed = perturbed_gradient(X, targets, w, ridge, eta, loss)
    norm = float(np.linalg.norm(w)) * (1 + (w.size + 4) * _UNIT)
    floor = rounding_floor(len(X), w.size, 2, norm, ridge, loss)
    # eta enters one addition before the division by N and ridge w one after it.
    floor += 4 * _UNIT * float(np.linalg.norm(eta)) / len(X)
    return computed, float(np.linalg.norm(computed)) * (1 + (w.size + 4) * _UNIT) + floor


def _targets(X: Array, y: ArrayLike) -> Array:
    labels = np.asarray(y)
    if labels.shape != (len(X),) or not np.isin(labels, (-1, 1)).all():
        raise DataError("labels are -1 and +1 here, one per record")
    return one_hot((labels > 0).astype(np.int64), 2)


def perturbed_minimiser(
    X: ArrayLike,
    y: ArrayLike,
    *,
    ridge: float,
    eta: ArrayLike,
    loss: Loss,
    tolerance: float = DEFAULT_TOLERANCE,
) -> tuple[Array, float]:
    """The minimiser of J + (Delta/2)||w||^2 + eta.w/N, and a certified bound of the exact gradient's norm there.

    Args:
        X: (N, d), rows of norm at most 1. y: (N,), labels -1 and +1.
        ridge: lambda + Delta.
        eta: (d,); zeros give the unperturbed minimiser.
        tolerance: the gradient norm to be reached.

    Raises:
        DataError, NormError, InvalidParameter: inputs that cannot be used, in particular a tolerance under four times
            the rounding error of the gradient, which depends on N, d, ||eta||, ridge and the loss.
        ConvergenceError: never, by the argument of `psephos.curator.hamm.erm.minimise`, whose steps these are.
    """
    ridge, tolerance = check_positive(ridge, "lambda + Delta"), check_positive(tolerance, "the tolerance")
    if not loss.binary:
        raise InvalidParameter(f"objective perturbation is for binary losses here, not {loss.name}")
    rows = check_auxiliary(X)
    targets = _targets(rows, y)
    noise = np.asarray(eta, dtype=np.float64)
    if noise.shape != rows.shape[1:] or not np.isfinite(noise).all():
        raise InvalidParameter(f"eta is one finite number for each of the {rows.shape[1]} features")
    far = (loss.lipschitz + float(np.linalg.norm(noise)) / len(rows)) / ridge
    least = 4 * rounding_floor(len(rows), rows.shape[1], 2, far, ridge, loss)
    least += 16 * _UNIT * float(np.linalg.norm(noise)) / len(rows)
    if tolerance < least:
        raise InvalidParameter(
            f"a tolerance of {tolerance:.3g} cannot be certified here; it must be at least {least:.3g}"
        )

    w = np.zeros(rows.shape[1])
    slope, certified = _certified(rows, targets, w, ridge, noise, loss)
    best = certified
    for _ in range(_MAX_STEPS):
        if certified <= tolerance:
            return w, certified
        curvature = loss.curvature(rows @ w, targets)
        hessian = (rows.T * curvature) @ rows / len(rows)
        hessian[np.diag_indices_from(hessian)] += ridge
        step = cho_solve(cho_factor(hessian, check_finite=False), slope, check_finite=False)
        t = 1.0
        while True:
            candidate = w - t * step
            new_slope, certified = _certified(rows, targets, candidate, ridge, noise, loss)
            if certified <= max(best / 2, tolerance) or new_slope @ step >= 0:
                break
            t /= 2
            if t < ridge / (4 * (loss.smoothness + ridge)):
                break
        w, slope = candidate, new_slope
        best = min(best, certified)
    raise ConvergenceError(f"the solver did not reach its tolerance of {tolerance:.3g} in {_MAX_STEPS} steps")
