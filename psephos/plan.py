"""What a counting run will take, before it starts (`psephos plan`): seconds by phase, bytes on the wire, memory.

Sizes follow from the formats exactly. Times are calibrated on this machine in a few seconds: the calibration does each
operation of the real round on a few ballots, with the real comb tables, in as many processes at a time as the run will
use, so that it notices when cores share something. The modulus is any odd number of the right length, since time does
not depend on its factors: no key is made. Local training is not in it, and neither is the loading of a data set.
"""

from __future__ import annotations

import math
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import partial

import gmpy2
import numpy as np
from gmpy2 import mpz

from psephos.bench.clock import clock, cpu_seconds
from psephos.options import option
from psephos.outcomes import PlanOutcome
from psephos.parties.training import votes
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.votes import VoteLayout
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.encryption import Encryptor, RandomnessMode, check_mode
from psephos.protocol.paillier.keys import DEFAULT_KEY_BITS, PublicKey, check_degree, check_key_bits
from psephos.protocol.paillier.packing import PackingPlan, best_degree
from psephos.protocol.paillier.threshold import ThresholdKey
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.signing import SigningKey
from psephos.protocol.wire import HEADER_BYTES
from psephos.simulation.encrypted_sum import BATCH, peak_memory_mb
from psephos.simulation.engines import LocalEngine

_BALLOTS = 4  # of a calibration
_CIPHERTEXTS = 24  # per ballot at most; more are extrapolated


_REQUEST = HEADER_BYTES + 32
_PARTIAL = HEADER_BYTES + 32 + 1
_COPIES = 4  # of a batch's ballots: on the board, taken apart, as integers
_BYTES_PER_PARTY = 2500  # keys, roster and the transcript's line


@dataclass(frozen=True)
class _Task:
    key: PublicKey
    samples: int
    classes: int
    features: int
    parties: int
    mode: RandomnessMode
    expected: int
    holders: int
    threshold: int

    @property
    def auxiliary_bytes(self) -> int:
        return 8 * self.samples * self.features


@dataclass(frozen=True)
class _Measured:
    """Seconds of one process: per ciphertext, per ballot and once."""

    encrypt: float
    tables: float
    vote: float
    take: float
    take_ciphertext: float
    multiply: float
    open: float
    combine: float
    sign_key: float
    primality: float
    sieve: float
    imported_mb: float
    memory_mb: float
    busy: float


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """A counting round of linear classifiers' votes, to be predicted."""

    parties: int = option(MISSING, "Data owners, M.")
    samples: int = option(MISSING, "Auxiliary samples, N.")
    classes: int = option(2, "Classes, K.")
    features: int = option(100, "Features, d, for the time that a vote takes.")
    key_bits: int = option(DEFAULT_KEY_BITS, "Length of the Paillier modulus.", group="Encryption")
    degree: int | None = option(None, "Of the key, 1 to 4.", group="Encryption", shown="as the run takes it")
    test_key: bool = option(False, "Accept a key under 2048 bits: protects nothing.", group="Encryption")
    randomness: RandomnessMode = option("half", "Length of the encryption's exponents.", group="Encryption")
    holders: int = option(5, "Key holders.", group="Encryption")
    threshold: int = option(3, "How many of them open a sum.", group="Encryption")
    workers: int = option(
        help="Processes of this machine.", factory=lambda: min(2, os.cpu_count() or 1), group="Machine"
    )

    def check(self) -> None:
        """Raise InvalidParameter for what no round can have."""
        if not self.parties >= 2 or not 1 <= self.threshold <= self.holders <= self.parties:
            raise InvalidParameter(
                "a round has at least 2 parties and 1 <= threshold <= holders <= parties, not "
                f"{self.parties}, {self.threshold} and {self.holders}"
            )
        if self.workers < 1 or self.features < 1 or self.samples < 1 or self.classes < 2:
            raise InvalidParameter("workers, features and auxiliary samples are at least 1, classes at least 2")
        check_key_bits(self.key_bits, test_key=self.test_key)
        check_degree(self.degree or 1)


def plan(options: PlanOptions) -> PlanOutcome:
    """Predict the round, after a calibration of a few seconds. Raises InvalidParameter, WeakKeyError."""
    options.check()
    parties, workers, holders = options.parties, options.workers, options.holders
    votes = options.samples * (options.classes - 1)
    degree = options.degree or best_degree(options.key_bits, length=votes, addends=parties)
    key = _stand_in(options.key_bits, degree)
    check_mode(key, options.randomness)
    packing = VoteLayout(options.samples, options.classes).plan(key, parties)
    C = packing.ciphertexts
    task = _Task(
        key, options.samples, options.classes, options.features, parties, options.randomness,
        -(-parties * C // workers), holders, options.threshold,
    )  # fmt: skip
    started = time.perf_counter()
    measured = list(LocalEngine(workers).run(_calibrate, task, [partial(int, n) for n in range(workers)]))
    taken = time.perf_counter() - started
    mean = _Measured(*(float(np.mean([getattr(m, one.name) for m in measured])) for one in fields(_Measured)))
    start = max(0.0, taken - max(m.busy for m in measured)) if workers > 1 else 0.0
    seconds = _phases(task, C, workers, mean, start)

    ballot = Ballot.OVERHEAD_BYTES + C * key.ciphertext_bytes
    batch_mb = BATCH * (_COPIES * ballot + options.samples) / 1e6
    per_process = mean.memory_mb + batch_mb
    main_mb = mean.imported_mb + (parties * _BYTES_PER_PARTY + 2 * task.auxiliary_bytes) / 1e6
    return PlanOutcome(
        parties=parties,
        auxiliary=options.samples,
        classes=options.classes,
        features=options.features,
        key_bits=options.key_bits,
        degree=degree,
        randomness=options.randomness,
        workers=workers,
        holders=holders,
        threshold=options.threshold,
        slots_per_plaintext=packing.slots_per_plaintext,
        ciphertexts_per_ballot=C,
        seconds={phase: round(value, 3) for phase, value in seconds.items()},
        bytes={
            "ballot": ballot,
            "ballots": parties * ballot,
            "opening": options.threshold * (_REQUEST + (parties + 7) // 8 + _PARTIAL + C * key.ciphertext_bytes),
            "board_per_observer": parties * ballot + HEADER_BYTES,  # the curator's word that the vote is over
        },
        bits_per_count=round(8 * ballot / votes, 3),
        floor_bits=math.ceil(math.log2(parties + 1)),
        memory_mb=round(main_mb + (workers * per_process if workers > 1 else per_process - mean.imported_mb), 1),
        calibration_seconds=round(taken, 2),
    )


def _phases(task: _Task, C: int, workers: int, mean: _Measured, start: float) -> dict[str, float]:
    """Wall-clock seconds of each phase, from a worker's time per ballot; `start` is what starting workers takes."""
    parties, holders = task.parties, task.holders
    cast = mean.vote + mean.encrypt * C
    taking = (1 + holders) * (mean.take + mean.take_ciphertext * C)
    # The main process merges one batch for every BATCH ballots beside the workers.
    merging = (1 + holders) * mean.multiply * C / BATCH
    batches = -(-parties // BATCH)
    # The last batches leave some workers idle.
    rounds = -(-batches // workers) if batches < 4 * workers else batches / workers
    per_worker = min(rounds * BATCH, float(parties))
    encrypt = per_worker * cast + mean.tables
    aggregate = per_worker * taking + parties * merging
    spread = start / (encrypt + aggregate)
    seconds = {
        "keygen": _keygen_seconds(task.key.bits, mean.primality, mean.sieve) + parties * mean.sign_key,
        "encrypt": encrypt * (1 + spread),
        "aggregate": aggregate * (1 + spread),
        "decrypt": C * (task.threshold * mean.open + mean.combine),
    }
    return seconds | {"total": sum(seconds.values())}


def _stand_in(bits: int, degree: int) -> PublicKey:
    """A modulus of this length that takes as long as a key's. Without small factors, so that its residues are units."""
    small = gmpy2.primorial(2 ** min(16, bits // 8))
    while True:
        n = secrets.randbits(bits) | 1 << (bits - 1) | 1
        if gmpy2.gcd(n, small) == 1:
            return PublicKey(n, form="psephos", degree=degree)


def _unit(key: PublicKey) -> mpz:
    while True:
        residue = mpz(secrets.randbelow(int(key.ciphertext_modulus)))
        if gmpy2.gcd(residue, key.modulus) == 1:
            return residue


def _calibrate(task: _Task, number: int) -> _Measured:  # long: one measurement after the other, on shared objects
    """In one process, beside the others."""
    begun = time.perf_counter()
    imported = peak_memory_mb()
    key, modulus = task.key, task.key.ciphertext_modulus
    whole = VoteLayout(task.samples, task.classes).plan(key, task.parties)
    C = min(whole.ciphertexts, _CIPHERTEXTS)
    # The same slots, fewer of them.
    part = PackingPlan.for_key(key, length=min(whole.length, C * whole.slots_per_plaintext), addends=task.parties)

    encryptor = Encryptor(key, task.mode, expected=task.expected)
    tables = clock(lambda: encryptor.randomizers(1))
    plaintexts = part.pack(np.ones(part.length, dtype=np.uint8))
    encrypt = _seconds(lambda: encryptor.encrypt(plaintexts)) / C

    layout = VoteLayout(task.samples, task.classes)
    generator = np.random.default_rng(number)
    X = generator.random((task.samples, task.features))
    w = generator.normal(size=(1, task.features) if task.classes == 2 else (1, task.classes, task.features))
    counts = np.zeros((task.samples, task.classes), dtype=np.int64)
    rows = np.arange(task.samples)

    def vote() -> None:
        chosen = votes(w, X)[0]
        whole.pack(layout.encode(chosen))
        counts[rows, chosen] += 1

    signing = [SigningKey.generate() for _ in range(max(_BALLOTS, task.holders))]
    sign_key = _seconds(lambda: SigningKey.generate().verification_key)
    round_ = Round.create(
        "votes",
        ThresholdKey(key, task.holders, task.threshold, bytes(16), mpz(1), (mpz(1),) * task.holders),
        part,
        tuple(one.verification_key for one in signing),
        context=bytes(32),
        test_key=key.bits < 2048,
    )
    residues = [_unit(key) for _ in range(C)]
    vector = EncryptedVector(key, part, tuple(residues))
    one = [Ballot.sign(round_, place, vector, k).encode() for place, k in enumerate(signing[:_BALLOTS])]
    sign = _seconds(lambda: Ballot.sign(round_, 0, vector, signing[0]).encode())
    if BallotProduct(round_).add_all(one)[1]:
        raise AssertionError("a calibration ballot was rejected")
    add = _seconds(lambda: BallotProduct(round_).add_all(one)) / _BALLOTS
    multiply = _seconds(lambda: [a * b % modulus for a, b in zip(residues, reversed(residues), strict=True)]) / C
    verify = _seconds(lambda: round_.verification_key(0).verify(signing[0].sign(b"x" * 160), b"x" * 160))

    exponent = mpz(secrets.randbits(_share_exponent_bits(task)) | 1)
    few = residues[: key.ring.lanes]
    opening = _seconds(lambda: key.ring.power(few, exponent), 0.1) / len(few)
    small = mpz(math.factorial(task.holders))

    def combine() -> None:
        for _ in range(task.threshold):
            gmpy2.powmod(residues[0], small, modulus)
        gmpy2.invert(residues[0], modulus)

    half = mpz(secrets.randbits(key.bits // 2) | 1 << (key.bits // 2 - 1) | 1)
    primorial = gmpy2.primorial(2**16)
    return _Measured(
        encrypt=encrypt,
        tables=tables,
        vote=_seconds(vote) + sign / C * whole.ciphertexts,
        take=min(verify, add),
        take_ciphertext=max(add - verify, 0.0) / C,
        multiply=multiply,
        open=opening,
        combine=_seconds(combine),
        sign_key=sign_key,
        primality=_seconds(lambda: gmpy2.powmod(3, half - 1, half)),
        sieve=_seconds(lambda: gmpy2.gcd(half * half, primorial)),
        imported_mb=imported,
        memory_mb=peak_memory_mb(),
        busy=time.perf_counter() - begun,
    )


def _share_exponent_bits(task: _Task) -> int:
    """Bits of 2 Delta f(j): the other coefficients of f lie below 2^128 Delta^2 n^(s+1)."""
    delta = math.factorial(task.holders)
    return int(
        (task.key.degree + 1) * task.key.bits + 128 + (2 * delta**3 * task.holders ** (task.threshold - 1)).bit_length()
    )


def _keygen_seconds(key_bits: int, primality: float, sieve: float) -> float:
    """Two primes p, each found among random candidates without small factors in p and (p - 1)/2 (expected time)."""
    log = math.log(2) * key_bits / 2
    primes = [q for q in range(3, 2**16, 2) if gmpy2.is_prime(q)]
    passing = math.prod(1 - 2 / q for q in primes)
    prime = math.prod(q / (q - 1) for q in primes) * 2 / log
    return 2 * ((primality + sieve / passing) / prime + 20 * primality)


def _seconds(work: Callable[[], object], least: float = 0.05) -> float:
    """Processor time, the first call apart: what else the machine does says nothing about the hours of the run."""
    work()
    return cpu_seconds(work, least)
