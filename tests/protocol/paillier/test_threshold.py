"""Shamir sharing over the integers and t-of-n decryption."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st

from psephos.protocol.errors import (
    CiphertextError,
    InvalidParameter,
    ThresholdError,
    WrongKeyError,
    WrongPartialDecryptionError,
)
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.paillier.sharing import STATISTICAL_BITS, deal_integer, integer_polynomial, lagrange_numerators
from psephos.protocol.paillier.threshold import KeyShare, ThresholdKey, check_same_ceremony, combine, deal
from psephos.protocol.randomness import SimulationRandomness


@st.composite
def sharings(draw: st.DrawFn) -> tuple[int, int, int, int]:
    holders = draw(st.integers(1, 15))
    threshold = draw(st.integers(1, holders))
    bound = draw(st.integers(1, 2**200))
    return holders, threshold, bound, draw(st.integers(0, bound - 1))


@given(st.data(), sharings())
def test_any_t_shares_give_the_secret(data: st.DataObject, sharing: tuple[int, int, int, int]) -> None:
    holders, threshold, bound, secret = sharing
    shares = deal_integer(secret, bound, holders=holders, threshold=threshold)
    size = data.draw(st.integers(threshold, holders))
    points = data.draw(st.permutations(range(1, holders + 1)))[:size]
    numerators = lagrange_numerators(points, holders)
    delta = math.factorial(holders)
    assert set(numerators) == set(points)
    assert sum(numerators[j] * shares[j - 1] for j in points) == delta * delta * secret


def test_every_coefficient_is_drawn_over_its_whole_range() -> None:
    """80 draws: the largest has all bits of 2^128 Delta^2 S, and none occurs twice."""
    source, width = SimulationRandomness(21), 2**STATISTICAL_BITS * math.factorial(4) ** 2 * 2**40
    drawn = [integer_polynomial(5, 2**40, holders=4, threshold=3, randomness=source) for _ in range(80)]
    assert {constant for constant, *_ in drawn} == {5 * math.factorial(4)}
    assert len({coefficient for _, *others in drawn for coefficient in others}) == 160
    for place in (1, 2):
        assert 0.9 * width < max(polynomial[place] for polynomial in drawn) < width


@pytest.mark.parametrize(("holders", "threshold"), [(3, 2), (5, 3), (7, 2), (6, 6)])
def test_a_share_modulo_small_numbers_does_not_depend_on_the_secret(holders: int, threshold: int) -> None:
    """With the same coins, f(j) mod d does not depend on s for any d dividing Delta: so for all d <= n."""
    delta = math.factorial(holders)
    for seed in range(20):
        dealings = [
            deal_integer(s, 2**64, holders=holders, threshold=threshold, randomness=SimulationRandomness(seed))
            for s in (0, 1, 2, 3, 59, 2**63 + 1)
        ]
        for j, d in product(range(holders), {*range(1, holders + 1), delta}):
            assert len({shares[j] % d for shares in dealings}) == 1


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_the_shares_of_a_key_hide_its_exponent_whatever_the_degree(private_key: PrivateKey, degree: int) -> None:
    """The coefficients of a dealt key are 128 bits longer than d can be, which is as long as n^(s+1)."""
    key = PrivateKey(*private_key.factors(), degree=degree)
    differences = []
    for _ in range(15):
        threshold_key, (first, second) = deal(key, holders=2, threshold=2)
        assert {first.exponent.bit_length(), second.exponent.bit_length()} <= set(
            range(threshold_key.exponent_bits + 1)
        )
        differences.append(second.share() - first.share())
    width = (4 * key.public_key.ciphertext_modulus) << STATISTICAL_BITS
    assert width >> 3 < max(differences) < width
    assert len(set(differences)) == len(differences)


@pytest.mark.parametrize("secret", [-10, 10, 11])
def test_a_secret_outside_its_bound_is_rejected_and_not_shown(secret: int) -> None:
    with pytest.raises(InvalidParameter) as caught:
        deal_integer(secret, 10, holders=2, threshold=2)
    assert str(secret) not in str(caught.value)
    assert deal_integer(-9, 10, holders=3, threshold=1) == [-54] * 3  # the secret of a key without a dealer may be
    for threshold in (0, 3):
        with pytest.raises(InvalidParameter):
            deal_integer(1, 10, holders=2, threshold=threshold)


# -- decryption


def encrypted(private_key: PrivateKey, plaintexts: list[int]) -> tuple[mpz, ...]:
    return Encryptor(private_key.public_key, "half", expected=8).encrypt([mpz(m) for m in plaintexts])


@pytest.mark.parametrize("holders", range(1, 7))
def test_every_subset_of_t_holders_decrypts_alike(private_key: PrivateKey, holders: int) -> None:
    n = private_key.public_key.n
    plaintexts = [0, 1, n - 1, n // 3]
    ciphertexts = encrypted(private_key, plaintexts)
    for threshold in range(1, holders + 1):
        threshold_key, shares = deal(private_key, holders=holders, threshold=threshold)
        parts = {share.holder: share.partially_decrypt(ciphertexts) for share in shares}
        for size in range(threshold, holders + 1):
            for chosen in combinations(parts, size):
                assert combine(threshold_key, {j: parts[j] for j in chosen}) == plaintexts
        for chosen in combinations(parts, threshold - 1):
            with pytest.raises(ThresholdError):
                combine(threshold_key, {j: parts[j] for j in chosen})


@pytest.mark.parametrize(("holders", "threshold"), [(2, 2), (3, 2), (5, 3), (5, 5)])
def test_fewer_than_t_holders_cannot_decrypt(private_key: PrivateKey, holders: int, threshold: int) -> None:
    """t - 1 partial decryptions with their own Lagrange coefficients do not combine: the value is not 1 modulo n."""
    threshold_key, shares = deal(private_key, holders=holders, threshold=threshold)
    ciphertexts = encrypted(private_key, [42])
    parts = {share.holder: share.partially_decrypt(ciphertexts) for share in shares}
    lowered = replace(threshold_key, threshold=threshold - 1)
    for chosen in combinations(parts, threshold - 1):
        with pytest.raises(WrongPartialDecryptionError):
            combine(lowered, {j: parts[j] for j in chosen})


@pytest.mark.parametrize("wrong", ["another value", "one", "another ciphertext", "another place"])
def test_a_wrong_partial_is_detected(private_key: PrivateKey, wrong: str) -> None:
    threshold_key, shares = deal(private_key, holders=3, threshold=2)
    ciphertexts = encrypted(private_key, [7, 8])
    nsquare = private_key.public_key.ciphertext_modulus
    parts = {share.holder: share.partially_decrypt(ciphertexts) for share in shares}
    right = parts[1]
    parts[1] = {
        "another value": (right[0] * 4 % nsquare, right[1]),
        "one": (mpz(1), right[1]),
        "another ciphertext": shares[0].partially_decrypt(encrypted(private_key, [7, 8])),
        "another place": (right[1], right[0]),
    }[wrong]
    for other in (2, 3):
        with pytest.raises(WrongPartialDecryptionError):
            combine(threshold_key, {1: parts[1], other: parts[other]})
    assert combine(threshold_key, {2: parts[2], 3: parts[3]}) == [7, 8]


def test_shares_of_two_key_setups_do_not_combine(private_key: PrivateKey, other_private_key: PrivateKey) -> None:
    first, shares = deal(private_key, holders=2, threshold=2)
    second, others = deal(private_key, holders=2, threshold=2)
    ciphertexts = encrypted(private_key, [7])
    parts = {1: shares[0].partially_decrypt(ciphertexts), 2: others[1].partially_decrypt(ciphertexts)}
    with pytest.raises(WrongPartialDecryptionError):
        combine(first, parts)
    assert first.digest != second.digest
    check_same_ceremony(first, copy.deepcopy(first))
    for other in (second, deal(other_private_key, holders=2, threshold=2)[0]):
        with pytest.raises(WrongKeyError):
            check_same_ceremony(first, other)


def test_only_units_are_partially_decrypted(private_key: PrivateKey) -> None:
    _, shares = deal(private_key, holders=2, threshold=2)
    n = private_key.public_key.n
    for bad in (0, n, n * n, n * n + 1, -1, private_key.factors()[1]):
        with pytest.raises(CiphertextError):
            shares[0].partially_decrypt([mpz(1), mpz(bad)])


def test_the_digest_of_a_threshold_key_covers_its_attributes(
    private_key: PrivateKey, other_private_key: PrivateKey
) -> None:
    key = private_key.public_key
    first = ThresholdKey(key, 5, 3, bytes(16), mpz(4), (mpz(1),) * 5)
    fits: list[dict[str, Any]] = [{"threshold": 2}, {"ceremony": bytes(15) + b"\1"}, {"verification_base": mpz(9)}]
    fits += [{"key": other_private_key.public_key}, {"holders": 6, "verification_values": (mpz(1),) * 6}]
    fits += [{"verification_values": (mpz(4), *(mpz(1),) * 4)}, {"theta": 2}]
    assert len({first.digest, *(replace(first, **changes).digest for changes in fits)}) == len(fits) + 1
    wrong: list[dict[str, Any]] = [{"threshold": 6}, {"threshold": 0}, {"ceremony": bytes(15)}, {"theta": 0}]
    wrong += [{"holders": n, "threshold": 1, "verification_values": (mpz(1),) * n} for n in (0, 256)]
    wrong += [{"verification_values": (mpz(1),) * 4}, {"theta": key.n}, {"theta": private_key.factors()[0]}]
    for changes in wrong:
        with pytest.raises(InvalidParameter):
            replace(first, **changes)
    for value in (mpz(0), key.modulus, key.ciphertext_modulus):
        with pytest.raises(CiphertextError):
            replace(first, verification_base=value)


@pytest.mark.parametrize("theta", [2, 3**40])
def test_theta_is_divided_out(private_key: PrivateKey, theta: int) -> None:
    """Shares of theta s decrypt like shares of s, as after a key setup without a dealer."""
    key = private_key.public_key
    exponent = private_key.decryption_exponent() * theta
    threshold_key = replace(deal(private_key, holders=5, threshold=3)[0], theta=theta)
    shares = deal_integer(exponent, key.nsquare << 64, holders=5, threshold=3)
    plaintexts = [0, 1, key.n - 1, 12345]
    ciphertexts = encrypted(private_key, plaintexts)
    parts = {j: KeyShare(threshold_key, j, f).partially_decrypt(ciphertexts) for j, f in enumerate(shares, 1)}
    for chosen in combinations(parts, 3):
        assert combine(threshold_key, {j: parts[j] for j in chosen}) == plaintexts
