"""What `psephos verify` finds: an honest study holds, and every lie that can be found is found."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

from psephos.audit.adversary import Tampering, is_of_kind, tampering
from psephos.audit.studies import Trial, trial
from psephos.cli.main import build
from psephos.curator.statistic import plan_statistic
from psephos.model import Model, written_model
from psephos.protocol import errors
from psephos.protocol.agent import Agent
from psephos.protocol.board import MemoryBoard
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.board.file import BoardFile
from psephos.protocol.board.history import History, leaf_hash
from psephos.protocol.encrypted_sum.messages import Confirmation
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.errors import MessageError, ModelError, ReportError, StudyError, UnsealedMessageError
from psephos.protocol.privacy.accounting import stated_delta
from psephos.protocol.roles import BOARD, Entry, Post, Role, Step
from psephos.protocol.storage.store import Store
from psephos.protocol.study.stages import encode_key
from psephos.protocol.study.study import Study
from psephos.protocol.wire import Kind, Reader, frame, session_of
from psephos.specs.registry import spec_of
from psephos.specs.terms import StudyTerms, encode_coordinates
from psephos.study.card import card
from psephos.study.consent import describe_study
from psephos.study.monitor import Follower
from psephos.study.release import make_release, read_release
from psephos.study.roles import curator_role, holder_role, party_role
from psephos.study.samples import PublicSamples
from psephos.study.verify import AGREED, FOLLOWS, StudyCheck, as_text, examine
from tests.psephos.study.cast import FixedVotes, fields_of, given, shares_of, unit
from tests.tiers import sampled
from tests.verifier.verifier import verify as second_verify

PARTIES, SAMPLES = 5, 12


Release = Callable[[OpenedSum], bytes]
Replacements = dict[str, Callable[[Role], Role]]


@dataclass
class Played:
    """A study that was played to its end."""

    made: Trial
    samples: PublicSamples
    public_text: str = ""
    board: MemoryBoard = field(default_factory=MemoryBoard)
    stores: dict[str, Store] = field(default_factory=dict)
    agents: dict[str, Agent] = field(default_factory=dict)

    @property
    def study(self) -> Study:
        return self.made.study

    def play(self, release: Release, replacements: Replacements, *, ceremony: bool = False) -> None:
        """With a key that the holders make, or that was dealt, in a fraction of the time."""
        public = StudyTerms(self.study, self.samples)
        spec = spec_of(public)
        shares = [] if ceremony or not self.study.uses_key else shares_of(self.study)
        votes = np.random.default_rng(7).integers(0, 3, size=(PARTIES, SAMPLES))
        for name, key in self.made.keys.items():
            store = self.stores[name] = Store()
            kind, _, number = name.partition(" ")
            if kind == "curator":
                role: Role = curator_role(public, release, store)
            elif kind == "holder":
                role = holder_role(public, int(number), store)
                role = given(role, shares[int(number) - 1]) if shares else role
            else:
                X = unit(np.random.default_rng(int(number)), 6 + int(number))
                own: Any = (X, (X[:, 0] > 0).astype(np.int64) if spec.numeric_label is None else 100 + 5 * X[:, 0])
                own = FixedVotes(votes[int(number)]) if spec.takes_classifier else own
                role = party_role(public, int(number), key, own, store)
            role = replacements[name](role) if name in replacements else role
            self.agents[name] = Agent(role, self.study.members, key, self.board, store)
        for _ in range(3):
            while any([agent.step() for agent in self.agents.values()]):  # noqa: C419 - all of them take a turn
                pass
            self.agents["curator"].on_idle()

    def checks(self, *, curator: bool = True) -> dict[str, StudyCheck]:
        checks = examine(self.study, self.samples, self.board, self.stores["curator"] if curator else None).checks
        assert all(type(text) is str and text for check in checks for text in (check.what, check.found))
        assert {check.verdict for check in checks} <= {"holds", "fails", "not checked"}
        return {check.what.split(":")[0]: check for check in checks}

    def failing(self, **how: bool) -> set[str]:
        return {what for what, check in self.checks(**how).items() if check.verdict == "fails"}


@pytest.fixture(scope="module")
def public_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("public") / "public.csv"
    generator = np.random.default_rng(2)
    pd.DataFrame(generator.normal(size=(SAMPLES, 3)), columns=list("xyz")).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def samples(public_file: Path) -> PublicSamples:
    return PublicSamples.read(public_file, "class")


@pytest.fixture(scope="module")
def play(samples: PublicSamples, public_file: Path) -> Callable[..., Played]:
    of_file = samples

    def started(
        release: Callable[[Study], Release] | None = None,
        replacements: Replacements | None = None,
        *,
        ceremony: bool = False,
        samples: PublicSamples = samples,
        **fields: Any,
    ) -> Played:
        settings: dict[str, Any] = {"method": "statistic", "epsilon": 0.5, "samples": SAMPLES} | fields
        public: dict[str, Any] = {"public_table": samples.digest, "features": samples.features}
        made = trial(parties=PARTIES, **settings, **public)
        honest: Release = lambda opened: make_release(made.study, samples, opened)  # noqa: E731
        played = Played(made, samples)
        if samples is of_file:
            played.public_text = public_file.read_text()
        played.play(honest if release is None else release(made.study), replacements or {}, ceremony=ceremony)
        return played

    return started


@pytest.fixture(scope="module")
def honest(play: Callable[..., Played]) -> Played:
    return play()


ALL = {
    "signatures, order and heads of the log",
    "who has agreed to the study",
    "the key",
    "ballots",
    "confirmations of one product",
    "partial decryptions",
    "the result",
}
UNSEEN = FOLLOWS


def test_an_honest_study_passes_every_check(honest: Played) -> None:
    """No check depends on the noise, so an honest curator never fails."""
    checks = honest.checks()
    holding = {what for what, check in checks.items() if check.verdict == "holds"}
    assert holding >= ALL
    assert not {what for what, check in checks.items() if check.verdict == "fails"}
    never = {what for what, check in checks.items() if check.verdict == "not checked"}
    assert never == {
        UNSEEN,
        "who holds the identities",
        "that nobody has the whole key",
        "what the parties trained on",
        "who else was shown the board",
        "what other studies of the same data cost",
    }


def test_an_outsider_cannot_check_sealed_messages(honest: Played) -> None:
    checks = honest.checks(curator=False)
    assert not {what for what, check in checks.items() if check.verdict == "fails"}
    assert "sealed to the curator" in checks["partial decryptions"].found
    assert checks["the result follows from the sum"].verdict == "not checked"
    for what in ALL - {"partial decryptions"}:
        assert checks[what].verdict == "holds", what


def changed(content: bytes, **fields: Any) -> bytes:
    return written_model(msgspec.structs.replace(msgspec.json.decode(content, type=Model), **fields))


def test_a_release_without_curator_noise_is_not_checked(play: Callable[..., Played], samples: PublicSamples) -> None:
    """A curator that takes a hundred times the epsilon and says that it did not: nobody sees it, and verify says so."""

    def noiseless(study: Study) -> Release:
        def release(opened: OpenedSum) -> bytes:
            model = msgspec.json.decode(make_release(replace(study, epsilon=64.0), samples, opened), type=Model)
            honest = msgspec.json.decode(make_release(study, samples, opened), type=Model)
            return written_model(msgspec.structs.replace(model, release=honest.release))

        return release

    checks = play(noiseless, method="soft", parameters={"lam": 0.1}).checks()
    assert checks[UNSEEN].verdict == "not checked"
    assert "rests on the curator" in checks[UNSEEN].found


def test_a_result_of_other_ballots_than_count_is_refused(honest: Played) -> None:
    """The curator adds the noise here, so nothing else in the model would show whose ballots are in it."""
    ((_, result),) = bodies(honest, Kind.RESULT)
    model = msgspec.json.decode(honest.agents["curator"].result.content, type=Model)
    spec = spec_of(StudyTerms(honest.study, honest.samples))
    for ballots, verdict in ((PARTIES, "holds"), (PARTIES - 1, "fails")):
        cost = replace(spec.cost(ballots), delta=model.release.delta, protects=model.release.protects)
        stated = written_model(msgspec.structs.replace(model, parties=ballots, release=cost))
        board = before(honest, Kind.RESULT, ("curator", frame(Kind.RESULT, session_of(result), stated)))
        assert verdicts_of(honest, board)[AGREED] == verdict


class Shaped(Tampering):
    """Holder 1, whose partial decryption is another unit than the right one."""

    def send(self, post: Post, seen: Sequence[Entry]) -> list[Post]:
        if not is_of_kind(post, Kind.PARTIAL_DECRYPTION):
            return [post]
        data = bytearray(post.data)
        data[80:90] = bytes(10)  # within the first value
        return [replace(post, data=bytes(data))]


def test_a_wrong_partial_decryption_is_named_and_the_study_completes(play: Callable[..., Played]) -> None:
    played = play(replacements={"holder 1": Shaped})
    checks = examine(played.study, played.samples, played.board, played.stores["curator"]).checks
    assert not [check for check in checks if check.verdict == "fails"]
    assert [check.culprits for check in checks if check.verdict == "misconduct"] == [("holder 1",)]
    assert any(check.what.startswith("partial decryptions") and check.verdict == "holds" for check in checks)


def before(
    played: Played, kind: Kind | None, *entries: tuple[str, bytes], count: int = 0, receiver: str = BOARD, **fields: Any
) -> MemoryBoard:
    """The log up to its first message of a kind, or the one `count` later, and what others said there, in clear."""
    board = MemoryBoard()
    for data in played.board.entries:
        if kind is not None and Entry(0, "", "", SignedEntry.decode(data).body).is_a(kind):
            count -= 1
            if count < 0:
                break
        board.post(data)
    for name, body in entries:
        seat = played.made.board_client(name)
        for number, data in enumerate(board.entries, 1):
            seat.check(number, data)
            seat.place += SignedEntry.decode(data).author == name
        entry = replace(SignedEntry.decode(seat.sign(Post(receiver, body, secret=False))), **fields)
        board.post(entry.signed(played.made.keys[name]).encode())
    return board


def retold(played: Played, kind: Kind | None, *entries: tuple[str, bytes]) -> dict[str, StudyCheck]:
    """What an outsider finds where the log goes on otherwise, before its first message of a kind or after its end."""
    board = before(played, kind, *entries)
    return {check.what.split(":")[0]: check for check in examine(played.study, played.samples, board).checks}


@pytest.mark.parametrize("kind", [Kind.PUBLIC_KEY, None])
def test_malformed_messages_fail_no_check(honest: Played, kind: Kind | None) -> None:
    """Of a member that likes the result less than the others, before the key and after the end."""
    junk = frame(Kind.PARTIAL_DECRYPTION, honest.study.digest, b"x")
    bad = [("party 4", b"junk"), ("party 4", junk), ("curator", junk), ("party 4", frame(Kind.COMPLAINT, bytes(32)))]
    checks = retold(honest, kind, *bad, *(bodies(honest, kind) if kind else []))
    assert checks["the key"].verdict == "holds"
    assert not [check for check in checks.values() if check.verdict == "fails"]


def test_a_result_of_another_study_is_ignored(honest: Played) -> None:
    """Everybody refuses it and takes the next: a check that ended in an error there would never look at that one."""
    content = honest.agents["curator"].result.content
    entries = [("curator", frame(Kind.RESULT, session, content)) for session in (bytes(32), honest.study.digest)]
    assert retold(honest, Kind.RESULT, *entries)["the result"].verdict == "holds"


def test_holders_that_publish_different_keys_are_named(honest: Played) -> None:
    entries = (SignedEntry.decode(data).body for data in honest.board.entries)
    right = next(body for body in entries if Entry(0, "", "", body).is_a(Kind.PUBLIC_KEY))
    wrong = right[:-1] + bytes([right[-1] ^ 1])
    keys = (("holder 3", wrong), ("holder 1", right), ("holder 2", right))
    check = retold(honest, Kind.PUBLIC_KEY, *keys)["the key"]
    assert check.verdict == "fails"
    assert "one by holder 1 and holder 2, another by holder 3" in check.found


class Babbling(Tampering):
    """Says to the curator alone, twice, what is no message."""

    def send(self, post: Post, seen: Sequence[Entry]) -> list[Post]:
        return [post, *(Post("curator", bytes([number]) * 40, "", secret=False) for number in range(2))]


def test_malformed_entries_stop_nobody(play: Callable[..., Played]) -> None:
    """It stands on the board for ever: who could not read past it would never come back."""
    played = play(replacements={"party 4": Babbling})
    assert played.agents["curator"].result is not None
    refused = [rejection for rejection in played.agents["curator"].rejected if rejection.author == "party 4"]
    assert [type(rejection.error) for rejection in refused] == [MessageError, MessageError]


class Early(Tampering):
    """Holder 3, who knows the key first, publishes it before its last word in the ceremony, and never afterwards."""

    def send(self, post: Post, seen: Sequence[Entry]) -> list[Post]:
        return [] if Entry(0, "", "", post.data).is_a(Kind.PUBLIC_KEY) else [post]

    def wrap(self, state: Any, step: Step) -> Step:
        for place, post in enumerate(step.posts):
            if Entry(0, "", "", post.data).is_a(Kind.TEST_DECRYPTION):
                study: Any = SimpleNamespace(digest=session_of(state.seen[0].data))
                early = replace(post, data=encode_key(study, step.state.state.state.key))
                step, posts = super().wrap(state, step), step.posts
                return replace(step, posts=(*posts[:place], early, *posts[place:]))
        return super().wrap(state, step)


@pytest.mark.slow
def test_an_early_key_counts_from_the_same_place_for_all(play: Callable[..., Played]) -> None:
    """Or its sender says it again when it likes: holders would count ballots from there on, and everybody else all."""
    played = play(replacements={"holder 3": Early}, ceremony=True)
    assert played.failing() == set()
    assert "5 ballots count" in played.checks()["ballots"].found
    assert verdicts_of(played)["the key: what the messages of the ceremony make"] == "holds"


def test_the_command(honest: Played, public_file: Path, tmp_path: Path) -> None:
    """Its exit status is 1 where a check fails: of the board, or of a file that is not the model on it."""
    honest.study.write(tmp_path / "study.toml")
    entries, model = honest.board.entries, tmp_path / "model.json"
    released = examine(honest.study, honest.samples, honest.board).model
    assert released is not None
    model.write_bytes(written_model(released))
    (tmp_path / "other.json").write_bytes(model.read_bytes() + b"\n")
    sha256 = hashlib.sha256(model.read_bytes()).hexdigest()
    holes = {name: signed(honest, name, b"x", skip=1) for name in ("party 4", "curator")}
    boards = {"whole": entries, "unfinished": entries[:9]} | {name: [*entries, hole] for name, hole in holes.items()}
    for name, shown in boards.items():
        board = BoardFile(tmp_path / name)
        for data in shown:
            board.post(data)
        board.close()

    def run(board: str, *words: str | Path) -> Result:
        given = ["verify", tmp_path / "study.toml", "--board", tmp_path / board, "--public", public_file, *words]
        return CliRunner().invoke(build(), list(map(str, given)), catch_exceptions=False)

    for board, words, status in (
        ("whole", (), 0),
        ("whole", ("--model", model), 0),
        ("whole", ("--model", tmp_path), 0),
        ("whole", ("--model", tmp_path / "other.json"), 1),
        ("party 4", (), 0),
        ("curator", (), 1),
        ("unfinished", ("--model", model), 1),
    ):
        done = run(board, *words, "--json")
        document = json.loads(done.output)
        failing = [check for check in document["checks"] if check["verdict"] == "fails"]
        assert (done.exit_code, bool(failing)) == (status, bool(status)), (board, words)
        assert document["sha256"] == (None if board == "unfinished" else sha256)
        misconduct = [check["culprits"] for check in document["checks"] if check["verdict"] == "misconduct"]
        assert misconduct == ([["party 4"]] if board == "party 4" else [])
    for board, status in (("whole", 0), ("party 4", 0), ("curator", 1)):
        assert run(board).exit_code == status
    assert sha256 in "".join(run("whole").output.split())
    with pytest.raises(ModelError):
        run("whole", "--model", tmp_path / "missing.json")
    assert run("whole", "--report", tmp_path / "receipt.html").exit_code == 0
    assert (tmp_path / "receipt.html").exists()
    assert (tmp_path / "receipt.json").exists()
    with pytest.raises(ReportError):
        run("whole", "--report", tmp_path)


def of(what: str, **fields: Any) -> dict[str, Any]:
    """A study that is called so, of these samples."""
    given = fields_of(what, PARTIES)
    return {name: value for name, value in given.items() if name not in ("samples", "public_table")} | fields


LOG, WHO = "signatures, order and heads of the log", "who has agreed to the study"
KEY, BALLOTS = "the key: published alike by all holders", "ballots: signatures, proofs (knowledge), and their product"
CONFIRMED, PARTS = "confirmations of one product", "partial decryptions: proofs, and what they open"
RESULT = AGREED
STEPS = "every step: at the point that follows, and its sum published alike by t holders"
SHARES = "shares of the sum: published by everybody"


def verdicts_of(played: Played, board: MemoryBoard | None = None, store: Store | None = None) -> dict[str, str]:
    """The verdict of every check, but for what nobody can check, which is the same for all."""
    checks = examine(played.study, played.samples, board or played.board, store).checks
    never = 5 if played.study.uses_key else 4
    assert {check.verdict for check in checks[-never:]} == {"not checked"}
    return {check.what: check.verdict for check in checks[:-never]}


@pytest.fixture(scope="module")
def public(play: Callable[..., Played]) -> Played:
    """A study whose sums stand on the board."""
    return play(**of("statistic"))


def bodies(played: Played, kind: Kind) -> list[tuple[str, bytes]]:
    entries = map(SignedEntry.decode, played.board.entries)
    return [(e.author, e.body) for e in entries if Entry(0, "", "", e.body).is_a(kind)]


def test_a_result_that_comes_before_its_time_fails(public: Played) -> None:
    """At every stage of a tally, of which more checks hold the further it is; where it waits, nothing fails."""
    result = bodies(public, Kind.RESULT)[0]
    whole = dict.fromkeys((LOG, WHO, KEY, BALLOTS, CONFIRMED, PARTS), "holds")
    stages: list[tuple[Kind, int, dict[str, str]]] = [
        (Kind.BALLOT, 0, dict.fromkeys((BALLOTS, CONFIRMED, PARTS), "not checked")),
        (Kind.CLOSE, 0, dict.fromkeys((CONFIRMED, PARTS), "not checked")),
        (Kind.CONFIRMATION, 2, dict.fromkeys((CONFIRMED, PARTS), "not checked")),
        (Kind.PARTIAL_DECRYPTION, 0, {PARTS: "not checked"}),
        (Kind.PARTIAL_DECRYPTION, 1, {PARTS: "not checked"}),
        (Kind.RESULT, 0, {}),
    ]
    for kind, count, waiting in stages:
        assert verdicts_of(public, before(public, kind, count=count)) == whole | waiting | {RESULT: "not checked"}
        early = verdicts_of(public, before(public, kind, result, count=count))
        assert early[RESULT] == ("holds" if kind is Kind.RESULT else "fails")
    for kind, count in ((Kind.PUBLIC_KEY, 0), (Kind.PUBLIC_KEY, 2)):  # no role takes a result there
        found = verdicts_of(public, before(public, kind, result, count=count))
        assert (found[KEY], found[RESULT]) == ("not checked", "not checked")
    nothing = verdicts_of(public, MemoryBoard())
    assert (nothing[LOG], nothing[WHO], nothing[KEY]) == ("not checked", "fails", "not checked")
    assert verdicts_of(public) == whole | {RESULT: "holds", FOLLOWS: "holds"}


def found_of(played: Played, board: MemoryBoard) -> tuple[set[str], set[str]]:
    """What fails on a board, by the first words of the check, and who has signed what no honest member signs."""
    checks = examine(played.study, played.samples, board).checks
    fails = {check.what.split(":")[0] for check in checks if check.verdict == "fails"}
    culprits = {name for check in checks if check.verdict == "misconduct" for name in check.culprits}
    if played.public_text:
        report = second_verify(played.study.text(), played.public_text, board.entries)
        assert (bool(report.fails), report.misconduct) == (bool(fails), culprits), report
    return fails, culprits


def signed(played: Played, name: str, body: bytes, *, skip: int = 0, forked: bool = False) -> bytes:
    """An entry that a member signs after the end: places further, or as if it had read another log."""
    history, place = History(), -1
    for data in played.board.entries:
        history.append(leaf_hash(data))
        entry = SignedEntry.decode(data)
        place = entry.place if entry.author == name else place
    head = replace(history.head, root=bytes(32)) if forked else history.head
    entry = SignedEntry(played.study.digest, name, BOARD, place + 1 + skip, head, "", False, body)
    return entry.signed(played.made.keys[name]).encode()


def after(played: Played, *entries: bytes) -> MemoryBoard:
    board = MemoryBoard()
    board.entries = [*played.board.entries, *entries]
    return board


@pytest.mark.parametrize("which", ["public", "honest"])
def test_one_member_cannot_make_a_right_study_fail(which: str, public: Played, honest: Played) -> None:
    """After the end it signs what it likes: what is refused is listed, and lies are found beside the result."""
    played = {"public": public, "honest": honest}[which]
    round_ = examine(played.study, played.samples, played.board).round
    assert round_ is not None
    other = Confirmation(round_.digest, 3, bytes(32)).encode()
    again = frame(Kind.RESULT, played.study.digest, b"another")
    spoils: dict[bytes, set[str]] = {
        signed(played, "holder 3", frame(Kind.PARTIAL_DECRYPTION, round_.digest, b"abc")): set(),
        signed(played, "holder 3", frame(Kind.PARTIAL_DECRYPTION, bytes(32), b"abc")): set(),
        signed(played, "holder 3", frame(Kind.CONFIRMATION, round_.digest, b"abc")): set(),
        signed(played, "holder 3", other): {"holder 3"},
        signed(played, "holder 3", other, forked=True): {"holder 3"},
        signed(played, "party 4", other): set(),
        signed(played, "party 4", frame(Kind.BALLOT, round_.digest, b"abc")): set(),
        signed(played, "party 4", frame(Kind.CLOSE, round_.digest)): set(),
        signed(played, "party 4", again): set(),
        signed(played, "party 4", b"no message"): set(),
        signed(played, "party 4", b"x", skip=1): {"party 4"},
        signed(played, "party 4", b"x", skip=2**62): {"party 4"},
        signed(played, "party 4", b"x", skip=-1): {"party 4"},
        signed(played, "curator", frame(Kind.CLOSE, round_.digest)): set(),
    }
    if which == "public":  # otherwise each result costs epsilon again
        spoils[signed(played, "curator", again)] = {"curator"}
    for entry, culprits in spoils.items():
        board = after(played, entry)
        assert found_of(played, board) == (set(), culprits)
        evidence = examine(played.study, played.samples, board)
        verdicts = {check.what: check.verdict for check in evidence.checks}
        assert verdicts[AGREED] == "holds"
        assert verdicts[FOLLOWS] == ("holds" if which == "public" else "not checked")
        text = as_text(played.study, evidence.checks)
        assert ("MISCONDUCT" in text.splitlines()[1]) == bool(culprits)
        assert all(name in text for name in culprits)


def test_what_invalidates_a_result_is_no_mere_misconduct(public: Played) -> None:
    """The curator's word is part of the result, and at most t - 1 holders lie: if t do, the board may have forked."""
    fails = {LOG}
    for how in ({"skip": 1}, {"skip": -1}, {"forked": True}):

        def all_of(*names: str, how: dict[str, Any] = how) -> set[str]:
            return found_of(public, after(public, *(signed(public, name, b"x", **how) for name in names)))[0]

        assert all_of("curator") == fails
        assert all_of("holder 1") == all_of("holder 1", "party 0", "party 3") == set(), "one identity, and another"
        assert all_of("holder 1", "holder 3") == all_of("party 0", "party 2") == fails, "t identities of holders"
        assert all_of("party 3", "party 4") == set()
    board = MemoryBoard()  # a ballot that others have counted is not shown here
    ballot = bodies(public, Kind.BALLOT)[0]
    board.entries = [data for data in public.board.entries if SignedEntry.decode(data).body != ballot[1]]
    assert LOG in found_of(public, board)[0]
    digest = session_of(bodies(public, Kind.CONFIRMATION)[0][1])
    others = [(f"holder {n}", Confirmation(digest, n, bytes(32)).encode()) for n in (1, 2, 3)]
    assert found_of(public, before(public, None, *others[:1])) == (set(), {"holder 1"})
    lies = "what holders have signed about the sum"
    assert found_of(public, before(public, None, *others[:2])) == ({lies}, set()), "t may have opened it"
    result = bodies(public, Kind.RESULT)[0]
    assert "the result" in found_of(public, before(public, Kind.CONFIRMATION, others[0], result))[0]


def test_where_few_holders_confirm_every_contradiction_counts(play: Callable[..., Played]) -> None:
    """A board that keeps members apart could have two sums opened, so nobody's other log is a private affair."""
    played = play(**of("statistic", confirmations=2))
    assert found_of(played, played.board) == (set(), set())
    assert found_of(played, after(played, signed(played, "party 4", b"x", forked=True))) == ({LOG}, set())


def test_lying_holders_are_named(public: Played) -> None:
    """What others than holders confirm or open is passed over, and what holders say after it counts."""
    parts, confirmations = bodies(public, Kind.PARTIAL_DECRYPTION), bodies(public, Kind.CONFIRMATION)
    (one, first), (two, second) = parts[:2]
    board = before(public, Kind.PARTIAL_DECRYPTION, (two, first), (one, first), ("party 4", b"x"), ("holder 3", second))
    assert verdicts_of(public, board)[PARTS] == "not checked"
    board = before(public, Kind.PARTIAL_DECRYPTION, ("party 4", first), ("holder 3", first), *parts[:2])
    assert verdicts_of(public, board)[PARTS] == "holds"
    who, confirmation = confirmations[0]
    liar = "holder 3" if who != "holder 3" else "holder 2"
    other = frame(Kind.CONFIRMATION, session_of(confirmation), bytes(32), bytes([int(liar[-1])]))
    board = before(public, Kind.CONFIRMATION, (liar, other), ("party 4", other), (who, confirmation))
    assert found_of(public, board) == (set(), {liar})
    assert verdicts_of(public, board)[CONFIRMED] == "not checked"
    board = before(public, Kind.CONFIRMATION, ("party 4", confirmation), *confirmations)
    assert verdicts_of(public, board)[CONFIRMED] == "holds"
    product = examine(public.study, public.samples, public.board).product
    assert product is not None
    board = before(public, Kind.PARTIAL_DECRYPTION, (one, first.replace(product.digest, bytes(32))))
    assert found_of(public, board) == (set(), {one})


def test_a_second_result_fails(public: Played, honest: Played) -> None:
    """Two releases of one exact sum cost epsilon twice; the same bytes again are no second release."""
    for played in (public, honest):
        ((author, first),) = bodies(played, Kind.RESULT)
        other = first + b" "
        verdict = "misconduct" if played is public else "fails"  # it follows from the sum, or has noise of its own
        for later, failing in (((author, first),), 0), (((author, other),), 1), (((author, other), (author, first)), 1):
            checks = examine(played.study, played.samples, before(played, None, *later)).checks
            assert [check.verdict for check in checks].count(verdict) == failing
            assert [check.verdict for check in checks if "only one" in check.what] == [verdict] * failing


def test_every_bit_of_a_result_is_compared(public: Played) -> None:
    """The neighbouring floating-point number of any coefficient or intercept is not what follows from the sum."""
    session, content = public.study.digest, public.agents["curator"].result.content
    model = msgspec.json.decode(content, type=Model)

    def verdict(**changes: Any) -> str:
        result = frame(Kind.RESULT, session, written_model(msgspec.structs.replace(model, **changes)))
        return verdicts_of(public, before(public, Kind.RESULT, ("curator", result)))[FOLLOWS]

    assert verdict() == "holds"
    for row, coefficients in enumerate(model.coefficients):
        rows = list(model.coefficients)
        for place, value in enumerate(coefficients):
            rows[row] = (*coefficients[:place], math.nextafter(value, math.inf), *coefficients[place + 1 :])
            assert verdict(coefficients=tuple(rows)) == "fails"
    for place, value in enumerate(model.intercepts):
        changed_one = (*model.intercepts[:place], math.nextafter(value, -math.inf), *model.intercepts[place + 1 :])
        assert verdict(intercepts=changed_one) == "fails"


@pytest.mark.parametrize("unit_of_column", sampled([1e-6, 1.0, 1e-12, 1e-15], 2))
@pytest.mark.parametrize("protocol", ["pathak", "statistic"])
def test_a_column_in_a_small_unit_hides_no_change(tmp_path: Path, protocol: str, unit_of_column: float) -> None:
    """Unscaled, its coefficient is huge. Compared with the norm of all, any intercept would be within a tolerance."""
    rows = np.random.default_rng(2).normal([40, 70, 5], size=(SAMPLES, 3))
    rows[:, 2] *= unit_of_column
    pd.DataFrame(rows, columns=["age", "weight", "hormone"]).to_csv(tmp_path / "public.csv", index=False)
    samples = PublicSamples.read(tmp_path / "public.csv", "class")
    fields = of(protocol) | {"samples": SAMPLES, "public_table": samples.digest, "features": samples.features}
    if protocol == "statistic":
        transform = plan_statistic(
            samples.auxiliary.samples, 3, PARTIES, epsilon=0.5, mechanism="discrete-laplace", source="votes", joint=True
        ).transform
        fields["parameters"] = fields["parameters"] | {"coordinates": encode_coordinates(transform)}
    made = trial(parties=PARTIES, **({"epsilon": 0.5} | fields))
    for room in (0.0, 1e-13, 1e-10):

        def release(opened: Any, room: float = room) -> bytes:
            content = make_release(made.study, samples, opened)
            model = msgspec.json.decode(content, type=Model)
            length = float(np.linalg.norm([*np.ravel(model.coefficients), *model.intercepts]))
            moved = (model.intercepts[0] + room * length, *model.intercepts[1:])
            return changed(content, intercepts=moved)

        played = Played(made, samples)
        played.play(release, {})
        assert played.checks(curator=False)[FOLLOWS].verdict == ("fails" if room else "holds")


def test_every_sender_of_refused_entries_is_named(public: Played) -> None:
    """With what was wrong with its ballots, and how many there were of each kind."""
    ballots = dict(bodies(public, Kind.BALLOT))
    junk = frame(Kind.BALLOT, session_of(ballots["party 0"]), b"x")
    wrong = [("party 3", ballots["party 3"]), ("party 1", junk), ("party 1", junk), ("party 0", ballots["party 0"])]
    board = before(public, Kind.BALLOT, ("party 3", ballots["party 3"]), *wrong, ("party 0", ballots["party 0"]))
    evidence = examine(public.study, public.samples, board)
    (found,) = [check.found for check in evidence.checks if check.what == BALLOTS]
    for part in ("1 DuplicateBallotError", "of party 0", "2 MessageError", "of party 1", "of party 3"):
        assert part in found
    assert evidence.counted == (0, 3)
    assert evidence.counted_sums == {0: 1, 3: 1}


def test_entries_of_strangers_are_counted_and_change_nothing(public: Played) -> None:
    entry = public.board.entries[3]
    strange = [b"noise", entry, bytes(1000), entry[:-1] + bytes([entry[-1] ^ 1])]
    log, *others = examine(public.study, public.samples, after(public, *strange)).checks
    assert log.verdict == "holds"
    assert "1 ForgedSignatureError" in log.found
    assert "2 MessageError" in log.found
    assert others == examine(public.study, public.samples, public.board).checks[1:]


def wrapped(data: bytes) -> bytes:
    return frame(Kind.FAILED_CEREMONY, bytes(32), data) + b"x"


@pytest.mark.parametrize(
    ("how", "wrap"),
    [
        ({}, bytes),
        ({"receiver": "curator"}, bytes),
        ({"receiver": "party 3"}, wrapped),
        ({"receiver": "curator", "secret": True}, bytes),  # says that it is sealed
        ({"session": bytes(32)}, wrapped),
    ],
)
def test_holders_that_put_an_exact_sum_where_all_can_read_it_are_named(
    honest: Played, play: Callable[..., Played], how: dict[str, Any], wrap: Callable[[bytes], bytes]
) -> None:
    """As many as open it give it to everybody, however they post it. A sum with noise harms nobody."""
    curator = honest.stores["curator"]
    parts = bodies_for_curator(honest)
    for count in (0, 1, 2):
        board = before(honest, None, *((name, wrap(data)) for name, data in parts[:count]), **how)
        holders = sorted(name for name, _ in parts[:count])
        found_of(honest, board)
        for store in (None, curator):
            evidence = examine(honest.study, honest.samples, board, store)
            exposed = [check for check in evidence.checks if check.what.startswith("the exact sum")]
            assert [check.verdict for check in exposed] == ["misconduct", "fails"][count - 1 : count] * (count > 0)
            assert [check.culprits for check in exposed] == [tuple(holders)] * (count > 0)
            assert evidence.exposed == tuple(int(name.removeprefix("holder ")) for name in holders)
            assert evidence.openers == (() if store is None else (1, 2)), "no reader uses what is not sealed"
    noisy = play(**of("statistic, gaussian"))
    evidence = examine(noisy.study, noisy.samples, noisy.board, noisy.stores["curator"])
    parts = [(entry.sender, entry.data) for entry in evidence.of(Kind.PARTIAL_DECRYPTION)]
    assert len(parts) >= 2
    assert examine(noisy.study, noisy.samples, before(noisy, None, *parts, **how)).exposed == ()


@pytest.mark.parametrize("what", ["honest", "public"])
@pytest.mark.parametrize("receiver", [BOARD, "curator"])
@pytest.mark.parametrize("kind", [Kind.CLOSE, None])
def test_holders_that_open_one_ballot_are_named(
    request: pytest.FixtureRequest, what: str, receiver: str, kind: Kind | None
) -> None:
    """A product that is none of the study, for everybody to read: as many as open it fail the study."""
    played: Played = request.getfixturevalue(what)
    parts = bodies_for_curator(played)[:2]
    product = examine(played.study, played.samples, played.board).product
    assert product is not None
    one = [(name, data.replace(product.digest, bytes(32))) for name, data in parts]
    assert found_of(played, before(played, kind, one[0], receiver=receiver))[1] == {one[0][0]}
    fails, _ = found_of(played, before(played, kind, *one, receiver=receiver))
    assert "what holders have signed about the sum" in fails


@pytest.mark.parametrize("how", [{}, {"receiver": "party 3"}, {"receiver": "party 3", "secret": True}])
def test_a_second_result_that_anybody_can_read_is_found(honest: Played, how: dict[str, Any]) -> None:
    """Whomever the curator sends it to: it adds the noise, and a second draw costs epsilon again."""
    content = frame(Kind.RESULT, honest.study.digest, b"another draw")
    assert found_of(honest, before(honest, None, ("curator", content), **how)) == ({"the result"}, set())


def bodies_for_curator(played: Played) -> list[tuple[str, bytes]]:
    """The partial decryptions that holders have sealed to the curator."""
    evidence = examine(played.study, played.samples, played.board, played.stores["curator"])
    return [(entry.sender, entry.data) for entry in evidence.of(Kind.PARTIAL_DECRYPTION)]


def test_a_curator_uses_no_partial_decryption_in_clear(play: Callable[..., Played]) -> None:
    """It opens the sum with those of others; with too few others there is no result."""
    clear = lambda post, seen: [replace(post, secret=not is_of_kind(post, Kind.PARTIAL_DECRYPTION))]  # noqa: E731
    played = play(replacements=dict(tampering(clear, "holder 1")))
    assert played.agents["curator"].result is not None
    assert [type(each.error) for each in played.agents["curator"].rejected] == [UnsealedMessageError]
    assert found_of(played, played.board) == (set(), {"holder 1"})
    with pytest.raises(errors.ThresholdError):
        play(replacements=dict(tampering(clear, "holder 1", "holder 2")))


def content_of(played: Played) -> bytes:
    """The model file that the curator published."""
    content: bytes = played.agents["curator"].result.content
    return content


def test_an_evaluation_of_a_number_is_checked(play: Callable[..., Played], public_file: Path) -> None:
    samples = PublicSamples.read(public_file, "class", predicts_number=True)
    fields: dict[str, Any] = {"samples": samples, **of("evaluation, number")}
    played = play(**fields)
    assert {check.verdict for check in played.checks(curator=False).values()} == {"holds", "not checked"}
    assert played.checks(curator=False)[FOLLOWS].verdict == "holds"

    found = played.checks(curator=False)["the result"].found
    assert "epsilon 0.5" in found
    assert "epsilon 2.5, delta 1e-06 of one record (2 releases)" in found
    assert "epsilon 2.5, delta 1e-06" in card(played.study, read_release(played.study, samples, content_of(played)))
    lying = play(replacements={"holder 1": Shaped}, **fields)
    assert found_of(lying, lying.board) == (set(), {"holder 1"})


def test_an_exact_sum_is_checked_with_the_curators_store_only(honest: Played) -> None:
    closed, store = before(honest, Kind.CONFIRMATION), honest.stores["curator"]
    for board, opened in ((honest.board, "holds"), (closed, "not checked")):
        assert verdicts_of(honest, board, store)[PARTS] == opened
        assert verdicts_of(honest, board)[PARTS] == "not checked"
    for content in (None, b""):
        other = Store()
        if content is not None:
            other.put("seat", b"sealing", content)
        with pytest.raises(StudyError):
            verdicts_of(honest, store=other)


def test_checks_at_every_step_of_a_descent(play: Callable[..., Played]) -> None:
    """As many holders as open a sum may publish another one alike."""
    played = play(**of("psgd"))
    same = "the published sum is the opened one"
    whole = verdicts_of(played)
    assert set(whole.values()) == {"holds"}
    assert whole.keys() >= {STEPS, *(f"{what}, in each of 2 steps" for what in (BALLOTS, CONFIRMED, PARTS, same))}
    board = before(played, Kind.ANNOUNCEMENT, bodies(played, Kind.RESULT)[0])
    found = verdicts_of(played, board)
    assert (found[STEPS], found[RESULT]) == ("not checked", "fails")
    honest = bodies(played, Kind.PUBLISHED_SUM)[: played.study.threshold]
    lies = [(name, body[:-1] + bytes([body[-1] ^ 1])) for name, body in honest]
    for published, verdict in ((honest, "holds"), (lies, "fails")):
        found = verdicts_of(played, before(played, Kind.PUBLISHED_SUM, *published))
        assert found[f"{same}, in each of 1 steps"] == verdict


def steps_of(played: Played, kind: Kind) -> tuple[list[tuple[str, bytes]], list[tuple[str, bytes]]]:
    """The messages of a kind in a descent's first step, and in its second."""
    both = bodies(played, kind)
    assert len(both) % 2 == 0
    return both[: len(both) // 2], both[len(both) // 2 :]


@pytest.mark.parametrize("step", [0, 1])
def test_the_worst_verdict_of_all_steps_is_shown(play: Callable[..., Played], step: int) -> None:
    """A lie in one step of a descent is not hidden by what holds in it, or in another step."""
    played = play(**of("psgd"))
    parts = steps_of(played, Kind.PARTIAL_DECRYPTION)
    (name, data), *others = parts[step]
    lie = data[:80] + bytes(10) + data[90:]
    sums = steps_of(played, Kind.PUBLISHED_SUM)[step]
    board = before(played, Kind.PARTIAL_DECRYPTION, (name, lie), *others, *sums, count=len(parts[0]) * step)
    checks = {check.what: check for check in examine(played.study, played.samples, board).checks}
    assert checks[f"{PARTS}, in each of {1 + step} steps"].verdict == "not checked"
    assert found_of(played, board) == (set(), {name})


def test_a_sum_that_nobody_opens_makes_no_result(play: Callable[..., Played]) -> None:
    """Holders publish the last sum of a descent alike, but not how they have opened it."""
    played = play(**of("psgd"))
    first, _ = steps_of(played, Kind.PARTIAL_DECRYPTION)
    _, sums = steps_of(played, Kind.PUBLISHED_SUM)
    result = bodies(played, Kind.RESULT)[0]
    board = before(played, Kind.PARTIAL_DECRYPTION, *sums, result, count=len(first))
    found = verdicts_of(played, board)
    assert (found[STEPS], found[f"{PARTS}, in each of 2 steps"], found[RESULT]) == ("holds", "not checked", "fails")
    assert examine(played.study, played.samples, board).result is None


def test_checks_of_a_pathak_study(play: Callable[..., Played]) -> None:
    played = play(**of("pathak"))
    whole = {LOG: "holds", WHO: "holds", SHARES: "holds", RESULT: "holds", FOLLOWS: "holds"}
    assert verdicts_of(played) == whole
    shares, result = bodies(played, Kind.PUBLISHED_SHARE), bodies(played, Kind.RESULT)[0]
    board = before(played, Kind.PUBLISHED_SHARE, result, count=len(shares) - 1)
    assert verdicts_of(played, board) == {LOG: "holds", WHO: "holds", SHARES: "not checked", RESULT: "fails"}
    board = before(played, Kind.PUBLISHED_SHARE, shares[0], shares[-1], result, count=len(shares) - 1)
    assert verdicts_of(played, board) == whole


def test_words_of_checks_are_never_broken(public: Played) -> None:
    """Heads and fingerprints are copied whole; a longer word than a line has a line of its own."""
    words = ["hy-phen-ated"] * 3 + ["head" * 8, "hy-phen-ated"]
    study = replace(public.study, title=" ".join(words))
    _, *lines = as_text(study, [StudyCheck(" ".join(words), "holds", " ".join(words))], width=30).splitlines()
    assert " ".join(lines).replace(":", "").split().count(words[3]) == 3
    assert all(len(line) <= 30 or len(line.split()) == 1 for line in lines)


@pytest.mark.parametrize("what", ["honest", "public", "gaussian"])
def test_every_output_of_a_study_states_the_same_delta(
    what: str, honest: Played, public: Played, play: Callable[..., Played]
) -> None:
    """What is agreed to, what the model and its card say, what verify finds, and what its page shows."""
    played = {"honest": honest, "public": public}.get(what) or play(**of("statistic, gaussian"))
    study, delta = played.study, stated_delta(1e-6 if what == "gaussian" else 0.0)
    pattern = re.compile(r"delta ([0-9.]+(?:e-?[0-9]+)?)")
    entry = bodies(played, Kind.RESULT)[0][1]
    model = read_release(study, played.samples, Reader(entry, Kind.RESULT, study.digest).rest())
    assert model.release.delta == delta
    page = Follower(study, lambda: played.board)
    page.step()
    assert page.state()["terms"]["delta"] == delta
    checks = examine(study, played.samples, played.board).checks
    texts = (describe_study(study), card(study, model), as_text(study, checks))
    for text in texts:
        assert pattern.findall(text) == [f"{delta:.3g}"]
