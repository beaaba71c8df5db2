"""Find one place of a function by its syntax tree, and put other code there.

A pattern is Python with holes, in the notation of Semgrep (https://semgrep.dev/docs/writing-rules/pattern-syntax):

* `$name` stands for any expression, or any attribute name after a dot; the same hole twice stands for equal code;
* `...` stands for any expression, and in a list of arguments, elements or statements for any number of them;
* `$...name` is a `...` whose contents the replacement can use.

Everything else must be equal as syntax: layout, brackets and quotes do not matter. A pattern that has holes for local
variables survives their renaming:

    [$value + $noise for $value, $noise in ...]      an addition in a comprehension over pairs
    raise ProtocolError(...)                         a statement that raises this class
    $round.open($...rest, openings=$memory)          a call, by its keyword argument
"""

from __future__ import annotations

import ast
import copy
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psephos.protocol.errors import InvalidParameter

__all__ = ["PatternMatch", "find", "names_of", "parse_pattern", "substitute"]

_HOLE, _REST = "_hole_", "_rest_"
_IGNORED = frozenset({"ctx", "kind", "type_comment"})
_SHOWN = 6  # places that an error lists

Bindings = Mapping[str, Any]
"""What each hole stands for: an expression, a name, or a list of arguments, elements or statements."""


@dataclass(frozen=True)
class PatternMatch:
    """One match: an expression, or a list of statements and the part of it."""

    node: ast.expr | list[ast.stmt]
    span: slice
    bindings: Bindings


def parse_pattern(text: str) -> ast.expr | list[ast.stmt]:
    """Return the syntax tree of an expression, or of statements, with holes; an empty text is an empty list."""
    source = re.sub(r"\$\.\.\.(?=\w)", _REST, textwrap.dedent(text).strip())
    source = re.sub(r"\$(?=\w)", _HOLE, source)
    try:
        return ast.parse(source, mode="eval").body
    except SyntaxError:
        pass
    try:
        return ast.parse(source).body
    except SyntaxError as error:
        raise InvalidParameter(f"{text!r} is neither an expression nor a statement with holes: {error.msg}") from None


def names_of(text: str) -> set[str]:
    """Return the variables, functions and classes that a pattern or a replacement names, its holes left out."""
    parsed = parse_pattern(text)
    nodes = [node for part in (parsed if isinstance(parsed, list) else [parsed]) for node in ast.walk(part)]
    bound = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    bound |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    names = {n.id for n in nodes if isinstance(n, ast.Name)} - bound
    return {name for name in names if not name.startswith((_HOLE, _REST))}


def find(tree: ast.AST, pattern: str) -> list[PatternMatch]:
    """Return all places of a tree that match; of those that begin with the same statement, the shortest."""
    parsed = parse_pattern(pattern)
    if not isinstance(parsed, list):
        matches = ((node, _match(parsed, node, {})) for node in ast.walk(tree) if isinstance(node, ast.expr))
        return [PatternMatch(node, slice(0, 0), bindings) for node, bindings in matches if bindings is not None]
    places = []
    for block in _blocks(tree):
        for start in range(len(block)):
            for end in range(start + 1, len(block) + 1):
                bindings = _match_list(parsed, block[start:end], {})
                if bindings is not None:
                    places.append(PatternMatch(block, slice(start, end), bindings))
                    break
    return places


def substitute(tree: ast.AST, pattern: str, replacement: str, where: str = "the code") -> None:
    """Replace, in place, the one node or run of statements of `tree` that `pattern` matches."""
    parsed, new, places = parse_pattern(pattern), parse_pattern(replacement), find(tree, pattern)
    if len(places) != 1:
        raise InvalidParameter(
            f"`{pattern}` must match one place of {where} and matches {len(places)}; there are: "
            + _listing(tree, parsed, [p.node[p.span.start] if isinstance(p.node, list) else p.node for p in places])
        )
    (place,) = places
    filling = _Filling(place.bindings)
    if isinstance(place.node, list):
        body: list[ast.stmt] = new if isinstance(new, list) else [ast.Expr(new)]
        place.node[place.span] = filling.visit(ast.Module(copy.deepcopy(body), [])).body or [ast.Pass()]
    elif isinstance(new, list):
        raise InvalidParameter(f"`{pattern}` is an expression, so its replacement must be one: {replacement!r}")
    else:
        _put(tree, place.node, filling.visit(copy.deepcopy(new)))


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield all lists of statements in a tree."""
    for node in ast.walk(tree):
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                yield value


def _put(tree: ast.AST, old: ast.AST, new: ast.AST) -> None:
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            if value is old:
                setattr(node, field, new)
                return
            if isinstance(value, list):
                for at, item in enumerate(value):
                    if item is old:
                        value[at] = new
                        return


# -- matching: a tree against a pattern; None when they differ


def _match(pattern: Any, tree: Any, bindings: Bindings) -> Bindings | None:
    if isinstance(pattern, ast.Name) and pattern.id.startswith(_HOLE):
        return _bind(pattern.id, tree, bindings) if isinstance(tree, ast.expr) else None
    if _is_dots(pattern):
        return bindings
    if isinstance(pattern, str) and pattern.startswith(_HOLE):
        return _bind(pattern, tree, bindings)
    if isinstance(pattern, list):
        return _match_list(pattern, tree, bindings) if isinstance(tree, list) else None
    if type(pattern) is not type(tree):
        return None
    if not isinstance(pattern, ast.AST):
        return bindings if pattern == tree else None
    if isinstance(pattern, ast.Call):
        return _match_call(pattern, tree, bindings)
    extended: Bindings | None = bindings
    for field in pattern._fields:
        if field not in _IGNORED and extended is not None:
            extended = _match(getattr(pattern, field, None), getattr(tree, field, None), extended)
    return extended


def _bind(hole: str, value: Any, bindings: Bindings) -> Bindings | None:
    if hole in bindings:
        return bindings if _same(bindings[hole], value) else None
    return {**bindings, hole: value}


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, str) and isinstance(other, ast.Name):
        return one == other.id
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return _match(one, other, {}) is not None


def _match_list(patterns: Sequence[Any], trees: Sequence[Any], bindings: Bindings) -> Bindings | None:
    if not patterns:
        return None if trees else bindings
    rest = _rest_name(patterns[0])
    if rest is None:
        extended = _match(patterns[0], trees[0], bindings) if trees else None
        return None if extended is None else _match_list(patterns[1:], trees[1:], extended)
    for length in range(len(trees) + 1):
        extended = _bind(rest, list(trees[:length]), bindings) if rest else bindings
        if extended is not None:
            extended = _match_list(patterns[1:], trees[length:], extended)
        if extended is not None:
            return extended
    return None


def _match_call(pattern: ast.Call, call: ast.Call, bindings: Bindings) -> Bindings | None:
    """Match a call; return the extended bindings, or None."""
    extended = _match(pattern.func, call.func, bindings)
    unmatched = list(call.keywords)
    for keyword in pattern.keywords:
        other = next((k for k in unmatched if k.arg == keyword.arg), None)
        if other is None or extended is None:
            return None
        unmatched.remove(other)
        extended = _match(keyword.value, other.value, extended)
    if extended is None:
        return None
    rests = [rest for rest in map(_rest_name, pattern.args) if rest is not None]
    if unmatched and not rests:
        return None
    extended = _match_list(pattern.args, call.args, extended)
    if extended is not None and unmatched and rests[-1]:
        extended = {**extended, rests[-1]: [*extended[rests[-1]], *unmatched]}
    return extended


def _is_dots(node: Any) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def _rest_name(node: Any) -> str | None:
    """Return the name of a `$...name`, "" for `...`, None for anything else."""
    if isinstance(node, ast.Expr):
        node = node.value
    if _is_dots(node):
        return ""
    return node.id if isinstance(node, ast.Name) and node.id.startswith(_REST) else None


# -- replacing


class _Filling(ast.NodeTransformer):
    """Puts what the holes of a pattern matched into the holes of a replacement."""

    def __init__(self, bindings: Bindings) -> None:
        self.bindings = bindings

    def _value(self, hole: str) -> Any:
        if hole not in self.bindings:
            name = hole.replace(_HOLE, "$").replace(_REST, "$...")
            raise InvalidParameter(f"the replacement uses {name}, which the pattern does not have")
        return copy.deepcopy(self.bindings[hole])

    def visit_Name(self, node: ast.Name) -> Any:
        if not node.id.startswith((_HOLE, _REST)):
            return node
        value = self._value(node.id)
        return ast.Name(value, ast.Load()) if isinstance(value, str) else value

    def visit_Expr(self, node: ast.Expr) -> Any:
        value = self.visit(node.value)
        return value if isinstance(value, list) else ast.Expr(value)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        node.value = self.visit(node.value)
        if node.attr.startswith(_HOLE):
            value = self._value(node.attr)
            node.attr = value.id if isinstance(value, ast.Name) else value
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        node.keywords = [*(a for a in node.args if isinstance(a, ast.keyword)), *node.keywords]
        node.args = [a for a in node.args if not isinstance(a, ast.keyword)]
        return node


def _listing(tree: ast.AST, pattern: ast.expr | list[ast.stmt], matches: Sequence[ast.AST]) -> str:
    """Return the lines of the matches for an error; without matches, those of all nodes of the pattern's type."""
    kind = type(pattern[0] if isinstance(pattern, list) and pattern else pattern)
    nodes = matches or [node for node in ast.walk(tree) if type(node) is kind]
    lines = [f"`{ast.unparse(node).splitlines()[0]}` (line {getattr(node, 'lineno', 0)})" for node in nodes]
    if not lines:
        return f"no {kind.__name__}"
    return ", ".join(lines[:_SHOWN]) + (", ..." if len(lines) > _SHOWN else "")
