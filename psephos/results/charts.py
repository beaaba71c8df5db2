"""Draws the report's figures as files and as inline SVG; the same document gives the same bytes."""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from psephos.results.base import ALPHA_NOTICE, Accuracy, Alpha, Panel
from psephos.results.document import Document
from psephos.results.html import LIGHT

_WIDTH = 400 / 72  # inches

BARS = 3
"""Most curves that are drawn with their standard deviations; the error bars of more would hide the curves."""

_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "text.parse_math": False,
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "legend.fontsize": 11,
    "svg.fonttype": "none",
    "svg.hashsalt": "psephos",
    "text.color": LIGHT["ink"],
    "axes.labelcolor": LIGHT["ink"],
    "axes.edgecolor": LIGHT["rule"],
    "axes.linewidth": 1.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": LIGHT["rule"],
    "ytick.color": LIGHT["rule"],
    "xtick.labelcolor": LIGHT["ink"],
    "ytick.labelcolor": LIGHT["ink"],
    "grid.color": LIGHT["faint"],
    "figure.facecolor": LIGHT["paper"],
    "axes.facecolor": LIGHT["paper"],
    "axes.axisbelow": True,
    "figure.constrained_layout.use": True,
    "lines.linewidth": 1.8,
    "lines.markersize": 7,
    "hatch.linewidth": 0.8,
}

# Colour, marker and dash of each algorithm, the same in every figure.
_LOOKS: Mapping[str, tuple[str, str, str]] = {
    "batch": ("ink", "s", "-"),
    "indiv": ("quiet", "v", ":"),
    "ensemble": ("rose", "p", "-."),
    "vote": ("orange", "^", "--"),
    "soft": ("blue", "o", "-"),
    "avg": ("green", "D", "-."),
    "statistic": ("violet", "P", "-"),
    "pate": ("olive", "X", "--"),
    "own-data": ("green", "d", "-"),
    "whitened": ("olive", "*", "-"),
    "vote-directions": ("rose", "<", "-"),
    "public": ("olive", "h", ":"),
    "least squares": ("ink", "s", "-"),
}
_COLOURS = ("blue", "orange", "green", "violet", "rose", "olive", "ink")
_MARKERS = ("<", ">", "X", "*", "d", "P", "o", "^", "s", "D", "v")
_DASHES = ("-", "--", "-.", ":")


@dataclass(frozen=True)
class RenderedFigure:
    """One figure: an SVG and a PNG file on a white background, and the inline markup for the page."""

    svg: bytes = field(repr=False)
    png: bytes = field(repr=False)
    inline: Markup = field(repr=False)


def style_of(algorithm: str, place: int = 0) -> tuple[str, str, str]:
    """Return palette colour, marker and dash of an algorithm; `place` distinguishes up to 77 without fixed ones."""
    other = (_COLOURS[place % 7], _MARKERS[place % 11], _DASHES[place % 4])
    return _LOOKS.get(algorithm, other)


def draw_figures(document: Document) -> dict[str, RenderedFigure]:
    """Return every figure for which the document has the numbers, by name."""
    page = document.result.page()
    figures = {f"panel-{n}": draw(panel, f"panel-{n}") for n, panel in enumerate(page.panels, 1)}
    if page.accuracies:
        figures["accuracy"] = _draw("accuracy", "Accuracy of each algorithm", partial(_accuracy, page.accuracies))
    if page.histogram is not None:
        figures["alpha"] = _draw("alpha", "How united the votes were", partial(_alpha, page.histogram))
    return figures


def draw(panel: Panel, name: str) -> RenderedFigure:
    """Return the figure of a panel; `name`: the prefix of the ids in the inline markup."""
    return _draw(name, panel.title or "Accuracy against epsilon", partial(_curves, panel))


def figure_of(panel: Panel, labels: Mapping[str, str]) -> Figure:
    """Return a panel as a figure that stands alone: with all deviations, and `labels` of methods in its legend."""
    with matplotlib.rc_context(_STYLE):
        return _curves(panel, labels)


def _axes(height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(_WIDTH, height / 72))
    return figure, figure.subplots()


def _accuracy(rows: Mapping[str, Accuracy]) -> Figure:
    """Draw a row for each algorithm: a hollow marker without noise, a filled one with it, and both values as text."""
    figure, axes = _axes(78 + 34 * len(rows))
    values = []
    for place, (name, row) in enumerate(rows.items()):
        colour, marker, _ = style_of(name, place)
        ink = LIGHT[colour]
        y = len(rows) - place
        clear, private, spread = row.nonprivate, row.private, row.private_std
        if clear is not None and private is not None:
            axes.plot([clear, private], [y, y], color=LIGHT["rule"], linewidth=1)
        if clear is not None:
            axes.plot([clear], [y], marker, color=ink, markerfacecolor=LIGHT["paper"], markeredgewidth=1.8)
        if private is not None:
            axes.errorbar([private], [y], xerr=None if spread is None else [spread], fmt=marker, color=ink, capsize=4)
        signed = ((private, " private"), (clear, ""))
        values.append(", ".join(f"{value:.3f}{sign}" for value, sign in signed if value is not None))
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(len(rows), 0, -1), values)
    right.tick_params(axis="y", length=0, labelcolor=LIGHT["quiet"])
    right.spines["right"].set_visible(False)
    axes.set_yticks(range(len(rows), 0, -1), list(rows))
    axes.set_ylim(0.5, len(rows) + 0.5)
    axes.set_xlim(0, 1.02)
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("accuracy on the test set\nhollow: without noise; filled: private")
    return figure


def _curves(panel: Panel, labels: Mapping[str, str] | None = None) -> Figure:
    entries, columns = len(panel.curves) + len(panel.levels), 2 if labels is None else 1
    named = labels or {}
    figure, axes = _axes(330 + 18 * (-(-entries // 3) if columns == 2 else entries))
    tops: list[float] = []
    lows: list[float] = []
    values = sorted({x for curve in panel.curves for x in curve.x})
    for place, curve in enumerate(panel.curves):
        colour, marker, dash = style_of(curve.algorithm, place)
        ink = LIGHT[colour]
        tops += curve.mean
        lows += curve.mean
        side = (place / (len(panel.curves) - 1) if len(panel.curves) > 1 else 0.5) - 0.5
        x = _beside(curve.x, values, side, log=panel.log)
        axes.plot(
            x, curve.mean, marker=marker, linestyle=dash, color=ink, label=named.get(curve.algorithm, curve.algorithm)
        )
        if curve.std is not None and (labels is not None or len(panel.curves) <= BARS):
            low = [m - s for m, s in zip(curve.mean, curve.std, strict=True)]
            high = [m + s for m, s in zip(curve.mean, curve.std, strict=True)]
            tops += high
            lows += low
            axes.errorbar(x, curve.mean, yerr=curve.std, fmt="none", color=ink, ecolor=ink, elinewidth=1, capsize=2.5)
    for place, (name, level) in enumerate(panel.levels.items(), len(panel.curves)):
        colour, _, dash = style_of(name, place)
        axes.axhline(level, color=LIGHT[colour], linestyle=dash, linewidth=1.2, label=named.get(name, name))
        lows.append(level)
    if panel.log:
        axes.set_xscale("log")
    every = -(-len(values) // 6)
    axes.set_xticks(values[::every], [f"{x:g}" for x in values[::every]])
    axes.minorticks_off()
    if "accuracy" in panel.y_label:
        axes.set_ylim(max(0.0, math.floor(10 * min(lows)) / 10), 1.02)
    elif labels is None:
        axes.set_ylim(0, min(1.02, 1.03 * max([0.5, *tops])))
    axes.grid()
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    if panel.title:
        axes.set_title(textwrap.fill(panel.title, 48))
    figure.legend(loc="outside lower center", ncols=columns, frameon=False, handlelength=3.2, columnspacing=1.2)
    return figure


def _beside(x: Sequence[float], values: Sequence[float], place: float, *, log: bool) -> list[float]:
    """Return `x` shifted a little to one side, so that curves that agree do not hide each other."""
    if len(values) < 2 or (log and values[0] <= 0):
        return list(x)
    if log:
        return [math.exp(at) for at in _beside([*map(math.log, x)], [*map(math.log, values)], 1.2 * place, log=False)]
    least = min(b - a for a, b in pairwise(values))
    return [at + 0.25 * least * place for at in x]


def _alpha(alpha: Alpha) -> Figure:
    figure, axes = _axes(250)
    edges = alpha.share_edges
    width, violet = edges[1] - edges[0], LIGHT["violet"]
    axes.bar(edges[:-1], alpha.samples_per_share, width, align="edge", color=violet, edgecolor=LIGHT["paper"])
    axes.set_xlim(0, 1)
    axes.grid(axis="y")
    axes.set_xlabel("share of the votes for the winning class")
    axes.set_ylabel("auxiliary samples")
    axes.set_title(ALPHA_NOTICE.replace(": ", ":\n"))
    return figure


def _draw(name: str, title: str, make: Callable[[], Figure]) -> RenderedFigure:
    svg, png = io.StringIO(), io.BytesIO()
    with matplotlib.rc_context(_STYLE):
        figure = make()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None, "Title": title})
        figure.savefig(png, format="png", dpi=216, metadata={"Software": None, "Title": title})
    text = svg.getvalue()
    return RenderedFigure(text.encode(), png.getvalue(), _inline(name, title, text))


def _inline(name: str, title: str, svg: str) -> Markup:
    """Return an SVG as markup for the page: with ids of its own, a text alternative, and variables as colours."""
    opening, body = svg[svg.index("<svg") :].split(">", 1)
    for part in (r"<metadata>.*?</metadata>", r"<!--.*?-->", r"<title>.*?</title>"):
        body = re.sub(part, "", body, flags=re.S)
    body = re.sub(r'id="([^"]+)"', rf'id="{name}-\1"', body)
    body = re.sub(r'(href="|url\()#', rf"\1#{name}-", body)
    for colour, value in LIGHT.items():
        body = re.sub(value, f"var(--{colour})", body, flags=re.I)
    box = opening.split('viewBox="')[1].split('"')[0]
    start = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="{}" '
        'class="figure" role="img" aria-labelledby="{}-title"><title id="{}-title">{}</title>'
    ).format(box, name, name, title)
    return start + Markup(body)  # noqa: S704 - matplotlib escapes every text of the figure
