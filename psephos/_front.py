"""What a package gives away: the names in its `__init__.pyi`, each loaded when it is first used (PEP 562).

Importing a package, or any module of it, loads nothing heavy that way. Installed, only `psephos` exists. In a checkout
`protocol/`, `parties/` and `curator/` lie beside it, so that `import protocol` finds a folder there; it then becomes
another name of `psephos.protocol`, and nothing is loaded a second time.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

import lazy_loader

__all__: list[str] = []


class _Same:
    """Finds `NAME.rest` as `psephos.NAME.rest`: a finder and a loader, without `importlib.abc`, which loads much."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname.startswith(f"{self.name}.") else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(f"psephos.{spec.name}")
        spec.loader_state = module.__spec__  # the import system is about to replace it
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def front(name: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of the package `name`, whose `__init__.py` is `file`."""
    if not name.startswith("psephos"):
        sys.meta_path.insert(0, _Same(name))
        sys.modules[name] = importlib.import_module(f"psephos.{name}")
    getattr_, dir_, names = lazy_loader.attach_stub(name, file)
    return getattr_, dir_, names
