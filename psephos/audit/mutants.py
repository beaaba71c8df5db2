"""Protocols broken in one line: what a mutant is, and how it is made.

A mutant is an edit of the real source: one expression of one function is replaced, the function is compiled again in
its own module and put in the place of the original, wherever that was imported. So each is one line from the real
protocol by construction, none needs a switch in the protocol's code, and one whose line has changed says so and must
be looked at.
"""

from __future__ import annotations
import __future__

import inspect
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from psephos.audit.model import Case, Context, Result
from psephos.protocol.errors import InvalidParameter

__all__ = ["SEEDED", "Mutant", "again", "caught_by", "edited", "replaced"]

_CACHED = type(lru_cache(int))
_FUTURE = __future__.annotations.compiler_flag
SEEDED = "__import__('psephos.protocol.randomness', fromlist=['x']).SimulationRandomness(0)"
"""The source of a fixed source of coins, for mutants that must not draw from the system."""


@contextmanager
def edited(owner: Any, name: str, old: str, new: str) -> Iterator[None]:
    """`owner.name` with `old` replaced by `new` in its source, everywhere it is in use, while the block runs.

    Raises InvalidParameter unless `old` is there exactly once: the protocol has changed, and so must the mutant.
    """
    original = inspect.getattr_static(owner, name)
    function = next((f for f in (getattr(original, n, None) for n in ("func", "fget", "__func__")) if f), original)
    source = textwrap.dedent(inspect.getsource(function))
    if source.count(old) != 1:
        raise InvalidParameter(f"the line to break in {name} has changed: {old!r} occurs {source.count(old)} times")
    scope: dict[str, Any] = {}
    code = compile(source.replace(old, new), f"<mutant of {name}>", "exec", flags=_FUTURE)
    exec(code, function.__globals__, scope)  # noqa: S102 - our own source, edited above
    broken: Any = scope[name]
    if isinstance(broken, cached_property):
        broken.__set_name__(owner, name)
    with replaced([owner] if isinstance(owner, type) else _holding(name, original), name, original, broken):
        yield


@contextmanager
def replaced(places: Sequence[Any], name: str, original: Any, broken: Any) -> Iterator[None]:
    """`name` with another value in modules or classes while the block runs, which leaves nothing in a cache."""
    try:
        _set(places, name, broken)
        yield
    finally:
        _set(places, name, original)


def _set(places: Sequence[Any], name: str, value: Any) -> None:
    for place in places:
        setattr(place, name, value)
    for key, module in sorted(sys.modules.items()):
        if key.split(".")[0] == "psephos":
            for cached in vars(module).values():
                if isinstance(cached, _CACHED):
                    cached.cache_clear()


def _holding(name: str, value: Any) -> list[Any]:
    """Modules of psephos, and of the function's own package, that know it by its name."""
    ours = {"psephos", str(getattr(value, "__module__", "")).split(".")[0]}
    modules = [m for key, m in sorted(sys.modules.items()) if key.split(".")[0] in ours]
    return [m for m in modules if m.__dict__.get(name) is value]


@dataclass(frozen=True)
class Mutant:
    """One broken protocol.

    Attributes:
        name: what is broken, in the field's words.
        protocol: whose analysis must catch it.
        owner, function, old, new: the edit.
        check: the one that must see it.
        views: per side of a two-sample test; enough that the leak is seen at any seed.
    """

    name: str
    protocol: str
    owner: Any
    function: str
    old: str
    new: str
    check: str
    views: int = 30

    @property
    def change(self) -> str:
        """The edit in words."""
        return f"{self.owner.__name__}.{self.function}: `{self.old}` becomes `{self.new}`"


def caught_by(mutant: Mutant, case: Case, context: Context) -> tuple[str | None, Result]:
    """The check, if it notices, and what it found."""
    own = Context(seed=context.seed + 1, views=mutant.views, rate=context.rate)
    with edited(mutant.owner, mutant.function, mutant.old, mutant.new):
        result = case.check(mutant.check).run(own)
    return (mutant.check if result.leaks else None), result


def again(mutants: Iterable[Mutant], protocol: str, *names: str) -> tuple[Mutant, ...]:
    """These mutants once more for another case, where they touch what it does differently."""
    return tuple(replace(mutant, protocol=protocol) for mutant in mutants if mutant.name in names)
