"""Writing a report: `report.html`, `report.json` and its figures, all of them or none."""

from __future__ import annotations

import json
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from psephos.outcomes import Outcome
from psephos.protocol.errors import ReportError
from psephos.report.document import Document

_EXTRA = ("jinja2", "markupsafe", "matplotlib")


def write_report(
    result: Outcome,
    messages: Sequence[Mapping[str, Any]] | None,
    directory: str | os.PathLike[str],
    *,
    command: Sequence[str] | None = None,
) -> Path:
    """Write `report.html`, `report.json` and `figures/*.svg, *.png` into a directory; made here if it is not there.

    Args:
        result: what the command found.
        messages: `Transcript.redacted()`; None when the run kept no transcript.
        directory: where to write. Files of an earlier report there are replaced.
        command: the words of the command line, for whoever repeats the run.

    Returns:
        The path of report.html.

    Raises:
        ReportError: a message is not redacted or lacks a field, the directory cannot be written, or jinja2 or
            matplotlib is not installed.
    """
    told = None if messages is None else [dict(message) for message in messages]
    return _write(Document.made(result, told, None if command is None else shlex.join(command)), Path(directory))


def report_from_json(file: str | os.PathLike[str], directory: str | os.PathLike[str]) -> Path:
    """Draw a report again, from the `report.json` of an earlier one or from what `--json` printed.

    What `--json` printed has no transcript, machine or versions: the report then says that they were not recorded.
    Returns the path of report.html. Raises ReportError as `write_report` does, and for a file that is missing,
    truncated or no JSON of this program; ReportVersionError for one of another format.
    """
    path = Path(file)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(f"{path} cannot be read: {error}") from error
    try:
        loaded = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ReportError(
            f"{path} is no complete JSON ({error}): it was truncated, or more than one object was written to it; "
            "save the output of --json again"
        ) from error
    return _write(Document.from_json(loaded), Path(directory))


def write_figures(result: Outcome, directory: str | os.PathLike[str], stem: str) -> list[str]:
    """Each panel of a result as `STEM-N.svg` and `.png`; returns the paths. Raises ReportError as `write_report`."""
    charts, _ = _drawing()
    drawn = {f"{stem}-{name.removeprefix('panel-')}": figure for name, figure in charts.draw_panels(result).items()}
    return [str(path) for path in _save(Path(directory), _files("", drawn))]


def _write(document: Document, directory: Path) -> Path:
    charts, page = _drawing()
    drawn = charts.draw_figures(document)
    files = _files("figures/", drawn)
    try:
        files["report.json"] = (json.dumps(document.as_json(), indent=1) + "\n").encode()
        # Last, so that a page is never newer than what it was drawn from.
        files["report.html"] = page.render(document, {name: figure.inline for name, figure in drawn.items()}).encode()
    except UnicodeEncodeError as error:
        raise ReportError(f"this result holds text that is no Unicode: {error.reason}") from error
    return _save(directory, files)[-1]


def _drawing() -> tuple[Any, Any]:
    """The modules that draw. Neither jinja2 nor matplotlib is needed to run a protocol; the extra `report` has both."""
    try:
        from psephos.report import charts, page
    except ImportError as error:
        if error.name not in _EXTRA:  # a fault of this installation, which no other package mends
            raise
        raise ReportError(
            f"{error.name} is not installed; reports need the extra `report` (from a clone: pip install -e '.[report]')"
        ) from error
    return charts, page


def _files(folder: str, drawn: Mapping[str, Any]) -> dict[str, bytes]:
    pairs = ((name, suffix, getattr(figure, suffix)) for name, figure in drawn.items() for suffix in ("svg", "png"))
    return {f"{folder}{name}.{suffix}": data for name, suffix, data in pairs}


def _save(directory: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Each file whole or not at all."""
    written = []
    try:
        for name, data in files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f".{path.name}.part")
            part.write_bytes(data)
            written.append(part.replace(path))
    except OSError as error:
        raise ReportError(
            f"the report cannot be written to {directory}: {error.strerror}; choose a directory that you can write"
        ) from error
    return written


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"{text} is no finite number")
    return number


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")
