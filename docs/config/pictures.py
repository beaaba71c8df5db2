"""The pictures of the demo and of the examples: `python docs/config/pictures.py [NAME ...]`, all or those named.

Each is what the program prints, as a terminal shows it, but for tables of accuracy against epsilon, which are drawn.
"""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from psephos.results import charts
from psephos.results.base import Curve, Panel
from psephos.results.html import DARK, LIGHT

DOCS = Path(__file__).resolve().parents[1]
ROOT, ASSETS = DOCS.parent, DOCS / "assets"
WIDTH, LINES, LAST = 100, 30, 6
DARKER = {light: DARK[name] for name, light in LIGHT.items()}


def printed(command: list[str]) -> str:
    """What a command prints to a terminal, colours included."""
    ours, theirs = pty.openpty()
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"COLUMNS": str(WIDTH), "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(  # noqa: S603 - our own commands
            command, cwd=folder, env=environment, stdout=theirs, stderr=subprocess.DEVNULL
        )
        os.close(theirs)
        parts = []
        try:
            while part := os.read(ours, 1 << 16):
                parts.append(part)
        except OSError:  # the terminal is gone with its program
            pass
        os.close(ours)
        if process.wait():
            raise SystemExit(f"{command} failed")
    return b"".join(parts).decode().replace("\r\n", "\n")


def terminal(text: str, title: str) -> str:
    """A picture of a terminal; its font is whatever the reader has, since nothing is asked of a network."""
    lines = text.rstrip().split("\n")
    if len(lines) > LINES:
        lines = [*lines[: LINES - LAST], "...", *lines[-LAST:]]
    console = Console(record=True, width=min(WIDTH, max(map(len, lines)) + 1), file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(Text.from_ansi("\n".join([*lines, ""])))  # the last line's descenders would be cut off
    return re.sub(r"@font-face \{.*?\}", "", console.export_svg(title=title), flags=re.S).strip() + "\n"


def curves(rows: list[tuple[str, float, float]], title: str, levels: dict[str, float] | None = None) -> str:
    """Accuracy against epsilon, of rows (curve, epsilon, accuracy)."""
    of = {name: [(x, y) for other, x, y in rows if other == name] for name, *_ in rows}
    lines = [Curve(name, [x for x, _ in points], [y for _, y in points]) for name, points in of.items()]
    panel = Panel(title, "epsilon (log scale; more private to the left)", "accuracy", lines, levels=levels or {})
    return charts.draw(panel, "curves").svg.decode()


def demo() -> str:
    """The demo, as `make demo` runs it."""
    return terminal(printed(["psephos", "demo", "--output", "build/demo"]), "psephos demo --output build/demo")


def epsilon_curve() -> str:
    """The table that the example prints, drawn; beside it a file for dark pages."""
    text = printed([sys.executable, str(DOCS / "examples" / "epsilon_curve.py")])
    found = re.findall(r"^(.+?) {2,}([\d.]+|-) +([\d.]+)$", text, re.M)
    rows = [(name, float(x), float(y)) for name, x, y in found if x != "-"]
    levels = {name: float(y) for name, x, y in found if x == "-"}
    light = curves(rows, "Right on other patients", levels)
    dark = re.sub("|".join(LIGHT.values()), lambda at: DARKER[at[0]], light)
    (ASSETS / "epsilon_curve-dark.svg").write_text(dark, encoding="utf-8")
    return light


def clinics() -> str:
    """What the README's run on the clinics prints."""
    (words,) = re.findall(r"^psephos run .*?[^\\]$", (ROOT / "README.md").read_text(), re.M | re.S)
    script = f"python {DOCS / 'examples' / 'clinics.py'} && {words}"
    return terminal(printed(["sh", "-c", script]), "psephos run --data clinics.csv ...")


def rings() -> str:
    """What the example draws."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rings.svg"
        printed([sys.executable, str(DOCS / "examples" / "rings.py"), str(path)])
        return path.read_text(encoding="utf-8")


def hospitals() -> str:
    """The last table of the notebook, as it is stored there, drawn."""
    found = re.findall(r"^ *([\d.]+) +([\d.]+) ± [\d.]+ +([\d.]+) ±", stored("hospitals"), re.M)
    names = {1: "9 hospitals", 2: "90 hospitals"}
    rows = [(names[place], float(row[0]), float(row[place])) for place in names for row in found]
    return curves(rows, "Hospitals that share a classifier")


def hamm2016() -> str:
    """The first table of the notebook, as it is stored there, drawn."""
    heads, *lines = stored("hamm2016").split("1/epsilon")[1].strip().split("\n")
    values = [list(map(float, line.split())) for line in lines]
    names = list(enumerate(heads.split(), 1))
    rows = [(name, 1 / line[0], line[place]) for place, name in names for line in values]
    return curves(rows, "Hamm 2016, Figure 4, on synthetic rows")


def stored(name: str) -> str:
    """All that a notebook's cells printed."""
    cells = json.loads((DOCS / "examples" / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    return "".join(text for cell in cells for output in cell.get("outputs", []) for text in output.get("text", []))


def main(names: list[str]) -> None:
    """Draw and write each."""
    drawn = {"demo": demo, "epsilon_curve": epsilon_curve, "clinics": clinics, "hospitals": hospitals}
    drawn |= {"rings": rings, "hamm2016": hamm2016}
    drawn["reading_a_view"] = lambda: terminal(stored("reading_a_view"), "reading_a_view.ipynb")
    for path in (
        *(DOCS / "examples" / name for name in ("heads.py", "one_round.py")),
        *sorted((DOCS / "examples" / "attacks").glob("*.py")),
    ):
        drawn[path.stem] = lambda path=path: terminal(printed([sys.executable, str(path)]), path.name)  # type: ignore[misc]
    for name in names or drawn:
        (ASSETS / f"{name}.svg").write_text(drawn[name](), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
