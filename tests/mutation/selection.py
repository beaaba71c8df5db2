"""Which tests a mutant has to pass: those that run its function, its module's own first, then the cheap ones.

tests.json is made by `python -m tests.mutation map` from runs of the suite under coverage (`record`). A test that is
not there any more is passed over; one that is new in the file named after the module (tests/parties/test_holder.py) is
asked.
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import coverage

from tests.mutation.changes import Change

__all__ = ["Selection", "build"]

_MAP = Path(__file__).with_name("tests.json")
_CONFIGURATION = Path(__file__).with_name("mutation.toml")
_SECONDS = 25.0
"""Of one function's tests together, as they took when they were recorded."""
_FIRST = 10.0
"""Of one mutant's tests together, until it has survived them once."""
_UNKNOWN = 0.5
"""What a test takes that is not in the map yet."""
_SHARED = ("tests/test_vectors.py", "tests/test_numbers.py", "tests/test_once.py")
"""Files that are about all modules, and quick."""
_EVERYWHERE = "tests/test_numbers.py::test_they_are_as_they_were"
"""Looks at the constants and fields of all modules, which no test runs: they are made by an import."""
_FROM_ONE_FILE = 6
"""Tests of one function from one file that is not named after its module."""


def build(recorded: Iterable[Path], root: Path) -> None:
    """tests.json from what `record` wrote; what it has of tests that were not run again stays."""
    kept = json.loads(_MAP.read_text()) if _MAP.exists() else {"seconds": {}}
    seconds: dict[str, float] = kept.pop("seconds")
    names, again = list(seconds), set[str]()
    ran: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for place in recorded:
        measured = json.loads(Path(f"{place}.seconds").read_text())
        seconds, again = seconds | measured, again | measured.keys()
        data = coverage.CoverageData(str(place))
        data.read()
        for path in data.measured_files():
            for line, tests in data.contexts_by_lineno(path).items():
                ran[str(Path(path).relative_to(root.resolve()))][line].update(filter(None, tests))
    chosen: dict[str, dict[str, list[str]]] = {}
    there = {path for path in {*ran, *kept} if path.endswith(".py") and (root / path).exists()}
    for path, lines in sorted((path, ran[path]) for path in there):
        places = {"": (1, max(lines, default=0))} | _functions((root / path).read_text())
        chosen[path] = {}
        for name, (a, b) in places.items():
            before = {names[number] for number in kept.get(path, {}).get(name, [])} - again
            found = before.union(*(lines[n] for n in range(a, b + 1) if n in lines))
            chosen[path][name] = _cheapest(path, found, seconds)
    used = sorted({test for functions in chosen.values() for tests in functions.values() for test in tests})
    numbers = {test: number for number, test in enumerate(used)}
    written = [f'"seconds": {json.dumps({test: round(seconds[test], 2) for test in used}, indent=0)}']
    for path, functions in chosen.items():
        rows = (f"{json.dumps(name)}: {[numbers[test] for test in tests]}" for name, tests in functions.items())
        written.append(f"{json.dumps(path)}: {{\n" + ",\n".join(rows) + "\n}")
    _MAP.write_text("{\n" + ",\n".join(written) + "\n}\n")


def _cheapest(path: str, tests: set[str], seconds: dict[str, float]) -> list[str]:
    taken: list[str] = []
    files: Counter[str] = Counter()
    first = (*_SHARED, _own(path))
    for test in sorted(tests, key=lambda test: (_file(test) not in first, seconds[test], test)):
        total = sum(seconds[other] for other in taken) + seconds[test]
        if total <= _SECONDS and (_file(test) == _own(path) or files[_file(test)] < _FROM_ONE_FILE):
            taken.append(test)
            files[_file(test)] += 1
    return taken


def _file(test: str) -> str:
    return test.split("::")[0]


def _own(path: str) -> str:
    """The file of tests that is named after a module."""
    place = Path(path)
    return str(Path("tests") / place.parent / f"test_{place.name}")


def _functions(source: str) -> dict[str, tuple[int, int]]:
    """First and last line of each function's body, by its own name after those it stands in."""
    found: dict[str, tuple[int, int]] = {}

    def visit(node: ast.AST, within: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = within
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{within}.{child.name}".lstrip(".")
                if not isinstance(child, ast.ClassDef):
                    found[name] = (child.body[0].lineno, child.body[-1].end_lineno or 0)
            visit(child, name)

    visit(ast.parse(source), "")
    return found


class Selection:
    """tests.json, and the tests that are there now."""

    def __init__(self, root: Path) -> None:
        self._processes = tomllib.loads(_CONFIGURATION.read_text())["processes"]
        content = json.loads(_MAP.read_text())
        self._seconds: dict[str, float] = content.pop("seconds")
        self._names, self._functions = list(self._seconds), content
        self._there = {
            f"{path.relative_to(root)}::{name}"
            for path in (root / "tests").rglob("test_*.py")
            for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
        }

    def files(self) -> list[str]:
        """Those with tests of what is mutated."""
        known, own = {test.split("[")[0] for test in self._seconds}, {_own(path) for path in self._functions}
        return sorted({_file(test) for test in self._there if test in known or _file(test) in own})

    def tests(self, change: Change, *, all_: bool) -> dict[str, float]:
        """The tests in the order in which they are run, with how long each takes: its function's, then its module's.

        Some seconds of them, or `all_`, with those of the file named after the module, which may run it in a process
        whose coverage is not recorded.
        """
        functions = self._functions.get(change.path, {})
        own = [test for test in sorted(self._there) if _file(test) == _own(change.path)]
        asked = [test for test in own if test not in self._seconds] + self._processes.get(change.path, [])
        asked += [_EVERYWHERE] if change.function not in functions or not change.function else []
        for function in (change.function, ""):
            asked += [self._names[number] for number in functions.get(function, [])]
        tests: dict[str, float] = {}
        for test in [*asked, *own] if all_ else asked:
            seconds = self._seconds.get(test, _UNKNOWN)
            if test.split("[")[0] in self._there and (all_ or not tests or sum(tests.values()) + seconds <= _FIRST):
                tests.setdefault(test, seconds)
        return tests
