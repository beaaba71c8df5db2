"""A member of a study: the study that it signed, its settings, and its roles.

    DIR/STUDY/study.toml      the study that was signed, in its canonical form
    DIR/STUDY/settings.toml   where board, samples and data are; not part of the study, and may be edited
    DIR/STUDY/party-3.sqlite  one store for each role, readable by its owner only
    DIR/STUDY/released/       the model and its card, when there is a result

STUDY is the fingerprint of the study.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from psephos.files import write_atomically
from psephos.model import MODEL_FILE
from psephos.protocol.agent import Agent
from psephos.protocol.board import Board
from psephos.protocol.errors import AgreementError, BudgetFileError, StudyError
from psephos.protocol.foreign import parse_toml, read_text
from psephos.protocol.roles import Role
from psephos.protocol.storage.store import Store
from psephos.protocol.study.study import CURATOR, FORMAT, Study
from psephos.results.budget import budget_text, summarise
from psephos.specs.registry import check_study, differs_from_plan, is_verifiable, protected_by, spec_class
from psephos.specs.terms import StudyTerms
from psephos.study.card import card
from psephos.study.identity import Identity, fingerprint
from psephos.study.party_input import MemberSettings, PartyInput
from psephos.study.release import make_release, read_release
from psephos.study.roles import curator_role, holder_role, party_role
from psephos.study.samples import PublicSamples
from psephos.study.verify import AGREED, FOLLOWS, examine

_MOST_BYTES = 100_000
"""Largest size of a member's settings in bytes."""


def check_joinable(study: Study, identity: Identity) -> None:
    """Raise StudyError where an identity has no role in a study, or this version cannot run it."""
    study.roles_of(identity.key.verification_key)
    check_study(study)
    if study.format != FORMAT:
        raise StudyError(f"this study has format {study.format}, of an earlier version; it has to be made anew")


def sign(study: Study, identity: Identity) -> Membership:
    """Record that an identity agrees to a study, whose digest everything that its roles sign includes.

    Raises StudyError as `check_joinable`, and where its directory cannot be written.
    """
    check_joinable(study, identity)
    folder = identity.directory / fingerprint(study.digest)
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
        """Return the only study of an identity, or the one whose fingerprint begins with `study`.

        Raises StudyError if there is none, or several.
        """
        signed = [Study.read(path) for path in sorted(identity.directory.glob("*/study.toml"))]
        matching = [each for each in signed if fingerprint(each.digest).startswith(study)]
        if len(matching) == 1:
            return cls(identity, matching[0])
        if not matching:
            which = f" {study}" if study else ""
            raise StudyError(
                f"{identity.directory} has not signed a study{which}: "
                f"`psephos join STUDY --identity {shlex.quote(str(identity.directory))} ...` signs one"
            )
        which = ", ".join(f"--study {fingerprint(each.digest)[:9]} ({each.title})" for each in matching)
        raise StudyError(f"{identity.directory} is in several studies; name one: {which}")

    @property
    def folder(self) -> Path:
        """The directory of this study within that of the identity."""
        return self.identity.directory / fingerprint(self.study.digest)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of its roles."""
        return tuple(self.study.roles_of(self.identity.key.verification_key))

    @property
    def settings(self) -> MemberSettings:
        """The stored settings. Raises StudyError for a file that cannot be read."""
        path = self.folder / "settings.toml"
        try:
            fields = parse_toml(read_text(path, _MOST_BYTES)) if path.exists() else {}
            return msgspec.convert(fields, MemberSettings)
        except (OSError, ValueError) as error:  # also of msgspec, and of a text that is not UTF-8
            raise StudyError(f"{path} cannot be used: {error}") from None

    def keep(self, **changed: str | bool | None) -> MemberSettings:
        """Change the settings that are not None, store them, and return them."""
        settings = msgspec.structs.replace(self.settings, **{k: v for k, v in changed.items() if v is not None})
        write_atomically(self.folder / "settings.toml", msgspec.toml.encode(settings))
        return settings

    @cached_property
    def samples(self) -> PublicSamples:
        """The public samples. Raises StudyError if they are not those of the study, or its plan is not theirs."""
        if not self.settings.public:
            raise StudyError("the public samples are not known: name their file with psephos join ... --public FILE")
        samples = PublicSamples.of(self.study, Path(self.settings.public))
        checked = spec_class(self.study.protocol).checks_plan == "join"
        if checked and (changed := differs_from_plan(StudyTerms(self.study, samples))):
            raise StudyError(
                f"the study's {', '.join(changed)} are not those of the public file: whoever wrote the study had "
                "another file or another version of Psephos, or took them from somewhere else"
            )
        return samples

    @cached_property
    def voter(self) -> PartyInput:
        """What it votes with, a classifier or its rows, which are read and trained when they are needed."""
        return PartyInput(self.study, self.identity.card.key, lambda: self.settings, lambda: self.samples)

    def closing(self) -> Path:
        """Return the file whose presence asks the curator's runner to close the vote."""
        return self.folder / "close"

    def agent(self, name: str, board: Board) -> tuple[Agent, Store]:
        """Return the agent of one of its roles on a board, and the role's store.

        Raises StoreInUseError where another process runs this role, and what the role raises.
        """
        store = Store(self.store(name), {"study": self.study.digest.hex(), "role": name}, exclusive=True, timeout=1.0)
        try:
            return Agent(self._role(name, store), self.study.members, self.identity.key, board, store), store
        except BaseException:
            store.close()
            raise

    def joined(self) -> bool:
        """Return whether all its roles have a store."""
        return all(self.store(name).exists() for name in self.names)

    def store(self, name: str) -> Path:
        """Return the path of a role's store."""
        return self.folder / f"{name.replace(' ', '-')}.sqlite"

    def _role(self, name: str, store: Store) -> Role:
        terms = StudyTerms(self.study, self.samples)
        kind, _, number = name.partition(" ")
        if kind == CURATOR:
            return curator_role(terms, lambda result: make_release(self.study, self.samples, result), store)
        if kind == "holder":
            return holder_role(terms, int(number), store)
        return party_role(terms, int(number), self.identity.key, self.voter, store, self._charge)

    def _charge(self, study: Study) -> None:
        """Charge the study to the budget file of the identity; a second time changes nothing."""
        settings = self.settings
        if settings.budget:
            self.identity.use_budget(Path(settings.budget))
        self.identity.charge(study, self.samples.row_digests, settings.data, again=settings.again)

    def _total(self) -> str:
        """Describe what all releases from the member's rows have cost, as far as it knows, for its card."""
        if not any(role.startswith("party") for role in self.names):
            return "this release alone; the card of each party has the total of its rows"
        try:
            with self.identity.budget() as file:
                if self.settings.budget:
                    return budget_text(summarise(file, protected_by(self.study)))
                epsilon, delta = file.spent()
        except BudgetFileError:  # the release is valid without it
            return "not known, because the budget file cannot be used"
        costs = f"all studies of {self.identity.card.name} by their epsilons: epsilon {epsilon:.6g}, delta {delta:.3g}"
        return f"{costs}; other releases from the same rows add to it"

    def write_release(self, content: bytes, board: Board) -> Path:
        """Write the released model and its card, after everything about them that is public was checked again.

        Args:
            content: the result that the curator published. board: where it was published.

        Returns the directory. Raises AgreementError, and writes nothing, for a result that differs from the study,
        does not follow from the board, or could not be computed again although all that it follows from should be
        public.
        """
        evidence = examine(self.study, self.samples, board)
        about_result = [check for check in evidence.checks if check.what in (AGREED, FOLLOWS)]
        if failed := [f"{check.what}: {check.found}" for check in about_result if check.verdict == "fails"]:
            raise AgreementError(
                f"no model is written, because the curator published a wrong result. It fails: {'; '.join(failed)}. "
                "`psephos verify` shows all checks"
            )
        model = read_release(self.study, self.samples, content)
        if evidence.model is not None and is_verifiable(self.study):
            verdicts = [check.verdict for check in about_result if check.what == FOLLOWS]
            if verdicts != ["holds"]:
                raise AgreementError(
                    "no model is written, because nothing on this board shows that the curator's result follows from "
                    "the sum. `psephos verify` shows what is missing"
                )
        if evidence.model != model:
            raise AgreementError("no model is written, because the board has another result than this agent read")
        output = Path(self.settings.output or self.folder / "released")
        output.mkdir(parents=True, exist_ok=True)
        write_atomically(output / MODEL_FILE, content)
        write_atomically(output / "card.md", card(self.study, model, self._total()).encode())
        return output
