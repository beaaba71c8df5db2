"""Linear statistics of votes or of own rows, with noise that the parties add: nobody ever has an exact sum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, get_args

from psephos.curator.ledger import Release, ledger_entry
from psephos.curator.statistic import (
    SOURCE_OF,
    MechanismName,
    StatisticPlan,
    StatisticRelease,
    fit_statistic,
    for_ballots,
    plan_statistic,
    release_total,
    with_joint_noise,
)
from psephos.parties.noise import NoiseFrom, Shares, holder_shares_of, shares_of
from psephos.parties.party import RoundParty
from psephos.parties.statistic import OwnDataParty, StatisticParty, entry_range
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.rounds import Round, RoundKind, safe_confirmations
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import StudyError
from psephos.protocol.grids.directions import DirectionGrid
from psephos.protocol.grids.own_data import OwnDataGrid
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.privacy.mechanisms import DiscreteGaussian
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import OnceLedger
from psephos.specs.base import Array, SumSpec, VectorFormat, data_owner
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
from psephos.specs.study import COLLUDERS, StudyTerms, check_dropouts

__all__ = ["StatisticSpec"]


@dataclass(frozen=True)
class StatisticSpec(SumSpec):
    """A statistic of the parties' votes on auxiliary samples, or of their own rows (docs/theory.md).

    Attributes:
        plan: what is summed, and under which noise.
        shares: the shares of the noise; None is for analyses of the exact sum.
        auxiliary: what the parties vote on; None where the statistic is of own rows.
        colluders: parties (or key holders, where these add the noise) that may tell each other their noise, as it was
            agreed.
        simulation_seed: draws the noise from a seed: for simulations only.
    """

    methods: ClassVar[tuple[str, ...]] = tuple(SOURCE_OF)
    parameters: ClassVar[Mapping[str, Any]] = {
        "coordinates": str,
        "colluders": COLLUDERS,
        "dropouts": 0,
        "noise_from": "parties",
    }
    secrets: ClassVar[tuple[Secret, ...]] = (
        DATA,
        CLASSIFIER,
        VOTES,
        DIRECTION,
        NOISE,
        SIZES,
        VOTE_COUNTS,
        EXACT_SUM,
        OTHER_SUM,
    )
    kind: ClassVar[RoundKind] = "statistic"

    plan: StatisticPlan
    shares: Shares | None
    auxiliary: AuxiliarySet | None = None
    colluders: int = 0
    simulation_seed: int | None = None
    noise_from: NoiseFrom = "parties"

    @classmethod
    def from_plan(
        cls,
        plan: StatisticPlan,
        auxiliary: AuxiliarySet | None,
        *,
        colluders: int,
        dropouts: int = 0,
        simulation_seed: int | None = None,
        holders: int = 0,
    ) -> Self:
        """Return the specification of a joint plan. Raises InvalidParameter as `shares_of` or `holder_shares_of` does.

        `holders`: the number of key holders where these add the noise; 0 where the parties do.
        """
        if holders:
            shares = holder_shares_of(plan, holders, colluders=colluders)
            return cls(plan, shares, auxiliary, colluders, simulation_seed, "holders")
        shares = shares_of(plan, colluders=colluders, dropouts=dropouts)
        return cls(plan, shares, auxiliary, colluders, simulation_seed)

    @classmethod
    def from_study(cls, terms: StudyTerms) -> Self:
        study, dropouts = terms.study, terms.value("dropouts")
        check_dropouts(study, dropouts)
        agreed = {"colluders": terms.value("colluders"), "dropouts": dropouts, "holders": noise_holders(terms)}
        return cls.from_plan(planned(terms, joint=True), terms.auxiliary, **agreed)

    @property
    def takes_classifier(self) -> bool:
        return self.plan.source in ("votes", "vote-directions")

    @property
    def entries(self) -> VectorFormat:
        return VectorFormat(self.plan.dimension, *entry_range(self.plan.grid, self._party_shares))

    @property
    def _party_shares(self) -> Shares | None:
        """The shares that the parties add to their vectors; None where they add none."""
        return self.shares if self.noise_from == "parties" else None

    @property
    def holder_shares(self) -> Shares | None:
        return self.shares if self.noise_from == "holders" else None

    def noise_of(self, holder: int, randomness: Randomness = SYSTEM) -> list[int]:
        if self.simulation_seed is not None:
            randomness = SimulationRandomness(self.simulation_seed, "noise share of a holder", holder)
        return super().noise_of(holder, randomness)

    @property
    def norm_bound(self) -> int | None:
        """See `SumSpec.norm_bound`; a vector is a direction of norm 1 plus the party's share of the noise, if any."""
        if not isinstance(self.plan.grid, DirectionGrid):
            return None
        return self.plan.grid.maximum + (0 if self._party_shares is None else self._party_shares.norm_bound)

    @property
    def context(self) -> bytes:
        return self.plan.grid.digest

    def party(
        self,
        number: int,
        signing_key: SigningKey,
        data: Any,
        terms: Round,
        *,
        ledger: OnceLedger | None = None,
        encryptor: Encryptor | None = None,
        randomness: Randomness = SYSTEM,
    ) -> RoundParty:
        """See `Spec.party`; `data` is the party's classifier where the statistic is of votes, otherwise its `Rows`."""
        if self.simulation_seed is not None:
            randomness = SimulationRandomness(self.simulation_seed, "noise share", number)
        coins: dict[str, Any] = {"randomness": randomness, "encryptor": encryptor}
        grid = self.plan.grid
        if isinstance(grid, OwnDataGrid):
            return OwnDataParty(data_owner(number, signing_key, ledger), terms, data, grid, self._party_shares, **coins)
        assert self.auxiliary is not None
        owner = data_owner(number, signing_key, ledger, classes=range(grid.classes), voter=data)
        return StatisticParty(owner, terms, self.auxiliary, grid, self._party_shares, **coins)

    def noisy_plan(self, ballots: int) -> StatisticPlan:
        """Return the plan of so many ballots, with the noise that reaches the curator: the sum of all shares."""
        assert self.shares is not None
        noisy = with_joint_noise(self.plan, self.shares.contributors, self.shares.parties)
        return for_ballots(noisy, ballots, holder_noise=self.noise_from == "holders")

    def statistic(self, opened: OpenedSum) -> StatisticRelease:
        """Return the noisy statistic that the opened sum stands for."""
        return release_total(self.noisy_plan(opened.ballots), list(opened.sums))

    def cost(self, ballots: int) -> Release:
        """See `Spec.cost`; epsilon is the same for any number of ballots, and the sensitivity is that of their mean."""
        law = "Gaussian" if isinstance(self.plan.mechanism, DiscreteGaussian) else "Laplace"
        noise = f"discrete {law} in shares" + (" of the key holders" if self.noise_from == "holders" else "")
        plan = self.noisy_plan(ballots)
        chosen = {"rank": plan.rank, "colluders": self.colluders}
        return ledger_entry(plan.event, plan.sensitivity, noise, chosen)

    def release(self, result: OpenedSum, randomness: Randomness = SYSTEM) -> tuple[Array, Release]:
        return fit_statistic(self.statistic(result)), self.cost(result.ballots)


def noise_holders(terms: StudyTerms) -> int:
    """Return the number of key holders of a study that add the noise; 0 where the parties do.

    Raises StudyError for noise from anybody else, or too few confirmations of what is opened.
    """
    study, source = terms.study, terms.value("noise_from")
    if source not in get_args(NoiseFrom):
        raise StudyError(f"noise_from is {' or '.join(get_args(NoiseFrom))}, not {source!r}")
    if source == "parties":
        return 0
    holders = len(study.holders)
    if study.confirmations < (least := safe_confirmations(holders, study.threshold)):
        raise StudyError(
            f"where the key holders add the noise, {least} of {holders} must confirm what they open, and the study "
            f"asks for {study.confirmations}: two sums with the same noise would disclose their difference"
        )
    return holders


def planned(terms: StudyTerms, *, joint: bool) -> StatisticPlan:
    """Return the plan of a study whose parameter `coordinates` fixes the public coordinates.

    Raises StudyError for coordinates that do not fit, and what `plan_statistic` raises.
    """
    study = terms.study
    noise: MechanismName = "gaussian" if study.delta else "discrete-laplace" if joint else "spherical-laplace"
    return plan_statistic(
        terms.auxiliary.samples,
        len(study.classes),
        len(study.roster),
        epsilon=study.epsilon,
        delta=study.delta,
        mechanism=noise,
        source=SOURCE_OF.get(study.method, "votes"),
        transform=terms.coordinates(),
        joint=joint,
    )
