"""Sealed messages between two holders: only these two can read them, and a changed message is rejected."""

from __future__ import annotations

import pytest

from psephos.protocol.ceremony.pairs import TAG_BYTES, public, seal, unseal
from psephos.protocol.errors import MessageError

ONE, OTHER, THIRD = (bytes([place]) * 32 for place in (1, 2, 3))


def test_only_sender_and_receiver_can_unseal_a_message() -> None:
    sealed = seal(ONE, public(OTHER), b"stage 1", b"a seed")
    assert len(sealed) == len(b"a seed") + TAG_BYTES
    assert unseal(OTHER, public(ONE), b"stage 1", sealed) == unseal(ONE, public(OTHER), b"stage 1", sealed) == b"a seed"
    for secret, theirs, about, data in (
        (THIRD, public(ONE), b"stage 1", sealed),
        (OTHER, public(THIRD), b"stage 1", sealed),
        (OTHER, public(ONE), b"stage 2", sealed),
        (OTHER, public(ONE), b"stage 1", sealed[:-1]),
        (OTHER, public(ONE), b"stage 1", bytes([sealed[0] ^ 1]) + sealed[1:]),
        (OTHER, public(ONE), b"stage 1", b""),
    ):
        with pytest.raises(MessageError):
            unseal(secret, theirs, about, data)
    assert seal(ONE, public(OTHER), b"stage 2", b"a seed") != sealed


def test_an_invalid_x25519_key_is_refused() -> None:
    for bad in (bytes(32), b"\1" + bytes(31), b"short"):
        for call in (lambda bad=bad: seal(ONE, bad, b"x", b"y"), lambda bad=bad: unseal(ONE, bad, b"x", bytes(20))):
            with pytest.raises(MessageError):
                call()
