"""Every code sample on the documentation site runs as printed, and every command that is not run exists as printed."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from psephos.cli.generate import LazyGroup
from psephos.cli.main import build

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "config" not in path.parts)
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)[^\n]*\n(?P<code>.*?)^(?P=indent)```", re.M | re.S)


def blocks(page: Path, *languages: str) -> list[tuple[int, str]]:
    """(line, code) of a page's fenced blocks in these languages."""
    text = page.read_text(encoding="utf-8")
    return [
        (text[: match.start()].count("\n") + 2, match["code"])
        for match in FENCE.finditer(text)
        if match["language"] in languages
    ]


def commands(page: Path, language: str) -> Iterator[list[str]]:
    for _, code in blocks(page, language):
        for line in code.replace("\\\n", " ").splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            if language == "console" and not line.startswith("$ "):
                continue  # what the command printed
            if words:
                yield words


def name(page: Path) -> str:
    return str(page.relative_to(DOCS))


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.filterwarnings("ignore::psephos.ReleaseWarning")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.site] * (page.name == "library.md"))
        for page in PAGES
        if blocks(page, "python", "py")
    ],
    ids=name,
)
def test_python_samples_run(page: Path, workshop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shared = {"__name__": "sample"}
    for line, code in blocks(page, "python", "py"):
        padded = "\n" * (line - 1) + code  # so that a traceback names the page's own line
        exec(compile(padded, str(page), "exec", dont_inherit=True), shared)  # noqa: S102


RUN = [
    (page, group)
    for page in PAGES
    if page.name != "study.md"  # played whole, in three shells, by test_study_page.py
    for language in ("sh", "bash", "shell")
    for group in [[shlex.join(words) for words in commands(page, language)]]
    if group
]


@pytest.mark.site
@pytest.mark.parametrize(
    ("page", "lines"),
    [
        # A command that reads what an earlier one of the page wrote runs after it; the others on their own.
        pytest.param(page, lines, id=f"{name(page)}: {lines[-1]}")
        for page, group in RUN
        for at, line in enumerate(group)
        for lines in [group[: at + 1] if "out/" in line else [line]]
    ],
)
def test_commands_run(page: Path, lines: list[str], workshop: Path) -> None:
    for line in lines:
        words = shlex.split(line)
        if words[0] == "psephos":
            done = CliRunner().invoke(build(), words[1:])
            assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception!r}"


def check_command(words: list[str]) -> None:
    """A command of the site exists, with each of its options."""
    while words and re.fullmatch(r"\w+=\S*", words[0]):  # settings of the environment before the command
        words = words[1:]
    if not words:
        return
    if words[0] == "nice":
        words = words[words.index("psephos") :] if "psephos" in words else words[1:]
    if words[0] == "psephos":
        command: Any = typer.main.get_command(build())
        rest = words[1:]
        while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
            assert rest[0] in command.commands, f"psephos has no command {rest[0]}: {shlex.join(words)}"
            lazy = isinstance(command, LazyGroup)
            command = command.load_command(rest[0]) if lazy else command.commands[rest[0]]
            rest = rest[1:]
        known = {"--help"} | {
            option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        for word in rest:
            if word.startswith("--"):
                assert word.split("=")[0] in known, f"{word} is no option: {shlex.join(words)}"
    elif words[0] == "make":
        makefile = (DOCS.parent / "Makefile").read_text(encoding="utf-8")
        for target in (word for word in words[1:] if "=" not in word and not word.startswith("-")):
            assert re.search(rf"^{target}:|^\.PHONY:.*\b{target}\b", makefile, re.M), shlex.join(words)
    elif words[0] in ("python", "python3") and words[1].endswith(".py"):
        assert (DOCS.parent / words[1]).exists(), shlex.join(words)


@pytest.mark.parametrize("page", [*PAGES, DOCS.parent / "README.md"], ids=lambda page: page.name)
def test_commands_exist(page: Path) -> None:
    """Those of every shell block, and those in backticks, which beside a figure say what printed it."""
    for language in ("console", "sh", "bash", "shell"):
        for words in commands(page, language):
            check_command(words)
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for line in re.findall(r"`((?:\w+=\S+ )*(?:nice )?psephos [^`]+)`", text):
        if not re.search(r"\b[A-Z]{4,}\b|…|\.\.\.", line.split("psephos", 1)[1].split(" --")[0]):
            check_command(line.split())


# -- examples


LONG = ("epsilon_curve", "hamm2016", "hospitals", "rings")
"""Examples with several whole runs."""

SCRIPTS = [
    pytest.param(path, marks=[pytest.mark.slow] if path.stem in LONG else [], id=path.name)
    for path in sorted((DOCS / "examples").glob("*.py"))
]
NOTEBOOKS = [
    pytest.param(path, marks=[pytest.mark.slow] if path.stem in LONG else [], id=path.name)
    for path in sorted((DOCS / "examples").glob("*.ipynb"))
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_examples_run(
    script: Path, workshop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = script.read_text(encoding="utf-8")
    arguments = re.search(r"^# Tested with: (.*)$", source, re.M)
    monkeypatch.setattr("sys.argv", [str(script), *(shlex.split(arguments[1]) if arguments else [])])
    monkeypatch.syspath_prepend(script.parent)  # as Python does
    for path in re.findall(r"^# Needs: (\S+)$", source, re.M):
        (workshop / Path(path).name).write_bytes((DOCS / "examples" / path).read_bytes())
    exec(compile(source, str(script), "exec", dont_inherit=True), {"__name__": "__main__", "__file__": str(script)})  # noqa: S102
    assert capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::psephos.ReleaseWarning")
@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_notebooks_run_and_print_what_is_stored(
    notebook: Path, workshop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cell by cell in one namespace. What a cell prints is what the notebook stores, so readers see the truth.

    Cells whose output depends on keys or on the system's noise carry the tag "varies"; they run, and are not compared.
    """
    shared = {"__name__": "notebook"}
    for number, cell in enumerate(json.loads(notebook.read_text(encoding="utf-8"))["cells"]):
        if cell["cell_type"] != "code":
            continue
        capsys.readouterr()
        exec(compile("".join(cell["source"]), f"{notebook.name}, cell {number}", "exec", dont_inherit=True), shared)  # noqa: S102
        printed = capsys.readouterr().out
        stored = "".join(text for output in cell["outputs"] for text in output.get("text", []))
        if "varies" not in cell["metadata"].get("tags", []):
            assert printed == stored, f"cell {number} of {notebook.name} prints something else than it stores"
