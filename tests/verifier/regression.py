"""The record step for a numeric label: its plan and the prediction of its sum, by section 8.7 of docs/wire.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.verifier.board import Study, require
from tests.verifier.noise import rounded_up
from tests.verifier.public import NUMBER, Public
from tests.verifier.records import Records

Array = NDArray[np.float64]

LEAST_WEIGHT = 19196
"""The least weight of a row, over 65,536."""


def ranges_of(samples: Public) -> Array:
    """The ranges of the features that follow from the public file, (2, d - 1)."""
    width = samples.highest - samples.lowest
    return np.stack([samples.lowest - 0.5 * width, samples.highest + 0.5 * width])


def differences(study: Study, samples: Public) -> list[str]:
    """Which parameters are not those of the public file, of the ones that have the same bits on every machine."""
    cells = [cell for cell in samples.labels if cell]
    require(all(map(NUMBER.fullmatch, cells)), "a public label is no number")
    labels = [float(cell) for cell in cells]
    given = study.parameters
    same = {
        "low": given["low"] == min(labels, default=math.nan),
        "high": given["high"] == max(labels, default=math.nan),
        "labelled": given.get("labelled", 0) == len(labels),
    }
    return [name for name, agrees in same.items() if not agrees]


class Regression(Records):
    """The public plan of a record step for a numeric label."""

    def __post_init__(self) -> None:
        given = self.study.parameters
        self.low, self.high, self.threshold = (float(given[name]) for name in ("low", "high", "threshold"))
        self.unit, radius = given.get("unit", "record"), float(given.get("radius", 0.0))
        numbers = (self.low, self.high, self.high - self.low, self.threshold)
        require(all(map(math.isfinite, numbers)), "a bound or the threshold is not finite")
        require(self.low < self.high and self.threshold > 0, "the bounds or the threshold are out of range")
        require(self.unit in ("record", "party"), "the unit is unknown")
        right = 2.0**-20 <= radius <= 4 if self.unit == "party" else radius == 0
        require(right, "the radius is not one of the unit")
        self.ball = math.floor(radius * 2**20)
        super().__post_init__()
        if self.ball:
            require(not self.persons, "persons are about records")

    @property
    def middle(self) -> float:
        """What scores are relative to."""
        return self.low + (self.high - self.low) / 2

    @cached_property
    def centre(self) -> list[int]:
        """What is subtracted from a party's average."""
        z = np.trunc(self._points() * ((1 - 2.0**-40) * 2.0**18))
        lengths = np.abs(z).sum(axis=1) / 2.0**18 if self.norm == "l1" else (z * z).sum(axis=1) / 4.0**18
        z = z * (lengths <= 1)[:, None]
        across = float(math.isqrt(2 * 65536**2)) if self.norm == "l2" else 131072.0
        i, j = np.triu_indices(self.width)
        second = np.trunc(np.where(i == j, 65536.0, across) * (z[:, i] * z[:, j]) * 2.0**-32)
        sums = [int(value) for value in second.sum(axis=0)]
        means = [abs(value) // len(z) * (1 if value > 0 else -1) for value in sums]
        return [0] * self.width + means

    @property
    def digest_fields(self) -> tuple[Any, ...]:
        label = (self.low.hex(), self.high.hex(), self.threshold.hex(), LEAST_WEIGHT)
        return (*label, self.ball, *self.centre) if self.ball else label

    @property
    def entries(self) -> tuple[int, int]:
        most = (self.ball or 2**44) + self.noise.bound
        return -most, most

    @property
    def squares(self) -> int | None:
        """The largest sum of squares of a party's vector, where that is less than of vectors within the entries."""
        if not self.ball:
            return None
        return min(self.length * max(self.entries) ** 2, (self.ball + self.noise.longest) ** 2)

    @property
    def extremes(self) -> tuple[Array, Array]:
        return np.ones(32), np.repeat([1.0, LEAST_WEIGHT / 65536], 16)

    @cached_property
    def sensitivities(self) -> tuple[float, float]:
        if not self.ball:
            return self._sensitivities()
        across = 1.0 if self.norm == "l1" else math.sqrt(self.length) * (1 + 2.0**-40)
        return rounded_up(2.0 * self.ball * across), rounded_up(2.0 * self.ball)

    def facts(self, ballots: int) -> dict[str, Any]:
        return super().facts(ballots) | {"unit": self.unit}

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
        """The weights of scaled rows that follow from a sum, with scores relative to the middle of the bounds."""
        if self.ball:
            sums = [entry + ballots * middle for entry, middle in zip(sums, self.centre, strict=True)]
        return super().classifier(sums, ballots)
