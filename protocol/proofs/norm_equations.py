"""The equations of the proof that a vector is bounded: the sum of its squares is at most a bound B.

Products of whole entries do not fit into the field, so an entry v is split into n parts by its digits:
v = p_0 + C p_1 + ... + C^(n-1) p_(n-1), C a power of the base T. With Q_i the sum over all entries of the products
p_a p_b with a + b = i, the sum of the v^2 is the sum of the C^i Q_i. B less that sum is a slack that is not negative.
With its digits s_i and those of B, b_i, to the base C, and with carries k_i,

    Q_i + s_i + k_i = b_i + C k_(i+1)    for i = 0, ..., 2 n - 2,    k_0 = k_(2 n - 1) = 0,

which times C^i add up to the sum of the v^2 plus the slack = B. No term of them comes near to the field's order p, so
that they hold over the integers where they hold in the field (docs/security/proofs.md, theorem 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from psephos.protocol.proofs.field import PRIME, Words, add, mul, product

FEWEST_PARTS = 2
"""Fewest parts of an entry; more only where the sums of two do not fit into the field."""

Integers = NDArray[np.int64] | NDArray[np.object_]
"""Entries less the smallest one, (S,): Python's integers where they may be 2^62 or more."""

Parts = Sequence[NDArray[np.int64]]
"""The parts of every entry, the lowest first, (S,) each."""


@dataclass(frozen=True)
class EntrySplit:
    """How an entry is split into parts by its digits to the base T.

    `places` digits make each part, the lowest first, less its offset: the `offsets` are the parts of -minimum.
    """

    base: int
    places: tuple[int, ...]
    offsets: tuple[int, ...]

    @classmethod
    def of(cls, minimum: int, base: int, places: tuple[int, ...]) -> Self:
        return cls(base, places, tuple(radix_digits(-minimum, base ** places[0], len(places))))

    @classmethod
    def smallest(cls, minimum: int, base: int, digits: int, parts: int) -> Self:
        """Return the split into so many parts whose largest part is smallest."""
        of_parts = [
            (*[each] * (parts - 1), digits - each * (parts - 1)) for each in range(1, digits // (parts - 1) + 1)
        ]
        splits = [cls.of(minimum, base, places) for places in of_parts]
        return min(splits, key=lambda one: max(one.largest))

    @property
    def radix(self) -> int:
        return int(self.base ** self.places[0])

    @cached_property
    def largest(self) -> tuple[int, ...]:
        pairs = zip(self.places, self.offsets, strict=True)
        return tuple(max(offset, self.base**places - 1 - offset) for places, offset in pairs)

    def parts(self, shifted: Integers) -> Parts:
        pairs = zip(radix_digits(shifted, self.radix, len(self.places)), self.offsets, strict=True)
        return [number.astype(np.int64) - offset for number, offset in pairs]

    def parts_of_digits(self, digits: Words) -> list[Words]:
        """Return the parts as field elements, of digits, (digits, points), in or out of their range."""
        parts, first = [], 0
        for places, offset in zip(self.places, self.offsets, strict=True):
            negative = np.array((PRIME - offset) % PRIME, dtype=np.uint64)
            if places:
                scales = np.array([[self.base**place for place in range(places)]], dtype=np.uint64)
                parts.append(add(product(scales, digits[first : first + places])[0], negative))
            else:
                parts.append(np.full(digits.shape[1:], negative))
            first += places
        return parts


@dataclass(frozen=True)
class NormEquations:
    """The equations for the bound B and at most `points` entries, those that fill the last block included."""

    split: EntrySplit
    points: int
    bound: int

    @classmethod
    def of(cls, minimum: int, base: int, digits: int, points: int, bound: int) -> Self:
        """Return the equations of the fewest parts that fit into the field, or of one digit a part if none do."""
        for parts in range(FEWEST_PARTS, digits + 2):
            equations = cls(EntrySplit.smallest(minimum, base, digits, parts), points, bound)
            if equations.fits:
                break
        return equations

    @property
    def fits(self) -> bool:
        """Whether in every equation the absolute values of all terms add up to less than 2^63, which is below p."""
        return max(self._largest_sums()) >> 63 == 0

    @property
    def count(self) -> int:
        return 2 * len(self.split.places) - 1

    @cached_property
    def pairs(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        parts = range(len(self.split.places))
        return tuple(tuple((a, i - a) for a in parts if i - a in parts) for i in range(self.count))

    @cached_property
    def _most(self) -> tuple[int, ...]:
        largest = self.split.largest
        return tuple(self.points * sum(largest[a] * largest[b] for a, b in pairs) for pairs in self.pairs)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """What is added to each of k_1, ..., k_(2 n - 2), so that it is not negative. Q_0 is not, so neither is k_1."""
        offsets = [0]
        for most in self._most[1:-1]:
            offsets.append((most + offsets[-1]) // self.split.radix + 1)
        return tuple(offsets)

    @cached_property
    def auxiliary(self) -> tuple[tuple[int, ...], ...]:
        """The weights of the digits of the slack, then of the carries plus their `offsets`, as large as they can be."""
        radix, carry, carries = self.split.radix, 0, []
        for most, offset in zip(self._most[:-1], self.offsets, strict=True):
            carry = (most + radix + carry) // radix
            carries.append(offset + carry)
        slack = (*[radix - 1] * (self.count - 1), self.bound // radix ** (self.count - 1))
        return tuple(_digit_weights(top, self.split.base) for top in (*slack, *carries))

    @cached_property
    def bound_parts(self) -> tuple[int, ...]:
        return self._radix_digits(self.bound)

    def _radix_digits(self, number: int) -> tuple[int, ...]:
        return tuple(radix_digits(number, self.split.radix, self.count))

    def _largest_sums(self) -> Iterator[int]:
        """Yield a bound of both sides' absolute values together, of each equation."""
        radix, reach = self.split.radix, [sum(weights) * (self.split.base - 1) for weights in self.auxiliary]
        slack, carries = reach[: self.count], [0, *reach[self.count :], 0]
        of_bound = [*[radix] * (self.count - 1), self.bound_parts[-1]]
        for most, digit, part, (below, above) in zip(self._most, slack, of_bound, pairwise(carries), strict=True):
            yield most + digit + below + part + radix * above

    def sums(self, shifted: Integers) -> list[int]:
        parts = self.split.parts(shifted)
        return [sum(int(parts[a] @ parts[b]) for a, b in pairs) for pairs in self.pairs]

    def sum_of_squares(self, shifted: Integers) -> int:
        return sum(total * self.split.radix**i for i, total in enumerate(self.sums(shifted)))

    def slack_and_carries(self, shifted: Integers) -> list[int]:
        """Return the s_i and the carries plus their `offsets`, for entries within the bound."""
        slack = self._radix_digits(self.bound - self.sum_of_squares(shifted))
        carry, carries = 0, []
        terms = zip(self.sums(shifted), slack, self.bound_parts, strict=True)
        for (total, digit, of_bound), offset in zip(terms, self.offsets, strict=False):
            carry = (total + digit + carry - of_bound) // self.split.radix
            carries.append(carry + offset)
        return [*slack, *carries]

    def digits(self, numbers: Sequence[int]) -> list[int]:
        """Return the digits of slack and carries, in the order of `auxiliary`."""
        pairs = zip(numbers, self.auxiliary, strict=True)
        return [digit for number, weights in pairs for digit in _digits(number, weights, self.split.base)]

    @cached_property
    def weights(self) -> Words:
        count, rows = self.count, []
        for i in range(count):
            factors = [int(j == i) for j in range(count)]  # of the slack
            factors += [int(j == i) - self.split.radix * int(j == i + 1) for j in range(1, count)]  # of the carries
            scaled = zip(factors, self.auxiliary, strict=True)
            rows.append([factor * weight % PRIME for factor, weights in scaled for weight in weights])
        return np.array(rows, dtype=np.uint64)

    @cached_property
    def targets(self) -> tuple[int, ...]:
        """What each equation sums to: the b_i, corrected for the offsets of the carries. May be negative."""
        offsets = (0, *self.offsets, 0)
        return tuple(
            part + below - self.split.radix * above
            for part, (below, above) in zip(self.bound_parts, pairwise(offsets), strict=True)
        )

    def combined_squares(self, parts: Sequence[Words], combine: Words) -> Words:
        """Return the sum of g_i times what Q_i is of one entry, for parts of entries, (...) each, and g, (2 n - 1,)."""
        total = np.zeros_like(parts[0])
        for a, part in enumerate(parts):
            factor = mul(part, combine[2 * a, None])
            for b in range(a + 1, len(parts)):
                factor = add(factor, mul(parts[b], add(combine[a + b, None], combine[a + b, None])))
            total = add(total, mul(part, factor))
        return total


def radix_digits(number: Any, radix: int, count: int) -> list[Any]:
    """Return so many digits of a number, or of each of an array, the lowest first; the last is the rest."""
    digits = []
    for _ in range(count - 1):
        digits.append(number % radix)
        number = number // radix
    return [*digits, number]


def digit_count(top: int | mpz, base: int) -> int:
    """Return the least n with base^n > top."""
    count, reach = 1, mpz(base)
    while reach <= top:
        count, reach = count + 1, reach * base
    return count


def _digit_weights(top: int, base: int) -> tuple[int, ...]:
    """Return powers of the base, the last reduced, whose digits reach 0 to top, and nothing above top + base."""
    count = digit_count(top, base)
    powers_below = tuple(base**place for place in range(count - 1))
    if not powers_below:
        return (1,)
    return (*powers_below, -(-(top + 1 - base ** (count - 1)) // (base - 1)))


def _digits(number: int, weights: Sequence[int], base: int) -> list[int]:
    last = min(base - 1, number // weights[-1])
    rest = number - last * weights[-1]
    return [rest // weight % base for weight in weights[:-1]] + [last]
