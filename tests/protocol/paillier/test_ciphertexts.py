"""Checks of several ciphertexts name the first invalid one by its place."""

from __future__ import annotations

import pytest
from gmpy2 import mpz

from psephos.audit.rounds import short_key
from psephos.protocol.errors import CiphertextError
from psephos.protocol.paillier.ciphertexts import (
    check_ciphertexts,
    decode_ciphertexts,
    encode_ciphertexts,
    product_is_unit,
)
from psephos.protocol.paillier.private_key import PrivateKey


@pytest.mark.parametrize("degree", [1, 2])
def test_the_first_invalid_ciphertext_is_named(degree: int) -> None:
    private_key = short_key(degree=degree)
    key, p = private_key.public_key, private_key.factors()[0]
    good = [mpz(1), key.ciphertext_modulus - 1, mpz(2)]
    check_ciphertexts(key, good)
    check_ciphertexts(key, ())
    for bad in (0, -1, key.ciphertext_modulus, p, key.n, key.ciphertext_modulus - p):
        for place in range(4):
            with pytest.raises(CiphertextError):
                check_ciphertexts(key, [*good[:place], mpz(bad), *good[place:], mpz(bad)])


def test_encoded_ciphertexts_are_in_range(private_key: PrivateKey) -> None:
    key = private_key.public_key
    ends = (mpz(1), key.ciphertext_modulus - 1)
    assert decode_ciphertexts(key, encode_ciphertexts(key, ends), 2) == ends
    for bad in (mpz(0), key.ciphertext_modulus):
        with pytest.raises(CiphertextError):
            decode_ciphertexts(key, encode_ciphertexts(key, (mpz(1), bad)), 2)


def test_one_non_unit_among_many_is_found(private_key: PrivateKey) -> None:
    key, (p, q) = private_key.public_key, private_key.factors()
    assert product_is_unit(key, [])
    assert product_is_unit(key, [mpz(2)] * 9)
    for bad in (p, q, 0):
        for place in (0, 4, 8):
            assert not product_is_unit(key, [*[mpz(2)] * place, mpz(bad), *[mpz(2)] * (8 - place)])
