"""The results of `psephos reproduce`, as panels of curves and rows beside the paper's: each experiment says it its way.

A result may also carry "curves" (and "comparison") in the report's own words; see `Panel` and `compared`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Curve", "Panel", "Score", "compared", "panels", "scores", "tables"]


@dataclass(frozen=True)
class Curve:
    """One algorithm's line: `x`, `mean` and, where it was measured, `std` have the same length."""

    algorithm: str
    x: tuple[float, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Panel:
    """One picture. `log`: whether x is drawn on a logarithmic scale. `note`: what a reader must know about it."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    log: bool = True
    note: str = ""


@dataclass(frozen=True)
class Score:
    """One algorithm's accuracy: without noise, private, and the private one's standard deviation over draws."""

    name: str
    nonprivate: float | None = None
    private: float | None = None
    std: float | None = None


_PRIVATE = {"private", "psgd"}
"""What the runs of Pathak and of Rajkumar call the accuracy of what they release."""


def scores(result: Mapping[str, Any]) -> list[Score]:
    """A run's "accuracy", in its order."""
    found = []
    for name, value in (result.get("accuracy") or {}).items():
        if name.endswith("_rows"):
            continue
        if isinstance(value, dict):
            found.append(Score(name, value.get("nonprivate"), value.get("private"), value.get("private_std")))
        else:
            found.append(Score(name, private=value) if name in _PRIVATE else Score(name, value))
    return found


def panels(result: Mapping[str, Any]) -> list[Panel]:
    """Every panel that the result has the numbers for, in its own order."""
    return [*_own(result), *_hamm(result), *_pathak(result), *_rajkumar(result)]


def compared(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of quantity, paper, ours, verdict, why: from "comparison", or from Hamm's "published"."""
    rows = [{"why": "", **row} for row in result.get("comparison") or []]
    for row in result.get("published") or []:
        family = row.get("family", "none")
        rows.append(
            {
                "quantity": row["what"] if family == "none" else f"{row['what']} ({family})",
                "paper": row["paper"],
                "ours": row["ours"],
                "verdict": "reproduces" if row["reproduces"] else "does not reproduce",
                "why": row.get("why", ""),
            }
        )
    return rows


def tables(result: Mapping[str, Any]) -> list[tuple[str, list[str], list[list[Any]]]]:
    """What else is a table: (title, columns, rows), of an audit of mechanisms and of Pathak's stages."""
    found = []
    for key, title in (("mechanisms", "Audited mechanisms"), ("stages", "Stages")):
        value = result.get(key)
        if isinstance(value, dict):
            value = [{"name": name, **entry} for name, entry in value.items()]
        if value:
            columns = list(dict.fromkeys(name for entry in value for name in entry))
            found.append((title, columns, [[entry.get(name) for name in columns] for entry in value]))
    return found


def _curve(algorithm: str, x: Sequence[float], points: Sequence[Mapping[str, float]], mean: str = "mean") -> Curve:
    std = tuple(point["std"] for point in points) if points and "std" in points[0] else None
    return Curve(algorithm, tuple(x), tuple(point[mean] for point in points), std)


def _own(result: Mapping[str, Any]) -> Iterator[Panel]:
    grouped: dict[str, list[Curve]] = {}
    for curve in result.get("curves") or []:
        std = curve.get("std")
        made = Curve(curve["algorithm"], tuple(curve["epsilon"]), tuple(curve["mean"]), std and tuple(std))
        grouped.setdefault(str(curve.get("panel", "")), []).append(made)
    for title, curves in grouped.items():
        yield Panel(title, "epsilon (log scale; more private to the left)", "accuracy", tuple(curves))


def _hamm(result: Mapping[str, Any]) -> Iterator[Panel]:
    for panel in result.get("panels") or []:
        families = result.get("families", {})
        for family, methods in panel["curves"].items():
            drawn = []
            for name, points in methods.items():
                x = result["inverse_epsilons"][-len(points) :]
                drawn.append(_curve(name, x, points))
            for name in ("batch", "indiv"):
                drawn.append(_curve(name, x, [panel[name]] * len(x)))
            yield Panel(
                f"{panel['parties']:,} parties, {family}",
                "1/epsilon (log scale; more private to the right)",
                "accuracy",
                tuple(drawn),
                note=str(families.get(family, "")),
            )


def _pathak(result: Mapping[str, Any]) -> Iterator[Panel]:
    settings = result.get("settings")
    for setting in settings if isinstance(settings, list) else ():
        grouped: dict[str, list[Mapping[str, float]]] = {}
        for point in setting["points"]:
            grouped.setdefault(point["series"], []).append(point)
        drawn = [_curve(name, [p["epsilon"] for p in points], points, "error") for name, points in grouped.items()]
        yield Panel(setting["name"], "epsilon (log scale; more private to the left)", "test error", tuple(drawn))


def _rajkumar(result: Mapping[str, Any]) -> Iterator[Panel]:
    grouped: dict[tuple[str, float, float], list[Mapping[str, Any]]] = {}
    for row in result.get("rows") or []:
        grouped.setdefault((row["panel"], row["lambda"], row["epsilon"]), []).append(row)
    for (panel, lam, epsilon), rows in grouped.items():
        methods = [name for name, value in rows[0].items() if isinstance(value, dict)]
        drawn = [_curve(name, [row["place"] for row in rows], [row[name] for row in rows]) for name in methods]
        label = "parties" if panel == "parties" else f"{panel} (see the settings)"
        yield Panel(f"lambda = {lam:g}, epsilon = {epsilon:g}, {panel}", label, "test error", tuple(drawn), log=False)
