"""A regression: the record step for a numeric label, private for each record, or for each party."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from psephos.curator.hamm.records import UNITS, RecordPlan, party_ball
from psephos.parties.noise import shares_of
from psephos.protocol.encrypted_sum.record_grid import NumericLabel
from psephos.protocol.errors import InvalidParameter, StudyError
from psephos.specs.base import Array
from psephos.specs.record import RecordSpec, agreed_grid, planned_records
from psephos.specs.study import StudyTerms

__all__ = ["RegressionSpec", "encode_ranges"]


@dataclass(frozen=True)
class RegressionSpec(RecordSpec):
    """A linear prediction of a number by one private Newton step from a public one (docs/theory.md, "The record step").

    Attributes:
        ranges: smallest and largest value of each encoded feature, float64 (2, d), into which rows are clipped before
            they are scaled.
    """

    parameters: ClassVar[Mapping[str, Any]] = {
        **RecordSpec.parameters,
        "unit": UNITS[0],
        "radius": 0.0,
        "ranges": str,
        "low": float,
        "high": float,
        "threshold": float,
    }

    ranges: Array = field(default_factory=lambda: np.empty((2, 0)), repr=False)

    @classmethod
    def of_plan(
        cls,
        plan: RecordPlan,
        ranges: Array,
        *,
        colluders: int,
        dropouts: int = 0,
        simulation_seed: int | None = None,
        persons: str = "",
    ) -> Self:
        """Return the specification of a plan with noise, whose rows are clipped to `ranges`.

        Raises InvalidParameter for a plan of classes, persons where a party is protected, and as `shares_of` does.
        """
        if plan.grid.label is None:
            raise InvalidParameter("a regression needs a plan of a numeric label")
        if persons and plan.unit == "party":
            raise InvalidParameter(f"the column {persons} names persons, whom the unit record protects: leave it out")
        shares = shares_of(plan, colluders=colluders, dropouts=dropouts)
        return cls(plan, shares, colluders, simulation_seed, persons, ranges)

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
            if terms.value("neighbours") != "replace":
                raise StudyError("neighbours are about records: with the unit party all that a party holds is replaced")
            grid = replace(grid, ball=party_ball(grid, terms.auxiliary.samples, radius))
        plan, agreed = planned_records(terms, grid)
        return cls.of_plan(plan, stated_ranges(terms), **agreed, persons=terms.value("record"))

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


def encode_ranges(ranges: Array) -> str:
    """Return the ranges of features, (2, d), as the parameter of a study: float64, in base64."""
    return base64.b64encode(ranges.astype("<f8").tobytes()).decode()


def stated_ranges(terms: StudyTerms) -> Array:
    """Return the ranges of a study's encoded features, float64 (2, d). Raises StudyError for what is no such matrix."""
    features = len(terms.study.features) - 1  # without the constant
    try:
        numbers = np.frombuffer(base64.b64decode(terms.value("ranges"), validate=True), "<f8")
    except (binascii.Error, ValueError):
        raise StudyError("the ranges of the study are no float64 numbers in base64") from None
    if len(numbers) != 2 * features or not np.isfinite(numbers).all():
        raise StudyError(f"the ranges of the study are not those of {features} features")
    ranges = numbers.astype(np.float64).reshape(2, features)
    if (ranges[0] > ranges[1]).any():
        raise StudyError("a range of the study begins above its end")
    return ranges
