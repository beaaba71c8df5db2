"""A regression: the record step for a numeric label, private for each record, or for each party."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from psephos.curator.record import UNITS, RecordPlan, party_ball
from psephos.parties.noise import shares_of
from psephos.protocol.errors import InvalidParameter, StudyError
from psephos.protocol.grids.record import NumericLabel
from psephos.specs.record import RecordSpec, agreed_grid, planned_records
from psephos.specs.study import StudyTerms

__all__ = ["RegressionSpec"]


@dataclass(frozen=True)
class RegressionSpec(RecordSpec):
    """A linear prediction of a number by one private Newton step (docs/theory.md, "The record step")."""

    parameters: ClassVar[Mapping[str, Any]] = {
        **RecordSpec.parameters,
        "unit": UNITS[0],
        "radius": 0.0,
        "low": float,
        "high": float,
        "threshold": float,
    }

    @classmethod
    def of_plan(
        cls,
        plan: RecordPlan,
        *,
        colluders: int,
        dropouts: int = 0,
        simulation_seed: int | None = None,
        persons: str = "",
    ) -> Self:
        """Return the specification of a plan with noise.

        Raises InvalidParameter for a plan of classes, persons where a party is protected, and as `shares_of` does.
        """
        if plan.grid.label is None:
            raise InvalidParameter("a regression needs a plan of a numeric label")
        if persons and plan.unit == "party":
            raise InvalidParameter(f"the column {persons} names persons, whom the unit record protects: leave it out")
        shares = shares_of(plan, colluders=colluders, dropouts=dropouts)
        return cls(plan, shares, colluders, simulation_seed, persons)

    @classmethod
    def from_study(cls, terms: StudyTerms) -> Self:
        label = NumericLabel(*(terms.value(name) for name in ("low", "high", "threshold")))
        grid, unit, radius = agreed_grid(terms, 1, label), terms.value("unit"), terms.value("radius")
        if unit not in UNITS or (unit == "party") != (radius != 0):
            raise StudyError(
                f"the unit is record, or party with a radius of the ball of a party's vector; not {unit!r} with "
                f"radius {radius:g}"
            )
        if unit == "party":
            grid = replace(grid, ball=party_ball(grid, terms.auxiliary.samples, radius))
        plan, agreed = planned_records(terms, grid)
        return cls.of_plan(plan, **agreed, persons=terms.value("record"))

    @property
    def label(self) -> NumericLabel:
        """How the label is predicted."""
        label = self.plan.grid.label
        assert label is not None
        return label

    @property
    def numeric_label(self) -> NumericLabel | None:
        return self.label

    @property
    def norm_bound(self) -> int | None:
        """See `SumSpec.norm_bound`; a party's ball and its share of the noise, or None where a record is protected."""
        ball = self.plan.grid.ball
        return None if ball is None else ball.radius + (0 if self.shares is None else self.shares.norm_bound)
