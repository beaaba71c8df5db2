"""Commitments to matrices of Reed-Solomon codewords, and their link to Paillier plaintexts.

The proofs of validity (`validity`) and of bounds (`bounded`) commit to rows of field elements, as Ligero does (Ames,
Hazay, Ishai and Venkitasubramaniam 2017), and compare the rows with the plaintexts of a ballot by one random
combination of the plaintexts, modulo random primes. This module has what both use: the sizes of a matrix, the hash
chain that all challenges come from, hidden rows, committed columns, weights modulo primes, and the reader of a proof.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import islice

import gmpy2
import numpy as np
from gmpy2 import mpz

from psephos.protocol.errors import CiphertextError, ProofError
from psephos.protocol.paillier.ciphertexts import check_ciphertexts
from psephos.protocol.paillier.generator import generator_power
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.public_power import public_power
from psephos.protocol.proofs.challenge import challenges, digest, stream
from psephos.protocol.proofs.field import PRIME, Words, coefficients, coset_values
from psephos.protocol.proofs.knowledge import answer_bits, base_power
from psephos.protocol.proofs.merkle import HASH_BYTES, MerkleTree, opened_columns_root
from psephos.protocol.randomness import Randomness

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


class MatrixLayout(ABC):
    """The sizes of the committed matrices; a subclass says what their rows hold.

    Attributes:
        key: the key that the ballot is encrypted under.
        plan: how the ballot is packed.
        degree: k, the number of points that determine a row, a power of two.
    """

    key: PublicKey
    plan: PackingPlan
    degree: int

    @property
    @abstractmethod
    def mask_bits(self) -> int:
        """Length of mu in bits; z is one bit longer at most."""

    @property
    @abstractmethod
    def first_rows(self) -> int:
        """Number of rows of the first matrix, without the masks of the answers."""

    @property
    @abstractmethod
    def second_rows(self) -> int:
        """Number of rows of the second matrix."""

    @property
    def used(self) -> int:
        """Entries of a row that hold data; the others are random, one per opened column."""
        return self.degree - QUERIES

    @property
    def size(self) -> int:
        """n, the number of entries of a codeword."""
        return RATE * self.degree

    @property
    def least_bytes(self) -> int:
        """Approximate length of a proof in bytes, to compare layouts of one ballot."""
        rows = self.first_rows + self.second_rows + 3 * REPEATS
        return 8 * (QUERIES * rows + 5 * REPEATS * self.degree)

    @property
    def longest_proof(self) -> int:
        """Length of the longest proof in bytes; the number of hashes that open the columns depends on their places."""
        committed = 2 * HASH_BYTES + self.key.ciphertext_bytes + sum(self.proof_parts)
        leaves = 2 * SALT_BYTES + 8 * (self.first_rows + self.second_rows + 3 * REPEATS)
        paths = 2 * (2 + QUERIES * HASH_BYTES * self.size.bit_length())
        return committed + QUERIES * leaves + paths

    @cached_property
    def proof_parts(self) -> tuple[int, int, int]:
        """Lengths of z, of w, and of all polynomials in bytes."""
        return (self.mask_bits + 8) // 8, (answer_bits(self.key) + 7) // 8, 8 * 5 * REPEATS * self.degree

    def bits(self, numbers: Sequence[int], width: int) -> Words:
        """Return the bits of numbers, `width` each, least significant first, as rows of `used` entries."""
        encoded = b"".join(int(number).to_bytes((width + 7) // 8, "little") for number in numbers)
        table = np.unpackbits(
            np.frombuffer(encoded, dtype=np.uint8).reshape(len(numbers), -1), axis=1, bitorder="little"
        )
        return self.rows_of(table[:, :width].reshape(-1).astype(np.uint64))

    def rows_of(self, entries: Words) -> Words:
        """Arrange entries as rows of `used`, filled with zeros."""
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
    """Return 1, base, base^2, ... modulo each of some primes below 2^32, (primes, count)."""
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
        """Extend the chain by a message of the prover."""
        self._state = digest(self._label, (self._state, *parts))

    def weights(self, count: int) -> list[mpz]:
        """Return the challenges e_l of step 2."""
        return challenges(f"{self._label}: weights", (self._state,), count)

    def primes(self) -> list[int]:
        """Return the first distinct primes among pseudorandom odd numbers in [2^30, 2^31)."""
        words = np.frombuffer(stream(f"{self._label}: primes", (self._state,), 4 * 1024), dtype="<u4")
        primes = (x for x in (words >> 2 | 1 << 30 | 1).tolist() if gmpy2.is_prime(x))
        return list(dict.fromkeys(islice(primes, 2 * PRIMES)))[:PRIMES]

    def elements(self, name: str, shape: tuple[int, ...]) -> Words:
        """Return pseudorandom field elements of this shape."""
        count = int(np.prod(shape))
        # A word lies outside the field with probability 2^-32, so 16 spare words are enough for any proof.
        words = np.frombuffer(stream(f"{self._label}: {name}", (self._state,), 8 * (count + 16)), dtype="<u8")
        return words[words < np.uint64(PRIME)][:count].astype(np.uint64).reshape(shape)

    def columns(self, size: int) -> list[int]:
        """Return the places of the columns to open."""
        words = np.frombuffer(stream(f"{self._label}: columns", (self._state,), 4 * 4 * QUERIES), dtype="<u4")
        return list(dict.fromkeys((words & (size - 1)).tolist()))[:QUERIES]


def uniform(count: int, randomness: Randomness) -> Words:
    """Draw uniform field elements, (count,), by rejection."""
    elements = np.frombuffer(randomness.draw(8 * count), dtype=np.uint64).copy()
    while (outside := np.flatnonzero(elements >= np.uint64(PRIME))).size:
        elements[outside] = np.frombuffer(randomness.draw(8 * outside.size), dtype=np.uint64)
    return elements


def hidden_rows(messages: Words, randomness: Randomness) -> Words:
    """Append random entries to rows (m, used) and return their polynomials: coefficients (m, k)."""
    random = uniform(len(messages) * QUERIES, randomness).reshape(len(messages), QUERIES)
    return coefficients(np.concatenate([messages, random], axis=1))


def padded(polynomials: Words, width: int) -> Words:
    """Extend the coefficients of each row with zeros to `width`."""
    return np.pad(polynomials, ((0, 0), (0, width - polynomials.shape[1])))


def block_rows(table: Words, used: int, filling: Words) -> Words:
    """Arrange a table (S, m) as rows of `used` entries, m rows for each block of `used` lines, (blocks m, used).

    The last block is filled with copies of the line `filling`, (m,).
    """
    blocks, width = -(-len(table) // used), table.shape[1]
    full = np.empty((blocks * used, width), dtype=np.uint64)
    full[: len(table)], full[len(table) :] = table, filling
    return np.ascontiguousarray(full.reshape(blocks, used, width).transpose(0, 2, 1)).reshape(-1, used)


def random_masks(layout: MatrixLayout, randomness: Randomness) -> tuple[Words, Words, Words]:
    """Draw polynomials for the masks of the answers of step 4, by coefficients.

    Returns:
        Uniform polynomials of degree below k, (REPEATS, k); uniform polynomials of degree below 2 k that vanish where
        rows hold data, and uniform ones of that degree, (REPEATS, 2 k) each.
    """
    k = layout.degree
    any_ = uniform(REPEATS * k, randomness).reshape(REPEATS, k)
    zero = uniform(REPEATS * 2 * k, randomness).reshape(REPEATS, 2 * k)
    zero[:, : 2 * layout.used : 2] = 0
    return any_, coefficients(zero), uniform(REPEATS * 2 * k, randomness).reshape(REPEATS, 2 * k)


class CommittedMatrix:
    """A matrix of codewords with a Merkle tree over its salted columns."""

    def __init__(self, polynomials: Words, layout: MatrixLayout, randomness: Randomness) -> None:
        self.codewords = coset_values(polynomials, layout.size)
        self._salts = randomness.draw(SALT_BYTES * layout.size)
        self.tree = MerkleTree.of_columns(self._salts, self.codewords)

    def open(self, places: Sequence[int]) -> bytes:
        """Encode the columns at these places with their salts and Merkle path."""
        salts = np.frombuffer(self._salts, dtype=np.uint8).reshape(-1, SALT_BYTES)[places]
        columns = np.ascontiguousarray(self.codewords[:, places].T.astype("<u8", copy=False))
        leaves = np.concatenate([salts, columns.view(np.uint8)], axis=1).tobytes()
        path = self.tree.path(places)
        return leaves + len(path).to_bytes(2, "big") + b"".join(path)


class ProofReader:
    """A received proof that is read from its beginning, and the checks that do not depend on what the rows hold."""

    def __init__(self, layout: MatrixLayout, ciphertexts: Sequence[mpz], proof: bytes) -> None:
        if len(ciphertexts) != layout.plan.ciphertexts:
            raise ProofError(
                f"a ballot of this round has {layout.plan.ciphertexts} ciphertexts, not {len(ciphertexts)}"
            )
        self.matrix, self.ciphertexts = layout, ciphertexts
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

    def _check_opening(self, announcement: mpz, factors: Sequence[mpz], z: mpz, w: mpz) -> None:
        """Check the equation of step 2, up to the sign, and the ranges of its numbers."""
        key, modulus = self.matrix.key, self.matrix.key.ciphertext_modulus
        if z >> (self.matrix.mask_bits + 1) or w >> answer_bits(key):
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

    def _open(self, root: bytes, places: Sequence[int], rows: int) -> Words:
        """Read opened columns, check them against the root and return them as (rows, places)."""
        opened = np.frombuffer(self._take(len(places) * (SALT_BYTES + 8 * rows)), np.uint8).reshape(len(places), -1)
        hashes = self._take(HASH_BYTES * int.from_bytes(self._take(2), "big"))
        path = [hashes[at : at + HASH_BYTES] for at in range(0, len(hashes), HASH_BYTES)]
        columns = np.ascontiguousarray(opened[:, SALT_BYTES:]).view("<u8").astype(np.uint64)
        columns = np.ascontiguousarray(columns.T)
        if opened_columns_root(places, opened[:, :SALT_BYTES].tobytes(), columns, self.matrix.size, path) != root:
            raise ProofError("the opened columns of a proof of validity are not the committed ones")
        if columns.size and columns.max() >= np.uint64(PRIME):
            raise ProofError("a proof of validity has a number outside the field")
        return columns
