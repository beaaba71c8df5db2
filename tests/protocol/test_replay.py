"""A role's messages are a function of its inputs and its tape, so a whole run can be replayed."""

from __future__ import annotations

from typing import Any

import pytest

from psephos.audit import ScriptedRole
from psephos.curator.tally import Tally
from psephos.protocol.driver import Driver
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.encryption import RANDOMNESS_MODES, RandomnessMode
from psephos.protocol.randomness import Randomness, RecordedRandomness, ReplayedRandomness
from psephos.protocol.transcript import Transcript


def run(
    make_sample: Any, ceremony_coins: Randomness, party_coins: list[Randomness]
) -> tuple[list[bytes], tuple[int, ...]]:
    """Run a round; return the bytes of all messages, and the opened sums."""
    sample = make_sample(4, 3, 2, length=30, randomness=ceremony_coins)
    senders = [
        ScriptedRole(f"party {p}", sample.ballot(p, randomness=coins).encode()) for p, coins in enumerate(party_coins)
    ]
    transcript = Transcript(secrets=True)
    driver = Driver([*senders, Tally(sample.round), *sample.holders()], transcript=transcript)
    sums = driver.run()["curator"].sums
    assert sums == tuple(sample.sums(range(4)))
    return [message.data or b"" for message in transcript.messages], sums


def test_a_whole_run_is_replayed(make_sample: Any) -> None:
    tapes = [RecordedRandomness() for _ in range(5)]
    first = run(make_sample, tapes[0], list(tapes[1:]))
    again = [ReplayedRandomness(tape.tape()) for tape in tapes]
    assert run(make_sample, again[0], list(again[1:])) == first
    for tape in again:  # every tape was used up
        with pytest.raises(InvalidParameter):
            tape.draw(1)


def test_other_coins_give_other_messages(make_sample: Any) -> None:
    runs = [run(make_sample, RecordedRandomness(), [RecordedRandomness() for _ in range(4)]) for _ in range(2)]
    assert runs[0][1] == runs[1][1]
    assert not set(runs[0][0]) & set(runs[1][0])


@pytest.mark.parametrize("mode", RANDOMNESS_MODES)
def test_encryption_is_replayed_in_every_mode(sample: Any, mode: RandomnessMode) -> None:
    tape = RecordedRandomness()
    vector = sample.vector(sample.values(3), mode, tape)
    assert tape.tape()
    assert sample.vector(sample.values(3), mode, ReplayedRandomness(tape.tape())) == vector
    assert sample.vector(sample.values(3), mode) != vector
