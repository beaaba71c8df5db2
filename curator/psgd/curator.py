"""The curator's side of private stochastic gradient descent (Rajkumar and Agarwal 2012, Algorithm 1).

    w_{t+1} = w_t - z_t ((1/N) S_t + (lambda + Delta) w_t)

where S_t, the sum of the parties' noisy gradients at w_t, is all it is ever given. `agree` turns the privacy that was
asked for into a `Series`; `Curator` walks; `Guarantee` says what the result is worth, for the final classifier and for
everything the curator saw.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from psephos.curator.checks import check_positive
from psephos.curator.losses import Loss
from psephos.curator.psgd import bounds as bounds
from psephos.curator.tally import OpenedSum
from psephos.protocol.encrypted_sum.series import Announcement, Series
from psephos.protocol.errors import DivergenceError, InvalidParameter, WrongRoundError
from psephos.protocol.privacy.mechanisms import SAMPLER_DISTANCE, check_delta, check_epsilon
from psephos.protocol.randomness import SYSTEM, Randomness

__all__ = [
    "VARIANTS",
    "Agreement",
    "Curator",
    "Guarantee",
    "StepSizes",
    "StoppingRule",
    "Unit",
    "Variant",
    "agree",
    "descend",
    "into_ball",
]

Array = NDArray[np.float64]
Variant = Literal["paper", "footnote-4", "halving", "gaussian"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)
"""What `agree` can agree on: "paper" is Algorithm 1, "footnote-4" and "halving" (section 3.2) are the paper's asides,
"gaussian" is ours."""

Unit = Literal["record", "party"]

FRACTION_BITS = 20
"""Of the lattice: snapping then adds 2^-20 sqrt(d) to a sensitivity of at least 2."""


@dataclass(frozen=True)
class StepSizes:
    """z_t = first / (1 + t/offset)^power, t = 0, 1, ...

    1/2 < power <= 1 is what makes sum z_t infinite and sum z_t^2 finite (Robbins and Monro 1951).
    Raises InvalidParameter for any other power, or numbers that are not positive.
    """

    first: float
    offset: float
    power: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self.first, "the first step size")
        check_positive(self.offset, "the offset of the step sizes")
        if not 0.5 < self.power <= 1:
            raise InvalidParameter(
                f"step sizes that shrink with power {self.power} do not have an infinite sum and a finite sum of "
                "squares; take a power above 1/2 and at most 1"
            )

    def __call__(self, t: int) -> float:
        return float(self.first / (1 + t / self.offset) ** self.power)

    @classmethod
    def default(cls, ridge: float, smoothness: float) -> StepSizes:
        """z_t = 2/(r (t + 2 (c + r)/r)): starts at 1/(c + r), ends like 2/(r t), for r = lambda + Delta.

        Without step noise ||w_t - w~|| then falls like 1/t^2 (z_t h - 1 >= the rate 2/t for every curvature h >= r).
        """
        total = smoothness + ridge
        return cls(1 / total, 2 * total / ridge)

    def check(self, smoothness: float) -> None:
        """Raise DivergenceError when the first step is longer than 2/(c + lambda + Delta): descent would run away."""
        if self.first > 2 / smoothness:
            raise DivergenceError(
                f"a first step of {self.first:g} diverges: the objective is {smoothness:g}-smooth, so steps must "
                f"stay below {2 / smoothness:g}"
            )


@dataclass(frozen=True)
class StoppingRule:
    """Stop when the iterate moved by at most `tolerance` times its norm during the last `window` steps.

    A function of sums that are paid for; but the guarantee is that of all agreed steps, since when to stop depends on
    the noise. tolerance 0 never stops early. Raises InvalidParameter for a negative tolerance or an empty window.
    """

    tolerance: float = 0.0
    window: int = 50

    def __post_init__(self) -> None:
        if not (math.isfinite(self.tolerance) and self.tolerance >= 0) or self.window < 1:
            raise InvalidParameter("a stopping rule has a tolerance of at least 0 and a window of at least 1 step")


@dataclass(frozen=True)
class Guarantee:
    """What is promised, and for what. All epsilons are for `unit`-level neighbours, one replaced, sizes public.

    Attributes:
        unit: "record" or "party".
        delta: asked for.
        epsilon_final: what the paper claims for the classifier, at `delta`; None where nothing is claimed but the
            transcript's.
        final_is: what that claim is about.
        epsilon_step: of one noisy sum by itself, pure; None where steps differ ("halving") or are calibrated together
            ("gaussian").
        epsilon_transcript: of everything the curator saw (all agreed steps), at `delta`.
        epsilon_transcript_pure: the same at delta = 0 but for the samplers; None where there is none.
        delta_samplers: what truncation and sampling cost besides, in delta; included in `delta` for "gaussian",
            on top of it for the others.
        assumed: who must be honest for it.
    """

    unit: Unit
    delta: float
    epsilon_final: float | None
    final_is: str
    epsilon_step: float | None
    epsilon_transcript: float
    epsilon_transcript_pure: float | None
    delta_samplers: float
    assumed: str

    def as_json(self) -> dict[str, Any]:
        """For a report; infinities become None."""
        return {k: (None if isinstance(v, float) and not math.isfinite(v) else v) for k, v in asdict(self).items()}


@dataclass(frozen=True)
class Agreement:
    """Everything public that is fixed before the first step.

    Attributes:
        series: what parties hold each other to.
        guarantee: what it is worth.
        ridge: lambda + Delta.
        slack: Delta.
        sigma: standard deviation per entry of the sum of the parties' fixed noise; 0 without.
        records: N.
    """

    series: Series
    guarantee: Guarantee
    ridge: float
    slack: float
    sigma: float
    records: int


def agree(
    *,
    variant: Variant = "paper",
    unit: Unit = "record",
    epsilon: float,
    delta: float,
    lam: float,
    sizes: Sequence[int],
    dimension: int,
    steps: int,
    loss: Loss,
    party_bound: float | None = None,
    colluders: int = 0,
    dropouts: int = 0,
    clip: bool = False,
    fraction_bits: int = FRACTION_BITS,
    randomness: Randomness = SYSTEM,
) -> Agreement:
    """Turn the privacy asked for into noise, and state what it is worth.

    Args:
        variant: "paper" (Algorithm 1: eta once, rho at every step), "footnote-4" (each party protects itself: its eta
            is sized for its own data alone), "halving" (section 3.2's first attempt: no eta, epsilon/2^t at step t), or
            "gaussian" (ours: no eta; Skellam shares at every step, calibrated so that the whole transcript is
            (epsilon, delta)).
        unit: what one neighbour replaces: a record (the paper's) or everything one party holds.
        epsilon, delta: of the final classifier ("paper", "footnote-4") or the whole transcript ("gaussian", "halving").
        lam: lambda.
        sizes: the parties' numbers of records, public; N is their sum.
        dimension: d.
        steps: T, the largest number of noisy sums.
        loss: for its L and c; binary.
        party_bound: the largest norm of a party's gradient, for unit "party" and for the packing; by default
            L max(sizes), which no gradient exceeds.
        colluders: parties that may tell the curator their own noise. dropouts: parties that may vanish. Shares are
            sized so that the others' suffice: K - colluders - dropouts of them, and for "gaussian" one less, since
            every party knows its own share.
        clip: whether parties scale gradients above a smaller `party_bound` down. A clipped gradient is not that of any
            objective, so nothing is claimed for a minimiser then.

    Raises:
        InvalidParameter: anything out of range; for "gaussian" also when no noise meets epsilon and delta.
    """
    epsilon, delta, lam = check_epsilon(epsilon), check_delta(delta), check_positive(lam, "lambda")
    if variant not in VARIANTS:
        raise InvalidParameter(f"the variant is one of {', '.join(VARIANTS)}, not {variant!r}")
    if unit not in ("record", "party"):
        raise InvalidParameter(f"the unit of privacy is a record or a party, not {unit!r}")
    if not loss.binary:
        raise InvalidParameter(f"PSGD needs a binary loss with bounded first and second derivative, not {loss.name}")
    parties = len(sizes)
    if parties < 2 or min(sizes) < 1:
        raise InvalidParameter("PSGD needs at least 2 parties with at least one record each")
    if colluders < 0 or dropouts < 0:
        raise InvalidParameter("numbers of colluders and dropouts are at least 0")
    floor = 1 if variant == "gaussian" else 0
    honest = parties - colluders - dropouts - floor
    if honest < 1 or parties - dropouts < 2:
        raise InvalidParameter(
            f"of {parties} parties, {colluders} colluders and {dropouts} dropouts leave nobody's noise to rely on"
        )
    records, largest = sum(sizes), max(sizes)
    limit = loss.lipschitz * largest * (1 + 2.0**-30)  # room for the rounding of the gradient's own computation
    bound = limit if party_bound is None else min(limit, check_positive(party_bound, "the bound of a party's gradient"))
    pitch = math.ldexp(1.0, -fraction_bits)
    clean = bounds.gradient_sensitivity(loss.lipschitz) if unit == "record" else 2 * bound
    # Two vectors snapped, and the rounding of their sums: rows may be longer than 1 by 2^-40, and adding n vectors of
    # norm at most L errs by at most n u times n L. A margin's own rounding costs nothing: phi' stays within L anyway.
    rounding = 2 * loss.lipschitz * (2.0**-30 + largest * (largest + 2) * 2.0**-53)
    sensitivity = clean + pitch * math.sqrt(dimension) + rounding

    if unit == "party":
        slack = bounds.compute_slack_party(
            epsilon, lam, records, loss.smoothness, party_records=largest, dimension=dimension
        )
    else:
        slack = bounds.compute_slack(epsilon, lam, records, loss.smoothness)

    law: Literal["spherical-laplace", "spherical-laplace-halving", "skellam"]
    fixed: tuple[float, ...] = (0.0,) * parties
    extra_ridge = 0.0
    step_epsilon: float | None
    pure: float | None
    final: float | None = epsilon
    final_is = "the paper's claim (Theorem 4.2) for the exact minimiser of the perturbed objective"
    if variant == "paper":
        sigma = bounds.sigma_from_density_ratio(dimension, slack.epsilon, delta, sensitivity=clean)
        fixed = (sigma / math.sqrt(honest),) * parties
        extra_ridge = slack.ridge
    elif variant == "footnote-4":
        if unit == "party":
            raise InvalidParameter("footnote 4 is about records: a party's own data set has no second party in it")
        own = bounds.footnote_four(epsilon, delta, lam, sizes, loss.smoothness, dimension)
        fixed, sigma, extra_ridge = own.sigmas, own.total_sigma, own.ridge
        final_is += "; holds of the minimiser for one party's data alone, too"
    else:
        sigma, final, final_is = 0.0, None, "no claim of its own: the classifier is computed from the transcript"

    if clip and bound < limit and final is not None:
        final, final_is = None, "no claim: a clipped gradient is not that of any objective"

    if variant == "gaussian":
        law = "skellam"
        l2 = sensitivity / pitch
        l1 = min(math.sqrt(dimension) * l2, l2 * l2)
        reserve = 2.0**-60  # truncation and the sampler, multiplied by 1 + e^epsilon <= 1 + e^64 below
        spared = (1 + math.exp(epsilon)) * reserve
        if spared >= delta:
            raise InvalidParameter(f"delta = {delta:g} is below what the samplers cost; take at least {2 * spared:.1e}")
        scale = math.nextafter(bounds.skellam_variance(epsilon, delta - spared, l1, l2, steps) / honest, math.inf)
        step_epsilon, pure, transcript = None, None, epsilon
        assumed = f"all but {colluders} colluding and {dropouts} absent parties"
    else:
        scale = math.nextafter(sensitivity / epsilon, math.inf)
        step_epsilon = epsilon
        spared = 0.0
        assumed = "the transcript's epsilon: nobody but the party itself; the final one: all but the colluders"
        if variant == "halving":
            law = "spherical-laplace-halving"
            # Step t alone costs epsilon/2^t (`bounds.epsilon_schedule_halving`): its scale doubles every time.
            step_epsilon = None
            pure = transcript = epsilon
        else:
            law = "spherical-laplace"
            pure = steps * epsilon
            transcript = bounds.pure_composition(epsilon, steps, delta)

    series = Series(
        parties=parties,
        steps=steps,
        dimension=dimension,
        bound=bound,
        fraction_bits=fraction_bits,
        fixed_sigmas=fixed,
        step_law=law,
        step_scale=scale,
        minimum_ballots=parties - dropouts,
        nonce=randomness.draw(16),
    )
    if not spared:
        # Truncation and samplers (2^-160 a vector) make a step (epsilon, delta_t)-private, with its own epsilon in
        # delta_t and not the transcript's; the deltas of composed steps add.
        distance = series.truncation + (steps + 1) * parties * SAMPLER_DISTANCE
        spared = min(1.0, (1 + math.exp(epsilon)) * distance)
    guarantee = Guarantee(unit, delta, final, final_is, step_epsilon, transcript, pure, spared, assumed)
    return Agreement(series, guarantee, lam + extra_ridge, extra_ridge, sigma, records)


class Curator:
    """The third party of Algorithm 1."""

    def __init__(
        self,
        agreement: Agreement,
        *,
        loss: Loss,
        step_sizes: StepSizes | None = None,
        radius: float | None = None,
        stopping: StoppingRule | None = None,
        randomness: Randomness = SYSTEM,
    ) -> None:
        """
        Args:
            agreement: see `agree`.
            loss: for its c.
            step_sizes: z_t; `StepSizes.default` otherwise.
            radius: the iterate is projected on this ball; by default (L + max ||eta||/N)/(lambda + Delta) with the
                public truncation bound of eta, which holds every perturbed objective's minimiser and so changes none.
            stopping: never early by default.
            randomness: source of the rounds' nonces.

        Raises:
            DivergenceError: a step size that cannot converge.
            InvalidParameter: a radius that is not positive and finite.
        """
        smoothness = loss.smoothness + agreement.ridge
        self.agreement = agreement
        self.step_sizes = step_sizes or StepSizes.default(agreement.ridge, loss.smoothness)
        self.step_sizes.check(smoothness)
        series = agreement.series
        if radius is None:
            eta = series.parties * series.fixed_bound() * series.pitch * math.sqrt(series.dimension)
            radius = (loss.lipschitz + eta / agreement.records) / agreement.ridge
        self.radius = check_positive(radius, "the radius of the projection")
        self.stopping = stopping or StoppingRule()
        self._randomness = randomness
        self._path: list[Array] = [np.zeros(series.dimension)]

    @property
    def steps_done(self) -> int:
        """Sums taken so far."""
        return len(self._path) - 1

    @property
    def w(self) -> Array:
        """The current iterate, (d,): everything the curator publishes."""
        return self._path[-1].copy()

    def finished(self) -> bool:
        """All agreed steps are done, or the stopping rule holds."""
        if self.steps_done >= self.agreement.series.steps:
            return True
        rule = self.stopping
        if not rule.tolerance or self.steps_done < rule.window:
            return False
        moved = float(np.linalg.norm(self._path[-1] - self._path[-1 - rule.window]))
        return moved <= rule.tolerance * float(np.linalg.norm(self._path[-1]))

    def announce(self) -> Announcement:
        """The next step, to be posted. Post one announcement per step, and the same one after an interrupt."""
        point = tuple(self._path[-1].tolist())
        return Announcement.create(self.agreement.series, self.steps_done + 1, point, self._randomness)

    def resume(self, announcement: Announcement) -> None:
        """Check that a stored announcement is the next step of this very path; raises WrongRoundError."""
        if announcement.step != self.steps_done + 1 or announcement.point != tuple(self._path[-1].tolist()):
            raise WrongRoundError("the stored announcement is not the next step of this run")

    def advance(self, opened: OpenedSum) -> None:
        """Take one step with the opened sum.

        Raises DivergenceError when the iterate is no longer finite.
        """
        self.advance_by(np.array([float(s) for s in opened.sums]) * self.agreement.series.pitch)

    def advance_by(self, noisy_sum: Array) -> None:
        """The same with the sum in real units, (d,). Raises DivergenceError when the iterate is no longer finite."""
        w = self._path[-1]
        w = descend(w, noisy_sum, self.agreement.records, self.agreement.ridge, self.step_sizes(self.steps_done))
        w = into_ball(w, self.radius)
        if not np.isfinite(w).all():
            raise DivergenceError(
                f"the iterate is no longer finite after step {self.steps_done + 1}; take smaller steps"
            )
        self._path.append(w)


def descend(w: Array, noisy_sum: Array, records: int, ridge: float, step_size: float) -> Array:
    """w - z ((1/N) S + (lambda + Delta) w), Algorithm 1's step: `w` and `noisy_sum` (d,)."""
    return w - step_size * (noisy_sum / records + ridge * w)


def into_ball(w: Array, radius: float) -> Array:
    """The nearest point, (d,), of the ball around 0 to `w`, (d,)."""
    norm = math.hypot(*w.tolist())  # does not overflow before its result does
    return w if norm <= radius else w * (radius / norm)
