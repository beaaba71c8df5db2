"""The experiments of Hamm 2016 (section 6, Figures 2 to 4): accuracy against 1/epsilon.

There are three families of curves (`FAMILIES`), each with its own figure. The exponential one is NOT epsilon-private:
it is evidence of how the paper's figures were computed (docs/reproduce.md).

A trial is one split of the data; a private point is the mean over `trials * draws` releases, with noise from a seed.
Votes are counted in the clear unless `encrypted` is set. A journal stores finished trials and encrypted counts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from psephos.curator.hamm import sensitivity as bounds
from psephos.curator.hamm.averaging import Average
from psephos.curator.hamm.erm import Minimiser, minimise
from psephos.curator.hamm.labels import one_hot
from psephos.curator.hamm.rules import HAMM_LAMBDA, averaging_radius
from psephos.curator.ledger import Release
from psephos.curator.losses import Loss, loss_named
from psephos.curator.methods import ReleaseRequest, average_method, erm_fit
from psephos.data.datasets import Dataset, load, make_synthetic
from psephos.data.preprocessing import PublicScaler, default_scaler
from psephos.data.splits import Split, split_dataset
from psephos.options import OneOrMore, Positive, option
from psephos.parties.training import LinearVoter, count_votes, train_parties, votes_in_blocks
from psephos.progress import Progress, silent
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.fixed_point import project
from psephos.protocol.paillier.encryption import RandomnessMode
from psephos.protocol.paillier.keys import check_key_bits
from psephos.protocol.privacy.mechanisms import MAX_EPSILON, simulate_spherical_laplace
from psephos.protocol.randomness import SimulationRandomness
from psephos.results.base import Panel, Table, timed
from psephos.results.papers import Mean, PaperResult, beside, curve
from psephos.simulation.engines import LocalEngine, make_engine
from psephos.simulation.journal import Journal
from psephos.simulation.key_setup import check_holders
from psephos.simulation.options import ClusterOptions, KeyOptions, SumOptions
from psephos.simulation.run import KeyedRun
from psephos.simulation.sums import Sampler, sweep
from psephos.specs.exact import LABELS, TallySpec

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
Norm = Literal["stated", "exponential"]

INVERSE_EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Default points of the axis 1/epsilon: the paper's 0.1 to 100 and one decade below. 0 (no noise) is always added."""

PRINTED = ("vote", "soft", "avg")
OURS = ("vote", "soft", "statistic", "avg", "pate")

_TRAIN_BLOCK = 1000  # parties trained at a time
_TEST_BLOCK = 20_000  # test rows scored at a time
_BATCH_ROWS = 100_000  # most training rows of `batch`, chosen at random and reported
_INDIV_VOTES = 100_000_000  # most votes of `indiv`; limits its test rows, chosen at random and reported


@dataclass(frozen=True)
class Claim:
    """A statement of the paper about its figure, for the largest M.

    Attributes:
        comparisons: triples (left, right, slack). The statement holds if for each of them the accuracy of left plus
            slack exceeds that of right. "soft 10" is soft at 1/epsilon = 10; "batch" and "indiv" have no noise.
        why_not: why it cannot hold for the density that the paper states; empty if no reason is known.
    """

    what: str
    comparisons: tuple[tuple[str, str, float], ...]
    why_not: str = ""


@dataclass(frozen=True)
class HammExperiment:
    """The experiment of one section of the paper.

    Attributes:
        parties, samples: number of parties M of each panel, and training rows of each party.
        auxiliary: number of auxiliary samples; None for all training rows that no party holds.
        numbers: the paper's accuracies without noise, by method; its figures print no numbers.
    """

    name: str
    dataset: str
    section: str
    figure: int
    parties: tuple[int, ...]
    samples: int
    auxiliary: int | None
    numbers: Mapping[str, float] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()


HAR_CLAIMS = (
    Claim(
        "soft and avg are better than indiv until 1/epsilon = 1",
        (("soft 1", "indiv", 0.02), ("avg 1", "indiv", 0.02)),
        "the noise has norm D b with D = 300, not b",
    ),
    Claim(
        "vote is useless even at 1/epsilon = 0.1",
        (("indiv", "vote 0.1", 0.0),),
        "the certified bound and the rule for lambda make it better",
    ),
)
KDD_CLAIMS = (
    Claim(
        "soft is nearly as good as batch until around 1/epsilon = 10 (largest M)",
        (("soft 10", "batch", 0.03),),
        "the noise has norm D b with D = 123, not b",
    ),
    Claim(
        "soft holds better than avg at 1/epsilon = 10 (largest M)",
        (("soft 10", "avg 10", 0.0),),
        "for two classes both have the bound 2/(M lambda), and so the same noise",
    ),
    Claim("private algorithms fall under indiv as 1/epsilon grows", (("indiv", "soft 100", 0.0),)),
)
URL_CLAIMS = (
    Claim(
        "the tendency of Figures 2 and 3: above indiv for small 1/epsilon, under it for large",
        (("soft 0.01", "indiv", 0.0), ("indiv", "soft 100", 0.0)),
    ),
)
HAR_NUMBERS = {"batch": 0.90, "indiv": 0.47, "vote": 0.79, "soft": 0.76, "avg": 0.67}
_WHY_NOT = {
    "avg": (
        "the average of exact minimisers over all six classes does better than the paper's; how the paper's parties "
        "treat classes they have not seen, and when their solver stops, is not stated"
    ),
}
LARGE = (5000, 10_000, 20_000)
EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        HammExperiment("hamm-har", "har", "6.1", 2, (1000,), 6, None, numbers=HAR_NUMBERS, claims=HAR_CLAIMS),
        HammExperiment("hamm-kdd99", "kdd99", "6.2", 3, LARGE, 22, 43_000, claims=KDD_CLAIMS),
        HammExperiment("hamm-url", "url", "6.3", 4, LARGE, 9, 16_000, claims=URL_CLAIMS),
    )
}
"""Experiments of Hamm 2016, sections 6.1 to 6.3, Figures 2 to 4, by the name that `psephos reproduce` takes."""


@dataclass(frozen=True, kw_only=True)
class HammOptions(KeyOptions, ClusterOptions):
    """Options of an experiment; `name` is a key of `EXPERIMENTS`.

    A sweep that resumes from a journal may have more trials or panels than before. `quick` runs at most 2 trials of 3
    draws and every second point; KDD-99 and URL then have M = 1,000 and 4,000 auxiliary samples.
    """

    name: Literal["hamm-har", "hamm-kdd99", "hamm-url"] = option("hamm-har")
    quick: bool = option(False, "Fewer trials and points: nothing to cite.")
    trials: OneOrMore = option(10, "Splits.")
    draws: OneOrMore = option(10, "Noise draws of each private method per split; the paper has 100 releases in all.")
    parties: tuple[int, ...] | None = option(None, "M of each panel.", shown="the paper's")
    inverse_epsilons: Annotated[tuple[Positive, ...], Meta(min_length=1)] = option(
        INVERSE_EPSILONS, "Points of the axis; 0 is always there."
    )
    stand_in: bool = option(False, "hamm-url: synthetic data of its shape, which is not published with this program.")
    data_dir: str | None = option(
        None, "Where the data files lie.", group="Data", shown="$PSEPHOS_DATA, or the user's cache"
    )
    seed: int = option(0, "The seed of splits and noise.", group="Data")
    encrypted: bool = option(False, "Count encrypted ballots, not clear ones.", group="Encryption")
    randomness: RandomnessMode = option("half", "Randomness of the encryption.", group="Encryption")
    holders: int = option(5, "Key holders, the first parties.", group="Encryption")
    threshold: int = option(3, "How many holders open a count.", group="Encryption")
    workers: OneOrMore = option(1, "The number of processes.", group="Machine")

    def check(self) -> None:
        """Check the options."""
        if self.parties is not None and min(self.parties, default=0) < 2:
            raise InvalidParameter("each panel has at least 2 parties")
        check_key_bits(self.key_bits, test_key=self.test_key)
        check_holders(min(self.parties or (self.holders,)), self.holders, self.threshold)
        if self.stand_in and self.name != "hamm-url":
            raise InvalidParameter("the synthetic stand-in is for hamm-url only; the other data sets are published")


def reproduce_hamm(  # long: the fields of its result
    options: HammOptions,
    *,
    experiment: HammExperiment | None = None,
    progress: Progress = silent,
) -> PaperResult:
    """Run one experiment of Hamm 2016."""
    options.check()
    make_engine(options.engine, workers=options.workers, scheduler=options.scheduler)  # refuses what is none
    if options.quick:
        options = replace(
            options,
            trials=min(options.trials, 2),
            draws=min(options.draws, 3),
            inverse_epsilons=options.inverse_epsilons[::2],
        )
    experiment = experiment or EXPERIMENTS[options.name]
    start = time.perf_counter()
    if options.stand_in:
        data = make_synthetic(classes=2, features=50, samples=200_000, test=200_000, seed=6)
    else:
        data = load(experiment.dataset, options.data_dir)
    reduced = options.quick and options.name != "hamm-har"
    auxiliary = 4000 if reduced else experiment.auxiliary
    all_scores, sizes, encrypted = [], [], []
    with ExitStack() as resources:
        journal = None
        if options.journal is not None:
            journal = resources.enter_context(Journal(options.journal, _identity(options)))
        for parties in options.parties or ((1000,) if reduced else experiment.parties):
            trials = [_Trial(options, experiment, parties, auxiliary, number) for number in range(options.trials)]
            for number, trial in enumerate(trials if options.encrypted else ()):
                counts, row = _encrypted_count(data, trial, progress)
                trials[number] = replace(trial, counts=counts)
                encrypted.append(row)
            done = _run_trials(data, trials, journal, progress)
            all_scores.append(_scores(options, parties, done))
            training = round(max(trial["seconds"]["train"] for trial in done), 2)
            sizes.append([parties, *(done[0][name] for name in _SIZES), training])
    equal = all(row[2] for row in encrypted) if encrypted else None
    agreement = {True: ", equal to the clear ones", False: ", WHICH DIFFER FROM THE CLEAR ONES", None: ""}
    source = data.source if not options.stand_in else f"SYNTHETIC STAND-IN, not the paper's data: {data.source}"
    return PaperResult(
        experiment=options.name,
        paper=f"Hamm, Cao, Belkin 2016, section {experiment.section}, Figure {experiment.figure}",
        draws_per_point=options.trials * options.draws,
        test=sizes[0][1],
        quick=options.quick,
        facts=[
            ("Data", source, ""),
            ("Splits", options.trials, ""),
            ("Samples per party", experiment.samples, ""),
            (
                "Counts",
                "opened from encrypted ballots" if options.encrypted else "taken in the clear, for speed",
                agreement[equal],
            ),
        ],
        panels=[panel for scores in all_scores for panel in _figures(options, scores)],
        privacy={family: _release(family, text) for family, text in FAMILIES.items()},
        tables=[
            *beside(_published(options, experiment, all_scores)),
            Table("What was measured", ("parties", *_SIZES, "seconds of training"), sizes, detail=True),
            *([Table("Encrypted counts", _ENCRYPTED, encrypted, detail=True)] if encrypted else []),
        ],
        key_bits=options.key_bits if options.encrypted else 0,
        sums_equal_reference=equal,
        seed=options.seed,
        phases=timed({"total": round(time.perf_counter() - start, 1)}),
        options=asdict(options),
    )


def _identity(options: HammOptions) -> dict[str, Any]:
    """Return the options that determine a trial's result; the journal refuses to resume with others."""
    irrelevant = ("parties", "trials", "workers", "engine", "scheduler", "journal", "data_dir")
    return {name: value for name, value in asdict(options).items() if name not in irrelevant}


FAMILIES = {
    "stated": "the paper's algorithms and bounds, noise norm Gamma(D, b): the density it states; epsilon-private",
    "exponential": "the same, noise norm Gamma(1, b): NOT epsilon-private, shown because the paper's figures look so",
    "ours": "certified bounds and public rules, noise norm Gamma(D, b); epsilon-private",
}
_AXIS = "1/epsilon (log scale; more private to the right)"
_SIZES = ("test", "auxiliary", "features", "rho", "batch_rows", "indiv_rows")
_ENCRYPTED = ("parties", "trial", "equal", "bytes of a ballot", "bits per count", "peak MB", "resumed", "seconds")


# -- one split


@dataclass(frozen=True)
class _Trial:
    """One split of the data in one panel, with everything that a worker process needs to run it."""

    options: HammOptions
    experiment: HammExperiment
    parties: int
    auxiliary: int | None
    number: int
    counts: Counts | None = field(default=None, repr=False)

    @property
    def seed(self) -> int:
        return self.options.seed + self.number

    @property
    def name(self) -> str:
        return f"{self.parties}-{self.number}"

    def split(self, data: Dataset) -> tuple[Split, PublicScaler, Array]:
        samples = self.experiment.samples
        spare = len(data.y_train) - self.parties * samples
        if spare < 1:
            raise InvalidParameter(
                f"{self.parties} parties of {samples} samples need more than the {len(data.y_train)} training rows"
            )
        public = spare if self.auxiliary is None else min(self.auxiliary, spare)
        split = split_dataset(data, self.parties, self.seed, samples_per_party=samples, auxiliary=public)
        # The stand-in has 50 features already.
        scaler = default_scaler("synthetic" if data.name == "synthetic" else self.experiment.dataset)
        scaler.fit(split.X_auxiliary)
        return split, scaler, scaler.transform(split.X_auxiliary)


def _run_trials(
    data: Dataset, trials: Sequence[_Trial], journal: Journal | None, progress: Progress
) -> list[dict[str, Any]]:
    """Run the trials of a panel that the journal does not hold, and return the results of all of them in order."""
    label, workers = f"trials, M = {trials[0].parties}", trials[0].options.workers
    results: dict[int, dict[str, Any]] = {}
    if journal is not None:
        stored = {trial.number: journal.result(trial.name) for trial in trials}
        results = {number: result for number, result in stored.items() if result is not None}
    remaining = {trial.number: trial for trial in trials if trial.number not in results}
    progress(label, len(results), len(trials))
    tasks = [partial(replace, trial) for trial in remaining.values()]
    for result in LocalEngine(max(1, min(workers, len(tasks)))).run(_run_trial, data, tasks):
        number = int(result["trial"])
        if journal is not None:
            journal.store_result(remaining[number].name, result)
        results[number] = result
        progress(label, len(results), len(trials))
    return [results[trial.number] for trial in trials]


def _train(split: Split, scaler: PublicScaler, classes: int) -> Array:
    """Train every party's classifier in blocks of parties, and return them, float64 (M, d) or (M, K, d)."""
    blocks = []
    for start in range(0, len(split.parties), _TRAIN_BLOCK):
        X, y, sizes = split.private(start, start + _TRAIN_BLOCK)
        blocks.append(train_parties(scaler.transform(X), y, sizes, classes=classes, lam=HAMM_LAMBDA))
    return np.concatenate(blocks)


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
def _run_trial(data: Dataset, trial: _Trial) -> dict[str, Any]:
    """Train, count, release and score with one BLAS thread: more would only wait for each other."""
    options, classes = trial.options, len(data.classes)
    split, scaler, auxiliary = trial.split(data)
    loss = loss_named("logistic", classes)
    start = time.perf_counter()
    parameters = _train(split, scaler, classes)
    seconds = {"train": time.perf_counter() - start}
    counts = trial.counts
    if counts is None:
        counts = count_votes((block for _, block in votes_in_blocks(parameters, auxiliary)), len(auxiliary), classes)
    generator = np.random.default_rng([trial.seed, 1])

    classifiers: dict[str, Array] = {}
    rows = np.concatenate(split.parties)
    rows = rows if len(rows) <= _BATCH_ROWS else generator.choice(rows, _BATCH_ROWS, replace=False)
    classifiers["batch"] = minimise(
        scaler.transform(data.X_train[rows]), one_hot(data.y_train[rows], classes), HAMM_LAMBDA, loss
    ).w
    fits = {name: erm_fit(labels, counts, auxiliary, loss) for name, labels in LABELS.items()}
    printed = {name: fit(HAMM_LAMBDA).w for name, fit in fits.items()} | {"avg": parameters.mean(axis=0)}
    classifiers |= {f"nonprivate {name}": w for name, w in printed.items()}
    classifiers |= _printed_releases(options, trial.parties, printed, classes, generator)
    classifiers |= _our_releases(trial, counts, auxiliary, parameters, loss, fits)
    scores = _score(classifiers, split, scaler)
    indiv, indiv_rows = _indiv(parameters, split, scaler, generator)
    return {
        "trial": trial.number,
        "scores": scores | {"indiv": indiv},
        "auxiliary": len(auxiliary),
        "test": len(split.y_test),
        "features": auxiliary.shape[1],
        "batch_rows": len(rows),
        "indiv_rows": indiv_rows,
        "rho": bounds.rho(auxiliary),
        "seconds": seconds,
    }


def _releases(options: HammOptions, samplers_at: Callable[[float], dict[str, Sampler]]) -> Iterator[tuple[str, Array]]:
    points = {1 / point: point for point in options.inverse_epsilons}
    for name, epsilon, number, weights in sweep(lambda at: samplers_at(points[at]), points, options.draws):
        yield f"{name} {points[epsilon]:g} {number}", weights


def _printed_releases(
    options: HammOptions, parties: int, printed: dict[str, Array], classes: int, generator: np.random.Generator
) -> Iterator[tuple[str, Array]]:
    """Yield name and weights of each release with the paper's bounds, for both distributions of the noise's norm."""
    # One sweep for each method: the methods share the generator, and recorded results drew the noise in this order.
    norms: tuple[Norm, Norm] = ("stated", "exponential")
    for name in PRINTED:
        w, bound = printed[name], bounds.printed(name, HAMM_LAMBDA, parties=parties, classes=classes).value

        def samplers(point: float, name: str = name, w: Array = w, bound: float = bound) -> dict[str, Sampler]:
            return {f"{norm} {name}": partial(_perturbed, w, norm, bound * point, generator) for norm in norms}

        yield from _releases(options, samplers)


def _perturbed(w: Array, norm: Norm, scale: float, generator: np.random.Generator) -> Array:
    """Add noise of uniform direction whose norm is Gamma(D, scale) or Gamma(1, scale) to the D entries of w."""
    if norm == "stated":
        return w + simulate_spherical_laplace(w.size, scale, generator).reshape(w.shape)
    direction: Array = generator.normal(size=w.size)
    return w + (direction / np.linalg.norm(direction) * generator.exponential(scale)).reshape(w.shape)


def _our_releases(
    trial: _Trial,
    counts: Counts,
    auxiliary: Array,
    parameters: Array,
    loss: Loss,
    fits: dict[str, Callable[[float], Minimiser]],
) -> Iterator[tuple[str, Array]]:
    radius = averaging_radius(HAMM_LAMBDA, counts.shape[1])
    mean = np.mean([project(w, radius) for w in parameters], axis=0).reshape(parameters.shape[1:])
    average, spec = Average(mean, radius, len(parameters)), TallySpec(AuxiliarySet(auxiliary), counts.shape[1])

    def samplers_at(point: float) -> dict[str, Sampler]:
        # Mechanisms accept at most MAX_EPSILON. Using it for a larger epsilon adds more noise than necessary, but so
        # little that accuracies do not change.
        request = ReleaseRequest(min(1 / point, MAX_EPSILON), 1e-6, "spherical-laplace", None)
        methods = {
            name: spec.method_of(name, counts, request, loss=loss, fit=fits.get(name), seed=trial.seed)
            for name in OURS
            if name != "avg"
        }
        methods["avg"] = average_method(average, HAMM_LAMBDA, request)
        return {
            f"ours {name}": partial(methods[name].draw, SimulationRandomness(trial.seed, "hamm", name, str(point)))
            for name in OURS
        }

    return _releases(trial.options, samplers_at)


def _score(classifiers: dict[str, Array], split: Split, scaler: PublicScaler) -> dict[str, float]:
    y = split.y_test
    names = list(classifiers)
    stacked = np.stack([classifiers[name] for name in names])
    correct = np.zeros(len(names))
    for start in range(0, len(y), _TEST_BLOCK):
        X = scaler.transform(split.X_test[start : start + _TEST_BLOCK])
        truth = y[start : start + _TEST_BLOCK]
        for block, labels in votes_in_blocks(stacked, X):
            correct[block] += (labels == truth).sum(axis=1)
    return dict(zip(names, (correct / len(y)).tolist(), strict=True))


def _indiv(parameters: Array, split: Split, scaler: PublicScaler, generator: np.random.Generator) -> tuple[float, int]:
    """Return the mean accuracy of the parties' own classifiers, and the number of test rows it was measured on."""
    rows = min(len(split.y_test), max(1, _INDIV_VOTES // len(parameters)))
    sample = np.sort(generator.permutation(len(split.y_test))[:rows])
    X, y = scaler.transform(split.X_test[sample]), split.y_test[sample]
    correct = sum(int((block == y).sum()) for _, block in votes_in_blocks(parameters, X))
    return correct / (len(parameters) * rows), rows


# -- encrypted counts


def _encrypted_count(data: Dataset, trial: _Trial, progress: Progress) -> tuple[Counts, list[Any]]:
    """Count a trial's votes under encryption; also return a row that compares them with those in the clear."""
    options, classes, parties = trial.options, len(data.classes), trial.parties
    settings = ("key_bits", "holders", "threshold", "test_key", "randomness", "workers", "engine", "scheduler")
    chosen = SumOptions(parties=parties, **{name: getattr(options, name) for name in settings})
    with ExitStack() as resources:
        run = KeyedRun(chosen, {"progress": progress})
        with run.timed("scale"):
            split, scaler, scaled = trial.split(data)
            auxiliary = AuxiliarySet(scaled)
        with run.timed("train"), threadpool_limits(limits=1):
            voters = [LinearVoter(w) for w in _train(split, scaler, classes)]
        if options.journal is not None:
            folder = Path(options.journal) / f"votes-{trial.name}"
            identity = _identity(options) | {"parties": parties, "auxiliary": auxiliary.digest.hex()}
            run.journal = resources.enter_context(Journal(folder, identity))
        spec = TallySpec(auxiliary, classes)
        done = run.sum(spec, voters, f"encrypted ballots, M = {parties}, trial {trial.number}")
    return spec.counts(done.opened), [
        parties,
        trial.number,
        done.equals_plaintext,
        done.ballot_bytes,
        round(8 * done.ballot_bytes / done.round.plan.length, 2),
        round(done.peak_memory_mb, 1),
        done.continued_from,
        ", ".join(f"{phase} {elapsed:.2f}" for phase, elapsed in run.seconds.items()),
    ]


# -- summary over trials


class _Scores(NamedTuple):
    """Mean accuracies for one number of parties: without noise by method; private by family, method and 1/epsilon."""

    parties: int
    clear: dict[str, Mean]
    private: dict[str, dict[str, list[Mean]]]


def _scores(options: HammOptions, parties: int, trials: Sequence[dict[str, Any]]) -> _Scores:

    def mean_score(names: Sequence[str]) -> Mean:
        return Mean.of([trial["scores"][name] for trial in trials for name in names])

    def points(family: str, name: str) -> list[Mean]:
        draws = range(options.draws)
        return [
            mean_score([f"{family} {name} {point:g} {draw}" for draw in draws]) for point in options.inverse_epsilons
        ]

    families = {"stated": PRINTED, "exponential": PRINTED, "ours": OURS}
    names = {name: name for name in ("batch", "indiv")} | {name: f"nonprivate {name}" for name in PRINTED}
    return _Scores(
        parties,
        {name: mean_score([key]) for name, key in names.items()},
        {family: {name: points(family, name) for name in methods} for family, methods in families.items()},
    )


def _figures(options: HammOptions, scores: _Scores) -> Iterator[Panel]:
    axis = options.inverse_epsilons
    flat = [curve(name, axis, [scores.clear[name]] * len(axis)) for name in ("batch", "indiv")]
    title = f"{'SYNTHETIC STAND-IN: ' if options.stand_in else ''}{scores.parties:,} parties"
    for family, methods in scores.private.items():
        curves = [curve(name, axis, means) for name, means in methods.items()]
        yield Panel(f"{title}, {family}", _AXIS, "accuracy", [*curves, *flat], note=FAMILIES[family])


def _release(family: str, description: str) -> Release:
    ours = family == "ours"
    return Release(
        description.partition(";")[0].partition(":")[0],
        None,
        2.0**-64 if ours else 0.0,
        "party",
        source="certified for what was fitted (Theory, in the documentation)"
        if ours
        else "the paper's constants: Hamm, Theorems 1 and 3, appendices B.2 to B.4",
        said="NONE: not private" if family == "exponential" else "the axis",
    )


def _published(
    options: HammOptions, experiment: HammExperiment, panels: Sequence[_Scores]
) -> list[tuple[str, str, str, str, str]]:
    """Compare the paper's numbers and statements with the scores of the most parties: rows as `beside` takes them."""
    panel = max(panels, key=lambda panel: panel.parties)
    # Why these scores cannot test the paper's statements; empty if they can.
    not_tested = ""
    if options.stand_in:
        not_tested = "the data are synthetic, not the paper's"
    elif panel.parties != experiment.parties[-1]:
        not_tested = f"the paper says it of M = {experiment.parties[-1]}"

    def row(what: str, paper: str, here: str, holds: bool, why: str) -> tuple[str, str, str, str, str]:
        verdict = "not tested" if not_tested else "reproduces" if holds else "does not reproduce"
        return what, paper, here, verdict, not_tested or why

    rows = []
    for name, paper in experiment.numbers.items():
        ours = panel.clear[name]
        # The text says "around" and gives two digits.
        close = abs(ours.mean - paper) <= max(0.03, 2 * ours.std)
        why = "" if close else _WHY_NOT.get(name, "scaling and solver are not stated")
        rows.append(row(f"{name}, not private", f"{paper:.2f}", str(ours), close, why))
    for family, reason in (
        ("stated", ""),
        ("exponential", "does not follow from an exponential norm either"),
        ("ours", "other bounds and parameters than the paper's"),
    ):
        for claim in experiment.claims:
            text, holds = _judge(claim, options, panel, family)
            why = "" if holds else reason or claim.why_not
            why = "undecided: within two standard errors" if holds is None else why
            rows.append(row(f"{claim.what} ({family})", "claims so", text, bool(holds), why))
    return rows


def _judge(claim: Claim, options: HammOptions, panel: _Scores, family: str) -> tuple[str, bool | None]:
    points, texts = options.inverse_epsilons, dict[str, str]()

    def score(name: str) -> tuple[float, float]:
        """Return a mean accuracy and its standard error, with releases taken as independent."""
        method, _, point = name.partition(" ")
        if not point:
            result, releases = panel.clear[method], options.trials
        else:
            nearest = min(range(len(points)), key=lambda place: abs(np.log(points[place] / float(point))))
            result, releases = panel.private[family][method][nearest], options.trials * options.draws
            method = f"{method} at {points[nearest]:g}"
        texts[method] = f"{method}: {result.mean:.3f}"
        return result.mean, result.std / math.sqrt(releases)

    gaps = []
    for left, right, slack in claim.comparisons:
        (left_mean, left_error), (right_mean, right_error) = score(left), score(right)
        gaps.append((left_mean - right_mean + slack, 2 * math.hypot(left_error, right_error)))
    text = ", ".join(texts.values())
    if any(gap <= -noise for gap, noise in gaps):
        return text, False
    return text, True if all(gap > noise for gap, noise in gaps) else None
