"""Tests of the party's role: one valid ballot per auxiliary set, whatever classes its data contains."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from psephos.curator.tally import Tally
from psephos.parties.holder import KeyHolder
from psephos.parties.party import Party, VectorParty, VotingParty
from psephos.protocol.driver import Driver
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.votes import VoteLayout, vote_round
from psephos.protocol.errors import (
    AlreadyCastError,
    DataError,
    InvalidParameter,
    UnknownPartyError,
    WrongRoundError,
)
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.storage.store import OnceLedger, Store
from psephos.simulation.key_setup import setup_keys

CLASSES = ("bird", "cat", "dog")
PARTIES = 5


class Fixed:
    """A voter with fixed votes."""

    def __init__(self, votes: list[int]) -> None:
        self._votes = np.array(votes)

    def predict_votes(self, X):
        return self._votes


@pytest.fixture(scope="module")
def ceremony():
    return setup_keys(PARTIES, key_bits=512, holders=3, threshold=2, test_key=True)


@pytest.fixture
def samples():
    return np.random.default_rng(3).normal(size=(11, 4))


@pytest.fixture
def round_(ceremony, samples):
    return vote_round(ceremony.threshold_key, ceremony.roster, samples, CLASSES, test_key=True)


def voting(ceremony, number, votes):
    return Party(number, ceremony.signing_keys[number], classes=CLASSES, voter=Fixed(votes))


def cast(party, round_, samples, **encryption) -> Ballot:
    """Return the ballot of votes that the party posts."""
    (post,) = VotingParty(party, round_, samples, **encryption).start().posts
    return Ballot.decode(post.data, round_)


def give(party, round_, kind, context, values, **encryption) -> Ballot:
    """Return the ballot that the party posts for another vector than votes."""
    (post,) = VectorParty(party, round_, kind, context, values, **encryption).start().posts
    return Ballot.decode(post.data, round_)


def test_a_round_counts_the_votes(ceremony, round_, samples) -> None:
    votes = np.random.default_rng(5).integers(0, 3, size=(PARTIES, len(samples)))
    parties = [VotingParty(voting(ceremony, n, votes[n].tolist()), round_, samples) for n in range(PARTIES)]
    holders = [KeyHolder(share, round_) for share in ceremony.shares]
    results = Driver([*parties, Tally(round_), *holders]).run()
    opened = results["curator"]
    counts = VoteLayout(len(samples), 3).decode(opened.sums, opened.ballots)
    expected = np.stack([(votes == k).sum(axis=0) for k in range(3)], axis=1)
    assert (counts == expected).all()
    assert results["party 2"] == tuple(VoteLayout(len(samples), 3).encode(votes[2]).tolist())


def test_a_party_votes_once_per_auxiliary_set_whatever_the_round(ceremony, round_, samples, tmp_path) -> None:
    again = Round.create(
        "votes", ceremony.threshold_key, round_.plan, ceremony.roster, context=round_.context, test_key=True
    )

    def restarted(voted) -> Ballot:
        with Store(tmp_path / "private" / "cast") as store:
            voter = Fixed([0] * 11)
            party = Party(0, ceremony.signing_keys[0], classes=CLASSES, voter=voter, once=OnceLedger(store))
            return cast(party, voted, samples)

    assert restarted(round_) == restarted(round_)  # the very same ballot, which tells nothing new
    with pytest.raises(AlreadyCastError):
        restarted(again)
    party = voting(ceremony, 0, [0] * 11)
    cast(party, round_, samples)
    with pytest.raises(AlreadyCastError):
        cast(party, again, samples)


@pytest.mark.parametrize("classes", [("dog", "cat", "bird"), ("bird", "cat"), ("bird", "cat", "dog", "eel")])
def test_a_party_votes_once_per_auxiliary_set_whatever_the_classes(ceremony, round_, samples, classes) -> None:
    """The difference of two sums of the same votes, in another order or code, would disclose them as well."""
    once, key, voter = OnceLedger(), ceremony.signing_keys[0], Fixed([0] * 11)
    cast(Party(0, key, classes=CLASSES, voter=voter, once=once), round_, samples)
    other = vote_round(ceremony.threshold_key, ceremony.roster, samples, classes, test_key=True)
    with pytest.raises(AlreadyCastError):
        cast(Party(0, key, classes=classes, voter=voter, once=once), other, samples)


def test_a_refused_cast_does_not_use_up_the_vote(ceremony, round_, samples) -> None:
    party = voting(ceremony, 0, [0, 1, 2, 3] + [0] * 7)
    with pytest.raises(DataError):
        cast(party, round_, samples)
    party._voter = Fixed([0] * 11)
    assert cast(party, round_, samples).party == 0


def test_vote_rounds_with_other_samples_or_classes_are_refused(ceremony, round_, samples) -> None:
    """Plans that fit more than votes are refused: longer vectors, several votes a sample, one vote in two samples."""
    party, plan = voting(ceremony, 0, [0] * 11), round_.plan
    for changes in ({"length": plan.length + 2}, {"maximum": 2}, {"minimum": -1}):
        fields = {"length": plan.length, "addends": plan.addends, "minimum": 0, "maximum": 1} | changes
        other = dataclasses.replace(round_, plan=PackingPlan.for_key(round_.key, **fields))
        with pytest.raises(WrongRoundError):
            cast(party, other, samples)
    with pytest.raises(WrongRoundError):
        cast(party, round_, samples + 1)
    proved = vote_round(ceremony.threshold_key, ceremony.roster, samples, CLASSES, test_key=True, proofs="valid")
    assert (proved.group, cast(party, proved, samples).party) == (2, 0)
    for group in (1, 11):
        with pytest.raises(WrongRoundError):
            cast(voting(ceremony, 0, [0] * 11), dataclasses.replace(proved, group=group), samples)
    unproved = dataclasses.replace(proved, proofs="knowledge", group=11)
    assert cast(voting(ceremony, 0, [0] * 11), unproved, samples).party == 0, "nothing is proved of its groups"
    room = dataclasses.replace(
        round_, plan=PackingPlan.for_key(round_.key, length=plan.length, addends=plan.addends + 3)
    )
    assert cast(voting(ceremony, 0, [0] * 11), room, samples).party == 0, "nor is it another for having more room"


def test_the_error_about_unknown_labels_does_not_quote_them(ceremony) -> None:
    party = Party(0, ceremony.signing_keys[0], classes=CLASSES)
    with pytest.raises(DataError) as caught:
        party.train(np.eye(2) * 0.5, ["cat", "secretly a fish"])
    assert "fish" not in str(caught.value)


def test_a_party_must_be_on_the_roster_with_its_key(ceremony, round_, samples) -> None:
    with pytest.raises(DataError):
        cast(Party(0, ceremony.signing_keys[0], classes=CLASSES), round_, samples)
    with pytest.raises(WrongRoundError):
        cast(Party(1, ceremony.signing_keys[0], classes=CLASSES, voter=Fixed([0] * 11)), round_, samples)
    with pytest.raises(UnknownPartyError):
        cast(Party(PARTIES, ceremony.signing_keys[0], classes=CLASSES, voter=Fixed([0] * 11)), round_, samples)
    with pytest.raises(InvalidParameter):
        Party(-1, ceremony.signing_keys[0], classes=CLASSES)
    with pytest.raises(InvalidParameter):
        Party(0, ceremony.signing_keys[0], classes=CLASSES, voter=object())  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter):
        give(voting(ceremony, 0, [0] * 11), round_, "votes", round_.context, [0] * 22)


def test_parameters_go_into_one_sum_only(ceremony) -> None:
    """The difference of two sums, one of them without some party, would be its classifier."""
    plan = PackingPlan.for_key(ceremony.threshold_key.key, length=3, addends=PARTIES, minimum=-4, maximum=4)
    party = Party(0, ceremony.signing_keys[0])
    rounds = [
        Round.create(
            "parameters", ceremony.threshold_key, plan, ceremony.roster, context=bytes([n] * 32), test_key=True
        )
        for n in range(2)
    ]
    give(party, rounds[0], "parameters", rounds[0].context, [1, -2, 3])
    with pytest.raises(AlreadyCastError):
        give(party, rounds[1], "parameters", rounds[1].context, [1, -2, 3])
