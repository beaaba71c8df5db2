"""Terminal output: every kind of result fits, the answer stands first, and details are shown on request."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from psephos.cli.show import show, show_table
from psephos.results.base import Result
from tests.psephos.results.test_report import audits, experiments
from tests.psephos.results.test_results import TALLY

WIDTHS = (80, 120)
WORDS = st.text("abcdefghij", min_size=1, max_size=14)
CELLS = st.lists(WORDS, max_size=6).map(" ".join)


def render(result: Result, width: int, *, verbose: bool) -> str:
    stream = io.StringIO()
    show(result, Console(file=stream, width=width), verbose=verbose)
    return stream.getvalue()


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ["tally", *experiments(), *audits()])
def test_no_line_of_a_result_is_wider_than_the_terminal(kind: str, width: int, verbose: bool) -> None:
    result = ({"tally": TALLY} | experiments() | audits())[kind]
    lines = render(result, width, verbose=verbose).splitlines()
    assert lines
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 8).flatmap(
        lambda columns: st.tuples(
            st.lists(WORDS, min_size=columns, max_size=columns),
            st.lists(st.lists(CELLS, min_size=columns, max_size=columns), min_size=1, max_size=4),
        )
    ),
    st.integers(20, 100),
)
def test_a_table_fits_and_breaks_no_word(table: tuple[list[str], list[list[str]]], width: int) -> None:
    columns, rows = table
    stream = io.StringIO()
    show_table(Console(file=stream, width=width), "", columns, rows)
    text = stream.getvalue()
    assert max(map(len, text.splitlines()), default=0) <= max(width, 2 + 14 + 2 + 14)
    printed = text.replace(":", " ").split()
    for word in (word for row in rows for cell in row for word in cell.split()):
        assert word in printed


def test_markup_in_cells_is_printed_literally() -> None:
    stream = io.StringIO()
    show_table(Console(file=stream, width=80), "", ["class"], [["[red]"]])
    assert "[red]" in stream.getvalue()
