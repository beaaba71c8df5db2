"""Follow a study on its board, and describe its progress for `psephos status` and `psephos watch`.

A follower holds no secret: it runs the role of a reader, and shows names from the study, kinds of messages and sizes.
Of contents it shows the digest of the result alone, and a holder's reason why there is no key.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from psephos.parties.ceremony import CEREMONY_KINDS
from psephos.protocol.board import Board
from psephos.protocol.board.client import BoardReader, CheckedEntry, describe_missing
from psephos.protocol.encrypted_sum.messages import TallyRequest
from psephos.protocol.encrypted_sum.opened import SumReader
from psephos.protocol.encrypted_sum.product import VoteClosed
from psephos.protocol.errors import BoardError, PsephosError
from psephos.protocol.foreign import printable
from psephos.protocol.privacy.accounting import stated_delta
from psephos.protocol.psgd.state import SeriesFollowed
from psephos.protocol.roles import Entry, PublicReader
from psephos.protocol.study.stages import ComparingKeys, NoKey, ResultWatcher, StagedRole, initial_stages
from psephos.protocol.study.study import CURATOR, Study
from psephos.protocol.wire import Kind, session_of
from psephos.specs.registry import noise_from
from psephos.specs.terms import StudyTerms
from psephos.study.identity import fingerprint
from psephos.study.roles import reader_role

_LOG_LENGTH = 500
"""Lines of the log that are kept; the board has all of them, and the page shows the last 100."""

_BATCH = 256
"""Ballots that are judged together, which is faster than one after the other."""


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

    One thread may call `step` while others call `state`. Times are in seconds since 1970.

    Attributes:
        open: opens the board; called again after the board failed.
        terms: the study with its public samples; where they are not known, nothing after the key is shown.
        check: makes the checks of a study that has a result; None to make none.
        accepted, sizes: numbers and bytes of the accepted entries, by author. refused: numbers, by class of error.
        times, heads: when an author's last accepted entry was read, and the size of the log that it had read then.
        failure: why the board could not be read; empty if it could.
    """

    study: Study
    open: Callable[[], Board]
    terms: StudyTerms | None = None
    clock: Callable[[], float] = time.time
    check: Callable[[Board], list[dict[str, Any]]] | None = None
    lines: deque[LogLine] = field(default_factory=lambda: deque(maxlen=_LOG_LENGTH))
    accepted: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    size: int = 0
    times: dict[str, float] = field(default_factory=dict)
    heads: dict[str, int] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    failure: str = ""
    checks: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._reader = BoardReader(self.study.members)
        stages = initial_stages("reader", self.study)
        self._role = StagedRole("reader", *stages) if self.terms is None else reader_role(self.terms)
        self._state = self._role.start().state
        self._last_stage = len(stages)  # where the protocol runs
        self._pending: list[tuple[Entry, LogLine]] = []
        self._ceremony = {name: Counter[Kind]() for name in self.study.holders}
        self._asked: set[str] = set()  # holders that the curator has asked for the sum
        self._answered: set[str] = set()  # those that have then sent it something that is sealed
        self._board: Board | None = None
        self._lock = threading.Lock()
        self.stepped_at = self.clock()

    def step(self) -> bool:
        """Read what is new, and return whether anything changed; a board that fails is opened again next time."""
        changed, before = bool(self.failure), self.entries
        try:
            self._board = self._board or self.open()
            changed, self.failure = self.read(self._board) or changed, ""
            if self.result and self.check is not None and not self.checks:
                changed = True
                try:
                    self.checks = self.check(self._board)
                except BoardError:
                    raise
                except PsephosError as error:  # the page goes on
                    found = f"{type(error).__name__}: {error}"
                    self.checks = [{"what": "the checks", "verdict": "fails", "found": found}]
        except BoardError as error:
            changed = self.entries > before or self.failure != str(error)
            self.failure, self._board = str(error), None
        self.stepped_at = self.clock()
        return changed

    def read(self, board: Board) -> bool:
        """Read what is new on an open board, and return whether there was anything. Raises BoardError."""
        before = self.entries
        try:
            for number, data in board.read(before):
                with self._lock:
                    self._record(number, data)
        finally:
            with self._lock:
                self._judge()
        return self.entries > before

    def _record(self, number: int, data: bytes) -> None:
        """Check the next entry; its message is judged with those of its kind that follow."""
        checked, now = self._reader.check(number, data), self.clock()
        self.size += len(data)
        line = LogLine(number, checked.record.author or "?", "", "refused", len(data), now)
        if not data:
            line = replace(line, kind="part of a longer entry")
        elif checked.error is not None:
            self.refused[type(checked.error).__name__] += 1
            line = replace(line, error=f"{type(checked.error).__name__}: {checked.error}")
        elif not checked.record.author:
            line = replace(line, kind="repeated")  # a copy of an earlier entry, which anybody can post
        else:
            signed = checked.signed
            assert signed is not None
            self.heads[signed.author], self.times[signed.author] = signed.head.size, now
            self.sizes[signed.author] += len(data)
            line = replace(line, receiver=printable(signed.receiver, 100), kind=self._kind_of(checked))
            if checked.entry is not None:
                if len(self._pending) == _BATCH or (self._pending and self._pending[-1][1].kind != line.kind):
                    self._judge()
                self._pending.append((checked.entry, line))
                return
            self._judge()
            self.accepted[signed.author] += 1
            self._hear(checked)
        self._judge()
        self.lines.append(line)

    @staticmethod
    def _kind_of(checked: CheckedEntry) -> str:
        """Return what a line says of the kind of a message."""
        signed = checked.signed
        assert signed is not None
        if not signed.is_readable:
            return "secret to the curator" if signed.receiver == CURATOR else "secret"
        try:
            return Entry(0, signed.author, signed.receiver, signed.body).kind.title
        except PsephosError:
            return "not a message"

    def _judge(self) -> None:
        """Let the role of a reader judge the pending messages, which are of one kind."""
        pending, self._pending = self._pending, []
        if not pending:
            return
        before = self._state
        reads = self._role.stage(before).reads | {Kind.JOINED, Kind.PUBLIC_KEY}  # an early key is kept for later
        step = self._role.receive(before, [entry for entry, _ in pending])
        self._state, errors = step.state, {each.entry.number: each.error for each in step.refused}
        for entry, line in pending:
            if (error := errors.get(entry.number)) is not None:
                self.refused[type(error).__name__] += 1
                line = replace(line, kind="refused", error=f"{type(error).__name__}: {error}")
            elif self._is_of_ceremony(entry):
                self._ceremony[entry.sender][entry.kind] += 1
                self.accepted[entry.sender] += 1
            elif self._in_dark or any(map(entry.is_a, reads)):
                self.accepted[entry.sender] += 1
            elif line.kind != "not a message":
                line = replace(line, kind="ignored")  # no role reads it there
            self.lines.append(line)

    def _is_of_ceremony(self, entry: Entry) -> bool:
        """Return whether an entry is one of a holder's in the generation of the key."""
        of_kind = entry.sender in self._ceremony and any(map(entry.is_a, CEREMONY_KINDS))
        return of_kind and self._state.stage == 1 and session_of(entry.data) == self.study.ceremony().digest

    def _hear(self, checked: CheckedEntry) -> None:
        """Record that the curator asks a holder for the sum, or that a holder answers it."""
        signed, reader = checked.signed, self._protocol
        assert signed is not None
        if not signed.is_readable:
            self._answered |= {signed.author} & self._asked if signed.receiver == CURATOR else set()
        elif signed.author == CURATOR and isinstance(reader, SumReader):
            own = self._protocol_state.state
            try:
                request = TallyRequest.decode(signed.body, reader.round)
            except PsephosError:
                return
            if isinstance(own, VoteClosed) and request.product_digest == reader.product(own).digest:
                self._asked.add(signed.receiver)

    # -- what the role of a reader has accepted

    @property
    def _in_dark(self) -> bool:
        """Whether the protocol has begun and its messages cannot be judged here."""
        state = self._state
        return self.terms is None and self._role.stage(state).done(state.state)

    @property
    def _protocol(self) -> PublicReader | None:
        """The role that follows the protocol; None before it has begun."""
        role = self._role.stage(self._state)
        return role.inner if isinstance(role, ResultWatcher) and isinstance(role.inner, PublicReader) else None

    @property
    def _protocol_state(self) -> Any:
        return self._state.state.state

    @property
    def result(self) -> str:
        """SHA-256 of the published result in hexadecimal; empty before."""
        reader = self._protocol
        if reader is None or self._state.state.published is None or reader.lacks(self._protocol_state):
            return ""
        digest: bytes = self._state.state.published.digest
        return digest.hex()

    def _heard(self) -> dict[Kind, set[str]]:
        """Return the senders of the messages that were accepted, by kind."""
        heard = {Kind.JOINED: set(self._reader.joined), Kind.PUBLIC_KEY: self._with_key()}
        if (reader := self._protocol) is not None:
            heard |= reader.heard(self._protocol_state)
        return heard | {Kind.RESULT: {CURATOR} if self.result else set()}

    def _with_key(self) -> set[str]:
        """Return the holders that have published the key."""
        state = self._state
        if state.stage > 1 or self._in_dark:
            return set(self.study.holders)
        arrived = (*state.early, *getattr(state.state, "arrived", ()))
        return {entry.sender for entry in arrived if entry.is_a(Kind.PUBLIC_KEY)} & set(self.study.holders)

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
            heard, result = self._heard(), self.result
            roles = [
                {
                    "role": name,
                    "owner": owners[key],
                    "steps": self._steps(name, heard),
                    "entries": self.accepted[name],
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
                "stage": self._stage(heard),
                "roles": roles,
                "refused": dict(self.refused),
                "forked": self.refused["EquivocationError"],
                "missing": printable(describe_missing(self._reader.missing_places()), 1000),
                "over": self.over,
                "result": result,
                "checks": self.checks,
                "failure": self.failure,
                "log": [vars(line) for line in list(self.lines)[-100:]],
            }

    @property
    def over(self) -> bool:
        """Whether there will be no key, and therefore no result."""
        return isinstance(getattr(self._state.state, "state", None), NoKey)

    def _stage(self, heard: dict[Kind, set[str]]) -> str:
        """Return the stage of the study, as a sentence."""
        study, state, parties = self.study, self._state, len(self.study.parties)
        own = getattr(state.state, "state", None)
        if isinstance(own, NoKey):
            return f"There is no key, and this study is over: {own.why}."
        if heard[Kind.RESULT]:
            return "The result is published."
        if not heard[Kind.JOINED]:
            return "Nobody has joined yet."
        if missing := [name for name in study.must_join if name not in heard[Kind.JOINED]]:
            return f"Waiting for {', '.join(missing)} to join."
        if self._in_dark:
            return "The protocol has begun. What is cast and released can be judged with the public samples (--public)."
        if state.stage < self._last_stage:
            failure = ""
            if isinstance(own, ComparingKeys) and own.failed:
                failure = f" But {own.describe_failure()}; {study.threshold} holders must say so before it counts."
            progress = self._key_progress(len(heard[Kind.PUBLIC_KEY]))
            return f"The holders generate the key, each a share of it: {progress}.{failure}"
        if not study.uses_key:
            if shares := len(heard[Kind.PUBLISHED_SHARE]):
                return f"{shares} of {parties + 1} shares of the sum are published."
            return "The parties send each other shares of their parameters."
        followed = self._protocol_state.state
        if isinstance(followed, SeriesFollowed):
            if not followed.steps:
                return "The curator is to announce the first step."
            step = followed.steps[-1]
            answers = step.votes.state.members.bit_count()
            answered = f"{answers} of {parties} parties have answered; {study.minimum_ballots} must"
            return f"Step {len(followed.steps)}: {answered}."
        ballots = len(heard[Kind.BALLOT])
        if Kind.CLOSE in heard:
            return f"The vote is closed; ballots: {ballots}. {self._opening(heard)}."
        next_step = f"{study.minimum_ballots} are needed" if ballots < parties else "the curator is to close the vote"
        return f"Voting: {ballots} of {parties} parties have voted; {next_step}."

    def _key_progress(self, published: int) -> str:
        """Describe how far the holders are with the key, and which of them the others wait for."""
        terms = self.study.ceremony()
        batches = min(kinds[Kind.RESIDUE_PRODUCTS] for kinds in self._ceremony.values())
        candidates = max(0, batches - 1) * terms.batch
        progress = f"{candidates:,} candidates tried at most, about {round(1 / terms.success):,} in all"
        if published:
            progress = f"{published} of {len(self._ceremony)} have published it"
        with_key = self._with_key()
        done = {name: kinds.total() + (name in with_key) for name, kinds in self._ceremony.items()}
        # At most t - 1 holders send what is no message of the key generation, so that t of them are not all ahead.
        due = sorted(done.values(), reverse=True)[self.study.threshold - 1]
        behind = [name for name, count in done.items() if count < due]
        return f"{progress}; waits for {', '.join(behind)}" if behind else progress

    def _opening(self, heard: dict[Kind, set[str]]) -> str:
        """Describe who must act between the close and the result."""
        study, confirmed = self.study, len(heard[Kind.CONFIRMATION])
        if confirmed < study.confirmations:
            return f"{confirmed} of {study.confirmations} holders have confirmed the product"
        if not self._asked:
            return "The holders have confirmed the product; the curator is to ask some to open it"
        opened = len(heard[Kind.PARTIAL_DECRYPTION] | self._answered)
        if opened < study.threshold:
            return f"{opened} of {study.threshold} holders that are needed have answered the curator"
        return "Enough holders have answered; the curator is to publish the result"

    def _steps(self, name: str, heard: dict[Kind, set[str]]) -> list[dict[str, Any]]:
        """Return the public steps of a role, and whether it has taken them and whether they are needed."""
        steps = [{"step": text, "done": name in heard.get(kind, ())} for kind, text in steps_of(self.study, name)]
        if name in self._answered and not steps[-1]["done"]:
            steps[-1] = {"step": "answered the curator", "done": True}
        for step in steps:
            # With enough confirmations and partial decryptions the curator asks no more holders.
            step["needed"] = step["done"] or not (heard[Kind.RESULT] and name.startswith("holder"))
        return steps

    def record(self) -> dict[str, Any]:
        """Return the object of `psephos status --json`; `refused` has the entries that are still in `lines`."""
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
