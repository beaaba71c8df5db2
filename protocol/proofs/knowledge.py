"""Proof that a sender knows the plaintexts of its ciphertexts; one proof for all ciphertexts.

Statement: ciphertexts c_1 .. c_L modulo n^(s+1), bound to the sender and the round. The sender knows m_l and the roots
of the residues with c_l = (1 + n)^(m_l) r_l, where r_l = h_s^(a_l) (fast modes) or r_l = u_l^(n^s) (`full`).

    announce    A = (1 + n)^x h_s^alpha,    x uniform modulo n^s, alpha 80 bits longer than what it hides
    challenge   e_1 .. e_L = H(statement, c, A), 128 bits each
    respond     z = x + sum e_l m_l mod n^s,    w = alpha + sum e_l a_l   (or v = u prod u_l^(e_l) mod n)
    check       (1 + n)^z h_s^w = A prod c_l^(e_l) mod n^(s+1)   (or v^(n^s) for h_s^w)

Two responses to challenges that differ in one e_l only give c_l^(e - e') = (1 + n)^(z - z') times an n^s-th residue.
As e - e' is smaller than every factor of n, it is invertible modulo n^s, so the plaintext
m_l = (z - z')/(e - e') mod n^s can be extracted, whatever the residue is. A sender can therefore not make a ballot of
other parties' ciphertexts. docs/security/proofs.md has the theorem and describes how a proof is bound to its
sender.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import gmpy2
from gmpy2 import mpz

from psephos.protocol.errors import CiphertextError, ProofError
from psephos.protocol.paillier.ciphertexts import check_ciphertexts
from psephos.protocol.paillier.comb import CombShape, FixedBaseComb, best_shape
from psephos.protocol.paillier.encryption import RandomnessMode, Witness, exponent_bits, fixed_base, random_unit
from psephos.protocol.paillier.generator import generator_power
from psephos.protocol.paillier.kernel import ring
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.powers import public_power
from psephos.protocol.proofs.challenge import CHALLENGE_BITS, HIDING_BITS, challenges
from psephos.protocol.randomness import SYSTEM, Randomness

WEIGHT_BITS = 64
"""Length of the verifier's random weights when it checks many proofs at once."""

_LABEL = "psephos knowledge of plaintexts"
_COMB_SLACK = 160  # the exponents of a comb can be some bits longer than requested


@dataclass(frozen=True)
class KnowledgeProof:
    """A proof of knowledge: `fast`, A, z, and w if `fast` (modes `half` and `short`), else v (mode `full`)."""

    fast: bool
    announcement: mpz = field(repr=False)
    plaintext: mpz = field(repr=False)
    residue: mpz = field(repr=False)

    @staticmethod
    def encoded_length(key: PublicKey) -> int:
        return 1 + key.ciphertext_bytes + _plain_bytes(key) + _root_bytes(key)

    def encode(self, key: PublicKey) -> bytes:
        return b"".join(
            (
                bytes([self.fast]),
                self.announcement.to_bytes(key.ciphertext_bytes, "little"),
                self.plaintext.to_bytes(_plain_bytes(key), "little"),
                self.residue.to_bytes(_root_bytes(key), "little"),
            )
        )

    @classmethod
    def decode(cls, data: bytes, key: PublicKey) -> KnowledgeProof:
        """Decode a received proof; raise ProofError for a wrong length or a number out of range."""
        if len(data) != cls.encoded_length(key) or data[0] > 1:
            raise ProofError("the bytes are not a proof of knowledge under this key")
        first = 1 + key.ciphertext_bytes
        second = first + _plain_bytes(key)
        parts = (data[1:first], data[first:second], data[second:])
        announcement, plaintext, residue = (mpz.from_bytes(part, "little") for part in parts)
        fast = bool(data[0])
        limit = mpz(1) << answer_bits(key) if fast else key.modulus
        if not (0 < announcement < key.ciphertext_modulus and plaintext < key.plaintext_modulus and residue < limit):
            raise ProofError("a number in a proof of knowledge lies outside its range")
        if fast and key.form != "psephos":
            raise ProofError("a proof about powers of h_s needs a key of form 'psephos'")
        return cls(fast, announcement, plaintext, residue)


def prove(
    statement: bytes,
    key: PublicKey,
    ciphertexts: Sequence[mpz],
    witness: Witness,
    mode: RandomnessMode,
    *,
    randomness: Randomness = SYSTEM,
) -> KnowledgeProof:
    n = key.modulus
    mask = mpz(randomness.below(int(key.plaintext_modulus)))
    if mode == "full":
        root = random_unit(key, randomness)
        residue = key.ring.power([root], key.plaintext_modulus)[0]
    else:
        root = mpz(randomness.bits(mask_bits(key)))
        residue = base_power(key, root)
    announcement = generator_power(key, mask) * residue % key.ciphertext_modulus
    factors = _challenges(statement, key, ciphertexts, announcement)
    plaintext = (mask + sum(e * m for e, m in zip(factors, witness.plaintexts, strict=True))) % key.plaintext_modulus
    if mode == "full":
        for e, unit in zip(factors, witness.roots, strict=True):
            root = root * gmpy2.powmod_sec(unit, e, n) % n if e else root
    else:
        root += sum(e * a for e, a in zip(factors, witness.roots, strict=True))
    return KnowledgeProof(mode != "full", announcement, plaintext, root)


def verify(statement: bytes, key: PublicKey, ciphertexts: Sequence[mpz], proof: KnowledgeProof) -> None:
    """Raise ProofError unless the proof holds. The ciphertexts must be units (`check_ciphertexts`)."""
    _check_unit(key, proof)
    factors = _challenges(statement, key, ciphertexts, proof.announcement)
    modulus = key.ciphertext_modulus
    left = generator_power(key, proof.plaintext) * _residue(key, proof) % modulus
    if not _equal(left, proof.announcement * public_power(ciphertexts, factors, key.ring), modulus):
        raise ProofError("the proof of knowledge was not made for these ciphertexts, by whoever encrypted them")


def first_wrong(
    key: PublicKey,
    claims: Sequence[tuple[bytes, Sequence[mpz], KnowledgeProof]],
    *,
    randomness: Randomness = SYSTEM,
) -> int | None:
    """Verify many proofs and return the index of the first that does not hold, or None.

    All proofs are checked at once, each raised to a random odd 64-bit weight; only if that fails are they verified one
    by one. A wrong proof passes with probability 2^-63: the deviation would have to be a unit of small order, and as
    gcd(p - 1, q - 1) = 2 every such unit except 1 and -1 reveals a factor of n.
    """
    if len(claims) > 1 and _holds_together(key, claims, randomness):
        return None
    for place, (statement, ciphertexts, proof) in enumerate(claims):
        try:
            verify(statement, key, ciphertexts, proof)
        except ProofError:
            return place
    return None


def _holds_together(
    key: PublicKey, claims: Sequence[tuple[bytes, Sequence[mpz], KnowledgeProof]], randomness: Randomness
) -> bool:
    modulus = key.ciphertext_modulus
    bases: list[mpz] = []
    exponents: list[mpz] = []
    plaintext = exponent = mpz(0)
    roots, weights = [], []
    for statement, ciphertexts, proof in claims:
        try:
            _check_unit(key, proof)
        except ProofError:
            return False
        weight = mpz(randomness.bits(WEIGHT_BITS) | 1)
        factors = _challenges(statement, key, ciphertexts, proof.announcement)
        bases += [proof.announcement, *ciphertexts]
        exponents += [weight, *(weight * e for e in factors)]
        plaintext += weight * proof.plaintext
        if proof.fast:
            exponent += weight * proof.residue
        else:
            roots.append(proof.residue)
            weights.append(weight)
    left = generator_power(key, plaintext) * base_power(key, exponent) % modulus
    if roots:
        root = public_power(roots, weights, ring(key.modulus))
        left = left * gmpy2.powmod(root, key.plaintext_modulus, modulus) % modulus
    return _equal(left, public_power(bases, exponents, key.ring), modulus)


def _equal(left: mpz, right: mpz, modulus: mpz) -> bool:
    """Compare up to the sign. -1 is an n^s-th residue; squaring makes single and joint verification agree."""
    return bool(left * left % modulus == right * right % modulus)


def _check_unit(key: PublicKey, proof: KnowledgeProof) -> None:
    try:
        check_ciphertexts(key, (proof.announcement,))
    except CiphertextError as error:
        raise ProofError(f"the announcement of a proof of knowledge is not a unit: {error}") from None


def _challenges(statement: bytes, key: PublicKey, ciphertexts: Sequence[mpz], announcement: mpz) -> list[mpz]:
    size = key.ciphertext_bytes
    parts = (key.identifier, statement, *(c.to_bytes(size, "little") for c in (*ciphertexts, announcement)))
    return challenges(_LABEL, parts, len(ciphertexts))


def _residue(key: PublicKey, proof: KnowledgeProof) -> mpz:
    if proof.fast:
        return base_power(key, proof.residue)
    return gmpy2.powmod(proof.residue, key.plaintext_modulus, key.ciphertext_modulus)


def _root_bytes(key: PublicKey) -> int:
    return max((key.bits + 7) // 8, (answer_bits(key) + 7) // 8)


def _plain_bytes(key: PublicKey) -> int:
    return max((int(key.plaintext_modulus.bit_length()) + 7) // 8, (answer_bits(key) + 7) // 8)


def mask_bits(key: PublicKey) -> int:
    """Return the length of alpha in bits: `HIDING_BITS` more than a sum of 2^16 products of challenge and exponent."""
    return exponent_bits(key, "half") + _COMB_SLACK + CHALLENGE_BITS + 16 + HIDING_BITS


def answer_bits(key: PublicKey) -> int:
    return mask_bits(key) + 1


def base_power(key: PublicKey, exponent: mpz) -> mpz:
    """Return h_s^exponent, which may be a sum of 2^32 numbers below 2^answer_bits times `WEIGHT_BITS` of weight."""
    return _comb(key).power(int(exponent))


@lru_cache(maxsize=2)
def _comb(key: PublicKey) -> FixedBaseComb:
    return FixedBaseComb(fixed_base(key), key.ring, comb_shape(key))


def comb_shape(key: PublicKey) -> CombShape:
    bits = answer_bits(key) + WEIGHT_BITS + 32
    return best_shape(bits, powers=256, entry_bytes=key.ciphertext_bytes, memory=10_000_000)
