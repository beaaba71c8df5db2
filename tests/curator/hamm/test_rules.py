"""The rules that choose lambda and radius: functions of public numbers, and what they promise."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.curator.hamm.rules import HAMM_LAMBDA, LARGEST_RIDGE, NOISE_SHARE, averaging_radius, ridge
from psephos.curator.hamm.sensitivity import multiclass_soft, radius
from psephos.protocol.errors import InvalidParameter


@given(st.integers(10, 100_000), st.integers(2, 20), st.floats(0.01, 60), st.integers(1, 5000))
def test_the_noise_is_at_most_the_share_it_may_have_unless_the_rule_is_at_its_end(
    parties: int, classes: int, epsilon: float, dimension: int
) -> None:
    at_one = multiclass_soft(1.0, parties, classes)
    lam = ridge(at_one, dimension, classes, epsilon)
    assert HAMM_LAMBDA <= lam <= LARGEST_RIDGE
    noise = dimension * at_one.value / lam / epsilon
    allowed = NOISE_SHARE * radius(lam, classes)
    if lam < LARGEST_RIDGE:
        assert noise <= allowed * (1 + 1e-9)
    if HAMM_LAMBDA < lam < LARGEST_RIDGE:
        assert noise == pytest.approx(allowed, rel=1e-9)


def test_without_noise_it_is_hamms() -> None:
    assert ridge(multiclass_soft(1.0, 10, 3), 100, 3, None) == HAMM_LAMBDA


def test_more_parties_need_less_ridge() -> None:
    chosen = [ridge(multiclass_soft(1.0, parties, 6), 250, 6, 10.0) for parties in (500, 1000, 2000, 4000)]
    assert chosen == sorted(chosen, reverse=True)
    assert chosen[0] > chosen[-1]


def test_the_averaging_ball_is_a_tenth_of_the_longest_minimiser() -> None:
    assert averaging_radius(1e-4, 2) == pytest.approx(math.sqrt(0.27846 / 1e-4) / 10, rel=1e-4)


def test_bad_input() -> None:
    with pytest.raises(InvalidParameter):
        ridge(multiclass_soft(1.0, 10, 3), 0, 3, 1.0)
    with pytest.raises(InvalidParameter):
        averaging_radius(0.0, 2)
