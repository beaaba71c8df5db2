"""The parameters of a signed study, as its protocol's specification reads them (docs/study.md)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from psephos.curator.methods import ReleaseRequest
from psephos.curator.statistic import MechanismName
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import StudyError
from psephos.protocol.study.study import Study

__all__ = [
    "COLLUDERS",
    "DerivedDefault",
    "PublicTable",
    "StudyTerms",
    "check_dropouts",
    "encode_coordinates",
    "request_of",
]


@dataclass(frozen=True)
class DerivedDefault:
    """A parameter whose default follows from the study: its type, and the rule."""

    kind: type
    rule: Callable[[Study], Any]


COLLUDERS = DerivedDefault(int, lambda study: max(0, study.threshold - 1))
"""Parties that may tell each other their noise: by default as many as there are key holders that cannot open a sum."""

SAMPLES = {"ignore": "", "text": ""}
"""Parameters about the public samples, which any study may have; their default, which is also their type."""


class PublicTable(Protocol):
    """What a specification takes of the public file."""

    @property
    def digest(self) -> bytes:
        """SHA-256 of all that is computed from the file, 32 bytes, as a study signs it."""

    @property
    def auxiliary(self) -> AuxiliarySet:
        """The samples, which follow from what is digested."""

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the samples' columns."""


@dataclass(frozen=True)
class StudyTerms:
    """A study and its public table, with the parameters that its protocol has.

    Attributes:
        study: what everybody signed.
        public: what was read from the public file.
        defaults: the protocol's parameters (`Spec.parameters`).

    Raises StudyError when this is not the table that the study was signed about.
    """

    study: Study
    public: PublicTable = field(repr=False)
    defaults: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.public.digest != self.study.public_table:
            raise StudyError(
                "this is not the study's public file, or another version of Psephos reads it differently: a column, a "
                f"cell or a label differs. Ask the study's author for the file ({self.study.public_table.hex()[:16]})"
            )
        if (len(self.auxiliary.samples), self.public.features) != (self.study.samples, self.study.features):
            raise StudyError("the study states other features, or another number of rows, than its public file has")

    @property
    def auxiliary(self) -> AuxiliarySet:
        """The public samples, float64 (N, d)."""
        return self.public.auxiliary

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
    return ReleaseRequest(study.epsilon, study.delta, noise, None if lam is None else float(lam))
