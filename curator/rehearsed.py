"""The plan of a rehearsed step from a public model, and its release (docs/theory.md, "The rehearsed step").

The plan is a function of public values: labelled public rows, the announced number of rows of a party, and the noise.
It is fixed, and named by a digest, before any party computes anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from psephos.curator.checks import check_count, noise_inflation, public_features
from psephos.curator.hamm.sensitivity import Sensitivity
from psephos.curator.noise_plan import NoisePlan, certified, check_mechanism, joint_noise, variance_of
from psephos.curator.rehearsal import Noise, PublicModel, Rehearsal, fit_public, rehearse, shrink
from psephos.curator.remembered import remembered
from psephos.curator.statistic import MechanismName, grid_sensitivity
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.directions import FIXED_POINT
from psephos.protocol.grids.fixed_point import Norm
from psephos.protocol.grids.local_step import LocalStepGrid
from psephos.protocol.grids.own_data import contrast_basis
from psephos.protocol.privacy.precision import rounded_up

Array = NDArray[np.float64]

REHEARSED_ROWS = 100
"""Announced rows of a party where nobody says otherwise."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RehearsedPlan(NoisePlan):
    """The public parameters of a rehearsed step; `scale` is the factor from the shrunken mean to the step."""

    grid: LocalStepGrid
    scale: float

    event_name: ClassVar[str] = "rehearsed step"

    @property
    def rank(self) -> int:
        """Number of coordinates, without the constant."""
        return self.grid.rank - 1

    @property
    def sensitivity(self) -> Sensitivity:
        """Sensitivity of the mean of the parties' vectors, in the mechanism's norm: 2/M."""
        return replace(self.bound, value=self.bound.value / (self.grid.maximum * self.parties))

    @property
    def variance(self) -> float:
        """Variance of the whole noise in an entry of the sum of all M vectors of norm 1; 0 without noise."""
        return self.noise_variance / 4.0**FIXED_POINT.fraction_bits


@remembered
def rehearsal_of(  # wide: every keyword is a public term of the release
    X: Array,
    labels: NDArray[np.integer],
    classes: int,
    parties: int,
    *,
    rows: int,
    epsilon: float,
    delta: float = 1e-6,
    mechanism: MechanismName = "discrete-laplace",
    contributors: int | None = None,
    model: PublicModel | None = None,
    done: Callable[[int], object] = lambda worlds: None,
) -> Rehearsal:
    """Rehearse the step that parties could add to a public model, from public quantities.

    Args:
        X: float64 (N, d), the scaled public rows, whose last feature is the constant of the scaling.
        labels: class numbers (N,), -1 where a public row has no label.
        classes, parties: K, M.
        rows: about how many rows a party has, as announced.
        epsilon, delta, mechanism: "discrete-laplace", or "gaussian", for which the rehearsal may choose either noise.
        contributors: number of parties whose shares make up the noise; by default all.
        model: the public model of these rows, where it is known already.
        done: called with 1 after each of `WORLDS` simulated worlds.
    """
    check_mechanism(mechanism, joint=True)
    check_count(classes, "the number of classes", 2)
    check_count(rows, "the announced number of rows")
    inflation = noise_inflation(parties, contributors)
    norms: tuple[Norm, ...] = ("l1",) if mechanism == "discrete-laplace" else ("l2", "l1")
    known: dict[tuple[Norm, int], Noise] = {}

    def noise(norm: Norm, entries: int) -> Noise:
        if (norm, entries) not in known:
            law = joint_noise(norm, rounded_up(2.0 * FIXED_POINT.limit(1.0)), epsilon, delta, entries)
            variance = variance_of(law) / 4.0**FIXED_POINT.fraction_bits * inflation
            known[norm, entries] = Noise(norm, math.sqrt(variance) / parties, inflation)
        return known[norm, entries]

    model = model or fit_public(public_features(X), labels, classes)
    return rehearse(model, parties, rows, [partial(noise, norm) for norm in norms], done=done)


def plan_rehearsed(rehearsal: Rehearsal, parties: int, **terms: Any) -> RehearsedPlan:
    """Plan the step that a rehearsal has chosen; `terms`: of `plan_of_grid`, the same as those of `rehearsal_of`."""
    model, chosen = rehearsal.model, rehearsal.plan
    grid = LocalStepGrid(
        model.transform(chosen.rank, chosen.power),
        model.offset,
        model.classes,
        chosen.ridge,
        rehearsal.limit,
        rehearsal.radius,
        rehearsal.noise.norm,
    )
    return plan_of_grid(grid, rehearsal.unit * chosen.length, parties, **terms)


def plan_of_grid(
    grid: LocalStepGrid,
    scale: float,
    parties: int,
    *,
    epsilon: float,
    delta: float = 1e-6,
    contributors: int | None = None,
) -> RehearsedPlan:
    """Plan a step of which everything but the noise is fixed; `scale` is that of `RehearsedPlan`."""
    if not 0 < scale < math.inf:
        raise InvalidParameter(f"the scale of a step is a positive number, not {scale}")
    bounds = certified(grid_sensitivity(grid))
    return RehearsedPlan.of(grid, grid.norm, bounds, parties, epsilon, delta, contributors, scale=scale)


def fit_rehearsed(plan: RehearsedPlan, total: list[int], ballots: int | None = None) -> Array:
    """Return the classifier of scaled rows, (d,) or (K, d), of a sum of `ballots` parties that carries its noise.

    Post-processing of it and of public values.
    """
    plan.values(total)
    counted, grid = plan.parties if ballots is None else ballots, plan.grid
    if not 1 <= counted <= plan.parties:
        raise InvalidParameter(f"between 1 and {plan.parties} parties can be counted, not {counted}")
    mean = FIXED_POINT.mean(total, counted).reshape(grid.classes - 1, grid.rank)
    deviation = math.sqrt(plan.variance * counted / plan.parties) / counted
    step = shrink(mean, deviation) * plan.scale
    return _classifier(grid.offset + grid.transform @ step.T, grid.classes)


def model_classifier(model: PublicModel) -> Array:
    """Return the public model as a classifier of scaled rows, float64 (d,) for two classes, (K, d) for more."""
    return _classifier(model.offset, model.classes)


def _classifier(scores: Array, classes: int) -> Array:
    """Return scores (d, K - 1) as a classifier, (d,) or (K, d)."""
    return scores[:, 0] if classes == 2 else contrast_basis(classes).T @ scores.T
