"""What everybody goes through before a study's protocol: above all, when it is over because there is no key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from psephos.protocol.ceremony.messages import failure
from psephos.protocol.paillier.private_key import generate_private_key
from psephos.protocol.paillier.threshold import deal
from psephos.protocol.roles import BOARD, Entry, Step
from psephos.protocol.study.stages import Keyed, NoKey, encode_key
from psephos.protocol.study.study import Study
from psephos.protocol.wire import Kind, frame
from psephos.testing.studies import trial


@cache
def study_of(holders: int, threshold: int) -> Study:
    return trial(parties=6, holders=holders, threshold=threshold).study


def heard(study: Study, said: Iterable[tuple[str, bytes]]) -> Step:
    """What a party makes of it that holds nothing."""
    role = Keyed("party 5", study)
    return role.receive(role.start().state, [Entry(n, name, BOARD, data) for n, (name, data) in enumerate(said)])


def failing(study: Study, names: Iterable[str], why: str = "holder 1 lied") -> list[tuple[str, bytes]]:
    return [(name, failure(study.ceremony(), why)) for name in names]


@pytest.mark.parametrize(("holders", "threshold"), [(3, 2), (3, 3), (5, 3), (5, 4)])
def test_a_failed_ceremony_is_believed_of_t_holders_and_of_nobody_else(holders: int, threshold: int) -> None:
    """t - 1 of them may lie: however often they say so, and the curator and every party too, the study goes on."""
    study = study_of(holders, threshold)
    liars, others = study.holders[-threshold + 1 :], [n for n in study.members.keys if not n.startswith("holder")]
    lies = [*failing(study, liars), *failing(study, liars, "again"), *failing(study, others)]
    key, _ = deal(generate_private_key(study.key_bits, test_key=True), holders=holders, threshold=threshold)
    step = heard(study, [*lies, *((name, encode_key(study, key)) for name in study.holders)])
    assert step.state.state.key == key
    assert len(step.refused) == len(liars) + len(others)
    step = heard(study, [*lies, *failing(study, study.holders[:1], "holder 2 lied")])
    assert isinstance(step.state.state, NoKey)
    assert step.state.state.why == (
        f'the ceremony has failed, according to {" and ".join(liars)} ("holder 1 lied"), holder 1 ("holder 2 lied")'
    )


@pytest.mark.parametrize("said", [b"", b"\xff", b"x" * 401, "\N{ESCAPE}[2J".encode(), b"two\nlines", None])
def test_what_is_no_reason_is_not_believed_of_anybody(said: bytes | None) -> None:
    """None: of another study's ceremony, replayed here."""
    study = study_of(3, 2)
    terms = replace(study, title="Another").ceremony() if said is None else study.ceremony()
    data = frame(Kind.FAILED_CEREMONY, terms.digest, b"holder 1 lied" if said is None else said)
    step: Any = heard(study, [(name, data) for name in study.holders])
    assert not isinstance(step.state.state, NoKey)
    assert len(step.refused) == 3
