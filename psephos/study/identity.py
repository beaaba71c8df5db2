"""Who somebody is in a study: a directory with a signing key, its public card, and a budget.

DIR/identity.key     the signing key, readable by its owner only
DIR/card.toml        name and public key, signed with it: this is sent to whoever writes the study
DIR/budget.sqlite    what the identity may spend on all its studies, and what it has spent
DIR/STUDY/           one for each study that it has signed (`psephos.study.member`)
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import tomli_w
from mnemonic import Mnemonic

from psephos.protocol.errors import AlreadyCastError, BudgetExceededError, PsephosError, StudyError
from psephos.protocol.foreign import parse_toml, read_text
from psephos.protocol.names import plain
from psephos.protocol.privacy.accounting import PrivacyEvent, compose, stated_delta
from psephos.protocol.privacy.mechanisms import SAMPLER_DISTANCE, check_epsilon
from psephos.protocol.signing import SigningKey, VerificationKey
from psephos.protocol.storage.keyfiles import read_signing_key, write_signing_key
from psephos.protocol.storage.store import Store
from psephos.protocol.study.study import Study, is_plain_text
from psephos.specs.registry import multiplier_of

__all__ = ["Identity", "IdentityCard", "event_of_study", "fingerprint", "fingerprint_words"]

FORMAT = 1
MOST_BYTES = 10_000
"""Largest size of a card in bytes."""

_DELTA = 1e-5
"""The delta at which the cost of all studies of an identity together is stated."""


def fingerprint(data: bytes) -> str:
    """Return what people compare of a key or a study: 128 bits of its SHA-256, as eight groups of four digits."""
    digits = _compared_bytes(data).hex()
    return "-".join(digits[k : k + 4] for k in range(0, len(digits), 4))


def fingerprint_words(data: bytes) -> str:
    """Return the 128 bits of `fingerprint` as twelve English words, which are easier to read aloud.

    The words are those of BIP 39; four bits of the last word are a checksum.
    """
    return str(Mnemonic("english").to_mnemonic(_compared_bytes(data)))


def _compared_bytes(data: bytes) -> bytes:
    return hashlib.sha256(b"psephos fingerprint\0" + data).digest()[:16]


@dataclass(frozen=True)
class IdentityCard:
    """The public part of an identity: a name and a verification key, signed with that key.

    The signature shows that the card arrived as it was written. It does not show whose card it is: compare
    fingerprints.

    Attributes:
        name: one line of at most 100 characters.
        key: the verification key.

    Raises:
        StudyError: the name is not such a line.
    """

    name: str
    key: VerificationKey

    def __post_init__(self) -> None:
        if not is_plain_text(self.name):
            raise StudyError("a name has one line of at most 100 characters, without spaces around it")

    def _signed(self) -> bytes:
        return b"psephos card\0" + self.key.raw + self.name.encode()

    def text(self, key: SigningKey) -> str:
        """Return the card as the text of a file, signed with the key."""
        signature = key.sign(self._signed()).hex()
        return tomli_w.dumps(
            {"psephos_card": FORMAT, "name": self.name, "key": self.key.raw.hex(), "signature": signature}
        )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> IdentityCard:
        """Read a card from a file.

        Raises:
            StudyError: the file is missing, not a card of this version, or damaged.
        """
        try:
            fields = parse_toml(read_text(path, MOST_BYTES))
        except OSError as error:
            raise StudyError(f"the card {path} cannot be read: {error.strerror}") from None
        except ValueError:
            raise StudyError(f"{path} is not a card, because it is not TOML") from None
        if fields.get("psephos_card") != FORMAT:
            raise StudyError(
                f"{path} is not a card of this version; its owner creates one with `psephos study identity`"
            )
        try:
            card = cls(fields["name"], VerificationKey(bytes.fromhex(fields["key"])))
            card.key.verify(bytes.fromhex(fields["signature"]), card._signed())
        except (KeyError, TypeError, ValueError, AttributeError, PsephosError):
            raise StudyError(f"the card {path} is damaged: ask its owner to send it again, as a file") from None
        return card


@dataclass(frozen=True)
class Identity:
    """A member's signing key, with its card and its privacy budget, in a directory."""

    directory: Path
    card: IdentityCard
    key: SigningKey = field(repr=False)

    @classmethod
    def create(cls, name: str, directory: Path, budget: float | None = None) -> Identity:
        """Create an identity with a new key in a new or empty directory.

        Args:
            name: for the card.
            directory: for the identity.
            budget: as in `set_limit`; None for no limit.

        Raises:
            StudyError: the directory is not empty or cannot be written, or the name is not one line.
            InvalidParameter: the budget is out of range.
        """
        key = SigningKey.generate()
        identity = cls(directory, IdentityCard(plain(name), key.verification_key), key)
        if budget is not None:
            check_epsilon(budget)
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(directory.iterdir()):
                raise StudyError(f"{directory} is not empty: an identity has a directory of its own")
            directory.chmod(0o700)
            (directory / "card.toml").write_text(identity.card.text(key), encoding="utf-8")
        except OSError as error:
            raise StudyError(f"{directory} cannot be written: {error.strerror}") from None
        if budget is not None:
            identity.set_limit(budget)
        write_signing_key(directory / "identity.key", key)  # last: without it there is no identity
        return identity

    @classmethod
    def read(cls, directory: Path) -> Identity:
        """Read an identity from its directory.

        Raises:
            StudyError: the directory does not contain an identity.
            KeyFilePermissionsError: others can read the signing key.
        """
        if not (directory / "identity.key").is_file():
            command = f"psephos study identity NAME --output {shlex.quote(str(directory))}"
            raise StudyError(f"{directory} is not an identity: `{command}` creates one")
        key, card = read_signing_key(directory / "identity.key"), IdentityCard.read(directory / "card.toml")
        if card.key != key.verification_key:
            raise StudyError(f"{directory}: the card belongs to another key than the signing key beside it")
        return cls(directory, card, key)

    # -- the privacy budget

    def _store(self) -> Store:
        return Store(self.directory / "budget.sqlite", {"budget of": self.card.key.raw.hex()})

    def limit(self) -> float | None:
        """Return the epsilon that all studies together may cost, at a delta of 1e-5; None if there is no limit."""
        with self._store() as store:
            limit = store.get("budget", b"epsilon")
        return None if limit is None else float(json.loads(limit))

    def set_limit(self, epsilon: float) -> None:
        """Set the limit of `limit`. Raises InvalidParameter for an epsilon out of range."""
        check_epsilon(epsilon)
        with self._store() as store:
            store.put("budget", b"epsilon", json.dumps(epsilon).encode())

    def spent(self, besides: Study | None = None) -> float:
        """Return the epsilon of all charged studies, and of `besides`, charged or not, at a delta of 1e-5."""
        with self._store() as store:
            return _spent(store, besides)

    def exact_sums(self, study: Study) -> list[bytes]:
        """Return the digests of other studies in whose exact sum this identity's contribution is."""
        with self._store() as store:
            found = {*(name for name, _ in store.items("exact")), *(name for _, name in store.items("voted"))}
        return sorted(found - {study.digest})

    def check(self, study: Study, rows: Sequence[bytes] = (), *, again: bool = False) -> None:
        """Raise what `charge` would raise, without charging the study."""
        with self._store() as store:
            self._check(store, study, rows, again)

    def charge(self, study: Study, rows: Sequence[bytes] = (), *, again: bool = False) -> None:
        """Charge a study to the budget, before the first message that costs anything; a second time changes nothing.

        Args:
            study: the study.
            rows: what a tally votes on (`PublicSamples.row_digests`).
            again: whether the identity accepts that its contribution may follow from two exact sums.

        Raises:
            BudgetExceededError: the study exceeds the limit.
            AlreadyCastError: this identity has voted on one of the rows, or given an average of this method, in another
                study with an exact sum. With the other parties unchanged, the difference of the two sums would be its
                contribution, or nearly.
        """
        with self._store() as store, store.transaction():
            self._check(store, study, rows, again)
            if claims := _claims(study, rows):
                store.put("exact", study.digest, b"".join(sorted(claims)))
            store.put("spent", study.digest, json.dumps(_cost(study)).encode())

    def _check(self, store: Store, study: Study, rows: Sequence[bytes], again: bool) -> None:
        charged = store.get("spent", study.digest) is not None
        if not (again or charged) and (before := _contributed(store, study, rows)) is not None:
            what = "voted on rows of this public file" if study.protocol == "tally" else f"given its {study.method}"
            raise AlreadyCastError(
                f"{self.card.name} has {what} in another study, {fingerprint(before)}, whose sum is exact too: the "
                "difference of the two sums can show what it sent, also where the public file was changed in between. "
                "`psephos join --again` accepts this"
            )
        limit, after = store.get("budget", b"epsilon"), _spent(store, study)
        if limit is not None and after > float(json.loads(limit)) * (1 + 1e-12):
            raise BudgetExceededError(
                f"the study {study.title!r} would bring {self.card.name} to epsilon = {after:.6g} in all, and its "
                f"budget is {float(json.loads(limit)):g}; `psephos study budget {shlex.quote(str(self.directory))}` "
                "shows and sets it"
            )


def _claims(study: Study, rows: Sequence[bytes]) -> frozenset[bytes]:
    """Return what may be contributed only once, because the curator sees the exact sum, as texts of 32 bytes."""
    average = [hashlib.sha256(b"psephos average\0" + study.method.encode()).digest()]
    return frozenset({"tally": rows, "average": average}.get(study.protocol, ()))


def _contributed(store: Store, study: Study, rows: Sequence[bytes]) -> bytes | None:
    """Return the digest of a study whose exact sum has what this study's would have; None if there is none."""
    claims = _claims(study, rows)
    for before, content in store.items("exact"):
        if not claims.isdisjoint(content[place : place + 32] for place in range(0, len(content), 32)):
            return before
    # Version 0.2 stored the digest of the samples, behind the method of an average: which rows they were is not known.
    method = {"tally": b"", "average": study.method.encode()}.get(study.protocol)
    return next((before for claim, before in store.items("voted") if claim[:-32] == method), None)


def _spent(store: Store, besides: Study | None) -> float:
    charged = {name: json.loads(content) for name, content in store.items("spent")}
    if besides is not None:
        charged[besides.digest] = _cost(besides)
    return compose([_event(*cost) for cost in charged.values()], _DELTA)


def _cost(study: Study) -> list[str | float | None]:
    """Return the arguments of `_event`, which the store has as JSON; earlier versions stored no multiplier."""
    return [study.title, study.epsilon, study.delta, multiplier_of(study)]


def _event(title: str, epsilon: float, delta: float, multiplier: float | None = None) -> PrivacyEvent:
    return PrivacyEvent(title, epsilon, stated_delta(delta), multiplier, SAMPLER_DISTANCE)


def event_of_study(study: Study) -> PrivacyEvent:
    """Return the privacy cost of a study: Gaussian noise with its multiplier, other noise by epsilon and delta."""
    return _event(study.title, study.epsilon, study.delta, multiplier_of(study))
