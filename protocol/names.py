"""Names that people write: of owners, columns and classes, of persons, and of the members of a study.

One name has many spellings in Unicode that look alike. A name stands for a unit of privacy, so two spellings of one
owner must not count as two.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable


def plain(text: str) -> str:
    """Return a name in its one spelling.

    Accented letters are one character each where Unicode has one (form NFC), and any run of spaces, whatever their
    kind, is one ordinary space, with none around the name. Characters that nobody sees, such as zero-width spaces,
    byte-order marks and control characters, are removed: to refuse them would tell whether a private cell has one.
    """
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()
    visible = (letter for letter in text if letter.isspace() or unicodedata.category(letter) not in ("Cc", "Cf"))
    return unicodedata.normalize("NFC", " ".join("".join(visible).split()))


def confusable(names: Iterable[str]) -> tuple[str, str] | None:
    """Return two names that differ only in case or in compatible forms of letters of one script, if there are such."""
    known: dict[str, str] = {}
    for name in names:
        other = known.setdefault(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()), name)
        if other != name:
            return other, name
    return None
