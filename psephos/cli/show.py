"""Print a result on a terminal: its page as tables and lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from psephos.results import METHODS, Result
from psephos.results.base import Page, Panel

__all__ = ["show"]


def show(result: Result, console: Console | None = None) -> None:
    """Print a result to standard output, or to `console`; the notice and warnings come first."""
    console, page = Console() if console is None else console, result.page()

    def say(text: str, style: str | None = None) -> None:
        console.print(text, highlight=False, markup=False, style=style)

    if page.notice:
        say(page.notice, "bold red")
    for text in page.warnings:
        say(f"WARNING: {text}", "bold red")
    if page.answer:
        say(page.answer, "bold")
    if page.cost:
        say(page.cost)
    grids = [_accuracies(page), *map(_panel, page.panels), _comparison(page)]
    for matrix in page.matrices:
        rows = [[name, *map(_cell, cells)] for name, _, cells in matrix.rows]
        grids.append(_lay(matrix.name, ["coalition", *matrix.secrets], rows))
    grids += [*(_lay(table.title, table.columns, table.rows) for table in page.tables), _phases(result)]
    for grid in grids:
        if grid.row_count:
            console.print(grid)
    for text in dict.fromkeys(f"{table.title.split(' at ')[0]}: {table.about}" for table in page.tables if table.about):
        say(text)
    for words, *pieces in page.facts:
        say(f"{words}: {''.join(piece if isinstance(piece, str) else _text(piece) for piece in pieces)}")
    for text in page.notes:
        say(text)
    if result.phases:
        times = ", ".join(f"{name} {value:.1f}" for name, value in result.seconds.items() if value is not None)
        say(f"seconds: {times}")


def _text(value: Any) -> str:
    """Return a value as people read it: numbers are rounded."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _lay(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], caption: str | None = None) -> Grid:
    grid = Grid(title=title or None, caption=caption)
    for place, heading in enumerate(columns):
        grid.add_column(heading, justify="right" if place else "left", overflow="fold")
    for row in rows:
        grid.add_row(*map(_text, row))
    return grid


def _cell(cell: Any) -> str:
    return str(cell.verdict) + ("" if cell.expected in (None, cell.verdict) else " (UNEXPECTED)")


def _accuracies(page: Page) -> Grid:
    released = page.releases
    rows = []
    balanced = any(found.balanced is not None for found in page.accuracies.values())
    for name, found in page.accuracies.items():
        words = f"{name} ({METHODS[name]})" if name in METHODS else name
        private = "" if found.private is None else f"{found.private:.3f}"
        spread = "" if found.private_std is None else f" ± {found.private_std:.3f}"
        size = released[name].sensitivity if name in released else None
        bare = "" if found.nonprivate is None else f"{found.nonprivate:.3f}"
        even = []
        if balanced:
            wide = "" if found.balanced_std is None else f" ± {found.balanced_std:.3f}"
            even = ["" if found.balanced is None else f"{found.balanced:.3f}{wide}"]
        rows.append([words, bare, private + spread, *even, "" if size is None else f"{size:.3g}"])
    columns = ["accuracy", "not private", "private", *(["balanced"] if balanced else []), "sensitivity"]
    return _lay(page.title, columns, rows)


def _panel(panel: Panel) -> Grid:
    """Return a panel as a table: with a row for each method if there are few points, otherwise a column for each."""
    points = sorted({x for curve in panel.curves for x in curve.x})
    cells = [
        [f"{curve.mean[curve.x.index(x)]:.3f}" + ("" if curve.std is None else f"±{curve.std[curve.x.index(x)]:.3f}")
         if x in curve.x else "" for x in points]
        for curve in panel.curves
    ]  # fmt: skip
    title = f"{panel.title}: {panel.y_label}" if panel.title else panel.y_label
    rows = [[curve.algorithm.replace("_", " "), *line] for curve, line in zip(panel.curves, cells, strict=True)]
    if len(points) <= 4:
        return _lay(title, [panel.x_label.partition(" (")[0], *(f"{x:g}" for x in points)], rows, panel.note or None)
    columns = [panel.x_label.partition(" (")[0], *(row[0] for row in rows)]
    turned = [[f"{x:g}", *(line[n].partition("±")[0] for line in cells)] for n, x in enumerate(points)]
    return _lay(title, columns, turned, panel.note or None)


def _comparison(page: Page) -> Grid:
    rows = [[row.quantity, row.paper, row.ours, row.verdict, row.why] for row in page.comparison]
    return _lay("Beside the paper", ["what", "paper", "here", "verdict", "why"], rows)


def _phases(result: Result) -> Grid:
    """Return the phases whose traffic was counted."""
    rows = [
        [name, phase.seconds, phase.bytes, phase.messages]
        for name, phase in result.phases.items()
        if phase.messages is not None
    ]
    return _lay("Phases", ["phase", "seconds", "bytes", "messages"], rows)
