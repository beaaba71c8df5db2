"""Changes of recorded studies, each of which a verifier must refuse.

Somebody without keys changes entries; a member signs what it changes, and everybody what they post behind it, so that
only what was changed can be wrong.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np

from psephos.data.feature_map import FeatureMap
from psephos.protocol.board.history import Head
from psephos.protocol.roles import Post
from psephos.protocol.wire import HEADER_BYTES, Kind
from psephos.specs.registry import spec_of
from psephos.specs.terms import StudyTerms
from psephos.study.release import make_release
from tests.verifier.recording import PARTIES, Recording, is_a

Posts = list[tuple[str, Post]]
Edit = Callable[[bytes], bytes]
Change = Callable[[Recording], Recording]

CIPHERTEXT = 64
"""Bytes of a ciphertext under a key of 256 bits, and of a number of such a key."""
BALLOT = HEADER_BYTES + 4 + 64
"""Where the payload of a ballot begins."""
NOISE = HEADER_BYTES + 1
"""Where that of the noise of a holder begins."""

# -- edits of bytes; a negative place counts from the end


def bit(place: int) -> Edit:
    """One bit of the byte at a place."""
    return lambda data: data[: place % len(data)] + bytes([data[place] ^ 1]) + data[place % len(data) + 1 :]


def put(place: int, value: bytes) -> Edit:
    """Other bytes from a place on."""
    return lambda data: data[: place % len(data)] + value + data[place % len(data) + len(value) :]


def unchanged(data: bytes) -> bytes:
    return data


def longer(data: bytes) -> bytes:
    return data + b"\0"


def shorter(data: bytes) -> bytes:
    return data[:-1]


# -- entries


def entries(change: Callable[[list[bytes], int], object]) -> Change:
    """Change the list of entries; the function gets the list and the place of the second ballot."""

    def apply(recording: Recording) -> Recording:
        changed = list(recording.entries)
        change(changed, places(recording.posts(), Kind.BALLOT)[1])
        return recording.with_entries(changed)

    return apply


def _swap(board: list[bytes], place: int) -> None:
    board[place], board[place + 1] = board[place + 1], board[place]


def last(edit: Edit) -> Change:
    """Change the last entry, the result, which its author does not sign again."""
    return lambda recording: recording.with_entries((*recording.entries[:-1], edit(recording.entries[-1])))


def resigned(**fields: Any) -> Change:
    """The author of the last entry signs it with other fields."""

    def apply(recording: Recording) -> Recording:
        entry = recording.decoded[-1]
        given = {name: value(entry) if callable(value) else value for name, value in fields.items()}
        signed = replace(entry, **given).signed(recording.made.keys[entry.author])
        return recording.with_entries((*recording.entries[:-1], signed.encode()))

    return apply


def _second_in_one_place(recording: Recording) -> Recording:
    entry, client = recording.decoded[-1], recording.made.board_client("curator")
    for number, data in enumerate(recording.entries, 1):
        client.check(number, data)
    other = replace(entry, phase="another", head=client.head).signed(recording.made.keys[entry.author])
    return recording.with_entries((*recording.entries, other.encode()))


# -- messages, on a board that everybody signs again


def messages(change: Callable[[Recording, Posts], Posts | None]) -> Change:
    """Change the messages; everybody signs what then stands on the board."""

    def apply(recording: Recording) -> Recording:
        posts = recording.posts()
        changed = change(recording, posts)
        return recording.signed_again(posts if changed is None else changed)

    return apply


def places(posts: Posts, kind: Kind) -> list[int]:
    return [place for place, (_, post) in enumerate(posts) if is_a(post, kind)]


def edited(kind: Kind, edit: Edit, which: Sequence[int] | None = (0,), **fields: Any) -> Change:
    """Change messages of a kind, the first one or all (None), and fields of what is posted."""

    def change(recording: Recording, posts: Posts) -> None:
        found = places(posts, kind)
        for place in found if which is None else [found[number] for number in which]:
            author, post = posts[place]
            posts[place] = (
                fields.get("author", author),
                replace(post, data=edit(post.data), receiver=fields.get("receiver", post.receiver)),
            )

    return messages(change)


def without(kind: Kind, count: int = 1) -> Change:
    """Leave out the first messages of a kind."""

    def change(recording: Recording, posts: Posts) -> Posts:
        left_out = places(posts, kind)[:count]
        return [one for place, one in enumerate(posts) if place not in left_out]

    return messages(change)


def moved(kind: Kind, other: Kind, behind: int) -> Change:
    """Move the first message of a kind behind, or before, the first one of another."""

    def change(recording: Recording, posts: Posts) -> None:
        place = places(posts, kind)[0]
        posts.insert(places(posts, other)[0] + behind, posts.pop(place))

    return messages(change)


def repeated(kind: Kind, edit: Edit = unchanged) -> Change:
    """The author of the first message of a kind posts it again, changed, in the place of the next author's."""

    def change(recording: Recording, posts: Posts) -> None:
        first, second = places(posts, kind)[:2]
        author, post = posts[first]
        posts[second] = author, replace(post, data=edit(post.data))

    return messages(change)


def _without_a_join(recording: Recording, posts: Posts) -> Posts:
    return [(author, post) for author, post in posts if author != "holder 3" or not is_a(post, Kind.JOINED)]


def ballot(edit: Edit, of: int = 1) -> Change:
    """The second party takes ciphertexts and proof of a ballot, changes them, and signs them."""

    def change(recording: Recording, posts: Posts) -> None:
        found = places(posts, Kind.BALLOT)
        author, post = posts[found[1]]
        payload, party = edit(posts[found[of]][1].data[BALLOT:]), post.data[HEADER_BYTES : HEADER_BYTES + 4]
        content = b"psephos ballot\0" + post.data[9:HEADER_BYTES] + party + hashlib.sha256(payload).digest()
        signature = recording.made.keys[f"party {int.from_bytes(party, 'big')}"].sign(content)
        posts[found[1]] = author, replace(post, data=post.data[: BALLOT - 64] + signature + payload)

    return messages(change)


def noise(edit: Edit) -> Change:
    """The first holder posts other ciphertexts and another proof."""
    return edited(Kind.NOISE_BALLOT, lambda data: data[:NOISE] + edit(data[NOISE:]))


def _ballot_as_noise(recording: Recording, posts: Posts) -> None:
    """The first holder, who is party 0, posts its ballot once more."""
    place, of_party = places(posts, Kind.NOISE_BALLOT)[0], places(posts, Kind.BALLOT)[0]
    author, post = posts[place]
    posts[place] = author, replace(post, data=post.data[:NOISE] + posts[of_party][1].data[BALLOT:])


def flooded(room: int) -> Change:
    """Party 4 posts junk before its ballot, so that so many bytes of its limit are left behind the ballot."""

    def change(recording: Recording, posts: Posts) -> None:
        at = next(place for place in places(posts, Kind.BALLOT) if posts[place][0] == "party 4")
        own = sum(len(entry.encode()) for entry in recording.decoded if entry.author == "party 4")
        junk = Post("board", b"", posts[at][1].phase)
        own += len(recording.made.board_client("party 4").sign(junk))
        limit = recording.made.study.members.limits["party 4"]
        posts.insert(at, ("party 4", replace(junk, data=bytes(limit - own - room))))

    return messages(change)


# -- results


def model(change: Callable[[dict[str, Any]], object]) -> Change:
    """The curator publishes a changed model, written as a model is."""

    def edit(data: bytes) -> bytes:
        fields = json.loads(data[HEADER_BYTES:])
        change(fields)
        lines = [f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items()]
        return data[:HEADER_BYTES] + ("{\n" + ",\n".join(lines) + "\n}\n").encode()

    return edited(Kind.RESULT, edit)


def at(*where: Any, to: Any) -> Callable[[Any], None]:
    """Another value at a place within lists and objects."""

    def change(fields: Any) -> None:
        for name in where[:-1]:
            fields = fields[name]
        fields[where[-1]] = to(fields[where[-1]]) if callable(to) else to

    return change


def stated(*where: Any, to: Any) -> Change:
    """The model states another value at a place within it."""
    return model(at(*where, to=to))


def weight(row: int, place: int) -> Change:
    """A weight of the classifier of scaled rows moves by the least that a rounded one can."""

    def apply(recording: Recording) -> Recording:
        study, samples = recording.made.study, recording.samples
        w = np.atleast_2d(spec_of(StudyTerms(study, samples)).release(recording.opened)[0]).copy()
        step = math.ldexp(1.0, math.frexp(float(np.abs(w).max()))[1] - 24)
        w[row, place] += step
        coefficients, intercepts = samples.scaler.fold(np.rint(w / step) * step + 0.0)
        published: dict[str, Any] = {"coefficients": coefficients.tolist(), "intercepts": intercepts.tolist()}
        if study.predicts_number:
            low, high = (float(study.parameters[name]) for name in ("low", "high"))
            published = {
                "coefficients": coefficients[0].tolist(),
                "intercept": float(intercepts[0] + low + (high - low) / 2),
            }
        return model(lambda fields: fields.update(published))(recording)

    return apply


def edited_map(recording: Recording, change: Callable[[Any], object]) -> str:
    """The map of a study, changed."""
    fields = json.loads(str(recording.made.study.parameters["map"]))
    change(fields)
    return json.dumps(fields)


def by_map(change: Callable[[Any], object]) -> Change:
    """The curator computes a release with another map than the study's, and states the study's."""

    def apply(recording: Recording) -> Recording:
        study, other = recording.made.study, msgspec.json.decode(edited_map(recording, change), type=FeatureMap)
        fields = json.loads(make_release(study, recording.samples.mapped(other, study.classes), recording.opened))
        return model(lambda own: own.update({name: fields[name] for name in ("coefficients", "intercepts")}))(recording)

    return apply


def _nearest(number: float) -> float:
    return math.nextafter(number, math.inf)


def _two_results(recording: Recording, posts: Posts) -> None:
    author, post = posts[places(posts, Kind.RESULT)[0]]
    posts.append((author, replace(post, data=post.data.replace(b'"parties": 5', b'"parties": 4'))))


_key, _posted_ballot = partial(edited, Kind.PUBLIC_KEY), partial(edited, Kind.BALLOT)
_confirmation, _opening = partial(edited, Kind.CONFIRMATION), partial(edited, Kind.PARTIAL_DECRYPTION)
_published_sum, _share = partial(edited, Kind.PUBLISHED_SUM), partial(edited, Kind.PUBLISHED_SHARE)
_result = partial(edited, Kind.RESULT)
_THETA, _BASE = HEADER_BYTES + CIPHERTEXT + 16, HEADER_BYTES + 2 * CIPHERTEXT + 16
_ZEROS = bytes(CIPHERTEXT)


def _other(number: int) -> int:
    return number ^ 1


_TREE, _DRAWN = ("blocks", 0, "trees", 0), ("blocks", 0, "drawn")
_leaf, _phase = at(*_TREE, 2, 0, to=_other), at("blocks", 3, "phases", 0, to=_other)
MAPS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "a mean": ("mapped record", at("means", 0, to=0.25)),
    "a column": ("mapped record", at(*_TREE, 0, 0, to=lambda column: (column + 1) % 3)),
    "a threshold": ("mapped record", at(*_TREE, 1, 0, to=lambda threshold: threshold + 400)),
    "a leaf": ("mapped record", _leaf),
    "a bit of drawn rows": ("mapped record", at(*_DRAWN, 0, to=lambda text: f"{int(text, 16) ^ 1:x}")),
    "a row that all trees have drawn": ("mapped record", at(*_DRAWN, to=lambda drawn: ["1"] * len(drawn))),
    "no drawn rows": ("mapped record", at(*_DRAWN, to=[])),
    "a point": ("mapped statistic", at("blocks", 1, "points", 0, 0, to=_other)),
    "a rate": ("mapped statistic", at("blocks", 1, "rate", to=100)),
    "a direction": ("mapped statistic", at("blocks", 2, "directions", 0, 0, to=-5000)),
    "a phase": ("mapped statistic", _phase),
}
IMPOSSIBLE_MAPS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "no map": ("mapped record", lambda fields: fields.clear()),
    "other columns": ("mapped record", lambda fields: [fields[name].append(1.0) for name in ("means", "deviations")]),
    "a drawn row too many": ("mapped record", at(*_DRAWN, 0, to=f"{1 << 53:x}")),
    "a line feed behind drawn rows": ("mapped record", at(*_DRAWN, 0, to="1\n")),
    "a point beyond the clip": ("mapped statistic", at("blocks", 1, "points", 0, 0, to=16385)),
    "an integer as a float": ("mapped statistic", at("blocks", 3, "phases", 0, to=5.0)),
    "a deviation that is not finite": ("mapped record", at("deviations", 0, to=math.inf)),
    "many columns": ("mapped record", lambda fields: fields["blocks"].append(_many)),
}
_many = {"kind": "forest", "gives": "trees", "width": 60, "trees": [[[-1], [], [1] * 60]] * 167}
CHANGES: dict[str, tuple[str, Change]] = {
    "an entry is left out": ("statistic", entries(lambda board, place: board.pop(place))),
    "two entries change places": ("statistic", entries(_swap)),
    "an entry is replaced by an empty one": ("average", entries(lambda board, place: board.__setitem__(place, b""))),
    "an entry lacks its last byte": ("statistic", last(shorter)),
    "an entry has a byte too many": ("statistic", last(longer)),
    "a bit of a signature": ("statistic", last(bit(-1))),
    "a bit of an entry's first bytes": ("statistic", last(bit(0))),
    "a bit of a message": ("statistic", last(bit(-100))),
    "an unknown author": ("statistic", resigned(author=lambda entry: "curators")),
    "the root that an author has read": ("statistic", resigned(head=lambda entry: Head(entry.head.size, bytes(32)))),
    "more read than there is": ("statistic", resigned(head=lambda entry: Head(1000, entry.head.root))),
    "an author leaves out a place": ("statistic", resigned(place=lambda entry: entry.place + 1)),
    "an author signs two entries in one place": ("statistic", _second_in_one_place),
    "the result is signed for another study": ("statistic", resigned(session=bytes(32))),
    "a sealed result": ("pathak", resigned(secret=True, receiver="party 0")),
    "a holder has not joined": ("statistic", messages(_without_a_join)),
    "a sealing key of small order": ("statistic", edited(Kind.JOINED, put(-32, bytes(32)))),
    "a sealing key outside the field": ("statistic", edited(Kind.JOINED, put(HEADER_BYTES, b"\xff" * 3))),
    "the version of a frame": ("statistic", _posted_ballot(bit(7))),
    "the kind of a message": ("statistic", _posted_ballot(put(8, b"\x05"))),
    "a message of another session": ("statistic", _posted_ballot(bit(9))),
    "a ballot for the curator alone": ("statistic", _posted_ballot(unchanged, receiver="curator")),
    # keys
    "one holder publishes another key": ("statistic", _key(bit(-1))),
    "an even modulus": ("average", _key(bit(HEADER_BYTES + CIPHERTEXT - 1), None)),
    "a modulus that is too short": ("average", _key(put(HEADER_BYTES + CIPHERTEXT // 2, b"\0"), None)),
    "theta is 0": ("statistic", _key(put(_THETA, _ZEROS), None)),
    "the base of the verification values is 0": ("psgd", _key(put(_BASE, _ZEROS), None)),
    "a key has a byte too many": ("statistic", _key(longer, None)),
    "a key for another study": ("statistic", _key(bit(9), None)),
    # ballots
    "a ballot of an unknown party": ("statistic", _posted_ballot(put(HEADER_BYTES, PARTIES.to_bytes(4, "big")))),
    "a bit of a ballot's signature": ("statistic", _posted_ballot(bit(HEADER_BYTES + 4))),
    "a bit of a ciphertext": ("statistic", ballot(bit(0))),
    "a ciphertext is 0": ("average", ballot(put(0, _ZEROS))),
    "a ciphertext is not below the modulus": ("average", ballot(put(0, b"\xff" * CIPHERTEXT))),
    "a ballot is too short": ("average", ballot(lambda data: data[: CIPHERTEXT - 1])),
    "a ballot is copied from another party": ("statistic", ballot(unchanged, of=0)),
    "a party votes twice": ("statistic", repeated(Kind.BALLOT)),
    "a ballot after the close": ("average", moved(Kind.BALLOT, Kind.CLOSE, 0)),
    # proofs of knowledge; under a key of 256 bits they have 1 + 64 + 65 + 65 bytes
    "the mode of a proof of knowledge is another": ("statistic", ballot(bit(-195))),
    "the mode of a proof of knowledge is 3": ("average", ballot(put(-195, b"\3"))),
    "A of a proof of knowledge is 0": ("psgd", ballot(put(-194, _ZEROS))),
    "z of a proof of knowledge is not below n^s": ("statistic", ballot(bit(-66))),
    "w of a proof of knowledge": ("own data", ballot(bit(-65))),
    "a proof of knowledge has a byte too many": ("statistic", ballot(longer)),
    # proofs of validity, behind one ciphertext
    "the first root of a proof of validity": ("tally", ballot(bit(CIPHERTEXT))),
    "A of a proof of validity is 0": ("tally", ballot(put(CIPHERTEXT + 64, _ZEROS))),
    "w of a proof of validity": ("tally", ballot(bit(2 * CIPHERTEXT + 64 + 59))),
    "a proof of validity has a byte too many": ("tally", ballot(longer)),
    "a proof of validity lacks a hash": ("tally", ballot(lambda data: data[:-32])),
    # noise of the holders
    "the noise of a holder is missing": ("holders", without(Kind.NOISE_BALLOT)),
    "noise in the name of another holder": ("holders", edited(Kind.NOISE_BALLOT, put(HEADER_BYTES, b"\2"))),
    "a party adds noise": ("holders", edited(Kind.NOISE_BALLOT, unchanged, author="party 4")),
    "a holder adds noise twice": ("holders", repeated(Kind.NOISE_BALLOT)),
    "noise after the close": ("holders", moved(Kind.NOISE_BALLOT, Kind.CLOSE, 0)),
    "noise with another ciphertext": ("holders", noise(bit(0))),
    "a ballot as noise": ("holders", messages(_ballot_as_noise)),
    # close, confirmations, partial decryptions
    "a party closes the vote": ("statistic", edited(Kind.CLOSE, unchanged, author="party 0")),
    "the vote is closed before there are enough ballots": ("statistic", moved(Kind.CLOSE, Kind.BALLOT, 1)),
    "the vote is not closed": ("tally", without(Kind.CLOSE)),
    "a close has a byte too many": ("statistic", edited(Kind.CLOSE, longer)),
    "a holder confirms another product": ("statistic", _confirmation(bit(HEADER_BYTES))),
    "a holder confirms in another's name": ("statistic", _confirmation(unchanged, (1,), author="holder 1")),
    "a holder confirms twice": ("statistic", repeated(Kind.CONFIRMATION)),
    "a confirmation has a byte too many": ("statistic", _confirmation(longer)),
    "two partial decryptions are missing": ("statistic", without(Kind.PARTIAL_DECRYPTION, 2)),
    "a holder opens twice": ("statistic", repeated(Kind.PARTIAL_DECRYPTION)),
    "a partial decryption of another product": ("psgd", _opening(bit(HEADER_BYTES), None)),
    "a holder opens in another's name": ("statistic", _opening(unchanged, author="holder 3")),
    "values of partial decryptions": ("statistic", _opening(bit(HEADER_BYTES + 33), None)),
    "values of partial decryptions are 0": ("statistic", _opening(put(HEADER_BYTES + 33, _ZEROS), None)),
    # the proof of a partial decryption: a, b, and z of 144 bytes
    "z of proofs of partial decryptions": ("statistic", _opening(bit(-144), None)),
    "partial decryptions lack their last byte": ("statistic", _opening(shorter, None)),
    # descents
    "an announced point": ("psgd", edited(Kind.ANNOUNCEMENT, bit(-1), (1,))),
    "a longer point": ("psgd", edited(Kind.ANNOUNCEMENT, lambda data: data + bytes(8), (1,))),
    "the number of an announced step": ("psgd", edited(Kind.ANNOUNCEMENT, put(HEADER_BYTES, b"\0\0\0\2"))),
    "a party announces a step": ("psgd", edited(Kind.ANNOUNCEMENT, unchanged, author="party 0")),
    "the nonce of an announced step": ("psgd", edited(Kind.ANNOUNCEMENT, bit(HEADER_BYTES + 4))),
    "all holders publish another sum": ("psgd", _published_sum(bit(-1), None)),
    "a published sum is out of range": ("psgd", _published_sum(put(HEADER_BYTES + 5, b"\x7f\xff\xff"), None)),
    "published sums have a byte too many": ("psgd", _published_sum(longer, None)),
    "the last sum is not published": ("psgd", _published_sum(bit(9), (-1, -2, -3))),
    # shares of an average
    "an entry of a share": ("pathak", _share(bit(-5))),
    "an entry of a share is out of range": ("pathak", _share(put(HEADER_BYTES, b"\xff"))),
    "a share has a byte too many": ("pathak", _share(longer)),
    "a share is missing": ("pathak", without(Kind.PUBLISHED_SHARE)),
    "a role publishes two shares": ("pathak", repeated(Kind.PUBLISHED_SHARE)),
    # results
    "a party publishes the result": ("statistic", _result(unchanged, author="party 0")),
    "two results of an exact sum": ("tally", messages(_two_results)),
    "no result": ("pathak", without(Kind.RESULT)),
    "a result that is no JSON": ("tally", _result(shorter)),
    "a space in a model": ("statistic", _result(lambda data: data.replace(b",\n", b", \n", 1))),
    "a field occurs twice": ("statistic", _result(lambda data: data.replace(b"{\n", b'{\n "psephos_model": 1,\n', 1))),
    "two fields change places": ("statistic", model(lambda fields: fields.update(parties=fields.pop("parties")))),
    "a field more": ("evaluation", model(lambda fields: fields.update(calibration=[1.0, 0.0]))),
    "the format of a model": ("average", stated("psephos_model", to=2)),
    "the order of the classes": ("tally", stated("classes", to=["b", "a", "c"])),
    "the name of a method": ("tally", stated("method", to="plain")),
    "the encoding of a column": ("statistic", stated("encoding", "columns", 0, "fill", to=9.0)),
    "a number of an encoding is no float": ("statistic", stated("encoding", "columns", 1, "fill", to=0)),
    "a threshold of a stated map": ("mapped record", stated("encoding", "map", *_TREE, 1, 0, to=_other)),
    "a model without its map": ("mapped record", model(lambda fields: fields["encoding"].pop("map"))),
    "a map that a study lacks": ("statistic", stated("encoding", "map", to=None)),
    "a coefficient is no float": ("tally", stated("coefficients", 0, 0, to=1)),
    "a missing coefficient": ("average", model(lambda fields: fields["coefficients"][0].pop())),
    "a class is missing": ("tally", model(lambda fields: fields["coefficients"].pop())),
    "an intercept is missing": ("tally", model(lambda fields: fields["intercepts"].pop())),
    "the number of parties": ("tally", stated("parties", to=PARTIES - 1)),
    "no warning of a trial": ("statistic", stated("warnings", to=[])),
    "a smaller epsilon": ("tally", stated("release", "epsilon", to=0.5)),
    "a larger epsilon": ("statistic", stated("release", "epsilon", to=1 + 1e-11)),
    "an epsilon that is no float": ("statistic", stated("release", "epsilon", to=1)),
    "the stated delta": ("statistic", stated("release", "delta", to=0.0)),
    "the stated sensitivity": ("record", stated("release", "sensitivity", to=1e-3)),
    "the stated norm": ("statistic", stated("release", "norm", to="l2")),
    "the stated mechanism": ("holders", stated("release", "mechanism", to="discrete Laplace in shares")),
    "the stated unit": ("average", stated("release", "unit", to="record")),
    "the stated signal": ("record", stated("release", "said", to="private")),
    "the stated choices": ("pathak", stated("release", "chosen", "lam", to=0.2)),
    "persons are not named": ("record, persons", model(lambda fields: fields["release"]["chosen"].pop("persons"))),
    "another unit is said to be protected": ("evaluation", stated("release", "protects", "kind", to="party")),
    "a field of the release more": ("record", stated("release", "more", to=1.0)),
    # predictions of numbers
    "the ranges": ("regression", stated("ranges", 0, 1, to=_nearest)),
    "the bounds": ("evaluation, number", stated("bounds", 1, to=_nearest)),
    "the label": ("evaluation, number", stated("label", to="days")),
    "the task": ("regression", stated("task", to="classification")),
    "the intercept is relative to the middle": ("regression", stated("intercept", to=lambda number: number - 1000.0)),
    # what an evaluated model has cost
    "an earlier release is cheaper": ("evaluation, earlier releases", stated("earlier", 2, "epsilon", to=1.0)),
    "costs together": ("evaluation, earlier releases", stated("together", 0, "epsilon", to=5.7)),
    "no earlier releases": (
        "evaluation, earlier releases",
        model(lambda fields: fields.update(earlier=[], together=[])),
    ),
    "earlier releases of nothing": ("evaluation", model(lambda fields: fields.update(earlier=[], together=[]))),
    # classifiers
    "a coefficient": ("statistic", stated("coefficients", 0, 0, to=_nearest)),
    "an intercept": ("psgd", stated("intercepts", 0, to=_nearest)),
    "a coefficient of an average of shares": ("pathak", stated("coefficients", 0, 0, to=_nearest)),
    "a weight of a statistic": ("own data", weight(0, 1)),
    "a weight of three classes": ("statistic, three classes", weight(2, 0)),
    "the weight of the constant of three classes": ("whitened, three classes", weight(1, -1)),
    "a weight of a record step": ("record", weight(0, 1)),
    "a weight of a record step of three classes": ("record, three classes", weight(2, 2)),
    "a weight of a regression": ("regression, parties", weight(0, -1)),
    "a weight that was evaluated": ("evaluation", weight(0, 2)),
    "a calibrated weight": ("evaluation, calibrated", weight(0, 1)),
    "a weight of an evaluated prediction": ("evaluation, number", weight(0, 1)),
    "a weight of a rehearsed step": ("rehearsed, two classes", weight(0, 1)),
    "a weight of a mean of heads": ("head", weight(2, 1)),
    "a weight of a mean of heads of two classes": ("head, two classes", weight(0, -1)),
    "public rows are mapped as private ones": ("mapped record", by_map(at(*_DRAWN, to=[]))),
    "a leaf of the map of a release": ("mapped record", by_map(_leaf)),
    "a phase of the map of a release": ("mapped statistic", by_map(_phase)),
}

OF_STUDY: dict[str, tuple[str, str, str]] = {
    "title": ("statistic", r'title = ".*"', 'title = "Another"'),
    "epsilon": ("statistic", r"epsilon = .*", "epsilon = 2.0"),
    "minimum of ballots": ("tally", r"minimum_ballots = .*", "minimum_ballots = 2"),
    "samples": ("average", r'public_table = ".*"', f'public_table = "{"00" * 32}"'),
    "parameters": ("pathak", r"smallest_size = .*", "smallest_size = 7"),
    "a radius": ("head", r"radius = 1.75", "radius = 1.5"),
    "a holder": ("statistic", r"holder = 3", "holder = 0"),
    "format": ("statistic", r"psephos_study = \d", "psephos_study = 1"),
    "protocol": ("record", r'protocol = "record"', 'protocol = "shuffle"'),
}
"""What study, and a pattern of its file with what it is replaced by."""
