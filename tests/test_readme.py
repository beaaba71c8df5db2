"""The README's examples and commands work as printed; tests/psephos/cli/test_demo.py compares its demo."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from psephos.cli.main import build
from psephos.simulation.options import COUNTED

README = Path(__file__).parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.S)


def test_the_python_example_compares_methods_of_which_one_is_useful(capsys: pytest.CaptureFixture[str]) -> None:
    """The statistic's mean over 20 releases at epsilon 1 is 0.92; the most frequent class has 0.63."""
    (example,) = blocks("python")
    exec(compile(example, "README.md", "exec"), {"__name__": "readme"})  # noqa: S102
    scores = {line.split()[0]: re.findall(r"\d\.\d{3}(?= )", line) for line in capsys.readouterr().out.splitlines()[2:]}
    assert float(scores["statistic"][0]) > float(scores["majority"][0]) + 0.2


@pytest.mark.slow
def test_the_own_table_gets_a_useful_classifier_by_counted_votes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In 20 tables with fresh noise its accuracy was at least 0.89; half of the rows are of one class."""
    (example,) = (block for block in blocks("sh") if "clinics.csv" in block)
    table, *commands = example.replace("\\\n", " ").splitlines()
    script = README.parent / shlex.split(table)[1]
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, script, "clinics.csv"], check=True, capture_output=True)
    for command in commands:
        done = CliRunner().invoke(build(), shlex.split(command)[1:], catch_exceptions=False)
        assert done.exit_code == 0, done.output
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    ((method, accuracy),) = ((name, each) for name, each in result["accuracy"].items() if each["private"] is not None)
    assert method in COUNTED
    assert accuracy["private"] > max(0.85, result["accuracy"]["majority"]["nonprivate"] + 0.15)


def test_make_targets_in_the_readme_exist() -> None:
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`?make ([\w-]+)", README.read_text(encoding="utf-8")):
        assert re.search(rf"^{target}:", makefile, re.M), target
