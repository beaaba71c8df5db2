"""The record step for a numeric label: its plan and the prediction of its sum, by section 8.7 of docs/wire.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tests.verifier.board import Array, Study, require
from tests.verifier.noise import bounds_of
from tests.verifier.public import NUMBER, Public
from tests.verifier.records import Records

LEAST_WEIGHT = 19196
"""The least weight of a row, over 65,536."""


def differences(study: Study, samples: Public) -> list[str]:
    """Which parameters are not those of the public file, of the ones that have the same bits on every machine."""
    cells = [cell for cell in samples.labels if cell]
    require(all(map(NUMBER.fullmatch, cells)), "a public label is no number")
    labels = [float(cell) for cell in cells]
    least, most = min(labels, default=math.nan), max(labels, default=math.nan)
    agreed = {"labelled": 0} | study.parameters
    of_file = {"low": least, "high": most, "labelled": len(labels)}
    return [name for name, value in of_file.items() if agreed[name] != value]


class Regression(Records):
    """The public plan of a record step for a numeric label."""

    slack = 2.0**-40

    def __init__(self, study: Study, public: Public) -> None:
        given = study.parameters
        self.bounds, self.middle, self.threshold = bounds_of(study, "threshold")
        self.unit, radius = given.get("unit", "record"), float(given.get("radius", 0.0))
        require(self.unit in ("record", "party"), "the unit is unknown")
        right = 2.0**-20 <= radius <= 4 if self.unit == "party" else radius == 0
        require(right, "the radius is not one of the unit")
        self.ball = math.floor(radius * 2**20)
        if self.ball:
            self.range = -self.ball, self.ball
        super().__init__(study, public)
        require(not (self.ball and self.persons), "persons are about records")

    @cached_property
    def centre(self) -> list[int]:
        """What is subtracted from a party's average."""
        z = np.trunc(self._points() * ((1 - 2.0**-40) * 2.0**18))
        lengths = np.abs(z).sum(axis=1) / 2.0**18 if self.laplace else (z * z).sum(axis=1) / 4.0**18
        z = z * (lengths <= 1)[:, None]
        across = 131072.0 if self.laplace else float(math.isqrt(2 * 65536**2))
        i, j = np.triu_indices(self.width)
        second = np.trunc(np.where(i == j, 65536.0, across) * (z[:, i] * z[:, j]) * 2.0**-32)
        sums = [int(value) for value in second.sum(axis=0)]
        means = [abs(value) // len(z) * (1 if value > 0 else -1) for value in sums]
        return [0] * self.width + means

    @property
    def digest_fields(self) -> tuple[Any, ...]:
        label = (*(end.hex() for end in self.bounds), self.threshold.hex(), LEAST_WEIGHT)
        return (*label, self.ball, *self.centre) if self.ball else label

    @property
    def extremes(self) -> tuple[Array, Array]:
        return np.ones(32), np.repeat([1.0, LEAST_WEIGHT / 65536], 16)

    # -- the prediction

    @property
    def largest_residual(self) -> float:
        return self.threshold

    @property
    def _information(self) -> float:
        return (3.0 * 1.150349380376008) ** 2

    def _estimated_rows(self, H: Array, ballots: int) -> float:
        return float(ballots) if self.ball else super()._estimated_rows(H, ballots)

    def classifier(self, sums: Sequence[int], ballots: int) -> Array:
        if self.ball:
            sums = [entry + ballots * middle for entry, middle in zip(sums, self.centre, strict=True)]
        return super().classifier(sums, ballots)
