"""The public samples of a study: one file, which every member encodes and scales in the same way.

A study signs one digest (`PublicSamples.digest`) of all that is computed from the file: the encoding, the encoded rows
and the labels; and its feature map, where it has one. Scaler, samples, ranges and public model follow from these.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from psephos.data.feature_map import FeatureMap
from psephos.data.tables import (
    LARGEST,
    Encoding,
    check_names,
    described_columns,
    first_row,
    numbers_of,
    places_of,
    read_table,
)
from psephos.options import split_list
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import DataError, StudyError
from psephos.protocol.foreign import printable
from psephos.protocol.study.study import Study
from psephos.specs.registry import spec_class
from psephos.specs.terms import StudyTerms

if TYPE_CHECKING:
    import pandas as pd

    from psephos.data.preprocessing import PublicScaler

CONSTANT = "(constant)"
"""The feature that stands for an intercept."""

_PITCH = 2.0**-20
"""Samples are rounded towards 0 to multiples of it, so that no row grows longer and last bits do not count."""


@dataclass(frozen=True)
class PublicSamples:
    """The rows of the public file as auxiliary samples, and the encoding and scaling of other rows.

    Attributes:
        encoding: how a table becomes features; of all columns but the label and those left out.
        scaler: scales features into the unit ball; learned on the public rows.
        inputs: the encoded columns of the rows, float64 (N, d'').
        rows: their features, before they are scaled, float64 (N, d'); without a feature map the encoded columns.
        cautions: warnings about columns.
        note: which features were chosen and why; "" if nothing had to be chosen.
        label_cells, label_numbers: what the rows' column of the class says, as text, and where a number is predicted as
            numbers, NaN where there is none; () where the file lacks the column.
    """

    encoding: Encoding
    scaler: PublicScaler = field(repr=False)
    inputs: NDArray[np.float64] = field(repr=False)
    rows: NDArray[np.float64] = field(repr=False)
    auxiliary: AuxiliarySet
    cautions: tuple[str, ...] = ()
    label_cells: tuple[str, ...] = field(default=(), repr=False)
    label_numbers: tuple[float, ...] = field(default=(), repr=False)
    note: str = ""

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
        rows = encoding.encode(table) + 0.0  # -0.0 equals 0.0 but would change the digest
        scaler, auxiliary = _scaled(rows, predicts_number)
        cells = tuple(map(str, table[label])) if label in table.columns else ()
        numbers: tuple[float, ...] = ()
        if predicts_number and cells:
            numbers = tuple(_finite_numbers(table[label], path, optional=True).tolist())
        return cls(encoding, scaler, rows, rows, auxiliary, tuple(cautions), cells, numbers)

    @classmethod
    def of(cls, study: Study, path: Path) -> PublicSamples:
        """Read the samples of a study.

        Raises what `read` raises, and StudyError for another file than the study's, or a feature map that cannot be.
        """
        lists = (str(study.parameters.get(name, "")) for name in ("ignore", "text"))
        ignore, text = map(split_list, lists)
        samples = cls.read(path, study.label, ignore, text, predicts_number=study.predicts_number)
        stated = map_of(study)
        if stated is not None and samples.digest == study.public_table:
            try:
                samples = samples.mapped(stated, () if spec_class(study.protocol).evaluates else study.classes)
            except ValueError as error:
                raise StudyError(f"the feature map of the study does not fit its public file: {error}") from None
        StudyTerms(study, samples)
        return samples

    def mapped(self, feature_map: FeatureMap, classes: Sequence[str]) -> PublicSamples:
        """Return the samples with the features of a map.

        Args:
            classes: the columns of a forest that was grown on the rows with one of these follow from the trees grown
                without the row; none if it was grown on other rows.

        Raises ValueError for a map of other columns.
        """
        encoding = msgspec.structs.replace(self.encoding, map=feature_map)
        known = np.flatnonzero(self.labels(classes) >= 0) if classes else np.empty(0, dtype=np.intp)
        rows = feature_map.apply_to_public(self.inputs, known)
        scaler, auxiliary = _scaled(rows, self.scaler.ranges_ is not None)
        return replace(self, encoding=encoding, rows=rows, scaler=scaler, auxiliary=auxiliary)

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
        state = hashlib.sha256(b"psephos public table\0" + text.encode() + b"\0" + repr(self.inputs.shape).encode())
        state.update(self.inputs.astype("<f8", order="C").data)
        return state.digest()

    @cached_property
    def row_digests(self) -> list[bytes]:
        """Digests of the rows as the file has them, and as they are voted on: equal ones in two files are one row."""
        both = (np.ascontiguousarray(rows) for rows in (self.inputs, self.auxiliary.samples))
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

    @property
    def log_odds(self) -> NDArray[np.float64] | None:
        """See `PublicTerms`."""
        return self.scaler.unscaled(self.encoding.log_odds)

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
            numbers = _finite_numbers(table[study.label], path)
            return self.scaler.transform(self.encoding.apply(table)), numbers
        classes: pd.Series[Any] = table[study.label].map(places_of(study.classes))
        if (foreign := classes.isna()).any():
            raise DataError(
                f"{path}, {first_row(table[study.label][foreign])}: the {study.label} is none of the study's classes "
                f"({', '.join(study.classes)})"
            )
        return self.scaler.transform(self.encoding.apply(table)), classes.to_numpy(dtype=np.int64)

    def head(self, study: Study, path: Path) -> NDArray[np.float64]:
        """Return a party's own linear classifier, of scaled rows, float64 (K, d), from a table of its parameters.

        A row has a class, in the column of the label, and the coefficient of each of the `features`, the constant
        included; a class without a row scores 0. Raises DataError for other columns or classes, and for what is no
        number or a huge one.
        """
        table, names = read_table(path), [study.label, *self.features]
        # What the file has in place of a missing column may be a number, in a file without names: it is not repeated.
        if missing := [name for name in names if name not in table.columns]:
            raise DataError(f"{path} has no column {missing[0]!r}; a head has the columns {', '.join(names)}")
        if foreign := [name for name in table.columns if name not in names]:
            raise DataError(f"{path} has the column {foreign[0]!r}, which is none of the study's features: take it out")
        classes = table[study.label].map(places_of(study.classes))
        if (refused := classes.isna() | classes.duplicated()).any():
            raise DataError(
                f"{path}, {first_row(table[study.label][refused])}: the {study.label} is none of the study's classes "
                f"({', '.join(study.classes)}), or has two rows"
            )
        weights = np.zeros((len(study.classes), len(self.features)))
        for place, name in enumerate(self.features):
            numbers = _finite_numbers(table[name], path)
            if np.abs(numbers).max() > LARGEST:
                raise DataError(f"{path}: a coefficient of {name} is beyond {LARGEST:g}, which no training gives")
            weights[classes.to_numpy(dtype=np.int64), place] = numbers
        return self.scaler.unfold(weights[:, :-1], weights[:, -1])

    @staticmethod
    def persons(column: str, path: Path) -> NDArray[np.int64]:
        """Return whose each of a party's own rows is, int64 (n,), numbers of the values of a column."""
        table = read_table(path)
        if column not in table.columns:
            raise DataError(f"{path} has no column {column!r}, which names the person of a row")
        check_names(path, table[column])
        numbers: NDArray[np.int64] = np.unique(table[column], return_inverse=True)[1]
        return numbers


def map_of(study: Study) -> FeatureMap | None:
    """Return the feature map that a study states, None for none; raises StudyError for what is no map."""
    text = str(study.parameters.get("map", ""))
    try:
        return msgspec.json.decode(text, type=FeatureMap) if text else None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise StudyError(f"the feature map of the study is none: {printable(str(error), 200)}") from None


def _scaled(rows: NDArray[np.float64], predicts_number: bool) -> tuple[PublicScaler, AuxiliarySet]:
    """Return the scaler that is learned on the features of public rows, and the samples that these become."""
    from psephos.data.preprocessing import own_scaler  # scikit-learn takes most of a second

    scaler = own_scaler(predicts_number=predicts_number).fit(rows)
    return scaler, AuxiliarySet(np.trunc(scaler.transform(rows) / _PITCH) * _PITCH)


def _finite_numbers(cells: pd.Series[Any], path: Path, *, optional: bool = False) -> NDArray[np.float64]:
    """Return the numbers in a column, float64 (n,); NaN for an empty cell, where it may be empty.

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
