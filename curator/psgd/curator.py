"""The curator of private stochastic gradient descent: the third party of Algorithm 1 (Rajkumar and Agarwal 2012).

It announces a step at the current point, counts the parties' ballots and has their sum opened on the board, as the
curator of any encrypted sum (`psephos.curator.tally`). It cannot choose the next point: every role computes it from
what the holders publish (`psephos.protocol.psgd.state`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.curator.tally import Tally
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.errors import PartyVanishedError, TooFewBallotsError
from psephos.protocol.psgd.series import Announcement, SeriesTerms
from psephos.protocol.psgd.state import DescentState
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.roles import BOARD, Entry, Machine, MissingMessages, Post, Step, takes
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind


@storable
@dataclass(frozen=True)
class GradientCuratorState:
    """The state of the curator in a descent: its progress, the latest opened sum, and the `Tally` of the announced
    step.

    The wrong holders of `opened` published another sum, or sent a partial decryption that disagrees with the others'.
    """

    progress: DescentState
    opened: OpenedSum | None = None
    inner: Any = field(default=None, repr=False)

    @property
    def steps(self) -> int:
        return self.progress.steps

    @property
    def w(self) -> NDArray[np.float64]:
        """Current iterate, (d,)."""
        return np.array(self.progress.point)


class GradientCurator(Machine):
    """The curator's role in one series of sums."""

    name = "curator"
    reads = (Tally.reads - {Kind.NOISE_BALLOT}) | {Kind.PUBLISHED_SUM}

    def __init__(self, terms: SeriesTerms, *, randomness: Randomness = SYSTEM) -> None:
        self.terms, self._randomness = terms, randomness

    def _start(self) -> Step:
        return self._announce(GradientCuratorState(DescentState.start(self.terms)))

    @takes(GradientCuratorState, Kind.BALLOT, batch=True)
    @takes(GradientCuratorState, Kind.CLOSE, batch=True)
    @takes(GradientCuratorState, Kind.CONFIRMATION, batch=True)
    @takes(GradientCuratorState, Kind.PARTIAL_DECRYPTION, batch=True)
    def forward_to_tally(self, state: GradientCuratorState, entries: Sequence[Entry]) -> Step:
        inner = self._tally(state).receive(state.inner, entries)
        return replace(inner, state=replace(state, inner=inner.state))

    @takes(GradientCuratorState, Kind.PUBLISHED_SUM)
    def receive_published_sum(self, state: GradientCuratorState, entry: Entry) -> Step:
        """Announce the next step when t holders have published the same sum; raises as `DescentState.published`."""
        progress = state.progress.published(self.terms, entry)
        if progress.steps == state.progress.steps:
            return Step(replace(state, progress=progress))
        sums, tally = progress.sums(), self._tally(state)
        assert sums is not None
        opened = tally.result(state.inner) or OpenedSum(sums, tally.product(state.inner.state).parties)
        wrong = {holder for holder, other in progress.said if other != sums}
        if opened.sums == sums:  # otherwise its partial decryptions say nothing of the published sum
            wrong.update(opened.wrong_holders)
        opened = replace(opened, sums=sums, wrong_holders=tuple(sorted(wrong)))
        return self._announce(GradientCuratorState(progress, opened, state.inner))

    def _on_idle(self, state: GradientCuratorState) -> Step | None:
        """Close the vote on the step, or ask more holders, as a `Tally` does."""
        if not state.progress.open:
            return None
        try:
            inner = self._tally(state).on_idle(state.inner)
        except TooFewBallotsError as error:
            series = self.terms.series
            raise PartyVanishedError(
                f"step {state.steps + 1}: {error}. At most {series.parties - series.minimum_ballots} of "
                f"{series.parties} parties may be absent; continue the run when the others are back"
            ) from None
        return None if inner is None else replace(inner, state=replace(state, inner=inner.state))

    def done(self, state: Any) -> bool:
        own: GradientCuratorState = state.state
        return own.progress.over(self.terms)

    def _is_ready(self, state: GradientCuratorState) -> bool:
        return state.progress.open and self._tally(state).is_ready(state.inner)

    def awaits(self, state: Any) -> MissingMessages | None:
        own: GradientCuratorState = state.state
        if not own.progress.open:
            return None
        published = dict(own.progress.said)
        holders = range(1, self.terms.threshold_key.holders + 1)
        return MissingMessages(
            Kind.PUBLISHED_SUM, tuple(f"holder {number}" for number in holders if number not in published)
        )

    def _result(self, state: GradientCuratorState) -> GradientCuratorState:
        """Return the state itself, also before the descent is over: an interrupted run shows its latest point."""
        return state

    def _tally(self, state: GradientCuratorState) -> Tally:
        assert state.progress.announcement is not None
        return Tally(self.terms.round(state.progress.announcement))

    def _announce(self, state: GradientCuratorState) -> Step:
        progress = state.progress
        if progress.over(self.terms):
            return Step(state)
        announcement = Announcement.create(self.terms, progress.steps + 1, progress.point, self._randomness)
        inner = Tally(self.terms.round(announcement)).start().state
        posts = (Post(BOARD, announcement.encode(), "gradients: announce"),)
        return Step(
            GradientCuratorState(replace(progress, announcement=announcement, said=()), state.opened, inner), posts
        )
