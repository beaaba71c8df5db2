"""`SignedEntry`: its encoding, written out by hand, and malformed entries."""

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


def test_encoding() -> None:
    data = ENTRY.encode()
    assert data[:-64] == CONTENT
    KEY.verification_key.verify(data[-64:], CONTENT)
    assert SignedEntry.decode(data) == ENTRY
    public = replace(ENTRY, secret=False)
    assert public.encode()[: len(CONTENT)] == CONTENT.replace(b"cast\x01", b"cast\x00")
    assert SignedEntry.decode(public.encode()).secret is False


def test_the_signature_covers_everything_before_it() -> None:
    ENTRY.verify(KEY.verification_key)
    with pytest.raises(ForgedSignatureError):
        replace(ENTRY, body=b"other").verify(KEY.verification_key)
    with pytest.raises(ForgedSignatureError):
        ENTRY.verify(SigningKey.generate().verification_key)
    assert replace(ENTRY, signature=b"").signed(KEY) == ENTRY, "Ed25519 is deterministic"
    assert SignedEntry(b"", "", "", 0, Head(), "", False, b"").signature == b""
    assert Head() == Head(0, EMPTY)


def test_truncated_entries_are_refused() -> None:
    data = ENTRY.encode()
    for wrong in (*(data[:end] for end in range(len(data))), data + b"\0"):
        with pytest.raises(MessageError):
            SignedEntry.decode(wrong)


def after(part: bytes) -> int:
    """Return the index of the byte after this part of the entry."""
    return CONTENT.index(part) + len(part)


@pytest.mark.parametrize(
    ("index", "byte"),
    [(after(b"PSEPHOS ENTRY"), 2), (after(b"cast"), 2), (after(b"cast"), 255), (after(b"\x05h"), 0xFF)],
)
def test_malformed_fields_are_refused(index: int, byte: int) -> None:
    data = bytearray(ENTRY.encode())
    data[index] = byte
    with pytest.raises(MessageError):
        SignedEntry.decode(bytes(data))


def test_repr_shows_no_content() -> None:
    text = repr(ENTRY)
    assert "party 3" in text
    assert not any(hidden in text for hidden in ("S" * 32, "body", "R" * 8))
