"""What sizes the vectors of a statistic and of a descent, by section 8 of docs/wire.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tests.verifier.board import Study, require, sha256
from tests.verifier.joint import JointNoise, in_order, matrix, unit_rows
from tests.verifier.share_bounds import gaussian_sigma, rounded_up

Array = NDArray[np.float64]


def helmert(classes: int) -> Array:
    basis = np.zeros((classes - 1, classes))
    for j in range(1, classes):
        length = math.sqrt(j * (j + 1))
        basis[j - 1, :j] = -1 / length
        basis[j - 1, j] = j / length
    return basis


def _gamma(terms: int) -> float:
    return terms * 2.0**-53 / (1.0 - terms * 2.0**-53)


def operator_norm(x: Array) -> float:
    """An upper bound of the largest singular value, as every member computes it."""
    if x.shape[0] < x.shape[1]:
        x = x.T
    samples, width = x.shape
    exponent = max(-500, math.frexp(float(np.abs(x).max()))[1])
    x = x * 2.0**-exponent
    slack = _gamma(samples + 2) * float(np.einsum("ij,ij->", x, x)) * (1 + 2 * _gamma(x.size + 2)) + 1e-290
    gram = x.T @ x
    top = float(np.linalg.eigvalsh(gram)[-1]) * (1 + 2.0**-40) + 1e-290
    while True:
        shifted = top * np.eye(width) - gram
        try:
            np.linalg.cholesky(shifted)
            break
        except np.linalg.LinAlgError:
            top *= 1 + 2.0**-32
    trace = float(np.abs(np.diag(shifted)).sum()) * (1 + _gamma(width + 2))
    slack += 2 * _gamma(width + 3) * trace + 2.0**-51 * top
    return math.ldexp(math.sqrt(top + slack) * (1 + 2.0**-50), exponent)


@dataclass
class Statistic:
    """The public plan of a statistic whose noise the parties add, or of an average of directions."""

    study: Study
    samples: Array

    @cached_property
    def transform(self) -> Array:
        return matrix(self.study, "coordinates")

    @property
    def classes(self) -> int:
        return len(self.study.classes)

    @property
    def parties(self) -> int:
        return len(self.study.roster)

    @property
    def of_votes(self) -> bool:
        return bool(self.study.method == "statistic")

    @property
    def laplace(self) -> bool:
        """Whether the noise of the parties' shares is discrete Laplace."""
        return self.study.protocol == "statistic" and self.study.delta == 0

    @property
    def rank(self) -> int:
        return int(self.transform.shape[1])

    @property
    def length(self) -> int:
        return (self.classes - 1) * self.rank

    @cached_property
    def contrast(self) -> NDArray[np.int64]:
        return np.rint(helmert(self.classes) * 65536).astype(np.int64)

    @cached_property
    def _coordinates(self) -> Array:
        """The coordinates of the public samples, (N, r)."""
        return in_order(unit_rows(self.samples), self.transform)

    @cached_property
    def _points(self) -> tuple[NDArray[np.int64], float]:
        """The points of votes, and their pitch."""
        Z = self._coordinates
        pitch = math.ldexp(1.0, min(0, math.frexp(float(np.abs(Z).max()))[1]) - 24)
        return np.floor(Z / pitch + 0.5).astype(np.int64), pitch

    @cached_property
    def context(self) -> bytes:
        """The digest of the grid."""
        if self.study.method == "vote-directions":
            Z = self._coordinates
            head = repr((Z.shape, self.classes, "l1" if self.laplace else "l2", 24)).encode()
            return sha256(b"psephos vote directions\0", head, Z.astype("<f8").tobytes())
        if not self.of_votes:
            norm = ("l1",) if self.laplace else ()
            head = repr((self.transform.shape, self.classes, self.study.method, 24, *norm)).encode()
            return sha256(b"psephos own data\0", head, self.transform.astype("<f8").tobytes())
        points, _ = self._points
        shapes = (points.shape, self.contrast.shape)
        body = points.astype("<i8").tobytes() + self.contrast.astype("<i8").tobytes()
        return sha256(b"psephos statistic grid\0", repr(shapes).encode(), body)

    @cached_property
    def range(self) -> tuple[int, int]:
        """The smallest and the largest entry of one party's vector without noise."""
        if not self.of_votes:
            return -(2**24), 2**24
        points, _ = self._points
        low, high = [0], [0]
        negative, positive = np.minimum(points, 0).sum(axis=0), np.maximum(points, 0).sum(axis=0)
        for row in self.contrast:
            least, most = int(row.min()), int(row.max())
            low += [least * int(p) + most * int(n) for p, n in zip(positive, negative, strict=True)]
            high += [most * int(p) + least * int(n) for p, n in zip(positive, negative, strict=True)]
        return min(low), max(high)

    @cached_property
    def sensitivities(self) -> tuple[float, float]:
        """In L1 and L2, in units of the sum."""
        if not self.of_votes and self.laplace:
            return 2.0**25, 2.0**25
        if not self.of_votes:
            return rounded_up(2.0 * 2**24 * math.sqrt(self.length) * (1 + 2.0**-50)), rounded_up(2.0 * 2**24)
        points, _ = self._points
        pairs = [self.contrast[:, a] - self.contrast[:, b] for a in range(self.classes) for b in range(a)]
        longest = math.sqrt(max(sum(int(v) ** 2 for v in step) for step in pairs)) * (1 + 2.0**-50)
        widest = max(sum(abs(int(v)) for v in step) for step in pairs)
        norm = operator_norm(points.astype(np.float64))
        l2 = longest * math.sqrt(len(points)) * norm * (1 + 2.0**-44)
        direct = widest * int(np.abs(points).sum())
        l1 = min(float(direct) * (1 + 2.0**-50), math.sqrt(self.length) * l2 * (1 + 2.0**-50))
        return rounded_up(l1), rounded_up(min(l1, l2))

    @property
    def unit(self) -> float:
        """The value of one unit of the sum, divided by the parties."""
        if not self.of_votes:
            return 1 / (2**24 * self.parties)
        points, pitch = self._points
        return pitch / (2.0**16 * len(points) * self.parties)

    @property
    def by_holders(self) -> bool:
        """Whether the key holders add the noise, not the parties."""
        source = self.study.parameters.get("noise_from", "parties")
        require(source in ("parties", "holders"), "nobody else adds noise")
        return bool(source == "holders")

    @cached_property
    def noise(self) -> JointNoise:
        return JointNoise(self.study, self.length, self.study.delta == 0, *self.sensitivities, self.by_holders)

    @cached_property
    def share(self) -> tuple[int, int]:
        """The largest entry and the largest length of a share of the noise."""
        return self.noise.bound, self.noise.longest

    @property
    def squares(self) -> int | None:
        """The largest sum of squares of a party's vector, where it is less than its range allows."""
        if self.of_votes:
            return None
        adds = self.study.protocol == "statistic" and not self.by_holders
        low, high = self.range
        bound, longest = self.share if adds else (0, 0)
        return min(self.length * max(bound - low, high + bound) ** 2, (2**24 + longest) ** 2)

    @property
    def sensitivity(self) -> tuple[float, str]:
        """As a model states it, with its norm."""
        l1, l2 = self.sensitivities
        return (l1 * self.unit, "l1") if self.study.delta == 0 else (l2 * self.unit, "l2")

    def energy(self, ballots: int) -> float:
        """The expected squared length of the noise in T, of all shares."""
        (l1, l2), study = self.sensitivities, self.study
        if study.delta:
            each = gaussian_sigma(l2 * self.unit, study.epsilon, study.delta) ** 2
        else:
            each = 2 * (l1 * self.unit / study.epsilon) ** 2
        share = self.parties / ballots
        energy = self.length * each * self.noise.adders / self.noise.contributors * share
        return energy * (share if self.by_holders else 1.0)

    def classifier(self, sums: Sequence[int], ballots: int) -> Array | None:
        """The classifier of scaled rows that follows from a sum."""
        if self.classes != 2:
            return None
        contrasts = np.array([float(v) for v in sums]).reshape(1, -1)
        T = helmert(2).T @ contrasts * (self.unit * self.parties / ballots)
        energy, noise = float(np.sum(T**2)), self.energy(ballots)
        signal = 1 / np.arange(1, self.rank + 1)
        signal *= max(energy - noise, 0.05 * energy) / signal.sum()
        T = T * (signal / (signal + noise / self.rank) if energy > 0 else 1.0)
        W = T @ self.transform.T
        weights: Array = W[1] - W[0]
        return weights
