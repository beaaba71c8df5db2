"""One encrypted sum from first message to last, every role in this machine or cluster.

Parties work in batches that an engine's workers take one after the other: each batch is a run of the driver with the
parties and with observers, one for the curator and one for each holder, whose products the curator and the holders then
start from. So memory does not grow with the number of parties. Where somebody lies, or whole views are recorded, all
roles are in one run. The simulation also adds the vectors in the clear, which is how it knows that the count is exact.
With a journal every finished batch is committed to disk, and a run that was interrupted continues from there.
"""

from __future__ import annotations

import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from psephos.curator.tally import OpenedSum
from psephos.protocol.driver import Driver, replace_roles
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.product import BallotProduct, Observer
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import JournalError
from psephos.protocol.paillier.encryption import Encryptor, RandomnessMode
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.roles import Entry, Role
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import OnceLedger
from psephos.protocol.transcript import SentMessage, Transcript
from psephos.protocol.wire import Kind
from psephos.simulation.engines import Engine, LocalEngine
from psephos.simulation.journal import Journal, SumState
from psephos.simulation.key_setup import KeySetup
from psephos.specs.base import SumSpec

__all__ = ["BATCH", "EncryptedSum", "PartyFactory", "RunConfig", "peak_memory_mb", "simulate_sum"]

BATCH = 32
"""Parties per batch: large enough that one gcd is nothing, small enough that 20,000 parties show progress."""


@dataclass(frozen=True)
class RunConfig:
    """How a sum is simulated, whatever is summed.

    Attributes:
        mode: how ciphertexts are randomised.
        engine: where batches are simulated.
        journal: where each finished batch is committed; a sum that is in it already goes on.
        transcript: watches, if there is one; where it keeps secrets, it also has every role's coins.
        progress: called with the number of parties done since the last call.
        roles: who is replaced by whom (`psephos.protocol.driver.replace_roles`).
        present: the parties that take part, in order; all of them by default.
        label: what the journal calls the sum, by default as its round's kind.
        expected: ciphertexts that a worker will make, which its tables are made for; by default those of this sum.
    """

    mode: RandomnessMode = "half"
    engine: Engine = field(default_factory=LocalEngine)
    journal: Journal | None = None
    transcript: Transcript | None = None
    progress: Callable[[int], object] = lambda parties: None
    roles: Mapping[str, Callable[[Role], Role]] = field(default_factory=dict)
    present: Sequence[int] | None = None
    label: str = ""
    expected: int | None = None


@dataclass(frozen=True)
class PartyFactory:
    """Makes the roles of the simulated parties.

    Attributes:
        spec: the protocol; public, and sent to a worker once.
        data: each party's own, as `Spec.prepare` returns it, or an array (parties, length) of their vectors; sent to a
            worker with its batch. Secrets.
        first: number of the party whose data are the first.
    """

    spec: SumSpec
    data: Sequence[Any] | NDArray[np.int64] = field(repr=False)
    first: int = 0

    def with_data(self, data: Sequence[Any] | NDArray[np.int64], first: int = 0) -> PartyFactory:
        """Return the factory of other parties, whose data have the same shape."""
        return replace(self, data=data, first=first)

    def data_of(self, numbers: range) -> Sequence[Any] | NDArray[np.int64]:
        """Return the data of consecutive parties, in the same shape."""
        return self.data[numbers.start - self.first : numbers.stop - self.first]

    def role(self, number: int, key: SigningKey, round_: Round, encryptor: Encryptor, coins: Randomness) -> Role:
        """Return the role of party `number`; `coins`: of whatever it draws besides its encryption's."""
        data = self.data[number - self.first]
        return self.spec.party(number, key, data, round_, encryptor=encryptor, randomness=coins)


@dataclass(frozen=True)
class EncryptedSum:
    """What came out, and what it took.

    Attributes:
        round: the round, a continued journal's own.
        opened: what the curator learned.
        equals_plaintext: whether the opened sum is the clear one, entry by entry.
        seconds: wall-clock seconds of encrypt (voting, encryption, signing), aggregate (decoding, checks and
            multiplications by the curator and every holder) and decrypt. The first two happen side by side in the
            workers; their common wall-clock time is divided in proportion to the workers' own clocks. With a journal
            those of the interrupted runs are in it, as far as they were committed.
        peak_memory_mb: of this process and its workers together, shared pages counted in each.
        processor_seconds: of casting and counting, of this process and its workers together, in this run.
        continued_from: ballots that a journal held already.
        vectors: what each party put in, where all roles were in one run. A secret.
    """

    round: Round
    opened: OpenedSum
    equals_plaintext: bool
    seconds: dict[str, float]
    peak_memory_mb: float
    processor_seconds: float = 0.0
    continued_from: int = 0
    vectors: Mapping[int, tuple[int, ...]] = field(default_factory=dict, repr=False)

    @property
    def ballot_bytes(self) -> int:
        """Bytes of one ballot."""
        return Ballot.encoded_length(self.round)


def simulate_sum(
    round_: Round, ceremony: KeySetup, contribution: PartyFactory, conditions: RunConfig | None = None
) -> EncryptedSum:
    """Cast, count and open.

    Args:
        round_: agreed on by everybody. With a journal that was begun before, the journal's round takes its place: the
            same but for the nonce.
        ceremony: whose keys the parties and holders use; with a journal, `Journal.ceremony`.
        contribution: the parties' vectors.
        conditions: see there.

    Raises:
        JournalError: the journal cannot be used or written.
        EngineError: the engine cannot be used, or its workers died again and again.
        TooFewBallotsError, ThresholdError, WrongPartialDecryptionError: the sum cannot be opened.
    """
    how = RunConfig() if conditions is None else conditions
    whole = bool(how.roles) or (how.transcript is not None and how.transcript.keeps_secrets)
    return (_together if whole else _in_batches)(round_, ceremony, contribution, how)


def _together(round_: Round, ceremony: KeySetup, contribution: PartyFactory, how: RunConfig) -> EncryptedSum:
    """All roles in one run of the driver."""
    numbers = range(len(round_.roster)) if how.present is None else how.present
    expected = len(numbers) * round_.plan.ciphertexts
    transcript = how.transcript or Transcript()
    parties = []
    for number in numbers:
        coins = transcript.coins(f"party {number}")
        encryptor = Encryptor(round_.key, how.mode, randomness=coins, expected=expected)
        parties.append(contribution.role(number, ceremony.signing_keys[number], round_, encryptor, coins))
    spec = contribution.spec
    holders = [spec.holder(s, round_, randomness=transcript.coins(f"holder {s.holder}")) for s in ceremony.shares]
    clock = _AggregationClock()
    driver = Driver(
        replace_roles([*parties, spec.curator(round_), *holders], how.roles),
        transcript=transcript,
        watch=clock.on_message,
    )
    clock.seconds = driver.clock
    started, processor = time.perf_counter(), time.process_time()
    results = driver.run()
    elapsed, processor = time.perf_counter() - started, time.process_time() - processor
    opened: OpenedSum = results["curator"]
    vectors = {number: results[f"party {number}"] for number in numbers if f"party {number}" in results}
    known = [vectors[number] for number in opened.parties if number in vectors]
    exact = len(known) == opened.ballots and opened.sums == tuple(_clear_sum(round_, known).tolist())
    encrypt = sum(driver.clock[party.name] for party in parties)
    decrypt = max(0.0, elapsed - encrypt - clock.aggregate)
    seconds = {"encrypt": encrypt, "aggregate": clock.aggregate, "decrypt": decrypt}
    how.progress(len(parties))
    return EncryptedSum(round_, opened, exact, seconds, peak_memory_mb(), processor, vectors=vectors)


class _AggregationClock:
    """Measures, in a run of all roles, how long the curator and the holders worked before a holder was asked to open.

    Attributes:
        seconds: what each role has worked so far, `Driver.clock`.
        aggregate: seconds of the curator and all holders together until the first request to open.
    """

    def __init__(self) -> None:
        self.seconds: Mapping[str, float] = {}
        self.aggregate = 0.0

    def on_message(self, phase: str, entry: Entry) -> None:
        """Take the time of the first request; as `Driver` calls it for each message."""
        if self.aggregate == 0.0 and entry.is_a(Kind.TALLY_REQUEST):
            observers = (name for name in self.seconds if name == "curator" or name.startswith("holder "))
            self.aggregate = sum(self.seconds[name] for name in observers)


# -- in batches


@dataclass(frozen=True)
class _Shared:
    """What every batch needs; `contribution` without what is the parties' own; whether anybody wants the messages."""

    round: Round
    contribution: PartyFactory
    mode: RandomnessMode
    expected: int
    holders: int
    watched: bool


@dataclass(frozen=True)
class _Batch:
    first: int
    numbers: Sequence[int]
    data: Sequence[Any] | NDArray[np.int64] = field(repr=False)
    seeds: list[bytes] = field(repr=False)


@dataclass(frozen=True)
class _Work:
    """What came of a batch; of a product its columns, and who is in it, counted from the batch's first: a product has
    its round, and that the whole roster."""

    first: int
    parties: int
    products: list[tuple[int, tuple[mpz, ...]]]
    clear: NDArray[Any]
    messages: list[SentMessage]
    encrypt: float
    aggregate: float
    processor: float
    process: tuple[str, int]
    memory_mb: float


def _in_batches(round_: Round, ceremony: KeySetup, contribution: PartyFactory, how: RunConfig) -> EncryptedSum:
    stored = None if how.journal is None else how.journal.sum_of(round_, how.label)
    names = ["curator", *(f"holder {share.holder}" for share in ceremony.shares)]
    messages: list[SentMessage] = []
    if stored is None:
        state = SumState([BallotProduct(round_)] * len(names), _clear_sum(round_, []), {})
    else:
        round_, state = stored.round, stored.load(len(ceremony.shares))
        if how.transcript is not None:
            messages = stored.messages()
    continued_from = len(state.parties)
    how.progress(continued_from)
    memory: dict[tuple[str, int], float] = {}
    before = dict(state.seconds)
    encrypt = aggregate = elsewhere = 0.0
    started, processor = time.perf_counter(), time.process_time()
    for work in _batches(round_, ceremony, contribution, how, state.parties):
        merging = time.perf_counter()
        found = [BallotProduct(round_, members << work.first, columns) for members, columns in work.products]
        state.products = _merged(state.products, found)
        state.clear = state.clear + work.clear
        if how.transcript is not None:
            messages += work.messages
        encrypt += work.encrypt
        elsewhere += work.processor if work.process != _this_process() else 0.0
        memory |= {work.process: max(memory.get(work.process, 0.0), work.memory_mb), _this_process(): peak_memory_mb()}
        state.memory_mb = max(state.memory_mb, sum(memory.values()))
        aggregate += work.aggregate + time.perf_counter() - merging
        share = (time.perf_counter() - started) / (encrypt + aggregate)
        state.seconds = {
            "encrypt": before.get("encrypt", 0.0) + encrypt * share,
            "aggregate": before.get("aggregate", 0.0) + aggregate * share,
        }
        if stored is not None:
            stored.commit(state, work.messages)
        how.progress(work.parties)
    if how.transcript is not None:  # batches come in any order; a transcript is in the order of the roster
        how.transcript.extend(sorted(messages, key=lambda message: int(message.sender.removeprefix("party "))))
    voted, processor = time.perf_counter(), time.process_time() - processor + elsewhere
    store, spec = None if how.journal is None else how.journal.store, contribution.spec
    holders = [
        spec.holder(key_share, round_, ledger=OnceLedger(store, name), seen=product)
        for key_share, name, product in zip(ceremony.shares, names[1:], state.products[1:], strict=True)
    ]
    roles = [spec.curator(round_, seen=state.products[0]), *holders]
    opened: OpenedSum = Driver(roles, transcript=how.transcript).run()["curator"]
    seconds = {**state.seconds, "decrypt": time.perf_counter() - voted}
    exact = opened.sums == tuple(state.clear.tolist())
    peak = max(state.memory_mb, peak_memory_mb())
    return EncryptedSum(round_, opened, exact, seconds, peak, processor, continued_from)


def _merged(so_far: Sequence[BallotProduct], found: Sequence[BallotProduct]) -> list[BallotProduct]:
    """Everybody's product with what they found in a batch; those who counted the same share one, and the work."""
    merged: list[BallotProduct] = []
    for place, (mine, product) in enumerate(zip(so_far, found, strict=True)):
        same = (k for k in range(place) if so_far[k] is mine and found[k] == product)
        earlier = next(same, None)
        merged.append(mine.merge(product) if earlier is None else merged[earlier])
    return merged


def _batches(
    round_: Round, ceremony: KeySetup, contribution: PartyFactory, how: RunConfig, done: frozenset[int]
) -> Iterator[_Work]:
    """The batches that are still to be cast, worked on. The cut does not depend on what is done."""
    todo = []
    present = set(range(len(round_.roster)) if how.present is None else how.present)
    for at in range(0, len(round_.roster), BATCH):
        batch = range(at, min(at + BATCH, len(round_.roster)))
        numbers = [number for number in batch if number in present]
        counted = done.intersection(numbers)
        if numbers and not counted:
            todo.append((batch, numbers))
        elif len(counted) < len(numbers):
            raise JournalError(
                f"the journal has counted some, but not all, of the parties {batch.start} to {batch.stop - 1}: it "
                "was written by a version with other batches; start again in another directory"
            )
    if not todo:
        return
    expected = how.expected
    if expected is None:
        expected = -(-sum(len(numbers) for _, numbers in todo) * round_.plan.ciphertexts // how.engine.count_workers())
    watched = how.journal is not None or how.transcript is not None
    shared = _Shared(round_, contribution.with_data(()), how.mode, expected, len(ceremony.shares), watched)
    yield from how.engine.run(_work, shared, [partial(_batch, contribution, ceremony, *work) for work in todo])


def _batch(contribution: PartyFactory, ceremony: KeySetup, batch: range, numbers: Sequence[int]) -> _Batch:
    seeds = [ceremony.signing_keys.seed(number) for number in numbers]
    return _Batch(batch.start, numbers, contribution.data_of(batch), seeds)


def _work(shared: _Shared, batch: _Batch) -> _Work:
    """One batch of parties in a worker: they post their ballots; the curator and every holder take them in."""
    started, processor = time.perf_counter(), time.process_time()
    round_, transcript = shared.round, Transcript()
    encryptor = Encryptor(round_.key, shared.mode, expected=shared.expected)
    contribution = shared.contribution.with_data(batch.data, batch.first)
    parties = [
        contribution.role(number, SigningKey(seed), round_, encryptor, SYSTEM)
        for number, seed in zip(batch.numbers, batch.seeds, strict=True)
    ]
    observers = [Observer(name, round_) for name in ("curator", *(f"holder {j + 1}" for j in range(shared.holders)))]
    driver = Driver([*parties, *observers], transcript=transcript)
    results = driver.run()
    aggregate = sum(driver.clock[observer.name] for observer in observers)
    products: list[BallotProduct] = [results[observer.name] for observer in observers]
    return _Work(
        batch.first,
        len(parties),
        [(product.members >> batch.first, product.columns) for product in products],
        _clear_sum(round_, [results[party.name] for party in parties]),
        transcript.messages if shared.watched else [],
        time.perf_counter() - started - aggregate,
        aggregate,
        time.process_time() - processor,
        _this_process(),
        peak_memory_mb(),
    )


def _clear_sum(round_: Round, vectors: Iterable[Sequence[int]]) -> NDArray[Any]:
    """The sum of the parties' vectors without any encryption, shape (plan.length,), exactly."""
    plan = round_.plan
    small = max(-plan.minimum, plan.maximum) * plan.addends < 2**62
    total = np.zeros(plan.length, dtype=np.int64 if small else object)
    for vector in vectors:
        total = total + np.array(vector, dtype=total.dtype)
    return total


def _this_process() -> tuple[str, int]:
    return platform.node(), os.getpid()


def peak_memory_mb() -> float:
    """The most memory this process has held so far, in MB.

    Linux hands a process's `ru_maxrss` on to what it starts, so that a worker would report its parent's peak; the
    kernel's VmHWM is the process's own. Elsewhere `ru_maxrss` is what there is.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return float(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)
