"""A party and a key holder in private stochastic gradient descent (Rajkumar and Agarwal 2012, Procedure 3).

The party draws its fixed noise eta_k once, before the first step. At every announced step it computes the gradient of
its own loss at the public point, adds eta_k and a fresh rho_t, and posts the sum as one encrypted ballot. Nobody ever
opens a single ballot.

Privacy is spent when a ballot leaves. The party therefore counts the steps itself and answers exactly the next one.
What it sent is kept with the claim that it did: asked for a step again it sends the very same bytes, since a second
ballot with fresh noise at the same point would be one release more than was paid for. A holder, likewise, opens one
product of each step.
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
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.errors import (
    AlreadyCastError,
    AlreadyDoneError,
    AlreadyOpenedError,
    DataError,
    GradientBoundError,
    InvalidParameter,
    PsephosError,
    UnexpectedMessageError,
    WrongRoundError,
)
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.threshold import KeyShare
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.privacy.mechanisms import RoundedGaussian, SphericalLaplace, snap
from psephos.protocol.psgd.series import Announcement, Series, Terms
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
class Answering:
    """A party waits for the announcement of one step.

    Attributes:
        step: which, counted from 1.
        eta: its fixed noise. A secret.
        vector: what its ballot of the step before holds, in the clear, for a simulation that compares sums; empty
            before the first. A secret.
        clipped: how many gradients were scaled down. Depends on the data: for the party's own eyes.
    """

    step: int
    eta: tuple[int, ...] = field(repr=False)
    vector: tuple[int, ...] = field(default=(), repr=False)
    clipped: int = field(default=0, repr=False)


class GradientParty(Machine):
    """One data owner in one series: "party N"."""

    reads = frozenset({Kind.ANNOUNCEMENT})

    def __init__(
        self,
        number: int,
        signing_key: SigningKey,
        local: LocalLoss,
        terms: Terms,
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

    def begin(self) -> Step:
        """Draw eta, once whatever happens."""

        def draw() -> bytes:
            return json.dumps(fixed_share(self.terms.series, self.number, self._noise(0))).encode()

        return Step(Answering(1, tuple(json.loads(self._once.first(self._claim(0), b"", draw)))))

    @takes(Answering, Kind.ANNOUNCEMENT, batch=True)
    def answer(self, state: Answering, entries: Sequence[Entry]) -> Step:
        """One ballot in the latest of the next steps: those that went by before it came to this party are not answered.

        Announced again, a step gets the same bytes again. Refused are what is no announcement of these terms, what is
        not the curator's, and steps that are not the next one. Raises:
            AlreadyCastError: the step was answered before, at another point or in another round.
            GradientBoundError: a gradient above the bound when clipping was not agreed on. No ballot leaves.
        """
        latest, after, refused = None, state, []
        for entry in entries:
            try:
                latest = _announced(entry, self.terms, after.step, self.name)
            except PsephosError as error:
                refused.append(Refusal(entry, error))
            else:
                if latest.step == after.step:
                    # The plaintext of a ballot that was made before may be known to nobody any more.
                    after = replace(after, step=latest.step + 1, vector=())
        if latest is None:
            return Step(state, (), tuple(refused))
        after, data = self._ballot(after, latest)
        return Step(after, (Post(BOARD, data, "gradients: cast"),), tuple(refused))

    def _ballot(self, state: Answering, announcement: Announcement) -> tuple[Answering, bytes]:
        round_, after = self.terms.round(announcement), state

        def make() -> bytes:
            nonlocal after
            values, clipped = self.vector(state, announcement)
            after = replace(state, vector=tuple(values), clipped=state.clipped + clipped)
            sealed = EncryptedVector.encrypt(self._encryptor, round_.plan, values)
            return Ballot.sign(round_, self.number, sealed, self._signing_key).encode()

        try:
            data = self._once.first(self._claim(announcement.step), round_.digest, make)
        except AlreadyDoneError:
            raise AlreadyCastError(
                f"{self.name} has answered step {announcement.step} before; a second ballot would be a release that "
                "nobody accounted for"
            ) from None
        return after, data

    def vector(self, state: Answering, announcement: Announcement) -> tuple[list[int], bool]:
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

    def outcome(self, state: Answering) -> Answering:
        """Its own account: how far it is, and its secrets."""
        return state


def _announced(entry: Entry, terms: Terms, next_step: int, who: str) -> Announcement:
    """An announcement by the curator of the next step, or of one that was answered before."""
    if entry.sender != "curator":
        raise UnexpectedMessageError(f"{who}: {entry.sender} announced a step, which is the curator's to do")
    announcement = Announcement.decode(entry.data, terms)
    if announcement.step > next_step:
        raise UnexpectedMessageError(f"{who} answers step {next_step} next, and not step {announcement.step}")
    return announcement


# -- the holder


@storable
@dataclass(frozen=True)
class Holding:
    """A holder after `step` announced steps; `inner` is its state in the round of the latest, `announcement`."""

    step: int = 0
    announcement: Announcement | None = None
    inner: Any = None


class SeriesHolder(Machine):
    """One key holder in one series, "holder J": a `KeyHolder` in the round of each announced step."""

    reads = frozenset({Kind.ANNOUNCEMENT, *KeyHolder.reads})

    def __init__(self, share: KeyShare, terms: Terms, *, once: OnceLedger | None = None) -> None:
        """`share`: of the terms' key. `once`: where it remembers what it opened; on disk where it can be restarted."""
        self.name, self.number, self.terms = f"holder {share.holder}", share.holder, terms
        self._share, self._once = share, OnceLedger() if once is None else once

    def begin(self) -> Step:
        """Wait for the first step."""
        return Step(Holding())

    @takes(Holding, Kind.ANNOUNCEMENT)
    def follow(self, state: Holding, entry: Entry) -> Step:
        """Watch the round of the next step; one round of each step, for ever.

        Raises MessageError, WrongRoundError or UnexpectedMessageError as `GradientParty.answer`, AlreadyOpenedError for
        another round of a step that this holder followed before.
        """
        announcement = _announced(entry, self.terms, state.step + 1, self.name)
        claim = self.terms.digest + announcement.step.to_bytes(4, "big")
        try:
            self._once.first(claim, self.terms.round(announcement).digest, lambda: b"")
        except AlreadyDoneError:
            raise AlreadyOpenedError(f"{self.name} has followed another round of step {announcement.step}") from None
        if announcement.step <= state.step:
            return Step(state)
        return Step(Holding(announcement.step, announcement, self._holder(announcement).start().state))

    @takes(Holding, Kind.BALLOT, batch=True)
    @takes(Holding, Kind.CLOSE, batch=True)
    @takes(Holding, Kind.CONFIRMATION, batch=True)
    @takes(Holding, Kind.TALLY_REQUEST, batch=True)
    def hold(self, state: Holding, entries: Sequence[Entry]) -> Step:
        """What a `KeyHolder` does in the round of the latest step."""
        if state.announcement is None:
            raise WrongRoundError(f"{self.name}: no step was announced yet")
        step = self._holder(state.announcement).receive(state.inner, entries)
        return replace(step, state=replace(state, inner=step.state))

    def listens(self, state: Any) -> bool:
        """As `KeyHolder`."""
        return False

    def _holder(self, announcement: Announcement) -> KeyHolder:
        return KeyHolder(self._share, self.terms.round(announcement), openings=self._once)
