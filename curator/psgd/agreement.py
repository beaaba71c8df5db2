"""What everybody agrees on before the first step: from the privacy asked for to noise, and what that is worth.

`agree` turns `DescentOptions` and the parties' public sizes into an `Agreement`: a `Series` that parties hold each
other to, the curator's `Descent`, and a `DescentGuarantee` for the final classifier and for everything the curator saw.
Rajkumar and Agarwal 2012, Procedures 1 to 3 and section 3.2; the derivations are in docs/rajkumar.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from psephos.curator.checks import check_count, check_positive, rounded_up
from psephos.curator.losses import Loss, loss_named
from psephos.curator.psgd import bounds as bounds
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.privacy.mechanisms import SAMPLER_DISTANCE, check_delta, check_epsilon
from psephos.protocol.psgd.descent import Descent, StepSizes, StoppingRule
from psephos.protocol.psgd.series import Series, StepLaw
from psephos.protocol.randomness import SYSTEM

Variant = Literal["paper", "footnote-4", "halving", "gaussian"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)
"""Of the noise; `DescentOptions` says what they are."""
Unit = Literal["record", "party"]


def _said(help: str, group: str, shown: str | None = None) -> dict[str, str | None]:
    """What the command's help says of an option (`psephos.options`)."""
    return {"help": help, "group": group, "shown": shown}


@dataclass(frozen=True)
class DescentOptions:
    """What is asked of a descent: the objective, the walk, and the privacy. All of it is public.

    The fields' help says what they mean. `variant` is "paper" (Algorithm 1: eta once, rho at every step), "footnote-4"
    (each party protects itself: its eta is sized for its own data alone), "halving" (section 3.2's first attempt: no
    eta, epsilon/2^t at step t), or "gaussian" (ours: no eta; Skellam shares at every step, calibrated so that the
    whole transcript is (epsilon, delta)-private). Epsilon and delta are those of the final classifier for the first
    two, of the whole transcript for the others.
    """

    variant: Variant = field(
        default="paper", metadata=_said("Which noise: Algorithm 1, two asides of the paper, or ours.", "Privacy")
    )
    unit: Unit = field(
        default="record", metadata=_said("What a neighbour replaces: a record, or all that one party holds.", "Privacy")
    )
    epsilon: float = field(
        default=1.0, metadata=_said("Of the final classifier; halving and gaussian: of the transcript.", "Privacy")
    )
    delta: float = field(default=1e-5, metadata=_said("The same; keep it far below 1/N.", "Privacy"))
    party_bound: float | None = field(
        default=None,
        metadata=_said(
            "Largest norm of a party's gradient.", "Privacy", "L times the largest size, which none exceeds"
        ),
    )
    on_excess: Literal["refuse", "clip"] = field(
        default="refuse", metadata=_said("What a party does with a longer gradient.", "Privacy")
    )
    colluders: int | None = field(
        default=None,
        metadata=_said(
            "Parties that may tell each other their noise; key holders are parties.", "Privacy", "threshold - 1"
        ),
    )
    dropouts: int = field(default=0, metadata=_said("Parties that may stay away.", "Privacy"))
    loss: Literal["logistic", "huber"] = field(
        default="logistic", metadata=_said("Of the objective; huber is nearly the hinge.", "Descent")
    )
    lam: float = field(default=0.1, metadata=_said("Ridge lambda of the objective.", "Descent"))
    steps: int = field(default=200, metadata=_said("T, the largest number of noisy sums.", "Descent"))
    first_step: float | None = field(
        default=None, metadata=_said("z_0 of z_t = z_0/(1 + t/offset)^power.", "Descent", "1/(c + lambda)")
    )
    step_offset: float | None = field(default=None, metadata=_said("Its offset.", "Descent", "2 (c + lambda)/lambda"))
    step_power: float = field(default=1.0, metadata=_said("Its power, above 1/2 and at most 1.", "Descent"))
    radius: float | None = field(
        default=None,
        metadata=_said("Iterates are projected on a ball of this radius.", "Descent", "one that changes no minimiser"),
    )
    stop_tolerance: float = field(
        default=0.0, metadata=_said("Stop when the iterate moved by less than this share; 0: never.", "Descent")
    )
    stop_window: int = field(default=50, metadata=_said("... during so many steps.", "Descent"))
    fraction_bits: int = field(default=20, metadata=_said("Gradients and noise are multiples of 2^-bits.", "Descent"))

    def check(self) -> None:
        """Raise InvalidParameter for the first option at fault; what depends on the parties, `agree` checks."""
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        check_positive(self.lam, "lambda")
        check_count(self.steps, "the number of steps")
        for name, wanted in (("variant", Variant), ("unit", Unit), ("on_excess", Literal["refuse", "clip"])):
            if getattr(self, name) not in get_args(wanted):
                raise InvalidParameter(f"{name} is one of {', '.join(get_args(wanted))}, not {getattr(self, name)!r}")
        if self.party_bound is not None:
            check_positive(self.party_bound, "the bound of a party's gradient")
        if self.variant == "footnote-4" and self.unit == "party":
            raise InvalidParameter("footnote 4 is about records: a party's own data set has no second party in it")
        check_count(self.coalition, "the number of colluders", 0)
        check_count(self.dropouts, "the number of dropouts", 0)
        if not 0 <= self.fraction_bits <= 52:
            raise InvalidParameter(f"there are 0 to 52 fraction bits, not {self.fraction_bits}")
        StoppingRule(self.stop_tolerance, self.stop_window)
        if not self.phi.binary:
            raise InvalidParameter(f"PSGD needs a binary loss with two bounded derivatives, not {self.loss}")

    @property
    def coalition(self) -> int:
        """How many parties may collude; where none are given, nobody, since a descent by itself has no key holders.

        Options with a threshold take threshold - 1 instead, and whoever calls `agree` for key holders says a number.
        """
        return 0 if self.colluders is None else self.colluders

    @property
    def phi(self) -> Loss:
        """The loss; raises InvalidParameter for an unknown one."""
        return loss_named(self.loss, 2)


@dataclass(frozen=True)
class DescentGuarantee:
    """What is promised, and for what. All epsilons are for `unit`-level neighbours, one replaced, sizes public.

    Attributes:
        unit: "record" or "party".
        delta: the one that is stated: what was asked for, truncation and sampling included.
        epsilon_final: what the paper claims for the classifier, at `delta`; None where nothing is claimed but the
            transcript's.
        final_is: what that claim is about.
        epsilon_step: of one noisy sum by itself, pure; None where steps differ ("halving") or are calibrated together
            ("gaussian").
        epsilon_transcript: of everything the curator saw (all agreed steps), at `delta`.
        epsilon_transcript_pure: the same at delta = 0 but for the samplers; None where there is none.
        delta_samplers: what truncation and sampling cost of it.
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


@dataclass(frozen=True)
class Agreement:
    """Everything public that is fixed before the first step, but for the keys.

    Attributes:
        series: what parties hold each other to.
        descent: what follows from the sums.
        guarantee: what it is worth.
        sigma: standard deviation per entry of the sum of the parties' fixed noise; 0 without.
        slack: Delta.
        sensitivity: by how much one unit changes a step's sum, L2, lattice and rounding included.
    """

    series: Series
    descent: Descent
    guarantee: DescentGuarantee
    sigma: float
    slack: float
    sensitivity: float


def agree(options: DescentOptions, sizes: Sequence[int], dimension: int, nonce: bytes | None = None) -> Agreement:
    """Turn the privacy asked for into noise, and state what it is worth.

    Shares are sized so that those of K - coalition - dropouts parties suffice, and for "gaussian" of one less, since
    every party knows its own share.

    Args:
        sizes: the parties' numbers of records, public; N is their sum.
        dimension: d.
        nonce: of the series, 16 random bytes; fresh ones by default.

    Raises InvalidParameter for options at fault, also when no noise meets epsilon and delta; DivergenceError for steps
    that would run away.
    """
    options.check()
    if len(sizes) < 2 or min(sizes) < 1:
        raise InvalidParameter("PSGD needs at least 2 parties with at least one record each")
    asked = _Asked(options, tuple(sizes), dimension)
    fixed, step = asked.fixed_noise(), asked.step_noise()
    # Everybody must agree on the same, whatever the last bits of a machine's library.
    sigmas, slack, scale = tuple(map(rounded_up, fixed.sigmas)), rounded_up(fixed.ridge), rounded_up(step.scale)
    series = Series(
        parties=len(sizes),
        steps=options.steps,
        dimension=dimension,
        bound=asked.bound,
        fraction_bits=options.fraction_bits,
        fixed_sigmas=sigmas,
        step_law=step.law,
        step_scale=scale,
        minimum_ballots=len(sizes) - options.dropouts,
        nonce=SYSTEM.draw(16) if nonce is None else nonce,
    )
    # Truncation and samplers (2^-160 a vector) make a step (epsilon, delta_t)-private, with its own epsilon in
    # delta_t and not the transcript's; the deltas of composed steps add.
    distance = series.truncation + (series.steps + 1) * series.parties * SAMPLER_DISTANCE
    spared = step.spared or min(1.0, (1 + math.exp(options.epsilon)) * distance)
    guarantee = DescentGuarantee(
        options.unit,
        options.delta if step.spared else min(1.0, options.delta + spared),
        fixed.epsilon,
        fixed.epsilon_is,
        step.epsilon,
        step.transcript,
        step.pure,
        spared,
        step.assumed,
    )
    descent = _descent(options, series, asked.records, options.lam + slack)
    return Agreement(series, descent, guarantee, math.hypot(*sigmas), slack, asked.sensitivity)


@dataclass(frozen=True)
class _Fixed:
    """eta: each party's deviation, the ridge that goes with it, and what the paper claims for the minimiser."""

    sigmas: tuple[float, ...]
    ridge: float
    epsilon: float | None
    epsilon_is: str


@dataclass(frozen=True)
class _Fresh:
    """rho: law and scale, and what all steps cost. `spared`: the part of delta that pays for the samplers."""

    law: StepLaw
    scale: float
    epsilon: float | None
    transcript: float
    pure: float | None
    assumed: str
    spared: float = 0.0


class _Asked:
    """The options for parties of these sizes, with what follows from them."""

    def __init__(self, options: DescentOptions, sizes: tuple[int, ...], dimension: int) -> None:
        loss, parties, largest = options.phi, len(sizes), max(sizes)
        self.options, self.sizes, self.dimension, self.loss = options, sizes, dimension, loss
        self.records = sum(sizes)
        knows_own = 1 if options.variant == "gaussian" else 0
        self.honest = parties - options.coalition - options.dropouts - knows_own
        if self.honest < 1 or parties - options.dropouts < 2:
            raise InvalidParameter(
                f"of {parties} parties, {options.coalition} colluders and {options.dropouts} dropouts leave nobody's "
                "noise to rely on: take more parties, or lower --colluders; with --colluders 0 the guarantee holds "
                "only while no two parties, key holders included, tell each other their noise"
            )
        # Room for the rounding of the gradient's own computation.
        self.limit = loss.lipschitz * largest * (1 + 2.0**-30)
        self.bound = self.limit if options.party_bound is None else min(self.limit, options.party_bound)
        # One record moves the sum of gradients by at most 2 L in L2 (Proposition 3.1), one party by twice its bound.
        self.clean = 2 * (loss.lipschitz if options.unit == "record" else self.bound)
        self.pitch = math.ldexp(1.0, -options.fraction_bits)
        # Two vectors snapped, and the rounding of their sums: rows may be longer than 1 by 2^-40, and adding n vectors
        # of norm at most L errs by at most n u times n L. A margin's own rounding costs nothing: phi' stays within L.
        rounding = 2 * loss.lipschitz * (2.0**-30 + largest * (largest + 2) * 2.0**-53)
        self.sensitivity = self.clean + self.pitch * math.sqrt(dimension) + rounding

    def fixed_noise(self) -> _Fixed:
        """eta, by `variant`."""
        options, parties = self.options, len(self.sizes)
        if options.variant not in ("paper", "footnote-4"):
            said = "no claim of its own: the classifier is computed from the transcript"
            return _Fixed((0.0,) * parties, 0.0, None, said)
        said = "the paper's claim (Theorem 4.2) for the exact minimiser of the perturbed objective"
        if options.variant == "footnote-4":
            sigmas, ridge = bounds.footnote_four(
                options.epsilon, options.delta, options.lam, self.sizes, self.loss.smoothness, self.dimension
            )
            said += "; holds of the minimiser for one party's data alone, too"
        else:
            slack = self._slack()
            sigma = bounds.sigma_from_density_ratio(
                self.dimension, slack.epsilon, options.delta, sensitivity=self.clean
            )
            sigmas, ridge = (sigma / math.sqrt(self.honest),) * parties, slack.ridge
        if options.on_excess == "clip" and self.bound < self.limit:
            return _Fixed(sigmas, ridge, None, "no claim: a clipped gradient is not that of any objective")
        return _Fixed(sigmas, ridge, options.epsilon, said)

    def _slack(self) -> bounds.Slack:
        asked = (self.options.epsilon, self.options.lam, self.records, self.loss.smoothness)
        if self.options.unit == "record":
            return bounds.compute_slack(*asked)
        return bounds.compute_slack_party(*asked, party_records=max(self.sizes), dimension=self.dimension)

    def step_noise(self) -> _Fresh:
        """rho, by `variant`."""
        epsilon, delta, steps = self.options.epsilon, self.options.delta, self.options.steps
        if self.options.variant == "gaussian":
            return self._skellam(epsilon, delta, steps)
        scale = math.nextafter(self.sensitivity / epsilon, math.inf)
        assumed = "the transcript's epsilon: nobody but the party itself; the final one: all but the colluders"
        if self.options.variant == "halving":
            # Step t alone costs epsilon/2^t (section 3.2, the first attempt): its scale doubles every time.
            return _Fresh("spherical-laplace-halving", scale, None, epsilon, epsilon, assumed)
        composed = bounds.pure_composition(epsilon, steps, delta)
        return _Fresh("spherical-laplace", scale, epsilon, composed, steps * epsilon, assumed)

    def _skellam(self, epsilon: float, delta: float, steps: int) -> _Fresh:
        l2 = self.sensitivity / self.pitch
        l1 = math.sqrt(self.dimension) * l2  # l2 * l2 is more: snapping alone moves a vector by sqrt(d) pitches
        reserve = 2.0**-60  # truncation and the sampler, multiplied by 1 + e^epsilon <= 1 + e^64 below
        spared = (1 + math.exp(epsilon)) * reserve
        if spared >= delta:
            raise InvalidParameter(f"delta = {delta:g} is below what the samplers cost; take at least {2 * spared:.1e}")
        variance = bounds.skellam_variance(epsilon, delta - spared, l1, l2, steps) / self.honest
        who = f"all but {self.options.coalition} colluding and {self.options.dropouts} absent parties"
        return _Fresh("skellam", math.nextafter(variance, math.inf), None, epsilon, None, who, spared)


def _descent(options: DescentOptions, series: Series, records: int, ridge: float) -> Descent:
    loss = options.phi
    default = StepSizes.default(ridge, loss.smoothness)
    radius = options.radius
    if radius is None:  # holds every perturbed objective's minimiser, eta within its truncation bound
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
