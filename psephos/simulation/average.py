"""Simulate the private average of the parties' classifiers by an encrypted sum (`psephos simulate average`).

It is the baseline of Hamm 2016, appendix B.4. The ball onto which each party's parameters are projected is our addition
(docs/theory.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from psephos.curator.hamm.averaging import Average
from psephos.curator.methods import Method, ReleaseRequest, average_method
from psephos.protocol.grids.own_data import OWN
from psephos.results import AverageResult
from psephos.simulation.references import statistic_without_noise
from psephos.simulation.run import RunContext
from psephos.simulation.sum_options import SumOptions
from psephos.simulation.sums import MethodsAt, SumExperiment, run_experiment
from psephos.specs.average import AverageSpec, OwnDataSpec


@dataclass(frozen=True, kw_only=True)
class AverageOptions(SumOptions):
    """Options of `psephos simulate average`: averages of classifiers, or of a statistic of the parties' own rows."""

    @property
    def available(self) -> tuple[str, ...]:
        return ("avg", *OWN)


def simulate_average(options: AverageOptions, **context: Unpack[RunContext]) -> AverageResult:
    """Train the parties, sum their parameters and own-data vectors under encryption, and release the averages."""
    _, fields = run_experiment(options, _sums, "logistic", context)
    return AverageResult(protocol="average", **fields)


def _sums(run: SumExperiment) -> MethodsAt:
    """Take the sum of the parameters, and return the function that makes the methods for an epsilon."""
    average = sum_parameters(run) if "avg" in run.options.offered else None

    def at(epsilon: float) -> dict[str, Method]:
        request = run.options.request(epsilon)
        methods: dict[str, Method] = {}
        if average is not None:
            methods["avg"] = average_method(average, run.options.local_lam, request, run.population.auxiliary)
        return methods | {name: sum_own_data(run, name, request) for name in OWN if name in run.options.offered}

    return at


def sum_own_data(run: SumExperiment, method: str, request: ReleaseRequest) -> Method:
    """Take the encrypted sum of a statistic of the parties' own rows; the curator adds the noise.

    The number of coordinates depends on epsilon, so each epsilon needs its own sum.
    """
    options, population = run.options, run.population
    spec = OwnDataSpec.plan(run.public(method), options.privacy(request.epsilon))
    label = f"{method}, {spec.release_plan.rank} coordinates"
    opened = run.sum(spec, population.rows(), f"sum {method}", label=label).opened

    def nonprivate() -> NDArray[np.float64]:
        rows = population.rows()
        return statistic_without_noise(run.public(method), [rows[number] for number in population.present])

    return spec.method_of(opened, nonprivate)


def sum_parameters(run: SumExperiment) -> Average:
    """Take the encrypted sum of the parties' parameters, each projected onto a public ball before encoding."""
    options, population = run.options, run.population
    spec: AverageSpec = AverageSpec.plan(run.public("avg"), options.privacy(options.epsilon[0]))
    vectors = np.array([spec.encode(w) for w in population.parameters], dtype=np.int64)
    return spec.average(run.sum(spec, vectors, "sum parameters").opened)
