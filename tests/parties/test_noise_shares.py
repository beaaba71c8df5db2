"""Joint shares: their sum has the target law, whoever is missing; their bounds hold.

Seeds are fixed; thresholds are false-alarm rates over seeds (`tests.statistical`).
"""

import math
from dataclasses import astuple
from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np
import pytest
from scipy import stats

from psephos.parties.noise import DiscreteGaussianShares, PolyaShares, contributors
from psephos.parties.statistic import with_share
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.statistic import StatisticGrid
from psephos.protocol.privacy.mechanisms import discrete_gaussian
from psephos.protocol.randomness import ReplayedRandomness, SimulationRandomness
from tests.statistical import FALSE_ALARM


def discrete_laplace(k: int, scale: float) -> float:
    q = math.exp(-1 / scale)
    return (1 - q) / (1 + q) * q ** abs(k)


def fit(draws: list[int], probability, reach: int) -> float:
    cells = range(-reach, reach + 1)
    expected = [probability(k) * len(draws) for k in cells]
    observed = [draws.count(k) for k in cells]
    expected.append(len(draws) - sum(expected))
    observed.append(len(draws) - sum(observed))
    return float(stats.chisquare(observed, expected).pvalue)


def summed(shares, count: int, times: int, randomness) -> list[int]:
    """`times` sums of `count` shares, all entries in one list."""
    draws: list[int] = []
    for _ in range(times):
        draws += [sum(column) for column in zip(*(shares.share(randomness) for _ in range(count)), strict=True)]
    return draws


@pytest.mark.parametrize("count", [1, 2, 7, pytest.param(50, marks=pytest.mark.slow)])
def test_polya_shares_sum_to_discrete_laplace(count: int) -> None:
    shares = PolyaShares(50, count, count, Fraction(5, 2))
    draws = summed(shares, count, 360, SimulationRandomness(1, count))
    assert fit(draws, lambda k: discrete_laplace(k, 2.5), 12) > FALSE_ALARM
    assert fit(draws, lambda k: discrete_laplace(k, 2.8), 12) < FALSE_ALARM


@pytest.mark.parametrize(
    "scale", [Fraction(7, 2), Fraction(2**40), Fraction(2**54, 3), Fraction(2**60), Fraction(2**90)]
)
@pytest.mark.parametrize("first", [0.001, 0.5, 0.97, 0.999999])
def test_jumps_to_the_last_unit_of_any_scale(scale: Fraction, first: float) -> None:
    """Python's unary minus rounds an MPFR number to 53 bits, and a scale past 2^53 then has no law at all."""
    exact = gmpy2.context(precision=3000)
    cells = [int(first * 2**640), int(0.3 * 2**640)]
    u, v = (exact.div(2 * cell + 1, 2**641) for cell in cells)
    log_miss = exact.log(exact.minus(exact.expm1(exact.div(-scale.denominator, scale.numerator))))
    chance = exact.minus(exact.expm1(exact.mul(u, log_miss)))
    expected = 1 + int(exact.floor(exact.div(exact.log(v), exact.log(chance))))
    draws = [cell.to_bytes(80, "big") for cell in cells]
    tape = b"".join([draw[:8] for draw in draws] + [draw[8:] for draw in draws])
    assert PolyaShares(1, 1, 1, scale)._logarithmic(ReplayedRandomness(tape)) == expected


@pytest.mark.parametrize("scale", [Fraction(1, 9), Fraction(7, 2), Fraction(10**4), Fraction(2**33)])
def test_the_float64_and_the_mpfr_jump_agree(scale: Fraction) -> None:
    shares, coins, decided = PolyaShares(1, 1, 1, scale), SimulationRandomness(7, str(scale)), 0
    for _ in range(300):
        u, v = coins.bits(64), coins.bits(64)
        quick = shares._logarithmic_quick(u, v)
        if quick is not None:
            decided += 1
            assert quick == shares._logarithmic_exact(u, v, coins)
    assert decided > 270


def test_one_share_is_a_difference_of_negative_binomials() -> None:
    shares = PolyaShares(100, 8, 5, Fraction(3))
    q = math.exp(-1 / 3)
    pmf = stats.nbinom.pmf(np.arange(200), 0.2, 1 - q)
    law = np.convolve(pmf, pmf[::-1])
    draws = summed(shares, 1, 360, SimulationRandomness(3))
    assert fit(draws, lambda k: float(law[199 + k]), 8) > FALSE_ALARM


@pytest.mark.parametrize("count", [1, 3, pytest.param(20, marks=pytest.mark.slow)])
def test_gaussian_shares_sum_to_a_gaussian(count: int) -> None:
    shares = DiscreteGaussianShares(50, count, count, Fraction(400))
    draws = summed(shares, count, 360 if count < 5 else 160, SimulationRandomness(4, count))
    assert fit(draws, lambda k: float(stats.norm.pdf(k, scale=20)), 45) > FALSE_ALARM
    assert fit(draws, lambda k: float(stats.norm.pdf(k, scale=22)), 45) < FALSE_ALARM


def test_shares_of_the_honest_minimum_have_the_complete_law() -> None:
    """Ten parties, 3 colluders, 2 dropouts and the one that looks: 4 honest shares are already discrete Laplace."""
    left = contributors(10, colluders=3, dropouts=2)
    assert left == 4
    shares = PolyaShares(50, 10, left, Fraction(5, 2))
    draws = summed(shares, left, 360, SimulationRandomness(5))
    assert fit(draws, lambda k: discrete_laplace(k, 2.5), 12) > FALSE_ALARM
    naive = PolyaShares(50, 10, 10, Fraction(5, 2))
    draws = summed(naive, left, 360, SimulationRandomness(6))
    assert fit(draws, lambda k: discrete_laplace(k, 2.5), 12) < FALSE_ALARM, (
        "shares sized for everybody would be too small"
    )


@pytest.mark.parametrize("contributing", [1, 3, 1000])
def test_bounds_cut_less_than_the_charged_tail(contributing: int) -> None:
    """Both laws' exact tails, in logarithms, times all entries of all parties, against 2^-161."""
    polya = PolyaShares(100, 1000, contributing, Fraction(7, 2))
    q = math.exp(-1 / 3.5)
    tail = stats.nbinom.logsf(polya.bound, 1 / contributing, 1 - q)
    assert tail + math.log(2 * 1000 * 100) <= -161 * math.log(2)
    gaussian = DiscreteGaussianShares(100, 1000, contributing, Fraction(10**6))
    tail = stats.norm.logsf(gaussian.bound / math.sqrt(10**6 / contributing))
    assert -172 * math.log(2) < tail + math.log(2 * 1000 * 100) <= -161 * math.log(2)


@pytest.mark.parametrize("contributing", [2, 9, 900])
@pytest.mark.parametrize("dimension", [1, 40, 2000])
def test_norm_bounds_are_exceeded_with_the_charged_probability_at_most(dimension: int, contributing: int) -> None:
    """Against exact tails of a chi-square and of a negative binomial variable, of 1,000 parties; not far above."""
    gaussian = DiscreteGaussianShares(dimension, 1000, contributing, Fraction(10**8))
    square = gaussian.norm_bound**2 * contributing / 10**8
    polya = PolyaShares(dimension, 1000, contributing, Fraction(1000))
    jumps = float(stats.nbinom.logsf(polya.norm_bound, 2 * dimension / contributing, -math.expm1(-1 / 1000)))
    charged = -162 * math.log(2) - math.log(1000)
    corner = math.sqrt(dimension)
    for tail, shares in ((float(stats.chi2.logsf(square, dimension)), gaussian), (jumps, polya)):
        assert tail <= charged or shares.norm_bound >= corner * shares.bound
        assert shares.norm_bound <= corner * shares.bound + 1
        assert tail > 2 * charged


@pytest.mark.parametrize("law", [PolyaShares, DiscreteGaussianShares])
def test_a_share_is_drawn_again_where_its_norm_is_above_the_bound(law: type[Any]) -> None:
    """The same coins under a bound that every second share exceeds: those within are as they were, in their order."""
    free, coins = law(30, 3, 3, Fraction(3 * 10**4)), SimulationRandomness(5, law.__name__)
    shares = [free.share(coins) for _ in range(40)]
    lengths = sorted(math.sqrt(sum(entry**2 for entry in share)) for share in shares)

    class Tight(law):  # type: ignore[misc]
        norm_bound = math.ceil(lengths[20])

    again = SimulationRandomness(5, law.__name__)
    within = [share for share in shares if sum(entry**2 for entry in share) <= Tight.norm_bound**2]
    tight = Tight(30, 3, 3, Fraction(3 * 10**4))
    assert [tight.share(again) for _ in within] == within


@pytest.mark.parametrize("law", [PolyaShares, DiscreteGaussianShares])
def test_clipping_changes_only_entries_beyond_the_bound(law: type[Any]) -> None:
    """The same coins under a bound that is often reached: what lies within is as it was."""

    class Tight(law):  # type: ignore[misc]
        bound = 2

    free, tight = (kind(60, 2, 1, Fraction(20)).share(SimulationRandomness(3)) for kind in (law, Tight))
    assert max(free) > 2 > -2 > min(free)
    assert tight == [max(-2, min(2, value)) for value in free]


def test_bad_input() -> None:
    for parties, colluders, dropouts in ((5, 4, 0), (5, 2, 2), (1, 0, 0), (5, -1, 0), (5, 0, -1)):
        with pytest.raises(InvalidParameter):
            contributors(parties, colluders, dropouts)
    assert [contributors(2, 0), contributors(5, 3), contributors(5, 1, 2)] == [1, 1, 1]
    for variance in (161, -1):
        with pytest.raises(InvalidParameter):
            DiscreteGaussianShares(1, 9, 9, Fraction(variance))
    for make in (PolyaShares, DiscreteGaussianShares):
        for dimension, parties, contributing in ((3, 5, 6), (3, 5, 0), (0, 5, 5)):
            with pytest.raises(InvalidParameter):
                make(dimension, parties, contributing, Fraction(1))
    with pytest.raises(InvalidParameter):
        PolyaShares(3, 5, 5, Fraction(0))
    grid = StatisticGrid(np.ones((2, 2), dtype=int), np.array([[0, 1]]))
    with pytest.raises(InvalidParameter):
        with_share(grid.contribution(np.array([0, 1])), PolyaShares(3, 5, 5, Fraction(1)))


def test_a_share_has_the_variance_that_the_contributors_need_and_is_clipped() -> None:
    """From the same coins; the variance of a share is that of the law over the contributors, not over all parties."""
    gaussian, polya = DiscreteGaussianShares(50, 10, 4, Fraction(4000)), PolyaShares(50, 10, 4, Fraction(20))
    source = SimulationRandomness(1)
    expected = [discrete_gaussian(Fraction(1000), source) for _ in range(50)]
    assert gaussian.share(SimulationRandomness(1)) == expected
    for shares in (gaussian, polya):
        narrow: Any = type("Narrow", (type(shares),), {"bound": 9})
        free, clipped = shares.share(SimulationRandomness(2)), narrow(*astuple(shares)).share(SimulationRandomness(2))
        assert max(map(abs, free)) > 9
        assert clipped == [max(-9, min(9, entry)) for entry in free]
