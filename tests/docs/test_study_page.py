"""docs/study.md: its tutorial runs as it is written, with a short key; its table of fields is complete."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from psephos.audit.studies import trial
from psephos.released import load_model
from tests.forked import forked_psephos

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/study.md").read_text(encoding="utf-8")


def names(table: dict[str, object], prefix: str = "") -> Iterator[str]:
    for name, value in table.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield from names(value[0], f"{name}.")
        elif isinstance(value, dict) and name != "parameters":
            yield from names(value, f"{name}.")
        else:
            yield prefix + name


def test_every_field_of_a_study_is_on_the_page_and_no_other() -> None:
    meanings = runpy.run_path(str(ROOT / "docs" / "config" / "study_page.py"))["MEANINGS"]
    assert list(meanings) == list(names(tomllib.loads(trial().study.text())))


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[Path]:
    """A directory as a fresh clone has it, as far as the tutorial needs it, and `psephos` on the path."""
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (tmp_path / "bin").mkdir()
    with forked_psephos(tmp_path / "bin"):
        yield tmp_path


@pytest.mark.site
def test_the_tutorial_works_as_written(clone: Path) -> None:
    """Three terminals, with a short key: blocks with agents run side by side, all others one after another."""
    blocks = re.findall(r"^```sh\n# terminal (\d)\n(.*?)^```", PAGE, re.M | re.S)
    assert len(blocks) == 9
    path = os.environ | {"HOME": str(clone), "PATH": f"{clone / 'bin'}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    where = dict.fromkeys("123", clone)
    for together, group in groupby(blocks, lambda block: "psephos agent" in block[1]):
        shells = []
        for terminal, text in group:
            typed = text.replace("psephos join", "yes | psephos join")
            typed = typed.replace("--key-bits 2048", "--key-bits 256 --trial")
            output = clone / f"said-{len(shells)}"
            script = f"( set -e\n{typed}\nwait\n) > {output} 2>&1"  # what is in the background ends before the terminal
            shells.append((output, subprocess.Popen(["/bin/sh", "-c", script], cwd=where[terminal], env=path)))
            if not together:
                shells[-1][1].wait()
            if "cd ~/trial" in text:
                where[terminal] = clone / "trial"
        for output, shell in shells:
            assert shell.wait() == 0, output.read_text()
    released = {path.read_bytes() for path in (clone / "trial").glob("*/*/released/model.json")}
    assert len(released) == 1
    assert len(list((clone / "trial").glob("*/*/released/card.md"))) == 4
    assert "predicted" in (clone / "trial/predicted.csv").read_text()
    assert load_model(next((clone / "trial").glob("north/*/released"))).classes_.tolist() == ["well", "ill"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_service_units(tmp_path: Path) -> None:
    """Lines about programs that are not installed here are all that it may say."""
    for unit in (ROOT / "docs/examples").glob("*.service"):
        copy = tmp_path / unit.name
        copy.write_text(unit.read_text())
        errors = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True).stderr
        assert all("is not executable: No such file" in line for line in errors.splitlines()), errors
