"""The JSON document that a report is drawn from: created here, and checked here when it is read."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import distributions
from typing import Annotated, Any

import msgspec

import psephos
from psephos.protocol.errors import ReportError
from psephos.results.base import FORMAT, Result, plain

LIBRARIES = ("phe", "gmpy2", "numpy", "scipy", "scikit-learn", "cryptography", "joblib")
"""Libraries whose versions are recorded, since a repetition needs them."""


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"sender": "from", "receiver": "to"}):
    """One message of a redacted transcript (`psephos.protocol.transcript.Transcript.redacted`)."""

    phase: str
    sender: str
    receiver: str
    kind: str
    bytes: Annotated[int, msgspec.Meta(ge=0)]
    sha256: str


class Environment(msgspec.Struct, frozen=True):
    """The machine and the versions of a run, without host and user names."""

    psephos: str
    python: str
    system: str
    processors: int | None
    libraries: dict[str, str]


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A result, and the other contents of its report: None for what was not recorded."""

    result: Result
    transcript: list[Message] | None = None
    environment: Environment | None = None
    command: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object of `report.json`; it begins with `notice` if the result may not be published."""
        parts = {name: plain(getattr(self, name)) for name in ("environment", "command", "transcript")}
        notice = {"notice": self.result.notice} if self.result.notice else {}
        return {**notice, "format": FORMAT, "kind": "report", **parts, "result": self.result.as_json()}

    @classmethod
    def made(cls, result: Result, messages: list[Any] | None, command: str | None) -> Document:
        """Return the document of a run on this machine, checked as `from_json` checks it."""
        made = cls(result=result, transcript=messages, environment=environment(), command=command)
        return cls.from_json(json.loads(json.dumps(made.as_json())))

    @classmethod
    def from_json(cls, document: Any) -> Document:
        """Read the JSON of `report.json`, or of a command's `--json`; raises as `Result.from_json`."""
        if not isinstance(document, dict) or document.get("kind") != "report":
            return cls(result=Result.from_json(document))
        if document.get("format") != FORMAT:
            raise ReportError(
                f"this is a report in format {document.get('format')!r}, and psephos {psephos.__version__} reads "
                f"format {FORMAT}: draw it with the version that wrote it, or run the command again"
            )
        if set(document) - {"notice"} != {"format", "kind", "environment", "command", "result", "transcript"}:
            raise ReportError(f"a report has not these parts: {', '.join(sorted(map(str, document)))}")
        try:
            return cls(
                result=Result.from_json(document["result"]),
                transcript=msgspec.convert(document["transcript"], list[Message] | None),
                environment=msgspec.convert(document["environment"], Environment | None),
                command=msgspec.convert(document["command"], str | None),
            )
        except msgspec.ValidationError as error:
            raise ReportError(f"this is no report, or its transcript is not redacted: {error}") from None


def environment() -> Environment:
    """Return the machine and the versions that a repetition needs."""
    found = {one.name.lower(): one.version for one in distributions()}
    libraries = {name: found.get(name, "not installed") for name in LIBRARIES}
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return Environment(psephos.__version__, platform.python_version(), system, os.cpu_count(), libraries)
