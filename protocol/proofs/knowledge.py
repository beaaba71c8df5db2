"""Proof that a sender knows the plaintexts of its ciphertexts; one proof for all (docs/security/proofs.md, theorem 1).

announce    A = (1 + n)^x h_s^alpha,    x uniform modulo n^s, alpha 80 bits longer than what it hides
challenge   e_1 .. e_L = H(statement, c, A), 128 bits each
respond     z = x + sum e_l m_l mod n^s,    w = alpha + sum e_l a_l   (or v = u prod u_l^(e_l) mod n)
check       (1 + n)^z h_s^w = A prod c_l^(e_l) mod n^(s+1)   (or v^(n^s) for h_s^w)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import gmpy2
from gmpy2 import mpz

from psephos.protocol.errors import ProofError
from psephos.protocol.paillier.comb import CombShape, best_shape, shared_comb
from psephos.protocol.paillier.encryption import RandomnessMode, Witness, exponent_bits, fixed_base, random_unit
from psephos.protocol.paillier.generator import generator_power
from psephos.protocol.paillier.kernel import ring
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.powers import power_product
from psephos.protocol.proofs.challenge import CHALLENGE_BITS, HIDING_BITS, challenges, check_announcements, read_numbers
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
        return 1 + sum(_sizes(key))

    def encode(self, key: PublicKey) -> bytes:
        numbers = zip((self.announcement, self.plaintext, self.residue), _sizes(key), strict=True)
        return bytes([self.fast]) + b"".join(number.to_bytes(size, "little") for number, size in numbers)

    @classmethod
    def decode(cls, data: bytes, key: PublicKey) -> KnowledgeProof:
        if not data or data[0] > 1:
            raise ProofError("the bytes are not a proof of knowledge under this key")
        fast = bool(data[0])
        announcement, plaintext, residue = read_numbers(data[1:], _sizes(key))
        limit = mpz(1) << answer_bits(key) if fast else key.modulus
        if not (0 < announcement < key.ciphertext_modulus and plaintext < key.plaintext_modulus and residue < limit):
            raise ProofError("a number in a proof of knowledge lies outside its range")
        if fast and key.form != "psephos":
            raise ProofError("a proof about powers of h_s needs a key of form 'psephos'")
        return cls(fast, announcement, plaintext, residue)


Claim = tuple[bytes, Sequence[mpz], KnowledgeProof]
"""A statement, the ciphertexts that it is about, which must be units, and its proof."""


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
    if not _hold_together(key, [(statement, ciphertexts, proof)], [mpz(1)]):
        raise ProofError("the proof of knowledge was not made for these ciphertexts, by whoever encrypted them")


def first_wrong(key: PublicKey, claims: Sequence[Claim], *, randomness: Randomness = SYSTEM) -> int | None:
    """Verify many proofs and return the index of the first that does not hold, or None.

    All are checked at once, each raised to a random odd weight, and one by one only if that fails. A wrong proof passes
    with probability 2^-63: the deviation would have to be a unit of small order, and as gcd(p - 1, q - 1) = 2 every
    such unit except 1 and -1 reveals a factor of n.
    """
    if len(claims) > 1 and _hold_together(key, claims, [mpz(randomness.bits(WEIGHT_BITS) | 1) for _ in claims]):
        return None
    return next((place for place, claim in enumerate(claims) if not _hold_together(key, [claim], [mpz(1)])), None)


def _hold_together(key: PublicKey, claims: Sequence[Claim], weights: Sequence[mpz]) -> bool:
    """Check the product of all equations, each to the power of its weight."""
    try:
        check_announcements(key, *(proof.announcement for _statement, _ciphertexts, proof in claims))
    except ProofError:
        return False
    bases: list[mpz] = []
    exponents: list[mpz] = []
    plaintext = exponent = mpz(0)
    roots, of_roots = [], []
    for (statement, ciphertexts, proof), weight in zip(claims, weights, strict=True):
        factors = _challenges(statement, key, ciphertexts, proof.announcement)
        bases += [proof.announcement, *ciphertexts]
        exponents += [weight, *(weight * e for e in factors)]
        plaintext += weight * proof.plaintext
        if proof.fast:
            exponent += weight * proof.residue
        else:
            roots.append(proof.residue)
            of_roots.append(weight)
    modulus = key.ciphertext_modulus
    left = generator_power(key, plaintext)
    if exponent:
        left = left * base_power(key, exponent) % modulus
    if roots:
        root = power_product(roots, of_roots, ring(key.modulus))
        left = left * gmpy2.powmod(root, key.plaintext_modulus, modulus) % modulus
    # Up to the sign: -1 is an n^s-th residue, and single and joint verification must agree.
    right = power_product(bases, exponents, key.ring)
    return bool((left * left - right * right) % modulus == 0)


def _challenges(statement: bytes, key: PublicKey, ciphertexts: Sequence[mpz], announcement: mpz) -> list[mpz]:
    size = key.ciphertext_bytes
    parts = (key.identifier, statement, *(c.to_bytes(size, "little") for c in (*ciphertexts, announcement)))
    return challenges(_LABEL, parts, len(ciphertexts))


def _sizes(key: PublicKey) -> tuple[int, int, int]:
    answer = (answer_bits(key) + 7) // 8
    plaintext = (int(key.plaintext_modulus.bit_length()) + 7) // 8
    return key.ciphertext_bytes, max(plaintext, answer), max((key.bits + 7) // 8, answer)


def mask_bits(key: PublicKey) -> int:
    """Return the length of alpha in bits: `HIDING_BITS` more than a sum of 2^16 products of challenge and exponent."""
    return exponent_bits(key, "half") + _COMB_SLACK + CHALLENGE_BITS + 16 + HIDING_BITS


def answer_bits(key: PublicKey) -> int:
    return mask_bits(key) + 1


def base_power(key: PublicKey, exponent: mpz) -> mpz:
    """Return h_s^exponent, which may be a sum of 2^32 numbers below 2^answer_bits times `WEIGHT_BITS` of weight."""
    return shared_comb(fixed_base(key), key.ring, comb_shape(key)).power(int(exponent))


def comb_shape(key: PublicKey) -> CombShape:
    bits = answer_bits(key) + WEIGHT_BITS + 32
    return best_shape(bits, powers=256, entry_bytes=key.ciphertext_bytes, memory=10_000_000)
