"""The public samples of a study as every member has them: one file, encoded and scaled as the file alone settles.

The study names the result by its digest, so everybody must come to the same numbers, on whatever processor: entries are
cut off at multiples of 2^-20, towards 0, so that last bits do not count and no row grows longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from psephos.data.preprocessing import PublicScaler, default_scaler
from psephos.data.tables import Encoding, read_table
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import DataError
from psephos.protocol.study.study import Study

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CONSTANT", "PublicSamples"]

CONSTANT = "(constant)"
"""The feature that stands for an intercept."""

_PITCH = 2.0**-20


@dataclass(frozen=True)
class PublicSamples:
    """The file's rows as samples that are voted on, and how any other row becomes one.

    Attributes:
        encoding: of a table's columns; all of the file's but the label and those left out.
        scaler: into the unit ball, learned on these rows.
        auxiliary: the samples.
        cautions: what a reader should know about the columns.
    """

    encoding: Encoding
    scaler: PublicScaler = field(repr=False)
    auxiliary: AuxiliarySet
    cautions: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path, label: str, ignore: Sequence[str] = (), text: Sequence[str] = ()) -> PublicSamples:
        """From a CSV or Parquet file; `ignore`, `text`: columns to leave out, and that are text whatever they hold.

        Raises DataError or DataSetMissingError for a file that cannot be used so.
        """
        table = read_table(path)
        if unknown := [name for name in (*ignore, *text) if name not in table.columns]:
            raise DataError(f"{path} has no column {unknown[0]!r}; it has: {', '.join(map(str, table.columns))}")
        encoding, cautions = Encoding.learn(table.drop(columns=[*ignore, label], errors="ignore"), text)
        rows = encoding.apply(table)
        scaler = default_scaler("your own").set_params(scaling="unit-rows").fit(rows)
        samples = np.trunc(scaler.transform(rows) / _PITCH) * _PITCH
        return cls(encoding, scaler, AuxiliarySet(samples), tuple(cautions))

    @classmethod
    def of(cls, study: Study, path: Path) -> PublicSamples:
        """As the study's parameters say; whether they are the study's is for `psephos.study.roles.Public` to see."""
        lists = (str(study.parameters.get(name, "")) for name in ("ignore", "text"))
        ignore, text = ([name for name in names.split(",") if name] for names in lists)
        return cls.read(path, study.label, ignore, text)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the samples' columns."""
        return (*self.encoding.features, CONSTANT)

    def private(self, study: Study, path: Path) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """A party's own rows, float64 (n, d), and their classes, int64 (n,), 0 to K - 1.

        Raises DataError or DataSetMissingError for a file without the study's columns, or with other classes.
        """
        table = read_table(path)
        if study.label not in table.columns:
            raise DataError(f"{path} has no column {study.label!r}, which the study's classes stand in")
        places = {name: place for place, name in enumerate(study.classes)}
        classes: pd.Series[Any] = table[study.label].map(places)
        if (foreign := classes.isna()).any():
            raise DataError(
                f"{path}, line {foreign.idxmax()}: the {study.label} is none of the study's classes "
                f"({', '.join(study.classes)})"
            )
        return self.scaler.transform(self.encoding.apply(table)), classes.to_numpy(dtype=np.int64)
