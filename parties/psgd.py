"""A party and a key holder in private stochastic gradient descent (Rajkumar and Agarwal 2012, Procedure 3).

Every ballot costs privacy: a party computes the points of the descent itself (`protocol.psgd.state`), answers only the
next step at the point that follows, and stores each ballot, so that a restarted party sends the same bytes. A holder
opens one product per step, and publishes its sum.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from psephos.parties.gradients import LocalLoss
from psephos.parties.holder import KeyHolder
from psephos.parties.noise import DiscreteGaussianShares
from psephos.protocol.encrypted_sum.messages import Ballot, PartialDecryption
from psephos.protocol.encrypted_sum.opened import open_product, received_part
from psephos.protocol.encrypted_sum.proofs import encrypt_with_proof
from psephos.protocol.errors import (
    AlreadyCastError,
    AlreadyDoneError,
    AlreadyOpenedError,
    DataError,
    GradientBoundError,
    InvalidParameter,
    JournalError,
    PsephosError,
    WrongPartialDecryptionError,
    WrongRoundError,
)
from psephos.protocol.grids.fixed_point import project
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.threshold import KeyShare, check_same_ceremony
from psephos.protocol.privacy.mechanisms import RoundedGaussian, SphericalLaplace, snap
from psephos.protocol.psgd.series import Announcement, Series, SeriesTerms
from psephos.protocol.psgd.state import DescentState, PublishedSum
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.roles import BOARD, Entry, Machine, Post, Refusal, Step, takes
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import OnceLedger
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind

# -- noise


def _within(draw: Callable[[], list[int]], bound: int) -> list[int]:
    """Draw until all entries lie within the public bound; the series accounts for the truncation of the law."""
    while True:
        values = draw()
        if max(values) <= bound and min(values) >= -bound:
            return values


def fixed_share(series: Series, party: int, randomness: Randomness = SYSTEM) -> list[int]:
    """Draw a party's fixed noise eta_k, normal, in lattice units. Once per series."""
    sigma = series.fixed_sigmas[party]
    if not sigma:
        return [0] * series.dimension
    law = RoundedGaussian(series.dimension, sigma, series.pitch)
    return _within(lambda: law.sample(randomness), series.fixed_bound())


def step_share(series: Series, step: int, randomness: Randomness = SYSTEM) -> list[int]:
    """Draw a party's share of the step noise rho_t in lattice units; fresh at every call."""
    scale = series.scale_at(step)
    if series.step_law == "none":
        return [0] * series.dimension
    if series.step_law == "discrete-gaussian":
        # One contributor: `scale` is this share's own variance already.
        shares = DiscreteGaussianShares(series.dimension, series.parties, 1, Fraction(scale))
        return _within(lambda: shares.share(randomness), series.step_bound(step))
    law = SphericalLaplace(series.dimension, scale, series.pitch)
    return _within(lambda: law.sample(randomness), series.step_bound(step))


# -- the party


@storable
@dataclass(frozen=True)
class GradientPartyState:
    """The state of a party in a descent.

    Attributes:
        eta: its fixed noise. A secret.
        answered: the last step that it answered or skipped; 0 before the first.
        vector: plaintext of its ballot of that step, for a simulation that compares sums. A secret.
        clipped: number of gradients that were scaled down. A secret.
    """

    progress: DescentState
    eta: tuple[int, ...] = field(repr=False)
    answered: int = 0
    vector: tuple[int, ...] = field(default=(), repr=False)
    clipped: int = field(default=0, repr=False)


class GradientParty(Machine):
    """A data owner's role in one series of sums, "party N"."""

    reads = frozenset({Kind.ANNOUNCEMENT, Kind.PUBLISHED_SUM})

    def __init__(
        self,
        number: int,
        signing_key: SigningKey,
        local: LocalLoss,
        terms: SeriesTerms,
        *,
        clip: bool = False,
        encryptor: Encryptor | None = None,
        noise: Callable[[int], Randomness] = lambda step: SYSTEM,
        once: OnceLedger | None = None,
    ) -> None:
        series = terms.series
        if not 0 <= number < series.parties:
            raise InvalidParameter(f"number must be 0 to {series.parties - 1}, not {number}")
        if local.dimension != series.dimension:
            raise DataError(f"the records have {local.dimension} features, and the series is for {series.dimension}")
        self.number, self.name, self.terms = number, f"party {number}", terms
        self._signing_key, self._local, self._clip = signing_key, local, clip
        self._encryptor = encryptor or Encryptor(terms.threshold_key.key, expected=series.steps)
        self._noise, self._once = noise, OnceLedger() if once is None else once

    def _start(self) -> Step:
        """Draw eta, once even across restarts, and wait for the first step."""

        def draw() -> bytes:
            return json.dumps(fixed_share(self.terms.series, self.number, self._noise(0))).encode()

        eta = tuple(json.loads(self._once.do_once(self.terms.claim(0), b"", draw)))
        return Step(GradientPartyState(DescentState.start(self.terms), eta))

    @takes(GradientPartyState, Kind.ANNOUNCEMENT)
    def receive_announcement(self, state: GradientPartyState, entry: Entry) -> Step:
        return Step(replace(state, progress=state.progress.announced(self.terms, entry, self.name)))

    @takes(GradientPartyState, Kind.PUBLISHED_SUM)
    def receive_published_sum(self, state: GradientPartyState, entry: Entry) -> Step:
        return Step(replace(state, progress=state.progress.published(self.terms, entry)))

    def receive(self, state: Any, entries: Sequence[Entry]) -> Step:
        """Process the entries as `Machine.receive`, then post one ballot in the open step, unless it is answered.

        A step that fails is not answered, with AlreadyCastError or GradientBoundError among the refusals.
        """
        step = super().receive(state, entries)
        own: GradientPartyState = step.state.state
        announcement = own.progress.announcement
        if announcement is None or not own.progress.open or own.answered == announcement.step:
            return step
        try:
            own, data = self._ballot(own, announcement)
        except JournalError:
            raise  # nothing was posted, so the step is still unanswered
        except PsephosError as error:
            own, refused = replace(own, vector=()), (*step.refused, Refusal(entries[-1], error))
            step = replace(step, refused=refused)
        else:
            step = replace(step, posts=(*step.posts, Post(BOARD, data, "gradients: cast")))
        return replace(step, state=replace(step.state, state=replace(own, answered=announcement.step)))

    def _ballot(self, state: GradientPartyState, announcement: Announcement) -> tuple[GradientPartyState, bytes]:
        # The plaintext of a ballot that was made before a restart is not stored.
        round_, after = self.terms.round(announcement), replace(state, vector=())

        def make() -> bytes:
            nonlocal after
            values, clipped = self.vector(state, announcement)
            after = replace(state, vector=tuple(values), clipped=state.clipped + clipped)
            sealed, proof = encrypt_with_proof(round_, self.number, values, self._encryptor)
            return Ballot.sign(round_, self.number, sealed, self._signing_key, proof).encode()

        try:
            data = self._once.do_once(self.terms.claim(announcement.step), round_.digest, make)
        except AlreadyDoneError:
            raise AlreadyCastError(f"{self.name} has answered step {announcement.step} before") from None
        return after, data

    def vector(self, state: GradientPartyState, announcement: Announcement) -> tuple[list[int], bool]:
        """Compute the noisy gradient of a step, with fresh noise: every call is a release."""
        series = self.terms.series
        gradient = self._local.gradient(announcement.point)
        # `project` returns a vector within the bound unchanged.
        inside = project(gradient, series.bound)
        clipped = not np.array_equal(inside, gradient)
        if clipped and not self._clip:
            raise GradientBoundError(f"the gradient of {self.name} is above party_bound; raise it, or clip")
        rho = step_share(series, announcement.step, self._noise(announcement.step))
        units = snap(inside, series.pitch)
        return [u + e + r for u, e, r in zip(units, state.eta, rho, strict=True)], clipped

    def _result(self, state: GradientPartyState) -> GradientPartyState:
        return state


# -- the holder


@storable
@dataclass(frozen=True)
class SeriesHolderState:
    """The state of a key holder in a descent: also that of the `KeyHolder` in the latest announced step.

    `parts` are partial decryptions of its product, until this holder has `published` the step's sum.
    """

    progress: DescentState
    inner: Any = None
    parts: tuple[PartialDecryption, ...] = field(default=(), repr=False)
    published: int = 0


class SeriesHolder(Machine):
    """A key holder's role in one series, "holder J": a `KeyHolder` with public openings in the round of each step."""

    reads = (KeyHolder.reads - {Kind.NOISE_BALLOT}) | {Kind.ANNOUNCEMENT, Kind.PARTIAL_DECRYPTION, Kind.PUBLISHED_SUM}

    def __init__(self, share: KeyShare, terms: SeriesTerms, *, once: OnceLedger | None = None) -> None:
        check_same_ceremony(terms.threshold_key, share.threshold_key)
        self.name, self.number, self.terms = f"holder {share.holder}", share.holder, terms
        self._share, self._once = share, OnceLedger() if once is None else once

    def _start(self) -> Step:
        return Step(SeriesHolderState(DescentState.start(self.terms)))

    @takes(SeriesHolderState, Kind.ANNOUNCEMENT)
    def receive_announcement(self, state: SeriesHolderState, entry: Entry) -> Step:
        """Observe the round of the next step. The ledger allows one round per step, also across restarts."""
        progress = state.progress.announced(self.terms, entry, self.name)
        assert progress.announcement is not None
        step, round_ = progress.announcement.step, self.terms.round(progress.announcement)
        try:
            self._once.do_once(self.terms.claim(step), round_.digest, lambda: b"")
        except AlreadyDoneError:
            raise AlreadyOpenedError(f"{self.name} has followed another round of step {step}") from None
        return Step(SeriesHolderState(progress, self._holder(progress).start().state))

    @takes(SeriesHolderState, Kind.BALLOT, batch=True)
    @takes(SeriesHolderState, Kind.CLOSE, batch=True)
    @takes(SeriesHolderState, Kind.CONFIRMATION, batch=True)
    @takes(SeriesHolderState, Kind.TALLY_REQUEST, batch=True)
    def forward_to_holder(self, state: SeriesHolderState, entries: Sequence[Entry]) -> Step:
        step = self._holder(state.progress).receive(state.inner, entries)
        return replace(step, state=replace(state, inner=step.state))

    @takes(SeriesHolderState, Kind.PARTIAL_DECRYPTION)
    def receive_partial_decryption(self, state: SeriesHolderState, entry: Entry) -> Step:
        """Publish the step's sum as soon as t holders have opened it."""
        holder = self._holder(state.progress)
        assert state.progress.announcement is not None
        step = state.progress.announcement.step
        if state.published == step:
            return Step(state)
        product = holder.product(state.inner.state)
        part = received_part(holder.round, product.columns, product.digest, entry, state.parts)
        state = replace(state, parts=(*state.parts, part))
        if len(state.parts) < self.terms.threshold_key.threshold:
            return Step(state)
        try:
            sums = open_product(product, state.parts).sums
        except WrongPartialDecryptionError:
            return Step(state)  # without proofs a part is wrong, and further parts show which
        message = PublishedSum(step, self.number, sums).encode(self.terms)
        return Step(replace(state, parts=(), published=step), (Post(BOARD, message, "gradients: publish"),))

    @takes(SeriesHolderState, Kind.PUBLISHED_SUM)
    def receive_published_sum(self, state: SeriesHolderState, entry: Entry) -> Step:
        return Step(replace(state, progress=state.progress.published(self.terms, entry)))

    def listens(self, state: Any) -> bool:
        return False

    def _holder(self, progress: DescentState) -> KeyHolder:
        if progress.announcement is None:
            raise WrongRoundError(f"{self.name}: no step has been announced yet")
        return KeyHolder(self._share, self.terms.round(progress.announcement), openings=self._once, public=True)
