"""The budget file: what it adds up, what it refuses, and that no process, killed or not, passes the limit."""

from __future__ import annotations

import hmac
import json
import math
import os
import signal
import sqlite3
import stat
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from psephos.protocol.errors import BudgetExceededError, BudgetFileError, InvalidParameter
from psephos.protocol.privacy.accounting import NUMERICAL_DELTA, PrivacyEvent, compose, gaussian_event, pure_event
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


def test_pure_epsilons_are_added_across_connections(tmp_path: Path) -> None:
    for number in range(3):
        with BudgetFile(tmp_path / "b") as file:
            file.charge(ROWS, [pure(str(number), 0.5)])
    total = totals(tmp_path / "b")[PARTY]
    assert (total.releases, total.epsilon, total.delta) == (3, 1.5, 3 * NUMERICAL_DELTA)


def test_gaussian_noise_is_composed_by_the_accountant(tmp_path: Path) -> None:
    charges = [gaussian(str(number)) for number in range(5)] + [pure("pure", 0.5)]
    with BudgetFile(tmp_path / "b") as file:
        file.charge(ROWS, charges)
    total = totals(tmp_path / "b")[PARTY]
    assert total.epsilon == compose([charge.event for charge in charges if charge.event], total.delta)
    assert total.epsilon < 5.5, "less than the sum"


def test_the_delta_of_a_total_covers_the_deltas_of_its_releases(tmp_path: Path) -> None:
    large = [Charge(bytes([n]), "large", PARTY, PrivacyEvent("large", 1.0, 1e-5)) for n in range(3)]
    with BudgetFile(tmp_path / "b") as file:
        file.charge(ROWS, large)
    total = totals(tmp_path / "b")[PARTY]
    assert total.delta >= 3e-5
    assert total.epsilon <= 3.0


def test_what_is_not_private_is_not_in_a_finite_total(tmp_path: Path) -> None:
    with BudgetFile(tmp_path / "b") as file:
        file.charge(ROWS, [opened("counts"), pure("release", 1.0)])
    total = totals(tmp_path / "b")[PARTY]
    assert (total.releases, total.not_private, total.epsilon) == (2, 1, 1.0)


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


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        (PARTY, "party (hospital)"),
        (RECORD, "record"),
        (SHARD, "shard (dealing a)"),
        (PERSON, "person (patient)"),
        (AT_ONE, "person (patient at one hospital)"),
        (REPLACED, "record, replaced"),
    ],
)
def test_texts_of_units(unit: PrivacyUnit, text: str) -> None:
    assert str(unit) == text


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
        with pytest.raises(BudgetExceededError, match=r"5: exact counts; no epsilon covers it"):
            file.charge(ROWS, [pure("6", 1e-6), opened("5")])
        assert len(file.charges()) == 2


def test_a_limit_allows_the_rounding_of_a_sum_and_no_more(tmp_path: Path) -> None:
    """0.1 + 0.2 is above 0.3 in floating point."""
    for limit, fits in ((0.3, True), (0.3 - 1e-12, False)):
        with BudgetFile(tmp_path / str(fits)) as file:
            file.make_limit(PrivacyLimit(limit))
            file.charge(ROWS, [pure("1", 0.1)])
            if fits:
                file.charge(ROWS, [pure("2", 0.2)])
            with pytest.raises(
                BudgetExceededError, match=f"{0.3 if fits else 0.1} is spent.* to {0.5 if fits else 0.3} at"
            ):
                file.charge(ROWS, [pure("3", 0.2)])
            assert file.is_charged([pure("1", 0.1), pure("2", 0.2)]) is fits
            assert file.is_charged([pure("1", 0.1)])
            assert not file.is_charged([pure("3", 0.2)])


def test_all_charges_of_a_run_are_recorded_or_none(tmp_path: Path) -> None:
    with BudgetFile(tmp_path / "b") as file:
        file.make_limit(PrivacyLimit(2.0))
        with pytest.raises(BudgetExceededError):
            file.charge(ROWS, [pure(str(n), 1.0) for n in range(3)])
        assert file.charges() == []


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


def test_a_delta_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    with BudgetFile(tmp_path / "b") as file:
        file.make_limit(PrivacyLimit(5.0))
        with pytest.raises(BudgetExceededError):
            file.charge(ROWS, [Charge(b"1", "large", PARTY, PrivacyEvent("large", 1.0, 1e-3))])


def test_a_claim_is_charged_once(tmp_path: Path) -> None:
    with BudgetFile(tmp_path / "b") as file:
        file.make_limit(PrivacyLimit(1.0))
        for _ in range(3):
            file.charge(ROWS, [pure("1", 1.0)])
        assert len(file.charges()) == 1


def test_the_limit_of_a_file_is_changed_by_its_own_command_only(tmp_path: Path) -> None:
    with BudgetFile(tmp_path / "b") as file:
        file.make_limit(PrivacyLimit(1.0))
        file.make_limit(PrivacyLimit(1.0))
        with pytest.raises(InvalidParameter, match="has the limit epsilon 1 already"):
            file.make_limit(PrivacyLimit(2.0))
        file.set_limit(PrivacyLimit(2.0))
        assert file.limit == PrivacyLimit(2.0)
    with BudgetFile(tmp_path / "unlimited") as file:
        file.charge(ROWS, [pure("1", 1.0)])
        with pytest.raises(InvalidParameter, match="has no limit already"):
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
    content = (tmp_path / "b").read_bytes()
    for rows in (ROWS, OTHER_ROWS):
        assert rows not in content
        assert rows.hex().encode() not in content


def test_two_files_have_different_digests_of_the_same_rows(tmp_path: Path) -> None:
    with BudgetFile(tmp_path / "a") as one, BudgetFile(tmp_path / "b") as two:
        assert one.keyed(ROWS) != two.keyed(ROWS)


# -- processes


def charge_as(path: Path, name: str) -> int:
    """Charge a release of epsilon 1; return 3 if the limit does not allow it."""
    try:
        with BudgetFile(path) as file:
            file.check(ROWS, [pure(name, 1.0)])
            file.charge(ROWS, [pure(name, 1.0)])
    except BudgetExceededError:
        return 3
    return 0


def test_processes_at_once_never_pass_the_limit_together(tmp_path: Path) -> None:
    path = tmp_path / "b"
    with BudgetFile(path) as file:
        file.make_limit(PrivacyLimit(3.0))
    gate, opened = os.pipe()
    children = []
    for number in range(6):
        if (child := os.fork()) == 0:
            status = 1
            try:
                os.close(opened)
                os.read(gate, 1)  # until the parent closes the other end
                status = charge_as(path, str(number))
            finally:
                os._exit(status)
        children.append(child)
    os.close(opened)
    os.close(gate)
    assert sorted(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children) == [0, 0, 0, 3, 3, 3]
    assert totals(path)[PARTY].epsilon == 3.0


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


def test_the_records_of_a_file(tmp_path: Path) -> None:
    """They are part of the format: other fields, tags or digests would be another format."""
    event = PrivacyEvent("g", 0.5, 1e-6, 4.0, 1e-9, "party")
    with BudgetFile(tmp_path / "b") as file:
        file.make_limit(PrivacyLimit(9.0, 1e-5))
        file.charge(ROWS, [Charge(b"\1", "gauss", PARTY, event)])
        file.set_limit(PrivacyLimit(60.0))
        file.accept(OTHER_ROWS)
        file.release_once(b"\1", b"sums")
        assert [charge.event for charge in file.charges()] == [PrivacyEvent("gauss", 0.5, 1e-6, 4.0, 1e-9, "party")]
    with BudgetFile(tmp_path / "unlimited") as file:
        file.charge(None, [Charge(b"\2", "counts", RECORD, None, "exact")])
        assert [charge.event for charge in file.charges()] == [None]
        now = file.charges()[0].time
    assert timedelta(0) <= datetime.now(UTC) - datetime.fromisoformat(now) < timedelta(minutes=5)
    assert len(now) == len("2026-11-01T12:00:00+00:00")
    key, last, rows = key_and_rows(tmp_path / "b")
    assert len(key) == 32
    tag = b""
    for place, (number, content, stored) in enumerate(rows, 1):
        tag = tag_of(key, tag, content)
        assert (number, stored) == (place, tag)
    assert last == tag
    records = [json.loads(content) for _, content, _ in rows]
    time = records[2].pop("time")
    gauss = {"type": "charge", "claim": "01", "name": "gauss", "reason": "", "epsilon": 0.5}
    gauss |= {"delta": 1e-6, "multiplier": 4.0, "distance": 1e-9}
    assert records == [
        {"type": "limit", "epsilon": 9.0, "delta": 1e-5},
        {"type": "rows", "digest": hmac.new(key, b"rows" + ROWS, "sha256").hexdigest()},
        gauss | {"unit": {"kind": "party", "of": "hospital", "neighbours": "any", "at": ""}},
        {"type": "limit", "epsilon": 60.0, "delta": None},
        {"type": "rows", "digest": hmac.new(key, b"rows" + OTHER_ROWS, "sha256").hexdigest()},
        {"type": "release", "claim": "01", "digest": hmac.new(key, b"result" + b"sums", "sha256").hexdigest()},
    ]
    assert len(time) == len(now)
    (_, content, _), *others = key_and_rows(tmp_path / "unlimited")[2]
    assert others == [], "no rows, as none are named"
    unit = {"kind": "record", "of": "", "neighbours": "any", "at": ""}
    counts = {"type": "charge", "time": now, "claim": "02", "name": "counts", "unit": unit, "reason": "exact"}
    assert json.loads(content) == counts | {"epsilon": None, "delta": 0.0, "multiplier": None, "distance": 0.0}


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
        with pytest.raises(BudgetFileError, match="another version"):
            BudgetFile(tmp_path / "b")


def test_a_file_is_written_through_waits_and_is_closed(budget: Path) -> None:
    for options, milliseconds in (({}, 60_000), ({"timeout": 7.5}, 7_500)):
        with BudgetFile(budget, **options) as file:
            assert file._run("PRAGMA synchronous") == [(2,)]
            assert file._run("PRAGMA busy_timeout") == [(milliseconds,)]
    with pytest.raises(sqlite3.ProgrammingError):
        file.charges()
    with closing(sqlite3.connect(budget, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(BudgetFileError, match="another process"):
            BudgetFile(budget, timeout=0)
    with BudgetFile(budget) as file:
        file._run("PRAGMA query_only = ON")
        with pytest.raises(BudgetFileError, match="cannot be written"):
            file.charge(ROWS, [pure("3", 1.0)])
        file._run("PRAGMA query_only = OFF")
        assert len(file.charges()) == 2


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
    "the mark of a later format": "PRAGMA user_version = 2",
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


def test_files_of_others_are_refused_and_left_alone(tmp_path: Path, budget: Path) -> None:
    execute(tmp_path / "foreign", "CREATE TABLE t (x)", "PRAGMA user_version = 1")
    (tmp_path / "text").write_text("epsilon = 3\n" * 100)
    (tmp_path / "folder").mkdir(mode=0o700)
    with Store(tmp_path / "private" / "store", {}):
        pass
    execute(budget, "PRAGMA user_version = 2")
    for name in ("foreign", "text", "folder", "private/store", "b"):
        path = tmp_path / name
        path.chmod(0o700 if path.is_dir() else 0o600)
        before = path.is_file() and path.read_bytes()
        with pytest.raises(BudgetFileError):
            BudgetFile(path)
        assert before == (path.is_file() and path.read_bytes())


def test_a_file_that_others_can_read_or_that_is_missing_is_refused(tmp_path: Path, budget: Path) -> None:
    assert stat.S_IMODE(budget.stat().st_mode) == 0o600
    budget.chmod(0o640)
    for path, create in ((budget, True), (tmp_path / "missing", False), (tmp_path / "no" / "folder", True)):
        with pytest.raises(BudgetFileError):
            BudgetFile(path, create=create)


def test_pure_event_and_stated_event_have_the_same_sum() -> None:
    """The sum of pure epsilons needs their deltas to be numerical."""
    assert pure_event("x", 64.0, distance=2.0**-160).delta <= NUMERICAL_DELTA
