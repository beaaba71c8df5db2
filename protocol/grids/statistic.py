"""The public integer grid of the linear statistic, on which parties sum it and its sensitivity is certified.

A party that chooses one of K classes for each of N public points contributes the integer vector

    s = sum_i contrast[:, choice_i] (x) points[i]          (K - 1) r entries, row-major by contrast,

and the sum over parties is the same function of the vote counts, exactly (docs/theory.md, "The statistic release").
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.rows import digest_of, set_read_only


@dataclass(frozen=True, eq=False)
class StatisticGrid:
    """The public points, int64 (N, r), and contrasts, int64 (K - 1, K), of a linear statistic; read-only."""

    points: NDArray[np.int64]
    contrast: NDArray[np.int64]

    def __post_init__(self) -> None:
        points, contrast = np.array(self.points), np.array(self.contrast)
        if points.ndim != 2 or points.size == 0 or points.dtype.kind != "i":
            raise InvalidParameter("the grid's points must be a non-empty integer matrix (samples, coordinates)")
        if contrast.ndim != 2 or contrast.shape[1] != contrast.shape[0] + 1 or contrast.dtype.kind != "i":
            raise InvalidParameter("the grid's contrasts must be an integer matrix (classes - 1, classes)")
        if contrast.size == 0:
            raise InvalidParameter("the grid's contrasts need two classes or more")
        points, contrast = points.astype("<i8"), contrast.astype("<i8")
        if _largest(points) * len(points) >= 2**62 or _largest(contrast) >= 2**31:
            raise InvalidParameter("the grid is too fine: its sums could exceed 63 bits; use fewer feature bits")
        set_read_only(self, "points", points)
        set_read_only(self, "contrast", contrast)

    @property
    def samples(self) -> int:
        """N, the number of auxiliary samples."""
        return int(self.points.shape[0])

    @property
    def classes(self) -> int:
        """K, the number of classes."""
        return int(self.contrast.shape[1])

    @property
    def length(self) -> int:
        """Number of entries of the statistic: (K - 1) r."""
        return int(self.contrast.shape[0] * self.points.shape[1])

    def contribution(self, choices: ArrayLike) -> list[int]:
        """Compute one party's vector from its class indices, (N,), exactly."""
        choices = np.asarray(choices)
        if choices.shape != (self.samples,) or choices.dtype.kind not in "iu":
            raise DataError(f"choices must be {self.samples} integers, one per auxiliary sample, not {choices.shape}")
        if choices.min() < 0 or choices.max() >= self.classes:
            raise DataError(f"a choice lies outside the agreed classes 0 to {self.classes - 1}")
        sums = np.stack([self.points[choices == k].sum(axis=0) for k in range(self.classes)])
        return self._project(sums.astype(object))

    def total(self, counts: NDArray[np.integer]) -> list[int]:
        """Compute the sum of all parties' vectors from the vote counts, integers (N, K), exactly."""
        counts = np.asarray(counts)
        if counts.shape != (self.samples, self.classes) or counts.dtype.kind not in "iu":
            raise DataError(f"counts must be integers of shape ({self.samples}, {self.classes})")
        parties = max(1, int(counts.sum(axis=1).max()))
        if _largest(self.points) * self.samples * parties < 2**62:
            sums = (counts.astype(np.int64).T @ self.points).astype(object)
        else:
            sums = counts.T.astype(object) @ self.points.astype(object)
        return self._project(sums)

    def _project(self, sums: NDArray[np.object_]) -> list[int]:
        """Return the (K - 1) r released entries for sums by class, (K, r)."""
        return [int(v) for v in (self.contrast.astype(object) @ sums).ravel()]

    @cached_property
    def bounds(self) -> tuple[list[int], list[int]]:
        """The smallest and the largest value of each entry of one party's vector; some choices attain them."""
        low: list[int] = []
        high: list[int] = []
        negative = np.minimum(self.points, 0).sum(axis=0)
        positive = np.maximum(self.points, 0).sum(axis=0)
        for row in self.contrast:
            least, most = int(row.min()), int(row.max())
            low += [least * int(p) + most * int(n) for p, n in zip(positive, negative, strict=True)]
            high += [most * int(p) + least * int(n) for p, n in zip(positive, negative, strict=True)]
        return low, high

    @property
    def minimum(self) -> int:
        """A lower bound of every entry of one party's vector, at most 0, as a packing plan needs."""
        return min(0, *self.bounds[0])

    @property
    def maximum(self) -> int:
        """An upper bound of every entry of one party's vector, at least 0."""
        return max(0, *self.bounds[1])

    @cached_property
    def digest(self) -> bytes:
        return digest_of("statistic grid", (self.points.shape, self.contrast.shape), self.points, self.contrast)


def _largest(matrix: NDArray[np.int64]) -> int:
    """Return the largest magnitude of an entry, also of -2^63, whose magnitude is no int64."""
    return max(int(matrix.max()), -int(matrix.min()))
