"""The site's page of what commands print: `python docs/config/commands_page.py` runs them and prints it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "examples" / "clinics.py"
STUDY = "study.toml --board board.sqlite"
COMMANDS: dict[str, tuple[str, ...]] = {
    "One private classifier": (
        "psephos demo",
        "python clinics.py",
        "psephos run --data clinics.csv --label diagnosis --party clinic --public open --classes ill,well "
        "--learners logistic,tree,knn,naive-bayes --announced-rows 12000 --epsilon 3 --output out",
        "psephos predict out clinics.csv --output predicted.csv",
        "psephos evaluate out --data clinics.csv --label diagnosis --party clinic --public open "
        "--unit party --epsilon 1",
    ),
    "Simulations": (
        "psephos simulate tally --parties 20 --epsilon 1,10",
        "psephos plan --parties 50 --samples 1000",
    ),
    "Security analysis": ("psephos audit tally",),
    "A study": (
        "psephos study try --output trial --roles 4 --key-bits 512",
        f"cd trial && psephos study show {STUDY.split()[0]}",
        f"cd trial && psephos status {STUDY} --public public.csv",
        f"cd trial && psephos verify {STUDY} --public public.csv",
    ),
}
"""The commands of the page, by heading; they run in one directory, one after another."""

INTRODUCTION = """# What commands print

Each block is what the command above it printed at 80 columns, without progress. `--verbose` prints more, `--json` one
JSON object ([its fields](config/json_page.py)), and `--report` writes [a page](report.md). `clinics.py` is
`docs/examples/clinics.py`. The key of the study is far too short to protect anything, so that the example is fast.
"""


def printed(command: str, folder: Path) -> str:
    """Run a command in a directory and return its standard output."""
    settings = {"COLUMNS": "80", "NO_COLOR": "1", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(  # noqa: S602 - the commands are those above
        command, shell=True, cwd=folder, env=os.environ | settings, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{command}: {done.stderr}")
    return "\n".join(line.rstrip() for line in done.stdout.strip("\n").splitlines())


def page() -> str:
    """Return the page; runs every command, which takes about two minutes."""
    parts = [INTRODUCTION]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / SCRIPT.name).write_bytes(SCRIPT.read_bytes())
        for heading, commands in COMMANDS.items():
            parts.append(f"## {heading}\n")
            for command in commands:
                text = printed(command, folder)
                parts.append(f"```console\n$ {command}\n```\n")
                if text:
                    parts.append(f"```text\n{text}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(page())
