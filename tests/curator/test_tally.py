"""The curator's tally: it opens to the sum, or says why not; one dishonest holder neither changes it nor blames."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.curator.tally import Tally
from psephos.protocol.encrypted_sum.messages import Ballot, PartialDecryption
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.errors import (
    CiphertextError,
    DuplicateBallotError,
    ForgedSignatureError,
    MessageError,
    ThresholdError,
    TooFewBallotsError,
    WrongKeyError,
    WrongPartialDecryptionError,
    WrongRoundError,
)
from psephos.protocol.paillier.threshold import combine


class Closed:
    """A closed tally over five parties, and every holder's partial decryption."""

    def __init__(self, make_election: Any, holders: int, threshold: int) -> None:
        self.election = make_election(5, holders, threshold, length=40)
        ballots = [self.election.ballot(party) for party in range(5)]
        self.tally = Tally(self.election.round)
        self.tally.add_all(ballots)
        self.request = self.tally.close()
        self.parts = [holder.partially_decrypt(self.request) for holder in self.election.holders(ballots)]
        self.sums = self.election.sums(range(5))

    def random_wrong(self, holder: int) -> PartialDecryption:
        """A part that is wrong by accident: another value altogether, another one for each holder."""
        part = self.parts[holder - 1]
        factor = (2, 3, 5, 7, 11)[holder - 1]
        return replace(part, values=tuple(v * factor % self.election.key.modulus_squared for v in part.values))

    def shaped_wrong(self, holder: int, others: tuple[int, ...], shift: int = 1) -> PartialDecryption:
        """A part that is wrong on purpose: together with these others it opens to a sum with one entry `shift` more."""
        from psephos.protocol.paillier.sharing import lagrange_numerators

        part, key = self.parts[holder - 1], self.election.key
        threshold_key = self.election.round.threshold_key
        weight = lagrange_numerators([holder, *others], threshold_key.holders)[holder]
        k = shift * 2 * threshold_key.delta**3 * pow(weight, -1, key.n) % key.n
        value = part.values[0] * (1 + k * key.modulus) % key.modulus_squared
        return replace(part, values=(value, *part.values[1:]))


@pytest.fixture(scope="module")
def three_of_five(make_election: Any) -> Closed:
    return Closed(make_election, 5, 3)


@pytest.mark.parametrize(("holders", "threshold"), [(1, 1), (2, 1), (2, 2), (3, 2), (5, 3), (5, 5)])
def test_any_t_or_more_holders_open_the_same(make_election: Any, holders: int, threshold: int) -> None:
    closed = Closed(make_election, holders, threshold)
    for size in range(threshold, holders + 1):
        for parts in combinations(closed.parts, size):
            opened = closed.tally.open(parts)
            assert opened.sums == closed.sums
            assert (opened.parties, opened.ballots, opened.wrong_holders) == ((0, 1, 2, 3, 4), 5, ())
    for parts in combinations(closed.parts, threshold - 1):
        with pytest.raises(ThresholdError, match=f"{threshold} partial decryptions open"):
            closed.tally.open(parts)


@settings(max_examples=20)
@given(st.data())
def test_any_vectors_sum(make_election: Any, data: st.DataObject) -> None:
    minimum, maximum = data.draw(st.sampled_from([(0, 1), (-1, 1), (-(2**40), 2**35), (0, 2**60)]))
    parties, length = data.draw(st.integers(2, 6)), data.draw(st.integers(1, 30))
    election = make_election(parties, 2, 2, length=length, minimum=minimum, maximum=maximum, minimum_ballots=2)
    entry = st.one_of(st.sampled_from([minimum, maximum]), st.integers(minimum, maximum))
    row = st.lists(entry, min_size=length, max_size=length)
    values = data.draw(st.lists(row, min_size=parties, max_size=parties))
    absent = data.draw(st.integers(0, parties - 2))
    ballots = [election.ballot(p, v).encode() for p, v in enumerate(values)][absent:]
    tally = Tally(election.round)
    assert tally.add_all(ballots) == []
    request = tally.close()
    opened = tally.open([holder.partially_decrypt(request) for holder in election.holders(ballots)])
    assert opened.sums == [sum(column) for column in zip(*values[absent:], strict=True)]
    assert opened.parties == tuple(range(absent, parties))


def test_too_few_ballots(election: Any) -> None:
    tally = Tally(election.round)
    for party in range(3):
        with pytest.raises(TooFewBallotsError, match=f"{party} ballots"):
            tally.close()
        tally.add(election.ballot(party))  # refusing to close leaves the tally open
    assert tally.close().parties == (0, 1, 2)


def test_a_closed_tally_counts_nothing_more(three_of_five: Closed) -> None:
    tally, election = three_of_five.tally, three_of_five.election
    late = BallotProduct(election.round)
    for attempt in (
        lambda: tally.add(election.ballot(0)),
        lambda: tally.add_all([election.ballot(0)]),
        lambda: tally.merge(late),
    ):
        with pytest.raises(WrongRoundError, match="closed"):
            attempt()
    assert tally.close() == three_of_five.request


def test_an_open_tally_is_not_opened(election: Any, three_of_five: Closed) -> None:
    with pytest.raises(WrongRoundError, match="close the tally"):
        Tally(election.round).open(three_of_five.parts)


def test_one_bad_ballot_is_refused_and_leaves_no_trace(election: Any) -> None:
    tally = Tally(election.round)
    tally.add(election.ballot(0))
    for bad, error in (
        (election.ballot(0), DuplicateBallotError),
        (replace(election.ballot(1), signature=bytes(64)), ForgedSignatureError),
        (b"", MessageError),
    ):
        with pytest.raises(error):
            tally.add(bad)
    assert len(tally) == 1
    rejections = tally.add_all([b"", election.ballot(1), election.ballot(2).encode()])
    assert [type(r.error) for r in rejections] == [MessageError]
    assert tally.close().parties == (0, 1, 2)


def test_a_tree_of_partial_tallies_opens_like_a_flat_one(election: Any) -> None:
    ballots: list[Ballot] = [election.ballot(party) for party in range(5)]
    flat, tree = Tally(election.round), Tally(election.round)
    flat.add_all(ballots)
    leaves = [BallotProduct(election.round) for _ in range(3)]
    for place, ballot in enumerate(ballots):
        leaves[place % 3].add(ballot)
    leaves[1].merge(leaves[2])
    tree.merge(leaves[1])
    tree.merge(leaves[0])
    with pytest.raises(DuplicateBallotError):
        tree.merge(leaves[0])
    assert tree.close() == flat.close()


# -- partial decryptions


def test_the_same_holder_twice(three_of_five: Closed) -> None:
    a, b, *_ = three_of_five.parts
    with pytest.raises(ThresholdError, match="holder 1 appears twice"):
        three_of_five.tally.open([a, b, a])
    with pytest.raises(ThresholdError, match="twice"):
        three_of_five.tally.open([*three_of_five.parts, three_of_five.random_wrong(1)])


def test_parts_that_belong_elsewhere(three_of_five: Closed, make_election: Any) -> None:
    good = three_of_five.parts
    n = three_of_five.election.key.n
    for bad, error in (
        (replace(good[0], round_digest=bytes(32)), WrongRoundError),
        (replace(good[0], product_digest=bytes(32)), WrongRoundError),
        (replace(good[0], threshold_digest=bytes(32)), WrongKeyError),
        (replace(good[0], holder=0), ThresholdError),
        (replace(good[0], holder=6), ThresholdError),
        (replace(good[0], values=()), MessageError),
        (replace(good[0], values=(mpz(0),) * len(good[0].values)), CiphertextError),
        (replace(good[0], values=(mpz(n),) * len(good[0].values)), CiphertextError),
    ):
        with pytest.raises(error):
            three_of_five.tally.open([bad, *good[1:]])
    assert three_of_five.tally.open(good).sums == three_of_five.sums  # and nothing was lost


@pytest.mark.parametrize("wrong", [1, 2, 3])
def test_a_wrong_part_among_t_is_detected(three_of_five: Closed, wrong: int) -> None:
    parts = list(three_of_five.parts[:3])
    parts[wrong - 1] = three_of_five.random_wrong(wrong)
    with pytest.raises(WrongPartialDecryptionError):
        three_of_five.tally.open(parts)


@pytest.mark.parametrize("wrong", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("size", [4, 5])
def test_a_wrong_part_among_more_is_named(three_of_five: Closed, wrong: int, size: int) -> None:
    chosen = sorted({wrong, *[j for j in (1, 2, 3, 4, 5) if j != wrong][: size - 1]})
    parts = [three_of_five.random_wrong(j) if j == wrong else three_of_five.parts[j - 1] for j in chosen]
    opened = three_of_five.tally.open(parts)
    assert opened.sums == three_of_five.sums
    assert opened.wrong_holders == (wrong,)


def test_two_wrong_by_accident_among_five_are_named(three_of_five: Closed) -> None:
    for wrong in combinations(range(1, 6), 2):
        parts = [three_of_five.random_wrong(p.holder) if p.holder in wrong else p for p in three_of_five.parts]
        opened = three_of_five.tally.open(parts)
        assert (opened.sums, opened.wrong_holders) == (three_of_five.sums, wrong)


@pytest.mark.parametrize("wrong", [(1,), (1, 2, 3)])
def test_wrong_parts_cannot_make_the_search_endless(
    make_election: Any, monkeypatch: pytest.MonkeyPatch, wrong: tuple[int, ...]
) -> None:
    """12 of 24 holders: 1.35 million sets of 12 contain holder 1, and all of them stand before the first without it."""
    election = make_election(24, 24, 12, length=3)
    ballots = [election.ballot(party) for party in range(24)]
    tally = Tally(election.round)
    tally.add_all(ballots)
    request = tally.close()
    parts = [
        PartialDecryption(
            election.round.digest,
            election.round.threshold_key.digest,
            share.holder,
            request.product_digest,
            share.partially_decrypt(tally._product.vector().ciphertexts),
        )
        for share in election.shares
    ]
    for j in wrong:
        values = tuple(v * (j + 1) % election.key.modulus_squared for v in parts[j - 1].values)
        parts[j - 1] = replace(parts[j - 1], values=values)
    tried = []

    def counted(*arguments: Any) -> Any:
        tried.append(arguments)
        assert len(tried) < 2000, "the search does not end"
        return combine(*arguments)

    monkeypatch.setattr("psephos.curator.tally.combine", counted)
    opened = tally.open(parts)
    assert (opened.sums, opened.wrong_holders) == (election.sums(range(24)), wrong)

    hopeless = [replace(p, values=tuple(v * 2 % election.key.modulus_squared for v in p.values)) for p in parts[:13]]
    monkeypatch.setattr("psephos.curator.tally.combine", combine)
    with pytest.raises(WrongPartialDecryptionError):
        tally.open([*hopeless, *parts[13:]])


def test_too_many_wrong_are_detected(three_of_five: Closed) -> None:
    parts = [three_of_five.random_wrong(j) for j in (1, 2, 3)] + three_of_five.parts[3:]
    with pytest.raises(WrongPartialDecryptionError):
        three_of_five.tally.open(parts)


@pytest.mark.parametrize("others", list(combinations((2, 3, 4, 5), 2)))
def test_a_part_shaped_to_change_the_sum_is_named_by_five(three_of_five: Closed, others: tuple[int, ...]) -> None:
    """It opens with two honest parts to another valid sum; five parts tell which is right and blame nobody else."""
    shaped = three_of_five.shaped_wrong(1, others)
    changed = three_of_five.tally.open([shaped, *(three_of_five.parts[j - 1] for j in others)])
    assert changed.sums == [three_of_five.sums[0] + 1, *three_of_five.sums[1:]]  # t parts alone cannot tell
    opened = three_of_five.tally.open([shaped, *three_of_five.parts[1:]])
    assert (opened.sums, opened.wrong_holders) == (three_of_five.sums, (1,))


@pytest.mark.parametrize("others", list(combinations((2, 3, 4), 2)))
def test_a_part_shaped_to_change_the_sum_is_detected_by_four(three_of_five: Closed, others: tuple[int, ...]) -> None:
    """One part more than t tells that one is wrong, not which; then nothing is opened."""
    shaped = three_of_five.shaped_wrong(1, others)
    with pytest.raises(WrongPartialDecryptionError, match="different sums"):
        three_of_five.tally.open([shaped, *three_of_five.parts[1:4]])


def test_the_opened_sum_hides_its_numbers(three_of_five: Closed) -> None:
    assert str(three_of_five.sums[0]) + "," not in repr(three_of_five.tally.open(three_of_five.parts))
    assert "closed" in repr(three_of_five.tally)
