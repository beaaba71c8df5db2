"""What anybody can check of a study again, from its board alone; and what only with the curator's help, or not at all.

Everything is computed anew from the entries: who said it, that it is one log, the key, every ballot's proof, the
product of the ballots before the close, every partial decryption's proof, the opened sum. Where the sum is for the
curator alone, its store opens what was sealed to it. docs/protocols/board.md says what each check rests on.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec
import numpy as np

from psephos.curator.pathak.curator import SharedSum
from psephos.curator.psgd.curator import GradientCuratorState
from psephos.curator.tally import OpenedSum, open_product
from psephos.model import Model
from psephos.protocol.board import Board
from psephos.protocol.board.client import BoardReader
from psephos.protocol.board.sealing import SealingKey
from psephos.protocol.encrypted_sum.messages import PartialDecryption
from psephos.protocol.encrypted_sum.product import BallotProduct, Closed, Observer
from psephos.protocol.encrypted_sum.proofs import check_opening
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import PsephosError, StudyError
from psephos.protocol.paillier.threshold import ThresholdKey
from psephos.protocol.psgd.state import DescentState
from psephos.protocol.roles import Entry, Refusal, Role
from psephos.protocol.storage.store import Store
from psephos.protocol.study.stages import NoKey, StagedRole, initial_stages
from psephos.protocol.study.study import CURATOR, Study
from psephos.protocol.wire import Kind, Reader, session_of
from psephos.specs.base import Spec, SumSpec
from psephos.specs.pathak import PathakSpec
from psephos.specs.psgd import PsgdSpec
from psephos.specs.registry import coalition_of, participants_of, spec_of
from psephos.specs.study import StudyTerms
from psephos.study.release import checked, released
from psephos.study.samples import PublicSamples

__all__ = ["StudyCheck", "Verdict", "as_text", "verify"]

Verdict = Literal["holds", "fails", "not checked"]

_LAST_BITS = 1e-9
"""How far two computations of one model may differ, as a share of its length."""


@dataclass(frozen=True)
class StudyCheck:
    """One thing that was looked at: what, how it came out, and what was found."""

    what: str
    verdict: Verdict
    found: str


@dataclass
class _Found:
    """What has been read and worked out so far; a check that needs what is not there is not made."""

    entries: list[Entry] = field(default_factory=list)
    checks: list[StudyCheck] = field(default_factory=list)
    key: ThresholdKey | None = None
    round: Round | None = None
    product: BallotProduct | None = None
    closed: Closed | None = None
    opened: OpenedSum | None = None
    result: Any = None
    """What the classifier is released from, where it is known."""
    lacks: str = ""
    """Why there can be no result yet: one that is published is made up, or this board leaves something out."""

    def note(self, what: str, verdict: Verdict, found: str) -> None:
        self.checks.append(StudyCheck(what, verdict, found))

    def of(self, *kinds: Kind) -> list[Entry]:
        return [entry for entry in self.entries if any(entry.is_a(kind) for kind in kinds)]


def verify(study: Study, samples: PublicSamples, board: Board, curator: Store | None = None) -> list[StudyCheck]:
    """Every check of a study that can be made.

    Args:
        study: what was agreed on. samples: the public samples, as its members have them.
        board: the whole log. curator: the curator's store, where what was sealed to it is to be checked too.

    Raises BoardError when the board cannot be read, StudyError for samples of another study, JournalError for a store.
    """
    spec, found = spec_of(StudyTerms(study, samples.auxiliary)), _Found()
    _read(study, board, curator, found)
    ready = _ready(study, found)
    if isinstance(spec, PathakSpec):
        _shares(spec, study, found)
    elif not ready:
        found.lacks = "there is no key"
        found.note("ballots, and what they add up to", "not checked", "there is no key yet")
    elif isinstance(spec, PsgdSpec):
        _series(spec, study, curator is not None, found)
    else:
        assert isinstance(spec, SumSpec)
        _sum(spec.terms(_known(found.key), participants_of(study)), study, curator is not None, found)
        found.result = found.opened
    _result(spec, study, samples, found)
    for what, why in _NEVER:
        if study.uses_key or "p and q" not in what:
            found.note(what, "not checked", why)
    return found.checks


_NEVER = (
    ("who holds the identities", "a study names keys; that they are those people's is for people to see"),
    ("that nobody has p and q", "what the holders told each other is sealed, and each checked it for itself"),
    ("what the parties trained on", "no proof says that it is good, nor that a share of noise was drawn"),
    ("who else was shown the board", "compare the head with the other members'"),
)


def _known(key: ThresholdKey | None) -> ThresholdKey:
    assert key is not None
    return key


def _read(study: Study, board: Board, curator: Store | None, found: _Found) -> None:
    """The log from its beginning, as a reader without a part in it, or as the curator."""
    reader = BoardReader(study.members)
    if curator is not None:
        secret = curator.get("seat", b"sealing")
        if not secret:
            raise StudyError("this is no store of a curator who can still read what was sealed to it")
        reader = BoardReader(study.members, CURATOR, SealingKey(secret))
    refused: Counter[str] = Counter()
    for number, data in board.read(0):
        taken = reader.check(number, data)
        if taken.error is not None:
            refused[type(taken.error).__name__] += 1
        elif taken.entry is not None:
            found.entries.append(taken.entry)
    told = f"{reader.head.size} entries; head {reader.head.root.hex()}"
    if refused:
        told += f"; not of this study, forged or of another board, and so not counted: {_counted(refused)}"
    found.note("signatures, order and heads of the log", "holds", told)
    joined = {entry.sender for entry in found.of(Kind.JOINED)}
    missing = sorted({*study.must_join} - joined)
    found.note(
        "who has agreed to the study",
        "fails" if missing else "holds",
        f"missing: {', '.join(missing)}" if missing else f"{len(joined)} of {len(study.members.keys)} roles",
    )


def _counted(numbers: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(numbers.items()))


def _played(role: Role, entries: Iterable[Entry]) -> tuple[Any, Sequence[Refusal]]:
    """What a role makes of entries that it only watches."""
    step = role.receive(role.start().state, list(entries))
    return step.state, step.refused


def _ready(study: Study, found: _Found) -> bool:
    """Whether the protocol has begun: all have joined that must, and there is a key where one is needed.

    What stands on the board before is no part of it to anybody, and `found` has it no more.
    """
    what = "the key: published alike by all holders"
    reader = StagedRole("verifier", *initial_stages("verifier", study))
    state = reader.start().state
    result, entries = None, iter(found.entries)
    for entry in entries:
        state = reader.receive(state, [entry]).state
        if (result := reader.result(state)) is not None:
            break
    found.entries = list(entries)
    if not study.uses_key:
        return result is not None
    if isinstance(result, ThresholdKey):
        found.key = result
        key, degree = result.key, f" of degree {result.key.degree}" if result.key.degree > 1 else ""
        size = f"{key.bits} bits{degree} ({key.identifier.hex()[:12]})"
        found.note(what, "holds", f"{size}; {result.threshold} of {result.holders} open")
    elif isinstance(none := getattr(state.state, "state", None), NoKey):
        found.note(what, "fails", none.why)
    else:
        found.note(what, "not checked", "not all holders have published it")
    return found.key is not None


def _sum(round_: Round, study: Study, as_curator: bool, found: _Found) -> None:
    """One encrypted sum."""
    found.round = round_
    _ballots(study, found)
    _confirmations(found)
    _opening(study, as_curator, found)


def _series(spec: PsgdSpec, study: Study, as_curator: bool, found: _Found) -> None:
    """Every step of a descent: where it was announced, and its encrypted sum."""
    terms = spec.terms(_known(found.key), participants_of(study))
    told = "at the point that follows, and its sum published alike by t holders"
    walk, refused, steps, last = DescentState.start(terms), Counter[str](), list[_Found](), None
    said_in = found.of(Kind.BALLOT, Kind.CLOSE, Kind.CONFIRMATION, Kind.PARTIAL_DECRYPTION)
    begun = 0
    for entry in found.of(Kind.ANNOUNCEMENT, Kind.PUBLISHED_SUM):
        try:
            is_next = entry.is_a(Kind.ANNOUNCEMENT)
            after = walk.announced(terms, entry, "verifier") if is_next else walk.published(terms, entry)
        except PsephosError as error:
            refused[type(error).__name__] += 1
            continue
        begun = entry.number if is_next else begun
        if after.steps > walk.steps and after.announcement is not None:
            round_ = terms.round(after.announcement)
            own = [one for one in said_in if one.number > begun and session_of(one.data) == round_.digest]
            last = _Found(own, key=found.key)
            _sum(round_, study, as_curator, last)
            if last.opened is None:
                found.lacks = f"nobody opens the sum of step {after.steps} on this board"
            if last.opened is not None:
                same = last.opened.sums == after.sums()
                last.note("the published sum is the opened one", "holds" if same else "fails", f"step {after.steps}")
            steps.append(last)
        walk = after
    said = f"{walk.steps} steps" + (f"; refused: {_counted(refused)}" if refused else "")
    found.note(f"every step: {told}", "holds" if walk.over(terms) else "not checked", said)
    for what in dict.fromkeys(check.what for step in steps for check in step.checks):
        verdicts = [(check.verdict, check.found) for step in steps for check in step.checks if check.what == what]
        worst = max(verdicts, key=lambda one: ("holds", "not checked", "fails").index(one[0]))
        found.note(f"{what}, in each of {len(verdicts)} steps", *worst)
    if not walk.over(terms):
        found.lacks = "the descent is not over"
    elif last is not None and last.opened is not None:
        found.result = GradientCuratorState(walk, last.opened)


def _shares(spec: PathakSpec, study: Study, found: _Found) -> None:
    what = "shares of the sum: published by everybody"
    consumer = spec.consumer(spec.terms(None, participants_of(study)))
    state, refused = _played(consumer, found.of(Kind.PUBLISHED_SHARE))
    total = consumer.result(state)
    if total is None:
        found.lacks = f"not all shares of it are on this board: it waits for {consumer.awaits(state)}"
        return found.note(what, "not checked", f"waits for {consumer.awaits(state)}")
    found.result = SharedSum(total)
    told = f"{spec.agreed.parties} parties and the curator" + (f"; {len(refused)} refused" if refused else "")
    return found.note(what, "holds", told)


def _ballots(study: Study, found: _Found) -> None:
    what = f"ballots: signatures, proofs ({study.proofs}), and their product"
    assert found.round is not None
    observer = Observer("verifier", found.round)
    state, refused = _played(observer, found.of(Kind.BALLOT, Kind.CLOSE))
    found.product = observer.product(state.state)
    found.closed = state.state if isinstance(state.state, Closed) else None
    told = f"{len(found.product)} ballots count, and the vote is {'closed' if found.closed else 'open'}"
    if refused:
        told += f"; refused: {_counted(Counter(type(refusal.error).__name__ for refusal in refused))}"
    return found.note(what, "holds", told)


def _confirmations(found: _Found) -> None:
    if found.round is None or found.product is None or not found.round.confirmations:
        return None
    what = "confirmations of one product"
    if found.closed is None:
        found.lacks = "the vote is open"
        return found.note(what, "not checked", found.lacks)
    state = found.closed
    for entry in found.of(Kind.CONFIRMATION):
        try:
            state = state.with_confirmation(found.round, entry)
        except PsephosError:
            continue  # refused by everybody else too
    agreed = state.agreeing(found.product.digest)
    others = [holder for holder, digest in state.confirmed if digest != found.product.digest]
    if others:
        return found.note(what, "fails", f"holders {others} confirmed another product than this board's")
    enough = len(agreed) >= found.round.confirmations
    told = f"{len(agreed)} of at least {found.round.confirmations}"
    if not enough:
        found.lacks = f"its product is confirmed by {told}"
    return found.note(what, "holds" if enough else "not checked", told)


def _opening(study: Study, as_curator: bool, found: _Found) -> None:
    what = "partial decryptions: proofs, and what they open"
    if found.round is None or found.product is None or found.closed is None:
        return found.note(what, "not checked", "the vote is open")
    if not as_curator and not study.public and not found.of(Kind.PARTIAL_DECRYPTION):
        return found.note(what, "not checked", "they are sealed to the curator, whose store opens them (--curator DIR)")
    vector = found.product.vector()
    parts: dict[int, PartialDecryption] = {}
    wrong: list[str] = []
    for entry in found.of(Kind.PARTIAL_DECRYPTION):
        if entry.sender not in study.holders:
            continue  # refused by everybody else too
        try:
            part = PartialDecryption.decode(entry.data, found.round)
            if entry.sender != f"holder {part.holder}" or part.product_digest != found.product.digest:
                raise StudyError("it is of another holder, or of another product")
            check_opening(found.round, part.holder, vector.ciphertexts, part.values, part.proof)
        except PsephosError as error:
            wrong.append(f"{entry.sender}: {error}")
            continue
        parts[part.holder] = part
    if wrong:
        found.note(what, "fails", "; ".join(wrong))
    if len(parts) < study.threshold:
        if study.public:
            found.lacks = f"{len(parts)} of {study.threshold} holders open the sum on this board"
        return found.note(what, "not checked", f"{len(parts)} of {study.threshold} are there")
    try:
        found.opened = open_product(found.product, parts.values())
    except PsephosError as error:
        return found.note(what, "fails", str(error))
    return found.note(what, "holds", f"holders {sorted(parts)} open a sum of {found.opened.ballots} ballots")


def _result(spec: Spec, study: Study, samples: PublicSamples, found: _Found) -> None:
    what = "the result: of the classes, columns, method and price that were agreed on"
    published = [entry for entry in found.of(Kind.RESULT) if entry.sender == CURATOR]
    published = [entry for entry in published if session_of(entry.data) == study.digest]  # others nobody takes
    if not published:
        return found.note(what, "not checked", "there is none yet")
    if found.lacks:
        return found.note(what, "fails", f"there is one, and {found.lacks}")
    content = Reader(published[0].data, Kind.RESULT, study.digest).rest()
    try:
        model = checked(study, samples, content)
    except PsephosError as error:
        return found.note(what, "fails", str(error))
    if found.product is not None and model.parties != len(found.product):
        return found.note(what, "fails", f"it is said to be of {model.parties} ballots, and {len(found.product)} count")
    coalition = coalition_of(study)
    price = f"epsilon {model.release.epsilon:g}, delta {model.release.delta:.3g}"
    price += "" if coalition is None else f", colluders {coalition}"
    found.note(what, "holds", f"{model.method} of {model.parties} parties, {price}")
    if found.result is None:
        return found.note("the result follows from the sum", "not checked", "the sum is not known here")
    if spec.joint:
        same = _same(model, _model(released(study, samples, found.result)))
        told = f"computed again from public data, to {_LAST_BITS:g} of its length"
        return found.note("the result follows from the sum", "holds" if same else "fails", told)
    return found.note("the result follows from the counts", "not checked", _UNSEEN)


def _same(model: Model, again: Model) -> bool:
    """Whether these are one model but for the last bits of its numbers, which no two processors compute alike."""
    paid, due = model.release, again.release
    for one, other in ((paid.epsilon, due.epsilon), (paid.delta, due.delta), (paid.sensitivity, due.sensitivity)):
        if one != other and (one is None or other is None or not math.isclose(one, other, rel_tol=_LAST_BITS)):
            return False
    paid = replace(due, epsilon=paid.epsilon, delta=paid.delta, sensitivity=paid.sensitivity)
    numbers = {"coefficients": model.coefficients, "intercepts": model.intercepts}
    if msgspec.structs.replace(again, release=paid, **numbers) != model:
        return False
    own, computed = _numbers(model), _numbers(again)
    return bool(np.linalg.norm(own - computed) <= _LAST_BITS * np.linalg.norm(computed))


_UNSEEN = (
    "the curator draws the noise and nobody sees it: that it was drawn, and added to these counts, rests on the curator"
)


def _model(content: bytes) -> Model:
    return msgspec.json.decode(content, type=Model)


def _numbers(model: Model) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.concatenate([np.ravel(model.coefficients), np.ravel(model.intercepts)])


def as_text(study: Study, checks: Sequence[StudyCheck]) -> str:
    """For people."""
    marks = {"holds": "+", "fails": "!", "not checked": "?"}
    lines = [f"{study.title}, study {study.digest.hex()}" + (", a TRIAL" if study.trial else "")]
    lines += [f"  {marks[check.verdict]} {check.what}: {check.verdict}; {check.found}" for check in checks]
    failed = sum(check.verdict == "fails" for check in checks)
    lines.append(f"{failed} of {len(checks)} checks FAIL" if failed else "nothing that was checked fails")
    return "\n".join(lines) + "\n"
