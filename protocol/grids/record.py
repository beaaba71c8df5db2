"""The integer vectors of single rows whose sum is a private Newton step, for privacy of a record.

Public are: coordinates z of a row, |z| <= 1; a score t(x) that public rows gave; and an encoding in integers. A row
(x, y) contributes the gradient psi z of the loss at the public score and a bound h z z' of its second derivative:

    two classes (logistic loss):        psi = sigmoid(t) - y,             k = 2 tanh(|t|/2)/|t|,
    K classes (softmax loss):           psi = B (p - e_y)/L,              k = max(4 q (1 - q), tanh(l/2)/l),
    a number (Huber's loss):            psi = clip((t - y)/b, -1, 1),     k = max(c, min(1, b/|t - y|)),

where h is a multiple of k: the bound of Jaakkola and Jordan (2000); that of the eigenvalues at the probabilities
p = softmax(B' t) with q = max p, and half of Jaakkola and Jordan's at its log odds l >= 0, with orthonormal contrasts B
and L the largest distance of two classes' contrasts; or the weight of iteratively reweighted least squares (Huber and
Ronchetti 2009, section 7.8), with Huber's threshold b and c = 1 - 1/sqrt(2). docs/theory.md, "The record step", has the
proofs.

The vector of a row is a function of that row alone, bit for bit: every operation is elementwise and correctly rounded
(no matrix product), exponentials are read from public tables, and the last steps are exact integers in float64. The
norms of coordinates and residuals are checked as integers, and a row that failed a check would contribute zeros.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.fixed_point import Norm
from psephos.protocol.grids.own_data import contrast_basis
from psephos.protocol.grids.rows import (
    Array,
    RowSumGrid,
    checked_numbers,
    checked_rows,
    digest_of,
    divided,
    in_coordinates,
    set_public_matrices,
    set_read_only,
)

COORDINATE_BITS = 18
"""Bits of a coordinate of norm 1."""

RESIDUAL_BITS = 16
"""Bits of the residual psi and of the curvature k, which are at most 1."""

ENTRY_BITS = 20
"""Fraction bits of the summed entries. A product of curvature and coordinates has 52.5 bits, exact in float64."""

PERSON_BITS = 16
"""Further fraction bits at which the vectors of a person's rows are averaged. A sum of 2^24 rows has 61 bits."""

TOTAL_BITS = 44
"""An entry of one party's sum is clipped to 2^44, which 2^24 rows cannot exceed. Clipping moves no two sums apart."""

SCORE_STEPS = 512
"""Entries of the tables per unit of the score."""

LARGEST_SCORE = 32
"""Largest score of the tables; larger ones are treated as this one."""

_FINITE = 2.0**20  # contrasts of scores are clipped to it, so that their differences are finite

_INSIDE = 1 - 2.0**-40
"""Factor that keeps rounded coordinates and residuals inside their balls, so that no row fails the integer check."""


LEAST_WEIGHT = math.ceil((1 - math.sqrt(0.5)) * (1 << RESIDUAL_BITS))
"""Least weight of a row in Huber's bound, in units of 2^-16: below it a replaced row would move the sum further."""


@dataclass(frozen=True)
class NumericLabel:
    """How a numeric label is predicted; public values, in the label's unit, kept as float64.

    Scores and predictions are clipped into the interval from `low` to `high`; residuals beyond `threshold` count as it.
    """

    low: float
    high: float
    threshold: float

    def __post_init__(self) -> None:
        for name in ("low", "high", "threshold"):
            object.__setattr__(self, name, float(getattr(self, name)))
        finite = all(map(math.isfinite, (self.low, self.high, self.high - self.low, self.threshold)))
        if not (finite and self.low < self.high and self.threshold > 0):
            raise InvalidParameter(f"a numeric label has finite bounds low < high and a positive threshold, not {self}")

    def clip(self, scores: Array) -> Array:
        """Return the predictions of scores that are relative to the middle of the bounds."""
        predictions: Array = np.clip(scores + self.middle, self.low, self.high)
        return predictions

    @property
    def middle(self) -> float:
        """The middle of the bounds. Scores are relative to it, so that a label far from 0 loses no precision."""
        return self.low + (self.high - self.low) / 2


@dataclass(frozen=True, eq=False)
class PartyBall:
    """The ball in which a party's average vector lies, where a party is protected; public, in units of 2^-20.

    `centre`, int64 (length,), is subtracted from the average; the difference is clipped to `radius` in the grid's norm.
    """

    centre: NDArray[np.int64]
    radius: int

    def __post_init__(self) -> None:
        centre = np.array(self.centre)
        if centre.ndim != 1 or centre.dtype.kind != "i" or np.abs(centre.astype(np.float64)).max(initial=0) > 1 << 20:
            raise InvalidParameter("the centre of a party's ball must be a vector of integers up to 2^20")
        if not 1 <= self.radius <= 1 << (ENTRY_BITS + 2):
            raise InvalidParameter(f"the radius of a party's ball is from 2^-20 to 4, not {self.radius} x 2^-20")
        set_read_only(self, "centre", centre.astype(np.int64))


class ScoreTables(NamedTuple):
    """Integers in units of 2^-16 by the absolute value of the score, float64 (L,), all rounded down: sigmoid(|t|),
    sigmoid(-|t|), k = 2 tanh(|t|/2)/|t|, and sqrt(2) k, the curvature of entries off the diagonal in L2.
    """

    above: Array
    below: Array
    curvature: Array
    across: Array


def _score_tables() -> ScoreTables:
    """Compute the tables with 2^-16 as their unit."""
    scores = [place / SCORE_STEPS for place in range(LARGEST_SCORE * SCORE_STEPS)]
    one = 1 << RESIDUAL_BITS
    above = [math.floor(one / (1 + math.exp(-t))) for t in scores]
    below = [math.floor(one * math.exp(-t) / (1 + math.exp(-t))) for t in scores]
    curvature = [math.floor(one * (2 * math.tanh(t / 2) / t if t else 1.0)) for t in scores]
    across = [math.isqrt(2 * k * k) for k in curvature]
    return ScoreTables(*(np.array(column, dtype="<f8") for column in (above, below, curvature, across)))


TABLES = _score_tables()
"""The tables of two classes."""


class SoftmaxTables(NamedTuple):
    """By t of `ScoreTables`, float64 (L,): exp(-t), 0 at the last entry; and k of a most probable class whose log odds
    are t, max(4 q (1 - q), tanh(t/2)/t), integers in units of 2^-16, rounded down.
    """

    odds: Array
    curvature: Array


def _softmax_tables() -> SoftmaxTables:
    """Derive the tables of more than two classes from those of two."""
    last = int(np.count_nonzero(TABLES.below)) + 1
    odds = TABLES.below[:last] / TABLES.above[:last]
    local = (4 << RESIDUAL_BITS) * odds / ((1 + odds) * (1 + odds))
    return SoftmaxTables(odds, np.trunc(np.maximum(local, TABLES.curvature[:last] / 2)))


SOFTMAX = _softmax_tables()
"""The tables of more than two classes."""


@dataclass(frozen=True, eq=False)
class RecordGrid(RowSumGrid):
    """The public coordinates and score under which parties sum the vectors of their rows.

    A row's last feature is the constant of the public scaling, by which the row is divided first; so the same holds
    for rows of any length.

    Attributes:
        transform: float64 (d, r), read-only; x/x_d times it are the coordinates, which are then clipped to norm 1.
        constant: the coordinate that is appended, the same for every row; above 0.
        offset: float64 (d, K') with K' = 1 for two classes and K - 1 contrasts for more; x/x_d times it is the score.
        classes: K; 1 where the label is a number.
        norm: the norm in which coordinates and residuals are clipped, that of the noise's sensitivity.
        label: how a number is predicted; the score is then relative to the middle of its bounds. None for classes.
        ball: where a party's average is clipped, if a party is protected; None where a row is.
    """

    transform: Array
    constant: float
    offset: Array
    classes: int
    norm: Norm = "l2"
    label: NumericLabel | None = None
    ball: PartyBall | None = None

    person_bits: ClassVar[int] = PERSON_BITS

    def __post_init__(self) -> None:
        set_public_matrices(self, "transform", "offset")
        if (self.label is not None) != (self.classes == 1):
            raise InvalidParameter("a record step has two classes or more, or one numeric label")
        contrasts = 1 if self.label is not None else len(contrast_basis(self.classes))
        if self.offset.shape != (len(self.transform), contrasts):
            expected = (len(self.transform), contrasts)
            raise InvalidParameter(f"the offset of a record step has shape {self.offset.shape}, not {expected}")
        if not (math.isfinite(self.constant) and self.constant > 0):
            raise InvalidParameter(f"the constant coordinate must be positive and finite, not {self.constant}")
        if self.norm not in ("l1", "l2"):
            raise InvalidParameter(f"the norm of a record step is l1 or l2, not {self.norm!r}")
        if self.ball is not None and self.ball.centre.shape != (self.length,):
            raise InvalidParameter(f"the centre of a party's ball must have {self.length} entries")

    @property
    def coordinates(self) -> int:
        """Number of coordinates of a row, r + 1."""
        return int(self.transform.shape[1]) + 1

    @property
    def contrasts(self) -> int:
        """Number of scores of a row, K'."""
        return int(self.offset.shape[1])

    @property
    def gradient_length(self) -> int:
        """Number of entries of the gradient, which come first, row-major by contrast."""
        return self.contrasts * self.coordinates

    @property
    def length(self) -> int:
        """Number of entries of a party's vector: the gradient, and the upper triangle of the second derivative."""
        return self.gradient_length + self.coordinates * (self.coordinates + 1) // 2

    @property
    def maximum(self) -> int:
        """Largest value of an entry of one party's vector."""
        return 1 << TOTAL_BITS if self.ball is None else self.ball.radius

    def checked(self, X: ArrayLike, y: ArrayLike) -> tuple[Array, NDArray[Any]]:
        if self.label is not None:
            return checked_numbers(X, y, len(self.transform))
        return checked_rows(X, y, len(self.transform), self.classes)

    @property
    def radius(self) -> float:
        """Norm by which the coordinates with the constant are divided, so that |z| <= 1."""
        return math.hypot(1.0, self.constant) if self.norm == "l2" else 1.0 + self.constant

    @cached_property
    def largest_residual(self) -> float:
        """By what a residual is divided: Huber's threshold, 1, or the largest distance of two classes' contrasts."""
        if self.classes <= 2:
            return 1.0 if self.label is None else self.label.threshold
        basis = contrast_basis(self.classes)
        return math.sqrt(2.0) if self.norm == "l2" else float(np.abs(basis[:, 0] - basis[:, -1]).sum())

    @cached_property
    def pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The places (i, j), i <= j, of the second derivative's entries, in their order."""
        i, j = np.triu_indices(self.coordinates)
        return i, j

    def locate(self, X: ArrayLike) -> tuple[Array, Array]:
        """Return the coordinates (n, r) of rows X (n, d) before they are clipped, and the public scores (n, K')."""
        rows = np.asarray(X, dtype=np.float64)
        with np.errstate(all="ignore"):
            rows = rows / rows[:, -1:]
            return in_coordinates(rows, self.transform), in_coordinates(rows, self.offset)

    def predict(self, weights: ArrayLike, X: ArrayLike) -> Array:
        """Predict numbers, float64 (n,), of rows (n, d) by weights (d,) relative to the middle of the bounds."""
        if self.label is None:
            raise InvalidParameter("numbers are predicted for a numeric label only")
        rows = np.asarray(X, dtype=np.float64)
        return self.label.clip(rows / rows[:, -1:] @ np.asarray(weights))

    def public_predictions(self, X: ArrayLike) -> Array:
        """Predict numbers by the public score, float64 (n,), as `row_vectors` does: a residual is then 0."""
        if self.label is None:
            raise InvalidParameter("numbers are predicted for a numeric label only")
        return self.label.clip(self.locate(X)[1][:, 0])

    def clip(self, coordinates: Array) -> Array:
        """Return coordinates (n, r) clipped to norm 1, with the constant, divided by `radius`: float64 (n, r + 1)."""
        with np.errstate(all="ignore"):
            clipped = _clipped(coordinates, 1.0, self.norm)
        constant = np.full((len(clipped), 1), self.constant)
        whole: Array = np.concatenate([clipped, constant], axis=1) / self.radius
        return whole

    def row_vectors(self, X: ArrayLike, y: ArrayLike, further_bits: int = 0) -> NDArray[np.int64]:
        """Compute the vector of each row, int64 (n, length), in units of 2^-20; a function of that row alone.

        With s = 1 and k = 1 replaced by the largest residual and curvature, its norm is at most 2^20 sqrt(s^2 + k^2) in
        L2, or 2^20 (s + k) in L1 (docs/theory.md). A row whose coordinates are not finite contributes zeros. Labels are
        already checked; `further_bits` are fraction bits besides the 20.
        """
        raw, score = self.locate(X)
        finite = np.asarray(np.isfinite(raw).all(axis=1) & np.isfinite(score).all(axis=1))
        raw, score = np.where(finite[:, None], raw, 0.0), np.where(finite[:, None], score, 0.0)
        z = np.trunc(self.clip(raw) * (_INSIDE * 2.0**COORDINATE_BITS))
        psi, curvature, across = self._residuals(score, np.asarray(y))
        valid = finite & self._inside(z, COORDINATE_BITS) & self._inside(psi, RESIDUAL_BITS)
        psi, curvature, across = psi * valid[:, None], curvature * valid, across * valid
        shift = 2.0 ** (ENTRY_BITS + further_bits - RESIDUAL_BITS - COORDINATE_BITS)
        gradient = np.trunc(psi[:, :, None] * z[:, None, :] * shift).reshape(len(z), self.gradient_length)
        i, j = self.pairs
        weights = np.where(i == j, curvature[:, None], across[:, None])
        second = np.trunc(weights * (z[:, i] * z[:, j]) * (shift * 2.0**-COORDINATE_BITS))
        return np.concatenate([gradient, second], axis=1).astype(np.int64)

    def _residuals(self, score: Array, y: NDArray[Any]) -> tuple[Array, Array, Array]:
        """Return psi (n, K'), k (n,) and k off the diagonal (n,), integers in units of 2^-16."""
        if self.label is not None:
            return self._huber_residuals(self.label, score[:, 0], y)
        if self.classes == 2:
            place = _places(np.abs(score[:, 0]), TABLES.above)
            negative = np.equal(y, 0)
            above = (score[:, 0] >= 0) == negative  # whether |psi| = sigmoid(|t|)
            psi = np.where(above, TABLES.above[place], TABLES.below[place]) * np.where(negative, 1.0, -1.0)
            curvature, across = TABLES.curvature[place], TABLES.across[place]
            return psi[:, None], curvature, across if self.norm == "l2" else 2 * curvature
        return self._softmax_residuals(score, y)

    def _softmax_residuals(self, score: Array, y: NDArray[Any]) -> tuple[Array, Array, Array]:
        """Return what `_residuals` returns, for more than two classes."""
        one, basis = 1 << RESIDUAL_BITS, contrast_basis(self.classes)
        scores = in_coordinates(np.clip(score, -_FINITE, _FINITE), basis)
        chances = SOFTMAX.odds[_places(scores.max(axis=1, keepdims=True) - scores, SOFTMAX.odds)]
        total: Array = sum(chances.T, np.zeros(len(y)))
        odds = total - 1  # against the most probable class
        likely = SOFTMAX.curvature[np.searchsorted(-SOFTMAX.odds, -odds)]
        curvature = np.where(odds > 1, np.trunc(4 * one * odds / (total * total)), likely)
        chances /= total[:, None]
        chances[range(len(y)), y] -= 1
        psi = np.trunc(in_coordinates(chances, basis.T) * (_INSIDE * one / self.largest_residual))
        return psi, curvature, self._off_diagonal(curvature)

    def _off_diagonal(self, curvature: Array) -> Array:
        """Return k off the diagonal, integers rounded down, for integers k up to 2^16."""
        off: Array = np.floor(np.sqrt(2 * curvature * curvature)) if self.norm == "l2" else 2 * curvature
        return off

    def _huber_residuals(self, label: NumericLabel, score: Array, y: Array) -> tuple[Array, Array, Array]:
        """Return what `_residuals` returns, for numeric labels (n,) and scores (n,) relative to the middle."""
        one = 1 << RESIDUAL_BITS
        with np.errstate(all="ignore"):
            ratio = (label.clip(score) - y) / label.threshold
            weights = np.trunc(np.minimum(1.0, 1.0 / np.abs(ratio)) * one)
        psi = np.trunc(np.clip(ratio, -1.0, 1.0) * one)
        weights = np.maximum(weights, LEAST_WEIGHT)
        return psi[:, None], weights, self._off_diagonal(weights)

    def _inside(self, values: Array, bits: int) -> NDArray[np.bool_]:
        """Return which rows of integers (n, m) have norm at most 2^bits; exact."""
        if self.norm == "l1":
            norms = np.abs(values).sum(axis=1) <= 2.0**bits
        else:
            norms = (values * values).sum(axis=1) <= 4.0**bits
        inside: NDArray[np.bool_] = norms
        return inside

    def row_sum(self, X: Array, y: NDArray[Any], further_bits: int) -> NDArray[np.int64]:
        total: NDArray[np.int64] = self.row_vectors(X, y, further_bits).sum(axis=0)
        return total

    def bounded(self, total: NDArray[np.int64], rows: int) -> list[int]:
        """See `RowSumGrid.bounded`; with a ball, the average of the rows' vectors less the centre, in the ball."""
        return super().bounded(total, rows) if self.ball is None else self._inside_ball(self.ball, total, rows)

    def _inside_ball(self, ball: PartyBall, total: NDArray[np.int64], rows: int) -> list[int]:
        """Return a sum of `rows` vectors, (length,), as a vector of the ball; zeros, its centre, without rows."""
        if not rows:
            return [0] * self.length
        moved = divided(total, rows) - ball.centre
        size = float(np.abs(moved).sum()) if self.norm == "l1" else math.sqrt(float((moved.astype(float) ** 2).sum()))
        if size > ball.radius * _INSIDE:
            moved = np.trunc(moved * (ball.radius / size * _INSIDE)).astype(np.int64)
        entries = [int(entry) for entry in moved]
        if self.norm == "l1":
            inside = sum(map(abs, entries)) <= ball.radius
        else:
            inside = sum(entry * entry for entry in entries) <= ball.radius**2
        return entries if inside else [0] * self.length

    @cached_property
    def digest(self) -> bytes:
        bits = (COORDINATE_BITS, RESIDUAL_BITS, ENTRY_BITS, TOTAL_BITS, SCORE_STEPS, LARGEST_SCORE)
        label = () if self.label is None else (*map(float.hex, astuple(self.label)), LEAST_WEIGHT)
        loss = ("softmax",) if self.classes > 2 else ()
        ball = () if self.ball is None else (self.ball.radius, *self.ball.centre.tolist())
        terms = (self.transform.shape, self.classes, self.norm, self.constant.hex(), bits, *loss, *label, *ball)
        return digest_of("record grid", terms, self.transform, self.offset, *TABLES)

    def __repr__(self) -> str:
        labels = "a numeric label" if self.label is not None else f"{self.classes} classes"
        return f"<RecordGrid of {len(self.transform)} features, {labels}>"


def _places(sizes: Array, table: Array) -> NDArray[np.int64]:
    """Return the places of scores' sizes in a table."""
    places = np.minimum(np.minimum(sizes, LARGEST_SCORE) * SCORE_STEPS + 0.5, len(table) - 1)
    return places.astype(np.int64)


def _clipped(values: Array, limit: float, norm: Norm) -> Array:
    """Return rows (n, m) divided by max(1, norm/limit), each computed in the same order of operations."""
    sizes = (np.abs(column) if norm == "l1" else column * column for column in values.T)
    lengths = sum(sizes, np.zeros(len(values)))
    lengths = lengths if norm == "l1" else np.sqrt(lengths)
    clipped: Array = values / np.maximum(lengths / limit, 1.0)[:, None]
    return clipped
