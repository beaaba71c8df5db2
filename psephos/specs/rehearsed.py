"""The rehearsed step: a sum of the parties' bounded steps from a public model, with noise that they add."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from psephos.curator.ledger import Release, ledger_entry
from psephos.curator.rehearsed import RehearsedPlan, fit_rehearsed, plan_of_grid
from psephos.parties.noise import Shares, contributors, shares_of
from psephos.parties.statistic import OwnDataParty, entry_range
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.rounds import Round, RoundKind
from psephos.protocol.errors import StudyError
from psephos.protocol.grids.local_step import LocalStepGrid
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.privacy.mechanisms import DiscreteGaussian
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import OnceLedger
from psephos.specs.base import Array, SumSpec, VectorFormat, data_owner
from psephos.specs.secrets import DATA, DIRECTION, EXACT_SUM, NOISE, OTHER_SUM, SIZES, Secret
from psephos.specs.study import COLLUDERS, StudyTerms, check_dropouts

__all__ = ["RehearsedSpec"]


@dataclass(frozen=True)
class RehearsedSpec(SumSpec):
    """One step from a public model, private for each party (docs/theory.md, "The rehearsed step").

    Attributes:
        plan: what is summed, and under which noise.
        shares: the parties' shares of the noise.
        colluders: parties that may tell each other their noise, as it was agreed.
        simulation_seed: draws the noise from a seed: for simulations only.
    """

    methods: ClassVar[tuple[str, ...]] = ("rehearsed",)
    parameters: ClassVar[Mapping[str, Any]] = {
        "coordinates": str,
        "offset": str,
        "ridge": float,
        "limit": float,
        "radius": float,
        "scale": float,
        "norm": str,
        "rows": int,
        "labelled": int,
        "colluders": COLLUDERS,
        "dropouts": 0,
    }
    secrets: ClassVar[tuple[Secret, ...]] = (DATA, DIRECTION, NOISE, SIZES, EXACT_SUM, OTHER_SUM)
    kind: ClassVar[RoundKind] = "statistic"

    plan: RehearsedPlan
    shares: Shares
    colluders: int = 0
    simulation_seed: int | None = None

    @classmethod
    def from_plan(cls, plan: RehearsedPlan, *, colluders: int, dropouts: int = 0) -> Self:
        """Return the specification of a plan. Raises InvalidParameter as `shares_of` does."""
        return cls(plan, shares_of(plan, colluders=colluders, dropouts=dropouts), colluders)

    @classmethod
    def from_study(cls, terms: StudyTerms) -> Self:
        study, agreed = terms.study, {name: terms.value(name) for name in ("colluders", "dropouts")}
        check_dropouts(study, agreed["dropouts"])
        if agreed["colluders"] < 0:
            raise StudyError("colluders are not negative")
        if terms.value("norm") == "l2" and not study.delta:
            raise StudyError("a step of L2 norm takes discrete Gaussian noise, and delta is 0: choose the norm l1")
        grid = LocalStepGrid(
            terms.coordinates(),
            terms.coordinates("offset"),
            len(study.classes),
            terms.value("ridge") or math.inf,
            terms.value("limit"),
            terms.value("radius"),
            terms.value("norm"),
        )
        known = contributors(len(study.roster), **agreed)
        delta = study.delta or 1e-6  # of discrete Gaussian noise, which a study with delta 0 does not have
        plan = plan_of_grid(
            grid,
            terms.value("scale"),
            len(study.roster),
            epsilon=study.epsilon,
            delta=delta,
            contributors=known,
        )
        return cls.from_plan(plan, **agreed)

    @property
    def entries(self) -> VectorFormat:
        return VectorFormat(self.plan.dimension, *entry_range(self.plan.grid, self.shares))

    @property
    def norm_bound(self) -> int:
        """See `SumSpec.norm_bound`; a vector is a step of norm 1 plus a share of the noise."""
        return self.plan.grid.maximum + self.shares.norm_bound

    @property
    def context(self) -> bytes:
        return self.plan.grid.digest

    def party(
        self,
        number: int,
        signing_key: SigningKey,
        data: tuple[Any, ...],
        terms: Round,
        *,
        ledger: OnceLedger | None = None,
        encryptor: Encryptor | None = None,
        randomness: Randomness = SYSTEM,
    ) -> OwnDataParty:
        """See `Spec.party`; `data` is the party's `Rows`."""
        if self.simulation_seed is not None:
            randomness = SimulationRandomness(self.simulation_seed, "noise share", number)
        owner = data_owner(number, signing_key, ledger)
        grid = self.plan.grid
        return OwnDataParty(owner, terms, data, grid, self.shares, randomness=randomness, encryptor=encryptor)

    def fitted(self, opened: OpenedSum) -> Array:
        """Return the classifier of an opened sum, (d,) or (K, d); the noise is that of the ballots counted."""
        return fit_rehearsed(self.plan, list(opened.sums), opened.ballots)

    def cost(self, ballots: int) -> Release:
        """See `Spec.cost`; epsilon is the same for any number of ballots, and the sensitivity is that of their mean."""
        plan = replace(self.plan, parties=ballots)
        noise = f"discrete {'Gaussian' if isinstance(plan.mechanism, DiscreteGaussian) else 'Laplace'} in shares"
        return ledger_entry(plan.event, plan.sensitivity, noise, {"rank": plan.rank, "colluders": self.colluders})

    def release(self, result: OpenedSum, randomness: Randomness = SYSTEM) -> tuple[Array, Release]:
        return self.fitted(result), self.cost(result.ballots)
