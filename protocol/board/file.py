"""A board in one SQLite file, shared by the processes of one machine, and the transfer of boards between machines.

Where machines have no network in common, one has the board, the others copies without an order of their own:

    board  --export-->  entries of the board  --import-->  copy     in the order of the board, or not at all
    board  <--import--  entries to be posted  <--export--  copy     the board determines their order
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from psephos.protocol.board import MOST_BYTES, Board, check_size
from psephos.protocol.board.history import Head, History, leaf_hash
from psephos.protocol.errors import BoardError
from psephos.protocol.foreign import open_file
from psephos.protocol.storage.database import Database
from psephos.protocol.wire import DIGEST_BYTES

_STATEMENTS = (
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, digest BLOB NOT NULL, data BLOB NOT NULL)",
    "CREATE INDEX entries_digest ON entries (digest)",
    "CREATE TABLE waiting (number INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, data BLOB NOT NULL)",
    "CREATE TABLE about (copy INTEGER NOT NULL)",
)


class BoardFile(Database):
    """A board, or a copy of one, in a file. Several processes may open it; no entry is ever changed or deleted."""

    kind, error, busy_error = "a board", BoardError, BoardError
    application, format, statements = 0x50534542, 1, _STATEMENTS

    def __init__(self, path: str | os.PathLike[str], *, copy: bool = False, timeout: float = 60.0) -> None:
        """Open or create a board; `copy`: a new file is a copy of one. Raises BoardError."""
        super().__init__(Path(path), partial(self._prepare, copy), timeout)

    def _prepare(self, copy: bool) -> None:
        self._run("PRAGMA journal_mode = WAL")
        self._run("PRAGMA synchronous = FULL")
        with self._transaction():
            if self._create_or_check():
                self._run("INSERT INTO about VALUES (?)", copy)
        self.copy = self._run("SELECT copy FROM about") == [(1,)]
        """Whether this is a copy: it contains what was imported, and keeps posted entries for export."""

    def post(self, data: bytes) -> None:
        """Append an entry; it is on disk when this returns. An entry that the board has already is dropped."""
        check_size(data)
        table = "waiting" if self.copy else "entries"
        self._run(
            f"INSERT INTO {table} (digest, data) SELECT ?1, ?2 WHERE NOT EXISTS "  # noqa: S608 - one of two names
            "(SELECT 1 FROM entries WHERE digest = ?1 UNION ALL SELECT 1 FROM waiting WHERE digest = ?1)",
            _digest(data),
            data,
        )

    def read(self, after: int) -> Iterator[tuple[int, bytes]]:
        """Yield the entries with a number above `after`, one by one; raises BoardError."""
        ((last,),) = self._run("SELECT coalesce(max(number), 0) FROM entries")
        if last < after:
            raise BoardError(
                f"{self._path} has {last} entries, but {after} were read from it before: an old copy of the file was "
                "restored. Continue with the newest one"
            )
        # One statement for each entry, because a statement that stays open keeps this connection from posting.
        # The cast: another program may have stored text in the column.
        query = "SELECT CAST(substr(data, 1, ?) AS BLOB) FROM entries WHERE number = ?"
        number = after
        while rows := self._run(query, MOST_BYTES + 1, number + 1):
            number += 1
            yield number, rows[0][0] or b""  # SQLite returns NULL for a part of an empty value
        if number < last:
            raise BoardError(f"{self._path} is damaged: it has entry {last} but not entry {number + 1}")

    def unposted(self) -> Iterator[bytes]:
        for (data,) in self._run("SELECT CAST(data AS BLOB) FROM waiting ORDER BY number"):
            yield data

    def import_(self, path: str | os.PathLike[str]) -> int:
        """Import a file that `export` wrote, completely or not at all; return the number of new entries.

        Raises BoardError for a damaged file, or for entries that do not belong here or contradict those of this copy.
        """
        with ExportFile.open(path) as file, self._transaction():
            before = self.count()
            if file.head is None:
                if self.copy:
                    raise BoardError(
                        f"{path} contains entries to be posted on the board, and {self._path} is a copy of the board; "
                        "import it into the board itself"
                    )
                for data in file.entries():
                    self.post(data)
            else:
                self._extend(file, file.head)
            return self.count() - before

    def count(self) -> int:
        """Return how many entries there are."""
        return int(self._run("SELECT count(*) FROM entries")[0][0])

    def _extend(self, file: ExportFile, head: Head) -> None:
        if not self.copy:
            raise BoardError(
                f"{file.path} contains entries of another board, and {self._path} is a board; import it into a copy"
            )
        history = History()
        for _, data in self.read(0):
            history.append(leaf_hash(data))
        if head.size > history.head.size:
            raise BoardError(
                f"{file.path} begins after entry {head.size}, and {self._path} ends with entry {history.head.size}: "
                "export again from there"
            )
        if not history.extends(head):
            raise self._contradiction(str(file.path))
        self._append(head.size, file.entries(), str(file.path))

    def extend(self, after: int, entries: Iterable[bytes], source: str) -> int:
        """Continue a copy with the entries after a number, all of them or none; return how many the copy has then.

        Raises BoardError, which names the `source`, for entries that leave a gap or contradict those that are here.
        """
        with self._transaction():
            count = self.count()
            if not self.copy or not 0 <= after <= count:
                raise BoardError(f"{self._path} is not a copy of the board with the {after} entries before {source}")
            self._append(after, entries, source)
            return self.count()

    def _append(self, after: int, entries: Iterable[bytes], source: str) -> None:
        count = self.count()
        for number, data in enumerate(entries, after + 1):
            if number > count:
                check_size(data)
                self._run("INSERT INTO entries (number, digest, data) VALUES (?, ?, ?)", number, _digest(data), data)
                self._run("DELETE FROM waiting WHERE digest = ?", _digest(data))
            elif next(self.read(number - 1))[1] != data:
                raise self._contradiction(source)

    def _contradiction(self, source: str) -> BoardError:
        return BoardError(f"{source} and {self._path} are not of the same board: their entries differ")


# -- files that are carried between machines

_MAGIC = b"PSEPHOS CARRIED\x01"
_LOG, _POSTS = b"L", b"P"
_END = (0xFFFFFFFF).to_bytes(4, "big")


@dataclass
class ExportFile:
    """A file of entries, opened for reading:

        "PSEPHOS CARRIED" | version (1) | "L" or "P" | head: size (8), root (32) | entries: length (4), bytes
            | 2^32 - 1 (4) | SHA-256 of everything before (32)

    "L" is for entries of a board, which follow on that head; "P" for entries to be posted, without one.
    """

    path: Path
    head: Head | None
    _file: BinaryIO
    _hash: Any

    @classmethod
    @contextmanager
    def open(cls, path: str | os.PathLike[str]) -> Iterator[ExportFile]:
        """Open a file and read its beginning; raises BoardError."""
        try:
            with open_file(path) as stream:
                file = cls(Path(path), None, stream, hashlib.sha256())
                start = file._take(len(_MAGIC) + 1)
                if start not in (_MAGIC + _LOG, _MAGIC + _POSTS):
                    raise BoardError(f"{path} is not a file of entries, or was written by another version")
                head = Head(int.from_bytes(file._take(8), "big"), file._take(DIGEST_BYTES))
                file.head = head if start.endswith(_LOG) else None
                yield file
        except OSError as error:
            raise BoardError(f"{path} cannot be read: {error.strerror}") from None

    def entries(self) -> Iterator[bytes]:
        while (length := self._take(4)) != _END:
            if int.from_bytes(length, "big") > MOST_BYTES:
                raise self._damaged()
            yield self._take(int.from_bytes(length, "big"))
        digest = self._hash.digest()
        if self._take(DIGEST_BYTES) != digest or self._file.read(1):
            raise self._damaged()

    def _take(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) != count:
            raise self._damaged()
        self._hash.update(data)
        return data

    def _damaged(self) -> BoardError:
        return BoardError(f"{self.path} is damaged or incomplete; nothing was imported. Copy it again")


def export(board: Board, path: str | os.PathLike[str], after: int = 0) -> int:
    """Write the entries after a number, or what was posted on a copy in a file, to a new file; return how many."""
    if isinstance(board, BoardFile) and board.copy:
        return _write(Path(path), _POSTS, Head(), board.unposted())
    history = History()
    for number, data in board.read(0) if after else ():
        history.append(leaf_hash(data))
        if number == after:
            break
    if history.head.size != after:
        raise BoardError(f"the board has {history.head.size} entries, so there are none after entry {after}")
    return _write(Path(path), _LOG, history.head, (data for _, data in board.read(after)))


def _write(path: Path, kind: bytes, head: Head, entries: Iterable[bytes]) -> int:
    digest, count = hashlib.sha256(), 0
    try:
        with path.open("xb") as file:
            try:
                for data in (_MAGIC + kind, head.size.to_bytes(8, "big"), head.root):
                    digest.update(data)
                    file.write(data)
                for data in entries:
                    framed = len(data).to_bytes(4, "big") + data
                    digest.update(framed)
                    file.write(framed)
                    count += 1
                digest.update(_END)
                file.write(_END + digest.digest())
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                path.unlink()
                raise
    except OSError as error:
        raise BoardError(f"{path} cannot be written: {error.strerror}; name a new file where there is room") from None
    return count


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
