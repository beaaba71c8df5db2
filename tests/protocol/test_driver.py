"""`Driver`: a small protocol of two parties and a curator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from psephos.protocol.driver import Driver, replace_roles
from psephos.protocol.errors import InvalidParameter, MessageError, PartyVanishedError, UnexpectedMessageError
from psephos.protocol.roles import BOARD, Entry, Machine, Post, Role, Step, gathers, takes
from psephos.protocol.transcript import Transcript
from psephos.protocol.wire import Kind, Reader, frame

SESSION = b"s" * 32
PARTIES = ("party 0", "party 1")


@dataclass(frozen=True)
class AwaitingAnnouncement:
    """The announcement has not come."""


@dataclass(frozen=True)
class Answered:
    """The announcement is known."""

    number: int


@dataclass(frozen=True)
class Collecting:
    """The ballots have not all come."""


@dataclass(frozen=True)
class Done:
    """The sum of the ballots."""

    total: int


class Party(Machine):
    """Adds its number to the announced one."""

    reads = frozenset({Kind.ANNOUNCEMENT})

    def __init__(self, number: int) -> None:
        self.number, self.name = number, f"party {number}"

    def _start(self) -> Step:
        return Step(AwaitingAnnouncement())

    @takes(AwaitingAnnouncement, Kind.ANNOUNCEMENT)
    def answer(self, state: AwaitingAnnouncement, entry: Entry) -> Step:
        announced = Reader(entry.data, Kind.ANNOUNCEMENT, SESSION, length=1).integer(1)
        post = Post("curator", frame(Kind.BALLOT, SESSION, bytes([announced + self.number])), "sum")
        return Step(Answered(announced), (post,))

    def _result(self, state: AwaitingAnnouncement | Answered) -> int | None:
        return state.number if isinstance(state, Answered) else None


class Curator(Machine):
    """Announces 7 and adds up the ballots."""

    name = "curator"

    def _start(self) -> Step:
        return Step(Collecting(), (Post(BOARD, frame(Kind.ANNOUNCEMENT, SESSION, b"\7"), "sum"),))

    @gathers(Collecting, Kind.BALLOT, lambda self, state: PARTIES)
    def add(self, state: Collecting, ballots: Mapping[str, bytes]) -> Step:
        return Step(Done(sum(Reader(data, Kind.BALLOT, SESSION).integer(1) for data in ballots.values())))

    @takes(Done, Kind.TALLY_REQUEST)
    def ask_again(self, state: Done, entry: Entry) -> Step:
        return Step(Done(state.total + 100))

    def _result(self, state: Collecting | Done) -> int | None:
        return state.total if isinstance(state, Done) else None


class ScriptedSender(Role):
    """Sends given messages, one at each call of `on_idle`, and ignores all others."""

    def __init__(self, name: str, *posts: Post) -> None:
        self.name, self.posts = name, posts

    def start(self) -> Step:
        return Step(self.posts)

    def receive(self, state: tuple[Post, ...], entries: object) -> Step:
        return Step(state)

    def on_idle(self, state: tuple[Post, ...]) -> Step | None:
        return Step(state[1:], state[:1]) if state else None


def ballot(value: int, session: bytes = SESSION, kind: Kind = Kind.BALLOT) -> Post:
    return Post("curator", frame(kind, session, bytes([value])), "sum")


def roles() -> list[Role]:
    return [Curator(), Party(0), Party(1)]


def test_a_run_ends_with_the_results_of_all_roles() -> None:
    transcript = Transcript()
    driver = Driver(roles(), transcript=transcript)
    assert driver.run() == {"curator": 15, "party 0": 7, "party 1": 7}
    assert [(m.sender, m.receiver, m.kind) for m in transcript.messages] == [
        ("curator", BOARD, "announcement"),
        ("party 0", "curator", "ballot"),
        ("party 1", "curator", "ballot"),
    ]
    assert (driver.phases["sum"].messages, driver.phases["sum"].bytes) == (3, 3 * 42)
    spent = sum(driver.clock.values())
    assert spent == pytest.approx(sum(phase.seconds for phase in driver.phases.values()))
    assert 0 < min(*driver.clock.values()) < spent


def test_a_missing_party_is_named() -> None:
    with pytest.raises(PartyVanishedError):
        Driver([Curator(), Party(0)]).run()


def test_the_first_missing_message_is_named() -> None:
    """Party 1 waits for an announcement only because the curator waits for party 0's ballot."""

    class LateCurator(Curator):
        @gathers(Collecting, Kind.BALLOT, lambda self, state: PARTIES[:1])
        def add(self, state: Collecting, ballots: Mapping[str, bytes]) -> Step:
            return Step(Done(0))

        def _start(self) -> Step:
            return Step(Collecting())

    class WaitingParty(Party):
        @gathers(AwaitingAnnouncement, Kind.ANNOUNCEMENT, lambda self, state: ("curator",))
        def answer(self, state: AwaitingAnnouncement, messages: Mapping[str, bytes]) -> Step:
            return Step(Answered(0))

    with pytest.raises(PartyVanishedError):
        Driver([WaitingParty(1), LateCurator()]).run()


@pytest.mark.parametrize("posts", [(ballot(1), ballot(2)), (ballot(1, kind=Kind.PARTIAL_DECRYPTION),)])
def test_unexpected_messages_are_refused(posts: tuple[Post, ...]) -> None:
    with pytest.raises(UnexpectedMessageError):
        Driver(replace_roles([Curator(), Party(1)], {"party 1": lambda role: ScriptedSender(role.name, *posts)})).run()


def test_refused_messages_change_no_result_and_are_collected() -> None:
    sender = ScriptedSender("party 9", ballot(50))
    driver = Driver([*roles(), sender], strict=False)
    assert driver.run()["curator"] == 15
    ((who, refusal),) = driver.refused
    assert who == "curator"
    assert isinstance(refusal.error, UnexpectedMessageError)


def test_a_message_for_a_later_state_is_kept() -> None:
    early = Entry(1, "party 9", "curator", frame(Kind.TALLY_REQUEST, SESSION, b""))
    curator = Curator()
    step = curator.receive(curator.start().state, [early])
    assert curator.result(step.state) is None
    ballots = [Entry(2 + n, f"party {n}", "curator", ballot(n).data) for n in range(2)]
    assert curator.result(curator.receive(step.state, ballots).state) == 101
    twice = curator.receive(step.state, [early])
    assert "party 9 came twice" in str(twice.refused[0].error)
    long = Entry(2, "party 8", "curator", frame(Kind.TALLY_REQUEST, SESSION, bytes(1 << 16)))
    too_long = curator.receive(step.state, [long])
    assert "party 8" in str(too_long.refused[0].error)
    assert twice.state == step.state


def test_names_are_unique_and_only_existing_roles_can_be_replaced() -> None:
    with pytest.raises(InvalidParameter):
        replace_roles(roles(), {"party 7": lambda role: role})
    with pytest.raises(InvalidParameter):
        Driver([Party(0), Party(0)])


@dataclass(frozen=True)
class Adding:
    """The sum of the ballots so far."""

    total: int = 0


class Adder(Machine):
    """Takes ballots in batches."""

    name, reads = "adder", frozenset({Kind.BALLOT})

    def _start(self) -> Step:
        return Step(Adding())

    @takes(Adding, Kind.BALLOT, batch=True)
    def add(self, state: Adding, entries: tuple[Entry, ...]) -> Step:
        return Step(Adding(state.total + sum(Reader(e.data, Kind.BALLOT, SESSION).integer(1) for e in entries)))

    def _result(self, state: Adding) -> int:
        return state.total


def test_a_malformed_message_affects_no_other() -> None:
    """Posted publicly between two ballots, it is refused, and both ballots count."""
    posts = (replace(ballot(5), receiver=BOARD), Post(BOARD, b"no message"), replace(ballot(6), receiver=BOARD))
    senders = [ScriptedSender(f"party {number}", post) for number, post in enumerate(posts)]
    driver = Driver([Adder(), *senders], strict=False)
    assert driver.run() == {"adder": 11}
    assert [(who, type(refusal.error)) for who, refusal in driver.refused] == [("adder", MessageError)]
    with pytest.raises(MessageError):
        Driver([Adder(), *senders]).run()
    adder, entries = Adder(), [Entry(n, "x", BOARD, post.data) for n, post in enumerate(posts)]
    assert adder.result(adder.receive(adder.start().state, entries).state) == 11
