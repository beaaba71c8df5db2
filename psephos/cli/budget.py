"""`psephos budget`."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from psephos.cli.generate import command
from psephos.cli.shared import AsJson, emit

app = typer.Typer(rich_markup_mode=None)


@command(
    app,
    "psephos budget patients.budget",
    "psephos budget patients.budget --limit 5,1e-6",
    "psephos budget patients.budget --data patients-2027.csv",
)
def budget(
    file: Annotated[Path, typer.Argument(help="A budget file, as `--budget` of other commands makes it.")],
    limit: Annotated[
        str | None,
        typer.Option(help="Set the most that all releases may cost together: EPSILON or EPSILON,DELTA."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Add a table of the same owner, whose releases are added up here as well.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what all releases from the same rows have cost together."""
    from psephos.budget import table_digest
    from psephos.protocol.storage.budget import BudgetFile, PrivacyLimit
    from psephos.results.base import FORMAT, plain
    from psephos.results.budget import summarise

    new_limit = None if limit is None else PrivacyLimit.parse(limit)
    with BudgetFile(file, create=False) as opened:
        if new_limit is not None:
            opened.set_limit(new_limit)
        if data is not None:
            opened.accept(table_digest(data))
        charges, bound, summary = opened.charges(), opened.limit, summarise(opened)
    if as_json:
        entries = [
            {"time": one.time, "name": one.name, "unit": str(one.unit), "epsilon": one.epsilon, "delta": one.delta}
            | {"reason": one.reason}
            for one in charges
        ]
        emit(json.dumps({"format": FORMAT, "kind": "budget", **plain(summary), "entries": entries}) + "\n")
        return
    lines = [f"{file}: {'no limit' if bound is None else f'the limit is {bound}'}"]
    for _, equal in groupby(charges, lambda one: msgspec.structs.replace(one, claim="")):
        one, *more = equal
        times = f" ({1 + len(more)} times)" if more else ""
        cost = one.reason if one.epsilon is None else f"epsilon {one.epsilon:g}, delta {one.delta:.3g}"
        lines.append(f"  {one.time[:16].replace('T', ' ')} UTC  {one.name}{times}, per {one.unit}: {cost}")
    lines += [f"Total per {total.unit}: {total}" for total in summary.totals] or ["Nothing was charged."]
    emit("\n".join(lines) + "\n")
