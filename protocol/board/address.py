"""Open the board that an address names."""

from __future__ import annotations

from psephos.protocol.board import Board
from psephos.protocol.board.file import BoardFile
from psephos.protocol.errors import BoardError
from psephos.protocol.signing import SigningKey


def open_board(address: str, session: bytes, name: str = "", key: SigningKey | None = None) -> Board:
    """Open the board of a study for a role (with its signing key), or for reading only.

    The address is that of a NATS server (`NatsBoard`) or a path, with or without `file:` before it (`BoardFile`).
    Raises BoardError, also if nats-py is not installed; InvalidParameter for a malformed address.
    """
    if not address.startswith(("nats://", "tls://")):
        return BoardFile(address.removeprefix("file:"))
    try:
        from psephos.protocol.board.nats import NatsBoard
    except ModuleNotFoundError:
        raise BoardError("boards on a NATS server need nats-py; in a clone: pip install -e '.[nats]'") from None
    return NatsBoard(address, session, name, key)
