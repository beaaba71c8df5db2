"""The product of the ballots on a board, as the curator and every key holder compute it for themselves.

Ballots are processed in batches: one gcd with the new product tells whether every ciphertext of the batch was a unit,
and only if not are the ballots checked one by one. The product of Paillier ciphertexts encrypts the sum of their
plaintexts (Paillier 1999); docs/protocols/tally.md describes who computes which product.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gmpy2 import mpz

from psephos.protocol.encrypted_sum.messages import (
    Ballot,
    Close,
    Confirmation,
    NoiseBallot,
    PartialDecryption,
    decode_members,
    encode_members,
)
from psephos.protocol.encrypted_sum.proofs import check_proofs
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import (
    BallotError,
    CiphertextError,
    DuplicateBallotError,
    LateBallotError,
    MessageError,
    ProofError,
    PsephosError,
    ThresholdError,
    TooFewBallotsError,
    UnexpectedMessageError,
    WrongRoundError,
)
from psephos.protocol.paillier.ciphertexts import (
    add_ciphertexts,
    decode_ciphertexts,
    encode_ciphertexts,
    product_is_unit,
)
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.roles import Entry, Machine, Refusal, Step, takes
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind


@dataclass(frozen=True)
class RejectedBallot:
    place: int
    error: PsephosError


@dataclass(frozen=True)
class BallotProduct:
    """The product of the vectors of `members`, a bit map (`Round.sender`), in one round: `columns` of ciphertexts."""

    round: Round = field(repr=False)
    members: int = field(default=0, repr=False)
    columns: tuple[mpz, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not self.columns:
            object.__setattr__(self, "columns", (mpz(1),) * self.round.plan.ciphertexts)

    def add_all(self, ballots: Iterable[bytes]) -> tuple[BallotProduct, list[RejectedBallot]]:
        """Multiply a batch of encoded ballots into the product.

        A ballot is rejected, and does not affect the product, for any error of `Ballot.decode`, and for CiphertextError
        (not a unit), ProofError (its proof does not hold) and DuplicateBallotError (its party has a ballot).
        """
        rejections: list[RejectedBallot] = []
        received: list[tuple[int, Ballot]] = []
        for place, data in enumerate(ballots):
            try:
                received.append((place, Ballot.decode(data, self.round)))
            except (BallotError, CiphertextError, MessageError) as error:
                rejections.append(RejectedBallot(place, error))
        accepted, refused = self._first_of_each(received)
        columns = self._times(accepted)
        try:
            self._check(accepted, columns)
        except (CiphertextError, ProofError):
            # Check one ballot at a time, as an observer of single ballots would: which ballots count, and the reason
            # for each rejection, must not depend on how the board was divided into batches.
            accepted, refused = self._first_of_each(received, checked=True)
            columns = self._times(accepted)
        rejections += refused
        members = self.members | sum(1 << ballot.party for _place, ballot in accepted)
        return BallotProduct(self.round, members, columns), rejections

    def _first_of_each(
        self, ballots: Sequence[tuple[int, Ballot]], *, checked: bool = False
    ) -> tuple[list[tuple[int, Ballot]], list[RejectedBallot]]:
        """Select the first ballot of every party that is not counted yet."""
        chosen, refused, members = [], [], self.members
        for place, ballot in ballots:
            try:
                if members >> ballot.party & 1:
                    raise DuplicateBallotError(f"party {ballot.party} has a ballot in this round already")
                if checked:
                    self._check([(place, ballot)], ballot.ciphertexts)
            except (CiphertextError, DuplicateBallotError, ProofError) as error:
                refused.append(RejectedBallot(place, error))
                continue
            members |= 1 << ballot.party
            chosen.append((place, ballot))
        return chosen, refused

    def _check(self, ballots: Sequence[tuple[int, Ballot]], columns: Sequence[mpz]) -> None:
        """Raise an error unless all ballots are units with valid proofs; `columns` is a product that has them in it."""
        if not product_is_unit(self.round.key, columns):
            raise CiphertextError(f"party {ballots[0][1].party} sent a ciphertext that shares a factor with n")
        check_proofs(self.round, [(ballot.party, ballot.ciphertexts, ballot.proof) for _place, ballot in ballots])

    def _times(self, ballots: Iterable[tuple[int, Ballot]]) -> tuple[mpz, ...]:
        return add_ciphertexts(self.round.key, self.columns, *(ballot.ciphertexts for _place, ballot in ballots))

    def add_noise(self, sender: str, data: bytes) -> BallotProduct:
        noise = NoiseBallot.decode(data, self.round)
        if sender != f"holder {noise.holder}":
            raise ThresholdError(f"{sender} posted noise in the name of holder {noise.holder}")
        place = self.round.holder_place(noise.holder)
        if self.members >> place & 1:
            raise DuplicateBallotError(f"holder {noise.holder} has added noise in this round already")
        check_proofs(self.round, [(place, noise.ciphertexts, noise.proof)])
        columns = add_ciphertexts(self.round.key, self.columns, noise.ciphertexts)
        return BallotProduct(self.round, self.members | 1 << place, columns)

    def merge(self, other: BallotProduct) -> BallotProduct:
        """Multiply two products of the same round, so that a tally can be computed as a tree."""
        if other.round.digest != self.round.digest:
            raise WrongRoundError("the partial products belong to different rounds")
        if twice := self.members & other.members:
            raise DuplicateBallotError(f"{self.round.sender(_numbers(twice)[0])} is counted in both partial products")
        columns = add_ciphertexts(self.round.key, self.columns, other.columns)
        return BallotProduct(self.round, self.members | other.members, columns)

    @property
    def parties(self) -> tuple[int, ...]:
        return _numbers(self._ballots)

    @property
    def _ballots(self) -> int:
        return self.members & ((1 << len(self.round.roster)) - 1)

    def __len__(self) -> int:
        return self._ballots.bit_count()

    @property
    def missing_noise(self) -> tuple[int, ...]:
        """Numbers of the key holders whose noise must be in the product and is not."""
        expected = (1 << self.round.senders) - (1 << len(self.round.roster))
        return tuple(place - len(self.round.roster) + 1 for place in _numbers(expected & ~self.members))

    def check_minimum(self) -> None:
        """Raise an error for a product that nobody opens."""
        if len(self) < self.round.minimum_ballots:
            raise TooFewBallotsError(f"{len(self)} ballots were counted; the minimum is {self.round.minimum_ballots}")
        if missing := self.missing_noise:
            raise TooFewBallotsError(
                f"the key holders add the noise of this round, and that of {', '.join(f'holder {n}' for n in missing)} "
                "is missing: without it the sum is not opened"
            )

    def vector(self) -> EncryptedVector:
        self.check_minimum()
        return EncryptedVector(self.round.key, self.round.plan, self.columns, self.addends)

    @property
    def addends(self) -> int:
        return self.members.bit_count()

    def encode(self) -> bytes:
        """Encode the product for storage by its owner: the bit map, then the ciphertexts."""
        return encode_members(self.members, self.round) + encode_ciphertexts(self.round.key, self.columns)

    @classmethod
    def decode(cls, data: bytes, round_: Round) -> BallotProduct:
        """Decode a product that its owner stored. This is not a message: the bytes are not signed and are trusted."""
        size = (round_.senders + 7) // 8
        members = decode_members(data[:size], round_)
        return cls(round_, members, decode_ciphertexts(round_.key, data[size:], round_.plan.ciphertexts))

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(encode_ciphertexts(self.round.key, self.columns)).digest()


def _numbers(bitmap: int) -> tuple[int, ...]:
    return tuple(place for place, bit in enumerate(reversed(f"{bitmap:b}")) if bit == "1")


@storable
@dataclass(frozen=True)
class VoteOpen:
    """State while ballots are accepted; `closing`: the curator's close is sent, and not on the board yet."""

    members: int = field(repr=False)
    columns: tuple[mpz, ...] = field(repr=False)
    closing: bool = False


@storable
@dataclass(frozen=True)
class VoteClosed:
    """State after the close, with (holder, digest) of each confirmation and, for a reader, the partial decryptions."""

    members: int = field(repr=False)
    columns: tuple[mpz, ...] = field(repr=False)
    confirmed: tuple[tuple[int, bytes], ...] = ()
    parts: tuple[PartialDecryption, ...] = ()

    def with_confirmation(self, round_: Round, entry: Entry) -> VoteClosed:
        confirmation = Confirmation.decode(entry.data, round_)
        if entry.sender != f"holder {confirmation.holder}":
            raise ThresholdError(f"{entry.sender} confirmed a product in the name of holder {confirmation.holder}")
        if confirmation.holder in dict(self.confirmed):
            raise UnexpectedMessageError(f"holder {confirmation.holder} has confirmed a product before")
        return replace(self, confirmed=(*self.confirmed, (confirmation.holder, confirmation.product_digest)))

    def agreeing(self, digest: bytes) -> list[int]:
        return [holder for holder, product in self.confirmed if product == digest]


class Observer(Machine):
    """A role that multiplies the ballots of a round; the base class of the curator and of the key holders."""

    reads = frozenset({Kind.BALLOT, Kind.NOISE_BALLOT, Kind.CLOSE})

    def __init__(self, name: str, round_: Round, *, seen: BallotProduct | None = None) -> None:
        self.name, self.round = name, round_
        self._seen = BallotProduct(round_) if seen is None else BallotProduct(round_).merge(seen)

    def _start(self) -> Step:
        return Step(VoteOpen(self._seen.members, self._seen.columns))

    @takes(VoteOpen, Kind.BALLOT, batch=True)
    def observe(self, state: VoteOpen, entries: Sequence[Entry]) -> Step:
        product, rejections = self.product(state).add_all(entry.data for entry in entries)
        refused = tuple(Refusal(entries[rejection.place], rejection.error) for rejection in rejections)
        return Step(replace(state, members=product.members, columns=product.columns), (), refused)

    @takes(VoteOpen, Kind.NOISE_BALLOT)
    def observe_noise(self, state: VoteOpen, entry: Entry) -> Step:
        product = self.product(state).add_noise(entry.sender, entry.data)
        return Step(replace(state, members=product.members, columns=product.columns))

    @takes(VoteOpen, Kind.CLOSE)
    def end(self, state: Any, entry: Entry) -> Step:
        """End the vote: no observer counts ballots that follow the curator's close on the board."""
        if entry.sender != "curator":
            raise UnexpectedMessageError(f"{self.name}: {entry.sender} closed the vote, which is the curator's to do")
        Close.decode(entry.data, self.round)
        self.product(state).check_minimum()  # every observer checks this, so all of them accept the same close
        return self.closed(VoteClosed(state.members, state.columns))

    def closed(self, state: VoteClosed) -> Step:
        return Step(state)

    @takes(VoteClosed, Kind.BALLOT)
    @takes(VoteClosed, Kind.NOISE_BALLOT)
    def late(self, state: VoteClosed, entry: Entry) -> Step:
        raise self.lateness(entry)

    @takes(VoteClosed, Kind.CONFIRMATION)
    def receive_confirmation(self, state: VoteClosed, entry: Entry) -> Step:
        return Step(state.with_confirmation(self.round, entry))

    def lateness(self, entry: Entry) -> LateBallotError:
        return LateBallotError(f"{self.name}: the ballot of {entry.sender} came after the vote was closed")

    def product(self, state: Any) -> BallotProduct:
        return BallotProduct(self.round, state.members, state.columns)

    def _result(self, state: Any) -> Any:
        return self.product(state)
