"""A study followed on its board: read what is new, and say where everybody stands. It holds no secret.

Two lines of defence keep a page harmless: nothing here can sign, and what is shown are names from the study, kinds of
messages and sizes, never a body but a holder's line of why there is no key.
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
from psephos.protocol.roles import BOARD
from psephos.protocol.study.stages import AgreedKey, ComparingKeys, NoKey, StagedRole, initial_stages
from psephos.protocol.study.study import CURATOR, Study
from psephos.protocol.wire import Kind, Reader, kind_of
from psephos.study.identity import fingerprint

__all__ = ["Follower", "LogLine", "steps_of", "verifier"]

_KEPT = 500
"""Lines of the log that are kept for a page; the board has all of them."""


def steps_of(study: Study, name: str) -> list[tuple[Kind, str]]:
    """What a role does in the open, in order; a sealed answer shows as the last."""
    kind, joined = name.split()[0], (Kind.JOINED, "joined")
    if not study.uses_key:
        last = [(Kind.RESULT, "published the result")] if kind == CURATOR else []
        return [joined, (Kind.PUBLISHED_SHARE, "published a share"), *last]
    if kind == CURATOR:
        return [joined, (Kind.CLOSE, "closed the vote"), (Kind.RESULT, "published the result")]
    if kind == "party":
        return [joined, (Kind.BALLOT, "cast a ballot")]
    opened = [(Kind.CONFIRMATION, "confirmed"), (Kind.PARTIAL_DECRYPTION, "opened")]
    return [joined, (Kind.PUBLIC_KEY, "made the key"), *opened]


@dataclass(frozen=True)
class LogLine:
    """One entry of the log as a page shows it; `error`: why nobody takes it."""

    number: int
    author: str
    receiver: str
    kind: str
    bytes: int
    seen: float
    error: str = ""


@dataclass
class Follower:
    """Follows one board from its beginning; `step` reads what is new, `state` says all of it, for many readers.

    Attributes:
        study: what was agreed on. open: opens the board, and again after it failed.
        lines: of the log, as many as are kept. size: of all entries, bytes.
        clock: seconds since 1970. check: makes every check of a study that has a result.
        counted: who had cast a ballot when the vote was closed.
        stepped_at: when the last step ended, in seconds since 1970.
    """

    study: Study
    open: Callable[[], Board]
    clock: Callable[[], float] = time.time
    check: Callable[[Board], list[dict[str, str]]] | None = None
    lines: deque[LogLine] = field(default_factory=lambda: deque(maxlen=_KEPT))
    said: dict[str, Counter[str]] = field(default_factory=dict)
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
        self._onlooker = BoardReader(self.study.members)
        self._begins = StagedRole("follower", *initial_stages("follower", self.study))
        self._begun = self._begins.start().state
        self._board: Board | None = None
        self._lock = threading.Lock()
        self.said = {name: Counter() for name in self.study.members.keys}
        self.stepped_at = self.clock()

    def step(self) -> bool:
        """Read what is new; whether there was anything. A board that fails is noted, and tried again next time."""
        moved = bool(self.failure)
        try:
            self._board = self._board or self.open()
            moved, self.failure = self.read(self._board) or moved, ""
            if self.result and self.check is not None and not self.checks:
                self.checks, moved = self._checked(self._board, self.check), True
        except BoardError as error:
            moved, self.failure, self._board = self.failure != str(error), str(error), None
        self.stepped_at = self.clock()
        return moved

    def _checked(self, board: Board, check: Callable[[Board], list[dict[str, str]]]) -> list[dict[str, str]]:
        """What is checked, or why that came to no end: whatever stands on the board, the page goes on."""
        try:
            return check(board)
        except BoardError:
            raise
        except PsephosError as error:
            return [{"what": "the study, again", "verdict": "fails", "found": f"{type(error).__name__}: {error}"}]

    def read(self, board: Board) -> bool:
        """The same of a board that is open; raises BoardError."""
        before = self.entries
        for number, data in board.read(before):
            with self._lock:
                self._note(number, data)
        return self.entries > before

    def _note(self, number: int, data: bytes) -> None:
        now, taken = self.clock(), self._onlooker.check(number, data)
        self.size += len(data)
        author, receiver, kind = taken.record.author or "?", "", "not of this study"
        if not data:
            kind = "part of a longer entry"
        elif taken.error is not None:
            self.refused[type(taken.error).__name__] += 1
        else:
            entry = SignedEntry.decode(data)
            receiver, self.heads[author] = entry.receiver, entry.head.size
            kind = ("secret to the curator" if receiver == CURATOR else "secret") if entry.secret else "repeated"
            if taken.entry is not None:
                self._begun = self._begins.receive(self._begun, [taken.entry]).state
            if taken.entry is not None or (not entry.secret and receiver != BOARD):
                kind = self._kind(entry)
            self.said[author][kind] += 1
            self.sizes[author] += len(data)
            self.times[author] = now
        error = "" if taken.error is None else f"{type(taken.error).__name__}: {taken.error}"
        self.lines.append(LogLine(number, author, receiver, kind, len(data), now, error))

    def _kind(self, entry: SignedEntry) -> str:
        try:
            kind = kind_of(entry.body)
            if kind is Kind.CLOSE and entry.author == CURATOR and self.counted is None:
                self.counted = sum(said[Kind.BALLOT.title] > 0 for said in self.said.values())
            if kind is Kind.RESULT and entry.author == CURATOR and not self.result:
                self.result = hashlib.sha256(Reader(entry.body, kind, self.study.digest).rest()).hexdigest()
        except PsephosError:
            return "no message"
        return kind.title

    @property
    def entries(self) -> int:
        """How many were read."""
        return self._onlooker.head.size

    def state(self) -> dict[str, Any]:
        """Everything a page shows, as JSON has it."""
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
                    "entries": sum(self.said[name].values()),
                    "bytes": self.sizes[name],
                    "last": self.times.get(name),
                    "read": self.heads.get(name),
                }
                for name, key in study.members.keys.items()
            ]
            head = self._onlooker.head
            return {
                "title": study.title,
                "study": fingerprint(study.digest),
                "trial": study.trial,
                "terms": {
                    "protocol": study.protocol,
                    "method": study.method,
                    "epsilon": study.epsilon,
                    "delta": stated_delta(study.delta),
                    "classes": list(study.classes),
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
                "missing": describe_missing(self._onlooker.missing_places()),
                "over": self.over,
                "result": self.result,
                "checks": self.checks,
                "failure": self.failure,
                "log": [vars(line) for line in list(self.lines)[-100:]],
            }

    @property
    def _key(self) -> Any:
        """Where the holders' key stands, for a reader of the board; None before it is made."""
        return getattr(self._begun.state, "state", None)

    @property
    def over(self) -> bool:
        """Whether there will be no key, and so no result."""
        return isinstance(self._key, NoKey)

    def _stage(self) -> str:
        study, key = self.study, self._key

        def did(kind: Kind) -> int:
            return sum(said[kind.title] > 0 for said in self.said.values())

        if isinstance(key, NoKey):
            return f"There is no key, and this study is over: {key.why}."
        if self.result:
            return "The result is published."
        if shares := did(Kind.PUBLISHED_SHARE):
            return f"{shares} of {len(study.parties) + 1} shares of the sum are published."
        if step := self.said[CURATOR][Kind.ANNOUNCEMENT.title]:
            here = sum(said[Kind.BALLOT.title] >= step for said in self.said.values())
            return f"Step {step}: {here} of {len(study.parties)} parties have answered; {study.minimum_ballots} must."
        if self.counted is not None:
            return f"The vote is closed; ballots: {self.counted}. {self._opening(did(Kind.CONFIRMATION))}."
        if isinstance(key, AgreedKey):
            voted, all_ = did(Kind.BALLOT), len(study.parties)
            then = f"{study.minimum_ballots} are needed" if voted < all_ else "the curator is to close the vote"
            return f"Voting: {voted} of {all_} parties have; {then}."
        if did(Kind.JOINED):
            if missing := [name for name in study.must_join if not self.said[name][Kind.JOINED.title]]:
                return f"Waiting for {', '.join(missing)} to join."
            if not study.uses_key:
                return "The parties send each other shares of their parameters."
            failed = isinstance(key, ComparingKeys) and key.failed
            told = (
                f" But {key.describe_failure()}; it takes {study.threshold} holders to be believed." if failed else ""
            )
            return f"The holders make the key, each a share of it: {self._making(did(Kind.PUBLIC_KEY))}.{told}"
        return "Nobody has joined yet."

    def _making(self, made: int) -> str:
        """How far the holders are with the key, and who of them is behind the others, and so waited for."""
        study = self.study
        terms, said = study.ceremony(), {name: self.said[name] for name in study.holders}
        tried = max(0, max(one[Kind.RESIDUE_PRODUCTS.title] for one in said.values()) - 1) * terms.batch
        told = f"{tried:,} candidates tried, about {round(1 / terms.success):,} in all"
        most = max(sum(one.values()) for one in said.values())
        behind = [name for name, one in said.items() if sum(one.values()) < most]
        told = f"{made} of {len(said)} have published it" if made else told
        return f"{told}; waits for {', '.join(behind)}" if behind else told

    def _opening(self, confirmed: int) -> str:
        """Whose turn it is between the close and the result."""
        study = self.study
        if confirmed < study.confirmations:
            return f"{confirmed} of {study.confirmations} holders have confirmed the product"
        if not self.said[CURATOR][Kind.TALLY_REQUEST.title]:
            return "The holders have confirmed the product; the curator is to ask some to open it"
        opened = sum(self._steps(name)[-1]["done"] for name in study.holders)
        if opened < study.threshold:
            return f"{opened} of {study.threshold} holders that are needed have opened the product"
        return "The product is opened; the curator is to publish the result"

    def _steps(self, name: str) -> list[dict[str, Any]]:
        """What the role does in the open, and whether it has."""
        said = self.said[name]
        found = [{"step": told, "done": said[kind.title] > 0} for kind, told in steps_of(self.study, name)]
        if said["secret to the curator"] and name.startswith("holder") and not found[-1]["done"]:
            found[-1] = {"step": "answered the curator", "done": True}
        for step in found:
            # With enough confirmations and partial decryptions the curator asks no more holders.
            step["needed"] = step["done"] or not (self.result and name.startswith("holder"))
        return found

    def record(self) -> dict[str, Any]:
        """All that stands on the board, for scripts: `psephos status --json`."""
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
        """The same for people."""
        found, owners = self.record(), {role["role"]: role["owner"] for role in self.state()["roles"]}
        lines = [
            f"{self.study.title}, study {fingerprint(self.study.digest)}" + (", a TRIAL" if self.study.trial else ""),
            found["stage"],
            f"board: {self._onlooker.head}, {self.size:,} bytes, {len(found['refused'])} refused",
        ]
        for name, steps in found["roles"].items():
            lines.append(f"  {name:<10} {owners[name]:<30} {', '.join(steps) or 'has not joined'}")
        lines += [f"  refused: entry {number}: {why}" for number, why in list(found["refused"].items())[:20]]
        if found["missing"]:
            lines.append(f"  WARNING: {found['missing']}")
        end = f"result: SHA-256 {self.result}" if self.result else "no result" if self.over else "no result yet"
        return "\n".join([*lines, end]) + "\n"


def verifier(study: Study, public: Path) -> Callable[[Board], list[dict[str, str]]]:
    """What checks the study with these public samples; raises as `PublicSamples.of`."""
    from psephos.study.samples import PublicSamples
    from psephos.study.verify import verify

    samples = PublicSamples.of(study, public)
    return lambda board: [asdict(check) for check in verify(study, samples, board)]
