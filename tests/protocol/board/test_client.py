"""`BoardClient` and `BoardReader`: what they remember, reject and decrypt. `test_board` contains the attacks."""

from __future__ import annotations

from dataclasses import replace

from psephos.audit.studies import trial
from psephos.protocol.board.client import (
    BoardClient,
    BoardReader,
    LogRecord,
    describe_missing,
    join_message,
)
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.board.history import Head, leaf_hash
from psephos.protocol.board.sealing import SealingKey
from psephos.protocol.roles import BOARD, Post

MADE = trial()
SESSION, MEMBERS = MADE.study.digest, MADE.study.members
SECRETS = {name: SealingKey.generate() for name in MADE.keys}


def client(name: str) -> BoardClient:
    return BoardClient(MEMBERS, name, MADE.keys[name], SECRETS[name])


def join(name: str) -> bytes:
    return client(name).sign(Post(BOARD, join_message(SESSION, SECRETS[name].public), "join"))


def test_signing_makes_the_next_entry_of_its_author() -> None:
    party, data = client("party 3"), join("curator")
    party.check(1, data)
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
    info = b"psephos sealed\0" + SESSION + b"\x07party 3\x07curator" + (2).to_bytes(8, "big")
    assert SECRETS["curator"].open(entry.body, info) == b"hidden"


def test_records_restore_a_client_completely() -> None:
    """A client that is restored from another's records before each entry returns the same for it."""
    author, reader = client("party 3"), client("curator")
    entries = [join("party 3"), b"", b"noise", author.sign(Post(BOARD, b"zero"))]
    for number, data in enumerate([join("party 3"), join("curator")], 1):
        author.check(number, data)
    author.place = 1
    entries.insert(1, join("curator"))
    entries += [author.sign(Post(BOARD, b"one")), author.sign(Post("curator", b"two"))]
    records: list[LogRecord] = []
    for number, data in enumerate(entries, 1):
        restored = client("curator")
        for record in records:
            restored.restore(record)
        assert restored.head == reader.head
        one, other = reader.check(number, data), restored.check(number, data)
        assert (one.record, one.entry, type(one.error)) == (other.record, other.entry, type(other.error))
        assert reader.head == restored.head == Head(number, reader.head.root)
        records.append(one.record)
    leaves = [leaf_hash(data) for data in entries]
    key = SECRETS["party 3"].public
    assert records[:4] == [
        LogRecord(leaves[0], "party 3", 0, key, len(entries[0])),
        LogRecord(leaves[1], "curator", 0, SECRETS["curator"].public, len(entries[1])),
        LogRecord(leaves[2]),
        LogRecord(leaves[3]),
    ]
    assert records[4].author == "", "a second entry in place 0"
    assert records[5:] == [LogRecord(leaves[n], "party 3", n - 4, b"", len(entries[n])) for n in (5, 6)]
    assert LogRecord(b"x") == LogRecord(b"x", "", 0, b"", 0)


def test_places_that_an_author_has_left_out_are_named() -> None:
    """Or that the board has left out, which looks the same."""
    party = client("party 0")
    entries = [party.sign(Post(BOARD, bytes([k]), "phase")) for k in range(6)]
    reader = BoardReader(MEMBERS)
    assert describe_missing(reader.missing_places()) == ""
    for number, place in enumerate((0, 2, 5), 1):
        assert reader.check(number, entries[place]).error is None
    assert reader.missing_places() == {"party 0": [range(1, 2), range(3, 5)]}
    assert describe_missing(reader.missing_places()).endswith("party 0 1, party 0 3 to 4")
    reader.check(4, entries[1])
    assert reader.missing_places() == {"party 0": [range(3, 5)]}


def test_a_place_far_ahead_costs_its_readers_nothing() -> None:
    party = client("party 0")
    party.place = 2**63
    reader = BoardReader(MEMBERS)
    assert reader.check(1, party.sign(Post(BOARD, b"far", "phase"))).error is None
    assert reader.missing_places() == {"party 0": [range(2**63)]}
    assert "party 0 0 to 9223372036854775807" in describe_missing(reader.missing_places())
