"""The state of a descent, which every role computes from the board (docs/protocols/psgd.md).

All roles know S_t when t holders, at least one of whom is honest, have published the same sum; w_{t+1} follows. An
announcement is accepted only from the curator, for the next step, and at the point that follows (the origin first).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from psephos.protocol.encrypted_sum.opened import SumReader
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import (
    MessageError,
    ThresholdError,
    UnexpectedMessageError,
    WrongPartialDecryptionError,
)
from psephos.protocol.psgd.series import Announcement, SeriesTerms
from psephos.protocol.roles import Entry, Machine, MachineState, PublicReader, Refusal, Step, takes
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind, Reader, frame, session_of


@storable
@dataclass(frozen=True)
class PublishedSum:
    """One holder's message with the opened sum of a step, in lattice units. Public."""

    step: int
    holder: int
    sums: tuple[int, ...] = field(repr=False)

    def encode(self, terms: SeriesTerms) -> bytes:
        size = _size(terms, self.step)
        sums = b"".join(entry.to_bytes(size, "big", signed=True) for entry in self.sums)
        return frame(Kind.PUBLISHED_SUM, terms.digest, self.step.to_bytes(4, "big"), bytes([self.holder]), sums)

    @classmethod
    def decode(cls, data: bytes, terms: SeriesTerms) -> PublishedSum:
        reader = Reader(data, Kind.PUBLISHED_SUM, terms.digest)
        step, holder = reader.integer(4), reader.integer(1)
        if not 1 <= step <= terms.series.steps:
            raise MessageError(f"the series has steps 1 to {terms.series.steps}, there is no step {step}")
        if not 1 <= holder <= terms.threshold_key.holders:
            raise ThresholdError(f"holders are numbered 1 to {terms.threshold_key.holders}, there is no {holder}")
        most, size = _most(terms, step), _size(terms, step)
        rest = [reader.take(size) for _ in range(terms.series.dimension)]
        reader.end()
        sums = tuple(int.from_bytes(entry, "big", signed=True) for entry in rest)
        if max(map(abs, sums)) > most:
            raise MessageError(f"the published sum of step {step} exceeds every possible sum")
        return cls(step, holder, sums)


@lru_cache(maxsize=4)  # all roles of a simulation compute the same value and the same next point
def _most(terms: SeriesTerms, step: int) -> int:
    plan = terms.plan(step)
    return terms.series.parties * max(-plan.minimum, plan.maximum)


def _size(terms: SeriesTerms, step: int) -> int:
    return _most(terms, step).bit_length() // 8 + 1


@lru_cache(maxsize=4)
def _next(terms: SeriesTerms, point: tuple[float, ...], sums: tuple[int, ...], steps: int) -> tuple[float, ...]:
    noisy = np.array([float(s) for s in sums]) * terms.series.pitch
    return tuple(terms.descent.step(np.array(point), noisy, steps).tolist())


@storable
@dataclass(frozen=True)
class DescentState:
    """The progress of a descent.

    Attributes:
        steps: number of known sums.
        points: the iterates that are still needed, (d,) each, the latest last.
        said: (holder, sum) of each sum that was published of the step of the last `announcement`.
    """

    steps: int
    points: tuple[tuple[float, ...], ...] = field(repr=False)
    announcement: Announcement | None = None
    said: tuple[tuple[int, tuple[int, ...]], ...] = field(default=(), repr=False)

    @classmethod
    def start(cls, terms: SeriesTerms) -> DescentState:
        return cls(0, ((0.0,) * terms.series.dimension,))

    @property
    def point(self) -> tuple[float, ...]:
        return self.points[-1]

    @property
    def open(self) -> bool:
        return self.announcement is not None and self.announcement.step == self.steps + 1

    def over(self, terms: SeriesTerms) -> bool:
        """Return whether the descent has ended: after all steps, or by the stopping rule."""
        return self.steps >= terms.series.steps or terms.descent.stopping(self.points)

    def announced(self, terms: SeriesTerms, entry: Entry, who: str) -> DescentState:
        if entry.sender != "curator":
            raise UnexpectedMessageError(f"{who}: {entry.sender} announced a step; only the curator may do so")
        announcement = Announcement.decode(entry.data, terms)
        if self.over(terms):
            raise UnexpectedMessageError(f"{who}: step {announcement.step} was announced, and the descent is over")
        if self.open or announcement.step != self.steps + 1:
            due = f"the sum of step {self.steps + 1} is due" if self.open else f"step {self.steps + 1} is next"
            raise UnexpectedMessageError(f"{who}: {due}, and step {announcement.step} was announced")
        if announcement.point != self.point:
            raise UnexpectedMessageError(f"{who}: the point of step {announcement.step} does not follow from the sums")
        return replace(self, announcement=announcement, said=())

    def published(self, terms: SeriesTerms, entry: Entry) -> DescentState:
        """Return the state after a published sum; it moves to the next point when t holders published the same sum.

        A sum of a step that is already known does not change the state.
        """
        message = PublishedSum.decode(entry.data, terms)
        if entry.sender != f"holder {message.holder}":
            raise ThresholdError(f"{entry.sender} published a sum in the name of holder {message.holder}")
        if message.step <= self.steps:
            known = self.sums() if message.step == self.steps else None
            if known is not None and known != message.sums:
                raise WrongPartialDecryptionError(f"{entry.sender} published another sum of step {message.step}")
            return self
        if not self.open or message.step != self.steps + 1 or message.holder in dict(self.said):
            raise UnexpectedMessageError(f"a sum of step {message.step} of holder {message.holder} is not due")
        every = (*self.said, (message.holder, message.sums))
        if sum(sums == message.sums for _, sums in every) < terms.threshold_key.threshold:
            return replace(self, said=every)
        points = (*self.points, _next(terms, self.point, message.sums, self.steps))
        points = points[-1 - terms.descent.stopping.looks_back :]
        return replace(self, steps=self.steps + 1, points=points, said=every)

    def sums(self) -> tuple[int, ...] | None:
        if self.announcement is None or self.open:
            return None
        published = [sums for _, sums in self.said]
        return max(published, key=published.count)  # t > n/2 holders published this sum


@dataclass(frozen=True)
class FollowedStep:
    round: Round
    votes: MachineState = field(repr=False)
    sums: tuple[int, ...] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class SeriesFollowed:
    """The state of a `SeriesReader`: the descent, and the announced steps, the latest last."""

    progress: DescentState
    steps: tuple[FollowedStep, ...] = ()


class SeriesReader(Machine, PublicReader):
    """Follows a descent as everybody can who reads its board."""

    reads = (SumReader.reads - {Kind.NOISE_BALLOT}) | {Kind.ANNOUNCEMENT, Kind.PUBLISHED_SUM}

    def __init__(self, name: str, terms: SeriesTerms) -> None:
        self.name, self.terms = name, terms

    def _start(self) -> Step:
        return Step(SeriesFollowed(DescentState.start(self.terms)))

    def votes(self, step: FollowedStep) -> SumReader:
        return SumReader(self.name, step.round, public=True)

    @takes(SeriesFollowed, Kind.ANNOUNCEMENT)
    def receive_announcement(self, state: SeriesFollowed, entry: Entry) -> Step:
        progress = state.progress.announced(self.terms, entry, self.name)
        assert progress.announcement is not None
        round_ = self.terms.round(progress.announcement)
        step = FollowedStep(round_, SumReader(self.name, round_, public=True).start().state)
        return Step(SeriesFollowed(progress, (*state.steps, step)))

    @takes(SeriesFollowed, Kind.BALLOT, batch=True)
    @takes(SeriesFollowed, Kind.CLOSE, batch=True)
    @takes(SeriesFollowed, Kind.CONFIRMATION, batch=True)
    @takes(SeriesFollowed, Kind.PARTIAL_DECRYPTION, batch=True)
    def forward(self, state: SeriesFollowed, entries: Sequence[Entry]) -> Step:
        """Judge the messages in the round of the latest step; those of earlier steps come too late to matter."""
        earlier = {step.round.digest for step in state.steps[:-1]}
        current = [entry for entry in entries if session_of(entry.data) not in earlier]
        if not state.steps:
            error = UnexpectedMessageError(f"{self.name}: no step is announced yet")
            return Step(state, (), tuple(Refusal(entry, error) for entry in current))
        *before, last = state.steps
        step = self.votes(last).receive(last.votes, current)
        return Step(replace(state, steps=(*before, replace(last, votes=step.state))), (), step.refused)

    @takes(SeriesFollowed, Kind.PUBLISHED_SUM)
    def receive_published_sum(self, state: SeriesFollowed, entry: Entry) -> Step:
        progress = state.progress.published(self.terms, entry)
        if progress.steps > state.progress.steps:
            *before, last = state.steps
            state = replace(state, steps=(*before, replace(last, sums=progress.sums())))
        return Step(replace(state, progress=progress))

    def heard(self, state: MachineState) -> dict[Kind, set[str]]:
        own: SeriesFollowed = state.state
        heard: dict[Kind, set[str]] = {Kind.ANNOUNCEMENT: {"curator"} if own.steps else set()}
        heard[Kind.PUBLISHED_SUM] = {f"holder {holder}" for holder, _ in own.progress.said}
        for step in own.steps:
            for kind, senders in self.votes(step).heard(step.votes).items():
                heard.setdefault(kind, set()).update(senders)
        return heard

    def lacks(self, state: MachineState) -> str:
        own: SeriesFollowed = state.state
        if not own.progress.over(self.terms):
            return "the descent is not over"
        unopened = (number for number, step in enumerate(own.steps, 1) if self.votes(step).lacks(step.votes))
        number = next(unopened, 0)
        return f"nobody opens the sum of step {number} on this board" if number else ""
