"""The layout (docs/design.md, section 1): imports point one way, in no circle, and load only what is needed."""

from __future__ import annotations

import ast
import graphlib
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("protocol", "parties", "curator", "psephos")
MAY_IMPORT = {
    "protocol": {"psephos.protocol"},
    "parties": {"psephos.parties", "psephos.protocol"},
    "curator": {"psephos.curator", "psephos.protocol"},
}
FRONT = {"psephos._front"}
"""What the folders' own fronts may take besides."""
MACHINE_LEARNING = {"sklearn", "pandas", "torch", "joblib"}


def imports(source: str, *, loaded: bool = False) -> set[str]:
    """Full names of all that a module imports, `importlib` calls with a literal included; `loaded`: when it is imported
    itself, not in functions or for types only."""
    names: set[str] = set()
    todo: list[ast.AST] = [*ast.parse(source).body]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            names |= {str(node.args[0].value)} if called in {"import_module", "__import__"} else set()
        if loaded and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo += node.orelse
        elif not (loaded and isinstance(node, ast.FunctionDef | ast.Lambda)):
            todo += ast.iter_child_nodes(node)
    return names


def packages(source: str) -> set[str]:
    """Of what a module imports, ours by package (`psephos.curator`), others by their top level."""
    return {".".join(name.split(".")[: 2 if name.startswith("psephos") else 1]) for name in imports(source)} - {
        "psephos"
    }


def own(package: str) -> Iterator[Path]:
    """The modules of one of the four folders; the links in psephos/ are not followed."""
    for path in sorted((ROOT / package).rglob("*.py")):
        if package != "psephos" or path.relative_to(ROOT / package).parts[0] not in PACKAGES[:3]:
            yield path


MODULES = [pytest.param(package, path, id=str(path.relative_to(ROOT))) for package in PACKAGES for path in own(package)]


@pytest.mark.parametrize(("package", "path"), MODULES)
def test_imports_point_one_way(package: str, path: Path) -> None:
    names = packages(path.read_text(encoding="utf-8"))
    ours = {name for name in names if name.startswith("psephos")}
    allowed = MAY_IMPORT.get(package, ours) | (FRONT if path == ROOT / package / "__init__.py" else set())
    assert ours <= allowed, f"{path.relative_to(ROOT)} may not import {sorted(ours - allowed)}"
    assert not names & {"protocol", "parties", "curator", "tests", "benchmarks"}


@pytest.mark.parametrize("path", sorted((ROOT / "protocol").rglob("*.py")), ids=lambda p: p.name)
def test_protocol_knows_no_machine_learning_and_no_cryptography_what_a_vector_means(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert not packages(source) & MACHINE_LEARNING
    modules = {".".join(name.split(".")[:3]) for name in imports(source, loaded=True)}
    ours = {name for name in modules if name.startswith("psephos.protocol.")}
    if path.parent.name == "grids":
        assert ours <= {"psephos.protocol.grids", "psephos.protocol.errors"}
    else:
        assert "psephos.protocol.grids" not in ours


@pytest.mark.parametrize("package", ["protocol", "parties", "curator"])
def test_a_folder_at_the_top_is_the_package_inside(package: str) -> None:
    """By a link, where the checkout has links, and by setup.py wherever it is installed."""
    inside = ROOT / "psephos" / package
    if inside.is_file():
        assert inside.read_text(encoding="utf-8") == f"../{package}", "a checkout without links has their targets"
    else:
        assert inside.is_symlink()
        assert inside.resolve() == ROOT / package


def test_a_folder_of_a_checkout_is_not_a_second_package() -> None:
    """Its modules would be loaded twice, with classes that are not those of `psephos`."""
    for package in PACKAGES[:3]:
        tried = subprocess.run([sys.executable, "-c", f"import {package}"], cwd=ROOT, capture_output=True, check=False)
        assert tried.returncode == 1
        assert b"ImportError" in tried.stderr


# -- circles


def graph(sources: dict[str, str]) -> dict[str, set[str]]:
    return {name: imports(source, loaded=True) & sources.keys() - {name} for name, source in sources.items()}


def module_name(package: str, path: Path) -> str:
    inside = path.relative_to(ROOT / package).with_suffix("")
    top = ["psephos"] if package == "psephos" else ["psephos", package]
    return ".".join([*top, *(part for part in inside.parts if part != "__init__")])


def test_there_are_no_import_cycles() -> None:
    sources = {module_name(p, path): path.read_text(encoding="utf-8") for p in PACKAGES for path in own(p)}
    assert len(sources) > 100
    graphlib.TopologicalSorter(graph(sources)).prepare()  # CycleError names the circle


# -- the layers of psephos

LAYERS: dict[str, set[str]] = {
    "files": set(),
    "options": set(),
    "progress": set(),
    "specs": {"progress"},
    "data": {"options"},
    "model": {"data", "files"},
    "released": {"data", "model"},
    "budget": {"data", "results"},
    "results": {"data", "files", "model", "released"},
    "simulation": {"budget", "files", "specs", "data", "results", "model", "released", "options", "progress"},
    "study": {"budget", "files", "specs", "data", "results", "model", "released", "options", "progress"},
    "flower": {"study"},
    "experiments": {"simulation", "specs", "data", "results", "model", "released", "options", "progress"},
    "audit": {"simulation", "study", "specs", "data", "results", "model", "released", "options", "progress"},
}
"""What each part of `psephos` may import of the others (docs/design.md, section 1). Only the command imports all."""

EXCEPTIONS = {"results/page.py": {"audit"}}
"""A report shows what the audit expects of a run's protocol."""


@pytest.mark.parametrize("part", LAYERS)
def test_a_part_imports_only_the_layers_below_it(part: str) -> None:
    inside = ROOT / "psephos" / part
    paths = sorted(inside.rglob("*.py")) if inside.is_dir() else [inside.with_suffix(".py")]
    below = LAYERS[part] | {part, "_front", "__version__", *PACKAGES[:3]}
    for path in paths:
        allowed = below | EXCEPTIONS.get(str(path.relative_to(ROOT / "psephos")), set())
        names = packages(path.read_text(encoding="utf-8"))
        above = {name.split(".")[1] for name in names if name.startswith("psephos.")} - allowed
        assert not above, f"{path.relative_to(ROOT)} may not import {sorted(above)}"


def test_every_part_has_a_layer() -> None:
    parts = {path.relative_to(ROOT / "psephos").with_suffix("").parts[0] for path in own("psephos")}
    assert parts - {"__init__", "__main__", "_front", "cli"} == set(LAYERS)


# -- SQLite

DATABASE = "protocol/storage/database.py"


def opens_sqlite(source: str) -> bool:
    """Return whether a module opens a connection with sqlite3 itself."""
    if "sqlite3" not in source:
        return False
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "sqlite3":
            return True
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("sqlite3.connect", "sqlite3.Connection"):
            return True
    return False


def test_sqlite_is_opened_in_one_module() -> None:
    opening = [path for package in PACKAGES for path in own(package) if opens_sqlite(path.read_text(encoding="utf-8"))]
    assert [str(path.relative_to(ROOT)) for path in opening] == [DATABASE]


# -- sizes

MOST_LINES, MOST_ARGUMENTS = 60, 8


def too_large(source: str) -> Iterator[str]:
    """Functions with more lines (their docstrings aside) or arguments than a reader holds, and no reason written at
    their head: `# long: why`, `# wide: why`."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = node.body[0]
        head = "\n".join(lines[max(node.lineno - 2, 0) : first.lineno])
        positional = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
        count = len(positional) + len(node.args.kwonlyargs) - (positional[:1] in (["self"], ["cls"]))
        count += (node.args.vararg is not None) + (node.args.kwarg is not None)
        length = int(node.end_lineno or 0) - node.lineno + 1
        if ast.get_docstring(node) is not None:
            length -= int(first.end_lineno or 0) - first.lineno + 1
        if length > MOST_LINES and "# long: " not in head:
            yield f"{node.name}: {length} lines"
        if count > MOST_ARGUMENTS and "# wide: " not in head:
            yield f"{node.name}: {count} arguments"


def test_functions_are_small() -> None:
    violations = [
        f"{path.relative_to(ROOT)}: {what}"
        for package in PACKAGES
        for path in own(package)
        for what in too_large(path.read_text(encoding="utf-8"))
    ]
    assert violations == []


# -- what importing loads

HEAVY = {
    "dask",
    "distributed",
    "dp_accounting",
    "flwr",
    "jinja2",
    "joblib",
    "matplotlib",
    "ray",
    "scipy.optimize",
    "scipy.stats",
    "sklearn",
}
NAMES_ONLY = HEAVY | {"numpy", "gmpy2", "cryptography"}
LIGHT = {
    "psephos": NAMES_ONLY,
    "psephos.protocol": NAMES_ONLY,
    "psephos.parties": NAMES_ONLY,
    "psephos.curator": NAMES_ONLY,
    "psephos.cli.main": HEAVY,
    # what a key holder, or a curator that only counts, runs
    "psephos.parties.holder": HEAVY,
    "psephos.parties.party": HEAVY,
    "psephos.curator.tally": HEAVY,
    "psephos.protocol.driver": HEAVY,
    "psephos.protocol.storage.keyfiles": HEAVY,
    "psephos.protocol.privacy.accounting": HEAVY,
    # what each worker process of a simulation loads
    "psephos.simulation.encrypted_sum": {"pandas", "scipy.stats", "sklearn"},
    "psephos.specs.registry": {"pandas", "scipy.stats", "sklearn"},
    "psephos.parties.training": {"pandas", "scipy.stats", "sklearn"},
}


@pytest.mark.parametrize("module", LIGHT)
def test_importing_loads_nothing_heavy(module: str) -> None:
    """No test of time, but of what takes it."""
    program = f"import sys, json, {module}; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True)
    assert set(json.loads(done.stdout)) & LIGHT[module] == set()


@pytest.mark.parametrize("package", ["psephos", "psephos.protocol", "psephos.parties", "psephos.curator"])
def test_every_exported_name_exists(package: str) -> None:
    front = importlib.import_module(package)
    assert front.__all__
    for name in front.__all__:
        assert getattr(front, name).__name__ == name
    with pytest.raises(AttributeError):
        _ = front.nothing_of_the_kind


# -- what these tests look for is found

APART = "def f() -> None:\n    import a\nif TYPE_CHECKING:\n    import a"
ARGUMENTS, LONG = ", ".join("abcdefgh"), "\n    x = 1" * 59


@pytest.mark.parametrize(
    "source",
    [
        "import psephos.curator.tally",
        "from psephos.curator import tally",
        "from psephos import curator",
        "def f():\n    import psephos.curator",
        "import importlib\nimportlib.import_module('psephos.curator.tally')",
        "__import__('psephos.curator')",
    ],
)
def test_every_kind_of_import_is_found(source: str) -> None:
    assert "psephos.curator" in packages(source)


def test_what_is_not_allowed_is_found() -> None:
    graphlib.TopologicalSorter(graph({"a": "import b", "b": "from c import x", "c": APART})).prepare()
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(
            graph({"a": "import b", "b": "from p import c", "p.c": "class C:\n    import a"})
        ).prepare()
    assert opens_sqlite("import sqlite3\ndef f():\n    return sqlite3.connect('file')")
    assert opens_sqlite("from sqlite3 import connect")
    assert not opens_sqlite("import sqlite3\nerror = sqlite3.Error")
    fine = f"def f({ARGUMENTS}): pass\ndef g(self, {ARGUMENTS}): pass\ndef h(): {LONG}\n# wide: why\n"
    assert list(too_large(f"{fine}def i({ARGUMENTS}, j): pass\ndef k(  # long: a table\n): {LONG}\n    x = 1")) == []
    assert list(too_large(f"def f({ARGUMENTS}, **i): pass")) == ["f: 9 arguments"]
    assert list(too_large(f"def f():\n    'What f does.'{LONG}\n    x = 1")) == ["f: 61 lines"]
