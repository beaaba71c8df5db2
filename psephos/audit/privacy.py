"""An empirical lower bound on epsilon for every mechanism, in at most 3 dimensions, where sampling has power.

Each mechanism is run many times on a worst-case pair of neighbours. Half of the outputs choose an event, and the other
half estimate its probability under both inputs (Clopper-Pearson): log((P_low - delta)/P'_high) must not exceed the
claim. That wrong claims are detected is tested with the noise of a larger epsilon.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from psephos.audit.canaries import FEWEST, attack, audited_specs
from psephos.curator import pate
from psephos.curator.hamm.averaging import Average
from psephos.curator.hamm.erm import minimise
from psephos.curator.hamm.labels import alpha
from psephos.curator.hamm.release import Perturbable, erm_sensitivity, perturb
from psephos.curator.hamm.sensitivity import Sensitivity, average, with_lattice
from psephos.curator.losses import Logistic, loss_named
from psephos.curator.psgd import bounds as psgd_bounds
from psephos.curator.psgd.gop import perturbed_minimiser
from psephos.curator.statistic import MechanismName, Source, StatisticPlan, plan_statistic, release_sum
from psephos.parties.noise import DiscreteGaussianShares, contributors
from psephos.parties.pathak import noise_share
from psephos.parties.statistic import own_vector
from psephos.progress import Progress, silent
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.own_data import contrast_basis
from psephos.protocol.pathak.noise import record_sensitivity
from psephos.protocol.pathak.terms import PathakTerms
from psephos.protocol.privacy.mechanisms import (
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
"""The confidence of a lower bound: the probability that it does not exceed the true epsilon."""

AUDIT_DELTA = 1e-2
"""The delta of the audited approximate mechanisms: large, so that a few thousand samples suffice."""

Array = NDArray[np.float64]


Run = Callable[[int, Randomness], Array]
"""(which of two inputs, coins) -> an output of a mechanism, (D,)."""


@dataclass(frozen=True)
class MechanismExperiment:
    """One mechanism on a worst-case pair of inputs."""

    name: str
    dimension: int
    epsilon: float
    delta: float
    run: Run
    score: Callable[[Array], Array]


def lower_bound(first: Array, second: Array, delta: float) -> float:
    """Return a lower bound on epsilon, from outputs on two neighbours, float64 (n,) each, scored by one number."""
    _check_samples(min(len(first), len(second)))
    risk = (1 - CONFIDENCE) / 2

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
    start, planned = time.perf_counter(), list(experiments(epsilon))
    specs = list(audited_specs(epsilon, AUDIT_DELTA))
    _check_samples(samples)
    compared = list(runs)
    mechanisms = []
    for done, experiment in enumerate(planned):
        progress(experiment.name, done, len(planned) + len(specs))
        mechanisms.append(audit_mechanism(experiment, samples))
    attacked = []
    for done, (name, spec) in enumerate(specs, len(planned)):
        progress(name, done, len(planned) + len(specs))
        attacked.append(attack(name, spec, max(FEWEST, samples // 64), CONFIDENCE))
    total = round(time.perf_counter() - start, 1)
    return PrivacyAuditResult(mechanisms=mechanisms, attacked=attacked, runs=compared, phases=timed({"total": total}))


def experiments(epsilon: float = 1.0) -> Iterator[MechanismExperiment]:
    """Yield every mechanism at every dimension up to 3."""
    epsilon = check_epsilon(epsilon)
    for dimension in (1, 2, 3):
        for mechanism in ("spherical-laplace", "discrete-laplace", "gaussian"):
            yield _vector(mechanism, dimension, epsilon)
    yield from _statistics(epsilon)
    yield _algorithm_2(epsilon)
    averages = [Average(np.array([w, 0.0]), radius=1.0, parties=2) for w in (0.0, 1.0)]
    yield _perturbation("average", averages, average(1.0, 2), epsilon)
    yield _psgd_series(epsilon)
    yield _pathak(epsilon)
    yield _gop(epsilon)
    yield _pate("pate gnmax", 8, epsilon=epsilon, delta=AUDIT_DELTA)
    yield _pate("pate lnmax", 1, epsilon=epsilon, aggregator="lnmax")


def _between(
    name: str, claim: tuple[float, float], run: Run, ends: Sequence[Array], norm: int = 2, power: int = 1
) -> MechanismExperiment:
    """Return an experiment scored by ||o - two||^power - ||o - one||^power, monotone in the log-likelihood ratio.

    `claim`: epsilon and delta; `ends`: the two inputs without noise.
    """

    def score(outputs: Array) -> Array:
        to_one, to_two = (np.linalg.norm(outputs - end, ord=norm, axis=1) ** power for end in ends)
        difference: Array = to_two - to_one
        return difference

    return MechanismExperiment(name, len(ends[0]), *claim, run, score)


def _vector(name: str, dimension: int, epsilon: float) -> MechanismExperiment:
    """Return a vector of sensitivity 1, rounded to the lattice: the inputs differ by 1 along the first axis."""
    gaussian, norm = name == "gaussian", 1 if name == "discrete-laplace" else 2
    pitch, delta = choose_pitch(1.0, dimension), AUDIT_DELTA if gaussian else 0.0
    bound = with_lattice(Sensitivity(1.0, norm="l1" if norm == 1 else "l2"), pitch, dimension).value
    mechanism: NoiseMechanism
    if gaussian:
        mechanism = RoundedGaussian.for_epsilon_delta(bound, epsilon, delta, dimension, pitch)
    elif norm == 1:
        mechanism = DiscreteLaplace.for_epsilon(bound / pitch, epsilon, dimension, pitch)
    else:
        mechanism = SphericalLaplace.for_epsilon(bound, epsilon, dimension, pitch)
    values = np.zeros((2, dimension)) + pitch / 3
    values[1, 0] += 1.0

    def run(which: int, randomness: Randomness) -> Array:
        return release(values[which], mechanism, randomness)

    return _between(name, (epsilon, delta), run, list(values), norm, 2 if gaussian else 1)


def _statistics(epsilon: float) -> Iterator[MechanismExperiment]:
    """Yield the releases of statistics, of two or three parties, one of which reverses what it gives."""
    laplace: MechanismName = "spherical-laplace"
    planned: dict[str, Any] = {"epsilon": epsilon, "delta": AUDIT_DELTA}
    side = np.array([1.0, -1.0] * 4)
    votes: tuple[tuple[MechanismName, int, int], ...] = (
        (laplace, 2, 1),
        (laplace, 2, 2),
        (laplace, 3, 1),
        ("discrete-laplace", 2, 1),
        ("gaussian", 2, 1),
    )
    for mechanism, classes, rank in votes:
        X = side[:, None] if rank == 1 else np.stack([side, np.repeat([1e-3, -1e-3], 4)], axis=1)
        plan = plan_statistic(X, classes, 3, mechanism=mechanism, rank=rank, **planned)
        others = np.ones((8, classes), dtype=np.int64)
        others[:, 2:] = 0
        own = [np.eye(classes, dtype=np.int64)[(side * sign > 0).astype(int)] for sign in (1, -1)]
        name = "statistic" if classes == 2 else f"statistic, {classes} classes"
        grid: Any = plan.grid
        yield _sum_release(f"{name}, {mechanism}", plan, [grid.total(others + vote) for vote in own])
    points = np.array([[1.0], [-1.0]])
    labels = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
    sources: tuple[tuple[Source, MechanismName], ...] = (
        ("own-data", laplace),
        ("own-data", "gaussian"),
        ("own-data", "discrete-laplace"),
        ("whitened", laplace),
        ("vote-directions", "discrete-laplace"),
        ("vote-directions", "gaussian"),
    )
    for source, mechanism in sources:
        directions = source == "vote-directions"
        plan = plan_statistic(points, 3 if directions else 2, 2, mechanism=mechanism, source=source, **planned)
        grid = plan.grid
        if directions:
            totals = [grid.contribution(probabilities) for probabilities in (labels, 2 / 3 - labels)]
        else:
            totals = [own_vector(grid, [[1.0], [0.5]], [label, label]) for label in (0, 1)]
        yield _sum_release(f"{plan.event.name}, {mechanism}", plan, totals)


def _sum_release(name: str, plan: StatisticPlan, totals: list[list[int]]) -> MechanismExperiment:
    basis = contrast_basis(plan.classes)

    def run(which: int, randomness: Randomness, plan: StatisticPlan = plan) -> Array:
        contrasts: Array = (basis @ release_sum(totals[which], plan, randomness).T).ravel()
        return contrasts

    ends = [run(which, SYSTEM, replace(plan, mechanism=None)) for which in (0, 1)]
    norm = 1 if isinstance(plan.mechanism, DiscreteLaplace) else 2
    power = 2 if isinstance(plan.mechanism, RoundedGaussian) else 1
    return _between(name, (plan.epsilon or 0.0, plan.delta), run, ends, norm, power)


def _algorithm_2(epsilon: float) -> MechanismExperiment:
    """Return output perturbation of the soft-label minimiser: two classes, two parties, a ridge for a tight bound."""
    lam, X = 10.0, np.array([[1.0], [1.0]])
    minimisers = [minimise(X, alpha(np.array(c)), lam, Logistic()) for c in ([[1, 1], [1, 1]], [[0, 2], [0, 2]])]
    bound = erm_sensitivity("soft", Logistic(), lam, parties=2, classes=2, features=X)
    return _perturbation("output perturbation", minimisers, bound, epsilon)


def _perturbation(name: str, inputs: Sequence[Perturbable], bound: Sensitivity, epsilon: float) -> MechanismExperiment:
    def run(which: int, randomness: Randomness) -> Array:
        return perturb(inputs[which], bound, epsilon, randomness=randomness).w

    return _between(name, (epsilon, 0.0), run, [one.w for one in inputs])


def _noisy_sums(
    name: str, epsilon: float, delta: float, step: int, draw: Callable[[Randomness], int], steps: int = 1
) -> MechanismExperiment:
    """Return sums with noise that the parties draw in shares, of which only the honest parties' shares are unknown."""

    def run(which: int, randomness: Randomness) -> Array:
        return np.array([float(which * step + draw(randomness)) for _ in range(steps)])

    norm = 2 if delta else 1
    return _between(name, (epsilon, delta), run, [np.zeros(steps), np.full(steps, float(step))], norm, norm)


def _psgd_series(epsilon: float) -> MechanismExperiment:
    """Return two sums of a PSGD series with noise in shares, for M = 6 with 2 colluders and 1 dropout."""
    honest = contributors(6, colluders=2, dropouts=1)
    shares = DiscreteGaussianShares(1, 6, honest, discrete_gaussian_variance(100, epsilon, AUDIT_DELTA, 2))

    def draw(randomness: Randomness) -> int:
        return sum(shares.share(randomness)[0] for _ in range(honest))

    return _noisy_sums("psgd series", epsilon, AUDIT_DELTA, 100, draw, 2)


def _pathak(epsilon: float) -> MechanismExperiment:
    """Return Pathak's joint noise: three parties of two samples; one knows its share, and a record changes."""
    terms = PathakTerms(
        variant="public-bound",
        comparisons="tournament",
        classes=("0", "1"),
        parties=3,
        features=1,
        lam=0.5,
        epsilon=epsilon,
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


def _gop(epsilon: float) -> MechanismExperiment:
    """Return objective perturbation (Rajkumar's Algorithm 4) for one record whose label changes."""
    loss, lam = loss_named("huber", 2), 100.0
    slack = psgd_bounds.compute_slack(epsilon, lam, 1, loss.smoothness)
    sigma = psgd_bounds.sigma_from_density_ratio(1, slack.epsilon, AUDIT_DELTA, sensitivity=2 * loss.lipschitz)
    law = RoundedGaussian(1, sigma, math.ldexp(choose_pitch(sigma, 1), -16))

    def run(which: int, randomness: Randomness) -> Array:
        eta = release(np.zeros(1), law, randomness)
        return perturbed_minimiser([[1.0]], [1 - 2 * which], ridge=lam + slack.ridge, eta=eta, loss=loss).w

    return MechanismExperiment(
        "objective perturbation (GOP)", 1, epsilon, AUDIT_DELTA, run, lambda outputs: outputs[:, 0]
    )


def _pate(name: str, queries: int, **options: Any) -> MechanismExperiment:
    """Return the answers of PATE for two classes and three parties, one of which reverses every vote."""
    plan = pate.plan_pate(queries, 2, 3, queries=queries, **options)
    counts = [np.tile(row, (queries, 1)) for row in ([2, 1], [1, 2])]

    def run(which: int, randomness: Randomness) -> Array:
        return pate.release_pate(counts[which], plan, randomness).answers.astype(np.float64)

    def score(outputs: Array) -> Array:
        total: Array = outputs.sum(axis=1)
        return -total

    return MechanismExperiment(name, queries, options["epsilon"], options.get("delta", 0.0), run, score)
