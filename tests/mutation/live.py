"""A mutant's code put in the place of the original's in a process that has imported it already."""

from __future__ import annotations

import gc
import inspect
from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

__all__ = ["Loaded"]

_CACHED = type(lru_cache(int))


class Loaded:
    """The functions of the project that this process has imported, wherever they are: in classes, closures, decorators.

    Args:
        root: of the project.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._functions: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
        self._caches: list[Any] = []
        gc.collect()
        for object_ in gc.get_objects():
            if isinstance(object_, FunctionType) and object_.__code__.co_filename.startswith(str(root)):
                path = str(Path(object_.__code__.co_filename).resolve().relative_to(self._root))
                self._functions[path, *_place(object_.__code__)].append(object_)
            elif isinstance(object_, _CACHED) and str(object_.__module__).startswith(("psephos", "tests")):
                self._caches.append(object_)
        self._files = {path for path, *_ in self._functions}
        gc.freeze()  # a fork's collector does not touch, and so copy, what is here

    def take(self, path: str, before: str, after: str) -> bool:
        """Put the second text's functions in the place of the first's; False if the two differ elsewhere.

        What was computed while the file was imported is as it was. Caches are empty afterwards.
        """
        for cached in self._caches:
            cached.cache_clear()
        if path not in self._files:
            return True  # it is imported when it is needed
        return self._replaced(path, compile(before, path, "exec"), compile(after, path, "exec"))

    def _replaced(self, path: str, before: CodeType, after: CodeType) -> bool:
        if before == after:
            return True
        inner = list(zip(_inner(before), _inner(after), strict=False))
        functions = self._functions.get((path, *_place(before)), [])
        if functions:
            if before.co_freevars != after.co_freevars:
                return False
            for function in functions:
                function.__code__ = after
            for one, other in inner:  # closures that it has made already
                self._replaced(path, one, other)
            return True
        same = _own(before) == _own(after) and len(_inner(before)) == len(_inner(after))
        return same and all(self._replaced(path, one, other) for one, other in inner)


def _place(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _inner(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if inspect.iscode(constant)]


def _own(code: CodeType) -> tuple[Any, ...]:
    """What is done by it, without the functions in it and without places in the text."""
    constants = [(type(constant), repr(constant)) for constant in code.co_consts if not inspect.iscode(constant)]
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_exceptiontable, constants
