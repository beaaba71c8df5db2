"""Ed25519 identities, and rosters of them."""

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


@given(chosen=st.lists(st.sampled_from(KEYS), max_size=8), data=st.data())
def test_a_roster_is_the_tuple_of_its_keys(chosen: list[object], data: st.DataObject) -> None:
    roster, same = Roster.of(chosen), tuple(chosen)  # type: ignore[arg-type]
    at = data.draw(st.integers(-10, 10))
    part = data.draw(st.slices(len(chosen)))
    assert (len(roster), tuple(roster), tuple(reversed(roster))) == (len(same), same, same[::-1])
    assert tuple(roster[part]) == same[part]
    if -len(same) <= at < len(same):
        assert roster[at] == same[at]
    else:
        with pytest.raises(IndexError):
            roster[at]
    assert roster.has_duplicates() == (len(set(same)) < len(same))
    assert Roster.of(roster) is roster
    assert roster == Roster.of(same)
    assert decode(encode(roster)) == roster


def test_a_roster_takes_its_keys_and_little_else() -> None:
    """It travels to every worker process."""
    roster = Roster.of(KEYS * 100)
    sent = pickle.dumps(roster)
    assert len(sent) < 32 * len(roster) + 200
    assert pickle.loads(sent) == roster  # noqa: S301
    with pytest.raises(MessageError, match="33 in all"):
        Roster(bytes(33))


def test_a_signature_is_by_one_key_over_one_message() -> None:
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
        found = (root, root * pow(2, (prime - 1) // 4, prime) % prime)
        return {y for one in found if one * one % prime == square % prime for y in (one, prime - one)}

    eighths = {y for root in roots(1 + d) for y in roots((root - 1) * pow(d, -1, prime) % prime)}
    assert len(eighths) == 2
    for y in {0, 1, prime - 1, *eighths}:
        for sign in (0, 1 << 255):
            with pytest.raises(MessageError, match="small order"):
                VerificationKey((y + sign).to_bytes(32, "little"))
