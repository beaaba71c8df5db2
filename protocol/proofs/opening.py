"""Proof that a partial decryption is right, for all ciphertexts of a product (Chaum and Pedersen 1992, Shoup 2000).

Statement: d_l = c_l^x for every l, with the same x as in the holder's verification value v_j = v^x modulo n^(s+1)
(docs/security/proofs.md, theorem 2). No safe primes are needed.

    weights     rho_1 .. rho_L = H(statement, c, d), 128 bits;   C = prod c_l^rho_l,  D = prod d_l^rho_l
    announce    a = v^r,  b = C^r,    r 80 bits longer than what it hides
    challenge   e = H(statement, v, C, D, a, b)
    respond     z = r + e x over the integers
    check       v^z = a v_j^e  and  C^z = b D^e, both up to the sign
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gmpy2 import mpz

from psephos.protocol.errors import ProofError
from psephos.protocol.paillier.comb import best_shape, shared_comb
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.powers import power_product
from psephos.protocol.paillier.threshold import ThresholdKey
from psephos.protocol.proofs.challenge import CHALLENGE_BITS, HIDING_BITS, challenges, check_announcements, read_numbers
from psephos.protocol.randomness import SYSTEM, Randomness

_LABEL = "psephos partial decryption"


@dataclass(frozen=True)
class OpeningProof:
    """A proof of a partial decryption: a and b, units modulo n^(s+1), and z, as long as the bound of x allows."""

    base: mpz = field(repr=False)
    product: mpz = field(repr=False)
    answer: mpz = field(repr=False)

    @staticmethod
    def encoded_length(key: ThresholdKey) -> int:
        return sum(_sizes(key))

    def encode(self, key: ThresholdKey) -> bytes:
        numbers = zip((self.base, self.product, self.answer), _sizes(key), strict=True)
        return b"".join(number.to_bytes(size, "little") for number, size in numbers)

    @classmethod
    def decode(cls, data: bytes, key: ThresholdKey) -> OpeningProof:
        base, product, answer = read_numbers(data, _sizes(key))
        check_announcements(key.key, base, product)
        if answer >> _answer_bits(key):
            raise ProofError("the answer in a proof of a partial decryption lies outside its range")
        return cls(base, product, answer)


def prove(
    statement: bytes,
    key: ThresholdKey,
    ciphertexts: Sequence[mpz],
    values: Sequence[mpz],
    exponent: mpz,
    *,
    randomness: Randomness = SYSTEM,
) -> OpeningProof:
    """Prove that values_l = ciphertexts_l^exponent and that the holder's verification value is that power, too."""
    weighted, opened = _weighted(statement, key.key, ciphertexts, values)
    mask = mpz(randomness.bits(_answer_bits(key) - 1))
    announced = _base_power(key, mask)
    (product,) = key.key.ring.power([weighted], mask)
    e = _challenge(statement, key, weighted, opened, announced, product)
    return OpeningProof(announced, product, mask + e * exponent)


def verify(
    statement: bytes,
    key: ThresholdKey,
    holder: int,
    ciphertexts: Sequence[mpz],
    values: Sequence[mpz],
    proof: OpeningProof,
) -> None:
    """Raise ProofError unless the proof holds for holder 1 .. n; ciphertexts and values must be units."""
    if not proof.answer:  # an honest holder's mask is positive
        raise ProofError("the answer in the proof is 0")
    ring, modulus = key.key.ring, key.key.ciphertext_modulus
    weighted, opened = _weighted(statement, key.key, ciphertexts, values)
    e = _challenge(statement, key, weighted, opened, proof.base, proof.product)
    left = _base_power(key, proof.answer)
    (left_product,) = ring.power([weighted], proof.answer)
    right, right_product = ring.power([key.verification_values[holder - 1], opened], e)
    right, right_product = proof.base * right, proof.product * right_product
    if (left**2 - right**2) % modulus or (left_product**2 - right_product**2) % modulus:
        raise ProofError("the proof does not hold: these values are not the holder's share of this product")


def _weighted(statement: bytes, key: PublicKey, ciphertexts: Sequence[mpz], values: Sequence[mpz]) -> tuple[mpz, mpz]:
    size, ring = key.ciphertext_bytes, key.ring
    parts = (key.identifier, statement, *(x.to_bytes(size, "little") for x in (*ciphertexts, *values)))
    weights = challenges(f"{_LABEL}: weights", parts, len(ciphertexts))
    return power_product(ciphertexts, weights, ring), power_product(values, weights, ring)


def _challenge(statement: bytes, key: ThresholdKey, *numbers: mpz) -> mpz:
    size, base = key.key.ciphertext_bytes, key.verification_base
    parts = (key.key.identifier, statement, *(x.to_bytes(size, "little") for x in (base, *numbers)))
    return challenges(f"{_LABEL}: challenge", parts, 1)[0]


def _answer_bits(key: ThresholdKey) -> int:
    return key.exponent_bits + CHALLENGE_BITS + HIDING_BITS + 1


def _sizes(key: ThresholdKey) -> tuple[int, int, int]:
    return key.key.ciphertext_bytes, key.key.ciphertext_bytes, (_answer_bits(key) + 7) // 8


def _base_power(key: ThresholdKey, exponent: mpz) -> mpz:
    size = key.key.ciphertext_bytes
    shape = best_shape(_answer_bits(key), powers=64, entry_bytes=size, memory=20_000_000)
    return shared_comb(key.verification_base, key.key.ring, shape).power(int(exponent))
