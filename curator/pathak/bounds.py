"""Bounds of Pathak, Rane and Raj (2010) as printed, a counterexample to one of them, and the proved privacy of a run.

Notation of the paper: K parties, n_(1) the size of the smallest data set, lambda, d features, epsilon the parameter in
the noise's scale. Objective (2) has the penalty lambda ||w||^2 and strong convexity mu = 2 lambda. All rows have norm
at most 1.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import scipy

from psephos.curator.checks import check_positive
from psephos.curator.hamm.sensitivity import radius
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.pathak.noise import NOISE_DISTANCE, noise_delta, noise_scale, record_sensitivity
from psephos.protocol.pathak.terms import PathakTerms


def _check(**values: float) -> None:
    for name, value in values.items():
        check_positive(value, name)


# -- privacy


def printed_epsilon(*, epsilon: float, features: int, parties: int) -> float:
    """Return the record-level epsilon of the printed noise, with sizes fixed: sqrt(d) epsilon/(2 K).

    The proof of Theorem 4.1 uses the L2 bound of the sensitivity as an L1 bound (a factor sqrt(d) too small) and omits
    that the average divides it by K. The correct L1 sensitivity is sqrt(d) 2/(K n_(1) mu), divided by the scale
    2/(n_(1) epsilon lambda). No pure epsilon holds when a record is added or removed: n_(1) determines the scale, and
    the ratio of two Laplace densities of different scales is unbounded.
    """
    _check(epsilon=epsilon, features=features, parties=parties)
    return math.sqrt(features) * epsilon / (2 * parties)


def proved_epsilon(terms: PathakTerms) -> tuple[float, float]:
    """Return the record-level (epsilon, delta) of a run, against observers that do not know the noise.

    With noise for a public size, neighbours may also differ by an added or removed record; otherwise the sizes are
    fixed. Printed variant: as `printed_epsilon`, with the grid and the solvers' tolerance, at the agreed largest size,
    where they weigh most. Otherwise the scale was calibrated to epsilon. delta is the cost of sampling and clipping.

    Which coalitions are covered. Printed: not the smallest party, which knows the noise and can subtract it, and not
    Charlie with a party, who have both keys. Repaired: any `excluded` parties together, but not Charlie with a party.
    Public bound: any `excluded` parties together, with or without Charlie, whatever they send.
    """
    if terms.variant == "printed":
        size = terms.largest_size
        l1 = math.sqrt(terms.features) * record_sensitivity(terms, size) / terms.pitch + terms.features
        epsilon = math.nextafter(l1 / float(noise_scale(terms, size)) * (1 + 1e-12), math.inf)
        return epsilon, (1 + math.exp(min(epsilon, 700.0))) * NOISE_DISTANCE
    return terms.epsilon, noise_delta(terms)


def party_level_epsilon(terms: PathakTerms, smallest: int) -> float:
    """Return the party-level epsilon of a run: all records of a party are replaced, its size is fixed.

    No minimiser has norm above R (`psephos.curator.hamm.sensitivity.radius`), so the sum changes by at most 2 R in L2
    and, on the grid, by sqrt(d) 2 R/g + d in L1, for any data of the party. The paper claims nothing at party level:
    its noise is calibrated to one record in n_(1) = `smallest`, while 2 R does not shrink with n.
    """
    mu = terms.strong_convexity
    reach = 2 * (radius(mu) + terms.tolerance / mu) / terms.pitch
    size: Fraction | int = terms.smallest_size if terms.variant == "public-bound" else terms.counted(smallest)
    if terms.variant == "repaired":
        size = terms.buckets[terms.bucket(smallest)]
    scale = float(noise_scale(terms, size))
    return (math.sqrt(terms.features) * reach + terms.features) / scale


# -- utility, as printed


def theorem_4_2(*, parties: int, smallest: int, lam: float) -> float:
    """Return the claimed bound (K - 1)/(n_(1) lambda) of ||w_hat - w*||_2. False in general: see `counterexample`."""
    _check(parties=parties, smallest=smallest, lam=lam)
    return (parties - 1) / (smallest * lam)


def theorem_4_3(*, parties: int, smallest: int, lam: float, features: int, epsilon: float, delta: float) -> float:
    """Return the claimed bound of J(w_s) - J(w*), with probability 1 - delta. It depends on Theorem 4.2.

    An infinite epsilon gives equation (3).
    """
    _check(parties=parties, smallest=smallest, lam=lam, features=features)
    if not epsilon > 0 or not 0 < delta < 1:
        raise InvalidParameter("epsilon must be positive and delta strictly between 0 and 1")
    common = (lam + 1) / (smallest * lam) ** 2
    tail = features * math.log(features / delta) / epsilon
    return common * ((parties - 1) ** 2 / 2 + 2 * tail**2 + 2 * (parties - 1) * tail)


class Counterexample(NamedTuple):
    """Two parties whose average is `distance` from the pooled minimiser, however much data they have."""

    distance: float
    bound: float


def counterexample(copies: int, *, lam: float = 0.01) -> Counterexample:
    """K = 2, `copies` times (x = 1, y = +1) against as many (x = 0.1, y = -1), objective (2).

    Nothing ties the parties' data to each other, so the distance does not depend on `copies`, and the bound shrinks as
    1/copies: Theorem 4.2 is false from some size on (lambda = 0.01: distance 1.599, bound 100/copies).
    """
    _check(copies=copies, lam=lam)
    first = _minimiser([(1.0, 1.0)], lam)
    second = _minimiser([(0.1, -1.0)], lam)
    pooled = _minimiser([(1.0, 1.0), (0.1, -1.0)], lam)
    distance = abs((first + second) / 2 - pooled)
    return Counterexample(distance, theorem_4_2(parties=2, smallest=copies, lam=lam))


def _minimiser(points: list[tuple[float, float]], lam: float) -> float:
    """argmin of the mean of log(1 + exp(-y w x)) + lambda w^2 in one dimension, where its derivative is 0."""

    def slope(w: float) -> float:
        return sum(-y * x / (1 + math.exp(y * w * x)) for x, y in points) / len(points) + 2 * lam * w

    return float(scipy.optimize.brentq(slope, -1 / lam, 1 / lam, xtol=1e-15))
