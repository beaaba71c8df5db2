"""Keys: size, form, and rejected input."""

from __future__ import annotations

import math

import gmpy2
import phe
import pytest

from psephos.protocol.errors import CiphertextError, InvalidParameter, WeakKeyError
from psephos.protocol.paillier.keys import (
    DEFAULT_KEY_BITS,
    PublicKey,
    security_bits,
)
from psephos.protocol.paillier.private_key import PrivateKey, generate_private_key
from psephos.protocol.randomness import SimulationRandomness


@pytest.mark.parametrize("bits", [64, 66, 128, 254, 512, 514])
def test_a_key_has_the_requested_size(bits: int) -> None:
    for seed in range(5):
        key = generate_private_key(bits, test_key=True, randomness=SimulationRandomness(seed, bits))
        assert key.public_key.bits == bits
        assert key.public_key.n == math.prod(key.factors())
        p, q = key.factors()
        assert p.bit_length() == q.bit_length() == bits // 2


def check_form(key: PrivateKey, small_primes_below: int) -> None:
    p, q = key.factors()
    assert gmpy2.is_prime(p, 50)
    assert gmpy2.is_prime(q, 50)
    assert p != q
    assert p % 4 == q % 4 == 3
    assert math.gcd(p - 1, q - 1) == 2
    prime = 2
    while prime < small_primes_below:
        assert (p - 1) // 2 % prime
        assert (q - 1) // 2 % prime
        prime = int(gmpy2.next_prime(prime))
    assert abs(p - q).bit_length() > p.bit_length() - 10
    assert key.public_key.form == "psephos"


def test_test_keys_have_the_form_too() -> None:
    for seed in range(20):
        check_form(generate_private_key(256, test_key=True, randomness=SimulationRandomness(seed, "form")), 2**16)
    for seed in range(20):
        check_form(generate_private_key(64, test_key=True, randomness=SimulationRandomness(seed, "form")), 2**4)


def test_p_minus_1_and_q_minus_1_share_nothing_but_2() -> None:
    """Short primes share a factor above the sieve in one of 70 pairs, so 400 seeded keys test the gcd."""
    for seed in range(400):
        p, q = generate_private_key(64, test_key=True, randomness=SimulationRandomness(seed, "gcd")).factors()
        assert math.gcd(p - 1, q - 1) == 2
        assert abs(p - q).bit_length() > 32 - 10  # one pair in 256 has a difference of 22 bits


def test_the_default_is_3072_bits() -> None:
    assert DEFAULT_KEY_BITS == 3072
    assert [security_bits(b) for b in (15360, 7680, 3072, 3071, 2048, 512)] == [256, 192, 128, 112, 112, 80]


@pytest.mark.parametrize("bits", [64, 1024, 2046])
def test_a_small_key_needs_test_key(bits: int) -> None:
    with pytest.raises(WeakKeyError):
        generate_private_key(bits)


@pytest.mark.parametrize("bits", [2049, 63, 62, 0, -2, 16386])
def test_key_sizes_out_of_range_are_rejected(bits: int) -> None:
    with pytest.raises(InvalidParameter):
        generate_private_key(bits, test_key=True)


@pytest.mark.parametrize("n", [0, -15, 15, 2**63 - 1, 2**63, 2**64 - 2])
def test_an_invalid_modulus_is_rejected(n: int) -> None:
    with pytest.raises(InvalidParameter):
        PublicKey(n)


def test_invalid_factors_are_rejected(private_key: PrivateKey) -> None:
    p, q = private_key.factors()
    for left, right in [(p, p), (p, q + 2), (1, q), (0, q), (-p, q), (p * q, q), (2, q)]:
        with pytest.raises(InvalidParameter) as caught:
            PrivateKey(left, right)
        assert str(p) not in str(caught.value)
    # q = 1 mod p: n shares p with (p - 1)(q - 1), and decryption would be ambiguous.
    p = int(gmpy2.next_prime(2**40))
    q = next(k * p + 1 for k in range(2, 10**5, 2) if gmpy2.is_prime(k * p + 1))
    with pytest.raises(InvalidParameter):
        PrivateKey(p, q)


def test_only_units_are_decrypted(private_key: PrivateKey) -> None:
    p, q = private_key.factors()
    n = p * q
    for bad in (0, n, n * n, n * n + 1, -1, p, q * q, 5 * p, n * (n - 1)):
        with pytest.raises(CiphertextError):
            private_key.raw_decrypt(bad)


def test_the_identifier_tells_modulus_and_form_apart(private_key: PrivateKey, other_private_key: PrivateKey) -> None:
    ours, other = private_key.public_key, other_private_key.public_key
    foreign = PublicKey(ours.n)
    assert len({ours.identifier, other.identifier, foreign.identifier}) == 3
    assert ours == PublicKey(ours.n, form="psephos")
    assert ours != foreign
    assert ours != other
    assert ours != 5
    assert ours == phe.PaillierPublicKey(ours.n)
    assert ours != phe.PaillierPublicKey(other.n)
    assert PublicKey.from_phe(ours) is ours
    assert not hasattr(ours, "nothing")
    assert hash(ours) == hash(foreign)


PRIMES = [int(gmpy2.next_prime(2**1024 + k * 2**512)) for k in range(3)]


@pytest.mark.parametrize(
    "n",
    [
        int(gmpy2.next_prime(2**2048)),
        PRIMES[0] ** 2,
        PRIMES[0] ** 3,
        3**1300,
        PRIMES[0] * PRIMES[1] * 65521,
        PRIMES[0] * PRIMES[1] * 3,
    ],
)
def test_an_easily_factored_modulus_is_rejected(n: int) -> None:
    with pytest.raises(InvalidParameter):
        PublicKey.from_phe(phe.PaillierPublicKey(n))
