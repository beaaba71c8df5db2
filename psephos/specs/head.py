"""The mean of linear classifiers that the parties bring, with noise in shares, for privacy of a party."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from psephos.curator.hamm.sensitivity import Sensitivity
from psephos.curator.noise_plan import NoisePlan, certified
from psephos.curator.statistic import grid_sensitivity
from psephos.progress import Progress, silent
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.directions import FIXED_POINT
from psephos.protocol.grids.head import HeadGrid
from psephos.protocol.paillier.packing import IntegerVector
from psephos.specs.base import Array, Expectation
from psephos.specs.noisy import NoisySumSpec
from psephos.specs.secrets import CLASSIFIER, DATA, EXACT_SUM, NOISE, OTHER_SUM, SIZES, Secret
from psephos.specs.terms import PrivacyTerms, PublicTerms

LONGEST = 1.5
"""Largest root mean square length of the noise in a mean of heads, as a multiple of the radius of their ball.

Measured on `docs/examples/heads.py` (heads of norm 0.9, radius 1) with 4,000 draws: the mean is right on 0.970 of rows,
the most frequent class on 0.760. Noise of length 1 leaves 0.955, of 1.5 0.918, of 2 0.871 and of 3 0.791; it makes the
mean worse than the most frequent class in 0, 4, 13 and 30 % of the draws.
"""


@dataclass(frozen=True, eq=False, kw_only=True)
class HeadPlan(NoisePlan):
    """The public parameters of a mean of heads."""

    grid: HeadGrid

    event_name: ClassVar[str] = "mean of heads"

    @property
    def sensitivity(self) -> Sensitivity:
        """Sensitivity of the mean: 2 radius/M in L2."""
        value = self.bound.value * self.grid.radius / (self.grid.maximum * self.parties)
        return replace(self.bound, value=value, source="2 radius/M, heads clipped to the radius")

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise in an entry of the mean."""
        return math.sqrt(self.noise_variance) * self.grid.radius / (self.grid.maximum * self.parties)


@dataclass(frozen=True)
class HeadSpec(NoisySumSpec):
    """The mean of the parties' linear classifiers, each clipped to a ball of a public radius (docs/theory.md)."""

    methods = ("mean",)
    summand = "linear classifiers that parties bring"
    sends: ClassVar[Mapping[str, str]] = {
        "mean": "Each party sends the parameters of its own linear classifier, clipped to a ball of a public radius."
    }
    parameters: ClassVar[Mapping[str, Any]] = {
        "radius": float,
        **NoisySumSpec.parameters,
        "noise_from": "parties",
    }
    secrets: ClassVar[tuple[Secret, ...]] = (DATA, CLASSIFIER, NOISE, SIZES, EXACT_SUM, OTHER_SUM)
    linear = True

    release_plan: HeadPlan

    @classmethod
    def plan(cls, public: PublicTerms, privacy: PrivacyTerms, progress: Progress = silent) -> Self:
        if privacy.epsilon is None or not privacy.delta:
            raise InvalidParameter(
                "heads in a ball take discrete Gaussian noise, and delta is 0: choose a delta, such as 1e-6"
            )
        grid = HeadGrid(public.samples.shape[1], public.classes, public.required("radius"))
        bounds = certified(grid_sensitivity(grid))
        plan = HeadPlan.of(grid, grid.norm, bounds, public.parties, privacy.epsilon, privacy.delta)
        return cls.private(plan, privacy)

    def expected(self, public: PublicTerms) -> Expectation:
        """See `Spec.expected`; how long the noise of the mean is, beside the longest head."""
        plan = self.counting(public.parties)
        length = plan.deviation * math.sqrt(plan.dimension) / plan.grid.radius
        words = (
            f"With {plan.parties} parties, at epsilon {plan.epsilon:g} per party, the noise of the mean would be "
            f"{length:.2f} times as long as the longest head, and the mean is useful at {LONGEST:g} or less."
        )
        return Expectation(length <= LONGEST, words, (f"{math.ceil(plan.parties * length / LONGEST)} parties",))

    @property
    def takes_classifier(self) -> bool:
        return True

    def vector(self, data: Any) -> IntegerVector:
        """See `SumSpec.vector`; `data` is a classifier with `parameters`, (K, d) or, for two classes, (d,)."""
        return self.release_plan.grid.contribution(data.parameters)

    def counting(self, ballots: int) -> HeadPlan:
        return replace(self.release_plan, inflation=self.inflation(ballots), parties=ballots)

    def fitted(self, opened: OpenedSum) -> Array:
        self.release_plan.values(opened.sums)
        return self.release_plan.grid.head(FIXED_POINT.mean(opened.sums, opened.ballots))

    def summary(self, result: OpenedSum) -> str:
        """See `Spec.summary`; how large the noise is, from public values."""
        plan, radius = self.counting(result.ballots), self.release_plan.grid.radius
        return (
            f"every parameter of scaled columns has noise of standard deviation {plan.deviation:.3g}, and all "
            f"parameters of a party have norm {radius:g} at most"
        )

    @property
    def choices(self) -> dict[str, Any]:
        return {"radius": self.release_plan.grid.radius}
