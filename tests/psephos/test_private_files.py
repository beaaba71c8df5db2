"""Files with secrets: nobody else can read them, not even at the moment they are created, and none stays behind."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from psephos.protocol.board.client import BoardMembers
from psephos.protocol.board.server import write_server
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.budget import BudgetFile
from psephos.protocol.storage.keyfiles import write_signing_key
from psephos.protocol.storage.store import OnceLedger, Store
from psephos.simulation.engines import LocalEngine
from psephos.study.identity import Identity


@pytest.fixture
def permissive(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A umask of 0, and permissions that cannot be changed: those that a file is created with stay for all to see."""
    for name in ("chmod", "fchmod"):
        monkeypatch.setattr(os, name, lambda *arguments, **more: None)
    monkeypatch.setattr(Path, "chmod", lambda *arguments, **more: None)
    before = os.umask(0)
    yield
    os.umask(before)


def store(folder: Path) -> None:
    with Store(folder / "private" / "store") as opened:
        OnceLedger(opened).do_once(b"claim", b"", lambda: b"secret")


WRITERS: dict[str, Callable[[Path], object]] = {
    "signing key": lambda folder: write_signing_key(folder / "signing", SigningKey.generate()),
    "store": store,
    "budget": lambda folder: BudgetFile(folder / "budget").close(),
    "identity": lambda folder: Identity.create("A", folder / "identity"),
    "server": lambda folder: write_server(folder / "server", BoardMembers(bytes(32), {}), ["localhost"]),
}


def readable(folder: Path) -> list[Path]:
    """Return the files below a folder that others can reach and read."""
    paths = []
    for path in folder.iterdir():
        mode = stat.S_IMODE(path.stat().st_mode)
        if path.is_dir() and mode & 0o077:
            paths += readable(path)
        elif path.is_file() and mode & 0o077:
            paths.append(path)
    return paths


@pytest.mark.parametrize("what", WRITERS)
def test_no_secret_is_readable_when_it_is_created(what: str, tmp_path: Path, permissive: None) -> None:
    WRITERS[what](tmp_path)
    assert list(tmp_path.iterdir())
    assert readable(tmp_path) == []


def _double(shared: int, task: int) -> int:
    if task < 0:
        raise ArithmeticError
    return 2 * shared * task


@pytest.mark.slow
# Joblib's manager thread may look for a task that closing the generator has just removed, and ends in a KeyError.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("end", ["done", "failed", "abandoned"])
def test_no_folder_of_the_workers_stays_behind(end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the rows of all simulated parties."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tasks = [partial(int, -1 if end == "failed" and task == 2 else task) for task in range(4)]
    results = LocalEngine(2).run(_double, 1, tasks)
    if end == "done":
        assert sorted(results) == [0, 2, 4, 6]
    elif end == "failed":
        with pytest.raises(ArithmeticError):
            list(results)
    else:
        next(results)
        assert list(tmp_path.glob("psephos-*"))
        results.close()  # type: ignore[attr-defined]
    assert not list(tmp_path.glob("psephos-*"))
