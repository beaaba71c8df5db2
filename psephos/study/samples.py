"""The public samples of a study: one file, which every member encodes and scales in the same way.

A study signs one digest (`PublicSamples.digest`) of all that is computed from the file: the encoding, the encoded rows
and the labels. Scaler, samples, ranges and public model follow from these.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from psephos.data.preprocessing import PublicScaler, own_scaler
from psephos.data.tables import Encoding, check_names, described_columns, first_row, numbers_of, places_of, read_table
from psephos.options import split_list
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import DataError
from psephos.protocol.study.study import Study
from psephos.specs.terms import StudyTerms

if TYPE_CHECKING:
    import pandas as pd

CONSTANT = "(constant)"
"""The feature that stands for an intercept."""

_PITCH = 2.0**-20
"""Samples are rounded towards 0 to multiples of it, so that no row grows longer and last bits do not count."""


@dataclass(frozen=True)
class PublicSamples:
    """The rows of the public file as auxiliary samples, and the encoding and scaling of other rows.

    Attributes:
        encoding: how a table becomes numbers; of all columns but the label and those left out.
        scaler: scales encoded rows into the unit ball; learned on the public rows.
        rows: the encoded rows before they are scaled, float64 (N, d').
        cautions: warnings about columns.
        label_cells, label_numbers: what the rows' column of the class says, as text, and where a number is predicted as
            numbers, NaN where there is none; () where the file lacks the column.
    """

    encoding: Encoding
    scaler: PublicScaler = field(repr=False)
    rows: NDArray[np.float64] = field(repr=False)
    auxiliary: AuxiliarySet
    cautions: tuple[str, ...] = ()
    label_cells: tuple[str, ...] = field(default=(), repr=False)
    label_numbers: tuple[float, ...] = field(default=(), repr=False)

    @classmethod
    def read(
        cls,
        path: Path,
        label: str,
        ignore: Sequence[str] = (),
        text: Sequence[str] = (),
        *,
        predicts_number: bool = False,
    ) -> PublicSamples:
        """Read the samples from a CSV or Parquet file.

        Args:
            label: the column with the classes, which is no feature; the file may lack it.
            ignore, text: columns to leave out, and columns that are text although they contain numbers.
            predicts_number: whether the label is a number; features are then clipped to public ranges.
        """
        table = read_table(path)
        if unknown := [name for name in (*ignore, *text) if name not in table.columns]:
            raise DataError(f"{path} has no column {unknown[0]!r}; {described_columns(table)}")
        encoding, cautions = Encoding.learn(table.drop(columns=[*ignore, label], errors="ignore"), text)
        rows = encoding.apply(table) + 0.0  # -0.0 equals 0.0 but would change the digest
        scaler = own_scaler(predicts_number=predicts_number).fit(rows)
        samples = np.trunc(scaler.transform(rows) / _PITCH) * _PITCH
        cells = tuple(map(str, table[label])) if label in table.columns else ()
        numbers: tuple[float, ...] = ()
        if predicts_number and cells:
            numbers = tuple(_label_numbers(table[label], path, optional=True).tolist())
        return cls(encoding, scaler, rows, AuxiliarySet(samples), tuple(cautions), cells, numbers)

    @classmethod
    def of(cls, study: Study, path: Path) -> PublicSamples:
        """Read the samples of a study. Raises what `read` raises, and StudyError for another file than the study's."""
        lists = (str(study.parameters.get(name, "")) for name in ("ignore", "text"))
        ignore, text = map(split_list, lists)
        samples = cls.read(path, study.label, ignore, text, predicts_number=study.predicts_number)
        StudyTerms(study, samples)
        return samples

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of all that members compute from the file (docs/wire.md, section 7), 32 bytes."""
        labels: Any = self.label_cells
        if self.label_numbers:
            labels = [None if np.isnan(number) else number + 0.0 for number in self.label_numbers]
        columns = [msgspec.to_builtins(column) | {"fill": column.fill + 0.0} for column in self.encoding.columns]
        about = {
            "columns": columns,
            "labels": labels or None,
            "numeric": self.scaler.ranges_ is not None,
        }
        text = json.dumps(about, sort_keys=True, separators=(",", ":"))
        state = hashlib.sha256(b"psephos public table\0" + text.encode() + b"\0" + repr(self.rows.shape).encode())
        state.update(self.rows.astype("<f8", order="C").data)
        return state.digest()

    @cached_property
    def row_digests(self) -> list[bytes]:
        """Digests of the rows as the file has them, and as they are voted on: equal ones in two files are one row."""
        both = (np.ascontiguousarray(rows) for rows in (self.rows, self.auxiliary.samples))
        return [hashlib.sha256(b"psephos row\0" + row.tobytes()).digest() for rows in both for row in rows]

    @property
    def ranges(self) -> NDArray[np.float64]:
        """The ranges into which encoded features are clipped where a number is predicted, float64 (2, d)."""
        assert self.scaler.ranges_ is not None
        return self.scaler.ranges_

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the samples' columns."""
        return (*self.encoding.features, CONSTANT)

    def labels(self, classes: Sequence[str]) -> NDArray[Any]:
        """Return the public rows' class numbers, int64 (N,), -1 where the file names none of the classes; of a number
        float64 (N,), NaN where there is none.
        """
        if not classes:
            return np.array(self.label_numbers or (np.nan,) * len(self.auxiliary.samples), dtype=np.float64)
        places = places_of(classes)
        cells = self.label_cells or ("",) * len(self.auxiliary.samples)
        return np.array([places.get(cell, -1) for cell in cells], dtype=np.int64)

    def private(self, study: Study, path: Path) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """Return a party's own rows, scaled, float64 (n, d), and class numbers, int64 (n,), or numeric labels, float64
        (n,).
        """
        table = read_table(path)
        if study.label not in table.columns:
            holds = "number to predict" if study.predicts_number else "study's classes"
            raise DataError(f"{path} has no column {study.label!r}, which contains the {holds}")
        if study.predicts_number:
            numbers = _label_numbers(table[study.label], path)
            return self.scaler.transform(self.encoding.apply(table)), numbers
        classes: pd.Series[Any] = table[study.label].map(places_of(study.classes))
        if (foreign := classes.isna()).any():
            raise DataError(
                f"{path}, {first_row(table[study.label][foreign])}: the {study.label} is none of the study's classes "
                f"({', '.join(study.classes)})"
            )
        return self.scaler.transform(self.encoding.apply(table)), classes.to_numpy(dtype=np.int64)

    @staticmethod
    def persons(column: str, path: Path) -> NDArray[np.int64]:
        """Return whose each of a party's own rows is, int64 (n,), numbers of the values of a column."""
        table = read_table(path)
        if column not in table.columns:
            raise DataError(f"{path} has no column {column!r}, which names the person of a row")
        check_names(path, table[column])
        numbers: NDArray[np.int64] = np.unique(table[column], return_inverse=True)[1]
        return numbers


def _label_numbers(cells: pd.Series[Any], path: Path, *, optional: bool = False) -> NDArray[np.float64]:
    """Return the numbers in the column of a numeric label, float64 (n,); NaN for an empty cell, where it may be empty.

    Raises DataError, which names the line and not the cell, for one that may not be empty or is no finite number.
    """
    numbers = numbers_of(cells)
    wrong = np.isnan(numbers)
    if optional:
        wrong &= cells.to_numpy() != ""
    if wrong.any():
        where = f"{path}, {first_row(cells[wrong])}"
        raise DataError(f"{where}: the {cells.name} is no finite number: correct it, or take the row out")
    return numbers
