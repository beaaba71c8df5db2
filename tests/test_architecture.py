"""The house (DESIGN section 1): imports point one way, and what is installed is one package."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("protocol", "parties", "curator", "psephos")
MAY_IMPORT = {
    "protocol": {"psephos.protocol"},
    "parties": {"psephos.parties", "psephos.protocol"},
    "curator": {"psephos.curator", "psephos.protocol"},
}
FRONT = {"psephos._checkout"}
"""What the folders' own fronts may take besides."""
MACHINE_LEARNING = {"sklearn", "pandas", "torch", "joblib"}


def imported(source: str) -> set[str]:
    """Names of everything a module imports, wherever in it, `importlib` calls with a literal included; ours by package
    (`psephos.curator`), others by their top level."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            if node.module == "psephos":
                names |= {f"psephos.{alias.name}" for alias in node.names}
            elif node.module:
                names.add(node.module)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in {"import_module", "__import__"} and isinstance(node.args[0].value, str):
                names.add(node.args[0].value)
    return {".".join(name.split(".")[: 2 if name.startswith("psephos") else 1]) for name in names}


MODULES = [
    pytest.param(package, path, id=str(path.relative_to(ROOT)))
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
]


@pytest.mark.parametrize(("package", "path"), MODULES)
def test_imports_point_one_way(package: str, path: Path) -> None:
    names = imported(path.read_text(encoding="utf-8"))
    ours = {name for name in names if name.startswith("psephos")}
    allowed = MAY_IMPORT.get(package, ours) | (FRONT if path == ROOT / package / "__init__.py" else set())
    assert ours <= allowed, f"{path.relative_to(ROOT)} may not import {sorted(ours - allowed)}"
    assert not names & {"protocol", "parties", "curator", "tests", "benchmarks"}


@pytest.mark.parametrize("path", sorted((ROOT / "protocol").rglob("*.py")), ids=lambda p: p.name)
def test_protocol_knows_no_machine_learning(path: Path) -> None:
    assert not imported(path.read_text(encoding="utf-8")) & MACHINE_LEARNING


@pytest.mark.parametrize(
    "source",
    [
        "import psephos.curator.tally",
        "from psephos.curator import tally",
        "def f():\n    import psephos.curator",
        "import importlib\nimportlib.import_module('psephos.curator.tally')",
        "__import__('psephos.curator')",
    ],
)
def test_the_wall_sees_every_kind_of_import(source: str) -> None:
    assert "psephos.curator" in imported(source)


@pytest.mark.parametrize("package", ["protocol", "parties", "curator"])
def test_a_folder_at_the_top_is_the_package_inside(package: str) -> None:
    inside = ROOT / "psephos" / package
    assert inside.is_symlink()
    assert inside.resolve() == ROOT / package


def test_short_names_in_a_checkout_load_nothing_twice() -> None:
    program = (
        "import sys, protocol, protocol.paillier.keys as short\n"
        "import psephos.protocol.paillier.keys as long, psephos.protocol\n"
        "from curator import Tally\n"
        "assert short is long and protocol is psephos.protocol and Tally.__module__ == 'psephos.curator.old_tally'\n"
        "assert long.__spec__.name == 'psephos.protocol.paillier.keys'\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_the_package_is_typed() -> None:
    assert files("psephos").joinpath("py.typed").is_file()
