"""What `psephos verify` finds: an honest study holds, and every lie that can be found is found."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from psephos.cli.main import build
from psephos.curator.tally import OpenedSum
from psephos.model import Model, written_model
from psephos.protocol.agent import Agent
from psephos.protocol.board import MemoryBoard
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.board.file import BoardFile
from psephos.protocol.errors import MessageError
from psephos.protocol.roles import BOARD, Entry, Post, Role, Step
from psephos.protocol.storage.store import Store
from psephos.protocol.study.stages import encode_key
from psephos.protocol.study.study import Study
from psephos.protocol.wire import Kind, frame, session_of
from psephos.study.release import released
from psephos.study.roles import Public, curator_role, holder_role, party_role
from psephos.study.samples import PublicSamples
from psephos.study.verify import Check, verify
from psephos.testing.adversary import Adversary
from psephos.testing.studies import Trial, trial

PARTIES, SAMPLES = 5, 12


class FixedVotes:
    def __init__(self, votes: Any) -> None:
        self._votes = votes

    def predict_votes(self, X: Any) -> Any:
        return self._votes


Release = Callable[[OpenedSum], bytes]
Puppets = dict[str, Callable[[Role], Role]]


@dataclass
class Played:
    """A study that was played to its end."""

    made: Trial
    samples: PublicSamples
    board: MemoryBoard = field(default_factory=MemoryBoard)
    stores: dict[str, Store] = field(default_factory=dict)
    agents: dict[str, Agent] = field(default_factory=dict)

    @property
    def study(self) -> Study:
        return self.made.study

    def play(self, release: Release, puppets: Puppets) -> None:
        public = Public(self.study, self.samples.auxiliary)
        votes = np.random.default_rng(7).integers(0, 3, size=(PARTIES, SAMPLES))
        for name, key in self.made.keys.items():
            store = self.stores[name] = Store()
            kind, _, number = name.partition(" ")
            if kind == "curator":
                role: Role = curator_role(public, release, store)
            elif kind == "holder":
                role = holder_role(public, int(number), store)
            else:
                role = party_role(public, int(number), key, FixedVotes(votes[int(number)]), store)
            role = puppets[name](role) if name in puppets else role
            self.agents[name] = Agent(role, self.study.members, key, self.board, store)
        for _ in range(3):
            while any([agent.step() for agent in self.agents.values()]):  # noqa: C419 - all of them take a turn
                pass
            self.agents["curator"].hush()

    def checks(self, *, curator: bool = True) -> dict[str, Check]:
        found = verify(self.study, self.samples, self.board, self.stores["curator"] if curator else None)
        assert all(type(said) is str and said for check in found for said in (check.what, check.found))
        assert {check.verdict for check in found} <= {"holds", "fails", "not checked"}
        return {check.what.split(":")[0]: check for check in found}

    def failing(self, **how: bool) -> set[str]:
        return {what for what, check in self.checks(**how).items() if check.verdict == "fails"}


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> PublicSamples:
    path = tmp_path_factory.mktemp("public") / "public.csv"
    generator = np.random.default_rng(2)
    pd.DataFrame(generator.normal(size=(SAMPLES, 3)), columns=list("xyz")).to_csv(path, index=False)
    return PublicSamples.read(path, "class")


@pytest.fixture(scope="module")
def play(samples: PublicSamples) -> Callable[..., Played]:
    def started(
        release: Callable[[Study], Release] | None = None, puppets: Puppets | None = None, **fields: Any
    ) -> Played:
        settings: dict[str, Any] = {"method": "statistic", "epsilon": 0.5, "samples": SAMPLES} | fields
        public: dict[str, Any] = {"auxiliary": samples.auxiliary.digest, "features": samples.features}
        made = trial(parties=PARTIES, **settings, **public)
        honest: Release = lambda opened: released(made.study, samples, opened)  # noqa: E731
        played = Played(made, samples)
        played.play(honest if release is None else release(made.study), puppets or {})
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
    "the result follows from the counts, but for its noise",
}


def test_an_honest_study_holds(honest: Played) -> None:
    """The last check fails an honest curator once in 150 runs; the seeds of this test are the system's."""
    found = honest.checks()
    holding = {what for what, check in found.items() if check.verdict == "holds"}
    assert holding >= ALL - {"the result follows from the counts, but for its noise"}
    never = {what for what, check in found.items() if check.verdict == "not checked"}
    assert never == {
        "who holds the identities",
        "that nobody has p and q",
        "what the parties trained on",
        "who else was shown the board",
    }


def test_an_outsider_checks_all_but_what_is_sealed_and_says_so(honest: Played) -> None:
    found = honest.checks(curator=False)
    assert not {what for what, check in found.items() if check.verdict == "fails"}
    assert "sealed to the curator" in found["partial decryptions"].found
    assert found["the result follows from the sum"].verdict == "not checked"
    for what in ALL - {"partial decryptions", "the result follows from the counts, but for its noise"}:
        assert found[what].verdict == "holds", what


def changed(content: bytes, **fields: Any) -> bytes:
    return written_model(msgspec.structs.replace(msgspec.json.decode(content, type=Model), **fields))


def test_a_release_without_its_noise(play: Callable[..., Played], samples: PublicSamples) -> None:
    """As from a curator that takes a hundred times the epsilon and says that it did not."""

    def noiseless(study: Study) -> Release:
        def release(opened: OpenedSum) -> bytes:
            model = msgspec.json.decode(released(replace(study, epsilon=64.0), samples, opened), type=Model)
            honest = msgspec.json.decode(released(study, samples, opened), type=Model)
            return written_model(msgspec.structs.replace(model, release=honest.release))

        return release

    assert play(noiseless, method="soft", parameters={"lam": 0.1}).failing() == {
        "the result follows from the counts, but for its noise"
    }


def test_a_release_of_something_else(play: Callable[..., Played], samples: PublicSamples) -> None:
    def invented(study: Study) -> Release:
        def release(opened: OpenedSum) -> bytes:
            content = released(study, samples, opened)
            model = msgspec.json.decode(content, type=Model)
            return changed(content, coefficients=tuple(tuple(1e3 * c for c in row) for row in model.coefficients))

        return release

    assert play(invented).failing() == {"the result follows from the counts, but for its noise"}


@pytest.mark.parametrize(
    "fields", [{"method": "vote"}, {"classes": ("a", "b", "d")}, {"parties": 4}, {"parties": 99}], ids=str
)
def test_a_result_that_is_not_what_was_agreed_on(
    play: Callable[..., Played], samples: PublicSamples, fields: dict[str, Any]
) -> None:
    played = play(lambda study: lambda opened: changed(released(study, samples, opened), **fields))
    assert "the result" in played.failing()


class Shaped(Role):
    """Holder 1, whose partial decryption is another unit than the right one."""

    def __init__(self, role: Role) -> None:
        self._role, self.name, self.reads = role, role.name, role.reads

    def start(self) -> Step:
        return self._role.start()

    def receive(self, state: Any, entries: Any) -> Step:
        step = self._role.receive(state, entries)
        return replace(step, posts=tuple(map(self._lie, step.posts)))

    def _lie(self, post: Any) -> Any:
        if not Entry(0, "", "", post.data).is_a(Kind.PARTIAL_DECRYPTION):
            return post
        data = bytearray(post.data)
        data[80:90] = bytes(10)  # within the first value
        return replace(post, data=bytes(data))

    def listens(self, state: Any) -> bool:
        return self._role.listens(state)

    def result(self, state: Any) -> Any:
        return self._role.result(state)


def test_a_wrong_partial_decryption_is_named_and_the_study_ends_well(play: Callable[..., Played]) -> None:
    played = play(puppets={"holder 1": Shaped})
    found = verify(played.study, played.samples, played.board, played.stores["curator"])
    lies = [check for check in found if check.verdict == "fails"]
    assert len(lies) == 1
    assert "holder 1" in lies[0].found
    assert any(check.what.startswith("partial decryptions") and check.verdict == "holds" for check in found)


def retold(played: Played, before: Kind | None, *said: tuple[str, bytes]) -> dict[str, Check]:
    """What an outsider finds where the log goes on otherwise, before its first message of a kind or after its end."""
    board = MemoryBoard()
    for data in played.board.entries:
        if before is not None and Entry(0, "", "", SignedEntry.decode(data).body).is_a(before):
            break
        board.post(data)
    for name, body in said:
        seat = played.made.seat(name)
        for number, data in enumerate(board.entries, 1):
            seat.take(number, data)
            seat.place += SignedEntry.decode(data).author == name
        board.post(seat.sign(Post(BOARD, body)))
    return {check.what.split(":")[0]: check for check in verify(played.study, played.samples, board)}


@pytest.mark.parametrize(
    ("before", "verdict", "why"),
    [
        (Kind.PUBLIC_KEY, "not checked", "there is none yet"),  # no role takes it there either
        (Kind.CLOSE, "fails", "the vote is open"),
        (Kind.CONFIRMATION, "fails", "confirmed by 0 of at least 3"),
    ],
)
def test_a_result_before_its_time(honest: Played, before: Kind, verdict: str, why: str) -> None:
    """Of the agreed classes, columns, method and price: made up, or of a sum that this board does not show."""
    content = frame(Kind.RESULT, honest.study.digest, honest.agents["curator"].result.content)
    check = retold(honest, before, ("curator", content))["the result"]
    assert check.verdict == verdict
    assert why in check.found


def test_junk_makes_no_check_fail(honest: Played) -> None:
    """A member that likes the result less than the others says what is no message, and what it has none to say of."""
    junk = frame(Kind.PARTIAL_DECRYPTION, honest.study.digest, b"x")
    found = retold(honest, None, ("party 4", b"junk"), ("party 4", junk), ("curator", junk))
    assert not [check for check in found.values() if check.verdict == "fails"]


def test_a_result_of_another_study_is_none_of_this_ones(honest: Played) -> None:
    """Everybody refuses it and takes the next: a check that ended in an error there would never look at that one."""
    content = honest.agents["curator"].result.content
    said = [("curator", frame(Kind.RESULT, session, content)) for session in (bytes(32), honest.study.digest)]
    assert retold(honest, Kind.RESULT, *said)["the result"].verdict == "holds"


def test_holders_that_publish_two_keys_are_told_apart(honest: Played) -> None:
    entries = (SignedEntry.decode(data).body for data in honest.board.entries)
    right = next(body for body in entries if Entry(0, "", "", body).is_a(Kind.PUBLIC_KEY))
    wrong = right[:-1] + bytes([right[-1] ^ 1])
    said = (("holder 3", wrong), ("holder 1", right), ("holder 2", right))
    check = retold(honest, Kind.PUBLIC_KEY, *said)["the key"]
    assert check.verdict == "fails"
    assert "one by holder 1 and holder 2, another by holder 3" in check.found


class Babbling(Adversary):
    """Says to the curator alone, twice, what is no message."""

    def send(self, post: Post, seen: Sequence[Entry]) -> list[Post]:
        return [post, *(Post("curator", bytes([number]) * 40, "", secret=False) for number in range(2))]


def test_what_is_no_message_stops_nobody(play: Callable[..., Played]) -> None:
    """It stands on the board for ever: who could not read past it would never come back."""
    played = play(puppets={"party 4": Babbling})
    assert played.agents["curator"].result is not None
    refused = [told for told in played.agents["curator"].refused if told.author == "party 4"]
    assert [type(told.error) for told in refused] == [MessageError, MessageError]


class Early(Adversary):
    """Holder 3, who knows the key first, publishes it before its last word in the ceremony, and never afterwards."""

    def send(self, post: Post, seen: Sequence[Entry]) -> list[Post]:
        return [] if Entry(0, "", "", post.data).is_a(Kind.PUBLIC_KEY) else [post]

    def _posing(self, state: Any, step: Step) -> Step:
        for place, post in enumerate(step.posts):
            if Entry(0, "", "", post.data).is_a(Kind.TEST_DECRYPTION):
                study: Any = SimpleNamespace(digest=session_of(state.seen[0].data))
                early = replace(post, data=encode_key(study, step.state.state.state.key))
                step, posts = super()._posing(state, step), step.posts
                return replace(step, posts=(*posts[:place], early, *posts[place:]))
        return super()._posing(state, step)


def test_a_key_that_is_published_early_counts_from_one_place_for_everybody(play: Callable[..., Played]) -> None:
    """Or its sender says it again when it likes: holders would count ballots from there on, and everybody else all."""
    played = play(puppets={"holder 3": Early})
    assert played.failing() == set()
    assert "5 ballots count" in played.checks()["ballots"].found


def test_a_board_with_an_entry_changed_taken_out_or_in_another_order(honest: Played) -> None:
    """Whatever is done to the log of an honest study: later entries name heads that it does not have any more."""
    entries = honest.board.entries
    for tampered in (
        [*entries[:9], entries[9][:-1] + bytes([entries[9][-1] ^ 1]), *entries[10:]],
        [*entries[:9], *entries[10:]],
        [*entries[:9], entries[10], entries[9], *entries[11:]],
    ):
        board = MemoryBoard()
        board.entries = tampered
        found = verify(honest.study, honest.samples, board, honest.stores["curator"])
        log = found[0]
        assert "EquivocationError" in log.found
        assert not any(check.what.startswith("the result:") and check.verdict == "holds" for check in found)


def test_what_strangers_post_is_counted_and_changes_nothing(honest: Played) -> None:
    board = MemoryBoard()
    board.entries = [*honest.board.entries, b"noise", honest.board.entries[3], bytes(1000)]
    found = verify(honest.study, honest.samples, board, honest.stores["curator"])
    assert "2 MessageError" in found[0].found
    assert {check.verdict for check in found if check.what.startswith("ballots")} == {"holds"}


def test_the_command(honest: Played, tmp_path: Path) -> None:
    honest.study.write(tmp_path / "study.toml")
    board = BoardFile(tmp_path / "board.sqlite")
    for data in honest.board.entries:
        board.post(data)
    board.close()
    generator = np.random.default_rng(2)
    public = pd.DataFrame(generator.normal(size=(SAMPLES, 3)), columns=list("xyz"))
    public.to_csv(tmp_path / "public.csv", index=False)
    words = ["verify", str(tmp_path / "study.toml"), "--board", str(tmp_path / "board.sqlite")]
    words += ["--public", str(tmp_path / "public.csv")]
    told = json.loads(CliRunner().invoke(build(words), [*words, "--json"], catch_exceptions=False).output)
    assert [check["verdict"] for check in told].count("fails") == 0
    done = CliRunner().invoke(build(words), words, catch_exceptions=False)
    assert done.exit_code == 0
    assert "nothing that was checked fails" in done.output
    assert "a TRIAL" in done.output
