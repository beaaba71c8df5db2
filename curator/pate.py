"""PATE: noisy majority answers to some public samples, and a student trained on them. A baseline for Hamm 2016.

Papernot et al. 2017 (LNMax, Laplace noise) and 2018 (GNMax, Gaussian noise), with data-independent accounting: one vote
moves one count up and one down, so Q queries have L2 sensitivity sqrt(2 Q) and L1 sensitivity 2 Q. Q is the largest
number that keeps the noise on a count below M/5 (GNMax) or M/8 (LNMax); at least 2 K, at most N.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from psephos.curator.hamm.labels import check_counts
from psephos.curator.hamm.sensitivity import Sensitivity
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.privacy.accounting import PrivacyEvent, event_of
from psephos.protocol.privacy.mechanisms import (
    DiscreteLaplace,
    NoiseMechanism,
    RoundedGaussian,
    check_delta,
    check_epsilon,
    choose_pitch,
    gaussian_sigma,
)
from psephos.protocol.randomness import SYSTEM, Randomness

Array = NDArray[np.float64]
Aggregator = Literal["gnmax", "lnmax"]

_NOISE_SHARE = {"gnmax": 5, "lnmax": 8}  # M divided by the largest standard deviation of the noise on a count

STUDENT_RIDGE = 1e-3
"""lambda of the student: ten times Hamm's, because it has few labels."""


@dataclass(frozen=True, eq=False)
class PatePlan:
    """The public parameters of a PATE release: `queries` are the indices of the answered samples, int64 (Q,)."""

    queries: NDArray[np.int64] = field(repr=False)
    classes: int
    parties: int
    epsilon: float
    sensitivity: Sensitivity
    mechanism: NoiseMechanism

    @property
    def event(self) -> PrivacyEvent:
        """Privacy cost of all answers together."""
        return event_of("pate", self.mechanism, self.sensitivity.value, self.epsilon)


@dataclass(frozen=True, eq=False)
class PateRelease:
    """The private answers, int64 (Q,): one class per query of the plan."""

    plan: PatePlan
    answers: NDArray[np.int64]


def choose_queries(
    samples: int, classes: int, parties: int, epsilon: float, delta: float, aggregator: Aggregator
) -> int:
    """Return the number of queries Q by the module's rule."""
    limit = parties / _NOISE_SHARE[aggregator]
    if aggregator == "gnmax":
        most = (limit / gaussian_sigma(math.sqrt(2), epsilon, delta)) ** 2
    else:
        most = limit * epsilon / (2 * math.sqrt(2))
    return int(min(samples, max(2 * classes, most)))


def plan_pate(
    samples: int,
    classes: int,
    parties: int,
    *,
    epsilon: float,
    delta: float = 1e-6,
    aggregator: Aggregator = "gnmax",
    queries: int | None = None,
    seed: int = 0,
) -> PatePlan:
    """Plan a PATE release: Q of the N samples, chosen by a public seed; Q by the module's rule unless given.

    GNMax has Gaussian noise, with a delta; LNMax Laplace noise, a pure epsilon.
    """
    epsilon = check_epsilon(epsilon)
    if aggregator not in ("gnmax", "lnmax"):
        raise InvalidParameter(f"unknown aggregator {aggregator!r}; choose 'gnmax' or 'lnmax'")
    if aggregator == "gnmax":
        check_delta(delta)
    if samples < 1 or classes < 2 or parties < 1:
        raise InvalidParameter("PATE needs at least one auxiliary sample, two classes and one party")
    if queries is None:
        queries = choose_queries(samples, classes, parties, epsilon, delta, aggregator)
    if not 1 <= queries <= samples:
        raise InvalidParameter(f"queries must be 1 to {samples}, the number of auxiliary samples, not {queries}")
    chosen = np.sort(np.random.default_rng(seed).permutation(samples)[:queries])
    mechanism: NoiseMechanism
    if aggregator == "gnmax":
        bound = Sensitivity(math.sqrt(2 * queries) * (1 + 2.0**-50), source="sqrt(2 Q) votes")
        pitch = choose_pitch(
            bound.value, queries * classes
        )  # a power of two below 1, so that counts lie on the lattice
        mechanism = RoundedGaussian.for_epsilon_delta(bound.value, epsilon, delta, queries * classes, pitch)
    else:
        bound = Sensitivity(2.0 * queries, norm="l1", source="2 Q votes")
        mechanism = DiscreteLaplace.for_epsilon(bound.value, epsilon, queries * classes, 1.0)
    return PatePlan(chosen, classes, parties, epsilon, bound, mechanism)


def release_pate(counts: NDArray[np.integer], plan: PatePlan, randomness: Randomness = SYSTEM) -> PateRelease:
    """Answer every query with the class of the largest noisy count of (N, K); ties go to the lower class number.

    Papernot et al. 2017 (LNMax) and 2018 (GNMax).
    """
    counts = check_counts(counts, plan.parties)
    if counts.shape[1] != plan.classes or len(counts) <= int(plan.queries.max()):
        raise DataError(f"counts of shape {counts.shape} do not fit a plan for {plan.classes} classes")
    noise = plan.mechanism.sample(randomness)
    steps = round(1 / plan.mechanism.pitch)
    noisy = [int(c) * steps + e for c, e in zip(counts[plan.queries].ravel(), noise, strict=True)]
    answers = np.array([noisy[i : i + plan.classes] for i in range(0, len(noisy), plan.classes)], dtype=object)
    return PateRelease(plan, np.array([int(np.argmax(row)) for row in answers.tolist()], dtype=np.int64))


def fit_student(X: Array, release: PateRelease, ridge: float = STUDENT_RIDGE) -> Array:
    """Fit the student on the answered samples of X (N, d): softmax regression with ridge (ridge/2) ||W||^2.

    Returns float64 (d,) for two classes, else (K, d). Rows are scaled to unit length, so that one ridge suits every
    scaling of the features; predictions of a linear classifier without intercept do not depend on a row's length.
    """
    Z = np.asarray(X, dtype=np.float64)[release.plan.queries]
    lengths = np.linalg.norm(Z, axis=1, keepdims=True)
    Z = Z / np.where(lengths > 0, lengths, 1.0)
    classes = release.plan.classes
    target = np.eye(classes)[release.answers]

    def risk(w: Array) -> tuple[float, Array]:
        W = w.reshape(classes, -1)
        scores = Z @ W.T
        total = scipy.special.logsumexp(scores, axis=1, keepdims=True)
        slope = (np.exp(scores - total) - target).T @ Z / len(Z) + ridge * W
        return float((total[:, 0] - (scores * target).sum(axis=1)).mean() + ridge / 2 * (w @ w)), slope.ravel()

    solution = scipy.optimize.minimize(
        risk, np.zeros(classes * Z.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 2000, "gtol": 1e-7}
    )
    W: Array = solution.x.reshape(classes, -1)
    return W[1] - W[0] if classes == 2 else W
