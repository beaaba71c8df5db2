"""Edits of the real source: a function is compiled again with one expression replaced, wherever it was imported.

In the code to replace `$name` stands for any name, or for any expression where no name fits (the same one twice for the
same code), and `$...name` and `...` for any code.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import Any

from psephos.protocol.errors import InvalidParameter

_CACHED = type(lru_cache(int))
_FUTURE = __future__.annotations.compiler_flag
_SEEDED = "__import__('psephos.protocol.randomness', fromlist=['x']).SimulationRandomness(0)"
_NAME = r"[\w.]+(?:\[[^\]]*\])?"
_ANY = r"(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*?"
_HOLE = re.compile(r"\$(?:\.\.\.)?\w+|\.\.\.")


def function_of(owner: Any, name: str) -> Any:
    """Return the plain function behind `owner.name`: a function, method, property, or class or static method."""
    try:
        original = inspect.getattr_static(owner, name)
    except AttributeError:
        raise InvalidParameter(f"{owner.__name__} has no function {name}; was it renamed or moved?") from None
    return next((f for f in (getattr(original, n, None) for n in ("func", "fget", "__func__")) if f), original)


def _unparsed(code: str) -> str:
    """Return code with holes as Python unparses it; what is no expression stays as it is."""
    holes: list[str] = []

    def numbered(hole: re.Match[str]) -> str:
        holes.append(hole[0])
        return f"hole_{len(holes) - 1}_"

    try:
        plain = ast.unparse(ast.parse(_HOLE.sub(numbered, code)))
    except SyntaxError:
        return code
    return re.sub(r"hole_(\d+)_", lambda place: holes[int(place[1])], plain)


def substituted(source: str, old: str, new: str, where: str) -> str:
    """Return source code with `old` replaced, which must be there once."""
    text = _unparsed(old)
    for hole in (_NAME, _ANY):  # names, or any expressions where no names fit
        matches = list(re.finditer(_pattern(text, hole), source))
        if matches:
            break
    if len(matches) != 1:
        raise InvalidParameter(f"`{old}` must match one place of {where} and matches {len(matches)}:\n{source}")
    (match,) = matches
    filled = re.sub(r"\$(?:\.\.\.)?(\w+)", lambda hole: match[hole[1]], new).replace("SEEDED", _SEEDED)
    return source[: match.start()] + filled + source[match.end() :]


def _pattern(text: str, of_hole: str) -> str:
    """Return the regular expression of code with holes."""
    pattern, at, known = "", 0, set[str]()
    for hole in _HOLE.finditer(text):
        pattern += re.escape(text[at : hole.start()])
        at, name = hole.end(), hole[0].strip("$.")
        content = _ANY if hole[0].startswith(("$...", "...")) else of_hole
        pattern += f"(?P={name})" if name in known else f"(?P<{name}>{content})" if name else content
        known |= {name} - {""}
    end = r"(?![\w.(\[])" if known and at == len(text) else r"(?!\w)"
    return rf"(?<![\w.]){pattern}{re.escape(text[at:])}{end}"


@contextmanager
def edited(owner: Any, name: str, old: str, new: str) -> Iterator[None]:
    """Replace `old` by `new` in the code of `owner.name` while the block runs."""
    function = inspect.unwrap(function_of(owner, name))
    if function.__code__.co_freevars:
        raise InvalidParameter(
            f"{owner.__name__}.{name} cannot be edited, since it refers to {', '.join(function.__code__.co_freevars)}"
        )
    original = inspect.getattr_static(owner, name)
    source = ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(function))))
    source = substituted(source, old, new, f"{owner.__name__}.{name}")
    scope: dict[str, Any] = {}
    code = compile(source, f"<fault in {name}>", "exec", flags=_FUTURE)
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
