"""From partial decryptions to the sum: whoever is given enough of them opens a product of ballots.

docs/protocols/tally.md has the messages, docs/security/proofs.md ("Encrypted sum with threshold opening") what the
sum tells.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from gmpy2 import mpz

from psephos.protocol.encrypted_sum.messages import PartialDecryption
from psephos.protocol.encrypted_sum.product import BallotProduct
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
from psephos.protocol.roles import Entry
from psephos.protocol.storage.values import storable

__all__ = ["OpenedSum", "open_product", "received_part"]

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


def received_part(
    round_: Round, columns: Sequence[mpz], product_digest: bytes, entry: Entry, others: Collection[PartialDecryption]
) -> PartialDecryption:
    """A holder's partial decryption of the product `columns`, with the proof that the round demands.

    Raises MessageError, WrongRoundError (another round or product), ThresholdError (in another's name, or a second one
    beside `others`), WrongPartialDecryptionError (its proof does not hold: the holder lies).
    """
    part = PartialDecryption.decode(entry.data, round_)
    if entry.sender != f"holder {part.holder}":
        raise ThresholdError(f"{entry.sender} sent a partial decryption in the name of holder {part.holder}")
    if part.product_digest != product_digest:
        raise WrongRoundError(f"holder {part.holder} opened another product than that of the ballots seen here")
    if any(part.holder == other.holder for other in others):
        raise ThresholdError(f"holder {part.holder} appears twice; the parts of different holders are needed")
    try:
        check_opening(round_, part.holder, columns, part.values, part.proof)
    except ProofError as error:
        raise WrongPartialDecryptionError(f"holder {part.holder} lies about its partial decryption: {error}") from None
    return part


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
