"""Simulate votes counted under encryption, and compare all classifiers that can be released from them.

The methods of Hamm 2016, section 6, run on one split: batch (all data in one place), indiv (each party alone), vote
(Algorithm 1), soft (Algorithm 2) and avg (parameter averaging). The other methods are those of this project. vote,
soft, statistic and pate are released from one encrypted tally of the parties' votes, avg from an encrypted sum of their
parameters, own-data and whitened from sums of a statistic of the parties' own rows. With `--reveal statistic` the
parties add noise to their own statistics instead, and the curator learns their sum only.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from psephos.curator.hamm.methods import (
    Method,
    ReleaseRequest,
    SignalEstimator,
    average_method,
    erm_fit,
    statistic_choices,
    statistic_nonprivate,
)
from psephos.curator.hamm.statistic import (
    SOURCE_OF,
    mechanism_with_less_noise,
    plan_statistic,
)
from psephos.curator.losses import loss_named
from psephos.data.partition import one_of
from psephos.options import option
from psephos.parties.learners import LEARNERS, make_learner
from psephos.parties.noise import contributors
from psephos.protocol.encrypted_sum.own_data import OWN, OwnDataGrid
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.randomness import Randomness
from psephos.results import Alpha, TallyResult
from psephos.simulation.average import sum_own_data, sum_parameters
from psephos.simulation.references import own_data_nonprivate
from psephos.simulation.sums import METHODS, MethodsAt, RunContext, SumExperiment, SumOptions, run_experiment
from psephos.specs.statistic import StatisticSpec
from psephos.specs.tally import LABELS, TallySpec

__all__ = ["TallyOptions", "simulate_tally"]

VOTED = ("vote", "soft", "statistic", "pate")
"""Methods whose release is computed from the counts of votes."""


@dataclass(frozen=True, kw_only=True)
class TallyOptions(SumOptions):
    """Options of `psephos simulate tally`."""

    reveal: Literal["alpha", "statistic"] | None = option(
        None,
        "What the curator learns: alpha (the exact counts of votes; it adds the noise), or statistic (a sum to which "
        "the parties have added the noise).",
        group="Privacy",
        shown="alpha",
    )
    colluders: int | None = option(
        None,
        "Parties that may tell each other their noise (where the parties add it); key holders are parties.",
        group="Privacy",
        shown="threshold - 1",
    )
    dropouts: int = option(0, "Parties that may stay away (joint noise).", group="Privacy")
    protect_auxiliary: bool = option(False, "One auxiliary sample is private too (Hamm 4.5).", group="Privacy")
    loss: Literal["logistic", "huber"] = option("logistic", "logistic (softmax for several classes) or huber.")
    learners: tuple[str, ...] = option(
        ("logistic",), f"Local classifiers, dealt to the parties in turn, of {', '.join(LEARNERS)}."
    )

    def check(self) -> None:
        """Raise InvalidParameter for invalid options, before anything is computed."""
        one_of("reveal", self.reveal, None, "alpha", "statistic")
        one_of("loss", self.loss, "logistic", "huber")
        super().check()
        learners = self.local_learners
        unknown = [name for name in learners if isinstance(name, str) and name not in LEARNERS]
        if unknown or not learners:
            raise InvalidParameter(
                f"learners are one or more of {', '.join(LEARNERS)}, not {', '.join(unknown) or 'none'}"
            )
        for learner in learners:
            if not isinstance(learner, str):
                make_learner(learner, classes=2)  # raises InvalidParameter if it is no classifier
        if self.protect_auxiliary and "whitened" in learners:
            raise InvalidParameter(
                "whitened learners compute their coordinates from the auxiliary samples, which are private with "
                "--protect-auxiliary: leave one of them out"
            )
        if self.joint:
            self._check_joint()
        elif self.colluders is not None or self.dropouts:
            raise InvalidParameter(
                "--colluders and --dropouts have an effect only where the parties add the noise: use them with "
                "--reveal statistic"
            )

    def _check_joint(self) -> None:
        """Raise InvalidParameter for options that do not fit noise that the parties add."""
        contributors(self.parties, self.coalition or 0, self.dropouts)
        if self.loss != "logistic":
            raise InvalidParameter(
                "the statistic is for the logistic loss, not huber: leave --loss out, or use --reveal alpha"
            )
        if self.protect_auxiliary:
            raise InvalidParameter("the statistic release does not protect auxiliary samples; use --reveal alpha")
        least = self.parties - self.dropouts
        if (self.min_ballots or least) < least or len(self.away) > self.dropouts:
            raise InvalidParameter(
                f"the parties' noise is complete only with {least} ballots; {len(self.away)} parties are absent, and "
                f"the minimum is {self.min_ballots or least} ballots: set a larger --dropouts"
            )

    @property
    def coalition(self) -> int | None:
        """Number of parties that may reveal their noise to each other; None where the curator adds the noise."""
        if not self.joint:
            return None
        return self.opening_threshold - 1 if self.colluders is None else self.colluders

    @property
    def joint(self) -> bool:
        """Whether the parties add the noise in shares, so that the curator learns no exact sum."""
        return self.reveal == "statistic"

    @property
    def may_choose_laplace(self) -> bool:
        """Whether Laplace noise may replace Gaussian noise where its variance is smaller."""
        return False

    @property
    def available(self) -> tuple[str, ...]:
        """Methods that these options allow."""
        if self.joint:
            return ("statistic", *OWN)
        if self.protect_auxiliary:
            return ("vote", "soft", "avg")
        return METHODS if self.loss == "logistic" else ("vote", "soft", "avg", "pate")

    @property
    def private_auxiliary(self) -> bool:
        return self.protect_auxiliary

    @property
    def local_learners(self) -> tuple[Any, ...]:
        return self.learners


def simulate_tally(options: TallyOptions, **context: Unpack[RunContext]) -> TallyResult:
    """Train the parties' classifiers, count their votes under encryption, release by every method, and evaluate.

    Args:
        options: the data, the parties, the methods and the keys.
        context: see `RunContext`.

    Raises:
        InvalidParameter: the options cannot be used.
        PsephosError: another error of `psephos.protocol.errors` ended the run.
    """
    run, fields = run_experiment(options, _reveal_statistic if options.joint else _reveal_alpha, options.loss, context)
    return TallyResult(
        protocol="statistic" if options.joint else "tally",
        alpha=None if run.evaluation.counts is None else Alpha.of(run.evaluation.counts),
        **fields,
    )


def _reveal_alpha(run: SumExperiment) -> MethodsAt:
    """Take the exact sums, to which the curator adds all noise; return the function that makes the methods.

    The sums are the counts of votes, of the parameters, and of statistics of the parties' own rows.
    """
    options, population = run.options, run.population
    assert isinstance(options, TallyOptions)
    loss = loss_named(options.loss, population.classes)
    spec = TallySpec(AuxiliarySet(population.auxiliary, run.salt()), population.classes)
    counts = _count(run, spec) if set(options.offered) & set(VOTED) else np.empty((0, 0), np.int64)
    average = sum_parameters(run) if "avg" in options.offered else None
    fits = {
        name: erm_fit(LABELS[name], counts, population.auxiliary, loss) for name in options.offered if name in LABELS
    }

    def make(name: str, request: ReleaseRequest) -> Method:
        if average is not None and name == "avg":
            return average_method(average, options.local_lam, request, population.auxiliary)
        if name in OWN:
            return sum_own_data(run, name, request)
        return spec.method_of(name, counts, request, loss=loss, fit=fits.get(name), seed=options.seed)

    return lambda epsilon: {name: make(name, options.request(epsilon)) for name in options.offered}


def _count(run: SumExperiment, spec: TallySpec) -> NDArray[np.int64]:
    """Count the votes under encryption, int64 (N, K), and store the counts in the run's evaluation."""
    run.evaluation.counts = spec.counts(run.sum(spec, run.population.voters, "cast and count votes").opened)
    return run.evaluation.counts


def _reveal_statistic(run: SumExperiment) -> MethodsAt:
    """Return the function that makes the methods to whose sums the parties add noise in shares."""
    return lambda epsilon: {name: _joint_method(run, name, epsilon) for name in run.options.offered}


def _joint_method(run: SumExperiment, name: str, epsilon: float) -> Method:
    """Return a method for which every release takes an encrypted sum with fresh noise of the parties."""
    population, options = run.population, run.options
    assert isinstance(options, TallyOptions)
    terms = population.auxiliary, population.classes, options.parties
    noise = options.noise
    if options.may_choose_laplace:
        noise = mechanism_with_less_noise(*terms, epsilon=epsilon, delta=options.delta, joint=True)
    plan = plan_statistic(
        *terms,
        epsilon=epsilon,
        delta=options.delta,
        mechanism=noise,
        source=SOURCE_OF[name],
        joint=True,
    )
    agreed = {"colluders": options.coalition or 0, "dropouts": options.dropouts}
    spec = StatisticSpec.from_plan(plan, AuxiliarySet.of(population.auxiliary), **agreed)
    assert spec.shares is not None
    plan, contributors = spec.noisy_plan, spec.shares.contributors
    releases, signal = itertools.count(), SignalEstimator()
    rows = population.rows()
    data = population.voters if spec.takes_classifier else rows

    def draw(randomness: Randomness) -> NDArray[np.float64]:
        number = next(releases)
        seed = (options.seed << 32) + number if options.simulate_noise else None
        label = f"{name} at {epsilon!r}, {number}"
        minimum = options.min_ballots or max(2, options.parties - options.dropouts)
        noisy = replace(spec, simulation_seed=seed)
        opened = run.sum(noisy, data, f"sum noisy {name}", label=label, minimum_ballots=minimum).opened
        return signal.note_statistic(spec.statistic(opened), ballots=opened.ballots, contributors=contributors)

    def nonprivate() -> NDArray[np.float64]:  # for comparison; only a simulation has the rows
        if isinstance(plan.grid, OwnDataGrid):
            present = (rows[number] for number in population.present)
            return own_data_nonprivate(present, population.auxiliary, population.classes, SOURCE_OF[name])
        return statistic_nonprivate(population.counts(population.auxiliary), population.auxiliary, options.local_lam)

    chosen = statistic_choices(plan, noise) | {"contributors": contributors}
    return Method(nonprivate, draw, plan.sensitivity, plan.event, chosen, signal)
