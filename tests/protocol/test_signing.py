"""Ed25519 keys, and rosters of them."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.protocol.errors import ForgedSignatureError, MessageError
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.signing import Roster, SigningKey, VerificationKey
from psephos.protocol.storage.values import decode, encode

KEYS = [SigningKey.generate(SimulationRandomness(1, f"key {n}")).verification_key for n in range(6)]


@given(keys=st.lists(st.sampled_from(KEYS), max_size=8), data=st.data())
def test_a_roster_behaves_as_a_tuple_of_its_keys(keys: list[object], data: st.DataObject) -> None:
    roster, same = Roster.of(keys), tuple(keys)  # type: ignore[arg-type]
    index = data.draw(st.integers(-10, 10))
    part = data.draw(st.slices(len(keys)))
    assert (len(roster), tuple(roster), tuple(reversed(roster))) == (len(same), same, same[::-1])
    assert tuple(roster[part]) == same[part]
    if -len(same) <= index < len(same):
        assert roster[index] == same[index]
    else:
        with pytest.raises(IndexError):
            roster[index]
    assert roster.has_duplicates() == (len(set(same)) < len(same))
    assert Roster.of(roster) is roster
    assert roster == Roster.of(same)
    assert decode(encode(roster)) == roster


def test_a_pickled_roster_is_hardly_longer_than_its_keys() -> None:
    """It is sent to every worker process."""
    roster = Roster.of(KEYS * 100)
    pickled = pickle.dumps(roster)
    assert len(pickled) < 32 * len(roster) + 200
    assert pickle.loads(pickled) == roster  # noqa: S301
    with pytest.raises(MessageError, match="33"):
        Roster(bytes(33))


def test_a_signature_verifies_for_its_key_and_message_only() -> None:
    keys = [SigningKey.generate() for _ in range(2)]
    signature = keys[0].sign(b"this")
    Roster.of(key.verification_key for key in keys)[0].verify(signature, b"this")
    for place, message in ((1, b"this"), (0, b"that")):
        with pytest.raises(ForgedSignatureError):
            keys[place].verification_key.verify(signature, message)


def test_a_key_of_small_order_is_refused() -> None:
    """Its y is 0, 1, -1, or of order 8: d y^4 + 2 y^2 = 1, where twice the point has y = 0 (RFC 8032, section 5.1)."""
    prime = 2**255 - 19
    d = -121665 * pow(121666, -1, prime) % prime

    def roots(square: int) -> set[int]:
        root = pow(square, (prime + 3) // 8, prime)
        candidates = (root, root * pow(2, (prime - 1) // 4, prime) % prime)
        return {y for one in candidates if one * one % prime == square % prime for y in (one, prime - one)}

    eighths = {y for root in roots(1 + d) for y in roots((root - 1) * pow(d, -1, prime) % prime)}
    assert len(eighths) == 2
    for y in {0, 1, prime - 1, *eighths}:
        for sign in (0, 1 << 255):
            with pytest.raises(MessageError, match="small order"):
                VerificationKey((y + sign).to_bytes(32, "little"))
