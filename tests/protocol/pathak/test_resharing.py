"""Permutations, additive resharing, and products of powers."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import and_, or_

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from psephos.protocol.pathak.resharing import add_shares, open_shares, split_vector
from psephos.protocol.randomness import SimulationRandomness
from tests.statistical import FALSE_ALARM


@given(st.lists(st.integers(-(2**30), 2**30), min_size=1, max_size=5), st.integers(2, 6))
def test_shares_sum_to_the_vector(vector: list[int], parts: int) -> None:
    shares = split_vector(vector, parts, 32)
    for share in shares:
        assert all(0 <= entry < 2**32 for entry in share)
    assert open_shares(shares, 32) == vector
    doubled = [add_shares([share, share], 32) for share in shares]
    assert open_shares(doubled, 32) == [(2 * v + 2**31) % 2**32 - 2**31 for v in vector]


@pytest.mark.parametrize("left_out", [0, 1, 2])
def test_all_shares_but_one_are_uniform(left_out: int) -> None:
    randomness = SimulationRandomness(2, left_out)
    seen: Counter[tuple[int, ...]] = Counter()
    for _ in range(5760):
        shares = split_vector([3], 3, 2, randomness)
        seen[tuple(share[0] for place, share in enumerate(shares) if place != left_out)] += 1
    assert len(seen) == 16
    assert chisquare(list(seen.values())).pvalue > FALSE_ALARM


@pytest.mark.parametrize("modulus_bits", [8, 64, 72, 200, 1000])
def test_every_bit_of_a_share_is_drawn_whatever_the_modulus(modulus_bits: int) -> None:
    """Every bit of each of 3 shares takes both values in 64 draws, but for a probability of 6000 * 2^-64 < 4e-16."""
    entries = zip(*(split_vector([5] * 64, 3, modulus_bits)), strict=True)
    for share in zip(*entries, strict=True):
        assert reduce(or_, share) == (1 << modulus_bits) - 1
        assert reduce(and_, share) == 0


def test_sums_are_modulo_two_to_the_m() -> None:
    assert [sum(column) % 2 for column in zip(*split_vector([1, 0], 2, 1), strict=True)] == [1, 0]
    assert open_shares([[127, 128, 129], [0, 0, 0]], 8) == [127, -128, -127]
    assert add_shares([[200, 1], [100, 2]], 8) == [44, 3]
