"""Print a result on a terminal: the answer first, then one table; everything else only on request."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from psephos.audit.matrix import HIDDEN, REVEALED
from psephos.protocol.foreign import printable
from psephos.results.base import METHODS, AuditedCell, Matrix, Page, Panel, Result, shown, with_deviation

GAP = 2
"""Spaces between two columns of a table."""

_PREFIXES = {"warning": "WARNING: ", "deviation": "Not as agreed: "}
_STYLES = {"notice": "bold red", "warning": "bold red", "answer": "bold", "deviation": "bold red"}


def show(
    result: Result,
    console: Console | None = None,
    *,
    verbose: bool = False,
    printed_before: Collection[str] = (),
) -> None:
    """Print a result; the notice and warnings come first."""
    console, page = Console() if console is None else console, result.page()

    def say(text: str, style: str | None = None) -> None:
        console.print(printable(text, lines=True), highlight=False, markup=False, style=style)

    costs = ["cost"] * (verbose or not page.text("answer") or page.several_releases)
    for topic in ("notice", "warning", "answer", "advice", *costs, "condition", "deviation"):
        for text in page.texts(topic):
            if topic != "warning" or text not in printed_before:
                say(_PREFIXES.get(topic, "") + text, _STYLES.get(topic))
    _show_accuracies(page, console, verbose=verbose)
    for panel in page.panels if verbose or not page.accuracies else page.panels[:1]:
        # The note of a figure repeats the cost, for readers of the figure alone.
        note = panel.note.replace(f". {page.cost.rstrip('.')}", "") if page.several_releases else panel.note
        _show_panel(replace(panel, note=note), console)
    for matrix in page.matrices:
        _show_matrix(matrix, console, verbose=verbose)
    for table in page.tables:
        if verbose or not table.detail:
            show_table(console, table.title, table.columns, table.rows, table.about)
    if page.accuracies and not verbose:
        return
    _show_phases(result, console)
    for text in (*page.texts("fact"), *page.texts("note")):
        say(text)
    if result.phases:
        times = ", ".join(f"{name} {value:.1f}" for name, value in result.seconds.items() if value is not None)
        say(f"seconds: {times}")


def show_table(
    console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], caption: str = ""
) -> None:
    """Print a table that fits the console without breaking words.

    If the table is too wide, text columns are wrapped between words. If that is not enough, each row becomes a
    paragraph with a line for each column.
    """
    if not rows:
        return
    title, caption = printable(title, lines=True), printable(caption, lines=True)
    columns = [printable(name, lines=True) for name in columns]
    cells = [[printable(shown(value), lines=True) for value in row] for row in rows]
    if title:
        console.print(Text(title, style="bold"))
    widths = _column_widths([list(columns), *cells], console.width)
    if widths is None:
        _print_records(console, columns, cells)
    else:
        grid = Grid(box=SIMPLE_HEAD, show_edge=False, padding=(0, GAP - 1, 0, 0), pad_edge=False)
        for place, (heading, width) in enumerate(zip(columns, widths, strict=True)):
            numbers = place > 0 and all(
                re.match(r"[\d+<-]|$", row[place]) for row in cells
            )  # or "0.90 ± 0.01", or none
            grid.add_column(Text(heading), justify="right" if numbers else "left", width=width)
        for row in cells:
            grid.add_row(*map(Text, row))
        console.print(grid)
    if caption:
        console.print(caption, highlight=False, markup=False)


def alpha_lines(counts: NDArray[np.int64] | None, class_names: Sequence[str], samples: int = 3) -> list[str]:
    """Return lines that show alpha as the curator sees it: counts (N, K) of the first samples; none were opened: []."""
    if counts is None:
        return []
    lines = [f"alpha as the curator sees it, {samples} of {len(counts)} public samples (do not publish):"]
    for number, row in enumerate(counts[:samples].tolist()):
        votes = ", ".join(f"{name} {count}" for name, count in zip(class_names, row, strict=True) if count)
        lines.append(f"  sample {number}: {votes}")
    return lines


def _column_widths(rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Return the width of each column so that the table fits; None if words would have to be broken."""
    columns = list(zip(*rows, strict=True))
    natural = [max(len(line) for cell in column for line in (cell.splitlines() or [""])) for column in columns]
    least = [max(len(word) for cell in column for word in (cell.split() or [""])) for column in columns]
    space = width - GAP * (len(columns) - 1)
    if sum(natural) <= space:
        return natural
    if sum(least) > space:
        return None
    widths = least
    while (left := space - sum(widths)) > 0:
        short = [place for place, size in enumerate(widths) if size < natural[place]]
        for place in short[:left]:
            widths[place] += 1
    return widths


def _print_records(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for first, *rest in rows:
        console.print(Text(first, style="bold"))
        for heading, value in zip(columns[1:], rest, strict=True):
            if value:
                console.print(Text(f"  {heading}: {value}"))


def _cell(cell: AuditedCell) -> str:
    return str(cell.verdict) + ("" if cell.expected in (None, cell.verdict) else " (UNEXPECTED)")


def _show_matrix(matrix: Matrix, console: Console, *, verbose: bool) -> None:
    if verbose:
        rows = [[name, *map(_cell, cells)] for name, _, cells in matrix.rows]
        show_table(console, matrix.name, ["coalition", *matrix.secrets], rows)
    else:
        rows = [[name, _learned(matrix.secrets, cells)] for name, _, cells in matrix.rows]
        show_table(console, matrix.name, ["coalition", "learns (by design unless marked)"], rows)


def _learned(secrets: Sequence[str], cells: Sequence[AuditedCell]) -> str:
    """Return the secrets that a coalition learns, grouped by verdict; unexpected verdicts are marked."""
    groups: dict[str, list[str]] = {}
    for secret, cell in zip(secrets, cells, strict=True):
        verdict = _cell(cell)
        if verdict != HIDDEN:
            groups.setdefault(verdict, []).append(secret)
    parts = [("" if verdict == REVEALED else f"{verdict}: ") + ", ".join(names) for verdict, names in groups.items()]
    return "; ".join(parts) or "nothing"


def _show_accuracies(page: Page, console: Console, *, verbose: bool) -> None:
    rows = []
    for name, accuracy in page.accuracies.items():
        sensitivity = page.releases[name].sensitivity if name in page.releases else None
        row = [
            name,
            METHODS.get(name, ""),
            with_deviation(accuracy.nonprivate),
            with_deviation(accuracy.private, accuracy.private_std),
            with_deviation(accuracy.balanced, accuracy.balanced_std),
            "" if sensitivity is None else f"{sensitivity:.3g}",
        ]
        rows.append(row if verbose else row[:4])
    columns = ["accuracy", "", "not private", "private", "balanced", "sensitivity"]
    show_table(console, page.title, columns if verbose else columns[:4], rows)


def _show_panel(panel: Panel, console: Console) -> None:
    """Print a panel as a table: with a row for each method if there are few points, otherwise a column for each."""
    points = sorted({x for curve in panel.curves for x in curve.x})
    cells = [
        [f"{curve.mean[curve.x.index(x)]:.3f}" + ("" if curve.std is None else f"±{curve.std[curve.x.index(x)]:.3f}")
         if x in curve.x else "" for x in points]
        for curve in panel.curves
    ]  # fmt: skip
    title = f"{panel.title}: {panel.y_label}" if panel.title else panel.y_label
    rows = [[curve.algorithm.replace("_", " "), *line] for curve, line in zip(panel.curves, cells, strict=True)]
    heading = panel.x_label.partition(" (")[0]
    if len(points) <= 4:
        show_table(console, title, [heading, *(f"{x:g}" for x in points)], rows, panel.note)
        return
    columns = [heading, *(row[0] for row in rows)]
    turned = [[f"{x:g}", *(line[n].partition("±")[0] for line in cells)] for n, x in enumerate(points)]
    show_table(console, title, columns, turned, panel.note)


def _show_phases(result: Result, console: Console) -> None:
    rows = [
        [name, phase.seconds, phase.bytes, phase.messages]
        for name, phase in result.phases.items()
        if phase.messages is not None
    ]
    show_table(console, "Phases", ["phase", "seconds", "bytes", "messages"], rows)
