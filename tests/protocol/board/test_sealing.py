"""What is sealed opens for its reader alone; `test_board` has more of it."""

from __future__ import annotations

import pickle

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from psephos.protocol.board.sealing import SEALING_KEY_BYTES, SealingKey, seal
from psephos.protocol.errors import MessageError
from psephos.protocol.randomness import SimulationRandomness


def test_it_is_hpke_with_x25519_and_chacha20_poly1305() -> None:
    """By the library itself, in both directions."""
    suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
    theirs = X25519PrivateKey.generate()
    assert suite.decrypt(seal(b"secret", theirs.public_key().public_bytes_raw(), b"about"), theirs, info=b"about") == (
        b"secret"
    )
    ours = SealingKey(theirs.private_bytes_raw())
    assert ours.public == theirs.public_key().public_bytes_raw()
    sealed = suite.encrypt(b"secret", theirs.public_key(), info=b"about")
    assert ours.open(sealed, b"about") == b"secret"
    with pytest.raises(MessageError, match="does not open"):
        ours.open(sealed, b"")
    with pytest.raises(MessageError, match="does not open"):
        ours.open(b"", b"about")


def test_a_key_is_drawn_from_the_coins_that_are_given_and_else_from_the_system() -> None:
    drawn = SealingKey.generate(SimulationRandomness(1, "seal"))
    assert drawn.secret() == SimulationRandomness(1, "seal").draw(SEALING_KEY_BYTES)
    assert SealingKey(drawn.secret()).public == drawn.public
    assert SealingKey.generate().secret() != SealingKey.generate().secret()
    assert (SEALING_KEY_BYTES, len(drawn.public), len(drawn.secret())) == (32, 32, 32)


def test_what_is_no_key() -> None:
    for length in (0, 31, 33):
        with pytest.raises(ValueError, match="32"):
            SealingKey(bytes(length))
        with pytest.raises(MessageError, match="no X25519 key"):
            seal(b"", b"\5" * length, b"")


def test_a_key_is_never_written() -> None:
    key = SealingKey.generate()
    assert repr(key) == f"<SealingKey of {key.public.hex()[:12]}>"
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(key)
