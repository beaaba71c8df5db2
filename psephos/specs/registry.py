"""The protocols that studies name, and the specification of a study (docs/study.md)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from psephos.parties.noise import NoiseFrom
from psephos.protocol.errors import InvalidParameter, StudyError
from psephos.protocol.privacy.mechanisms import gaussian_sigma
from psephos.protocol.privacy.unit import Changes, PrivacyUnit
from psephos.protocol.study.study import Study
from psephos.specs.average import AverageSpec
from psephos.specs.base import Participants, Spec
from psephos.specs.evaluation import EvaluationSpec
from psephos.specs.pathak import PathakSpec
from psephos.specs.psgd import PsgdSpec
from psephos.specs.record import RecordSpec
from psephos.specs.regression import RegressionSpec
from psephos.specs.rehearsed import RehearsedSpec
from psephos.specs.statistic import StatisticSpec
from psephos.specs.study import SAMPLES, DerivedDefault, StudyTerms
from psephos.specs.tally import TallySpec

__all__ = [
    "SPECS",
    "check_study",
    "coalition_of",
    "is_verifiable",
    "multiplier_of",
    "noise_from",
    "participants_of",
    "person_column",
    "protected_by",
    "spec_of",
    "type_of_parameter",
    "unit_of",
]

SPECS: dict[str, type[Spec]] = {
    "tally": TallySpec,
    "statistic": StatisticSpec,
    "average": AverageSpec,
    "rehearsed": RehearsedSpec,
    "record": RecordSpec,
    "regression": RegressionSpec,
    "evaluation": EvaluationSpec,
    "psgd": PsgdSpec,
    "pathak": PathakSpec,
}
"""The class of each protocol, by its name in a study."""


def spec_of(terms: StudyTerms) -> Spec:
    """Return the specification of a study's protocol.

    Raises StudyError for a method or parameters that the protocol does not have, and for parameters that do not go
    together.
    """
    kind = check_study(terms.study)
    try:
        return kind.from_study(replace(terms, defaults=kind.parameters))
    except InvalidParameter as error:
        raise StudyError(str(error)) from None


def check_study(study: Study) -> type[Spec]:
    """Return the class of a study's protocol; raises StudyError for a method or parameters that it does not have."""
    kind = SPECS[study.protocol]
    if study.method not in kind.methods:
        raise StudyError(f"{study.protocol} is released by one of {', '.join(kind.methods)}, not by {study.method!r}")
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


def is_verifiable(study: Study) -> bool:
    """Return whether everybody who reads the board can compute the classifier that a study must release."""
    return SPECS[study.protocol].joint and study.sum_is_public


def type_of_parameter(default: Any) -> type:
    """Return the type of a parameter from its default in `Spec.parameters`, which may be the type itself."""
    if isinstance(default, DerivedDefault):
        return default.kind
    return default if isinstance(default, type) else type(default)


def participants_of(study: Study) -> Participants:
    """Return who takes part in a study, and under which conditions a sum is opened."""
    return Participants(
        study.roster,
        study.minimum_ballots,
        study.trial,
        study.proofs,
        study.confirmations,
        study.nonce_for,
    )


def coalition_of(study: Study) -> int | None:
    """Return how many colluding parties the noise of a study withstands; None where the curator adds the noise.

    Where the key holders add the noise, these are key holders. The number is given in the study, or follows from its
    threshold.
    """
    defaults = SPECS[study.protocol].parameters
    if study.protocol == "pathak":
        return int(study.parameters.get("excluded", defaults["excluded"]))
    if "colluders" not in defaults:
        return None
    return int(study.parameters.get("colluders", defaults["colluders"].rule(study)))


def noise_from(study: Study) -> NoiseFrom:
    """Return who adds the noise of a study in which the curator does not: "parties" or "holders"."""
    return "holders" if study.parameters.get("noise_from") == "holders" else "parties"


def person_column(study: Study) -> str:
    """Return the column that names persons where a study protects a person with all rows at a party; "" elsewhere."""
    return str(study.parameters.get("record", "")) if "record" in SPECS[study.protocol].parameters else ""


def multiplier_of(study: Study) -> float | None:
    """Return sigma over the sensitivity where a study is one release with Gaussian noise; None elsewhere.

    It is the least that is private with the study's epsilon and delta, and the noise of a study has it. Descents
    compose many sums, and are known by their epsilon and delta alone.
    """
    if not study.delta or study.protocol in ("psgd", "pathak", "evaluation"):
        return None
    if study.protocol == "rehearsed" and study.parameters.get("norm") != "l2":
        return None
    return gaussian_sigma(1.0, study.epsilon, study.delta)


def unit_of(study: Study) -> str:
    """Return the unit of privacy of a study: "party" or "record"."""
    kind = SPECS[study.protocol]
    return str(study.parameters.get("unit", kind.unit)) if "unit" in kind.parameters else kind.unit


def protected_by(study: Study) -> PrivacyUnit:
    """Return what a study protects of a member, whose file has the rows of one party."""
    # Gradient descent states the number of each party's rows.
    neighbours: Changes = "replace" if study.protocol == "psgd" else "any"
    if unit_of(study) == "party":
        return PrivacyUnit("party", "", neighbours)
    column = person_column(study)
    return PrivacyUnit("person" if column else "record", column, neighbours)
