"""Certified upper bounds of the sensitivity of Hamm's releases (docs/theory.md, "Sensitivities").

M parties, N auxiliary samples, K classes, ridge (lambda/2) ||w||^2, ||x|| <= 1, which the caller has checked. Unless
stated otherwise neighbouring inputs differ in everything one party holds. All values are rounded up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from psephos.curator.checks import check_count, check_positive
from psephos.protocol.errors import DataError

Labels = Literal["majority", "soft"]
Loss = Literal["logistic", "softmax", "lipschitz"]
"""`logistic` satisfies l'(t) + l'(-t) = -1; `lipschitz` is any convex loss with |l'| <= 1, such as the Huber hinge."""


@dataclass(frozen=True)
class Sensitivity:
    """An upper bound of the distance between the exact results of two neighbouring inputs.

    Attributes:
        value: the bound, positive and finite.
        norm: the norm it is measured in, 'l1' or 'l2'.
        unit: what neighbours differ in: 'party', 'party and one auxiliary sample', or 'record'.
        source: the equation it comes from.
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
    """Return an upper bound of max_i ||x_i||_2, rounding errors included; DataError unless x (N, d) is finite."""
    x = _features(x)
    exponent = _exponent(x)
    squares = np.einsum("ij,ij->i", x * 2.0**-exponent, x * 2.0**-exponent)
    return float(math.ldexp(math.sqrt(float(squares.max()) * (1 + _gamma(x.shape[1] + 3)) + 1e-290), exponent))


def _exponent(x: NDArray[np.float64]) -> int:
    """Return e such that the entries of x / 2^e are at most 1 in absolute value."""
    return max(-500, math.frexp(float(np.abs(x).max()))[1])


def operator_norm(x: NDArray[np.float64]) -> float:
    """Return a certified upper bound of the largest singular value of a matrix, float64 (N, d).

    A floating-point Cholesky factorisation that succeeds proves t I - X'X positive semidefinite up to its backward
    error, at most gamma_{d+1} times the trace (Rump 2006); the errors of forming X'X are added. The bound exceeds the
    true norm by about 1e-9 of it.
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
    """
    x = _features(x)
    return min(operator_norm(x) / math.sqrt(len(x)) * (1 + 2.0**-50), largest_row_norm(x))


def radius(lam: float, classes: int = 2) -> float:
    """Return R(lambda) = sqrt(W0((K - 1)/e) / lambda), a bound of every logistic or softmax ridge minimiser's norm.

    It holds for any data, hard or soft labels and any norms of the features. Proof: take the inner product of the
    stationarity condition with w; a sample contributes at most max_m m / (1 + e^m / (K - 1)) = W0((K - 1)/e).

    Examples:
        >>> round(radius(0.01), 3)
        5.277
    """
    lam, classes = check_positive(lam, "lambda"), check_count(classes, "the number of classes", 2)
    return math.sqrt(float(scipy.special.lambertw((classes - 1) / math.e).real) / lam) * (1 + 2.0**-40)


# -- empirical risk minimisers (Hamm, Algorithms 1 and 2), party-level


def risk_minimiser(
    labels: Labels,
    loss: Loss,
    lam: float,
    *,
    parties: int,
    classes: int,
    rho: float = 1.0,
    samples: int | None = None,
) -> Sensitivity:
    """Bound the L2 distance of the exact minimisers of two neighbouring inputs: Hamm's Algorithms 1 and 2.

    Where a label changes, the gradient changes by at most 1 (logistic: l'(t) + l'(-t) = -1, Hamm (27) and (30)), 2 (a
    1-Lipschitz loss) or sqrt(2) (softmax, (52) and (59)), times rho/lambda; soft labels change by 1/M. No logistic or
    softmax minimiser is longer than R. Where one auxiliary sample is private too (`samples` is N; Hamm 4.5, corrected)
    N - 1 samples keep their features and contribute as before; the sample that changes adds at most twice a party's
    change, and rho, a function of the samples, is not used.

    Examples:
        >>> sensitivity = risk_minimiser("soft", "softmax", 1e-3, parties=1000, classes=6)
        >>> round(sensitivity.value, 4), sensitivity.norm, sensitivity.unit
        (1.4142, 'l2', 'party')
    """
    soft, bounded = labels == "soft", loss != "lipschitz"
    step = {"logistic": 1.0, "lipschitz": 2.0, "softmax": math.sqrt(2)}[loss] * check_positive(rho, "rho")
    ballots = check_count(parties, "the number of parties") if soft else 1
    value = step / (ballots * check_positive(lam, "lambda"))
    if samples is not None:
        kept = check_count(samples, "the number of auxiliary samples") - 1
        if bounded:
            value *= (kept + 2 * ballots) / samples
        else:
            value *= (kept + parties) / samples if soft else 1.0
    if bounded:
        value = min(value, 2 * radius(lam, classes))
    unit = "party" if samples is None else "party and one auxiliary sample"
    return Sensitivity(_up(value), unit=unit, source=_SOURCES[labels, loss, samples is not None])


_SOURCES: dict[tuple[Labels, Loss, bool], str] = {
    ("majority", "logistic", False): "min(rho/lambda, 2 R); Hamm (27)",
    ("majority", "lipschitz", False): "2 rho/lambda; Hamm Theorem 1",
    ("majority", "softmax", False): "min(sqrt(2) rho/lambda, 2 R); Hamm B.2",
    ("soft", "logistic", False): "min(rho/(M lambda), 2 R); Hamm (30), l'(t) + l'(-t) = -1",
    ("soft", "lipschitz", False): "2 rho/(M lambda); Hamm Theorem 3",
    ("soft", "softmax", False): "min(sqrt(2) rho/(M lambda), 2 R); Hamm B.3",
    ("majority", "logistic", True): "min((N + 1)/(N lambda), 2 R)",
    ("majority", "lipschitz", True): "2/lambda; Hamm 4.5",
    ("majority", "softmax", True): "min(sqrt(2) (N + 1)/(N lambda), 2 R)",
    ("soft", "logistic", True): "(N + 2M - 1)/(N M lambda); Hamm 4.5 corrected",
    ("soft", "lipschitz", True): "2 (N + M - 1)/(N M lambda); Hamm 4.5",
    ("soft", "softmax", True): "sqrt(2) (N + 2M - 1)/(N M lambda); Hamm 4.5 corrected",
}
"""Where a bound comes from: by labels, loss, and whether one auxiliary sample is private too."""


def average(projection_radius: float, parties: int) -> Sensitivity:
    """Mean of M parameter vectors, each projected on the ball of public radius C: 2 C/M."""
    diameter = 2 * check_positive(projection_radius, "the projection radius")
    return Sensitivity(_up(diameter / check_count(parties, "the number of parties")), source="2 C/M")


# -- rounding to the lattice


def with_lattice(sensitivity: Sensitivity, pitch: float, dimension: int) -> Sensitivity:
    """Add the effect of rounding to a lattice of pitch g: g sqrt(D) in L2, g D in L1.

    Rounding moves each of the two neighbouring vectors by at most g/2 per coordinate.
    """
    factor = math.sqrt(dimension) if sensitivity.norm == "l2" else float(dimension)
    value = sensitivity.value + check_positive(pitch, "the pitch") * factor
    return replace(sensitivity, value=_up(value), source=f"{sensitivity.source} + lattice")


# -- bounds as printed in the paper

_PRINTED = {
    ("vote", False): (2.0, "Hamm Theorem 1: 2/lambda"),
    ("soft", False): (2.0, "Hamm Theorem 3: 2/(M lambda)"),
    ("avg", False): (2.0, "Hamm B.4, binary: 2/(M lambda)"),
    ("vote", True): (math.sqrt(2), "Hamm B.2: sqrt(2)/lambda"),
    ("soft", True): (math.sqrt(2), "Hamm B.3: sqrt(2)/(M lambda)"),
    ("avg", True): (2 * math.sqrt(2), "Hamm B.4: 2 sqrt(2)/(M lambda)"),
}
"""Numerators over lambda, of vote, or M lambda, by method and whether there are more than two classes."""


def printed(method: str, lam: float, *, parties: int, classes: int) -> Sensitivity:
    """Return the constant that Hamm 2016 prints for vote, soft or avg."""
    numerator, source = _PRINTED[method, classes > 2]
    return Sensitivity(_up(numerator / ((1 if method == "vote" else parties) * lam)), source=source)
