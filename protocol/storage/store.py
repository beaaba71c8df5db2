"""What a role or a run must find again after a crash, or else it would do something twice. No paper behind it.

A `Store` is one SQLite file: what is done in one `transaction` is all there afterwards or none of it, whoever is killed
when, and several processes may try. An `OnceLedger` in it gives one answer to each question, for ever.

What a store cannot see is that it was set back as a whole: an old copy put in its place, or its rollback journal
(`FILE-journal`) lost after a crash. That is as good as a second machine with the same keys
(docs/security/unprotected.md).

Contents of the spaces `FORGETTING` are gone from every file of the store when the transaction that replaced them is
kept. SQLite does not promise that: a write-ahead log keeps old pages, and even with `secure_delete` a row that was
moved when pages were balanced leaves a copy in the slack of a page. So these contents are written encrypted
(ChaCha20-Poly1305, RFC 8439), under a key that is drawn anew whenever one of them is replaced. The key is the only row
of a table of its own, which nothing moves, and is overwritten in its place; and a rollback journal is truncated by the
very act that keeps a transaction, so that no kill falls between keeping and forgetting. Copies that the file system
or the disk make are not reached (docs/security/unprotected.md).
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import stat
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from psephos.protocol.errors import AlreadyDoneError, JournalError

_APPLICATION = 0x50534550
_FORMAT = 3
_PLAIN = 2
"""The format before, without encryption."""
_TO_REWRITE = -3
"""A file that came from the format before, and may still hold what was there."""
_SCHEMA = """
CREATE TABLE records (space TEXT, name BLOB, content BLOB NOT NULL, digest BLOB NOT NULL, PRIMARY KEY (space, name))
"""
_KEY_SCHEMA = "CREATE TABLE secret (place INTEGER PRIMARY KEY CHECK (place = 1), key BLOB NOT NULL)"
_KEY_BYTES = 32
_NONCE_BYTES = 12

FORGETTING = ("role", "seat")
"""Spaces of an agent's state and sealing key: what was replaced there is in no file any more."""
_IDENTITY = ("store", b"identity")


class Store:
    """Contents by space and name; in memory, or in one file that only its owner can read. A context manager.

    Every content has a digest of where and what it is. All are compared when a file is opened and each again when it is
    read, so that damage is an error and never an answer.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        identity: Mapping[str, Any] | None = None,
        *,
        alone: bool = False,
        wait: float = 60.0,
    ) -> None:
        """
        Args:
            path: a file; its folder is made where there is none, and must be its owner's only (mode 0700). None: a
                store that lasts as long as this object.
            identity: whose it is (JSON values: run, role, version, ...). A file of another identity is refused.
            alone: let nobody else open the file until this store is closed.
            wait: seconds to wait for a transaction of another process.

        Raises JournalError: no store, one of an older format, of another identity, damaged, readable by others, in use
        or not writable.
        """
        self._path = None if path is None else Path(path)
        self._process, self._lock = os.getpid(), threading.RLock()
        self._encrypts = self._path is not None
        wanted = json.loads(json.dumps(dict(identity or {})))
        if self._path is not None:
            _make_private(self._path)
        with self._named_errors():
            self._connection = sqlite3.connect(
                self._path or ":memory:", timeout=wait, isolation_level=None, check_same_thread=False
            )
        try:
            with self._named_errors():
                if alone:
                    self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                self._connection.execute("PRAGMA secure_delete = ON")  # the old key; not the default
                if self._path is None:  # every simulated party has one: nothing to compare, nothing to sync
                    self._connection.execute(_SCHEMA)
                else:
                    # Not DELETE: `alone`, SQLite then keeps the journal and overwrites its header only.
                    ((mode,),) = self._connection.execute("PRAGMA journal_mode = TRUNCATE")
                    self._connection.execute("PRAGMA synchronous = FULL")
                    self._connection.execute("PRAGMA temp_store = MEMORY")  # savepoints keep old pages, too
                    if mode != "truncate":
                        raise JournalError(f"{self} keeps a journal that does not forget ({mode}); nothing was done")
            if self._path is not None:
                with self.transaction():
                    self._begin(wanted)
                if self._run("PRAGMA user_version") == [(_TO_REWRITE,)]:
                    self._run("VACUUM")  # or what was once forgotten stays in the slack of pages
                    self._run(f"PRAGMA user_version = {_FORMAT}")
        except BaseException:
            self._connection.close()
            raise
        weakref.finalize(self, self._connection.close).atexit = False  # nobody need close what is in memory

    def _begin(self, wanted: dict[str, Any]) -> None:
        """Make the table of a new file, or compare all that an old one holds."""
        ((application,),) = self._run("PRAGMA application_id")
        ((version,),) = self._run("PRAGMA user_version")
        ((tables,),) = self._run("SELECT count(*) FROM sqlite_schema")
        if not (application or version or tables):
            self._run(_SCHEMA)
            self._run(_KEY_SCHEMA)
            self._run("INSERT INTO secret VALUES (1, ?)", os.urandom(_KEY_BYTES))
            self._run(f"PRAGMA application_id = {_APPLICATION}")
            self._run(f"PRAGMA user_version = {_FORMAT}")
            self.put(*_IDENTITY, json.dumps(wanted).encode())
            return
        if application != _APPLICATION:
            raise JournalError(f"{self._path} is a database of another program; name another file")
        if version not in (_FORMAT, _TO_REWRITE, _PLAIN):
            raise JournalError(f"{self._path} has format {version}, and this version of Psephos reads {_FORMAT}")
        if self._run("PRAGMA integrity_check(1)") != [("ok",)]:
            raise self._damaged()
        self._encrypts = version != _PLAIN
        with self._named_errors():
            query = "SELECT space, name, content, digest, " + self._key_column() + " FROM records"  # noqa: S608
            for row in self._connection.execute(query):
                self._checked(*row)
        found = json.loads(self.get(*_IDENTITY) or b"null")
        if not isinstance(found, dict):
            raise self._damaged()
        differing = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
        if differing:
            terms = "; ".join(f"{name}: {found.get(name)!r} there, {wanted.get(name)!r} here" for name in differing)
            raise JournalError(
                f"{self._path} is of another run ({terms}); continue with the same options, or name another place"
            )
        if not self._encrypts:
            self._encrypt_all()

    def _encrypt_all(self) -> None:
        """Bring a file of the format before to this one, but for what is left in the slack of its pages."""
        kept = {(space, name): content for space in FORGETTING for name, content in self.items(space)}
        self._run(_KEY_SCHEMA)
        self._run("INSERT INTO secret VALUES (1, ?)", os.urandom(_KEY_BYTES))
        self._encrypts = True
        self._write_secrets(kept)
        self._run(f"PRAGMA user_version = {_TO_REWRITE}")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is put within it, or nothing when an exception leaves it; a transaction may lie within another.

        Nobody else writes meanwhile. Raises JournalError when it cannot begin or be kept; nothing has happened then.
        """
        with self._lock:
            if os.getpid() != self._process:
                raise JournalError(f"{self} was opened before this process was forked; open it again")
            if self._connection.in_transaction:
                begin, keep, undo = "SAVEPOINT inner", "RELEASE inner", ["ROLLBACK TO inner", "RELEASE inner"]
            else:
                begin, keep, undo = "BEGIN IMMEDIATE", "COMMIT", ["ROLLBACK"]
            self._run(begin)
            try:
                yield
                self._run(keep)
            except BaseException:
                with suppress(sqlite3.Error):  # SQLite may have rolled back by itself
                    for statement in undo:
                        self._connection.execute(statement)
                raise

    def get(self, space: str, name: bytes) -> bytes | None:
        """The content of that name; None when there is none. Raises JournalError when it is damaged."""
        with self._lock:
            # One statement: another process may change the key between two.
            query = "SELECT *, " + self._key_column() + " FROM records WHERE space = ? AND name = ?"  # noqa: S608
            rows = self._run(query, space, name)
            return self._checked(*rows[0])[1] if rows else None

    def last(self, space: str) -> bytes | None:
        """The largest name in a space; None when it is empty."""
        with self._lock:
            name: bytes | None = self._run("SELECT max(name) FROM records WHERE space = ?", space)[0][0]
            return name

    def items(self, space: str, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Names and contents of a space, names ascending from the first above `after`. Raises JournalError as `get`."""
        with self._lock:
            query = "SELECT name FROM records WHERE space = ? AND name > ? ORDER BY name"
            names = [name for (name,) in self._run(query, space, after)]
        for name in names:
            content = self.get(space, name)
            if content is not None:
                yield name, content

    def put(self, space: str, name: bytes, content: bytes) -> None:
        """Make `content` what that name holds, on disk when this returns or when the transaction around it is kept.

        Raises JournalError when it cannot be written; what was there before is there still.
        """
        with self.transaction():
            if not self._encrypts or space not in FORGETTING:
                self._write(space, name, content)
                return
            query = "SELECT space, name FROM records WHERE space IN (?, ?)"
            others = {(a, b) for a, b in self._run(query, *FORGETTING)} - {(space, name)}
            kept = {place: self.get(*place) or b"" for place in others}
            self._write_secrets(kept | {(space, name): content})

    def _write_secrets(self, contents: Mapping[tuple[str, bytes], bytes]) -> None:
        """Write all contents of the spaces that forget, under a new key in the place of the old one."""
        key = os.urandom(_KEY_BYTES)
        self._run("UPDATE secret SET key = ?", key)
        for place, content in contents.items():
            self._write(*place, _encrypted(key, *place, content))

    def _key_column(self) -> str:
        return "(SELECT key FROM secret)" if self._encrypts else "NULL"

    def _write(self, space: str, name: bytes, content: bytes) -> None:
        digest = _digest(space, name, content)
        self._run("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", space, name, content, digest)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    def _checked(self, space: str, name: bytes, content: bytes, digest: bytes, key: bytes) -> tuple[bytes, bytes]:
        try:
            if digest == _digest(space, name, content):
                if not self._encrypts or space not in FORGETTING:
                    return name, content
                nonce, sealed = content[:_NONCE_BYTES], content[_NONCE_BYTES:]
                return name, ChaCha20Poly1305(key).decrypt(nonce, sealed, _place(space, name))
        except (AttributeError, TypeError, ValueError, InvalidTag):  # another type than was written, or another key
            pass
        raise self._damaged()

    def _run(self, statement: str, *values: str | bytes) -> list[Any]:
        with self._named_errors():
            return self._connection.execute(statement, values).fetchall()

    def _damaged(self) -> JournalError:
        return JournalError(f"{self} is damaged, or no file of this version; nothing was done")

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.ProgrammingError:  # a mistake of whoever calls: it was closed, or that is no content
            raise
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise JournalError(f"another run is writing to {self}; wait for it, or name another place") from None
            if code == sqlite3.SQLITE_FULL:
                raise JournalError(
                    f"no room to write {self}; what was kept before is there still: make room and run again"
                ) from None
            if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR):
                # A quota or a limit on the size of files is an input/output error to SQLite.
                raise JournalError(
                    f"{self} cannot be written ({error}; is there room?); what was kept before is there still"
                ) from None
            raise self._damaged() from None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<Store in memory>" if self._path is None else str(self._path)


class OnceLedger:
    """One answer to each question, for ever: a holder's openings, a party's ballots per auxiliary set.

    Why a second answer would tell something: docs/protocols/tally.md.
    """

    def __init__(self, store: Store | None = None, owner: str = "") -> None:
        """
        Args:
            store: where it remembers; one of its own in memory by default, which lasts as long as this object.
            owner: whose ledger it is, where several share a store.
        """
        self._store, self._space = store, f"once {owner}"

    def first(self, claim: bytes, about: bytes, make: Callable[[], bytes]) -> bytes:
        """What `make` returned when `claim` was made first, byte for byte; it is not called a second time.

        Args:
            claim: what may be done once.
            about: what it is done about. The answer is repeated for the same only.
            make: makes the answer. It works within the transaction that keeps it: when it raises, nothing happened.

        Raises AlreadyDoneError when the claim was made before about something else, JournalError when the store is
        damaged or cannot be written: better to refuse than to do something twice.
        """
        self._store = self._store or Store()
        with self._store.transaction():
            kept = self._store.get(self._space, claim)
            if kept is None:
                message = make()
                self._store.put(self._space, claim, len(about).to_bytes(4, "big") + about + message)
                return message
        end = 4 + int.from_bytes(kept[:4], "big")
        if kept[4:end] != about:
            raise AlreadyDoneError("this was done before, about something else; it is done once")
        return kept[end:]


def _encrypted(key: bytes, space: str, name: bytes, content: bytes) -> bytes:
    """A nonce, and the content as nobody without the key can read it or put it in another place."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, content, _place(space, name))


def _place(space: str, name: bytes) -> bytes:
    written = space.encode()
    return b"%d %d %s%s" % (len(written), len(name), written, name)


def _digest(space: str, name: bytes, content: bytes) -> bytes:
    return hashlib.sha256(_place(space, name) + content).digest()


def _make_private(path: Path) -> None:
    """A file that others cannot read, in a folder that others cannot look into; raises JournalError.

    An existing file is looked at without opening it: closing it again would let go of the locks that another connection
    of this process has on it (sqlite.org/howtocorrupt.html, section 2.2).
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        for place, mode in ((path.parent, "700"), (path, "600")):
            if stat.S_IMODE(place.stat().st_mode) & 0o077:
                raise JournalError(
                    f"others can look into {place}, and what is kept there is secret: chmod {mode} {place}"
                )
    except OSError as error:
        raise JournalError(f"{path} cannot be made: {error.strerror}; nothing was done; name another folder") from None
