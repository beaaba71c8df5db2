"""Every test that accepts a sample is listed with its false-alarm rate, and no rate exceeds 1e-9."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.statistical import BOUNDS, FALSE_ALARM, MOST, P_VALUES

ROOT = Path(__file__).parent.parent


def compared_with(function: ast.AST) -> set[str]:
    """Return the bounds, as source text, that p-values and fits in a function must exceed."""
    bounds = set()
    for node in ast.walk(function):
        if not isinstance(node, ast.Compare):
            continue
        text = ast.unparse(node.comparators[0])
        if isinstance(node.ops[0], ast.Gt) and (text == "FALSE_ALARM" or ast.unparse(node.left).endswith(".pvalue")):
            bounds.add(text)
    return bounds


def functions_of(path: Path) -> dict[str, ast.FunctionDef]:
    """Return the test functions of a file by their identifiers."""
    name = path.relative_to(ROOT).as_posix()
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    return {f"{name}::{function.name}": function for function in functions if function.name.startswith("test_")}


@pytest.fixture(scope="module")
def functions() -> dict[str, ast.FunctionDef]:
    """The functions of all files that are listed, or whose text could compare a p-value."""
    listed = {ROOT / name.partition("::")[0] for name in P_VALUES.keys() | BOUNDS.keys()}
    paths = {path for path in (ROOT / "tests").rglob("test_*.py") if re.search("FALSE_ALARM|pvalue", path.read_text())}
    return {name: node for path in sorted(listed | paths) for name, node in functions_of(path).items()}


def test_every_goodness_of_fit_test_is_listed(functions: dict[str, ast.FunctionDef]) -> None:
    bounds = {name: compared_with(function) for name, function in functions.items()}
    assert {name for name, texts in bounds.items() if texts} == P_VALUES.keys()
    assert set().union(*bounds.values()) == {"FALSE_ALARM"}, "p-values are compared with the shared level only"


def test_every_listed_test_exists(functions: dict[str, ast.FunctionDef]) -> None:
    assert P_VALUES.keys() | BOUNDS.keys() <= functions.keys()


def test_no_rate_exceeds_1e_9() -> None:
    rates = {name: P_VALUES.get(name, 0) * FALSE_ALARM + BOUNDS.get(name, 0.0) for name in P_VALUES.keys() | BOUNDS}
    assert max(rates.values()) <= MOST


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("assert kstest(x, 'norm').pvalue > 1e-6", {"1e-06"}),
        ("assert fit(draws) > FALSE_ALARM", {"FALSE_ALARM"}),
        ("assert kstest(x, 'norm').pvalue < FALSE_ALARM", set()),
    ],
)
def test_comparisons_of_p_values_are_recognised(source: str, expected: set[str]) -> None:
    assert compared_with(ast.parse(source)) == expected
