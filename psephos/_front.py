"""Loads the public names of a package, those in its `__init__.pyi`, when they are first used (PEP 562).

Importing a package, or one of its modules, therefore loads nothing heavy. An installation has only `psephos`. A
checkout also has the folders `protocol/`, `parties/` and `curator/` beside it, so `import protocol` finds a folder;
this module makes it another name of `psephos.protocol`, so that no module is loaded twice.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

import lazy_loader

__all__: list[str] = []


class _AliasFinder:
    """Finds and loads `NAME.rest` as `psephos.NAME.rest`; not an `importlib.abc` class, whose import is slow."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname.startswith(f"{self.name}.") else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(f"psephos.{spec.name}")
        spec.loader_state = module.__spec__  # the import system replaces it next; `exec_module` restores it
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def front(name: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for the package `name`, whose `__init__.py` is `file`."""
    if not name.startswith("psephos"):
        sys.meta_path.insert(0, _AliasFinder(name))
        sys.modules[name] = importlib.import_module(f"psephos.{name}")
    getattr_, dir_, names = lazy_loader.attach_stub(name, file)
    return getattr_, dir_, names
