"""The command `psephos`: finds the subcommand, and says in one line what went wrong.

Only the subcommand that was asked for is imported. Exit status: 0; 1, the run failed or something opened was not what
it must be; 2, bad usage; 130 and 143, stopped by Ctrl-C and by SIGTERM.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import FrameType

TYPE_CHECKING = False
if TYPE_CHECKING:  # all else is imported in `main`: importing is part of what can be interrupted
    import typer

__all__ = ["COMMANDS", "build", "main"]

COMMANDS = {
    "run": "The main job: data in, one private classifier and its card out.",
    "predict": "Use a model file that `run` wrote: CSV in, CSV out.",
    "study": "A study on many machines: identities, and the file that everybody signs. `study try` plays one here.",
    "join": "Sign a study and say so on its board.",
    "agent": "Spec all of one's roles in a study until there is a result.",
    "vote": "A party's part in a study, as far as it goes now.",
    "hold": "A key holder's part in a study, as far as it goes now.",
    "curate": "The curator's part in a study, as far as it goes now.",
    "status": "Where a study stands, as anybody sees it.",
    "watch": "Serve a read-only page of a study, and metrics.",
    "verify": "Check a study again from its board.",
    "simulate": "Experiments with one protocol: tally, average, pathak or psgd, with all their options.",
    "reproduce": "A paper's experiment: its table and figures, with the paper's own numbers beside ours.",
    "plan": "Predict the time, bytes and memory of a counting round.",
    "audit": "The security analysis: who learned what, and whether a simulator can fake it.",
    "bench": "Speed and size on this machine, beside the Paillier libraries that are installed.",
    "report": "Draw a report again from a saved JSON.",
    "board": "Boards of a study: the configuration of a server, and boards that travel as files.",
}
"""Each with the line that `psephos --help` says of it."""

_MEMBER = ("join", "agent", "vote", "hold", "curate", "status")
"""Commands of one module."""

_TAKES_JOURNAL = (
    "run",
    *(f"simulate {name}" for name in ("tally", "average", "psgd")),
    *(f"reproduce hamm-{name}" for name in ("har", "kdd99", "url")),
)
"""Commands with an option --journal."""

_ROOT_OPTIONS_WITH_VALUE = ("--log-level",)
"""Options of `psephos` itself that are followed by a value."""

_FAILED, _BAD_USAGE, _INTERRUPTED, _TERMINATED = 1, 2, 130, 143


def build() -> typer.Typer:
    """Create the application; a command's module is imported when the command is invoked."""
    import typer

    from psephos.cli.lazy import lazy_app
    from psephos.cli.shared import start_logging

    app = lazy_app(
        COMMANDS,
        _register,
        name="psephos",
        help="Combine many parties' classifiers into one private classifier. Each method's help says what the curator "
        "learns.",
        pretty_exceptions_enable=False,
    )

    @app.callback()
    def _root(
        show_version: bool = typer.Option(
            False, "--version", callback=_show_version, is_eager=True, help="Show versions and leave."
        ),
        log_level: str = typer.Option(
            "warning", help="What is logged on standard error, as JSON lines: debug, info, warning or error."
        ),
    ) -> None:
        start_logging(log_level)

    return app


def _register(app: typer.Typer, name: str) -> None:
    """Import the module of a command and add the command to an application."""
    if name in _MEMBER:
        getattr(import_module("psephos.cli.member"), f"register_{name}")(app)
    else:
        import_module(f"psephos.cli.{name}").register(app)


def _show_version(wanted: bool) -> None:
    if not wanted:
        return
    import platform
    from importlib.metadata import version

    import typer

    import psephos

    libraries = ("phe", "gmpy2", "numpy", "scipy", "scikit-learn", "cryptography", "dp-accounting")
    typer.echo(f"psephos {psephos.__version__}, Python {platform.python_version()}")
    typer.echo(", ".join(f"{name} {version(name)}" for name in libraries))
    raise typer.Exit


def main() -> None:
    """Run the command; whatever ends it early is one line on standard error and an exit status."""
    stopped: dict[str, bool] = {}

    def terminated(signum: int, frame: FrameType | None) -> None:
        stopped["terminated"] = True
        raise KeyboardInterrupt

    try:
        signal.signal(signal.SIGTERM, terminated)
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:  # whoever started this has closed it
                setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - to the end
        build()(standalone_mode=True)
    except KeyboardInterrupt:
        _leave(_INTERRUPTED, stopped)
    except SystemExit as leaving:
        if leaving.code == _INTERRUPTED:  # what typer makes of Ctrl-C, without a word
            _leave(_INTERRUPTED, stopped)
        raise
    except MemoryError:
        _say("this takes more memory than there is: ask for less; `psephos plan` says how much a round needs")
        sys.exit(_FAILED)
    except OSError as error:
        _say(f"{error.filename or 'input or output'}: {error.strerror or error}")
        sys.exit(_FAILED)
    except Exception as error:
        from psephos.protocol.errors import InvalidParameter, PsephosError

        if not isinstance(error, PsephosError):
            raise
        _say(str(error))
        sys.exit(_BAD_USAGE if isinstance(error, InvalidParameter) else _FAILED)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)  # Python's own end has no use for KeyboardInterrupt


def _say(text: str) -> None:
    print(f"psephos: {text}", file=sys.stderr)  # one line, however the terminal is


def _leave(code: int, stopped: Mapping[str, bool]) -> None:
    ended = "terminated" if stopped else "interrupted"
    _say(f"{ended}; {_how_to_go_on(sys.argv[1:])}")
    sys.exit(_TERMINATED if stopped else code)


def _how_to_go_on(words: Sequence[str]) -> str:
    """What an interrupted command line can do next, in words."""
    command = _command_of(words)
    if command[:1] and command[0] in _MEMBER:
        return "the same command goes on"
    if command == ["watch"]:
        return "nothing depended on the page; the same command shows it again"
    if any(word.split("=")[0] == "--journal" for word in words):
        return "the same command goes on from its journal"
    with_journal = " ".join(command) in _TAKES_JOURNAL
    return "nothing is kept to go on from" + ("; with --journal DIR it would be" if with_journal else "")


def _command_of(words: Sequence[str]) -> list[str]:
    """The name of the command that a command line runs, such as ["run"] or ["simulate", "tally"]; [] without one.

    Typer may not be imported yet when this is asked, so the few options that stand before a command are known here.
    """
    remaining = iter(words)
    for word in remaining:
        if word in _ROOT_OPTIONS_WITH_VALUE:
            next(remaining, None)
        elif not word.startswith("-"):
            return [word, *([next(remaining, "")] if word in ("simulate", "reproduce") else [])]
    return []
