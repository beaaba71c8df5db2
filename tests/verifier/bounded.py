"""The proof that a vector is bounded, by section 6.10 of docs/wire.md: every entry in a range, and its length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from itertools import product as product_of
from typing import Any

import numpy as np
from gmpy2 import iroot, mpz

from tests.verifier.board import require
from tests.verifier.hashproof import DEGREES, PRIMES, Chain, Matrix, P, Packing, Shape, inverses, rows_of

LARGEST_BASE, MOST_DIGITS = 1 << 14, 8
Table = tuple[list[int], list[int]]


def _up(top: int, base: int) -> int:
    """The least c with base^c > top."""
    count, reach = 1, mpz(base)
    while reach <= top:
        count, reach = count + 1, reach * base
    return count


def digit_weights(top: int, base: int) -> list[int]:
    """What the digits of a number up to `top` are multiplied by."""
    count = _up(top, base)
    if count == 1:
        return [1]
    last = base ** (count - 1)
    return [base**place for place in range(count - 1)] + [-((last - top - 1) // (base - 1))]


class Norm:
    """The equations of the norm of entries that are split into parts."""

    def __init__(self, low: int, base: int, places: tuple[int, ...]) -> None:
        self.base, self.places, self.radix, self.count = base, places, base ** places[0], 2 * len(places) - 1
        self.parts = _digits_of(-low, self.radix, len(places))
        tops = zip(self.parts, places, strict=True)
        self.largest = [max(part, base**digits - 1 - part) for part, digits in tops]

    def settle(self, places: int, bound: int) -> None:
        """Find carries, weights and what the equations sum to, for so many places."""
        Z, count, h = self.radix, self.count, self.largest
        p = [places * sum(h[c] * h[i - c] for c in range(len(h)) if 0 <= i - c < len(h)) for i in range(count)]
        b, top, offset, offsets, tops = _digits_of(bound, Z, count), 0, 0, [0], list[int]()
        for i in range(1, count):
            top, offset = (p[i - 1] + Z + top) // Z, 0 if i == 1 else (p[i - 1] + offset) // Z + 1
            offsets.append(offset)
            tops.append(top + offset)
        self.auxiliary = [digit_weights(top, self.base) for top in [*[Z - 1] * (count - 1), b[-1], *tops]]
        reach = [(self.base - 1) * sum(weights) for weights in self.auxiliary]
        s, k, offsets = reach[:count], [0, *reach[count:], 0], [*offsets, 0]
        sums = [p[i] + s[i] + k[i] + (b[i] if i == count - 1 else Z) + Z * k[i + 1] for i in range(count)]
        self.fits = max(sums) < 1 << 63
        self.sides = [b[i] + offsets[i] - Z * offsets[i + 1] for i in range(count)]


def _digits_of(number: int, radix: int, count: int) -> list[int]:
    """The digits of a number, the last being the rest."""
    digits = []
    for _ in range(count - 1):
        number, digit = divmod(number, radix)
        digits.append(digit)
    return [*digits, number]


class Layout(Shape):
    """The shape of the committed matrices."""

    label = "psephos bounded ballot"

    def __init__(self, packing: Packing, bound: int, base: int, digits: int, degree: int) -> None:
        super().__init__(packing, degree)
        length, self.bound, self.base, self.digits = packing.length, bound, base, digits
        self.numbers, self.summed = f"{bound} {base} {digits}", self.used
        self.blocks = -(-length // self.used)
        plaintext = int((mpz(packing.radix) ** min(packing.slots, length)).bit_length())
        hidden = 128 + plaintext + packing.count.bit_length() + 80
        self.mask_digits = _up(1 << hidden, base)
        places = self.blocks * self.used
        self.norm = next((one for one in self._norms(places) if one.fits), None) or list(self._norms(places))[-1]
        self.auxiliary, self.sides = self.norm.auxiliary, [*self.norm.sides, 0, 0]
        self.linked = length * digits + self.mask_digits
        self.quotient_bits = (self.linked * (base - 1)).bit_length()
        loose = self.mask_digits + sum(map(len, self.auxiliary))
        self.entry_rows = self.blocks * digits
        self.digit_rows = self.entry_rows + -(-loose // self.used)
        self.quotient_rows = -(-PRIMES * self.quotient_bits // self.used)
        self.constraint_count = 2 * self.digit_rows + self.quotient_rows
        self.equation_count = PRIMES + self.norm.count + 2
        mask_bits = int((mpz(base) ** self.mask_digits).bit_length())
        self.measure(mask_bits, self.digit_rows + -(-base // self.used), self.constraint_count)
        self.cost = len(self.norm.places) > 2, self.least
        linked = (1 << 31) * (self.linked * (base - 1) + (1 << self.quotient_bits))
        self.fits = length < 1 << 24 and linked < 1 << 63 and self.norm.fits

    def _norms(self, places: int) -> Iterator[Norm]:
        """The equations of the norm for each number of parts."""
        for parts in range(2, self.digits + 2):
            several = [
                Norm(self.packing.minimum, self.base, (*[each] * (parts - 1), self.digits - each * (parts - 1)))
                for each in range(1, self.digits // (parts - 1) + 1)
            ]
            norm = min(several, key=lambda one: max(one.largest))
            norm.settle(places, self.bound)
            yield norm

    def lookup(self, chain: Chain) -> tuple[tuple[int, int], Table]:
        first, *others = chain.elements("alpha", 8)
        alpha = first, next((other for other in others if other), 1)
        return alpha, _table(self.base, alpha)

    def constraints(self, rows: Matrix, lookup: Any) -> Matrix:
        alpha, _table = lookup
        D, F = self.digit_rows, self.first
        digits, h0, h1, bits = rows[:D], rows[F : F + D], rows[F + D : F + 2 * D], rows[F + 2 * D :]
        real = (digits + alpha[0]) * h0 + 7 * alpha[1] * h1 - 1
        other = (digits + alpha[0]) * h1 + alpha[1] * h0
        return np.concatenate([real, other, bits * bits - bits]) % P

    def linear(self, factors: Sequence[int], primes: Sequence[int], lookup: Any, combine: Sequence[int]) -> Matrix:
        entries, mask, quotients = self.links(factors, primes, combine)
        *of_norm, of_first, of_second = combine[PRIMES:]
        radix = self.norm.radix
        of_parts = [*of_norm, *(upper - radix * lower for lower, upper in pairwise(of_norm))]
        others = [of * weight % P for of, weights in zip(of_parts, self.auxiliary, strict=True) for weight in weights]
        occurrences = [-(of_first * one + of_second * two) % P for one, two in zip(*lookup[1], strict=True)]
        of_blocks = []
        for block in range(self.blocks):
            inside = entries[block * self.used : (block + 1) * self.used]
            inside += [[0] * self.digits] * (self.used - len(inside))
            of_blocks += [list(row) for row in zip(*inside, strict=True)]
        used = self.used
        rows = of_blocks + rows_of(mask + others, used) + rows_of(occurrences, used) + rows_of(quotients, used)
        return np.array(rows, dtype=object)

    def equation(self, rows: Matrix, linear: Matrix, combine: Sequence[int]) -> Matrix:
        D, F = self.digit_rows, self.first
        equation = (linear * np.concatenate([rows[:F], rows[F + 2 * D :]])).sum(axis=0)
        for component, coefficient in enumerate(combine[-2:]):
            of_component = rows[F + component * D : F + (component + 1) * D]
            equation = equation + coefficient * of_component.sum(axis=0)
        return equation + self._squares(rows[: self.entry_rows], combine[PRIMES:-2])

    def _squares(self, rows: Matrix, combine: Sequence[int]) -> Matrix:
        """What the products of the entries' parts add to the equations, in each column."""
        total = np.zeros(rows.shape[1], dtype=object)
        norm = self.norm
        for block in range(self.blocks):
            digits, parts, first = rows[block * self.digits : (block + 1) * self.digits], list[Any](), 0
            for places, offset in zip(norm.places, norm.parts, strict=True):
                parts.append(sum(self.base**place * digits[first + place] for place in range(places)) - offset)
                first += places
            for (c, left), (d, right) in product_of(enumerate(parts), repeat=2):
                total = total + combine[c + d] * left * right
        return total % P


def _shortest(packing: Packing, bound: int | None) -> Layout:
    """The layout with the shortest proof, for a bound of the squares or, for none, after the range is widened."""
    width, layouts = packing.maximum - packing.minimum + 1, list[Layout]()
    for digits in range(1, MOST_DIGITS + 1):
        base = int(iroot(mpz(width - 1), digits)[0]) + 1
        excess = base**digits - width
        if 2 <= base <= LARGEST_BASE and (bound is None or not excess):
            low, high = packing.minimum - excess // 2, packing.maximum + excess - excess // 2
            wide = replace(packing, minimum=low, maximum=high)
            squares = wide.length * max(-low, high) ** 2 if bound is None else bound
            layouts += [Layout(wide, squares, base, digits, degree) for degree in DEGREES]
    layouts = [layout for layout in layouts if layout.fits]
    require(layouts, "no proof shows that such entries are bounded")
    return min(layouts, key=lambda one: one.cost)


@lru_cache(maxsize=64)
def widened(packing: Packing) -> Packing:
    """The packing whose range is a power, and that has the shortest proof."""
    return _shortest(packing, None).packing


@lru_cache(maxsize=64)
def layout_of(packing: Packing, bound: int) -> Layout:
    """The layout with the shortest proof."""
    longest = packing.length * max(-packing.minimum, packing.maximum) ** 2
    require(0 <= bound <= longest, "the bound of the squares is out of range")
    return _shortest(packing, bound)


def _table(base: int, alpha: tuple[int, int]) -> Table:
    """1/(alpha + t) for t below the base: a0 + a1 X modulo X^2 - 7 has the inverse (a0 - a1 X)/(a0^2 - 7 a1^2)."""
    norms = [(pow(alpha[0] + t, 2, P) - 7 * alpha[1] ** 2) % P for t in range(base)]
    scales = inverses(norms)
    return (
        [(alpha[0] + t) * scale % P for t, scale in enumerate(scales)],
        [-alpha[1] * scale % P for scale in scales],
    )
