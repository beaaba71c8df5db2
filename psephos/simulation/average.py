"""The encrypted sum of the parties' parameters, and their private average (`psephos simulate average`).

Hamm 2016, appendix B.4, compares with it; the ball that every party's parameters are projected on is ours
(docs/theory.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from psephos.curator.hamm import sensitivity as bounds
from psephos.curator.hamm.averaging import Average, average_of
from psephos.curator.hamm.rules import averaging_radius
from psephos.curator.hamm.statistic import plan_statistic
from psephos.options import option
from psephos.outcomes import AverageOutcome
from psephos.protocol.encrypted_sum.fixed_point import FixedPoint, project
from psephos.protocol.encrypted_sum.own_data import OwnDataGrid
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.roles import Role
from psephos.protocol.transcript import Transcript
from psephos.simulation.encrypted_sum import OwnDataContribution, VectorContribution
from psephos.simulation.methods import Method, average_method, own_data_method
from psephos.simulation.sums import Progress, SumOptions, Sums, journal_of, one_of, settled

__all__ = ["FRACTION_BITS", "AverageOptions", "simulate_average", "sum_own_data", "sum_parameters"]

FRACTION_BITS = 24
"""Of the fixed point that parameters travel in: 2^-24 is far below what any classifier feels."""


@dataclass(frozen=True, kw_only=True)
class AverageOptions(SumOptions):
    """What `psephos simulate average` is asked for."""

    of: Literal["parameters", "own-data"] = option(
        "parameters",
        "What is averaged: each party's classifier, or a direction of its own rows (the own-data statistic).",
        group="Privacy",
    )

    def check(self) -> None:
        """As `SumOptions.check`."""
        one_of("of", self.of, "parameters", "own-data")
        super().check()


def simulate_average(
    options: AverageOptions,
    *,
    transcript: Transcript | None = None,
    progress: Progress | None = None,
    roles: Mapping[str, Callable[[Role], Role]] | None = None,
) -> AverageOutcome:
    """Train, sum the parameters under encryption, release their average.

    Raises the named errors of `psephos.protocol.errors` for anything that cannot be run.
    """
    options = settled(options)
    with journal_of(options) as journal:
        run = Sums(options, transcript=transcript, progress=progress, roles=roles, journal=journal)
        if options.of == "own-data":
            radius, methods = 1.0, {"own-data": sum_own_data(run)}
        else:
            average = sum_parameters(run)
            radius, methods = average.radius, {"avg": average_method(average, options.local_lam, options.request)}
    with run.timed("fit"):
        accuracy, measured_on = run.population.references("logistic")
        accuracy |= run.released(methods)
    return AverageOutcome(protocol="average", radius=radius, measured_on=measured_on, **run.outcome(methods, accuracy))


def sum_own_data(run: Sums) -> Method:
    """The encrypted sum of the parties' own-data statistics, to which the curator adds the noise."""
    options, population = run.options, run.population
    plan = plan_statistic(
        population.auxiliary,
        population.classes,
        options.parties,
        epsilon=options.epsilon,
        delta=options.delta,
        mechanism=options.noise,
        source="own-data",
    )
    assert isinstance(plan.grid, OwnDataGrid)
    low, high, key = plan.grid.minimum, plan.grid.maximum, run.ceremony.threshold_key.key
    round_ = Round.create(
        "parameters",
        run.ceremony.threshold_key,
        PackingPlan.for_key(key, length=plan.dimension, addends=options.parties, minimum=low, maximum=high),
        run.ceremony.roster,
        context=plan.grid.digest,
        minimum_ballots=options.min_ballots,
        test_key=options.test_key,
        proofs=options.vector_proofs,
    )
    opened = run.sum(round_, OwnDataContribution(population.rows(), plan.grid, None), "sum own data").opened
    return own_data_method(list(opened.sums), plan)


def sum_parameters(run: Sums) -> Average:
    """The encrypted sum of the parties' parameters, each projected on a public ball before it is encoded.

    Its radius is R(lambda), which changes no exact minimiser, where the caller fixes lambda as the papers do, and a
    tenth of that by the public rule.
    """
    options, ceremony, population = run.options, run.ceremony, run.population
    lam, classes = options.local_lam, population.classes
    radius = averaging_radius(lam, classes) if options.lam is None else bounds.radius(lam, classes)
    fixed_point = FixedPoint(FRACTION_BITS)
    vectors = np.array([fixed_point.encode(project(w, radius), radius) for w in population.parameters], dtype=np.int64)
    limit = fixed_point.limit(radius)
    key = ceremony.threshold_key.key
    round_ = Round.create(
        "parameters",
        ceremony.threshold_key,
        PackingPlan.for_key(key, length=vectors.shape[1], addends=options.parties, minimum=-limit, maximum=limit),
        ceremony.roster,
        context=hashlib.sha256(f"psephos parameters {radius.hex()} {FRACTION_BITS}".encode()).digest(),
        minimum_ballots=options.min_ballots,
        test_key=options.test_key,
        proofs=options.vector_proofs,
    )
    opened = run.sum(round_, VectorContribution("parameters", vectors), "sum parameters").opened
    features = population.auxiliary.shape[1]
    return average_of(opened.sums, opened.ballots, radius, fixed_point, features=features, classes=classes)
