"""A key holder: one of the parties, with a share of the key.

It watches the same public board as the curator, multiplies the ballots it has seen for itself, and opens that product
and nothing else, once per round, when there are enough ballots in it. Asked for the same product again, it gives the
same bytes again, which tells nothing new. Where a round asks for confirmations, holders first say on the board what
they would open. docs/protocols/tally.md has the messages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gmpy2 import mpz

from psephos.protocol.encrypted_sum.messages import Confirmation, PartialDecryption, TallyRequest
from psephos.protocol.encrypted_sum.product import BallotProduct, Closed, Observer, Watching
from psephos.protocol.encrypted_sum.proofs import prove_opening
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import (
    AlreadyDoneError,
    AlreadyOpenedError,
    UnconfirmedError,
    UnexpectedMessageError,
    UnseenBallotError,
)
from psephos.protocol.paillier.threshold import KeyShare, check_same_ceremony
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.roles import BOARD, Entry, Post, Step, takes
from psephos.protocol.storage.store import OnceLedger
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind

__all__ = ["Answered", "KeyHolder"]


@storable
@dataclass(frozen=True)
class Answered:
    """The round is opened: the product, what was asked, and the answer, which may be given again."""

    members: int = field(repr=False)
    columns: tuple[mpz, ...] = field(repr=False)
    request: TallyRequest
    answer: bytes = field(repr=False)


class KeyHolder(Observer):
    """One holder in one round: "holder J"."""

    reads = frozenset({Kind.BALLOT, Kind.CLOSE, Kind.CONFIRMATION, Kind.TALLY_REQUEST})

    def __init__(
        self,
        share: KeyShare,
        round_: Round,
        *,
        openings: OnceLedger | None = None,
        seen: BallotProduct | None = None,
        randomness: Randomness = SYSTEM,
        public: bool = False,
    ) -> None:
        """
        Args:
            share: this holder's share of the key.
            round_: the round to watch.
            openings: where it remembers what it has opened; on disk wherever the holder can be restarted.
            seen: the product of ballots that another process of this holder has multiplied.
            randomness: of the proof that a partial decryption is right.
            public: answer on the board, where everybody may know the sum, in place of to the curator alone.

        Raises WrongKeyError when the share is of another key or ceremony than the round's.
        """
        check_same_ceremony(round_.threshold_key, share.threshold_key)
        super().__init__(f"holder {share.holder}", round_, seen=seen)
        self.number = share.holder
        self._share = share
        self._openings = OnceLedger() if openings is None else openings
        self._randomness, self._public = randomness, public

    def closed(self, state: Closed) -> Step:
        """Confirm the product, where the round asks for that: one product, whatever board this holder is shown."""
        seen = self.product(state)
        if not self.round.confirmations:
            return Step(state)
        confirmation = Confirmation(self.round.digest, self.number, seen.digest)
        try:
            said = self._openings.do_once(b"confirmed" + self.round.digest, seen.digest, confirmation.encode)
        except AlreadyDoneError:
            raise AlreadyOpenedError(
                f"{self.name} has confirmed another product of round {self.round.digest.hex()[:12]} before: it was "
                "shown two boards, or set back to an old copy"
            ) from None
        return Step(state, (Post(BOARD, said, f"{self.round.kind}: confirm"),))

    @takes(Closed, Kind.CONFIRMATION)
    def hear(self, state: Closed, entry: Entry) -> Step:
        """Note what another holder would open."""
        return Step(state.with_confirmation(self.round, entry))

    @takes(Watching, Kind.TALLY_REQUEST)
    @takes(Closed, Kind.TALLY_REQUEST)
    def open(self, state: Watching | Closed, entry: Entry) -> Step:
        """Open the product of the observed ballots, once: `openings` keeps the answer before it leaves."""
        request, seen = self._asked(entry), self.product(state)
        seen.check_minimum()
        self._check_confirmed(state, seen.digest)
        if unseen := request.members & ~seen.members:
            raise UnseenBallotError(f"{self.name} has not observed the ballot of party {_first(unseen)}")
        if left_out := seen.members & ~request.members:
            raise UnseenBallotError(f"the request leaves out the ballot of party {_first(left_out)}, which is valid")
        if request.product_digest != seen.digest:
            raise UnseenBallotError(
                f"the request's product is not that of the ballots that {self.name} observed: somebody was shown "
                "another ballot"
            )

        def opened() -> bytes:
            ciphertexts = seen.vector().ciphertexts
            values = self._share.partially_decrypt(ciphertexts)
            proof = prove_opening(self.round, self._share, ciphertexts, values, randomness=self._randomness)
            return PartialDecryption(self.round.digest, self.number, seen.digest, values, proof).encode(self.round)

        try:
            answer = self._openings.do_once(self.round.digest, request.product_digest, opened)
        except AlreadyDoneError:
            raise self._refusal() from None
        return self._answer(Answered(state.members, state.columns, request, answer), entry)

    @takes(Answered, Kind.TALLY_REQUEST)
    def repeat(self, state: Answered, entry: Entry) -> Step:
        """The same answer to the same request, and none to another."""
        if self._asked(entry) != state.request:
            raise self._refusal()
        return self._answer(state, entry)

    @takes(Answered, Kind.BALLOT)
    def too_late(self, state: Answered, entry: Entry) -> Step:
        """As before."""
        raise self.lateness(entry)

    @takes(Answered, Kind.CONFIRMATION)
    def heard(self, state: Answered, entry: Entry) -> Step:
        """One more than were needed."""
        return Step(state)

    def _asked(self, entry: Entry) -> TallyRequest:
        """By the curator, who alone may know the sum where it is not public: answers are sealed to who asks."""
        if entry.sender != "curator":
            raise UnexpectedMessageError(f"{self.name}: {entry.sender} asks for the sum, which is the curator's to do")
        return TallyRequest.decode(entry.data, self.round)

    def _check_confirmed(self, state: Watching | Closed, digest: bytes) -> None:
        agreed = len(state.agreeing(digest)) if isinstance(state, Closed) else 0
        if agreed < self.round.confirmations:
            raise UnconfirmedError(
                f"{self.name} opens what {self.round.confirmations} holders have confirmed on the board, and {agreed} "
                "have confirmed the product of the ballots that it observed"
            )

    def _answer(self, state: Answered, entry: Entry) -> Step:
        receiver = BOARD if self._public else entry.sender
        return Step(state, (Post(receiver, state.answer, f"{self.round.kind}: open"),))

    def _refusal(self) -> AlreadyOpenedError:
        return AlreadyOpenedError(f"{self.name} has opened round {self.round.digest.hex()[:12]} already")

    def listens(self, state: Any) -> bool:
        """What it is asked is no secret."""
        return False

    def _result(self, state: Any) -> None:
        """None: a holder learns nothing that others do not."""
        return


def _first(members: int) -> int:
    return (members & -members).bit_length() - 1
