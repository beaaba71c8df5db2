"""Noise has the law it claims, on the lattice it claims.

Every goodness-of-fit test draws from a fixed seed (SimulationRandomness), so its verdict is stable; `tests.statistical`
has the false-alarm rates over seeds, which are so low that a new seed would pass as well.
"""

import math
from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import signal, stats

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.privacy import mechanisms as noise
from psephos.protocol.privacy.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    RoundedGaussian,
    SphericalLaplace,
    choose_pitch,
    discrete_gaussian,
    discrete_gaussian_variance,
    gaussian_delta,
    gaussian_sigma,
    poisson,
    release,
    snap,
)
from psephos.protocol.randomness import ReplayedRandomness, SimulationRandomness
from tests.statistical import FALSE_ALARM


def discrete_fit(draws: list[int], probability) -> float:
    """The chi-square p-value of integer draws against a law, cells with under 10 expected pooled into the tails."""
    low, high = min(draws), max(draws)
    cells = [k for k in range(low, high + 1) if probability(k) * len(draws) >= 10]
    expected = [probability(k) * len(draws) for k in cells]
    observed = [draws.count(k) for k in cells]
    rest = len(draws) - sum(expected)
    if rest >= 5:
        expected.append(rest)
        observed.append(len(draws) - sum(observed))
    else:
        scale = sum(observed) / sum(expected)
        expected = [e * scale for e in expected]
    return float(stats.chisquare(observed, expected).pvalue)


def geometric_pair(k: int, scale: float) -> float:
    q = math.exp(-1 / scale)
    return (1 - q) / (1 + q) * q ** abs(k)


@pytest.mark.parametrize("dimension", [1, 2, 3, 6, pytest.param(301, marks=pytest.mark.statistical)])
def test_spherical_laplace_has_gamma_norms(dimension: int) -> None:
    mechanism = SphericalLaplace(dimension, 0.7, 2.0**-30)
    randomness = SimulationRandomness(1, "norm", dimension)
    count = 4500 if dimension < 100 else 720
    norms = [np.linalg.norm(np.array(mechanism.sample(randomness)) * mechanism.pitch) for _ in range(count)]
    assert stats.kstest(norms, stats.gamma(dimension, scale=0.7).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(norms, stats.gamma(1, scale=0.7 * dimension).cdf).pvalue < FALSE_ALARM or dimension == 1


@pytest.mark.parametrize("dimension", [2, 3, 6, 7])
def test_spherical_laplace_has_uniform_directions(dimension: int) -> None:
    """Any coordinate u of a uniform direction: (u + 1)/2 is Beta((D - 1)/2, (D - 1)/2)."""
    mechanism = SphericalLaplace(dimension, 1.0, 2.0**-30)
    randomness = SimulationRandomness(2, "direction", dimension)
    draws = np.array([mechanism.sample(randomness) for _ in range(4500)], dtype=float)
    units = draws / np.linalg.norm(draws, axis=1, keepdims=True)
    half = (dimension - 1) / 2
    for axis in (*np.eye(dimension), np.ones(dimension) / math.sqrt(dimension)):
        assert stats.kstest((units @ axis + 1) / 2, stats.beta(half, half).cdf).pvalue > FALSE_ALARM
    norms = np.linalg.norm(draws, axis=1)
    assert stats.pearsonr(norms, units[:, 0]).pvalue > FALSE_ALARM
    signs = (draws[:, 0] > 0) == (draws[:, 1] > 0)
    assert stats.binomtest(int(signs.sum()), len(signs)).pvalue > FALSE_ALARM


def test_rounded_gaussian() -> None:
    mechanism = RoundedGaussian(5, 3.0, 2.0**-20)
    randomness = SimulationRandomness(4)
    draws = np.array([mechanism.sample(randomness) for _ in range(2700)], dtype=float) * mechanism.pitch
    assert stats.kstest(draws.ravel(), stats.norm(scale=3.0).cdf).pvalue > FALSE_ALARM
    for i in range(5):
        for j in range(i):
            assert stats.pearsonr(draws[:, i], draws[:, j]).pvalue > FALSE_ALARM


@pytest.mark.parametrize("scale", [Fraction(5, 2), Fraction(40, 3)])
def test_discrete_laplace(scale: Fraction) -> None:
    mechanism = DiscreteLaplace(3, scale)
    randomness = SimulationRandomness(5, str(scale))
    draws = [k for _ in range(9000) for k in mechanism.sample(randomness)]
    assert discrete_fit(draws, lambda k: geometric_pair(k, float(scale))) > FALSE_ALARM
    assert discrete_fit(draws, lambda k: geometric_pair(k, 1.1 * float(scale))) < FALSE_ALARM


@pytest.mark.parametrize("mean", [Fraction(1, 3), Fraction(10, 7), Fraction(16)])
def test_poisson_stops_exactly_at_e_to_the_minus_mean(mean: Fraction) -> None:
    """A uniform one part in 2^600 above e^-mean is above it, and one as far below is below."""
    exact = gmpy2.context(precision=3000)
    threshold = int(exact.floor(exact.mul(exact.exp(exact.div(-mean.numerator, mean.denominator)), 2**640)))
    for cell, count in ((threshold + 2**40, 1), (threshold - 2**40, 0)):
        tape = cell.to_bytes(80, "big") + bytes(80)
        assert poisson(mean, ReplayedRandomness(tape)) == count


@pytest.mark.parametrize(
    "mean", [Fraction(1, 3), pytest.param(Fraction(15), marks=pytest.mark.slow), Fraction(35, 2), Fraction(1000, 7)]
)
def test_poisson(mean: Fraction) -> None:
    randomness = SimulationRandomness(7, str(mean))
    draws = [poisson(mean, randomness) for _ in range(18000)]
    assert discrete_fit(draws, lambda k: float(stats.poisson.pmf(k, float(mean)))) > FALSE_ALARM


def test_large_poisson_is_normal_and_both_precisions_agree() -> None:
    mean = Fraction(2**60) + Fraction(1, 3)
    randomness = SimulationRandomness(8)
    draws = [(poisson(mean, randomness) - 2**60) / 2**30 for _ in range(7200)]
    assert stats.kstest(draws, stats.norm.cdf).pvalue > FALSE_ALARM
    generator = np.random.default_rng(0)
    decided = 0
    for mean in (Fraction(17), Fraction(10**5), Fraction(2**50) + Fraction(1, 3)):
        law = noise._poisson_law(mean)
        for sign in (-1, 1) * 150:
            bits = [int(b) for b in generator.integers(0, 2**63, size=3)]
            bits = [2 * b for b in bits]
            quick = noise._poisson_quick(law, bits, sign)
            if quick is not None:
                decided += 1
                assert quick == noise._poisson_exact(law, bits, sign, randomness)
    assert decided > 800


@pytest.mark.parametrize("mean", [Fraction(2**20) + Fraction(1, 3), Fraction(2**24) - Fraction(1, 5)])
def test_candidates_next_to_their_level_are_decided_as_exactly(mean: Fraction) -> None:
    """Where a ratio of probabilities that is wrong by 3e-5 would decide otherwise."""
    law, decided = noise._poisson_law(mean), 0
    width = 1 + law.peak / 2
    for sign in (-1, 1):
        for position in np.linspace(0.05, 0.95, 10):
            step = sign * math.floor(position * width / law.peak + 0.5)
            ratio = step * math.log(mean) - (math.lgamma(law.mode + step + 1) - math.lgamma(law.mode + 1))
            for beside, accepted in ((-3e-5, True), (3e-5, False)):
                draws = [1 << 20, int(position * 2**64), int(math.exp(ratio) * (1 + beside) * 2**64)]
                assert noise._poisson_exact(law, draws, sign, SimulationRandomness(1)) == ((step,) if accepted else ())
                quick = noise._poisson_quick(law, draws, sign)
                decided += quick is not None
                assert quick in (None, (step,) if accepted else ())
    assert decided > 30


def gaussian_masses(variance: Fraction, reach: int, precision: int = 600) -> list[Any]:
    """P(k) for |k| <= reach, proportional to exp(-k^2/(2 variance)), which is nothing beyond."""
    exact = gmpy2.context(precision=precision)
    weights = [exact.exp(exact.div(-k * k * variance.denominator, 2 * variance.numerator)) for k in range(reach + 1)]
    total = exact.add(weights[0], exact.mul(2, exact.fsum(weights[1:])))
    return [exact.div(weights[abs(k)], total) for k in range(-reach, reach + 1)]


@pytest.mark.parametrize("variance", [Fraction(18), Fraction(1000, 3), Fraction(10**9, 7**4)])
def test_discrete_gaussian(variance: Fraction) -> None:
    randomness, reach = SimulationRandomness(9, str(variance)), 40 * math.isqrt(int(variance))
    masses = [float(mass) for mass in gaussian_masses(variance, reach, 60)]
    draws = DiscreteGaussian(9000, variance).sample(randomness)
    step = max(1, math.isqrt(int(variance)) // 4)  # cells of as many integers
    cells = {cell: sum(masses[k + reach] for k in range(cell * step, (cell + 1) * step)) for cell in range(-60, 60)}
    assert discrete_fit([draw // step for draw in draws], lambda cell: cells.get(cell, 0.0)) > FALSE_ALARM


def test_a_wide_discrete_gaussian_is_normal() -> None:
    variance, randomness = Fraction(2**90, 7), SimulationRandomness(9, "wide")
    draws = np.array([discrete_gaussian(variance, randomness) for _ in range(9000)], dtype=float)
    assert stats.kstest(draws / math.sqrt(variance), "norm").pvalue > FALSE_ALARM


@pytest.mark.parametrize(("variance", "smooth"), [(noise.SMOOTHING, True), (noise.SMOOTHING - 1, False)])
def test_sums_over_the_integers_hardly_depend_on_the_centre(variance: int, smooth: bool) -> None:
    """docs/theory.md, "Joint noise": within 1 +- 2^-255 for the constant of the code, for no smaller integer."""
    exact = gmpy2.context(precision=600)
    integral = exact.sqrt(exact.mul(2 * variance, exact.const_pi()))
    worst = 0
    for centre in (Fraction(0), Fraction(1, 2), Fraction(1, 3), Fraction(22, 7)):
        squares = [(k - centre) ** 2 / (2 * variance) for k in range(-120, 127)]
        total = exact.fsum([exact.exp(exact.div(-square.numerator, square.denominator)) for square in squares])
        worst = max(worst, abs(exact.sub(exact.div(total, integral), 1)))
    assert (worst < 2.0**-255) == smooth


@pytest.mark.parametrize(("first", "second"), [(18, 18), (18, 400)])
def test_a_sum_of_discrete_gaussians_is_one(first: int, second: int) -> None:
    """The exact convolution, in the middle and far out."""
    exact, reach = gmpy2.context(precision=600), 700
    one, two, both = (gaussian_masses(Fraction(v), reach) for v in (first, second, first + second))
    assert first == noise.LEAST_VARIANCE
    for k in (0, 1, 17, 60, 150):
        terms = [exact.mul(one[j + reach], two[k - j + reach]) for j in range(k - reach, reach + 1)]
        assert abs(exact.sub(exact.div(exact.fsum(terms), both[k + reach]), 1)) < 2.0**-252


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8),
    st.lists(st.integers(-(2**20), 2**20), min_size=8, max_size=8),
    st.integers(-20, 3),
)
def test_snapping_commutes_with_lattice_shifts(values: list[float], shifts: list[int], exponent: int) -> None:
    pitch = 2.0**exponent
    vector = np.array(values)
    units = snap(vector, pitch)
    assert all(
        abs(Fraction(u) - Fraction(float(v)) / Fraction(pitch)) <= Fraction(1, 2)
        for u, v in zip(units, vector, strict=True)
    )
    exact = [Fraction(float(v)) / Fraction(pitch) + s for v, s in zip(vector, shifts, strict=False)]
    assert [u + s for u, s in zip(units, shifts, strict=False)] == [math.floor(e + Fraction(1, 2)) for e in exact]


@given(st.floats(1e-12, 1e6), st.integers(1, 5000))
def test_choose_pitch_is_the_largest_that_costs_under_a_millionth(sensitivity: float, dimension: int) -> None:
    pitch = choose_pitch(sensitivity, dimension)
    assert math.frexp(pitch)[0] == 0.5
    assert Fraction(pitch) ** 2 * dimension <= Fraction(sensitivity) ** 2 / 2**40
    assert 4.1 * pitch * math.sqrt(dimension) > sensitivity * 2.0**-20


def test_release_is_snapped_value_plus_noise_exactly() -> None:
    mechanism = SphericalLaplace(3, 0.5, 2.0**-10)
    value = np.array([0.1, -0.2, 0.3])
    released = release(value, mechanism, SimulationRandomness(10))
    noise_units = mechanism.sample(SimulationRandomness(10))
    assert released.tolist() == [(u + e) * 2.0**-10 for u, e in zip(snap(value, 2.0**-10), noise_units, strict=True)]
    assert np.all(released / mechanism.pitch == np.round(released / mechanism.pitch)), "every output is on the lattice"
    assert release([1, 2, 3], mechanism, SimulationRandomness(10)).tolist() == [
        (u + e) * 2.0**-10 for u, e in zip([1, 2, 3], noise_units, strict=True)
    ]


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_analytic_gaussian_is_tight(epsilon: float, delta: float) -> None:
    """Against the definition, integrated: delta = E[max(0, 1 - e^(epsilon - loss))] for loss ~ N(mu, 2 mu)."""
    sigma = gaussian_sigma(1.0, epsilon, delta)
    mu = 1 / (2 * sigma * sigma)
    loss = stats.norm(mu, math.sqrt(2 * mu))
    top = loss.mean() + 40 * loss.std()
    grid = np.linspace(epsilon, max(top, epsilon + 1e-9), 400001)
    integral = float(np.trapezoid(loss.pdf(grid) * -np.expm1(epsilon - grid), grid))
    assert integral == pytest.approx(delta, rel=1e-4)
    assert gaussian_delta(1.0, epsilon, sigma) <= delta
    assert gaussian_delta(1.0, epsilon, sigma * 0.999) > delta
    assert gaussian_sigma(3.0, epsilon, delta) == pytest.approx(3 * sigma)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 1.0, 64.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-30, 1e-9, 0.9])
def test_analytic_gaussian_never_understates_delta(epsilon: float, delta: float) -> None:
    """Against the definition at 600 bits: where epsilon and delta are small its terms agree in many digits, and float64
    loses them (by 8.5e-7 of delta at 1e-6, 1e-30 once)."""
    sigma = gaussian_sigma(1.0, epsilon, delta)
    with gmpy2.context(gmpy2.get_context(), precision=600):
        ratio, root = 1 / gmpy2.mpfr(sigma), gmpy2.sqrt(gmpy2.mpfr(2))
        above, below = (gmpy2.erfc((epsilon / ratio - half * ratio) / root) / 2 for half in (0.5, -0.5))
        share = float((above - gmpy2.exp(gmpy2.mpfr(epsilon)) * below) / gmpy2.mpfr(delta))
    assert 1 - 1e-6 < share <= 1


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("shift", [(30,), (18, 24), (-10, 20, 20)])
def test_the_true_delta_of_discrete_gaussian_noise(shift: tuple[int, ...], epsilon: float) -> None:
    """Exactly, for integer vectors at distance 30 along an axis and oblique; and little noise is wasted.

    The privacy loss is (2 u.x + |u|^2)/(2 variance), and u.x a sum of independent integers.
    """
    variance = float(discrete_gaussian_variance(30.0, epsilon, 1e-4))
    reach = int(12 * math.sqrt(variance))
    masses = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * variance))
    law, places = np.ones(1), np.zeros(1)
    for entry in shift:
        spread = np.zeros(2 * reach * abs(entry) + 1)
        spread[:: abs(entry)] = masses / masses.sum()
        law = signal.fftconvolve(law, spread)
        places = np.arange(len(law)) - len(law) // 2
    loss = (2 * places + 900) / (2 * variance)
    exact = float((law * np.maximum(0, -np.expm1(epsilon - loss))).sum())
    assert 0.8e-4 < exact <= 1e-4


def test_discrete_gaussian_noise_takes_no_more_than_the_gaussian() -> None:
    for releases in (1, 30):
        variance = discrete_gaussian_variance(2.0**25, 1.0, 1e-6, releases)
        gaussian = gaussian_sigma(2.0**25 * math.sqrt(releases), 1.0, 1e-6)
        assert 1 <= math.sqrt(variance) / gaussian < 1 + 1e-9
        assert gaussian_delta(2.0**25 * math.sqrt(releases), 1.0, DiscreteGaussian(3, variance).sigma) <= 1e-6


def test_the_charged_delta_stays_below_two_to_the_minus_64() -> None:
    assert SphericalLaplace(3000, 1.0, 2.0**-40).delta(noise.MAX_EPSILON) <= 2.0**-64
    assert DiscreteLaplace(3, Fraction(2)).delta(1.0) == 0.0
    assert SphericalLaplace(3, 1.0, 2.0**-40).delta(1.0) == pytest.approx((1 + math.e) * 2.0**-160)
    for bad in (0.0, 64.1):
        with pytest.raises(InvalidParameter):
            DiscreteGaussian(3, Fraction(20)).delta(bad)


def refused(error: type[Exception], make: Any, *values: Any) -> None:
    for value in values:
        with pytest.raises(error):
            make(value)


def test_parameters_at_and_beyond_their_limits() -> None:
    largest, sampler, edge = 1 << 20, (1 + math.e) * 2.0**-160, 2.0**62
    assert [noise.check_epsilon(e) for e in (1e-9, 64, "2")] == [1e-9, 64.0, 2.0]  # type: ignore[arg-type]
    refused(InvalidParameter, noise.check_epsilon, math.nextafter(1e-9, 0), math.nextafter(64, 65), None, "many", [1])
    refused(InvalidParameter, noise.check_delta, None, 0.0, 1.0, math.nan)
    # At a power of two, and as far beyond it as rounding may have come, the smaller one.
    assert [choose_pitch(s, 1) for s in (1.0, 1 + 2.0**-39.5, 1 + 2.0**-39, 1.99)] == [2.0**-21] * 2 + [2.0**-20] * 2
    assert choose_pitch(1.0, largest) == 2.0**-31
    assert SphericalLaplace(largest, 2.0**96, 1.0).dimension == largest
    for make in (lambda d: SphericalLaplace(d, 1.0, 1.0), lambda d: choose_pitch(1.0, d)):
        refused(InvalidParameter, make, 0, largest + 1)
    refused(
        InvalidParameter, lambda scale: SphericalLaplace(1, scale, 1.0), math.nextafter(2.0**96, math.inf), 2.0**100
    )
    for law in (SphericalLaplace, RoundedGaussian):
        assert law(2, 0.5, 0.5).pitch == 0.5
        refused(InvalidParameter, lambda scale, law=law: law(2, scale, 0.5), math.nextafter(0.5, 0))
        refused(InvalidParameter, lambda g, law=law: law(2, max(g, 1.0), g), math.inf, 0.3, 0.0, math.nan, -0.5)
    assert DiscreteLaplace(2, Fraction(1, 9)).pitch == 1.0, "an integer law may be narrower than its grid"
    refused(InvalidParameter, lambda variance: DiscreteGaussian(2, variance), Fraction(17), Fraction(1799, 100))
    for of_sensitivity in (
        lambda s: choose_pitch(s, 3),
        lambda s: gaussian_sigma(s, 1.0, 1e-6),
        lambda s: discrete_gaussian_variance(s, 1.0, 1e-6),
    ):
        refused(InvalidParameter, of_sensitivity, 0.0, -1.0, math.nan, math.inf)
    assert RoundedGaussian.for_epsilon_delta(1.0, 1.0, 2 * sampler, 1, 2.0**-20).sigma > 1
    refused(
        InvalidParameter, lambda d: RoundedGaussian.for_epsilon_delta(1.0, 1.0, d, 1, 2.0**-20), sampler, sampler / 2
    )
    assert snap(np.array([math.nextafter(edge, 0), math.nextafter(-edge, 0)]), 1.0) == [2**62 - 512, 512 - 2**62]
    refused(InvalidParameter, lambda value: snap(np.array([value]), 1.0), edge, -edge, math.nan, math.inf)
    refused(InvalidParameter, lambda entries: release([0] * entries, DiscreteLaplace(3, Fraction(1))), 2, 4)
    assert [poisson(mean) for mean in (Fraction(0), Fraction(-1))] == [0, 0]
    assert snap(np.array([-1.5, -0.5, 0.5, 1.5]), 1.0) == [-1, 0, 1, 2]
    for sensitivity, epsilon in ((7.0, 0.3), (1.0, 1.0), (1e6, 64.0)):
        exact = Fraction(sensitivity) / Fraction(epsilon)
        assert 0 <= DiscreteLaplace.for_epsilon(sensitivity, epsilon, 2, 1.0).scale_units - exact < Fraction(1, 2**20)


def test_simulated_noise_has_its_stated_law() -> None:
    """In floating point, of a seeded generator."""
    generator = np.random.default_rng(11)
    draws = np.array([noise.simulate_spherical_laplace(3, 0.7, generator) for _ in range(3600)])
    norms = np.linalg.norm(draws, axis=1)
    assert stats.kstest(norms, stats.gamma(3, scale=0.7).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(draws[:, 0] / norms, stats.uniform(-1, 2).cdf).pvalue > FALSE_ALARM, (
        "Archimedes: uniform on the axis"
    )
