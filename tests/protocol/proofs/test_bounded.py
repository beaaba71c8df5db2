"""The proof of bounds: honest vectors, deviating senders, and the sizes that the theorem asks for.

Every deviating sender comes with the one check that stops it: without that check its proof is accepted, so what is
rejected is the false statement, and not a mistake of the test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.protocol.errors import InvalidParameter, ProofError
from psephos.protocol.paillier.encryption import Encryptor, Witness
from psephos.protocol.paillier.kernel import use
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.proofs import bounded, codewords
from psephos.protocol.proofs.bounded import (
    BoundedLayout,
    Lookup,
    Table,
    bounded_plan,
)
from psephos.protocol.proofs.codewords import Combinations, Verification, Weights, prove, verify
from psephos.protocol.proofs.field import PRIME, Words, add, coefficients, ext_inverse, values
from psephos.protocol.proofs.norm_equations import EntrySplit, NormEquations
from psephos.protocol.randomness import SYSTEM, SimulationRandomness

HERE = b"round 1, party 3"
LENGTH, HALF = 60, 1 << 31
WIDE_HALF = 1 << 72  # three parts of an entry, which is no int64

Vector = Sequence[int]


def vector_of(half: int) -> list[int]:
    """Entries of which most are small beside `half`."""
    return [int(v) for v in np.random.default_rng(3).normal(0, half / 12, LENGTH)]


ENTRIES = vector_of(HALF)


def plan_of(private_key: PrivateKey, half: int = HALF) -> PackingPlan:
    """`HALF`: four digits to the base 256, two parts of an entry."""
    return bounded_plan(private_key.public_key, length=LENGTH, addends=100, minimum=-half, maximum=half - 1)


def layout_of(private_key: PrivateKey, slack: int = 0, entries: Vector = ENTRIES, half: int = HALF) -> BoundedLayout:
    """The layout whose bound is the sum of squares of the entries and `slack`."""
    squares = sum(int(v) ** 2 for v in entries)
    layout = BoundedLayout.of(private_key.public_key, plan_of(private_key, half), squares + slack)
    assert len(layout.norm.split.places) == (2 if half == HALF else 3)
    return layout


def slots_of(layout: BoundedLayout, entries: Vector) -> list[int]:
    return [int(v) - layout.plan.minimum for v in entries]


def packed(layout: BoundedLayout, slots: Sequence[int]) -> list[mpz]:
    """Pack any integers, in range or not."""
    plan, count = layout.plan, layout.plan.slots_per_plaintext
    rows = [slots[at : at + count] for at in range(0, len(slots), count)]
    order = layout.key.plaintext_modulus
    return [mpz(sum(x * plan.radix**place for place, x in enumerate(row))) % order for row in rows]


def cast(layout: BoundedLayout, plaintexts: Sequence[mpz]) -> tuple[tuple[mpz, ...], Witness]:
    ciphertexts, witness = Encryptor(layout.key, expected=64).encrypt_with_witness(list(plaintexts))
    return tuple(ciphertexts), witness


# -- honest vectors


@settings(max_examples=25)
@given(st.data())
def test_every_vector_within_the_bounds_is_proved(private_key: PrivateKey, data: st.DataObject) -> None:
    """Any range, any number of entries, the bound met exactly or not."""
    key = private_key.public_key
    most = 1 << data.draw(st.sampled_from([30, 45, 60, 62, 75]))
    low, high = data.draw(st.integers(-most, 0)), data.draw(st.integers(0, most))
    high += low == high
    length = data.draw(st.integers(1, 300))
    plan = bounded_plan(key, length=length, addends=3, minimum=low, maximum=high)
    assert plan.minimum <= low < high <= plan.maximum
    draw, ends = data.draw(st.randoms(use_true_random=False)), (plan.minimum, plan.maximum)
    at_ends = data.draw(st.booleans())
    entries = [draw.choice(ends) if at_ends else draw.randint(*ends) for _ in range(length)]
    squares = sum(int(v) ** 2 for v in entries)
    largest = length * max(-plan.minimum, plan.maximum) ** 2
    layout = BoundedLayout.of(key, plan, data.draw(st.one_of(st.just(squares), st.integers(squares, largest))))
    assert layout.norm.sum_of_squares(layout.shifted(entries)) == squares
    ciphertexts, witness = cast(layout, plan.pack(entries))
    proof = prove(HERE, layout, entries, ciphertexts, witness)
    verify(HERE, layout, ciphertexts, proof)
    assert len(proof) <= layout.longest_proof


@settings(max_examples=40)
@given(st.data())
def test_the_equations_of_the_norm_hold_over_the_integers(data: st.DataObject) -> None:
    """Whatever digits are committed, both sides differ by less than p; honest carries and slack have digits."""
    key = PublicKey(2**2047 + 1, form="psephos", degree=data.draw(st.integers(1, 2)))
    most = 1 << data.draw(st.sampled_from([0, 20, 45, 60, 62, 75, 95, 108]))
    low, high = data.draw(st.integers(-most, 0)), data.draw(st.integers(0, most))
    high += low == high
    length = data.draw(st.sampled_from([1, 2, 104, 105, 360, 873]))
    plan = bounded_plan(key, length=length, addends=3, minimum=low, maximum=high)
    ends = (plan.minimum, plan.maximum, 0)
    entries = data.draw(st.lists(st.sampled_from(ends) | st.integers(*ends[:2]), min_size=length, max_size=length))
    squares = sum(entry**2 for entry in entries)
    largest = length * max(-plan.minimum, plan.maximum) ** 2
    layout = BoundedLayout.of(key, plan, data.draw(st.sampled_from([squares, largest])))
    norm, split = layout.norm, layout.norm.split
    ranges = [
        (-offset, layout.base**places - 1 - offset) for places, offset in zip(split.places, split.offsets, strict=True)
    ]
    reached = [sum(weights) * (layout.base - 1) for weights in norm.auxiliary]
    slack, carries = reached[: norm.count], [0, *reached[norm.count :], 0]
    numbers = norm.slack_and_carries(layout.shifted(entries))
    digits = norm.digits(numbers)
    assert all(0 <= digit < layout.base for digit in digits)
    for i, pairs in enumerate(norm.pairs):
        ends_of = [[x * y for x in ranges[a] for y in ranges[b]] for a, b in pairs]
        points = layout.blocks * layout.used
        least, highest = (points * sum(which(0, *products) for products in ends_of) for which in (min, max))
        target = norm.targets[i]
        assert highest + slack[i] + carries[i] - target < PRIME
        assert target + split.radix * carries[i + 1] - least < PRIME
        weighted = sum(int(weight) * digit for weight, digit in zip(norm.weights[i], digits, strict=True))
        assert (norm.sums(layout.shifted(entries))[i] + weighted - target) % PRIME == 0


def test_every_kernel_makes_the_same_proof(private_key: PrivateKey) -> None:
    layout = layout_of(private_key)
    ciphertexts, witness = cast(layout, layout.plan.pack(ENTRIES))
    proofs = []
    for kernel in (nullcontext(), use("gmpy2")):
        with kernel:
            proofs.append(
                prove(HERE, layout, ENTRIES, ciphertexts, witness, randomness=SimulationRandomness(1, "proof"))
            )
            verify(HERE, layout, ciphertexts, proofs[-1])
    assert len(set(proofs)) == 1


def test_a_vector_beyond_the_bounds_is_not_proved(private_key: PrivateKey) -> None:
    too_large = ENTRIES.copy()
    too_large[0] = HALF
    for layout, entries in ((layout_of(private_key, -1), ENTRIES), (layout_of(private_key), too_large)):
        assert not layout.admits(entries)
        ciphertexts, witness = cast(layout, layout.plan.pack(ENTRIES))
        with pytest.raises(InvalidParameter):
            prove(HERE, layout, entries, ciphertexts, witness)


def test_layouts_that_prove_something_else_are_refused(private_key: PrivateKey) -> None:
    key, layout, largest = private_key.public_key, layout_of(private_key), LENGTH * HALF**2
    assert replace(layout, square_bound=largest)
    wrong: list[dict[str, Any]] = [{"square_bound": largest + 1}, {"square_bound": -1}, {"base": 255}, {"digits": 3}]
    wrong += [{"degree": 128}, {"plan": replace(layout.plan, maximum=HALF)}, {"base": 1 << 16, "digits": 2}]
    for changes in wrong:
        with pytest.raises(InvalidParameter):
            replace(layout, **changes)
    with pytest.raises(InvalidParameter):
        BoundedLayout.of(key, replace(layout.plan, maximum=HALF), 1)
    with pytest.raises(InvalidParameter):
        bounded_plan(key, length=1000, addends=3, minimum=-(1 << 112), maximum=1 << 112)


def test_layouts_whose_sums_could_exceed_the_field_are_refused(private_key: PrivateKey) -> None:
    """A larger sum would be taken for one that is smaller by p: of digits, or of products of parts of entries."""
    key = private_key.public_key
    for length, fits in ((1 << 10, True), (1 << 23, False)):
        plan = PackingPlan.for_key(key, length=length, addends=3, minimum=-(1 << 13), maximum=(1 << 13) - 1)
        with nullcontext() if fits else pytest.raises(InvalidParameter):
            BoundedLayout(key, plan, 1, 1 << 14, 1, 256)

    class TooFewParts(BoundedLayout):
        @property
        def norm(self) -> NormEquations:  # type: ignore[override]
            split = EntrySplit.smallest(self.plan.minimum, self.base, self.digits, 2)
            return NormEquations(split, self.blocks * self.used, self.square_bound)

    honest = layout_of(private_key, half=WIDE_HALF, entries=vector_of(WIDE_HALF))
    with pytest.raises(InvalidParameter):
        TooFewParts(*(getattr(honest, one.name) for one in fields(honest)))


# -- deviating senders


class Cheat(bounded._Prover):
    """Follows the protocol with whatever digits it has: computes inverses, quotients and multiplicities for them."""

    def multiplicities(self, digits: Words) -> Words:
        return super().multiplicities(digits[digits < self.layout.base])

    def inverses(self, digits: Words, alpha: tuple[int, int], table: Table) -> Table:
        shifted = add(digits, np.array(alpha[0], dtype=np.uint64))
        inverses = ext_inverse(np.stack([shifted, np.full_like(digits, alpha[1])]))
        return inverses[0], inverses[1]

    def totals(self, weights: Weights, digits: Words, mask: Words) -> list[int]:
        """The weighted sums over the integers, a digit above p/2 being negative."""
        both = np.concatenate([digits.reshape(-1), mask]).astype(object)
        both = np.where(both > PRIME // 2, both - PRIME, both)
        return [int(row.astype(object) @ both) for row in np.concatenate([weights.entries, weights.mask], axis=1)]

    def quotients(self, weights: Weights, digits: Words, mask: Words, z: mpz) -> Words:
        totals = self.totals(weights, digits, mask)
        pairs = zip(totals, weights.primes, strict=True)
        quotients = [(total - int(z % prime)) // prime for total, prime in pairs]
        return self.layout.bits(
            [t % (1 << self.layout.sizes.quotient_bits) for t in quotients], self.layout.sizes.quotient_bits
        )


class HighDigit(Cheat):
    """Entry 2 has T + 5 as its highest digit."""

    def entry_digits(self) -> Words:
        digits = super().entry_digits()
        digits[2, -1] = self.layout.base + 5
        return digits

    def loose_digits(self, mu: mpz) -> Words:
        honest, self.shifted = self.shifted, self.layout.shifted(held(self.layout, self))
        try:
            return super().loose_digits(mu)
        finally:
            self.shifted = honest


class NegativeDigit(HighDigit):
    """Entry 2 has p - 3 as its highest digit, which lends from the next slot."""

    def entry_digits(self) -> Words:
        digits = Cheat.entry_digits(self)
        digits[2] = 0
        digits[2, -1] = PRIME - 3
        return digits


def held(layout: BoundedLayout, cheat: Cheat) -> Vector:
    """The entries that the digits of a sender stand for."""
    scales = [layout.base**place for place in range(layout.digits)]
    digits = cheat.entry_digits().astype(object)
    digits = np.where(digits > PRIME // 2, digits - PRIME, digits)
    return list(digits @ np.array(scales, dtype=object) + layout.plan.minimum)


class FittedMultiplicities(HighDigit):
    """Changes the multiplicities of 0 and 1 so that the sums agree for a guess of alpha."""

    GUESS = (12345, 678)

    def multiplicities(self, digits: Words) -> Words:
        counted = super().multiplicities(digits)
        strange = digits[digits >= self.layout.base]
        known = np.concatenate([np.arange(2, dtype=np.uint64), strange])
        real, other = (part.astype(object) for part in Cheat.inverses(self, known, self.GUESS, (known, known)))
        (a, b), (c, d) = real[:2], other[:2]
        first, second = real[2:].sum(), other[2:].sum()
        scale = pow(int(a * d - b * c), -1, PRIME)
        counted[0] = (int(counted[0]) + (first * d - second * b) * scale) % PRIME
        counted[1] = (int(counted[1]) + (a * second - c * first) * scale) % PRIME
        return counted


class WrongInverse(HighDigit):
    """Gives the strange digit the inverse of the digit 0, and counts it as one."""

    def multiplicities(self, digits: Words) -> Words:
        counted = super().multiplicities(digits)
        counted[0] += np.uint64((digits >= self.layout.base).sum())
        return counted

    def inverses(self, digits: Words, alpha: tuple[int, int], table: Table) -> Table:
        return super().inverses(np.where(digits >= self.layout.base, np.uint64(0), digits), alpha, table)


class VanishingAnswer(WrongInverse):
    """The same, with a second answer that vanishes where it must."""

    def answers(self, *parts: Any) -> bytes:
        k = self.layout.degree
        sent = np.frombuffer(super().answers(*parts), dtype="<u8").reshape(-1, 5 * k).astype(np.uint64)
        for repeat in range(len(sent)):
            at = values(sent[repeat : repeat + 1, k : 3 * k], 2 * k)
            at[:, : 2 * self.layout.used : 2] = 0
            sent[repeat, k : 3 * k] = coefficients(at)[0]
        return sent.astype("<u8").tobytes()


class ConstantAnswer(Cheat):
    """Sends a constant with the right sum as the third answer."""

    def second_messages(self, weights: Weights, lookup: Lookup, z: mpz) -> Words:
        self.z, self.primes = z, weights.primes
        return super().second_messages(weights, lookup, z)

    def answers(self, *parts: Any) -> bytes:
        layout, k = self.layout, self.layout.degree
        sent = np.frombuffer(super().answers(*parts), dtype="<u8").reshape(-1, 5 * k).astype(np.uint64)
        for row, combine in zip(sent, Combinations(self.chain, layout).equations, strict=True):
            row[3 * k :] = 0
            row[3 * k] = layout.target(self.z, self.primes, combine) * pow(layout.used, -1, PRIME) % PRIME
        return sent.astype("<u8").tobytes()


class NoSlack(Cheat):
    """Claims no slack for a vector that is too long, and the carries that the first two equations ask for."""

    def loose_digits(self, mu: mpz) -> Words:
        norm, carry, carries = self.layout.norm, 0, []
        for total, part in zip(self.sums()[:-1], norm.bound_parts, strict=False):
            carry = (total + carry - part) // norm.split.radix
            carries.append(carry)
        return self.with_auxiliary(mu, norm.digits([*[0] * norm.count, *self.with_offsets(carries)]))

    def sums(self) -> list[int]:
        return self.layout.norm.sums(self.shifted)

    def with_offsets(self, carries: Sequence[int]) -> list[int]:
        """The carries plus their offsets."""
        return [carry + offset for carry, offset in zip(carries, self.layout.norm.offsets, strict=True)]

    def with_auxiliary(self, mu: mpz, digits: Sequence[int]) -> Words:
        mask = bounded.decompose(mu, mpz(self.layout.base), self.layout.mask_digits)
        return np.array(mask + list(digits), dtype=np.uint64)


class NegativeSlack(NoSlack):
    """Claims a slack of -1: its lowest digit is p - 1."""

    def loose_digits(self, mu: mpz) -> Words:
        layout = self.layout
        honest = replace(layout, square_bound=layout.square_bound + 1)
        numbers = honest.norm.slack_and_carries(self.shifted)
        assert not any(numbers[: layout.norm.count])
        assert layout.norm.bound_parts[0] < layout.norm.split.radix - 1  # so the carries are those of the other bound
        digits = layout.norm.digits(numbers)
        digits[0] = PRIME - 1
        return self.with_auxiliary(mu, digits)


class SolvedCarries(NoSlack):
    """Solves the equations of the norm modulo p, with numbers out of the table as carries and slack."""

    def loose_digits(self, mu: mpz) -> Words:
        norm, sums, carry, carries = self.layout.norm, self.sums(), 0, []
        for total, part in zip(sums[:-1], norm.bound_parts, strict=False):
            carry = (total + carry - part) * pow(norm.split.radix, -1, PRIME) % PRIME
            carries.append(carry)
        slack = [*[0] * (norm.count - 1), norm.bound_parts[-1] - sums[-1] - carry]
        digits = [
            digit
            for number, weights in zip([*slack, *self.with_offsets(carries)], norm.auxiliary, strict=True)
            for digit in [number % PRIME, *[0] * (len(weights) - 1)]
        ]
        return self.with_auxiliary(mu, digits)


class SolvedQuotients(Cheat):
    """Solves the equations modulo each prime in the field: the first bit of every quotient is no bit."""

    def quotients(self, weights: Weights, digits: Words, mask: Words, z: mpz) -> Words:
        bits = np.zeros((len(weights.primes), self.layout.sizes.quotient_bits), dtype=np.uint64)
        totals = self.totals(weights, digits, mask)
        for row, total, prime in zip(bits, totals, weights.primes, strict=True):
            row[0] = (total - int(z % prime)) * pow(prime, -1, PRIME) % PRIME
        return self.layout.rows_of(bits.reshape(-1))


class UnbalancedMask(Cheat):
    """The mask of the third answer does not sum to 0."""

    def masks(self) -> tuple[Words, Words, Words]:
        any_, zero, balanced = super().masks()
        balanced[:, 0] = add(balanced[:, 0], np.array([7, 9], dtype=np.uint64))
        return any_, zero, balanced


class NonzeroMask(Cheat):
    """The mask of the second answer does not vanish where rows hold data."""

    def masks(self) -> tuple[Words, Words, Words]:
        any_, zero, balanced = super().masks()
        zero[:, 0] = add(zero[:, 0], np.array([7, 9], dtype=np.uint64))
        return any_, zero, balanced


# -- checks that can be removed, from the sender and from the checker


@contextmanager
def without_equations(monkeypatch: pytest.MonkeyPatch, which: slice) -> Iterator[None]:
    """Give some equations the coefficient 0."""

    class Fewer(Combinations):
        def __init__(self, chain: codewords.ChallengeChain, layout: codewords.MatrixLayout) -> None:
            super().__init__(chain, layout)
            self.equations[:, which] = 0

    with monkeypatch.context() as patch:
        patch.setattr(codewords, "Combinations", Fewer)
        yield


@contextmanager
def without_constraints(monkeypatch: pytest.MonkeyPatch, *, inverses: bool) -> Iterator[None]:
    """Do not constrain inverses, or bits of quotients."""
    before = BoundedLayout.constraints

    def fewer(self: BoundedLayout, rows: Words, lookup: Lookup) -> Words:
        inverted = before(self, rows, lookup)
        inverted[slice(0, 2 * self.digit_rows) if inverses else slice(2 * self.digit_rows, None)] = 0
        return inverted

    with monkeypatch.context() as patch:
        patch.setattr(BoundedLayout, "constraints", fewer)
        yield


@contextmanager
def without_values(monkeypatch: pytest.MonkeyPatch, *, square: bool) -> Iterator[None]:
    """Do not check that the constraints vanish, or what the equations sum to."""
    before = Verification._check_values

    def fewer(self: Verification, squares: Words, equation: Words, target: int) -> None:
        sums = self.layout.total(equation)
        before(self, np.zeros_like(squares) if square else squares, equation, target if square else sums)

    with monkeypatch.context() as patch:
        patch.setattr(Verification, "_check_values", fewer)
        yield


@contextmanager
def without_columns(monkeypatch: pytest.MonkeyPatch, answer: int) -> Iterator[None]:
    """Do not compare one of the three answers with the opened columns."""
    before = Verification._check_columns

    def fewer(self: Verification, answers: Words, expected: Sequence[Words], masks: Words) -> None:
        others = [place for place in range(3) if place != answer]
        before(self, answers[others], [expected[place] for place in others], masks[others])

    with monkeypatch.context() as patch:
        patch.setattr(Verification, "_check_columns", fewer)
        yield


@contextmanager
def known_alpha(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Draw alpha before the commitment (weak Fiat-Shamir)."""
    with monkeypatch.context() as patch:
        patch.setattr(bounded, "_alpha", lambda chain: FittedMultiplicities.GUESS)
        yield


LOOKUP = partial(without_equations, which=slice(-2, None))
NORM = partial(without_equations, which=slice(codewords.PRIMES, -2))
LINK = partial(without_equations, which=slice(0, codewords.PRIMES))

Removed = Callable[[pytest.MonkeyPatch], Any]


@dataclass(frozen=True)
class Attack:
    """A deviating sender."""

    cheat: type[Cheat]
    removed: Removed
    room: int | None = 0
    long: bool = False
    added: int = 0
    lent: bool = False

    def accepted(self, private_key: PrivateKey, half: int) -> bool:
        """Return whether the sender's proof is accepted, for entries below `half`."""
        entries = vector_of(half)
        layout = layout_of(private_key, 8 * half**2 if self.room is None else self.room, entries, half)
        if self.long:
            entries[0] = half // 2
        slots = slots_of(layout, entries)
        if self.lent:
            honest = self.cheat(HERE, layout, entries, [], Witness((), ()), SYSTEM)
            slots = slots_of(layout, held(layout, honest))
        plaintexts = packed(layout, slots)
        plaintexts[0] += self.added % layout.key.plaintext_modulus
        ciphertexts, witness = cast(layout, plaintexts)
        proof = self.cheat(HERE, layout, entries, ciphertexts, witness, SYSTEM).run()
        try:
            verify(HERE, layout, ciphertexts, proof)
        except ProofError:
            return False
        return True


ATTACKS: dict[str, Attack] = {
    "an entry above the range": Attack(HighDigit, LOOKUP, room=None, lent=True),
    "an entry below the range, which lends from the next slot": Attack(NegativeDigit, LOOKUP, room=None, lent=True),
    "multiplicities that fit a guessed alpha": Attack(FittedMultiplicities, known_alpha, room=None, lent=True),
    "a digit out of range with the inverse of a good one": Attack(
        WrongInverse, partial(without_constraints, inverses=True), room=None, lent=True
    ),
    "the same, and a second answer that vanishes": Attack(
        VanishingAnswer, partial(without_columns, answer=1), room=None, lent=True
    ),
    "a wrong plaintext, and a third answer that sums to the target": Attack(
        ConstantAnswer, partial(without_columns, answer=2), added=PRIME
    ),
    "a vector that is too long by one": Attack(NoSlack, NORM, room=-1),
    "a slack of -1": Attack(NegativeSlack, LOOKUP, room=-1),
    "a long vector, slack and carries solved modulo p": Attack(SolvedCarries, LOOKUP, long=True),
    "a plaintext that is 1 more": Attack(Cheat, LINK, added=1),
    "a plaintext that is p more": Attack(Cheat, LINK, added=PRIME),
    "a multiple of p more": Attack(Cheat, LINK, added=PRIME << 39),
    "a plaintext that is p more, quotients solved modulo p": Attack(
        SolvedQuotients, partial(without_constraints, inverses=False), added=PRIME
    ),
    "a mask that does not sum to 0": Attack(UnbalancedMask, partial(without_values, square=False)),
    "the same, and a wrong plaintext": Attack(UnbalancedMask, partial(without_values, square=False), added=PRIME),
    "a mask that does not vanish": Attack(NonzeroMask, partial(without_values, square=True)),
}


HALVES = pytest.mark.parametrize("half", [HALF, WIDE_HALF], ids=["two parts", "three parts"])


@HALVES
@pytest.mark.parametrize("name", ATTACKS)
def test_a_deviating_sender_is_stopped_by_one_check(
    private_key: PrivateKey, monkeypatch: pytest.MonkeyPatch, name: str, half: int
) -> None:
    attack = ATTACKS[name]
    assert not attack.accepted(private_key, half)
    with attack.removed(monkeypatch):
        assert attack.accepted(private_key, half)


@pytest.mark.parametrize("equation", range(5))
def test_every_equation_of_the_norm_is_needed(
    private_key: PrivateKey, monkeypatch: pytest.MonkeyPatch, equation: int
) -> None:
    """A vector that is too long by one, with all equations of the norm of three parts but one solved."""

    class OneLeftOut(NoSlack):
        """Chooses the carries for its equations from both ends, so that one fails, and claims no slack."""

        def loose_digits(self, mu: mpz) -> Words:
            norm, sums, radix = self.layout.norm, self.sums(), self.layout.norm.split.radix
            carries = [0] * (norm.count + 1)
            for i in range(equation):
                carries[i + 1] = -((norm.bound_parts[i] - sums[i] - carries[i]) // radix)
            for i in range(norm.count - 1, equation, -1):
                carries[i] = norm.bound_parts[i] + radix * carries[i + 1] - sums[i]
            slack = [
                (b + radix * above - total - below) * (i != equation)
                for i, (b, total, below, above) in enumerate(
                    zip(norm.bound_parts, sums, carries[:-1], carries[1:], strict=True)
                )
            ]
            numbers = [*slack, *self.with_offsets(carries[1:-1])]
            reached = [sum(weights) * (self.layout.base - 1) for weights in norm.auxiliary]
            assert all(0 <= number <= most for number, most in zip(numbers, reached, strict=True))
            return self.with_auxiliary(mu, norm.digits(numbers))

    attack = Attack(OneLeftOut, partial(without_equations, which=slice(0, 0)), room=-1)
    assert not attack.accepted(private_key, WIDE_HALF)
    first = codewords.PRIMES + equation
    with without_equations(monkeypatch, slice(first, first + 1)):
        assert attack.accepted(private_key, WIDE_HALF)


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("minimum", [0, -(1 << 31), -(1 << 39)])
def test_equations_fit_the_field_only_where_no_sum_can_reach_its_order(minimum: int, parts: int) -> None:
    """At the largest number of points that fit and around it, worked out again."""

    def most(points: int) -> int:
        equations = NormEquations(split, points, points << 78)
        top, radix, sizes = split.base - 1, split.radix, split.largest
        reach = [sum(weights) * top for weights in equations.auxiliary]
        slack, carries = reach[: equations.count], [0, *reach[equations.count :], 0]
        bound = [*[radix] * (equations.count - 1), (points << 78) // radix ** (equations.count - 1)]
        return max(
            points * sum(sizes[a] * sizes[i - a] for a in range(parts) if 0 <= i - a < parts)
            + slack[i]
            + carries[i]
            + bound[i]
            + radix * carries[i + 1]
            for i in range(equations.count)
        )

    split = EntrySplit.smallest(minimum, 256, 5, parts)
    points = [point for power in range(1, 64) for point in (1 << power, 3 << (power - 1))]
    fitting = [NormEquations(split, point, point << 78).fits for point in points]
    assert len(set(fitting)) == 2
    assert all(most(point) < PRIME for point, fits in zip(points, fitting, strict=True) if fits)
    assert all(most(point) >= PRIME // 2 for point, fits in zip(points, fitting, strict=True) if not fits)


# -- what a proof is bound to


@pytest.fixture(scope="module")
def ballot(private_key: PrivateKey) -> tuple[BoundedLayout, tuple[mpz, ...], Witness, bytes]:
    """An honest ballot that meets the bound exactly."""
    layout = layout_of(private_key)
    ciphertexts, witness = cast(layout, layout.plan.pack(ENTRIES))
    return layout, ciphertexts, witness, prove(HERE, layout, ENTRIES, ciphertexts, witness)


Ballot = tuple[BoundedLayout, tuple[mpz, ...], Witness, bytes]


def test_a_proof_holds_for_one_statement_layout_and_ballot(ballot: Ballot) -> None:
    layout, c, witness, proof = ballot
    modulus, n = layout.key.ciphertext_modulus, layout.key.plaintext_modulus
    assert len(c) > 1
    verify(HERE, layout, c, proof)
    with pytest.raises(ProofError):
        verify(b"round 1, party 4", layout, c, proof)
    again = c[0] * pow(mpz(3), n, modulus) % modulus
    for changed in ((again, *c[1:]), (c[1], c[0], *c[2:]), (pow(c[0], -1, modulus), *c[1:]), (modulus - c[0], *c[1:])):
        with pytest.raises(ProofError):
            verify(HERE, layout, changed, proof)
    for wrong in (c[:-1], (*c, mpz(1)), ()):
        with pytest.raises(ProofError):
            verify(HERE, layout, wrong, proof)
    wider = replace(layout, square_bound=layout.square_bound + 10**20)
    for_wider = prove(HERE, wider, ENTRIES, c, witness)
    verify(HERE, wider, c, for_wider)
    for one, other in ((wider, proof), (layout, for_wider)):
        with pytest.raises(ProofError):
            verify(HERE, one, c, other)


def test_another_party_s_ballot_cannot_be_proved(ballot: Ballot) -> None:
    """A sender that knows the plaintexts but not the exponents."""
    layout, c, witness, _proof = ballot
    stranger = Witness(witness.plaintexts, tuple(root + 1 for root in witness.roots))
    with pytest.raises(ProofError):
        verify(HERE, layout, c, prove(HERE, layout, ENTRIES, c, stranger))


# -- constants and hiding


@pytest.mark.parametrize(
    ("length", "half", "parts"),
    [(50, HALF, 2), (2000, HALF, 2), (100_000, HALF, 2), (250, WIDE_HALF, 4), (100_000, 1 << 60, 3)],
)
def test_sizes_meet_the_bounds_of_the_theorem(private_key: PrivateKey, length: int, half: int, parts: int) -> None:
    """docs/security/proofs.md, theorem 4."""
    key = private_key.public_key
    plan = bounded_plan(key, length=length, addends=1000, minimum=-half, maximum=half - 1)
    layout = BoundedLayout.of(key, plan, length * (half >> 8) ** 2)
    digits = layout.digit_rows * layout.used
    assert digits + layout.base < 2**-100 * (PRIME**2 - PRIME)
    if length == 2000:
        assert digits + layout.base < 2**-114 * (PRIME**2 - PRIME)
    assert layout.norm.fits
    assert len(layout.norm.split.largest) == parts
    linked = (length * layout.digits + layout.mask_digits) * (layout.base - 1)
    assert linked < 1 << layout.sizes.quotient_bits
    assert (linked + (1 << layout.sizes.quotient_bits)) << 31 < PRIME
    largest = plan.ciphertexts * (1 << 128) * mpz(plan.radix) ** min(plan.slots_per_plaintext, length)
    assert mpz(layout.base) ** layout.mask_digits >= largest << 80
    assert layout.used + codewords.QUERIES == layout.degree


def test_masks_pass_the_checks_and_hide(private_key: PrivateKey) -> None:
    """Twenty draws: the second vanish and the third sum to 0 where rows hold data, and nothing else is fixed."""
    layout = layout_of(private_key)
    for seed in range(20):
        any_, zero, balanced = layout.masks(SimulationRandomness(seed))
        assert not layout.used_values(zero).any()
        held_there = layout.used_values(balanced)
        assert not bounded.column_sum(held_there.T).any()
        for part in (any_, zero, balanced, held_there):
            assert np.unique(part).size > part.size // 2 - 2 * layout.used
