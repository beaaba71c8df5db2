"""`psephos join`, `vote`, `hold`, `curate`, `agent` and `status`: one step of a member, or all."""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from psephos.cli.generate import SectionedCommand, examples
from psephos.cli.shared import AsJson, emit, note
from psephos.cli.study import BoardAt, IdentityDir, PublicFile, StudyFile, Yes, agreed, existing
from psephos.protocol.errors import InvalidParameter, StudyError

if TYPE_CHECKING:
    from psephos.study.member import Membership

__all__ = ["register_agent", "register_curate", "register_hold", "register_join", "register_status", "register_vote"]

Directory = Annotated[Path, typer.Argument(help="The directory of an identity that has joined.")]
Which = Annotated[str, typer.Option("--study", help="The beginning of the study's digest, where there are several.")]


def register_join(app: typer.Typer) -> None:
    """Add `psephos join`."""

    @app.command(
        cls=SectionedCommand,
        epilog=examples(
            "psephos join study.toml --identity north --board board.sqlite --public public.csv --data north.csv",
            "psephos join study.toml --identity lab --board nats://board.example:4222 --public public.csv",
        ),
    )
    def join(  # wide: a command's options
        study: StudyFile,
        identity: IdentityDir,
        board: BoardAt,
        public: PublicFile,
        data: Annotated[Path | None, typer.Option(help="A party's own rows, CSV or Parquet.")] = None,
        learner: Annotated[str | None, typer.Option(help="What it trains on them.", show_default="logistic")] = None,
        voter: Annotated[
            str | None,
            typer.Option(help="Its own classifier instead: PATH.py:OBJECT or MODULE:OBJECT."),
        ] = None,
        output: Annotated[Path | None, typer.Option(help="Where the model goes.", show_default="the state")] = None,
        yes: Yes = False,
    ) -> None:
        """Sign a study and say so on its board; settings are kept, so that no other command needs them."""
        from psephos.protocol.study.study import Study
        from psephos.study import member
        from psephos.study.identity import Identity
        from psephos.study.party_input import absolute_voter
        from psephos.study.runner import MemberRunner

        read, who = Study.read(study), Identity.read(identity)
        agreed(read, who, yes)
        mine = member.sign(read, who)
        mine.keep(
            board=_address(board),
            public=str(public.absolute()),
            data=None if data is None else str(data.absolute()),
            learner=learner,
            voter=None if voter is None else absolute_voter(voter),
            output=None if output is None else str(output.absolute()),
        )
        with MemberRunner(mine, mine.names, say=note) as play:
            play.settle()
        note(f"joined; `psephos agent {identity}` does the rest, or each step by hand: vote, hold, curate")


def _address(board: str) -> str:
    return board if "://" in board else str(Path(board.removeprefix("file:")).absolute())


def register_vote(app: typer.Typer) -> None:
    """Add `psephos vote`."""
    help = "A party's part as far as it goes now: vote, as soon as there is a key."
    app.command("vote", cls=SectionedCommand, help=help, epilog=examples("psephos vote north"))(_step("party"))


def register_hold(app: typer.Typer) -> None:
    """Add `psephos hold`."""
    help = "A key holder's part as far as it goes now: make the key, confirm, open the sum."
    app.command("hold", cls=SectionedCommand, help=help, epilog=examples("psephos hold north"))(_step("holder"))


def _step(kind: str) -> Callable[[Path, str, bool], None]:
    def step(directory: Directory, study: Which = "", as_json: AsJson = False) -> None:
        _take(directory, study, kind, as_json)

    return step


def _take(directory: Path, study: str, kind: str, as_json: bool) -> None:
    """All that is due now for the roles of one kind; repeated, it does nothing twice."""
    from psephos.study.runner import MemberRunner

    mine = _member(directory, study)
    names = [name for name in mine.names if name.startswith(kind)]
    if not names:
        raise StudyError(f"{mine.identity.card.name} is no {kind} in this study, but {' and '.join(mine.names)}")
    with MemberRunner(mine, names) as play:
        play.settle()
        if as_json:
            emit(json.dumps({"standing": dict(play.standing()), "done": play.done}) + "\n")
        else:
            emit("".join(f"{name}: {text}\n" for name, text in play.standing()))
            if play.released is not None:
                emit(f"the model and its card are in {play.released}\n")


def _member(directory: Path, study: str) -> Membership:
    from psephos.study.identity import Identity
    from psephos.study.member import Membership

    mine = Membership.find(Identity.read(directory), study)
    if not mine.settings.board:
        raise StudyError(f"{directory} has signed this study and not joined it: psephos join ... --board BOARD")
    return mine


def register_curate(app: typer.Typer) -> None:
    """Add `psephos curate`."""

    @app.command(cls=SectionedCommand, epilog=examples("psephos curate lab", "psephos curate lab --close"))
    def curate(
        directory: Directory,
        close: Annotated[bool, typer.Option("--close", help="End the vote now, with what is there.")] = False,
        study: Which = "",
        as_json: AsJson = False,
    ) -> None:
        """The curator's part as far as it goes now: count, close the vote, have the sum opened, release."""
        mine = _member(directory, study)
        if close and "curator" in mine.names:
            mine.closing().touch()  # an agent that runs sees it, too
        _take(directory, study, "curator", as_json)


def register_agent(app: typer.Typer) -> None:
    """Add `psephos agent`."""

    @app.command(
        cls=SectionedCommand, epilog=examples("psephos agent north", "psephos agent /var/lib/psephos --study 73e9a0c1")
    )
    def agent(
        directory: Directory,
        study: Which = "",
        metrics: Annotated[
            int | None,
            typer.Option(
                min=0, max=65535, help="A port of this machine for Prometheus; 0 for any.", show_default="none"
            ),
        ] = None,
    ) -> None:
        """Spec all roles of an identity until there is a result: every step as it falls due, whatever stops it when."""
        from psephos.study.metrics import serve_metrics
        from psephos.study.runner import MemberRunner

        mine = _member(directory, study)
        quiet = logging.getLogger("psephos").isEnabledFor(logging.INFO)  # JSON lines say the same
        with MemberRunner(mine, mine.names, say=(lambda text: None) if quiet else note) as play:
            if metrics is not None:
                note(f"metrics are at http://127.0.0.1:{serve_metrics(play, metrics)}/metrics")
            play.run()
        emit(f"{play.released}\n")


def register_status(app: typer.Typer) -> None:
    """Add `psephos status`."""

    @app.command(
        cls=SectionedCommand, epilog=examples("psephos status north", "psephos status study.toml --board board.sqlite")
    )
    def status(
        where: Annotated[Path, typer.Argument(help="The directory of an identity, or a study for whoever is in none.")],
        board: Annotated[str, typer.Option(help="The board, where a study is named.")] = "",
        study: Which = "",
        as_json: AsJson = False,
    ) -> None:
        """Where a study stands, as anybody sees it who can read the board."""
        from psephos.protocol.board.address import open_board
        from psephos.protocol.study.study import Study
        from psephos.study.monitor import Follower

        name, key = "", None
        if where.is_dir():
            mine = _member(where, study)
            read, board, name, key = mine.study, board or mine.settings.board, mine.names[0], mine.identity.key
        else:
            read = Study.read(where)
            if not board:
                raise InvalidParameter("which board? psephos status STUDY --board BOARD")
        opened = open_board(existing(board), read.digest, name, key)
        try:
            seen = Follower(read, lambda: opened, lines=deque())
            seen.read(opened)
        finally:
            opened.close()
        emit(json.dumps(seen.record()) + "\n" if as_json else seen.text())
