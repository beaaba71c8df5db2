"""The owner's folders, imported by their short names from a checkout, are the very modules of `psephos`.

Installed, only `psephos` exists. In a checkout `protocol/`, `parties/` and `curator/` lie beside it, so that
`import protocol` finds a folder there; these few lines see to it that nothing is loaded a second time.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

__all__: list[str] = []


class _Same(MetaPathFinder, Loader):
    """Finds `NAME.rest` as `psephos.NAME.rest`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return spec_from_loader(fullname, self) if fullname.startswith(f"{self.name}.") else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(f"psephos.{spec.name}")
        spec.loader_state = module.__spec__  # the import system is about to replace it
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def stand_in(name: str) -> None:
    """Make `name`, a folder beside this package, another name of `psephos.<name>` and all that is in it."""
    sys.meta_path.insert(0, _Same(name))
    sys.modules[name] = importlib.import_module(f"psephos.{name}")
