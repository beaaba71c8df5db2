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
