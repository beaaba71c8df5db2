"""What a role must do at most once, remembered on disk: a holder's openings, a party's ballots per auxiliary set.

No paper behind it. Why a second time would tell something: docs/protocols/tally.md.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from psephos.protocol.errors import KeyFileError
from psephos.protocol.storage.durable import sync_folder

__all__ = ["OnceLedger"]


class OnceLedger:
    """A set of 32-byte digests that only grows.

    With a path it is an append-only file (owner only, one hexadecimal digest a line, synced before `claim` returns,
    locked against other processes). Without one it lasts as long as the object: for simulations.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._memory: set[str] = set()

    def claim(self, digest: bytes) -> bool:
        """Whether this is the first claim of `digest`; from now on it is not.

        Raises KeyFileError when the file is damaged or cannot be opened: better to refuse than to do something twice.
        """
        entry = digest.hex()
        if self._path is None:
            first = entry not in self._memory
            self._memory.add(entry)
            return first
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise KeyFileError(
                f"the ledger {self._path} cannot be opened: {error.strerror}; nothing was done"
            ) from None
        with os.fdopen(descriptor, "r+", encoding="ascii", errors="replace") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            content = file.read()
            lines = content.splitlines()
            if (content and not content.endswith("\n")) or any(
                len(line) != 64 or set(line) - set("0123456789abcdef") for line in lines
            ):
                raise KeyFileError(f"the ledger {self._path} is damaged; nothing was done")
            if entry in lines:
                return False
            file.write(entry + "\n")
            file.flush()
            os.fsync(file.fileno())
            if not content:
                sync_folder(self._path.absolute().parent)  # a new file's name must survive a crash, too
            return True
