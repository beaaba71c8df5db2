"""The fixed-base comb gives the same powers as pow, costs what the design says, and its random powers are uniform."""

from __future__ import annotations

from collections import Counter

import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from psephos.protocol.paillier.comb import CombShape, FixedBaseComb
from psephos.protocol.paillier.kernel import ring
from psephos.protocol.randomness import SimulationRandomness
from tests.statistical import FALSE_ALARM

shapes = st.builds(CombShape, st.integers(1, 6), st.integers(1, 4), st.integers(1, 5))
odd_moduli = st.integers(1, 2**130).map(lambda k: 2 * k + 1)


@given(st.data(), shapes, odd_moduli)
def test_comb_powers_agree_with_pow(data: st.DataObject, shape: CombShape, modulus: int) -> None:
    base = data.draw(st.integers(0, modulus - 1), "base")
    comb = FixedBaseComb(mpz(base), ring(mpz(modulus)), shape)
    top = (1 << shape.exponent_bits) - 1
    for exponent in (0, 1, top, data.draw(st.integers(0, top), "exponent")):
        assert comb.power(exponent) % modulus == pow(base, exponent, modulus)


@pytest.mark.parametrize("shape", [CombShape(2, 2, 2), CombShape(3, 1, 2), CombShape(1, 2, 4), CombShape(8, 1, 1)])
def test_the_exponent_of_a_random_power_is_uniform(shape: CombShape) -> None:
    """Chi-square over all 2^6 or 2^8 exponents (3 generates the units modulo 257, so power and exponent are one)."""
    comb = FixedBaseComb(mpz(3), ring(mpz(257)), shape)
    count = 1 << shape.exponent_bits
    exponent_of = {pow(3, e, 257): e for e in range(count)}
    source = SimulationRandomness(11, shape.rows)
    powers = comb.drawn_powers([comb.draw(source) for _ in range(360 * count)])
    seen = Counter(exponent_of[int(power) % 257] for power in powers)
    assert set(seen) == set(range(count))
    assert chisquare([seen[e] for e in range(count)]).pvalue > FALSE_ALARM
