"""The two releases that Hamm's section 3.2 dismisses, for the record: what they cost, measured rather than asserted.

* **Noisy majority per query**: answer a test sample by the class with the largest noisy count. Each answer spends
  budget for ever, so T answers at a total epsilon carry Laplace noise of scale 2 T/epsilon on every count.
* **All classifiers perturbed**: publish every party's parameters, each with its own noise. Nothing is averaged before
  the noise, so the sensitivity is that of one classifier: 2 C for parameters projected on a ball of radius C.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from psephos.curator.hamm.labels import check_counts
from psephos.curator.hamm.sensitivity import average, with_lattice
from psephos.curator.pate import plan_pate, release_pate
from psephos.protocol.errors import DataError
from psephos.protocol.grids.fixed_point import project
from psephos.protocol.privacy.accounting import PrivacyEvent, pure_event
from psephos.protocol.privacy.mechanisms import SAMPLER_DISTANCE, SphericalLaplace, check_epsilon, choose_pitch, release
from psephos.protocol.randomness import SYSTEM, Randomness

__all__ = ["all_classifiers", "all_classifiers_event", "noisy_majority"]

Array = NDArray[np.float64]


def noisy_majority(
    counts: NDArray[np.integer], parties: int, epsilon: float, randomness: Randomness = SYSTEM
) -> tuple[NDArray[np.int64], PrivacyEvent]:
    """Private answers, int64 (T,), to every row of `counts`, integers (T, K), at a total pure epsilon; and their cost.

    Hamm 2016, section 3.2; the noise is that of LNMax (Papernot et al. 2017) with every row a query.

    Raises:
        DataError: counts that are no such table, or a row that does not sum to `parties`, at least 1.
        InvalidParameter: an epsilon outside (0, 64].
    """
    counts = check_counts(counts, parties)
    plan = plan_pate(len(counts), counts.shape[1], parties, epsilon=epsilon, aggregator="lnmax", queries=len(counts))
    return release_pate(counts, plan, randomness).answers, plan.event


def all_classifiers_event(epsilon: float) -> PrivacyEvent:
    """What publishing every perturbed classifier costs each party: its own is the only one that depends on it."""
    return pure_event("all classifiers", epsilon, distance=SAMPLER_DISTANCE)


def all_classifiers(
    parameters: Array, radius: float, epsilon: float, randomness: Randomness = SYSTEM
) -> tuple[Array, PrivacyEvent]:
    """Every party's parameters (M, D), projected on the ball of public `radius`, each with its own spherical noise."""
    epsilon = check_epsilon(epsilon)
    parameters = np.asarray(parameters, dtype=np.float64)
    if parameters.ndim != 2 or parameters.size == 0 or not np.all(np.isfinite(parameters)):
        raise DataError(f"parameters must be a finite matrix (parties, length); got shape {parameters.shape}")
    length = parameters.shape[1]
    bound = average(radius, 1)
    pitch = choose_pitch(bound.value, length)
    mechanism = SphericalLaplace.for_epsilon(with_lattice(bound, pitch, length).value, epsilon, length, pitch)
    noisy = np.stack([release(project(row, radius), mechanism, randomness) for row in parameters])
    return noisy, all_classifiers_event(epsilon)
