"""The README's library example runs as printed, at the key size it is printed with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def test_the_library_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    exec(compile(example, "README.md", "exec"), {"__name__": "readme"})  # noqa: S102
    assert capsys.readouterr().out.startswith("released: (1, 30) sensitivity")


def test_the_two_commands_exist() -> None:
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", README.read_text(encoding="utf-8"), re.M):
        assert re.search(rf"^{target}:", makefile, re.M)
