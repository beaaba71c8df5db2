"""When a step is due, what is said of it, and where a role stands, in words; roles that a test writes down."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from psephos.protocol.agent import Agent, RejectedEntry
from psephos.protocol.board import Board, MemoryBoard
from psephos.protocol.errors import BoardError, JournalError, TooFewBallotsError
from psephos.protocol.storage.store import Store
from psephos.specs.terms import StudyTerms
from psephos.study import runner
from psephos.study.identity import fingerprint
from psephos.study.runner import MemberRunner
from tests.psephos.study.cast import AUXILIARY, Cast, DealtCast

STUDY = Cast("tally").made.study


COUNTED = "has counted {} ballots of 5, of which 3 are needed"
DONE = "done: the result is published"


# -- when a step is due


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Member:
    """What `MemberRunner` asks of a membership, without identities and files."""

    def __init__(self, folder: Path, cast: Cast, **fields: Any) -> None:
        cast.made = replace(cast.made, study=replace(cast.made.study, **fields))
        cast.terms = StudyTerms(cast.made.study, AUXILIARY)
        self.cast, self.study, self.folder = cast, cast.made.study, folder
        self.settings = SimpleNamespace(board=str(folder / "board"))
        self.identity = SimpleNamespace(key=None)
        self.stores: dict[str, Store] = {}
        self.checked, self.written = 0, list[bytes]()
        self.voter = SimpleNamespace(check=self._check)

    def _check(self) -> None:
        self.checked += 1

    def closing(self) -> Path:
        return self.folder / "close"

    def agent(self, name: str, board: Board) -> tuple[Agent, Store]:
        store = Store(self.folder / name)
        return self.cast.agent(name, board, store), store

    def write_release(self, content: bytes, board: Board) -> Path:
        self.written.append(content)
        return self.folder / "released"

    def play(self, names: Sequence[str], clock: Clock, lines: list[str] | None = None) -> MemberRunner:
        say = {} if lines is None else {"say": lines.append}
        return MemberRunner(self, names, clock=clock, **say)  # type: ignore[arg-type]


def settled(*plays: MemberRunner) -> dict[str, str]:
    while any([play.step(patient=True) for play in plays]):  # noqa: C419 - all of them take a turn
        pass
    return {role: text for play in plays for role, text in play.statuses()}


ALL = ["curator", *(f"party {n}" for n in range(5)), *(f"holder {n}" for n in (1, 2, 3))]


def test_a_member_runs_its_roles_to_the_result(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    member, clock, lines = Member(tmp_path, DealtCast("average")), Clock(), list[str]()
    with caplog.at_level(logging.INFO, logger="psephos.study"), member.play(ALL, clock, lines) as play:
        assert [seat.agent.role.name for seat in play.roles] == ALL
        assert member.checked == 5, "each party's classifier or rows, before it votes"
        assert not play.done
        assert play.released is None
        play.run()
        assert play.done
        assert play.failure == ""
        assert play.released == tmp_path / "released"
        assert set(dict(play.statuses()).values()) == {DONE}
        for seat in play.roles:
            assert seat.status == DONE
        play.step()
    assert member.written == [play.roles[0].agent.result.content]
    assert f"curator: {COUNTED.format(0)}" in lines
    assert lines.count(f"curator: {DONE}") == 1
    assert lines.count(f"the model and its card are in {tmp_path / 'released'}") == 1
    session = fingerprint(member.study.digest)
    records = [(record.message, record.about) for record in caplog.records]  # type: ignore[attr-defined]
    assert ("standing", {"study": session, "role": "curator", "said": DONE}) in records
    where = f"the model and its card are in {tmp_path / 'released'}"
    assert ("released", {"study": session, "role": "", "said": where}) in records
    for seat in play.roles:
        with pytest.raises(sqlite3.ProgrammingError):
            seat.store.get("play", b"since")
        with pytest.raises(sqlite3.ProgrammingError):
            list(seat.board.read(0))
    with member.play(["party 1"], clock) as again:
        assert member.checked == 5, "it has voted"
        assert again.done


def test_the_runner_closes_the_vote_at_the_closing_time(tmp_path: Path) -> None:
    clock = Clock()
    member = Member(tmp_path, DealtCast("average"), closes="2027-01-15T08:00:10Z", patience=60)
    with member.play([name for name in ALL if name != "party 4"], clock) as play:
        assert settled(play)["curator"] == COUNTED.format(4)
        clock.now += 9.999
        assert settled(play)["curator"] == COUNTED.format(4)
        clock.now += 0.001
        assert settled(play)["curator"] == DONE


def test_a_requested_close_is_retried_until_the_minimum(tmp_path: Path) -> None:
    clock, lines = Clock(), list[str]()
    member = Member(tmp_path, DealtCast("average"), patience=60)
    names = [name for name in ALL if name not in ("party 2", "party 3", "party 4")]
    with member.play(names, clock, lines) as play:
        assert settled(play)["curator"] == COUNTED.format(2)
        clock.now += 1000
        assert settled(play)["curator"] == COUNTED.format(2), "patience is not for the vote"
        member.closing().touch()
        settled(play)
        wait = "curator: cannot go on yet: "
        assert len([text for text in lines if text.startswith(wait)]) == 1
        for seconds, times in ((59.999, 1), (0.001, 2), (1.0, 2)):
            clock.now += seconds
            settled(play)
            assert len([text for text in lines if text.startswith(wait)]) == times
        clock.now += 60
        with pytest.raises(TooFewBallotsError):
            play.step()


def test_patience_ends_a_wait_across_restarts(tmp_path: Path) -> None:
    clock, lines = Clock(), list[str]()
    member = Member(tmp_path, DealtCast("average"), patience=60)
    with member.play([name for name in ALL if name != "party 4"], clock) as play:
        assert settled(play)["curator"] == COUNTED.format(4)
        play.roles.pop().store.close()  # holder 3 is gone
        member.closing().touch()
        settled(play)
        assert "2 of 3 holders have confirmed" in dict(play.statuses())["curator"]
    clock.now += 59.5
    with member.play(["curator"], clock, lines) as play:
        settled(play)
        assert not any("cannot go on yet" in text for text in lines)
        since = json.loads(play.roles[0].store.get("play", b"since") or b"")
        assert since == [[2, "VoteClosed", play.roles[0].agent.signed_entries], clock.now - 59.5, False]
        clock.now += 0.5
        settled(play)
        assert len([text for text in lines if "cannot go on yet" in text]) == 1
        since = json.loads(play.roles[0].store.get("play", b"since") or b"")
        assert since == [[2, "VoteClosed", play.roles[0].agent.signed_entries], clock.now, True]
        clock.now -= 10.0
        settled(play)
        since = json.loads(play.roles[0].store.get("play", b"since") or b"")
        assert since[1:] == [clock.now, False], "of a wait that began in the future"


def test_a_refused_entry_is_reported_once(tmp_path: Path) -> None:
    member, clock, lines = Member(tmp_path, DealtCast("average")), Clock(), list[str]()
    with member.play(["party 1"], clock, lines) as play:
        play.roles[0].board.post(bytes(100))
        settled(play)
        settled(play)
        assert lines[-1].startswith("party 1: refused entry 1 of a stranger: ")
        play.roles[0].agent.rejected.append(RejectedEntry(7, "party 2", BoardError("why")))
        settled(play)
        assert lines[-1] == "party 1: refused entry 7 of party 2: why"
        assert len([text for text in lines if "refused" in text]) == 2


def test_a_failing_board_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_LONGEST", 0.01)
    member, lines = Member(tmp_path, DealtCast("average")), list[str]()
    with member.play(["party 1"], Clock(), lines) as play:
        seat, failures = play.roles[0], list[str]()
        board = seat.agent._board

        class Fails(MemoryBoard):
            def read(self, after: int) -> Any:
                seat.agent._board = board
                raise BoardError("gone")

        seat.agent._board = Fails()

        def until() -> bool:
            failures.append(play.failure)
            return len(failures) > 2

        play.run(until)
        assert failures == ["", "gone", ""]
        assert "the board fails, and is tried again: gone" in lines
        seat.agent._board = Fails()
        with pytest.raises(BoardError, match="gone"):
            play.run_due_steps()


def test_an_agent_whose_board_is_down_at_the_start_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_LONGEST", 0.01)
    member, lines, failures, up = Member(tmp_path, DealtCast("average")), list[str](), list[str](), runner.open_board

    def down(*address: Any) -> Board:
        raise BoardError("no server is listening")

    monkeypatch.setattr(runner, "open_board", down)
    with member.play(["party 1"], Clock(), lines) as play:
        with pytest.raises(BoardError, match="listening"):
            play.run_due_steps()

        def until() -> bool:
            failures.append(play.failure)
            if len(failures) == 4:
                monkeypatch.setattr(runner, "open_board", up)
            return play.roles[0].agent.head.size > 0

        play.run(until)
        assert failures[1:4] == ["no server is listening"] * 3
        assert sum("no server is listening" in text for text in lines) == 1, "it says so once"
        assert play.roles[0].agent.head.size > 0


def test_a_failing_store_stops_its_role(tmp_path: Path) -> None:
    member, clock = Member(tmp_path, DealtCast("average"), patience=60), Clock()
    with member.play(["party 1"], clock) as play:
        settled(play)

        def broken() -> bool:
            raise JournalError("the disk failed")

        play.roles[0].agent.on_idle = broken  # type: ignore[method-assign]
        clock.now += 60
        with pytest.raises(JournalError):
            play.step(patient=True)
