"""The record step: its plan, and the classifier that follows from its sum, by section 8.4 of docs/wire.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np

from tests.verifier.board import Array, Study, doubles, require, sha256
from tests.verifier.noise import Plan, helmert, in_order, matrix, rounded_up, shrinkage
from tests.verifier.public import Public


@cache
def tables() -> Array:
    """The four tables of two classes, (4, 16384)."""
    columns = []
    for place in range(32 * 512):
        t = place / 512
        curvature = math.floor(65536 * (2 * math.tanh(t / 2) / t)) if t else 65536
        above, below = math.floor(65536 / (1 + math.exp(-t))), math.floor(65536 * math.exp(-t) / (1 + math.exp(-t)))
        columns.append((above, below, curvature, math.isqrt(2 * curvature * curvature)))
    return np.array(columns, dtype=np.float64).T


class Records(Plan):
    """The public plan of a record step."""

    unit = "record"
    range = -(2**44), 2**44

    def __init__(self, study: Study, public: Public) -> None:
        super().__init__(study, public)
        given, self.classes = self.given, max(1, self.classes)
        self.transform, self.offset = matrix(study, "coordinates"), matrix(study, "offset")
        self.constant, self.rows = float(given["constant"]), int(given["rows"])
        self.labelled, self.persons = int(given.get("labelled", 0)), given.get("record", "")
        self.width, scores = self.transform.shape[1] + 1, max(1, self.classes - 1)
        self.length = scores * self.width + self.width * (self.width + 1) // 2
        require(self.offset.shape[1] == scores, "the offset is of another number of classes")
        require(math.isfinite(self.constant) and self.constant > 0, "the constant is no positive number")
        require(self.rows >= 1 and self.labelled >= 0, "a number of rows is out of range")
        coarse = math.sqrt(self.variance * self.parties / self.contributors) < 2.0**10
        require(not coarse, "the noise is too small for its grid")

    @cached_property
    def context(self) -> bytes:
        bits = (18, 16, 20, 44, 512, 32)
        head = repr((self.transform.shape, self.classes, self.norm, self.constant.hex(), bits, *self.digest_fields))
        arrays = doubles(self.transform, self.offset, *tables())
        return sha256(b"psephos record grid\0", head.encode(), arrays)

    @property
    def digest_fields(self) -> tuple[Any, ...]:
        """What else a vector depends on."""
        return ("softmax",) if self.classes > 2 else ()

    @property
    def extremes(self) -> tuple[Array, Array]:
        """Residuals and curvatures of which one pair or two have the largest distance of two rows."""
        above, below, curvature, _ = tables()
        if self.classes == 2:
            return above / 65536, curvature / 65536
        last = 1 + int((below > 0).sum())
        odds = below[:last] / above[:last]
        least = np.floor(np.maximum(2.0**18 * odds / (1 + odds) ** 2, curvature[:last] / 2))
        return np.ones(last) if self.laplace else np.sqrt(1 - odds / (1 + odds) ** 2), least / 65536

    @cached_property
    def sensitivities(self) -> tuple[float, float]:
        if self.ball:
            return super().sensitivities
        s, k = self.extremes
        up = 1 + 2.0**-40
        if self.laplace:
            l1 = 2.0**21 * float((s + k).max())
            return rounded_up(l1), rounded_up(l1)
        longest = 2.0**20 * math.sqrt(float((s * s + k * k).max())) * up
        l2 = min(2 * longest, 2.0**20 * math.sqrt(_distance(s, k)) * up + 2 * math.sqrt(self.length) + 32)
        return rounded_up(l2 * math.sqrt(self.length) * up), rounded_up(l2)

    def value(self, ballots: int) -> float:
        return 2.0**-20

    @property
    def about(self) -> dict[str, Any]:
        return {"rank": self.width - 1, "rows": self.rows, "persons": self.persons or None}

    # -- the classifier

    @property
    def radius(self) -> float:
        return 1 + self.constant if self.laplace else math.hypot(1.0, self.constant)

    @property
    def largest_residual(self) -> float:
        """The largest distance of two columns of the contrasts."""
        if self.classes <= 2:
            return 1.0
        columns, order = helmert(self.classes).T, 1 if self.laplace else 2
        return max(float(np.linalg.norm(one - columns, order, axis=1).max()) for one in columns)

    @property
    def _information(self) -> float:
        """What a labelled public row tells about the step."""
        return 4.0 if self.classes == 2 else 2 * self.largest_residual**2

    def _curvatures(self) -> Array:
        """k of the public rows."""
        t = in_order(self.divided, self.offset)
        if self.classes == 2:
            size = np.maximum(np.abs(t[:, 0]), 1e-4)
            return 2 * np.tanh(size / 2) / size
        if self.classes < 2:
            return np.ones(len(t))
        gaps = np.sort(t @ helmert(self.classes))
        others = np.exp(gaps - gaps[:, -1:])[:, :-1].sum(axis=1)
        q, t = 1 / (1 + others), np.maximum(-np.log(np.maximum(others, 2.0**-16)), 1e-4)
        return np.maximum(4 * q * (others * q), np.tanh(t / 2) / t * (others <= 1))

    def _points(self) -> Array:
        """The coordinates z of the public rows, before they are rounded."""
        raw = in_order(self.divided, self.transform)
        sizes = np.abs(raw) if self.laplace else raw * raw
        lengths = np.zeros(len(raw))
        for column in sizes.T:
            lengths = lengths + column
        lengths = lengths if self.laplace else np.sqrt(lengths)
        whole = np.column_stack([raw / np.maximum(lengths, 1.0)[:, None], np.full(len(raw), self.constant)])
        return whole / self.radius

    @cached_property
    def _moment(self) -> tuple[Array, float]:
        """P and the spread of one public row."""
        z = self._points() * np.sqrt(self._curvatures())[:, None]
        moment, share = z.T @ z / len(z), shrinkage(z)
        squares = float(((z * z).sum(axis=1) ** 2).mean()) - float((moment * moment).sum())
        shrunk = (1 - share) * moment + share * float(np.trace(moment)) / self.width * np.eye(self.width)
        return shrunk, max(squares / self.width**2, 1e-30)

    def classifier(self, sums: Sequence[int], ballots: int) -> Array:
        values = np.array([float(v) for v in sums]) / 2.0**20
        scores = self.offset.shape[1]
        gradients = values[: scores * self.width].reshape(scores, self.width)
        factor = 2.0 if self.laplace else math.sqrt(2)
        i, j = np.triu_indices(self.width)
        H = np.zeros((self.width, self.width))
        H[i, j] = values[scores * self.width :] / np.where(i == j, 1.0, factor)
        H[j, i] = H[i, j]
        sigma = math.sqrt(self.variance * ballots / self.contributors) / 2.0**20
        scale = (1.0, 4.0, 2.0)[min(self.classes, 3) - 1] * self.largest_residual
        rows = self._estimated_rows(H, ballots)
        steps = (
            np.column_stack([self._step(H, gradient, rows, sigma, sigma / factor) for gradient in gradients]) * scale
        )
        constant = np.zeros((len(self.transform), 1))
        constant[-1] = self.constant
        W = self.offset - np.column_stack([self.transform, constant]) / self.radius @ steps
        return W[:, 0] if self.classes <= 2 else helmert(self.classes).T @ W.T

    def _estimated_rows(self, H: Array, ballots: int) -> float:
        P = self._moment[0]
        rows = float((H * P).sum() / (P * P).sum())
        return min(max(rows, self.rows / 4), 4.0 * self.rows)

    def _step(self, H: Array, gradient: Array, rows: float, sigma: float, off: float) -> Array:
        (P, spread), width = self._moment, self.width
        between = rows**2 * spread / len(self.samples)
        share = between / (between + off**2)
        value, vectors = np.linalg.eigh(share * H + (1 - share) * rows * P)
        floor = max(share * off * math.sqrt(width), 1e-3 * rows * float(np.trace(P)) / width)
        value = np.maximum(value, floor)
        c = vectors.T @ gradient
        if self.labelled:
            known = 0.5 * self.labelled * self._information * (vectors.T @ P @ vectors)
            solved = np.linalg.solve(np.diag(value**2 / sigma**2) + known, value * c / sigma**2)
        else:
            energy = float(gradient @ gradient)
            signal = max(energy - width * sigma**2, 0.05 * energy) / float((value**2).sum())
            solved = value / (value**2 + sigma**2 / max(signal, 1e-300)) * c
        return vectors @ solved


def _distance(s: Array, k: Array) -> float:
    """The bound of the squared distance of two rows' vectors, over cells of 16 entries of the tables."""
    starts = np.arange(0, len(s), 16)
    ends = np.minimum(starts + 15, len(s) - 1)
    S, most, least = s[ends], k[starts], k[ends]
    both, falls = np.outer(S, S), np.outer(least, least)
    a = np.minimum(1.0, both / (2 * falls))
    own = S**2 + most**2
    return float((own[:, None] + own[None, :] + 2 * both * a - 2 * falls * a**2).max())
