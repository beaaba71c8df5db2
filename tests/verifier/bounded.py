"""The proof that a vector is bounded, by section 6.10 of docs/wire.md: every entry in a range, and its length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from itertools import product as product_of
from typing import Any

import numpy as np
from gmpy2 import iroot, mpz, powmod
from numpy.typing import NDArray

from tests.verifier.board import Bytes, Refused, require
from tests.verifier.paillier import Key, challenges, little, product, same_up_to_sign
from tests.verifier.validity import (
    PRIMES,
    QUERIES,
    RATE,
    REPEATS,
    SALT,
    Chain,
    P,
    field_words,
    opened_columns,
    root_of_unity,
    slots_of,
    transform,
)

LABEL = "psephos bounded ballot"
LARGEST_BASE, MOST_DIGITS, DEGREES = 1 << 14, 8, (256, 512, 1024)
Matrix = NDArray[Any]
"""Of Python's integers, modulo P."""


@dataclass(frozen=True)
class Packing:
    """How vectors are packed: their length, the range of an entry, and how many are added."""

    key: Key
    length: int
    addends: int
    minimum: int
    maximum: int

    @cached_property
    def radix(self) -> int:
        return self.addends * (self.maximum - self.minimum) + 1

    @cached_property
    def slots(self) -> int:
        return slots_of(self.radix, self.key.degree * (self.key.bits - 1))

    @cached_property
    def count(self) -> int:
        """The number of ciphertexts of a vector."""
        require(self.slots, "an entry does not fit into a plaintext")
        return -(-self.length // self.slots)


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


class Layout:
    """The shape of the committed matrices."""

    def __init__(self, packing: Packing, bound: int, base: int, digits: int, degree: int) -> None:
        key, length = packing.key, packing.length
        self.packing, self.bound, self.base, self.digits, self.degree = packing, bound, base, digits, degree
        self.used, self.size = degree - QUERIES, RATE * degree
        self.blocks = -(-length // self.used)
        plaintext = int((mpz(packing.radix) ** min(packing.slots, length)).bit_length())
        hidden = 128 + plaintext + packing.count.bit_length() + 80
        self.mask_digits = _up(1 << hidden, base)
        self.mask_bits = int((mpz(base) ** self.mask_digits).bit_length())
        places = self.blocks * self.used
        self.norm = next((one for one in self._norms(places) if one.fits), None) or list(self._norms(places))[-1]
        self.auxiliary = self.norm.auxiliary
        self.linked = length * digits + self.mask_digits
        self.quotient_bits = (self.linked * (base - 1)).bit_length()
        loose = self.mask_digits + sum(map(len, self.auxiliary))
        self.entry_rows = self.blocks * digits
        self.digit_rows = self.entry_rows + -(-loose // self.used)
        self.first = self.digit_rows + -(-base // self.used)
        self.quotient_rows = -(-PRIMES * self.quotient_bits // self.used)
        self.second = 2 * self.digit_rows + self.quotient_rows
        self.z_bytes, self.w_bytes = (self.mask_bits + 8) // 8, (key.mask_bits + 8) // 8
        rows = self.first + self.second + 3 * REPEATS
        self.cost = len(self.norm.places) > 2, 8 * (QUERIES * rows + 5 * REPEATS * degree)
        committed = 64 + key.size + self.z_bytes + self.w_bytes + 8 * 5 * REPEATS * degree
        self.longest = committed + QUERIES * (2 * SALT + 8 * rows) + 2 * (2 + QUERIES * 32 * self.size.bit_length())
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


def _layouts(packing: Packing, bound: int, base: int, digits: int) -> Iterator[Layout]:
    for degree in DEGREES:
        layout = Layout(packing, bound, base, digits, degree)
        if layout.fits:
            yield layout


@lru_cache(maxsize=64)
def widened(packing: Packing) -> Packing:
    """The packing whose range is a power, and that has the shortest proof."""
    width = packing.maximum - packing.minimum + 1
    layouts: list[Layout] = []
    for digits in range(1, MOST_DIGITS + 1):
        base = int(iroot(mpz(width - 1), digits)[0]) + 1
        if 2 <= base <= LARGEST_BASE:
            excess = base**digits - width
            low, high = packing.minimum - excess // 2, packing.maximum + excess - excess // 2
            wide = Packing(packing.key, packing.length, packing.addends, low, high)
            layouts += _layouts(wide, wide.length * max(-low, high) ** 2, base, digits)
    require(layouts, "no proof shows that so wide entries are in range")
    return min(layouts, key=lambda one: one.cost).packing


@lru_cache(maxsize=64)
def layout_of(packing: Packing, bound: int) -> Layout:
    """The layout with the shortest proof."""
    width = packing.maximum - packing.minimum + 1
    longest = packing.length * max(-packing.minimum, packing.maximum) ** 2
    require(0 <= bound <= longest, "the bound of the squares is out of range")
    layouts: list[Layout] = []
    for digits in range(1, MOST_DIGITS + 1):
        base, exact = iroot(mpz(width), digits)
        if exact and 2 <= base <= LARGEST_BASE:
            layouts += _layouts(packing, bound, int(base), digits)
    require(layouts, "no proof shows that such entries are bounded")
    return min(layouts, key=lambda one: one.cost)


# -- matrices modulo P


def _product(left: Matrix, right: Matrix) -> Matrix:
    """The matrix product of (m, c) and (c, n): limbs of 16 bits, whose products add up exactly in doubles."""
    first, second = (
        [(x.astype(np.uint64) >> np.uint64(16 * i) & np.uint64(65535)).astype(float) for i in range(4)]
        for x in (left, right)
    )
    total = np.zeros((left.shape[0], right.shape[1]), dtype=object)
    for place in range(7):
        pairs = [(i, place - i) for i in range(4) if 0 <= place - i < 4]
        total += sum((first[i] @ second[j]).astype(np.uint64) for i, j in pairs).astype(object) << 16 * place
    reduced: Matrix = total % P
    return reduced


def _inverses(numbers: Sequence[int]) -> list[int]:
    """The inverses of numbers that are not 0, by one inversion."""
    before, product_ = [], 1
    for number in numbers:
        before.append(product_)
        product_ = product_ * number % P
    inverse, result = pow(product_, -1, P), [0] * len(numbers)
    for place in range(len(numbers) - 1, -1, -1):
        result[place] = inverse * before[place] % P
        inverse = inverse * numbers[place] % P
    return result


def _basis(k: int, used: int, points: Sequence[int]) -> Matrix:
    """Values at points of the polynomials of degree below k that are 1 at one of the used places, (used, points)."""
    root, scale = root_of_unity(k), pow(k, -1, P)
    roots = [pow(root, place, P) for place in range(used)]
    inverses = _inverses([(x - r) % P for r in roots for x in points])
    tops = [(pow(x, k, P) - 1) * scale % P for x in points]
    rows = [[tops[j] * r * inverses[i * len(points) + j] % P for j in range(len(points))] for i, r in enumerate(roots)]
    return np.array(rows, dtype=object)


def _powers(points: Sequence[int], count: int) -> Matrix:
    """x^0, x^1, ... of points, (count, points)."""
    at, rows = np.array(points, dtype=object), [np.ones(len(points), dtype=object)]
    for _ in range(count - 1):
        rows.append(rows[-1] * at % P)
    return np.array(rows, dtype=object)


def _rows(numbers: Sequence[int], used: int) -> list[list[int]]:
    padded = list(numbers) + [0] * (-len(numbers) % used)
    return [padded[at : at + used] for at in range(0, len(padded), used)]


# -- the proof


def _table(base: int, alpha: tuple[int, int]) -> tuple[list[int], list[int]]:
    """1/(alpha + t) for t below the base: a0 + a1 X modulo X^2 - 7 has the inverse (a0 - a1 X)/(a0^2 - 7 a1^2)."""
    norms = [(pow(alpha[0] + t, 2, P) - 7 * alpha[1] ** 2) % P for t in range(base)]
    scales = _inverses(norms)
    return (
        [(alpha[0] + t) * scale % P for t, scale in enumerate(scales)],
        [-alpha[1] * scale % P for scale in scales],
    )


def _linear(
    layout: Layout,
    factors: Sequence[int],
    primes: Sequence[int],
    table: tuple[list[int], list[int]],
    combine: Sequence[int],
) -> Matrix:
    """The weights of digits, multiplicities and bits of quotients in one combination of the equations."""
    base, digits, packing = layout.base, layout.digits, layout.packing
    entries = [[0] * digits for _ in range(packing.length)]
    mask, quotients = [0] * layout.mask_digits, []
    for prime, coefficient in zip(primes, combine, strict=False):
        scales = [pow(base, place, prime) for place in range(max(digits, layout.mask_digits))]
        slots = [pow(packing.radix, slot, prime) for slot in range(min(packing.slots, packing.length))]
        for place in range(packing.length):
            which, slot = divmod(place, packing.slots)
            weight = factors[which] % prime * slots[slot] % prime
            for digit in range(digits):
                entries[place][digit] = (entries[place][digit] + coefficient * (weight * scales[digit] % prime)) % P
        for place in range(layout.mask_digits):
            mask[place] = (mask[place] + coefficient * scales[place]) % P
        quotients += [-coefficient * prime * (1 << bit) % P for bit in range(layout.quotient_bits)]
    *of_norm, of_first, of_second = combine[PRIMES:]
    radix = layout.norm.radix
    of_parts = [*of_norm, *(upper - radix * lower for lower, upper in pairwise(of_norm))]
    others = [of * weight % P for of, weights in zip(of_parts, layout.auxiliary, strict=True) for weight in weights]
    occurrences = [-(of_first * one + of_second * two) % P for one, two in zip(*table, strict=True)]
    of_blocks = []
    for block in range(layout.blocks):
        inside = entries[block * layout.used : (block + 1) * layout.used]
        inside += [[0] * digits] * (layout.used - len(inside))
        of_blocks += [list(row) for row in zip(*inside, strict=True)]
    used = layout.used
    return np.array(
        of_blocks + _rows(mask + others, used) + _rows(occurrences, used) + _rows(quotients, used), dtype=object
    )


def _squares(layout: Layout, rows: Matrix, combine: Sequence[int]) -> Matrix:
    """What the products of the entries' parts add to the equations, in each column."""
    total = np.zeros(rows.shape[1], dtype=object)
    norm = layout.norm
    for block in range(layout.blocks):
        digits, parts, first = rows[block * layout.digits : (block + 1) * layout.digits], list[Any](), 0
        for places, offset in zip(norm.places, norm.parts, strict=True):
            parts.append(sum(layout.base**place * digits[first + place] for place in range(places)) - offset)
            first += places
        for (c, left), (d, right) in product_of(enumerate(parts), repeat=2):
            total = total + combine[c + d] * left * right
    return total % P


def _constraints(layout: Layout, rows: Matrix, alpha: tuple[int, int]) -> Matrix:
    """What must vanish at every used place."""
    D, F = layout.digit_rows, layout.first
    digits, h0, h1, bits = rows[:D], rows[F : F + D], rows[F + D : F + 2 * D], rows[F + 2 * D :]
    real = (digits + alpha[0]) * h0 + 7 * alpha[1] * h1 - 1
    other = (digits + alpha[0]) * h1 + alpha[1] * h0
    stacked: Matrix = np.concatenate([real, other, bits * bits - bits]) % P
    return stacked


@dataclass
class _Challenges:
    """What the chain draws after each message."""

    alpha: tuple[int, int]
    factors: list[int]
    primes: list[int]
    rows: Matrix
    constraints: Matrix
    equations: list[list[int]]
    places: list[int]


def _check(layout: Layout, plan: bytes, statement: bytes, cs: tuple[mpz, ...], proof: bytes) -> None:
    key, k, fields = layout.packing.key, layout.degree, Bytes(proof)
    shape = f"{layout.bound} {layout.base} {layout.digits} {k} {QUERIES} {RATE} {REPEATS} {PRIMES}"
    chain = Chain(LABEL, key, plan, shape, statement, cs)
    roots, announced = [fields.take(32) for _ in range(2)], fields.take(key.size)
    chain.absorb(roots[0], announced)
    first, *others = chain.elements("alpha", 8)
    alpha = first, next((other for other in others if other), 1)
    factors = challenges(f"{LABEL}: weights", (chain.state,), len(cs))
    answers = fields.take(layout.z_bytes + layout.w_bytes)
    z, w, a = little(answers[: layout.z_bytes]), little(answers[layout.z_bytes :]), little(announced)
    require(z < 1 << (layout.mask_bits + 1) and w < 1 << (key.mask_bits + 1), "an answer is out of range")
    key.check_units((a,))
    left = key.generator_power(z) * powmod(key.residue_base, w, key.modulus)
    require(same_up_to_sign(left, a * product(cs, factors, key.modulus), key.modulus), "the answers do not open it")
    chain.absorb(answers)
    primes = chain.primes()
    chain.absorb(roots[1])
    weights = [
        np.array(chain.elements(name, REPEATS * count), dtype=object).reshape(REPEATS, count)
        for name, count in (
            ("rows", layout.first + layout.second),
            ("squares", 2 * layout.digit_rows + layout.quotient_rows),
            ("equations", PRIMES + layout.norm.count + 2),
        )
    ]
    sent = fields.take(8 * 5 * REPEATS * k)
    chain.absorb(sent)
    places = chain.columns(layout.size)
    challenge_set = _Challenges(alpha, factors, primes, weights[0], weights[1], weights[2].tolist(), places)
    numbers = field_words(sent)
    committed = opened_columns(fields, roots[0], places, layout.first + 3 * REPEATS, layout.size)
    second = opened_columns(fields, roots[1], places, layout.second, layout.size)
    fields.end()
    rows = np.array(committed[: layout.first] + second, dtype=object)
    masks = np.array(committed[layout.first :], dtype=object)
    _check_answers(layout, z, numbers, challenge_set)
    _check_columns(layout, numbers, rows, masks, challenge_set)


def _check_answers(layout: Layout, z: mpz, numbers: Sequence[int], challenges: _Challenges) -> None:
    """Check both answers of each repetition at the used places."""
    k = layout.degree
    for repeat in range(REPEATS):
        at = repeat * 5 * k
        square, equation = numbers[at + k : at + 3 * k], numbers[at + 3 * k : at + 5 * k]
        at_used = [
            transform([(low + high) % P for low, high in zip(one[:k], one[k:], strict=True)], root_of_unity(k))
            for one in (square, equation)
        ]
        require(not any(at_used[0][: layout.used]), "a digit has a wrong inverse, or a quotient a wrong bit")
        sides = [*(int(z % q) for q in challenges.primes), *layout.norm.sides, 0, 0]
        target = sum(g * side for g, side in zip(challenges.equations[repeat], sides, strict=True)) % P
        require(
            sum(at_used[1][: layout.used]) % P == target,
            "an entry is out of range, the vector is too long, or its entries are not those of its ciphertexts",
        )


def _check_columns(
    layout: Layout, numbers: Sequence[int], rows: Matrix, masks: Matrix, challenges: _Challenges
) -> None:
    """Check the three answers of each repetition in every opened column."""
    k, D, F = layout.degree, layout.digit_rows, layout.first
    points = [7 * pow(root_of_unity(layout.size), place, P) % P for place in challenges.places]
    basis, powers = _basis(k, layout.used, points), _powers(points, 2 * k)
    table = _table(layout.base, challenges.alpha)
    near = _product(challenges.rows, rows)
    square = _product(challenges.constraints, _constraints(layout, rows, challenges.alpha))
    for repeat in range(REPEATS):
        at, combine = repeat * 5 * k, challenges.equations[repeat]
        linear = _product(_linear(layout, challenges.factors, challenges.primes, table, combine), basis)
        weighted = np.concatenate([rows[:F], rows[F + 2 * D :]])
        equation = (linear * weighted).sum(axis=0)
        for component, coefficient in enumerate(combine[-2:]):
            inverses = rows[F + component * D : F + (component + 1) * D]
            equation = equation + coefficient * inverses.sum(axis=0)
        equation = equation + _squares(layout, rows[: layout.entry_rows], combine[PRIMES:-2])
        ends = ((at, at + k), (at + k, at + 3 * k), (at + 3 * k, at + 5 * k))
        for which, ((start, end), value) in enumerate(zip(ends, (near[repeat], square[repeat], equation), strict=True)):
            answer = np.array([numbers[start:end]], dtype=object)
            right = (value + masks[which * REPEATS + repeat]) % P
            require(
                (_product(answer, powers[: end - start])[0] == right).all(), "an opened column contradicts an answer"
            )


@lru_cache(maxsize=4096)
def check_bounded(layout: Layout, plan: bytes, statement: bytes, cs: tuple[mpz, ...], proof: bytes) -> str:
    """Why a proof does not hold; empty if it does."""
    try:
        _check(layout, plan, statement, cs, proof)
    except Refused as error:
        return str(error)
    return ""
