"""Follow a study on its board, and describe its progress for `psephos status` and `psephos watch`.

A follower holds no secret and cannot sign. It shows names from the study, kinds of messages and sizes; of the content
of messages only the digest of the result, and a holder's reason why there is no key.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from psephos.protocol.board import Board
from psephos.protocol.board.client import BoardReader, describe_missing
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.errors import BoardError, PsephosError
from psephos.protocol.privacy.accounting import stated_delta
from psephos.protocol.study.stages import AgreedKey, ComparingKeys, NoKey, StagedRole, initial_stages
from psephos.protocol.study.study import CURATOR, Study
from psephos.protocol.wire import Kind, Reader, kind_of
from psephos.specs.registry import noise_from
from psephos.study.identity import fingerprint

__all__ = ["Follower", "LogLine", "steps_of", "verifier"]

_LOG_LENGTH = 500
"""Lines of the log that are kept; the board has all of them, and the page shows the last 100."""


def steps_of(study: Study, name: str) -> list[tuple[Kind, str]]:
    """Return the public messages of a role in order: their kinds, and what the role has done with each."""
    kind, joined = name.split()[0], (Kind.JOINED, "joined")
    if not study.uses_key:
        last = [(Kind.RESULT, "published the result")] if kind == CURATOR else []
        return [joined, (Kind.PUBLISHED_SHARE, "published a share"), *last]
    if kind == CURATOR:
        return [joined, (Kind.CLOSE, "closed the vote"), (Kind.RESULT, "published the result")]
    if kind == "party":
        return [joined, (Kind.BALLOT, "cast a ballot")]
    noise = [(Kind.NOISE_BALLOT, "added noise")] if noise_from(study) == "holders" else []
    opened = [*noise, (Kind.CONFIRMATION, "confirmed"), (Kind.PARTIAL_DECRYPTION, "opened")]
    return [joined, (Kind.PUBLIC_KEY, "made the key"), *opened]


@dataclass(frozen=True)
class LogLine:
    """One entry of the log as a page shows it; `error` says why readers reject it."""

    number: int
    author: str
    receiver: str
    kind: str
    bytes: int
    seen: float
    error: str = ""


@dataclass
class Follower:
    """Follows one board from its beginning: `step` reads what is new, `state` describes all that was read.

    One thread may call `step` while others call `state`.

    Attributes:
        study: the study.
        open: opens the board; called again after the board failed.
        clock: returns seconds since 1970.
        check: makes the checks of a study that has a result; None to make none.
        lines: the last lines of the log.
        messages: the number of accepted entries of each role, by the title of their `Kind`, or "secret", "secret to the
            curator", "not a message".
        sizes: bytes of the accepted entries, by author.
        size: bytes of all entries.
        times: when the last accepted entry of an author was read, in seconds since 1970.
        heads: the size of the log that an author had read when it signed its last entry.
        refused: the number of rejected entries, by the class of the error.
        counted: the number of parties that had cast a ballot when the vote was closed; None before.
        result: SHA-256 of the published result in hexadecimal; empty before.
        failure: why the board could not be read; empty if it could.
        checks: the checks of a study that has a result.
        stepped_at: when the last step ended, in seconds since 1970.
    """

    study: Study
    open: Callable[[], Board]
    clock: Callable[[], float] = time.time
    check: Callable[[Board], list[dict[str, str]]] | None = None
    lines: deque[LogLine] = field(default_factory=lambda: deque(maxlen=_LOG_LENGTH))
    messages: dict[str, Counter[str]] = field(default_factory=dict)
    sizes: Counter[str] = field(default_factory=Counter)
    size: int = 0
    times: dict[str, float] = field(default_factory=dict)
    heads: dict[str, int] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    counted: int | None = None
    result: str = ""
    failure: str = ""
    checks: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._reader = BoardReader(self.study.members)
        self._setup = StagedRole("follower", *initial_stages("follower", self.study))  # up to the holders' key
        self._setup_state = self._setup.start().state
        self._answered: set[str] = set()  # who has sent a ballot since the curator's latest announcement
        self._board: Board | None = None
        self._lock = threading.Lock()
        self.messages = {name: Counter() for name in self.study.members.keys}
        self.stepped_at = self.clock()

    def step(self) -> bool:
        """Read what is new, and return whether anything changed.

        A board that fails is opened again by the next step.
        """
        changed, before = bool(self.failure), self.entries
        try:
            self._board = self._board or self.open()
            changed, self.failure = self.read(self._board) or changed, ""
            if self.result and self.check is not None and not self.checks:
                self.checks, changed = self._make_checks(self._board, self.check), True
        except BoardError as error:
            changed = self.entries > before or self.failure != str(error)
            self.failure, self._board = str(error), None
        self.stepped_at = self.clock()
        return changed

    def _make_checks(self, board: Board, check: Callable[[Board], list[dict[str, str]]]) -> list[dict[str, str]]:
        """Return the checks, or one that failed if they end in an error, so that the page goes on."""
        try:
            return check(board)
        except BoardError:
            raise
        except PsephosError as error:
            return [{"what": "the checks", "verdict": "fails", "found": f"{type(error).__name__}: {error}"}]

    def read(self, board: Board) -> bool:
        """Read what is new on an open board, and return whether there was anything. Raises BoardError."""
        before = self.entries
        for number, data in board.read(before):
            with self._lock:
                self._record(number, data)
        return self.entries > before

    def _record(self, number: int, data: bytes) -> None:
        now, checked = self.clock(), self._reader.check(number, data)
        self.size += len(data)
        author, receiver, kind = checked.record.author or "?", "", "refused"
        if not data:
            kind = "part of a longer entry"
        elif checked.error is not None:
            self.refused[type(checked.error).__name__] += 1
        elif not checked.record.author:
            kind = "repeated"  # a copy of an earlier entry, which anybody can post
        else:
            entry = SignedEntry.decode(data)
            receiver, self.heads[author] = entry.receiver, entry.head.size
            if checked.entry is not None:
                self._setup_state = self._setup.receive(self._setup_state, [checked.entry]).state
            secret = "secret to the curator" if receiver == CURATOR else "secret"
            kind = secret if entry.secret else self._kind(entry)
            self.messages[author][kind] += 1
            self.sizes[author] += len(data)
            self.times[author] = now
        error = "" if checked.error is None else f"{type(checked.error).__name__}: {checked.error}"
        self.lines.append(LogLine(number, author, receiver, kind, len(data), now, error))

    def _kind(self, entry: SignedEntry) -> str:
        try:
            kind = kind_of(entry.body)
            if kind is Kind.CLOSE and entry.author == CURATOR and self.counted is None:
                self.counted = self._senders_of(Kind.BALLOT)
            if kind is Kind.RESULT and entry.author == CURATOR and not self.result:
                self.result = hashlib.sha256(Reader(entry.body, kind, self.study.digest).rest()).hexdigest()
            if kind is Kind.ANNOUNCEMENT and entry.author == CURATOR:
                self._answered.clear()
            if kind is Kind.BALLOT:
                self._answered.add(entry.author)
        except PsephosError:
            return "not a message"
        return kind.title

    def _senders_of(self, kind: Kind) -> int:
        """Return how many roles have sent a message of this kind."""
        return sum(kinds[kind.title] > 0 for kinds in self.messages.values())

    @property
    def entries(self) -> int:
        """The number of entries that were read."""
        return self._reader.head.size

    def state(self) -> dict[str, Any]:
        """Return everything that a page shows, as values of JSON."""
        study = self.study
        owners = {member.key: member.name for member in study.parties} | {
            study.curator: study.curator_name or "the curator"
        }
        with self._lock:
            roles = [
                {
                    "role": name,
                    "owner": owners[key],
                    "steps": self._steps(name),
                    "entries": sum(self.messages[name].values()),
                    "bytes": self.sizes[name],
                    "last": self.times.get(name),
                    "read": self.heads.get(name),
                }
                for name, key in study.members.keys.items()
            ]
            head = self._reader.head
            return {
                "title": study.title,
                "study": fingerprint(study.digest),
                "trial": study.trial,
                "terms": {
                    "protocol": study.protocol,
                    "method": study.method,
                    "epsilon": study.epsilon,
                    "delta": stated_delta(study.delta),
                    "classes": list(study.classes) or "none: a number is predicted",
                    "samples": study.samples,
                    "features": len(study.features),
                    "proofs": study.proofs if study.uses_key else "none: only shares travel",
                    "minimum of ballots": study.minimum_ballots,
                    "key": f"{study.key_bits} bits, {study.threshold} of {len(study.holders)} holders open"
                    if study.uses_key
                    else "none is made",
                },
                "head": {"size": head.size, "root": head.root.hex()},
                "stage": self._stage(),
                "roles": roles,
                "refused": dict(self.refused),
                "forked": self.refused["EquivocationError"],
                "missing": describe_missing(self._reader.missing_places()),
                "over": self.over,
                "result": self.result,
                "checks": self.checks,
                "failure": self.failure,
                "log": [vars(line) for line in list(self.lines)[-100:]],
            }

    @property
    def _key(self) -> Any:
        """The state of the holders' key for a reader of the board; None before the holders generate it."""
        return getattr(self._setup_state.state, "state", None)

    @property
    def over(self) -> bool:
        """Whether there will be no key, and therefore no result."""
        return isinstance(self._key, NoKey)

    def _stage(self) -> str:
        """Return the stage of the study, as a sentence."""
        study, key = self.study, self._key
        if isinstance(key, NoKey):
            return f"There is no key, and this study is over: {key.why}."
        if self.result:
            return "The result is published."
        if shares := self._senders_of(Kind.PUBLISHED_SHARE):
            return f"{shares} of {len(study.parties) + 1} shares of the sum are published."
        if step := self.messages[CURATOR][Kind.ANNOUNCEMENT.title]:
            answers, parties = len(self._answered), len(study.parties)
            return f"Step {step}: {answers} of {parties} parties have answered; {study.minimum_ballots} must."
        if self.counted is not None:
            return f"The vote is closed; ballots: {self.counted}. {self._opening(self._senders_of(Kind.CONFIRMATION))}."
        if isinstance(key, AgreedKey):
            ballots, parties = self._senders_of(Kind.BALLOT), len(study.parties)
            next_step = (
                f"{study.minimum_ballots} are needed" if ballots < parties else "the curator is to close the vote"
            )
            return f"Voting: {ballots} of {parties} parties have voted; {next_step}."
        if self._senders_of(Kind.JOINED):
            if missing := [name for name in study.must_join if not self.messages[name][Kind.JOINED.title]]:
                return f"Waiting for {', '.join(missing)} to join."
            if not study.uses_key:
                return "The parties send each other shares of their parameters."
            failed = isinstance(key, ComparingKeys) and key.failed
            failure = (
                f" But {key.describe_failure()}; {study.threshold} holders must say so before it counts."
                if failed
                else ""
            )
            progress = self._key_progress(self._senders_of(Kind.PUBLIC_KEY))
            return f"The holders generate the key, each a share of it: {progress}.{failure}"
        return "Nobody has joined yet."

    def _key_progress(self, published: int) -> str:
        """Describe how far the holders are with the key, and which of them the others wait for.

        Args:
            published: the number of holders that have published the public key.
        """
        terms, messages = self.study.ceremony(), {name: self.messages[name] for name in self.study.holders}
        batches = max(kinds[Kind.RESIDUE_PRODUCTS.title] for kinds in messages.values())
        candidates = max(0, batches - 1) * terms.batch
        progress = f"{candidates:,} candidates tried, about {round(1 / terms.success):,} in all"
        if published:
            progress = f"{published} of {len(messages)} have published it"
        most = max(sum(kinds.values()) for kinds in messages.values())
        behind = [name for name, kinds in messages.items() if sum(kinds.values()) < most]
        return f"{progress}; waits for {', '.join(behind)}" if behind else progress

    def _opening(self, confirmed: int) -> str:
        """Describe who must act between the close and the result; `confirmed`: holders that have confirmed."""
        study = self.study
        if confirmed < study.confirmations:
            return f"{confirmed} of {study.confirmations} holders have confirmed the product"
        if not self.messages[CURATOR][Kind.TALLY_REQUEST.title]:
            return "The holders have confirmed the product; the curator is to ask some to open it"
        opened = sum(self._steps(name)[-1]["done"] for name in study.holders)
        if opened < study.threshold:
            return f"{opened} of {study.threshold} holders that are needed have opened the product"
        return "The product is opened; the curator is to publish the result"

    def _steps(self, name: str) -> list[dict[str, Any]]:
        """Return the public steps of a role, and whether it has taken them and whether they are needed."""
        kinds = self.messages[name]
        steps = [{"step": text, "done": kinds[kind.title] > 0} for kind, text in steps_of(self.study, name)]
        if kinds["secret to the curator"] and name.startswith("holder") and not steps[-1]["done"]:
            steps[-1] = {"step": "answered the curator", "done": True}
        for step in steps:
            # With enough confirmations and partial decryptions the curator asks no more holders.
            step["needed"] = step["done"] or not (self.result and name.startswith("holder"))
        return steps

    def record(self) -> dict[str, Any]:
        """Return the progress of the study for scripts: the object of `psephos status --json`.

        `refused` has the entries that are still in `lines`.
        """
        state = self.state()
        done = {role["role"]: [step["step"] for step in role["steps"] if step["done"]] for role in state["roles"]}
        return {
            "study": state["study"],
            "title": state["title"],
            "trial": state["trial"],
            "stage": state["stage"],
            "entries": state["head"]["size"],
            "bytes": self.size,
            "head": state["head"]["root"],
            "roles": done,
            "refused": {str(line.number): line.error for line in self.lines if line.error},
            "missing": state["missing"],
            "result": state["result"] or None,
        }

    def text(self) -> str:
        """Return the progress of the study as text of several lines."""
        record, owners = self.record(), {role["role"]: role["owner"] for role in self.state()["roles"]}
        lines = [
            f"{self.study.title}, study {fingerprint(self.study.digest)}" + (", a TRIAL" if self.study.trial else ""),
            record["stage"],
            f"board: {self._reader.head}, {self.size:,} bytes, {self.refused.total()} refused",
        ]
        width = max(map(len, owners.values()))
        for name, steps in record["roles"].items():
            lines.append(f"  {name:<9}  {owners[name]:<{width}}  {', '.join(steps) or 'has not joined'}")
        lines += [f"  refused: entry {number}: {why}" for number, why in list(record["refused"].items())[:20]]
        if record["missing"]:
            lines.append(f"  WARNING: {record['missing']}")
        end = f"result: SHA-256 {self.result}" if self.result else "no result" if self.over else "no result yet"
        return "\n".join([*lines, end]) + "\n"


def verifier(study: Study, public: Path) -> Callable[[Board], list[dict[str, str]]]:
    """Return a function that makes the checks of a study on its board. Raises what `PublicSamples.of` raises.

    Args:
        study: the study.
        public: the file of its public samples.
    """
    from psephos.study.samples import PublicSamples
    from psephos.study.verify import verify

    samples = PublicSamples.of(study, public)
    return lambda board: [asdict(check) for check in verify(study, samples, board)]
