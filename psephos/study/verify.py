"""What anybody can check of a study again, from its board alone; and what only with the curator's help, or not at all.

Everything is computed anew from the entries: who said it, that it is one log, the key, every ballot's proof, the
product of the ballots before the close, every partial decryption's proof, the opened sum. Where the sum is for the
curator alone, its store opens what was sealed to it. docs/security/board.md says what each check rests on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import numpy as np

from psephos.curator.tally import OpenedSum, open_product
from psephos.model import Model
from psephos.protocol.board import Board
from psephos.protocol.board.sealing import SealingKey
from psephos.protocol.board.seat import Onlooker
from psephos.protocol.encrypted_sum.messages import PartialDecryption
from psephos.protocol.encrypted_sum.opened import received_part
from psephos.protocol.encrypted_sum.product import BallotProduct, Closed, Observer
from psephos.protocol.encrypted_sum.proofs import check_opening
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import PsephosError, StudyError
from psephos.protocol.paillier.threshold import ThresholdKey
from psephos.protocol.psgd.walk import Walk
from psephos.protocol.roles import Entry, Machine, Refusal
from psephos.protocol.storage.store import Store
from psephos.protocol.study.stages import Keyed
from psephos.protocol.study.study import CURATOR, Study
from psephos.protocol.wire import Kind, Reader
from psephos.study.protocols import play_of
from psephos.study.release import checked, released
from psephos.study.roles import Public, round_of
from psephos.study.samples import PublicSamples

__all__ = ["Check", "Verdict", "as_text", "verify"]

Verdict = Literal["holds", "fails", "not checked"]

_DRAWS = 299
"""Releases that are drawn, and forgotten, to see whether the published one is an ordinary one."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: what, how it came out, and what was found."""

    what: str
    verdict: Verdict
    found: str


@dataclass
class _Found:
    """What has been read and worked out so far; a check that needs what is not there is not made."""

    entries: list[Entry] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    key: ThresholdKey | None = None
    round: Round | None = None
    product: BallotProduct | None = None
    closed: Closed | None = None
    opened: OpenedSum | None = None

    def note(self, what: str, verdict: Verdict, found: str) -> None:
        self.checks.append(Check(what, verdict, found))

    def of(self, *kinds: Kind) -> list[Entry]:
        return [entry for entry in self.entries if any(entry.is_a(kind) for kind in kinds)]


def verify(study: Study, samples: PublicSamples, board: Board, curator: Store | None = None) -> list[Check]:
    """Every check of a study that can be made.

    Args:
        study: what was agreed on. samples: the public samples, as its members have them.
        board: the whole log. curator: the curator's store, where what was sealed to it is to be checked too.

    Raises BoardError when the board cannot be read, StudyError for samples of another study, JournalError for a store.
    """
    public, found = Public(study, samples.auxiliary), _Found()
    _read(study, board, curator, found)
    sums: tuple[Callable[[], None], ...] = (
        lambda: _ballots(public, found),
        lambda: _confirmations(found),
        lambda: _opening(study, curator is not None, found),
    )
    _key(study, found)
    for step in sums if study.protocol != "psgd" else (lambda: _descent(public, found),):
        step()
    _result(study, samples, found)
    for what, why in _NEVER:
        found.note(what, "not checked", why)
    return found.checks


_NEVER = (
    ("who holds the identities", "a study names keys; that they are those people's is for people to see"),
    ("that nobody has p and q", "what the holders told each other is sealed, and each checked it for itself"),
    ("what the parties trained on", "no proof says that a vote is a good one"),
    ("who else was shown the board", "compare the head with the other members'"),
)


def _read(study: Study, board: Board, curator: Store | None, found: _Found) -> None:
    """The log from its beginning, as a reader without a part in it, or as the curator."""
    reader = Onlooker(study.members)
    if curator is not None:
        secret = curator.get("seat", b"sealing")
        if not secret:
            raise StudyError("this is no store of a curator who can still read what was sealed to it")
        reader = Onlooker(study.members, CURATOR, SealingKey(secret))
    refused: Counter[str] = Counter()
    for number, data in board.read(0):
        taken = reader.take(number, data)
        if taken.error is not None:
            refused[type(taken.error).__name__] += 1
        elif taken.entry is not None:
            found.entries.append(taken.entry)
    told = f"{reader.head.size} entries; head {reader.head.root.hex()}"
    if refused:
        told += f"; not of this study, forged or of another board, and so not counted: {_counted(refused)}"
    found.note("signatures, order and heads of the log", "holds", told)
    joined = {entry.sender for entry in found.of(Kind.JOINED)}
    missing = sorted({CURATOR, *study.holders} - joined)
    found.note(
        "who has agreed to the study",
        "fails" if missing else "holds",
        f"missing: {', '.join(missing)}" if missing else f"{len(joined)} of {len(study.members.keys)} roles",
    )


def _counted(numbers: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(numbers.items()))


def _played(machine: Machine, entries: Iterable[Entry]) -> tuple[Any, Sequence[Refusal]]:
    """What a machine makes of entries that it only watches."""
    state = machine.start().state
    step = machine.receive(state, list(entries))
    return step.state, step.refused


def _key(study: Study, found: _Found) -> None:
    what = "the key: published alike by all holders"
    machine = Keyed("verifier", study)
    try:
        state, _ = _played(machine, found.of(Kind.PUBLIC_KEY))
    except PsephosError as error:
        return found.note(what, "fails", str(error))
    found.key = machine.result(state)
    if found.key is None:
        return found.note(what, "not checked", "not all holders have published it")
    return found.note(what, "holds", f"{found.key.key!r}, {found.key.threshold} of {found.key.holders} open")


def _ballots(public: Public, found: _Found) -> None:
    what = f"ballots: signatures, proofs ({public.study.proofs}), and their product"
    if found.key is None:
        return found.note(what, "not checked", "there is no key yet")
    found.round = round_of(public, found.key)
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
        return found.note(what, "not checked", "the vote is open")
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
    return found.note(what, "holds" if enough else "not checked", told)


def _opening(study: Study, as_curator: bool, found: _Found) -> None:
    what = "partial decryptions: proofs, and what they open"
    if found.round is None or found.product is None or found.closed is None:
        return found.note(what, "not checked", "the vote is open")
    if not study.public and not as_curator:
        return found.note(what, "not checked", "they are sealed to the curator, whose store opens them (--transcript)")
    vector = found.product.vector()
    parts: dict[int, PartialDecryption] = {}
    wrong: list[str] = []
    for entry in found.of(Kind.PARTIAL_DECRYPTION):
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
        return found.note(what, "not checked", f"{len(parts)} of {study.threshold} are there")
    try:
        found.opened = open_product(found.product, parts.values())
    except PsephosError as error:
        return found.note(what, "fails", str(error))
    return found.note(what, "holds", f"holders {sorted(parts)} open a sum of {found.opened.ballots} ballots")


def _descent(public: Public, found: _Found) -> None:
    """The walk of gradient descent once more, with every sum opened here: nobody's word is taken for one."""
    what = "every step: where it follows, its ballots, its partial decryptions, and the sum that they open"
    if found.key is None:
        return found.note(what, "not checked", "there is no key yet")
    play: Any = play_of(public)
    terms, refused, parts = play.terms(found.key), Counter[str](), list[PartialDecryption]()
    walk, observer = Walk.start(terms), None
    state: Any = None
    for entry in found.of(*_STEP):
        try:
            if entry.is_a(Kind.ANNOUNCEMENT):
                walk = walk.announced(terms, entry, "verifier")
                assert walk.announcement is not None
                observer, parts = Observer("verifier", terms.round(walk.announcement)), []
                state = observer.start().state
            elif observer is None:
                refused["UnexpectedMessageError"] += 1
            elif entry.is_a(Kind.PARTIAL_DECRYPTION):
                product = observer.product(state.state)
                parts.append(received_part(product.round, product.columns, product.digest, entry, parts))
            elif entry.is_a(Kind.PUBLISHED_SUM):
                before, walk = walk.steps, walk.published(terms, entry)
                if walk.steps > before and open_product(observer.product(state.state), parts).sums != walk.sums():
                    return found.note(what, "fails", f"step {walk.steps}: another sum was published than opens")
            else:
                step = observer.receive(state, [entry])
                state = step.state
                refused.update(type(refusal.error).__name__ for refusal in step.refused)
        except PsephosError as error:
            refused[type(error).__name__] += 1
    told = f"{walk.steps} steps" + (f"; refused: {_counted(refused)}" if refused else "")
    return found.note(what, "holds", told)


_STEP = (Kind.ANNOUNCEMENT, Kind.BALLOT, Kind.CLOSE, Kind.PARTIAL_DECRYPTION, Kind.PUBLISHED_SUM)


def _result(study: Study, samples: PublicSamples, found: _Found) -> None:
    what = "the result: of the classes, columns, method and price that were agreed on"
    published = [entry for entry in found.of(Kind.RESULT) if entry.sender == CURATOR]
    if not published:
        return found.note(what, "not checked", "there is none yet")
    content = Reader(published[0].data, Kind.RESULT, study.digest).rest()
    try:
        model = checked(study, samples, content)
    except PsephosError as error:
        return found.note(what, "fails", str(error))
    if found.product is not None and model.parties != len(found.product):
        return found.note(what, "fails", f"it is said to be of {model.parties} ballots, and {len(found.product)} count")
    found.note(what, "holds", f"{model.method} of {model.parties} ballots, epsilon {model.release.epsilon:g}")
    if found.opened is None:
        return found.note("the result follows from the sum", "not checked", "the sum is not known here")
    if study.public:
        same = released(study, samples, found.opened) == content
        told = "computed again from public data, byte by byte"
        return found.note("the result follows from the sum", "holds" if same else "fails", told)
    return _ordinary(study, samples, found.opened, model, found)


def _ordinary(study: Study, samples: PublicSamples, opened: OpenedSum, model: Model, found: _Found) -> None:
    """Whether the published classifier lies where those of these counts lie: the noise itself nobody can check."""
    drawn = [_numbers(_model(released(study, samples, opened))) for _ in range(_DRAWS)]
    centre = np.median(drawn, axis=0)
    own = float(np.linalg.norm(_numbers(model) - centre))
    others = sorted(float(np.linalg.norm(numbers - centre)) for numbers in drawn)
    place = sum(other < own for other in others)
    fits = 0 < place < _DRAWS
    found.note(
        "the result follows from the counts, but for its noise",
        "holds" if fits else "fails",
        f"it lies further from the middle than {place} of {_DRAWS} fresh draws from the same counts; 0 or all of them "
        f"would be a failure, and would happen to an honest curator once in {(_DRAWS + 1) // 2}",
    )


def _model(content: bytes) -> Model:
    return msgspec.json.decode(content, type=Model)


def _numbers(model: Model) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.concatenate([np.ravel(model.coefficients), np.ravel(model.intercepts)])


def as_text(study: Study, checks: Sequence[Check]) -> str:
    """For people."""
    marks = {"holds": "+", "fails": "!", "not checked": "?"}
    lines = [f"{study.title}, study {study.digest.hex()}" + (", a TRIAL" if study.trial else "")]
    lines += [f"  {marks[check.verdict]} {check.what}: {check.verdict}; {check.found}" for check in checks]
    failed = sum(check.verdict == "fails" for check in checks)
    lines.append(f"{failed} of {len(checks)} checks FAIL" if failed else "nothing that was checked fails")
    return "\n".join(lines) + "\n"
