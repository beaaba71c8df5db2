"""Mutants are tried one by one in copies of the project, each in a process of its own.

To import the project and collect its tests takes longer than most tests. So each copy has a process in which all of it
is loaded, and a mutant of a function's body is a fork of that, with the mutant's code in the function (`live`). What no
test notices there, and what is no function's body, is tried in a process that imports the changed file.

A mutant is killed by the first test that fails, or that uses far more processor time than it used to. What no test
notices is type-checked, as by `make lint`.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Container, Iterable, Iterator
from dataclasses import asdict
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tests.mutation.changes import Change
from tests.mutation.live import Loaded
from tests.mutation.selection import Selection, ordinary, processes

__all__ = ["Copy", "try_all"]

_LOADED = ["pytest", "hypothesis", "numpy", "scipy.stats", "scipy.optimize", "sklearn.linear_model", "sklearn.tree"]
_LOADED += ["pandas", "gmpy2", "phe", "cryptography.hazmat.primitives.asymmetric.ed25519", "cbor2"]
_LOADED += [
    "msgspec",
    "joblib",
    "typer",
    "rich",
    "tomli_w",
    "lazy_loader",
]
_LOADED += ["sklearn.ensemble", "sklearn.datasets", "sklearn.pipeline", "sklearn.compose", "sqlite3", "urllib.request"]
_LOADED += ["_hypothesis_pytestplugin", "hypothesis.strategies", "hypothesis.stateful", "hypothesis.extra.numpy"]
_ARGUMENTS = ["-x", "-p", "_hypothesis_pytestplugin", "-p", "no:cacheprovider", "--tb=no", "--no-header"]
_ARGUMENTS += ["--hypothesis-profile=mutants", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
_ALLOWED = (15, 3)
"""Seconds of processor time that a test of a mutant has, and that many times what it takes besides."""
_WAITING = 10
"""That many times as long it has on the clock: a mutant may wait for ever, and use none."""
_PASSED = (0, 5)
"""What pytest ends with when all passed, or when there were none."""
_Said = tuple[int, str, float] | None


class _Watch:
    """A pytest plugin that knows which test failed first, and stops the process when one takes too long."""

    failed = ""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        allowed = _ALLOWED[0] + _ALLOWED[1] * self._seconds.get(nodeid, self._seconds.get(nodeid.split("[")[0], 0))
        limit = int(sum(os.times()[:2]) + allowed) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        signal.setitimer(signal.ITIMER_REAL, _WAITING * allowed)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid


def _enter(copy: str) -> None:
    """The project is this copy from here on, and nothing of it is imported yet."""
    os.setpgrp()
    os.chdir(copy)
    for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "psephos")]:
        del sys.modules[name]
    sys.path.insert(0, copy)
    os.environ |= {"PYTHONPATH": copy, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    with Path(f"{copy}.log").open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    import hypothesis

    phases = [phase for phase in hypothesis.Phase if phase.name not in ("shrink", "explain")]
    slow = list(hypothesis.HealthCheck)
    hypothesis.settings.register_profile("mutants", deadline=None, phases=phases, suppress_health_check=slow)


def _try(tests: dict[str, float], answer: Connection) -> None:
    import pytest

    before, watch = sum(os.times()[:4]), _Watch(tests)
    slow = not tests.keys().isdisjoint(test for named in processes().values() for test in named)
    tiers = [] if slow else ["-m", ordinary(Path.cwd())]
    status = pytest.main([*_ARGUMENTS, *tiers, *tests], plugins=[watch])
    answer.send((int(status), watch.failed, sum(os.times()[:4]) - before))
    sys.stdout.flush()
    os._exit(0)  # an exit as usual waits for threads and processes that tests have left, perhaps for ever


def _import(copy: str, tests: dict[str, float], answer: Connection) -> None:
    """In a process of its own: all of the copy's code is imported here for the first time."""
    _enter(copy)
    _try(tests, answer)


def _fork(project: Loaded, change: tuple[str, str, str] | None, tests: dict[str, float], answer: Connection) -> None:
    os.setpgrp()
    random.seed()  # hypothesis draws from it
    if change is None or project.take(*change):
        _try(tests, answer)
    else:
        answer.send(None)


def _serve(copy: str, files: list[str], orders: Connection) -> None:
    """All of the copy and its tests are imported here; tests are run in forks."""
    import pytest

    _enter(copy)
    collected = pytest.main([*_ARGUMENTS, "--collect-only", *files])
    project, forks = Loaded(Path(copy)), multiprocessing.get_context("fork")
    orders.send(int(collected))
    while (order := orders.recv()) is not None:
        ours, theirs = forks.Pipe(duplex=False)
        process = forks.Process(target=_fork, args=(project, *order, theirs))
        process.start()
        theirs.close()
        orders.send(_said(process, ours, order[1]))


def _said(process: BaseProcess, answer: Connection, tests: dict[str, float]) -> _Said:
    """Exit status of pytest, negative when it was stopped; the first test that failed; processor seconds.

    None if `Loaded.take` could not make the mutant.
    """
    process.join(_WAITING * sum(_ALLOWED[0] + _ALLOWED[1] * seconds for seconds in tests.values()))
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid or 0, signal.SIGKILL)  # with the processes that tests have started
    process.join()
    try:
        return answer.recv()  # type: ignore[no-any-return]
    except EOFError:
        if process.exitcode not in (-signal.SIGKILL, -signal.SIGXCPU, -signal.SIGALRM):
            return 1, f"the process ended with {process.exitcode}", 0.0
        return -1, "", 0.0


class Copy:
    """A copy of the project, one change in it at a time."""

    def __init__(self, root: Path, place: Path, files: list[str]) -> None:
        self._root, self._place = root, place
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
        names += [str(path.relative_to(root)) for path in (root / "protocol").rglob("*.so")]
        shutil.rmtree(place, ignore_errors=True)
        for name in filter(None, names):
            if os.path.lexists(root / name):
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, place / name, follow_symlinks=False)
        if (root / ".mypy_cache").exists():
            shutil.copytree(root / ".mypy_cache", place / ".mypy_cache")
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload(_LOADED)
        self._orders, theirs = self._processes.Pipe()
        self._loaded = self._processes.Process(target=_serve, args=(str(place), files, theirs))
        self._loaded.start()
        theirs.close()
        if self._orders.recv():
            raise RuntimeError(f"the tests cannot be collected without any mutant: see {place}.log")

    @contextlib.contextmanager
    def _with_change(self, change: Change) -> Iterator[tuple[str, str]]:
        """The file's text before and after."""
        path = self._place / change.path
        before, when = path.read_text(), path.stat()
        after = change.apply(before)
        path.write_text(after)
        try:
            yield before, after
        finally:
            path.write_text(before)
            os.utime(path, ns=(when.st_atime_ns, when.st_mtime_ns))
            for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
                compiled.unlink()

    def fork(self, tests: dict[str, float], change: tuple[str, str, str] | None = None) -> _Said:
        """Run tests where all is loaded; with a change: a path, and its file's text before and after."""
        self._orders.send((change, tests))
        return self._orders.recv()  # type: ignore[no-any-return]

    def _run(self, tests: dict[str, float]) -> _Said:
        """Run tests in a process that imports the copy as it is."""
        ours, theirs = self._processes.Pipe(duplex=False)
        process = self._processes.Process(target=_import, args=(str(self._place), tests, theirs))
        process.start()
        theirs.close()
        return _said(process, ours, tests)

    def types(self, change: Change) -> bool:
        """Whether the type checker is content with a mutant."""
        environment = {name: value for name, value in os.environ.items() if name != "MYPYPATH"}
        command = [sys.executable, "-m", "mypy"]
        with self._with_change(change):
            done = subprocess.run(command, cwd=self._place, env=environment, capture_output=True, check=False)
        return done.returncode == 0

    def close(self) -> None:
        """The processes of this copy stay no longer."""
        self._orders.send(None)
        self._loaded.join()

    def verdict(self, change: Change, selection: Selection, afresh: bool) -> dict[str, Any]:
        """Try one: "killed" by a test that failed, by "time", or "survived"."""
        tests, outcome = selection.tests(change, all_=afresh), None
        with self._with_change(change) as (before, after):
            if tests and not afresh:
                outcome = self.fork(tests, (change.path, before, after))
            if tests and (outcome is None or outcome[0] in _PASSED):  # one test shows what an import comes to
                outcome = self._run(tests if afresh or outcome is None else dict([*tests.items()][:1]))
            status, failed, took = outcome or (0, "", 0.0)
            if status < 0:
                verdict = "time"
            elif status not in _PASSED:
                verdict = "killed"
            else:
                verdict = "survived"
        return {"verdict": verdict, "test": failed, "tests": len(tests), "seconds": round(took, 1)} | asdict(change)


def try_all(
    changes: Iterable[Change], root: Path, folder: Path, workers: int, survived: Container[str]
) -> Iterator[dict[str, Any]]:
    """What came of each, in the order in which they are done. Those that `survived` before are asked all tests."""
    selection, todo = Selection(root), iter(list(changes))
    done: SimpleQueue[dict[str, Any] | BaseException | None] = SimpleQueue()

    def work(number: int) -> None:
        try:
            copy = Copy(root, folder / f"copy-{number}", selection.files())
            for change in todo:
                done.put(copy.verdict(change, selection, change.name in survived))
            copy.close()
        except BaseException as error:
            done.put(error)
        done.put(None)

    for number in range(workers):
        threading.Thread(target=work, args=(number,), daemon=True).start()
    while workers:
        verdict = done.get()
        if isinstance(verdict, BaseException):
            raise verdict
        if verdict is None:
            workers -= 1
        else:
            yield verdict
