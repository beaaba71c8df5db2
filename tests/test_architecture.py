"""The house (DESIGN section 1): imports point one way, and the distribution is the four packages."""

from __future__ import annotations

import ast
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("protocol", "parties", "curator", "psephos")
MAY_IMPORT = {
    "protocol": {"protocol"},
    "parties": {"parties", "protocol"},
    "curator": {"curator", "protocol"},
    "psephos": set(PACKAGES),
}
MACHINE_LEARNING = {"sklearn", "pandas", "torch", "joblib"}


def imported(source: str) -> set[str]:
    """Top-level names of everything a module imports, wherever in it, `importlib` calls with a literal included."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            # A relative import stays within the package.
            names |= {node.module.split(".")[0]} if node.module and node.level == 0 else set()
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in {"import_module", "__import__"} and isinstance(node.args[0].value, str):
                names.add(node.args[0].value.split(".")[0])
    return names


MODULES = [
    pytest.param(package, path, id=str(path.relative_to(ROOT)))
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
]


@pytest.mark.parametrize(("package", "path"), MODULES)
def test_imports_point_one_way(package: str, path: Path) -> None:
    ours = imported(path.read_text(encoding="utf-8")) & {*PACKAGES, "tests", "benchmarks"}
    assert ours <= MAY_IMPORT[package], f"{path.relative_to(ROOT)} may not import {sorted(ours - MAY_IMPORT[package])}"


@pytest.mark.parametrize("path", sorted((ROOT / "protocol").rglob("*.py")), ids=lambda p: p.name)
def test_protocol_knows_no_machine_learning(path: Path) -> None:
    assert not imported(path.read_text(encoding="utf-8")) & MACHINE_LEARNING


@pytest.mark.parametrize(
    "source",
    [
        "import curator.tally",
        "from curator import tally",
        "def f():\n    import curator",
        "import importlib\nimportlib.import_module('curator.tally')",
        "__import__('curator')",
    ],
)
def test_the_wall_sees_every_kind_of_import(source: str) -> None:
    assert "curator" in imported(source)


def test_the_distribution_lists_the_four_packages_and_their_types() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    setuptools = settings["tool"]["setuptools"]
    assert {name.split(".")[0] for name in setuptools["packages"]} == set(PACKAGES)
    assert {package for package, data in setuptools["package-data"].items() if "py.typed" in data} >= set(PACKAGES)


def test_no_module_stays_behind() -> None:
    """setuptools takes the packages that are listed and no folder below them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = set(settings["tool"]["setuptools"]["packages"])
    folders = {path.parent.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    assert {".".join(folder.parts) for folder in folders} == listed


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_typed(package: str) -> None:
    assert files(package).joinpath("py.typed").is_file()
