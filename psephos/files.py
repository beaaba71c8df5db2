"""Writes files whole or not at all, and never in the place of something that is no file."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from psephos.protocol.randomness import SYSTEM

_OTHERS = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


def write_atomically(path: Path, content: bytes, *, mode: int | None = None, may_stream: bool = False) -> None:
    """Write a file, whole or not at all; a symbolic link stays, and the file that it names is written.

    `mode`: its permissions; by default those of the file that is replaced, or those that the umask leaves to a new one.
    No byte is ever readable to more users. `may_stream`: whether a pipe or a character device is written to. Raises
    OSError, also for a path that is no file.
    """
    try:
        try:
            found = path.stat().st_mode
        except FileNotFoundError:
            found = None
        if found is not None and not stat.S_ISREG(found):
            if not may_stream or not (stat.S_ISFIFO(found) or stat.S_ISCHR(found)):
                code = errno.EISDIR if stat.S_ISDIR(found) else errno.EINVAL
                raise OSError(code, f"it is {_OTHERS.get(stat.S_IFMT(found), 'a device')}, and not a file")
            path.write_bytes(content)
            return
        if mode is None and found is not None:
            mode = stat.S_IMODE(found)
        _replace(Path(os.path.realpath(path)), content, mode)
    except OSError as error:
        # The path that the user knows, not the temporary one.
        raise OSError(error.errno, error.strerror, str(path)) from None


def _replace(path: Path, content: bytes, mode: int | None) -> None:
    """Replace a file, or create it, by renaming a new one; `mode` as in `write_atomically`, None for a new file."""
    part = path.with_name(f".{SYSTEM.draw(8).hex()}.part")
    opened = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode & 0o600)
    try:
        with open(opened, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            if mode is not None:
                os.fchmod(file.fileno(), mode)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
