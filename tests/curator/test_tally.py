"""Tests of the curator's tally: it opens to the sum or raises; one lying holder cannot change it or blame others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.audit import ScriptedRole
from psephos.curator.tally import Tally
from psephos.parties.holder import KeyHolder
from psephos.protocol.driver import Driver
from psephos.protocol.encrypted_sum.messages import Ballot, Close, Confirmation, PartialDecryption, TallyRequest
from psephos.protocol.encrypted_sum.opened import OpenedSum, open_product
from psephos.protocol.errors import (
    BoardError,
    CiphertextError,
    DuplicateBallotError,
    ForgedSignatureError,
    LateBallotError,
    MessageError,
    PsephosError,
    ThresholdError,
    TooFewBallotsError,
    UnconfirmedError,
    UnexpectedMessageError,
    WrongPartialDecryptionError,
    WrongRoundError,
)
from psephos.protocol.paillier.sharing import lagrange_numerators
from psephos.protocol.roles import BOARD, Entry, Post, Step
from psephos.protocol.transcript import Transcript


class Closed:
    """A closed tally over five parties, and every holder's partial decryption."""

    def __init__(self, make_sample: Any, holders: int, threshold: int) -> None:
        self.sample = make_sample(5, holders, threshold, length=40)
        self.ballots = [self.sample.ballot(party) for party in range(5)]
        self.product = self.sample.product(self.ballots)
        values = self.product.vector().ciphertexts
        self.parts = [
            PartialDecryption(
                self.sample.round.digest, share.holder, self.product.digest, share.partially_decrypt(values)
            )
            for share in self.sample.shares
        ]
        self.sums = tuple(self.sample.sums(range(5)))

    def count(self, parts: Sequence[PartialDecryption]) -> OpenedSum:
        """Return what the curator opens when holders answer with these parts."""
        holders = [ScriptedRole(f"holder {p.holder}", p.encode(self.sample.round), to="curator") for p in parts]
        opened: OpenedSum = self.sample.count(self.ballots, holders)
        return opened

    def random_wrong(self, holder: int) -> PartialDecryption:
        """A part that is wrong by accident: another value altogether, another one for each holder."""
        part = self.parts[holder - 1]
        factor = (2, 3, 5, 7, 11)[holder - 1]
        return replace(part, values=tuple(v * factor % self.sample.key.ciphertext_modulus for v in part.values))

    def shaped_wrong(self, holder: int, others: tuple[int, ...], shift: int = 1) -> PartialDecryption:
        """A part that is wrong on purpose: together with these others it opens to a sum with one entry `shift` more."""
        part, key = self.parts[holder - 1], self.sample.key
        threshold_key = self.sample.round.threshold_key
        weight = lagrange_numerators([holder, *others], threshold_key.holders)[holder]
        k = shift * 2 * threshold_key.delta**3 * pow(weight, -1, key.n) % key.n
        value = part.values[0] * (1 + k * key.modulus) % key.ciphertext_modulus
        return replace(part, values=(value, *part.values[1:]))


@pytest.fixture(scope="module")
def three_of_five(make_sample: Any) -> Closed:
    return Closed(make_sample, 5, 3)


# -- counting


@settings(max_examples=20)
@given(st.data())
def test_the_opened_sum_is_that_of_the_vectors(make_sample: Any, data: st.DataObject) -> None:
    minimum, maximum = data.draw(st.sampled_from([(0, 1), (-1, 1), (-(2**40), 2**35), (0, 2**60)]))
    parties, length = data.draw(st.integers(2, 6)), data.draw(st.integers(1, 30))
    sample = make_sample(parties, 2, 2, length=length, span=(minimum, maximum), minimum_ballots=2)
    entry = st.one_of(st.sampled_from([minimum, maximum]), st.integers(minimum, maximum))
    row = st.lists(entry, min_size=length, max_size=length)
    values = data.draw(st.lists(row, min_size=parties, max_size=parties))
    absent = data.draw(st.integers(0, parties - 2))
    opened = sample.count([sample.ballot(p, v) for p, v in enumerate(values)][absent:])
    assert opened.sums == tuple(sum(column) for column in zip(*values[absent:], strict=True))
    assert opened.parties == tuple(range(absent, parties))


def test_too_few_ballots(sample: Any) -> None:
    ballots = [sample.ballot(party) for party in range(3)]
    for count in range(3):
        with pytest.raises(TooFewBallotsError, match=f"{count} ballots"):
            sample.count(ballots[:count])
    assert sample.count(ballots).parties == (0, 1, 2)


def test_a_closed_tally_counts_nothing_more(sample: Any) -> None:
    tally = Tally(sample.round, seen=sample.product([sample.ballot(party) for party in range(3)]))
    closing = tally.on_idle(tally.start().state)
    assert closing is not None
    (close,) = closing.posts
    closed = tally.receive(closing.state, [Entry(1, "curator", "board", close.data)])
    late = tally.receive(closed.state, [Entry(2, "party 4", "board", sample.ballot(4).encode())])
    assert isinstance(late.refused[0].error, LateBallotError)
    assert late.state == closed.state


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (lambda sample, first: first, DuplicateBallotError),
        (lambda sample, first: sample.ballot(0), DuplicateBallotError),
        (lambda sample, first: replace(sample.ballot(1), signature=bytes(64)), ForgedSignatureError),
        (lambda sample, first: first.encode()[:-1], MessageError),
    ],
)
def test_a_bad_ballot_is_refused_and_leaves_no_trace(sample: Any, bad: Any, error: type[PsephosError]) -> None:
    ballots = [sample.ballot(party) for party in range(3)]
    posted = [ballots[0], bad(sample, ballots[0]), *ballots[1:]]
    with pytest.raises(error):
        sample.count(posted)
    assert sample.count(posted, strict=False).sums == tuple(sample.sums(range(3)))


def test_a_tree_of_partial_products_opens_like_a_flat_one(sample: Any) -> None:
    ballots: list[Ballot] = [sample.ballot(party) for party in range(5)]
    leaves = [sample.product(ballots[n::3]) for n in range(3)]
    tree = leaves[0].merge(leaves[1].merge(leaves[2]))
    driver = Driver([Tally(sample.round, seen=tree), *(KeyHolder(s, sample.round, seen=tree) for s in sample.shares)])
    assert driver.run()["curator"].sums == tuple(sample.sums(range(5)))
    with pytest.raises(WrongRoundError):
        Tally(replace(sample.round, nonce=bytes(16)), seen=tree)


# -- asking the holders


def test_t_holders_are_asked_and_the_others_when_one_is_missing(three_of_five: Closed) -> None:
    sample = three_of_five.sample
    for absent in [(), (4, 5), (1,), (1, 2), (3, 5)]:
        holders = [holder for holder in sample.holders() if holder.number not in absent]
        senders = [ScriptedRole(f"party {p}", ballot.encode()) for p, ballot in enumerate(three_of_five.ballots)]
        transcript = Transcript()
        driver = Driver([*senders, Tally(sample.round), *holders], transcript=transcript)
        assert driver.run()["curator"].sums == three_of_five.sums
        requests = [message.receiver for message in transcript.messages if message.kind == "tally request"]
        upto = 3 if all(j in (4, 5) for j in absent) else 5
        assert requests == [f"holder {j}" for j in range(1, upto + 1)]


def test_fewer_than_t_holders_open_nothing(three_of_five: Closed) -> None:
    for chosen in combinations(range(5), 2):
        holders = three_of_five.sample.holders()
        with pytest.raises(ThresholdError):
            three_of_five.sample.count(three_of_five.ballots, [holders[j] for j in chosen])


def test_other_holders_replace_one_that_refuses(three_of_five: Closed) -> None:
    """Holder 2 has seen another ballot of party 4; a strict run ends, any other run is opened by other holders."""
    sample = three_of_five.sample
    other = sample.product([*three_of_five.ballots[:4], sample.ballot(4)])
    holders = sample.holders()
    holders[1] = KeyHolder(sample.shares[1], sample.round, seen=other)
    assert sample.count(three_of_five.ballots, holders, strict=False).sums == three_of_five.sums


@pytest.mark.parametrize("wrong", [1, 2, 3])
def test_a_wrong_part_among_t_has_the_others_asked(three_of_five: Closed, wrong: int) -> None:
    parts = list(three_of_five.parts)
    parts[wrong - 1] = three_of_five.random_wrong(wrong)
    opened = three_of_five.count(parts)
    assert (opened.sums, opened.wrong_holders) == (three_of_five.sums, (wrong,))
    with pytest.raises(WrongPartialDecryptionError):
        three_of_five.count(parts[:3])


def test_partial_decryptions_of_another_round_or_holder_are_refused(three_of_five: Closed) -> None:
    good, size = three_of_five.parts, len(three_of_five.parts[0].values)
    n = three_of_five.sample.key.n
    for bad, error in (
        (replace(good[0], round_digest=bytes(32)), WrongRoundError),
        (replace(good[0], product_digest=bytes(32)), WrongRoundError),
        (replace(good[0], holder=0), ThresholdError),
        (replace(good[0], holder=6), ThresholdError),
        (replace(good[0], values=()), MessageError),
        (replace(good[0], values=(mpz(0),) * size), CiphertextError),
        (replace(good[0], values=(mpz(n),) * size), CiphertextError),
    ):
        with pytest.raises(error):
            three_of_five.count([bad, *good[1:]])
    round_ = three_of_five.sample.round
    impostor = ScriptedRole("holder 1", good[1].encode(round_), to="curator")
    with pytest.raises(ThresholdError, match="in the name of holder 2"):
        three_of_five.sample.count(three_of_five.ballots, [impostor])
    twice = ScriptedRole("holder 1", *[good[0].encode(round_)] * 2, to="curator")
    with pytest.raises(UnexpectedMessageError, match="twice"):
        three_of_five.sample.count(three_of_five.ballots, [twice])


# -- opening


@pytest.mark.parametrize("wrong", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("size", [4, 5])
def test_a_wrong_part_among_more_is_named(three_of_five: Closed, wrong: int, size: int) -> None:
    chosen = sorted({wrong, *[j for j in (1, 2, 3, 4, 5) if j != wrong][: size - 1]})
    parts = [three_of_five.random_wrong(j) if j == wrong else three_of_five.parts[j - 1] for j in chosen]
    opened = open_product(three_of_five.product, parts)
    assert opened.sums == three_of_five.sums
    assert opened.wrong_holders == (wrong,)


class Patient(tuple[Any, ...]):
    """Values that raise after a few thousand reads."""

    reads = 0

    def __getitem__(self, place: Any) -> Any:
        type(self).reads += 1
        assert self.reads < 5000, "the search does not end"
        return super().__getitem__(place)


@pytest.mark.parametrize("wrong", [(1,), (1, 2, 3)])
def test_wrong_parts_cannot_make_the_search_for_a_consistent_set_endless(
    make_sample: Any, wrong: tuple[int, ...]
) -> None:
    """12 of 24 holders: 1.35 million sets of 12 contain holder 1, and all of them stand before the first without it."""
    sample = make_sample(24, 24, 12, length=3)
    product = sample.product([sample.ballot(party) for party in range(24)])
    values = product.vector().ciphertexts
    parts = [
        PartialDecryption(sample.round.digest, share.holder, product.digest, share.partially_decrypt(values))
        for share in sample.shares
    ]
    for j in wrong:
        spoiled = tuple(v * (j + 1) % sample.key.ciphertext_modulus for v in parts[j - 1].values)
        parts[j - 1] = replace(parts[j - 1], values=spoiled)
    Patient.reads = 0
    parts[0] = replace(parts[0], values=Patient(parts[0].values))
    opened = open_product(product, parts)
    assert (opened.sums, opened.wrong_holders) == (tuple(sample.sums(range(24))), wrong)
    assert Patient.reads, "they were never looked at"

    hopeless = [replace(p, values=tuple(v * 2 % sample.key.ciphertext_modulus for v in p.values)) for p in parts[:13]]
    with pytest.raises(WrongPartialDecryptionError):
        open_product(product, [*hopeless, *parts[13:]])


def test_too_many_wrong_parts_are_detected(three_of_five: Closed) -> None:
    parts = [three_of_five.random_wrong(j) for j in (1, 2, 3)] + three_of_five.parts[3:]
    with pytest.raises(WrongPartialDecryptionError):
        open_product(three_of_five.product, parts)
    with pytest.raises(WrongPartialDecryptionError):
        three_of_five.count(parts)


@pytest.mark.parametrize("others", list(combinations((2, 3, 4, 5), 2)))
def test_a_part_shaped_to_change_the_sum_is_named_by_five(three_of_five: Closed, others: tuple[int, ...]) -> None:
    """It opens with two honest parts to another valid sum; five parts tell which is right and blame nobody else."""
    shaped = three_of_five.shaped_wrong(1, others)
    changed = open_product(three_of_five.product, [shaped, *(three_of_five.parts[j - 1] for j in others)])
    assert changed.sums == (three_of_five.sums[0] + 1, *three_of_five.sums[1:])  # t parts alone cannot tell
    opened = open_product(three_of_five.product, [shaped, *three_of_five.parts[1:]])
    assert (opened.sums, opened.wrong_holders) == (three_of_five.sums, (1,))


def test_parts_that_open_different_sums_open_nothing_when_one_more_is_refused(three_of_five: Closed) -> None:
    """Holder 1's part fits those of 2 and 3, and 5 is away: the curator does not fall back on fewer parts."""
    shaped = three_of_five.shaped_wrong(1, (2, 4))
    with pytest.raises(WrongPartialDecryptionError, match="different sums"):
        three_of_five.count([shaped, *three_of_five.parts[1:4]])


def test_the_opened_sum_hides_its_numbers(three_of_five: Closed) -> None:
    assert str(three_of_five.sums[0]) + "," not in repr(open_product(three_of_five.product, three_of_five.parts))


# -- step by step: every post and every state, field by field


class Curator:
    """A tally that gets its messages one by one from the test, with the product of ballots of its round."""

    def __init__(self, sample: Any, parties: int, confirmations: int = 0) -> None:
        self.round = replace(sample.round, confirmations=confirmations)
        self.tally, self.sample = Tally(self.round), replace(sample, round=self.round)
        self.state, self.number = self.tally.start().state, 0
        ballots = [self.sample.ballot(party, round_=self.round) for party in range(parties)]
        self.product = self.sample.product(ballots)
        for party, ballot in enumerate(ballots):
            self.hears(f"party {party}", ballot.encode(), BOARD)

    def hears(self, sender: str, data: bytes, receiver: str = "curator") -> Step:
        self.number += 1
        step = self.tally.receive(self.state, [Entry(self.number, sender, receiver, data)])
        for refusal in step.refused:
            raise refusal.error
        self.state = step.state
        return step

    def on_idle(self) -> Step:
        step = self.tally.on_idle(self.state)
        assert step is not None
        self.state = step.state
        return step

    def closes(self) -> Step:
        (close,) = self.on_idle().posts
        assert close == Post(BOARD, Close(self.round.digest).encode(), "votes: open")
        return self.hears("curator", close.data, BOARD)

    def requests(self, *holders: int) -> tuple[Post, ...]:
        data = TallyRequest(self.round.digest, self.product.members, self.product.digest).encode(self.round)
        return tuple(Post(f"holder {holder}", data, "votes: open", secret=False) for holder in holders)


def test_a_vote_is_closed_at_the_minimum_and_once(sample: Any) -> None:
    """The round has a minimum of three ballots and five parties."""
    few = Curator(sample, 2)
    with pytest.raises(TooFewBallotsError):
        few.on_idle()
    for parties, full in ((4, False), (5, True)):
        curator = Curator(sample, parties)
        assert curator.tally.is_ready(curator.state) is full
        curator.on_idle()
        assert not curator.tally.is_ready(curator.state), "the end of the vote is on its way"
        with pytest.raises(BoardError, match="not on the board"):
            curator.on_idle()


def test_the_curator_waits_for_confirmations_of_its_own_product(make_sample: Any) -> None:
    """Two of four holders must confirm, and the first that did is asked to open."""
    curator = Curator(make_sample(5, 4, 1), 5, confirmations=2)
    assert curator.closes().posts == ()
    for holder, digest in ((2, bytes(32)), (3, curator.product.digest)):
        with pytest.raises(UnconfirmedError):
            curator.tally.on_idle(curator.state)
        assert (
            curator.hears(f"holder {holder}", Confirmation(curator.round.digest, holder, digest).encode()).posts == ()
        )
    with pytest.raises(UnconfirmedError, match=r"confirmed by holder 2, and nothing by holder 1, holder 4$"):
        curator.tally.on_idle(curator.state)
    fourth = Confirmation(curator.round.digest, 4, curator.product.digest).encode()
    assert curator.hears("holder 4", fourth, BOARD).posts == curator.requests(3)
