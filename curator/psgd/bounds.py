"""Constants and bounds of Rajkumar and Agarwal 2012, as functions of public numbers only.

The objective is J(w) = (1/N) sum_i phi(y_i w.x_i) + (lambda/2) ||w||^2 with ||x_i|| <= 1, |phi'| <= L and phi'' <= c.
Privacy is record-level: two neighbouring data sets differ in one record and N is public. docs/protocols/psgd.md has the
derivations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import gmpy2
import scipy

from psephos.curator.checks import check_count, check_positive
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.privacy.mechanisms import check_delta, check_epsilon

# -- Procedure 2


@dataclass(frozen=True)
class Slack:
    """Result of computeSlack: Delta, the extra ridge, and epsilon~, the part of epsilon left for the noise."""

    ridge: float
    epsilon: float


def compute_slack(epsilon: float, lam: float, records: int, smoothness: float) -> Slack:
    """Procedure 2, computeSlack: epsilon~ = epsilon - 2 log(1 + c/(N lambda)), or epsilon/2 with an extra ridge.

    The subtracted term covers the change of volume of the map from noise to minimiser. (One record changes that
    determinant by a factor of at most 1 + c/(N lambda), so half of the term would be enough; this is the paper's.)
    """
    epsilon, lam, c = check_epsilon(epsilon), check_positive(lam, "lambda"), check_positive(smoothness, "c")
    n = check_count(records, "the number of records")
    left = epsilon - 2 * math.log1p(c / (n * lam))
    if left > 0:
        return Slack(0.0, left)
    return Slack(c / (n * math.expm1(epsilon / 4)) - lam, epsilon / 2)


# -- Procedure 3: sigma


def sigma_from_density_ratio(dimension: int, epsilon: float, delta: float, *, sensitivity: float = 2.0) -> float:
    """Return the standard deviation of the fixed noise eta in d dimensions, from the ratio of Gaussian densities.

    sigma = S (sqrt(q) + sqrt(q + 2 epsilon)) / (2 epsilon), with q the chi-square quantile at 1 - delta with d degrees
    of freedom, epsilon computeSlack's epsilon~, and S the largest ||b - b'||: 2 in the paper (2 L). Derived in
    docs/protocols/psgd.md.
    """
    dimension, epsilon, delta = check_count(dimension, "the dimension"), check_epsilon(epsilon), check_delta(delta)
    q = float(scipy.special.chdtri(dimension, delta))
    sigma = check_positive(sensitivity, "the sensitivity") * (math.sqrt(q) + math.sqrt(q + 2 * epsilon)) / (2 * epsilon)
    if not math.isfinite(sigma):
        raise InvalidParameter(f"no finite sigma exists for epsilon = {epsilon:g} and delta = {delta:g}")
    return sigma


def sigma_as_printed(dimension: int, epsilon: float, delta: float) -> float:
    """Solve the condition of Procedure 3 as printed: P(U <= (sigma epsilon - 2)^2/(4 sigma^2)) = 1 - delta.

    NOT PRIVATE, for comparison only: the printed condition lacks a power of sigma. At d = 10, epsilon = 0.1 and
    delta = 0.05 it gives 0.23 instead of 85.8.
    """
    dimension, epsilon, delta = check_count(dimension, "the dimension"), check_epsilon(epsilon), check_delta(delta)
    return 2 / (epsilon + 2 * math.sqrt(float(scipy.special.chdtri(dimension, delta))))


def footnote_four(
    epsilon: float, delta: float, lam: float, sizes: Sequence[int], smoothness: float, dimension: int
) -> tuple[tuple[float, ...], float]:
    """Footnote 4: party k draws eta_k with the sigma of its own data set, which gives (epsilon, delta) by itself.

    computeSlack is run with N_k in place of N; the common ridge is the largest that any party needs. Returns the
    sigmas, one per party, and the ridge.
    """
    slacks = [compute_slack(epsilon, lam, size, smoothness) for size in sizes]
    sigmas = tuple(sigma_from_density_ratio(dimension, slack.epsilon, delta) for slack in slacks)
    return sigmas, max(slack.ridge for slack in slacks)


# -- privacy cost of T noisy sums


def pure_composition(epsilon: float, steps: int, delta: float) -> float:
    """Return the epsilon, at this delta, of `steps` adaptive releases that are each purely epsilon-private, rounded up.

    The worst case is randomised response (Kairouz, Oh, Viswanath 2015, theorem 3.3). X of T answers are true, X
    binomial with p = 1/(1 + e^-epsilon), and the privacy loss is (2 X - T) epsilon, so with Y the same for 1 - p

        delta(t) = P(X >= j) - e^t P(Y >= j)    for t in [(2 j - 2 - T) epsilon, (2 j - T) epsilon).

    Tails are summed from the far end, at 256 bits. The mass beyond the first term is bounded by Hoeffding's inequality
    and counted as if it all violated epsilon.
    """
    epsilon, delta = check_positive(epsilon, "epsilon"), check_delta(delta)
    steps = check_count(steps, "the number of steps")
    with gmpy2.context(gmpy2.get_context(), precision=256):
        e, target = gmpy2.mpfr(epsilon), gmpy2.mpfr(delta)
        odds = gmpy2.exp(e)
        p = odds / (1 + odds)
        far = math.ceil(steps * float(p) + math.sqrt(steps / 2 * (200 - math.log(delta)))) + 1
        if far >= steps:
            at, rest = steps, gmpy2.mpfr(0)
        else:
            at, rest = far, target * gmpy2.exp(gmpy2.mpfr(-200))
        mass = gmpy2.exp(
            gmpy2.lngamma(gmpy2.mpfr(steps + 1))
            - gmpy2.lngamma(gmpy2.mpfr(at + 1))
            - gmpy2.lngamma(gmpy2.mpfr(steps - at + 1))
            + at * gmpy2.log(p)
            + (steps - at) * gmpy2.log(1 - p)
        )
        true, false = rest, gmpy2.mpfr(0)
        while at > 0:
            true += mass
            false += mass * gmpy2.exp((steps - 2 * at) * e)
            if true - false * gmpy2.exp((2 * at - 2 - steps) * e) >= target or 2 * at - 2 <= steps:
                break
            mass *= at / (odds * (steps - at + 1))
            at -= 1
        composed = float(gmpy2.log((true - target) / false)) if true > target else 0.0
    if composed <= 0:
        return 0.0
    return min(steps * epsilon, math.nextafter(composed, math.inf))
