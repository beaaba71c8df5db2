"""Tests of `psephos plan`: exact sizes, and times that grow with the run.

benchmarks/ compares the predicted times with measured ones.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.experiments.plan import PlanOptions, plan
from psephos.experiments.plan import _lengths as lengths
from psephos.experiments.plan import _proved_lengths as proved_lengths
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.votes import AuxiliarySet, vote_round
from psephos.protocol.errors import InvalidParameter, WeakKeyError
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.transcript import BOARD, Transcript
from psephos.results import PlanResult, Result
from psephos.simulation.average import AverageOptions, simulate_average
from psephos.simulation.encrypted_sum import PartyFactory, RunConfig, simulate_sum
from psephos.simulation.key_setup import setup_keys
from psephos.simulation.linear import LinearVoter
from psephos.simulation.psgd import PsgdOptions, simulate_psgd
from psephos.specs.tally import TallySpec

TEST_KEY: dict[str, Any] = {"key_bits": 256, "test_key": True, "holders": 4, "threshold": 3, "workers": 1}
"""256 bits protect nothing: the formats and the arithmetic of a plan do not depend on them."""


@pytest.fixture(scope="module")
def small() -> PlanResult:
    return plan(PlanOptions(parties=12, samples=400, classes=3, features=4, **TEST_KEY))


def test_predicted_bytes_equal_those_of_a_run(small: PlanResult) -> None:
    X = np.random.default_rng(0).normal(size=(400, 4)) / 10
    assert small.degree > 1
    ceremony = setup_keys(12, key_bits=256, degree=small.degree, holders=4, threshold=3, test_key=True)
    round_ = vote_round(ceremony.threshold_key, ceremony.roster, X, 3, test_key=True, proofs="none")
    transcript = Transcript()
    voters = [LinearVoter(np.random.default_rng(j).normal(size=(3, 4))) for j in range(12)]
    done = simulate_sum(
        round_, ceremony, PartyFactory(TallySpec(AuxiliarySet.of(X), 3), voters), RunConfig(transcript=transcript)
    )
    assert done.equals_plaintext
    assert small.bytes["ballot"] == done.ballot_bytes
    assert small.bytes["ballots"] == sum(m.size for m in transcript.messages if m.kind == "ballot")
    assert small.bytes["board_per_observer"] == sum(m.size for m in transcript.messages if m.receiver == BOARD)
    assert small.bytes["opening"] == sum(m.size for m in transcript.messages if m.receiver != BOARD)
    assert small.ciphertexts_per_ballot == round_.plan.ciphertexts
    assert small.slots_per_plaintext == round_.plan.slots_per_plaintext


def test_outcome_has_every_phase_and_round_trips_through_json(small: PlanResult) -> None:
    assert Result.from_json(json.loads(json.dumps(small.as_json()))) == small
    phases = ["keygen", "encrypt", "aggregate", "decrypt"]
    assert small.memory_mb > 50
    assert 0 < small.cores < 1.5  # in one process
    for seconds in (small.seconds_at_least, small.seconds, small.seconds_at_most):
        assert list(seconds) == [*phases, "total"]
        assert seconds["total"] == pytest.approx(sum(seconds[phase] or 0 for phase in phases), abs=0.01)
    longer = plan(PlanOptions(parties=12, samples=40_000, classes=3, features=4, **TEST_KEY))
    for phase in phases:  # with 40,000 samples each takes tens of milliseconds; predictions are rounded to 1 ms
        assert 0 < longer.seconds_at_least[phase] < longer.known(phase) < longer.seconds_at_most[phase]


@pytest.mark.slow
def test_time_and_traffic_grow_with_the_parties(small: PlanResult) -> None:
    larger = plan(PlanOptions(parties=1200, samples=400, classes=3, features=4, **TEST_KEY))
    assert larger.known("encrypt") > 20 * small.known("encrypt")
    assert larger.bytes["ballots"] > 99 * small.bytes["ballots"]


@given(st.integers(1, 500), st.floats(1e-4, 1e4))
def test_trial_runs_have_two_lengths_unless_one_is_the_whole_ballot(ciphertexts: int, per_ciphertext: float) -> None:
    short, long = lengths(ciphertexts, per_ciphertext)
    assert 1 <= short <= long <= ciphertexts
    assert short < long or long == ciphertexts


@given(st.integers(1, 500), st.floats(1e-4, 1e4))
def test_trial_ballots_with_proofs_are_doubled_until_a_batch_takes_a_second(ciphertexts: int, each: float) -> None:
    short, long = proved_lengths(ciphertexts, lambda count: each * count)
    assert 1 <= short <= long <= ciphertexts
    assert short < long or ciphertexts == 1
    assert long == ciphertexts or each * long >= 1.0
    assert long <= 2 or each * short < 1.0


def test_sizes_of_parameters_and_gradients_equal_those_of_a_run() -> None:
    run = simulate_average(
        AverageOptions(dataset="breast-cancer", parties=6, methods=("avg",), draws=1, min_ballots=2, **TEST_KEY)
    )
    average = plan(PlanOptions(protocol="average", parties=6, features=run.features, **TEST_KEY))
    assert (average.bytes["ballot"], average.degree) == (run.bytes_per_ballot, run.degree)
    key = {name: value for name, value in TEST_KEY.items() if name != "workers"}
    descent = simulate_psgd(PsgdOptions(dataset="breast-cancer", parties=6, steps=3, delta=1e-3, **key))
    steps = plan(PlanOptions(protocol="psgd", parties=6, features=descent.features, steps=3, **TEST_KEY))
    assert list(steps.seconds) == ["keygen", "prepare", "steps", "total"]
    assert steps.bytes == {"ballot": descent.bytes_per_ballot, "ballots": 18 * descent.bytes_per_ballot}


@pytest.mark.parametrize(
    ("parties", "samples", "classes", "ciphertexts"), [(20_000, 43_000, 2, 51), (1_000, 1_352, 6, 6)]
)
def test_bits_per_count_at_the_sizes_of_the_paper(parties: int, samples: int, classes: int, ciphertexts: int) -> None:
    # KDD-99 and HAR. Sizes do not depend on the factors of the modulus, so 2^3072 - 1 will do.
    options = PlanOptions(parties=parties, samples=samples, classes=classes)
    key = PublicKey(2**3072 - 1, form="psephos", degree=options.key_degree)
    packing = options.packing(key, options.entries[0])
    assert (key.degree, packing.ciphertexts) == (4, ciphertexts)
    bits = 8 * (Ballot.OVERHEAD_BYTES + ciphertexts * key.ciphertext_bytes) / packing.length
    assert bits <= 1.4 * math.ceil(math.log2(parties + 1))


@pytest.mark.parametrize(
    "wrong",
    [
        {"parties": 1}, {"samples": 0}, {"classes": 1}, {"features": 0}, {"workers": 0}, {"threshold": 6},
        {"holders": 13, "threshold": 1}, {"key_bits": 63}, {"key_bits": 255}, {"key_bits": 100_000},
        {"randomness": "none"}, {"protocol": "gossip"}, {"samples": None}, {"protocol": "psgd", "classes": 3},
        {"protocol": "psgd", "proofs": "valid"}, {"protocol": "psgd", "degree": 2}, {"protocol": "psgd", "steps": 0},
        {"protocol": "average", "proofs": "valid"}, {"degree": 5}, {"proofs": "some"},
        {"proofs": "valid", "randomness": "full"},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_options_are_rejected(wrong: dict) -> None:
    options = {"parties": 12, "samples": 10, "classes": 2, "key_bits": 256, "test_key": True, **wrong}
    with pytest.raises(InvalidParameter):
        plan(PlanOptions(**options))


def test_short_keys_need_the_test_key_option() -> None:
    with pytest.raises(WeakKeyError):
        plan(PlanOptions(parties=12, samples=10, key_bits=1024))
