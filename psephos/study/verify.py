"""Checks a study from its board alone, as anybody can; with the curator's store, also what was sealed to the curator.

Everything is computed again from the entries: signatures, the order of the log, the key, the proof of every ballot, the
product of the ballots before the close, the proof of every partial decryption, the opened sum, and the classifier that
follows from it. docs/protocols/board.md says what each check rests on.
"""

from __future__ import annotations

import contextlib
import hashlib
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from psephos.curator.pathak.curator import SharedSum
from psephos.curator.psgd.curator import GradientCuratorState
from psephos.data.fit_features import fit_features, kind_of_map
from psephos.model import Model, RegressionModel, written_model
from psephos.parties.ceremony import CEREMONY_KINDS
from psephos.parties.ceremony_checks import CeremonyReader
from psephos.protocol.board import Board
from psephos.protocol.board.client import BoardReader, describe_missing
from psephos.protocol.board.sealing import SealingKey
from psephos.protocol.encrypted_sum.messages import Confirmation, PartialDecryption
from psephos.protocol.encrypted_sum.opened import OpenedSum, SumReader, open_product
from psephos.protocol.encrypted_sum.product import BallotProduct, VoteClosed
from psephos.protocol.encrypted_sum.proofs import check_opening
from psephos.protocol.encrypted_sum.rounds import Round, safe_confirmations
from psephos.protocol.errors import (
    EquivocationError,
    InvalidParameter,
    PsephosError,
    StudyError,
    WrongPartialDecryptionError,
)
from psephos.protocol.foreign import printable
from psephos.protocol.paillier.threshold import ThresholdKey
from psephos.protocol.psgd.state import SeriesFollowed, SeriesReader
from psephos.protocol.roles import Entry, MachineState, Refusal, Role
from psephos.protocol.storage.store import Store
from psephos.protocol.study.stages import NoKey, PublishedResult, ResultWatcher, StagedRole, initial_stages
from psephos.protocol.study.study import CURATOR, Study
from psephos.protocol.wire import Kind, kind_of, messages_in, session_of
from psephos.results.deviations import reason_of
from psephos.specs.base import Spec
from psephos.specs.registry import coalition_of, differs_from_plan, participants_of, spec_class, spec_of
from psephos.specs.terms import StudyTerms
from psephos.study.card import together_text
from psephos.study.identity import fingerprint
from psephos.study.release import follows_from_sum, read_release
from psephos.study.samples import PublicSamples

Verdict = Literal["holds", "fails", "not checked", "misconduct"]
"""The outcome of a check. "misconduct": members have signed what no honest member signs, and the result stands."""

_LONGEST_FOUND = 1_000
"""Longest text of a check, in characters."""

_WHOLE_KEY = "that nobody has the whole key"

AGREED = "the result: of the classes, columns, method and privacy cost that were agreed on"
FOLLOWS = "the result follows from the sum"


@dataclass(frozen=True)
class StudyCheck:
    """One check: what was checked, the verdict, what was found, and the roles that are to blame for it."""

    what: str
    verdict: Verdict
    found: str
    culprits: tuple[str, ...] = ()


@dataclass
class BoardEvidence:
    """What the checks of a study have found on its board; a check that lacks what it needs is not made.

    Attributes:
        entries: the valid entries that belong to the protocol, in the order of the board.
        size, head: the number of entries of the log, and its head in hexadecimal. joined: who has signed the study.
        round, product, closed, opened: of the encrypted sum; None for a descent, which has many (`steps`).
        counted, openers: numbers of the parties whose ballots count, and of the holders whose partial decryptions are
            valid and visible here; of a descent, in its last step.
        counted_sums: in how many of the encrypted sums the ballots of each party count.
        readable: the partial decryptions and results that everybody can read, each with its signer ("" for a stranger),
            wherever in an entry they begin, and whether or not a role accepts the entry.
        exposed: the holders whose partial decryptions of an exact sum everybody can read.
        published, model: what the curator published first, and the model where it agrees with the study.
        result: what the classifier is computed from, where it is known; lacks: why there can be none yet.
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
    readable: list[tuple[str, bytes]] = field(default_factory=list)
    exposed: tuple[int, ...] = ()
    published: PublishedResult | None = None
    result: Any = None
    model: Model | RegressionModel | None = None
    lacks: str = ""

    def note(self, what: str, verdict: Verdict, found: str, culprits: Iterable[str] = ()) -> None:
        """Add a check; the arguments are the fields of `StudyCheck`. Parts of `found` may be texts of members."""
        self.checks.append(StudyCheck(what, verdict, printable(found, _LONGEST_FOUND), tuple(sorted(culprits))))

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


def examine(study: Study, samples: PublicSamples, board: Board, curator: Store | None = None) -> BoardEvidence:
    """Make every check of a study that can be made, and return them with what they found.

    Raises:
        BoardError: the board cannot be read.
        StudyError: the samples or the store are those of another study.
        JournalError: the store cannot be read.
    """
    spec, evidence = spec_of(StudyTerms(study, samples)), BoardEvidence()
    _read(study, board, curator, evidence)
    if spec.checks_plan:
        _plan(StudyTerms(study, samples), evidence)
    if samples.encoding.map is not None and not spec.evaluates:
        _map(study, samples, evidence)
    _ready(study, evidence)
    if study.uses_key and evidence.key is None:
        evidence.note("ballots, and what they add up to", "not checked", "there is no key yet")
    else:
        _protocol(spec, study, curator is not None, evidence)
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


_OTHER_PLAN = (
    "for the public file this version of Psephos plans otherwise than the study states. Another version may have "
    "planned it by its own rule, or its numbers are from elsewhere; no check tells which. The epsilon holds for any "
    "plan, as signed, and the result is checked by the signed plan. Computed here"
)


def _plan(terms: StudyTerms, evidence: BoardEvidence) -> None:
    """Check that a step was planned from public rows alone."""
    what = "the plan: what the public rows alone give"
    try:
        other = ", ".join(f"other {name}" for name in differs_from_plan(terms))
    except PsephosError as error:
        other = f"no plan, since {error}"
    if other:
        return evidence.note(what, "fails", f"{_OTHER_PLAN}: {other}")
    labelled = terms.study.parameters["labelled"]
    return evidence.note(what, "holds", f"computed again from {labelled} labelled public rows")


def _map(study: Study, samples: PublicSamples, evidence: BoardEvidence) -> None:
    """Check that the feature map was fitted to public rows alone, where this machine fits the same one."""
    what, stated = "the feature map: what the public rows alone give", samples.encoding.map
    assert stated is not None
    try:
        fitted = fit_features(kind_of_map(stated), samples.inputs, samples.labels(study.classes), len(study.classes))
        same = fitted.map == stated
    except InvalidParameter:
        same = False
    if same:
        return evidence.note(what, "holds", f"fitted again: {stated.digest.hex()[:16]}")
    text = "fitted here, it is another one, as it may be on a machine that rounds otherwise, or with other versions"
    return evidence.note(what, "not checked", f"{text} of NumPy and scikit-learn. No map changes the epsilon")


def _read(study: Study, board: Board, curator: Store | None, evidence: BoardEvidence) -> None:
    """Read the log from its beginning, as a reader without a role, or as the curator."""
    reader = BoardReader(study.members)
    if curator is not None:
        secret = curator.get("seat", b"sealing")
        if not secret:
            raise StudyError("this is no store of a curator who can still read what was sealed to it")
        reader = BoardReader(study.members, CURATOR, SealingKey(secret))
    refused: list[tuple[str, PsephosError]] = []
    forks: list[tuple[str, PsephosError]] = []
    for number, data in board.read(0):
        checked = reader.check(number, data)
        signed, error = checked.signed, checked.error
        if error is not None:
            author = "somebody unknown" if signed is None else signed.author
            (forks if isinstance(error, EquivocationError) else refused).append((author, error))
        elif checked.entry is not None:
            evidence.entries.append(checked.entry)
        # What is posted in clear can be read, also if it is marked as secret, wrapped in something else, or refused.
        author, posted = ("", data) if signed is None else (signed.author, signed.body)
        evidence.readable += [(author, found) for found in messages_in(posted, *_READABLE)]
    evidence.size, evidence.head = reader.head.size, reader.head.root.hex()
    text = f"{evidence.size} entries; head {evidence.head}"
    text += f"; refused: {_by_sender(refused)}" if refused else ""
    left_out = reader.missing_places()
    contradictions = "; ".join(
        [
            *([f"{len(forks)} signed entries contradict this log. {forks[0][1]}"] if forks else []),
            *([describe_missing(left_out)] if left_out else []),
        ]
    )
    authors = {*left_out, *(author for author, _ in forks)}
    if _outweigh(study, authors):
        evidence.note(_LOG, "fails", f"{text}; {contradictions}", authors)
    else:
        evidence.note(_LOG, "holds" if evidence.size else "not checked", text)
        if authors:
            evidence.note("entries that contradict the log, or leave places out", "misconduct", contradictions, authors)
    evidence.joined = frozenset(entry.sender for entry in evidence.of(Kind.JOINED))
    absent = sorted({*study.must_join} - evidence.joined)
    evidence.note(
        "who has agreed to the study",
        "fails" if absent else "holds",
        f"missing: {', '.join(absent)}" if absent else f"{len(evidence.joined)} of {len(study.members.keys)} roles",
    )


_LOG = "signatures, order and heads of the log"
_READABLE = (Kind.PARTIAL_DECRYPTION, Kind.RESULT)


def _outweigh(study: Study, roles: Collection[str]) -> bool:
    """Return whether the board is to be doubted if these roles contradict it, and not they alone.

    At most t - 1 holders lie, and any number of parties; the curator's word is part of the result. What is opened
    elsewhere is the same sum only where the safe number of holders confirms it (docs/protocols/board.md).
    """
    keys = {study.members.keys[role] for role in roles}
    holders = sum(study.members.keys[holder] in keys for holder in study.holders)
    parties = sum(key in keys for key in study.roster)
    too_many = bool(study.holders) and holders >= study.threshold
    unsafe = study.uses_key and study.confirmations < safe_confirmations(len(study.holders), study.threshold)
    return CURATOR in roles or too_many or 2 * parties > len(study.roster) or (unsafe and bool(roles))


def _by_sender(refused: Iterable[tuple[str, PsephosError]]) -> str:
    """Return numbers of refused entries by sender and class: "1 LateBallotError (after the close) of party 3"."""
    senders: dict[str, Counter[str]] = {}
    for sender, error in refused:
        senders.setdefault(sender, Counter())[reason_of(type(error).__name__)] += 1
    listed = {
        sender: ", ".join(f"{count} {name}" for name, count in sorted(senders[sender].items())) for sender in senders
    }
    return "; ".join(f"{listed[sender]} of {sender}" for sender in sorted(senders))


def _and_refused(refused: Iterable[Refusal], *kinds: Kind) -> str:
    """Return the end of a sentence about refused entries of these kinds; "" if there is none."""
    listed = _by_sender((each.entry.sender, each.error) for each in refused if each.entry.kind in kinds)
    return f"; refused: {listed}" if listed else ""


def _ready(study: Study, evidence: BoardEvidence) -> None:
    """Check whether the protocol has begun: all have joined who must, and there is a key where one is needed."""
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


def _protocol(spec: Spec, study: Study, as_curator: bool, evidence: BoardEvidence) -> None:
    """Check the messages of the protocol, as the role of a reader judges them."""
    reader = spec.reader(spec.terms(evidence.key, participants_of(study)), public=study.sum_is_public)
    watcher = ResultWatcher(study, reader)
    step = watcher.receive(watcher.start().state, evidence.of(*watcher.reads))
    evidence.published, evidence.lacks = step.state.published, reader.lacks(step.state.state)
    if isinstance(reader, SumReader):
        _sum(reader, step.state.state, step.refused, study, as_curator, evidence)
        evidence.result = evidence.opened
    elif isinstance(reader, SeriesReader):
        _series(reader, step.state.state.state, step.refused, study, evidence)
    else:
        _shares(reader, step.state.state, step.refused, study, evidence)


def _sum(  # wide: what a reader made of a sum
    reader: SumReader,
    state: MachineState,
    refused: Sequence[Refusal],
    study: Study,
    as_curator: bool,
    evidence: BoardEvidence,
) -> None:
    """Check one encrypted sum."""
    round_, product = evidence.round, evidence.product = reader.round, reader.product(state.state)
    evidence.steps, evidence.counted = 1, product.parties
    evidence.counted_sums = Counter(evidence.counted)
    evidence.closed = state.state if isinstance(state.state, VoteClosed) else None
    _ballots(round_, product, study, refused, evidence)
    _confirmations(round_, product, refused, evidence)
    _opening(product, study, as_curator, refused, evidence)
    if not (study.sum_is_public or spec_class(study.protocol).joint):
        _exposure(round_, product, study, evidence)
    _lies(round_, product, study, refused, evidence)


def _series(
    reader: SeriesReader, state: SeriesFollowed, refused: Sequence[Refusal], study: Study, evidence: BoardEvidence
) -> None:
    """Check every step of a descent: the point that was announced, and its encrypted sum, which everybody can read."""
    what = "every step: at the point that follows, and its sum published alike by t holders"
    descent, steps = state.progress, list[BoardEvidence]()
    summed = [step for step in state.steps if step.sums is not None]
    for number, step in enumerate(summed, 1):
        of_step = [each for each in refused if session_of(each.entry.data) == step.round.digest]
        steps.append(BoardEvidence(readable=evidence.readable))
        _sum(reader.votes(step), step.votes, of_step, study, False, steps[-1])
        if (opened := steps[-1].opened) is not None:
            verdict: Verdict = "holds" if opened.sums == step.sums else "fails"
            steps[-1].note("the published sum is the opened one", verdict, f"step {number}")
    text = f"{descent.steps} steps" + _and_refused(refused, Kind.ANNOUNCEMENT, Kind.PUBLISHED_SUM)
    evidence.note(what, "holds" if descent.over(reader.terms) else "not checked", text)
    for name in dict.fromkeys(check.what for step in steps for check in step.checks):
        checks = [check for step in steps for check in step.checks if check.what == name]
        worst = max(checks, key=lambda check: ("holds", "not checked", "misconduct", "fails").index(check.verdict))
        culprits = {culprit for check in checks for culprit in check.culprits}
        evidence.note(f"{name}, in each of {len(checks)} steps", worst.verdict, worst.found, culprits)
    evidence.steps = len(steps)
    for each in steps:
        evidence.counted_sums.update(each.counted)
    if steps:
        evidence.counted, evidence.openers = steps[-1].counted, steps[-1].openers
    if descent.over(reader.terms) and steps and steps[-1].opened is not None:
        evidence.result = GradientCuratorState(descent, steps[-1].opened)


def _shares(
    reader: Role, state: MachineState, refused: Sequence[Refusal], study: Study, evidence: BoardEvidence
) -> None:
    what = "shares of the sum: published by everybody"
    total = reader.result(state)
    if total is None:
        return evidence.note(what, "not checked", f"waits for {reader.awaits(state)}")
    evidence.result = SharedSum(total)
    summary = f"{len(study.roster)} parties and the curator" + _and_refused(refused, Kind.PUBLISHED_SHARE)
    return evidence.note(what, "holds", summary)


def _ballots(
    round_: Round, product: BallotProduct, study: Study, refused: Sequence[Refusal], evidence: BoardEvidence
) -> None:
    what = f"ballots: signatures, proofs ({study.proofs}), and their product"
    summary = f"{len(product)} ballots count, and the vote is {'closed' if evidence.closed else 'open'}"
    if round_.holder_noise:
        summary += f"; {product.addends - len(product)} of {len(study.holders)} holders have added noise"
    summary += _and_refused(refused, Kind.BALLOT, Kind.NOISE_BALLOT, Kind.CLOSE)
    return evidence.note(what, "holds" if evidence.counted else "not checked", summary)


def _confirmations(round_: Round, product: BallotProduct, refused: Sequence[Refusal], evidence: BoardEvidence) -> None:
    what = "confirmations of one product"
    if evidence.closed is None:
        return evidence.note(what, "not checked", "the vote is open")
    agreed = evidence.closed.agreeing(product.digest)
    enough = len(agreed) >= round_.confirmations
    count = f"{len(agreed)} of at least {round_.confirmations}"
    return evidence.note(what, "holds" if enough else "not checked", count + _and_refused(refused, Kind.CONFIRMATION))


def _opening(
    product: BallotProduct, study: Study, as_curator: bool, refused: Sequence[Refusal], evidence: BoardEvidence
) -> None:
    what = "partial decryptions: proofs, and what they open"
    if evidence.closed is None:
        return evidence.note(what, "not checked", "the vote is open")
    if not as_curator and not study.sum_is_public:
        return evidence.note(
            what, "not checked", "they are sealed to the curator, whose store opens them (--curator DIR)"
        )
    parts, more = evidence.closed.parts, _and_refused(refused, Kind.PARTIAL_DECRYPTION)
    evidence.openers = tuple(sorted(part.holder for part in parts))
    if len(parts) < study.threshold:
        return evidence.note(what, "not checked", f"{len(parts)} of {study.threshold} are there{more}")
    try:
        evidence.opened = open_product(product, parts)
    except PsephosError as error:
        return evidence.note(what, "fails", f"{error}{more}")
    text = f"holders {sorted(evidence.openers)} open a sum of {evidence.opened.ballots} ballots{more}"
    return evidence.note(what, "holds", text)


def _exposure(round_: Round, product: BallotProduct, study: Study, evidence: BoardEvidence) -> None:
    """Check that fewer holders than open an exact sum have put their partial decryptions where everybody reads them."""
    columns, digest, exposed = product.columns, product.digest, set[int]()
    for _, part in _parts_in_clear(round_, evidence):
        if part.product_digest == digest and part.holder not in exposed:
            with contextlib.suppress(PsephosError):
                check_opening(round_, part.holder, columns, part.values, part.proof)
                exposed.add(part.holder)
    evidence.exposed = tuple(sorted(exposed))
    if exposed:
        enough = len(exposed) >= study.threshold
        text = f"everybody can read the partial decryptions of holders {sorted(exposed)}; any {study.threshold} of "
        text += "the holders' open it without noise"
        what, culprits = "the exact sum: opened for the curator alone", [f"holder {number}" for number in exposed]
        evidence.note(what, "fails" if enough else "misconduct", text, culprits)


def _parts_in_clear(round_: Round, evidence: BoardEvidence) -> Iterator[tuple[str, PartialDecryption]]:
    """Yield the well-formed partial decryptions of a round that everybody can read, each with its signer."""
    length = PartialDecryption.encoded_bytes(round_)
    for author, data in evidence.readable:
        with contextlib.suppress(PsephosError):
            yield author, PartialDecryption.decode(data[:length], round_)


def _lies(
    round_: Round, product: BallotProduct, study: Study, refused: Sequence[Refusal], evidence: BoardEvidence
) -> None:
    """Name the holders that have signed what is not true of the product of the ballots, or have opened another one."""
    parts = _parts_in_clear(round_, evidence)
    named = [(author, part.product_digest) for author, part in parts if author == f"holder {part.holder}"]
    if evidence.closed is not None:
        named += [(f"holder {number}", digest) for number, digest in evidence.closed.confirmed]
        named += [(each.entry.sender, _product_named_by(each.entry, round_)) for each in refused]
    others = {sender for sender, digest in named if digest not in (b"", product.digest)}
    wrong = {each.entry.sender for each in refused if isinstance(each.error, WrongPartialDecryptionError)}
    if evidence.opened is not None:
        wrong |= {f"holder {number}" for number in evidence.opened.wrong_holders}
    texts = [f"of another product than this board's: {', '.join(sorted(others))}"] * bool(others)
    texts += [f"wrong partial decryptions: {', '.join(sorted(wrong))}"] * bool(wrong)
    if texts:
        # At most t - 1 holders lie: if more name another product, another sum may have been opened.
        verdict: Verdict = "fails" if len(others) >= study.threshold else "misconduct"
        evidence.note("what holders have signed about the sum", verdict, "; ".join(texts), others | wrong)


def _product_named_by(entry: Entry, round_: Round) -> bytes:
    """Return the digest of the product that a holder's message is about; empty for other and malformed messages."""
    kind: Any = Confirmation if entry.is_a(Kind.CONFIRMATION) else PartialDecryption
    try:
        message: Confirmation | PartialDecryption = kind.decode(entry.data, round_)
    except PsephosError:
        return b""
    return message.product_digest if entry.sender == f"holder {message.holder}" else b""


def _result(spec: Spec, study: Study, samples: PublicSamples, evidence: BoardEvidence) -> None:
    what = AGREED
    if evidence.published is None:
        return evidence.note(what, "not checked", "there is none yet")
    results = {data for author, data in evidence.readable if author == CURATOR and kind_of(data) is Kind.RESULT}
    contents = {data for data in results if session_of(data) == study.digest}
    if more := len(contents) - 1:
        evidence.note(
            "the result: the only one that the curator published",
            "misconduct" if spec.joint else "fails",
            f"the first counts, and the board has {more} more, with other bytes"
            + ("" if spec.joint else ". The curator adds the noise, so each of them costs epsilon again"),
            [CURATOR],
        )
    if evidence.lacks:
        return evidence.note(what, "fails", f"there is one, and {evidence.lacks}")
    try:
        model = read_release(study, samples, evidence.published.content)
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
    """Return the checks as text for a terminal: outcome, what fails, misconduct, what holds, what is not checked."""
    failed = sum(check.verdict == "fails" for check in checks)
    made = failed + sum(check.verdict == "holds" for check in checks)
    outcome = f"{failed} of {made} checks FAIL." if failed else "Nothing that was checked fails."
    culprits = sorted({name for check in checks if check.verdict == "misconduct" for name in check.culprits})
    misconduct = [f"MISCONDUCT, which does not change the result: {', '.join(culprits)}."] * bool(culprits)
    title = f"{study.title}, study {fingerprint(study.digest)}" + (", a TRIAL" if study.trial else "")
    lines = [outcome]
    for text in (*misconduct, title):
        lines += textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    for verdict, mark in (
        ("fails", "FAILS "),
        ("misconduct", "MISCONDUCT "),
        ("holds", "holds "),
        ("not checked", "not checked "),
    ):
        for check in checks:
            if check.verdict == verdict:
                text = f"{check.what}: {check.found}"
                lines += textwrap.wrap(
                    mark + text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
                )
    return "\n".join(lines) + "\n"
