"""The curator of private stochastic gradient descent: the third party of Algorithm 1 (Rajkumar and Agarwal 2012).

It announces a step at the point that follows from the sums before, counts the parties' ballots and has their sum
opened, as the curator of any encrypted sum (`psephos.curator.tally`), on the board. The next point is nothing that it
could choose: everybody works it out from what the holders publish (`psephos.protocol.psgd.state`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.curator.tally import OpenedSum, Tally
from psephos.protocol.errors import PartyVanishedError, TooFewBallotsError
from psephos.protocol.psgd.series import Announcement, Terms
from psephos.protocol.psgd.state import DescentState
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.roles import BOARD, Entry, Machine, Missing, Post, Step, takes
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind


@storable
@dataclass(frozen=True)
class Walking:
    """Where the descent is.

    Attributes:
        walk: the points.
        opened: the latest sum that is known; None before the first.
        inner: the state of the `Tally` of the step that was announced last.
    """

    walk: DescentState
    opened: OpenedSum | None = None
    inner: Any = field(default=None, repr=False)

    @property
    def steps(self) -> int:
        """Sums taken so far."""
        return self.walk.steps

    @property
    def w(self) -> NDArray[np.float64]:
        """The current iterate, (d,)."""
        return np.array(self.walk.point)


class GradientCurator(Machine):
    """The curator of one series."""

    name = "curator"
    reads = Tally.reads | {Kind.PUBLISHED_SUM}

    def __init__(self, terms: Terms, *, randomness: Randomness = SYSTEM) -> None:
        """`terms`: what was agreed on. `randomness`: of the rounds' nonces."""
        self.terms, self._randomness = terms, randomness

    def _start(self) -> Step:
        """Announce the first step, at the origin."""
        return self._announce(Walking(DescentState.start(self.terms)))

    @takes(Walking, Kind.BALLOT, batch=True)
    @takes(Walking, Kind.CLOSE, batch=True)
    @takes(Walking, Kind.CONFIRMATION, batch=True)
    @takes(Walking, Kind.PARTIAL_DECRYPTION, batch=True)
    def count(self, state: Walking, entries: Sequence[Entry]) -> Step:
        """What a `Tally` does in the round of the announced step."""
        inner = self._tally(state).receive(state.inner, entries)
        return replace(inner, state=replace(state, inner=inner.state))

    @takes(Walking, Kind.PUBLISHED_SUM)
    def move(self, state: Walking, entry: Entry) -> Step:
        """Announce the next step, when t holders have published the same sum; raises as `DescentState.published`."""
        walk = state.walk.published(self.terms, entry)
        if walk.steps == state.walk.steps:
            return Step(replace(state, walk=walk))
        sums, tally = walk.sums(), self._tally(state)
        assert sums is not None
        opened = tally.result(state.inner) or OpenedSum(sums, tally.product(state.inner.state).parties)
        wrong = tuple(holder for holder, other in walk.said if other != sums)
        return self._announce(Walking(walk, replace(opened, sums=sums, wrong_holders=wrong), state.inner))

    def _on_idle(self, state: Walking) -> Step | None:
        """Close the vote on the step, or ask more holders, as a `Tally` does.

        Raises PartyVanishedError when more parties than agreed did not answer. The step is kept: with them back, the
        same run can go on.
        """
        if not state.walk.open:
            return None
        try:
            inner = self._tally(state).on_idle(state.inner)
        except TooFewBallotsError as error:
            series = self.terms.series
            raise PartyVanishedError(
                f"step {state.steps + 1}: {error}. At most {series.parties - series.minimum_ballots} of "
                f"{series.parties} parties may stay away; the step is kept and can be repeated with them"
            ) from None
        return None if inner is None else replace(inner, state=replace(state, inner=inner.state))

    def done(self, state: Any) -> bool:
        """Whether the descent is over."""
        walking: Walking = state.state
        return walking.walk.over(self.terms)

    def _is_ready(self, state: Walking) -> bool:
        """Whether everybody has answered the step."""
        return state.walk.open and self._tally(state).is_ready(state.inner)

    def awaits(self, state: Any) -> Missing | None:
        """What the holders publish of the announced step."""
        walking: Walking = state.state
        if not walking.walk.open:
            return None
        said, holders = dict(walking.walk.said), range(1, self.terms.threshold_key.holders + 1)
        return Missing(Kind.PUBLISHED_SUM, tuple(f"holder {number}" for number in holders if number not in said))

    def _result(self, state: Walking) -> Walking:
        """How far it is."""
        return state

    def _tally(self, state: Walking) -> Tally:
        assert state.walk.announcement is not None
        return Tally(self.terms.round(state.walk.announcement))

    def _announce(self, state: Walking) -> Step:
        """The next step, or the end."""
        walk = state.walk
        if walk.over(self.terms):
            return Step(state)
        announcement = Announcement.create(self.terms, walk.steps + 1, walk.point, self._randomness)
        inner = Tally(self.terms.round(announcement)).start().state
        posts = (Post(BOARD, announcement.encode(), "gradients: announce"),)
        return Step(Walking(replace(walk, announcement=announcement, said=()), state.opened, inner), posts)
