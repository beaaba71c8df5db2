"""One member's part in a study: what it signs, where it finds what it needs, and how its classifier is found."""

from __future__ import annotations

import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from psephos.budget import table_digest
from psephos.curator.statistic import public_coordinates
from psephos.parties.learners import make_learner
from psephos.protocol.board import MemoryBoard
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.errors import (
    AgreementError,
    BudgetExceededError,
    BudgetFileError,
    DataError,
    InvalidParameter,
    StudyError,
)
from psephos.protocol.privacy.accounting import PrivacyEvent, stated_delta
from psephos.protocol.privacy.mechanisms import gaussian_sigma
from psephos.protocol.privacy.unit import PrivacyUnit
from psephos.protocol.storage.budget import BudgetFile, Charge, PrivacyLimit
from psephos.protocol.storage.store import Store
from psephos.protocol.study.study import Member, Study
from psephos.study.card import card
from psephos.study.identity import Identity, fingerprint
from psephos.study.member import MemberSettings, Membership, sign
from psephos.study.party_input import absolute_voter, load_voter
from psephos.study.release import make_release, read_release
from psephos.study.samples import PublicSamples
from psephos.study.verify import AGREED, FOLLOWS, BoardEvidence, StudyCheck
from tests.psephos.study.cast import Cast, fields_of

NAMES = ("curator", "north", "south", "east", "west", "middle")


class Hospital:
    """An object that votes, as `--voter MODULE:OBJECT` names it."""

    def predict_votes(self, X: Any) -> Any:
        return [1] * len(X)


HOSPITAL, NO_VOTER = Hospital(), object()


class House:
    """Everybody's identities, files, and a study of them."""

    def __init__(self, folder: Path) -> None:
        generator = np.random.default_rng(3)
        self.folder = folder
        public = pd.DataFrame(generator.normal(size=(12, 3)), columns=["x", "y", "z"])
        public.to_csv(folder / "public.csv", index=False)
        self.public = str(folder / "public.csv")
        own = pd.DataFrame(generator.normal(size=(7, 3)), columns=["x", "y", "z"]).assign(outcome=list("abcabca"))
        own.to_csv(folder / "own.csv", index=False)
        self.own = str(folder / "own.csv")
        self.identities = {name: Identity.create(f"The {name}", folder / name) for name in NAMES}
        self.samples = PublicSamples.read(folder / "public.csv", "outcome")

    def study(self, what: str = "tally", **fields: Any) -> Study:
        keys = [self.identities[name].key.verification_key for name in NAMES]
        made = Cast("tally").made.study
        keyed = what != "pathak"
        parties = tuple(Member(f"H{k}", key, k + 1 if k < 3 and keyed else 0) for k, key in enumerate(keys[1:]))
        given = {name: value for name, value in fields_of(what, 5).items() if name != "holders"}
        given |= {"public_table": self.samples.digest, "features": self.samples.features, "label": "outcome"}
        return replace(made, **given | {"curator": keys[0], "parties": parties} | fields)

    def member(self, name: str, study: Study, **settings: str) -> Membership:
        membership = Membership(self.identities[name], study)
        membership.folder.mkdir(mode=0o700, exist_ok=True)
        membership.keep(public=self.public, **settings)
        return Membership(self.identities[name], study)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_a_signed_study_is_saved_and_found(house: House) -> None:
    first, second = house.study(title="First"), house.study(title="Second")
    north = house.identities["north"]
    with pytest.raises(StudyError, match=f"{north.directory} has not signed a study"):
        Membership.find(north)
    mine = sign(first, north)
    assert (mine.identity, mine.study, mine.names) == (north, first, ("party 0", "holder 1"))
    assert mine.folder == north.directory / fingerprint(first.digest)
    assert stat.S_IMODE(mine.folder.stat().st_mode) == 0o700
    assert Study.read(mine.folder / "study.toml") == first
    assert sign(first, north).folder == mine.folder, "twice is once"
    assert Membership.find(north) == mine
    sign(second, north)
    with pytest.raises(StudyError, match="is in several studies; name one") as refused:
        Membership.find(north)
    for each in (first, second):
        assert f"--study {fingerprint(each.digest)[:9]} ({each.title})" in str(refused.value)
        assert Membership.find(north, fingerprint(each.digest)[:9]).study == each
    assert ", --study" in str(refused.value)
    with pytest.raises(StudyError, match="has not signed a study"):
        Membership.find(north, "x")


def test_invalid_studies_are_not_signed(house: House, tmp_path: Path) -> None:
    stranger = Identity.create("A stranger", tmp_path / "stranger")
    with pytest.raises(StudyError, match="not a member of the study"):
        sign(house.study(), stranger)
    with pytest.raises(StudyError, match="lamb is no parameter"):
        sign(house.study(parameters={"lamb": 1.0}), house.identities["north"])
    study = house.study()
    (house.identities["north"].directory / fingerprint(study.digest)).write_text("in the way")
    with pytest.raises(StudyError, match="cannot be written: "):
        sign(study, house.identities["north"])


def test_settings_are_saved_individually(house: House) -> None:
    mine = sign(house.study(), house.identities["north"])
    assert mine.settings == MemberSettings("", "", "", "logistic", "", "")
    assert mine.keep(board="b", learner=None) == MemberSettings(board="b")
    settings = mine.keep(public="p", data="d", learner="tree", voter="v", output="o")
    assert settings == MemberSettings("b", "p", "d", "tree", "v", "o") == Membership(mine.identity, mine.study).settings
    path = mine.folder / "settings.toml"
    for wrong in ('bord = "x"', "board = 7", "board = ", b"\xff"):
        path.write_bytes(wrong if isinstance(wrong, bytes) else wrong.encode())
        with pytest.raises(StudyError, match=f"{path} cannot be used: "):
            mine.settings  # noqa: B018


def test_missing_or_foreign_samples_are_refused(house: House) -> None:
    study = house.study()
    mine = sign(study, house.identities["north"])
    with pytest.raises(StudyError, match="public samples are not known"):
        mine.samples  # noqa: B018
    assert house.member("north", study).samples.digest == study.public_table
    for fields in ({"public_table": bytes(32)}, {"features": tuple(reversed(study.features))}):
        with pytest.raises(StudyError):
            house.member("north", house.study(**fields)).samples  # noqa: B018


def test_a_release_is_written_to_the_chosen_directory(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    study, board = house.study(parameters={"lam": 0.5}), MemoryBoard()
    mine = house.member("north", study)
    content = make_release(study, house.samples, OpenedSum((1,) * 24, (0, 1, 2, 3)))
    model = read_release(study, house.samples, content)
    evidence = BoardEvidence(model=model)
    monkeypatch.setattr("psephos.study.member.examine", lambda *arguments: evidence)
    assert mine.write_release(content, board) == mine.folder / "released"
    elsewhere = house.member("north", study, output=str(house.folder / "a" / "b"))
    for _ in range(2):
        assert elsewhere.write_release(content, board) == house.folder / "a" / "b"
    for place in (mine.folder / "released", house.folder / "a" / "b"):
        assert (place / "model.json").read_bytes() == content
        assert (place / "card.md").read_text() == card(study, model, mine._total())


def test_a_release_that_contradicts_the_board_is_not_written(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    study, board = house.study(parameters={"lam": 0.5}), MemoryBoard()
    mine = house.member("north", study)
    content = make_release(study, house.samples, OpenedSum((1,) * 24, (0, 1, 2, 3)))
    another = make_release(study, house.samples, OpenedSum((2,) * 24, (0, 1, 2, 3)))
    with pytest.raises(AgreementError, match="another result"):
        mine.write_release(content, board)  # the board has none
    evidence = BoardEvidence(model=read_release(study, house.samples, content))
    monkeypatch.setattr("psephos.study.member.examine", lambda *arguments: evidence)
    with pytest.raises(AgreementError, match="another result"):
        mine.write_release(another, board)
    for what in (AGREED, FOLLOWS):
        evidence.checks = [StudyCheck(what, "fails", "it is invented")]
        with pytest.raises(AgreementError, match=r"the curator published a wrong result.*it is invented"):
            mine.write_release(content, board)
    evidence.checks = [StudyCheck(AGREED, "holds", ""), StudyCheck(FOLLOWS, "not checked", "the sum is not known here")]
    monkeypatch.setattr("psephos.study.member.is_verifiable", lambda study: True)
    with pytest.raises(AgreementError, match="follows from the sum"):
        mine.write_release(content, board)
    assert not (mine.folder / "released").exists()
    evidence.checks = [StudyCheck("partial decryptions", "fails", "holder 2: wrong"), StudyCheck(FOLLOWS, "holds", "")]
    mine.write_release(content, board)  # a liar among the holders changes nothing that follows from the sum


def test_a_party_is_charged_before_it_posts(house: House) -> None:
    """And a member is charged once, however often its role is made."""
    north = house.identities["north"]
    mine = house.member("north", house.study(epsilon=2.0), voter=f"{__name__}:HOSPITAL")
    role: Any = mine._role("party 0", Store())
    assert north.spent()[0] == 0.0
    north.set_limit(1.0)
    with pytest.raises(BudgetExceededError):
        role._stages[2]((), None)


def test_a_party_charges_the_budget_file_of_its_rows_once(house: House) -> None:
    """Before it posts, and with the releases that were computed from the same rows elsewhere."""
    path, study, north = house.folder / "north.budget", house.study("statistic, own data", epsilon=2.0), "north"
    house.identities[north].use_budget(path, "3")
    mine = house.member(north, study, data=house.own, budget=str(path))
    mine._role("party 0", Store())
    with BudgetFile(path) as file:
        assert file.charges() == []
    mine._charge(study)
    Path(house.own).write_text("the rows of a party that has voted are not read again")
    mine._charge(study)
    with BudgetFile(path) as file:
        (total,) = file.totals()
        assert (total.unit, total.releases, total.epsilon, total.not_private) == (PrivacyUnit("party"), 1, 2.0, 0)
    another = house.study("statistic, own data", epsilon=2.0, title="Another")
    with pytest.raises(BudgetFileError):  # other rows
        house.identities[north].check(another, data=house.own)
    with BudgetFile(path) as file:
        file.accept(table_digest(Path(house.own)))
    beyond: Any = house.member(north, another, data=house.own, budget=str(path))._role("party 0", Store())
    with pytest.raises(BudgetExceededError):
        beyond._stages[2]((), None)


def test_the_card_of_a_member_states_the_total_of_its_rows(house: House) -> None:
    path, study = house.folder / "north.budget", house.study("statistic, own data", epsilon=2.0)
    with BudgetFile(path) as file:
        event = PrivacyEvent("another", 0.5, stated_delta())
        file.charge(table_digest(Path(house.own)), [Charge(b"another", "another", PrivacyUnit("party"), event)])
    mine = house.member("north", study, data=house.own)
    mine._charge(study)
    assert "epsilon 2, delta" in mine._total(), "what the identity knows of"
    mine = house.member("north", study, data=house.own, budget=str(path))
    mine._charge(study)
    assert "per party: epsilon 2.5" in mine._total(), "an imported study is charged once"
    assert str(path) not in mine._total()
    path.chmod(0o644)
    assert "not known" in mine._total()
    assert "epsilon" not in house.member("curator", study)._total()


def test_rows_that_two_parties_of_a_study_have_are_charged_twice(house: House) -> None:
    """They are in two vectors of one sum, which moves twice as far when they are replaced."""
    path, study = house.folder / "both.budget", house.study("statistic, own data", epsilon=2.0)
    names = [name for name, one in house.identities.items() if study.roles_of(one.card.key)[0].startswith("party")][:2]
    for name in names:
        house.member(name, study, data=house.own, budget=str(path))._charge(study)
    with BudgetFile(path) as file:
        (total,) = file.totals()
    assert (len(names), total.releases, total.epsilon) == (2, 2, 4.0)


def test_a_budget_file_records_what_the_curator_of_a_study_is_given(house: House) -> None:
    path, north = house.folder / "north.budget", house.identities["north"]
    north.use_budget(path)
    north.charge(house.study(epsilon=2.0), [bytes(32)])
    with BudgetFile(path) as file:
        (total,) = file.totals()
        assert (total.releases, total.not_private, total.epsilon) == (2, 1, 2.0)
        file.set_limit(PrivacyLimit(60.0))
    with pytest.raises(BudgetExceededError):
        north.check(house.study(title="Another"), [bytes([1] * 32)])


@pytest.mark.parametrize(
    ("what", "unit"),
    [
        ("statistic", "party"),
        ("record", "record"),
        ("regression", "record"),
        ("regression, party", "party"),
        ("evaluation", "record"),
        ("evaluation, number", "record"),
        ("record, persons", "person (patient)"),
        ("evaluation, number, persons", "person (patient)"),
        ("psgd", "record, replaced"),
        ("pathak", "record"),
    ],
)
def test_a_study_is_charged_for_its_unit(house: House, what: str, unit: str) -> None:
    study = house.study(what.removesuffix(", persons"))
    if "persons" in what:
        study = replace(study, parameters={**study.parameters, "record": "patient"})
    house.identities["north"].charge(study)
    with house.identities["north"].budget() as file:
        (charge,) = file.charges()
    assert (str(charge.unit), charge.epsilon) == (unit, study.epsilon)
    if what.startswith("record"):
        assert charge.multiplier == gaussian_sigma(1.0, study.epsilon, study.delta)


# -- what votes


def test_a_user_supplied_classifier_votes(house: House) -> None:
    mine = house.member("north", house.study(), voter=f"{__name__}:HOSPITAL", data="no such file")
    assert mine.voter.check() == f"{__name__}:HOSPITAL"
    votes = mine.voter.predict_votes(np.zeros((4, 4)))
    assert (type(votes), votes.tolist()) == (np.ndarray, [1, 1, 1, 1])
    assert mine.voter.predict_probabilities(np.zeros((4, 4))) is None
    for name in (f"{__name__}:NO_VOTER", f"{__name__}:nothing", "no.such.module:x", ":x", "json"):
        wrong = house.member("north", house.study(), voter=name)
        with pytest.raises(InvalidParameter):
            wrong.voter.check()


VOTER_FILE = """
class Ones:
    def predict_votes(self, X):
        return [1] * len(X)

ONES = Ones()
"""


def test_a_classifier_in_a_file_is_stored_by_absolute_path(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(house.folder)
    path = house.folder / "ones.py"
    path.write_text(VOTER_FILE)
    name = absolute_voter("ones.py:ONES")
    assert name == f"{path}:ONES"
    mine = house.member("north", house.study(), voter=name)
    assert mine.voter.check() == name
    assert mine.voter.predict_votes(np.zeros((4, 4))).tolist() == [1, 1, 1, 1]
    odd = house.folder / "a:b"
    odd.mkdir()
    (odd / "ones.py").write_text(VOTER_FILE)
    assert load_voter(f"{odd / 'ones.py'}:ONES").predict_votes([1, 2]) == [1, 1]
    for wrong in ("ones.py:ONES", f"{path}:TWOS", f"{house.folder / 'absent.py'}:ONES"):
        with pytest.raises(InvalidParameter):
            load_voter(wrong)
    broken = house.folder / "broken.py"
    broken.write_text("def")
    for _ in range(2):
        with pytest.raises(InvalidParameter):
            load_voter(f"{broken}:ONES")


@pytest.mark.parametrize(
    ("folder", "file", "safe"),
    [(0o700, 0o600, True), (0o1777, 0o644, True), (0o700, 0o666, False), (0o700, 0o664, False), (0o700, 0o1666, False),
     (0o777, 0o644, False), (0o775, 0o644, False)],
)  # fmt: skip
@pytest.mark.parametrize("linked", [False, True])
def test_a_file_that_others_may_write_or_replace_is_not_imported(
    folder: int, file: int, safe: bool, linked: bool, tmp_path: Path
) -> None:
    path = tmp_path / "above" / "below" / "voter.py"
    path.parent.mkdir(parents=True)
    path.write_text(VOTER_FILE)
    path.chmod(file)
    path.parent.parent.chmod(folder)
    if linked:
        (tmp_path / "link.py").symlink_to(path)
        path = tmp_path / "link.py"
    if safe:
        assert load_voter(f"{path}:ONES").predict_votes([1, 2]) == [1, 1]
    else:
        with pytest.raises(InvalidParameter):
            load_voter(f"{path}:ONES")


def test_nothing_is_imported_from_the_working_directory(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process may hold a share of the key: whoever can write to its directory must not run code in it."""
    monkeypatch.chdir(house.folder)
    (house.folder / "planted_voter.py").write_text(VOTER_FILE)
    before = list(sys.path)
    with pytest.raises(InvalidParameter):
        house.member("north", house.study(), voter="planted_voter:ONES").voter.check()
    house.member("north", house.study(), voter=f"{__name__}:HOSPITAL").voter.check()
    assert sys.path == before
    assert "planted_voter" not in sys.modules


def test_a_learner_is_trained_when_the_vote_starts(house: House) -> None:
    study = house.study()
    X, y = house.samples.private(study, Path(house.own))
    points = house.samples.auxiliary.samples
    for learner in ("logistic", "whitened"):
        mine = house.member("north", study, data=house.own, learner=learner)
        assert mine.voter.check() == f"{learner}, trained on 7 rows of {house.own}"
        white = public_coordinates(points) if learner == "whitened" else None
        meant = make_learner(learner, classes=3, coordinates=white).fit(X, y).predict_votes(points)
        assert (mine.voter.predict_votes(points) == meant).all()
        chances = mine.voter.predict_probabilities(points)
        assert chances is not None
        assert (chances.argmax(axis=1) == meant).all()
    nothing = house.member("north", study, data="", learner="logistic")
    for use in (nothing.voter.check, lambda: nothing.voter.predict_votes(points)):
        with pytest.raises(StudyError, match="--data FILE"):
            use()
    with pytest.raises(InvalidParameter, match="unknown learner 'oracle'; known: tree, knn, "):
        house.member("north", study, data=house.own, learner="oracle").voter.check()


def test_a_party_brings_whose_its_rows_are_where_persons_are_protected(house: House) -> None:
    made = house.study("record")
    study = replace(made, parameters={**made.parameters, "record": "patient"})
    table = pd.read_csv(house.own).assign(patient=list("uvwuvwu")).replace({"outcome": {"c": "b"}})
    table.to_csv(house.own, index=False)
    voter = house.member("north", study, data=house.own).voter
    assert [list(column) for column in voter][2] == [0, 1, 2, 0, 1, 2, 0]
    for cells, message in ((table.drop(columns="patient"), "no column 'patient'"), (table.replace("v", ""), "line 3")):
        cells.to_csv(house.own, index=False)
        with pytest.raises(DataError, match=message):
            list(house.member("north", study, data=house.own).voter)


def test_gradient_descent_uses_the_rows_themselves(house: House) -> None:
    study = house.study("psgd", proofs="knowledge", classes=("a", "b"), label="outcome")
    pd.read_csv(house.own).replace({"outcome": {"c": "b"}}).to_csv(house.own, index=False)
    X, y = house.samples.private(study, Path(house.own))
    mine = house.member("south", study, data=house.own, voter="no.such:voter", learner="logistic")
    assert mine.voter.check() == f"7 rows of {house.own}", "party 1 has 7; a classifier is not asked for"
    rows, classes = mine.voter
    assert (rows == X).all()
    assert (classes == y).all()
    other = house.member("north", study, data=house.own)
    with pytest.raises(StudyError, match="party 0 has 6 rows, and these are 7"):
        other.voter.check()
    with pytest.raises(StudyError, match="party 0 has 6 rows"):
        list(other.voter)
