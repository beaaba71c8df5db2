"""The path of one ballot through the code is as short as docs/design.md says, and passes the functions listed there."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from psephos.audit import case_tally
from psephos.audit.model import AnalysisContext
from psephos.cli.main import build
from psephos.protocol.paillier.encryption import Encryptor
from tests.psephos.study.cast import DealtCast

ROOT = Path(__file__).resolve().parents[2]
RUN = "run --method soft --parties 6 --holders 3 --threshold 2 --key-bits 512 --test-key --workers 1 --json"


def run_command() -> None:
    assert CliRunner().invoke(build(), RUN.split()).exit_code == 0


def run_study() -> None:
    DealtCast("tally").played()


def run_audit() -> None:
    case_tally.VOTES.real(AnalysisContext(seed=1, views=1, rate=1e-4))


def path_of_a_ballot(run: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return (file, function) of the product's functions that are active when a party's ballot is encrypted."""
    paths: list[list[tuple[str, str]]] = []
    encrypt = Encryptor._encrypt

    def record(self: Encryptor, *arguments: Any) -> Any:
        stack = [(Path(frame.filename), frame.name) for frame in traceback.extract_stack()]
        if any(name == "ballot" for _, name in stack):
            inside = [(path.resolve(), name) for path, name in stack if path.resolve().is_relative_to(ROOT)]
            ours = [(str(path.relative_to(ROOT)), name) for path, name in inside]
            paths.append([(path, name) for path, name in ours if not path.startswith((".venv", "build", "tests"))])
        return encrypt(self, *arguments)

    monkeypatch.setattr(Encryptor, "_encrypt", record)
    run()
    return paths[0]


def listed(title: str) -> list[tuple[str, str]]:
    """Return the (file, function) lines of a block of the section "The path of one ballot"."""
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    section = page.split("### The path of one ballot")[1].split("\n## ")[0]
    block = section.split(f"**{title}**")[1].split("```")[1]
    return [(path, name) for path, name in re.findall(r"^(\S+\.py) +(\w+)", block, flags=re.M)]


@pytest.mark.parametrize(
    ("title", "run", "functions", "files"),
    [("psephos run", run_command, 35, 25), ("A study", run_study, 35, 25), ("An audit", run_audit, 35, 25)],
)
def test_the_page_shows_the_path_of_a_ballot(
    title: str, run: Any, functions: int, files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = [(file, name) for file, name in path_of_a_ballot(run, monkeypatch) if not name.startswith("<")]
    assert path == listed(title)
    assert len(path) <= functions
    assert len({file for file, _ in path}) <= files
