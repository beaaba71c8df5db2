"""Rounds: the digest covers all terms, and invalid terms are rejected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import (
    InvalidParameter,
    WeakKeyError,
)
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.threshold import deal
from psephos.protocol.signing import SigningKey


def test_the_digest_covers_all_terms(sample: Any, make_sample: Any) -> None:
    round_: Round = sample.round
    stranger = SigningKey.generate().verification_key
    others = [
        replace(round_, kind="parameters"),
        replace(round_, threshold_key=deal(sample.private_key, holders=3, threshold=2)[0]),
        replace(round_, threshold_key=replace(round_.threshold_key, threshold=3)),
        replace(round_, plan=replace(round_.plan, length=round_.plan.length + 1)),
        replace(round_, plan=replace(round_.plan, addends=6)),
        replace(round_, roster=(*round_.roster[:-1], stranger)),
        replace(round_, roster=(*round_.roster, stranger), plan=replace(round_.plan, addends=6)),
        replace(round_, roster=round_.roster[::-1]),
        replace(round_, minimum_ballots=round_.minimum_ballots + 1),
        replace(round_, context=bytes(32)),
        replace(round_, nonce=bytes(16)),
        replace(round_, proofs="knowledge"),
        replace(round_, group=2),
        replace(round_, confirmations=3),
        replace(round_, confirmations=2),
    ]
    assert len({round_.digest, *(r.digest for r in others)}) == len(others) + 1
    assert replace(round_).digest == round_.digest


@pytest.mark.parametrize("minimum", [-1, 0, 1, 6, 100])
def test_minimum_ballots_out_of_range_is_rejected(sample: Any, minimum: int) -> None:
    with pytest.raises(InvalidParameter):
        replace(sample.round, minimum_ballots=minimum)


def test_a_small_key_needs_test_key(sample: Any) -> None:
    with pytest.raises(WeakKeyError):
        replace(sample.round, test_key=False)


def test_terms_that_do_not_fit_together_are_rejected(sample: Any) -> None:
    round_: Round = sample.round
    for change in (
        {"roster": (round_.roster[0],) * 5},
        {"plan": PackingPlan(400, 4, 0, 1, 512)},
        {"plan": PackingPlan(400, 5, 0, 1, 514)},
        {"context": bytes(31)},
        {"context": bytes(33)},
        {"nonce": bytes(15)},
        {"nonce": bytes(17)},
        {"kind": "ballots"},
        {"group": 1 << 24},
    ):
        with pytest.raises(InvalidParameter):
            replace(round_, **change)
    for fits in ({"group": (1 << 24) - 1}, {"minimum_ballots": 2}, {"minimum_ballots": 5}):
        assert replace(round_, **fits) != round_  # type: ignore[arg-type]
    assert round_.verification_key(0) == round_.roster[0]
    assert round_.verification_key(4) == round_.roster[4]


# -- identities


def test_rfc_8032_test_1() -> None:
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    key = SigningKey(seed)
    assert key.verification_key.raw.hex() == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert key.sign(b"").hex() == (
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    )
    assert key.seed() == seed
