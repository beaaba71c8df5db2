"""A party's noise in Pathak's protocol: bounded, of the right law, and its shares sum to the whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest

from psephos.parties import pathak
from psephos.parties.noise import PolyaShares
from psephos.parties.pathak import PathakParty, bucket_shares, noise_share, own_noise
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.pathak.messages import Proposal
from psephos.protocol.pathak.noise import noise_scale
from psephos.protocol.pathak.terms import PathakTerms
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.roles import Entry
from psephos.simulation.pathak import make_terms
from tests.statistical import FALSE_ALARM

# All seeds are fixed; each test's false-alarm rate over seeds is at most 1e-9 (`tests.statistical`).


def terms(**changes: Any) -> PathakTerms:
    options: dict[str, Any] = {
        "parties": 4,
        "features": 400,
        "lam": 0.5,
        "epsilon": 1.0,
        "smallest_size": 4,
        "largest_size": 40,
        "variant": "printed",
    }
    return make_terms(**(options | changes))


def test_printed_laplace_noise_has_the_papers_scale() -> None:
    agreed, randomness = terms(), SimulationRandomness(1)
    noise = np.concatenate([own_noise(agreed, 10, randomness) for _ in range(9)])
    scale = 4 * 2 / (10 * 1.0 * 0.5) / agreed.pitch  # K times 2/(n epsilon lambda), on the grid
    assert kstest(noise / scale, "laplace").pvalue > FALSE_ALARM


@pytest.mark.parametrize("excluded", [1, 2])
def test_counted_shares_sum_to_discrete_laplace(excluded: int) -> None:
    """All but `excluded` shares make up the law, on every bucket; a narrower sum would be less private."""
    agreed = terms(variant="repaired", excluded=excluded, features=270, largest_size=10)
    randomness = SimulationRandomness(3, excluded)
    shares = [bucket_shares(agreed, randomness) for _ in range(4 - excluded)]
    assert len(shares[0]) == len(agreed.buckets) == 3
    for bucket, size in enumerate(agreed.buckets):
        total = np.sum([np.array(share[bucket], float) for share in shares], axis=0)
        assert kstest(total / float(noise_scale(agreed, size)), "laplace").pvalue > FALSE_ALARM


def test_the_share_for_the_public_bound_has_the_smallest_size() -> None:
    agreed = terms(variant="public-bound", excluded=2, features=540)
    randomness = SimulationRandomness(6)
    total = np.sum([np.array(noise_share(agreed, 4, randomness), float) for _ in range(2)], axis=0)
    assert kstest(total / float(noise_scale(agreed, 4)), "laplace").pvalue > FALSE_ALARM


def test_what_is_excluded_and_the_public_bound_set_the_share_that_a_party_adds() -> None:
    """From the same coins: shares of all but the excluded parties, at the scale of the smallest size."""
    agreed = terms(variant="public-bound", excluded=2, features=40)
    expected = tuple(PolyaShares(40, 4, 2, noise_scale(agreed, 4)).share(SimulationRandomness(6)))
    role = PathakParty(1, np.zeros((30, 40)), np.zeros(30, int), agreed, noise_randomness=SimulationRandomness(6))
    data = Proposal(agreed, None).encode(agreed.digest)
    step = role.receive(role.start().state, [Entry(1, "curator", role.name, data)])
    contribution = role.result(step.state)
    assert contribution is not None
    assert contribution.noise == (expected,)


def test_noise_beyond_its_slot_is_clipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same coins under a bound that is often reached: what lies within is as it was."""
    agreed = terms(features=40)
    free = own_noise(agreed, 4, SimulationRandomness(1))
    bound = int(noise_scale(agreed, 4))
    assert max(free) > bound > -bound > min(free)
    monkeypatch.setattr(pathak, "noise_bound", lambda terms: bound)
    clipped = own_noise(agreed, 4, SimulationRandomness(1))
    assert clipped == tuple(max(-bound, min(bound, entry)) for entry in free)


def test_a_grid_coarser_than_the_noise_is_refused() -> None:
    agreed = terms(lam=10.0, epsilon=50.0)
    coarse = replace(agreed, pitch_exponent=0)
    with pytest.raises(InvalidParameter):
        PathakParty(2, np.zeros((30, 400)), np.zeros(30, int), coarse)
