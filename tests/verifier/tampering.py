"""Changes of recorded studies, each of which a verifier must refuse."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from psephos.protocol.board.history import Head
from psephos.protocol.roles import Post
from psephos.protocol.wire import HEADER_BYTES, Kind
from tests.verifier.recording import PARTIES, Recording

Posts = list[tuple[str, Post]]
Edit = Callable[[bytes], bytes]
Tampering = Callable[[Recording], Recording]

CIPHERTEXT = 64
"""Bytes of a ciphertext under a key of 256 bits."""
_SIGNATURE = HEADER_BYTES + 4
_PAYLOAD = _SIGNATURE + 64


def flipped(data: bytes, place: int) -> bytes:
    """Return bytes of which one bit of the byte at `place` is changed; a negative place counts from the end."""
    changed = bytearray(data)
    changed[place] ^= 1
    return bytes(changed)


def patched(data: bytes, place: int, value: bytes) -> bytes:
    """Return bytes with `value` from `place` on."""
    return data[:place] + value + data[place + len(value) :]


# -- entries, as somebody without keys may change them


def entries(change: Callable[[list[bytes], int], object]) -> Tampering:
    """Change the list of entries; the function gets the list and the place of the second ballot, or share."""

    def tamper(recording: Recording) -> Recording:
        changed = list(recording.entries)
        place = [*recording.places(Kind.BALLOT), *recording.places(Kind.PUBLISHED_SHARE)][1]
        change(changed, place)
        return recording.with_entries(changed)

    return tamper


def _swap(board: list[bytes], place: int) -> None:
    board[place], board[place + 1] = board[place + 1], board[place]


def _edit_entry(edit: Edit) -> Tampering:
    return entries(lambda board, place: board.__setitem__(place, edit(board[place])))


# -- entries that their author signs again


def resigned(**fields: Any) -> Tampering:
    """The author of the last entry signs it with other fields."""

    def tamper(recording: Recording) -> Recording:
        entry = recording.decoded[-1]
        key = recording.made.keys[entry.author]
        given = {name: value(entry) if callable(value) else value for name, value in fields.items()}
        return recording.with_entries((*recording.entries[:-1], replace(entry, **given).signed(key).encode()))

    return tamper


def _second_in_one_place(recording: Recording) -> Recording:
    entry = recording.decoded[-1]
    other = replace(entry, phase="another", head=Head(len(recording.entries), _root(recording)))
    return recording.with_entries((*recording.entries, other.signed(recording.made.keys[entry.author]).encode()))


def _root(recording: Recording) -> bytes:
    client = recording.made.board_client("curator")
    for number, data in enumerate(recording.entries, 1):
        client.check(number, data)
    return client.head.root


# -- messages, on a board that everybody signs again


def messages(change: Callable[[Recording, Posts], Posts | None]) -> Tampering:
    """Change the messages; everybody signs what then stands on the board."""

    def tamper(recording: Recording) -> Recording:
        posts = recording.posts()
        changed = change(recording, posts)
        return recording.signed_again(posts if changed is None else changed)

    return tamper


def _is(post: Post, kind: Kind) -> bool:
    return not post.secret and len(post.data) > 8 and post.data[8] == kind


def places(posts: Posts, kind: Kind) -> list[int]:
    """Where messages of a kind stand in clear."""
    return [place for place, (_, post) in enumerate(posts) if _is(post, kind)]


def edited(kind: Kind, edit: Edit, *, which: Sequence[int] | None = (0,)) -> Tampering:
    """Change messages of a kind."""

    def change(recording: Recording, posts: Posts) -> None:
        found = places(posts, kind)
        for place in found if which is None else [found[number] for number in which]:
            author, post = posts[place]
            posts[place] = author, replace(post, data=edit(post.data))

    return messages(change)


def without(kind: Kind, count: int = 1) -> Tampering:
    """Leave out the first messages of a kind."""

    def change(recording: Recording, posts: Posts) -> Posts:
        left_out = places(posts, kind)[:count]
        return [one for place, one in enumerate(posts) if place not in left_out]

    return messages(change)


def _moved(kind: Kind, author: str) -> Tampering:
    """Let another role sign the first message of a kind."""

    def change(recording: Recording, posts: Posts) -> None:
        place = places(posts, kind)[0]
        posts[place] = author, posts[place][1]

    return messages(change)


def _private_ballot(recording: Recording, posts: Posts) -> None:
    place = places(posts, Kind.BALLOT)[0]
    author, post = posts[place]
    posts[place] = author, replace(post, receiver="curator", secret=False)


def _without_a_join(recording: Recording, posts: Posts) -> Posts:
    return [(author, post) for author, post in posts if author != "holder 3" or not _is(post, Kind.JOINED)]


def _early_close(recording: Recording, posts: Posts) -> None:
    place = places(posts, Kind.CLOSE)[0]
    first = places(posts, Kind.BALLOT)[0]
    posts.insert(first + 1, posts.pop(place))


# -- ballots, which their party signs again


def ballot(edit: Edit, *, of: int = 1) -> Tampering:
    """The second party takes ciphertexts and proof of a ballot, changes them, and signs them."""

    def change(recording: Recording, posts: Posts) -> None:
        found = places(posts, Kind.BALLOT)
        author, post = posts[found[1]]
        payload = edit(posts[found[of]][1].data[_PAYLOAD:])
        party = post.data[HEADER_BYTES:_SIGNATURE]
        content = b"psephos ballot\0" + post.data[9:HEADER_BYTES] + party + hashlib.sha256(payload).digest()
        signature = recording.made.keys[f"party {int.from_bytes(party, 'big')}"].sign(content)
        posts[found[1]] = author, replace(post, data=post.data[:_SIGNATURE] + signature + payload)

    return messages(change)


# -- models


def model(change: Callable[[dict[str, Any]], object]) -> Tampering:
    """The curator publishes a changed model, written as a model is."""

    def edit(data: bytes) -> bytes:
        fields = json.loads(data[HEADER_BYTES:])
        change(fields)
        lines = [f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items()]
        return data[:HEADER_BYTES] + ("{\n" + ",\n".join(lines) + "\n}\n").encode()

    return edited(Kind.RESULT, edit)


def published(**changed: Any) -> Tampering:
    return model(lambda fields: fields.update(changed))


def _release(name: str, value: Any) -> Tampering:
    return model(lambda fields: fields["release"].__setitem__(name, value))


def _moved_coefficient(fields: dict[str, Any]) -> None:
    fields["coefficients"][0][0] += 2.0**-20


def _moved_intercept(fields: dict[str, Any]) -> None:
    fields["intercepts"][0] += 2.0**-20


def _two_results(recording: Recording, posts: Posts) -> None:
    author, post = next(one for one in posts if _is(one[1], Kind.RESULT))
    posts.append((author, replace(post, data=post.data.replace(b'"parties": 5', b'"parties": 4'))))


def _longer(count: int) -> Edit:
    return lambda data: data + bytes(count)


def _shorter(data: bytes) -> bytes:
    return data[:-1]


def _at(place: int) -> Edit:
    return lambda data: flipped(data, place)


def _to(place: int, value: bytes) -> Edit:
    return lambda data: patched(data, place, value)


_KEY_SIZE = CIPHERTEXT
"""Bytes of a number of a published key."""
_POLYNOMIALS = 2 * CIPHERTEXT + 64 + 59 + 65
"""Where the answers of step 4 begin in a ballot with a proof of validity."""
_N, _THETA, _BASE = HEADER_BYTES, HEADER_BYTES + _KEY_SIZE + 16, HEADER_BYTES + 2 * _KEY_SIZE + 16

_key, _posted_ballot, _confirmation, _opening, _published_sum, _share, _result = (
    partial(edited, kind)
    for kind in (
        Kind.PUBLIC_KEY,
        Kind.BALLOT,
        Kind.CONFIRMATION,
        Kind.PARTIAL_DECRYPTION,
        Kind.PUBLISHED_SUM,
        Kind.PUBLISHED_SHARE,
        Kind.RESULT,
    )
)
"""Change the first message of a kind."""

OF_ENTRIES: dict[str, tuple[str, Tampering]] = {
    "an entry is left out": ("statistic", entries(lambda board, place: board.pop(place))),
    "an entry stands there twice, before others": (
        "statistic",
        entries(lambda board, place: board.insert(place + 1, board[place])),
    ),
    "two entries change places": ("statistic", entries(_swap)),
    "an entry is replaced by an empty one": ("average", _edit_entry(lambda data: b"")),
    "an entry lacks its last byte": ("statistic", _edit_entry(_shorter)),
    "an entry has a byte too many": ("pathak", _edit_entry(_longer(1))),
    "a bit of a signature": ("statistic", _edit_entry(_at(-1))),
    "a bit of an entry's first bytes": ("statistic", _edit_entry(_at(0))),
    "a bit of an entry's session": ("psgd", _edit_entry(_at(14))),
    "a bit of an author's name": ("pathak", _edit_entry(_at(47))),
    "a bit of a message": ("statistic", _edit_entry(_at(-100))),
    "the root that an author has read": ("statistic", resigned(head=lambda entry: Head(entry.head.size, bytes(32)))),
    "an author has read more than there is": (
        "statistic",
        resigned(head=lambda entry: Head(entry.head.size + 1000, entry.head.root)),
    ),
    "an author leaves out a place": ("statistic", resigned(place=lambda entry: entry.place + 1)),
    "an author signs two entries in one place": ("statistic", _second_in_one_place),
    "the result is signed for another study": ("statistic", resigned(session=bytes(32))),
    "the flag of a sealed entry is 1": ("pathak", resigned(secret=True, receiver="party 0")),
}

OF_MESSAGES: dict[str, tuple[str, Tampering]] = {
    "a holder has not joined": ("statistic", messages(_without_a_join)),
    "a sealing key of small order": ("statistic", edited(Kind.JOINED, _to(HEADER_BYTES, bytes(32)))),
    "the version of a frame": ("statistic", _posted_ballot(_at(7))),
    "the kind of a message": ("statistic", _posted_ballot(_to(8, b"\x05"))),
    "a message of another session": ("statistic", _posted_ballot(_at(9))),
    "a ballot goes to the curator only": ("statistic", messages(_private_ballot)),
    # keys
    "one holder publishes another key": ("statistic", _key(_at(-1))),
    "an even modulus": ("average", _key(_at(_N + _KEY_SIZE - 1), which=None)),
    "a modulus that is too short": ("average", _key(_to(_N + _KEY_SIZE // 2, b"\0"), which=None)),
    "theta is 0": ("statistic", _key(_to(_THETA, bytes(_KEY_SIZE)), which=None)),
    "the base of the verification values is 0": ("psgd", _key(_to(_BASE, bytes(_KEY_SIZE)), which=None)),
    "a key has a byte too many": ("statistic", _key(_longer(1), which=None)),
    # ballots
    "a ballot names a party that does not exist": (
        "statistic",
        _posted_ballot(_to(HEADER_BYTES, PARTIES.to_bytes(4, "big"))),
    ),
    "a ballot names another party": ("statistic", _posted_ballot(_to(HEADER_BYTES, b"\0\0\0\1"))),
    "a bit of a ballot's signature": ("statistic", _posted_ballot(_at(_SIGNATURE))),
    "a bit of a ciphertext": ("statistic", ballot(_at(0))),
    "a ciphertext is 0": ("average", ballot(_to(0, bytes(CIPHERTEXT)))),
    "a ciphertext is not below the modulus": ("average", ballot(_to(0, b"\xff" * CIPHERTEXT))),
    "a ballot is copied from another party": ("statistic", ballot(lambda data: data, of=0)),
    "a ballot has a byte too many": ("statistic", ballot(_longer(1))),
    # proofs of knowledge; under a key of 256 bits they have 1 + 64 + 65 + 65 bytes
    "the mode of a proof of knowledge is another": ("statistic", ballot(_at(-195))),
    "the mode of a proof of knowledge is 3": ("average", ballot(lambda data: patched(data, len(data) - 195, b"\3"))),
    "A of a proof of knowledge": ("psgd", ballot(_at(-194))),
    "z of a proof of knowledge": ("statistic", ballot(_at(-130))),
    "z of a proof of knowledge is not below n^s": ("statistic", ballot(_at(-66))),
    "w of a proof of knowledge": ("statistic, own data", ballot(_at(-65))),
    # proofs of validity, behind one ciphertext
    "the first root of a proof of validity": ("tally", ballot(_at(CIPHERTEXT))),
    "the second root of a proof of validity": ("tally", ballot(_at(CIPHERTEXT + 32))),
    "A of a proof of validity": ("tally", ballot(_at(CIPHERTEXT + 64))),
    "z of a proof of validity": ("tally", ballot(_at(2 * CIPHERTEXT + 64))),
    "w of a proof of validity": ("tally", ballot(_at(2 * CIPHERTEXT + 64 + 59))),
    "an answer polynomial of a proof of validity": ("tally", ballot(_at(_POLYNOMIALS + 8))),
    "an opened column of a proof of validity": ("tally", ballot(_at(-20_000))),
    "a path of a proof of validity": ("tally", ballot(_at(-1))),
    "a proof of validity has a byte too many": ("tally", ballot(_longer(1))),
    "a proof of validity lacks a hash": ("tally", ballot(lambda data: data[:-32])),
    # close, confirmations, partial decryptions
    "a party closes the vote": ("statistic", _moved(Kind.CLOSE, "party 0")),
    "the vote is closed before there are enough ballots": ("statistic", messages(_early_close)),
    "the vote is not closed": ("tally", without(Kind.CLOSE)),
    "a close has a byte too many": ("statistic", edited(Kind.CLOSE, _longer(1))),
    "a holder confirms another product": ("statistic", _confirmation(_at(HEADER_BYTES))),
    "a holder confirms in another's name": ("statistic", _confirmation(_to(HEADER_BYTES + 32, b"\2"))),
    "a confirmation is missing": ("tally", without(Kind.CONFIRMATION)),
    "two partial decryptions are missing": ("statistic", without(Kind.PARTIAL_DECRYPTION, 2)),
    "a partial decryption names another product": ("psgd", _opening(_at(HEADER_BYTES))),
    "a partial decryption names another holder": ("statistic", _opening(_to(HEADER_BYTES + 32, b"\3"))),
    "a value of a partial decryption": ("statistic", _opening(_at(HEADER_BYTES + 33))),
    "a value of a partial decryption is 0": ("statistic", _opening(_to(HEADER_BYTES + 33, bytes(CIPHERTEXT)))),
    # the proof of a partial decryption: a, b, and z of 144 bytes
    "a of a partial decryption's proof": ("psgd", _opening(_at(-272))),
    "b of a partial decryption's proof": ("statistic", _opening(_at(-208))),
    "z of a partial decryption's proof": ("statistic", _opening(_at(-144))),
    "a partial decryption lacks its last byte": ("statistic", _opening(_shorter)),
    # descents
    "an announced point": ("psgd", edited(Kind.ANNOUNCEMENT, _at(-1), which=(1,))),
    "the number of an announced step": ("psgd", edited(Kind.ANNOUNCEMENT, _to(HEADER_BYTES, b"\0\0\0\2"))),
    "the nonce of an announced step": ("psgd", edited(Kind.ANNOUNCEMENT, _at(HEADER_BYTES + 4))),
    "all holders publish another sum": ("psgd", _published_sum(_at(-1), which=None)),
    "a published sum is out of range": ("psgd", _published_sum(_to(HEADER_BYTES + 5, b"\x7f\xff\xff"), which=None)),
    # shares of an average
    "an entry of a share": ("pathak", _share(_at(-5))),
    "an entry of a share is out of range": ("pathak", _share(_to(HEADER_BYTES, b"\xff"))),
    "a share lacks its last byte": ("pathak", _share(_shorter)),
    "a share is missing": ("pathak", without(Kind.PUBLISHED_SHARE)),
    # results
    "a party publishes the result": ("statistic", _moved(Kind.RESULT, "party 0")),
    "two results of an exact sum": ("tally", messages(_two_results)),
    "no result": ("pathak", without(Kind.RESULT)),
    "a space in a model": ("statistic", _result(lambda data: data.replace(b",\n", b", \n", 1))),
    "a field occurs twice": ("statistic", _result(lambda data: data.replace(b"{\n", b'{\n "psephos_model": 1,\n', 1))),
    "two fields change places": ("statistic", model(lambda fields: fields.update(parties=fields.pop("parties")))),
    "the format of a model": ("average", published(psephos_model=2)),
    "the order of the classes": ("tally", model(lambda fields: fields["classes"].reverse())),
    "the name of a method": ("tally", published(method="plain")),
    "the encoding of a column": ("statistic", model(lambda fields: fields["encoding"]["columns"][0].update(fill=9.0))),
    "a coefficient": ("statistic", model(_moved_coefficient)),
    "a coefficient of directions of own rows": ("statistic, own data", model(_moved_coefficient)),
    "a coefficient of directions of votes": ("statistic, directions", model(_moved_coefficient)),
    "a coefficient of a descent": ("psgd", model(_moved_coefficient)),
    "a coefficient of an average of shares": ("pathak", model(_moved_coefficient)),
    "an intercept": ("statistic", model(_moved_intercept)),
    "an intercept of a descent": ("psgd", model(_moved_intercept)),
    "an intercept of an average of shares": ("pathak", model(_moved_intercept)),
    "a coefficient is no float": ("tally", model(lambda fields: fields["coefficients"][0].__setitem__(0, 1))),
    "a missing coefficient": ("average", model(lambda fields: fields["coefficients"][0].pop())),
    "the number of parties": ("tally", published(parties=PARTIES - 1)),
    "the stated epsilon": ("tally", _release("epsilon", 0.5)),
    "the stated delta": ("statistic", _release("delta", 0.0)),
    "the stated sensitivity": ("statistic", _release("sensitivity", 1e-3)),
    "the stated norm": ("statistic", _release("norm", "l2")),
    "the stated mechanism": ("psgd", _release("mechanism", "laplace")),
    "the stated unit": ("average", _release("unit", "record")),
    "the stated choices": ("pathak", _release("chosen", {"lam": 0.2})),
    "no warning of a trial": ("statistic", published(warnings=[])),
}

OF_STUDY: dict[str, tuple[str, str, str]] = {
    "the study's title": ("statistic", r'title = ".*"', 'title = "Another"'),
    "the study's epsilon": ("statistic", r"epsilon = .*", "epsilon = 2.0"),
    "the study's minimum of ballots": ("tally", r"minimum_ballots = .*", "minimum_ballots = 2"),
    "the study's confirmations": ("tally", r"confirmations = .*", "confirmations = 2"),
    "the study's proofs": ("tally", r'proofs = ".*"', 'proofs = "knowledge"'),
    "the study's samples": ("average", r'public_table = ".*"', f'public_table = "{"00" * 32}"'),
    "the study's parameters": ("pathak", r"smallest_size = .*", "smallest_size = 7"),
    "a holder of the study": ("statistic", r"holder = 3", "holder = 0"),
    "the study's format": ("statistic", r"psephos_study = 2", "psephos_study = 1"),
}
"""What study, and a pattern of its file with what it is replaced by."""
