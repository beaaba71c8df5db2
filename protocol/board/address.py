"""Which board an address means. No paper behind it."""

from __future__ import annotations

from psephos.protocol.board import Board
from psephos.protocol.board.file import BoardFile
from psephos.protocol.errors import BoardError
from psephos.protocol.signing import SigningKey

__all__ = ["open_board"]


def open_board(address: str, session: bytes, name: str = "", key: SigningKey | None = None) -> Board:
    """The board of a study.

    Args:
        address: `tls://HOST:PORT?ca=FILE` or `nats://HOST:PORT` for a NATS server (`NatsBoard`), or a path, with or
            without `file:` before it (`BoardFile`).
        session: the digest of the study, 32 bytes.
        name: the role that posts; empty for whoever only reads.
        key: its signing key.

    Raises BoardError as these do; InvalidParameter for an address that is none.
    """
    if not address.startswith(("nats://", "tls://")):
        return BoardFile(address.removeprefix("file:"))
    try:
        from psephos.protocol.board.nats import NatsBoard
    except ModuleNotFoundError:
        raise BoardError("boards on a NATS server need nats-py: pip install 'psephos[nats]'") from None
    return NatsBoard(address, session, name, key)
