"""The plans of one sum that the parties' noise is in, by their protocol; section 8 of docs/wire.md."""

from __future__ import annotations

from tests.verifier.board import Study
from tests.verifier.evaluations import ErrorEvaluation, Evaluation
from tests.verifier.public import Public
from tests.verifier.records import Records
from tests.verifier.regression import Regression
from tests.verifier.rehearsed import Rehearsed

Step = Records | Evaluation | Rehearsed


def step_of(study: Study, samples: Public) -> Step | None:
    """The plan of a study of records, regressions, evaluations or rehearsed steps."""
    if study.protocol == "record":
        return Records(study, samples.samples)
    if study.protocol == "regression":
        return Regression(study, samples.samples)
    if study.protocol == "evaluation":
        return (ErrorEvaluation if study.predicts_number else Evaluation)(study, samples.samples)
    return Rehearsed(study, samples.samples) if study.protocol == "rehearsed" else None
