"""A study by its commands, as three hospitals and a laboratory type them; and everything that they can get wrong."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from psephos.cli.main import build
from psephos.cli.shared import start_logging
from psephos.model import Model, written_model
from psephos.parties.ceremony import CeremonyHolder
from psephos.protocol.agent import Agent
from psephos.protocol.board.file import BoardFile
from psephos.protocol.board.sealing import SECRET_BYTES, X25519_BYTES
from psephos.protocol.board.server import NATS_SERVER
from psephos.protocol.ceremony.messages import pack_residues
from psephos.protocol.ceremony.search import flat_primes
from psephos.protocol.errors import (
    AgreementError,
    AlreadyCastError,
    BudgetExceededError,
    DataError,
    EquivocationError,
    InvalidParameter,
    JournalError,
    KeyFileError,
    StoreInUseError,
    StudyError,
    TooFewBallotsError,
    UselessReleaseError,
)
from psephos.protocol.storage.store import Store
from psephos.protocol.study.stages import JoinStage, StagedRole, StageState
from psephos.protocol.study.study import Study
from psephos.released import load_model
from psephos.specs.terms import StudyTerms
from psephos.study.consent import describe_study
from psephos.study.identity import Identity, IdentityCard, fingerprint
from psephos.study.member import Membership, sign
from psephos.study.monitor import Follower
from psephos.study.release import make_release
from psephos.study.runner import MemberRunner
from psephos.study.samples import PublicSamples
from psephos.study.verify import examine

PARTIES = ("north", "south", "east")
MEMBERS = (*PARTIES, "lab")
CLASSES = "benign,malignant"


def psephos(*words: object) -> str:
    """What a command prints; raises what it raises."""
    arguments = [str(word) for word in words]
    done = CliRunner().invoke(build(), arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@dataclass
class Consortium:
    """A directory with everybody's files."""

    folder: Path

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    @property
    def cards(self) -> list[Path]:
        return [self / name / "card.toml" for name in PARTIES]

    def new(self, output: str = "study.toml", **changed: object) -> Path:
        options = {
            "curator": self / "lab/card.toml",
            "public": self / "public.csv",
            "label": "diagnosis",
            "classes": CLASSES,
            "key_bits": 128,
            "title": "A study of tests",
            "epsilon": 8.0,
            "protocol": "tally",
            "anyway": True,
        } | changed
        forced = ["--anyway"] * bool(options.pop("anyway"))
        words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
        if options["protocol"] in ("tally", "average"):
            words.append("--curator-noise")
        psephos("study", "new", self / output, *self.cards, *words, *forced, "--trial")
        return self / output

    def join(self, name: str, study: Path, **changed: object) -> str:
        options = {"board": self / "board.sqlite", "public": self / "public.csv"} | changed
        if name != "lab" and "voter" not in options:
            options = {"data": self / f"{name}.csv"} | options
        words = [word for key, value in options.items() for word in (f"--{key}", value)]
        return psephos("join", study, "--identity", self / name, *words, "--yes")


def rows(generator: np.random.Generator, count: int) -> pd.DataFrame:
    sick = generator.integers(0, 2, count)
    return pd.DataFrame(
        {
            "age": np.round(40 + 20 * sick + generator.normal(0, 5, count)),
            "marker": np.round(generator.normal(2.0 * sick, 0.5), 3),
            "ward": np.where(generator.random(count) < 0.5, "A", "B"),
            "diagnosis": np.where(sick, "malignant", "benign"),
        }
    )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Identities and files, once for all tests."""
    generator, here = np.random.default_rng(3), Consortium(tmp_path_factory.mktemp("consortium"))
    for name in MEMBERS:
        psephos("study", "identity", f"The {name}", "--output", here / name)
        rows(generator, 30).to_csv(here / f"{name}.csv", index=False)
    rows(generator, 20).drop(columns="diagnosis").to_csv(here / "public.csv", index=False)
    return here.folder


@pytest.fixture
def consortium(prepared: Path, tmp_path: Path) -> Consortium:
    return Consortium(Path(shutil.copytree(prepared, tmp_path / "all")))


def test_a_study_without_a_sure_gain_is_written_only_if_it_is_wanted(consortium: Consortium) -> None:
    """What is expected follows from the study and its public file: each member is shown the same before it signs."""
    useless: dict[str, Any] = {"protocol": "statistic", "epsilon": 0.01}
    with pytest.raises(UselessReleaseError) as refused:
        consortium.new(anyway=False, **useless)
    assert refused.value.suggestions
    assert "--unit" not in str(refused.value)
    assert not (consortium / "study.toml").exists()
    study = consortium.new(**useless)
    shown = [consortium.join(name, study) for name in ("lab", "north")]
    assert all("No gain is expected. In simulated worlds of 3 parties" in text for text in shown)


def test_a_mean_of_heads_whose_noise_hides_them_is_written_only_if_it_is_wanted(consortium: Consortium) -> None:
    """The decision reads no head, and what it suggests is enough."""
    heads: dict[str, Any] = {"protocol": "head", "delta": 1e-6, "parameters": "radius=1", "anyway": False}
    with pytest.raises(UselessReleaseError) as refused:
        consortium.new(epsilon=8.0, **heads)
    assert list(consortium.folder.glob("study.toml")) == []
    suggested, more = refused.value.suggestions
    useful = consortium.new("useful.toml", **heads | {"epsilon": suggested.removeprefix("--epsilon ")})
    assert useful.exists()
    assert 3 < int(more.removesuffix(" parties")) < 9
    study = consortium.new(epsilon=8.0, **heads | {"anyway": True})
    far = pd.read_csv(consortium / "north.csv").assign(diagnosis="benign")
    far.loc[0, "diagnosis"] = "malignant"
    far.to_csv(consortium / "south.csv", index=False)
    shown = [consortium.join(name, study).partition("\n")[0] for name in ("lab", "north", "south")]
    assert len(set(shown)) == 1
    assert shown[0] in str(refused.value)


@pytest.fixture(scope="module")
def keyed(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of `tally` whose vote ends at `CLOSES`, once for all tests: its key is made, and party 0 has voted."""
    here = Consortium(Path(shutil.copytree(prepared, tmp_path_factory.mktemp("keyed") / "all")))
    study = here.new(closes=CLOSES, patience=60)
    for name in MEMBERS:
        here.join(name, study)
    for runner in runners(here, Clock(), voters=1):
        runner.close()
    return here.folder


@pytest.fixture
def vote(keyed: Path, tmp_path: Path) -> Consortium:
    """A copy of `keyed`; its study is `study.toml`."""
    here = Consortium(Path(shutil.copytree(keyed, tmp_path / "all")))
    for settings in here.folder.glob("*/*/settings.toml"):
        settings.write_text(settings.read_text().replace(str(keyed), str(here.folder)))
    return here


def member(here: Consortium, name: str) -> Membership:
    return Membership.find(Identity.read(here / name))


def play_by_hand(here: Consortium) -> None:
    """Single steps again and again, as people would who do not know whose turn it is."""
    for _ in range(200):
        for name in PARTIES:
            psephos("agent", here / name, "--once")
        if json.loads(psephos("agent", here / "lab", "--once", "--json"))["done"]:
            break
    else:
        pytest.fail("the study goes on for ever")
    for name in PARTIES:
        psephos("agent", here / name, "--once")


@pytest.mark.slow
def test_whole_study_with_single_commands(consortium: Consortium) -> None:
    study = consortium.new()
    text = psephos("study", "show", study, "--identity", consortium / "north")
    assert "party 0 and holder 1" in text
    assert "A TRIAL" in text
    assert all(f"The {name}" in text for name in PARTIES)
    psephos("study", "budget", consortium / "north", "--limit", 10)
    for name in MEMBERS:
        consortium.join(name, study)
    assert psephos("status", study, "--board", consortium / "board.sqlite").count("joined") == 7
    play_by_hand(consortium)

    read = Study.read(study)
    models = {(consortium / n / fingerprint(read.digest) / "released/model.json").read_bytes() for n in MEMBERS}
    assert len(models) == 1, "everybody has the same model"
    predicted = load_model(member(consortium, "north").folder / "released").predict(rows(np.random.default_rng(9), 50))
    assert set(predicted) <= set(read.classes)
    assert fingerprint(read.digest) in (member(consortium, "east").folder / "released/card.md").read_text()
    assert "epsilon 8 of 10" in psephos("study", "budget", consortium / "north"), "charged once, however often it voted"
    assert "epsilon 0 " in psephos("study", "budget", consortium / "lab"), "a curator gives nothing"

    status = json.loads(psephos("status", consortium / "north", "--json"))
    assert status["result"] is not None
    assert status["refused"] == {}
    assert all("cast a ballot" in status["roles"][f"party {n}"] for n in range(3))
    play_by_hand(consortium)  # once more, when all is over
    assert json.loads(psephos("status", consortium / "north", "--json")) == status, "nothing was said twice"
    assert_no_secrets(consortium)


def test_an_identity_votes_once_on_the_same_samples(consortium: Consortium) -> None:
    """Two studies with one party in one of them only: the difference of the counts would be its votes."""
    public = consortium / "changed.csv"
    table = pd.read_csv(consortium / "public.csv")
    one_cell = table.assign(age=table.age.where(table.index > 0, 41.5))
    for protocol, tables in (("tally", (table, table.assign(age=table.age * 4), one_cell)), ("average", (one_cell,))):
        fields = {"protocol": protocol} if protocol == "tally" else {"protocol": protocol, "method": "avg"}
        before = Study.read(consortium.new(f"{protocol}.toml", **fields))
        first = sign(before, Identity.read(consortium / "north"))
        first.keep(public=str(consortium / "public.csv"))
        first._charge(before)
        for number, changed in enumerate(tables):
            changed.to_csv(public, index=False)
            path = consortium.new(f"{protocol}{number}.toml", public=public, **fields)
            with pytest.raises(AlreadyCastError):
                consortium.join("north", path, public=public)
            second = sign(Study.read(path), first.identity)
            second.keep(public=str(public))
            with pytest.raises(AlreadyCastError):
                second._charge(second.study)
            assert consortium.join("south", path, public=public, board=consortium / f"{protocol}{number}.board")
    words = ("--public", public, "--board", consortium / "again.board", "--data", consortium / "north.csv", "--yes")
    psephos("join", path, "--identity", consortium / "north", *words, "--again")
    Membership.find(first.identity, fingerprint(second.study.digest))._charge(second.study)
    first._charge(before)


def shares_of(plays: list[MemberRunner]) -> list[int]:
    """Every holder's share of the key."""
    shares = []
    for agent in [seat.agent for play in plays for seat in play.roles if seat.agent.role.name.startswith("holder")]:
        joined, made = agent.state.before[:2]
        shares.append(agent.role.stage(StageState(1, made, (joined,))).result(made).share())  # type: ignore[attr-defined]
    return shares


def assert_no_secrets(here: Consortium, shares: Sequence[int] = (), *texts: str) -> None:
    """No signing key, sealing key or share of the key stands on the board, in any file but stores and keys, in what was
    released, nor in `texts`: logs, pages. In bytes, in hexadecimal, or as a number."""
    secrets = [Identity.read(here / name).key.seed() for name in MEMBERS]
    for store in here.folder.glob("*/*/*.sqlite"):
        with sqlite3.connect(store) as database:
            rows = database.execute("SELECT content FROM records WHERE space = 'store'").fetchall()
        database.close()
        for (identity,) in rows:
            with Store(store, json.loads(identity)) as opened:
                sealing = opened.get("seat", b"sealing") or b""
                assert len(sealing) in (0, SECRET_BYTES)
                secrets += [sealing[:-X25519_BYTES], sealing[-X25519_BYTES:]]
    secrets += [share.to_bytes(share.bit_length() // 8 + 1, "big").lstrip(bytes(1)) for share in shares]
    files = [path for path in here.folder.rglob("*") if path.is_file() and "key" not in path.name]
    public = [path.read_bytes() for path in files if path.suffix != ".sqlite" or path.name == "board.sqlite"]
    assert len(public) > 20
    public += [text.encode() for text in texts]
    forms = [form for secret in filter(None, secrets) for form in (secret, secret.hex().encode())]
    forms += [str(share).encode() for share in shares]
    assert not any(form in content for form in forms for content in public)


# -- when the vote ends


CLOSES = "2096-10-02T07:36:40Z"
"""Half an hour after the clock of the tests begins, and long after that of the machine."""


class Clock:
    now = 4_000_000_000.0

    def __call__(self) -> float:
        return self.now


def until_the_vote(here: Consortium, study: Path, clock: Clock, voters: int, log: str) -> list[MemberRunner]:
    """Everybody joins; then as `runners`."""
    for name in MEMBERS:
        here.join(name, study)
    start_logging(log)
    return runners(here, clock, voters)


def runners(here: Consortium, clock: Clock, voters: int) -> list[MemberRunner]:
    """Everybody's roles, at the point where `voters` parties have voted and the others have not come."""
    plays = []
    for place, name in enumerate(MEMBERS):
        mine = member(here, name)
        comes = [role for role in mine.names if not role.startswith("party") or place < voters]
        plays.append(MemberRunner(mine, comes, clock=clock))
    go_on(plays)
    return plays


def go_on(plays: list[MemberRunner]) -> dict[str, str]:
    moved = True
    while moved:
        moved = max([play.step() for play in plays])  # all of them take a turn
    return {role: text for play in plays for role, text in play.statuses()}


@pytest.mark.parametrize(
    ("protocol", "method", "delta", "parameters", "noise"),
    [
        pytest.param("tally", "soft", 0.0, "", "spherical-laplace", marks=pytest.mark.slow),
        pytest.param("statistic", "statistic", 0.0, "", "discrete Laplace in shares", marks=pytest.mark.soak),
        pytest.param("average", "avg", 0.0, "lam=0.1", "spherical-laplace", marks=pytest.mark.soak),
        pytest.param(
            "psgd",
            "psgd",
            1e-3,
            "sizes=30 30 30,steps=2,lam=0.5,fraction_bits=12",
            "discrete-gaussian",
            marks=pytest.mark.soak,
        ),
        ("pathak", "pathak", 1e-6, "lam=0.1,smallest_size=30", "laplace in shares"),
    ],
)
def test_every_protocol_ends_in_a_verified_model(  # wide: one row of a table
    consortium: Consortium,
    capsys: pytest.CaptureFixture[str],
    protocol: str,
    method: str,
    delta: float,
    parameters: str,
    noise: str,
) -> None:
    """Where the parties add the noise the classifier is a function of what stands on the board; no secret of the run is
    anywhere that others may look."""
    bits = 128 if protocol == "tally" else 256
    study = consortium.new(protocol=protocol, method=method, delta=delta, parameters=parameters, key_bits=bits)
    text, joint = psephos("study", "show", study), protocol not in ("tally", "average")
    assert ("the sum with all the noise in it" in text) is joint
    assert ("holder 1" in psephos("study", "show", study, "--identity", consortium / "north")) is (protocol != "pathak")
    plays = until_the_vote(consortium, study, Clock(), voters=3, log="debug")
    assert set(go_on(plays).values()) == {"done: the result is published"}
    logged = capsys.readouterr().err
    assert '"message": "posted"' in logged
    agreed = Study.read(study)
    samples = PublicSamples.of(agreed, consortium / "public.csv")
    page = Follower(agreed, lambda: BoardFile(consortium / "board.sqlite"), StudyTerms(agreed, samples))
    page.step()
    shares = shares_of(plays)
    assert len(shares) == (0 if protocol == "pathak" else 3)
    for play in plays:
        play.close()
    assert_no_secrets(consortium, shares, logged, json.dumps(page.state()))
    written = [play.released / "model.json" for play in plays if play.released]
    models = {path.read_bytes() for path in written}
    assert len(models) == 1
    sha256 = hashlib.sha256(written[0].read_bytes()).hexdigest()
    model = json.loads(models.pop())
    assert (model["method"], model["release"]["mechanism"]) == (method, noise)
    assert model["release"]["epsilon"] <= 8.0 * (1 + 1e-12)
    seen = ("--board", consortium / "board.sqlite")
    public = ("--public", consortium / "public.csv")
    status = json.loads(psephos("status", study, *seen, *public, "--json"))
    assert (status["stage"], status["refused"]) == ("The result is published.", {})
    assert status == json.loads(psephos("status", consortium / "north", "--json"))
    assert json.loads(psephos("status", study, *seen, "--json"))["result"] is None, "it cannot be judged"
    arguments = ("--public", consortium / "public.csv", *(() if joint else ("--curator", consortium / "lab")), "--json")
    verified = json.loads(psephos("verify", study, *seen, *arguments, "--model", written[0]))
    assert verified["sha256"] == status["result"] == sha256
    checks = {check["what"]: check["verdict"] for check in verified["checks"]}
    follows = next(verdict for what, verdict in checks.items() if what.startswith("the result follows"))
    assert follows == ("holds" if joint else "not checked")  # of the noise that a curator added
    assert "fails" not in checks.values()
    assert list(checks.values()).count("holds") >= (5 if protocol == "pathak" else 8 if joint else 7)


@pytest.mark.parametrize(
    ("protocol", "method", "parameters", "lie"),
    [
        pytest.param("statistic", "statistic", "", "turned", marks=pytest.mark.soak),
        ("pathak", "pathak", "lam=0.1,smallest_size=30", "turned"),
        ("pathak", "pathak", "lam=0.1,smallest_size=30", "one bit"),
        ("pathak", "pathak", "lam=0.1,smallest_size=30", "cheaper"),
        pytest.param("tally", "soft", "", "cheaper", marks=pytest.mark.soak),
    ],
)
def test_agents_refuse_a_result_that_contradicts_the_board(  # wide: one row of a table
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, protocol: str, method: str, parameters: str, lie: str
) -> None:
    def lying(*arguments: Any) -> bytes:
        model = msgspec.json.decode(make_release(*arguments), type=Model)
        if lie == "turned":
            rows = tuple(tuple(-value for value in row) for row in model.coefficients)
            model = msgspec.structs.replace(model, coefficients=rows)
        elif lie == "one bit":
            first, *rest = model.intercepts
            model = msgspec.structs.replace(model, intercepts=(float(np.nextafter(first, 1e300)), *rest))
        else:
            model = msgspec.structs.replace(model, release=replace(model.release, epsilon=1e-9))
        return written_model(model)

    monkeypatch.setattr("psephos.study.member.make_release", lying)
    study = consortium.new(protocol=protocol, method=method, parameters=parameters, key_bits=256)
    for name in MEMBERS:
        consortium.join(name, study)
    errors: dict[str, list[str]] = {name: [] for name in MEMBERS}
    with ExitStack() as opened:
        members = [(name, member(consortium, name)) for name in MEMBERS]
        runners = [(name, opened.enter_context(MemberRunner(one, one.names, clock=Clock()))) for name, one in members]
        while min(map(len, errors.values())) < 2:
            for name, runner in runners:
                try:
                    runner.step()
                except AgreementError as error:
                    errors[name].append(str(error))
        assert all("the curator published a wrong result" in text for texts in errors.values() for text in texts)
        assert all(runner.released is None for _, runner in runners)
    assert not list(consortium.folder.rglob("model.json"))
    assert not list(consortium.folder.rglob("card.md"))


def test_close_ends_the_vote_but_not_below_the_minimum(vote: Consortium) -> None:
    clock = Clock()
    plays = runners(vote, clock, voters=1)
    plays[-1].close()
    with pytest.raises(TooFewBallotsError, match="minimum is 2"):
        psephos("agent", vote / "lab", "--once", "--close")
    mine = member(vote, "south")
    plays[1].close()
    with (
        MemberRunner(mine, mine.names, clock=clock) as south,
        MemberRunner(member(vote, "lab"), ["curator"], clock=clock) as lab,
    ):
        go_on([plays[0], south, plays[2]])
        statuses = go_on([plays[0], south, plays[2], lab])
    assert statuses["curator"].startswith("done"), "told once, it closes as soon as it may"
    for play in plays:
        play.close()


@pytest.mark.slow
def test_close_while_the_agent_runs_is_done_by_the_agent(vote: Consortium) -> None:
    clock = Clock()
    plays = runners(vote, clock, voters=2)
    with pytest.raises(StoreInUseError):
        psephos("agent", vote / "lab", "--once")
    assert "agent" in psephos("agent", vote / "lab", "--close")
    assert not json.loads(psephos("agent", vote / "lab", "--close", "--json"))["done"]
    assert go_on(plays)["curator"].startswith("done")
    for play in plays:
        play.close()


@pytest.mark.parametrize("hour", [pytest.param(3600.0, marks=pytest.mark.slow), -3600.0])
def test_a_wrong_clock_changes_times_but_not_results(vote: Consortium, hour: float) -> None:
    """No role has a clock. The curator's agent has one, for the end of the vote, and every agent for its patience."""
    clock = Clock()
    plays = runners(vote, clock, voters=2)
    assert "2 ballots of 3" in go_on(plays)["curator"]
    clock.now += hour  # ahead: the vote is over early; behind: it goes on
    early = go_on(plays)["curator"]
    assert early.startswith("done") is (hour > 0)
    clock.now -= hour
    clock.now += 30
    assert go_on(plays)["curator"] == early, "a wait that began in the future begins again"
    clock.now += 1800
    statuses = go_on(plays)
    assert set(statuses.values()) == {"done: the result is published"}
    assert json.loads((plays[0].released / "model.json").read_text())["parties"] == 2  # type: ignore[operator]
    for play in plays:
        play.close()


def test_a_late_ballot_is_refused_and_its_party_gets_the_model(vote: Consortium) -> None:
    """Before the end of the vote its ballot counts; afterwards it is refused by name, and the party has the model."""
    clock = Clock()
    plays = runners(vote, clock, voters=1)
    clock.now += 1000
    assert "1 ballots of 3" in go_on(plays)["curator"]
    with MemberRunner(member(vote, "south"), ["party 1"], clock=clock) as south:
        assert "2 ballots of 3" in go_on([*plays, south])["curator"]
        clock.now += 1000
        go_on([*plays, south])
        with MemberRunner(member(vote, "east"), ["party 2"], clock=clock) as east:
            statuses = go_on([*plays, south, east])
            assert set(statuses.values()) == {"done: the result is published"}
            assert east.released is not None
            assert json.loads((east.released / "model.json").read_text())["parties"] == 2
    late = [error for play in plays for seat in play.roles for error in seat.agent.rejected]
    assert {(type(error.error).__name__, error.author) for error in late} == {("LateBallotError", "party 2")}
    for play in plays:
        play.close()


@pytest.mark.slow
def test_an_absent_holder_is_named_while_others_wait(vote: Consortium) -> None:
    clock, lines = Clock(), []
    plays = runners(vote, clock, voters=2)
    gone = plays.pop(2)
    gone.close()
    member(vote, "lab").closing().touch()
    assert "2 of 3 holders have confirmed" in go_on(plays)["curator"]
    plays[-1]._say = lines.append
    clock.now += 61
    assert not plays[-1].step(patient=True)
    assert "2 holders have confirmed the curator's product, and 3 must" in lines[-1]
    for seconds, times in ((0, 1), (59, 1), (2, 2)):  # once in its patience
        clock.now += seconds
        assert not plays[-1].step(patient=True)
        assert len(lines) == times
    mine = member(vote, "east")
    with MemberRunner(mine, ["holder 3"], clock=clock) as back:
        assert go_on([*plays, back])["curator"].startswith("done")
    for play in plays:
        play.close()


class Liar(CeremonyHolder):
    """It says something else of its residues than follows from the seeds."""

    def _products_message(self, state: Any, batch: Any, j: int) -> bytes:
        message = super()._products_message(state, batch, j)
        another = pack_residues(self.terms, (batch.product_share(j) + 1) % flat_primes(self.terms))
        return message[: -len(another)] + another if j == self.number else message


def test_a_failed_ceremony_ends_the_study_for_every_agent(consortium: Consortium) -> None:
    study = Study.read(study_file := consortium.new())
    for name in ("north", "south", "lab"):
        consortium.join(name, study_file)
    names = {name: member(consortium, name) for name in ("north", "south", "lab")}
    plays = [MemberRunner(mine, mine.names) for mine in names.values()]
    east, board = Identity.read(consortium / "east"), BoardFile(consortium / "board.sqlite")
    liar = StagedRole(
        "holder 3",
        lambda: JoinStage("holder 3", study),
        lambda joined: Liar(study.ceremony(), 3),
    )
    agent = Agent(liar, study.members, east.key, board, Store())
    for _ in range(200):
        if not any([agent.step(), *(play.step() for play in plays)]):
            break
    why = "this study is over: .*holder 3 "
    for name, play in zip(names, plays, strict=True):
        assert not [status for _, status in play.statuses() if not re.search(why, status)], name
        looks = iter(range(3))  # a run that went on would end here, without the error
        with pytest.raises(StudyError, match=why):
            play.run(until=lambda: next(looks, None) is None)  # noqa: B023 - called in this turn
        play.close()
    assert re.search(why, psephos("status", study_file, "--board", consortium / "board.sqlite"))
    checks = examine(study, PublicSamples.of(study, consortium / "public.csv"), board).checks
    assert any(check.verdict == "fails" and "holder 3" in check.found for check in checks)


# -- what people get wrong


def test_invalid_identity_cards_are_refused(consortium: Consortium) -> None:
    path = consortium / "north/card.toml"
    good = path.read_text()
    for bad, message in (
        (good.replace("The north", "The north pole"), "damaged"),
        (good.replace("psephos_card = 1", "psephos_card = 2"), "not a card of this version"),
        ("{", "not TOML"),
        ('psephos_card = 1\nname = 3\nkey = ""\n', "damaged"),
        (good.replace('"The north"', '"The\\nnorth"'), "damaged"),
    ):
        path.write_text(bad)
        with pytest.raises(StudyError, match=message):
            IdentityCard.read(path)
    with pytest.raises(StudyError, match="cannot be read"):
        IdentityCard.read(consortium / "nobody.toml")


def test_invalid_identities_are_refused(consortium: Consortium) -> None:
    with pytest.raises(StudyError, match="not empty"):
        Identity.create("Again", consortium / "north")
    for name in ("\u200b\n", "x" * 101):
        with pytest.raises(StudyError):
            Identity.create(name, consortium / "other")
    with pytest.raises(InvalidParameter, match="epsilon"):
        Identity.create("Free", consortium / "other", budget=-1.0)
    assert not (consortium / "other").exists()
    with pytest.raises(StudyError, match="is not an identity"):
        Identity.read(consortium / "other")
    shutil.copy(consortium / "south/card.toml", consortium / "north/card.toml")
    with pytest.raises(StudyError, match="belongs to another key"):
        Identity.read(consortium / "north")
    (consortium / "south/identity.key").chmod(0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        Identity.read(consortium / "south")


def test_the_description_names_the_curator_and_fits_80_columns(consortium: Consortium) -> None:
    study = Study.read(consortium.new())
    assert all(len(line) <= 80 for line in describe_study(study).splitlines())
    assert study.curator_name == IdentityCard.read(consortium / "lab" / "card.toml").name
    [line] = [line for line in describe_study(study).splitlines() if line.startswith("  curator ")]
    assert study.curator_name in line
    assert fingerprint(study.curator.raw) in line


def test_a_study_file_with_a_dealer_is_refused(consortium: Consortium) -> None:
    """There is no field for one, and a field that is not known is refused."""
    text = consortium.new().read_text()
    with pytest.raises(StudyError, match="dealer"):
        Study.parse(text.replace("[key]", '[key]\ndealer = "lab"'))
    with pytest.raises(StudyError, match=r"0\.2"):
        Study.parse(text.replace("psephos_study = 3", "psephos_study = 1"))
    assert "there is none" in describe_study(Study.parse(text))


def test_a_vote_that_would_have_ended_is_refused(consortium: Consortium) -> None:
    with pytest.raises(InvalidParameter):
        consortium.new(closes="2020-01-01T00:00Z")
    assert not (consortium / "study.toml").exists()


def test_join_refuses_strangers_and_wrong_files(consortium: Consortium, tmp_path: Path) -> None:
    study = consortium.new()
    psephos("study", "identity", "A stranger", "--output", consortium / "stranger")
    with pytest.raises(StudyError, match="not a member"):
        consortium.join("stranger", study, data=consortium / "north.csv")
    earlier = tmp_path / "earlier.toml"
    earlier.write_text(study.read_text().replace("psephos_study = 3", "psephos_study = 2"))
    with pytest.raises(StudyError):
        consortium.join("north", earlier, data=consortium / "north.csv", budget=tmp_path / "budget.sqlite")
    assert not (tmp_path / "budget.sqlite").exists()
    other = pd.read_csv(consortium / "public.csv").iloc[::-1]
    other.to_csv(consortium / "other.csv", index=False)
    with pytest.raises(StudyError):
        consortium.join("north", study, public=consortium / "other.csv")
    assert not list((consortium / "north").glob("*/study.toml")), "it has not signed"
    data = pd.read_csv(consortium / "north.csv")
    data.loc[3, "diagnosis"] = "malignent"
    data.to_csv(consortium / "typo.csv", index=False)
    with pytest.raises(DataError, match="line 5: the diagnosis is none of the study's classes"):
        consortium.join("north", study, data=consortium / "typo.csv")
    with pytest.raises(StudyError, match="--data FILE"):
        consortium.join("south", study, voter="")
    with pytest.raises(InvalidParameter, match="no predict_votes"):
        consortium.join("south", study, voter="json:dumps")
    with pytest.raises(InvalidParameter, match="--voter no_such_module:voter"):
        consortium.join("south", study, voter="no_such_module:voter")
    psephos("study", "budget", consortium / "east", "--limit", 5)
    with pytest.raises(BudgetExceededError):
        consortium.join("east", study)
    assert not list((consortium / "east").glob("*/study.toml")), "it has not signed"
    with pytest.raises(StudyError, match="has not signed a study"):
        psephos("agent", consortium / "east")
    sign(Study.read(study), Identity.read(consortium / "lab"))
    with pytest.raises(StudyError, match="not joined it"):
        psephos("agent", consortium / "lab")
    words = ("study", "sign", study, "--identity", consortium / "south")
    with pytest.raises(InvalidParameter) as unasked:  # standard input is closed
        psephos(*words)
    assert unasked.value.option == "yes"
    declined = CliRunner().invoke(build(), list(map(str, words)), input="n\n")
    assert declined.exit_code == 1
    assert "nothing was signed" in declined.output


def test_a_role_runs_in_one_process_and_never_from_the_start_again(consortium: Consortium) -> None:
    """By one process at a time; and not again from the beginning, when its state was lost: no second ceremony."""
    study = consortium.new()
    consortium.join("north", study)
    mine = member(consortium, "north")
    with (
        MemberRunner(mine, ["holder 1"]),
        pytest.raises(JournalError),
        MemberRunner(mine, ["holder 1"]),
    ):
        pass
    with pytest.raises(StudyError, match="party 0 and holder 1"):
        psephos("agent", consortium / "north", "--close")
    (mine.folder / "holder-1.sqlite").unlink()
    with pytest.raises(EquivocationError, match="holder 1"):
        psephos("agent", consortium / "north", "--once")
    board = json.loads(psephos("status", study, "--board", consortium / "board.sqlite", "--json"))
    assert board["entries"] == 2, "and has said nothing more"


@pytest.mark.soak
@pytest.mark.nats
@pytest.mark.skipif(NATS_SERVER is None, reason="nats-server is not installed")
def test_trial_with_one_process_per_member(tmp_path: Path) -> None:
    """`psephos study try`, with a short key: a process for every member, and a server, to a verified model."""
    command = [sys.executable, "-m", "psephos", "study", "try", "--roles", "4", "--key-bits", "256", "--output", "a/t"]
    command += ["--nats"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "All 4 members have the model that stands on the board" in done.stderr
    study = Study.read(tmp_path / "a/t/study.toml")
    assert f"a/t/curator/{fingerprint(study.digest)}/released" in done.stderr
    assert not (tmp_path / "a/t/board.sqlite").exists()
    if all(map(find_spec, ("starlette", "uvicorn"))):
        assert re.search(r"http://\S+ shows it while it runs", done.stderr)
    settings = (study.title, study.epsilon, study.trial, study.minimum_ballots, study.patience, study.key_bits)
    assert settings == ("A trial", 10.0, True, 3, 60, 256)
    logged = [json.loads(line) for line in (tmp_path / "a/t/party-0.log").read_text().splitlines() if line[0] == "{"]
    assert {line["role"] for line in logged} >= {"party 0", "holder 1"}
