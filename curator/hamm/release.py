"""Output perturbation: the private release of a fitted or averaged classifier.

Hamm 2016, Algorithms 1 and 2, and the private average of appendix B.4: a vector of L2 sensitivity S plus noise with
density proportional to exp(-epsilon ||eta|| / S) is epsilon-differentially private (equation 3). S bounds the
sensitivity of the numbers that are computed in floating point: with the solver's 2 tau/lambda, the change of
coordinates, rows of norm 1 + 2^-39, and the rounding to a lattice of public pitch, on which the noise is drawn.

Parameters of several classes are released in the (K - 1) d coordinates of an orthonormal basis of the contrasts, where
the noise is spherical: subtracting the mean of the rows changes no prediction and increases no distance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.curator.hamm import sensitivity as bounds
from psephos.curator.hamm.averaging import Average
from psephos.curator.hamm.erm import NORM_SLACK, Minimiser
from psephos.curator.hamm.sensitivity import Labels, Sensitivity, with_lattice
from psephos.curator.losses import Loss, Softmax
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.own_data import contrast_basis
from psephos.protocol.privacy.mechanisms import RoundedGaussian, SphericalLaplace, choose_pitch, release
from psephos.protocol.randomness import SYSTEM, Randomness

Array = NDArray[np.float64]
OutputNoise = Literal["spherical-laplace", "gaussian"]


Perturbable = Minimiser | Average
"""Secret parameters w with public bounds of their length and inexactness."""


@dataclass(frozen=True)
class PerturbedClassifier:
    """A private classifier, (d,) or (K, d) with rows summing to 0, and its privacy cost. All of it is public.

    `sensitivity` is in L2, rounding and inexactness included; with the spherical Laplace, `delta` is the sampler's
    distance from its law, at most 2^-64.
    """

    w: Array
    epsilon: float
    delta: float
    sensitivity: Sensitivity
    mechanism: SphericalLaplace | RoundedGaussian


def erm_bound(
    labels: Labels,
    loss: Loss,
    *,
    parties: int,
    classes: int,
    features: ArrayLike,
    protect_auxiliary: bool = False,
) -> Callable[[float], Sensitivity]:
    """Return the L2 sensitivity of the exact minimiser (`psephos.curator.hamm.sensitivity`) as a function of lambda.

    rho of the features (N, d) is used unless one of them is private too (`protect_auxiliary`, Hamm 4.5), since it is a
    function of them.
    """
    if labels not in ("majority", "soft"):
        raise InvalidParameter(f"unknown labels {labels!r}; choose 'majority' or 'soft'")
    table = np.asarray(features, dtype=np.float64)
    kind: bounds.Loss = (
        "softmax" if isinstance(loss, Softmax) else "logistic" if loss.name == "logistic" else "lipschitz"
    )
    known: dict[str, Any] = {"samples": len(table)} if protect_auxiliary else {"rho": bounds.rho(table)}
    return lambda lam: bounds.risk_minimiser(labels, kind, lam, parties=parties, classes=classes, **known)


def erm_sensitivity(labels: Labels, loss: Loss, lam: float, **agreed: Any) -> Sensitivity:
    """Return the value of `erm_bound` at one lambda; the other arguments and the errors are its own."""
    return erm_bound(labels, loss, **agreed)(lam)


def mechanism_for(
    shape: tuple[int, ...],
    inexactness: float,
    norm_limit: float,
    sensitivity: Sensitivity,
    epsilon: float,
    *,
    noise: OutputNoise = "spherical-laplace",
    delta: float = 1e-6,
) -> tuple[SphericalLaplace | RoundedGaussian, Sensitivity]:
    """Return the noise for parameters, and the sensitivity that it covers; both follow from public numbers.

    Args:
        shape: of the parameters, (d,) or (K, d).
        inexactness: bound of their distance from the vector with this L2 sensitivity.
        norm_limit: bound of their norm.
        sensitivity: L2 sensitivity of the exact vector.
        epsilon, delta: privacy parameters; delta is for Gaussian noise.
        noise: 'spherical-laplace' (pure epsilon), or 'gaussian' calibrated by the analytic formula.
    """
    if noise not in ("spherical-laplace", "gaussian"):
        raise InvalidParameter(f"unknown output noise {noise!r}; choose 'spherical-laplace' or 'gaussian'")
    if sensitivity.norm != "l2":
        raise InvalidParameter(f"output perturbation needs an L2 sensitivity, not {sensitivity.norm}")
    dimension = shape[0]
    if len(shape) == 2:
        classes, dimension = shape[0], (shape[0] - 1) * shape[1]
        # Each entry of the basis errs by at most 4u relative, each inner product of length K by K u more, and the
        # basis has Frobenius norm sqrt(K - 1): the change of coordinates errs by at most (K + 4) u sqrt(K - 1) ||w||.
        rounding = 1.01 * (classes + 4) * 2.0**-53 * math.sqrt(classes - 1) * norm_limit
    else:
        rounding = 0.0
    value = sensitivity.value * (1 + 2 * NORM_SLACK) + 2 * (inexactness + rounding)
    wider = replace(sensitivity, value=value, source=f"{sensitivity.source} + inexactness")
    pitch = choose_pitch(value, dimension)
    if norm_limit / pitch >= 2.0**60:
        raise InvalidParameter(
            f"parameters of norm up to {norm_limit:.3g} do not fit a grid of pitch {pitch:.3g}, which a sensitivity of "
            f"{value:.3g} needs; at double precision the sensitivity cannot be that small"
        )
    total = with_lattice(wider, pitch, dimension)
    if noise == "gaussian":
        return RoundedGaussian.for_epsilon_delta(total.value, epsilon, delta, dimension, pitch), total
    return SphericalLaplace.for_epsilon(total.value, epsilon, dimension, pitch), total


def perturb(
    classifier: Perturbable,
    sensitivity: Sensitivity,
    epsilon: float,
    *,
    noise: OutputNoise = "spherical-laplace",
    delta: float = 1e-6,
    randomness: Randomness = SYSTEM,
) -> PerturbedClassifier:
    """Release a minimiser or an average with noise. Every call is a release of its own, and their costs compose.

    `sensitivity` is that of the exact vector; inexactness and rounding are added here. The rest: see `mechanism_for`.
    """
    shape = classifier.w.shape
    mechanism, total = mechanism_for(
        shape, classifier.inexactness, classifier.norm_limit, sensitivity, epsilon, noise=noise, delta=delta
    )
    basis = contrast_basis(shape[0]) if len(shape) == 2 else None
    vector = classifier.w if basis is None else basis @ classifier.w
    private = release(vector.ravel(), mechanism, randomness)
    if basis is not None:
        private = basis.T @ private.reshape(len(basis), shape[1])
    return PerturbedClassifier(
        w=private,
        epsilon=float(epsilon),
        delta=delta if isinstance(mechanism, RoundedGaussian) else mechanism.delta(epsilon),
        sensitivity=total,
        mechanism=mechanism,
    )
