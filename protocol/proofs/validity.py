"""Proof that a ballot is valid: every entry is 0 or 1, and the entries of one sample add up to 0 or 1.

The rows hold entries and bits of the mask (`psephos.protocol.proofs.codewords` has the steps). Every committed number
and the sum of each sample's entries satisfies x^2 = x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.encryption import Witness
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.proofs.challenge import CHALLENGE_BITS, HIDING_BITS
from psephos.protocol.proofs.codewords import (
    DEGREES,
    PRIMES,
    ChallengeChain,
    MatrixLayout,
    Prover,
    Verification,
    Weights,
    block_rows,
    powers_modulo,
)
from psephos.protocol.proofs.field import PRIME, Words, add, mul, product, sub, sum_of_products
from psephos.protocol.randomness import SYSTEM, Randomness


@dataclass(frozen=True)
class Layout(MatrixLayout):
    """The layout of the committed matrix, derived from public numbers.

    Attributes:
        plan: how the ballot is packed; its entries start at 0.
        group: entries per sample, K - 1.
        degree: k, the number of points that determine a row, a power of two; `of` chooses the shortest proof.
    """

    label: ClassVar[str] = "psephos valid ballot"
    equation_count: ClassVar[int] = PRIMES

    key: PublicKey
    plan: PackingPlan
    group: int
    degree: int

    def __post_init__(self) -> None:
        if self.group < 1 or self.plan.minimum != 0 or self.plan.length % self.group or self.plan.length >= 1 << 24:
            raise InvalidParameter("validity is proved for votes: entries from 0, whole samples, under 2^24 entries")

    @classmethod
    def of(cls, key: PublicKey, plan: PackingPlan, group: int) -> Self:
        layouts = [cls(key, plan, group, degree) for degree in DEGREES]
        return min(layouts, key=lambda layout: layout.least_bytes)

    @property
    def blocks(self) -> int:
        return -(-(self.plan.length // self.group) // self.used)

    @property
    def numbers(self) -> str:
        return f"{self.group}"

    @property
    def mask_bits(self) -> int:
        plaintext = self.key.degree * self.key.bits
        return CHALLENGE_BITS + plaintext + self.plan.ciphertexts.bit_length() + HIDING_BITS

    @property
    def quotient_bits(self) -> int:
        return (self.plan.length + self.mask_bits).bit_length()

    @property
    def first_rows(self) -> int:
        return self.blocks * self.group + -(-self.mask_bits // self.used)

    @property
    def second_rows(self) -> int:
        return -(-PRIMES * self.quotient_bits // self.used)

    @property
    def constraint_count(self) -> int:
        return self.first_rows + self.second_rows + (self.blocks if self.group > 1 else 0)

    def votes(self, entries: NDArray[np.integer]) -> Words:
        """Arrange entries (S,) as rows (blocks * group, used); a row holds one class of a block of samples."""
        table = np.asarray(entries).reshape(-1, self.group).astype(np.uint64)
        return block_rows(table, self.used, np.zeros(self.group, dtype=np.uint64))

    def lookup(self, chain: ChallengeChain) -> None:
        """There is no other challenge."""

    def weights(self, factors: Sequence[mpz], primes: Sequence[int]) -> Weights:
        return Weights(primes, self.slot_weights(factors, primes), powers_modulo(2, self.mask_bits, primes))

    def linear_values(self, weights: Weights, lookup: None, combine: Words) -> Words:
        entries, mask = product(combine, weights.entries), product(combine, weights.mask)
        quotients = self.quotient_weights(weights, combine)
        rows = [
            np.concatenate([self.votes(of_entries), self.rows_of(of_mask), self.rows_of(of_quotients)])
            for of_entries, of_mask, of_quotients in zip(entries, mask, quotients, strict=True)
        ]
        return np.concatenate(rows)

    def constraints(self, rows: Words, lookup: None) -> Words:
        """Return x^2 - x of every row and, for several classes, of the sum of the rows of each sample."""
        if self.group > 1:
            votes = rows[: self.blocks * self.group].reshape(self.blocks, self.group, -1)
            total = votes[:, 0]
            for place in range(1, self.group):
                total = add(total, votes[:, place])
            rows = np.concatenate([rows, total])
        return sub(mul(rows, rows), rows)

    def equations(self, rows: Words, linear: Words, combine: Words) -> Words:
        return sum_of_products(linear, rows)

    def target(self, z: mpz, primes: Sequence[int], combine: Words) -> int:
        return sum(int(g) * int(z % q) for g, q in zip(combine, primes, strict=True)) % PRIME

    def total(self, equation: Words) -> int:
        k = self.degree
        return int(add(equation[:1], equation[k : k + 1])[0]) * k % PRIME

    def balance(self, masks: Words) -> None:
        masks[:, 0] = sub(np.zeros(len(masks), np.uint64), masks[:, self.degree])


class _Prover(Prover):
    """One proof in the making, of entries (S,)."""

    layout: Layout
    entries: Words

    def draw_mask(self) -> mpz:
        return mpz(self.randomness.bits(self.layout.mask_bits))

    def first_messages(self, mu: mpz) -> Words:
        layout = self.layout
        bits = layout.bits([int(mu)], layout.mask_bits)
        self.mask = bits.reshape(-1)[: layout.mask_bits]
        return np.concatenate([layout.votes(self.entries), bits])

    def second_messages(self, weights: Weights, lookup: None, z: mpz) -> Words:
        return self.quotients(weights, self.entries, self.mask, z)


def prove(
    statement: bytes,
    layout: Layout,
    entries: NDArray[np.integer],
    ciphertexts: Sequence[mpz],
    witness: Witness,
    *,
    randomness: Randomness = SYSTEM,
) -> bytes:
    """Return the encoded proof, of at most `layout.longest_proof` bytes, that entries (S,) are valid votes."""
    prover = _Prover(statement, layout, ciphertexts, witness, randomness)
    prover.entries = np.asarray(entries).astype(np.uint64)
    return prover.run()


def verify(statement: bytes, layout: Layout, ciphertexts: Sequence[mpz], proof: bytes) -> None:
    """Raise ProofError unless the proof holds. The ciphertexts must be units (`check_ciphertexts`)."""
    Verification(statement, layout, ciphertexts, proof).run()
