"""Strict encodings: an encoded message decodes to itself, and no other bytes decode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from psephos.audit.rounds import hold_election, short_key
from psephos.protocol.encrypted_sum.messages import Ballot, Close, Confirmation, PartialDecryption, TallyRequest
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import (
    CiphertextError,
    ForgedSignatureError,
    MessageError,
    ThresholdError,
    UnknownPartyError,
    WrongKeyError,
    WrongRoundError,
)
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.wire import HEADER_BYTES

KINDS = ["ballot", "close", "confirmation", "tally request", "partial decryption"]


@pytest.fixture(scope="module", params=[1, 3], ids="degree {}".format)
def election(request: pytest.FixtureRequest) -> Any:
    """An election whose ballots have three ciphertexts."""
    return hold_election(5, 3, 2, key=short_key(degree=request.param), length=400 * request.param)


@pytest.fixture(scope="module")
def encodings(election: Any) -> dict[str, tuple[bytes, Callable[[bytes, Round], Any]]]:
    """One well-formed message of each type, with its decoder."""
    ballots = [election.ballot(p) for p in range(3)]
    product = election.product(ballots)
    request = TallyRequest(election.round.digest, product.members, product.digest)
    values = election.shares[0].partially_decrypt(product.vector().ciphertexts)
    part = PartialDecryption(election.round.digest, 1, product.digest, values)
    return {
        "ballot": (ballots[1].encode(), Ballot.decode),
        "close": (Close(election.round.digest).encode(), Close.decode),
        "confirmation": (Confirmation(election.round.digest, 3, product.digest).encode(), Confirmation.decode),
        "tally request": (request.encode(election.round), TallyRequest.decode),
        "partial decryption": (part.encode(election.round), PartialDecryption.decode),
    }


def encode(message: Any, round_: Round) -> bytes:
    short = isinstance(message, Ballot | Close | Confirmation)
    encoded: bytes = message.encode() if short else message.encode(round_)
    return encoded


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip(election: Any, encodings: Any, kind: str) -> None:
    data, decode = encodings[kind]
    message = decode(data, election.round)
    assert encode(message, election.round) == data
    assert decode(encode(message, election.round), election.round) == message


@pytest.mark.parametrize("place", [0, 1, 2])
def test_ciphertexts_out_of_range_are_rejected(
    election: Any, encodings: Any, private_key: PrivateKey, place: int
) -> None:
    modulus, size = int(election.key.ciphertext_modulus), election.key.ciphertext_bytes
    assert election.round.plan.ciphertexts == 3
    for kind in ("ballot", "partial decryption"):
        data, decode = encodings[kind]
        start = len(data) - (3 - place) * size
        for bad in (0, modulus, modulus + 1, 256**size - 1):
            spoiled = data[:start] + bad.to_bytes(size, "little") + data[start + size :]
            with pytest.raises(CiphertextError):
                decode(spoiled, election.round)
    # Sharing a factor with n: at once in a partial decryption, when it is counted in a ballot (one gcd a batch).
    data, decode = encodings["partial decryption"]
    start = len(data) - (3 - place) * size
    n = election.key.n
    for bad in (n, 5 * n, private_key.factors()[0], n * (n - 1)):
        with pytest.raises(CiphertextError):
            decode(data[:start] + bad.to_bytes(size, "little") + data[start + size :], election.round)


@pytest.mark.parametrize("kind", ["confirmation", "partial decryption"])
def test_holder_numbers_out_of_range_are_rejected(election: Any, encodings: Any, kind: str) -> None:
    data, decode = encodings[kind]
    holder_at = HEADER_BYTES + 32
    for holder in (0, 4, 255):
        with pytest.raises(ThresholdError):
            decode(data[:holder_at] + bytes([holder]) + data[holder_at + 1 :], election.round)
    for holder in (1, 3):
        assert decode(data[:holder_at] + bytes([holder]) + data[holder_at + 1 :], election.round).holder == holder


def test_requests_encode_parties_as_a_bit_map(make_election: Any) -> None:
    for parties in (2, 7, 8, 9, 17):
        round_ = make_election(parties, 2, 2).round
        for chosen in (0, 1, 1 << parties - 1, (1 << parties) - 1, 0b1010101 % (1 << parties)):
            request = TallyRequest(round_.digest, chosen, bytes(32))
            data = request.encode(round_)
            assert len(data) == HEADER_BYTES + 32 + -(-parties // 8)
            assert TallyRequest.decode(data, round_) == request
        if parties % 8:
            with pytest.raises(MessageError):
                TallyRequest.decode(
                    data[: HEADER_BYTES + 32] + (1 << parties).to_bytes(-(-parties // 8), "big"), round_
                )


@pytest.mark.parametrize("kind", KINDS)
def test_messages_of_another_round_are_rejected(election: Any, encodings: Any, make_election: Any, kind: str) -> None:
    data, decode = encodings[kind]
    r: Round = election.round
    for other in (
        replace(r, nonce=bytes(16)),
        replace(r, context=bytes(32)),
        replace(r, minimum_ballots=4),
        replace(r, roster=r.roster[::-1]),
        replace(r, plan=replace(r.plan, length=399)),
        replace(r, kind="parameters"),
    ):
        with pytest.raises(WrongRoundError):
            decode(data, other)


def test_a_ballot_is_signed_by_its_party_over_its_round(
    election: Any, make_election: Any, other_private_key: Any
) -> None:
    vector = election.vector(election.values(0))
    with pytest.raises(ForgedSignatureError):
        Ballot.sign(election.round, 0, vector, election.signing_keys[1])
    with pytest.raises(UnknownPartyError):
        Ballot.sign(election.round, 5, vector, election.signing_keys[0])
    with pytest.raises(WrongKeyError):
        Ballot.sign(
            make_election(5, 3, 2, length=400, key=other_private_key).round, 0, vector, election.signing_keys[0]
        )
    other_plan = replace(election.round, plan=replace(election.round.plan, length=399))
    with pytest.raises(WrongRoundError):
        Ballot.sign(other_plan, 0, vector, election.signing_keys[0])
