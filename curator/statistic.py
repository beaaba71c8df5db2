"""The statistic release: noise on a linear statistic of the votes, or of the parties' own rows (docs/theory.md).

T = (1/N) sum_i (alpha(x_i) - 1/K) (x) z_i of votes, or the mean of one vector of norm 1 of each party, from its own
rows, a classifier trained on them, or its votes. Coordinates z are whitened by the public rows; the class index is
taken in K - 1 orthonormal contrasts; all is rounded to integers, whose sensitivity is certified. The classifier is
W = T A' after damping what is mostly noise, which is post-processing.

`rank` r minimises E||noise||^2 (r) + (1 - 1/K) / (2 r), label energy being assumed to fall like 1/(2 j^2); it is at
least K/2 + 2 and at most N/10.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from psephos.curator.checks import check_count
from psephos.curator.hamm.labels import check_counts
from psephos.curator.hamm.sensitivity import Sensitivity, operator_norm
from psephos.curator.noise_plan import NoisePlan, certified, check_mechanism, joint_noise
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.directions import DirectionGrid
from psephos.protocol.grids.fixed_point import Norm
from psephos.protocol.grids.own_data import OWN, Own, OwnDataGrid, contrast_basis, unit_rows
from psephos.protocol.grids.rows import in_coordinates
from psephos.protocol.grids.statistic import StatisticGrid
from psephos.protocol.grids.vote_directions import VoteDirectionGrid
from psephos.protocol.privacy.mechanisms import (
    DiscreteLaplace,
    NoiseMechanism,
    RoundedGaussian,
    SphericalLaplace,
    check_epsilon,
    gaussian_sigma,
)
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness

Array = NDArray[np.float64]
MechanismName = Literal["spherical-laplace", "discrete-laplace", "gaussian"]
Source = Literal["votes", "vote-directions"] | Own

MECHANISMS: tuple[MechanismName, ...] = ("spherical-laplace", "discrete-laplace", "gaussian")
"""Mechanisms of `plan_statistic`: the first two give a pure epsilon, the last (epsilon, delta)."""

SOURCE_OF: Mapping[str, Source] = {
    "statistic": "votes",
    "vote-directions": "vote-directions",
    **{own: own for own in OWN},
}
"""Input of the statistic by method: votes on the public rows, their directions, the parties' own rows, or classifiers
trained on them."""

_EVENT_NAMES: Mapping[Source, str] = {
    "votes": "statistic",
    "vote-directions": "vote directions",
    "own-data": "own-data statistic",
    "whitened": "whitened average",
}
"""Name of the privacy event of a release, by source."""

_SIGNAL = 0.5  # label energy beyond coordinate r is assumed to be _SIGNAL (1 - 1/K) / r, in the rule for the rank
_ROWS_PER_COORDINATE = 10  # public rows required for each released coordinate
_BETWEEN = 0.8  # share of the between-class moment that `SelfTraining.refit` subtracts from the total moment
_TELLING = 0.95  # `SelfTraining` is used when its score is at least this multiple of the plain release's score
_LEAST_SIGNAL = 0.05  # smallest share of a release's energy that `wiener_filter` takes for signal
_LESSONS = 5  # rounds of self-training
_SPLITS = 4  # public vectors over which the test for self-training is averaged
_CONTRAST_BITS = 16  # fraction bits of the integer class contrasts
_FEATURE_BITS = 24  # bits of the largest coordinate of the public points on the integer grid
_NUMERICAL_RANK = 1e-9  # directions whose moment is below this multiple of the largest are treated as absent


@cache
def public_splits(shape: tuple[int, int], *, laplace: bool) -> Array:
    """Draw the public vectors g that split a release T into T + g and T - g (`SelfTraining`).

    They come from a seeded stream of this library, so that they are the same with every version of NumPy, and follow
    the Laplace law of the parties' discrete noise, or the Gaussian, which also stands for the spherical Laplace.
    float64 (4, K - 1, r), scaled so that the mean squared entry is 1.
    """
    randomness = SimulationRandomness(0, "splits of a release")
    uniform = np.array([(randomness.bits(53) + 0.5) * 2.0**-53 for _ in range(_SPLITS * shape[0] * shape[1])])
    entries = (
        -np.sign(uniform - 0.5) * np.log1p(-2 * np.abs(uniform - 0.5)) if laplace else scipy.special.ndtri(uniform)
    )
    vectors: Array = (entries / math.sqrt(float(np.mean(entries**2)))).reshape(_SPLITS, *shape)
    return vectors


@dataclass(frozen=True, eq=False)
class SelfTraining:
    """Self-training on the public rows (docs/theory.md, "Self-training"). Post-processing: it costs no privacy.

    The released classifier W_0 = T A' labels the public rows, and Fisher's discriminant is fitted to these labels in
    all whitened coordinates. It removes noise in directions along which the rows do not cluster, and weighs the class
    means by the within-class moment, which least squares does not. This is repeated with W_0 kept in: the scores are
    a times those of W_0 plus 1 - a times those of the last discriminant, each scaled to variance 1, where a = s^2/2
    and s = max(0, 1 - E||noise||^2/||T||^2) is the share of ||T||^2 that is not noise.

    Where classes overlap, self-training would reinforce its own errors, so it is validated first. With g as large as
    the noise, T + g and T - g have uncorrelated noise: a classifier trained on one can be scored on the other. The
    score u of a classifier is the projection of the other half on the statistic of votes of the labels that the
    classifier gives. Self-training is accepted if its u is at least 0.95 times the u of W_0, minus one standard
    deviation of the noise. Scores are averaged over both directions and over the public vectors g of `public_splits`.

    Attributes:
        rows: float64 (N, d), the public rows at unit length.
        transform: float64 (d, r), all whitened coordinates.
    """

    rows: Array = field(repr=False)
    transform: Array = field(repr=False)

    def learn(self, T: Array, transform: Array, noise: float, *, laplace: bool = False) -> Array | None:
        """Return the classifier (K, d) self-trained on T (K, r) with E||noise||^2; None where it is rejected."""
        deviation = math.sqrt(noise / T[1:].size)
        basis = contrast_basis(len(T)).T
        splits = public_splits((len(T) - 1, T.shape[1]), laplace=laplace)
        perturbations = [basis @ (sign * deviation * g) for g in splits for sign in (1.0, -1.0)]
        scores = [self._validation_scores(T + g, T - g, transform, 2 * noise) for g in perturbations]
        trained_score, release_score = np.mean(scores, axis=0)
        if trained_score < _TELLING * release_score - deviation:
            return None
        return self._train(T, transform, noise)

    def _validation_scores(self, half: Array, other: Array, transform: Array, noise: float) -> list[float]:
        """Return u, scored on `other`, of the classifier self-trained on `half` and of `half` itself."""
        scores = []
        for W in (self._train(half, transform, noise), half @ transform.T):
            statistic = self._labels(W).T @ (self.rows @ transform)
            statistic -= statistic.mean(axis=0)
            norm = float(np.linalg.norm(statistic))
            scores.append(float(np.sum(statistic * other)) / norm if norm > 0 else 0.0)
        return scores

    def _train(self, T: Array, transform: Array, noise: float) -> Array:
        """Run all rounds of self-training from T (K, r); returns the classifier (K, d)."""
        released = T @ transform.T
        energy = float(np.sum(T**2))
        signal = max(0.0, 1 - noise / energy) if energy > 0 else 0.0
        anchor = signal**2 / 2
        W = released
        for _ in range(_LESSONS):
            W = anchor * self._scaled(released) + (1 - anchor) * self._scaled(self.refit(W))
        return W

    def refit(self, W: Array) -> Array:
        """Fit Fisher's discriminant (K, d) to the labels that the classifier W (K, d) gives to the public rows.

        Labels that a classifier gave itself separate better than true ones, so only the share `_BETWEEN` of the
        between-class moment is subtracted.
        """
        labels = self._labels(W)
        counts = labels.sum(axis=0)
        means = labels.T @ self.rows @ self.transform / np.maximum(counts, 1.0)[:, None]
        within = np.eye(means.shape[1]) - _BETWEEN * (means.T * (counts / len(self.rows))) @ means
        discriminant = np.linalg.solve(within, means.T).T @ self.transform.T
        centred: Array = discriminant - discriminant.mean(axis=0)
        return centred

    def _labels(self, W: Array) -> Array:
        """Return the one-hot labels (N, K) that W gives to the public rows."""
        one_hot: Array = np.eye(len(W))[(self.rows @ W.T).argmax(axis=1)]
        return one_hot

    def _scaled(self, W: Array) -> Array:
        """Return W scaled so that its scores on the public rows have variance 1."""
        spread = float(np.std(self.rows @ W.T))
        return W / spread if spread > 0 else W


@dataclass(frozen=True, eq=False, kw_only=True)
class StatisticPlan(NoisePlan):
    """The public parameters of one statistic release.

    Attributes, besides those of `NoisePlan`:
        transform: float64 (d, r); the coordinates of a row are the row at unit length times this matrix.
        classes: K.
        unit: value of one lattice unit of the sum, in the contrasts of T.
        self_training: self-training on the public rows, for `fit_statistic`.
        noise: E||noise||^2 in T.
    """

    grid: StatisticGrid | OwnDataGrid | VoteDirectionGrid
    transform: Array = field(repr=False)
    classes: int
    unit: float
    self_training: SelfTraining
    noise: float
    joint: bool = False

    @property
    def rank(self) -> int:
        """Number of coordinates released per contrast, r."""
        return int(self.transform.shape[1])

    @property
    def source(self) -> Source:
        """Input of the statistic: "votes", "vote-directions", "own-data" or "whitened"."""
        if isinstance(self.grid, OwnDataGrid):
            return self.grid.source
        return "vote-directions" if isinstance(self.grid, VoteDirectionGrid) else "votes"

    @property
    def event_name(self) -> str:  # type: ignore[override]
        """Name of the privacy event."""
        return _EVENT_NAMES[self.source]

    @property
    def sensitivity(self) -> Sensitivity:
        """Sensitivity of T, in the mechanism's norm: about sqrt(2) rho/M in L2 for votes, 2/M for directions."""
        return replace(self.bound, value=self.bound.value * self.unit)


@dataclass(frozen=True, eq=False)
class StatisticRelease:
    """A released statistic: T, float64 (K, r) in the plan's coordinates, sums to 0 over the classes."""

    plan: StatisticPlan = field(repr=False)
    T: Array = field(repr=False)


def grid_sensitivity(grid: StatisticGrid | DirectionGrid) -> tuple[Sensitivity, Sensitivity]:
    """Certify the (L1, L2) sensitivity of the sum, in lattice units, when one party is replaced by any other.

    Directions: two points of the ball of radius 2^24 are at most 2^25 apart in the norm of the ball. Points of the L1
    ball are no further apart in L2; points of the L2 ball are at most sqrt(D) times as far apart in L1. Votes: the
    change is contrast @ Delta' @ points with rows of Delta of the form e_a - e_b, so its Frobenius norm is at most
    max_ab ||contrast (e_a - e_b)|| sqrt(N) ||points||_op. In L1 it is at most sqrt(D) times that, and at most
    max_ab ||contrast (e_a - e_b)||_1 times the sum of the points' L1 norms.
    """
    if isinstance(grid, DirectionGrid):
        diameter = 2.0 * grid.maximum
        if grid.norm == "l1":
            source = "2/M, vectors of L1 norm at most 1"
            return Sensitivity(diameter, norm="l1", source=source), Sensitivity(diameter, source=source)
        across = diameter * math.sqrt(grid.length) * (1 + 2.0**-50)
        source = "vectors of norm at most 1"
        return Sensitivity(across, norm="l1", source=f"sqrt(D) 2/M, {source}"), Sensitivity(
            diameter, source=f"2/M, {source}"
        )
    points = grid.points.astype(np.float64)
    if np.abs(grid.points).max() >= 2**53:
        raise InvalidParameter("the grid is too fine to be certified: entries reach 2^53; use fewer feature bits")
    steps = [grid.contrast[:, a] - grid.contrast[:, b] for a in range(grid.classes) for b in range(a)]
    longest = math.sqrt(max(sum(int(v) ** 2 for v in step) for step in steps)) * (1 + 2.0**-50)
    widest = max(sum(abs(int(v)) for v in step) for step in steps)
    l2 = longest * math.sqrt(grid.samples) * operator_norm(points) * (1 + 2.0**-44)
    direct = widest * sum(int(v) for v in np.abs(grid.points).sum(axis=0))
    l1 = min(float(direct) * (1 + 2.0**-50), math.sqrt(grid.length) * l2 * (1 + 2.0**-50))
    l2 = min(l1, l2)  # no vector is longer in L2 than in L1
    return (
        Sensitivity(l1, norm="l1", source="min(sqrt(D) L2, sum of L1 norms) on the grid"),
        Sensitivity(l2, source="max ||B(e_a - e_b)|| sqrt(N) ||Z||_op on the grid"),
    )


def choose_rank(
    most: int, classes: int, parties: int, epsilon: float, delta: float, mechanism: MechanismName
) -> tuple[int, float]:
    """Choose the number of whitened coordinates r to release, at most `most`, by the module's rule.

    Returns r and its expected loss: E||noise||^2 plus the label energy left out.
    """
    losses = []
    for rank in range(1, most + 1):
        dimension, reach = (classes - 1) * rank, math.sqrt(2) / parties
        if mechanism == "discrete-laplace":
            reach *= math.sqrt(dimension)
        noise = _noise_energy(dimension, reach, epsilon, delta, mechanism)
        losses.append(noise + _SIGNAL * (1 - 1 / classes) / rank)
    rank = max(losses.index(min(losses)) + 1, min(classes // 2 + 2, most))
    return rank, losses[rank - 1]


def _noise_energy(dimension: int, reach: float, epsilon: float, delta: float, mechanism: MechanismName) -> float:
    """Return E||noise||^2 for a vector of this dimension and sensitivity `reach`, in L1 for the discrete Laplace."""
    if mechanism == "gaussian":
        return dimension * gaussian_sigma(reach, epsilon, delta) ** 2
    spread = dimension + 1 if mechanism == "spherical-laplace" else 2
    return dimension * spread * (reach / check_epsilon(epsilon)) ** 2


def with_joint_noise(plan: StatisticPlan, contributors: int, shares: int | None = None) -> StatisticPlan:
    """Return the plan with the noise energy of `shares` (default: of all), of which `contributors` make the law."""
    return replace(plan, noise=plan.noise * (plan.parties if shares is None else shares) / contributors)


def for_ballots(plan: StatisticPlan, ballots: int, *, holder_noise: bool = False) -> StatisticPlan:
    """Return the plan of the mean over the parties that are present (docs/theory.md, "Absent parties").

    The integers that a party sums, their sensitivity and the law of the noise do not depend on the number of parties.
    T is divided by `ballots` in place of M, and with it the sensitivity of T. So is the energy of noise that the
    curator or the key holders (`holder_noise`) add, by ballots^2; of the parties' noise, `ballots` shares remain of M.
    """
    if not 1 <= ballots <= plan.parties:
        raise InvalidParameter(f"a sum of {plan.parties} parties counts from 1 to all of them, not {ballots}")
    share = plan.parties / ballots
    noise = plan.noise * share * (1.0 if plan.joint and not holder_noise else share)
    return replace(plan, parties=ballots, unit=plan.unit * share, noise=noise)


def _most_coordinates(axes: Array, samples: int) -> int:
    return max(1, min(int(axes.shape[1]), samples // _ROWS_PER_COORDINATE))


def public_coordinates(X: Array, rank: int = 12) -> Array:
    """Return the whitened coordinates (d, r) of public features (N, d) that `plan_statistic` uses, for learners.

    r is `rank`, or N/10 or the number of independent directions of X where that is smaller.
    """
    axes = whitened_axes(_public_rows(X))
    return axes[:, : min(rank, _most_coordinates(axes, len(X)))]


def plan_statistic(  # wide: every keyword is a public term of the release that may be left to its rule
    X: Array,
    classes: int,
    parties: int,
    *,
    epsilon: float | None,
    delta: float = 1e-6,
    mechanism: MechanismName = "spherical-laplace",
    source: Source = "votes",
    rank: int | None = None,
    transform: Array | None = None,
    joint: bool = False,
) -> StatisticPlan:
    """Plan a statistic release from public quantities.

    Args:
        X: float64 (N, d), the public auxiliary features, of any norm: rows are scaled to unit length.
        classes, parties: K, M.
        epsilon: privacy parameter; None plans a release without noise.
        delta: for "gaussian" only.
        mechanism: one of `MECHANISMS`.
        source: input of the statistic, one of the values of `SOURCE_OF`.
        rank: number of coordinates; None uses the module's rule.
        transform: float64 (d, r), agreed coordinates in place of computed ones, which differ in their last bits between
            processors. The sensitivity is certified for any coordinates.
        joint: the parties add the noise in shares (`psephos.parties.noise`). "gaussian" is then discrete Gaussian
            noise, and "spherical-laplace" is refused, because rounded shares do not sum to it.

    Raises:
        DataError: X is constant, or has fewer independent directions than `rank`.
        InvalidParameter: the rounding to integers is not small beside the noise.
    """
    check_mechanism(mechanism, joint=joint)
    if source not in SOURCE_OF.values():
        raise InvalidParameter(f"the source is one of {', '.join(SOURCE_OF.values())}, not {source!r}")
    check_count(classes, "the number of classes", 2)
    check_count(parties, "the number of parties")
    if epsilon is not None:
        epsilon = check_epsilon(epsilon)
    rows = _public_rows(X)
    axes = whitened_axes(rows)
    most = _most_coordinates(axes, len(rows))
    if rank is None:
        rank = most if epsilon is None else choose_rank(most, classes, parties, epsilon, delta, mechanism)[0]
    transform = _coordinates(axes, rank, transform)
    grid: StatisticGrid | OwnDataGrid | VoteDirectionGrid
    if source == "votes":
        grid, pitch = _vote_grid(in_coordinates(rows, transform), classes)
        unit = pitch / (2.0**_CONTRAST_BITS * len(rows) * parties)
    else:
        grid = _direction_grid(source, rows, transform, classes, "l1" if mechanism == "discrete-laplace" else "l2")
        pitch, unit = 1 / grid.maximum, 1 / (grid.maximum * parties)
    l1, l2 = certified(grid_sensitivity(grid))
    noise = None if epsilon is None else _noise(mechanism, joint, l1.value, l2.value, epsilon, delta, grid.length)
    # Rounding moves the normalised T by at most a pitch per entry; the noise must dwarf it.
    if epsilon is not None and pitch > l2.value / epsilon * unit:
        raise InvalidParameter(
            f"numbers rounded to {pitch:g} are too coarse for noise of about {l2.value / epsilon * unit:g}; with "
            f"{parties} parties choose a smaller epsilon"
        )
    reach = (l1 if mechanism == "discrete-laplace" else l2).value * unit
    spread = 0.0 if epsilon is None else _noise_energy(grid.length, reach, epsilon, delta, mechanism)
    return StatisticPlan(
        grid=grid,
        transform=transform,
        classes=classes,
        unit=unit,
        parties=parties,
        l1=l1,
        l2=l2,
        epsilon=epsilon,
        delta=delta if mechanism == "gaussian" else 0.0,
        mechanism=noise,
        self_training=SelfTraining(rows, axes),
        noise=spread,
        joint=joint,
    )


def _public_rows(X: Array) -> Array:
    """Check public features (N, d) and return them at unit length."""
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.size == 0 or not np.all(np.isfinite(X)):
        raise DataError(f"auxiliary features must be a non-empty finite matrix (samples, width); got shape {X.shape}")
    if np.all(X[0] == X):
        raise DataError("all auxiliary samples are the same, so no classifier can be learned from them; collect others")
    return unit_rows(X)


def _coordinates(axes: Array, rank: int, transform: Array | None) -> Array:
    """Return the agreed coordinates (d, r), or the first `rank` of the whitened axes (d, R) where none are agreed."""
    features, directions = axes.shape
    if transform is None:
        if not 1 <= rank <= directions:
            raise DataError(f"the auxiliary features have {directions} independent directions, and rank is {rank}")
        return axes[:, :rank]
    if transform.ndim != 2 or len(transform) != features:
        raise DataError(f"a transform of shape {transform.shape} does not fit {features} features")
    return transform


def _direction_grid(
    source: Source, rows: Array, transform: Array, classes: int, norm: Norm
) -> OwnDataGrid | VoteDirectionGrid:
    """Return the grid of directions of votes on the public rows (N, d), or of own rows."""
    if source in ("own-data", "whitened"):
        return OwnDataGrid(transform, classes, source, norm)
    return VoteDirectionGrid(in_coordinates(rows, transform), classes, norm)


def _vote_grid(Z: Array, classes: int) -> tuple[StatisticGrid, float]:
    """Return the integer grid of votes on the points Z (N, r), and the pitch of a point's coordinates."""
    pitch = math.ldexp(1.0, min(0, math.frexp(float(np.abs(Z).max()))[1]) - _FEATURE_BITS)
    contrast = np.rint(contrast_basis(classes) * 2.0**_CONTRAST_BITS).astype(np.int64)
    return StatisticGrid(np.floor(Z / pitch + 0.5).astype(np.int64), contrast), pitch


def _noise(
    name: MechanismName, joint: bool, l1: float, l2: float, epsilon: float, delta: float, dimension: int
) -> NoiseMechanism:
    """Return the mechanism for a sum with these sensitivities, all in lattice units."""
    if name == "spherical-laplace":
        return SphericalLaplace.for_epsilon(l2, epsilon, dimension, 1.0)
    if name == "discrete-laplace":
        return joint_noise("l1", l1, epsilon, delta, dimension)
    if joint:
        return joint_noise("l2", l2, epsilon, delta, dimension)
    return RoundedGaussian.for_epsilon_delta(l2, epsilon, delta, dimension, 1.0)


def direction_signs(directions: Array) -> Array:
    """Return by which signs the columns of `directions` (d, r) are multiplied, float64 (r,): eigh does not fix them.

    They make the first of the entries positive that are the largest but for rounding, which is another machine's too.
    """
    sizes = np.abs(directions)
    first = np.argmax(sizes > (1 - 1e-6) * sizes.max(axis=0), axis=0)
    signs: Array = np.sign(directions[first, np.arange(directions.shape[1])])
    return signs


def principal_directions(rows: Array) -> tuple[Array, Array, float]:
    """Return the principal directions of the rows' uncentred second moment, largest first.

    Returns:
        The moments (d,), the directions with their signs (d, d), and the share of Ledoit and Wolf's shrinkage.
    """
    from sklearn.covariance import ledoit_wolf_shrinkage  # imported here because it takes about a second

    value, vector = np.linalg.eigh(rows.T @ rows / len(rows))
    share = float(ledoit_wolf_shrinkage(rows, assume_centered=True))
    value, vector = value[::-1], vector[:, ::-1]
    return value, vector * direction_signs(vector), share


def whitened_axes(rows: Array) -> Array:
    """Return the principal directions (d, r) of `rows`, each divided by the root of its moment.

    Small moments are raised as Ledoit-Wolf shrinkage would raise them; large ones are unchanged, so that rho <= 1.
    Directions without any weight in the rows are left out.
    """
    value, directions, share = principal_directions(rows)
    available = int((value > _NUMERICAL_RANK * value[0]).sum())
    raised = np.maximum(value, (1 - share) * value + share * value.mean())
    axes: Array = directions[:, :available] / np.sqrt(raised[:available])
    return axes


def release_total(plan: StatisticPlan, total: Sequence[int]) -> StatisticRelease:
    """Decode a sum (`for_ballots` of the plan where parties are absent) that carries its noise, or is to have none."""
    contrasts = plan.values(total).reshape(plan.classes - 1, -1)
    T: Array = contrast_basis(plan.classes).T @ contrasts * plan.unit
    return StatisticRelease(plan, T)


def release_sum(total: Sequence[int], plan: StatisticPlan, randomness: Randomness = SYSTEM) -> StatisticRelease:
    """Add the plan's noise to an exact sum and decode it; arguments as `release_total`."""
    if plan.mechanism is not None and len(total) == plan.dimension:
        total = [t + e for t, e in zip(total, plan.mechanism.sample(randomness), strict=True)]
    return release_total(plan, total)


def total_of(counts: NDArray[np.integer], plan: StatisticPlan) -> list[int]:
    """Return the exact sum of a statistic of votes, from a tally's counts (N, K); raises as `release_statistic`."""
    if not isinstance(plan.grid, StatisticGrid):
        raise InvalidParameter("this plan is for own rows or directions, so counts of votes do not fit it")
    return plan.grid.total(check_counts(counts, plan.parties))


def release_statistic(
    counts: NDArray[np.integer], plan: StatisticPlan, randomness: Randomness = SYSTEM
) -> StatisticRelease:
    """Release the statistic of votes from a tally's counts, integers (N, K), as `release_sum`."""
    return release_sum(total_of(counts, plan), plan, randomness)


def fit_statistic(release: StatisticRelease) -> Array:
    """Return the classifier of a released statistic: float64 (d,) for two classes, (K, d) for more.

    For three classes or more this is the self-trained classifier, where it is accepted; otherwise T after Wiener's
    filter.
    """
    plan = release.plan
    noise = 0.0 if plan.mechanism is None else plan.noise
    if plan.classes > 2:
        laplace = isinstance(plan.mechanism, DiscreteLaplace)
        self_trained = plan.self_training.learn(release.T, plan.transform, noise, laplace=laplace)
        if self_trained is not None:
            return self_trained
    W: Array = wiener_filter(release.T, noise) @ plan.transform.T
    return W[1] - W[0] if plan.classes == 2 else W


def wiener_filter(T: Array, noise: float) -> Array:
    """Multiply every coordinate of a release (K, r) by its expected share of signal (Wiener's filter). Post-processing.

    The signal's energy is estimated as ||T||^2 - E||noise||^2, but at least a twentieth of ||T||^2, and assumed to fall
    with the number j of the coordinate like 1/j.
    """
    energy = float(np.sum(T**2))
    signal = 1 / np.arange(1, T.shape[1] + 1)
    signal *= max(energy - noise, _LEAST_SIGNAL * energy) / signal.sum()
    each = noise / T.shape[1]
    filtered: Array = T * (signal / (signal + each) if energy > 0 else 1.0)
    return filtered
