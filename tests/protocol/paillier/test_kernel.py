"""Both kernels give identical numbers: AVX-512 IFMA compared with gmpy2, on random and extreme limbs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.protocol.paillier import kernel
from psephos.protocol.paillier.comb import CombShape, FixedBaseComb
from psephos.protocol.paillier.kernel import KERNELS, Ring, ring, use
from psephos.protocol.randomness import SimulationRandomness

needs_ifma = pytest.mark.skipif("ifma" not in KERNELS, reason="no compiler, or no AVX-512 IFMA, on this machine")
every_kernel = pytest.mark.parametrize("name", KERNELS)

FULL = (1 << 52) - 1
EDGE_LIMBS = st.sampled_from([0, 1, 2, FULL, FULL - 1, 1 << 51, (1 << 51) - 1])


@st.composite
def integers(draw: st.DrawFn, bits: int) -> mpz:
    """Of at most so many bits: any, or made of limbs at the ends of their range."""
    limbs = draw(st.one_of(st.lists(EDGE_LIMBS, min_size=1, max_size=bits // 52 + 1), st.none()))
    if limbs is None:
        return mpz(draw(st.integers(0, (1 << bits) - 1)))
    value = sum(limbs[i % len(limbs)] << 52 * i for i in range(bits // 52 + 1))
    return mpz(value) & (mpz(1) << bits) - 1


@st.composite
def moduli(draw: st.DrawFn) -> mpz:
    """Odd, from the shortest to the longest that ifma.c takes; the longest of a number of limbs among them."""
    bits = draw(st.sampled_from([1000, 1038, 1039, 1247, 1248, 2048, 3072, 6144, 6238, 6239, 12288, 51998]))
    return draw(integers(bits)) | mpz(1) << (bits - 1) | 1


@needs_ifma
@settings(deadline=None, max_examples=60)
@given(st.data(), moduli(), st.integers(1, 17))
def test_products_and_powers_agree_with_gmpy2(data: st.DataObject, modulus: mpz, count: int) -> None:
    with use("ifma"):
        fast = ring(modulus)
    assert type(fast) is not Ring
    # Few long numbers are drawn, and the rows made of them: hypothesis has only so many bytes to give.
    numbers = [data.draw(integers(modulus.bit_length())) % modulus for _ in range(3)] + [modulus - 1, mpz(0), mpz(1)]
    left = [numbers[i % 6] for i in range(count)]
    right = [numbers[(i * i + 3) % 6] for i in range(count)]
    slow, expected = Ring(modulus), [a * b % modulus for a, b in zip(left, right, strict=True)]
    x, y = fast.array(left), fast.array(right)
    assert fast.numbers(x) == left
    assert fast.numbers(fast.multiply(x, y)) == slow.numbers(slow.multiply(slow.array(left), slow.array(right)))
    assert fast.numbers(fast.multiply(x, y)) == expected
    assert fast.numbers(fast.multiply(x, y[:1])) == [a * right[0] % modulus for a in left]
    rows = (left, right, left, right, right)
    assert fast.products(*rows) == slow.products(*rows)
    exponent = data.draw(st.integers(1, 1 << 40))
    assert fast.power(left, mpz(exponent)) == [gmpy2.powmod(a, exponent, modulus) for a in left]


@needs_ifma
@pytest.mark.parametrize("bits", [1030, 1242, 3072, 3322, 6234])
@settings(deadline=None, max_examples=20)
@given(st.data())
def test_squares_of_digits_below_twice_the_base(bits: int, data: st.DataObject) -> None:
    """A digit is doubled where a number is multiplied by itself; among the bases are the longest of their limbs."""
    base = data.draw(integers(bits)) | mpz(1) << (bits - 1) | 1
    base = data.draw(st.sampled_from([base, (mpz(1) << bits) - 1]))
    with use("ifma"):
        fast = ring(base, 2)
    edges = [2 * base - 1, 2 * base - 2, base, base - 1, mpz(0), data.draw(integers(bits))]
    pairs = [(edges[i % 6], edges[i * i % 5]) for i in range(9)]
    rows = fast._limbs_of([digit for pair in pairs for digit in pair])  # type: ignore[attr-defined]
    scale = gmpy2.invert(mpz(1) << 26 * rows.shape[1], fast.modulus)
    values = [(low + high * base) * scale % fast.modulus for low, high in pairs]
    exponent = data.draw(st.sampled_from([2, 3, 0x10, 0x80, 0x1F31]))
    for count in (1, 3, 8, 9):  # one after the other, side by side, and both
        octets = exponent.to_bytes(2, "big")
        powers = fast._compute(rows[:count], fast._unit, octets)  # type: ignore[attr-defined]
        assert fast.numbers(powers) == [gmpy2.powmod(value, exponent, fast.modulus) for value in values[:count]]


@pytest.mark.parametrize("digits", [2, 3, 5])
@every_kernel
@settings(deadline=None, max_examples=15)
@given(st.data(), integers(1030), st.integers(1, 9))
def test_products_of_numbers_in_digits(name: str, digits: int, data: st.DataObject, base: mpz, count: int) -> None:
    """Modulo base^digits, by either kernel: what carries from one digit to the next is never lost."""
    base |= mpz(1) << 1029 | 1
    modulus = base**digits
    with use(name):
        arithmetic = ring(base, digits)
        numbers = [
            data.draw(integers(int(modulus.bit_length()))) % modulus,
            modulus - 1,
            base,
            base - 1,
            mpz(0),
            modulus // base,
        ]
        left, right = ([numbers[i * k % 6] for i in range(1, count + 1)] for k in (1, 5))
        x, y = arithmetic.array(left), arithmetic.array(right)
        assert arithmetic.numbers(x) == left
        assert arithmetic.numbers(arithmetic.multiply(x, y)) == [
            a * b % modulus for a, b in zip(left, right, strict=True)
        ]
        assert arithmetic.numbers(arithmetic.multiply(x, y[:1])) == [a * right[0] % modulus for a in left]
        assert arithmetic.products(left, right, left, right) == [
            (a * b) ** 2 % modulus for a, b in zip(left, right, strict=True)
        ]
        assert arithmetic.power(left, mpz(1 << 30 | 5)) == [gmpy2.powmod(a, 1 << 30 | 5, modulus) for a in left]


@needs_ifma
@pytest.mark.parametrize("bits", [1000, 1242, 3066, 3072])  # 1242 and 3066 leave no more room in the limbs than must be
@pytest.mark.parametrize("digits", [1, 2, 4, 8])
def test_digits_below_twice_the_base(bits: int, digits: int) -> None:
    for base in ((mpz(1) << bits) - 1, (mpz(1) << (bits - 1)) + 1):
        with use("ifma"):
            fast = ring(base, digits)
        largest = [
            [2 * base - 1] * digits,
            [2 * base - 2, *[mpz(0)] * (digits - 1)],
            [mpz(0)] * (digits - 1) + [2 * base - 1],
        ]
        rows = fast._limbs_of([digit for i in range(8) for digit in largest[i % 3]])  # type: ignore[attr-defined]
        limbs = rows.shape[1] // digits
        inverse = gmpy2.invert(mpz(1) << 52 * limbs, fast.modulus)
        value = [sum(digit * base**k for k, digit in enumerate(one)) for one in largest]
        for count in (1, 8):  # one after the other, and side by side
            product = fast.multiply(rows[:count], rows[:count])
            assert product.max() <= FULL
            for number, row in enumerate(product.reshape(count, digits, limbs)):
                integers = [sum(int(limb) << 52 * i for i, limb in enumerate(digit)) for digit in row]
                assert max(integers) < 2 * base
                assert (
                    sum(digit * base**k for k, digit in enumerate(integers)) % fast.modulus
                    == value[number % 3] ** 2 * inverse % fast.modulus
                )


@needs_ifma
def test_a_carry_propagates_through_full_lanes() -> None:
    """A final carry that propagates through lanes whose bits are all set."""
    modulus = mpz(2) ** 6144 - 10**9 + 1
    with use("ifma"):
        fast = ring(modulus)
    unit = mpz(1) << 52 * 120
    for power in range(200):
        right = gmpy2.powmod(2, 10_000 + 37 * power, modulus)
        for lanes in range(1, 8):
            cleared = 52 * 15 * lanes
            product = (modulus >> cleared << cleared) + power
            left = product * unit * gmpy2.invert(right, modulus) % modulus
            rows = fast._rows([left, right])  # type: ignore[attr-defined]
            assert fast._integers(fast.multiply(rows[:1], rows[1:])) == [product]  # type: ignore[attr-defined]


@pytest.mark.parametrize("modulus", [mpz(2) ** 2048, mpz(97), mpz(2) ** 60_000 + 1])
@every_kernel
def test_unsuitable_moduli_use_gmpy2(modulus: mpz, name: str) -> None:
    with use(name):
        assert type(ring(modulus)) is Ring
        assert ring(modulus).products([mpz(5)], [modulus - 1]) == [modulus - 5]


@needs_ifma
def test_rows_that_do_not_fit_are_rejected() -> None:
    """The C code does not read beyond its buffers."""
    compute = kernel._ifma.compute_digits
    n, row = np.ones(16, dtype=np.uint64), np.zeros((3, 16), dtype=np.uint64)
    long, odd = np.ones(1008, dtype=np.uint64), row[:, :15].copy()
    for out, left, right, exponent, modulus, digits in (
        (row, row[:2], row, None, n, 1),
        (row, row, row[:2], None, n, 1),
        (odd, odd, odd, None, n, 1),
        (row, row, row, None, n[:7], 1),
        (row, row, row, None, n[:0], 1),
        (long, long, long, None, long, 1),
        (bytes(384), row, row, None, n, 1),
        (row, row, n, "not bytes", n, 1),
        *((row, row, row, None, n, digits) for digits in (0, 2, 9)),  # one row of 16 limbs is one digit
    ):
        with pytest.raises((ValueError, TypeError, BufferError)):
            compute(out, left, right, exponent, modulus, 1, digits)


@needs_ifma
def test_digits_outside_their_tables_are_rejected() -> None:
    compute, n = kernel._ifma.multi_power, np.ones(16, dtype=np.uint64)
    out, tables = np.zeros(16, dtype=np.uint64), np.zeros((2, 3, 16), dtype=np.uint64)
    fits = (out, tables, bytes(8), 2, n, 1, 1)
    compute(*fits)
    wrong: dict[int, Sequence[Any]] = {
        0: (out[:15].copy(), np.zeros(32, dtype=np.uint64)),
        1: (tables[:, :, :15].copy(), tables[:1, :1], tables[:0]),
        2: (bytes(7), b"", b"\3" + bytes(7)),
        3: (0, -2, 4),
        4: (n[:8].copy(),),
        6: (0, 2, 9),
    }
    for place, values in wrong.items():
        for value in values:
            with pytest.raises(ValueError):  # noqa: PT011
                compute(*fits[:place], value, *fits[place + 1 :])


@every_kernel
def test_a_comb_gives_the_powers_of_pow(name: str) -> None:
    modulus = mpz(2) ** 1279 - 1
    with use(name):
        comb = FixedBaseComb(mpz(5), ring(modulus), CombShape(4, 3, 5))
    exponents = [comb.draw(SimulationRandomness(3, i)) for i in range(200)]
    expected = [gmpy2.powmod(5, comb.exponent(digits), modulus) for digits in exponents]
    for count in (0, 1, 2, 3, 5, 8, 200):  # fewer than the lanes share them
        assert comb.drawn_powers(exponents[:count]) == expected[:count]


def test_the_environment_variable_selects_the_kernel() -> None:
    program = "from psephos.protocol.paillier.kernel import kernel; print(kernel())"
    environment = {**os.environ, "PSEPHOS_KERNEL": "gmpy2"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "gmpy2"
