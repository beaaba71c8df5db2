"""`psephos simulate PROTOCOL`: each protocol with all options of its options dataclass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from psephos.cli.generate import command, lazy_app, with_options
from psephos.cli.shared import AsJson, ProgressDisplay, ReportDir, Verbose, check_directory, command_line, finish, note
from psephos.protocol.transcript import Transcript
from psephos.results.base import Result
from psephos.results.runs import InterruptedResult

HELP = {
    "tally": "Votes on public samples, counted under encryption; every way to release a classifier from them.",
    "statistic": "Statistics of votes or of own rows, to which the parties or the key holders add the noise.",
    "rehearsed": "A step from a model of labelled public rows, rehearsed on simulated parties.",
    "record": "A Newton step over all rows, private for a record.",
    "average": "The encrypted sum of the parties' parameters, and their private average.",
    "head": "The mean of the parties' own linear classifiers, each clipped to a ball, with noise in shares.",
    "pathak": "Pathak 2010: parameters averaged under noise that the parties add together.",
    "psgd": "Rajkumar 2012: private gradient descent, a secure sum at each step.",
}
"""Help of each protocol."""
EXAMPLES = {
    "tally": (
        "psephos simulate tally --epsilon 0.1,1,10",
        "psephos simulate tally --sizes dirichlet --absent 0.2 --methods statistic,own-data",
        "psephos simulate tally --dataset digits --parties 50 --learners logistic,tree,knn",
    ),
    "statistic": (
        "psephos simulate statistic --colluders 3",
        "psephos simulate statistic --methods own-data --mechanism gaussian",
    ),
    "rehearsed": ("psephos simulate rehearsed --epsilon 1,10",),
    "record": ("psephos simulate record --dropouts 1",),
    "average": ("psephos simulate average --methods own-data", "psephos simulate average --lam 1e-4"),
    "head": ("psephos simulate head --epsilon 1,10 --radius 1",),
    "pathak": ("psephos simulate pathak", "psephos simulate pathak --variant printed"),
    "psgd": ("psephos simulate psgd --steps 50", "psephos simulate psgd --variant gaussian"),
}


def perform(
    options: Any,
    simulate: Any,
    name: str,
    *,
    report: Path | None,
    as_json: bool,
    verbose: bool = False,
    save: Callable[[Any], Sequence[str]] = lambda result: (),
    printed_before: Collection[str] = (),
) -> None:
    """Check the options, simulate, and `finish`; write a report of the transcript so far if the run is interrupted.

    Messages are recorded only if there is a report, since they take about 0.4 kB of memory each. Warnings in
    `printed_before` are not printed again.
    """
    options.check()
    check_directory(report, secret=options.data is not None)  # a report on private rows
    transcript = None if report is None else Transcript()
    with ProgressDisplay() as progress:
        try:
            result: Result = simulate(options, transcript=transcript, progress=progress)
        except KeyboardInterrupt:
            if report is not None and transcript is not None:
                from psephos.results.write import write_report

                where = f"in the phase {progress.last!r}" if progress.last else "before anything was sent"
                interrupted = InterruptedResult(protocol=name, options=asdict(options), stopped=where)
                page = write_report(interrupted, transcript.redacted(), report, command=command_line())
                note(f"report of what there is written to {page}")
            raise
    output: Any = {"as_json": as_json, "verbose": verbose, "printed_before": printed_before}
    finish(result, report=report, transcript=transcript, save=save, **output)


def _load(name: str) -> typer.Typer:
    from psephos.simulation.experiment import PROTOCOLS

    protocol, app = PROTOCOLS[name], typer.Typer(rich_markup_mode=None)

    @command(app, *EXAMPLES[name], name=name, help=HELP[name])
    @with_options(protocol.options, **protocol.fixed)
    def _(chosen: Any, *, report: ReportDir = None, as_json: AsJson = False, verbose: Verbose = False) -> None:
        perform(chosen, protocol.run, name, report=report, as_json=as_json, verbose=verbose)

    return app


app = typer.Typer(rich_markup_mode=None)
_ABOUT = "Experiments with one protocol: every role on this machine, all methods side by side."
app.add_typer(lazy_app(HELP, _load, help=_ABOUT), name="simulate")
