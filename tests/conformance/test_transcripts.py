"""The messages of each protocol: who sends which kinds to whom, who can read them, and that their number, order and
length do not depend on private data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from psephos.parties.ceremony import CEREMONY_KINDS
from psephos.protocol.roles import BOARD
from psephos.protocol.study.study import Study
from psephos.protocol.wire import Kind, kind_of
from psephos.specs.registry import SPECS
from tests.conformance.runs import EVERY_RUN, RUNS, Run, protocol_of, run_of
from tests.psephos.study.cast import SAMPLES, DealtCast, FixedVotes, unit

Message = tuple[str, str, Kind]
"""The sender, the receiver and the kind of a message; roles without their numbers."""

SUM: set[Message] = {
    ("party", BOARD, Kind.BALLOT),
    ("curator", BOARD, Kind.CLOSE),
    ("holder", BOARD, Kind.CONFIRMATION),
    ("curator", "holder", Kind.TALLY_REQUEST),
    ("holder", BOARD, Kind.PUBLIC_KEY),
    ("curator", BOARD, Kind.RESULT),
}
"""The messages of a study of an encrypted sum, without partial decryptions."""
TO_THE_CURATOR: set[Message] = {("holder", "curator", Kind.PARTIAL_DECRYPTION)}
TO_EVERYBODY: set[Message] = {("holder", BOARD, Kind.PARTIAL_DECRYPTION)}
CEREMONY = {
    ("holder", BOARD, kind) for kind in CEREMONY_KINDS - {Kind.OPENED_SEEDS, Kind.COMPLAINT, Kind.FAILED_CEREMONY}
}
"""Of an honest one; each part of the seed contributions is encrypted for one holder within the message."""
OF_ONE_SUM = ("tally", "statistic", "average", "head", "rehearsed", "record", "regression", "evaluation")
MESSAGES: dict[str, set[Message]] = {
    **dict.fromkeys(OF_ONE_SUM, SUM | TO_THE_CURATOR),
    "psgd": SUM | TO_EVERYBODY | {("curator", BOARD, Kind.ANNOUNCEMENT), ("holder", BOARD, Kind.PUBLISHED_SUM)},
    "pathak": {
        ("curator", "party", Kind.PROPOSAL),
        ("curator", "party", Kind.RESHARE),
        ("party", "curator", Kind.RESHARE),
        ("party", "party", Kind.RESHARE),
        ("curator", BOARD, Kind.PUBLISHED_SHARE),
        ("party", BOARD, Kind.PUBLISHED_SHARE),
        ("curator", BOARD, Kind.RESULT),
    },
    "ceremony": SUM | TO_THE_CURATOR | CEREMONY,
}
"""The messages of each protocol. Those of a public study, whose sums everybody may read, are in `messages_of`."""


def messages_of(protocol: str, study: Study) -> set[Message]:
    """Return the messages of a run; in a public study of a sum, partial decryptions are for everybody."""
    messages = MESSAGES[protocol_of(protocol)]
    if study.parameters.get("noise_from") == "holders":
        messages = messages | {("holder", BOARD, Kind.NOISE_BALLOT)}
    return messages - TO_THE_CURATOR | TO_EVERYBODY if study.public and messages & TO_THE_CURATOR else messages


def test_every_protocol_has_a_run_and_a_list_of_messages() -> None:
    """One without has no small study in `fields_of` and `ALL` of tests/psephos/study/cast.py, or no messages here."""
    assert set(SPECS) <= set(RUNS)
    assert {protocol_of(name) for name in RUNS} == {*SPECS, "ceremony"} == set(MESSAGES)


@pytest.mark.parametrize("protocol", EVERY_RUN)
def test_messages_are_those_of_the_protocol(protocol: str) -> None:
    run = run_of(protocol)
    messages = {(sender.split()[0], post.receiver.split()[0], kind_of(post.data)) for sender, post in run.posts}
    assert messages == messages_of(protocol, run.cast.made.study)


@pytest.mark.parametrize("protocol", EVERY_RUN)
def test_messages_to_one_role_are_encrypted(protocol: str) -> None:
    """Requests for partial decryptions are the exception: they are public."""
    for sender, post in run_of(protocol).posts:
        if post.receiver != BOARD and kind_of(post.data) is not Kind.TALLY_REQUEST:
            assert post.secret, (sender, post.receiver, kind_of(post.data))


class OtherData(DealtCast):
    """The same study, whose parties have other data, and more rows where their number is private."""

    def own(self, number: int) -> Any:
        generator = np.random.default_rng([self.seed + 1, number])
        if self.spec.takes_classifier:
            return FixedVotes(generator.integers(0, len(self.made.study.classes), size=SAMPLES))
        rows = 6 + number if "sizes" in self.spec.parameters else 9 + 2 * number
        X = unit(generator, rows)
        return X, (X[:, 0] > 0.1).astype(np.int64)


@pytest.mark.parametrize("protocol", [run for run in EVERY_RUN if run.values != ("ceremony",)])
def test_number_order_and_length_of_messages_do_not_depend_on_private_data(protocol: str) -> None:
    """Every role sends messages of the same kinds and lengths, in the same order, whatever the parties' data."""
    one, other = run_of(protocol), Run(OtherData(RUNS[protocol][1]))
    assert {name: bool(messages) for name, messages in shapes(one).items()} == dict.fromkeys(one.cast.names, True)
    assert shapes(one) == shapes(other)


def shapes(run: Run) -> dict[str, list[tuple[str, Kind, int]]]:
    """Return the receiver, kind and length of every message of each role; without the length of the result, which has
    noise, and of proofs of validity, in which the places of random columns matter."""
    varying = {Kind.RESULT, Kind.BALLOT, Kind.NOISE_BALLOT} if run.cast.made.study.proofs == "valid" else {Kind.RESULT}
    messages: dict[str, list[tuple[str, Kind, int]]] = {name: [] for name in run.cast.names}
    for sender, post in run.posts:
        kind = kind_of(post.data)
        messages[sender].append((post.receiver, kind, 0 if kind in varying else len(post.data)))
    return messages
