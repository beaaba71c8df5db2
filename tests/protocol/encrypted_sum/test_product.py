"""The product of ballots: an invalid ballot changes nothing, and the counted parties depend on the board alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st

from psephos.protocol.encrypted_sum.messages import Ballot, Confirmation
from psephos.protocol.encrypted_sum.product import BallotProduct, RejectedBallot, VoteClosed
from psephos.protocol.errors import (
    CiphertextError,
    DuplicateBallotError,
    ForgedSignatureError,
    MessageError,
    PsephosError,
    ThresholdError,
    TooFewBallotsError,
    UnexpectedMessageError,
    UnknownPartyError,
    WrongRoundError,
)
from psephos.protocol.paillier.ciphertexts import encode_ciphertexts
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.roles import Entry


def resigned(sample: Any, party: int, ciphertexts: tuple[mpz, ...]) -> Ballot:
    """A ballot of these ciphertexts with a signature that verifies: what a dishonest party can send."""
    vector = EncryptedVector(sample.key, sample.round.plan, ciphertexts)
    return Ballot.sign(sample.round, party, vector, sample.signing_keys[party])


def with_ciphertext(sample: Any, party: int, value: int) -> Ballot:
    ciphertexts = sample.ballot(party).ciphertexts
    return resigned(sample, party, (ciphertexts[0], mpz(value), *ciphertexts[2:]))


def opened(sample: Any, product: BallotProduct) -> list[int]:
    sums: list[int] = product.vector().decrypt(sample.private_key)
    return sums


def take(sample: Any, ballots: Any) -> tuple[BallotProduct, list[RejectedBallot]]:
    """Return the product of ballots, given as records or bytes."""
    return add(BallotProduct(sample.round), ballots)


def add(product: BallotProduct, ballots: Any) -> tuple[BallotProduct, list[RejectedBallot]]:
    return product.add_all(ballot.encode() if isinstance(ballot, Ballot) else ballot for ballot in ballots)


def splice(data: bytes, at: int, piece: bytes) -> bytes:
    return data[:at] + piece + data[at + len(piece) :]


# Each entry turns party 4's honest ballot into an invalid one, with the expected error.
INVALID: dict[str, tuple[type[PsephosError], Callable[[Any, Any], Ballot | bytes]]] = {
    "forged signature": (ForgedSignatureError, lambda e, _: replace(e.ballot(4), signature=bytes(64))),
    "signed by another": (
        ForgedSignatureError,
        lambda e, _: splice(e.ballot(3).encode(), 41, (4).to_bytes(4, "big")),
    ),
    "changed ciphertext": (ForgedSignatureError, lambda e, _: splice(e.ballot(4).encode(), 200, b"12345678")),
    "truncated": (MessageError, lambda e, _: e.ballot(4).encode()[:-1]),
    "oversized": (MessageError, lambda e, _: e.ballot(4).encode() + b"\0"),
    "empty": (MessageError, lambda e, _: b""),
    "another type": (MessageError, lambda e, _: splice(e.ballot(4).encode(), 8, b"\2")),
    "not on the roster": (UnknownPartyError, lambda e, _: splice(e.ballot(4).encode(), 41, b"\0\0\0\5")),
    "party out of range": (UnknownPartyError, lambda e, _: splice(e.ballot(4).encode(), 41, b"\xff\xff\xff\xff")),
    "another nonce": (WrongRoundError, lambda e, _: e.ballot(4, round_=replace(e.round, nonce=bytes(16)))),
    "a second ballot": (DuplicateBallotError, lambda e, _: e.ballot(0)),
    "the same ballot twice": (DuplicateBallotError, lambda e, first: first),
    "ciphertext 0": (CiphertextError, lambda e, _: with_ciphertext(e, 4, 0)),
    "ciphertext n": (CiphertextError, lambda e, _: with_ciphertext(e, 4, e.key.n)),
    "ciphertext n^2": (CiphertextError, lambda e, _: with_ciphertext(e, 4, e.key.nsquare)),
    "multiple of p": (CiphertextError, lambda e, _: with_ciphertext(e, 4, 6 * e.private_key.factors()[0])),
    "multiple of q": (CiphertextError, lambda e, _: with_ciphertext(e, 4, e.private_key.factors()[1])),
}


@pytest.fixture(scope="module")
def honest(sample: Any) -> list[Ballot]:
    return [sample.ballot(party) for party in range(4)]


@pytest.mark.parametrize("kind", INVALID)
@pytest.mark.parametrize("place", [1, 4])
def test_one_invalid_ballot_does_not_affect_the_others(
    sample: Any, honest: list[Ballot], kind: str, place: int
) -> None:
    error, make = INVALID[kind]
    bad = make(sample, honest[0])
    batch: list[Ballot | bytes] = [*honest[:place], bad, *honest[place:]]
    product, rejections = take(sample, batch)
    assert [(type(r.error), r.place) for r in rejections] == [(error, place)]
    assert product.parties == (0, 1, 2, 3)
    assert opened(sample, product) == sample.sums(range(4))


def test_all_invalid_ballots_in_one_batch(sample: Any, honest: list[Ballot]) -> None:
    batch: list[Ballot | bytes] = [honest[0]]
    for _, make in INVALID.values():
        batch.append(make(sample, honest[0]))
    batch += honest[1:]
    product, rejections = take(sample, batch)
    assert len(rejections) == len(INVALID)
    expected = {place: error for place, (error, _) in enumerate(INVALID.values(), start=1)}
    for rejection in rejections:
        # Each of the party's invalid ballots is rejected for its own reason, not as a second ballot.
        assert type(rejection.error) is expected[rejection.place], rejection
    assert product.parties == (0, 1, 2, 3)
    assert opened(sample, product) == sample.sums(range(4))


def test_the_signed_payload_is_counted(sample: Any, honest: list[Ballot]) -> None:
    """If a record's ciphertexts differ from its signed payload, the payload counts; another payload is a forgery."""
    for ciphertexts in ((mpz(1),) * 3, (), sample.ballot(3).ciphertexts):
        product, rejected = take(sample, [honest[0], replace(honest[1], ciphertexts=ciphertexts), honest[2]])
        assert rejected == []
        assert opened(sample, product) == sample.sums(range(3))
    payload = encode_ciphertexts(sample.key, sample.ballot(3).ciphertexts)
    (rejection,) = take(sample, [replace(honest[1], payload=payload)])[1]
    assert isinstance(rejection.error, ForgedSignatureError)


@given(st.integers(0, 2**32), st.integers(1, 4))
def test_trees_of_products_equal_flat_ones(sample: Any, honest: list[Ballot], seed: int, leaves: int) -> None:
    flat, _ = take(sample, honest)
    chooser = Random(seed)
    products = [BallotProduct(sample.round) for _ in range(leaves)]
    for ballot in honest:
        place = chooser.randrange(leaves)
        products[place], _ = add(products[place], [ballot])
    while len(products) > 1:
        left, right = (products.pop(chooser.randrange(len(products))) for _ in range(2))
        products.append(left.merge(right))
    assert products == [flat]


def test_overlapping_products_are_not_merged(sample: Any, honest: list[Ballot]) -> None:
    left, right = take(sample, honest[:3])[0], take(sample, honest[2:])[0]
    for one, other in ((left, right), (right, left), (left, left)):
        with pytest.raises(DuplicateBallotError):
            one.merge(other)
    with pytest.raises(WrongRoundError):
        left.merge(BallotProduct(replace(sample.round, nonce=bytes(16))))


def test_decoding_a_stored_product_checks_its_round(sample: Any, honest: list[Ballot]) -> None:
    data = take(sample, honest)[0].encode()
    assert data[0] == 0b1111
    for bad in (b"", data[:-1], data + b"\0", data[:1] + bytes(len(data) - 1)):
        with pytest.raises(CiphertextError):
            BallotProduct.decode(bad, sample.round)
    with pytest.raises(MessageError):
        BallotProduct.decode(bytes([0b101111]) + data[1:], sample.round)
    assert BallotProduct.decode(bytes([0b11111]) + data[1:], sample.round).parties == (0, 1, 2, 3, 4)


def test_confirmations_are_recorded_by_holder(sample: Any) -> None:
    closed = VoteClosed(0, ())
    for holder, digest in ((3, b"a" * 32), (1, b"b" * 32), (2, b"a" * 32)):
        data = Confirmation(sample.round.digest, holder, digest).encode()
        entry = Entry(1, f"holder {holder}", "board", data)
        with pytest.raises(ThresholdError):
            closed.with_confirmation(sample.round, replace(entry, sender="holder 4"))
        closed = closed.with_confirmation(sample.round, entry)
        with pytest.raises(UnexpectedMessageError):
            closed.with_confirmation(sample.round, entry)
    assert (closed.agreeing(b"a" * 32), closed.agreeing(b"b" * 32), closed.agreeing(bytes(32))) == ([3, 2], [1], [])


def test_too_few_ballots_are_not_a_vector(sample: Any, honest: list[Ballot]) -> None:
    product = BallotProduct(sample.round)
    assert sample.round.minimum_ballots == 3
    for count in range(3):
        assert len(product) == count
        with pytest.raises(TooFewBallotsError):
            product.vector()
        product, _ = add(product, [honest[count]])
    assert product.vector().addends == 3
