"""A series of encrypted sums at public points: what everybody agrees on before the first, and how one is announced.

An iterative protocol asks the parties again and again for an integer vector that depends on a public point. A `Series`
fixes how often, how large the vectors and how strong every party's noise are; `SeriesTerms` add the keys. So each party
can hold the others to them and knows what the whole series costs it. A step is one `Round` of kind "gradients" whose
context names the terms, the step and the point; its `Announcement` is all a party needs to build that round itself.

Noise is in lattice units of 2^-fraction_bits. Every share is redrawn until it lies within a public bound that sizes the
slot; the bounds hold but for probability 2^-66 over the whole series (`truncation`), by Chernoff's inequality.

The protocol is Rajkumar and Agarwal 2012, Algorithm 1; docs/protocols/psgd.md says who adds which noise.
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
from psephos.protocol.psgd.descent import Descent
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.signing import Roster, VerificationKey
from psephos.protocol.storage.values import storable
from psephos.protocol.wire import Kind, Reader, frame

StepLaw = Literal["none", "spherical-laplace", "spherical-laplace-halving", "skellam"]

_LOG_TAIL = 66 * math.log(2)
_MAX_STEPS = 1 << 20


@dataclass(frozen=True)
class Series:
    """How many sums of what, under which noise.

    Attributes:
        parties: how many; every one adds noise.
        steps: the largest number of sums; no party answers more.
        dimension: entries of a vector.
        bound: largest L2 norm of a party's vector before noise.
        fraction_bits: the lattice is the multiples of 2^-fraction_bits.
        fixed_sigmas: standard deviation, per entry, of the normal noise each party draws once; 0 for none.
        step_law: law of the noise each party draws afresh at every step.
        step_scale: its scale: of the norm's Gamma law ("spherical-laplace"; doubled at every step with "-halving", so
            that step 1 already has twice of it), or one share's variance per entry, in lattice units squared
            ("skellam").
        minimum_ballots: fewer are never opened.
        nonce: 16 random bytes.

    Raises InvalidParameter for numbers out of range or that do not go together.
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
        try:  # equal series have equal digests, whatever kind of number they were written with
            for name in ("parties", "steps", "dimension", "fraction_bits", "minimum_ballots"):
                object.__setattr__(self, name, operator.index(getattr(self, name)))
            for name in ("bound", "step_scale"):
                object.__setattr__(self, name, float(+getattr(self, name)))
            object.__setattr__(self, "fixed_sigmas", tuple(float(+sigma) for sigma in self.fixed_sigmas))
        except (TypeError, ValueError):
            raise InvalidParameter("a series is made of numbers, whole ones where it counts") from None
        for right, wrong in (
            (self.parties >= 2, f"a series has at least 2 parties, not {self.parties}"),
            (1 <= self.steps <= _MAX_STEPS, f"a series has between 1 and {_MAX_STEPS} steps, not {self.steps}"),
            (self.dimension >= 1, "a vector has at least one entry"),
            (
                0 < self.bound < math.inf,
                f"the bound of a vector is {self.bound}; it must be positive and finite",
            ),
            (0 <= self.fraction_bits <= 52, f"there are 0 to 52 fraction bits, not {self.fraction_bits}"),
            (
                len(self.fixed_sigmas) == self.parties,
                f"{len(self.fixed_sigmas)} fixed deviations were given for {self.parties} parties",
            ),
            (
                all(0 <= s < math.inf for s in self.fixed_sigmas),
                "deviations of fixed noise are finite, and at least 0",
            ),
            (
                self.step_law in get_args(StepLaw),
                f"the noise of a step is one of {', '.join(get_args(StepLaw))}, not {self.step_law!r}",
            ),
            (
                math.isfinite(self.step_scale) and (self.step_scale > 0) != (self.step_law == "none"),
                f"a scale of {self.step_scale} does not go with noise of law {self.step_law!r}",
            ),
            (len(self.nonce) == 16, "a series' nonce has 16 bytes"),
        ):
            if not right:
                raise InvalidParameter(wrong)

    @property
    def pitch(self) -> float:
        """Lattice spacing."""
        return math.ldexp(1.0, -self.fraction_bits)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of all of the above, 32 bytes."""
        return hashlib.sha256(b"psephos series\0" + repr(astuple(self)).encode()).digest()

    def scale_at(self, step: int) -> float:
        """The step law's scale at this step, counted from 1, in the units of `step_scale`.

        Raises InvalidParameter for a step outside the series, or so late that a doubling scale has left all bounds.
        """
        if not 1 <= step <= self.steps:
            raise InvalidParameter(f"the series has steps 1 to {self.steps}, there is no step {step}")
        if self.step_law != "spherical-laplace-halving":
            return self.step_scale
        if step > 900:
            raise InvalidParameter(f"noise that doubles at every step has left all bounds at step {step}")
        return math.ldexp(self.step_scale, step)

    @property
    def truncation(self) -> float:
        """A bound of the total variation that truncating the shares costs over the whole series."""
        return 0.0 if self.step_law == "none" and not any(self.fixed_sigmas) else 2.0**-66

    @cached_property
    def _log_tail(self) -> float:
        # A union bound over one fixed and `steps` fresh vectors of every party, 2 * dimension tails each.
        return _LOG_TAIL + math.log(2 * self.dimension * self.parties * (self.steps + 1))

    def fixed_bound(self) -> int:
        """Largest magnitude, in units, of an entry of any party's fixed noise: P(|Z| > x) <= 2 exp(-x^2/2)."""
        largest = max(self.fixed_sigmas)
        return math.ceil(largest / self.pitch * math.sqrt(2 * self._log_tail)) + 1 if largest else 0

    def step_bound(self, step: int) -> int:
        """Largest magnitude, in units, of an entry of one share of step noise."""
        scale = self.scale_at(step)
        if self.step_law == "none":
            return 0
        if self.step_law == "skellam":
            # Bernstein's inequality: the cumulant mu (cosh t - 1) is below the Poisson's mu (e^t - 1 - t).
            third = self._log_tail / 3
            return math.ceil(third + math.sqrt(third**2 + 2 * scale * self._log_tail)) + 1
        # P(Gamma(d) > x) <= exp(-(x - d - d log(x/d))) for x > d: the norm, which bounds every entry.
        d, x = self.dimension, 2.0 * self.dimension
        while x - d - d * math.log(x / d) < self._log_tail:
            x *= 1.05
        return math.ceil(scale / self.pitch * x) + 1

    def vector_bound(self) -> int:
        """Largest magnitude, in units, of an entry of a party's vector, snapped to the lattice."""
        return math.ceil(self.bound / self.pitch) + 1

    def entry_bound(self, step: int) -> int:
        """Largest magnitude, in units, of an entry of what a party sends."""
        return self.vector_bound() + self.fixed_bound() + self.step_bound(step)

    def plan(self, key: PublicKey, step: int) -> PackingPlan:
        """How the vectors of a step are packed; raises PackingError when the noise is too wide for the key."""
        entry = self.entry_bound(step)
        return PackingPlan.for_key(key, length=self.dimension, addends=self.parties, minimum=-entry, maximum=entry)


@dataclass(frozen=True)
class SeriesTerms:
    """A series, where, and whose: nobody answers at another point, under another key or roster than was agreed on.

    Attributes:
        series: how many sums of what.
        descent: how one point follows from another and a sum; the first is the origin.
        threshold_key: what ballots are encrypted under, and who opens sums.
        roster: the parties' verification keys.
        test_key: whether a key under 2048 bits is accepted.
        proofs: what ballots and partial decryptions prove, "none" or "knowledge".
        confirmations: as in a `Round`.

    Raises InvalidParameter when the roster has another length than the series has parties.
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
            raise InvalidParameter(
                f"the series is for {self.series.parties} parties and the roster has {len(self.roster)}"
            )

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of all of the above, 32 bytes: the session of its announcements."""
        keys = self.threshold_key.digest + Roster.of(self.roster).raw
        rest = repr((astuple(self.descent), self.test_key, self.proofs, self.confirmations)).encode()
        return hashlib.sha256(b"psephos terms\0" + self.series.digest + keys + rest).digest()

    def __hash__(self) -> int:
        return hash(self.digest)

    def round(self, announcement: Announcement) -> Round:
        """The round of an announced step. Everybody builds it from what was agreed, so nobody can be told another one.

        Raises:
            InvalidParameter: anything `Round` refuses.
            PackingError: the noise is too wide for the key.
            WeakKeyError: a key under 2048 bits that is not called a test key.
        """
        return _round(self, announcement, hashlib.sha256(b"psephos step\0" + announcement.encode()).digest())


@lru_cache(maxsize=4)  # all roles of a simulation build the same one
def _round(terms: SeriesTerms, announcement: Announcement, context: bytes) -> Round:
    return Round(
        "gradients",
        terms.threshold_key,
        terms.series.plan(terms.threshold_key.key, announcement.step),
        terms.roster,
        terms.series.minimum_ballots,
        context,
        announcement.nonce,
        terms.test_key,
        terms.proofs,
        confirmations=terms.confirmations,
    )


@storable
@dataclass(frozen=True)
class Announcement:
    """The curator opens a step: public, posted on the board.

    Attributes:
        terms_digest: of the agreed terms.
        step: counted from 1.
        nonce: of the step's round, 16 bytes.
        point: the public point, `dimension` finite float64.
    """

    terms_digest: bytes = field(repr=False)
    step: int
    nonce: bytes = field(repr=False)
    point: tuple[float, ...] = field(repr=False)

    @classmethod
    def create(
        cls, terms: SeriesTerms, step: int, point: tuple[float, ...], randomness: Randomness = SYSTEM
    ) -> Announcement:
        """A fresh announcement; raises MessageError for a step or a point that the series has not."""
        announcement = cls(terms.digest, step, randomness.draw(16), point)
        announcement._check(terms.series)
        return announcement

    def _check(self, series: Series) -> None:
        if not 1 <= self.step <= series.steps:
            raise MessageError(f"the series has steps 1 to {series.steps}, there is no step {self.step}")
        if len(self.point) != series.dimension or not all(math.isfinite(x) for x in self.point):
            raise MessageError(f"a point of this series is {series.dimension} finite numbers")

    def encode(self) -> bytes:
        """The bytes that travel."""
        point = struct.pack(f">{len(self.point)}d", *self.point)
        return frame(Kind.ANNOUNCEMENT, self.terms_digest, self.step.to_bytes(4, "big"), self.nonce, point)

    @classmethod
    def decode(cls, data: bytes, terms: SeriesTerms) -> Announcement:
        """A received announcement.

        Raises MessageError (length, type, a point that is not finite, a step outside) or WrongRoundError (other terms).
        """
        d = terms.series.dimension
        reader = Reader(data, Kind.ANNOUNCEMENT, terms.digest, length=4 + 16 + 8 * d)
        step, nonce = reader.integer(4), reader.take(16)
        announcement = cls(terms.digest, step, nonce, struct.unpack(f">{d}d", reader.rest()))
        announcement._check(terms.series)
        return announcement
