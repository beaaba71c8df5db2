"""A file replaces a file and nothing else, and is never readable to more users than it should be, nor stays behind."""

from __future__ import annotations

import os
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from psephos.cli.main import build
from psephos.cli.shared import OutputError
from psephos.files import write_atomically
from psephos.model import MODEL_FILE, written_model
from psephos.protocol.board.client import BoardMembers
from psephos.protocol.board.server import write_server
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.budget import BudgetFile
from psephos.protocol.storage.keyfiles import write_signing_key
from psephos.protocol.storage.store import OnceLedger, Store
from psephos.simulation.engines import LocalEngine
from psephos.study.identity import Identity
from tests.psephos.test_model import MODELS, TABLE


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_permissions_are_those_of_the_umask_of_the_file_or_the_stated_ones(tmp_path: Path) -> None:
    path = tmp_path / "out"
    write_atomically(path, b"1")
    assert mode(path) == 0o640
    for kept in (0o600, 0o644, 0o400):
        path.chmod(kept)
        write_atomically(path, b"2")
        assert (mode(path), path.read_bytes()) == (kept, b"2")
    write_atomically(path, b"3", mode=0o600)
    assert mode(path) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_is_never_readable_to_more_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").touch(0o600)
    monkeypatch.setattr(os, "fchmod", lambda *_: None)
    os.umask(0)
    write_atomically(tmp_path / "there", b"secret")
    write_atomically(tmp_path / "new", b"secret", mode=0o640)
    assert {mode(path) for path in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_and_its_file_is_written(tmp_path: Path, exists: bool) -> None:
    (tmp_path / "folder").mkdir()
    real = tmp_path / "folder" / "real"
    if exists:
        real.touch(0o600)
    link = tmp_path / "link"
    link.symlink_to("folder/real")
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert (real.read_bytes(), mode(real)) == (b"new", 0o600 if exists else 0o640)


def make(kind: str, path: Path) -> None:
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/null")


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_what_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "it"
    make(kind, path)
    before = path.lstat()
    with pytest.raises(OSError, match="and not a file") as refused:
        write_atomically(path, b"x")
    assert refused.value.filename == str(path)
    assert os.path.samestat(before, path.lstat())
    assert list(tmp_path.iterdir()) == [path]


def predict(folder: Path, output: Path) -> None:
    (folder / MODEL_FILE).write_bytes(written_model(MODELS[0]))
    TABLE.to_csv(folder / "t.csv", index=False)
    done = CliRunner().invoke(build(), ["predict", str(folder), str(folder / "t.csv"), "--output", str(output)])
    if done.exception is not None:
        raise done.exception


def test_predictions_are_private_and_written_to_pipes_and_devices(tmp_path: Path) -> None:
    output = tmp_path / "out.csv"
    predict(tmp_path, output)
    assert mode(output) == 0o600
    output.chmod(0o644)
    predict(tmp_path, output)
    assert mode(output) == 0o644
    make("device", tmp_path / "null")
    predict(tmp_path, tmp_path / "null")
    assert stat.S_ISCHR((tmp_path / "null").stat().st_mode)
    make("pipe", tmp_path / "pipe")
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append((tmp_path / "pipe").read_text()))
    reader.start()
    predict(tmp_path, tmp_path / "pipe")
    reader.join(10)
    assert received == [output.read_text()]
    with pytest.raises(OutputError):
        predict(tmp_path, tmp_path)


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
