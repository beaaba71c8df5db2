"""Prediction of a run's cost before it starts (`psephos plan`): seconds by phase, bytes sent, memory.

Sizes are computed exactly from the message formats. Times are extrapolated from trial runs. A trial run executes the
run's own code with real keys on this machine, in as many processes as the run will use, for a few parties and a few of
the ciphertexts that each of them sends. The prediction adds up the time of one more batch of parties and of one more
ciphertext. Both are wall-clock times, so the load of other programs and the work of the main process beside its
workers are included.

Trial runs are repeated. The reported interval reaches from the smallest to the largest estimate, widened by 10 % on
either side. The key is an exception, since the search for its primes is random: its interval is the central 90 % of the
search's distribution. Local training, the curator's fits and the loading of a data set are not included.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, replace
from itertools import pairwise
from typing import Any, Literal, get_args

import gmpy2
import numpy as np
from gmpy2 import mpz

from psephos.curator.hamm.rules import HAMM_LAMBDA, averaging_radius
from psephos.curator.psgd.agreement import agree
from psephos.experiments.bench.clock import cpu_seconds
from psephos.options import option
from psephos.parties.gradients import LocalLoss
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.rounds import Proofs, Round
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.encryption import RandomnessMode, check_mode
from psephos.protocol.paillier.keys import DEFAULT_KEY_BITS, PublicKey, check_degree, check_key_bits
from psephos.protocol.paillier.packing import PackingPlan, best_degree
from psephos.protocol.psgd.series import Announcement
from psephos.protocol.signing import SigningKey
from psephos.protocol.wire import HEADER_BYTES
from psephos.results import PlanResult
from psephos.results.base import timed
from psephos.simulation.encrypted_sum import (
    BATCH,
    EncryptedSum,
    PartyFactory,
    RunConfig,
    peak_memory_mb,
    simulate_sum,
)
from psephos.simulation.engines import LocalEngine
from psephos.simulation.key_setup import KeySetup, setup_keys
from psephos.simulation.linear import LinearVoters
from psephos.simulation.psgd import PsgdOptions, descend
from psephos.specs.average import AverageSpec, VectorSpec
from psephos.specs.base import Participants, SumSpec, VectorFormat
from psephos.specs.tally import TallySpec

_REPETITIONS = 3
_SECONDS = 1.0
"""Most seconds for one batch of every worker in a trial run, and approximate seconds for all of its batches.

Longer vectors are extrapolated from their first ciphertexts."""
_MOST_BATCHES = 12
"""Most batches of one worker in a trial run."""
_TRIAL_STEPS, _TRIAL_PARTIES, _TRIAL_RECORDS = 4, 24, 8
"""Size of a trial descent: steps after the first, most parties, and records of each party."""
_MARGIN = 0.1
"""Relative margin by which the interval of the estimates is widened on either side."""
_KEYGEN_INTERVAL = (0.178, 2.372)
"""Bounds of the central 90 % interval of an Erlang(2) distribution, as multiples of its mean.

The key needs two primes; the time to find each is approximately exponential."""

_REQUEST = HEADER_BYTES + 32
_PARTIAL = HEADER_BYTES + 32 + 1
_COPIES = 4  # copies of a batch's ballots in memory: on the board, decoded, and as integers
_BYTES_PER_PARTY = 1200  # keys, roster and voter


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """Options of a run to predict: a sum of votes, of linear classifiers' parameters, or of gradients at each step."""

    protocol: Literal["tally", "average", "psgd"] = option(
        "tally", "tally (votes), average (parameters) or psgd (a descent, all steps)."
    )
    parties: int = option(MISSING, "Number of data owners, M.")
    samples: int | None = option(None, "Auxiliary samples, N, that a tally votes on.", shown="required for a tally")
    classes: int = option(2, "Number of classes, K.")
    features: int = option(100, "Number of features, d.")
    steps: int = option(200, "Number of steps of psgd, T.")
    key_bits: int = option(DEFAULT_KEY_BITS, "Length of the Paillier modulus.", group="Encryption")
    degree: int | None = option(
        None,
        "Degree of the key (Damgard-Jurik), 1 to 4.",
        group="Encryption",
        shown="the one that the run would choose",
    )
    test_key: bool = option(False, "Accept a key under 2048 bits: protects nothing.", group="Encryption")
    randomness: RandomnessMode = option("half", "Length of the encryption's exponents.", group="Encryption")
    proofs: Proofs = option("none", "What ballots prove: none, knowledge or, for votes, valid.", group="Encryption")
    holders: int = option(5, "Number of key holders.", group="Encryption")
    threshold: int = option(3, "Number of holders that open a sum.", group="Encryption")
    workers: int = option(
        help="Number of processes on this machine.", factory=lambda: min(2, os.cpu_count() or 1), group="Machine"
    )

    def check(self) -> None:
        """Check the options.

        Raises:
            InvalidParameter: an option is out of range, or the protocol does not support it.
        """
        if self.protocol not in ("tally", "average", "psgd"):
            raise InvalidParameter(f"protocol is one of tally, average, psgd, not {self.protocol!r}")
        if not self.parties >= 2 or not 1 <= self.threshold <= self.holders <= self.parties:
            raise InvalidParameter(
                "a run has at least 2 parties and 1 <= threshold <= holders <= parties, not "
                f"{self.parties}, {self.threshold} and {self.holders}"
            )
        if min(self.workers, self.features, self.steps) < 1 or self.classes < 2:
            raise InvalidParameter("workers, features and steps are at least 1, classes at least 2")
        if self.protocol == "tally" and (self.samples is None or self.samples < 1):
            raise InvalidParameter("a tally is about auxiliary samples: --samples N, at least 1")
        if self.protocol == "psgd" and (self.classes != 2 or self.degree not in (None, 1) or self.proofs == "valid"):
            raise InvalidParameter(
                "psgd is for two classes and has keys of degree 1; what its proofs of validity cost is not predicted"
            )
        if self.proofs not in get_args(Proofs):
            raise InvalidParameter(f"proofs is one of {', '.join(get_args(Proofs))}, not {self.proofs!r}")
        if self.proofs == "valid" and (self.protocol == "average" or self.randomness == "full"):
            raise InvalidParameter(
                "what proofs of validity cost is predicted of votes only, in randomness modes half and short"
            )
        check_key_bits(self.key_bits, test_key=self.test_key)
        check_degree(self.degree or 1)

    @property
    def entries(self) -> VectorFormat:
        """The length and range of the vector that a party sends; for psgd, at each step."""
        if self.protocol == "tally":
            return VectorFormat((self.samples or 0) * (self.classes - 1), 0, 1)
        radius = averaging_radius(HAMM_LAMBDA, self.classes)
        return AverageSpec(self.features, self.classes, radius, HAMM_LAMBDA).entries

    def packing(self, key: PublicKey, length: int) -> PackingPlan:
        """Return the packing of the first `length` entries of a party's vector under `key`."""
        _, low, high = self.entries
        return PackingPlan.for_key(key, length=length, addends=self.parties, minimum=low, maximum=high)

    @property
    def key_degree(self) -> int:
        """Degree of the key: `degree`, or where that is None the degree that the run would choose."""
        if self.protocol == "psgd":
            return 1
        length, low, high = self.entries
        best = best_degree(self.key_bits, length=length, addends=self.parties, minimum=low, maximum=high)
        return self.degree or best


def plan(options: PlanOptions) -> PlanResult:
    """Predict the time, traffic and memory of a run.

    The trial runs take 10 to 20 seconds, and one or two minutes for long ballots with proofs.

    Raises:
        InvalidParameter: an option is out of range, or the protocol does not support it.
        WeakKeyError: the key is shorter than 2048 bits, and `test_key` is not set.
    """
    options.check()
    start = time.perf_counter()
    trial_parties = min(options.parties, _MOST_BATCHES * BATCH * options.workers)
    ceremony = setup_keys(
        max(trial_parties, options.holders),
        key_bits=options.key_bits,
        degree=options.key_degree,
        holders=options.holders,
        threshold=options.threshold,
        test_key=options.test_key,
    )
    check_mode(ceremony.threshold_key.key, options.randomness)
    estimate = _estimate_descent(options, ceremony) if options.protocol == "psgd" else _estimate_sum(options, ceremony)
    keygen = _keygen_seconds(ceremony.threshold_key.key.bits)
    least, most = (keygen * factor for factor in _KEYGEN_INTERVAL)
    signing = options.parties * cpu_seconds(lambda: SigningKey.generate().verification_key)
    phases = {"keygen": (least + signing, keygen + signing, most + signing), **estimate.phases}
    phases["total"] = tuple(map(sum, zip(*phases.values(), strict=True)))
    shortest, seconds, longest = (
        {phase: round(interval[place], 3) for phase, interval in phases.items()} for place in range(3)
    )
    length = options.entries[0]
    return PlanResult(
        protocol=options.protocol,
        parties=options.parties,
        auxiliary=options.samples or 0,
        classes=options.classes,
        features=options.features,
        steps=options.steps if options.protocol == "psgd" else 1,
        key_bits=options.key_bits,
        degree=options.key_degree,
        randomness=options.randomness,
        proofs=options.proofs,
        workers=options.workers,
        holders=options.holders,
        threshold=options.threshold,
        slots_per_plaintext=estimate.packing.slots_per_plaintext,
        ciphertexts_per_ballot=estimate.packing.ciphertexts,
        phases=timed(seconds),
        seconds_at_least=shortest,
        seconds_at_most=longest,
        cores=round(estimate.cores, 2),
        bytes=estimate.bytes,
        bits_per_count=round(8 * estimate.bytes["ballot"] / length, 3),
        floor_bits=math.ceil(math.log2(options.parties * (estimate.packing.maximum - estimate.packing.minimum) + 1)),
        memory_mb=round(estimate.memory_mb, 1),
        calibration_seconds=round(time.perf_counter() - start, 2),
    )


Range = tuple[float, ...]
"""An interval of estimates: least, median, most."""


@dataclass(frozen=True)
class _Estimate:
    """Estimates for the whole run from its trial runs.

    Attributes:
        packing: packing of a party's vector.
        phases: seconds of each phase.
        bytes: sizes in bytes by name, as in `PlanResult.bytes`.
        memory_mb: peak memory of all processes, in megabytes.
        cores: mean number of cores that the processes of the trial runs got.
    """

    packing: PackingPlan
    phases: dict[str, Range]
    bytes: dict[str, int]
    memory_mb: float
    cores: float


def _interval(estimates: Sequence[float], factor: float = 1.0) -> Range:
    """Return the interval of repeated estimates, widened by `_MARGIN` and multiplied by `factor`."""
    least, most = min(estimates) * (1 - _MARGIN), max(estimates) * (1 + _MARGIN)
    return factor * least, factor * statistics.median(estimates), factor * most


# -- encrypted sums, in batches


def _estimate_sum(options: PlanOptions, ceremony: KeySetup) -> _Estimate:
    """Estimate an encrypted sum from trial runs.

    A repetition has up to three trial runs: one batch for every worker at a short length of the vector, the same at a
    longer one, and several batches at the short length.
    """
    key, workers = ceremony.threshold_key.key, options.workers
    packing = options.packing(key, options.entries[0])
    C, slots = packing.ciphertexts, packing.slots_per_plaintext
    engine, expected = LocalEngine(workers), -(-options.parties * C // workers)

    def trial_run(parties: int, ciphertexts: int) -> EncryptedSum:
        length = min(options.entries[0], max(options.classes - 1, ciphertexts * slots))
        round_, factory = _trial_sum(options, ceremony, length)
        config = RunConfig(options.randomness, engine, present=range(parties), expected=expected)
        return simulate_sum(round_, ceremony, factory, config)

    one_batch = min(options.parties, BATCH * workers)
    first = _counting(trial_run(one_batch, 1))
    per_batch = _counting(trial_run(one_batch, 1))
    startup = max(0.0, first - per_batch)  # start of the workers, tables of powers
    if options.proofs == "none":
        short, long = _lengths(C, per_batch)
    else:
        short, long = _proved_lengths(C, lambda ciphertexts: _counting(trial_run(one_batch, ciphertexts)))
    batches = int(_SECONDS / _counting(trial_run(one_batch, short)))
    several = min(options.parties, min(_MOST_BATCHES, max(3, batches)) * one_batch)
    rounds = _rounds(options.parties, workers)
    counting, opening, cores = [], [], []
    for _ in range(_REPETITIONS):
        small = trial_run(one_batch, short)
        large = small if long == short else trial_run(one_batch, long)
        many = small if several == one_batch else trial_run(several, short)
        per_round = (_counting(many) - _counting(small)) / max(1, _rounds(several, workers) - 1)
        extra_ciphertexts = large.round.plan.ciphertexts - small.round.plan.ciphertexts
        per_ciphertext, per_opening = (
            max(0.0, seconds(large) - seconds(small)) / max(1, extra_ciphertexts) for seconds in (_counting, _opening)
        )
        rest = C - small.round.plan.ciphertexts
        counting.append(_counting(small) + (rounds - 1) * max(0.0, per_round) + rounds * rest * per_ciphertext)
        opening.append(_opening(small) + rest * per_opening)
        cores += [run.processor_seconds / _counting(run) for run in (many, large)]
    encrypt_share = large.seconds["encrypt"] / _counting(large)
    ballot = Ballot.encoded_length(replace(large.round, plan=packing))
    extra = BATCH * (_COPIES * ballot * (C - large.round.plan.ciphertexts) / C + 8 * options.entries[0]) / 1e6
    memory = large.peak_memory_mb + workers * extra + options.parties * _BYTES_PER_PARTY / 1e6
    memory += 16 * (options.samples or 0) * options.features / 1e6
    least, likely, most = _interval(counting)
    answer = _PARTIAL + C * key.ciphertext_bytes
    return _Estimate(
        packing,
        {
            "encrypt": tuple(encrypt_share * (seconds + startup) for seconds in (least, likely, most)),
            "aggregate": tuple((1 - encrypt_share) * (seconds + startup) for seconds in (least, likely, most)),
            "decrypt": _interval(opening),
        },
        {
            "ballot": ballot,
            "ballots": options.parties * ballot,
            "opening": options.threshold * (_REQUEST + (options.parties + 7) // 8 + answer),
            "board_per_observer": options.parties * ballot + HEADER_BYTES,  # the curator's message that closes the vote
        },
        memory,
        statistics.median(cores),
    )


def _counting(run: EncryptedSum) -> float:
    """Return the seconds until all ballots are cast and added up."""
    return run.seconds["encrypt"] + run.seconds["aggregate"]


def _opening(run: EncryptedSum) -> float:
    """Return the seconds in which the sum is opened."""
    return run.seconds["decrypt"]


def _lengths(ciphertexts: int, per_ciphertext: float) -> tuple[int, int]:
    """Choose two lengths of the vector for trial runs without proofs.

    From 16 ciphertexts on, both are multiples of eight, since eight ciphertexts are computed side by side.

    Args:
        ciphertexts: number of ciphertexts of a whole ballot.
        per_ciphertext: seconds of one batch per ciphertext.

    Returns:
        The shorter and the longer length, in ciphertexts. They differ unless the longer one is the whole ballot.
    """
    long = min(ciphertexts, max(2, int(_SECONDS / per_ciphertext)))
    long = long if long < 16 else long // 16 * 16
    return (long if long == ciphertexts else long // 2), long


def _proved_lengths(ciphertexts: int, batch_seconds: Callable[[int], float]) -> tuple[int, int]:
    """Choose two lengths of the vector for trial runs with proofs.

    The proofs of a ballot are checked together, so the cost per ciphertext falls with their number. The length is
    therefore doubled until a batch takes `_SECONDS`, or until it is the whole ballot.

    Args:
        ciphertexts: number of ciphertexts of a whole ballot.
        batch_seconds: measures one batch of ballots with the given number of ciphertexts.

    Returns:
        The shorter and the longer length, in ciphertexts.
    """
    long = min(2, ciphertexts)
    while long < ciphertexts and batch_seconds(long) < _SECONDS:
        long = min(2 * long, ciphertexts)
    return max(1, long // 2), long


def _rounds(parties: int, workers: int) -> float:
    """Return the number of batches that a worker computes one after the other.

    For fewer than four batches per worker it is rounded up, because some workers are idle during the last ones.
    """
    batches = -(-parties // BATCH)
    return -(-batches // workers) if batches < 4 * workers else batches / workers


def _trial_sum(options: PlanOptions, ceremony: KeySetup, length: int) -> tuple[Round, PartyFactory]:
    """Return the round and the parties of a trial run with the first `length` entries of a vector.

    The parties' data are random. The plaintexts have the slots of the whole run.
    """
    generator, parties = np.random.default_rng(0), len(ceremony.roster)
    spec: SumSpec
    data: Any
    if options.protocol == "tally":
        samples, classes = length // (options.classes - 1), options.classes
        shape = (options.features,) if classes == 2 else (classes, options.features)
        auxiliary = AuxiliarySet(generator.normal(size=(samples, options.features)) / options.features)
        spec, data = TallySpec(auxiliary, classes), LinearVoters(generator.normal(size=(parties, *shape)))
    else:
        entries = options.entries._replace(length=length)
        spec = VectorSpec(entries, bytes(32))
        data = generator.integers(entries.minimum, entries.maximum, size=(parties, length), endpoint=True)
    key = ceremony.threshold_key
    round_ = spec.terms(key, Participants(ceremony.roster, 2, options.test_key, options.proofs))
    return replace(round_, plan=options.packing(key.key, spec.entries.length)), PartyFactory(spec, data)


# -- descents


class _EnoughError(Exception):
    """Raised to stop a trial run after its measured steps."""


def _estimate_descent(options: PlanOptions, ceremony: KeySetup) -> _Estimate:
    """Estimate a private descent from trial runs of its first steps with two numbers of parties."""
    descent = PsgdOptions(
        parties=options.parties, steps=options.steps, key_bits=options.key_bits, test_key=options.test_key,
        randomness=options.randomness, proofs="none" if options.proofs == "none" else "knowledge",
        holders=options.holders, threshold=options.threshold,
    )  # fmt: skip
    agreement = agree(descent, [_TRIAL_RECORDS] * options.parties, options.features)
    packing = agreement.series.plan(ceremony.threshold_key.key, options.steps)
    many = min(len(ceremony.roster), _TRIAL_PARTIES)
    few = max(options.holders, many // 3)
    processor_start, start = time.process_time(), time.perf_counter()
    preparation, steps = [], []
    for _ in range(_REPETITIONS):
        small = _step_seconds(descent, options.features, ceremony, few)
        large = _step_seconds(descent, options.features, ceremony, many) if many > few else small
        per_party = [(b - a) / max(1, many - few) for a, b in zip(small, large, strict=True)]
        first_step, step = (a + (options.parties - few) * max(0.0, b) for a, b in zip(small, per_party, strict=True))
        preparation.append(max(0.0, first_step - step))
        steps.append(step)
    cores = (time.process_time() - processor_start) / (time.perf_counter() - start)
    terms = descent.terms(agreement, ceremony)
    ballot = Ballot.encoded_length(terms.round(Announcement.create(terms, 1, (0.0,) * options.features)))
    return _Estimate(
        packing,
        {"prepare": _interval(preparation), "steps": _interval(steps, options.steps)},
        {"ballot": ballot, "ballots": options.parties * options.steps * ballot},
        peak_memory_mb(),
        cores,
    )


def _step_seconds(descent: PsgdOptions, features: int, ceremony: KeySetup, parties: int) -> tuple[float, float]:
    """Measure a trial descent of the first `parties` on random records.

    Returns:
        Seconds of the first step, which includes the preparation, and the median of those after it.
    """
    X = np.random.default_rng(0).normal(size=(parties, _TRIAL_RECORDS, features))
    X /= np.linalg.norm(X, axis=2)[:, :, None]
    losses = [LocalLoss(rows, np.where(rows[:, 0] > 0, 1, -1)) for rows in X]
    present = replace(ceremony, roster=ceremony.roster[:parties], signing_keys=ceremony.signing_keys[:parties])
    descent = replace(descent, parties=parties)
    ends = [time.perf_counter()]

    def record_time(what: str, done: int, total: int) -> None:
        if done:
            ends.append(time.perf_counter())
        if done > _TRIAL_STEPS:
            raise _EnoughError

    with suppress(_EnoughError):
        descend(descent, losses, agree(descent, [_TRIAL_RECORDS] * parties, features), present, progress=record_time)
    seconds = [end - start for start, end in pairwise(ends)]
    return seconds[0], statistics.median(seconds[1:] or seconds)


def _keygen_seconds(key_bits: int) -> float:
    """Return the expected seconds to generate a key of `key_bits`.

    The key has two primes p. Each is searched among random candidates; those for which p or (p - 1)/2 has a factor
    below 2^16 are sieved out before the primality test.
    """
    half = mpz(gmpy2.mpz_urandomb(gmpy2.random_state(0), key_bits // 2) | 1 << (key_bits // 2 - 1) | 1)
    primality = cpu_seconds(lambda: gmpy2.powmod(3, half - 1, half))
    primorial = gmpy2.primorial(2**16)
    sieve = cpu_seconds(lambda: gmpy2.gcd(half * half, primorial))
    log = math.log(2) * key_bits / 2
    primes = [q for q in range(3, 2**16, 2) if gmpy2.is_prime(q)]
    passing = math.prod(1 - 2 / q for q in primes)
    prime = math.prod(q / (q - 1) for q in primes) * 2 / log
    return 2 * ((primality + sieve / passing) / prime + 20 * primality)
