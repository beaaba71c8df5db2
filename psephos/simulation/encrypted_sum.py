"""Simulate one encrypted sum from the first message to the last, with every role on this machine or on a cluster.

The parties are simulated in batches, which the workers of an engine process one after the other, each with observers
for the curator and the holders, who later start from the observers' merged products. Memory therefore does not grow
with the number of parties. When a role is replaced, or a transcript records secrets, all roles take part in one run
instead.
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

from psephos.protocol.driver import Driver, replace_roles
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.product import BallotProduct, Observer
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.paillier.encryption import Encryptor, RandomnessMode
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.roles import Role
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import OnceLedger, Store
from psephos.protocol.storage.values import decode, encode
from psephos.protocol.transcript import SentMessage, Transcript
from psephos.results.deviations import Deviation
from psephos.simulation.deviations import deviations_of, run_to_end
from psephos.simulation.engines import Engine, LocalEngine
from psephos.simulation.journal import Journal, SumState
from psephos.simulation.key_setup import KeySetup
from psephos.specs.base import SumSpec

BATCH = 32
"""Parties per batch: large enough that the cost of one gcd is negligible, and few enough for frequent progress."""


@dataclass(frozen=True)
class RunConfig:
    """How a sum is simulated, independently of what is summed.

    Attributes:
        mode: how ciphertexts are randomised.
        engine: runs the batches.
        journal: stores each finished batch; a sum that it holds already is continued.
        transcript: records the messages; if it keeps secrets, it also supplies and records every role's randomness.
        progress: called with the number of parties finished since the last call.
        roles: name of a role -> function that returns its replacement (`psephos.protocol.driver.replace_roles`).
        present: numbers of the parties that take part, in order; all parties by default.
        label: name of the sum in the journal; the kind of the round by default.
        expected: ciphertexts of one worker, for which its tables are sized; by default its part of this sum.
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
        spec: the protocol. It is public, and sent to each worker once.
        data: one entry per party, as `Spec.prepare` returns it, or an int64 array (parties, length) of their vectors.
            Secret; a worker receives the entries of its batch only.
        first: number of the party that `data[0]` belongs to.
    """

    spec: SumSpec
    data: Sequence[Any] | NDArray[np.int64] = field(repr=False)
    first: int = 0

    def with_data(self, data: Sequence[Any] | NDArray[np.int64], first: int = 0) -> PartyFactory:
        return replace(self, data=data, first=first)

    def role(self, number: int, key: SigningKey, round_: Round, encryptor: Encryptor, coins: Randomness) -> Role:
        data = self.data[number - self.first]
        return self.spec.party(number, key, data, round_, encryptor=encryptor, randomness=coins)


@dataclass(frozen=True)
class EncryptedSum:
    """Result and cost of a simulated sum.

    Attributes:
        round: the terms of the sum; for a continued sum, those of the journal.
        opened: what the curator learned.
        equals_plaintext: whether every entry of the opened sum equals the sum computed in the clear.
        seconds: wall-clock seconds by phase: "encrypt", "aggregate" (decoding, checks and multiplications by the
            curator and every holder) and "decrypt". The first two overlap in the workers; their time is divided in
            proportion to what the workers measured, and includes that of interrupted runs.
        peak_memory_mb: of this process and its workers, in MB; shared pages count in each process.
        continued_from: number of ballots that the journal held at the start.
        vectors: party number -> its vector, if all roles were in one run; empty otherwise. Secret.
        deviations: what roles that were replaced did otherwise than the protocol says.
    """

    round: Round
    opened: OpenedSum
    equals_plaintext: bool
    seconds: dict[str, float]
    peak_memory_mb: float
    continued_from: int = 0
    vectors: Mapping[int, tuple[int, ...]] = field(default_factory=dict, repr=False)
    deviations: Sequence[Deviation] = ()

    @property
    def ballot_bytes(self) -> int:
        return Ballot.encoded_length(self.round)


def simulate_sum(round_: Round, keys: KeySetup, factory: PartyFactory, config: RunConfig | None = None) -> EncryptedSum:
    """Simulate an encrypted sum: the parties encrypt, the curator and the holders multiply, t holders decrypt."""
    if config is None:
        config = RunConfig()
    one_run = bool(config.roles) or (config.transcript is not None and config.transcript.keeps_secrets)
    return (_simulate_in_one_run if one_run else _simulate_in_batches)(round_, keys, factory, config)


def _simulate_in_one_run(round_: Round, keys: KeySetup, factory: PartyFactory, config: RunConfig) -> EncryptedSum:
    numbers = range(len(round_.roster)) if config.present is None else config.present
    expected = len(numbers) * round_.plan.ciphertexts
    transcript = config.transcript or Transcript()
    parties = []
    for number in numbers:
        coins = transcript.coins(f"party {number}")
        encryptor = Encryptor(round_.key, config.mode, randomness=coins, expected=expected)
        parties.append(factory.role(number, keys.signing_keys[number], round_, encryptor, coins))
    spec, holders, noise = factory.spec, list[Role](), {}
    for share in keys.shares:
        coins = transcript.coins(f"holder {share.holder}")
        if spec.holder_shares is not None:
            noise[share.holder] = spec.noise_of(share.holder, coins)
        holders.append(spec.holder(share, round_, randomness=coins, noise=noise.get(share.holder)))
    roles = replace_roles([*parties, spec.curator(round_), *holders], config.roles)
    before, started = len(transcript.messages), time.perf_counter()
    driver = Driver(roles, transcript=transcript, strict=False)
    results = run_to_end(driver)
    elapsed, encrypt = time.perf_counter() - started, sum(driver.clock[party.name] for party in parties)

    opened: OpenedSum = results["curator"]
    vectors = {number: results[f"party {number}"] for number in numbers if f"party {number}" in results}
    counted = [vectors[number] for number in opened.parties if number in vectors]
    exact = _plaintext_sum(round_, [*counted, *noise.values()])
    equal = len(counted) == opened.ballots and opened.sums == tuple(exact.tolist())
    # Aggregation and decryption alternate, and count as one.
    seconds = {"encrypt": encrypt, "aggregate": 0.0, "decrypt": max(0.0, elapsed - encrypt)}
    config.progress(len(parties))
    deviations = deviations_of(driver, transcript.messages[before:], [opened], numbers)
    return EncryptedSum(round_, opened, equal, seconds, peak_memory_mb(), vectors=vectors, deviations=deviations)


# -- simulation in batches


@dataclass(frozen=True)
class _BatchContext:
    round: Round
    factory: PartyFactory
    mode: RandomnessMode
    expected: int
    holders: int
    record_messages: bool


@dataclass(frozen=True)
class _Batch:
    first: int
    numbers: Sequence[int]
    data: Sequence[Any] | NDArray[np.int64] = field(repr=False)
    seeds: list[bytes] = field(repr=False)


@dataclass(frozen=True)
class _BatchResult:
    """What a worker returns for a batch. It contains no round, whose roster would be sent back with every batch."""

    first: int
    parties: int
    products: list[tuple[int, tuple[mpz, ...]]]
    plaintext_sum: NDArray[Any]
    messages: list[SentMessage]
    encrypt: float
    aggregate: float
    process: tuple[str, int]
    memory_mb: float


def _simulate_in_batches(round_: Round, keys: KeySetup, factory: PartyFactory, config: RunConfig) -> EncryptedSum:
    stored = None if config.journal is None else config.journal.sum_of(round_, config.label)
    names = ["curator", *(f"holder {share.holder}" for share in keys.shares)]
    messages: list[SentMessage] = []
    if stored is None:
        state = SumState([BallotProduct(round_)] * len(names), _plaintext_sum(round_, []), {})
    else:
        round_, state = stored.round, stored.load(len(keys.shares))
        if config.transcript is not None:
            messages = stored.messages()
    continued_from = len(state.parties)
    config.progress(continued_from)

    memory: dict[tuple[str, int], float] = {}  # peak of each process, in MB
    earlier = dict(state.seconds)
    encrypt = aggregate = 0.0
    started = time.perf_counter()
    for result in _process_batches(round_, keys, factory, config, state.parties):
        merge_started = time.perf_counter()
        products = [BallotProduct(round_, members << result.first, columns) for members, columns in result.products]
        state.products = _merge_products(state.products, products)
        state.plaintext_sum = state.plaintext_sum + result.plaintext_sum
        if config.transcript is not None:
            messages += result.messages
        memory[result.process] = max(memory.get(result.process, 0.0), result.memory_mb)
        memory[_this_process()] = peak_memory_mb()
        state.memory_mb = max(state.memory_mb, sum(memory.values()))
        encrypt += result.encrypt
        aggregate += result.aggregate + time.perf_counter() - merge_started
        wall_clock_ratio = (time.perf_counter() - started) / (encrypt + aggregate)
        state.seconds = {
            "encrypt": earlier.get("encrypt", 0.0) + encrypt * wall_clock_ratio,
            "aggregate": earlier.get("aggregate", 0.0) + aggregate * wall_clock_ratio,
        }
        if stored is not None:
            stored.commit(state, result.messages)
        config.progress(result.parties)
    if config.transcript is not None:  # batches finish in any order; a transcript has the order of the roster
        config.transcript.messages += sorted(messages, key=lambda message: int(message.sender.removeprefix("party ")))

    decrypt_started = time.perf_counter()
    store, spec = None if config.journal is None else config.journal.store, factory.spec
    noise = _noise_of_holders(spec, round_, names[1:], store)
    holders = [
        spec.holder(share, round_, ledger=OnceLedger(store, name), seen=product, noise=noise.get(name))
        for share, name, product in zip(keys.shares, names[1:], state.products[1:], strict=True)
    ]
    roles = [spec.curator(round_, seen=state.products[0]), *holders]
    opened: OpenedSum = Driver(roles, transcript=config.transcript).run()["curator"]
    seconds = {**state.seconds, "decrypt": time.perf_counter() - decrypt_started}
    exact = state.plaintext_sum + _plaintext_sum(round_, noise.values())
    equal = opened.sums == tuple(exact.tolist())
    peak = max(state.memory_mb, peak_memory_mb())
    return EncryptedSum(round_, opened, equal, seconds, peak, continued_from)


def _noise_of_holders(spec: SumSpec, round_: Round, names: Sequence[str], store: Store | None) -> dict[str, list[int]]:
    if spec.holder_shares is None:
        return {}
    noise = {}
    for number, name in enumerate(names, 1):
        draw = partial(lambda number: encode(tuple(spec.noise_of(number))), number)
        drawn = OnceLedger(store, f"noise of {name}").do_once(round_.digest, b"", draw)
        noise[name] = list(decode(drawn))
    return noise


def _merge_products(products: Sequence[BallotProduct], additions: Sequence[BallotProduct]) -> list[BallotProduct]:
    merged: list[BallotProduct] = []
    for place, (product, addition) in enumerate(zip(products, additions, strict=True)):
        equal = (k for k in range(place) if products[k] is product and additions[k] == addition)
        first = next(equal, None)
        merged.append(product.merge(addition) if first is None else merged[first])
    return merged


def _process_batches(
    round_: Round, keys: KeySetup, factory: PartyFactory, config: RunConfig, counted: frozenset[int]
) -> Iterator[_BatchResult]:
    """Run the engine on all batches whose parties are not counted yet, and yield their results in any order."""
    remaining = []
    present = set(range(len(round_.roster)) if config.present is None else config.present)
    for first in range(0, len(round_.roster), BATCH):
        batch = range(first, min(first + BATCH, len(round_.roster)))
        numbers = [number for number in batch if number in present]
        if not counted.issuperset(numbers):
            remaining.append((batch, numbers))
    if not remaining:
        return
    expected = config.expected
    if expected is None:
        parties = sum(len(numbers) for _, numbers in remaining)
        expected = -(-parties * round_.plan.ciphertexts // config.engine.count_workers())
    record_messages = config.journal is not None or config.transcript is not None
    context = _BatchContext(round_, factory.with_data(()), config.mode, expected, len(keys.shares), record_messages)
    tasks = [partial(_make_batch, factory, keys, batch, numbers) for batch, numbers in remaining]
    yield from config.engine.run(_process_batch, context, tasks)


def _make_batch(factory: PartyFactory, keys: KeySetup, batch: range, numbers: Sequence[int]) -> _Batch:
    seeds = [keys.signing_keys.seed(number) for number in numbers]
    data = factory.data[batch.start - factory.first : batch.stop - factory.first]
    return _Batch(batch.start, numbers, data, seeds)


def _process_batch(context: _BatchContext, batch: _Batch) -> _BatchResult:
    """Simulate one batch in a worker: the parties post their ballots, the curator and every holder multiply them."""
    started = time.perf_counter()
    round_, transcript = context.round, Transcript()
    encryptor = Encryptor(round_.key, context.mode, expected=context.expected)
    factory = context.factory.with_data(batch.data, batch.first)
    parties = [
        factory.role(number, SigningKey(seed), round_, encryptor, SYSTEM)
        for number, seed in zip(batch.numbers, batch.seeds, strict=True)
    ]
    observers = [Observer(name, round_) for name in ("curator", *(f"holder {j + 1}" for j in range(context.holders)))]
    driver = Driver([*parties, *observers], transcript=transcript)
    results = driver.run()
    aggregate = sum(driver.clock[observer.name] for observer in observers)
    products: list[BallotProduct] = [results[observer.name] for observer in observers]
    return _BatchResult(
        batch.first,
        len(parties),
        [(product.members >> batch.first, product.columns) for product in products],
        _plaintext_sum(round_, [results[party.name] for party in parties]),
        transcript.messages if context.record_messages else [],
        time.perf_counter() - started - aggregate,
        aggregate,
        _this_process(),
        peak_memory_mb(),
    )


def _plaintext_sum(round_: Round, vectors: Iterable[Sequence[int]]) -> NDArray[Any]:
    plan = round_.plan
    small = max(-plan.minimum, plan.maximum) * plan.addends < 2**62
    total = np.zeros(plan.length, dtype=np.int64 if small else object)
    for vector in vectors:
        total = total + np.array(vector, dtype=total.dtype)
    return total


def _this_process() -> tuple[str, int]:
    return platform.node(), os.getpid()


def peak_memory_mb() -> float:
    """Return the peak memory of this process so far, in MB.

    On Linux a child inherits `ru_maxrss` from its parent; the kernel's VmHWM is the process's own.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return float(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)
