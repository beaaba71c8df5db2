"""Simulate encrypted sums, and compare all classifiers that can be released from them.

The methods of Hamm 2016, section 6, run on one split: batch (all data in one place), indiv (each party alone), vote
(Algorithm 1), soft (Algorithm 2) and avg (parameter averaging, appendix B.4). vote, soft, statistic and pate are
released from one encrypted tally of the parties' votes, the others from sums of what they compute on their own rows.
With `--reveal statistic` the parties add noise to what they send, and the curator learns the noisy sum only.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from psephos.curator.class_shares import with_class_shares
from psephos.curator.losses import loss_named
from psephos.curator.methods import (
    Method,
    ReleaseRequest,
    SignalEstimator,
    average_method,
    erm_fit,
    public_method,
    statistic_choices,
    statistic_nonprivate,
)
from psephos.curator.rehearsed import fit_rehearsed, model_classifier
from psephos.curator.statistic import fit_statistic, release_sum
from psephos.parties.statistic import with_share
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import NoGainError
from psephos.protocol.grids.own_data import OWN
from psephos.protocol.privacy.mechanisms import DiscreteGaussian
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.results.base import Alpha
from psephos.results.runs import AverageResult, TallyResult
from psephos.simulation.options import COUNTED, LABELLED_METHODS, PUBLIC, RECORD_METHODS, AverageOptions, TallyOptions
from psephos.simulation.run import RunContext
from psephos.simulation.sums import MethodsAt, SumExperiment, run_experiment
from psephos.specs.exact import LABELS, AverageSpec, OwnDataSpec, TallySpec
from psephos.specs.head import HeadSpec
from psephos.specs.noisy import NoisySumSpec, StatisticSpec, plan_of
from psephos.specs.rows import RecordSpec, RehearsedSpec
from psephos.specs.terms import PrivacyTerms

Array = NDArray[np.float64]


def simulate_tally(options: TallyOptions, *, encrypted: bool = True, **context: Unpack[RunContext]) -> TallyResult:
    """Train the parties' classifiers, count their votes under encryption, release by every method, and evaluate.

    Without `encrypted` the vectors and the noise are the same, and are added in the clear.
    """
    sums = partial(_with_shares, _public_model) if context.get("public_only") else methods_of(options)
    run, fields = run_experiment(options, sums, context, SumExperiment if encrypted else ClearExperiment)
    return TallyResult(
        protocol="record" if options.unit == "record" else "statistic" if options.joint else "tally",
        alpha=None if run.evaluation.counts is None else Alpha.of(run.evaluation.counts),
        **fields,
    )


def simulate_average(options: AverageOptions, **context: Unpack[RunContext]) -> AverageResult:
    """Train the parties, sum their parameters and own-data vectors under encryption, and release the averages."""
    _, fields = run_experiment(options, _reveal_alpha, context)
    return AverageResult(protocol="average", **fields)


def methods_of(options: TallyOptions) -> Callable[[SumExperiment], MethodsAt]:
    """Return the function that takes a run's sums, and returns what makes its methods."""
    return partial(_with_shares, _reveal_statistic if options.joint else _reveal_alpha)


def _public_model(run: SumExperiment) -> MethodsAt:
    """Return the function that makes the model of the public rows the only method."""
    method = public_method(model_classifier(run.public(PUBLIC).model), {})
    return lambda epsilon: {PUBLIC: method}


def _with_shares(reveal: Callable[[SumExperiment], MethodsAt], run: SumExperiment) -> MethodsAt:
    options, population = run.options, run.population
    assert isinstance(options, TallyOptions)
    methods_at, shares = reveal(run), options.shares_of(population.split.dataset.classes)
    if not shares:
        return methods_at

    def adjusted(method: Method) -> Method:
        return replace(
            method,
            nonprivate=lambda: with_class_shares(method.nonprivate(), population.auxiliary, shares),
            draw=lambda randomness: with_class_shares(method.draw(randomness), population.auxiliary, shares),
            chosen=method.chosen | {"class shares": " ".join(f"{share:.3g}" for share in shares)},
        )

    return lambda epsilon: {name: adjusted(method) for name, method in methods_at(epsilon).items()}


# -- exact sums, to which the curator adds all noise


def _reveal_alpha(run: SumExperiment) -> MethodsAt:
    """Take the sums that all epsilons have in common; return the function that makes the methods."""
    options, population = run.options, run.population
    loss = loss_named(run.loss, population.classes)
    spec = TallySpec(AuxiliarySet(population.auxiliary, run.salt()), population.classes)
    counts = np.empty((0, 0), np.int64)
    if set(options.offered) & set(COUNTED):
        counts = spec.counts(run.sum(spec, population.trained.voters, "cast and count votes").opened)
        run.evaluation.counts = counts
    average = None
    if "avg" in options.offered:
        parameters: AverageSpec = AverageSpec.plan(run.public("avg"), options.privacy(options.epsilon[0]))
        vectors = np.array([parameters.encode(w) for w in population.trained.parameters], dtype=np.int64)
        average = parameters.average(run.sum(parameters, vectors, "sum parameters").opened)
    fitted = [name for name in options.offered if name in LABELS]
    fits = {name: erm_fit(LABELS[name], counts, population.auxiliary, loss) for name in fitted}

    def make(name: str, request: ReleaseRequest) -> Method:
        if average is not None and name == "avg":
            return average_method(average, options.local_lam, request, population.auxiliary)
        if name in OWN:
            return _sum_own_data(run, name, request)
        return spec.method_of(name, counts, request, loss=loss, fit=fits.get(name), seed=options.seed)

    return lambda epsilon: {name: make(name, options.request(epsilon)) for name in options.offered}


def _sum_own_data(run: SumExperiment, method: str, request: ReleaseRequest) -> Method:
    """Take the exact sum of a statistic of the parties' own rows; its coordinates depend on epsilon."""
    spec = OwnDataSpec.plan(run.public(method), run.options.privacy(request.epsilon))
    label = f"{method}, {spec.release_plan.rank} coordinates"
    opened = run.sum(spec, run.population.rows(), f"sum {method}", label=label).opened
    return spec.method_of(opened, partial(_statistic_without_noise, run, method, run.population.rows()))


# -- sums to which the parties add the noise


def _reveal_statistic(run: SumExperiment) -> MethodsAt:
    """Return the function that makes the methods, each of whose releases takes a sum with fresh noise."""
    make: dict[str, Callable[[str, float], Method]] = dict.fromkeys(run.options.offered, partial(_joint_method, run))
    make |= dict.fromkeys(set(make) & set(RECORD_METHODS), partial(_record_method, run))
    make |= dict.fromkeys(set(make) & set(LABELLED_METHODS), partial(_step_method, run))
    make |= dict.fromkeys(set(make) & set(HeadSpec.methods), partial(_head_method, run))
    return lambda epsilon: {name: make[name](name, epsilon) for name in run.options.offered}


def _noisy_sums(
    run: SumExperiment, spec: NoisySumSpec, data: Sequence[Any], name: str, epsilon: float
) -> Callable[[], OpenedSum]:
    """Return a function that takes an encrypted sum with fresh noise, or with noise of the seed in a simulation."""
    options, numbers = run.options, itertools.count()
    assert isinstance(options, TallyOptions)
    minimum = options.min_ballots or max(2, options.parties - options.dropouts)

    def take() -> OpenedSum:
        number = next(numbers)
        seed = (options.seed << 32) + number if options.simulate_noise else None
        label = f"{name} at {epsilon!r}, {number}"
        seeded = replace(spec, simulation_seed=seed)
        return run.sum(seeded, data, f"sum noisy {name}", label=label, minimum_ballots=minimum).opened

    return take


def _record_method(run: SumExperiment, name: str, epsilon: float) -> Method:
    population, privacy = run.population, run.options.privacy(epsilon)
    spec, rows = RecordSpec.plan(run.public(name), privacy), population.records()
    take = _noisy_sums(run, spec, rows, name, epsilon)

    def nonprivate() -> Array:
        exact = RecordSpec.plan(run.public(name), replace(privacy, epsilon=None))
        return exact.fitted(OpenedSum(tuple(_exact_sum(run, exact, rows)), tuple(population.present)))

    chosen = spec.cost(run.options.parties).chosen
    chosen = {**chosen, "labelled": spec.release_plan.labelled, "mechanism": run.options.noise}
    plan = spec.release_plan
    return Method(nonprivate, lambda randomness: spec.fitted(take()), plan.sensitivity, plan.event, chosen)


def _step_method(run: SumExperiment, name: str, epsilon: float) -> Method:
    """Return the step from a public model, or that model where no step is expected to be better."""
    parties, present, public = run.options.parties, len(run.population.present), run.public(name)
    try:
        spec = RehearsedSpec.plan(public, run.options.privacy(epsilon), run.progress)
    except NoGainError as error:
        run.remarks.append(
            f"{name} at epsilon {epsilon:g}: the parties were asked nothing. In simulated "
            f"worlds a step of {parties} parties changes the accuracy of the public rows' model "
            f"({error.accuracy:.1%} by cross-validation) by {error.gain:+.2%} (root "
            f"mean square loss {error.loss:.2%}); that model is released."
        )
        expected = {"public accuracy": error.accuracy, "expected gain": error.gain}
        return public_method(model_classifier(public.model), expected)
    plan, rows = spec.release_plan, run.population.rows()
    take = _noisy_sums(run, spec, rows, name, epsilon)
    chosen = spec.cost(parties).chosen | {"mechanism": "discrete-laplace" if plan.grid.norm == "l1" else "gaussian"}
    if (rehearsal := spec.rehearsal) is not None:
        chosen |= {"public accuracy": rehearsal.calibration.cross_validated, "expected gain": rehearsal.gain}
    return Method(
        lambda: fit_rehearsed(replace(plan, mechanism=None), _exact_sum(run, spec, rows), present),
        lambda randomness: spec.fitted(take()),
        replace(plan, parties=present).sensitivity,
        plan.event,
        chosen,
    )


def _head_method(run: SumExperiment, name: str, epsilon: float) -> Method:
    public = replace(run.public(name), agreed={"radius": vars(run.options)["radius"]})
    spec, present = HeadSpec.plan(public, run.options.privacy(epsilon)), tuple(run.population.present)
    heads = [SimpleNamespace(parameters=head) for head in run.population.trained.parameters]
    take, plan = _noisy_sums(run, spec, heads, name, epsilon), spec.counting(len(present))

    def nonprivate() -> Array:
        return spec.fitted(OpenedSum(tuple(_exact_sum(run, spec, heads)), present))

    chosen = spec.choices | {"mechanism": run.options.noise}
    return Method(nonprivate, lambda randomness: spec.fitted(take()), plan.sensitivity, plan.event, chosen)


def _joint_method(run: SumExperiment, name: str, epsilon: float) -> Method:
    population, options = run.population, run.options
    spec = StatisticSpec.plan(run.public(name), options.privacy(epsilon))
    assert spec.shares is not None
    plan = spec.counting(len(population.present))
    laws, signal = spec.inflation(plan.parties), SignalEstimator()
    data = population.trained.voters if spec.takes_classifier else population.rows()
    take = _noisy_sums(run, spec, data, name, epsilon)

    def draw(randomness: Randomness) -> Array:
        return signal.note_statistic(spec.statistic(take()), laws=laws)

    def nonprivate() -> Array:
        if plan.source != "votes":
            return _statistic_without_noise(run, name, data)
        return statistic_nonprivate(population.counts(population.auxiliary), population.auxiliary, options.local_lam)

    law = "gaussian" if isinstance(plan.mechanism, DiscreteGaussian) else "discrete-laplace"
    chosen = statistic_choices(plan, law) | {"contributors": spec.shares.contributors}
    return Method(nonprivate, draw, plan.sensitivity, plan.event, chosen, signal)


# -- sums in the clear


class ClearExperiment(SumExperiment):
    """A run without keys and messages: its process adds up what the parties and key holders would encrypt."""

    def sum(self, spec: Any, data: Any, phase: str, **more: Any) -> Any:
        self.before_sum()
        holders = 0 if spec.holder_shares is None else self.options.key_holders
        vectors = [spec.noise_of(number) for number in range(1, holders + 1)]
        for number in self.present:
            vectors.append(with_share(spec.vector(data[number]), spec.party_shares, spec.coins(number, SYSTEM)))
        total = tuple(sum(map(int, column)) for column in zip(*vectors, strict=True))
        opened = OpenedSum(total, tuple(self.present))
        self._charges.after_sum(more.get("label") or phase, opened)
        self.evaluation.sums.setdefault(phase, []).append(opened)
        return SimpleNamespace(opened=opened)

    def result_fields(self, methods: Sequence[Mapping[str, Method]]) -> dict[str, Any]:
        asked = len(self.present) if self.evaluation.sums else 0
        colluders = self.options.coalition if asked else None
        return super().result_fields(methods) | {"ballots": asked, "colluders": colluders}


# -- without noise, to compare with: only a simulation has all rows


def _exact_sum(run: SumExperiment, spec: NoisySumSpec, data: Sequence[Any]) -> list[int]:
    """Return the sum of the present parties' exact vectors; `data`: of all parties, as `Spec.prepare` returns it."""
    vectors = (spec.vector(data[number]) for number in run.population.present)
    return [sum(column) for column in zip(*vectors, strict=True)]


def _statistic_without_noise(run: SumExperiment, name: str, data: Sequence[Any]) -> Array:
    """Fit a statistic of the present parties without noise, in all public coordinates: (d,) or (K, d)."""
    public = replace(run.public(name), parties=len(run.population.present))
    plan = plan_of(public, PrivacyTerms(epsilon=None), "spherical-laplace", joint=False)
    spec = StatisticSpec(plan, None, public.auxiliary)
    return fit_statistic(release_sum(_exact_sum(run, spec, data), plan))
