"""The record step: a sum over the parties' rows with noise that they add, private for each record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from psephos.curator.ledger import Release, ledger_entry
from psephos.curator.record import RecordPlan, fit_records, plan_records, release_records
from psephos.parties.noise import Shares, contributors, shares_of
from psephos.parties.statistic import OwnDataParty, entry_range
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.rounds import Round, RoundKind
from psephos.protocol.errors import DataError, StudyError
from psephos.protocol.grids.record import Norm, NumericLabel, RecordGrid
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.privacy.mechanisms import DiscreteGaussian
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import OnceLedger
from psephos.specs.base import Array, SumSpec, VectorFormat, data_owner
from psephos.specs.secrets import DATA, DIRECTION, EXACT_SUM, NOISE, OTHER_SUM, SIZES, Secret
from psephos.specs.study import COLLUDERS, StudyTerms, check_dropouts

__all__ = ["RecordSpec", "agreed_grid", "planned_records"]


@dataclass(frozen=True)
class RecordSpec(SumSpec):
    """One private Newton step from a public score (docs/theory.md, "The record step").

    Attributes:
        plan: what is summed, and under which noise.
        shares: the parties' shares of the noise; None is for analyses of the exact sum.
        colluders: parties that may tell each other their noise, as it was agreed.
        simulation_seed: draws the noise from a seed: for simulations only.
        persons: the column of the parties' tables that names persons, where a person with all rows at a party is
            protected; "" where every row is a record of its own.
    """

    methods: ClassVar[tuple[str, ...]] = ("newton",)
    parameters: ClassVar[Mapping[str, Any]] = {
        "coordinates": str,
        "offset": str,
        "constant": float,
        "rows": int,
        "labelled": 0,
        "record": "",
        "colluders": COLLUDERS,
        "dropouts": 0,
    }
    unit: ClassVar[str] = "record"
    secrets: ClassVar[tuple[Secret, ...]] = (DATA, DIRECTION, NOISE, SIZES, EXACT_SUM, OTHER_SUM)
    kind: ClassVar[RoundKind] = "statistic"

    plan: RecordPlan
    shares: Shares | None
    colluders: int = 0
    simulation_seed: int | None = None
    persons: str = ""

    @classmethod
    def from_plan(
        cls,
        plan: RecordPlan,
        *,
        colluders: int,
        dropouts: int = 0,
        simulation_seed: int | None = None,
        persons: str = "",
    ) -> Self:
        """Return the specification of a plan with noise. Raises InvalidParameter as `shares_of` does."""
        shares = shares_of(plan, colluders=colluders, dropouts=dropouts)
        return cls(plan, shares, colluders, simulation_seed, persons)

    @classmethod
    def from_study(cls, terms: StudyTerms) -> Self:
        plan, agreed = planned_records(terms, agreed_grid(terms, len(terms.study.classes)))
        return cls.from_plan(plan, **agreed, persons=terms.value("record"))

    @property
    def entries(self) -> VectorFormat:
        return VectorFormat(self.plan.dimension, *entry_range(self.plan.grid, self.shares))

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
        """See `Spec.party`; `data` is the party's `Rows` and, where persons are protected, their persons.

        The persons are integers, (n,), one for each row. Raises DataError where they are missing.
        """
        if self.persons and len(tuple(data)) < 3:
            raise DataError(f"the rows come without the person of each, whom the column {self.persons} names")
        if self.simulation_seed is not None:
            randomness = SimulationRandomness(self.simulation_seed, "noise share", number)
        owner = data_owner(number, signing_key, ledger)
        grid = self.plan.grid
        return OwnDataParty(owner, terms, data, grid, self.shares, randomness=randomness, encryptor=encryptor)

    def fitted(self, opened: OpenedSum) -> Array:
        """Return the classifier of an opened sum, (d,) or (K, d); the noise is that of the ballots counted."""
        assert self.shares is not None
        noise = opened.ballots / self.shares.contributors
        plan = replace(self.plan, inflation=noise, parties=opened.ballots)
        return fit_records(release_records(plan, list(opened.sums)))

    def cost(self, ballots: int) -> Release:
        """See `Spec.cost`; the cost does not depend on the number of ballots."""
        plan = self.plan
        noise = f"discrete {'Gaussian' if isinstance(plan.mechanism, DiscreteGaussian) else 'Laplace'} in shares"
        chosen: dict[str, Any] = {
            "rank": plan.rank,
            "rows": plan.rows,
            "colluders": self.colluders,
        }
        if self.persons:
            chosen["persons"] = self.persons
        return ledger_entry(plan.event, plan.sensitivity, noise, chosen)

    def release(self, result: OpenedSum, randomness: Randomness = SYSTEM) -> tuple[Array, Release]:
        return self.fitted(result), self.cost(result.ballots)


def agreed_grid(terms: StudyTerms, classes: int, label: NumericLabel | None = None) -> RecordGrid:
    """Return the coordinates and score that a study states; raises StudyError or InvalidParameter for others."""
    norm: Norm = "l2" if terms.study.delta > 0 else "l1"
    coordinates, offset = terms.coordinates(), terms.coordinates("offset")
    return RecordGrid(coordinates, terms.value("constant"), offset, classes, norm, label)


def planned_records(terms: StudyTerms, grid: RecordGrid) -> tuple[RecordPlan, dict[str, int]]:
    """Return the plan of a study, and its numbers of colluders and dropouts.

    Raises StudyError for numbers that cannot be, and what `plan_records` raises.
    """
    study, agreed = terms.study, {name: terms.value(name) for name in ("colluders", "dropouts")}
    check_dropouts(study, agreed["dropouts"])
    if agreed["colluders"] < 0 or terms.value("labelled") < 0:
        raise StudyError("colluders and labelled are not negative")
    plan = plan_records(
        terms.auxiliary.samples,
        None,
        grid.classes,
        len(study.roster),
        rows=terms.value("rows"),
        epsilon=study.epsilon,
        delta=study.delta,
        mechanism="gaussian" if study.delta > 0 else "discrete-laplace",
        contributors=contributors(len(study.roster), **agreed),
        grid=grid,
        labelled=terms.value("labelled"),
    )
    return plan, agreed
