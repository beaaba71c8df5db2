"""Sums over the parties' rows with noise that they add: a Newton step, a rehearsed step, an evaluation."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import msgspec
import numpy as np

from psephos.curator.evaluation import (
    BINS,
    EvaluationEstimate,
    EvaluationPlan,
    calibrated,
    estimate_evaluation,
    evaluation_plan,
    evaluation_sensitivity,
    plan_evaluation,
)
from psephos.curator.ledger import Release
from psephos.curator.noise_plan import UNITS
from psephos.curator.record import (
    ASSUMED_ROWS,
    ROWS_PER_PARTY,
    RecordPlan,
    fit_records,
    party_ball,
    plan_records,
)
from psephos.curator.regression import simulated_gains
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
from psephos.protocol.errors import InvalidParameter, NoGainError, StudyError
from psephos.protocol.grids.error_evaluation import ErrorGrid
from psephos.protocol.grids.fixed_point import Norm
from psephos.protocol.grids.local_step import LocalStepGrid
from psephos.protocol.grids.record import ENTRY_BITS, NumericLabel, RecordGrid
from psephos.protocol.study.study import Study
from psephos.specs.base import Array, Expectation
from psephos.specs.noisy import NoisySumSpec, contributors_of
from psephos.specs.terms import PrivacyTerms, PublicTerms

_GRID = ("coordinates", "offset", "constant")
_LABEL = ("low", "high", "threshold")
_LEAST_GAIN = 0.001  # mean gain of R^2 in simulated worlds below which no privacy is spent
_LOSS, _LOST = -0.01, 1  # a gain that is a loss, and most worlds with one in which privacy is still spent
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
            log_odds=public.log_odds,
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
        return fit_records(self.counting(opened.ballots), opened.sums)

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

    def expected(self, public: PublicTerms) -> Expectation:
        """See `Spec.expected`; the gain of R^2 over the public rows' prediction, in simulated worlds."""
        plan, rows = self.counting(public.parties), public.rows
        if rows is None:
            rows = min(public.parties * ROWS_PER_PARTY, ASSUMED_ROWS * len(public.samples))
        assumed = " (assumed)" if public.rows is None else ""
        gains = simulated_gains(plan, public.samples, np.asarray(public.labels, dtype=np.float64), rows)
        words = (
            f"In simulated worlds of {public.parties} parties with about {rows} rows together{assumed}, the release "
            f"adds {gains.mean():+.3f} (standard deviation {gains.std():.3f}) to the R² of the public rows' "
            f"prediction, at epsilon {plan.epsilon:g} per {plan.unit}."
        )
        return Expectation(bool(gains.mean() > _LEAST_GAIN and (gains < _LOSS).sum() <= _LOST), words)

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


# -- rehearsed on simulated parties

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
            plan = plan_of_grid(_agreed_step(public, privacy), agreed["scale"], parties, **terms)
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
            raise NoGainError(rehearsal.calibration.cross_validated, rehearsal.gain, rehearsal.loss)
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


def _agreed_step(public: PublicTerms, privacy: PrivacyTerms) -> LocalStepGrid:
    coordinates, offset, ridge, limit, radius, _, norm = (public.agreed[name] for name in _STEP)
    if norm == "l2" and not privacy.delta:
        raise InvalidParameter("a step of L2 norm takes discrete Gaussian noise, and delta is 0: choose the norm l1")
    return LocalStepGrid(coordinates, offset, public.classes, ridge or math.inf, limit, radius, norm)


# -- evaluation of a public classifier or prediction

BOUNDS = ("low", "high", "largest_error")
"""Parameters of a study that evaluates a prediction of a number: the bounds of the label and of the errors."""

WIDEST = 0.125
"""Largest standard error of an evaluation, of accuracy, R^2 or a mean error: four of them are half of [0, 1]."""


@dataclass(frozen=True)
class EvaluationSpec(NoisySumSpec):
    """A histogram of scores, sums of errors, or a mean over the parties (docs/theory.md, "Private evaluation")."""

    methods = ("platt", "unchanged")
    summand = "scores or errors of a model"
    sends: ClassVar[Mapping[str, str]] = {
        "platt": "Each party scores its own rows with a public classifier, and counts them by score and class.",
        "unchanged": "Each party compares a public prediction with its own rows' numbers, and sends sums or a mean of "
        "errors, and sums of labels, within public bounds.",
    }
    parameters: ClassVar[Mapping[str, Any]] = {
        "classifier": str,
        "unit": "record",
        "record": "",
        "bins": BINS,
        **NoisySumSpec.parameters,
        "released": "",
        **dict.fromkeys(BOUNDS, 0.0),
    }
    unit = "record"
    evaluates = True
    one_release = False

    release_plan: EvaluationPlan

    @classmethod
    def plan(cls, public: PublicTerms, privacy: PrivacyTerms, progress: Progress = silent) -> Self:
        if privacy.delta:
            raise InvalidParameter("the noise of an evaluation is discrete Laplace, whose delta is 0: leave delta out")
        shared: dict[str, Any] = {"epsilon": privacy.epsilon, "unit": privacy.unit}
        shared["contributors"] = contributors_of(public.parties, privacy)
        if public.classes > 1:
            shared["bins"] = public.agreed.get("bins", BINS)
            plan = plan_evaluation(
                public.samples, public.required("classifier"), public.classes, public.parties, **shared
            )
        else:
            label = NumericLabel(*map(public.required, BOUNDS))
            plan = evaluation_plan(ErrorGrid(public.required("classifier"), label), public.parties, **shared)
        return cls.private(plan, privacy)

    def check_study(self, study: Study) -> None:
        super().check_study(study)
        if (study.method == "unchanged") == bool(study.classes):
            raise StudyError(
                "an evaluation releases a classifier by the method platt, and a prediction of a number by unchanged, "
                f"not by {study.method}"
            )
        other = BOUNDS if study.classes else ("bins",)
        if extra := [name for name in other if name in study.parameters]:
            what = "prediction of a number" if study.classes else "classifier"
            raise StudyError(f"the parameter {extra[0]} is for the evaluation of a {what}: leave it out")
        stated_releases(study)

    def expected(self, public: PublicTerms) -> Expectation:
        """See `Spec.expected`; the standard error that the noise will have.

        It is that of an evaluation of the public rows, as if the parties' rows were they, many times.
        """
        parties, plan, X = public.parties, self.release_plan, public.samples
        rows = parties * ROWS_PER_PARTY if public.rows is None else public.rows
        if (errors := plan.predictions) is not None:
            labels = np.full(len(X), np.nan) if public.labels is None else np.asarray(public.labels, dtype=np.float64)
            labels = np.where(np.isfinite(labels), labels, errors.predict(X))
        else:
            labels = np.zeros(len(X), np.int64) if public.labels is None else np.maximum(public.labels, 0)
        times = parties if plan.unit == "party" else rows / len(X)
        total = tuple(round(entry * times) for entry in self.grid.contribution(X, labels))
        estimate = self.estimate(OpenedSum(total, tuple(range(parties))))
        if estimate.errors is None:
            name, one, unit = "accuracy", estimate.accuracy, 1.0
        elif estimate.errors.r2 is not None:
            name, one, unit = "R²", estimate.errors.r2, 1.0
        else:
            name, one, unit = "mean error, in units of the largest one", estimate.errors.mae, estimate.errors.largest
        error = math.inf if one is None or one.error is None else float(one.error / unit)
        many = f"{parties} parties" + ("" if plan.unit == "party" else f" with about {rows} rows together (assumed)")
        words = (
            f"With {many}, at epsilon {plan.epsilon:g} per {plan.unit}, the {name} would have a standard error of "
            f"{error:.3f} from the noise, and is useful at {WIDEST:g} or less."
        )
        more = error / WIDEST
        enough = f"{math.ceil(parties * more)} parties" if plan.unit == "party" else f"{rows * more:.0f} rows"
        return Expectation(error <= WIDEST, words, (enough,) if math.isfinite(more) else ("more rows",))

    @property
    def numeric_label(self) -> NumericLabel | None:
        predictions = self.release_plan.predictions
        return None if predictions is None else predictions.label

    @property
    def sensitivities(self) -> tuple[float, float]:
        return evaluation_sensitivity(self.grid).value, math.inf

    def counting(self, ballots: int) -> EvaluationPlan:
        return replace(self.release_plan, inflation=self.inflation(ballots))

    def estimate(self, opened: OpenedSum) -> EvaluationEstimate:
        """Return what the noisy sum says; the noise is that of the ballots counted."""
        return estimate_evaluation(self.counting(opened.ballots), list(opened.sums), opened.ballots)

    @property
    def choices(self) -> dict[str, Any]:
        label, plan = self.numeric_label, self.release_plan
        return {"bins": plan.scores.bins} if label is None else {"largest_error": label.threshold}

    def summary(self, result: OpenedSum) -> str:
        """See `Spec.summary`; the summary has the estimates for the evaluated classifier or prediction."""
        estimate = self.estimate(result)
        if estimate.errors is None:
            after = f"; its scores were{'' if estimate.calibration is not None else ' not'} calibrated"
            estimates = {
                "accuracy": estimate.accuracy,
                "AUROC": estimate.auroc,
                "calibration error": estimate.calibration_error,
            }
        else:
            errors, after = estimate.errors, ""
            estimates = {
                "R^2": errors.r2,
                "RMSE": errors.rmse,
                "MAE": errors.mae,
                "share of rows clipped": errors.clipped,
            }
        parts = [
            f"{name} {one.value:.4g} ± {one.error:.2g}"
            if name in ("RMSE", "MAE")
            else f"{name} {one.value:.3f} ± {one.error:.3f}"
            for name, one in estimates.items()
            if one is not None and one.value is not None and one.error is not None
        ]
        if not parts:
            return f"the noise hides how good the {'classifier' if estimate.errors is None else 'prediction'} is"
        return f"evaluated: {', '.join(parts)} (of the noise alone){after}"

    def fitted(self, opened: OpenedSum) -> Array:
        """Return the classifier with Platt scaling, or unchanged where that was not fitted; a prediction unchanged."""
        if self.release_plan.predictions is not None:
            return self.release_plan.predictions.weights[:, 0]
        weights, calibration = self.release_plan.scores.weights, self.estimate(opened).calibration
        if calibration is not None:
            weights = calibrated(weights, calibration)
        return weights[:, 0] if weights.shape[1] == 1 else weights.T


def encode_releases(releases: tuple[Release, ...]) -> str:
    """Return releases as the parameter `released` of a study: JSON. How much of them is signal is left out."""
    return msgspec.json.encode([replace(release, signal=None) for release in releases]).decode()


def stated_releases(study: Study) -> tuple[Release, ...]:
    """Return what a study says that the model it evaluates was released with before, the latest first; () for nothing.

    Raises StudyError for a text that `encode_releases` does not write, or with control characters, which JSON hides.
    """
    text = str(study.parameters.get("released", ""))
    if not text:
        return ()
    try:
        releases = msgspec.json.decode(text, type=tuple[Release, ...])
    except (msgspec.MsgspecError, RecursionError):
        raise StudyError("the parameter released does not state what the evaluated model cost") from None
    if not releases or encode_releases(releases) != text:
        raise StudyError("the parameter released is not written as Psephos writes it")
    if not text.isprintable() or re.fullmatch(r'([^\\]|\\[\\"])*', text) is None:  # an escaped control character
        raise StudyError("the parameter released has control characters in a text")
    return releases
