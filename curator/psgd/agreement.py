"""The public agreement before the first step of PSGD: noise calibrated to the privacy asked for, and the guarantee.

Rajkumar and Agarwal 2012, Procedures 1 to 3 and section 3.2; docs/protocols/psgd.md has the derivations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from psephos.curator.checks import check_count, check_positive
from psephos.curator.losses import Loss, loss_named
from psephos.curator.psgd import bounds as bounds
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.privacy.mechanisms import SAMPLER_DISTANCE, check_delta, check_epsilon, discrete_gaussian_variance
from psephos.protocol.privacy.precision import rounded_up
from psephos.protocol.psgd.descent import Descent, StepSizes, StoppingRule
from psephos.protocol.psgd.series import Series, StepLaw
from psephos.protocol.randomness import SYSTEM

Variant = Literal["paper", "footnote-4", "halving", "gaussian"]
"""Variants of the noise, described in `DescentOptions`."""


def _option(default: Any, help: str, group: str, shown: str | None = None) -> Any:
    """Return the field of an option, with its entry in the command's help (`psephos.options`)."""
    return field(default=default, metadata={"help": help, "group": group, "shown": shown})


@dataclass(frozen=True)
class DescentOptions:
    """Public options of a descent: objective, step sizes and privacy. Each field's `help` describes it.

    The variants are

    * "paper": Algorithm 1; fixed noise eta drawn once, step noise rho at every step;
    * "footnote-4": the same, with the eta of each party sized for its own data alone, so that it protects itself;
    * "halving": the first attempt of section 3.2; no eta, epsilon/2^t at step t;
    * "gaussian": not in the paper; no eta, discrete Gaussian shares at every step, calibrated so that the whole
      transcript is (epsilon, delta)-private.

    Epsilon and delta are those of the final classifier for the first two, of the whole transcript for the others.
    """

    variant: Variant = _option("paper", "Which noise: Algorithm 1, two asides of the paper, or ours.", "Privacy")
    epsilon: float = _option(
        1.0, "The epsilon of the final classifier; for halving and gaussian, of the transcript.", "Privacy"
    )
    delta: float = _option(1e-5, "The same; keep it far below 1/N.", "Privacy")
    party_bound: float | None = _option(
        None, "Largest norm of a party's gradient.", "Privacy", "L times the largest size, which none exceeds"
    )
    on_excess: Literal["refuse", "clip"] = _option("refuse", "What a party does with a longer gradient.", "Privacy")
    colluders: int | None = _option(
        None, "Parties that may tell each other their noise; key holders are parties.", "Privacy", "threshold - 1"
    )
    dropouts: int = _option(0, "Parties that may stay away.", "Privacy")
    loss: Literal["logistic", "huber"] = _option(
        "logistic", "The loss of the objective; huber is nearly the hinge.", "Descent"
    )
    lam: float = _option(0.1, "Ridge lambda of the objective.", "Descent")
    steps: int = _option(200, "T, the largest number of noisy sums.", "Descent")
    first_step: float | None = _option(None, "z_0 of z_t = z_0/(1 + t/offset)^power.", "Descent", "1/(c + lambda)")
    step_offset: float | None = _option(None, "The offset in the step size.", "Descent", "2 (c + lambda)/lambda")
    step_power: float = _option(1.0, "The power in the step size, above 1/2 and at most 1.", "Descent")
    radius: float | None = _option(
        None, "Iterates are projected on a ball of this radius.", "Descent", "one that changes no minimiser"
    )
    stop_tolerance: float = _option(0.0, "Stop when the iterate moved by less than this share; 0: never.", "Descent")
    stop_window: int = _option(50, "The number of steps over which --stop-tolerance looks.", "Descent")
    fraction_bits: int = _option(20, "Gradients and noise are multiples of 2^-bits.", "Descent")

    def check(self) -> None:
        """Raise InvalidParameter for the first invalid option; `agree` checks those that depend on the parties."""
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        check_positive(self.lam, "lambda")
        check_count(self.steps, "the number of steps")
        for name, choices in (("variant", Variant), ("on_excess", Literal["refuse", "clip"])):
            if getattr(self, name) not in get_args(choices):
                raise InvalidParameter(f"{name} is one of {', '.join(get_args(choices))}, not {getattr(self, name)!r}")
        if self.party_bound is not None:
            check_positive(self.party_bound, "the bound of a party's gradient")
        check_count(self.coalition, "the number of colluders", 0)
        check_count(self.dropouts, "the number of dropouts", 0)
        if not 0 <= self.fraction_bits <= 52:
            raise InvalidParameter(f"fraction_bits must be 0 to 52, not {self.fraction_bits}")
        StoppingRule(self.stop_tolerance, self.stop_window)
        if not self.phi.binary:
            raise InvalidParameter(f"PSGD needs a binary loss, 'logistic' or 'huber', not {self.loss!r}")

    @property
    def coalition(self) -> int:
        """Number of parties that may collude; 0 by default; threshold - 1 where there are key holders."""
        return 0 if self.colluders is None else self.colluders

    @property
    def phi(self) -> Loss:
        """The loss. Raises InvalidParameter for an unknown one."""
        return loss_named(self.loss, 2)


@dataclass(frozen=True)
class DescentGuarantee:
    """The privacy guarantee of a descent. Neighbours differ by one replaced record; sizes are public.

    Attributes:
        delta: the stated delta, of which truncation and sampling cost `delta_samplers`.
        epsilon_final: of the final classifier at `delta`, as the paper claims it (`final_is`); None without a claim.
        epsilon_step: pure epsilon of one noisy sum; None where steps differ or are calibrated together.
        epsilon_transcript: at `delta`, of everything the curator sees over all agreed steps.
        epsilon_transcript_pure: the same at delta = 0, samplers aside; None where there is none.
        assumed: who must be honest for the guarantee.
    """

    delta: float
    epsilon_final: float | None
    final_is: str
    epsilon_step: float | None
    epsilon_transcript: float
    epsilon_transcript_pure: float | None
    delta_samplers: float
    assumed: str


@dataclass(frozen=True)
class Agreement:
    """All public values that are fixed before the first step, except for the keys.

    Attributes:
        series, descent, guarantee: the terms of the sums, which all roles check; what computes points; the privacy.
        sigma: standard deviation per entry of the sum of the parties' fixed noise; 0 without.
        slack: Delta.
        sensitivity: L2 sensitivity of a step's sum to one record, lattice and rounding included.
    """

    series: Series
    descent: Descent
    guarantee: DescentGuarantee
    sigma: float
    slack: float
    sensitivity: float


def agree(options: DescentOptions, sizes: Sequence[int], dimension: int, nonce: bytes | None = None) -> Agreement:
    """Calibrate the noise to the options, and state the guarantee, for the parties' public sizes and d dimensions.

    The shares of K - coalition - dropouts parties make up the whole noise; for "gaussian" of one less, because every
    party knows its own share. `nonce`, 16 bytes, identifies the series.

    Raises:
        InvalidParameter: an option is invalid, or no noise meets epsilon and delta.
        DivergenceError: the step sizes are so large that the descent diverges.
    """
    options.check()
    if len(sizes) < 2 or min(sizes) < 1:
        raise InvalidParameter("PSGD needs at least 2 parties with at least one record each")
    planner = _NoisePlanner(options, tuple(sizes), dimension)
    exact_sigmas, ridge, final, final_is = planner.fixed_noise()
    law, exact_scale, guarantee = planner.step_noise(final, final_is)
    # All roles must agree on the same numbers, whatever the last bits of a machine's floating-point library.
    sigmas, slack, scale = tuple(map(rounded_up, exact_sigmas)), rounded_up(ridge), rounded_up(exact_scale)
    series = Series(
        parties=len(sizes),
        steps=options.steps,
        dimension=dimension,
        bound=planner.bound,
        fraction_bits=options.fraction_bits,
        fixed_sigmas=sigmas,
        step_law=law,
        step_scale=scale,
        minimum_ballots=len(sizes) - options.dropouts,
        nonce=SYSTEM.draw(16) if nonce is None else nonce,
    )
    if not guarantee.delta_samplers:
        # Truncation and samplers (2^-160 per vector) make a step (epsilon, delta_t)-private, where delta_t depends on
        # the step's own epsilon and not on the transcript's; the deltas of composed steps add.
        distance = series.truncation + (series.steps + 1) * series.parties * SAMPLER_DISTANCE
        samplers = min(1.0, (1 + math.exp(options.epsilon)) * distance)
        guarantee = replace(guarantee, delta=min(1.0, options.delta + samplers), delta_samplers=samplers)
    descent = _descent(options, series, planner.records, options.lam + slack)
    return Agreement(series, descent, guarantee, math.hypot(*sigmas), slack, planner.sensitivity)


class _NoisePlanner:
    """Calibrates the noise of the options for parties of these sizes."""

    def __init__(self, options: DescentOptions, sizes: tuple[int, ...], dimension: int) -> None:
        loss, parties, largest = options.phi, len(sizes), max(sizes)
        self.options, self.sizes, self.dimension, self.loss = options, sizes, dimension, loss
        self.records = sum(sizes)
        own_share = 1 if options.variant == "gaussian" else 0  # every party knows its own
        self.honest = parties - options.coalition - options.dropouts - own_share
        if self.honest < 1 or parties - options.dropouts < 2:
            raise InvalidParameter(
                f"of {parties} parties, {options.coalition} colluders and {options.dropouts} dropouts leave nobody's "
                "noise to rely on; take more parties, or lower --colluders. With --colluders 0 the guarantee holds "
                "only while no two parties, key holders included, disclose their noise to each other"
            )
        # With room for the rounding of the gradient's computation.
        self.limit = loss.lipschitz * largest * (1 + 2.0**-30)
        self.bound = self.limit if options.party_bound is None else min(self.limit, options.party_bound)
        # One record changes the sum of gradients by at most 2 L in L2 (Proposition 3.1).
        self.exact_sensitivity = 2 * loss.lipschitz
        self.pitch = math.ldexp(1.0, -options.fraction_bits)
        # Both vectors are snapped to the lattice, and their sums are rounded: rows may be longer than 1 by 2^-40, and
        # adding n vectors of norm at most L errs by at most n u times n L. The rounding of a margin costs nothing,
        # because phi' stays within L.
        rounding = 2 * loss.lipschitz * (2.0**-30 + largest * (largest + 2) * 2.0**-53)
        self.sensitivity = self.exact_sensitivity + self.pitch * math.sqrt(dimension) + rounding

    def fixed_noise(self) -> tuple[tuple[float, ...], float, float | None, str]:
        """Return the sigmas of eta, Delta, and the guarantee's `epsilon_final` and `final_is`."""
        options, parties = self.options, len(self.sizes)
        if options.variant not in ("paper", "footnote-4"):
            claim = "no claim of its own: the classifier is computed from the transcript"
            return (0.0,) * parties, 0.0, None, claim
        claim = "the paper's claim (Theorem 4.2) for the exact minimiser of the perturbed objective"
        if options.variant == "footnote-4":
            sigmas, ridge = bounds.footnote_four(
                options.epsilon, options.delta, options.lam, self.sizes, self.loss.smoothness, self.dimension
            )
            claim += "; holds of the minimiser for one party's data alone, too"
        else:
            slack = bounds.compute_slack(options.epsilon, options.lam, self.records, self.loss.smoothness)
            sigma = bounds.sigma_from_density_ratio(
                self.dimension, slack.epsilon, options.delta, sensitivity=self.exact_sensitivity
            )
            sigmas, ridge = (sigma / math.sqrt(self.honest),) * parties, slack.ridge
        if options.on_excess == "clip" and self.bound < self.limit:
            return sigmas, ridge, None, "no claim: a clipped gradient is not that of any objective"
        return sigmas, ridge, options.epsilon, claim

    def step_noise(self, final: float | None, final_is: str) -> tuple[StepLaw, float, DescentGuarantee]:
        """Return law and scale of rho, and the guarantee, to which `agree` adds the samplers but of "gaussian"."""
        epsilon, delta, steps = self.options.epsilon, self.options.delta, self.options.steps
        if self.options.variant == "gaussian":
            reserved = (1 + math.exp(epsilon)) * 2.0**-60  # bounds what truncation and samplers cost
            if reserved >= delta:
                raise InvalidParameter(f"delta = {delta:g} is below the samplers'; use at least {2 * reserved:.1e}")
            l2 = self.sensitivity / self.pitch
            variance = float(discrete_gaussian_variance(l2, epsilon, delta - reserved, steps) / self.honest)
            assumed = f"all but {self.options.coalition} colluding and {self.options.dropouts} absent parties"
            guarantee = DescentGuarantee(delta, final, final_is, None, epsilon, None, reserved, assumed)
            return "discrete-gaussian", math.nextafter(variance, math.inf), guarantee
        scale = math.nextafter(self.sensitivity / epsilon, math.inf)
        assumed = "the transcript's epsilon: nobody but the party itself; the final one: all but the colluders"
        if self.options.variant == "halving":
            # Step t costs epsilon/2^t (section 3.2, the first attempt), so the scale doubles at every step.
            guarantee = DescentGuarantee(delta, final, final_is, None, epsilon, epsilon, 0.0, assumed)
            return "spherical-laplace-halving", scale, guarantee
        composed = bounds.pure_composition(epsilon, steps, delta)
        guarantee = DescentGuarantee(delta, final, final_is, epsilon, composed, steps * epsilon, 0.0, assumed)
        return "spherical-laplace", scale, guarantee


def _descent(options: DescentOptions, series: Series, records: int, ridge: float) -> Descent:
    """Return the descent with the options' step sizes, or the defaults."""
    loss = options.phi
    default = StepSizes.default(ridge, loss.smoothness)
    radius = options.radius
    if radius is None:  # the ball contains the minimiser of every perturbed objective, eta within its bound
        eta = series.parties * series.fixed_bound() * series.pitch * math.sqrt(series.dimension)
        radius = (loss.lipschitz + eta / records) / ridge
    return Descent(
        records,
        ridge,
        loss.smoothness,
        radius,
        StepSizes(
            default.first if options.first_step is None else options.first_step,
            default.offset if options.step_offset is None else options.step_offset,
            options.step_power,
        ),
        StoppingRule(options.stop_tolerance, options.stop_window),
    )
