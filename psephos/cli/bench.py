"""`psephos bench`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from psephos.cli.generate import SectionedCommand, examples, list_of
from psephos.cli.shared import AsJson, ProgressDisplay, finish
from psephos.experiments.bench import measure

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command(
        cls=SectionedCommand,
        epilog=examples("psephos bench", "psephos bench --bits 2048,3072,4096 --repetitions 15 --json"),
    )
    def bench(
        bits: Annotated[
            str, typer.Option(help="Key lengths in bits.", parser=list_of(int), metavar="N[,...]")
        ] = "2048,3072",
        repetitions: Annotated[int, typer.Option(help="The number of interleaved repetitions; medians are shown.")] = 7,
        as_json: AsJson = False,
    ) -> None:
        """Measure speed and sizes on this machine, beside the Paillier libraries that are installed."""
        with ProgressDisplay() as progress:
            sizes: Sequence[int] = bits  # type: ignore[assignment] # parsed
            outcome = measure(sizes, repetitions, progress)
        finish(outcome, as_json=as_json)
