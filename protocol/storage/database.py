"""The one place where SQLite is opened: a connection whose errors have names of this library."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Self

from psephos.protocol.errors import PsephosError

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_UNWRITABLE = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_IOERR,  # of a quota, or a limit on the size of files, too
)


class Database:
    """A connection to one SQLite file, and a context manager that closes it. Subclasses define tables and errors."""

    kind: ClassVar[str]
    """What the file is, such as "a board"."""
    error: ClassVar[type[PsephosError]]
    busy_error: ClassVar[type[PsephosError]]
    """Raised where another process writes to the file."""
    application: ClassVar[int]
    """SQLite's `application_id` of such files."""
    format: ClassVar[int]
    """Their `user_version`."""
    statements: ClassVar[tuple[str, ...]]
    """They create the tables and indexes."""

    def __init__(self, path: Path | None, prepare: Callable[[], object], timeout: float) -> None:
        """Open and prepare a file, or a database in memory; `timeout`: seconds to wait for another connection."""
        self._path = path
        with self._named_errors():
            # Only a `Store` is used by several threads, and has a lock.
            self._connection = sqlite3.connect(
                path or ":memory:", timeout=timeout, isolation_level=None, check_same_thread=False
            )
        try:
            prepare()
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        self._connection.close()

    def _run(self, statement: str, *values: Any) -> list[Any]:
        with self._named_errors():
            return self._connection.execute(statement, values).fetchall()

    def _marks(self) -> tuple[int, int]:
        """Return SQLite's `application_id` and `user_version`."""
        ((application,),), ((version,),) = self._run("PRAGMA application_id"), self._run("PRAGMA user_version")
        return application, version

    def _create_or_check(self) -> bool:
        """Create the tables of a new file, or check that an existing one has no others; return whether it is new."""
        application, version = self._marks()
        schema = [text for (text,) in self._run("SELECT sql FROM sqlite_schema")]
        if not (application or version or schema):
            self._create()
            return True
        if application != self.application:
            raise self.error(f"{self._path} is not {self.kind} but a database of another program; name another file")
        if version != self.format:
            raise self.error(
                f"{self._path} is {self.kind} of format {version}, and this version of Psephos reads {self.format}; "
                "nothing was changed in it. Use it with the version that wrote it"
            )
        if {text for text in schema if text} != set(self.statements):
            raise self._damaged()
        return False

    def _check_integrity(self) -> None:
        """Read the whole file, and raise an error unless SQLite finds it consistent."""
        if self._run("PRAGMA integrity_check(1)") != [("ok",)]:
            raise self._damaged()

    def _create(self) -> None:
        for statement in self.statements:
            self._run(statement)
        self._run(f"PRAGMA application_id = {self.application}")
        self._run(f"PRAGMA user_version = {self.format}")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Commit what is written within it, or roll it back if an exception leaves it. Transactions can be nested."""
        if self._connection.in_transaction:
            begin, commit, roll_back = "SAVEPOINT inner", "RELEASE inner", ["ROLLBACK TO inner", "RELEASE inner"]
        else:
            begin, commit, roll_back = "BEGIN IMMEDIATE", "COMMIT", ["ROLLBACK"]
        self._run(begin)
        try:
            yield
            self._run(commit)
        except BaseException:
            with suppress(sqlite3.Error):  # SQLite may have rolled back already
                for statement in roll_back:
                    self._connection.execute(statement)
            raise

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Replace an error of SQLite by `_failure`."""
        try:
            yield
        except sqlite3.ProgrammingError:
            # A mistake of the caller: the connection was closed, or a value has a type that SQLite does not store.
            raise
        except UnicodeDecodeError:  # of sqlite3, about a message that quotes a damaged schema
            damage = sqlite3.DatabaseError("its text is not UTF-8")
            raise self._failure(damage, sqlite3.SQLITE_CORRUPT) from None
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            raise self._failure(error, code) from None

    def _failure(self, error: sqlite3.Error, code: int) -> PsephosError:
        if code in _BUSY:
            return self.busy_error(f"another process is writing to {self}; wait for it, or name another file")
        if code in _UNWRITABLE:
            return self.error(
                f"{self} cannot be written ({error}): is there room, and may you write there? What was committed "
                "before is still there"
            )
        return self._damaged()

    def _damaged(self) -> PsephosError:
        return self.error(
            f"{self} is damaged, or is not {self.kind} of this version; nothing was changed in it. Restore a copy, and "
            "mind what was done since"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return str(self._path)


def make_private(path: Path, error: type[PsephosError], *, create: bool = True) -> None:
    """Create a file for its owner alone, unless it exists, and check that others cannot read it.

    An existing file is not opened: closing it again would release the locks that another connection of this process has
    on it (sqlite.org/howtocorrupt.html, section 2.2).
    """
    try:
        if create:
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        if not path.is_file() and path.exists():
            raise error(f"{path} cannot be used: it is not a file")
        check_private(path, error)
    except OSError as failed:
        raise error(f"{path} cannot be used: {failed.strerror}; nothing was done. Name another file") from None


def check_private(path: Path, error: type[PsephosError]) -> None:
    """Raise an error if others than its owner can read a file or folder; raises OSError."""
    about = path.stat()
    if stat.S_IMODE(about.st_mode) & 0o077:
        mode = "700" if stat.S_ISDIR(about.st_mode) else "600"
        raise error(f"others can read {path}, which contains secrets: run 'chmod {mode} {path}'")
