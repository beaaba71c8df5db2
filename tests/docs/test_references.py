"""References to files and sections, in code and documentation, lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from psephos.protocol.wire import Kind

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("protocol", "parties", "curator", "psephos", "tests", "benchmarks", "docs")
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])

FILE = re.compile(r"(?<![\w/.-])docs/[\w./-]*[\w/]")
NUMBERED = re.compile(r"(docs/[\w/-]+\.md), (section|finding)s? (\d+(?:, \d+)*(?: and \d+)?)")
TITLE = re.compile(r'(docs/[\w/-]+\.md), "([^"]+)"')


def sources() -> Iterator[Path]:
    """All Python files of the repository, without this one."""
    for folder in FOLDERS:
        yield from (path for path in sorted((ROOT / folder).rglob("*.py")) if path != Path(__file__).resolve())


def references(text: str) -> Iterator[tuple[str, bool]]:
    """Each reference in a text, and whether it leads somewhere."""
    text = " ".join(re.sub(r"^[ \t]*#", "", text, flags=re.M).split())
    for name in FILE.findall(text):
        yield name, (ROOT / name).exists()
    for page, kind, numbers in NUMBERED.findall(text):
        for number in re.findall(r"\d+", numbers):
            yield f"{page}, {kind} {number}", has_line(page, rf"(?:#+ |\*\*){number}\. ")
    for page, title in TITLE.findall(text):
        yield f'{page}, "{title}"', has_line(page, rf"#+ (?:\d+\. )?{re.escape(title)}$")


def has_line(page: str, pattern: str) -> bool:
    path = ROOT / page
    return path.exists() and re.search(rf"^{pattern}", path.read_text(encoding="utf-8"), re.M) is not None


def test_references_of_the_code_resolve() -> None:
    """`docs/FILE`, and behind a page's name `section N`, `finding N` or a section's title in quotation marks."""
    missing = [
        f"{path.relative_to(ROOT)}: {reference}"
        for path in sources()
        for reference, exists in references(path.read_text(encoding="utf-8"))
        if not exists
    ]
    assert missing == []


def test_the_file_named_for_new_messages_has_all_existing_ones() -> None:
    text = " ".join((ROOT / "docs" / "extend.md").read_text(encoding="utf-8").split())
    (name,) = re.findall(r"what a receiver sees inside, in `([^`]+)`", text)
    described = (ROOT / name).read_text(encoding="utf-8")
    assert [kind.title for kind in Kind if kind.title not in described] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page: Path) -> None:
    """Names between backticks that begin with a folder of the repository; `build/` and a reader's own files do not."""
    if page.name == "CHANGELOG.md":
        pytest.skip("it names what was")
    names = re.findall(r"`([\w-]+(?:/[\w.-]+)+/?)`", page.read_text(encoding="utf-8"))
    assert [name for name in names if name.split("/")[0] in FOLDERS and not (ROOT / name).exists()] == []
