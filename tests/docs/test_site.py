"""The site builds strictly, every link within it leads somewhere, and it asks nobody for fonts or scripts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytest.importorskip("mkdocs", reason="the extra docs is not installed")
pytest.importorskip("mkdocstrings", reason="the extra docs is not installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", "docs/config/mkdocs.yml"]
    done = subprocess.run([*command, "--site-dir", str(target)], cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "WARNING" not in done.stderr, done.stderr[-4000:]
    return target


class Links(HTMLParser):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.ids |= {given[key] for key in ("id", "name") if key in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in ("script", "img", "iframe") and "src" in given:
            self.loads.append(given["src"])
        if tag == "link" and "href" in given and given.get("rel") != "canonical":
            self.loads.append(given["href"])


def test_no_link_within_the_site_is_dead(site: Path) -> None:
    pages = {path: Links(path) for path in site.rglob("*.html")}
    assert len(pages) > 10
    dead = []
    for path, page in pages.items():
        if path.name == "404.html":  # served from anywhere, so its links are absolute
            continue
        for link in (*page.links, *page.loads):
            if re.match(r"[a-z]+:", link) or link.startswith("//"):
                continue
            target, _, anchor = unquote(link).partition("#")
            goal = (path.parent / target.split("?")[0]).resolve() if target else path
            goal = goal / "index.html" if goal.is_dir() else goal
            if not goal.exists() or (anchor and goal in pages and anchor not in pages[goal].ids):
                dead.append(f"{path.relative_to(site)}: {link}")
    assert not dead


ELEMENTS = frozenset(
    """html head title meta link script style body header main article nav footer div span p h1 h2 h3 h4 h5
    h6 a small em strong code pre ul ol li dl dt dd table thead tbody tr th td img br hr form input
    label button svg defs marker path text""".split()  # noqa: SIM905
)
"""What pages here are made of. A name outside of it is mathematics that was taken for a tag: <grad F(u), v>."""


class Prose(HTMLParser):
    """Elements of a page, and emphasis that begins or ends within a word: w* and w* give w, a slanted "and w"."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.torn: list[str] = []
        self._last, self._slanted, self._closed = "", "", False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = tag in ELEMENTS and all(re.fullmatch(r"[\w:-]+", name) for name, _ in attrs)
        self.elements.add(tag if known else self.get_starttag_text() or tag)
        if tag in ("em", "strong") and self._last[-1:].isalnum():
            self.torn.append(self._last[-20:])

    def handle_endtag(self, tag: str) -> None:
        self._closed = tag in ("em", "strong")

    def handle_data(self, data: str) -> None:
        if self._closed and data[:1].isalnum():
            self.torn.append(data[:20])
        self._last, self._closed = data, False


def test_mathematics_is_not_taken_for_markup(site: Path) -> None:
    lost = {}
    for path in site.rglob("*.html"):
        page = Prose(path.read_text(encoding="utf-8"))
        if found := sorted(page.elements - ELEMENTS) + page.torn:
            lost[str(path.relative_to(site))] = found
    assert not lost
    lemma = re.sub(r"\s+", " ", (site / "theory.html").read_text(encoding="utf-8"))
    assert "⟨-grad F(v), u - v⟩ = ⟨grad(G - F)(v), u - v⟩" in lemma


@pytest.mark.parametrize(
    "text", ["<p>F - <grad F(v), .></p>", "<p>||w<em>|| &lt;= R(w</em>)</p>", "<p>a <w, t=2> b</p>", "<p><a b, c></p>"]
)
def test_lost_mathematics_is_seen(text: str) -> None:
    page = Prose(text)
    assert page.torn or page.elements - ELEMENTS


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: path.name)
def test_rows_of_a_table_have_the_cells_of_its_head(page: Path) -> None:
    """A bar in a cell, |w|, is a border: what stands after the last column is dropped without a word."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.M):
        borders = [len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", row))) for row in table.splitlines()]
        assert len(set(borders)) == 1, table


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    elsewhere = {
        f"{path.relative_to(site)}: {target}"
        for path in site.rglob("*.html")
        for target in Links(path).loads
        if re.match(r"https?:|//", target)
    }
    assert not elsewhere


def test_every_page_is_in_the_navigation(site: Path) -> None:
    start = Links(site / "index.html")
    linked = {link.partition("#")[0] for link in start.links}
    for page in (ROOT / "docs").rglob("*.md"):
        if "config" not in page.parts:
            assert str(page.relative_to(ROOT / "docs").with_suffix(".html")) in linked | {"index.html"}, page


def test_every_module_is_in_the_reference(site: Path) -> None:
    for package in ("protocol", "parties", "curator", "psephos"):
        ids = Links(site / "reference" / f"{package}.html").ids
        for path in (ROOT / package).rglob("*.py"):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            module = module if package == "psephos" else f"psephos.{module}"
            assert module in ids or module.endswith("__init__") or path.stem.startswith("_"), module
