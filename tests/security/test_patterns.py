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
from tests.security.lab.patterns import names_of, substitute
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


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        ("f($a)", "$a"),  # twice
        ("g($a)", "$a"),  # nowhere
        ("f(x)", "$b"),  # no such hole
        ("f(x)", "return $a"),  # a statement for an expression
        ("f(x", "$a"),  # not Python
    ],
)
def test_an_ambiguous_or_missing_place_is_refused(pattern: str, replacement: str) -> None:
    with pytest.raises(InvalidParameter):
        substitute(ast.parse("a = f(x) + f(y)"), pattern, replacement)


def test_an_edit_of_a_function_that_is_gone_names_it() -> None:
    def apply(owner: Any) -> None:
        with edited(owner, "no_such_function", "1", "2"):
            pass

    with pytest.raises(InvalidParameter, match="no_such_function"):
        apply(ast)
