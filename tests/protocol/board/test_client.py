"""What a seat remembers, in which words it refuses, and what it binds a secret to; `test_board` has the attacks."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from psephos.audit.studies import trial
from psephos.protocol.board import MOST_BYTES
from psephos.protocol.board.client import BoardClient, BoardMembers, BoardReader, LogRecord, joined
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.board.history import Head, leaf_hash
from psephos.protocol.board.sealing import SealingKey
from psephos.protocol.errors import (
    BoardError,
    EquivocationError,
    ForgedSignatureError,
    MessageError,
    UnexpectedMessageError,
    UnknownPartyError,
    WrongRoundError,
)
from psephos.protocol.roles import BOARD, Entry, Post
from psephos.protocol.wire import Kind, frame

MADE = trial()
SESSION, MEMBERS = MADE.study.digest, MADE.study.members
SECRETS = {name: SealingKey.generate() for name in MADE.keys}


def seat(name: str) -> BoardClient:
    return BoardClient(MEMBERS, name, MADE.keys[name], SECRETS[name])


def join(name: str) -> bytes:
    return seat(name).sign(Post(BOARD, joined(SESSION, SECRETS[name].public), "join"))


def test_joining_is_a_message_with_the_key() -> None:
    assert joined(SESSION, bytes(range(32))) == frame(Kind.JOINED, SESSION, bytes(range(32)))


def test_what_is_signed_is_the_next_entry_of_its_author() -> None:
    party, data = seat("party 3"), join("curator")
    party.take(1, data)
    assert party.place == 0
    entry = SignedEntry.decode(party.sign(Post("curator", b"open", "phase", secret=False)))
    assert party.place == 1
    entry.verify(MADE.keys["party 3"].verification_key)
    head = Head(1, leaf_hash(data))
    assert replace(entry, signature=b"") == SignedEntry(SESSION, "party 3", "curator", 0, head, "phase", False, b"open")
    entry = SignedEntry.decode(party.sign(Post(BOARD, b"for all", "phase")))
    assert (entry.secret, entry.body, entry.place) == (False, b"for all", 1)
    entry = SignedEntry.decode(party.sign(Post("curator", b"hidden", "phase")))
    assert (entry.secret, entry.place, party.place) == (True, 2, 3)
    entry.verify(MADE.keys["party 3"].verification_key)
    about = b"psephos sealed\0" + SESSION + b"\x07party 3\x07curator" + (2).to_bytes(8, "big")
    assert SECRETS["curator"].open(entry.body, about) == b"hidden"


def test_what_is_noted_is_all_that_must_be_known_again() -> None:
    """Two readers, one of whom is started again from the other's notes after each entry, see the same."""
    author, reader = seat("party 3"), seat("curator")
    said = [join("party 3"), b"", b"noise", author.sign(Post(BOARD, b"zero"))]
    for number, data in enumerate([join("party 3"), join("curator")], 1):
        author.take(number, data)
    author.place = 1
    said.insert(1, join("curator"))
    said += [author.sign(Post(BOARD, b"one")), author.sign(Post("curator", b"two"))]
    notes: list[LogRecord] = []
    for number, data in enumerate(said, 1):
        again = seat("curator")
        for note in notes:
            again.recall(note)
        assert again.head == reader.head
        one, other = reader.take(number, data), again.take(number, data)
        assert (one.note, one.entry, type(one.error)) == (other.note, other.entry, type(other.error))
        assert reader.head == again.head == Head(number, reader.head.root)
        notes.append(one.note)
    leaves = [leaf_hash(data) for data in said]
    key = SECRETS["party 3"].public
    assert notes[:4] == [
        LogRecord(leaves[0], "party 3", 0, key),
        LogRecord(leaves[1], "curator", 0, SECRETS["curator"].public),
        LogRecord(leaves[2]),
        LogRecord(leaves[3]),
    ]
    assert notes[4].author == "", "another entry in place 0"
    assert notes[5:] == [LogRecord(leaves[5], "party 3", 1), LogRecord(leaves[6], "party 3", 2)]
    assert LogRecord(b"x") == LogRecord(b"x", "", 0, b"")


def refusal(reader: BoardReader, data: bytes) -> tuple[type[BaseException] | None, str]:
    before = reader.head.size
    taken = reader.take(before + 1, data)
    assert reader.head.size == before + 1, "what is refused is part of the log"
    assert (taken.entry is None) or taken.error is None
    return type(taken.error) if taken.error else None, str(taken.error)


def test_each_refusal_names_entry_and_author() -> None:
    reader, author = BoardReader(MEMBERS), seat("party 3")
    entry = SignedEntry.decode(author.sign(Post(BOARD, b"said")))
    key = MADE.keys["party 3"]
    for data, kind, said in (
        (bytes(MOST_BYTES + 1), MessageError, f"entry 1 has {MOST_BYTES + 1} bytes"),
        (replace(entry, session=b"\xab" * 32).signed(key).encode(), WrongRoundError, "entry 2 .* study, abababababab"),
        (replace(entry, author="nobody").signed(key).encode(), UnknownPartyError, "entry 3 is by 'nobody'"),
        (entry.encode()[:-1] + bytes([entry.encode()[-1] ^ 1]), ForgedSignatureError, ""),
        (entry.encode(), None, "None"),
        (entry.encode(), None, "None"),
        (
            replace(entry, body=b"x").signed(key).encode(),
            EquivocationError,
            "entry 7: party 3 has signed another entry in place 0",
        ),
        (
            replace(entry, place=1, head=Head(1, bytes(32))).signed(key).encode(),
            EquivocationError,
            "entry 8: party 3 says that it has read 1 entries, 000000000000",
        ),
        (
            replace(entry, place=2, receiver="curator", body=frame(Kind.BALLOT, SESSION)).signed(key).encode(),
            UnexpectedMessageError,
            "entry 9: party 3 told 'curator' alone what is for everybody: a ballot",
        ),
        (replace(entry, place=3, body=joined(SESSION, bytes(31))).signed(key).encode(), MessageError, ""),
        (replace(entry, place=4, body=joined(bytes(32), bytes(32))).signed(key).encode(), WrongRoundError, ""),
        (replace(entry, place=5, body=joined(SESSION, bytes(32))).signed(key).encode(), MessageError, "no X25519 key"),
        (replace(entry, place=6, body=joined(SESSION, SECRETS["curator"].public)).signed(key).encode(), None, "None"),
        (
            replace(entry, place=7, body=joined(SESSION, SECRETS["party 3"].public)).signed(key).encode(),
            UnexpectedMessageError,
            "entry 14: party 3 has joined before",
        ),
    ):
        found, words = refusal(reader, data)
        assert found is kind
        assert re.search(said, words), words


def test_an_entry_of_the_greatest_length_is_looked_at() -> None:
    assert refusal(BoardReader(MEMBERS), bytes(MOST_BYTES))[1] == "these bytes are no entry of this version"


def test_numbers_follow_each_other() -> None:
    for number in (0, 2):
        with pytest.raises(BoardError, match=f"entry {number} came after entry 0"):
            BoardReader(MEMBERS).take(number, b"")


def test_an_onlooker_sees_what_is_public_and_no_more() -> None:
    reader, secret = BoardReader(MEMBERS), seat("party 3")
    assert (reader.name, reader.members) == ("", MEMBERS)
    data = join("curator")
    reader.take(1, data)
    secret.take(1, data)
    for post, seen in (
        (Post(BOARD, b"all"), Entry(2, "party 3", BOARD, b"all")),
        (Post("curator", b"open", "", secret=False), None),
        (Post("curator", b"hidden"), None),
    ):
        taken = reader.take(reader.head.size + 1, secret.sign(post))
        assert (taken.entry, taken.error, taken.note.author) == (seen, None, "party 3")


def test_a_store_opens_the_curators_secrets_to_whoever_has_it() -> None:
    reader, party, data = BoardReader(MEMBERS, "curator", SECRETS["curator"]), seat("party 3"), join("curator")
    reader.take(1, data)
    party.take(1, data)
    assert reader.take(2, party.sign(Post("curator", b"hidden"))).entry == Entry(2, "party 3", "curator", b"hidden")


def test_what_is_shown_of_a_seat_and_of_its_members() -> None:
    assert repr(seat("party 3")) == f"<BoardClient of party 3, {Head()}>"
    assert SESSION.hex() not in repr(BoardMembers(SESSION, {}))
    assert str(SESSION) not in repr(BoardMembers(SESSION, {}))
