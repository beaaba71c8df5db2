"""`psephos study ...`: create identities, and create, show, sign and try studies."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from textwrap import fill
from typing import Annotated

import typer

from psephos.cli.generate import command, with_options
from psephos.cli.shared import ProgressDisplay, emit, note
from psephos.options import respelling
from psephos.protocol.board.address import file_path
from psephos.protocol.errors import InvalidParameter, StudyError
from psephos.protocol.study.study import Study
from psephos.specs.registry import read_study
from psephos.specs.terms import StudyTerms
from psephos.study import member
from psephos.study.builder import NewOptions, make_study
from psephos.study.consent import describe_study
from psephos.study.identity import Identity, fingerprint, fingerprint_words
from psephos.study.samples import PublicSamples
from psephos.study.trial import run_trial

IdentityDir = Annotated[Path, typer.Option("--identity", help="The directory of the identity that signs.")]
StudyFile = Annotated[Path, typer.Argument(help="The study that all members have: study.toml.")]
BoardAt = Annotated[str, typer.Option("--board", help="A board's file, or tls://HOST:PORT?ca=FILE of a NATS server.")]
PublicFile = Annotated[Path, typer.Option("--public", help="The public samples that came with the study.")]
SamplesFile = Annotated[
    Path | None,
    typer.Option("--public", help="The public samples: without them nothing after the key is shown."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Sign without asking, for scripts.")]


def existing(board: str) -> str:
    """Return the address of a board; raises StudyError if it is a file that does not exist."""
    if "://" not in board and not Path(file_path(board)).exists():
        raise StudyError(f"there is no board {board}: nobody has joined yet, or the board is another file")
    return board


def confirm(
    study: Study, identity: Identity, yes: bool, rows: Sequence[bytes] = (), data: str = "", *, again: bool = False
) -> None:
    """Show what would be signed, and ask for consent; exit with status 1 if the answer is no."""
    text = describe_study(study, identity)
    if any(role.startswith("party") for role in study.roles_of(identity.key.verification_key)):
        identity.check(study, rows, data, again=again)
    note(text)
    try:
        consents = yes or typer.confirm("Sign this study, and thereby all messages of your roles in it?", err=True)
    except typer.Abort:
        if sys.stdin.isatty():  # Ctrl-C
            raise
        raise InvalidParameter(
            "nobody was there to ask, and nothing was signed; sign with --yes", option="yes"
        ) from None
    if not consents:
        note("nothing was signed")
        raise typer.Exit(1)


def tell_expectation(study: Study, samples: PublicSamples, *, anyway: bool) -> None:
    """Print what is expected of a study, from public values alone, where its method can be forecast.

    Raises UselessReleaseError where no gain is expected, unless it is wanted anyway.
    """
    from psephos.simulation.forecast import PublicRows, forecast, study_options
    from psephos.simulation.sum_forecast import forecast_study

    if (sum_ := forecast_study(StudyTerms(study, samples), anyway=anyway)) is not None:
        note(sum_.expectation)
    if (options := study_options(study, anyway=anyway)) is None:
        return
    public = PublicRows(samples.rows, samples.labels(study.classes), study.classes, samples.encoding.log_odds)
    spelled = {"unit": "--protocol", "announced_rows": "--parameters rows"}
    with respelling(lambda name: spelled.get(name, f"--{name.replace('_', '-')}")), ProgressDisplay() as progress:
        found = forecast([options], public, progress, writes=False)
    note(f"{'A gain is expected' if found.chosen.pays else 'No gain is expected'}. {found.expectation}")


app = typer.Typer(rich_markup_mode=None)
group = typer.Typer(
    help="Studies: one file that all members sign, made from their cards.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(group, name="study")


@command(group, 'psephos study identity "Hospital North" --output north --budget 10')
def identity(
    name: Annotated[str, typer.Argument(help="The name that the other members read.")],
    output: Annotated[Path, typer.Option(help="A new directory, readable by its owner only.")],
    budget: Annotated[
        float | None,
        typer.Option(help="The most epsilon that all studies together may cost.", show_default="no limit"),
    ] = None,
) -> None:
    """Create an identity: a secret key that stays here, and a public card for the author of the study."""
    created = Identity.create(name, output, budget)
    key = created.card.key.raw
    note(
        f"{output / 'card.toml'}: send it to the author of the study.\n"
        f"{output / 'identity.key'}: it never leaves this machine.\n"
        "Back up the whole directory while nothing runs.\n"
        "Fingerprint of the key, in digits and in words. Read one of them to the other\n"
        "members by telephone; their `psephos study show` must print the same digits.\n"
        f"  {fingerprint(key)}\n"
        f"{fill(fingerprint_words(key), 78, initial_indent='  ', subsequent_indent='  ')}"
    )


@command(group, "psephos study budget north", "psephos study budget north --limit 20")
def budget(
    directory: Annotated[Path, typer.Argument(help="The directory of an identity.")],
    limit: Annotated[float | None, typer.Option(help="Set the most epsilon that all studies may cost.")] = None,
) -> None:
    """Show what all that is charged with the studies of an identity has cost, and the limit."""
    owner = Identity.read(directory)
    if limit is not None:
        owner.set_limit(limit)
    bound, (epsilon, delta) = owner.limit(), owner.spent()
    most = "no limit" if bound is None else f"{bound.epsilon:g}"
    emit(f"{owner.card.name}: epsilon {epsilon:.6g} of {most}, at a delta of {delta:.3g}\n")


@command(
    group,
    "psephos study new study.toml north/card.toml south/card.toml east/card.toml --curator lab/card.toml "
    "--public public.csv --label diagnosis --classes benign,malignant --epsilon 5",
)
@with_options(NewOptions)
def new(
    options: NewOptions,
    *,
    output: Annotated[Path, typer.Argument(help="The file to write, such as study.toml.")],
    cards: Annotated[list[Path], typer.Argument(help="The parties' cards; the first parties hold the key.")],
    anyway: Annotated[
        bool,
        typer.Option("--anyway", help="Write a study of which no gain is expected, too.", rich_help_panel="Privacy"),
    ] = False,
) -> None:
    """Create a study. It binds nobody before all members have signed it."""
    with ProgressDisplay() as progress:
        study, samples = make_study(options, cards, progress)
    if study.closes and datetime.fromisoformat(study.closes) <= datetime.now(UTC):
        raise InvalidParameter(f"the vote would have ended already, at {study.closes}: change --closes")
    tell_expectation(study, samples, anyway=anyway)
    study.write(output)
    for column, what in samples.encoding.summary:
        note(f"column {column}: {what}")
    if samples.note:
        note(f"features: {samples.note}")
    for caution in samples.cautions:
        note(f"psephos: WARNING: {caution}")
    emit(describe_study(study))
    note(f"{output} is written; send it and {options.public} to all members")


@command(group, "psephos study show study.toml --identity north")
def show(
    study: StudyFile,
    identity: Annotated[Path | None, typer.Option(help="An identity: its budget is shown too.")] = None,
) -> None:
    """Describe a study: its members, protocol and cost, and who could learn what."""
    emit(describe_study(read_study(study), None if identity is None else Identity.read(identity)))


@command(group, "psephos study sign study.toml --identity north")
def sign(study: StudyFile, identity: IdentityDir, yes: Yes = False) -> None:
    """Sign a study. `psephos join` announces the signature on the board."""
    agreement, signer = read_study(study), Identity.read(identity)
    confirm(agreement, signer, yes)
    note(f"signed; the study is saved in {member.sign(agreement, signer).folder}")


@command(group, "psephos study try", "psephos study try --nats --output try", name="try")
def try_(
    roles: Annotated[int, typer.Option(help="Members, one process each: a curator and parties.")] = 6,
    output: Annotated[
        Path | None, typer.Option(help="A new directory for the study's files.", show_default="psephos-trial-...")
    ] = None,
    key_bits: Annotated[int, typer.Option(help="Length of the key that the holders generate.")] = 2048,
    nats: Annotated[
        bool, typer.Option("--nats", help="Use a NATS server with TLS as the board, instead of a file.")
    ] = False,
) -> None:
    """Run a whole study on this machine, with bundled data and one process for each member."""
    run_trial(roles, output, key_bits, nats, note)
