"""The study file, the entries of a board and the common frame of messages, by sections 1 to 4 of docs/wire.md."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from numpy.typing import NDArray

Array = NDArray[np.float64]

KINDS = {
    "ballot": 1,
    "tally request": 2,
    "partial decryption": 3,
    "close": 4,
    "confirmation": 5,
    "noise ballot": 6,
    "announcement": 16,
    "published sum": 17,
    "published share": 48,
    "failed ceremony": 77,
    "joined": 80,
    "public key": 81,
    "result": 82,
}
"""The numbers of the messages that a verifier reads."""

KNOWN = {*range(1, 7), 16, 17, *range(32, 49), *range(64, 78), 80, 81, 82}
TO_ONE, SECRET = {2}, {3, *range(32, 48)}
"""The kinds that are for one role, and those that nobody else may read; kind 3 is for all where sums are public."""

MAGIC, ENTRY_MAGIC = b"PSEPHOS\x02", b"PSEPHOS ENTRY\x01"
LONGEST_ENTRY = 1 << 26
MOST_FOR_THE_KEY = 1 << 30
"""What a holder may post, besides what every role may, for a key of up to 3,072 bits."""


class Refused(Exception):
    """What was read does not follow the specification."""


def sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def require(condition: object, why: str) -> None:
    if not condition:
        raise Refused(why)


def doubles(*arrays: Array) -> bytes:
    return b"".join(array.astype("<f8").tobytes() for array in arrays)


def facts(mechanism: str, unit: str, sensitivity: float, norm: str, **chosen: Any) -> dict[str, Any]:
    """What a model states of its release besides epsilon and delta; a choice that is None is not stated."""
    choices = {name: value for name, value in chosen.items() if value is not None}
    stated: dict[str, Any] = {"mechanism": mechanism, "unit": unit, "sensitivity": sensitivity, "norm": norm}
    return stated | {"said": "", "chosen": choices, "signal": None}


class Released:
    """What a model states of its release, and the classifier that follows from what was opened."""

    bounds: Sequence[float] = ()
    middle: float | None = None
    """Of a numeric label."""

    def facts(self, ballots: int) -> dict[str, Any]:
        raise NotImplementedError

    def classifier(self, sums: Sequence[int], ballots: int) -> Array | None:
        """The classifier of scaled rows, where one follows."""
        raise NotImplementedError


@dataclass
class Report:
    """What holds, what fails, what this board does not show, and who has signed what no honest member signs."""

    holds: list[str] = field(default_factory=list)
    fails: list[str] = field(default_factory=list)
    lacks: list[str] = field(default_factory=list)
    misconduct: set[str] = field(default_factory=set)

    @property
    def accepted(self) -> bool:
        """Whether nothing fails and the board shows a whole study."""
        return not self.fails and not self.lacks


class Bytes:
    """Reads fields from the front of a byte string."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        require(self.at + count <= len(self.data), "the bytes end early")
        self.at += count
        return self.data[self.at - count : self.at]

    def integer(self, count: int) -> int:
        return int.from_bytes(self.take(count), "big")

    def text(self) -> str:
        try:
            return self.take(self.integer(1)).decode()
        except UnicodeDecodeError:
            raise Refused("a text is not UTF-8") from None

    def holder(self, message: Message) -> int:
        """The number of the holder that has sent a message."""
        number = self.integer(1)
        require(message.sender == f"holder {number}", "it is another holder's")
        return number

    def rest(self) -> bytes:
        return self.take(len(self.data) - self.at)

    def end(self) -> None:
        require(self.at == len(self.data), "there are bytes after the end")


# -- the study file


TABLES = {
    "release": ("protocol", "method", "epsilon", "delta", "public"),
    "data": ("label", "classes", "features", "public_table", "samples"),
    "vote": ("minimum_ballots", "proofs", "closes", "patience"),
    "key": ("bits", "degree", "threshold", "confirmations", "trial"),
    "curator": ("name", "key"),
}
"""The tables of the canonical form, and their fields."""


def _toml_text(text: str) -> str:
    parts = (json.dumps(part, ensure_ascii=False)[1:-1] for part in text.split("\t"))
    return '"' + "\t".join(parts).replace("\x7f", "\\u007f") + '"'


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value + 0)
    if isinstance(value, str):
        return _toml_text(value)
    if not value:
        return "[]"
    return "[\n" + "".join(f"    {_toml_value(item)},\n" for item in value) + "]"


def _lines(fields: dict[str, Any]) -> str:
    text = ""
    for name, value in fields.items():
        key = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml_text(name)
        text += f"{key} = {_toml_value(value)}\n"
    return text


def _fields(table: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Fields of a table in their order, with bytes in lower case and floats as such."""
    kept = {name: table[name] for name in names if name in table}
    of_bytes = {name: bytes.fromhex(kept[name]).hex() for name in ("nonce", "key", "public_table") if name in kept}
    return kept | of_bytes | {name: float(kept[name]) for name in ("epsilon", "delta") if name in kept}


class Study:
    """The agreed terms."""

    def __init__(self, text: str) -> None:
        self.fields = fields = tomllib.loads(text)
        self.format = fields.get("psephos_study")
        require(self.format in (2, 3), "the study has another format")
        release, data, vote, key = (fields[name] for name in ("release", "data", "vote", "key"))
        self.protocol, self.method = release["protocol"], release["method"]
        self.epsilon, self.delta = float(release["epsilon"]), float(release["delta"])
        self.public, self.parameters = release["public"], release["parameters"]
        self.label, self.classes, self.features = data["label"], data["classes"], data["features"]
        self.public_table, self.samples = bytes.fromhex(data["public_table"]), data["samples"]
        self.minimum, self.proofs = vote["minimum_ballots"], vote["proofs"]
        self.bits, self.degree = key["bits"], key.get("degree", 1)
        self.threshold, self.confirmations, self.trial = key["threshold"], key["confirmations"], key["trial"]
        self.keys = {"curator": bytes.fromhex(fields["curator"]["key"])}
        self.roster = [bytes.fromhex(party["key"]) for party in fields["party"]]
        self.keys |= {f"party {number}": raw for number, raw in enumerate(self.roster)}
        for party in fields["party"]:
            if party["holder"]:
                self.keys[f"holder {party['holder']}"] = bytes.fromhex(party["key"])
        self.holders = sum(1 for party in fields["party"] if party["holder"])
        self.digest = sha256(b"psephos study\0", self.canonical().encode())
        self.predicts_number = self.protocol == "regression" or (self.protocol == "evaluation" and not self.classes)
        self.uses_key = self.protocol != "pathak"
        self.sum_is_public = self.public or self.protocol in ("psgd", "pathak")
        self.joint = self.protocol not in ("tally", "average")
        holders = [f"holder {number}" for number in range(1, self.holders + 1)]
        self.must_join = {"curator", *holders} if self.uses_key else set(self.keys)

    def canonical(self) -> str:
        given, parameters = self.fields, dict(sorted(self.parameters.items()))
        key = {name: value for name, value in given["key"].items() if (name, value) != ("degree", 1)}
        curator = {name: value for name, value in given["curator"].items() if value}
        text = _lines(_fields(given, ("psephos_study", "title", "nonce")))
        for name, fields in TABLES.items():
            table = _fields((given | {"key": key, "curator": curator})[name], fields)
            text += f"\n[{name}]\n{_lines(table)}"
            if name == "release":
                text += f"\n[release.parameters]\n{_lines(parameters)}"
        for party in given["party"]:
            text += f"\n[[party]]\n{_lines(_fields(party, ('name', 'key', 'holder')))}"
        return text

    def outweighed_by(self, roles: set[str]) -> bool:
        """Whether the board is to be doubted if these roles contradict it."""
        keys = {self.keys[role] for role in roles}
        holders = sum(self.keys[f"holder {number}"] in keys for number in range(1, self.holders + 1))
        parties = sum(raw in keys for raw in self.roster)
        unsafe = self.uses_key and 2 * self.confirmations - self.holders <= self.threshold - 1
        too_many = (self.holders > 0 and holders >= self.threshold) or 2 * parties > len(self.roster)
        return "curator" in roles or too_many or (unsafe and bool(roles))

    def nonce(self, key_digest: bytes, purpose: str) -> bytes:
        return sha256(b"psephos study nonce\0", self.digest, key_digest, purpose.encode())[:16]

    def most_bytes(self, role: str) -> int:
        """The most bytes that the entries of a role may have together."""
        entries = (self.samples + (len(self.features) + 1) ** 2) * max(2, len(self.classes))
        steps = self.parameters.get("steps", 1000 if self.protocol == "psgd" else 0)
        messages = 8 + (max(0, steps) if isinstance(steps, int) else 0) + (0 if self.uses_key else len(self.roster))
        for_the_key = MOST_FOR_THE_KEY * (-(-self.bits // 3072)) ** 3
        more = {"curator": LONGEST_ENTRY, "holder": for_the_key}.get(role.split(" ")[0], 0)
        return messages * (2**20 + 2**10 * entries) + more

    @property
    def ceremony(self) -> bytes:
        """The session of the messages of the key generation."""
        context = sha256(b"psephos study ceremony\0", self.digest)
        numbers = b"".join(number.to_bytes(4, "big") for number in (self.bits, self.holders, self.threshold))
        degree = self.degree.to_bytes(4, "big") if self.degree > 1 else b""
        return sha256(b"psephos ceremony\0", numbers, context, degree)


# -- messages


@dataclass(frozen=True)
class Message:
    """A message that the board carries in the clear."""

    number: int
    sender: str
    public: bool
    data: bytes

    @property
    def kind(self) -> int:
        """The kind's number."""
        framed = len(self.data) >= 41 and self.data[:8] == MAGIC
        return self.data[8] if framed and self.data[8] in KNOWN else 0

    @property
    def session(self) -> bytes:
        return self.data[9:41]

    def body(self, kind: str, session: bytes) -> Bytes:
        """The body, if the message is of this kind and session."""
        require(self.kind == KINDS[kind], f"it is no {kind}")
        require(self.session == session, f"the {kind} belongs to another session")
        return Bytes(self.data[41:])


# -- the log

_P = 2**255 - 19
_EIGHTH = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826


def verify_signature(key: bytes, signature: bytes, message: bytes) -> None:
    y = int.from_bytes(key, "little") & (2**255 - 1)
    require(len(key) == 32 and y < _P and y not in (0, 1, _P - 1, _EIGHTH, _P - _EIGHTH), "the key has small order")
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        raise Refused("the signature is wrong") from None


def check_sealing_key(key: bytes) -> None:
    """Check an X25519 key, or one that an ML-KEM-768 key stands before."""
    try:
        if len(key) != 32:
            MLKEM768PublicKey.from_public_bytes(key[:-32])
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(key[-32:]))
    except ValueError:
        raise Refused("a sealing key has small order, a number outside the field, or another length") from None


def _node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1", left, right)


class Log:
    """The Merkle tree hashes of all prefixes of the log (RFC 9162, section 2.1)."""

    def __init__(self) -> None:
        self.roots = [sha256(b"")]
        self._peaks: list[tuple[int, bytes]] = []

    def append(self, leaf: bytes) -> None:
        size, node = 1, leaf
        while self._peaks and self._peaks[-1][0] == size:
            node, size = _node(self._peaks.pop()[1], node), 2 * size
        self._peaks.append((size, node))
        root = node
        for _, left in reversed(self._peaks[:-1]):
            root = _node(left, root)
        self.roots.append(root)


class Board:
    """A log that was read from its beginning."""

    def __init__(self, study: Study, entries: list[bytes]) -> None:
        self.study, self.log = study, Log()
        self.messages: list[Message] = []
        self.refused: list[tuple[int, str]] = []
        self.contradicting: set[str] = set()
        self.readable: list[Message] = []
        self.joined: set[str] = set()
        self._places: dict[tuple[str, int], bytes] = {}
        self._bytes = dict.fromkeys(study.keys, 0)
        for number, data in enumerate(entries, 1):
            leaf = sha256(b"\0", data)
            self._in_clear = "", data
            try:
                self._read(number, data, leaf)
            except Refused as error:
                self.refused.append((number, str(error)))
            self.log.append(leaf)
            sender, posted = self._in_clear
            parts = (MAGIC + part for part in posted.split(MAGIC)[1:])
            self.readable += [Message(number, sender, False, part) for part in parts]
        for author in study.keys:
            places = [place for name, place in self._places if name == author]
            self.contradicting |= {author} if len(places) <= max(places, default=-1) else set()

    def _read(self, number: int, data: bytes, leaf: bytes) -> None:
        if not data:
            return
        require(len(data) <= LONGEST_ENTRY, "the entry is too long")
        fields = Bytes(data)
        require(fields.take(14) == ENTRY_MAGIC, "it is no entry")
        session, author, receiver = fields.take(32), fields.text(), fields.text()
        place, size, root = fields.integer(8), fields.integer(8), fields.take(32)
        fields.text()  # the phase
        secret = fields.integer(1)
        require(secret <= 1, "the flag is neither 0 nor 1")
        body = fields.take(fields.integer(4))
        signature = fields.take(64)
        fields.end()
        require(session == self.study.digest, "it belongs to another study")
        require(author in self.study.keys, "its author is not in the study")
        verify_signature(self.study.keys[author], signature, data[:-64])
        message = Message(number, author, receiver == "board", body)
        self._in_clear = author, body
        if (earlier := self._places.get((author, place))) is not None:
            if earlier != leaf:
                self.contradicting.add(author)
            return
        posted = self._bytes[author] + len(data)
        require(posted <= self.study.most_bytes(author), f"{author} has posted more than the study leaves it")
        if size >= len(self.log.roots) or self.log.roots[size] != root:
            self.contradicting.add(author)
            return
        self._places[author, place], self._bytes[author] = leaf, posted
        if secret and not message.public:
            return
        if message.kind:
            secret_kinds = SECRET - ({3} if self.study.sum_is_public else set())
            require(message.kind not in secret_kinds, "a secret message stands in clear")
            require(message.public == (message.kind not in TO_ONE), "a message is sent to others than it is for")
        if message.kind == KINDS["joined"]:
            self._join(message)
        if message.public:
            self.messages.append(message)

    def _join(self, message: Message) -> None:
        require(message.sender not in self.joined, "it has joined before")
        key = message.body("joined", self.study.digest).rest()
        require(len(key) > 32 or self.study.format == 2, "the sealing key is of X25519 alone")
        check_sealing_key(key)
        self.joined.add(message.sender)
