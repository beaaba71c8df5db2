"""The page of a study: what it says follows the board, it says no secret, and it lives through a board that dies."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner, Result

from psephos.audit.studies import Trial, trial
from psephos.cli.main import build
from psephos.protocol.board import Board, MemoryBoard
from psephos.protocol.board.client import join_message
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.board.sealing import SealingKey
from psephos.protocol.ceremony.messages import failure
from psephos.protocol.errors import BoardError, EngineError, StudyError, WrongRoundError
from psephos.protocol.paillier.private_key import generate_private_key
from psephos.protocol.paillier.threshold import deal
from psephos.protocol.roles import BOARD, Post
from psephos.protocol.study.stages import encode_key
from psephos.protocol.wire import HEADER_BYTES, Kind, frame, kind_of
from psephos.study.monitor import Follower
from psephos.study.watch.app import answers_to, application
from tests.psephos.study.cast import DealtCast


class Talk:
    """A board on which anybody can be made to say anything."""

    def __init__(self, made: Trial | None = None, **fields: Any) -> None:
        self.made: Trial = trial(**fields) if made is None else made
        self.board = MemoryBoard()
        self.secrets = {name: SealingKey.generate() for name in self.made.keys}
        self.seats = {name: self.made.board_client(name) for name in self.made.keys}

    def says(self, name: str, data: bytes, receiver: str = BOARD, secret: bool = True) -> bytes:
        entry = self.seats[name].sign(Post(receiver, data, "phase", secret))
        self.posts(entry)
        return entry

    def posts(self, entry: bytes) -> None:
        self.board.post(entry)
        for seat in self.seats.values():
            seat.check(len(self.board.entries), entry)

    def repeats(self, entry: bytes) -> None:
        """Post what a role has signed on another board."""
        self.posts(entry)
        self.seats[SignedEntry.decode(entry).author].place += 1

    def joins(self, *names: str) -> None:
        for name in names:
            self.says(name, join_message(self.made.study.digest, self.secrets[name].public))

    def message(self, kind: Kind) -> bytes:
        return frame(kind, self.made.study.digest, b"canary-of-a-body")


@pytest.fixture
def talk() -> Talk:
    return Talk(title="<script>alert(1)</script>")


@pytest.fixture
def follower(talk: Talk) -> Follower:
    return Follower(talk.made.study, lambda: talk.board)


def roles(state: dict[str, Any]) -> dict[str, list[str]]:
    return {role["role"]: [step["step"] for step in role["steps"] if step["done"]] for role in state["roles"]}


def test_the_page_names_every_stage_up_to_the_key(talk: Talk, follower: Follower) -> None:
    def stage() -> str:
        follower.step()
        text: str = follower.state()["stage"]
        return text

    assert stage() == "Nobody has joined yet."
    talk.joins("curator", "holder 1")
    assert stage() == "Waiting for holder 2, holder 3 to join."
    talk.joins("holder 2", "holder 3", "party 0")
    expected = "The holders generate the key, each a share of it: 0 candidates tried at most, about 752 in all"
    assert stage() == f"{expected}."
    study = talk.made.study
    talk.says("holder 1", talk.message(Kind.SEED_COMMITMENTS))
    talk.says("party 4", frame(Kind.SEED_COMMITMENTS, study.ceremony().digest))
    assert stage() == f"{expected}.", "of another session, and from a party"
    for holder, late in (("holder 2", ""), ("holder 3", "; waits for holder 1")):  # one alone may say anything
        for _ in range(9):
            talk.says(holder, frame(Kind.RESIDUE_PRODUCTS, study.ceremony().digest))
        assert stage() == f"{expected}{late}.", "a batch is tried when all have spoken"
    key, _ = deal(generate_private_key(study.key_bits, test_key=True), holders=3, threshold=2)
    for name in study.holders:
        assert "generate the key" in stage()
        talk.says(name, encode_key(study, key))
    assert "--public" in stage(), "without the samples nobody can judge what is cast"


_CLOSED = "The vote is closed; ballots: 5."
STAGES = {
    "tally": [
        *(f"Voting: {n} of 5 parties have voted; 3 are needed." for n in range(5)),
        "Voting: 5 of 5 parties have voted; the curator is to close the vote.",
        *(f"{_CLOSED} {n} of 3 holders have confirmed the product." for n in range(3)),
        f"{_CLOSED} The holders have confirmed the product; the curator is to ask some to open it.",
        *(f"{_CLOSED} {n} of 2 holders that are needed have answered the curator." for n in (0, 1)),
        f"{_CLOSED} Enough holders have answered; the curator is to publish the result.",
        "The result is published.",
    ],
    "psgd": [
        "The curator is to announce the first step.",
        *(f"Step {step}: {n} of 5 parties have answered; 5 must." for step in (1, 2) for n in range(6)),
        "The result is published.",
    ],
    "pathak": [
        "The parties send each other shares of their parameters.",
        *(f"{n} of 6 shares of the sum are published." for n in range(1, 7)),
        "The result is published.",
    ],
}


def followed(what: str) -> tuple[Talk, Follower, Sequence[bytes]]:
    """A board on which nothing stands yet, who follows it, and what honest members sign one after another."""
    cast = DealtCast(what)
    board, _ = cast.played()
    talk = Talk(cast.made)
    return talk, Follower(cast.made.study, lambda: talk.board, cast.terms), [data for _, data in board.read(0)]


@pytest.mark.parametrize("what", STAGES)
def test_the_page_names_every_stage_of_a_protocol(what: str) -> None:
    talk, follower, entries = followed(what)
    stages: list[str] = []
    for entry in entries:
        talk.repeats(entry)
        follower.step()
        text = follower.state()["stage"]
        stages += [text] * (text not in stages)
    started = next(number for number, text in enumerate(stages) if text == STAGES[what][0])
    assert stages[started:] == STAGES[what]
    state = follower.state()
    assert state["refused"] == {}
    assert roles(state)["party 0"] == ["joined", "published a share" if what == "pathak" else "cast a ballot"]
    if what == "tally":
        assert roles(state)["curator"] == ["joined", "closed the vote", "published the result"]
        assert roles(state)["holder 2"] == ["joined", "made the key", "confirmed", "answered the curator"]
        not_needed = [
            (role["role"], step["step"]) for role in state["roles"] for step in role["steps"] if not step["needed"]
        ]
        assert not_needed == [("holder 3", "opened")], "it was not asked"
    result = next(SignedEntry.decode(data).body for data in entries if _kind(data) is Kind.RESULT)
    assert state["result"] == hashlib.sha256(result[HEADER_BYTES:]).hexdigest()


def _kind(data: bytes) -> Kind | None:
    entry = SignedEntry.decode(data)
    return None if entry.secret else kind_of(entry.body)


@pytest.mark.parametrize("what", ["tally", "statistic", "psgd", "pathak"])
def test_a_page_believes_no_message_that_no_role_accepts(what: str) -> None:
    """Whoever posts what looks like the next messages moves neither the stage nor anybody's steps."""
    talk, follower, entries = followed(what)
    study, seen = talk.made.study, set[str]()
    for entry in entries:
        talk.repeats(entry)
        follower.step()
        before = follower.state()
        if before["stage"] in seen or "joined" in before["stage"] or before["result"]:
            continue
        seen.add(before["stage"])
        for session in (bytes(32), study.digest):
            for number in range(5):
                talk.says(f"party {number}", frame(Kind.BALLOT, session))
            for kind in (Kind.CLOSE, Kind.ANNOUNCEMENT):
                talk.says("curator", frame(kind, session))
            for name in study.holders:
                talk.says("curator", frame(Kind.TALLY_REQUEST, session), name, secret=False)
                for kind in (Kind.CONFIRMATION, Kind.PARTIAL_DECRYPTION, Kind.PUBLISHED_SUM, Kind.NOISE_BALLOT):
                    talk.says(name, frame(kind, session, b"junk"))
            talk.says("curator", frame(Kind.PUBLISHED_SHARE, session))
        talk.says("curator", frame(Kind.RESULT, bytes(32), b"nonsense"))
        talk.says("party 0", frame(Kind.RESULT, study.digest, b"nonsense"))
        follower.step()
        assert (follower.state()["stage"], roles(follower.state())) == (before["stage"], roles(before))
        assert follower.state()["result"] == ""


def test_a_failed_ceremony_is_shown(talk: Talk, follower: Follower) -> None:
    """As one holder says, whom nobody need believe; and as two do, and then the study is over."""
    talk.joins("curator", "holder 1", "holder 2", "holder 3", "party 4")
    why = failure(talk.made.study.ceremony(), "holder 3 lied")
    talk.says("holder 2", why)
    follower.step()
    assert 'But the ceremony has failed, according to holder 2 ("holder 3 lied")' in follower.state()["stage"]
    assert not follower.state()["over"]
    talk.says("holder 1", why)
    follower.step()
    assert follower.state()["stage"].startswith("There is no key, and this study is over: the ceremony has failed")
    assert follower.state()["over"]


def test_foreign_entries_are_marked(talk: Talk, follower: Follower) -> None:
    talk.joins("curator", "party 0", "party 1")
    talk.board.post(b"noise")
    forked = talk.made.board_client("party 1")
    talk.board.post(forked.sign(Post(BOARD, b"another story")))
    follower.step()
    state = follower.state()
    assert state["refused"] == {"MessageError": 1, "EquivocationError": 1}
    assert state["forked"] == 1
    assert [line["number"] for line in state["log"] if line["error"]] == [4, 5]
    assert state["head"]["size"] == 5


@pytest.mark.parametrize("kind", [Kind.BALLOT, None])
def test_a_repeated_entry_counts_for_nobody(talk: Talk, follower: Follower, kind: Kind | None) -> None:
    """Whoever can post to a board can repeat what stands on it; a client may, after a broken connection."""
    talk.joins("curator", "party 0")
    entry = talk.says("party 0", b"sealed") if kind is None else talk.says("party 0", talk.message(kind))
    follower.step()
    before = follower.accepted["party 0"], follower.sizes["party 0"]
    talk.posts(entry)
    assert follower.step()
    assert (follower.accepted["party 0"], follower.sizes["party 0"]) == before
    assert (follower.lines[-1].kind, follower.lines[-1].error, follower.entries) == ("repeated", "", 4)
    assert follower.record()["entries"] == 4
    assert "board: 4 entries" in follower.text()
    assert follower.refused == {}


def test_message_bodies_are_never_served(talk: Talk, follower: Follower) -> None:
    talk.joins("curator", "holder 1", "holder 2")
    talk.says("holder 1", talk.message(Kind.EXPONENT_SHARES), "holder 2")
    talk.says("holder 1", talk.message(Kind.BALLOT))
    follower.step()
    with TestClient(application(follower)) as client:
        everything = "".join(client.get(path).text for path in ("/", "/state.json", "/watch.js"))
    assert "canary-of-a-body" not in everything
    assert b"canary-of-a-body".hex() not in everything
    for key in talk.made.keys.values():
        assert key.seed().hex() not in everything
    assert [line["kind"] for line in follower.state()["log"]][-2:] == ["secret", "ignored"]


def test_a_failing_board_is_shown_until_it_recovers(talk: Talk) -> None:
    class Dying:
        alive = True

        def __init__(self) -> None:
            if not Dying.alive:
                raise BoardError("the server is gone")

        def post(self, data: bytes) -> None:
            raise AssertionError("a page posts nothing")

        def read(self, after: int) -> Iterator[tuple[int, bytes]]:
            if not Dying.alive:
                raise BoardError("the server is gone")
            yield from talk.board.read(after)

        def close(self) -> None: ...

    def opened() -> Board:
        return Dying()

    follower = Follower(talk.made.study, opened)
    talk.joins("curator")
    assert follower.step()
    Dying.alive = False
    assert follower.step()
    assert not follower.step(), "the same failure is no news"
    assert follower.state()["failure"] == "the server is gone"
    with TestClient(application(follower, poll=100)) as client:
        assert client.get("/healthy").status_code == 503
    Dying.alive = True
    talk.joins("holder 1")
    assert follower.step()
    assert follower.state()["failure"] == ""
    assert follower.entries == 2


def test_missing_entries_are_shown(talk: Talk, follower: Follower) -> None:
    client = talk.made.board_client("party 0")
    client.sign(Post(BOARD, b"left out"))
    talk.board.post(client.sign(Post(BOARD, b"shown")))
    follower.step()
    assert follower.state()["missing"].endswith("party 0 0")
    assert follower.record()["missing"].endswith("party 0 0")
    assert "WARNING: entries that the board or their author left out" in follower.text()


def test_a_reader_that_fails_or_is_stuck_is_not_healthy(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    follower = Follower(talk.made.study, lambda: talk.board, clock=lambda: now[0])
    with TestClient(application(follower, poll=0.01)) as client:
        monkeypatch.setattr(follower, "step", lambda: False)
        assert client.get("/healthy").status_code == 200
        now[0] += 61
        answer = client.get("/healthy")
        assert answer.status_code == 503
        assert "stuck" in answer.json()["board"]

        def failing() -> bool:
            raise ZeroDivisionError

        monkeypatch.setattr(follower, "step", failing)
        for _ in range(500):
            if "ZeroDivisionError" in (status := client.get("/healthy").json()["board"]):
                break
            time.sleep(0.01)
        assert "could not be read" in status


def test_a_failing_verification_is_shown_and_the_page_continues() -> None:
    def check(board: Board) -> list[dict[str, str]]:
        raise WrongRoundError("a result of another study")

    talk, follower, entries = followed("tally")
    follower.check = check
    for entry in entries:
        talk.repeats(entry)
    assert follower.step()
    (row,) = follower.state()["checks"]
    assert (row["verdict"], row["found"]) == ("fails", "WrongRoundError: a result of another study")
    assert not follower.step()


def test_the_page_needs_nothing_from_elsewhere(talk: Talk, follower: Follower) -> None:
    talk.joins("curator", "party 0")
    talk.board.post(b"noise")
    follower.step()
    with TestClient(application(follower)) as client:
        page = client.get("/")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "<script>alert" not in page.text
        assert not re.search(r"https?://", page.text), "a page that needs nothing from elsewhere"
        state = json.loads(client.get("/state.json").text)
        assert client.post("/state.json").status_code == 405
    assert state["title"] == "<script>alert(1)</script>"
    assert state["head"]["size"] == 3


def test_the_page_refuses_foreign_host_names(follower: Follower) -> None:
    """Else a site whose name is made to lead here reads the study in the browser of whoever follows it."""
    reads_brackets = tuple(map(int, version("starlette").split(".")[:2])) >= (1, 8)  # refuses an IPv6 address before
    statuses = {"127.0.0.1:8080": 200, "localhost": 200, "evil.example": 400, "x@127.0.0.1": 400}
    statuses |= {"[::1]:8080": 200 if reads_brackets else 400}
    for address in ("127.0.0.1", "::1", "127.3.2.1"):
        with TestClient(application(follower, hosts=answers_to(address))) as client:
            for path in ("/", "/state.json"):
                assert {host: client.get(path, headers={"Host": host}).status_code for host in statuses} == statuses
    assert answers_to("192.0.2.7") == answers_to("::") == ("*",)


def test_an_unusable_address_is_reported(talk: Talk, tmp_path: Path) -> None:
    talk.made.study.write(tmp_path / "study.toml")
    (tmp_path / "board").touch()

    def run(*words: str) -> Result:
        return CliRunner().invoke(build(), ["watch", str(tmp_path / "study.toml"), *words])

    board = ("--board", str(tmp_path / "board"))
    elsewhere = run(*board, "--host", "192.0.2.7").exception  # an address for documentation (RFC 5737)
    assert isinstance(elsewhere, EngineError)
    assert "192.0.2.7, port 8080" in str(elsewhere)
    assert run(*board, "--port", "70000").exit_code == 2
    missing = run("--board", str(tmp_path / "nothing")).exception
    assert isinstance(missing, StudyError)
    assert "there is no board" in str(missing)
