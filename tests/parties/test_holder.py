"""Tests of the key holder: it opens the product of the ballots it has observed, once, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gmpy2 import mpz

from psephos.audit import ScriptedRole
from psephos.curator.tally import Tally
from psephos.parties.holder import KeyHolder
from psephos.protocol.driver import Driver
from psephos.protocol.encrypted_sum.messages import Ballot, TallyRequest
from psephos.protocol.errors import (
    AlreadyOpenedError,
    PsephosError,
    TooFewBallotsError,
    UnexpectedMessageError,
    UnseenBallotError,
    WrongKeyError,
)
from psephos.protocol.paillier.threshold import KeyShare, deal
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.roles import Entry, Step
from psephos.protocol.storage.store import OnceLedger, Store


@pytest.fixture(scope="module")
def ballots(sample: Any) -> list[Ballot]:
    return [sample.ballot(party) for party in range(5)]


def request_for(sample: Any, ballots: list[Ballot]) -> TallyRequest:
    """Return the request that a curator, honest or not, sends for these ballots."""
    product = sample.product(ballots)
    return TallyRequest(sample.round.digest, product.members, product.digest)


class HolderRunner:
    """A holder that gets its messages one by one from the test."""

    def __init__(self, holder: KeyHolder) -> None:
        self.holder, self.state, self._number = holder, holder.start().state, 0

    def _say(self, sender: str, receiver: str, *messages: bytes) -> Step:
        entries = [Entry(n, sender, receiver, data) for n, data in enumerate(messages, start=self._number + 1)]
        self._number += len(messages)
        step = self.holder.receive(self.state, entries)
        self.state = step.state
        return step

    def observe(self, *ballots: Ballot) -> list[PsephosError]:
        step = self._say("somebody", "board", *(ballot.encode() for ballot in ballots))
        return [refusal.error for refusal in step.refused]

    def ask(self, request: TallyRequest, sender: str = "curator") -> bytes:
        step = self._say(sender, self.holder.name, request.encode(self.holder.round))
        for refusal in step.refused:
            raise refusal.error
        (post,) = step.posts
        assert post.receiver == "curator"
        return post.data


class Unspent(HolderRunner):
    """A holder whose share must not be used and whose ledger must stay empty."""

    def __init__(self, sample: Any) -> None:
        self.store = Store()
        super().__init__(KeyHolder(sample.shares[0], sample.round, openings=OnceLedger(self.store)))

    def refuses(self, error: type[PsephosError], request: TallyRequest, match: str | None = None) -> None:
        before = self.state
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(KeyShare, "partially_decrypt", lambda *_: pytest.fail("the share was used"))
            with pytest.raises(error):
                self.ask(request)
        assert self.state == before
        assert not list(self.store.items("once "))  # a refused request does not spend the round


@pytest.fixture
def unspent(sample: Any) -> Unspent:
    return Unspent(sample)


def test_a_holder_answers_the_curator_only(sample: Any, ballots: list[Ballot], unspent: Unspent) -> None:
    """Answers are sealed to the sender of the request, so a party that asks t holders would learn the exact counts."""
    unspent.observe(*ballots)
    request = request_for(sample, ballots)
    for _ in range(2):
        for stranger in ("party 4", "holder 2"):
            with pytest.raises(UnexpectedMessageError):
                unspent.ask(request, stranger)
        assert unspent.ask(request)


def test_a_request_with_an_unseen_ballot_is_refused(sample: Any, ballots: list[Ballot], unspent: Unspent) -> None:
    unspent.observe(*ballots[:3])
    unspent.refuses(UnseenBallotError, request_for(sample, ballots), "not observed the ballot of party 3")
    unspent.observe(ballots[3])
    unspent.refuses(UnseenBallotError, request_for(sample, ballots), "not observed the ballot of party 4")
    unspent.observe(ballots[4])
    assert unspent.ask(request_for(sample, ballots))


def test_a_request_without_an_observed_ballot_is_refused(sample: Any, ballots: list[Ballot], unspent: Unspent) -> None:
    """The difference of two openings would be one party's vector."""
    unspent.observe(*ballots)
    unspent.refuses(UnseenBallotError, request_for(sample, ballots[:4]), "leaves out the ballot of party 4")
    unspent.refuses(UnseenBallotError, request_for(sample, ballots[2:]), "leaves out the ballot of party 0")


def test_another_product_of_the_same_parties_is_refused(sample: Any, ballots: list[Ballot], unspent: Unspent) -> None:
    unspent.observe(*ballots)
    honest = request_for(sample, ballots)
    unspent.refuses(UnseenBallotError, replace(honest, product_digest=bytes(32)), "different ballots")


def test_too_few_ballots(sample: Any, ballots: list[Ballot], unspent: Unspent) -> None:
    assert sample.round.minimum_ballots == 3
    unspent.refuses(TooFewBallotsError, request_for(sample, ballots), "0 ballots")
    for count in range(3):
        unspent.refuses(TooFewBallotsError, request_for(sample, ballots[:count]), f"{count} ballots")
        unspent.observe(ballots[count])
    assert unspent.ask(request_for(sample, ballots[:3]))


def test_a_holder_repeats_its_answer_and_opens_no_other_product(sample: Any, ballots: list[Ballot]) -> None:
    runner = HolderRunner(sample.holders()[0])
    runner.observe(*ballots)
    first = runner.ask(request_for(sample, ballots))
    assert runner.ask(request_for(sample, ballots)) == first
    with pytest.raises(AlreadyOpenedError):
        runner.ask(request_for(sample, ballots[:4]))
    assert len(runner.observe(sample.ballot(4))) == 1  # what comes late is not taken


def test_another_product_is_refused_after_a_restart(sample: Any, ballots: list[Ballot], tmp_path: Path) -> None:
    """After a restart the holder repeats its answer, and refuses a product with one more ballot."""

    def restarted(cast: list[Ballot]) -> bytes:
        with Store(tmp_path / "private" / "openings") as store:
            runner = HolderRunner(KeyHolder(sample.shares[0], sample.round, openings=OnceLedger(store)))
            runner.observe(*cast)
            return runner.ask(request_for(sample, cast))

    assert restarted(ballots[:4]) == restarted(ballots[:4])
    with pytest.raises(AlreadyOpenedError):
        restarted(ballots)


def test_a_share_of_another_key_or_setup_is_refused(sample: Any, private_key: Any, other_private_key: Any) -> None:
    for key in (private_key, other_private_key):
        _, shares = deal(key, holders=3, threshold=2)
        with pytest.raises(WrongKeyError):
            KeyHolder(shares[0], sample.round)


def test_curator_and_holder_agree_for_every_batching(sample: Any, ballots: list[Ballot]) -> None:
    """A party sends an invalid ballot and then a valid one; the curator reads batches, the holders single entries."""
    zero = EncryptedVector(sample.key, sample.round.plan, (mpz(sample.key.n),) * sample.round.plan.ciphertexts)
    board = [*ballots[:4], Ballot.sign(sample.round, 4, zero, sample.signing_keys[4]), ballots[4]]
    holders = [HolderRunner(holder) for holder in sample.holders()[:2]]
    for holder in holders:
        refused = [error for ballot in board for error in holder.observe(ballot)]
        assert len(refused) == 1
    driver = Driver(
        [ScriptedRole("everybody", *(b.encode() for b in board)), Tally(sample.round), *(h.holder for h in holders)],
        strict=False,
    )
    driver.states.update({h.holder.name: h.state for h in holders})
    # The holders are shown the board a second time: they refuse all of it, and answer by what they saw.
    assert driver.run()["curator"].sums == tuple(sample.sums(range(5)))


def test_more_than_half_of_the_holders_open_one_product_only(make_sample: Any) -> None:
    """With t > n / 2 any two sets of t holders have a member in common, and it opens once."""
    sample = make_sample(5, 3, 2)
    cast = [sample.ballot(p) for p in range(5)]
    holders = [HolderRunner(holder) for holder in sample.holders()]
    for holder in holders:
        holder.observe(*cast[:4])
    for holder in holders[:2]:
        holder.ask(request_for(sample, cast[:4]))
    opened = 0
    for holder in holders:
        holder.observe(cast[4])
        try:
            opened += bool(holder.ask(request_for(sample, cast)))
        except AlreadyOpenedError:
            continue
    assert opened < sample.round.threshold_key.threshold
