"""Users' own tables: read as text, and encoded as numbers in the way that public rows determine.

Each cell is read as the one text of its value (`canonical`), so that no row changes how another is read. Public rows
alone determine the type of a column and its encoding (`Encoding.learn`), because the encoding is part of the released
model and would otherwise reveal something about private rows.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import force_setattr
from numpy.typing import NDArray

from psephos.data.datasets import content_of
from psephos.data.feature_map import FeatureMap
from psephos.options import join_list, words_for
from psephos.protocol.errors import DataError, DataSetMissingError, InvalidParameter
from psephos.protocol.names import confusable, plain

if TYPE_CHECKING:  # takes half a second to import
    import pandas as pd


GAPS = frozenset(("", "na", "n/a", "nan", "<na>", "null", "?", "NaT"))
"""Cells that count as empty; those in lower case also in upper case."""

TRUTH = {"true": "1", "false": "0"}
"""The numbers that truth values are, in lower case: pandas writes 1.0 for True where another row has a gap."""

MANY_VALUES = 20
"""A text column with more values than this gets a warning, since each value becomes a feature."""

FEW_CLASSES = 5
"""A column with at most so many different values may be a label even if its values are numbers with fractions."""

LARGEST = 1e100
"""The largest magnitude of a number in a table: the squares of larger ones could overflow."""

_YEARS = 1678, 2261  # the first and last year of dates that are read; others usually stand for a date that is not known

MOST_EXACT = 2.0**53
"""The largest whole number up to which float64 holds all."""

SEPARATOR = "separator"
"""The entry of the `attrs` of raw cells that says what separates the columns of their CSV file."""

_LINE, _ROW = "line\0", "row\0"
"""Names of the index of a table of text: what its numbers count. No column has such a name (`plain`)."""

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_INFINITE = r"(?i:[+-]?inf(?:inity)?)"
_COMMA = r"[+-]?\d[\d.]*,\d+|[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?"
_DECIMAL_COMMA = r"([+-]?\d*),(\d+(?:[eE][+-]?\d+)?)"
_DAY = r"\d{4}-\d\d-\d\d|\d{4}/\d\d?/\d\d?|\d{4}\.\d\d?\.\d\d?"
_DATE = rf"({_DAY})(?:[T ](\d\d:\d\d)(?::(\d\d)(\.\d{{1,9}})?)?(Z|[+-]\d\d:?\d\d(?::?\d\d)?)?)?"
"""A day, and perhaps minutes, seconds, a fraction, and an offset, with seconds where it is older than standard time."""
_DURATION = r"-?\d+ days(?: \+?\d\d:\d\d:\d\d(?:\.\d+)?)?"  # A duration as pandas writes it, which is text
_OTHER_DATE = r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}"

_NOTATIONS = (
    (
        _COMMA,
        "a number with a comma",
        "write 1.5 for 1,5 and 1234.5 for 1,234.5; where semicolons separate the columns, 1,5 is read as 1.5",
    ),
    (
        r"[+-]?\d{1,3}(?:[ '\u2019]\d{3})+(?:[.,]\d+)?",
        "a number in groups of digits",
        "write 1234.5 for 1 234.5 and 1'234.5, or {text}",
    ),
    (r"[+-]?[\d.,]*\d ?%", "a number with a percent sign", "write 12.5 for 12.5 %, or {text}"),
)
"""Patterns of numbers that are not read as such, what to call them, and the remedy."""

_CELL = re.compile(r'(?:"[^"]*+(?:""[^"]*+)*+")?[^,;\t|\r\n]*+([,;\t|]?)')
"""A cell of the first line of a CSV file, perhaps quoted, and the character behind it that may separate columns."""

_IDENTIFIER = r"(?i:(?:.*[^a-z])?(?:id|uuid|guid|mrn|ssn|nr|no|identifier)|id[^a-z].*)|.*[a-z]I[Dd]"
"""Names of columns that usually identify a row: patient_id, PatientID, id, case-no."""

Finite = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]


# -- reading


def read_table(path: Path) -> pd.DataFrame:
    """Read a CSV file (comma, semicolon, tab or bar; also .gz) or a Parquet file as a table of `canonical` text.

    A row's index is the line of the file that it ends on, or its number in a Parquet file. Blank lines are left out. If
    semicolons or tabs separate the columns, `1,5` is read as 1.5. Raises DataSetMissingError, or DataError for what is
    not a table with rows of one length and columns of different names.
    """
    return canonical_table(read_cells(path))


def read_cells(path: Path) -> pd.DataFrame:
    """Read a file as `read_table` does, but every cell as it is written: only for showing a user's own cells again."""
    import pandas as pd

    if not path.is_file():
        what = f"{path} is a directory: name the file of the table" if path.is_dir() else f"there is no file {path}"
        raise DataSetMissingError(what)
    if path.suffix.lower() in (".parquet", ".pq"):
        table = _read_parquet(path)
    else:
        names, rows, lines, separator = _read_csv(path)
        index = pd.Index(lines, name=_LINE)
        table = pd.DataFrame(rows, columns=_column_names(names, str(path)), index=index, dtype=str)
        table.attrs[SEPARATOR] = separator
    if not len(table):
        raise DataError(f"{path} has no rows" + (" below the names of its columns" if len(table.columns) else ""))
    return table


def _column_names(names: Iterable[Any], table: str) -> list[str]:
    """Return the names of a table's columns in their `plain` spelling; raises DataError as `read_table`."""
    spelled = [plain(str(name)) for name in names]
    for place, name in enumerate(spelled):
        if not name:
            raise DataError(f"{table}: column {place + 1} has no name: give it one, or take it out (row numbers?)")
        if name in spelled[:place]:
            raise DataError(f"{table}: two columns are called {name!r}: give one of them another name")
    check_distinct(f"{table}: the columns", spelled)
    return spelled


def _read_csv(path: Path) -> tuple[list[str], list[list[str]], list[int], str]:
    """Return the names of the columns, the rows, the line on which each row ends, and the separator of the columns."""
    try:
        text = content_of(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise DataError(f"{path} is not UTF-8 text: save it as 'CSV UTF-8' in the spreadsheet program")
    stated = re.match(r'[\r\n]*"?sep=([,;\t|])"?[\r\n]', text)  # a first line that spreadsheet programs write
    separator = stated[1] if stated else _separator(text.lstrip("\r\n"))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows: list[list[str]] = []
    lines, blank = [], []
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells) or (cells and rows and (len(cells) > 1 or len(rows[0]) == 1)):
                rows.append(cells)
                lines.append(reader.line_num)
            else:
                blank.append(reader.line_num)
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}") from None
    if stated:
        del rows[0], lines[0]
    if not rows:
        raise DataError(f"{path} is empty: a table begins with a line of the names of its columns")
    names, *rows = rows
    if len(names) == 1 and (within := [line for line in blank if lines[0] < line < lines[-1]]):
        raise DataError(f"{path}, line {within[0]} is blank: write NA if its only cell is empty, or take the line out")
    for row, line in zip(rows, lines[1:], strict=True):
        if len(row) != len(names):
            count = "1 cell" if len(row) == 1 else f"{len(row)} cells"
            raise DataError(f"{path}, line {line}: {count}, but the first line names {len(names)} columns")
    return names, rows, lines[1:], separator


def _separator(text: str) -> str:
    """Return the most frequent of , ; tab and | outside the quotes of the first line; a comma if there is none."""
    counts, place = dict.fromkeys(",;\t|", 0), 0
    while (cell := _CELL.match(text, place)) and cell[1]:
        counts[cell[1]] += 1
        place = cell.end()
    return max(counts, key=counts.__getitem__)


def _read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        from pyarrow import parquet

        _column_names(parquet.read_schema(path).names, str(path))
        return _texts(pd.read_parquet(path, dtype_backend="numpy_nullable"), str(path))
    except ImportError:
        raise DataError("Parquet files need pyarrow (pip install pyarrow); or save the table as CSV") from None
    except DataError:
        raise
    except (OSError, ValueError) as error:  # pyarrow's errors are subclasses of these
        reason = str(error).partition("\n")[0]
        raise DataError(f"{path} is not a readable Parquet file ({reason})") from None


def _texts(frame: pd.DataFrame, table: str = "the table") -> pd.DataFrame:
    """Convert a typed table to text; its index becomes columns, if it has names. Raises as `cells_of`."""
    import pandas as pd

    if frame.index.name not in (_LINE, _ROW):
        named = [name for name in frame.index.names if name is not None]
        frame = frame.reset_index(level=named, allow_duplicates=True) if named else frame
        # Labels of rows may be private: messages state their numbers.
        frame = frame.set_axis(pd.RangeIndex(1, len(frame) + 1, name=_ROW))
    cells = {}
    for place, name in enumerate(_column_names(frame.columns, table)):
        column = frame.iloc[:, place]
        values = column.astype(object)
        if not all(isinstance(value, str | Real | np.bool | Decimal | date) for value in values[column.notna()]):
            raise DataError(f"the column {name!r} holds something other than numbers, text and dates")
        cells[name] = values.where(column.notna(), "").map(str).str.strip()
    return pd.DataFrame(cells, index=frame.index, dtype=str)


# -- cells


def cells_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert a table, typed or of text, to `canonical` text, as `read_table` reads it from a file."""
    return canonical_table(_texts(frame))


def canonical_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the `canonical` text of every raw cell of a table."""
    import pandas as pd

    decimal_comma = cells.attrs.get(SEPARATOR) in (";", "\t")
    columns = {}
    for name, column in cells.items():
        texts = {cell: canonical(cell, decimal_comma=decimal_comma) for cell in set(column)}
        columns[name] = [texts[cell] for cell in column]
    return pd.DataFrame(columns, index=cells.index, dtype=str)


def canonical(cell: str, *, decimal_comma: bool = False) -> str:
    """Return the text of a cell's value, a function of this cell alone; equal values have equal texts.

    Programs write a cell as its whole column demands: 7 as `7.0` where another row has a gap, a day with a time where
    another row has one. Without this, one private row would change how all others are read. "" is a gap; a number is
    the shortest text of its float64, whole ones without a fraction, truth values are 1 and 0; a date is the day, and
    the time (UTC) if it is not midnight; a duration in days likewise; all else is in its `plain` spelling.
    """
    text = plain(cell)
    if text in GAPS or text.lower() in GAPS:
        return ""
    text = TRUTH.get(text.lower(), text)
    signed = text.replace("\N{MINUS SIGN}", "-")
    if decimal_comma:
        signed = re.sub(f"^{_DECIMAL_COMMA}$", r"\1.\2", signed)
    if is_number(signed):
        number = float(signed) + 0.0  # -0.0 becomes 0.0
        return repr(number).removesuffix(".0") if math.isfinite(number) else text
    if (instant := _instant(text)) is not None:
        stamp, fraction = instant
        return f"{stamp}{fraction}".removesuffix(" 00:00:00")
    if re.fullmatch(_DURATION, text):
        return re.sub(r" \+?00:00:00$", "", text.rstrip("0").rstrip(".") if "." in text else text)
    return text


def _instant(text: str) -> tuple[datetime, str] | None:
    """Return a date as UTC in whole seconds, and the fraction as text without trailing zeros; None for other text."""
    match = re.fullmatch(_DATE, text)
    if match is None:
        return None
    day, minutes, seconds, fraction, offset = match.groups(default="")
    day = "-".join(part.zfill(2) for part in re.split("[-/.]", day))
    try:
        stamp = datetime.fromisoformat(f"{day}T{minutes or '00:00'}:{seconds or '00'}{offset or 'Z'}").astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return stamp.replace(tzinfo=None), fraction.rstrip("0").rstrip(".")


def _days(text: str) -> float:
    """Return a date as days since 1970-01-01, rounded to float64 once; NaN for other text."""
    instant = _instant(text)
    if instant is None:
        return np.nan
    stamp, fraction = instant
    seconds = (stamp - datetime(1970, 1, 1)) // timedelta(seconds=1)
    unit: int = 10 ** max(0, len(fraction) - 1)
    return (seconds * unit + int(fraction[1:] or 0)) / (86400 * unit)


def is_number(cell: str) -> bool:
    """Return whether a cell is a number with a decimal point."""
    return re.fullmatch(_NUMBER, cell) is not None


def numbers_of(cells: pd.Series[str]) -> NDArray[np.float64]:
    """Return the numbers in a column of text, float64 (n,); NaN for an empty cell, or one that is no finite number.

    Each cell is converted separately: with one type for the column, a row could change how another one is rounded.
    """
    numbers = np.array([float(cell) if is_number(cell) else np.nan for cell in cells], np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def places_of(names: Sequence[str]) -> dict[str, int]:
    """Return the place of each name, by its `canonical` text, to look cells up in.

    Raises DataError if names are empty or equal.
    """
    places = {canonical(name): place for place, name in enumerate(names)}
    if len(places) < len(names) or "" in places:
        raise DataError(f"these names are empty, or two of them name the same value: {_some(names)}")
    return places


def check_classes(names: Sequence[str]) -> None:
    """Raise InvalidParameter or DataError unless these are two or more different names of classes, none a gap."""
    if gaps := [name for name in names if not canonical(name)]:
        raise InvalidParameter(f"no row can have the class {gaps[0]!r}, as which a gap is written: leave it out")
    if len(set(map(canonical, names))) < max(2, len(names)):
        raise InvalidParameter(f"classes are two or more different names, not {', '.join(names)}")
    check_distinct("the classes", names)


def check_distinct(what: str, names: Iterable[str]) -> None:
    """Raise DataError if two names are confusable; `what` they name begins the message."""
    if (pair := confusable(names)) is not None:
        first, second = map(ascii, pair)
        raise DataError(f"{what} {first} and {second} differ in capitals or forms of letters alone: rename one of them")


def check_names(path: Path, cells: pd.Series[str]) -> None:
    """Check the column of a file that names the owner or the person of a row.

    Raises DataError, which names the line, for a gap, and for a whole number so long that programs round it.
    """
    if (empty := cells == "").any():
        raise DataError(f"{path}: no {cells.name!r} in {first_row(cells[empty])}: say whose row it is, or take it out")
    if (long := cells.map(lambda cell: is_number(cell) and abs(float(cell)) >= MOST_EXACT).astype(bool)).any():
        raise DataError(
            f"{path}: the {cells.name!r} in {first_row(cells[long])} is a whole number of 16 digits or more, which "
            "programs round, so that names become equal: put a letter before the numbers of this column"
        )


def described_columns(table: pd.DataFrame) -> str:
    """Return which columns a table has, for an error about one that it lacks."""
    if len(table.columns) == 1:
        return f"it has {table.columns[0]!r} only: columns are separated by a comma, a semicolon, a tab or |"
    return f"it has: {_some(table.columns)}"


def first_row(cells: pd.Series[str]) -> str:
    """Return where the first of these cells is: the line of its file, or its row's number."""
    return f"{str(cells.index.name or _ROW)[:-1]} {cells.index[0]}"


# -- encoding


class Column(Struct, frozen=True, forbid_unknown_fields=True):
    """How one column is encoded: a number as one feature, a date as one, in days since 1970-01-01, and text as a 0/1
    feature for each of its known values.

    `fill` replaces an empty cell of a number or date column: the median of the public rows, or the schema's. An empty
    cell of a text column, like an unknown value, is 0 in all features.
    """

    name: str
    kind: Literal["number", "date", "text"]
    fill: Finite = 0.0
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "name", plain(self.name))

    @property
    def features(self) -> list[str]:
        """Names of the column's features."""
        return [f"{self.name}={value}" for value in self.values] if self.kind == "text" else [self.name]


class Encoding(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How the rows of a table become numbers: the same for every party and for every user of the model.

    Attributes:
        columns: the columns of the table.
        map: computes further features of the encoded columns; None for none.
    """

    columns: tuple[Column, ...]
    map: FeatureMap | None = None

    def __post_init__(self) -> None:
        if self.map is not None and len(self.map.means) != len(self.inputs):
            raise ValueError(f"the feature map is not one of {len(self.inputs)} encoded columns")

    @property
    def inputs(self) -> list[str]:
        """Names of the encoded columns, in order, before the map."""
        return [name for column in self.columns for name in column.features]

    @property
    def features(self) -> list[str]:
        """Names of all features, in order."""
        return self.inputs + ([] if self.map is None else self.map.features)

    @property
    def log_odds(self) -> tuple[int, ...]:
        """Places of the features that are the log odds of a forest; () without one."""
        return () if self.map is None else self.map.log_odds

    @property
    def summary(self) -> list[tuple[str, str]]:
        """Pairs (name of a column, description of its encoding)."""
        return [(column.name, _description(column)) for column in self.columns]

    @classmethod
    def learn(cls, public: pd.DataFrame, text: Collection[str] = ()) -> tuple[Encoding, list[str]]:
        """Determine the encoding from the public rows, and warnings about columns that look wrong.

        Raises DataError for a column with no public value, with infinite, huge or mixed values, with decimal commas
        where commas separate the columns, or with dates in which day and month are ambiguous.
        """
        columns, cautions = [], []
        for name in public.columns:
            column, warnings = _learn_column(public[name], name in text)
            columns.append(column)
            cautions += warnings
        return cls(tuple(columns)), cautions

    def apply(self, table: pd.DataFrame) -> NDArray[np.float64]:
        """Return the features of rows, float64 (n, d); raises as `encode`."""
        return self.mapped(self.encode(table))

    def mapped(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the features of encoded rows, (n, `inputs`), float64 (n, d)."""
        return X if self.map is None else self.map.apply(X)

    def encode(self, table: pd.DataFrame) -> NDArray[np.float64]:
        """Encode columns as numbers, float64 (n, `inputs`); raises DataError if one is missing or a cell of another
        kind.

        The message has the line number but not the cell, which may be private.
        """
        if missing := [column.name for column in self.columns if column.name not in table.columns]:
            raise DataError(f"the table has no column {', '.join(map(repr, missing))}; {described_columns(table)}")
        if not self.columns:
            raise DataError("the encoding has no columns: leave fewer columns out with --ignore")
        return np.column_stack([_encoded(column, table[column.name]) for column in self.columns])

    def unknown(self, table: pd.DataFrame) -> dict[str, int]:
        """Count the cells with an unknown value in each text column that has any."""
        counts = {
            c.name: int(((table[c.name] != "") & ~table[c.name].isin(places_of(c.values))).sum())
            for c in self.columns
            if c.kind == "text"
        }
        return {name: count for name, count in counts.items() if count}


def _learn_column(cells: pd.Series[str], is_text: bool) -> tuple[Column, list[str]]:
    """Return the encoding of one column, as its cells in the public rows determine it, and the warnings about it."""
    name = str(cells.name)
    filled = cells[cells != ""]
    if not len(filled):
        raise DataError(f"no public row has a value in the column {name!r}: use {words_for('ignore', [name])}")
    kind = "text" if is_text else _kind(name, filled)
    if kind == "text":
        column = Column(name, "text", values=tuple(sorted(filled.unique())))
        return column, _cautions(column, filled)
    numbers = _numbers(name, kind, filled)
    column = Column(name, kind, fill=float(np.median(numbers)))
    return column, _cautions(column, filled, numbers)


def _cautions(column: Column, filled: pd.Series[str], numbers: NDArray[np.float64] | None = None) -> list[str]:
    """Return a warning about a column that is always the same, seems to identify rows, or has many texts."""
    name, without = column.name, words_for("ignore", [column.name])
    if filled.nunique() == 1:
        return [f"the column {name!r} is the same in every public row: nothing can be learned from it"]
    # No value occurs twice, and the name is that of an identifier, or there are many texts, or whole numbers with few
    # gaps, as a counter has (whole measurements, such as weights, may be all different as well).
    counter = len(filled) > MANY_VALUES and (numbers is None or np.ptp(numbers) < 2 * len(numbers))
    whole = numbers is None or (column.kind == "number" and (numbers == np.rint(numbers)).all())
    if len(filled) >= 3 and filled.is_unique and whole and (counter or re.fullmatch(_IDENTIFIER, name)):
        number = len(filled)
        return [
            f"the column {name!r} is different in each of {number} public rows: if it identifies the row, leave it out "
            f"with {without}"
        ]
    if len(column.values) > MANY_VALUES:
        texts = f"{len(column.values)} different texts ({_some(column.values, 3)})"
        return [f"the column {name!r} holds {texts}, and each becomes a feature; {without} leaves it out"]
    return []


def _kind(name: str, filled: pd.Series[str]) -> Literal["number", "date", "text"]:
    """Return the kind of a column, from its cells that are not empty; raises DataError if it is ambiguous."""

    def matching(pattern: str) -> NDArray[np.bool_]:
        return np.array([re.fullmatch(pattern, cell) is not None for cell in filled])

    number = matching(_NUMBER)
    if (infinite := matching(_INFINITE)).any():
        raise _wrong(name, filled[infinite], "an infinite number", "empty the cell, or write a number")
    if number.all():
        return "number"
    if matching(_DATE).all():
        return "date"
    others = [(matching(pattern), what, remedy) for pattern, what, remedy in _NOTATIONS]
    if np.any([number, *(other for other, _, _ in others)], axis=0).all():
        other, what, remedy = next(each for each in others if each[0].any())
        raise _wrong(name, filled[other], what, remedy.format(text=words_for("text", [name])))
    if matching(_OTHER_DATE).all():
        raise _wrong(
            name,
            filled[~number],
            "a date with ambiguous day and month",
            f"write 2024-12-31, or {words_for('text', [name])}, or {words_for('ignore', [name])}",
        )
    if number.mean() > 0.5:
        raise _wrong(
            name,
            filled[~number],
            "text among numbers",
            f"empty such cells, or {words_for('text', [name])}, or {words_for('ignore', [name])}",
        )
    return "text"


def _numbers(name: str, kind: str, filled: pd.Series[str]) -> NDArray[np.float64]:
    """Convert cells that are not empty to numbers, float64 (n,); raises DataError for a cell of another kind."""
    if kind == "date":
        days = np.array([_days(cell) for cell in filled])
        if (wrong := np.isnan(days)).any():
            raise _wrong(
                name, filled[wrong], "something other than a date as 2024-12-31", "correct it, or empty the cell"
            )
        if (far := (days < _days(f"{_YEARS[0]}-01-01")) | (days >= _days(f"{_YEARS[1] + 1}-01-01"))).any():
            raise _wrong(name, filled[far], f"a date outside the years {_YEARS[0]} to {_YEARS[1]}", "empty the cell")
        return days
    if not (valid := filled.map(is_number).astype(bool)).all():
        raise _wrong(name, filled[~valid], "something other than a finite number", "correct it, or empty the cell")
    numbers = np.array([float(cell) for cell in filled])
    if (huge := np.abs(numbers) > LARGEST).any():
        raise _wrong(name, filled[huge], f"a number beyond {LARGEST:g}", "empty the cell, or write it in another unit")
    return numbers


def _encoded(column: Column, cells: pd.Series[str]) -> NDArray[np.float64]:
    if column.kind == "text":
        codes = cells.map(places_of(column.values)).to_numpy(np.float64, na_value=-1)
        return np.asarray(codes[:, None] == np.arange(len(column.values)), dtype=np.float64)
    encoded = np.full((len(cells), 1), column.fill)
    filled = cells != ""
    encoded[filled.to_numpy(), 0] = _numbers(column.name, column.kind, cells[filled])
    return encoded


def _wrong(name: str, cells: pd.Series[str], what: str, remedy: str) -> DataError:
    more = f", and {len(cells) - 1} more" if len(cells) > 1 else ""
    return DataError(f"the column {name!r} holds {what} ({first_row(cells)}{more}): {remedy}")


def _description(column: Column) -> str:
    if column.kind == "text":
        known = f"{len(column.values)} values: {_some(column.values)}"
        return f"text, a 0/1 feature for each of {known}; a gap or another value is 0 in all"
    unit = ", in days since 1970-01-01" if column.kind == "date" else ""
    return f"{column.kind}{unit}; a gap is read as {column.fill:.6g}"


def _some(names: Collection[Any], most: int = 10) -> str:
    texts = [join_list([str(name)]) for name in names]  # a name with a comma as options take it
    return ", ".join(texts[:most]) + (", ..." if len(texts) > most else "")
