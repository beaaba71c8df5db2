"""The terms of a series of encrypted sums at public points (docs/protocols/psgd.md), and the announcement of a step.

A step is one `Round` of kind "gradients" whose context names the terms, the step and the point. Noise is in lattice
units of 2^-fraction_bits; every share is redrawn until it lies within a public bound that sizes the slot, with
probability at most 2^-66 over the whole series.
"""

from __future__ import annotations

import hashlib
import math
import operator
import struct
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from functools import cached_property, lru_cache
from typing import Literal, get_args

from psephos.protocol.encrypted_sum.rounds import Proofs, Round
from psephos.protocol.errors import InvalidParameter, MessageError
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.threshold import ThresholdKey
from psephos.protocol.privacy.mechanisms import LEAST_VARIANCE, gaussian_norm_bound
from psephos.protocol.proofs.bounded import bounded_plan
from psephos.protocol.psgd.descent import Descent
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.signing import Roster, VerificationKey
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind, Reader, frame

StepLaw = Literal["none", "spherical-laplace", "spherical-laplace-halving", "discrete-gaussian"]

_LOG_TAIL = 66 * math.log(2)
_MAX_STEPS = 1 << 20


@dataclass(frozen=True)
class Series:
    """The number of sums, the size of the vectors, and the noise of a series.

    Attributes:
        steps: largest number of sums; no party answers more.
        bound: largest L2 norm of a party's vector before noise.
        fraction_bits: the lattice is the multiples of 2^-fraction_bits.
        fixed_sigmas: standard deviation, per entry, of the normal noise each party draws once; 0 for none.
        step_law: law of the noise each party draws afresh at every step.
        step_scale: its scale: of the norm's Gamma law ("spherical-laplace"; doubled at every step with "-halving", so
            that step 1 already has twice of it), or one share's variance per entry, in lattice units squared.
        minimum_ballots: no product of fewer ballots is opened.
        nonce: 16 random bytes.
    """

    parties: int
    steps: int
    dimension: int
    bound: float
    fraction_bits: int
    fixed_sigmas: tuple[float, ...] = field(repr=False)
    step_law: StepLaw
    step_scale: float
    minimum_ballots: int
    nonce: bytes = field(repr=False)

    def __post_init__(self) -> None:
        try:  # convert numpy and other numbers, so that equal series have equal digests
            for name in ("parties", "steps", "dimension", "fraction_bits", "minimum_ballots"):
                object.__setattr__(self, name, operator.index(getattr(self, name)))
            for name in ("bound", "step_scale"):
                object.__setattr__(self, name, float(+getattr(self, name)))
            object.__setattr__(self, "fixed_sigmas", tuple(float(+sigma) for sigma in self.fixed_sigmas))
        except (TypeError, ValueError):
            raise InvalidParameter("a term of the series is no number, or no integer") from None
        for holds, message in (
            (self.parties >= 2, f"a series needs at least 2 parties, not {self.parties}"),
            (1 <= self.steps <= _MAX_STEPS, f"steps is {self.steps}; it must lie between 1 and {_MAX_STEPS}"),
            (self.dimension >= 1, "dimension must be at least 1"),
            (0 < self.bound < math.inf, f"bound is {self.bound}; it must be positive and finite"),
            (0 <= self.fraction_bits <= 52, f"fraction_bits is {self.fraction_bits}; it must lie between 0 and 52"),
            (len(self.fixed_sigmas) == self.parties, "fixed_sigmas must have an entry for each party"),
            (all(0 <= s < math.inf for s in self.fixed_sigmas), "fixed_sigmas must be finite and at least 0"),
            (self.step_law in get_args(StepLaw), f"step_law is none of {', '.join(get_args(StepLaw))}"),
            (math.isfinite(self.step_scale), f"step_scale is {self.step_scale}; it must be finite"),
            ((self.step_scale > 0) != (self.step_law == "none"), "step_scale does not fit step_law"),
            (
                self.step_law != "discrete-gaussian" or self.step_scale >= LEAST_VARIANCE,
                f"discrete Gaussian noise needs a variance of {LEAST_VARIANCE}: take more fraction_bits",
            ),
            (len(self.nonce) == 16, "the nonce of a series must have 16 bytes"),
        ):
            if not holds:
                raise InvalidParameter(message)

    @property
    def pitch(self) -> float:
        return math.ldexp(1.0, -self.fraction_bits)

    @cached_property
    def digest(self) -> bytes:
        return hashlib.sha256(b"psephos series\0" + repr(astuple(self)).encode()).digest()

    def scale_at(self, step: int) -> float:
        if not 1 <= step <= self.steps:
            raise InvalidParameter(f"the series has steps 1 to {self.steps}, there is no step {step}")
        if self.step_law != "spherical-laplace-halving":
            return self.step_scale
        if step > 900:
            raise InvalidParameter(f"noise that doubles at every step is too large at step {step}")
        return math.ldexp(self.step_scale, step)

    @property
    def truncation(self) -> float:
        return 0.0 if self.step_law == "none" and not any(self.fixed_sigmas) else 2.0**-66

    @cached_property
    def _log_tail(self) -> float:
        """Negative logarithm of the allowed tail probability of one entry."""
        # Union bound over one fixed and `steps` fresh vectors of every party, with 2 * dimension tails each.
        return _LOG_TAIL + math.log(2 * self.dimension * self.parties * (self.steps + 1))

    def fixed_bound(self) -> int:
        """Return the largest entry of fixed noise, in lattice units, from P(|Z| > x) <= 2 exp(-x^2/2)."""
        largest = max(self.fixed_sigmas)
        return math.ceil(largest / self.pitch * math.sqrt(2 * self._log_tail)) + 1 if largest else 0

    def step_bound(self, step: int) -> int:
        """Return the largest entry of one share of step noise, in lattice units."""
        scale = self.scale_at(step)
        if self.step_law == "none":
            return 0
        if self.step_law == "discrete-gaussian":
            # P(|share| >= B) <= 2 exp(-B^2/(2 variance)) (Canonne, Kamath, Steinke 2020, proposition 25).
            return math.ceil(math.sqrt(2 * scale * self._log_tail)) + 1
        # P(Gamma(d) > x) <= exp(-(x - d - d log(x/d))) for x > d: the norm, which bounds every entry.
        d, x = self.dimension, 2.0 * self.dimension
        while x - d - d * math.log(x / d) < self._log_tail:
            x *= 1.05
        return math.ceil(scale / self.pitch * x) + 1

    def entry_bound(self, step: int) -> int:
        """Return the largest entry of a party's noisy, snapped vector, in lattice units."""
        return math.ceil(self.bound / self.pitch) + 1 + self.fixed_bound() + self.step_bound(step)

    def norm_bound(self, step: int) -> int:
        """Return the largest Euclidean norm of a party's noisy vector, in lattice units.

        A gradient rounded to the lattice is at most sqrt(d)/2 longer. Discrete Gaussian noise is drawn again beyond
        `gaussian_norm_bound`; of spherical noise `step_bound` is a bound of the norm before it is rounded.
        """
        root = math.isqrt(self.dimension) + 1
        norm = math.ceil(self.bound / self.pitch * (1 + 2.0**-40)) + root + root * self.fixed_bound()
        if self.step_law == "discrete-gaussian":
            return norm + gaussian_norm_bound(self.dimension, self.step_scale, self.parties)
        return norm + (0 if self.step_law == "none" else self.step_bound(step) + root)

    def plan(self, key: PublicKey, step: int, *, bounded: bool = False) -> PackingPlan:
        entry, plan = self.entry_bound(step), bounded_plan if bounded else PackingPlan.for_key
        return plan(key, length=self.dimension, addends=self.parties, minimum=-entry, maximum=entry)

    def square_bound(self, plan: PackingPlan, step: int) -> int:
        """Return the largest sum of squares of a party's noisy vector."""
        return min(self.norm_bound(step) ** 2, self.dimension * max(-plan.minimum, plan.maximum) ** 2)


@dataclass(frozen=True)
class SeriesTerms:
    """The terms of a series: no role answers at another point, or under another key or roster.

    Attributes:
        descent: how the next point follows from a point and a sum; the first point is the origin.
        proofs: what ballots and partial decryptions prove; with "valid", every entry's range and the vector's norm.
    """

    series: Series
    descent: Descent
    threshold_key: ThresholdKey
    roster: Sequence[VerificationKey] = field(repr=False)
    test_key: bool = False
    proofs: Proofs = "none"
    confirmations: int = 0

    def __post_init__(self) -> None:
        if len(self.roster) != self.series.parties:
            raise InvalidParameter(f"the series is for {self.series.parties} parties, not {len(self.roster)}")

    @cached_property
    def digest(self) -> bytes:
        keys = self.threshold_key.digest + Roster.of(self.roster).raw
        rest = repr((astuple(self.descent), self.test_key, self.proofs, self.confirmations)).encode()
        return hashlib.sha256(b"psephos terms\0" + self.series.digest + keys + rest).digest()

    def __hash__(self) -> int:
        return hash(self.digest)

    def plan(self, step: int) -> PackingPlan:
        return self.series.plan(self.threshold_key.key, step, bounded=self.proofs == "valid")

    def claim(self, step: int) -> bytes:
        """Return what a role claims of its ledger in a step; 0 before the first."""
        return self.digest + step.to_bytes(4, "big")

    def round(self, announcement: Announcement) -> Round:
        return _round(self, announcement, hashlib.sha256(b"psephos step\0" + announcement.encode()).digest())


@lru_cache(maxsize=4)  # all roles of a simulation build the same round
def _round(terms: SeriesTerms, announcement: Announcement, context: bytes) -> Round:
    plan = terms.plan(announcement.step)
    return Round(
        "gradients",
        terms.threshold_key,
        plan,
        terms.roster,
        terms.series.minimum_ballots,
        context,
        announcement.nonce,
        terms.test_key,
        terms.proofs,
        confirmations=terms.confirmations,
        square_bound=terms.series.square_bound(plan, announcement.step) if terms.proofs == "valid" else 0,
    )


@storable
@dataclass(frozen=True)
class Announcement:
    """The curator's message that starts a step, counted from 1, at a public point. Posted on the board."""

    terms_digest: bytes = field(repr=False)
    step: int
    nonce: bytes = field(repr=False)
    point: tuple[float, ...] = field(repr=False)

    @classmethod
    def create(
        cls, terms: SeriesTerms, step: int, point: tuple[float, ...], randomness: Randomness = SYSTEM
    ) -> Announcement:
        """Create an announcement with a fresh nonce; raise MessageError for an invalid step or point."""
        announcement = cls(terms.digest, step, randomness.draw(16), point)
        announcement._check(terms.series)
        return announcement

    def _check(self, series: Series) -> None:
        if not 1 <= self.step <= series.steps:
            raise MessageError(f"the series has steps 1 to {series.steps}, there is no step {self.step}")
        if len(self.point) != series.dimension or not all(math.isfinite(x) for x in self.point):
            raise MessageError(f"a point of this series must consist of {series.dimension} finite numbers")

    def encode(self) -> bytes:
        point = struct.pack(f">{len(self.point)}d", *self.point)
        return frame(Kind.ANNOUNCEMENT, self.terms_digest, self.step.to_bytes(4, "big"), self.nonce, point)

    @classmethod
    def decode(cls, data: bytes, terms: SeriesTerms) -> Announcement:
        d = terms.series.dimension
        reader = Reader(data, Kind.ANNOUNCEMENT, terms.digest, length=4 + 16 + 8 * d)
        step, nonce = reader.integer(4), reader.take(16)
        announcement = cls(terms.digest, step, nonce, struct.unpack(f">{d}d", reader.rest()))
        announcement._check(terms.series)
        return announcement
