"""That a sender knows the plaintexts of its ciphertexts: one proof for all of them.

Statement: ciphertexts c_1 .. c_L modulo n^(s+1), bound to who sends them and in which round. The sender knows m_l and
the roots of the residues with c_l = (1 + n)^(m_l) r_l, where r_l = h_s^(a_l) (fast modes) or r_l = u_l^(n^s) (`full`).

    announce    A = (1 + n)^x h_s^alpha,    x uniform modulo n^s, alpha 80 bits longer than what it hides
    challenge   e_1 .. e_L = H(statement, c, A), 128 bits each
    respond     z = x + sum e_l m_l mod n^s,    w = alpha + sum e_l a_l   (or v = u prod u_l^(e_l) mod n)
    check       (1 + n)^z h_s^w = A prod c_l^(e_l) mod n^(s+1)   (or v^(n^s) for h_s^w)

Two answers to challenges that differ in one e_l only give c_l^(e - e') = (1 + n)^(z - z') times an n^s-th residue, and
e - e', below every factor of n, can be inverted modulo n^s: the plaintext m_l = (z - z')/(e - e') mod n^s is known,
whatever the residue is. So no sender can make a ballot of other people's ciphertexts. docs/security/zero-knowledge.md
has the theorem and what binds a proof to its sender.
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
from psephos.protocol.paillier.public_power import public_power
from psephos.protocol.proofs.challenge import CHALLENGE_BITS, HIDING_BITS, challenges
from psephos.protocol.randomness import SYSTEM, Randomness

WEIGHT_BITS = 64
"""Of the checker's own coins, when it checks many proofs at once: a wrong one passes with probability 2^-64."""

_LABEL = "psephos knowledge of plaintexts"
_COMB_SLACK = 160  # a comb's exponents may be some bits longer than asked for


@dataclass(frozen=True)
class KnowledgeProof:
    """One proof, as it travels.

    Attributes:
        fast: whether the answer is an exponent of h_s, or a root for `full`.
        announcement: A, a unit modulo n^(s+1).
        plaintext: z, in [0, n^s).
        residue: w or v.
    """

    fast: bool
    announcement: mpz = field(repr=False)
    plaintext: mpz = field(repr=False)
    residue: mpz = field(repr=False)

    @staticmethod
    def encoded_length(key: PublicKey) -> int:
        """Bytes of every proof under a key: A, z, and the longer of w and v."""
        return 1 + key.ciphertext_bytes + _plain_bytes(key) + _root_bytes(key)

    def encode(self, key: PublicKey) -> bytes:
        """Fixed-length little-endian integers."""
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
        """A received proof, every number in its range; raises ProofError."""
        if len(data) != cls.encoded_length(key) or data[0] > 1:
            raise ProofError("these bytes are no proof of knowledge under this key")
        first = 1 + key.ciphertext_bytes
        second = first + _plain_bytes(key)
        parts = (data[1:first], data[first:second], data[second:])
        announcement, plaintext, residue = (mpz.from_bytes(part, "little") for part in parts)
        fast = bool(data[0])
        limit = mpz(1) << answer_bits(key) if fast else key.modulus
        if not (0 < announcement < key.ciphertext_modulus and plaintext < key.plaintext_modulus and residue < limit):
            raise ProofError("a number in a proof of knowledge lies outside its range")
        if fast and key.form != "psephos":
            raise ProofError("h_s-randomised ballots need a key of form 'psephos', and this one is foreign")
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
    """The proof for one sender's ciphertexts.

    Args:
        statement: what the ciphertexts are bound to: study, round, sender and all bytes that travel with them.
        key: what they are encrypted under.
        ciphertexts, witness, mode: as `Encryptor.encrypt_with_witness` gave them.
        randomness: the operating system's by default.
    """
    n = key.modulus
    mask = mpz(randomness.below(int(key.plaintext_modulus)))
    if mode == "full":
        root = random_unit(key, randomness)
        residue = key.ring.power([root], key.plaintext_modulus)[0]
    else:
        root = mpz(randomness.bits(mask_bits(key)))
        residue = base_power(key, root)
    announcement = generator_power(key, mask) * residue % key.ciphertext_modulus
    drawn = _challenges(statement, key, ciphertexts, announcement)
    plaintext = (mask + sum(e * m for e, m in zip(drawn, witness.plaintexts, strict=True))) % key.plaintext_modulus
    if mode == "full":
        for e, unit in zip(drawn, witness.roots, strict=True):
            root = root * gmpy2.powmod_sec(unit, e, n) % n if e else root
    else:
        root += sum(e * a for e, a in zip(drawn, witness.roots, strict=True))
    return KnowledgeProof(mode != "full", announcement, plaintext, root)


def verify(statement: bytes, key: PublicKey, ciphertexts: Sequence[mpz], proof: KnowledgeProof) -> None:
    """Raise ProofError unless the proof holds. The ciphertexts are units already (`check_ciphertexts`)."""
    _check_unit(key, proof)
    drawn = _challenges(statement, key, ciphertexts, proof.announcement)
    modulus = key.ciphertext_modulus
    left = generator_power(key, proof.plaintext) * _residue(key, proof) % modulus
    if not _equal(left, proof.announcement * public_power(ciphertexts, drawn, key.ring), modulus):
        raise ProofError(
            "the proof of knowledge does not hold: these ciphertexts were not encrypted by whoever sends them, or not "
            "for this round"
        )


def first_wrong(
    key: PublicKey,
    claims: Sequence[tuple[bytes, Sequence[mpz], KnowledgeProof]],
    *,
    randomness: Randomness = SYSTEM,
) -> int | None:
    """The place of a claim (statement, ciphertexts, proof) that does not hold; None when all do.

    All are checked at once, each raised to a random 64-bit weight of the checker's own; only when that fails are they
    looked at one by one. A wrong proof passes with probability 2^-63: what it is wrong by would need a small order, and
    gcd(p - 1, q - 1) = 2 makes a factor of n of every such unit but 1 and -1.
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
        drawn = _challenges(statement, key, ciphertexts, proof.announcement)
        bases += [proof.announcement, *ciphertexts]
        exponents += [weight, *(weight * e for e in drawn)]
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
    """Up to the sign, which is an n^s-th residue and hides nothing: one proof and many are judged alike."""
    return bool(left * left % modulus == right * right % modulus)


def _check_unit(key: PublicKey, proof: KnowledgeProof) -> None:
    try:
        check_ciphertexts(key, (proof.announcement,))
    except CiphertextError as error:
        raise ProofError(f"the announcement of a proof of knowledge is no unit: {error}") from None


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
    """Bits of alpha: longer than the sum of up to 2^16 products of a challenge and an exponent."""
    return exponent_bits(key, "half") + _COMB_SLACK + CHALLENGE_BITS + 16 + HIDING_BITS


def answer_bits(key: PublicKey) -> int:
    """Bits of w."""
    return mask_bits(key) + 1


def base_power(key: PublicKey, exponent: mpz) -> mpz:
    """h_s to an exponent below 2^answer_bits, or a sum of fewer than 2^32 of these with weights of WEIGHT_BITS."""
    return _comb(key).power(int(exponent))


@lru_cache(maxsize=2)
def _comb(key: PublicKey) -> FixedBaseComb:
    return FixedBaseComb(fixed_base(key), key.ring, comb_shape(key))


def comb_shape(key: PublicKey) -> CombShape:
    """Of the table of powers of h_s."""
    bits = answer_bits(key) + WEIGHT_BITS + 32
    return best_shape(bits, powers=256, entry_bytes=key.ciphertext_bytes, memory=10_000_000)
