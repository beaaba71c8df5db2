"""The release methods of `psephos run`, behind one interface that can draw any number of releases."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from psephos.curator.hamm import sensitivity as bounds
from psephos.curator.hamm.averaging import Average
from psephos.curator.hamm.erm import Minimiser, minimise
from psephos.curator.hamm.labels import alpha, decisions, majority, one_hot
from psephos.curator.hamm.release import OutputNoise, PerturbedClassifier, mechanism_for, perturb
from psephos.curator.hamm.rules import HAMM_LAMBDA, erm_rule
from psephos.curator.hamm.sensitivity import Labels, Sensitivity
from psephos.curator.ledger import Release, ledger_entry, public_entry
from psephos.curator.losses import Loss, loss_named
from psephos.curator.pate import PateRelease, fit_student, plan_pate, release_pate
from psephos.curator.signal import Signal, noise_energy, signal_of
from psephos.curator.statistic import (
    MechanismName,
    StatisticPlan,
    StatisticRelease,
    fit_statistic,
    plan_statistic,
    release_sum,
    total_of,
)
from psephos.protocol.privacy.accounting import PrivacyEvent, event_of
from psephos.protocol.randomness import Randomness

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ReleaseRequest:
    """Parameters that all methods share; `lam` None uses the method's rule, `delta` is for Gaussian noise."""

    epsilon: float
    delta: float
    mechanism: MechanismName
    lam: float | None
    protect_auxiliary: bool = False

    @property
    def output_noise(self) -> OutputNoise:
        """Noise of output perturbation; the spherical Laplace replaces the discrete one, which is for integer sums."""
        return "gaussian" if self.mechanism == "gaussian" else "spherical-laplace"


class SignalEstimator:
    """Computes on demand how much of a method's last release is signal."""

    _compute: Callable[[], Signal] | None = None

    def __call__(self) -> Signal | None:
        return None if self._compute is None else self._compute()

    def note_statistic(self, release: StatisticRelease, *, laws: float = 1.0) -> Array:
        """Record a released statistic, and return its classifier, (d,) or (K, d).

        `laws` is how many times the law's noise is in the sum: for joint noise, shares by those that make up one law.
        """
        w, plan = fit_statistic(release), release.plan
        assert plan.mechanism is not None
        energy, rows = noise_energy(plan.mechanism, plan.unit, laws), plan.self_training.rows
        self._compute = lambda: signal_of(release.T, rows @ plan.transform, decisions(w, rows), energy, falling=True)
        return w

    def note_perturbed(self, released: PerturbedClassifier, rows: Array) -> Array:
        """Record released parameters and the public rows (N, d), and return the parameters, (d,) or (K, d)."""
        w, energy = released.w, noise_energy(released.mechanism)
        scores = w if w.ndim == 2 else np.stack([-w, w]) / math.sqrt(2)  # the same norm
        self._compute = lambda: signal_of(scores, rows, decisions(w, rows), energy, falling=False)
        return w


@dataclass(frozen=True)
class Method:
    """One method on one set of counts or parameters.

    Attributes:
        nonprivate: fits the classifier without noise, (d,) or (K, d); a secret of the simulation.
        draw: draws one private release, (d,) or (K, d); every call is a release of its own.
        sensitivity, event: of the vector that gets the noise, and the cost of a release; None where no party is asked.
        chosen: parameters that the method's public rule, or the caller, chose.
        signal: how much of the last release is signal; None where that is not computed, or before any release.
    """

    nonprivate: Callable[[], Array] = field(repr=False)
    draw: Callable[[Randomness], Array] = field(repr=False)
    sensitivity: Sensitivity | None
    event: PrivacyEvent | None
    chosen: dict[str, Any]
    signal: Callable[[], Signal | None] = field(default_factory=SignalEstimator, repr=False)

    @property
    def ledger_entry(self) -> Release:
        """Privacy cost of one release, with its parameters."""
        chosen = dict(self.chosen)
        if self.event is None or self.sensitivity is None:
            return public_entry(chosen)
        return ledger_entry(self.event, self.sensitivity, chosen.pop("mechanism"), chosen)


def erm_fit(labels: Labels, counts: NDArray[np.int64], auxiliary: Array, loss: Loss) -> Callable[[float], Minimiser]:
    """Return the minimiser of Hamm's Algorithm 1 or 2 as a function of lambda, which fits each lambda once."""
    targets = alpha(counts) if labels == "soft" else one_hot(majority(counts), counts.shape[1])
    return cache(lambda lam: minimise(auxiliary, targets, lam, loss))


def erm_method(
    labels: Labels,
    counts: NDArray[np.int64],
    auxiliary: Array,
    loss: Loss,
    request: ReleaseRequest,
    fit: Callable[[float], Minimiser] | None = None,
) -> Method:
    """Hamm's Algorithm 1 ("majority") or 2 ("soft") by output perturbation, from counts (N, K) and rows (N, d).

    `fit` is an `erm_fit` of the same arguments, to share its minimisers among several requests.
    """
    classes, parties = counts.shape[1], int(counts[0].sum())
    fit = erm_fit(labels, counts, auxiliary, loss) if fit is None else fit
    private = request.protect_auxiliary
    bound, rule = erm_rule(labels, loss, auxiliary, classes=classes, parties=parties, private=private)

    def nonprivate() -> Array:
        return fit(request.lam or HAMM_LAMBDA).w

    name = "vote" if labels == "majority" else "soft"
    lam = request.lam or rule.choose(bound, request.epsilon, request.output_noise, request.delta)
    rows = None if private else auxiliary
    return _perturbed(nonprivate, fit(lam), bound(lam), request, name, {"lam": lam}, rows)


def average_method(average: Average, lam: float, request: ReleaseRequest, auxiliary: Array | None = None) -> Method:
    """Average of the parties' parameters, trained with `lam` and projected on the ball of radius C.

    `auxiliary` are public rows, float64 (N, d), to estimate the signal of a release; None where there are none.
    """
    bound = bounds.average(average.radius, average.parties)
    if request.protect_auxiliary:
        auxiliary = None
    chosen = {"lam": lam, "radius": average.radius}
    return _perturbed(lambda: average.w, average, bound, request, "avg", chosen, auxiliary)


def _perturbed(
    nonprivate: Callable[[], Array],
    fitted: Any,
    bound: Sensitivity,
    request: ReleaseRequest,
    name: str,
    chosen: dict[str, Any],
    rows: Array | None,
) -> Method:
    """Return the method that releases fitted parameters by output perturbation; `rows` as in `average_method`."""
    noise, delta, signal = request.output_noise, request.delta, SignalEstimator()

    def draw(randomness: Randomness) -> Array:
        released = perturb(fitted, bound, request.epsilon, noise=noise, delta=delta, randomness=randomness)
        return released.w if rows is None else signal.note_perturbed(released, rows)

    mechanism, total = mechanism_for(
        fitted.w.shape, fitted.inexactness, fitted.norm_limit, bound, request.epsilon, noise=noise, delta=delta
    )
    event = event_of(name, mechanism, total.value, request.epsilon, total.unit)
    return Method(nonprivate, draw, total, event, chosen | {"mechanism": noise}, signal)


def statistic_nonprivate(counts: NDArray[np.int64], auxiliary: Array, lam: float) -> Array:
    """Fit the noise-free reference of the statistic, the minimiser of Hamm's Algorithm 2, (d,) or (K, d)."""
    return minimise(auxiliary, alpha(counts), lam, loss_named("logistic", counts.shape[1])).w


def statistic_method(counts: NDArray[np.int64], auxiliary: Array, request: ReleaseRequest) -> Method:
    """Statistic of votes from counts (N, K), with the curator's noise (docs/theory.md, "The statistic release")."""
    plan = plan_statistic(
        auxiliary,
        counts.shape[1],
        int(counts[0].sum()),
        epsilon=request.epsilon,
        delta=request.delta,
        mechanism=request.mechanism,
    )
    nonprivate = partial(statistic_nonprivate, counts, auxiliary, request.lam or HAMM_LAMBDA)
    return _sum_method(total_of(counts, plan), plan, nonprivate, request.mechanism)


def own_data_method(total: list[int], plan: StatisticPlan, nonprivate: Callable[[], Array] | None = None) -> Method:
    """own-data or whitened, from the exact sum of the parties' vectors, with the curator's noise.

    `nonprivate` fits the classifier without noise; None uses the plan's coordinates, whose number depends on epsilon.
    """
    exact = fit_statistic(release_sum(total, replace(plan, mechanism=None)))
    return _sum_method(total, plan, nonprivate or (lambda: exact), type(plan.mechanism).__name__)


def _sum_method(total: list[int], plan: StatisticPlan, nonprivate: Callable[[], Array], mechanism: str) -> Method:
    """Return the method that adds a plan's noise to the exact sum of the parties' vectors."""
    signal = SignalEstimator()

    def draw(randomness: Randomness) -> Array:
        return signal.note_statistic(release_sum(total, plan, randomness))

    return Method(nonprivate, draw, plan.sensitivity, plan.event, statistic_choices(plan, mechanism), signal)


def statistic_choices(plan: StatisticPlan, mechanism: str) -> dict[str, Any]:
    """Return the parameters that the rule chose, for reports."""
    return {"source": plan.source, "rank": plan.rank, "mechanism": mechanism}


def pate_method(counts: NDArray[np.int64], auxiliary: Array, request: ReleaseRequest, seed: int) -> Method:
    """PATE (Papernot et al. 2017 and 2018) from counts (N, K): GNMax with Gaussian noise, LNMax for a pure epsilon.

    Without noise it is the student of all true majorities. `seed` is the public seed of the choice of queries.
    """
    aggregator: Literal["gnmax", "lnmax"] = "gnmax" if request.mechanism == "gaussian" else "lnmax"
    samples, classes = counts.shape
    parties = int(counts[0].sum())
    plan = plan_pate(
        samples,
        classes,
        parties,
        epsilon=request.epsilon,
        delta=request.delta,
        aggregator=aggregator,
        seed=seed,
    )

    def draw(randomness: Randomness) -> Array:
        return fit_student(auxiliary, release_pate(counts, plan, randomness))

    def nonprivate() -> Array:
        all_queries = replace(plan, queries=np.arange(samples))
        return fit_student(auxiliary, PateRelease(all_queries, majority(counts)))

    chosen = {"queries": len(plan.queries), "mechanism": aggregator}
    return Method(nonprivate, draw, plan.sensitivity, plan.event, chosen)


def public_method(w: Array, chosen: dict[str, Any]) -> Method:
    """Return the method that releases a classifier of public rows, (d,) or (K, d); `chosen`: as in `Method`."""
    return Method(lambda: w, lambda randomness: w, None, None, chosen)
