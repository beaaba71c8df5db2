"""Mutants: edits of the real source, under which a check must find a leak.

The function is compiled again in its own module and takes the place of the original wherever that was imported. The
place is selected by its syntax tree (`tests.security.lab.patterns`); one that is gone or not unique is an error.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from psephos.audit.model import AnalysisContext, Case, CheckResult
from psephos.protocol.errors import InvalidParameter
from tests.security.lab.patterns import substitute

__all__ = ["SEEDED", "Edit", "Mutant", "caught_by", "edited", "for_protocol", "function_of", "replaced"]

_CACHED = type(lru_cache(int))
_FUTURE = __future__.annotations.compiler_flag
SEEDED = "__import__('psephos.protocol.randomness', fromlist=['x']).SimulationRandomness(0)"
"""A Python expression for an edit's `new`: a generator with a fixed seed in place of the system's randomness."""


class Edit(NamedTuple):
    """One change of one function: the arguments of `edited`."""

    owner: Any
    function: str
    old: str
    new: str

    @property
    def change(self) -> str:
        """The edit in words."""
        return f"{self.owner.__name__}.{self.function}: `{self.old}` becomes `{self.new}`"


def function_of(owner: Any, name: str) -> Any:
    """Return the plain function behind `owner.name`: a function, method, property, or class or static method."""
    try:
        original = inspect.getattr_static(owner, name)
    except AttributeError:
        raise InvalidParameter(f"{owner.__name__} has no function {name}; was it renamed or moved?") from None
    return next((f for f in (getattr(original, n, None) for n in ("func", "fget", "__func__")) if f), original)


@contextmanager
def edited(owner: Any, name: str, old: str, new: str) -> Iterator[None]:
    """Replace `old` by `new` in the code of `owner.name` while the block runs."""
    function = inspect.unwrap(function_of(owner, name))
    if function.__code__.co_freevars:
        raise InvalidParameter(
            f"{owner.__name__}.{name} cannot be edited, since it refers to {', '.join(function.__code__.co_freevars)}"
        )
    original = inspect.getattr_static(owner, name)
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    substitute(tree, old, new, where=f"{owner.__name__}.{name}")
    scope: dict[str, Any] = {}
    code = compile(ast.unparse(ast.fix_missing_locations(tree)), f"<mutant of {name}>", "exec", flags=_FUTURE)
    exec(code, function.__globals__, scope)  # noqa: S102 - our own source, edited above
    broken: Any = scope[name]
    if isinstance(broken, cached_property):
        broken.__set_name__(owner, name)
    with replaced([owner] if isinstance(owner, type) else _holding(name, original), name, original, broken):
        yield


@contextmanager
def replaced(places: Sequence[Any], name: str, original: Any, broken: Any) -> Iterator[None]:
    """Replace the attribute `name` of modules or classes by `broken` while the block runs."""
    inheriting = [place for place in places if name not in vars(place)]
    try:
        for place in places:
            setattr(place, name, broken)
        _empty_caches()
        yield
    finally:
        for place in places:
            if place in inheriting:
                delattr(place, name)
            else:
                setattr(place, name, original)
        _empty_caches()


def _empty_caches() -> None:
    """Empty the caches of the functions of psephos."""
    for key, module in sorted(sys.modules.items()):
        if key.split(".")[0] == "psephos":
            for cached in vars(module).values():
                if isinstance(cached, _CACHED):
                    cached.cache_clear()


def _holding(name: str, value: Any) -> list[Any]:
    """Return the modules of psephos, and of the function's own package, that import it by its name."""
    ours = {"psephos", str(getattr(value, "__module__", "")).split(".")[0]}
    modules = [m for key, m in sorted(sys.modules.items()) if key.split(".")[0] in ours]
    return [m for m in modules if m.__dict__.get(name) is value]


@dataclass(frozen=True)
class Mutant:
    """One protocol broken by one edit."""

    name: str
    protocol: str
    owner: Any
    function: str
    old: str
    new: str
    check: str
    views: int = 30

    @property
    def edit(self) -> Edit:
        """The edit: the arguments of `edited`."""
        return Edit(self.owner, self.function, self.old, self.new)

    @property
    def change(self) -> str:
        """The edit in words."""
        return self.edit.change


def caught_by(mutant: Mutant, case: Case, context: AnalysisContext) -> tuple[str | None, CheckResult]:
    """Run a mutant's check on the broken protocol; return (its name if it leaks, else None; its result)."""
    own = AnalysisContext(seed=context.seed + 1, views=mutant.views, rate=context.rate)
    with edited(*mutant.edit):
        result = case.check(mutant.check).run(own)
    return (mutant.check if result.leaks else None), result


def for_protocol(mutants: Iterable[Mutant], protocol: str, *names: str) -> tuple[Mutant, ...]:
    """Return copies of the named mutants that the analysis of another protocol must catch too."""
    named = tuple(replace(mutant, protocol=protocol) for mutant in mutants if mutant.name in names)
    if missing := set(names) - {mutant.name for mutant in named}:
        raise InvalidParameter(f"there is no mutant {', '.join(sorted(missing))}; was it renamed?")
    return named
