"""Every test that accepts a sample states its false-alarm rate, and no rate exceeds 1e-9."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.statistical import BOUNDS, FALSE_ALARM, MOST

ROOT = Path(__file__).parent.parent


def compared_with(source: str) -> set[str]:
    """Return the bounds, as source text, that p-values and fits in a module must exceed."""
    compared = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Compare)]
    bounds = {
        (ast.unparse(node.left), ast.unparse(node.comparators[0]))
        for node in compared
        if isinstance(node.ops[0], ast.Gt)
    }
    return {bound for left, bound in bounds if bound == "FALSE_ALARM" or left.endswith(".pvalue")}


def test_every_goodness_of_fit_test_has_the_shared_level() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    fitting = [text for path, text in texts.items() if re.search("FALSE_ALARM|pvalue", text) and path != Path(__file__)]
    bounds = [compared_with(text) for text in fitting]
    assert len(bounds) > 5
    assert set().union(*bounds) == {"FALSE_ALARM"}


def test_every_other_rate_belongs_to_a_test() -> None:
    for name in BOUNDS:
        path, function = name.split("::")
        assert f"def {function}(" in (ROOT / path).read_text(encoding="utf-8"), name


def test_no_rate_exceeds_1e_9() -> None:
    assert max(100 * FALSE_ALARM, *BOUNDS.values()) <= MOST * (1 + 1e-9)
