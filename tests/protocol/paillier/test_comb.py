"""The fixed-base comb gives the same powers as pow, costs what the design says, and its random powers are uniform."""

from __future__ import annotations

from collections import Counter

import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.comb import CombShape, FixedBaseComb, best_shape
from psephos.protocol.paillier.kernel import ring
from psephos.protocol.randomness import RecordedRandomness, SimulationRandomness
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


@pytest.mark.parametrize("exponent", [-1, 2**12, 2**12 + 1])
def test_an_exponent_out_of_range_is_rejected(exponent: int) -> None:
    comb = FixedBaseComb(mpz(3), ring(mpz(101)), CombShape(2, 3, 2))
    with pytest.raises(InvalidParameter):
        comb.power(exponent)


@given(shapes, st.integers(0, 2**32))
def test_a_random_power_has_the_drawn_exponent(shape: CombShape, seed: int) -> None:
    """The digits drawn from the tape form the exponent of the returned power."""
    modulus = (1 << 127) - 1
    comb = FixedBaseComb(mpz(3), ring(mpz(modulus)), shape)
    source = RecordedRandomness(SimulationRandomness(seed))
    (power,) = comb.random_powers(1, source)
    width = shape.tables * shape.columns
    tape = memoryview(source.tape()).cast("H").tolist()
    assert len(tape) == width
    exponent = sum(
        (tape[place] >> row & 1) << (row * width + place) for place in range(width) for row in range(shape.rows)
    )
    assert power == pow(3, exponent, modulus)


@pytest.mark.parametrize("shape", [CombShape(2, 2, 2), CombShape(3, 1, 2), CombShape(1, 2, 4), CombShape(8, 1, 1)])
def test_the_exponent_of_a_random_power_is_uniform(shape: CombShape) -> None:
    """Chi-square over all 2^6 or 2^8 exponents (3 generates the units modulo 257, so power and exponent are one)."""
    comb = FixedBaseComb(mpz(3), ring(mpz(257)), shape)
    count = 1 << shape.exponent_bits
    exponent_of = {pow(3, e, 257): e for e in range(count)}
    source = SimulationRandomness(11, shape.rows)
    seen = Counter(exponent_of[int(power) % 257] for power in comb.random_powers(360 * count, source))
    assert set(seen) == set(range(count))
    assert chisquare([seen[e] for e in range(count)]).pvalue > FALSE_ALARM


@pytest.mark.parametrize("bits", [1, 13, 60, 255, 700, 1536, 4095])
@pytest.mark.parametrize("memory", [0, 64 * 148, 1024 * 148, 50_000_000])
def test_best_shape_has_the_lowest_cost(bits: int, memory: int) -> None:
    """Of up to 13 rows and 64 columns, each as many tables as it takes."""
    cuts = [(rows, columns, -(-bits // rows)) for rows in range(1, 14) for columns in range(1, 65)]
    every = [CombShape(r, -(-width // c), c) for r, c, width in cuts if c <= width]
    fit = [shape for shape in every if shape.rows == 1 or shape.table_entries * (100 + 48) <= memory]
    for powers in (0, 1, 2, 3, 50, 10**5):
        cost = min(shape.table_entries + max(powers, 1) * shape.multiplications for shape in fit)
        cheapest = [s for s in fit if s.table_entries + max(powers, 1) * s.multiplications == cost]
        best = best_shape(bits, powers=powers, entry_bytes=100, memory=memory)
        assert best in cheapest
        assert best.table_entries == min(shape.table_entries for shape in cheapest)
