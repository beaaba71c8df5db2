"""The rehearsal of a step from a public model, on parties that are simulated from the public rows.

In a simulated world, rows are a smoothed bootstrap of the public rows, and labels are of a true model that is drawn
(`calibrate`), as frequent as the known ones; in half of the worlds the classes are dealt unevenly. Plans are compared
by their mean gain over the public model, less the root mean square of their losses; if the best one's, less half of
that, is not above .001, the parties are asked nothing. docs/theory.md, "The rehearsed step".
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from psephos.curator.checks import folds_of
from psephos.curator.class_shares import share_offsets
from psephos.curator.remembered import remembered
from psephos.curator.statistic import principal_directions
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.fixed_point import Norm
from psephos.protocol.grids.local_step import clip_rows, local_steps, softmax, vector_norms
from psephos.protocol.grids.own_data import contrast_basis

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

_DIRECTIONS = 150  # largest number of principal directions in which the public model is fitted
_VARYING = 1e-9  # least variance of a principal direction, as a share of the largest: others have no order
_BEYOND = 1e-6  # least share of a forest's slopes beside the principal directions that is a direction of its own
_LEAST_SPREAD = 0.1  # least standard deviation by which a feature is divided, as a share of the median one
_RIDGES = (30.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)  # of the public model, for the mean loss

_ERROR_RIDGE = 1.0
"""Largest ridge in the posterior from which the error of a true model is drawn (`_error`). Where cross-validation
chooses a larger one, the public rows show no effect of the coordinates; that does not show that there is none."""

_OUTLYING = 5.0  # multiple of the median size of scores, or of 1, at which they are clipped in their calibration
_LEAST_FACTOR = 0.01  # of scores in that calibration, so that it forgets no feature
_UNCHANGED = 5.0  # precision of the prior in that calibration, around a factor of 1 and a shift of 0
_SUPPOSED_RANK = 8  # directions in which public rows without labels are supposed to differ by class
_HALVINGS = 20  # of the interval in which the scale of a supposed model lies
_FITTED = 2000  # most labelled public rows that the cross-validation uses
_RANKS = (0, 2, 4, 8, 16, 32, 64, 128)  # numbers of coordinates that are rehearsed, without the constant
_POWERS = (0.0, 0.5)  # A coordinate's mean square is its variance to this power: 0 whitens
_STEP_RIDGES = (math.inf, 0.1)  # ridges of a party's step that are rehearsed
_QUANTILES = (0.0, 0.5, 0.9)  # radii, as quantiles of the simulated parties' norms; 0 scales every step to norm 1
_LENGTHS = (0.5, 1.0, 2.0, 4.0)  # multiples of the mean step that are rehearsed
_INSIDE = 0.95  # share of the public rows whose coordinates are not clipped
_SMOOTHING = 0.5  # share of the standard deviation of a simulated row that is drawn afresh
_WORLDS = (12, 32)  # simulated worlds of the first and the second set

WORLDS = sum(_WORLDS)
"""All simulated worlds of a rehearsal."""

_FINALISTS = 8  # plans that are played in the second set of worlds
_DRAWS = 4  # draws of the noise in each world

_CAUTION = 1.0
"""Root mean squares of the losses, from world to world, by which a plan's mean gain is reduced when plans are compared;
half as many when it is compared with the public model. Nobody knows which world is the real one."""

_LEAST_GAIN = 0.001  # expected gain of accuracy below which no privacy is spent
_SIMULATED_ROWS = 5000  # most rows that all simulated parties of a world have together
_SIMULATED_PARTIES = 50  # most simulated parties of a world
_TEST_ROWS = 600  # rows on which a world's releases are compared
_FACTORS = (0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 4.5)  # factors of the public model in the true one
_ERRORS = (0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0)  # factors of the drawn error in the true model
_FACTOR_SPREAD, _ERROR_SPREAD = 0.35, 0.5  # standard deviations of the logarithms of both, in their prior


# -- the public model


@dataclass(frozen=True, eq=False)
class PublicModel:
    """Principal coordinates of public rows, and the model fitted to those with labels.

    Attributes:
        mean, spread: float64 (d,), by which a row's features are standardised.
        axes, variances: float64 (d, D), orthonormal principal directions of standardised rows, and (D,), shrunk,
            falling; behind them, what the slopes of a forest's scores have beside them.
        rows: float64 (N, D), the public rows in these directions.
        weights, constant: float64 (K - 1, D), (K - 1,). The scores are rows @ weights.T + constant.
        ridge: float64 (D,), of each direction, for the mean loss.
        labels, held_out: of the n rows of the cross-validation, (n,), and their held-out scores, float64 (n, K - 1).
        digest: SHA-256 of the public rows and their labels, without linear algebra, which differs between machines.
    """

    mean: Array = field(repr=False)
    spread: Array = field(repr=False)
    axes: Array = field(repr=False)
    variances: Array = field(repr=False)
    rows: Array = field(repr=False)
    weights: Array = field(repr=False)
    constant: Array = field(repr=False)
    ridge: Array = field(repr=False)
    labels: Labels = field(repr=False)
    held_out: Array = field(repr=False)
    digest: bytes = field(repr=False)

    @property
    def classes(self) -> int:
        """K."""
        return len(self.constant) + 1

    def scores(self, rows: Array) -> Array:
        """Return the scores (..., K - 1) of rows (..., D) in principal directions."""
        return np.asarray(rows @ self.weights.T + self.constant)

    @cached_property
    def hits(self) -> NDArray[np.bool_]:
        """Which rows of the cross-validation were classified correctly, (n,)."""
        return np.asarray((self.held_out @ contrast_basis(self.classes)).argmax(axis=1) == self.labels)

    @cached_property
    def losses(self) -> Array:
        """Log-losses of the rows of the cross-validation, (n,)."""
        chances = softmax(self.held_out @ contrast_basis(self.classes))
        return -np.log(np.maximum(chances[range(len(self.labels)), self.labels], 1e-9))

    @property
    def offset(self) -> Array:
        """The scores as a linear function of features with a constant 1 behind them, (d + 1, K - 1)."""
        return self._linear(self.weights.T, self.constant)

    def scale(self, rank: int, power: float) -> Array:
        """Return the factors (rank,) of the leading directions in coordinates of mean square 1 on average."""
        variances = self.variances[:rank]
        total = float((variances**power).sum())
        return np.asarray(variances ** ((power - 1) / 2) * math.sqrt(rank / total)) if rank else np.zeros(0)

    def coordinates(self, rows: Array, rank: int, power: float) -> Array:
        """Return the constant coordinate and the leading ones of rows (..., D): float64 (..., rank + 1)."""
        constant = np.ones((*rows.shape[:-1], 1))
        return np.concatenate([constant, rows[..., :rank] * self.scale(rank, power)], axis=-1)

    def transform(self, rank: int, power: float) -> Array:
        """Return `coordinates` as a linear function of features with a constant 1 behind them, (d + 1, rank + 1)."""
        directions = np.zeros((self.axes.shape[1], rank + 1))
        directions[range(rank), range(1, rank + 1)] = self.scale(rank, power)
        constant = np.zeros(rank + 1)
        constant[0] = 1.0
        return self._linear(directions, constant)

    def _linear(self, directions: Array, constant: Array) -> Array:
        """Return rows @ directions + constant as a function of features with a constant 1 behind them."""
        slopes = self.axes @ directions / self.spread[:, None]
        return np.vstack([slopes, constant - self.mean @ slopes])


@remembered
def fit_public(
    features: Array, labels: NDArray[np.integer], classes: int, log_odds: Array | None = None
) -> PublicModel:
    """Fit the public model to features (N, d) without the constant and labels (N,), -1 where there is none.

    Its ridge is for principal coordinates as they are, or divided by their standard deviations.
    With `log_odds` (`contrasts_of`) scores are the mean of fitted ones and of these.
    Then one factor and a shift make held-out scores fit the labels best (Platt scaling).
    """
    labelled = np.flatnonzero(np.asarray(labels) >= 0)
    if not len(labelled):
        raise DataError("no public row has a label, so there is no public model to start from")
    forest = None if log_odds is None else contrasts_of(log_odds, classes)
    mean, spread, axes, variances, rows = principal_rows(features, None if forest is None else forest[:-1])
    known = np.asarray(labels, dtype=np.int64)[labelled]
    order = np.random.default_rng(0).permutation(len(labelled))[:_FITTED]
    ridge, scale, held_out = _cross_validate(rows[labelled[order]], variances, known[order], classes)
    weights, constant = ridge_softmax(rows[labelled] * scale, known, classes, ridge)
    weights = weights * scale
    if forest is not None:
        *slopes, intercept = forest
        odds, level = (spread[:, None] * slopes).T @ axes, intercept + mean @ slopes
        held_out = (held_out + rows[labelled[order]] @ odds.T + level) / 2
        weights, constant = (weights + odds) / 2, (constant + level) / 2
    factor, shift = _calibration(held_out, known[order], classes)
    weights, constant = factor * weights, factor * constant + shift
    held_out = _calibrated(held_out, known[order], classes)
    digest = public_digest(features, labels)
    penalty = ridge / scale**2
    return PublicModel(mean, spread, axes, variances, rows, weights, constant, penalty, known[order], held_out, digest)


def contrasts_of(log_odds: Array, classes: int) -> Array:
    """Return the scores (d + 1, K - 1) of log odds: those of the second of two classes, (d + 1, 1), or of each of K.

    Both are linear functions of features with a constant 1 behind them.
    """
    return log_odds @ contrast_basis(classes)[:, -log_odds.shape[1] :].T


def supposed_model(features: Array, shares: Array, removed: float, generator: np.random.Generator) -> PublicModel:
    """Draw a true model of public rows (N, d) without labels, with class shares (K,), from a prior.

    Its slopes along the leading `_SUPPOSED_RANK` whitened directions are normal, of the scale at which the best
    classifier removes the share `removed` of the errors of the most frequent class.
    """
    mean, spread, axes, variances, rows = principal_rows(features)
    rank, classes = min(_SUPPOSED_RANK, len(variances)), len(shares)
    slopes = generator.standard_normal((classes - 1, rank)) / np.sqrt(variances[:rank])
    basis, goal = contrast_basis(classes), float(shares.max() + removed * (1 - shares.max()))
    scores = rows[:, :rank] @ slopes.T @ basis
    low, high = 0.0, 100.0
    for _ in range(_HALVINGS):
        scale = (low + high) / 2
        offsets = share_offsets(scale * scores, shares)
        best = float(softmax(scale * scores + offsets).max(axis=1).mean())
        low, high = (scale, high) if best < goal else (low, scale)
    weights = np.zeros((classes - 1, len(variances)))
    weights[:, :rank] = scale * slopes
    none = np.full(len(features), -1)
    digest = public_digest(features, none)
    held_out, ridge = np.zeros((0, classes - 1)), np.ones(len(variances))
    return PublicModel(mean, spread, axes, variances, rows, weights, basis @ offsets, ridge, none[:0], held_out, digest)


def public_digest(features: Array, labels: NDArray[np.integer]) -> bytes:
    """Return the SHA-256 of public rows and their labels, without linear algebra, which differs between machines."""
    seen = (features + 0.0).astype("<f8"), np.asarray(labels, dtype="<i8")  # -0.0 equals 0.0
    return hashlib.sha256(b"".join(array.tobytes() for array in seen)).digest()


def principal_rows(features: Array, kept: Array | None = None) -> tuple[Array, Array, Array, Array, Array]:
    """Return `mean`, `spread`, `axes`, `variances` and `rows` of `PublicModel`, of features (N, d).

    The span of the axes contains the functions of features whose slopes are `kept` (d, k).
    """
    mean, spread = features.mean(axis=0), features.std(axis=0)
    if not (spread > 0).any():
        raise DataError("all public rows are the same, so they give no coordinates; collect others")
    spread = np.where(spread > 0, np.maximum(spread, _LEAST_SPREAD * float(np.median(spread[spread > 0]))), 1.0)
    standard = (features - mean) / spread
    value, directions, share = principal_directions(standard)
    least = _VARYING * value[0]
    varying = min(_DIRECTIONS, int((value > least).sum()))
    axes = directions[:, :varying]
    if kept is not None:
        varied = np.where((standard**2).mean(axis=0) > least, spread, 0)
        for slopes in varied * kept.T:
            left = slopes - axes @ (axes.T @ slopes)
            if (size := np.linalg.norm(left)) > _BEYOND * np.linalg.norm(slopes):
                axes = np.column_stack([axes, left / size])
    value = np.append(value[:varying], ((standard @ axes[:, varying:]) ** 2).mean(axis=0))
    average = float((standard**2).sum()) / standard.size
    variances = np.maximum((1 - share) * value + share * average, 1e-6)
    rows = standard @ axes
    return mean, spread, axes, variances, rows


def _cross_validate(rows: Array, variances: Array, labels: Labels, classes: int) -> tuple[float, Array, Array]:
    """Return the ridge, and the factors (D,) of rows (n, D), of the least held-out log-loss, and the scores (n, K - 1)
    of held-out rows with them.
    """
    basis, candidates = contrast_basis(classes), []
    for scale, ridge in itertools.product((np.ones(len(variances)), variances**-0.5), _RIDGES):
        scaled, scores = rows * scale, np.zeros((len(rows), classes - 1))
        for out in folds_of(len(rows)):
            weights, constant = ridge_softmax(scaled[~out], labels[~out], classes, ridge)
            scores[out] = scaled[out] @ weights.T + constant
        chances = softmax(scores @ basis)[range(len(rows)), labels]
        candidates.append((float(-np.log(np.maximum(chances, 1e-12)).mean()), ridge, scale, scores))
    _, ridge, scale, scores = min(candidates, key=lambda entry: entry[0])
    return ridge, scale, scores


def _calibration(scores: Array, labels: Labels, classes: int) -> tuple[float, Array]:
    """Return the factor, and the shift (K - 1,), of held-out scores (n, K - 1) with the least log-loss and a prior.

    Scores are clipped for it, so that a single row does not decide.
    """
    from scipy.optimize import minimize  # imported here because it takes a fifth of a second

    basis, places = contrast_basis(classes), range(len(labels))
    largest = _OUTLYING * max(1.0, float(np.median(np.abs(scores))))
    scores = np.clip(scores, -largest, largest)

    def loss(entries: Array) -> tuple[float, Array]:
        odds = (entries[0] * scores + entries[1:]) @ basis
        surprise = float((np.logaddexp.reduce(odds, axis=1) - odds[places, labels]).sum())
        residuals = softmax(odds)
        residuals[places, labels] -= 1
        slopes, moved = residuals @ basis.T, entries - unchanged
        slope = np.concatenate([[(slopes * scores).sum()], slopes.sum(axis=0)])
        return surprise + _UNCHANGED / 2 * float(moved @ moved), slope + _UNCHANGED * moved

    unchanged = np.concatenate([[1.0], np.zeros(classes - 1)])
    bounds = [(_LEAST_FACTOR, None), *[(None, None)] * (classes - 1)]
    factor, *shift = minimize(loss, unchanged, jac=True, method="L-BFGS-B", bounds=bounds).x
    return float(factor), np.array(shift)


def _calibrated(scores: Array, labels: Labels, classes: int) -> Array:
    """Return held-out scores (n, K - 1), those of each fold calibrated by the others, so that they remain held out."""
    calibrated = scores.copy()
    for out in folds_of(len(scores)):
        factor, shift = _calibration(scores[~out], labels[~out], classes)
        calibrated[out] = factor * scores[out] + shift
    return calibrated


def ridge_softmax(rows: Array, labels: Labels, classes: int, ridge: float) -> tuple[Array, Array]:
    """Return weights (K - 1, D) and constant (K - 1,) of ridge softmax regression."""
    from sklearn.linear_model import LogisticRegression  # imported here because it takes about a second

    counts, basis = np.bincount(labels, minlength=classes), contrast_basis(classes)
    present = np.flatnonzero(counts)
    weights, constant = np.zeros((classes, rows.shape[1])), np.log(counts + 0.5)
    if len(present) > 1:
        model = LogisticRegression(C=1 / (ridge * len(labels)), tol=1e-3).fit(rows, labels)
        if len(present) == 2:
            weights[present] = np.array([[-0.5], [0.5]]) * model.coef_
            constant[present] = np.array([-0.5, 0.5]) * model.intercept_
        else:
            weights[present], constant[present] = model.coef_, model.intercept_
        level = float(constant[present].mean() - np.log(counts[present]).mean())
        constant[counts == 0] = math.log(0.5) + level
    return basis @ weights, basis @ constant


# -- simulated worlds


class Calibration(NamedTuple):
    """What the true model of simulated worlds is made of: the factors of the public model and of the drawn error.

    `truths` are pairs of factors, and `chances` (T,) their probabilities after the cross-validation; `accuracy` is that
    of the public model in such worlds, `cross_validated` that by cross-validation.
    """

    accuracy: float
    cross_validated: float
    truths: tuple[tuple[float, float], ...]
    chances: Array

    def draw(self, generator: np.random.Generator) -> tuple[float, float]:
        """Draw the factors of one world."""
        return self.truths[generator.choice(len(self.truths), p=self.chances)]


class SimulatedData(NamedTuple):
    """Simulated parties and test rows."""

    rows: Array
    labels: Labels
    offset: Array
    test: Array
    start: Array
    chances: Array

    def accuracy(self, scores: Array) -> float:
        """Return the expected accuracy of scores (..., T, K - 1)."""
        chosen = (scores @ contrast_basis(self.chances.shape[1])).argmax(axis=-1)
        return float(self.chances[np.arange(len(self.test)), chosen].mean())


def simulated_rows(rows: Array, variances: Array, count: int, generator: np.random.Generator) -> Array:
    """Draw rows (count, D) from a smoothed bootstrap of `rows` and `variances` of `PublicModel`."""
    drawn = rows[generator.integers(0, len(rows), count)]
    fresh = generator.standard_normal(drawn.shape) * np.sqrt(variances)
    return np.asarray(math.sqrt(1 - _SMOOTHING**2) * drawn + _SMOOTHING * fresh)


def _error(model: PublicModel, generator: np.random.Generator) -> Callable[[Array], Array]:
    """Draw an error of the public model from its Laplace posterior: a function of rows (..., D) to scores (..., K - 1).

    With n labelled rows, curvature c (half the mean over the public rows of the sum of p (1 - p) over the classes, at
    least .02), variances v_j and ridges r_j of the public model, the slope of direction j has variance
    1/(n (c v_j + min(r_j, _ERROR_RIDGE)/2)), and the constant has 1/(n c).
    """
    chances, contrasts = softmax(model.scores(model.rows) @ contrast_basis(model.classes)), model.classes - 1
    curvature = max(float((chances * (1 - chances)).sum(axis=1).mean()) / 2, 0.02)
    n = len(model.labels)
    slopes = generator.standard_normal((contrasts, len(model.variances)))
    slopes /= np.sqrt(n * (curvature * model.variances + np.minimum(model.ridge, _ERROR_RIDGE) / 2))
    constant = generator.standard_normal(contrasts) / math.sqrt(n * curvature)
    return lambda rows: rows @ slopes.T + constant


def calibrate(model: PublicModel, generator: np.random.Generator, samples: int = 1000) -> Calibration:
    """Weigh factors of the true model by how well the public model then performs as in its cross-validation.

    The likelihood of factors is that of accuracy and log-loss on simulated rows, as normal variables with their
    standard errors; in the prior their logarithms are normal around 0.
    """
    basis, n = contrast_basis(model.classes), len(model.labels)
    accuracy, loss = (float(model.hits.sum()) + 1) / (n + 2), float(model.losses.mean())
    tolerance = math.sqrt(accuracy * (1 - accuracy) / n) + 0.01, float(model.losses.std()) / math.sqrt(n) + 0.02
    rows = simulated_rows(model.rows, model.variances, samples, generator)
    scores = model.scores(rows)
    errors = np.stack([_error(model, generator)(rows) for _ in range(_DRAWS)])
    chosen, logarithms = (scores @ basis).argmax(axis=1), np.log(np.maximum(softmax(scores @ basis), 1e-9))
    truths = tuple(itertools.product(_FACTORS, _ERRORS))
    misfits, accuracies = np.zeros(len(truths)), np.zeros(len(truths))
    for number, (factor, size) in enumerate(truths):
        chances = _chances(model, (factor * scores + size * errors) @ basis)
        accuracies[number] = chances[:, range(samples), chosen].mean()
        surprise = -float((chances * logarithms).sum(axis=-1).mean())
        misfits[number] = ((accuracies[number] - accuracy) / tolerance[0]) ** 2
        misfits[number] += ((surprise - loss) / tolerance[1]) ** 2
        misfits[number] += (math.log(factor) / _FACTOR_SPREAD) ** 2 + (math.log(size) / _ERROR_SPREAD) ** 2
    weights = np.exp((misfits.min() - misfits) / 2)
    weights /= weights.sum()
    return Calibration(float(weights @ accuracies), accuracy, truths, weights)


def _chances(model: PublicModel, odds: Array) -> Array:
    """Return class probabilities (..., K) of log odds, moved so that the classes are as frequent as the known labels
    say, whatever the error of the model is.
    """
    if len(model.labels):
        shares = np.bincount(model.labels, minlength=model.classes) + 0.5
        odds = odds + share_offsets(odds.reshape(-1, model.classes), shares / shares.sum())
    return softmax(odds)


def simulate_world(
    model: PublicModel,
    truth: tuple[float, float],
    parties: int,
    rows: int,
    skewed: bool,
    generator: np.random.Generator,
) -> SimulatedData:
    """Simulate a world; `truth`: the factors of the public model and of a drawn error."""
    private, basis = parties * rows, contrast_basis(model.classes)
    X = simulated_rows(model.rows, model.variances, private + _TEST_ROWS, generator)
    offset = model.scores(X)
    error = truth[1] * _error(model, generator)(X) if truth[1] else 0.0
    chances = _chances(model, (truth[0] * offset + error) @ basis)
    labels = (chances.cumsum(axis=1) < generator.random((len(X), 1))).sum(axis=1).clip(max=model.classes - 1)
    order = np.arange(private).reshape(parties, rows)
    if skewed:
        order = _dealt(labels[:private], parties, rows, generator)
    return SimulatedData(X[order], labels[order], offset[order], X[private:], offset[private:], chances[private:])


def _dealt(labels: Labels, parties: int, rows: int, generator: np.random.Generator) -> NDArray[np.intp]:
    """Deal every row once, (parties, rows): half of a party's rows at random, and half in the order of the classes."""
    order, mixed = generator.permutation(len(labels)), parties * (rows // 2)
    by_class = order[mixed:][np.argsort(labels[order[mixed:]], kind="stable")]
    return np.hstack([order[:mixed].reshape(parties, -1), by_class.reshape(parties, -1)])


# -- the rehearsal


class StepPlan(NamedTuple):
    """One way to take the step: `rank` and `power` of `PublicModel.coordinates`, a party's `ridge` (infinite for one
    gradient step), the `quantile` of the parties' norms at which longer steps are clipped (0 scales every step to norm
    1), and the multiple of the mean step that is taken.
    """

    rank: int
    power: float
    ridge: float
    quantile: float
    length: float


class Noise(NamedTuple):
    """The noise in the mean of the parties' vectors of norm 1.

    Attributes:
        norm: "l1" for discrete Laplace noise, "l2" for discrete Gaussian noise.
        deviation: standard deviation of an entry.
        shape: of the two Gamma variables whose difference is the noise of shares of discrete Laplace noise.
    """

    norm: Norm
    deviation: float
    shape: float = 1.0

    def draw(self, size: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Draw noise of a shape, in floating point: for simulations only."""
        if self.norm == "l2":
            return np.asarray(generator.normal(scale=self.deviation, size=size))
        scale = self.deviation / math.sqrt(2 * self.shape)
        first, second = (generator.gamma(self.shape, scale, size) for _ in range(2))
        return np.asarray(first - second)


def shrink(steps: Array, deviation: float) -> Array:
    """Multiply every octave of coordinates by its estimated share of signal (James and Stein's positive part).

    `steps` are noisy means, float64 (..., K - 1, r + 1), the constant coordinate first.
    """
    width = steps.shape[-1]
    shrunken = steps.copy()
    edges = sorted({0, width, *(2**power for power in range(width.bit_length()))})
    for start, end in itertools.pairwise(edges):
        part = steps[..., start:end]
        energy = (part**2).sum(axis=(-2, -1), keepdims=True)
        expected = deviation**2 * part.shape[-1] * part.shape[-2]
        shrunken[..., start:end] = part * np.maximum(0.0, 1 - expected / np.maximum(energy, 1e-300))
    return shrunken


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """What a rehearsal has found; all of it public.

    Attributes:
        model: the public model.
        calibration: of the simulated worlds.
        plan, noise: the chosen plan, and the noise that it was rehearsed with.
        limit: length to which a row's coordinates are clipped.
        radius: the plan's radius; 0 where every step is scaled to norm 1.
        unit: norm of a simulated step, by which the mean of the vectors is multiplied.
        gains: the plan's accuracy above the public model's, in each world, float64 (W,).
        public_accuracy: expected accuracy of the public model in the same worlds.
    """

    model: PublicModel = field(repr=False)
    calibration: Calibration
    plan: StepPlan
    noise: Noise
    limit: float
    radius: float
    unit: float
    gains: Array = field(repr=False)
    public_accuracy: float

    @property
    def gain(self) -> float:
        """The mean gain."""
        return float(self.gains.mean())

    @property
    def loss(self) -> float:
        """Root mean square, over the worlds, of what the plan loses."""
        return _loss(self.gains)

    @property
    def asks(self) -> bool:
        """Whether the step is expected to beat the public model; otherwise the parties are asked nothing."""
        return self.gain - _CAUTION / 2 * self.loss > _LEAST_GAIN


def rehearse(
    model: PublicModel,
    parties: int,
    rows: int,
    noises: Sequence[Callable[[int], Noise]],
    *,
    done: Callable[[int], object] = lambda worlds: None,
) -> Rehearsal:
    """Choose a plan on simulated worlds; a function of its arguments alone.

    `rows` is about how many rows a party has, `noises` are laws to choose from, each a function of the number of
    entries of a vector, and `done` is called with 1 after each of `WORLDS` worlds.
    """
    if parties < 1 or rows < 1 or not noises:
        raise InvalidParameter(f"a rehearsal needs parties, rows and a law of noise, not {parties}, {rows}, {noises}")
    generator = np.random.default_rng([parties, rows, *model.digest])
    calibration = calibrate(model, generator)
    stage = _Stage(model, parties, rows, calibration, generator, done)
    plans = [(law, plan) for law in range(len(noises)) for plan in _plans(model)]
    first, norms = stage.play(plans, noises, {}, _WORLDS[0])
    best = sorted(first, key=lambda key: -_prudent(first[key] - stage.public))[:_FINALISTS]
    units = {key: float(np.median(norms[key])) for key in best}
    second, _ = stage.play(best, noises, units, _WORLDS[1])
    gains = {key: second[key] - stage.public for key in best}
    law, plan = chosen = max(best, key=lambda key: _prudent(gains[key]))
    return Rehearsal(
        model=model,
        calibration=calibration,
        plan=plan,
        noise=noises[law]((model.classes - 1) * (plan.rank + 1)),
        limit=stage.limit(plan.rank, plan.power),
        radius=units[chosen] if plan.quantile else 0.0,
        unit=units[chosen],
        gains=gains[chosen],
        public_accuracy=float(stage.public.mean()),
    )


def _loss(gains: Array) -> float:
    """Return the root mean square of the losses among gains (worlds,), in which a gain counts as 0."""
    return math.sqrt((np.minimum(gains, 0.0) ** 2).mean())


def _prudent(gains: Array) -> float:
    """Return the mean of gains (worlds,) less `_loss` times `_CAUTION`."""
    return float(gains.mean() - _CAUTION * _loss(gains))


def _plans(model: PublicModel) -> list[StepPlan]:
    """Return all plans that fit the number of principal directions."""
    ranks = sorted({min(rank, len(model.variances)) for rank in _RANKS})
    return [
        StepPlan(rank, power, ridge, quantile, length)
        for rank in ranks
        for power in (_POWERS if rank else _POWERS[:1])
        for ridge in _STEP_RIDGES
        for quantile in _QUANTILES
        for length in _LENGTHS
    ]


Key = tuple[int, StepPlan]
"""A law of noise by its place, and a plan."""


@dataclass
class _Stage:
    """Where plans are played in simulated worlds."""

    model: PublicModel
    parties: int
    rows: int
    calibration: Calibration
    generator: np.random.Generator
    done: Callable[[int], object]
    public: Array = field(default_factory=lambda: np.zeros(0))

    def limit(self, rank: int, power: float) -> float:
        """Return the length to which rows' coordinates are clipped."""
        Z = self.model.coordinates(self.model.rows, rank, power)
        return float(np.quantile(np.linalg.norm(Z, axis=1), _INSIDE))

    def play(
        self, keys: Sequence[Key], noises: Sequence[Callable[[int], Noise]], units: dict[Key, float], worlds: int
    ) -> tuple[dict[Key, Array], dict[Key, Array]]:
        """Return each plan's expected accuracies, and the norms at its quantile, both (worlds,); sets `public`."""
        shared: dict[tuple[int, float, float], dict[tuple[int, float], list[Key]]] = {}
        for key in keys:
            law, plan = key
            shared.setdefault(plan[:3], {}).setdefault((law, plan.quantile), []).append(key)
        accuracies: dict[Key, list[float]] = {key: [] for key in keys}
        norms: dict[Key, list[float]] = {key: [] for key in keys}
        public = []
        parties = min(self.parties, _SIMULATED_PARTIES)
        rows = min(self.rows, _SIMULATED_ROWS // parties)
        for number in range(worlds):
            truth, skewed = self.calibration.draw(self.generator), number % 2 == 1
            world = simulate_world(self.model, truth, parties, rows, skewed, self.generator)
            public.append(world.accuracy(world.start))
            for (rank, power, ridge), groups in shared.items():
                limit = self.limit(rank, power)
                Z = clip_rows(self.model.coordinates(world.rows, rank, power), limit)
                steps = local_steps(Z, world.labels, world.offset, ridge)
                test = self.model.coordinates(world.test, rank, power)
                for (law, quantile), group in groups.items():
                    noise = noises[law](steps[0].size)
                    lengths = vector_norms(steps, noise.norm)
                    unit = units.get(group[0]) or float(np.quantile(lengths, quantile or 0.5))
                    scale = np.maximum(lengths, unit) if quantile else lengths
                    mean = (steps / np.maximum(scale, 1e-12)[:, None, None]).mean(axis=0)
                    noisy = mean + noise.draw((_DRAWS, *mean.shape), self.generator)
                    moved = np.matmul(test, shrink(noisy, noise.deviation).transpose(0, 2, 1)) * unit
                    for key in group:
                        accuracies[key].append(world.accuracy(world.start + key[1].length * moved))
                        norms[key].append(unit)
            self.done(1)
        self.public = np.array(public)
        return {key: np.array(value) for key, value in accuracies.items()}, {
            key: np.array(v) for key, v in norms.items()
        }
