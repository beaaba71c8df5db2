"""Which test runs which function, and how long it takes: a pytest plugin (`-p tests.mutation.record`).

`tests.mutation.selection.record_missing` runs pytest with it. One record for each file of tests, in JSON: "seconds" of
each test, and the tests that "ran" each function of each module ("" is the whole module).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

from tests.mutation.selection import COMPLETE, functions_of, place_of_record

_ROOT = Path.cwd().resolve()
_recorder = coverage.Coverage(data_file=None, source=["protocol", "parties", "curator", "psephos"])
_recorder.set_option("run:disable_warnings", ["no-data-collected"])  # a file of which no test is run
_seconds: dict[str, float] = {}
_records: dict[str, Path] = {}


def _name(nodeid: str) -> str:
    """A test's parameters are one test, but of those that are whole runs."""
    return nodeid if nodeid.startswith(("tests/test_vectors.py", "tests/test_once.py")) else nodeid.split("[")[0]


def pytest_sessionstart() -> None:
    """Everything from here on is recorded; what is imported by the tests' modules belongs to none of them."""
    _recorder.start()


def pytest_collection_finish(session: pytest.Session) -> None:
    """The names of the records are those of the texts that are run, also when somebody edits them meanwhile."""
    for word in session.config.args:
        _records[word] = place_of_record(_ROOT, word)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """A test's own context, with its fixtures; after the last of a file, the file's record."""
    _recorder.switch_context(_name(item.nodeid))
    try:
        return (yield)
    finally:
        _recorder.switch_context("")
        file = item.nodeid.split("::")[0]
        if nextitem is None or nextitem.nodeid.split("::")[0] != file:
            _write(file)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """How long it took."""
    name = _name(report.nodeid)
    _seconds[name] = _seconds.get(name, 0.0) + report.duration


def pytest_sessionfinish(exitstatus: int) -> None:
    """Files without a test to run have a record as well; a run that was broken off makes none of those it missed."""
    _recorder.stop()
    for file, place in _records.items() if exitstatus in COMPLETE else ():
        if not place.exists():
            place.write_text(json.dumps({"file": file, "seconds": {}, "ran": {}}))


def _write(file: str) -> None:
    """The record of a file of tests; what was measured up to now is forgotten."""
    _recorder.stop()
    data, ran = _recorder.get_data(), dict[str, dict[str, list[str]]]()
    for measured in (path for path in data.measured_files() if path.endswith(".py")):  # templates are measured, too
        lines = data.contexts_by_lineno(measured)
        functions = {"": (1, max(lines, default=0))} | functions_of(Path(measured).read_text())
        tests = {
            name: sorted({test for n in range(first, last + 1) for test in lines.get(n, ()) if _is_of(test, file)})
            for name, (first, last) in functions.items()
        }
        ran[str(Path(measured).resolve().relative_to(_ROOT))] = {name: names for name, names in tests.items() if names}
    seconds = {test: round(took, 2) for test, took in _seconds.items() if _is_of(test, file)}
    _records[file].write_text(json.dumps({"file": file, "seconds": seconds, "ran": ran}))
    _recorder.erase()
    _recorder.start()


def _is_of(test: str, file: str) -> bool:
    return test.split("::")[0] == file
