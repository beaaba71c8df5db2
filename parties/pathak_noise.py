"""A party's noise in Pathak's protocol, in integer units of the parameters' own grid.

Printed variant: the whole noise vector for the sum of the parameters, drawn for the party's own size (Stage 2, step 3).
The paper draws eta for the average and multiplies by K later; an integer times K would leave the sum modulo K bare, so
what is drawn here is K eta itself.

Repaired variant: one share for every rung of the ladder. The difference of two Polya (negative binomial) variables of
shape 1/m is a share of a discrete Laplace variable: m of them sum to exactly it, since the two-sided geometric law is
infinitely divisible. m is the number of shares that privacy relies on, so what all K add makes the noise only larger.

**The distance of the Polya sampler.** A Polya variable is a Poisson number of logarithmic variables, each drawn by
Kemp's inversion (1981) from two uniforms; all in MPFR with 768 bits, uniforms in cells of 2^-640 (protocol.noise).
Outside an event of probability 2 n 2^-192, n the uniforms of a run (under 2^24), all uniforms and their complements
are at least 2^-192, so logarithms are off by 2^-447 at most, their quotients (below 2^70) by 2^-370, and a floor or a
comparison goes the other way with probability below 2^-300 each. Together less than 2^-150.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import gmpy2

from protocol.noise import DiscreteLaplace, SphericalLaplace
from protocol.pathak import Terms
from protocol.randomness import SYSTEM, Randomness

__all__ = ["POLYA_DISTANCE", "PolyaDifference", "own_noise", "rung_shares"]

POLYA_DISTANCE = 2.0**-150
"""Total variation between all Polya shares of a run and their law."""

_PRECISION = 768
_UNIFORM_BYTES = 80
_mpfr = gmpy2.context(precision=_PRECISION)


class PolyaDifference:
    """The law of a share: `contributors` independent ones sum to P(k) proportional to exp(-|k| / scale)."""

    def __init__(self, scale: Fraction, contributors: int) -> None:
        inverse = _mpfr.div(gmpy2.mpfr(scale.denominator, _PRECISION), gmpy2.mpfr(scale.numerator, _PRECISION))
        self._log_stop = _mpfr.log(_mpfr.minus(_mpfr.expm1(_mpfr.minus(inverse))))  # ln(1 - q), q = exp(-1/scale)
        # exp of minus the Poisson mean -ln(1 - q)/m.
        self._no_cluster = _mpfr.exp(_mpfr.div(self._log_stop, contributors))

    def sample(self, count: int, randomness: Randomness = SYSTEM) -> list[int]:
        """`count` independent shares."""
        return [self._polya(randomness) - self._polya(randomness) for _ in range(count)]

    def _polya(self, randomness: Randomness) -> int:
        total, product = 0, _uniform(randomness)
        while product > self._no_cluster:  # one factor for each point of a Poisson process
            total += self._logarithmic(randomness)
            product = _mpfr.mul(product, _uniform(randomness))
        return total

    def _logarithmic(self, randomness: Randomness) -> int:
        """P(k) proportional to q^k / k: a geometric variable whose ratio is 1 - (1 - q)^U."""
        stop = _mpfr.exp(_mpfr.mul(_uniform(randomness), self._log_stop))
        quotient = _mpfr.div(_mpfr.log(_uniform(randomness)), _mpfr.log1p(_mpfr.minus(stop)))
        return 1 + int(_mpfr.floor(quotient))


def _uniform(randomness: Randomness) -> Any:
    drawn = int.from_bytes(randomness.draw(_UNIFORM_BYTES), "big")
    return _mpfr.div_2exp(gmpy2.mpfr(2 * drawn + 1, _PRECISION), 8 * _UNIFORM_BYTES + 1)


def _clipped(values: list[int], bound: int) -> list[int]:
    return [max(-bound, min(bound, value)) for value in values]


def own_noise(terms: Terms, size: int, randomness: Randomness = SYSTEM) -> list[int]:
    """The printed variant's noise of a party with `size` samples: d integers in [-noise_bound, noise_bound].

    Raises GridTooCoarseError when the grid is coarser than the noise.
    """
    scale = terms.scale(size)
    if terms.noise == "laplace":
        drawn = DiscreteLaplace(terms.features, scale).sample(randomness)
    else:
        pitch = terms.pitch
        drawn = SphericalLaplace(terms.features, math.nextafter(float(scale) * pitch, math.inf), pitch).sample(
            randomness
        )
    return _clipped(drawn, terms.noise_bound)


def rung_shares(terms: Terms, randomness: Randomness = SYSTEM) -> list[list[int]]:
    """The repaired variant's shares of a party: for each rung, d integers in [-noise_bound, noise_bound]."""
    contributors = terms.parties - terms.excluded
    return [
        _clipped(PolyaDifference(terms.scale(size), contributors).sample(terms.features, randomness), terms.noise_bound)
        for size in terms.ladder
    ]
