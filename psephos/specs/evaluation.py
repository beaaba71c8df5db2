"""Private evaluation of a public classifier or prediction: a sum over the parties' rows with noise that they add."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import msgspec

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
from psephos.progress import Progress, silent
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.errors import InvalidParameter, StudyError
from psephos.protocol.grids.error_evaluation import ErrorGrid
from psephos.protocol.grids.record import NumericLabel
from psephos.protocol.study.study import Study
from psephos.specs.base import Array
from psephos.specs.noisy import NoisySumSpec, contributors_of
from psephos.specs.terms import PrivacyTerms, PublicTerms

BOUNDS = ("low", "high", "largest_error")
"""Parameters of a study that evaluates a prediction of a number: the bounds of the label and of the errors."""


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
    if not all(words.isprintable() for words in _texts(msgspec.to_builtins(releases))):
        raise StudyError("the parameter released has control characters in a text")
    return releases


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, content in value.items():
            yield from (*_texts(name), *_texts(content))
    elif isinstance(value, list | tuple):
        for content in value:
            yield from _texts(content)
