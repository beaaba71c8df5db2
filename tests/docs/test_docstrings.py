"""What users import is documented, and the examples in docstrings run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import psephos


def modules() -> Iterator[ModuleType]:
    yield psephos
    for module in pkgutil.walk_packages(psephos.__path__, "psephos."):
        if not module.name.rpartition(".")[2].startswith("_") and module.name != "psephos.flower.apps":  # needs flwr
            yield importlib.import_module(module.name)


FRONTS = ["psephos", "psephos.protocol", "psephos.parties", "psephos.curator", "psephos.audit"]
EXAMPLES = [module for module in modules() if ">>> " in Path(str(module.__file__)).read_text(encoding="utf-8")]


@pytest.mark.parametrize("name", FRONTS)
def test_every_class_and_function_that_users_import_is_documented(name: str) -> None:
    front = importlib.import_module(name)
    exported = [(each, getattr(front, each)) for each in front.__all__]
    assert [each for each, value in exported if callable(value) and not value.__doc__] == []


@pytest.mark.parametrize("module", EXAMPLES, ids=lambda module: module.__name__)
def test_examples_in_docstrings_run(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
