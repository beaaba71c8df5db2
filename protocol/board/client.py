"""One role's use of a board: it checks every entry that it reads, and signs its own.

Whatever a board does, a role receives only messages that their authors signed for this study, each once, and only from
authors who have read the same log. Every other entry is rejected with a named error, and remains a part of the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from psephos.protocol.board import MOST_BYTES
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.board.history import Head, History, leaf_hash
from psephos.protocol.board.sealing import X25519_BYTES, SealingKey, check_sealing_key, seal
from psephos.protocol.errors import (
    BoardError,
    EquivocationError,
    MessageError,
    PsephosError,
    UnexpectedMessageError,
    UnknownPartyError,
    UnsealedMessageError,
    WrongRoundError,
    without_traceback,
)
from psephos.protocol.roles import BOARD, Entry, Post
from psephos.protocol.signing import SigningKey, VerificationKey
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Audience, Kind, Reader, frame


@dataclass(frozen=True)
class BoardMembers:
    """The roles that may post on a board.

    Attributes:
        session: the digest of the study that they agreed on, 32 bytes.
        keys: the verification key of each role.
        limits: the most bytes that all entries of a role may have together; a role without a limit may post any number.
        sums_public: whether sums are opened for everybody; otherwise partial decryptions are sealed to the curator.
        x25519_suffices: whether a sealing key may be of X25519 alone, as in studies of earlier versions.
    """

    session: bytes = field(repr=False)
    keys: Mapping[str, VerificationKey]
    limits: Mapping[str, int] = field(default_factory=dict, repr=False)
    sums_public: bool = False
    x25519_suffices: bool = False


@storable
@dataclass(frozen=True)
class LogRecord:
    """What a client has to remember of an entry; `author` is empty if it is not valid, `sealing` unless it joins."""

    leaf: bytes = field(repr=False)
    author: str = ""
    place: int = 0
    sealing: bytes = field(default=b"", repr=False)
    size: int = 0


@dataclass(frozen=True)
class CheckedEntry:
    """The result of checking one entry.

    Fields whose names do not say it:
        signed: the entry, also if it was rejected; None if it is not of this study or not signed by its author.
        entry: the message; None if it is for another role, a repetition, or rejected.
        error: why the entry was rejected.
    """

    record: LogRecord
    signed: SignedEntry | None = None
    entry: Entry | None = None
    error: PsephosError | None = None


def describe_missing(places: Mapping[str, Sequence[range]]) -> str:
    """Return `BoardReader.missing_places` as a text; empty if nothing is missing."""
    texts = [
        f"{author} {gap.start}" + (f" to {gap.stop - 1}" if gap.stop - gap.start > 1 else "")
        for author, gaps in places.items()
        for gap in gaps
    ]
    return f"entries that the board or their author left out, by author and place: {', '.join(texts)}" if texts else ""


def join_message(session: bytes, sealing_key: bytes) -> bytes:
    """Return the first message of a role, with which it agrees to the study and announces its sealing key."""
    return frame(Kind.JOINED, session, sealing_key)


def announced_key(data: bytes, members: BoardMembers) -> bytes:
    """Return the sealing key of a `joined` message; raises MessageError or WrongRoundError."""
    key = Reader(data, Kind.JOINED, members.session).rest()
    if len(key) == X25519_BYTES and not members.x25519_suffices:
        raise MessageError("a sealing key is of X25519 alone: this member runs an earlier version of Psephos")
    # A key that nothing can be encrypted to would stop the role that tries, instead of the one that announced it.
    check_sealing_key(key)
    return key


class BoardReader:
    """Reads and checks the entries of a board, in order. Anybody who has the study can do so; it needs no key."""

    def __init__(self, members: BoardMembers, name: str = "", sealing: SealingKey | None = None) -> None:
        """Read the messages to `name`, decrypted by its sealing key, besides the public ones."""
        self.members, self.name, self._sealing = members, name, sealing
        self._history = History()
        self._leaves: dict[tuple[str, int], bytes] = {}  # by author and place
        self._sizes: dict[str, int] = {}  # bytes of all entries of an author
        self._sealing_keys: dict[str, bytes] = {}

    @property
    def head(self) -> Head:
        return self._history.head

    @property
    def joined(self) -> frozenset[str]:
        return frozenset(self._sealing_keys)

    def missing_places(self) -> dict[str, list[range]]:
        """Return, by author, the places before its last entry that the board or the author left out."""
        places: dict[str, list[int]] = {}
        for author, place in self._leaves:
            places.setdefault(author, [-1]).append(place)
        gaps = {
            author: [range(one + 1, after) for one, after in pairwise(sorted(own)) if after > one + 1]
            for author, own in sorted(places.items())
        }
        return {author: missing for author, missing in gaps.items() if missing}

    def check(self, number: int, data: bytes) -> CheckedEntry:
        """Check the next entry of the board and remember it; raises BoardError if its number is not the next."""
        if number != self.head.size + 1:
            raise BoardError(f"the board left out entries: entry {number} came after entry {self.head.size}")
        record, signed, entry, refusal = LogRecord(leaf_hash(data)), None, None, None
        try:
            signed = self._verify(number, data)
            if signed is not None and self._leaves.get((signed.author, signed.place)) != record.leaf:  # no repetition
                record = self._place(record, number, len(data), signed)
                entry = self._open(number, signed)
                if entry is not None and entry.is_a(Kind.JOINED):
                    record = replace(record, sealing=self._announced_key(number, entry))
        except PsephosError as error:
            # After a failure in `_open` the record includes author and place. Roles that cannot decrypt the entry
            # regard this place as used, so the role that can must do so as well.
            entry, refusal = None, without_traceback(error)
        self.restore(record)
        return CheckedEntry(record, signed, entry, refusal)

    def restore(self, record: LogRecord) -> None:
        self._history.append(record.leaf)
        if record.author:
            self._leaves[record.author, record.place] = record.leaf
            self._sizes[record.author] = self._sizes.get(record.author, 0) + record.size
        if record.sealing:
            self._sealing_keys.setdefault(record.author, record.sealing)

    def _verify(self, number: int, data: bytes) -> SignedEntry | None:
        """Return an entry that its author has signed for this study; None for an empty one."""
        if not data:  # boards use empty entries for the parts of a longer one
            return None
        if len(data) > MOST_BYTES:
            raise MessageError(f"entry {number} has {len(data)} bytes; the limit is {MOST_BYTES}")
        signed = SignedEntry.decode(data)
        if signed.session != self.members.session:
            raise WrongRoundError(f"entry {number} belongs to another study, {signed.session.hex()[:12]}")
        if signed.author not in self.members.keys:
            raise UnknownPartyError(f"entry {number} is signed by {signed.author!r}, which is not a role of the study")
        signed.verify(self.members.keys[signed.author])
        return signed

    def _place(self, record: LogRecord, number: int, size: int, signed: SignedEntry) -> LogRecord:
        """Return the record of an entry that takes its author's place; raise an error if it cannot have it."""
        if (signed.author, signed.place) in self._leaves:
            raise EquivocationError(
                f"entry {number}: {signed.author} signed a second entry in place {signed.place}. Either an old copy of "
                "its store was restored, or it deviates from the protocol"
            )
        self._check_limit(signed.author, number, size)
        if not self._history.extends(signed.head):
            raise EquivocationError(
                f"entry {number}: {signed.author} signed that it has read {signed.head}, which is not how this board "
                "begins. Either the board shows it another log, or it deviates from the protocol"
            )
        return replace(record, author=signed.author, place=signed.place, size=size)

    def _check_limit(self, author: str, number: int, size: int) -> None:
        limit, posted = self.members.limits.get(author), self._sizes.get(author, 0)
        if limit is not None and posted + size > limit:
            raise MessageError(
                f"entry {number}: {author} has posted {posted} bytes; {size} more exceed the {limit} that the study "
                "leaves it"
            )

    def _open(self, number: int, signed: SignedEntry) -> Entry | None:
        """Return the message of an entry, decrypted if it is sealed; None if it is not for this reader."""
        if signed.is_readable:
            body = signed.body
        elif signed.receiver == self.name and self._sealing is not None:
            body = self._sealing.open(signed.body, _sealing_info(signed))
        else:
            return None
        message = Entry(number, signed.author, signed.receiver, body)
        self._check_audience(message, signed)
        return message if signed.receiver in (BOARD, self.name) else None

    def _check_audience(self, message: Entry, signed: SignedEntry) -> None:
        """Raise UnsealedMessageError or UnexpectedMessageError for a message that others should read than can."""
        try:
            kind = message.kind
        except MessageError:
            return  # what is no message is for its receiver to refuse
        audience = kind.audience
        if kind is Kind.PARTIAL_DECRYPTION and self.members.sums_public:
            audience = Audience.ALL
        if audience is Audience.SECRET and signed.is_readable:
            raise UnsealedMessageError(
                f"entry {message.number}: {signed.author} sent a {kind.title}, which is for one role alone, in clear"
            )
        if (audience is Audience.ALL) != (signed.receiver == BOARD):
            raise UnexpectedMessageError(
                f"entry {message.number}: {signed.author} sent a {kind.title} to {signed.receiver!r}, and it is for "
                f"{'everybody' if audience is Audience.ALL else 'one role'}"
            )

    def _announced_key(self, number: int, message: Entry) -> bytes:
        key = announced_key(message.data, self.members)
        if message.sender in self._sealing_keys:
            raise UnexpectedMessageError(f"entry {number}: {message.sender} has joined before")
        return key


class BoardClient(BoardReader):
    """Reads a board as one role, and signs this role's entries."""

    def __init__(self, members: BoardMembers, name: str, key: SigningKey, sealing: SealingKey | None) -> None:
        """Raise UnknownPartyError if the study has no such role or another key."""
        if members.keys.get(name) != key.verification_key:
            raise UnknownPartyError(f"the study has no {name} with this signing key")
        super().__init__(members, name, sealing)
        self._key = key
        self.place = 0
        """The place of the role's next entry among its own."""

    def sign(self, post: Post) -> bytes:
        """Return a message as this role's next entry, signed, and encrypted if it is secret.

        Raises MessageError, and UnsupportedAlgorithmError where OpenSSL has no ML-KEM-768.
        """
        secret = post.secret and post.receiver != BOARD
        entry = SignedEntry(
            self.members.session, self.name, post.receiver, self.place, self.head, post.phase, secret, post.data
        )
        if secret:
            if post.receiver not in self._sealing_keys:
                raise MessageError(f"{post.receiver} has not joined, so no message can be encrypted to it")
            sealed = seal(post.data, self._sealing_keys[post.receiver], _sealing_info(entry))
            entry = replace(entry, body=sealed)
        self.place += 1
        return entry.signed(self._key).encode()

    def forget_secrets(self) -> None:
        self._sealing = None


def _sealing_info(entry: SignedEntry) -> bytes:
    names = b"".join(bytes([len(name.encode())]) + name.encode() for name in (entry.author, entry.receiver))
    return b"psephos sealed\0" + entry.session + names + entry.place.to_bytes(8, "big")
