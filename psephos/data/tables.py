"""Users' own tables: read as text, and encoded as numbers in the way that public rows determine.

A table is read as text, cell by cell, so that no value is changed silently. The public rows alone determine the type of
a column and its encoding (`Encoding.learn`), because the encoding is part of the released model and would otherwise
reveal something about private rows. `Encoding.summary` describes it in words.
"""

from __future__ import annotations

import csv
import io
import re
import shlex
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
    "FEW_CLASSES",
    "GAPS",
    "MANY_VALUES",
    "Column",
    "Encoding",
    "cells_of",
    "has_fractions",
    "is_gap",
    "numbers_of",
    "read_table",
    "with_decimal_points",
]

GAPS = ("", "NA", "N/A", "NaN", "null", "?")
"""Cells that count as empty, in upper or lower case."""

MANY_VALUES = 20
"""A text column with more values than this gets a warning, since each value becomes a feature."""

FEW_CLASSES = 5
"""A column with at most so many different values may be a label even if its values are numbers with fractions."""

LARGEST = 1e100
"""The largest magnitude of a number in a table: the squares of larger ones could overflow."""

_YEARS = 1678, 2261
"""The years that lie wholly within the range of 64-bit nanoseconds, in which dates become numbers."""

DECIMAL_COMMA = "decimal_comma"
"""The entry of a table's `attrs` that is True where its numbers may be written with a decimal comma, as in 1,5."""

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_INFINITE = r"(?i:[+-]?inf(?:inity)?)"
_COMMA = r"[+-]?\d[\d.]*,\d+|[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?"
_DECIMAL_COMMA = r"([+-]?\d+),(\d+)"
_DATE = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
_OTHER_DATE = r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{4}[./]\d{1,2}[./]\d{1,2}"

_IDENTIFIER = r"(?i:(?:.*[^a-z])?(?:id|uuid|guid|mrn|ssn|nr|no|identifier)|id[^a-z].*)|.*[a-z]I[Dd]"
"""Names of columns that usually identify a row: patient_id, PatientID, id, case-no."""

Finite = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]


# -- reading


def read_table(path: Path) -> pd.DataFrame:
    """Read a CSV file (comma, semicolon, tab or bar; also .gz) or a Parquet file as a table of stripped text.

    A row's index is the line of the file that it ends on, or its number in a Parquet file. Lines of empty cells are
    left out. No cell is rewritten: if semicolons or tabs separate the columns, `attrs[DECIMAL_COMMA]` is True, and
    `Encoding` reads `1,5` as one and a half in the columns that it knows to be numbers.

    Raises:
        DataSetMissingError: there is no such file.
        DataError: it is not a table, has no rows, has rows of different lengths, or has a column without a name or two
            columns with the same name.
    """
    import pandas as pd

    if not path.is_file():
        what = f"{path} is a directory: name the file of the table" if path.is_dir() else f"there is no file {path}"
        raise DataSetMissingError(what)
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
        raise DataError(f"{path} has no rows" + (" below the names of its columns" if names else ""))
    return table


def _read_csv(path: Path) -> tuple[list[str], list[list[str]], list[int], str]:
    """Return the names of the columns, the rows, the line on which each row ends, and the separator of the columns."""
    try:
        text = content_of(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise DataError(f"{path} is not UTF-8 text: save it as 'CSV UTF-8' in the spreadsheet program")
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
        raise DataError(f"{path} is empty: a table begins with a line of the names of its columns")
    names, *rows = rows
    if len(names) < 2:
        raise DataError(f"{path} has one column only: columns are separated by a comma, a semicolon, a tab or |")
    for row, line in zip(rows, lines[1:], strict=True):
        if len(row) != len(names):
            count = "1 cell" if len(row) == 1 else f"{len(row)} cells"
            raise DataError(
                f"{path}, line {line}: {count}, but the first line names {len(names)} columns: correct this line"
            )
    return names, rows, lines[1:], separator


def _read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        # Nullable types, so that an empty cell does not turn the other rows' integers into floats, 7 into 7.0.
        return cells_of(pd.read_parquet(path, dtype_backend="numpy_nullable"))
    except ImportError:
        raise DataError(
            "Parquet files need pyarrow (in a clone: pip install -e '.[parquet]'); or save the table as CSV"
        ) from None
    except DataError:
        raise
    except (OSError, ValueError) as error:  # pyarrow's errors are subclasses of these
        raise DataError(f"{path} is not a readable Parquet file ({error})") from None


def cells_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert a typed table to the text that a CSV file would contain; numbers keep all digits.

    Raises:
        DataError: a cell is not a number, text, a date or a truth value.
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


def is_number(cell: str) -> bool:
    """Return whether a cell is a number with a decimal point."""
    return re.fullmatch(_NUMBER, cell) is not None


def has_fractions(cells: Collection[str]) -> bool:
    """Return whether all cells are numbers and at least one is not whole."""
    return all(re.fullmatch(_NUMBER, cell) for cell in cells) and any(float(cell) % 1 for cell in cells)


def with_decimal_points(cells: pd.Series[str]) -> pd.Series[str]:
    """Replace 1,5 by 1.5 in a column of numbers, if its table has decimal commas (`DECIMAL_COMMA`)."""
    if not cells.attrs.get(DECIMAL_COMMA, False):
        return cells
    return cells.str.replace(f"^{_DECIMAL_COMMA}$", r"\1.\2", regex=True)


def is_gap(cells: pd.Series[str]) -> pd.Series[bool]:
    """Return which cells are empty, as `GAPS` lists them."""
    return cells.str.lower().isin([gap.lower() for gap in GAPS])


def numbers_of(cells: pd.Series[str]) -> NDArray[np.float64]:
    """Return the numbers in a column of text, float64 (n,); NaN for an empty cell, or one that is no finite number.

    Each cell is converted separately: with one type for the column, a row could change how another one is rounded.
    """
    numbers = np.array([float(cell) if is_number(cell) else np.nan for cell in with_decimal_points(cells)], np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)


# -- encoding


class Column(Struct, frozen=True, forbid_unknown_fields=True):
    """How one column is encoded.

    Attributes:
        name: name of the column in the table.
        kind: "number" becomes one feature; "date" one, in days since 1970-01-01; "text" one 0/1 feature for each value.
        fill: the number that replaces an empty cell of a number or date column: the median of the public rows, or the
            schema's. An empty cell of a text column, like an unknown value, is 0 in all features.
        values: the known values of a text column.
    """

    name: str
    kind: Literal["number", "date", "text"]
    fill: Finite = 0.0
    values: tuple[str, ...] = ()

    @property
    def features(self) -> list[str]:
        """Names of the column's features."""
        return [f"{self.name}={value}" for value in self.values] if self.kind == "text" else [self.name]


class Encoding(Struct, frozen=True, forbid_unknown_fields=True):
    """How the rows of a table become numbers: the same for every party and for every user of the model."""

    columns: tuple[Column, ...]

    @property
    def features(self) -> list[str]:
        """Names of all features, in order."""
        return [name for column in self.columns for name in column.features]

    @property
    def summary(self) -> list[tuple[str, str]]:
        """Pairs (name of a column, description of its encoding)."""
        descriptions = {
            "number": "number; a gap is read as {0.fill:.6g}",
            "date": "date, in days since 1970-01-01; a gap is read as {0.fill:.6g}",
        }
        return [
            (
                column.name,
                descriptions[column.kind].format(column) if column.kind != "text" else _describe_values(column.values),
            )
            for column in self.columns
        ]

    @classmethod
    def learn(cls, public: pd.DataFrame, text: Collection[str] = ()) -> tuple[Encoding, list[str]]:
        """Determine the encoding from the public rows.

        Args:
            public: the cells of the public rows in the columns that are features, as `read_table` returns them.
            text: columns that are text whatever their cells are, such as codes.

        Returns:
            The encoding, and warnings about columns that look wrong.

        Raises:
            DataError: a column has no public value; has infinite, huge or mixed values; has decimal commas in a file
                whose columns are separated by commas; or has dates in which day and month are ambiguous.
        """
        columns, cautions = [], []
        for name in public.columns:
            column, warnings = _learn_column(public[name], name in text)
            columns.append(column)
            cautions += warnings
        return cls(tuple(columns)), cautions

    def apply(self, table: pd.DataFrame) -> NDArray[np.float64]:
        """Encode rows as numbers, float64 (n, d).

        Args:
            table: as `read_table` returns it; columns that are not in the encoding are ignored.

        Raises:
            DataError: a column is missing, or a cell is of another kind. The message has the line number but not the
                cell, which may be private.
        """
        if missing := [column.name for column in self.columns if column.name not in table.columns]:
            raise DataError(
                f"the table has no column{'s' if len(missing) > 1 else ''} {', '.join(map(repr, missing))}; it has: "
                f"{_some(table.columns)}"
            )
        if not self.columns:
            raise DataError("the encoding has no columns: leave fewer columns out with --ignore")
        return np.column_stack([_encoded(column, table[column.name]) for column in self.columns])

    def with_decimal_points(self, table: pd.DataFrame) -> pd.DataFrame:
        """Replace 1,5 by 1.5 in the columns of numbers, to write the table with commas between columns."""
        numbers = [column.name for column in self.columns if column.kind == "number" and column.name in table.columns]
        rewritten = table.assign(**{name: with_decimal_points(table[name]) for name in numbers})
        rewritten.attrs[DECIMAL_COMMA] = False
        return rewritten

    def unknown(self, table: pd.DataFrame) -> dict[str, int]:
        """Count the cells with an unknown value in each text column that has any."""
        counts = {
            c.name: int((~is_gap(table[c.name]) & ~table[c.name].isin(c.values)).sum())
            for c in self.columns
            if c.kind == "text"
        }
        return {name: count for name, count in counts.items() if count}


def _learn_column(cells: pd.Series[str], is_text: bool) -> tuple[Column, list[str]]:
    """Return the encoding of one column, as its cells in the public rows determine it, and the warnings about it."""
    name = str(cells.name)
    filled = cells[~is_gap(cells)]
    if not len(filled):
        raise DataError(
            f"no public row has a value in the column {name!r}: leave it out with --ignore {shlex.quote(name)}"
        )
    kind = "text" if is_text else _kind(name, with_decimal_points(filled))
    if kind == "text":
        values = tuple(sorted(filled.unique()))
        return Column(name, "text", values=values), _about_text(name, values, filled)
    filled = with_decimal_points(filled)
    numbers = _numbers(name, kind, filled)
    whole = kind == "number" and (numbers == np.rint(numbers)).all()
    return Column(name, kind, fill=float(np.median(numbers))), _about_all_alike(name, filled) or (
        _about_identifiers(name, filled, numbers) if whole else []
    )


def _about_text(name: str, values: Sequence[str], filled: pd.Series[str]) -> list[str]:
    if len(values) <= MANY_VALUES:
        return _about_all_alike(name, filled) or _about_identifiers(name, filled)
    examples = _some(values, 3)
    return _about_identifiers(name, filled) or [
        f"the column {name!r} holds {len(values)} different texts ({examples}), and each becomes a feature; "
        f"--ignore {shlex.quote(name)} leaves it out"
    ]


def _about_all_alike(name: str, filled: pd.Series[str]) -> list[str]:
    alike = filled.nunique() == 1
    return [f"the column {name!r} is the same in every public row: nothing can be learned from it"] if alike else []


def _about_identifiers(name: str, filled: pd.Series[str], numbers: NDArray[np.float64] | None = None) -> list[str]:
    """Return a warning about a column that seems to identify rows, otherwise an empty list.

    A column seems to identify rows if no value occurs twice and one of the following holds: its name is that of an
    identifier; it has many texts; or its whole numbers are a counter, with few gaps (whole measurements, such as
    weights, may be all different as well).

    Args:
        name: name of the column.
        filled: its cells that are not empty.
        numbers: these cells as whole numbers; None for text.
    """
    if len(filled) < 3 or not filled.is_unique:
        return []
    many = len(filled) > MANY_VALUES
    counter = many and (numbers is None or np.ptp(numbers) < 2 * len(numbers))
    if not counter and not re.fullmatch(_IDENTIFIER, name):
        return []
    return [
        f"the column {name!r} is different in each of {len(filled)} public rows: if it identifies the row, leave it "
        f"out with --ignore {shlex.quote(name)}"
    ]


def _kind(name: str, filled: pd.Series[str]) -> Literal["number", "date", "text"]:
    """Return the kind of a column, from its cells that are not empty; raises DataError if it is ambiguous."""
    number = filled.str.fullmatch(_NUMBER)
    if (infinite := filled.str.fullmatch(_INFINITE)).any():
        raise _wrong(name, infinite, "an infinite number", "empty the cell, or write a number")
    if number.all():
        return "number"
    if filled.str.fullmatch(_DATE).all():
        return "date"
    comma = filled.str.fullmatch(_COMMA)
    if comma.any() and (comma | number).all():
        raise _wrong(
            name,
            comma,
            "a number with a comma",
            "write 1.5 for 1,5 and 1234.5 for 1,234.5; where semicolons separate the columns, 1,5 is read as 1.5",
        )
    if filled.str.fullmatch(_OTHER_DATE).all():
        raise _wrong(
            name,
            ~number,
            "a date with ambiguous day and month",
            f"write 2024-12-31, or --text {shlex.quote(name)}, or --ignore {shlex.quote(name)}",
        )
    if number.mean() > 0.5:
        raise _wrong(
            name,
            ~number,
            "text among numbers",
            f"empty such cells, or --text {shlex.quote(name)}, or --ignore {shlex.quote(name)}",
        )
    return "text"


def _numbers(name: str, kind: str, filled: pd.Series[str]) -> NDArray[np.float64]:
    """Convert cells that are not empty to numbers, float64 (n,); raises DataError for a cell of another kind."""
    import pandas as pd

    if kind == "date":
        stamps = pd.to_datetime(filled, format="ISO8601", errors="coerce", utc=True)
        if not (valid := filled.str.fullmatch(_DATE) & stamps.notna()).all():
            raise _wrong(name, ~valid, "something other than a date as 2024-12-31", "correct it, or empty the cell")
        if not (near := stamps.dt.year.between(*_YEARS)).all():
            raise _wrong(name, ~near, f"a date outside the years {_YEARS[0]} to {_YEARS[1]}", "empty the cell")
        return np.asarray((stamps - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1), dtype=np.float64)
    if not (valid := filled.str.fullmatch(_NUMBER)).all():
        raise _wrong(name, ~valid, "something other than a finite number", "correct it, or empty the cell")
    numbers = filled.astype(np.float64)
    if (huge := numbers.abs() > LARGEST).any():
        raise _wrong(name, huge, f"a number beyond {LARGEST:g}", "empty the cell, or write it in another unit")
    return np.asarray(numbers, dtype=np.float64)


def _encoded(column: Column, cells: pd.Series[str]) -> NDArray[np.float64]:
    if column.kind == "text":
        codes = cells.map({value: code for code, value in enumerate(column.values)}).to_numpy(np.float64, na_value=-1)
        return np.asarray(codes[:, None] == np.arange(len(column.values)), dtype=np.float64)
    encoded = np.full((len(cells), 1), column.fill)
    filled = ~is_gap(cells)
    encoded[filled.to_numpy(), 0] = _numbers(column.name, column.kind, with_decimal_points(cells[filled]))
    return encoded


def _wrong(name: str, where: pd.Series[bool], what: str, remedy: str) -> DataError:
    more = f", and {where.sum() - 1} more" if where.sum() > 1 else ""
    return DataError(f"the column {name!r} holds {what} (line {where.idxmax()}{more}): {remedy}")


def _describe_values(values: Sequence[str]) -> str:
    return f"text, a 0/1 feature for each of {len(values)} values: {_some(values)}; a gap or another value is 0 in all"


def _some(names: Collection[Any], most: int = 10) -> str:
    texts = [str(name) for name in names]
    return ", ".join(texts[:most]) + (", ..." if len(texts) > most else "")
