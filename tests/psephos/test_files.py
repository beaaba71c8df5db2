"""A result's file replaces a file and nothing else, and is never readable to more users than it should be."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from psephos.cli.main import build
from psephos.cli.shared import OutputError
from psephos.files import write_atomically
from psephos.model import MODEL_FILE, written_model
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
