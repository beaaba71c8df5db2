"""Code that all commands share: options for output, the display of progress, logging, and printing results."""

from __future__ import annotations

import fcntl
import io
import json
import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from psephos.protocol.errors import InvalidParameter, PsephosError, ReportError
from psephos.protocol.foreign import printable

AsJson = Annotated[
    bool,
    typer.Option(
        "--json", help="Print one JSON object on standard output, and nothing else there.", rich_help_panel="Output"
    ),
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Print all details, not only the answer.", rich_help_panel="Output"),
]
ReportDir = Annotated[
    Path | None,
    typer.Option(help="Write report.html, its figures and its JSON into this directory.", rich_help_panel="Output"),
]
OutputDir = Annotated[
    Path | None,
    typer.Option(
        "--output", help="Write the model, and what belongs to it, into this directory.", rich_help_panel="Output"
    ),
]
ModelAt = Annotated[Path, typer.Argument(help="A model file, or the directory that `psephos run` wrote.")]

REPORT_NEEDS = ("jinja2", "matplotlib")

_EVERY = 30.0  # seconds between lines about the progress, where standard error is no terminal
_log = logging.getLogger("psephos.cli")


class OutputError(PsephosError):
    """Raised if the result cannot be written to standard output, which is closed or on a full disk."""


def note(text: str) -> None:
    """Print lines on standard error; they are lost, and the command goes on, if that is closed or on a full disk."""
    with suppress(OSError):
        print(printable(text, lines=True), file=sys.stderr)


# -- progress


class ProgressDisplay:
    """Shows the progress of a long run on standard error: as bars on a terminal, elsewhere as a line every half minute.

    Every phase is also logged. Call it as `psephos.progress.Progress`.
    """

    def __init__(self) -> None:
        self._stream = sys.stderr
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}
        self._done: dict[str, tuple[int, int]] = {}
        self._started = time.monotonic()
        self._over = threading.Event()
        self.last = ""

    def __enter__(self) -> ProgressDisplay:
        if self._stream.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bars

            columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn())
            self._bars = Bars(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(file=self._stream))
            self._bars.start()
        else:
            threading.Thread(target=self._print_lines, daemon=True).start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._over.set()
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show that `done` of `total` steps of the phase `what` are done."""
        if what != self.last:
            _log.info("phase", extra={"about": {"phase": what, "of": total}})
            self.last = what
        self._done[what] = (done, total)
        if self._bars is not None:
            if what not in self._tasks:
                self._tasks[what] = self._bars.add_task(what, total=total)
            self._bars.update(self._tasks[what], completed=done, total=total)

    def _print_lines(self) -> None:
        while not self._over.wait(_EVERY):
            done, total = self._done.get(self.last, (0, 0))
            state = f"{self.last}, {done:,} of {total:,}" if self.last else "getting ready"
            print(f"psephos: {state}, {time.monotonic() - self._started:.0f} s", file=self._stream, flush=True)


# -- logging


class _JsonLines(logging.Handler):
    """Writes a JSON object for each log record: time (UTC, ISO 8601), level, logger, message, and fields of `about`."""

    def emit(self, record: logging.LogRecord) -> None:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "about", {}),
        }
        note(json.dumps(line))


def start_logging(level: str) -> None:
    """Write the log of `psephos` to standard error, as JSON lines."""
    if level not in ("debug", "info", "warning", "error"):
        raise InvalidParameter(f"--log-level is debug, info, warning or error, not {level!r}")
    logger = logging.getLogger("psephos")
    logger.handlers = [_JsonLines()]
    logger.setLevel(level.upper())
    logger.propagate = False


# -- results


def check_directory(
    directory: Path | None,
    what: str = "a report",
    needs: Sequence[str] = REPORT_NEEDS,
    *,
    secret: bool = False,
) -> None:
    """Check that a directory can be written to, before hours are spent, and create it if it is missing.

    `what`: the files that will be written, with which packages it `needs`. `secret`: whether a directory that is
    created is readable by its owner only.
    """
    if directory is None:
        return
    if directory.exists() and not directory.is_dir():
        raise ReportError(f"{what} is written into a directory, but {directory} is a file; name another one")
    if missing := [package for package in needs if find_spec(package) is None]:
        raise ReportError(f"{what} needs {' and '.join(missing)}: {sys.executable} -m pip install {' '.join(missing)}")
    from psephos.results.write import make_folder

    try:
        make_folder(directory, secret=secret)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise ReportError(
            f"{what} cannot be written to {directory} ({error.strerror}); name another directory"
        ) from None


@contextmanager
def output_directory(directory: Path | None, what: str, needs: Sequence[str] = ()) -> Iterator[None]:
    """Create the directory of a release, and keep it for this process while the release is computed."""
    from psephos.model import MODEL_FILE

    check_directory(directory, what, needs)
    if directory is None:
        yield
        return
    # The lock ends with the process, however it ends, and leaves no file.
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidParameter(
                f"another command is computing {what} for {directory}: name another directory with --output"
            ) from None
        except OSError:  # some network file systems lock no directories
            _log.info("the output directory cannot be locked")
        if (directory / MODEL_FILE).exists():
            raise InvalidParameter(
                f"{directory} holds a released model, and another one would cost epsilon once more: name another "
                "directory with --output, or take the file away"
            )
        yield
    finally:
        os.close(lock)


def command_line() -> list[str]:
    """Return the words of the command line, for whoever repeats it."""
    return ["psephos", *sys.argv[1:]]


def emit(text: str) -> None:
    """Write lines of text to standard output, where a terminal may show them; raises as `emit_raw`."""
    emit_raw(printable(text, lines=True))


def emit_raw(text: str) -> None:
    """Write data, or text that has been made printable, to standard output, and flush it."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # Python flushes standard output again when it exits, and would print a second error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OutputError(f"the result could not be written to standard output: {error.strerror}") from None


def finish(
    result: Any,
    *,
    as_json: bool,
    verbose: bool = False,
    report: Path | None = None,
    transcript: Any = None,
    save: Callable[[Any], Sequence[str]] = lambda result: (),
    printed_before: Collection[str] = (),
) -> None:
    """Save the output of a run, print its result, and write its report; each is done even if another fails.

    Exit with status 1 if an opened sum is wrong, or a verdict of an audit is not the expected one.
    """
    lines: Sequence[str] = ()
    try:
        if result.exact is not False:
            lines = save(result)
    finally:
        try:
            _print_result(result, lines, as_json=as_json, verbose=verbose, printed_before=printed_before)
        finally:
            _log.info("result", extra={"about": {"kind": result.kind, "exact": result.exact}})
            if report is not None:
                from psephos.results.write import write_report

                messages = None if transcript is None else transcript.redacted()
                note(f"report written to {write_report(result, messages, report, command=command_line())}")
    if result.exact is False:
        raise typer.Exit(1)


class _Page(io.StringIO):
    """A text for standard output, with its encoding: Rich draws lines with characters that it has."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return sys.stdout.encoding or "utf-8"


def _print_result(
    result: Any, lines: Sequence[str], *, as_json: bool, verbose: bool, printed_before: Collection[str]
) -> None:
    """Print a result and the lines below it; with `as_json`, all but one JSON object on standard error."""
    if as_json:
        emit_raw(json.dumps(result.as_json()) + "\n")
        if result.notice:
            note(f"psephos: {result.notice}")
        for text in result.page().texts("warning"):
            if text not in printed_before:
                note(f"psephos: WARNING: {text}")
        for line in lines:
            note(line)
        return
    from rich.console import Console

    from psephos.cli.show import show

    page = _Page()
    console = Console(file=page, force_terminal=sys.stdout.isatty(), width=Console().width)
    show(result, console, verbose=verbose, printed_before=printed_before)
    emit_raw(page.getvalue())
    if lines:
        emit("\n".join(["", *lines, ""]))
