"""Which tests a mutant has to pass: those that run its function, its module's own first, then the cheap ones.

Which test runs what is recorded under coverage, one record for each file of tests, in `build/mutants/tests`. A record
holds as long as the file's text does, so that only new and changed files are recorded again (`record_missing`). Of the
tiers (pyproject.toml) only `slow` is recorded and asked, and the tests that mutation.toml names.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from tests.mutation.changes import Change

__all__ = [
    "COMPLETE",
    "Selection",
    "files_about",
    "functions_of",
    "ordinary",
    "place_of_record",
    "processes",
    "record_missing",
    "test_files",
]

_CONFIGURATION = Path(__file__).with_name("mutation.toml")
COMPLETE = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
"""How pytest ends when it has run all tests that it was asked for."""
_FIRST = 10.0
"""Seconds that one mutant's tests take together, as recorded, until it has survived them once."""
_AGAIN = 60.0
"""Seconds of one function's tests together, for a mutant that has survived."""
_UNKNOWN = 0.5
"""What a test takes that was not recorded."""
_SHARED = ("tests/test_vectors.py", "tests/test_numbers.py", "tests/test_once.py")
"""Files that are about all modules, and quick."""
_EVERYWHERE = "tests/test_numbers.py::test_public_numbers_are_unchanged"
"""Looks at the constants and fields of all modules, which no test runs: they are made by an import."""
_FROM_ONE_FILE = 6
"""Tests of one function from one file that is not named after its module, until a mutant has survived once."""


def ordinary(root: Path) -> str:
    """The expression for pytest's `-m` that leaves the tiers out, but for `slow`."""
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    tiers = [marker.partition(":")[0] for marker in settings["markers"]]
    return f"not ({' or '.join(tier for tier in tiers if tier != 'slow')})"


def processes() -> dict[str, list[str]]:
    """By module: tests that run it in processes of their own, as mutation.toml lists them."""
    return dict(tomllib.loads(_CONFIGURATION.read_text())["processes"])


def test_files(root: Path) -> list[str]:
    """Every file of tests, as a path from the root."""
    return sorted(str(path.relative_to(root)) for path in (root / "tests").rglob("test_*.py"))


def place_of_record(root: Path, file: str) -> Path:
    """Where the record of a file of tests is, or will be: named after the file's path and text."""
    key = sha256(f"{file}\n{(root / file).read_text()}".encode()).hexdigest()[:16]
    return root / "build" / "mutants" / "tests" / f"{key}.json"


def files_about(modules: Iterable[str], root: Path) -> list[str]:
    """The files of tests that may run these modules (paths from the root): those that are about all modules, those
    named after a module, and those that name one."""
    names = {module: _dotted(module) for module in modules}
    own = {_own(module) for module in names}
    mentioned = re.compile("|".join(rf"{re.escape(name)}\b" for name in names.values()) or r"(?!)")
    return [
        file
        for file in test_files(root)
        if file in _SHARED or file in own or mentioned.search((root / file).read_text())
    ]


def _dotted(module: str) -> str:
    name = module.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    return name if name.startswith("psephos") else f"psephos.{name}"


def record_missing(files: Iterable[str], root: Path, workers: int) -> int:
    """Run these files of tests under coverage, as far as they have no record; returns how many that were.

    Raises RuntimeError if a file has no record then: one that was not run would let its mutants survive.
    """
    todo = [file for file in files if not place_of_record(root, file).exists()]
    place_of_record(root, __file__).parent.mkdir(parents=True, exist_ok=True)
    plugins = ["-p", "tests.mutation.record", "-p", "no:randomly", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    command = [sys.executable, "-m", "pytest", *plugins, "--tb=no", "-m", ordinary(root)]
    logs = [root / "build" / "mutants" / f"record-{number}.log" for number in range(workers)]
    running = []
    for number, log in enumerate(logs):
        if own := todo[number::workers]:
            with log.open("w") as output:
                running.append(subprocess.Popen([*command, *own], cwd=root, stdout=output, stderr=output))
    for process in running:
        process.wait()
    without = [file for file in todo if not place_of_record(root, file).exists()]
    if without:
        raise RuntimeError(f"these tests were not recorded, see {logs[0].parent}/record-*.log: {' '.join(without)}")
    return len(todo)


def _few_of_each_file(path: str, tests: list[str]) -> list[str]:
    few: list[str] = []
    files: Counter[str] = Counter()
    for test in tests:
        if _file(test) == _own(path) or files[_file(test)] < _FROM_ONE_FILE:
            few.append(test)
            files[_file(test)] += 1
    return few


def _cheapest(tests: Iterable[str], seconds: dict[str, float], limit: float) -> list[str]:
    """The tests that fit into some seconds, in their order."""
    fitting, total = list[str](), 0.0
    for test in tests:
        if total + seconds[test] <= limit:
            fitting.append(test)
            total += seconds[test]
    return fitting


def _file(test: str) -> str:
    return test.split("::")[0]


def _own(path: str) -> str:
    """The file of tests that is named after a module."""
    place = Path(path)
    return str(Path("tests") / place.parent / f"test_{place.name}")


def functions_of(source: str) -> dict[str, tuple[int, int]]:
    """First and last line of each function's body, by its own name after those it stands in."""
    functions: dict[str, tuple[int, int]] = {}

    def visit(node: ast.AST, within: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = within
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{within}.{child.name}".lstrip(".")
                if not isinstance(child, ast.ClassDef):
                    functions[name] = (child.body[0].lineno, child.body[-1].end_lineno or 0)
            visit(child, name)

    visit(ast.parse(source), "")
    return functions


class Selection:
    """What was recorded of the tests that are there now."""

    def __init__(self, root: Path) -> None:
        self._processes = processes()
        self._seconds: dict[str, float] = {}
        ran: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for file in test_files(root):
            if (record := place_of_record(root, file)).exists():
                content = json.loads(record.read_text())
                self._seconds |= content["seconds"]
                for path, functions in content["ran"].items():
                    for function, tests in functions.items():
                        ran[path][function].update(tests)
        self._functions = {
            path: {name: sorted(tests, key=partial(self._order, path)) for name, tests in functions.items()}
            for path, functions in ran.items()
        }
        self._there = {
            f"{file}::{name}"
            for file in test_files(root)
            for name in re.findall(r"^def (test_\w+)", (root / file).read_text(), re.MULTILINE)
        }

    def _order(self, path: str, test: str) -> tuple[bool, float, str]:
        """Tests of a module's own file and of those about all modules first, then the quickest."""
        return _file(test) not in (*_SHARED, _own(path)), self._seconds[test], test

    def files(self) -> list[str]:
        """Those with tests of what is mutated."""
        known, own = {test.split("[")[0] for test in self._seconds}, {_own(path) for path in self._functions}
        return sorted({_file(test) for test in self._there if test in known or _file(test) in own})

    def tests(self, change: Change, *, all_: bool) -> dict[str, float]:
        """The tests in the order in which they are run, with how long each takes: its function's, then its module's.

        Ten seconds of them, few of each file, or `all_` that take a minute, with those of the file named after the
        module, which may run it in a process whose coverage is not recorded.
        """
        functions = self._functions.get(change.path, {})
        own = [test for test in sorted(self._there) if _file(test) == _own(change.path)]
        candidates = [test for test in own if test not in self._seconds] + self._processes.get(change.path, [])
        candidates += [_EVERYWHERE] if change.function not in functions or not change.function else []
        for function in (change.function, ""):
            known = functions.get(function, [])
            if all_:
                candidates += _cheapest(known, self._seconds, _AGAIN)
            else:
                candidates += _few_of_each_file(change.path, known)
        tests: dict[str, float] = {}
        for test in [*candidates, *own] if all_ else candidates:
            seconds = self._seconds.get(test, _UNKNOWN)
            if test.split("[")[0] in self._there and (all_ or not tests or sum(tests.values()) + seconds <= _FIRST):
                tests.setdefault(test, seconds)
        return tests
