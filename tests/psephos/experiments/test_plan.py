"""Tests of `psephos plan`: exact sizes, and times that grow with the run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from psephos.experiments.plan import PlanOptions, plan
from psephos.parties.training import LinearVoter
from psephos.protocol.encrypted_sum.votes import AuxiliarySet, vote_round
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.roles import BOARD
from psephos.protocol.transcript import Transcript
from psephos.results.papers import PlanResult
from psephos.simulation.encrypted_sum import PartyFactory, RunConfig, simulate_sum
from psephos.simulation.key_setup import setup_keys
from psephos.simulation.options import AverageOptions
from psephos.simulation.psgd import PsgdOptions, simulate_psgd
from psephos.simulation.tally import simulate_average
from psephos.specs.exact import TallySpec

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


def test_sizes_of_parameters_and_gradients_equal_those_of_a_run() -> None:
    run = simulate_average(
        AverageOptions(dataset="breast-cancer", parties=6, methods=("avg",), draws=1, min_ballots=2, **TEST_KEY)
    )
    average = plan(PlanOptions(protocol="average", parties=6, features=run.features, **TEST_KEY))
    assert (average.bytes["ballot"], average.degree) == (run.bytes_per_ballot, run.degree)
    key = {name: value for name, value in TEST_KEY.items() if name != "workers"}
    descent = simulate_psgd(PsgdOptions(dataset="breast-cancer", parties=6, steps=3, delta=1e-3, **key))
    steps = plan(PlanOptions(protocol="psgd", parties=6, features=descent.features, steps=3, **TEST_KEY))
    assert steps.bytes == {"ballot": descent.bytes_per_ballot, "ballots": 18 * descent.bytes_per_ballot}


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
