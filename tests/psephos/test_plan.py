"""The plan's sizes are exact; its times grow as the run's do. How close the times are is measured in benchmarks/."""

from __future__ import annotations

import json

import numpy as np
import pytest

from psephos.outcomes import Outcome, PlanOutcome
from psephos.plan import PlanOptions, plan
from psephos.protocol.encrypted_sum.votes import vote_round
from psephos.protocol.errors import InvalidParameter, WeakKeyError
from psephos.protocol.transcript import BOARD, Transcript
from psephos.simulation.ceremony import hold_ceremony
from psephos.simulation.encrypted_sum import Conditions, VoteContribution, simulate_sum
from psephos.simulation.linear import LinearVoter


@pytest.fixture(scope="module")
def small() -> PlanOutcome:
    return plan(
        PlanOptions(parties=12, samples=400, classes=3, features=4, key_bits=256, holders=4, threshold=3, test_key=True)
    )


def test_bytes_are_those_of_a_run(small: PlanOutcome) -> None:
    X = np.random.default_rng(0).normal(size=(400, 4)) / 10
    assert small.degree > 1
    ceremony = hold_ceremony(12, key_bits=256, degree=small.degree, holders=4, threshold=3, test_key=True)
    round_ = vote_round(ceremony.threshold_key, ceremony.roster, X, 3, test_key=True, proofs="none")
    transcript = Transcript()
    voters = [LinearVoter(np.random.default_rng(j).normal(size=(3, 4))) for j in range(12)]
    done = simulate_sum(round_, ceremony, VoteContribution(voters, X, 3), Conditions(transcript=transcript))
    assert done.equals_plaintext
    assert small.bytes["ballot"] == done.ballot_bytes
    assert small.bytes["ballots"] == sum(m.size for m in transcript.messages if m.kind == "ballot")
    assert small.bytes["board_per_observer"] == sum(m.size for m in transcript.messages if m.receiver == BOARD)
    assert small.bytes["opening"] == sum(m.size for m in transcript.messages if m.receiver != BOARD)
    assert small.ciphertexts_per_ballot == round_.plan.ciphertexts
    assert small.slots_per_plaintext == round_.plan.slots_per_plaintext


def test_it_is_json_and_complete(small: PlanOutcome) -> None:
    assert Outcome.from_json(json.loads(json.dumps(small.as_json()))) == small
    assert small.seconds.keys() == {"keygen", "encrypt", "aggregate", "decrypt", "total"}
    phases = [small.known(phase) for phase in ("keygen", "encrypt", "aggregate", "decrypt")]
    assert small.known("total") == pytest.approx(sum(phases), abs=0.01)
    assert all(value > 0 for value in phases)
    assert small.memory_mb > 50


def full(parties: int, samples: int, classes: int, features: int) -> PlanOptions:
    return PlanOptions(parties=parties, samples=samples, classes=classes, features=features, randomness="short")


def test_bits_per_count_at_full_size() -> None:
    # KDD-99: 43,000 counts a ballot and 20,000 parties. No key of that size is made, nothing is encrypted but a sample.
    kdd = plan(full(20_000, 43_000, 2, 123))
    assert (kdd.degree, kdd.ciphertexts_per_ballot) == (4, 51)
    assert kdd.floor_bits == 15
    assert kdd.bits_per_count <= 1.4 * kdd.floor_bits
    # HAR: 5 counts for each of 1,352 samples, 1,000 parties; the last ciphertext is almost full.
    har = plan(full(1_000, 1_352, 6, 561))
    assert (har.degree, har.ciphertexts_per_ballot) == (4, 6)
    assert har.bits_per_count <= 1.4 * har.floor_bits
    # Twenty times the parties: twenty times the work, up to what is done once.
    thousand = plan(full(1_000, 43_000, 2, 123))
    assert kdd.known("encrypt") > 5 * thousand.known("encrypt")
    assert kdd.memory_mb < 2 * thousand.memory_mb


@pytest.mark.parametrize(
    "wrong",
    [
        {"parties": 1}, {"samples": 0}, {"classes": 1}, {"features": 0}, {"workers": 0}, {"threshold": 6},
        {"holders": 13, "threshold": 1}, {"key_bits": 63}, {"key_bits": 255}, {"key_bits": 100_000},
        {"randomness": "none"},
    ],
    ids=str,
)  # fmt: skip
def test_bad_input(wrong: dict) -> None:
    given = {"parties": 12, "samples": 10, "classes": 2, "key_bits": 256, "test_key": True, **wrong}
    with pytest.raises(InvalidParameter):
        plan(PlanOptions(**given))


def test_small_keys_are_named() -> None:
    with pytest.raises(WeakKeyError):
        plan(PlanOptions(parties=12, samples=10, key_bits=1024))
