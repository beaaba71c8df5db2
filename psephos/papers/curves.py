"""Figures of `psephos reproduce`: accuracy or error against epsilon, or against the parties. Needs the extra `report`.

Each function takes what the experiment returned and a directory, made if it is not there, and returns the paths.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from psephos.protocol.errors import InvalidParameter

__all__ = ["draw_hamm", "draw_pathak", "draw_rajkumar"]

_MARKS = "os^Dv<>P*X"


def _new_figure(columns: int) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InvalidParameter(
            "figures need the extra `report` (from a clone: pip install -e '.[report]'); or leave --figures out"
        ) from error
    return Figure(figsize=(4.6 * columns, 3.9), layout="constrained")


def _save(figure: Any, directory: Path, name: str) -> str:
    import matplotlib as mpl

    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.svg"
    # Drawn twice, the same bytes.
    with mpl.rc_context({"svg.hashsalt": "psephos", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})
    figure.savefig(path.with_suffix(".png"), dpi=150)
    return str(path)


_COLOURS = {"vote": "tab:green", "soft": "tab:red", "avg": "tab:blue", "statistic": "tab:purple", "pate": "tab:brown"}
_FAMILIES = {
    "stated": "the density the paper states: noise norm Gamma(D, b)",
    "exponential": "noise norm Gamma(1, b): NOT epsilon-private",
    "ours": "certified bounds and public rules",
}


def draw_hamm(result: dict[str, Any], directory: Path) -> list[str]:
    """Hamm 2016, Figures 2 to 4: accuracy against 1/epsilon, a figure a family of curves, a panel for each M.

    Args:
        result: what `psephos.papers.hamm` returned.
        directory: made if need be; the figures go there as SVG and PNG.

    Returns the paths of the SVG files. Raises InvalidParameter where matplotlib is not installed.
    """
    panels, axis = result["panels"], result["inverse_epsilons"]
    places = [np.log10(axis[1]) - 0.7, *(np.log10(point) for point in axis[1:])]  # 0 has a place of its own
    whole = [at for at, point in enumerate(axis) if point == 0 or np.log10(point) % 1 == 0]
    name = f"{result['experiment']}{' (SYNTHETIC STAND-IN)' if result['stand_in'] else ''}"
    paths = []
    for family, title in _FAMILIES.items():
        figure = _new_figure(len(panels))
        for place, panel in enumerate(panels):
            axes = figure.add_subplot(1, len(panels), place + 1)
            for baseline, style in (("batch", "-"), ("indiv", "--")):
                axes.axhline(panel[baseline]["mean"], linestyle=style, color="k", linewidth=1, label=baseline)
            for method, points in panel["curves"][family].items():
                # statistic and pate have no point without noise here.
                zero = [panel["nonprivate"][method]] if method in panel["nonprivate"] else []
                line = [*zero, *points]
                axes.errorbar(
                    places[-len(line) :],
                    [point["mean"] for point in line],
                    yerr=[point["std"] for point in line],
                    label=method,
                    color=_COLOURS[method],
                    marker="o",
                    markersize=3,
                    capsize=2,
                )
            axes.set_xticks([places[at] for at in whole], [f"{axis[at]:g}" for at in whole])
            axes.set(xlabel="Privacy (1/eps)", ylabel="Accuracy", title=f"M={panel['parties']}")
            axes.legend(fontsize=7)
        figure.suptitle(f"{name}: {title}", fontsize=10)
        paths.append(_save(figure, directory, f"{result['experiment']}-{family}"))
    return paths


def draw_pathak(result: dict[str, Any], directory: Path) -> list[str]:
    """Pathak 2010, Figure 2: test error against epsilon for each split, with error bars, one panel a setting.

    Args:
        result: what `psephos.papers.pathak` returned.
        directory: made if need be; the figures go there as SVG and PNG.

    Returns the paths of the SVG files. Raises InvalidParameter where matplotlib is not installed.
    """
    figure = _new_figure(len(result["settings"]))
    for place, setting in enumerate(result["settings"]):
        axes = figure.add_subplot(1, len(result["settings"]), place + 1)
        names = list(dict.fromkeys(point["series"] for point in setting["points"]))
        for number, name in enumerate(names):
            points = [point for point in setting["points"] if point["series"] == name]
            axes.errorbar(
                [point["epsilon"] for point in points],
                [point["error"] for point in points],
                yerr=[point["std"] for point in points],
                marker=_MARKS[number % len(_MARKS)],
                capsize=2,
                linewidth=1,
                label=name,
            )
        axes.axhline(setting["pooled_error"], color="k", linewidth=1, label="pooled, no noise")
        axes.axhline(result["majority_error"], color="k", linestyle=":", linewidth=1, label="always the majority")
        axes.set(xscale="log", xlabel="epsilon", ylabel="test error", title=setting["name"])
        if place == 0:
            axes.legend(fontsize="small")
    return [_save(figure, directory, "pathak-adult")]


def draw_rajkumar(result: dict[str, Any], directory: Path) -> list[str]:
    """Rajkumar 2012, Figures 1 and 2: test error against the number of parties, and against the skew.

    Args:
        result: what `psephos.papers.rajkumar` returned.
        directory: made if need be; the figures go there as SVG and PNG.

    Returns the paths of the SVG files. Raises InvalidParameter where matplotlib is not installed.
    """
    rows = result["rows"]
    settings = list(dict.fromkeys((row["panel"], row["lambda"], row["epsilon"]) for row in rows))
    methods = [name for name in rows[0] if isinstance(rows[0][name], dict)]
    paths = []
    for panel in dict.fromkeys(row["panel"] for row in rows):
        chosen = [setting for setting in settings if setting[0] == panel]
        figure = _new_figure(len(chosen))
        for place, setting in enumerate(chosen):
            axes = figure.add_subplot(1, len(chosen), place + 1)
            points = [row for row in rows if (row["panel"], row["lambda"], row["epsilon"]) == setting]
            for number, name in enumerate(methods):
                axes.errorbar(
                    [str(row["place"]) for row in points],
                    [row[name]["mean"] for row in points],
                    yerr=[row[name]["std"] for row in points],
                    marker=_MARKS[number % len(_MARKS)],
                    capsize=2,
                    linewidth=1,
                    label=name.replace("_", " "),
                )
            axes.set(xlabel=panel, ylabel="test error", title=f"lambda = {setting[1]:g}, epsilon = {setting[2]:g}")
            if place == 0:
                axes.legend(fontsize="x-small")
        paths.append(_save(figure, directory, f"{result['experiment']}-{panel}"))
    return paths
