"""Checks a study from its board alone, as anybody can; with the curator's store, also what was sealed to the curator.

Everything is computed again from the entries: signatures, the order of the log, the key, the proof of every ballot, the
product of the ballots before the close, the proof of every partial decryption, the opened sum, and the classifier that
follows from it. docs/protocols/board.md says what each check rests on.
"""

from __future__ import annotations

import hashlib
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from psephos.curator.pathak.curator import SharedSum
from psephos.curator.psgd.curator import GradientCuratorState
from psephos.curator.tally import OpenedSum, open_product
from psephos.model import Model, RegressionModel, written_model
from psephos.parties.ceremony import CEREMONY_KINDS
from psephos.parties.ceremony_checks import CeremonyReader
from psephos.protocol.board import Board
from psephos.protocol.board.client import BoardReader, describe_missing
from psephos.protocol.board.sealing import SealingKey
from psephos.protocol.encrypted_sum.messages import PartialDecryption
from psephos.protocol.encrypted_sum.product import BallotProduct, Observer, VoteClosed
from psephos.protocol.encrypted_sum.proofs import check_opening
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import EquivocationError, PsephosError, StudyError
from psephos.protocol.paillier.threshold import ThresholdKey
from psephos.protocol.psgd.state import DescentState
from psephos.protocol.roles import BOARD, Entry, Refusal, Role
from psephos.protocol.storage.store import Store
from psephos.protocol.study.stages import NoKey, StagedRole, initial_stages
from psephos.protocol.study.study import CURATOR, Study, printable
from psephos.protocol.wire import Kind, Reader, session_of
from psephos.specs.base import Spec, SumSpec
from psephos.specs.pathak import PathakSpec
from psephos.specs.psgd import PsgdSpec
from psephos.specs.registry import SPECS, coalition_of, participants_of, spec_of
from psephos.specs.regression import RegressionSpec
from psephos.specs.rehearsed import RehearsedSpec
from psephos.specs.study import StudyTerms
from psephos.study.identity import fingerprint
from psephos.study.regression import differs_from_public_rows
from psephos.study.rehearsal import differs_from_rehearsal
from psephos.study.release import follows_from_sum, read_release, together_text
from psephos.study.samples import PublicSamples

__all__ = ["BoardEvidence", "StudyCheck", "Verdict", "as_text", "examine", "verify"]

Verdict = Literal["holds", "fails", "not checked"]

_LONGEST_FOUND = 1_000
"""Longest text of a check, in characters."""

_WHOLE_KEY = "that nobody has the whole key"

AGREED = "the result: of the classes, columns, method and privacy cost that were agreed on"
FOLLOWS = "the result follows from the sum"


@dataclass(frozen=True)
class StudyCheck:
    """One check: what was checked, the verdict, and what was found."""

    what: str
    verdict: Verdict
    found: str


@dataclass
class BoardEvidence:
    """What the checks of a study have found on its board; a check that lacks what it needs is not made.

    Attributes:
        entries: the valid entries that belong to the protocol, in the order of the board.
        checks: the checks, in the order in which they were made.
        size, head: the number of entries of the log, and its head in hexadecimal.
        joined: the roles that have signed the study.
        key: the holders' public key.
        round, product, closed, opened: the encrypted sum: its terms, the product of the counted ballots, the closed
            vote, and the opened sum; None for a descent, which has many.
        counted: the numbers of the parties whose ballots count; of a descent, in its last step.
        counted_sums: in how many of the encrypted sums the ballots of each party count, by the party's number.
        openers: the numbers of the holders whose partial decryptions are valid and visible here; of a descent, in its
            last step.
        steps: the number of encrypted sums.
        exposed: the numbers of the holders whose partial decryptions of an exact sum everybody can read.
        result: what the classifier is computed from, where it is known.
        model: the published model, where it agrees with the study.
        lacks: why there can be no result yet: one that is published is invented, or this board omits something.
    """

    entries: list[Entry] = field(default_factory=list)
    checks: list[StudyCheck] = field(default_factory=list)
    size: int = 0
    head: str = ""
    joined: frozenset[str] = frozenset()
    key: ThresholdKey | None = None
    round: Round | None = None
    product: BallotProduct | None = None
    closed: VoteClosed | None = None
    opened: OpenedSum | None = None
    counted: tuple[int, ...] = ()
    counted_sums: Counter[int] = field(default_factory=Counter)
    openers: tuple[int, ...] = ()
    steps: int = 0
    exposed: tuple[int, ...] = ()
    result: Any = None
    model: Model | RegressionModel | None = None
    lacks: str = ""

    def note(self, what: str, verdict: Verdict, found: str) -> None:
        """Add a check; the arguments are the fields of `StudyCheck`. Parts of `found` may be texts of members."""
        self.checks.append(StudyCheck(what, verdict, printable(found, _LONGEST_FOUND)))

    @property
    def sha256(self) -> str:
        """SHA-256 of the published model's file, in hexadecimal; "" where there is none that agrees with the study."""
        return "" if self.model is None else hashlib.sha256(written_model(self.model)).hexdigest()

    def compare_model(self, content: bytes) -> None:
        """Add the check that a model file has the bytes that were published."""
        digest, released = hashlib.sha256(content).hexdigest(), self.sha256 or "none"
        same = digest == released
        self.note(
            "the model file: the one that was published",
            "holds" if same else "fails",
            f"SHA-256 {digest}" + ("" if same else f"; published is {released}"),
        )

    def of(self, *kinds: Kind) -> list[Entry]:
        """Return the entries of these kinds."""
        return [entry for entry in self.entries if any(entry.is_a(kind) for kind in kinds)]


def verify(study: Study, samples: PublicSamples, board: Board, curator: Store | None = None) -> list[StudyCheck]:
    """Return all checks of a study; arguments and errors as in `examine`."""
    return examine(study, samples, board, curator).checks


def examine(study: Study, samples: PublicSamples, board: Board, curator: Store | None = None) -> BoardEvidence:
    """Make every check of a study that can be made, and return them with what they found.

    Args:
        study: the signed study.
        samples: the public samples, as its members have them.
        board: the whole log.
        curator: the curator's store, to check also what was sealed to it.

    Raises:
        BoardError: the board cannot be read.
        StudyError: the samples or the store are those of another study.
        JournalError: the store cannot be read.
    """
    spec, evidence = spec_of(StudyTerms(study, samples)), BoardEvidence()
    _read(study, board, curator, evidence)
    if isinstance(spec, RehearsedSpec | RegressionSpec):
        _plan(study, samples, evidence)
    _ready(study, evidence)
    if isinstance(spec, PathakSpec):
        _shares(spec, study, evidence)
    elif evidence.key is None:
        evidence.note("ballots, and what they add up to", "not checked", "there is no key yet")
    elif isinstance(spec, PsgdSpec):
        _series(spec, evidence.key, study, evidence)
    else:
        assert isinstance(spec, SumSpec)
        _sum(spec.terms(evidence.key, participants_of(study)), study, curator is not None, evidence)
        evidence.result = evidence.opened
    _result(spec, study, samples, evidence)
    for what, why in _NEVER:
        if study.uses_key or what != _WHOLE_KEY:
            evidence.note(what, "not checked", why)
    return evidence


_NEVER = (
    ("who holds the identities", "a study names keys; that they are those people's is for people to see"),
    (_WHOLE_KEY, "what the holders told each other to make it is sealed, and each of them checked that for itself"),
    ("what the parties trained on", "no proof says that it is good, nor that a share of noise was drawn"),
    ("who else was shown the board", "compare the head with the other members'"),
    ("what other studies of the same data cost", "their epsilons add to this one's; a board shows one study"),
)


def _plan(study: Study, samples: PublicSamples, evidence: BoardEvidence) -> None:
    """Check that a step was planned from public rows alone."""
    rehearsed = study.protocol == "rehearsed"
    what = f"the plan: what {'a rehearsal on the public rows chooses' if rehearsed else 'the public rows alone give'}"
    try:
        changed = differs_from_rehearsal(study, samples) if rehearsed else differs_from_public_rows(study, samples)
    except PsephosError as error:
        return evidence.note(what, "fails", str(error))
    if changed:
        text = f"computed here from the public file, {changed} differ. The plan changes no epsilon"
        return evidence.note(what, "fails", text)
    return evidence.note(what, "holds", f"computed again from {study.parameters['labelled']} labelled public rows")


def _read(study: Study, board: Board, curator: Store | None, evidence: BoardEvidence) -> None:
    """Read the log from its beginning, as a reader without a role, or as the curator."""
    reader = BoardReader(study.members)
    if curator is not None:
        secret = curator.get("seat", b"sealing")
        if not secret:
            raise StudyError("this is no store of a curator who can still read what was sealed to it")
        reader = BoardReader(study.members, CURATOR, SealingKey(secret))
    refused: Counter[str] = Counter()
    forks: list[str] = []
    for number, data in board.read(0):
        checked = reader.check(number, data)
        if isinstance(checked.error, EquivocationError):
            forks.append(str(checked.error))
        elif checked.error is not None:
            refused[type(checked.error).__name__] += 1
        elif checked.entry is not None:
            evidence.entries.append(checked.entry)
    evidence.size, evidence.head = reader.head.size, reader.head.root.hex()
    text = f"{evidence.size} entries; head {evidence.head}"
    if refused:
        text += f"; not of this study, forged or of another board, and so not counted: {_listed(refused)}"
    if missing := describe_missing(reader.missing_places()):
        text += f"; {missing}"
    verdict: Verdict = "fails" if missing or forks else "holds" if evidence.size else "not checked"
    if forks:
        # Only a member can sign such an entry: the board, or that member, shows somebody another log than this one.
        text += f"; {len(forks)} signed entries contradict this log. {forks[0]}"
    evidence.note("signatures, order and heads of the log", verdict, text)
    evidence.joined = frozenset(entry.sender for entry in evidence.of(Kind.JOINED))
    absent = sorted({*study.must_join} - evidence.joined)
    evidence.note(
        "who has agreed to the study",
        "fails" if absent else "holds",
        f"missing: {', '.join(absent)}" if absent else f"{len(evidence.joined)} of {len(study.members.keys)} roles",
    )


_REASONS = {
    "DuplicateBallotError": "a second one",
    "ForgedSignatureError": "signed by somebody else",
    "LateBallotError": "after the close",
    "MessageError": "malformed",
    "ProofError": "without a valid proof",
    "UnexpectedMessageError": "unexpected there",
    "UnknownPartyError": "from a stranger",
    "WrongRoundError": "for something else",
}
"""Why an entry is refused, by the class of the error."""


def _listed(numbers: Counter[str]) -> str:
    """Return numbers of refused entries by the class of the error: "1 LateBallotError (after the close)"."""
    reasons = {name: f" ({_REASONS[name]})" if name in _REASONS else "" for name in numbers}
    return ", ".join(f"{count} {name}{reasons[name]}" for name, count in sorted(numbers.items()))


def _refused_by_sender(refused: Sequence[Refusal]) -> str:
    """Return numbers of refused entries by their senders and the class of the error."""
    senders: dict[str, Counter[str]] = {}
    for refusal in refused:
        senders.setdefault(refusal.entry.sender, Counter())[type(refusal.error).__name__] += 1
    return "; ".join(f"{_listed(numbers)} of {sender}" for sender, numbers in sorted(senders.items()))


def _run(role: Role, entries: Iterable[Entry]) -> tuple[Any, Sequence[Refusal]]:
    """Return the state of a role after it has read these entries, and the entries that it refused."""
    step = role.receive(role.start().state, list(entries))
    return step.state, step.refused


def _ready(study: Study, evidence: BoardEvidence) -> None:
    """Check whether the protocol has begun: all have joined who must, and there is a key where one is needed.

    Entries before that are not part of the protocol for anybody; they are removed from `evidence`.
    """
    what = "the key: published alike by all holders"
    reader = StagedRole("verifier", *initial_stages("verifier", study))
    state = reader.start().state
    result, entries, ceremony = None, iter(evidence.entries), list[Entry]()
    for entry in entries:
        if state.stage and entry.sender in study.holders and any(map(entry.is_a, CEREMONY_KINDS)):
            ceremony.append(entry)
        state = reader.receive(state, [entry]).state
        if (result := reader.result(state)) is not None:
            break
    evidence.entries = list(entries)
    if not study.uses_key:
        return
    if isinstance(result, ThresholdKey):
        evidence.key = result
        key, degree = result.key, f" of degree {result.key.degree}" if result.key.degree > 1 else ""
        size = f"{key.bits} bits{degree} ({key.identifier.hex()[:12]})"
        evidence.note(what, "holds", f"{size}; {result.threshold} of {result.holders} open")
        _ceremony(study, ceremony, evidence)
    elif isinstance(none := getattr(state.state, "state", None), NoKey):
        evidence.note(what, "fails", none.why)
    else:
        evidence.note(what, "not checked", "not all holders have published it")


def _ceremony(study: Study, entries: Sequence[Entry], evidence: BoardEvidence) -> None:
    """Check that the published key follows from the holders' messages; the key of a trial may come from a dealer."""
    what = "the key: what the messages of the ceremony make"
    if not entries and study.trial:
        return None
    try:
        computed_key = CeremonyReader(study.ceremony(), entries).key()
    except PsephosError as error:
        return evidence.note(what, "fails", str(error))
    if computed_key != evidence.key:
        return evidence.note(what, "fails", "it is another key than the holders publish")
    return evidence.note(what, "holds", "every check that needs no share of it holds")


def _sum(round_: Round, study: Study, as_curator: bool, evidence: BoardEvidence) -> None:
    """Check one encrypted sum."""
    evidence.round, evidence.steps = round_, 1
    _ballots(study, evidence)
    _confirmations(evidence)
    _opening(study, as_curator, evidence)


def _series(spec: PsgdSpec, key: ThresholdKey, study: Study, evidence: BoardEvidence) -> None:
    """Check every step of a descent: the point that was announced, and its encrypted sum, which everybody can read."""
    terms = spec.terms(key, participants_of(study))
    what = "every step: at the point that follows, and its sum published alike by t holders"
    descent, refused, steps, last = DescentState.start(terms), Counter[str](), list[BoardEvidence](), None
    messages = evidence.of(Kind.BALLOT, Kind.CLOSE, Kind.CONFIRMATION, Kind.PARTIAL_DECRYPTION)
    announced_at = 0
    for entry in evidence.of(Kind.ANNOUNCEMENT, Kind.PUBLISHED_SUM):
        try:
            is_announcement = entry.is_a(Kind.ANNOUNCEMENT)
            after = descent.announced(terms, entry, "verifier") if is_announcement else descent.published(terms, entry)
        except PsephosError as error:
            refused[type(error).__name__] += 1
            continue
        announced_at = entry.number if is_announcement else announced_at
        if after.steps > descent.steps and after.announcement is not None:
            round_ = terms.round(after.announcement)
            own = [one for one in messages if one.number > announced_at and session_of(one.data) == round_.digest]
            last = BoardEvidence(own)
            _sum(round_, study, False, last)
            if last.opened is None:
                evidence.lacks = f"nobody opens the sum of step {after.steps} on this board"
            if last.opened is not None:
                same = last.opened.sums == after.sums()
                last.note("the published sum is the opened one", "holds" if same else "fails", f"step {after.steps}")
            steps.append(last)
        descent = after
    text = f"{descent.steps} steps" + (f"; refused: {_listed(refused)}" if refused else "")
    evidence.note(what, "holds" if descent.over(terms) else "not checked", text)
    for name in dict.fromkeys(check.what for step in steps for check in step.checks):
        verdicts = [(check.verdict, check.found) for step in steps for check in step.checks if check.what == name]
        worst = max(verdicts, key=lambda one: ("holds", "not checked", "fails").index(one[0]))
        checked_steps = sum(any(check.what == name for check in step.checks) for step in steps)
        evidence.note(f"{name}, in each of {checked_steps} steps", *worst)
    evidence.steps = len(steps)
    for step in steps:
        evidence.counted_sums.update(step.counted)
    if last is not None:
        evidence.counted, evidence.openers = last.counted, last.openers
    if not descent.over(terms):
        evidence.lacks = "the descent is not over"
    elif last is not None and last.opened is not None:
        evidence.result = GradientCuratorState(descent, last.opened)


def _shares(spec: PathakSpec, study: Study, evidence: BoardEvidence) -> None:
    what = "shares of the sum: published by everybody"
    consumer = spec.consumer(spec.terms(None, participants_of(study)))
    state, refused = _run(consumer, evidence.of(Kind.PUBLISHED_SHARE))
    total = consumer.result(state)
    if total is None:
        evidence.lacks = f"not all shares of it are on this board: it waits for {consumer.awaits(state)}"
        return evidence.note(what, "not checked", f"waits for {consumer.awaits(state)}")
    evidence.result = SharedSum(total)
    summary = f"{spec.agreed.parties} parties and the curator" + (f"; {len(refused)} refused" if refused else "")
    return evidence.note(what, "holds", summary)


def _ballots(study: Study, evidence: BoardEvidence) -> None:
    what = f"ballots: signatures, proofs ({study.proofs}), and their product"
    assert evidence.round is not None
    observer = Observer("verifier", evidence.round)
    state, refused = _run(observer, evidence.of(Kind.BALLOT, Kind.NOISE_BALLOT, Kind.CLOSE))
    evidence.product = observer.product(state.state)
    evidence.counted = tuple(n for n in range(len(study.parties)) if evidence.product.members >> n & 1)
    evidence.counted_sums = Counter(evidence.counted)
    evidence.closed = state.state if isinstance(state.state, VoteClosed) else None
    summary = f"{len(evidence.product)} ballots count, and the vote is {'closed' if evidence.closed else 'open'}"
    if evidence.round.holder_noise:
        summary += (
            f"; {evidence.product.addends - len(evidence.product)} of {len(study.holders)} holders have added noise"
        )
    if refused:
        summary += f"; refused: {_refused_by_sender(refused)}"
    return evidence.note(what, "holds" if evidence.counted else "not checked", summary)


def _confirmations(evidence: BoardEvidence) -> None:
    assert evidence.round is not None
    assert evidence.product is not None
    what = "confirmations of one product"
    if evidence.closed is None:
        return evidence.note(what, "not checked", "the vote is open")
    state = evidence.closed
    for entry in evidence.of(Kind.CONFIRMATION):
        try:
            state = state.with_confirmation(evidence.round, entry)
        except PsephosError:
            continue  # all other readers refuse it, too
    agreed = state.agreeing(evidence.product.digest)
    others = [holder for holder, digest in state.confirmed if digest != evidence.product.digest]
    if others:
        return evidence.note(what, "fails", f"holders {others} confirmed another product than this board's")
    enough = len(agreed) >= evidence.round.confirmations
    count = f"{len(agreed)} of at least {evidence.round.confirmations}"
    if not enough:
        evidence.lacks = f"its product is confirmed by {count}"
    return evidence.note(what, "holds" if enough else "not checked", count)


def _opening(study: Study, as_curator: bool, evidence: BoardEvidence) -> None:
    what = "partial decryptions: proofs, and what they open"
    assert evidence.round is not None
    assert evidence.product is not None
    if evidence.closed is None:
        evidence.lacks = "the vote is open"
        return evidence.note(what, "not checked", evidence.lacks)
    if not as_curator and not study.sum_is_public and not evidence.of(Kind.PARTIAL_DECRYPTION):
        return evidence.note(
            what, "not checked", "they are sealed to the curator, whose store opens them (--curator DIR)"
        )
    vector = evidence.product.vector()
    parts: dict[int, PartialDecryption] = {}
    wrong: list[str] = []
    for entry in evidence.of(Kind.PARTIAL_DECRYPTION):
        if entry.sender not in study.holders:
            continue  # all other readers refuse it, too
        try:
            part = PartialDecryption.decode(entry.data, evidence.round)
            if entry.sender != f"holder {part.holder}" or part.product_digest != evidence.product.digest:
                raise StudyError("it is from another holder, or for another product")
            check_opening(evidence.round, part.holder, vector.ciphertexts, part.values, part.proof)
        except PsephosError as error:
            wrong.append(f"{entry.sender}: {error}")
            continue
        parts[part.holder] = part
        if entry.receiver == BOARD and not (SPECS[study.protocol].joint or study.sum_is_public):
            evidence.exposed = (*evidence.exposed, part.holder)
    evidence.openers = tuple(sorted(parts))
    if evidence.exposed:
        evidence.note(
            "the exact sum: opened for the curator alone",
            "fails",
            f"holders {sorted(evidence.exposed)} published their partial decryptions of it; any {study.threshold} of "
            "these open it for everybody, without noise",
        )
    if wrong:
        evidence.note(what, "fails", "; ".join(wrong))
    if len(parts) < study.threshold:
        if study.sum_is_public:
            evidence.lacks = f"{len(parts)} of {study.threshold} holders open the sum on this board"
        return evidence.note(what, "not checked", f"{len(parts)} of {study.threshold} are there")
    try:
        evidence.opened = open_product(evidence.product, parts.values())
    except PsephosError as error:
        return evidence.note(what, "fails", str(error))
    return evidence.note(what, "holds", f"holders {sorted(parts)} open a sum of {evidence.opened.ballots} ballots")


def _result(spec: Spec, study: Study, samples: PublicSamples, evidence: BoardEvidence) -> None:
    what = AGREED
    published = [entry for entry in evidence.of(Kind.RESULT) if entry.sender == CURATOR]
    published = [entry for entry in published if session_of(entry.data) == study.digest]  # nobody accepts others
    if not published:
        return evidence.note(what, "not checked", "there is none yet")
    if more := len({entry.data for entry in published}) - 1:
        evidence.note(
            "the result: the only one that the curator published",
            "fails",
            f"the first counts, and the board has {more} more, with other bytes. Where the curator adds "
            "the noise, each of them costs epsilon again",
        )
    if evidence.lacks:
        return evidence.note(what, "fails", f"there is one, and {evidence.lacks}")
    content = Reader(published[0].data, Kind.RESULT, study.digest).rest()
    try:
        model = read_release(study, samples, content)
    except PsephosError as error:
        return evidence.note(what, "fails", str(error))
    if evidence.product is not None and model.parties != len(evidence.product):
        return evidence.note(
            what, "fails", f"it is said to be of {model.parties} ballots, and {len(evidence.product)} count"
        )
    evidence.model = model
    coalition = coalition_of(study)
    cost = f"epsilon {model.release.epsilon:g}, delta {model.release.delta:.3g}"
    cost += "" if coalition is None else f", colluders {coalition}"
    cost += f"; with what the study states of the evaluated model: {together_text(model)}" if model.together else ""
    evidence.note(what, "holds", f"{model.method} of {model.parties} parties, {cost}; SHA-256 {evidence.sha256}")
    if evidence.result is None:
        return evidence.note(FOLLOWS, "not checked", "the sum is not known here")
    if not spec.joint:
        return evidence.note(FOLLOWS, "not checked", _UNSEEN)
    same = follows_from_sum(study, samples, model, evidence.result)
    text = "computed again from public data, bit for bit"
    if same and (summary := spec.summary(evidence.result)):
        text += f"; {summary}"
    return evidence.note(FOLLOWS, "holds" if same else "fails", text)


_UNSEEN = (
    "the curator draws the noise and nobody sees it: that it was drawn, and added to this sum, rests on the curator"
)


def as_text(study: Study, checks: Sequence[StudyCheck], width: int = 80) -> str:
    """Return the checks as text for a terminal: the outcome first, then what fails, holds, and was not checked.

    Args:
        study: the study.
        checks: its checks.
        width: longest line, in characters; a longer word, such as the head of the log, has a line of its own.
    """
    failed = sum(check.verdict == "fails" for check in checks)
    outcome = f"{failed} of {len(checks)} checks FAIL." if failed else "Nothing that was checked fails."
    title = f"{study.title}, study {fingerprint(study.digest)}" + (", a TRIAL" if study.trial else "")
    lines = [outcome, *textwrap.wrap(title, width, break_long_words=False, break_on_hyphens=False)]
    for verdict, mark in (("fails", "FAILS "), ("holds", "holds "), ("not checked", "not checked ")):
        for check in checks:
            if check.verdict == verdict:
                text = f"{check.what}: {check.found}"
                lines += textwrap.wrap(
                    mark + text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
                )
    return "\n".join(lines) + "\n"
