"""The second verifier and proofs of bounds: it accepts honest studies, and refuses those in which a party cheats.

A cheating party is one of `tests.protocol.proofs.test_bounded`, each of which one check alone stops. It signs its
ballot, as a party does that changes bytes of an honest proof.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from gmpy2 import mpz

from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.paillier.ciphertexts import encode_ciphertexts
from psephos.protocol.paillier.encryption import Encryptor, Witness
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.proofs import bounded, codewords
from psephos.protocol.proofs.field import PRIME
from psephos.protocol.randomness import SYSTEM
from tests.protocol.proofs.test_bounded import (
    Cheat,
    FittedMultiplicities,
    HighDigit,
    NegativeDigit,
    NegativeSlack,
    NonzeroMask,
    NoSlack,
    SolvedCarries,
    SolvedQuotients,
    UnbalancedMask,
    VanishingAnswer,
    WrongInverse,
    held,
    packed,
    slots_of,
)
from tests.tiers import sampled
from tests.verifier import bounded as second
from tests.verifier import hashproof, paillier
from tests.verifier.recording import Recording, accepted, check_accepted, public_file, record
from tests.verifier.tampering import CIPHERTEXT, Tampering, ballot, flipped, messages, patched
from tests.verifier.test_verifier import FURTHER

VALID = {"proofs": "valid"}
STUDIES: dict[str, tuple[str, dict[str, Any]]] = {
    "statistic": ("statistic", VALID),
    "statistic, gaussian noise": ("statistic", VALID | {"delta": 1e-6}),
    "statistic, three parts of an entry": ("statistic", VALID | {"epsilon": 0.01}),
    "vote-directions": ("statistic, directions", VALID),
    "own-data": ("statistic, own data", VALID),
    "whitened, gaussian noise": ("statistic, own data", VALID | {"method": "whitened", "delta": 1e-6}),
    "three classes": ("statistic", VALID | {"classes": ("a", "b", "c"), "degree": 2}),
    "average": ("average", VALID),
    "average, own-data": ("average, own data", VALID),
    "psgd": ("psgd", VALID),
    "psgd, halving": (FURTHER["halving"][0], VALID | FURTHER["halving"][1]),
}


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return public_file(tmp_path_factory.mktemp("public"))


@pytest.fixture(scope="module")
def recordings(public: Path) -> Callable[[str], Recording]:
    """Plays a study when it is first asked for."""

    @cache
    def play(name: str) -> Recording:
        what, terms = STUDIES[name]
        return record(what, public, **terms)

    return play


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_studies_with_proofs_of_bounds_are_accepted(recordings: Callable[[str], Recording], name: str) -> None:
    check_accepted(recordings(name))


def test_a_round_has_the_layout_that_psephos_chooses(recordings: Callable[[str], Recording]) -> None:
    """Of vectors of several blocks, and of bounds that need more or fewer digits."""
    n = mpz((1 << 255) + 1)
    key = PublicKey(int(n), form="psephos")
    other = paillier.Key(n, 1, 3, 2, bytes(16), mpz(1), mpz(4), (mpz(9),) * 3)
    for length, maximum in (
        (3, 1 << 10),
        (12, 1 << 24),
        (40, 1 << 25),
        (300, 1 << 31),
        (1200, 77),
        (40, 1 << 57),
        (300, 1 << 70),
    ):
        plan = bounded.bounded_plan(key, length=length, addends=5, minimum=-maximum + 1, maximum=maximum)
        packing = second.widened(hashproof.Packing(other, length, 5, -maximum + 1, maximum))
        assert (packing.minimum, packing.maximum) == (plan.minimum, plan.maximum)
        for squares in (maximum**2, length * maximum**2, 5):
            ours, theirs = bounded.BoundedLayout.of(key, plan, squares), second.layout_of(packing, squares)
            sizes = (
                ours.base,
                ours.digits,
                ours.degree,
                ours.sizes.first_rows,
                ours.sizes.second_rows,
                ours.longest_proof,
            )
            assert sizes == (
                theirs.base, theirs.digits, theirs.degree, theirs.first, theirs.second, theirs.longest
            )  # fmt: skip
            assert ours.norm.split.places == theirs.norm.places
            assert list(ours.norm.targets) == theirs.norm.sides
    assert (second.LARGEST_BASE, second.MOST_DIGITS) == (bounded.LARGEST_BASE, bounded.MOST_DIGITS)
    assert hashproof.DEGREES == codewords.DEGREES
    assert hashproof.QUERIES == codewords.QUERIES


# -- a party that cheats


@dataclass(frozen=True)
class Cheated:
    """What party 1 does."""

    cheat: type[Cheat]
    what: str = "three classes"
    entries: Callable[[bounded.BoundedLayout], list[int]] | None = None
    added: int = 0
    lent: bool = False

    def payload(self, round_: Round) -> bytes:
        """Return ciphertexts and proof of party 1."""
        assert isinstance(round_.layout, bounded.BoundedLayout)
        return self.proved(round_.layout, b"psephos ballot\0" + round_.digest + (1).to_bytes(4, "big"))

    def proved(self, layout: bounded.BoundedLayout, statement: bytes) -> bytes:
        """Return ciphertexts and a proof."""
        key = layout.key
        own = [0] * layout.plan.length if self.entries is None else self.entries(layout)
        slots = slots_of(layout, own)
        if self.lent:
            claims = self.cheat(statement, layout, own, [], Witness((), ()), SYSTEM)
            slots = slots_of(layout, held(layout, claims))
        plaintexts = packed(layout, slots)
        plaintexts[0] += self.added
        ciphertexts, witness = Encryptor(key, mode="half").encrypt_with_witness(plaintexts)
        proof = self.cheat(statement, layout, own, ciphertexts, witness, SYSTEM).run()
        return encode_ciphertexts(key, ciphertexts) + proof


def _long(layout: bounded.BoundedLayout) -> list[int]:
    """As many largest entries of the ball as there are: the range admits them, the length does not."""
    return [1 << 25] * layout.plan.length


def _longest(layout: bounded.BoundedLayout) -> list[int]:
    """Entries at the ends of the range, which is a little wider than the bound of their squares allows for."""
    assert len(layout.norm.split.places) == 3
    return [layout.plan.minimum] * layout.plan.length


def _one_more(layout: bounded.BoundedLayout) -> list[int]:
    """A vector whose sum of squares is the bound and 1."""
    assert layout.square_bound == 1 << 50
    return [1 << 25, 1] + [0] * (layout.plan.length - 2)


WIDE = "statistic, three parts of an entry"


class Honest(Cheat):
    """Proves what is true."""


CHEATS: dict[str, Cheated] = {
    "an entry above the range": Cheated(HighDigit, lent=True),
    "an entry below the range": Cheated(NegativeDigit, lent=True),
    "multiplicities that fit a guessed alpha": Cheated(FittedMultiplicities, lent=True),
    "a digit out of range with the inverse of a good one": Cheated(WrongInverse, lent=True),
    "the same, and an answer that vanishes": Cheated(VanishingAnswer, lent=True),
    "a long vector without slack": Cheated(NoSlack, "average", _long),
    "a vector that is too long by one": Cheated(NegativeSlack, "average", _one_more),
    "a long vector, slack and carries solved modulo p": Cheated(SolvedCarries, "average", _long),
    "a long vector of three parts without slack": Cheated(NoSlack, WIDE, _longest),
    "a long vector of three parts, slack and carries solved modulo p": Cheated(SolvedCarries, WIDE, _longest),
    "an entry of three parts above the range": Cheated(HighDigit, WIDE, lent=True),
    "a plaintext that is 1 more": Cheated(Cheat, "statistic", added=1),
    "a plaintext that is p more": Cheated(Cheat, added=PRIME),
    "a plaintext that is p more, quotients solved modulo p": Cheated(SolvedQuotients, "statistic", added=PRIME),
    "a mask that does not sum to 0": Cheated(UnbalancedMask, "statistic"),
    "a mask that does not vanish": Cheated(NonzeroMask, "own-data"),
}


def round_of(recording: Recording) -> Round:
    round_ = recording.evidence().round
    assert round_ is not None
    return round_


def _check_refused(changed: Recording) -> None:
    """Check that both verifiers refuse the ballot of party 1, for its proof, and the study."""
    report, evidence = changed.second(), changed.evidence()
    assert not report.accepted
    refused = 2 if changed.made.study.minimum_ballots == 5 else 1  # with too few ballots the close is refused, too
    assert f"4 ballots count; {refused} messages are refused" in report.holds
    assert evidence.counted == (0, 2, 3, 4)
    assert any("1 ProofError" in check.found and "of party 1" in check.found for check in evidence.checks)
    assert not accepted(evidence.checks, verifiable=True)


@pytest.mark.parametrize("name", sampled(CHEATS))
def test_a_party_that_cheats_is_refused(recordings: Callable[[str], Recording], name: str) -> None:
    one = CHEATS[name]
    recording = recordings(one.what)
    payload = one.payload(round_of(recording))
    _check_refused(ballot(lambda own: payload)(recording))


@pytest.mark.slow
@pytest.mark.parametrize("what", ["statistic", "average"])
def test_another_ballot_that_is_valid_counts(recordings: Callable[[str], Recording], what: str) -> None:
    """So what is refused is refused for the proof."""
    payload = Cheated(Honest, what).payload(round_of(recordings(what)))
    changed = ballot(lambda own: payload)(recordings(what))
    report = changed.second()
    assert any(line.startswith("5 ballots count; ") for line in report.holds)
    assert any("another product" in why for why in report.fails)
    assert changed.evidence().counted == (0, 1, 2, 3, 4)


# -- bytes of a ballot, which its party signs again

_A = CIPHERTEXT + 64
_Z = _A + CIPHERTEXT


def _sized(change: Callable[[bytes, bounded.BoundedLayout], bytes]) -> Tampering:
    """Change a ballot of one ciphertext, given the layout of its round."""

    def tamper(recording: Recording) -> Recording:
        layout = round_of(recording).layout
        assert isinstance(layout, bounded.BoundedLayout)
        return ballot(lambda payload: change(payload, layout))(recording)

    return tamper


def _answers(layout: bounded.BoundedLayout) -> int:
    return _Z + sum(layout.proof_parts[:2])


def _opened(layout: bounded.BoundedLayout) -> int:
    return _answers(layout) + layout.proof_parts[2]


def _path(layout: bounded.BoundedLayout) -> int:
    """Where the number of hashes of the first opening is."""
    return _opened(layout) + 152 * (32 + 8 * (layout.sizes.first_rows + 6))


def _second_opening(payload: bytes, layout: bounded.BoundedLayout) -> int:
    """Where the second opening begins."""
    at = _path(layout)
    return at + 2 + 32 * int.from_bytes(payload[at : at + 2], "big")


_PLACES: dict[str, Callable[[bytes, bounded.BoundedLayout], int]] = {
    "the first root": lambda payload, layout: CIPHERTEXT,
    "the second root": lambda payload, layout: CIPHERTEXT + 32,
    "A": lambda payload, layout: _A,
    "z": lambda payload, layout: _Z,
    "the highest byte of z": lambda payload, layout: _Z + layout.proof_parts[0] - 1,
    "w": lambda payload, layout: _Z + layout.proof_parts[0],
    "a near answer": lambda payload, layout: _answers(layout),
    "a square answer": lambda payload, layout: _answers(layout) + 8 * layout.degree,
    "an equation answer of the second repetition": lambda payload, layout: _opened(layout) - 8,
    "a salt": lambda payload, layout: _opened(layout),
    "a digit of an opened column": lambda payload, layout: _opened(layout) + 32,
    "a mask of an opened column": lambda payload, layout: _opened(layout) + 32 + 8 * layout.sizes.first_rows,
    "the number of hashes": lambda payload, layout: _path(layout) + 1,
    "a hash": lambda payload, layout: _second_opening(payload, layout) - 1,
    "an inverse of an opened column": lambda payload, layout: _second_opening(payload, layout) + 32,
    "the last hash": lambda payload, layout: len(payload) - 1,
}
"""Where one bit is changed."""


def _changed_at(place: Callable[[bytes, bounded.BoundedLayout], int]) -> Tampering:
    return _sized(lambda payload, layout: flipped(payload, place(payload, layout)))


TAMPERED: dict[str, Tampering] = {
    **{name: _changed_at(place) for name, place in _PLACES.items()},
    "a word outside the field": _sized(lambda data, layout: patched(data, _answers(layout), b"\xff" * 8)),
    "a byte too many": ballot(lambda data: data + b"\0"),
    "the last hash is missing": ballot(lambda data: data[:-32]),
    "a proof of knowledge's length": ballot(lambda data: data[: CIPHERTEXT + 195]),
}


@pytest.mark.parametrize("name", sampled(TAMPERED))
def test_a_ballot_that_its_party_changes_and_signs_again_is_refused(
    recordings: Callable[[str], Recording], name: str
) -> None:
    recording = recordings("statistic")
    changed = TAMPERED[name](recording)
    assert changed.entries != recording.entries
    _check_refused(changed)


def test_an_unchanged_ballot_that_is_signed_again_is_accepted(recordings: Callable[[str], Recording]) -> None:
    for tamper in (messages(lambda recording, posts: None), ballot(lambda payload: payload)):
        assert tamper(recordings("statistic")).second().accepted


@pytest.mark.parametrize("what", ["average", "own-data"])
def test_a_proof_is_bound_to_its_party(recordings: Callable[[str], Recording], what: str) -> None:
    recording = recordings(what)
    payload = next(one.body for one in recording.decoded if one.author == "party 0" and len(one.body) > 10_000)[109:]
    _check_refused(ballot(lambda own: payload)(recording))
