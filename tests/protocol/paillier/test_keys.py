"""Keys: size, form, and rejected input."""

from __future__ import annotations

import copy
import inspect
import math
import pickle

import gmpy2
import phe
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.protocol.errors import CiphertextError, InvalidParameter, WeakKeyError, WrongKeyError
from psephos.protocol.paillier.kernel import Ring
from psephos.protocol.paillier.keys import (
    DEFAULT_KEY_BITS,
    PublicKey,
    check_key_bits,
    check_key_size,
    check_modulus,
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


def test_a_real_key_has_the_form_that_fast_randomness_needs(real_private_key: PrivateKey) -> None:
    assert real_private_key.public_key.bits == 2048
    check_form(real_private_key, 2**16)


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
    assert generate_private_key.__kwdefaults__["test_key"] is False
    assert generate_private_key.__defaults__ == (3072,)
    assert [security_bits(b) for b in (15360, 7680, 3072, 3071, 2048, 512)] == [256, 192, 128, 112, 112, 80]


@pytest.mark.parametrize("bits", [64, 1024, 2046])
def test_a_small_key_needs_test_key(bits: int) -> None:
    with pytest.raises(WeakKeyError):
        generate_private_key(bits)


@pytest.mark.parametrize("bits", [2049, 63, 62, 0, -2, 16386])
def test_key_sizes_out_of_range_are_rejected(bits: int) -> None:
    with pytest.raises(InvalidParameter):
        generate_private_key(bits, test_key=True)


def test_the_smallest_and_the_largest_key() -> None:
    check_key_bits(64, test_key=True)
    check_key_bits(2048)
    check_key_bits(16384)
    assert PublicKey(2**63 + 1).bits == 64


def test_check_key_size(private_key: PrivateKey, real_private_key: PrivateKey) -> None:
    check_key_size(real_private_key.public_key)
    check_key_size(private_key.public_key, test_key=True)
    with pytest.raises(WeakKeyError):
        check_key_size(private_key.public_key)


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


def test_keys_of_another_form_are_foreign() -> None:
    for seed in range(3):
        phe_public, phe_private = phe.generate_paillier_keypair(n_length=256)
        ours = PrivateKey.from_phe(phe_private)
        p, q = ours.factors()
        assert ours.public_key.n == phe_public.n
        if p % 4 == 1 or q % 4 == 1:
            assert ours.public_key.form == "foreign", seed
        assert PublicKey.from_phe(phe_public).form == "foreign"
    p, q = (int(gmpy2.next_prime(start)) for start in (2**64, 3 * 2**63))
    while p % 4 == 3:
        p = int(gmpy2.next_prime(p))
    assert PrivateKey(p, q).public_key.form == "foreign"


@given(value=st.integers(0), r=st.integers(1))
def test_decryption_inverts_textbook_paillier(private_key: PrivateKey, value: int, r: int) -> None:
    n = private_key.public_key.n
    if math.gcd(r, n) != 1 or r % n == 0:
        return
    ciphertext = (1 + value * n) * pow(r, n, n * n) % (n * n)
    assert private_key.raw_decrypt(ciphertext) == value % n


def test_the_decryption_exponent(private_key: PrivateKey) -> None:
    p, q = private_key.factors()
    n, lam = p * q, math.lcm(p - 1, q - 1)
    s = private_key.decryption_exponent()
    assert s % lam == 0
    assert s % n == 1
    assert 0 < s < n * lam


def test_only_units_are_decrypted(private_key: PrivateKey) -> None:
    p, q = private_key.factors()
    n = p * q
    for bad in (0, n, n * n, n * n + 1, -1, p, q * q, 5 * p, n * (n - 1)):
        with pytest.raises(CiphertextError):
            private_key.raw_decrypt(bad)


def test_a_private_key_knows_its_modulus(private_key: PrivateKey, other_private_key: PrivateKey) -> None:
    private_key.check_owns(PublicKey(private_key.public_key.n))
    with pytest.raises(WrongKeyError):
        private_key.check_owns(other_private_key.public_key)


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
    assert repr(ours) == f"<PublicKey 512 bits, psephos, {ours.identifier.hex()[:12]}>"
    second = PublicKey(ours.n, degree=2)
    assert repr(second) == f"<PublicKey 512 bits, degree 2, foreign, {second.identifier.hex()[:12]}>"
    assert PublicKey.from_phe(ours) is ours
    assert not hasattr(ours, "nothing")
    assert hash(ours) == hash(foreign)


def test_a_public_key_can_be_pickled_and_copied(private_key: PrivateKey) -> None:
    key = private_key.public_key
    for again in (pickle.loads(pickle.dumps(key)), copy.deepcopy(key)):  # noqa: S301
        assert again == key
        assert again.identifier == key.identifier
        assert again.form == "psephos"


def test_key_generation_can_be_replayed() -> None:
    twice = [generate_private_key(128, test_key=True, randomness=SimulationRandomness(5)).factors() for _ in range(2)]
    assert twice[0] == twice[1]
    assert generate_private_key(128, test_key=True).factors() != twice[0]


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


def test_a_modulus_of_two_large_primes_is_accepted() -> None:
    assert PublicKey.from_phe(phe.PaillierPublicKey(PRIMES[0] * PRIMES[2])).form == "foreign"
    check_modulus(PRIMES[0] * 65537)  # the smallest prime that is not looked for


def test_decryption_uses_constant_time_powers() -> None:
    """`powmod` branches on the bits of its exponent, and p - 1 is one."""
    source = inspect.getsource(inspect.getmodule(PrivateKey)) + inspect.getsource(Ring.power)  # type: ignore[arg-type]
    assert "powmod_sec(" in source
    assert "powmod(" not in source
