"""The real protocols at test size, with every role's inputs, coins and messages recorded.

The drivers hand messages from role object to role object, as `psephos.simulate.encrypted_sum` and the other stages do,
but with recorded coins and under keys of 128 to 512 bits, which protect nothing: the statistical checks look at
thousands of messages, and nothing they look for depends on the size of a key. A test holds the drivers' messages to the
stages'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.curator.old_tally import OpenedSum, Tally
from psephos.parties.old_holder import KeyHolder
from psephos.parties.old_party import Party, Voter
from psephos.protocol.encrypted_sum.board import Board
from psephos.protocol.encrypted_sum.messages import Ballot, PartialDecryption, TallyRequest
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.votes import vote_round
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.private_key import PrivateKey, generate_private_key
from psephos.protocol.paillier.threshold import deal
from psephos.protocol.randomness import Randomness
from psephos.protocol.signing import SigningKey
from psephos.protocol.transcript import BOARD, Transcript
from psephos.security.model import Context
from psephos.simulate.ceremony import Ceremony

__all__ = ["FixedVoter", "Setup", "SumRun", "TrainedVoter", "open_sum", "run_tally_round", "setup"]

KEY_BITS = 128

Cast = Callable[[int, Round, Randomness], Ballot]


@dataclass(frozen=True)
class Setup:
    """A ceremony with what only the dealer and the analyst know."""

    private_key: PrivateKey = field(repr=False)
    ceremony: Ceremony


def setup(
    coins: Randomness, parties: int = 5, holders: int = 3, threshold: int = 2, *, key_bits: int = KEY_BITS
) -> Setup:
    """The ceremony of `psephos.simulate.ceremony`, the private key kept."""
    private_key = generate_private_key(key_bits, test_key=True, randomness=coins)
    threshold_key, shares = deal(private_key, holders=holders, threshold=threshold, randomness=coins)
    keys = tuple(SigningKey.generate(coins) for _ in range(parties))
    return Setup(private_key, Ceremony(threshold_key, tuple(k.verification_key for k in keys), tuple(shares), keys))


@dataclass(frozen=True)
class FixedVoter:
    """A classifier that votes as it was told."""

    choices: NDArray[np.int64]

    def predict_votes(self, X: NDArray[np.float64]) -> NDArray[np.integer]:
        """The choices, shape (N,)."""
        return self.choices


class TrainedVoter:
    """The nearest class mean of data of its own: repeating every sample changes the data and no vote.

    `samples` and `means` are what the cells "data" and "classifier" are about; their number is its size.
    """

    def __init__(self, seed: int, copies: int, classes: int) -> None:
        generator = np.random.default_rng([seed, 2])
        X = generator.normal(size=(40, 2))
        y = np.digitize(X[:, 0], np.linspace(-0.5, 0.5, classes - 1))
        self.samples, labels = np.repeat(X, copies, axis=0), np.repeat(y, copies)
        self.means = np.stack([self.samples[labels == k].mean(axis=0) for k in range(classes)])

    def predict_votes(self, X: NDArray[np.float64]) -> NDArray[np.integer]:
        """The class of the nearest mean for each row of X, shape (N,)."""
        distance: NDArray[np.integer] = np.linalg.norm(X[:, None] - self.means, axis=2).round(9).argmin(axis=1)
        return distance


@dataclass(frozen=True)
class SumRun:
    """One run of an encrypted sum and what came out."""

    round: Round
    transcript: Transcript
    opened: OpenedSum
    vectors: dict[int, list[int]] = field(default_factory=dict, repr=False)
    """What parties of the coalition encrypted: theirs to know."""


def open_sum(round_: Round, tally: Tally, holders: Sequence[Any], transcript: Transcript) -> OpenedSum:
    """The curator asks t holders and opens, as `psephos.simulate.encrypted_sum` does."""
    request = tally.close().encode(round_)
    parts = []
    for holder in holders[: round_.threshold_key.threshold]:
        name = f"holder {holder.number}"
        asked = TallyRequest.decode(transcript.send("open", "curator", name, "tally request", request), round_)
        answer = holder.partially_decrypt(asked).encode(round_)
        parts.append(
            PartialDecryption.decode(transcript.send("open", name, "curator", "partial decryption", answer), round_)
        )
    return tally.open(parts)


def run_sum(
    world: Setup,
    round_: Round,
    cast: Cast,
    coins: Callable[[str], Randomness],
    *,
    transcript: Transcript | None = None,
    present: Iterable[int] | None = None,
) -> SumRun:
    """Cast, count, open; every role's coins are recorded. `present`: who votes, everybody by default."""
    transcript = Transcript(secrets=True) if transcript is None else transcript
    board, tally = Board(), Tally(round_)
    holders = [KeyHolder(share, round_) for share in world.ceremony.shares]
    for party in range(len(round_.roster)) if present is None else present:
        name = f"party {party}"
        ballot = cast(party, round_, transcript.coins(name, coins(name)))
        board.post(transcript.send("cast", name, BOARD, "ballot", ballot.encode()))
    for observer in (tally.add_all, *(holder.observe_all for holder in holders)):
        for rejection in observer(board.messages):
            raise rejection.error
    return SumRun(round_, transcript, open_sum(round_, tally, holders, transcript))


def run_tally_round(
    context: Context, world: Setup, auxiliary: NDArray[np.float64], classes: int, voters: Sequence[Voter], label: str
) -> SumRun:
    """One round of the encrypted tally with alpha on `auxiliary`, float64 (N, d), through `Party.cast`."""
    ceremony = world.ceremony
    round_ = vote_round(
        ceremony.threshold_key,
        ceremony.roster,
        auxiliary,
        classes,
        test_key=True,
        randomness=context.coins(label, "round"),
    )

    def cast(party: int, round_: Round, coins: Randomness) -> Ballot:
        sender = Party(party, ceremony.signing_keys[party], classes=range(classes), voter=voters[party])
        return sender.cast(round_, auxiliary, encryptor=Encryptor(round_.key, randomness=coins, expected=8))

    return run_sum(world, round_, cast, lambda name: context.coins(label, name))
