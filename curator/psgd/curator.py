"""The curator of private stochastic gradient descent: the third party of Algorithm 1 (Rajkumar and Agarwal 2012).

It announces a step at its current point, counts the parties' ballots and has their sum opened, as the curator of any
encrypted sum (`psephos.curator.tally`), steps, and announces the next one. The sums are all it is ever given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.curator.psgd.descent import Descent
from psephos.curator.tally import OpenedSum, Tally
from psephos.protocol.errors import PartyVanishedError, TooFewBallotsError
from psephos.protocol.psgd.series import Announcement, Terms
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.roles import BOARD, Entry, Machine, Missing, Post, Step, takes
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind


@storable
@dataclass(frozen=True)
class Walking:
    """Where the walk is.

    Attributes:
        steps: sums taken so far.
        points: the iterates that are still needed, (d,) each, the latest last.
        opened: the latest sum; None before the first.
        announcement: of the step that is being summed; None at the end of the walk.
        inner: the state of the `Tally` of that step.
    """

    steps: int
    points: tuple[tuple[float, ...], ...] = field(repr=False)
    opened: OpenedSum | None = None
    announcement: Announcement | None = None
    inner: Any = field(default=None, repr=False)

    @property
    def w(self) -> NDArray[np.float64]:
        """The current iterate, (d,): everything the curator publishes."""
        return np.array(self.points[-1])


class GradientCurator(Machine):
    """The curator of one series."""

    name = "curator"
    reads = Tally.reads

    def __init__(self, terms: Terms, descent: Descent, *, randomness: Randomness = SYSTEM) -> None:
        """`terms`, `descent`: what was agreed on. `randomness`: of the rounds' nonces."""
        self.terms, self.descent, self._randomness = terms, descent, randomness

    def begin(self) -> Step:
        """Announce the first step, at the origin."""
        return self._announce(0, ((0.0,) * self.terms.series.dimension,), None)

    @takes(Walking, Kind.BALLOT, batch=True)
    @takes(Walking, Kind.CLOSE, batch=True)
    @takes(Walking, Kind.CONFIRMATION, batch=True)
    @takes(Walking, Kind.PARTIAL_DECRYPTION, batch=True)
    def count(self, state: Walking, entries: Sequence[Entry]) -> Step:
        """What a `Tally` does in the round of the announced step."""
        return self._follow(state, self._tally(state).receive(state.inner, entries))

    def hush(self, state: Walking) -> Step | None:
        """Close the vote on the step, or ask more holders, as a `Tally` does.

        Raises PartyVanishedError when more parties than agreed did not answer. The step is kept: with them back, the
        same run can go on.
        """
        if state.announcement is None:
            return None
        try:
            inner = self._tally(state).quiet(state.inner)
        except TooFewBallotsError as error:
            series = self.terms.series
            raise PartyVanishedError(
                f"step {state.announcement.step}: {error}. At most {series.parties - series.minimum_ballots} of "
                f"{series.parties} parties may stay away; the step is kept and can be repeated with them"
            ) from None
        return None if inner is None else self._follow(state, inner)

    def done(self, state: Any) -> bool:
        """Whether the walk is over."""
        return state.state.announcement is None

    def full(self, state: Walking) -> bool:
        """Whether everybody has answered the step."""
        return state.announcement is not None and self._tally(state).complete(state.inner)

    def awaits(self, state: Any) -> Missing | None:
        """As the `Tally` of the announced step."""
        walking: Walking = state.state
        return None if walking.announcement is None else self._tally(walking).awaits(walking.inner)

    def outcome(self, state: Walking) -> Walking:
        """How far it is."""
        return state

    def _tally(self, state: Walking) -> Tally:
        assert state.announcement is not None
        return Tally(self.terms.round(state.announcement))

    def _follow(self, state: Walking, inner: Step) -> Step:
        """The Tally's step; and once its sum is open, the walk's."""
        opened: OpenedSum | None = self._tally(state).result(inner.state)
        if opened is None:
            return replace(inner, state=replace(state, inner=inner.state))
        noisy = np.array([float(s) for s in opened.sums]) * self.terms.series.pitch
        w = self.descent.step(state.w, noisy, state.steps)
        points = (*state.points, tuple(w.tolist()))[-1 - self.descent.stopping.looks_back :]
        after = self._announce(state.steps + 1, points, opened)
        return replace(inner, state=after.state, posts=(*inner.posts, *after.posts))

    def _announce(self, steps: int, points: tuple[tuple[float, ...], ...], opened: OpenedSum | None) -> Step:
        """The next step, or the end of the walk."""
        if steps >= self.terms.series.steps or self.descent.stopping(points):
            return Step(Walking(steps, points, opened))
        announcement = Announcement.create(self.terms, steps + 1, points[-1], self._randomness)
        inner = Tally(self.terms.round(announcement)).start().state
        posts = (Post(BOARD, announcement.encode(), "gradients: announce"),)
        return Step(Walking(steps, points, opened, announcement, inner), posts)
