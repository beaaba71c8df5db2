"""DGK keys: the zero test, the homomorphism, and everything that is no key or ciphertext."""

from __future__ import annotations

import pickle
from dataclasses import replace

import gmpy2
import pytest
from gmpy2 import mpz

from psephos.protocol.errors import CiphertextError, InvalidParameter, MessageError, WeakKeyError
from psephos.protocol.paillier.ciphertexts import check_ciphertexts, encode_ciphertexts, received_ciphertexts
from psephos.protocol.pathak.dgk import DgkPrivateKey, DgkPublicKey, generate_dgk_key


@pytest.fixture(scope="module")
def key() -> DgkPrivateKey:
    return generate_dgk_key(256, comparison_bits=8, test_key=True)


def test_zero_is_recognised(key: DgkPrivateKey) -> None:
    public = key.public_key
    for c, m in zip(public.encrypt(range(3 * public.u)), range(3 * public.u), strict=True):
        assert key.is_zero(c) == (m % public.u == 0)


def test_products_add_and_powers_multiply(key: DgkPrivateKey) -> None:
    public = key.public_key
    two, three = public.encrypt([2, 3])
    minus_five = gmpy2.invert(public.encrypt([5])[0], public.n)
    assert key.is_zero(two * three * minus_five % public.n)
    assert key.is_zero(gmpy2.powmod(two, 3, public.n) * minus_five * public.encrypt([public.u - 1])[0] % public.n)
    assert not key.is_zero(two * three % public.n)


def test_orders_are_those_of_the_paper(key: DgkPrivateKey) -> None:
    public, p, v_p = key.public_key, key._p, key._v_p
    q = public.n // p
    u = public.u
    assert (p - 1) % (2 * u * v_p) == 0
    assert (q - 1) % (2 * u) == 0
    assert (q - 1) % v_p != 0, "v_p and v_q must differ: a common v would divide n - 1"
    assert gmpy2.powmod(public.g, u * v_p, p) == 1
    assert gmpy2.powmod(public.g, u, p) != 1
    assert gmpy2.powmod(public.g, v_p, p) != 1
    assert gmpy2.powmod(public.h, v_p, p) == 1
    assert public.h % p != 1
    assert public.bits == 256
    assert v_p.bit_length() == public.subgroup_bits


def test_blinds_are_long_enough_and_fresh(key: DgkPrivateKey) -> None:
    public = key.public_key
    blinds = public.blinds(50)
    assert len(set(blinds)) == 50
    assert all(key.is_zero(b) for b in blinds)
    assert public.comb(100).shape.exponent_bits >= 5 * public.subgroup_bits // 2


def test_weak_keys_and_other_bytes_are_refused(key: DgkPrivateKey) -> None:
    data = key.public_key.encode()
    with pytest.raises(WeakKeyError):
        DgkPublicKey.decode(data)
    for broken in (data[:12], bytes(12) + data[12:], data[:-1], data + b"\0"):
        with pytest.raises(MessageError):
            DgkPublicKey.decode(broken, test_key=True)


def test_invalid_ciphertexts_are_refused(key: DgkPrivateKey) -> None:
    public = key.public_key
    good = public.encrypt([1])
    for bad in (mpz(0), public.n, public.n + 1, key._p):
        with pytest.raises(CiphertextError):
            check_ciphertexts(public, (*good, bad))
    with pytest.raises(CiphertextError):
        received_ciphertexts(public, encode_ciphertexts(public, good), 2)
    assert received_ciphertexts(public, encode_ciphertexts(public, good), 1) == good


def test_weak_or_impossible_sizes_are_refused() -> None:
    for bits in (1024, 2046):
        with pytest.raises(WeakKeyError):
            generate_dgk_key(bits)
    with pytest.raises(InvalidParameter):
        generate_dgk_key(64, test_key=True)
    with pytest.raises(InvalidParameter):
        generate_dgk_key(257, test_key=True)


def test_repr_of_a_private_key_shows_nothing(key: DgkPrivateKey) -> None:
    assert str(int(key._p)) not in repr(key)
    with pytest.raises(TypeError):
        pickle.dumps(key)
    other = generate_dgk_key(256, comparison_bits=8, test_key=True)
    with pytest.raises(InvalidParameter):
        DgkPrivateKey(key.public_key, int(other._p), int(other._v_p))


def test_invalid_public_keys_are_rejected(key: DgkPrivateKey) -> None:
    public, n, p = key.public_key, key.public_key.n, key._p
    for fits in ({"u": 11}, {"subgroup_bits": 16}, {"subgroup_bits": 127}, {"g": n - 1}, {"h": mpz(2)}):
        replace(public, **fits)
    units = [{name: mpz(bad)} for name in ("g", "h") for bad in (0, 1, n, p, 7 * p)]
    numbers = [*({"u": u} for u in (7, 10, 12, 15)), *({"subgroup_bits": t} for t in (15, 128, 200))]
    for wrong in (*units, *numbers):
        with pytest.raises(InvalidParameter):
            replace(public, **wrong)


def test_invalid_private_keys_are_rejected(key: DgkPrivateKey) -> None:
    """Each of the three conditions by itself."""
    public, p, v = key.public_key, int(key._p), int(key._v_p)
    q = int(public.n) // p
    for wrong in ((p + 2, v), (q, v), (p, v + 2), (p, public.u * v), (p, p - 1)):
        with pytest.raises(InvalidParameter):
            DgkPrivateKey(public, *wrong)
    assert DgkPrivateKey(public, p, v).is_zero(public.encrypt([0])[0])
