"""`psephos predict`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from psephos.cli.generate import command
from psephos.cli.shared import AsJson, ModelAt, OutputError, emit_raw, note

COLUMN = "predicted"

app = typer.Typer(rich_markup_mode=None)


@command(app, "psephos predict out patients.csv", "psephos predict out/model.json new.csv --output predicted.csv")
def predict(
    model: ModelAt,
    file: Annotated[Path, typer.Argument(help="A CSV or Parquet file with the columns of the model.")],
    output: Annotated[Path | None, typer.Option(help="The CSV file to write.", show_default="standard output")] = None,
    as_json: AsJson = False,
) -> None:
    """Predict with a model file: print the rows of FILE as they are, with the prediction in an added column."""
    from psephos.data.tables import SEPARATOR, canonical_table, read_cells
    from psephos.files import write_atomically
    from psephos.model import load_model
    from psephos.protocol.errors import DataError
    from psephos.protocol.foreign import printable
    from psephos.results import FORMAT

    classifier = load_model(model)
    cells = read_cells(file)
    if COLUMN in cells.columns:
        raise DataError(f"{file} already has a column {COLUMN!r}, which would be overwritten: rename it")
    table = canonical_table(cells)
    predictions, warnings = classifier.predict(table), list(classifier.model.warnings)
    warnings += [
        f"values of the column {name!r} that the model does not know count as empty cells (rows with one: {count})"
        for name, count in classifier.model.encoding.unknown(table).items()
    ]
    for warning in warnings:
        note(f"WARNING: {printable(warning)}")
    separator = cells.attrs.get(SEPARATOR, ",")
    text = cells.assign(**{COLUMN: predictions}).to_csv(index=False, sep=separator, lineterminator="\n")
    if as_json:
        document = {"format": FORMAT, "kind": "predictions", "warnings": warnings, COLUMN: predictions.tolist()}
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
