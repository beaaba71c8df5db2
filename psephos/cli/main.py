"""The command `psephos`: runs a subcommand, and prints every expected error as one line.

Exit status: 0 for success; 1 if the run failed or an opened sum was wrong; 2 for bad usage; 3 if no gain is expected of
a release, so that nothing was encrypted or charged; 130 and 143 after Ctrl-C and SIGTERM.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from types import FrameType

TYPE_CHECKING = False
if TYPE_CHECKING:  # everything else is imported within `main`, which handles Ctrl-C during imports too
    import typer

COMMANDS = {
    "demo": "The vote count on a bundled data set, told step by step.",
    "run": "The main job: from data to one private classifier and its card.",
    "predict": "Predict with a model file that `run` wrote: CSV in, CSV out.",
    "evaluate": "Evaluate a model on the parties' held-out rows, with privacy, and calibrate its scores.",
    "study": "Prepare a study on many machines: identities, and the file that all members sign.",
    "join": "Sign a study and announce it on its board.",
    "agent": "Run all roles of a member in a study until there is a result.",
    "status": "Show how far a study is, as its board shows it.",
    "watch": "Serve a read-only page of a study.",
    "verify": "Verify a study from its board.",
    "budget": "Show what all releases from the same rows have cost together.",
    "simulate": "Simulate one protocol with all its options.",
    "reproduce": "Reproduce a paper's experiment, with the paper's numbers beside ours.",
    "plan": "Predict the bytes and the time of a run.",
    "audit": "Audit the protocols: who learns what, and whether epsilon holds.",
    "report": "Write a report from a saved JSON.",
    "board": "Set up a study's board: a server, or a file that is carried.",
}
"""Help of each command in `psephos --help`."""

_MEMBER = ("join", "agent", "status")
_MODULES = (
    dict.fromkeys(_MEMBER, "member") | dict.fromkeys(("predict", "report", "budget"), "files") | {"watch": "verify"}
)
"""The module of a command, where it has another name."""

_LONGEST_ERROR = 4_000
"""Most characters of an error that are printed."""

_FAILED, _BAD_USAGE, _NO_GAIN, _INTERRUPTED, _TERMINATED = 1, 2, 3, 130, 143


def build() -> typer.Typer:
    """Create the application; a command's module is imported when the command is invoked."""
    import typer

    from psephos.cli.generate import lazy_app
    from psephos.cli.shared import start_logging

    app = lazy_app(
        COMMANDS,
        _load,
        name="psephos",
        help="Combine many parties' classifiers into one private classifier. Each method's help says what the curator "
        "learns.",
        pretty_exceptions_enable=False,
    )

    @app.callback()
    def _root(
        show_version: bool = typer.Option(
            False, "--version", callback=_show_version, is_eager=True, help="Show versions and exit."
        ),
        log_level: str = typer.Option(
            "warning", help="Level of the log on standard error (JSON lines): debug, info, warning or error."
        ),
    ) -> None:
        start_logging(log_level)

    return app


def _load(name: str) -> typer.Typer:
    app: typer.Typer = import_module(f"psephos.cli.{_MODULES.get(name, name)}").app
    return app


def _show_version(wanted: bool) -> None:
    if not wanted:
        return
    import platform
    from importlib.metadata import version

    import typer

    import psephos

    libraries = ("phe", "gmpy2", "numpy", "scipy", "scikit-learn", "cryptography")
    typer.echo(f"psephos {psephos.__version__}, Python {platform.python_version()}")
    typer.echo(", ".join(f"{name} {version(name)}" for name in libraries))
    raise typer.Exit


def main() -> None:
    """Run the command; an error or a signal ends it with one line on standard error and an exit status."""
    stopped: dict[str, bool] = {}

    def terminated(signum: int, frame: FrameType | None) -> None:
        stopped["terminated"] = True
        raise KeyboardInterrupt

    try:
        signal.signal(signal.SIGTERM, terminated)
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:  # closed by the process that started this one
                setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - to the end
            elif hasattr(stream := getattr(sys, name), "reconfigure"):
                stream.reconfigure(errors="backslashreplace")  # a terminal may lack characters
        build()(standalone_mode=True)
    except KeyboardInterrupt:
        _leave(_INTERRUPTED, stopped)
    except SystemExit as leaving:
        if leaving.code == _INTERRUPTED:  # Typer's status after Ctrl-C; it prints nothing
            _leave(_INTERRUPTED, stopped)
        raise
    except MemoryError:
        _say("not enough memory: use fewer parties, samples or workers")
        sys.exit(_FAILED)
    except OSError as error:
        _say(f"{error.filename or 'input or output'}: {error.strerror or error}")
        sys.exit(_FAILED)
    except Exception as error:
        from psephos.protocol.errors import InvalidParameter, PsephosError, UselessReleaseError

        if not isinstance(error, PsephosError):
            raise
        _say(str(error))
        statuses = {InvalidParameter: _BAD_USAGE, UselessReleaseError: _NO_GAIN}
        sys.exit(next((status for kind, status in statuses.items() if isinstance(error, kind)), _FAILED))
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)  # a signal while Python exits must not raise KeyboardInterrupt


def _say(text: str) -> None:
    from psephos.protocol.foreign import printable

    with suppress(OSError):  # nobody reads standard error
        # Not wrapped to the terminal, as Rich would. Others may have written parts of it, such as names in a file.
        print(f"psephos: {printable(text, _LONGEST_ERROR)}", file=sys.stderr)


def _leave(code: int, stopped: Mapping[str, bool]) -> None:
    reason = "terminated" if stopped else "interrupted"
    _say(f"{reason}; {_how_to_continue(sys.argv[1:])}")
    sys.exit(_TERMINATED if stopped else code)


def _how_to_continue(words: Sequence[str]) -> str:
    command = next((word for word in words if word in COMMANDS), "")
    if command in _MEMBER:
        return "the same command continues"
    if command == "watch":
        return "the study does not depend on the page; the same command serves it again"
    if any(word.split("=")[0] == "--journal" for word in words):
        return "the same command continues from its journal"
    return "nothing was saved to continue from; where a command has --journal DIR, that saves it"
