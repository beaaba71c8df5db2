"""The plan of a rehearsed study: a function of its public rows and terms, which everybody can compute again.

Another machine's linear algebra may differ in the last bits, so that matrices are compared with a tolerance. No privacy
depends on the comparison: the sensitivity is the same for any plan (docs/theory.md, "The rehearsed step").
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from psephos.curator.rehearsal import WORLDS
from psephos.curator.rehearsed import plan_rehearsed, rehearsal_of
from psephos.parties.noise import contributors
from psephos.progress import Progress, counted, silent
from psephos.protocol.errors import NoGainError
from psephos.protocol.study.study import Study
from psephos.specs.registry import coalition_of, spec_of
from psephos.specs.rehearsed import RehearsedSpec
from psephos.specs.study import StudyTerms, encode_coordinates
from psephos.study.samples import PublicSamples

__all__ = ["agrees", "differs_from_rehearsal", "rehearsed_parameters"]

_TOLERANCE = 1e-4
"""Largest difference of two machines' numbers, as a share of the largest number of a matrix."""


def rehearsed_parameters(  # wide: what a plan depends on
    samples: PublicSamples,
    classes: tuple[str, ...],
    parties: int,
    *,
    epsilon: float,
    delta: float,
    rows: int,
    colluders: int,
    dropouts: int,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Return the parameters of a study's step, which a rehearsal on its public rows chooses.

    Args:
        samples: the public rows, with their labels.
        classes: the classes, in the order of their numbers.
        parties: M.
        epsilon, delta: of the study; a positive delta lets the rehearsal choose Gaussian noise.
        rows: about how many rows all parties have together, as announced.
        colluders, dropouts: that the noise is sized for.
        progress: called for every simulated world.

    Raises:
        NoGainError: no step is expected to improve the public model, so that no study is worth its epsilon.
        DataError: no public row has a label.
    """
    labels = samples.labels(classes)
    terms: dict[str, Any] = {"epsilon": epsilon, "contributors": contributors(parties, colluders, dropouts)}
    terms |= {"delta": delta} if delta else {}
    rehearsal = rehearsal_of(
        samples.auxiliary.samples,
        labels,
        len(classes),
        parties,
        rows=max(1, rows // parties),
        mechanism="gaussian" if delta else "discrete-laplace",
        done=counted(progress, "rehearse", WORLDS),
        **terms,
    )
    if not rehearsal.asks:
        raise NoGainError(
            f"no study is needed: a model of the public rows alone is right on "
            f"{rehearsal.calibration.cross_validated:.1%} of them by cross-validation, and in simulated worlds a step "
            f"of {parties} parties at epsilon {epsilon:g} adds {rehearsal.gain:+.2%} (standard deviation "
            f"{rehearsal.spread:.2%}). psephos run --method rehearsed writes that model; more parties, or a larger "
            "--epsilon, would help"
        )
    plan = plan_rehearsed(rehearsal, parties, **terms)
    grid = plan.grid
    return {
        "coordinates": encode_coordinates(grid.transform),
        "offset": encode_coordinates(grid.offset),
        "ridge": 0.0 if math.isinf(grid.ridge) else grid.ridge,
        "limit": grid.limit,
        "radius": grid.radius,
        "scale": plan.scale,
        "norm": grid.norm,
        "rows": rows,
        "labelled": int((labels >= 0).sum()),
    }


def differs_from_rehearsal(study: Study, samples: PublicSamples) -> str:
    """Return in what a study's plan differs from what a rehearsal on its public rows chooses; "" where it does not.

    Raises:
        NoGainError, DataError: as `rehearsed_parameters`.
    """
    spec = spec_of(StudyTerms(study, samples))
    assert isinstance(spec, RehearsedSpec)
    recomputed = rehearsed_parameters(
        samples,
        study.classes,
        len(study.roster),
        epsilon=study.epsilon,
        delta=study.delta,
        rows=int(study.parameters["rows"]),
        colluders=coalition_of(study) or 0,
        dropouts=int(study.parameters.get("dropouts", 0)),
    )
    return ", ".join(name for name, value in recomputed.items() if not agrees(study.parameters, name, value))


def agrees(parameters: Mapping[str, Any], name: str, value: Any) -> bool:
    """Return whether a stated parameter equals a recomputed value, up to the last bits of a computation."""
    stated = parameters.get(name)
    if stated is None:
        return False
    if name in ("coordinates", "offset"):
        try:
            first, second = (np.frombuffer(base64.b64decode(text), "<f4").astype(float) for text in (stated, value))
        except ValueError:  # of an author who states no numbers
            return False
        return len(first) == len(second) and bool(np.abs(first - second).max() <= _TOLERANCE * np.abs(second).max())
    return math.isclose(stated, value, rel_tol=_TOLERANCE) if isinstance(value, float) else bool(stated == value)
