"""The encrypted sum of the parties' parameters, and their private average (`psephos simulate average`).

Hamm 2016, appendix B.4, compares with it; the ball that every party's parameters are projected on is ours
(docs/theory.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from psephos.curator.hamm import sensitivity as bounds
from psephos.curator.hamm.averaging import Average, average_of
from psephos.curator.hamm.methods import Method, Request, average_method, own_data_method
from psephos.curator.hamm.rules import averaging_radius
from psephos.curator.hamm.statistic import SOURCE_OF, plan_statistic
from psephos.protocol.encrypted_sum.fixed_point import FRACTION_BITS, FixedPoint, parameters_context, project
from psephos.protocol.encrypted_sum.own_data import OWN, OwnDataGrid
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.results import AverageOutcome
from psephos.simulation.ceremony import KeySetup
from psephos.simulation.encrypted_sum import OwnDataPartyFactory, VectorPartyFactory
from psephos.simulation.references import own_data_nonprivate
from psephos.simulation.sums import MethodsAt, RunContext, SumOptions, Sums, play

__all__ = [
    "AverageOptions",
    "exact_round",
    "simulate_average",
    "sum_own_data",
    "sum_parameters",
]


@dataclass(frozen=True, kw_only=True)
class AverageOptions(SumOptions):
    """What `psephos simulate average` is asked for: averages of classifiers, or of directions of own rows."""

    @property
    def available(self) -> tuple[str, ...]:
        return ("avg", *OWN)


def simulate_average(options: AverageOptions, **how: Unpack[RunContext]) -> AverageOutcome:
    """Train, sum the parameters and the directions under encryption, release their averages.

    `how`: see `RunContext`. Raises the named errors of `psephos.protocol.errors` for anything that cannot be run.
    """
    _, fields = play(options, _sums, "logistic", how)
    radius = fields["privacy"]["avg"].chosen["radius"] if "avg" in options.offered else 1.0
    return AverageOutcome(protocol="average", radius=radius, **fields)


def _sums(run: Sums) -> MethodsAt:
    average = sum_parameters(run) if "avg" in run.options.offered else None

    def at(epsilon: float) -> dict[str, Method]:
        request = run.options.request(epsilon)
        found = (
            {}
            if average is None
            else {"avg": average_method(average, run.options.local_lam, request, run.population.auxiliary)}
        )
        return found | {name: sum_own_data(run, name, request) for name in OWN if name in run.options.offered}

    return at


def exact_round(
    ceremony: KeySetup,
    options: SumOptions,
    context: bytes,
    length: int,
    low: int,
    high: int,
    *,
    randomness: Randomness = SYSTEM,
) -> Round:
    """The round of a sum to which the curator adds the noise: of `length` integers from `low` to `high`."""
    key, entries = ceremony.threshold_key, {"length": length, "minimum": low, "maximum": high}
    return Round.create(
        "parameters",
        key,
        PackingPlan.for_key(key.key, addends=options.parties, **entries),
        ceremony.roster,
        context=context,
        minimum_ballots=options.min_ballots,
        test_key=options.test_key,
        proofs=options.vector_proofs,
        randomness=randomness,
    )


def sum_own_data(run: Sums, method: str, request: Request) -> Method:
    """The encrypted sum of what the parties' own rows say, to which the curator adds the noise.

    What is summed depends on epsilon, by its number of coordinates: each epsilon has a sum of its own.
    """
    options, population = run.options, run.population
    plan = plan_statistic(
        population.auxiliary,
        population.classes,
        options.parties,
        epsilon=request.epsilon,
        delta=options.delta,
        mechanism=options.noise,
        source=SOURCE_OF[method],
    )
    assert isinstance(plan.grid, OwnDataGrid)
    grid = plan.grid
    entries = plan.dimension, grid.minimum, grid.maximum
    round_ = exact_round(run.ceremony(*entries), options, grid.digest, *entries)
    contribution = OwnDataPartyFactory(population.rows(), grid, None)
    opened = run.sum(round_, contribution, f"sum {method}", label=f"{method}, {plan.rank} coordinates").opened
    # Who took part is public, and the mean is over them.
    counted = replace(plan, parties=opened.ballots, unit=plan.unit * plan.parties / opened.ballots)

    def nonprivate() -> NDArray[np.float64]:
        held = population.rows()
        present = [held[number] for number in population.present]
        return own_data_nonprivate(present, population.auxiliary, population.classes, SOURCE_OF[method])

    return own_data_method(list(opened.sums), counted, nonprivate)


def sum_parameters(run: Sums) -> Average:
    """The encrypted sum of the parties' parameters, each projected on a public ball before it is encoded.

    Its radius is R(lambda), which changes no exact minimiser, where the caller fixes lambda as the papers do, and a
    tenth of that by the public rule.
    """
    options, population = run.options, run.population
    lam, classes = options.local_lam, population.classes
    radius = averaging_radius(lam, classes) if options.lam is None else bounds.radius(lam, classes)
    fixed_point = FixedPoint(FRACTION_BITS)
    vectors = np.array([fixed_point.encode(project(w, radius), radius) for w in population.parameters], dtype=np.int64)
    limit = fixed_point.limit(radius)
    entries = vectors.shape[1], -limit, limit
    round_ = exact_round(run.ceremony(*entries), options, parameters_context(radius), *entries)
    opened = run.sum(round_, VectorPartyFactory("parameters", vectors), "sum parameters").opened
    features = population.auxiliary.shape[1]
    return average_of(opened.sums, opened.ballots, radius, fixed_point, features=features, classes=classes)
