"""A share of joint noise: integers whose sum over the parties has exactly the law that the release needs.

* **Polya shares** sum to discrete Laplace noise (pure epsilon, L1): differences of negative binomial variables.
* **Discrete Gaussian shares** sum to discrete Gaussian noise (epsilon, delta), to far less than `SAMPLER_DISTANCE`
  (Kairouz, Liu, Steinke 2021): variances add.

Shares are sized for `contributors` = M - (colluders + dropouts + 1) parties: the shares of any that many parties sum to
the whole law, and the other shares are independent of it. docs/theory.md, "Joint noise", derives both.

Entries are clipped to a public bound, which determines their slot under encryption, and a share whose norm is above
another is drawn again, so that it can be proved. Both move the sum of all M shares by at most `SAMPLER_DISTANCE`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, Protocol

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.privacy.mechanisms import (
    NORM_TAIL,
    SAMPLER_DISTANCE,
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseMechanism,
    discrete_gaussian,
    gaussian_norm_bound,
    poisson,
)
from psephos.protocol.privacy.precision import MPFR, UNIFORM_BITS, midpoint, rational, rounded_up
from psephos.protocol.randomness import SYSTEM, Randomness

_TAIL = SAMPLER_DISTANCE / 2
"""Total variation that clipping may add; `NORM_TAIL` and the samplers need less than the rest."""

_CHERNOFF = tuple(2.0**-place for place in range(1, 40)) + tuple(1 - 2.0**-place for place in range(2, 12))
"""Values of the free parameter of Chernoff's bound, which holds for every value in (0, 1); the least bound is taken."""


def contributors(parties: int, colluders: int, dropouts: int = 0) -> int:
    """Return M - (colluders + dropouts + 1), the honest shares that make up the noise without one's own."""
    if colluders < 0 or dropouts < 0:
        raise InvalidParameter(f"colluders and dropouts cannot be negative, but they are {colluders} and {dropouts}")
    left = parties - colluders - dropouts - 1
    if left < 1:
        raise InvalidParameter(
            f"{colluders} colluders and {dropouts} dropouts among {parties} parties leave nobody's noise to protect a "
            f"party: together they may be at most {parties - 2}. Take more parties, or lower --colluders (by default "
            "threshold - 1); with --colluders 0 epsilon holds only while no two parties, key holders included, tell "
            "each other their noise"
        )
    return left


@dataclass(frozen=True)
class Shares(ABC):
    """The shares of joint noise of M parties or key holders (`parties`), of which any `contributors` sum to its law."""

    dimension: int
    parties: int
    contributors: int

    def __post_init__(self) -> None:
        if self.dimension < 1 or not 1 <= self.contributors <= self.parties:
            raise InvalidParameter("shares need 1 <= contributors <= parties and a dimension of at least 1")

    @property
    @abstractmethod
    def bound(self) -> int:
        """Bound of the absolute value of an entry of a share."""

    @property
    @abstractmethod
    def norm_bound(self) -> int:
        """Bound of the Euclidean norm of a share; a longer one is drawn again (docs/theory.md, "Joint noise")."""

    @abstractmethod
    def _draw(self, randomness: Randomness) -> list[int]:
        """Draw a share, each entry clipped to `bound`."""

    def share(self, randomness: Randomness = SYSTEM) -> list[int]:
        while True:
            share = self._draw(randomness)
            if sum(entry * entry for entry in share) <= self.norm_bound**2:
                return share

    def _within_entries(self, norm: int) -> int:
        """Return a bound of the norm, or that of a vector of clipped entries if it is less."""
        return min(norm, 1 + math.isqrt(self.dimension * self.bound**2))

    def _tail_exponent(self) -> float:
        """Return L with 2 M D e^-L = the tail probability that clipping may cut off."""
        return math.log(2 * self.parties * self.dimension) - math.log(_TAIL)


@dataclass(frozen=True)
class PolyaShares(Shares):
    """Shares that sum to DiscreteLaplace(scale_units): differences of negative binomials of shape 1/contributors."""

    scale_units: Fraction

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scale_units <= 0:
            raise InvalidParameter(f"the scale is {self.scale_units}; it must be above 0")

    @property
    def bound(self) -> int:
        return math.ceil(Fraction(self._tail_exponent() * (1 + 1e-9)) * self.scale_units)

    @cached_property
    def norm_bound(self) -> int:
        """Chernoff's bound of the sum of all jumps, a negative binomial variable of shape r = 2 D/contributors.

        With q = e^(-1/scale) and t = (1 - u)/scale, P(sum >= x) <= e^(-t x) ((1 - q)/(1 - q e^t))^r.
        """
        scale, shape = float(self.scale_units), 2 * self.dimension / self.contributors
        exponent = math.log(self.parties) - math.log(NORM_TAIL)  # L, with M e^-L = P(any share is drawn again)
        logarithms = ((u, math.log(math.expm1(-1 / scale) / math.expm1(-u / scale))) for u in _CHERNOFF)
        norm = min((exponent + shape * log) * scale / (1 - u) for u, log in logarithms) * (1 + 1e-9)
        return self._within_entries(math.ceil(rounded_up(norm)))

    @cached_property
    def _log_miss(self) -> Any:
        return MPFR.log(MPFR.minus(MPFR.expm1(rational(-1 / self.scale_units))))

    @cached_property
    def _jumps(self) -> Fraction:
        mean = MPFR.mul(self._log_miss, -2 * self.dimension)
        numerator, denominator = MPFR.div(mean, self.contributors).as_integer_ratio()
        return Fraction(int(numerator), int(denominator))

    def _draw(self, randomness: Randomness) -> list[int]:
        """Draw a share, each entry clipped.

        A negative binomial of shape r is the sum of a Poisson number, of mean -r log(1 - q), of logarithmic variables;
        all entries and both signs are drawn at once.
        """
        entries = [0] * self.dimension
        for _ in range(poisson(self._jumps, randomness)):
            entry = randomness.below(2 * self.dimension)
            jump = self._logarithmic(randomness)
            entries[entry // 2] += jump if entry % 2 else -jump
        bound = self.bound
        return [max(-bound, min(bound, e)) for e in entries]

    def _logarithmic(self, randomness: Randomness) -> int:
        """Draw from P(k) = -q^k / (k log(1 - q)), as a geometric of random parameter 1 - (1 - q)^U (Kemp 1981).

        Computed in float64 from 64 bits per uniform where these determine the result, else in MPFR from 640 bits.
        """
        u, v = randomness.bits(64), randomness.bits(64)
        jump = self._logarithmic_quick(u, v)
        return self._logarithmic_exact(u, v, randomness) if jump is None else jump

    def _logarithmic_quick(self, u: int, v: int) -> int | None:
        """Return the jump, or None where float64 does not determine it.

        With both uniforms at least 2^-12 from 0 and 1, the quotient's relative error is below 2^-38: log(v) has 2^-41,
        and log(chance) at most that of u, 2^-51, times the exponent, which is below 2^6.
        """
        low, high = 1 << 52, (1 << 64) - (1 << 52)
        exponent = u * 2.0**-64 * float(self._log_miss)
        if not (low < u < high and low < v < high and -64 < exponent < -1e-300):
            return None
        miss = math.exp(exponent)
        chance = math.log1p(-miss) if miss < 0.5 else math.log(-math.expm1(exponent))
        place = math.log(v * 2.0**-64) / chance
        whole = math.floor(place)
        edge = place * 2.0**-36
        if place - whole < edge * bool(whole) or whole + 1 - place < edge:
            return None
        return 1 + whole

    def _logarithmic_exact(self, u: int, v: int, randomness: Randomness) -> int:
        extra = UNIFORM_BITS - 64
        first, second = (midpoint(bits << extra | randomness.bits(extra)) for bits in (u, v))
        chance = MPFR.minus(MPFR.expm1(MPFR.mul(first, self._log_miss)))
        return 1 + int(MPFR.floor(MPFR.div(MPFR.log(second), MPFR.log(chance))))


@dataclass(frozen=True)
class DiscreteGaussianShares(Shares):
    """Shares that sum to discrete Gaussian noise of a variance in squared lattice units per entry."""

    variance: Fraction

    def __post_init__(self) -> None:
        super().__post_init__()
        DiscreteGaussian(self.dimension, self.variance / self.contributors)  # checks the variance of a share

    @property
    def bound(self) -> int:
        variance = float(self.variance / self.contributors)
        return math.ceil(math.sqrt(2 * variance * self._tail_exponent()) * (1 + 1e-9))

    @cached_property
    def norm_bound(self) -> int:
        variance = float(self.variance / self.contributors)
        return self._within_entries(gaussian_norm_bound(self.dimension, variance, self.parties))

    def _draw(self, randomness: Randomness) -> list[int]:
        variance, bound = self.variance / self.contributors, self.bound
        draws = (discrete_gaussian(variance, randomness) for _ in range(self.dimension))
        return [max(-bound, min(bound, e)) for e in draws]


NoiseFrom = Literal["parties", "holders"]
"""Who adds the shares of joint noise: every party, or every key holder."""


class JointPlan(Protocol):
    """Interface of a plan with joint noise (`mechanism`, in lattice units), such as a `StatisticPlan`."""

    @property
    def dimension(self) -> int: ...

    @property
    def parties(self) -> int: ...

    @property
    def mechanism(self) -> NoiseMechanism | None: ...


def shares_of(plan: JointPlan, *, colluders: int, dropouts: int = 0) -> Shares:
    """Return the noise shares of a joint plan: colluders and dropouts leave the whole law to the others."""
    return _shares(plan, plan.parties, contributors(plan.parties, colluders, dropouts))


def holder_shares_of(plan: JointPlan, holders: int, *, colluders: int) -> Shares:
    """Return the noise shares that all key holders add, sized for those that do not collude (docs/theory.md)."""
    if not 0 <= colluders < holders or holders < 2:
        raise InvalidParameter(f"{colluders} colluders among {holders} key holders leave nobody's noise: name more")
    return _shares(plan, holders, holders - max(1, colluders))


def _shares(plan: JointPlan, number: int, honest: int) -> Shares:
    if isinstance(plan.mechanism, DiscreteLaplace):
        return PolyaShares(plan.dimension, number, honest, plan.mechanism.scale_units)
    if isinstance(plan.mechanism, DiscreteGaussian):
        return DiscreteGaussianShares(plan.dimension, number, honest, plan.mechanism.variance)
    raise InvalidParameter("joint noise is discrete-laplace or gaussian; plan the statistic with joint=True")
