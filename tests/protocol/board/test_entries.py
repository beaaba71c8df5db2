"""The bytes of an entry, written out by hand; and what no entry is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.board.history import EMPTY, Head
from psephos.protocol.errors import ForgedSignatureError, MessageError
from psephos.protocol.signing import SigningKey

KEY = SigningKey.generate()
ENTRY = SignedEntry(b"S" * 32, "party 3", "höld", 258, Head(259, b"R" * 32), "cast", True, b"body").signed(KEY)
CONTENT = (
    b"PSEPHOS ENTRY\x01" + b"S" * 32 + b"\x07party 3" + b"\x05h\xc3\xb6ld" + (258).to_bytes(8, "big")
    + (259).to_bytes(8, "big") + b"R" * 32 + b"\x04cast" + b"\x01" + (4).to_bytes(4, "big") + b"body"
)  # fmt: skip


def test_an_entry_is_its_fields_one_after_another_and_a_signature() -> None:
    data = ENTRY.encode()
    assert data[:-64] == CONTENT
    KEY.verification_key.verify(data[-64:], CONTENT)
    assert SignedEntry.decode(data) == ENTRY
    public = replace(ENTRY, secret=False)
    assert public.encode()[: len(CONTENT)] == CONTENT.replace(b"cast\x01", b"cast\x00")
    assert SignedEntry.decode(public.encode()).secret is False


def test_who_signs_says_everything_before_the_signature() -> None:
    ENTRY.verify(KEY.verification_key)
    assert ENTRY.with_body(b"other") == replace(ENTRY, body=b"other")
    with pytest.raises(ForgedSignatureError):
        ENTRY.with_body(b"other").verify(KEY.verification_key)
    with pytest.raises(ForgedSignatureError):
        ENTRY.verify(SigningKey.generate().verification_key)
    assert replace(ENTRY, signature=b"").signed(KEY) == ENTRY, "Ed25519 draws nothing"
    assert SignedEntry(b"", "", "", 0, Head(), "", False, b"").signature == b""
    assert Head() == Head(0, EMPTY)


def test_every_beginning_of_an_entry_is_none() -> None:
    data = ENTRY.encode()
    for end in range(len(data)):
        with pytest.raises(MessageError, match=r"ends early|no entry of this version"):
            SignedEntry.decode(data[:end])


def at(place: bytes, *, plus: int = 0) -> int:
    return CONTENT.index(place) + len(place) + plus


@pytest.mark.parametrize(
    ("where", "byte", "said"),
    [
        (at(b"PSEPHOS ENTRY"), 2, "no entry of this version"),
        (at(b"cast"), 2, "secret or it is not"),
        (at(b"cast"), 255, "secret or it is not"),
        (at(b"\x05h"), 0xFF, "no text"),
    ],
)
def test_bytes_that_are_none(where: int, byte: int, said: str) -> None:
    data = bytearray(ENTRY.encode())
    data[where] = byte
    with pytest.raises(MessageError, match=said):
        SignedEntry.decode(bytes(data))


def test_an_entry_has_nothing_behind_it() -> None:
    with pytest.raises(MessageError, match="1 bytes too many"):
        SignedEntry.decode(ENTRY.encode() + b"\0")


def test_a_name_is_at_most_255_bytes_long() -> None:
    long = replace(ENTRY, author="a" * 255)
    assert SignedEntry.decode(long.encode()) == long
    with pytest.raises(ValueError, match="range"):
        replace(ENTRY, author="a" * 256).encode()


def test_what_a_log_shows_of_an_entry() -> None:
    shown = repr(ENTRY)
    assert "party 3" in shown
    assert not any(hidden in shown for hidden in ("S" * 32, "body", "R" * 8))
