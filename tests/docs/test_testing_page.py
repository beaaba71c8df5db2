"""The pytest files that docs/testing.md shows are collected and pass, with nothing but the fixtures that it names."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_samples_for_pytest_pass(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    files = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", page, re.M | re.S)
    assert [name for name, _ in files] == ["conftest.py", "test_round.py", "test_board.py"]
    for name, code in files:
        (tmp_path / name).write_text(code)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run([*command, "--rootdir", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "3 passed" in done.stdout, done.stdout + done.stderr
