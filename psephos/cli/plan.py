"""`psephos plan`."""

from __future__ import annotations

import typer

from psephos.cli.generate import command, with_options
from psephos.cli.shared import AsJson, finish
from psephos.experiments.plan import PlanOptions, plan

app = typer.Typer(rich_markup_mode=None)


@command(
    app,
    "psephos plan --parties 20000 --samples 43000 --randomness short",
    "psephos plan --protocol psgd --parties 15 --steps 200 --features 30",
    name="plan",
)
@with_options(PlanOptions)
def _(options: PlanOptions, *, as_json: AsJson = False) -> None:
    """Predict the bytes of a run, and its time from one timed sum on this machine."""
    finish(plan(options), as_json=as_json)
