"""An empirical lower bound on epsilon for every mechanism, in at most 3 dimensions, where sampling has power.

Each mechanism is run many times, end to end, on a worst-case pair of neighbours. Half of the outputs choose an event,
and the other half estimate its probability under both inputs, with Clopper-Pearson limits at a joint confidence of
99.99 %. log((P_low - delta)/P'_high) is then a lower bound on the true epsilon, and must not exceed the claimed one.
Such an audit can show that a claim is wrong, but not that it is right; that it detects wrong claims is tested by
scaling the noise down (`noise_factor`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from psephos.curator import pate
from psephos.curator.hamm.averaging import Average
from psephos.curator.hamm.erm import minimise
from psephos.curator.hamm.labels import alpha
from psephos.curator.hamm.release import Perturbable, erm_sensitivity, perturb
from psephos.curator.hamm.sensitivity import Sensitivity, average, with_lattice
from psephos.curator.losses import Logistic, loss_named
from psephos.curator.psgd import bounds as psgd_bounds
from psephos.curator.psgd.gop import perturbed_minimiser
from psephos.curator.statistic import MechanismName, StatisticPlan, plan_statistic, release_sum
from psephos.parties.noise import DiscreteGaussianShares, PolyaShares, contributors
from psephos.parties.pathak_noise import noise_share
from psephos.parties.statistic import own_vector
from psephos.progress import Progress, silent
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.own_data import Own, OwnDataGrid, contrast_basis
from psephos.protocol.grids.statistic import StatisticGrid
from psephos.protocol.grids.vote_directions import VoteDirectionGrid
from psephos.protocol.pathak.noise import record_sensitivity
from psephos.protocol.pathak.terms import PathakTerms
from psephos.protocol.privacy.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseMechanism,
    RoundedGaussian,
    SphericalLaplace,
    check_epsilon,
    choose_pitch,
    discrete_gaussian_variance,
    release,
)
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.results.base import timed
from psephos.results.security import ComparedRun, PrivacyAuditResult
from psephos.results.security import Mechanism as AuditedMechanism

CONFIDENCE = 0.9999
"""The default confidence of a lower bound: the probability that it does not exceed the true epsilon."""

AUDIT_DELTA = 1e-2
"""The delta of the audited approximate mechanisms: large, so that a few thousand samples suffice."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MechanismExperiment:
    """One mechanism on a worst-case pair of inputs."""

    name: str
    dimension: int
    epsilon: float
    delta: float
    run: Callable[[int, Randomness], Array]
    score: Callable[[Array], Array]


def lower_bound(first: Array, second: Array, delta: float, confidence: float = CONFIDENCE) -> float:
    """Return a lower bound on epsilon, from outputs on two neighbours, float64 (n,) each, scored by one number."""
    _check_samples(min(len(first), len(second)))
    risk = (1 - confidence) / 2

    def bound(hits: int, total: int, other: int, other_total: int) -> float:
        low = float(stats.beta.ppf(risk, hits, total - hits + 1)) if hits else 0.0
        high = float(stats.beta.ppf(1 - risk, other + 1, other_total - other)) if other < other_total else 1.0
        return math.log((low - delta) / high) if low > delta else -math.inf

    best: tuple[float, float, int] = (-math.inf, 0.0, 1)
    for sign, (one, two) in ((1, (first[::2], second[::2])), (-1, (second[::2], first[::2]))):
        one, two = sign * one, sign * two
        for t in np.unique(np.quantile(one, np.linspace(0.02, 0.99, 60))):
            value = bound(int((one >= t).sum()), len(one), int((two >= t).sum()), len(two))
            best = max(best, (value, float(t), sign))
    _, threshold, sign = best
    one, two = (first[1::2], second[1::2]) if sign == 1 else (second[1::2], first[1::2])
    hits, other = int((sign * one >= threshold).sum()), int((sign * two >= threshold).sum())
    return max(0.0, bound(hits, len(one), other, len(two)))


def _check_samples(samples: int) -> None:
    if samples < 10:
        raise InvalidParameter(f"an audit needs at least 10 outputs for each input, not {samples}")


def audit_mechanism(experiment: MechanismExperiment, samples: int, randomness: Randomness = SYSTEM) -> AuditedMechanism:
    """Run a mechanism `samples` times on each input, and return the lower bound on its epsilon."""
    _check_samples(samples)
    outputs = [np.array([experiment.run(which, randomness) for _ in range(samples)]) for which in (0, 1)]
    first, second = (experiment.score(o) for o in outputs)
    bound = lower_bound(first, second, experiment.delta)
    claim = (experiment.name, experiment.dimension, experiment.epsilon, experiment.delta)
    return AuditedMechanism(*claim, lower_bound=bound, samples=samples, confidence=CONFIDENCE)


def audit_privacy(
    epsilon: float = 1.0,
    samples: int = 100_000,
    progress: Progress = silent,
    runs: Iterable[ComparedRun] = (),
) -> PrivacyAuditResult:
    """Compute a lower bound on the epsilon of every mechanism."""
    start, planned = time.perf_counter(), list(experiments(epsilon))
    _check_samples(samples)
    compared = list(runs)
    mechanisms = []
    for done, experiment in enumerate(planned):
        progress(experiment.name, done, len(planned))
        mechanisms.append(audit_mechanism(experiment, samples))
    total = round(time.perf_counter() - start, 1)
    return PrivacyAuditResult(mechanisms=mechanisms, runs=compared, phases=timed({"total": total}))


def experiments(epsilon: float = 1.0, noise_factor: float = 1.0) -> Iterator[MechanismExperiment]:
    """Yield every mechanism at every dimension up to 3."""
    epsilon = check_epsilon(epsilon)
    if not 0 < noise_factor <= 1:
        raise InvalidParameter(f"the noise factor must lie in (0, 1], not be {noise_factor}")
    for dimension in (1, 2, 3):
        yield _vector("spherical-laplace", dimension, epsilon, 0.0, noise_factor)
        yield _vector("discrete-laplace", dimension, epsilon, 0.0, noise_factor)
        yield _vector("gaussian", dimension, epsilon, AUDIT_DELTA, noise_factor)
    for dimension in (1, 2):
        yield _statistic("spherical-laplace", 2, dimension, epsilon, noise_factor)
    yield _statistic("spherical-laplace", 3, 1, epsilon, noise_factor)
    yield _statistic("discrete-laplace", 2, 1, epsilon, noise_factor)
    yield _statistic("gaussian", 2, 1, epsilon, noise_factor)
    yield _own_data("own-data", "spherical-laplace", epsilon, noise_factor)
    yield _own_data("own-data", "gaussian", epsilon, noise_factor)
    yield _own_data("own-data", "discrete-laplace", epsilon, noise_factor)
    yield _own_data("whitened", "spherical-laplace", epsilon, noise_factor)
    yield _vote_directions("discrete-laplace", epsilon, noise_factor)
    yield _vote_directions("gaussian", epsilon, noise_factor)
    yield _algorithm_2(epsilon, noise_factor)
    yield _average(epsilon, noise_factor)
    yield from _joint(epsilon, noise_factor)
    yield _pathak(epsilon, noise_factor)
    yield _gop(epsilon, noise_factor)
    yield _pate("pate gnmax", 8, noise_factor, epsilon=epsilon, delta=AUDIT_DELTA)
    yield _pate("pate lnmax", 1, noise_factor, epsilon=epsilon, aggregator="lnmax")


def _weakened(mechanism: NoiseMechanism, factor: float) -> NoiseMechanism:
    """Return the same mechanism with its noise scaled by `factor`."""
    if isinstance(mechanism, SphericalLaplace):
        return replace(mechanism, scale=mechanism.scale * factor)
    if isinstance(mechanism, RoundedGaussian):
        return replace(mechanism, sigma=mechanism.sigma * factor)
    if isinstance(mechanism, DiscreteLaplace):
        return replace(mechanism, scale_units=mechanism.scale_units * Fraction(factor))
    if isinstance(mechanism, DiscreteGaussian):
        return replace(mechanism, variance=mechanism.variance * Fraction(factor) ** 2)
    raise InvalidParameter(f"the audit cannot scale the noise of {type(mechanism).__name__}")


def _distance_score(one: Array, two: Array, norm: int, power: int = 1) -> Callable[[Array], Array]:
    """Return the score ||o - two||^power - ||o - one||^power, monotone in the log-likelihood ratio."""

    def score(outputs: Array) -> Array:
        to_two = np.linalg.norm(outputs - two, ord=norm, axis=1) ** power
        to_one = np.linalg.norm(outputs - one, ord=norm, axis=1) ** power
        difference: Array = to_two - to_one
        return difference

    return score


def _vector(name: str, dimension: int, epsilon: float, delta: float, factor: float) -> MechanismExperiment:
    """Return a vector of sensitivity 1, rounded to the lattice: the inputs differ by 1 along the first axis."""
    norm = "l1" if name == "discrete-laplace" else "l2"
    pitch = choose_pitch(1.0, dimension)
    bound = with_lattice(Sensitivity(1.0, norm=norm), pitch, dimension).value
    mechanism: NoiseMechanism
    if name == "spherical-laplace":
        mechanism = SphericalLaplace.for_epsilon(bound, epsilon, dimension, pitch)
    elif name == "discrete-laplace":
        mechanism = DiscreteLaplace.for_epsilon(bound / pitch, epsilon, dimension, pitch)
    else:
        mechanism = RoundedGaussian.for_epsilon_delta(bound, epsilon, delta, dimension, pitch)
    mechanism = _weakened(mechanism, factor)
    values = np.zeros((2, dimension)) + pitch / 3
    values[1, 0] += 1.0
    return MechanismExperiment(
        name,
        dimension,
        epsilon,
        delta,
        lambda which, randomness: release(values[which], mechanism, randomness),
        _distance_score(values[0], values[1], 1 if norm == "l1" else 2, 2 if name == "gaussian" else 1),
    )


def _statistic(mechanism: MechanismName, classes: int, rank: int, epsilon: float, factor: float) -> MechanismExperiment:
    """Return the release of a statistic, M = 3: one party reverses its votes on two classes, on the first axis."""
    side = np.array([1.0, -1.0] * 4)
    X = side[:, None] if rank == 1 else np.stack([side, np.repeat([1e-3, -1e-3], 4)], axis=1)
    plan = plan_statistic(X, classes, 3, epsilon=epsilon, delta=AUDIT_DELTA, mechanism=mechanism, rank=rank)
    assert isinstance(plan.grid, StatisticGrid)
    others = np.ones((8, classes), dtype=np.int64)
    others[:, 2:] = 0
    votes = [np.eye(classes, dtype=np.int64)[(side * sign > 0).astype(int)] for sign in (1, -1)]
    name = "statistic" if classes == 2 else f"statistic, {classes} classes"
    return _sum_release(f"{name}, {mechanism}", plan, [plan.grid.total(others + vote) for vote in votes], factor)


def _own_data(source: Own, mechanism: MechanismName, epsilon: float, factor: float) -> MechanismExperiment:
    """Return the release of own data or of its whitened classifier, M = 2: one party reverses its labels."""
    plan = plan_statistic(
        np.array([[1.0], [-1.0]]), 2, 2, epsilon=epsilon, delta=AUDIT_DELTA, mechanism=mechanism, source=source
    )
    assert isinstance(plan.grid, OwnDataGrid)
    totals = [own_vector(plan.grid, [[1.0], [0.5]], [label, label]) for label in (0, 1)]
    return _sum_release(f"{plan.event.name}, {mechanism}", plan, totals, factor)


def _vote_directions(mechanism: MechanismName, epsilon: float, factor: float) -> MechanismExperiment:
    """Return the release of directions of votes, three classes, M = 2: one party's probabilities are mirrored."""
    plan = plan_statistic(
        np.array([[1.0], [-1.0]]),
        3,
        2,
        epsilon=epsilon,
        delta=AUDIT_DELTA,
        mechanism=mechanism,
        source="vote-directions",
    )
    assert isinstance(plan.grid, VoteDirectionGrid)
    labels = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
    totals = [plan.grid.contribution(probabilities) for probabilities in (labels, 2 / 3 - labels)]
    return _sum_release(f"{plan.event.name}, {mechanism}", plan, totals, factor)


def _sum_release(name: str, plan: StatisticPlan, totals: list[list[int]], factor: float) -> MechanismExperiment:
    """Return `release_sum` of two neighbouring sums, in contrasts."""
    assert plan.mechanism is not None
    weak = replace(plan, mechanism=_weakened(plan.mechanism, factor))
    basis = contrast_basis(plan.classes)

    def run(which: int, randomness: Randomness, plan: StatisticPlan = weak) -> Array:
        contrasts: Array = (basis @ release_sum(totals[which], plan, randomness).T).ravel()
        return contrasts

    one, two = (run(which, SYSTEM, replace(plan, mechanism=None)) for which in (0, 1))
    norm = 1 if isinstance(plan.mechanism, DiscreteLaplace) else 2
    score = _distance_score(one, two, norm, 2 if isinstance(plan.mechanism, RoundedGaussian) else 1)
    return MechanismExperiment(name, plan.dimension, plan.epsilon or 0.0, plan.delta, run, score)


def _algorithm_2(epsilon: float, factor: float) -> MechanismExperiment:
    """Return output perturbation of the soft-label minimiser: two classes, two parties, a ridge for a tight bound."""
    lam, X = 10.0, np.array([[1.0], [1.0]])
    minimisers = [minimise(X, alpha(np.array(c)), lam, Logistic()) for c in ([[1, 1], [1, 1]], [[0, 2], [0, 2]])]
    bound = erm_sensitivity("soft", Logistic(), lam, parties=2, classes=2, features=X)
    return _perturbation("output perturbation", minimisers, bound, epsilon, factor)


def _average(epsilon: float, factor: float) -> MechanismExperiment:
    """Return the average of two parties' parameters in the unit ball, one of which changes."""
    averages = [Average(np.array([w, 0.0]), radius=1.0, parties=2) for w in (0.0, 1.0)]
    return _perturbation("average", averages, average(1.0, 2), epsilon, factor)


def _perturbation(
    name: str, inputs: Sequence[Perturbable], bound: Sensitivity, epsilon: float, factor: float
) -> MechanismExperiment:
    """Return `psephos.curator.hamm.release.perturb` on two neighbouring vectors."""
    return MechanismExperiment(
        name,
        len(inputs[0].w),
        epsilon,
        0.0,
        lambda which, randomness: perturb(inputs[which], bound, epsilon / factor, randomness=randomness).w,
        _distance_score(inputs[0].w, inputs[1].w, 2),
    )


def _noisy_sums(
    name: str, epsilon: float, delta: float, step: int, draw: Callable[[Randomness], int], steps: int = 1
) -> MechanismExperiment:
    """Return sums with noise that the parties draw in shares, of which only the honest parties' shares are unknown."""

    def run(which: int, randomness: Randomness) -> Array:
        return np.array([float(which * step + draw(randomness)) for _ in range(steps)])

    second, norm = np.full(steps, float(step)), 2 if delta else 1
    return MechanismExperiment(name, steps, epsilon, delta, run, _distance_score(np.zeros(steps), second, norm, norm))


def _joint(epsilon: float, factor: float) -> Iterator[MechanismExperiment]:
    """Yield both kinds of shares, and two sums of a PSGD series, for M = 6 with 2 colluders and 1 dropout."""
    honest = contributors(6, colluders=2, dropouts=1)

    def shared(shares: PolyaShares | DiscreteGaussianShares) -> Callable[[Randomness], int]:
        return lambda randomness: sum(shares.share(randomness)[0] for _ in range(honest))

    scale = DiscreteLaplace.for_epsilon(20, epsilon, 1, 1.0).scale_units * Fraction(factor)
    yield _noisy_sums("joint discrete-laplace", epsilon, 0.0, 20, shared(PolyaShares(1, 6, honest, scale)))
    once = discrete_gaussian_variance(100, epsilon, AUDIT_DELTA)
    twice = discrete_gaussian_variance(100, epsilon, AUDIT_DELTA, 2)
    for name, variance, steps in (("joint gaussian", once, 1), ("psgd series", twice, 2)):
        shares = DiscreteGaussianShares(1, 6, honest, variance * Fraction(factor) ** 2)
        yield _noisy_sums(name, epsilon, AUDIT_DELTA, 100, shared(shares), steps)


def _pathak(epsilon: float, factor: float) -> MechanismExperiment:
    """Return Pathak's joint noise: three parties of two samples; one knows its share, and a record changes."""
    terms = PathakTerms(
        variant="public-bound",
        comparisons="tournament",
        classes=("0", "1"),
        parties=3,
        features=1,
        lam=0.5,
        epsilon=epsilon / factor,
        tolerance=1e-6,
        smallest_size=2,
        largest_size=2,
        excluded=1,
        pitch_exponent=-3,
        nonce="0" * 32,
    )
    step = math.floor(record_sensitivity(terms, 2) / terms.pitch)

    def draw(randomness: Randomness) -> int:
        return sum(noise_share(terms, 2, randomness)[0] for _ in range(2))

    return _noisy_sums("pathak noise", epsilon, 0.0, step, draw)


def _gop(epsilon: float, factor: float) -> MechanismExperiment:
    """Return objective perturbation (Rajkumar's Algorithm 4) for one record whose label changes."""
    loss, lam = loss_named("huber", 2), 100.0
    slack = psgd_bounds.compute_slack(epsilon, lam, 1, loss.smoothness)
    sigma = psgd_bounds.sigma_from_density_ratio(1, slack.epsilon, AUDIT_DELTA, sensitivity=2 * loss.lipschitz)
    law = RoundedGaussian(1, sigma * factor, math.ldexp(choose_pitch(sigma, 1), -16))

    def run(which: int, randomness: Randomness) -> Array:
        eta = release(np.zeros(1), law, randomness)
        return perturbed_minimiser([[1.0]], [1 - 2 * which], ridge=lam + slack.ridge, eta=eta, loss=loss).w

    return MechanismExperiment(
        "objective perturbation (GOP)", 1, epsilon, AUDIT_DELTA, run, lambda outputs: outputs[:, 0]
    )


def _pate(name: str, queries: int, factor: float, **options: Any) -> MechanismExperiment:
    """Return the answers of PATE for two classes and three parties, one of which reverses every vote."""
    plan = pate.plan_pate(queries, 2, 3, queries=queries, **options)
    plan = replace(plan, mechanism=_weakened(plan.mechanism, factor))
    counts = [np.tile(row, (queries, 1)) for row in ([2, 1], [1, 2])]

    def run(which: int, randomness: Randomness) -> Array:
        return pate.release_pate(counts[which], plan, randomness).answers.astype(np.float64)

    def score(outputs: Array) -> Array:
        total: Array = outputs.sum(axis=1)
        return -total

    return MechanismExperiment(name, queries, options["epsilon"], options.get("delta", 0.0), run, score)
