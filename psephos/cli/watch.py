"""`psephos watch`: a read-only page of a study."""

from __future__ import annotations

import socket
from dataclasses import asdict
from typing import Annotated

import typer

from psephos.cli.generate import command
from psephos.cli.shared import note
from psephos.cli.study import BoardAt, SamplesFile, StudyFile, existing
from psephos.protocol.errors import EngineError

app = typer.Typer(rich_markup_mode=None)


@command(
    app,
    "psephos watch study.toml --board board.sqlite",
    "psephos watch study.toml --board nats://board.example:4222 --host 0.0.0.0 --port 80",
)
def watch(
    study: StudyFile,
    board: BoardAt,
    host: Annotated[
        str,
        typer.Option(help="The address to listen on: 127.0.0.1 for this machine only, 0.0.0.0 for every network."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on; 0 for any free one.", min=0, max=65535)] = 8080,
    public: SamplesFile = None,
    poll: Annotated[float, typer.Option(help="Seconds between two readings of the board.")] = 1.0,
) -> None:
    """Serve a page with the progress and log of a study; the study does not notice."""
    try:
        import uvicorn

        from psephos.study.watch.app import answers_to, application
    except ModuleNotFoundError as error:
        raise EngineError(f"psephos watch needs {error.name}; in a clone: pip install -e '.[watch]'") from None
    from psephos.protocol.board.address import open_board
    from psephos.specs.registry import read_study
    from psephos.specs.study import StudyTerms
    from psephos.study.monitor import Follower
    from psephos.study.samples import PublicSamples
    from psephos.study.verify import examine

    agreement = read_study(study)
    existing(board)
    follower = Follower(agreement, lambda: open_board(board, agreement.digest))
    if public is not None:
        samples = PublicSamples.of(agreement, public)
        follower = Follower(
            agreement,
            lambda: open_board(board, agreement.digest),
            StudyTerms(agreement, samples),
            check=lambda opened: [asdict(each) for each in examine(agreement, samples, opened).checks],
        )
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise EngineError(
            f"cannot listen on {host}, port {port} ({error.strerror}): use another --host or --port"
        ) from None
    hosts = answers_to(listener.getsockname()[0])
    config = uvicorn.Config(application(follower, poll=poll, hosts=hosts), log_level="warning")
    server = uvicorn.Server(config)
    note(f"http://{host}:{listener.getsockname()[1]} shows {agreement.title}; Ctrl-C stops the page, not the study")
    server.run(sockets=[listener])
