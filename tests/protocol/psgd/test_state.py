"""How everybody follows a descent: whose word counts, for which step, and what is remembered."""

from __future__ import annotations

import numpy as np
import pytest

from psephos.protocol.errors import (
    MessageError,
    ThresholdError,
    UnexpectedMessageError,
    WrongPartialDecryptionError,
    WrongRoundError,
)
from psephos.protocol.psgd.descent import Descent, StepSizes
from psephos.protocol.psgd.series import Announcement, Series, SeriesTerms
from psephos.protocol.psgd.state import DescentState, PublishedSum
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.roles import BOARD, Entry
from psephos.protocol.wire import HEADER_BYTES, Kind, frame
from psephos.simulation.key_setup import setup_keys


@pytest.fixture(scope="module")
def terms() -> SeriesTerms:
    made = setup_keys(
        3, key_bits=512, holders=3, threshold=2, test_key=True, randomness=SimulationRandomness(9, "psgd party")
    )
    series = Series(3, 4, 2, 5.0, 10, (2.0, 2.0, 3.0), "spherical-laplace-halving", 1.5, 3, bytes(16))
    return SeriesTerms(series, Descent(9, 0.5, 0.25, 10.0, StepSizes(1.0, 4.0)), made.threshold_key, made.roster, True)


def entry_of(terms: SeriesTerms, step: int, holder: int, sums: tuple[int, ...], sender: str = "") -> Entry:
    return Entry(1, sender or f"holder {holder}", BOARD, PublishedSum(step, holder, sums).encode(terms))


def announced(terms: SeriesTerms, walk: DescentState, step: int = 0, sender: str = "curator") -> Entry:
    return Entry(1, sender, BOARD, Announcement.create(terms, step or walk.steps + 1, walk.point).encode())


def walked(terms: SeriesTerms, *sums: tuple[int, ...]) -> DescentState:
    """Past these sums, with the step after them announced."""
    walk = DescentState.start(terms)
    for one in sums:
        walk = walk.announced(terms, announced(terms, walk), "me")
        for holder in (1, 2):
            walk = walk.published(terms, entry_of(terms, walk.announcement.step, holder, one))  # type: ignore[union-attr]
    return walk.announced(terms, announced(terms, walk), "me")


@pytest.mark.parametrize("step", [1, 4])
def test_published_sums_out_of_range_are_rejected(terms: SeriesTerms, step: int) -> None:
    most = 3 * terms.series.entry_bound(step)
    for sums in ((most, -most), (0, -1)):
        published = PublishedSum(step, 3, sums)
        data = published.encode(terms)
        assert PublishedSum.decode(data, terms) == published
        assert len(data) == HEADER_BYTES + 5 + 2 * (most.bit_length() // 8 + 1)
        for broken in (data[:-1], data + b"\0"):
            with pytest.raises(MessageError):
                PublishedSum.decode(broken, terms)
    for beyond in ((most + 1, 0), (0, -most - 1)):
        with pytest.raises(MessageError):
            PublishedSum.decode(PublishedSum(step, 1, beyond).encode(terms), terms)


def test_steps_and_holders_out_of_range_are_rejected(terms: SeriesTerms) -> None:
    good = PublishedSum(1, 1, (5, 6)).encode(terms)[HEADER_BYTES:]
    for step in (0, 5):
        with pytest.raises(MessageError):
            PublishedSum.decode(frame(Kind.PUBLISHED_SUM, terms.digest, step.to_bytes(4, "big"), good[4:]), terms)
    for holder in (0, 4):
        with pytest.raises(ThresholdError):
            PublishedSum.decode(frame(Kind.PUBLISHED_SUM, terms.digest, good[:4], bytes([holder]), good[5:]), terms)
    with pytest.raises(WrongRoundError):
        PublishedSum.decode(frame(Kind.PUBLISHED_SUM, bytes(32), good), terms)


def test_the_next_point_follows_when_t_holders_published_the_sum(terms: SeriesTerms) -> None:
    walk = DescentState.start(terms)
    assert (walk.steps, walk.points, walk.point, walk.open, walk.sums()) == (0, ((0.0, 0.0),), (0.0, 0.0), False, None)
    walk = walk.announced(terms, announced(terms, walk), "me")
    assert (walk.open, walk.steps, walk.sums()) == (True, 0, None)
    one = walk.published(terms, entry_of(terms, 1, 3, (700, -900)))
    assert one.said == ((3, (700, -900)),)
    other = one.published(terms, entry_of(terms, 1, 1, (701, -900)))
    assert (other.open, len(other.said)) == (True, 2)
    known = other.published(terms, entry_of(terms, 1, 2, (700, -900)))
    assert (known.open, known.steps, known.sums()) == (False, 1, (700, -900))
    expected = terms.descent.step(np.zeros(2), np.array([700.0, -900.0]) * terms.series.pitch, 0)
    assert known.points == (tuple(expected.tolist()),)


def test_sums_of_a_known_step_do_not_change_the_state(terms: SeriesTerms) -> None:
    """And another one is a lie, as long as there is something to compare it with."""
    walk = walked(terms, (1, 2), (3, 4))  # step 3 is open
    for step, sums in ((1, (1, 2)), (1, (9, 9)), (2, (3, 4)), (2, (9, 9))):
        assert walk.published(terms, entry_of(terms, step, 3, sums)) == walk
    closed = walked(terms, (1, 2))
    for holder in (1, 2):
        closed = closed.published(terms, entry_of(terms, 2, holder, (3, 4)))
    assert closed.sums() == (3, 4)
    assert closed.published(terms, entry_of(terms, 2, 3, (3, 4))) == closed
    assert closed.published(terms, entry_of(terms, 1, 3, (9, 9))) == closed
    with pytest.raises(WrongPartialDecryptionError):
        closed.published(terms, entry_of(terms, 2, 3, (3, 5)))


def test_sums_out_of_order_are_rejected(terms: SeriesTerms) -> None:
    start, walk = DescentState.start(terms), walked(terms)
    with pytest.raises(UnexpectedMessageError):
        start.published(terms, entry_of(terms, 1, 1, (0, 0)))
    with pytest.raises(UnexpectedMessageError):
        walk.published(terms, entry_of(terms, 2, 1, (0, 0)))
    once = walk.published(terms, entry_of(terms, 1, 1, (0, 0)))
    with pytest.raises(UnexpectedMessageError):
        once.published(terms, entry_of(terms, 1, 1, (0, 0)))
    for sender in ("holder 2", "curator"):
        with pytest.raises(ThresholdError):
            walk.published(terms, entry_of(terms, 1, 1, (0, 0), sender))


def test_announcements_out_of_order_are_rejected(terms: SeriesTerms) -> None:
    start = DescentState.start(terms)
    with pytest.raises(UnexpectedMessageError):
        start.announced(terms, announced(terms, start, sender="holder 1"), "me")
    with pytest.raises(UnexpectedMessageError):
        start.announced(terms, announced(terms, start, 2), "me")
    walk = walked(terms, (1, 2))
    for step in (2, 3):
        with pytest.raises(UnexpectedMessageError):
            walk.announced(terms, announced(terms, walk, step), "me")
    with pytest.raises(UnexpectedMessageError):
        start.announced(terms, announced(terms, walk, 1), "me")
    assert walk.said == ()
