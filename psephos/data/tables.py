"""Tables of people's own: read as they are written, turned into numbers by what public rows say.

A table is read as text, cell by cell, so that nothing is guessed in silence. What a column's cells stand for is settled
by the public rows alone (`Encoding.learn`), is said in words (`Encoding.summary`) and is part of a released model: an
encoding that looked at private rows would tell about them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Sequence
from datetime import date
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from psephos.data.datasets import content_of
from psephos.protocol.errors import DataError, DataSetMissingError

if TYPE_CHECKING:  # takes half a second to import
    import pandas as pd

__all__ = [
    "DECIMAL_COMMA",
    "GAPS",
    "MANY_VALUES",
    "Column",
    "Encoding",
    "cells_of",
    "is_gap",
    "read_table",
    "with_decimal_points",
]

GAPS = ("", "NA", "N/A", "NaN", "null", "?")
"""Cells without a value, in whatever case they are written."""

MANY_VALUES = 20
"""A text column with more values than this is worth a warning: each of them becomes a feature."""

LARGEST = 1e100
"""Of the numbers in a table: squares of larger ones leave the range of floating point."""

DECIMAL_COMMA = "decimal_comma"
"""The entry of a table's `attrs` that is True where its numbers may be written with a decimal comma, as in 1,5."""

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_INFINITE = r"(?i:[+-]?inf(?:inity)?)"
_COMMA = r"[+-]?\d[\d.]*,\d+"
_DECIMAL_COMMA = r"([+-]?\d+),(\d+)"
_DATE = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
_OTHER_DATE = r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{4}[./]\d{1,2}[./]\d{1,2}"

Finite = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]


# -- reading


def read_table(path: Path) -> pd.DataFrame:
    """The cells of a CSV file (comma, semicolon, tab or bar; also .gz) or of a Parquet file, as text without spaces.

    A row's index is the line of the file that it ends on, or its number in a Parquet file. Lines without any cell
    filled are left out. No cell is rewritten: where semicolons or tabs separate the columns, `attrs[DECIMAL_COMMA]` is
    True, and `Encoding` reads `1,5` as one and a half in the columns that it knows to be numbers.

    Raises DataSetMissingError where there is no such file; DataError for one that is no table, has no rows, has rows of
    different lengths, or a column without a name or with another's.
    """
    import pandas as pd

    if not path.is_file():
        raise DataSetMissingError(f"there is no file {path}")
    if path.suffix in (".parquet", ".pq"):
        table = _read_parquet(path)
    else:
        names, rows, lines, separator = _read_csv(path)
        table = pd.DataFrame(rows, columns=names, index=lines, dtype=str)
        table.attrs[DECIMAL_COMMA] = separator in ";\t"
    names = [str(name) for name in table.columns]
    for place, name in enumerate(names):
        if not name:
            raise DataError(
                f"{path}: column {place + 1} has no name: give it one, or take it out (pandas writes row numbers so; "
                "index=False leaves them out)"
            )
        if name in names[:place]:
            raise DataError(f"{path}: two columns are called {name!r}: give one of them another name")
    if not len(table):
        raise DataError(f"{path} has no rows" + (" but the names of the columns" if names else ""))
    return table


def _read_csv(path: Path) -> tuple[list[str], list[list[str]], list[int], str]:
    """The names of the columns, the rows, the line that each row ends on, and the separator of the columns."""
    try:
        text = content_of(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise DataError(f"{path} is no text in UTF-8: save it as 'CSV UTF-8', which spreadsheets offer")
    first = text.lstrip("\r\n").partition("\n")[0]
    separator = max(",;\t|", key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows, lines = [], []
    try:
        for row in reader:
            if any(cells := [cell.strip() for cell in row]):
                rows.append(cells)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}") from None
    if not rows:
        raise DataError(f"{path} is empty")
    names, *rows = rows
    if len(names) < 2:
        raise DataError(f"{path} has one column only: columns are separated by a comma, a semicolon, a tab or |")
    for row, line in zip(rows, lines[1:], strict=True):
        if len(row) != len(names):
            raise DataError(f"{path}, line {line}: {len(row)} cells where the first line names {len(names)} columns")
    return names, rows, lines[1:], separator


def _read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        return cells_of(pd.read_parquet(path))
    except ImportError:
        raise DataError(
            "Parquet files need pyarrow: pip install 'psephos[parquet]', or save the table as CSV"
        ) from None
    except DataError:
        raise
    except (OSError, ValueError) as error:  # what pyarrow raises is one of these
        raise DataError(f"{path} is no readable Parquet file ({error})") from None


def cells_of(frame: pd.DataFrame) -> pd.DataFrame:
    """A typed table as the text that a CSV file would hold; numbers keep every digit.

    Raises DataError for cells that are no number, text, date or truth value.
    """
    import pandas as pd

    cells = {}
    for name, column in frame.items():
        values = column.astype(object)
        if not all(isinstance(value, str | Real | np.bool | Decimal | date) for value in values[column.notna()]):
            raise DataError(f"the column {str(name)!r} holds something other than numbers, text and dates")
        cells[str(name)] = values.where(column.notna(), "").map(str).str.strip()
    text = pd.DataFrame(cells, index=frame.index, dtype=str)
    text.attrs = dict(frame.attrs)
    return text


def with_decimal_points(cells: pd.Series[str]) -> pd.Series[str]:
    """The cells of a column of numbers, with 1.5 for 1,5 where their table has decimal commas."""
    if not cells.attrs.get(DECIMAL_COMMA, False):
        return cells
    return cells.str.replace(f"^{_DECIMAL_COMMA}$", r"\1.\2", regex=True)


def is_gap(cells: pd.Series[str]) -> pd.Series[bool]:
    """Which cells are without a value."""
    return cells.str.lower().isin([gap.lower() for gap in GAPS])


# -- encoding


class Column(Struct, frozen=True, forbid_unknown_fields=True):
    """What became of a column.

    Attributes:
        name: in the table.
        kind: "number" is one feature; "date" one, in days since 1970; "text" one of 0 and 1 for each known value.
        fill: what stands for a gap in a number or a date: the median of the public rows, or what a schema says. In text
            a gap, and a value that is not known, is 0 in all.
        values: known ones, of text.
    """

    name: str
    kind: Literal["number", "date", "text"]
    fill: Finite = 0.0
    values: tuple[str, ...] = ()

    @property
    def features(self) -> list[str]:
        """Names of the features that it becomes."""
        return [f"{self.name}={value}" for value in self.values] if self.kind == "text" else [self.name]


class Encoding(Struct, frozen=True, forbid_unknown_fields=True):
    """How the rows of a table become numbers, the same for every party and for whoever uses the model."""

    columns: tuple[Column, ...]

    @property
    def features(self) -> list[str]:
        """Names of the features, in order."""
        return [name for column in self.columns for name in column.features]

    @property
    def summary(self) -> list[tuple[str, str]]:
        """Each column with what becomes of it, in words."""
        said = {
            "number": "number; a gap is read as {0.fill:.6g}",
            "date": "date, in days since 1970-01-01; a gap is read as {0.fill:.6g}",
        }
        return [
            (column.name, said[column.kind].format(column) if column.kind != "text" else _known(column.values))
            for column in self.columns
        ]

    @classmethod
    def learn(cls, public: pd.DataFrame, text: Collection[str] = ()) -> tuple[Encoding, list[str]]:
        """The encoding that the public rows settle, and what a reader should know about it.

        Args:
            public: their cells, as `read_table` gives them, of the columns that are features.
            text: columns that are text whatever they hold, such as codes.

        Raises DataError for a column without a public value, with infinite, huge or mixed values, with decimal commas,
        or with dates of which nobody knows which number is the month.
        """
        columns, cautions = [], []
        for name in public.columns:
            column, said = _learned(public[name], name in text)
            columns.append(column)
            cautions += said
        return cls(tuple(columns)), cautions

    def apply(self, table: pd.DataFrame) -> NDArray[np.float64]:
        """The rows as numbers, float64 (n, d). `table`: as `read_table` gives it; other columns are ignored.

        Raises DataError for a column that is missing, or whose cells are not of its kind; the message names the line,
        not the cell, which is its owner's.
        """
        if missing := [column.name for column in self.columns if column.name not in table.columns]:
            raise DataError(f"the table has no column {', '.join(map(repr, missing))}; it has: {_some(table.columns)}")
        if not self.columns:
            raise DataError("no column is left to learn from")
        return np.column_stack([_encoded(column, table[column.name]) for column in self.columns])

    def with_decimal_points(self, table: pd.DataFrame) -> pd.DataFrame:
        """The table with 1.5 for 1,5 in its columns of numbers, for a file whose columns are separated by commas."""
        numbers = [column.name for column in self.columns if column.kind == "number" and column.name in table.columns]
        rewritten = table.assign(**{name: with_decimal_points(table[name]) for name in numbers})
        rewritten.attrs[DECIMAL_COMMA] = False
        return rewritten

    def unknown(self, table: pd.DataFrame) -> dict[str, int]:
        """How many cells of each text column hold a value that the encoding does not know."""
        found = {
            c.name: int((~is_gap(table[c.name]) & ~table[c.name].isin(c.values)).sum())
            for c in self.columns
            if c.kind == "text"
        }
        return {name: count for name, count in found.items() if count}


def _learned(cells: pd.Series[str], is_text: bool) -> tuple[Column, list[str]]:
    name = str(cells.name)
    found = cells[~is_gap(cells)]
    if not len(found):
        raise DataError(f"no public row has a value in the column {name!r}: leave it out with --ignore {name}")
    kind = "text" if is_text else _kind(name, with_decimal_points(found))
    if kind == "text":
        values = tuple(sorted(found.unique()))
        return Column(name, "text", values=values), _about_text(name, values, found)
    found = with_decimal_points(found)
    numbers = _numbers(name, kind, found)
    whole = kind == "number" and (numbers == np.rint(numbers)).all()
    return Column(name, kind, fill=float(np.median(numbers))), _about_all_alike(name, found) or (
        _about_all_different(name, found) if whole else []
    )


def _about_text(name: str, values: Sequence[str], found: pd.Series[str]) -> list[str]:
    if len(values) <= MANY_VALUES:
        return _about_all_alike(name, found)
    shown = _some(values, 3)
    return _about_all_different(name, found) or [
        f"the column {name!r} holds {len(values)} different texts ({shown}), and each becomes a feature; "
        f"--ignore {name} leaves it out"
    ]


def _about_all_alike(name: str, found: pd.Series[str]) -> list[str]:
    alike = found.nunique() == 1
    return [f"the column {name!r} is the same in every public row: nothing can be learned from it"] if alike else []


def _about_all_different(name: str, found: pd.Series[str]) -> list[str]:
    if len(found) <= MANY_VALUES or not found.is_unique:
        return []
    return [
        f"the column {name!r} is different in each of {len(found)} public rows: if it identifies the row, leave it "
        f"out with --ignore {name}"
    ]


def _kind(name: str, found: pd.Series[str]) -> Literal["number", "date", "text"]:
    """What the cells with a value hold, all of them; DataError where they look like something they are not."""
    number = found.str.fullmatch(_NUMBER)
    if (infinite := found.str.fullmatch(_INFINITE)).any():
        raise _wrong(name, infinite, "an infinite number", "empty the cell, or write a number")
    if number.all():
        return "number"
    if found.str.fullmatch(_DATE).all():
        return "date"
    comma = found.str.fullmatch(_COMMA)
    if comma.any() and (comma | number).all():
        raise _wrong(
            name,
            comma,
            "a number with a comma",
            "write 1.5 for 1,5 and 1234 for 1,234; where semicolons separate the columns, 1,5 is read as 1.5",
        )
    if found.str.fullmatch(_OTHER_DATE).all():
        raise _wrong(
            name,
            ~number,
            "a date of which nobody can tell day and month",
            f"write 2024-12-31, or --text {name}, or --ignore {name}",
        )
    if number.mean() > 0.5:
        raise _wrong(name, ~number, "text among numbers", f"empty such cells, or --text {name}, or --ignore {name}")
    return "text"


def _numbers(name: str, kind: str, found: pd.Series[str]) -> NDArray[np.float64]:
    """Cells with a value as numbers."""
    import pandas as pd

    if kind == "date":
        stamps = pd.to_datetime(found, format="ISO8601", errors="coerce", utc=True)
        if not (known := found.str.fullmatch(_DATE) & stamps.notna()).all():
            raise _wrong(name, ~known, "something other than a date as 2024-12-31", "mend it or empty the cell")
        return np.asarray((stamps - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1), dtype=np.float64)
    if not (known := found.str.fullmatch(_NUMBER)).all():
        raise _wrong(name, ~known, "something other than a finite number", "mend it or empty the cell")
    numbers = found.astype(np.float64)
    if (huge := numbers.abs() > LARGEST).any():
        raise _wrong(name, huge, f"a number beyond {LARGEST:g}", "empty the cell, or write it in another unit")
    return np.asarray(numbers, dtype=np.float64)


def _encoded(column: Column, cells: pd.Series[str]) -> NDArray[np.float64]:
    if column.kind == "text":
        codes = cells.map({value: code for code, value in enumerate(column.values)}).to_numpy(np.float64, na_value=-1)
        return np.asarray(codes[:, None] == np.arange(len(column.values)), dtype=np.float64)
    encoded = np.full((len(cells), 1), column.fill)
    there = ~is_gap(cells)
    encoded[there.to_numpy(), 0] = _numbers(column.name, column.kind, with_decimal_points(cells[there]))
    return encoded


def _wrong(name: str, where: pd.Series[bool], what: str, remedy: str) -> DataError:
    more = f", and {where.sum() - 1} more" if where.sum() > 1 else ""
    return DataError(f"the column {name!r} holds {what} (line {where.idxmax()}{more}): {remedy}")


def _known(values: Sequence[str]) -> str:
    return f"text, a 0/1 feature for each of {len(values)} values: {_some(values)}; a gap or another value is 0 in all"


def _some(names: Collection[Any], most: int = 10) -> str:
    shown = [str(name) for name in names]
    return ", ".join(shown[:most]) + (", ..." if len(shown) > most else "")
