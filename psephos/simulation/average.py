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
from psephos.curator.hamm.averaging import Average
from psephos.curator.hamm.methods import Method, Request, average_method, own_data_method
from psephos.curator.hamm.rules import averaging_radius
from psephos.curator.hamm.statistic import SOURCE_OF, plan_statistic
from psephos.protocol.encrypted_sum.own_data import OWN
from psephos.results import AverageResult
from psephos.simulation.references import own_data_nonprivate
from psephos.simulation.sums import MethodsAt, RunContext, SumExperiment, SumOptions, run_experiment
from psephos.specs.average import AverageSpec, OwnDataSpec

__all__ = ["AverageOptions", "simulate_average", "sum_own_data", "sum_parameters"]


@dataclass(frozen=True, kw_only=True)
class AverageOptions(SumOptions):
    """What `psephos simulate average` is asked for: averages of classifiers, or of directions of own rows."""

    @property
    def available(self) -> tuple[str, ...]:
        return ("avg", *OWN)


def simulate_average(options: AverageOptions, **how: Unpack[RunContext]) -> AverageResult:
    """Train, sum the parameters and the directions under encryption, release their averages.

    `how`: see `RunContext`. Raises the named errors of `psephos.protocol.errors` for anything that cannot be run.
    """
    _, fields = run_experiment(options, _sums, "logistic", how)
    return AverageResult(protocol="average", **fields)


def _sums(run: SumExperiment) -> MethodsAt:
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


def sum_own_data(run: SumExperiment, method: str, request: Request) -> Method:
    """Take the encrypted sum of what the parties' own rows say, to which the curator adds the noise.

    What is summed depends on epsilon, by its number of coordinates: each epsilon has a sum of its own.
    """
    options, population = run.options, run.population
    spec = OwnDataSpec(
        plan_statistic(
            population.auxiliary,
            population.classes,
            options.parties,
            epsilon=request.epsilon,
            delta=options.delta,
            mechanism=options.noise,
            source=SOURCE_OF[method],
        )
    )
    plan = spec.plan
    label = f"{method}, {plan.rank} coordinates"
    opened = run.sum(spec, population.rows(), f"sum {method}", label=label).opened
    # Who took part is public, and the mean is over them.
    counted = replace(plan, parties=opened.ballots, unit=plan.unit * plan.parties / opened.ballots)

    def nonprivate() -> NDArray[np.float64]:
        rows = population.rows()
        present = [rows[number] for number in population.present]
        return own_data_nonprivate(present, population.auxiliary, population.classes, SOURCE_OF[method])

    return own_data_method(list(opened.sums), counted, nonprivate)


def sum_parameters(run: SumExperiment) -> Average:
    """Take the encrypted sum of the parties' parameters, each projected on a public ball before it is encoded.

    Its radius is R(lambda), which changes no exact minimiser, where the caller fixes lambda as the papers do, and a
    tenth of that by the public rule.
    """
    options, population = run.options, run.population
    lam, classes = options.local_lam, population.classes
    radius = averaging_radius(lam, classes) if options.lam is None else bounds.radius(lam, classes)
    spec = AverageSpec(population.auxiliary.shape[1], classes, radius, lam)
    vectors = np.array([spec.encode(w) for w in population.parameters], dtype=np.int64)
    return spec.average(run.sum(spec, vectors, "sum parameters").opened)
