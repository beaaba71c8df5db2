"""What a server or a node that lies can do to the exchange: nothing that a board could not."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest

from psephos.audit.studies import trial
from psephos.flower.relay import Relay, answer, limited
from psephos.protocol.board import MOST_BYTES
from psephos.protocol.board.client import BoardClient, join_message
from psephos.protocol.board.file import BoardFile
from psephos.protocol.board.sealing import SealingKey
from psephos.protocol.errors import BoardError, StudyError
from psephos.protocol.roles import BOARD, Post
from psephos.protocol.study.study import Study
from psephos.study.identity import Identity
from psephos.study.member import sign
from tests.psephos.flower.test_federation import NAMES, prepare


@pytest.fixture
def joined(tmp_path: Path) -> tuple[Path, Study, Identity]:
    return tmp_path, prepare(tmp_path), Identity.read(tmp_path / NAMES[4])


def test_a_server_that_changes_or_leaves_out_entries_is_refused(joined: tuple[Path, Study, Identity]) -> None:
    _, study, party = joined
    size, own = answer(party, study.digest, 0, [])
    assert (size, len(own)) == (0, 1)
    assert answer(party, study.digest, 0, own) == (1, [])
    assert answer(party, study.digest, 0, own) == (1, []), "a message that came twice"
    lies = [(0, [b"other"]), (0, [own[0][:-1] + b"\xff"]), (2, [b"x"]), (-1, []), (0, [own[0][::-1], b"y"])]
    for after, entries in lies:
        with pytest.raises(BoardError):
            answer(party, study.digest, after, entries)
    assert answer(party, study.digest, 1, []) == (1, [])
    assert answer(party, study.digest, 1, [b"noise", own[0]])[0] == 3, "what no member signed is refused by each role"


def test_a_member_runs_only_studies_that_it_joined_with_a_copy(joined: tuple[Path, Study, Identity]) -> None:
    folder, study, party = joined
    with pytest.raises(StudyError):
        answer(party, secrets.token_bytes(32), 0, [])
    sign(study, party).keep(board=str(folder / "board.sqlite"))
    with pytest.raises(StudyError, match="copy:"):
        answer(party, study.digest, 0, [])


def test_an_error_of_a_role_does_not_leave_the_machine(joined: tuple[Path, Study, Identity]) -> None:
    folder, study, party = joined
    (folder / f"{NAMES[4]}.csv").write_text("a private row\n")
    assert answer(party, study.digest, 0, [])[0] == 0


def test_nodes_post_only_what_members_of_the_study_signed(tmp_path: Path) -> None:
    ours, theirs = trial(), trial(nonce=os.urandom(16))
    board = BoardFile(tmp_path / "board")
    relay = Relay(board, ours.study.members)

    def entry(who: str, made: object = ours) -> bytes:
        client = BoardClient(made.study.members, who, made.keys[who], None)  # type: ignore[attr-defined]
        key = SealingKey.generate().public
        return client.sign(Post(BOARD, join_message(made.study.digest, key), "join"))  # type: ignore[attr-defined]

    good = entry("party 1")
    forged = good[:-1] + bytes([good[-1] ^ 1])
    relay.receive(7, 0, [forged, entry("party 1", theirs), b"", bytes(MOST_BYTES + 1), good, good])
    assert [data for _, data in board.read(0)] == [good]
    relay.receive(8, 1, [good])
    assert (relay.up_to_date(7), relay.up_to_date(8)) == (False, True)
    assert (relay.next(7), relay.next(9)) == ((0, [good]), (0, []))
    assert [relay.receive(7, size, []) for size in (0, 0, 1)] == [False, False, True]  # of the entry that it was sent
    for size in (-1, 2):
        with pytest.raises(BoardError):
            relay.receive(7, size, [])


def test_a_message_is_limited() -> None:
    large = bytes(MOST_BYTES)
    for entries, taken in (([large, b"x"], 1), ([b"x", large], 1), ([b"x", b"y"], 2), ([], 0)):
        assert limited(entries) == entries[:taken]
