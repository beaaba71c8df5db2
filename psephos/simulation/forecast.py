"""What a run on one's own table is expected to give, before anything is encrypted, opened or charged.

A forecast is the run itself, in the clear, in simulated worlds (`psephos.curator.rehearsal`): simulated parties make
the vectors that real ones would make, with the noise of all parties, and the releases are scored. It is given public
values and nothing else, so that neither the decision nor its text can depend on private rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from psephos.curator.checks import public_features
from psephos.curator.hamm.labels import decisions
from psephos.curator.hamm.rules import FEWEST_LABELLED
from psephos.curator.noise_plan import variance_of
from psephos.curator.record import ASSUMED_ROWS, ROWS_PER_PARTY
from psephos.curator.rehearsal import (
    Noise,
    PublicModel,
    SimulatedData,
    calibrate,
    public_digest,
    simulate_world,
    supposed_model,
)
from psephos.curator.rehearsed import REHEARSED_ROWS
from psephos.data.datasets import Dataset
from psephos.data.preprocessing import PublicScaler, default_scaler
from psephos.data.splits import Split
from psephos.progress import Progress, counted, silent
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import InvalidParameter, UselessReleaseError
from psephos.protocol.privacy.mechanisms import DiscreteLaplace
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.study.study import Study
from psephos.simulation.options import (
    ALWAYS_JOINT,
    COUNTED,
    LABELLED_METHODS,
    METHODS,
    RECORD_METHODS,
    JobOptions,
)
from psephos.simulation.sums import Population, populate
from psephos.simulation.tally import methods_of
from psephos.specs.terms import PublicTerms

Array = NDArray[np.float64]

SCREENED, WORLDS = 2, 8
"""Simulated worlds in which every method is played, and those in which the finalists are."""

VOTE_MARGIN = 0.02
"""Expected accuracy that a method of counted votes may be below the best one and still be chosen by `auto`."""

_FINALISTS = 2  # methods of the largest mean gain in the first worlds
_HOPELESS = -0.1  # margin in the first worlds below which no method is a finalist: other worlds do not make up for it
_DRAWS = 2  # releases in each world
_PARTIES = (10, 50)  # least and most simulated parties of a world; each stands for as many real ones
_ENTRIES = 100_000  # parameters of linear classifiers of all simulated parties together, above which they are fewer
_ROWS = 5000  # most rows that all simulated parties of a world have together
_MORE_ROWS = 10  # times as many rows as assumed are suggested to be announced
_STRONG = 3  # in every so many worlds of public rows without labels the signal is strong
LEAST_GAIN = 0.004  # expected gain of accuracy below which no privacy is spent on a step from labelled public rows
_LEAST_FROM_NOTHING = 0.08  # the same of what starts from no model, of which simulated worlds promise too much
_LEAST_REMOVED = 0.12  # the same where no public row has a label, as a share of the errors of the most frequent class
_DOMINATED, _DOMINANT = 4, 0.9  # class shares that nobody knows: in every so many worlds one class has this one
_REMOVED = (0.2, 0.4)  # errors of the most frequent class that a supposed true model removes, as a share
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)  # that are suggested: larger ones protect against careless observers only
USUAL = "the most frequent class"
PUBLIC_RELEASED = "The parties are asked nothing, and the model of the public rows is released"


@dataclass(frozen=True, eq=False)
class PublicRows:
    """What everybody knows of a table: X float64 (N, d), encoded; labels int64 (N,), -1 for none; names of classes; see
    `Encoding.log_odds`.
    """

    X: Array = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)
    classes: tuple[str, ...]
    log_odds: tuple[int, ...] = ()

    @property
    def labelled(self) -> bool:
        """Whether labels are enough for a public model that a release is measured by."""
        known = self.labels[self.labels >= 0]
        return len(known) >= FEWEST_LABELLED and len(np.unique(known)) > 1

    def shares(self, options: JobOptions) -> Array | None:
        """Return class shares, (K,): of the labels, where they are enough, or as announced, or None if nobody knows."""
        if self.labelled:
            known = self.labels[self.labels >= 0]
            return np.bincount(known, minlength=len(self.classes)) / len(known)
        return np.array(announced) if (announced := options.shares_of(self.classes)) else None


@dataclass(frozen=True, eq=False)
class Outlook:
    """What one method is expected to give, in simulated worlds.

    Attributes:
        options: of the run by this method.
        accuracy: the mean over the worlds.
        gains: in each world, float64 (W,), over the better of the public model and the most frequent class, as far as
            these are known.
        least: mean gain above which a release is worth its privacy.
        asks: whether it asks the parties for anything.
    """

    options: JobOptions = field(repr=False)
    accuracy: float
    gains: Array = field(repr=False)
    least: float
    asks: bool = True

    @property
    def method(self) -> str:
        return self.options.chosen_method

    @property
    def gain(self) -> float:
        """The mean gain."""
        return float(self.gains.mean())

    def __str__(self) -> str:
        return f"{self.method} {self.gain:+.1%}, standard deviation {self.gains.std():.1%}"

    @property
    def margin(self) -> float:
        """The mean gain above the least one."""
        return self.gain - self.least

    @property
    def pays(self) -> bool:
        """Whether a sufficient gain is expected; a method that was played in the first worlds only does not pay."""
        return len(self.gains) == WORLDS and self.margin > 0


@dataclass(frozen=True)
class Forecast:
    """The decision of a run, a function of public values.

    Attributes:
        decision: "release" by `chosen`; "public": the model of the public rows is written and nobody is asked; "stop".
        chosen: what is released, or would be.
        outlooks: of all methods that could be released, the best first.
        rows: of each simulated party.
        labelled: whether the public rows have a model.
        doubt: a sentence where that model is no better than the most frequent class; "" otherwise.
    """

    decision: Literal["release", "public", "stop"]
    chosen: Outlook
    outlooks: tuple[Outlook, ...]
    rows: int
    labelled: bool
    doubt: str = ""

    @property
    def reason(self) -> str:
        """What was decided, and why, in one line."""
        chosen = self.chosen
        decided = {
            "release": f"Released by {chosen.method}{'' if chosen.pays else ', although no gain is expected'}",
            "public": PUBLIC_RELEASED,
            "stop": "Nothing was encrypted or charged, because no gain is expected",
        }[self.decision]
        return f"{decided}. {self.expectation}"

    @property
    def expectation(self) -> str:
        """What is expected of the best methods."""
        chosen, options = self.chosen, self.chosen.options
        usual = USUAL if options.class_shares else f"{USUAL}, whose share nobody knows,"
        if self.labelled:
            usual = f"the better of the public rows' model and {USUAL}"
        other = next((f"; not taken: {each}" for each in self.outlooks if each is not chosen), "")
        doubt = f" {self.doubt}" if self.doubt else ""
        return (
            f"In simulated worlds of {options.parties} parties with about {self.rows} rows each"
            f"{' (assumed)' if options.announced_rows is None else ''}, at epsilon "
            f"{options.epsilon[0]:g} per {options.unit}, {usual} is right on {chosen.accuracy - chosen.gain:.1%}, and "
            f"{chosen.method} on {chosen.accuracy:.1%} "
            f"(gains, where {chosen.least:.1%} is needed: {chosen}{other}).{doubt}"
        )


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator] # several add in another order, and wait for each other
def forecast(
    candidates: Sequence[JobOptions], public: PublicRows, progress: Progress = silent, *, writes: bool = True
) -> Forecast:
    """Decide about the release by one of the candidates, each the options of a run by one method.

    They differ in the method and what follows from it. A function of the arguments alone. `writes`: whether the model
    of labelled public rows can be written instead. Raises UselessReleaseError where no release is expected to be worth
    its cost, there is no such model, and the options do not insist.
    """
    stage = _Stage(candidates, public, progress)
    outlooks, insists = stage.outlooks(stage.candidates), candidates[0].anyway
    outlooks.sort(key=lambda each: insists and not each.asks)
    best = best_of(outlooks)
    release = best is not None or (insists and outlooks[0].asks)
    decision: Any = "release" if release else "public" if public.labelled and writes else "stop"
    decided = Forecast(decision, best or outlooks[0], tuple(outlooks), stage.rows, public.labelled, stage.doubt)
    if decision == "stop":
        raise UselessReleaseError(decided.reason, stage.suggestions(outlooks))
    return decided


def best_of(outlooks: Sequence[Outlook]) -> Outlook | None:
    """Return the best of those that pay, or counted votes that do and are nearly as good: any classifier can vote.

    `outlooks`: the best first.
    """
    paying = [each for each in outlooks if each.pays]
    votes = (each for each in paying if each.method in COUNTED and each.gain >= paying[0].gain - VOTE_MARGIN)
    return next(votes, paying[0] if paying else None)


# -- simulated worlds


class _World(NamedTuple):
    """Simulated parties, and the expected accuracies of the public model (0 without labels) and of the usual class.

    `counts`: see `PlainSums`.
    """

    population: Population
    data: SimulatedData
    public: float
    usual: float
    counts: dict[Any, NDArray[Any]]


class _Stage:
    """The worlds of one forecast, in which any method, number of parties and epsilon can be played."""

    def __init__(
        self,
        candidates: Sequence[JobOptions],
        public: PublicRows,
        progress: Progress,
        announced: Array | None = None,
    ) -> None:
        """`announced`: class shares (K,) that are known although these options, of another unit, do not say them."""
        steps = [each for each in candidates if public.labelled or each.chosen_method not in LABELLED_METHODS]
        self.candidates, self._public, self._progress = steps or candidates, public, progress
        options = max(candidates, key=lambda each: len(each.learners))  # those of a vote train every kind of learner
        scaler: PublicScaler = default_scaler("your own").set_params(scaling="unit-rows").fit(public.X)
        self._terms = PublicTerms(
            auxiliary=AuxiliarySet(scaler.transform(public.X)),
            classes=len(public.classes),
            parties=options.parties,
            labels=public.labels,
            log_odds=scaler.unscaled(public.log_odds),
            rows=options.announced_rows,
        )
        shares = public.shares(options)
        self._features = public_features(self._terms.samples)
        self._known_shares = announced if shares is None else shares
        parameters = self._features.shape[1] * len(public.classes)
        self._parties = min(options.parties, int(np.clip(_ENTRIES // parameters, *_PARTIES)))
        most = options.parties * (ROWS_PER_PARTY if options.sums_rows else REHEARSED_ROWS)
        total = options.announced_rows or min(most, ASSUMED_ROWS * len(public.X))
        self.rows = max(1, round(total / options.parties))
        self._simulated = min(self.rows, max(1, _ROWS // self._parties))
        self._digest = public_digest(self._features, public.labels)
        self._generator = np.random.default_rng([options.parties, self.rows, *self._digest])
        self._calibration = calibrate(self._terms.model, self._generator) if public.labelled else None
        self._options = replace(options, parties=self._parties, data=None, party=None, absent=0.0, workers=1)
        self._split = partial(_split, public, scaler)
        self._worlds: list[_World] = []
        self._known: dict[tuple[JobOptions, int], tuple[float, bool]] = {}

    @property
    def doubt(self) -> str:
        """See `Forecast`."""
        if self._calibration is None or (right := self._calibration.cross_validated) > (usual := self._shares(0).max()):
            return ""
        return (
            f"The model of the public rows is no better than {USUAL}: by cross-validation it is right on {right:.1%}, "
            f"and {usual:.1%} are of that class."
        )

    def _shares(self, number: int) -> Array:
        """Return the class shares (K,) of a world."""
        if self._known_shares is not None:
            return self._known_shares
        classes = len(self._public.classes)
        shares = np.full(classes, 1 / classes)
        if number % _DOMINATED == 1:
            shares[:] = (1 - _DOMINANT) / (classes - 1)
            shares[number // _DOMINATED % classes] = _DOMINANT
        return shares

    def _world(self, number: int) -> _World:
        """Return a world; worlds are simulated in their order, when they are first asked for."""
        if number == len(self._worlds):
            strong, skewed, truth = number % _STRONG == _STRONG - 1, number % 2 == 1, (1.0, 0.0)
            shares = self._shares(number)
            if self._calibration is None:
                model = supposed_model(self._features, shares, _REMOVED[strong], self._generator)
            else:
                model, truth = self._terms.model, self._calibration.draw(self._generator)
            data = simulate_world(model, truth, self._parties, self._simulated, skewed, self._generator)
            population = populate(self._options, self._split(model, data), silent)
            public = 0.0 if self._calibration is None else data.accuracy(data.start)
            usual = float(data.chances[:, shares.argmax()].mean())
            self._worlds.append(_World(population, data, public, usual, {}))
        return self._worlds[number]

    def outlooks(self, candidates: Sequence[JobOptions]) -> list[Outlook]:
        """Return the outlooks of these options: the most hopeful ones, played in all worlds, before all others.

        Each of both kinds begins with the best. The first one is played in all worlds even where nothing is hopeful.
        """
        screened = sorted((self.outlook(each, SCREENED) for each in candidates), key=lambda each: -each.margin)
        votes = [each for each in screened[_FINALISTS:] if each.method in COUNTED]
        hopeful = [each for each in [*screened[:_FINALISTS], *votes[:1]] if each.margin > _HOPELESS]
        finalists = hopeful or screened[:1]
        played = [self.outlook(each.options, WORLDS) if each in finalists else each for each in screened]
        return sorted(played, key=lambda each: (-len(each.gains), -each.margin))  # a few worlds are no mean of all

    def outlook(self, options: JobOptions, worlds: int) -> Outlook:
        """Play the method of these options in so many worlds."""
        done = counted(self._progress, f"forecast {options.chosen_method}", worlds)
        played = []
        for number in range(worlds):
            played.append(self._play(options, number))
            done(1)
        accuracies = [accuracy for accuracy, _ in played]
        seen = self._worlds[:worlds]
        gains = np.array(accuracies) - [max(world.public, world.usual) for world in seen]
        if self._calibration is None:
            least = _LEAST_REMOVED * float(np.mean([1 - world.usual for world in seen]))
        else:
            starts = options.chosen_method in (*LABELLED_METHODS, *RECORD_METHODS)
            least = LEAST_GAIN if starts else _LEAST_FROM_NOTHING
        return Outlook(options, float(np.mean(accuracies)), gains, least, played[0][1])

    def _play(self, options: JobOptions, number: int) -> tuple[float, bool]:
        """Return the mean accuracy of releases in a world, and whether they ask the parties for anything."""
        world = self._world(number)
        if (options, number) not in self._known:
            terms = replace(self._terms, method=options.chosen_method, parties=options.parties)
            population = replace(world.population, present=list(range(options.parties)), options=options)
            times = self.rows / self._simulated if options.sums_rows else 1.0
            noise = np.random.default_rng([number, *self._digest])  # whatever else is played
            run: Any = PlainSums(options, population, terms, noise, world.counts, self._parties, times)
            run.progress = silent if number else self._progress
            release = methods_of(options)(run)(options.epsilon[0])[terms.method]
            coins, places = SimulationRandomness(number, terms.method), np.arange(len(world.data.test))
            chosen = [decisions(release.draw(coins), population.test) for _ in range(_DRAWS)]
            accuracy = float(np.mean([world.data.chances[places, each] for each in chosen]))
            self._known[options, number] = accuracy, release.event is not None
        return self._known[options, number]

    def suggestions(self, outlooks: Sequence[Outlook]) -> list[str]:
        """Return what would make a release worth its cost, where that is known from these worlds.

        Of the candidates' outlooks, those that were played in all worlds are tried, or all where one alone was.
        """
        options, found = self.candidates[0], []
        played = [each.options for each in outlooks if len(each.gains) == WORLDS]
        tried = played if len(played) > 1 else self.candidates
        if not options.sums_rows:
            found += [f"--unit record (gain of {each})" for each in self.outlooks(by_record(options)) if each.pays]
        enough: Outlook | None = None
        for epsilon in sorted((value for value in EPSILONS if value > options.epsilon[0]), reverse=True):
            best = self.outlooks([replace(each, epsilon=(epsilon,)) for each in tried])[0]
            if not best.pays:
                break
            enough = best
        if enough is not None:
            (epsilon,) = enough.options.epsilon
            found.append(f"--epsilon {epsilon:g} (gain of {enough})")
            parties = math.ceil(options.parties * epsilon / options.epsilon[0])  # with as little noise
            more = self.outlook(replace(enough.options, parties=parties, epsilon=options.epsilon), WORLDS)
            found += [f"{parties} parties with about {self.rows} rows each (gain of {more})"] if more.pays else []
        if options.announced_rows is None and not any(each.startswith("--unit") for each in found):
            rows = _MORE_ROWS * round(self.rows * options.parties)
            unit = "" if options.sums_rows else "--unit record "
            if many := by_record(options, announced_rows=rows):
                one = _Stage(many, self._public, self._progress, self._known_shares).outlooks(many)[0]
                said = f"{unit}--announced-rows={rows}, if the parties have so many (gain of {one})"
                found += [said] if one.pays else []
        if self._calibration is None:
            found.append(f"labels on {FEWEST_LABELLED} public rows or more, whose model costs no epsilon")
        return found or ["nothing that was tried"]


def study_options(study: Study, *, anyway: bool) -> JobOptions | None:
    """Return the options of a run that releases what a study does, or None where no forecast knows its method."""
    known, alone = study.method in (*METHODS, *LABELLED_METHODS, *RECORD_METHODS), study.method in ALWAYS_JOINT
    if not study.classes or not known or (alone and not study.public):
        return None
    agreed = study.parameters
    terms: dict[str, Any] = {name: agreed[name] for name in ("colluders", "dropouts", "noise_from") if name in agreed}
    terms["method"] = study.method
    if study.method in (*LABELLED_METHODS, *RECORD_METHODS):
        terms["announced_rows"] = agreed.get("rows")
    if study.delta:
        terms["delta"] = study.delta
    if study.public:
        terms |= {"reveal": None if alone else "statistic"}
    return JobOptions(
        data=study.title,
        label=study.label,
        public=study.title,
        classes=study.classes,
        parties=len(study.roster),
        holders=sum(member.holder > 0 for member in study.parties),
        threshold=study.threshold,
        unit="record" if study.method in RECORD_METHODS else "party",
        epsilon=(study.epsilon,),
        mechanism="gaussian" if study.delta else "discrete-laplace" if study.public else None,
        learners=("logistic",),
        anyway=anyway,
        **terms,
    ).candidates()[0]


def by_record(options: JobOptions, **more: Any) -> list[JobOptions]:
    """Return the options of the same run with privacy of a record, and with `more`, if there are."""
    changes: dict[str, Any] = dict.fromkeys(("method", "reveal", "mechanism"))
    changes |= {"methods": (), "learners": (), "class_shares": (), "noise_from": "parties"} | more
    with suppress(InvalidParameter):
        return replace(options, unit="record", **changes).candidates()
    return []


def _split(public: PublicRows, scaler: PublicScaler, model: PublicModel, data: SimulatedData) -> Split:
    """Return the public rows of the table and a world's parties and test rows, in the table's columns."""
    parties, rows, _ = data.rows.shape
    drawn = np.concatenate([data.rows.reshape(parties * rows, -1), data.test])
    drawn = ((drawn @ model.axes.T) * model.spread + model.mean) * scaler.deviation_ + scaler.mean_
    labels = np.concatenate([public.labels, data.labels.ravel(), np.full(len(data.test), -1)])
    count, private = len(public.X), parties * rows
    X = np.concatenate([public.X, drawn])
    return Split(
        Dataset("simulated", X, labels, None, None, public.classes, "public rows", ()),
        0,
        auxiliary=np.arange(count),
        parties=tuple(np.arange(count, count + private).reshape(parties, rows)),
        test=np.arange(count + private, len(X)),
    )


class PlainSums:
    """The sums of a `SumExperiment` in the clear, of which `psephos.simulation.tally` makes methods.

    The first `distinct` parties of the population recur among the others; a sum over rows is that of `times` as many.
    `counts`: exact counts of votes, which depend on no method or epsilon, by the number of parties.
    """

    def __init__(  # wide: what a run knows, and what stands for its encryption
        self,
        options: JobOptions,
        population: Population,
        terms: PublicTerms,
        generator: np.random.Generator,
        counts: dict[Any, NDArray[Any]],
        distinct: int,
        times: float = 1.0,
    ) -> None:
        self.options, self.population, self.loss, self.progress = options, population, options.loss, silent
        self.evaluation = SimpleNamespace(counts=None)
        self.remarks: list[str] = []
        self._terms, self._generator, self._counts, self._times = terms, generator, counts, times
        self._weights = np.bincount(np.arange(options.parties) % distinct)
        self.exact: dict[Any, NDArray[Any]] = {}

    def public(self, method: str) -> PublicTerms:
        return replace(self._terms, method=method)

    def salt(self) -> bytes:
        return b""

    def sum(self, spec: Any, data: Sequence[Any], phase: str, **_: Any) -> Any:
        """Return the opened sum with the whole noise that parties or holders would add."""
        parties = self.options.parties
        known: dict[Any, NDArray[Any]] = self._counts if spec.opens == "counts" else self.exact
        if (key := (phase, parties)) not in known:  # the same vectors are released several times
            vectors = (np.array(spec.vector(data[number])) for number in range(len(self._weights)))
            known[key] = sum(weight * vector for weight, vector in zip(self._weights, vectors, strict=True))
        total = known[key]
        if spec.joint:
            law, inflation = spec.release_plan.mechanism, spec.inflation(parties)
            norm: Any = "l1" if isinstance(law, DiscreteLaplace) else "l2"
            noise = Noise(norm, math.sqrt(variance_of(law) * inflation), inflation)
            total = total * self._times + noise.draw(total.shape, self._generator)
        return SimpleNamespace(opened=OpenedSum(tuple(round(entry) for entry in total), tuple(range(parties))))
