"""Mutants are tried one by one in copies of the project: each in a process of its own, whose libraries are loaded.

A mutant is killed by the first test that fails, or when its tests use far more processor time than they used to. What
no test notices is type-checked, as by `make lint`.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tests.mutation.changes import Change
from tests.mutation.selection import Selection

__all__ = ["Copy", "try_all"]

_LOADED = ["pytest", "hypothesis", "numpy", "scipy.stats", "scipy.optimize", "sklearn.linear_model", "sklearn.tree"]
_LOADED += ["pandas", "gmpy2", "phe", "cryptography.hazmat.primitives.asymmetric.ed25519", "cbor2", "dp_accounting.rdp"]
_LOADED += [
    "dp_accounting.pld.privacy_loss_distribution",
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
"""Seconds of processor time that a mutant has, and that many times what its tests take besides."""


class _Watch:
    """A pytest plugin that knows which test failed first."""

    failed = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid


def _run(copy: str, tests: list[str], seconds: int, answer: Connection) -> None:
    """In a process of its own: all of the copy's code is imported here for the first time."""
    os.setpgrp()
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    os.chdir(copy)
    for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "psephos")]:
        del sys.modules[name]
    sys.path.insert(0, copy)
    os.environ |= {"PYTHONPATH": copy, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    with Path(f"{copy}.log").open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    import hypothesis
    import pytest

    phases = [phase for phase in hypothesis.Phase if phase.name not in ("shrink", "explain")]
    slow = list(hypothesis.HealthCheck)
    hypothesis.settings.register_profile("mutants", deadline=None, phases=phases, suppress_health_check=slow)
    watch = _Watch()
    status = pytest.main([*_ARGUMENTS, *tests], plugins=[watch])
    answer.send((int(status), watch.failed, sum(os.times()[:4])))


class Copy:
    """A copy of the project, one change in it at a time."""

    def __init__(self, root: Path, place: Path) -> None:
        self._root, self._place = root, place
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
        names += [str(path.relative_to(root)) for path in (root / "protocol").rglob("*.so")]
        shutil.rmtree(place, ignore_errors=True)
        for name in filter(None, names):
            if os.path.lexists(root / name):
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, place / name, follow_symlinks=False)
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload(_LOADED)
        status, failed, _ = self.run(["tests/protocol/test_randomness.py"], 600)
        if status:
            raise RuntimeError(f"{failed or 'pytest'} fails without any mutant: see {place}.log")

    @contextlib.contextmanager
    def with_change(self, change: Change) -> Iterator[None]:
        path = self._place / change.path
        before, when = path.read_text(), path.stat()
        path.write_text(change.apply(before))
        try:
            yield
        finally:
            path.write_text(before)
            os.utime(path, ns=(when.st_atime_ns, when.st_mtime_ns))
            for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
                compiled.unlink()

    def run(self, tests: list[str], seconds: float) -> tuple[int, str, float]:
        """Exit status of pytest, negative when it was stopped; the first test that failed; processor seconds."""
        ours, theirs = self._processes.Pipe(duplex=False)
        process = self._processes.Process(target=_run, args=(str(self._place), tests, int(seconds), theirs))
        process.start()
        theirs.close()
        process.join(10 * seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)  # with the processes that tests have started
        process.join()
        try:
            return ours.recv()  # type: ignore[no-any-return]
        except EOFError:
            if process.exitcode not in (-signal.SIGKILL, -signal.SIGXCPU):
                raise RuntimeError(f"the tests could not be run: see {self._place}.log") from None
            return -1, "", seconds

    def types(self) -> bool:
        """Whether the type checker is content."""
        command = [sys.executable, "-m", "mypy.dmypy", "run", "--timeout", "1800"]
        return subprocess.run(command, cwd=self._place, capture_output=True, check=False).returncode == 0

    def close(self) -> None:
        """The type checker of this copy stays no longer."""
        command = [sys.executable, "-m", "mypy.dmypy", "stop"]
        subprocess.run(command, cwd=self._place, capture_output=True, check=False)

    def verdict(self, change: Change, selection: Selection) -> dict[str, Any]:
        """Try one: "killed" by a test that failed, by "time", by "types", or "survived"."""
        tests, seconds = selection.tests(change)
        with self.with_change(change):
            status, failed, took = self.run(tests, _ALLOWED[0] + _ALLOWED[1] * seconds) if tests else (0, "", 0.0)
            if status < 0:
                verdict = "time"
            elif status not in (0, 5):  # pytest: all passed, or there were none
                verdict = "killed"
            else:
                verdict = "survived" if self.types() else "types"
        return {"verdict": verdict, "test": failed, "tests": len(tests), "seconds": round(took, 1)} | asdict(change)


def try_all(changes: Iterable[Change], root: Path, folder: Path, workers: int) -> Iterator[dict[str, Any]]:
    """What came of each, in the order in which they are done."""
    selection, todo = Selection(root), iter(list(changes))
    done: SimpleQueue[dict[str, Any] | BaseException | None] = SimpleQueue()

    def work(number: int) -> None:
        try:
            copy = Copy(root, folder / f"copy-{number}")
            for change in todo:
                done.put(copy.verdict(change, selection))
            copy.close()
        except BaseException as error:
            done.put(error)
        done.put(None)

    for number in range(workers):
        threading.Thread(target=work, args=(number,), daemon=True).start()
    while workers:
        found = done.get()
        if isinstance(found, BaseException):
            raise found
        if found is None:
            workers -= 1
        else:
            yield found
