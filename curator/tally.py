"""The curator's tally: it checks ballots, multiplies them, forgets them, and has the product opened by the holders.

It stands where Hamm 2016 has a trusted entity that collects the classifiers. docs/protocols/tally.md has the messages,
docs/security/proofs.md ("Encrypted sum with threshold opening") what the curator learns from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from gmpy2 import mpz

from psephos.protocol.encrypted_sum.messages import Close, PartialDecryption, TallyRequest
from psephos.protocol.encrypted_sum.product import BallotProduct, Closed, Observer, Watching
from psephos.protocol.encrypted_sum.proofs import check_opening
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import (
    PackingError,
    ProofError,
    ThresholdError,
    UnconfirmedError,
    WrongPartialDecryptionError,
    WrongRoundError,
)
from psephos.protocol.paillier.threshold import combine
from psephos.protocol.permutation import random_permutation
from psephos.protocol.roles import BOARD, Entry, Post, Step, takes
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind

__all__ = ["Asked", "Opened", "OpenedSum", "Tally", "open_product"]

_MOST_SETS = 1000
"""Sets of t holders that are tried at most: of 12 in 24, the first 1.3 million all contain holder 1, who may lie."""


@storable
@dataclass(frozen=True)
class OpenedSum:
    """All that the curator learns from a round.

    Attributes:
        sums: the entrywise sum of the counted vectors, `plan.length` integers.
        parties: whose vectors were counted (public); M is their number.
        wrong_holders: holders whose partial decryption disagreed with the others'; only a cross-check of more than t
            partial decryptions can name them.
    """

    sums: tuple[int, ...] = field(repr=False)
    parties: tuple[int, ...] = field(repr=False)
    wrong_holders: tuple[int, ...] = ()

    @property
    def ballots(self) -> int:
        """M, the number of counted ballots: the M of every sensitivity."""
        return len(self.parties)


@storable
@dataclass(frozen=True)
class Asked:
    """Voting is over, and the holders `asked` are to open the product; `parts` are the answers so far."""

    members: int = field(repr=False)
    columns: tuple[mpz, ...] = field(repr=False)
    request: TallyRequest
    asked: tuple[int, ...] = ()
    parts: tuple[PartialDecryption, ...] = ()


@storable
@dataclass(frozen=True)
class Opened:
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

    def hush(self, state: Any) -> Step | None:
        """Close, ask more holders, or open.

        Raises:
            TooFewBallotsError: fewer ballots than the round's minimum were posted.
            UnconfirmedError: too few holders confirmed the product.
            ThresholdError: fewer than t holders answered.
            WrongPartialDecryptionError: the answers of all holders that answered do not combine.
        """
        if isinstance(state, Watching) and not state.closing:
            self.product(state).check_minimum()
            close = Post(BOARD, Close(self.round.digest).encode(), f"{self.round.kind}: open")
            return Step(replace(state, closing=True), (close,))
        if isinstance(state, Closed):
            raise UnconfirmedError(
                f"{len(state.agreeing(self.product(state).digest))} holders have confirmed the curator's product, and "
                f"{self.round.confirmations} must; of {self.round.threshold_key.holders} these said anything: "
                f"{', '.join(str(holder) for holder, _ in state.confirmed) or 'none'}"
            )
        if isinstance(state, Asked):
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

    @takes(Asked, Kind.BALLOT)
    @takes(Opened, Kind.BALLOT)
    def too_late(self, state: Asked | Opened, entry: Entry) -> Step:
        """As before."""
        raise self.lateness(entry)

    @takes(Asked, Kind.CONFIRMATION)
    @takes(Opened, Kind.CONFIRMATION)
    def heard(self, state: Asked | Opened, entry: Entry) -> Step:
        """One more than were needed."""
        return Step(state)

    @takes(Asked, Kind.PARTIAL_DECRYPTION)
    def gather(self, state: Asked, entry: Entry) -> Step:
        """One holder's answer; the sum is opened as soon as all that were asked have given theirs."""
        part = PartialDecryption.decode(entry.data, self.round)
        if entry.sender != f"holder {part.holder}":
            raise ThresholdError(f"{entry.sender} sent a partial decryption in the name of holder {part.holder}")
        if part.product_digest != state.request.product_digest:
            raise WrongRoundError(f"holder {part.holder} opened another product than this tally's")
        if any(part.holder == other.holder for other in state.parts):
            raise ThresholdError(f"holder {part.holder} appears twice; the parts of different holders are needed")
        try:
            check_opening(self.round, part.holder, state.columns, part.values, part.proof)
        except ProofError as error:
            raise WrongPartialDecryptionError(
                f"holder {part.holder} lies about its partial decryption: {error}"
            ) from None
        state = replace(state, parts=(*state.parts, part))
        if len(state.parts) < len(state.asked):
            return Step(state)
        try:
            return self._open(state)
        except WrongPartialDecryptionError:
            # With everybody's answer here there is nobody left to ask: the next quiet raises this error.
            return self._ask_others(state) or Step(state)

    def full(self, state: Any) -> bool:
        """Whether everybody on the roster has voted."""
        return isinstance(state, Watching) and not state.closing and len(self.product(state)) == len(self.round.roster)

    def outcome(self, state: Any) -> OpenedSum | None:
        """What the curator learns."""
        return state.sum if isinstance(state, Opened) else None

    def _holders(self) -> tuple[int, ...]:
        return tuple(range(1, self.round.threshold_key.holders + 1))

    def _ask_first(self, state: Closed, holders: tuple[int, ...]) -> Step:
        product = self.product(state)
        product.check_minimum()
        request = TallyRequest(self.round.digest, product.members, product.digest)
        return self._ask(Asked(product.members, product.columns, request), holders)

    def _ask_others(self, state: Asked) -> Step | None:
        others = tuple(holder for holder in self._holders() if holder not in state.asked)
        return self._ask(state, others) if others else None

    def _ask(self, state: Asked, holders: tuple[int, ...]) -> Step:
        request, phase = state.request.encode(self.round), f"{self.round.kind}: open"
        posts = tuple(Post(f"holder {number}", request, phase, secret=False) for number in holders)
        return Step(replace(state, asked=(*state.asked, *holders)), posts)

    def _open(self, state: Asked) -> Step:
        return Step(Opened(open_product(self.product(state), state.parts)))


def open_product(product: BallotProduct, parts: Iterable[PartialDecryption]) -> OpenedSum:
    """The sum that a product encrypts, from partial decryptions of t or more different holders.

    With more than t, a set of t that opens is looked for and all others are checked against it: all sets, or where
    there are more than a thousand, as many drawn at random. Any t parts lie on one polynomial, so only the others are
    evidence. With e wrong ones among `spare` more than t, e <= spare / 2, one answer has no more than spare / 2 against
    it (Reed-Solomon decoding). Failing that, an answer that every opening set gives is right as long as t right parts
    are here at all.

    Raises ThresholdError for fewer than t parts, WrongPartialDecryptionError when they do not combine.
    """
    threshold = product.round.threshold_key.threshold
    values = {part.holder: part.values for part in parts}
    if len(values) < threshold:
        raise ThresholdError(f"{threshold} partial decryptions open this tally and {len(values)} are here")
    spare = len(values) - threshold
    every_set = math.comb(len(values), threshold) <= _MOST_SETS
    failure: WrongPartialDecryptionError | None = None
    found: list[OpenedSum] = []
    for chosen in combinations(sorted(values), threshold) if every_set else _random_sets(values, threshold):
        try:
            sums = _combined(product, {holder: values[holder] for holder in chosen})
        except WrongPartialDecryptionError as error:
            failure = error
            continue
        wrong = []
        for other in sorted(values.keys() - set(chosen)):
            try:
                agrees = _combined(product, {holder: values[holder] for holder in (*chosen[1:], other)}) == sums
            except WrongPartialDecryptionError:
                agrees = False
            wrong += [] if agrees else [other]
        found.append(OpenedSum(sums, product.parties, tuple(wrong)))
        if len(wrong) <= spare // 2:
            return found[-1]
    if found and every_set and all(opened.sums == found[0].sums for opened in found):
        return found[0]
    if found:
        failure = WrongPartialDecryptionError(
            f"some sets of {threshold} holders open a sum that too few others confirm, or different sums: at least "
            f"one of {sorted(values)} is wrong, and it takes more right ones to say which"
        )
    assert failure is not None
    raise failure


def _combined(product: BallotProduct, values: Mapping[int, tuple[mpz, ...]]) -> tuple[int, ...]:
    try:
        return tuple(product.round.plan.unpack(combine(product.round.threshold_key, values), len(product)))
    except PackingError as error:
        raise WrongPartialDecryptionError(
            f"the partial decryptions of holders {tuple(values)} open no sum of {len(product)} ballots: {error}"
        ) from None


def _random_sets(holders: Iterable[int], size: int) -> Iterator[tuple[int, ...]]:
    numbers = sorted(holders)
    for _ in range(_MOST_SETS):
        yield tuple(numbers[place] for place in random_permutation(len(numbers))[:size])
