"""PATE: answer some queries by noisy majority, train a student on the answers. What a user would otherwise pick.

Papernot et al. 2017 (LNMax, Laplace noise) and 2018 (GNMax, Gaussian noise). The queries are public auxiliary samples
and the votes are counted by the same encrypted tally. Accounting is data-independent: Papernot's data-dependent bounds
are functions of the votes and would have to be protected themselves.

One party's vote on one query moves one count up and one down: L2 sensitivity sqrt(2), L1 sensitivity 2, and Q queries
together sqrt(2 Q) and 2 Q. GNMax is one Gaussian release of that; LNMax is epsilon-private with scale 2 Q/epsilon.

**Rule for Q**, of public quantities (N, M, K, epsilon, delta, mechanism): as many queries as keep the noise on a count,
its standard deviation, below M/5 (GNMax) or M/8 (LNMax, whose tails are longer); at least 2 K, at most N. More queries
drown the plurality, fewer starve the student.
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
from psephos.curator.hamm.sensitivity import Sensitivity
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.privacy.accounting import PrivacyEvent, event_of
from psephos.protocol.privacy.mechanisms import (
    DiscreteLaplace,
    Mechanism,
    RoundedGaussian,
    check_delta,
    check_epsilon,
    choose_pitch,
    gaussian_sigma,
)
from psephos.protocol.randomness import SYSTEM, Randomness

Array = NDArray[np.float64]
Aggregator = Literal["gnmax", "lnmax"]

_NOISE_SHARE = {"gnmax": 5, "lnmax": 8}
STUDENT_RIDGE = 1e-3
"""The student's ridge: ten times Hamm's lambda, since its labels are few."""


@dataclass(frozen=True, eq=False)
class PatePlan:
    """Which public samples are asked about (`queries`, indices into X) and with which noise on their counts."""

    queries: NDArray[np.int64] = field(repr=False)
    classes: int
    parties: int
    epsilon: float
    delta: float
    sensitivity: Sensitivity
    mechanism: Mechanism

    @property
    def event(self) -> PrivacyEvent:
        """What all the answers together cost a party."""
        return event_of("pate", self.mechanism, self.sensitivity.value, self.epsilon)


@dataclass(frozen=True, eq=False)
class PateRelease:
    """The private answers: int64 (Q,), one class per query."""

    plan: PatePlan
    answers: NDArray[np.int64]


def choose_queries(
    samples: int, classes: int, parties: int, epsilon: float, delta: float, aggregator: Aggregator
) -> int:
    """Q by the module's rule; raises InvalidParameter for an epsilon or delta out of range."""
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
    """The public plan: Q of the N samples, drawn by a public seed. Raises InvalidParameter for what is out of range."""
    epsilon = check_epsilon(epsilon)
    if aggregator not in ("gnmax", "lnmax"):
        raise InvalidParameter(f"the aggregator is {aggregator!r}; it must be 'gnmax' or 'lnmax'")
    if aggregator == "gnmax":
        check_delta(delta)
    if samples < 1 or classes < 2 or parties < 1:
        raise InvalidParameter("PATE needs at least one auxiliary sample, two classes and one party")
    if queries is None:
        queries = choose_queries(samples, classes, parties, epsilon, delta, aggregator)
    if not 1 <= queries <= samples:
        raise InvalidParameter(f"{queries} queries were asked for; there are {samples} auxiliary samples")
    chosen = np.sort(np.random.default_rng(seed).permutation(samples)[:queries])
    mechanism: Mechanism
    if aggregator == "gnmax":
        bound = Sensitivity(math.sqrt(2 * queries) * (1 + 2.0**-50), source="sqrt(2 Q) votes")
        pitch = choose_pitch(bound.value, queries * classes)  # counts are integers, hence on every finer lattice
        mechanism = RoundedGaussian.for_epsilon_delta(bound.value, epsilon, delta, queries * classes, pitch)
    else:
        bound = Sensitivity(2.0 * queries, norm="l1", source="2 Q votes")
        mechanism = DiscreteLaplace.for_epsilon(bound.value, epsilon, queries * classes, 1.0)
        delta = 0.0
    return PatePlan(chosen, classes, parties, epsilon, delta, bound, mechanism)


def release_pate(counts: NDArray[np.integer], plan: PatePlan, randomness: Randomness = SYSTEM) -> PateRelease:
    """The class with the largest noisy count for each query; `counts` int (N, K). Ties go to the lower class number.

    Papernot et al. 2017 (LNMax) and 2018 (GNMax). Raises DataError for counts of another shape, or as `check_counts`.
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
    """The student: softmax regression with (ridge/2) ||W||^2 on the answered samples. (d,) binary, (K, d) otherwise.

    Rows are taken at unit length, which no linear classifier without intercept can tell when it is used: it makes one
    ridge fit every scaling of the features.
    """
    Z = np.asarray(X, dtype=np.float64)[release.plan.queries]
    lengths = np.linalg.norm(Z, axis=1, keepdims=True)
    Z = Z / np.where(lengths > 0, lengths, 1.0)
    classes = release.plan.classes
    target = np.eye(classes)[release.answers]

    def risk(w: Array) -> tuple[float, Array]:
        W = w.reshape(classes, -1)
        scores = Z @ W.T
        total = logsumexp(scores, axis=1, keepdims=True)
        slope = (np.exp(scores - total) - target).T @ Z / len(Z) + ridge * W
        return float((total[:, 0] - (scores * target).sum(axis=1)).mean() + ridge / 2 * (w @ w)), slope.ravel()

    found = minimize(
        risk, np.zeros(classes * Z.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 2000, "gtol": 1e-7}
    )
    W: Array = found.x.reshape(classes, -1)
    return W[1] - W[0] if classes == 2 else W
