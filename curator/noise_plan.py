"""What the plans of sums have in common whose noise the parties add in shares: bounds, noise, cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from psephos.curator.hamm.sensitivity import Sensitivity
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.fixed_point import Norm
from psephos.protocol.privacy.accounting import PrivacyEvent, event_of, pure_event
from psephos.protocol.privacy.mechanisms import (
    SAMPLER_DISTANCE,
    DiscreteGaussian,
    DiscreteLaplace,
    discrete_gaussian_variance,
)

__all__ = ["JointNoise", "NoisePlan", "joint_noise"]

JointNoise = DiscreteLaplace | DiscreteGaussian
"""The laws that parties can add in shares."""


def joint_noise(norm: Norm, bound: float, epsilon: float, delta: float, entries: int) -> JointNoise:
    """Return the noise of a sum of this sensitivity: discrete Laplace in L1, discrete Gaussian in L2."""
    if norm == "l1":
        return DiscreteLaplace.for_epsilon(bound, epsilon, entries, 1.0)
    return DiscreteGaussian(entries, discrete_gaussian_variance(bound, epsilon, delta))


class NoisePlan:
    """Base of the plans of noisy sums.

    Attributes:
        grid: maps one party's rows to the integers that are summed.
        l1, l2: certified sensitivities, in lattice units.
        epsilon: privacy parameter; None releases without noise.
        mechanism: the noise, in lattice units; None releases without noise.
        inflation: variance of the noise that the curator gets, as a multiple of the mechanism's.
        event_name: of the privacy event.
    """

    grid: Any
    l1: Sensitivity
    l2: Sensitivity
    epsilon: float | None
    mechanism: JointNoise | None
    inflation: float
    event_name: ClassVar[str]

    @property
    def dimension(self) -> int:
        """Number of entries of the sum."""
        return int(self.grid.length)

    @property
    def event(self) -> PrivacyEvent:
        """Privacy cost of one release. Raises InvalidParameter for a plan without noise."""
        if self.mechanism is None or self.epsilon is None:
            raise InvalidParameter("this plan adds no noise, so it has no privacy cost; give it an epsilon")
        if isinstance(self.mechanism, DiscreteGaussian):
            return event_of(self.event_name, self.mechanism, self.l2.value, self.epsilon, unit=self.l2.unit)
        return pure_event(self.event_name, self.epsilon, distance=SAMPLER_DISTANCE, unit=self.l1.unit)

    @property
    def noise_variance(self) -> float:
        """Variance of the whole noise in an entry of the sum, in squared lattice units; 0 without noise."""
        if self.mechanism is None:
            return 0.0
        return variance_of(self.mechanism) * self.inflation

    def _bound_over(self, units: float) -> Sensitivity:
        """Return the sensitivity of the sum in the mechanism's norm, divided by `units`."""
        bound = self.l1 if isinstance(self.mechanism, DiscreteLaplace) else self.l2
        return replace(bound, value=bound.value / units)


def variance_of(mechanism: JointNoise) -> float:
    """Return the variance of an entry of the noise, in squared lattice units."""
    return (
        float(mechanism.variance) if isinstance(mechanism, DiscreteGaussian) else 2 * float(mechanism.scale_units) ** 2
    )
