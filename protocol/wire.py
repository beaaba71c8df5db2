"""The frame of every message, and the registry of message types.

    "PSEPHOS" | version (1) | kind (1) | session (32) | body

Numbers in parentheses are lengths in bytes. The session is the digest of what the readers agreed on before (a round, a
series, the terms of a run), so a message cannot be used in another run. docs/protocols lists the messages.
"""

from __future__ import annotations

from enum import Enum, IntEnum

from psephos.protocol.errors import MessageError, WrongRoundError

_MAGIC = b"PSEPHOS\x02"
DIGEST_BYTES = 32
"""Length of a SHA-256 digest, such as the session."""
HEADER_BYTES = len(_MAGIC) + 1 + DIGEST_BYTES
"""Length of everything before the body."""


class Audience(Enum):
    """Whom a message is for."""

    ALL = "all"
    """Everybody: sent to one reader only, it would let two readers count differently."""
    ONE = "one"
    """One role; everybody may read it."""
    SECRET = "secret"  # noqa: S105 - no password
    """One role, and nobody else may read it: a board encrypts it for its receiver."""


class Kind(IntEnum):
    """The registry of messages: their type bytes, never used again for another one, and whom they are for."""

    audience: Audience

    def __new__(cls, number: int, audience: Audience = Audience.ALL) -> Kind:
        kind = int.__new__(cls, number)
        kind._value_, kind.audience = number, audience
        return kind

    # an encrypted sum
    BALLOT = 1, Audience.ALL
    TALLY_REQUEST = 2, Audience.ONE
    PARTIAL_DECRYPTION = 3, Audience.SECRET
    CLOSE = 4, Audience.ALL
    CONFIRMATION = 5, Audience.ALL
    NOISE_BALLOT = 6, Audience.ALL
    # a series of encrypted sums
    ANNOUNCEMENT = 16, Audience.ALL
    PUBLISHED_SUM = 17, Audience.ALL
    # Pathak 2010, in the order of the protocol
    PROPOSAL = 32, Audience.SECRET
    GROUP_SECRET = 33, Audience.SECRET
    GROUP_KEY = 34, Audience.SECRET
    SIZE_SHARE = 35, Audience.SECRET
    INDEXED_SHARE = 36, Audience.SECRET
    MASKED_SHARE = 37, Audience.SECRET
    QUESTIONS = 38, Audience.SECRET
    OPPONENTS = 39, Audience.SECRET
    LENT_SHARE = 40, Audience.SECRET
    ANSWERS = 41, Audience.SECRET
    SELECTION = 42, Audience.SECRET
    BUCKET_VOTE = 43, Audience.SECRET
    BUCKET_SELECTION = 44, Audience.SECRET
    NOISE_FACTOR = 45, Audience.SECRET
    MASKED_NOISE = 46, Audience.SECRET
    RESHARE = 47, Audience.SECRET
    PUBLISHED_SHARE = 48, Audience.ALL

    # key generation without a dealer, in the order of the protocol
    SEED_COMMITMENTS = 64, Audience.ALL
    SEED_CONTRIBUTIONS = 65, Audience.ALL
    RESIDUE_PRODUCTS = 66, Audience.ALL
    RESIDUE_DIFFERENCES = 67, Audience.ALL
    COMMITMENT = 68, Audience.ALL
    MODULUS_SHARES = 69, Audience.ALL
    TEST_VALUES = 70, Audience.ALL
    OPENED_CANDIDATES = 71, Audience.ALL
    EXPONENT_COMMITMENTS = 72, Audience.ALL
    EXPONENT_SHARES = 73, Audience.ALL
    TEST_DECRYPTION = 74, Audience.ALL
    OPENED_SEEDS = 75, Audience.ALL
    COMPLAINT = 76, Audience.ALL
    FAILED_CEREMONY = 77, Audience.ALL

    # a study, before and after its protocol
    JOINED = 80, Audience.ALL
    PUBLIC_KEY = 81, Audience.ALL
    RESULT = 82, Audience.ALL

    @property
    def title(self) -> str:
        return self.name.lower().replace("_", " ")


def frame(kind: Kind, session: bytes, *parts: bytes) -> bytes:
    """Return an encoded message of a kind and a session (32 bytes), whose body consists of these parts."""
    assert len(session) == DIGEST_BYTES
    return b"".join((_MAGIC, bytes([kind]), session, *parts))


def kind_of(data: bytes) -> Kind:
    """Return the type of a message; raises MessageError."""
    if len(data) < HEADER_BYTES or data[: len(_MAGIC)] != _MAGIC:
        raise MessageError("these bytes are not a message of this version")
    try:
        return Kind(data[len(_MAGIC)])
    except ValueError:
        raise MessageError(f"the message has the unknown type {data[len(_MAGIC)]}") from None


def session_of(data: bytes) -> bytes:
    """Return the session of a message, 32 bytes; raises MessageError."""
    kind_of(data)
    return data[HEADER_BYTES - DIGEST_BYTES : HEADER_BYTES]


def messages_in(data: bytes, *kinds: Kind) -> list[bytes]:
    """Return what may be messages of these kinds in any bytes: each from its header to the next header or the end."""
    parts = (_MAGIC + part for part in data.split(_MAGIC)[1:])
    return [part for part in parts if len(part) >= HEADER_BYTES and part[len(_MAGIC)] in kinds]


class ByteReader:
    def __init__(self, data: bytes, what: str, offset: int = 0) -> None:
        """Start at an offset; errors call the value `what`, such as "an entry"."""
        self._data, self._what, self._offset = data, what, offset

    @property
    def _left(self) -> int:
        return len(self._data) - self._offset

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes; raises MessageError."""
        if count > self._left:
            raise MessageError(f"{self._what} ends early")
        self._offset += count
        return self._data[self._offset - count : self._offset]

    def integer(self, count: int) -> int:
        """Return the next `count` bytes as an unsigned integer, big-endian; raises MessageError."""
        return int.from_bytes(self.take(count), "big")

    def rest(self) -> bytes:
        return self.take(self._left)

    def end(self) -> None:
        """Raise MessageError if any bytes are left."""
        if self._left:
            raise MessageError(f"{self._what} has {self._left} bytes too many")


class Reader(ByteReader):
    def __init__(self, data: bytes, kind: Kind, session: bytes | None, *, length: int | None = None) -> None:
        """Raise MessageError for another kind or length of content, WrongRoundError for another session."""
        if kind_of(data) is not kind:
            raise MessageError(f"expected a {kind.title}, and this is a {kind_of(data).title}")
        if session is not None and session_of(data) != session:
            raise WrongRoundError(
                f"a {kind.title} was made for session {session_of(data).hex()[:12]}, and this is {session.hex()[:12]}: "
                "the terms of the two differ"
            )
        if length is not None and len(data) - HEADER_BYTES != length:
            raise MessageError(
                f"a {kind.title} of this run has {length} bytes of content, not {len(data) - HEADER_BYTES}"
            )
        ByteReader.__init__(self, data, f"a {kind.title}", HEADER_BYTES)
