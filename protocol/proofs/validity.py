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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from psephos.protocol.errors import InvalidParameter, ProofError
from psephos.protocol.paillier.encryption import Witness
from psephos.protocol.paillier.generator import generator_power
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.proofs.challenge import CHALLENGE_BITS, HIDING_BITS
from psephos.protocol.proofs.codewords import (
    DEGREES,
    PRIMES,
    QUERIES,
    RATE,
    REPEATS,
    ChallengeChain,
    CommittedMatrix,
    MatrixLayout,
    ProofReader,
    block_rows,
    hidden_rows,
    padded,
    powers_modulo,
    random_masks,
)
from psephos.protocol.proofs.field import (
    PRIME,
    Words,
    add,
    coefficients,
    column_sum,
    coset_values_at,
    dot,
    extended_at,
    mul,
    powers,
    product,
    sub,
    values,
)
from psephos.protocol.proofs.knowledge import base_power, mask_bits
from psephos.protocol.proofs.merkle import HASH_BYTES
from psephos.protocol.randomness import SYSTEM, Randomness

_LABEL = "psephos valid ballot"


@dataclass(frozen=True)
class Weights:
    """The weights in z of all committed numbers, modulo each of the primes (step 3).

    Attributes:
        primes: the primes q.
        entries: e_l radix^j modulo q for each entry, (PRIMES, S).
        mask: 2^b modulo q for each bit of mu, (PRIMES, mask_bits).
    """

    primes: Sequence[int]
    entries: Words
    mask: Words


@dataclass(frozen=True)
class Layout(MatrixLayout):
    """The layout of the committed matrix, derived from public numbers.

    Attributes:
        key: the key that the ballot is encrypted under.
        plan: how the ballot is packed; its entries start at 0.
        group: entries per sample, K - 1.
        degree: k, the number of points that determine a row, a power of two. `Layout.of` chooses the one with the
            shortest proof.
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
        return min(layouts, key=lambda layout: layout.least_bytes)

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

    def votes(self, entries: NDArray[np.integer]) -> Words:
        """Arrange entries (S,) as rows (blocks * group, used); a row holds one class of a block of samples."""
        table = np.asarray(entries).reshape(-1, self.group).astype(np.uint64)
        return block_rows(table, self.used, np.zeros(self.group, dtype=np.uint64))

    def weights(self, factors: Sequence[mpz], primes: Sequence[int]) -> Weights:
        """Return the weights for the challenges e_l, modulo each prime."""
        entries = self.slot_weights(factors, primes)
        return Weights(primes, entries, powers_modulo(2, self.mask_bits, primes))

    def linear_values(self, weights: Weights, combine: Words) -> Words:
        """Combine the equations of step 3 into weights of all committed entries.

        Args:
            combine: coefficients of the random combinations, (REPEATS, PRIMES).

        Returns:
            The weights where rows hold data, (REPEATS rows, used); where rows are random they are 0.
        """
        modulus = np.array([PRIME - prime for prime in weights.primes], dtype=np.uint64)
        entries, mask = product(combine, weights.entries), product(combine, weights.mask)
        quotients = mul(mul(combine, modulus)[:, :, None], powers(2, self.quotient_bits)).reshape(len(combine), -1)
        rows = [
            np.concatenate([self.votes(of_entries), self.rows_of(of_mask), self.rows_of(of_quotients)])
            for of_entries, of_mask, of_quotients in zip(entries, mask, quotients, strict=True)
        ]
        return np.concatenate(rows)

    def linear(self, weights: Weights, combine: Words) -> Words:
        """Return `linear_values` as polynomials: coefficients (REPEATS, rows, k)."""
        rows = padded(self.linear_values(weights, combine), self.degree)
        return coefficients(rows).reshape(len(combine), -1, self.degree)


def _chain(layout: Layout, statement: bytes, ciphertexts: Sequence[mpz]) -> ChallengeChain:
    """Return the hash chain of a proof of validity, with the statement absorbed."""
    size = layout.key.ciphertext_bytes
    shape = f"{layout.group} {layout.degree} {QUERIES} {RATE} {REPEATS} {PRIMES}".encode()
    parts = (layout.key.identifier, layout.plan.digest, shape, statement)
    return ChallengeChain(_LABEL, (*parts, *(c.to_bytes(size, "little") for c in ciphertexts)))


class _Combinations:
    """The challenges of step 4, REPEATS times: weights of rows, of quadratic constraints and of equations."""

    def __init__(self, chain: ChallengeChain, layout: Layout) -> None:
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


def _masks(layout: Layout, randomness: Randomness) -> tuple[Words, Words, Words]:
    """Draw polynomials that mask the answers of step 4."""
    any_, zero, balanced = random_masks(layout, randomness)
    balanced[:, 0] = sub(np.zeros(REPEATS, np.uint64), balanced[:, layout.degree])
    return any_, zero, balanced


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
        entries: the ballot's vector of zeros and ones, shape (S,).

    Returns:
        The encoded proof, at most `layout.longest_proof` bytes.
    """
    key, k = layout.key, layout.degree
    chain = _chain(layout, statement, ciphertexts)
    # 1
    mu, alpha = mpz(randomness.bits(layout.mask_bits)), mpz(randomness.bits(mask_bits(key)))
    announcement = generator_power(key, mu) * base_power(key, alpha) % key.ciphertext_modulus
    first = np.concatenate([layout.votes(entries), layout.bits([int(mu)], layout.mask_bits)])
    rows = hidden_rows(first, randomness)
    masks = _masks(layout, randomness)
    committed = [CommittedMatrix(np.concatenate([padded(part, 2 * k) for part in (rows, *masks)]), layout, randomness)]
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
    weights = layout.weights(factors, chain.primes())
    mask = layout.bits([int(mu)], layout.mask_bits).reshape(-1)[: layout.mask_bits]
    totals = weights.entries.astype(np.int64) @ np.asarray(entries, dtype=np.int64)
    totals += (weights.mask @ mask).astype(np.int64)
    sums = dict(zip(weights.primes, totals.tolist(), strict=True))
    quotients = [(total - int(z % prime)) // prime for prime, total in sums.items()]
    second = hidden_rows(layout.bits(quotients, layout.quotient_bits), randomness)
    committed.append(CommittedMatrix(second, layout, randomness))
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


class _Verification(ProofReader):
    """The verification of one proof, step by step."""

    def __init__(self, statement: bytes, layout: Layout, ciphertexts: Sequence[mpz], proof: bytes) -> None:
        super().__init__(layout, ciphertexts, proof)
        self.layout = layout
        self.chain = _chain(layout, statement, ciphertexts)

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
        linear = layout.linear_values(layout.weights(factors, primes), combine.equations)
        linear_at = extended_at(linear, k, layout.size, places).reshape(REPEATS, -1, len(places))
        sent = np.concatenate([padded(one[None], 2 * k) for several in polynomials for one in several])
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

    def _check_sums(self, square: Words, equation: Words, target: int) -> None:
        """Check that the constraints vanish where rows hold data, and that the equations sum to the target."""
        k = self.layout.degree
        if values(add(square[:k], square[k:])[None], k)[0, : self.layout.used].any():
            raise ProofError("a ballot is not valid: an entry is not 0 or 1, or a sample has more than one vote")
        if int(add(equation[:1], equation[k : k + 1])[0]) * k % PRIME != target:
            raise ProofError("a ballot is not valid: its entries are not those of its ciphertexts")
