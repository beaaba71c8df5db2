"""The budget file of a run (`--budget FILE`): what its releases cost, about which rows, and what it says afterwards."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from psephos.data.partition import DataOptions
from psephos.data.splits import Split
from psephos.protocol.errors import DataError
from psephos.protocol.foreign import open_file
from psephos.protocol.privacy.accounting import PrivacyEvent
from psephos.protocol.privacy.mechanisms import MAX_EPSILON
from psephos.protocol.privacy.unit import Changes, PrivacyUnit
from psephos.protocol.randomness import SYSTEM
from psephos.protocol.storage.budget import BudgetFile, Charge, PrivacyLimit
from psephos.results.budget import BudgetSummary, summarise


def open_budget(path: str, limit: str | None = None) -> BudgetFile:
    """Open a budget file, or create it, with a limit as `--budget-limit` has it."""
    parsed = None if limit is None else PrivacyLimit.parse(limit)
    file = BudgetFile(str(Path(path).expanduser()))
    try:
        if parsed is not None:
            file.make_limit(parsed)
    except BaseException:
        file.close()
        raise
    return file


def table_digest(path: Path) -> bytes:
    """Return the digest of a table, by the bytes of its file; raises DataError if it cannot be read."""
    try:
        with open_file(path) as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def rows_digest(options: DataOptions, split: Split) -> bytes:
    """Return the digest of the rows that a run is about: of the user's table, or of the arrays of another data set."""
    if split.digest:
        return split.digest
    if options.data is not None:
        return table_digest(Path(options.data))
    digest = hashlib.sha256()
    arrays: tuple[Any, ...] = (split.dataset.X_train, split.dataset.y_train)
    for values in arrays:
        # A sparse matrix has three arrays.
        for part in (values.data, values.indices, values.indptr) if hasattr(values, "indptr") else (values,):
            array = np.ascontiguousarray(part)
            digest.update(f"{array.dtype} {array.shape} ".encode())
            digest.update(array.tobytes())
    return digest.digest()


def _dealing(split: Split) -> bytes:
    digest = hashlib.sha256(b"dealing")
    for number, rows in enumerate(split.parties):
        held = split.held_out[number] if split.held_out else rows[:0]
        digest.update(np.sort(np.concatenate([rows, held])).astype("<i8").tobytes() + b"shard")
    return digest.digest()


@dataclass(frozen=True)
class RunBudget:
    """The budget file of one run, which is opened for each charge and closed after it; nothing is charged without one.

    Attributes:
        path: the file; None where the run names none.
        rows: digest of the rows that the run is about.
        unit: what the run's releases protect.
        not_private: why no epsilon covers any of them; "" where it does.
        run: identifies the run. A run that continues from a journal has the same.
    """

    path: Path | None
    rows: bytes = field(repr=False)
    unit: PrivacyUnit
    not_private: str
    run: bytes

    def release(self, name: str, event: PrivacyEvent, number: int = 0) -> Charge:
        claim, reason = self._claim(f"{name}, {number}"), self.not_private
        return Charge(claim, name, self.unit, None, reason) if reason else Charge(claim, name, self.unit, event)

    def opening(self, name: str, reason: str) -> Charge:
        """Return the charge of something that is not differentially private, and the reason."""
        return Charge(self._claim(name), name, self.unit, None, reason)

    def within_bound(self, name: str, epsilon: float | None, delta: float, reason: str) -> Charge:
        """Return the charge of a release whose epsilon may be None or too large to be a bound."""
        if epsilon is None or not 0 < epsilon <= MAX_EPSILON:
            return self.opening(name, reason)
        return self.release(name, PrivacyEvent(name, epsilon, delta, unit=self.unit.kind))

    def _claim(self, what: str) -> bytes:
        return hashlib.sha256(self.run + self.rows + what.encode()).digest()[:16]

    def check(self, charges: Sequence[Charge]) -> None:
        """Raise what `charge` would raise, and charge nothing."""
        if self.path is not None:
            with BudgetFile(self.path, create=False) as file:
                file.check(self.rows, charges)

    def charge(self, charges: Sequence[Charge]) -> None:
        """Charge releases before anything of them leaves."""
        if self.path is not None:
            with BudgetFile(self.path, create=False) as file:
                file.charge(self.rows, charges)

    def release_once(self, name: str, result: bytes) -> None:
        """Record the result that this run has paid for, before it leaves; raises BudgetExceededError for another."""
        if self.path is not None:
            with BudgetFile(self.path, create=False) as file:
                file.release_once(self._claim(f"result {name}"), result)

    def summary(self) -> BudgetSummary | None:
        if self.path is None:
            return None
        with BudgetFile(self.path, create=False) as file:
            return summarise(file, self.unit)


def unit_of_run(options: Any, unit: str, *, neighbours: Changes = "any", dealing: str = "") -> PrivacyUnit:
    if unit == "record" and options.person_column:
        return PrivacyUnit("person", options.person_column, neighbours, at=options.party)
    if unit == "record":
        return PrivacyUnit("record", "", neighbours)
    if options.party is None:
        return PrivacyUnit("shard", dealing, neighbours)
    return PrivacyUnit("party", options.party, neighbours)


def budget_of(options: Any, split: Split, unit: str, *, neighbours: Changes = "any") -> RunBudget:
    seeded = "the noise was drawn from the seed, and whoever knows it can take it off"
    run, not_private = SYSTEM.draw(16), seeded if options.simulate_noise else ""
    if options.budget is None:
        return RunBudget(None, b"", unit_of_run(options, unit, neighbours=neighbours), not_private, run)
    with open_budget(options.budget, options.budget_limit) as file:
        path, dealing = file.path, file.keyed(_dealing(split))[:8]
    protected = unit_of_run(options, unit, neighbours=neighbours, dealing=dealing)
    return RunBudget(path, rows_digest(options, split), protected, not_private, run)
