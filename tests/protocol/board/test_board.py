"""A board orders bytes; it cannot pass one log for another, forge an author, or read what is sealed."""

from __future__ import annotations

import gc
import hashlib
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.audit.studies import Trial, trial
from psephos.protocol.agent import Agent, _batches
from psephos.protocol.board import MOST_BYTES, MemoryBoard
from psephos.protocol.board.client import BoardClient, Checked, joined
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.board.history import Head, History, leaf_hash
from psephos.protocol.board.sealing import SealingKey, seal
from psephos.protocol.errors import (
    BoardError,
    EquivocationError,
    ForgedSignatureError,
    MessageError,
    UnexpectedMessageError,
    UnknownPartyError,
    WrongRoundError,
)
from psephos.protocol.roles import BOARD, Entry, Post, Refusal, Role, Step
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import Store
from psephos.protocol.wire import Kind, frame

# -- one log


def tree_hash(leaves: list[bytes]) -> bytes:
    """MTH of RFC 9162, section 2.1.1, as it is written there."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    k = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + tree_hash(leaves[:k]) + tree_hash(leaves[k:])).digest()


@given(st.lists(st.binary(max_size=4), max_size=40))
def test_heads_are_the_merkle_tree_hashes_of_rfc_9162(entries: list[bytes]) -> None:
    history = History()
    for data in entries:
        history.append(leaf_hash(data))
    assert history.head == Head(len(entries), tree_hash(entries))
    for size in range(len(entries) + 1):
        assert history.extends(Head(size, tree_hash(entries[:size])))
        assert not history.extends(Head(size, bytes(32)))
    assert not history.extends(Head(len(entries) + 1, tree_hash([*entries, b"x"])))


def test_two_logs_of_the_same_entries_in_another_order_have_other_heads() -> None:
    one, other = History(), History()
    for first, second in ((b"a", b"b"), (b"b", b"a")):
        one.append(leaf_hash(first))
        other.append(leaf_hash(second))
    assert one.head != other.head
    assert one.head.size == other.head.size


# -- who says what


@pytest.fixture(scope="module")
def made() -> Trial:
    return trial()


class Everyone:
    """Seats that are all shown the same board."""

    def __init__(self, made: Trial, *names: str) -> None:
        self.made = made
        self.secrets = {name: SealingKey.generate() for name in names}
        self.seats = {
            name: BoardClient(made.study.members, name, made.keys[name], self.secrets[name]) for name in names
        }
        self.number = 0
        for name in names:
            key = self.secrets[name].public
            self.post(self.seats[name].sign(Post(BOARD, joined(made.study.digest, key), "join")))

    def post(self, data: bytes) -> dict[str, Checked]:
        self.number += 1
        return {name: seat.take(self.number, data) for name, seat in self.seats.items()}


def errors(taken: dict[str, Checked]) -> set[type[Exception] | None]:
    return {None if each.error is None else type(each.error) for each in taken.values()}


def test_a_public_entry_reaches_everybody_and_a_secret_one_its_reader(made: Trial) -> None:
    everyone = Everyone(made, "curator", "party 0", "holder 1")
    public = everyone.post(everyone.seats["party 0"].sign(Post(BOARD, b"for all")))
    assert {each.entry for each in public.values()} == {Entry(4, "party 0", BOARD, b"for all")}
    data = everyone.seats["party 0"].sign(Post("holder 1", b"for one reader"))
    assert b"for one reader" not in data
    secret = everyone.post(data)
    assert secret["holder 1"].entry == Entry(5, "party 0", "holder 1", b"for one reader")
    assert secret["curator"].entry is secret["party 0"].entry is None
    assert errors(secret) == {None}
    open_ = everyone.post(everyone.seats["curator"].sign(Post("holder 1", b"no secret", secret=False)))
    assert open_["holder 1"].entry == Entry(6, "curator", "holder 1", b"no secret")
    assert open_["party 0"].entry is None


def test_nothing_is_sealed_to_who_has_not_joined(made: Trial) -> None:
    everyone = Everyone(made, "curator")
    place = everyone.seats["curator"].place
    with pytest.raises(MessageError, match="holder 1 has not joined"):
        everyone.seats["curator"].sign(Post("holder 1", b"x"))
    assert everyone.seats["curator"].place == place


def test_every_byte_of_an_entry_counts(made: Trial) -> None:
    everyone = Everyone(made, "curator", "party 0")
    data = everyone.seats["party 0"].sign(Post(BOARD, b"said", "phase"))
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        taken = everyone.post(bytes(changed))
        assert None not in errors(taken), at
    assert errors(everyone.post(data)) == {None}


def test_entries_of_strangers_of_other_studies_and_under_other_names(made: Trial) -> None:
    everyone = Everyone(made, "curator", "party 0")
    entry = SignedEntry.decode(everyone.seats["party 0"].sign(Post(BOARD, b"said")))
    stranger = SigningKey.generate()
    for wrong, error in (
        (entry.signed(stranger), ForgedSignatureError),
        (replace(entry, author="party 1").signed(made.keys["party 0"]), ForgedSignatureError),
        (replace(entry, author="party 77").signed(stranger), UnknownPartyError),
        (replace(entry, session=bytes(32)).signed(made.keys["party 0"]), WrongRoundError),
    ):
        assert errors(everyone.post(wrong.encode())) == {error}
    assert errors(everyone.post(b"noise")) == {MessageError}
    assert errors(everyone.post(bytes(100_000))) == {MessageError}
    assert errors(everyone.post(entry.encode())) == {None}  # what was refused before does not stand in its way


def test_a_replay_is_nothing_new(made: Trial) -> None:
    everyone = Everyone(made, "curator", "party 0")
    data = everyone.seats["party 0"].sign(Post(BOARD, b"said"))
    assert {each.entry is None for each in everyone.post(data).values()} == {False}
    again = everyone.post(data)
    assert errors(again) == {None}
    assert {each.entry for each in again.values()} == {None}


def test_two_entries_in_one_place_are_named(made: Trial) -> None:
    """An agent that was set back to an old copy of its state signs another entry where it has signed one."""
    everyone = Everyone(made, "curator", "party 0")
    restored = BoardClient(made.study.members, "party 0", made.keys["party 0"], everyone.secrets["party 0"])
    restored.place = everyone.seats["party 0"].place
    everyone.post(everyone.seats["party 0"].sign(Post(BOARD, b"one")))
    forked = everyone.post(restored.sign(Post(BOARD, b"two")))
    assert errors(forked) == {EquivocationError}
    assert "party 0 has signed another entry in place 1" in str(forked["curator"].error)


def test_who_was_shown_another_board_is_named(made: Trial) -> None:
    everyone, elsewhere = Everyone(made, "curator", "party 0"), Everyone(made, "curator", "party 0")
    elsewhere.post(elsewhere.seats["curator"].sign(Post(BOARD, b"another story")))
    everyone.post(everyone.seats["curator"].sign(Post(BOARD, b"one story")))
    taken = everyone.post(elsewhere.seats["party 0"].sign(Post(BOARD, b"said")))
    assert errors(taken) == {EquivocationError}
    assert "this board has begun otherwise" in str(taken["curator"].error)


def test_a_head_from_the_future_is_another_board(made: Trial) -> None:
    everyone = Everyone(made, "curator", "party 0")
    entry = SignedEntry.decode(everyone.seats["party 0"].sign(Post(BOARD, b"said")))
    ahead = replace(entry, head=Head(everyone.number + 1, bytes(32))).signed(made.keys["party 0"])
    assert errors(everyone.post(ahead.encode())) == {EquivocationError}


def test_a_board_that_leaves_an_entry_out_is_noticed_at_once(made: Trial) -> None:
    everyone = Everyone(made, "curator", "party 0")
    with pytest.raises(BoardError, match="entry 9 came after entry 2"):
        everyone.seats["curator"].take(9, b"x")


class Counts(Role):
    """How many ballots there are."""

    name, reads = "holder 1", frozenset({Kind.BALLOT})

    def start(self) -> Step:
        return Step(0)

    def receive(self, state: int, entries: Sequence[Entry]) -> Step:
        return Step(state + len(entries))


class LeavesOut(MemoryBoard):
    """The fourth entry, until somebody looks again."""

    def read(self, after: int) -> list[tuple[int, bytes]]:
        found = list(super().read(after))
        self.read = super().read  # type: ignore[method-assign]
        return found[:3] + found[4:]


def test_what_stood_before_an_entry_that_is_missing_is_read_when_it_is_there(made: Trial) -> None:
    """An agent tries a board that fails again: what it had begun to read then must not have been taken for read."""
    board, party = LeavesOut(), made.seat("party 3")
    for number in range(6):
        board.post(party.sign(Post(BOARD, frame(Kind.BALLOT, made.study.digest, bytes([number])))))
    store = Store()
    agent = Agent(Counts(), made.study.members, made.keys["holder 1"], board, store)
    with pytest.raises(BoardError, match="entry 5 came after entry 3: the board leaves something out"):
        agent.step()
    agent.step()
    again = Agent(Counts(), made.study.members, made.keys["holder 1"], board, store)
    assert (agent.state, agent.head.size) == (again.state, again.head.size) == (6, 6)


def test_a_second_joining_with_another_key(made: Trial) -> None:
    everyone = Everyone(made, "curator", "party 0")
    again = joined(made.study.digest, SealingKey.generate().public)
    assert errors(everyone.post(everyone.seats["party 0"].sign(Post(BOARD, again)))) == {UnexpectedMessageError}
    everyone.post(everyone.seats["curator"].sign(Post("party 0", b"sealed to the first")))


@pytest.mark.parametrize("low", [bytes(32), b"\1" + bytes(31)])
def test_who_joins_with_a_key_of_small_order_has_not_joined(made: Trial, low: bytes) -> None:
    """It would stop whoever has a secret for it, and look like the other's fault."""
    everyone = Everyone(made, "curator")
    entry = made.seat("party 0").sign(Post(BOARD, joined(made.study.digest, low)))
    assert errors(everyone.post(entry)) == {MessageError}
    with pytest.raises(MessageError, match="party 0 has not joined"):
        everyone.seats["curator"].sign(Post("party 0", b"x"))


@pytest.mark.parametrize("secret", [True, False])
@pytest.mark.parametrize("kind", [kind for kind in Kind if kind.public])
def test_what_is_for_everybody_is_told_to_nobody_alone(made: Trial, kind: Kind, secret: bool) -> None:
    """Or one holder would count a ballot, and another not: they would confirm two products, and look like liars."""
    everyone = Everyone(made, "curator", "party 0", "holder 1")
    alone = Post("holder 1", frame(kind, made.study.digest, bytes(32)), secret=secret)
    taken = everyone.post(everyone.seats["party 0"].sign(alone))
    assert {name for name, each in taken.items() if isinstance(each.error, UnexpectedMessageError)} >= {"holder 1"}
    assert {each.entry for each in taken.values()} == {None}
    everyone.seats["curator"].sign(Post("party 0", b"sealed to the key of its public joining"))


def test_a_place_is_taken_for_everybody_alike(made: Trial) -> None:
    """Whoever can see that a secret is none, and whoever cannot, refuse the same entries afterwards."""
    everyone = Everyone(made, "curator", "party 0", "holder 1")
    liar = everyone.seats["party 0"]
    sealed = SignedEntry.decode(liar.sign(Post("holder 1", b"a secret")))
    broken = everyone.post(sealed.with_body(bytes(100)).signed(made.keys["party 0"]).encode())
    assert {name: each.error is None for name, each in broken.items()} == {
        "curator": True,
        "party 0": True,
        "holder 1": False,
    }
    liar.place -= 1
    assert errors(everyone.post(liar.sign(Post(BOARD, b"for all, in the same place")))) == {EquivocationError}


def test_an_identity_that_does_not_play_the_role(made: Trial) -> None:
    with pytest.raises(UnknownPartyError, match="no party 3 with the key"):
        BoardClient(made.study.members, "party 3", made.keys["party 2"], None)
    with pytest.raises(UnknownPartyError, match="no holder 9"):
        BoardClient(made.study.members, "holder 9", made.keys["party 2"], None)


def test_what_is_forgotten_is_not_read_any_more(made: Trial) -> None:
    everyone = Everyone(made, "curator", "party 0")
    everyone.seats["party 0"].forget_secrets()
    taken = everyone.post(everyone.seats["curator"].sign(Post("party 0", b"too late")))
    assert taken["party 0"].entry is None


# -- sealing


def test_sealed_messages_open_for_their_reader_in_their_place_only() -> None:
    reader, other = SealingKey.generate(), SealingKey.generate()
    sealed = seal(b"secret", reader.public, b"place")
    assert reader.open(sealed, b"place") == b"secret"
    for key, data, about in (
        (other, sealed, b"place"),
        (reader, sealed, b"elsewhere"),
        (reader, sealed[:-1], b"place"),
        (reader, b"", b"place"),
    ):
        with pytest.raises(MessageError):
            key.open(data, about)
    assert seal(b"secret", reader.public, b"place") != sealed


@pytest.mark.parametrize("low", [bytes(32), b"\1" + bytes(31)])
def test_a_sealing_key_of_small_order(low: bytes) -> None:
    with pytest.raises(MessageError, match="no X25519 key"):
        seal(b"secret", low, b"place")


def test_a_sealing_key_shows_nothing() -> None:
    key = SealingKey.generate()
    assert key.secret().hex() not in repr(key) + str(key)
    with pytest.raises(TypeError):
        key.__reduce__()


def test_the_longest_entries_of_a_member_are_read_one_by_one() -> None:
    """A batch of them all would be 16 GB in the memory of everybody who reads."""
    given = [(number, bytes(MOST_BYTES if number % 2 else 1)) for number in range(1, 7)]
    found = list(_batches(iter(given), 0))
    assert [entry for batch in found for entry in batch] == given
    assert [len(batch) for batch in found] == [1, 2, 2, 1]
    assert [len(batch) for batch in _batches(((n, b"") for n in range(1, 601)), 0)] == [256, 256, 88]


class Refuses(Counts):
    """Every ballot, by an error that is raised and caught where the ballots are at hand."""

    def receive(self, state: int, entries: Sequence[Entry]) -> Step:
        refused = []
        for entry in entries:
            try:
                raise UnexpectedMessageError("not now")
            except UnexpectedMessageError as error:
                refused.append(Refusal(entry, error))
        return Step(state, (), tuple(refused))


def test_what_was_refused_is_not_kept_for_the_sake_of_its_error(made: Trial) -> None:
    """An error knows the frames that it came through, and these the entry: a member's longest would fill all memory."""
    author, size = made.seat("party 3"), 1_000_000
    session, ballot = made.study.digest, frame(Kind.BALLOT, made.study.digest, bytes(size))
    posts = [bytes(size), *(author.sign(Post(BOARD, data)) for data in (bytes(size), ballot, ballot, ballot))]
    posts.append(SignedEntry(session, "nobody", BOARD, 0, Head(), "", False, bytes(size)).encode())
    board = MemoryBoard()
    agent = Agent(Refuses(), made.study.members, made.keys["holder 1"], board, Store())
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        board.entries = [bytes(bytearray(data)) for data in posts]
        agent.step()
        board.entries = []
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert len(agent.refused) == len(posts)
    assert kept < size
