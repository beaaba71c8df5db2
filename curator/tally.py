"""The curator in one round of the encrypted sum.

It checks ballots, multiplies their ciphertexts, keeps only the product, and has it decrypted by t of n key holders. It
replaces the trusted entity that collects the classifiers in Hamm 2016. docs/protocols/tally.md has the messages,
docs/security/proofs.md ("Encrypted sum with threshold opening") what the curator learns from them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from gmpy2 import mpz

from psephos.protocol.encrypted_sum.messages import Close, PartialDecryption, TallyRequest
from psephos.protocol.encrypted_sum.opened import OpenedSum as OpenedSum
from psephos.protocol.encrypted_sum.opened import open_product, received_part
from psephos.protocol.encrypted_sum.product import BallotProduct, Observer, VoteClosed, VoteOpen
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import BoardError, UnconfirmedError, WrongPartialDecryptionError
from psephos.protocol.roles import BOARD, Entry, Post, Step, takes
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind


@storable
@dataclass(frozen=True)
class AwaitingDecryptions:
    """The vote is closed, and partial decryptions of the product are awaited from the holders `asked`."""

    members: int = field(repr=False)
    columns: tuple[mpz, ...] = field(repr=False)
    request: TallyRequest
    asked: tuple[int, ...] = ()
    parts: tuple[PartialDecryption, ...] = ()


@storable
@dataclass(frozen=True)
class TallyOpened:
    """The product is decrypted: the curator knows the sum."""

    sum: OpenedSum


class Tally(Observer):
    """The curator's role in one round.

    1. On idle it closes the vote; the position of the close message on the board is the end of the vote for everybody.
    2. It asks t holders for partial decryptions. In a round with confirmations it waits until enough holders have
       confirmed its product, and asks t of these.
    3. If some of them are missing on idle, or their answers do not combine, it asks all other holders too.
    4. It opens the product when all that were asked have answered, or with the answers there are on the next idle.
    """

    reads = frozenset({Kind.BALLOT, Kind.NOISE_BALLOT, Kind.CLOSE, Kind.CONFIRMATION, Kind.PARTIAL_DECRYPTION})

    def __init__(self, round_: Round, *, seen: BallotProduct | None = None) -> None:
        """`seen` is the product of ballots that another process of the curator has multiplied."""
        super().__init__("curator", round_, seen=seen)

    def _on_idle(self, state: Any) -> Step | None:
        """Close the vote, ask more holders, or open the product."""
        if isinstance(state, VoteOpen):
            if state.closing:
                raise BoardError("the message that closes the vote was posted but is not on the board; check the board")
            self.product(state).check_minimum()
            close = Post(BOARD, Close(self.round.digest).encode(), f"{self.round.kind}: open")
            return Step(replace(state, closing=True), (close,))
        if isinstance(state, VoteClosed):
            raise self._unconfirmed(state)
        if isinstance(state, AwaitingDecryptions):
            return self._ask_others(state) or self._open(state)
        return None

    def closed(self, state: VoteClosed) -> Step:
        """Ask the first t holders, or wait for confirmations where the round demands them."""
        if self.round.confirmations:
            return Step(state)
        return self._ask_first(state, self._holders()[: self.round.threshold_key.threshold])

    @takes(VoteClosed, Kind.CONFIRMATION)
    def receive_confirmation(self, state: VoteClosed, entry: Entry) -> Step:
        """Record a confirmation; ask the first t holders that agree, when enough do."""
        state = state.with_confirmation(self.round, entry)
        agreeing = state.agreeing(self.product(state).digest)
        if len(agreeing) < self.round.confirmations:
            return Step(state)
        return self._ask_first(state, tuple(agreeing)[: self.round.threshold_key.threshold])

    @takes(AwaitingDecryptions, Kind.BALLOT)
    @takes(TallyOpened, Kind.BALLOT)
    @takes(AwaitingDecryptions, Kind.NOISE_BALLOT)
    @takes(TallyOpened, Kind.NOISE_BALLOT)
    def refuse_ballot(self, state: AwaitingDecryptions | TallyOpened, entry: Entry) -> Step:
        """Raise LateBallotError: the vote is closed."""
        raise self.lateness(entry)

    @takes(AwaitingDecryptions, Kind.CONFIRMATION)
    @takes(TallyOpened, Kind.CONFIRMATION)
    def ignore_confirmation(self, state: AwaitingDecryptions | TallyOpened, entry: Entry) -> Step:
        """Change nothing: enough holders have confirmed the product."""
        return Step(state)

    @takes(AwaitingDecryptions, Kind.PARTIAL_DECRYPTION)
    def receive_partial_decryption(self, state: AwaitingDecryptions, entry: Entry) -> Step:
        """Record a holder's partial decryption; open the product when all holders that were asked have answered."""
        part = received_part(self.round, state.columns, state.request.product_digest, entry, state.parts)
        state = replace(state, parts=(*state.parts, part))
        if len(state.parts) < len(state.asked):
            return Step(state)
        try:
            return self._open(state)
        except WrongPartialDecryptionError:
            # When all holders were asked, nobody is left: `_on_idle` will raise this error.
            return self._ask_others(state) or Step(state)

    def _is_ready(self, state: Any) -> bool:
        """Return whether everybody on the roster has voted, and all noise of key holders is there."""
        return isinstance(state, VoteOpen) and not state.closing and self.product(state).addends == self.round.senders

    def _result(self, state: Any) -> OpenedSum | None:
        """Return the sum, once it is opened."""
        return state.sum if isinstance(state, TallyOpened) else None

    def _holders(self) -> tuple[int, ...]:
        return tuple(range(1, self.round.threshold_key.holders + 1))

    def _unconfirmed(self, state: VoteClosed) -> UnconfirmedError:
        """Describe which holders confirmed this product, another one, or none."""
        agreeing = state.agreeing(self.product(state).digest)
        confirmed = {holder for holder, _ in state.confirmed}
        others = [f"holder {holder}" for holder, _ in state.confirmed if holder not in agreeing]
        silent = [f"holder {holder}" for holder in self._holders() if holder not in confirmed]
        return UnconfirmedError(
            f"{len(agreeing)} holders have confirmed the curator's product, and {self.round.confirmations} must; "
            f"another product was confirmed by {', '.join(others) or 'nobody'}, and nothing by "
            f"{', '.join(silent) or 'nobody'}"
        )

    def _ask_first(self, state: VoteClosed, holders: tuple[int, ...]) -> Step:
        product = self.product(state)
        request = TallyRequest(self.round.digest, product.members, product.digest)
        return self._ask(AwaitingDecryptions(product.members, product.columns, request), holders)

    def _ask_others(self, state: AwaitingDecryptions) -> Step | None:
        others = tuple(holder for holder in self._holders() if holder not in state.asked)
        return self._ask(state, others) if others else None

    def _ask(self, state: AwaitingDecryptions, holders: tuple[int, ...]) -> Step:
        """Send the request to these holders."""
        request, phase = state.request.encode(self.round), f"{self.round.kind}: open"
        posts = tuple(Post(f"holder {number}", request, phase, secret=False) for number in holders)
        return Step(replace(state, asked=(*state.asked, *holders)), posts)

    def _open(self, state: AwaitingDecryptions) -> Step:
        return Step(TallyOpened(open_product(self.product(state), state.parts)))
