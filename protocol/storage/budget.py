"""What all releases from the same rows have cost together: a budget file of a data owner.

A release is charged in the transaction that checks the limit, before anything computed on the rows leaves: a process
that is killed has paid, and two processes never pass the limit together. Records are only ever appended; each has a
tag, an HMAC of the record and of the tag before it under a key in the file, so that damage is noticed. Whoever has the
file also has the key, and an old copy can be restored: the file reminds its owner, and binds nobody else.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec

from psephos.protocol.errors import AlreadyCastError, BudgetExceededError, BudgetFileError, InvalidParameter
from psephos.protocol.privacy.accounting import NUMERICAL_DELTA, PrivacyEvent, compose
from psephos.protocol.privacy.mechanisms import check_delta, check_epsilon
from psephos.protocol.privacy.unit import PrivacyUnit
from psephos.protocol.storage.database import Database, make_private
from psephos.protocol.storage.store import STORE_APPLICATION, record_digest

DELTA = 1e-5
"""Delta of a total that is not the plain sum of pure epsilons, where the limit names no other; without a limit, at
least the sum of the deltas."""

_STATEMENTS = (
    "CREATE TABLE records (number INTEGER PRIMARY KEY, content BLOB NOT NULL, tag BLOB NOT NULL)",
    "CREATE TABLE about (place INTEGER PRIMARY KEY CHECK (place = 1), key BLOB NOT NULL, last BLOB NOT NULL)",
)
_KEY_BYTES = 32
_IMPORTED = b"imported".hex()
"""How the claim of an imported release begins, which names the file and the claim that it had there."""


@dataclass(frozen=True)
class Charge:
    """One release that is charged.

    Fields whose names do not say it:
        claim: identifies the release: what was charged under a claim is not charged again.
        event: its cost; None where it is not differentially private, for a `reason`.
        parts: digests of what the curator of a study is given an exact sum of, which no other sum may contain.
        excluded: digests that no earlier charge may have among its parts; they are not recorded.
    """

    claim: bytes
    name: str
    unit: PrivacyUnit
    event: PrivacyEvent | None
    reason: str = ""
    parts: frozenset[bytes] = frozenset()
    excluded: frozenset[bytes] = frozenset()


class PrivacyLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="limit"):
    """The most that all releases may cost together. Raises InvalidParameter for a number out of range.

    Attributes:
        epsilon: for a total at `delta`.
        delta: at which totals are computed; None for the sum of the epsilons where all of them are pure, and `DELTA`
            where not.
        exact_sums: whether the curators of studies may be given exact sums, of which the epsilon is that of what they
            publish.
    """

    epsilon: float
    delta: float | None = None
    exact_sums: bool = False

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.delta is not None:
            check_delta(self.delta)

    @classmethod
    def parse(cls, text: str) -> PrivacyLimit:
        """Read EPSILON or EPSILON,DELTA; raises InvalidParameter for another text."""
        epsilon, *delta = text.split(",", 1)
        try:
            return cls(float(epsilon), float(delta[0]) if delta else None)
        except ValueError as error:
            if isinstance(error, InvalidParameter):
                raise
            raise InvalidParameter(f"a limit is EPSILON or EPSILON,DELTA, such as 3 or 3,1e-6, not {text!r}") from None

    def within(self, other: PrivacyLimit) -> bool:
        """Return whether whatever this limit allows, the other one allows as well."""
        at_most = other.delta is not None and (self.delta or DELTA) <= other.delta
        return (
            self.epsilon <= other.epsilon
            and (at_most or self.delta == other.delta)
            and (other.exact_sums or not self.exact_sums)
        )

    def __str__(self) -> str:
        return f"epsilon {self.epsilon:g}" + ("" if self.delta is None else f", delta {self.delta:g}")


@dataclass(frozen=True)
class BudgetTotal:
    """What all charged releases cost one unit.

    Fields whose names do not say it:
        releases: number of releases that protect the unit.
        epsilon, delta: of those of them that are differentially private, together; epsilon is inf where none holds.
        not_private: number of those of them that are not.
        others: number of releases that do not protect this unit. They reveal more about it than the total says.
    """

    unit: PrivacyUnit
    releases: int
    epsilon: float
    delta: float
    not_private: int
    others: int


class ChargeRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="charge"):
    """A charged release, as it is stored: a `Charge`, its event, and the time (UTC, ISO 8601); the claim in hex."""

    time: str
    claim: str
    name: str
    unit: PrivacyUnit
    reason: str
    epsilon: float | None
    delta: float = 0.0
    multiplier: float | None = None
    distance: float = 0.0
    parts: bytes = b""

    @classmethod
    def of(cls, charge: Charge, time: str) -> ChargeRecord:
        event, parts = charge.event, b"".join(sorted(charge.parts))
        about = (time, charge.claim.hex(), charge.name, charge.unit, charge.reason)
        if event is None:
            return cls(*about, None, parts=parts)
        return cls(*about, event.epsilon, event.delta, event.multiplier, event.distance, parts)

    @property
    def event(self) -> PrivacyEvent | None:
        if self.epsilon is None:
            return None
        return PrivacyEvent(self.name, self.epsilon, self.delta, self.multiplier, self.distance, self.unit.kind)

    def contains(self, digests: frozenset[bytes]) -> bool:
        return not digests.isdisjoint(self.parts[place : place + 32] for place in range(0, len(self.parts), 32))


class _RowsRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="rows"):
    digest: str


class _ReleaseRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="release"):
    claim: str
    digest: str


class SuccessorRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="successor"):
    """The file that is charged instead: its absolute path, and its `BudgetFile.mark`."""

    path: str
    mark: str


_Record = ChargeRecord | PrivacyLimit | _RowsRecord | _ReleaseRecord | SuccessorRecord


@dataclass
class _Log:
    """What the records say together; charges are by claim, results of charges too."""

    limit: PrivacyLimit | None = None
    rows: set[str] = field(default_factory=set)
    charges: dict[str, ChargeRecord] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    successor: SuccessorRecord | None = None

    def add(self, record: _Record) -> None:
        match record:
            case PrivacyLimit():
                self.limit = record
            case _RowsRecord():
                self.rows.add(record.digest)
            case ChargeRecord():  # what an import knows better replaces what was there
                self.charges[record.claim] = record
            case _ReleaseRecord():
                self.results[record.claim] = record.digest
            case SuccessorRecord():
                self.successor = record


Ledger = Callable[[Mapping[str, Mapping[bytes, bytes]]], tuple[PrivacyLimit | None, Sequence[Charge]]]
"""Reads what an identity had spent from the values of its store (by space and name), as versions before 0.3 kept it."""


class BudgetFile(Database):
    """A budget file. A context manager that closes it; several processes may use the file at once."""

    kind, error, busy_error = "a budget file", BudgetFileError, BudgetFileError
    application, format, statements = 0x50534547, 2, _STATEMENTS

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        timeout: float = 60.0,
        ledger: Ledger | None = None,
    ) -> None:
        """Open a file in an existing folder; an identity's store in its place becomes a budget file, by `ledger`."""
        self.path = Path(path)
        make_private(self.path, BudgetFileError, create=create)
        super().__init__(self.path, partial(self._prepare, ledger), timeout)

    def _prepare(self, ledger: Ledger | None) -> None:
        self._run("PRAGMA synchronous = FULL")
        with self._transaction():
            if ledger is not None and self._marks()[0] == STORE_APPLICATION:
                self._convert(ledger)
            if self._create_or_check():
                self._add_key()
            self._check_integrity()
            self._log()

    def _add_key(self) -> None:
        self._run("INSERT INTO about VALUES (1, ?, ?)", os.urandom(_KEY_BYTES), b"")

    def _convert(self, ledger: Ledger) -> None:
        """Replace the tables of an identity's store: earlier versions that have it open cannot charge it any more."""
        values: dict[str, dict[bytes, bytes]] = {}
        try:
            for space, name, content, digest in self._run("SELECT * FROM records"):
                if digest != record_digest(space, name, content):
                    raise self._damaged()
                values.setdefault(space, {})[name] = content
        except (AttributeError, TypeError, ValueError):  # other columns, or values of other types
            raise self._damaged() from None
        limit, charges = ledger(values)
        self._run("DROP TABLE records")
        self._run("DROP TABLE IF EXISTS secret")
        self._create()
        self._add_key()
        if limit is not None:
            self.set_limit(limit)
        for charge in charges:
            self._append(ChargeRecord.of(charge, _now()))

    def transaction(self) -> AbstractContextManager[None]:
        """Return a context in which no other process writes, and after which all is written, or nothing on an error."""
        return self._transaction()

    # -- the limit and the rows

    @property
    def limit(self) -> PrivacyLimit | None:
        """The limit in force; None if there is none."""
        return self._log().limit

    def set_limit(self, limit: PrivacyLimit) -> None:
        """Set a limit for what is charged from now on; it may be above or below the last one."""
        with self._transaction():
            self._append(limit)

    def make_limit(self, limit: PrivacyLimit) -> None:
        """Set the limit of a file without charges, or raise InvalidParameter; a second time changes nothing."""
        with self._transaction():
            log = self._log()
            if log.limit == limit:
                return
            if log.limit is not None or log.charges:
                has = "no limit" if log.limit is None else f"the limit {log.limit}"
                raise InvalidParameter(
                    f"{self._path} has {has} already: leave --budget-limit out, or change the limit by "
                    f"`{self._command} --limit EPSILON[,DELTA]`",
                    option="budget_limit",
                )
            self.set_limit(limit)

    def accept(self, rows: bytes) -> None:
        """Record that a table (its digest) has rows of the same owner, whose releases are added up here as well."""
        with self._transaction():
            if self.keyed(rows) not in self._log().rows:
                self._append(_RowsRecord(self.keyed(rows)))

    def keyed(self, digest: bytes) -> str:
        """Return the HMAC of a digest under the key of the file, in hexadecimal; it says nothing without the file."""
        return self._hmac(b"rows", digest)

    def _hmac(self, purpose: bytes, content: bytes) -> str:
        ((key,),) = self._run("SELECT key FROM about")
        return hmac.new(key, purpose + content, hashlib.sha256).hexdigest()

    # -- charges

    def is_charged(self, charges: Sequence[Charge]) -> bool:
        claims = {charge.claim for charge in self.charges()}
        return all(charge.claim.hex() in claims for charge in charges)

    def check(self, rows: bytes | None, charges: Sequence[Charge], *, again: bool = False) -> None:
        """Raise what `charge` would raise, and charge nothing."""
        with self._transaction():
            self._due(rows, charges, again)

    def charge(self, rows: bytes | None, charges: Sequence[Charge], *, again: bool = False) -> None:
        """Charge releases, all or none, before anything of them leaves. What has been charged is not charged again.

        `rows` is the digest of the table that they are computed from, None where the owner's word must do; `again`
        accepts that a part is in two exact sums. Raises BudgetExceededError for releases that would pass the limit,
        AlreadyCastError for a part of an earlier sum, whose claim is its `before`, or BudgetFileError.
        """
        with self._transaction():
            due = self._due(rows, charges, again)
            if due and rows is not None and not self._log().rows:
                self._append(_RowsRecord(self.keyed(rows)))
            for charge in due:
                self._append(ChargeRecord.of(charge, _now()))

    def release_once(self, claim: bytes, result: bytes) -> None:
        """Record (as an HMAC) the one result that a charge has paid for; raises BudgetExceededError for another one."""
        digest = self._hmac(b"result", result)
        with self._transaction():
            before = self._log().results.get(claim.hex())
            if before is None:
                self._append(_ReleaseRecord(claim.hex(), digest))
            elif not hmac.compare_digest(before, digest):
                raise BudgetExceededError(
                    f"{self._path} was charged for one result, and another copy of this run's journal has released it. "
                    "Nothing is released. Run again without --journal, which is charged as another release"
                )

    def charges(self) -> list[ChargeRecord]:
        return list(self._log().charges.values())

    def totals(self, first: PrivacyUnit | None = None) -> list[BudgetTotal]:
        """Return the total of each unit that a release protects, and of `first`, which comes first."""
        log = self._log()
        charges = list(log.charges.values())
        units = dict.fromkeys([*([] if first is None else [first]), *(charge.unit for charge in charges)])
        return [_total(unit, charges, log.limit) for unit in units]

    def spent(self, besides: Sequence[Charge] = ()) -> tuple[float, float]:
        """Return (epsilon, delta) of all private releases of any unit, and of `besides`, charged or not."""
        log = self._log()
        events = {record.claim: record.event for record in log.charges.values()}
        events |= {charge.claim.hex(): charge.event for charge in besides}
        return _together([event for event in events.values() if event is not None], log.limit)

    def _due(self, rows: bytes | None, charges: Sequence[Charge], again: bool) -> list[Charge]:
        """Return the charges whose claims are new, if they are about these rows and do not pass the limit."""
        log = self._log()
        charged = list(log.charges.values())
        due = [charge for charge in charges if charge.claim.hex() not in log.charges]
        if not due:
            return []
        if rows is not None and log.rows and self.keyed(rows) not in log.rows:
            raise BudgetFileError(
                f"{self._path} adds up the releases from another table. Name a budget file for these rows; or, if the "
                f"table is a new copy or more rows of the same owner, add it with `{self._command} --data TABLE`"
            )
        for charge in () if again else due:
            if before := next((one for one in charged if one.contains(charge.parts | charge.excluded)), None):
                raise AlreadyCastError(
                    f"{charge.name}: the exact sum of {before.name!r} has a part of this one: the difference of the "
                    "two sums can show what was sent, also where the public file was changed in between. "
                    "`psephos join --again` accepts this",
                    before=bytes.fromhex(before.claim),
                )
        if log.limit is not None:
            self._check_limit(log.limit, charged, due)
        return due

    def _check_limit(self, limit: PrivacyLimit, charged: Sequence[ChargeRecord], due: Sequence[Charge]) -> None:
        counted = [charge for charge in charged if not (limit.exact_sums and charge.parts)]
        new = [charge for charge in due if not (limit.exact_sums and charge.parts)]
        if unbounded := [charge for charge in new if charge.event is None]:
            raise BudgetExceededError(
                f"{unbounded[0].name}: {unbounded[0].reason}; no epsilon covers it, and {self._path} has the limit "
                f"{limit}. Nothing was charged. Choose a release whose noise the parties add, such as --method "
                "own-data or --reveal statistic",
                limit=limit.epsilon,
            )
        before, _ = _together([charge.event for charge in counted], limit)
        together = [*(charge.event for charge in counted), *(charge.event for charge in new)]
        after, delta = _together(together, limit)
        if after > limit.epsilon * (1 + 1e-12):
            raise BudgetExceededError(
                f"{self._path} has the limit {limit}: {before:.6g} is spent, and this would bring it to {after:.6g} at "
                f"delta {delta:.3g}. Nothing was charged. Lower --epsilon (or --delta), or change the limit by "
                f"`{self._command} --limit EPSILON[,DELTA]`",
                limit=limit.epsilon,
            )

    # -- what other files have

    @property
    def mark(self) -> str:
        """What tells this file, and copies of it, from all others; it does not change."""
        return self._hmac(b"file", b"")

    @property
    def successor(self) -> SuccessorRecord | None:
        """The file that is charged in the place of this one; None for this one."""
        return self._log().successor

    def charge_instead(self, path: Path, mark: str) -> None:
        """Record that another file is charged from now on. Only this is recorded in the file afterwards."""
        with self._transaction():
            self._append(SuccessorRecord(str(path), mark))

    def include(self, other: BudgetFile, keeps: Callable[[str], bool]) -> None:
        """Import all charges of another file that this one does not have, and its limit where this one has none.

        Releases of a claim (in hexadecimal) that it `keeps` have no results of their own; others get a new claim, so
        that a run which continues with this file is charged anew. Raises InvalidParameter for a limit that allows more.
        """
        theirs = other._log()
        with self._transaction():
            self._check_charged()
            mine, limit = self._log().limit, theirs.limit
            if mine is None and limit is not None:
                self.set_limit(limit)
            elif mine is not None and limit is not None and not mine.within(limit):
                raise InvalidParameter(
                    f"{self._path} has the limit {mine}, which allows more than the limit {limit} of what it would "
                    f"add up as well: lower it by `{self._command} --limit EPSILON[,DELTA]`",
                    option="budget",
                    limit=limit.epsilon,
                )
            known = self._log().charges
            known |= {self._imported(claim): charge for claim, charge in known.items()}  # it comes back
            for charge in theirs.charges.values():
                keep = charge.claim.startswith(_IMPORTED) or keeps(charge.claim)
                claim = charge.claim if keep else other._imported(charge.claim)
                # A store of version 0.2 did not record the parts.
                if claim not in known or (charge.parts and not known[claim].parts):
                    self._append(msgspec.structs.replace(charge, claim=claim))

    def _imported(self, claim: str) -> str:
        return _IMPORTED + self._hmac(b"imported", bytes.fromhex(claim))

    def _check_charged(self) -> None:
        """Raise BudgetFileError if another file is charged in the place of this one."""
        if (successor := self.successor) is not None:
            raise BudgetFileError(
                f"{self._path} is not charged any more; name {successor.path}, which has all its charges"
            )

    # -- the log

    def _log(self) -> _Log:
        with self._transaction():
            about = self._run("SELECT key, last FROM about")
            rows = self._run("SELECT number, content, tag FROM records ORDER BY number")
        if len(about) != 1 or not all(isinstance(value, bytes) for value in about[0]):
            raise self._damaged()
        (key, last), tag, log = about[0], b"", _Log()
        for place, (number, content, stored) in enumerate(rows, start=1):
            if number != place or not isinstance(content, bytes) or not isinstance(stored, bytes):
                raise self._damaged()
            tag = _tag(key, tag, content)
            if not hmac.compare_digest(tag, stored):
                raise self._damaged()
            try:
                log.add(msgspec.json.decode(content, type=_Record))
            except msgspec.MsgspecError as error:
                raise BudgetFileError(
                    f"{self._path} has a release that another version of psephos wrote, which reads it ({error}); "
                    "nothing was changed in it"
                ) from None
        if not hmac.compare_digest(tag, last):
            raise self._damaged()
        return log

    def _append(self, record: _Record) -> None:
        if not isinstance(record, SuccessorRecord):
            self._check_charged()
        ((key, last),) = self._run("SELECT key, last FROM about")
        content = msgspec.json.encode(record)
        tag = _tag(key, last, content)
        self._run("INSERT INTO records (content, tag) VALUES (?, ?)", content, tag)
        self._run("UPDATE about SET last = ?", tag)

    @property
    def _command(self) -> str:
        return f"psephos budget {shlex.quote(str(self._path))}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _tag(key: bytes, before: bytes, content: bytes) -> bytes:
    return hmac.new(key, b"record" + len(before).to_bytes(2, "big") + before + content, hashlib.sha256).digest()


def _together(events: Sequence[PrivacyEvent | None], limit: PrivacyLimit | None) -> tuple[float, float]:
    """Return (epsilon, delta) of releases together; epsilon is inf if one has no event, or none holds at delta."""
    delta = None if limit is None else limit.delta
    private = [event for event in events if event is not None]
    if len(private) < len(events):
        return math.inf, DELTA if delta is None else delta
    deltas = math.fsum(event.delta for event in private)
    if delta is None and all(event.multiplier is None and event.delta <= NUMERICAL_DELTA for event in private):
        return math.fsum(event.epsilon for event in private), deltas
    if delta is None:
        delta = max(DELTA, min(0.5, deltas + 2.0**-40)) if limit is None else DELTA
    return compose(private, delta), delta


def _total(unit: PrivacyUnit, charges: Sequence[ChargeRecord], limit: PrivacyLimit | None) -> BudgetTotal:
    covering = [charge for charge in charges if charge.unit.covers(unit)]
    events = [charge.event for charge in covering]
    private = [event for event in events if event is not None]
    epsilon, delta = _together(private, limit)
    everything, delta_of_everything = _together([event for charge in charges if (event := charge.event)], limit)
    if delta == delta_of_everything:  # an upper bound as well; that of one event is not tight
        epsilon = min(epsilon, everything)
    others = len(charges) - len(covering)
    return BudgetTotal(unit, len(covering), epsilon, delta, len(events) - len(private), others)
