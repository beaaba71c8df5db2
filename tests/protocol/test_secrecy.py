"""No repr, str, format, error or pickle of an object shows a secret."""

from __future__ import annotations

import base64
import copy
import pickle
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from gmpy2 import mpz

from psephos.parties.holder import KeyHolder
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.errors import PsephosError
from psephos.protocol.paillier.comb import CombShape, FixedBaseComb
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.kernel import ring
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.paillier.threshold import combine, deal
from psephos.protocol.randomness import RecordedRandomness, ReplayedRandomness
from psephos.protocol.signing import SigningKey


def forms(secret: int | bytes) -> list[str]:
    """Return the middle digits of a secret in decimal, hexadecimal, base64 and as bytes."""
    raw = secret if isinstance(secret, bytes) else secret.to_bytes((secret.bit_length() + 7) // 8, "big")
    number = int.from_bytes(raw, "big")
    whole = [str(number), f"{number:x}", raw.hex(), raw[::-1].hex(), repr(raw), base64.b64encode(raw).decode()]
    return [text[len(text) // 2 - 8 : len(text) // 2 + 8] for text in whole] + [
        base64.urlsafe_b64encode(raw[3:]).decode()[8:24]
    ]


def assert_hidden(text: str, *secrets: int | bytes) -> None:
    for secret in secrets:
        for form in forms(secret):
            assert form not in text, "a secret is shown"


@pytest.fixture(scope="module")
def secrets(private_key: PrivateKey, sample: Any) -> list[tuple[Any, list[int | bytes]]]:
    """Objects that contain secrets, with these secrets."""
    _, shares = deal(private_key, holders=3, threshold=2)
    signing_key = SigningKey.generate()
    tape = RecordedRandomness()
    coins = tape.draw(64)
    p, q = private_key.factors()
    of_key: list[int | bytes] = [p, q, private_key.decryption_exponent()]
    private_key.raw_decrypt(2)  # so that its cached values exist
    return [
        (private_key, of_key),
        (shares[1], [shares[1].share()]),
        (shares, [s.share() for s in shares]),
        (signing_key, [signing_key.seed()]),
        (tape, [coins]),
        (ReplayedRandomness(coins), [coins]),
        (KeyHolder(sample.shares[0], sample.round), [sample.shares[0].share()]),
        (OpenedSum((10**60 + 123456789,), (0, 1)), [10**60 + 123456789]),
        (Encryptor(private_key.public_key, randomness=ReplayedRandomness(coins)), [coins]),
        (FixedBaseComb(mpz(3) ** 90, ring(mpz(5) ** 90), CombShape(2, 2, 2)), [3**90]),
    ]


def test_repr_and_str_show_no_secret(secrets: list[tuple[Any, list[int | bytes]]]) -> None:
    for thing, hidden in secrets:
        for text in (repr(thing), str(thing), f"{thing}", f"{[thing]}", f"{thing!r:>200}"):
            assert_hidden(text, *hidden)


def test_objects_with_keys_cannot_be_pickled_or_copied(secrets: list[tuple[Any, list[int | bytes]]]) -> None:
    for thing, _ in secrets:
        if isinstance(thing, PrivateKey | SigningKey | FixedBaseComb | KeyHolder) or type(thing).__name__ in (
            "KeyShare",
            "list",
        ):
            for duplicate in (pickle.dumps, copy.deepcopy):
                with pytest.raises(TypeError):
                    duplicate(thing)


def test_repr_of_ballots_and_vectors_shows_no_ciphertext(sample: Any) -> None:
    ballot = sample.ballot(0)
    vector = sample.vector(sample.values(0))
    for thing in (ballot, vector, sample.round):
        assert_hidden(repr(thing), *map(int, ballot.ciphertexts), *map(int, vector.ciphertexts))
        assert len(repr(thing)) < 1000


def failures(sample: Any) -> list[Callable[[], object]]:
    """Calls that fail while they use a secret."""
    key: PrivateKey = sample.private_key
    p, q = key.factors()
    share = sample.shares[0]
    part = share.partially_decrypt([mpz(4)])
    return [
        lambda: PrivateKey(p, p),
        lambda: PrivateKey(p, q + 1),
        lambda: PrivateKey(p, p * q),
        lambda: key.raw_decrypt(p),
        lambda: key.raw_decrypt(key.public_key.n),
        lambda: key.check_owns(sample_key(5)),
        lambda: deal(key, holders=2, threshold=3),
        lambda: share.partially_decrypt([mpz(p)]),
        lambda: combine(share.threshold_key, {1: part}),
        lambda: combine(share.threshold_key, {1: part, 2: part}),
        lambda: sample.shares[1].__class__(share.threshold_key, 9, share.share()),
        lambda: sample.round.plan.pack([p] * sample.round.plan.length),
        lambda: Encryptor(key.public_key).encrypt([mpz(p) * q * p]),
        lambda: ReplayedRandomness(p.to_bytes(32, "big")).draw(99),
    ]


def sample_key(seed: int) -> Any:
    from psephos.protocol.paillier.private_key import generate_private_key
    from psephos.protocol.randomness import SimulationRandomness

    return generate_private_key(64, test_key=True, randomness=SimulationRandomness(seed)).public_key


def test_errors_show_no_secret(sample: Any) -> None:
    p, q = sample.private_key.factors()
    hidden: list[int | bytes] = [p, q, sample.private_key.decryption_exponent(), sample.shares[0].share()]
    for fail in failures(sample):
        with pytest.raises(PsephosError) as caught:
            fail()
        assert_hidden("".join(traceback.format_exception(caught.value)), *hidden)
        assert_hidden(repr(caught.value.args), *hidden)
