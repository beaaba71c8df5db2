"""Patterns select one place of a function, and the edits of every mutant and planted fault apply.

Run this file after a renaming: it takes seconds and names every edit whose place is gone.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import CodeType
from typing import Any

import pytest

from psephos.protocol.errors import InvalidParameter
from tests.security.lab.breaks import BREAKS
from tests.security.lab.edits import Edit, edited, function_of
from tests.security.lab.mutants import MUTANTS
from tests.security.lab.mutants_proofs import FORGER_EDITS, PROOF_MUTANTS
from tests.security.lab.patterns import find, names_of, substitute
from tests.security.lab.planted import PLANTED

EDITS = {
    **{f"mutant of {m.protocol}: {m.name}": m.edit for m in MUTANTS},
    **{f"proof: {m.name}": m.edit for m in PROOF_MUTANTS},
    **{f"forger: {edit.change[:60]}": edit for edit in FORGER_EDITS},
    **{f"planted: {leak.name}": leak.edit for leak in PLANTED},
    **{f"break of {b.protocol}, {b.check}, {n}": edit for b in BREAKS for n, edit in enumerate(b.edits)},
}
OF_EVERY_ROLE = {"self", "state"}
"""Arguments whose names are the same in every method of a role."""


def local_names(code: CodeType) -> Iterator[str]:
    yield from (*code.co_varnames, *code.co_cellvars)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from local_names(constant)


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edit_applies_and_survives_renamed_variables(edit: Edit) -> None:
    with edited(*edit):
        pass
    function = inspect.unwrap(function_of(edit.owner, edit.function))
    named = names_of(edit.old) | names_of(edit.new)
    assert not (named & set(local_names(function.__code__))) - OF_EVERY_ROLE, "use holes ($name) for local variables"


def replaced(source: str, pattern: str, replacement: str) -> str:
    tree = ast.parse(source)
    substitute(tree, pattern, replacement)
    return ast.unparse(tree)


@pytest.mark.parametrize(
    ("source", "pattern", "replacement", "result"),
    [
        ("a = f(x, y)", "f($first, $second)", "f($second, $first)", "a = f(y, x)"),
        ("a = f(x, y, key=1)", "f($...rest, key=$key)", "f($...rest)", "a = f(x, y)"),
        ("a = f(x, b=1, c=2)", "f(..., c=$c)", "$c", "a = 2"),
        ("a = f(x, b=1)", "f($x, $...rest)", "g($...rest)", "a = g(b=1)"),
        ("a = [x, *y, z]", "[$first, $...rest]", "[$...rest, $first]", "a = [*y, z, x]"),
        ("a = b.c + b.d", "$x.c + $x.d", "$x", "a = b"),
        ("a = b.c + d", "$x.$y + $z", "$z.$y", "a = d.c"),
        ("if a != b:\n    raise E(c)\nd()", "if $test: raise E(...)", "", "pass\nd()"),
        ("if a:\n    f()\n    g()", "if $x:\n    $...body", "$...body", "f()\ng()"),
        ("a = 1\nf(a)\nb = 2\ng(b)", "f($a)\n$b = 2", "$b = $a", "a = 1\nb = a\ng(b)"),
        ("a = f'{b}: {c}'", "f'{$x}: {c}'", "f'{c}: {$x}'", "a = f'{c}: {b}'"),
        ("for i in range(3): pass", "range(3)", "range(2)", "for i in range(2):\n    pass"),
        ("f(1)\ng(True)", "True", "False", "f(1)\ng(False)"),
        ("a = x if y else z", "$a if $b else $a", "$a", None),  # the same hole twice, and other code
        ("a = f(x)", "f($a, $b)", "$a", None),
        ("a = f(x, y=1)", "f($a)", "$a", None),
        ("f(x)\nf(y)", "f($a)", "$a", None),  # twice
        ("f(x)", "f($a)", "$b", None),  # no such hole
        ("f(x)", "f($a)", "return $a", None),  # a statement for an expression
        ("f(x)", "f($a", "$a", None),  # not Python
    ],
)
def test_a_pattern_replaces_one_place_or_raises(
    source: str, pattern: str, replacement: str, result: str | None
) -> None:
    if result is None:
        with pytest.raises(InvalidParameter):
            replaced(source, pattern, replacement)
    else:
        assert replaced(source, pattern, replacement) == ast.unparse(ast.parse(result))


def test_an_ambiguous_or_missing_place_is_named() -> None:
    source = "a = f(x) + f(y)"
    assert len(find(ast.parse(source), "f($a)")) == 2
    with pytest.raises(InvalidParameter, match=r"f\(y\)"):
        replaced(source, "f($a)", "$a")
    with pytest.raises(InvalidParameter, match=r"f\(x\)"):
        replaced(source, "g($a)", "$a")


def test_an_edit_of_a_function_that_is_gone_names_it() -> None:
    def apply(owner: Any) -> None:
        with edited(owner, "no_such_function", "1", "2"):
            pass

    with pytest.raises(InvalidParameter, match="no_such_function"):
        apply(ast)
