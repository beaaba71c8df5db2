"""The JSON document behind a report: made here, checked here when it comes back, and drawn by `psephos.report.page`.

Bad input ends here with a named error: a file that stops early, a format of another version, numbers where words
belong. What a run has not delivered (because it was interrupted, say) is not an error; `gaps` names it and the report
shows it.
"""

from __future__ import annotations

import json
import math
import os
import platform
import shlex
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from psephos.protocol.errors import ReportError, ReportVersionError

__all__ = ["ALPHA_NOTICE", "FORMAT", "alpha_summary", "environment", "gaps", "report_from_json", "write_report"]

FORMAT = 1
"""Of the report's JSON. A change that an older program would misread gets another number."""

ALPHA_NOTICE = "known to the curator, not private, not for release"
"""Stands wherever alpha is shown or saved."""

LIBRARIES = ("phe", "gmpy2", "numpy", "scipy", "scikit-learn", "cryptography", "dp-accounting", "joblib")

_EXTRA = ("jinja2", "markupsafe", "matplotlib")

_MESSAGE_FIELDS = {"phase": str, "from": str, "to": str, "kind": str, "bytes": int, "sha256": str}

_PHASES = ("keygen", "train", "encrypt", "aggregate", "decrypt", "fit")

_EXPECTED: dict[str, tuple[str, ...]] = {
    "tally": (
        "tally_equals_plaintext",
        *(f"accuracy.{name}" for name in ("batch", "indiv", "ensemble", "vote", "soft", "avg")),
        *(f"sensitivity.{name}" for name in ("vote", "soft", "avg")),
        *(f"seconds.{phase}" for phase in _PHASES),
    ),
    "statistic": ("accuracy.statistic", "sensitivity", *(f"seconds.{phase}" for phase in _PHASES)),
    "pathak": ("shares_equal_reference", "stages", "epsilon_proved"),
    "psgd": ("sums_equal_reference", "steps", "epsilon_final", "epsilon_transcript"),
}


def write_report(
    result: Mapping[str, Any],
    transcript_messages: Sequence[Mapping[str, Any]] | None,
    directory: str | os.PathLike[str],
    *,
    counts: ArrayLike | None = None,
    command: Sequence[str] | None = None,
) -> Path:
    """Write `report.html`, `report.json` and `figures/*.svg, *.png` into a directory; made here if it is not there.

    Args:
        result: what the command prints with `--json`. Of an interrupted run: what there is, and under "interrupted" a
            sentence that says where it ended.
        transcript_messages: `Transcript.redacted()`; None when the run kept no transcript.
        directory: where to write. Files of an earlier report there are replaced.
        counts: the opened counts, integers (N, K): parties per auxiliary sample and class. Only the distribution of
            the winning class's share and the mean share of each class are kept. Without them the result's own "alpha",
            an `alpha_summary`, is taken where there is one.
        command: the words of the command line, for whoever repeats the run.

    Returns:
        The path of report.html.

    Raises:
        ReportError: the result is none of this program, a message is not redacted or lacks a field, the directory
            cannot be written, or jinja2 or matplotlib is not installed.
    """
    document: dict[str, Any] = {
        "psephos_report": FORMAT,
        "environment": environment(),
        "command": None if command is None else shlex.join(command),
        "result": dict(result),
        "transcript": None if transcript_messages is None else [dict(message) for message in transcript_messages],
        "alpha": result.get("alpha") if counts is None else alpha_summary(counts),
    }
    try:
        plain = json.loads(json.dumps(document, allow_nan=False, default=_plain))
    except (TypeError, ValueError) as error:
        raise ReportError(f"the result cannot be written as JSON: {error}") from error
    return _write(plain, Path(directory))


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
    if isinstance(loaded, dict) and "psephos_report" not in loaded:
        found = loaded.get("format", FORMAT)
        loaded = {"psephos_report": found, "environment": None, "command": None, "result": loaded}
        loaded |= {"transcript": None, "alpha": loaded["result"].get("alpha")}
    return _write(loaded, Path(directory))


def alpha_summary(counts: ArrayLike) -> dict[str, Any]:
    """What a report keeps of the opened counts (N, K): no sample's alpha, only how they are distributed.

    `share_edges` (21,) and `samples_per_share` (20,): a histogram over [0, 1] of the winning class's share of votes;
    `mean_alpha` (K,). Raises ReportError for counts that are no table of parties per sample and class.
    """
    table = np.asarray(counts)
    if table.ndim != 2 or not table.size or table.dtype.kind not in "iu" or (table < 0).any():
        raise ReportError(f"counts form a table (N, K) of whole numbers, not {table.dtype} of shape {table.shape}")
    ballots = table.sum(axis=1)
    if ballots[0] == 0 or (ballots != ballots[0]).any():
        raise ReportError("every auxiliary sample has as many votes as there are ballots, and these counts do not")
    share = table.max(axis=1) / ballots
    samples, edges = np.histogram(share, bins=20, range=(0.0, 1.0))
    return {
        "notice": ALPHA_NOTICE,
        "auxiliary": len(table),
        "ballots": int(ballots[0]),
        "share_edges": [round(float(edge), 2) for edge in edges],
        "samples_per_share": [int(n) for n in samples],
        "mean_alpha": [float(mean) for mean in (table / ballots[:, None]).mean(axis=0)],
    }


def environment() -> dict[str, Any]:
    """This machine and the versions that a repetition needs; no host or user name."""
    libraries = {}
    for name in LIBRARIES:
        try:
            libraries[name] = version(name)
        except PackageNotFoundError:
            libraries[name] = "not installed"
    return {
        "psephos": _own_version(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": os.cpu_count(),
        "libraries": libraries,
    }


def gaps(document: Mapping[str, Any]) -> list[str]:
    """What a complete report of this protocol has and this document lacks, in words; empty when it is whole."""
    result = document["result"]
    expected = _EXPECTED.get(str(result.get("protocol")).partition("-")[0])
    if expected is None:
        return []
    return [path for path in ("accuracy", "seconds", *expected) if not _has(result, path)]


def _write(document: Any, directory: Path) -> Path:
    _check(document)
    # Imported here: neither is needed to run a protocol, and both come with the extra "report".
    try:
        from jinja2 import TemplateError

        from psephos.report.charts import draw_figures
        from psephos.report.page import render
    except ImportError as error:
        if error.name not in _EXTRA:  # a fault of this installation, which no other package mends
            raise
        raise ReportError(
            f"{error.name} is not installed; reports need the extra `report` (from a clone: pip install -e '.[report]')"
        ) from error
    try:
        drawn = draw_figures(document)
        page = render(document, {name: figure.inline for name, figure in drawn.items()}).encode()
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError, TemplateError) as error:
        raise ReportError(f"this result is not one that psephos writes, or was edited: {error!r}") from error
    try:
        (directory / "figures").mkdir(parents=True, exist_ok=True)
        for name, figure in drawn.items():
            _replace(directory / "figures" / f"{name}.svg", figure.svg)
            _replace(directory / "figures" / f"{name}.png", figure.png)
        _replace(directory / "report.json", (json.dumps(document, indent=1) + "\n").encode())
        # Last, so that a page is never newer than what it was drawn from.
        return _replace(directory / "report.html", page)
    except OSError as error:
        raise ReportError(
            f"the report cannot be written to {directory}: {error.strerror}; choose a directory that you can write"
        ) from error


def _replace(path: Path, data: bytes) -> Path:
    """Write whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(data)
    part.replace(path)
    return path


def _check(document: Any) -> None:
    if not isinstance(document, dict):
        raise ReportError(f"a result is one JSON object, not a {type(document).__name__}")
    found = document.get("psephos_report")
    if found != FORMAT or isinstance(found, bool):
        raise ReportVersionError(
            f"this is a result in format {found!r}, and psephos {_own_version()} reads format {FORMAT}: draw it with "
            "the version that wrote it, or run the command again"
        )
    if set(document) != {"psephos_report", "environment", "command", "result", "transcript", "alpha"}:
        raise ReportError(f"a report has not these parts: {', '.join(sorted(map(str, document)))}")
    result = document["result"]
    if not isinstance(result, dict) or not _is_ours(result):
        raise ReportError(
            "this JSON is no result of psephos run, reproduce or audit: it names no protocol and no experiment"
        )
    for path, number in _accuracies(result):
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= 1:
            raise ReportError(f"{path} is a share between 0 and 1, not {number!r}")
    seconds = result.get("seconds", 0)
    for phase, taken in seconds.items() if isinstance(seconds, dict) else [("", seconds)]:
        if taken is None:
            continue
        if isinstance(taken, bool) or not isinstance(taken, int | float) or not 0 <= taken < math.inf:
            raise ReportError(f"seconds.{phase} is a time, not {taken!r}")
    if document["transcript"] is not None:
        _check_messages(document["transcript"])


def _is_ours(result: Mapping[str, Any]) -> bool:
    protocol = str(result.get("protocol"))
    experiment = str(result.get("experiment", result.get("name")))
    return (
        protocol == "privacy-audit"
        or protocol.partition("-")[0] in _EXPECTED
        or isinstance(result.get("protocols"), list)
        or experiment.startswith(("hamm-", "pathak-", "rajkumar-"))
    )


def _check_messages(messages: Any) -> None:
    if not isinstance(messages, list):
        raise ReportError("a transcript is a list of messages")
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or set(message) != set(_MESSAGE_FIELDS):
            fields = ", ".join(_MESSAGE_FIELDS)
            raise ReportError(
                f"message {number} of the transcript is not redacted: it must have {fields}, nothing else"
            )
        for name, kind in _MESSAGE_FIELDS.items():
            if not isinstance(message[name], kind) or isinstance(message[name], bool):
                raise ReportError(f"message {number} of the transcript: {name} is a {kind.__name__}")
        if message["bytes"] < 0:
            raise ReportError(f"message {number} of the transcript has {message['bytes']} bytes")


def _accuracies(result: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    accuracy = result.get("accuracy", {})
    if not isinstance(accuracy, dict):
        raise ReportError("accuracy is a table by algorithm")
    for name, value in accuracy.items():
        if name.endswith("_rows"):
            continue
        if isinstance(value, dict):
            for part in ("nonprivate", "private"):
                if value.get(part) is not None:
                    yield f"accuracy.{name}.{part}", value[part]
        else:
            yield f"accuracy.{name}", value


def _has(result: Mapping[str, Any], path: str) -> bool:
    value: Any = result
    for part in path.split("."):
        if not isinstance(value, dict) or part not in value:
            return False
        value = value[part]
    return True


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} has no place in a result")


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"{text} is no finite number")
    return number


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _own_version() -> str:
    import psephos

    return psephos.__version__
