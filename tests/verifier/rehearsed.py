"""The rehearsed step: its plan, and the classifier that follows from its sum, by section 8.6 of docs/wire.md."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.verifier.board import Study, require, sha256
from tests.verifier.joint import JointNoise, matrix
from tests.verifier.noise import helmert, rounded_up

Array = NDArray[np.float64]


@dataclass
class Rehearsed:
    """The public plan of a rehearsed step, which the study states."""

    study: Study
    samples: Array

    def __post_init__(self) -> None:
        given = self.study.parameters
        self.classes, self.norm = len(self.study.classes), given["norm"]
        self.transform, self.offset = matrix(self.study, "coordinates"), matrix(self.study, "offset")
        self.ridge = float(given["ridge"]) or math.inf
        self.limit, self.radius, self.scale = (float(given[name]) for name in ("limit", "radius", "scale"))
        require(self.norm in ("l1", "l2"), "the norm is unknown")
        require(self.norm == "l1" or self.study.delta > 0, "Gaussian noise needs a delta")
        require(self.offset.shape[1] == self.classes - 1, "the offset is of another number of classes")
        require(self.ridge > 0 and 0 < self.limit < math.inf, "the ridge or the limit is out of range")
        require(0 <= self.radius < math.inf and 0 < self.scale < math.inf, "the radius or the scale is out of range")

    @property
    def rank(self) -> int:
        """The number of coordinates with the constant."""
        return int(self.transform.shape[1])

    @property
    def length(self) -> int:
        return (self.classes - 1) * self.rank

    @cached_property
    def context(self) -> bytes:
        numbers = [number.hex() for number in (self.ridge, self.limit, self.radius)]
        head = repr((self.transform.shape, self.classes, self.norm, numbers, (24, 8))).encode()
        body = self.transform.astype("<f8").tobytes() + self.offset.astype("<f8").tobytes()
        return sha256(b"psephos local step\0", head, body)

    @property
    def entries(self) -> tuple[int, int]:
        return -(2**24) - self.noise.bound, 2**24 + self.noise.bound

    @property
    def squares(self) -> int:
        """The largest sum of squares of a party's vector."""
        return min(self.length * max(self.entries) ** 2, (2**24 + self.noise.longest) ** 2)

    @cached_property
    def noise(self) -> JointNoise:
        across = 2.0**25 if self.norm == "l1" else 2.0**25 * math.sqrt(self.length) * (1 + 2.0**-50)
        return JointNoise(self.study, self.length, self.norm == "l1", rounded_up(across), 2.0**25)

    def facts(self, ballots: int) -> dict[str, Any]:
        """What a model states of a release of so many ballots."""
        return self.noise.facts("party", 2.0**25 / (2**24 * ballots), self.norm, rank=self.rank - 1)

    def classifier(self, sums: Sequence[int], ballots: int) -> Array:
        """The classifier of scaled rows that follows from a sum."""
        mean = np.array([int(v) / (ballots * 2**24) for v in sums]).reshape(self.classes - 1, self.rank)
        variance = self.noise.variance / 4.0**24 * self.noise.parties / self.noise.contributors
        expected = variance / (self.noise.parties * ballots)
        edges = [0, 1, *(2**power for power in range(1, 64) if 2**power < self.rank), self.rank]
        for start, end in itertools.pairwise(edges):
            part = mean[:, start:end]
            if part.size:
                energy = max(float((part**2).sum()), 1e-300)
                mean[:, start:end] = part * max(0.0, 1 - expected * part.size / energy)
        scores = self.offset + self.transform @ (mean * self.scale).T
        basis = helmert(self.classes)
        weights: Array = scores[:, 0] if self.classes == 2 else basis.T @ scores.T
        return weights
