"""What a specification is planned from: values that everybody knows, and the privacy that is agreed on.

Both follow from a signed study (docs/study.md) and its public table.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from psephos.curator.checks import public_features
from psephos.curator.methods import ReleaseRequest
from psephos.curator.rehearsal import PublicModel, fit_public
from psephos.curator.statistic import MechanismName
from psephos.parties.noise import NoiseFrom
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import InvalidParameter, StudyError
from psephos.protocol.study.study import Study

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicTerms:
    """What everybody knows before the first message.

    Attributes:
        auxiliary: the public samples, float64 (N, d).
        classes: K; 1 where the label is a number.
        parties: M.
        class_names: the classes in the order of their numbers, where a protocol agrees on names.
        method: what is released, where the protocol has several methods.
        labels: of the public samples, (N,): class numbers, -1 for none, or numbers, NaN for none; None where none has
            one.
        log_odds: of a forest of the public samples, as linear functions of samples divided by their constant, float64
            (d, 1) for two classes, (d, K) for more; None without a forest.
        rows: the announced number of rows of all parties together; None for the protocol's usual number.
        agreed: parameters that take the place of what a public rule gives; matrices as arrays.
    """

    auxiliary: AuxiliarySet = field(repr=False)
    classes: int
    parties: int
    class_names: tuple[str, ...] = ()
    method: str = ""
    labels: NDArray[Any] | None = field(default=None, repr=False)
    log_odds: NDArray[np.float64] | None = field(default=None, repr=False)
    rows: int | None = None
    agreed: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def samples(self) -> Array:
        return self.auxiliary.samples

    def required(self, name: str) -> Any:
        """Return an agreed parameter that no rule gives. Raises InvalidParameter where it is missing."""
        if name not in self.agreed:
            raise InvalidParameter(f"this release must state the parameter {name}")
        return self.agreed[name]

    @cached_property
    def model(self) -> PublicModel:
        """The model of the labelled public samples; raises DataError where none has a label."""
        assert self.labels is not None
        return fit_public(public_features(self.samples), self.labels, self.classes, self.log_odds)


@dataclass(frozen=True, kw_only=True)
class PrivacyTerms:
    """What a release protects, and against whom.

    Attributes:
        epsilon: of the release; None for the plan of a sum without noise.
        delta: of the release; a delta of 0 chooses noise of a pure epsilon.
        mechanism: the noise; None for the protocol's own.
        unit: what is protected, where the protocol leaves the choice.
        persons: the column that names persons, where a person with all rows at a party is protected; else "".
        colluders: parties (or key holders, where these add the noise) that may tell each other their noise.
        dropouts: parties that may be absent.
        holders: the number of key holders where these add the noise; 0 where the parties do.
        lam: the ridge lambda of what is fitted; None for the method's rule.
        simulation_seed: draws the noise of parties and holders from a seed: for simulations only.
    """

    epsilon: float | None
    delta: float = 0.0
    mechanism: MechanismName | None = None
    unit: Literal["record", "party"] = "record"
    persons: str = ""
    colluders: int = 0
    dropouts: int = 0
    holders: int = 0
    lam: float | None = None
    simulation_seed: int | None = None

    def __post_init__(self) -> None:
        if self.colluders < 0 or self.dropouts < 0:
            raise InvalidParameter(
                f"colluders and dropouts cannot be negative, but they are {self.colluders} and {self.dropouts}"
            )
        if self.persons and self.unit == "party":
            raise InvalidParameter(
                f"the column {self.persons} names persons, whom the unit record protects: leave it out"
            )

    @property
    def noise_from(self) -> NoiseFrom:
        return "holders" if self.holders else "parties"

    @property
    def joint_noise(self) -> MechanismName:
        """The noise that parties or key holders add in shares."""
        return self.mechanism or ("gaussian" if self.delta else "discrete-laplace")

    @property
    def request(self) -> ReleaseRequest:
        """What the methods to which the curator adds the noise are asked for."""
        noise = self.mechanism or ("gaussian" if self.delta else "spherical-laplace")
        assert self.epsilon is not None
        return ReleaseRequest(self.epsilon, self.delta, noise, self.lam)


# -- of a study

Parameters = Mapping[str, Any]


@dataclass(frozen=True)
class DerivedDefault:
    """A parameter whose default follows from the study: its type, and the rule."""

    kind: type
    rule: Callable[[Study], Any]


COLLUDERS = DerivedDefault(int, lambda study: max(0, study.threshold - 1))
"""Parties that may tell each other their noise: by default as many as there are key holders that cannot open a sum."""

SAMPLES = {"ignore": "", "text": "", "map": ""}
"""Parameters about the public samples, which any study may have; their default, which is also their type."""

MATRICES = ("coordinates", "offset", "classifier")
"""Parameters that are matrices (d, r), which a study states as float32 in base64."""


class PublicTable(Protocol):
    @property
    def digest(self) -> bytes:
        """SHA-256 of all that is computed from the file, 32 bytes, as a study signs it."""

    @property
    def auxiliary(self) -> AuxiliarySet:
        """The samples, which follow from what is digested."""

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the samples' columns."""

    @property
    def log_odds(self) -> NDArray[np.float64] | None:
        """See `PublicTerms`."""

    def labels(self, classes: Sequence[str]) -> NDArray[Any]:
        """The class numbers of the samples, (N,), -1 where there is none; without classes numbers, NaN for none."""


@dataclass(frozen=True)
class StudyTerms:
    """A study and its public table; raises StudyError when this is not the table that the study was signed about."""

    study: Study
    public: PublicTable = field(repr=False)

    def __post_init__(self) -> None:
        if self.public.digest != self.study.public_table:
            raise StudyError(
                "this is not the study's public file, or another version of Psephos reads it differently: a column, a "
                f"cell or a label differs. Ask the study's author for the file ({self.study.public_table.hex()[:16]})"
            )
        if (len(self.public.auxiliary.samples), self.public.features) != (self.study.samples, self.study.features):
            raise StudyError("the study states other features, or another number of rows, than its public file has")

    def public_terms(self, parameters: Parameters) -> PublicTerms:
        """Return what everybody knows; `parameters`: those of the protocol (`Spec.parameters`)."""
        study = self.study
        return PublicTerms(
            auxiliary=self.public.auxiliary,
            classes=len(study.classes) or 1,
            parties=len(study.roster),
            class_names=study.classes,
            method=study.method,
            labels=self.public.labels(study.classes),
            log_odds=self.public.log_odds,
            rows=study.parameters.get("rows"),  # type: ignore[arg-type]
            agreed=decode_parameters(study, parameters),
        )

    def privacy(self, parameters: Parameters, unit: str) -> PrivacyTerms:
        """Return what the release protects, by default the `unit`; `parameters` as in `public_terms`.

        Raises StudyError or InvalidParameter for terms that cannot be.
        """
        study = self.study
        value = {name: value_of(study, parameters, name) for name in _PRIVACY if name in parameters}
        source = value.get("noise_from", "parties")
        if source not in get_args(NoiseFrom):
            raise StudyError(f"noise_from is {' or '.join(get_args(NoiseFrom))}, not {source!r}")
        return PrivacyTerms(
            epsilon=study.epsilon,
            delta=study.delta,
            unit=value.get("unit", unit),
            persons=value.get("record", ""),
            colluders=value.get("colluders", 0),
            dropouts=value.get("dropouts", 0),
            holders=len(study.holders) if source == "holders" else 0,
            lam=value_of(study, parameters, "lam") if "lam" in study.parameters else None,
        )


_PRIVACY = ("unit", "record", "colluders", "dropouts", "noise_from")
"""Parameters of a study that say what is protected, and against whom."""


def value_of(study: Study, parameters: Parameters, name: str) -> Any:
    """Return a parameter of a study, or its default; `parameters`: those of the protocol."""
    default = parameters[name]
    if isinstance(default, DerivedDefault):
        default = default.rule(study)
    value = study.parameters.get(name, default)
    return float(value) if float in (default, type(default)) else value


def type_of_parameter(default: Any) -> type:
    """Return the type of a parameter from its default in `Spec.parameters`, which may be the type itself."""
    if isinstance(default, DerivedDefault):
        return default.kind
    return default if isinstance(default, type) else type(default)


def decode_parameters(study: Study, parameters: Parameters) -> dict[str, Any]:
    """Return the parameters that a study states, matrices as float64 (d, r); raises StudyError for what is none."""
    stated = {name: value_of(study, parameters, name) for name in parameters if name in study.parameters}
    matrices = {name: _matrix(name, stated[name], len(study.features)) for name in MATRICES if name in stated}
    return stated | matrices


def encode_parameters(parameters: Parameters) -> dict[str, Any]:
    return {
        name: encode_coordinates(value) if isinstance(value, np.ndarray) else value
        for name, value in parameters.items()
    }


def encode_coordinates(transform: NDArray[np.float64]) -> str:
    """Return a matrix (d, r) as the parameter of a study: float32, in base64."""
    return base64.b64encode(transform.astype("<f4").tobytes()).decode()


def _matrix(name: str, text: str, features: int) -> NDArray[np.float64]:
    try:
        numbers = np.frombuffer(base64.b64decode(text, validate=True), "<f4")
    except (binascii.Error, ValueError):
        raise StudyError(f"the {name} of the study are no float32 numbers in base64") from None
    if not numbers.size or numbers.size % features or not np.isfinite(numbers).all():
        raise StudyError(f"the {name} of the study are not those of {features} features")
    return numbers.astype(np.float64).reshape(features, -1)
