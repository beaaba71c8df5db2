"""docs/commands.md, which `python docs/config/commands_page.py` writes: what every command prints at 80 columns."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```console\n\$ (.*?)\n```\n(?:\n```text\n(.*?)\n```\n)?", PAGE, re.M | re.S)


def generator() -> Any:
    spec = importlib.util.spec_from_file_location("commands_page", ROOT / "docs/config/commands_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_every_command_of_its_generator() -> None:
    commands = [command for group in generator().COMMANDS.values() for command in group]
    assert [command for command, _ in BLOCKS] == commands
    assert PAGE.startswith(generator().INTRODUCTION)


def test_nothing_is_wider_than_80_columns() -> None:
    wide = [line for _, text in BLOCKS for line in text.splitlines() if len(line) > 80]
    assert wide == []


def test_the_demo_is_no_longer_than_30_lines() -> None:
    (demo,) = (text for command, text in BLOCKS if command == "psephos demo")
    assert len(demo.splitlines()) <= 30


@pytest.mark.site
def test_a_run_prints_what_the_page_shows(tmp_path: Path) -> None:
    """The notice and the table's rows; noise, and the warnings and the hint that depend on it, are drawn anew."""
    module = generator()
    (tmp_path / "patients.csv").write_bytes(module.TABLE.read_bytes())
    (command,) = (command for command, _ in BLOCKS if command.startswith("psephos run"))
    on_page, printed = dict(BLOCKS)[command], module.printed(command, tmp_path)
    assert printed.startswith(on_page[: on_page.index("may see it.")])
    rows = re.compile(r"^(majority|batch|indiv|ensemble|statistic) .*?(?=\d|$)", re.M)
    assert [match[0] for match in rows.finditer(printed)] == [match[0] for match in rows.finditer(on_page)]
