"""What one role knows of a board: everything it has read, checked; and how it says something itself.

Whatever a board does, a role is shown entries that their authors signed for this study, once each, and only from
authors who have read the same log. What is no such entry is refused by name, and still is part of the log.
No paper behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from psephos.protocol.board import MOST_BYTES
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.board.history import Head, History, leaf_hash
from psephos.protocol.board.sealing import SEALING_KEY_BYTES, SealingKey, seal
from psephos.protocol.errors import (
    BoardError,
    EquivocationError,
    MessageError,
    PsephosError,
    UnexpectedMessageError,
    UnknownPartyError,
    WrongRoundError,
    bare,
)
from psephos.protocol.roles import BOARD, Entry, Post
from psephos.protocol.signing import SigningKey, VerificationKey
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind, Reader, frame

__all__ = ["BoardClient", "BoardMembers", "BoardReader", "Checked", "LogRecord", "joined"]


@dataclass(frozen=True)
class BoardMembers:
    """Who may say anything: the digest of what they agreed on, 32 bytes, and the key of each role by its name."""

    session: bytes = field(repr=False)
    keys: Mapping[str, VerificationKey]


@storable
@dataclass(frozen=True)
class LogRecord:
    """What a seat must know again of an entry that it has read; `sealing` is what a JOINED entry brought."""

    leaf: bytes = field(repr=False)
    author: str = ""
    place: int = 0
    sealing: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Checked:
    """What came of one entry: the message, when there is one for this role or everybody; or why it was refused."""

    note: LogRecord
    entry: Entry | None = None
    error: PsephosError | None = None


def joined(session: bytes, sealing_key: bytes) -> bytes:
    """The first message of every role: it agrees to the study, and secrets for it are sealed to this key."""
    return frame(Kind.JOINED, session, sealing_key)


class BoardReader:
    """Reads entries in the order of the board, and takes no part: whoever knows the study can be one."""

    def __init__(self, members: BoardMembers, name: str = "", sealing: SealingKey | None = None) -> None:
        """`members`: who takes part. `name`, `sealing`: of a role, whose secrets are then opened too."""
        self.members, self.name, self._sealing = members, name, sealing
        self._history = History()
        self._seen: dict[tuple[str, int], bytes] = {}
        self._sealing_keys: dict[str, bytes] = {}

    @property
    def head(self) -> Head:
        """Of the log, as far as it was read."""
        return self._history.head

    def take(self, number: int, data: bytes) -> Checked:
        """The next entry of the board; raises BoardError when it is not the next."""
        if number != self.head.size + 1:
            raise BoardError(f"entry {number} came after entry {self.head.size}: the board leaves something out")
        note = LogRecord(leaf_hash(data))
        try:
            note, signed = self._checked(note, number, data)
            taken = Checked(note) if signed is None else Checked(*self._opened(note, number, signed))
        except PsephosError as error:
            # With its place: who cannot open it counts the place as taken, and so must who can.
            taken = Checked(note, error=bare(error))
        self.recall(taken.note)
        return taken

    def recall(self, note: LogRecord) -> None:
        """Know again what was read before."""
        self._history.append(note.leaf)
        if note.author:
            self._seen[note.author, note.place] = note.leaf
        if note.sealing:
            self._sealing_keys.setdefault(note.author, note.sealing)

    def _checked(self, note: LogRecord, number: int, data: bytes) -> tuple[LogRecord, SignedEntry | None]:
        """What everybody sees alike, whoever can open it."""
        if not data:  # a place that a board keeps for itself, as for a part of a longer entry
            return note, None
        if len(data) > MOST_BYTES:
            raise MessageError(f"entry {number} has {len(data)} bytes; none has more than {MOST_BYTES}")
        signed = SignedEntry.decode(data)
        if signed.session != self.members.session:
            raise WrongRoundError(f"entry {number} belongs to another study, {signed.session.hex()[:12]}")
        if signed.author not in self.members.keys:
            raise UnknownPartyError(f"entry {number} is by {signed.author!r}, who is not in the study")
        signed.verify(self.members.keys[signed.author])
        if (before := self._seen.get((signed.author, signed.place))) is not None:
            if before == note.leaf:
                return note, None
            raise EquivocationError(
                f"entry {number}: {signed.author} has signed another entry in place {signed.place}. It was set back to "
                "an old copy of its state, or it lies"
            )
        note = LogRecord(note.leaf, signed.author, signed.place)
        if not self._history.extends(signed.head):
            raise EquivocationError(
                f"entry {number}: {signed.author} says that it has read {signed.head}, and this board has begun "
                "otherwise. It was shown another board, or it lies"
            )
        return note, signed

    def _opened(self, note: LogRecord, number: int, signed: SignedEntry) -> tuple[LogRecord, Entry | None]:
        if signed.receiver == BOARD or not signed.secret:
            body = signed.body
        elif signed.receiver == self.name and self._sealing is not None:
            body = self._sealing.open(signed.body, _about(signed))
        else:
            return note, None
        entry = Entry(number, signed.author, signed.receiver, body)
        if signed.receiver != BOARD and _public(entry):
            raise UnexpectedMessageError(
                f"entry {number}: {signed.author} told {signed.receiver!r} alone what is for everybody: a "
                f"{entry.kind.title}"
            )
        if entry.is_a(Kind.JOINED):
            reader = Reader(body, Kind.JOINED, self.members.session, length=SEALING_KEY_BYTES)
            if signed.author in self._sealing_keys:
                raise UnexpectedMessageError(f"entry {number}: {signed.author} has joined before")
            key = reader.rest()
            seal(b"", key, b"")  # one that nothing can be sealed to would stop whoever tries, and not its owner
            note = LogRecord(note.leaf, note.author, note.place, key)
        return note, entry if signed.receiver in (BOARD, self.name) else None


class BoardClient(BoardReader):
    """One role's, "curator", "party 3", ...: reads as an onlooker does, and what is sealed to it, and signs its own."""

    def __init__(self, members: BoardMembers, name: str, key: SigningKey, sealing: SealingKey | None) -> None:
        """
        Args:
            members: who takes part.
            name: the role that sits here.
            key: its signing key.
            sealing: opens what is sealed to it; None when no more secrets may come.

        Raises UnknownPartyError when the study has no such role, or another key for it.
        """
        if members.keys.get(name) != key.verification_key:
            raise UnknownPartyError(f"the study has no {name} with the key of this identity")
        super().__init__(members, name, sealing)
        self._key = key
        self.place = 0
        """Of its next entry."""

    def sign(self, post: Post) -> bytes:
        """A message as this role's next entry; raises MessageError for a reader who has not joined."""
        secret = post.secret and post.receiver != BOARD
        entry = SignedEntry(
            self.members.session, self.name, post.receiver, self.place, self.head, post.phase, secret, post.data
        )
        if secret:
            if post.receiver not in self._sealing_keys:
                raise MessageError(f"{post.receiver} has not joined, so nothing can be sealed to it")
            entry = entry.with_body(seal(post.data, self._sealing_keys[post.receiver], _about(entry)))
        self.place += 1
        return entry.signed(self._key).encode()

    def forget_secrets(self) -> None:
        """Open nothing more that is sealed to this role."""
        self._sealing = None

    def __repr__(self) -> str:
        return f"<BoardClient of {self.name}, {self.head}>"


def _public(entry: Entry) -> bool:
    try:
        return entry.kind.public
    except MessageError:
        return False


def _about(entry: SignedEntry) -> bytes:
    """What a sealed body is bound to: it opens in no other place."""
    names = b"".join(bytes([len(name.encode())]) + name.encode() for name in (entry.author, entry.receiver))
    return b"psephos sealed\0" + entry.session + names + entry.place.to_bytes(8, "big")
