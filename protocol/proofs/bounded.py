"""Proof that a ballot is bounded: every entry in the range of its plan, and the sum of their squares at most a bound.

The steps of `psephos.protocol.proofs.codewords`, with three differences (docs/security/proofs.md, theorem 4).

* *Range.* The range of the plan has exactly T^j integers. An entry less the plan's minimum is written in j digits to
  the base T, and a look-up (LogUp: Haboeck 2022) shows that every digit d is one of 0, ..., T - 1: the sender commits
  to the digits and to how often each value t occurs, m_t, before a challenge alpha in the field of p^2 elements, then
  to h = 1/(alpha + d) for every digit; and the h sum to the sum of m_t/(alpha + t).
* *Norm.* The bound less the sum of squares is a slack that is not negative (`norm_equations`); slack and carries are
  committed as digits, too.
* *Mask.* mu has digits to the base T, not bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import gmpy2
import numpy as np
from gmpy2 import mpz

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.packing import PackingPlan, decompose
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
from psephos.protocol.proofs.field import (
    NONRESIDUE,
    PRIME,
    Words,
    add,
    column_sum,
    ext_inverse,
    mul,
    product,
    sub,
)
from psephos.protocol.proofs.norm_equations import FEWEST_PARTS, Integers, NormEquations, digit_count, radix_digits

LARGEST_BASE = 1 << 14
"""Largest T: the look-up table has T entries, which every proof and every check computes."""

MOST_DIGITS = 8
"""Largest number of digits of an entry."""

Table = tuple[Words, Words]
"""Elements of the field of p^2 elements: the two components of each."""

Lookup = tuple[tuple[int, int], Table]
"""The challenge alpha, and 1/(alpha + t) for t = 0, ..., T - 1."""


def bounded_plan(key: PublicKey, *, length: int, addends: int, minimum: int, maximum: int) -> PackingPlan:
    """Return the plan with the shortest proof whose range, of T^j integers, contains [minimum, maximum].

    Entries outside [minimum, maximum] but within the result's range can be proved.
    """
    layouts: list[BoundedLayout] = []
    width = maximum - minimum + 1
    for digits in range(1, MOST_DIGITS + 1):
        base = int(gmpy2.iroot(mpz(width - 1), digits)[0]) + 1
        excess = base**digits - width
        if base > LARGEST_BASE or base < 2:
            continue
        low, high = minimum - excess // 2, maximum + excess - excess // 2
        plan = PackingPlan.for_key(key, length=length, addends=addends, minimum=low, maximum=high)
        layouts += _layouts(key, plan, length * max(-low, high) ** 2, base, digits)
    if not layouts:
        raise InvalidParameter(_TOO_WIDE.format(length, minimum, maximum))
    return min(layouts, key=lambda one: one.cost).plan


_TOO_WIDE = (
    "no proof of bounds exists for {} entries in [{}, {}]: they or their sum of squares do not fit into the field, or "
    "the range is not a power; choose proofs='knowledge', or a coarser grid, and the range with `bounded_plan`"
)


class _Prover(Prover):
    layout: BoundedLayout

    @cached_property
    def shifted(self) -> Integers:
        return self.layout.shifted(self.entries)

    def draw_mask(self) -> mpz:
        return mpz(self.randomness.below(self.layout.base**self.layout.mask_digits))

    def first_messages(self, mu: mpz) -> Words:
        layout = self.layout
        self.digits, self.loose = self.entry_digits(), self.loose_digits(mu)
        self.committed = layout.rows_of_digits(self.digits, self.loose)
        return np.concatenate([self.committed, layout.rows_of(self.multiplicities(self.committed))])

    def second_messages(self, weights: Weights, lookup: Lookup, z: mpz) -> Words:
        quotients = self.quotients(weights, self.digits, self.loose[: self.layout.mask_digits], z)
        return np.concatenate([*self.inverses(self.committed, *lookup), quotients])

    def entry_digits(self) -> Words:
        return self.layout.entry_digits(self.shifted)

    def loose_digits(self, mu: mpz) -> Words:
        layout = self.layout
        mask = decompose(mu, mpz(layout.base), layout.mask_digits)
        others = layout.norm.digits(layout.norm.slack_and_carries(self.shifted))
        return np.array(mask + others, dtype=np.uint64)

    def multiplicities(self, digits: Words) -> Words:
        return np.bincount(digits.reshape(-1).astype(np.int64), minlength=self.layout.base).astype(np.uint64)

    def inverses(self, digits: Words, alpha: tuple[int, int], table: Table) -> Table:
        """Return 1/(alpha + d) for every digit, the shape of the digits each; honest ones are in the table."""
        return table[0][digits.astype(np.intp)], table[1][digits.astype(np.intp)]


@dataclass(frozen=True)
class BoundedLayout(MatrixLayout):
    """The layout of the committed matrices; `of` chooses base T, digits j and degree k.

    Attributes:
        plan: its range has base^digits integers, as that of `bounded_plan`.
        square_bound: the largest sum of squares of the entries that can be proved.
    """

    label: ClassVar[str] = "psephos bounded ballot"
    prover: ClassVar[type[Prover]] = _Prover

    key: PublicKey
    plan: PackingPlan
    square_bound: int
    base: int
    digits: int
    degree: int

    def __post_init__(self) -> None:
        plan = self.plan
        if not 2 <= self.base <= LARGEST_BASE or not 1 <= self.digits <= MOST_DIGITS:
            raise InvalidParameter(f"there are no digits of base {self.base}, {self.digits} of them")
        if self.base**self.digits != plan.maximum - plan.minimum + 1 or self.degree not in DEGREES:
            raise InvalidParameter(f"the range is not of {self.base}^{self.digits} integers; use bounded_plan")
        if not 0 <= self.square_bound <= plan.length * max(-plan.minimum, plan.maximum) ** 2:
            raise InvalidParameter(f"no {plan.length} entries can have squares that sum to {self.square_bound}")
        linked = (1 << 31) * (self._linked * (self.base - 1) + (1 << self.sizes.quotient_bits))
        if plan.length >= 1 << 24 or linked >> 63 or not self.norm.fits:
            raise InvalidParameter(_TOO_WIDE.format(plan.length, plan.minimum, plan.maximum))

    @classmethod
    def of(cls, key: PublicKey, plan: PackingPlan, square_bound: int) -> Self:
        width, layouts = mpz(plan.maximum - plan.minimum + 1), []
        for digits in range(1, MOST_DIGITS + 1):
            base, exact = gmpy2.iroot(width, digits)
            if exact and 2 <= base <= LARGEST_BASE:
                layouts += list(_layouts(key, plan, square_bound, int(base), digits))
        if not layouts:
            raise InvalidParameter(_TOO_WIDE.format(plan.length, plan.minimum, plan.maximum))
        layout = min(layouts, key=lambda one: one.cost)
        return cls(key, plan, square_bound, layout.base, layout.digits, layout.degree)

    @cached_property
    def norm(self) -> NormEquations:
        points = self.blocks * self.used
        return NormEquations.of(self.plan.minimum, self.base, self.digits, points, self.square_bound)

    @cached_property
    def cost(self) -> tuple[bool, int]:
        """What the layout of a ballot has least of: more than two parts of an entry, then bytes."""
        return len(self.norm.split.places) > FEWEST_PARTS, self.least_bytes

    @cached_property
    def numbers(self) -> str:
        return f"{self.square_bound} {self.base} {self.digits}"

    @cached_property
    def blocks(self) -> int:
        return -(-self.plan.length // self.used)

    @cached_property
    def mask_digits(self) -> int:
        plaintext = (mpz(self.plan.radix) ** min(self.plan.slots_per_plaintext, self.plan.length)).bit_length()
        bits = CHALLENGE_BITS + plaintext + self.plan.ciphertexts.bit_length() + HIDING_BITS
        return digit_count(mpz(1) << bits, self.base)

    @cached_property
    def _linked(self) -> int:
        return self.plan.length * self.digits + self.mask_digits

    @cached_property
    def digit_rows(self) -> int:
        loose = self.mask_digits + sum(len(weights) for weights in self.norm.auxiliary)
        return self.blocks * self.digits + -(-loose // self.used)

    @cached_property
    def sizes(self) -> MatrixSizes:
        quotient_bits = (self._linked * (self.base - 1)).bit_length()
        second = 2 * self.digit_rows - (-PRIMES * quotient_bits // self.used)
        return MatrixSizes(
            mask_bits=int((mpz(self.base) ** self.mask_digits).bit_length()),
            quotient_bits=quotient_bits,
            first_rows=self.digit_rows - (-self.base // self.used),
            second_rows=second,
            constraint_count=second,
            equation_count=PRIMES + self.norm.count + 2,  # the look-up has two components
        )

    def admits(self, entries: Vector) -> bool:
        """Return whether a vector of integers, (S,), is in the range of the plan and within the bound."""
        if min(entries) < self.plan.minimum or max(entries) > self.plan.maximum:
            return False
        return self.norm.sum_of_squares(self.shifted(entries)) <= self.square_bound

    def shifted(self, entries: Vector) -> Integers:
        minimum = self.plan.minimum
        if self.plan.maximum - minimum < 1 << 62:
            return np.asarray(entries, dtype=np.int64) - minimum
        return np.array([int(entry) - minimum for entry in entries], dtype=np.object_)

    def entry_digits(self, shifted: Integers) -> Words:
        digits = radix_digits(shifted, self.base, self.digits)
        return np.stack([digit.astype(np.uint64) for digit in digits], axis=1)

    def rows_of_digits(self, entries: Words, loose: Words) -> Words:
        """Arrange digits as rows (digit_rows, used); the places of the last block beyond S hold an entry 0."""
        zero = self.entry_digits(self.shifted([0]))[0]
        return np.concatenate([block_rows(entries, self.used, zero), self.rows_of(loose)])

    def lookup(self, chain: ChallengeChain) -> Lookup:
        alpha = _alpha(chain)
        shifted = add(np.arange(self.base, dtype=np.uint64), _word(alpha[0]))
        inverses = ext_inverse(np.stack([shifted, np.full(self.base, alpha[1], dtype=np.uint64)]))
        return alpha, (inverses[0], inverses[1])

    def weights(self, factors: Sequence[mpz], primes: Sequence[int]) -> Weights:
        scales = powers_modulo(self.base, max(self.digits, self.mask_digits), primes)
        moduli = np.array(primes, dtype=np.uint64)[:, None, None]
        entries = self.slot_weights(factors, primes)[:, :, None] * scales[:, None, : self.digits] % moduli
        return Weights(primes, entries.reshape(len(primes), -1), scales[:, : self.mask_digits])

    def linear_values(self, weights: Weights, lookup: Lookup, combine: Words) -> Words:
        of_primes, of_norm, of_lookup = combine[:, :PRIMES], combine[:, PRIMES:-2], combine[:, -2:]
        entries, mask = product(of_primes, weights.entries), product(of_primes, weights.mask)
        loose = np.concatenate([mask, product(of_norm, self.norm.weights)], axis=1)
        occurrences = product(sub(np.zeros_like(of_lookup), of_lookup), np.stack(lookup[1]))
        quotients = self.quotient_weights(weights, of_primes)
        nothing = np.zeros(self.digits, dtype=np.uint64)
        rows = []
        for repeat in range(len(combine)):
            of_entries = block_rows(entries[repeat].reshape(-1, self.digits), self.used, nothing)
            others = (loose[repeat], occurrences[repeat], quotients[repeat])
            rows.append(np.concatenate([of_entries, *(self.rows_of(one) for one in others)]))
        return np.concatenate(rows)

    def target(self, z: mpz, primes: Sequence[int], combine: Words) -> int:
        sides = [*(int(z % prime) for prime in primes), *self.norm.targets, 0, 0]
        return sum(int(g) * side for g, side in zip(combine, sides, strict=True)) % PRIME

    def equations(self, rows: Words, linear: Words, combine: Words) -> Words:
        first, inverses = self.sizes.first_rows, 2 * self.digit_rows
        total = add(column_sum(linear[:first], rows[:first]), column_sum(linear[first:], rows[first + inverses :]))
        for component, coefficient in enumerate(combine[-2:]):
            begin = first + component * self.digit_rows
            total = add(total, mul(column_sum(rows[begin : begin + self.digit_rows]), coefficient[None]))
        return add(total, self._squares(rows[: self.blocks * self.digits], combine[PRIMES:-2]))

    def _squares(self, rows: Words, combine: Words) -> Words:
        points = rows.shape[1]
        digits = rows.reshape(self.blocks, self.digits, points).transpose(1, 0, 2).reshape(self.digits, -1)
        squares = self.norm.combined_squares(self.norm.split.parts_of_digits(digits), combine)
        return column_sum(squares.reshape(self.blocks, points))

    def total(self, equation: Words) -> int:
        return int(column_sum(self.used_values(equation[None])[0]))

    def balance(self, masks: Words) -> None:
        sums = column_sum(self.used_values(masks).T)
        masks[:, 0] = sub(masks[:, 0], mul(sums, _word(pow(self.used, -1, PRIME))))

    def constraints(self, rows: Words, lookup: Lookup) -> Words:
        """Return both components of (alpha + d) h - 1 for every digit, and x^2 - x for every bit of a quotient."""
        alpha, _table = lookup
        digits, inverses = rows[: self.digit_rows], rows[self.sizes.first_rows :]
        h0, h1 = inverses[: self.digit_rows], inverses[self.digit_rows : 2 * self.digit_rows]
        bits = inverses[2 * self.digit_rows :]
        shifted = add(digits, _word(alpha[0]))
        real = sub(add(mul(shifted, h0), mul(h1, _word(NONRESIDUE * alpha[1] % PRIME))), _word(1))
        other = add(mul(shifted, h1), mul(h0, _word(alpha[1])))
        return np.concatenate([real, other, sub(mul(bits, bits), bits)])


def _layouts(key: PublicKey, plan: PackingPlan, square_bound: int, base: int, digits: int) -> Iterator[BoundedLayout]:
    for degree in DEGREES:
        try:
            yield BoundedLayout(key, plan, square_bound, base, digits, degree)
        except InvalidParameter:
            continue


def _word(number: int) -> Words:
    return np.array(number, dtype=np.uint64)


def _alpha(chain: ChallengeChain) -> tuple[int, int]:
    """Return the challenge of the look-up, an element of the field of p^2 elements outside that of p elements."""
    first, *others = chain.elements("alpha", (8,)).tolist()
    return first, next((other for other in others if other), 1)
