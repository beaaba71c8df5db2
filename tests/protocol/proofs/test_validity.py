"""The proof of validity: honest ballots, deviating senders, and what the opened columns reveal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gmpy2 import mpz
from numpy.typing import NDArray

from psephos.audit.rounds import short_key
from psephos.protocol.encrypted_sum.votes import VoteLayout
from psephos.protocol.errors import InvalidParameter, ProofError
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.proofs import codewords
from psephos.protocol.proofs.codewords import hidden_rows, prove, verify
from psephos.protocol.proofs.field import PRIME, Words, coset_values
from psephos.protocol.proofs.knowledge import answer_bits
from psephos.protocol.proofs.merkle import HASH_BYTES, MerkleTree
from psephos.protocol.proofs.validity import Layout
from psephos.protocol.randomness import Randomness, SimulationRandomness
from tests.protocol.proofs.test_bounded import without_values

HERE = b"round 1, party 3"
SAMPLES, PARTIES = 150, 20

VectorFormat = NDArray[np.int64]


class Ballot:
    """A ballot whose entries need not be votes, and a proof about entries that may differ from the ballot's."""

    def __init__(self, private_key: PrivateKey, classes: int, cast: VectorFormat | None = None) -> None:
        self.key = private_key.public_key
        self.plan = VoteLayout(SAMPLES, classes).plan(self.key, PARTIES)
        self.layout = Layout.of(self.key, self.plan, classes - 1)
        votes = np.random.default_rng(classes).integers(0, classes, SAMPLES)
        self.entries: VectorFormat = VoteLayout(SAMPLES, classes).encode(votes).astype(np.int64)
        plaintexts = packed(self.plan, self.entries if cast is None else cast)
        self.ciphertexts, self.witness = Encryptor(self.key, expected=64).encrypt_with_witness(plaintexts)

    def prove(self, entries: VectorFormat | None = None, statement: bytes = HERE) -> bytes:
        claimed = self.entries if entries is None else entries
        return prove(statement, self.layout, claimed, self.ciphertexts, self.witness)

    def verify(self, proof: bytes, statement: bytes = HERE) -> None:
        verify(statement, self.layout, self.ciphertexts, proof)


def packed(plan: PackingPlan, entries: VectorFormat) -> list[mpz]:
    """Pack entries as `plan.pack` does, without its range check."""
    slots = plan.slots_per_plaintext
    rows = [entries[at : at + slots].tolist() for at in range(0, len(entries), slots)]
    return [mpz(sum(v * int(plan.radix) ** place for place, v in enumerate(row))) for row in rows]


@pytest.fixture(scope="module", params=[(2, 1), (4, 1), (4, 2)], ids=str)
def ballot(request: pytest.FixtureRequest) -> Ballot:
    """A ballot of two or four classes, under a key of degree 1 or 2."""
    classes, degree = request.param
    return Ballot(short_key(degree=degree), classes)


def test_an_honest_ballot_is_proved(ballot: Ballot) -> None:
    assert len(ballot.ciphertexts) > 1
    ballot.verify(ballot.prove())


@pytest.mark.parametrize("samples", [1, 103, 104, 105, 300])
def test_layouts_of_every_size(private_key: PrivateKey, samples: int) -> None:
    """Full rows, rows with one entry, rows without the last entry; votes for the first and the last class only."""
    key = private_key.public_key
    votes = VoteLayout(samples, 3)
    plan = votes.plan(key, 2)
    layout = replace(Layout.of(key, plan, 2), degree=256)
    for choice in (0, 2):
        entries = votes.encode(np.full(samples, choice)).astype(np.int64)
        ciphertexts, witness = Encryptor(key, expected=8).encrypt_with_witness(plan.pack(entries))
        verify(HERE, layout, ciphertexts, prove(HERE, layout, entries, ciphertexts, witness))


def changed(entries: VectorFormat, *places: tuple[int, int]) -> VectorFormat:
    out = entries.copy()
    for place, value in places:
        out[place] = value
    return out


@pytest.mark.parametrize("value", [2, 1000, -1, PRIME - 1])
def test_an_entry_other_than_0_or_1_is_rejected(private_key: PrivateKey, value: int) -> None:
    """A thousand votes in one slot, or minus one vote; proved as they are, or as honest entries."""
    honest = Ballot(private_key, 2)
    small = value if value < PRIME - 1 else -1
    cheat = Ballot(private_key, 2, changed(honest.entries, (0, small), (1, 5)))
    claims = [honest.entries, changed(honest.entries, (0, small), (1, 5))]
    for claimed in claims:
        with pytest.raises(ProofError):
            cheat.verify(cheat.prove(claimed.astype(np.uint64).astype(np.int64)))


def test_two_votes_on_one_sample_are_rejected(private_key: PrivateKey) -> None:
    honest = Ballot(private_key, 4)
    both = changed(honest.entries, (0, 1), (1, 1), (2, 0))
    cheat = Ballot(private_key, 4, both)
    with pytest.raises(ProofError):
        cheat.verify(cheat.prove(both))
    fine = changed(honest.entries, (0, 0), (1, 0), (2, 1))
    with pytest.raises(ProofError):
        cheat.verify(cheat.prove(fine))


def test_entries_that_borrow_between_slots(private_key: PrivateKey) -> None:
    """-1 in one slot and the radix in the one before give the same plaintext, which is valid and provable."""
    honest = Ballot(private_key, 2)
    radix = int(honest.plan.radix)
    moved = changed(honest.entries, (0, int(honest.entries[0]) + radix), (1, int(honest.entries[1]) - 1))
    same = Ballot(private_key, 2, moved)
    assert packed(honest.plan, moved) == packed(honest.plan, honest.entries)
    same.verify(same.prove())
    swapped = changed(honest.entries, (0, 1 - int(honest.entries[0])))
    with pytest.raises(ProofError):
        same.verify(same.prove(swapped))


def test_responses_out_of_range_are_rejected(ballot: Ballot) -> None:
    """z is an integer whose equation determines it modulo n^s only, so its range is checked."""
    proof, sizes = ballot.prove(), ballot.layout.proof_parts
    begin = 2 * HASH_BYTES + ballot.key.ciphertext_bytes
    assert (ballot.layout.sizes.mask_bits + 1) % 8
    assert answer_bits(ballot.key) % 8
    bits = (ballot.layout.sizes.mask_bits + 1, answer_bits(ballot.key))
    for last, first in zip((begin + sizes[0] - 1, begin + sizes[0] + sizes[1] - 1), bits, strict=True):
        for top in (b"\xff", bytes([1 << first % 8])):  # all that is too much, and the least that is
            with pytest.raises(ProofError):
                ballot.verify(proof[:last] + top + proof[last + 1 :])


def test_a_longer_exponent_than_an_honest_one_is_rejected(ballot: Ballot, monkeypatch: pytest.MonkeyPatch) -> None:
    """All else holds; its range is what bounds the powers that a verifier computes."""
    limit, sizes = answer_bits(ballot.key), ballot.layout.proof_parts
    end = 2 * HASH_BYTES + ballot.key.ciphertext_bytes + sizes[0] + sizes[1]
    monkeypatch.setattr(codewords, "mask_bits", lambda key: limit + 1)
    proofs = [ballot.prove() for _ in range(12)]
    long = [proof for proof in proofs if int.from_bytes(proof[end - sizes[1] : end], "little") >> limit]
    assert long
    for proof in long:
        with pytest.raises(ProofError):
            ballot.verify(proof)


def test_an_announcement_that_is_not_a_unit_is_rejected(ballot: Ballot, private_key: PrivateKey) -> None:
    proof, size = ballot.prove(), ballot.key.ciphertext_bytes
    for bad in (0, private_key.factors()[0], int(ballot.key.ciphertext_modulus)):
        with pytest.raises(ProofError):
            ballot.verify(proof[:64] + bad.to_bytes(size, "little") + proof[64 + size :])


def test_words_outside_the_field_are_rejected(ballot: Ballot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of the answers, and of columns that a deviating prover commits to."""
    proof, sizes = ballot.prove(), ballot.layout.proof_parts
    begin = 2 * HASH_BYTES + ballot.key.ciphertext_bytes + sizes[0] + sizes[1]
    with monkeypatch.context() as patch:
        patch.setattr(codewords.ChallengeChain, "columns", lambda *_: pytest.fail("the words were used"))
        for at in (begin, begin + sizes[2] - 8):
            with pytest.raises(ProofError):
                ballot.verify(proof[:at] + PRIME.to_bytes(8, "little") + proof[at + 8 :])
    for word in (PRIME, 2**64 - 1):
        monkeypatch.setattr(DeviatingCommitment, "word", word, raising=False)
        monkeypatch.setattr(codewords, "CommittedMatrix", DeviatingCommitment)
        with pytest.raises(ProofError, match="outside the field"):
            ballot.verify(ballot.prove())


def test_opened_columns_are_the_committed_ones(ballot: Ballot) -> None:
    """Nothing but the path to the root depends on a salt or on the last hash; and nothing may follow the proof."""
    proof, key = ballot.prove(), ballot.key
    salt = 2 * HASH_BYTES + key.ciphertext_bytes + sum(ballot.layout.proof_parts)
    for at in (salt, len(proof) - 1):
        with pytest.raises(ProofError, match="committed"):
            ballot.verify(proof[:at] + bytes([proof[at] ^ 1]) + proof[at + 1 :])
    with pytest.raises(ProofError):
        ballot.verify(proof + b"\0")


def test_a_proof_holds_for_one_statement_and_one_ballot(ballot: Ballot, private_key: PrivateKey) -> None:
    proof = ballot.prove()
    key = ballot.key
    n, modulus = key.modulus, key.ciphertext_modulus
    zero = Encryptor(key, "full").encrypt([mpz(0)])[0]
    with pytest.raises(ProofError):
        ballot.verify(proof, b"round 1, party 4")
    for first in (ballot.ciphertexts[0] * zero, ballot.ciphertexts[0] * (1 + n), ballot.ciphertexts[1]):
        with pytest.raises(ProofError):
            verify(HERE, ballot.layout, (first % modulus, *ballot.ciphertexts[1:]), proof)
    other = Ballot(private_key, ballot.layout.group + 1)
    with pytest.raises(ProofError):
        verify(HERE, ballot.layout, other.ciphertexts, proof)


class DeviatingCommitment(codewords.CommittedMatrix):
    """Commits to honest columns, except for their last row."""

    word: int

    def __init__(self, polynomials: Words, layout: Layout, randomness: Randomness) -> None:
        self.codewords = coset_values(polynomials, layout.size)
        self.codewords[-1] = self.word
        self._salts = randomness.draw(32 * layout.size)
        self.tree = MerkleTree(self._salts, self.codewords)


def test_constants_meet_the_bounds_of_the_theorem(ballot: Ballot) -> None:
    """Soundness and hiding computed from the constants (docs/security/proofs.md, theorem 3)."""
    layout = ballot.layout
    assert (5 / 8) ** codewords.QUERIES < 2**-103
    assert 2 / codewords.RATE <= 2 * (5 / 8) - 1  # 5/8 of the places determine the masks of double degree
    assert (
        1 - 1 / codewords.RATE
    ) / 2 > 3 / 8  # and more than 3/8 may not be spoiled in a row that is decoded uniquely
    assert (codewords.RATE * max(codewords.DEGREES) / PRIME) ** codewords.REPEATS < 2**-101.9
    assert layout.degree in codewords.DEGREES
    assert layout.used + codewords.QUERIES == layout.degree  # as many random entries as are ever opened
    factors = (layout.sizes.mask_bits + 2) // 30 + 1
    assert (factors / 50_000_000) ** codewords.PRIMES < 2**-110  # there are 50,697,537 primes in [2^30, 2^31)
    summed = (ballot.plan.length + layout.sizes.mask_bits) * 2**31 + 2**layout.sizes.quotient_bits * 2**31
    assert summed < PRIME
    largest = sum((1 << 128) * (1 << ballot.key.bits) for _ in range(ballot.plan.ciphertexts))
    assert layout.sizes.mask_bits >= largest.bit_length() - 1 + 80


def test_opened_columns_do_not_depend_on_the_votes(private_key: PrivateKey) -> None:
    """Opened entries of two opposite ballots, 152 x 40 each: means of (0, 1)-scaled values within 0.03 of 1/2."""
    ballot = Ballot(private_key, 2)
    for entries in (np.zeros(SAMPLES, np.int64), np.ones(SAMPLES, np.int64)):
        opened = []
        for seed in range(40):
            messages = ballot.layout.votes(entries)
            rows = hidden_rows(messages, SimulationRandomness(seed))
            opened.append(coset_values(rows, ballot.layout.size)[0, : codewords.QUERIES])
        assert abs(np.mean(np.array(opened) / PRIME) - 0.5) < 0.03


def test_layouts_are_for_votes_only(private_key: PrivateKey) -> None:
    key = private_key.public_key
    for plan, group in (
        (PackingPlan.for_key(key, length=10, addends=3, minimum=-1, maximum=1), 1),
        (PackingPlan.for_key(key, length=10, addends=3), 3),
        (PackingPlan.for_key(key, length=10, addends=3), 0),
        (PackingPlan.for_key(key, length=10, addends=3), -1),
        (PackingPlan.for_key(key, length=1 << 24, addends=2), 1),
    ):
        with pytest.raises(InvalidParameter):
            Layout.of(key, plan, group)


@pytest.mark.parametrize("added", ["1", "p", "radix"])
def test_a_plaintext_other_than_that_of_the_entries_is_rejected(
    private_key: PrivateKey, monkeypatch: pytest.MonkeyPatch, added: str
) -> None:
    """Accepted without the comparison of the equations' sum with its target, which is the check that stops it."""
    ballot = Ballot(private_key, 2)
    plaintexts = packed(ballot.plan, ballot.entries)
    plaintexts[0] += {"1": 1, "p": PRIME, "radix": int(ballot.plan.radix)}[added]
    ballot.ciphertexts, ballot.witness = Encryptor(ballot.key, expected=64).encrypt_with_witness(plaintexts)
    with pytest.raises(ProofError):
        ballot.verify(ballot.prove())
    with without_values(monkeypatch, square=False):
        ballot.verify(ballot.prove())


@pytest.mark.parametrize("sums", [False, True], ids=["does not vanish", "does not sum to 0"])
def test_a_mask_that_would_hide_a_lie_is_rejected(
    private_key: PrivateKey, monkeypatch: pytest.MonkeyPatch, sums: bool
) -> None:
    ballot, honest = Ballot(private_key, 2), Layout.masks

    def shifted(layout: Layout, randomness: Randomness) -> tuple[Words, Words, Words]:
        any_, zero, balanced = honest(layout, randomness)
        (balanced if sums else zero)[:, 0] += np.uint64(1)
        return any_, zero % np.uint64(PRIME), balanced % np.uint64(PRIME)

    monkeypatch.setattr(Layout, "masks", shifted)
    with pytest.raises(ProofError):
        ballot.verify(ballot.prove())
    with without_values(monkeypatch, square=not sums):
        ballot.verify(ballot.prove())
