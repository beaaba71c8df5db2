"""Noise mechanisms on a lattice, for every private release (docs/theory.md, "Noise on a lattice").

A released vector is an integer vector times a public *pitch*, a power of two: the value is snapped to the lattice, and
the noise is an integer vector that does not depend on it. Each mechanism states a bound `distance` of the total
variation between its sampler and its law; an accountant adds `delta(epsilon) = (1 + e^epsilon) * distance`.

**The distance of the continuous samplers.** A uniform variable is replaced by the midpoint of its cell of width
2^-640; all later arithmetic is MPFR at 768 bits. Couple it with the exact uniform inside the cell. Up to an event of
probability at most 2 n 2^-192, every one of the n uniforms and its complement is at least 2^-192. Outside that event
a logarithm is off by at most 2^-447, the square root of a sum of n of them by n 2^-351, sines and cosines by 2^-637,
so an entry of the noise is off by at most e = n 2^-335 scales (no factor exceeds sqrt(2 n 192 ln 2)). A rounded entry
then differs from the exact one only if the exact one lies within e of a half-odd multiple of the pitch. Its density is
unimodal and at most 1/(2 scale), so the chance is at most 2 e (1/pitch + 1/scale) <= 4 e/pitch. With D <= 2^20,
n <= 2 D + 3 and scale/pitch <= 2^96 the sum over all entries, and the first event, stay below 2^-160.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import gmpy2
import numpy as np
from numpy.typing import NDArray

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.privacy.precision import MPFR, UNIFORM_BITS, midpoint, rational, rounded_up, uniforms
from psephos.protocol.randomness import SYSTEM, Randomness

MIN_EPSILON = 1e-9
"""Least epsilon; smaller ones give useless results and scales beyond floating point."""

MAX_EPSILON = 64.0
"""Largest epsilon; larger ones do not protect, and (1 + e^epsilon) * 2^-160 would exceed 2^-64."""

SAMPLER_DISTANCE = 2.0**-160
"""Bound of the distance (derived above), also for the sum of joint shares with clipping (`psephos.parties.noise`)."""

SMOOTHING = 9
"""tau^2: the sum of exp(-(k - c)^2/(2 tau^2)) over the integers depends on c by a factor of at most 1 + 2^-254."""

LEAST_VARIANCE = 2 * SMOOTHING
"""Least variance of discrete Gaussian noise and of a share of it (docs/theory.md, "Joint noise")."""

_MAX_DIMENSION = 1 << 20
_MAX_RATIO = 2.0**96

_TWO_PI = MPFR.mul(2, gmpy2.const_pi(MPFR.precision))
_HALF = gmpy2.mpfr(0.5)


def check_epsilon(epsilon: float) -> float:
    """Return `epsilon` as a float; raise InvalidParameter unless it lies in [1e-9, 64]."""
    value = _number(epsilon, "epsilon")
    if not MIN_EPSILON <= value <= MAX_EPSILON:
        raise InvalidParameter(f"epsilon is {epsilon}; it must be a number from {MIN_EPSILON:g} to {MAX_EPSILON:g}")
    return value


def check_delta(delta: float) -> float:
    value = _number(delta, "delta")
    if not 0.0 < value < 1.0:
        raise InvalidParameter(f"delta is {delta}; it must lie strictly between 0 and 1 (1e-6 is usual)")
    return value


def _number(value: float, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InvalidParameter(f"{name} must be a number, not {value!r}") from None


def _check_positive(value: float, name: str) -> None:
    if not (math.isfinite(value) and value > 0):
        raise InvalidParameter(f"the {name} is {value}; it must be a finite number above 0")


def _check_lattice(dimension: int, pitch: float, scale: float, name: str, *, integers: bool = False) -> None:
    if not 1 <= dimension <= _MAX_DIMENSION:
        raise InvalidParameter(f"the dimension is {dimension}; it must lie between 1 and {_MAX_DIMENSION}")
    if not (math.isfinite(pitch) and pitch > 0 and math.frexp(pitch)[0] == 0.5):
        raise InvalidParameter(f"the pitch is {pitch}; it must be a power of two")
    _check_positive(scale, name)
    if pitch > scale and not integers:
        raise InvalidParameter(
            f"a grid of pitch {pitch:g} is coarser than noise of {name} {scale:g}; choose a finer grid "
            "(choose_pitch gives one) or a smaller epsilon"
        )
    if scale / pitch > _MAX_RATIO:
        raise InvalidParameter(
            f"noise of {name} {scale:g} spans more than 2^96 steps of a grid of pitch {pitch:g}; choose a coarser grid"
        )


def choose_pitch(sensitivity: float, dimension: int) -> float:
    """Return the largest power of two g with g * sqrt(dimension) <= 2^-20 * sensitivity; raises InvalidParameter."""
    _check_positive(sensitivity, "sensitivity")
    if not 1 <= dimension <= _MAX_DIMENSION:
        raise InvalidParameter(f"the dimension is {dimension}; it must lie between 1 and {_MAX_DIMENSION}")
    mantissa, exponent = math.frexp(sensitivity / math.sqrt(dimension))
    if mantissa < 0.5 + 2.0**-40:  # the quotient may have been rounded up to a power of two
        exponent -= 1
    return math.ldexp(1.0, exponent - 21)


# -- continuous laws, drawn at high precision and rounded


def _normals(count: int, randomness: Randomness) -> list[Any]:
    """Draw `count` independent standard normal variables (Box and Muller 1958)."""
    pairs = uniforms(count + count % 2, randomness)
    normals: list[Any] = []
    for first, second in zip(pairs[::2], pairs[1::2], strict=True):
        radius = MPFR.sqrt(MPFR.mul(-2, MPFR.log(first)))
        sine, cosine = MPFR.sin_cos(MPFR.mul(_TWO_PI, second))
        normals.append(MPFR.mul(radius, cosine))
        normals.append(MPFR.mul(radius, sine))
    return normals[:count]


def _rounded(factor: Any, normals: list[Any]) -> list[int]:
    return [int(MPFR.floor(MPFR.add(MPFR.mul(factor, z), _HALF))) for z in normals]


@dataclass(frozen=True)
class NoiseMechanism(ABC):
    """A noise mechanism: draws vectors of `dimension` integers in units of `pitch`, a power of two."""

    dimension: int

    if TYPE_CHECKING:  # the last field of every mechanism

        @property
        def pitch(self) -> float: ...

    distance: ClassVar[float] = SAMPLER_DISTANCE
    """Bound of the total variation between the sampler and its law rounded to the lattice."""

    @abstractmethod
    def sample(self, randomness: Randomness = SYSTEM) -> list[int]:
        """Draw one noise vector in lattice units."""

    def delta(self, epsilon: float) -> float:
        """Return (1 + e^epsilon) * distance, the delta that the sampler adds."""
        return (1.0 + math.exp(check_epsilon(epsilon))) * self.distance


@dataclass(frozen=True)
class SphericalLaplace(NoiseMechanism):
    """Density proportional to exp(-||eta||_2 / scale), rounded to multiples of `pitch`; Hamm 2016, equation (3).

    Added to a value of L2 sensitivity S (on the lattice) it gives pure S/scale differential privacy. Raises
    InvalidParameter for a dimension, scale or pitch out of range, or a pitch above scale.
    """

    scale: float
    pitch: float

    def __post_init__(self) -> None:
        _check_lattice(self.dimension, self.pitch, self.scale, "scale")

    @classmethod
    def for_epsilon(cls, sensitivity: float, epsilon: float, dimension: int, pitch: float) -> SphericalLaplace:
        """Create epsilon-private noise for an L2 sensitivity that holds on the lattice; the scale is rounded up."""
        return cls(dimension, math.nextafter(sensitivity / check_epsilon(epsilon), math.inf), pitch)

    def sample(self, randomness: Randomness = SYSTEM) -> list[int]:
        # scale * sqrt(chi) * Z, Z normal and chi a chi-square variable with dimension + 1 degrees (docs/theory.md)
        even = self.dimension % 2 == 0
        product = gmpy2.mpfr(1)
        for uniform in uniforms((self.dimension + 1) // 2, randomness):
            product = MPFR.mul(product, uniform)
        chi = MPFR.mul(-2, MPFR.log(product))
        normals = _normals(self.dimension + even, randomness)
        if even:
            spare = normals.pop()
            chi = MPFR.add(chi, MPFR.mul(spare, spare))
        return _rounded(MPFR.mul(self.scale / self.pitch, MPFR.sqrt(chi)), normals)


@dataclass(frozen=True)
class RoundedGaussian(NoiseMechanism):
    """Independent normal entries of standard deviation `sigma`, rounded to multiples of `pitch`.

    Raises InvalidParameter for a dimension, sigma or pitch out of range, or a pitch above sigma.
    """

    sigma: float
    pitch: float

    def __post_init__(self) -> None:
        _check_lattice(self.dimension, self.pitch, self.sigma, "sigma")

    @classmethod
    def for_epsilon_delta(
        cls, sensitivity: float, epsilon: float, delta: float, dimension: int, pitch: float
    ) -> RoundedGaussian:
        """Create (epsilon, delta)-private noise for an L2 sensitivity that holds on the lattice, sampler included."""
        sampler = (1.0 + math.exp(check_epsilon(epsilon))) * SAMPLER_DISTANCE
        if check_delta(delta) <= sampler:
            raise InvalidParameter(
                f"delta = {delta:g} is below the contribution of the sampler; use at least {2 * sampler:.1e}"
            )
        return cls(dimension, gaussian_sigma(sensitivity, epsilon, delta - sampler), pitch)

    def sample(self, randomness: Randomness = SYSTEM) -> list[int]:
        return _rounded(gmpy2.mpfr(self.sigma / self.pitch), _normals(self.dimension, randomness))


# -- exact integer laws


def _bernoulli_exp(numerator: int, denominator: int, randomness: Randomness) -> bool:
    """Return True with probability exactly exp(-numerator/denominator), up to 1 (Canonne, Kamath, Steinke 2020)."""
    k = 1
    while randomness.below(denominator * k) < numerator:
        k += 1
    return k % 2 == 1


@dataclass(frozen=True)
class DiscreteLaplace(NoiseMechanism):
    """Independent integers with P(k) proportional to exp(-|k| / scale_units), drawn exactly; times `pitch`.

    Added to an integer vector of L1 sensitivity S (in units) it gives pure S/scale_units differential privacy. Raises
    InvalidParameter for a dimension, scale or pitch out of range.
    """

    scale_units: Fraction
    pitch: float = 1.0

    distance: ClassVar[float] = 0.0  # the sampler is exact

    def __post_init__(self) -> None:
        _check_lattice(self.dimension, self.pitch, self.pitch * float(self.scale_units), "scale", integers=True)

    @classmethod
    def for_epsilon(cls, sensitivity_units: float, epsilon: float, dimension: int, pitch: float) -> DiscreteLaplace:
        """Create epsilon-private noise for an L1 sensitivity in lattice units; the scale is rounded up to k/2^20."""
        exact = Fraction(sensitivity_units) / Fraction(check_epsilon(epsilon))
        return cls(dimension, Fraction(-((-exact * 2**20) // 1), 2**20), pitch)

    def sample(self, randomness: Randomness = SYSTEM) -> list[int]:
        numerator, denominator = self.scale_units.numerator, self.scale_units.denominator
        return [_discrete_laplace(numerator, denominator, randomness) for _ in range(self.dimension)]


def _discrete_laplace(numerator: int, denominator: int, randomness: Randomness) -> int:
    """Draw an integer with P(k) proportional to exp(-|k| denominator/numerator), exactly."""
    while True:
        remainder = randomness.below(numerator)
        if not _bernoulli_exp(remainder, numerator, randomness):
            continue
        whole = 0
        while _bernoulli_exp(1, 1, randomness):
            whole += 1
        magnitude = (remainder + numerator * whole) // denominator
        negative = randomness.bits(1)
        if magnitude or not negative:  # zero must not be drawn with both signs
            return -magnitude if negative else magnitude


def poisson(mean: Fraction, randomness: Randomness = SYSTEM) -> int:
    """Draw a Poisson variable of rational `mean` up to 2^192, within total variation 2^-256 of its law.

    Up to 16 by multiplying uniforms until they fall below e^-mean. Beyond, by rejection under Devroye's envelope of a
    log-concave sequence with mode n (Devroye 1987): p(n + x) <= p(n) min(1, e^(w - p(n) |x|)), w = 1 + p(n)/2. Every
    decision is taken in float64 from 64 bits per uniform if these suffice, else in MPFR from 640. Except for an event
    of probability 2^-270, a uniform is at least 2^-270, its logarithm is off by at most 2^-370, and the candidate's
    place (below 2^104) by 2^-266, which bounds the probability of a wrong decision. The total for the 2 D draws of a
    vector, or for all parties' shares, is far below 2^-160.
    """
    if mean <= 0:
        return 0
    if mean <= 16:
        least = _least(mean)
        count, product = -1, gmpy2.mpfr(1)
        while product >= least:
            product = MPFR.mul(product, uniforms(1, randomness)[0])
            count += 1
        return count
    law = _poisson_law(mean)
    while True:
        block = randomness.draw(25)
        draws = [int.from_bytes(block[i : i + 8], "big") for i in (0, 8, 16)]
        sign = -1 if block[24] & 1 else 1
        step = _poisson_quick(law, draws, sign)
        if step is None:
            step = _poisson_exact(law, draws, sign, randomness)
        if step:
            return law.mode + step[0]


@lru_cache(maxsize=64)
def _least(mean: Fraction) -> Any:
    return MPFR.exp(rational(-mean))


@dataclass(frozen=True)
class _Poisson:
    """A law with a mean above 16: the mode's probability in MPFR and float64, ln(mean), and (mean - mode)/mode."""

    mean: Fraction
    mode: int
    exact: Any
    peak: float
    logarithm: float
    excess: float


@lru_cache(maxsize=64)
def _poisson_law(mean: Fraction) -> _Poisson:
    mode, value = mean.numerator // mean.denominator, rational(mean)
    logarithm = MPFR.log(value)
    here = MPFR.lngamma(gmpy2.mpfr(mode + 1, MPFR.precision))
    exact = MPFR.exp(MPFR.sub(MPFR.sub(MPFR.mul(mode, logarithm), value), here))
    return _Poisson(mean, mode, exact, float(exact), float(logarithm), float(mean - mode) / mode)


def _poisson_quick(law: _Poisson, draws: list[int], sign: int) -> tuple[int] | tuple[()] | None:
    """Decide in float64 whether a candidate is accepted: its step, nothing, or None where float64 cannot tell."""
    which, position, level = ((d + 0.5) * 2.0**-64 for d in draws)
    width = 1 + law.peak / 2
    flat = width / (1 + width)
    if abs(which - flat) < 1e-12 or position < 2.0**-12 or level < 2.0**-12:
        return None
    if which < flat:
        reach, hat = position * width, 0.0
    else:
        hat = math.log(position)
        reach = width - hat
    place = reach / law.peak + 0.5
    distance = math.floor(place)
    if min(place - distance, distance + 1 - place) < 1e-9 + place * 2.0**-46:
        return None
    step = sign * distance
    n, x = float(law.mode), float(step)
    if law.mode < 2**20:  # the logarithms are below 2^24, so a hundred ulps are below 1e-6
        if n + x < 0:
            return ()
        ratio = x * law.logarithm - (math.lgamma(n + x + 1) - math.lgamma(n + 1))
    elif 2 * distance > law.mode:
        return None
    else:
        ratio = x * math.log1p(law.excess) - (n + x + 0.5) * math.log1p(x / n) + x - (1 / (n + x) - 1 / n) / 12
    gap = math.log(level) + hat - ratio
    if abs(gap) < 1e-5 + 2.0**-48 * (abs(x) + x * x / n):  # Stirling's next term is below 6e-6 when n + x >= 8
        return None
    return (step,) if gap < 0 else ()


def _poisson_exact(law: _Poisson, draws: list[int], sign: int, randomness: Randomness) -> tuple[int] | tuple[()]:
    """Decide as `_poisson_quick`, but always and in MPFR, with 576 more random bits for each uniform variable."""
    extra = UNIFORM_BITS - 64
    which, position, level = (midpoint(d << extra | randomness.bits(extra)) for d in draws)
    mode, width = law.mode, MPFR.add(1, MPFR.div(law.exact, 2))
    if MPFR.mul(which, MPFR.add(1, width)) <= width:
        reach, hat = MPFR.mul(position, width), gmpy2.mpfr(0)
    else:
        hat = MPFR.log(position)
        reach = MPFR.sub(width, hat)
    step = sign * int(MPFR.floor(MPFR.add(MPFR.div(reach, law.exact), _HALF)))
    if mode + step < 0:
        return ()
    logarithm = MPFR.log(rational(law.mean))
    there = MPFR.lngamma(gmpy2.mpfr(mode + step + 1, MPFR.precision))
    here = MPFR.lngamma(gmpy2.mpfr(mode + 1, MPFR.precision))
    ratio = MPFR.sub(MPFR.mul(step, logarithm), MPFR.sub(there, here))
    return (step,) if MPFR.add(MPFR.log(level), hat) <= ratio else ()


@dataclass(frozen=True)
class DiscreteGaussian(NoiseMechanism):
    """Independent integers with P(k) proportional to exp(-k^2/(2 variance)), drawn exactly; times `pitch`.

    For noise that parties add themselves: a sum of discrete Gaussians is one, to within far less than
    `SAMPLER_DISTANCE` (Kairouz, Liu, Steinke 2021; docs/theory.md, "Joint noise"). Raises InvalidParameter, also for a
    variance below `LEAST_VARIANCE`.
    """

    variance: Fraction
    pitch: float = 1.0

    def __post_init__(self) -> None:
        if self.variance < LEAST_VARIANCE:
            raise InvalidParameter(
                f"discrete Gaussian noise needs a variance of {LEAST_VARIANCE} squared steps of the grid, not "
                f"{float(self.variance):g}, to be as private as the Gaussian; choose a finer grid or a smaller epsilon"
            )
        spread = self.pitch * math.sqrt(self.variance)
        _check_lattice(self.dimension, self.pitch, spread, "standard deviation", integers=True)

    @property
    def sigma(self) -> float:
        """Standard deviation of the continuous Gaussian noise, in units, of which this noise is a post-processing."""
        return math.sqrt(self.variance - SMOOTHING) * (1 - 2.0**-50)

    def sample(self, randomness: Randomness = SYSTEM) -> list[int]:
        return [discrete_gaussian(self.variance, randomness) for _ in range(self.dimension)]


NORM_TAIL = SAMPLER_DISTANCE / 4
"""Total variation that drawing shares of noise again may add, where a share is longer than its public bound."""


def gaussian_norm_bound(dimension: int, variance: float, shares: int) -> int:
    """Return a norm that none of so many discrete Gaussian vectors exceeds but with probability `NORM_TAIL`.

    P(|vector|^2 >= v (D + 2 sqrt(D L) + 2 L)) <= e^-L, for sub-Gaussian vectors (Hsu, Kakade, Zhang 2012, theorem 2.1).
    """
    exponent = math.log(shares) - math.log(NORM_TAIL)
    square = dimension + 2 * math.sqrt(dimension * exponent) + 2 * exponent
    return math.ceil(rounded_up(math.sqrt(variance * square) * (1 + 1e-9)))


def discrete_gaussian(variance: Fraction, randomness: Randomness = SYSTEM) -> int:
    """Draw an integer with P(k) proportional to exp(-k^2/(2 variance)), exactly (Canonne, Kamath, Steinke 2020)."""
    p, q = variance.numerator, variance.denominator
    scale = math.isqrt(p // q) + 1
    while True:
        y = _discrete_laplace(scale, 1, randomness)
        excess = (abs(y) * q * scale - p) ** 2  # over 2 p q scale^2
        whole, rest = divmod(excess, 2 * p * q * scale**2)
        if all(_bernoulli_exp(1, 1, randomness) for _ in range(whole)) and _bernoulli_exp(
            rest, 2 * p * q * scale**2, randomness
        ):
            return y


def discrete_gaussian_variance(sensitivity: float, epsilon: float, delta: float, releases: int = 1) -> Fraction:
    """Return a variance with which discrete Gaussian noise is (epsilon, delta)-private, that of `gaussian_sigma` + 9.

    Args:
        sensitivity: L2 sensitivity of the integer vector, in lattice units.
        epsilon, delta: the guarantee; the sampler's part of delta is not in it.
        releases: number of vectors, each chosen after the noisy sums before it, that the guarantee covers together:
            Gaussians compose as one with sqrt(releases) times the sensitivity (Dong, Roth, Su 2022, corollary 3.3).
    """
    sigma = gaussian_sigma(sensitivity * math.sqrt(releases) * (1 + 2.0**-48), epsilon, delta)
    return Fraction(math.ceil(Fraction(sigma) ** 2) + SMOOTHING)


def least(enough: Callable[[float], bool], first: float, precision: float) -> float:
    """Return the smallest positive number for which `enough` holds, rounded up, by doubling and bisection."""
    low = high = first
    while not enough(high):
        low, high = high, 2 * high
    low = 0.0 if low == high else low
    while high - low > precision * high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


# -- the analytic Gaussian


def gaussian_delta(sensitivity: float, epsilon: float, sigma: float) -> float:
    """Return the delta of the Gaussian mechanism (Balle and Wang 2018, theorem 8), rounded up.

    Phi(r/2 - epsilon/r) - e^epsilon Phi(-r/2 - epsilon/r) with r = sensitivity/sigma, at 128 bits: the two terms can
    agree in more digits than float64 has.
    """
    with gmpy2.context(gmpy2.get_context(), precision=128):
        ratio = gmpy2.mpfr(sensitivity) / gmpy2.mpfr(sigma)
        root = gmpy2.sqrt(gmpy2.mpfr(2))
        above = gmpy2.erfc((epsilon / ratio - ratio / 2) / root)
        below = gmpy2.exp(gmpy2.mpfr(epsilon)) * gmpy2.erfc((epsilon / ratio + ratio / 2) / root)
        return math.nextafter(float((above - below) / 2), 1.0)


def gaussian_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """Return the smallest sigma, rounded up, with which Gaussian noise is (epsilon, delta)-private."""
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    _check_positive(sensitivity, "sensitivity")
    return math.nextafter(sensitivity * _unit_sigma(epsilon, delta) * (1 + 2.0**-50), math.inf)


@lru_cache(maxsize=256)  # every draw of a release uses the same
def _unit_sigma(epsilon: float, delta: float) -> float:
    return least(lambda sigma: gaussian_delta(1.0, epsilon, sigma) <= delta, 2.0**-10, 1e-12)


# -- snapping and releasing


def snap(vector: NDArray[np.float64], pitch: float) -> list[int]:
    """Return floor(x / pitch + 1/2), exactly, of each entry of a flattened vector.

    Raises InvalidParameter for an entry that is NaN, infinite, or beyond 2^62 pitches.
    """
    units = np.asarray(vector, dtype=np.float64).ravel() / pitch
    if not np.all(np.abs(units) < 2.0**62):
        raise InvalidParameter(
            "the vector to be released has NaN, infinite or, for this grid, too large entries; check it or choose a "
            "coarser grid"
        )
    below = np.floor(units)
    return [int(v) for v in (below + (units - below >= 0.5)).tolist()]


def release(
    vector: NDArray[np.float64] | Sequence[int], mechanism: NoiseMechanism, randomness: Randomness = SYSTEM
) -> NDArray[np.float64]:
    """Release a vector with noise, which is added in integers on the mechanism's lattice.

    The vector is real (D,) or integers in lattice units, the result float64 (D,). Raises InvalidParameter for another
    dimension, or as `snap`.
    """
    units = snap(vector, mechanism.pitch) if isinstance(vector, np.ndarray) else list(vector)
    if len(units) != mechanism.dimension:
        raise InvalidParameter(
            f"the vector has {len(units)} entries and the mechanism has dimension {mechanism.dimension}"
        )
    noise = mechanism.sample(randomness)
    return np.array([float(u + e) * mechanism.pitch for u, e in zip(units, noise, strict=True)])


# -- for simulations only: seeded floating-point noise, which does not protect privacy


def simulate_spherical_laplace(dimension: int, scale: float, generator: np.random.Generator) -> NDArray[np.float64]:
    direction = generator.normal(size=dimension)
    noise: NDArray[np.float64] = direction / np.linalg.norm(direction) * generator.gamma(dimension, scale)
    return noise
