"""`Transcript`: redacted by default; views consist of inputs, coin tosses and received messages."""

from __future__ import annotations

import hashlib
import json
import pickle

import pytest

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.roles import BOARD
from psephos.protocol.transcript import Transcript

SECRET = b"a secret message of forty-two bytes......."


def run(transcript: Transcript) -> None:
    transcript.record_input("party 1", "samples", SECRET)
    transcript.coins("party 1", SimulationRandomness(1)).draw(5)
    transcript.record("cast", "party 1", BOARD, "ballot", SECRET)
    transcript.record("open", "curator", "holder 1", "request", b"request")
    transcript.record("open", "holder 1", "curator", "part", b"part")


def test_a_redacted_transcript_contains_no_secret() -> None:
    transcript = Transcript()
    run(transcript)
    assert all(message.data is None for message in transcript.messages)
    for text in (pickle.dumps(transcript), repr(vars(transcript)).encode()):
        assert SECRET not in text
        assert SimulationRandomness(1).draw(5) not in text
    with pytest.raises(InvalidParameter):
        transcript.view("party 1")


@pytest.mark.parametrize("secrets", [True, False])
def test_the_redacted_form_is_the_same_with_and_without_secrets(secrets: bool) -> None:
    transcript = Transcript(secrets=secrets)
    run(transcript)
    redacted = transcript.redacted()
    assert SECRET.decode() not in json.dumps(redacted)
    assert redacted[0] == {
        "phase": "cast",
        "from": "party 1",
        "to": "board",
        "kind": "ballot",
        "bytes": len(SECRET),
        "sha256": hashlib.sha256(SECRET).hexdigest(),
    }
    assert len(redacted) == 3
    assert all(set(line) == {"phase", "from", "to", "kind", "bytes", "sha256"} for line in redacted)


def test_a_view_contains_inputs_coins_and_received_messages() -> None:
    transcript = Transcript(secrets=True)
    run(transcript)
    party, curator, holder = (transcript.view(role) for role in ("party 1", "curator", "holder 1"))
    assert party.inputs == {"samples": SECRET}
    assert party.tape == SimulationRandomness(1).draw(5)
    assert [m.data for m in party.received] == [SECRET]  # everybody reads the board
    assert [m.data for m in curator.received] == [SECRET, b"part"]
    assert [m.data for m in holder.received] == [SECRET, b"request"]
    assert (curator.inputs, curator.tape) == ({}, b"")


def test_no_repr_shows_a_secret() -> None:
    transcript = Transcript(secrets=True)
    run(transcript)
    view = transcript.view("party 1")
    for item in (transcript, view, *transcript.messages):
        assert "secret message" not in repr(item) + str(item)
        assert repr(view.tape) not in repr(item)


def test_only_roles_that_took_part_have_a_view() -> None:
    """A role took part if it has an input, coins or a message, or is in `roles`; to be a receiver is not enough."""
    transcript = Transcript(secrets=True)
    run(transcript)
    transcript.record_input("by input", "x", 1)
    transcript.coins("by coins", SimulationRandomness(1))
    transcript.roles.add("by the run")
    for role in ("by input", "by coins", "by the run", "curator", "holder 1"):
        assert transcript.view(role).role == role
    assert transcript.view("by the run").inputs == {}
    transcript.record("open", "curator", "stranger", "request", b"")
    with pytest.raises(InvalidParameter):
        transcript.view("stranger")
