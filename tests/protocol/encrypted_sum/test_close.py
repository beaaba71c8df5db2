"""The close of a vote has one place on the board, and holders confirm a product before they open it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from psephos.audit import ScriptedRole
from psephos.curator.tally import Tally
from psephos.parties.holder import KeyHolder
from psephos.protocol.driver import Driver, MemoryMessageBoard
from psephos.protocol.encrypted_sum.messages import Ballot, Close, Confirmation, TallyRequest
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import (
    AlreadyOpenedError,
    InvalidParameter,
    LateBallotError,
    TooFewBallotsError,
    UnconfirmedError,
    UnexpectedMessageError,
)
from psephos.protocol.roles import BOARD, Entry, Post, Step


def confirming(sample: Any, confirmations: int) -> Round:
    round_: Round = replace(sample.round, confirmations=confirmations)
    return round_


def board_with(round_: Round, sample: Any, parties: range) -> MemoryMessageBoard:
    board = MemoryMessageBoard()
    for party in parties:
        board.post(f"party {party}", Post(BOARD, sample.ballot(party, round_=round_).encode()))
    return board


class HolderRunner:
    """Passes messages to a holder one at a time and raises the error of a rejected one."""

    def __init__(self, holder: KeyHolder) -> None:
        self.holder, self.state, self.number = holder, holder.start().state, 0

    def receive(self, sender: str, data: bytes, receiver: str = BOARD) -> Step:
        self.number += 1
        step = self.holder.receive(self.state, [Entry(self.number, sender, receiver, data)])
        self.state = step.state
        for refusal in step.refused:
            raise refusal.error
        return step


def closed_holder(sample: Any, round_: Round, ballots: list[Ballot], number: int = 1, **keywords: Any) -> HolderRunner:
    runner = HolderRunner(KeyHolder(sample.shares[number - 1], round_, **keywords))
    for ballot in ballots:
        runner.receive("somebody", ballot.encode())
    return runner


def request_of(round_: Round, sample: Any, ballots: list[Ballot]) -> bytes:
    product = replace(sample, round=round_).product(ballots)
    return TallyRequest(round_.digest, product.members, product.digest).encode(round_)


def test_a_late_ballot_is_rejected_and_does_not_change_the_sum(sample: Any) -> None:
    """The ballot is posted after the close and before the holders are asked, as on a board with other writers."""
    round_ = sample.round
    late = sample.ballot(4).encode()
    curator, holders = Tally(round_), sample.holders()
    board = board_with(round_, sample, range(4))
    states = {}
    for role in (curator, *holders):
        states[role.name] = role.receive(role.start().state, list(board.read(0))).state
    closing = curator.on_idle(states["curator"])
    (close,) = closing.posts
    states["curator"] = closing.state
    board.post("curator", close)
    board.post("party 4", Post(BOARD, late))
    driver = Driver([curator, *holders], board=board, strict=False)
    driver.states.update(states)
    opened = driver.run()["curator"]
    assert opened.parties == (0, 1, 2, 3)
    assert opened.sums == tuple(sample.sums(range(4)))
    assert {type(refusal.error) for _name, refusal in driver.refused if refusal.entry.data == late} == {LateBallotError}


def test_a_ballot_posted_before_the_close_arrives_on_the_board_counts(sample: Any) -> None:
    curator = Tally(sample.round)
    seen = [Entry(n, f"party {n}", BOARD, sample.ballot(n).encode()) for n in range(4)]
    closing = curator.on_idle(curator.receive(curator.start().state, seen).state)
    assert closing is not None
    (close,) = closing.posts
    overtaking = Entry(4, "party 4", BOARD, sample.ballot(4).encode())
    step = curator.receive(closing.state, [overtaking, Entry(5, "curator", BOARD, close.data)])
    assert step.state.state.members == 0b11111
    assert len(step.posts) == sample.round.threshold_key.threshold


def test_only_the_curator_can_close_the_vote(sample: Any) -> None:
    runner = closed_holder(sample, sample.round, [sample.ballot(p) for p in range(4)])
    with pytest.raises(UnexpectedMessageError):
        runner.receive("party 3", Close(sample.round.digest).encode())
    runner.receive("party 4", sample.ballot(4).encode())


def test_a_close_below_the_minimum_is_rejected_and_voting_continues(sample: Any) -> None:
    runner = closed_holder(sample, sample.round, [sample.ballot(p) for p in range(2)])
    with pytest.raises(TooFewBallotsError):
        runner.receive("curator", Close(sample.round.digest).encode())
    runner.receive("party 2", sample.ballot(2).encode())
    runner.receive("curator", Close(sample.round.digest).encode())
    with pytest.raises(LateBallotError):
        runner.receive("party 3", sample.ballot(3).encode())


@pytest.mark.parametrize("confirmations", [0, 2, 3])
def test_a_round_with_confirmations_opens_the_same_sum(make_sample: Any, confirmations: int) -> None:
    sample = make_sample(5, 3, 2)
    round_ = confirming(sample, confirmations)
    senders = [ScriptedRole(f"party {p}", sample.ballot(p, round_=round_).encode()) for p in range(5)]
    holders = [KeyHolder(share, round_) for share in sample.shares]
    opened = Driver([*senders, Tally(round_), *holders]).run()["curator"]
    assert opened.sums == tuple(sample.sums(range(5)))


def test_a_product_is_opened_only_after_enough_confirmations(make_sample: Any) -> None:
    sample = make_sample(5, 3, 2)
    round_ = confirming(sample, 3)
    ballots = [sample.ballot(p, round_=round_) for p in range(5)]
    request = request_of(round_, sample, ballots)
    runner = closed_holder(sample, round_, ballots)
    with pytest.raises(UnconfirmedError):
        runner.receive("curator", request, "holder 1")
    (own,) = runner.receive("curator", Close(round_.digest).encode()).posts
    runner.receive("holder 1", own.data)
    others = replace(sample, round=round_).product(ballots).digest
    runner.receive("holder 2", Confirmation(round_.digest, 2, others).encode())
    runner.receive("holder 3", Confirmation(round_.digest, 3, bytes(32)).encode())  # the product on another board
    with pytest.raises(UnconfirmedError):
        runner.receive("curator", request, "holder 1")


def test_two_boards_and_deviating_holders_open_at_most_one_product(make_sample: Any) -> None:
    """The board shows holder 1 five ballots and holder 2 four of them; holders 4 and 5 of 5 deviate, t = 3."""
    sample = make_sample(5, 5, 3)
    for confirmations, answers in ((0, 2), (5, 0), (4, 0)):
        round_ = confirming(sample, confirmations)
        ballots = [sample.ballot(p, round_=round_) for p in range(5)]
        answered = 0
        for honest, visible in ((1, ballots), (2, ballots[:4])):
            runner = closed_holder(sample, round_, visible, honest)
            own = runner.receive("curator", Close(round_.digest).encode()).posts
            digest = replace(sample, round=round_).product(visible).digest
            if confirmations:
                runner.receive(f"holder {honest}", own[0].data)
                for liar in (4, 5):
                    runner.receive(f"holder {liar}", Confirmation(round_.digest, liar, digest).encode())
            try:
                step = runner.receive("curator", request_of(round_, sample, visible), f"holder {honest}")
                answered += len(step.posts)
            except UnconfirmedError:
                continue
        assert answered == answers


def test_a_holder_confirms_one_product_even_after_a_restart(make_sample: Any) -> None:
    from psephos.protocol.storage.store import OnceLedger

    sample = make_sample(5, 3, 2)
    round_ = confirming(sample, 2)
    ballots = [sample.ballot(p, round_=round_) for p in range(5)]
    ledger = OnceLedger()
    close = Close(round_.digest).encode()
    first = closed_holder(sample, round_, ballots, openings=ledger).receive("curator", close)
    again = closed_holder(sample, round_, ballots, openings=ledger).receive("curator", close)
    assert first.posts == again.posts
    with pytest.raises(AlreadyOpenedError):
        closed_holder(sample, round_, ballots[:4], openings=ledger).receive("curator", close)


@pytest.mark.parametrize("wrong", [1, 4])
def test_the_number_of_confirmations_is_between_threshold_and_holders(make_sample: Any, wrong: int) -> None:
    with pytest.raises(InvalidParameter):
        confirming(make_sample(5, 3, 2), wrong)
