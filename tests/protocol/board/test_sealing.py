"""`SealingKey` and `seal`. `test_board` contains more tests of them."""

from __future__ import annotations

import pickle

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from psephos.protocol.board.sealing import SEALING_KEY_BYTES, SealingKey, seal
from psephos.protocol.errors import MessageError
from psephos.protocol.randomness import SimulationRandomness


def test_sealing_is_hpke_with_x25519_and_chacha20_poly1305() -> None:
    """Each side is replaced by cryptography's own HPKE."""
    suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
    theirs = X25519PrivateKey.generate()
    sealed = seal(b"secret", theirs.public_key().public_bytes_raw(), b"about")
    assert suite.decrypt(sealed, theirs, info=b"about") == b"secret"
    ours = SealingKey(theirs.private_bytes_raw())
    assert ours.public == theirs.public_key().public_bytes_raw()
    sealed = suite.encrypt(b"secret", theirs.public_key(), info=b"about")
    assert ours.open(sealed, b"about") == b"secret"


def test_generated_keys_come_from_the_given_randomness() -> None:
    key = SealingKey.generate(SimulationRandomness(1, "seal"))
    assert key.secret() == SimulationRandomness(1, "seal").draw(SEALING_KEY_BYTES)
    assert SealingKey(key.secret()).public == key.public
    assert SealingKey.generate().secret() != SealingKey.generate().secret()
    assert (SEALING_KEY_BYTES, len(key.public), len(key.secret())) == (32, 32, 32)


def test_keys_of_another_length_are_refused() -> None:
    for length in (0, 31, 33):
        with pytest.raises(ValueError, match="32"):
            SealingKey(bytes(length))
        with pytest.raises(MessageError):
            seal(b"", b"\5" * length, b"")


def test_a_key_is_not_shown_and_not_pickled() -> None:
    key = SealingKey.generate()
    assert repr(key) == f"<SealingKey of {key.public.hex()[:12]}>"
    with pytest.raises(TypeError):
        pickle.dumps(key)
