"""Sums of integer vectors with noise that the parties, or the key holders, add in shares: nobody has an exact sum."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from psephos.curator.ledger import Release, ledger_entry
from psephos.curator.statistic import (
    SOURCE_OF,
    MechanismName,
    StatisticPlan,
    StatisticRelease,
    fit_statistic,
    for_ballots,
    grid_sensitivity,
    plan_statistic,
    release_total,
    with_joint_noise,
)
from psephos.parties.noise import JointPlan, NoiseFrom, Shares, contributors, holder_shares_of, shares_of
from psephos.parties.party import checked_voter, labels_of
from psephos.parties.statistic import entry_range, own_vector
from psephos.progress import Progress, silent
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.rounds import RoundKind
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import DataError
from psephos.protocol.grids.directions import DirectionGrid
from psephos.protocol.paillier.packing import IntegerVector
from psephos.protocol.privacy.mechanisms import DiscreteGaussian
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from psephos.specs.base import OWN_SENT, VOTES_SENT, Array, SumSpec, VectorFormat
from psephos.specs.secrets import (
    CLASSIFIER,
    DATA,
    DIRECTION,
    EXACT_SUM,
    NOISE,
    OTHER_SUM,
    SIZES,
    VOTE_COUNTS,
    VOTES,
    Secret,
)
from psephos.specs.terms import COLLUDERS, PrivacyTerms, PublicTerms


def contributors_of(parties: int, privacy: PrivacyTerms) -> int:
    """Return how many parties' shares make up the noise. Raises InvalidParameter where nobody's would be left."""
    return contributors(parties, privacy.colluders, privacy.dropouts)


@dataclass(frozen=True)
class NoisySumSpec(SumSpec):
    """A sum of vectors that the parties compute from their rows or their classifiers, with noise in shares.

    Attributes:
        release_plan: what is summed, and under which noise.
        shares: the shares of the noise; None is for analyses of the exact sum.
        auxiliary: what the parties vote on, where they do.
        colluders, simulation_seed, noise_from, persons: as in `PrivacyTerms`.
    """

    parameters: ClassVar[Mapping[str, Any]] = {"colluders": COLLUDERS, "dropouts": 0}
    secrets: ClassVar[tuple[Secret, ...]] = (DATA, DIRECTION, NOISE, SIZES, EXACT_SUM, OTHER_SUM)
    kind: ClassVar[RoundKind] = "statistic"

    release_plan: Any
    shares: Shares | None = None
    auxiliary: AuxiliarySet | None = None
    colluders: int = 0
    simulation_seed: int | None = None
    noise_from: NoiseFrom = "parties"
    persons: str = ""

    @classmethod
    def private(cls, plan: JointPlan, privacy: PrivacyTerms, auxiliary: AuxiliarySet | None = None) -> Self:
        """Return the specification of a plan with the noise of these terms.

        Raises InvalidParameter as `shares_of` or `holder_shares_of` does.
        """
        if privacy.epsilon is None:
            return cls(plan, None, auxiliary)
        colluders, source = privacy.colluders, privacy.noise_from
        if source == "holders":
            shares = holder_shares_of(plan, privacy.holders, colluders=colluders)
        else:
            shares = shares_of(plan, colluders=colluders, dropouts=privacy.dropouts)
        return cls(plan, shares, auxiliary, colluders, privacy.simulation_seed, source, privacy.persons)

    @abstractmethod
    def counting(self, ballots: int) -> Any:
        """Return the plan of so many ballots, with the noise that reaches the curator: the sum of all shares."""

    @abstractmethod
    def fitted(self, opened: OpenedSum) -> Array:
        """Return the classifier of an opened sum, (d,) or (K, d); the noise is that of the ballots counted."""

    @property
    def choices(self) -> dict[str, Any]:
        """What the rules chose, as the release states it."""
        return {}

    @property
    def grid(self) -> Any:
        """Maps what a party has to the integers that are summed."""
        return self.release_plan.grid

    @property
    def entries(self) -> VectorFormat:
        return VectorFormat(self.release_plan.dimension, *entry_range(self.grid, self.party_shares))

    @property
    def sensitivities(self) -> tuple[float, float]:
        return self.release_plan.l1.value, self.release_plan.l2.value

    @property
    def norm_bound(self) -> int | None:
        """See `SumSpec.norm_bound`; a vector that lies in a ball, plus the party's share of the noise, if any."""
        ball = getattr(self.grid, "ball", None)
        if not isinstance(self.grid, DirectionGrid) and ball is None:
            return None
        radius: int = self.grid.maximum if ball is None else ball.radius
        return radius + (0 if self.party_shares is None else self.party_shares.norm_bound)

    @property
    def context(self) -> bytes:
        digest: bytes = self.grid.digest
        return digest

    @property
    def party_shares(self) -> Shares | None:
        """The shares that the parties add to their vectors; None where they add none."""
        return self.shares if self.noise_from == "parties" else None

    @property
    def holder_shares(self) -> Shares | None:
        return self.shares if self.noise_from == "holders" else None

    def noise_of(self, holder: int, randomness: Randomness = SYSTEM) -> list[int]:
        if self.simulation_seed is not None:
            randomness = SimulationRandomness(self.simulation_seed, "noise share of a holder", holder)
        return super().noise_of(holder, randomness)

    def inflation(self, ballots: int) -> float:
        """Return the variance of the noise in a sum of so many ballots, as a multiple of the whole law's."""
        if self.shares is None:
            return 1.0
        added = self.shares.parties if self.noise_from == "holders" else ballots
        return added / self.shares.contributors

    def coins(self, number: int, randomness: Randomness) -> Randomness:
        seed = self.simulation_seed
        return randomness if seed is None else SimulationRandomness(seed, "noise share", number)

    def vector(self, data: Any) -> IntegerVector:
        """See `SumSpec.vector`; `data` is the party's `Rows` and, where persons are protected, whose each row is, (n,).

        Raises DataError where persons are missing.
        """
        own = tuple(data)
        if self.persons and len(own) < 3:
            raise DataError(f"the rows come without the person of each, whom the column {self.persons} names")
        return own_vector(self.grid, *own)

    def cost(self, ballots: int) -> Release:
        plan = self.counting(ballots)
        law = "Gaussian" if isinstance(plan.mechanism, DiscreteGaussian) else "Laplace"
        noise = f"discrete {law} in shares" + (" of the key holders" if self.noise_from == "holders" else "")
        persons = {"persons": self.persons} if self.persons else {}
        chosen = self.choices | {"colluders": self.colluders} | persons
        return ledger_entry(plan.event, plan.sensitivity, noise, chosen)

    def release(self, result: OpenedSum, randomness: Randomness = SYSTEM) -> tuple[Array, Release]:
        return self.fitted(result), self.cost(result.ballots)


@dataclass(frozen=True)
class StatisticSpec(NoisySumSpec):
    """A statistic of the parties' votes on auxiliary samples, or of their own rows (docs/theory.md)."""

    methods = tuple(SOURCE_OF)
    summand = "a statistic of votes or own rows"
    sends: ClassVar[Mapping[str, str]] = {
        "statistic": VOTES_SENT,
        "vote-directions": "Each party trains a classifier on its own rows, labels the samples with it, and sends the "
        "direction in which the labelled samples differ by class.",
        **OWN_SENT,
    }
    samples_are: ClassVar[Mapping[str, str]] = {
        "statistic": "are voted on",
        "vote-directions": "are labelled by every party's classifier",
    }
    parameters: ClassVar[Mapping[str, Any]] = {
        "coordinates": str,
        **NoisySumSpec.parameters,
        "noise_from": "parties",
    }
    secrets = (*NoisySumSpec.secrets, CLASSIFIER, VOTES, VOTE_COUNTS)

    release_plan: StatisticPlan

    @classmethod
    def plan(cls, public: PublicTerms, privacy: PrivacyTerms, progress: Progress = silent) -> Self:
        plan = plan_of(public, privacy, privacy.joint_noise, joint=True)
        return cls.private(plan, privacy, public.auxiliary)

    def stated(self) -> dict[str, Any]:
        return {"coordinates": self.release_plan.transform}

    @property
    def takes_classifier(self) -> bool:
        return self.release_plan.source in ("votes", "vote-directions")

    @property
    def sensitivities(self) -> tuple[float, float]:
        l1, l2 = grid_sensitivity(self.grid)
        return l1.value, l2.value

    def vector(self, data: Any) -> IntegerVector:
        """See `SumSpec.vector`; `data` is the party's classifier where the statistic is of votes, else its `Rows`.

        Raises InvalidParameter for a classifier that has no votes.
        """
        if not self.takes_classifier:
            return own_vector(self.grid, *data)
        assert self.auxiliary is not None
        voter, samples, soft = checked_voter(data), self.auxiliary.samples, self.release_plan.source != "votes"
        exact: list[int] = self.grid.contribution(
            labels_of(voter, samples, self.grid.classes) if soft else voter.predict_votes(samples)
        )
        return exact

    def counting(self, ballots: int) -> StatisticPlan:
        """See `NoisySumSpec.counting`; the statistic is that of the mean over the ballots."""
        assert self.shares is not None
        noisy = with_joint_noise(self.release_plan, self.shares.contributors, self.shares.parties)
        return for_ballots(noisy, ballots, holder_noise=self.noise_from == "holders")

    def statistic(self, opened: OpenedSum) -> StatisticRelease:
        return release_total(self.counting(opened.ballots), list(opened.sums))

    def fitted(self, opened: OpenedSum) -> Array:
        return fit_statistic(self.statistic(opened))

    @property
    def choices(self) -> dict[str, Any]:
        return {"rank": self.release_plan.rank}


def plan_of(public: PublicTerms, privacy: PrivacyTerms, mechanism: MechanismName, *, joint: bool) -> StatisticPlan:
    """Return the plan of a statistic, in the agreed coordinates if there are any; raises as `plan_statistic`."""
    return plan_statistic(
        public.samples,
        public.classes,
        public.parties,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        mechanism=mechanism,
        source=SOURCE_OF.get(public.method, "votes"),
        transform=public.agreed.get("coordinates"),
        joint=joint,
    )
