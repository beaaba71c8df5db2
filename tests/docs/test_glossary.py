"""The glossary is short, and the public class names are made of its terms and of reviewed words.

A class name is split into its words (`EncryptedSum`: encrypted, sum). Each word, or each pair of neighbouring words, is
a term of docs/glossary.md or a line of tests/docs/vocabulary.txt, which has words of the field's textbooks and plain
English. A line that ends in " *" may be the whole name of a class.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("protocol", "parties", "curator", "psephos")
MAXIMUM = 40

VAGUE = frozenset(
    re.findall(
        r"\w+",
        """
        answered base block cast cell closed contents context data done draw edited element entity failed found given
        handler helper info interrupted item kept manager misc node object observed part point processor published
        released request settings state taken thing told unit util value watching
        """,
    )
)
"""Words that say nothing alone: a class name needs another word beside them."""


def glossary() -> frozenset[str]:
    """The terms of the glossary, in lower case; an entry may have several, with commas between them."""
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    entries = re.findall(r"^\*\*(.+)\*\*$", page, re.M)
    return frozenset(form for entry in entries for term in entry.split(",") for form in singular(term.strip().lower()))


def vocabulary() -> tuple[list[str], frozenset[str]]:
    """The reviewed words as listed, and those that may be a whole name."""
    lines = (ROOT / "tests" / "docs" / "vocabulary.txt").read_text(encoding="utf-8").splitlines()
    return [line.removesuffix(" *") for line in lines], frozenset(line[:-2] for line in lines if line.endswith(" *"))


def words_of(name: str) -> list[str]:
    """Split a name in CamelCase into its words, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*", name)]


@cache
def class_names() -> list[tuple[str, str]]:
    """Module and name of each public class of a public module."""
    names = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            where = path.relative_to(ROOT)
            hidden = any(part.startswith("_") and part != "__init__.py" for part in where.parts)
            if hidden or any(folder.is_symlink() for folder in path.parents):
                continue
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    names.append((str(where), node.name))
    return names


def singular(word: str) -> set[str]:
    """The word, and what it is the plural of."""
    return {word, word.removesuffix("s"), re.sub("ies$", "y", word)}


def unexplained(
    name: str, terms: frozenset[str], words: frozenset[str], whole: frozenset[str], used: set[str] | None = None
) -> list[str]:
    """Return the words of a class name that are neither a term nor reviewed; for a single vague word, that word.

    `used` receives the reviewed words that the name needs.
    """
    parts = words_of(name)
    used = set() if used is None else used
    if len(parts) == 1:
        reviewed = singular(parts[0]) & whole
        used |= reviewed
        known = parts[0] not in VAGUE and (singular(parts[0]) & terms or reviewed)
        return [] if known else parts
    missing, at = [], 0
    while at < len(parts):
        if singular(" ".join(parts[at : at + 2])) & terms:
            at += 2
            continue
        reviewed = singular(parts[at]) & words
        if not singular(parts[at]) & terms:
            used |= reviewed
            missing += [] if reviewed else [parts[at]]
        at += 1
    return missing


def test_the_glossary_is_short_and_in_order() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    headings = re.findall(r"^\*\*(.+)\*\*\n:   \S", page, re.M)
    assert headings == sorted(headings)
    assert len(headings) == page.count("\n:   ")
    assert len(headings) <= MAXIMUM


def test_class_names_are_made_of_terms_and_reviewed_words() -> None:
    terms, (listed, whole) = glossary(), vocabulary()
    words = frozenset(listed)
    unknown = [(where, name, left) for where, name in class_names() if (left := unexplained(name, terms, words, whole))]
    assert unknown == []


def test_every_reviewed_word_is_used_and_they_are_sorted() -> None:
    terms, (listed, whole) = glossary(), vocabulary()
    assert listed == sorted(set(listed))
    used: set[str] = set()
    alone = set()
    for _, name in class_names():
        unexplained(name, terms, frozenset(listed), whole, used)
        alone |= singular(words_of(name)[0]) if len(words_of(name)) == 1 else set()
    assert set(listed) - used == set()
    assert whole - alone == set()
    assert terms.isdisjoint(listed)
    assert whole.isdisjoint(VAGUE)


def test_no_two_public_classes_have_one_name() -> None:
    names = [name for _, name in class_names()]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("EncryptedSum", []),
        ("PackingPlans", []),
        ("SumWalk", ["walk"]),
        ("Walk", ["walk"]),
        ("Sum", ["sum"]),
        ("Context", ["context"]),
        ("Ballots", []),
        ("PackingSum", ["packing"]),
    ],
)
def test_unknown_words_are_detected(name: str, left: list[str]) -> None:
    terms = frozenset({"ballot", "packing plan"})
    assert unexplained(name, terms, frozenset({"encrypted", "sum", "context"}), frozenset({"context"})) == left
