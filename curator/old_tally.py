"""Goes away: the tally before the driver.

The curator's tally: it checks ballots, multiplies them, forgets them, and has the product opened by the holders.

It stands where Hamm 2016 has a trusted entity that collects the classifiers. docs/protocols/tally.md has the messages,
docs/security/proofs.md ("Encrypted sum with threshold opening") what the curator learns from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from psephos.curator.tally import OpenedSum
from psephos.protocol.encrypted_sum.messages import Ballot, PartialDecryption, TallyRequest
from psephos.protocol.encrypted_sum.product import BallotProduct, Rejection
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import PackingError, ThresholdError, WrongPartialDecryptionError, WrongRoundError
from psephos.protocol.paillier.threshold import combine
from psephos.protocol.permutation import random_permutation

__all__ = ["OpenedSum", "Tally"]

_MOST_SETS = 1000
"""Sets of t holders that are tried at most: of 12 in 24, the first 1.3 million all contain holder 1, who may lie."""


class Tally:
    """The curator in one round."""

    def __init__(self, round_: Round) -> None:
        self.round = round_
        self._product = BallotProduct(round_)
        self._request: TallyRequest | None = None

    def add(self, ballot: Ballot | bytes) -> None:
        """Count one ballot, or raise why not; a refused ballot leaves no trace.

        Raises WrongRoundError when the tally is closed, and what `BallotProduct.add` raises.
        """
        self._check_open()
        for rejection in self.add_all([ballot]):
            raise rejection.error

    def add_all(self, ballots: Iterable[Ballot | bytes]) -> list[Rejection]:
        """Count a batch and return the rejected ones: cheaper than one by one, since one gcd serves all.

        Raises WrongRoundError when the tally is closed.
        """
        self._check_open()
        encoded = [b.encode() if isinstance(b, Ballot) else b for b in ballots]
        self._product, rejections = self._product.add_all(encoded)
        return rejections

    def merge(self, partial: BallotProduct) -> None:
        """Take in a partial tally; raises WrongRoundError (closed, or another round) or DuplicateBallotError, changing
        nothing."""
        self._check_open()
        self._product = self._product.merge(partial)

    def close(self) -> TallyRequest:
        """End the voting and say which ballots were counted; raises TooFewBallotsError below the minimum."""
        self._product.check_minimum()
        self._request = TallyRequest(self.round.digest, self._product.members, self._product.digest)
        return self._request

    def open(self, parts: Sequence[PartialDecryption]) -> OpenedSum:
        """The sum of the counted vectors, from t or more partial decryptions.

        With more than t, a set of t that opens is looked for and all others are checked against it: all sets, or where
        there are more than a thousand, as many drawn at random.

        Raises:
            WrongRoundError: the tally is not closed, or a part is of another round or product.
            WrongKeyError: a part made with a share of another key or ceremony.
            ThresholdError: fewer than t parts, or the same holder twice.
            MessageError, CiphertextError: a part of another length, or with a value that is no unit.
            WrongPartialDecryptionError: the parts do not combine.
        """
        if self._request is None:
            raise WrongRoundError("close the tally before opening it")
        threshold_key = self.round.threshold_key
        by_holder: dict[int, PartialDecryption] = {}
        for part in parts:
            if part.product_digest != self._request.product_digest:
                raise WrongRoundError(f"holder {part.holder} opened another product than this tally's")
            if part.holder in by_holder:
                raise ThresholdError(f"holder {part.holder} appears twice; the parts of different holders are needed")
            by_holder[part.holder] = part
        if len(by_holder) < threshold_key.threshold:
            raise ThresholdError(
                f"{threshold_key.threshold} partial decryptions open this tally and {len(by_holder)} are here"
            )
        return self._cross_checked(by_holder)

    def _cross_checked(self, parts: dict[int, PartialDecryption]) -> OpenedSum:
        # Any t parts lie on one polynomial, so only the others are evidence. With e wrong ones among `spare` more than
        # t, e <= spare / 2, one answer has no more than spare / 2 against it (Reed-Solomon decoding). Failing that, an
        # answer that every opening set gives is right as long as t right parts are here at all.
        threshold = self.round.threshold_key.threshold
        spare = len(parts) - threshold
        every_set = math.comb(len(parts), threshold) <= _MOST_SETS
        failure: WrongPartialDecryptionError | None = None
        only: OpenedSum | None = None
        several = False
        for chosen in combinations(sorted(parts), threshold) if every_set else _random_sets(parts, threshold):
            try:
                sums = self._combine(parts, chosen)
            except WrongPartialDecryptionError as error:
                failure = error
                continue
            wrong = [
                holder for holder in parts if holder not in chosen and not self._agrees(parts, chosen, holder, sums)
            ]
            opened = OpenedSum(sums, self._product.parties, tuple(sorted(wrong)))
            if len(wrong) <= spare // 2:
                return opened
            if only is not None and only.sums != sums:
                several = True
            only = only or opened
        if only is not None and not several and every_set:
            return only
        if only is not None:
            failure = WrongPartialDecryptionError(
                f"some sets of {threshold} holders open a sum that too few others confirm, or different sums: at least "
                f"one of {sorted(parts)} is wrong, and it takes more right ones to say which"
            )
        assert failure is not None
        raise failure

    def _agrees(
        self, parts: dict[int, PartialDecryption], chosen: tuple[int, ...], other: int, sums: tuple[int, ...]
    ) -> bool:
        try:
            return self._combine(parts, (*chosen[1:], other)) == sums
        except WrongPartialDecryptionError:
            return False

    def _combine(self, parts: dict[int, PartialDecryption], chosen: tuple[int, ...]) -> tuple[int, ...]:
        plaintexts = combine(self.round.threshold_key, {holder: parts[holder].values for holder in chosen})
        try:
            return tuple(self.round.plan.unpack(plaintexts, len(self._product)))
        except PackingError as error:
            raise WrongPartialDecryptionError(
                f"the partial decryptions of holders {chosen} open no sum of {len(self._product)} ballots: {error}"
            ) from None

    def _check_open(self) -> None:
        if self._request is not None:
            raise WrongRoundError("this tally is closed; a ballot that comes now needs another round")

    def __len__(self) -> int:
        return len(self._product)

    def __repr__(self) -> str:
        return f"<Tally of {len(self)} ballots, {'open' if self._request is None else 'closed'}>"


def _random_sets(holders: Iterable[int], size: int) -> Iterator[tuple[int, ...]]:
    numbers = sorted(holders)
    for _ in range(_MOST_SETS):
        yield tuple(numbers[place] for place in random_permutation(len(numbers))[:size])
