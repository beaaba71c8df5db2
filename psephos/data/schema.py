"""Schemas: the public description of a table's columns and classes, in place of public rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import force_setattr
from numpy.typing import NDArray

from psephos.data.tables import Column, Encoding, Finite, canonical, places_of
from psephos.options import words_for
from psephos.protocol.errors import DataError, DataSetMissingError
from psephos.protocol.foreign import parse_toml, read_text
from psephos.protocol.names import plain

DRAWN_SAMPLES = 500
"""Default number of auxiliary samples that are drawn from a schema."""

MOST_BYTES = 1 << 22
"""The largest schema that is read, in bytes."""
WIDEST = 100_000
"""Largest number of features in a schema or a model file, which stores the name and the replacement of gaps of each."""


class NumberColumn(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="number"):
    """A column of numbers: the range of its usual values, and what replaces a gap (by default its middle)."""

    minimum: Finite
    maximum: Finite
    fill: Finite | None = None


class DateColumn(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="date"):
    """A column of dates, with the attributes of `NumberColumn`."""

    minimum: date
    maximum: date
    fill: date | None = None


class TextColumn(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="text"):
    """A column of text. Each of `values` becomes a feature of 0 or 1; another value is 0 in all of them."""

    values: Annotated[tuple[str, ...], Meta(min_length=1)]


ColumnSchema: TypeAlias = NumberColumn | DateColumn | TextColumn


class Schema(Struct, frozen=True, forbid_unknown_fields=True):
    """The columns of a table that are features, in order, by name, and the names of the classes, if they are here."""

    columns: Annotated[dict[str, ColumnSchema], Meta(min_length=1)]
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        columns = {plain(name): column for name, column in self.columns.items()}
        if len(columns) < len(self.columns):
            raise ValueError("two columns have the same name")
        force_setattr(self, "columns", columns)
        force_setattr(self, "classes", tuple(map(plain, self.classes)))

    @property
    def encoding(self) -> Encoding:
        """The encoding of the table's rows as numbers."""
        return Encoding(tuple(_encoded(name, column) for name, column in self.columns.items()))

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Smallest and largest usual value of each column of numbers or dates, as encoded."""
        return {
            name: (_number(column.minimum), _number(column.maximum))
            for name, column in self.columns.items()
            if not isinstance(column, TextColumn)
        }

    def samples(self, count: int, seed: int) -> NDArray[np.float64]:
        """Draw encoded rows, float64 (count, d): each column independently and uniformly from its range or values."""
        generator = np.random.default_rng([seed, _SCHEMA_STREAM])
        blocks: list[NDArray[np.float64]] = []
        for column in self.columns.values():
            if isinstance(column, TextColumn):
                blocks.append(np.eye(len(column.values))[generator.integers(len(column.values), size=count)])
            else:
                low, high = _number(column.minimum), _number(column.maximum)
                blocks.append(generator.uniform(low, high, size=(count, 1)))
        return np.concatenate(blocks, axis=1)

    def check_columns(self, names: Sequence[str]) -> None:
        """Raise DataError unless the table's features, `names`, are the schema's columns."""
        if missing := [name for name in self.columns if name not in names]:
            raise DataError(f"the table has no column {', '.join(map(repr, missing))}, which the schema describes")
        if unknown := [name for name in names if name not in self.columns]:
            raise DataError(
                f"the schema does not describe the column {', '.join(map(repr, unknown))}: add it, or leave the column "
                f"out with {words_for('ignore', unknown)}"
            )


_SCHEMA_STREAM = 3  # number of the random stream of a run's seed that draws samples from a schema


def read_schema(path: Path, label: str | None = None, others: Sequence[str] = ()) -> Schema:
    """Read a schema from a TOML file (docs/own-data.md has an example), or a Table Schema from a file `*.json`.

    `label`, `others`: of a Table Schema, the column whose values are the classes, and those that are no features.
    Raises DataSetMissingError if there is no such file, or DataError, which names the field, if it is no schema.
    """
    if not path.is_file():
        raise DataSetMissingError(f"there is no file {path}: name the file of the schema")
    try:
        text = read_text(path, MOST_BYTES)
        schema = _schema(_described(text, label, others) if path.suffix == ".json" else parse_toml(text))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise DataError(f"{path} is not a schema: {error}") from None
    for name, column in schema.columns.items():
        _check_column(path, name, column)
    if (width := len(schema.encoding.features)) > WIDEST:
        raise DataError(f"{path} describes {width:,} features, one for each value of text; at most {WIDEST:,} are used")
    return schema


class _Constraints(Struct, frozen=True):
    minimum: Finite | str | None = None
    maximum: Finite | str | None = None
    enum: tuple[str | int | float | bool, ...] = ()


class _Field(Struct, frozen=True):
    name: str
    type: str = "string"
    constraints: _Constraints = _Constraints()


class _TableSchema(Struct, frozen=True):
    fields: tuple[_Field, ...]


def _described(text: str, label: str | None, others: Sequence[str]) -> dict[str, Any]:
    """Return what the TOML file would say for a Table Schema (specs.frictionlessdata.io/table-schema), JSON.

    Raises ValueError for a field that says too little.
    """
    try:
        fields = msgspec.json.decode(text, type=_TableSchema).fields
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    columns: dict[str, Any] = {}
    classes: list[str] = []
    for field in fields:
        name, limits = plain(field.name), field.constraints
        if name in columns:
            raise ValueError("two fields have the same name")
        if name == label:
            classes = [str(value) for value in limits.enum]
        elif name not in others:
            columns[name] = _described_column(name, field.type, limits)
    return {"columns": columns, "classes": classes}


def _described_column(name: str, kind: str, limits: _Constraints) -> dict[str, Any]:
    if limits.enum:
        return {"kind": "text", "values": [str(value) for value in limits.enum]}
    if kind == "boolean":  # as `canonical` reads its cells
        return {"kind": "number", "minimum": 0, "maximum": 1}
    if kind == "string":
        raise ValueError(f"the field {name!r} is text and does not list its values: give its constraints an enum")
    if limits.minimum is None or limits.maximum is None:
        raise ValueError(f"the field {name!r} has no range: give its constraints a minimum and a maximum")
    known = {"number": "number", "integer": "number", "year": "number", "date": "date"}
    if kind not in known:
        raise ValueError(f"the field {name!r} is of type {kind}: describe it as {', '.join(known)}, boolean or string")
    return {"kind": known[kind], "minimum": limits.minimum, "maximum": limits.maximum}


def _schema(document: dict[str, Any]) -> Schema:
    """Return the schema in a TOML document; raises ValueError, which names the column."""
    columns = document.get("columns")
    if isinstance(columns, dict):
        document = document | {"columns": {name: _column(name, column) for name, column in columns.items()}}
    return msgspec.convert(document, Schema)


def _column(name: str, table: Any) -> ColumnSchema:
    try:
        column: ColumnSchema = msgspec.convert(table, ColumnSchema)
    except msgspec.ValidationError as error:
        raise ValueError(f"the column {name!r}: {error}") from None
    return column


def _check_column(path: Path, name: str, column: ColumnSchema) -> None:
    if isinstance(column, TextColumn):
        try:
            places_of(column.values)
        except DataError as error:
            raise DataError(f"{path}: the values of the column {name!r} are not different ones: {error}") from None
    elif not _number(column.minimum) < _number(column.maximum):
        raise DataError(f"{path}: the minimum of the column {name!r} is not below its maximum")


def _encoded(name: str, column: ColumnSchema) -> Column:
    if isinstance(column, TextColumn):
        return Column(name, "text", values=tuple(map(canonical, column.values)))
    middle = (_number(column.minimum) + _number(column.maximum)) / 2
    fill = middle if column.fill is None else _number(column.fill)
    return Column(name, "number" if isinstance(column, NumberColumn) else "date", fill=fill)


def _number(value: float | date) -> float:
    """Return a number unchanged, and a date as days since 1970-01-01."""
    return float((value - date(1970, 1, 1)).days) if isinstance(value, date) else value
