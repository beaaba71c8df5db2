"""Hash-based proofs about the plaintexts of a ballot, after Ligero (Ames, Hazay, Ishai and Venkitasubramaniam 2017).

A sender commits to rows of field elements and shows that they are the plaintexts of its ciphertexts and that equations
between them hold. `validity` and `bounded` say what the rows hold; `Prover.run` has the five steps, and
docs/security/proofs.md, theorem 3, what they prove.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from psephos.protocol.errors import InvalidParameter, ProofError
from psephos.protocol.paillier.encryption import Witness
from psephos.protocol.paillier.generator import generator_power
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.powers import power_product
from psephos.protocol.proofs.challenge import challenges, check_announcements, digest, stream
from psephos.protocol.proofs.field import (
    PRIME,
    Words,
    add,
    coefficients,
    coset_values,
    mul,
    powers,
    product,
    values,
)
from psephos.protocol.proofs.knowledge import answer_bits, base_power, mask_bits
from psephos.protocol.proofs.merkle import HASH_BYTES, MerkleTree, opened_root
from psephos.protocol.randomness import SYSTEM, Randomness

QUERIES = 152
"""Number of opened columns: (5/8)^152 < 2^-103."""

RATE = 8
"""Length of a codeword divided by the degree of its polynomial."""

DEGREES = (256, 512, 1024)
"""Possible degrees of the polynomials that encode rows; the largest bounds the error of a random combination."""

REPEATS = 2
"""Repetitions of each random combination: one errs with probability at most 2^-51 (longest codeword / field size)."""

PRIMES = 6
"""Number of 31-bit primes: a wrong equation holds modulo all of them with probability below 2^-112, for 3072-bit keys.
"""

SALT_BYTES = 32

Vector = Sequence[int] | NDArray[np.integer]
"""The entries of a ballot, integers of any size."""


@dataclass(frozen=True)
class Weights:
    """The weights in z of the digits of the entries and of mu, (PRIMES, digits), modulo each of the primes (step 3)."""

    primes: Sequence[int]
    entries: Words
    mask: Words


class MatrixSizes(NamedTuple):
    """Sizes of the committed matrices.

    Attributes:
        mask_bits: length of mu; z is one bit longer at most.
        quotient_bits: length of each quotient t, which is smaller than the sum of the digits.
        first_rows, second_rows: rows of the two matrices, without the masks of the answers.
        constraint_count: rows of `MatrixLayout.constraints`.
        equation_count: equations between integers or field elements.
    """

    mask_bits: int
    quotient_bits: int
    first_rows: int
    second_rows: int
    constraint_count: int
    equation_count: int


class MatrixLayout(ABC):
    """What the rows of the committed matrices hold, derived from public numbers, and what holds of them.

    `lookup` is a challenge of step 2 with what follows from it, where a layout has one. `degree` is k, the number of
    points that determine a row, a power of two; `label` names the proof in its hash chain.
    """

    label: ClassVar[str]
    prover: ClassVar[type[Prover]]
    key: PublicKey
    plan: PackingPlan
    degree: int

    @property
    @abstractmethod
    def numbers(self) -> str:
        """The numbers that say what is proved, as the hash chain begins with them."""

    @property
    @abstractmethod
    def sizes(self) -> MatrixSizes: ...

    def admits(self, entries: Vector) -> bool:
        """Return whether an honest sender has such entries; a liar's are refused by the checks."""
        return True

    @abstractmethod
    def lookup(self, chain: ChallengeChain) -> Any:
        """Draw the layout's own challenge of step 2."""

    @abstractmethod
    def weights(self, factors: Sequence[mpz], primes: Sequence[int]) -> Weights:
        """Return the weights for the challenges e_l, modulo each prime."""

    @abstractmethod
    def constraints(self, rows: Words, lookup: Any) -> Words:
        """Return what must vanish wherever rows hold data, (constraint_count, points), for rows (all rows, points)."""

    @abstractmethod
    def linear_values(self, weights: Weights, lookup: Any, combine: Words) -> Words:
        """Combine the equations by coefficients (REPEATS, count) into weights of data, (REPEATS rows, used)."""

    @abstractmethod
    def equations(self, rows: Words, linear: Words, combine: Words) -> Words:
        """Combine all equations by coefficients, at points of the rows and of `linear_values`, (rows, points) each."""

    @abstractmethod
    def target(self, z: mpz, primes: Sequence[int], combine: Words) -> int:
        """Return what the equations sum to, combined by coefficients (equation_count,)."""

    @abstractmethod
    def total(self, equation: Words) -> int:
        """Return the sum of a third answer, (2 k,), that `target` is compared with."""

    @abstractmethod
    def balance(self, masks: Words) -> None:
        """Change polynomials, (REPEATS, 2 k), so that the `total` of each is 0."""

    def chain(self, statement: bytes, ciphertexts: Sequence[mpz]) -> ChallengeChain:
        size = self.key.ciphertext_bytes
        shape = f"{self.numbers} {self.degree} {QUERIES} {RATE} {REPEATS} {PRIMES}".encode()
        parts = (self.key.identifier, self.plan.digest, shape, statement)
        return ChallengeChain(self.label, (*parts, *(c.to_bytes(size, "little") for c in ciphertexts)))

    def masks(self, randomness: Randomness) -> tuple[Words, Words, Words]:
        """Draw uniform polynomials that mask the answers of step 4, by coefficients.

        Of degree below k, (REPEATS, k), and below 2 k: zero where rows hold data, and of `total` 0, (REPEATS, 2 k).
        """
        k = self.degree
        any_ = uniform(REPEATS * k, randomness).reshape(REPEATS, k)
        zero = uniform(REPEATS * 2 * k, randomness).reshape(REPEATS, 2 * k)
        zero[:, : 2 * self.used : 2] = 0
        balanced = uniform(REPEATS * 2 * k, randomness).reshape(REPEATS, 2 * k)
        self.balance(balanced)
        return any_, coefficients(zero), balanced

    def used_values(self, polynomials: Words) -> Words:
        """Evaluate polynomials of degree below 2 k, (m, 2 k), where rows hold data, (m, used)."""
        k = self.degree
        return values(add(polynomials[:, :k], polynomials[:, k:]), k)[:, : self.used]

    def quotient_weights(self, weights: Weights, combine: Words) -> Words:
        """Return the weights of the bits of the quotients, (REPEATS, bits), for coefficients (REPEATS, PRIMES)."""
        modulus = np.array([PRIME - prime for prime in weights.primes], dtype=np.uint64)
        return mul(mul(combine, modulus)[:, :, None], powers(2, self.sizes.quotient_bits)).reshape(len(combine), -1)

    @property
    def used(self) -> int:
        """Entries of a row that hold data; the others are random, one per opened column."""
        return self.degree - QUERIES

    @property
    def size(self) -> int:
        return RATE * self.degree

    @property
    def least_bytes(self) -> int:
        rows = self.sizes.first_rows + self.sizes.second_rows + 3 * REPEATS
        return 8 * (QUERIES * rows + 5 * REPEATS * self.degree)

    @property
    def longest_proof(self) -> int:
        """Length of the longest proof in bytes; the number of hashes that open the columns depends on their places."""
        committed = 2 * HASH_BYTES + self.key.ciphertext_bytes + sum(self.proof_parts)
        leaves = 2 * SALT_BYTES + 8 * (self.sizes.first_rows + self.sizes.second_rows + 3 * REPEATS)
        paths = 2 * (2 + QUERIES * HASH_BYTES * self.size.bit_length())
        return committed + QUERIES * leaves + paths

    @cached_property
    def proof_parts(self) -> tuple[int, int, int]:
        return (self.sizes.mask_bits + 8) // 8, (answer_bits(self.key) + 7) // 8, 8 * 5 * REPEATS * self.degree

    def bits(self, numbers: Sequence[int], width: int) -> Words:
        """Return the bits of numbers, `width` each, least significant first, as rows of `used` entries."""
        encoded = b"".join(int(number).to_bytes((width + 7) // 8, "little") for number in numbers)
        table = np.unpackbits(
            np.frombuffer(encoded, dtype=np.uint8).reshape(len(numbers), -1), axis=1, bitorder="little"
        )
        return self.rows_of(table[:, :width].reshape(-1).astype(np.uint64))

    def rows_of(self, entries: Words) -> Words:
        rows = np.zeros((-(-len(entries) // self.used), self.used), dtype=np.uint64)
        rows.reshape(-1)[: len(entries)] = entries
        return rows

    def slot_weights(self, factors: Sequence[mpz], primes: Sequence[int]) -> Words:
        """Return the weight of each slot in z, e_l radix^j modulo each prime, (PRIMES, S)."""
        slots = powers_modulo(int(self.plan.radix), min(self.plan.slots_per_plaintext, self.plan.length), primes)
        reduced = np.array([[int(e % prime) for e in factors] for prime in primes], dtype=np.uint64)
        moduli = np.array(primes, dtype=np.uint64)[:, None, None]
        return (reduced[:, :, None] * slots[:, None] % moduli).reshape(len(primes), -1)[:, : self.plan.length]


def powers_modulo(base: int, count: int, primes: Sequence[int]) -> Words:
    moduli = np.array(primes, dtype=np.uint64)[:, None]
    result = np.ones((len(primes), 1), dtype=np.uint64)
    while (done := result.shape[1]) < count:
        step = np.array([[pow(base, done, prime)] for prime in primes], dtype=np.uint64)
        result = np.concatenate([result, result * step % moduli], axis=1)
    return result[:, :count]


class ChallengeChain:
    """The hash chain of a proof: absorbs the messages of the prover and derives the challenges from them."""

    def __init__(self, label: str, parts: Iterable[bytes]) -> None:
        self._label = label
        self._state = digest(label, parts)

    def absorb(self, *parts: bytes) -> None:
        self._state = digest(self._label, (self._state, *parts))

    def weights(self, count: int) -> list[mpz]:
        return challenges(f"{self._label}: weights", (self._state,), count)

    def primes(self) -> list[int]:
        """Return the first distinct primes among pseudorandom odd numbers in [2^30, 2^31)."""
        words = np.frombuffer(stream(f"{self._label}: primes", (self._state,), 4 * 1024), dtype="<u4")
        primes = (x for x in (words >> 2 | 1 << 30 | 1).tolist() if gmpy2.is_prime(x))
        return list(dict.fromkeys(islice(primes, 2 * PRIMES)))[:PRIMES]

    def elements(self, name: str, shape: tuple[int, ...]) -> Words:
        count = int(np.prod(shape))
        # A word lies outside the field with probability 2^-32, so 16 spare words are enough for any proof.
        words = np.frombuffer(stream(f"{self._label}: {name}", (self._state,), 8 * (count + 16)), dtype="<u8")
        return words[words < np.uint64(PRIME)][:count].astype(np.uint64).reshape(shape)

    def columns(self, size: int) -> list[int]:
        words = np.frombuffer(stream(f"{self._label}: columns", (self._state,), 4 * 4 * QUERIES), dtype="<u4")
        return list(dict.fromkeys((words & (size - 1)).tolist()))[:QUERIES]


def uniform(count: int, randomness: Randomness) -> Words:
    elements = np.frombuffer(randomness.draw(8 * count), dtype=np.uint64).copy()
    while (outside := np.flatnonzero(elements >= np.uint64(PRIME))).size:
        elements[outside] = np.frombuffer(randomness.draw(8 * outside.size), dtype=np.uint64)
    return elements


def hidden_rows(messages: Words, randomness: Randomness) -> Words:
    """Append random entries to rows (m, used) and return their polynomials: coefficients (m, k)."""
    random = uniform(len(messages) * QUERIES, randomness).reshape(len(messages), QUERIES)
    return coefficients(np.concatenate([messages, random], axis=1))


def padded(polynomials: Words, width: int) -> Words:
    return np.pad(polynomials, ((0, 0), (0, width - polynomials.shape[1])))


def block_rows(table: Words, used: int, filling: Words) -> Words:
    """Arrange a table (S, m) as rows (blocks m, used), the last block filled with copies of the line `filling`."""
    blocks, width = -(-len(table) // used), table.shape[1]
    full = np.empty((blocks * used, width), dtype=np.uint64)
    full[: len(table)], full[len(table) :] = table, filling
    return np.ascontiguousarray(full.reshape(blocks, used, width).transpose(0, 2, 1)).reshape(-1, used)


class CommittedMatrix:
    def __init__(self, polynomials: Words, layout: MatrixLayout, randomness: Randomness) -> None:
        self.codewords = coset_values(polynomials, layout.size)
        self._salts = randomness.draw(SALT_BYTES * layout.size)
        self.tree = MerkleTree(self._salts, self.codewords)

    def open(self, places: Sequence[int]) -> bytes:
        salts = np.frombuffer(self._salts, dtype=np.uint8).reshape(-1, SALT_BYTES)[places]
        columns = np.ascontiguousarray(self.codewords[:, places].T.astype("<u8", copy=False))
        leaves = np.concatenate([salts, columns.view(np.uint8)], axis=1).tobytes()
        path = self.tree.path(places)
        return leaves + len(path).to_bytes(2, "big") + b"".join(path)


class Combinations:
    """The challenges of step 4, REPEATS times: weights of rows, of constraints and of equations."""

    def __init__(self, chain: ChallengeChain, layout: MatrixLayout) -> None:
        self.rows = chain.elements("rows", (REPEATS, layout.sizes.first_rows + layout.sizes.second_rows))
        self.constraints = chain.elements("squares", (REPEATS, layout.sizes.constraint_count))
        self.equations = chain.elements("equations", (REPEATS, layout.sizes.equation_count))


class Prover(ABC):
    """One proof in the making. A subclass knows what its rows hold."""

    layout: MatrixLayout

    def __init__(
        self,
        statement: bytes,
        layout: MatrixLayout,
        entries: Vector,
        ciphertexts: Sequence[mpz],
        witness: Witness,
        randomness: Randomness,
    ) -> None:
        self.layout, self.entries, self.randomness = layout, entries, randomness
        self.ciphertexts, self.witness = ciphertexts, witness
        self.chain = layout.chain(statement, ciphertexts)

    def run(self) -> bytes:
        layout, key, chain, width = self.layout, self.layout.key, self.chain, 2 * self.layout.degree
        # 1. Commit to entries and to the digits of a random mask mu, as Reed-Solomon codewords; announce mu.
        mu, exponent = self.draw_mask(), mpz(self.randomness.bits(mask_bits(key)))
        announcement = generator_power(key, mu) * base_power(key, exponent) % key.ciphertext_modulus
        announced = announcement.to_bytes(key.ciphertext_bytes, "little")
        rows = hidden_rows(self.first_messages(mu), self.randomness)
        masks = self.masks()
        first = CommittedMatrix(
            np.concatenate([padded(part, width) for part in (rows, *masks)]), layout, self.randomness
        )
        chain.absorb(first.tree.root, announced)
        # 2. Answer challenges e_l by z = mu + sum e_l m_l over the integers, which is not reduced modulo n^s.
        lookup, factors = layout.lookup(chain), chain.weights(len(self.ciphertexts))
        z = mu + sum(e * m for e, m in zip(factors, self.witness.plaintexts, strict=True))
        w = exponent + sum(e * a for e, a in zip(factors, self.witness.roots, strict=True))
        answers = z.to_bytes(layout.proof_parts[0], "little") + w.to_bytes(layout.proof_parts[1], "little")
        chain.absorb(answers)
        # 3. The equation of z holds over the integers if it holds modulo random primes: commit to the quotients.
        weights = layout.weights(factors, chain.primes())
        hidden = hidden_rows(self.second_messages(weights, lookup, z), self.randomness)
        second = CommittedMatrix(hidden, layout, self.randomness)
        chain.absorb(second.tree.root)
        # 4. Show by random combinations that rows are near codewords, and that constraints and equations hold.
        sent = self.answers(np.concatenate([rows, hidden]), masks, weights, lookup)
        chain.absorb(sent)
        # 5. Open random columns.
        places = chain.columns(layout.size)
        opened = (one.open(places) for one in (first, second))
        return b"".join((first.tree.root, second.tree.root, announced, answers, sent, *opened))

    @abstractmethod
    def draw_mask(self) -> mpz:
        """Draw mu."""

    @abstractmethod
    def first_messages(self, mu: mpz) -> Words:
        """Return what the rows of the first matrix hold, (first_rows, used)."""

    @abstractmethod
    def second_messages(self, weights: Weights, lookup: Any, z: mpz) -> Words:
        """Return what the rows of the second matrix hold, (second_rows, used)."""

    def masks(self) -> tuple[Words, Words, Words]:
        return self.layout.masks(self.randomness)

    def quotients(self, weights: Weights, digits: Words, mask: Words, z: mpz) -> Words:
        totals = weights.entries.astype(np.int64) @ digits.reshape(-1).astype(np.int64)
        totals += weights.mask.astype(np.int64) @ mask.astype(np.int64)
        pairs = zip(totals.tolist(), weights.primes, strict=True)
        quotients = [(total - int(z % prime)) // prime for total, prime in pairs]
        return self.layout.bits(quotients, self.layout.sizes.quotient_bits)

    def answers(self, rows: Words, masks: tuple[Words, Words, Words], weights: Weights, lookup: Any) -> bytes:
        layout, width = self.layout, 2 * self.layout.degree
        combine = Combinations(self.chain, layout)
        at = values(rows, width)
        linear = coefficients(padded(layout.linear_values(weights, lookup, combine.equations), layout.degree))
        near = product(combine.rows, rows)
        squares = coefficients(product(combine.constraints, layout.constraints(at, lookup)))
        sums = [
            layout.equations(at, values(weights_of, width), equation)
            for weights_of, equation in zip(np.split(linear, REPEATS), combine.equations, strict=True)
        ]
        polynomials = []
        for repeat, summed in enumerate(coefficients(np.stack(sums))):
            several = (near[repeat], squares[repeat], summed)
            polynomials += [add(one, mask[repeat]) for one, mask in zip(several, masks, strict=True)]
        return np.concatenate(polynomials).astype("<u8").tobytes()


class Verification:
    def __init__(self, statement: bytes, layout: MatrixLayout, ciphertexts: Sequence[mpz], proof: bytes) -> None:
        if len(ciphertexts) != layout.plan.ciphertexts:
            raise ProofError(f"a ballot has {layout.plan.ciphertexts} ciphertexts here, not {len(ciphertexts)}")
        self.layout, self.ciphertexts = layout, ciphertexts
        self.chain = layout.chain(statement, ciphertexts)
        self._proof, self._at = proof, 0

    def run(self) -> None:
        layout, k = self.layout, self.layout.degree
        roots = [self._take(HASH_BYTES) for _ in range(2)]
        announced = self._take(layout.key.ciphertext_bytes)
        self.chain.absorb(roots[0], announced)
        lookup, factors = layout.lookup(self.chain), self.chain.weights(len(self.ciphertexts))
        sizes = layout.proof_parts
        answers = self._take(sizes[0] + sizes[1])
        z, w = (mpz.from_bytes(part, "little") for part in (answers[: sizes[0]], answers[sizes[0] :]))
        self._check_opening(mpz.from_bytes(announced, "little"), factors, z, w)
        self.chain.absorb(answers)
        weights = layout.weights(factors, self.chain.primes())
        self.chain.absorb(roots[1])
        combine = Combinations(self.chain, layout)
        start = self._at
        polynomials = [(self._words(k), self._words(2 * k), self._words(2 * k)) for _ in range(REPEATS)]
        self.chain.absorb(self._proof[start : self._at])
        places = self.chain.columns(layout.size)
        first = self._open(roots[0], places, layout.sizes.first_rows + 3 * REPEATS)
        second = self._open(roots[1], places, layout.sizes.second_rows)
        if self._at != len(self._proof):
            raise ProofError("a proof of validity has too many bytes")
        for repeat, (_near, square, equation) in enumerate(polynomials):
            self._check_values(square, equation, layout.target(z, weights.primes, combine.equations[repeat]))
        rows = np.concatenate([first[: layout.sizes.first_rows], second])
        masks = first[layout.sizes.first_rows :].reshape(3, REPEATS, len(places))
        sent = np.concatenate([padded(one[None], 2 * k) for several in polynomials for one in several])
        answers_at = coset_values(sent, layout.size, places).reshape(REPEATS, 3, len(places))
        linear = coefficients(padded(layout.linear_values(weights, lookup, combine.equations), k))
        linear_at = coset_values(linear, layout.size, places).reshape(REPEATS, -1, len(places))
        near = product(combine.rows, rows)
        squares = product(combine.constraints, layout.constraints(rows, lookup))
        for repeat, equation in enumerate(combine.equations):
            expected = (near[repeat], squares[repeat], layout.equations(rows, linear_at[repeat], equation))
            self._check_columns(answers_at[repeat], expected, masks[:, repeat])

    def _check_values(self, square: Words, equation: Words, target: int) -> None:
        """Check that the constraints vanish where rows hold data, and that the equations sum to the target."""
        if self.layout.used_values(square[None]).any():
            raise ProofError("a ballot is not valid: an entry, or what proves it, is not what it must be")
        if self.layout.total(equation) != target:
            raise ProofError("a ballot is not valid: its entries are out of bounds, or not those of its ciphertexts")

    def _check_columns(self, answers: Words, expected: Sequence[Words], masks: Words) -> None:
        """Check that the three answers are in the opened columns what rows and masks combine to, (3, places) each."""
        for answer, combination, mask in zip(answers, expected, masks, strict=True):
            if not np.array_equal(answer, add(combination, mask)):
                raise ProofError("the proof of validity does not hold: an opened column contradicts an answer")

    def _take(self, count: int) -> bytes:
        if self._at + count > len(self._proof):
            raise ProofError("a proof of validity ends early")
        self._at += count
        return self._proof[self._at - count : self._at]

    def _words(self, *shape: int) -> Words:
        """Read field elements of this shape; raise ProofError for numbers outside the field."""
        words = np.frombuffer(self._take(8 * int(np.prod(shape))), dtype="<u8").astype(np.uint64)
        if words.size and words.max() >= np.uint64(PRIME):
            raise ProofError("a proof of validity has a number outside the field")
        return words.reshape(shape)

    def _check_opening(self, announcement: mpz, factors: Sequence[mpz], z: mpz, w: mpz) -> None:
        key, modulus = self.layout.key, self.layout.key.ciphertext_modulus
        if z >> (self.layout.sizes.mask_bits + 1) or w >> answer_bits(key):
            raise ProofError("an answer in a proof of validity lies outside its range")
        check_announcements(key, announcement)
        left = generator_power(key, z) * base_power(key, w) % modulus
        right = announcement * power_product(self.ciphertexts, factors, key.ring) % modulus
        if (left * left - right * right) % modulus:
            raise ProofError("the proof of validity was not made for these ciphertexts, by whoever encrypted them")

    def _open(self, root: bytes, places: Sequence[int], rows: int) -> Words:
        """Read opened columns, check them against the root and return them as (rows, places)."""
        opened = np.frombuffer(self._take(len(places) * (SALT_BYTES + 8 * rows)), np.uint8).reshape(len(places), -1)
        hashes = self._take(HASH_BYTES * int.from_bytes(self._take(2), "big"))
        path = [hashes[at : at + HASH_BYTES] for at in range(0, len(hashes), HASH_BYTES)]
        columns = np.ascontiguousarray(opened[:, SALT_BYTES:]).view("<u8").astype(np.uint64)
        columns = np.ascontiguousarray(columns.T)
        if opened_root(places, opened[:, :SALT_BYTES].tobytes(), columns, self.layout.size, path) != root:
            raise ProofError("the opened columns of a proof of validity are not the committed ones")
        if columns.size and columns.max() >= np.uint64(PRIME):
            raise ProofError("a proof of validity has a number outside the field")
        return columns


def prove(
    statement: bytes,
    layout: MatrixLayout,
    entries: Vector,
    ciphertexts: Sequence[mpz],
    witness: Witness,
    *,
    randomness: Randomness = SYSTEM,
) -> bytes:
    """Return the encoded proof, of at most `layout.longest_proof` bytes, that the entries of one ballot are valid."""
    if not layout.admits(entries):
        raise InvalidParameter("the vector exceeds the bounds of the round; draw its noise again, or scale it")
    return layout.prover(statement, layout, entries, ciphertexts, witness, randomness).run()


def verify(statement: bytes, layout: MatrixLayout, ciphertexts: Sequence[mpz], proof: bytes) -> None:
    """Raise ProofError unless the proof holds. The ciphertexts must be units (`check_ciphertexts`)."""
    Verification(statement, layout, ciphertexts, proof).run()
