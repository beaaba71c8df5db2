"""`psephos verify` and `watch`: check a study from its board, or show it, without being a member."""

from __future__ import annotations

import json
import socket
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from psephos.cli.generate import command
from psephos.cli.shared import AsJson, emit, note
from psephos.cli.study import BoardAt, PublicFile, SamplesFile, StudyFile, existing
from psephos.model import MODEL_FILE, MOST_BYTES
from psephos.protocol.board.address import open_board
from psephos.protocol.errors import EngineError, ModelError, StudyError
from psephos.protocol.foreign import read_bytes
from psephos.protocol.storage.store import Store
from psephos.protocol.study.study import CURATOR, Study
from psephos.specs.registry import read_study
from psephos.specs.terms import StudyTerms
from psephos.study.identity import Identity, fingerprint
from psephos.study.member import Membership
from psephos.study.receipt import receipt_of, receipt_paths, write_receipt
from psephos.study.samples import PublicSamples
from psephos.study.verify import as_text, examine

Curator = Annotated[
    Path | None,
    typer.Option(help="The curator's directory, to check the messages sealed to it too.", show_default=False),
]
Report = Annotated[
    Path | None,
    typer.Option(
        help="A file for a receipt, which people who did not take part can read: FILE.html and FILE.json.",
        show_default=False,
    ),
]
ModelFile = Annotated[
    Path | None,
    typer.Option(help="A model file, or its directory, to compare with the published one.", show_default=False),
]

app = typer.Typer(rich_markup_mode=None)


@command(
    app,
    "psephos verify study.toml --board board.sqlite --public public.csv",
    "psephos verify study.toml --board board.sqlite --public public.csv --report receipt.html",
    "psephos verify study.toml --board board.sqlite --public public.csv --model model.json",
    "psephos verify study.toml --board board.sqlite --public public.csv --curator lab",
)
def verify(
    study: StudyFile,
    board: BoardAt,
    public: PublicFile,
    curator: Curator = None,
    report: Report = None,
    model: ModelFile = None,
    as_json: AsJson = False,
) -> None:
    """Verify everything that a study's board shows; exit status 1 if a check fails."""
    if report is not None and curator is not None:
        raise StudyError("a receipt contains only what anybody can check: leave out --curator, or --report")
    if report is not None:
        receipt_paths(report)  # an unusable path is an error before the checks, which may take long
    content = None if model is None else _model_bytes(model)
    agreement = read_study(study)
    samples = PublicSamples.of(agreement, public)
    store = None if curator is None else _curator_store(curator, agreement)
    opened = open_board(existing(board), agreement.digest)
    try:
        evidence = examine(agreement, samples, opened, store)
    finally:
        opened.close()
        if store is not None:
            store.close()
    if report is not None:
        page, beside = write_receipt(receipt_of(agreement, evidence), report)
        typer.echo(f"receipt: {page} and {beside}", err=True)
    if content is not None:
        evidence.compare_model(content)
    checks = evidence.checks
    document = {"sha256": evidence.sha256 or None, "checks": [asdict(each) for each in checks]}
    emit(json.dumps(document) + "\n" if as_json else as_text(agreement, checks))
    if any(each.verdict == "fails" for each in checks):
        raise typer.Exit(1)


def _model_bytes(path: Path) -> bytes:
    try:
        return read_bytes(path / MODEL_FILE if path.is_dir() else path, MOST_BYTES)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None


def _curator_store(directory: Path, study: Study) -> Store:
    member = Membership.find(Identity.read(directory), fingerprint(study.digest))
    if CURATOR not in member.names or not member.store(CURATOR).exists():
        raise StudyError(f"{directory} is not the curator's directory, or it has not joined")
    return Store(member.store(CURATOR), {"study": study.digest.hex(), "role": CURATOR})


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
    from psephos.study.monitor import Follower

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
