"""Runs of the real protocols at test size, with every role's inputs, coins and messages recorded.

The coins come from the context, and keys have 64 to 512 bits: nothing that is tested depends on the size of the key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.audit.model import AnalysisContext
from psephos.protocol.encrypted_sum.messages import Ballot, PartialDecryption
from psephos.protocol.encrypted_sum.opened import OpenedSum, open_product
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Proofs, Round
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.private_key import PrivateKey, generate_private_key
from psephos.protocol.randomness import SYSTEM, Randomness, RecordedRandomness, ReplayedRandomness
from psephos.protocol.transcript import Transcript
from psephos.simulation.encrypted_sum import PartyFactory, RunConfig, simulate_sum
from psephos.simulation.key_setup import KeySetup, setup_keys
from psephos.specs.base import Participants, SumSpec

KEY_BITS = 128


@dataclass(frozen=True)
class AuditSetting:
    private_key: PrivateKey = field(repr=False)
    ceremony: KeySetup


def make_setting(
    coins: Randomness,
    parties: int = 5,
    holders: int = 3,
    threshold: int = 2,
    *,
    key_bits: int = KEY_BITS,
    degree: int = 1,
) -> AuditSetting:
    """Return the keys that `psephos.simulation.key_setup` makes, with the private key, which its coins give."""
    tape = RecordedRandomness(coins)
    key: dict[str, Any] = {"degree": degree, "test_key": True}
    ceremony = setup_keys(parties, key_bits=key_bits, holders=holders, threshold=threshold, randomness=tape, **key)
    replay = ReplayedRandomness(tape.tape())
    return AuditSetting(generate_private_key(key_bits, randomness=replay, **key), ceremony)


@dataclass(frozen=True)
class FixedVoter:
    """A classifier with given votes, int64 (N,), whatever the samples are."""

    choices: NDArray[np.int64]

    def predict_votes(self, X: NDArray[np.float64]) -> NDArray[np.integer]:
        return self.choices


class TrainedVoter:
    """A nearest-class-mean classifier; repeating every training sample changes its data, its size and no vote."""

    def __init__(self, seed: int, copies: int, classes: int) -> None:
        generator = np.random.default_rng([seed, 2])
        X = generator.normal(size=(40, 2))
        y = np.digitize(X[:, 0], np.linspace(-0.5, 0.5, classes - 1))
        self.samples, labels = np.repeat(X, copies, axis=0), np.repeat(y, copies)
        self.means = np.stack([self.samples[labels == k].mean(axis=0) for k in range(classes)])

    def predict_votes(self, X: NDArray[np.float64]) -> NDArray[np.integer]:
        distance: NDArray[np.integer] = np.linalg.norm(X[:, None] - self.means, axis=2).round(9).argmin(axis=1)
        return distance


@dataclass(frozen=True)
class SumRun:
    round: Round
    transcript: Transcript
    opened: OpenedSum
    vectors: Mapping[int, Sequence[int]] = field(default_factory=dict, repr=False)
    before: Sequence[SumRun] = field(default=(), repr=False)

    @cached_property
    def ballots(self) -> list[Ballot]:
        return [Ballot.decode(m.data, self.round) for m in self.transcript.messages if m.kind == "ballot" and m.data]

    @cached_property
    def parts(self) -> list[PartialDecryption]:
        sent = (m.data for m in self.transcript.messages if m.kind == "partial decryption")
        return [PartialDecryption.decode(data, self.round) for data in sent if data is not None]

    @cached_property
    def opens_to_its_sum(self) -> bool:
        """Whether the ballots and partial decryptions open to `opened`."""
        product, _ = BallotProduct(self.round).add_all(ballot.encode() for ballot in self.ballots)
        parts = self.parts[-self.round.threshold_key.threshold :]
        return open_product(product, parts).sums == tuple(self.opened.sums)


class RecordedTranscript(Transcript):
    """A transcript with every role's secrets, whose coins come from the context, so that a view can be reproduced."""

    def __init__(self, source: Callable[[str], Randomness]) -> None:
        super().__init__(secrets=True)
        self._source = source

    def coins(self, role: str, source: Randomness = SYSTEM) -> Randomness:
        return super().coins(role, self._source(role))


def run_sum(
    context: AnalysisContext,
    setting: AuditSetting,
    round_: Round,
    contribution: PartyFactory,
    label: str,
    **conditions: Any,
) -> SumRun:
    transcript = RecordedTranscript(partial(context.coins, label))
    run = simulate_sum(round_, setting.ceremony, contribution, RunConfig(transcript=transcript, **conditions))
    return SumRun(round_, transcript, run.opened, run.vectors)


def cast_ballot(
    setting: AuditSetting, round_: Round, contribution: PartyFactory, number: int, coins: Randomness
) -> tuple[Ballot, tuple[int, ...]]:
    """Return the ballot of one party, outside of any run, and the vector that it encrypts."""
    encryptor = Encryptor(round_.key, randomness=coins, expected=8)
    role = contribution.role(number, setting.ceremony.signing_keys[number], round_, encryptor, coins)
    step = role.start()
    return Ballot.decode(step.posts[0].data, round_), role.result(step.state)


def round_of(
    setting: AuditSetting,
    spec: SumSpec,
    coins: Randomness,
    *,
    minimum_ballots: int | None = None,
    proofs: Proofs = "none",
    confirmations: int = 0,
) -> Round:
    """Return a round of what a specification sums; its nonce comes from `coins`. Other arguments: `Participants`."""
    key, roster = setting.ceremony.threshold_key, setting.ceremony.roster
    nonce = coins.draw(16)
    participants = Participants(roster, minimum_ballots, True, proofs, confirmations, lambda key, about: nonce)
    return spec.terms(key, participants)
