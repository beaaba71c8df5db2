"""Cards, identities and their budgets, in bytes where they are formats; `test_commands` has what people get wrong."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import stat
import tomllib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from mnemonic import Mnemonic

from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.errors import (
    AlreadyCastError,
    BudgetExceededError,
    BudgetFileError,
    ForgedSignatureError,
    InvalidParameter,
    JournalError,
    StudyError,
)
from psephos.protocol.privacy.accounting import PrivacyEvent, compose, stated_delta
from psephos.protocol.privacy.composition import composed_epsilon
from psephos.protocol.privacy.mechanisms import SAMPLER_DISTANCE, gaussian_sigma
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.budget import BudgetFile, PrivacyLimit, SuccessorRecord
from psephos.protocol.storage.store import Store
from psephos.protocol.study.study import Study
from psephos.specs.registry import multiplier_of, spec_of
from psephos.study.budget import charges_of
from psephos.study.consent import describe_study
from psephos.study.identity import Identity, IdentityCard, fingerprint, fingerprint_words
from tests.psephos.study.cast import Cast

TALLY, AVERAGE, PATHAK = (Cast(what).made.study for what in ("tally", "average", "pathak"))
ROWS = [bytes([number]) * 32 for number in range(3)]


def test_a_fingerprint_is_128_bits_in_groups_of_four_digits() -> None:
    digits = hashlib.sha256(b"psephos fingerprint\0data").hexdigest()
    groups = fingerprint(b"data").split("-")
    assert [len(group) for group in groups] == [4] * 8
    assert "".join(groups) == digits[:32], "two studies with one fingerprint take 2^64 attempts"


def test_a_fingerprint_in_words_has_the_same_bits() -> None:
    words = fingerprint_words(b"data")
    assert len(words.split()) == 12
    assert Mnemonic("english").to_entropy(words).hex() == fingerprint(b"data").replace("-", "")


def test_a_card_holds_a_name_and_a_key_and_is_self_signed(tmp_path: Path) -> None:
    key = SigningKey.generate()
    card = IdentityCard("The north", key.verification_key)
    fields = tomllib.loads(card.text(key))
    signature = bytes.fromhex(fields.pop("signature"))
    raw = key.verification_key.raw
    assert fields == {"psephos_card": 1, "name": "The north", "key": raw.hex()}
    key.verification_key.verify(signature, b"psephos card\0" + raw + b"The north")
    with pytest.raises(ForgedSignatureError):
        key.verification_key.verify(signature, raw + b"The north")
    (tmp_path / "card.toml").write_text(card.text(key))
    assert IdentityCard.read(tmp_path / "card.toml") == card
    for name in ("", " x", "two\nlines", "x" * 101):
        with pytest.raises(StudyError, match="one line of at most 100"):
            IdentityCard(name, key.verification_key)


def test_identity_files_are_readable_by_the_owner_only(tmp_path: Path) -> None:
    made = Identity.create("The  no\u0301rth", tmp_path / "a" / "b", budget=2.5)
    assert made.card.name == "The n\u00f3rth"
    folder = tmp_path / "a" / "b"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "identity.key").stat().st_mode) == 0o600
    assert {path.name.partition("-")[0] for path in folder.iterdir()} == {"card.toml", "budget.sqlite", "identity.key"}
    again = Identity.read(folder)
    assert (again.directory, again.card, again.key.seed()) == (folder, made.card, made.key.seed())
    assert again.limit() == PrivacyLimit(2.5, 1e-5, exact_sums=True)
    assert made.key.seed().hex() not in repr(made)
    assert repr(made) == f"Identity(directory={folder!r}, card={made.card!r})"
    (tmp_path / "empty").mkdir(mode=0o755)
    south = Identity.create("The south", tmp_path / "empty")
    assert stat.S_IMODE((tmp_path / "empty").stat().st_mode) == 0o700
    assert not (tmp_path / "empty" / "budget.sqlite").exists()
    assert south.limit() is None
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match="file cannot be written: "):
        Identity.create("The east", tmp_path / "file")
    for budget in (0.0, -1.0, math.inf):
        with pytest.raises(InvalidParameter):
            Identity.create("The east", tmp_path / "other", budget)
        with pytest.raises(InvalidParameter):
            made.set_limit(budget)
    assert made.limit() == again.limit()


def test_costs_of_studies_add_up(tmp_path: Path) -> None:
    """Each with its sampler's distance from its law, at a delta of 1e-5 for all."""

    def event(epsilon: float, delta: float) -> PrivacyEvent:
        sampler = (1 + math.exp(epsilon)) * SAMPLER_DISTANCE
        return PrivacyEvent("", epsilon, delta + sampler, distance=SAMPLER_DISTANCE)

    made = Identity.create("The north", tmp_path / "north")
    assert made.spent()[0] == 0.0
    gaussian = replace(PATHAK, epsilon=0.7, delta=1e-6)
    one, both = compose([event(1.0, 0.0)], 1e-5), compose([event(1.0, 0.0), event(0.7, 1e-6)], 1e-5)
    assert 0.99 < one <= 1.0 < both
    assert made.spent(TALLY)[0] == pytest.approx(one, rel=1e-12)
    assert made.spent()[0] == 0.0, "it was only asked for"
    made.charge(TALLY, ROWS)
    assert made.spent()[0] == made.spent(TALLY)[0] == pytest.approx(one, rel=1e-12)
    assert made.spent(gaussian)[0] == pytest.approx(both, rel=1e-12)
    made.charge(gaussian)
    made.charge(gaussian)
    assert Identity.read(tmp_path / "north").spent()[0] == pytest.approx(both, rel=1e-12)


def _event(what: str, method: str) -> tuple[Study, PrivacyEvent]:
    """Return a study with Gaussian noise, and the event of its release."""
    cast = Cast(what)
    study = replace(cast.made.study, method=method or cast.made.study.method, delta=1e-6)
    spec: Any = spec_of(replace(cast.terms, study=study))
    if spec.joint:
        return study, spec.release_plan.event
    opened = OpenedSum((0,) * spec.entries.length, tuple(range(cast.parties)))
    if what == "tally":
        return study, spec.method_of(method, spec.counts(opened), spec.request).event
    return study, (spec.method_of if hasattr(spec, "method_of") else spec._agreed_method)(opened).event


@pytest.mark.parametrize(
    ("what", "method"),
    [
        *(("tally", method) for method in ("statistic", "soft", "vote")),
        *((what, "") for what in ("statistic, gaussian", "average", "average, own data", "rehearsed, gaussian")),
        ("record", ""),
    ],
)
def test_the_multiplier_of_a_study_is_that_of_its_noise(what: str, method: str) -> None:
    study, event = _event(what, method)
    multiplier = multiplier_of(study)
    assert multiplier is not None
    assert event.multiplier is not None
    assert multiplier <= event.multiplier <= multiplier * (1 + 1e-9)
    assert event.distance <= SAMPLER_DISTANCE


def test_gaussian_noise_of_studies_is_composed_as_gaussian_noise(tmp_path: Path) -> None:
    made, study = Identity.create("The north", tmp_path / "north"), Cast("record").made.study
    studies = [replace(study, title=f"study {number}") for number in range(8)]
    for each in studies:
        made.charge(each)
    multiplier = gaussian_sigma(1.0, study.epsilon, study.delta)
    together = composed_epsilon({}, math.sqrt(8) / multiplier, 1e-5 - 1e-15, 64.0)
    assert made.spent()[0] == pytest.approx(together, rel=1e-6)
    known_by_epsilon = [PrivacyEvent("", study.epsilon, stated_delta(study.delta)) for _ in studies]
    assert made.spent()[0] < 0.7 * compose(known_by_epsilon, 1e-5)


def test_a_budget_is_enforced_exactly(tmp_path: Path) -> None:
    made = Identity.create("The north", tmp_path / "north")
    after, _ = made.spent(TALLY)
    made.set_limit(after * (1 - 1e-9))
    for refused in (made.check, made.charge):
        with pytest.raises(BudgetExceededError):
            refused(TALLY)
    assert made.spent()[0] == 0.0
    made.set_limit(after)
    made.check(TALLY)
    assert made.spent()[0] == 0.0
    made.charge(TALLY)
    made.check(TALLY)
    with pytest.raises(BudgetExceededError):
        made.check(PATHAK)


def test_exact_sums_are_given_once_per_identity(tmp_path: Path) -> None:
    """An average of a method once, whatever the public file is; a vote on each row once, in whatever company."""
    made = Identity.create("The north", tmp_path / "north")
    made.charge(TALLY, ROWS)
    made.charge(AVERAGE)
    made.charge(PATHAK)
    for study, rows in ((TALLY, ROWS), (TALLY, [bytes(32), ROWS[2]]), (AVERAGE, ROWS), (AVERAGE, [])):
        another = replace(study, title="Again", public_table=bytes(32))
        for refused in (made.check, made.charge):
            with pytest.raises(AlreadyCastError) as raised:
                refused(another, rows)
            assert raised.value.before.startswith(study.digest)
        made.check(another, rows, again=True)
    made.check(replace(TALLY, title="Other rows"), [b"\xff" * 32])
    made.check(replace(AVERAGE, method="own-data"))
    made.charge(replace(PATHAK, title="Again"))  # noise from everybody: nothing is exact


def test_who_accepts_a_second_exact_sum_continues_with_both(tmp_path: Path) -> None:
    made, again = Identity.create("The north", tmp_path / "north"), replace(AVERAGE, title="Again")
    made.charge(AVERAGE)
    made.charge(again, again=True)
    made.charge(AVERAGE)
    made.charge(again)
    with pytest.raises(AlreadyCastError):
        made.check(replace(AVERAGE, title="A third time"))


# -- budgets of earlier versions, and files that are changed


def old_ledger(identity: Identity) -> Store:
    """Open the store in which versions before 0.3 kept what an identity had spent."""
    return Store(identity.directory / "budget.sqlite", {"budget of": identity.card.key.raw.hex()})


def charge_as_before(store: Store, study: Study, rows: Sequence[bytes] = ()) -> None:
    """Charge a study of pure epsilon as version 0.2 did, in one transaction."""
    with store.transaction():
        spent = {name: json.loads(content) for name, content in store.items("spent")}
        spent[study.digest] = [study.title, study.epsilon, study.delta, None]
        limit = store.get("budget", b"epsilon")
        if limit is not None and sum(cost[1] for cost in spent.values()) > json.loads(limit) * (1 + 1e-12):
            raise BudgetExceededError
        if rows:
            store.put("exact", study.digest, b"".join(rows))
        store.put("spent", study.digest, json.dumps(spent[study.digest]).encode())


def test_what_an_earlier_version_recorded_is_imported(tmp_path: Path) -> None:
    made, record = Identity.create("The north", tmp_path / "north"), Cast("record").made.study
    with old_ledger(made) as store:
        store.put("budget", b"epsilon", b"4.0")
        charge_as_before(store, TALLY, ROWS)
        store.put("spent", record.digest, json.dumps(["A trial", 2.0, 1e-6]).encode())  # without a multiplier
        store.put("voted", b"avg" + bytes(32), b"4" * 32)  # by the method and the digest of the samples
    assert made.spent()[0] == pytest.approx(3.0, rel=0.01)
    assert made.limit() == PrivacyLimit(4.0, 1e-5, exact_sums=True)
    for study, before in ((replace(TALLY, title="Again"), TALLY.digest), (AVERAGE, b"4" * 32)):
        with pytest.raises(AlreadyCastError) as raised:
            made.charge(study, ROWS)
        assert raised.value.before.startswith(before)
    made.charge(TALLY, ROWS)
    assert made.spent()[0] == pytest.approx(3.0, rel=0.01), "it was charged before"
    made.charge(replace(AVERAGE, method="own-data", epsilon=1.0))
    with pytest.raises(BudgetExceededError):
        made.charge(PATHAK)
    with pytest.raises(JournalError):
        old_ledger(made)


def test_a_vote_of_version_0_2_excludes_all_others(tmp_path: Path) -> None:
    """It recorded the digest of the samples, and nothing says which rows they were."""
    made = Identity.create("The north", tmp_path / "north")
    with old_ledger(made) as store:
        store.put("voted", bytes(32), b"4" * 32)
    with pytest.raises(AlreadyCastError):
        made.charge(TALLY, ROWS)
    made.check(AVERAGE)
    made.charge(TALLY, ROWS, again=True)


def test_the_budget_of_another_identity_is_refused(tmp_path: Path) -> None:
    made, other = (Identity.create(name, tmp_path / name) for name in ("north", "south"))
    old_ledger(other).close()
    (other.directory / "budget.sqlite").rename(made.directory / "budget.sqlite")
    with pytest.raises(BudgetFileError):
        made.spent()


JOINS = ("old", "late", "new", "move", "shared")


@pytest.mark.parametrize("order", [order for order in permutations(JOINS) if order.index("old") < 3], ids="-".join)
def test_no_order_of_old_and_new_commands_spends_twice(order: tuple[str, ...], tmp_path: Path) -> None:
    """Five studies of epsilon 1 and a limit of 3, with another budget file from the middle on."""
    made, path = Identity.create("The north", tmp_path / "north"), tmp_path / "rows.budget"
    studies = {name: replace(PATHAK, title=name, epsilon=1.0) for name in JOINS}
    sent = []
    with old_ledger(made) as late:
        late.put("budget", b"epsilon", b"3.0")
        for name in order:
            try:
                if name == "old":
                    with old_ledger(made) as store:
                        charge_as_before(store, studies[name])
                elif name == "late":
                    charge_as_before(late, studies[name])
                elif name == "shared":
                    made.use_budget(path)
                    with BudgetFile(path) as file:
                        file.charge(None, charges_of(studies[name], made.card.key))
                else:
                    if name == "move":
                        made.use_budget(path)
                    made.charge(studies[name])
            except (BudgetExceededError, JournalError):
                continue
            sent.append(name)
    epsilon, delta = made.spent()
    assert epsilon == pytest.approx(len(sent), rel=0.01), "what was sent is charged once"
    assert (len(sent) <= 3, delta) == (True, 1e-5)
    with made.budget() as file:
        assert {charge.claim[:64] for charge in file.charges()} == {studies[name].digest.hex() for name in sent}
    assert len(sent) == 3 or {"old", "late"} - set(sent), "nothing but an old command is refused within the limit"


class Interrupted(BaseException):
    """Takes the place of the end of a process."""


def test_a_crash_while_files_are_changed_loses_no_charge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every statement, of either file; the next command completes it."""
    run, left = BudgetFile._run, math.inf

    def dying(self: BudgetFile, statement: str, *values: Any) -> list[Any]:
        nonlocal left
        left -= 1
        if left < 0:
            raise Interrupted
        return run(self, statement, *values)

    monkeypatch.setattr(BudgetFile, "_run", dying)
    for statement in (*range(0, 120, 3), 300):
        made = Identity.create("The north", tmp_path / str(statement))
        path = tmp_path / f"{statement}.budget"
        with old_ledger(made) as store:
            charge_as_before(store, TALLY, ROWS)
        left = statement
        finished = True
        try:
            made.use_budget(path)
            made.charge(PATHAK)
        except Interrupted:
            finished = False
        left = math.inf
        assert made.spent()[0] >= TALLY.epsilon
        made.use_budget(path)
        made.charge(PATHAK)
        assert made.spent()[0] == pytest.approx(TALLY.epsilon + PATHAK.epsilon)
        assert made.exact_sums(PATHAK) == [TALLY.digest]
        if finished:
            break
    assert finished


def test_a_file_that_is_not_charged_any_more_says_which_one_is(tmp_path: Path) -> None:
    made = Identity.create("The north", tmp_path / "north", budget=3.0)
    made.charge(TALLY, ROWS)
    made.use_budget(tmp_path / "rows.budget")
    with BudgetFile(made.directory / "budget.sqlite") as file:
        with pytest.raises(BudgetFileError):
            file.charge(None, charges_of(PATHAK, made.card.key))
        with BudgetFile(tmp_path / "rows.budget") as rows:
            assert file.successor == SuccessorRecord(str(tmp_path / "rows.budget"), rows.mark)
    assert made.limit() == PrivacyLimit(3.0, 1e-5, exact_sums=True), "imported with the charges"
    with BudgetFile(tmp_path / "lax.budget") as file:
        file.make_limit(PrivacyLimit(4.0, 1e-5))
    with pytest.raises(InvalidParameter):
        made.use_budget(tmp_path / "lax.budget")
    with pytest.raises(InvalidParameter):
        made.use_budget(made.directory / "budget.sqlite")


def test_exact_sums_are_known_where_a_file_of_the_previous_format_was_charged_too(tmp_path: Path) -> None:
    """Version 0.2 charged both, and recorded in the identity's alone what was in the sum."""
    made = Identity.create("The north", tmp_path / "north")
    with old_ledger(made) as store:
        store.put("budget", b"epsilon", b"10.0")
        charge_as_before(store, TALLY, ROWS)
    with BudgetFile(tmp_path / "rows.budget") as file:
        both = [replace(charge, parts=frozenset()) for charge in charges_of(TALLY, made.card.key)]
        file.charge(None, both)
    made.use_budget(tmp_path / "rows.budget")
    with pytest.raises(AlreadyCastError):
        made.check(replace(TALLY, title="Again"), ROWS)
    made.check(PATHAK)
    with made.budget() as file:
        assert len(file.charges()) == 2


def test_whoever_returns_to_a_file_is_not_charged_again(tmp_path: Path) -> None:
    """For studies of whichever identity, and for runs: one that continued with the other file is charged in both."""
    made, other = (Identity.create(name, tmp_path / name) for name in ("north", "south"))
    for one in (made, other):
        one.use_budget(tmp_path / "a")
        one.charge(PATHAK)
    (run, *_) = charges_of(replace(PATHAK, title="A run"), made.card.key)
    run = replace(run, claim=bytes(16))
    with made.budget() as file:
        file.charge(None, [run])
    for name in "baba":
        made.use_budget(tmp_path / name)
        with made.budget() as file:
            assert len(file.charges()) == 3
    made.use_budget(tmp_path / "b")
    other.use_budget(tmp_path / "b")
    with made.budget() as file:
        assert len(file.charges()) == 3
        file.charge(None, [run])
    made.use_budget(tmp_path / "a")
    with made.budget() as file:
        assert len(file.charges()) == 4


def test_no_other_file_takes_the_place_of_the_one_that_is_charged(tmp_path: Path) -> None:
    made, path, moved = Identity.create("The north", tmp_path / "north", 2.0), tmp_path / "a", tmp_path / "moved"
    made.use_budget(path)
    made.charge(TALLY, ROWS)
    path.rename(moved)
    for new in (False, True):
        if new:
            BudgetFile(path).close()
        for refused in (made.spent, lambda: made.charge(PATHAK), lambda: made.use_budget(tmp_path / "b")):
            with pytest.raises(BudgetFileError):
                refused()
    path.unlink()
    made.use_budget(moved)
    assert made.exact_sums(PATHAK) == [TALLY.digest]


def test_files_that_cannot_be_charged_later_are_refused_before_anything_changes(tmp_path: Path) -> None:
    made, other = (Identity.create(name, tmp_path / name) for name in ("north", "south"))
    other.use_budget(tmp_path / "rows.budget")
    for path, error in ((other.directory / "budget.sqlite", BudgetFileError), (tmp_path / "\udcff", InvalidParameter)):
        with pytest.raises(error):
            made.use_budget(path)
    made.charge(PATHAK)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO records VALUES (NULL, NULL, '', '')",
        "INSERT INTO records VALUES ('a', 3, 4, 5)",
        "ALTER TABLE records ADD COLUMN more",
        "CREATE VIEW more AS SELECT 1",
        "CREATE TABLE about (x)",
    ],
)
def test_a_damaged_budget_of_an_earlier_version_is_refused_and_left_alone(statement: str, tmp_path: Path) -> None:
    made = Identity.create("The north", tmp_path / "north")
    old_ledger(made).close()
    path = made.directory / "budget.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(BudgetFileError):
        made.spent()
    assert path.read_bytes() == before


@pytest.mark.parametrize("study", [TALLY, AVERAGE])
def test_whoever_signs_for_an_exact_sum_reads_of_earlier_ones(tmp_path: Path, study: Study) -> None:
    """Of other rows, too: perturbed, or with another column, they can have the same votes."""
    key = SigningKey.generate()
    first, *rest = study.parties
    study = replace(study, parties=(replace(first, key=key.verification_key), *rest))
    made = replace(Identity.create("The north", tmp_path / "north"), key=key)
    others = [replace(study, title=title) for title in "ab"]
    assert made.exact_sums(study) == []
    for other in others:
        made.charge(other, [hashlib.sha256(other.digest).digest()], again=True)
    assert made.exact_sums(study) == sorted(other.digest for other in others)
    assert made.exact_sums(others[0]) == [others[1].digest]
    text = " ".join(describe_study(study, made).split())
    assert all(fingerprint(other.digest) in text for other in others)
    assert f"{made.spent()[0]:.6g} so far; with this one {made.spent(study)[0]:.6g}, at a delta" in text
    assert fingerprint(others[0].digest) not in describe_study(study)
