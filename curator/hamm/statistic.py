"""The statistic release: noise on T = (1/N) sum_i alpha(x_i) (x) x_i, everything after it is post-processing.

For the logistic and softmax losses the soft labels enter the weighted risk only through T, which is linear in the
votes:  R(W) = (1/N) sum_i logsumexp(W x_i) - ⟨W, T⟩ + (ridge/2) ||W||^2.  The auxiliary features are public, so once T
is private the fit is free: no 1/lambda in the noise, no solver tolerance in the proof, any kind of local classifier.

T is taken in public coordinates z. `given` is z = x. `whitened` is z = A' x/||x|| with A = V_r diag(s_r)^(-1/2): the
leading r principal directions of the (uncentred) second moment of the auxiliary rows at unit length, each scaled to
second moment 1. There rho = 1 and the noise is spread where the data is. A linear classifier without intercept
decides the same for x and x/||x||, so the unit length costs nothing when it is used, and in the fit it keeps a few
long rows from ruling (HAR with max-norm scaling gains 0.01 to 0.02 at every epsilon). The z_i are rounded to integers
(`StatisticGrid`), and all that follows, the certified sensitivity and the fit included, uses those integers. The
class index is taken in K - 1 orthonormal contrasts, because the sum over classes is public.

**Rules, of public quantities only** (X, M, K, epsilon, delta, mechanism):

* `ridge` = 1 in whitened coordinates. Every coordinate has second moment 1, so W is close to a multiple of the noisy
  T (regression on whitened features), and the result hardly depends on it: 0.3 to 10 agree within noise. In the given
  coordinates it is the larger of 1e-4 (Hamm's lambda) and E||noise|| / 10.
* `rank` r minimises  E||noise||^2 (r)  +  (1 - 1/K) / (4 r).  The first term is known exactly. The second is what the
  labels are expected to lose by dropping coordinates beyond r: they carry at most 1 - 1/K, and their energy at the
  j-th principal coordinate is taken to fall like 1/(4 j^2). r is at least 3, at most the numerical rank. With the
  spherical Laplace the noise norm grows with the dimension, so few coordinates at small epsilon is the main gain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from psephos.curator.hamm.labels import check_counts
from psephos.curator.hamm.release import contrast_basis
from psephos.curator.hamm.sensitivity import Sensitivity, operator_norm, rho, statistic
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
    check_delta,
    check_epsilon,
    gaussian_sigma,
    simulate_gaussian,
    simulate_laplace,
    simulate_spherical_laplace,
    skellam_variance,
)
from psephos.protocol.randomness import SYSTEM, Randomness

__all__ = [
    "MECHANISMS",
    "RIDGE",
    "StatisticPlan",
    "StatisticRelease",
    "choose_rank",
    "fit_statistic",
    "grid_sensitivity",
    "plan_statistic",
    "release_statistic",
    "release_total",
    "simulate_release",
]

Array = NDArray[np.float64]
MechanismName = Literal["spherical-laplace", "discrete-laplace", "gaussian"]
Coordinates = Literal["given", "whitened"]

MECHANISMS: tuple[MechanismName, ...] = ("spherical-laplace", "discrete-laplace", "gaussian")
"""The noise `plan_statistic` can plan: the first two for a pure epsilon, the last for (epsilon, delta)."""

HAMM_LAMBDA = 1e-4
"""Hamm's lambda (section 6)."""

RIDGE = 1.0
"""The ridge of the fit in whitened coordinates; see the module's rules."""

_SIGNAL = 0.25
_LEAST_RANK = 3
_CONTRAST_BITS = 16
_NUMERICAL_RANK = 1e-9


@dataclass(frozen=True, eq=False)
class StatisticPlan:
    """Everything public about one statistic release, agreed before anybody votes.

    grid: the integers parties and curator sum. transform: (d, r), coordinates are x @ transform, of rows at unit length
    when `whitened`. pitch: the coordinate one unit of a point stands for. contrast_scale: units of one contrast.
    l1, l2: certified sensitivities of the summed integer vector, in its own units, whatever M. mechanism: the noise, in
    the same units; None releases without noise. ridge: of the fit, in these coordinates. joint: parties add the noise.
    """

    grid: StatisticGrid
    transform: Array
    pitch: float
    contrast_scale: float
    parties: int
    l1: Sensitivity
    l2: Sensitivity
    coordinates: Coordinates
    ridge: float
    epsilon: float | None
    delta: float
    mechanism: Mechanism | None
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
    def sensitivity(self) -> Sensitivity:
        """Of the normalised statistic, in the norm of the mechanism: close to sqrt(2) rho/M (times sqrt(D) in L1)."""
        bound = self.l1 if isinstance(self.mechanism, DiscreteLaplace) else self.l2
        return Sensitivity(bound.value * self.unit, norm=bound.norm, source=bound.source)

    @property
    def unit(self) -> float:
        """What one lattice unit of the sum is worth in the normalised contrasts of T."""
        return self.pitch / (self.contrast_scale * self.grid.samples * self.parties)

    @property
    def event(self) -> PrivacyEvent:
        """What releasing under this plan costs a party. Raises InvalidParameter when the plan is one without noise."""
        if self.mechanism is None or self.epsilon is None:
            raise InvalidParameter("this plan has no noise, so it has no privacy event; give plan_statistic an epsilon")
        name = "statistic"
        if isinstance(self.mechanism, Skellam):
            sampler = (1 + math.exp(self.epsilon)) * SAMPLER_DISTANCE
            return approximate_event(name, self.epsilon, self.delta + sampler)
        if self.joint:
            return pure_event(name, self.epsilon, distance=SAMPLER_DISTANCE)
        bound = self.l1 if isinstance(self.mechanism, DiscreteLaplace) else self.l2
        return event_of(name, self.mechanism, bound.value, self.epsilon)


@dataclass(frozen=True, eq=False)
class StatisticRelease:
    """A released statistic. `T`: float64 (K, r) in the plan's coordinates, rows summing to the public mean.

    `private` says whether the noise protects anybody: no for a plan without a mechanism and for simulated noise.
    """

    plan: StatisticPlan = field(repr=False)
    T: Array = field(repr=False)
    private: bool
    noise_source: str


def grid_sensitivity(grid: StatisticGrid) -> tuple[Sensitivity, Sensitivity]:
    """Certified (L1, L2) sensitivity of the summed integer vector when one party changes all its choices.

    The change is contrast @ Delta' @ points with rows of Delta of the form e_a - e_b, so its Frobenius norm is at most
    max_ab ||contrast (e_a - e_b)|| sqrt(N) ||points||_op. In L1 it is at most sqrt(D) times that, and at most
    max_ab ||contrast (e_a - e_b)||_1 times the sum of the points' L1 norms. In lattice units. Raises InvalidParameter
    when an entry of the grid is 2^53 or more, which float64 cannot hold exactly.
    """
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


def choose_rank(
    available: int, classes: int, parties: int, epsilon: float, delta: float, mechanism: MechanismName
) -> int:
    """The number of whitened coordinates to release, by the module's rule; a function of public quantities only.

    Raises InvalidParameter for an epsilon or delta out of range.
    """

    def cost(r: int) -> float:
        energy = _noise_energy((classes - 1) * float(r), math.sqrt(2) / parties, epsilon, delta, mechanism)
        return energy + _SIGNAL * (1 - 1 / classes) / r

    return max(min(range(1, available + 1), key=cost), min(_LEAST_RANK, available))


def _noise_energy(
    dimension: float, sensitivity: float, epsilon: float, delta: float, mechanism: MechanismName
) -> float:
    """E||noise||^2 of a mechanism calibrated to an L2 sensitivity in `dimension` dimensions."""
    if mechanism == "spherical-laplace":
        return dimension * (dimension + 1) * (sensitivity / epsilon) ** 2
    if mechanism == "discrete-laplace":
        return 2 * dimension * dimension * (sensitivity / epsilon) ** 2
    return dimension * gaussian_sigma(sensitivity, epsilon, delta) ** 2


def plan_statistic(
    X: Array,
    classes: int,
    parties: int,
    *,
    epsilon: float | None,
    delta: float = 1e-6,
    mechanism: MechanismName = "spherical-laplace",
    coordinates: Coordinates = "whitened",
    rank: int | None = None,
    ridge: float | None = None,
    feature_bits: int = 24,
    joint: bool = False,
) -> StatisticPlan:
    """The public plan of a statistic release.

    Parameters: X, float64 (N, d), the public auxiliary features (any norm: the sensitivity is computed from them);
    M = `parties`; epsilon None plans a release without noise; delta is used by `gaussian` only. rank and ridge: None
    takes the rules above (`given` keeps all d coordinates). feature_bits: fractional bits of the grid, relative to the
    largest coordinate rounded up to a power of two when that is below 1. joint: the parties add the noise in shares
    (`psephos.parties.noise`), so `gaussian` means Skellam and `spherical-laplace` is refused: rounded shares do not sum
    to it.

    Raises DataError for a constant auxiliary matrix or one that has fewer directions than asked for, InvalidParameter
    for anything out of range, GridTooCoarseError when rounding the features is not small beside the noise.
    """
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.size == 0 or not np.all(np.isfinite(X)):
        raise DataError(f"auxiliary features must be a non-empty finite matrix (samples, width); got shape {X.shape}")
    if classes < 2 or parties < 1:
        raise InvalidParameter(f"a statistic needs at least 2 classes and 1 party, not {classes} and {parties}")
    if mechanism not in MECHANISMS:
        raise InvalidParameter(f"the mechanism is {mechanism!r}; it must be one of {', '.join(MECHANISMS)}")
    if coordinates not in ("given", "whitened"):
        raise InvalidParameter(f"the coordinates are {coordinates!r}; they must be 'given' or 'whitened'")
    if joint and mechanism == "spherical-laplace":
        raise InvalidParameter(
            "parties cannot add spherical Laplace noise in shares: rounded shares do not sum to the rounded law. "
            "Choose discrete-laplace (pure epsilon) or gaussian (Skellam)"
        )
    if epsilon is not None:
        epsilon = check_epsilon(epsilon)
        if mechanism == "gaussian":
            check_delta(delta)
    if not 1 <= feature_bits <= 40:
        raise InvalidParameter(f"feature_bits is {feature_bits}; it must lie between 1 and 40")
    if len(X) < 2 or np.all(X[0] == X):
        raise DataError("all auxiliary samples are the same, so no classifier can be learned from them; collect others")
    if coordinates == "whitened":
        lengths = np.linalg.norm(X, axis=1, keepdims=True)
        X = X / np.where(lengths > 0, lengths, 1.0)
    transform, ridge = _coordinates(X, classes, parties, epsilon, delta, mechanism, coordinates, rank, ridge)
    Z = X @ transform
    pitch = math.ldexp(1.0, min(0, math.frexp(float(np.abs(Z).max()))[1]) - feature_bits)
    points = np.floor(Z / pitch + 0.5).astype(np.int64)
    if classes == 2:
        contrast, contrast_scale = np.array([[0, 1]], dtype=np.int64), 1.0
    else:
        contrast_scale = 2.0**_CONTRAST_BITS
        contrast = np.rint(contrast_basis(classes) * contrast_scale).astype(np.int64)
    grid = StatisticGrid(points, contrast)
    l1, l2 = grid_sensitivity(grid)
    noise: Mechanism | None = None
    if epsilon is not None:
        if mechanism == "spherical-laplace":
            noise = SphericalLaplace.for_epsilon(l2.value, epsilon, grid.length, 1.0)
        elif mechanism == "discrete-laplace":
            noise = DiscreteLaplace.for_epsilon(l1.value, epsilon, grid.length, 1.0)
        elif joint:
            noise = Skellam(grid.length, skellam_variance(l1.value, l2.value, epsilon, delta))
        else:
            noise = RoundedGaussian.for_epsilon_delta(l2.value, epsilon, delta, grid.length, 1.0)
        # Rounding a point moves the normalised T by at most pitch/2 per entry; the noise must dwarf that.
        spread = l2.value / epsilon / (contrast_scale * grid.samples * parties) * pitch
        if pitch > spread:
            raise GridTooCoarseError(
                f"features rounded to {pitch:g} are too coarse for noise of about {spread:g}; use more feature bits "
                f"than {feature_bits}"
            )
    return StatisticPlan(
        grid,
        transform,
        pitch,
        contrast_scale,
        parties,
        l1,
        l2,
        coordinates,
        ridge,
        epsilon,
        delta if mechanism == "gaussian" else 0.0,
        noise,
        joint,
    )


def _coordinates(
    X: Array,
    classes: int,
    parties: int,
    epsilon: float | None,
    delta: float,
    mechanism: MechanismName,
    coordinates: Coordinates,
    rank: int | None,
    ridge: float | None,
) -> tuple[Array, float]:
    """The transform (d, r) and the ridge of the fit."""
    if ridge is not None and not (math.isfinite(ridge) and ridge > 0):
        raise InvalidParameter(f"the ridge is {ridge}; it must be a finite number above 0")
    if coordinates == "given":
        if rank is not None and rank != X.shape[1]:
            raise InvalidParameter("the given coordinates keep every feature; leave rank out or use whitened ones")
        if ridge is None:
            width = X.shape[1]
            noise = 0.0
            if epsilon is not None:
                bound = statistic(parties, classes, rho(X)).value
                noise = math.sqrt(_noise_energy((classes - 1) * float(width), bound, epsilon, delta, mechanism))
            ridge = max(HAMM_LAMBDA, noise / 10)
        return np.eye(X.shape[1]), ridge
    value, vector = np.linalg.eigh(X.T @ X / len(X))
    value, vector = value[::-1], vector[:, ::-1]
    available = int((value > _NUMERICAL_RANK * value[0]).sum())
    if rank is None:
        rank = available if epsilon is None else choose_rank(available, classes, parties, epsilon, delta, mechanism)
    if not 1 <= rank <= available:
        raise DataError(
            f"{rank} coordinates were asked for and the auxiliary features have {available} independent directions; "
            "lower the rank, or leave it out"
        )
    signs = np.sign(vector[np.argmax(np.abs(vector), axis=0), np.arange(len(value))])  # eigh leaves them open
    transform: Array = (vector * signs)[:, :rank] / np.sqrt(value[:rank])
    return transform, RIDGE if ridge is None else ridge


def _decode(plan: StatisticPlan, units: list[int], ballots: int) -> Array:
    """(K, r) T from the summed integer vector: the released contrasts and the public column sums."""
    grid = plan.grid
    contrasts = np.array([float(v) for v in units]).reshape(grid.classes - 1, -1) / plan.contrast_scale
    contrasts *= plan.pitch / (grid.samples * ballots)
    mean = grid.points.sum(axis=0).astype(np.float64) * plan.pitch / grid.samples
    system = np.vstack([grid.contrast / plan.contrast_scale, np.ones(grid.classes)])
    T: Array = np.linalg.solve(system, np.vstack([contrasts, mean]))
    return T


def release_total(plan: StatisticPlan, total: list[int], ballots: int | None = None) -> StatisticRelease:
    """From a summed integer vector that already carries its noise (`--reveal statistic`), or is meant to have none.

    `total`: `plan.dimension` integers, in lattice units. `ballots`: how many parties were counted, if fewer than
    planned (the sensitivity in units does not depend on it). Raises DataError for a total of another length.
    """
    if len(total) != plan.dimension:
        raise DataError(f"the summed statistic has {len(total)} entries and the plan {plan.dimension}")
    return StatisticRelease(plan, _decode(plan, total, ballots or plan.parties), plan.mechanism is not None, "shares")


def release_statistic(
    counts: NDArray[np.integer], plan: StatisticPlan, randomness: Randomness = SYSTEM
) -> StatisticRelease:
    """From the counts (N, K) of a tally: the curator adds the plan's noise. Raises DataError where they do not fit."""
    total = _total(counts, plan)
    if plan.mechanism is not None:
        total = [t + e for t, e in zip(total, plan.mechanism.sample(randomness), strict=True)]
    return StatisticRelease(plan, _decode(plan, total, plan.parties), plan.mechanism is not None, "system")


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
    return plan.grid.total(check_counts(counts, plan.parties))


def fit_statistic(release: StatisticRelease, ridge: float | None = None) -> Array:
    """The classifier of a released statistic, by post-processing: float64 (d,) binary or (K, d), for raw features x.

    Minimises (1/N) sum_i logsumexp(W z_i) - ⟨W, T⟩ + (ridge/2) ||W||^2 over the plan's coordinates z = x A (binary: one
    weight vector and the logistic loss, so that `ridge` means the same as lambda there), and returns W A'.
    """
    plan = release.plan
    Z = plan.grid.points.astype(np.float64) * plan.pitch
    ridge = plan.ridge if ridge is None else ridge
    binary = plan.grid.classes == 2
    target = release.T[1:] if binary else release.T
    samples = len(Z)

    def risk(w: Array) -> tuple[float, Array]:
        W = w.reshape(target.shape)
        scores = Z @ W.T
        if binary:
            scores = np.hstack([np.zeros((samples, 1)), scores])
        total = logsumexp(scores, axis=1, keepdims=True)
        p = np.exp(scores - total)[:, int(binary) :]
        slope = p.T @ Z / samples - target + ridge * W
        return float(total.mean() - (W * target).sum() + ridge / 2 * (w @ w)), slope.ravel()

    found = minimize(
        risk,
        np.zeros(target.size),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 20000, "maxfun": 40000, "ftol": 0.0, "gtol": 1e-9, "maxcor": 30},
    )
    W: Array = found.x.reshape(target.shape) @ plan.transform.T
    return W[0] if binary else W
