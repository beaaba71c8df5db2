"""The statistic release: noise on a linear statistic of votes or of own rows; everything after it is post-processing.

**Of votes**: T = (1/N) sum_i (alpha(x_i) - 1/K) (x) z_i. For the logistic and softmax losses the soft labels enter
Hamm's weighted risk only through T, which is linear in the votes; the auxiliary features are public, so once T is
private the fit is free: no 1/lambda in the noise, no solver tolerance in the proof, any kind of local classifier.
**Of own data**: T = (1/M) sum_m S_m/||S_m|| with S_m = sum (e_y - 1/K) (x) z over party m's own rows
(`psephos.protocol.encrypted_sum.own_data`): one vector of norm 1 each, which is worth more than votes where rows are
few, and asks that what is learned be linear. **Whitened**: the same with the coefficients of a classifier that the
party trained in these coordinates in the place of S_m.

T is taken in public coordinates z = A' x/||x|| with A = V_r diag(s_r)^(-1/2): the leading r principal directions of the
(uncentred) second moment of the auxiliary rows at unit length, s the moments, the small ones raised towards their mean
as far as Ledoit and Wolf (2004) advise for so few rows. Every direction then weighs about the same, and the noise is
spread where the data is. A linear classifier without intercept decides the same for x and x/||x||, so the unit length
costs nothing when it is used. The class index is taken in K - 1 orthonormal contrasts, because the sum over classes is
public. All of it is rounded to integers, and the certified sensitivity is that of those integers.

The classifier is W = T A': in whitened coordinates the least-squares classifier, Fisher's discriminant, is T itself up
to scale, and the minimisers of the logistic and softmax risks were measured to predict the same. What noise has
covered is first taken out (`Student`, `wiener_filter`).

**Rules, of public quantities only** (X, M, K, epsilon, delta, mechanism), and of the release itself:

* `rank` r minimises  E||noise||^2 (r)  +  (1 - 1/K) / (2 r).  The first term is known exactly, with the sensitivity of
  votes. The second is what labels are expected to lose by dropping coordinates beyond r: they carry at most 1 - 1/K,
  and their energy at the j-th principal coordinate is taken to fall like 1/(2 j^2). r is at least K/2 + 2 and at most
  N/10, ten rows for each coordinate. With the spherical Laplace the noise norm grows with the dimension, so few
  coordinates at small epsilon is the main gain.
* `quieter_noise`: a pure epsilon is an (epsilon, delta) as well, and below some 13 entries the spherical Laplace is
  the quieter of the two. Where a delta is accepted, the release takes whichever has the smaller sum above.
* `Student`: self-training on the public rows, for three classes or more and where half of the release bears out what
  the other half teaches (there); else `wiener_filter`. Both are post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from psephos.curator.checks import rounded_up
from psephos.curator.hamm.labels import check_counts
from psephos.curator.hamm.sensitivity import Sensitivity, operator_norm
from psephos.protocol.encrypted_sum.own_data import OWN, Own, OwnDataGrid, contrast_basis, in_coordinates, unit_rows
from psephos.protocol.encrypted_sum.statistic_grid import StatisticGrid
from psephos.protocol.errors import DataError, GridTooCoarseError, InvalidParameter
from psephos.protocol.privacy.accounting import PrivacyEvent, approximate_event, event_of, pure_event
from psephos.protocol.privacy.mechanisms import (
    SAMPLER_DISTANCE,
    DiscreteLaplace,
    Mechanism,
    RoundedGaussian,
    Skellam,
    SphericalLaplace,
    check_epsilon,
    gaussian_sigma,
    simulate_gaussian,
    simulate_laplace,
    simulate_spherical_laplace,
    skellam_variance,
)
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness

Array = NDArray[np.float64]
MechanismName = Literal["spherical-laplace", "discrete-laplace", "gaussian"]
Source = Literal["votes"] | Own

MECHANISMS: tuple[MechanismName, ...] = ("spherical-laplace", "discrete-laplace", "gaussian")
"""The noise `plan_statistic` can plan: the first two for a pure epsilon, the last for (epsilon, delta)."""

SOURCE_OF: Mapping[str, Source] = {"statistic": "votes", **{own: own for own in OWN}}
"""By method, what the statistic is of: votes on the public rows, the parties' own rows, or classifiers trained on them.
"""

_SIGNAL = 0.5
_ROWS_PER_COORDINATE = 10
_BETWEEN = 0.8
_TELLING = 0.95
_LEAST_SIGNAL = 0.05
_LESSONS = 5
_SPLITS = 4
_CONTRAST_BITS = 16
_FEATURE_BITS = 24
_NUMERICAL_RANK = 1e-9


@cache
def public_splits(shape: tuple[int, int], *, laplace: bool) -> Array:
    """Public vectors by which a release is split, in units of the noise's standard deviation per entry.

    Args:
        shape: of the released contrasts, (K - 1, r).
        laplace: whether entries follow the Laplace law, as the discrete Laplace noise that parties add; otherwise the
            Gaussian, which also stands for the spherical Laplace law.

    Returns:
        float64 (4, K - 1, r), scaled so that the mean squared entry is 1. Drawn from a seeded stream of this library,
        so that they are the same with every version of NumPy; no secret rests on them.
    """
    coins = SimulationRandomness(0, "splits of a release")
    uniform = np.array([(coins.bits(53) + 0.5) * 2.0**-53 for _ in range(_SPLITS * shape[0] * shape[1])])
    entries = -np.sign(uniform - 0.5) * np.log1p(-2 * np.abs(uniform - 0.5)) if laplace else ndtri(uniform)
    vectors: Array = (entries / math.sqrt(float(np.mean(entries**2)))).reshape(_SPLITS, *shape)
    return vectors


@dataclass(frozen=True, eq=False)
class Student:
    """Self-training on the public rows: post-processing, so free.

    The released classifier W_0 = T A' labels the public rows, and Fisher's discriminant learns from these labels in all
    coordinates there are. It takes out noise in directions along which the rows do not cluster, and weighs the class
    means by what is left within the classes, which least squares does not. Then again, with W_0 kept in: scores of the
    classifier are a times those of W_0 and 1 - a times those of the last discriminant, each at variance 1, where a =
    s^2/2 and s is the share of ||T||^2 that is not noise, 1 - E||noise||^2/||T||^2 or 0.

    Of classes that overlap it would learn the errors: its labels drift to the clusters there are. So it is tried on
    what it has not seen. With g as large as the noise, T + g and T - g have uncorrelated noise, and what one of them
    teaches the other can judge. u being the length of the other along the labels' own statistic, that of votes: the
    student is taken if u of its labels is at least 0.95 of u of those that W_0 gives, but for a standard deviation of
    the noise. Both ways, and averaged over the public vectors g of `public_splits`; docs/theory.md, "Self-training",
    has the bias that is left.

    `rows`: float64 (N, d), unit length. `transform`: (d, r), every whitened coordinate there is.
    """

    rows: Array = field(repr=False)
    transform: Array = field(repr=False)

    def learn(self, T: Array, transform: Array, noise: float, *, laplace: bool = False) -> Array | None:
        """The classifier (K, d) of a release T (K, r) in the coordinates `transform` (d, r); None: it is not taken.

        `noise`: E||noise||^2; `laplace`: whether its entries follow the Laplace law.
        """
        deviation = math.sqrt(noise / T[1:].size)
        basis, splits = contrast_basis(len(T)).T, public_splits((len(T) - 1, T.shape[1]), laplace=laplace)
        halves = [basis @ (sign * deviation * g) for g in splits for sign in (1.0, -1.0)]
        by_student, by_release = np.mean([self._told(T + g, T - g, transform, 2 * noise) for g in halves], axis=0)
        if by_student < _TELLING * by_release - deviation:
            return None
        return self._taught(T, transform, noise)

    def _told(self, seen: Array, other: Array, transform: Array, noise: float) -> list[float]:
        """u of the labels that the student of what was seen gives, and of those it gives itself."""
        lengths = []
        for W in (self._taught(seen, transform, noise), seen @ transform.T):
            own = self._labels(W).T @ (self.rows @ transform)
            own -= own.mean(axis=0)
            norm = float(np.linalg.norm(own))
            lengths.append(float(np.sum(own * other)) / norm if norm > 0 else 0.0)
        return lengths

    def _taught(self, T: Array, transform: Array, noise: float) -> Array:
        first = T @ transform.T
        energy = float(np.sum(T**2))
        signal = max(0.0, 1 - noise / energy) if energy > 0 else 0.0
        anchor, learned = signal**2 / 2, first
        for _ in range(_LESSONS):
            learned = anchor * self._scaled(first) + (1 - anchor) * self._scaled(self.refit(learned))
        return learned

    def refit(self, W: Array) -> Array:
        """The discriminant (K, d) of the labels that the classifier W (K, d) gives to the public rows.

        Class means through the inverse of their within-class moment. Labels that a classifier gave itself separate
        better than true ones, so of the moment between classes only `_BETWEEN` is taken off.
        """
        labels = self._labels(W)
        counts = labels.sum(axis=0)
        means = labels.T @ self.rows @ self.transform / np.maximum(counts, 1.0)[:, None]
        within = np.eye(means.shape[1]) - _BETWEEN * (means.T * (counts / len(self.rows))) @ means
        learned = np.linalg.solve(within, means.T).T @ self.transform.T
        centred: Array = learned - learned.mean(axis=0)
        return centred

    def _labels(self, W: Array) -> Array:
        """One-hot (N, K): what W says of the public rows."""
        one_hot: Array = np.eye(len(W))[(self.rows @ W.T).argmax(axis=1)]
        return one_hot

    def _scaled(self, W: Array) -> Array:
        spread = float(np.std(self.rows @ W.T))
        return W / spread if spread > 0 else W


@dataclass(frozen=True, eq=False)
class StatisticPlan:
    """Everything public about one statistic release, agreed before anybody votes or sums.

    grid: what one party contributes, in integers that parties and curator sum. transform: (d, r), coordinates are those
    of rows at unit length times it. classes: K. unit: what one unit of the summed integers is worth in the contrasts of
    T. l1, l2: certified sensitivities of the sum, in its own units, whatever M. mechanism: the noise, in the same
    units; None releases without noise. student: who learns from the release. noise: E||noise||^2 in T. joint: parties
    add the noise.
    """

    grid: StatisticGrid | OwnDataGrid
    transform: Array = field(repr=False)
    classes: int
    unit: float
    parties: int
    l1: Sensitivity
    l2: Sensitivity
    epsilon: float | None
    delta: float
    mechanism: Mechanism | None
    student: Student
    noise: float
    joint: bool = False

    @property
    def rank(self) -> int:
        """r, the number of coordinates released per contrast."""
        return int(self.transform.shape[1])

    @property
    def dimension(self) -> int:
        """(K - 1) r."""
        return self.grid.length

    @property
    def source(self) -> Source:
        """What the statistic is of."""
        return self.grid.source if isinstance(self.grid, OwnDataGrid) else "votes"

    @property
    def sensitivity(self) -> Sensitivity:
        """Of T, in the norm of the mechanism. In L2: about sqrt(2) rho/M of votes, 2/M of own data."""
        bound = self.l1 if isinstance(self.mechanism, DiscreteLaplace) else self.l2
        return Sensitivity(bound.value * self.unit, norm=bound.norm, source=bound.source)

    @property
    def event(self) -> PrivacyEvent:
        """What releasing under this plan costs a party. Raises InvalidParameter when the plan is one without noise."""
        if self.mechanism is None or self.epsilon is None:
            raise InvalidParameter("this plan has no noise, so it has no privacy event; give plan_statistic an epsilon")
        name = {"votes": "statistic", "own-data": "own-data statistic", "whitened": "whitened average"}[self.source]
        if isinstance(self.mechanism, Skellam):
            sampler = (1 + math.exp(self.epsilon)) * SAMPLER_DISTANCE
            return approximate_event(name, self.epsilon, self.delta + sampler)
        if self.joint:
            return pure_event(name, self.epsilon, distance=SAMPLER_DISTANCE)
        bound = self.l1 if isinstance(self.mechanism, DiscreteLaplace) else self.l2
        return event_of(name, self.mechanism, bound.value, self.epsilon)


@dataclass(frozen=True, eq=False)
class StatisticRelease:
    """A released statistic. `T`: float64 (K, r) in the plan's coordinates, summing to 0 over the classes.

    `private` says whether the noise protects anybody: no for a plan without a mechanism and for simulated noise.
    """

    plan: StatisticPlan = field(repr=False)
    T: Array = field(repr=False)
    private: bool
    noise_source: str


def grid_sensitivity(grid: StatisticGrid | OwnDataGrid) -> tuple[Sensitivity, Sensitivity]:
    """Certified (L1, L2) sensitivity of the summed integer vector when one party is replaced by any other.

    Own data: two points of the ball of radius 2^24 are at most 2^25 apart, in L1 at most sqrt(D) times that. Votes: the
    change is contrast @ Delta' @ points with rows of Delta of the form e_a - e_b, so its Frobenius norm is at most
    max_ab ||contrast (e_a - e_b)|| sqrt(N) ||points||_op. In L1 it is at most sqrt(D) times that, and at most
    max_ab ||contrast (e_a - e_b)||_1 times the sum of the points' L1 norms. In lattice units. Raises InvalidParameter
    when an entry of the grid is 2^53 or more, which float64 cannot hold exactly.
    """
    if isinstance(grid, OwnDataGrid):
        diameter = 2.0 * grid.maximum
        across = diameter * math.sqrt(grid.length) * (1 + 2.0**-50)
        source = "two points of the unit ball"
        return Sensitivity(across, norm="l1", source=f"sqrt(D) 2/M, {source}"), Sensitivity(
            diameter, source=f"2/M, {source}"
        )
    points = grid.points.astype(np.float64)
    if np.abs(grid.points).max() >= 2**53:
        raise InvalidParameter("the grid is too fine to be certified: entries pass 2^53; use fewer feature bits")
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


def choose_rank(  # the release's public terms
    most: int, classes: int, parties: int, epsilon: float, delta: float, mechanism: MechanismName
) -> int:
    """The number of whitened coordinates to release, at most `most`, by the module's rule; of public quantities only.

    Raises InvalidParameter for an epsilon or delta out of range.
    """

    costs = [_cost(r, classes, parties, epsilon, delta, mechanism) for r in range(1, most + 1)]
    return max(costs.index(min(costs)) + 1, min(classes // 2 + 2, most))


def quieter_noise(  # wide: the release's public terms
    X: Array, classes: int, parties: int, *, epsilon: float, delta: float, joint: bool = False
) -> MechanismName:
    """Which noise, where (epsilon, delta) is accepted: the pure one if the module's rule expects less of it.

    The parameters are those of `plan_statistic`, which does not choose by itself; so are the errors.
    """
    most = _most_coordinates(_whitened_axes(_public_rows(X)), len(X))
    pure: MechanismName = "discrete-laplace" if joint else "spherical-laplace"

    def cost(mechanism: MechanismName) -> float:
        rank = choose_rank(most, classes, parties, epsilon, delta, mechanism)
        return _cost(rank, classes, parties, epsilon, delta, mechanism)

    return pure if cost(pure) < cost("gaussian") else "gaussian"


def _cost(  # the release's public terms
    rank: int, classes: int, parties: int, epsilon: float, delta: float, mechanism: MechanismName
) -> float:
    noise = _noise_energy((classes - 1) * rank, math.sqrt(2) / parties, epsilon, delta, mechanism)
    return noise + _SIGNAL * (1 - 1 / classes) / rank


def _noise_energy(dimension: int, reach: float, epsilon: float, delta: float, mechanism: MechanismName) -> float:
    """E||noise||^2 of a vector of that dimension whose L2 sensitivity is `reach`."""
    if mechanism == "gaussian":
        return dimension * gaussian_sigma(reach, epsilon, delta) ** 2
    spread = dimension + 1 if mechanism == "spherical-laplace" else 2 * dimension  # the latter calibrated in L1
    return dimension * spread * (reach / check_epsilon(epsilon)) ** 2


def with_joint_noise(plan: StatisticPlan, contributors: int) -> StatisticPlan:
    """The plan with the energy of the noise that all parties add in shares of which `contributors` make up the law."""
    return replace(plan, noise=plan.noise * plan.parties / contributors)


def _most_coordinates(axes: Array, samples: int) -> int:
    return max(1, min(int(axes.shape[1]), samples // _ROWS_PER_COORDINATE))


def public_coordinates(X: Array, rank: int = 12) -> Array:
    """Coordinates (d, r) of the public features X (N, d), for learners that vote: what `plan_statistic` takes them in.

    r = `rank` or, of few rows, what there is for ten rows each. Raises DataError for a constant matrix.
    """
    axes = _whitened_axes(_public_rows(X))
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
    """The public plan of a statistic release.

    Parameters: X, float64 (N, d), the public auxiliary features (any norm: rows are taken at unit length); M =
    `parties`; epsilon None plans a release without noise; delta is used by `gaussian` only. source: of `SOURCE_OF`.
    rank: None takes the rule above. transform: (d, r), agreed
    coordinates in place of the rule's, of which no two processors make the same to the last bit; the sensitivity is
    certified for whatever they are. joint: the parties add the noise in shares (`psephos.parties.noise`), so `gaussian`
    means Skellam and `spherical-laplace` is refused: rounded shares do not sum to it.

    Raises DataError for a constant auxiliary matrix or one that has fewer directions than asked for, InvalidParameter
    for anything out of range, GridTooCoarseError when rounding is not small beside the noise.
    """
    for name, chosen, known in (("mechanism", mechanism, MECHANISMS), ("source", source, SOURCE_OF.values())):
        if chosen not in known:
            raise InvalidParameter(f"the {name} is {chosen!r}; it must be one of {', '.join(known)}")
    if classes < 2 or parties < 1:
        raise InvalidParameter(f"a statistic needs at least 2 classes and 1 party, not {classes} and {parties}")
    if joint and mechanism == "spherical-laplace":
        raise InvalidParameter(
            "parties cannot add spherical Laplace noise in shares: rounded shares do not sum to the rounded law. "
            "Choose discrete-laplace (pure epsilon) or gaussian (Skellam)"
        )
    if epsilon is not None:
        epsilon = check_epsilon(epsilon)
    rows = _public_rows(X)
    axes = _whitened_axes(rows)
    most = _most_coordinates(axes, len(rows))
    if rank is None:
        rank = most if epsilon is None else choose_rank(most, classes, parties, epsilon, delta, mechanism)
    if transform is None:
        if not 1 <= rank <= axes.shape[1]:
            raise DataError(
                f"{rank} coordinates were asked for and the auxiliary features have {axes.shape[1]} independent "
                "directions; lower the rank, or leave it out"
            )
        transform = axes[:, :rank]
    elif transform.ndim != 2 or len(transform) != rows.shape[1]:
        raise DataError(f"coordinates of shape {transform.shape} are not those of {rows.shape[1]} features")
    grid: StatisticGrid | OwnDataGrid
    if source != "votes":
        grid = OwnDataGrid(transform, classes, source)
        pitch, unit = 1 / grid.maximum, 1 / (grid.maximum * parties)
    else:
        grid, pitch = _vote_grid(in_coordinates(rows, transform), classes)
        unit = pitch / (2.0**_CONTRAST_BITS * len(rows) * parties)
    l1, l2 = (replace(bound, value=rounded_up(bound.value)) for bound in grid_sensitivity(grid))
    noise = None if epsilon is None else _noise(mechanism, joint, l1.value, l2.value, epsilon, delta, grid.length)
    # Rounding moves the normalised T by at most a pitch per entry; the noise must dwarf it.
    if epsilon is not None and pitch > l2.value / epsilon * unit:
        raise GridTooCoarseError(
            f"numbers rounded to {pitch:g} are too coarse for noise of about {l2.value / epsilon * unit:g}; with "
            f"{parties} parties choose a smaller epsilon"
        )
    spread = 0.0 if epsilon is None else _noise_energy(grid.length, l2.value * unit, epsilon, delta, mechanism)
    spent, student = delta if mechanism == "gaussian" else 0.0, Student(rows, axes)
    return StatisticPlan(grid, transform, classes, unit, parties, l1, l2, epsilon, spent, noise, student, spread, joint)


def _public_rows(X: Array) -> Array:
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.size == 0 or not np.all(np.isfinite(X)):
        raise DataError(f"auxiliary features must be a non-empty finite matrix (samples, width); got shape {X.shape}")
    if np.all(X[0] == X):
        raise DataError("all auxiliary samples are the same, so no classifier can be learned from them; collect others")
    return unit_rows(X)


def _vote_grid(Z: Array, classes: int) -> tuple[StatisticGrid, float]:
    """The grid of votes on the points Z (N, r), and what one unit of a point stands for."""
    pitch = math.ldexp(1.0, min(0, math.frexp(float(np.abs(Z).max()))[1]) - _FEATURE_BITS)
    contrast = np.rint(contrast_basis(classes) * 2.0**_CONTRAST_BITS).astype(np.int64)
    return StatisticGrid(np.floor(Z / pitch + 0.5).astype(np.int64), contrast), pitch


def _noise(
    name: MechanismName, joint: bool, l1: float, l2: float, epsilon: float, delta: float, dimension: int
) -> Mechanism:
    """The mechanism for sums of these sensitivities, in units of the lattice."""
    if name == "spherical-laplace":
        return SphericalLaplace.for_epsilon(l2, epsilon, dimension, 1.0)
    if name == "discrete-laplace":
        return DiscreteLaplace.for_epsilon(l1, epsilon, dimension, 1.0)
    if joint:
        return Skellam(dimension, skellam_variance(l1, l2, epsilon, delta))
    return RoundedGaussian.for_epsilon_delta(l2, epsilon, delta, dimension, 1.0)


def _whitened_axes(rows: Array) -> Array:
    """The principal directions (d, r) of the (uncentred) second moment of `rows`, each over the root of its moment.

    Small moments are raised as shrinking would have it; large ones stay, so that rho <= 1. Directions without any
    weight in the rows are left out.
    """
    from sklearn.covariance import ledoit_wolf_shrinkage  # a second to import

    value, vector = np.linalg.eigh(rows.T @ rows / len(rows))
    value, vector = value[::-1], vector[:, ::-1]
    available = int((value > _NUMERICAL_RANK * value[0]).sum())
    signs = np.sign(vector[np.argmax(np.abs(vector), axis=0), np.arange(len(value))])  # eigh leaves them open
    share = float(ledoit_wolf_shrinkage(rows, assume_centered=True))
    raised = np.maximum(value, (1 - share) * value + share * value.mean())
    axes: Array = (vector * signs)[:, :available] / np.sqrt(raised[:available])
    return axes


def _decode(plan: StatisticPlan, units: list[int], ballots: int) -> Array:
    """(K, r) T from the summed integer vector of contrasts."""
    contrasts = np.array([float(v) for v in units]).reshape(plan.classes - 1, -1)
    T: Array = contrast_basis(plan.classes).T @ contrasts * (plan.unit * plan.parties / ballots)
    return T


def release_total(plan: StatisticPlan, total: list[int], ballots: int | None = None) -> StatisticRelease:
    """From a summed integer vector that already carries its noise (`--reveal statistic`), or is meant to have none.

    `total`: `plan.dimension` integers, in lattice units. `ballots`: how many parties were counted, if fewer than
    planned (the sensitivity in units does not depend on it). Raises DataError for a total of another length.
    """
    _check_length(total, plan)
    return StatisticRelease(plan, _decode(plan, total, ballots or plan.parties), plan.mechanism is not None, "shares")


def release_sum(total: list[int], plan: StatisticPlan, randomness: Randomness = SYSTEM) -> StatisticRelease:
    """From an exact sum of `plan.dimension` integers, in lattice units: the curator adds the plan's noise.

    Raises DataError for a sum of another length.
    """
    _check_length(total, plan)
    if plan.mechanism is not None:
        total = [t + e for t, e in zip(total, plan.mechanism.sample(randomness), strict=True)]
    return StatisticRelease(plan, _decode(plan, total, plan.parties), plan.mechanism is not None, "system")


def release_statistic(
    counts: NDArray[np.integer], plan: StatisticPlan, randomness: Randomness = SYSTEM
) -> StatisticRelease:
    """`release_sum` from the counts (N, K) of a tally. Raises DataError where they do not fit the plan."""
    return release_sum(_total(counts, plan), plan, randomness)


def simulate_release(
    counts: NDArray[np.integer], plan: StatisticPlan, generator: np.random.Generator
) -> StatisticRelease:
    """As `release_statistic` with seeded floating-point noise: for simulations only, private to nobody.

    `counts`: integers (N, K). Raises DataError where they do not fit the plan.
    """
    total = _total(counts, plan)
    noise = np.zeros(plan.dimension)
    if isinstance(plan.mechanism, SphericalLaplace):
        noise = simulate_spherical_laplace(plan.dimension, plan.mechanism.scale, generator)
    elif isinstance(plan.mechanism, DiscreteLaplace):
        noise = simulate_laplace(plan.dimension, float(plan.mechanism.scale_units), generator)
    elif isinstance(plan.mechanism, RoundedGaussian):
        noise = simulate_gaussian(plan.dimension, plan.mechanism.sigma, generator)
    elif isinstance(plan.mechanism, Skellam):
        noise = simulate_gaussian(plan.dimension, math.sqrt(plan.mechanism.variance), generator)
    noisy = [t + round(e) for t, e in zip(total, noise.tolist(), strict=True)]
    return StatisticRelease(plan, _decode(plan, noisy, plan.parties), False, "simulated")


def _total(counts: NDArray[np.integer], plan: StatisticPlan) -> list[int]:
    if not isinstance(plan.grid, StatisticGrid):
        raise InvalidParameter("this plan is for the parties' own rows, which no counts can tell: give their sum")
    return plan.grid.total(check_counts(counts, plan.parties))


def _check_length(total: list[int], plan: StatisticPlan) -> None:
    if len(total) != plan.dimension:
        raise DataError(f"the summed statistic has {len(total)} entries and the plan {plan.dimension}")


def fit_statistic(release: StatisticRelease) -> Array:
    """The classifier of a released statistic, its student's or its own: float64 (d,) binary or (K, d)."""
    plan = release.plan
    noise = 0.0 if plan.mechanism is None else plan.noise
    if plan.classes > 2:
        laplace = isinstance(plan.mechanism, DiscreteLaplace)
        if (taught := plan.student.learn(release.T, plan.transform, noise, laplace=laplace)) is not None:
            return taught
    W: Array = wiener_filter(release.T, noise) @ plan.transform.T
    return W[1] - W[0] if plan.classes == 2 else W


def wiener_filter(T: Array, noise: float) -> Array:
    """A release T (K, r), every coordinate times its expected share of signal (Wiener's filter); `noise`: E||noise||^2.

    The signal's energy is ||T||^2 - E||noise||^2, or a twentieth of ||T||^2 where that is less, and taken to fall with
    the coordinates' number like 1/j. Post-processing.
    """
    energy = float(np.sum(T**2))
    signal = 1 / np.arange(1, T.shape[1] + 1)
    signal *= max(energy - noise, _LEAST_SIGNAL * energy) / signal.sum()
    each = noise / T.shape[1]
    kept: Array = T * (signal / (signal + each) if energy > 0 else 1.0)
    return kept
