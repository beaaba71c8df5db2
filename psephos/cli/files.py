"""`psephos predict`, `report` and `budget`: commands about files that other commands wrote."""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from psephos.cli.generate import command
from psephos.cli.shared import AsJson, ModelAt, OutputError, emit, emit_raw, note
from psephos.results.base import FORMAT

if TYPE_CHECKING:
    from psephos.released import ReleasedClassifier, ReleasedRegressor

COLUMN = "predicted"

app = typer.Typer(rich_markup_mode=None)


@command(app, "psephos predict out patients.csv", "psephos predict out/model.json new.csv --output predicted.csv")
def predict(
    model: ModelAt,
    file: Annotated[Path, typer.Argument(help="A CSV or Parquet file with the columns of the model.")],
    output: Annotated[Path | None, typer.Option(help="The CSV file to write.", show_default="standard output")] = None,
    scores: Annotated[
        bool,
        typer.Option(
            "--scores", help="Add a column for each class: its score, or of a calibrated model its probability."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Predict with a model file: print the rows of FILE as they are, with the prediction in an added column."""
    from psephos.data.tables import SEPARATOR, canonical_table, read_cells
    from psephos.files import write_atomically
    from psephos.protocol.errors import DataError
    from psephos.protocol.foreign import printable
    from psephos.released import load_model

    classifier = load_model(model)
    cells = read_cells(file)
    table = canonical_table(cells)
    predictions, warnings = classifier.predict(table), list(classifier.model.warnings)
    added = {COLUMN: predictions, **(_scores_of(classifier, table) if scores else {})}
    if taken := [name for name in added if name in cells.columns]:
        raise DataError(f"{file} already has a column {taken[0]!r}, which would be overwritten: rename it")
    warnings += [
        f"values of the column {name!r} that the model does not know count as empty cells (rows with one: {count})"
        for name, count in classifier.model.encoding.unknown(table).items()
    ]
    for warning in warnings:
        note(f"WARNING: {printable(warning)}")
    separator = cells.attrs.get(SEPARATOR, ",")
    text = cells.assign(**added).to_csv(index=False, sep=separator, lineterminator="\n")
    if as_json:
        columns = {name: values.tolist() for name, values in added.items()}
        document = {"format": FORMAT, "kind": "predictions", "warnings": warnings, **columns}
        text = json.dumps(document) + "\n"
    if output is None:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(encoding="utf-8")  # as the file of --output, whatever the terminal has
        emit_raw(text)
    else:
        try:
            # They repeat the table's cells, which may be private.
            mode = None if output.exists() else 0o600
            write_atomically(output, text.encode(), mode=mode, may_stream=True)
        except OSError as error:
            raise OutputError(
                f"the predictions cannot be written to {output}: {error.strerror}; name another file"
            ) from None
        note(f"{len(table):,} predictions written to {output}")


def _scores_of(classifier: ReleasedClassifier | ReleasedRegressor, table: Any) -> dict[str, Any]:
    """Return the columns of `--scores`, (n,) each, by name."""
    from psephos.protocol.errors import InvalidParameter
    from psephos.released import ReleasedClassifier

    if not isinstance(classifier, ReleasedClassifier):
        raise InvalidParameter("this model predicts a number, which has no classes: leave --scores out")
    what, values = "score", classifier.class_scores(table)
    if classifier.model.calibration is not None:
        what, values = "probability", classifier.predict_proba(table)
    return {f"{what} of {name}": values[:, place] for place, name in enumerate(classifier.model.classes)}


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
    from psephos.results.base import plain
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
