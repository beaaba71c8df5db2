"""The product of the ballots on a board, as one observer sees it: the curator's tally, or a key holder's own copy.

Both do the same: check a ballot, multiply it in, forget it. Ballots are taken in batches, because one gcd with the
new product tells whether every ciphertext of the batch was a unit; only when it was not are they looked at one by
one. A ballot that fails is reported and leaves no trace; the others of its batch count. That the product of Paillier
ciphertexts encrypts the sum is Paillier 1999; who multiplies what is in docs/protocols/tally.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from gmpy2 import mpz

from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import (
    BallotError,
    CiphertextError,
    DuplicateBallotError,
    MessageError,
    PsephosError,
    TooFewBallotsError,
    WrongKeyError,
    WrongRoundError,
)
from psephos.protocol.paillier.ciphertexts import (
    add_ciphertexts,
    decode_ciphertexts,
    encode_ciphertexts,
    product_is_unit,
)
from psephos.protocol.paillier.vectors import EncryptedVector

__all__ = ["BallotProduct", "Rejection"]

_REASONS = (BallotError, CiphertextError, MessageError, WrongKeyError)


@dataclass(frozen=True)
class Rejection:
    """A ballot that was not counted.

    Attributes:
        place: its place in the batch.
        party: whom it claims to come from; None when it could not be read so far.
        error: why.
    """

    place: int
    party: int | None
    error: PsephosError


class BallotProduct:
    """The running product of the ballots of one round, with who cast them."""

    def __init__(self, round_: Round) -> None:
        self.round = round_
        self._parties: set[int] = set()
        self._columns: tuple[mpz, ...] = (mpz(1),) * round_.plan.ciphertexts

    def add(self, ballot: Ballot | bytes) -> None:
        """Count one ballot, or raise why not (a BallotError, CiphertextError, MessageError or WrongKeyError)."""
        rejections = self.add_all([ballot])
        if rejections:
            raise rejections[0].error

    def add_all(self, ballots: Iterable[Ballot | bytes]) -> list[Rejection]:
        """Count a batch of ballots, encoded as they travel or decoded by `Ballot.decode`.

        Returns the rejected ones; all others are counted. Their errors are not raised: those of `Ballot.decode` and
        `Ballot.check`, DuplicateBallotError for a second ballot of a party, CiphertextError for a ciphertext that is no
        unit. The cost over the bare modular multiplications is one decoding, hash and signature check a ballot, and one
        gcd a batch.
        """
        rejections: list[Rejection] = []
        accepted: dict[int, tuple[int, Ballot]] = {}
        for place, received in enumerate(ballots):
            party = received.party if isinstance(received, Ballot) else None
            try:
                ballot = received if isinstance(received, Ballot) else Ballot.decode(received, self.round)
                party = ballot.party
                ballot.check(self.round)
                if ballot is received:
                    # The signature covers the payload: that is what counts, whatever else the record says.
                    ballot = Ballot.decode(ballot.encode(), self.round)
                if party in accepted and not product_is_unit(self.round.key, accepted[party][1].ciphertexts):
                    # Reject the first one now, as an observer of single ballots would have: who is counted must not
                    # depend on how the board was cut into batches.
                    rejections.append(_no_unit(*accepted.pop(party)))
                if party in self._parties or party in accepted:
                    raise DuplicateBallotError(f"party {party} has a ballot in this round already")
            except _REASONS as error:
                rejections.append(Rejection(place, party, error))
            else:
                accepted[party] = (place, ballot)
        key = self.round.key
        columns = self._multiply(accepted.values())
        if not product_is_unit(key, columns):
            for party, (_place, ballot) in list(accepted.items()):
                if not product_is_unit(key, ballot.ciphertexts):
                    rejections.append(_no_unit(*accepted.pop(party)))
            columns = self._multiply(accepted.values())
        self._columns = columns
        self._parties.update(accepted)
        return rejections

    def _multiply(self, ballots: Iterable[tuple[int, Ballot]]) -> tuple[mpz, ...]:
        columns = self._columns
        for _place, ballot in ballots:
            columns = add_ciphertexts(self.round.key, columns, ballot.ciphertexts)
        return columns

    def merge(self, other: BallotProduct) -> None:
        """Take in a partial product of the same round, so that a tally is a tree.

        Raises WrongRoundError, or DuplicateBallotError when a party is in both; then nothing changes.
        """
        if other.round.digest != self.round.digest:
            raise WrongRoundError("a partial product of another round")
        twice = self._parties & other._parties
        if twice:
            raise DuplicateBallotError(f"party {min(twice)} is counted in both partial products")
        self._columns = add_ciphertexts(self.round.key, self._columns, other._columns)
        self._parties |= other._parties

    @property
    def parties(self) -> tuple[int, ...]:
        """Who is counted, ascending. Public."""
        return tuple(sorted(self._parties))

    def __len__(self) -> int:
        return len(self._parties)

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
        return EncryptedVector(self.round.key, self.round.plan, self._columns, len(self))

    def encode(self) -> bytes:
        """This partial product as its owner keeps it: the counted parties as a bit map, then the ciphertexts."""
        size = (len(self.round.roster) + 7) // 8
        bitmap = sum(1 << party for party in self._parties).to_bytes(size, "big")
        return bitmap + encode_ciphertexts(self.round.key, self._columns)

    @classmethod
    def decode(cls, data: bytes, round_: Round) -> BallotProduct:
        """The inverse. Not a message: what is read here was not signed by anybody and is taken for one's own.

        Raises MessageError for a party that is not on the roster, CiphertextError for a wrong length or range.
        """
        size = (len(round_.roster) + 7) // 8
        bitmap = int.from_bytes(data[:size], "big")
        if bitmap >> len(round_.roster):
            raise MessageError("the partial product counts a party that is not on the roster")
        product = cls(round_)
        product._columns = decode_ciphertexts(round_.key, data[size:], round_.plan.ciphertexts)
        product._parties = {party for party in range(len(round_.roster)) if bitmap >> party & 1}
        return product

    @property
    def digest(self) -> bytes:
        """SHA-256 of the product as it would travel."""
        return hashlib.sha256(encode_ciphertexts(self.round.key, self._columns)).digest()

    def __repr__(self) -> str:
        return f"<BallotProduct of {len(self)} ballots, round {self.round.digest.hex()[:12]}>"


def _no_unit(place: int, ballot: Ballot) -> Rejection:
    party = ballot.party
    return Rejection(place, party, CiphertextError(f"party {party} sent a ciphertext that shares a factor with n"))
