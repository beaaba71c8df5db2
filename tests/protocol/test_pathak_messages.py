"""Terms and messages: one encoding each, every bound checked, nothing but named errors for anything else."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.protocol.errors import (
    AgreementError,
    InvalidParameter,
    MessageError,
    PartyVanishedError,
    PsephosError,
    ShareRangeError,
    UnexpectedMessageError,
)
from psephos.protocol.paillier.private_key import generate_private_key
from psephos.protocol.pathak.comparison import Answer
from psephos.protocol.pathak.dgk import generate_dgk_key
from psephos.protocol.pathak.messages import (
    CURATOR,
    KEYED_SIZE_BITS,
    Answers,
    GroupKey,
    GroupSecret,
    Inbox,
    IndexedShare,
    LentShare,
    MaskedNoise,
    MaskedShare,
    NoiseFactor,
    Opponents,
    Proposal,
    PublishedShare,
    Questions,
    Reshare,
    RungSelection,
    RungVote,
    Selection,
    SizeShare,
    Step,
    Terms,
    centred,
)
from psephos.protocol.transcript import Transcript
from psephos.simulate.pathak import PathakKeys, make_terms, run_protocol

KEYS = PathakKeys(
    generate_private_key(448, test_key=True),
    generate_dgk_key(256, comparison_bits=KEYED_SIZE_BITS, test_key=True),
    generate_private_key(384, test_key=True),
)
TERMS = make_terms(parties=4, features=2, lam=0.1, epsilon=1.0, smallest_size=4, largest_size=10)
CHARLIE, GROUP, DGK = KEYS.curator.public_key, KEYS.group.public_key, KEYS.comparison.public_key
HEADER = 47


def _decoders() -> dict[Step, Any]:
    plan = TERMS.plan(CHARLIE)
    return {
        Step.PROPOSAL: lambda b: Proposal.decode(b, test_key=True),
        Step.GROUP_SECRET: lambda b: GroupSecret.decode(b, TERMS, test_key=True),
        Step.GROUP_KEY: lambda b: GroupKey.decode(b, test_key=True),
        Step.SIZE_SHARE: lambda b: SizeShare.decode(b, CHARLIE),
        Step.INDEXED_SHARE: lambda b: IndexedShare.decode(b, GROUP, CHARLIE, 2),
        Step.MASKED_SHARE: lambda b: MaskedShare.decode(b, GROUP, 1),
        Step.QUESTIONS: lambda b: Questions.decode(b, TERMS, 1, DGK),
        Step.OPPONENTS: lambda b: Opponents.decode(b, TERMS, 2),
        Step.LENT_SHARE: LentShare.decode,
        Step.ANSWERS: lambda b: Answers.decode(b, DGK, 1),
        Step.SELECTION: lambda b: Selection.decode(b, CHARLIE, 4),
        Step.RUNG_VOTE: lambda b: RungVote.decode(b, CHARLIE, len(TERMS.ladder)),
        Step.RUNG_SELECTION: lambda b: RungSelection.decode(b, CHARLIE, len(TERMS.ladder)),
        Step.NOISE_FACTOR: lambda b: NoiseFactor.decode(b, CHARLIE, plan.ciphertexts),
        Step.MASKED_NOISE: lambda b: MaskedNoise.decode(b, CHARLIE, plan.ciphertexts),
        Step.RESHARE: lambda b: Reshare.decode(b, TERMS),
        Step.PUBLISHED_SHARE: lambda b: PublishedShare.decode(b, TERMS),
    }


DECODERS = _decoders()


@pytest.fixture(scope="module")
def bodies() -> dict[Step, bytes]:
    """A genuine body of every step."""
    generator = np.random.default_rng(0)
    data = []
    for n in (4, 5, 6, 7):
        X = generator.normal(size=(n, 2))
        data.append((X / (1.01 * np.linalg.norm(X, axis=1).max()), np.arange(n) % 2))
    found: dict[Step, bytes] = {}
    for _ in range(8):
        transcript = Transcript(secrets=True)
        run_protocol(data, TERMS, keys=KEYS, test_key=True, transcript=transcript)
        for message in transcript.messages:
            assert message.data is not None
            step = Step(message.data[8])
            receiver = int.from_bytes(message.data[45:47], "big")
            if receiver != {Step.QUESTIONS: 1, Step.OPPONENTS: 2}.get(step, receiver):
                continue
            found.setdefault(step, message.data[HEADER:])
    return found


@pytest.mark.parametrize("step", list(Step))
def test_every_body_has_one_encoding(step: Step, bodies: dict[Step, bytes]) -> None:
    body = bodies[step]
    message = DECODERS[step](body)
    assert message.send(TERMS.digest, 1, 2).data[HEADER:] == body
    for broken in (b"", body[:-1], body + b"\0", body[1:]):
        with pytest.raises(PsephosError):
            DECODERS[step](broken)


@pytest.mark.parametrize("step", list(Step))
def test_nothing_but_named_errors(step: Step, bodies: dict[Step, bytes]) -> None:
    @settings(max_examples=60, deadline=None)
    @given(st.data())
    def check(draw: st.DataObject) -> None:
        body = bytearray(bodies[step])
        if draw.draw(st.booleans()):
            body = bytearray(draw.draw(st.binary(max_size=200)))
        for _ in range(draw.draw(st.integers(0, 3))):
            if body:
                body[draw.draw(st.integers(0, len(body) - 1))] = draw.draw(st.integers(0, 255))
        try:
            message = DECODERS[step](bytes(body))
        except PsephosError:
            return
        assert message.send(TERMS.digest, 1, 2).data[HEADER:] == bytes(body)

    check()


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=120), st.integers(0, 60), st.booleans())
def test_the_inbox_takes_nothing_unnamed(tail: bytes, step: int, genuine: bool) -> None:
    inbox = Inbox(1, 4, TERMS.digest)
    data = b"PSEPHOS\x01" + bytes([step]) + (TERMS.digest if genuine else b"") + tail
    try:
        inbox.accept(data)
    except MessageError:
        return
    assert genuine


def test_secrets_do_not_show(bodies: dict[Step, bytes]) -> None:
    p, _ = KEYS.group.factors()
    for step in Step:
        shown = repr(DECODERS[step](bodies[step]))
        assert str(p) not in shown
        assert "mpz(" not in shown


# -- the inbox


def lent(sender: int, turn: int = 0, receiver: int = 1, session: bytes = TERMS.digest) -> bytes:
    return LentShare(5).send(session, sender, receiver, turn).data


def test_order_is_kept() -> None:
    inbox = Inbox(1, 4, TERMS.digest)
    inbox.accept(lent(2, 0))
    with pytest.raises(UnexpectedMessageError, match="replay"):
        inbox.accept(lent(2, 0))
    inbox.accept(lent(2, 1))
    inbox.accept(lent(3, 0))
    with pytest.raises(UnexpectedMessageError, match="out of order"):
        inbox.accept(lent(2, 0))
    assert set(inbox.take(Step.LENT_SHARE, [2, 3], 0)) == {2, 3}
    with pytest.raises(UnexpectedMessageError, match="over"):
        inbox.accept(lent(4, 0))
    with pytest.raises(PartyVanishedError, match="party 3 vanished in stage 1"):
        inbox.take(Step.LENT_SHARE, [2, 3], 1)


def test_strangers_are_refused() -> None:
    inbox = Inbox(1, 4, TERMS.digest)
    for data in (lent(5), lent(1), lent(2, receiver=3), lent(2, session=bytes(32))):
        with pytest.raises(UnexpectedMessageError):
            inbox.accept(data)
    inbox.accept(lent(3))
    with pytest.raises(UnexpectedMessageError, match="none to send"):
        inbox.take(Step.LENT_SHARE, [], 0)


def test_before_the_proposal_only_a_proposal_is_taken() -> None:
    inbox = Inbox(1, 4)
    with pytest.raises(UnexpectedMessageError, match="before"):
        inbox.accept(lent(2))
    inbox.accept(Proposal(TERMS, CHARLIE, DGK).send(TERMS.digest, CURATOR, 1).data)


# -- terms


def test_terms_travel() -> None:
    assert Terms.decode(TERMS.encode()) == TERMS
    assert Terms.decode(TERMS.encode()).digest == TERMS.digest
    assert replace(TERMS, nonce="0" * 32).digest != TERMS.digest


def test_only_canonical_terms_are_read() -> None:
    good = json.loads(TERMS.encode())
    for bad in (
        b"",
        b"[]",
        b"{}",
        b"[" * 100_000,
        json.dumps(good).encode(),
        TERMS.encode() + b" ",
        json.dumps(good | {"more": 1}, sort_keys=True, separators=(",", ":")).encode(),
        json.dumps(good | {"classes": "ab"}, sort_keys=True, separators=(",", ":")).encode(),
        json.dumps(good | {"nonce": 3}, sort_keys=True, separators=(",", ":")).encode(),
        json.dumps(good | {"lam": float("nan")}, sort_keys=True, separators=(",", ":")).encode(),
        json.dumps(good | {"variant": []}, sort_keys=True, separators=(",", ":")).encode(),
    ):
        with pytest.raises((MessageError, InvalidParameter)):
            Terms.decode(bad)


@pytest.mark.parametrize(
    "change",
    [
        {"parties": 2},
        {"parties": 20_000},
        {"features": 0},
        {"lam": 0.0},
        {"lam": 1},
        {"epsilon": float("inf")},
        {"epsilon": 65.0},
        {"tolerance": -1.0},
        {"smallest_size": 1},
        {"smallest_size": 11},
        {"largest_size": 2**32},
        {"excluded": 0},
        {"excluded": 4},
        {"pitch_exponent": 1},
        {"nonce": "x" * 32},
        {"classes": ("a", "a")},
        {"variant": "mended"},
        {"noise": "gaussian"},
        {"noise": "spherical"},
        {"comparisons": "none"},
        {"regulariser": "ridge"},
        {"parties": 4.0},
    ],
)
def test_impossible_terms_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        replace(TERMS, **change)


def test_disagreement_is_named_but_for_the_nonce() -> None:
    TERMS.check_agrees(replace(TERMS, nonce="0" * 32), "party 2")
    with pytest.raises(AgreementError, match=r"party 2.*lam = 0.1"):
        TERMS.check_agrees(replace(TERMS, lam=0.2), "party 2")


def test_slots_hold_the_largest_sums() -> None:
    largest_noise = TERMS.noise_addends * 2 * TERMS.noise_bound
    largest_mask = 2**TERMS.mask_bits - 1
    plan = TERMS.plan(CHARLIE)
    assert largest_noise + largest_mask <= plan.maximum
    assert TERMS.mask_bits >= largest_noise.bit_length() + 80
    total = TERMS.parties * TERMS.weight_bound + TERMS.noise_addends * TERMS.noise_bound
    assert total < 2 ** (TERMS.modulus_bits - 1)


def test_centred_values() -> None:
    assert centred(GROUP.n - 5, GROUP, 8) == -5
    assert centred(255, GROUP, 8) == 255
    for bad in (256, GROUP.n - 256):
        with pytest.raises(ShareRangeError):
            centred(bad, GROUP, 8)


def test_answers_of_another_count_are_refused() -> None:
    given_ = Answer(DGK.encrypt([1] * (KEYED_SIZE_BITS + 1)), 0)
    body = Answers((given_,), DGK).send(TERMS.digest, 1, 0).data[HEADER:]
    with pytest.raises(MessageError):
        Answers.decode(body, DGK, 2)
