"""`psephos study ...`: identities, and studies before they begin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from psephos.cli.generate import SectionedCommand, examples, with_options
from psephos.cli.shared import emit, note
from psephos.protocol.errors import StudyError
from psephos.study.builder import NewOptions, make_study

if TYPE_CHECKING:
    from psephos.protocol.study.study import Study
    from psephos.study.identity import Identity

__all__ = ["BoardAt", "IdentityDir", "PublicFile", "StudyFile", "Yes", "agreed", "existing", "register"]

IdentityDir = Annotated[Path, typer.Option("--identity", help="The directory of the identity that signs.")]
StudyFile = Annotated[Path, typer.Argument(help="The study, as it was sent around: study.toml.")]
BoardAt = Annotated[str, typer.Option("--board", help="A board's file, or tls://HOST:PORT?ca=FILE of a NATS server.")]
PublicFile = Annotated[Path, typer.Option("--public", help="The public samples that came with the study.")]
Yes = Annotated[bool, typer.Option("--yes", help="Sign without being asked, for scripts.")]


def existing(board: str) -> str:
    """The address of a board; raises StudyError for a file that is not there."""
    if "://" not in board and not Path(board.removeprefix("file:")).exists():
        raise StudyError(f"there is no board {board}: nobody has joined yet, or it is another one")
    return board


def agreed(study: Study, identity: Identity, yes: bool) -> None:
    """Show what is signed, and ask; leaves with status 1 where somebody does not agree."""
    from psephos.study.consent import described

    text = described(study, identity)
    if any(role.startswith("party") for role in study.roles_of(identity.key.verification_key)):
        identity.check(study)
    note(text)
    if not yes and not typer.confirm("Sign it, for all that its roles will say?", err=True):
        note("nothing was signed")
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(
        help="A study: one file that everybody signs, made from the members' cards.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    _identities(group)
    _studies(group)
    _trial(group)
    app.add_typer(group, name="study")


def _identities(group: typer.Typer) -> None:
    @group.command(
        cls=SectionedCommand,
        epilog=examples('psephos study identity "Hospital North" --output north --budget 10'),
    )
    def identity(
        name: Annotated[str, typer.Argument(help="Who this is, as the others should read it.")],
        output: Annotated[Path, typer.Option(help="A new directory, for the owner's eyes only.")],
        budget: Annotated[
            float | None, typer.Option(help="The epsilon that all studies together may cost.", show_default="no limit")
        ] = None,
    ) -> None:
        """Make an identity: a secret key that stays here, and a public card to send to whoever writes the study."""
        from psephos.study.identity import Identity, fingerprint

        made = Identity.create(name, output, budget)
        note(
            f"{output / 'card.toml'}     send this to whoever writes the study\n"
            f"{output / 'identity.key'}  never leaves this machine; back up the whole directory while nothing runs\n"
            f"fingerprint     {fingerprint(made.card.key.raw)}, to be compared by telephone with what `study show` says"
        )

    @group.command(
        cls=SectionedCommand, epilog=examples("psephos study budget north", "psephos study budget north --limit 20")
    )
    def budget(
        directory: Annotated[Path, typer.Argument(help="The directory of an identity.")],
        limit: Annotated[float | None, typer.Option(help="Set what all studies together may cost.")] = None,
    ) -> None:
        """What an identity's studies have cost it, and what they may."""
        from psephos.study.identity import Identity

        who = Identity.read(directory)
        if limit is not None:
            who.set_limit(limit)
        bound = who.limit()
        emit(
            f"{who.card.name}: epsilon {who.spent():.6g} of {'no limit' if bound is None else f'{bound:g}'}, "
            "at a delta of 1e-5\n"
        )


def _studies(group: typer.Typer) -> None:
    @group.command(
        cls=SectionedCommand,
        epilog=examples(
            "psephos study new study.toml north/card.toml south/card.toml east/card.toml --curator lab/card.toml "
            "--public public.csv --label diagnosis --classes benign,malignant --epsilon 5"
        ),
    )
    @with_options(NewOptions)
    def new(
        options: NewOptions,
        *,
        output: Annotated[Path, typer.Argument(help="The file to write, such as study.toml.")],
        cards: Annotated[list[Path], typer.Argument(help="The parties' cards; the first ones' owners hold the key.")],
    ) -> None:
        """Write a study. It binds nobody before everybody has signed it."""
        from psephos.study.consent import described

        study, samples = make_study(options, cards)
        study.write(output)
        for column, what in samples.encoding.summary:
            note(f"column {column}: {what}")
        for caution in samples.cautions:
            note(f"psephos: WARNING: {caution}")
        emit(described(study))
        note(f"{output} is written; send it, with {options.public}, to everybody")

    @group.command(cls=SectionedCommand, epilog=examples("psephos study show study.toml --identity north"))
    def show(
        study: StudyFile,
        identity: Annotated[Path | None, typer.Option(help="Whose budget to look at.")] = None,
    ) -> None:
        """What a study says, in words: who, what, at what cost, and who could learn what."""
        from psephos.protocol.study.study import Study
        from psephos.study.consent import described
        from psephos.study.identity import Identity

        emit(described(Study.read(study), None if identity is None else Identity.read(identity)))

    @group.command(cls=SectionedCommand, epilog=examples("psephos study sign study.toml --identity north"))
    def sign(study: StudyFile, identity: IdentityDir, yes: Yes = False) -> None:
        """Agree to a study; it is said on the board when you join."""
        from psephos.protocol.study.study import Study
        from psephos.study import member
        from psephos.study.identity import Identity

        read, who = Study.read(study), Identity.read(identity)
        agreed(read, who, yes)
        note(f"signed; kept in {member.sign(read, who).folder}")


def _trial(group: typer.Typer) -> None:
    @group.command(
        "try", cls=SectionedCommand, epilog=examples("psephos study try", "psephos study try --nats --output try")
    )
    def try_(
        roles: Annotated[int, typer.Option(help="Members, a process each: a curator and parties.")] = 6,
        output: Annotated[
            Path | None, typer.Option(help="A new directory to play it in.", show_default="psephos-trial-...")
        ] = None,
        key_bits: Annotated[int, typer.Option(help="Length of the key that the holders make.")] = 2048,
        nats: Annotated[
            bool, typer.Option("--nats", help="The board on a NATS server, over TLS, in place of a file.")
        ] = False,
    ) -> None:
        """A whole study on this machine with bundled data: a process for every member, a key in shares."""
        from psephos.study.trial import run_trial

        run_trial(roles, output, key_bits, nats, note)
