"""The study: a file that all members agree on before anything else. No later message can change its terms.

A study is written in TOML. Every entry of its board is signed together with the digest of its canonical form, so the
author has agreed to all terms. docs/config/study_page.py lists the fields.
"""

from __future__ import annotations

import hashlib
import math
import os
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import tomli_w
from msgspec import Meta, Struct

from psephos.protocol.board import MOST_BYTES
from psephos.protocol.board.client import BoardMembers
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.encrypted_sum.rounds import PROOFS, Proofs
from psephos.protocol.errors import AgreementError, InvalidParameter, MessageError, StudyError
from psephos.protocol.foreign import parse_toml, read_text
from psephos.protocol.names import confusable
from psephos.protocol.paillier.keys import MINIMUM_KEY_BITS
from psephos.protocol.paillier.threshold import ThresholdKey
from psephos.protocol.privacy.mechanisms import MAX_EPSILON, MIN_EPSILON
from psephos.protocol.signing import VerificationKey

FORMAT = 3
"""Format 2 took sealing keys of X25519 alone; 1, of Psephos 0.2, signed the scaled samples only."""

_READ_FORMATS = (2, FORMAT)

CURATOR = "curator"
"""The name of the curator's role."""


@dataclass(frozen=True)
class Member:
    """One party of a study; `holder`: its number as a key holder, from 1, or 0 if it is not one."""

    name: str
    key: VerificationKey
    holder: int = 0


_MESSAGE_BYTES = 1 << 20
"""What a role may post in a round whatever the length of its vector."""

_ENTRY_BYTES = 1 << 10
"""What a role may post in a round for each entry of its vector, proof included."""

_KEY_BYTES = 1 << 30
"""What a holder may post to make a key of up to `_KEY_BITS`: 40 times the mean of nine holders. A longer one takes
more candidates, and longer ones: the mean grows by less than the cube of the length."""

_KEY_BITS = 3072
"""Longest key that `_KEY_BYTES` suffices for."""

_MOST_STEPS = 1000
"""Steps of a gradient descent whose study does not state their number."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """The terms of a study, all public (docs/config/study_page.py lists them); StudyError if one is invalid.

    Fields whose names do not say it:
        format: a study of an earlier one can be read and verified, and not be joined any more.
        nonce: 16 random bytes, so that no two studies are the same.
        epsilon, delta: what the release costs every party.
        classes: in the order of the counts; none where the label is a number.
        public_table: SHA-256 of all that members compute from the public file (docs/wire.md, section 7), 32 bytes.
        public: whether partial decryptions, and with them the sums, are public on the board.
        closes: when the curator ends the vote if not all parties have voted before; empty if a command ends it.
        patience: seconds that the curator waits for an answer before it continues without it.
        key_bits: the length of the key's modulus; 0, as threshold and confirmations, if the protocol needs no key.
        degree: s of Damgard and Jurik's scheme, whose plaintexts are integers modulo n^s; 1 is Paillier's.
        confirmations: the number of holders who confirm a product before any opens it, at least `threshold`.
        trial: whether a key that protects nothing is allowed. Everything that shows a result says so.
        parties: in the order of their numbers.
    """

    format: int = FORMAT
    title: str
    nonce: bytes = field(repr=False)
    protocol: str
    method: str
    epsilon: float
    delta: float
    parameters: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    classes: tuple[str, ...]
    features: tuple[str, ...] = field(repr=False)
    label: str = ""
    public_table: bytes = field(repr=False)
    samples: int
    minimum_ballots: int
    proofs: Proofs = "knowledge"
    public: bool = False
    closes: str = ""
    patience: int = 600
    key_bits: int = 3072
    degree: int = 1
    threshold: int
    confirmations: int
    trial: bool = False
    curator: VerificationKey
    curator_name: str = ""
    parties: tuple[Member, ...]

    # -- validation

    def __post_init__(self) -> None:
        self._check_release()
        self._check_data()
        self._check_parties()
        self._check_texts()
        self._check_vote()
        self._check_key_terms()

    def _check_release(self) -> None:
        _require(
            type(self.format) is int and self.format in _READ_FORMATS,
            f"`psephos_study` must be {' or '.join(map(str, _READ_FORMATS))}, not {self.format!r}",
        )
        _require(self.title.strip() and is_plain_text(self.title), "`title` must be one line of 1 to 100 characters")
        _require(len(self.nonce) == 16, f"`nonce` must have 16 bytes, not {len(self.nonce)}")
        _require(
            MIN_EPSILON <= self.epsilon <= MAX_EPSILON,
            f"`epsilon` must be between {MIN_EPSILON:g} and {MAX_EPSILON:g}, not {self.epsilon:g}",
        )
        _require(0 <= self.delta < 1, f"`delta` must be in [0, 1), not {self.delta:g}")
        numbers = [value for value in self.parameters.values() if type(value) is float]
        _require(all(map(math.isfinite, numbers)), "the numbers in `parameters` must be finite")

    def _check_data(self) -> None:
        if self.predicts_number:
            _require(self.label, "a number to predict has a `label`, and no `classes`")
        else:
            _require(
                len(self.classes) >= 2 and len(set(self.classes)) == len(self.classes),
                "`classes` must be two or more different names",
            )
        _require(
            self.features and len(set(self.features)) == len(self.features),
            "`features` must be one or more different names",
        )
        _require(
            len(self.public_table) == 32, f"`public_table` must be a digest of 32 bytes, not {len(self.public_table)}"
        )
        _require(self.samples >= 1, f"`samples` must be at least 1, not {self.samples}")

    def _check_parties(self) -> None:
        _require(len(self.parties) >= 2, "a study must have at least two parties")
        names = [member.name for member in self.parties]
        if self.curator_name:
            names.append(self.curator_name)
        distinct = len(set(names)) == len(names) and confusable(names) is None
        _require(
            all(map(is_plain_text, names)) and distinct,
            "the names of the curator and the parties must be different, and visible texts of one line",
        )
        keys = [self.curator, *(member.key for member in self.parties)]
        _require(len(set(keys)) == len(keys), "the curator and the parties must have different keys")
        holders = sorted(member.holder for member in self.parties if member.holder)
        _require(
            holders == list(range(1, len(holders) + 1)),
            f"the key holders must be numbered 1, 2, 3, ..., not {', '.join(map(str, holders))}",
        )

    def _check_texts(self) -> None:
        texts = [*self.classes, *self.features, self.label, self.protocol, self.method, self.closes, *self.parameters]
        texts += [value for value in self.parameters.values() if isinstance(value, str)]
        # They are shown in the terminals of members before these agree to the study.
        _require(
            "".join(texts).isprintable() and all(text == unicodedata.normalize("NFC", text) for text in texts),
            "classes, features, label, protocol, method, closing time and parameters must be texts of one line without "
            "control characters, whose accented letters are one character each (Unicode's form NFC)",
        )

    def _check_vote(self) -> None:
        _require(self.proofs in PROOFS[1:], f"`proofs` must be {' or '.join(PROOFS[1:])} in a study, not {self.proofs}")
        _require(
            2 <= self.minimum_ballots <= len(self.parties),
            f"`minimum_ballots` must be between 2 and {len(self.parties)}, not {self.minimum_ballots}",
        )
        _require(self.patience >= 1, f"`patience` must be at least 1 second, not {self.patience}")
        _require(
            not self.closes or _is_time(self.closes),
            f"`closes` must be a time with its zone, like 2026-12-01T12:00Z, not {self.closes!r}",
        )

    def _check_key_terms(self) -> None:
        holders = sum(1 for member in self.parties if member.holder)
        fewest = max(self.threshold, holders // 2 + 1) if holders else 0
        _require(
            fewest <= self.confirmations <= holders,
            f"`confirmations` must be at least the threshold and more than half of the {holders} holders, {fewest} to "
            f"{holders}, so that no two groups open two sums; it is {self.confirmations}",
        )
        _require(
            self.uses_key or not (holders or self.key_bits or self.threshold or self.confirmations),
            "there is no key: threshold and confirmations must be 0 like `key_bits`, and no party a holder",
        )
        if self.uses_key and self.key_bits < MINIMUM_KEY_BITS and not self.trial:
            raise StudyError(
                f"a {self.key_bits}-bit key protects nothing: `key_bits` is {MINIMUM_KEY_BITS} or more, unless the "
                "study is a trial (psephos study new --trial)"
            )
        try:
            if self.uses_key:
                self.ceremony(self.nonce + bytes(16))  # only checks the terms; their context is the digest of the study
        except InvalidParameter as error:
            raise StudyError(str(error)) from None

    # -- derived values

    @property
    def predicts_number(self) -> bool:
        """Whether the label is a number, which has no classes."""
        return not self.classes

    @property
    def uses_key(self) -> bool:
        return self.key_bits > 0

    @property
    def is_series(self) -> bool:
        """Whether many sums are opened, each on the board; such a study states the sizes of the parties' data."""
        return "sizes" in self.parameters

    @property
    def sum_is_public(self) -> bool:
        """Whether the opened sum is published on the board, and not known to the curator alone."""
        return self.public or self.is_series or not self.uses_key

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the canonical text, 32 bytes. It is signed with every entry of the board."""
        return hashlib.sha256(b"psephos study\0" + self.text().encode()).digest()

    @cached_property
    def holders(self) -> tuple[str, ...]:
        return tuple(f"holder {number}" for number in range(1, 1 + sum(1 for m in self.parties if m.holder)))

    @cached_property
    def roster(self) -> tuple[VerificationKey, ...]:
        return tuple(member.key for member in self.parties)

    @cached_property
    def members(self) -> BoardMembers:
        """The roles that may post on the board: the curator, the parties, and the holders, who are parties as well."""
        keys = {CURATOR: self.curator}
        keys |= {f"party {number}": member.key for number, member in enumerate(self.parties)}
        keys |= {f"holder {member.holder}": member.key for member in self.parties if member.holder}
        limits = {name: self._byte_limit(name) for name in keys}
        return BoardMembers(self.digest, keys, limits, self.sum_is_public, x25519_suffices=self.format < FORMAT)

    def _byte_limit(self, name: str) -> int:
        """Return the most bytes of a role's entries, at least eight times what an honest role posts."""
        entries = (self.samples + (len(self.features) + 1) ** 2) * max(2, len(self.classes))
        steps = self.parameters.get("steps", _MOST_STEPS if self.is_series else 0)
        messages = 8 + (max(0, steps) if isinstance(steps, int) else 0) + (0 if self.uses_key else len(self.parties))
        limit = messages * (_MESSAGE_BYTES + _ENTRY_BYTES * entries)
        if name == CURATOR:
            limit += MOST_BYTES
        if name in self.holders:
            limit += _KEY_BYTES * max(1, -(-self.key_bits // _KEY_BITS)) ** 3
        return limit

    @cached_property
    def must_join(self) -> tuple[str, ...]:
        """The roles that must join before the study starts: those that receive secrets, and without a key all roles."""
        return (CURATOR, *self.holders) if self.uses_key else tuple(self.members.keys)

    def roles_of(self, key: VerificationKey) -> list[str]:
        """Return the names of the roles with this verification key; raises StudyError."""
        names = [name for name, member_key in self.members.keys.items() if member_key == key]
        if not names:
            raise StudyError(
                "this identity is not a member of the study: its author needs the identity's card.toml, or you have "
                "named another directory than that of the member"
            )
        return names

    def ceremony(self, context: bytes | None = None) -> CeremonyTerms:
        """Return the terms under which the holders generate the key; `context`: 32 bytes, by default this study's."""
        if context is None:
            context = hashlib.sha256(b"psephos study ceremony\0" + self.digest).digest()
        return CeremonyTerms(self.key_bits, len(self.holders), self.threshold, context, self.trial, self.degree)

    def check_key(self, key: ThresholdKey) -> None:
        """Raise AgreementError unless a key has the study's size, degree, number of holders and threshold."""
        expected = (self.key_bits, self.degree, len(self.holders), self.threshold)
        actual = (key.key.bits, key.key.degree, key.holders, key.threshold)
        if actual != expected:
            raise AgreementError(
                f"the key has size, degree, holders and threshold {actual}; the study requires {expected}"
            )

    def nonce_for(self, key: ThresholdKey | None, purpose: str = "round") -> bytes:
        """Return the nonce (16 bytes) of a round or series under a key; `purpose` distinguishes several."""
        key_digest = b"" if key is None else key.digest
        return hashlib.sha256(b"psephos study nonce\0" + self.digest + key_digest + purpose.encode()).digest()[:16]

    # -- as a file

    def text(self) -> str:
        file = _StudyFile(
            psephos_study=self.format,
            title=self.title,
            nonce=self.nonce.hex(),
            release=_table_of(self, _ReleaseTable),
            data=_table_of(self, _DataTable),
            vote=_table_of(self, _VoteTable),
            key=_table_of(self, _KeyTable),
            curator=_CuratorTable(name=self.curator_name, key=self.curator.raw.hex()),
            party=[
                _PartyTable(name=party.name, key=party.key.raw.hex(), holder=party.holder) for party in self.parties
            ],
        )
        return tomli_w.dumps(msgspec.to_builtins(file))

    @classmethod
    def parse(cls, text: str) -> Study:
        """Parse TOML in any layout; raises StudyError."""
        try:
            document = parse_toml(text)
        except ValueError as error:
            raise StudyError(f"this is not a study, because it is not TOML: {error}") from None
        if (version := document.get("psephos_study")) not in _READ_FORMATS:
            reader = "Psephos 0.2 reads it" if version == 1 else f"this version of Psephos reads format {FORMAT}"
            raise StudyError(f"this is a study of format {version!r}: {reader}")
        try:
            file = msgspec.convert(document, _StudyFile)
        except msgspec.ValidationError as error:
            raise StudyError(f"a field of the study is wrong: {error}") from None
        tables = (file.release, file.data, file.vote, file.key)
        terms = {name: getattr(table, name) for table in tables for name in table.__struct_fields__}
        terms["public_table"] = _from_hex("public_table", file.data.public_table)
        return cls(
            format=file.psephos_study,
            title=file.title,
            nonce=_from_hex("nonce", file.nonce),
            curator=_verification_key(file.curator.key),
            curator_name=file.curator.name,
            parties=tuple(Member(party.name, _verification_key(party.key), party.holder) for party in file.party),
            **terms,
        )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Study:
        try:
            return cls.parse(read_text(path, MOST_BYTES))
        except OSError as error:
            raise StudyError(f"{path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise StudyError(f"{path} is not a study, because it is not text") from None

    def write(self, path: str | os.PathLike[str]) -> None:
        try:
            with Path(path).open("x", encoding="utf-8") as file:
                file.write(self.text())
        except FileExistsError:
            raise StudyError(f"{path} exists already; name another file") from None
        except OSError as error:
            raise StudyError(f"{path} cannot be written: {error.strerror}") from None


def is_plain_text(name: str) -> bool:
    """Return whether a name or title is one line of 1 to 100 visible characters without spaces around it."""
    return 0 < len(name) <= 100 and name.isprintable() and name == unicodedata.normalize("NFC", name.strip())


def _require(condition: object, message: str) -> None:
    if not condition:
        raise StudyError(message)


def _is_time(text: str) -> bool:
    try:
        time = datetime.fromisoformat(text)
        return time.tzinfo is not None and time.timestamp() > 0
    except (ValueError, OverflowError):
        return False


def _table_of(study: Study, table: type[_T]) -> _T:
    return table(**{name: _written(name, getattr(study, name)) for name in table.__struct_fields__})


def _written(name: str, value: Any) -> Any:
    """Return a term as it is written: 0.0 for -0.0, which is equal to it and must not change the digest."""
    if isinstance(value, Mapping):
        return {key: _written(key, inner) for key, inner in sorted(value.items())}
    if type(value) is float or name in ("epsilon", "delta"):
        return float(value) + 0.0
    return value.hex() if isinstance(value, bytes) else value


def _from_hex(name: str, text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise StudyError(f"`{name}` must be written in hexadecimal digits") from None


def _verification_key(text: str) -> VerificationKey:
    try:
        return VerificationKey(_from_hex("key", text))
    except MessageError as error:
        raise StudyError(str(error)) from None


# -- the tables of a study's file

_T = TypeVar("_T", bound=Struct)

_Integer = Annotated[int, Meta(ge=-(2**63) + 1, le=2**63 - 1)]
"""TOML's integers have 64 bits."""


class _Table(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A table of required fields. Those of the terms are fields of `Study`, in the order of the canonical form."""


class _ReleaseTable(_Table):
    protocol: str
    method: str
    epsilon: float
    delta: float
    public: bool
    parameters: dict[str, bool | _Integer | float | str]


class _DataTable(_Table):
    label: str
    classes: tuple[str, ...]
    features: tuple[str, ...]
    public_table: str
    samples: _Integer


class _VoteTable(_Table):
    minimum_ballots: _Integer
    proofs: str
    closes: str
    patience: _Integer


class _KeyTable(_Table, kw_only=True):
    key_bits: _Integer = msgspec.field(name="bits")
    degree: _Integer = 1
    threshold: _Integer
    confirmations: _Integer
    trial: bool


class _CuratorTable(_Table, kw_only=True):
    name: str = ""
    key: str


class _PartyTable(_Table):
    name: str
    key: str
    holder: _Integer


class _StudyFile(_Table):
    psephos_study: _Integer
    title: str
    nonce: str
    release: _ReleaseTable
    data: _DataTable
    vote: _VoteTable
    key: _KeyTable
    curator: _CuratorTable
    party: list[_PartyTable]
