"""The stages that every role of a study goes through before and after the study's protocol.

    all roles   join: agree to the study and announce a key for encrypted messages
    holders     generate the key together (`psephos.parties.ceremony`) and publish it
    all roles   wait until all holders have published the same key, or t of them report that there will be none
    all roles   take part in the protocol under that key
    curator     publishes the result, once

On the board, the messages of a stage follow those of the stage before, so all readers change to the next stage at the
same entry.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from gmpy2 import mpz

from psephos.protocol.board.client import announced_key
from psephos.protocol.ceremony.messages import reason
from psephos.protocol.errors import AgreementError, MessageError, PsephosError, UnexpectedMessageError
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.threshold import ThresholdKey
from psephos.protocol.roles import (
    BOARD,
    DelegatingRole,
    Entry,
    Machine,
    MissingMessages,
    Post,
    Refusal,
    Role,
    Step,
    gathers,
    takes,
)
from psephos.protocol.storage.store import OnceLedger
from psephos.protocol.storage.values import decode, encode, storable
from psephos.protocol.study.study import CURATOR, Study
from psephos.protocol.wire import Kind, Reader, frame

# -- one role after another


@storable
@dataclass(frozen=True)
class StageState:
    """The number and the state of the current stage, the last states of those before, and messages for later ones."""

    stage: int
    state: Any = field(repr=False)
    before: tuple[Any, ...] = field(default=(), repr=False)
    early: tuple[Entry, ...] = field(default=(), repr=False)


Stage = Callable[..., Role]
"""Constructs the role of a stage from the results of all stages before it."""


class StagedRole(Role):
    """Runs roles of one name, one after another. Its result is that of the last."""

    reads = frozenset(Kind)

    def __init__(self, name: str, *stages: Stage) -> None:
        """Run stages of one name: the first takes no argument, the second the result of the first, and so on."""
        self.name, self._stages = name, stages
        # The role of a stage is a function of the last states of the stages before. Constructing it may take long, so
        # the function remembers its values.
        self._role_of_stage = lru_cache(maxsize=None)(self._construct_role)

    def stage(self, state: StageState) -> Role:
        return self._role_of_stage(state.stage, encode(state.before))

    def _construct_role(self, stage: int, encoded_states: bytes) -> Role:
        last_states = decode(encoded_states)
        results = []
        for number, last_state in enumerate(last_states):
            role = self._role_of_stage(number, encode(last_states[:number]))
            results.append(role.result(last_state))
        return self._stages[stage](*results)

    def start(self) -> Step:
        return self._enter(StageState(0, None))

    def _enter(self, state: StageState) -> Step:
        """Start the role of a stage, and let it handle the messages that came early."""
        role = self.stage(state)
        step = role.start()
        early = [entry for entry in state.early if _is_read_by(role, entry)]
        if early:
            after_early = role.receive(step.state, early)
            step = replace(after_early, posts=(*step.posts, *after_early.posts))
            state = replace(state, early=())
        return self._advance(state, step)

    def _advance(self, state: StageState, step: Step) -> Step:
        """Turn a step of the current stage's role into a step of this role; enter the next stage if it is done."""
        state = replace(state, state=step.state)
        if self._is_last(state) or not self.stage(state).done(state.state):
            return replace(step, state=state)
        after = self._enter(StageState(state.stage + 1, None, (*state.before, state.state), state.early))
        return Step(after.state, (*step.posts, *after.posts), (*step.refused, *after.refused))

    def _is_last(self, state: StageState) -> bool:
        return state.stage + 1 == len(self._stages)

    def receive(self, state: StageState, entries: Sequence[Entry]) -> Step:
        """Handle messages: each stage receives those that it reads, in the order of the board, and no others.

        Public keys that come before their stage are kept: roles that generate no key count them from the start, and all
        roles must enter the next stage at the same entry. Other early messages are dropped; no honest role sends one.
        """
        step, remaining = Step(state), list(entries)
        while remaining:
            role = self.stage(step.state)
            batch: list[Entry] = []
            if self._is_last(step.state):  # no message is for a later stage
                batch, remaining = [entry for entry in remaining if _is_read_by(role, entry)], []
            while remaining and _is_read_by(role, remaining[0]) and (not batch or batch[-1].kind is remaining[0].kind):
                batch.append(remaining.pop(0))
            if batch:
                after = self._advance(step.state, role.receive(step.state.state, batch))
                step = Step(after.state, (*step.posts, *after.posts), (*step.refused, *after.refused))
            elif remaining:
                entry, early = remaining.pop(0), step.state.early
                if entry.is_a(Kind.PUBLIC_KEY) and entry.sender not in {other.sender for other in early}:
                    step = replace(step, state=replace(step.state, early=(*early, entry)))
        return step

    def on_idle(self, state: StageState) -> Step | None:
        step = self.stage(state).on_idle(state.state)
        return None if step is None else self._advance(state, step)

    def is_ready(self, state: StageState) -> bool:
        return self.stage(state).is_ready(state.state)

    def listens(self, state: StageState) -> bool:
        return self.stage(state).listens(state.state)

    def awaits(self, state: StageState) -> MissingMessages | None:
        return self.stage(state).awaits(state.state)

    def result(self, state: StageState) -> Any:
        return self.stage(state).result(state.state) if self._is_last(state) else None


def _is_read_by(role: Role, entry: Entry) -> bool:
    try:
        return entry.kind in role.reads or entry.receiver != BOARD
    except MessageError:
        return False


# -- joining


@storable
@dataclass(frozen=True)
class JoinedRoles:
    joined: tuple[str, ...] = ()


class JoinStage(Machine):
    """Waits until the roles that a study requires have joined, and returns those that have. Its agent joins for it."""

    reads = frozenset({Kind.JOINED})

    def __init__(self, name: str, study: Study) -> None:
        self.name, self.study, self._required = name, study, frozenset(study.must_join)

    def _start(self) -> Step:
        return Step(JoinedRoles())

    @takes(JoinedRoles, Kind.JOINED)
    def add(self, state: JoinedRoles, entry: Entry) -> Step:
        """Record that the sender has joined; raises MessageError, WrongRoundError or UnexpectedMessageError."""
        announced_key(entry.data, self.study.members)
        if entry.sender not in self.study.members.keys or entry.sender in state.joined:
            raise UnexpectedMessageError(
                f"{self.name}: {entry.sender} joined the study, which only its roles may do, and only once"
            )
        return Step(JoinedRoles((*state.joined, entry.sender)))

    def _result(self, state: JoinedRoles) -> tuple[str, ...] | None:
        return state.joined if self._required <= set(state.joined) else None

    def awaits(self, state: Any) -> MissingMessages | None:
        missing = sorted(self._required - set(state.state.joined))
        return MissingMessages(Kind.JOINED, tuple(missing)) if missing else None


# -- the key


@storable
@dataclass(frozen=True)
class ComparingKeys:
    """The holders' keys have not all come; `failed`: the holders that report a failure, with their reasons."""

    failed: tuple[tuple[str, str], ...] = ()

    def describe_failure(self) -> str:
        reports = (f'{names} ("{why}")' for why, names in _senders_by_value(dict(self.failed)).items())
        return f"the ceremony has failed, according to {', '.join(reports)}"


@storable
@dataclass(frozen=True)
class AgreedKey:
    key: ThresholdKey


@storable
@dataclass(frozen=True)
class NoKey:
    """The key generation has failed, or holders have published different keys: the study ends here, for this reason."""

    why: str


class KeyStage(Machine):
    """Publishes the key, if this role holds a share of it, and waits until all holders have published the same key.

    The stage ends without a key when t holders report that the key generation has failed: one of them is honest, and
    would never have published a key. Reports of fewer holders may be false and are ignored.
    """

    reads = frozenset({Kind.PUBLIC_KEY, Kind.FAILED_CEREMONY})

    def __init__(self, name: str, study: Study, own: ThresholdKey | None = None) -> None:
        """Compare with `own`, the key that this holder has made with the others; None for other roles."""
        self.name, self.study, self._own = name, study, own

    def _start(self) -> Step:
        posts = () if self._own is None else (Post(BOARD, encode_key(self.study, self._own), "key"),)
        return Step(ComparingKeys(), posts)

    @gathers(ComparingKeys, Kind.PUBLIC_KEY, lambda self, state: self.study.holders)
    def compare(self, state: ComparingKeys, messages: dict[str, bytes]) -> Step:
        """Accept the key if all holders have published the same one, and it is as the study requires."""
        senders = _senders_by_value(messages)
        try:
            if len(senders) != 1:
                raise AgreementError("one by " + ", another by ".join(senders.values()))
            key = decode_key(self.study, next(iter(senders)))
            if self._own is not None and key != self._own:
                raise AgreementError(f"not the one that {self.name} has a share of")
        except PsephosError as error:
            return Step(NoKey(f"the holders do not publish the one key of this study: {error}"))
        return Step(AgreedKey(key))

    @takes(ComparingKeys, Kind.FAILED_CEREMONY)
    def give_up(self, state: ComparingKeys, entry: Entry) -> Step:
        """Record a holder's report that the key generation has failed; give up when t holders have reported it."""
        reports = dict(state.failed)
        if entry.sender not in self.study.holders or entry.sender in reports:
            raise UnexpectedMessageError(
                f"{self.name}: {entry.sender} reports a failed ceremony, which only holders may do, and only once"
            )
        reports[entry.sender] = reason(self.study.ceremony(), entry.data)
        state = ComparingKeys(tuple(reports.items()))
        return Step(state if len(reports) < self.study.threshold else NoKey(state.describe_failure()))

    def listens(self, state: Any) -> bool:
        """Return False for holders: the key to the secret messages of the key generation is erased with them."""
        return self._own is None

    def _result(self, state: ComparingKeys | AgreedKey | NoKey) -> ThresholdKey | None:
        return state.key if isinstance(state, AgreedKey) else None


def _senders_by_value(values: Mapping[str, Any]) -> dict[Any, str]:
    """Return the distinct values with the names of their senders, joined by "and"."""
    senders: dict[Any, list[str]] = {}
    for name, value in values.items():
        senders.setdefault(value, []).append(name)
    return {value: " and ".join(names) for value, names in senders.items()}


def encode_key(study: Study, key: ThresholdKey) -> bytes:
    size = key.key.ciphertext_bytes
    numbers = (key.theta, key.verification_base, *key.verification_values)
    encoded_numbers = [int(number).to_bytes(size, "big") for number in numbers]
    return frame(Kind.PUBLIC_KEY, study.digest, int(key.key.n).to_bytes(size, "big"), key.ceremony, *encoded_numbers)


def decode_key(study: Study, data: bytes) -> ThresholdKey:
    """Decode a published key; raises MessageError, AgreementError or PsephosError."""
    size, holders = (study.degree + 1) * study.key_bits // 8, len(study.holders)
    reader = Reader(data, Kind.PUBLIC_KEY, study.digest, length=16 + size * (3 + holders))
    n, ceremony = reader.integer(size), reader.take(16)
    theta, base, *values = (mpz(reader.integer(size)) for _ in range(2 + holders))
    public_key = PublicKey(n, form="psephos", degree=study.degree)
    key = ThresholdKey(public_key, holders, study.threshold, ceremony, base, tuple(values), int(theta))
    study.check_key(key)
    return key


def initial_stages(name: str, study: Study) -> list[Stage]:
    """Return the stages before the protocol of a role that holds no share of the key, or of a reader of the board."""
    stages: list[Stage] = [lambda: JoinStage(name, study)]
    if study.uses_key:
        stages.append(lambda joined: KeyStage(name, study))
    return stages


# -- the result


@storable
@dataclass(frozen=True)
class PublishedResult:
    """What the curator released, in bytes whose meaning the study's protocol defines."""

    content: bytes = field(repr=False)

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(self.content).digest()


class PublishStage(Machine):
    """The curator's last stage: makes the release, only once even after a crash, and publishes it."""

    name = CURATOR

    def __init__(self, study: Study, make: Callable[[], bytes], ledger: OnceLedger) -> None:
        """Publish what `make` returns, which draws the noise; the ledger keeps it, so that it is drawn once."""
        self._study, self._make, self._ledger = study, make, ledger

    def _start(self) -> Step:
        content = self._ledger.do_once(b"release" + self._study.digest, b"", self._make)
        post = Post(BOARD, frame(Kind.RESULT, self._study.digest, content), "release")
        return Step(PublishedResult(content), (post,))

    def _result(self, state: PublishedResult) -> PublishedResult:
        return state


@storable
@dataclass(frozen=True)
class ResultWatcherState:
    """The state of the inner role, and the result if it was published."""

    state: Any = field(repr=False)
    published: PublishedResult | None = None


class ResultWatcher(DelegatingRole):
    """Runs another role, and is done when the curator has published a result, which is this role's result."""

    def __init__(self, study: Study, inner: Role) -> None:
        super().__init__(inner)
        self.reads, self._study = inner.reads | {Kind.RESULT}, study

    def unwrap(self, state: ResultWatcherState) -> Any:
        return state.state

    def wrap(self, state: ResultWatcherState | None, step: Step) -> Step:
        published = None if state is None else state.published
        return replace(step, state=ResultWatcherState(step.state, published))

    def receive(self, state: ResultWatcherState, entries: Sequence[Entry]) -> Step:
        """Record the result, which only the curator may publish, and only once; the inner role handles the rest."""
        results = [entry for entry in entries if entry.is_a(Kind.RESULT)]
        others = [entry for entry in entries if not entry.is_a(Kind.RESULT)]
        step = super().receive(state, others) if others else Step(state)
        after, refused = step.state, list(step.refused)
        for entry in results:
            try:
                after = self._with_result(after, entry)
            except PsephosError as error:
                refused.append(Refusal(entry, error))
        return replace(step, state=after, refused=tuple(refused))

    def _with_result(self, state: ResultWatcherState, entry: Entry) -> ResultWatcherState:
        if entry.sender != CURATOR:
            raise UnexpectedMessageError(f"{self.name}: {entry.sender} published a result, and is not the curator")
        if state.published is not None:
            raise UnexpectedMessageError(f"{self.name}: the curator published a second result")
        content = Reader(entry.data, Kind.RESULT, self._study.digest).rest()
        return replace(state, published=PublishedResult(content))

    def done(self, state: ResultWatcherState) -> bool:
        return state.published is not None

    def listens(self, state: ResultWatcherState) -> bool:
        return state.published is None and super().listens(state)

    def awaits(self, state: ResultWatcherState) -> MissingMessages | None:
        if state.published is not None:
            return None
        return super().awaits(state) or MissingMessages(Kind.RESULT, (CURATOR,))

    def result(self, state: ResultWatcherState) -> PublishedResult | None:
        return state.published
