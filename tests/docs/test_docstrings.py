"""Every public name of the four packages is documented: what it is, shapes, errors, and where it comes from.

What a program can check of that: a docstring on every name of every `__all__`, on the public methods and properties of
its classes; a shape wherever an array is taken or given; every error that a body raises, itself or through private
functions of its module, named; and a source (paper, section, equation, theorem, DESIGN) in each module that implements
one; a module that implements none says "No paper behind it", and where what it is for is written.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import psephos
from psephos.protocol import errors

ERRORS = {name: value for name, value in vars(builtins).items() if isinstance(value, type)}
ERRORS |= {name: value for name, value in vars(errors).items() if isinstance(value, type)}
UNSAID = {"AssertionError", "NotImplementedError"}  # of a mistake in this code, not of its caller's
TOO_WIDE = {"object", "BaseException", "Exception", "PsephosError", "ValueError"}  # names nothing a caller can act on
SHAPE = re.compile(
    r"\([A-Z0-9a-z_*]+(?: [-+*] \w+)*,(?: ?[A-Za-z0-9_* +-]+)*\)|shape|square|K-by-|-by-|scalar|in place|\(.*,\)"
)
SOURCE = re.compile(
    r"Hamm|Pathak|Rajkumar|DESIGN|section|equation|eq\.|Theorem|Algorithm|Procedure|Lemma|docs/|Damg|Veugen|Paillier|Shamir|"
    r"Ed25519|scikit-learn|PATE|Papernot|Lim and Lee|SHA-256|Rump|Kairouz|Bonnet|Corollary|\bphe\b|JSON|"
    r"No paper behind it"
)


def modules() -> Iterator[ModuleType]:
    yield psephos
    for found in pkgutil.walk_packages(psephos.__path__, "psephos."):
        if not found.name.rpartition(".")[2].startswith("_"):
            yield importlib.import_module(found.name)


def public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The names a module gives away that are its own."""
    for name in getattr(module, "__all__", []):
        value = getattr(module, name)
        if getattr(value, "__module__", module.__name__) == module.__name__:
            yield name, value


def documents(module: ModuleType) -> dict[str, str]:
    """What is written at assignments: a string after one, a comment beside it, or one above it or above its block."""
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    lines = source.splitlines()
    found: dict[str, str] = {}
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
        found |= {target.id: words for target in targets if isinstance(target, ast.Name)}
    return found


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
        nothing = all(name.startswith("_") or inspect.ismodule(value) for name, value in vars(module).items())
        if not hasattr(module, "__all__") and not nothing:
            yield f"{where}: no __all__"
        names = list(public(module))
        values = documents(module) if module.__file__ else {}
        for name, value in names:
            path = f"{where}.{name}"
            if inspect.isclass(value):
                yield from _class(path, value, interfaces)
            elif inspect.isfunction(value):
                yield from _function(path, value, value.__doc__ or "")
            elif name in values and not values[name] and name != "__version__":
                yield f"{path}: no docstring"
        words = " ".join([module.__doc__ or "", *(str(value.__doc__) for _, value in names)])
        if names and unsourced(where, words):
            yield f"{where}: names no source"


def _class(path: str, value: type, interfaces: set[str]) -> Iterator[str]:
    words = value.__doc__ or ""
    if not words or words.startswith(f"{value.__name__}("):  # what a dataclass writes by itself
        yield f"{path}: no docstring"
        words = ""
    words += str(vars(value).get("__init__").__doc__ or "") if "__init__" in vars(value) else ""
    for name, member in vars(value).items():
        if name.startswith("_") and not name.startswith("__"):
            continue
        inner = member.fget if isinstance(member, property) else getattr(member, "func", member)
        inner = inner.__func__ if isinstance(inner, staticmethod | classmethod) else inner
        if not inspect.isfunction(inner) or inner.__module__ != value.__module__:
            continue
        inherited = any(name in vars(base) and vars(base)[name].__doc__ for base in value.__mro__[1:])
        inherited |= name in interfaces and not inner.__doc__
        told = words + (inner.__doc__ or "")
        if name.startswith("__"):
            yield from _silent(f"{path}.{name}", inner, told)
        elif not inner.__doc__ and not inherited:
            yield f"{path}.{name}: no docstring"
        elif not inherited:
            yield from _function(f"{path}.{name}", inner, told)


def _function(path: str, function: Any, words: str) -> Iterator[str]:
    if not words:
        yield f"{path}: no docstring"
        return
    yield from _silent(path, function, words)
    annotations = " ".join(str(annotation) for annotation in function.__annotations__.values())
    if re.search(r"NDArray|ArrayLike|\bArray\b", annotations) and not SHAPE.search(words):
        yield f"{path}: arrays without a shape"


def _silent(path: str, function: Any, words: str) -> Iterator[str]:
    """What a function raises and these words do not say; an error that they name covers its subclasses."""
    if function.__module__ == "psephos.cli.main":
        return  # what is written there is its --help; `main` turns each named error into a line and an exit status
    defined = _definitions(function.__module__)
    definition = defined.get(function.__qualname__)
    if definition is None:  # made by a dataclass or a NamedTuple
        return
    for name in sorted(_raised(definition, defined, function.__qualname__) - UNSAID):
        covering = {base.__name__ for base in ERRORS[name].__mro__} - TOO_WIDE | {name}
        if not any(re.search(rf"\b{wider}\b", words) for wider in covering):
            yield f"{path}: raises {name}, unsaid"


@cache
def _definitions(module: str) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    found = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for outer in tree.body:
        if isinstance(outer, ast.ClassDef):
            found |= {f"{outer.name}.{node.name}": node for node in outer.body if isinstance(node, ast.FunctionDef)}
    return found


def _raised(
    node: ast.AST,
    defined: dict[str, ast.FunctionDef],
    within: str,
    seen: frozenset[str] = frozenset(),
    caught: frozenset[str] = frozenset(),
) -> set[str]:
    """Names of the errors that leave this piece of code, followed into private functions and methods of its module.

    `within`: the qualified name of the function that it is a piece of. `seen`: those already followed.
    """
    if isinstance(node, ast.Try):
        handled = caught
        for handler in node.handlers:
            again = any(isinstance(inner, ast.Raise) and inner.exc is None for inner in ast.walk(handler))
            types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            handled |= frozenset() if again else {_name(one) for one in types if one is not None}
        inside = set().union(*(_raised(child, defined, within, seen, handled) for child in node.body))
        rest: list[ast.AST] = [*node.handlers, *node.orelse, *node.finalbody]
        return inside.union(*(_raised(child, defined, within, seen, caught) for child in rest))
    found: set[str] = set()
    if isinstance(node, ast.Raise) and node.exc is not None:
        found.add(_name(node.exc.func if isinstance(node.exc, ast.Call) else node.exc))
    if isinstance(node, ast.Call):
        name = _name(node.func)
        inside_class = isinstance(node.func, ast.Attribute) and _name(node.func.value) in ("self", "cls")
        called = f"{within.partition('.')[0]}.{name}" if inside_class else name
        if name.startswith("_") and called in defined and called not in seen:
            found |= _raised(defined[called], defined, called, seen | {called}, caught)
    known = {name for name in found if name in ERRORS and issubclass(ERRORS[name], BaseException)}
    passed = {name for name in known if not caught & {base.__name__ for base in ERRORS[name].__mro__}}
    return passed.union(*(_raised(child, defined, within, seen, caught) for child in ast.iter_child_nodes(node)))


def _name(node: ast.AST) -> str:
    return str(getattr(node, "id", getattr(node, "attr", "")))


def unsourced(module: str, words: str) -> bool:
    """Whether a module of these packages says neither where what it does comes from nor that no paper has it."""
    return module.split(".")[1:2] in (["protocol"], ["parties"], ["curator"]) and not SOURCE.search(words)


def test_every_public_name_is_documented() -> None:
    assert sorted(set(offences())) == []


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("bare", "def f(x: int) -> int: return x", "no docstring"),
        ("shapeless", "def f(x: NDArray[np.float64]) -> int:\n    '''Something.'''\n    return 1", "without a shape"),
        ("silent", "def f(x: int) -> int:\n    '''Something.'''\n    raise InvalidParameter('x')", "unsaid"),
        ("bare_raise", "def f() -> int:\n    '''Something.'''\n    raise InvalidParameter", "InvalidParameter, unsaid"),
        ("builtin", "def f() -> int:\n    '''Something.'''\n    raise KeyError(1)", "KeyError, unsaid"),
        ("blanket", "def f() -> int:\n    '''Raises the named errors.'''\n    raise InvalidParameter", "unsaid"),
        ("too_wide", "def f() -> int:\n    '''Raises PsephosError.'''\n    raise InvalidParameter", "unsaid"),
        (
            "helper",
            "def f() -> int:\n    '''Something.'''\n    return _g()\ndef _g():\n    raise InvalidParameter",
            "InvalidParameter, unsaid",
        ),
        ("made", "class f:\n    '''Something.'''\n    def __post_init__(self): raise KeyError", "KeyError, unsaid"),
        (
            "own",
            "class f:\n    '''Something.'''\n    def g(self):\n        '''Something.'''\n        self._h()\n"
            "    def _h(self): raise InvalidParameter",
            "f.g: raises InvalidParameter, unsaid",
        ),
        ("method", "class f:\n    '''Something.'''\n    def g(self): return 1", "f.g: no docstring"),
        ("constant", "f = 3", "f: no docstring"),
    ],
)
def test_the_check_sees_what_is_missing(
    name: str, body: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = (
        "from __future__ import annotations\nfrom psephos.protocol.errors import InvalidParameter\n__all__ = ['f']\n\n"
    )
    (tmp_path / f"undocumented_{name}.py").write_text(head + body)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module(f"undocumented_{name}")
    monkeypatch.setitem(globals(), "modules", lambda: [module])
    assert any(words in offence for offence in offences())


@pytest.mark.parametrize(
    "body",
    [
        "def f():\n    '''Raises InvalidParameter.'''\n    raise InvalidParameter(1)",
        "def f():\n    '''Raises InvalidParameter.'''\n    raise WeakKeyError(1)",
        "def f():\n    '''Something.'''\n    try: raise WeakKeyError\n    except InvalidParameter: return 1",
        "class f:\n    '''Raises KeyError.'''\n    def __post_init__(self): raise KeyError",
    ],
)
def test_the_check_lets_pass_what_is_said(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"documented_{abs(hash(body))}"
    head = "'''No paper.'''\nfrom psephos.protocol.errors import InvalidParameter, WeakKeyError\n__all__ = ['f']\n\n"
    (tmp_path / f"{name}.py").write_text(head + body)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module(name)
    monkeypatch.setitem(globals(), "modules", lambda: [module])
    assert list(offences()) == []


def test_the_check_sees_a_module_without_a_source() -> None:
    assert unsourced(
        "psephos.protocol.encrypted_sum.board", "What is posted is seen by every observer, all across the atmosphere."
    )
    assert not unsourced(
        "psephos.protocol.encrypted_sum.board", "What is posted is seen by all. No paper behind it: plain plumbing."
    )
    assert not unsourced("psephos.protocol.paillier.keys", "Keys (Paillier 1999) on phe's own key objects.")
    assert not unsourced("psephos.report.charts", "Draws what it is given.")
