"""What a run will take, before it starts (`psephos plan`): seconds by phase, bytes on the wire, memory.

Sizes follow from the formats exactly. Times are rehearsed: the run's own code, with real keys, on this machine as it is
at the moment, in as many processes as the run will have, for a few parties and a few of the ciphertexts that each of
them sends. What a further batch of parties and a further ciphertext take, on the clock, says what all will; so what
other programs take of the cores, and what the main process does beside its workers, is in it. A rehearsal is repeated,
and the interval is the least and the most that came of it, a tenth wider on both sides; for the key, whose primes are
found by luck, it is where nine searches of ten end. Local training, fits and the loading of a data set are not in it.
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
from psephos.results import PlanOutcome
from psephos.simulation.ceremony import KeySetup, setup_keys
from psephos.simulation.encrypted_sum import (
    BATCH,
    EncryptedSum,
    PartyFactory,
    RunConfig,
    peak_memory_mb,
    simulate_sum,
)
from psephos.simulation.engines import LocalEngine
from psephos.simulation.linear import LinearVoters
from psephos.simulation.psgd import PsgdOptions, descend
from psephos.specs.average import AverageSpec, VectorSpec
from psephos.specs.base import Entries, Participants, SumSpec
from psephos.specs.tally import TallySpec

_REPETITIONS = 3
_SECONDS = 1.0
"""That a rehearsed batch of every worker may take (longer vectors are extrapolated from their first ciphertexts), and
about what several of them take together."""
_MOST_BATCHES = 12
"""Of a worker, in a rehearsal."""
_STEPS, _WALKERS, _RECORDS = 4, 24, 8
"""Of a rehearsed descent: steps besides the first, the most parties, and each one's records."""
_WIDER = 0.1
"""The interval's margin on either side."""
_NINE_IN_TEN = (0.178, 2.372)
"""Between these multiples of its mean the sum of two equal exponential times lies in nine cases of ten (Erlang 2)."""

_REQUEST = HEADER_BYTES + 32
_PARTIAL = HEADER_BYTES + 32 + 1
_COPIES = 4  # of a batch's ballots: on the board, taken apart, as integers
_BYTES_PER_PARTY = 1200  # keys, roster and voter


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """A run, to be predicted: of votes or of parameters of linear classifiers, or of gradients."""

    protocol: Literal["tally", "average", "psgd"] = option(
        "tally", "tally (votes), average (parameters) or psgd (a descent, all steps)."
    )
    parties: int = option(MISSING, "Data owners, M.")
    samples: int | None = option(None, "Auxiliary samples, N, that a tally votes on.", shown="asked for by a tally")
    classes: int = option(2, "Classes, K.")
    features: int = option(100, "Features, d.")
    steps: int = option(200, "Steps of psgd, T.")
    key_bits: int = option(DEFAULT_KEY_BITS, "Length of the Paillier modulus.", group="Encryption")
    degree: int | None = option(None, "Of the key, 1 to 4.", group="Encryption", shown="as the run takes it")
    test_key: bool = option(False, "Accept a key under 2048 bits: protects nothing.", group="Encryption")
    randomness: RandomnessMode = option("half", "Length of the encryption's exponents.", group="Encryption")
    proofs: Proofs = option("none", "What ballots prove: none, knowledge or valid.", group="Encryption")
    holders: int = option(5, "Key holders.", group="Encryption")
    threshold: int = option(3, "How many of them open a sum.", group="Encryption")
    workers: int = option(
        help="Processes of this machine.", factory=lambda: min(2, os.cpu_count() or 1), group="Machine"
    )

    def check(self) -> None:
        """Raise InvalidParameter for what no run can have."""
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
            raise InvalidParameter("psgd is for two classes, has keys of degree 1, and its ballots hold no votes")
        if self.proofs not in get_args(Proofs):
            raise InvalidParameter(f"proofs is one of {', '.join(get_args(Proofs))}, not {self.proofs!r}")
        if self.proofs == "valid" and (self.protocol == "average" or self.randomness == "full"):
            raise InvalidParameter("only votes are proved to be valid, in randomness modes half and short")
        check_key_bits(self.key_bits, test_key=self.test_key)
        check_degree(self.degree or 1)

    @property
    def entries(self) -> Entries:
        """The numbers that a party sends (each step)."""
        if self.protocol == "tally":
            return Entries((self.samples or 0) * (self.classes - 1), 0, 1)
        radius = averaging_radius(HAMM_LAMBDA, self.classes)
        return AverageSpec(self.features, self.classes, radius, HAMM_LAMBDA).entries

    def packing(self, key: PublicKey, length: int) -> PackingPlan:
        """Of the first `length` of the numbers."""
        _, low, high = self.entries
        return PackingPlan.for_key(key, length=length, addends=self.parties, minimum=low, maximum=high)

    @property
    def key_degree(self) -> int:
        """Of the key that the run takes."""
        if self.protocol == "psgd":
            return 1
        length, low, high = self.entries
        best = best_degree(self.key_bits, length=length, addends=self.parties, minimum=low, maximum=high)
        return self.degree or best


def plan(options: PlanOptions) -> PlanOutcome:
    """Predict the run, after a rehearsal of ten to twenty seconds; one or two minutes for long ballots with proofs.

    Raises InvalidParameter, WeakKeyError.
    """
    options.check()
    begun = time.perf_counter()
    rehearsed = min(options.parties, _MOST_BATCHES * BATCH * options.workers)
    ceremony = setup_keys(
        max(rehearsed, options.holders),
        key_bits=options.key_bits,
        degree=options.key_degree,
        holders=options.holders,
        threshold=options.threshold,
        test_key=options.test_key,
    )
    check_mode(ceremony.threshold_key.key, options.randomness)
    found = _descent(options, ceremony) if options.protocol == "psgd" else _sum(options, ceremony)
    keygen = _keygen_seconds(ceremony.threshold_key.key.bits)
    least, most = (keygen * factor for factor in _NINE_IN_TEN)
    signing = options.parties * cpu_seconds(lambda: SigningKey.generate().verification_key)
    phases = {"keygen": (least + signing, keygen + signing, most + signing), **found.phases}
    phases["total"] = tuple(map(sum, zip(*phases.values(), strict=True)))
    shortest, seconds, longest = ({phase: round(of[place], 3) for phase, of in phases.items()} for place in range(3))
    length = options.entries[0]
    return PlanOutcome(
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
        slots_per_plaintext=found.packing.slots_per_plaintext,
        ciphertexts_per_ballot=found.packing.ciphertexts,
        seconds={**seconds},
        seconds_at_least=shortest,
        seconds_at_most=longest,
        cores=round(found.cores, 2),
        bytes=found.bytes,
        bits_per_count=round(8 * found.bytes["ballot"] / length, 3),
        floor_bits=math.ceil(math.log2(options.parties * (found.packing.maximum - found.packing.minimum) + 1)),
        memory_mb=round(found.memory_mb, 1),
        calibration_seconds=round(time.perf_counter() - begun, 2),
    )


Range = tuple[float, ...]
"""The least, the likely and the most."""


@dataclass(frozen=True)
class _Found:
    """What a rehearsal says of the whole run; cores: how many its processes had, on average."""

    packing: PackingPlan
    phases: dict[str, Range]
    bytes: dict[str, int]
    memory_mb: float
    cores: float


def _between(estimates: Sequence[float], factor: float = 1.0) -> Range:
    least, most = min(estimates) * (1 - _WIDER), max(estimates) * (1 + _WIDER)
    return factor * least, factor * statistics.median(estimates), factor * most


# -- encrypted sums, in batches


def _sum(options: PlanOptions, ceremony: KeySetup) -> _Found:
    """Rehearse one batch for every worker, of two lengths of the vector, and several batches."""
    key, workers = ceremony.threshold_key.key, options.workers
    packing = options.packing(key, options.entries[0])
    C, slots = packing.ciphertexts, packing.slots_per_plaintext
    engine, expected = LocalEngine(workers), -(-options.parties * C // workers)

    def play(parties: int, ciphertexts: int) -> EncryptedSum:
        length = min(options.entries[0], max(options.classes - 1, ciphertexts * slots))
        round_, contribution = _rehearsed(options, ceremony, length)
        how = RunConfig(options.randomness, engine, present=range(parties), expected=expected)
        return simulate_sum(round_, ceremony, contribution, how)

    one = min(options.parties, BATCH * workers)
    first = _counting(play(one, 1))
    taken = _counting(play(one, 1))
    once = max(0.0, first - taken)  # starting the workers, and making the tables
    if options.proofs == "none":
        short, long = _lengths(C, taken)
    else:
        short, long = _proved_lengths(C, lambda ciphertexts: _counting(play(one, ciphertexts)))
    batches = int(_SECONDS / _counting(play(one, short)))
    more = min(options.parties, min(_MOST_BATCHES, max(3, batches)) * one)
    rounds = _rounds(options.parties, workers)
    counting, opening, used = [], [], []
    for _ in range(_REPETITIONS):
        small = play(one, short)
        large = small if long == short else play(one, long)
        many = small if more == one else play(more, short)
        further = (_counting(many) - _counting(small)) / max(1, _rounds(more, workers) - 1)
        apart = large.round.plan.ciphertexts - small.round.plan.ciphertexts
        per_ciphertext, opened = (max(0.0, of(large) - of(small)) / max(1, apart) for of in (_counting, _opening))
        rest = C - small.round.plan.ciphertexts
        counting.append(_counting(small) + (rounds - 1) * max(0.0, further) + rounds * rest * per_ciphertext)
        opening.append(_opening(small) + rest * opened)
        used += [run.processor_seconds / _counting(run) for run in (many, large)]
    casting = large.seconds["encrypt"] / _counting(large)
    ballot = Ballot.encoded_length(replace(large.round, plan=packing))
    extra = BATCH * (_COPIES * ballot * (C - large.round.plan.ciphertexts) / C + 8 * options.entries[0]) / 1e6
    memory = large.peak_memory_mb + workers * extra + options.parties * _BYTES_PER_PARTY / 1e6
    memory += 16 * (options.samples or 0) * options.features / 1e6
    least, likely, most = _between(counting)
    answer = _PARTIAL + C * key.ciphertext_bytes
    return _Found(
        packing,
        {
            "encrypt": tuple(casting * (counted + once) for counted in (least, likely, most)),
            "aggregate": tuple((1 - casting) * (counted + once) for counted in (least, likely, most)),
            "decrypt": _between(opening),
        },
        {
            "ballot": ballot,
            "ballots": options.parties * ballot,
            "opening": options.threshold * (_REQUEST + (options.parties + 7) // 8 + answer),
            "board_per_observer": options.parties * ballot + HEADER_BYTES,  # the curator's word that the vote is over
        },
        memory,
        statistics.median(used),
    )


def _counting(run: EncryptedSum) -> float:
    return run.seconds["encrypt"] + run.seconds["aggregate"]


def _opening(run: EncryptedSum) -> float:
    return run.seconds["decrypt"]


def _lengths(ciphertexts: int, taken: float) -> tuple[int, int]:
    """How many of a vector's ciphertexts are rehearsed, where one takes so many seconds: two numbers, unless all are.

    Whole multiples of eight, which go side by side, where there are many.
    """
    long = min(ciphertexts, max(2, int(_SECONDS / taken)))
    long = long if long < 16 else long // 16 * 16
    return (long if long == ciphertexts else long // 2), long


def _proved_lengths(ciphertexts: int, taken: Callable[[int], float]) -> tuple[int, int]:
    """As `_lengths`, where a batch of so many takes so many seconds, for ballots with proofs.

    They are checked together, so that a ciphertext costs less the more there are: doubled until a batch takes long.
    """
    long = min(2, ciphertexts)
    while long < ciphertexts and taken(long) < _SECONDS:
        long = min(2 * long, ciphertexts)
    return max(1, long // 2), long


def _rounds(parties: int, workers: int) -> float:
    """Batches one after the other; the last ones leave some workers idle."""
    batches = -(-parties // BATCH)
    return -(-batches // workers) if batches < 4 * workers else batches / workers


def _rehearsed(options: PlanOptions, ceremony: KeySetup, length: int) -> tuple[Round, PartyFactory]:
    """The first numbers of a vector, in the slots that the whole run has."""
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
    """A rehearsal has seen what it wanted."""


def _descent(options: PlanOptions, ceremony: KeySetup) -> _Found:
    """Rehearse the first steps of the whole walk, for two numbers of parties."""
    asked = PsgdOptions(
        parties=options.parties, steps=options.steps, key_bits=options.key_bits, test_key=options.test_key,
        randomness=options.randomness, proofs="none" if options.proofs == "none" else "knowledge",
        holders=options.holders, threshold=options.threshold,
    )  # fmt: skip
    whole = agree(asked, [_RECORDS] * options.parties, options.features)
    packing = whole.series.plan(ceremony.threshold_key.key, options.steps)
    many = min(len(ceremony.roster), _WALKERS)
    few = max(options.holders, many // 3)
    processor, begun = time.process_time(), time.perf_counter()
    first, steps = [], []
    for _ in range(_REPETITIONS):
        small = _steps(asked, options.features, ceremony, few)
        large = _steps(asked, options.features, ceremony, many) if many > few else small
        further = [(b - a) / max(1, many - few) for a, b in zip(small, large, strict=True)]
        begin, step = (a + (options.parties - few) * max(0.0, b) for a, b in zip(small, further, strict=True))
        first.append(max(0.0, begin - step))
        steps.append(step)
    cores = (time.process_time() - processor) / (time.perf_counter() - begun)
    terms = asked.terms(whole, ceremony)
    ballot = Ballot.encoded_length(terms.round(Announcement.create(terms, 1, (0.0,) * options.features)))
    return _Found(
        packing,
        {"prepare": _between(first), "steps": _between(steps, options.steps)},
        {"ballot": ballot, "ballots": options.parties * options.steps * ballot},
        peak_memory_mb(),
        cores,
    )


def _steps(asked: PsgdOptions, features: int, ceremony: KeySetup, parties: int) -> tuple[float, float]:
    """Seconds of the first step, and of one after it, by the first `parties`."""
    X = np.random.default_rng(0).normal(size=(parties, _RECORDS, features))
    X /= np.linalg.norm(X, axis=2)[:, :, None]
    private = [LocalLoss(rows, np.where(rows[:, 0] > 0, 1, -1)) for rows in X]
    present = replace(ceremony, roster=ceremony.roster[:parties], signing_keys=ceremony.signing_keys[:parties])
    asked = replace(asked, parties=parties)
    ends = [time.perf_counter()]

    def watch(what: str, done: int, total: int) -> None:
        if done:
            ends.append(time.perf_counter())
        if done > _STEPS:
            raise _EnoughError

    with suppress(_EnoughError):
        descend(asked, private, agree(asked, [_RECORDS] * parties, features), present, progress=watch)
    taken = [end - begun for begun, end in pairwise(ends)]
    return taken[0], statistics.median(taken[1:] or taken)


def _keygen_seconds(key_bits: int) -> float:
    """Two primes p, each found among random candidates without small factors in p and (p - 1)/2 (expected time)."""
    half = mpz(gmpy2.mpz_urandomb(gmpy2.random_state(0), key_bits // 2) | 1 << (key_bits // 2 - 1) | 1)
    primality = cpu_seconds(lambda: gmpy2.powmod(3, half - 1, half))
    primorial = gmpy2.primorial(2**16)
    sieve = cpu_seconds(lambda: gmpy2.gcd(half * half, primorial))
    log = math.log(2) * key_bits / 2
    primes = [q for q in range(3, 2**16, 2) if gmpy2.is_prime(q)]
    passing = math.prod(1 - 2 / q for q in primes)
    prime = math.prod(q / (q - 1) for q in primes) * 2 / log
    return 2 * ((primality + sieve / passing) / prime + 20 * primality)
