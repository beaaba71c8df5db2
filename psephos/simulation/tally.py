"""Simulate votes counted under encryption, and compare all classifiers that can be released from them.

The methods of Hamm 2016, section 6, run on one split: batch (all data in one place), indiv (each party alone), vote
(Algorithm 1), soft (Algorithm 2) and avg (parameter averaging). The other methods are those of this project. vote,
soft, statistic and pate are released from one encrypted tally of the parties' votes, avg from an encrypted sum of their
parameters, own-data and whitened from sums of a statistic of the parties' own rows. With `--reveal statistic` the
parties add noise to their own statistics instead, and the curator learns their sum only; only then can vote-directions
be released.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from psephos.curator.class_shares import check_shares, with_class_shares
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
from psephos.curator.record import ROWS_PER_PARTY
from psephos.curator.rehearsed import REHEARSED_ROWS, fit_rehearsed, model_classifier
from psephos.curator.statistic import (
    SOURCE_OF,
    MechanismName,
)
from psephos.data.datasets import Dataset
from psephos.data.own import OwnTable
from psephos.data.splits import Split
from psephos.options import option, refuse_unread
from psephos.parties.learners import LEARNERS, make_learner
from psephos.parties.noise import NoiseFrom, contributors
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import InvalidParameter, NoGainError
from psephos.protocol.grids.own_data import OWN
from psephos.protocol.privacy.mechanisms import DiscreteGaussian
from psephos.protocol.randomness import Randomness
from psephos.results import Alpha, TallyResult
from psephos.simulation.average import sum_own_data, sum_parameters
from psephos.simulation.holder_options import JointNoiseOptions
from psephos.simulation.references import exact_sum, statistic_without_noise
from psephos.simulation.run import RunContext
from psephos.simulation.sum_options import LABELLED_METHODS, METHODS, RECORD_METHODS, SumOptions
from psephos.simulation.sums import MethodsAt, SumExperiment, run_experiment
from psephos.specs.noisy import NoisySumSpec
from psephos.specs.record import RecordSpec
from psephos.specs.rehearsed import RehearsedSpec
from psephos.specs.statistic import StatisticSpec
from psephos.specs.tally import LABELS, TallySpec
from psephos.specs.terms import PrivacyTerms, PublicTerms

COUNTED = ("vote", "soft", "statistic", "pate")
"""Methods whose release is computed from the counts of votes."""

VOTED = (*COUNTED, "vote-directions")
"""Methods for which the parties' classifiers label the auxiliary samples."""


@dataclass(frozen=True, kw_only=True)
class TallyOptions(JointNoiseOptions, SumOptions):
    """Options of `psephos simulate tally`."""

    epsilon: tuple[float, ...] = option(
        (1.0,), "Privacy of each release, of a party or (--unit record) of a record: one or several.", group="Privacy"
    )
    reveal: Literal["alpha", "statistic"] | None = option(
        None,
        "What the curator learns: alpha (the exact counts of votes; it adds the noise), or statistic (a sum to which "
        "the parties have added the noise).",
        group="Privacy",
        shown="alpha",
    )
    unit: Literal["party", "record"] = option(
        "party",
        "What epsilon protects: party (all that one party holds) or record (one row, which is replaced, "
        "added or removed; by the method newton alone).",
        group="Privacy",
    )
    announced_rows: int | None = option(
        None,
        "With --unit record or --method rehearsed: about how many rows all parties have together, which is public and "
        "chooses the number of coordinates. It need not be exact.",
        group="Privacy",
        shown=f"{ROWS_PER_PARTY:,} for each party; with rehearsed {REHEARSED_ROWS}",
    )
    class_shares: tuple[str, ...] = option(
        (),
        "The share of every class among all rows, as NAME=SHARE, from a public source and counted on nobody's private "
        "rows. The intercept of what is released is set by it.",
        group="Privacy",
        shown="none are announced",
        name=True,
    )
    noise_from: NoiseFrom = option(
        "parties",
        "Who adds the noise of a statistic before it is opened: every party, or every key holder (holders). With "
        "holders and --proofs valid, a party that lies sends no longer a direction (in L2) than an honest one may.",
        group="Privacy",
    )
    protect_auxiliary: bool = option(False, "One auxiliary sample is private too (Hamm 4.5).", group="Privacy")
    loss: Literal["logistic", "huber"] = option("logistic", "logistic (softmax for several classes) or huber.")
    learners: tuple[str, ...] = option(
        ("logistic",), f"Local classifiers, dealt to the parties in turn, of {', '.join(LEARNERS)}.", objects=True
    )

    def check(self) -> None:
        """Raise InvalidParameter for invalid options, before anything is computed."""
        self._check_unit()
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
        refuse_unread(self, self.readers)
        if self.joint:
            self._check_joint()

    @property
    def readers(self) -> dict[str, tuple[bool, str]]:
        """Whether this run reads the options that not every run does, and what would (`refuse_unread`)."""
        joint, alpha = (self.joint, "--reveal statistic"), (not self.joint, "--reveal alpha")
        steps = self.sums_rows or self.rehearses
        labels = "a method of unlabelled public rows that are not private"
        return {
            "colluders": joint,
            "dropouts": joint,
            "noise_from": (self.joint and not steps, "a statistic of votes or of own rows with --reveal statistic"),
            "loss": alpha,
            "protect_auxiliary": alpha,
            "record": (self.unit == "record", "--unit record"),
            "announced_rows": (self.may_rehearse or self.sums_rows, "--unit record or --method rehearsed"),
            "class_shares": (not steps and not self.protect_auxiliary, labels),
        }

    def _check_unit(self) -> None:
        """Raise InvalidParameter for methods and options of another unit of privacy."""
        wrong = [name for name in self.methods if (name in RECORD_METHODS) != self.sums_rows]
        if wrong and self.sums_rows:
            raise InvalidParameter(
                f"{wrong[0]} classifies, and has no bound for a record: choose {' or '.join(RECORD_METHODS)}, or leave "
                "--unit record and --task regression out"
            )
        if wrong:
            raise InvalidParameter(f"{wrong[0]} protects a record: add --unit record")
        if self.announced_rows is not None and self.announced_rows < 1:
            raise InvalidParameter(f"--announced-rows is at least 1, not {self.announced_rows}")
        if self.sums_rows and self.reveal == "alpha":
            raise InvalidParameter(
                "in a sum over rows the parties add the noise and no votes are counted: leave --reveal out"
            )
        if self.unit == "record" and self.record is not None and (self.data is None or self.party is None):
            raise InvalidParameter(
                "--record names a column of your own table whose rows have owners: name them with --data FILE and "
                "--party COLUMN (rows dealt at random would put one person's rows into several parties)"
            )

    def _check_joint(self) -> None:
        """Raise InvalidParameter for options that do not fit noise that the parties add."""
        if self.noise_from == "parties":
            contributors(self.parties, self.coalition or 0, self.dropouts)
        least = self.parties - self.dropouts
        if (self.min_ballots or least) < least or len(self.absent_parties) > self.dropouts:
            raise InvalidParameter(
                f"the parties' noise is complete only with {least} ballots; {len(self.absent_parties)} parties are "
                f"absent, and the minimum is {self.min_ballots or least} ballots: set a larger --dropouts"
            )

    @property
    def coalition(self) -> int | None:
        """Number of parties that may reveal their noise to each other; None where the curator adds the noise."""
        if not self.joint:
            return None
        return self.opening_threshold - 1 if self.colluders is None else self.colluders

    def privacy(self, epsilon: float) -> PrivacyTerms:
        holders = self.key_holders if self.noise_from == "holders" else 0
        return replace(super().privacy(epsilon), dropouts=self.dropouts, holders=holders)

    @property
    def joint(self) -> bool:
        """Whether the parties add the noise in shares, so that the curator learns no exact sum."""
        return self.reveal == "statistic" or self.sums_rows

    @property
    def sums_rows(self) -> bool:
        """Whether a sum over rows is released, without votes."""
        return self.unit == "record"

    @property
    def noise(self) -> MechanismName:
        """The mechanism; by default gaussian for a sum over rows, otherwise as `SumOptions.noise`."""
        return self.mechanism or ("gaussian" if self.sums_rows else super().noise)

    @property
    def protects_records(self) -> bool:
        return self.unit == "record"

    @property
    def person_column(self) -> str | None:
        return self.record

    @property
    def divides_rows(self) -> bool:
        return self.rehearses or bool(self.class_shares)

    @property
    def may_rehearse(self) -> bool:
        """Whether a step from a model of labelled public rows may be released, once the data are known."""
        return self.rehearses

    @property
    def available(self) -> tuple[str, ...]:
        """Methods that these options allow."""
        if self.sums_rows:
            return RECORD_METHODS
        if self.joint:
            return (*SOURCE_OF, *(name for name in LABELLED_METHODS if name in self.methods))
        if self.protect_auxiliary:
            return ("vote", "soft", "avg")
        if self.loss == "huber":
            return ("vote", "soft", "avg", "pate")
        return tuple(name for name in METHODS if name != "vote-directions")  # no exact sum is opened for these

    @property
    def private_auxiliary(self) -> bool:
        return self.protect_auxiliary

    @property
    def local_learners(self) -> tuple[Any, ...]:
        return self.learners

    def deal(self, data: Dataset | OwnTable, *, samples: int | None = None, auxiliary: int | None = None) -> Split:
        """See `SumOptions.deal`; raises InvalidParameter for class shares that do not fit the data's classes."""
        split = super().deal(data, samples=samples, auxiliary=auxiliary)
        self.shares_of(split.dataset.classes)
        return split

    def shares_of(self, classes: Sequence[str]) -> tuple[float, ...]:
        """Return the announced shares of these classes, in their order; () where none are announced."""
        if not self.class_shares:
            return ()
        shares: dict[str, float] = {}
        for word in self.class_shares:
            name, _, text = word.rpartition("=")
            try:
                share = float(text)
            except ValueError:
                raise InvalidParameter(f"a class share is NAME=SHARE, such as yes=0.3, not {word!r}") from None
            if name in shares or name not in classes:
                known = ", ".join(classes)
                raise InvalidParameter(
                    f"--class-shares names each class once ({known}), and {name!r} is not as it says"
                )
            shares[name] = share
        if missing := [name for name in classes if name not in shares]:
            raise InvalidParameter(f"--class-shares has no share of the class {missing[0]}")
        return tuple(check_shares([shares[name] for name in classes]).tolist())


def simulate_tally(options: TallyOptions, **context: Unpack[RunContext]) -> TallyResult:
    """Train the parties' classifiers, count their votes under encryption, release by every method, and evaluate."""
    reveal = _reveal_statistic if options.joint else _reveal_alpha
    run, fields = run_experiment(options, partial(_with_shares, reveal), options.loss, context)
    return TallyResult(
        protocol="record" if options.unit == "record" else "statistic" if options.joint else "tally",
        alpha=None if run.evaluation.counts is None else Alpha.of(run.evaluation.counts),
        **fields,
    )


def _with_shares(reveal: Callable[[SumExperiment], MethodsAt], run: SumExperiment) -> MethodsAt:
    """Return the function that makes the methods, whose classifiers get the intercept of announced class shares."""
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


def _reveal_alpha(run: SumExperiment) -> MethodsAt:
    """Take the exact sums, to which the curator adds all noise; return the function that makes the methods."""
    options, population = run.options, run.population
    assert isinstance(options, TallyOptions)
    loss = loss_named(options.loss, population.classes)
    spec = TallySpec(AuxiliarySet(population.auxiliary, run.salt()), population.classes)
    counts = _count(run, spec) if set(options.offered) & set(COUNTED) else np.empty((0, 0), np.int64)
    average = sum_parameters(run) if "avg" in options.offered else None
    fitted = [name for name in options.offered if name in LABELS]
    fits = {name: erm_fit(LABELS[name], counts, population.auxiliary, loss) for name in fitted}

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
    special: dict[str, Any] = dict.fromkeys(RECORD_METHODS, _record_method)
    if run.options.rehearses:
        public = run.public(*LABELLED_METHODS)
        run.evaluation.add_classifier("public", model_classifier(public.model))
        special |= dict.fromkeys(LABELLED_METHODS, partial(_rehearsed_method, public))
    make = {name: special.get(name, _joint_method) for name in run.options.offered}
    return lambda epsilon: {name: method(run, name, epsilon) for name, method in make.items()}


def _noisy_sum(  # what names the sum, and its parts
    run: SumExperiment,
    spec: NoisySumSpec,
    data: Sequence[Any],
    name: str,
    epsilon: float,
    number: int,
) -> OpenedSum:
    """Take one encrypted sum with fresh noise of the parties, or with noise of the seed where the options say so."""
    options = run.options
    assert isinstance(options, TallyOptions)
    seed = (options.seed << 32) + number if options.simulate_noise else None
    label = f"{name} at {epsilon!r}, {number}"
    minimum = options.min_ballots or max(2, options.parties - options.dropouts)
    seeded = replace(spec, simulation_seed=seed)
    return run.sum(seeded, data, f"sum noisy {name}", label=label, minimum_ballots=minimum).opened


def _record_method(run: SumExperiment, name: str, epsilon: float) -> Method:
    """Return the record step; every release takes an encrypted sum with fresh noise of the parties."""
    population, options = run.population, run.options
    spec = RecordSpec.plan(run.public(name), options.privacy(epsilon))
    rows, releases = population.records(), itertools.count()

    def draw(randomness: Randomness) -> NDArray[np.float64]:
        return spec.fitted(_noisy_sum(run, spec, rows, name, epsilon, next(releases)))

    def nonprivate() -> NDArray[np.float64]:  # for comparison; only a simulation has the rows
        exact = RecordSpec.plan(run.public(name), replace(options.privacy(epsilon), epsilon=None))
        total = exact_sum(exact, [rows[number] for number in population.present])
        return exact.fitted(OpenedSum(tuple(total), tuple(population.present)))

    entry = spec.cost(options.parties)
    chosen = {**entry.chosen, "labelled": spec.release_plan.labelled, "mechanism": options.noise}
    return Method(nonprivate, draw, spec.release_plan.sensitivity, spec.release_plan.event, chosen)


def _rehearsed_method(public: PublicTerms, run: SumExperiment, name: str, epsilon: float) -> Method:
    """Return the step from a public model; every release takes an encrypted sum with fresh noise of the parties."""
    population, options, parties = run.population, run.options, run.options.parties
    try:
        spec = RehearsedSpec.plan(public, options.privacy(epsilon), run.progress)
    except NoGainError as error:
        run.remarks.append(
            f"{name} at epsilon {epsilon:g}: the parties were asked nothing. In simulated "
            f"worlds a step of {parties} parties changes the accuracy of the public rows' model "
            f"({error.accuracy:.1%} by cross-validation) by {error.gain:+.2%} (standard "
            f"deviation {error.spread:.2%}); that model is released. More parties or a larger epsilon would help."
        )
        expected = {"public accuracy": error.accuracy, "expected gain": error.gain}
        return public_method(model_classifier(public.model), expected)
    plan, rehearsal = spec.release_plan, spec.rehearsal
    assert rehearsal is not None
    expected = {"public accuracy": rehearsal.calibration.cross_validated, "expected gain": rehearsal.gain}
    rows, releases = population.rows(), itertools.count()

    def draw(randomness: Randomness) -> NDArray[np.float64]:
        return spec.fitted(_noisy_sum(run, spec, rows, name, epsilon, next(releases)))

    def nonprivate() -> NDArray[np.float64]:  # for comparison; only a simulation has the rows
        total = exact_sum(spec, [rows[number] for number in population.present])
        return fit_rehearsed(replace(plan, mechanism=None), total, len(population.present))

    chosen = spec.cost(parties).chosen | {
        "mechanism": "discrete-laplace" if plan.grid.norm == "l1" else "gaussian",
        **expected,
    }
    present = replace(plan, parties=len(population.present))
    return Method(nonprivate, draw, present.sensitivity, plan.event, chosen)


def _joint_method(run: SumExperiment, name: str, epsilon: float) -> Method:
    """Return a method for which every release takes an encrypted sum with fresh noise of the parties."""
    population, options = run.population, run.options
    assert isinstance(options, TallyOptions)
    spec = StatisticSpec.plan(run.public(name), options.privacy(epsilon))
    assert spec.shares is not None
    plan, contributors = spec.counting(len(population.present)), spec.shares.contributors
    laws = spec.inflation(plan.parties)
    releases, signal = itertools.count(), SignalEstimator()
    data = population.voters if spec.takes_classifier else population.rows()

    def draw(randomness: Randomness) -> NDArray[np.float64]:
        opened = _noisy_sum(run, spec, data, name, epsilon, next(releases))
        return signal.note_statistic(spec.statistic(opened), laws=laws)

    def nonprivate() -> NDArray[np.float64]:  # for comparison; only a simulation has the rows
        if plan.source != "votes":
            return statistic_without_noise(run.public(name), [data[number] for number in population.present])
        return statistic_nonprivate(population.counts(population.auxiliary), population.auxiliary, options.local_lam)

    law = "gaussian" if isinstance(plan.mechanism, DiscreteGaussian) else "discrete-laplace"
    chosen = statistic_choices(plan, law) | {"contributors": contributors}
    return Method(nonprivate, draw, plan.sensitivity, plan.event, chosen, signal)
