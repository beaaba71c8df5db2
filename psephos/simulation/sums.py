"""What simulations of an encrypted sum on a data set have in common: the simulated parties, and the result.

The split, the public scaling and the reference classifiers (batch, indiv) are those of Hamm 2016, section 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from psephos.curator.hamm.erm import minimise
from psephos.curator.hamm.labels import majority, one_hot
from psephos.curator.losses import loss_named
from psephos.curator.methods import Method
from psephos.curator.statistic import public_coordinates
from psephos.data.partition import load_split
from psephos.data.preprocessing import PublicScaler, default_scaler
from psephos.data.splits import Split
from psephos.parties.learners import LocalClassifier, make_learner
from psephos.parties.party import Voter
from psephos.parties.training import train_parties, votes_in_blocks
from psephos.progress import Progress, counted
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.privacy.accounting import shown_together, stated
from psephos.protocol.randomness import SYSTEM
from psephos.results import ComposedCost
from psephos.results.base import timed
from psephos.results.evaluation import Evaluation
from psephos.simulation.charges import SumCharges
from psephos.simulation.encrypted_sum import BATCH, EncryptedSum, PartyFactory
from psephos.simulation.engines import FEWEST_BATCHES
from psephos.simulation.journal import Journal
from psephos.simulation.linear import LinearVoters, count_votes
from psephos.simulation.options import SumOptions
from psephos.simulation.run import KeyedRun, RunContext
from psephos.specs.base import SumSpec
from psephos.specs.terms import PublicTerms
from psephos.sweep import Sampler, sweep

SCALED_ROWS = 50_000
"""Number of test rows that are scaled at a time, to bound the memory."""

BATCH_ROWS = 100_000
"""Largest number of the parties' rows on which batch is trained; a random part of more rows is used and reported."""

ENSEMBLE_VOTES = 400_000_000
"""Number of test votes above which indiv and ensemble are measured on a random part of the test set, as reported."""

Array = NDArray[np.float64]
OwnRows = tuple[Array, NDArray[np.int64]]
"""A party's samples (n, d) and their labels (n,)."""


# -- the parties


@dataclass(frozen=True)
class Population:
    """The simulated parties on one data set.

    Attributes:
        split: which party holds which rows.
        scaler: public, for rows of the data set.
        auxiliary, test: float64 (N, d) and (T, d), scaled.
        parameters: every party's ridge classifier, float64 (M, d), or (M, K, d) for several classes. A secret.
        voters: what each party votes with. A secret.
        present: numbers of the parties that take part, in order.
    """

    split: Split
    scaler: Any
    auxiliary: Array = field(repr=False)
    test: Array = field(repr=False)
    parameters: Array = field(repr=False)
    voters: Sequence[Voter] = field(repr=False)
    present: list[int] = field(repr=False)
    options: SumOptions

    @property
    def classes(self) -> int:
        """Number of classes, K."""
        return len(self.split.dataset.classes)

    def rows(self) -> Sequence[OwnRows]:
        """Return every party's own samples, scaled when they are read, and their labels. Secrets."""
        return _Rows(self.split, self.scaler)

    def records(self) -> Sequence[tuple[Any, ...]]:
        """Return `rows`, with whose each row is, int64 (n,), where persons are protected. Secrets."""
        split, rows = self.split, self.rows()
        if split.persons is None:
            return rows
        return [(*rows[number], split.persons[own]) for number, own in enumerate(split.parties)]

    def counts(self, X: Array) -> NDArray[np.int64]:
        """Return the votes of the present parties on X, int64 (len(X), K), without encryption."""
        if self.options.local_learners == ("logistic",):
            blocks: Iterable[Any] = (block for _, block in votes_in_blocks(self.parameters[self.present], X))
        else:
            blocks = (self.voters[number].predict_votes(X)[None] for number in self.present)
        return count_votes(blocks, len(X), self.classes)

    def note_references(self, evaluation: Evaluation, loss: str) -> dict[str, int]:
        """Add the references of Hamm 2016, section 6, to the evaluation: batch (one classifier of all parties' rows),
        indiv (the mean of one party's classifier) and ensemble (their majority vote, ties as in equation 6).

        Return the number of rows of each that was trained or measured on a random part of them, by its name.
        """
        data = self.split.dataset
        rows = np.concatenate([self.split.parties[number] for number in self.present])
        total, rows = len(rows), np.random.default_rng(self.options.seed).permutation(rows)[:BATCH_ROWS]
        labels = one_hot(data.y_train[rows], self.classes)
        scaled = _transformed(self.scaler, data.X_train[rows])
        if total:  # none may be left where a record decides about no party
            w = minimise(scaled, labels, self.options.local_lam, loss_named(loss, self.classes)).w
            evaluation.add_classifier("batch", w)
        voted = min(len(self.test), max(1, ENSEMBLE_VOTES // len(self.present)))
        chosen = np.random.default_rng(self.options.seed).permutation(len(self.test))[:voted]
        counts = self.counts(self.test[chosen])
        evaluation.add_vote_shares("indiv", counts / len(self.present), rows=chosen)
        evaluation.add_vote_shares("ensemble", one_hot(majority(counts), self.classes), rows=chosen)
        used = {"batch": (len(rows), total), "ensemble": (voted, len(self.test))}
        return {name: some for name, (some, every) in used.items() if some < every}


class _Rows(Sequence[OwnRows]):
    """The rows of all parties, of which few are in memory at a time."""

    def __init__(self, split: Split, scaler: Any) -> None:
        self._split, self._scaler = split, scaler

    def __len__(self) -> int:
        return len(self._split.parties)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        X, y = self._split.party(range(len(self))[at])
        return _transformed(self._scaler, X), y


def populate(options: SumOptions, split: Split, progress: Progress) -> Population:
    """Scale the data by public values, and train every party's classifiers."""
    # Learned on the auxiliary samples, which are public; where they are not, nothing may be learned on them.
    name = split.dataset.name
    scaler = PublicScaler() if options.private_auxiliary else default_scaler(name)
    if options.protects_records:
        # The record step divides rows by a constant feature. Principal components are its own: a matrix product here
        # would let the last bits of a row's coordinates depend on how many other rows there are.
        scaler.set_params(intercept=scaler.intercept or 1.0, components=None)
    if options.divides_rows:
        scaler.set_params(intercept=scaler.intercept or 1.0)
    # Predictions do not depend on a row's length, but parties that train on rows of norm 1 vote better.
    scaler.set_params(scaling="unit-rows").fit(split.X_auxiliary)
    public_rows, test = scaler.transform(split.X_auxiliary), _transformed(scaler, split.X_test)
    parameters, voters = _train(options, split, scaler, public_rows, progress)
    present = sorted(set(range(options.parties)) - set(options.absent_parties))
    return Population(split, scaler, public_rows, test, parameters, voters, present, options)


def _transformed(scaler: Any, X: Any) -> Array:
    """Return the rows of X scaled, a block at a time, since scaling makes several copies of its input."""
    blocks = [scaler.transform(X[at : at + SCALED_ROWS]) for at in range(0, max(1, X.shape[0]), SCALED_ROWS)]
    return np.concatenate(blocks)


def _train(
    options: SumOptions, split: Split, scaler: Any, public_rows: Array, progress: Progress
) -> tuple[Array, Sequence[Voter]]:
    done, classes = counted(progress, "train", options.parties), len(split.dataset.classes)
    learners = options.local_learners
    white = public_coordinates(public_rows) if "whitened" in learners else None
    every = np.empty((options.parties, *([classes] if classes > 2 else []), public_rows.shape[1]))
    rows = _Rows(split, scaler)
    # One party at a time, as on machines of their own: nothing of a party depends on another's rows, nor on how many.
    for number, (X, y) in enumerate(rows):
        every[number] = train_parties(X, y, [len(y)], classes=classes, lam=options.local_lam)[0] if len(y) else 0.0
        done(1)
    if learners == ("logistic",):
        return every, LinearVoters(every)
    tasks = (
        delayed(_fit_one)(learners[number % len(learners)], X, y, classes, options, number, white)
        for number, (X, y) in enumerate(rows)
    )
    done = counted(progress, "train voters", options.parties)
    voters: list[Voter] = []
    processes = options.workers if -(-options.parties // BATCH) >= FEWEST_BATCHES else 1
    for voter in Parallel(n_jobs=processes, return_as="generator")(tasks):
        voters.append(voter)
        done(1)
    return every, voters


def _fit_one(
    learner: Any, X: Array, y: NDArray[np.int64], classes: int, options: SumOptions, number: int, white: Array | None
) -> LocalClassifier:
    ridge = options.local_lam if isinstance(learner, str) and learner == "logistic" else None
    seed = options.seed + number
    return make_learner(learner, classes=classes, seed=seed, lam=ridge, coordinates=white).fit(X, y)


# -- the run

MethodsAt = Callable[[float], dict[str, Method]]
"""Every method that is released, at an epsilon."""


class SumExperiment(KeyedRun):
    """One run: its parties and keys, its encrypted sums and its releases."""

    options: SumOptions

    def __init__(self, options: SumOptions, split: Split, journal: Journal | None, context: RunContext) -> None:
        """Train the parties, after `SumCharges.check`. Raises the named errors of what cannot be run."""
        transcript = context.get("transcript")
        # In one run of the driver no batch is stored, so that a continued run draws new noise.
        one_run = bool(context.get("roles")) or (transcript is not None and transcript.keeps_secrets)
        self._charges = SumCharges(options, split, None if one_run else journal)
        self._charges.check()
        super().__init__(options, context, journal, self._charges.before_sum)
        self.loss: str = vars(options).get("loss", "logistic")
        self.evaluation = Evaluation()
        self.remarks: list[str] = []
        with self.timed("train"):  # before the keys: training can refuse the data, and a ceremony takes minutes
            self.population = populate(options, split, self.progress)
        self.evaluation.start(self.population.split, self.population.scaler, self.population.test)

    def public(self, method: str) -> PublicTerms:
        """Return what everybody knows about the release of a method."""
        population, split = self.population, self.population.split
        return PublicTerms(
            auxiliary=AuxiliarySet(population.auxiliary),
            classes=population.classes,
            parties=self.options.parties,
            method=method,
            labels=split.public_labels,
            rows=getattr(self.options, "announced_rows", None),
        )

    def sum(self, spec: SumSpec, data: Any, phase: str, **more: Any) -> EncryptedSum:
        """See `KeyedRun.sum`; what was opened is recorded in the budget file and for the evaluation."""
        done = super().sum(spec, data, phase, **more)
        self._charges.after_sum(more.get("label") or phase, done.opened)
        self.evaluation.sums.setdefault(phase, []).append(done.opened)
        self.evaluation.contributions.append((phase, done.round, PartyFactory(spec, data), done.vectors))
        return done

    def salt(self) -> bytes:
        """Return a salt for private auxiliary samples, so that the board confirms no guess of them; else b""."""
        if not self.options.private_auxiliary:
            return b""
        stored = None if self.journal is None else self.journal.result("auxiliary salt")
        salt = SYSTEM.draw(32) if stored is None else bytes.fromhex(stored)
        if self.journal is not None:
            self.journal.store_result("auxiliary salt", salt.hex())
        return salt

    def release(self, methods_at: MethodsAt) -> list[dict[str, Method]]:
        """Evaluate every method without noise, and its releases at each epsilon.

        Return the methods at each epsilon of the options; their cost states the delta that was asked for.
        """
        options, noise = self.options, self.options.noise_coins
        with self.timed("fit"):
            at_each = [
                {
                    name: method if method.event is None else replace(method, event=stated(method.event, options.delta))
                    for name, method in methods_at(epsilon).items()
                }
                for epsilon in options.epsilon
            ]
        self._charges.plan(at_each)

        def samplers_at(epsilon: float) -> dict[str, Sampler]:
            methods = at_each[options.epsilon.index(epsilon)]
            return {name: partial(method.draw, noise) for name, method in methods.items()}

        with self.timed("fit"):
            for draw in sweep(samplers_at, options.epsilon, options.drawn, self.progress):
                if draw.epsilon == options.epsilon[0] and draw.number == 0:
                    self.evaluation.add_classifier(draw.method, at_each[0][draw.method].nonprivate())
                self.evaluation.add_classifier(draw.method, draw.weights, draw.epsilon)
        return at_each

    def _costs(self, methods: Sequence[Mapping[str, Method]]) -> dict[str, Any]:
        protects, draws = self.options.protects, range(self.options.drawn)
        entries = {  # where a release is the only one at its epsilon, it says how much of it is signal
            name: replace(method.ledger_entry, signal=method.signal() if len(draws) == 1 else None, protects=protects)
            for name, method in methods[0].items()
        }
        planned = [method.event for at_epsilon in methods for method in at_epsilon.values() if method.event is not None]
        events = [event for event in planned for _ in draws]
        if not events:
            return {"privacy": entries, "composed": ComposedCost(0, 0.0, 0.0)}
        return {"privacy": entries, "composed": ComposedCost(len(events), *shown_together(events))}

    def _ballot_fields(self) -> dict[str, int]:
        """Return the fields about the ballots of the first sum; all are 0 where no party was asked."""
        names = (
            "degree",
            "ballots",
            "min_ballots",
            "slots_per_plaintext",
            "ciphertexts_per_ballot",
            "bytes_per_ballot",
        )
        if not self.done:
            return dict.fromkeys(names, 0)
        first, terms = self.done[0], self.done[0].round
        conditions = terms.key.degree, first.opened.ballots, terms.minimum_ballots
        sizes = terms.plan.slots_per_plaintext, terms.plan.ciphertexts, first.ballot_bytes
        return dict(zip(names, (*conditions, *sizes), strict=True))

    def result_fields(self, methods: Sequence[Mapping[str, Method]]) -> dict[str, Any]:
        """Return the fields that all results of encrypted sums have, of the methods at each epsilon."""
        options, population = self.options, self.population
        costs = self._costs(methods)
        everywhere = {f"{epsilon:g}": self.evaluation.accuracy(epsilon) for epsilon in options.epsilon}
        return {
            "dataset": population.split.dataset.name,
            "features": population.auxiliary.shape[1],
            "test": len(population.test),
            "delta": max(entry.delta or 0.0 for entry in costs["privacy"].values()),
            "accuracy": next(iter(everywhere.values())),
            "by_epsilon": everywhere if len(everywhere) > 1 else {},
            "class_names": list(population.split.dataset.classes),
            "cautions": list(population.split.cautions),
            "remarks": list(self.remarks),
            "colluders": options.coalition if self.done else None,
            "budget": self._charges.summary(),
            "options": options.plain(),
            "peak_memory_mb": round(max(done.peak_memory_mb for done in self.done), 1) if self.done else None,
            "phases": timed({phase: round(seconds, 3) for phase, seconds in self.seconds.items()}),
            "auxiliary": len(population.auxiliary),
            "mechanism": options.noise,
            "lam": options.local_lam,
            **self._ballot_fields(),
            "tally_equals_plaintext": all(done.equals_plaintext for done in self.done),
            **costs,
            "draws": options.drawn,
            "evaluation": self.evaluation,
            "transcript": self.transcript,
            "continued_from": sum(done.continued_from for done in self.done),
        }


def run_experiment(
    options: SumOptions, sums: Callable[[SumExperiment], MethodsAt], context: RunContext
) -> tuple[SumExperiment, dict[str, Any]]:
    """Check the options, split the data, train, release and measure; also return the fields of the result."""
    if unknown := sorted(context.keys() - RunContext.__annotations__.keys()):
        raise TypeError(f"a simulation takes no argument {', '.join(unknown)}")
    options, split = load_split(options, context.get("data"))
    # Thousands of small matrices: threads of linear algebra would wait for each other, and for the worker processes.
    with threadpool_limits(limits=1), _journal_of(options) as journal:
        run = SumExperiment(options, split, journal, context)
        with run.timed("fit"):
            measured_on = run.population.note_references(run.evaluation, run.loss) if len(run.population.test) else {}
        methods = run.release(sums(run))
    return run, {"measured_on": measured_on, **run.result_fields(methods)}


_NOT_IDENTITY = ("workers", "engine", "scheduler", "journal", "draws", "data_dir", "budget", "budget_limit")


def _journal_of(options: SumOptions) -> Any:
    if options.journal is None:
        return nullcontext()
    identity = {name: value for name, value in options.plain().items() if name not in _NOT_IDENTITY}
    return Journal(options.journal, {"run": type(options).__name__, **identity})
