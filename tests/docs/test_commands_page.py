"""docs/commands.md, which `python docs/config/commands_page.py` writes: what every command prints at 80 columns."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

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


def test_short_outputs_are_what_the_commands_print(tmp_path: Path) -> None:
    """The others take longer, or print times and random keys; their widths are tested with the commands."""
    module = generator()
    (tmp_path / "patients.csv").write_bytes(module.TABLE.read_bytes())
    command, *_ = (command for command, _ in BLOCKS if command.startswith("psephos run"))
    text = dict(BLOCKS)[command]
    first = module.printed(command, tmp_path)
    numbers = re.compile(r"[0-9.]+")
    expected, actual = (numbers.sub("", page).split() for page in (text, first))
    assert actual[:40] == expected[:40], "the notice, the answer and the headings; the noise is drawn anew"
