"""What simulations of an encrypted sum on a data set have in common: options, the simulated parties, and the outcome.

The split, the public scaling and the reference classifiers (batch, indiv) are those of Hamm 2016, section 6.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, Protocol, TypeVar, get_args

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from psephos.curator.checks import check_positive
from psephos.curator.hamm.erm import check_auxiliary, minimise
from psephos.curator.hamm.labels import majority, one_hot
from psephos.curator.hamm.release import Bound
from psephos.curator.hamm.rules import HAMM_LAMBDA
from psephos.curator.hamm.statistic import MechanismName
from psephos.curator.losses import loss_named
from psephos.data.datasets import load
from psephos.data.own import OwnTable, TableOptions
from psephos.data.preprocessing import PublicScaler, default_scaler
from psephos.data.splits import Split, split
from psephos.options import option
from psephos.outcomes import Accuracy, Composed, Release
from psephos.parties.learners import LocalClassifier, make_learner
from psephos.parties.party import Voter
from psephos.parties.training import train_parties, votes_in_blocks
from psephos.protocol.encrypted_sum.rounds import PROOFS, Proofs, Round
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.encryption import RANDOMNESS_MODES, RandomnessMode
from psephos.protocol.paillier.keys import DEFAULT_KEY_BITS, check_key_bits
from psephos.protocol.privacy.accounting import shown_together
from psephos.protocol.privacy.mechanisms import check_delta, check_epsilon
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from psephos.protocol.roles import Role
from psephos.protocol.transcript import Transcript
from psephos.simulation.ceremony import Ceremony, Keys, hold_ceremony
from psephos.simulation.encrypted_sum import Conditions, Contribution, EncryptedSum, simulate_sum
from psephos.simulation.engines import make_engine
from psephos.simulation.journal import Journal
from psephos.simulation.linear import LinearVoter, count_votes
from psephos.simulation.methods import Method, Request, check_mechanism

__all__ = ["KDD99_SPLIT", "Population", "Progress", "Quiet", "SumOptions", "Sums", "populate", "settled"]

KDD99_SPLIT = (22, 43_000)
"""Private rows of a party and auxiliary samples, as Hamm 2016 deals KDD-99 out."""

TRAIN_ROWS = 50_000
"""Private rows that are scaled and trained on at a time, so that memory does not grow with the number of parties."""

BATCH_ROWS = 100_000
"""batch is trained on so many of the parties' rows at most, at random, which is reported."""

ENSEMBLE_VOTES = 400_000_000
"""Above so many test votes, indiv and ensemble are measured on a random part of the test set, which is reported."""

Array = NDArray[np.float64]


class Progress(Protocol):
    """Is told how far a long run is."""

    def phase(self, name: str, total: int) -> Callable[[int], object]:
        """A phase of `total` steps begins; the result is called with the number of steps done."""


class Quiet:
    """Says nothing."""

    def phase(self, name: str, total: int) -> Callable[[int], object]:
        """As `Progress.phase`."""
        return lambda done: None


# -- options


@dataclass(frozen=True, kw_only=True)
class SumOptions(TableOptions):
    """What every simulation around an encrypted sum is asked for; a field is an option of its command."""

    dataset: str = option(
        "breast-cancer", "A bundled or a downloaded data set, where --data names no table of your own."
    )
    parties: int = option(25, "Data owners, M.")
    samples_per_party: int | None = option(
        None, "Samples of each party.", shown="90 % of the training data, dealt evenly"
    )
    auxiliary: int | None = option(None, "Auxiliary samples, public.", shown="the rest of the training data")
    scaling: Literal["max-norm", "unit-rows"] | None = option(
        None,
        "How rows get into the unit ball: divided by the largest auxiliary norm, as Hamm does, or each to norm 1.",
        shown="unit-rows; with --lam as in the papers",
    )
    epsilon: float = option(1.0, "Privacy of each release, of a party.", group="Privacy")
    delta: float = option(1e-6, "For gaussian noise.", group="Privacy")
    lam: float | None = option(
        None, "Ridge lambda everywhere, as in the papers.", group="Privacy", shown="each method's public rule"
    )
    mechanism: MechanismName | None = option(
        None, "The noise (gaussian: Skellam where parties add it).", group="Privacy", shown="as the release takes it"
    )
    bound: Bound = option(
        "certified", "Sensitivity: certified, or the papers' own constants, for comparison.", group="Privacy"
    )
    draws: int = option(1, "Average the private accuracies over so many noise draws.", group="Privacy")
    key_bits: int = option(DEFAULT_KEY_BITS, "Length of the Paillier modulus.", group="Encryption")
    test_key: bool = option(False, "Accept a key under 2048 bits: protects nothing.", group="Encryption")
    holders: int = option(5, "Key holders, the first n parties.", group="Encryption")
    threshold: int = option(3, "How many holders open a sum; more than half.", group="Encryption")
    min_ballots: int | None = option(
        None, "Holders open no sum of fewer ballots.", group="Encryption", shown="half of the parties"
    )
    randomness: RandomnessMode = option("half", "How ciphertexts are randomised.", group="Encryption")
    keys: Keys = option("dealer", "Who makes the key: a dealer, or the holders themselves.", group="Encryption")
    proofs: Proofs = option(
        "none",
        "What a ballot proves: nothing (parties follow the protocol), that its sender knows what is in it, or that its "
        "votes are valid too. With proofs, holders prove their partial decryptions.",
        group="Encryption",
    )
    workers: int = option(
        None, "Processes.", group="Machine", shown="up to 2", factory=lambda: min(2, os.cpu_count() or 1)
    )
    data_dir: str | None = option(None, "Where data sets are.", group="Machine", shown="PSEPHOS_DATA, or the cache")
    seed: int = option(0, "Drives splits and training; never keys or encryption.", group="Machine")
    simulate_noise: bool = option(False, "Draw the noise from the seed: repeatable, not private.", group="Machine")
    journal: str | None = option(
        None, "Commit each batch here; an interrupted run goes on from it. Holds secrets.", group="Machine"
    )
    engine: str = option("local", "Where parties are simulated: local, or dask (a cluster).", group="Machine")
    scheduler: str | None = option(None, "dask: the scheduler's address, HOST:PORT.", group="Machine")

    def check(self) -> None:
        """Raise InvalidParameter for numbers that no run can have, before anything is computed."""
        self.check_table()
        check_key_bits(self.key_bits, test_key=self.test_key)
        check_epsilon(self.epsilon)
        if self.lam is not None:
            check_positive(self.lam, "lambda")
        check_delta(self.delta)
        if self.workers < 1 or self.draws < 1:
            raise InvalidParameter(f"--workers and --draws are at least 1, not {self.workers} and {self.draws}")
        one_of("bound", self.bound, "certified", "paper")
        one_of("randomness", self.randomness, *RANDOMNESS_MODES)
        one_of("keys", self.keys, *get_args(Keys))
        one_of("proofs", self.proofs, *PROOFS)
        if self.proofs == "valid" and self.randomness == "full":
            raise InvalidParameter("ballots are proved valid in randomness modes half and short, not in full")
        one_of("scaling", self.scaling, None, "max-norm", "unit-rows")
        check_mechanism(self.noise, joint=self.joint)
        if not self.parties >= 2:
            raise InvalidParameter(f"a run has at least 2 parties, not {self.parties}")
        if not 1 <= self.threshold <= self.holders:
            raise InvalidParameter(f"the threshold ({self.threshold}) lies between 1 and the holders ({self.holders})")
        if self.holders > self.parties:
            raise InvalidParameter(
                f"key holders are some of the parties: {self.holders} of {self.parties} is too many; lower --holders"
            )
        if self.auxiliary is not None and self.auxiliary < 1:
            raise InvalidParameter(f"auxiliary samples are needed: --auxiliary is at least 1, not {self.auxiliary}")
        if self.min_ballots is not None and not 2 <= self.min_ballots <= self.parties:
            raise InvalidParameter(
                f"the minimum number of ballots lies between 2 and the parties, not {self.min_ballots}"
            )

    @property
    def joint(self) -> bool:
        """Whether the parties add the noise."""
        return False

    @property
    def noise(self) -> MechanismName:
        """The mechanism: the spherical Laplace by default, the discrete Laplace where parties add the noise."""
        return self.mechanism or ("discrete-laplace" if self.joint else "spherical-laplace")

    @property
    def private_auxiliary(self) -> bool:
        """Whether an auxiliary sample is private too, so that nothing may be learned on them."""
        return False

    @property
    def local_learners(self) -> tuple[str, ...]:
        """Names of local classifiers, dealt to the parties in turn."""
        return ("logistic",)

    @property
    def vector_proofs(self) -> Proofs:
        """What a ballot that holds no votes proves."""
        return "none" if self.proofs == "none" else "knowledge"

    @property
    def rows(self) -> str:
        """How rows get into the unit ball: each to norm 1, or as the papers do where lambda is the papers'.

        Predictions do not depend on a row's length; but parties that train on rows of norm 1 vote better.
        """
        if self.private_auxiliary:
            return "unit-rows"
        return self.scaling or ("unit-rows" if self.lam is None else str(self.scaler().scaling))

    def scaler(self) -> PublicScaler:
        """The unfitted scaler that the data is run with by default."""
        return default_scaler("your own" if self.data is not None else self.dataset)

    @property
    def local_lam(self) -> float:
        """lambda of the parties' own classifiers, and of everything without noise."""
        return HAMM_LAMBDA if self.lam is None else self.lam

    @property
    def request(self) -> Request:
        """What every method is asked for."""
        return Request(self.epsilon, self.delta, self.noise, self.lam, self.bound, self.private_auxiliary)

    @property
    def noise_coins(self) -> Randomness:
        """Where the curator's noise comes from."""
        return SimulationRandomness(self.seed, "noise") if self.simulate_noise else SYSTEM


Options = TypeVar("Options", bound=SumOptions)


def settled(options: Options) -> Options:
    """`options`, checked, with as many parties as a table of one's own names; raises as `OwnTable` and `check` do."""
    if options.data is not None and options.party is not None:
        options = replace(options, parties=len(OwnTable(options).owners))
    options.check()
    return options


def one_of(name: str, chosen: str | None, *known: str | None) -> None:
    """Raise InvalidParameter for a choice that is none."""
    if chosen not in known:
        raise InvalidParameter(f"{name} is one of {', '.join(filter(None, known))}, not {chosen!r}")


# -- the parties


@dataclass(frozen=True)
class Population:
    """The simulated parties on one data set.

    Attributes:
        dealt: who holds what.
        scaler: public, for rows of the data set.
        auxiliary, test: float64 (N, d) and (T, d), scaled.
        parameters: every party's ridge classifier, float64 (M, d), or (M, K, d) for several classes. A secret.
        voters: what each party votes with. A secret.
        options: of the run.
    """

    dealt: Split
    scaler: Any
    auxiliary: Array = field(repr=False)
    test: Array = field(repr=False)
    parameters: Array = field(repr=False)
    voters: Sequence[Voter] = field(repr=False)
    options: SumOptions

    @property
    def classes(self) -> int:
        """K."""
        return len(self.dealt.dataset.classes)

    def rows(self) -> list[tuple[Array, NDArray[np.int64]]]:
        """Every party's own samples, scaled, and their labels. Secrets."""
        X, y, sizes = self.dealt.private()
        ends = np.cumsum(sizes)[:-1]
        return list(zip(np.split(_transformed(self.scaler, X), ends), np.split(y, ends), strict=True))

    def counts(self, X: Array) -> NDArray[np.int64]:
        """Votes per row of X and class, int64 (len(X), K), in the clear: for the simulation to know."""
        if self.options.local_learners == ("logistic",):
            blocks: Iterable[Any] = (block for _, block in votes_in_blocks(self.parameters, X))
        else:
            blocks = (voter.predict_votes(X)[None] for voter in self.voters)
        return count_votes(blocks, len(X), self.classes)

    def accuracy(self, w: Array) -> float:
        """Of a linear classifier on the test set."""
        return float(np.mean(LinearVoter(w).predict_votes(self.test) == self.dealt.y_test))

    def references(self, loss: str) -> tuple[dict[str, Accuracy], dict[str, int]]:
        """batch, indiv and ensemble, and on how many rows they were trained or measured.

        batch is one classifier of all parties' rows in one place, or of a random part of them; indiv the mean accuracy
        of one party's classifier, ensemble that of their majority (ties as eq. 6).
        """
        data = self.dealt.dataset
        if not len(self.test):
            raise InvalidParameter("no rows are left to measure on: leave --held-out out")
        rows = np.random.default_rng(self.options.seed).permutation(np.concatenate(self.dealt.parties))[:BATCH_ROWS]
        labels = one_hot(data.y_train[rows], self.classes)
        scaled = _transformed(self.scaler, data.X_train[rows])
        pooled = minimise(scaled, labels, self.options.local_lam, loss_named(loss, self.classes))
        voted = min(len(self.test), max(1, ENSEMBLE_VOTES // len(self.voters)))
        chosen = np.random.default_rng(self.options.seed).permutation(len(self.test))[:voted]
        y = self.dealt.y_test[chosen]
        counts = self.counts(self.test[chosen])
        right = int(counts[np.arange(voted), y].sum())
        found = {
            "batch": Accuracy(self.accuracy(pooled.w)),
            "indiv": Accuracy(right / (len(self.voters) * voted)),
            "ensemble": Accuracy(float(np.mean(majority(counts) == y))),
        }
        return found, {"batch": len(rows), "ensemble": voted}


def populate(options: SumOptions, progress: Progress) -> Population:
    """Deal the data, scale it by what is public, and train every party's classifiers.

    Raises DataSetMissingError and what else loading and dealing raise.
    """
    dealt = _deal(options)
    # Learned on the auxiliary samples, which are public; where they are not, nothing may be learned on them.
    scaler = PublicScaler() if options.private_auxiliary else options.scaler()
    scaler.set_params(scaling=options.rows).fit(dealt.X_auxiliary)
    public_rows, test = scaler.transform(dealt.X_auxiliary), _transformed(scaler, dealt.X_test)
    check_auxiliary(public_rows)
    parameters, voters = _train(options, dealt, scaler, progress)
    return Population(dealt, scaler, public_rows, test, parameters, voters, options)


def _deal(options: SumOptions) -> Split:
    if options.data is not None:
        return OwnTable(options).deal(options.parties, options.seed)
    data = load(options.dataset, options.data_dir)
    samples, auxiliary = options.samples_per_party, options.auxiliary
    if options.dataset == "kdd99" and samples is None and auxiliary is None:
        # Hamm 2016, section 6.2, where that many are there.
        size, public = KDD99_SPLIT
        if options.parties * size + public <= len(data.y_train):
            samples, auxiliary = size, public
    return split(data, options.parties, options.seed, samples_per_party=samples, auxiliary=auxiliary)


def _transformed(scaler: Any, X: Any) -> Array:
    """The rows of X scaled, some at a time: scaling makes several copies of what it is given."""
    if not X.shape[0]:
        return np.empty((0, len(scaler.get_feature_names_out())))
    blocks = [scaler.transform(X[at : at + TRAIN_ROWS]) for at in range(0, X.shape[0], TRAIN_ROWS)]
    return np.concatenate(blocks)


def _train(options: SumOptions, dealt: Split, scaler: Any, progress: Progress) -> tuple[Array, Sequence[Voter]]:
    """Every party's ridge parameters (for avg), and the classifier that it votes with."""
    done, classes, learners = (
        progress.phase("train", options.parties),
        len(dealt.dataset.classes),
        options.local_learners,
    )
    parameters: list[Array] = []
    voters: list[Voter] = []
    step = max(1, TRAIN_ROWS // int(dealt.sizes.max()))
    for first in range(0, options.parties, step):
        X, y, sizes = dealt.private(first, first + step)
        X = scaler.transform(X)
        trained = train_parties(X, y, sizes, classes=classes, lam=options.local_lam)
        parameters.append(trained)
        if learners == ("logistic",):
            voters += [LinearVoter(w) for w in trained]
            done(len(sizes))
            continue
        edges = np.concatenate([[0], np.cumsum(sizes)])
        tasks = (
            delayed(_fit_one)(learners[number % len(learners)], X[start:stop], y[start:stop], classes, options, number)
            for number, (start, stop) in enumerate(pairwise(edges), start=first)
        )
        for voter in Parallel(n_jobs=options.workers, return_as="generator", batch_size="auto")(tasks):
            voters.append(voter)
            done(1)
    return np.concatenate(parameters), voters


def _fit_one(
    learner: str, X: Array, y: NDArray[np.int64], classes: int, options: SumOptions, number: int
) -> LocalClassifier:
    ridge = options.local_lam if learner == "logistic" else None
    return make_learner(learner, classes=classes, seed=options.seed + number, lam=ridge).fit(X, y)


# -- the run


class Sums:
    """One run: its parties and keys, and what its sums and releases came to, as an outcome tells it."""

    def __init__(
        self,
        options: SumOptions,
        *,
        transcript: Transcript | None = None,
        progress: Progress | None = None,
        roles: Mapping[str, Callable[[Role], Role]] | None = None,
        journal: Journal | None = None,
    ) -> None:
        """Deal, train and hold the key ceremony. Raises the named errors of what cannot be run."""
        self.options = options
        self.progress: Progress = Quiet() if progress is None else progress
        self.seconds: dict[str, float] = {}
        self._done: list[EncryptedSum] = []
        self._transcript = Transcript() if transcript is None else transcript
        self._roles, self._journal = dict(roles or {}), journal
        self._engine = make_engine(options.engine, workers=options.workers, scheduler=options.scheduler)
        with self.timed("train"):  # before the keys: it is what can be refused, and a ceremony takes minutes
            self.population = populate(options, self.progress)
        made = self.progress.phase("make the key", 1)
        with self.timed("keygen"):
            self.ceremony = self._hold() if journal is None else journal.ceremony(self._hold)
        made(1)

    def _hold(self) -> Ceremony:
        options = self.options
        return hold_ceremony(
            options.parties,
            key_bits=options.key_bits,
            holders=options.holders,
            threshold=options.threshold,
            test_key=options.test_key,
            keys=options.keys,
        )

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Notes how long something takes."""
        begun = time.perf_counter()
        yield
        self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - begun

    def sum(self, round_: Round, contribution: Contribution, phase: str) -> EncryptedSum:
        """One encrypted sum, as the run was asked to take it."""
        conditions = Conditions(
            self.options.randomness,
            self._engine,
            self._journal,
            self._transcript,
            self.progress.phase(phase, self.options.parties),
            self._roles,
        )
        done = simulate_sum(round_, self.ceremony, contribution, conditions)
        self._done.append(done)
        for name, taken in done.seconds.items():
            self.seconds[name] = self.seconds.get(name, 0.0) + taken
        return done

    def salt(self) -> bytes:
        """A salt for private auxiliary samples, none for public ones: the board then commits to them and confirms no
        guess. The journal keeps it."""
        if not self.options.private_auxiliary:
            return b""
        kept = None if self._journal is None else self._journal.result("auxiliary salt")
        salt = SYSTEM.draw(32) if kept is None else bytes.fromhex(kept)
        if self._journal is not None:
            self._journal.keep_result("auxiliary salt", salt.hex())
        return salt

    def released(self, methods: Mapping[str, Method]) -> dict[str, Accuracy]:
        """Every method without noise, and its private releases on average."""
        found, options = {}, self.options
        done, noise = self.progress.phase("release", options.draws * len(methods)), options.noise_coins
        for name, method in methods.items():
            scores = []
            for _ in range(options.draws):
                scores.append(self.population.accuracy(method.draw(noise)))
                done(1)
            spread = float(np.std(scores, ddof=1)) if options.draws > 1 else None
            found[name] = Accuracy(self.population.accuracy(method.nonprivate()), float(np.mean(scores)), spread)
        return found

    def outcome(self, methods: Mapping[str, Method], accuracy: dict[str, Accuracy]) -> dict[str, Any]:
        """The fields that all outcomes of encrypted sums have."""
        options, first, population = self.options, self._done[0], self.population
        return {
            "dataset": population.dealt.dataset.name,
            "parties": options.parties,
            "features": population.auxiliary.shape[1],
            "test": len(population.test),
            "epsilon": options.epsilon,
            "delta": options.delta if options.noise == "gaussian" else 0.0,
            "key_bits": self.ceremony.threshold_key.key.bits,
            "accuracy": accuracy,
            "noise_source": "simulation" if options.simulate_noise else "system",
            "seed": options.seed,
            "options": {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(options).items()},
            "peak_memory_mb": round(max(done.peak_memory_mb for done in self._done), 1),
            "seconds": {phase: round(taken, 3) for phase, taken in self.seconds.items()},
            "ballots": first.opened.ballots,
            "auxiliary": len(population.auxiliary),
            "mechanism": options.noise,
            "scaling": options.rows,
            "lam": options.local_lam,
            "randomness": options.randomness,
            "holders": options.holders,
            "threshold": options.threshold,
            "min_ballots": first.round.minimum_ballots,
            "keys": options.keys,
            "proofs": options.proofs,
            "slots_per_plaintext": first.round.plan.slots_per_plaintext,
            "ciphertexts_per_ballot": first.round.plan.ciphertexts,
            "bytes_per_ballot": first.ballot_bytes,
            "tally_equals_plaintext": all(done.equals_plaintext for done in self._done),
            "privacy": {name: _ledger_entry(method) for name, method in methods.items()},
            "composed": _composed(methods, options.draws),
            "draws": options.draws,
            "continued_from": sum(done.continued_from for done in self._done),
        }


def _ledger_entry(method: Method) -> Release:
    event, bound = method.event, method.sensitivity
    chosen = dict(method.chosen)
    return Release(
        chosen.pop("mechanism"),
        event.epsilon,
        event.delta,
        event.unit,
        bound.value,
        bound.norm,
        bound.source,
        chosen=chosen,
    )


def _composed(methods: Mapping[str, Method], draws: int) -> Composed:
    """What all the private accuracies printed cost together: whoever chooses one after looking pays for all."""
    events = [method.event for method in methods.values() for _ in range(draws)]
    return Composed(len(events), *shown_together(events))


_NOT_IDENTITY = ("workers", "engine", "scheduler", "journal", "draws", "data_dir", "curves")


def journal_of(options: SumOptions) -> Any:
    """The journal that the options name, a context manager of None without one; raises JournalError."""
    if options.journal is None:
        return nullcontext()
    identity = {name: value for name, value in asdict(options).items() if name not in _NOT_IDENTITY}
    return Journal(options.journal, {"run": type(options).__name__, **identity})
