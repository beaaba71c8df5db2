"""The board shows everything to everybody; the ledger remembers, across processes, what must happen once."""

from __future__ import annotations

import fcntl
import hashlib
import json
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from psephos.parties.old_holder import KeyHolder
from psephos.protocol.encrypted_sum.board import Board
from psephos.protocol.errors import KeyFileError, MessageError, PsephosError
from psephos.protocol.storage.ledger import OnceLedger

A, B = hashlib.sha256(b"a").digest(), hashlib.sha256(b"b").digest()


def test_every_observer_sees_every_message_in_order() -> None:
    board, early, late = Board(), [], []  # type: ignore[var-annotated]
    board.watch(early.append)
    for message in (b"one", b"two"):
        assert board.post(message) == []
    board.watch(late.append)
    board.post(b"three")
    assert early == late == board.messages == [b"one", b"two", b"three"]
    assert (board.posted, board.bytes_posted) == (3, 11)


def test_a_board_that_forgets() -> None:
    board, seen = Board(keep=False), []  # type: ignore[var-annotated]
    board.watch(seen.append)
    board.post(b"one")
    assert (board.messages, seen, board.posted) == ([], [b"one"], 1)


def test_an_observer_that_refuses_hides_nothing_from_others() -> None:
    def picky(message: bytes) -> None:
        if message == b"bad":
            raise MessageError("bad")

    board, seen = Board(), []  # type: ignore[var-annotated]
    board.watch(picky)
    board.watch(seen.append)
    assert [type(refusal) for refusal in board.post(b"bad")] == [MessageError]
    assert board.post(b"good") == []
    assert seen == [b"bad", b"good"]
    assert len(board.watch(picky)) == 1  # a latecomer sees what came after the bad one, too
    board.post(b"bad")
    assert seen[-1] == b"bad"


def test_ballots_on_a_board_reach_every_holder(election: Any) -> None:
    board = Board()
    holders = [KeyHolder(share, election.round) for share in election.shares]
    for holder in holders:
        board.watch(holder.observe)
    board.post(election.ballot(0).encode())
    assert len(board.post(b"no ballot")) == 3
    board.post(election.ballot(1).encode())
    assert [holder._seen.parties for holder in holders] == [(0, 1)] * 3


@pytest.fixture(params=["memory", "disk"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> OnceLedger:
    return OnceLedger(None if request.param == "memory" else tmp_path / "ledger")


def test_a_claim_succeeds_once(ledger: OnceLedger) -> None:
    assert [ledger.claim(d) for d in (A, A, B, A, B)] == [True, False, True, False, False]


def test_claims_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    assert OnceLedger(path).claim(A)
    assert not OnceLedger(path).claim(A)
    assert OnceLedger(path).claim(B)
    assert path.read_text() == f"{A.hex()}\n{B.hex()}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "content",
    [
        b"x",
        b"\n",
        A.hex().encode(),  # no end of line: the write was cut short
        A.hex().encode()[:-1] + b"\n",
        A.hex().encode() + b"\n" + B.hex().encode()[:10],
        A.hex().upper().encode() + b"\n",
        A.hex().encode() + b"\n\n",
        b"\xff" * 64 + b"\n",
        A.hex().encode() + B.hex().encode() + b"\n",
    ],
)
def test_a_damaged_ledger_refuses_everything(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ledger"
    path.write_bytes(content)
    for digest in (A, B):
        with pytest.raises(KeyFileError, match="damaged"):
            OnceLedger(path).claim(digest)
    assert path.read_bytes() == content


def test_a_ledger_that_cannot_be_opened_refuses(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="cannot be opened"):
        OnceLedger(tmp_path / "no folder" / "ledger").claim(A)
    with pytest.raises(KeyFileError, match="cannot be opened"):
        OnceLedger(tmp_path).claim(A)


_CLAIMS = """
import hashlib, json, sys
from psephos.protocol.storage.ledger import OnceLedger
sys.stdin.readline()
print(json.dumps([OnceLedger(sys.argv[1]).claim(hashlib.sha256(bytes([i])).digest()) for i in range(20)]))
"""


def test_of_several_processes_one_claims(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _CLAIMS, str(tmp_path / "ledger")]
    workers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    claims = [json.loads(worker.communicate(timeout=60)[0]) for worker in workers]
    assert [sum(column) for column in zip(*claims, strict=True)] == [1] * 20


def test_a_claim_waits_for_one_that_is_being_written(tmp_path: Path) -> None:
    """Somebody holds the lock and has not written yet: a claim that looked now would see nothing, and succeed."""
    path, results = tmp_path / "ledger", []  # type: ignore[var-annotated]
    claimant = threading.Thread(target=lambda: results.append(OnceLedger(path).claim(A)))
    with path.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        claimant.start()
        claimant.join(0.3)  # ample for a claim that does not wait; one that waits is not measured by it
        other.write(A.hex() + "\n")
        other.flush()
        fcntl.flock(other, fcntl.LOCK_UN)
        claimant.join(60)
    assert results == [False]


def test_errors_of_the_ledger_are_ours() -> None:
    assert issubclass(KeyFileError, PsephosError)
