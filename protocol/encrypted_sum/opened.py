"""Opening a product of ballots: checking partial decryptions and combining t of them into the sum.

docs/security/proofs.md ("Encrypted sum with threshold opening") says what the sum reveals.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from gmpy2 import mpz

from psephos.protocol.encrypted_sum.messages import PartialDecryption
from psephos.protocol.encrypted_sum.product import BallotProduct, Observer, VoteClosed
from psephos.protocol.encrypted_sum.proofs import check_opening
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import (
    PackingError,
    ProofError,
    ThresholdError,
    WrongPartialDecryptionError,
    WrongRoundError,
)
from psephos.protocol.paillier.threshold import combine
from psephos.protocol.permutation import random_permutation
from psephos.protocol.roles import Entry, MachineState, PublicReader, Step, takes
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind

_MOST_SETS = 1000
"""Most sets of t holders that are tried. More are drawn at random: the first ones in order all contain holder 1."""


@storable
@dataclass(frozen=True)
class OpenedSum:
    """The result of a round: all that the curator learns.

    `parties` are counted; `wrong_holders` disagreed with the others, which more than t partial decryptions can show.
    """

    sums: tuple[int, ...] = field(repr=False)
    parties: tuple[int, ...] = field(repr=False)
    wrong_holders: tuple[int, ...] = ()

    @property
    def ballots(self) -> int:
        return len(self.parties)


class SumReader(Observer, PublicReader):
    """Follows a round to its end as everybody can who reads its board."""

    reads = Observer.reads | {Kind.CONFIRMATION, Kind.PARTIAL_DECRYPTION}

    def __init__(self, name: str, round_: Round, *, public: bool) -> None:
        super().__init__(name, round_)
        self._public = public

    @takes(VoteClosed, Kind.PARTIAL_DECRYPTION)
    def receive_partial_decryption(self, state: VoteClosed, entry: Entry) -> Step:
        part = received_part(self.round, state.columns, self.product(state).digest, entry, state.parts)
        return Step(replace(state, parts=(*state.parts, part)))

    def heard(self, state: MachineState) -> dict[Kind, set[str]]:
        own, heard = state.state, dict[Kind, set[str]]()
        product = self.product(own)
        heard[Kind.BALLOT] = {f"party {number}" for number in product.parties}
        if self.round.holder_noise:
            present = set(range(1, self.round.threshold_key.holders + 1)) - set(product.missing_noise)
            heard[Kind.NOISE_BALLOT] = {f"holder {number}" for number in present}
        if isinstance(own, VoteClosed):
            heard[Kind.CLOSE] = {"curator"}
            heard[Kind.CONFIRMATION] = {f"holder {number}" for number, _ in own.confirmed}
            heard[Kind.PARTIAL_DECRYPTION] = {f"holder {part.holder}" for part in own.parts}
        return heard

    def lacks(self, state: MachineState) -> str:
        own, threshold = state.state, self.round.threshold_key.threshold
        if not isinstance(own, VoteClosed):
            return "the vote is open"
        if self._public and len(own.parts) < threshold:
            return f"{len(own.parts)} of {threshold} holders open the sum on this board"
        agreed = len(own.agreeing(self.product(own).digest))
        enough = agreed >= self.round.confirmations
        return "" if enough else f"its product is confirmed by {agreed} of at least {self.round.confirmations}"


def received_part(
    round_: Round, columns: Sequence[mpz], product_digest: bytes, entry: Entry, others: Collection[PartialDecryption]
) -> PartialDecryption:
    """Decode and check one holder's partial decryption, including the proof that the round demands."""
    part = PartialDecryption.decode(entry.data, round_)
    if entry.sender != f"holder {part.holder}":
        raise ThresholdError(f"{entry.sender} sent a partial decryption in the name of holder {part.holder}")
    if part.product_digest != product_digest:
        raise WrongRoundError(f"holder {part.holder} opened a product other than that of the ballots seen here")
    if any(part.holder == other.holder for other in others):
        raise ThresholdError(f"holder {part.holder} sent a second partial decryption")
    try:
        check_opening(round_, part.holder, columns, part.values, part.proof)
    except ProofError as error:
        raise WrongPartialDecryptionError(f"the partial decryption of holder {part.holder} is wrong: {error}") from None
    return part


def open_product(product: BallotProduct, parts: Iterable[PartialDecryption]) -> OpenedSum:
    """Combine the partial decryptions of t or more holders into the sum.

    Sets of t holders are combined and the `spare` others compared with the result. If at most spare / 2 partial
    decryptions are wrong, exactly one sum is contradicted by at most spare / 2 holders (Reed-Solomon decoding).
    Otherwise a sum that every combining set gives is right, provided that t right partial decryptions are present.
    """
    threshold = product.round.threshold_key.threshold
    values = {part.holder: part.values for part in parts}
    if len(values) < threshold:
        raise ThresholdError(f"opening this sum takes {threshold} partial decryptions, and {len(values)} were received")
    spare = len(values) - threshold
    every_set = math.comb(len(values), threshold) <= _MOST_SETS
    failure: WrongPartialDecryptionError | None = None
    opened: list[OpenedSum] = []
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
            if not agrees:
                wrong.append(other)
        opened.append(OpenedSum(sums, product.parties, tuple(wrong)))
        if len(wrong) <= spare // 2:
            return opened[-1]
    if opened and every_set and all(candidate.sums == opened[0].sums for candidate in opened):
        return opened[0]
    if opened:
        failure = WrongPartialDecryptionError(
            f"the partial decryptions of holders {sorted(values)} open different sums, or one that too few confirm: at "
            "least one of them is wrong; ask more holders to find out which"
        )
    assert failure is not None
    raise failure


def _combined(product: BallotProduct, values: Mapping[int, tuple[mpz, ...]]) -> tuple[int, ...]:
    """Return the sum that exactly t holders' values open; raise WrongPartialDecryptionError if they open none."""
    try:
        return tuple(product.round.plan.unpack(combine(product.round.threshold_key, values), product.addends))
    except PackingError as error:
        raise WrongPartialDecryptionError(
            f"holders {tuple(values)} do not open a sum of {len(product)} ballots: {error}"
        ) from None


def _random_sets(holders: Iterable[int], size: int) -> Iterator[tuple[int, ...]]:
    numbers = sorted(holders)
    for _ in range(_MOST_SETS):
        yield tuple(numbers[place] for place in random_permutation(len(numbers))[:size])
