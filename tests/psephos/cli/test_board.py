"""`psephos board`: a server's configuration that the server takes, and boards that travel."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from psephos.cli.main import build
from psephos.protocol.board.file import BoardFile
from psephos.protocol.board.nats import nkey
from psephos.protocol.encrypted_sum.rounds import safe_confirmations
from psephos.protocol.errors import BoardError, InvalidParameter, StudyError
from psephos.protocol.signing import SigningKey
from psephos.protocol.study.study import Member, Study


def invoke(*words: object) -> Result:
    given = ["board", *map(str, words)]
    done = CliRunner().invoke(build(), given)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


@pytest.fixture
def study(tmp_path: Path) -> Study:
    parties = [SigningKey.generate().verification_key for _ in range(4)]
    made = Study(
        title="A trial", nonce=bytes(16), protocol="tally", method="soft", epsilon=1.0, delta=0.0, classes=("a", "b"),
        features=tuple("wxyz"), public_table=bytes(32), samples=4, minimum_ballots=3, key_bits=256, threshold=2,
        confirmations=safe_confirmations(3, 2), trial=True, curator=SigningKey.generate().verification_key,
        parties=tuple(Member(f"Hospital {n}", key, n + 1 if n < 3 else 0) for n, key in enumerate(parties)),
    )  # fmt: skip
    made.write(tmp_path / "study.toml")
    return made


def users(conf: str) -> dict[str, Any]:
    entries = [json.loads(line) for line in re.findall(r"^    (\{.*\})$", conf, re.MULTILINE)]
    return {user.get("nkey") or user["user"]: user["permissions"] for user in entries}


def test_server_permissions_are_limited_to_own_roles(study: Study, tmp_path: Path) -> None:
    done = invoke("init", tmp_path / "server", tmp_path / "study.toml", "--host", "board.example.org,192.0.2.7")
    conf = (tmp_path / "server" / "nats.conf").read_text()
    allowed = users(conf)
    assert allowed.keys() == {nkey(key) for key in study.members.keys.values()} | {"reader"}
    below = f"psephos.{study.digest.hex()[:16]}"
    for user, permissions in allowed.items():
        own = [f"{below}.{name.replace(' ', '-')}.*" for name, key in study.members.keys.items() if nkey(key) == user]
        assert [s for s in permissions["publish"]["allow"] if not s.startswith(("$JS.API.", "psephos-reading."))] == own
        assert permissions["subscribe"]["allow"] == [f"_INBOX.{user}.>"]
        assert not [s for s in permissions["publish"]["allow"] if "DELETE" in s or "PURGE" in s or "UPDATE" in s]
    password = (tmp_path / "server" / "reader.password").read_text().strip()
    assert password not in done.stdout + done.stderr, "others may look over one's shoulder"
    assert {path.name: path.stat().st_mode & 0o077 for path in (tmp_path / "server").iterdir()} | {
        "ca.pem": 0, "server.pem": 0
    } == dict.fromkeys(("ca.pem", "server.pem", "server.key", "nats.conf", "reader.password"), 0)  # fmt: skip
    with pytest.raises(BoardError, match="name a new folder"):
        invoke("init", tmp_path / "server", tmp_path / "study.toml")


@pytest.mark.nats
def test_nats_server_accepts_the_configuration(study: Study, tmp_path: Path, nats_server: str) -> None:
    invoke("init", tmp_path / "server", tmp_path / "study.toml")
    subprocess.run([nats_server, "-t", "-c", tmp_path / "server" / "nats.conf"], check=True, capture_output=True)


def test_export_and_import_of_a_board(tmp_path: Path) -> None:
    board = BoardFile(tmp_path / "board")
    board.post(b"1")
    assert "1 entries" in invoke("export", tmp_path / "board", tmp_path / "out").stdout
    assert "1 entries" in invoke("import", tmp_path / "copy", tmp_path / "out").stdout
    BoardFile(tmp_path / "copy").post(b"2")
    assert "1 entries" in invoke("export", tmp_path / "copy", tmp_path / "back").stdout
    assert "1 entries" in invoke("import", tmp_path / "board", tmp_path / "back").stdout
    assert [data for _, data in board.read(0)] == [b"1", b"2"]
    invoke("export", f"file:{tmp_path / 'board'}", tmp_path / "more", "--after", 1)
    invoke("import", tmp_path / "copy", tmp_path / "more")
    assert [data for _, data in BoardFile(tmp_path / "copy").read(0)] == [b"1", b"2"]


def test_missing_arguments_are_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError):
        invoke("export", tmp_path / "board", tmp_path / "out")
    with pytest.raises(InvalidParameter, match="--study"):
        invoke("export", "tls://host:4222", tmp_path / "out")
    copy = BoardFile(tmp_path / "copy", copy=True)
    copy.post(b"1")
    invoke("export", tmp_path / "copy", tmp_path / "out")
    with pytest.raises(BoardError):
        invoke("import", tmp_path / "board", tmp_path / "out")
    assert not (tmp_path / "board").exists()
