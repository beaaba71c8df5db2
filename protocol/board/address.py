"""Open the board that an address names."""

from __future__ import annotations

from psephos.protocol.board import Board
from psephos.protocol.board.file import BoardFile
from psephos.protocol.errors import BoardError
from psephos.protocol.signing import SigningKey


def file_path(address: str) -> str:
    """Return the path in the address of a board in a file."""
    return address.removeprefix("file:").removeprefix("copy:")


def open_board(address: str, session: bytes, name: str = "", key: SigningKey | None = None) -> Board:
    """Open the board of a study for a role (with its signing key), or for reading only.

    The address is that of a NATS server (`NatsBoard`) or a path, with or without `file:` before it (`BoardFile`);
    `copy:` before it creates a copy of a board, which waits for entries, if there is no file.
    Raises BoardError, also if nats-py is not installed; InvalidParameter for a malformed address.
    """
    if not address.startswith(("nats://", "tls://")):
        return BoardFile(file_path(address), copy=address.startswith("copy:"))
    try:
        from psephos.protocol.board.nats import NatsBoard
    except ModuleNotFoundError:
        raise BoardError("boards on a NATS server need nats-py; in a clone: pip install -e '.[nats]'") from None
    return NatsBoard(address, session, name, key)
