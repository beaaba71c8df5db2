"""Keys for simulations: from a dealer, or from the holders themselves."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from gmpy2 import mpz

from psephos.protocol.errors import InvalidParameter, WeakKeyError
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.threshold import combine
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.transcript import Transcript
from psephos.simulation.key_setup import Keys, register, setup_keys


@pytest.mark.parametrize(("keys", "by_dealer"), [("dealer", True), ("ceremony", False)])
def test_keys_of_dealer_and_ceremony_open(keys: Keys, by_dealer: bool) -> None:
    candidates: list[tuple[int, int]] = []
    transcript = Transcript()
    house = setup_keys(
        4,
        key_bits=128,
        holders=3,
        threshold=2,
        keys=keys,
        test_key=True,
        transcript=transcript,
        progress=lambda what, tried, expected: candidates.append((tried, expected)),
    )
    assert {message.sender for message in transcript.messages} == (
        set() if by_dealer else {f"holder {j}" for j in (1, 2, 3)}
    )
    assert (house.threshold_key.theta == 1) == by_dealer
    assert len(house.roster) == 4
    ciphertexts = Encryptor(house.threshold_key.key, expected=1).encrypt([mpz(7)])
    parts = {share.holder: share.partially_decrypt(ciphertexts) for share in house.shares[1:]}
    assert combine(house.threshold_key, parts) == [7]
    assert bool(candidates) != by_dealer
    assert candidates == sorted(candidates)
    assert all(tried <= expected for tried, expected in candidates)


def test_parties_sign_with_the_registered_keys() -> None:
    """They are kept as seeds, which nothing shows and nothing sends elsewhere."""
    roster, keys = register(5, SimulationRandomness(3, "keys"))
    assert [key.verification_key for key in keys] == list(roster)
    assert [key.seed() for key in keys[1:4]] == [keys.seed(number) for number in (1, 2, 3)]
    roster[-1].verify(keys[-1].sign(b"a ballot"), b"a ballot")
    assert repr(keys) == "SigningKeys()"
    with pytest.raises(TypeError):
        pickle.dumps(keys)


@pytest.mark.parametrize(("parties", "holders", "threshold"), [(1, 1, 1), (4, 5, 3), (5, 5, 0), (5, 4, 5)])
@pytest.mark.parametrize("keys", ["dealer", "ceremony"])
def test_invalid_numbers_of_holders_are_refused(keys: Keys, parties: int, holders: int, threshold: int) -> None:
    with pytest.raises(InvalidParameter):
        setup_keys(parties, key_bits=128, holders=holders, threshold=threshold, keys=keys, test_key=True)


@pytest.mark.parametrize(("keys", "degree"), [("dealer", 1), ("dealer", 3), ("ceremony", 2)])
def test_all_randomness_comes_from_the_given_source(keys: Keys, degree: int) -> None:
    arguments: dict[str, Any] = {"key_bits": 128, "holders": 3, "threshold": 2, "degree": degree, "keys": keys}
    one, same, other = (
        setup_keys(4, **arguments, test_key=True, randomness=SimulationRandomness(seed, "house")) for seed in (1, 1, 2)
    )
    assert one.threshold_key == same.threshold_key
    assert one.threshold_key.key.degree == degree
    assert [share.share() for share in one.shares] == [share.share() for share in same.shares]
    assert one.signing_keys.seeds == same.signing_keys.seeds
    assert one.threshold_key != other.threshold_key
    assert one.signing_keys.seeds != other.signing_keys.seeds
    with pytest.raises(WeakKeyError):
        setup_keys(4, **arguments, randomness=SimulationRandomness(1, "house"))
    first, second = (register(2)[1].seeds for _ in range(2))
    assert first != second
