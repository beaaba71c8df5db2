"""`psephos watch`: a read-only page of a study."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated

import typer

from psephos.cli.generate import SectionedCommand, examples
from psephos.cli.shared import note
from psephos.cli.study import BoardAt, StudyFile, existing
from psephos.protocol.errors import EngineError

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command(
        cls=SectionedCommand,
        epilog=examples(
            "psephos watch study.toml --board board.sqlite",
            "psephos watch study.toml --board nats://board.example:4222 --host 0.0.0.0 --port 80",
        ),
    )
    def watch(
        study: StudyFile,
        board: BoardAt,
        host: Annotated[
            str, typer.Option(help="Where to listen; 0.0.0.0 for everybody. 127.0.0.1 answers to this machine's names.")
        ] = "127.0.0.1",
        port: Annotated[int, typer.Option(help="On which port; 0 for any that is free.", min=0, max=65535)] = 8080,
        public: Annotated[
            Path | None, typer.Option(help="The public samples: a result is then verified.", show_default=False)
        ] = None,
        poll: Annotated[float, typer.Option(help="Seconds between looks at the board.")] = 1.0,
    ) -> None:
        """Serve a page that shows where a study stands, its log, and metrics for Prometheus. It takes no part."""
        try:
            import uvicorn

            from psephos.study.watch.app import answers_to, application
        except ModuleNotFoundError as error:
            raise EngineError(f"watching needs {error.name}: pip install 'psephos[watch]'") from None
        from psephos.protocol.board.address import open_board
        from psephos.protocol.study.study import Study
        from psephos.study.monitor import Follower, verifier

        read = Study.read(study)
        existing(board)
        check = None if public is None else verifier(read, public)
        follower = Follower(read, lambda: open_board(board, read.digest), check=check)
        try:
            listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as error:
            raise EngineError(f"nothing can listen on {host}, port {port}: {error.strerror}") from None
        hosts = answers_to(listening.getsockname()[0])
        config = uvicorn.Config(application(follower, poll=poll, hosts=hosts), log_level="warning")
        server = uvicorn.Server(config)
        note(f"http://{host}:{listening.getsockname()[1]} shows {read.title}; Ctrl-C ends the page and nothing else")
        server.run(sockets=[listening])
