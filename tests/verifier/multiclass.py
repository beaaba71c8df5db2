"""The classifier of a statistic of three or more classes, by sections 9 and 12 of docs/wire.md."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from tests.verifier.board import Array
from tests.verifier.noise import Statistic, helmert, shrinkage, unit_rows


def numbers(count: int) -> list[int]:
    """The first integers of 53 bits from which the public vectors are computed."""
    prefix = hashlib.sha256(b"(0, ('splits of a release',))").digest()
    blocks = range(-(-7 * count // 4096))
    stream = b"".join(hashlib.shake_256(prefix + block.to_bytes(8, "big")).digest(4096) for block in blocks)
    return [int.from_bytes(stream[7 * place : 7 * place + 7], "big") >> 3 for place in range(count)]


def splits(contrasts: int, rank: int, *, laplace: bool) -> Array:
    """The four public vectors, (4, K - 1, r)."""
    u = (np.array(numbers(4 * contrasts * rank), dtype=np.float64) + 0.5) * 2.0**-53
    entries = -np.sign(u - 0.5) * np.log1p(-2 * np.abs(u - 0.5)) if laplace else ndtri(u)
    scaled: Array = entries / math.sqrt(float((entries * entries).mean()))
    return scaled.reshape(4, contrasts, rank)


class SelfTraining:
    """Self-training on public rows."""

    def __init__(self, rows: Array, transform: Array) -> None:
        self.rows, self.transform = rows, transform
        value, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
        share = shrinkage(rows)
        raised = np.maximum(value, (1 - share) * value + share * value.mean())
        there = value > 1e-9 * value[-1]
        self.axes = vectors[:, there] / np.sqrt(raised[there])

    def _labels(self, W: Array) -> Array:
        return np.eye(len(W))[(self.rows @ W.T).argmax(axis=1)]

    def _scaled(self, W: Array) -> Array:
        deviation = float((self.rows @ W.T).std())
        return W / deviation if deviation > 0 else W

    def _refitted(self, W: Array) -> Array:
        labels = self._labels(W)
        counts = labels.sum(axis=0)
        means = labels.T @ (self.rows @ self.axes) / np.maximum(counts, 1.0)[:, None]
        within = np.eye(means.shape[1]) - 0.8 * means.T @ (means * (counts / len(self.rows))[:, None])
        F = np.linalg.solve(within, means.T).T @ self.axes.T
        return F - F.mean(axis=0)

    def trained(self, T: Array, noise: float) -> Array:
        """W of T, (K, d)."""
        start, energy = T @ self.transform.T, float((T * T).sum())
        anchor = max(0.0, 1 - noise / energy) ** 2 / 2 if energy > 0 else 0.0
        W = start
        for _ in range(5):
            W = anchor * self._scaled(start) + (1 - anchor) * self._scaled(self._refitted(W))
        return W

    def _score(self, W: Array, other: Array) -> float:
        statistic = self._labels(W).T @ (self.rows @ self.transform)
        statistic = statistic - statistic.mean(axis=0)
        length = math.sqrt(float((statistic * statistic).sum()))
        return float((statistic * other).sum()) / length if length > 0 else 0.0

    def accepted(self, T: Array, noise: float, *, laplace: bool) -> bool:
        """Whether the halves of a release confirm each other."""
        deviation = math.sqrt(noise / T[1:].size)
        trained, plain = 0.0, 0.0
        for g in splits(len(T) - 1, T.shape[1], laplace=laplace):
            for sign in (1.0, -1.0):
                moved = helmert(len(T)).T @ (sign * deviation * g)
                half, other = T + moved, T - moved
                trained += self._score(self.trained(half, 2 * noise), other) / 8
                plain += self._score(half @ self.transform.T, other) / 8
        return trained >= 0.95 * plain - deviation


class Multiclass(Statistic):
    """A statistic of three or more classes."""

    def classifier(self, sums: Sequence[int], ballots: int) -> Array:
        T, noise = self.means(sums, ballots), self.energy(ballots)
        training = SelfTraining(unit_rows(self.samples), self.transform)
        if training.accepted(T, noise, laplace=self.laplace):
            return training.trained(T, noise)
        return self.filtered(T, noise)
