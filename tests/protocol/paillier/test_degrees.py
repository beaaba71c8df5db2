"""Keys of degree s: compared with phe at degree 1 and with Python's integers above."""

from __future__ import annotations

import copy
import math

import gmpy2
import phe
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.audit.rounds import short_key
from psephos.protocol.errors import InvalidParameter, UnsuitableKeyError, WrongKeyError
from psephos.protocol.paillier.encryption import Encryptor, RandomnessMode, fixed_base
from psephos.protocol.paillier.generator import generator_power, logarithm
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.paillier.threshold import combine, deal
from psephos.protocol.storage.values import decode, encode

DEGREES = (1, 2, 3, 4)
FACTORS = short_key(1, 512).factors()
KEYS = {s: PrivateKey(*FACTORS, degree=s) for s in DEGREES}  # test keys: their length does not matter here
degrees = st.sampled_from(DEGREES)
numbers = st.integers(min_value=0, max_value=1 << 2048)


def jurik(value: mpz, n: mpz, s: int) -> mpz:
    """The logarithm as Damgard and Jurik 2001, section 4.2, take it: modulo n, n^2, ..., each from the one before."""
    i = mpz(0)
    for j in range(1, s + 1):
        modulus = n**j
        t1, t2 = (value % n ** (j + 1) - 1) // n, i
        for k in range(2, j + 1):
            i -= 1
            t2 = t2 * i % modulus
            t1 = (t1 - t2 * n ** (k - 1) * gmpy2.invert(math.factorial(k), modulus)) % modulus
        i = t1
    return i


@settings(deadline=None, max_examples=25)
@given(degrees, numbers)
def test_powers_of_the_generator_are_pythons_and_their_logarithms_those_of_the_paper(s: int, number: int) -> None:
    key = KEYS[s].public_key
    n, m = key.n, number % key.plaintext_modulus
    power = generator_power(key, mpz(number))
    assert power == pow(1 + n, number, n ** (s + 1))
    unit = gmpy2.invert(logarithm(mpz(1 + n), key.modulus, s), key.plaintext_modulus)
    assert logarithm(power, key.modulus, s) * unit % key.plaintext_modulus == m == jurik(power, key.modulus, s)


@settings(deadline=None, max_examples=30)
@given(degrees, numbers, numbers, st.sampled_from(["full", "half", "short"]))
def test_sums_decrypt_with_the_key_and_by_its_holders(s: int, a: int, b: int, mode: RandomnessMode) -> None:
    private = KEYS[s]
    key, modulus = private.public_key, private.public_key.plaintext_modulus
    first, second = Encryptor(key, mode, expected=8).encrypt([a % modulus, b % modulus])
    total = first * second % key.ciphertext_modulus
    assert private.raw_decrypt(total) == (a + b) % modulus
    threshold_key, shares = deal(private, holders=4, threshold=3)
    parts = {h: shares[h - 1].partially_decrypt([total]) for h in (1, 2, 4)}
    assert combine(threshold_key, parts) == [(a + b) % modulus]


def test_a_ciphertext_is_that_of_the_paper() -> None:
    """(1 + n)^m u^(n^s) modulo n^(s+1), in Python's integers; phe opens it where s = 1."""
    for s, private in KEYS.items():
        key, n, modulus = private.public_key, private.public_key.n, private.public_key.n ** (s + 1)
        ciphertexts, witness = Encryptor(key, "full").encrypt_with_witness([mpz(12345), key.plaintext_modulus - 1])
        for c, m, u in zip(ciphertexts, witness.plaintexts, witness.roots, strict=True):
            assert c == pow(1 + n, int(m), modulus) * pow(int(u), n**s, modulus) % modulus
        (c,), witness = Encryptor(key, "half").encrypt_with_witness([mpz(7)])
        assert c == pow(1 + n, 7, modulus) * pow(int(fixed_base(key)), int(witness.roots[0]), modulus) % modulus


def test_functions_of_phe_raise_above_degree_one() -> None:
    for s in DEGREES[1:]:
        key = KEYS[s].public_key
        for use_of_phe in (
            lambda key=key: key.encrypt(1),
            lambda key=key: key.raw_encrypt(1),
            lambda key=key: phe.EncryptedNumber(key, 5) + phe.EncryptedNumber(key, 7),
            lambda key=key: phe.PaillierPrivateKey(key, *FACTORS),
        ):
            with pytest.raises(UnsuitableKeyError):
                use_of_phe()
        for name in ("g", "nsquare", "max_int"):
            with pytest.raises(UnsuitableKeyError):
                getattr(PublicKey(key.n, degree=s), name)
        assert key != phe.PaillierPublicKey(key.n)
        assert phe.PaillierPublicKey(key.n) != key
    assert KEYS[1].public_key == phe.PaillierPublicKey(KEYS[1].public_key.n)


def test_a_degree_is_part_of_a_key() -> None:
    keys = [KEYS[s].public_key for s in DEGREES]
    assert len(set(keys)) == len({key.identifier for key in keys}) == 4
    for key in keys:
        assert copy.copy(key) == key == decode(encode(key))  # as pickle does
        with pytest.raises(WrongKeyError):
            KEYS[key.degree % 4 + 1].check_owns(key)
    assert "degree" not in encode(keys[0]).decode("latin-1")  # what was written down before there were degrees
    for bad in (0, 5, -1):
        with pytest.raises(InvalidParameter):
            PublicKey(keys[0].n, degree=bad)


def test_a_plan_for_another_degree_is_rejected() -> None:
    plan = PackingPlan.for_key(KEYS[2].public_key, length=3, addends=4)
    assert plan.digest != PackingPlan.for_key(KEYS[1].public_key, length=3, addends=4).digest
    for s in (1, 3):
        with pytest.raises(WrongKeyError):
            plan.check_key(KEYS[s].public_key)
