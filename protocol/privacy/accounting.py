"""What releases cost together: events, their composition through dp-accounting, and a party's own budget.

Neighbours differ in everything one party holds, M fixed: *replace one*; our sensitivities are distances between such
neighbours. By dp-accounting's privacy loss distributions (its accountant, which has no (epsilon, delta) event and no
Skellam, ignores `count` for randomised response, and doubles a Gaussian's sensitivity under replace-one):

* a pure epsilon is binary randomised response with p = 2/(1 + e^epsilon), and k of the same are composed at once. Any
  epsilon-private mechanism is a post-processing of it (Kairouz, Oh, Viswanath 2015);
* an (epsilon, delta) mechanism that is not Gaussian is the same with delta added by us (same theorem);
* Gaussians of multipliers sigma_i/S_i are together one, of multiplier (sum S_i^2/sigma_i^2)^(-1/2);
* a sampler's total variation d from its law adds (1 + e^epsilon) d, with the epsilon of the whole composition.

**One delta.** A release is stated at one delta wherever it is written: the target of its Gaussian noise (0 for other
noise) plus `NUMERICAL_DELTA`, which covers sampling, clipping and rounding. The accountant composes that number.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist

from psephos.protocol.errors import BudgetExceededError, InvalidParameter
from psephos.protocol.privacy.mechanisms import (
    MAX_EPSILON,
    NoiseMechanism,
    RoundedGaussian,
    check_delta,
    check_epsilon,
    gaussian_delta,
)

NUMERICAL_DELTA = 2.0**-64
"""What sampling, clipping and rounding may cost one release, in delta: (1 + e^epsilon) 2^-160 is below it up to
epsilon = 64. The delta of noise whose law is pure."""


@dataclass(frozen=True)
class PrivacyEvent:
    """What one release did.

    epsilon, delta: its own guarantee, sampler included. multiplier: sigma/S for a Gaussian (None otherwise), which
    composes tighter than its (epsilon, delta). distance: the sampler's total variation from its law. unit: who is
    protected. Raises InvalidParameter for numbers out of range, NaN among them.
    """

    name: str
    epsilon: float
    delta: float
    multiplier: float | None = None
    distance: float = 0.0
    unit: str = "party"

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if not (0 <= self.delta < math.inf and 0 <= self.distance <= 1):
            raise InvalidParameter(f"{self.name}: delta {self.delta} and distance {self.distance} are no probabilities")
        if self.multiplier is not None and not 0 < self.multiplier < math.inf:
            raise InvalidParameter(f"{self.name}: a noise multiplier of {self.multiplier} is none")


def pure_event(name: str, epsilon: float, *, distance: float = 0.0, unit: str = "party") -> PrivacyEvent:
    """A pure epsilon, up to the distance of its sampler; raises InvalidParameter for one out of range."""
    epsilon = check_epsilon(epsilon)
    return PrivacyEvent(name, epsilon, (1 + math.exp(epsilon)) * distance, distance=distance, unit=unit)


def approximate_event(name: str, epsilon: float, delta: float, *, unit: str = "party") -> PrivacyEvent:
    """An (epsilon, delta) guarantee of a mechanism dp-accounting does not know (Skellam, truncated shares).

    Raises InvalidParameter for an epsilon or delta out of range.
    """
    return PrivacyEvent(name, check_epsilon(epsilon), check_delta(delta), unit=unit)


def gaussian_event(
    name: str, sigma: float, sensitivity: float, epsilon: float, *, distance: float = 0.0, unit: str = "party"
) -> PrivacyEvent:
    """A Gaussian of standard deviation `sigma` on a value of L2 sensitivity `sensitivity`, stated at `epsilon`.

    Raises InvalidParameter for an epsilon out of range.
    """
    delta = gaussian_delta(sensitivity, check_epsilon(epsilon), sigma) + (1 + math.exp(epsilon)) * distance
    return PrivacyEvent(name, epsilon, delta, multiplier=sigma / sensitivity, distance=distance, unit=unit)


def event_of(
    name: str, mechanism: NoiseMechanism, sensitivity: float, epsilon: float, unit: str = "party"
) -> PrivacyEvent:
    """The event of releasing a value of that sensitivity (in the mechanism's norm) through `mechanism`.

    Raises InvalidParameter for an epsilon out of range.
    """
    if isinstance(mechanism, RoundedGaussian):
        return gaussian_event(name, mechanism.sigma, sensitivity, epsilon, distance=mechanism.distance, unit=unit)
    return pure_event(name, epsilon, distance=mechanism.distance, unit=unit)


def stated_delta(target: float = 0.0) -> float:
    """The delta at which a release is stated: the target of its Gaussian noise, 0 for other noise, and numerical error.

    Known before the release, so what is agreed on and what is published show the same number.
    """
    return target + NUMERICAL_DELTA


def stated(event: PrivacyEvent, target: float) -> PrivacyEvent:
    """The event at its stated delta; the guarantee that was worked out for it is at most that.

    Args:
        target: of the Gaussian noise. An event that costs no more than `NUMERICAL_DELTA` has none.

    Raises InvalidParameter for an event that costs more than it is stated at.
    """
    delta = stated_delta(0.0 if event.delta <= NUMERICAL_DELTA else target)
    if event.delta > delta:
        raise InvalidParameter(f"{event.name} costs delta {event.delta!r}, more than the {delta!r} it is stated at")
    return replace(event, delta=delta)


def compose(events: Iterable[PrivacyEvent], delta: float) -> float:
    """The epsilon of all events together at `delta`: the better of basic composition and PLD.

    Basic composition (the sum of the epsilons, when the deltas sum to at most `delta`) is exact for one event and all
    that is left when delta is near 0. The answer is inf when delta is too small for either. Raises InvalidParameter for
    a delta outside [0, 1).
    """
    if not 0 <= delta < 1:
        raise InvalidParameter(f"delta is {delta}; it must be at least 0 and below 1")
    events = list(events)
    if not events:
        return 0.0
    basic = math.inf
    if sum(e.delta for e in events) <= delta:
        basic = math.fsum(e.epsilon for e in events)
    # The samplers at the largest epsilon that is ever returned from here.
    left = delta - (1 + math.exp(MAX_EPSILON)) * math.fsum(e.distance for e in events)
    # What a delta holds besides its own sampler; a Gaussian's is in its multiplier.
    left -= sum(max(0.0, e.delta - (1 + math.exp(e.epsilon)) * e.distance) for e in events if e.multiplier is None)
    if left <= 0 or (basic < math.inf and (len(events) == 1 or _beyond(events, left))):
        return basic
    from dp_accounting.pld import privacy_loss_distribution as pld  # a second, and most budgets compose nothing

    total = pld.identity()
    for epsilon, times in Counter(e.epsilon for e in events if e.multiplier is None).items():
        total = total.compose(pld.from_randomized_response(2 / (1 + math.exp(epsilon)), 2).self_compose(times))
    if gaussians := [e.multiplier**-2 for e in events if e.multiplier is not None]:  # adaptive ones too are one
        total = total.compose(pld.from_gaussian_mechanism(math.fsum(gaussians) ** -0.5))
    tight = float(total.get_epsilon_for_delta(left))
    return min(basic, tight if tight <= MAX_EPSILON else math.inf)


def _beyond(events: Sequence[PrivacyEvent], delta: float) -> bool:
    """Whether the PLD would only find, in minutes, that their epsilon is above `MAX_EPSILON`: the privacy losses add up
    to a nearly normal variable, of which delta is about the upper tail. Where it errs, basic composition holds as well.
    """
    mean = variance = 0.0
    for event in events:
        loss = event.epsilon if event.multiplier is None else 1 / event.multiplier
        gaussian = event.multiplier is not None
        mean += loss * loss / 2 if gaussian else loss * math.tanh(loss / 2)
        variance += loss * loss if gaussian else (loss / math.cosh(loss / 2)) ** 2
    quantile = NormalDist().inv_cdf(max(min(delta, 0.5), 1e-300))
    return mean - quantile * math.sqrt(variance) > 1.2 * MAX_EPSILON


def shown_together(events: Iterable[PrivacyEvent]) -> tuple[float, float]:
    """What releasing **any** of these costs once all have been looked at: (epsilon, delta) of all of them together.

    Choosing after looking is a function of everything that was looked at, so what is not published is paid for as well:
    the better of five 1-private releases need not be 4-private (`tests/protocol/privacy/test_accounting.py`). The delta
    is the sum of theirs and 2^-40 for the accountant; one event is not composed, and costs its own.
    """
    events = list(events)
    if len(events) == 1:
        return events[0].epsilon, events[0].delta
    delta = math.fsum(event.delta for event in events) + 2.0**-40
    return compose(events, delta), delta


@dataclass
class Budget:
    """What one party is willing to spend over its life: (epsilon, delta), replace-one of everything it holds.

    `charge` refuses, with BudgetExceededError and nothing changed, a release that would exceed it. It lasts as long as
    this object: whoever restarts hands in the `events` so far. Raises InvalidParameter for numbers out of range.
    """

    epsilon: float
    delta: float = 2.0**-50
    events: list[PrivacyEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)

    def spent(self) -> float:
        """The epsilon of everything charged so far, at the budget's delta."""
        return compose(self.events, self.delta)

    def after(self, event: PrivacyEvent) -> float:
        """The epsilon there would be after `event` (a dry run: nothing changes)."""
        return compose([*self.events, event], self.delta)

    def allows(self, event: PrivacyEvent) -> bool:
        """Whether `charge` would accept."""
        return self.after(event) <= self.epsilon * (1 + 1e-12)

    def check(self, event: PrivacyEvent) -> None:
        """Raise BudgetExceededError, with the sums, if `event` does not fit (a dry run: nothing changes).

        Raises InvalidParameter for an event that protects less than everything a party holds.
        """
        if not event.unit.startswith("party"):
            raise InvalidParameter(f"{event.name} protects one {event.unit}, and a party's budget is for all it holds")
        after = self.after(event)
        if after > self.epsilon * (1 + 1e-12):
            raise BudgetExceededError(
                f"{event.name} would bring the total to epsilon = {after:.6g} at delta = {self.delta:.3g}, and the "
                f"budget is {self.epsilon:g} ({self.spent():.6g} spent); lower the release's epsilon or delta, or "
                "raise the budget"
            )

    def charge(self, event: PrivacyEvent) -> None:
        """Record `event`; raises BudgetExceededError or InvalidParameter, as `check`, with nothing recorded."""
        self.check(event)
        self.events.append(event)
