"""What a role or a run must still know after a crash, because it would otherwise do something twice.

A store cannot detect that it was set back as a whole: that an old copy was restored, or that its rollback journal
(`FILE-journal`) was lost after a crash (docs/security/index.md).

When a value in one of `ERASED_SPACES` is replaced and the transaction commits, the old value is gone from every file of
the store. SQLite does not guarantee that: even with `secure_delete` a row that is moved when pages are balanced leaves
a copy in the unused part of a page. These values are therefore encrypted (ChaCha20-Poly1305, RFC 8439) under a key that
is replaced whenever one of them is. The key is the only row of its own table, so nothing moves it, and it is
overwritten in place. The rollback journal is truncated by the operation that commits the transaction, so no crash can
come between committing and erasing.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from psephos.protocol.errors import AlreadyDoneError, JournalError, StoreInUseError
from psephos.protocol.storage.database import Database, check_private, make_private

STORE_APPLICATION = 0x50534550
_SCHEMA = (
    "CREATE TABLE records (space TEXT, name BLOB, content BLOB NOT NULL, digest BLOB NOT NULL, "
    "PRIMARY KEY (space, name))"
)
_KEY_SCHEMA = "CREATE TABLE secret (place INTEGER PRIMARY KEY CHECK (place = 1), key BLOB NOT NULL)"
_KEY_BYTES = 32
_NONCE_BYTES = 12

ERASED_SPACES = ("role", "seat")
"""The spaces of an agent's state and sealing key: replaced values there are erased from every file."""
_IDENTITY = ("store", b"identity")


class Store(Database):
    """Values by space and name, in memory or in one file that only its owner can read. A context manager.

    What is written in one `transaction` is on disk completely or not at all; several processes may use the file. Damage
    raises an error and never returns a wrong value.
    """

    kind, error, busy_error = "a store", JournalError, StoreInUseError
    application, format, statements = STORE_APPLICATION, 3, (_SCHEMA, _KEY_SCHEMA)

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        identity: Mapping[str, Any] | None = None,
        *,
        exclusive: bool = False,
        timeout: float = 60.0,
    ) -> None:
        """
        Args:
            path: a file, in a folder that is created if necessary and that only its owner can read; by default the
                store is in memory.
            identity: what the store belongs to (JSON values). A file with another identity is refused.
            exclusive: let nobody else open the file until this store is closed.
            timeout: seconds to wait for a transaction of another process.

        Raises JournalError.
        """
        self._process, self._lock = os.getpid(), threading.RLock()
        self._encrypts = path is not None
        if path is not None:
            _make_private(Path(path))
        prepare = partial(self._prepare, dict(identity or {}), exclusive)
        super().__init__(None if path is None else Path(path), prepare, timeout)
        weakref.finalize(self, self._connection.close).atexit = False  # stores in memory need not be closed

    def _prepare(self, identity: dict[str, Any], exclusive: bool) -> None:
        if exclusive:
            self._run("PRAGMA locking_mode = EXCLUSIVE")
        self._run("PRAGMA secure_delete = ON")  # overwrites the old key; not SQLite's default
        if self._path is None:  # no file to compare with; every simulated party has such a store
            self._run(_SCHEMA)
            return
        # Not DELETE: with an exclusive lock SQLite then keeps the journal file and overwrites its header only.
        ((mode,),) = self._run("PRAGMA journal_mode = TRUNCATE")
        self._run("PRAGMA synchronous = FULL")
        self._run("PRAGMA temp_store = MEMORY")  # savepoints keep old pages as well
        if mode != "truncate":
            raise JournalError(
                f"{self} has journal mode {mode}, which keeps old values; nothing was done. Close the other programs "
                "that have it open, or name another file"
            )
        with self.transaction():
            self._open(json.loads(json.dumps(identity)))

    def _open(self, identity: dict[str, Any]) -> None:
        if self._create_or_check():
            self._run("INSERT INTO secret VALUES (1, ?)", os.urandom(_KEY_BYTES))
            self.put(*_IDENTITY, json.dumps(identity).encode())
            return
        self._check_integrity()
        with self._named_errors():
            query = "SELECT space, name, content, digest, " + self._key_column() + " FROM records"  # noqa: S608
            for row in self._connection.execute(query):
                self._checked(*row)
        self._check_identity(identity)

    def _check_identity(self, identity: dict[str, Any]) -> None:
        stored = json.loads(self.get(*_IDENTITY) or b"null")
        if not isinstance(stored, dict):
            raise self._damaged()
        names = sorted(identity.keys() | stored.keys())
        differences = [
            f"{name}: {stored.get(name)!r} there, {identity.get(name)!r} here"
            for name in names
            if identity.get(name) != stored.get(name)
        ]
        if differences:
            raise JournalError(
                f"{self._path} belongs to another run ({'; '.join(differences)}); continue with the same options, or "
                "name another place"
            )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything that is put within it, or nothing if an exception leaves it. Transactions can be nested."""
        with self._lock:
            if os.getpid() != self._process:
                raise JournalError(f"{self} was opened before this process was forked; open it again")
            with self._transaction():
                yield

    def get(self, space: str, name: bytes) -> bytes | None:
        """Return the value of a name in a space; None if there is none; raises JournalError."""
        with self._lock:
            # One statement for value and key: another process may replace the key between two.
            query = "SELECT *, " + self._key_column() + " FROM records WHERE space = ? AND name = ?"  # noqa: S608
            rows = self._run(query, space, name)
            return self._checked(*rows[0])[1] if rows else None

    def last(self, space: str) -> bytes | None:
        with self._lock:
            name: bytes | None = self._run("SELECT max(name) FROM records WHERE space = ?", space)[0][0]
            return name

    def items(self, space: str, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield the names above `after` in a space, in ascending order, with their values; raises JournalError."""
        with self._lock:
            query = "SELECT name FROM records WHERE space = ? AND name > ? ORDER BY name"
            names = [name for (name,) in self._run(query, space, after)]
        for name in names:
            content = self.get(space, name)
            if content is not None:
                yield name, content

    def put(self, space: str, name: bytes, content: bytes) -> None:
        """Set the value of a name; it is on disk when this returns, or when the transaction around it is committed."""
        with self.transaction():
            if not self._encrypts or space not in ERASED_SPACES:
                self._write(space, name, content)
                return
            query = "SELECT space, name FROM records WHERE space IN (?, ?)"
            others = {(a, b) for a, b in self._run(query, *ERASED_SPACES)} - {(space, name)}
            values = {place: self.get(*place) or b"" for place in others} | {(space, name): content}
            # All values of the erased spaces are written anew, under a key that overwrites the old one.
            key = os.urandom(_KEY_BYTES)
            self._run("UPDATE secret SET key = ?", key)
            for place, value in values.items():
                self._write(*place, _encrypted(key, *place, value))

    def _key_column(self) -> str:
        return "(SELECT key FROM secret)" if self._encrypts else "NULL"

    def _write(self, space: str, name: bytes, content: bytes) -> None:
        digest = record_digest(space, name, content)
        self._run("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", space, name, content, digest)

    def close(self) -> None:
        with self._lock:
            super().close()

    def _checked(self, space: str, name: bytes, content: bytes, digest: bytes, key: bytes) -> tuple[bytes, bytes]:
        """Return the name and the decrypted value of a row, after checking its digest."""
        try:
            if digest == record_digest(space, name, content):
                if not self._encrypts or space not in ERASED_SPACES:
                    return name, content
                nonce, ciphertext = content[:_NONCE_BYTES], content[_NONCE_BYTES:]
                return name, ChaCha20Poly1305(key).decrypt(nonce, ciphertext, _place(space, name))
        except (AttributeError, TypeError, ValueError, InvalidTag):
            pass  # a value of another type, or encrypted under another key
        raise self._damaged()

    def __repr__(self) -> str:
        return "<Store in memory>" if self._path is None else str(self._path)


class OnceLedger:
    """Gives one answer to each question, for ever: a holder's openings, a party's ballots for each auxiliary set."""

    def __init__(self, store: Store | None = None, owner: str = "") -> None:
        """Keep the answers of `owner` in a store; by default in memory, as long as this object lasts."""
        self._store, self._space = store, f"once {owner}"

    def do_once(self, claim: bytes, subject: bytes, make: Callable[[], bytes]) -> bytes:
        """Return what `make` returned when the claim was first made; `make` is not called a second time.

        It is called within the transaction that stores the answer: if it raises, nothing is stored. Raises
        AlreadyDoneError if the claim was made before, about another subject, and JournalError if the store is damaged
        or cannot be written. The caller must then not act, since it might act twice.
        """
        self._store = self._store or Store()
        with self._store.transaction():
            stored = self._store.get(self._space, claim)
            if stored is None:
                answer = make()
                self._store.put(self._space, claim, len(subject).to_bytes(4, "big") + subject + answer)
                return answer
        end = 4 + int.from_bytes(stored[:4], "big")
        if stored[4:end] != subject:
            raise AlreadyDoneError("this was done before about something else, and may be done only once")
        return stored[end:]


def _encrypted(key: bytes, space: str, name: bytes, content: bytes) -> bytes:
    """Return a nonce and the ciphertext, which is bound to the space and the name."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, content, _place(space, name))


def _place(space: str, name: bytes) -> bytes:
    """Return an unambiguous encoding of a space and a name."""
    encoded = space.encode()
    return b"%d %d %s%s" % (len(encoded), len(name), encoded, name)


def record_digest(space: str, name: bytes, content: bytes) -> bytes:
    """Return the digest that a store has of a value, as it is stored."""
    return hashlib.sha256(_place(space, name) + content).digest()


def _make_private(path: Path) -> None:
    """Create the file and its folder, unless they exist, and check that only their owner can read them."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private(path.parent, JournalError)
    except OSError as error:
        raise JournalError(f"{path} cannot be used: {error.strerror}; nothing was done. Name another folder") from None
    make_private(path, JournalError)
