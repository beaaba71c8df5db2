"""The main job (`psephos run`): local training, encrypted counts, private classifiers, and what they are worth.

The five algorithms of Hamm 2016, section 6, on one split: batch (all data in one place), indiv (each party alone), vote
(Algorithm 1), soft (Algorithm 2) and avg (parameter averaging). vote and soft come from one encrypted tally of the
parties' votes, avg from an encrypted sum of their parameters.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from psephos.curator.checks import check_positive
from psephos.curator.hamm import sensitivity as bounds
from psephos.curator.hamm.averaging import Average, average_of
from psephos.curator.hamm.erm import check_auxiliary, minimise
from psephos.curator.hamm.labels import majority, one_hot
from psephos.curator.hamm.release import Bound
from psephos.curator.hamm.rules import HAMM_LAMBDA, averaging_radius
from psephos.curator.hamm.statistic import MechanismName, fit_statistic, plan_statistic, release_total
from psephos.curator.losses import Loss, loss_named
from psephos.data.datasets import Dataset, load
from psephos.data.preprocessing import PublicScaler, default_scaler
from psephos.data.splits import Split, split
from psephos.parties.learners import LEARNERS, LocalClassifier, make_learner
from psephos.parties.noise import contributors
from psephos.parties.old_party import Voter
from psephos.parties.training import train_parties, votes_in_blocks
from psephos.protocol.encrypted_sum.fixed_point import FixedPoint, project
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.statistic_grid import StatisticGrid
from psephos.protocol.encrypted_sum.votes import VoteLayout, vote_round
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.encryption import RANDOMNESS_MODES, RandomnessMode
from psephos.protocol.paillier.keys import DEFAULT_KEY_BITS
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.privacy.accounting import compose
from psephos.protocol.privacy.mechanisms import check_delta, check_epsilon
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from psephos.protocol.transcript import Transcript
from psephos.simulate.ceremony import Ceremony, hold_ceremony
from psephos.simulate.encrypted_sum import (
    Contribution,
    EncryptedSum,
    VectorContribution,
    VoteContribution,
    run_encrypted_sum,
)
from psephos.simulate.engines import Engine, make_engine
from psephos.simulate.journal import Journal
from psephos.simulate.linear import LinearVoter, count_votes
from psephos.simulate.methods import (
    Method,
    Request,
    average_method,
    check_mechanism,
    erm_fit,
    erm_method,
    pate_method,
    statistic_choices,
    statistic_method,
    statistic_nonprivate,
)
from psephos.simulate.statistic_round import StatisticContribution, shares_of, statistic_round

__all__ = ["LinearVoter", "RunOptions", "run_tally"]

FRACTION_BITS = 24
"""Of the fixed point that parameters travel in: 2^-24 is far below what any classifier feels."""

KDD99_SPLIT = (22, 43_000)

TRAIN_ROWS = 50_000
"""Private rows that are scaled and trained on at a time, so that memory does not grow with the number of parties."""

BATCH_ROWS = 100_000
"""batch is trained on so many of the parties' rows at most, at random, which is reported."""

ENSEMBLE_VOTES = 400_000_000
"""Above so many test votes, indiv and ensemble are measured on a random part of the test set, which is reported."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RunOptions:
    """What `psephos run` was asked for; every field is an option of the command."""

    dataset: str = "breast-cancer"
    parties: int = 25
    samples_per_party: int | None = None
    auxiliary: int | None = None
    scaling: Literal["max-norm", "unit-rows"] | None = None
    epsilon: float = 1.0
    lam: float | None = None
    delta: float = 1e-6
    reveal: Literal["alpha", "statistic"] = "alpha"
    mechanism: MechanismName | None = None
    colluders: int = 0
    dropouts: int = 0
    loss: Literal["logistic", "huber"] = "logistic"
    learners: tuple[str, ...] = ("logistic",)
    key_bits: int = DEFAULT_KEY_BITS
    test_key: bool = False
    holders: int = 5
    threshold: int = 3
    min_ballots: int | None = None
    randomness: RandomnessMode = "half"
    workers: int = field(default_factory=lambda: min(2, os.cpu_count() or 1))
    bound: Bound = "certified"
    protect_auxiliary: bool = False
    draws: int = 1
    data_dir: str | None = None
    seed: int = 0
    simulate_noise: bool = False
    journal: str | None = None
    engine: str = "local"
    scheduler: str | None = None

    def check(self) -> None:
        """Raise InvalidParameter for numbers that no run can have, before anything is computed."""
        check_epsilon(self.epsilon)
        if self.lam is not None:
            check_positive(self.lam, "lambda")
        check_delta(self.delta)
        if self.workers < 1 or self.draws < 1:
            raise InvalidParameter(f"--workers and --draws are at least 1, not {self.workers} and {self.draws}")
        for name, chosen, known in (
            ("loss", self.loss, ("logistic", "huber")),
            ("bound", self.bound, ("certified", "paper")),
            ("randomness", self.randomness, RANDOMNESS_MODES),
            ("reveal", self.reveal, ("alpha", "statistic")),
            ("scaling", self.scaling, (None, "max-norm", "unit-rows")),
        ):
            if chosen not in known:
                raise InvalidParameter(f"{name} is one of {', '.join(filter(None, known))}, not {chosen!r}")
        check_mechanism(self.noise, joint=self.reveal == "statistic")
        if self.reveal == "statistic":
            self._check_joint()
        elif self.colluders or self.dropouts:
            raise InvalidParameter(
                "--colluders and --dropouts size the shares of joint noise: use them with --reveal statistic"
            )
        unknown = [name for name in self.learners if name not in LEARNERS]
        if unknown or not self.learners:
            raise InvalidParameter(
                f"learners are one or more of {', '.join(LEARNERS)}, not {', '.join(unknown) or 'none'}"
            )
        if not self.parties >= 2:
            raise InvalidParameter(f"a run has at least 2 parties, not {self.parties}")
        if not 1 <= self.threshold <= self.holders:
            raise InvalidParameter(f"the threshold ({self.threshold}) lies between 1 and the holders ({self.holders})")
        if self.holders > self.parties:
            raise InvalidParameter(
                f"key holders are some of the parties: {self.holders} of {self.parties} is too many; lower holders"
            )
        if self.auxiliary is not None and self.auxiliary < 1:
            raise InvalidParameter(
                f"a tally needs auxiliary samples to vote on: --auxiliary is at least 1, not {self.auxiliary}"
            )
        if self.min_ballots is not None and not 2 <= self.min_ballots <= self.parties:
            raise InvalidParameter(
                f"the minimum number of ballots lies between 2 and the parties, not {self.min_ballots}"
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
    def noise(self) -> MechanismName:
        """The mechanism: the spherical Laplace by default, the discrete Laplace where parties add the noise."""
        return self.mechanism or ("discrete-laplace" if self.reveal == "statistic" else "spherical-laplace")

    @property
    def rows(self) -> str:
        """How rows get into the unit ball: each to norm 1, or as the papers do where lambda is the papers'.

        Predictions do not depend on a row's length; but parties that train on rows of norm 1 vote better.
        """
        if self.protect_auxiliary:
            return "unit-rows"
        return self.scaling or ("unit-rows" if self.lam is None else str(default_scaler(self.dataset).scaling))

    @property
    def local_lam(self) -> float:
        """lambda of the parties' own classifiers, and of everything without noise."""
        return HAMM_LAMBDA if self.lam is None else self.lam


class Stage:
    """Tells how far a long run is. The base class says nothing; the command's own draws bars."""

    def phase(self, name: str, total: int) -> Callable[[int], object]:
        """A phase of `total` steps begins; the result is called with the number of steps done."""
        return lambda done: None


def run_tally(
    options: RunOptions,
    *,
    transcript: Transcript | None = None,
    stage: Stage | None = None,
    for_report: bool = False,
) -> dict[str, Any]:
    """Run it and return what `psephos run --json` prints.

    `for_report` adds what only a report shows, both measured by the simulation and neither fit for release: `curves`,
    accuracy against epsilon for each method, and `alpha`, how unanimous the parties were.

    Raises the named errors of `psephos.protocol.errors` for anything that cannot be run.
    """
    options.check()
    stage = Stage() if stage is None else stage
    transcript = Transcript() if transcript is None else transcript
    data = load(options.dataset, options.data_dir)
    classes = len(data.classes)
    loss = loss_named(options.loss, classes)
    dealt = _deal(options, data)
    # Learned on the auxiliary samples, which are public; where they are not, nothing may be learned on them.
    scaler = PublicScaler() if options.protect_auxiliary else default_scaler(options.dataset)
    scaler.set_params(scaling=options.rows).fit(dealt.X_auxiliary)
    auxiliary, test = scaler.transform(dealt.X_auxiliary), _transformed(scaler, dealt.X_test)
    check_auxiliary(auxiliary)

    with ExitStack() as opened:
        journal = None
        if options.journal is not None:
            journal = opened.enter_context(Journal(options.journal, _identity(options)))
        return _run(options, dealt, scaler, auxiliary, test, loss, journal, transcript, stage, for_report)


def _transformed(scaler: Any, X: Any) -> Array:
    """The rows of X scaled, some at a time: scaling makes several copies of what it is given."""
    blocks = [scaler.transform(X[at : at + TRAIN_ROWS]) for at in range(0, X.shape[0], TRAIN_ROWS)]
    return np.concatenate(blocks)


def _identity(options: RunOptions) -> dict[str, Any]:
    """What decides a run's result, for its journal."""
    return {name: value for name, value in asdict(options).items() if name not in _NOT_IDENTITY}


_NOT_IDENTITY = ("workers", "engine", "scheduler", "journal", "draws", "data_dir")


def _run(
    options: RunOptions,
    dealt: Split,
    scaler: Any,
    auxiliary: Array,
    test: Array,
    loss: Loss,
    journal: Journal | None,
    transcript: Transcript,
    stage: Stage,
    for_report: bool,
) -> dict[str, Any]:
    classes = len(dealt.dataset.classes)
    seconds: dict[str, float] = {}
    engine = make_engine(options.engine, workers=options.workers, scheduler=options.scheduler)

    def hold() -> Ceremony:
        return hold_ceremony(
            options.parties,
            key_bits=options.key_bits,
            holders=options.holders,
            threshold=options.threshold,
            test_key=options.test_key,
        )

    begun = time.perf_counter()
    ceremony = hold() if journal is None else journal.ceremony(hold)
    seconds["keygen"] = time.perf_counter() - begun

    begun = time.perf_counter()
    parameters, voters = _train(options, dealt, scaler, classes, stage)
    seconds["train"] = time.perf_counter() - begun

    house = _House(options, ceremony, auxiliary, parameters, voters, classes, transcript, stage, engine, journal)
    noise: Randomness = SimulationRandomness(options.seed, "noise") if options.simulate_noise else SYSTEM
    if options.reveal == "statistic":
        sums, plan, methods = _reveal_statistic(house)
        methods_at, counts = None, None
    else:
        sums, plan, counts, methods_at = _reveal_alpha(house, loss)
        methods = methods_at(options.epsilon)
    for phase in ("encrypt", "aggregate", "decrypt"):
        seconds[phase] = sum(done.seconds[phase] for done in sums)

    begun = time.perf_counter()
    accuracy: dict[str, Any] = _batch_accuracy(options, dealt, scaler, test, loss)
    accuracy |= _ensemble_accuracy(options, parameters, voters, test, dealt.y_test, classes)
    released = stage.phase("release", options.draws * len(methods))
    for name, method in methods.items():
        accuracy[name] = _method_accuracy(method, options.draws, noise, test, dealt.y_test, released)
    seconds["fit"] = time.perf_counter() - begun
    extras: dict[str, Any] = {}
    if for_report and methods_at is not None and counts is not None:
        from psephos.outcomes import Alpha

        extras["curves"] = _curves(methods_at, noise, test, dealt.y_test, stage)
        extras["alpha"] = asdict(Alpha.of(counts))

    return {
        "protocol": "tally" if options.reveal == "alpha" else "statistic",
        "reveal": options.reveal,
        "dataset": options.dataset,
        "classes": classes,
        "features": auxiliary.shape[1],
        "parties": options.parties,
        "ballots": sums[0].opened.ballots,
        "auxiliary": len(auxiliary),
        "test": len(test),
        "epsilon": options.epsilon,
        "delta": options.delta if options.noise == "gaussian" else 0.0,
        "mechanism": options.noise,
        "lam": options.local_lam,
        "lam_by_rule": options.lam is None,
        "scaling": options.rows,
        "loss": options.loss,
        "learners": list(options.learners),
        "key_bits": ceremony.threshold_key.key.bits,
        "holders": options.holders,
        "threshold": options.threshold,
        "min_ballots": sums[0].minimum_ballots,
        "colluders": options.colluders,
        "dropouts": options.dropouts,
        "randomness": options.randomness,
        "slots_per_plaintext": plan.slots_per_plaintext,
        "ciphertexts_per_ballot": plan.ciphertexts,
        "bytes_per_ballot": sums[0].ballot_bytes,
        "tally_equals_plaintext": all(done.equals_plaintext for done in sums),
        "accuracy": accuracy,
        "sensitivity": {name: method.sensitivity.value for name, method in methods.items()},
        "privacy": {name: _privacy(method) for name, method in methods.items()},
        "composed": _composed(options, methods),
        "protect_auxiliary": options.protect_auxiliary,
        "draws": options.draws,
        "noise_source": "simulation" if options.simulate_noise else "system",
        "seed": options.seed,
        "workers": options.workers,
        "seconds": {phase: round(taken, 3) for phase, taken in seconds.items()},
        "continued_from": sum(done.continued_from for done in sums),
        "peak_memory_mb": round(max(done.peak_memory_mb for done in sums), 1),
        "options": asdict(options),
        **extras,
    }


CURVE_EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
CURVE_DRAWS = 10


def _curves(
    methods_at: MethodsAt, noise: Randomness, test: Array, labels: NDArray[np.int64], stage: Stage
) -> list[dict[str, Any]]:
    """Accuracy against epsilon, for the report: a simulation, since every point is a release of its own."""
    done = stage.phase("accuracy against epsilon", len(CURVE_EPSILONS))
    curves: dict[str, dict[str, Any]] = {}
    for epsilon in CURVE_EPSILONS:
        for name, method in methods_at(epsilon).items():
            drawn = [_accuracy(method.draw(noise), test, labels) for _ in range(CURVE_DRAWS)]
            curve = curves.setdefault(name, {"algorithm": name, "epsilon": [], "mean": [], "std": []})
            curve["epsilon"].append(epsilon)
            curve["mean"].append(float(np.mean(drawn)))
            curve["std"].append(float(np.std(drawn, ddof=1)))
        done(1)
    return list(curves.values())


@dataclass(frozen=True)
class _House:
    """What both ways of revealing start from."""

    options: RunOptions
    ceremony: Ceremony
    auxiliary: Array
    parameters: Array
    voters: Sequence[Voter]
    classes: int
    transcript: Transcript
    stage: Stage
    engine: Engine
    journal: Journal | None

    def sum(self, round_: Round, contribution: Contribution, phase: str) -> EncryptedSum:
        """One encrypted sum, as the run was asked to take it."""
        return run_encrypted_sum(
            round_,
            self.ceremony,
            contribution,
            mode=self.options.randomness,
            engine=self.engine,
            journal=self.journal,
            transcript=self.transcript,
            progress=self.stage.phase(phase, self.options.parties),
        )

    @property
    def request(self) -> Request:
        options = self.options
        return Request(
            options.epsilon, options.delta, options.noise, options.lam, options.bound, options.protect_auxiliary
        )


MethodsAt = Callable[[float], dict[str, Method]]


def _reveal_alpha(house: _House, loss: Loss) -> tuple[list[EncryptedSum], PackingPlan, NDArray[np.int64], MethodsAt]:
    """The curator learns the counts, and a separate sum of parameters; it adds the noise of every release."""
    options, auxiliary = house.options, house.auxiliary
    counted, plan = _count_votes(house)
    counts = VoteLayout(len(auxiliary), house.classes).decode(counted.opened.sums, counted.opened.ballots)
    summed, average = _sum_parameters(house)
    vote_fit, soft_fit = (erm_fit(labels, counts, auxiliary, loss) for labels in ("majority", "soft"))

    def methods_at(epsilon: float) -> dict[str, Method]:
        request = replace(house.request, epsilon=epsilon)
        methods = {
            "vote": erm_method("majority", counts, auxiliary, loss, request, vote_fit),
            "soft": erm_method("soft", counts, auxiliary, loss, request, soft_fit),
            "avg": average_method(average, options.local_lam, request),
        }
        if not options.protect_auxiliary:
            if options.loss == "logistic":
                methods["statistic"] = statistic_method(counts, auxiliary, request)
            methods["pate"] = pate_method(counts, auxiliary, request, options.seed)
        return methods

    return [counted, summed], plan, counts, methods_at


def _reveal_statistic(house: _House) -> tuple[list[EncryptedSum], PackingPlan, dict[str, Method]]:
    """The curator learns the private statistic and nothing before it: the parties add the noise in shares."""
    options = house.options
    seed = options.seed if options.simulate_noise else None
    plan = plan_statistic(
        house.auxiliary,
        house.classes,
        options.parties,
        epsilon=options.epsilon,
        delta=options.delta,
        mechanism=options.noise,
        joint=True,
    )
    assert isinstance(plan.grid, StatisticGrid)
    shares = shares_of(plan, colluders=options.colluders, dropouts=options.dropouts)
    least = max(2, options.parties - options.dropouts)
    round_ = statistic_round(
        house.ceremony, plan, shares, minimum_ballots=options.min_ballots or least, test_key=options.test_key
    )
    summed = house.sum(
        round_,
        StatisticContribution(house.voters, house.auxiliary, plan.grid, shares, simulation_seed=seed),
        "sum noisy statistics",
    )
    released = fit_statistic(release_total(plan, list(summed.opened.sums), ballots=summed.opened.ballots))
    method = Method(
        # Only a simulation can know the counts here, and only to say what the noise cost.
        lambda: statistic_nonprivate(_clear_counts(house), house.auxiliary, options.local_lam),
        lambda randomness: released,
        plan.sensitivity,
        plan.event,
        statistic_choices(plan, options.noise) | {"contributors": shares.contributors},
    )
    return [summed], round_.plan, {"statistic": method}


def _clear_counts(house: _House) -> NDArray[np.int64]:
    blocks = _vote_blocks(house.options, house.parameters, house.voters, house.auxiliary)
    return count_votes(blocks, len(house.auxiliary), house.classes)


def _vote_blocks(
    options: RunOptions, parameters: Array, voters: Sequence[Voter], X: Array
) -> Iterable[NDArray[np.integer]]:
    """The parties' votes on X, some parties at a time: (parties in the block, N)."""
    if options.learners == ("logistic",):
        return (block for _, block in votes_in_blocks(parameters, X))
    return (voter.predict_votes(X)[None] for voter in voters)


def _privacy(method: Method) -> dict[str, Any]:
    """The ledger's entry for one release."""
    event, bound = method.event, method.sensitivity
    return {
        "epsilon": event.epsilon,
        "delta": event.delta,
        "unit": event.unit,
        "sensitivity": bound.value,
        "norm": bound.norm,
        "source": bound.source,
        **method.chosen,
    }


def _composed(options: RunOptions, methods: dict[str, Method]) -> dict[str, float]:
    """What all the private accuracies printed cost together, had somebody released them all.

    Stated at the sum of the releases' deltas, and 2^-40 for the accountant.
    """
    events = [method.event for method in methods.values() for _ in range(options.draws)]
    delta = sum(event.delta for event in events) + 2.0**-40
    return {"releases": len(events), "epsilon": compose(events, delta), "delta": delta}


def _deal(options: RunOptions, data: Dataset) -> Split:
    """Hamm 2016, section 6. KDD-99 as in 6.2, 22 samples a party and 43,000 auxiliary, where that many are there."""
    samples, auxiliary = options.samples_per_party, options.auxiliary
    if options.dataset == "kdd99" and samples is None and auxiliary is None:
        size, public = KDD99_SPLIT
        if options.parties * size + public <= len(data.y_train):
            samples, auxiliary = size, public
    return split(data, options.parties, options.seed, samples_per_party=samples, auxiliary=auxiliary)


def _train(options: RunOptions, dealt: Split, scaler: Any, classes: int, stage: Stage) -> tuple[Array, Sequence[Voter]]:
    """Every party's ridge parameters (for avg), and the classifier that it votes with."""
    done = stage.phase("train", options.parties)
    parameters: list[Array] = []
    voters: list[Voter] = []
    step = max(1, TRAIN_ROWS // int(dealt.sizes.max()))
    for first in range(0, options.parties, step):
        X, y, sizes = dealt.private(first, first + step)
        X = scaler.transform(X)
        trained = train_parties(X, y, sizes, classes=classes, lam=options.local_lam)
        parameters.append(trained)
        if options.learners == ("logistic",):
            voters += [LinearVoter(w) for w in trained]
            done(len(sizes))
            continue
        edges = np.concatenate([[0], np.cumsum(sizes)])
        tasks = (
            delayed(_fit_one)(
                options.learners[(first + place) % len(options.learners)],
                X[start:stop],
                y[start:stop],
                classes,
                options.local_lam,
                options.seed + first + place,
            )
            for place, (start, stop) in enumerate(pairwise(edges))
        )
        for voter in Parallel(n_jobs=options.workers, return_as="generator", batch_size="auto")(tasks):
            voters.append(voter)
            done(1)
    return np.concatenate(parameters), voters


def _fit_one(learner: str, X: Array, y: NDArray[np.int64], classes: int, lam: float, seed: int) -> LocalClassifier:
    ridge = lam if learner == "logistic" else None
    return make_learner(learner, classes=classes, seed=seed, lam=ridge).fit(X, y)


def _count_votes(house: _House) -> tuple[EncryptedSum, PackingPlan]:
    options = house.options
    round_ = vote_round(
        house.ceremony.threshold_key,
        house.ceremony.roster,
        house.auxiliary,
        house.classes,
        minimum_ballots=options.min_ballots,
        test_key=options.test_key,
    )
    counted = house.sum(round_, VoteContribution(house.voters, house.auxiliary, house.classes), "cast and count votes")
    return counted, round_.plan


def _sum_parameters(house: _House) -> tuple[EncryptedSum, Average]:
    """The encrypted sum of the parties' parameters, each projected on a public ball before it is encoded.

    Its radius is R(lambda), which changes no exact minimiser, where the caller fixes lambda as the papers do, and a
    tenth of that by the public rule.
    """
    options, ceremony, parameters, classes = house.options, house.ceremony, house.parameters, house.classes
    lam = options.local_lam
    radius = averaging_radius(lam, classes) if options.lam is None else bounds.radius(lam, classes)
    fixed_point = FixedPoint(FRACTION_BITS)
    vectors = np.array([fixed_point.encode(project(w, radius), radius) for w in parameters], dtype=np.int64)
    limit = fixed_point.limit(radius)
    key = ceremony.threshold_key.key
    round_ = Round.create(
        "parameters",
        ceremony.threshold_key,
        PackingPlan.for_key(key, length=vectors.shape[1], addends=options.parties, minimum=-limit, maximum=limit),
        ceremony.roster,
        context=hashlib.sha256(f"psephos parameters {radius.hex()} {FRACTION_BITS}".encode()).digest(),
        minimum_ballots=options.min_ballots,
        test_key=options.test_key,
    )
    summed = house.sum(round_, VectorContribution("parameters", vectors), "sum parameters")
    average = average_of(
        summed.opened.sums,
        summed.opened.ballots,
        radius,
        fixed_point,
        features=house.auxiliary.shape[1],
        classes=classes,
    )
    return summed, average


def _accuracy(w: Array, X: Array, y: NDArray[np.int64]) -> float:
    return float(np.mean(LinearVoter(w).predict_votes(X) == y))


def _batch_accuracy(options: RunOptions, dealt: Split, scaler: Any, test: Array, loss: Loss) -> dict[str, Any]:
    """batch: one classifier of all parties' rows in one place, or of a random part of them."""
    data, generator = dealt.dataset, np.random.default_rng(options.seed)
    rows = generator.permutation(np.concatenate(dealt.parties))[:BATCH_ROWS]
    labels = one_hot(data.y_train[rows], len(data.classes))
    pooled = minimise(_transformed(scaler, data.X_train[rows]), labels, options.local_lam, loss)
    return {"batch": _accuracy(pooled.w, test, dealt.y_test), "batch_rows": len(rows)}


def _method_accuracy(
    method: Method,
    draws: int,
    noise: Randomness,
    test: Array,
    labels: NDArray[np.int64],
    released: Callable[[int], object],
) -> dict[str, float]:
    """One method without noise, and its private releases on average."""
    scores = []
    for _ in range(draws):
        scores.append(_accuracy(method.draw(noise), test, labels))
        released(1)
    found = {"nonprivate": _accuracy(method.nonprivate(), test, labels), "private": float(np.mean(scores))}
    if draws > 1:
        found["private_std"] = float(np.std(scores, ddof=1))
    return found


def _ensemble_accuracy(
    options: RunOptions,
    parameters: Array,
    voters: Sequence[Voter],
    test: Array,
    labels: NDArray[np.int64],
    classes: int,
) -> dict[str, float]:
    """indiv, the mean accuracy of one party's classifier, and ensemble, that of their majority (ties as eq. 6)."""
    rows = min(len(test), max(1, ENSEMBLE_VOTES // len(voters)))
    chosen = np.random.default_rng(options.seed).permutation(len(test))[:rows]
    X, y = test[chosen], labels[chosen]
    counts = count_votes(_vote_blocks(options, parameters, voters, X), rows, classes)
    right = int(counts[np.arange(rows), y].sum())
    return {
        "indiv": right / (len(voters) * rows),
        "ensemble": float(np.mean(majority(counts) == y)),
        "ensemble_test_rows": rows,
    }
