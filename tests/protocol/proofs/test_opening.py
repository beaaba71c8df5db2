"""The proof of a partial decryption: a wrong value is detected without an additional holder."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import gmpy2
import pytest
from gmpy2 import mpz

from psephos.audit.rounds import short_key
from psephos.protocol.errors import ProofError
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.kernel import use
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.paillier.threshold import KeyShare, deal
from psephos.protocol.proofs import opening
from psephos.protocol.proofs.opening import OpeningProof, prove, verify

HERE = b"round 1, holder 2"


class Holder:
    """A key share, its verification value, and a partial decryption by it."""

    def __init__(self, private_key: PrivateKey) -> None:
        self.key, self.factor = private_key.public_key, private_key.factors()[0]
        self.threshold_key, shares = deal(private_key, holders=3, threshold=2)
        self.share: KeyShare = shares[1]
        self.exponent, self.exponent_bits = self.share.exponent, self.threshold_key.exponent_bits
        self.ciphertexts = Encryptor(self.key, expected=8).encrypt([mpz(m) for m in range(6)])
        self.opened = self.share.partially_decrypt(self.ciphertexts)

    def prove(self, opened: tuple[mpz, ...], statement: bytes = HERE) -> OpeningProof:
        return prove(statement, self.threshold_key, self.ciphertexts, opened, self.exponent)

    def verify(self, opened: tuple[mpz, ...], proof: OpeningProof, statement: bytes = HERE) -> None:
        verify(statement, self.threshold_key, 2, self.ciphertexts, opened, proof)


@pytest.fixture(scope="module", params=[1, 2, 3, 4], ids="degree {}".format)
def private_key(request: pytest.FixtureRequest) -> PrivateKey:
    return short_key(degree=request.param)


@pytest.fixture(scope="module")
def holder(private_key: PrivateKey) -> Holder:
    return Holder(private_key)


def test_an_honest_proof_holds_and_round_trips(holder: Holder) -> None:
    proof = holder.prove(holder.opened)
    data = proof.encode(holder.threshold_key)
    assert len(data) == OpeningProof.encoded_length(holder.threshold_key)
    assert OpeningProof.decode(data, holder.threshold_key) == proof
    holder.verify(holder.opened, proof)


def test_a_changed_value_is_detected(holder: Holder) -> None:
    """A count of 3 opened as 5, by changing the (1 + n) part of a value, with an honest or a recomputed proof."""
    n, modulus = holder.key.modulus, holder.key.ciphertext_modulus
    for by in (1 + 12345 * n, 1 + modulus // n):  # the second moves the plaintext by a multiple of n^(s-1)
        shaped = (holder.opened[0] * by % modulus, *holder.opened[1:])
        for proof in (holder.prove(holder.opened), holder.prove(shaped)):
            with pytest.raises(ProofError):
                holder.verify(shaped, proof)


def test_announcements_that_are_made_after_the_challenge_are_refused(holder: Holder) -> None:
    """Whoever knows the challenge first forges a proof of any opening from any answer."""
    modulus, key = holder.key.ciphertext_modulus, holder.threshold_key
    shaped = (holder.opened[0] * (1 + holder.key.modulus) % modulus, *holder.opened[1:])
    weighted, opened = opening._weighted(HERE, holder.key, holder.ciphertexts, shaped)
    e, z = opening._challenge(HERE, key, weighted, opened, mpz(1), mpz(1)), mpz(5)
    bases = gmpy2.powmod(key.verification_base, z, modulus), gmpy2.powmod(weighted, z, modulus)
    over = gmpy2.powmod(key.verification_values[1], e, modulus), gmpy2.powmod(opened, e, modulus)
    announced = (gmpy2.divm(top, bottom, modulus) for top, bottom in zip(bases, over, strict=True))
    with pytest.raises(ProofError):
        holder.verify(shaped, OpeningProof(*announced, z))


def test_changes_that_cancel_are_detected(holder: Holder) -> None:
    """Without weights, opposite changes of two values would cancel in the product."""
    n, modulus = holder.key.modulus, holder.key.ciphertext_modulus
    up, down = (1 + n) % modulus, (1 - n) % modulus
    shaped = (holder.opened[0] * up % modulus, holder.opened[1] * down % modulus, *holder.opened[2:])
    with pytest.raises(ProofError):
        holder.verify(shaped, holder.prove(shaped))


def test_another_statement_or_response_does_not_hold(holder: Holder, private_key: PrivateKey) -> None:
    proof = holder.prove(holder.opened)
    other = Holder(private_key)
    with pytest.raises(ProofError):
        holder.verify(holder.opened, proof, b"round 2, holder 2")
    for changed in (
        replace(proof, answer=proof.answer + 1),
        replace(proof, base=proof.product),
        replace(proof, product=proof.base),
        other.prove(other.opened),
    ):
        with pytest.raises(ProofError):
            holder.verify(holder.opened, changed)
    with use("gmpy2"), pytest.raises(ProofError):  # of a power whose exponent is 0 gmpy2 raises an error of its own
        holder.verify(holder.opened, replace(proof, answer=mpz(0)))
    for key, number in ((holder.threshold_key, 1), (other.threshold_key, 2)):
        with pytest.raises(ProofError):
            verify(HERE, key, number, holder.ciphertexts, holder.opened, proof)


def test_the_response_masks_the_share(holder: Holder) -> None:
    """z is masked by 80 bits more than e x has; a mask as short as x would reveal x."""
    longest = max(int(holder.prove(holder.opened).answer).bit_length() for _ in range(12))
    assert holder.exponent.bit_length() <= holder.exponent_bits
    assert holder.exponent_bits + 128 + 80 - 12 <= longest <= holder.exponent_bits + 128 + 80 + 1


def test_no_two_proofs_of_a_holder_have_related_masks(holder: Holder) -> None:
    """With one mask in two proofs, or with two masks that differ by little, anybody could compute the exponent."""
    masks, announcements = [], set()
    for number in range(12):  # the same statement twice each
        statement = b"round %d" % (number // 2)
        proof = holder.prove(holder.opened, statement)
        announcements |= {proof.base, proof.product}
        weighted, opened = opening._weighted(statement, holder.key, holder.ciphertexts, holder.opened)
        e = opening._challenge(statement, holder.threshold_key, weighted, opened, proof.base, proof.product)
        masks.append(proof.answer - e * holder.exponent)
    assert len(announcements) == 24
    least = mpz(1) << holder.exponent_bits + 128 + 80 - 44
    assert all(abs(one - other) > least for one, other in combinations(masks, 2))


def test_announcements_that_are_not_units_are_rejected(holder: Holder) -> None:
    data, size = holder.prove(holder.opened).encode(holder.threshold_key), holder.key.ciphertext_bytes
    factor = holder.factor.to_bytes(size, "little")
    for bad in (data[:-1], data + b"\0", bytes(size) + data[size:], data[:size] + factor + data[2 * size :]):
        with pytest.raises(ProofError):
            OpeningProof.decode(bad, holder.threshold_key)


def test_the_range_of_a_response_follows_from_the_exponent(holder: Holder) -> None:
    proof, refused = holder.prove(holder.opened), 0
    for bits in range(holder.exponent_bits, holder.exponent_bits + 8):
        key: Any = SimpleNamespace(key=holder.key, exponent_bits=bits)
        limit = mpz(1) << bits + 128 + 80 + 1
        last, beyond = replace(proof, answer=limit - 1), replace(proof, answer=limit)
        assert OpeningProof.decode(last.encode(key), key) == last
        try:
            encoded = beyond.encode(key)
        except OverflowError:
            continue
        refused += 1
        with pytest.raises(ProofError):
            OpeningProof.decode(encoded, key)
    assert refused == 7
