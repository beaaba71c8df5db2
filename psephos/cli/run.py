"""`psephos run`: the main job, with the few options that matter."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from psephos.cli.generate import HelpAll, SectionedCommand, command, with_options
from psephos.cli.shared import AsJson, OutputDir, ProgressDisplay, ReportDir, Verbose, note, output_directory
from psephos.cli.show import alpha_lines
from psephos.cli.simulate import perform
from psephos.protocol.errors import InvalidParameter
from psephos.results.runs import TallyResult
from psephos.results.scores import RegressionResult
from psephos.simulation.options import JobOptions

WITHOUT = (
    "samples_per_party",
    "sizes",
    "concentration",
    "absent",
    "simulate_noise",
    "keys",
    "lam",
    "methods",
    "draws",
    "degree",
    "min_ballots",
    "randomness",
    "proofs",
    "engine",
    "scheduler",
    "dropouts",
    "protect_auxiliary",
    "loss",
)
"""What only simulations vary."""
MAIN = (
    "data",
    "label",
    "party",
    "public",
    "schema",
    "ignore",
    "task",
    "unit",
    "method",
    "epsilon",
    "budget",
    "seed",
    "output",
    "report",
)
"""The options that `psephos run --help` shows."""
EXAMPLES = (
    "psephos run --output out",
    "psephos run --data patients.csv --label outcome --party hospital --public 11 --output out",
    "psephos run --data patients.csv --label outcome --party hospital --schema patients.toml --output out",
    "psephos run --data patients.csv --label outcome --party hospital --public open.csv --unit record",
    "psephos run --data patients.csv --label days --party hospital --public 11 --task regression --unit record",
    "psephos run --method own-data --budget patients.budget --output out",
)


class _Command(SectionedCommand):
    shown = MAIN


app = typer.Typer(rich_markup_mode=None)


@command(
    app,
    *EXAMPLES,
    name="run",
    help="The main job: data in, one private classifier out, with its card.",
    cls=_Command,
)
@with_options(JobOptions, WITHOUT)
def _(
    chosen: JobOptions,
    *,
    output: OutputDir = None,
    onnx: Annotated[bool, typer.Option("--onnx", help="With --output: as ONNX too.", rich_help_panel="Output")] = False,
    report: ReportDir = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    help_all: HelpAll = False,
) -> None:
    if onnx and output is None:
        raise InvalidParameter("--onnx is written into the directory of --output: name one")
    settings: Any = {"report": report, "as_json": as_json, "verbose": verbose}
    with output_directory(output, "a classifier", ["onnx"] if onnx else []):
        (_regress if chosen.task == "regression" else _classify)(chosen, output, onnx=onnx, **settings)


def _classify(chosen: JobOptions, output: Path | None, *, onnx: bool, as_json: bool, **settings: Any) -> None:
    from psephos.simulation.job import Job  # scikit-learn takes most of a second

    job = Job(chosen)
    if output is not None:
        job.check_model()
    for line in job.data_summary:
        note(line)
    with ProgressDisplay() as progress:
        job.decide(progress)
    if job.forecast is not None:
        note(job.forecast.reason)

    def save(result: TallyResult) -> list[str]:
        paths = [] if output is None else job.write(result, output, onnx=onnx)
        alpha = [] if as_json else alpha_lines(result.evaluation.counts, result.class_names)
        return [*alpha, *_next_steps(paths)]

    settings |= {"as_json": as_json, "save": save, "printed_before": job.warnings_about_data}
    perform(job.options, lambda _, **context: job.run(**context), "run", **settings)


def _regress(chosen: JobOptions, output: Path | None, *, onnx: bool, **settings: Any) -> None:
    from psephos.simulation.job import RegressionRun

    run = RegressionRun(chosen)
    run.decide()
    for text in run.remarks:
        note(text)

    def save(result: RegressionResult) -> list[str]:
        return _next_steps([] if output is None else run.write(result, output, onnx=onnx))

    perform(run.options, lambda _, **context: run.run(**context), "run", save=save, **settings)


def _next_steps(paths: Sequence[Path]) -> list[str]:
    if not paths:
        return ["The classifier was not saved: --output DIR saves it."]
    directory = paths[0].parent
    written = f"Written: {', '.join(map(str, paths))}"
    return [
        written,
        f"Next: read {directory / 'card.md'}, then psephos predict {shlex.quote(str(directory))} FILE.csv",
    ]
