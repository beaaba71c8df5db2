"""Proof that a ballot is valid: every entry is 0 or 1, and the entries of one sample add up to 0 or 1.

A hash-based proof after Ligero (Ames, Hazay, Ishai and Venkitasubramaniam 2017), linked to the Paillier ciphertexts by
one random combination of their plaintexts. It needs no trusted set-up and no group besides Paillier's.

1. The sender writes its entries v and the bits of a random mask mu into the rows of a matrix, extends every row to a
   Reed-Solomon codeword, and commits to the columns (a Merkle root). It also sends A = (1 + n)^mu h_s^alpha.
2. Challenges e_l. It answers z = mu + sum e_l m_l over the integers and w = alpha + sum e_l a_l, which satisfy
   (1 + n)^z h_s^w = A prod c_l^(e_l): the proof of knowledge with an answer that is not reduced modulo n^s.
3. Challenges: six random primes q. The plaintexts are m_l = sum_j v_lj radix^j, so the equation of step 2 is one
   between bits, and it holds over the integers when it holds modulo each q: z = sum (bit)(coefficient mod q) - q t.
   The sender commits to the bits of the quotients t.
4. Challenges: random combinations. It answers with polynomials which show that all rows are (near) codewords, that
   every committed entry and the sum of each sample's entries satisfy x^2 = x, and that the equations of step 3 hold.
5. Challenges: which columns to open.

All challenges come from one hash chain (Fiat-Shamir). The soundness error is below 2^-100 per computed hash (2^-87
under the longest keys of degree 4), and the proof is zero knowledge up to 2^-79 (docs/security/proofs.md,
theorem 3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Self

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from psephos.protocol.errors import CiphertextError, InvalidParameter, ProofError
from psephos.protocol.paillier.ciphertexts import check_ciphertexts
from psephos.protocol.paillier.encryption import Witness
from psephos.protocol.paillier.generator import generator_power
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.public_power import public_power
from psephos.protocol.proofs.challenge import CHALLENGE_BITS, HIDING_BITS, challenges, digest, stream
from psephos.protocol.proofs.field import (
    PRIME,
    Words,
    add,
    coefficients,
    column_sum,
    coset_values,
    coset_values_at,
    dot,
    mul,
    powers,
    sub,
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

_LABEL = "psephos valid ballot"

Weights = tuple[Words, Words]
"""Weights of the entries and of the bits of mu, modulo one prime."""


@dataclass(frozen=True)
class Layout:
    """The layout of the committed matrix, derived from public numbers.

    Attributes:
        key: the key that the ballot is encrypted under.
        plan: how the ballot is packed; its entries start at 0.
        group: entries per sample, K - 1.
        degree: k, the number of points that determine a row, a power of two. `Layout.of` chooses the one with the
            shortest proof.

    Raises:
        InvalidParameter: the entries of the plan do not start at 0, or do not form a whole number of samples.
    """

    key: PublicKey
    plan: PackingPlan
    group: int
    degree: int

    def __post_init__(self) -> None:
        if self.group < 1 or self.plan.minimum != 0 or self.plan.length % self.group or self.plan.length >= 1 << 24:
            raise InvalidParameter(
                "validity can be proved for votes only: entries from 0, a whole number of samples, fewer than 2^24 "
                "entries"
            )

    @classmethod
    def of(cls, key: PublicKey, plan: PackingPlan, group: int) -> Self:
        """Return the layout with the shortest proof."""
        layouts = [cls(key, plan, group, degree) for degree in DEGREES]
        return min(layouts, key=lambda layout: layout._least_bytes)

    @property
    def used(self) -> int:
        """Entries of a row that hold data; the others are random, one per opened column."""
        return self.degree - QUERIES

    @property
    def size(self) -> int:
        """n, the number of entries of a codeword."""
        return RATE * self.degree

    @property
    def blocks(self) -> int:
        """Number of blocks of `used` samples; a block has one row per class."""
        return -(-(self.plan.length // self.group) // self.used)

    @property
    def mask_bits(self) -> int:
        """Length of mu in bits."""
        plaintext = self.key.degree * self.key.bits
        return CHALLENGE_BITS + plaintext + self.plan.ciphertexts.bit_length() + HIDING_BITS

    @property
    def quotient_bits(self) -> int:
        """Length of each quotient t in bits; t is smaller than the number of summed bits."""
        return (self.plan.length + self.mask_bits).bit_length()

    @property
    def first_rows(self) -> int:
        """Number of rows of votes and of bits of mu."""
        return self.blocks * self.group + -(-self.mask_bits // self.used)

    @property
    def second_rows(self) -> int:
        """Number of rows of bits of the quotients."""
        return -(-PRIMES * self.quotient_bits // self.used)

    @property
    def _least_bytes(self) -> int:
        rows = self.first_rows + self.second_rows + 3 * REPEATS
        return 8 * (QUERIES * rows + 5 * REPEATS * self.degree)

    @property
    def longest_proof(self) -> int:
        """Length of the longest proof in bytes; the number of hashes that open the columns depends on their places."""
        committed = 2 * HASH_BYTES + self.key.ciphertext_bytes + sum(self.proof_parts)
        leaves = 2 * SALT_BYTES + 8 * (self.first_rows + self.second_rows + 3 * REPEATS)
        paths = 2 * (2 + QUERIES * HASH_BYTES * self.size.bit_length())
        return committed + QUERIES * leaves + paths

    def votes(self, entries: NDArray[np.integer]) -> Words:
        """Arrange entries (S,) as rows (blocks * group, used); a row holds one class of a block of samples."""
        table = np.zeros((self.blocks * self.used, self.group), dtype=np.uint64)
        table[: self.plan.length // self.group] = np.asarray(entries).reshape(-1, self.group)
        by_class = table.reshape(self.blocks, self.used, self.group).transpose(0, 2, 1)
        return np.ascontiguousarray(by_class).reshape(-1, self.used)

    def bits(self, numbers: Sequence[int], width: int) -> Words:
        """Return the bits of numbers, `width` each, least significant first, as rows of `used` entries."""
        encoded = b"".join(int(number).to_bytes((width + 7) // 8, "little") for number in numbers)
        table = np.unpackbits(
            np.frombuffer(encoded, dtype=np.uint8).reshape(len(numbers), -1), axis=1, bitorder="little"
        )
        return self._rows(table[:, :width].reshape(-1).astype(np.uint64))

    def _rows(self, entries: Words) -> Words:
        """Arrange entries as rows of `used`, filled with zeros."""
        rows = np.zeros((-(-len(entries) // self.used), self.used), dtype=np.uint64)
        rows.reshape(-1)[: len(entries)] = entries
        return rows

    def weights(self, factors: Sequence[mpz], prime: int) -> Weights:
        """Return the weights in z of each entry and of each bit of mu, modulo a prime (step 3).

        Args:
            factors: the challenges e_l.
            prime: q.

        Returns:
            e_l radix^j for each entry, (S,), and 2^b for each bit, (mask_bits,).
        """
        slots = _powers_modulo(int(self.plan.radix), min(self.plan.slots_per_plaintext, self.plan.length), prime)
        reduced = np.array([int(e % prime) for e in factors], dtype=np.uint64)
        entries = (reduced[:, None] * slots % np.uint64(prime)).reshape(-1)[: self.plan.length]
        return entries, _powers_modulo(2, self.mask_bits, prime)

    def linear(self, weights: Mapping[int, Weights], combine: Words) -> Words:
        """Combine the equations of step 3 into weights of all committed entries.

        Args:
            weights: `weights` of each prime.
            combine: coefficients of the random combinations, (REPEATS, PRIMES).

        Returns:
            The weights as polynomials that vanish where rows are random: coefficients (REPEATS, rows, k).
        """
        first = [np.concatenate([self.votes(votes), self._rows(mask)]) for votes, mask in weights.values()]
        quotient, polynomials = powers(2, self.quotient_bits), []
        modulus = np.array([PRIME - prime for prime in weights], dtype=np.uint64)
        for factors in combine:
            combined = dot(factors, np.stack(first).reshape(PRIMES, -1)).reshape(self.first_rows, self.used)
            second = mul(quotient, mul(modulus, factors)[:, None]).reshape(-1)
            rows = np.concatenate([combined, self._rows(second)])
            polynomials.append(coefficients(np.pad(rows, ((0, 0), (0, QUERIES)))))
        return np.stack(polynomials)

    @cached_property
    def proof_parts(self) -> tuple[int, int, int]:
        """Lengths of z, of w, and of all polynomials in bytes."""
        return (self.mask_bits + 8) // 8, (answer_bits(self.key) + 7) // 8, 8 * 5 * REPEATS * self.degree


def _powers_modulo(base: int, count: int, prime: int) -> Words:
    """Return 1, base, base^2, ... modulo a prime below 2^32, (count,)."""
    result = np.ones(1, dtype=np.uint64)
    while len(result) < count:
        step = np.uint64(pow(base, len(result), prime))
        result = np.concatenate([result, result * step % np.uint64(prime)])
    return result[:count]


class _Chain:
    """The hash chain of a proof: absorbs the messages of the prover and derives the challenges from them."""

    def __init__(self, layout: Layout, statement: bytes, ciphertexts: Sequence[mpz]) -> None:
        size = layout.key.ciphertext_bytes
        shape = f"{layout.group} {layout.degree} {QUERIES} {RATE} {REPEATS} {PRIMES}".encode()
        parts = (layout.key.identifier, layout.plan.digest, shape, statement)
        self._state = digest(_LABEL, (*parts, *(c.to_bytes(size, "little") for c in ciphertexts)))

    def absorb(self, *parts: bytes) -> None:
        """Extend the chain by a message of the prover."""
        self._state = digest(_LABEL, (self._state, *parts))

    def weights(self, count: int) -> list[mpz]:
        """Return the challenges e_l of step 2."""
        return challenges(f"{_LABEL}: weights", (self._state,), count)

    def primes(self) -> list[int]:
        """Return the first distinct primes among pseudorandom odd numbers in [2^30, 2^31)."""
        drawn = np.frombuffer(stream(f"{_LABEL}: primes", (self._state,), 4 * 1024), dtype="<u4")
        primes = (x for x in (drawn >> 2 | 1 << 30 | 1).tolist() if gmpy2.is_prime(x))
        return list(dict.fromkeys(islice(primes, 2 * PRIMES)))[:PRIMES]

    def elements(self, name: str, shape: tuple[int, ...]) -> Words:
        """Return pseudorandom field elements of this shape."""
        count = int(np.prod(shape))
        # A word lies outside the field with probability 2^-32, so 16 spare words are enough for any proof.
        drawn = np.frombuffer(stream(f"{_LABEL}: {name}", (self._state,), 8 * (count + 16)), dtype="<u8")
        return drawn[drawn < np.uint64(PRIME)][:count].astype(np.uint64).reshape(shape)

    def columns(self, size: int) -> list[int]:
        """Return the places of the columns to open."""
        drawn = np.frombuffer(stream(f"{_LABEL}: columns", (self._state,), 4 * 4 * QUERIES), dtype="<u4")
        return list(dict.fromkeys((drawn & (size - 1)).tolist()))[:QUERIES]


class _Combinations:
    """The challenges of step 4, REPEATS times: weights of rows, of quadratic constraints and of equations."""

    def __init__(self, chain: _Chain, layout: Layout) -> None:
        rows = layout.first_rows + layout.second_rows
        sums = layout.blocks if layout.group > 1 else 0
        self.rows = chain.elements("rows", (REPEATS, rows))
        self.squares = chain.elements("squares", (REPEATS, rows + sums))
        self.equations = chain.elements("equations", (REPEATS, PRIMES))


def _constraints(layout: Layout, rows: Words) -> Words:
    """Return x^2 - x of every row (rows, points) and, for several classes, of the sum of the rows of each sample."""
    if layout.group > 1:
        votes = rows[: layout.blocks * layout.group].reshape(layout.blocks, layout.group, -1)
        total = votes[:, 0]
        for place in range(1, layout.group):
            total = add(total, votes[:, place])
        rows = np.concatenate([rows, total])
    return sub(mul(rows, rows), rows)


def _uniform(count: int, randomness: Randomness) -> Words:
    """Draw uniform field elements, (count,), by rejection."""
    drawn = np.frombuffer(randomness.draw(8 * count), dtype=np.uint64).copy()
    while (outside := np.flatnonzero(drawn >= np.uint64(PRIME))).size:
        drawn[outside] = np.frombuffer(randomness.draw(8 * outside.size), dtype=np.uint64)
    return drawn


class _Committed:
    """A matrix of codewords with a Merkle tree over its salted columns."""

    def __init__(self, polynomials: Words, layout: Layout, randomness: Randomness) -> None:
        self.columns = np.ascontiguousarray(coset_values(polynomials, layout.size).T)
        salts = randomness.draw(SALT_BYTES * layout.size)
        self._salts = [salts[at : at + SALT_BYTES] for at in range(0, len(salts), SALT_BYTES)]
        self.tree = MerkleTree([salt + row.tobytes() for salt, row in zip(self._salts, self.columns, strict=True)])

    def open(self, places: Sequence[int]) -> bytes:
        """Encode the columns at these places with their salts and Merkle path."""
        leaves = b"".join(self._salts[place] + self.columns[place].tobytes() for place in places)
        path = self.tree.path(places)
        return leaves + len(path).to_bytes(2, "big") + b"".join(path)


def _hidden_rows(layout: Layout, messages: Words, randomness: Randomness) -> Words:
    """Append random entries to rows (m, used) and return their polynomials: coefficients (m, k)."""
    random = _uniform(len(messages) * QUERIES, randomness).reshape(len(messages), QUERIES)
    return coefficients(np.concatenate([messages, random], axis=1))


def _masks(layout: Layout, randomness: Randomness) -> tuple[Words, Words, Words]:
    """Draw polynomials that mask the answers of step 4.

    Returns:
        Uniform polynomials; polynomials that vanish where rows hold data; polynomials whose values sum to zero.
    """
    k = layout.degree
    any_ = _uniform(REPEATS * k, randomness).reshape(REPEATS, k)
    zero = _uniform(REPEATS * 2 * k, randomness).reshape(REPEATS, 2 * k)
    zero[:, : 2 * layout.used : 2] = 0
    balanced = _uniform(REPEATS * 2 * k, randomness).reshape(REPEATS, 2 * k)
    balanced[:, 0] = sub(np.zeros(REPEATS, np.uint64), balanced[:, k])
    return any_, coefficients(zero), balanced


def _padded(polynomials: Words, width: int) -> Words:
    """Extend the coefficients of each row with zeros to `width`."""
    return np.pad(polynomials, ((0, 0), (0, width - polynomials.shape[1])))


def prove(
    statement: bytes,
    layout: Layout,
    entries: NDArray[np.integer],
    ciphertexts: Sequence[mpz],
    witness: Witness,
    *,
    randomness: Randomness = SYSTEM,
) -> bytes:
    """Prove that one ballot is valid.

    Args:
        statement: what the ballot is bound to: round and sender.
        layout: the layout of the round.
        entries: the ballot's vector of zeros and ones, shape (S,).
        ciphertexts, witness: as `Encryptor.encrypt_with_witness` returned them, in mode `half` or `short`.
        randomness: the operating system's by default.

    Returns:
        The encoded proof, at most `layout.longest_proof` bytes.
    """
    key, k = layout.key, layout.degree
    chain = _Chain(layout, statement, ciphertexts)
    # 1
    mu, alpha = mpz(randomness.bits(layout.mask_bits)), mpz(randomness.bits(mask_bits(key)))
    announcement = generator_power(key, mu) * base_power(key, alpha) % key.ciphertext_modulus
    first = np.concatenate([layout.votes(entries), layout.bits([int(mu)], layout.mask_bits)])
    rows = _hidden_rows(layout, first, randomness)
    masks = _masks(layout, randomness)
    committed = [_Committed(np.concatenate([_padded(part, 2 * k) for part in (rows, *masks)]), layout, randomness)]
    announced = announcement.to_bytes(key.ciphertext_bytes, "little")
    chain.absorb(committed[0].tree.root, announced)
    # 2
    factors = chain.weights(len(ciphertexts))
    z = mu + sum(e * m for e, m in zip(factors, witness.plaintexts, strict=True))
    w = alpha + sum(e * a for e, a in zip(factors, witness.roots, strict=True))
    sizes = layout.proof_parts
    answers = z.to_bytes(sizes[0], "little") + w.to_bytes(sizes[1], "little")
    chain.absorb(answers)
    # 3
    weights = {prime: layout.weights(factors, prime) for prime in chain.primes()}
    mask = layout.bits([int(mu)], layout.mask_bits).reshape(-1)[: layout.mask_bits]
    bits = np.concatenate([np.asarray(entries), mask]).astype(np.int64)
    sums = {prime: int((np.concatenate(each).astype(np.int64) * bits).sum()) for prime, each in weights.items()}
    quotients = [(total - int(z % prime)) // prime for prime, total in sums.items()]
    second = _hidden_rows(layout, layout.bits(quotients, layout.quotient_bits), randomness)
    committed.append(_Committed(second, layout, randomness))
    chain.absorb(committed[1].tree.root)
    # 4
    combine = _Combinations(chain, layout)
    rows = np.concatenate([rows, second])
    at = values(rows, 2 * k)
    constraints = _constraints(layout, at)
    polynomials, linear = [], layout.linear(weights, combine.equations)
    for repeat in range(REPEATS):
        near = add(dot(combine.rows[repeat], rows), masks[0][repeat])
        square = add(coefficients(dot(combine.squares[repeat], constraints)[None])[0], masks[1][repeat])
        equation = coefficients(column_sum(mul(values(linear[repeat], 2 * k), at))[None])[0]
        polynomials += [near, square, add(equation, masks[2][repeat])]
    sent = np.concatenate(polynomials).astype("<u8").tobytes()
    chain.absorb(sent)
    # 5
    places = chain.columns(layout.size)
    roots = b"".join(one.tree.root for one in committed)
    return b"".join((roots, announced, answers, sent, *(one.open(places) for one in committed)))


def verify(statement: bytes, layout: Layout, ciphertexts: Sequence[mpz], proof: bytes) -> None:
    """Raise ProofError unless the proof holds. The ciphertexts must be units (`check_ciphertexts`)."""
    _Verification(statement, layout, ciphertexts, proof).run()


class _Verification:
    """The verification of one proof, step by step."""

    def __init__(self, statement: bytes, layout: Layout, ciphertexts: Sequence[mpz], proof: bytes) -> None:
        if len(ciphertexts) != layout.plan.ciphertexts:
            raise ProofError(
                f"a ballot of this round has {layout.plan.ciphertexts} ciphertexts, not {len(ciphertexts)}"
            )
        self.layout, self.ciphertexts = layout, ciphertexts
        self.chain = _Chain(layout, statement, ciphertexts)
        self._proof, self._at = proof, 0

    def _take(self, count: int) -> bytes:
        """Read the next `count` bytes of the proof."""
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

    def run(self) -> None:
        """Raise ProofError unless the proof holds."""
        layout, key, k = self.layout, self.layout.key, self.layout.degree
        roots = [self._take(HASH_BYTES) for _ in range(2)]
        announced = self._take(key.ciphertext_bytes)
        self.chain.absorb(roots[0], announced)
        factors = self.chain.weights(len(self.ciphertexts))
        sizes = layout.proof_parts
        answers = self._take(sizes[0] + sizes[1])
        z, w = (mpz.from_bytes(part, "little") for part in (answers[: sizes[0]], answers[sizes[0] :]))
        self._check_opening(mpz.from_bytes(announced, "little"), factors, z, w)
        self.chain.absorb(answers)
        primes = self.chain.primes()
        self.chain.absorb(roots[1])
        combine = _Combinations(self.chain, layout)
        start = self._at
        polynomials = [(self._words(k), self._words(2 * k), self._words(2 * k)) for _ in range(REPEATS)]
        self.chain.absorb(self._proof[start : self._at])
        places = self.chain.columns(layout.size)
        first = self._open(roots[0], places, layout.first_rows + 3 * REPEATS)
        second = self._open(roots[1], places, layout.second_rows)
        if self._at != len(self._proof):
            raise ProofError("a proof of validity has too many bytes")
        rows = np.concatenate([first[: layout.first_rows], second])
        masks = first[layout.first_rows :].reshape(3, REPEATS, len(places))
        constraints = _constraints(layout, rows)
        linear = layout.linear({prime: layout.weights(factors, prime) for prime in primes}, combine.equations)
        linear_at = coset_values_at(linear.reshape(-1, k), layout.size, places).reshape(REPEATS, -1, len(places))
        sent = np.concatenate([_padded(one[None], 2 * k) for several in polynomials for one in several])
        answers_at = coset_values_at(sent, layout.size, places).reshape(REPEATS, 3, len(places))
        for repeat, (_near, square, equation) in enumerate(polynomials):
            target = sum(int(g) * int(z % q) for g, q in zip(combine.equations[repeat], primes, strict=True)) % PRIME
            self._check_sums(square, equation, target)
            expected = (
                dot(combine.rows[repeat], rows),
                dot(combine.squares[repeat], constraints),
                column_sum(mul(linear_at[repeat], rows)),
            )
            for answer, combination, mask in zip(answers_at[repeat], expected, masks[:, repeat], strict=True):
                if not np.array_equal(answer, add(combination, mask)):
                    raise ProofError("the proof of validity does not hold: an opened column contradicts an answer")

    def _check_opening(self, announcement: mpz, factors: Sequence[mpz], z: mpz, w: mpz) -> None:
        """Check the equation of step 2, up to the sign, and the ranges of its numbers."""
        key, modulus = self.layout.key, self.layout.key.ciphertext_modulus
        if z >> (self.layout.mask_bits + 1) or w >> answer_bits(key):
            raise ProofError("an answer in a proof of validity lies outside its range")
        try:
            check_ciphertexts(key, (announcement,))
        except CiphertextError as error:
            raise ProofError(f"the announcement of a proof of validity is not a unit: {error}") from None
        left = generator_power(key, z) * base_power(key, w) % modulus
        right = announcement * public_power(self.ciphertexts, factors, key.ring) % modulus
        if (left * left - right * right) % modulus:
            raise ProofError(
                "the proof of validity does not open these ciphertexts: the sender did not encrypt them, or made the "
                "proof for another round"
            )

    def _check_sums(self, square: Words, equation: Words, target: int) -> None:
        """Check that the constraints vanish where rows hold data, and that the equations sum to the target."""
        k = self.layout.degree
        if values(add(square[:k], square[k:])[None], k)[0, : self.layout.used].any():
            raise ProofError("a ballot is not valid: an entry is not 0 or 1, or a sample has more than one vote")
        if int(add(equation[:1], equation[k : k + 1])[0]) * k % PRIME != target:
            raise ProofError("a ballot is not valid: its entries are not those of its ciphertexts")

    def _open(self, root: bytes, places: Sequence[int], rows: int) -> Words:
        """Read opened columns, check them against the root and return them as (rows, places)."""
        opened = np.frombuffer(self._take(len(places) * (SALT_BYTES + 8 * rows)), np.uint8).reshape(len(places), -1)
        hashes = self._take(HASH_BYTES * int.from_bytes(self._take(2), "big"))
        path = [hashes[at : at + HASH_BYTES] for at in range(0, len(hashes), HASH_BYTES)]
        leaves = {place: leaf.tobytes() for place, leaf in zip(places, opened, strict=True)}
        if opened_root(leaves, self.layout.size, path) != root:
            raise ProofError("the opened columns of a proof of validity are not the committed ones")
        columns = np.ascontiguousarray(opened[:, SALT_BYTES:]).view("<u8").astype(np.uint64)
        if columns.size and columns.max() >= np.uint64(PRIME):
            raise ProofError("a proof of validity has a number outside the field")
        return np.ascontiguousarray(columns.T)
