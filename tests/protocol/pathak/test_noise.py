"""How much noise, and how wide: the tails that bounds leave, and the grid that is too coarse."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from psephos.audit.rounds import short_key
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.pathak.noise import (
    ROW_SLACK,
    check_grid,
    noise_addends,
    noise_bound,
    noise_delta,
    noise_scale,
    record_sensitivity,
)
from psephos.protocol.pathak.terms import PathakTerms
from psephos.simulation.pathak import make_terms

KINDS = ["public-bound", "repaired", "printed"]
LONG = short_key(1, 1024).public_key


@pytest.fixture(params=KINDS)
def terms(request: pytest.FixtureRequest) -> PathakTerms:
    made: PathakTerms = make_terms(
        variant=request.param, parties=5, features=4, lam=0.1, epsilon=1.5, smallest_size=100, largest_size=4000
    )
    return made


def test_the_scale_is_that_of_the_paper_or_of_the_sensitivity(terms: PathakTerms) -> None:
    grid, d = Fraction(terms.pitch), terms.features
    moved = record_sensitivity(terms, 150)
    assert moved == pytest.approx((2 * (1 + 2 * ROW_SLACK) / 150 + 2 * terms.tolerance) / terms.strong_convexity)
    assert moved > (2 * (1 + 2 * ROW_SLACK) / 150 + 2 * terms.tolerance) / terms.strong_convexity
    joint = (math.sqrt(d) * moved / float(grid) + d) / 1.5
    expected = joint if terms.joint else 2 * 5 / (150 * 1.5 * 0.1) / float(grid)
    scale = noise_scale(terms, 150)
    assert float(scale) == pytest.approx(expected, rel=1e-9)
    assert scale.denominator <= 2**20
    assert noise_scale(terms, 300) < scale


def test_the_overflow_probability_of_a_slot_is_as_stated(terms: PathakTerms) -> None:
    scale, bound = float(noise_scale(terms, terms.smallest_size)), noise_bound(terms)
    d, addends = terms.features, noise_addends(terms)
    assert addends == (1 if terms.variant == "printed" else 5)
    tail = math.log(2 * d * addends) - bound / scale
    assert -1.001 * 161 * math.log(2) - 9 < tail <= -161 * math.log(2)
    assert noise_delta(terms) == (1 + math.exp(1.5)) * 2.0**-159


def test_a_grid_is_no_coarser_than_the_noise(terms: PathakTerms) -> None:
    check_grid(terms)
    exponents = range(terms.pitch_exponent, 1)
    fine = [k for k in exponents if noise_scale(replace(terms, pitch_exponent=k), terms.largest_size) >= 1]
    for exponent in exponents:
        if exponent in fine:
            check_grid(replace(terms, pitch_exponent=exponent))
        else:
            with pytest.raises(InvalidParameter):
                check_grid(replace(terms, pitch_exponent=exponent))
    finest = replace(terms, pitch_exponent=0, largest_size=(1 << 32) - 1, epsilon=60.0, lam=100.0)
    with pytest.raises(InvalidParameter):
        check_grid(finest)
