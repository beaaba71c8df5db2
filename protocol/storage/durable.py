"""Files that a role must find again after a crash, or else it would do something twice. No paper behind it.

A file is whole on disk before its writer goes on, and so is its name: a renamed or new file whose folder was not synced
can be gone, or be the old one again, after a power failure.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["replace_file", "sync_folder"]


def replace_file(path: Path, content: bytes) -> None:
    """Put `content` in the place of what `path` held, whole or not at all, readable by its owner only.

    Raises OSError when it cannot; then the old content is still there.
    """
    begun = path.with_name(path.name + ".new")
    begun.unlink(missing_ok=True)  # one left behind may be readable by others
    try:
        descriptor = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        begun.replace(path)
    except OSError:
        begun.unlink(missing_ok=True)
        raise
    sync_folder(path.absolute().parent)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk; raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
