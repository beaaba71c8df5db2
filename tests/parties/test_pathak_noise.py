"""A party's noise in Pathak's protocol: bounded, of the right law, and its shares sum to the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest

from psephos.parties.pathak import PathakParty
from psephos.parties.pathak_noise import noise_share, own_noise, rung_shares
from psephos.protocol.errors import GridTooCoarseError
from psephos.protocol.pathak.noise import noise_bound, noise_scale
from psephos.protocol.pathak.terms import PathakTerms
from psephos.protocol.randomness import Randomness, SimulationRandomness
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
    """All but `excluded` shares make up the law, on every rung; a narrower sum would be less private."""
    agreed = terms(variant="repaired", excluded=excluded, features=270, largest_size=10)
    randomness = SimulationRandomness(3, excluded)
    shares = [rung_shares(agreed, randomness) for _ in range(4 - excluded)]
    assert len(shares[0]) == len(agreed.ladder) == 3
    for rung, size in enumerate(agreed.ladder):
        total = np.sum([np.array(share[rung], float) for share in shares], axis=0)
        assert kstest(total / float(noise_scale(agreed, size)), "laplace").pvalue > FALSE_ALARM


def test_the_share_for_the_public_bound_has_the_smallest_size() -> None:
    agreed = terms(variant="public-bound", excluded=2, features=540)
    randomness = SimulationRandomness(6)
    total = np.sum([np.array(noise_share(agreed, 4, randomness), float) for _ in range(2)], axis=0)
    assert kstest(total / float(noise_scale(agreed, 4)), "laplace").pvalue > FALSE_ALARM


def _with_pitch(agreed: PathakTerms, exponent: int) -> dict[str, Any]:
    return {name: getattr(agreed, name) for name in PathakTerms.__dataclass_fields__} | {"pitch_exponent": exponent}


class FarOut(Randomness):
    """Coins of an exponential variable that goes on for 500 scales, of either sign in turn."""

    def __init__(self) -> None:
        self.turns, self.sign = 0, 0

    def draw(self, count: int) -> bytes:
        raise AssertionError

    def bits(self, count: int) -> int:
        self.sign ^= 1
        return self.sign

    def below(self, bound: int) -> int:
        if bound == 2:  # in the middle of whether there is one scale more: only every 500th time there is not
            self.turns += 1
            return int(self.turns % 500 == 0)
        return 2 if bound == 3 else 0


def test_noise_beyond_its_slot_is_clipped() -> None:
    agreed = terms(features=4)
    bound = noise_bound(agreed)
    assert 500 * noise_scale(agreed, 4) > bound
    assert own_noise(agreed, 4, FarOut()) == [-bound, bound] * 2


def test_a_grid_coarser_than_the_noise_is_refused() -> None:
    agreed = terms(lam=10.0, epsilon=50.0)
    coarse = PathakTerms(**_with_pitch(agreed, 0))
    with pytest.raises(GridTooCoarseError):
        PathakParty(2, np.zeros((30, 400)), np.zeros(30, int), coarse)
