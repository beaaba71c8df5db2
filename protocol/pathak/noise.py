"""Scales, bounds and widths that follow from a run's terms: how much noise, and how many bits carry it.

All in units of the grid that parameters and noise live on, unless said otherwise. Derived in docs/protocols/pathak.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.pathak.terms import HIDING_BITS, PathakTerms

ROW_SLACK = 2.0**-40
"""How far the computed norm of a row may exceed 1, for the rounding of a division by the norm."""

NOISE_DISTANCE = 2.0**-159
"""Bound of the total variation between all drawn noise (clipped at `noise_bound`) and its law."""

_TAIL_BITS = 161
"""Noise exceeds its slot with probability at most 2^-161, as in psephos.parties.noise."""


def record_sensitivity(terms: PathakTerms, size: Fraction | int) -> float:
    """Return the L2 sensitivity of one party's parameters to one record, (2/n + 2 tau)/mu, not in grid units.

    The minimiser moves by at most 2/(n mu) (Chaudhuri and Monteleoni 2008, corollary 2); the solver stops near it.
    """
    moved = 2 * (1 + 2 * ROW_SLACK) / float(size) + 2 * terms.tolerance
    return math.nextafter(moved / terms.strong_convexity * (1 + 2.0**-50), math.inf)


def noise_scale(terms: PathakTerms, size: Fraction | int) -> Fraction:
    """Return the scale of the noise on the sum of the parameters, for data sets of at least `size` samples.

    Printed: K 2/(n epsilon lambda), the paper's times K; in shares: the L1 sensitivity on the grid over epsilon.
    """
    root = math.nextafter(math.sqrt(terms.features), math.inf)
    grid = Fraction(terms.pitch)
    if not terms.joint:
        exact = 2 * terms.parties / (Fraction(size) * Fraction(terms.epsilon) * Fraction(terms.lam) * grid)
    else:
        l1 = Fraction(root) * Fraction(record_sensitivity(terms, size)) / grid + terms.features
        exact = l1 / Fraction(terms.epsilon)
    return Fraction(math.ceil(exact * 2**20), 2**20)  # exact samplers are fast for short denominators


def check_grid(terms: PathakTerms) -> None:
    """Raise InvalidParameter if the noise for the largest agreed size would be finer than the grid."""
    if noise_scale(terms, terms.largest_size) < 1:
        raise InvalidParameter("the grid is coarser than the noise; lower pitch_exponent")


def noise_delta(terms: PathakTerms) -> float:
    """Return the delta of sampling and clipping: (1 + e^epsilon) times the distance, below 2^-64."""
    return (1 + math.exp(terms.epsilon)) * NOISE_DISTANCE


def noise_addends(terms: PathakTerms) -> int:
    return terms.parties if terms.joint else 1


@lru_cache(maxsize=256)
def noise_bound(terms: PathakTerms) -> int:
    """Return the largest magnitude of an entry of a party's noise, from P(|k| > B) <= 2 exp(-B/t)."""
    scale, draws = noise_scale(terms, terms.smallest_size), 2 * terms.features * noise_addends(terms)
    return math.ceil(scale * Fraction(math.log(2) * _TAIL_BITS + math.log(draws) + 1e-6)) + 1


def weight_bound(terms: PathakTerms) -> int:
    """Return the largest magnitude of an entry of the parameters, from (mu/2) ||w||^2 <= ln 2, plus tau/mu."""
    mu = terms.strong_convexity
    return math.ceil((math.sqrt(2 * math.log(2) / mu) + terms.tolerance / mu) * (1 + 1e-9) / terms.pitch) + 1


def modulus_bits(terms: PathakTerms) -> int:
    """Return m, a multiple of 8: shares are integers modulo 2^m, which exceeds every possible sum."""
    largest = terms.parties * weight_bound(terms) + noise_addends(terms) * noise_bound(terms)
    return 8 * -(-((2 * largest + 1).bit_length() + 1) // 8)


def mask_bits(terms: PathakTerms) -> int:
    return (2 * noise_addends(terms) * noise_bound(terms)).bit_length() + HIDING_BITS


def noise_plan(terms: PathakTerms, key: PublicKey) -> PackingPlan:
    return PackingPlan.for_key(key, length=terms.features, addends=1, maximum=(1 << (mask_bits(terms) + 1)) - 1)
