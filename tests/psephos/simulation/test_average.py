"""Sums of parameters and of directions of own rows: what is summed, with whose noise, and by whom it is divided."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from psephos.curator.hamm.rules import averaging_radius
from psephos.data.partition import load_split
from psephos.parties.party import VectorParty
from psephos.progress import silent
from psephos.protocol.errors import AlreadyCastError
from psephos.simulation.experiment import PROTOCOLS
from psephos.simulation.options import AverageOptions, HeadOptions, TallyOptions
from psephos.simulation.sums import populate
from psephos.simulation.tally import simulate_average, simulate_tally
from psephos.specs.exact import AverageSpec

SMALL = AverageOptions(parties=6, key_bits=512, test_key=True, holders=3, threshold=2, workers=1, draws=1)


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


JOINT = TallyOptions(
    parties=40, key_bits=512, test_key=True, holders=3, threshold=2, workers=1, epsilon=(5.0,), reveal="statistic"
)
CURATOR = AverageOptions(
    parties=40, key_bits=512, test_key=True, holders=3, threshold=2, workers=1, methods=("own-data",), draws=1
)


@pytest.mark.parametrize("mechanism", ["discrete-laplace", "gaussian"])
@pytest.mark.parametrize("method", ["statistic", "own-data", "vote-directions"])
def test_sums_with_ballots_that_are_proved_to_be_bounded(method: str, mechanism: str) -> None:
    options = replace(JOINT, parties=6, methods=(method,), mechanism=mechanism, colluders=1, proofs="valid")
    result = simulate_tally(replace(options, key_bits=1024))
    assert result.as_json()["tally_equals_plaintext"] is True
    assert result.trust().proved == "bounded"  # no ballot has votes to prove


def test_a_mean_of_heads_is_that_of_clipped_classifiers() -> None:
    options = HeadOptions(parties=6, key_bits=512, test_key=True, holders=3, radius=0.5, **PROTOCOLS["head"].fixed)
    trained = populate(*load_split(options), silent).trained.parameters
    norms = np.linalg.norm(trained, axis=1, keepdims=True)
    exact = next(score.w for score in simulate_tally(options).evaluation.scores if score.method == "mean")
    np.testing.assert_allclose(exact, np.mean(trained * np.minimum(1, 0.5 / norms), axis=0), atol=1e-6)


def test_own_data_is_given_to_one_exact_sum() -> None:
    """Asked again in the same round it answers the identical ballot; in another round it refuses."""
    seen: list[VectorParty] = []

    def keep(role):  # type: ignore[no-untyped-def]
        seen.append(role)
        return role

    options = replace(CURATOR, parties=3, holders=3)
    simulate_average(options, roles={"party 0": keep})
    simulate_average(options, roles={"party 0": keep})
    one, two = seen
    asked = (one.kind, one.round.context)
    again = VectorParty(one.party, one.round, *asked, two._values)._start()
    assert again.posts == one._start().posts
    other = replace(one.round, nonce=two.round.nonce)
    with pytest.raises(AlreadyCastError):
        VectorParty(one.party, other, *asked, one._values)._start()


def test_a_journal_keeps_the_salt(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """A run on private auxiliary samples goes on from its journal: the round is about the same commitment."""
    options = replace(JOINT, reveal="alpha", parties=5, protect_auxiliary=True, journal=str(tmp_path / "journal"))
    assert simulate_tally(options).as_json()["continued_from"] == 0
    assert simulate_tally(options).as_json()["continued_from"] > 0


def test_salted_commitments_hide_private_auxiliary_samples() -> None:
    """Two runs on the same samples name different rounds: a guess of the samples cannot be compared with the board."""
    options = replace(JOINT, reveal="alpha", parties=5, protect_auxiliary=True)
    rounds = []

    def seen(role):  # type: ignore[no-untyped-def]
        rounds.append(role.round)
        return role

    for _ in range(2):
        simulate_tally(options, roles={"party 0": seen})
    votes = [one for one in rounds if one.kind == "votes"]
    assert len({one.context for one in votes}) == len(votes) == 2
