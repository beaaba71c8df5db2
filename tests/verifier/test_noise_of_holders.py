"""The second verifier and noise of the key holders: it accepts honest studies, and refuses changed ones.

Whoever changes a message signs it again, so that only what was changed can be wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from psephos.protocol.errors import StudyError
from psephos.protocol.proofs.bounded import BoundedLayout
from psephos.protocol.proofs.field import PRIME
from psephos.protocol.wire import HEADER_BYTES, Kind
from tests.protocol.proofs.test_bounded import Cheat, HighDigit, SolvedCarries, UnbalancedMask
from tests.tiers import sampled
from tests.verifier.board import Refused, Study
from tests.verifier.noise import Statistic
from tests.verifier.public import Public
from tests.verifier.recording import Recording, accepted, check_accepted, fields_for, public_file, record
from tests.verifier.tampering import (
    CIPHERTEXT,
    Posts,
    Tampering,
    edited,
    flipped,
    messages,
    model,
    patched,
    places,
    without,
)
from tests.verifier.test_bounded_ballots import Cheated, round_of


def _terms(what: str, **others: Any) -> dict[str, Any]:
    parameters = fields_for(what)["parameters"]
    return {"parameters": parameters | {"noise_from": "holders"} | others}


_ABSENT = {"minimum_ballots": 4, "absent": ("party 4",)}
_OWN, _VOTES = "statistic, own data", "statistic"
STUDIES: dict[str, tuple[str, dict[str, Any]]] = {
    "knowledge": (_OWN, _terms(_OWN)),
    "knowledge, gaussian noise": (_VOTES, _terms(_VOTES) | {"delta": 1e-6}),
    "valid": (_VOTES, _terms(_VOTES, colluders=0) | {"proofs": "valid"}),
    "valid, gaussian noise": (_OWN, _terms(_OWN) | {"proofs": "valid", "delta": 1e-6}),
    "valid, three classes": (_VOTES, _terms(_VOTES) | {"proofs": "valid", "classes": ("a", "b", "c")}),
    "a party is missing": (_VOTES, _terms(_VOTES, dropouts=1) | _ABSENT),
    "a party is missing, noise of the parties": (
        _VOTES,
        {"parameters": fields_for(_VOTES)["parameters"] | {"dropouts": 1}} | _ABSENT,
    ),
}


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Recording]:
    """Plays a study when it is first asked for."""
    public = public_file(tmp_path_factory.mktemp("public"))

    @cache
    def play(name: str) -> Recording:
        what, terms = STUDIES[name]
        return record(what, public, **terms)

    return play


@pytest.mark.parametrize("name", sampled(STUDIES, 3))
def test_studies_with_noise_of_holders_are_accepted(recordings: Callable[[str], Recording], name: str) -> None:
    recording = recordings(name)
    check_accepted(recording)
    report = recording.second()
    assert any("3 holders have added noise" in line for line in report.holds) == ("parties" not in name)


# -- noise that its holder, or somebody else, changes

_HOLDER, _PAYLOAD = HEADER_BYTES, HEADER_BYTES + 1
_PROOF = _PAYLOAD + CIPHERTEXT


def _noise(edit: Callable[[bytes], bytes]) -> Tampering:
    """Holder 1 posts something else."""
    return edited(Kind.NOISE_BALLOT, edit)


def _bit(place: int) -> Tampering:
    return _noise(lambda data: flipped(data, place))


def _put(place: int, value: bytes) -> Tampering:
    return _noise(lambda data: patched(data, place, value))


def _late(recording: Recording, posts: Posts) -> None:
    noise, close = places(posts, Kind.NOISE_BALLOT)[0], places(posts, Kind.CLOSE)[0]
    posts.insert(close, posts.pop(noise))


def _by_a_party(recording: Recording, posts: Posts) -> None:
    place = places(posts, Kind.NOISE_BALLOT)[0]
    posts[place] = "party 4", posts[place][1]


def _private(recording: Recording, posts: Posts) -> None:
    place = places(posts, Kind.NOISE_BALLOT)[0]
    posts[place] = posts[place][0], replace(posts[place][1], receiver="curator")


def _copied(recording: Recording, posts: Posts) -> None:
    """Holder 1 posts what holder 2 has posted."""
    one, other = places(posts, Kind.NOISE_BALLOT)[:2]
    author, post = posts[one]
    posts[one] = author, replace(post, data=post.data[:_PAYLOAD] + posts[other][1].data[_PAYLOAD:])


def _from_a_ballot(recording: Recording, posts: Posts) -> None:
    """Holder 1, who is party 0, posts its ballot once more."""
    place = places(posts, Kind.NOISE_BALLOT)[0]
    ballot = next(posts[at][1].data for at in places(posts, Kind.BALLOT) if posts[at][0] == "party 0")
    author, post = posts[place]
    posts[place] = author, replace(post, data=post.data[:_PAYLOAD] + ballot[HEADER_BYTES + 68 :])


TAMPERED: dict[str, Tampering] = {
    "the noise of a holder is missing": without(Kind.NOISE_BALLOT),
    "a party posts noise": messages(_by_a_party),
    "noise for the curator alone": messages(_private),
    "noise in the name of another holder": _put(_HOLDER, b"\2"),
    "noise of holder 0": _put(_HOLDER, b"\0"),
    "noise of a holder that does not exist": _put(_HOLDER, b"\4"),
    "noise of another session": _bit(9),
    "a bit of the ciphertext": _bit(_PAYLOAD),
    "a ciphertext that is 0": _put(_PAYLOAD, bytes(CIPHERTEXT)),
    "a ciphertext that is not below the modulus": _put(_PAYLOAD, b"\xff" * CIPHERTEXT),
    "the mode of the proof": _bit(_PROOF),
    "A of the proof": _bit(_PROOF + 1),
    "z of the proof": _bit(_PROOF + 1 + CIPHERTEXT),
    "w of the proof": _bit(-65),
    "a byte too many": _noise(lambda data: data + b"\0"),
    "a byte too few": _noise(lambda data: data[:-1]),
    "the noise of another holder": messages(_copied),
    "a ballot as noise": messages(_from_a_ballot),
}


def _check_refused(changed: Recording) -> None:
    """Check that both verifiers lack the noise of one holder, and refuse the close and the study."""
    report, evidence = changed.second(), changed.evidence()
    assert not report.accepted
    assert any("5 ballots count, 2 holders have added noise" in line for line in report.holds)
    assert any("the vote is open" in line for line in (*report.fails, *report.lacks))
    assert any("2 of 3 holders have added noise" in check.found for check in evidence.checks)
    assert not accepted(evidence.checks, verifiable=True)


@pytest.mark.parametrize("name", TAMPERED)
def test_changed_noise_is_refused(recordings: Callable[[str], Recording], name: str) -> None:
    _check_refused(TAMPERED[name](recordings("knowledge")))


def test_noise_after_the_close_does_not_end_the_vote(recordings: Callable[[str], Recording]) -> None:
    """The close is refused, since the noise of a holder is missing when it comes."""
    changed = messages(_late)(recordings("knowledge"))
    assert "there is a result, and the vote is open" in changed.second().fails
    assert changed.evidence().closed is None


def test_noise_that_is_signed_again_without_a_change_is_accepted(recordings: Callable[[str], Recording]) -> None:
    for name in ("knowledge", "valid"):
        assert _noise(lambda data: data)(recordings(name)).second().accepted


def _long(layout: BoundedLayout) -> list[int]:
    entries = [layout.plan.maximum] * layout.plan.length
    assert sum(entry**2 for entry in entries) > layout.square_bound
    return entries


CHEATS = {
    "noise that is too long, slack and carries solved modulo p": Cheated(SolvedCarries, entries=_long),
    "a plaintext that is p more": Cheated(Cheat, added=PRIME),
    "a mask that does not sum to 0": Cheated(UnbalancedMask),
}


@pytest.mark.parametrize("name", CHEATS)
@pytest.mark.parametrize("study", ["valid", pytest.param("valid, gaussian noise", marks=pytest.mark.slow)])
def test_a_holder_that_cheats_is_refused(recordings: Callable[[str], Recording], name: str, study: str) -> None:
    recording = recordings(study)
    round_ = round_of(recording)
    payload = CHEATS[name].proved(round_.noise_layout, b"psephos noise ballot\0" + round_.digest + b"\1")
    _check_refused(_noise(lambda data: data[:_PAYLOAD] + payload)(recording))


def test_a_holder_with_an_entry_out_of_range_is_refused(recordings: Callable[[str], Recording]) -> None:
    recording = recordings("valid, three classes")
    round_ = round_of(recording)
    one = Cheated(HighDigit, lent=True)
    payload = one.proved(round_.noise_layout, b"psephos noise ballot\0" + round_.digest + b"\1")
    report = _noise(lambda data: data[:_PAYLOAD] + payload)(recording).second()
    assert any("5 ballots count, 2 holders have added noise" in line for line in report.holds)


@pytest.mark.parametrize("study", ["valid", "valid, gaussian noise"])
def test_a_proof_for_a_ballot_is_none_for_noise(recordings: Callable[[str], Recording], study: str) -> None:
    """With the statement of the noise, but the bound of a ballot."""
    recording = recordings(study)
    round_ = round_of(recording)
    assert isinstance(round_.layout, BoundedLayout)
    assert round_.square_bound != round_.noise_square_bound
    payload = Cheated(Cheat).proved(round_.layout, b"psephos noise ballot\0" + round_.digest + b"\1")
    _check_refused(_noise(lambda data: data[:_PAYLOAD] + payload)(recording))


@pytest.mark.parametrize("mechanism", ["discrete Laplace in shares", "discrete Gaussian in shares of the key holders"])
def test_a_model_that_names_another_law_is_refused(recordings: Callable[[str], Recording], mechanism: str) -> None:
    changed = model(lambda fields: fields["release"].update(mechanism=mechanism))(recordings("knowledge"))
    assert any("another mechanism" in why for why in changed.second().fails)
    assert not accepted(changed.main(), verifiable=True)


@pytest.mark.parametrize(
    "change", [("confirmations = 3", "confirmations = 2"), ("noise_from", "colluders = 3\nnoise_from"), None]
)
def test_noise_of_holders_needs_confirmations_and_an_honest_holder(
    recordings: Callable[[str], Recording], change: tuple[str, str] | None
) -> None:
    recording = recordings("knowledge")
    text = recording.made.study.text()
    changed = text if change is None else text.replace(*change)
    study = Study(changed)
    samples = Public(study, recording.public.read_text(encoding="utf-8"))
    if change is None:
        assert Statistic(study, samples).share[0] > 0
        return
    assert changed != text
    with pytest.raises(Refused):
        _ = Statistic(study, samples).share
    terms = {"confirmations": 2} if change[0].startswith("conf") else _terms(_OWN, colluders=3)
    what, fields = STUDIES["knowledge"]
    with pytest.raises((StudyError, ValueError)):
        record(what, recording.public, **fields | terms)
