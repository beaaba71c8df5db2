"""A board in one SQLite file, which the processes of one machine share; and how boards travel as files.

A `BoardFile` orders what is posted. Where machines share nothing, one of them has the board and the others have copies:

    board   --export-->  what stands on it  --import-->  copy     in the order of the board, or not at all
    board  <--import--   what is to be posted <--export--  copy   the board orders it, whatever came meanwhile

so that a copy never shows an order of its own. What is carried can be read by whoever carries it, like any board. No
paper behind it.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from psephos.protocol.board import MOST_BYTES, Board, check_size
from psephos.protocol.board.history import Head, History, leaf_hash
from psephos.protocol.errors import BoardError
from psephos.protocol.wire import DIGEST_BYTES

__all__ = ["BoardFile", "Carried", "export"]

_APPLICATION, _FORMAT = 0x50534542, 1
_STATEMENTS = (
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, digest BLOB NOT NULL, data BLOB NOT NULL)",
    "CREATE INDEX entries_digest ON entries (digest)",
    "CREATE TABLE waiting (number INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, data BLOB NOT NULL)",
    "CREATE TABLE about (copy INTEGER NOT NULL)",
)


class BoardFile:
    """A board, or a copy of one, in a file; several processes may have it open. Nothing is ever changed or deleted."""

    def __init__(self, path: str | os.PathLike[str], *, copy: bool = False, wait: float = 60.0) -> None:
        """
        Args:
            path: the file, in a folder that is there; made where there is none.
            copy: whether to make a copy; a file that is there is what it was made as.
            wait: seconds to wait for another process that is writing.

        Raises BoardError: no board, one of another format, damaged, in use, or not to be written.
        """
        self._path = Path(path)
        with self._named_errors():
            self._connection = sqlite3.connect(self._path, timeout=wait, isolation_level=None)
        try:
            with self._named_errors():
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = FULL")
            with self._transaction():
                self._begin(copy)
            self.copy = self._run("SELECT copy FROM about") == [(1,)]
            """Whether it only repeats what was imported, and keeps what is posted for the board itself."""
        except BaseException:
            self._connection.close()
            raise

    def _begin(self, copy: bool) -> None:
        ((application,),) = self._run("PRAGMA application_id")
        ((version,),) = self._run("PRAGMA user_version")
        ((tables,),) = self._run("SELECT count(*) FROM sqlite_schema")
        if not (application or version or tables):
            for statement in _STATEMENTS:
                self._run(statement)
            self._run("INSERT INTO about VALUES (?)", copy)
            self._run(f"PRAGMA application_id = {_APPLICATION}")
            self._run(f"PRAGMA user_version = {_FORMAT}")
        elif application != _APPLICATION:
            raise BoardError(f"{self._path} is no board but a database of another program; name another file")
        elif version != _FORMAT:
            raise BoardError(f"{self._path} is a board of format {version}; this version of Psephos reads {_FORMAT}")
        elif {text for (text,) in self._run("SELECT sql FROM sqlite_schema WHERE sql NOTNULL")} != set(_STATEMENTS):
            # Somebody else's: a view in place of a table may be computed for ever, a trigger delete what is read.
            raise BoardError(f"{self._path} is no board: its tables are not those of a board")

    def post(self, data: bytes) -> None:
        """Append an entry, on disk when this returns; the same bytes a second time are dropped.

        Raises MessageError for an entry that is too long, BoardError when it cannot be written.
        """
        check_size(data)
        table = "waiting" if self.copy else "entries"
        self._run(
            f"INSERT INTO {table} (digest, data) SELECT ?1, ?2 WHERE NOT EXISTS "  # noqa: S608 - one of two names
            "(SELECT 1 FROM entries WHERE digest = ?1 UNION ALL SELECT 1 FROM waiting WHERE digest = ?1)",
            _digest(data),
            data,
        )

    def read(self, after: int) -> Iterator[tuple[int, bytes]]:
        """Entries with a larger number, one by one, as far as they are there.

        Raises BoardError when the file cannot be read, or has fewer entries than `after`: an old copy is in its place.
        """
        ((last,),) = self._run("SELECT coalesce(max(number), 0) FROM entries")
        if last < after:
            raise BoardError(
                f"{self._path} has {last} entries, and {after} were read from it: an old copy stands in its place"
            )
        # One statement an entry: a statement that stays open would keep this connection from posting.
        # A column may hold text that somebody wrote there: it is read as bytes.
        entry = "SELECT CAST(substr(data, 1, ?) AS BLOB) FROM entries WHERE number = ?"
        while rows := self._run(entry, MOST_BYTES + 1, after + 1):
            after += 1
            yield after, rows[0][0] or b""  # SQLite has nothing in place of a part of nothing
        if after < last:
            raise BoardError(f"{self._path} is damaged: it has no entry {after + 1}, and {last} is there")

    def waiting(self) -> Iterator[bytes]:
        """Of a copy: what was posted and has not come back from the board."""
        for (data,) in self._run("SELECT CAST(data AS BLOB) FROM waiting ORDER BY number"):
            yield data

    def import_(self, path: str | os.PathLike[str]) -> int:
        """Take in a file that `export` wrote; returns how many entries were new. All of it or nothing.

        Raises BoardError for a file that is damaged, that a board cannot take in (another board's entries) or a copy
        cannot (entries to be posted), or that goes on otherwise than this copy or later than where it ends.
        """
        with Carried.open(path) as carried, self._transaction():
            before = self._count()
            if carried.head is None:
                if self.copy:
                    raise BoardError(f"{path} is to be posted on the board itself, and {self._path} is a copy of it")
                for data in carried.entries():
                    self.post(data)
            else:
                self._extend(carried, carried.head)
            return self._count() - before

    def _count(self) -> int:
        return int(self._run("SELECT count(*) FROM entries")[0][0])

    def _extend(self, carried: Carried, head: Head) -> None:
        if not self.copy:
            raise BoardError(f"{self._path} is a board of its own; what stands on another one is imported into a copy")
        history, here = History(), iter(self.read(0))
        for _, data in here:
            history.append(leaf_hash(data))
        if head.size > history.head.size:
            raise BoardError(
                f"{carried.path} begins after entry {head.size}, and {self._path} ends with {history.head.size}: "
                "export again from there"
            )
        differs = BoardError(f"{carried.path} is not of the board that {self._path} is a copy of: they differ")
        if not history.extends(head):
            raise differs
        number, last = head.size, history.head.size
        for data in carried.entries():
            number += 1
            if number <= last:
                if next(iter(self.read(number - 1)))[1] != data:
                    raise differs
                continue
            self._run("INSERT INTO entries (number, digest, data) VALUES (?, ?, ?)", number, _digest(data), data)
            self._run("DELETE FROM waiting WHERE digest = ?", _digest(data))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._run("BEGIN IMMEDIATE")
        try:
            yield
            self._run("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # SQLite may have rolled back by itself
                self._connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _run(self, statement: str, *values: object) -> list[Any]:
        with self._named_errors():
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.ProgrammingError:  # a mistake of whoever calls: it was closed
            raise
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            why = {
                sqlite3.SQLITE_BUSY: "another process is writing to it",
                sqlite3.SQLITE_FULL: "the disk is full; what stands on it stands there still",
                sqlite3.SQLITE_CORRUPT: "it is damaged",
                sqlite3.SQLITE_NOTADB: "it is no board",
            }.get(code, f"{error} (is there room?)")
            raise BoardError(f"the board {self._path} cannot be used: {why}") from None

    def __repr__(self) -> str:
        return str(self._path)


# -- carried between machines

_MAGIC = b"PSEPHOS CARRIED\x01"
_LOG, _POSTS = b"L", b"P"
_END = (0xFFFFFFFF).to_bytes(4, "big")


@dataclass
class Carried:
    """A file of entries:

        "PSEPHOS CARRIED" | version (1) | "L" or "P" | head: size (8), root (32) | entries: length (4), bytes
            | 2^32 - 1 (4) | SHA-256 of everything before (32)

    "L" are entries of a board that follow on that head, "P" are entries to be posted.
    """

    path: Path
    head: Head | None
    """What the entries follow on; None for entries that are to be posted."""
    _file: BinaryIO
    _hash: Any

    @classmethod
    @contextmanager
    def open(cls, path: str | os.PathLike[str]) -> Iterator[Carried]:
        """Raises BoardError for what is no such file."""
        try:
            with Path(path).open("rb") as file:
                found = cls(Path(path), None, file, hashlib.sha256())
                start = found._take(len(_MAGIC) + 1)
                if start not in (_MAGIC + _LOG, _MAGIC + _POSTS):
                    raise BoardError(f"{path} is no file of entries, or one of another version")
                head = Head(int.from_bytes(found._take(8), "big"), found._take(DIGEST_BYTES))
                found.head = head if start[-1:] == _LOG else None
                yield found
        except OSError as error:
            raise BoardError(f"{path} cannot be read: {error.strerror}") from None

    def entries(self) -> Iterator[bytes]:
        """In their order; raises BoardError, at the end at the latest, when the file is damaged."""
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
        return BoardError(f"{self.path} is damaged, or was not carried whole; nothing was taken in")


def export(board: Board, path: str | os.PathLike[str], after: int = 0) -> int:
    """Write what stands on a board after entry `after` into a new file, or what waits in a copy; returns how many.

    Raises BoardError when the board ends before `after`, or the file exists or cannot be written.
    """
    if isinstance(board, BoardFile) and board.copy:
        return _write(Path(path), _POSTS, Head(), board.waiting())
    history = History()
    for number, data in board.read(0) if after else ():
        history.append(leaf_hash(data))
        if number == after:
            break
    if history.head.size != after:
        raise BoardError(f"the board has {history.head.size} entries, and those after {after} were asked for")
    return _write(Path(path), _LOG, history.head, (data for _, data in board.read(after)))


def _write(path: Path, kind: bytes, head: Head, entries: Iterable[bytes]) -> int:
    hashed, count = hashlib.sha256(), 0
    try:
        with path.open("xb") as file:
            try:
                for data in (_MAGIC + kind, head.size.to_bytes(8, "big"), head.root):
                    hashed.update(data)
                    file.write(data)
                for data in entries:
                    framed = len(data).to_bytes(4, "big") + data
                    hashed.update(framed)
                    file.write(framed)
                    count += 1
                hashed.update(_END)
                file.write(_END + hashed.digest())
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
