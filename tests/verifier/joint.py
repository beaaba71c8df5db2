"""The noise that the parties add to a sum, by section 8.3 of docs/wire.md, and what plans have in common."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.verifier.board import Study, facts, require
from tests.verifier.share_bounds import gaussian_share, gaussian_variance, laplace_share

Array = NDArray[np.float64]


def matrix(study: Study, name: str) -> Array:
    """The matrix that a parameter of a study contains, (d, r)."""
    numbers = np.frombuffer(base64.b64decode(study.parameters[name], validate=True), "<f4").astype(np.float64)
    features = len(study.features)
    require(numbers.size and numbers.size % features == 0 and np.isfinite(numbers).all(), f"{name} is no matrix")
    return numbers.reshape(features, -1)


def in_order(rows: Array, weights: Array) -> Array:
    """Rows (n, d) times weights (d, r): for each entry the products are added in the order of the features."""
    total = np.zeros((len(rows), weights.shape[1]))
    for column, row in zip(rows.T, weights, strict=True):
        total = total + np.outer(column, row)
    return total


def divided(samples: Array) -> Array:
    """Rows divided by their last entry."""
    return samples / samples[:, -1:]


def unit_rows(samples: Array) -> Array:
    """Rows divided by their largest magnitude and then by their length."""
    largest = np.abs(samples).max(axis=1)[:, None]
    rows = samples / np.where(largest > 0, largest, 1.0)
    squares = np.zeros(len(rows))
    for column in rows.T:
        squares = squares + column * column
    lengths = np.sqrt(squares)[:, None]
    unit: Array = rows / np.where(lengths > 0, lengths, 1.0)
    return unit


def shrinkage(X: Array) -> float:
    """The shrinkage of Ledoit and Wolf for the second moment of rows X (n, p), which are taken to be centred."""
    n, p = X.shape
    if p == 1:
        return 0.0
    squares = X * X
    trace = float(squares.sum()) / n
    mean = trace / p
    moment = float(((X.T @ X) ** 2).sum()) / n**2
    beta = (float((squares.T @ squares).sum()) / n - moment) / (p * n)
    delta = (moment - 2 * mean * trace + p * mean**2) / p
    beta = min(beta, delta)
    return beta / delta if beta else 0.0


@dataclass(frozen=True)
class JointNoise:
    """The noise of a sum of vectors whose sensitivities are known."""

    study: Study
    length: int
    laplace: bool
    l1: float
    l2: float
    by_holders: bool = False

    @property
    def parties(self) -> int:
        return len(self.study.roster)

    @property
    def colluders(self) -> int:
        return int(self.study.parameters.get("colluders", max(0, self.study.threshold - 1)))

    @property
    def adders(self) -> int:
        """How many shares of noise there are at most."""
        return self.study.holders if self.by_holders else self.parties

    @property
    def contributors(self) -> int:
        if self.by_holders:
            holders, study = self.study.holders, self.study
            least = (holders + study.threshold - 1) // 2 + 1
            require(holders >= 2 and self.colluders < holders, "no holder's noise is left")
            require(study.confirmations >= least, "too few holders confirm what they open")
            return holders - max(1, self.colluders)
        dropouts = int(self.study.parameters.get("dropouts", 0))
        require(self.colluders >= 0 and dropouts >= 0, "there is a negative number of parties")
        require(self.study.minimum >= self.parties - dropouts, "a sum may lack more parties than the noise allows")
        left = self.parties - self.colluders - dropouts - 1
        require(left >= 1, "nobody's noise is left")
        return left

    @property
    def scale(self) -> Fraction:
        """Of discrete Laplace noise."""
        return Fraction(math.ceil(Fraction(self.l1) / Fraction(self.study.epsilon) * 2**20), 2**20)

    @property
    def variance(self) -> float:
        """Of one entry of the whole noise, in units of the sum."""
        if self.laplace:
            return 2 * float(self.scale) ** 2
        return float(gaussian_variance(self.l2, self.study.epsilon, self.study.delta))

    @cached_property
    def _share(self) -> tuple[int, int]:
        if self.laplace:
            return laplace_share(self.length, self.scale, self.adders, self.contributors)
        variance = gaussian_variance(self.l2, self.study.epsilon, self.study.delta) / self.contributors
        require(variance >= 18, "the noise is too small for its grid")
        return gaussian_share(self.length, variance, self.adders)

    @property
    def bound(self) -> int:
        """The largest entry of one party's share."""
        return self._share[0]

    @property
    def longest(self) -> int:
        """The largest length of one party's share."""
        return self._share[1]

    def facts(self, unit: str, sensitivity: float, norm: str, **chosen: Any) -> dict[str, Any]:
        """What a model states of its release."""
        law = f"discrete {'Laplace' if self.laplace else 'Gaussian'} in shares"
        law += " of the key holders" if self.by_holders else ""
        return facts(law, unit, sensitivity, norm, **chosen, colluders=self.colluders)
