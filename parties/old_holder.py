"""Goes away: the holder before the driver.

A key holder: one of the parties, with a share of the key (DESIGN sections 2 and 3).

It watches the same public board as the curator, multiplies the ballots it has seen for itself, and opens that product
and nothing else, once per round, when there are enough ballots in it.
"""

from __future__ import annotations

from collections.abc import Iterable

from psephos.protocol.encrypted_sum.messages import Ballot, PartialDecryption, TallyRequest
from psephos.protocol.encrypted_sum.product import BallotProduct, Rejection
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import AlreadyOpenedError, UnseenBallotError, WrongRoundError
from psephos.protocol.paillier.threshold import KeyShare, check_same_ceremony
from psephos.protocol.storage.ledger import OnceLedger

__all__ = ["KeyHolder"]


class KeyHolder:
    """One holder in one round."""

    def __init__(self, share: KeyShare, round_: Round, *, openings: OnceLedger | None = None) -> None:
        """
        Args:
            share: this holder's share of the key.
            round_: the round to watch.
            openings: where it remembers the rounds it has opened; on disk wherever the holder can be restarted.

        Raises:
            WrongKeyError: the share is of another key or ceremony than the round's.
        """
        check_same_ceremony(round_.threshold_key, share.threshold_key)
        self.round = round_
        self.number = share.holder
        self._share = share
        self._openings = OnceLedger() if openings is None else openings
        self._seen = BallotProduct(round_)

    def observe(self, ballot: Ballot | bytes) -> None:
        """Multiply in a ballot from the board, or raise why it does not count."""
        for rejection in self.observe_all([ballot]):
            raise rejection.error

    def observe_all(self, ballots: Iterable[Ballot | bytes]) -> list[Rejection]:
        """The same for a batch; returns the rejected ones."""
        encoded = [b.encode() if isinstance(b, Ballot) else b for b in ballots]
        self._seen, rejections = self._seen.add_all(encoded)
        return rejections

    def observe_product(self, product: BallotProduct) -> None:
        """Take in a partial product that another process *of this holder* computed from the board."""
        self._seen = self._seen.merge(product)

    def partially_decrypt(self, request: TallyRequest) -> PartialDecryption:
        """Open the product of the ballots this holder has observed; the round is spent before anything is computed.

        Raises:
            WrongRoundError: a request for another round.
            TooFewBallotsError: fewer ballots than the round's minimum were observed.
            UnseenBallotError: the request's ballots are not exactly the observed ones.
            AlreadyOpenedError: this holder has opened this round before.
        """
        if request.round_digest != self.round.digest:
            raise WrongRoundError("a request to open another round")
        self._seen.check_minimum()
        seen = set(self._seen.parties)
        asked = {p for p in range(request.members.bit_length()) if request.members >> p & 1}
        if asked - seen:
            raise UnseenBallotError(f"holder {self.number} has not observed the ballot of party {min(asked - seen)}")
        if seen - asked:
            raise UnseenBallotError(f"the request leaves out the ballot of party {min(seen - asked)}, which is valid")
        if request.product_digest != self._seen.digest:
            raise UnseenBallotError(
                f"the request's product is not that of the ballots that holder {self.number} observed: somebody was "
                "shown another ballot"
            )
        if not self._openings.claim(self.round.digest):
            raise AlreadyOpenedError(f"holder {self.number} has opened round {self.round.digest.hex()[:12]} already")
        values = self._share.partially_decrypt(self._seen.vector().ciphertexts)
        return PartialDecryption(self.round.digest, self.number, request.product_digest, values)

    def __repr__(self) -> str:
        return f"<KeyHolder {self.number}, {len(self._seen)} ballots seen>"
