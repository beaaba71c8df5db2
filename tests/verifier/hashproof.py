"""Proofs about vectors: what they share, and the proof of a valid vote, by section 6.4 of docs/wire.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from tests.verifier.board import Bytes, require, sha256
from tests.verifier.paillier import Key, challenges, digest, little, product, refusal, same_up_to_sign, stream

P = 2**64 - 2**32 + 1
QUERIES, RATE, REPEATS, PRIMES, SALT = 152, 8, 2, 6, 32
DEGREES = (256, 512, 1024)
Matrix = NDArray[Any]
"""Of Python's integers, modulo P."""


# -- arithmetic modulo P


def root_of_unity(size: int) -> int:
    return pow(7, (P - 1) // size, P)


def transform(numbers: list[int], root: int) -> list[int]:
    """The values of a polynomial at 1, root, root^2, ..., as many as it has coefficients."""
    if len(numbers) == 1:
        return numbers
    even, odd = (transform(numbers[start::2], root * root % P) for start in (0, 1))
    half, power = len(numbers) // 2, 1
    result = [0] * len(numbers)
    for place in range(half):
        term = power * odd[place] % P
        result[place], result[place + half] = (even[place] + term) % P, (even[place] - term) % P
        power = power * root % P
    return result


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
    return total % P


def inverses(numbers: Sequence[int]) -> list[int]:
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
    shared = inverses([(x - r) % P for r in roots for x in points])
    tops = [(pow(x, k, P) - 1) * scale % P for x in points]
    rows = [[tops[j] * r * shared[i * len(points) + j] % P for j in range(len(points))] for i, r in enumerate(roots)]
    return np.array(rows, dtype=object)


def _powers(points: Sequence[int], count: int) -> Matrix:
    """x^0, x^1, ... of points, (count, points)."""
    at, rows = np.array(points, dtype=object), [np.ones(len(points), dtype=object)]
    for _ in range(count - 1):
        rows.append(rows[-1] * at % P)
    return np.array(rows, dtype=object)


def rows_of(numbers: Sequence[int], used: int) -> list[list[int]]:
    padded = list(numbers) + [0] * (-len(numbers) % used)
    return [padded[at : at + used] for at in range(0, len(padded), used)]


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
        """The largest k with radix^k <= 2^capacity."""
        capacity = self.key.degree * (self.key.bits - 1)
        slots = max(0, int(capacity / math.log2(self.radix)) - 1)
        while mpz(self.radix) ** (slots + 1) <= mpz(1) << capacity:
            slots += 1
        return slots

    @cached_property
    def count(self) -> int:
        """The number of ciphertexts of a vector."""
        require(self.slots, "an entry does not fit into a plaintext")
        return -(-self.length // self.slots)


# -- challenges


class Chain:
    """The state from which all challenges of a proof are drawn."""

    def __init__(
        self, label: str, key: Key, plan: bytes, shape: str, statement: bytes, ciphertexts: Sequence[mpz]
    ) -> None:
        parts = key.identifier, plan, shape.encode(), statement, *key.encoded(ciphertexts)
        self.label, self.state = label, digest(label, parts)

    def absorb(self, *parts: bytes) -> None:
        self.state = digest(self.label, (self.state, *parts))

    def draw(self, name: str, count: int) -> bytes:
        return stream(f"{self.label}: {name}", (self.state,), count)

    def primes(self) -> list[int]:
        numbers = np.frombuffer(self.draw("primes", 4096), "<u4")
        primes = []
        for number in numbers.tolist():
            candidate = number >> 2 | 1 << 30 | 1
            if gmpy2.is_prime(candidate):
                primes.append(candidate)
            if len(primes) == 2 * PRIMES:
                break
        return list(dict.fromkeys(primes))[:PRIMES]

    def elements(self, name: str, count: int) -> list[int]:
        numbers = np.frombuffer(self.draw(name, 8 * (count + 16)), "<u8").tolist()
        return [x for x in numbers if x < P][:count]

    def columns(self, size: int) -> list[int]:
        numbers = np.frombuffer(self.draw("columns", 16 * QUERIES), "<u4")
        return list(dict.fromkeys((numbers & (size - 1)).tolist()))[:QUERIES]


def field_words(data: bytes) -> list[int]:
    words: list[int] = np.frombuffer(data, "<u8").tolist()
    require(all(x < P for x in words), "a number is outside the field")
    return words


def opened_columns(fields: Bytes, root: bytes, places: list[int], rows: int, size: int) -> list[list[int]]:
    """The opened columns, as rows, after a comparison with the commitment."""
    leaves = [fields.take(SALT + 8 * rows) for _ in places]
    path = [fields.take(32) for _ in range(fields.integer(2))]
    known = {place: sha256(b"\0", leaf) for place, leaf in zip(places, leaves, strict=True)}
    while size > 1:
        parents: dict[int, bytes] = {}
        for place in sorted(known):
            if place >> 1 in parents:
                continue
            if place ^ 1 in known:
                other = known[place ^ 1]
            else:
                require(path, "the path is too short")
                other = path.pop(0)
            left, right = (known[place], other) if place % 2 == 0 else (other, known[place])
            parents[place >> 1] = sha256(b"\1", left, right)
        known, size = parents, size // 2
    require(known == {0: root} and not path, "the columns are not those that were committed to")
    return [list(row) for row in zip(*(field_words(leaf[SALT:]) for leaf in leaves), strict=True)]


# -- the proof


class Shape:
    """What the rows of the committed matrices hold, and what holds of them."""

    label: str
    numbers: str
    """What the chain begins with besides key and plan."""
    base, digits = 2, 1
    """Of an entry."""
    mask_digits: int
    quotient_bits: int
    equation_count: int
    constraint_count: int
    summed: int
    """Over how many places the third answer is summed."""
    sides: Sequence[int] = ()
    """What the equations after those modulo primes sum to."""

    def __init__(self, packing: Packing, degree: int) -> None:
        self.packing, self.key, self.degree = packing, packing.key, degree
        self.used, self.size = degree - QUERIES, RATE * degree

    def measure(self, mask_bits: int, first: int, second: int) -> None:
        """Compute lengths from the length of the mask and the numbers of rows."""
        self.mask_bits, self.first, self.second = mask_bits, first, second
        self.z_bytes, self.w_bytes = (mask_bits + 8) // 8, (self.key.mask_bits + 8) // 8
        rows, polynomials = first + second + 3 * REPEATS, 8 * 5 * REPEATS * self.degree
        self.least = 8 * QUERIES * rows + polynomials
        committed = 64 + self.key.size + self.z_bytes + self.w_bytes + polynomials
        paths = 2 * (2 + QUERIES * 32 * self.size.bit_length())
        self.longest = committed + QUERIES * (2 * SALT + 8 * rows) + paths

    def links(
        self, factors: Sequence[int], primes: Sequence[int], combine: Sequence[int]
    ) -> tuple[list[list[int]], list[int], list[int]]:
        """The weights of digits of the entries, of the mask and of the quotients in the equations modulo primes."""
        packing = self.packing
        entries = [[0] * self.digits for _ in range(packing.length)]
        mask, quotients = [0] * self.mask_digits, list[int]()
        for prime, coefficient in zip(primes, combine, strict=False):
            scales = [pow(self.base, place, prime) for place in range(max(self.digits, self.mask_digits))]
            slots = [pow(packing.radix, slot, prime) for slot in range(min(packing.slots, packing.length))]
            for place, entry in enumerate(entries):
                which, slot = divmod(place, packing.slots)
                weight = factors[which] % prime * slots[slot] % prime
                for digit in range(self.digits):
                    entry[digit] = (entry[digit] + coefficient * (weight * scales[digit] % prime)) % P
            mask = [(old + coefficient * scale) % P for old, scale in zip(mask, scales, strict=False)]
            quotients += [-coefficient * prime * (1 << bit) % P for bit in range(self.quotient_bits)]
        return entries, mask, quotients

    def lookup(self, chain: Chain) -> Any:
        """Draw another challenge of step 2, where there is one."""
        return None

    def constraints(self, rows: Matrix, lookup: Any) -> Matrix:
        """What must vanish at every used place."""
        raise NotImplementedError

    def linear(self, factors: Sequence[int], primes: Sequence[int], lookup: Any, combine: Sequence[int]) -> Matrix:
        """The weights of what rows hold in one combination of the equations."""
        raise NotImplementedError

    def equation(self, rows: Matrix, linear: Matrix, combine: Sequence[int]) -> Matrix:
        """One combination of the equations in each column."""
        return (linear * rows).sum(axis=0)


@refusal
def check_vector(shape: Shape, plan: bytes, statement: bytes, cs: tuple[mpz, ...], proof: bytes) -> None:
    require(0 < len(proof) <= shape.longest, "the proof has another length")
    key, k, fields = shape.key, shape.degree, Bytes(proof)
    numbers = f"{shape.numbers} {k} {QUERIES} {RATE} {REPEATS} {PRIMES}"
    chain = Chain(shape.label, key, plan, numbers, statement, cs)
    roots, announced = [fields.take(32) for _ in range(2)], fields.take(key.size)
    chain.absorb(roots[0], announced)
    lookup, factors = shape.lookup(chain), challenges(f"{shape.label}: weights", (chain.state,), len(cs))
    answers = fields.take(shape.z_bytes + shape.w_bytes)
    z, w, a = little(answers[: shape.z_bytes]), little(answers[shape.z_bytes :]), little(announced)
    require(z < 1 << (shape.mask_bits + 1) and w < 1 << (key.mask_bits + 1), "an answer is out of range")
    key.check_units((a,))
    left = key.generator_power(z) * gmpy2.powmod(key.residue_base, w, key.modulus)
    require(same_up_to_sign(left, a * product(cs, factors, key.modulus), key.modulus), "the answers do not open it")
    chain.absorb(answers)
    primes = chain.primes()
    chain.absorb(roots[1])
    of_rows, of_constraints, of_equations = (
        np.array(chain.elements(name, REPEATS * count), dtype=object).reshape(REPEATS, count)
        for name, count in (
            ("rows", shape.first + shape.second),
            ("squares", shape.constraint_count),
            ("equations", shape.equation_count),
        )
    )
    sent = fields.take(8 * 5 * REPEATS * k)
    chain.absorb(sent)
    polynomials = field_words(sent)
    places = chain.columns(shape.size)
    first = opened_columns(fields, roots[0], places, shape.first + 3 * REPEATS, shape.size)
    second = opened_columns(fields, roots[1], places, shape.second, shape.size)
    fields.end()
    rows = np.array(first[: shape.first] + second, dtype=object)
    masks = np.array(first[shape.first :], dtype=object)
    points = [7 * pow(root_of_unity(shape.size), place, P) % P for place in places]
    basis, powers = _basis(k, shape.used, points), _powers(points, 2 * k)
    near, square = _product(of_rows, rows), _product(of_constraints, shape.constraints(rows, lookup))
    for repeat in range(REPEATS):
        at, combine = repeat * 5 * k, of_equations[repeat].tolist()
        sent_parts = [polynomials[at + start : at + end] for start, end in ((0, k), (k, 3 * k), (3 * k, 5 * k))]
        vanishing, summed = (
            transform([(low + high) % P for low, high in zip(one[:k], one[k:], strict=True)], root_of_unity(k))
            for one in sent_parts[1:]
        )
        require(not any(vanishing[: shape.used]), "an entry, an inverse or a bit is not what it must be")
        sides = [*(int(z % q) for q in primes), *shape.sides]
        target = sum(g * side for g, side in zip(combine, sides, strict=True)) % P
        require(
            sum(summed[: shape.summed]) % P == target, "the entries are out of bounds, or not those of the ciphertexts"
        )
        linear = _product(shape.linear(factors, primes, lookup, combine), basis)
        values = (near[repeat], square[repeat], shape.equation(rows, linear, combine))
        for which, (part, value) in enumerate(zip(sent_parts, values, strict=True)):
            answer = _product(np.array([part], dtype=object), powers[: len(part)])[0]
            right = (value + masks[which * REPEATS + repeat]) % P
            require((answer == right).all(), "an opened column contradicts an answer")


# -- the proof of validity


class ValidShape(Shape):
    """Of votes: each entry is 0 or 1, and so is the sum of each group."""

    label = "psephos valid ballot"
    equation_count = PRIMES

    def __init__(self, packing: Packing, group: int, degree: int) -> None:
        super().__init__(packing, degree)
        self.group, self.numbers, self.summed = group, f"{group}", degree
        self.blocks = -(-(packing.length // group) // self.used)
        self.mask_digits = 128 + self.key.degree * self.key.bits + packing.count.bit_length() + 80
        self.quotient_bits = (packing.length + self.mask_digits).bit_length()
        first = self.blocks * group + -(-self.mask_digits // self.used)
        self.measure(self.mask_digits, first, -(-PRIMES * self.quotient_bits // self.used))
        self.sums = self.blocks if group > 1 else 0
        self.constraint_count = self.first + self.second + self.sums

    def constraints(self, rows: Matrix, lookup: Any) -> Matrix:
        groups = (rows[block * self.group : (block + 1) * self.group] for block in range(self.sums))
        tested = np.concatenate([rows, *(members.sum(axis=0)[None] % P for members in groups)])
        return tested * (tested - 1) % P

    def linear(self, factors: Sequence[int], primes: Sequence[int], lookup: Any, combine: Sequence[int]) -> Matrix:
        entries, mask, quotients = self.links(factors, primes, combine)
        rows = [[0] * self.used for _ in range(self.blocks * self.group)]
        for place, (entry,) in enumerate(entries):
            sample, which = divmod(place, self.group)
            block, column = divmod(sample, self.used)
            rows[block * self.group + which][column] = entry
        return np.array(rows + rows_of(mask, self.used) + rows_of(quotients, self.used), dtype=object)


@lru_cache(maxsize=64)
def valid_shape(packing: Packing, group: int) -> ValidShape:
    return min((ValidShape(packing, group, degree) for degree in DEGREES), key=lambda one: one.least)
