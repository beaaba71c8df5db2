"""Privacy accounting: the events of releases, and their composition.

Neighbours differ in everything that one party holds, with M fixed (replace one). Events are composed by their privacy
loss distributions (PLD, `composition.py`):

* a pure epsilon is binary randomised response with p = 2/(1 + e^epsilon), and k of the same are composed at once. Any
  epsilon-private mechanism is a post-processing of it (Kairouz, Oh, Viswanath 2015);
* an (epsilon, delta) mechanism that is not Gaussian is the same, with delta added to the result (same theorem);
* Gaussians of multipliers sigma_i/S_i compose to one of multiplier (sum S_i^2/sigma_i^2)^(-1/2);
* a sampler's total variation d from its law adds (1 + e^epsilon) d, with the epsilon of the whole composition.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from psephos.protocol.errors import InvalidParameter
from psephos.protocol.privacy.composition import composed_epsilon
from psephos.protocol.privacy.mechanisms import (
    MAX_EPSILON,
    DiscreteGaussian,
    NoiseMechanism,
    RoundedGaussian,
    check_epsilon,
    gaussian_delta,
)

NUMERICAL_DELTA = 2.0**-64
"""Bound of the delta that sampling, clipping and rounding add to one release: (1 + e^epsilon) 2^-160 is smaller for
every epsilon up to 64. It is the stated delta of noise whose law is pure.
"""


@dataclass(frozen=True)
class PrivacyEvent:
    """The privacy cost of one release; InvalidParameter for a number that is out of range or NaN.

    Attributes:
        epsilon, delta: its guarantee, sampler included.
        multiplier: sigma/S for a Gaussian, which composes more tightly than its (epsilon, delta); None otherwise.
        distance: total variation between the sampler and its law.
        unit: the unit of privacy, "party" or "record".
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
            raise InvalidParameter(
                f"{self.name}: delta {self.delta} and distance {self.distance} must be probabilities"
            )
        if self.multiplier is not None and not 0 < self.multiplier < math.inf:
            raise InvalidParameter(
                f"{self.name}: the noise multiplier is {self.multiplier}; it must be positive and finite"
            )


def pure_event(name: str, epsilon: float, *, distance: float = 0.0, unit: str = "party") -> PrivacyEvent:
    """Create the event of a pure epsilon, up to the distance of its sampler; raises InvalidParameter."""
    epsilon = check_epsilon(epsilon)
    return PrivacyEvent(name, epsilon, (1 + math.exp(epsilon)) * distance, distance=distance, unit=unit)


def gaussian_event(
    name: str, sigma: float, sensitivity: float, epsilon: float, *, distance: float = 0.0, unit: str = "party"
) -> PrivacyEvent:
    """Create the event of Gaussian noise for an L2 sensitivity; delta is that at `epsilon`."""
    delta = gaussian_delta(sensitivity, check_epsilon(epsilon), sigma) + (1 + math.exp(epsilon)) * distance
    return PrivacyEvent(name, epsilon, delta, multiplier=sigma / sensitivity, distance=distance, unit=unit)


def event_of(
    name: str, mechanism: NoiseMechanism, sensitivity: float, epsilon: float, unit: str = "party"
) -> PrivacyEvent:
    """Create the event of releasing a value of this sensitivity (in the mechanism's norm) through a mechanism."""
    if isinstance(mechanism, RoundedGaussian | DiscreteGaussian):
        return gaussian_event(name, mechanism.sigma, sensitivity, epsilon, distance=mechanism.distance, unit=unit)
    return pure_event(name, epsilon, distance=mechanism.distance, unit=unit)


def stated_delta(target: float = 0.0) -> float:
    """Return the delta at which a release is stated wherever it is written, known before the release.

    It is the target of its Gaussian noise (0 for other noise), plus numerical error.
    """
    return target + NUMERICAL_DELTA


def stated(event: PrivacyEvent, target: float) -> PrivacyEvent:
    """Return the event with the `stated_delta` of its target, which an event of pure noise ignores.

    Raises InvalidParameter for an event that costs more.
    """
    delta = stated_delta(0.0 if event.delta <= NUMERICAL_DELTA else target)
    if event.delta > delta:
        raise InvalidParameter(f"{event.name} costs delta {event.delta!r}, more than the {delta!r} it is stated at")
    return replace(event, delta=delta)


def compose(events: Iterable[PrivacyEvent], delta: float) -> float:
    """Return the epsilon of all events together at `delta`: the smaller of basic composition and PLD.

    Basic composition (the sum of the epsilons, if the deltas sum to at most `delta`) is exact for one event. The result
    is inf if delta is too small for either.
    """
    if not 0 <= delta < 1:
        raise InvalidParameter(f"delta is {delta}; it must be at least 0 and below 1")
    events = list(events)
    if not events:
        return 0.0
    basic = math.inf
    if sum(e.delta for e in events) <= delta:
        basic = math.fsum(e.epsilon for e in events)
    # The samplers are charged at the largest epsilon that can be returned.
    remaining = delta - (1 + math.exp(MAX_EPSILON)) * math.fsum(e.distance for e in events)
    # Deltas besides those of the samplers; a Gaussian's follows from its multiplier.
    remaining -= sum(max(0.0, e.delta - (1 + math.exp(e.epsilon)) * e.distance) for e in events if e.multiplier is None)
    if remaining <= 0 or (basic < math.inf and len(events) == 1):
        return basic
    counts = Counter(e.epsilon for e in events if e.multiplier is None)
    mu = math.sqrt(math.fsum(e.multiplier**-2 for e in events if e.multiplier is not None))
    return min(basic, composed_epsilon(counts, mu, remaining, MAX_EPSILON))


def shown_together(events: Iterable[PrivacyEvent]) -> tuple[float, float]:
    """Return (epsilon, delta) of a choice among several releases, of which unpublished ones cost as well.

    The delta is the sum of theirs plus 2^-40 for the composition; a single event is not composed.
    """
    events = list(events)
    if len(events) == 1:
        return events[0].epsilon, events[0].delta
    delta = math.fsum(event.delta for event in events) + 2.0**-40
    return compose(events, delta), delta
