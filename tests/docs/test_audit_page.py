"""The pytest files that docs/audit.md shows are collected and pass, with nothing but the fixtures that it names."""

from __future__ import annotations

import contextlib
import multiprocessing
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_samples_for_pytest_pass(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    files = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", page, re.M | re.S)
    assert [name for name, _ in files] == ["conftest.py", "test_round.py", "test_board.py"]
    for name, code in files:
        (tmp_path / name).write_text(code)
    played = multiprocessing.get_context("fork").Process(target=play, args=(tmp_path,))
    played.start()
    played.join()
    assert "3 passed" in (output := (tmp_path / "said").read_text()), output


def play(folder: Path) -> None:
    """In a process of its own, which need not import everything again."""
    words = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)]
    with (folder / "said").open("w") as output, contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        pytest.main(words)
