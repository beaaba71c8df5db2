"""The one place where SQLite is opened: a connection whose errors have names of this library."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from psephos.protocol.errors import PsephosError

__all__ = ["Database", "Header"]


class Header(NamedTuple):
    """SQLite's `application_id` and `user_version`, and the number of tables, indexes, views and triggers."""

    application: int
    format: int
    objects: int

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever written to the file."""
        return not any(self)


class Database(ABC):
    """A connection to one SQLite file. Subclasses define the tables and the errors."""

    def __init__(self, path: Path | None, *, timeout: float, check_same_thread: bool = True) -> None:
        """Open a file, or a database in memory; `timeout`: seconds to wait for another connection."""
        self._path = path
        with self._named_errors():
            self._connection = sqlite3.connect(
                path or ":memory:", timeout=timeout, isolation_level=None, check_same_thread=check_same_thread
            )

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _run(self, statement: str, *values: Any) -> list[Any]:
        """Execute a statement and return all its rows."""
        with self._named_errors():
            return self._connection.execute(statement, values).fetchall()

    def _header(self) -> Header:
        ((application,),) = self._run("PRAGMA application_id")
        ((version,),) = self._run("PRAGMA user_version")
        ((objects,),) = self._run("SELECT count(*) FROM sqlite_schema")
        return Header(application, version, objects)

    def _create(self, application: int, version: int, statements: Iterable[str]) -> None:
        """Create the tables of a new file, and mark it."""
        for statement in statements:
            self._run(statement)
        self._run(f"PRAGMA application_id = {application}")
        self._run(f"PRAGMA user_version = {version}")

    def _has_schema(self, statements: Iterable[str]) -> bool:
        """Return whether the file has these tables and indexes, and no view or trigger, which could do anything."""
        return {text for (text,) in self._run("SELECT sql FROM sqlite_schema WHERE sql NOTNULL")} == set(statements)

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

    @abstractmethod
    def _failure(self, error: sqlite3.Error, code: int) -> PsephosError:
        """Return the error to raise."""
