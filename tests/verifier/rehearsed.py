"""The rehearsed step: its plan, and the classifier that follows from its sum, by section 8.6 of docs/wire.md."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tests.verifier.board import Array, Study, doubles, require, sha256
from tests.verifier.noise import Plan, helmert, matrix
from tests.verifier.public import Public


class Rehearsed(Plan):
    """The public plan of a rehearsed step, which the study states."""

    ball, range = 2**24, (-(2**24), 2**24)

    def __init__(self, study: Study, public: Public) -> None:
        super().__init__(study, public)
        given = self.given
        self.transform, self.offset = matrix(study, "coordinates"), matrix(study, "offset")
        self.rank = int(self.transform.shape[1])
        self.length = (self.classes - 1) * self.rank
        self.laplace, self.ridge = given["norm"] == "l1", float(given["ridge"]) or math.inf
        self.limit, self.radius, self.scale = (float(given[name]) for name in ("limit", "radius", "scale"))
        require(given["norm"] in ("l1", "l2"), "the norm is unknown")
        require(self.laplace or study.delta > 0, "Gaussian noise needs a delta")
        require(self.offset.shape[1] == self.classes - 1, "the offset is of another number of classes")
        require(self.ridge > 0 and 0 < self.limit < math.inf, "the ridge or the limit is out of range")
        require(0 <= self.radius < math.inf and 0 < self.scale < math.inf, "the radius or the scale is out of range")

    @cached_property
    def context(self) -> bytes:
        numbers = [number.hex() for number in (self.ridge, self.limit, self.radius)]
        head = repr((self.transform.shape, self.classes, self.norm, numbers, (24, 8))).encode()
        return sha256(b"psephos local step\0", head, doubles(self.transform, self.offset))

    def value(self, ballots: int) -> float:
        return 1 / (2**24 * ballots)

    @property
    def about(self) -> dict[str, Any]:
        return {"rank": self.rank - 1}

    def classifier(self, sums: Sequence[int], ballots: int) -> Array:
        mean = np.array([int(v) / (ballots * 2**24) for v in sums]).reshape(self.classes - 1, self.rank)
        variance = float(self.variance) / 4.0**24 * self.parties / self.contributors
        expected = variance / (self.parties * ballots)
        edges = [0, 1, *(2**power for power in range(1, 64) if 2**power < self.rank), self.rank]
        for start, end in itertools.pairwise(edges):
            part = mean[:, start:end]
            if part.size:
                energy = max(float((part**2).sum()), 1e-300)
                mean[:, start:end] = part * max(0.0, 1 - expected * part.size / energy)
        scores = self.offset + self.transform @ (mean * self.scale).T
        return scores[:, 0] if self.classes == 2 else helmert(self.classes).T @ scores.T
