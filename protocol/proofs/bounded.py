"""Proof that a ballot is bounded: every entry in the range of its plan, and the sum of their squares at most a bound.

The same five steps, the same matrices and the same link to the Paillier plaintexts as the proof of validity
(`validity`), with three differences.

* *Range.* The range of the plan has exactly T^j integers. A sender writes each entry less the plan's minimum in j
  digits to the base T, and shows for every digit d that it is one of 0, ..., T - 1 by a look-up (LogUp: Haboeck 2022):
  it commits to the digits and to how often each value t occurs, m_t, before a challenge alpha in the field of p^2
  elements, not in that of p; then to h = 1/(alpha + d) for every digit; and the h sum to the sum of m_t/(alpha + t).
* *Norm.* The bound less the sum of squares is a slack that is not negative. Slack and carries are committed as digits
  to the base T as well, and some equations between products of parts of the entries hold (`norm_equations`). The
  products are not committed: the third answer of step 4 contains them.
* *Mask.* mu has digits to the base T, not bits.

The soundness error is that of the proof of validity plus (N + T)/(p^2 - p) for N digits, it is complete without error,
and zero knowledge up to 2^-79 (docs/security/proofs.md, theorem 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from psephos.protocol.errors import InvalidParameter, ProofError
from psephos.protocol.paillier.encryption import Witness
from psephos.protocol.paillier.generator import generator_power
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.packing import PackingPlan, decompose
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
    NONRESIDUE,
    PRIME,
    Words,
    add,
    coefficients,
    column_sum,
    coset_values_at,
    ext_inverse,
    extended_at,
    mul,
    powers,
    product,
    sub,
    sum_of_products,
    values,
)
from psephos.protocol.proofs.knowledge import base_power, mask_bits
from psephos.protocol.proofs.merkle import HASH_BYTES
from psephos.protocol.proofs.norm_equations import FEWEST_PARTS, Integers, NormEquations, digit_count
from psephos.protocol.randomness import SYSTEM, Randomness

LARGEST_BASE = 1 << 14
"""Largest T: the look-up table has T entries, which every proof and every check computes."""

MOST_DIGITS = 8
"""Largest number of digits of an entry."""

LOOKUP_EQUATIONS = 2
"""Equations of the look-up: both components of one in the field of p^2 elements."""

_LABEL = "psephos bounded ballot"

Table = tuple[Words, Words]
"""Elements of the field of p^2 elements: the two components of each."""

Vector = Sequence[int] | NDArray[np.integer]
"""The entries of a ballot, integers of any size."""


def bounded_plan(key: PublicKey, *, length: int, addends: int, minimum: int, maximum: int) -> PackingPlan:
    """Return the plan with the shortest proof whose range contains [minimum, maximum].

    The range of the result has T^j integers for some T and j, so it is wider by a factor of at most (1 + 1/T)^j where
    no exact root exists. Entries outside [minimum, maximum] but within the result's range can be proved.
    """
    best: BoundedLayout | None = None
    width = maximum - minimum + 1
    for digits in range(1, MOST_DIGITS + 1):
        base = int(gmpy2.iroot(mpz(width - 1), digits)[0]) + 1
        excess = base**digits - width
        if base > LARGEST_BASE or base < 2:
            continue
        low, high = minimum - excess // 2, maximum + excess - excess // 2
        plan = PackingPlan.for_key(key, length=length, addends=addends, minimum=low, maximum=high)
        for layout in _layouts(key, plan, length * max(-low, high) ** 2, base, digits):
            if best is None or layout.cost < best.cost:
                best = layout
    if best is None:
        raise InvalidParameter(_TOO_WIDE.format(length, minimum, maximum))
    return best.plan


_TOO_WIDE = (
    "no proof of bounds exists for {} entries in [{}, {}]: they or their sum of squares do not fit into the field, or "
    "the range is not a power; choose proofs='knowledge', or a coarser grid, and the range with `bounded_plan`"
)


@dataclass(frozen=True)
class DigitWeights:
    """The weights in z of all committed digits, modulo each of the primes (step 3).

    Attributes:
        primes: the primes q.
        entries: e_l radix^i T^d modulo q for each digit of each entry, (PRIMES, S digits).
        mask: T^d modulo q for each digit of mu, (PRIMES, mask_digits).
    """

    primes: Sequence[int]
    entries: Words
    mask: Words


@dataclass(frozen=True)
class BoundedLayout(MatrixLayout):
    """The layout of the committed matrices, derived from public numbers.

    Attributes:
        key: the key that the ballot is encrypted under.
        plan: how the ballot is packed; its range has base^digits integers, as that of `bounded_plan`.
        square_bound: the largest sum of squares of the entries that can be proved.
        base: T, the number of values of a digit.
        digits: j, the number of digits of an entry.
        degree: k, the number of points that determine a row, a power of two. `BoundedLayout.of` chooses base,
            digits and degree for the shortest proof.
    """

    key: PublicKey
    plan: PackingPlan
    square_bound: int
    base: int
    digits: int
    degree: int

    def __post_init__(self) -> None:
        plan = self.plan
        if not 2 <= self.base <= LARGEST_BASE or not 1 <= self.digits <= MOST_DIGITS:
            raise InvalidParameter(f"there are no digits of base {self.base}, {self.digits} of them")
        if self.base**self.digits != plan.maximum - plan.minimum + 1 or self.degree not in DEGREES:
            raise InvalidParameter(
                f"the range of the plan, [{plan.minimum}, {plan.maximum}], does not have {self.base}^{self.digits} "
                "integers; choose the plan with bounded_plan"
            )
        if not 0 <= self.square_bound <= plan.length * max(-plan.minimum, plan.maximum) ** 2:
            raise InvalidParameter(
                f"the bound of the sum of squares is {self.square_bound}; it must be at least 0 and at most what "
                f"{plan.length} entries of the plan can reach"
            )
        linked = (1 << 31) * (self._linked * (self.base - 1) + (1 << self.quotient_bits))
        if plan.length >= 1 << 24 or linked >> 63 or not self.norm.fits:
            raise InvalidParameter(_TOO_WIDE.format(plan.length, plan.minimum, plan.maximum))

    @classmethod
    def of(cls, key: PublicKey, plan: PackingPlan, square_bound: int) -> Self:
        """Return the layout with the shortest proof; raise InvalidParameter if there is none."""
        width, layouts = mpz(plan.maximum - plan.minimum + 1), []
        for digits in range(1, MOST_DIGITS + 1):
            base, exact = gmpy2.iroot(width, digits)
            if exact and 2 <= base <= LARGEST_BASE:
                layouts += list(_layouts(key, plan, square_bound, int(base), digits))
        if not layouts:
            raise InvalidParameter(_TOO_WIDE.format(plan.length, plan.minimum, plan.maximum))
        layout = min(layouts, key=lambda one: one.cost)
        return cls(key, plan, square_bound, layout.base, layout.digits, layout.degree)

    @cached_property
    def norm(self) -> NormEquations:
        """The equations of the norm."""
        points = self.blocks * self.used
        return NormEquations.of(self.plan.minimum, self.base, self.digits, points, self.square_bound)

    @property
    def cost(self) -> tuple[bool, int]:
        """What the layout of a ballot has least of: more than two parts of an entry, then bytes.

        Where a proof of two parts exists, a shorter one of more parts would change plans and proofs of earlier studies.
        """
        return len(self.norm.split.places) > FEWEST_PARTS, self.least_bytes

    @property
    def equation_count(self) -> int:
        """Number of equations between integers or field elements: modulo primes, of the norm, of the look-up."""
        return PRIMES + self.norm.count + LOOKUP_EQUATIONS

    @property
    def blocks(self) -> int:
        """Number of blocks of `used` entries; a block has one row per digit."""
        return -(-self.plan.length // self.used)

    @cached_property
    def mask_digits(self) -> int:
        """Number of digits of mu."""
        plaintext = (mpz(self.plan.radix) ** min(self.plan.slots_per_plaintext, self.plan.length)).bit_length()
        bits = CHALLENGE_BITS + plaintext + self.plan.ciphertexts.bit_length() + HIDING_BITS
        return digit_count(mpz(1) << bits, self.base)

    @cached_property
    def mask_bits(self) -> int:
        """Length of mu in bits."""
        return int((mpz(self.base) ** self.mask_digits).bit_length())

    @property
    def _linked(self) -> int:
        """Number of digits of the entries and of mu."""
        return self.plan.length * self.digits + self.mask_digits

    @property
    def quotient_bits(self) -> int:
        """Length of each quotient t in bits; t is smaller than the sum of the digits."""
        return (self._linked * (self.base - 1)).bit_length()

    @property
    def digit_rows(self) -> int:
        """Number of rows of digits: of the entries, then of mu, slack and carries."""
        loose = self.mask_digits + sum(len(weights) for weights in self.norm.auxiliary)
        return self.blocks * self.digits + -(-loose // self.used)

    @property
    def first_rows(self) -> int:
        """Number of rows of digits and of multiplicities."""
        return self.digit_rows + -(-self.base // self.used)

    @property
    def quotient_rows(self) -> int:
        """Number of rows of bits of the quotients."""
        return -(-PRIMES * self.quotient_bits // self.used)

    @property
    def second_rows(self) -> int:
        """Number of rows of inverses, both components, and of bits of the quotients."""
        return 2 * self.digit_rows + self.quotient_rows

    def admits(self, entries: Vector) -> bool:
        """Return whether a vector of integers, (S,), is in the range of the plan and within the bound."""
        if min(entries) < self.plan.minimum or max(entries) > self.plan.maximum:
            return False
        return self.norm.sum_of_squares(self.shifted(entries)) <= self.square_bound

    def shifted(self, entries: Vector) -> Integers:
        """Return entries in range less the minimum, (S,)."""
        minimum = self.plan.minimum
        if self.plan.maximum - minimum < 1 << 62:
            return np.asarray(entries, dtype=np.int64) - minimum
        return np.array([int(entry) - minimum for entry in entries], dtype=np.object_)

    def entry_digits(self, shifted: Integers) -> Words:
        """Return the digits of entries less the minimum, the lowest first, (S, digits)."""
        digits, rest = [], shifted
        for _ in range(self.digits):
            digits.append((rest % self.base).astype(np.uint64))
            rest = rest // self.base
        return np.stack(digits, axis=1)

    def rows_of_digits(self, entries: Words, loose: Words) -> Words:
        """Arrange digits as rows (digit_rows, used): those of the entries, (S, digits), and of mu, slack and carries.

        The places of the last block beyond S hold the digits of an entry 0.
        """
        zero = self.entry_digits(self.shifted([0]))[0]
        return np.concatenate([block_rows(entries, self.used, zero), self.rows_of(loose)])

    def weights(self, factors: Sequence[mpz], primes: Sequence[int]) -> DigitWeights:
        """Return the weights for the challenges e_l, modulo each prime."""
        scales = powers_modulo(self.base, max(self.digits, self.mask_digits), primes)
        moduli = np.array(primes, dtype=np.uint64)[:, None, None]
        entries = self.slot_weights(factors, primes)[:, :, None] * scales[:, None, : self.digits] % moduli
        return DigitWeights(primes, entries.reshape(len(primes), -1), scales[:, : self.mask_digits])

    def linear_values(self, weights: DigitWeights, table: Table, combine: Words) -> Words:
        """Combine the equations into weights of digits, multiplicities and bits of quotients.

        Args:
            table: 1/(alpha + t) for each t below T, (T,) each.
            combine: coefficients of the random combinations, (REPEATS, equation_count).
        """
        modulus = np.array([PRIME - prime for prime in weights.primes], dtype=np.uint64)
        of_primes, of_norm, of_lookup = combine[:, :PRIMES], combine[:, PRIMES:-2], combine[:, -2:]
        entries, mask = product(of_primes, weights.entries), product(of_primes, weights.mask)
        loose = np.concatenate([mask, product(of_norm, self.norm.weights)], axis=1)
        occurrences = product(sub(np.zeros_like(of_lookup), of_lookup), np.stack(table))
        quotients = mul(mul(of_primes, modulus)[:, :, None], powers(2, self.quotient_bits)).reshape(len(combine), -1)
        nothing = np.zeros(self.digits, dtype=np.uint64)
        rows = []
        for repeat in range(len(combine)):
            of_entries = block_rows(entries[repeat].reshape(-1, self.digits), self.used, nothing)
            others = (loose[repeat], occurrences[repeat], quotients[repeat])
            rows.append(np.concatenate([of_entries, *(self.rows_of(one) for one in others)]))
        return np.concatenate(rows)

    def linear(self, weights: DigitWeights, table: Table, combine: Words) -> Words:
        """Return `linear_values` as polynomials: coefficients (REPEATS, first_rows + quotient_rows, k)."""
        rows = padded(self.linear_values(weights, table, combine), self.degree)
        return coefficients(rows).reshape(len(combine), -1, self.degree)

    def target(self, z: mpz, primes: Sequence[int], combine: Words) -> int:
        """Return what the equations sum to, for the coefficients of one combination, (equation_count,)."""
        sides = [*(int(z % prime) for prime in primes), *self.norm.targets, 0, 0]
        return sum(int(g) * side for g, side in zip(combine, sides, strict=True)) % PRIME

    def equations(self, rows: Words, linear: Words, combine: Words) -> Words:
        """Return the combination of all equations at some points; over the used ones it sums to the target.

        Args:
            rows: values of all rows, (first_rows + second_rows, points).
            linear: values of the weights, (first_rows + quotient_rows, points).
            combine: coefficients of the combination, (equation_count,).
        """
        first, inverses = self.first_rows, 2 * self.digit_rows
        total = add(
            sum_of_products(linear[:first], rows[:first]), sum_of_products(linear[first:], rows[first + inverses :])
        )
        for component, coefficient in enumerate(combine[-2:]):
            begin = first + component * self.digit_rows
            total = add(total, mul(column_sum(rows[begin : begin + self.digit_rows]), coefficient[None]))
        return add(total, self._squares(rows[: self.blocks * self.digits], combine[PRIMES:-2]))

    def _squares(self, rows: Words, combine: Words) -> Words:
        """Return the combined squares, summed over all blocks, for rows of entries (blocks digits, points)."""
        points = rows.shape[1]
        digits = rows.reshape(self.blocks, self.digits, points).transpose(1, 0, 2).reshape(self.digits, -1)
        squares = self.norm.combined_squares(self.norm.split.parts_of_digits(digits), combine)
        return column_sum(squares.reshape(self.blocks, points))

    def constraints(self, rows: Words, alpha: tuple[int, int]) -> Words:
        """Return what must vanish wherever rows hold data, (2 digit_rows + quotient_rows, points).

        Both components of (alpha + d) h - 1 for every digit, and x^2 - x for every bit of a quotient.
        """
        digits, inverses = rows[: self.digit_rows], rows[self.first_rows :]
        h0, h1 = inverses[: self.digit_rows], inverses[self.digit_rows : 2 * self.digit_rows]
        bits = inverses[2 * self.digit_rows :]
        shifted = add(digits, _word(alpha[0]))
        real = sub(add(mul(shifted, h0), mul(h1, _word(NONRESIDUE * alpha[1] % PRIME))), _word(1))
        other = add(mul(shifted, h1), mul(h0, _word(alpha[1])))
        return np.concatenate([real, other, sub(mul(bits, bits), bits)])


def _layouts(key: PublicKey, plan: PackingPlan, square_bound: int, base: int, digits: int) -> Iterator[BoundedLayout]:
    """Yield the layouts of each degree that the field is large enough for."""
    for degree in DEGREES:
        try:
            yield BoundedLayout(key, plan, square_bound, base, digits, degree)
        except InvalidParameter:
            continue


def _word(number: int) -> Words:
    """Return a field element as an array of no dimension."""
    return np.array(number, dtype=np.uint64)


def table_of_inverses(base: int, alpha: tuple[int, int]) -> Table:
    """Return 1/(alpha + t) for t = 0, ..., base - 1, (base,) each; alpha is not in the field of p elements."""
    shifted = add(np.arange(base, dtype=np.uint64), _word(alpha[0]))
    inverses = ext_inverse(np.stack([shifted, np.full(base, alpha[1], dtype=np.uint64)]))
    return inverses[0], inverses[1]


def _chain(layout: BoundedLayout, statement: bytes, ciphertexts: Sequence[mpz]) -> ChallengeChain:
    """Return the hash chain of a proof, with the statement absorbed."""
    size = layout.key.ciphertext_bytes
    shape = (
        f"{layout.square_bound} {layout.base} {layout.digits} {layout.degree} {QUERIES} {RATE} {REPEATS} {PRIMES}"
    ).encode()
    parts = (layout.key.identifier, layout.plan.digest, shape, statement)
    return ChallengeChain(_LABEL, (*parts, *(c.to_bytes(size, "little") for c in ciphertexts)))


def _alpha(chain: ChallengeChain) -> tuple[int, int]:
    """Return the challenge of the look-up, an element of the field of p^2 elements outside that of p elements."""
    first, *others = chain.elements("alpha", (8,)).tolist()
    return first, next((other for other in others if other), 1)


class _Combinations:
    """The challenges of step 4, REPEATS times: weights of rows, of constraints and of equations."""

    def __init__(self, chain: ChallengeChain, layout: BoundedLayout) -> None:
        self.rows = chain.elements("rows", (REPEATS, layout.first_rows + layout.second_rows))
        self.constraints = chain.elements("squares", (REPEATS, 2 * layout.digit_rows + layout.quotient_rows))
        self.equations = chain.elements("equations", (REPEATS, layout.equation_count))


def used_values(layout: BoundedLayout, polynomials: Words) -> Words:
    """Evaluate polynomials of degree below 2 k, (m, 2 k), where rows hold data, (m, used)."""
    k = layout.degree
    return values(add(polynomials[:, :k], polynomials[:, k:]), k)[:, : layout.used]


def _masks(layout: BoundedLayout, randomness: Randomness) -> tuple[Words, Words, Words]:
    """Draw polynomials that mask the answers of step 4."""
    any_, zero, balanced = random_masks(layout, randomness)
    sums = column_sum(used_values(layout, balanced).T)
    share = mul(sums, _word(pow(layout.used, -1, PRIME)))
    balanced[:, 0] = sub(balanced[:, 0], share)
    return any_, zero, balanced


def prove(
    statement: bytes,
    layout: BoundedLayout,
    entries: Vector,
    ciphertexts: Sequence[mpz],
    witness: Witness,
    *,
    randomness: Randomness = SYSTEM,
) -> bytes:
    """Prove that one ballot is bounded.

    Args:
        entries: the ballot's vector, shape (S,).

    Returns:
        The encoded proof, at most `layout.longest_proof` bytes.
    """
    if not layout.admits(entries):
        raise InvalidParameter(
            "the vector exceeds the bounds of the round, so no proof of them exists; draw its noise again, or scale it"
        )
    return _Prover(statement, layout, entries, ciphertexts, witness, randomness).run()


class _Prover:
    """One proof in the making. The steps are those of the module."""

    def __init__(
        self,
        statement: bytes,
        layout: BoundedLayout,
        entries: Vector,
        ciphertexts: Sequence[mpz],
        witness: Witness,
        randomness: Randomness,
    ) -> None:
        self.layout, self.randomness = layout, randomness
        self.shifted = layout.shifted(entries)
        self.ciphertexts, self.witness = ciphertexts, witness
        self.chain = _chain(layout, statement, ciphertexts)

    def run(self) -> bytes:
        """Return the encoded proof."""
        layout, key, chain = self.layout, self.layout.key, self.chain
        # 1
        mu = mpz(self.randomness.below(layout.base**layout.mask_digits))
        exponent = mpz(self.randomness.bits(mask_bits(key)))
        announcement = generator_power(key, mu) * base_power(key, exponent) % key.ciphertext_modulus
        announced = announcement.to_bytes(key.ciphertext_bytes, "little")
        digits, loose = self.entry_digits(), self.loose_digits(mu)
        committed_digits = layout.rows_of_digits(digits, loose)
        rows = hidden_rows(
            np.concatenate([committed_digits, layout.rows_of(self.multiplicities(committed_digits))]), self.randomness
        )
        masks = self.masks()
        first = self.commit(np.concatenate([padded(part, 2 * layout.degree) for part in (rows, *masks)]))
        chain.absorb(first.tree.root, announced)
        # 2
        alpha, factors = _alpha(chain), chain.weights(len(self.ciphertexts))
        z = mu + sum(e * m for e, m in zip(factors, self.witness.plaintexts, strict=True))
        w = exponent + sum(e * a for e, a in zip(factors, self.witness.roots, strict=True))
        answers = z.to_bytes(layout.proof_parts[0], "little") + w.to_bytes(layout.proof_parts[1], "little")
        chain.absorb(answers)
        # 3
        weights = layout.weights(factors, chain.primes())
        table = table_of_inverses(layout.base, alpha)
        quotients = self.quotients(weights, digits, loose[: layout.mask_digits], z)
        messages = np.concatenate([*self.inverses(committed_digits, table, alpha), quotients])
        hidden = hidden_rows(messages, self.randomness)
        second = self.commit(hidden)
        chain.absorb(second.tree.root)
        # 4
        sent = self.answers(np.concatenate([rows, hidden]), masks, weights, table, alpha)
        chain.absorb(sent)
        # 5
        places = chain.columns(layout.size)
        opened = (one.open(places) for one in (first, second))
        return b"".join((first.tree.root, second.tree.root, announced, answers, sent, *opened))

    def commit(self, polynomials: Words) -> CommittedMatrix:
        """Commit to the columns of a matrix of codewords."""
        return CommittedMatrix(polynomials, self.layout, self.randomness)

    def entry_digits(self) -> Words:
        """Return the digits of the entries, (S, digits)."""
        return self.layout.entry_digits(self.shifted)

    def loose_digits(self, mu: mpz) -> Words:
        """Return the digits of mu, of the slack and of the carries."""
        layout = self.layout
        mask = decompose(mu, mpz(layout.base), layout.mask_digits)
        others = layout.norm.digits(layout.norm.slack_and_carries(self.shifted))
        return np.array(mask + others, dtype=np.uint64)

    def multiplicities(self, digits: Words) -> Words:
        """Return how often each value occurs among the digits, (T,)."""
        return np.bincount(digits.reshape(-1).astype(np.int64), minlength=self.layout.base).astype(np.uint64)

    def inverses(self, digits: Words, table: Table, alpha: tuple[int, int]) -> Table:
        """Return 1/(alpha + d) for every digit, the shape of the digits each; honest ones are in the table."""
        return table[0][digits.astype(np.intp)], table[1][digits.astype(np.intp)]

    def masks(self) -> tuple[Words, Words, Words]:
        """Return the polynomials that mask the answers of step 4."""
        return _masks(self.layout, self.randomness)

    def quotients(self, weights: DigitWeights, digits: Words, mask: Words, z: mpz) -> Words:
        """Return the bits of the quotients of the equations by each prime, as rows."""
        totals = weights.entries.astype(np.int64) @ digits.reshape(-1).astype(np.int64)
        totals += weights.mask.astype(np.int64) @ mask.astype(np.int64)
        pairs = zip(totals.tolist(), weights.primes, strict=True)
        quotients = [(total - int(z % prime)) // prime for total, prime in pairs]
        return self.layout.bits(quotients, self.layout.quotient_bits)

    def answers(
        self,
        rows: Words,
        masks: tuple[Words, Words, Words],
        weights: DigitWeights,
        table: Table,
        alpha: tuple[int, int],
    ) -> bytes:
        """Return the encoded answers of step 4, for all rows by coefficients."""
        layout, width = self.layout, 2 * self.layout.degree
        combine = _Combinations(self.chain, layout)
        at = values(rows, width)
        constraints = layout.constraints(at, alpha)
        linear = layout.linear(weights, table, combine.equations)
        near = product(combine.rows, rows)
        squares = coefficients(product(combine.constraints, constraints))
        sums = [
            layout.equations(at, values(weights_of, width), equation)
            for weights_of, equation in zip(linear, combine.equations, strict=True)
        ]
        polynomials = []
        for repeat, summed in enumerate(coefficients(np.stack(sums))):
            several = (near[repeat], squares[repeat], summed)
            polynomials += [add(one, mask[repeat]) for one, mask in zip(several, masks, strict=True)]
        return np.concatenate(polynomials).astype("<u8").tobytes()


def verify(statement: bytes, layout: BoundedLayout, ciphertexts: Sequence[mpz], proof: bytes) -> None:
    """Raise ProofError unless the proof holds. The ciphertexts must be units (`check_ciphertexts`)."""
    _Verification(statement, layout, ciphertexts, proof).run()


class _Verification(ProofReader):
    """The verification of one proof, step by step."""

    def __init__(self, statement: bytes, layout: BoundedLayout, ciphertexts: Sequence[mpz], proof: bytes) -> None:
        super().__init__(layout, ciphertexts, proof)
        self.layout = layout
        self.chain = _chain(layout, statement, ciphertexts)

    def run(self) -> None:
        """Raise ProofError unless the proof holds."""
        layout, key, k = self.layout, self.layout.key, self.layout.degree
        roots = [self._take(HASH_BYTES) for _ in range(2)]
        announced = self._take(key.ciphertext_bytes)
        self.chain.absorb(roots[0], announced)
        alpha, factors = _alpha(self.chain), self.chain.weights(len(self.ciphertexts))
        sizes = layout.proof_parts
        answers = self._take(sizes[0] + sizes[1])
        z, w = (mpz.from_bytes(part, "little") for part in (answers[: sizes[0]], answers[sizes[0] :]))
        self._check_opening(mpz.from_bytes(announced, "little"), factors, z, w)
        self.chain.absorb(answers)
        weights = layout.weights(factors, self.chain.primes())
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
        for repeat, (_near, square, equation) in enumerate(polynomials):
            target = layout.target(z, weights.primes, combine.equations[repeat])
            self._check_values(square, equation, target)
        rows = np.concatenate([first[: layout.first_rows], second])
        masks = first[layout.first_rows :].reshape(3, REPEATS, len(places))
        sent = np.concatenate([padded(one[None], 2 * k) for several in polynomials for one in several])
        answers_at = coset_values_at(sent, layout.size, places).reshape(REPEATS, 3, len(places))
        linear = layout.linear_values(weights, table_of_inverses(layout.base, alpha), combine.equations)
        linear_at = extended_at(linear, k, layout.size, places).reshape(REPEATS, -1, len(places))
        near = product(combine.rows, rows)
        squares = product(combine.constraints, layout.constraints(rows, alpha))
        for repeat in range(REPEATS):
            expected = (
                near[repeat],
                squares[repeat],
                layout.equations(rows, linear_at[repeat], combine.equations[repeat]),
            )
            self._check_columns(answers_at[repeat], expected, masks[:, repeat])

    def _check_columns(self, answers: Words, expected: Sequence[Words], masks: Words) -> None:
        """Check that the three answers are in the opened columns what rows and masks combine to, (3, places) each."""
        for answer, combination, mask in zip(answers, expected, masks, strict=True):
            if not np.array_equal(answer, add(combination, mask)):
                raise ProofError("the proof of validity does not hold: an opened column contradicts an answer")

    def _check_values(self, square: Words, equation: Words, target: int) -> None:
        """Check that the constraints vanish where rows hold data, and that the equations sum to the target there."""
        values = used_values(self.layout, np.stack([square, equation]))
        if values[0].any():
            raise ProofError("a ballot is not valid: a digit has a wrong inverse, or a quotient a wrong bit")
        if int(column_sum(values[1])) != target:
            raise ProofError(
                "a ballot is not valid: an entry is out of range, the vector is too long, or its entries are not those "
                "of its ciphertexts"
            )
