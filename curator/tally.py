"""The curator's tally: it checks ballots, multiplies them, forgets them, and has the product opened by the holders.

It stands where Hamm 2016 has a trusted entity that collects the classifiers. docs/protocols/tally.md has the messages,
docs/security/proofs.md ("Encrypted sum with threshold opening") what the curator learns from them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from gmpy2 import mpz

from psephos.protocol.encrypted_sum.messages import Close, PartialDecryption, TallyRequest
from psephos.protocol.encrypted_sum.opened import OpenedSum, open_product, received_part
from psephos.protocol.encrypted_sum.product import BallotProduct, Closed, Observer, Watching
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import BoardError, UnconfirmedError, WrongPartialDecryptionError
from psephos.protocol.roles import BOARD, Entry, Post, Step, takes
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind

__all__ = ["AwaitingDecryptions", "OpenedSum", "Tally", "TallyOpened", "open_product"]


@storable
@dataclass(frozen=True)
class AwaitingDecryptions:
    """Voting is over, and the holders `asked` are to open the product; `parts` are the answers so far."""

    members: int = field(repr=False)
    columns: tuple[mpz, ...] = field(repr=False)
    request: TallyRequest
    asked: tuple[int, ...] = ()
    parts: tuple[PartialDecryption, ...] = ()


@storable
@dataclass(frozen=True)
class TallyOpened:
    """The sum is known."""

    sum: OpenedSum


class Tally(Observer):
    """The curator in one round.

    When it is quiet it closes the vote, for everybody at the place where that stands on the board. Then it asks t
    holders, of those that have confirmed its product where the round asks for confirmations; when it is quiet and some
    are missing, or when their answers do not combine, it asks all others too, and opens with whatever has come by the
    next quiet.
    """

    reads = frozenset({Kind.BALLOT, Kind.CLOSE, Kind.CONFIRMATION, Kind.PARTIAL_DECRYPTION})

    def __init__(self, round_: Round, *, seen: BallotProduct | None = None) -> None:
        """`round_`: the round to count. `seen`: ballots that another process of the curator has multiplied."""
        super().__init__("curator", round_, seen=seen)

    def _on_idle(self, state: Any) -> Step | None:
        """Close, ask more holders, or open.

        Raises:
            BoardError: the board lost the end of the vote.
            TooFewBallotsError: fewer ballots than the round's minimum were posted.
            UnconfirmedError: too few holders confirmed the product.
            ThresholdError: fewer than t holders answered.
            WrongPartialDecryptionError: the answers of all holders that answered do not combine.
        """
        if isinstance(state, Watching):
            if state.closing:
                raise BoardError("the end of the vote was posted, and does not stand on the board")
            self.product(state).check_minimum()
            close = Post(BOARD, Close(self.round.digest).encode(), f"{self.round.kind}: open")
            return Step(replace(state, closing=True), (close,))
        if isinstance(state, Closed):
            agreed, needed = state.agreeing(self.product(state).digest), self.round.confirmations
            others = [f"holder {holder}" for holder, _ in state.confirmed if holder not in agreed]
            heard = {holder for holder, _ in state.confirmed}
            silent = [f"holder {holder}" for holder in self._holders() if holder not in heard]
            raise UnconfirmedError(
                f"{len(agreed)} holders have confirmed the curator's product, and {needed} must; another product was "
                f"confirmed by {', '.join(others) or 'nobody'}, and nothing by {', '.join(silent) or 'nobody'}"
            )
        if isinstance(state, AwaitingDecryptions):
            return self._ask_others(state) or self._open(state)
        return None

    def closed(self, state: Closed) -> Step:
        """Ask the first holders, or wait until enough have confirmed the product."""
        if self.round.confirmations:
            return Step(state)
        return self._ask_first(state, self._holders()[: self.round.threshold_key.threshold])

    @takes(Closed, Kind.CONFIRMATION)
    def hear(self, state: Closed, entry: Entry) -> Step:
        """Ask the first that have confirmed the product, when they are enough."""
        state = state.with_confirmation(self.round, entry)
        agreed = state.agreeing(self.product(state).digest)
        if len(agreed) < self.round.confirmations:
            return Step(state)
        return self._ask_first(state, tuple(agreed)[: self.round.threshold_key.threshold])

    @takes(AwaitingDecryptions, Kind.BALLOT)
    @takes(TallyOpened, Kind.BALLOT)
    def too_late(self, state: AwaitingDecryptions | TallyOpened, entry: Entry) -> Step:
        """As before."""
        raise self.lateness(entry)

    @takes(AwaitingDecryptions, Kind.CONFIRMATION)
    @takes(TallyOpened, Kind.CONFIRMATION)
    def heard(self, state: AwaitingDecryptions | TallyOpened, entry: Entry) -> Step:
        """One more than were needed."""
        return Step(state)

    @takes(AwaitingDecryptions, Kind.PARTIAL_DECRYPTION)
    def gather(self, state: AwaitingDecryptions, entry: Entry) -> Step:
        """One holder's answer; the sum is opened as soon as all that were asked have given theirs."""
        part = received_part(self.round, state.columns, state.request.product_digest, entry, state.parts)
        state = replace(state, parts=(*state.parts, part))
        if len(state.parts) < len(state.asked):
            return Step(state)
        try:
            return self._open(state)
        except WrongPartialDecryptionError:
            # With everybody's answer here there is nobody left to ask: the next quiet raises this error.
            return self._ask_others(state) or Step(state)

    def _is_ready(self, state: Any) -> bool:
        """Whether everybody on the roster has voted."""
        return isinstance(state, Watching) and not state.closing and len(self.product(state)) == len(self.round.roster)

    def _result(self, state: Any) -> OpenedSum | None:
        """What the curator learns."""
        return state.sum if isinstance(state, TallyOpened) else None

    def _holders(self) -> tuple[int, ...]:
        return tuple(range(1, self.round.threshold_key.holders + 1))

    def _ask_first(self, state: Closed, holders: tuple[int, ...]) -> Step:
        product = self.product(state)
        request = TallyRequest(self.round.digest, product.members, product.digest)
        return self._ask(AwaitingDecryptions(product.members, product.columns, request), holders)

    def _ask_others(self, state: AwaitingDecryptions) -> Step | None:
        others = tuple(holder for holder in self._holders() if holder not in state.asked)
        return self._ask(state, others) if others else None

    def _ask(self, state: AwaitingDecryptions, holders: tuple[int, ...]) -> Step:
        request, phase = state.request.encode(self.round), f"{self.round.kind}: open"
        posts = tuple(Post(f"holder {number}", request, phase, secret=False) for number in holders)
        return Step(replace(state, asked=(*state.asked, *holders)), posts)

    def _open(self, state: AwaitingDecryptions) -> Step:
        return Step(TallyOpened(open_product(self.product(state), state.parts)))
