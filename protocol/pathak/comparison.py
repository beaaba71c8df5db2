"""Secure comparison of two shared integers (Damgard, Geisler and Kroigaard 2007, Veugen 2012).

The *asker* owns a DGK key and holds y, the *answerer* holds x, and |x - y| < 2^l. They exchange one message each, and
the asker learns the bit [x >= y] and nothing else (docs/protocols/pathak.md, docs/security/proofs.md): it is that of
x'_l + y'_l + [X < Y] modulo 2, where x' = x + 2^l, y' = y, and X and Y are their low l bits.

The asker sends E(Y_i) for every bit. The answerer tosses delta; s = 1 - 2 delta. With w_j = X_j xor Y_j it computes

    c_i  = s + X_i - Y_i + 3 sum_{j > i} w_j      for i = 0 .. l - 1
    c_-1 = (1 - delta) + sum_j w_j

For delta = 0 some c_i vanishes iff X < Y; for delta = 1 iff X >= Y. At most one does, and all lie in [-2, 3 l], so
u > 3 l + 2 keeps a non-zero one non-zero modulo u. The answerer raises each to a blind uniform in the units modulo u,
multiplies in a fresh h^r, shuffles, and sends them with x'_l + delta modulo 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import gmpy2
from gmpy2 import mpz

from psephos.protocol.errors import InvalidParameter, MessageError
from psephos.protocol.paillier.ciphertexts import encode_ciphertexts, received_ciphertexts
from psephos.protocol.pathak.dgk import DgkPrivateKey, DgkPublicKey
from psephos.protocol.permutation import random_permutation
from psephos.protocol.randomness import SYSTEM, Randomness

Question = tuple[mpz, ...]


def _check_bits(key: DgkPublicKey, bits: int) -> None:
    if not 1 <= bits <= key.largest_comparison:
        raise InvalidParameter(f"{key!r} compares integers of 1 to {key.largest_comparison} bits, not {bits}")


@dataclass(frozen=True)
class Answer:
    """The answer to one comparison: l + 1 blinded, shuffled ciphertexts, and the answerer's masked bit."""

    ciphertexts: tuple[mpz, ...] = field(repr=False)
    bit: int

    @staticmethod
    def encoded_length(key: DgkPublicKey, bits: int) -> int:
        return 1 + (bits + 1) * key.ciphertext_bytes

    def encode(self, key: DgkPublicKey) -> bytes:
        return bytes([self.bit]) + encode_ciphertexts(key, self.ciphertexts)

    @classmethod
    def decode(cls, data: bytes, key: DgkPublicKey, bits: int) -> Answer:
        if len(data) != cls.encoded_length(key, bits) or data[0] > 1:
            raise MessageError("the bytes are not an answer to a comparison of this size")
        return cls(received_ciphertexts(key, data[1:], bits + 1), data[0])


def ask(key: DgkPublicKey, shares: Sequence[int], *, bits: int, randomness: Randomness = SYSTEM) -> list[Question]:
    """Return the asker's first message: for each comparison, l ciphertexts of the low bits of y, the lowest first."""
    _check_bits(key, bits)
    flat = key.encrypt([y >> i & 1 for y in shares for i in range(bits)], randomness)
    return [flat[at : at + bits] for at in range(0, len(flat), bits)]


def conclude(private_key: DgkPrivateKey, shares: Sequence[int], answers: Sequence[Answer], *, bits: int) -> list[bool]:
    """Compute the outcomes of comparisons of l bits from their answers, as the asker."""
    if len(answers) != len(shares):
        raise MessageError(f"there are {len(answers)} answers to {len(shares)} comparisons")
    results = []
    for y, reply in zip(shares, answers, strict=True):
        # Every ciphertext is tested, so the time does not depend on the place of the zero.
        zeros = sum([private_key.is_zero(c) for c in reply.ciphertexts])
        if zeros > 1 or len(reply.ciphertexts) != bits + 1:
            raise MessageError("an answer to a comparison has two zeros or a wrong length")
        results.append(bool(zeros ^ reply.bit ^ (y >> bits & 1)))
    return results


def answer(
    key: DgkPublicKey,
    shares: Sequence[int],
    questions: Sequence[Question],
    *,
    bits: int,
    randomness: Randomness = SYSTEM,
) -> list[Answer]:
    """Answer comparisons of any integers x with |x - y| < 2^bits; `questions` are units modulo n (as decoded)."""
    _check_bits(key, bits)
    if len(shares) != len(questions) or any(len(question) != bits for question in questions):
        raise InvalidParameter(f"{len(shares)} shares need as many questions of {bits} ciphertexts each")
    blinds = key.blinds(len(shares) * (bits + 1), randomness)
    answers = []
    for number, (x, question) in enumerate(zip(shares, questions, strict=True)):
        shifted = x + (1 << bits)
        fresh = blinds[number * (bits + 1) : (number + 1) * (bits + 1)]
        delta = randomness.bits(1)
        blinded = _blinded(key, shifted, question, delta, fresh, randomness)
        order = random_permutation(len(blinded), randomness)
        answers.append(Answer(tuple([blinded[place] for place in order]), (shifted >> bits & 1) ^ delta))
    return answers


def _blinded(
    key: DgkPublicKey, x: int, question: Question, delta: int, fresh: Sequence[mpz], randomness: Randomness
) -> list[mpz]:
    """Return the l + 1 ciphertexts c_i^(r_i) h^(r'_i)."""
    n, g = key.n, key.g
    inverse_g = gmpy2.invert(g, n)
    # g^(s + X_i), one of g^-1, 1, g, g^2.
    powers = {-1: inverse_g, 0: mpz(1), 1: g, 2: g * g % n}
    sign = 1 - 2 * delta
    above = mpz(1)  # the product of E(w_j) over the more significant bits
    entries = []
    for i in range(len(question) - 1, -1, -1):
        bit, negative = x >> i & 1, gmpy2.invert(question[i], n)
        entries.append(powers[sign + bit] * negative % n * gmpy2.powmod(above, 3, n) % n)
        above = above * (g * negative % n if bit else question[i]) % n
    entries.append(powers[1 - delta] * above % n)
    units = [1 + randomness.below(key.u - 1) for _ in entries]
    return [gmpy2.powmod_sec(c, r, n) * h % n for c, r, h in zip(entries, units, fresh, strict=True)]
