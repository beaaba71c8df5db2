"""What simulations of an encrypted sum on a data set have in common: the simulated parties, and the result.

The split, the public scaling and the reference classifiers (batch, indiv) are those of Hamm 2016, section 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from psephos.budget import RunBudget, budget_of
from psephos.curator.checks import public_features
from psephos.curator.hamm.erm import minimise
from psephos.curator.hamm.labels import majority, one_hot
from psephos.curator.losses import loss_named
from psephos.curator.methods import Method
from psephos.curator.rehearsal import fit_public
from psephos.curator.rehearsed import model_classifier
from psephos.curator.statistic import public_coordinates
from psephos.data.partition import load_split
from psephos.data.preprocessing import PublicScaler, default_scaler
from psephos.data.splits import Split
from psephos.parties.learners import LocalClassifier, make_learner
from psephos.parties.party import Voter
from psephos.parties.training import LinearVoters, count_votes, train_parties, votes_in_blocks
from psephos.progress import Progress, counted, silent
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import BudgetExceededError
from psephos.protocol.privacy.accounting import PrivacyEvent, shown_together, stated, stated_delta
from psephos.protocol.privacy.mechanisms import SAMPLER_DISTANCE, gaussian_sigma
from psephos.protocol.randomness import SYSTEM
from psephos.protocol.storage.budget import Charge
from psephos.protocol.storage.values import encode
from psephos.results.base import timed
from psephos.results.deviations import merged
from psephos.results.evaluation import Evaluation
from psephos.results.runs import ComposedCost
from psephos.simulation.encrypted_sum import BATCH, EncryptedSum, PartyFactory
from psephos.simulation.engines import FEWEST_BATCHES
from psephos.simulation.journal import Journal
from psephos.simulation.options import COUNTED, LABELLED_METHODS, RECORD_METHODS, SumOptions
from psephos.simulation.run import KeyedRun, RunContext, evaluated_fields
from psephos.specs.base import SumSpec
from psephos.specs.terms import PublicTerms

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
        trained: the parties' classifiers. Secrets.
        present: numbers of the parties that take part, in order.
    """

    split: Split
    scaler: Any
    auxiliary: Array = field(repr=False)
    test: Array = field(repr=False)
    trained: Trained = field(repr=False)
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
            blocks: Iterable[Any] = (block for _, block in votes_in_blocks(self.trained.parameters[self.present], X))
        else:
            blocks = (self.trained.voters[number].predict_votes(X)[None] for number in self.present)
        return count_votes(blocks, len(X), self.classes)

    def note_references(self, evaluation: Evaluation, loss: str) -> dict[str, int]:
        """Add what a release competes with to the evaluation.

        These are the references of Hamm 2016, section 6: batch (one linear classifier of all parties' rows), indiv (the
        mean of one party's classifier) and ensemble (their majority vote, ties as in equation 6); trees of all rows;
        and a linear classifier and a forest of the public rows alone, where the run may use their labels.

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
        used = {"batch": (len(rows), total), "trees": (evaluation.add_trees(rows, self.options.seed), total)}
        if self._labelled:
            public = self.split.public_labels
            log_odds = self.scaler.unscaled(self.split.log_odds)
            model = fit_public(public_features(self.auxiliary), public, self.classes, log_odds)
            evaluation.add_classifier("public", model_classifier(model))
            known = self.split.auxiliary[public >= 0]
            used["public-forest"] = evaluation.add_forest(known, self.options.seed), len(known)
        voted = min(len(self.test), max(1, ENSEMBLE_VOTES // len(self.present)))
        chosen = np.random.default_rng(self.options.seed).permutation(len(self.test))[:voted]
        counts = self.counts(self.test[chosen])
        evaluation.add_vote_shares("indiv", counts / len(self.present), rows=chosen)
        evaluation.add_vote_shares("ensemble", one_hot(majority(counts), self.classes), scores=counts, rows=chosen)
        used["ensemble"] = voted, len(self.test)
        return {name: some for name, (some, every) in used.items() if 0 < some < every}

    @property
    def _labelled(self) -> bool:
        """Whether public rows have labels of several classes that the run may use."""
        if self.options.private_auxiliary:
            return False
        uses = set(self.options.offered) & {*LABELLED_METHODS, *RECORD_METHODS}
        labels = self.split.public_labels
        return bool(self.split.labelled or uses) and len(np.unique(labels[labels >= 0])) > 1


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
    """Scale the data by public values; every party's classifiers are trained when they are first used."""
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
    present = sorted(set(range(options.parties)) - set(options.absent_parties))
    trained = Trained(options, _Rows(split, scaler), len(split.dataset.classes), public_rows, progress)
    return Population(split, scaler, public_rows, test, trained, present, options)


def _transformed(scaler: Any, X: Any) -> Array:
    """Return the rows of X scaled, a block at a time, since scaling makes several copies of its input."""
    blocks = [scaler.transform(X[at : at + SCALED_ROWS]) for at in range(0, max(1, X.shape[0]), SCALED_ROWS)]
    return np.concatenate(blocks)


class Trained:
    """The classifiers of all parties, trained when they are first used. They are secrets."""

    def __init__(
        self, options: SumOptions, rows: Sequence[OwnRows], classes: int, public_rows: Array, progress: Progress
    ) -> None:
        self._options, self._rows, self._classes = options, rows, classes
        self._public_rows, self._progress = public_rows, progress

    @cached_property
    def parameters(self) -> Array:
        """Every party's ridge classifier, float64 (M, d), or (M, K, d) for several classes."""
        options, classes = self._options, self._classes
        done, several = counted(self._progress, "train", options.parties), [classes] if classes > 2 else []
        every = np.zeros((options.parties, *several, self._public_rows.shape[1]))
        # One party at a time, as on machines of their own: nothing of a party depends on others' rows, nor on how many.
        for number, (X, y) in enumerate(self._rows):
            if len(y):
                every[number] = train_parties(X, y, [len(y)], classes=classes, lam=options.local_lam)[0]
            done(1)
        return every

    def now(self, *, parameters: bool) -> None:
        """Train what each party votes with, and its ridge classifier where that is not the same."""
        list(self.voters[:0])
        if parameters:
            len(self.parameters)

    @cached_property
    def voters(self) -> Sequence[Voter]:
        """What each party votes with."""
        options, learners = self._options, self._options.local_learners
        if learners == ("logistic",):
            return LinearVoters(self.parameters)
        white = public_coordinates(self._public_rows) if "whitened" in learners else None
        tasks = (
            delayed(_fit_one)(learners[number % len(learners)], X, y, self._classes, options, number, white)
            for number, (X, y) in enumerate(self._rows)
        )
        done = counted(self._progress, "train voters", options.parties)
        voters: list[Voter] = []
        processes = options.workers if -(-options.parties // BATCH) >= FEWEST_BATCHES else 1
        for voter in Parallel(n_jobs=processes, return_as="generator")(tasks):
            voters.append(voter)
            done(1)
        return voters


def _fit_one(
    learner: Any, X: Array, y: NDArray[np.int64], classes: int, options: SumOptions, number: int, white: Array | None
) -> LocalClassifier:
    ridge = options.local_lam if isinstance(learner, str) and learner == "logistic" else None
    seed = options.seed + number
    return make_learner(learner, classes=classes, seed=seed, lam=ridge, coordinates=white).fit(X, y)


# -- what the run is charged in the budget file of its rows (`--budget`)


class SumCharges:
    """Charges the releases of one experiment, before anything of them leaves.

    Where the parties add the noise, a run that continues from a journal opens the same sums again: it is charged once,
    before the first sum, and releases one result of each sum, whichever copy of the journal finishes first. Where the
    curator adds it, the exact sums are charged once, and the releases each time when the noise is drawn.
    """

    def __init__(self, options: SumOptions, split: Split, journal: Journal | None = None) -> None:
        self._options, self._charged = options, False
        self.budget = budget_of(options, split, "record" if options.protects_records else "party")
        self._planned: list[Charge] = []
        if journal is not None:
            stored = journal.result("budget run")
            if stored is None:
                journal.store_result("budget run", stored := self.budget.run.hex())
            self.budget = replace(self.budget, run=bytes.fromhex(stored))

    def check(self) -> None:
        """Raise BudgetExceededError or BudgetFileError, before anything is trained, if the releases cannot be charged.

        The cost of a release is known exactly when it is planned; here it is what the options ask for.
        """
        options = self._options
        exact = [] if options.joint else self._exact_charges()
        self.budget.check([*exact, *self._requested_charges()])

    @property
    def allowed(self) -> bool:
        """Whether `check` raises no BudgetExceededError."""
        with suppress(BudgetExceededError):
            self.check()
            return True
        return False

    def plan(self, methods: Sequence[Mapping[str, Method]]) -> None:
        """Charge the releases whose noise the curator draws; of the others, record the exact cost for `before_sum`.

        Raises as `RunBudget.charge`.
        """
        # The curator of a continued run draws other noise, and somebody may have seen its first release.
        budget = self.budget if self._options.joint else replace(self.budget, run=SYSTEM.draw(16))
        releases = [
            _release(budget, name, epsilon, method.event, number)
            for epsilon, at_epsilon in zip(self._options.epsilon, methods, strict=True)
            for name, method in at_epsilon.items()
            if method.event is not None
            for number in range(self._options.drawn)
        ]
        if self._options.joint:
            self._planned = releases
        else:
            budget.charge(releases)

    def before_sum(self) -> None:
        """Charge all that the sums cost, before the first one. Raises as `RunBudget.charge`."""
        if self._charged:
            return
        charges = self._planned if self._options.joint else self._exact_charges()
        if not charges:
            raise RuntimeError("a sum is taken whose release was not planned")
        self.budget.charge(charges)
        self._charged = True

    def after_sum(self, name: str, opened: OpenedSum) -> None:
        """Record the noisy sum that was paid for, before anything of it leaves. Raises as `RunBudget.release_once`."""
        if self._options.joint:
            self.budget.release_once(name, encode((opened.sums, opened.parties)))

    def _requested_charges(self) -> list[Charge]:
        """Return the charges of all releases that the options ask for.

        A method that may ask no party is left out: whether it does is known only when it is planned.
        """
        options, gaussian = self._options, self._options.noise == "gaussian"
        charges = []
        for epsilon in options.epsilon:
            multiplier = gaussian_sigma(1.0, epsilon, options.delta) if gaussian and options.joint else None
            delta = stated_delta(options.delta if gaussian else 0.0)
            event = PrivacyEvent("release", epsilon, delta, multiplier, SAMPLER_DISTANCE)
            charges += [
                _release(self.budget, name, epsilon, event, number)
                for name in options.offered
                if name not in LABELLED_METHODS
                for number in range(options.drawn)
            ]
        return charges

    def _exact_charges(self) -> list[Charge]:
        offered, openings = set(self._options.offered), list[tuple[str, str]]()
        if offered & set(COUNTED):
            openings.append(("counts of votes", "the curator is given the exact counts of votes (alpha)"))
        if offered - set(COUNTED):
            openings.append(("sums", "the curator is given exact sums of what the parties send"))
        return [self.budget.opening(f"exact {name}", why) for name, why in openings]


def _release(budget: RunBudget, name: str, epsilon: float, event: PrivacyEvent, number: int) -> Charge:
    return budget.release(f"{name} at epsilon {epsilon!r}", event, number)


# -- every method at every epsilon, released several times

Sampler = Callable[[], Array]
"""Draws one release, weights (d,) or (K, d); every call is a release of its own."""


def sweep(
    samplers_at: Callable[[float], Mapping[str, Sampler]],
    epsilons: Iterable[float],
    draws: int,
    progress: Progress = silent,
) -> Iterator[tuple[str, float, int, Array]]:
    """Draw releases by epsilon, then by method, then by number; yield (method, epsilon, number, weights)."""
    for epsilon in epsilons:
        samplers = samplers_at(epsilon)
        report = counted(progress, "release", draws * len(samplers))
        for method, sampler in samplers.items():
            for number in range(draws):
                yield method, epsilon, number, sampler()
                report(1)


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
        if not context.get("public_only"):
            self._charges.check()
        super().__init__(options, context, journal, self._charges.before_sum)
        self.loss: str = vars(options).get("loss", "logistic")
        self.evaluation = Evaluation()
        self.remarks: list[str] = []
        with self.timed("train"):  # before the keys: training can refuse the data, and a ceremony takes minutes
            self.population = populate(options, split, self.progress)
            self.population.trained.now(parameters="avg" in options.offered)
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
            log_odds=population.scaler.unscaled(split.log_odds),
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
            for name, epsilon, number, weights in sweep(samplers_at, options.epsilon, options.drawn, self.progress):
                if epsilon == options.epsilon[0] and number == 0:
                    self.evaluation.add_classifier(name, at_each[0][name].nonprivate())
                self.evaluation.add_classifier(name, weights, epsilon)
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
        several = options.epsilon if len(options.epsilon) > 1 else ()
        return {
            **evaluated_fields(options, self.evaluation),
            "features": population.auxiliary.shape[1],
            "delta": max(entry.delta or 0.0 for entry in costs["privacy"].values()),
            "by_epsilon": {f"{epsilon:g}": self.evaluation.accuracy(epsilon) for epsilon in several},
            "cautions": [*population.split.cautions, *population.split.unmapped],
            "deviations": merged(each for done in self.done for each in done.deviations),
            "remarks": list(self.remarks),
            "colluders": options.coalition if self.done else None,
            "budget": self._charges.budget.summary(),
            "peak_memory_mb": round(max(done.peak_memory_mb for done in self.done), 1) if self.done else None,
            "phases": timed({phase: round(seconds, 3) for phase, seconds in self.seconds.items()}),
            "auxiliary": len(population.auxiliary),
            "mechanism": options.noise,
            "lam": options.local_lam,
            **self._ballot_fields(),
            "tally_equals_plaintext": all(done.equals_plaintext for done in self.done),
            **costs,
            "draws": options.drawn,
            "transcript": self.transcript,
            "continued_from": sum(done.continued_from for done in self.done),
        }


def run_experiment(
    options: SumOptions,
    sums: Callable[[SumExperiment], MethodsAt],
    context: RunContext,
    experiment: type[SumExperiment] = SumExperiment,
) -> tuple[SumExperiment, dict[str, Any]]:
    """Check the options, split the data, train, release and measure; also return the fields of the result."""
    options, split = load_split(options, context.get("data"))
    # Thousands of small matrices: threads of linear algebra would wait for each other, and for the worker processes.
    with threadpool_limits(limits=1), _journal_of(options) as journal:
        run = experiment(options, split, journal, context)
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
