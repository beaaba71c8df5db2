"""Products of powers against Python's own arithmetic."""

from __future__ import annotations

import math

import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.kernel import KERNELS, ring, use
from psephos.protocol.paillier.powers import multi_powers, public_power

TERMS = st.lists(st.tuples(st.integers(1, 10**30), st.integers(0, 2**130)), max_size=40)


@given(TERMS, st.integers(2, 10**40))
def test_it_is_the_product_of_the_powers(terms: list[tuple[int, int]], modulus: int) -> None:
    bases, exponents = [mpz(b) for b, _ in terms], [mpz(e) for _, e in terms]
    expected = math.prod(pow(b, e, modulus) for b, e in terms) % modulus
    assert public_power(bases, exponents, ring(mpz(modulus))) % modulus == expected


@pytest.mark.parametrize("name", KERNELS)
@settings(deadline=None, max_examples=30)
@given(TERMS)
def test_it_is_the_same_by_every_kernel(name: str, terms: list[tuple[int, int]]) -> None:
    modulus = mpz(2) ** 1279 - 1
    bases, exponents = [mpz(b) for b, _ in terms], [mpz(e) for _, e in terms]
    many = [*bases * 9, mpz(3)], [*exponents * 9, mpz(2) ** 20 - 1]  # few go by tables, many into buckets
    with use(name):
        arithmetic = ring(modulus)
        for chosen, powers in ((bases, exponents), many):
            expected = math.prod(pow(b, e, modulus) for b, e in zip(chosen, powers, strict=True)) % modulus
            assert public_power(chosen, powers, arithmetic) % modulus == expected


def test_it_refuses_what_has_no_meaning() -> None:
    for bases, exponents in (([mpz(2)], []), ([mpz(2)], [mpz(-1)])):
        with pytest.raises(InvalidParameter):
            public_power(bases, exponents, ring(mpz(7)))


EXPONENTS = st.one_of(st.sampled_from([0, 1, 31, 32, 2**64 - 1]), st.integers(0, 2**200))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("modulus", [mpz(2) ** 127 - 1, mpz(2) ** 1279 - 1])
@settings(deadline=None, max_examples=40)
@given(st.data(), st.integers(1, 7), st.integers(0, 9))
def test_long_exponents_of_many_rows(modulus: mpz, name: str, data: st.DataObject, bases: int, rows: int) -> None:
    chosen = [mpz(data.draw(st.integers(0, 10**60))) for _ in range(bases)]
    exponents = [[data.draw(EXPONENTS) for _ in chosen] for _ in range(rows)]
    expected = [math.prod(pow(b, e, modulus) for b, e in zip(chosen, row, strict=True)) % modulus for row in exponents]
    with use(name):
        assert multi_powers(chosen, exponents, ring(mpz(modulus))) == expected


def test_an_empty_product_is_one() -> None:
    assert multi_powers([], [[], []], ring(mpz(7))) == [1, 1]
    assert multi_powers([mpz(3)], [], ring(mpz(7))) == []
    assert multi_powers([mpz(3)], [[0]], ring(mpz(7))) == [1]


def test_rows_that_do_not_fit_are_refused() -> None:
    for exponents in ([[1, 2]], [[-1]]):
        with pytest.raises(InvalidParameter):
            multi_powers([mpz(2)], exponents, ring(mpz(7)))
