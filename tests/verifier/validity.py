"""The proof that a ballot is a valid vote, by section 6.4 of docs/wire.md."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tests.verifier.hashproof import DEGREES, PRIMES, Chain, Matrix, P, Shape, rows_of
from tests.verifier.paillier import Key


class Layout(Shape):
    """The shape of the committed matrix."""

    label = "psephos valid ballot"
    equation_count = PRIMES

    def __init__(self, key: Key, length: int, radix: int, slots: int, count: int, group: int, degree: int) -> None:
        super().__init__(key, degree)
        self.length, self.radix, self.slots, self.group = length, radix, slots, group
        self.blocks = -(-(length // group) // self.used)
        mask_bits = 128 + key.degree * key.bits + count.bit_length() + 80
        self.quotient_bits = (length + mask_bits).bit_length()
        self.vote_rows = self.blocks * group
        first = self.vote_rows + -(-mask_bits // self.used)
        self.measure(mask_bits, first, -(-PRIMES * self.quotient_bits // self.used))
        self.sums = self.blocks if group > 1 else 0
        self.constraint_count = self.first + self.second + self.sums

    @property
    def numbers(self) -> str:
        return f"{self.group}"

    def lookup(self, chain: Chain) -> None:
        pass

    def constraints(self, rows: Matrix, lookup: None) -> Matrix:
        groups = (rows[block * self.group : (block + 1) * self.group] for block in range(self.sums))
        tested = np.concatenate([rows, *(members.sum(axis=0)[None] % P for members in groups)])
        squares: Matrix = tested * (tested - 1) % P
        return squares

    def linear(self, factors: Sequence[int], primes: Sequence[int], lookup: None, combine: Sequence[int]) -> Matrix:
        entries, mask, quotients = [0] * self.length, [0] * self.mask_bits, []
        for prime, coefficient in zip(primes, combine, strict=True):
            for place in range(self.length):
                which, slot = divmod(place, self.slots)
                weight = factors[which] % prime * pow(self.radix, slot, prime) % prime
                entries[place] = (entries[place] + coefficient * weight) % P
            for bit in range(self.mask_bits):
                mask[bit] = (mask[bit] + coefficient * pow(2, bit, prime)) % P
            quotients += [coefficient * (P - prime) * (1 << bit) % P for bit in range(self.quotient_bits)]
        rows = self._vote_rows(entries) + rows_of(mask, self.used) + rows_of(quotients, self.used)
        return np.array(rows, dtype=object)

    def _vote_rows(self, entries: list[int]) -> list[list[int]]:
        rows = [[0] * self.used for _ in range(self.vote_rows)]
        for place, entry in enumerate(entries):
            sample, which = divmod(place, self.group)
            block, column = divmod(sample, self.used)
            rows[block * self.group + which][column] = entry
        return rows

    def equation(self, rows: Matrix, linear: Matrix, combine: Sequence[int]) -> Matrix:
        summed: Matrix = (linear * rows).sum(axis=0)
        return summed

    def total(self, values: Sequence[int]) -> int:
        return sum(values) % P


@lru_cache(maxsize=64)
def layout_of(key: Key, length: int, radix: int, slots: int, count: int, group: int) -> Layout:
    layouts = [Layout(key, length, radix, slots, count, group, degree) for degree in DEGREES]
    return min(layouts, key=lambda one: one.least)
