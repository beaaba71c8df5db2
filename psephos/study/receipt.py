"""A receipt of a study, for people who did not take part: who did, what was encrypted, released, and checked.

It is computed from the signed study, its public samples and its board, and is not a certification.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import psephos
from psephos.files import write_atomically
from psephos.protocol.errors import ReportError
from psephos.protocol.privacy.accounting import stated_delta
from psephos.protocol.study.study import CURATOR, Study
from psephos.results.base import Fact
from psephos.results.trust import facts
from psephos.specs.registry import spec_class
from psephos.study.consent import contribution, model_cost_text, trust_of
from psephos.study.identity import fingerprint
from psephos.study.verify import FOLLOWS, BoardEvidence, StudyCheck, Verdict

FORMAT = 1
"""Version of the JSON of a receipt."""

InUse = Literal["yes", "no", "not established"]


@dataclass(frozen=True)
class Participant:
    """A member of the study; `name` is "" for the curator of a study that was written without its name.

    `ballot`, `sums`: whether and in how many encrypted sums its ballots count; None where it casts none.
    """

    name: str
    key: str
    roles: list[str]
    joined: list[str]
    ballot: bool | None
    sums: int | None


@dataclass(frozen=True)
class EncryptionFacts:
    """What was encrypted, and who could decrypt it, in sentences.

    `in_use`: "yes" if the board shows a key and ballots under it, "no" if the protocol has no key. `key_bits`, `key`:
    length of the modulus, and 24 hexadecimal digits of the key's identifier; None without a key. `could_decrypt`: who
    could have learned what a single party sent. `decrypted_by`: holders whose valid partial decryptions are on the
    board.
    """

    in_use: InUse
    what: str
    sums: int
    key_bits: int | None
    key: str | None
    holders: list[str]
    could_decrypt: list[str]
    decrypted_by: list[str]
    decrypted: str
    proved: str


@dataclass(frozen=True)
class ReleaseTerms:
    """What was released, and at which privacy cost per `unit`.

    `published`, `sha256`: whether a model that agrees with the study is on the board, and the digest of its file.
    `follows`: whether it follows from the opened sum. `not_covered`: what becomes known to somebody and is covered by
    no epsilon.
    """

    published: bool
    sha256: str
    follows: Verdict
    protocol: str
    method: str
    epsilon: float
    delta: float
    unit: str
    model_cost: str
    noise: str
    not_covered: str


@dataclass(frozen=True)
class Receipt:
    """A receipt of a study: `study` is its fingerprint; `entries` and `head` are of the log that was read."""

    title: str
    study: str
    digest: str
    trial: bool
    entries: int
    head: str
    computed: str
    software: str
    participants: list[Participant]
    encryption: EncryptionFacts
    release: ReleaseTerms
    checks: list[StudyCheck]

    @property
    def summary(self) -> str:
        """The outcome of all checks in one sentence."""
        passed, failed = len(self.with_verdict("holds")), len(self.with_verdict("fails"))
        missing = len(self.with_verdict("not checked"))
        made = passed + failed + missing
        return f"Of {made} checks {passed} hold, {failed} fail, and {missing} could not be made."

    @property
    def noun(self) -> str:
        """What the study releases."""
        numeric = spec_class(self.release.protocol).numeric or self.release.method == "unchanged"
        return "prediction" if numeric else "classifier"

    @property
    def warning(self) -> str:
        """What a reader must know before relying on the released classifier; "" if there is nothing."""
        if self.with_verdict("fails"):
            return "FAILED. Checks fail: do not rely on this study before you know why."
        if not self.release.published:
            return f"The study is not finished on this board: it shows no {self.noun}."
        if self.release.follows != "holds":
            return f"The released {self.noun} is not verified: nobody can check from the board that it is private."
        return ""

    @property
    def misconduct(self) -> str:
        """Who has signed what no honest member signs, where that does not change the result; "" for nobody."""
        names = sorted({name for check in self.with_verdict("misconduct") for name in check.culprits})
        return f"Misconduct, which does not change the result: {', '.join(names)}." if names else ""

    def with_verdict(self, verdict: str) -> list[StudyCheck]:
        """Return the checks with this verdict."""
        return [check for check in self.checks if check.verdict == verdict]

    def as_json(self) -> dict[str, Any]:
        """Return the receipt as a JSON object."""
        outcome = {"summary": self.summary, "warning": self.warning, "misconduct": self.misconduct}
        return {"format": FORMAT, "kind": "receipt", "notice": NOTICE, **outcome, **asdict(self)}


NOTICE = (
    "This receipt is not a certification. It states what Psephos computed from the signed study, its public samples "
    "and its board; anybody who has these can compute it again. It does not say that the members are who they claim "
    "to be, or that their data are good."
)


def receipt_of(study: Study, evidence: BoardEvidence) -> Receipt:
    """Return the receipt of a study."""
    rows = facts(trust_of(study))
    return Receipt(
        title=study.title,
        study=fingerprint(study.digest),
        digest=study.digest.hex(),
        trial=study.trial,
        entries=evidence.size,
        head=evidence.head,
        computed=datetime.now(UTC).isoformat(timespec="seconds"),
        software=f"psephos {psephos.__version__}",
        participants=_participants(study, evidence),
        encryption=_encryption(study, evidence, rows),
        release=_release(study, evidence, rows),
        checks=evidence.checks,
    )


def _participants(study: Study, evidence: BoardEvidence) -> list[Participant]:
    def joined(roles: list[str]) -> list[str]:
        return [role for role in roles if role in evidence.joined]

    members = [
        Participant(study.curator_name, fingerprint(study.curator.raw), [CURATOR], joined([CURATOR]), None, None)
    ]
    for number, member in enumerate(study.parties):
        roles = [f"party {number}", *([f"holder {member.holder}"] if member.holder else [])]
        sums = evidence.counted_sums[number] if study.uses_key else None
        ballot = None if sums is None else sums > 0
        members.append(Participant(member.name, fingerprint(member.key.raw), roles, joined(roles), ballot, sums))
    return members


def _encryption(study: Study, evidence: BoardEvidence, rows: Sequence[Fact]) -> EncryptionFacts:
    opens = [f"{fact.label}: {fact.value}" for fact in rows if fact.topic == "opens"]
    could_decrypt = [f"{text[0].upper()}{text[1:]}." for text in opens] + ["By the protocol nobody else."]
    if not study.uses_key:
        what = (
            f"{contribution(study)} The protocol uses no Paillier encryption: the parameters are split into random "
            "shares, and each share is sealed to its receiver."
        )
        decrypted = (
            "Not all shares of the sum are published." if evidence.result is None else "All shares are published."
        )
        return EncryptionFacts("no", what, 0, None, None, [], could_decrypt, [], decrypted, "nothing about the shares.")
    (proved,) = (fact.value for fact in rows if fact.topic == "proved")
    key, counted = evidence.key, evidence.counted_sums
    return EncryptionFacts(
        in_use="yes" if key and counted else "not established",
        what=_encrypted(study, evidence),
        sums=evidence.steps,
        key_bits=key.key.bits if key is not None else None,
        key=key.key.identifier.hex()[:24] if key is not None else None,
        holders=[member.name for member in study.parties if member.holder],
        could_decrypt=could_decrypt,
        decrypted_by=[f"holder {number}" for number in sorted({*evidence.openers, *evidence.exposed})],
        decrypted=_decrypted(study, evidence),
        proved=f"{proved if counted else 'no ballot counts'}.",
    )


def _encrypted(study: Study, evidence: BoardEvidence) -> str:
    if evidence.key is None:
        return "The board shows no key, so nothing can have been encrypted under one."
    if not evidence.steps:
        return "The board shows a key, and no completed step of the descent."
    if not evidence.counted_sums:
        return "The board shows a key and no ballot that counts."
    ballots = f"{len(evidence.counted)} of {len(study.parties)} parties"
    return (
        f"{contribution(study)} The ballots of {ballots} count{_last(evidence)}. Each is a list of ciphertexts under "
        f"the {evidence.key.key.bits}-bit Paillier key below. The protocol decrypts their product only; that key "
        "holders decrypted nothing else among themselves cannot be checked."
    )


def _last(evidence: BoardEvidence) -> str:
    return f" in the last of {evidence.steps} steps" if evidence.steps > 1 else ""


def _decrypted(study: Study, evidence: BoardEvidence) -> str:
    if evidence.exposed:
        text = "Partial decryptions that should be sealed to the curator are on the board for everybody."
        enough = len(evidence.exposed) >= study.threshold
        return f"{text} {'They open the exact sum.' if enough else 'They are too few to open the exact sum.'}"
    if evidence.openers:
        product = f"the product of all counted ballots{_last(evidence)}"
        return f"Partial decryptions of {product} are on the board; each was checked."
    if study.sum_is_public:
        return "The board shows no valid partial decryption."
    return (
        "By the protocol partial decryptions are sealed to the curator; this receipt cannot tell which holders sent "
        "one, and for what."
    )


def _release(study: Study, evidence: BoardEvidence, rows: Sequence[Fact]) -> ReleaseTerms:
    noise = [fact.text for fact in rows if fact.topic in ("noise", "colluders", "unverified")]
    if spec_class(study.protocol).joint:
        noise.append("that every share of the noise was drawn is not proved")
    follows: list[Verdict] = [check.verdict for check in evidence.checks if check.what == FOLLOWS]
    (unit,) = (fact.value for fact in rows if fact.topic == "unit")
    (curator,) = (fact.value for fact in rows if fact.label == "the curator")
    everybody = study.uses_key and len(evidence.exposed) >= study.threshold
    sizes = ["The study states each party's number of rows."] if "sizes" in study.parameters else []
    given = f"{'Everybody who reads the board' if everybody else 'The curator'} is given {curator}."
    return ReleaseTerms(
        published=evidence.model is not None,
        sha256=evidence.sha256,
        follows=follows[0] if follows else "not checked",
        protocol=study.protocol,
        method=study.method,
        epsilon=study.epsilon,
        delta=stated_delta(study.delta),
        unit=unit,
        model_cost=model_cost_text(study),
        noise="; ".join(noise),
        not_covered=" ".join([*sizes, given, "Everybody who reads the board sees who took part and when."]),
    )


_PAGE_BEGINS = b"<!doctype html>\n<!-- A receipt of a Psephos study -->\n"
_JSON_BEGINS = b'{\n "format": 1,\n "kind": "receipt",\n'


def receipt_paths(path: Path) -> tuple[Path, Path]:
    """Return the paths of a receipt's page and of its JSON file.

    Raises ReportError where they cannot be written, or a file there is not a receipt.
    """
    if path.suffix not in ("", ".html", ".json"):
        raise ReportError(f"a receipt is FILE.html and FILE.json, and {path} ends in {path.suffix}: leave that out")
    stem = path.with_suffix("") if path.name else path
    if path.is_dir() or not stem.name:
        raise ReportError(f"{path} is a directory: name a file in it, such as {path / 'receipt.html'}")
    if not stem.parent.is_dir() or not os.access(stem.parent, os.W_OK | os.X_OK):
        raise ReportError(f"no file can be written in {stem.parent}: name a file in another directory")
    page, document = (stem.with_name(stem.name + suffix) for suffix in (".html", ".json"))
    for file, beginning in ((page, _PAGE_BEGINS), (document, _JSON_BEGINS)):
        if file.is_symlink() or (file.exists() and not _begins_with(file, beginning)):
            raise ReportError(f"{file} exists and is not a receipt: choose another name, or remove it")
    return page, document


def _begins_with(file: Path, beginning: bytes) -> bool:
    """Return whether an existing path is a file that begins so; other kinds, such as pipes, are not opened."""
    if not file.is_file():
        return False
    try:
        with file.open("rb") as content:
            return content.read(len(beginning)) == beginning
    except OSError as error:
        raise ReportError(f"{file} exists and cannot be read: {error.strerror}; choose another name") from None


def write_receipt(receipt: Receipt, path: Path) -> tuple[Path, Path]:
    """Write a receipt as an HTML page and as JSON; an earlier receipt is replaced."""
    page, document = receipt_paths(path)
    write_atomically(page, render(receipt).encode())
    write_atomically(document, (json.dumps(receipt.as_json(), indent=1) + "\n").encode())
    return page, document


def render(receipt: Receipt) -> str:
    """Return the receipt as one HTML page without scripts."""
    from psephos.results.html import template  # jinja2 is an extra

    return template("receipt.html.jinja").render(receipt=receipt, notice=NOTICE)
