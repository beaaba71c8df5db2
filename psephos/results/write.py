"""Writes a report, once all of it is rendered; files with a `notice` are their owner's only (0600)."""

from __future__ import annotations

import json
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from psephos.files import write_atomically
from psephos.protocol.errors import ReportError
from psephos.protocol.foreign import read_text
from psephos.results.base import Result
from psephos.results.document import Document

MOST_BYTES = 1 << 28
"""The largest saved result that is read, in bytes."""

_EXTRA = ("jinja2", "markupsafe", "matplotlib")


def write_report(
    result: Result,
    messages: Sequence[Mapping[str, Any]] | None,
    directory: str | os.PathLike[str],
    *,
    command: Sequence[str] | None = None,
) -> Path:
    """Write `report.html`, `report.json` and `figures/*.svg, *.png` into a directory, which is created if missing.

    `messages` are `Transcript.redacted()`, `command` the words of the command line. Raises ReportError where a message
    is not redacted, the directory cannot be written, or a package is missing.
    """
    copies = None if messages is None else [dict(message) for message in messages]
    return _write(Document.made(result, copies, None if command is None else shlex.join(command)), Path(directory))


def report_from_json(file: str | os.PathLike[str], directory: str | os.PathLike[str]) -> Path:
    """Write a report from a `report.json`, or from what a command printed with `--json`, which has no transcript.

    Raises ReportError for a file that is none, or of another format.
    """
    path = Path(file)
    try:
        text = read_text(path, MOST_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(f"{path} cannot be read: {getattr(error, 'strerror', error)}") from error
    try:
        loaded = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ReportError(
            f"{path} is no complete JSON ({error}): it was truncated, or more than one object was written to it; "
            "save the output of --json again"
        ) from error
    return _write(Document.from_json(loaded), Path(directory))


def _write(document: Document, directory: Path) -> Path:
    try:
        from psephos.results import charts, page
    except ImportError as error:
        if error.name not in _EXTRA:  # a defect of this installation, which no extra package repairs
            raise
        raise ReportError(
            f"{error.name} is not installed; reports need the extra `report` (from a clone: pip install -e '.[report]')"
        ) from error
    figures = charts.draw_figures(document)
    notice = document.result.notice
    files = {}
    for name, figure in figures.items():  # an SVG begins with the notice, if there is one (a PNG cannot contain it)
        head, end, rest = figure.svg.partition(b"?>")
        comment = f"\n<!-- {notice} -->".encode() if notice else b""
        files[f"figures/{name}.svg"] = head + end + comment + rest if end else comment.lstrip() + figure.svg
        files[f"figures/{name}.png"] = figure.png
    try:
        files["report.json"] = (json.dumps(document.as_json(), indent=1) + "\n").encode()
        # Last, so that a page is never newer than what it was drawn from.
        files["report.html"] = page.render(document, {name: figure.inline for name, figure in figures.items()}).encode()
    except UnicodeEncodeError as error:
        raise ReportError(f"this result holds text that is no Unicode: {error.reason}") from error
    return _save(directory, files, secret=bool(notice))[-1]


def make_folder(directory: Path, *, secret: bool) -> None:
    """Create a directory and its missing parents, readable by their owner only if `secret`; raises OSError."""
    if not directory.is_dir():
        if directory.parent != directory:
            make_folder(directory.parent, secret=secret)
        directory.mkdir(mode=0o700 if secret else 0o777, exist_ok=True)


def _save(directory: Path, files: Mapping[str, bytes], *, secret: bool) -> list[Path]:
    """Write each file whole or not at all, and return the paths."""
    paths = []
    try:
        for name, data in files.items():
            path = directory / name
            make_folder(path.parent, secret=secret)
            write_atomically(path, data, mode=0o600 if secret else None)
            paths.append(path)
    except OSError as error:
        raise ReportError(
            f"the report cannot be written to {directory}: {error.strerror}; choose a directory that you can write"
        ) from error
    return paths


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"{text} is no finite number")
    return number


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")
