"""`psephos report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from psephos.cli.generate import command
from psephos.cli.shared import AsJson, emit
from psephos.results import FORMAT

app = typer.Typer(rich_markup_mode=None)


@command(app, "psephos run --json > result.json", "psephos report result.json --output out")
def report(
    file: Annotated[Path, typer.Argument(help="The output of a command with --json, or a report's report.json.")],
    output: Annotated[Path, typer.Option(help="The directory for the report.")] = Path("report"),
    as_json: AsJson = False,
) -> None:
    """Write a report from a saved JSON."""
    from psephos.results.write import report_from_json

    page = report_from_json(file, output)
    figures = sorted(str(path) for path in (output / "figures").iterdir())
    written = {"report": str(page), "json": str(output / "report.json"), "figures": figures}
    emit((json.dumps({"format": FORMAT, "kind": "files", **written}) if as_json else str(page)) + "\n")
