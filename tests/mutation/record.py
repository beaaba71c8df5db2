"""Which test runs which function, and how long it takes: a pytest plugin (`-p tests.mutation.record`).

Run by `python -m tests.mutation map`, with COVERAGE_FILE set.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

_recorder = coverage.Coverage(
    data_file=os.environ["COVERAGE_FILE"], source=["protocol", "parties", "curator", "psephos"]
)
_seconds: dict[str, float] = {}


def _name(nodeid: str) -> str:
    """A test's parameters are one test, but of those that are whole runs."""
    return nodeid if nodeid.startswith(("tests/test_vectors.py", "tests/test_once.py")) else nodeid.split("[")[0]


def pytest_sessionstart() -> None:
    """Everything from here on is recorded; what is imported by the tests' modules belongs to none of them."""
    _recorder.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A test's own context, with its fixtures."""
    _recorder.switch_context(_name(item.nodeid))
    try:
        return (yield)
    finally:
        _recorder.switch_context("")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """How long it took."""
    name = _name(report.nodeid)
    _seconds[name] = _seconds.get(name, 0.0) + report.duration


def pytest_sessionfinish() -> None:
    """Two files: coverage's, and the seconds beside it."""
    _recorder.stop()
    _recorder.save()
    Path(os.environ["COVERAGE_FILE"] + ".seconds").write_text(json.dumps(_seconds))
