"""The study: one file that everybody signs first. What it fixes, no message can change.

A study is written in TOML, in one canonical form with a digest; comments, order and white space do not count. Every
entry on its board is signed together with the digest, so that whoever says anything has agreed to all of it. Rounds and
series derive from it and from the key that its holders make; docs/study.md lists the fields.
"""

from __future__ import annotations

import hashlib
import math
import os
import tomllib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import tomli_w

from psephos.protocol.board.client import BoardMembers
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.encrypted_sum.rounds import PROOFS, Proofs
from psephos.protocol.errors import AgreementError, InvalidParameter, MessageError, StudyError
from psephos.protocol.paillier.threshold import ThresholdKey
from psephos.protocol.privacy.mechanisms import MAX_EPSILON, MIN_EPSILON
from psephos.protocol.signing import VerificationKey

__all__ = ["CURATOR", "Member", "ProtocolName", "Study", "is_plain_text", "safe_confirmations"]

FORMAT = 1
CURATOR = "curator"
"""The name of the curator's role."""

ProtocolName = Literal["tally", "statistic", "average", "psgd", "pathak"]
_PROTOCOLS: tuple[str, ...] = get_args(ProtocolName)


def safe_confirmations(holders: int, threshold: int) -> int:
    """How many of n holders must confirm a product so that t - 1 liars and any board cannot have two opened.

    Two sets of q holders share at least 2q - n, of whom t - 1 may lie: q is the smallest with 2q - n > t - 1.

    Examples:
        >>> safe_confirmations(holders=5, threshold=3)
        4
    """
    return (holders + threshold - 1) // 2 + 1


@dataclass(frozen=True)
class Member:
    """One party: its name, its identity, and the number of the key holder that it also is, 0 for none."""

    name: str
    key: VerificationKey
    holder: int = 0


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is agreed on. All of it is public, but for what `auxiliary` is a digest of where that is protected.

    Attributes:
        title: what people call it.
        nonce: 16 random bytes, so that no two studies are the same.
        protocol: what is computed: "tally" (counts of votes), "statistic" (sums with joint noise), "average" (sums of
            parameters or of own data), "psgd", "pathak".
        method: what is released of it, such as "statistic" or "soft".
        epsilon, delta: what the release costs every party.
        parameters: what else the protocol is given (noise, lambda, steps, ...): numbers, texts and flags by name.
        classes: in the order of the counts.
        features: names of the columns, in order.
        label: name of the column with the classes.
        auxiliary: SHA-256 of the auxiliary samples as `AuxiliarySet` makes it, 32 bytes.
        samples: how many these are.
        minimum_ballots: no fewer are opened.
        proofs: what every ballot proves.
        public: whether partial decryptions, and with them the sums, stand on the board for everybody. Where the curator
            adds the noise they may not.
        closes: when the curator ends the vote, if not everybody has voted before; empty: when it is told to.
        patience: seconds that the curator waits for an answer before it goes on without.
        key_bits, threshold, degree: of the key that the holders make.
        confirmations: how many holders confirm a product before any opens it; at least t. This, key_bits and threshold
            are 0 where the protocol needs no key; then nobody is a holder.
        trial: allows a key that protects nothing. Everything that shows a result says so.
        curator: its identity.
        parties: the roster; a party is its place in it.

    Raises StudyError for anything that nobody should sign.
    """

    title: str
    nonce: bytes = field(repr=False)
    protocol: ProtocolName
    method: str
    epsilon: float
    delta: float
    parameters: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    classes: tuple[str, ...]
    features: tuple[str, ...] = field(repr=False)
    label: str = ""
    auxiliary: bytes = field(repr=False)
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
    parties: tuple[Member, ...]

    def __post_init__(self) -> None:
        names = [member.name for member in self.parties]
        chosen = sorted(member.holder for member in self.parties if member.holder)
        alike = {unicodedata.normalize("NFKC", name).casefold() for name in names}
        texts = [*self.classes, self.label, self.method, self.closes, *self.parameters]
        texts += [value for value in self.parameters.values() if isinstance(value, str)]
        keys = [member.key for member in self.parties]
        for right, wrong in (
            (self.title.strip() and is_plain_text(self.title), "a study has a title of one line"),
            (len(self.nonce) == 16, "a study's nonce has 16 bytes"),
            (self.protocol in _PROTOCOLS, f"a study's protocol is one of {', '.join(_PROTOCOLS)}"),
            (
                MIN_EPSILON <= self.epsilon <= MAX_EPSILON and 0 <= self.delta < 1,
                f"epsilon lies between {MIN_EPSILON:g} and {MAX_EPSILON:g}, and delta in [0, 1)",
            ),
            (len(self.classes) >= 2 and len(set(self.classes)) == len(self.classes), "there are two or more classes"),
            (self.features and len(set(self.features)) == len(self.features), "every feature has a name of its own"),
            (len(self.auxiliary) == 32 and self.samples >= 1, "auxiliary samples are named by 32 bytes"),
            (
                not (self.public and self.protocol in ("tally", "average")),
                "sums without noise are no public ones: with them on the board no epsilon would hold",
            ),
            (self.proofs in PROOFS[1:], "ballots in a study prove knowledge, or that they are valid"),
            (len(names) >= 2, "a study has at least two parties"),
            (all(map(is_plain_text, names)) and len(alike) == len(names), "every party has a name of its own"),
            (
                "".join(texts).isprintable(),
                "classes, label, method, closing time and parameters are texts of one line, with nothing that moves a "
                "cursor: they are shown to whoever signs",
            ),
            (
                all(type(value) is not float or math.isfinite(value) for value in self.parameters.values()),
                "a parameter is no finite number",
            ),
            (len({*keys, self.curator}) == len(keys) + 1, "every member has an identity of its own"),
            (
                2 <= self.minimum_ballots <= len(names),
                f"the minimum of ballots lies between 2 and {len(names)}, not {self.minimum_ballots}",
            ),
            (chosen == list(range(1, len(chosen) + 1)), "key holders are numbered 1, 2, 3, ..."),
            (
                self.threshold <= self.confirmations <= len(chosen),
                f"a product is confirmed by at least the {self.threshold} holders who open it, and at most by all",
            ),
            (
                self.uses_key or not (chosen or self.key_bits or self.threshold or self.confirmations),
                f"no key is made for {self.protocol}: it has no holders, and bits, threshold and confirmations are 0",
            ),
            (self.patience >= 1, "patience is at least a second"),
            (not self.closes or _moment(self.closes) is not None, f"{self.closes!r} is no time like 2026-12-01T12:00Z"),
        ):
            if not right:
                raise StudyError(wrong)
        try:
            if self.uses_key:
                self.ceremony(self.nonce + bytes(16))
        except InvalidParameter as error:
            raise StudyError(str(error)) from None

    # -- what follows from it

    @property
    def uses_key(self) -> bool:
        """Whether holders make a key for it; Pathak's protocol, with noise for a public size, has none."""
        return self.protocol != "pathak"

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the canonical text, 32 bytes: what everybody signs with everything they say."""
        return hashlib.sha256(b"psephos study\0" + self.text().encode()).digest()

    @cached_property
    def holders(self) -> tuple[str, ...]:
        """Names of the holders' roles, of holder 1 first."""
        return tuple(f"holder {number}" for number in range(1, 1 + sum(1 for m in self.parties if m.holder)))

    @cached_property
    def roster(self) -> tuple[VerificationKey, ...]:
        """The parties' keys."""
        return tuple(member.key for member in self.parties)

    @cached_property
    def members(self) -> BoardMembers:
        """Who may say what on the board: the curator, the parties, and the holders, who are some of them."""
        keys = {CURATOR: self.curator}
        keys |= {f"party {number}": member.key for number, member in enumerate(self.parties)}
        keys |= {f"holder {member.holder}": member.key for member in self.parties if member.holder}
        return BoardMembers(self.digest, keys)

    @cached_property
    def must_join(self) -> tuple[str, ...]:
        """Who must have joined before anything else: whoever is sent a secret, or waited for; without a key, all."""
        return (CURATOR, *self.holders) if self.uses_key else tuple(self.members.keys)

    def roles_of(self, key: VerificationKey) -> list[str]:
        """The roles that an identity plays; raises StudyError for a stranger."""
        found = [name for name, member in self.members.keys.items() if member == key]
        if not found:
            raise StudyError(f"the identity {key.raw.hex()[:12]} is not in this study")
        return found

    def ceremony(self, context: bytes | None = None) -> CeremonyTerms:
        """The terms under which the holders make the key: one ceremony for one study."""
        about = hashlib.sha256(b"psephos study ceremony\0" + self.digest).digest() if context is None else context
        return CeremonyTerms(self.key_bits, len(self.holders), self.threshold, about, self.trial, self.degree)

    def check_key(self, key: ThresholdKey) -> None:
        """Raise AgreementError for a key that is not of this study's size, degree, holders and threshold."""
        found = (key.key.bits, key.key.degree, key.holders, key.threshold)
        if found != (self.key_bits, self.degree, len(self.holders), self.threshold):
            raise AgreementError(f"the key is of another size or other holders than the study's: {found}")

    def nonce_for(self, key: ThresholdKey | None, about: str = "round") -> bytes:
        """16 bytes that name a round or series of this study under this key, or its run without one."""
        digest = b"" if key is None else key.digest
        return hashlib.sha256(b"psephos study nonce\0" + self.digest + digest + about.encode()).digest()[:16]

    # -- as a file

    def text(self) -> str:
        """The canonical form."""
        return tomli_w.dumps(
            {
                "psephos_study": FORMAT,
                "title": self.title,
                "nonce": self.nonce.hex(),
                "release": {
                    "protocol": self.protocol,
                    "method": self.method,
                    "epsilon": float(self.epsilon),
                    "delta": float(self.delta),
                    "public": self.public,
                    "parameters": dict(sorted(self.parameters.items())),
                },
                "data": {
                    "label": self.label,
                    "classes": list(self.classes),
                    "features": list(self.features),
                    "auxiliary": self.auxiliary.hex(),
                    "samples": self.samples,
                },
                "vote": {
                    "minimum_ballots": self.minimum_ballots,
                    "proofs": self.proofs,
                    "closes": self.closes,
                    "patience": self.patience,
                },
                "key": {
                    "bits": self.key_bits,
                    **({"degree": self.degree} if self.degree > 1 else {}),
                    "threshold": self.threshold,
                    "confirmations": self.confirmations,
                    "trial": self.trial,
                },
                "curator": {"key": self.curator.raw.hex()},
                "party": [
                    {"name": member.name, "key": member.key.raw.hex(), "holder": member.holder}
                    for member in self.parties
                ],
            }
        )

    @classmethod
    def parse(cls, text: str) -> Study:
        """From TOML in any layout; raises StudyError, naming the field that is missing, unknown or of another type."""
        try:
            document = tomllib.loads(text)
            repr(document)  # raises where a number is too long to be written: TOML's have 64 bits
        except (ValueError, RecursionError) as error:
            raise StudyError(f"this is no study: it is not TOML ({error})") from None
        found = document.get("psephos_study")
        if found != FORMAT:
            raise StudyError(f"a study of format {found!r}, and this version of Psephos reads {FORMAT}")
        table = _Table(document, "the study")
        table.value("psephos_study", int)
        release, data, vote, key = (table.table(name) for name in ("release", "data", "vote", "key"))
        curator = table.table("curator")
        rows = table.tables("party")
        parties = tuple(Member(party.value("name", str), _key(party), party.value("holder", int)) for party in rows)
        study = cls(
            title=table.value("title", str),
            nonce=table.bytes("nonce"),
            protocol=release.value("protocol", str),
            method=release.value("method", str),
            epsilon=release.value("epsilon", float),
            delta=release.value("delta", float),
            public=release.value("public", bool),
            parameters=release.parameters("parameters"),
            label=data.value("label", str),
            classes=data.names("classes"),
            features=data.names("features"),
            auxiliary=data.bytes("auxiliary"),
            samples=data.value("samples", int),
            minimum_ballots=vote.value("minimum_ballots", int),
            proofs=vote.value("proofs", str),
            closes=vote.value("closes", str),
            patience=vote.value("patience", int),
            key_bits=key.value("bits", int),
            degree=key.value("degree", int, 1),
            threshold=key.value("threshold", int),
            confirmations=key.value("confirmations", int),
            trial=key.value("trial", bool),
            curator=_key(curator),
            parties=parties,
        )
        for each in (table, release, data, vote, key, curator, *rows):
            each.end()
        return study

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Study:
        """From a file; raises StudyError."""
        try:
            return cls.parse(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise StudyError(f"{path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise StudyError(f"{path} is no study: it is not text") from None

    def write(self, path: str | os.PathLike[str]) -> None:
        """To a new file; raises StudyError when there is one already."""
        try:
            with Path(path).open("x", encoding="utf-8") as file:
                file.write(self.text())
        except FileExistsError:
            raise StudyError(f"{path} exists already; name another file") from None
        except OSError as error:
            raise StudyError(f"{path} cannot be written: {error.strerror}") from None


def is_plain_text(name: str) -> bool:
    """Whether a name or title is one line of 1 to 100 characters that one can see, without spaces around it."""
    return 0 < len(name) <= 100 and name.isprintable() and name == unicodedata.normalize("NFC", name.strip())


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


class _Table:
    """Takes a TOML table apart, and says what is wrong with it."""

    def __init__(self, content: Mapping[str, Any], where: str) -> None:
        self._left, self._where = dict(content), where

    def value(self, name: str, kind: type, default: Any = None) -> Any:
        if name not in self._left:
            if default is not None:
                return default
            raise StudyError(f"{self._where} says nothing of {name}")
        found = self._left.pop(name)
        if type(found) is int and found.bit_length() > 63:
            raise StudyError(f"{name} of {self._where} is no number of 64 bits")
        if kind is float and type(found) is int:
            return float(found)
        if type(found) is not kind:
            raise StudyError(f"{name} of {self._where} is {found!r}, and should be of type {kind.__name__}")
        return found

    def bytes(self, name: str) -> bytes:
        try:
            return bytes.fromhex(self.value(name, str))
        except ValueError:
            raise StudyError(f"{name} of {self._where} is not written in hexadecimal digits") from None

    def names(self, name: str) -> tuple[str, ...]:
        found = self.value(name, list)
        if not all(type(each) is str for each in found):
            raise StudyError(f"{name} of {self._where} are texts")
        return tuple(found)

    def parameters(self, name: str) -> dict[str, bool | int | float | str]:
        found = self.value(name, dict)
        for key, value in found.items():
            if type(value) not in (bool, int, float, str) or (type(value) is int and value.bit_length() > 63):
                raise StudyError(f"{key} of {name} is {value!r}; parameters are numbers, texts and flags")
        return dict(found)

    def table(self, name: str) -> _Table:
        return _Table(self.value(name, dict), f"[{name}]")

    def tables(self, name: str) -> list[_Table]:
        found = self.value(name, list)
        if not all(type(each) is dict for each in found):
            raise StudyError(f"{name} of {self._where} are tables")
        return [_Table(each, f"[[{name}]] {place}") for place, each in enumerate(found)]

    def end(self) -> None:
        if self._left:
            raise StudyError(f"{self._where} has a field that this version does not know: {min(self._left)}")


def _key(table: _Table) -> VerificationKey:
    try:
        return VerificationKey(table.bytes("key"))
    except MessageError as error:
        raise StudyError(str(error)) from None
