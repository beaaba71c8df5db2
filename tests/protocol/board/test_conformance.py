"""What every board promises its readers and authors: a file, a server, and the memory of one process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from psephos.protocol.board import MOST_BYTES, Board, MemoryBoard
from psephos.protocol.board.file import BoardFile
from psephos.protocol.errors import BoardError, MessageError
from psephos.protocol.signing import SigningKey
from tests.protocol.board.servers import Offline, Stream

Open = Callable[[], Any]


@pytest.fixture(params=["memory", "file", "server"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Return a function that opens one board as often as it is called."""
    boards: list[Board] = []
    memory, stream, key = MemoryBoard(), Stream(), SigningKey.generate()

    def open_() -> Any:
        makes: dict[str, Open] = {
            "memory": lambda: memory,
            "file": lambda: BoardFile(tmp_path / "board"),
            "server": lambda: Offline("nats://host", stream, "party 3", key),
        }
        boards.append(makes[request.param]())
        return boards[-1]

    yield open_
    for board in boards:
        board.close()


def test_all_readers_see_one_order(opened: Open) -> None:
    one, other = opened(), opened()
    assert list(one.read(0)) == []
    for number in range(80):
        (one, other)[number % 2].post(b"%d" % number)
    entries = [(number + 1, b"%d" % number) for number in range(80)]
    assert list(one.read(0)) == list(other.read(0)) == list(opened().read(0)) == entries
    assert list(one.read(79)) == entries[79:]
    assert list(one.read(80)) == []


def test_entries_are_posted_while_others_are_read(opened: Open) -> None:
    board = opened()
    for data in (b"1", b"", b"3"):
        board.post(data)
    reading = iter(board.read(0))
    assert next(reading) == (1, b"1")
    board.post(b"4")
    assert [data for _, data in reading][:2] == [b"", b"3"]
    assert list(board.read(3)) == [(4, b"4")]


def test_a_board_that_has_lost_what_was_read_is_detected(opened: Open) -> None:
    board = opened()
    board.post(b"1")
    if isinstance(board, MemoryBoard):
        return
    with pytest.raises(BoardError):
        list(board.read(2))


@pytest.mark.slow
def test_entries_above_the_limit_are_refused(opened: Open) -> None:
    board = opened()
    with pytest.raises(MessageError):
        board.post(bytes(MOST_BYTES + 1))
    assert list(board.read(0)) == []
    board.post(bytes(MOST_BYTES))
    assert len(list(board.read(0))[-1][1]) == MOST_BYTES
