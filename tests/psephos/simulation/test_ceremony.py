"""Keys for simulations: from a dealer, or from the holders themselves."""

from __future__ import annotations

import pickle

import pytest
from gmpy2 import mpz

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.threshold import combine
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.transcript import Transcript
from psephos.simulation.ceremony import Keys, hold_ceremony, register


@pytest.mark.parametrize(("keys", "dealt"), [("dealer", True), ("ceremony", False)])
def test_both_kinds_of_keys_open(keys: Keys, dealt: bool) -> None:
    told: list[tuple[int, int]] = []
    transcript = Transcript()
    house = hold_ceremony(
        4,
        key_bits=128,
        holders=3,
        threshold=2,
        keys=keys,
        test_key=True,
        transcript=transcript,
        progress=lambda what, tried, expected: told.append((tried, expected)),
    )
    assert {message.sender for message in transcript.messages} == (
        set() if dealt else {f"holder {j}" for j in (1, 2, 3)}
    )
    assert (house.threshold_key.theta == 1) == dealt
    assert len(house.roster) == 4
    ciphertexts = Encryptor(house.threshold_key.key, expected=1).encrypt([mpz(7)])
    parts = {share.holder: share.partially_decrypt(ciphertexts) for share in house.shares[1:]}
    assert combine(house.threshold_key, parts) == [7]
    assert bool(told) != dealt
    assert told == sorted(told)
    assert all(tried <= expected for tried, expected in told)


def test_a_ceremony_wants_a_majority() -> None:
    with pytest.raises(InvalidParameter, match="more than half"):
        hold_ceremony(5, key_bits=128, holders=4, threshold=2, keys="ceremony", test_key=True)


def test_parties_sign_with_the_keys_of_the_roster() -> None:
    """They are kept as seeds, which nothing shows and nothing sends elsewhere."""
    roster, keys = register(5, SimulationRandomness(3, "keys"))
    assert [key.verification_key for key in keys] == list(roster)
    assert [key.seed() for key in keys[1:4]] == [keys.seed(number) for number in (1, 2, 3)]
    roster[-1].verify(keys[-1].sign(b"a ballot"), b"a ballot")
    assert repr(keys) == "SigningKeys()"
    with pytest.raises(TypeError):
        pickle.dumps(keys)
