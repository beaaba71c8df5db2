"""Proofs of bounds: both verifiers refuse parties and holders that cheat, and accept the same of changed proofs.

A cheating party is one of `tests.protocol.proofs.test_bounded`, each of which one check alone stops. It signs its
ballot, as a party does that changes bytes of an honest proof.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.audit.rounds import short_key
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import ProofError
from psephos.protocol.paillier.ciphertexts import encode_ciphertexts
from psephos.protocol.paillier.encryption import Encryptor, Witness
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.proofs import bounded, codewords
from psephos.protocol.proofs.field import PRIME
from psephos.protocol.randomness import SYSTEM
from tests.protocol.proofs import test_bounded as cheats
from tests.protocol.proofs.test_bounded import Cheat
from tests.tiers import sampled
from tests.verifier import bounded as second
from tests.verifier import hashproof, paillier
from tests.verifier.changes import CIPHERTEXT, ballot, bit, longer, noise, put
from tests.verifier.recording import Recording, accepted

Recordings = Callable[[str], Recording]
Entries = Callable[[bounded.BoundedLayout], list[int]]


def check_refused(changed: Recording, what: str) -> None:
    """Check that both verifiers refuse the ballot of party 1, or the noise of holder 1, and the study."""
    report, evidence = changed.second, changed.evidence()
    assert not report.accepted
    if what.startswith("bounded, holders"):
        assert any("5 ballots count, 2 holders have added noise" in line for line in report.holds)
        assert any("2 of 3 holders have added noise" in check.found for check in evidence.checks)
    else:
        refused = 2 if changed.made.study.minimum_ballots == 5 else 1  # with too few ballots the close is refused, too
        assert f"4 ballots count; {refused} messages are refused" in report.holds
        assert evidence.counted == (0, 2, 3, 4)
    assert not accepted(evidence.checks, verifiable=True)


def round_of(recording: Recording) -> Round:
    assert recording.evidence().round is not None
    return recording.evidence().round


def _long(layout: bounded.BoundedLayout) -> list[int]:
    """Largest entries: the range admits them, the length does not."""
    entries = [layout.plan.maximum] * layout.plan.length
    assert sum(entry**2 for entry in entries) > layout.square_bound
    return entries


def _longest(layout: bounded.BoundedLayout) -> list[int]:
    """Entries at the ends of the range, which is a little wider than the bound of their squares allows for."""
    assert len(layout.norm.split.places) == 3
    return [layout.plan.minimum] * layout.plan.length


def _one_more(layout: bounded.BoundedLayout) -> list[int]:
    """A vector whose sum of squares is the bound and 1."""
    assert layout.square_bound == 1 << 50
    return [1 << 25, 1] + [0] * (layout.plan.length - 2)


@dataclass(frozen=True)
class Cheated:
    """What party 1, or holder 1, does in a study; `lent`: it encrypts what its digits stand for."""

    cheat: type[Cheat]
    what: str
    entries: Entries = lambda layout: [0] * layout.plan.length
    added: int = 0
    lent: bool = False

    def payload(self, layout: bounded.BoundedLayout, statement: bytes) -> bytes:
        """Return ciphertexts and a proof."""
        own = self.entries(layout)
        slots = cheats.slots_of(layout, own)
        if self.lent:
            claims = self.cheat(statement, layout, own, [], Witness((), ()), SYSTEM)
            slots = cheats.slots_of(layout, cheats.held(layout, claims))
        plaintexts = cheats.packed(layout, slots)
        plaintexts[0] += self.added
        ciphertexts, witness = Encryptor(layout.key, mode="half").encrypt_with_witness(plaintexts)
        proof = self.cheat(statement, layout, own, ciphertexts, witness, SYSTEM).run()
        return encode_ciphertexts(layout.key, ciphertexts) + proof

    def of_party(self, recording: Recording) -> Recording:
        round_ = round_of(recording)
        assert isinstance(round_.layout, bounded.BoundedLayout)
        payload = self.payload(round_.layout, b"psephos ballot\0" + round_.digest + (1).to_bytes(4, "big"))
        return ballot(lambda own: payload)(recording)

    def of_holder(self, recording: Recording, *, layout_of_ballots: bool = False) -> Recording:
        round_ = round_of(recording)
        layout = round_.layout if layout_of_ballots else round_.noise_layout
        assert isinstance(layout, bounded.BoundedLayout)
        payload = self.payload(layout, b"psephos noise ballot\0" + round_.digest + b"\1")
        return noise(lambda own: payload)(recording)


THREE, WIDE, AVERAGE = "bounded, three classes", "bounded, three parts of an entry", "bounded, average"
HOLDERS, NORMAL = "bounded, holders", "bounded, holders, gaussian"
CHEATS: dict[str, Cheated] = {
    "an entry above the range": Cheated(cheats.HighDigit, THREE, lent=True),
    "multiplicities that fit a guessed alpha": Cheated(cheats.FittedMultiplicities, THREE, lent=True),
    "a digit out of range with the inverse of a good one": Cheated(cheats.WrongInverse, THREE, lent=True),
    "the same, and an answer that vanishes": Cheated(cheats.VanishingAnswer, THREE, lent=True),
    "a long vector without slack": Cheated(cheats.NoSlack, AVERAGE, _long),
    "a vector that is too long by one": Cheated(cheats.NegativeSlack, AVERAGE, _one_more),
    "a long vector, slack and carries solved modulo p": Cheated(cheats.SolvedCarries, AVERAGE, _long),
    "a long vector of three parts, slack and carries solved modulo p": Cheated(cheats.SolvedCarries, WIDE, _longest),
    "a plaintext that is p more": Cheated(Cheat, THREE, added=PRIME),
    "a plaintext that is p more, quotients solved modulo p": Cheated(cheats.SolvedQuotients, "bounded", added=PRIME),
    "a mask that does not sum to 0": Cheated(cheats.UnbalancedMask, "bounded"),
    "a mask that does not vanish": Cheated(cheats.NonzeroMask, "bounded, own data"),
    "noise that is too long": Cheated(cheats.SolvedCarries, HOLDERS, _long),
    "gaussian noise that is too long": Cheated(cheats.SolvedCarries, NORMAL, _long),
    "noise with an entry out of range": Cheated(cheats.HighDigit, "bounded, holders, three classes", lent=True),
}


@pytest.mark.parametrize("name", sampled(CHEATS))
def test_who_cheats_is_refused(recordings: Recordings, name: str) -> None:
    one = CHEATS[name]
    cheat = one.of_holder if one.what.startswith(HOLDERS) else one.of_party
    check_refused(cheat(recordings(one.what)), one.what)


@pytest.mark.parametrize("what", [HOLDERS, pytest.param(NORMAL, marks=pytest.mark.slow)])
def test_a_proof_for_a_ballot_is_none_for_noise(recordings: Recordings, what: str) -> None:
    """With the statement of the noise, but the bound of a ballot."""
    recording = recordings(what)
    assert round_of(recording).square_bound != round_of(recording).noise_square_bound
    check_refused(Cheated(Cheat, what).of_holder(recording, layout_of_ballots=True), what)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["bounded", AVERAGE])
def test_another_ballot_that_is_valid_counts(recordings: Recordings, what: str) -> None:
    """So what is refused is refused for the proof."""
    changed = Cheated(Cheat, what).of_party(recordings(what))
    assert any(line.startswith("5 ballots count; ") for line in changed.second.holds)
    assert any("another product" in why for why in changed.second.fails)
    assert changed.evidence().counted == (0, 1, 2, 3, 4)


def test_a_proof_is_bound_to_its_party(recordings: Recordings) -> None:
    check_refused(ballot(lambda own: own, of=0)(recordings(AVERAGE)), AVERAGE)


@pytest.mark.parametrize("what", ["nothing", "the first root", "a word outside the field", "a byte", "the length"])
def test_a_ballot_that_its_party_changes_and_signs_again_is_refused(recordings: Recordings, what: str) -> None:
    """Other places are drawn below."""
    recording = recordings("bounded")
    layout = round_of(recording).layout
    assert isinstance(layout, bounded.BoundedLayout)
    answers = 2 * CIPHERTEXT + 64 + sum(layout.proof_parts[:2])
    edits = {
        "nothing": lambda data: data,
        "the first root": bit(CIPHERTEXT),
        "a word outside the field": put(answers, b"\xff" * 8),
        "a byte": longer,
        "the length": lambda data: data[: CIPHERTEXT + 195],
    }
    changed = ballot(edits[what])(recording)
    if what == "nothing":
        assert changed.second.accepted
    else:
        check_refused(changed, "bounded")


# -- layouts


def second_key(n: mpz) -> paillier.Key:
    return paillier.Key(n, 1, 3, 2, bytes(16), mpz(1), mpz(4), (mpz(9),) * 3)


def test_a_round_has_the_layout_that_psephos_chooses() -> None:
    """Of vectors of several blocks, and of bounds that need more or fewer digits."""
    n = mpz((1 << 255) + 1)
    key, other = PublicKey(int(n), form="psephos"), second_key(n)
    sizes = ((3, 1 << 10), (12, 1 << 24), (40, 1 << 25), (300, 1 << 31), (1200, 77), (40, 1 << 57), (300, 1 << 70))
    for length, maximum in sizes:
        plan = bounded.bounded_plan(key, length=length, addends=5, minimum=-maximum + 1, maximum=maximum)
        packing = second.widened(hashproof.Packing(other, length, 5, -maximum + 1, maximum))
        assert (packing.minimum, packing.maximum) == (plan.minimum, plan.maximum)
        for squares in (maximum**2, length * maximum**2, 5):
            ours, theirs = bounded.BoundedLayout.of(key, plan, squares), second.layout_of(packing, squares)
            rows = ours.sizes.first_rows, ours.sizes.second_rows, ours.longest_proof
            assert (ours.base, ours.digits, ours.degree) == (theirs.base, theirs.digits, theirs.degree)
            assert rows == (theirs.first, theirs.second, theirs.longest)
            assert ours.norm.split.places == theirs.norm.places
            assert list(ours.norm.targets) == theirs.norm.sides
    assert (second.LARGEST_BASE, second.MOST_DIGITS) == (bounded.LARGEST_BASE, bounded.MOST_DIGITS)
    assert (hashproof.DEGREES, hashproof.QUERIES) == (codewords.DEGREES, codewords.QUERIES)


# -- both verifiers on the same changed proofs: they accept the same, and nothing that was changed

HERE, ELSEWHERE = b"round 1, party 3", b"round 1, party 4"
ADDENDS = 3
BALLOTS = ((2, 60, 1 << 31), (3, 105, 1 << 62), (4, 1, 1 << 90), (7, 30, 1 << 108))
"""Parts of an entry, entries, and the largest of them."""


@dataclass(frozen=True)
class Ballot:
    """An honest ballot, and the layouts of both verifiers."""

    layout: bounded.BoundedLayout
    other: second.Layout
    ciphertexts: tuple[mpz, ...]
    proof: bytes

    def verdicts(self, statement: bytes, ciphertexts: tuple[mpz, ...], proof: bytes) -> tuple[bool, bool]:
        """Return whether each verifier accepts."""
        try:
            codewords.verify(statement, self.layout, ciphertexts, proof)
            first = True
        except ProofError:
            first = False
        return first, not hashproof.check_vector(self.other, self.layout.plan.digest, statement, ciphertexts, proof)


@cache
def own_ballot(parts: int, length: int, largest: int) -> Ballot:
    key = short_key(1, 256).public_key
    plan = bounded.bounded_plan(key, length=length, addends=ADDENDS, minimum=-largest, maximum=largest)
    entries = [(-1) ** place * (largest >> place % 7) for place in range(length)]
    layout = bounded.BoundedLayout.of(key, plan, sum(entry**2 for entry in entries))
    packing = second.widened(hashproof.Packing(second_key(mpz(key.n)), length, ADDENDS, -largest, largest))
    other = second.layout_of(packing, layout.square_bound)
    assert len(layout.norm.split.places) == len(other.norm.places) == parts
    ciphertexts, witness = Encryptor(key, expected=64).encrypt_with_witness(plan.pack(entries))
    return Ballot(layout, other, tuple(ciphertexts), codewords.prove(HERE, layout, entries, ciphertexts, witness))


def _changed(own: Ballot, data: st.DataObject) -> bytes:
    """Return other bytes than the proof."""
    proof, layout = bytearray(own.proof), own.layout
    begin = 64 + layout.key.ciphertext_bytes
    z, _w, polynomials = layout.proof_parts
    words = begin + sum(layout.proof_parts[:2])
    how = data.draw(st.sampled_from(["bit", "z", "word", "swap", "column", "cut", "longer"]))
    if how == "bit":
        proof[data.draw(st.integers(0, len(proof) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    elif how == "z":
        moved = int.from_bytes(proof[begin : begin + z], "little")
        moved += data.draw(st.sampled_from([1, int(layout.key.plaintext_modulus)]))
        proof[begin : begin + z] = (moved % (1 << 8 * z)).to_bytes(z, "little")
    elif how == "word":  # with a second encoding of the same element, where there is one
        at = words + 8 * data.draw(st.integers(0, polynomials // 8 - 1))
        word = int.from_bytes(proof[at : at + 8], "little")
        proof[at : at + 8] = (word + PRIME if word + PRIME < 1 << 64 else PRIME).to_bytes(8, "little")
    elif how in ("swap", "column"):
        size = 32 if how == "swap" else 32 + 8 * (layout.sizes.first_rows + 6)
        first, other = (words + polynomials + size * data.draw(st.integers(*range_)) for range_ in ((0, 70), (71, 151)))
        proof[other : other + size] = proof[first : first + size]
    elif how == "cut":
        return bytes(proof[: data.draw(st.integers(0, len(proof) - 1))])
    else:
        proof += bytes(data.draw(st.integers(1, 40)))
    return bytes(proof)


def _compare(data: st.DataObject) -> None:
    own = own_ballot(*data.draw(st.sampled_from(BALLOTS)))
    statement, ciphertexts, proof = HERE, own.ciphertexts, own.proof
    what = data.draw(st.sampled_from(["nothing", "statement", "ciphertext", *["proof"] * 5]))
    modulus = own.layout.key.ciphertext_modulus
    if what == "statement":
        statement = ELSEWHERE
    elif what == "ciphertext":
        other = data.draw(st.sampled_from([modulus - ciphertexts[0], ciphertexts[0] * 4 % modulus]))
        ciphertexts = (other, *ciphertexts[1:])
    elif what == "proof":
        proof = _changed(own, data)
    same = (statement, ciphertexts, proof) == (HERE, own.ciphertexts, own.proof)
    assert own.verdicts(statement, ciphertexts, proof) == (same, same)


@settings(max_examples=40)
@given(st.data())
def test_both_verifiers_accept_the_same(data: st.DataObject) -> None:
    _compare(data)


@pytest.mark.soak
@settings(max_examples=300)
@given(st.data())
def test_both_verifiers_accept_the_same_in_a_long_search(data: st.DataObject) -> None:
    _compare(data)
