"""Who sends what to whom in each protocol, and what of it everybody can read."""

from __future__ import annotations

import pytest

from psephos.protocol.roles import BOARD
from psephos.protocol.wire import Kind, kind_of
from tests.conformance.runs import RUNS, run_of

Way = tuple[str, str, Kind]
"""The sender, the receiver and the kind of a message; roles without their numbers."""

SUM: set[Way] = {
    ("party", BOARD, Kind.BALLOT),
    ("curator", BOARD, Kind.CLOSE),
    ("holder", BOARD, Kind.CONFIRMATION),
    ("curator", "holder", Kind.TALLY_REQUEST),
    ("holder", BOARD, Kind.PUBLIC_KEY),
    ("curator", BOARD, Kind.RESULT),
}
"""A study of an encrypted sum, but for how the sum is opened."""
TO_THE_CURATOR: set[Way] = {("holder", "curator", Kind.PARTIAL_DECRYPTION)}
TO_EVERYBODY: set[Way] = {("holder", BOARD, Kind.PARTIAL_DECRYPTION)}
CEREMONY: set[Way] = {
    ("holder", BOARD, kind)
    for kind in (
        Kind.COMMITMENT,
        Kind.SEED_COMMITMENTS,
        Kind.SEED_CONTRIBUTIONS,  # each part sealed to a holder by the message itself
        Kind.RESIDUE_PRODUCTS,
        Kind.RESIDUE_DIFFERENCES,
        Kind.OPENED_CANDIDATES,
        Kind.MODULUS_SHARES,
        Kind.EXPONENT_COMMITMENTS,
        Kind.EXPONENT_SHARES,
        Kind.TEST_VALUES,
        Kind.TEST_DECRYPTION,
    )
}
WAYS: dict[str, set[Way]] = {
    **dict.fromkeys(RUNS, SUM | TO_THE_CURATOR),
    "statistic": SUM | TO_EVERYBODY,
    "psgd": SUM | TO_EVERYBODY | {("curator", BOARD, Kind.ANNOUNCEMENT), ("holder", BOARD, Kind.PUBLISHED_SUM)},
    "pathak": {
        ("curator", "party", Kind.PROPOSAL),
        *((sender, receiver, Kind.RESHARE) for sender, receiver in (("curator", "party"), ("party", "curator"))),
        ("party", "party", Kind.RESHARE),
        *((sender, BOARD, Kind.PUBLISHED_SHARE) for sender in ("curator", "party")),
        ("curator", BOARD, Kind.RESULT),
    },
    "ceremony": SUM | TO_THE_CURATOR | CEREMONY,
}


@pytest.mark.parametrize("protocol", RUNS)
def test_messages_are_those_of_the_protocol(protocol: str) -> None:
    ways = {
        (sender.split()[0], post.receiver.split()[0], kind_of(post.data)) for sender, post in run_of(protocol).posts
    }
    assert ways == WAYS[protocol]


@pytest.mark.parametrize("protocol", RUNS)
def test_messages_to_one_role_are_sealed(protocol: str) -> None:
    """Unless a message says itself that it is public."""
    for sender, post in run_of(protocol).posts:
        if post.receiver != BOARD and kind_of(post.data) is not Kind.TALLY_REQUEST:
            assert post.secret, (sender, post.receiver, kind_of(post.data))
