"""phe on the other side: it opens our ciphertexts, packed ones included, and we open its."""

from __future__ import annotations

import phe
import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st

from psephos.protocol.errors import UnsuitableKeyError
from psephos.protocol.paillier.encryption import RANDOMNESS_MODES, Encryptor, RandomnessMode
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.paillier.threshold import combine, deal
from psephos.protocol.paillier.vectors import EncryptedVector

plaintexts = st.one_of(st.integers(0, 2**511 - 1), st.integers(0, 1000), st.integers(2**510, 2**511 - 1))
fast_and_full = st.sampled_from(RANDOMNESS_MODES)


@pytest.fixture(scope="module")
def phe_private_key(private_key: PrivateKey) -> phe.PaillierPrivateKey:
    """Our key in phe's hands, with nothing of ours in it."""
    p, q = private_key.factors()
    return phe.PaillierPrivateKey(phe.PaillierPublicKey(p * q), p, q)


@pytest.fixture(scope="module")
def foreign(private_key: PrivateKey) -> tuple[phe.PaillierPublicKey, phe.PaillierPrivateKey]:
    """A key that phe made, of no particular form."""
    pair: tuple[phe.PaillierPublicKey, phe.PaillierPrivateKey] = phe.generate_paillier_keypair(n_length=512)
    return pair


@given(plaintexts, fast_and_full)
def test_phe_decrypts_our_ciphertexts(
    private_key: PrivateKey, phe_private_key: phe.PaillierPrivateKey, plaintext: int, mode: RandomnessMode
) -> None:
    (ciphertext,) = Encryptor(private_key.public_key, mode, expected=8).encrypt([mpz(plaintext)])
    assert phe_private_key.raw_decrypt(int(ciphertext)) == plaintext


@given(plaintexts)
def test_we_decrypt_ciphertexts_of_phe(
    private_key: PrivateKey, phe_private_key: phe.PaillierPrivateKey, plaintext: int
) -> None:
    assert private_key.raw_decrypt(phe_private_key.public_key.raw_encrypt(plaintext)) == plaintext
    # phe with our key object, which is one of its own kind
    assert private_key.raw_decrypt(private_key.public_key.raw_encrypt(plaintext)) == plaintext


@given(st.data(), fast_and_full)
def test_phe_decrypts_packed_vectors(
    private_key: PrivateKey, phe_private_key: phe.PaillierPrivateKey, data: st.DataObject, mode: RandomnessMode
) -> None:
    plan = PackingPlan(data.draw(st.integers(1, 60)), 3, -(2**30), 2**31, 512)
    row = st.lists(st.integers(plan.minimum, plan.maximum), min_size=plan.length, max_size=plan.length)
    rows = data.draw(st.lists(row, min_size=1, max_size=3))
    encryptor = Encryptor(private_key.public_key, mode, expected=8)
    total, *others = (EncryptedVector.encrypt(encryptor, plan, values) for values in rows)
    for other in others:
        total = total + other
    opened = [phe_private_key.raw_decrypt(int(c)) for c in total.ciphertexts]
    assert plan.unpack(opened, len(rows)) == [sum(column) for column in zip(*rows, strict=True)]


@given(st.floats(-1e100, 1e100), st.integers(-(2**100), 2**100))
def test_encrypted_numbers_of_phe_under_our_keys(private_key: PrivateKey, real: float, integer: int) -> None:
    """A phe user takes our key as it is: floats, sums and products work and phe opens them with our private key."""
    theirs = phe.PaillierPrivateKey(private_key.public_key, *private_key.factors())
    assert theirs.decrypt(private_key.public_key.encrypt(real)) == real
    assert theirs.decrypt(private_key.public_key.encrypt(integer) + 5) == integer + 5
    assert theirs.decrypt(private_key.public_key.encrypt(integer) * -3) == integer * -3


def test_foreign_keys_convert_in_both_directions_and_are_shared(
    foreign: tuple[phe.PaillierPublicKey, phe.PaillierPrivateKey],
) -> None:
    public, private = foreign
    ours, ours_private = PublicKey.from_phe(public), PrivateKey(private.p, private.q)
    for plaintext in (0, 1, 2**400, public.n - 1):
        (ciphertext,) = Encryptor(ours, "full").encrypt([mpz(plaintext)])
        assert private.raw_decrypt(int(ciphertext)) == plaintext
        assert ours_private.raw_decrypt(public.raw_encrypt(plaintext)) == plaintext
    for mode in ("half", "short"):
        with pytest.raises(UnsuitableKeyError):
            Encryptor(ours, mode)
    # sharing over the integers needs no safe primes, nor any form at all
    threshold_key, shares = deal(ours_private, holders=4, threshold=3)
    ciphertext = mpz(public.raw_encrypt(2**300 + 7))
    assert combine(threshold_key, {s.holder: s.partially_decrypt([ciphertext]) for s in shares[:3]}) == [2**300 + 7]


def test_agreement_with_phe_at_real_key_sizes(real_private_key: PrivateKey) -> None:
    key = real_private_key.public_key
    theirs = phe.PaillierPrivateKey(key, *real_private_key.factors())
    for mode in RANDOMNESS_MODES:
        ciphertext = Encryptor(key, mode, expected=2).encrypt([mpz(2**2046 + 3)])[0]
        assert theirs.raw_decrypt(int(ciphertext)) == 2**2046 + 3
    assert real_private_key.raw_decrypt(theirs.public_key.raw_encrypt(2**2046 + 3)) == 2**2046 + 3
    assert theirs.decrypt(key.encrypt(-1234.5)) == -1234.5
