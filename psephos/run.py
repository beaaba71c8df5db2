"""The main job (`psephos run`): local training, encrypted counts, private classifiers, and what they are worth.

The five algorithms of Hamm 2016, section 6, on one split: batch (all data in one place), indiv (each party alone), vote
(Algorithm 1), soft (Algorithm 2) and avg (parameter averaging). vote and soft come from one encrypted tally of the
parties' votes, avg from an encrypted sum of their parameters.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from curator import sensitivity as bounds
from curator.averaging import average_of
from curator.erm import check_positive, minimise
from curator.labels import alpha, majority, one_hot
from curator.losses import loss_named
from curator.release import Bound, Unreleased, erm_sensitivity, perturb
from curator.sensitivity import Sensitivity
from parties.learners import LEARNERS, LocalClassifier, make_learner
from parties.party import Voter
from parties.training import train_parties, votes, votes_in_blocks
from protocol.encryption import RANDOMNESS_MODES, RandomnessMode
from protocol.errors import InvalidParameter
from protocol.fixed_point import FixedPoint, project
from protocol.keys import DEFAULT_KEY_BITS
from protocol.packing import PackingPlan
from protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from protocol.rounds import Round
from protocol.transcript import Transcript
from protocol.votes import VoteLayout, auxiliary_digest, vote_round
from psephos.ceremony import Ceremony, hold_ceremony
from psephos.datasets import Dataset, load
from psephos.encrypted_sum import EncryptedSum, VectorContribution, VoteContribution, run_encrypted_sum
from psephos.preprocessing import default_scaler
from psephos.splits import Split, split

__all__ = ["LinearVoter", "RunOptions", "run_tally"]

FRACTION_BITS = 24
"""Of the fixed point that parameters travel in: 2^-24 is far below what any classifier feels."""

KDD99_SPLIT = (22, 43_000)

TRAIN_ROWS = 50_000
"""Private rows that are scaled and trained on at a time, so that memory does not grow with the number of parties."""

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
    epsilon: float = 1.0
    lam: float = 1e-4
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

    def check(self) -> None:
        """Raise InvalidParameter for numbers that no run can have, before anything is computed."""
        check_positive(self.epsilon, "epsilon")
        check_positive(self.lam, "lambda")
        if self.workers < 1 or self.draws < 1:
            raise InvalidParameter("workers and draws are at least 1")
        for name, chosen, known in (
            ("loss", self.loss, ("logistic", "huber")),
            ("bound", self.bound, ("certified", "paper")),
            ("randomness", self.randomness, RANDOMNESS_MODES),
        ):
            if chosen not in known:
                raise InvalidParameter(f"{name} is one of {', '.join(known)}, not {chosen!r}")
        unknown = [name for name in self.learners if name not in LEARNERS]
        if unknown or not self.learners:
            raise InvalidParameter(f"learners are one or more of {', '.join(LEARNERS)}, not {unknown or 'none'}")
        if not self.parties >= 2:
            raise InvalidParameter(f"a run has at least 2 parties, not {self.parties}")
        if not 1 <= self.threshold <= self.holders:
            raise InvalidParameter(f"the threshold ({self.threshold}) lies between 1 and the holders ({self.holders})")
        if self.holders > self.parties:
            raise InvalidParameter(f"key holders are some of the parties: {self.holders} of {self.parties} is too many")
        if self.min_ballots is not None and not 2 <= self.min_ballots <= self.parties:
            raise InvalidParameter(
                f"the minimum number of ballots lies between 2 and the parties, not {self.min_ballots}"
            )


@dataclass(frozen=True)
class LinearVoter:
    """A linear classifier w as a party votes with it: shape (d,) for two classes, (K, d) for more."""

    w: Array = field(repr=False)

    def predict_votes(self, X: Array) -> NDArray[np.integer]:
        """Class indices, shape (N,)."""
        return np.asarray(votes(self.w[None], X)[0])


class Stage:
    """Tells how far a long run is. The base class says nothing; the command's own draws bars."""

    def phase(self, name: str, total: int) -> Callable[[int], object]:
        """A phase of `total` steps begins; the result is called with the number of steps done."""
        return lambda done: None


def run_tally(
    options: RunOptions, *, transcript: Transcript | None = None, stage: Stage | None = None
) -> dict[str, Any]:
    """Run it and return what `psephos run --json` prints.

    Raises the named errors of `protocol.errors` for anything that cannot be run.
    """
    options.check()
    stage = Stage() if stage is None else stage
    transcript = Transcript() if transcript is None else transcript
    seconds: dict[str, float] = {}
    data = load(options.dataset, options.data_dir)
    classes = len(data.classes)
    loss = loss_named(options.loss, classes)
    dealt = _deal(options, data)
    scaler = default_scaler(options.dataset).fit(dealt.X_auxiliary)
    auxiliary, test = scaler.transform(dealt.X_auxiliary), scaler.transform(dealt.X_test)

    begun = time.perf_counter()
    ceremony = hold_ceremony(
        options.parties,
        key_bits=options.key_bits,
        holders=options.holders,
        threshold=options.threshold,
        test_key=options.test_key,
    )
    seconds["keygen"] = time.perf_counter() - begun

    begun = time.perf_counter()
    parameters, voters = _train(options, dealt, scaler, classes, stage)
    seconds["train"] = time.perf_counter() - begun

    counted, plan = _count_votes(options, ceremony, auxiliary, voters, classes, transcript, stage)
    counts = VoteLayout(len(auxiliary), classes).decode(counted.opened.sums, counted.opened.ballots)
    summed, radius = _sum_parameters(options, ceremony, parameters, transcript, stage)
    for phase in ("encrypt", "aggregate", "decrypt"):
        seconds[phase] = counted.seconds[phase] + summed.seconds[phase]

    begun = time.perf_counter()
    M = counted.opened.ballots
    soft = minimise(auxiliary, alpha(counts), options.lam, loss)
    vote = minimise(auxiliary, one_hot(majority(counts), classes), options.lam, loss)
    fixed_point = FixedPoint(FRACTION_BITS)
    average = average_of(
        summed.opened.sums, summed.opened.ballots, radius, fixed_point, features=auxiliary.shape[1], classes=classes
    )
    X_private, y_private, _ = dealt.private()
    batch = minimise(scaler.transform(X_private), one_hot(y_private, classes), options.lam, loss)

    def erm(labels: Literal["soft", "majority"]) -> Sensitivity:
        return erm_sensitivity(
            labels,
            loss,
            options.lam,
            parties=M,
            classes=classes,
            features=auxiliary,
            bound=options.bound,
            protect_auxiliary=options.protect_auxiliary,
        )

    candidates: dict[str, tuple[Unreleased, Sensitivity]] = {
        "vote": (vote, erm("majority")),
        "soft": (soft, erm("soft")),
        "avg": (average, _average_sensitivity(options, radius, M, classes)),
    }
    noise: Randomness = SimulationRandomness(options.seed, "noise") if options.simulate_noise else SYSTEM
    accuracy: dict[str, Any] = {"batch": _accuracy(batch.w, test, dealt.y_test)}
    accuracy |= _ensemble_accuracy(options, parameters, voters, test, dealt.y_test, classes)
    sensitivity, sources = {}, {}
    for name, (classifier, bound) in candidates.items():
        releases = [perturb(classifier, bound, options.epsilon, randomness=noise) for _ in range(options.draws)]
        scores = [_accuracy(release.w, test, dealt.y_test) for release in releases]
        accuracy[name] = {"nonprivate": _accuracy(classifier.w, test, dealt.y_test), "private": float(np.mean(scores))}
        if options.draws > 1:
            accuracy[name]["private_std"] = float(np.std(scores, ddof=1))
        sensitivity[name], sources[name] = releases[0].sensitivity.value, releases[0].sensitivity.source
    seconds["fit"] = time.perf_counter() - begun

    return {
        "protocol": "tally",
        "dataset": options.dataset,
        "classes": classes,
        "features": auxiliary.shape[1],
        "parties": options.parties,
        "ballots": M,
        "auxiliary": len(auxiliary),
        "test": len(test),
        "epsilon": options.epsilon,
        "lam": options.lam,
        "loss": options.loss,
        "learners": list(options.learners),
        "key_bits": ceremony.threshold_key.key.bits,
        "holders": options.holders,
        "threshold": options.threshold,
        "min_ballots": counted.minimum_ballots,
        "randomness": options.randomness,
        "slots_per_plaintext": plan.slots_per_plaintext,
        "ciphertexts_per_ballot": plan.ciphertexts,
        "bytes_per_ballot": counted.ballot_bytes,
        "tally_equals_plaintext": counted.equals_plaintext and summed.equals_plaintext,
        "accuracy": accuracy,
        "sensitivity": sensitivity,
        "sensitivity_source": sources,
        "protect_auxiliary": options.protect_auxiliary,
        "draws": options.draws,
        "noise_source": "simulation" if options.simulate_noise else "system",
        "seed": options.seed,
        "workers": options.workers,
        "seconds": {phase: round(taken, 3) for phase, taken in seconds.items()},
        "peak_memory_mb": round(max(counted.peak_memory_mb, summed.peak_memory_mb), 1),
        "options": asdict(options),
    }


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
        trained = train_parties(X, y, sizes, classes=classes, lam=options.lam)
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
                options.lam,
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


def _count_votes(
    options: RunOptions,
    ceremony: Ceremony,
    auxiliary: Array,
    voters: Sequence[Voter],
    classes: int,
    transcript: Transcript,
    stage: Stage,
) -> tuple[EncryptedSum, PackingPlan]:
    round_ = vote_round(
        ceremony.threshold_key,
        ceremony.roster,
        auxiliary,
        classes,
        minimum_ballots=options.min_ballots,
        test_key=options.test_key,
    )
    counted = run_encrypted_sum(
        round_,
        ceremony,
        VoteContribution(voters, auxiliary, classes),
        mode=options.randomness,
        workers=options.workers,
        transcript=transcript,
        progress=stage.phase("cast and count votes", options.parties),
    )
    return counted, round_.plan


def _sum_parameters(
    options: RunOptions, ceremony: Ceremony, parameters: Array, transcript: Transcript, stage: Stage
) -> tuple[EncryptedSum, float]:
    """The encrypted sum of the parties' parameters, each projected on the public ball of radius R(lambda)."""
    classes = parameters.shape[1] if parameters.ndim == 3 else 2
    radius = bounds.radius(options.lam, classes)
    fixed_point = FixedPoint(FRACTION_BITS)
    vectors = np.array([fixed_point.encode(project(w, radius), radius) for w in parameters], dtype=np.int64)
    limit = fixed_point.limit(radius)
    round_ = Round.create(
        "parameters",
        ceremony.threshold_key,
        PackingPlan.for_key(
            ceremony.threshold_key.key,
            length=vectors.shape[1],
            addends=options.parties,
            minimum=-limit,
            maximum=limit,
        ),
        ceremony.roster,
        context=auxiliary_digest(np.array([radius])),
        minimum_ballots=options.min_ballots,
        test_key=options.test_key,
    )
    summed = run_encrypted_sum(
        round_,
        ceremony,
        VectorContribution("parameters", vectors),
        mode=options.randomness,
        workers=options.workers,
        transcript=transcript,
        progress=stage.phase("sum parameters", options.parties),
    )
    return summed, radius


def _average_sensitivity(options: RunOptions, radius: float, parties: int, classes: int) -> Sensitivity:
    if options.bound == "certified":
        return bounds.average(radius, parties)
    return (bounds.hamm_b4_binary if classes == 2 else bounds.hamm_b4)(options.lam, parties)


def _accuracy(w: Array, X: Array, y: NDArray[np.int64]) -> float:
    return float(np.mean(LinearVoter(w).predict_votes(X) == y))


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
    counts = np.zeros((rows, classes), dtype=np.int64)
    right = 0
    place = np.arange(rows)
    if options.learners == ("logistic",):
        blocks: Iterable[NDArray[np.integer]] = (block for _, block in votes_in_blocks(parameters, X))
    else:
        blocks = (voter.predict_votes(X)[None] for voter in voters)
    for block in blocks:
        right += int((block == y).sum())
        for party_votes in block:
            counts[place, party_votes] += 1
    return {
        "indiv": right / (len(voters) * rows),
        "ensemble": float(np.mean(majority(counts) == y)),
        "ensemble_test_rows": rows,
    }
