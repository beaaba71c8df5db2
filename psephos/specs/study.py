"""The parameters of a signed study, as its protocol's specification reads them (docs/study.md)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.curator.hamm.methods import ReleaseRequest
from psephos.curator.hamm.statistic import MechanismName
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import StudyError
from psephos.protocol.study.study import Study

__all__ = ["COLLUDERS", "DerivedDefault", "StudyTerms", "check_dropouts", "encode_coordinates", "request_of"]


@dataclass(frozen=True)
class DerivedDefault:
    """A parameter whose default follows from the study: its type, and the rule."""

    kind: type
    rule: Callable[[Study], Any]


COLLUDERS = DerivedDefault(int, lambda study: max(0, study.threshold - 1))
"""Parties that may tell each other their noise: by default as many as there are key holders that cannot open a sum."""

SAMPLES = {"ignore": "", "text": ""}
"""Parameters about the public samples, which any study may have; their default, which is also their type."""


@dataclass(frozen=True)
class StudyTerms:
    """A study and its auxiliary samples, with the parameters that its protocol has.

    Attributes:
        study: what everybody signed.
        auxiliary: the public samples, float64 (N, d).
        defaults: the protocol's parameters (`Spec.parameters`).

    Raises StudyError when these are not the samples that the study was signed about.
    """

    study: Study
    auxiliary: AuxiliarySet = field(repr=False)
    defaults: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.auxiliary.digest != self.study.auxiliary:
            raise StudyError(
                "these are not the auxiliary samples of the study: another file, other columns, or another version of "
                "Psephos encoded them"
            )
        rows, columns = self.auxiliary.samples.shape
        if (rows, columns) != (self.study.samples, len(self.study.features)):
            raise StudyError(f"the study has {self.study.samples} samples of {len(self.study.features)} features")

    def value(self, name: str) -> Any:
        """Return a parameter, or its default."""
        default = self.defaults[name]
        if isinstance(default, DerivedDefault):
            default = default.rule(self.study)
        value = self.study.parameters.get(name, default)
        return float(value) if float in (default, type(default)) else value

    def require(self, name: str) -> None:
        """Raise StudyError where the study does not give a parameter that its method needs."""
        if not self.value(name):
            raise StudyError(f"an average released by {self.study.method} must state the parameter {name}")

    def coordinates(self, name: str = "coordinates") -> NDArray[np.float64]:
        """Return the parameter `name`, a matrix (d, r). Raises StudyError for what is no such matrix."""
        features = len(self.study.features)
        try:
            numbers = np.frombuffer(base64.b64decode(self.value(name), validate=True), "<f4")
        except (binascii.Error, ValueError):
            raise StudyError(f"the {name} of the study are no float32 numbers in base64") from None
        if not numbers.size or numbers.size % features or not np.isfinite(numbers).all():
            raise StudyError(f"the {name} of the study are not those of {features} features")
        return numbers.astype(np.float64).reshape(features, -1)


def check_dropouts(study: Study, dropouts: int) -> None:
    """Raise StudyError where a sum could be opened with more absent parties than `dropouts`."""
    fewest = len(study.roster) - dropouts
    if study.minimum_ballots < fewest:
        raise StudyError(
            f"with dropouts={dropouts} a sum is opened of {fewest} ballots or more, and the minimum of ballots is "
            f"{study.minimum_ballots}: raise the minimum or dropouts"
        )


def encode_coordinates(transform: NDArray[np.float64]) -> str:
    """Return coordinates (d, r) as the parameter of a study: float32, in base64."""
    return base64.b64encode(transform.astype("<f4").tobytes()).decode()


def request_of(study: Study) -> ReleaseRequest:
    """Return what a study asks of the methods to which the curator adds the noise."""
    lam = study.parameters.get("lam")
    noise: MechanismName = "gaussian" if study.delta else "spherical-laplace"
    return ReleaseRequest(study.epsilon, study.delta, noise, None if lam is None else float(lam), "certified", False)
