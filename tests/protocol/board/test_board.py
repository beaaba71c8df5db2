"""A dishonest board can neither show readers different logs, nor forge an author, nor read encrypted messages."""

from __future__ import annotations

import gc
import hashlib
import secrets
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace

import pytest
from cryptography.hazmat.backends.openssl.backend import backend
from hypothesis import given
from hypothesis import strategies as st

from psephos.audit.studies import Trial, trial
from psephos.protocol.agent import Agent, _batches
from psephos.protocol.board import MOST_BYTES, MemoryBoard
from psephos.protocol.board.client import BoardClient, BoardReader, CheckedEntry, join_message
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.board.history import Head, History, leaf_hash
from psephos.protocol.board.sealing import SECRET_BYTES, X25519_BYTES, SealingKey, check_sealing_key, seal
from psephos.protocol.errors import (
    BoardError,
    EquivocationError,
    ForgedSignatureError,
    MessageError,
    UnexpectedMessageError,
    UnknownPartyError,
    UnsealedMessageError,
    UnsupportedAlgorithmError,
    WrongRoundError,
)
from psephos.protocol.roles import BOARD, Entry, Post, Refusal, Role, Step
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import Store
from psephos.protocol.wire import Audience, Kind, frame

# -- one log


def tree_hash(leaves: list[bytes]) -> bytes:
    """The recursive definition of MTH in RFC 9162, section 2.1.1."""
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


# -- authors


@pytest.fixture(scope="module")
def made() -> Trial:
    return trial()


@pytest.fixture(scope="module")
def earlier() -> Trial:
    """A study made by an earlier version, whose sealing keys may be of X25519 alone."""
    return trial(format=2)


class Everyone:
    """The clients of several roles, who all read the same entries."""

    def __init__(self, made: Trial, *names: str, secret_bytes: int = SECRET_BYTES) -> None:
        self.made = made
        self.secrets = {name: SealingKey(secrets.token_bytes(secret_bytes)) for name in names}
        self.clients = {
            name: BoardClient(made.study.members, name, made.keys[name], self.secrets[name]) for name in names
        }
        self.number = 0
        for name in names:
            key = self.secrets[name].public
            self.post(self.clients[name].sign(Post(BOARD, join_message(made.study.digest, key), "join")))

    def post(self, data: bytes) -> dict[str, CheckedEntry]:
        self.number += 1
        return {name: client.check(self.number, data) for name, client in self.clients.items()}


def errors(checked: dict[str, CheckedEntry]) -> set[type[Exception] | None]:
    return {None if each.error is None else type(each.error) for each in checked.values()}


@pytest.mark.parametrize("which", ["made", "earlier"])
def test_a_public_message_reaches_everybody_and_a_secret_one_its_receiver(
    which: str, request: pytest.FixtureRequest
) -> None:
    made, secret_bytes = request.getfixturevalue(which), SECRET_BYTES if which == "made" else X25519_BYTES
    everyone = Everyone(made, "curator", "party 0", "holder 1", secret_bytes=secret_bytes)
    public = everyone.post(everyone.clients["party 0"].sign(Post(BOARD, b"for all")))
    assert {each.entry for each in public.values()} == {Entry(4, "party 0", BOARD, b"for all")}
    data = everyone.clients["party 0"].sign(Post("holder 1", b"for one reader"))
    assert b"for one reader" not in data
    secret = everyone.post(data)
    assert secret["holder 1"].entry == Entry(5, "party 0", "holder 1", b"for one reader")
    assert secret["curator"].entry is secret["party 0"].entry is None
    assert errors(secret) == {None}
    open_ = everyone.post(everyone.clients["curator"].sign(Post("holder 1", b"no secret", secret=False)))
    assert open_["holder 1"].entry == Entry(6, "curator", "holder 1", b"no secret")
    assert open_["party 0"].entry is None


def test_an_entry_with_any_byte_changed_is_rejected(made: Trial) -> None:
    everyone = Everyone(made, "curator", "party 0")
    data = everyone.clients["party 0"].sign(Post(BOARD, b"said", "phase"))
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        assert None not in errors(everyone.post(bytes(changed))), at
    assert errors(everyone.post(data)) == {None}


def test_entries_of_strangers_other_studies_and_forged_authors_are_rejected(made: Trial) -> None:
    everyone = Everyone(made, "curator", "party 0")
    entry = SignedEntry.decode(everyone.clients["party 0"].sign(Post(BOARD, b"said")))
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
    assert errors(everyone.post(entry.encode())) == {None}, "rejected entries do not use up its place"


def test_a_replayed_entry_is_ignored(made: Trial) -> None:
    everyone = Everyone(made, "curator", "party 0")
    data = everyone.clients["party 0"].sign(Post(BOARD, b"said"))
    assert {each.entry is None for each in everyone.post(data).values()} == {False}
    again = everyone.post(data)
    assert errors(again) == {None}
    assert {each.entry for each in again.values()} == {None}


def test_a_second_entry_in_one_place_is_equivocation(made: Trial) -> None:
    """An agent whose store was set back signs a second entry in a place where it has signed one."""
    everyone = Everyone(made, "curator", "party 0")
    restored = BoardClient(made.study.members, "party 0", made.keys["party 0"], everyone.secrets["party 0"])
    restored.place = everyone.clients["party 0"].place
    everyone.post(everyone.clients["party 0"].sign(Post(BOARD, b"one")))
    forked = everyone.post(restored.sign(Post(BOARD, b"two")))
    assert errors(forked) == {EquivocationError}
    assert "party 0" in str(forked["curator"].error)


def test_entries_beyond_the_bytes_that_a_study_leaves_a_member_are_refused(made: Trial) -> None:
    """The limit is of all entries of one member together; a reader that is restored from its records knows them."""
    author = BoardClient(made.study.members, "party 0", made.keys["party 0"], None)
    other = BoardClient(made.study.members, "party 1", made.keys["party 1"], None)
    entries = [author.sign(Post(BOARD, bytes(400))), author.sign(Post(BOARD, bytes(400)))]
    limited = replace(made.study.members, limits={"party 0": sum(map(len, entries))})
    reader, restored = BoardReader(limited), BoardReader(limited)
    for number, data in enumerate([*entries, entries[0]], 1):  # a repetition is the same entry
        checked = reader.check(number, data)
        assert checked.error is None
        restored.restore(checked.record)
    too_many, unlimited = author.sign(Post(BOARD, b"")), other.sign(Post(BOARD, bytes(4000)))
    for one in (reader, restored):
        assert isinstance(one.check(4, too_many).error, MessageError)
        assert one.check(5, unlimited).error is None
        assert one.missing_places() == {}


def test_an_author_who_has_read_another_log_is_detected(made: Trial) -> None:
    everyone, elsewhere = Everyone(made, "curator", "party 0"), Everyone(made, "curator", "party 0")
    elsewhere.post(elsewhere.clients["curator"].sign(Post(BOARD, b"another story")))
    everyone.post(everyone.clients["curator"].sign(Post(BOARD, b"one story")))
    checked = everyone.post(elsewhere.clients["party 0"].sign(Post(BOARD, b"said")))
    assert errors(checked) == {EquivocationError}
    assert "party 0" in str(checked["curator"].error)


def test_an_omitted_entry_is_detected_at_once(made: Trial) -> None:
    everyone = Everyone(made, "curator", "party 0")
    with pytest.raises(BoardError):
        everyone.clients["curator"].check(9, b"x")


class BallotCounter(Role):
    """Counts ballots."""

    name, reads = "holder 1", frozenset({Kind.BALLOT})

    def start(self) -> Step:
        return Step(0)

    def receive(self, state: int, entries: Sequence[Entry]) -> Step:
        return Step(state + len(entries))


class OmittingBoard(MemoryBoard):
    """Omits the fourth entry when it is first read."""

    def read(self, after: int) -> list[tuple[int, bytes]]:
        entries = list(super().read(after))
        self.read = super().read  # type: ignore[method-assign]
        return entries[:3] + entries[4:]


def test_entries_before_an_omitted_one_are_read_again(made: Trial) -> None:
    """After an error of the board, an agent reads again from where its last complete batch ended."""
    board, party = OmittingBoard(), made.board_client("party 3")
    for number in range(6):
        board.post(party.sign(Post(BOARD, frame(Kind.BALLOT, made.study.digest, bytes([number])))))
    store = Store()
    agent = Agent(BallotCounter(), made.study.members, made.keys["holder 1"], board, store)
    with pytest.raises(BoardError):
        agent.step()
    agent.step()
    again = Agent(BallotCounter(), made.study.members, made.keys["holder 1"], board, store)
    assert (agent.state, agent.head.size) == (again.state, again.head.size) == (6, 6)


def test_a_second_join_message_is_rejected(made: Trial) -> None:
    everyone = Everyone(made, "curator", "party 0")
    again = join_message(made.study.digest, SealingKey.generate().public)
    assert errors(everyone.post(everyone.clients["party 0"].sign(Post(BOARD, again)))) == {UnexpectedMessageError}
    everyone.post(everyone.clients["curator"].sign(Post("party 0", b"sealed to the first")))


@pytest.mark.parametrize("low", [bytes(32), b"\1" + bytes(31)])
def test_a_join_message_with_a_key_of_small_order_is_rejected(made: Trial, low: bytes) -> None:
    """Nothing can be encrypted to it, so it would stop the senders."""
    everyone = Everyone(made, "curator")
    entry = made.board_client("party 0").sign(Post(BOARD, join_message(made.study.digest, low)))
    assert errors(everyone.post(entry)) == {MessageError}
    with pytest.raises(MessageError):
        everyone.clients["curator"].sign(Post("party 0", b"x"))


@pytest.mark.parametrize("sums_public", [False, True], ids=["sealed sums", "public sums"])
@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.JOINED], ids=lambda kind: kind.title)
def test_a_message_counts_only_if_those_can_read_it_whom_it_is_for(kind: Kind, sums_public: bool) -> None:
    """One for all that one holder alone gets would be counted by it alone; a secret one in clear is for everybody."""
    audience = Audience.ALL if kind is Kind.PARTIAL_DECRYPTION and sums_public else kind.audience
    accepted = {
        Audience.ALL: {(BOARD, False)},
        Audience.ONE: {("holder 1", False), ("holder 1", True)},
        Audience.SECRET: {("holder 1", True)},
    }[audience]
    made = trial(protocol="statistic", method="statistic", public=sums_public)
    everyone = Everyone(made, "curator", "party 0", "holder 1")
    for receiver, secret in ((BOARD, False), ("holder 1", False), ("holder 1", True)):
        message = frame(kind, made.study.digest, bytes(32))
        checked = everyone.post(everyone.clients["party 0"].sign(Post(receiver, message, secret=secret)))
        if (receiver, secret) in accepted:
            assert checked["holder 1"].entry == Entry(everyone.number, "party 0", receiver, message)
            assert errors(checked) == {None}
            continue
        unsealed = audience is Audience.SECRET and not secret
        assert type(checked["holder 1"].error) is (UnsealedMessageError if unsealed else UnexpectedMessageError)
        assert {each.entry for each in checked.values()} == {None}
        assert {each.record.place for each in checked.values()} == {everyone.clients["party 0"].place - 1}
    everyone.clients["curator"].sign(Post("party 0", b"sealed to the key of its public joining"))


def test_a_place_is_used_up_for_all_readers_alike(made: Trial) -> None:
    """Also by an encrypted entry that only its receiver can see to be invalid."""
    everyone = Everyone(made, "curator", "party 0", "holder 1")
    liar = everyone.clients["party 0"]
    sealed = SignedEntry.decode(liar.sign(Post("holder 1", b"a secret")))
    broken = everyone.post(replace(sealed, body=bytes(100)).signed(made.keys["party 0"]).encode())
    assert {name: each.error is None for name, each in broken.items()} == {
        "curator": True,
        "party 0": True,
        "holder 1": False,
    }
    liar.place -= 1
    assert errors(everyone.post(liar.sign(Post(BOARD, b"for all, in the same place")))) == {EquivocationError}
    copied = everyone.post(replace(sealed, author="curator").signed(made.keys["curator"]).encode())
    assert type(copied["holder 1"].error) is MessageError, "what is sealed is read under its author's name only"


def test_a_client_needs_the_key_of_its_role(made: Trial) -> None:
    with pytest.raises(UnknownPartyError):
        BoardClient(made.study.members, "party 3", made.keys["party 2"], None)
    with pytest.raises(UnknownPartyError):
        BoardClient(made.study.members, "holder 9", made.keys["party 2"], None)


def test_a_client_that_forgot_its_key_decrypts_nothing(made: Trial) -> None:
    everyone = Everyone(made, "curator", "party 0")
    everyone.clients["party 0"].forget_secrets()
    checked = everyone.post(everyone.clients["curator"].sign(Post("party 0", b"too late")))
    assert checked["party 0"].entry is None


# -- sealing


def test_a_study_takes_no_sealing_key_of_x25519_alone(made: Trial) -> None:
    everyone = Everyone(made, "curator", "party 0", secret_bytes=X25519_BYTES)
    assert not everyone.clients["curator"].joined
    with pytest.raises(MessageError):
        everyone.clients["party 0"].sign(Post("curator", b"secret"))


def test_an_openssl_without_mlkem_is_named_and_needed_to_seal_alone(
    made: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    everyone = Everyone(made, "curator")
    join = join_message(made.study.digest, SealingKey.generate().public)
    entry = made.board_client("party 0").sign(Post(BOARD, join, "join"))
    monkeypatch.setattr(type(backend), "mlkem_supported", lambda self: False)
    with pytest.raises(UnsupportedAlgorithmError):
        SealingKey.generate()
    assert errors(everyone.post(entry)) == {None}
    curator = everyone.clients["curator"]
    assert "party 0" in curator.joined
    with pytest.raises(UnsupportedAlgorithmError):
        curator.sign(Post("party 0", b"secret"))
    earlier = SealingKey(secrets.token_bytes(X25519_BYTES))
    assert earlier.open(seal(b"secret", earlier.public, b""), b"") == b"secret"


@pytest.mark.parametrize("place", [None, 0, 1150, 1152, 1183, 1184, 1215])
@pytest.mark.parametrize("value", [b"", b"\0\0", b"\x00\x0d", b"\x01\x0d", b"\xff\xff"])
def test_a_sealing_key_is_judged_as_openssl_judges_it(place: int | None, value: bytes) -> None:
    """Also keys that are cut or too long, and numbers of 12 bits on both sides of 3329."""
    key = SealingKey.generate().public
    key = key[2:] if place is None else key[:place] + value + key[place + 2 :]
    judged = []
    for judge in (check_sealing_key, lambda key: seal(b"", key, b"")):
        try:
            judge(key)
            judged.append(True)
        except MessageError:
            judged.append(False)
    assert judged[0] is judged[1]


def test_decryption_needs_the_key_and_the_context() -> None:
    reader, other = SealingKey.generate(), SealingKey.generate()
    sealed = seal(b"secret", reader.public, b"place")
    assert reader.open(sealed, b"place") == b"secret"
    for key, data, info in (
        (other, sealed, b"place"),
        (reader, sealed, b"elsewhere"),
        (reader, sealed[:-1], b"place"),
        (reader, b"", b"place"),
    ):
        with pytest.raises(MessageError):
            key.open(data, info)
    assert seal(b"secret", reader.public, b"place") != sealed


@pytest.mark.parametrize("low", [bytes(32), b"\1" + bytes(31)])
def test_sealing_to_a_key_of_small_order_is_refused(low: bytes) -> None:
    for key in (low, SealingKey.generate().public[:-32] + low):
        with pytest.raises(MessageError):
            seal(b"secret", key, b"place")


def test_batches_are_limited_in_bytes_and_entries() -> None:
    """A batch of 256 entries of the greatest length would take 16 GB of memory."""
    entries = [(number, bytes(MOST_BYTES if number % 2 else 1)) for number in range(1, 7)]
    batches = list(_batches(iter(entries), 0))
    assert [entry for batch in batches for entry in batch] == entries
    assert [len(batch) for batch in batches] == [1, 2, 2, 1]
    assert [len(batch) for batch in _batches(((n, b"") for n in range(1, 601)), 0)] == [256, 256, 88]


class RefusingCounter(BallotCounter):
    """Refuses every ballot, with an error whose traceback refers to the ballots."""

    def receive(self, state: int, entries: Sequence[Entry]) -> Step:
        refused = []
        for entry in entries:
            try:
                raise UnexpectedMessageError("not now")
            except UnexpectedMessageError as error:
                refused.append(Refusal(entry, error))
        return Step(state, (), tuple(refused))


def test_rejected_entries_are_not_kept_in_memory(made: Trial) -> None:
    """An error's traceback refers to the entry; a member's longest entries would exhaust the memory."""
    author, size = made.board_client("party 3"), 1_000_000
    session, ballot = made.study.digest, frame(Kind.BALLOT, made.study.digest, bytes(size))
    posts = [bytes(size), *(author.sign(Post(BOARD, data)) for data in (bytes(size), ballot, ballot, ballot))]
    posts.append(SignedEntry(session, "nobody", BOARD, 0, Head(), "", False, bytes(size)).encode())
    board = MemoryBoard()
    agent = Agent(RefusingCounter(), made.study.members, made.keys["holder 1"], board, Store())
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        board.entries = [bytes(bytearray(data)) for data in posts]
        agent.step()
        board.entries = []
        memory, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert len(agent.rejected) == len(posts)
    assert memory < size
