"""The pictures of a report that the documentation shows: `python docs/config/screenshots.py REPORT_DIRECTORY`.

The directory is what `psephos simulate tally --report DIRECTORY` wrote. Needs a Chromium and Pillow (which
matplotlib brings); few colours are enough for pages of text and keep the files small.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from chromium import chromium
from PIL import Image

ASSETS = Path(__file__).resolve().parents[1] / "assets"
WIDTH, SCALE = 1100, 1.5

PICTURES = {
    # name: (dark, the element it starts at, the element it ends with)
    "report-light": (False, "h1", "#curves .charts"),
    "report-dark": (True, "#messages h2", "#knowledge .matrix"),
}


def main(report: Path) -> None:
    """Take each picture and write it."""
    with chromium() as browser:
        for name, (dark, first, last) in PICTURES.items():
            browser.open(report / "report.html", width=WIDTH, dark=dark, scale=SCALE)
            place = "document.querySelector({!r}).getBoundingClientRect().{}"
            top, bottom = (
                browser.value(place.format(first, "top")) - 14,
                browser.value(place.format(last, "bottom")) + 14,
            )
            drawn = Image.open(io.BytesIO(browser.picture(0, max(0, top), WIDTH, bottom - max(0, top))))
            few = drawn.convert("RGB").quantize(128, method=Image.Quantize.MAXCOVERAGE)  # which keeps the rare colours
            few.save(ASSETS / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
