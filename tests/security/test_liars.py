"""A holder of a study opens nothing but its own round."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from psephos.audit.studies import trial
from psephos.parties.holder import KeyHolder
from psephos.protocol.encrypted_sum.messages import Close, TallyRequest
from psephos.protocol.errors import StudyError, WrongRoundError
from psephos.protocol.paillier.private_key import generate_private_key
from psephos.protocol.paillier.threshold import deal
from psephos.protocol.roles import BOARD, Entry
from psephos.specs.registry import participants_of, spec_of
from psephos.specs.terms import StudyTerms
from tests.psephos.study.cast import Samples


def test_a_holder_of_a_study_opens_its_own_round_only() -> None:
    """What a study fixes, no message can change: its holder knows one round, and its key is made for one study."""
    auxiliary = Samples(np.arange(48, dtype=float).reshape(12, 4))
    made = trial(public_table=auxiliary.digest)
    key, shares = deal(generate_private_key(256, test_key=True), holders=3, threshold=2)
    round_ = spec_of(StudyTerms(made.study, auxiliary)).terms(key, participants_of(made.study))
    holder = KeyHolder(shares[0], round_)
    for changed in (
        {"roster": tuple(reversed(round_.roster))},
        {"minimum_ballots": 2},
        {"confirmations": 0},
        {"proofs": "none"},
        {"nonce": bytes(16)},
        {"context": bytes(32)},
    ):
        other = replace(round_, **changed)
        assert other.digest != round_.digest
        messages = [Close(other.digest).encode(), TallyRequest(other.digest, 0b11, bytes(32)).encode(other)]
        step = holder.receive(
            holder.start().state, [Entry(n, "curator", BOARD, data) for n, data in enumerate(messages)]
        )
        assert [type(refusal.error) for refusal in step.refused] == [WrongRoundError, WrongRoundError]
        assert not step.posts
    another = replace(made.study, title="Another")
    twin = spec_of(StudyTerms(another, auxiliary)).terms(key, participants_of(another))
    assert twin.digest != round_.digest
    assert another.ceremony().digest != made.study.ceremony().digest
    with pytest.raises(StudyError):
        StudyTerms(made.study, Samples(auxiliary.samples + 1))
