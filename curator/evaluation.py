"""Private evaluation of a public classifier, from a noisy histogram, and of a prediction of a number, from noisy sums.

Everything here is a function of the noisy sum and of public values (docs/theory.md, "Private evaluation"). The blocks
of the vector count the same rows, so the counts are reconciled by weighted least squares, whose covariance gives the
standard errors. Errors of a prediction are those of `psephos.curator.error_estimates`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from psephos.curator.checks import check_count
from psephos.curator.error_estimates import CERTAIN, ErrorEstimate, Estimate, estimate_errors, share_estimate, shown
from psephos.curator.hamm.sensitivity import Sensitivity
from psephos.curator.noise_plan import UNITS, NoisePlan, Unit
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.error_evaluation import ERROR_ROW, ErrorGrid
from psephos.protocol.grids.evaluation import ROW, SHARE_BITS, ScoreGrid, ShareGrid
from psephos.protocol.privacy.mechanisms import DiscreteLaplace

Array = NDArray[np.float64]
BINS = 10
"""Bins of the score where nobody says otherwise."""

MOST_BINS = 100
"""Most bins of a histogram."""

CALIBRATED_FROM = 300.0
"""Estimated rows times the epsilon that the noise stands for, from which Platt scaling is fitted."""

_PRIOR = 1e-2  # curvature of the prior of Platt's slope and intercept around (1, 0), which keeps the fit finite
_STEPS = 100  # most Newton steps of Platt scaling
_NEAR = 1e-2  # largest step, in units in which scores are at most 1, from which Newton's method is not damped


@dataclass(frozen=True)
class PlattScaling:
    """Platt scaling: sigmoid(slope * score + intercept), and the calibration errors before and after it."""

    slope: float
    intercept: float
    before: float
    after: float


@dataclass(frozen=True)
class ReliabilityBin:
    """One row of the reliability table.

    Attributes:
        low, high: the scores of the bin; null at the ends.
        rows: rows in the bin.
        probability: mean probability of class 1, or of a right prediction for more than two classes, by the scores of
            the public rows in the bin.
        share: share of the rows for which it is so.
    """

    low: float | None
    high: float | None
    rows: Estimate
    probability: float
    share: Estimate


@dataclass(frozen=True)
class EvaluationEstimate:
    """What a noisy sum says about the classifier, or the prediction; null or empty where it says nothing.

    Attributes:
        accuracy: share of rows that are classified correctly; the mean of the parties' where a party is protected.
        rows: how many rows were evaluated.
        auroc: area under the ROC curve, for two classes.
        calibration_error: mean difference between probabilities and shares of the reliability table.
        confusion: rows by class and predicted class, (K, K).
        reliability: the reliability table.
        calibration: Platt scaling.
        errors: of a predicted number.
    """

    accuracy: Estimate | None
    rows: Estimate | None = None
    auroc: Estimate | None = None
    calibration_error: Estimate | None = None
    confusion: list[list[Estimate]] = field(default_factory=list)
    reliability: list[ReliabilityBin] = field(default_factory=list)
    calibration: PlattScaling | None = None
    errors: ErrorEstimate | None = None


@dataclass(frozen=True, eq=False)
class PublicScores:
    """What the scores of public rows say about each bin: the mean score (or the middle of an empty bin) and the mean
    probability, float64 (B,), and the ascending scores in it.
    """

    centres: Array
    scores: tuple[Array, ...]
    probabilities: Array


@dataclass(frozen=True, eq=False, kw_only=True)
class EvaluationPlan(NoisePlan):
    """The public parameters of one evaluation; `public` has the scores of public rows, or None for a number."""

    grid: ScoreGrid | ErrorGrid | ShareGrid
    public: PublicScores | None = field(repr=False)
    epsilon: float
    mechanism: DiscreteLaplace

    event_name: ClassVar[str] = "evaluation"

    @property
    def unit(self) -> Unit:
        """What epsilon protects."""
        return "party" if isinstance(self.grid, ShareGrid) else "record"

    @property
    def scores(self) -> ScoreGrid:
        """The classifier and the bins of its scores. Raises InvalidParameter where a number is predicted."""
        grid = self.grid.scores if isinstance(self.grid, ShareGrid) else self.grid
        if not isinstance(grid, ScoreGrid):
            raise InvalidParameter("this evaluation is of a prediction of a number, which has no scores of classes")
        return grid

    @property
    def predictions(self) -> ErrorGrid | None:
        """The prediction of a number and the bounds of its errors; None for a classifier."""
        grid = self.grid.scores if isinstance(self.grid, ShareGrid) else self.grid
        return grid if isinstance(grid, ErrorGrid) else None

    @property
    def sensitivity(self) -> Sensitivity:
        """L1 sensitivity of the sum; in rows for a record, in shares for a party."""
        return replace(self.l1, value=self.l1.value / self.grid.largest_norm)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise in an entry of the sum, in lattice units."""
        # The variance of discrete Laplace noise of scale s is 1/(2 sinh^2(1/(2 s))).
        return math.sqrt(self.inflation / 2) / math.sinh(1 / (2 * float(self.mechanism.scale_units)))


def evaluation_sensitivity(grid: ScoreGrid | ErrorGrid | ShareGrid) -> Sensitivity:
    """Return the L1 sensitivity of the summed integers (docs/theory.md, "Private evaluation")."""
    if isinstance(grid, ShareGrid):
        return Sensitivity(grid.maximum, norm="l1", unit="party", source="a share lies between 0 and 1")
    if isinstance(grid, ErrorGrid):
        source = "a row's count, its bounded errors and its bounded label"
        return Sensitivity(ERROR_ROW, norm="l1", unit="record", source=source)
    source = "a row is counted once in each block"
    return Sensitivity(2 * ROW, norm="l1", unit="record", source=source)


# -- planning


def plan_evaluation(
    X: Array, weights: Array, classes: int, parties: int, *, bins: int = BINS, **terms: Any
) -> EvaluationPlan:
    """Plan an evaluation of a classifier from public quantities; raises DataError if they give no bins.

    Args:
        X: float64 (N, d), public rows, whose scores determine the bins; the last feature is a positive constant.
        weights: of the classifier, as in `ScoreGrid`.
        classes: K.
        parties: M.
        bins: of the score, at least 2.
        terms: keywords of `evaluation_plan`.
    """
    if check_count(bins, "the number of bins", 2) > MOST_BINS:
        raise InvalidParameter(f"a histogram has 2 to {MOST_BINS} bins, not {bins}")
    provisional = ScoreGrid(weights, np.zeros(1), classes)
    if X.ndim != 2 or X.shape[1] != len(provisional.weights):
        raise DataError(f"public rows of shape {X.shape} do not fit {len(provisional.weights)} features")
    scores = provisional.scores(X)
    scores = scores[np.isfinite(scores).all(axis=1)]
    if not len(scores):
        raise DataError("no public row has a finite score, so they give no bins; take other public rows")
    decisive = _decisive(scores)
    scoring = ScoreGrid(weights, _edges(decisive, bins, classes), classes)
    public = _public_scores(scoring, scores)
    return evaluation_plan(scoring, parties, public=public, **terms)


def largest_error(low: float, high: float) -> float:
    """Return the default of the largest error that counts: a larger one needs a prediction at the other end."""
    return 0.75 * (high - low)


def evaluation_plan(
    evaluated: ScoreGrid | ErrorGrid,
    parties: int,
    *,
    epsilon: float,
    unit: Unit = "record",
    contributors: int | None = None,
    public: PublicScores | None = None,
) -> EvaluationPlan:
    """Plan the evaluation of a prediction of a number, or of a classifier with the scores of `public` rows.

    `epsilon` protects the `unit`; `contributors`: as in `NoisePlan.of`.
    """
    if unit not in UNITS:
        raise InvalidParameter(f"the unit is {' or '.join(UNITS)}, not {unit!r}")
    grid = evaluated if unit == "record" else ShareGrid(evaluated)
    l1 = evaluation_sensitivity(grid)
    bounds = l1, replace(l1, norm="l2")  # no vector is longer in L2 than in L1
    return EvaluationPlan.of(grid, "l1", bounds, parties, epsilon, 0.0, contributors, public=public)


def _decisive(scores: Array) -> Array:
    """Return the score that is binned, (n,): that of two classes, or the margin of the largest of more."""
    if scores.shape[1] == 1:
        return scores[:, 0]
    ordered = np.sort(scores, axis=1)
    margins: Array = ordered[:, -1] - ordered[:, -2]
    return margins


def _edges(decisive: Array, bins: int, classes: int) -> Array:
    """Return quantiles of public scores; for two classes the one nearest to 0 is replaced by 0."""
    edges = np.quantile(decisive, np.arange(1, bins) / bins)
    if classes == 2:
        edges[np.argmin(np.abs(edges))] = 0.0
    return np.unique(edges)


def _public_scores(grid: ScoreGrid, scores: Array) -> PublicScores:
    """Summarise the finite scores (n, K') of public rows in each bin."""
    decisive, (_, bins) = _decisive(scores), grid.place(scores)
    if scores.shape[1] == 1:
        probability = _sigmoid(decisive)
    else:
        shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
        probability = 1 / shifted.sum(axis=1)
    ends = np.concatenate([[min(decisive.min(), grid.edges[0])], grid.edges, [max(decisive.max(), grid.edges[-1])]])
    by_bin = tuple(np.sort(decisive[bins == number]) for number in range(grid.bins))
    centres = (ends[:-1] + ends[1:]) / 2
    probabilities = _sigmoid(centres)
    for number, own in enumerate(by_bin):
        if len(own):
            centres[number], probabilities[number] = own.mean(), probability[bins == number].mean()
    return PublicScores(centres, by_bin, probabilities)


def _sigmoid(t: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-np.clip(t, -700, 700))))


# -- estimates


def estimate_evaluation(plan: EvaluationPlan, total: list[int], ballots: int) -> EvaluationEstimate:
    """Estimate everything that a noisy sum over `ballots` parties says about the classifier, or the prediction."""
    values = plan.values(total)
    scale = ballots * 2.0**SHARE_BITS
    shared = share_estimate(values[0] / scale, plan.deviation / scale) if plan.unit == "party" else None
    if plan.predictions is not None:
        rows, errors = estimate_errors(plan.predictions.label, plan.deviation, values, shared)
        return EvaluationEstimate(None, rows, errors=errors)
    if shared is not None:
        return EvaluationEstimate(shared)
    counts = _Counts(plan, values)
    sure = counts.rows >= CERTAIN * counts.error(counts.all_rows)
    calibration = _calibration(counts) if sure and plan.scores.classes == 2 else None
    return EvaluationEstimate(
        accuracy=counts.ratio(counts.right, counts.all_rows),
        rows=Estimate(max(counts.rows, 0.0), counts.error(counts.all_rows)),
        auroc=_auroc(counts, calibration) if plan.scores.classes == 2 else None,
        calibration_error=_calibration_error(counts) if sure else Estimate(None, None),
        confusion=[[counts.count(counts.confusion(y, p)) for p in counts.classes] for y in counts.classes],
        reliability=_reliability(counts),
        calibration=calibration,
    )


class _Counts:
    """The reconciled counts, of which every estimate is a function, with their covariance."""

    def __init__(self, plan: EvaluationPlan, values: Array) -> None:
        grid = plan.scores
        assert plan.public is not None
        self.plan, self.public, self.grid, self.classes = plan, plan.public, grid, range(grid.classes)
        blocks = grid.blocks
        scale = np.empty(grid.length)
        for block, weight in zip(blocks, grid.block_weights, strict=True):
            scale[block] = max(weight, 1)
        raw, variance = values / scale, (plan.deviation / scale) ** 2
        constraints = self._constraints()
        gain = (variance * constraints).T @ np.linalg.inv(constraints * variance @ constraints.T)
        self.counts = raw - gain @ (constraints @ raw)
        self._covariance = np.diag(variance) - gain @ (constraints * variance)
        self.right = np.zeros(grid.length)
        self.right[blocks.outcome.start] = 1
        self.all_rows = np.zeros(grid.length)
        self.all_rows[blocks.outcome] = 1
        self.rows = float(self.all_rows @ self.counts)

    def _constraints(self) -> Array:
        """Return the sums that are 0, (2 or 4, length): of right and wrong in the outcome and in each other block."""
        grid, blocks = self.grid, self.grid.blocks
        right = np.zeros(grid.length, dtype=np.bool_)
        if grid.classes == 2:
            above = np.arange(grid.bins) > np.searchsorted(grid.edges, 0.0)
            right[blocks.histogram] = np.column_stack([~above, above]).ravel()
        else:
            right[blocks.histogram] = np.tile([False, True], grid.bins)
            right[blocks.confusion] = np.eye(grid.classes, dtype=np.bool_).ravel()
        lines = []
        for block in (blocks.histogram, blocks.confusion)[: 1 if grid.classes == 2 else 2]:
            inside = np.zeros(grid.length, dtype=np.bool_)
            inside[block] = True
            for place, chosen in enumerate((inside & right, inside & ~right)):
                line = -chosen.astype(np.float64)
                line[blocks.outcome.start + place] = 1
                lines.append(line)
        return np.array(lines)

    def column(self, place: int) -> Array:
        """Return the counts of one column of the histogram, (B,)."""
        column: Array = self.counts[self.grid.blocks.histogram][place::2]
        return column

    def column_places(self, place: int) -> NDArray[np.intp]:
        """Return the places of that column in the vector, (B,)."""
        places: NDArray[np.intp] = self.grid.blocks.histogram.start + place + 2 * np.arange(self.grid.bins)
        return places

    def confusion(self, label: int, predicted: int) -> Array:
        """Return the indicator, (length,), of rows of one class with one predicted class."""
        grid, chosen = self.grid, np.zeros(self.grid.length)
        if grid.classes == 2:
            above = np.arange(grid.bins) > np.searchsorted(grid.edges, 0.0)
            chosen[self.column_places(label)] = above == bool(predicted)
        else:
            chosen[grid.blocks.confusion.start + grid.classes * predicted + label] = 1
        return chosen

    def error(self, gradient: Array) -> float:
        """Return the standard error of a function of the counts with this gradient."""
        return math.sqrt(max(float(gradient @ self._covariance @ gradient), 0.0))

    def count(self, chosen: Array) -> Estimate:
        """Return an estimated number of rows, at least 0."""
        return Estimate(max(float(chosen @ self.counts), 0.0), self.error(chosen))

    def ratio(self, part: Array, whole: Array) -> Estimate:
        """Return the share of the rows `whole` that are `part`; no value where `whole` is not above its error."""
        below = float(whole @ self.counts)
        if below <= 0:
            return Estimate(None, None)
        share = float(part @ self.counts) / below
        one = share_estimate(share, self.error((part - share * whole) / below))
        return shown(one, (below, self.error(whole)))

    def covariance(self, place: int) -> Array:
        """Return the covariance of one column of the histogram, (B, B)."""
        places = self.column_places(place)
        covariance: Array = self._covariance[np.ix_(places, places)]
        return covariance


def _auroc(counts: _Counts, calibration: PlattScaling | None) -> Estimate:
    """Return the AUROC. Its error has that of the noise, of second order too, and that of the order within bins."""
    negative, positive = counts.column(0), counts.column(1)
    indicators = np.zeros((2, counts.grid.length))
    for place in (0, 1):
        indicators[place, counts.column_places(place)] = 1
    totals, errors = indicators @ counts.counts, [counts.error(chosen) for chosen in indicators]
    if min(totals) <= 0:
        return Estimate(None, None)
    within, spread = _order_within(counts.public.scores, calibration)
    order = np.triu(np.ones((counts.grid.bins,) * 2), 1) + np.diag(within)
    area = float(negative @ order @ positive) / float(totals.prod())
    gradient = np.zeros(counts.grid.length)
    gradient[counts.column_places(0)] = (order @ positive / totals[1] - area) / totals[0]
    gradient[counts.column_places(1)] = (negative @ order / totals[0] - area) / totals[1]
    second = (order - area) @ counts.covariance(1) @ (order - area).T / totals.prod() ** 2
    # Of the pairs of the evaluated rows themselves, whose order within a bin nobody counts (Bamber 1975, equal scores).
    rows = np.maximum([negative, positive], 1.0)
    spread = spread**2 + within * (1 - within) / 3 * (1 / rows).sum(axis=0)
    pairs = np.maximum(negative, 0.0) * np.maximum(positive, 0.0) / totals.prod()
    variance = counts.error(gradient) ** 2 + float((second * counts.covariance(0)).sum()) + float(pairs**2 @ spread)
    return shown(share_estimate(area, math.sqrt(max(variance, 0.0))), *zip(totals.tolist(), errors, strict=True))


def _order_within(scores: Sequence[Array], calibration: PlattScaling | None) -> tuple[Array, Array]:
    """Return the AUROC within each bin, (B,), and its standard error."""
    within, spread = np.full(len(scores), 0.5), np.full(len(scores), 0.25)
    for number, own in enumerate(scores):
        if calibration is None or len(own) < 2:
            continue
        of_one = _sigmoid(calibration.slope * own + calibration.intercept)
        below = np.append(0.0, np.cumsum(1 - of_one))
        lower = (below[np.searchsorted(own, own)] + below[np.searchsorted(own, own, "right")]) / 2
        itself = float(of_one @ (1 - of_one))
        pairs = float(of_one.sum() * below[-1]) - itself
        if pairs > 1e-12:
            within[number] = min(max((float(of_one @ lower) - itself / 2) / pairs, 0.0), 1.0)
            spread[number] = abs(within[number] - 0.5) / math.sqrt(len(own) - 1)
    return within, spread


def _gaps(counts: _Counts, probabilities: Array) -> tuple[Array, Array, Array]:
    """Return the rows minus the expected rows of each bin, their gradients (B, length), and their errors, (B,)."""
    gradients = np.zeros((counts.grid.bins, counts.grid.length))
    for place in (0, 1):
        gradients[np.arange(counts.grid.bins), counts.column_places(place)] = place - probabilities
    return gradients @ counts.counts, gradients, np.array([counts.error(gradient) for gradient in gradients])


def _calibration_error(counts: _Counts, probabilities: Array | None = None) -> Estimate:
    """Return the calibration error with the squared noise taken off each bin's squared difference."""
    chosen = counts.public.probabilities if probabilities is None else probabilities
    gaps, gradients, errors = _gaps(counts, chosen)
    sizes = np.sqrt(np.maximum(gaps**2 - errors**2, 0.0))
    return share_estimate(float(sizes.sum()) / counts.rows, counts.error(np.sign(gaps) @ gradients) / counts.rows)


def _reliability(counts: _Counts) -> list[ReliabilityBin]:
    """Return the reliability table."""
    edges = [None, *counts.grid.edges.tolist(), None]
    table = []
    for number, probability in enumerate(counts.public.probabilities.tolist()):
        rows, hits = np.zeros(counts.grid.length), np.zeros(counts.grid.length)
        places = [int(counts.column_places(place)[number]) for place in (0, 1)]
        rows[places], hits[places[1]] = 1, 1
        share = counts.ratio(hits, rows)
        table.append(ReliabilityBin(edges[number], edges[number + 1], counts.count(rows), probability, share))
    return table


# -- Platt scaling


def _calibration(counts: _Counts) -> PlattScaling | None:
    """Fit Platt scaling; None where the noise is too large, or where larger scores do not mean class 1."""
    if counts.rows * math.sqrt(2) * ROW / counts.plan.deviation < CALIBRATED_FROM:
        return None
    negative, positive = (_projected(counts.column(place)) for place in (0, 1))
    fit = _platt(counts.public.centres, negative, positive)
    if fit is None:
        return None
    scaled = _sigmoid(fit[0] * counts.public.centres + fit[1])
    before, after = _calibration_error(counts), _calibration_error(counts, scaled)
    return PlattScaling(fit[0], fit[1], before.value or 0.0, after.value or 0.0)


def _projected(counts: Array) -> Array:
    """Return the nearest counts (B,) that are not negative and have the same total, or zeros for a negative total."""
    total = float(counts.sum())
    if total <= 0:
        return np.zeros_like(counts)
    descending = np.sort(counts)[::-1]
    shifts = (np.cumsum(descending) - total) / np.arange(1, len(counts) + 1)
    shift = shifts[np.flatnonzero(descending > shifts)[-1]]
    return np.asarray(np.maximum(counts - shift, 0.0))


def _platt(centres: Array, negative: Array, positive: Array) -> tuple[float, float] | None:
    """Fit slope and intercept by Newton's method to counts by bin (Platt 1999); None unless the slope is positive."""
    scale = max(float(np.abs(centres).max()), 1e-300)
    features = np.column_stack([centres / scale, np.ones(len(centres))])
    rows, start = negative + positive, np.array([scale, 0.0])
    prior = _PRIOR * np.array([1 / scale**2, 1.0])

    def loss(fit: Array) -> float:
        t = features @ fit
        return float(rows @ np.logaddexp(0, t) - positive @ t + 0.5 * prior @ (fit - start) ** 2)

    fit = np.zeros(2)
    for _ in range(_STEPS):
        probability, other = _sigmoid(features @ fit), _sigmoid(-features @ fit)
        # rows * probability - positive, without its cancellation where the classes are far apart
        gradient = features.T @ (negative * probability - positive * other) + prior * (fit - start)
        second = (features.T * (rows * probability * other)) @ features + np.diag(prior)
        step, size = np.linalg.solve(second, gradient), 1.0
        # A step of `_NEAR` or less changes no score by more than twice that, and the full step is the best. The losses
        # would differ in their rounding errors alone, which are others on every machine.
        while np.abs(step).max() > _NEAR and loss(fit - size * step) > loss(fit) and size > 1e-6:
            size /= 2
        fit = fit - size * step
        if np.abs(step).max() < 1e-9:
            break
    slope, intercept = float(fit[0] / scale), float(fit[1])
    return (slope, intercept) if slope > 0 and math.isfinite(intercept) else None


def calibrated(weights: Array, calibration: PlattScaling) -> Array:
    """Return the weights (d, 1) of the classifier whose score t gives class 1 with probability sigmoid(t)."""
    scaled: Array = np.array(weights) * calibration.slope
    scaled[-1] += calibration.intercept
    return scaled
