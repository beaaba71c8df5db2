"""One member's part in one study: what it has signed, where it finds what it needs, and its roles.

    DIR/STUDY/study.toml      the study that was signed, in its canonical form
    DIR/STUDY/settings.toml   where board, samples and data are; not part of the study, and may be edited
    DIR/STUDY/party-3.sqlite  one store for each role, readable by its owner only
    DIR/STUDY/released/       the model and its card, when there is a result

STUDY is the beginning of the study's digest.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from psephos.curator.hamm.statistic import public_coordinates
from psephos.model import MODEL_FILE, write_atomically
from psephos.parties.learners import LEARNERS, make_learner
from psephos.protocol.agent import Agent
from psephos.protocol.board import Board
from psephos.protocol.errors import InvalidParameter, StudyError
from psephos.protocol.roles import Role
from psephos.protocol.storage.store import Store
from psephos.protocol.study.study import CURATOR, Study
from psephos.specs.registry import check_study, spec_of
from psephos.specs.study import StudyTerms
from psephos.study.identity import Identity
from psephos.study.release import card, checked, released
from psephos.study.roles import curator_role, holder_role, party_role
from psephos.study.samples import PublicSamples

__all__ = ["Membership", "Settings", "sign"]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a member finds what it needs, absolute paths; and how it votes.

    Attributes:
        board: as `open_board` takes it.
        public: the public samples. data: its own rows, where it trains `learner` on them.
        voter: MODULE:OBJECT with predict_votes(X), in place of data.
        output: where model and card go.
    """

    board: str = ""
    public: str = ""
    data: str = ""
    learner: str = "logistic"
    voter: str = ""
    output: str = ""


def sign(study: Study, identity: Identity) -> Membership:
    """Put down that this identity agrees to a study; what its agents say from then on is signed with its digest.

    Raises StudyError for a study that it has no part in, or that this version cannot play.
    """
    study.roles_of(identity.key.verification_key)
    check_study(study)
    folder = identity.directory / study.digest.hex()[:16]
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        write_atomically(folder / "study.toml", study.text().encode())
    except OSError as error:
        raise StudyError(f"{folder} cannot be written: {error.strerror}") from None
    return Membership(identity, study)


@dataclass(frozen=True)
class Membership:
    """An identity in a study that it has signed."""

    identity: Identity
    study: Study

    @classmethod
    def find(cls, identity: Identity, study: str = "") -> Membership:
        """The only study of an identity, or that whose digest begins so; raises StudyError for none or several."""
        signed = [Study.read(path) for path in sorted(identity.directory.glob("*/study.toml"))]
        found = [each for each in signed if each.digest.hex().startswith(study)]
        if len(found) == 1:
            return cls(identity, found[0])
        if not found:
            raise StudyError(f"{identity.directory} has signed no such study: `psephos join STUDY.toml` begins")
        which = ", ".join(f"--study {each.digest.hex()[:8]} ({each.title})" for each in found)
        raise StudyError(f"{identity.directory} is in several studies; name one: {which}")

    @property
    def folder(self) -> Path:
        """Of this study."""
        return self.identity.directory / self.study.digest.hex()[:16]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The roles that it plays."""
        return tuple(self.study.roles_of(self.identity.key.verification_key))

    @property
    def settings(self) -> Settings:
        """As they were kept; raises StudyError for a file that cannot be read."""
        path = self.folder / "settings.toml"
        try:
            return msgspec.toml.decode(path.read_bytes(), type=Settings) if path.exists() else Settings()
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StudyError(f"{path} cannot be used: {error}") from None

    def keep(self, **changed: str | None) -> Settings:
        """The settings with what is not None changed, on disk."""
        settings = msgspec.structs.replace(self.settings, **{k: v for k, v in changed.items() if v is not None})
        write_atomically(self.folder / "settings.toml", msgspec.toml.encode(settings))
        return settings

    @cached_property
    def samples(self) -> PublicSamples:
        """The public samples; raises StudyError when they are not the study's."""
        if not self.settings.public:
            raise StudyError("where are the public samples? `psephos join ... --public FILE` says so")
        samples = PublicSamples.of(self.study, Path(self.settings.public))
        StudyTerms(self.study, samples.auxiliary)
        if samples.features != self.study.features:
            raise StudyError("the columns of the public samples are not those of the study")
        return samples

    @cached_property
    def voter(self) -> Voter:
        """Its classifier, not trained yet; raises StudyError where nobody has said how it votes."""
        return Voter(self)

    def closing(self) -> Path:
        """A file whose presence tells whoever plays the curator here to close the vote."""
        return self.folder / "close"

    def agent(self, name: str, board: Board) -> tuple[Agent, Store]:
        """One of its roles over the board, and its store; made for the first time, it joins.

        Raises JournalError when another process plays it, and what the role raises.
        """
        store = Store(self.store(name), {"study": self.study.digest.hex(), "role": name}, exclusive=True, timeout=1.0)
        try:
            return Agent(self._role(name, store), self.study.members, self.identity.key, board, store), store
        except BaseException:
            store.close()
            raise

    def joined(self) -> bool:
        """Whether its roles have been made."""
        return all(self.store(name).exists() for name in self.names)

    def store(self, name: str) -> Path:
        """Where a role keeps what it must not forget."""
        return self.folder / f"{name.replace(' ', '-')}.sqlite"

    def _role(self, name: str, store: Store) -> Role:
        terms = StudyTerms(self.study, self.samples.auxiliary)
        kind, _, number = name.partition(" ")
        if kind == CURATOR:
            return curator_role(terms, lambda result: released(self.study, self.samples, result), store)
        if kind == "holder":
            return holder_role(terms, int(number), store)
        return party_role(terms, int(number), self.identity.key, self.voter, store, self.identity.charge)

    def write_release(self, content: bytes) -> Path:
        """Model and card of what the curator published; raises AgreementError when it is not what was agreed on."""
        model = checked(self.study, self.samples, content)
        output = Path(self.settings.output or self.folder / "released")
        output.mkdir(parents=True, exist_ok=True)
        write_atomically(output / MODEL_FILE, content)
        write_atomically(output / "card.md", card(self.study, model).encode())
        return output


class Voter:
    """What a party brings: a classifier, its own or one that is trained when the vote comes; or its rows themselves."""

    def __init__(self, member: Membership) -> None:
        self._member = member

    def check(self) -> str:
        """Find out before the vote what would keep it from voting, and say what votes.

        Raises StudyError, InvalidParameter or DataError for data or an object that cannot be used.
        """
        settings, study = self._member.settings, self._member.study
        spec = spec_of(StudyTerms(study, self._member.samples.auxiliary))
        if settings.voter and spec.takes_classifier:
            self._own(settings.voter)
            return settings.voter
        if not settings.data:
            raise StudyError(
                "what does this party bring? --data FILE names its rows, --voter MODULE:OBJECT a classifier"
            )
        if settings.learner not in LEARNERS:
            raise InvalidParameter(f"unknown learner {settings.learner!r}; known: {', '.join(LEARNERS)}")
        rows, _ = self._member.samples.private(study, Path(settings.data))
        for place, member in enumerate(study.parties):
            if member.key == self._member.identity.card.key:
                spec.check_rows(place, len(rows))
        if not spec.takes_classifier:
            return f"{len(rows):,} rows of {settings.data}"
        return f"{settings.learner}, trained on {len(rows):,} rows of {settings.data}"

    def predict_votes(self, X: NDArray[np.float64]) -> NDArray[np.integer]:
        """Train, and vote on the samples X (N, d)."""
        settings = self._member.settings
        if settings.voter:
            return np.asarray(self._own(settings.voter).predict_votes(X))
        self.check()
        rows, classes = self._member.samples.private(self._member.study, Path(settings.data))
        white = public_coordinates(X) if settings.learner == "whitened" else None
        learner = make_learner(settings.learner, classes=len(self._member.study.classes), coordinates=white)
        return learner.fit(rows, classes).predict_votes(X)

    def __iter__(self) -> Iterator[Any]:
        """Its rows and their classes, for protocols that ask for these themselves."""
        self.check()
        yield from self._member.samples.private(self._member.study, Path(self._member.settings.data))

    @staticmethod
    def _own(name: str) -> Any:
        module, _, attribute = name.partition(":")
        if "" not in sys.path:
            sys.path.insert(0, "")
        try:
            found = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError, ValueError) as error:
            raise InvalidParameter(f"--voter {name} is no MODULE:OBJECT that can be imported: {error}") from None
        if not callable(getattr(found, "predict_votes", None)):
            raise InvalidParameter(f"--voter {name} has no predict_votes(X), which gives class numbers, int (N,)")
        return found
