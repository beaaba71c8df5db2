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
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import tomli_w
from mnemonic import Mnemonic

from psephos.protocol.errors import AlreadyCastError, BudgetExceededError, PsephosError, StudyError
from psephos.protocol.privacy.accounting import PrivacyEvent, compose, stated_delta
from psephos.protocol.privacy.mechanisms import SAMPLER_DISTANCE, check_epsilon
from psephos.protocol.signing import SigningKey, VerificationKey
from psephos.protocol.storage.keyfiles import read_signing_key, write_signing_key
from psephos.protocol.storage.store import Store
from psephos.protocol.study.study import Study, is_plain_text

__all__ = ["Identity", "IdentityCard", "fingerprint", "fingerprint_words"]

FORMAT = 1
MOST_BYTES = 10_000
"""Of a card."""

_DELTA = 1e-5
"""Of all studies of an identity together, at which its epsilons are added up."""


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
    """The public half of an identity, as it is sent around: name and key, under the key's own signature.

    The signature shows that nothing was garbled on the way. It does not show whose card it is: compare fingerprints.
    Raises StudyError for a name of more than one line.
    """

    name: str
    key: VerificationKey

    def __post_init__(self) -> None:
        if not is_plain_text(self.name):
            raise StudyError("a name has one line of at most 100 characters, without spaces around it")

    def _signed(self) -> bytes:
        return b"psephos card\0" + self.key.raw + self.name.encode()

    def text(self, key: SigningKey) -> str:
        """As a file, signed."""
        signature = key.sign(self._signed()).hex()
        return tomli_w.dumps(
            {"psephos_card": FORMAT, "name": self.name, "key": self.key.raw.hex(), "signature": signature}
        )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> IdentityCard:
        """Raises StudyError for a file that is missing, no card of this version, or garbled."""
        try:
            with Path(path).open("rb") as file:
                found = tomllib.loads(file.read(MOST_BYTES).decode())
        except OSError as error:
            raise StudyError(f"the card {path} cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError):
            raise StudyError(f"{path} is no card: it is not TOML") from None
        if found.get("psephos_card") != FORMAT:
            raise StudyError(f"{path} is no card of this version; a member makes one with `psephos study identity`")
        try:
            card = cls(found["name"], VerificationKey(bytes.fromhex(found["key"])))
            card.key.verify(bytes.fromhex(found["signature"]), card._signed())
        except (KeyError, TypeError, ValueError, AttributeError, PsephosError):
            raise StudyError(f"the card {path} is damaged: ask its owner to send it again, as a file") from None
        return card


@dataclass(frozen=True)
class Identity:
    """An identity and its directory."""

    directory: Path
    card: IdentityCard
    key: SigningKey = field(repr=False)

    @classmethod
    def create(cls, name: str, directory: Path, budget: float | None = None) -> Identity:
        """A fresh one in a new directory, or an empty one; `budget`: as in `set_limit`.

        Raises StudyError for a directory with something in it, a bad name or one that cannot be written;
        InvalidParameter for a budget out of range.
        """
        key = SigningKey.generate()
        identity = cls(directory, IdentityCard(name, key.verification_key), key)
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
        """Raises StudyError for a directory that is none, KeyFilePermissionsError for one that others can read."""
        if not (directory / "identity.key").is_file():
            raise StudyError(
                f"{directory} is no identity: `psephos study identity NAME --output {directory}` makes one"
            )
        key, card = read_signing_key(directory / "identity.key"), IdentityCard.read(directory / "card.toml")
        if card.key != key.verification_key:
            raise StudyError(f"{directory}: the card is of another key than the one that lies beside it")
        return cls(directory, card, key)

    # -- what it spends

    def _store(self) -> Store:
        return Store(self.directory / "budget.sqlite", {"budget of": self.card.key.raw.hex()})

    def limit(self) -> float | None:
        """The epsilon that all its studies together may cost, at a delta of 1e-5; None when nobody set one."""
        with self._store() as store:
            found = store.get("budget", b"epsilon")
        return None if found is None else float(json.loads(found))

    def set_limit(self, epsilon: float) -> None:
        """Set that; raises InvalidParameter for an epsilon out of range."""
        check_epsilon(epsilon)
        with self._store() as store:
            store.put("budget", b"epsilon", json.dumps(epsilon).encode())

    def spent(self, besides: Study | None = None) -> float:
        """The epsilon of all studies that were charged, at a delta of 1e-5; together with another, charged or not."""
        with self._store() as store:
            return _spent(store, besides)

    def check(self, study: Study) -> None:
        """Raise what `charge` would raise; nothing changes."""
        with self._store() as store:
            self._check(store, study)

    def charge(self, study: Study) -> None:
        """Put a study down, once, before it costs anything.

        Raises BudgetExceededError when it does not fit, AlreadyCastError when this identity has given the same to an
        exact sum before, votes or parameters: with it there and away once, the difference of two sums is its own.
        """
        with self._store() as store, store.transaction():
            self._check(store, study)
            if (claim := _claim(study)) is not None:
                store.put("voted", claim, study.digest)
            store.put("spent", study.digest, json.dumps([study.title, study.epsilon, study.delta]).encode())

    def _check(self, store: Store, study: Study) -> None:
        claim = _claim(study)
        before = None if claim is None else store.get("voted", claim)
        if before is not None and before != study.digest:
            what = "voted on" if study.protocol == "tally" else f"given its {study.method} on"
            raise AlreadyCastError(
                f"{self.card.name} has {what} these auxiliary samples in another study, {fingerprint(before)}: the "
                "difference of two sums would show what it gave; agree on other samples"
            )
        limit, after = store.get("budget", b"epsilon"), _spent(store, study)
        if limit is not None and after > float(json.loads(limit)) * (1 + 1e-12):
            raise BudgetExceededError(
                f"the study {study.title!r} would bring {self.card.name} to epsilon = {after:.6g} in all, and its "
                f"budget is {float(json.loads(limit)):g}; `psephos study budget {self.directory}` shows and sets it"
            )


def _claim(study: Study) -> bytes | None:
    """What is given once, where the curator sees exact sums: votes on these samples, or parameters by one method."""
    about = {"tally": b"", "average": study.method.encode()}.get(study.protocol)
    return None if about is None else about + study.auxiliary


def _spent(store: Store, besides: Study | None) -> float:
    charged = {name: json.loads(content) for name, content in store.items("spent")}
    if besides is not None:
        charged[besides.digest] = [besides.title, besides.epsilon, besides.delta]
    events = []
    for title, epsilon, delta in charged.values():
        events.append(PrivacyEvent(title, epsilon, stated_delta(delta), distance=SAMPLER_DISTANCE))
    return compose(events, _DELTA)
