"""One encrypted sum from first message to last, every role in this machine or cluster (DESIGN section 2).

Parties work in batches that an engine's workers take one after the other; a worker returns partial tallies, not
ballots, so memory does not grow with the number of parties. Each holder multiplies the ballots for itself, as it would
on its own machine. The simulation also adds the vectors in the clear, which is how it can say that the count is exact.
With a journal every finished batch is committed to disk, and a run that was interrupted continues from there.
"""

from __future__ import annotations

import os
import platform
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.curator.old_tally import OpenedSum, Tally
from psephos.parties.old_holder import KeyHolder
from psephos.parties.old_party import Party, Voter
from psephos.protocol.encrypted_sum.board import Board
from psephos.protocol.encrypted_sum.messages import Ballot, PartialDecryption, TallyRequest
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Round, RoundKind
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import JournalError
from psephos.protocol.paillier.encryption import Encryptor, RandomnessMode
from psephos.protocol.signing import SigningKey
from psephos.protocol.transcript import BOARD, Message, Transcript
from psephos.simulate.ceremony import Ceremony
from psephos.simulate.engines import Engine, LocalEngine
from psephos.simulate.journal import Journal, SumJournal, SumState

__all__ = [
    "BATCH",
    "Contribution",
    "EncryptedSum",
    "VectorContribution",
    "VoteContribution",
    "peak_memory_mb",
    "run_encrypted_sum",
]

BATCH = 32
"""Parties per batch: large enough that one gcd is nothing, small enough that 20,000 parties show progress."""

Progress = Callable[[int], object]


class Contribution(Protocol):
    """What the parties of one batch put into the sum: a dataclass.

    A field that a part has in common with the whole, the very same object, is sent to each worker once; everything else
    in a part is sent with its batch.
    """

    def part(self, numbers: range) -> Contribution:
        """The same for these parties only: what one worker is sent."""

    def ballots(
        self, round_: Round, numbers: range, keys: Sequence[SigningKey], encryptor: Encryptor
    ) -> Iterator[Ballot]:
        """The ballots of these parties, in order."""

    def clear_sum(self, round_: Round, numbers: range) -> NDArray[Any]:
        """The sum of the same vectors without any encryption, asked for after the ballots; shape (plan.length,)."""


@dataclass(frozen=True)
class VoteContribution:
    """Every party votes on the auxiliary set with its own classifier.

    Attributes:
        voters: one classifier per party of `numbers`, in order.
        auxiliary: float64 (N, d), hashed once.
        classes: K.
        first: number of the first of these parties.
    """

    voters: Sequence[Voter] = field(repr=False)
    auxiliary: ArrayLike | AuxiliarySet = field(repr=False)
    classes: int
    first: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "auxiliary", AuxiliarySet.of(self.auxiliary))
        # What the parties said, so that the clear sum need not ask them again.
        object.__setattr__(self, "_votes", {})

    def ballots(
        self, round_: Round, numbers: range, keys: Sequence[SigningKey], encryptor: Encryptor
    ) -> Iterator[Ballot]:
        auxiliary = AuxiliarySet.of(self.auxiliary)
        for number, key in zip(numbers, keys, strict=True):
            heard = _Heard(self.voters[number - self.first])
            party = Party(number, key, classes=range(self.classes), voter=heard)
            ballot = party.cast(round_, auxiliary, encryptor=encryptor)
            self._heard[number] = heard.votes
            yield ballot

    def clear_sum(self, round_: Round, numbers: range) -> NDArray[np.int64]:
        samples = len(AuxiliarySet.of(self.auxiliary).samples)
        counts = np.zeros((samples, self.classes), dtype=np.int64)
        rows = np.arange(samples)
        for number in numbers:
            counts[rows, self._heard[number]] += 1
        return counts[:, 1:].reshape(-1)

    def part(self, numbers: range) -> VoteContribution:
        chosen = self.voters[numbers.start - self.first : numbers.stop - self.first]
        return VoteContribution(chosen, self.auxiliary, self.classes, numbers.start)

    @property
    def _heard(self) -> dict[int, NDArray[np.integer]]:
        heard: dict[int, NDArray[np.integer]] = self.__dict__["_votes"]
        return heard


class _Heard:
    """A party's classifier, and what it said."""

    def __init__(self, voter: Voter) -> None:
        self._voter = voter
        self.votes: NDArray[np.integer] = np.empty(0, dtype=np.int64)

    def predict_votes(self, X: NDArray[np.float64]) -> NDArray[np.integer]:
        self.votes = np.array(self._voter.predict_votes(X))
        return self.votes.copy()


@dataclass(frozen=True)
class VectorContribution:
    """Every party adds an integer vector that it has computed: parameters, a statistic.

    Attributes:
        kind: of the round.
        vectors: int64 (parties of `numbers`, plan.length).
        first: number of the first of these parties.
    """

    kind: RoundKind
    vectors: NDArray[np.int64] = field(repr=False)
    first: int = 0

    def ballots(
        self, round_: Round, numbers: range, keys: Sequence[SigningKey], encryptor: Encryptor
    ) -> Iterator[Ballot]:
        for number, key in zip(numbers, keys, strict=True):
            party = Party(number, key, classes=())
            values = self.vectors[number - self.first]
            yield party.contribute(round_, self.kind, round_.context, values, encryptor=encryptor)

    def clear_sum(self, round_: Round, numbers: range) -> NDArray[np.int64]:
        return np.asarray(self.vectors[numbers.start - self.first : numbers.stop - self.first].sum(axis=0))

    def part(self, numbers: range) -> VectorContribution:
        chosen = self.vectors[numbers.start - self.first : numbers.stop - self.first]
        return VectorContribution(self.kind, chosen, numbers.start)


@dataclass(frozen=True)
class EncryptedSum:
    """What came out, and what it took.

    Attributes:
        opened: what the curator learned.
        equals_plaintext: whether the opened sum is the clear one, entry by entry.
        seconds: wall-clock seconds of encrypt (voting, encryption, signing), aggregate (decoding, checks and
            multiplications by the curator and every holder) and decrypt. The first two happen side by side in the
            workers; their common wall-clock time is divided in proportion to the workers' own clocks. With a journal
            those of the interrupted runs are in it, as far as they were committed.
        peak_memory_mb: of this process and its workers together, shared pages counted in each.
        continued_from: ballots that a journal held already.
    """

    opened: OpenedSum
    equals_plaintext: bool
    seconds: dict[str, float]
    ballot_bytes: int
    minimum_ballots: int
    peak_memory_mb: float
    continued_from: int = 0


@dataclass(frozen=True)
class _Shared:
    """What every batch needs. `common`: fields that every part of the contribution has in common with the whole."""

    round: Round
    kind: type[Contribution]
    common: dict[str, Any] = field(repr=False)
    mode: RandomnessMode
    expected: int
    holders: int


@dataclass(frozen=True)
class _Batch:
    numbers: range
    own: dict[str, Any] = field(repr=False)
    seeds: list[bytes] = field(repr=False)


@dataclass(frozen=True)
class _Work:
    parties: int
    products: list[BallotProduct]
    clear: NDArray[Any]
    messages: list[Message]
    encrypt: float
    aggregate: float
    process: tuple[str, int]
    memory_mb: float


def run_encrypted_sum(
    round_: Round,
    ceremony: Ceremony,
    contribution: Contribution,
    *,
    mode: RandomnessMode = "half",
    workers: int = 1,
    engine: Engine | None = None,
    journal: Journal | None = None,
    transcript: Transcript | None = None,
    progress: Progress = lambda parties: None,
) -> EncryptedSum:
    """Cast, count and open.

    Args:
        round_: agreed on by everybody. With a journal that was begun before, the journal's round takes its place: the
            same but for the nonce.
        ceremony: whose keys the parties and holders use; with a journal, `Journal.ceremony`.
        contribution: the parties' vectors.
        mode: how ciphertexts are randomised.
        workers: processes of this machine that batches are simulated in, when no engine is given.
        engine: where batches are simulated.
        journal: where each finished batch is committed.
        transcript: watches, redacted.
        progress: called with the number of parties done since the last call.

    Raises:
        JournalError: the journal cannot be used or written.
        EngineError: the engine cannot be used, or its workers died again and again.
    """
    engine = LocalEngine(workers) if engine is None else engine
    transcript = Transcript() if transcript is None else transcript
    kept = None if journal is None else journal.sum_of(round_)
    holder_count = len(ceremony.shares)
    if kept is None:
        state = SumState([BallotProduct(round_) for _ in range(1 + holder_count)], _zeros(round_), {})
        messages: list[Message] = []
    else:
        round_ = kept.round
        state, messages = kept.load(holder_count)
    continued_from = len(state.parties)
    if continued_from:
        progress(continued_from)
    tally = Tally(round_)
    holders = [KeyHolder(share, round_) for share in ceremony.shares]
    tally.merge(state.products[0])
    for holder, product in zip(holders, state.products[1:], strict=True):
        holder.observe_product(product)
    todo = _batches(len(round_.roster), state.parties)
    if todo:
        common = _common(contribution, todo[0])
        shared = _Shared(
            round_,
            type(contribution),
            common,
            mode,
            -(-sum(map(len, todo)) * round_.plan.ciphertexts // engine.workers),
            holder_count,
        )
        tasks = [partial(_batch, contribution, set(common), ceremony, numbers) for numbers in todo]
        memory: dict[tuple[str, int], float] = {}
        before = dict(state.seconds)
        encrypt = aggregate = 0.0
        started = time.perf_counter()
        results = engine.run(_work, shared, tasks)
        for work in results:
            merging = time.perf_counter()
            tally.merge(work.products[0])
            for holder, product in zip(holders, work.products[1:], strict=True):
                holder.observe_product(product)
            state.clear = state.clear + work.clear
            messages += work.messages
            encrypt += work.encrypt
            memory[work.process] = max(memory.get(work.process, 0.0), work.memory_mb)
            memory[_this_process()] = peak_memory_mb()
            state.memory_mb = max(state.memory_mb, sum(memory.values()))
            aggregate += work.aggregate + time.perf_counter() - merging
            share = (time.perf_counter() - started) / (encrypt + aggregate)
            state.seconds = {
                "encrypt": before.get("encrypt", 0.0) + encrypt * share,
                "aggregate": before.get("aggregate", 0.0) + aggregate * share,
            }
            if kept is not None:
                state.products = [a.merge(b) for a, b in zip(state.products, work.products, strict=True)]
                kept.commit(state, work.messages)
            progress(work.parties)
    # Batches come in any order; a transcript is in the order of the roster.
    transcript.extend(sorted(messages, key=lambda message: int(message.sender.removeprefix("party "))))
    voted = time.perf_counter()
    opened = _open(round_, tally, holders, transcript, kept)
    done = time.perf_counter()
    return EncryptedSum(
        opened,
        state.clear.tolist() == list(opened.sums),
        {**state.seconds, "decrypt": done - voted},
        Ballot.encoded_length(round_),
        round_.minimum_ballots,
        max(state.memory_mb, peak_memory_mb()),
        continued_from,
    )


def _zeros(round_: Round) -> NDArray[Any]:
    return np.zeros(round_.plan.length, dtype=np.int64)


def _batches(parties: int, done: frozenset[int]) -> list[range]:
    """The batches that are still to be cast. The cut does not depend on what is done."""
    todo = []
    for at in range(0, parties, BATCH):
        numbers = range(at, min(at + BATCH, parties))
        counted = done.intersection(numbers)
        if not counted:
            todo.append(numbers)
        elif len(counted) < len(numbers):
            raise JournalError(
                f"the journal has counted some, but not all, of the parties {numbers.start} to {numbers.stop - 1}: it "
                "was written by a version with other batches; start again in another directory"
            )
    return todo


def _common(contribution: Contribution, numbers: range) -> dict[str, Any]:
    """The fields that parts have in common with the whole."""
    part = contribution.part(numbers)
    names = [f.name for f in fields(contribution) if f.init]  # type: ignore[arg-type]
    large = [name for name in names if not isinstance(getattr(part, name), int | float | str | None)]
    return {name: getattr(part, name) for name in large if getattr(part, name) is getattr(contribution, name)}


def _batch(contribution: Contribution, common: set[str], ceremony: Ceremony, numbers: range) -> _Batch:
    part = contribution.part(numbers)
    own = {f.name: getattr(part, f.name) for f in fields(part) if f.init and f.name not in common}  # type: ignore[arg-type]
    return _Batch(numbers, own, [ceremony.signing_keys[number].seed() for number in numbers])


def _work(shared: _Shared, batch: _Batch) -> _Work:
    """One batch of parties in a worker: they post their ballots; the curator and every holder take them in."""
    started = time.perf_counter()
    round_ = shared.round
    transcript, board = Transcript(), Board()
    encryptor = Encryptor(round_.key, shared.mode, expected=shared.expected)
    keys = [SigningKey(seed) for seed in batch.seeds]
    contribution = shared.kind(**shared.common, **batch.own)
    for ballot in contribution.ballots(round_, batch.numbers, keys, encryptor):
        board.post(transcript.send(f"{round_.kind}: cast", f"party {ballot.party}", BOARD, "ballot", ballot.encode()))
    cast = time.perf_counter()
    products = []
    for _ in range(1 + shared.holders):
        product, rejected = BallotProduct(round_).add_all(board.messages)
        if rejected:
            raise rejected[0].error
        products.append(product)
    counted = time.perf_counter()
    return _Work(
        len(batch.numbers),
        products,
        contribution.clear_sum(round_, batch.numbers),
        transcript.messages,
        cast - started,
        counted - cast,
        _this_process(),
        peak_memory_mb(),
    )


def _open(
    round_: Round, tally: Tally, holders: Sequence[KeyHolder], transcript: Transcript, journal: SumJournal | None
) -> OpenedSum:
    phase = f"{round_.kind}: open"
    request = tally.close().encode(round_)
    parts = []
    for holder in holders[: round_.threshold_key.threshold]:
        name = f"holder {holder.number}"
        asked = TallyRequest.decode(transcript.send(phase, "curator", name, "tally request", request), round_)
        # A holder opens a round once: what it answered to an earlier run is not asked for again.
        answer = None if journal is None else journal.partial(holder.number)
        if answer is None:
            answer = holder.partially_decrypt(asked).encode(round_)
            if journal is not None:
                journal.keep_partial(holder.number, answer)
        answer = transcript.send(phase, name, "curator", "partial decryption", answer)
        parts.append(PartialDecryption.decode(answer, round_))
    return tally.open(parts)


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
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
