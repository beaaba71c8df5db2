"""What the site's configuration cannot say by itself: its order, pages that programs print, links out of the site."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from html import escape, unescape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
FONT = Path(str(find_spec("ziamath").origin)).parent / "fonts" / "STIXTwoMath-Regular.ttf"  # type: ignore[union-attr]
FIGURE = ROOT / "benchmarks" / "performance-peers.svg"
PACKAGES = {
    "protocol": "What every role shares",
    "parties": "A data owner",
    "curator": "The aggregator",
    "psephos": "Simulation and experiments",
}

PRINTED = {
    "commands.md": "docs/config/commands_page.py",
    "json.md": "docs/config/json_page.py",
    "study-fields.md": "docs/config/study_page.py",
    "security/attacks.md": "tests/security/lab/attacks.py",
    "security/matrix.md": "tests/security/lab/tables.py",
}
"""Pages that a program prints when the site is built; files link to the program, which stands in the repository."""

MEASURED = {
    "accuracy.md": "benchmarks/accuracy.md",
    "performance.md": "benchmarks/performance.md",
    "measurements.md": "benchmarks/README.md",
}
"""Pages that stand beside the programs that measured."""

ORDER: list[tuple[str, list[str]]] = [
    ("", ["index.md", "start.md", "questions.md"]),
    (
        "Tasks",
        [
            "which-method.md",
            "own-data.md",
            "features.md",
            "study.md",
            "study-operations.md",
            "flower.md",
            "audit.md",
            "reproduce.md",
            "extend.md",
        ],
    ),
    ("How it works", ["how-it-works.md", "protocols/", "theory.md"]),
    ("Security", ["security/"]),
    ("Results", ["accuracy.md", "performance.md", "measurements.md", "compared.md"]),
    ("Examples", ["examples/"]),
    ("Look up", ["commands.md", "library.md", "report.md", "json.md", "study-fields.md", "wire.md", "design.md"]),
]


GUIDES = {name for title, names in ORDER[:2] for name in names} | {"library.md", "compared.md", "how-it-works.md"}
"""Pages that a search finds before others."""


def on_files(files: Files, config: Any) -> Files:
    """Add what programs print, a page per package and module with its public names, and a page per example."""
    pages = _reference()
    pages |= {name: _printed(program) for name, program in PRINTED.items()}
    for name in ("site.css", "iframe-worker.js"):
        pages[f"assets/{name}"] = (ROOT / "docs" / "config" / name).read_text(encoding="utf-8")
    pages |= _examples()
    pages |= {name: (ROOT / path).read_text(encoding="utf-8") for name, path in MEASURED.items()}
    for name, path in {"assets/STIXTwoMath-Regular.ttf": FONT, FIGURE.name: FIGURE}.items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    config["nav"] = _nav([file.src_uri for file in files.documentation_pages()])
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """A link to a page's source leads to the page; one to any other file that is no page becomes the file's name."""
    looked_up = page.file.src_uri.startswith(("reference/", "wire", "json", "study-fields"))
    page.meta["search"] = {"boost": 8.0 if page.file.src_uri in GUIDES else 0.001 if looked_up else 1.0}
    pages = {ROOT / source: name for name, source in (PRINTED | MEASURED).items()}
    here = Path(page.file.src_uri).parent
    source = ROOT / MEASURED.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def resolve(match: re.Match[str]) -> str:
        text, target = match.group(1), match.group(2)
        if re.match(r"[a-z]+:|#|/", target):
            return match.group(0)
        file, hash_, anchor = target.partition("#")
        path = (source.parent / file).resolve()
        inside = path.is_relative_to(ROOT / "docs")
        if path not in pages and path.exists() and (not inside or path.is_dir() or path.suffix in (".py", ".ipynb")):
            name = str(path.relative_to(ROOT))
            return text if text.strip("`") == name else f"{text} (`{name}`)"
        if path in pages or inside:
            name = pages[path] if path in pages else str(path.relative_to(ROOT / "docs"))
            return f"[{text}]({os.path.relpath(name, here)}{hash_}{anchor})"
        return match.group(0)

    return re.sub(r"(?<!\!)\[([^\]]+)\]\(([^)\s]+)\)", resolve, markdown)


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Formulas become MathML, which browsers draw by themselves: no script, no font and no network is needed."""

    def formula(match: re.Match[str]) -> str:
        display = "block" if match["display"] else "inline"
        return str(convert(unescape(match["inline"] or match["display"]), display=display))

    return re.sub(
        r'<(?:span|div) class="arithmatex">(?:\\\((?P<inline>.*?)\\\)|\\\[(?P<display>.*?)\\\])</(?:span|div)>',
        formula,
        html,
        flags=re.S,
    )


def _nav(pages: list[str]) -> list[Any]:
    """Every page once: in the order above where it is named there, and otherwise at the end."""
    left = dict.fromkeys(sorted(page for page in pages if not page.startswith("reference/")))
    nav: list[Any] = []
    for title, wanted in ORDER:
        chosen: list[str] = []
        for name in wanted:
            found = [page for page in left if page == name or (name[-1] in "/-" and page.startswith(name))]
            chosen += sorted(found, key=lambda page: (not page.endswith("index.md"), page))
            for page in found:
                del left[page]
        if chosen:
            nav += [{title: chosen}] if title else chosen
    if left:
        nav.append({"More": list(left)})
    reference = [page for page in pages if page.startswith("reference/")]
    packages = [{package: [page for page in reference if page.split("/")[1] == package]} for package in PACKAGES]
    return [*nav, {"Reference": packages}]


def _printed(program: str) -> str:
    """What a program of the repository prints."""
    module = program.removesuffix(".py").replace("/", ".")
    command = [sys.executable, *(["-m", module] if program.startswith("tests/") else [program])]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8", check=True)  # noqa: S603 - ours
    return done.stdout


def _reference() -> dict[str, str]:
    """A page of each package, with its modules, and one of each module, with every public name from its docstring."""
    pages = {}
    for package, words in PACKAGES.items():
        listed = [f"# {package}\n\n{words}. A page for each module, with every public name from its docstring.\n"]
        for path in sorted((ROOT / package).rglob("*.py")):
            where = path.relative_to(ROOT).with_suffix("")
            if path.stem.startswith("_") or any(part.is_symlink() for part in path.parents):
                continue
            module = ".".join(where.parts if package == "psephos" else ("psephos", *where.parts))
            first = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            listed.append(f"* [`{module}`]({where.relative_to(package)}.md): {first.splitlines()[0]}")
            title = ".".join(where.parts[1:])
            pages[f"reference/{where}.md"] = f"---\ntitle: {title}\n---\n\n::: {module}\n"
        pages[f"reference/{package}/index.md"] = "\n".join(listed) + "\n"
    return dict(sorted(pages.items(), key=lambda page: (not page[0].endswith("index.md"), page[0])))


def _examples() -> dict[str, str]:
    """A page of each example, and one of all of them with their pictures (docs/config/pictures.py)."""
    folder, pages, cards = ROOT / "docs" / "examples", {}, []
    for path in (*sorted(folder.glob("*.ipynb")), *sorted(folder.glob("*.py")), *sorted(folder.glob("attacks/*.py"))):
        where = path.relative_to(folder).with_suffix("")
        text = _notebook(path) if path.suffix == ".ipynb" else _script(path)
        pages[f"examples/{where}.md"] = text
        title, *paragraphs = text.split("\n\n")
        about = re.sub(r"[`*]", "", next(words for words in paragraphs if words[0] not in "`#"))
        drawn = (ROOT / "docs" / "assets" / f"{path.stem}.svg").read_text(encoding="utf-8")
        look = ' class="terminal"' if "rich-terminal" in drawn else ""
        picture = f'<img{look} src="../assets/{path.stem}.svg" alt="What {path.name} prints or draws">'
        title = escape(title.removeprefix("# "))
        cards.append(f'<p><a href="{where}.html">{picture}<strong>{title}</strong></a><br>{escape(about)}</p>')
    head = "# Examples\n\nEach is a file of `docs/examples` to read and to run, and the tests run it.\n\n"
    pages["examples/index.md"] = head + f'<div class="gallery">\n{"".join(cards)}\n</div>\n'
    return pages


def _script(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    title, _, about = str(ast.get_docstring(ast.parse(text))).partition("\n\n")
    about = about.split("\n\n")[0]
    where = path.relative_to(ROOT)
    title = re.sub(r" \((?:docs/|Rajkumar).*\)$", "", title.rstrip("."))
    return f'# {title}\n\n`{where}`\n\n{about}\n\n```python title="{path.name}"\n{text}```\n'


def _notebook(path: Path) -> str:
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        printed = "".join(text for output in cell["outputs"] for text in output.get("text", []))
        if printed:
            parts.append(f"```text\n{printed.rstrip()}\n```")
    where = f"`docs/examples/{path.name}`"
    return "\n\n".join([parts[0], where, *parts[1:]]) + "\n"
