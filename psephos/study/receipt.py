"""A receipt of a study, for people who did not take part: who did, what was encrypted, released, and checked.

It is computed from the signed study, its public samples and its board, all of which anybody may have. It contains
nothing that only a member knows, and it is not a certification.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal

import psephos
from psephos.protocol.privacy.accounting import stated_delta
from psephos.protocol.study.study import CURATOR, Study
from psephos.results.palette import DARK, LIGHT
from psephos.results.runs import colluders_text
from psephos.specs.registry import SPECS, coalition_of, is_verifiable, unit_of
from psephos.study.consent import curator_view
from psephos.study.identity import fingerprint
from psephos.study.verify import BoardEvidence, StudyCheck

__all__ = ["FORMAT", "EncryptionFacts", "Participant", "Receipt", "ReleaseTerms", "receipt_of", "write_receipt"]

FORMAT = 1
"""Version of the JSON of a receipt."""

InUse = Literal["yes", "no", "not established"]
_UNITS = {"party": "all rows of one party", "record": "one row of one party"}
_PROVED = {
    "knowledge": "each ballot's sender knows its content, so that nobody can repeat or combine the ballots of others",
    "valid": "each ballot contains one vote for each sample, and its sender knows its content",
}


@dataclass(frozen=True)
class Participant:
    """A member of the study.

    Attributes:
        name: the name in the study; "" for the curator of a study that was written without its name.
        key: the fingerprint of the verification key.
        roles: the names of its roles.
        joined: which of these roles have signed the study on the board.
        ballot: whether its ballot counts; None for the curator and where there are no ballots.
    """

    name: str
    key: str
    roles: list[str]
    joined: list[str]
    ballot: bool | None


@dataclass(frozen=True)
class EncryptionFacts:
    """What was encrypted, and who could decrypt it.

    Attributes:
        in_use: "yes" if the board shows a key and ballots under it, "no" if the protocol has no key, and otherwise
            "not established".
        what: one sentence about what was encrypted, and how.
        key_bits: the length of the Paillier modulus; None without a key.
        key: the first 24 hexadecimal digits of the key's identifier; None without a key.
        could_decrypt: who could have decrypted single ballots, one sentence each.
        decrypted_by: the holders whose partial decryptions are valid and visible on the board.
        decrypted: one sentence about what was decrypted.
        proved: what the ballots prove.
    """

    in_use: InUse
    what: str
    key_bits: int | None
    key: str | None
    could_decrypt: list[str]
    decrypted_by: list[str]
    decrypted: str
    proved: str


@dataclass(frozen=True)
class ReleaseTerms:
    """What was released, and at which privacy cost.

    Attributes:
        published: whether a classifier that agrees with the study is on the board.
        protocol, method: as in the study.
        epsilon, delta: the privacy cost per `unit` that all members signed.
        unit: what epsilon and delta protect: all rows of one party, or one row.
        noise: who adds the noise, and what the guarantee rests on.
        not_covered: what becomes known to somebody and is covered by no epsilon.
    """

    published: bool
    protocol: str
    method: str
    epsilon: float
    delta: float
    unit: str
    noise: str
    not_covered: str


@dataclass(frozen=True)
class Receipt:
    """A receipt of a study.

    Attributes:
        title, study: the title of the study and its fingerprint, which its members compare.
        digest: SHA-256 of the study's canonical text, in hexadecimal; it is signed with every entry of the board.
        trial: whether the study allows a key that protects nothing.
        entries, head: the length and the head of the log that was read.
        computed: the time of the computation, in UTC.
        software: the version of Psephos.
        participants, encryption, release: see their classes.
        checks: every check and its verdict: "holds", "fails" or "not checked".
    """

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
        held, failed = len(self.with_verdict("holds")), len(self.with_verdict("fails"))
        missing = len(self.with_verdict("not checked"))
        parts = [f"{held} checks hold", f"{failed or 'none'} fail{'s' if failed < 2 else ''}"]
        return f"{', '.join(parts)}, and {missing} could not be made."

    def with_verdict(self, verdict: str) -> list[StudyCheck]:
        """Return the checks with this verdict."""
        return [check for check in self.checks if check.verdict == verdict]

    def as_json(self) -> dict[str, Any]:
        """Return the receipt as a JSON object."""
        return {"format": FORMAT, "kind": "receipt", "notice": NOTICE, "summary": self.summary, **asdict(self)}


NOTICE = (
    "This receipt is not a certification. It states what Psephos computed from the signed study, its public samples "
    "and its board; anybody who has these can compute it again. It does not say that the members are who they claim "
    "to be, or that their data are good."
)


def receipt_of(study: Study, evidence: BoardEvidence) -> Receipt:
    """Return the receipt of a study.

    Args:
        study: the signed study.
        evidence: what `psephos.study.verify.examine` found on the board, without the curator's store.
    """
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
        encryption=_encryption(study, evidence),
        release=_release(study, evidence),
        checks=evidence.checks,
    )


def _participants(study: Study, evidence: BoardEvidence) -> list[Participant]:
    def joined(roles: list[str]) -> list[str]:
        return [role for role in roles if role in evidence.joined]

    members = [Participant(study.curator_name, fingerprint(study.curator.raw), [CURATOR], joined([CURATOR]), None)]
    for number, member in enumerate(study.parties):
        roles = [f"party {number}", *([f"holder {member.holder}"] if member.holder else [])]
        ballot = number in evidence.counted if study.uses_key else None
        members.append(Participant(member.name, fingerprint(member.key.raw), roles, joined(roles), ballot))
    return members


def _encryption(study: Study, evidence: BoardEvidence) -> EncryptionFacts:
    if not study.uses_key:
        excluded = study.parameters.get("excluded", 1)
        return EncryptionFacts(
            "no",
            "Paillier encryption was not used. Each party's parameters were split into random shares, and each share "
            "was sealed to its receiver.",
            None,
            None,
            [
                "All other parties and the curator together, who have all shares of a party's parameters: they get the "
                "parameters with that party's own noise.",
                f"Nobody else: {excluded} of the parties and the curator together lack shares.",
            ],
            [],
            "The shares of the sum are published; the sum contains the parties' noise.",
            "Nothing is proved about the shares.",
        )
    named = ", ".join(member.name for member in study.parties if member.holder)
    holders, tolerated = len(study.holders), study.ceremony().tolerated
    could = [f"Any {study.threshold} of the {holders} key holders together ({named})."]
    if tolerated + 1 < study.threshold:
        could.append(f"Any {tolerated + 1} of them together, if they broke the rules while the key was made.")
    could.append(
        "By the protocol nobody else: no dealer makes the key, and the curator has no part of it. That nobody has the "
        "whole key cannot be checked from the board."
    )
    key = evidence.key
    opened_by = [f"holder {number}" for number in evidence.openers]
    return EncryptionFacts(
        in_use="yes" if key is not None and evidence.counted else "not established",
        what=_encrypted(study, evidence),
        key_bits=key.key.bits if key is not None else None,
        key=key.key.identifier.hex()[:24] if key is not None else None,
        could_decrypt=could,
        decrypted_by=opened_by,
        decrypted=_decrypted(study, evidence),
        proved=f"{_PROVED[study.proofs]}." if evidence.counted else "No ballot counts.",
    )


def _encrypted(study: Study, evidence: BoardEvidence) -> str:
    if evidence.key is None:
        return "The board shows no key, so nothing can have been encrypted under one."
    if not evidence.counted:
        return "The board shows a key and no ballot that counts."
    ballots = f"{len(evidence.counted)} of {len(study.parties)} parties"
    steps = f" in the last of {evidence.steps} steps" if evidence.steps > 1 else ""
    return (
        f"The ballots of {ballots} count{steps}. Each is a list of ciphertexts under the {evidence.key.key.bits}-bit "
        "Paillier key below. The protocol decrypts their product only; that key holders decrypted nothing else among "
        "themselves cannot be checked."
    )


def _decrypted(study: Study, evidence: BoardEvidence) -> str:
    if evidence.openers:
        return "Partial decryptions of the product of all counted ballots are on the board; each was checked."
    if study.public:
        return "No partial decryption is on the board: nothing was decrypted publicly."
    return (
        "Partial decryptions are sealed to the curator; this receipt cannot tell which holders sent one, and for what."
    )


def _release(study: Study, evidence: BoardEvidence) -> ReleaseTerms:
    joint, coalition = SPECS[study.protocol].joint, coalition_of(study)
    if joint:
        noise = "The parties add the noise before encryption, so the opened sum contains it."
        if coalition is not None:
            noise += f" Colluders {colluders_text(coalition, study.threshold)}."
        noise += " That each party drew its share of the noise is not proved."
        if not is_verifiable(study):
            noise += " NOT VERIFIED: the sum is opened for the curator alone, who computes the classifier from it."
    else:
        noise = (
            "NOT VERIFIED: the curator adds the noise after the sum is opened, and nobody else can check that it did."
        )
    return ReleaseTerms(
        published=evidence.model is not None,
        protocol=study.protocol,
        method=study.method,
        epsilon=study.epsilon,
        delta=stated_delta(study.delta),
        unit=_UNITS[unit_of(study)],
        noise=noise,
        not_covered="Nothing; no exact sum is opened." if joint else f"The curator sees {curator_view(study)}.",
    )


def write_receipt(receipt: Receipt, path: Path) -> tuple[Path, Path]:
    """Write a receipt as an HTML page and as JSON, with the suffixes .html and .json.

    Args:
        receipt: the receipt.
        path: the path of one of the two files; the other is beside it.

    Returns:
        The paths of the page and of the JSON file.
    """
    page, document = path.with_suffix(".html"), path.with_suffix(".json")
    page.write_text(render(receipt), encoding="utf-8")
    document.write_text(json.dumps(receipt.as_json(), indent=1) + "\n", encoding="utf-8")
    return page, document


def render(receipt: Receipt) -> str:
    """Return the receipt as one HTML page without scripts."""
    text: str = _template().render(receipt=receipt, notice=NOTICE, light=LIGHT, dark=DARK)
    return text


@cache
def _template() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("psephos.results"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("receipt.html.jinja")
