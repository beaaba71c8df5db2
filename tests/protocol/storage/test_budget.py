"""The budget file: what it adds up, what it refuses, and that no process, killed or not, passes the limit."""

from __future__ import annotations

import hmac
import json
import math
import os
import signal
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from psephos.protocol.errors import AlreadyCastError, BudgetExceededError, BudgetFileError, InvalidParameter
from psephos.protocol.privacy.accounting import NUMERICAL_DELTA, PrivacyEvent, compose, gaussian_event
from psephos.protocol.privacy.unit import PrivacyUnit
from psephos.protocol.storage.budget import BudgetFile, Charge, PrivacyLimit, _together
from psephos.protocol.storage.store import Store

PARTY, RECORD = PrivacyUnit("party", "hospital"), PrivacyUnit("record")
ROWS, OTHER_ROWS = bytes(range(32)), bytes(range(32, 64))


def pure(claim: str, epsilon: float, unit: PrivacyUnit = PARTY) -> Charge:
    return Charge(claim.encode(), claim, unit, PrivacyEvent(claim, epsilon, NUMERICAL_DELTA))


def gaussian(claim: str, unit: PrivacyUnit = PARTY) -> Charge:
    return Charge(claim.encode(), claim, unit, gaussian_event(claim, 4.0, 1.0, 1.0))


def opened(claim: str) -> Charge:
    return Charge(claim.encode(), claim, PARTY, None, "exact counts")


def totals(path: Path) -> dict[PrivacyUnit, Any]:
    with BudgetFile(path, create=False) as file:
        return {total.unit: total for total in file.totals()}


# -- totals


SHARD, PERSON = PrivacyUnit("shard", "a"), PrivacyUnit("person", "patient")
AT_ONE, UNKNOWN = replace(PERSON, at="hospital"), PrivacyUnit()
REPLACED = PrivacyUnit("record", "", "replace")


@pytest.mark.parametrize(
    ("release", "unit", "covers"),
    [
        (PARTY, PARTY, True),
        (PARTY, RECORD, True),
        (PARTY, REPLACED, True),
        (PrivacyUnit("party"), PARTY, True),
        (PrivacyUnit("party"), PERSON, True),
        (RECORD, REPLACED, True),
        (PARTY, PrivacyUnit("party", "ward"), False),
        (PARTY, PrivacyUnit("party"), False),
        (PARTY, PERSON, False),  # a person may have rows at several of the parties that the column names
        (PARTY, AT_ONE, True),
        (PARTY, replace(PERSON, at="ward"), False),
        (PERSON, AT_ONE, True),  # a study's, whose member has the whole file, protects all of a person's rows in it
        (AT_ONE, PERSON, False),
        (AT_ONE, replace(PERSON, at="ward"), False),
        (AT_ONE, PrivacyUnit("person", "visit", at="hospital"), False),
        (PrivacyUnit("party", "hospital", "replace"), RECORD, False),
        (RECORD, PARTY, False),
        (RECORD, PERSON, False),
        (REPLACED, RECORD, False),
        (PERSON, RECORD, False),
        (SHARD, RECORD, False),
        (SHARD, PARTY, False),
        (SHARD, PrivacyUnit("shard", "b"), False),
        (SHARD, SHARD, True),
        (UNKNOWN, RECORD, False),
    ],
)
def test_units_are_added_up_only_where_one_covers_the_other(
    release: PrivacyUnit, unit: PrivacyUnit, covers: bool, tmp_path: Path
) -> None:
    with BudgetFile(tmp_path / "b") as file:
        file.charge(ROWS, [pure("one", 1.0, release), pure("two", 2.0, unit)])
    total = totals(tmp_path / "b")[unit]
    both = covers or release == unit
    assert (total.epsilon, total.others) == ((3.0, 0) if both else (2.0, 1))


TINY, ROUNDING = NUMERICAL_DELTA, 2.0**-40


@pytest.mark.parametrize(
    ("events", "limit", "epsilon", "delta"),
    [
        ([], None, 0.0, 0.0),
        ([(1.0, TINY), (0.5, 0.0)], None, 1.5, TINY),
        ([(1.0, TINY), (0.5, TINY)], PrivacyLimit(9.0), 1.5, 2 * TINY),
        ([(1.0, TINY), (0.5, TINY)], PrivacyLimit(9.0, 1e-7), 1.5, 1e-7),
        ([(1.0, 1e-6)], None, 1.0, 1e-5),
        ([(1.0, 1e-4)], None, 1.0, 1e-4 + ROUNDING),
        ([(1.0, 1e-4)], PrivacyLimit(9.0), math.inf, 1e-5),
        ([(1.0, 1e-4)], PrivacyLimit(9.0, 1e-3), 1.0, 1e-3),
        ([(1.0, 0.3), (1.0, 0.3)], None, math.inf, 0.5),
        ([None], None, math.inf, 1e-5),
        ([None, (1.0, 0.0)], PrivacyLimit(9.0), math.inf, 1e-5),
        ([(1.0, 0.0), None], PrivacyLimit(9.0, 1e-7), math.inf, 1e-7),
    ],
)
def test_epsilon_and_delta_of_releases_together(
    events: list[tuple[float, float] | None], limit: PrivacyLimit | None, epsilon: float, delta: float
) -> None:
    """By hand: pure epsilons are added, others are composed at the limit's delta, or one that their deltas leave."""
    made = [None if numbers is None else PrivacyEvent("x", *numbers) for numbers in events]
    total, at = _together(made, limit)
    assert total == (pytest.approx(epsilon) if limit is not None and limit.delta else epsilon)
    assert at == delta
    one = gaussian_event("x", 4.0, 1.0, 1.0)
    assert _together([one], None)[1] == max(1e-5, one.delta + ROUNDING)
    assert _together([PrivacyEvent("x", 1.0, 0.0, 4.0)], None) == (1.0, 1e-5), "a Gaussian is never pure"


def test_totals_begin_with_the_unit_that_is_asked_for(tmp_path: Path) -> None:
    with BudgetFile(tmp_path / "b") as file:
        assert file.totals() == []
        assert [(total.unit, total.releases, total.epsilon) for total in file.totals(RECORD)] == [(RECORD, 0, 0.0)]
        file.charge(ROWS, [pure("1", 1.0), opened("2"), pure("3", 0.5, SHARD)])
        assert [total.unit for total in file.totals()] == [PARTY, SHARD]
        first, *others = file.totals(RECORD)
        assert (first.unit, first.releases, first.not_private, first.others) == (RECORD, 2, 1, 1)
        assert [total.unit for total in others] == [PARTY, SHARD]
        assert [total.unit for total in file.totals(SHARD)] == [SHARD, PARTY]


# -- one result of a charge


def test_one_result_is_released_under_a_claim(tmp_path: Path) -> None:
    with BudgetFile(tmp_path / "b") as file, BudgetFile(tmp_path / "b") as another:
        file.release_once(b"one", b"a result")
        file.release_once(b"two", b"another result")
        another.release_once(b"one", b"a result")
        with pytest.raises(BudgetExceededError):
            another.release_once(b"one", b"another result")
    with BudgetFile(tmp_path / "b") as file:
        file.release_once(b"one", b"a result")
        file.charge(ROWS, [pure("one", 0.5)])
        assert [total.releases for total in file.totals()] == [1]
    assert b"a result" not in (tmp_path / "b").read_bytes()


# -- the limit


def test_a_charge_beyond_the_limit_is_refused_and_not_recorded(tmp_path: Path) -> None:
    with BudgetFile(tmp_path / "b") as file:
        file.make_limit(PrivacyLimit(2.0))
        file.charge(ROWS, [pure("1", 1.0), pure("2", 1.0)])
        for charges in ([pure("3", 1e-6)], [pure("4", 1e-6, RECORD)], [opened("5")]):
            with pytest.raises(BudgetExceededError):
                file.check(ROWS, charges)
            with pytest.raises(BudgetExceededError):
                file.charge(ROWS, charges)
        assert len(file.charges()) == 2
    with BudgetFile(tmp_path / "all or none") as file:
        file.make_limit(PrivacyLimit(2.0))
        for charges in ([pure(str(n), 1.0) for n in range(3)], [pure("6", 1e-6), opened("5")]):
            with pytest.raises(BudgetExceededError) as refused:
                file.charge(ROWS, charges)
            assert refused.value.limit == 2.0
        assert file.charges() == []


def test_a_limit_allows_the_rounding_of_a_sum_and_no_more(tmp_path: Path) -> None:
    """0.1 + 0.2 is above 0.3 in floating point."""
    for limit, fits in ((0.3, True), (0.3 - 1e-12, False)):
        with BudgetFile(tmp_path / str(fits)) as file:
            file.make_limit(PrivacyLimit(limit))
            file.charge(ROWS, [pure("1", 0.1)])
            if fits:
                file.charge(ROWS, [pure("2", 0.2)])
            with pytest.raises(BudgetExceededError):
                file.charge(ROWS, [pure("3", 0.2)])
            assert file.is_charged([pure("1", 0.1), pure("2", 0.2)]) is fits
            assert file.is_charged([pure("1", 0.1)])
            assert not file.is_charged([pure("3", 0.2)])


def test_a_limit_with_a_delta_is_for_the_composition_at_this_delta(tmp_path: Path) -> None:
    charges = [gaussian(str(number)) for number in range(9)]
    together = compose([charge.event for charge in charges if charge.event], 1e-6)
    for limit, fits in ((together * 1.001, True), (together * 0.999, False)):
        with BudgetFile(tmp_path / str(limit)) as file:
            file.make_limit(PrivacyLimit(limit, 1e-6))
            if fits:
                file.charge(ROWS, charges)
                (total,) = file.totals()
                assert (total.epsilon, total.delta) == (together, 1e-6)
            else:
                with pytest.raises(BudgetExceededError):
                    file.charge(ROWS, charges)


def test_no_total_is_above_what_the_limit_allows(tmp_path: Path) -> None:
    """One Gaussian event is stated at its own epsilon, which is above its epsilon at a larger delta."""
    loose = Charge(b"loose", "loose", RECORD, gaussian_event("loose", 4.0, 1.0, 3.0))
    with BudgetFile(tmp_path / "b") as file:
        file.make_limit(PrivacyLimit(2.0, 1e-5))
        file.charge(ROWS, [gaussian("1", PrivacyUnit("shard", "a")), loose])
        assert all(total.epsilon <= 2.0 for total in file.totals())


def test_the_limit_of_a_file_is_changed_by_its_own_command_only(tmp_path: Path) -> None:
    with BudgetFile(tmp_path / "b") as file:
        file.make_limit(PrivacyLimit(1.0))
        file.make_limit(PrivacyLimit(1.0))
        with pytest.raises(InvalidParameter):
            file.make_limit(PrivacyLimit(2.0))
        file.set_limit(PrivacyLimit(2.0))
        assert file.limit == PrivacyLimit(2.0)
    with BudgetFile(tmp_path / "unlimited") as file:
        file.charge(ROWS, [pure("1", 1.0)])
        with pytest.raises(InvalidParameter):
            file.make_limit(PrivacyLimit(2.0))


@pytest.mark.parametrize("text", ["", "x", "1,2,3", "0", "-1", "nan", "inf", "1,0", "1,1", "1,"])
def test_a_limit_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter):
        PrivacyLimit.parse(text)
    assert PrivacyLimit.parse("3,1e-6") == PrivacyLimit(3.0, 1e-6)
    assert (str(PrivacyLimit(3.0, 1e-6)), str(PrivacyLimit(0.5))) == ("epsilon 3, delta 1e-06", "epsilon 0.5")


# -- the rows


def test_a_file_is_about_the_rows_of_one_owner(tmp_path: Path) -> None:
    with BudgetFile(tmp_path / "b") as file:
        file.charge(ROWS, [pure("1", 1.0)])
        with pytest.raises(BudgetFileError):
            file.charge(OTHER_ROWS, [pure("2", 1.0)])
        file.accept(OTHER_ROWS)
        file.charge(OTHER_ROWS, [pure("2", 1.0)])
        assert len(file.charges()) == 2
        with BudgetFile(tmp_path / "another") as another:
            assert another.keyed(ROWS) != file.keyed(ROWS)
    content = (tmp_path / "b").read_bytes()
    for rows in (ROWS, OTHER_ROWS):
        assert rows not in content
        assert rows.hex().encode() not in content


# -- exact sums


def exact(claim: str, *parts: int, excluded: int | None = None) -> list[Charge]:
    """Return the charges of a study whose curator is given an exact sum of these parts."""
    digests = frozenset(bytes([part]) * 32 for part in parts)
    others = frozenset([] if excluded is None else [bytes([excluded]) * 32])
    given = Charge(f"{claim} opened".encode(), claim, PARTY, None, "exact", digests, others)
    return [pure(claim, 1.0), given]


def test_a_part_is_in_one_exact_sum_unless_its_owner_accepts_it(tmp_path: Path) -> None:
    with BudgetFile(tmp_path / "b") as file:
        file.charge(None, exact("1", 1, 2))
        for charges in (exact("2", 2, 3), exact("3", 3, excluded=1)):
            for refused in (file.check, file.charge):
                with pytest.raises(AlreadyCastError) as raised:
                    refused(None, charges)
                assert raised.value.before == b"1 opened"
        file.charge(None, exact("1", 1, 2))
        file.charge(None, exact("4", 3, excluded=4))
        file.charge(None, exact("2", 2, 3), again=True)
        assert len(file.charges()) == 6


def test_a_limit_allows_exact_sums_of_studies_only_where_it_says_so(tmp_path: Path) -> None:
    for allowed in (True, False):
        with BudgetFile(tmp_path / str(allowed)) as file:
            file.set_limit(PrivacyLimit(2.0, exact_sums=allowed))
            with nullcontext() if allowed else pytest.raises(BudgetExceededError):
                file.charge(None, exact("1", 1))
            with pytest.raises(BudgetExceededError):
                file.charge(None, [opened("counts")])
            with pytest.raises(BudgetExceededError):
                file.charge(None, [pure("2", 1.5 if allowed else 2.5)])


@pytest.mark.parametrize(
    ("mine", "other", "within"),
    [
        (PrivacyLimit(2.0), PrivacyLimit(2.0), True),
        (PrivacyLimit(2.1), PrivacyLimit(2.0), False),
        (PrivacyLimit(2.0, 1e-6), PrivacyLimit(2.0), False),
        (PrivacyLimit(2.0), PrivacyLimit(2.0, 1e-5), True),
        (PrivacyLimit(2.0), PrivacyLimit(2.0, 1e-6), False),
        (PrivacyLimit(2.0, exact_sums=True), PrivacyLimit(2.0), False),
        (PrivacyLimit(2.0), PrivacyLimit(2.0, exact_sums=True), True),
    ],
)
def test_a_file_with_a_limit_imports_what_has_a_limit_that_allows_as_much(
    mine: PrivacyLimit, other: PrivacyLimit, within: bool, tmp_path: Path
) -> None:
    with BudgetFile(tmp_path / "mine") as file, BudgetFile(tmp_path / "other") as imported:
        file.make_limit(mine)
        imported.make_limit(other)
        imported.charge(ROWS, [pure("1", 1.0)])
        with nullcontext() if within else pytest.raises(InvalidParameter):
            file.include(imported, lambda claim: True)
        assert len(file.charges()) == within


def test_a_run_that_continues_with_another_file_is_charged_anew(tmp_path: Path) -> None:
    """Its result is recorded in the old file alone, so that the new one could not refuse another result."""
    with BudgetFile(tmp_path / "b") as file, BudgetFile(tmp_path / "run") as run:
        run.charge(ROWS, [pure("run", 1.0), pure("study", 1.0)])
        for _ in range(2):
            file.include(run, lambda claim: bytes.fromhex(claim) == b"study")
        assert len(file.charges()) == 2
        assert file.is_charged([pure("study", 1.0)])
        assert not file.is_charged([pure("run", 1.0)])


# -- processes


class _Interrupted(BudgetFile):
    """Lets another process act before the statement of a number."""

    left = math.inf
    act: Callable[[], Any]

    def _run(self, statement: str, *values: Any) -> list[Any]:
        self.left -= 1
        if self.left < 0:
            self.left = math.inf
            self.act()
        return super()._run(statement, *values)


def test_nobody_passes_the_limit_together_with_another_process(tmp_path: Path) -> None:
    """The other one acts before each statement: it is refused while the limit is checked, or it has been counted."""
    outcomes = set()
    for statement in range(100):
        path, charged = tmp_path / str(statement), []
        with BudgetFile(path) as file:
            file.make_limit(PrivacyLimit(1.0))
        file = _Interrupted(path)

        def other(path: Path = path, charged: list[str] = charged) -> None:
            with suppress(BudgetExceededError, BudgetFileError), BudgetFile(path, timeout=0) as another:
                another.charge(ROWS, [pure("other", 1.0)])
                charged.append("other")

        file.act, file.left = other, statement
        with suppress(BudgetExceededError), file:
            file.charge(ROWS, [pure("mine", 1.0)])
            charged.append("mine")
        assert len(charged) == 1
        assert totals(path)[PARTY].epsilon == 1.0
        outcomes.add(charged[0])
        if file.left < math.inf:
            break
    assert outcomes == {"mine", "other"}


def test_copies_of_a_run_never_release_two_results(tmp_path: Path) -> None:
    for statement in range(100):
        path, released = tmp_path / str(statement), list[bytes]()
        file = _Interrupted(path)

        def other(path: Path = path, released: list[bytes] = released) -> None:
            with suppress(BudgetExceededError, BudgetFileError), BudgetFile(path, timeout=0) as another:
                another.release_once(b"claim", b"other")
                released.append(b"other")

        file.act, file.left = other, statement
        with suppress(BudgetExceededError), file:
            file.release_once(b"claim", b"mine")
            released.append(b"mine")
        assert len(released) == 1
        if file.left < math.inf:
            break


class _Killed(BudgetFile):
    """Kills its process before the statement of a number."""

    left = math.inf

    def _run(self, statement: str, *values: Any) -> list[Any]:
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._run(statement, *values)


def test_a_process_killed_at_any_statement_has_charged_all_or_nothing(tmp_path: Path) -> None:
    outcomes = []
    for statement in range(100):
        path = tmp_path / str(statement)
        with BudgetFile(path) as file:
            file.charge(ROWS, [pure("before", 1.0)])
        if (child := os.fork()) == 0:
            doomed = _Killed(path)
            doomed.left = statement
            doomed.charge(ROWS, [pure("1", 1.0), pure("2", 1.0)])
            os._exit(0)
        killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
        with BudgetFile(path, create=False) as file:
            charged = len(file.charges()) - 1
            file.charge(ROWS, [pure("1", 1.0), pure("2", 1.0)])
            assert len(file.charges()) == 3, "the same run charges what is missing"
        assert charged == 2 if not killed else charged in (0, 2)
        outcomes.append((killed, charged))
        if not killed:
            break
    assert outcomes[0] == (True, 0)
    assert outcomes[-1] == (False, 2)


# -- files that are something else


@pytest.fixture
def budget(tmp_path: Path) -> Path:
    with BudgetFile(tmp_path / "b") as file:
        file.make_limit(PrivacyLimit(5.0))
        file.charge(ROWS, [pure("1", 1.0), pure("2", 1.0)])
    return tmp_path / "b"


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def key_and_rows(path: Path) -> tuple[bytes, bytes, list[tuple[int, bytes, bytes]]]:
    with closing(sqlite3.connect(path)) as connection:
        ((key, last),) = connection.execute("SELECT key, last FROM about")
        return key, last, connection.execute("SELECT number, content, tag FROM records ORDER BY number").fetchall()


def tag_of(key: bytes, before: bytes, content: bytes) -> bytes:
    return hmac.digest(key, b"record" + bytes([0, len(before)]) + before + content, "sha256")


@pytest.mark.parametrize(
    "record",
    [
        {"type": "limit", "epsilon": 9.0, "delta": None},
        {"type": "rows", "digest": "00"},
        {"type": "release", "claim": "00", "digest": "00"},
        {
            "type": "charge",
            "time": "",
            "claim": "",
            "name": "",
            "unit": {"kind": "shard"},
            "reason": "",
            "epsilon": None,
        },
    ],
    ids=lambda record: str(record["type"]),
)
def test_a_record_with_an_unknown_field_or_type_is_refused_whatever_its_tag(
    record: dict[str, Any], tmp_path: Path
) -> None:
    """A later version may have written it, and this one would not know what it means."""
    BudgetFile(tmp_path / "b").close()
    key, last, _ = key_and_rows(tmp_path / "b")
    contents = [record, {**record, "also": 1}, {**record, "type": record["type"] + "s"}]
    contents.append({name: value for name, value in record.items() if name != "type"})
    contents.append({**record, "unit": {"kind": "record", "neighbours": "add-remove"}})
    for number, content in enumerate(json.dumps(changed).encode() for changed in contents):
        tag = tag_of(key, last, content)
        with closing(sqlite3.connect(tmp_path / "b")) as connection:
            connection.execute("INSERT OR REPLACE INTO records VALUES (1, ?, ?)", (content, tag))
            connection.execute("UPDATE about SET last = ?", (tag,))
            connection.commit()
        if number == 0:
            BudgetFile(tmp_path / "b").close()
            continue
        with pytest.raises(BudgetFileError):
            BudgetFile(tmp_path / "b")


TAMPERING = {
    "a record is removed": "DELETE FROM records WHERE number = 3",
    "the last record is removed": "DELETE FROM records WHERE number = (SELECT max(number) FROM records)",
    "all records are removed": "DELETE FROM records",
    "an epsilon is lowered": "UPDATE records SET content = CAST(replace(CAST(content AS TEXT), '1.0', '0.1') AS BLOB)",
    "a tag is changed": "UPDATE records SET tag = zeroblob(32) WHERE number = 4",
    "records are swapped": "UPDATE records SET number = -number",
    "a record of text": "UPDATE records SET content = 'x' WHERE number = 1",
    "the key is lost": "UPDATE about SET key = zeroblob(32)",
    "no key": "DELETE FROM about",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END",
    "no table": "DROP TABLE records",
    "the mark of another program": "PRAGMA application_id = 7",
    "the mark of a later format": "PRAGMA user_version = 3",
    "the mark of the format of 0.2.0": "PRAGMA user_version = 1",
}


@pytest.mark.parametrize("statement", TAMPERING.values(), ids=TAMPERING)
def test_a_changed_file_is_refused_and_left_alone(statement: str, budget: Path) -> None:
    execute(budget, statement)
    before = budget.read_bytes()
    with pytest.raises(BudgetFileError):
        BudgetFile(budget)
    assert budget.read_bytes() == before


def test_damaged_bytes_never_give_another_total(budget: Path) -> None:
    content = budget.read_bytes()
    refused = 0
    for place in range(0, len(content), 17):
        damaged = bytearray(content)
        damaged[place] ^= 0x55
        budget.write_bytes(damaged)
        try:
            assert totals(budget)[PARTY].epsilon == 2.0, place  # unused bytes of the file
        except BudgetFileError:
            refused += 1
    assert refused > 0


def test_a_file_that_others_can_read_or_that_is_missing_is_refused(tmp_path: Path, budget: Path) -> None:
    assert stat.S_IMODE(budget.stat().st_mode) == 0o600
    budget.chmod(0o640)
    with Store(tmp_path / "private" / "store", {}):
        pass
    places = [(budget, True), (tmp_path / "missing", False), (tmp_path / "no" / "folder", True), (tmp_path, True)]
    for path, create in (*places, (tmp_path / "private" / "store", True)):
        with pytest.raises(BudgetFileError):
            BudgetFile(path, create=create)
