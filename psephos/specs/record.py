"""The record step: a sum over the parties' rows, private for each record; a regression is one for a numeric label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from psephos.curator.noise_plan import UNITS
from psephos.curator.record import (
    ROWS_PER_PARTY,
    RecordPlan,
    fit_records,
    party_ball,
    plan_records,
    release_records,
)
from psephos.progress import Progress, silent
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.fixed_point import Norm
from psephos.protocol.grids.record import ENTRY_BITS, NumericLabel, RecordGrid
from psephos.protocol.study.study import Study
from psephos.specs.base import Array
from psephos.specs.noisy import NoisySumSpec, contributors_of
from psephos.specs.terms import PrivacyTerms, PublicTerms

_GRID = ("coordinates", "offset", "constant")
_LABEL = ("low", "high", "threshold")
_AVERAGE_SENT = (
    "Each party sends the average over its own rows of the gradient of the loss at a public score and of a bound of "
    "its second derivative, less a public vector, and clipped to a ball of a public radius."
)


@dataclass(frozen=True)
class RecordSpec(NoisySumSpec):
    """One private Newton step from a public score (docs/theory.md, "The record step")."""

    methods = ("newton",)
    summand = "a Newton step over all rows"
    sends: ClassVar[Mapping[str, str]] = {
        "newton": "Each party sends a sum over its own rows: the gradient of the loss at a public score, and a bound "
        "of its second derivative.",
    }
    parameters: ClassVar[Mapping[str, Any]] = {
        "coordinates": str,
        "offset": str,
        "constant": float,
        "rows": int,
        "labelled": 0,
        "record": "",
        **NoisySumSpec.parameters,
    }
    unit = "record"

    release_plan: RecordPlan

    @classmethod
    def plan(cls, public: PublicTerms, privacy: PrivacyTerms, progress: Progress = silent) -> Self:
        mechanism, agreed = privacy.joint_noise, public.agreed
        grid = _agreed_grid(public, privacy) if agreed.keys() >= set(_GRID) else None
        labelled = agreed.get("labelled", 0)
        if labelled < 0:
            raise InvalidParameter(f"the number of labelled rows is not negative, but it is {labelled}")
        plan = plan_records(
            public.samples,
            public.labels if grid is None else None,
            public.classes,
            public.parties,
            rows=public.parties * ROWS_PER_PARTY if public.rows is None else public.rows,
            epsilon=privacy.epsilon,
            delta=privacy.delta,
            mechanism=mechanism,
            contributors=contributors_of(public.parties, privacy),
            grid=grid,
            labelled=None if grid is None else labelled,
            unit=privacy.unit,
        )
        return cls.private(plan, privacy)

    def stated(self) -> dict[str, Any]:
        plan, grid = self.release_plan, self.release_plan.grid
        stated: dict[str, Any] = {"coordinates": grid.transform, "offset": grid.offset, "constant": grid.constant}
        if grid.label is not None:
            stated |= {name: getattr(grid.label, name) for name in _LABEL}
        if grid.ball is not None:
            stated["radius"] = grid.ball.radius / 2.0**ENTRY_BITS
        return stated | {"rows": plan.rows, "labelled": plan.labelled}

    @property
    def numeric_label(self) -> NumericLabel | None:
        return self.release_plan.grid.label

    def counting(self, ballots: int) -> RecordPlan:
        return replace(self.release_plan, inflation=self.inflation(ballots), parties=ballots)

    def fitted(self, opened: OpenedSum) -> Array:
        return fit_records(release_records(self.counting(opened.ballots), list(opened.sums)))

    @property
    def choices(self) -> dict[str, Any]:
        plan = self.release_plan
        return {"rank": plan.rank, "rows": plan.rows}


@dataclass(frozen=True)
class RegressionSpec(RecordSpec):
    """A linear prediction of a number by a record step, private for each record, or for each party."""

    parameters: ClassVar[Mapping[str, Any]] = {
        **RecordSpec.parameters,
        "unit": UNITS[0],
        "radius": 0.0,
        **dict.fromkeys(_LABEL, float),
    }
    summand = "a Newton step that predicts a number"
    numeric = True
    checks_plan = "join"

    @classmethod
    def contribution(cls, study: Study) -> str:
        return super().contribution(study) if study.parameters.get("unit") != "party" else _AVERAGE_SENT

    @property
    def label(self) -> NumericLabel:
        assert self.numeric_label is not None
        return self.numeric_label


def _agreed_grid(public: PublicTerms, privacy: PrivacyTerms) -> RecordGrid:
    coordinates, offset, constant = (public.agreed[name] for name in _GRID)
    label = NumericLabel(*(public.agreed[name] for name in _LABEL)) if public.classes == 1 else None
    norm: Norm = "l2" if privacy.joint_noise == "gaussian" else "l1"
    grid = RecordGrid(coordinates, constant, offset, public.classes, norm, label)
    radius = public.agreed.get("radius", 0.0)
    if privacy.unit not in UNITS or (privacy.unit == "party") != (radius != 0):
        raise InvalidParameter(
            f"the unit is record, or party with a radius of the ball of a party's vector; not {privacy.unit!r} with "
            f"radius {radius:g}"
        )
    return replace(grid, ball=party_ball(grid, public.samples, radius)) if radius else grid
