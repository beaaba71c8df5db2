"""Averages of parameters, and of directions of own rows: what is summed, on which ball, and by whom it is divided."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from psephos.curator.hamm.rules import averaging_radius
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.grids.fixed_point import parameters_context
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.randomness import SimulationRandomness
from psephos.simulation.average import AverageOptions, simulate_average
from psephos.simulation.key_setup import setup_keys
from psephos.specs.average import AverageSpec, VectorSpec
from psephos.specs.base import Participants, VectorFormat

SMALL = AverageOptions(parties=6, key_bits=512, test_key=True, holders=3, threshold=2, workers=1, draws=1)


def test_the_round_of_an_exact_sum() -> None:
    ceremony = setup_keys(6, key_bits=256, holders=3, threshold=2, test_key=True)
    spec, coins = VectorSpec(VectorFormat(40, -7, 9), b"c" * 32), SimulationRandomness(1, "round")
    participants = Participants(ceremony.roster, 5, True, "valid", nonce=lambda key, about: coins.draw(16))
    made = spec.terms(ceremony.threshold_key, participants)
    key = ceremony.threshold_key
    plan = PackingPlan.for_key(key.key, length=40, addends=6, minimum=-7, maximum=9)
    nonce = SimulationRandomness(1, "round").draw(16)
    assert made == Round(
        "parameters", key, plan, ceremony.roster, 5, b"c" * 32, nonce, True, "valid", square_bound=40 * 81
    )
    fresh = Participants(ceremony.roster, test_key=True)
    rounds = [spec.terms(ceremony.threshold_key, fresh) for _ in range(2)]
    assert rounds[0].nonce != rounds[1].nonce
    assert rounds[0].minimum_ballots == 3


def test_the_context_contains_radius_and_fixed_point() -> None:
    assert parameters_context(0.75) == hashlib.sha256(b"psephos parameters 0x1.8000000000000p-1 24").digest()


@pytest.mark.parametrize("lam", [None, 0.01])
def test_the_average_is_that_of_projected_parameters(lam: float | None) -> None:
    """On the ball of the public rule."""
    options = replace(SMALL, methods=("avg",), lam=lam, absent=0.4, dataset="digits")
    outcome = simulate_average(options)
    radius = averaging_radius(lam or 1e-4, 10)
    assert outcome.privacy["avg"].chosen["radius"] == radius
    (opened,) = outcome.evaluation.sums["sum parameters"]
    assert opened.ballots == 4
    (w,) = (one.w for one in outcome.evaluation.scores if one.method == "avg" and one.epsilon is None)
    assert w is not None
    assert w.shape == (10, outcome.features)
    np.testing.assert_allclose(w.ravel(), np.array(opened.sums, float) / 4 / 2**24, rtol=1e-12, atol=1e-12)
    assert outcome.sensitivity["avg"] == pytest.approx(2 * radius / 4, rel=1e-2)


def test_own_data_releases_need_no_radius() -> None:
    outcome = simulate_average(replace(SMALL, methods=("whitened",)))
    assert list(outcome.privacy) == ["whitened"]
    assert AverageOptions().available == ("avg", "own-data", "whitened")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["own-data", "whitened"])
def test_the_mean_of_directions_is_over_present_parties(method: str) -> None:
    all_here = replace(SMALL, methods=(method,), dataset="digits")
    some = simulate_average(replace(all_here, absent=0.4))
    assert some.sensitivity[method] == pytest.approx(simulate_average(all_here).sensitivity[method] * 6 / 4, rel=1e-6)
    ((opened,),) = some.evaluation.sums.values()
    assert opened.ballots == 4
    assert some.privacy[method].chosen["source"] == method


@pytest.mark.parametrize("features", [1, 2, 3, 30])
def test_every_projected_vector_is_within_the_bound_that_ballots_prove(features: int) -> None:
    """A radius that is no multiple of 2^-24: a projected vector can be longer than the largest single entry."""
    generator, longest = np.random.default_rng(features), 0
    spec = AverageSpec(features, 2, 3.3, 0.1)
    for w in 100 * generator.normal(size=(300, features)):
        square = sum(unit * unit for unit in spec.encode(w))
        assert square <= spec.square_bound <= (Fraction(3.3) * 2**24) ** 2
        longest = max(longest, square)
    assert (longest > spec.entries[2] ** 2) == (1 < features < 10)
