"""Choosing an engine, and what a local one does with tasks and failures (its part in a sum: test_encrypted_sum)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from psephos import __version__
from psephos.protocol.errors import EngineError, InvalidParameter
from psephos.simulation.engines import LocalEngine, _with_version, make_engine


@pytest.mark.parametrize(
    ("name", "options"),
    [("local", {"scheduler": "a:1"}), ("dask", {}), ("ray", {}), ("spark", {}), ("local", {"workers": 0})],
    ids=str,
)
def test_invalid_engines_are_refused(name: str, options: dict) -> None:
    with pytest.raises(InvalidParameter):
        make_engine(name, **options)


def add(shared: dict, task: int) -> tuple[int, bool]:
    array = shared["array"]
    return int(array[task]) + task, bool(array.flags.writeable)


def fail(shared: None, task: int) -> int:
    raise ZeroDivisionError(task)


def test_a_worker_of_another_version_computes_nothing() -> None:
    """One that joined after the run had compared the versions of the workers that it found."""
    shared = {"array": np.arange(10)}
    assert _with_version(__version__, add, shared, 3)[0] == 6
    with pytest.raises(EngineError):
        _with_version("0.0", add, shared, 3)


def test_every_task_runs_once_in_this_process() -> None:
    made: list[int] = []

    def task(number: int) -> int:
        made.append(number)
        return number

    results = LocalEngine(1).run(add, {"array": np.arange(10)}, [partial(task, n) for n in range(10)])
    assert next(results)[0] == 0
    assert made == [0], "tasks are made as they are needed"
    assert [value for value, _ in results] == [2 * n for n in range(1, 10)]


def test_every_task_runs_once_in_workers() -> None:
    tasks = [partial(int, n) for n in range(40)]
    # operator-like functions that workers can import without this module
    results = LocalEngine(2).run(np.take, np.arange(40) * 3, tasks)
    assert sorted(int(value) for value in results) == [3 * n for n in range(40)]


def test_exceptions_of_tasks_are_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        list(LocalEngine(1).run(fail, None, [partial(int, 1)]))
    with pytest.raises(IndexError):
        list(LocalEngine(2).run(np.take, np.arange(3), [partial(int, 5), partial(int, 6)]))


def test_a_full_disk_for_shared_arrays_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import joblib

    def full(value: object, path: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(joblib, "dump", full)
    with pytest.raises(EngineError, match=r"No space left.*TMPDIR"):
        list(LocalEngine(2).run(np.take, np.arange(3), [partial(int, 1)]))
