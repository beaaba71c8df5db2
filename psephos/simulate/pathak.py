"""Pathak, Rane and Raj (2010) from first message to last, every role in this machine (`psephos run --protocol pathak`).

`run_protocol` plays the protocol on data sets it is handed: it calls each role's rounds in order, carries the messages
(as bytes, past a transcript), and times the stages. `run_pathak` is the job behind the command: load, split, scale,
run, and measure the classifier.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.curator.pathak.bounds import party_level_epsilon, proved_epsilon
from psephos.curator.pathak.curator import PathakConsumer, PathakCurator
from psephos.data.datasets import load
from psephos.data.preprocessing import default_scaler
from psephos.data.splits import split
from psephos.parties.pathak import PathakParty
from psephos.parties.training import train_parties
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.keys import DEFAULT_KEY_BITS
from psephos.protocol.paillier.private_key import PrivateKey, generate_private_key
from psephos.protocol.pathak.dgk import DgkPrivateKey, generate_dgk_key
from psephos.protocol.pathak.messages import (
    CONSUMERS,
    CURATOR,
    KEYED_SIZE_BITS,
    Comparisons,
    Noise,
    Outgoing,
    Regulariser,
    Terms,
    Variant,
    role,
)
from psephos.protocol.privacy.mechanisms import choose_pitch
from psephos.protocol.randomness import SYSTEM, Randomness, SimulationRandomness
from psephos.protocol.transcript import BOARD, Transcript

__all__ = ["STAGES", "PathakKeys", "PathakOutcome", "make_terms", "run_pathak", "run_protocol"]

STAGES = ("agreement", "stage 1", "stage 2", "stage 3", "publication")
"""In order: the three of the paper's section 3, and what comes before and after them."""

Progress = Callable[[str, int, int], object]
"""(stage, steps done, steps in the stage)."""

Intercept = Callable[[Outgoing], Sequence[bytes]]
"""What arrives instead of a message: nothing, something else, or it twice. For tests of what can go wrong."""

Records = tuple[Any, NDArray[np.integer]]


def make_terms(
    *,
    parties: int,
    features: int,
    classes: tuple[str, str] = ("0", "1"),
    lam: float,
    epsilon: float,
    variant: Variant = "repaired",
    noise: Noise = "laplace",
    comparisons: Comparisons = "tournament",
    regulariser: Regulariser = "lambda",
    tolerance: float = 1e-9,
    smallest_size: int = 16,
    largest_size: int = 1 << 20,
    excluded: int = 1,
    randomness: Randomness = SYSTEM,
) -> Terms:
    """Terms with a fresh nonce, and the grid that `largest_size` calls for
    (`psephos.protocol.privacy.mechanisms.choose_pitch`).

    Raises InvalidParameter for anything that no run can have.
    """
    for name, value in (("lambda", lam), ("epsilon", epsilon), ("the solver's tolerance", tolerance)):
        if not (math.isfinite(value) and value > 0):
            raise InvalidParameter(f"{name} must be positive and finite, not {value}")
    if regulariser not in ("lambda", "lambda/2") or largest_size < 1 or features < 1:
        raise InvalidParameter("regulariser is 'lambda' or 'lambda/2'; sizes and features are positive")
    mu = 2 * lam if regulariser == "lambda" else lam
    pitch = choose_pitch(2 / (largest_size * mu), features)
    return Terms(
        variant,
        noise,
        comparisons,
        regulariser,
        classes,
        parties,
        features,
        float(lam),
        float(epsilon),
        float(tolerance),
        smallest_size,
        largest_size,
        excluded,
        min(0, math.frexp(pitch)[1] - 1),
        randomness.draw(16).hex(),
    )


@dataclass(frozen=True)
class PathakKeys:
    """All private keys of a run: Charlie's two and the parties' one. Made ahead, to be used by the roles apart."""

    curator: PrivateKey
    comparison: DgkPrivateKey
    group: PrivateKey

    @classmethod
    def generate(cls, bits: int = DEFAULT_KEY_BITS, *, test_key: bool = False) -> PathakKeys:
        """Fresh keys of one size; raises WeakKeyError under 2048 bits unless `test_key`."""
        return cls(
            generate_private_key(bits, test_key=test_key),
            generate_dgk_key(bits, comparison_bits=KEYED_SIZE_BITS, test_key=test_key),
            generate_private_key(bits, test_key=test_key),
        )


@dataclass(frozen=True)
class PathakOutcome:
    """What a run of the protocol gave.

    Attributes:
        terms: what was agreed.
        parameters: w_s, float64 of shape (d,). Public.
        total: K w_s in integer units of the grid. Public.
        shares_equal_reference: whether `total` is exactly the sum of the parameters and the smallest party's noise
            (printed) or everybody's shares at its rung (repaired), computed in the clear.
        stages: seconds, bytes and messages of each stage; all roles together, one after the other.
        key_seconds: making the keys.
    """

    terms: Terms
    parameters: NDArray[np.float64] = field(repr=False)
    total: tuple[int, ...] = field(repr=False)
    shares_equal_reference: bool
    stages: dict[str, dict[str, float | int]]
    key_seconds: float


class _Stage:
    """Carries messages, counts and times them."""

    def __init__(self, transcript: Transcript, intercept: Intercept | None, progress: Progress | None) -> None:
        self.receivers: dict[int, Any] = {}
        self.stages: dict[str, dict[str, float | int]] = {
            name: {"seconds": 0.0, "bytes": 0, "messages": 0} for name in STAGES
        }
        self._transcript, self._intercept, self._progress = transcript, intercept, progress
        self._current = STAGES[0]
        self._done = self._steps = 0

    @contextmanager
    def stage(self, name: str, steps: int) -> Iterator[None]:
        self._current, self._done, self._steps = name, 0, steps
        begun = time.perf_counter()
        yield
        self.stages[name]["seconds"] += time.perf_counter() - begun

    def step(self, outgoing: Sequence[Outgoing]) -> None:
        """One round's messages on their way, in the order given."""
        for message in outgoing:
            entry = self.stages[self._current]
            receiver = BOARD if message.receiver == CONSUMERS else role(message.receiver)
            sent = self._transcript.send(self._current, role(message.sender), receiver, message.step.kind, message.data)
            entry["messages"] += 1
            entry["bytes"] += len(sent)
            for data in [sent] if self._intercept is None else self._intercept(message):
                self.receivers[message.receiver].receive(data)
        self._done += 1
        if self._progress is not None:
            self._progress(self._current, min(self._done, self._steps), self._steps)


def run_protocol(
    data: Sequence[Records],
    terms: Terms,
    *,
    party_terms: Sequence[Terms] | None = None,
    keys: PathakKeys | None = None,
    key_bits: int = DEFAULT_KEY_BITS,
    test_key: bool = False,
    noise_seed: int | None = None,
    transcript: Transcript | None = None,
    progress: Progress | None = None,
    intercept: Intercept | None = None,
) -> PathakOutcome:
    """All stages, with real cryptography.

    Args:
        data: (features, labels) of each of the K parties, rows of norm at most 1, labels 0 and 1.
        terms: what the curator proposes.
        party_terms: what each party was set up for, if not the same; the run stops where they differ.
        keys: made before; by default fresh ones of `key_bits` bits.
        test_key: accept keys under 2048 bits.
        noise_seed: draw the noise from this seed (a simulation that protects nobody) instead of the system.
        transcript: watches; one with secrets keeps every role's view.
        progress: called after every step.
        intercept: sees every message and says what arrives, for tests.

    Raises InvalidParameter when another number of parties brought data than the terms are for, and every named error of
    the roles: AgreementError, DataError, NormError, PartyVanishedError, UnexpectedMessageError, ShareRangeError,
    CiphertextError, WeakKeyError, ... Nothing is returned or published then.
    """
    if len(data) != terms.parties:
        raise InvalidParameter(f"the terms are for {terms.parties} parties and {len(data)} brought data")
    own_terms = [terms] * terms.parties if party_terms is None else list(party_terms)
    transcript = Transcript() if transcript is None else transcript
    numbers = range(1, terms.parties + 1)
    for number, (X, y) in zip(numbers, data, strict=True):
        transcript.give(role(number), "records", (X, y))
    # The data are checked and the classifiers trained before any key is made.
    parties = [
        PathakParty(
            number,
            X,
            y,
            own,
            key_bits=key_bits,
            test_key=test_key,
            randomness=transcript.coins(role(number)),
            noise_randomness=None if noise_seed is None else SimulationRandomness(noise_seed, "pathak noise", number),
        )
        for number, (X, y), own in zip(numbers, data, own_terms, strict=True)
    ]
    begun = time.perf_counter()
    keys = PathakKeys.generate(key_bits, test_key=test_key) if keys is None else keys
    parties[0].use_group_key(keys.group)
    key_seconds = time.perf_counter() - begun
    for name in ("curator", "comparison"):
        transcript.give(role(CURATOR), f"{name} key", getattr(keys, name))
    transcript.give(role(1), "group key", keys.group)
    curator = PathakCurator(
        terms, keys.curator, keys.comparison, test_key=test_key, randomness=transcript.coins(role(CURATOR))
    )
    consumer = PathakConsumer(terms)
    stage = _Stage(transcript, intercept, progress)
    stage.receivers = {CURATOR: curator, CONSUMERS: consumer, **{party.number: party for party in parties}}

    with stage.stage("agreement", 2):
        stage.step(curator.propose())
        stage.step(_all(party.accept_proposal for party in parties))
    with stage.stage("stage 1", 4 + _turns(terms)):
        stage.step(_all(party.share_size for party in parties))
        stage.step(_all(party.forward_share for party in parties))
        stage.step(curator.blind_and_permute())
        stage.step(_all(party.open_masked_share for party in parties))
        turn = 0
        while asked := curator.ask(turn):
            now = turn
            stage.step(asked)
            stage.step([message for party in parties for message in party.lend_share(now)])
            stage.step([message for party in parties for message in party.answer_questions(now)])
            curator.conclude(turn)
            turn += 1
    with stage.stage("stage 2", 4):
        stage.step(curator.select())
        stage.step(_all(party.vote_rung for party in parties))
        stage.step(_all(party.combine_rungs for party in parties))
        stage.step(_all(party.add_noise for party in parties))
    with stage.stage("stage 3", 2):
        stage.step(_all(party.mask_noise for party in parties))
        curator.unmask()
        stage.step([*curator.reshare(), *_all(party.reshare for party in parties)])
    with stage.stage("publication", 1):
        # Every share is computed before the first is published: who vanishes before that leaves nothing behind.
        stage.step([*curator.publish(), *_all(party.publish for party in parties)])
        parameters = consumer.open()
    return PathakOutcome(
        terms,
        parameters,
        tuple(consumer.total),
        _equals_reference(terms, parties, consumer.total),
        stage.stages,
        key_seconds,
    )


def _all(rounds: Iterator[Callable[[], list[Outgoing]]]) -> list[Outgoing]:
    return [message for round_ in rounds for message in round_()]


def _turns(terms: Terms) -> int:
    """Steps of the comparisons."""
    return 3 * (1 if terms.comparisons == "all-pairs" else (terms.parties - 1).bit_length())


def _equals_reference(terms: Terms, parties: Sequence[PathakParty], total: Sequence[int]) -> bool:
    """Whether the opened sum is the one computed in the clear; among equal sizes any may be the smallest."""
    clear = [party.clear_values() for party in parties]
    base = [sum(column) for column in zip(*(parameters for _, parameters, _ in clear), strict=True)]
    smallest = min(size for size, _, _ in clear)
    if terms.variant == "printed":
        candidates = [noise[0] for size, _, noise in clear if size == smallest]
    else:
        rung = terms.rung(smallest)
        candidates = [[sum(column) for column in zip(*(noise[rung] for _, _, noise in clear), strict=True)]]
    noise_found = [t - b for t, b in zip(total, base, strict=True)]
    return any(noise_found == candidate for candidate in candidates)


# -- the command's job


def run_pathak(
    *,
    dataset: str = "breast-cancer",
    parties: int = 5,
    samples_per_party: int | Sequence[int] | None = None,
    epsilon: float = 1.0,
    lam: float = 1e-3,
    variant: Variant = "repaired",
    noise: Noise = "laplace",
    comparisons: Comparisons = "tournament",
    regulariser: Regulariser = "lambda",
    excluded: int = 1,
    smallest_size: int = 16,
    largest_size: int = 1 << 20,
    key_bits: int = DEFAULT_KEY_BITS,
    test_key: bool = False,
    data_dir: str | None = None,
    seed: int = 0,
    simulate_noise: bool = False,
    transcript: Transcript | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """One run on one split of a two-class data set; returns what `psephos run --protocol pathak --json` prints.

    Features are scaled on the public rows of the split (`psephos.data.preprocessing`). Options as in `make_terms`.

    Raises InvalidParameter for options out of range and for a data set of more than two classes, DataSetMissingError
    and DataError as `psephos.data.datasets.load` does.
    """
    data = load(dataset, data_dir)
    if len(data.classes) != 2:
        raise InvalidParameter(f"Pathak's protocol is for two classes and {dataset} has {len(data.classes)}")
    # Checked with one feature first, so that bad options are refused before the data are touched.
    options = {
        "parties": parties,
        "classes": (data.classes[0], data.classes[1]),
        "lam": lam,
        "epsilon": epsilon,
        "variant": variant,
        "noise": noise,
        "comparisons": comparisons,
        "regulariser": regulariser,
        "excluded": excluded,
        "smallest_size": smallest_size,
        "largest_size": largest_size,
    }
    make_terms(features=1, **options)  # type: ignore[arg-type]
    dealt = split(data, parties, seed, samples_per_party=samples_per_party)
    scaler = default_scaler(dataset).fit(dealt.X_auxiliary)
    records = []
    for number in range(parties):
        X, y = dealt.party(number)
        records.append((scaler.transform(X), y))
    test = scaler.transform(dealt.X_test)
    terms = make_terms(features=test.shape[1], **options)  # type: ignore[arg-type]
    begun = time.perf_counter()
    outcome = run_protocol(
        records,
        terms,
        key_bits=key_bits,
        test_key=test_key,
        noise_seed=seed if simulate_noise else None,
        transcript=transcript,
        progress=progress,
    )
    total_seconds = time.perf_counter() - begun

    mu = terms.strong_convexity
    X_all, y_all = np.concatenate([X for X, _ in records]), np.concatenate([y for _, y in records])
    sizes = [len(y) for _, y in records]
    pooled = train_parties(X_all, y_all, [len(y_all)], classes=2, lam=mu, tolerance=terms.tolerance)[0]
    local = train_parties(X_all, y_all, sizes, classes=2, lam=mu, tolerance=terms.tolerance)

    def accuracy(w: NDArray[np.float64]) -> float:
        return float(np.mean(PathakConsumer.classify(w, test) == dealt.y_test))

    proved, delta = proved_epsilon(terms)
    return {
        "protocol": f"pathak-{variant}",
        "variant": variant,
        "noise": noise,
        "comparisons": comparisons,
        "regulariser": regulariser,
        "dataset": dataset,
        "features": terms.features,
        "parties": parties,
        "test": len(test),
        "epsilon": epsilon,
        "epsilon_proved": proved,
        "delta": delta,
        "epsilon_proved_for": "one record, data set sizes fixed, against everybody but the smallest party"
        if variant == "printed"
        else f"one record, data set sizes fixed, against consumers and up to {excluded} of the parties together",
        "epsilon_party_level": party_level_epsilon(terms, min(sizes)),
        "lam": lam,
        "key_bits": key_bits,
        "shares_equal_reference": outcome.shares_equal_reference,
        "accuracy": {
            "private": accuracy(outcome.parameters),
            "average": accuracy(local.mean(axis=0)),
            "pooled": accuracy(pooled),
            "majority": float(max(np.mean(dealt.y_test), 1 - np.mean(dealt.y_test))),
            "indiv": float(np.mean([accuracy(w) for w in local])),
        },
        "stages": {
            name: {**entry, "seconds": round(float(entry["seconds"]), 3)} for name, entry in outcome.stages.items()
        },
        "seconds": {"keygen": round(outcome.key_seconds, 3), "protocol": round(total_seconds, 3)},
        "noise_source": "simulation" if simulate_noise else "system",
        "seed": seed,
    }
