"""Encryption in the three randomness modes, and the pool of residues."""

from __future__ import annotations

import gmpy2
import pytest
from gmpy2 import mpz

from psephos.protocol.errors import (
    PackingError,
    UnsuitableKeyError,
)
from psephos.protocol.paillier.encryption import (
    RANDOMNESS_MODES,
    Encryptor,
    RandomnessMode,
    check_mode,
    exponent_bits,
    fixed_base,
)
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.private_key import PrivateKey

modes = pytest.mark.parametrize("mode", RANDOMNESS_MODES)


@modes
def test_a_plaintext_out_of_range_is_rejected(private_key: PrivateKey, mode: RandomnessMode) -> None:
    encryptor = Encryptor(private_key.public_key, mode)
    n = private_key.public_key.n
    bads: list[object] = [mpz(-1), n, n + 1, n * n, 1.5, 2.0, "1", None]
    for bad in bads:
        with pytest.raises(PackingError):
            encryptor.encrypt([mpz(0), bad])  # type: ignore[list-item]
    assert encryptor.encrypt([]) == ()


def test_exponents_are_fresh_and_as_long_as_the_mode_demands(private_key: PrivateKey) -> None:
    """Half of n, or twice its security level (docs/design.md, section 3); every bit is drawn, and used."""
    keys = [PublicKey((1 << bits) - 1, form="psephos") for bits in (2048, 3072, 4096, 7680)]
    assert [exponent_bits(key, "half") for key in keys] == [1024, 1536, 2048, 3840]
    assert [exponent_bits(key, "short") for key in keys] == [224, 256, 256, 384]
    key = private_key.public_key
    for mode in ("half", "short"):
        ciphertexts, witness = Encryptor(key, mode).encrypt_with_witness([mpz(0)] * 80)
        assert len(set(witness.roots)) == 80
        assert max(witness.roots) >> (exponent_bits(key, mode) - 1)
        for ciphertext, exponent in zip(ciphertexts, witness.roots, strict=True):
            assert ciphertext == gmpy2.powmod(fixed_base(key), exponent, key.ciphertext_modulus)


def test_the_fixed_base(private_key: PrivateKey) -> None:
    """h_s = h^n, h = -x^2: an n-th residue, h of Jacobi symbol 1 and no square, so it generates everything it can."""
    p, q = private_key.factors()
    n = p * q
    base = int(fixed_base(private_key.public_key))
    assert private_key.raw_decrypt(base) == 0
    assert gmpy2.jacobi(base, n) == 1
    assert gmpy2.legendre(base, p) == gmpy2.legendre(base, q) == -1
    assert pow(base, (p - 1) * (q - 1) // 2, n * n) == 1


def test_jacobi_symbols_tell_fast_modes_from_full(private_key: PrivateKey) -> None:
    """Why shuffles and foreign ciphertexts need `full`: fast residues all have symbol 1, full ones half the time."""
    key = private_key.public_key
    for mode in ("half", "short"):
        assert {int(gmpy2.jacobi(c.value, key.n)) for c in Encryptor(key, mode).randomizers(64)} == {1}
    assert {int(gmpy2.jacobi(c.value, key.n)) for c in Encryptor(key, "full").randomizers(64)} == {1, -1}


@pytest.mark.parametrize("mode", ["half", "short"])
def test_half_and_short_reject_foreign_keys(private_key: PrivateKey, mode: RandomnessMode) -> None:
    foreign = PublicKey(private_key.public_key.n)
    with pytest.raises(UnsuitableKeyError):
        Encryptor(foreign, mode)
    with pytest.raises(UnsuitableKeyError):
        check_mode(foreign, mode)
    (ciphertext,) = Encryptor(foreign, "full").encrypt([mpz(9)])
    assert private_key.raw_decrypt(ciphertext) == 9


def test_rerandomizing_keeps_only_the_plaintext(private_key: PrivateKey) -> None:
    encryptor = Encryptor(private_key.public_key, "full")
    before = encryptor.encrypt([mpz(m) for m in range(20)])
    after = encryptor.rerandomize(before)
    assert [private_key.raw_decrypt(c) for c in after] == list(range(20))
    assert not set(before) & set(after)


@pytest.mark.parametrize("mode", ["half", "short"])
def test_half_and_short_cannot_rerandomize(private_key: PrivateKey, mode: RandomnessMode) -> None:
    encryptor = Encryptor(private_key.public_key, mode)
    with pytest.raises(UnsuitableKeyError):
        encryptor.rerandomize(encryptor.encrypt([mpz(1)]))
