"""Proof that a ballot is valid: every entry is 0 or 1, and the entries of one sample add up to 0 or 1.

The rows hold entries and bits of the mask (`psephos.protocol.proofs.codewords` has the steps). Every committed number
and the sum of each sample's entries satisfies x^2 = x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from gmpy2 import mpz

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.proofs.challenge import CHALLENGE_BITS, HIDING_BITS
from psephos.protocol.proofs.codewords import (
    DEGREES,
    PRIMES,
    ChallengeChain,
    MatrixLayout,
    MatrixSizes,
    Prover,
    Vector,
    Weights,
    block_rows,
    powers_modulo,
)
from psephos.protocol.proofs.field import PRIME, Words, add, column_sum, mul, product, sub


class _Prover(Prover):
    layout: Layout

    def draw_mask(self) -> mpz:
        return mpz(self.randomness.bits(self.layout.sizes.mask_bits))

    def first_messages(self, mu: mpz) -> Words:
        layout = self.layout
        bits = layout.bits([int(mu)], layout.sizes.mask_bits)
        self.mask = bits.reshape(-1)[: layout.sizes.mask_bits]
        return np.concatenate([layout.votes(self.entries), bits])

    def second_messages(self, weights: Weights, lookup: None, z: mpz) -> Words:
        return self.quotients(weights, np.asarray(self.entries), self.mask, z)


@dataclass(frozen=True)
class Layout(MatrixLayout):
    """The layout of the committed matrix, for K - 1 = `group` entries per sample; `of` chooses the shortest proof."""

    label: ClassVar[str] = "psephos valid ballot"
    prover: ClassVar[type[Prover]] = _Prover

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

    @cached_property
    def blocks(self) -> int:
        return -(-(self.plan.length // self.group) // self.used)

    @cached_property
    def numbers(self) -> str:
        return f"{self.group}"

    @cached_property
    def sizes(self) -> MatrixSizes:
        plaintext = self.key.degree * self.key.bits
        mask_bits = CHALLENGE_BITS + plaintext + self.plan.ciphertexts.bit_length() + HIDING_BITS
        quotient_bits = (self.plan.length + mask_bits).bit_length()
        first, second = self.blocks * self.group - (-mask_bits // self.used), -(-PRIMES * quotient_bits // self.used)
        constraints = first + second + (self.blocks if self.group > 1 else 0)
        return MatrixSizes(mask_bits, quotient_bits, first, second, constraints, equation_count=PRIMES)

    def votes(self, entries: Vector) -> Words:
        """Arrange entries (S,) as rows (blocks * group, used), one class of a block of samples each."""
        table = np.asarray(entries).reshape(-1, self.group).astype(np.uint64)
        return block_rows(table, self.used, np.zeros(self.group, dtype=np.uint64))

    def lookup(self, chain: ChallengeChain) -> None:
        """There is no other challenge."""

    def weights(self, factors: Sequence[mpz], primes: Sequence[int]) -> Weights:
        return Weights(primes, self.slot_weights(factors, primes), powers_modulo(2, self.sizes.mask_bits, primes))

    def linear_values(self, weights: Weights, lookup: None, combine: Words) -> Words:
        entries, mask = product(combine, weights.entries), product(combine, weights.mask)
        quotients = self.quotient_weights(weights, combine)
        rows = [
            np.concatenate([self.votes(of_entries), self.rows_of(of_mask), self.rows_of(of_quotients)])
            for of_entries, of_mask, of_quotients in zip(entries, mask, quotients, strict=True)
        ]
        return np.concatenate(rows)

    def constraints(self, rows: Words, lookup: None) -> Words:
        """Return x^2 - x of every row and, for several classes, of each sample's sum."""
        if self.group > 1:
            votes = rows[: self.blocks * self.group].reshape(self.blocks, self.group, -1)
            total = votes[:, 0]
            for place in range(1, self.group):
                total = add(total, votes[:, place])
            rows = np.concatenate([rows, total])
        return sub(mul(rows, rows), rows)

    def equations(self, rows: Words, linear: Words, combine: Words) -> Words:
        return column_sum(linear, rows)

    def target(self, z: mpz, primes: Sequence[int], combine: Words) -> int:
        return sum(int(g) * int(z % q) for g, q in zip(combine, primes, strict=True)) % PRIME

    def total(self, equation: Words) -> int:
        k = self.degree
        return int(add(equation[:1], equation[k : k + 1])[0]) * k % PRIME

    def balance(self, masks: Words) -> None:
        masks[:, 0] = sub(np.zeros(len(masks), np.uint64), masks[:, self.degree])
