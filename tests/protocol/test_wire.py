"""`frame` and `Reader`: messages are decoded from the first byte to the last."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.protocol.errors import MessageError, WrongRoundError
from psephos.protocol.wire import HEADER_BYTES, Kind, Reader, frame, kind_of, session_of

SESSION, OTHER = b"s" * 32, b"t" * 32


@given(kind=st.sampled_from(Kind), parts=st.lists(st.binary(max_size=9), max_size=5))
def test_framed_messages_are_decoded(kind: Kind, parts: list[bytes]) -> None:
    data, body = frame(kind, SESSION, *parts), b"".join(parts)
    assert data == b"PSEPHOS\x02" + bytes([kind]) + SESSION + body
    assert (kind_of(data), session_of(data), len(data) - HEADER_BYTES) == (kind, SESSION, len(body))
    for session in (SESSION, None):
        reader = Reader(data, kind, session, length=len(body))
        assert [reader.take(len(part)) for part in parts] == parts
        assert reader.rest() == b""
        reader.end()
    reader = Reader(data, kind, SESSION)
    half = len(body) // 2
    assert reader.integer(half) == int.from_bytes(body[:half], "big")
    assert reader.rest() == body[half:]
    reader.end()


def test_malformed_messages_are_refused() -> None:
    data = frame(Kind.BALLOT, SESSION, b"abc")
    for wrong in (data[: HEADER_BYTES - 1], b"", b"p" + data[1:], data[:7] + b"\1" + data[8:]):
        with pytest.raises(MessageError, match="version"):
            kind_of(wrong)
        with pytest.raises(MessageError, match="version"):
            session_of(wrong)
    with pytest.raises(MessageError, match="unknown type"):
        kind_of(data[:8] + b"\0" + data[9:])
    with pytest.raises(MessageError, match="ballot"):
        Reader(data, Kind.CLOSE, SESSION)
    with pytest.raises(WrongRoundError, match="737373"):
        Reader(data, Kind.BALLOT, OTHER)
    for length in (0, 2, 4):
        with pytest.raises(MessageError, match=f"{length} bytes"):
            Reader(data, Kind.BALLOT, SESSION, length=length)
    reader = Reader(data, Kind.BALLOT, SESSION, length=3)
    with pytest.raises(MessageError, match="3 bytes"):
        reader.end()
    for read in (reader.take, reader.integer):
        with pytest.raises(MessageError, match="ends early"):
            read(4)
    assert reader.take(3) == b"abc", "a failed read consumes nothing"
    with pytest.raises(AssertionError):
        frame(Kind.BALLOT, SESSION[1:])
