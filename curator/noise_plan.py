"""What the plans of noisy sums have in common: bounds, noise, cost, and the check of a sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from psephos.curator.checks import noise_inflation
from psephos.curator.hamm.sensitivity import Sensitivity
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.grids.fixed_point import Norm
from psephos.protocol.privacy.accounting import PrivacyEvent, event_of, pure_event
from psephos.protocol.privacy.mechanisms import (
    SAMPLER_DISTANCE,
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseMechanism,
    discrete_gaussian_variance,
)
from psephos.protocol.privacy.precision import rounded_up

Unit = Literal["record", "party"]
UNITS: tuple[Unit, ...] = get_args(Unit)
"""What a step or an evaluation protects: one row that is replaced, added or removed, or all that a party holds."""

JointNoise = DiscreteLaplace | DiscreteGaussian
"""The laws that parties can add in shares."""


def check_mechanism(name: str, *, joint: bool) -> None:
    """Raise InvalidParameter for an unknown mechanism, or for one that parties cannot add in shares (`joint`)."""
    known = ("discrete-laplace", "gaussian") if joint else ("spherical-laplace", "discrete-laplace", "gaussian")
    if name not in known:
        where = " of noise in shares (rounded shares do not sum to a rounded law)" if joint else ""
        raise InvalidParameter(f"the mechanism{where} is one of {', '.join(known)}, not {name!r}")


def joint_noise(norm: Norm, bound: float, epsilon: float, delta: float, entries: int) -> JointNoise:
    """Return the noise of a sum of this sensitivity: discrete Laplace in L1, discrete Gaussian in L2."""
    if norm == "l1":
        return DiscreteLaplace.for_epsilon(bound, epsilon, entries, 1.0)
    return DiscreteGaussian(entries, discrete_gaussian_variance(bound, epsilon, delta))


def variance_of(mechanism: JointNoise) -> float:
    """Return the variance of an entry of the noise, in squared lattice units."""
    if isinstance(mechanism, DiscreteGaussian):
        return float(mechanism.variance)
    return 2 * float(mechanism.scale_units) ** 2


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisePlan:
    """The public parameters of one noisy sum, fixed before anybody sums.

    Attributes:
        grid: maps one party's data to the integers that are summed.
        parties: M.
        l1, l2: certified sensitivities of the sum, in lattice units; independent of M.
        epsilon: privacy parameter; None releases without noise.
        delta: delta of Gaussian noise, else 0.
        mechanism: the noise, in lattice units; None releases without noise.
        inflation: variance of the noise that the curator gets, as a multiple of the mechanism's.
        joint: whether the parties add the noise in shares, rather than the curator.
    """

    grid: Any
    parties: int
    l1: Sensitivity
    l2: Sensitivity
    epsilon: float | None
    delta: float
    mechanism: NoiseMechanism | None
    inflation: float = 1.0
    joint: bool = True

    event_name: ClassVar[str]

    @classmethod
    def of(
        cls,
        grid: Any,
        norm: Norm,
        bounds: tuple[Sensitivity, Sensitivity],
        parties: int,
        epsilon: float | None,
        delta: float,
        contributors: int | None = None,
        **more: Any,
    ) -> Self:
        """Return the plan of a sum with joint noise that is calibrated in a norm, of (L1, L2) sensitivity `bounds`.

        `contributors`: number of parties whose shares make up the noise; by default all. `more`: the other attributes.
        """
        l1, l2 = bounds
        bound = (l1 if norm == "l1" else l2).value
        return cls(
            grid=grid,
            parties=parties,
            l1=l1,
            l2=l2,
            epsilon=epsilon,
            delta=0.0 if norm == "l1" else delta,
            mechanism=None if epsilon is None else joint_noise(norm, bound, epsilon, delta, grid.length),
            inflation=noise_inflation(parties, contributors),
            **more,
        )

    @property
    def dimension(self) -> int:
        """Number of entries of the sum."""
        return int(self.grid.length)

    @property
    def bound(self) -> Sensitivity:
        """Sensitivity of the sum in the mechanism's norm, in lattice units."""
        return self.l1 if isinstance(self.mechanism, DiscreteLaplace) else self.l2

    @property
    def event(self) -> PrivacyEvent:
        """Privacy cost of one release. Raises InvalidParameter for a plan without noise."""
        if self.mechanism is None or self.epsilon is None:
            raise InvalidParameter("this plan adds no noise, so it has no privacy cost; give it an epsilon")
        if self.joint and isinstance(self.mechanism, DiscreteLaplace):
            return pure_event(self.event_name, self.epsilon, distance=SAMPLER_DISTANCE, unit=self.l1.unit)
        return event_of(self.event_name, self.mechanism, self.bound.value, self.epsilon, unit=self.bound.unit)

    @property
    def noise_variance(self) -> float:
        """Variance of the whole joint noise in an entry of the sum, in squared lattice units; 0 without noise."""
        if not isinstance(self.mechanism, JointNoise):
            return 0.0
        return variance_of(self.mechanism) * self.inflation

    def values(self, total: Sequence[int]) -> NDArray[np.float64]:
        """Return a sum as float64 (dimension,); raises DataError for another number of entries."""
        if len(total) != self.dimension:
            raise DataError(f"the sum has {len(total)} entries, and {self.dimension} were planned")
        return np.array([float(entry) for entry in total])


def certified(bounds: tuple[Sensitivity, Sensitivity]) -> tuple[Sensitivity, Sensitivity]:
    """Return the L1 and the L2 sensitivity, rounded up to numbers that every machine computes alike."""
    l1, l2 = (replace(bound, value=rounded_up(bound.value)) for bound in bounds)
    return l1, l2
