"""The protocols that studies name, and the specification of a study (docs/study.md)."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from psephos.parties.noise import NoiseFrom
from psephos.progress import Progress, silent
from psephos.protocol.errors import InvalidParameter, StudyError
from psephos.protocol.privacy.mechanisms import gaussian_sigma
from psephos.protocol.privacy.unit import Changes, PrivacyUnit
from psephos.protocol.study.study import Study
from psephos.specs.base import Participants, Spec
from psephos.specs.exact import AverageSpec, TallySpec
from psephos.specs.head import HeadSpec
from psephos.specs.noisy import StatisticSpec
from psephos.specs.pathak import PathakSpec
from psephos.specs.psgd import PsgdSpec
from psephos.specs.rows import EvaluationSpec, RecordSpec, RegressionSpec, RehearsedSpec
from psephos.specs.terms import SAMPLES, StudyTerms, decode_parameters, type_of_parameter, value_of

SPECS: dict[str, type[Spec]] = {
    "tally": TallySpec,
    "statistic": StatisticSpec,
    "average": AverageSpec,
    "head": HeadSpec,
    "rehearsed": RehearsedSpec,
    "record": RecordSpec,
    "regression": RegressionSpec,
    "evaluation": EvaluationSpec,
    "psgd": PsgdSpec,
    "pathak": PathakSpec,
}
"""The class of each protocol, by its name in a study."""

if TYPE_CHECKING:
    ProtocolName = str
else:
    ProtocolName = Literal[tuple(SPECS)]


def spec_class(protocol: str) -> type[Spec]:
    """Return the class of a protocol; raises StudyError for a name that this version does not have."""
    if protocol not in SPECS:
        raise StudyError(f"`protocol` is one of {', '.join(SPECS)} in this version, not {protocol!r}")
    return SPECS[protocol]


def plan_study(terms: StudyTerms, progress: Progress = silent, *, anew: bool = False) -> Spec:
    """Return the specification that a study's protocol plans for it.

    `anew`: by the rules for its public rows, whatever the study states of a plan. Raises as `Spec.plan`, but StudyError
    in place of InvalidParameter.
    """
    kind = spec_class(terms.study.protocol)
    public = terms.public_terms(kind.parameters)
    if anew:
        public = replace(public, agreed={})
    try:
        return kind.plan(public, terms.privacy(kind.parameters, kind.unit), progress)
    except InvalidParameter as error:
        raise StudyError(str(error)) from None


def spec_of(terms: StudyTerms) -> Spec:
    """Return the specification of a study's protocol; raises StudyError for terms that it does not have or allow."""
    check_study(terms.study)
    spec = plan_study(terms)
    spec.check_study(terms.study)
    return spec


def differs_from_plan(terms: StudyTerms) -> list[str]:
    """Return the parameters in which a study differs from what the rules give for its public rows.

    No privacy depends on the comparison: the sensitivity is certified for any plan. It shows that no number of the plan
    says anything about private rows. Raises as `plan_study`.
    """
    planned = plan_study(terms, anew=True).stated()
    stated = decode_parameters(terms.study, spec_class(terms.study.protocol).parameters)
    return [name for name, value in planned.items() if not _agrees(name, stated.get(name), value)]


_TOLERANCE = 1e-4
"""Largest difference of two machines' numbers, as a share of the largest number of a matrix."""

_EXACT = ("low", "high")
"""Numbers that are no result of linear algebra, and so have the same bits on every machine."""


def _agrees(name: str, stated: Any, planned: Any) -> bool:
    """Return whether a stated parameter equals a planned value, up to the last bits of a computation."""
    if isinstance(planned, np.ndarray):
        same = isinstance(stated, np.ndarray) and stated.shape == planned.shape
        return same and bool(np.abs(stated - planned).max() <= _TOLERANCE * np.abs(planned).max())
    if isinstance(planned, float) and name not in _EXACT:
        return stated is not None and math.isclose(stated, planned, rel_tol=_TOLERANCE)
    return bool(stated == planned)


def check_study(study: Study) -> type[Spec]:
    """Return the class of a study's protocol; raises StudyError for a method or parameters that it does not have."""
    kind = spec_class(study.protocol)
    if study.method not in kind.methods:
        raise StudyError(f"{study.protocol} is released by one of {', '.join(kind.methods)}, not by {study.method!r}")
    if kind.keyed != study.uses_key:
        raise StudyError(f"a study of {study.protocol} has {'a' if kind.keyed else 'no'} key: `key_bits` does not fit")
    if study.public and not kind.joint:
        raise StudyError(
            f"`public` is not allowed for {study.protocol}: its sums have no noise, so no epsilon would hold"
        )
    if (kind.numeric or not kind.evaluates) and kind.numeric != study.predicts_number:
        raise StudyError(f"{study.protocol} {'predicts a number, which has no' if kind.numeric else 'needs'} `classes`")
    if study.proofs == "valid" and not study.uses_key:
        raise StudyError(f"the messages of {study.protocol} carry no proofs: choose --proofs knowledge")
    known = {**SAMPLES, **kind.parameters}
    for name, value in study.parameters.items():
        if name not in known:
            raise StudyError(
                f"{name} is no parameter of {study.protocol} in this version, whose parameters are "
                f"{', '.join(kind.parameters)}: the version that made the study reads it"
            )
        expected_type = type_of_parameter(known[name])
        if type(value) is not expected_type and not (expected_type is float and type(value) is int):
            raise StudyError(f"the parameter {name} is {value!r}, and should be of type {expected_type.__name__}")
    for name, default in known.items():
        if isinstance(default, type) and name not in study.parameters:
            raise StudyError(f"a study of {study.protocol} must state the parameter {name}")
    return kind


def read_study(path: Path) -> Study:
    """Read a study that this version can run; raises StudyError as `Study.read` and `check_study`."""
    study = Study.read(path)
    check_study(study)
    return study


def is_verifiable(study: Study) -> bool:
    """Return whether everybody who reads the board can compute the classifier that a study must release."""
    return spec_class(study.protocol).joint and study.sum_is_public


def participants_of(study: Study) -> Participants:
    conditions = study.minimum_ballots, study.trial, study.proofs, study.confirmations
    return Participants(study.roster, *conditions, study.nonce_for)


def coalition_of(study: Study) -> int | None:
    """Return how many colluding parties, or holders where these add the noise, the noise of a study withstands.

    None where the curator adds it.
    """
    parameters = spec_class(study.protocol).parameters
    named = next((name for name in ("colluders", "excluded") if name in parameters), None)
    return None if named is None else int(value_of(study, parameters, named))


def noise_from(study: Study) -> NoiseFrom:
    """Return who adds the noise of a study in which the curator does not: "parties" or "holders"."""
    return "holders" if study.parameters.get("noise_from") == "holders" else "parties"


def multiplier_of(study: Study) -> float | None:
    """Return sigma over the sensitivity where a study is one release with Gaussian noise; None elsewhere."""
    if not spec_class(study.protocol).has_gaussian_noise(study):
        return None
    return gaussian_sigma(1.0, study.epsilon, study.delta)


def protected_by(study: Study) -> PrivacyUnit:
    """Return what a study protects: a person with all rows at a party where its parameter `record` names persons."""
    kind = spec_class(study.protocol)
    stated = {name: str(value) for name, value in study.parameters.items() if name in kind.parameters}
    neighbours: Changes = "replace" if kind.states_sizes else "any"
    if stated.get("unit", kind.unit) == "party":
        return PrivacyUnit("party", "", neighbours)
    column = stated.get("record", "")
    return PrivacyUnit("person" if column else "record", column, neighbours)
