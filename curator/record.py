"""The record step: one private Newton step from a public score, private for each record, or for each party.

The parties sum the gradient g of the loss at a public score t and a bound H of its second derivative, with noise that
they add in shares (`psephos.protocol.grids.record`). The released score is t(x) - z.delta(g, H). docs/theory.md, "The
record step", has the proofs.

* r is (0.06 q)^(2/3) for Gaussian noise with q the rows divided by the noise's standard deviation, in units of one
  row's largest vector; min(sqrt(0.05 q), max(0.1 N, (0.1 q)^0.4)) for Laplace noise with q the rows divided by its
  scale. At least 5, at most 0.4 N.
* The noisy H and the public second moment are averaged with the inverse of their variances as weights. delta
  minimises |(H delta - g)/sigma|^2 + delta' L delta, L half of what labelled public rows knew, otherwise what g's
  energy suggests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from psephos.curator.checks import check_count, folds_of, noise_inflation, public_features
from psephos.curator.hamm.sensitivity import Sensitivity
from psephos.curator.noise_plan import UNITS, JointNoise, NoisePlan, Unit, check_mechanism
from psephos.curator.rehearsal import fit_public
from psephos.curator.remembered import remembered
from psephos.curator.statistic import MechanismName, whitened_axes
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.fixed_point import Norm
from psephos.protocol.grids.own_data import contrast_basis
from psephos.protocol.grids.record import (
    ENTRY_BITS,
    LEAST_WEIGHT,
    RESIDUAL_BITS,
    SOFTMAX,
    TABLES,
    NumericLabel,
    PartyBall,
    RecordGrid,
)
from psephos.protocol.privacy.mechanisms import check_epsilon, gaussian_sigma
from psephos.protocol.privacy.precision import rounded_up

Array = NDArray[np.float64]

ROWS_PER_PARTY = 1000
"""Announced rows of a party where nobody says otherwise."""

ASSUMED_ROWS = 5
"""Most rows of all parties for each public row that a forecast assumes where no number is announced."""

_CELL = 16  # table entries in a cell of the search for the largest distance of two rows' vectors
_INSIDE = 0.9  # share of the public rows that lie in the unit ball of the coordinates
_LEAST_SPREAD = 0.3  # least standard deviation by which a feature is divided, as a share of the median one
_RANKS = (5, 10, 20, 40, 80)  # numbers of coordinates among which cross-validation chooses those of the public score
_RIDGES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)  # in units of the public rows' mean squared coordinate
_ROWS_PER_COORDINATE = 2.5  # public rows required for each coordinate
_FEWEST = 5  # fewest coordinates that are released, where the public rows suffice

FEWEST_NUMBERS = 10
"""Fewest public rows with a numeric label."""

_THRESHOLD = 3.0  # Huber's threshold as a multiple of the upper quartile of the sizes of the public score's residuals
_NORMAL_QUARTILE = 1.150349380376008  # upper quartile of the size of a standard normal variable
_DEVIATIONS = 3.0  # radius of a party's ball, in standard deviations of the distance of two averages of one law
_KNOWN = 0.5  # share of the labelled public rows' information that the fit keeps as its prior


def record_sensitivity(grid: RecordGrid) -> tuple[Sensitivity, Sensitivity]:
    """Certify the (L1, L2) sensitivity of the summed integers, in units of 2^-20 (docs/theory.md, "The record step").

    The certified norm is that of the grid; the other one follows from it over the `grid.length` entries. A replaced
    row moves the sum further than one that is added or removed. Where a party is protected, its vectors lie in a ball.
    """
    protected, source, up = "record", "distance of two rows' gradient and second derivative", 1 + 2.0**-40
    s, k = _residual_bounds(grid)
    unit = 2.0**ENTRY_BITS
    if grid.ball is not None:
        protected, source = "party", "diameter of the ball of a party's average vector"
        l1 = l2 = 2.0 * grid.ball.radius
    elif grid.norm == "l1":
        l1 = l2 = 2 * unit * float((s + k).max())
    else:
        longest = unit * math.sqrt(float((s * s + k * k).max())) * up
        truncation = 2 * math.sqrt(grid.length) + 2.0 ** (ENTRY_BITS - RESIDUAL_BITS + 1)
        l2 = min(2 * longest, unit * math.sqrt(_largest_distance(s, k)) * up + truncation)
    if grid.norm == "l2":
        l1 = l2 * math.sqrt(grid.length) * up
    return (
        Sensitivity(rounded_up(l1), norm="l1", unit=protected, source=source),
        Sensitivity(rounded_up(l2), unit=protected, source=source),
    )


def _residual_bounds(grid: RecordGrid) -> tuple[Array, Array]:
    """Return pairs s, k >= 0 (L,), in units of 1, whose largest values of each bound are those of all rows."""
    one = 1 << RESIDUAL_BITS
    if grid.label is not None:
        weights = np.repeat([float(one), float(LEAST_WEIGHT)], _CELL) / one
        return np.ones(2 * _CELL), weights
    if grid.classes == 2:
        return TABLES.above / one, TABLES.curvature / one  # exact
    odds, k = SOFTMAX
    s = np.sqrt(1 - odds / (1 + odds) ** 2) if grid.norm == "l2" else np.ones(len(odds))
    return s, k / one


def _largest_distance(s: Array, k: Array) -> float:
    """Bound the squared L2 distance of two rows' vectors, where s (L,) does not fall and k (L,) does not rise."""
    starts = np.arange(0, len(s), _CELL)
    ends = np.minimum(starts + _CELL, len(s)) - 1
    largest, most, least = s[ends], k[starts], k[ends]
    both, falls = np.outer(largest, largest), np.outer(least, least)
    a = np.minimum(1.0, both / (2 * falls))
    own = largest**2 + most**2
    return float((own[:, None] + own[None, :] + 2 * both * a - 2 * falls * a * a).max())


@dataclass(frozen=True, eq=False, kw_only=True)
class RecordPlan(NoisePlan):
    """The public parameters of one record step.

    Attributes, besides those of `NoisePlan`:
        rows: the announced number of rows of all parties together; it chooses r, or the radius of a party's ball, and
            nothing that privacy depends on.
        labelled: number of labelled public rows that the public score was fitted to; 0 without a score.
        public: float64 (r + 1, r + 1), the public rows' mean second derivative in units of the largest one.
        spread: mean variance of an entry of one public row's second derivative.
        samples: N, number of public rows.
    """

    grid: RecordGrid
    rows: int
    labelled: int
    public: Array = field(repr=False)
    spread: float
    samples: int
    mechanism: JointNoise | None

    event_name: ClassVar[str] = "record step"

    @property
    def unit(self) -> Unit:
        """What is protected."""
        return "record" if self.grid.ball is None else "party"

    @property
    def rank(self) -> int:
        """Number of coordinates, without the constant."""
        return self.grid.coordinates - 1

    @property
    def sensitivity(self) -> Sensitivity:
        """Sensitivity of the sum in the mechanism's norm, in units of the largest gradient of a row."""
        return replace(self.bound, value=self.bound.value / 2.0**ENTRY_BITS)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise in an entry of the sum, in units of the largest gradient; 0 without noise."""
        return math.sqrt(self.noise_variance) / 2.0**ENTRY_BITS


# -- planning


def plan_records(  # wide: every keyword is a public term of the release
    X: Array,
    labels: NDArray[Any] | None,
    classes: int,
    parties: int,
    *,
    rows: int,
    epsilon: float | None,
    delta: float = 1e-6,
    mechanism: MechanismName = "gaussian",
    contributors: int | None = None,
    grid: RecordGrid | None = None,
    labelled: int | None = None,
    log_odds: Array | None = None,
    unit: Unit = "record",
) -> RecordPlan:
    """Plan a record step from public quantities; raises InvalidParameter for too coarse a rounding.

    Args:
        X: float64 (N, d), the scaled public rows; the last feature is the constant of the scaling.
        labels: class numbers (N,), -1 where a public row has no label; None if none has one. Of a numeric label
            numbers (N,), NaN where there is none.
        classes: K; 1 for a numeric label.
        parties: M.
        rows: the announced number of rows of all parties together.
        epsilon, delta: privacy parameters; None plans a release without noise; delta is for "gaussian" only.
        mechanism: "gaussian" (discrete Gaussian noise) or "discrete-laplace".
        contributors: number of parties whose shares make up the noise; by default all.
        grid, labelled: agreed coordinates and score in place of computed ones, which say what is protected too, and the
            number of labelled rows.
        log_odds: what a forest of the public rows says, see `contrasts_of`; None where there is none.
        unit: what is protected; a party only where the label is a number.
    """
    check_mechanism(mechanism, joint=True)
    check_count(classes, "the number of classes", 1)
    check_count(parties, "the number of parties")
    check_count(rows, "the announced number of rows")
    if unit not in UNITS or (unit == "party" and classes != 1):
        raise InvalidParameter(f"a record step protects a record or, of a numeric label, a party; not {unit!r}")
    norm: Norm = "l1" if mechanism == "discrete-laplace" else "l2"
    inflation = noise_inflation(parties, contributors)
    features = _features(X)
    if grid is None:
        largest = most_coordinates(features)
        rank = largest
        if epsilon is not None:
            added = rows if unit == "record" else parties
            rank = choose_rank(added, len(features), epsilon, delta, mechanism, inflation)
        transform, constant = _coordinates(features, min(max(rank, _FEWEST), largest), norm)
        offset, labelled, label = _public_model(features, labels, classes, log_odds)
        grid = RecordGrid(transform, constant, offset, classes, norm, label)
        if unit == "party":
            radius = _ball_radius(grid, X, np.asarray(labels, dtype=np.float64), rows / parties)
            grid = replace(grid, ball=party_ball(grid, X, radius))
    elif grid.norm != norm or grid.classes != classes:
        raise InvalidParameter(f"the agreed grid is for {grid.classes} classes and {grid.norm}, not for this release")
    public, spread = _public_moment(grid, X)
    known = {"rows": rows, "labelled": labelled or 0, "public": public, "spread": spread, "samples": len(features)}
    plan = RecordPlan.of(grid, norm, record_sensitivity(grid), parties, epsilon, delta, contributors, **known)
    if plan.mechanism is not None and plan.deviation * 2.0**ENTRY_BITS < 2.0**10:
        raise InvalidParameter(f"noise for epsilon {epsilon} is too small beside rounding; choose a smaller epsilon")
    return plan


def party_ball(grid: RecordGrid, X: Array, radius: float) -> PartyBall:
    """Return the ball, of `radius` in units of a row's largest gradient, around 0 and the public second derivative."""
    vectors = replace(grid, ball=None).row_vectors(X, grid.public_predictions(X))
    centre = vectors.sum(axis=0)
    centre = np.sign(centre) * (np.abs(centre) // len(vectors))
    centre[: grid.gradient_length] = 0
    if not 0 < radius <= 4:
        raise InvalidParameter(f"the radius of a party's ball is above 0, and 4 at most, not {radius}")
    return PartyBall(centre, int(radius * 2.0**ENTRY_BITS))


def _ball_radius(grid: RecordGrid, X: Array, labels: Array, rows: float) -> float:
    """Return the radius of a party's ball, in units of the largest gradient of a row, from labelled public rows."""
    known = np.isfinite(labels)
    vectors = grid.row_vectors(X[known], labels[known]) / 2.0**ENTRY_BITS
    deviations = vectors - vectors.mean(axis=0)
    if grid.norm == "l1":
        spread = float(np.sqrt((deviations**2).mean(axis=0)).sum())
    else:
        spread = math.sqrt(float((deviations**2).sum(axis=1).mean()))
    radius = _DEVIATIONS * spread * math.sqrt(1 / len(vectors) + 1 / max(rows, 1.0))
    return min(max(radius, 2.0**-8), 4.0)


def _features(X: Array) -> Array:
    """Return public rows divided by their constant, without it, (N, d - 1)."""
    features = public_features(X)
    if np.all(features[0] == features):
        raise DataError("all public rows are the same, so they give no coordinates; collect others")
    return features


def most_coordinates(features: Array) -> int:
    """Return the largest number of coordinates that public rows (N, d) can give."""
    return max(1, min(int(len(features) / _ROWS_PER_COORDINATE), int(features.shape[1])))


def choose_rank(  # the release's public terms
    rows: int,
    samples: int,
    epsilon: float,
    delta: float,
    mechanism: MechanismName,
    inflation: float,
) -> int:
    """Choose the number of coordinates by the module's rule, before the limits that the public rows set."""
    if mechanism == "gaussian":
        return int(math.pow(0.06 * rows / (gaussian_sigma(1.0, epsilon, delta) * math.sqrt(inflation)), 2 / 3))
    q = rows * check_epsilon(epsilon) / math.sqrt(inflation)
    return int(min(math.sqrt(0.05 * q), max(0.1 * samples, math.pow(0.1 * q, 0.4))))


def _coordinates(features: Array, rank: int, norm: Norm) -> tuple[Array, float]:
    """Return the transform (d + 1, r), its last row for the constant feature, and the constant coordinate."""
    mean, spread = features.mean(axis=0), features.std(axis=0)
    spread = np.maximum(spread, _LEAST_SPREAD * float(np.median(spread[spread > 0])))
    axes = whitened_axes((features - mean) / spread)[:, :rank] / spread[:, None]
    white = features @ axes - mean @ axes
    norms = np.abs(white).sum(axis=1) if norm == "l1" else np.linalg.norm(white, axis=1)
    radius = max(float(np.quantile(norms, _INSIDE)), 1e-9)
    return np.vstack([axes, -(mean @ axes)]) / radius, 1 / radius


def _public_model(
    features: Array, labels: NDArray[Any] | None, classes: int, log_odds: Array | None
) -> tuple[Array, int, NumericLabel | None]:
    """Return the public score, (d + 1, K'), how many labels it was fitted to, and how a numeric label is predicted."""
    if classes == 1:
        numbers = np.full(len(features), np.nan) if labels is None else np.asarray(labels, dtype=np.float64)
        chosen = np.isfinite(numbers)
        offset, label = _numeric_score(features[chosen], numbers[chosen])
        return offset, int(chosen.sum()), label
    known = np.full(len(features), -1) if labels is None else np.asarray(labels, dtype=np.int64)
    if len(np.unique(known[known >= 0])) < 2:
        return np.zeros((features.shape[1] + 1, classes - 1)), 0, None
    offset = fit_public(features, known, classes, log_odds).offset
    return offset * (math.sqrt(2) if classes == 2 else 1.0), int((known >= 0).sum()), None  # a log odds of two classes


def _numeric_score(features: Array, labels: Array) -> tuple[Array, NumericLabel]:
    """Fit the public score (d + 1, 1) to labelled public rows (N, d); choose the bounds and Huber's threshold."""
    if len(labels) < FEWEST_NUMBERS or labels.min() == labels.max():
        raise DataError(
            f"{len(labels)} public rows have numeric labels: the score needs {FEWEST_NUMBERS} with different ones"
        )
    low, high, mean = float(labels.min()), float(labels.max()), float(labels.mean())
    offset, scores = numeric_score(features, labels - mean)
    residuals = np.clip(scores[:, 0] + mean, low, high) - labels
    threshold = _THRESHOLD * float(np.quantile(np.abs(residuals), 0.75))
    label = NumericLabel(low, high, max(threshold, 1e-3 * (high - low)))
    offset = np.vstack([offset[:-1], offset[-1:] + (mean - label.middle)])
    return offset, label


@remembered
def numeric_score(features: Array, y: Array) -> tuple[Array, Array]:
    """Fit a score (d + 1, 1) of numbers y (N,) to public rows (N, d), rank and ridge by cross-validation, whose scores
    (N, 1) of held-out rows are returned, too.
    """
    tried = []
    for rank in sorted({min(rank, most_coordinates(features)) for rank in _RANKS}):
        transform, constant = _coordinates(features, rank, "l2")
        grid = RecordGrid(transform, constant, np.zeros((len(transform), 1)), 2)
        Z = grid.clip(np.column_stack([features, np.ones(len(features))]) @ transform)
        moment = float((Z**2).sum(axis=1).mean()) / Z.shape[1]
        for ridge in _RIDGES:
            scores = np.empty((len(Z), 1))
            for out in folds_of(len(Z)):
                scores[out] = Z[out] @ _ridge_fit(Z[~out], y[~out], ridge * moment)
            tried.append((float(((scores - y[:, None]) ** 2).sum()), ridge * moment, scores, Z, _as_features(grid)))
    _, ridge, scores, Z, whole = min(tried, key=lambda entry: entry[0])
    return whole @ _ridge_fit(Z, y, ridge), scores


def _as_features(grid: RecordGrid) -> Array:
    """Return the coordinates with the constant as linear functions of a row, (d, r + 1), without clipping."""
    constant = np.zeros((len(grid.transform), 1))
    constant[-1] = grid.constant
    whole: Array = np.column_stack([grid.transform, constant]) / grid.radius
    return whole


def _ridge_fit(Z: Array, y: Array, ridge: float) -> Array:
    """Return ridge least-squares weights (r + 1, 1); `ridge` belongs to the sum of the losses."""
    return np.asarray(np.linalg.solve(Z.T @ Z + ridge * np.eye(Z.shape[1]), Z.T @ y[:, None]), dtype=np.float64)


def _public_moment(grid: RecordGrid, X: Array) -> tuple[Array, float]:
    """Return the public rows' mean of k z z', shrunk, and the mean variance of an entry of one row's."""
    from sklearn.covariance import ledoit_wolf_shrinkage

    raw, score = grid.locate(X)
    G: Array = grid.clip(raw) * np.sqrt(_curvatures(grid.classes, score))[:, None]
    moment, width = G.T @ G / len(G), G.shape[1]
    share = float(ledoit_wolf_shrinkage(G, assume_centered=True))
    variance = (float(np.mean((G**2).sum(axis=1) ** 2)) - float((moment**2).sum())) / width**2
    shrunk: Array = (1 - share) * moment + share * float(np.trace(moment)) / width * np.eye(width)
    return shrunk, max(variance, 1e-30)


def _curvatures(classes: int, scores: Array) -> Array:
    """Return the curvature k (n,) of rows with scores (n, K')."""
    if classes == 1:
        return np.ones(len(scores))
    if classes == 2:
        t = np.maximum(np.abs(scores[:, 0]), 1e-4)
        return np.asarray(2 * np.tanh(t / 2) / t, dtype=np.float64)
    every = np.sort(scores @ contrast_basis(classes), axis=1)
    odds = np.exp(every[:, :-1] - every[:, -1:]).sum(axis=1)  # against the most probable class
    t = np.maximum(-np.log(np.maximum(odds, 2.0**-RESIDUAL_BITS)), 1e-4)
    return np.asarray(np.maximum(4 * odds / (1 + odds) ** 2, np.where(odds > 1, 0.0, np.tanh(t / 2) / t)))


# -- the fit


def fit_records(plan: RecordPlan, total: Sequence[int]) -> Array:
    """Return the linear model of a record step on scaled rows: float64 (d,), (K, d) for K > 2 classes.

    `total` is a sum over `plan.parties` that already carries its noise, or is meant to have none. Post-processing: the
    model depends on it and on public quantities only.
    """
    grid, (gradients, second) = plan.grid, _decoded(plan, total)
    # The second derivative is a fourth of what was summed for two classes, and a half for more, where the residual was
    # divided by its largest norm.
    scale = {1: 1.0, 2: 4.0}.get(grid.classes, 2.0) * grid.largest_residual
    steps = np.column_stack([_step(plan, gradient, second) for gradient in gradients]) * scale
    scores: Array = grid.offset - _as_features(grid) @ steps
    return scores[:, 0] if grid.classes <= 2 else contrast_basis(grid.classes).T @ scores.T


def _decoded(plan: RecordPlan, total: Sequence[int]) -> tuple[Array, Array]:
    """Return the noisy gradient (K', r + 1), and the noisy symmetric second derivative (r + 1, r + 1).

    They are in units of the largest gradient and the largest second derivative of a row.
    """
    grid, sums = plan.grid, plan.values(total)
    if grid.ball is not None:
        sums = plan.values([entry + plan.parties * int(c) for entry, c in zip(total, grid.ball.centre, strict=True)])
    values = sums / 2.0**ENTRY_BITS
    i, j = grid.pairs
    second = np.zeros((grid.coordinates, grid.coordinates))
    second[i, j] = values[grid.gradient_length :] / np.where(i == j, 1.0, _off_diagonal(grid))
    second[j, i] = second[i, j]
    return values[: grid.gradient_length].reshape(grid.contrasts, grid.coordinates), second


def _off_diagonal(grid: RecordGrid) -> float:
    """Return the factor of the entries off the diagonal."""
    return math.sqrt(2) if grid.norm == "l2" else 2.0


def _step(plan: RecordPlan, gradient: Array, second: Array) -> Array:
    """Return the step delta (r + 1,) for one gradient, in units in which the largest second derivative is 1."""
    width, noise = len(gradient), plan.deviation
    off = noise / _off_diagonal(plan.grid)
    rows = _estimated_rows(plan, second)
    between = rows * rows * plan.spread / plan.samples
    share = between / (between + off**2)
    mixed = share * second + (1 - share) * rows * plan.public
    value, vector = np.linalg.eigh(mixed)
    floor = max(share * off * math.sqrt(width), 1e-3 * rows * float(np.trace(plan.public)) / width)
    value = np.maximum(value, floor)
    c = vector.T @ gradient
    if noise == 0:
        return np.asarray(vector @ (c / value))
    if plan.labelled:
        known = _KNOWN * plan.labelled * _information(plan.grid) * (vector.T @ plan.public @ vector)
        return np.asarray(vector @ np.linalg.solve(np.diag(value**2 / noise**2) + known, value * c / noise**2))
    energy = float(gradient @ gradient)
    signal = max(energy - width * noise**2, 0.05 * energy) / float((value**2).sum())
    return np.asarray(vector @ (value / (value**2 + noise**2 / max(signal, 1e-300)) * c))


def _information(grid: RecordGrid) -> float:
    """Return what one labelled row tells about the step, in units of its second derivative."""
    if grid.classes == 1:
        return (_THRESHOLD * _NORMAL_QUARTILE) ** 2
    return 4.0 if grid.classes == 2 else 2 * grid.largest_residual**2


def _estimated_rows(plan: RecordPlan, second: Array) -> float:
    """Return the number of rows with which the public second derivative fits the noisy one best."""
    public, rows = plan.public, plan.rows
    if plan.unit == "party":
        return float(plan.parties)
    fitted = float((second * public).sum() / (public**2).sum())
    return min(max(fitted, rows / 4), 4.0 * rows)
