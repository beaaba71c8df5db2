"""The proof of a partial decryption: a wrong one is named by its own proof, with t answers and not t + 1."""

from __future__ import annotations

from dataclasses import replace

import gmpy2
import pytest
from gmpy2 import mpz

from psephos.protocol.errors import ProofError
from psephos.protocol.paillier.encryption import Encryptor, random_unit
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.paillier.threshold import KeyShare, deal
from psephos.protocol.proofs.opening import OpeningProof, prove, verify

BITS = 2400
HERE = b"round 1, holder 2"


class Holder:
    """A share, its verification value, and what it opened."""

    def __init__(self, private_key: PrivateKey) -> None:
        self.key = private_key.public_key
        threshold_key, shares = deal(private_key, holders=3, threshold=2)
        self.share: KeyShare = shares[1]
        self.exponent = mpz(2 * threshold_key.delta * self.share.share())
        assert self.exponent.bit_length() <= BITS
        self.base = random_unit(self.key) ** 2 % self.key.modulus_squared
        self.value = gmpy2.powmod(self.base, self.exponent, self.key.modulus_squared)
        self.ciphertexts = Encryptor(self.key, expected=8).encrypt([mpz(m) for m in range(6)])
        self.opened = self.share.partially_decrypt(self.ciphertexts)

    def prove(self, opened: tuple[mpz, ...], statement: bytes = HERE) -> OpeningProof:
        return prove(statement, self.key, self.base, self.ciphertexts, opened, self.exponent, BITS)

    def verify(self, opened: tuple[mpz, ...], proof: OpeningProof, statement: bytes = HERE) -> None:
        verify(statement, self.key, self.base, self.value, self.ciphertexts, opened, BITS, proof)


@pytest.fixture(scope="module")
def holder(private_key: PrivateKey) -> Holder:
    return Holder(private_key)


def test_an_honest_proof_holds_and_travels(holder: Holder) -> None:
    proof = holder.prove(holder.opened)
    assert OpeningProof.decode(proof.encode(holder.key, BITS), holder.key, BITS) == proof
    holder.verify(holder.opened, proof)


def test_a_shaped_value_is_found(holder: Holder) -> None:
    """A count of 3 opened as 5: the (1 + n) part of one value moved, with the honest proof and with one of its own."""
    n, modulus = holder.key.modulus, holder.key.modulus_squared
    shaped = (holder.opened[0] * (1 + 12345 * n) % modulus, *holder.opened[1:])
    for proof in (holder.prove(holder.opened), holder.prove(shaped)):
        with pytest.raises(ProofError, match="not the holder's share"):
            holder.verify(shaped, proof)


def test_shapes_that_cancel_are_found(holder: Holder) -> None:
    """Without weights, a value moved up and another moved down would leave the product as it was."""
    n, modulus = holder.key.modulus, holder.key.modulus_squared
    up, down = (1 + n) % modulus, (1 - n) % modulus
    shaped = (holder.opened[0] * up % modulus, holder.opened[1] * down % modulus, *holder.opened[2:])
    with pytest.raises(ProofError):
        holder.verify(shaped, holder.prove(shaped))


def test_another_place_or_another_answer(holder: Holder, private_key: PrivateKey) -> None:
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
    with pytest.raises(ProofError):
        verify(HERE, holder.key, holder.base, other.value, holder.ciphertexts, holder.opened, BITS, proof)


def test_answers_hide_the_share(holder: Holder) -> None:
    """z is masked by 80 bits more than e x has; a mask as short as x would show x in the answer's length."""
    longest = max(int(holder.prove(holder.opened).answer).bit_length() for _ in range(12))
    assert BITS + 128 + 80 - 12 <= longest <= BITS + 128 + 80 + 1


def test_bytes_that_are_no_proof(holder: Holder) -> None:
    key = holder.key
    data = holder.prove(holder.opened).encode(key, BITS)
    size = key.ciphertext_bytes
    for bad in (b"", data[:-1], data + b"\0", bytes(size) + data[size:], data[:-1] + b"\xff", b"\xff" * len(data)):
        with pytest.raises(ProofError):
            OpeningProof.decode(bad, key, BITS)
