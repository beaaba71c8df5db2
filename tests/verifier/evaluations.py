"""Evaluations: the plan, and the classifier that follows from the sum, by section 8.5 of docs/wire.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tests.verifier.board import Array, Study, doubles, require, sha256
from tests.verifier.noise import Plan, bounds_of, in_order, matrix
from tests.verifier.public import Public

ROW = 5 * 2**16


class Evaluation(Plan):
    """The public plan of an evaluation."""

    def __init__(self, study: Study, public: Public) -> None:
        super().__init__(study, public)
        given, self.weights = self.given, matrix(study, "classifier")
        self.unit, self.persons = given.get("unit", "record"), given.get("record", "")
        self.wanted = int(given.get("bins", 10))
        require(study.delta == 0, "the noise of an evaluation has no delta")
        scores = 1 if self.classes in (0, 2) else self.classes
        require(self.weights.shape[1] == scores, "the classifier has other classes")
        require(study.method == ("platt" if self.classes else "unchanged"), "the method is for other labels")
        require(self.classes or "bins" not in given, "a prediction of a number has no bins")
        require(not self.classes or not {"low", "high", "largest_error"} & given.keys(), "a classifier has no bounds")
        require(self.unit in ("record", "party"), "the unit is unknown")
        require(2 <= self.wanted <= 100, "the number of bins is out of range")
        require(not self.persons or self.unit == "record", "persons are named where parties are protected")
        self.length, self.range, self.row, self.l1 = 1, (0, 2**20), 2**20, 2**20
        if self.unit == "record":
            self.length, self.range, self.row, self.l1 = self._of_records()

    def _of_records(self) -> tuple[int, tuple[int, int], int, int]:
        """Length, range, what a row adds at most, and sensitivity where records are protected."""
        table = self.classes**2 if self.classes > 2 else 0
        return 2 + 2 * self.bins + table, (0, 2**42), ROW, 2 * ROW

    @cached_property
    def decisive(self) -> Array:
        """The decisive scores of the public rows, (N,)."""
        scores = in_order(self.divided, self.weights)
        if self.classes == 2:
            return scores[:, 0]
        ordered = np.sort(scores, axis=1)
        return ordered[:, -1] - ordered[:, -2]

    @cached_property
    def edges(self) -> Array:
        """Between the bins, ascending."""
        ordered = np.sort(self.decisive)
        edges = []
        for number in range(1, self.wanted):
            position = (len(ordered) - 1) * (number / self.wanted)
            place = min(math.floor(position), len(ordered) - 2) if len(ordered) > 1 else 0
            low, high = float(ordered[place]), float(ordered[min(place + 1, len(ordered) - 1)])
            t = position - math.floor(position)
            edges.append(low + (high - low) * t if t < 0.5 else high - (high - low) * (1 - t))
        if self.classes == 2:
            edges[int(np.argmin(np.abs(edges)))] = 0.0
        return np.array(sorted(set(edges)))

    @property
    def bins(self) -> int:
        return len(self.edges) + 1

    @property
    def context(self) -> bytes:
        return self._grid if self.unit == "record" else sha256(b"psephos share grid\0", bytes([20]), self._grid)

    @property
    def _grid(self) -> bytes:
        weights = (2 << 16, 3 << 16, 0) if self.classes == 2 else (2 << 16, 2 << 16, 1 << 16)
        head = repr((self.weights.shape, self.edges.shape, self.classes, weights, 42)).encode()
        return sha256(b"psephos score grid\0", head, doubles(self.weights, self.edges))

    @cached_property
    def sensitivities(self) -> tuple[float, float]:
        return self.l1, self.l1

    def value(self, ballots: int) -> float:
        return 1 / self.row

    @property
    def about(self) -> dict[str, Any]:
        return {"bins": self.bins, "persons": self.persons or None}

    # -- the classifier

    def classifier(self, sums: Sequence[int], ballots: int) -> Array:
        fit = self.calibration(sums, ballots) if self.classes == 2 and self.unit == "record" else None
        if fit is None:
            return self.weights[:, 0] if self.classes == 2 else self.weights.T
        w: Array = self.weights[:, 0] * fit[0]
        w[-1] += fit[1]
        return w

    def calibration(self, sums: Sequence[int], ballots: int) -> tuple[float, float] | None:
        """Slope and intercept of the calibrated score."""
        deviation = math.sqrt(ballots / self.contributors / 2) / math.sinh(1 / (2 * float(self.laplace_scale)))
        scale = np.array([2.0 * 2**16] * 2 + [3.0 * 2**16] * (2 * self.bins))
        raw, variance = np.array([float(v) for v in sums]) / scale, (deviation / scale) ** 2
        above = np.arange(self.bins) > int(np.flatnonzero(self.edges == 0.0)[0])
        right = np.column_stack([~above, above]).ravel()
        C = np.zeros((2, self.length))
        C[0, 0] = C[1, 1] = 1.0
        C[0, 2:], C[1, 2:] = -1.0 * right, -1.0 * ~right
        gain = np.linalg.solve((C * variance) @ C.T, C * variance).T
        counts = raw - gain @ (C @ raw)
        covariance = np.diag(variance) - gain @ (C * variance)
        rows, error = float(counts[:2].sum()), math.sqrt(max(float(covariance[:2, :2].sum()), 0.0))
        if rows < 3 * error or rows * math.sqrt(2) * ROW / deviation < 300:
            return None
        negative, positive = _projected(counts[2::2]), _projected(counts[3::2])
        return _platt(self.centres, negative, positive)

    @cached_property
    def centres(self) -> Array:
        """The mean decisive score of the public rows in each bin, (B,)."""
        low, high = min(self.decisive.min(), self.edges[0]), max(self.decisive.max(), self.edges[-1])
        ends = [low, *self.edges, high]
        numbers = np.searchsorted(self.edges, self.decisive, side="left")
        centres = []
        for number in range(self.bins):
            own = self.decisive[numbers == number]
            centres.append(float(own.mean()) if len(own) else (ends[number] + ends[number + 1]) / 2)
        return np.array(centres)


class ErrorEvaluation(Evaluation):
    """The public plan of the evaluation of a prediction of a number."""

    def __init__(self, study: Study, public: Public) -> None:
        super().__init__(study, public)
        self.bounds, self.middle, self.largest = bounds_of(study, "largest_error")
        low, high = self.bounds
        require(low < self.middle < high, "the bounds are too close")
        require(self.largest <= high - low, "the largest error is out of range")

    def _of_records(self) -> tuple[int, tuple[int, int], int, int]:
        return 6, (-(2**47), 2**47), 16 * 2**20, 16 * 2**20

    @property
    def _grid(self) -> bytes:
        numbers = [number.hex() for number in (*self.bounds, self.largest)]
        weights = tuple(weight * 2**20 for weight in (2, 6, 2, 3, 2, 1))
        head = repr((self.weights.shape, numbers, weights, 47)).encode()
        return sha256(b"psephos error grid\0", head, doubles(self.weights))

    @property
    def about(self) -> dict[str, Any]:
        return {"largest_error": self.largest, "persons": self.persons or None}

    def classifier(self, sums: Sequence[int], ballots: int) -> Array:
        return self.weights[:, 0]


def _projected(counts: Array) -> Array:
    """The nearest counts that are not negative and have the same total; zeros where the total is not positive."""
    total = float(counts.sum())
    if total <= 0:
        return np.zeros_like(counts)
    descending = np.sort(counts)[::-1]
    shift = max((float(descending[: n + 1].sum()) - total) / (n + 1) for n in range(len(counts)))
    return np.maximum(counts - shift, 0.0)


def _platt(centres: Array, negative: Array, positive: Array) -> tuple[float, float] | None:
    """The minimiser of the penalised log-loss, by Newton's method in extended precision."""
    x = centres.astype(np.longdouble)
    misses, hits = negative.astype(np.longdouble), positive.astype(np.longdouble)
    prior = np.longdouble(0.01)

    def gradient(a: Any, b: Any) -> tuple[Any, Any, Any]:
        p, q = 1 / (1 + np.exp(-(a * x + b))), 1 / (1 + np.exp(a * x + b))
        slack = misses * p - hits * q
        return slack @ x + prior * (a - 1), slack.sum() + prior * b, (misses + hits) * p * q

    def value(a: Any, b: Any) -> Any:
        t = a * x + b
        return (misses * np.logaddexp(0, t) + hits * np.logaddexp(0, -t)).sum() + prior / 2 * ((a - 1) ** 2 + b**2)

    a = b = np.longdouble(0)
    for _ in range(200):
        ga, gb, weight = gradient(a, b)
        aa, ab, bb = weight @ (x * x) + prior, weight @ x, weight.sum() + prior
        determinant = aa * bb - ab * ab
        da, db = (bb * ga - ab * gb) / determinant, (aa * gb - ab * ga) / determinant
        size = np.longdouble(1)
        decrement = ga * da + gb * db
        while decrement > 1e-12 and value(a - size * da, b - size * db) > value(a, b) and size > 1e-12:
            size /= 2
        a, b = a - size * da, b - size * db
        if abs(da) + abs(db) <= 1e-15 * (abs(a) + abs(b)):
            break
    slope, intercept = float(a), float(b)
    return (slope, intercept) if slope > 0 else None
