"""Who somebody is in a study: a directory with a signing key, its public card, and a budget.

DIR/identity.key     the signing key, readable by its owner only
DIR/card.toml        name and public key, signed with it: this is sent to whoever writes the study
DIR/budget.sqlite    its budget file, or which other one is charged with its studies
DIR/STUDY/           one for each study that it has signed (`psephos.study.member`)
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec
import tomli_w
from mnemonic import Mnemonic

from psephos.budget import open_budget, table_digest
from psephos.protocol.errors import BudgetFileError, InvalidParameter, PsephosError, StudyError
from psephos.protocol.foreign import parse_toml, read_text
from psephos.protocol.names import plain
from psephos.protocol.privacy.mechanisms import check_epsilon
from psephos.protocol.signing import SigningKey, VerificationKey
from psephos.protocol.storage.budget import BudgetFile, PrivacyLimit
from psephos.protocol.storage.keyfiles import read_signing_key, write_signing_key
from psephos.protocol.study.study import Study, is_plain_text
from psephos.study.budget import LEDGER_DELTA, charges_of, is_claim_of_study, read_ledger

FORMAT = 1
MOST_BYTES = 10_000
"""Largest size of a card in bytes."""


def fingerprint(data: bytes) -> str:
    """Return what people compare of a key or a study: 128 bits of its SHA-256, as eight groups of four digits."""
    digits = _compared_bytes(data).hex()
    return "-".join(digits[k : k + 4] for k in range(0, len(digits), 4))


def fingerprint_words(data: bytes) -> str:
    """Return the 128 bits of `fingerprint` as twelve English words (BIP 39), the last with a checksum of four bits."""
    return str(Mnemonic("english").to_mnemonic(_compared_bytes(data)))


def _compared_bytes(data: bytes) -> bytes:
    return hashlib.sha256(b"psephos fingerprint\0" + data).digest()[:16]


@dataclass(frozen=True)
class IdentityCard:
    """The public part of an identity: a name and a verification key, signed with that key.

    The signature shows that the card arrived as it was written, and not whose it is: compare fingerprints.
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
        """Read a card from a file."""
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
        """Create an identity with a new key in a new or empty directory."""
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
        """Read an identity from its directory."""
        if not (directory / "identity.key").is_file():
            command = f"psephos study identity NAME --output {shlex.quote(str(directory))}"
            raise StudyError(f"{directory} is not an identity: `{command}` creates one")
        key, card = read_signing_key(directory / "identity.key"), IdentityCard.read(directory / "card.toml")
        if card.key != key.verification_key:
            raise StudyError(f"{directory}: the card belongs to another key than the signing key beside it")
        return cls(directory, card, key)

    # -- the privacy budget

    @contextmanager
    def budget(self) -> Iterator[BudgetFile]:
        """Open the budget file in which this identity's studies are charged; nobody changes meanwhile which one it is.

        A budget of an earlier version becomes a budget file, which that version refuses from then on.
        """
        with self._files() as (_, file):
            yield file

    @contextmanager
    def _files(self, moved: Path | None = None) -> Iterator[tuple[BudgetFile, BudgetFile]]:
        """Open the identity's own budget file, and the one that is charged, which may be the same, or be at `moved`
        now.
        """
        ledger = partial(read_ledger, self.card.key)
        with BudgetFile(self.directory / "budget.sqlite", ledger=ledger) as own, own.transaction():
            if (successor := own.successor) is None:
                yield own, own
            else:
                path = Path(successor.path)
                if moved is not None and moved.exists() and not path.exists():
                    path = moved
                with BudgetFile(path, create=False) as file:
                    if file.mark != successor.mark:
                        raise BudgetFileError(
                            f"{path} is not the budget file that has what {self.card.name} was charged: restore it as "
                            f"{successor.path}, or name its new place with `psephos join --budget FILE`"
                        )
                    if path is moved:
                        own.charge_instead(path, file.mark)
                    yield own, file

    def use_budget(self, path: Path, limit: str | None = None) -> None:
        """Charge this identity's studies in another budget file from now on, which imports what was charged before.

        Args:
            path: the file of its rows; created if necessary. It may be the one that is charged, which was moved.
            limit: of a new file, as `--budget-limit` has it.

        Raises InvalidParameter for a limit that is none, differs from the file's, or is above the identity's own;
        BudgetFileError for a file that cannot be used.
        """
        path = path.absolute()
        if any("\ud800" <= character <= "\udfff" for character in str(path)):  # bytes that are not UTF-8
            raise InvalidParameter("the name of the budget file is not UTF-8: name another one", option="budget")
        with self._files(path) as (own, before):
            if path.exists() and path.samefile(own.path):
                raise InvalidParameter(f"{path} is the identity's own file: leave --budget out", option="budget")
            if path.exists() and path.samefile(before.path):
                if limit is not None:
                    before.make_limit(PrivacyLimit.parse(limit))
                return
            with open_budget(str(path), limit) as file:  # committed first: a crash in between charges both
                file.include(before, is_claim_of_study)
                own.charge_instead(path, file.mark)

    def limit(self) -> PrivacyLimit | None:
        """Return the limit of all that is charged with its studies; None if there is no limit."""
        with self.budget() as file:
            return file.limit

    def set_limit(self, epsilon: float) -> None:
        """Set the limit, at a delta of 1e-5 where it had none. Raises InvalidParameter for an epsilon out of range."""
        check_epsilon(epsilon)
        with self.budget() as file:
            limit = file.limit or PrivacyLimit(epsilon, LEDGER_DELTA, exact_sums=True)
            file.set_limit(msgspec.structs.replace(limit, epsilon=epsilon))

    def spent(self, besides: Study | None = None) -> tuple[float, float]:
        """Return (epsilon, delta) of all that is charged with its studies, and of `besides`, charged or not."""
        with self.budget() as file:
            return file.spent([] if besides is None else charges_of(besides, self.card.key))

    def exact_sums(self, study: Study) -> list[bytes]:
        """Return the digests of other studies in whose exact sum this identity's contribution is."""
        with self.budget() as file:
            claims = [bytes.fromhex(charge.claim) for charge in file.charges() if charge.parts]
        return sorted({claim[:32] for claim in claims if claim[32:64] == self.card.key.raw} - {study.digest})

    def check(self, study: Study, rows: Sequence[bytes] = (), data: str = "", *, again: bool = False) -> None:
        """Raise what `charge` would raise, without charging the study."""
        self._charge(BudgetFile.check, study, rows, data, again)

    def charge(self, study: Study, rows: Sequence[bytes] = (), data: str = "", *, again: bool = False) -> None:
        """Charge a study, before the first message that costs anything; a second time changes nothing.

        Rows that two parties of a study have are in two vectors of its sum, and charged twice.

        Args:
            study: the study.
            rows: what a tally votes on (`PublicSamples.row_digests`).
            data: the file of its own rows, which a budget file of rows knows; "" for a classifier of its own.
            again: whether the identity accepts that its contribution may follow from two exact sums.
        """
        self._charge(BudgetFile.charge, study, rows, data, again)

    def _charge(self, act: Callable[..., None], study: Study, rows: Sequence[bytes], data: str, again: bool) -> None:
        charges = charges_of(study, self.card.key, rows)
        with self._files() as (own, file):
            if not file.is_charged(charges):
                act(file, table_digest(Path(data)) if data and file is not own else None, charges, again=again)
