"""Every public name of the package is documented, with the shapes of its arrays.

Checked: a docstring on every name of an `__all__`, and in a module without one on every class and function whose name
has no underscore, with the public methods and properties of these classes; and a shape wherever an array is an argument
or a result. Whether the source of an algorithm is named is left to review.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import psephos

SHAPE = re.compile(
    r"\([A-Z0-9a-z_*]+(?: [-+*] \w+)*,(?: ?[A-Za-z0-9_* +-]+)*\)|shape|square|K-by-|-by-|scalar|in place|\(.*,\)"
)


def modules() -> Iterator[ModuleType]:
    yield psephos
    for module in pkgutil.walk_packages(psephos.__path__, "psephos."):
        if not module.name.rpartition(".")[2].startswith("_"):
            yield importlib.import_module(module.name)


def public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The names a module gives away that are its own."""
    plain = [n for n, value in vars(module).items() if inspect.isclass(value) or inspect.isfunction(value)]
    for name in getattr(module, "__all__", [n for n in plain if not n.startswith("_")]):
        value = getattr(module, name)
        if getattr(value, "__module__", module.__name__) == module.__name__:
            yield name, value


def documents(module: ModuleType) -> dict[str, str]:
    """What is written at assignments: a string after one, a comment beside it, or one above it or above its block."""
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    lines = source.splitlines()
    texts: dict[str, str] = {}
    body = ast.parse(source).body
    above = ""
    for statement, after in zip(body, [*body[1:], None], strict=True):
        before = lines[statement.lineno - 2].strip() if statement.lineno > 1 else ""
        if before.startswith("#"):
            above = before
        elif not before:
            above = ""
        if not isinstance(statement, ast.Assign | ast.AnnAssign):
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        words = above + lines[statement.lineno - 1].partition("  #")[2]
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            words = after.value.value
        texts |= {target.id: words for target in targets if isinstance(target, ast.Name)}
    return texts


def agreed() -> set[str]:
    """Methods that a typing.Protocol of these packages documents, for whoever implements them."""
    return {
        name
        for module in modules()
        for _, value in public(module)
        if inspect.isclass(value) and getattr(value, "_is_protocol", False)
        for name, member in vars(value).items()
        if getattr(member, "__doc__", None) and not name.startswith("_")
    }


def offences() -> Iterator[str]:
    interfaces = agreed()
    for module in modules():
        where = module.__name__
        if not module.__doc__:
            yield f"{where}: no docstring"
        names = list(public(module))
        values = documents(module) if module.__file__ else {}
        for name, value in names:
            path = f"{where}.{name}"
            if inspect.isclass(value):
                yield from _class(path, value, interfaces)
            elif inspect.isfunction(value):
                yield from _function(path, value)
            elif name in values and not values[name] and name != "__version__":
                yield f"{path}: no docstring"


def _class(path: str, value: type, interfaces: set[str]) -> Iterator[str]:
    words = value.__doc__ or ""
    if not words or words.startswith(f"{value.__name__}("):  # what a dataclass writes by itself
        yield f"{path}: no docstring"
    for name, member in vars(value).items():
        if name.startswith("_"):
            continue
        inner = member.fget if isinstance(member, property) else getattr(member, "func", member)
        inner = inner.__func__ if isinstance(inner, staticmethod | classmethod) else inner
        if not inspect.isfunction(inner) or inner.__name__ == "<lambda>" or inner.__module__ != value.__module__:
            continue
        inherited = any(name in vars(base) and vars(base)[name].__doc__ for base in value.__mro__[1:])
        if not inherited and (inner.__doc__ or name not in interfaces):
            yield from _function(f"{path}.{name}", inner, words)


def _function(path: str, function: Any, around: str = "") -> Iterator[str]:
    """`around`: what its class says, which may give the shapes of an attribute that it returns."""
    if not function.__doc__:
        yield f"{path}: no docstring"
        return
    annotations = " ".join(str(annotation) for annotation in function.__annotations__.values())
    if re.search(r"NDArray|ArrayLike|\bArray\b", annotations) and not SHAPE.search(around + function.__doc__):
        yield f"{path}: arrays without a shape"


def test_every_public_name_is_documented() -> None:
    assert sorted(set(offences())) == []


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("bare", "def f(x: int) -> int: return x", "no docstring"),
        ("shapeless", "def f(x: NDArray[np.float64]) -> int:\n    '''Something.'''\n    return 1", "without a shape"),
        ("method", "class f:\n    '''Something.'''\n    def g(self): return 1", "f.g: no docstring"),
        ("constant", "f = 3", "f: no docstring"),
    ],
)
def test_the_docstring_check_detects_omissions(
    name: str, body: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = "from __future__ import annotations\n__all__ = ['f']\n\n"
    (tmp_path / f"undocumented_{name}.py").write_text(head + body)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module(f"undocumented_{name}")
    monkeypatch.setitem(globals(), "modules", lambda: [module])
    assert any(words in offence for offence in offences())


EXAMPLES = [module for module in modules() if ">>> " in Path(str(module.__file__)).read_text(encoding="utf-8")]


@pytest.mark.parametrize("module", EXAMPLES, ids=lambda module: module.__name__)
def test_examples_in_docstrings_run(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
