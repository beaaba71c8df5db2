"""The plan of a regression study: a function of its public rows and terms, which everybody computes again.

The bounds of the label must have the same bits on every machine. Another machine's linear
algebra may differ in the last bits, so that the rest is compared with a tolerance. No privacy depends on the
comparison: the sensitivity is certified for any plan (docs/theory.md, "The record step"). It shows that no number of
the plan says anything about private rows.
"""

from __future__ import annotations

from typing import Any

from psephos.curator.record import Unit, plan_records
from psephos.parties.noise import contributors
from psephos.protocol.errors import StudyError
from psephos.protocol.grids.record import ENTRY_BITS
from psephos.protocol.study.study import Study
from psephos.specs.registry import coalition_of, unit_of
from psephos.specs.study import encode_coordinates
from psephos.study.rehearsal import agrees
from psephos.study.samples import PublicSamples

__all__ = ["check_plan", "differs_from_public_rows", "regression_parameters"]

_EXACT = ("low", "high", "labelled", "rows")
"""Parameters that have the same bits on every machine."""


def regression_parameters(  # wide: what a plan depends on
    samples: PublicSamples,
    parties: int,
    *,
    epsilon: float,
    delta: float,
    rows: int,
    unit: Unit,
    colluders: int,
    dropouts: int,
) -> dict[str, Any]:
    """Return the parameters of a regression study that follow from its public rows.

    Args:
        samples: the public rows, with their labels.
        parties: M.
        epsilon, delta: of the study; a positive delta chooses Gaussian noise.
        rows: about how many rows all parties have together, as announced.
        unit: what is protected.
        colluders, dropouts: that the noise is sized for.

    Raises:
        DataError: too few public rows have a numeric label, or all are the same.
        InvalidParameter: as `plan_records`.
    """
    plan = plan_records(
        samples.auxiliary.samples,
        samples.numbers(),
        1,
        parties,
        rows=rows,
        epsilon=epsilon,
        delta=delta,
        mechanism="gaussian" if delta else "discrete-laplace",
        contributors=contributors(parties, colluders, dropouts),
        unit=unit,
    )
    grid = plan.grid
    assert grid.label is not None
    radius = {} if grid.ball is None else {"radius": grid.ball.radius / 2.0**ENTRY_BITS}
    return radius | {
        "coordinates": encode_coordinates(grid.transform),
        "offset": encode_coordinates(grid.offset),
        "constant": grid.constant,
        "low": grid.label.low,
        "high": grid.label.high,
        "threshold": grid.label.threshold,
        "rows": rows,
        "labelled": plan.labelled,
    }


def differs_from_public_rows(study: Study, samples: PublicSamples) -> str:
    """Return in what a study's plan differs from that of its public rows; "" where it does not.

    Raises:
        DataError, InvalidParameter: as `regression_parameters`.
    """
    unit: Any = unit_of(study)
    recomputed = regression_parameters(
        samples,
        len(study.roster),
        epsilon=study.epsilon,
        delta=study.delta,
        rows=int(study.parameters["rows"]),
        unit=unit,
        colluders=coalition_of(study) or 0,
        dropouts=int(study.parameters.get("dropouts", 0)),
    )
    stated = study.parameters
    changed = [
        name
        for name, value in recomputed.items()
        if not (stated.get(name) == value if name in _EXACT else agrees(stated, name, value))
    ]
    return ", ".join(changed)


def check_plan(study: Study, samples: PublicSamples) -> None:
    """Raise StudyError unless the plan of a regression study is that of the public rows; as `differs_from_public_rows`.

    Other studies pass: their members and `psephos verify` check their plans elsewhere, or they have none.
    """
    if study.protocol == "regression" and (changed := differs_from_public_rows(study, samples)):
        raise StudyError(
            f"the study's {changed} are not those of the public file: whoever wrote the study had another file, or "
            "took them from somewhere else"
        )
