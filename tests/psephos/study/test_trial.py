"""The parts of a trial on one machine: its data, what it tells while it waits, and what it verifies at the end."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from psephos.audit.studies import trial
from psephos.model import written_model
from psephos.protocol.board import Board
from psephos.protocol.board.file import BoardFile
from psephos.protocol.errors import InvalidParameter, StudyError
from psephos.protocol.study.study import Study
from psephos.released import load_model
from psephos.study.identity import Identity, fingerprint
from psephos.study.member import MemberSettings, Membership
from psephos.study.trial import _serve, _verified, _wait, run_trial
from tests.verifier.recording import public_file, record


@pytest.mark.parametrize("roles", [3, 101])
def test_the_number_of_members_of_a_trial_is_limited(tmp_path: Path, roles: int) -> None:
    with pytest.raises(InvalidParameter, match=f"a trial has 4 to 100 members.*; not {roles}"):
        run_trial(roles, tmp_path / "trial", 256, False, print)
    assert list(tmp_path.iterdir()) == []


def test_a_trial_refuses_an_existing_folder(tmp_path: Path) -> None:
    for roles in (4, 100):
        with pytest.raises(FileExistsError):
            run_trial(roles, tmp_path, 256, False, print)


def line(role: str, status: str, message: str = "standing") -> str:
    return json.dumps({"message": message, "role": role, "said": status}) + "\n"


def logs(folder: Path, curator: str, party: str = "") -> None:
    (folder / "curator.log").write_text(curator)
    (folder / "party-0.log").write_text(party)


class Process:
    """Ends with this status after so many looks."""

    def __init__(self, looks: int, status: int = 0) -> None:
        self._looks, self._status, self.returncode = looks, status, None

    def poll(self) -> Any:
        if self._looks == 0:
            self.returncode = self._status  # type: ignore[assignment]
        self._looks -= 1
        return self.returncode


def test_a_failed_process_ends_a_trial_with_its_last_line(tmp_path: Path) -> None:
    for words, message in (("one\ntwo\n\n", "lab failed: two"), ("", "lab failed: 3")):
        (tmp_path / "lab.log").write_text(words)
        agents: Any = {"lab": Process(0, 3), "north": Process(-1)}
        with pytest.raises(StudyError, match=message):
            _wait(tmp_path, agents, print, 0.0)


def script(path: Path, text: str) -> str:
    """A program in the place of another one."""
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o700)
    return str(path)


MEMBER = """shift 4
echo "$1 $2 $OMP_NUM_THREADS" > $2.words
echo $$ > ${2%.toml}.pid
[ $1-$2 = agent-curator ] || exec sleep 100
for second in 1 2 3 4 5 6 7 8 9 10; do
    {} && exit 3
    sleep 1
done
exit 4
"""
"""The curator fails when all others run, or after ten seconds."""


def gone(folder: Path) -> set[str]:
    """The names of the programs that have written their numbers into files here, none of which runs any more."""
    pids = {file.stem: int(file.read_text()) for file in folder.rglob("*.pid")}
    for pid in pids.values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    return set(pids)


def test_a_trial_that_fails_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a member's nor the page's; each runs in the folder, with one thread, and has its own files."""
    page = ["study"] * all(map(find_spec, ("starlette", "uvicorn")))
    others = ["party-0", "party-1", "party-2", *page]
    text = MEMBER.replace("{}", " && ".join(f"[ -s {name}.pid ]" for name in others))
    monkeypatch.setattr(sys, "executable", script(tmp_path / "member", text))
    folder, lines = tmp_path / "a" / "trial", list[str]()
    with pytest.raises(StudyError, match="curator failed: 3"):
        run_trial(4, folder, 256, False, lines.append)
    assert gone(tmp_path) == {"curator", *others}
    study = Study.read(folder / "study.toml")
    for name in ("curator", *others[:3]):
        settings = Membership.find(Identity.read(folder / name), fingerprint(study.digest)).settings
        own = "" if name == "curator" else str(folder / f"{name}.csv")
        assert settings == MemberSettings(str(folder / "board.sqlite"), str(folder / "public.csv"), own)
        assert (folder / f"{name}.words").read_text() == f"agent {name} 1\n"
    assert lines[0].startswith(f"A trial in {folder}: a curator and 3 parties.")


def test_a_server_is_stopped_whatever_fails_after_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = f"[ $# -gt 1 ] || exit 0\necho $$ > {tmp_path}/server.pid\necho Server is ready\nexec sleep 100\n"
    monkeypatch.setattr("psephos.protocol.board.server.NATS_SERVER", script(tmp_path / "server", ready))

    def say(line: str) -> None:
        assert line.startswith("nats-server, with the board, at tls://127.0.0.1:")
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run_trial(4, tmp_path / "trial", 256, True, say)
    assert gone(tmp_path) == {"server"}


@pytest.mark.nats
def test_a_trial_starts_its_own_server(tmp_path: Path, nats_server: str) -> None:
    address, reading, server = _serve(tmp_path, trial().study)
    try:
        port = address.split(":")[2].split("?")[0]
        assert address == f"tls://127.0.0.1:{port}?ca={tmp_path / 'server' / 'ca.pem'}"
        assert reading == f"{address}&reader={tmp_path / 'server' / 'reader.password'}"
        assert server.poll() is None
    finally:
        server.kill()
        server.wait()


class Ended:
    """A trial that was played to its end under a key that was dealt, with everybody's files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        played = record("statistic", public_file(folder), epsilon=2.5)
        test = pd.DataFrame({"x": np.random.default_rng(2).normal(size=20), "z": ["yes", "no"] * 10})
        test.assign(diagnosis=["b", "a"] * 10).to_csv(folder / "test.csv", index=False)
        self.study, self.board = played.made.study, BoardFile(folder / "board.sqlite")
        for data in played.entries:
            self.board.post(data)
        model = played.evidence().model
        assert model is not None
        self.content, self.names = written_model(model), ["party-0", "curator"]
        for name in self.names:
            self.place(name).mkdir(parents=True)
            (self.place(name) / "model.json").write_bytes(self.content)

    def place(self, name: str) -> Path:
        return self.folder / name / fingerprint(self.study.digest) / "released"

    def verified(self, board: Board | None = None) -> str:
        return _verified(self.folder, str(self.folder / "board.sqlite"), self.study, self.names)


@pytest.fixture
def ended(tmp_path: Path) -> Iterator[Ended]:
    made = Ended(tmp_path)
    yield made
    made.board.close()


def test_a_trial_reports_verified_facts(ended: Ended) -> None:
    test = pd.read_csv(ended.folder / "test.csv")
    right = (load_model(ended.place("curator")).predict(test) == test["diagnosis"]).mean()
    assert f"right for {right:.1%} of 20 rows that no member has, at epsilon 2.5" in ended.verified()
    (ended.place("party-0") / "model.json").write_bytes(ended.content + b"\n")
    with pytest.raises(StudyError):
        ended.verified()


def test_a_trial_with_a_wrong_board_fails(ended: Ended) -> None:
    ended.study = replace(ended.study, title="Another")
    with pytest.raises(StudyError):
        ended.verified()
