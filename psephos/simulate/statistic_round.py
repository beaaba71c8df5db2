"""`--reveal statistic`: the parties sum their own noisy statistics, and the curator never sees anything else.

No count, no alpha: what is opened is the private statistic itself (DESIGN section 4, joint noise).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from psephos.curator.hamm.statistic import StatisticPlan
from psephos.parties.noise import PolyaShares, SkellamShares, contributors
from psephos.parties.old_party import Party, Voter
from psephos.parties.statistic import Shares, entry_range, noisy_contribution
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.statistic_grid import StatisticGrid
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.privacy.mechanisms import DiscreteLaplace, Skellam
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from psephos.protocol.signing import SigningKey
from psephos.simulate.ceremony import Ceremony

__all__ = ["StatisticContribution", "shares_of", "statistic_round"]


def shares_of(plan: StatisticPlan, *, colluders: int = 0, dropouts: int = 0) -> Shares:
    """The noise shares of a joint plan, sized so that colluders and dropouts leave the whole law to the others.

    Raises InvalidParameter when nobody would be left, or for a plan whose noise cannot be shared.
    """
    honest = contributors(plan.parties, colluders, dropouts)
    if isinstance(plan.mechanism, DiscreteLaplace):
        return PolyaShares(plan.dimension, plan.parties, honest, plan.mechanism.scale_units)
    if isinstance(plan.mechanism, Skellam):
        return SkellamShares(plan.dimension, plan.parties, honest, plan.mechanism.variance)
    raise InvalidParameter("joint noise is discrete-laplace or gaussian (Skellam); plan the statistic with joint=True")


def statistic_round(
    ceremony: Ceremony, plan: StatisticPlan, shares: Shares, *, minimum_ballots: int, test_key: bool = False
) -> Round:
    """The round of one joint statistic.

    Its minimum of ballots must leave the whole law: all but the dropouts that the shares allow for.
    """
    low, high = entry_range(plan.grid, shares)
    key = ceremony.threshold_key.key
    return Round.create(
        "statistic",
        ceremony.threshold_key,
        PackingPlan.for_key(key, length=plan.dimension, addends=plan.parties, minimum=low, maximum=high),
        ceremony.roster,
        context=plan.grid.digest,
        minimum_ballots=minimum_ballots,
        test_key=test_key,
    )


@dataclass
class StatisticContribution:
    """Every party adds its share of the noise to its own statistic and encrypts the result.

    Attributes:
        voters: one classifier per party of `numbers`, in order.
        auxiliary: float64 (N, d), what they vote on.
        grid: the public integers that votes are turned into a statistic with.
        shares: of the noise.
        first: number of the first of these parties.
        simulation_seed: None draws the shares from the operating system; a seed is for simulations.
    """

    voters: Sequence[Voter] = field(repr=False)
    auxiliary: NDArray[np.float64] = field(repr=False)
    grid: StatisticGrid = field(repr=False)
    shares: Shares
    first: int = 0
    simulation_seed: int | None = None

    def __post_init__(self) -> None:
        self._encrypted: dict[int, list[int]] = {}

    def part(self, numbers: range) -> StatisticContribution:
        """The same for these parties only."""
        chosen = self.voters[numbers.start - self.first : numbers.stop - self.first]
        return replace(self, voters=chosen, first=numbers.start)

    def ballots(
        self, round_: Round, numbers: range, keys: Sequence[SigningKey], encryptor: Encryptor
    ) -> Iterator[Ballot]:
        """The ballots of these parties; what each encrypts is kept for `clear_sum`, in this process only."""
        for number, key in zip(numbers, keys, strict=True):
            votes = self.voters[number - self.first].predict_votes(self.auxiliary)
            vector = noisy_contribution(self.grid, votes, self.shares, self._randomness(number))
            self._encrypted[number] = vector
            party = Party(number, key, classes=range(self.grid.classes))
            yield party.contribute(round_, "statistic", self.grid.digest, vector, encryptor=encryptor)

    def clear_sum(self, round_: Round, numbers: range) -> NDArray[np.object_]:
        """The exact sum of the same noisy vectors, which `ballots` has drawn."""
        return np.asarray(np.array([self._encrypted[number] for number in numbers], dtype=object).sum(axis=0))

    def _randomness(self, number: int) -> Randomness:
        if self.simulation_seed is None:
            return SYSTEM
        return SimulationRandomness(self.simulation_seed, "noise share", number)
