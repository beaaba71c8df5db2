"""The site builds strictly, every link within it leads somewhere, and it asks nobody for fonts or scripts."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES_OF_THE_SITE = [page for page in (ROOT / "docs").rglob("*.md") if "paper" not in page.parts]
"""The paper is for a journal's own typesetting."""

BROWSER = importlib.util.spec_from_file_location("docs_config_chromium", ROOT / "docs" / "config" / "chromium.py")
assert BROWSER is not None
assert BROWSER.loader is not None
browser = importlib.util.module_from_spec(BROWSER)
BROWSER.loader.exec_module(browser)

pytest.importorskip("mkdocs", reason="the group docs is not installed")
pytest.importorskip("mkdocstrings", reason="the group docs is not installed")


def build_site(target: Path) -> None:
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", "docs/config/mkdocs.yml"]
    done = subprocess.run([*command, "--site-dir", str(target)], cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "WARNING" not in done.stderr, done.stderr[-4000:]


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


def check_links(pages: dict[Path, Links]) -> None:
    assert len(pages) > 100
    assert not [load for page in pages.values() for load in page.loads if re.match(r"https?:|//", load)]
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
                dead.append(f"{path}: {link}")
    assert not dead


FORMULA = re.compile(r"\$\$(?:.+?)\$\$|(?<![\\$])\$(?! )[^$\n]*(?:\n[^$\n]+)*?(?<! )\$", re.S)


class Formulas(HTMLParser):
    """The text of each formula of a page, and what is left of some outside of code."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.raw: list[str] = []
        self._inside: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("math", "code", "pre", "script", "style", "svg"):
            self._inside.append(tag)
            self.found += [""] * (tag == "math")

    def handle_endtag(self, tag: str) -> None:
        if self._inside[-1:] == [tag]:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if self._inside[-1:] == ["math"]:
            self.found[-1] += data
        elif not self._inside:
            self.raw += re.findall(r"\$[^$]*\$|\\[(\[a-zA-Z]+", data)


def check_formulas(site: Path) -> None:
    """As MathML: as many as the page's source has, none of them with a command that was not understood."""
    count = 0
    for source in PAGES_OF_THE_SITE:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", source.read_text(encoding="utf-8"), flags=re.S | re.M)
        page = (site / source.relative_to(ROOT / "docs")).with_suffix(".html").read_text(encoding="utf-8")
        formulas = Formulas(page)
        assert len(formulas.found) == len(FORMULA.findall(text)), source
        assert not formulas.raw, source
        assert not [formula for formula in formulas.found if not formula.strip() or "\\" in formula], source
        assert "arithmatex" not in page
        assert "merror" not in page
        count += len(formulas.found)
    assert count > 200


@pytest.mark.parametrize("page", sorted(PAGES_OF_THE_SITE), ids=lambda path: path.name)
def test_rows_of_a_table_have_the_cells_of_its_head(page: Path) -> None:
    """A bar in a cell, |w|, is a border: what stands after the last column is dropped without a word."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.M):
        borders = [len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", row))) for row in table.splitlines()]
        assert len(set(borders)) == 1, table


def check_examples(site: Path, pages: dict[Path, Links]) -> None:
    gallery = pages[site / "examples" / "index.html"]
    examples = ROOT / "docs" / "examples"
    for path in (*examples.glob("*.ipynb"), *examples.glob("*.py"), *examples.glob("attacks/*.py")):
        assert str(path.relative_to(examples).with_suffix(".html")) in gallery.links
        assert f"../assets/{path.stem}.svg" in gallery.loads, "python docs/config/pictures.py"
    assert "assets/demo.svg" in pages[site / "index.html"].loads


WIDE_PAGES = (
    "theory.html",
    "examples/index.html",
    "security/matrix.html",
    "security/proofs.html",
    "protocols/psgd.html",
)
"""Pages with the longest formulas, the most pictures and the widest tables."""


def check_in_browser(site: Path) -> None:
    """Read from files: the search finds, formulas have their font, nothing is cut off on a screen or a telephone."""
    widest = site / "widest.html"
    page = (site / "index.html").read_text(encoding="utf-8")
    wide = f"<div class='highlight'><pre><code>{'m' * 120}</code></pre></div>"
    widest.write_text(page.replace("</article>", f"{wide}</article>"))
    measure = """(() => {
      const page = document.scrollingElement.scrollWidth - document.documentElement.clientWidth;
      const cut = [...document.querySelectorAll(".md-content pre code")].map(e => e.scrollWidth - e.clientWidth);
      return [page, Math.max(0, ...cut)];
    })()"""
    search = """new Promise(found => {
      document.querySelector("[data-md-toggle=search]").click();
      const box = document.querySelector(".md-search__input");
      box.focus();
      box.value = "QUERY";
      box.dispatchEvent(new Event("input", {bubbles: true}));
      box.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}));
      const asked = setInterval(() => {
        const links = [...document.querySelectorAll(".md-search-result__link")].map(link => link.getAttribute("href"));
        if (links.length) { clearInterval(asked); found(links.join(" ")); }
      }, 50);
    })"""
    with browser.chromium() as chromium:
        for path in (widest, *(site / name for name in WIDE_PAGES)):
            for width, dark in ((1400, False), (400, True)):
                chromium.open(path, width=width, dark=dark)
                page_over, code_over = chromium.value(measure)
                assert page_over <= 0, f"{path.name} is too wide for {width} pixels"
                assert width == 400 or code_over <= 0, f"code of {path.name} is cut off"
                assert chromium.said() == []
                assert all(address.startswith(("file:", "data:", "blob:")) for address in chromium.requested())
        chromium.open(site / "theory.html", width=1400, dark=False)
        assert chromium.value(
            "document.fonts.ready.then(() => document.fonts.check('16px \"STIX Two Math\"'))", wait=True
        )
        guides = {
            "regression": "own-data",
            "non-linear": "features",
            "which method": "which-method",
            "groups": "questions",
        }
        for query, guide in guides.items():
            chromium.open(site / "theory.html", width=1400, dark=False)
            first, *_ = chromium.value(search.replace("QUERY", query), wait=True).split()
            assert f"/{guide}.html" in first, query


@pytest.mark.browser
@pytest.mark.site
def test_the_site(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """One test: the site takes a minute and more to build, and each process of the suite would build it again."""
    build_site(tmp_path)
    pages = {path: Links(path) for path in tmp_path.rglob("*.html")}
    with subtests.test("links"):
        check_links(pages)
    with subtests.test("formulas"):
        check_formulas(tmp_path)
    with subtests.test("examples"):
        check_examples(tmp_path, pages)
    with subtests.test("browser"):
        if browser.CHROMIUM is None:
            pytest.skip("no Chromium here")
        check_in_browser(tmp_path)
