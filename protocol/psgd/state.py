"""How far a descent is, as everybody in it works that out from the board, taking nobody's word for the next point.

    curator     announces step t at w_t               parties answer, holders open the sum, on the board
    holders     each publish the sum that they have opened
    everybody   has S_t when t holders published the same: one of them at least does not lie. w_{t+1} follows

An announcement is taken from the curator alone, for exactly the next step and at exactly the point that follows: the
origin first. Nobody else's, and no other, is answered. docs/protocols/psgd.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from psephos.protocol.errors import (
    MessageError,
    ThresholdError,
    UnexpectedMessageError,
    WrongPartialDecryptionError,
    WrongPointError,
)
from psephos.protocol.psgd.series import Announcement, SeriesTerms
from psephos.protocol.roles import Entry
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind, Reader, frame

__all__ = ["DescentState", "PublishedSum"]


@storable
@dataclass(frozen=True)
class PublishedSum:
    """What one holder says that a step's ballots add up to. Public.

    Attributes:
        step: counted from 1.
        holder: 1 .. n.
        sums: in lattice units, `dimension` of them.
    """

    step: int
    holder: int
    sums: tuple[int, ...] = field(repr=False)

    def encode(self, terms: SeriesTerms) -> bytes:
        """The bytes that travel."""
        size = _size(terms, self.step)
        sums = b"".join(entry.to_bytes(size, "big", signed=True) for entry in self.sums)
        return frame(Kind.PUBLISHED_SUM, terms.digest, self.step.to_bytes(4, "big"), bytes([self.holder]), sums)

    @classmethod
    def decode(cls, data: bytes, terms: SeriesTerms) -> PublishedSum:
        """Raises MessageError (no such step or sum), WrongRoundError (other terms) or ThresholdError (no holder)."""
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
            raise MessageError(f"no ballots of step {step} add up to such a sum")
        return cls(step, holder, sums)


@lru_cache(maxsize=4)  # this, and the next point: all roles of a simulation come to the same
def _most(terms: SeriesTerms, step: int) -> int:
    return terms.series.parties * terms.series.entry_bound(step)


def _size(terms: SeriesTerms, step: int) -> int:
    return _most(terms, step).bit_length() // 8 + 1


@lru_cache(maxsize=4)
def _next(terms: SeriesTerms, point: tuple[float, ...], sums: tuple[int, ...], steps: int) -> tuple[float, ...]:
    noisy = np.array([float(s) for s in sums]) * terms.series.pitch
    return tuple(terms.descent.step(np.array(point), noisy, steps).tolist())


@storable
@dataclass(frozen=True)
class DescentState:
    """How far it is.

    Attributes:
        steps: sums that are known.
        points: the iterates that are still needed, (d,) each, the latest last.
        announcement: of the step that was announced last; None before the first.
        said: which holders published which sum of that step so far.
    """

    steps: int
    points: tuple[tuple[float, ...], ...] = field(repr=False)
    announcement: Announcement | None = None
    said: tuple[tuple[int, tuple[int, ...]], ...] = field(default=(), repr=False)

    @classmethod
    def start(cls, terms: SeriesTerms) -> DescentState:
        """At the origin."""
        return cls(0, ((0.0,) * terms.series.dimension,))

    @property
    def point(self) -> tuple[float, ...]:
        """w_t."""
        return self.points[-1]

    @property
    def open(self) -> bool:
        """Whether a step is announced whose sum is not known yet."""
        return self.announcement is not None and self.announcement.step == self.steps + 1

    def over(self, terms: SeriesTerms) -> bool:
        """Whether this is the end: all steps taken, or the stopping rule says so."""
        return self.steps >= terms.series.steps or terms.descent.stopping(self.points)

    def announced(self, terms: SeriesTerms, entry: Entry, who: str) -> DescentState:
        """With the next step announced.

        Raises MessageError, WrongRoundError (other terms), UnexpectedMessageError (not by the curator, or not the next
        step), WrongPointError.
        """
        if entry.sender != "curator":
            raise UnexpectedMessageError(f"{who}: {entry.sender} announced a step, which is the curator's to do")
        announcement = Announcement.decode(entry.data, terms)
        if self.over(terms):
            raise UnexpectedMessageError(f"{who}: step {announcement.step} was announced, and the descent is over")
        if self.open or announcement.step != self.steps + 1:
            due = f"the sum of step {self.steps + 1} is due" if self.open else f"step {self.steps + 1} is next"
            raise UnexpectedMessageError(f"{who}: {due}, and step {announcement.step} was announced")
        if announcement.point != self.point:
            raise WrongPointError(
                f"{who}: step {announcement.step} was announced at another point than the one that follows from the "
                "sums before"
            )
        return replace(self, announcement=announcement, said=())

    def published(self, terms: SeriesTerms, entry: Entry) -> DescentState:
        """With one holder's word more; at the next point when t holders said the same.

        A holder's word about a step whose sum is known changes nothing. Raises as `PublishedSum.decode`; ThresholdError
        in another's name, UnexpectedMessageError before the step is announced or for a second time,
        WrongPartialDecryptionError for another sum than t holders have published.
        """
        said = PublishedSum.decode(entry.data, terms)
        if entry.sender != f"holder {said.holder}":
            raise ThresholdError(f"{entry.sender} published a sum in the name of holder {said.holder}")
        if said.step <= self.steps:
            known = self.sums() if said.step == self.steps else None
            if known is not None and known != said.sums:
                raise WrongPartialDecryptionError(f"holder {said.holder} published another sum of step {said.step}")
            return self
        if not self.open or said.step != self.steps + 1 or said.holder in dict(self.said):
            raise UnexpectedMessageError(f"holder {said.holder} published a sum of step {said.step}, which is not due")
        every = (*self.said, (said.holder, said.sums))
        if sum(sums == said.sums for _, sums in every) < terms.threshold_key.threshold:
            return replace(self, said=every)
        points = (*self.points, _next(terms, self.point, said.sums, self.steps))
        points = points[-1 - terms.descent.stopping.looks_back :]
        return replace(self, steps=self.steps + 1, points=points, said=every)

    def sums(self) -> tuple[int, ...] | None:
        """Of the step that was announced last, when they are known."""
        if self.announcement is None or self.open:
            return None
        found = [sums for _, sums in self.said]
        return max(found, key=found.count)  # t > n/2 said so
