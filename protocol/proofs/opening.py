"""That a partial decryption is right: one proof for all ciphertexts of a product (Chaum and Pedersen 1992, Shoup 2000).

Statement: d_l = c_l^x for every l, with the same x as in the holder's verification value v_j = v^x modulo n^(s+1).

    weights     rho_1 .. rho_L = H(statement, c, d), 128 bits;   C = prod c_l^rho_l,  D = prod d_l^rho_l
    announce    a = v^r,  b = C^r,    r 80 bits longer than what it hides
    challenge   e = H(statement, v, C, D, a, b)
    respond     z = r + e x over the integers
    check       v^z = a v_j^e  and  C^z = b D^e, both up to the sign

No safe primes are needed. Where the plaintext is, in the (1 + n) part, every order divides n^s and the equations hold
as they stand; what is still wrong lies in the n^s-th residues, and makes the combined value differ from 1 modulo n,
which `combine` refuses. docs/security/zero-knowledge.md has the theorem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from gmpy2 import mpz

from psephos.protocol.errors import CiphertextError, ProofError
from psephos.protocol.paillier.ciphertexts import check_ciphertexts
from psephos.protocol.paillier.comb import FixedBaseComb, best_shape
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.public_power import public_power
from psephos.protocol.proofs.challenge import CHALLENGE_BITS, HIDING_BITS, challenges
from psephos.protocol.randomness import SYSTEM, Randomness

_LABEL = "psephos partial decryption"


@dataclass(frozen=True)
class Powers:
    """What the verification values of a shared key are powers of.

    Attributes:
        key: modulo whose n^(s+1) all of it is.
        base: v.
        exponent_bits: public bound of the length of every holder's x.
    """

    key: PublicKey
    base: mpz = field(repr=False)
    exponent_bits: int


@dataclass(frozen=True)
class OpeningProof:
    """One proof, as it travels: a and b, units modulo n^(s+1), and z, in [0, 2^answer_bits)."""

    base: mpz = field(repr=False)
    product: mpz = field(repr=False)
    answer: mpz = field(repr=False)

    @staticmethod
    def encoded_length(key: PublicKey, exponent_bits: int) -> int:
        """Bytes of every proof about exponents of at most `exponent_bits` bits."""
        return 2 * key.ciphertext_bytes + (_answer_bits(exponent_bits) + 7) // 8

    def encode(self, key: PublicKey, exponent_bits: int) -> bytes:
        """Fixed-length little-endian integers."""
        size = key.ciphertext_bytes
        return b"".join(
            (
                self.base.to_bytes(size, "little"),
                self.product.to_bytes(size, "little"),
                self.answer.to_bytes((_answer_bits(exponent_bits) + 7) // 8, "little"),
            )
        )

    @classmethod
    def decode(cls, data: bytes, key: PublicKey, exponent_bits: int) -> OpeningProof:
        """A received proof; raises ProofError."""
        size = key.ciphertext_bytes
        if len(data) != cls.encoded_length(key, exponent_bits):
            raise ProofError("these bytes are no proof of a partial decryption under this key")
        base, product, answer = (
            mpz.from_bytes(part, "little") for part in (data[:size], data[size : 2 * size], data[2 * size :])
        )
        try:
            check_ciphertexts(key, (base, product))
        except CiphertextError as error:
            raise ProofError(f"an announcement in a proof of a partial decryption is no unit: {error}") from None
        if answer >> _answer_bits(exponent_bits):
            raise ProofError("the answer in a proof of a partial decryption lies outside its range")
        return cls(base, product, answer)


def prove(
    statement: bytes,
    powers: Powers,
    ciphertexts: Sequence[mpz],
    values: Sequence[mpz],
    exponent: mpz,
    *,
    randomness: Randomness = SYSTEM,
) -> OpeningProof:
    """The proof that values_l = ciphertexts_l^exponent and the verification value is base^exponent.

    Args:
        statement: what the opening is bound to: round and holder.
        powers: of the shared key.
        ciphertexts, values: c and d, units. exponent: x, a secret.
        randomness: the operating system's by default.
    """
    key = powers.key
    weighted, opened = _weighted(statement, key, ciphertexts, values)
    mask = mpz(randomness.bits(_answer_bits(powers.exponent_bits) - 1))
    announced = _comb(powers).power(int(mask))
    (product,) = key.ring.power([weighted], mask)
    e = _challenge(statement, powers, weighted, opened, announced, product)
    return OpeningProof(announced, product, mask + e * exponent)


def verify(
    statement: bytes,
    powers: Powers,
    verification_value: mpz,
    ciphertexts: Sequence[mpz],
    values: Sequence[mpz],
    proof: OpeningProof,
) -> None:
    """Raise ProofError unless the proof holds; arguments as in `prove`, all units (`check_ciphertexts`)."""
    if not proof.answer:  # nobody's: a mask that a holder draws is positive
        raise ProofError("the proof's answer is 0")
    modulus = powers.key.ciphertext_modulus
    weighted, opened = _weighted(statement, powers.key, ciphertexts, values)
    e = _challenge(statement, powers, weighted, opened, proof.base, proof.product)
    left = _comb(powers).power(int(proof.answer))
    (left_product,) = powers.key.ring.power([weighted], proof.answer)
    right, right_product = powers.key.ring.power([verification_value, opened], e)
    right, right_product = proof.base * right, proof.product * right_product
    if (left**2 - right**2) % modulus or (left_product**2 - right_product**2) % modulus:
        raise ProofError("the proof does not hold: these values are not the holder's share of this product")


def _weighted(statement: bytes, key: PublicKey, ciphertexts: Sequence[mpz], values: Sequence[mpz]) -> tuple[mpz, mpz]:
    """C and D."""
    size, ring = key.ciphertext_bytes, key.ring
    parts = (key.identifier, statement, *(x.to_bytes(size, "little") for x in (*ciphertexts, *values)))
    weights = challenges(f"{_LABEL}: weights", parts, len(ciphertexts))
    return public_power(ciphertexts, weights, ring), public_power(values, weights, ring)


def _challenge(statement: bytes, powers: Powers, *numbers: mpz) -> mpz:
    size = powers.key.ciphertext_bytes
    parts = (powers.key.identifier, statement, *(x.to_bytes(size, "little") for x in (powers.base, *numbers)))
    return challenges(f"{_LABEL}: challenge", parts, 1)[0]


def _answer_bits(exponent_bits: int) -> int:
    return exponent_bits + CHALLENGE_BITS + HIDING_BITS + 1


@lru_cache(maxsize=4)
def _comb(powers: Powers) -> FixedBaseComb:
    key, bits = powers.key, _answer_bits(powers.exponent_bits)
    shape = best_shape(bits, powers=64, entry_bytes=key.ciphertext_bytes, memory=20_000_000)
    return FixedBaseComb(powers.base, key.ring, shape)
