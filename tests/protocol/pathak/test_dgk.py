"""DGK keys: the zero test, the homomorphism, and everything that is no key or ciphertext."""

from __future__ import annotations

import pickle
from typing import Any

import gmpy2
import pytest
from gmpy2 import mpz

from psephos.protocol.errors import CiphertextError, InvalidParameter, MessageError, PsephosError, WeakKeyError
from psephos.protocol.pathak.dgk import DgkPrivateKey, DgkPublicKey, _check_size, generate_dgk_key, plaintext_modulus
from psephos.protocol.randomness import SimulationRandomness


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
    from psephos.protocol.pathak.dgk import _shape

    assert _shape(public, 100).exponent_bits >= 5 * public.subgroup_bits // 2


def test_keys_round_trip_and_other_bytes_are_refused(key: DgkPrivateKey) -> None:
    data = key.public_key.encode()
    assert DgkPublicKey.decode(data, test_key=True) == key.public_key
    with pytest.raises(WeakKeyError):
        DgkPublicKey.decode(data)
    for broken in (b"", data[:-1], data + b"\0", b"x" + data[1:], data[:14] + bytes(len(data) - 14)):
        with pytest.raises((MessageError, InvalidParameter)):
            DgkPublicKey.decode(broken, test_key=True)
    magic = data[:12]
    for broken in (magic, bytes(12) + data[12:], b"x" + magic[1:] + bytes(8), data[:-1], data + b"\0"):
        with pytest.raises(MessageError):  # by its first bytes and its length, no number
            DgkPublicKey.decode(broken, test_key=True)
    for place in range(len(data)):
        try:
            decoded = DgkPublicKey.decode(data[:place] + bytes([data[place] ^ 128]) + data[place + 1 :], test_key=True)
        except PsephosError:
            continue
        assert decoded != key.public_key


def test_invalid_ciphertexts_are_refused(key: DgkPrivateKey) -> None:
    public = key.public_key
    good = public.encrypt([1])
    for bad in (mpz(0), public.n, public.n + 1, key._p):
        with pytest.raises(CiphertextError):
            public.check((*good, bad))
    with pytest.raises(CiphertextError):
        public.decode_ciphertexts(public.encode_ciphertexts(good), 2)
    assert public.decode_ciphertexts(public.encode_ciphertexts(good), 1) == good


def test_room_for_comparisons(key: DgkPrivateKey) -> None:
    for bits in (1, 3, 8, 64, 96):
        u = plaintext_modulus(bits)
        assert u > 3 * bits + 2
        assert gmpy2.is_prime(u)
    assert key.public_key.largest_comparison >= 8


def test_weak_or_impossible_sizes_are_refused() -> None:
    _check_size(2048, False)
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


@pytest.mark.parametrize(
    "change",
    [
        *({name: value} for name in ("g", "h") for value in (0, 1, "n", "p", "p times 7")),
        *({"u": u} for u in (7, 10, 12, 15)),
        *({"subgroup_bits": t} for t in (15, 128, 200)),
    ],
    ids=str,
)
def test_invalid_public_keys_are_rejected(key: DgkPrivateKey, change: dict[str, Any]) -> None:
    public, named = key.public_key, {"n": int(key.public_key.n), "p": int(key._p), "p times 7": 7 * int(key._p)}
    numbers = {"g": int(public.g), "h": int(public.h), "u": public.u, "subgroup_bits": public.subgroup_bits}
    assert DgkPublicKey(int(public.n), **numbers) == public
    for fits in ({"u": 11}, {"subgroup_bits": 16}, {"subgroup_bits": 127}, {"g": int(public.n) - 1}, {"h": 2}):
        DgkPublicKey(int(public.n), **{**numbers, **fits})
    with pytest.raises(InvalidParameter):
        DgkPublicKey(int(public.n), **{**numbers, **{name: named.get(value, value) for name, value in change.items()}})


def test_invalid_private_keys_are_rejected(key: DgkPrivateKey) -> None:
    """Each of the three conditions by itself."""
    public, p, v = key.public_key, int(key._p), int(key._v_p)
    q = int(public.n) // p
    for wrong in ((p + 2, v), (q, v), (p, v + 2), (p, public.u * v), (p, p - 1)):
        with pytest.raises(InvalidParameter):
            DgkPrivateKey(public, *wrong)
    assert DgkPrivateKey(public, p, v).is_zero(public.encrypt([0])[0])


@pytest.mark.parametrize(("bits", "comparison_bits"), [(130, 2), (130, 2**31), (160, 8), (192, 64)])
def test_the_smallest_keys_have_their_parts(bits: int, comparison_bits: int) -> None:
    for seed in range(4):
        coins = SimulationRandomness(seed, "dgk")
        made = generate_dgk_key(bits, comparison_bits=comparison_bits, test_key=True, randomness=coins)
        public, p, v_p = made.public_key, made._p, made._v_p
        q, u = public.n // p, public.u
        assert (public.bits, public.subgroup_bits, u) == (bits, bits // 8, plaintext_modulus(comparison_bits))
        assert p.bit_length() == q.bit_length() == bits // 2
        assert p >> bits // 2 - 2 == q >> bits // 2 - 2 == 3
        assert v_p.bit_length() == bits // 8
        assert gmpy2.is_prime(v_p)
        for prime in (p, q):  # g and h of full order modulo both
            v = v_p if prime == p else (prime - 1) // (2 * u)
            assert gmpy2.powmod(public.g, (prime - 1) // u, prime) != 1 or prime == q
            assert gmpy2.powmod(public.h, v, prime) == 1
            assert gmpy2.powmod(public.g, u, prime) != 1
            assert public.h % prime != 1


@pytest.mark.parametrize(("bits", "comparison_bits"), [(126, 2), (120, 2), (130, 2**32), (161, 8), (2049, 8)])
def test_sizes_without_room_are_refused(bits: int, comparison_bits: int) -> None:
    with pytest.raises(InvalidParameter):
        generate_dgk_key(bits, comparison_bits=comparison_bits, test_key=True)


def test_ciphertexts_and_keys_of_the_right_length(key: DgkPrivateKey) -> None:
    public = key.public_key
    public.check((mpz(1), public.n - 1))
    public.check(())
    data = public.encode()
    head, size = data[:12], public.ciphertext_bytes
    assert data[12:14] == size.to_bytes(2, "big")
    longer = [number.to_bytes(size + 1, "big") for number in (public.n, public.g, public.h)]
    with pytest.raises(MessageError):
        DgkPublicKey.decode(head + (size + 1).to_bytes(2, "big") + data[14:20] + b"".join(longer), test_key=True)
    with pytest.raises(MessageError):
        DgkPublicKey.decode(head + (2049).to_bytes(2, "big") + data[14:20] + bytes(3 * 2049), test_key=True)
    assert len({public.identifier, generate_dgk_key(192, comparison_bits=8, test_key=True).public_key.identifier}) == 2
    assert public != object()
    assert repr(public) == f"<DgkPublicKey 256 bits, u = {public.u}, {public.identifier.hex()[:12]}>"
    assert repr(key) == f"<DgkPrivateKey of {public!r}>"
    assert hash(DgkPublicKey.decode(public.encode(), test_key=True)) == hash(public)


def test_a_modulus_has_64_bits_at_least() -> None:
    """For tests; keys that protect something are checked where they are made."""
    u = plaintext_modulus(8)
    assert DgkPublicKey(2**63 + 1, 2, 4, u, 20).n == 2**63 + 1
    for n in (2**63 - 1, 2**63):
        with pytest.raises(InvalidParameter):
            DgkPublicKey(n, 2, 4, u, 20)
