"""`psephos join`, `agent` and `status`: the commands of a study's members."""

from __future__ import annotations

import json
import logging
import shlex
from collections import deque
from pathlib import Path
from typing import Annotated

import typer

from psephos.cli.generate import command
from psephos.cli.shared import AsJson, emit, note
from psephos.cli.study import (
    BoardAt,
    IdentityDir,
    PublicFile,
    SamplesFile,
    StudyFile,
    Yes,
    confirm,
    existing,
    tell_expectation,
)
from psephos.protocol.board.address import file_path, open_board
from psephos.protocol.errors import InvalidParameter, StoreInUseError, StudyError
from psephos.protocol.study.study import CURATOR, Study
from psephos.specs.registry import read_study
from psephos.specs.terms import StudyTerms
from psephos.study import member
from psephos.study.identity import Identity
from psephos.study.member import Membership
from psephos.study.monitor import Follower
from psephos.study.party_input import absolute_voter
from psephos.study.runner import MemberRunner
from psephos.study.samples import PublicSamples

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
Again = Annotated[
    bool,
    typer.Option(
        "--again",
        help="Send votes or parameters although another study's exact sum has them: who sees both sums may compute "
        "them.",
    ),
]

app = typer.Typer(rich_markup_mode=None)


@command(
    app,
    "psephos join study.toml --identity north --board board.sqlite --public public.csv --data north.csv",
    "psephos join study.toml --identity north --board board.sqlite --public public.csv --data north.csv "
    "--budget north.budget",
    "psephos join study.toml --identity lab --board nats://board.example:4222 --public public.csv",
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
        typer.Option(
            help="A trained classifier instead: PATH.py:OBJECT or MODULE:OBJECT; under head a table of its parameters."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Directory for the released model.", show_default="in the identity's")
    ] = None,
    budget: BudgetPath = None,
    budget_limit: BudgetLimit = None,
    again: Again = False,
    yes: Yes = False,
) -> None:
    """Sign a study and announce it on its board. The settings are saved for the other commands."""
    agreement, signer = read_study(study), Identity.read(identity)
    member.check_joinable(agreement, signer)
    samples = PublicSamples.of(agreement, public)
    settings: dict[str, str | bool | None] = {
        "board": _address(board),
        "public": str(public.absolute()),
        "data": _absolute(data),
        "learner": learner,
        "voter": None if voter is None else absolute_voter(voter),
        "output": _absolute(output),
        "budget": _absolute(budget),
        "again": again,
    }
    _use_budget(agreement, signer, budget, budget_limit)
    tell_expectation(agreement, samples, anyway=True)
    confirm(agreement, signer, yes, samples.row_digests, str(data or ""), again=again)
    membership = member.sign(agreement, signer)
    membership.keep(**settings)
    with MemberRunner(membership, membership.names, say=note) as runner:
        runner.run_due_steps()
    note(f"joined; now run `psephos agent {shlex.quote(str(identity))}`")


def _use_budget(study: Study, identity: Identity, budget: Path | None, limit: str | None) -> None:
    if budget is None and limit is not None:
        raise InvalidParameter("--budget-limit is of a budget file: name it with --budget", option="budget_limit")
    if budget is not None:
        if not any(role.startswith("party") for role in study.roles_of(identity.card.key)):
            raise InvalidParameter("--budget is for a party, which has rows: leave it out", option="budget")
        identity.use_budget(budget, limit)


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())


def _address(board: str) -> str:
    if "://" in board:
        return board
    return ("copy:" if board.startswith("copy:") else "") + str(Path(file_path(board)).absolute())


def _membership(directory: Path, study: str) -> Membership:
    """Return the membership of an identity in a study that it has joined; raises StudyError if it has not."""
    membership = Membership.find(Identity.read(directory), study)
    if not membership.settings.board:
        raise StudyError(f"{directory} has signed this study but not joined it: use psephos join ... --board BOARD")
    return membership


@command(
    app,
    "psephos agent north",
    "psephos agent /var/lib/psephos --study 73e9-a0c1",
    "psephos agent lab --once --close",
)
def agent(
    directory: Directory,
    study: Which = "",
    once: Annotated[
        bool, typer.Option("--once", help="Take the steps that are due now, say how far each role is, and end.")
    ] = False,
    close: Annotated[
        bool, typer.Option("--close", help="The curator: end the vote now, with the ballots on the board.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run all roles of an identity until there is a result. It can be stopped and started again at any time."""
    membership = _membership(directory, study)
    if close:
        if CURATOR not in membership.names:
            name, roles = membership.identity.card.name, " and ".join(membership.names)
            raise StudyError(f"{name} cannot close the vote, as only the curator can; its roles are {roles}")
        membership.closing().touch()  # an agent that is running looks for this file too
    log_enabled = logging.getLogger("psephos").isEnabledFor(logging.INFO)  # the log has the same lines as JSON
    quiet = once or log_enabled
    try:
        with MemberRunner(membership, membership.names, say=(lambda text: None) if quiet else note) as runner:
            if once:
                runner.run_due_steps()
            else:
                runner.run()
            statuses, done, released = dict(runner.statuses()), runner.done, runner.released
    except StoreInUseError:
        if not close:
            raise
        statuses, done, released = {CURATOR: "the agent that is running will close the vote"}, False, None
    if as_json:
        emit(json.dumps({"status": statuses, "done": done}) + "\n")
    elif released is not None and not once:
        emit(f"{released}\n")
    else:
        emit("".join(f"{name}: {text}\n" for name, text in statuses.items()))
        if released is not None:
            emit(f"the model and its card are in {released}\n")


@command(app, "psephos status north", "psephos status study.toml --board board.sqlite")
def status(
    where: Annotated[Path, typer.Argument(help="The directory of an identity, or the file of a study.")],
    board: Annotated[str, typer.Option(help="The board, if a study's file is named.")] = "",
    public: SamplesFile = None,
    study: Which = "",
    as_json: AsJson = False,
) -> None:
    """Show how far a study is, as its board shows it to everybody."""
    name, key, samples = "", None, None
    if where.is_dir():
        membership = _membership(where, study)
        agreement, name, key = membership.study, membership.names[0], membership.identity.key
        board = board or membership.settings.board
        samples = membership.samples
    else:
        if not where.exists():
            raise InvalidParameter(f"there is neither a study nor a member's directory {where}")
        agreement = read_study(where)
        if not board:
            raise InvalidParameter("no board was named: psephos status STUDY --board BOARD")
        samples = None if public is None else PublicSamples.of(agreement, public)
    terms = None if samples is None else StudyTerms(agreement, samples)
    opened = open_board(existing(board), agreement.digest, name, key)
    try:
        follower = Follower(agreement, lambda: opened, terms, lines=deque())
        follower.read(opened)
    finally:
        opened.close()
    emit(json.dumps(follower.record()) + "\n" if as_json else follower.text())
