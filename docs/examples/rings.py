"""A linear and a non-linear release of the same rows: two rings, which no line divides.

100 parties have 60 labelled points each; 300 public points have no label, so that all that is known of the classes
comes from the private rows. `psephos run` is called twice, at epsilon 3 per party: with the columns alone, and with
products of columns, a public map. Each run draws its noise anew.

    python docs/examples/rings.py rings.svg
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd

from psephos import load_model

PARTIES, ROWS, PUBLIC, TEST = 100, 60, 300, 2000
RUN = (
    "run --data rings.csv --label ring --party party --public public.csv --classes inner,outer "
    "--epsilon 3 --method own-data --anyway"
)
REACH, CELLS, SIZE = 3.2, 64, 320
"""Half the width that is drawn, in units of the table; cells and pixels of a side."""


def rings(count: int, draw: np.random.Generator) -> pd.DataFrame:
    """Return points near a circle of radius 1 and one of radius 2."""
    radius, angle = draw.choice([1.0, 2.0], count), draw.uniform(0, 2 * np.pi, count)
    points = radius * np.array([np.cos(angle), np.sin(angle)]) + 0.3 * draw.normal(size=(2, count))
    return pd.DataFrame({"x": points[0], "y": points[1], "ring": np.where(radius > 1.5, "outer", "inner")}).round(3)


def panel(model: object, points: pd.DataFrame, title: str, left: int) -> str:
    """Return half of the picture: where the model says which ring, and some points."""
    middles = (np.arange(CELLS) + 0.5) * 2 * REACH / CELLS - REACH
    y, x = (axis.ravel() for axis in np.meshgrid(-middles, middles, indexing="ij"))
    said = model.predict(pd.DataFrame({"x": x, "y": y})).reshape(CELLS, CELLS)  # type: ignore[attr-defined]
    side, parts = SIZE / CELLS, [f'<text x="{left}" y="16">{title}</text>']
    for row, line in enumerate(said):
        column = 0
        for name, run in groupby(line):
            length = len(list(run))
            fill = "#cfe2f3" if name == "inner" else "#fbe3c8"
            parts.append(
                f'<rect x="{left + column * side:g}" y="{26 + row * side:g}" width="{length * side:g}" '
                f'height="{side:g}" fill="{fill}"/>'
            )
            column += length
    for a, b, ring in points.itertuples(index=False):
        at = (left + (a + REACH) * SIZE / 2 / REACH, 26 + (REACH - b) * SIZE / 2 / REACH)
        fill = "#1f5f99" if ring == "inner" else "#b35900"
        parts.append(f'<circle cx="{at[0]:.0f}" cy="{at[1]:.0f}" r="2" fill="{fill}"/>')
    return "\n".join(parts)


def main(output: Path) -> None:
    """Run both, print how often they are right, and draw them."""
    draw, panels = np.random.default_rng(0), []
    test = rings(TEST, draw)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        owners = np.arange(PARTIES * ROWS) % PARTIES
        rings(len(owners), draw).assign(party=owners).to_csv(folder / "rings.csv", index=False)
        rings(PUBLIC, draw).assign(ring="").to_csv(folder / "public.csv", index=False)
        for number, features in enumerate(("linear", "products")):
            words = f"{RUN} --features {features} --output {features}".split()
            command = [sys.executable, "-m", "psephos", *words]
            subprocess.run(command, cwd=folder, check=True, capture_output=True)  # noqa: S603 - our own
            model = load_model(folder / features)
            right = (model.predict(test) == test["ring"]).mean()
            print(f"--features {features}: right on {right:.1%} of {TEST} points that no party has")
            panels.append(panel(model, test[:150], f"--features {features}: {right:.0%} right", number * (SIZE + 24)))
    width, height = 2 * SIZE + 24, SIZE + 28
    box, font = f'viewBox="0 0 {width} {height}"', 'font-family="sans-serif" font-size="14"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box} {font} shape-rendering="crispEdges">'
    ground = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    output.write_text("\n".join([head, ground, *panels, "</svg>"]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "rings.svg"))
