"""What is changed: the operators of mutmut, over all code of a module, but for what cannot matter.

mutmut's own runner puts copies of functions side by side, and so leaves out what has a decorator (every step of a role)
and what stands in no function (constants). Here its operators make one change at a time in the file itself.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators, operator_string

__all__ = ["Change", "changes"]


@dataclass(frozen=True)
class Change:
    """One mutant.

    Attributes:
        path: of the file, from the top of the repository.
        function: in which it stands, with its class; "" for none.
        line, old, new: the line, and the text there before and after.
        start, end: the text's place in the file, in characters.
        name: short, and another one when anything in the file is.
    """

    path: str
    function: str
    line: int
    old: str
    new: str
    start: int
    end: int
    name: str

    def apply(self, source: str) -> str:
        """The file with this change in it."""
        assert source[self.start : self.end] == self.old, f"{self.path} has changed since its mutants were made"
        return source[: self.start] + self.new + source[self.end :]


def _one_text(node: cst.BaseString) -> Iterator[cst.CSTNode]:
    """Another text for a text, once; mutmut's other two change its case."""
    return islice(iter(operator_string(node)), 1)


def _left_out(node: cst.Raise | cst.Expr) -> Iterator[cst.CSTNode]:
    """No refusal, or no call that is made for its effect: the checks that a protocol rests on. mutmut leaves both."""
    if isinstance(node, cst.Raise) or isinstance(node.value, cst.Call | cst.Await):
        yield cst.Pass()


_OPERATORS: list[tuple[type, Callable[[Any], Any]]] = [
    *((kind, _one_text if operator is operator_string else operator) for kind, operator in mutation_operators),
    (cst.Raise, _left_out),
    (cst.Expr, _left_out),
]

# What is left out, and why: benchmarks/mutants.md.
_NEVER_CALLED_OTHERWISE = frozenset({"len", "isinstance"})
_OF_TYPES = frozenset({"cast", "TypeVar", "ParamSpec", "NewType"})
_OF_WORDS = frozenset({"option", "_said", "_tell", "getLogger", "debug", "info", "warning", "progress", "_progress"})
_LEFT_ARGUMENTS = frozenset({"strict", "metadata", "encoding"})  # zip's; the help of an option; UTF-8 by default


class _Visitor(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, cst.CSTNode, cst.CSTNode]] = []
        self._scope: list[str] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if _left_alone(node):
            return False
        for kind, operator in _OPERATORS:
            if isinstance(node, kind) and _called(node) not in _NEVER_CALLED_OTHERWISE:
                made = [other for other in operator(node) if _left(other) == _left(node)]
                self.found += [(".".join(self._scope), node, other) for other in made]
        if isinstance(node, cst.If | cst.IfExp) and isinstance(node.test, cst.Name | cst.Attribute | cst.Call):
            negated = cst.UnaryOperation(cst.Not(), node.test)  # mutmut changes such a condition in no way
            self.found.append((".".join(self._scope), node.test, negated))
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            self._scope.append(node.name.value)
        return not isinstance(node, cst.Raise)  # what an error says

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, cst.FunctionDef | cst.ClassDef) and not _left_alone(original_node):
            self._scope.pop()


def _left_alone(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Annotation | cst.Decorator | cst.ImportFrom | cst.Import):
        return True
    if isinstance(node, cst.Arg) and node.keyword is not None:
        return node.keyword.value in _LEFT_ARGUMENTS
    if isinstance(node, cst.If):
        return getattr(node.test, "value", None) == "TYPE_CHECKING"
    if isinstance(node, cst.Assign):
        return getattr(node.targets[0].target, "value", None) in {"__all__", "__slots__"}
    if isinstance(node, cst.Expr) and _called(node.value) in _OF_WORDS:
        return True
    return _called(node) in _OF_TYPES | _OF_WORDS


def _left(node: cst.CSTNode) -> list[str]:
    """The arguments of a call that are not changed: mutmut changes them at the call."""
    if not isinstance(node, cst.Call):
        return []
    code = cst.Module([]).code_for_node
    return [code(arg.value) for arg in node.args if arg.keyword is not None and arg.keyword.value in _LEFT_ARGUMENTS]


def _as_false(old: str, new: str) -> bool:
    """Whether None has come in the place of one False."""
    return any(f"{old[: f.start()]}None{old[f.end() :]}" == new for f in re.finditer(r"\bFalse\b", old))


def _as_default(old: str, new: str) -> bool:
    """Whether "big" was left out once, which is the order of an integer's bytes where none is named."""
    return any(f"{old[: f.start()]}{old[f.end() :]}" == new for f in re.finditer(r'"big"', old))


def _called(node: cst.CSTNode) -> str:
    """The last name of what is called; "" for what is no call."""
    if not isinstance(node, cst.Call):
        return ""
    name = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
    return name.value if isinstance(name, cst.Name) else ""


def changes(path: str, source: str) -> list[Change]:
    """All changes of a file, in the order of its text."""
    wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    visitor = _Visitor()
    wrapper.visit(visitor)
    positions = wrapper.resolve(PositionProvider)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    made = []
    for function, node, other in visitor.found:
        place = positions[node]
        start = starts[place.start.line - 1] + place.start.column
        end = starts[place.end.line - 1] + place.end.column
        old, new = source[start:end], wrapper.module.code_for_node(other)
        if old.strip() != new.strip() and not _as_false(old, new) and not _as_default(old, new):
            name = hashlib.sha256(repr((source, start, end, new)).encode()).hexdigest()[:10]
            made.append(Change(path, function, place.start.line, old, new, start, end, name))
    return made
