"""The file of a signing key: readable by its owner only, never overwritten; a damaged one is refused."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from psephos.protocol.errors import KeyFileError
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.keyfiles import read_signing_key, write_signing_key

KEY = SigningKey(bytes(range(32)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_signing_key(tmp_path / "key.json", KEY)
    return tmp_path / "key.json"


def test_the_fields_of_a_file(path: Path) -> None:
    """They are part of the format, which existing files have."""
    document = {"kty": "psephos signing key", "seed": bytes(range(32)).hex()}
    assert path.read_text() == json.dumps(document, indent=1) + "\n"
    assert read_signing_key(path).seed() == KEY.seed()


@pytest.mark.parametrize("umask", [0, 0o777])
def test_the_mode_does_not_depend_on_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_signing_key(tmp_path / "key.json", KEY)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "key.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o602, 0o610])
def test_a_file_that_others_can_access_is_refused(path: Path, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(KeyFileError):
        read_signing_key(path)
    path.chmod(0o600)
    read_signing_key(path)


def test_a_file_is_never_overwritten(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(KeyFileError):
        write_signing_key(path, SigningKey.generate())
    assert path.read_bytes() == before


_LIMITED = """
import resource, signal, sys
from psephos.protocol.errors import KeyFileError
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.keyfiles import read_signing_key, write_signing_key
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20, resource.RLIM_INFINITY))
try:
    write_signing_key(sys.argv[1], SigningKey.generate())
except KeyFileError as error:
    assert "cannot be written" in str(error), error
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    write_signing_key(sys.argv[1], SigningKey.generate())
    read_signing_key(sys.argv[1])
    sys.exit(0)
sys.exit(1)
"""


def test_a_file_is_written_completely_or_not_at_all(tmp_path: Path) -> None:
    """On a full disk nothing is left: an incomplete file could never be replaced, since none is overwritten."""
    subprocess.run([sys.executable, "-c", _LIMITED, str(tmp_path / "key.json")], check=True)
    assert [file.name for file in tmp_path.iterdir()] == ["key.json"]


def test_a_written_file_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both its content and its name in the folder are synchronised."""
    synced, fsync = dict[int, int](), os.fsync

    def noted(descriptor: int) -> None:
        synced[os.fstat(descriptor).st_ino] = os.fstat(descriptor).st_size
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    write_signing_key(tmp_path / "key", SigningKey.generate())
    assert synced.keys() == {(tmp_path / "key").stat().st_ino, tmp_path.stat().st_ino}
    assert synced[(tmp_path / "key").stat().st_ino] == (tmp_path / "key").stat().st_size, "all of it"


def test_a_missing_file_and_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError):
        read_signing_key(tmp_path / "nowhere.json")
    with pytest.raises(KeyFileError):
        write_signing_key(tmp_path / "no folder" / "x.json", KEY)


def test_every_truncation_is_refused(path: Path) -> None:
    content = path.read_bytes().rstrip()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(KeyFileError):
            read_signing_key(path)


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"null", b"[1]", b"3", b'"text"', b"{}", b"[" * 100_000, b'{"kty": "a share"}']
)
def test_other_files_are_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(KeyFileError):
        read_signing_key(path)


@pytest.mark.parametrize("wrong", [None, 5, 5.0, True, "", "!", "x", [], {}, "AA", -1])
def test_fields_of_another_type_are_refused_and_not_quoted(path: Path, wrong: Any) -> None:
    original = json.loads(path.read_text())
    for name in original:
        path.write_text(json.dumps({**original, name: wrong}))
        with pytest.raises(KeyFileError) as caught:
            read_signing_key(path)
        assert original["seed"] not in str(caught.value)
