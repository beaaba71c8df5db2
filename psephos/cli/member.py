"""`psephos join`, `vote`, `hold`, `curate`, `agent` and `status`: the commands of a study's members."""

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
from psephos.cli.study import BoardAt, IdentityDir, PublicFile, StudyFile, Yes, confirm, existing
from psephos.protocol.errors import InvalidParameter, StoreInUseError, StudyError

if TYPE_CHECKING:
    from psephos.study.member import Membership

__all__ = ["register_agent", "register_curate", "register_hold", "register_join", "register_status", "register_vote"]

Directory = Annotated[Path, typer.Argument(help="The directory of an identity that has joined a study.")]
Which = Annotated[
    str, typer.Option("--study", help="First digits of the study's fingerprint, if the identity is in several.")
]
BudgetPath = Annotated[
    Path | None,
    typer.Option("--budget", help="A file that adds up what all releases from its rows cost, as `psephos run` has."),
]
BudgetLimit = Annotated[
    str | None,
    typer.Option("--budget-limit", help="With a new --budget file: its limit, EPSILON or EPSILON,DELTA."),
]


def register_join(app: typer.Typer) -> None:
    """Add `psephos join`."""

    @app.command(
        cls=SectionedCommand,
        epilog=examples(
            "psephos join study.toml --identity north --board board.sqlite --public public.csv --data north.csv",
            "psephos join study.toml --identity north --board board.sqlite --public public.csv --data north.csv "
            "--budget north.budget",
            "psephos join study.toml --identity lab --board nats://board.example:4222 --public public.csv",
        ),
    )
    def join(  # wide: a command's options
        study: StudyFile,
        identity: IdentityDir,
        board: BoardAt,
        public: PublicFile,
        data: Annotated[Path | None, typer.Option(help="A party's own rows, CSV or Parquet.")] = None,
        learner: Annotated[
            str | None, typer.Option(help="The classifier that it trains on its rows.", show_default="logistic")
        ] = None,
        voter: Annotated[
            str | None,
            typer.Option(help="A trained classifier instead: PATH.py:OBJECT or MODULE:OBJECT."),
        ] = None,
        output: Annotated[
            Path | None, typer.Option(help="Directory for the released model.", show_default="in the identity's")
        ] = None,
        budget: BudgetPath = None,
        budget_limit: BudgetLimit = None,
        yes: Yes = False,
    ) -> None:
        """Sign a study and announce it on its board. The settings are saved for the other commands."""
        from psephos.protocol.study.study import Study
        from psephos.study import member
        from psephos.study.budget import join_budget
        from psephos.study.identity import Identity
        from psephos.study.party_input import absolute_voter
        from psephos.study.runner import MemberRunner

        agreement, signer = Study.read(study), Identity.read(identity)
        settings: dict[str, str | None] = {
            "board": _address(board),
            "public": str(public.absolute()),
            "data": _absolute(data),
            "learner": learner,
            "voter": None if voter is None else absolute_voter(voter),
            "output": _absolute(output),
            "budget": _absolute(budget),
        }
        if budget is not None or budget_limit is not None:
            join_budget(agreement, signer.card.key, settings["budget"], settings["data"], budget_limit)
        confirm(agreement, signer, yes)
        membership = member.sign(agreement, signer)
        membership.keep(**settings)
        with MemberRunner(membership, membership.names, say=note) as runner:
            runner.run_due_steps()
        note(f"joined; now run `psephos agent {identity}`, or the single steps: vote, hold, curate")


def _absolute(path: Path | None) -> str | None:
    """Return the absolute path, for the settings of a member; None for None."""
    return None if path is None else str(path.absolute())


def _address(board: str) -> str:
    """Return the address of a board; that of a file is its absolute path."""
    return board if "://" in board else str(Path(board.removeprefix("file:")).absolute())


def register_vote(app: typer.Typer) -> None:
    """Add the command `psephos vote`."""
    help = "Take the next steps of a party: vote, as soon as there is a key."
    app.command("vote", cls=SectionedCommand, help=help, epilog=examples("psephos vote north"))(_step("party"))


def register_hold(app: typer.Typer) -> None:
    """Add `psephos hold`."""
    help = "Take the next steps of a key holder: make the key, confirm the product, open the sum."
    app.command("hold", cls=SectionedCommand, help=help, epilog=examples("psephos hold north"))(_step("holder"))


def _step(kind: str) -> Callable[[Path, str, bool], None]:
    def step(directory: Directory, study: Which = "", as_json: AsJson = False) -> None:
        _take(directory, study, kind, as_json)

    return step


def _take(directory: Path, study: str, kind: str, as_json: bool) -> None:
    """Take all steps that are due now for the roles of one kind. A repetition takes no step a second time.

    Raises:
        StudyError: the identity has no role of this kind.
    """
    from psephos.study.runner import MemberRunner

    membership = _membership(directory, study)
    names = [name for name in membership.names if name.startswith(kind)]
    if not names:
        name, roles = membership.identity.card.name, " and ".join(membership.names)
        raise StudyError(f"{name} is not a {kind} in this study; its roles are {roles}")
    with MemberRunner(membership, names) as runner:
        runner.run_due_steps()
        if as_json:
            emit(json.dumps({"standing": dict(runner.statuses()), "done": runner.done}) + "\n")
        else:
            emit("".join(f"{name}: {text}\n" for name, text in runner.statuses()))
            if runner.released is not None:
                emit(f"the model and its card are in {runner.released}\n")


def _membership(directory: Path, study: str) -> Membership:
    """Return the membership of an identity in a study that it has joined; raises StudyError if it has not."""
    from psephos.study.identity import Identity
    from psephos.study.member import Membership

    membership = Membership.find(Identity.read(directory), study)
    if not membership.settings.board:
        raise StudyError(f"{directory} has signed this study but not joined it: use psephos join ... --board BOARD")
    return membership


def register_curate(app: typer.Typer) -> None:
    """Add `psephos curate`."""

    @app.command(cls=SectionedCommand, epilog=examples("psephos curate lab", "psephos curate lab --close"))
    def curate(
        directory: Directory,
        close: Annotated[
            bool, typer.Option("--close", help="End the vote now, with the ballots on the board.")
        ] = False,
        study: Which = "",
        as_json: AsJson = False,
    ) -> None:
        """Take the next steps of the curator: count ballots, close the vote, ask for the sum, release."""
        membership = _membership(directory, study)
        if close and "curator" in membership.names:
            membership.closing().touch()  # a running agent looks for this file too
        try:
            _take(directory, study, "curator", as_json)
        except StoreInUseError:
            if not close:
                raise
            text = "the agent that is running will close the vote"
            emit(json.dumps({"standing": {"curator": text}, "done": False}) + "\n" if as_json else f"curator: {text}\n")


def register_agent(app: typer.Typer) -> None:
    """Add `psephos agent`."""

    @app.command(
        cls=SectionedCommand, epilog=examples("psephos agent north", "psephos agent /var/lib/psephos --study 73e9-a0c1")
    )
    def agent(
        directory: Directory,
        study: Which = "",
        metrics: Annotated[
            int | None,
            typer.Option(
                min=0, max=65535, help="Serve Prometheus metrics on this port; 0 for any.", show_default="none"
            ),
        ] = None,
    ) -> None:
        """Run all roles of an identity until there is a result. It can be stopped and started again at any time."""
        from psephos.study.metrics import serve_metrics
        from psephos.study.runner import MemberRunner

        membership = _membership(directory, study)
        log_enabled = logging.getLogger("psephos").isEnabledFor(logging.INFO)  # the log has the same lines as JSON
        with MemberRunner(membership, membership.names, say=(lambda text: None) if log_enabled else note) as runner:
            if metrics is not None:
                note(f"metrics are at http://127.0.0.1:{serve_metrics(runner, metrics)}/metrics")
            runner.run()
        emit(f"{runner.released}\n")


def register_status(app: typer.Typer) -> None:
    """Add `psephos status`."""

    @app.command(
        cls=SectionedCommand, epilog=examples("psephos status north", "psephos status study.toml --board board.sqlite")
    )
    def status(
        where: Annotated[Path, typer.Argument(help="The directory of an identity, or the file of a study.")],
        board: Annotated[str, typer.Option(help="The board, if a study's file is named.")] = "",
        study: Which = "",
        as_json: AsJson = False,
    ) -> None:
        """Show how far a study is, as its board shows it to everybody."""
        from psephos.protocol.board.address import open_board
        from psephos.protocol.study.study import Study
        from psephos.study.monitor import Follower

        name, key = "", None
        if where.is_dir():
            membership = _membership(where, study)
            agreement, name, key = membership.study, membership.names[0], membership.identity.key
            board = board or membership.settings.board
        else:
            if not where.exists():
                raise InvalidParameter(f"there is neither a study nor a member's directory {where}")
            agreement = Study.read(where)
            if not board:
                raise InvalidParameter("no board was named: psephos status STUDY --board BOARD")
        opened = open_board(existing(board), agreement.digest, name, key)
        try:
            follower = Follower(agreement, lambda: opened, lines=deque())
            follower.read(opened)
        finally:
            opened.close()
        emit(json.dumps(follower.record()) + "\n" if as_json else follower.text())
