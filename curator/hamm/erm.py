"""Regularised empirical risk minimisation with a certified gradient norm (Hamm 2016, equations 8, 19, 41 and 55).

    R(w) = (1/N) sum_i l_alpha(w . x_i) + (lambda/2) ||w||^2

R is lambda-strongly convex, so a vector where the gradient of R has norm at most tau is within tau/lambda of the
minimiser. That distance enters the sensitivity of the release (2 tau/lambda). Therefore tau is a fixed public number,
the certified gradient norm includes the rounding error of its own computation, and the solver always reaches tau:
whether it does must not depend on anybody's data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from psephos.curator.checks import check_positive
from psephos.curator.hamm.sensitivity import largest_row_norm
from psephos.curator.losses import Loss
from psephos.protocol.errors import ConvergenceError, DataError, InvalidParameter, NormError

Array = NDArray[np.float64]

DEFAULT_TOLERANCE = 1e-9
"""tau: far above the rounding floor (about 3e-11 at N = 1e5, d = 1e3, ten classes, lambda = 1e-4)."""

NORM_SLACK = 2.0**-39
"""Largest excess over 1 of a row's certified norm, for the rounding of a division by the norm.

The sensitivity of a release includes it (`psephos.curator.hamm.release`)."""

_UNIT = 2.0**-53  # unit roundoff of float64
_DENSE_LIMIT = 1024  # unknowns up to which a Hessian is formed and factored; beyond, conjugate gradients
_MAX_STEPS = 100_000


def check_auxiliary(features: ArrayLike) -> Array:
    """Return the auxiliary features as a C-contiguous float64 array (N, d).

    Raises:
        DataError: there are no samples, or the entries are not finite numbers.
        NormError: a row has norm above 1, which every sensitivity excludes.
    """
    try:
        array = np.ascontiguousarray(features, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError("the auxiliary features are not a table of numbers") from error
    longest = largest_row_norm(array)
    if longest > 1 + NORM_SLACK:
        raise NormError(
            f"an auxiliary sample has norm {longest:.6g}, and every row must have norm at most 1: divide all rows by "
            "the largest norm, or clip those that are too long"
        )
    return array


def _check_targets(targets: ArrayLike, samples: int, loss: Loss) -> Array:
    array = np.asarray(targets, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != samples:
        raise DataError(f"targets must have one row for each of the {samples} auxiliary samples")
    if array.shape[1] < 2 or (loss.binary and array.shape[1] != 2):
        raise DataError(f"targets have {array.shape[1]} column(s), which the {loss.name} loss cannot use")
    # Rows are probability vectors up to the rounding of their fractions.
    if not ((array >= 0).all() and (np.abs(array.sum(axis=1) - 1) < 1e-9).all()):
        raise DataError("every row of targets must be fractions between 0 and 1 that sum to 1")
    return array


@dataclass(frozen=True)
class Minimiser:
    """A minimiser before noise: a secret, like the votes, which `repr` does not show.

    Attributes:
        w: float64 of shape (d,) for a binary loss, (K, d) with rows summing to 0 (up to rounding) for softmax.
        gradient_norm: upper bound of the norm of the exact gradient at w, at most the public `tolerance`, tau.
        lam, loss: lambda, and the loss.
        tilt: norm of the linear term that was added to the risk.
    """

    w: Array = field(repr=False)
    gradient_norm: float = field(repr=False)
    tolerance: float
    lam: float
    loss: Loss
    tilt: float = 0.0

    @property
    def inexactness(self) -> float:
        """Bound of the distance of w from the exact minimiser, tolerance / lam. Public."""
        return self.tolerance / self.lam

    @property
    def norm_limit(self) -> float:
        """Bound of the norm of w for any data, public where the linear term is."""
        if self.tilt:  # the gradient of the loss is no longer than its Lipschitz constant, and cancels the rest
            return (self.loss.lipschitz * (1 + NORM_SLACK) + self.tilt) / self.lam * (1 + 2.0**-40) + self.inexactness
        return norm_bound(self.loss, self.w.shape[0] if self.w.ndim == 2 else 2, self.lam) + self.inexactness


def norm_bound(loss: Loss, classes: int, lam: float) -> float:
    """Return an upper bound of the exact minimiser's norm for any data: `(lambda/2) ||w*||^2 <= R(w*) <= R(0)`."""
    return math.sqrt(2 * loss.at_zero(classes) / lam)


def rounding_floor(samples: int, features: int, classes: int, norm: float, lam: float, loss: Loss) -> float:
    """Return a bound of the L2 rounding error of `gradient` at any w of norm at most `norm`.

    By the standard model of floating-point arithmetic, inner products of length n summed in any order, fused or not,
    err by at most gamma_n = n u / (1 - n u) times the sum of the absolute products (Higham 2002, section 3.1):

    * scores: gamma_d ||x_i|| ||w_k|| each; and softmax subtracts the largest score, another u sqrt(2) ||w|| each;
    * residuals: c times that, plus a few u for the elementary functions, the K-term sum, and the rounding of alpha;
    * (1/N) X^T r: gamma_N times (1/N) sum_i ||r_i|| ||x_i||, which is at most gamma_N lipschitz;
    * the division by N, and lambda w with its addition: a few u of the terms.
    """
    gamma_d = features * _UNIT / (1 - features * _UNIT)
    gamma_n = samples * _UNIT / (1 - samples * _UNIT)
    score = (gamma_d + math.sqrt(2 * classes) * _UNIT) * norm
    residual = loss.smoothness * score + (classes + 12) * _UNIT
    total = residual + gamma_n * (loss.lipschitz + residual) + 4 * _UNIT * (loss.lipschitz + lam * norm)
    return 1.001 * total  # for products of errors, rows of norm 1 + NORM_SLACK, and the rounding of this bound


def smallest_tolerance(samples: int, features: int, classes: int, lam: float, loss: Loss) -> float:
    """Return the least tau that `minimise` accepts, eight times the rounding floor; a function of public numbers."""
    return 8 * rounding_floor(samples, features, classes, norm_bound(loss, classes, lam), lam, loss)


def risk(features: Array, targets: Array, w: Array, lam: float, loss: Loss) -> float:
    """Compute the regularised empirical risk R(w) (Hamm 2016, equations 8 and 19); arguments are not checked.

    `features` (N, d), `targets` (N, K), and `w` (d,) for a binary loss, (K, d) for softmax.
    """
    return float(loss.value(features @ w.T, targets).mean() + lam / 2 * np.vdot(w, w))


def gradient(features: Array, targets: Array, w: Array, lam: float, loss: Loss) -> Array:
    """Compute the gradient of R at w, of w's shape. Arguments as in `risk`."""
    residual = loss.derivative(features @ w.T, targets)
    total: Array = residual.T @ features / len(features) + lam * w
    return total


def _tilted_floor(floor: float, tilt: Array | float) -> float:
    """Add to a rounding floor the error of adding `tilt` to the gradient."""
    return floor + 4 * _UNIT * float(np.linalg.norm(tilt))


def _certified(
    features: Array, targets: Array, w: Array, lam: float, loss: Loss, tilt: Array | float
) -> tuple[Array, float]:
    """Return the computed gradient of R(w) + tilt.w at w, and an upper bound of the exact gradient's norm."""
    computed = gradient(features, targets, w, lam, loss) + tilt
    samples, width = features.shape
    norm = float(np.linalg.norm(w)) * (1 + (w.size + 4) * _UNIT)
    floor = _tilted_floor(rounding_floor(samples, width, targets.shape[1], norm, lam, loss), tilt)
    return computed, float(np.linalg.norm(computed)) * (1 + (w.size + 4) * _UNIT) + floor


def _hessian(features: Array, curvature: Array, lam: float, loss: Loss) -> Array:
    """Return the Hessian of R as a dense matrix, (d, d) or (K d, K d); `curvature` as in `Loss.curvature`."""
    samples, width = features.shape
    if loss.binary:
        dense: Array = (features.T * curvature) @ features / samples
    else:
        classes = curvature.shape[1]
        dense = np.empty((classes * width, classes * width))
        for k in range(classes):
            for m in range(k, classes):
                weight = curvature[:, k] * ((k == m) - curvature[:, m])
                block = (features.T * weight) @ features / samples
                dense[k * width : (k + 1) * width, m * width : (m + 1) * width] = block
                dense[m * width : (m + 1) * width, k * width : (k + 1) * width] = block
    dense[np.diag_indices_from(dense)] += lam
    return dense


def _direction(features: Array, targets: Array, w: Array, slope: Array, lam: float, loss: Loss) -> Array:
    """Return Newton's step s, the solution of H s = slope, of w's shape."""
    curvature = loss.curvature(features @ w.T, targets)
    if w.size <= _DENSE_LIMIT:
        try:
            factor = scipy.linalg.cho_factor(
                _hessian(features, curvature, lam, loss), overwrite_a=True, check_finite=False
            )
            solution: Array = scipy.linalg.cho_solve(factor, slope.ravel(), check_finite=False).reshape(w.shape)
            return solution
        except scipy.linalg.LinAlgError:  # lambda is lost in the rounding of the Hessian
            pass

    def product(v: Array) -> Array:
        """Return the Hessian of R times a vector."""
        scores = features @ v.reshape(w.shape).T
        if not loss.binary:
            scores -= np.einsum("ik,ik->i", curvature, scores)[:, None]
        multiple: Array = ((curvature * scores).T @ features / len(features)).ravel() + lam * v
        return multiple

    # Any approximate solution will do: it only has to lead downhill.
    iterate, _ = scipy.sparse.linalg.cg(
        scipy.sparse.linalg.LinearOperator((w.size, w.size), product), slope.ravel(), rtol=0.1, atol=0.0
    )
    step: Array = iterate.reshape(w.shape)
    return step


def minimise(
    features: ArrayLike,
    targets: ArrayLike,
    lam: float,
    loss: Loss,
    *,
    tolerance: float = DEFAULT_TOLERANCE,
    tilt: Array | float = 0.0,
) -> Minimiser:
    """Minimise the regularised weighted risk, with the norm of the exact gradient certified to be at most `tolerance`.

    Args:
        features: (N, d), rows of norm at most 1.
        targets: (N, K), rows summing to 1 (`alpha`, or `one_hot` of majority labels).
        tolerance: tau.
        tilt: of w's shape, for softmax with rows that sum to 0; R(w) + tilt.w is minimised (objective perturbation).

    Raises:
        DataError: the features or targets cannot be used.
        NormError: a row of the features has norm above 1.
        ConvergenceError: never, by the proof below; it would show a defect of this library.

    Proof of convergence. Each step goes from w to w - t s, where s solves H s = g (exactly, or as a conjugate
    gradient iterate) for the gradient g and a matrix H with lambda <= H <= L = c + lambda. Then g.s = s.H s =: q,
    q >= lambda ||s||^2 and q >= ||g||^2/L. Along the step phi(t) = R(w - t s) is convex, phi'(0) = -q and phi' is
    L ||s||^2-Lipschitz, so phi' <= 0 up to t0 = q/(L ||s||^2) >= lambda/L. Halving t from 1 until phi'(t) <= 0 ends
    with some t > t0/2; phi decreases on [0, t], so R has fallen by at least -phi(t0/2) + phi(0) >= 3/8 q t0 >=
    3/8 lambda ||g||^2/L^2. As R is bounded below, tilted or not, only finitely many such steps have ||g|| above any
    given value. (That is for every convex smooth loss, Huber's included, whose second derivative jumps.) The full step
    is also taken when it at least halves the least gradient norm seen so far, which can happen only finitely often;
    near the minimiser this is Newton's method. In floating point the gradient carries an error of at most the rounding
    floor; a Newton step with an inexact gradient leaves a gradient of the order of that error, and the tolerance is at
    least eight floors.
    """
    lam = check_positive(lam, "lambda")
    tolerance = check_positive(tolerance, "the solver's tolerance")
    table = check_auxiliary(features)
    samples, width = table.shape
    goal = _check_targets(targets, samples, loss)
    classes = goal.shape[1]
    least = smallest_tolerance(samples, width, classes, lam, loss)
    if np.any(tilt):
        longest = (loss.lipschitz + float(np.linalg.norm(tilt))) / lam  # no minimiser is longer
        least = 8 * _tilted_floor(rounding_floor(samples, width, classes, longest, lam, loss), tilt)
    if tolerance < least:
        raise InvalidParameter(
            f"a tolerance of {tolerance:.3g} cannot be certified at double precision for {samples} samples, {width} "
            f"features and lambda = {lam:.3g}; use at least {least:.3g}"
        )

    w = np.zeros(width if loss.binary else (classes, width))
    slope, certified = _certified(table, goal, w, lam, loss, tilt)
    best = certified
    for _ in range(_MAX_STEPS):
        if certified <= tolerance:
            added = float(np.linalg.norm(tilt))
            return Minimiser(w=w, gradient_norm=certified, tolerance=tolerance, lam=lam, loss=loss, tilt=added)
        step = _direction(table, goal, w, slope, lam, loss)
        t = 1.0
        while True:
            candidate = w - t * step
            if not loss.binary:
                candidate -= candidate.mean(axis=0)
            new_slope, certified = _certified(table, goal, candidate, lam, loss, tilt)
            if certified <= max(best / 2, tolerance) or np.vdot(new_slope, step) >= 0:
                break
            t /= 2
            if t < lam / (4 * (loss.smoothness + lam)):  # below t0/2 only through rounding: accept the step
                break
        w, slope = candidate, new_slope
        best = min(best, certified)
    raise ConvergenceError(
        f"the solver did not reach its tolerance of {tolerance:.3g} in {_MAX_STEPS} steps, which contradicts its "
        "proof; please report this defect"
    )
