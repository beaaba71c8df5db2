"""The second verifier and the key ceremony: it accepts a study whose holders made the key, and refuses changed ones.

Whoever changes a message signs it again and, where it has committed to the message, commits to the changed one. Both
verifiers must name the ceremony as what fails.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gmpy2
import pytest
from gmpy2 import mpz

from psephos.audit.rounds import short_key
from psephos.parties.ceremony import CEREMONY_KINDS
from psephos.parties.ceremony_checks import CeremonyReader, PublicChecks
from psephos.protocol.ceremony.messages import byte_length, packed_bytes
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.errors import AgreementError
from psephos.protocol.paillier.threshold import deal
from psephos.protocol.roles import Entry, Post
from psephos.protocol.wire import HEADER_BYTES, Kind
from tests.tiers import sampled
from tests.verifier import ceremony as second
from tests.verifier.board import Board, Refused, Report, Study
from tests.verifier.recording import Recording, accepted, public_file, record
from tests.verifier.tampering import Posts, Tampering, edited, flipped, messages, patched, places, without
from tests.verifier.verifier import check_ceremony

BITS = 128
BODY = HEADER_BYTES + 5
"""Where a message begins behind its batch and stage."""
VALUES = second.CONFIRMATIONS * BITS // 8
"""Bytes of one candidate's test values when it is tested again."""
WHAT = "the key: what the messages of the ceremony make"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A study whose ceremony has a batch without a winner, and tests one candidate alone again in the last batch."""
    public = public_file(tmp_path_factory.mktemp("public"))
    while True:
        played = record("statistic", public, ceremony=True, key_bits=BITS)
        last = played.decoded[played.places(Kind.TEST_VALUES)[-1]].body
        if len(played.places(Kind.OPENED_CANDIDATES)) > 3 and len(last) < BODY + 2 * VALUES:
            return played


def _terms(recording: Recording) -> CeremonyTerms:
    return recording.made.study.ceremony()


def _modulus(recording: Recording) -> mpz:
    key = recording.evidence().key
    assert key is not None
    return mpz(key.key.n)


def test_a_study_with_a_ceremony_is_accepted(recording: Recording) -> None:
    report, evidence = recording.second(), recording.evidence()
    assert (report.fails, report.lacks) == ([], [])
    assert any("messages of the ceremony make the key" in line for line in report.holds)
    assert [check.verdict for check in evidence.checks if check.what == WHAT] == ["holds"]
    assert accepted(evidence.checks, verifiable=True)
    assert messages(lambda recording, posts: None)(recording).second().accepted


def test_another_key_than_the_ceremony_makes_is_refused(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although all holders publish it alike."""
    other = deal(short_key(bits=256), holders=3, threshold=2)[0]
    monkeypatch.setattr(CeremonyReader, "key", lambda reader: other)
    assert [check.verdict for check in recording.evidence().checks if check.what == WHAT] == ["fails"]


@pytest.mark.slow
@pytest.mark.parametrize("fields", [{"holders": 5, "threshold": 3, "key_bits": 160, "confirmations": 4}, {"degree": 2}])
def test_ceremonies_of_other_terms_are_accepted(tmp_path: Path, fields: dict[str, Any]) -> None:
    played = record("statistic", public_file(tmp_path), ceremony=True, **{"key_bits": BITS} | fields)
    report = played.second()
    assert (report.fails, report.lacks) == ([], [])
    assert [check.verdict for check in played.main() if check.what == WHAT] == ["holds"]


def test_both_compute_the_same_numbers(recording: Recording) -> None:
    for bits, holders, degree in ((128, 3, 1), (256, 5, 2), (2048, 3, 1), (3072, 5, 1), (2048, 9, 1)):
        ours = CeremonyTerms(bits, holders, 2, bytes(32), test_key=True, degree=degree)
        theirs = second.Terms(bits, holders, 2, degree, ours.digest)
        assert (ours.subsets, ours.primes, ours.draws) == (
            tuple(theirs.sets),
            tuple(theirs.primes),
            tuple(theirs.draws),
        )
        assert (ours.step, ours.top_bits, ours.offset) == (theirs.step, theirs.top_bits, theirs.offset)
        assert (ours.rest_bits, ours.batch, ours.form_bound) == (theirs.rest_bits, theirs.batch, theirs.form_bound)
        computation = PublicChecks(ours, 1)
        for holder in range(1, holders + 1):
            assert computation._opened_sets(holder) == theirs.spoken(holder)


# -- one message is changed

Change = Callable[[Recording, bytes], bytes]


def _changed(kind: Kind, change: Change, *, place: int = 0, promised: bool = False) -> Tampering:
    """Change a message of the ceremony, and the commitment to it."""

    def tamper(recording: Recording, posts: Posts) -> None:
        at = places(posts, kind)[place]
        author, post = posts[at]
        data = change(recording, post.data)
        assert data != post.data
        posts[at] = author, replace(post, data=data)
        if promised:
            before = max(i for i in range(at) if posts[i][0] == author and posts[i][1].data[8] == Kind.COMMITMENT)
            promise = hashlib.sha256(author.encode() + b"\0" + data).digest()
            old = posts[before][1]
            posts[before] = author, replace(old, data=old.data[:BODY] + promise)

    return messages(tamper)


def _flip(place: int) -> Change:
    return lambda recording, data: flipped(data, place)


def _residues_at(recording: Recording) -> int:
    """Where the residues begin in the residue products."""
    return BODY + 32 * len(PublicChecks(_terms(recording), 1)._sets)


def _number(place: Callable[[int, int], int], change: Callable[[mpz, mpz], mpz]) -> Change:
    """Change one number of the exponent commitments, given where it is, for lengths of n and n^2, and the modulus."""

    def edit(recording: Recording, data: bytes) -> bytes:
        n = _modulus(recording)
        sizes = byte_length(n), byte_length(n**2)
        at = BODY + place(*sizes)
        size = sizes[1] if 0 < place(*sizes) < sizes[0] + 2 * sizes[1] else sizes[0]
        number = mpz.from_bytes(data[at : at + size], "little")
        return patched(data, at, int(change(number, n)).to_bytes(size, "little"))

    return edit


def _sieved(recording: Recording, data: bytes) -> bytes:
    """Change the integer below S/4 of the proof of form by 1, within its range."""
    n = _modulus(recording)
    size = byte_length(_terms(recording).step // 4)
    at = BODY + byte_length(n) + 2 * byte_length(n**2)
    number = int.from_bytes(data[at : at + size], "little")
    return patched(data, at, (number + (1 if number == 0 else -1)).to_bytes(size, "little"))


def _root(which: int) -> Change:
    """Double a root of the proof of form."""

    def edit(recording: Recording, data: bytes) -> bytes:
        n = _modulus(recording)
        size = byte_length(n)
        first = BODY + size + 2 * byte_length(n**2) + byte_length(_terms(recording).step // 4)
        at = first + size * which if which >= 0 else len(data) + size * which
        root = mpz.from_bytes(data[at : at + size], "little") * 2 % n
        return patched(data, at, int(root).to_bytes(size, "little"))

    return edit


def _complaint(recording: Recording, posts: Posts) -> None:
    at = places(posts, Kind.RESIDUE_PRODUCTS)[0]
    post = posts[at][1]
    header = post.data[:8] + bytes([Kind.COMPLAINT]) + post.data[9:BODY]
    posts.insert(at, ("holder 2", Post("board", header + bytes(32 * 4), post.phase)))


def _zero_value(recording: Recording, data: bytes) -> bytes:
    return patched(data, BODY, bytes(BITS // 8))


def _other_share(recording: Recording, data: bytes) -> bytes:
    """Change the lowest bit of the first share of n: n stays odd only where another bit is changed, so the second."""
    return patched(data, BODY, bytes([data[BODY] ^ 2]))


def _out_of_range(recording: Recording, data: bytes) -> bytes:
    return patched(data, _residues_at(recording), b"\xff")


def _one_residue(recording: Recording, data: bytes) -> bytes:
    """Change the last residue of the largest prime, whose lowest bits are the last ones that are packed."""
    terms = _terms(recording)
    bits = terms.draws[-1] * terms.primes[-1].bit_length()
    start = len(data) - (bits + 7) // 8
    place = bits - terms.primes[-1].bit_length()
    byte, bit = start + place // 8, 7 - place % 8
    return patched(data, byte, bytes([data[byte] ^ 1 << bit]))


LAST = -1
CHANGES: dict[str, Tampering] = {
    "a key of a pair of small order": _changed(Kind.SEED_COMMITMENTS, lambda recording, data: data[:-32] + bytes(32)),
    "seed commitments are too short": _changed(Kind.SEED_COMMITMENTS, lambda recording, data: data[:-1]),
    "seed contributions are too long": _changed(Kind.SEED_CONTRIBUTIONS, lambda recording, data: data + b"\0"),
    "a message of another batch": _changed(Kind.RESIDUE_PRODUCTS, _flip(HEADER_BYTES + 3)),
    "a message of another stage": _changed(Kind.RESIDUE_DIFFERENCES, _flip(HEADER_BYTES + 4)),
    "a message of another ceremony": _changed(Kind.SEED_CONTRIBUTIONS, _flip(9)),
    "another commitment to a seed of the winner's batch": _changed(Kind.RESIDUE_PRODUCTS, _flip(BODY), place=LAST),
    "a residue out of range": _changed(Kind.RESIDUE_PRODUCTS, _out_of_range),
    "a residue of a product of a rejected batch": _changed(Kind.RESIDUE_PRODUCTS, _one_residue),
    "a residue of a difference of a rejected batch": _changed(Kind.RESIDUE_DIFFERENCES, _one_residue),
    "a commitment to shares of n": _changed(Kind.COMMITMENT, _flip(BODY)),
    "a share of n": _changed(Kind.MODULUS_SHARES, _other_share, promised=True),
    "a share of n of the winner's batch": _changed(Kind.MODULUS_SHARES, _other_share, place=LAST, promised=True),
    "a test value that was not committed to": _changed(Kind.TEST_VALUES, _flip(BODY), place=LAST),
    "a test value that is 0": _changed(Kind.TEST_VALUES, _zero_value, place=LAST, promised=True),
    "another test value of the winner": _changed(Kind.TEST_VALUES, _flip(BODY), place=LAST, promised=True),
    "another multiple of phi of the winner": _changed(
        Kind.TEST_VALUES, _flip(BODY + VALUES), place=LAST, promised=True
    ),
    "another seed of a rejected batch": _changed(Kind.OPENED_CANDIDATES, _flip(BODY)),
    "a piece of a rejected candidate": _changed(Kind.OPENED_CANDIDATES, _flip(BODY), place=LAST),
    "another part of theta": _changed(Kind.EXPONENT_COMMITMENTS, _number(lambda n, square: 0, lambda x, n: x - 1)),
    "another multiple of the order": _changed(
        Kind.EXPONENT_COMMITMENTS, _number(lambda n, square: n, lambda x, n: 4 * x % n**2)
    ),
    "another coefficient of a polynomial": _changed(
        Kind.EXPONENT_COMMITMENTS, _number(lambda n, square: n + square, lambda x, n: 4 * x % n**2)
    ),
    "a coefficient that is no unit": _changed(
        Kind.EXPONENT_COMMITMENTS, _number(lambda n, square: n + square, lambda x, n: n)
    ),
    "another rest of the proof of form": _changed(Kind.EXPONENT_COMMITMENTS, _sieved),
    "another root of the proof of form, small primes": _changed(Kind.EXPONENT_COMMITMENTS, _root(60)),
    "another root of the proof of form, larger primes": _changed(Kind.EXPONENT_COMMITMENTS, _root(-1)),
    "exponent shares are too short": _changed(Kind.EXPONENT_SHARES, lambda recording, data: data[:-1]),
    "another test decryption": _changed(Kind.TEST_DECRYPTION, _flip(BODY)),
    "the answer of a proof of a test decryption": _changed(Kind.TEST_DECRYPTION, _flip(-20)),
    "a test decryption is missing": without(Kind.TEST_DECRYPTION),
    "a holder complains": messages(_complaint),
    "all holders publish another verification value": edited(
        Kind.PUBLIC_KEY, lambda data: flipped(data, -1), which=None
    ),
    "all holders publish another theta": edited(
        Kind.PUBLIC_KEY, lambda data: flipped(data, HEADER_BYTES + 2 * BITS // 4 + 15), which=None
    ),
}


@pytest.mark.parametrize("name", sampled(CHANGES))
def test_changed_ceremonies_are_refused(recording: Recording, name: str) -> None:
    changed = CHANGES[name](recording)
    assert changed.entries != recording.entries
    report, evidence = changed.second(), changed.evidence()
    assert any(why.startswith("the ceremony: ") for why in report.fails)
    assert [check.verdict for check in evidence.checks if check.what == WHAT] == ["fails"]


def test_a_message_that_comes_again_is_ignored(recording: Recording) -> None:
    """By holders, who would have refused it, and so by both readers."""

    def again(recording: Recording, posts: Posts) -> None:
        at = places(posts, Kind.SEED_COMMITMENTS)[0]
        posts.insert(at + 1, (posts[at][0], replace(posts[at][1], data=flipped(posts[at][1].data, -1))))

    changed = messages(again)(recording)
    assert changed.second().accepted
    assert accepted(changed.main(), verifiable=True)


def test_only_a_trial_may_do_without_a_ceremony(recording: Recording) -> None:
    study, report = Study(recording.made.study.text()), Report()
    board = Board(study, list(recording.entries))
    key = second.key_of_ceremony(study, board.messages)
    check_ceremony(study, key, [], report)
    assert report.fails == []
    study.trial = False
    check_ceremony(study, key, [], report)
    assert len(report.fails) == 1
    with pytest.raises(AgreementError):
        CeremonyReader(recording.made.study.ceremony(), []).key()


def test_a_ceremony_that_is_not_over_makes_no_key(recording: Recording) -> None:
    study = Study(recording.made.study.text())
    read = Board(study, list(recording.entries)).messages
    ceremony = [message for message in read if message.kind in second.KINDS.values()]
    entries = [Entry(one.number, one.sender, "board", one.data) for one in ceremony]
    assert all(entry.kind in CEREMONY_KINDS for entry in entries)
    for length in (0, 5, len(ceremony) // 2, len(ceremony) - 1):
        with pytest.raises(Refused):
            second.key_of_ceremony(study, ceremony[:length])
        with pytest.raises(AgreementError):
            CeremonyReader(_terms(recording), entries[:length]).key()
    assert packed_bytes(_terms(recording)) == second.terms_of(study).packed_bytes
    assert gmpy2.is_prime(_terms(recording).primes[-1])
