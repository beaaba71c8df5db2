"""The release of a study: how the curator makes it, and how everybody checks it.

A release is a model file with one private classifier, or one prediction of a number. Everything in it but the
coefficients and the number of counted ballots follows from the study. Where the parties add the noise, the coefficients
follow from the opened sum, which is public, and have the same bits on every machine:

1. The classifier w of scaled rows is computed from the sum in floating point. Its last bits depend on the machine.
2. w is rounded to multiples of `_grid_step(w)`, so that they do not count.
3. Rounded coefficients are converted to unscaled rows (`PublicScaler.fold`) by operations of IEEE 754 alone. The
   middle of the bounds is added to the intercept of a prediction.

Whoever checks repeats step 1. Where an entry lies within `_ERROR` of the middle between two multiples, two machines may
round it differently, and either multiple is accepted; everywhere else the published bits must be the computed ones.
"""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from psephos.curator.ledger import costs_together
from psephos.model import MOST_BYTES, Model, RegressionModel, written_model
from psephos.protocol.errors import AgreementError, StudyError
from psephos.protocol.foreign import printable
from psephos.protocol.privacy.accounting import stated_delta
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.study.study import Study
from psephos.specs.registry import protected_by, spec_of
from psephos.specs.rows import stated_releases
from psephos.specs.terms import StudyTerms
from psephos.study.samples import PublicSamples

if TYPE_CHECKING:
    from psephos.data.preprocessing import PublicScaler

Array = NDArray[np.float64]

_PRECISION = 24
"""Bits that are kept of the largest entry of a classifier. Less than 1e-7 of its length is lost."""

_ERROR = 2.0**-36
"""Bound of the difference between two machines' computations of a classifier, as a share of its largest entry."""

_COST_ERROR = 1e-9
"""Relative bound of the difference between two machines' computations of a privacy cost."""


# -- the curator


def make_release(study: Study, samples: PublicSamples, result: Any, randomness: Randomness = SYSTEM) -> bytes:
    """Make the release of a study, as the bytes of a model file."""
    spec = spec_of(StudyTerms(study, samples))
    w, cost = spec.release(result, randomness)
    if (cost.delta or 0.0) > stated_delta(study.delta):
        raise StudyError(f"the release costs delta {cost.delta!r}, and the study says {stated_delta(study.delta)!r}")
    w, step = np.atleast_2d(w), _grid_step(w)
    coefficients, intercepts = samples.scaler.fold(np.rint(w / step) * step + 0.0)  # adding 0 turns -0 into 0
    release = replace(cost, delta=stated_delta(study.delta), protects=protected_by(study))
    earlier = stated_releases(study)
    common: dict[str, Any] = {
        "psephos_model": 1,
        "encoding": samples.encoding,
        "method": study.method,
        "parties": spec.ballots(result),
        "release": release,
        "warnings": _warnings(study),
        "earlier": earlier,
        "together": costs_together((release, *earlier)) if earlier else (),
    }
    model: Model | RegressionModel
    if (label := spec.numeric_label) is not None:
        model = RegressionModel(
            task="regression",
            label=study.label,
            ranges=_ranges(samples),
            coefficients=tuple(coefficients[0].tolist()),
            intercept=float(intercepts[0] + label.middle),
            bounds=(label.low, label.high),
            **common,
        )
    else:
        model = Model(
            classes=study.classes,
            coefficients=tuple(map(tuple, coefficients.tolist())),
            intercepts=tuple(intercepts.tolist()),
            **common,
        )
    # Written again as it is read: the only bytes that are accepted for this content.
    return written_model(msgspec.json.decode(written_model(model), type=_type_of_model(study)))


def _ranges(samples: PublicSamples) -> tuple[tuple[float, float], ...]:
    """Return the ranges of the features as a model has them."""
    return tuple((low, high) for low, high in samples.ranges.T.tolist())


def _type_of_model(study: Study) -> type[Model] | type[RegressionModel]:
    return RegressionModel if study.predicts_number else Model


def _grid_step(w: Array) -> float:
    """Return the power of 2 of which a released classifier's entries are multiples; 1 if all entries are 0."""
    largest = float(np.abs(w).max())
    return math.ldexp(1.0, math.frexp(largest)[1] - _PRECISION) if largest > 0 else 1.0


def _warnings(study: Study) -> tuple[str, ...]:
    return ("A trial: the key of this study may be too short to protect anything.",) if study.trial else ()


# -- everybody else


def read_release(study: Study, samples: PublicSamples, content: bytes) -> Model | RegressionModel:
    """Read what the curator published, and compare all but the coefficients (`follows_from_sum`) with the study.

    Raises AgreementError for what is no model, is not written as `make_release` writes one, or differs from the study
    in its classes, columns, method, number of ballots or privacy cost; of a prediction, in its label, ranges or bounds.
    """
    if len(content) > MOST_BYTES:
        raise AgreementError("the curator published a result larger than any model")
    try:
        model = msgspec.json.decode(content, type=_type_of_model(study))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        # The curator writes parts of the error's text, such as the name of an unknown field.
        why = printable(str(error), 200)
        raise AgreementError(f"the curator's result is not a model of this version of Psephos: {why}") from None
    if written_model(model) != content:
        # A field that occurs twice has one value here and may have the other one in another reader of JSON.
        raise AgreementError("the curator's result is not written as Psephos writes a model")
    spec = spec_of(StudyTerms(study, samples))
    if isinstance(model, Model):
        own = [("classes", model.classes == study.classes), ("calibration", model.calibration is None)]
    else:
        label = spec.numeric_label
        own = [
            ("label", model.label == study.label),
            ("ranges", model.ranges == _ranges(samples)),
            ("bounds", label is not None and model.bounds == (label.low, label.high)),
        ]
    for name, agrees in (
        *own,
        ("encoding", model.encoding == samples.encoding),
        ("method", model.method == study.method),
        ("warnings", model.warnings == _warnings(study)),
        ("earlier releases", model.earlier == stated_releases(study)),
        ("number of ballots", study.minimum_ballots <= model.parties <= len(study.parties)),
    ):
        if not agrees:
            raise AgreementError(f"the curator's result differs from the study in its {name}")
    expected = replace(spec.cost(model.parties), delta=stated_delta(study.delta), protects=protected_by(study))
    stated = asdict(model.release)
    exact = stated["delta"] == expected.delta and (stated["epsilon"] or math.inf) <= study.epsilon * (1 + 1e-12)
    if not exact:
        raise AgreementError("the curator's result differs from the study in the epsilon or delta of its privacy cost")
    for name, value in asdict(expected).items():
        if not _equal(stated[name], value):
            raise AgreementError(f"the curator's result differs from the study in the {name} of its privacy cost")
    return model


def _equal(stated: Any, expected: Any) -> bool:
    """Return whether two values of a `Release` are equal, or differ in the last bits of a computation."""
    if isinstance(expected, dict):
        return (
            isinstance(stated, dict)
            and stated.keys() == expected.keys()
            and all(_equal(stated[name], value) for name, value in expected.items())
        )
    if isinstance(expected, float) and type(stated) in (int, float):
        return math.isclose(stated, expected, rel_tol=_COST_ERROR)
    return type(stated) is type(expected) and bool(stated == expected)


def follows_from_sum(study: Study, samples: PublicSamples, model: Model | RegressionModel, result: Any) -> bool:
    """Return whether a model's coefficients are those that follow from the opened sum."""
    spec = spec_of(StudyTerms(study, samples))
    if model.parties != spec.ballots(result):
        return False
    middle = 0.0 if spec.numeric_label is None else spec.numeric_label.middle
    return _is_rounded(np.atleast_2d(spec.release(result)[0]), model, samples.scaler, middle)


def _is_rounded(w: Array, model: Model | RegressionModel, scaler: PublicScaler, middle: float = 0.0) -> bool:
    """Return whether a model is w (k, d'), rounded, and converted to unscaled rows; `middle`: added to intercepts."""
    published = np.atleast_2d(np.array(model.coefficients))
    step = _grid_step(w)
    position = w / step
    nearest = np.rint(position)
    offset = position - nearest
    second = nearest + np.where(offset > 0, 1.0, -1.0)
    ambiguous = np.abs(offset) >= 0.5 - _ERROR * float(np.abs(w).max()) / step
    # The coefficient of a feature depends on the entry of that feature alone, and settles which multiple was taken.
    features = published.shape[1]
    second_published = ambiguous[:, :features] & (scaler.fold(second * step)[0] == published)
    multiples = nearest.copy()
    multiples[:, :features][second_published] = second[:, :features][second_published]
    constant = multiples.copy()
    constant[:, features:] = np.where(ambiguous, second, nearest)[:, features:]
    candidates = [scaler.fold(choice * step + 0.0) for choice in (multiples, constant)]
    if isinstance(model, RegressionModel):
        candidates = [(coefficients, intercepts + middle) for coefficients, intercepts in candidates]
    intercepts = np.array(model.intercepts if isinstance(model, Model) else (model.intercept,))
    return bool(
        _same_bits(candidates[0][0], published).all()
        and (_same_bits(candidates[0][1], intercepts) | _same_bits(candidates[1][1], intercepts)).all()
    )


def _same_bits(first: Array, second: Array) -> NDArray[np.bool_]:
    """Return where two arrays of one shape are equal, -0 and 0 being different."""
    same: NDArray[np.bool_] = (first == second) & (np.signbit(first) == np.signbit(second))
    return same
