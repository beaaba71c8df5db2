"""What every role of a study goes through before and after the protocol that the study is about.

    everybody   joins: agrees to the study, and says what secrets for it are sealed to
    holders     make the key among themselves (`psephos.parties.ceremony`), and publish it
    everybody   waits until all holders have published the same key, or t of them say that there will be none
    everybody   plays its part in the protocol under that key
    curator     publishes the result, once

`StagedRole` plays roles one after another, each made from what the ones before came to. The messages of a stage follow,
on the board, from those of the stage before, so that everybody moves on at the same place of the board.
No paper behind it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gmpy2 import mpz

from psephos.protocol.ceremony.messages import reason
from psephos.protocol.errors import AgreementError, MessageError, PsephosError, UnexpectedMessageError
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.threshold import ThresholdKey
from psephos.protocol.roles import BOARD, Entry, Machine, Missing, Post, Refusal, Role, Step, gathers, takes
from psephos.protocol.storage.store import OnceLedger
from psephos.protocol.storage.values import storable
from psephos.protocol.study.study import CURATOR, Study
from psephos.protocol.wire import Kind, Reader, frame

__all__ = [
    "JoinStage",
    "KeyStage",
    "NoKey",
    "PublishStage",
    "PublishedResult",
    "ResultWatcher",
    "StagedRole",
    "initial_stages",
]


# -- one role after another


@storable
@dataclass(frozen=True)
class StageState:
    """Which stage a role is in, its state there, the last states of the stages before, and what came too early."""

    stage: int
    state: Any = field(repr=False)
    before: tuple[Any, ...] = field(default=(), repr=False)
    early: tuple[Entry, ...] = field(default=(), repr=False)


Stage = Callable[..., Role]
"""Makes the role of a stage from the results of all stages before it."""


class StagedRole(Role):
    """Roles of one name, one after another; its result is that of the last."""

    reads = frozenset(Kind)

    def __init__(self, name: str, *stages: Stage) -> None:
        """`stages`: of the same name each; the first takes no argument, the second one, and so on."""
        self.name, self._stages = name, stages
        self._made: dict[int, Role] = {}  # a cache: a role follows from the states before it

    def _role(self, at: StageState) -> Role:
        if at.stage not in self._made:
            results = [self._made[k].result(state) for k, state in enumerate(at.before)] if at.before else []
            self._made[at.stage] = self._stages[at.stage](*results)
        return self._made[at.stage]

    def _known(self, at: StageState) -> Role:
        """The role of a state that was written down: those before it are made first."""
        for stage in range(at.stage):
            self._role(StageState(stage, at.before[stage], at.before[:stage]))
        return self._role(at)

    def start(self) -> Step:
        """Of the first stage."""
        return self._entered(StageState(0, None))

    def _entered(self, at: StageState) -> Step:
        role = self._known(at)
        step, ahead = role.start(), [entry for entry in at.early if _reads(role, entry)]
        if ahead:
            inner = role.receive(step.state, ahead)
            step = replace(inner, posts=(*step.posts, *inner.posts))
            at = replace(at, early=())
        return self._moved(replace(at, state=step.state), replace(step, state=None))

    def _moved(self, at: StageState, step: Step) -> Step:
        """On to the next stage, when this one is done."""
        if at.stage + 1 == len(self._stages) or not self._known(at).done(at.state):
            return replace(step, state=at)
        after = self._entered(StageState(at.stage + 1, None, (*at.before, at.state), at.early))
        return Step(after.state, (*step.posts, *after.posts), (*step.refused, *after.refused))

    def receive(self, state: StageState, entries: Sequence[Entry]) -> Step:
        """Each stage is given what it reads, in the order of the board; what it does not read is not for it.

        But for public keys: who makes no key counts them from the beginning, so a holder must, too. Else a holder that
        says its own before its last word about it, and again later, has the others count ballots from another place.
        """
        step, waiting = Step(state), list(entries)
        while waiting:
            role = self._known(step.state)
            run: list[Entry] = []
            if step.state.stage + 1 == len(self._stages):  # nothing that comes is for a later one
                run, waiting = [entry for entry in waiting if _reads(role, entry)], []
            while waiting and _reads(role, waiting[0]) and (not run or _alike(run[-1], waiting[0])):
                run.append(waiting.pop(0))
            if not run:
                if waiting:
                    step = replace(step, state=_kept(step.state, waiting.pop(0)))
                continue
            inner = role.receive(step.state.state, run)
            after = self._moved(replace(step.state, state=inner.state), replace(inner, state=None))
            step = Step(after.state, (*step.posts, *after.posts), (*step.refused, *after.refused))
        return step

    def on_idle(self, state: StageState) -> Step | None:
        """As the stage's role."""
        step = self._known(state).on_idle(state.state)
        return None if step is None else self._moved(replace(state, state=step.state), replace(step, state=None))

    def is_ready(self, state: StageState) -> bool:
        """As the stage's role."""
        return self._known(state).is_ready(state.state)

    def listens(self, state: StageState) -> bool:
        """As the stage's role."""
        return self._known(state).listens(state.state)

    def awaits(self, state: StageState) -> Missing | None:
        """As the stage's role."""
        return self._known(state).awaits(state.state)

    def result(self, state: StageState) -> Any:
        """Of the last stage."""
        return self._known(state).result(state.state) if state.stage + 1 == len(self._stages) else None

    def stage(self, state: StageState) -> Role:
        """Who it is now."""
        return self._known(state)


def _kept(at: StageState, entry: Entry) -> StageState:
    known = {other.sender for other in at.early}
    return replace(at, early=(*at.early, entry)) if entry.is_a(Kind.PUBLIC_KEY) and entry.sender not in known else at


def _reads(role: Role, entry: Entry) -> bool:
    try:
        return entry.kind in role.reads or entry.receiver != BOARD
    except MessageError:
        return False


def _alike(one: Entry, other: Entry) -> bool:
    return one.kind is other.kind


# -- joining


@storable
@dataclass(frozen=True)
class JoinedRoles:
    """Who has joined so far."""

    joined: tuple[str, ...] = ()


class JoinStage(Machine):
    """Waits until all that are needed have joined; its own joining is said by its agent. Its outcome is who has."""

    reads = frozenset({Kind.JOINED})

    def __init__(self, name: str, needed: Collection[str]) -> None:
        """`needed`: names of roles."""
        self.name, self._needed = name, frozenset(needed)

    def _start(self) -> Step:
        """Wait."""
        return Step(JoinedRoles())

    @takes(JoinedRoles, Kind.JOINED)
    def note(self, state: JoinedRoles, entry: Entry) -> Step:
        """One more."""
        return Step(JoinedRoles((*state.joined, entry.sender)))

    def _result(self, state: JoinedRoles) -> tuple[str, ...] | None:
        """Who has joined, when nobody is missing."""
        return state.joined if self._needed <= set(state.joined) else None

    def awaits(self, state: Any) -> Missing | None:
        """Who has not."""
        left = sorted(self._needed - set(state.state.joined))
        return Missing(Kind.JOINED, tuple(left)) if left else None


# -- the key


@storable
@dataclass(frozen=True)
class ComparingKeys:
    """The holders' keys are on their way; which holders say that the ceremony has failed, and why."""

    failed: tuple[tuple[str, str], ...] = ()

    def told(self) -> str:
        """Who says so, and why."""
        said = (f'{names} ("{why}")' for why, names in _who_says(dict(self.failed)).items())
        return f"the ceremony has failed, according to {', '.join(said)}"


@storable
@dataclass(frozen=True)
class AgreedKey:
    """All holders have published this key."""

    key: ThresholdKey


@storable
@dataclass(frozen=True)
class NoKey:
    """The ceremony has failed, or holders have published different keys: the study ends here."""

    why: str


class KeyStage(Machine):
    """Publishes the key, where this role holds a share of it, and waits until all holders have published the same.

    It gives up when t holders say that the ceremony has failed. One of t is honest, and an honest holder whose ceremony
    has failed never publishes a key: there would have been none. What fewer say may be a lie, and ends nothing.
    """

    reads = frozenset({Kind.PUBLIC_KEY, Kind.FAILED_CEREMONY})

    def __init__(self, name: str, study: Study, own: ThresholdKey | None = None) -> None:
        """`own`: the key that this holder has made with the others; None for who holds none."""
        self.name, self.study, self._own = name, study, own

    def _start(self) -> Step:
        """Publish it."""
        posts = () if self._own is None else (Post(BOARD, encode_key(self.study, self._own), "key"),)
        return Step(ComparingKeys(), posts)

    @gathers(ComparingKeys, Kind.PUBLIC_KEY, lambda self, state: self.study.holders)
    def compare(self, state: ComparingKeys, said: dict[str, bytes]) -> Step:
        """The key; none when two holders do not mean the same, or it is not the one that the study asks for."""
        alike = _who_says(said)
        try:
            if len(alike) != 1:
                raise AgreementError("one by " + ", another by ".join(alike.values()))
            key = decode_key(self.study, next(iter(alike)))
            if self._own is not None and key != self._own:
                raise AgreementError(f"not the one that {self.name} has a share of")
        except PsephosError as error:
            return Step(NoKey(f"the holders do not publish the one key of this study: {error}"))
        return Step(AgreedKey(key))

    @takes(ComparingKeys, Kind.FAILED_CEREMONY)
    def give_up(self, state: ComparingKeys, entry: Entry) -> Step:
        """The ceremony has failed, when t holders say so."""
        known = dict(state.failed)
        if entry.sender not in self.study.holders or entry.sender in known:
            raise UnexpectedMessageError(f"{self.name}: {entry.sender} says a ceremony failed, as holders may, once")
        known[entry.sender] = reason(self.study.ceremony(), entry.data)
        state = ComparingKeys(tuple(known.items()))
        return Step(state if len(known) < self.study.threshold else NoKey(state.told()))

    def listens(self, state: Any) -> bool:
        """No holder any more: what they told each other in secret is forgotten with the key to it."""
        return self._own is None

    def _result(self, state: ComparingKeys | AgreedKey | NoKey) -> ThresholdKey | None:
        """The key."""
        return state.key if isinstance(state, AgreedKey) else None


def _who_says(said: Mapping[str, Any]) -> dict[Any, str]:
    """Everything that is said, with the names of those who say it."""
    found: dict[Any, list[str]] = {}
    for name, what in said.items():
        found.setdefault(what, []).append(name)
    return {what: " and ".join(names) for what, names in found.items()}


def encode_key(study: Study, key: ThresholdKey) -> bytes:
    """A key as its holders publish it."""
    size = key.key.ciphertext_bytes
    numbers = (key.theta, key.verification_base, *key.verification_values)
    parts = [int(key.key.n).to_bytes(size, "big"), key.ceremony, *(int(n).to_bytes(size, "big") for n in numbers)]
    return frame(Kind.PUBLIC_KEY, study.digest, *parts)


def decode_key(study: Study, data: bytes) -> ThresholdKey:
    """Raises MessageError, or the named error of a key that is none or not the study's."""
    size, holders = (study.degree + 1) * study.key_bits // 8, len(study.holders)
    reader = Reader(data, Kind.PUBLIC_KEY, study.digest, length=16 + size * (3 + holders))
    n, ceremony = reader.integer(size), reader.take(16)
    theta, base, *values = (mpz(reader.integer(size)) for _ in range(2 + holders))
    public = PublicKey(n, form="psephos", degree=study.degree)
    key = ThresholdKey(public, holders, study.threshold, ceremony, base, tuple(values), int(theta))
    study.check_key(key)
    return key


def initial_stages(name: str, study: Study) -> list[Stage]:
    """The stages of whoever holds no share, as of whoever only watches: until all have joined, and there is a key."""
    stages: list[Stage] = [lambda: JoinStage(name, study.must_join)]
    return [*stages, lambda joined: KeyStage(name, study)] if study.uses_key else stages


# -- the result


@storable
@dataclass(frozen=True)
class PublishedResult:
    """What the curator released: bytes whose meaning is the study's protocol's."""

    content: bytes = field(repr=False)

    @property
    def digest(self) -> bytes:
        """SHA-256, 32 bytes."""
        return hashlib.sha256(self.content).digest()


class PublishStage(Machine):
    """The curator's last stage: it makes the release, once whatever happens, and publishes it."""

    name = CURATOR

    def __init__(self, study: Study, make: Callable[[], bytes], once: OnceLedger) -> None:
        """`make`: draws the noise and fits; `once`: where the release is remembered, so that no second one is drawn."""
        self._study, self._make, self._once = study, make, once

    def _start(self) -> Step:
        """Release and publish."""
        content = self._once.do_once(b"release" + self._study.digest, b"", self._make)
        return Step(
            PublishedResult(content), (Post(BOARD, frame(Kind.RESULT, self._study.digest, content), "release"),)
        )

    def _result(self, state: PublishedResult) -> PublishedResult:
        """The release."""
        return state


@storable
@dataclass(frozen=True)
class ResultWatcherState:
    """A role's state, and the result when it is there."""

    state: Any = field(repr=False)
    published: PublishedResult | None = None


class ResultWatcher(Role):
    """A role that is done when the curator has published a result."""

    def __init__(self, study: Study, role: Role) -> None:
        self.name, self.reads = role.name, role.reads | {Kind.RESULT}
        self.role, self._study = role, study

    def start(self) -> Step:
        """As the role."""
        step = self.role.start()
        return replace(step, state=ResultWatcherState(step.state))

    def receive(self, state: ResultWatcherState, entries: Sequence[Entry]) -> Step:
        """As the role; a result is noted, once and the curator's only."""
        results = [entry for entry in entries if entry.is_a(Kind.RESULT)]
        others = [entry for entry in entries if not entry.is_a(Kind.RESULT)]
        step = self.role.receive(state.state, others) if others else Step(state.state)
        after = replace(state, state=step.state)
        refused = list(step.refused)
        for entry in results:
            try:
                after = self._noted(after, entry)
            except PsephosError as error:
                refused.append(Refusal(entry, error))
        return replace(step, state=after, refused=tuple(refused))

    def _noted(self, state: ResultWatcherState, entry: Entry) -> ResultWatcherState:
        if entry.sender != CURATOR:
            raise UnexpectedMessageError(f"{self.name}: {entry.sender} published a result, and is not the curator")
        if state.published is not None:
            raise UnexpectedMessageError(f"{self.name}: the curator published a second result")
        return replace(state, published=PublishedResult(Reader(entry.data, Kind.RESULT, self._study.digest).rest()))

    def on_idle(self, state: ResultWatcherState) -> Step | None:
        """As the role."""
        step = self.role.on_idle(state.state)
        return None if step is None else replace(step, state=replace(state, state=step.state))

    def is_ready(self, state: ResultWatcherState) -> bool:
        """As the role."""
        return self.role.is_ready(state.state)

    def listens(self, state: ResultWatcherState) -> bool:
        """As the role, until there is a result."""
        return state.published is None and self.role.listens(state.state)

    def awaits(self, state: ResultWatcherState) -> Missing | None:
        """What the role does; and then the result."""
        if state.published is not None:
            return None
        return self.role.awaits(state.state) or Missing(Kind.RESULT, (CURATOR,))

    def result(self, state: ResultWatcherState) -> PublishedResult | None:
        """What the curator published."""
        return state.published
