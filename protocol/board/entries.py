"""The entries of a board: a message, its author and receiver, and what the author had read before, signed.

    "PSEPHOS ENTRY" | version (1) | session (32) | author | receiver | place (8) | head: size (8), root (32)
        | phase | secret (1) | length (4), body | signature (64)

Numbers in parentheses are lengths in bytes; integers are big-endian. Names and phase are UTF-8, preceded by their
length (1 byte). The session is the digest of the study; the place counts the author's own entries from 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from psephos.protocol.board.history import Head
from psephos.protocol.errors import MessageError
from psephos.protocol.roles import BOARD
from psephos.protocol.signing import SIGNATURE_BYTES, SigningKey, VerificationKey
from psephos.protocol.wire import DIGEST_BYTES, ByteReader

_MAGIC = b"PSEPHOS ENTRY\x01"


@dataclass(frozen=True)
class SignedEntry:
    """One entry of a board, as the module describes it; `secret`: whether the body is encrypted to the receiver."""

    session: bytes = field(repr=False)
    author: str
    receiver: str
    place: int
    head: Head
    phase: str
    secret: bool
    body: bytes = field(repr=False)
    signature: bytes = field(default=b"", repr=False)

    @property
    def is_readable(self) -> bool:
        return self.receiver == BOARD or not self.secret

    def signed(self, key: SigningKey) -> SignedEntry:
        return replace(self, signature=key.sign(self._signed_content()))

    def verify(self, key: VerificationKey) -> None:
        """Raise ForgedSignatureError unless the signature verifies under this key."""
        key.verify(self.signature, self._signed_content())

    def encode(self) -> bytes:
        return self._signed_content() + self.signature

    def _signed_content(self) -> bytes:
        parts = [
            _MAGIC,
            self.session,
            _encode_text(self.author),
            _encode_text(self.receiver),
            self.place.to_bytes(8, "big"),
            self.head.size.to_bytes(8, "big"),
            self.head.root,
            _encode_text(self.phase),
            bytes([self.secret]),
            len(self.body).to_bytes(4, "big"),
            self.body,
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> SignedEntry:
        """Decode an entry. The signature is not verified; raises MessageError."""
        reader = ByteReader(data, "an entry")
        if reader.take(len(_MAGIC)) != _MAGIC:
            raise MessageError("these bytes are not an entry of this version")
        session = reader.take(DIGEST_BYTES)
        author = _text(reader)
        receiver = _text(reader)
        place = reader.integer(8)
        head = Head(reader.integer(8), reader.take(DIGEST_BYTES))
        phase = _text(reader)
        secret = reader.integer(1)
        if secret > 1:
            raise MessageError(f"the flag of a secret entry is 0 or 1, not {secret}")
        body = reader.take(reader.integer(4))
        signature = reader.take(SIGNATURE_BYTES)
        reader.end()
        return cls(session, author, receiver, place, head, phase, bool(secret), body, signature)


def _encode_text(value: str) -> bytes:
    data = value.encode()
    return bytes([len(data)]) + data


def _text(reader: ByteReader) -> str:
    try:
        return reader.take(reader.integer(1)).decode()
    except UnicodeDecodeError:
        raise MessageError("a name in an entry is not UTF-8") from None
