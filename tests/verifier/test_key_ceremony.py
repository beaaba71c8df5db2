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

import pytest
from gmpy2 import mpz

from psephos.audit.rounds import short_key
from psephos.parties.ceremony import CEREMONY_KINDS
from psephos.parties.ceremony_checks import CeremonyReader, PublicChecks
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.errors import AgreementError
from psephos.protocol.paillier.threshold import deal
from psephos.protocol.roles import Entry, Post
from psephos.protocol.wire import HEADER_BYTES, Kind
from tests.tiers import sampled
from tests.verifier import ceremony as second
from tests.verifier.board import Board, Refused, Report, Study
from tests.verifier.changes import Change, Edit, Posts, bit, edited, longer, messages, places, put, shorter, without
from tests.verifier.recording import Recording, accepted, public_file, record
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
        posts = played.posts()
        last = posts[places(posts, Kind.TEST_VALUES)[-1]][1].data
        if len(places(posts, Kind.OPENED_CANDIDATES)) > 3 and len(last) < BODY + 2 * VALUES:
            return played


def verdicts(recording: Recording) -> list[str]:
    """What `psephos verify` finds of the ceremony."""
    return [check.verdict for check in recording.evidence().checks if check.what == WHAT]


def test_a_study_with_a_ceremony_is_accepted(recording: Recording) -> None:
    assert any("messages of the ceremony make the key" in line for line in recording.second.holds)
    assert recording.second.accepted
    assert verdicts(recording) == ["holds"]
    assert accepted(recording.evidence().checks, verifiable=True)
    assert messages(lambda recording, posts: None)(recording).second.accepted


def test_another_key_than_the_ceremony_makes_is_refused(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although all holders publish it alike."""
    other = deal(short_key(bits=256), holders=3, threshold=2)[0]
    monkeypatch.setattr(CeremonyReader, "key", lambda reader: other)
    assert verdicts(recording.with_entries(recording.entries)) == ["fails"]


@pytest.mark.slow
@pytest.mark.parametrize("fields", [{"holders": 5, "threshold": 3, "key_bits": 160, "confirmations": 4}, {"degree": 2}])
def test_ceremonies_of_other_terms_are_accepted(tmp_path: Path, fields: dict[str, Any]) -> None:
    played = record("statistic", public_file(tmp_path), ceremony=True, **{"key_bits": BITS} | fields)
    assert played.second.accepted
    assert verdicts(played) == ["holds"]


def test_both_compute_the_same_numbers() -> None:
    for bits, holders, degree in ((128, 3, 1), (256, 5, 2), (2048, 3, 1), (3072, 5, 1), (2048, 9, 1)):
        ours = CeremonyTerms(bits, holders, 2, bytes(32), test_key=True, degree=degree)
        theirs = second.Terms(bits, holders, 2, degree, ours.digest)
        assert ours.subsets == tuple(theirs.sets)
        for name in ("primes", "draws", "step", "top_bits", "offset", "rest_bits", "batch", "form_bound"):
            number = getattr(theirs, name)
            assert getattr(ours, name) == (tuple(number) if isinstance(number, list) else number)
        computation = PublicChecks(ours, 1)
        for holder in range(1, holders + 1):
            assert computation._opened_sets(holder) == theirs.spoken(holder)


# -- one message is changed


def _changed(kind: Kind, edit: Edit, *, place: int = 0, promised: bool = False) -> Change:
    """Change a message of the ceremony, and the commitment to it."""

    def change(recording: Recording, posts: Posts) -> None:
        at = places(posts, kind)[place]
        author, post = posts[at]
        posts[at] = author, replace(post, data=edit(post.data))
        if promised:
            before = max(i for i in range(at) if posts[i][0] == author and posts[i][1].data[8] == Kind.COMMITMENT)
            old, promise = posts[before][1], hashlib.sha256(author.encode() + b"\0" + posts[at][1].data).digest()
            posts[before] = author, replace(old, data=old.data[:BODY] + promise)

    return messages(change)


def _number(which: int, change: Callable[[mpz, mpz], mpz]) -> Change:
    """Change a number of the first exponent commitments: of theta, two of a polynomial, one below S/4, then roots."""

    def apply(recording: Recording) -> Recording:
        key = recording.evidence().key
        assert key is not None
        n, quarter = mpz(key.key.n), recording.made.study.ceremony().step // 4
        bounds = [n, n**2, n**2, quarter]
        sizes = [(int(bound.bit_length()) + 7) // 8 for bound in bounds]

        def edit(data: bytes) -> bytes:
            roots = (len(data) - BODY - sum(sizes)) // sizes[0]
            lengths = [*sizes, *[sizes[0]] * roots]
            at, size = BODY + sum(lengths[: which % len(lengths)]), lengths[which]
            number = change(mpz.from_bytes(data[at : at + size], "little"), n) % [*bounds, *[n] * roots][which]
            return put(at, int(number).to_bytes(size, "little"))(data)

        return _changed(Kind.EXPONENT_COMMITMENTS, edit)(recording)

    return apply


def _residues(edit: Callable[[CeremonyTerms, bytes], bytes], kind: Kind) -> Change:
    """Change packed residues of the first message of a kind."""
    return lambda recording: _changed(kind, lambda data: edit(recording.made.study.ceremony(), data))(recording)


def _one_residue(terms: CeremonyTerms, data: bytes) -> bytes:
    """Change the last residue of the largest prime, whose lowest bits are the last ones that are packed."""
    width = terms.primes[-1].bit_length()
    bits = terms.draws[-1] * width
    byte, place = divmod(bits - width, 8)
    at = len(data) - (bits + 7) // 8 + byte
    return put(at, bytes([data[at] ^ 1 << 7 - place]))(data)


def _out_of_range(terms: CeremonyTerms, data: bytes) -> bytes:
    """The first prime is 5: its residues have 3 bits."""
    own_sets = sum(1 in members for members in terms.subsets)
    return put(BODY + 32 * own_sets, b"\xff")(data)


def _other_share(data: bytes) -> bytes:
    """Change the second bit of the first share of n, which stays odd."""
    return put(BODY, bytes([data[BODY] ^ 2]))(data)


def _complaint(recording: Recording, posts: Posts) -> None:
    at = places(posts, Kind.RESIDUE_PRODUCTS)[0]
    post = posts[at][1]
    header = post.data[:8] + bytes([Kind.COMPLAINT]) + post.data[9:BODY]
    posts.insert(at, ("holder 2", Post("board", header + bytes(32 * 4), post.phase)))


LAST: dict[str, Any] = {"place": -1}
AGAIN: dict[str, Any] = {"place": -1, "promised": True}
CHANGES: dict[str, Change] = {
    "a key of a pair of small order": _changed(Kind.SEED_COMMITMENTS, lambda data: data[:-32] + bytes(32)),
    "seed contributions are too long": _changed(Kind.SEED_CONTRIBUTIONS, longer),
    "a message of another batch": _changed(Kind.RESIDUE_PRODUCTS, bit(HEADER_BYTES + 3)),
    "a message of another stage": _changed(Kind.RESIDUE_DIFFERENCES, bit(HEADER_BYTES + 4)),
    "a message of another ceremony": _changed(Kind.SEED_CONTRIBUTIONS, bit(9)),
    "another commitment to a seed of the winner's batch": _changed(Kind.RESIDUE_PRODUCTS, bit(BODY), **LAST),
    "a residue out of range": _residues(_out_of_range, Kind.RESIDUE_PRODUCTS),
    "a residue of a product of a rejected batch": _residues(_one_residue, Kind.RESIDUE_PRODUCTS),
    "a residue of a difference of a rejected batch": _residues(_one_residue, Kind.RESIDUE_DIFFERENCES),
    "a commitment to shares of n": _changed(Kind.COMMITMENT, bit(BODY)),
    "a share of n": _changed(Kind.MODULUS_SHARES, _other_share, promised=True),
    "a share of n of the winner's batch": _changed(Kind.MODULUS_SHARES, _other_share, **AGAIN),
    "a test value that was not committed to": _changed(Kind.TEST_VALUES, bit(BODY), **LAST),
    "a test value that is 0": _changed(Kind.TEST_VALUES, put(BODY, bytes(BITS // 8)), **AGAIN),
    "another test value of the winner": _changed(Kind.TEST_VALUES, bit(BODY), **AGAIN),
    "another multiple of phi of the winner": _changed(Kind.TEST_VALUES, bit(BODY + VALUES), **AGAIN),
    "another seed of a rejected batch": _changed(Kind.OPENED_CANDIDATES, bit(BODY)),
    "a piece of a rejected candidate": _changed(Kind.OPENED_CANDIDATES, bit(BODY), **LAST),
    "another part of theta": _number(0, lambda x, n: x - 1),
    "another multiple of the order": _number(1, lambda x, n: 4 * x),
    "another coefficient of a polynomial": _number(2, lambda x, n: 4 * x),
    "a coefficient that is no unit": _number(2, lambda x, n: n),
    "another rest of the proof of form": _number(3, lambda x, n: x + 1),
    "another root of the proof of form, small primes": _number(4 + 60, lambda x, n: 2 * x),
    "another root of the proof of form, larger primes": _number(-1, lambda x, n: 2 * x),
    "exponent shares are too short": _changed(Kind.EXPONENT_SHARES, shorter),
    "another test decryption": _changed(Kind.TEST_DECRYPTION, bit(BODY)),
    "the answer of a proof of a test decryption": _changed(Kind.TEST_DECRYPTION, bit(-20)),
    "a test decryption is missing": without(Kind.TEST_DECRYPTION),
    "a holder complains": messages(_complaint),
    "all holders publish another verification value": edited(Kind.PUBLIC_KEY, bit(-1), None),
    "all holders publish another theta": edited(Kind.PUBLIC_KEY, bit(HEADER_BYTES + 2 * BITS // 4 + 15), None),
}


@pytest.mark.parametrize("name", sampled(CHANGES))
def test_changed_ceremonies_are_refused(recording: Recording, name: str) -> None:
    changed = CHANGES[name](recording)
    assert changed.entries != recording.entries
    assert any(why.startswith("the ceremony: ") for why in changed.second.fails)
    assert verdicts(changed) == ["fails"]


def test_a_message_that_comes_again_is_ignored(recording: Recording) -> None:
    """By holders, who would have refused it, and so by both readers."""

    def again(recording: Recording, posts: Posts) -> None:
        at = places(posts, Kind.SEED_COMMITMENTS)[0]
        posts.insert(at + 1, (posts[at][0], replace(posts[at][1], data=bit(-1)(posts[at][1].data))))

    changed = messages(again)(recording)
    assert changed.second.accepted
    assert accepted(changed.evidence().checks, verifiable=True)


def test_only_a_trial_may_do_without_a_ceremony(recording: Recording) -> None:
    study, report = Study(recording.made.study.text()), Report()
    key = second.key_of_ceremony(study, Board(study, list(recording.entries)).messages)
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
            CeremonyReader(recording.made.study.ceremony(), entries[:length]).key()
