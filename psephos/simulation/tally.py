"""The main job: local training, encrypted counts, private classifiers, and what they are worth.

The five algorithms of Hamm 2016, section 6, on one split: batch (all data in one place), indiv (each party alone), vote
(Algorithm 1), soft (Algorithm 2) and avg (parameter averaging). vote and soft come from one encrypted tally of the
parties' votes, avg from an encrypted sum of their parameters. With `--reveal statistic` the parties sum their own noisy
statistics instead, and the curator never sees anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from psephos.curator.hamm.rules import choose_method
from psephos.curator.hamm.statistic import StatisticPlan, fit_statistic, plan_statistic, release_sum, release_total
from psephos.curator.losses import loss_named
from psephos.options import option
from psephos.outcomes import Alpha, Curve, TallyOutcome
from psephos.parties.learners import LEARNERS
from psephos.parties.noise import PolyaShares, Shares, SkellamShares, contributors
from psephos.parties.statistic import entry_range
from psephos.protocol.encrypted_sum.own_data import OwnDataGrid
from psephos.protocol.encrypted_sum.rounds import Proofs, Round
from psephos.protocol.encrypted_sum.votes import AuxiliarySet, VoteLayout, vote_round
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.privacy.mechanisms import DiscreteLaplace, Skellam
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.roles import Role
from psephos.protocol.transcript import Transcript
from psephos.simulation.average import sum_parameters
from psephos.simulation.ceremony import Ceremony
from psephos.simulation.encrypted_sum import Contribution, OwnDataContribution, StatisticContribution, VoteContribution
from psephos.simulation.methods import (
    Method,
    average_method,
    erm_fit,
    erm_method,
    pate_method,
    statistic_choices,
    statistic_method,
    statistic_nonprivate,
)
from psephos.simulation.sums import Progress, SumOptions, Sums, journal_of, one_of, settled

__all__ = ["TallyOptions", "shares_of", "simulate_tally", "statistic_round"]

CURVE_EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
CURVE_DRAWS = 10


@dataclass(frozen=True, kw_only=True)
class TallyOptions(SumOptions):
    """What `psephos simulate tally` is asked for."""

    reveal: Literal["alpha", "statistic"] = option(
        "alpha",
        "What the curator is given: alpha (the counts), or statistic (private before it sees it).",
        group="Privacy",
    )
    method: Literal["statistic", "own-data", "auto"] = option(
        "statistic",
        "What parties sum with --reveal statistic: the statistic of their votes, of their own data (which learns "
        "something linear), or auto: own-data where all learn logistic regression.",
        group="Privacy",
    )
    colluders: int = option(0, "Parties whose noise shares may be known (joint noise).", group="Privacy")
    dropouts: int = option(0, "Parties that may stay away (joint noise).", group="Privacy")
    protect_auxiliary: bool = option(False, "One auxiliary sample is private too (Hamm 4.5).", group="Privacy")
    loss: Literal["logistic", "huber"] = option("logistic", "logistic (softmax for several classes) or huber.")
    learners: tuple[str, ...] = option(
        ("logistic",), f"Local classifiers, dealt to the parties in turn, of {', '.join(LEARNERS)}."
    )
    curves: bool = option(False, "Accuracy against epsilon as well, for the report.")

    def check(self) -> None:
        """As `SumOptions.check`."""
        one_of("reveal", self.reveal, "alpha", "statistic")
        one_of("method", self.method, "statistic", "own-data", "auto")
        one_of("loss", self.loss, "logistic", "huber")
        super().check()
        unknown = [name for name in self.learners if name not in LEARNERS]
        if unknown or not self.learners:
            raise InvalidParameter(
                f"learners are one or more of {', '.join(LEARNERS)}, not {', '.join(unknown) or 'none'}"
            )
        if self.joint:
            self._check_joint()
        elif self.colluders or self.dropouts or self.method != "statistic":
            raise InvalidParameter(
                "--colluders, --dropouts and --method are about sums with joint noise: use them with --reveal statistic"
            )

    def _check_joint(self) -> None:
        contributors(self.parties, self.colluders, self.dropouts)
        if self.draws != 1:
            raise InvalidParameter(
                "with --reveal statistic the parties add the noise themselves, once: leave --draws out"
            )
        if self.loss != "logistic":
            raise InvalidParameter("the linear statistic carries the logistic and softmax losses only, not huber")
        if self.protect_auxiliary:
            raise InvalidParameter("the statistic release does not protect auxiliary samples; use --reveal alpha")
        if self.min_ballots is not None and self.min_ballots < self.parties - self.dropouts:
            raise InvalidParameter(
                f"the joint noise is whole only with {self.parties - self.dropouts} ballots; a minimum of "
                f"{self.min_ballots} needs --dropouts {self.parties - self.min_ballots}"
            )

    @property
    def joint(self) -> bool:
        return self.reveal == "statistic"

    @property
    def private_auxiliary(self) -> bool:
        return self.protect_auxiliary

    @property
    def local_learners(self) -> tuple[str, ...]:
        return self.learners


MethodsAt = Callable[[float], dict[str, Method]]


@dataclass(frozen=True)
class _Revealed:
    """What came of the sums: the methods, for any epsilon where the curator adds the noise, and the counts."""

    methods: dict[str, Method]
    at: MethodsAt | None = None
    counts: NDArray[np.int64] | None = field(default=None, repr=False)


def simulate_tally(
    options: TallyOptions,
    *,
    transcript: Transcript | None = None,
    progress: Progress | None = None,
    roles: Mapping[str, Callable[[Role], Role]] | None = None,
) -> TallyOutcome:
    """Train, vote, count under encryption, release by every method, and measure.

    `roles` replaces roles by name (`psephos.protocol.driver.replaced`), in every sum. Raises the named errors of
    `psephos.protocol.errors` for anything that cannot be run.
    """
    options = settled(options)
    with journal_of(options) as journal:
        run = Sums(options, transcript=transcript, progress=progress, roles=roles, journal=journal)
        revealed = _reveal_statistic(run, options) if options.joint else _reveal_alpha(run, options)
    with run.timed("fit"):
        accuracy, measured_on = run.population.references(options.loss)
        accuracy |= run.released(revealed.methods)
    return TallyOutcome(
        protocol="statistic" if options.joint else "tally",
        reveal=options.reveal,
        classes=run.population.classes,
        measured_on=measured_on,
        curves=_curves(run, revealed.at, options.noise_coins) if options.curves and revealed.at else [],
        alpha=None if revealed.counts is None else Alpha.of(revealed.counts),
        **run.outcome(revealed.methods, accuracy),
    )


def _reveal_alpha(run: Sums, options: TallyOptions) -> _Revealed:
    """The curator learns the counts, and a separate sum of parameters; it adds the noise of every release."""
    population = run.population
    auxiliary, classes = AuxiliarySet(population.auxiliary, run.salt()), population.classes
    round_ = vote_round(
        run.ceremony.threshold_key,
        run.ceremony.roster,
        auxiliary,
        classes,
        minimum_ballots=options.min_ballots,
        test_key=options.test_key,
        proofs=options.proofs,
    )
    votes = VoteContribution(population.voters, auxiliary, classes)
    opened = run.sum(round_, votes, "cast and count votes").opened
    counts = VoteLayout(len(auxiliary.samples), classes).decode(opened.sums, opened.ballots)
    average = sum_parameters(run)
    public, loss = population.auxiliary, loss_named(options.loss, classes)
    vote_fit, soft_fit = (erm_fit(labels, counts, public, loss) for labels in ("majority", "soft"))

    def at(epsilon: float) -> dict[str, Method]:
        request = replace(options.request, epsilon=epsilon)
        methods = {
            "vote": erm_method("majority", counts, public, loss, request, vote_fit),
            "soft": erm_method("soft", counts, public, loss, request, soft_fit),
            "avg": average_method(average, options.local_lam, request),
        }
        if not options.protect_auxiliary:
            if options.loss == "logistic":
                methods["statistic"] = statistic_method(counts, public, request)
            methods["pate"] = pate_method(counts, public, request, options.seed)
        return methods

    with run.timed("fit"):
        return _Revealed(at(options.epsilon), at, counts)


def _reveal_statistic(run: Sums, options: TallyOptions) -> _Revealed:
    """The curator learns the private statistic and nothing before it: the parties add the noise in shares."""
    population = run.population
    chosen = choose_method(options.learners) if options.method == "auto" else options.method
    plan = plan_statistic(
        population.auxiliary,
        population.classes,
        options.parties,
        epsilon=options.epsilon,
        delta=options.delta,
        mechanism=options.noise,
        source="own-data" if chosen == "own-data" else "votes",
        joint=True,
    )
    shares = shares_of(plan, colluders=options.colluders, dropouts=options.dropouts)
    least = options.min_ballots or max(2, options.parties - options.dropouts)
    round_ = statistic_round(
        run.ceremony,
        plan,
        shares,
        minimum_ballots=least,
        test_key=options.test_key,
        proofs=options.vector_proofs,
    )
    seed = options.seed if options.simulate_noise else None
    noisy: Contribution
    nonprivate: Callable[[], NDArray[np.float64]]
    # Only a simulation can know the exact sum here, and only to say what the noise cost.
    if isinstance(plan.grid, OwnDataGrid):
        rows, grid = population.rows(), plan.grid
        noisy = OwnDataContribution(rows, grid, shares, simulation_seed=seed)
        nonprivate = partial(_without_noise, plan, rows, grid)
    else:
        noisy = StatisticContribution(population.voters, population.auxiliary, plan.grid, shares, simulation_seed=seed)
        counts = partial(population.counts, population.auxiliary)
        nonprivate = lambda: statistic_nonprivate(counts(), population.auxiliary, options.local_lam)  # noqa: E731
    opened = run.sum(round_, noisy, "sum noisy statistics").opened
    with run.timed("fit"):
        released = fit_statistic(release_total(plan, list(opened.sums), ballots=opened.ballots))
    method = Method(
        nonprivate,
        lambda randomness: released,
        plan.sensitivity,
        plan.event,
        statistic_choices(plan, options.noise) | {"contributors": shares.contributors},
    )
    return _Revealed({chosen: method})


def _without_noise(
    plan: StatisticPlan, rows: Sequence[tuple[NDArray[np.float64], NDArray[np.int64]]], grid: OwnDataGrid
) -> NDArray[np.float64]:
    total = [sum(column) for column in zip(*(grid.contribution(X, y) for X, y in rows), strict=True)]
    return fit_statistic(release_sum(total, replace(plan, mechanism=None)))


def shares_of(plan: StatisticPlan, *, colluders: int = 0, dropouts: int = 0) -> Shares:
    """The noise shares of a joint plan, sized so that colluders and dropouts leave the whole law to the others.

    Raises InvalidParameter when nobody would be left, or for a plan whose noise cannot be shared.
    """
    honest = contributors(plan.parties, colluders, dropouts)
    if isinstance(plan.mechanism, DiscreteLaplace):
        return PolyaShares(plan.dimension, plan.parties, honest, plan.mechanism.scale_units)
    if isinstance(plan.mechanism, Skellam):
        return SkellamShares(plan.dimension, plan.parties, honest, plan.mechanism.variance)
    raise InvalidParameter("joint noise is discrete-laplace or gaussian (Skellam); plan the statistic with joint=True")


def statistic_round(
    ceremony: Ceremony,
    plan: StatisticPlan,
    shares: Shares,
    *,
    minimum_ballots: int,
    test_key: bool = False,
    proofs: Proofs = "none",
    randomness: Randomness = SYSTEM,
) -> Round:
    """The round of one joint statistic.

    Its minimum of ballots must leave the whole law: all but the dropouts that the shares allow for.
    """
    low, high = entry_range(plan.grid, shares)
    key = ceremony.threshold_key.key
    return Round.create(
        "statistic",
        ceremony.threshold_key,
        PackingPlan.for_key(key, length=plan.dimension, addends=plan.parties, minimum=low, maximum=high),
        ceremony.roster,
        context=plan.grid.digest,
        minimum_ballots=minimum_ballots,
        test_key=test_key,
        proofs=proofs,
        randomness=randomness,
    )


def _curves(run: Sums, methods_at: MethodsAt, noise: Randomness) -> list[Curve]:
    """Accuracy against epsilon, for the report: a simulation, since every point is a release of its own."""
    done = run.progress.phase("accuracy against epsilon", len(CURVE_EPSILONS))
    means: dict[str, list[float]] = {}
    deviations: dict[str, list[float]] = {}
    for epsilon in CURVE_EPSILONS:
        for name, method in methods_at(epsilon).items():
            drawn = [run.population.accuracy(method.draw(noise)) for _ in range(CURVE_DRAWS)]
            means.setdefault(name, []).append(float(np.mean(drawn)))
            deviations.setdefault(name, []).append(float(np.std(drawn, ddof=1)))
        done(1)
    return [Curve(name, list(CURVE_EPSILONS), mean, deviations[name]) for name, mean in means.items()]
