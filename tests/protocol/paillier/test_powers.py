"""Products of powers against Python's own arithmetic."""

from __future__ import annotations

import math

import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.kernel import KERNELS, ring, use
from psephos.protocol.paillier.powers import power_product

EXPONENTS = st.sampled_from([0, 1, 31, 32, 2**64 - 1]) | st.integers(0, 2**200)
TERMS = st.lists(st.tuples(st.integers(0, 10**60), EXPONENTS), max_size=40)


@given(TERMS, st.integers(2, 10**40))
def test_it_is_the_product_of_the_powers(terms: list[tuple[int, int]], modulus: int) -> None:
    bases, exponents = [mpz(b) for b, _ in terms], [mpz(e) for _, e in terms]
    expected = math.prod(pow(b, e, modulus) for b, e in terms) % modulus
    assert power_product(bases, exponents, ring(mpz(modulus))) % modulus == expected


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
            assert power_product(chosen, powers, arithmetic) % modulus == expected


def test_it_refuses_what_has_no_meaning() -> None:
    for bases, exponents in (([mpz(2)], []), ([mpz(2)], [mpz(-1)])):
        with pytest.raises(InvalidParameter):
            power_product(bases, exponents, ring(mpz(7)))
