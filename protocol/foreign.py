"""What others wrote: files are read within bounds, and texts are shown without control characters.

A file may come from anybody: a link to a device, a pipe that nobody writes to, a document of a million brackets. Each
reader of such files names a limit for its kind, and reports what is raised here as an error of its own class.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tomllib
import unicodedata
from io import BufferedReader
from typing import Any

_DEEPEST = 32
"""Deepest nesting of a TOML document, and most parts of a dotted key; the files of this library need four."""

_LONGEST_KEY = 1_000
"""Most characters in a key of a TOML document, such as the name of a column."""

_LARGEST_INTEGER = 10**1_000
"""Python prints integers of a few thousand digits only."""

_LONG_DOTTED_KEY = re.compile(
    r"""(?<![\w-])(?:(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)""" f"{{{_DEEPEST}}}"
)
"""tomllib takes quadratic time and memory for the parts of a key, before its result can be looked at."""

_DIRECTIONS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
"""Bidirectional classes of the characters that reorder the text that follows."""


def open_file(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file for reading; raises OSError for another one, whose `strerror` says so."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return open(descriptor, "rb")


def read_bytes(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the content of a regular file of at most `most` bytes; raises OSError."""
    with open_file(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most:,} bytes", str(path))
    return content


def read_text(path: str | os.PathLike[str], most: int) -> str:
    """Return the content of a UTF-8 file, without its byte-order mark; raises OSError or UnicodeDecodeError."""
    return read_bytes(path, most).decode("utf-8-sig")


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML whose nesting, keys and integers are within bounds; raises ValueError."""
    if _LONG_DOTTED_KEY.search(text):
        raise ValueError(f"a key has more than {_DEEPEST} parts")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:  # Python reads integers of a few thousand digits only
        raise ValueError("an integer has too many digits") from None
    level: list[Any] = [document]
    for _ in range(_DEEPEST):
        tables = [value for value in level if isinstance(value, dict)]
        if any(len(key) > _LONGEST_KEY for table in tables for key in table):
            raise ValueError(f"a key has more than {_LONGEST_KEY:,} characters")
        if any(abs(value) >= _LARGEST_INTEGER for value in level if isinstance(value, int)):
            raise ValueError("an integer has too many digits")
        arrays = [value for value in level if isinstance(value, list)]
        level = [inner for values in (*(table.values() for table in tables), *arrays) for inner in values]
        if not level:
            return document
    raise ValueError("it is nested too deeply")


def has_controls(text: str) -> bool:
    """Return whether a text has characters that control a terminal or the direction of writing, or surrogates."""
    return any(
        unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(letter) in _DIRECTIONS
        for letter in text
    )


def printable(text: str, length: int | None = None, *, lines: bool = False) -> str:
    r"""Return a text that others may have written, so that a terminal, a log or a page can show it.

    Control characters, those that change the direction of writing or are invisible, and surrogates are escaped; with
    `lines`, not line breaks. A longer text than `length` is cut, and ends in "...".

        >>> printable("a\x1b[2Jb", 4)
        'a\\x1b[2...'
    """
    cut = text if length is None or len(text) <= length else text[:length] + "..."
    return "".join(
        letter if letter.isprintable() or (lines and letter == "\n") else ascii(letter)[1:-1] for letter in cut
    )
