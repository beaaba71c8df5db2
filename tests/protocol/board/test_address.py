"""`open_board`: paths, and malformed addresses of servers. `test_nats` contains the rest of the addresses."""

from __future__ import annotations

from pathlib import Path

from psephos.protocol.board.address import open_board
from psephos.protocol.board.file import BoardFile


def test_a_path_opens_a_board_in_a_file(tmp_path: Path) -> None:
    for address in (f"{tmp_path}/a", f"file:{tmp_path}/a", f"{tmp_path}/file:a"):
        board = open_board(address, bytes(32))
        assert isinstance(board, BoardFile)
        assert str(board) == address.removeprefix("file:")
        assert not board.copy
        board.close()
    assert {path.name for path in tmp_path.iterdir()} == {"a", "file:a"}
