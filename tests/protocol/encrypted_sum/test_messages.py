"""Strict encodings: an encoded message decodes to itself, and no other bytes decode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from psephos.audit.rounds import hold_round, short_key
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
def sample(request: pytest.FixtureRequest) -> Any:
    """An sample whose ballots have three ciphertexts."""
    return hold_round(5, 3, 2, key=short_key(degree=request.param), length=400 * request.param)


@pytest.fixture(scope="module")
def encodings(sample: Any) -> dict[str, tuple[bytes, Callable[[bytes, Round], Any]]]:
    """One well-formed message of each type, with its decoder."""
    ballots = [sample.ballot(p) for p in range(3)]
    product = sample.product(ballots)
    request = TallyRequest(sample.round.digest, product.members, product.digest)
    values = sample.shares[0].partially_decrypt(product.vector().ciphertexts)
    part = PartialDecryption(sample.round.digest, 1, product.digest, values)
    return {
        "ballot": (ballots[1].encode(), Ballot.decode),
        "close": (Close(sample.round.digest).encode(), Close.decode),
        "confirmation": (Confirmation(sample.round.digest, 3, product.digest).encode(), Confirmation.decode),
        "tally request": (request.encode(sample.round), TallyRequest.decode),
        "partial decryption": (part.encode(sample.round), PartialDecryption.decode),
    }


@pytest.mark.parametrize("place", [0, 1, 2])
def test_ciphertexts_out_of_range_are_rejected(
    sample: Any, encodings: Any, private_key: PrivateKey, place: int
) -> None:
    modulus, size = int(sample.key.ciphertext_modulus), sample.key.ciphertext_bytes
    assert sample.round.plan.ciphertexts == 3
    for kind in ("ballot", "partial decryption"):
        data, decode = encodings[kind]
        start = len(data) - (3 - place) * size
        for bad in (0, modulus, modulus + 1, 256**size - 1):
            spoiled = data[:start] + bad.to_bytes(size, "little") + data[start + size :]
            with pytest.raises(CiphertextError):
                decode(spoiled, sample.round)
    # Sharing a factor with n: at once in a partial decryption, when it is counted in a ballot (one gcd a batch).
    data, decode = encodings["partial decryption"]
    start = len(data) - (3 - place) * size
    n = sample.key.n
    for bad in (n, 5 * n, private_key.factors()[0], n * (n - 1)):
        with pytest.raises(CiphertextError):
            decode(data[:start] + bad.to_bytes(size, "little") + data[start + size :], sample.round)


@pytest.mark.parametrize("kind", ["confirmation", "partial decryption"])
def test_holder_numbers_out_of_range_are_rejected(sample: Any, encodings: Any, kind: str) -> None:
    data, decode = encodings[kind]
    holder_at = HEADER_BYTES + 32
    for holder in (0, 4, 255):
        with pytest.raises(ThresholdError):
            decode(data[:holder_at] + bytes([holder]) + data[holder_at + 1 :], sample.round)
    for holder in (1, 3):
        assert decode(data[:holder_at] + bytes([holder]) + data[holder_at + 1 :], sample.round).holder == holder


def test_a_ballot_is_signed_by_its_party_over_its_round(sample: Any, make_sample: Any, other_private_key: Any) -> None:
    vector = sample.vector(sample.values(0))
    with pytest.raises(ForgedSignatureError):
        Ballot.sign(sample.round, 0, vector, sample.signing_keys[1])
    with pytest.raises(UnknownPartyError):
        Ballot.sign(sample.round, 5, vector, sample.signing_keys[0])
    with pytest.raises(WrongKeyError):
        Ballot.sign(make_sample(5, 3, 2, length=400, key=other_private_key).round, 0, vector, sample.signing_keys[0])
    other_plan = replace(sample.round, plan=replace(sample.round.plan, length=399))
    with pytest.raises(WrongRoundError):
        Ballot.sign(other_plan, 0, vector, sample.signing_keys[0])
