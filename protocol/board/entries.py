"""An entry on a board: who says what to whom, signed, with what its author had read before.

    "PSEPHOS ENTRY" | version (1) | session (32) | author | receiver | place (8) | head: size (8), root (32)
        | phase | secret (1) | length (4), body | signature (64)

Names and phase are UTF-8 behind their length (1 byte). The session names what all readers agreed on before: the digest
of their study. The place counts the author's own entries from 0, so that each is one entry wherever it stands. The body
of an entry to one reader is sealed (`sealing`). No paper behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from psephos.protocol.board.history import Head
from psephos.protocol.errors import MessageError
from psephos.protocol.signing import SIGNATURE_BYTES, SigningKey, VerificationKey
from psephos.protocol.wire import DIGEST_BYTES

__all__ = ["SignedEntry"]

_MAGIC = b"PSEPHOS ENTRY\x01"


@dataclass(frozen=True)
class SignedEntry:
    """One entry as it stands on a board.

    Attributes:
        session: 32 bytes, the study.
        author, receiver: names of roles; the receiver may be the board.
        place: how many entries its author signed before.
        head: what the author had read.
        phase: the part of the protocol that it belongs to.
        secret: whether the body is sealed to the receiver.
        body: the message.
        signature: of the author, over everything before it.
    """

    session: bytes = field(repr=False)
    author: str
    receiver: str
    place: int
    head: Head
    phase: str
    secret: bool
    body: bytes = field(repr=False)
    signature: bytes = field(default=b"", repr=False)

    def signed(self, key: SigningKey) -> SignedEntry:
        """The same with its author's signature."""
        return replace(self, signature=key.sign(self._content()))

    def with_body(self, body: bytes) -> SignedEntry:
        """The same around another body."""
        return replace(self, body=body)

    def verify(self, key: VerificationKey) -> None:
        """Raise ForgedSignatureError unless it is signed with this key."""
        key.verify(self.signature, self._content())

    def encode(self) -> bytes:
        """The bytes that are posted."""
        return self._content() + self.signature

    def _content(self) -> bytes:
        parts = [_MAGIC, self.session, _text(self.author), _text(self.receiver), self.place.to_bytes(8, "big")]
        parts += [self.head.size.to_bytes(8, "big"), self.head.root, _text(self.phase)]
        return b"".join((*parts, bytes([self.secret]), len(self.body).to_bytes(4, "big"), self.body))

    @classmethod
    def decode(cls, data: bytes) -> SignedEntry:
        """Raises MessageError for bytes that are no entry of this version; nothing of it is verified."""
        reader = _Reader(data)
        if reader.take(len(_MAGIC)) != _MAGIC:
            raise MessageError("these bytes are no entry of this version")
        session, author, receiver = reader.take(DIGEST_BYTES), reader.text(), reader.text()
        place, head = reader.integer(8), Head(reader.integer(8), reader.take(DIGEST_BYTES))
        phase, secret = reader.text(), reader.integer(1)
        if secret > 1:
            raise MessageError("an entry is secret or it is not")
        body = reader.take(reader.integer(4))
        signature = reader.take(SIGNATURE_BYTES)
        if reader.left:
            raise MessageError(f"an entry has {reader.left} bytes too many")
        return cls(session, author, receiver, place, head, phase, bool(secret), body, signature)


def _text(value: str) -> bytes:
    data = value.encode()
    return bytes([len(data)]) + data


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise MessageError("an entry ends early")
        self._at += count
        return self._data[self._at - count : self._at]

    def integer(self, count: int) -> int:
        return int.from_bytes(self.take(count), "big")

    def text(self) -> str:
        try:
            return self.take(self.integer(1)).decode()
        except UnicodeDecodeError:
            raise MessageError("a name in an entry is no text") from None
