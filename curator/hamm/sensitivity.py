"""Certified upper bounds of the sensitivity of each release, one function per row of the table in docs/design.md,
section 4.

The linear statistics have their bound in `psephos.curator.statistic.grid_sensitivity`, on the integers that are
released.

Notation: M parties, N auxiliary samples, K classes, ridge (lambda/2) ||w||^2, ||x|| <= 1, which the caller has checked.
Unless stated otherwise two neighbouring inputs differ in everything **one party** holds; M is fixed and the auxiliary
features are public. All bounds follow from two facts (proofs in docs/theory.md):

* the minimisers of two lambda-strongly convex risks are within max_w ||gradient of the difference|| / lambda of each
  other (Chaudhuri et al. 2011, corollary 7; Hamm 2016, equation (26));
* for coefficient rows c_i with ||c_i|| <= c the matrix (1/N) sum_i c_i (x) x_i has norm at most c * rho, where
  rho = ||X||_op / sqrt(N) <= 1.

The bounds as printed in the paper are the functions `hamm_*`, for comparison. All values are rounded up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import lambertw

from psephos.curator.checks import check_count, check_positive
from psephos.protocol.errors import DataError

Loss = Literal["logistic", "lipschitz"]
"""`logistic` satisfies l'(t) + l'(-t) = -1; `lipschitz` is any convex loss with |l'| <= 1, such as the Huber hinge."""


@dataclass(frozen=True)
class Sensitivity:
    """An upper bound of the distance between the exact results of two neighbouring inputs.

    Attributes:
        value: the bound, > 0.
        norm: the norm it is measured in, 'l1' or 'l2'.
        unit: what neighbours differ in: 'party', 'party and one auxiliary sample', or 'record'.
        source: the equation it comes from.

    Raises:
        InvalidParameter: the bound is not a positive finite number.
    """

    value: float
    norm: str = "l2"
    unit: str = "party"
    source: str = ""

    def __post_init__(self) -> None:
        check_positive(self.value, "a sensitivity")


def _up(value: float) -> float:
    """Add a margin for the rounding errors in `value` and for rows of norm up to 1 + 2^-45."""
    return value * (1.0 + 2.0**-44)


# -- quantities of the public features


def _features(x: NDArray[np.float64]) -> NDArray[np.float64]:
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 2 or x.size == 0:
        raise DataError(f"features must be a non-empty matrix (samples, width); got shape {x.shape}")
    if not np.all(np.isfinite(x)):
        raise DataError("features contain NaN or infinite values; remove or impute them")
    return x


def _gamma(terms: int) -> float:
    """Return Higham's gamma_n = n u / (1 - n u), the relative error of a sum of n products in any order."""
    u = 2.0**-53
    return terms * u / (1.0 - terms * u)


def largest_row_norm(x: NDArray[np.float64]) -> float:
    """Return an upper bound of max_i ||x_i||_2, rounding errors included.

    Args:
        x: float64 (N, d).

    Raises:
        DataError: `x` is empty, not a matrix, or has NaN or infinite entries.
    """
    x = _features(x)
    exponent = _exponent(x)
    squares = np.einsum("ij,ij->i", x * 2.0**-exponent, x * 2.0**-exponent)
    return float(math.ldexp(math.sqrt(float(squares.max()) * (1 + _gamma(x.shape[1] + 3)) + 1e-290), exponent))


def _exponent(x: NDArray[np.float64]) -> int:
    """Return e such that the entries of x / 2^e are at most 1 in absolute value."""
    return max(-500, math.frexp(float(np.abs(x).max()))[1])


def operator_norm(x: NDArray[np.float64]) -> float:
    """Return a certified upper bound of the largest singular value of a matrix.

    A floating-point Cholesky factorisation that succeeds proves t I - X'X positive semidefinite up to its backward
    error, at most gamma_{d+1} times the trace (Rump 2006); the errors of forming X'X are added. The bound exceeds the
    true norm by about 1e-9 of it.

    Args:
        x: float64 (N, d).

    Raises:
        DataError: as `largest_row_norm`.
    """
    x = _features(x)
    if x.shape[0] < x.shape[1]:
        x = x.T
    samples, width = x.shape
    exponent = _exponent(x)
    x = x * 2.0**-exponent  # exact, and prevents overflow and harmful underflow of squares
    frobenius = float(np.einsum("ij,ij->", x, x)) * (1 + 2 * _gamma(x.size + 2))
    slack = _gamma(samples + 2) * frobenius + 1e-290
    gram = x.T @ x
    top = float(np.linalg.eigvalsh(gram)[-1]) * (1 + 2.0**-40) + 1e-290
    while True:
        shifted = -gram
        shifted[np.diag_indices(width)] += top
        try:
            np.linalg.cholesky(shifted)
            break
        except np.linalg.LinAlgError:
            top *= 1 + 2.0**-32
    trace = float(np.abs(np.diag(shifted)).sum()) * (1 + _gamma(width + 2))
    slack += 2 * _gamma(width + 3) * trace + 2.0**-51 * top
    return math.ldexp(math.sqrt(top + slack) * (1 + 2.0**-50), exponent)


def rho(x: NDArray[np.float64]) -> float:
    """Return a certified upper bound of ||X||_op / sqrt(N), which is at most the largest row norm.

    It replaces the factor 1 in Hamm's bounds (docs/theory.md).

    Args:
        x: float64 (N, d).

    Raises:
        DataError: as `largest_row_norm`.
    """
    x = _features(x)
    return min(operator_norm(x) / math.sqrt(len(x)) * (1 + 2.0**-50), largest_row_norm(x))


def radius(lam: float, classes: int = 2) -> float:
    """Return R(lambda) = sqrt(W0((K - 1)/e) / lambda), a bound of every logistic or softmax ridge minimiser's norm.

    It holds for any data, hard or soft labels and any norms of the features. Proof: take the inner product of the
    stationarity condition with w; a sample contributes at most max_m m / (1 + e^m / (K - 1)) = W0((K - 1)/e).

    Args:
        lam: lambda.
        classes: K; 2 covers the logistic loss with one weight vector and the softmax with two.

    Raises:
        InvalidParameter: lambda or K is out of range.

    Examples:
        >>> round(radius(0.01), 3)
        5.277
    """
    lam, classes = check_positive(lam, "lambda"), check_count(classes, "the number of classes", 2)
    return math.sqrt(float(lambertw((classes - 1) / math.e).real) / lam) * (1 + 2.0**-40)


# -- empirical risk minimisers (Hamm, Algorithms 1 and 2), party-level


def _over_lambda(numerator: float, lam: float, parties: int = 1) -> float:
    """Return numerator / (M lambda)."""
    return numerator / (check_count(parties, "the number of parties") * check_positive(lam, "lambda"))


def binary_majority(lam: float, rho: float = 1.0, loss: Loss = "logistic") -> Sensitivity:
    """Algorithm 1, labels +-1: min(rho/lambda, 2 R) for the logistic loss, 2 rho/lambda for a 1-Lipschitz one.

    One party can flip all labels, and where a label flips the gradient changes by (l'(t) + l'(-t)) x (Hamm, equation
    27).

    Raises:
        InvalidParameter: lambda or rho is not positive and finite.
    """
    reach = _over_lambda(check_positive(rho, "rho"), lam)
    if loss == "logistic":
        return Sensitivity(_up(min(reach, 2 * radius(lam))), source="min(rho/lambda, 2 R); Hamm (27)")
    return Sensitivity(_up(2 * reach), source="2 rho/lambda; Hamm Theorem 1")


def binary_soft(lam: float, parties: int, rho: float = 1.0, loss: Loss = "logistic") -> Sensitivity:
    """Algorithm 2, binary: rho/(M lambda) for the logistic loss, 2 rho/(M lambda) for a 1-Lipschitz one.

    alpha_i changes by at most 1/M, and the gradient by (alpha_i - alpha_i') (l'(t) + l'(-t)) x_i (Hamm, equation 30).

    Raises:
        InvalidParameter: lambda, M or rho is out of range.
    """
    reach = _over_lambda(check_positive(rho, "rho"), lam, parties)
    if loss == "logistic":
        source = "min(rho/(M lambda), 2 R); Hamm (30), l'(t) + l'(-t) = -1"
        return Sensitivity(_up(min(reach, 2 * radius(lam))), source=source)
    return Sensitivity(_up(2 * reach), source="2 rho/(M lambda); Hamm Theorem 3")


def multiclass_majority(lam: float, classes: int, rho: float = 1.0) -> Sensitivity:
    """Algorithm 1, softmax: min(sqrt(2) rho/lambda, 2 R); one-hot labels differ by sqrt(2) (Hamm, equation 52).

    Raises:
        InvalidParameter: lambda, K or rho is out of range.
    """
    reach = _over_lambda(math.sqrt(2) * check_positive(rho, "rho"), lam)
    return Sensitivity(_up(min(reach, 2 * radius(lam, classes))), source="min(sqrt(2) rho/lambda, 2 R); Hamm B.2")


def multiclass_soft(lam: float, parties: int, classes: int, rho: float = 1.0) -> Sensitivity:
    """Algorithm 2, softmax: min(sqrt(2) rho/(M lambda), 2 R); two entries of alpha_i change by 1/M (Hamm, equation 59).

    Raises:
        InvalidParameter: lambda, M, K or rho is out of range.

    Examples:
        >>> sensitivity = multiclass_soft(lam=1e-3, parties=1000, classes=6)
        >>> round(sensitivity.value, 4), sensitivity.norm, sensitivity.unit
        (1.4142, 'l2', 'party')
    """
    reach = _over_lambda(math.sqrt(2) * check_positive(rho, "rho"), lam, parties)
    return Sensitivity(_up(min(reach, 2 * radius(lam, classes))), source="min(sqrt(2) rho/(M lambda), 2 R); Hamm B.3")


def average(projection_radius: float, parties: int) -> Sensitivity:
    """Mean of M parameter vectors, each projected on the ball of public radius C: 2 C/M.

    Raises:
        InvalidParameter: the radius or M is out of range.
    """
    diameter = 2 * check_positive(projection_radius, "the projection radius")
    return Sensitivity(_up(diameter / check_count(parties, "the number of parties")), source="2 C/M")


# -- a party and one auxiliary sample (Hamm 4.5, corrected): the features are private too, so rho must not be used


_BOTH = "party and one auxiliary sample"


def binary_soft_private_auxiliary(lam: float, parties: int, samples: int, loss: Loss = "logistic") -> Sensitivity:
    """2/(M lambda) (N + M - 1)/N for a 1-Lipschitz loss, 1/(M lambda) (N + 2M - 1)/N for the logistic one.

    N - 1 samples keep their features and contribute as before; the sample that changes adds at most 2 to the sum.

    Raises:
        InvalidParameter: lambda, M or N is out of range.
    """
    samples = check_count(samples, "the number of auxiliary samples")
    reach = _over_lambda(1, lam, parties) / samples
    if loss == "logistic":
        value = min((samples + 2 * parties - 1) * reach, 2 * radius(lam))
        return Sensitivity(_up(value), unit=_BOTH, source="(N + 2M - 1)/(N M lambda); Hamm 4.5 corrected")
    value = 2 * (samples + parties - 1) * reach
    return Sensitivity(_up(value), unit=_BOTH, source="2 (N + M - 1)/(N M lambda); Hamm 4.5")


def binary_majority_private_auxiliary(lam: float, samples: int, loss: Loss = "logistic") -> Sensitivity:
    """min((N + 1)/(N lambda), 2 R) for the logistic loss; 2/lambda, unchanged, for a 1-Lipschitz one.

    Raises:
        InvalidParameter: lambda or N is out of range.
    """
    samples = check_count(samples, "the number of auxiliary samples")
    if loss == "logistic":
        value = min(_over_lambda((samples + 1) / samples, lam), 2 * radius(lam))
        return Sensitivity(_up(value), unit=_BOTH, source="min((N + 1)/(N lambda), 2 R)")
    return Sensitivity(_up(_over_lambda(2, lam)), unit=_BOTH, source="2/lambda; Hamm 4.5")


def multiclass_soft_private_auxiliary(lam: float, parties: int, samples: int, classes: int) -> Sensitivity:
    """sqrt(2)/(M lambda) (N + 2M - 1)/N: the sample that changes adds at most 2 sqrt(2) to the sum.

    Raises:
        InvalidParameter: lambda, M, N or K is out of range.
    """
    samples = check_count(samples, "the number of auxiliary samples")
    value = (samples + 2 * parties - 1) / samples * _over_lambda(math.sqrt(2), lam, parties)
    source = "sqrt(2) (N + 2M - 1)/(N M lambda); Hamm 4.5 corrected"
    return Sensitivity(_up(min(value, 2 * radius(lam, classes))), unit=_BOTH, source=source)


def multiclass_majority_private_auxiliary(lam: float, samples: int, classes: int) -> Sensitivity:
    """Algorithm 1, softmax: min(sqrt(2) (N + 1)/(N lambda), 2 R).

    Raises:
        InvalidParameter: lambda, N or K is out of range.
    """
    samples = check_count(samples, "the number of auxiliary samples")
    value = min(_over_lambda(math.sqrt(2) * (samples + 1) / samples, lam), 2 * radius(lam, classes))
    return Sensitivity(_up(value), unit=_BOTH, source="min(sqrt(2) (N + 1)/(N lambda), 2 R)")


# -- rounding to the lattice


def with_lattice(sensitivity: Sensitivity, pitch: float, dimension: int) -> Sensitivity:
    """Add the effect of rounding to a lattice of pitch g: g sqrt(D) in L2, g D in L1.

    Rounding moves each of the two neighbouring vectors by at most g/2 per coordinate.

    Raises:
        InvalidParameter: the pitch is not positive and finite.
    """
    factor = math.sqrt(dimension) if sensitivity.norm == "l2" else float(dimension)
    value = sensitivity.value + check_positive(pitch, "the pitch") * factor
    return replace(sensitivity, value=_up(value), source=f"{sensitivity.source} + lattice")


# -- bounds as printed in the paper


def hamm_theorem_1(lam: float) -> Sensitivity:
    """Hamm, Theorem 1 (equation 28), majority labels: 2/lambda. Raises InvalidParameter for a lambda out of range."""
    return Sensitivity(_up(_over_lambda(2, lam)), source="Hamm Theorem 1: 2/lambda")


def hamm_theorem_3(lam: float, parties: int) -> Sensitivity:
    """Hamm, Theorem 3, soft labels: 2/(M lambda). Raises InvalidParameter for a lambda or M out of range."""
    return Sensitivity(_up(_over_lambda(2, lam, parties)), source="Hamm Theorem 3: 2/(M lambda)")


def hamm_b2(lam: float) -> Sensitivity:
    """Hamm B.2 (equation 53), multiclass majority: sqrt(2)/lambda.

    Raises:
        InvalidParameter: lambda is out of range.
    """
    return Sensitivity(_up(_over_lambda(math.sqrt(2), lam)), source="Hamm B.2: sqrt(2)/lambda")


def hamm_b3(lam: float, parties: int) -> Sensitivity:
    """Hamm B.3 (equation 60), multiclass soft: sqrt(2)/(M lambda).

    Raises:
        InvalidParameter: lambda or M is out of range.
    """
    return Sensitivity(_up(_over_lambda(math.sqrt(2), lam, parties)), source="Hamm B.3: sqrt(2)/(M lambda)")


def hamm_b4(lam: float, parties: int) -> Sensitivity:
    """Hamm B.4, average of softmax parameters: 2 sqrt(2)/(M lambda).

    Raises:
        InvalidParameter: lambda or M is out of range.
    """
    return Sensitivity(_up(_over_lambda(2 * math.sqrt(2), lam, parties)), source="Hamm B.4: 2 sqrt(2)/(M lambda)")


def hamm_b4_binary(lam: float, parties: int) -> Sensitivity:
    """Hamm B.4's argument with the binary constant 2/lambda of one classifier: 2/(M lambda).

    Raises:
        InvalidParameter: lambda or M is out of range.
    """
    return Sensitivity(_up(_over_lambda(2, lam, parties)), source="Hamm B.4, binary: 2/(M lambda)")
