"""The product of the ballots on a board, as one observer sees it: the curator, or a key holder for itself.

Every observer does the same: check a ballot, multiply it in, forget it. Ballots are taken in batches, because one gcd
with the new product tells whether every ciphertext of the batch was a unit; only when it was not are they looked at one
by one. That the product of Paillier ciphertexts encrypts the sum is Paillier 1999; who multiplies what is in
docs/protocols/tally.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gmpy2 import mpz

from psephos.protocol.encrypted_sum.messages import Ballot, Close, Confirmation, decode_parties, encode_parties
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

__all__ = ["BallotProduct", "Closed", "Observer", "Rejection", "Watching"]


@dataclass(frozen=True)
class Rejection:
    """A ballot that was not counted: its place in the batch, and why."""

    place: int
    error: PsephosError


@dataclass(frozen=True)
class BallotProduct:
    """The product of some ballots of one round, and who cast them: a value.

    Attributes:
        round: the round.
        members: the counted parties, a bit map over the roster (bit p is party p).
        columns: the product, one ciphertext per ciphertext of a ballot.
    """

    round: Round = field(repr=False)
    members: int = field(default=0, repr=False)
    columns: tuple[mpz, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not self.columns:
            object.__setattr__(self, "columns", (mpz(1),) * self.round.plan.ciphertexts)

    def add_all(self, ballots: Iterable[bytes]) -> tuple[BallotProduct, list[Rejection]]:
        """The product with a batch of encoded ballots in it, and those that were not counted.

        A ballot is rejected, and leaves no trace, for any error of `Ballot.decode`, for CiphertextError (a ciphertext
        that is no unit), ProofError (its proof does not hold) and DuplicateBallotError (a second one of its party). The
        cost over the bare modular multiplications is one decoding, hash and signature check a ballot, one gcd a
        batch, and the proofs that the round demands, checked together.
        """
        rejections: list[Rejection] = []
        received: list[tuple[int, Ballot]] = []
        for place, data in enumerate(ballots):
            try:
                received.append((place, Ballot.decode(data, self.round)))
            except (BallotError, CiphertextError, MessageError) as error:
                rejections.append(Rejection(place, error))
        accepted, refused = self._first_of_each(received)
        columns = self._times(accepted)
        if not self._sound(accepted, columns):
            # Looked at one by one, as an observer of single ballots would: who is counted, and why somebody is not,
            # must not depend on how the board was cut into batches.
            accepted, refused = self._first_of_each(received, checked=True)
            columns = self._times(accepted)
        rejections += refused
        members = self.members | sum(1 << ballot.party for _place, ballot in accepted)
        return BallotProduct(self.round, members, columns), rejections

    def _first_of_each(
        self, ballots: Sequence[tuple[int, Ballot]], *, checked: bool = False
    ) -> tuple[list[tuple[int, Ballot]], list[Rejection]]:
        """One ballot per party that has none yet, and the others; `checked`: the first that is sound."""
        chosen, refused, members = [], [], self.members
        for place, ballot in ballots:
            try:
                if members >> ballot.party & 1:
                    raise DuplicateBallotError(f"party {ballot.party} has a ballot in this round already")
                if checked:
                    self._check(ballot)
            except (CiphertextError, DuplicateBallotError, ProofError) as error:
                refused.append(Rejection(place, error))
                continue
            members |= 1 << ballot.party
            chosen.append((place, ballot))
        return chosen, refused

    def _sound(self, ballots: Sequence[tuple[int, Ballot]], columns: tuple[mpz, ...]) -> bool:
        """Whether all these ballots are units with proofs that hold; `columns` is the product with them in it."""
        if not product_is_unit(self.round.key, columns):
            return False
        try:
            check_proofs(self.round, [(ballot.party, ballot.ciphertexts, ballot.proof) for _place, ballot in ballots])
        except ProofError:
            return False
        return True

    def _check(self, ballot: Ballot) -> None:
        if not product_is_unit(self.round.key, ballot.ciphertexts):
            raise CiphertextError(f"party {ballot.party} sent a ciphertext that shares a factor with n")
        check_proofs(self.round, [(ballot.party, ballot.ciphertexts, ballot.proof)])

    def _times(self, ballots: Iterable[tuple[int, Ballot]]) -> tuple[mpz, ...]:
        return add_ciphertexts(self.round.key, self.columns, *(ballot.ciphertexts for _place, ballot in ballots))

    def merge(self, other: BallotProduct) -> BallotProduct:
        """The product of both, so that a tally is a tree.

        Raises WrongRoundError, or DuplicateBallotError when a party is in both.
        """
        if other.round.digest != self.round.digest:
            raise WrongRoundError("a partial product of another round")
        if twice := self.members & other.members:
            raise DuplicateBallotError(f"party {_numbers(twice)[0]} is counted in both partial products")
        columns = add_ciphertexts(self.round.key, self.columns, other.columns)
        return BallotProduct(self.round, self.members | other.members, columns)

    @property
    def parties(self) -> tuple[int, ...]:
        """Who is counted, ascending. Public."""
        return _numbers(self.members)

    def __len__(self) -> int:
        return self.members.bit_count()

    def check_minimum(self) -> None:
        """Raise TooFewBallotsError below the round's agreed minimum."""
        if len(self) < self.round.minimum_ballots:
            raise TooFewBallotsError(
                f"{len(self)} ballots were seen and the round's minimum is {self.round.minimum_ballots}; "
                "wait for more or agree on another round"
            )

    def vector(self) -> EncryptedVector:
        """The encrypted sum; raises TooFewBallotsError below the minimum."""
        self.check_minimum()
        return EncryptedVector(self.round.key, self.round.plan, self.columns, len(self))

    def encode(self) -> bytes:
        """This product as its owner keeps it: the counted parties, then the ciphertexts."""
        return encode_parties(self.members, self.round) + encode_ciphertexts(self.round.key, self.columns)

    @classmethod
    def decode(cls, data: bytes, round_: Round) -> BallotProduct:
        """The inverse. Not a message: what is read here was not signed by anybody and is taken for one's own.

        Raises MessageError for a party that is not on the roster, CiphertextError for a wrong length or range.
        """
        size = (len(round_.roster) + 7) // 8
        members = decode_parties(data[:size], round_)
        return cls(round_, members, decode_ciphertexts(round_.key, data[size:], round_.plan.ciphertexts))

    @property
    def digest(self) -> bytes:
        """SHA-256 of the product as it would travel."""
        return hashlib.sha256(encode_ciphertexts(self.round.key, self.columns)).digest()

    def __repr__(self) -> str:
        return f"<BallotProduct of {len(self)} ballots, round {self.round.digest.hex()[:12]}>"


def _numbers(bitmap: int) -> tuple[int, ...]:
    return tuple(place for place, bit in enumerate(reversed(f"{bitmap:b}")) if bit == "1")


@storable
@dataclass(frozen=True)
class Watching:
    """Ballots are on their way; `members` and `columns` are those of the product so far.

    `closing`: the end of the vote is on its way to the board, and what comes before it there still counts.
    """

    members: int = field(repr=False)
    columns: tuple[mpz, ...] = field(repr=False)
    closing: bool = False


@storable
@dataclass(frozen=True)
class Closed:
    """The vote is over: `members` and `columns` are those of the ballots that stood on the board before its end.

    Attributes:
        confirmed: the holders that have said on the board what they would open, and its digest.
    """

    members: int = field(repr=False)
    columns: tuple[mpz, ...] = field(repr=False)
    confirmed: tuple[tuple[int, bytes], ...] = ()

    def with_confirmation(self, round_: Round, entry: Entry) -> Closed:
        """The same with one confirmation more.

        Raises MessageError, WrongRoundError, ThresholdError (in another's name), UnexpectedMessageError (a second one).
        """
        said = Confirmation.decode(entry.data, round_)
        if entry.sender != f"holder {said.holder}":
            raise ThresholdError(f"{entry.sender} confirmed a product in the name of holder {said.holder}")
        if said.holder in dict(self.confirmed):
            raise UnexpectedMessageError(f"holder {said.holder} has confirmed a product before")
        return replace(self, confirmed=(*self.confirmed, (said.holder, said.product_digest)))

    def agreeing(self, digest: bytes) -> list[int]:
        """The holders that have confirmed the product of this digest."""
        return [holder for holder, product in self.confirmed if product == digest]


class Observer(Machine):
    """Whoever multiplies the ballots of a round: the base of the curator and of the key holders."""

    reads = frozenset({Kind.BALLOT, Kind.CLOSE})

    def __init__(self, name: str, round_: Round, *, seen: BallotProduct | None = None) -> None:
        """
        Args:
            name: "curator", "holder 1", ...
            round_: the round to watch.
            seen: the product of ballots that this observer has multiplied before, in another process of its own.

        Raises WrongRoundError when `seen` is of another round.
        """
        self.name, self.round = name, round_
        self._seen = BallotProduct(round_) if seen is None else BallotProduct(round_).merge(seen)

    def _start(self) -> Step:
        """Watch."""
        return Step(Watching(self._seen.members, self._seen.columns))

    @takes(Watching, Kind.BALLOT, batch=True)
    def observe(self, state: Watching, entries: Sequence[Entry]) -> Step:
        """Multiply in what counts."""
        product, rejections = self.product(state).add_all(entry.data for entry in entries)
        refused = tuple(Refusal(entries[rejection.place], rejection.error) for rejection in rejections)
        return Step(replace(state, members=product.members, columns=product.columns), (), refused)

    @takes(Watching, Kind.CLOSE)
    def end(self, state: Any, entry: Entry) -> Step:
        """Count nothing that comes later: where the curator closes the vote is the same place for everybody."""
        if entry.sender != "curator":
            raise UnexpectedMessageError(f"{self.name}: {entry.sender} closed the vote, which is the curator's to do")
        Close.decode(entry.data, self.round)
        self.product(state).check_minimum()  # here for everybody: a close that one observer takes, all take
        return self.closed(Closed(state.members, state.columns))

    def closed(self, state: Closed) -> Step:
        """What it does at the end of the vote."""
        return Step(state)

    @takes(Closed, Kind.BALLOT)
    def late(self, state: Closed, entry: Entry) -> Step:
        """Refuse it by name."""
        raise self.lateness(entry)

    def lateness(self, entry: Entry) -> LateBallotError:
        """Of a ballot that came too late."""
        return LateBallotError(f"{self.name}: the ballot of {entry.sender} came after the vote was closed")

    def product(self, state: Any) -> BallotProduct:
        """Of the ballots seen so far."""
        return BallotProduct(self.round, state.members, state.columns)

    def _result(self, state: Any) -> Any:
        """The product."""
        return self.product(state)
