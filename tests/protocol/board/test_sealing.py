"""`SealingKey` and `seal`. `test_board` contains more tests of them."""

from __future__ import annotations

import pickle

import pytest
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, MLKEM768X25519PrivateKey, Suite

from psephos.protocol.board.sealing import SECRET_BYTES, X25519_BYTES, SealingKey, seal
from psephos.protocol.errors import MessageError
from psephos.protocol.randomness import SimulationRandomness


@pytest.mark.parametrize("kem", [KEM.MLKEM768_X25519, KEM.X25519], ids=["hybrid", "earlier versions"])
def test_sealing_is_hpke_with_chacha20_poly1305(kem: KEM) -> None:
    """Each side is replaced by cryptography's own HPKE."""
    suite = Suite(kem, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
    x25519, mlkem = X25519PrivateKey.generate(), MLKEM768PrivateKey.generate()
    theirs: X25519PrivateKey | MLKEM768X25519PrivateKey = x25519
    secret, public = x25519.private_bytes_raw(), x25519.public_key().public_bytes_raw()
    if kem == KEM.MLKEM768_X25519:
        theirs = MLKEM768X25519PrivateKey(mlkem, x25519)
        secret, public = mlkem.private_bytes_raw() + secret, mlkem.public_key().public_bytes_raw() + public
    sealed = seal(b"secret", public, b"about")
    assert suite.decrypt(sealed, theirs, info=b"about") == b"secret"
    ours = SealingKey(secret)
    assert ours.public == public
    sealed = suite.encrypt(b"secret", theirs.public_key(), info=b"about")
    assert ours.open(sealed, b"about") == b"secret"


def test_either_part_of_a_hybrid_key_is_needed() -> None:
    secret, other = SealingKey.generate().secret(), SealingKey.generate().secret()
    sealed = seal(b"secret", SealingKey(secret).public, b"")
    for part in (secret[:64] + other[64:], other[:64] + secret[64:], secret[64:]):
        with pytest.raises(MessageError):
            SealingKey(part).open(sealed, b"")


def test_generated_keys_come_from_the_given_randomness() -> None:
    key = SealingKey.generate(SimulationRandomness(1, "seal"))
    assert key.secret() == SimulationRandomness(1, "seal").draw(SECRET_BYTES)
    assert SealingKey(key.secret()).public == key.public
    assert SealingKey.generate().secret() != SealingKey.generate().secret()
    assert (len(key.public), len(key.secret())) == (1216, 96)


def test_keys_of_another_length_are_refused() -> None:
    for length in (0, 31, 33, 95, 97):
        with pytest.raises(ValueError, match=r"32|64"):
            SealingKey(bytes(length))
    for length in (0, 31, 33, 1215, 1217):
        with pytest.raises(MessageError):
            seal(b"", b"\5" * length, b"")


def test_a_key_is_not_shown_and_not_pickled() -> None:
    key = SealingKey.generate()
    assert repr(key) == f"<SealingKey of {key.public[-X25519_BYTES:].hex()[:12]}>"
    with pytest.raises(TypeError):
        pickle.dumps(key)
