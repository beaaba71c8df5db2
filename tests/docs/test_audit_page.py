"""The pytest files that docs/audit.md shows are collected and pass, with nothing but the fixtures that it names."""

from __future__ import annotations

import re
import subprocess
import sys
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
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--rootdir", "."]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert "3 passed" in done.stdout, done.stdout
