"""The rehearsed step: a sum of the parties' bounded steps from a public model, with noise that they add."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from psephos.curator.rehearsal import WORLDS, Rehearsal
from psephos.curator.rehearsed import (
    REHEARSED_ROWS,
    RehearsedPlan,
    fit_rehearsed,
    plan_of_grid,
    plan_rehearsed,
    rehearsal_of,
)
from psephos.progress import Progress, counted, silent
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.errors import InvalidParameter, NoGainError
from psephos.protocol.grids.local_step import LocalStepGrid
from psephos.protocol.study.study import Study
from psephos.specs.base import Array
from psephos.specs.noisy import NoisySumSpec, contributors_of
from psephos.specs.terms import PrivacyTerms, PublicTerms

_STEP = ("coordinates", "offset", "ridge", "limit", "radius", "scale", "norm")


@dataclass(frozen=True)
class RehearsedSpec(NoisySumSpec):
    """One step from a public model, private for each party (docs/theory.md, "The rehearsed step").

    `rehearsal`: what it was expected to gain; None for an agreed step. `rows`, `labelled`: announced rows of all
    parties, and labelled public rows.
    """

    methods = ("rehearsed",)
    summand = "a step from a model of labelled public rows"
    sends: ClassVar[Mapping[str, str]] = {
        "rehearsed": "Each party sends one step from a public model towards its own rows, scaled to a bounded length.",
    }
    parameters: ClassVar[Mapping[str, Any]] = {
        "coordinates": str,
        "offset": str,
        **dict.fromkeys(("ridge", "limit", "radius", "scale"), float),
        "norm": str,
        "rows": int,
        "labelled": int,
        **NoisySumSpec.parameters,
    }
    checks_plan = "verify"

    release_plan: RehearsedPlan
    rehearsal: Rehearsal | None = None
    rows: int = 0
    labelled: int = 0

    @classmethod
    def plan(cls, public: PublicTerms, privacy: PrivacyTerms, progress: Progress = silent) -> Self:
        """See `Spec.plan`; raises NoGainError where no step is expected to improve the public model."""
        parties, agreed = public.parties, public.agreed
        terms: dict[str, Any] = {"epsilon": privacy.epsilon, "contributors": contributors_of(parties, privacy)}
        terms |= {"delta": privacy.delta} if privacy.delta else {}
        rows = parties * REHEARSED_ROWS if public.rows is None else public.rows
        if agreed.keys() >= set(_STEP):
            plan = plan_of_grid(_agreed_grid(public, privacy), agreed["scale"], parties, **terms)
            return replace(cls.private(plan, privacy), rows=rows, labelled=agreed.get("labelled", 0))
        assert public.labels is not None
        rehearsal = rehearsal_of(
            public.samples,
            public.labels,
            public.classes,
            parties,
            rows=max(1, rows // parties),
            mechanism=privacy.joint_noise,
            model=public.model,
            done=counted(progress, "rehearse", WORLDS),
            **terms,
        )
        if not rehearsal.asks:
            raise NoGainError(rehearsal.calibration.cross_validated, rehearsal.gain, rehearsal.spread)
        spec = cls.private(plan_rehearsed(rehearsal, parties, **terms), privacy)
        return replace(spec, rehearsal=rehearsal, rows=rows, labelled=int((public.labels >= 0).sum()))

    def stated(self) -> dict[str, Any]:
        plan, grid = self.release_plan, self.release_plan.grid
        step = (
            grid.transform,
            grid.offset,
            0.0 if math.isinf(grid.ridge) else grid.ridge,
            grid.limit,
            grid.radius,
            plan.scale,
            grid.norm,
        )
        return dict(zip(_STEP, step, strict=True)) | {"rows": self.rows, "labelled": self.labelled}

    @classmethod
    def has_gaussian_noise(cls, study: Study) -> bool:
        return super().has_gaussian_noise(study) and study.parameters.get("norm") == "l2"

    def counting(self, ballots: int) -> RehearsedPlan:
        return replace(self.release_plan, parties=ballots)

    def fitted(self, opened: OpenedSum) -> Array:
        return fit_rehearsed(self.release_plan, list(opened.sums), opened.ballots)

    @property
    def choices(self) -> dict[str, Any]:
        return {"rank": self.release_plan.rank}


def _agreed_grid(public: PublicTerms, privacy: PrivacyTerms) -> LocalStepGrid:
    coordinates, offset, ridge, limit, radius, _, norm = (public.agreed[name] for name in _STEP)
    if norm == "l2" and not privacy.delta:
        raise InvalidParameter("a step of L2 norm takes discrete Gaussian noise, and delta is 0: choose the norm l1")
    return LocalStepGrid(coordinates, offset, public.classes, ridge or math.inf, limit, radius, norm)
