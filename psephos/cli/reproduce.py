"""`psephos reproduce EXPERIMENT`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from psephos.cli.generate import Grouped, examples, with_options
from psephos.cli.shared import AsJson, Progress, ReportDir, check_directory, finish, note
from psephos.options import option
from psephos.outcomes import Outcome

__all__ = ["HELP", "register"]

HELP = {
    "hamm-har": "Hamm 2016, Figure 2: activity recognition, 1,000 parties.",
    "hamm-kdd99": "Hamm 2016, Figure 3: network intrusion, up to 20,000 parties.",
    "hamm-url": "Hamm 2016, Figure 4: malicious URLs, up to 20,000 parties.",
    "pathak-adult": "Pathak 2010, Figure 2: incomes, even and uneven splits among 5 parties.",
    "rajkumar-simulated": "Rajkumar 2012, Figure 1: simulated data, by parties and by skew.",
    "rajkumar-wdbc": "Rajkumar 2012, Figure 2: breast cancer, by parties and by skew.",
}
EXAMPLES = {
    "hamm-har": ("psephos reproduce hamm-har --data-dir DIR --quick --figures figures",),
    "hamm-kdd99": ("psephos reproduce hamm-kdd99 --encrypted --mode short --journal DIR",),
    "hamm-url": ("psephos reproduce hamm-url --stand-in",),
    "pathak-adult": ("psephos reproduce pathak-adult --json",),
    "rajkumar-simulated": ("psephos reproduce rajkumar-simulated",),
    "rajkumar-wdbc": ("psephos reproduce rajkumar-wdbc --quick",),
}

Run = Callable[[Any, Progress], Outcome]


@dataclass(frozen=True)
class RepeatOptions:
    """Of the experiments of Pathak and of Rajkumar."""

    quick: bool = option(False, "Fewer repetitions and steps: nothing to cite.")
    trials: int | None = option(None, "Deals, data sets or folds.", shown="the paper's")
    draws: int | None = option(None, "Noise draws for each of them.", shown="the paper's")
    data_dir: str | None = option(
        None, "Where the data files lie.", group="Data", shown="$PSEPHOS_DATA, or the user's cache"
    )
    seed: int = option(0, "Drives splits and noise.", group="Data")


def register(app: typer.Typer, words: Sequence[str]) -> None:
    """Add the commands: with options that of the experiment that `words` name, of the others the name."""
    group = typer.Typer(
        help="A paper's experiment: its table and figures, with the paper's own numbers beside ours.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    chosen = next((word for word in words if word in HELP), None)
    for name, help in HELP.items():
        if name == chosen:
            _add(group, name, *(_hamm(name) if name.startswith("hamm-") else (RepeatOptions, None, _sweep(name))))
        else:
            group.command(name, help=help)(lambda: None)
    app.add_typer(group, name="reproduce")


def _add(app: typer.Typer, name: str, options: type[Any], only: Sequence[str] | None, run: Run) -> None:
    fixed = {} if only is None else {"name": name}

    @app.command(name, cls=Grouped, help=HELP[name], epilog=examples(*EXAMPLES[name]))
    @with_options(options, only, **fixed)
    def _(
        chosen: Any,
        *,
        figures: Annotated[
            Path | None, typer.Option(help="Draw the figures into this directory.", rich_help_panel="Output")
        ] = None,
        report: ReportDir = None,
        as_json: AsJson = False,
    ) -> None:
        check_directory(report)
        check_directory(figures, "a figure")
        with Progress() as progress:
            outcome = run(chosen, progress)
        try:
            finish(outcome, as_json=as_json, report=report)
        finally:
            if figures is not None:
                from psephos.report import write_figures

                for path in write_figures(outcome, figures, name):
                    note(f"figure: {path}")


def _hamm(name: str) -> tuple[type[Any], Sequence[str], Run]:
    from dataclasses import fields

    from psephos.papers.hamm import HammOptions, reproduce_hamm

    only = [one.name for one in fields(HammOptions) if one.name != "name"]
    return HammOptions, only, lambda options, progress: reproduce_hamm(options, progress=progress)


def _sweep(name: str) -> Run:
    def run(options: RepeatOptions, progress: Progress) -> Outcome:
        from psephos.cli.legacy import adapt

        if name == "pathak-adult":
            from psephos.papers.pathak import reproduce_pathak_adult

            deals = options.trials or (2 if options.quick else 10)
            executions = deals * (options.draws or (5 if options.quick else 20))
            return adapt(
                reproduce_pathak_adult(
                    data_dir=options.data_dir, deals=deals, executions=executions, seed=options.seed, progress=progress
                )
            )
        from psephos.papers.rajkumar import SweepOptions, reproduce_rajkumar

        datasets, draws = options.trials or (2 if options.quick else 5), options.draws or (1 if options.quick else 2)
        steps = 1000 if options.quick else 10_000
        chosen = SweepOptions(name, datasets=datasets, draws=draws, steps=steps, seed=options.seed, quick=options.quick)
        return reproduce_rajkumar(chosen, progress=progress)

    return run
