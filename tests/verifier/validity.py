"""The proof that a ballot is a valid vote, by section 6.4 of docs/wire.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import gmpy2
import numpy as np
from gmpy2 import mpz

from tests.verifier.board import Bytes, Refused, require, sha256
from tests.verifier.paillier import Key, challenges, digest, little, product, same_up_to_sign, stream

P = 2**64 - 2**32 + 1
QUERIES, RATE, REPEATS, PRIMES, SALT = 152, 8, 2, 6, 32
LABEL = "psephos valid ballot"


class Layout:
    """The shape of the committed matrix."""

    def __init__(self, key: Key, length: int, radix: int, slots: int, count: int, group: int, degree: int) -> None:
        self.key, self.length, self.radix, self.slots, self.group = key, length, radix, slots, group
        self.degree, self.used, self.size = degree, degree - QUERIES, RATE * degree
        self.blocks = -(-(length // group) // self.used)
        self.mask_bits = 128 + key.degree * key.bits + count.bit_length() + 80
        self.quotient_bits = (length + self.mask_bits).bit_length()
        self.vote_rows = self.blocks * group
        self.first = self.vote_rows + -(-self.mask_bits // self.used)
        self.second = -(-PRIMES * self.quotient_bits // self.used)
        self.z_bytes = (self.mask_bits + 8) // 8
        self.w_bytes = (key.mask_bits + 1 + 7) // 8
        rows = self.first + self.second + 3 * REPEATS
        self.least = 8 * (QUERIES * rows + 5 * REPEATS * degree)
        committed = 64 + key.size + self.z_bytes + self.w_bytes + 8 * 5 * REPEATS * degree
        paths = 2 * (2 + QUERIES * 32 * self.size.bit_length())
        self.longest = committed + QUERIES * (2 * SALT + 8 * rows) + paths


@lru_cache(maxsize=64)
def layout_of(key: Key, length: int, radix: int, slots: int, count: int, group: int) -> Layout:
    layouts = [Layout(key, length, radix, slots, count, group, degree) for degree in (256, 512, 1024)]
    return min(layouts, key=lambda one: one.least)


# -- polynomials modulo P, as lists of integers


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


def _interpolate(values: list[int]) -> list[int]:
    size = len(values)
    scale = pow(size, P - 2, P)
    return [x * scale % P for x in transform(values, pow(root_of_unity(size), P - 2, P))]


def _at(polynomials: Sequence[Sequence[int]], points: Sequence[int]) -> list[list[int]]:
    """The values of polynomials at points."""
    most = max(map(len, polynomials))
    powers = np.ones((most, len(points)), dtype=object)
    for row in range(1, most):
        powers[row] = powers[row - 1] * np.array(points, dtype=object) % P
    return [list(np.dot(np.array(list(one), dtype=object), powers[: len(one)]) % P) for one in polynomials]


# -- challenges


class Chain:
    """The state from which all challenges of a proof are drawn."""

    def __init__(
        self, label: str, key: Key, plan: bytes, shape: str, statement: bytes, ciphertexts: Sequence[mpz]
    ) -> None:
        encoded = [int(c).to_bytes(key.size, "little") for c in ciphertexts]
        self.label, self.state = label, digest(label, (key.identifier, plan, shape.encode(), statement, *encoded))

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


# -- the proof


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


def _vote_rows(layout: Layout, entries: list[int]) -> list[list[int]]:
    rows = [[0] * layout.used for _ in range(layout.vote_rows)]
    for place, entry in enumerate(entries):
        sample, which = divmod(place, layout.group)
        block, column = divmod(sample, layout.used)
        rows[block * layout.group + which][column] = entry
    return rows


def _rows(layout: Layout, entries: list[int]) -> list[list[int]]:
    padded = entries + [0] * (-len(entries) % layout.used)
    return [padded[at : at + layout.used] for at in range(0, len(padded), layout.used)]


def _linear(layout: Layout, factors: list[int], primes: list[int], combine: list[int]) -> list[list[int]]:
    """The weights of all committed numbers in one combination of the equations, as polynomials."""
    entries, mask, quotients = [0] * layout.length, [0] * layout.mask_bits, []
    for prime, coefficient in zip(primes, combine, strict=True):
        for place in range(layout.length):
            which, slot = divmod(place, layout.slots)
            weight = factors[which] % prime * pow(layout.radix, slot, prime) % prime
            entries[place] = (entries[place] + coefficient * weight) % P
        for bit in range(layout.mask_bits):
            mask[bit] = (mask[bit] + coefficient * pow(2, bit, prime)) % P
        quotients += [coefficient * (P - prime) * (1 << bit) % P for bit in range(layout.quotient_bits)]
    rows = _vote_rows(layout, entries) + _rows(layout, mask) + _rows(layout, quotients)
    return [_interpolate(row + [0] * QUERIES) for row in rows]


def _check(key: Key, plan: bytes, layout: Layout, statement: bytes, cs: tuple[mpz, ...], proof: bytes) -> None:
    fields, k = Bytes(proof), layout.degree
    shape = f"{layout.group} {layout.degree} {QUERIES} {RATE} {REPEATS} {PRIMES}"
    chain = Chain(LABEL, key, plan, shape, statement, cs)
    roots, announced = [fields.take(32) for _ in range(2)], fields.take(key.size)
    chain.absorb(roots[0], announced)
    data = chain.draw("weights", 16 * len(cs))
    factors = [int.from_bytes(data[at : at + 16], "big") for at in range(0, len(data), 16)]
    assert factors == challenges(f"{LABEL}: weights", (chain.state,), len(cs))
    answers = fields.take(layout.z_bytes + layout.w_bytes)
    z, w, a = little(answers[: layout.z_bytes]), little(answers[layout.z_bytes :]), little(announced)
    require(z < 1 << (layout.mask_bits + 1) and w < 1 << (key.mask_bits + 1), "an answer is out of range")
    key.check_units((a,))
    left = key.generator_power(z) * gmpy2.powmod(key.residue_base, w, key.modulus)
    require(same_up_to_sign(left, a * product(cs, factors, key.modulus), key.modulus), "the answers do not open it")
    chain.absorb(answers)
    primes = chain.primes()
    chain.absorb(roots[1])
    rows, sums = layout.first + layout.second, layout.blocks if layout.group > 1 else 0
    of_rows, of_squares = chain.elements("rows", REPEATS * rows), chain.elements("squares", REPEATS * (rows + sums))
    of_equations = chain.elements("equations", REPEATS * PRIMES)
    sent = fields.take(8 * 5 * REPEATS * k)
    chain.absorb(sent)
    numbers = field_words(sent)
    places = chain.columns(layout.size)
    first = opened_columns(fields, roots[0], places, layout.first + 3 * REPEATS, layout.size)
    second = opened_columns(fields, roots[1], places, layout.second, layout.size)
    fields.end()
    columns, masks = first[: layout.first] + second, first[layout.first :]
    tested = list(columns)
    for block in range(sums):
        members = columns[block * layout.group : (block + 1) * layout.group]
        tested.append([sum(column) % P for column in zip(*members, strict=True)])
    points = [7 * pow(root_of_unity(layout.size), place, P) % P for place in places]
    for repeat in range(REPEATS):
        at = repeat * 5 * k
        near, square, equation = numbers[at : at + k], numbers[at + k : at + 3 * k], numbers[at + 3 * k : at + 5 * k]
        weights = of_equations[repeat * PRIMES : (repeat + 1) * PRIMES]
        folded = [(low + high) % P for low, high in zip(square[:k], square[k:], strict=True)]
        require(not any(transform(folded, root_of_unity(k))[: layout.used]), "an entry is not 0 or 1, or a sum is not")
        target = sum(g * int(z % q) for g, q in zip(weights, primes, strict=True)) % P
        require((equation[0] + equation[k]) * k % P == target, "the entries are not those of the ciphertexts")
        linear = _at(_linear(layout, factors, primes, weights), points)
        r, s = of_rows[repeat * rows : (repeat + 1) * rows], of_squares[repeat * (rows + sums) :]
        values = _at([near, square, equation], points)
        for place in range(len(places)):
            column = [row[place] for row in columns]
            expected = (
                sum(c * x for c, x in zip(r, column, strict=True)),
                sum(c * (row[place] * row[place] - row[place]) for c, row in zip(s, tested, strict=False)),
                sum(row[place] * x for row, x in zip(linear, column, strict=True)),
            )
            for which, value in enumerate(expected):
                masked = (value + masks[which * REPEATS + repeat][place]) % P
                require(values[which][place] == masked, "an opened column contradicts an answer")


@lru_cache(maxsize=4096)
def check_validity(key: Key, plan: bytes, layout: Layout, statement: bytes, cs: tuple[mpz, ...], proof: bytes) -> str:
    """Why a proof does not hold; empty if it does."""
    try:
        _check(key, plan, layout, statement, cs, proof)
    except Refused as error:
        return str(error)
    return ""


def slots_of(radix: int, capacity: int) -> int:
    """The largest k with radix^k <= 2^capacity."""
    slots = max(0, int(capacity / math.log2(radix)) - 1)
    while mpz(radix) ** (slots + 1) <= mpz(1) << capacity:
        slots += 1
    return slots
