"""A party and a key holder in private stochastic gradient descent (Rajkumar and Agarwal 2012, Procedure 3).

The party draws its fixed noise eta_k once, before the first step. At every announced step it computes the gradient of
its own loss at the public point, adds eta_k and a fresh rho_t, and posts the sum as one encrypted ballot. Nobody ever
opens a single ballot.

Privacy is spent when a ballot leaves. The party therefore follows the descent itself (`protocol.psgd.state`) and
answers exactly the next step, at the point that follows from the sums before it. It stores what it sent together with
the claim: restarted, it sends the very same bytes; a second ballot with fresh noise at the same point would be one
release more than was paid for. A holder, likewise, opens one product of each step, and publishes its sum.
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
from psephos.parties.noise import SkellamShares
from psephos.protocol.encrypted_sum.fixed_point import project
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
    """The first draw whose entries all lie within the public bound; the series charges for the rest of the law."""
    while True:
        values = draw()
        if max(values) <= bound and min(values) >= -bound:
            return values


def fixed_share(series: Series, party: int, randomness: Randomness = SYSTEM) -> list[int]:
    """eta_k in lattice units: normal, drawn once per series.

    Raises InvalidParameter or GridTooCoarseError for a deviation that the series' lattice cannot carry.
    """
    sigma = series.fixed_sigmas[party]
    if not sigma:
        return [0] * series.dimension
    law = RoundedGaussian(series.dimension, sigma, series.pitch)
    return _within(lambda: law.sample(randomness), series.fixed_bound())


def step_share(series: Series, step: int, randomness: Randomness = SYSTEM) -> list[int]:
    """rho_t in lattice units, fresh at every call.

    Raises InvalidParameter for a step outside the series; that or GridTooCoarseError for noise that its lattice cannot
    carry.
    """
    scale = series.scale_at(step)
    if series.step_law == "none":
        return [0] * series.dimension
    if series.step_law == "skellam":
        # One contributor: `scale` is this share's own variance already.
        shares = SkellamShares(series.dimension, series.parties, 1, Fraction(scale))
        return _within(lambda: shares.share(randomness), series.step_bound(step))
    law = SphericalLaplace(series.dimension, scale, series.pitch)
    return _within(lambda: law.sample(randomness), series.step_bound(step))


# -- the party


@storable
@dataclass(frozen=True)
class GradientPartyState:
    """A party follows the descent.

    Attributes:
        walk: how far it is.
        eta: its fixed noise. A secret.
        answered: the last step that it answered, or had to leave; 0 before the first.
        vector: what its ballot of that step holds, in the clear, for a simulation that compares sums; empty where none
            was made. A secret.
        clipped: how many gradients were scaled down. Depends on the data: for the party's own eyes.
    """

    progress: DescentState
    eta: tuple[int, ...] = field(repr=False)
    answered: int = 0
    vector: tuple[int, ...] = field(default=(), repr=False)
    clipped: int = field(default=0, repr=False)


class GradientParty(Machine):
    """One data owner in one series: "party N"."""

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
        """
        Args:
            number: its place on the roster. signing_key: registered there.
            local: its records and their loss.
            terms: what was agreed on.
            clip: what to do with a gradient longer than the series' bound: scale it down to the bound, or refuse.
            encryptor: the randomness mode and source to use; `half` and the operating system's by default.
            noise: the coins of a step's noise; step 0 is eta's.
            once: where it remembers eta and its ballots; on disk wherever it can be restarted.

        Raises InvalidParameter for a number that is not on the roster, DataError for records of another width.
        """
        series = terms.series
        if not 0 <= number < series.parties:
            raise InvalidParameter(f"parties are numbered 0 to {series.parties - 1}, there is no party {number}")
        if local.dimension != series.dimension:
            raise DataError(f"the series is for {series.dimension} features and these records have {local.dimension}")
        self.number, self.name, self.terms = number, f"party {number}", terms
        self._signing_key, self._local, self._clip = signing_key, local, clip
        self._encryptor = encryptor or Encryptor(terms.threshold_key.key, expected=series.steps)
        self._noise, self._once = noise, OnceLedger() if once is None else once

    def _start(self) -> Step:
        """Draw eta, once whatever happens."""

        def draw() -> bytes:
            return json.dumps(fixed_share(self.terms.series, self.number, self._noise(0))).encode()

        eta = tuple(json.loads(self._once.do_once(self._claim(0), b"", draw)))
        return Step(GradientPartyState(DescentState.start(self.terms), eta))

    @takes(GradientPartyState, Kind.ANNOUNCEMENT)
    def follow(self, state: GradientPartyState, entry: Entry) -> Step:
        """The next step, at the point that follows; raises as `DescentState.announced`."""
        return Step(replace(state, progress=state.progress.announced(self.terms, entry, self.name)))

    @takes(GradientPartyState, Kind.PUBLISHED_SUM)
    def move(self, state: GradientPartyState, entry: Entry) -> Step:
        """On to the next point, when t holders have published the same sum; raises as `DescentState.published`."""
        return Step(replace(state, progress=state.progress.published(self.terms, entry)))

    def receive(self, state: Any, entries: Sequence[Entry]) -> Step:
        """As `Machine.receive`; and then one ballot in the step that is open, if this party has not answered it.

        Steps that went by before they came to this party are not answered, nor is one for which this raises:
            AlreadyCastError: the step was answered before, at another point or in another round.
            GradientBoundError: a gradient above the bound when clipping was not agreed on. No ballot leaves.
        """
        step = super().receive(state, entries)
        own: GradientPartyState = step.state.state
        announcement = own.progress.announcement
        if announcement is None or not own.progress.open or own.answered == announcement.step:
            return step
        try:
            own, data = self._ballot(own, announcement)
        except JournalError:
            raise  # nothing was said: the step is not answered yet
        except PsephosError as error:
            own, refused = replace(own, vector=()), (*step.refused, Refusal(entries[-1], error))
            step = replace(step, refused=refused)
        else:
            step = replace(step, posts=(*step.posts, Post(BOARD, data, "gradients: cast")))
        return replace(step, state=replace(step.state, state=replace(own, answered=announcement.step)))

    def _ballot(self, state: GradientPartyState, announcement: Announcement) -> tuple[GradientPartyState, bytes]:
        # The plaintext of a ballot that was made before a restart is known to nobody any more.
        round_, after = self.terms.round(announcement), replace(state, vector=())

        def make() -> bytes:
            nonlocal after
            values, clipped = self.vector(state, announcement)
            after = replace(state, vector=tuple(values), clipped=state.clipped + clipped)
            sealed, proof = encrypt_with_proof(round_, self.number, values, self._encryptor)
            return Ballot.sign(round_, self.number, sealed, self._signing_key, proof).encode()

        try:
            data = self._once.do_once(self._claim(announcement.step), round_.digest, make)
        except AlreadyDoneError:
            raise AlreadyCastError(
                f"{self.name} has answered step {announcement.step} before; a second ballot would be a release that "
                "nobody accounted for"
            ) from None
        return after, data

    def vector(self, state: GradientPartyState, announcement: Announcement) -> tuple[list[int], bool]:
        """The noisy gradient in lattice units, with fresh noise, and whether it was clipped: every call is one release.

        Raises GradientBoundError as `answer`.
        """
        series = self.terms.series
        gradient = self._local.gradient(announcement.point)
        # The bound is compared with what the party would send; `project` returns a vector inside unchanged.
        inside = project(gradient, series.bound)
        clipped = not np.array_equal(inside, gradient)
        if clipped and not self._clip:
            raise GradientBoundError(
                f"the gradient of {self.name} is above the agreed bound of {series.bound:g}; agree on a larger bound "
                "or on clipping"
            )
        rho = step_share(series, announcement.step, self._noise(announcement.step))
        units = snap(inside, series.pitch)
        return [u + e + r for u, e, r in zip(units, state.eta, rho, strict=True)], clipped

    def _claim(self, step: int) -> bytes:
        return self.terms.digest + step.to_bytes(4, "big")

    def _result(self, state: GradientPartyState) -> GradientPartyState:
        """Its own account: how far it is, and its secrets."""
        return state


# -- the holder


@storable
@dataclass(frozen=True)
class SeriesHolderState:
    """A holder follows the descent.

    Attributes:
        walk: how far it is.
        inner: its state in the round of the step that was announced last.
        parts: the partial decryptions of that step's product, until it has published their sum.
        published: that step, when it has published its sum.
    """

    progress: DescentState
    inner: Any = None
    parts: tuple[PartialDecryption, ...] = field(default=(), repr=False)
    published: int = 0


class SeriesHolder(Machine):
    """One key holder in one series, "holder J": a `KeyHolder` in the round of each announced step.

    Partial decryptions are on the board, and with them the sums, as the points that follow from them are: every holder
    opens each sum for itself and publishes it, for those who do not multiply ballots.
    """

    reads = frozenset({Kind.ANNOUNCEMENT, *KeyHolder.reads, Kind.PARTIAL_DECRYPTION, Kind.PUBLISHED_SUM})

    def __init__(self, share: KeyShare, terms: SeriesTerms, *, once: OnceLedger | None = None) -> None:
        """`share`: of the terms' key. `once`: where it remembers what it opened; on disk where it can be restarted.

        Raises WrongKeyError when the share is of another key or ceremony than the terms'.
        """
        check_same_ceremony(terms.threshold_key, share.threshold_key)
        self.name, self.number, self.terms = f"holder {share.holder}", share.holder, terms
        self._share, self._once = share, OnceLedger() if once is None else once

    def _start(self) -> Step:
        """Wait for the first step."""
        return Step(SeriesHolderState(DescentState.start(self.terms)))

    @takes(SeriesHolderState, Kind.ANNOUNCEMENT)
    def follow(self, state: SeriesHolderState, entry: Entry) -> Step:
        """Watch the round of the next step; one round of each step, for ever.

        Raises what `DescentState.announced` does, and AlreadyOpenedError for another round of an earlier step.
        """
        progress = state.progress.announced(self.terms, entry, self.name)
        assert progress.announcement is not None
        claim = self.terms.digest + progress.announcement.step.to_bytes(4, "big")
        try:
            self._once.do_once(claim, self.terms.round(progress.announcement).digest, lambda: b"")
        except AlreadyDoneError:
            raise AlreadyOpenedError(
                f"{self.name} has followed another round of step {progress.announcement.step}"
            ) from None
        return Step(SeriesHolderState(progress, self._holder(progress).start().state))

    @takes(SeriesHolderState, Kind.BALLOT, batch=True)
    @takes(SeriesHolderState, Kind.CLOSE, batch=True)
    @takes(SeriesHolderState, Kind.CONFIRMATION, batch=True)
    @takes(SeriesHolderState, Kind.TALLY_REQUEST, batch=True)
    def hold(self, state: SeriesHolderState, entries: Sequence[Entry]) -> Step:
        """What a `KeyHolder` does in the round of the latest step."""
        step = self._holder(state.progress).receive(state.inner, entries)
        return replace(step, state=replace(state, inner=step.state))

    @takes(SeriesHolderState, Kind.PARTIAL_DECRYPTION)
    def sum(self, state: SeriesHolderState, entry: Entry) -> Step:
        """Publish the step's sum, as soon as t holders have opened it.

        Raises as `received_part`: a holder that lies is named.
        """
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
            return Step(state)  # without proofs, somebody lies: more answers will tell
        said = PublishedSum(step, self.number, sums).encode(self.terms)
        return Step(replace(state, parts=(), published=step), (Post(BOARD, said, "gradients: publish"),))

    @takes(SeriesHolderState, Kind.PUBLISHED_SUM)
    def move(self, state: SeriesHolderState, entry: Entry) -> Step:
        """On to the next point, when t holders have published the same sum; raises as `DescentState.published`."""
        return Step(replace(state, progress=state.progress.published(self.terms, entry)))

    def listens(self, state: Any) -> bool:
        """As `KeyHolder`."""
        return False

    def _holder(self, progress: DescentState) -> KeyHolder:
        if progress.announcement is None:
            raise WrongRoundError(f"{self.name}: no step was announced yet")
        return KeyHolder(self._share, self.terms.round(progress.announcement), openings=self._once, public=True)
