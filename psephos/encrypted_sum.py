"""One encrypted sum from first message to last, every role in this machine (DESIGN section 2).

Parties work in batches that worker processes take one after the other; a worker returns partial tallies, not
ballots, so memory does not grow with the number of parties. Each holder multiplies the ballots for itself, as it would
on its own machine. The simulation also adds the vectors in the clear, which is how it can say that the count is exact.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from curator.tally import OpenedSum, Tally
from parties.holder import KeyHolder
from parties.party import Party, Voter
from protocol.board import Board
from protocol.encryption import Encryptor, RandomnessMode
from protocol.messages import Ballot, PartialDecryption, TallyRequest
from protocol.product import BallotProduct
from protocol.rounds import Round, RoundKind
from protocol.signing import SigningKey
from protocol.transcript import BOARD, Message, Transcript
from psephos.ceremony import Ceremony

__all__ = ["Contribution", "EncryptedSum", "VectorContribution", "VoteContribution", "run_encrypted_sum"]

BATCH = 32
"""Parties per batch: large enough that one gcd is nothing, small enough that 20,000 parties show progress."""

Progress = Callable[[int], object]


class Contribution(Protocol):
    """What the parties of one batch put into the sum."""

    def ballots(
        self, round_: Round, numbers: range, keys: Sequence[SigningKey], encryptor: Encryptor
    ) -> Iterator[Ballot]:
        """The ballots of these parties, in order."""

    def clear_sum(self, round_: Round, numbers: range) -> NDArray[Any]:
        """The exact sum of the same vectors, without any encryption: int64 or Python integers, (plan.length,)."""

    def part(self, numbers: range) -> Contribution:
        """The same for these parties only: what one worker is sent."""


@dataclass(frozen=True)
class VoteContribution:
    """Every party votes on the auxiliary set with its own classifier.

    Attributes:
        voters: one classifier per party of `numbers`, in order.
        auxiliary: float64 (N, d).
        classes: K.
        first: number of the first of these parties.
    """

    voters: Sequence[Voter] = field(repr=False)
    auxiliary: NDArray[np.float64] = field(repr=False)
    classes: int
    first: int = 0

    def ballots(
        self, round_: Round, numbers: range, keys: Sequence[SigningKey], encryptor: Encryptor
    ) -> Iterator[Ballot]:
        for number, key in zip(numbers, keys, strict=True):
            voter = self.voters[number - self.first]
            party = Party(number, key, classes=range(self.classes), voter=voter)
            yield party.cast(round_, self.auxiliary, encryptor=encryptor)

    def clear_sum(self, round_: Round, numbers: range) -> NDArray[np.int64]:
        counts = np.zeros((len(self.auxiliary), self.classes), dtype=np.int64)
        rows = np.arange(len(self.auxiliary))
        for number in numbers:
            counts[rows, self.voters[number - self.first].predict_votes(self.auxiliary)] += 1
        return counts[:, 1:].reshape(-1)

    def part(self, numbers: range) -> VoteContribution:
        chosen = self.voters[numbers.start - self.first : numbers.stop - self.first]
        return VoteContribution(chosen, self.auxiliary, self.classes, numbers.start)


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
            workers; their common wall-clock time is divided in proportion to the workers' own clocks.
        peak_memory_mb: of this process and its workers together, shared pages counted in each.
    """

    opened: OpenedSum
    equals_plaintext: bool
    seconds: dict[str, float]
    ballot_bytes: int
    minimum_ballots: int
    peak_memory_mb: float


@dataclass(frozen=True)
class _Work:
    tally: BallotProduct
    holders: list[BallotProduct]
    clear: NDArray[Any]
    messages: list[Message]
    encrypt: float
    aggregate: float
    process: int
    memory_mb: float


def run_encrypted_sum(
    round_: Round,
    ceremony: Ceremony,
    contribution: Contribution,
    *,
    mode: RandomnessMode = "half",
    workers: int = 1,
    transcript: Transcript | None = None,
    progress: Progress = lambda parties: None,
) -> EncryptedSum:
    """Cast, count and open.

    Args:
        round_: agreed on by everybody.
        ceremony: whose keys the parties and holders use.
        contribution: the parties' vectors.
        mode: how ciphertexts are randomised.
        workers: processes that the parties of a batch are simulated in.
        transcript: watches, redacted.
        progress: called with the number of parties done since the last call.
    """
    transcript = Transcript() if transcript is None else transcript
    parties = len(round_.roster)
    tally = Tally(round_)
    holders = [KeyHolder(share, round_) for share in ceremony.shares]
    clear = np.zeros(round_.plan.length, dtype=object)  # Python integers: noisy sums can pass 63 bits
    batches = [range(at, min(at + BATCH, parties)) for at in range(0, parties, BATCH)]
    share_of_work = -(-parties * round_.plan.ciphertexts // workers)
    tasks = (
        delayed(_work)(
            round_,
            contribution.part(numbers),
            numbers,
            [ceremony.signing_keys[number].seed() for number in numbers],
            mode,
            share_of_work,
            len(holders),
        )
        for numbers in batches
    )
    started = time.perf_counter()
    encrypt = aggregate = 0.0
    memory: dict[int, float] = {}
    for numbers, work in zip(batches, Parallel(n_jobs=workers, return_as="generator")(tasks), strict=True):
        merging = time.perf_counter()
        tally.merge(work.tally)
        for holder, product in zip(holders, work.holders, strict=True):
            holder.observe_product(product)
        clear += work.clear
        transcript.extend(work.messages)
        encrypt += work.encrypt
        aggregate += work.aggregate + time.perf_counter() - merging
        memory[work.process] = max(memory.get(work.process, 0.0), work.memory_mb)
        progress(len(numbers))
    voted = time.perf_counter()
    opened = _open(round_, tally, holders, transcript)
    done = time.perf_counter()
    memory[os.getpid()] = _peak_memory_mb()
    share = (voted - started) / (encrypt + aggregate)
    return EncryptedSum(
        opened,
        clear.tolist() == opened.sums,
        {"encrypt": encrypt * share, "aggregate": aggregate * share, "decrypt": done - voted},
        Ballot.encoded_length(round_),
        round_.minimum_ballots,
        sum(memory.values()),
    )


def _work(
    round_: Round,
    contribution: Contribution,
    numbers: range,
    seeds: Sequence[bytes],
    mode: RandomnessMode,
    expected: int,
    holders: int,
) -> _Work:
    """One batch of parties in a worker: they post their ballots; the curator and every holder take them in."""
    started = time.perf_counter()
    transcript, board = Transcript(), Board()
    encryptor = Encryptor(round_.key, mode, expected=expected)
    keys = [SigningKey(seed) for seed in seeds]
    for ballot in contribution.ballots(round_, numbers, keys, encryptor):
        board.post(transcript.send("cast", f"party {ballot.party}", BOARD, "ballot", ballot.encode()))
    cast = time.perf_counter()
    products = [BallotProduct(round_) for _ in range(1 + holders)]
    for product in products:
        rejected = product.add_all(board.messages)
        if rejected:
            raise rejected[0].error
    counted = time.perf_counter()
    clear = contribution.clear_sum(round_, numbers)
    return _Work(
        products[0],
        products[1:],
        clear,
        transcript.messages,
        cast - started,
        counted - cast,
        os.getpid(),
        _peak_memory_mb(),
    )


def _open(round_: Round, tally: Tally, holders: Sequence[KeyHolder], transcript: Transcript) -> OpenedSum:
    request = tally.close().encode(round_)
    parts = []
    for holder in holders[: round_.threshold_key.threshold]:
        name = f"holder {holder.number}"
        asked = TallyRequest.decode(transcript.send("open", "curator", name, "tally request", request), round_)
        answer = holder.partially_decrypt(asked).encode(round_)
        answer = transcript.send("open", name, "curator", "partial decryption", answer)
        parts.append(PartialDecryption.decode(answer, round_))
    return tally.open(parts)


def _peak_memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
