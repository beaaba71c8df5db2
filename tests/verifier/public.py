"""The public samples, by section 7 of docs/wire.md: CSV files whose columns are numbers or text."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from typing import Any

import numpy as np

from tests.verifier.board import Array, Study, doubles, require, sha256
from tests.verifier.features import FeatureMap

NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def _means(X: Array) -> Array:
    return np.array([math.fsum(column) for column in X.T.tolist()]) / len(X)


def squares(X: Array) -> Array:
    """The sums of the squares of rows, added in the order of the columns."""
    total = np.zeros(len(X))
    for column in X.T:
        total = total + column * column
    return total


def value(cell: str) -> str:
    """The text of a cell's value."""
    cell = {"true": "1", "false": "0"}.get(cell.lower(), cell)
    finite = NUMBER.fullmatch(cell) and math.isfinite(float(cell))
    return repr(float(cell) + 0.0).removesuffix(".0") if finite else cell


class Public:
    """The encoded and scaled rows of the public file."""

    def __init__(self, study: Study, text: str) -> None:
        names, *rows = ([cell.strip() for cell in row] for row in csv.reader(io.StringIO(text)) if any(row))
        rows = [[value(cell) for cell in row] for row in rows]
        ignored, texts = (next(csv.reader([str(study.parameters.get(name, ""))])) for name in ("ignore", "text"))
        self.columns: list[dict[str, Any]] = []
        blocks = []
        self.labels: list[str] = []
        for place, name in enumerate(names):
            cells = [row[place] for row in rows]
            if name == study.label:
                self.labels = cells
            if name == study.label or name in ignored:
                continue
            require(all(cells), "empty cells are beyond this verifier")
            if name not in texts and all(map(NUMBER.fullmatch, cells)):
                numbers = np.array([float(cell) for cell in cells])
                self.columns.append(
                    {"name": name, "kind": "number", "fill": float(np.median(numbers)) + 0.0, "values": []}
                )
                blocks.append(numbers[:, None])
            else:
                values = sorted(set(cells))
                self.columns.append({"name": name, "kind": "text", "fill": 0.0, "values": values})
                blocks.append(np.array([[float(cell == value) for value in values] for cell in cells]))
        X = np.concatenate(blocks, axis=1) + 0.0
        self.table = self._table(study, X)
        self.encoding: dict[str, Any] = {"columns": self.columns}
        self.added: list[str] = []
        if text := study.parameters.get("map"):
            classes = set() if study.protocol == "evaluation" else set(map(value, study.classes))
            known = [place for place, cell in enumerate(self.labels) if cell in classes]
            stated, count = FeatureMap(text, X.shape[1]), min(len(known), 5000)
            X = stated.features(X, [known[place * len(known) // count] for place in range(count)])
            self.encoding["map"], self.added = stated.stated, stated.names
        lowest, highest = X.min(axis=0), X.max(axis=0)
        margin = 0.5 * (highest - lowest)
        self.ranges = np.stack([lowest - margin, highest + margin]).T.tolist()
        self.mean, largest = _means(X), np.abs(X).max(axis=0)
        deviation = np.sqrt(_means((X - self.mean) ** 2))
        self.deviation = np.where(deviation > 16 * 2.0**-52 * largest, deviation, 1.0)
        Z = np.concatenate([(X - self.mean) / self.deviation, np.ones((len(X), 1))], axis=1)
        largest_entry = np.abs(Z).max(axis=1)[:, None]
        norms = largest_entry * np.sqrt(squares(Z / largest_entry))[:, None]
        Z = Z / norms
        limit = 1 - (Z.shape[1] + 4) * 2.0**-52
        aim = math.sqrt(limit) * (1 - 2.0**-52)
        while len(outside := np.flatnonzero(squares(Z) > limit)):
            Z[outside] = Z[outside] * (aim / np.sqrt(squares(Z[outside])))[:, None]
            aim *= 1 - 2.0**-52
        self.samples: Array = np.trunc(Z * 2.0**20) / 2.0**20 + 0.0
        self.digest = sha256(b"psephos auxiliary\0", repr(Z.shape).encode(), doubles(self.samples))

    def _table(self, study: Study, X: Array) -> bytes:
        labels: list[Any] = self.labels
        if study.predicts_number:
            labels = [float(cell) + 0.0 if cell else None for cell in labels]
        about = {"columns": self.columns, "labels": labels or None, "numeric": study.predicts_number}
        text = json.dumps(about, sort_keys=True, separators=(",", ":"))
        return sha256(b"psephos public table\0", text.encode(), b"\0", repr(X.shape).encode(), doubles(X))

    @property
    def features(self) -> list[str]:
        names = [[f"{one['name']}={value}" for value in one["values"]] or [one["name"]] for one in self.columns]
        return [*(name for several in names for name in several), *self.added, "(constant)"]

    def fold(self, w: Array) -> tuple[Array, Array]:
        """Coefficients and intercepts for unscaled rows of a classifier of scaled rows."""
        unscaled = w[:, :-1] / self.deviation
        terms = np.column_stack([w[:, -1], -unscaled * self.mean])
        return unscaled, np.array([math.fsum(row) for row in terms.tolist()])
