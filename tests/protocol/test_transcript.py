"""Transcripts: redacted unless asked by name; views are inputs, coins and messages received."""

from __future__ import annotations

import hashlib
import json
import pickle

import pytest

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.transcript import BOARD, Transcript

SECRET = b"a secret message of forty-two bytes......."


def run(transcript: Transcript) -> None:
    transcript.record_input("party 1", "samples", SECRET)
    transcript.coins("party 1", SimulationRandomness(1)).draw(5)
    assert transcript.record("cast", "party 1", BOARD, "ballot", SECRET) == SECRET
    transcript.record("open", "curator", "holder 1", "request", b"request")
    transcript.record("open", "holder 1", "curator", "part", b"part")


def test_a_redacted_transcript_keeps_no_secret_anywhere() -> None:
    transcript = Transcript()
    run(transcript)
    assert all(message.data is None for message in transcript.messages)
    for text in (pickle.dumps(transcript), repr(vars(transcript)).encode()):
        assert SECRET not in text
        assert SimulationRandomness(1).draw(5) not in text
    with pytest.raises(InvalidParameter, match="secrets=True"):
        transcript.view("party 1")


@pytest.mark.parametrize("secrets", [True, False])
def test_the_redacted_form_is_the_same_either_way(secrets: bool) -> None:
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


def test_a_view_is_inputs_coins_and_what_was_received() -> None:
    transcript = Transcript(secrets=True)
    run(transcript)
    party, curator, holder = (transcript.view(role) for role in ("party 1", "curator", "holder 1"))
    assert party.inputs == {"samples": SECRET}
    assert party.tape == SimulationRandomness(1).draw(5)
    assert [m.data for m in party.received] == [SECRET]  # the board is everybody's
    assert [m.data for m in curator.received] == [SECRET, b"part"]
    assert [m.data for m in holder.received] == [SECRET, b"request"]
    assert (curator.inputs, curator.tape) == ({}, b"")


def test_no_repr_shows_a_secret() -> None:
    transcript = Transcript(secrets=True)
    run(transcript)
    view = transcript.view("party 1")
    for shown in (transcript, view, *transcript.messages):
        assert "secret message" not in repr(shown) + str(shown)
        assert repr(view.tape) not in repr(shown)


def test_coins_are_the_sources_own() -> None:
    for secrets in (True, False):
        source = Transcript(secrets=secrets).coins("x", SimulationRandomness(3))
        assert source.draw(10) == SimulationRandomness(3).draw(10)


def test_messages_of_other_processes_are_taken_in() -> None:
    here, there = Transcript(), Transcript()
    run(there)
    here.extend(there.messages)
    assert here.redacted() == there.redacted()


def test_a_view_is_of_somebody_who_took_part() -> None:
    """By an input, a coin, a message of its own, or because a run says so; to have been written to is not enough."""
    transcript = Transcript(secrets=True)
    run(transcript)
    transcript.record_input("by input", "x", 1)
    transcript.coins("by coins", SimulationRandomness(1))
    transcript.roles.add("by the run")
    for role in ("by input", "by coins", "by the run", "curator", "holder 1"):
        assert transcript.view(role).role == role
    assert transcript.view("by the run").inputs == {}
    transcript.record("open", "curator", "stranger", "request", b"")
    with pytest.raises(InvalidParameter, match="no stranger took part in this run; there were by coins, by input"):
        transcript.view("stranger")


def test_inputs_of_one_role_are_kept_together() -> None:
    for secrets in (True, False):
        transcript = Transcript(secrets=secrets)
        transcript.record_input("party 1", "samples", 1)
        transcript.record_input("party 1", "labels", 2)
        kept = {"samples": 1, "labels": 2} if secrets else {"samples": None, "labels": None}
        assert transcript._inputs == {"party 1": kept}
    assert (repr(Transcript()), repr(Transcript(secrets=True))) == (
        "<Transcript of 0 messages, redacted>",
        "<Transcript of 0 messages, with secrets>",
    )


def test_one_source_of_coins_a_role() -> None:
    """What it drew from two objects is one tape."""
    transcript = Transcript(secrets=True)
    first = transcript.coins("party 1", SimulationRandomness(1))
    drawn = first.draw(3) + transcript.coins("party 1", SimulationRandomness(2)).draw(2)
    assert transcript.view("party 1").tape == drawn == SimulationRandomness(1).draw(5)
