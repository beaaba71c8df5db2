"""`psephos reproduce EXPERIMENT`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import typer

from psephos.cli.generate import command, lazy_app, with_options
from psephos.cli.shared import AsJson, ProgressDisplay, ReportDir, check_directory, finish
from psephos.results.base import Result

HELP = {
    "hamm-har": "Hamm 2016, Figure 2: activity recognition, 1,000 parties.",
    "hamm-kdd99": "Hamm 2016, Figure 3: network intrusion, up to 20,000 parties.",
    "hamm-url": "Hamm 2016, Figure 4: malicious URLs, up to 20,000 parties.",
    "pathak-adult": "Pathak 2010, Figure 2: incomes, even and uneven splits among 5 parties.",
    "rajkumar-simulated": "Rajkumar 2012, Figure 1: simulated data, by parties and by skew.",
    "rajkumar-wdbc": "Rajkumar 2012, Figure 2: breast cancer, by parties and by skew.",
}
"""Help of each experiment."""
EXAMPLES = {
    "hamm-har": ("psephos reproduce hamm-har --data-dir DIR --quick --report report",),
    "hamm-kdd99": ("psephos reproduce hamm-kdd99 --encrypted --randomness short --journal DIR",),
    "hamm-url": ("psephos reproduce hamm-url --stand-in",),
    "pathak-adult": ("psephos reproduce pathak-adult --json",),
    "rajkumar-simulated": ("psephos reproduce rajkumar-simulated",),
    "rajkumar-wdbc": ("psephos reproduce rajkumar-wdbc --quick",),
}


def _load(name: str) -> typer.Typer:
    options, run = _parts(name)
    fixed = {"name": name} if any(one.name == "name" for one in fields(options)) else {}
    app = typer.Typer(rich_markup_mode=None)

    @command(app, *EXAMPLES[name], name=name, help=HELP[name])
    @with_options(options, **fixed)
    def _(
        chosen: Any,
        *,
        report: ReportDir = None,
        as_json: AsJson = False,
    ) -> None:
        check_directory(report)
        with ProgressDisplay() as progress:
            outcome = run(chosen, progress=progress)
        finish(outcome, as_json=as_json, report=report)

    return app


def _parts(name: str) -> tuple[type[Any], Callable[..., Result]]:
    if name.startswith("hamm-"):
        from psephos.experiments.hamm import HammOptions, reproduce_hamm

        return HammOptions, reproduce_hamm
    if name.startswith("pathak-"):
        from psephos.experiments.pathak import AdultOptions, reproduce_pathak_adult

        return AdultOptions, reproduce_pathak_adult
    from psephos.experiments.rajkumar import SweepOptions, reproduce_rajkumar

    return SweepOptions, reproduce_rajkumar


app = typer.Typer(rich_markup_mode=None)
_ABOUT = "A paper's experiment: its table and figures, with the paper's own numbers beside ours."
app.add_typer(lazy_app(HELP, _load, help=_ABOUT), name="reproduce")
