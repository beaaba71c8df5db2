"""How every message of every protocol is framed: one envelope, one registry of types.

    "PSEPHOS" | version (1) | kind (1) | session (32) | body

The session is the digest of what its readers agreed on before (a round, a series, the terms of a run), so that a
message can't be taken for one of another run. A `Reader` takes a body apart and refuses whatever is too short, too long
or of another kind. No paper behind it; the messages are listed in docs/protocols.
"""

from __future__ import annotations

from enum import IntEnum

from psephos.protocol.errors import MessageError, WrongRoundError

__all__ = ["DIGEST_BYTES", "HEADER_BYTES", "Kind", "Reader", "frame", "kind_of", "session_of"]

_MAGIC = b"PSEPHOS\x02"
DIGEST_BYTES = 32
"""Of the session's digest, as of every SHA-256."""
HEADER_BYTES = len(_MAGIC) + 1 + DIGEST_BYTES
"""What stands before every body."""


class Kind(IntEnum):
    """The registry: every message that travels, and its type byte. A number is given once and never again."""

    # an encrypted sum
    BALLOT = 1
    TALLY_REQUEST = 2
    PARTIAL_DECRYPTION = 3
    CLOSE = 4
    CONFIRMATION = 5
    # a series of them
    ANNOUNCEMENT = 16
    PUBLISHED_SUM = 17
    # Pathak 2010, in the order of the protocol
    PROPOSAL = 32
    GROUP_SECRET = 33
    GROUP_KEY = 34
    SIZE_SHARE = 35
    INDEXED_SHARE = 36
    MASKED_SHARE = 37
    QUESTIONS = 38
    OPPONENTS = 39
    LENT_SHARE = 40
    ANSWERS = 41
    SELECTION = 42
    RUNG_VOTE = 43
    RUNG_SELECTION = 44
    NOISE_FACTOR = 45
    MASKED_NOISE = 46
    RESHARE = 47
    PUBLISHED_SHARE = 48

    # the ceremony without a dealer, in the order of the protocol
    SEED_COMMITMENTS = 64
    SEED_CONTRIBUTIONS = 65
    RESIDUE_PRODUCTS = 66
    RESIDUE_DIFFERENCES = 67
    COMMITMENT = 68
    MODULUS_SHARES = 69
    TEST_VALUES = 70
    OPENED_CANDIDATES = 71
    EXPONENT_COMMITMENTS = 72
    EXPONENT_SHARES = 73
    TEST_DECRYPTION = 74
    OPENED_SEEDS = 75
    COMPLAINT = 76
    FAILED_CEREMONY = 77

    # a study, around the protocol that it agrees on
    JOINED = 80
    PUBLIC_KEY = 81
    RESULT = 82

    @property
    def public(self) -> bool:
        """Whether it is said to everybody: told to one reader alone, it would make two readers count differently."""
        to_one = self in (Kind.TALLY_REQUEST, Kind.PARTIAL_DECRYPTION) or Kind.PROPOSAL <= self < Kind.PUBLISHED_SHARE
        return not to_one

    @property
    def title(self) -> str:
        """The message's name in transcripts and errors."""
        return self.name.lower().replace("_", " ")


def frame(kind: Kind, session: bytes, *parts: bytes) -> bytes:
    """A message as it travels; `session` has 32 bytes."""
    assert len(session) == DIGEST_BYTES
    return b"".join((_MAGIC, bytes([kind]), session, *parts))


def kind_of(data: bytes) -> Kind:
    """What a message says it is; raises MessageError for bytes that are no message of this version."""
    if len(data) < HEADER_BYTES or data[: len(_MAGIC)] != _MAGIC:
        raise MessageError("these bytes are no message of this version")
    try:
        return Kind(data[len(_MAGIC)])
    except ValueError:
        raise MessageError("a message of an unknown type") from None


def session_of(data: bytes) -> bytes:
    """The 32 bytes that name what a message belongs to; raises MessageError as `kind_of`."""
    kind_of(data)
    return data[HEADER_BYTES - DIGEST_BYTES : HEADER_BYTES]


class Reader:
    """Takes one message apart, from its first byte to its last."""

    def __init__(self, data: bytes, kind: Kind, session: bytes | None, *, length: int | None = None) -> None:
        """
        Args:
            data: the message.
            kind: what it must be.
            session: what it must belong to; None when that is not known yet.
            length: of the body, where only one is right.

        Raises MessageError (no such message) or WrongRoundError (of another session).
        """
        if kind_of(data) is not kind:
            raise MessageError(f"a {kind.title} was expected here, and this is a {kind_of(data).title}")
        if session is not None and session_of(data) != session:
            raise WrongRoundError(
                f"a {kind.title} made for {session_of(data).hex()[:12]}, and this is {session.hex()[:12]}: what was "
                "agreed on differs"
            )
        if length is not None and len(data) - HEADER_BYTES != length:
            raise MessageError(
                f"a {kind.title} of this run has {length} bytes of content, not {len(data) - HEADER_BYTES}"
            )
        self._data, self._at, self._kind = data, HEADER_BYTES, kind

    def take(self, count: int) -> bytes:
        """The next `count` bytes; raises MessageError when there are fewer."""
        if count > len(self._data) - self._at:
            raise MessageError(f"a {self._kind.title} ends early")
        self._at += count
        return self._data[self._at - count : self._at]

    def integer(self, count: int) -> int:
        """The next `count` bytes as an unsigned integer, most significant first; raises MessageError."""
        return int.from_bytes(self.take(count), "big")

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(len(self._data) - self._at)

    def end(self) -> None:
        """Raise MessageError when something is left."""
        if self._at != len(self._data):
            raise MessageError(f"a {self._kind.title} has {len(self._data) - self._at} bytes too many")
