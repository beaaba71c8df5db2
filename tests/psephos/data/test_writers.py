"""Tables as programs write them after one row changed: no other row is read, encoded or held out in another way.

Programs write a cell as its whole column demands: pandas makes whole numbers floats where one is missing, R and pandas
write a time in every date where one has a time, and so on.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pytest

from psephos.data.own import OwnTable, TableOptions
from psephos.data.splits import Split

Writer = Callable[[pd.DataFrame, Path], Path]
ROWS, CHANGED = 90, 47


def table() -> pd.DataFrame:
    """One column of each type; the first 30 rows are public, the others of three parties."""
    generator = np.random.default_rng(0)
    smoker = np.arange(ROWS) % 3 == CHANGED % 3  # not the median, which fills a gap
    return pd.DataFrame(
        {
            "age": generator.integers(20, 90, ROWS),
            "code": generator.integers(1, 4, ROWS),
            "large": generator.integers(2**54, 2**60, ROWS),
            "level": generator.normal(size=ROWS).round(3),
            "smoker": smoker,
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(generator.integers(0, 300, ROWS), "D"),
            "stay": pd.to_timedelta(generator.integers(0, 3, ROWS), "D"),
            "ward": generator.choice(["north", "south"], ROWS),
            "patient": 100 + np.arange(ROWS) // 2,
            "outcome": np.where(smoker, 1, 0),
            "site": ["open" if row < 30 else f"site {row % 3}" for row in range(ROWS)],
        }
    )


# -- writers


def pandas_csv(frame: pd.DataFrame, folder: Path) -> Path:
    frame.to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def pandas_decimal_commas(frame: pd.DataFrame, folder: Path) -> Path:
    frame.to_csv(folder / "t.csv", index=False, sep=";", decimal=",")
    return folder / "t.csv"


def pandas_by_json(frame: pd.DataFrame, folder: Path) -> Path:
    """Read as JSON first, where pandas makes truth values floats if one is missing."""
    cells = frame.assign(seen=frame["seen"].astype(str), stay=frame["stay"].astype(str)).astype(object)
    text = json.dumps(cells.where(cells.notna(), None).to_dict("records"))
    return pandas_csv(pd.read_json(io.StringIO(text), precise_float=True), folder)


def pandas_parquet(frame: pd.DataFrame, folder: Path) -> Path:
    pytest.importorskip("pyarrow")
    mixed = {name: frame[name].astype(str) for name in frame if {type(cell) for cell in frame[name]} >= {int, str}}
    frame.assign(**mixed, stay=frame["stay"].astype(str)).to_parquet(folder / "t.parquet")
    return folder / "t.parquet"


def r_csv(frame: pd.DataFrame, folder: Path) -> Path:
    """As write.csv: text in quotes, NA, TRUE and FALSE, 15 digits, and times of a column as exact as one of them is."""
    columns = {}
    for name, column in frame.items():
        cells = column.astype(object)
        if column.dtype.kind == "M":
            stamps = column.dropna()
            exact = "%Y-%m-%d" if (stamps == stamps.dt.normalize()).all() else "%Y-%m-%d %H:%M"
            cells = column.dt.strftime(exact if (stamps.dt.second == 0).all() else "%Y-%m-%d %H:%M:%S").astype(object)
        columns[name] = [
            "NA"
            if pd.isna(cell)
            else str(cell).upper()
            if isinstance(cell, bool)
            else f'"{cell}"'
            if isinstance(cell, str | pd.Timedelta)
            else f"{cell:.15g}"
            for cell in cells
        ]
    return _joined(columns, ",", folder)


def excel_csv(frame: pd.DataFrame, folder: Path) -> Path:
    """As a German Excel: semicolons and decimal commas, 15 digits, TRUE and FALSE, a time where a cell has one."""
    columns = {
        name: [
            ""
            if pd.isna(cell)
            else str(cell).upper()
            if isinstance(cell, bool)
            else f"{cell:.15G}".replace(".", ",")
            if isinstance(cell, int | float)
            else str(cell).removesuffix(" 00:00:00")
            for cell in column.astype(object)
        ]
        for name, column in frame.items()
    }
    return _joined(columns, ";", folder)


def _joined(columns: dict[Any, list[str]], separator: str, folder: Path) -> Path:
    lines = [separator.join(map(str, line)) for line in (columns, *zip(*columns.values(), strict=True))]
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    return folder / "t.csv"


WRITERS = (pandas_csv, pandas_decimal_commas, pandas_by_json, pandas_parquet, r_csv, excel_csv)


# -- changes of one row


def with_cell(column: str, cell: Any) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return the change of one cell, in a column that is as pandas makes it of such cells."""

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        cells = frame[column].tolist()
        cells[CHANGED] = cell
        return frame.assign(**{column: pd.Series(cells)})

    return change


CHANGES = {
    "a gap among whole numbers": with_cell("age", None),
    "a fraction among whole numbers": with_cell("age", 40.5),
    "a gap among codes": with_cell("code", None),
    "a word among codes": with_cell("code", "none"),
    "a gap among large numbers": with_cell("large", None),
    "a gap among numbers": with_cell("level", None),
    "a large number": with_cell("level", 1e22),
    "a gap among truth values": with_cell("smoker", None),
    "a time of day": with_cell("seen", pd.Timestamp("2024-03-01 09:30")),
    "a second": with_cell("seen", pd.Timestamp("2024-03-01 09:30:01")),
    "a nanosecond": with_cell("seen", pd.Timestamp("2024-03-01 09:30:01.000000001")),
    "a gap among dates": with_cell("seen", pd.NaT),
    "an hour in a duration": with_cell("stay", pd.Timedelta("1 days 01:00:00")),
    "a new word": with_cell("ward", "7.0"),
    "a person with another kind of name": with_cell("patient", "x1"),
    "another label": with_cell("outcome", 5),
    "a row less": lambda frame: frame.drop(index=CHANGED),
    "a row twice": lambda frame: pd.concat([frame, frame.iloc[[CHANGED]]], ignore_index=True),
}


class Persons(TableOptions):
    """Options that protect a patient with all rows."""

    person_column = "patient"


def dealt(kind: type[TableOptions], path: Path) -> tuple[OwnTable, Split]:
    ignored = () if kind is Persons else ("patient",)
    names = {"label": "outcome", "party": "site", "public": "open"}
    own = OwnTable(kind(data=str(path), **names, text=("code",), ignore=ignored, other_labels="drop"))  # type: ignore[arg-type]
    return own, own.deal(len(own.owners), 3, by_content=True)


@cache
def before_the_change(writer: Writer, kind: type[TableOptions]) -> tuple[OwnTable, Split]:
    with TemporaryDirectory() as folder:
        return dealt(kind, writer(table(), Path(folder)))


def rows(split: Split) -> Counter[tuple[bytes, int, bool]]:
    """What each private row is: its values and class, and whether it is held out."""
    X, y = split.dataset.X_train + 0.0, split.dataset.y_train
    sides = ((split.parties, False), (split.held_out, True))
    return Counter((X[row].tobytes(), int(y[row]), out) for of, out in sides for own in of for row in own)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", [TableOptions, Persons])
@pytest.mark.parametrize("writer", WRITERS)
def test_one_row_changes_how_no_other_row_is_read(
    writer: Writer, kind: type[TableOptions], change: str, tmp_path: Path
) -> None:
    before, first = before_the_change(writer, kind)
    after, second = dealt(kind, writer(CHANGES[change](table()), tmp_path))
    for name in ("encoding", "cautions"):
        assert getattr(first, name) == getattr(second, name)
    assert (before.classes, before.owners) == (after.classes, after.owners)
    np.testing.assert_array_equal(first.X_auxiliary, second.X_auxiliary)
    gone, new = rows(first) - rows(second), rows(second) - rows(first)
    assert gone.total() <= 1
    assert new.total() <= 1
    assert gone or new or change.startswith("a person"), "the row itself is read as it is"
    assert 0 < len(first.test) < 60
