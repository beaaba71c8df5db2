"""`psephos board ...`: configure a NATS server for a study, and carry boards as files between machines."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from psephos.cli.generate import command
from psephos.cli.shared import emit, note
from psephos.cli.study import StudyFile, existing
from psephos.protocol.board.address import open_board
from psephos.protocol.board.file import BoardFile, ExportFile
from psephos.protocol.board.file import export as write
from psephos.protocol.board.server import write_server
from psephos.protocol.errors import BoardError, InvalidParameter
from psephos.protocol.study.study import Study

Where = Annotated[str, typer.Argument(help="The board: a file, or tls://HOST:PORT?ca=FILE of a NATS server.")]


app = typer.Typer(rich_markup_mode=None)
group = typer.Typer(
    help="Boards: the public log through which the roles of a study exchange messages.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(group, name="board")


@command(group, "psephos board init server study.toml --host board.example.org,192.0.2.7")
def init(
    folder: Annotated[Path, typer.Argument(help="A new directory for the server's files.")],
    study: StudyFile,
    host: Annotated[str, typer.Option(help="Names and addresses of the server, A,B,C.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port that it listens on.")] = 4222,
    gigabytes: Annotated[int, typer.Option(min=1, help="The most disk space that it uses.")] = 20,
) -> None:
    """Write the configuration of a NATS server for a study, with certificates for a trial."""
    hosts = [name.strip() for name in host.split(",") if name.strip()]
    reader_address = write_server(folder, Study.read(study).members, hosts, port, gigabytes)
    note(
        f"start it:          nats-server -c {shlex.quote(str(folder / 'nats.conf'))}\n"
        f"send to everybody: {folder / 'ca.pem'}, and the address {shlex.quote(f'tls://{hosts[0]}:{port}?ca=ca.pem')}\n"
        "The certificates are for a trial and expire after 90 days; in a study, server.pem and server.key come\n"
        "from an authority that its members trust. Watchers and auditors, who only read, are sent ca.pem and\n"
        "reader.password, by a way that nobody else reads, and use this address:"
    )
    emit(f"{reader_address}\n")


@command(
    group, "psephos board export board.sqlite entries-1", "psephos board export board.sqlite entries-2 --after 120"
)
def export(
    board: Where,
    file: Annotated[Path, typer.Argument(help="The new file to write.")],
    after: Annotated[int, typer.Option(min=0, help="Only entries with a larger number.")] = 0,
    study: Annotated[Path | None, typer.Option(help="The study, if the board is on a server.")] = None,
) -> None:
    """Write the entries of a board into a file; of a copy, the messages that wait to be posted on the board."""
    if "://" in board and study is None:
        raise InvalidParameter("no study was named, and a server may have several boards: add --study study.toml")
    opened = open_board(existing(board), b"" if study is None else Study.read(study).digest)
    try:
        count = write(opened, file, after)
    finally:
        opened.close()
    emit(f"{count} entries are in {file}\n")


@command(
    group,
    "psephos board import copy.sqlite entries-1",
    "psephos board import board.sqlite to-be-posted",
    name="import",
)
def import_(
    board: Annotated[Path, typer.Argument(help="A board in a file, or a copy of one; created if missing.")],
    file: Annotated[Path, typer.Argument(help="A file that `psephos board export` wrote on another machine.")],
) -> None:
    """Import a carried file, whole or not at all; its entries must follow those that are here."""
    with ExportFile.open(file) as carried:
        has_entries = carried.head is not None
    if not has_entries and not board.exists():
        raise BoardError(f"{file} holds messages to be posted on a board, but there is no board {board}")
    opened = BoardFile(board, copy=has_entries)
    try:
        count = opened.import_(file)
    finally:
        opened.close()
    emit(f"{count} entries of {file} are new in {board}\n")
