"""Loads the public names of a package, those in its `__init__.pyi`, when they are first used (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable

import lazy_loader


def front(name: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for the package `name`, whose `__init__.py` is `file`.

    Raises ImportError for a folder of a checkout that is imported beside its package, whose modules would be others.
    """
    if not name.startswith("psephos"):
        raise ImportError(f"{name} is psephos.{name}: import that")
    getattr_, dir_, names = lazy_loader.attach_stub(name, file)
    return getattr_, dir_, names
