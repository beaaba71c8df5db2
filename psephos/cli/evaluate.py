"""`psephos evaluate`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import typer

from psephos.cli.generate import command, with_options
from psephos.cli.shared import AsJson, ModelAt, OutputDir, ReportDir, Verbose, note, output_directory
from psephos.cli.simulate import perform
from psephos.files import write_atomically
from psephos.model import MODEL_FILE, Model, written_model
from psephos.protocol.errors import InvalidParameter, ModelError
from psephos.released import ReleasedRegressor, load_model
from psephos.results.scores import EvaluationResult
from psephos.simulation.job import EvaluationOptions, EvaluationRun, calibrated_model

WITHOUT = ("classes", "text", "samples_per_party", "sizes", "concentration", "absent", "task")
"""What follows from the model, and what only simulations vary."""

app = typer.Typer(rich_markup_mode=None)


@command(
    app,
    "psephos evaluate out --data patients.csv --label outcome --party hospital --public 11",
    "psephos evaluate out --data new.csv --label outcome --party hospital --public open.csv --rows all",
    "psephos evaluate out --data visits.csv --label outcome --party hospital --public 11 --record patient",
    "psephos evaluate out --data patients.csv --label outcome --party hospital --public 11 --unit party",
    "psephos evaluate out --epsilon 0.3 --output calibrated",
    "psephos evaluate out --data patients.csv --label days --party hospital --public 11 --largest-error 10",
    "psephos evaluate out --data patients.csv --label outcome --party hospital --public 11 --budget patients.budget",
    name="evaluate",
    help="Evaluate a model on the parties' held-out rows, with privacy, from one encrypted sum with the parties' "
    "noise: accuracy, confusion matrix, AUROC and calibration of a classifier; R^2, RMSE and mean absolute error "
    "of a prediction of a number. It has its own epsilon.",
)
@with_options(EvaluationOptions, WITHOUT)
def _(
    chosen: EvaluationOptions,
    *,
    model: ModelAt,
    output: OutputDir = None,
    report: ReportDir = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    settings: Any = {"report": report, "as_json": as_json, "verbose": verbose}
    with output_directory(output, "a model"):
        evaluated = load_model(model)
        if output is not None and isinstance(evaluated, ReleasedRegressor):
            raise InvalidParameter(
                "--output writes the calibrated scores of a classifier, and the model predicts a number"
            )
        run = EvaluationRun(chosen, evaluated)
        for text in run.split.private_remarks:
            note(f"WARNING: {text}")
        run.decide()
        for text in run.remarks:
            note(text)
        settings["save"] = lambda result: _save_calibrated(run, result, output)
        perform(run.options, lambda _, **context: run.run(**context), "evaluate", **settings)


def _save_calibrated(run: EvaluationRun, result: EvaluationResult, output: Path | None) -> list[str]:
    """Write the calibrated model into `output`, if both exist; return a line about it, or [] without `output`."""
    if output is None:
        return []
    if result.estimate.calibration is None:
        return [f"Nothing was written to {output}: no Platt scaling was fitted."]
    assert isinstance(run.model, Model)
    path = output / MODEL_FILE
    try:
        write_atomically(path, written_model(calibrated_model(run.model, result)))
    except OSError as error:
        raise ModelError(f"{path} cannot be written: {error.strerror}") from None
    return [f"Written: {path}, whose scores are log odds. Next: psephos predict {shlex.quote(str(output))} FILE.csv"]
